"""Workers of a Dask cluster: one of this machine that is started and stopped here, or a running one by its address.

This module imports `distributed`, which is an extra; see `tasks.runner.workers_of`.

A cluster of this machine listens on loopback only, with certificates made for it, because whoever speaks to a scheduler
can run code as its user. Who answers for a running scheduler answers for its workers as well: they run what any of its
clients sends, and they see the items.
"""

import logging
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from typing import Any

import dask
from distributed import Client, KilledWorker, LocalCluster, WorkerPlugin
from distributed.security import Security

from schemas.errors import RequestRefused, StepFailed
from tasks.runner import errand
from tasks.runner.processes import DIED, KEPT, MOST_DEATHS_IN_A_ROW
from tasks.runner.versions import Versions, difference, versions
from tasks.runner.workers import Workers

CONNECT_WITHIN_S = 10
WITHOUT_WORKERS_S = 60
"""How long a run waits for a worker when a cluster has lost all of them."""
_POLL_S = 1.0
_LOGGERS = ["distributed", "distributed.client", "distributed.gc", "tornado", "tornado.application", "asyncio"]
_SILENT = {f"DASK_LOGGING__{name.upper().replace('.', '__')}": "critical" for name in ["distributed", "tornado"]}
_SETTINGS = {
    "distributed.admin.large-graph-warning-threshold": "1TiB",  # an item is data, and may be large
    "distributed.diagnostics.nvml": False,
    "distributed.nanny.pre-spawn-environ": {"OMP_NUM_THREADS": 1},  # without its setting of malloc, which slows numpy
    "distributed.scheduler.allowed-failures": MOST_DEATHS_IN_A_ROW - 1,
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}
LOST = (
    "the Dask cluster was lost before the end: its scheduler or all of its workers are gone; start it again or use "
    f"another runner. {KEPT}"
)
_MAKE_THE_SAME = "results would differ in their last digits; make them the same, or use another runner"


class _Undisturbed(WorkerPlugin):
    """A worker of ours leaves an interrupt of the terminal, which goes to all processes, to the parent."""

    name = "fabrica-undisturbed"

    def setup(self, worker: Any) -> None:
        with suppress(ValueError):  # not the main thread
            signal.signal(signal.SIGINT, signal.SIG_IGN)


class _ClusterWorkers(Workers):
    def __init__(self, client: Any, count: int, expected: Versions | None) -> None:
        self.count = count
        self._client = client
        self._executor = client.get_executor(pure=False)
        self._expected = expected

    def _submit(self, function: Callable[[Any], Any], item: Any) -> Future[Any]:
        try:
            future: Future[Any] = self._executor.submit(_run, self._expected, errand.packed(function, item))
        except RuntimeError:  # the client has closed
            raise StepFailed(LOST) from None
        return future

    def _result(self, future: Future[Any]) -> Any:
        last_seen = time.monotonic()
        while not wait([future], _POLL_S).done:
            # a scheduler that comes back does not know what it was given before
            if self._client.status != "running" or time.monotonic() - last_seen > WITHOUT_WORKERS_S:
                raise StepFailed(LOST)
            if self._has_workers():
                last_seen = time.monotonic()
        try:
            outcome = future.result()
        except KilledWorker:
            raise StepFailed(DIED) from None
        except Exception:  # cancelled with the scheduler, most often
            raise StepFailed(LOST) from None
        return errand.opened(outcome)

    def _has_workers(self) -> bool:
        try:
            return bool(self._client.scheduler_info(n_workers=1)["workers"])
        except Exception:  # whatever the connection breaks with
            return False


def _run(expected: Versions | None, message: bytes) -> bytes:
    """Run an errand on a worker, if it is like the machine that sent it; the worker may have joined at any time."""
    differing = None if expected is None else difference(versions(), expected)
    return errand.run(errand.packed(_refuse, differing) if differing else message)


def _refuse(differing: str) -> None:
    raise StepFailed(f"a worker that joined the Dask cluster has {differing}; {_MAKE_THE_SAME}. {KEPT}")


@contextmanager
def local_workers(count: int) -> Iterator[Workers]:
    """A cluster of this machine: so many processes with one thread each, reachable from this machine only."""
    with _quiet():
        with (
            LocalCluster(
                n_workers=count,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                security=Security.temporary(),
                dashboard_address=None,
                scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
                worker_dashboard_address=None,
                memory_limit=None,
                silence_logs=logging.CRITICAL,
                env=_SILENT,
            ) as cluster,
            Client(cluster, set_as_default=False) as client,
        ):
            client.register_plugin(_Undisturbed())
            yield _ClusterWorkers(client, count, None)


@contextmanager
def cluster_workers(scheduler: str) -> Iterator[Workers]:
    """The workers of a running scheduler, after a look at whether they compute as this machine does."""
    with _quiet():
        with _connected(scheduler) as client:
            _refuse_different(client.run(versions, on_error="return"))
            yield _ClusterWorkers(client, sum(client.nthreads().values()), versions())


@contextmanager
def _connected(scheduler: str) -> Iterator[Any]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of versions, which we look at ourselves
            client = Client(scheduler, timeout=CONNECT_WITHIN_S, set_as_default=False)
    except (OSError, ValueError):
        raise RequestRefused(
            f"runner.dask.scheduler: {scheduler} cannot be reached; start it with `dask scheduler`, or use another "
            "runner"
        ) from None
    except TypeError:
        raise RequestRefused(
            f"runner.dask.scheduler: {scheduler} needs certificates; name them in Dask's configuration "
            "(distributed.comm.tls), or use a tcp:// address"
        ) from None
    with client:
        try:
            client.wait_for_workers(1, timeout=CONNECT_WITHIN_S)
        except TimeoutError:
            raise RequestRefused(
                f"runner.dask.scheduler: {scheduler} has no workers; start some with `dask worker {scheduler}`"
            ) from None
        yield client


def _refuse_different(found: dict[str, Any]) -> None:
    for worker, theirs in found.items():
        if not isinstance(theirs, dict):
            raise RequestRefused(
                f"Dask worker {worker} has no fabrica; install the version there that is installed here"
            )
        if differing := difference(theirs, versions()):
            raise RequestRefused(f"Dask worker {worker} has {differing}; {_MAKE_THE_SAME}")


@contextmanager
def _quiet() -> Iterator[None]:
    """Nothing of Dask's on the terminal: what concerns a person is an exception of ours."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        with dask.config.set(_SETTINGS):
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
