"""The command line `fabrica`. It imports neither Prefect nor Great Expectations before a command needs them."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from flows.command import AsJson, Debug, errors_shown
from flows.ledger_commands import ledger_app
from flows.schema_commands import schema_app
from flows.sweep_command import sweep
from flows.terminal import Terminal
from schemas.errors import RequestRefused

app = typer.Typer(
    help="Differentially private fabricated data releases, each with an audit.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(ledger_app, name="ledger")
app.add_typer(schema_app, name="schema")

SpecPath = Annotated[Path, typer.Argument(metavar="SPEC", help="A release spec, such as data/specs/digits.yaml.")]
ReleaseFolder = Annotated[Path, typer.Argument(metavar="RELEASE_DIR", help="Folder of a published release.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print only the outcome.")]


@app.command()
def plan(spec: SpecPath, as_json: AsJson = False, debug: Debug = False) -> None:
    """What a release would do: noise, guarantee at both units, budget left. Reads no data."""
    with errors_shown(as_json=as_json, debug=debug):
        from tasks.ledger import Ledger
        from tasks.plan import make_plan
        from tasks.read_spec import read_spec
        from tasks.workspace import Workspace

        made = make_plan(read_spec(spec), Ledger.of(Workspace.find(spec).ledger_path))
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
    with errors_shown(as_json=as_json, debug=debug):
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
    with errors_shown(as_json=as_json, debug=debug):
        from tasks.ledger import Ledger
        from tasks.verify import verify as verify_release
        from tasks.workspace import Workspace

        checks = verify_release(folder, Ledger.of(Workspace.find(folder.resolve()).ledger_path))
        if as_json:
            print(json.dumps({"checks": [check.model_dump() for check in checks]}))
        else:
            Terminal().show_rows(["check", "outcome"], [[check.check, check.outcome] for check in checks])


@app.command()
def report(folder: ReleaseFolder, as_json: AsJson = False, debug: Debug = False) -> None:
    """Render the audit report of a release again, from its JSON."""
    with errors_shown(as_json=as_json, debug=debug):
        from tasks.ledger import Ledger
        from tasks.workspace import Workspace
        from tasks.write_index import write_index
        from tasks.write_report import render_report

        resolved = folder.resolve()
        if not (resolved / "manifest.json").is_file():
            raise RequestRefused(f"{folder}: is not a release folder (it has no manifest.json)")
        workspace = Workspace.find(resolved)
        page = render_report(workspace.report(resolved.parent.name, resolved.name))
        write_index(workspace.reports, Ledger.of(workspace.ledger_path))
        print(json.dumps({"report": str(page)}) if as_json else page)


app.command()(sweep)


@app.command()
def serve(
    specs: Annotated[Path, typer.Option(metavar="DIR", help="Folder of specs.")] = Path("data/specs"),
    debug: Debug = False,
) -> None:
    """Register every spec as a Prefect deployment, with its schedule, and wait for runs."""
    with errors_shown(as_json=False, debug=debug):
        from flows.serve import serve_specs

        serve_specs(specs)


def main() -> None:
    """Run the command line and end with its exit code."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        code = app(standalone_mode=False)
    except BrokenPipeError:  # whoever reads has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except typer.Abort:
        print("fabrica: interrupted", file=sys.stderr)
        code = 130
    except Exception as error:
        # a usage error; the class is not public, but what it can do is
        if not hasattr(error, "show") or not hasattr(error, "format_message"):
            raise
        error.show()
        code = 2
        if "--json" in sys.argv:
            text = error.format_message()
            print(json.dumps({"error": {"kind": type(error).__name__, "message": text, "exit_code": code}}))
    sys.exit(code if isinstance(code, int) else 0)


def _interrupt(*_: object) -> None:
    """End a run that is told to end as Ctrl-C does: locks are let go and a temporary server is stopped."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
