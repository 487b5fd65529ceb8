"""Workers that are processes of this machine.

Context: a worker may be killed at any moment, most often by the system when memory is short. Decision: each worker has
a pipe of its own and a thread here that speaks with it, instead of `ProcessPoolExecutor`, whose workers share their
queues. So a death costs one item and no other worker, cannot leave a half-written result that others wait behind, and
at the end workers can be stopped in the middle of an item. Workers are forked from a server that has no threads
(`forkserver`) and the numerics already loaded. What we gave up: some sixty lines of our own.
"""

import multiprocessing
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

from schemas.errors import StepFailed
from tasks.runner import errand
from tasks.runner.workers import Workers

MOST_DEATHS_IN_A_ROW = 3
"""So often a worker may die without any item finishing in between."""
KEPT = "The noise-added data are kept"
DIED = (
    "workers were killed again and again before finishing what they had, most often because memory is short; use fewer "
    f"workers: `runner` may be changed for a release that is taken up. {KEPT}"
)
_FORK_SERVER = multiprocessing.get_context("forkserver")
_FORK_SERVER.set_forkserver_preload(["tasks.kahm", "tasks.runner.errand"])


class _Worker:
    """A process that runs one errand after the other."""

    def __init__(self) -> None:
        self._pipe, theirs = _FORK_SERVER.Pipe()
        self._process = _FORK_SERVER.Process(target=_serve, args=(theirs,), name="fabrica-worker", daemon=True)
        self._process.start()
        theirs.close()  # so that the end of the process is the end of the pipe

    def run(self, message: bytes) -> bytes:
        """The outcome of an errand; EOFError or OSError if the worker dies."""
        self._pipe.send_bytes(message)
        return self._pipe.recv_bytes()

    def kill(self) -> None:
        """End the process now. A thread that waits in `run` gets EOFError."""
        self._process.kill()

    def close(self) -> None:
        """End the process and free what it held; nobody may be in `run`."""
        self._process.kill()
        self._process.join()
        self._process.close()
        self._pipe.close()


def _serve(pipe: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal, to all at once; the parent decides
    with suppress(EOFError, OSError):  # the parent is gone
        while True:
            pipe.send_bytes(errand.run(pipe.recv_bytes()))


class _ProcessWorkers(Workers):
    def __init__(self, count: int) -> None:
        self.count = count
        self._lock = threading.Lock()
        self._closing = False
        self._deaths = 0
        self._alive: set[_Worker] = set()
        self._idle: SimpleQueue[_Worker] = SimpleQueue()
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="fabrica")

    def start(self) -> None:
        for _ in range(self.count):
            self._idle.put(self._new())

    def stop(self) -> None:
        with self._lock:
            self._closing = True
            for worker in self._alive:
                worker.kill()
        self._threads.shutdown(wait=True, cancel_futures=True)
        for worker in self._alive:
            worker.close()

    def _new(self) -> _Worker:
        with self._lock:
            if self._closing:
                raise CancelledError
            worker = _Worker()
            self._alive.add(worker)
            return worker

    def _submit(self, function: Callable[[Any], Any], item: Any) -> Future[Any]:
        return self._threads.submit(self._run, errand.packed(function, item))

    def _result(self, future: Future[Any]) -> Any:
        return errand.opened(future.result())

    def _run(self, message: bytes) -> bytes:
        worker = self._idle.get()
        try:
            while True:
                try:
                    outcome = worker.run(message)
                except (EOFError, OSError):
                    worker = self._in_place_of(worker)
                else:
                    with self._lock:
                        self._deaths = 0
                    return outcome
        finally:
            self._idle.put(worker)

    def _in_place_of(self, dead: _Worker) -> _Worker:
        with self._lock:
            if self._closing:
                raise CancelledError
            self._deaths += 1
            if self._deaths >= MOST_DEATHS_IN_A_ROW:
                raise StepFailed(DIED) from None
            self._alive.discard(dead)
        dead.close()
        return self._new()


@contextmanager
def process_workers(count: int) -> Iterator[Workers]:
    """Processes of this machine. At the end they are stopped, in the middle of an item if need be.

    As with every use of `multiprocessing`, a script that calls this needs `if __name__ == "__main__":`, and a program
    read from standard input cannot.
    """
    workers = _ProcessWorkers(count)
    try:
        workers.start()
        yield workers
    finally:
        workers.stop()
