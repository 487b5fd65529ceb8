"""`fabrica ledger`: what was charged, and the decisions that only a steward takes."""

import csv
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.command import AsJson, Debug, errors_shown
from flows.terminal import Terminal
from schemas.errors import RequestRefused

if TYPE_CHECKING:
    from tasks.ledger import Ledger
    from tasks.workspace import Workspace

ledger_app = typer.Typer(help="The privacy budget's ledger.", no_args_is_help=True, rich_markup_mode=None)

Dataset = Annotated[str, typer.Argument(help="Name of the data set.")]
Reason = Annotated[str, typer.Option(help="Why; kept in the ledger.")]


@ledger_app.command("show")
def show(
    dataset: Annotated[str | None, typer.Argument(help="A data set; without it, all.")] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the entries as CSV.")] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Budgets, charges and what is left; as JSON or CSV for export."""
    with errors_shown(as_json=as_json, debug=debug):
        ledger = _ledger()
        entries = ledger.entries(dataset)
        if dataset is not None and not entries:
            raise RequestRefused(f"the ledger at {ledger.name} knows no data set {dataset}")
        if as_csv:
            rows = [entry.model_dump(mode="json") for entry in entries]
            writer = csv.writer(sys.stdout)
            writer.writerow(["sequence", "dataset", "kind", "release_id", "epsilon", "delta", "reason", "at", "events",
                             "previous_hash", "hash"])  # fmt: skip
            for row in rows:
                writer.writerow(
                    [row["sequence"], row["dataset"], row["kind"], row["release_id"], row["epsilon"], row["delta"],
                     row["reason"], row["at"], json.dumps(row["events"]), row["previous_hash"], row["hash"]]
                )  # fmt: skip
            return
        balances = [balance for balance in ledger.balances() if dataset in (None, balance.dataset)]
        if as_json:
            print(
                json.dumps(
                    {
                        "balances": [balance.model_dump(mode="json") for balance in balances],
                        "entries": [entry.model_dump(mode="json") for entry in entries],
                    }
                )
            )
        else:
            Terminal().show_ledger(balances, entries, ledger.name)


@ledger_app.command("verify")
def verify(
    dataset: Annotated[str | None, typer.Argument(help="A data set; the whole chain is checked in any case.")] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Check that no entry was edited, removed, inserted or moved, and that every release published here is in it."""
    with errors_shown(as_json=as_json, debug=debug):
        from tasks.reserve import require_published_charged

        ledger = _ledger()
        if dataset is not None and not ledger.entries(dataset):
            raise RequestRefused(f"the ledger at {ledger.name} knows no data set {dataset}")
        count = ledger.verify()
        for place in sorted((_workspace().home / "data" / "releases").glob("*")):
            require_published_charged(_workspace(), ledger, place.name)
        print(json.dumps({"entries": count}) if as_json else f"{count} entries, chain unbroken ({ledger.name})")


@ledger_app.command("set-budget")
def set_budget(
    dataset: Dataset,
    epsilon: Annotated[float, typer.Argument(help="Record level, over all releases, past ones included.")],
    delta: Annotated[float, typer.Argument()],
    reason: Reason,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """A steward's decision: give a data set another budget. Specs must then say the same."""
    with errors_shown(as_json=as_json, debug=debug):
        from pydantic import ValidationError

        from schemas.spec import Budget
        from tasks.read_spec import request_refused

        try:
            budget = Budget(epsilon=epsilon, delta=delta)
        except ValidationError as error:
            raise request_refused(error) from None
        ledger = _ledger()
        if not ledger.entries(dataset):
            raise RequestRefused(f"the ledger at {ledger.name} knows no data set {dataset}; its first release sets it")
        entry = ledger.set_budget(dataset, budget, reason)
        _renew_index(ledger)
        text = (
            f"data set {dataset}: budget is now epsilon {epsilon:g}, delta {delta:g} (entry {entry.sequence}); its "
            "specs must say the same from now on"
        )
        print(entry.model_dump_json() if as_json else text)


@ledger_app.command("void")
def void(
    dataset: Dataset,
    release_id: Annotated[str, typer.Argument(help="The release whose charge is taken back.")],
    reason: Reason,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """A steward's decision: take back the charge of a run that crashed before any noise was kept."""
    with errors_shown(as_json=as_json, debug=debug):
        from pydantic import TypeAdapter, ValidationError

        from schemas.spec import ReleaseId
        from tasks.read_spec import request_refused
        from tasks.staging import Staging

        try:
            TypeAdapter(ReleaseId).validate_python(release_id)
        except ValidationError as error:
            raise request_refused(error) from None
        workspace, ledger = _workspace(), _ledger()
        with workspace.locked(dataset, release_id):
            if ledger.is_published(dataset, release_id):
                raise RequestRefused(f"release {dataset}/{release_id} is published; its charge stays")
            Staging(workspace, dataset, release_id).require_no_noise_kept()
            entry = ledger.void(dataset, release_id, reason)
            Staging(workspace, dataset, release_id).discard()
        _renew_index(ledger)
        text = f"release {dataset}/{release_id}: charge taken back (entry {entry.sequence})"
        print(entry.model_dump_json() if as_json else text)


def _workspace() -> "Workspace":
    from tasks.workspace import Workspace

    return Workspace.find(Path.cwd())


def _renew_index(ledger: "Ledger") -> None:
    """The page of all reports shows budgets as well."""
    reports = _workspace().reports
    if reports.is_dir():
        from tasks.write_index import write_index

        write_index(reports, ledger)


def _ledger() -> "Ledger":
    from tasks.ledger import Ledger

    return Ledger.of(_workspace().ledger_path)
