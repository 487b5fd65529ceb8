"""`fabrica sweep`: what releases at several epsilons would achieve, on a stand-in or charged to the ledger."""

from pathlib import Path
from typing import Annotated

import typer

from flows.command import AsJson, Debug, errors_shown
from flows.terminal import Terminal
from schemas.errors import RequestRefused
from schemas.sweep import Sweep


def sweep(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="A release spec; its own epsilon is left aside.")],
    epsilons: Annotated[
        str, typer.Option(metavar="LIST", help="Epsilons of the spec's unit, separated by commas, such as 0.5,1,2,4,8.")
    ],
    stand_in: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="A public table with the same columns, in the source's place; is free."),
    ] = None,
    charge: Annotated[
        bool, typer.Option("--charge", help="Use the source, and charge every epsilon to the data set's budget.")
    ] = False,
    sweep_id: Annotated[str | None, typer.Option(help="Name of the sweep; without it, a new one.")] = None,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only the outcome.")] = False,
    debug: Debug = False,
) -> None:
    """A privacy-utility curve over epsilon: accuracy and attack of releases at several epsilons; none is published.

    On the confidential table it is never free. Give --stand-in PATH, and a public table takes the source's place, or
    --charge, and every epsilon is charged to the data set's budget before any noise is drawn.
    """
    with errors_shown(as_json=as_json, debug=debug):
        from flows.sweep import sweep as run
        from tasks.step import observed_by
        from tasks.sweep import NEVER_FREE, new_sweep_id, read_epsilons
        from tasks.workspace import Workspace

        if (stand_in is None) is not charge:
            raise RequestRefused(NEVER_FREE)
        asked = read_epsilons(epsilons)
        terminal = Terminal(quiet=quiet or as_json)
        with observed_by(terminal), terminal.progress():
            made = run(spec, asked, sweep_id or new_sweep_id(), stand_in=stand_in)
        if as_json:
            print(made.model_dump_json())
            return
        page = Workspace.find(spec).report(made.dataset, made.sweep_id) / "sweep.html"
        if not quiet:
            _show(terminal, made)
            terminal.out.print(f"report  {page}", markup=False)
        else:
            terminal.out.print(str(page), markup=False)


def _show(terminal: Terminal, made: Sweep) -> None:
    """A line for each point, and what must be known of them."""
    names = list(made.real_accuracy)
    header = ["epsilon", "record epsilon", "delta", *names, "attack AUC", "strongest attack"]
    lines = [
        [
            f"{point.epsilon:g}",
            f"{point.record_epsilon:.6g}",
            f"{point.record_delta:.3g}",
            *(f"{point.accuracy[name].estimate:.3f}" if name in point.accuracy else "none" for name in names),
            f"{point.attack_auc.estimate:.3f}",
            point.attack,
        ]
        for point in made.points
    ]
    real = ["real rows", "", "", *(f"{made.real_accuracy[name].estimate:.3f}" for name in names), "", ""]
    terminal.show_rows(header, [*lines, real])
    terminal.out.print(f"always the largest class: {made.majority_accuracy:.3f}", markup=False)
    for note in made.notes:
        terminal.out.print(f"note    {note}", markup=False)
