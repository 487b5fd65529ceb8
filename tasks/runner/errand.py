"""A function and its item on the way to another process, and what comes back, as bytes.

What `function` raises comes back as a value: of an exception left to it, Dask quotes the arguments in its logs, and one
whose class wants other arguments than its text breaks whoever reads it.
"""

import pickle
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from threadpoolctl import threadpool_limits

from schemas.errors import FabricaError


class RaisedByWorker(Exception):
    """The cause of an exception that a worker raised: its traceback there."""


@dataclass(frozen=True)
class _Returned:
    value: Any


@dataclass(frozen=True)
class _Raised:
    error: BaseException
    trace: str


@dataclass(frozen=True)
class _RaisedInParts:
    """An exception that cannot be pickled whole, because its class does not take its `args`."""

    kind: type[BaseException]
    args: tuple[Any, ...]
    state: dict[str, Any]
    trace: str


def packed(function: Callable[[Any], Any], item: Any) -> bytes:
    """An errand, ready to be sent."""
    return pickle.dumps((function, item), protocol=pickle.HIGHEST_PROTOCOL)


def run(errand: bytes) -> bytes:
    """Run an errand, alone and with one BLAS thread; never raises."""
    try:
        function, item = pickle.loads(errand)
        threadpool_limits(1)  # never taken back: another thread of this worker may be in the middle of an errand
        return pickle.dumps(_Returned(function(item)), protocol=pickle.HIGHEST_PROTOCOL)
    except BaseException as error:
        return _packed_error(error)


def _packed_error(error: BaseException) -> bytes:
    trace = "".join(traceback.format_exception(error))
    try:
        whole = pickle.dumps(_Raised(error, trace))
        pickle.loads(whole)
    except Exception:
        try:
            return pickle.dumps(_RaisedInParts(type(error), error.args, error.__dict__, trace))
        except Exception:  # it holds what cannot be sent
            return pickle.dumps(_Raised(RuntimeError(f"a worker raised {type(error).__name__}"), trace))
    return whole


def opened(outcome: bytes) -> Any:
    """What an errand returned, or raise what it raised."""
    content = pickle.loads(outcome)
    if isinstance(content, _Returned):
        return content.value
    if isinstance(content, _Raised):
        error = content.error
    else:
        error = content.kind.__new__(content.kind, *content.args)
        error.__dict__.update(content.state)
    # an error that is shown as it is needs no trace; one of another kind is found by it with --debug
    raise error from (None if isinstance(error, FabricaError) else RaisedByWorker(content.trace))
