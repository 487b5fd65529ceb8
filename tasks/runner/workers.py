"""What all workers have in common, and the workers that are threads of this process."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

Item = TypeVar("Item")
Result = TypeVar("Result")

IN_FLIGHT_PER_WORKER = 3
"""Items taken and not yet handed back: one in work, one next, one finished before its turn."""


class Workers(ABC):
    """Workers that apply a function to items.

    Attributes
    ----------
    count : int
        How many items are in work at once.
    """

    count: int

    def map(
        self, function: Callable[[Item], Result], items: Iterable[Item], in_flight: int = IN_FLIGHT_PER_WORKER
    ) -> Iterator[Result]:
        """Results in the order of the items.

        Parameters
        ----------
        function : callable
            Defined in a module that workers can import; it computes a result from an item and nothing else.
        items : iterable
            Taken as they are needed, in the caller's thread.
        in_flight : int, default=3
            Items a worker that are in memory at most. More of them keep all workers busy where items differ much in
            their cost, since results wait for those before them.

        Yields
        ------
        object
            `function(item)`. An exception that `function` raises is raised here as it is.

        Raises
        ------
        StepFailed
            Workers died, one after the other, or a cluster was lost.

        Notes
        -----
        If a worker dies, what it had not finished is done again. If the caller leaves early, what has not begun is
        not done.
        """
        futures: deque[Future[Result]] = deque()
        try:
            for item in items:
                futures.append(self._submit(function, item))
                del item  # may be large
                if len(futures) == in_flight * self.count:
                    yield self._result(futures.popleft())
            while futures:
                yield self._result(futures.popleft())
        finally:
            for future in futures:
                future.cancel()

    @abstractmethod
    def _submit(self, function: Callable[[Any], Any], item: Any) -> Future[Any]:
        """Begin `function(item)` as soon as a worker is free."""

    def _result(self, future: Future[Any]) -> Any:
        """What `_submit` began, when it is finished."""
        return future.result()


class _ThreadWorkers(Workers):
    def __init__(self, count: int, pool: ThreadPoolExecutor) -> None:
        self.count = count
        self._pool = pool

    def _submit(self, function: Callable[[Any], Any], item: Any) -> Future[Any]:
        return self._pool.submit(function, item)


@contextmanager
def thread_workers(count: int) -> Iterator[Workers]:
    """Threads of this process. At the end, items in work are waited for: a thread cannot be stopped.

    How many threads BLAS has is a property of the process (of each thread where it uses OpenMP), so until the end it
    has one for the caller as well.
    """
    with threadpool_limits(1):
        pool = ThreadPoolExecutor(count, "fabrica", initializer=threadpool_limits, initargs=(1,))
        try:
            yield _ThreadWorkers(count, pool)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
