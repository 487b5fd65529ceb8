"""Steps of the pipeline: plain functions with a name, an error border, timing and progress.

Context: one body (`flows/pipeline.py`) must run both in process, without importing Prefect, and under Prefect with a
task for each step. Decision: a `Step` is a plain function; calling it hands it to the current *executor*. The
default executor calls it; `flows/release.py` installs one that runs it as a Prefect task. What we gave up: a
`@task` decorator above each function. What we got: one place where each task's storage rules are set, and a one-shot
run that starts seconds sooner.

The error border: an exception that is not ours may quote a cell (pandas, pyarrow and Great Expectations do), so it
is replaced by a `StepFailed` without its text, `from None`, because chained text is stored by the orchestrator.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

from schemas.audit import StepTime
from schemas.errors import FabricaError, StepFailed
from tasks.memory import give_back

P = ParamSpec("P")
R = TypeVar("R")


class Observer(Protocol):
    """Who is told how a run gets on. The default tells nobody."""

    def started(self, step: str) -> None:
        """`step` begins."""

    def advanced(self, step: str, done: int, total: int) -> None:
        """`done` of `total` parts of `step` are finished."""

    def finished(self, step: str, seconds: float) -> None:
        """`step` ended well after `seconds`."""

    def noted(self, text: str) -> None:
        """Something a person should read, without any confidential value."""


class SilentObserver:
    """An observer that does nothing."""

    def started(self, step: str) -> None: ...

    def advanced(self, step: str, done: int, total: int) -> None: ...

    def finished(self, step: str, seconds: float) -> None: ...

    def noted(self, text: str) -> None: ...


Executor = Callable[["Step[..., Any]", tuple[Any, ...], dict[str, Any]], Any]

_observer: ContextVar[Observer] = ContextVar("observer", default=SilentObserver())  # noqa: B039  (stateless)
_executor: ContextVar[Executor | None] = ContextVar("executor", default=None)
_times: ContextVar[list[StepTime] | None] = ContextVar("times", default=None)


class Step(Generic[P, R]):
    """A pipeline step: calling it runs the function through the current executor.

    Parameters
    ----------
    function : callable
        The work. Its arguments stay inside the process.
    title : str
        What a person reads while it runs.
    """

    def __init__(self, function: Callable[P, R], title: str) -> None:
        self.function = function
        self.title = title
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        executor = _executor.get()
        if executor is None:
            return self.run(*args, **kwargs)
        result: R = executor(self, args, kwargs)
        return result

    def run(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function here, with timing, progress and the error border."""
        observer = _observer.get()
        observer.started(self.title)
        start = time.perf_counter()
        try:
            result = self.function(*args, **kwargs)
        except FabricaError:
            raise
        except Exception as error:
            raise StepFailed(
                f"step `{self.title}` failed with {type(error).__name__}; its text is held back because it may quote "
                "data. Run again with --debug to see where"
            ) from None
        give_back()
        seconds = time.perf_counter() - start
        observer.finished(self.title, seconds)
        times = _times.get()
        if times is not None:
            times.append(StepTime(step=self.title, seconds=seconds))
        return result


def step(title: str) -> Callable[[Callable[P, R]], Step[P, R]]:
    """Make a function a pipeline step; decorator."""
    return lambda function: Step(function, title)


def advanced(title: str, done: int, total: int) -> None:
    """Report progress inside a step."""
    _observer.get().advanced(title, done, total)


def noted(text: str) -> None:
    """Tell the observer something a person should read; never a confidential value."""
    _observer.get().noted(text)


@contextmanager
def observed_by(observer: Observer) -> Iterator[None]:
    """Report all steps called inside to `observer`."""
    token = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(token)


@contextmanager
def executed_by(executor: Executor) -> Iterator[None]:
    """Run all steps called inside through `executor`."""
    token = _executor.set(executor)
    try:
        yield
    finally:
        _executor.reset(token)


@contextmanager
def timed() -> Iterator[list[StepTime]]:
    """Collect the time of each step called inside."""
    times: list[StepTime] = []
    token = _times.set(times)
    try:
        yield times
    finally:
        _times.reset(token)
