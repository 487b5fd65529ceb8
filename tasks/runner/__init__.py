"""Where independent pieces of CPU work are done: in threads, in processes, or by the workers of a Dask cluster.

    with workers_of(spec.runner) as workers:
        for result in workers.map(function, items):
            ...

Every runner gives the same bytes, with any number of workers: each item is computed alone, by the same function, with
one BLAS thread. (On two cores, BLAS threads beside workers were measured to cost twenty times the work.)

Workers get what the caller passes and nothing else. A Dask cluster may be other people's machines: with `dask` the
caller passes released data only, never a confidential row.
"""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from schemas.errors import RequestRefused
from schemas.runner import Dask, Processes, Runner, Threads
from tasks.runner.processes import process_workers
from tasks.runner.workers import Workers, thread_workers

__all__ = ["Workers", "usable_cores", "workers_of"]


def usable_cores() -> int:
    """Number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def workers_of(runner: Runner) -> Iterator[Workers]:
    """The workers of a runner, started at the beginning and stopped at the end, however it ends.

    Enter it before the budget is charged: what a runner can be refused for, it is refused for here.

    Parameters
    ----------
    runner : Runner

    Yields
    ------
    Workers

    Raises
    ------
    RequestRefused
        Dask is not installed; its scheduler cannot be reached or has no workers; a worker has another version of what
        computes.
    """
    with _started(runner) as workers:
        yield workers


def _started(runner: Runner) -> AbstractContextManager[Workers]:
    match runner:
        case "threads":
            return thread_workers(usable_cores())
        case Threads(threads=pool):
            return thread_workers(pool.workers or usable_cores())
        case "processes":
            return process_workers(usable_cores())
        case Processes(processes=pool):
            return process_workers(pool.workers or usable_cores())
        case "dask":
            scheduler, count = None, usable_cores()
        case Dask(dask=cluster):
            scheduler, count = cluster.scheduler, cluster.workers or usable_cores()
    try:
        from tasks.runner.cluster import cluster_workers, local_workers
    except ImportError:
        raise RequestRefused('runner: dask needs an extra; install it with `pip install "fabrica[dask]"`') from None
    return local_workers(count) if scheduler is None else cluster_workers(scheduler)
