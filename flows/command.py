"""What all commands share: their common options, and how an error ends them."""

import json
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from schemas.errors import FabricaError, first_cause

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else there.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks; they may quote confidential values.")]


@contextmanager
def errors_shown(*, as_json: bool, debug: bool) -> Iterator[None]:
    """Turn an error into a few lines on stderr and its exit code."""
    os.environ["FABRICA_DEBUG"] = "1" if debug else ""
    try:
        yield
    except FabricaError as error:
        if debug:
            traceback.print_exception(first_cause(error))
        _fail(type(error).__name__, str(error), error.exit_code, as_json=as_json)
    except (typer.Exit, typer.Abort, BrokenPipeError):
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
