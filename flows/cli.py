"""The command line `fabrica`. It imports neither Prefect nor Great Expectations before a command needs them."""

import json
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.terminal import Terminal
from schemas.errors import FabricaError, RequestRefused

app = typer.Typer(
    help="Differentially private fabricated data releases, each with an audit.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
ledger_app = typer.Typer(help="The privacy budget's ledger.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(ledger_app, name="ledger")

SpecPath = Annotated[Path, typer.Argument(metavar="SPEC", help="A release spec, such as data/specs/digits.yaml.")]
ReleaseFolder = Annotated[Path, typer.Argument(metavar="RELEASE_DIR", help="Folder of a published release.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else there.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print only the outcome.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks; they may quote confidential values.")]


@contextmanager
def _errors_shown(*, as_json: bool, debug: bool) -> Iterator[None]:
    """Turn an error into a few lines on stderr and its exit code."""
    try:
        yield
    except FabricaError as error:
        if debug:
            traceback.print_exception(error.__context__ or error)
        _fail(type(error).__name__, str(error), error.exit_code, as_json=as_json)
    except (typer.Exit, typer.Abort):
        raise
    except KeyboardInterrupt:
        _fail("Interrupted", "interrupted", 130, as_json=as_json)
    except Exception as error:
        if debug:
            traceback.print_exc()
        text = f"unexpected {type(error).__name__}; run again with --debug to see where (it may quote data)"
        _fail(type(error).__name__, text, 1, as_json=as_json)


def _fail(kind: str, text: str, exit_code: int, *, as_json: bool) -> None:
    print("\n".join(f"fabrica: {line}" for line in text.splitlines()), file=sys.stderr)
    if as_json:
        print(json.dumps({"error": {"kind": kind, "message": text, "exit_code": exit_code}}))
    raise typer.Exit(exit_code)


@app.command()
def plan(spec: SpecPath, as_json: AsJson = False, debug: Debug = False) -> None:
    """What a release would do: noise, guarantee at both units, budget left. Reads no data."""
    with _errors_shown(as_json=as_json, debug=debug):
        from tasks.ledger import Ledger
        from tasks.plan import make_plan
        from tasks.read_spec import read_spec
        from tasks.workspace import Workspace

        made = make_plan(read_spec(spec), Ledger(Workspace.find(spec).ledger_path))
        if as_json:
            print(made.model_dump_json())
        else:
            Terminal().show_plan(made)


@app.command()
def release(
    spec: SpecPath,
    release_id: Annotated[
        str | None, typer.Option(help="Name of the release; an unfinished one of that name is taken up again.")
    ] = None,
    orchestrated: Annotated[
        bool, typer.Option("--orchestrated", help="Run as a Prefect flow, on a temporary server if none is configured.")
    ] = False,
    approve: Annotated[
        str | None, typer.Option(metavar="DIGEST", help="Publish the staged candidate with this digest.")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Make a fabricated release of a table, with its audit report."""
    with _errors_shown(as_json=as_json, debug=debug):
        from flows.run import release_or_approve

        terminal = Terminal(quiet=quiet or as_json)
        outcome = release_or_approve(
            spec, release_id=release_id, approve=approve, orchestrated=orchestrated, terminal=terminal
        )
        if as_json:
            print(outcome.model_dump_json())
        else:
            terminal.show_publication(outcome)


@app.command()
def verify(folder: ReleaseFolder, as_json: AsJson = False, debug: Debug = False) -> None:
    """Check a release: checksums, manifest, guarantee, Parquet data, ledger entry."""
    with _errors_shown(as_json=as_json, debug=debug):
        from tasks.ledger import Ledger
        from tasks.verify import verify as verify_release
        from tasks.workspace import Workspace

        checks = verify_release(folder, Ledger(Workspace.find(folder.resolve()).ledger_path))
        if as_json:
            print(json.dumps({"checks": [check.model_dump() for check in checks]}))
        else:
            Terminal().show_rows(["check", "outcome"], [[check.check, check.outcome] for check in checks])


@app.command()
def report(folder: ReleaseFolder, as_json: AsJson = False, debug: Debug = False) -> None:
    """Render the audit report of a release again, from its JSON."""
    with _errors_shown(as_json=as_json, debug=debug):
        from tasks.workspace import Workspace
        from tasks.write_report import render_report, write_index

        resolved = folder.resolve()
        workspace = Workspace.find(resolved)
        page = render_report(workspace.report(resolved.parent.name, resolved.name))
        write_index(workspace.reports)
        print(json.dumps({"report": str(page)}) if as_json else page)


@app.command()
def serve(
    specs: Annotated[Path, typer.Option(metavar="DIR", help="Folder of specs.")] = Path("data/specs"),
    debug: Debug = False,
) -> None:
    """Register every spec as a Prefect deployment, with its schedule, and wait for runs."""
    with _errors_shown(as_json=False, debug=debug):
        from flows.serve import serve_specs

        serve_specs(specs)


@ledger_app.command("show")
def ledger_show(
    dataset: Annotated[str | None, typer.Argument(help="A data set; without it, all.")] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Budgets, charges and what is left."""
    with _errors_shown(as_json=as_json, debug=debug):
        ledger = _ledger_here()
        entries = ledger.entries(dataset)
        balances = [balance for balance in ledger.balances() if dataset in (None, balance.dataset)]
        if dataset is not None and not balances:
            raise RequestRefused(f"the ledger at {ledger.path} knows no data set {dataset}")
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
            Terminal().show_ledger(balances, entries)


@ledger_app.command("verify")
def ledger_verify(
    dataset: Annotated[str | None, typer.Argument(help="Accepted for symmetry; the whole chain is checked.")] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Check that no entry was edited, removed, inserted or moved."""
    with _errors_shown(as_json=as_json, debug=debug):
        ledger = _ledger_here()
        count = ledger.verify()
        print(json.dumps({"entries": count}) if as_json else f"{count} entries, chain unbroken ({ledger.path})")


def _ledger_here() -> Any:
    from tasks.ledger import Ledger
    from tasks.workspace import Workspace

    return Ledger(Workspace.find(Path.cwd()).ledger_path)


def main() -> None:
    """Run the command line and end with its exit code."""
    app()
