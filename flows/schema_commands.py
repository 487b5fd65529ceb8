"""`fabrica schema`: from a table to a spec."""

import json
import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from flows.command import AsJson, Debug, errors_shown
from schemas.errors import RequestRefused

schema_app = typer.Typer(help="The description of a table.", no_args_is_help=True, rich_markup_mode=None)


@schema_app.command("draft")
def draft(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="The table, a CSV or Parquet file.")],
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the spec here instead of on stdout; an existing file is kept."),
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the data set; without it, made from the file's name.")
    ] = None,
    domain: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=PACK", help="Declare a column by a domain pack, such as age=age; repeatable."),
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Write a release spec to fill in: names and types only, TODO for what the steward must state.

    Bounds and categories come from the table's documentation and are never taken from the rows. Types come from a
    Parquet file's schema; those of a CSV file are inferred from its rows, so check them and keep the draft to yourself.
    """
    with errors_shown(as_json=as_json, debug=debug):
        from tasks.draft import draft_spec

        _check_output(output)
        folder = Path.cwd() if output is None else output.absolute().parent
        made = draft_spec(source, folder, dataset=dataset, domains=_domains(domain or []))
        if output is not None:
            _write_new(output, made.text)
        if as_json:
            spec = made.text if output is None else str(output)
            print(json.dumps({"spec": spec, "dataset": made.dataset, "columns": len(made.columns)}))
        elif output is None:
            print(made.text, end="")
        else:
            print(f"{output}: {len(made.columns)} columns; replace every TODO in it, then run")
            print(f"  fabrica plan {shlex.quote(str(output))}")


def _domains(pairs: list[str]) -> dict[str, str]:
    domains: dict[str, str] = {}
    for pair in pairs:
        column, sign, pack = pair.rpartition("=")
        if not sign or not column or not pack:
            raise RequestRefused("--domain: write COLUMN=PACK, such as age=age")
        if column in domains:
            raise RequestRefused(f"--domain: column {column} is given twice")
        domains[column] = pack
    return domains


def _check_output(path: Path | None) -> None:
    if path is None:
        return
    if path.suffix not in {".yaml", ".yml"}:
        raise RequestRefused(f"{path}: a spec's file name ends in .yaml")
    if os.path.lexists(path):
        raise _exists(path)


def _write_new(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except FileExistsError:
        raise _exists(path) from None
    except OSError as error:
        raise RequestRefused(f"{path}: cannot be written ({error.strerror})") from None


def _exists(path: Path) -> RequestRefused:
    return RequestRefused(f"{path}: exists and is kept; give another name, or remove it first")
