"""Runners: the same results from threads, processes and Dask, whatever dies in between, and nothing left behind."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil  # type: ignore[import-untyped]
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from schemas.errors import BudgetRefused, RequestRefused, StepFailed
from schemas.runner import Cluster, Dask, Pool, Processes, Runner, Threads
from tasks.kahm import StopRuleNotReached, fabricate
from tasks.runner import Workers, usable_cores, workers_of
from tasks.runner.versions import versions
from tasks.runner.workers import IN_FLIGHT_PER_WORKER
from tests.projects import PROJECT
from tests.waiting import comes_true

KINDS = ["threads", "processes", "dask"]
SHARDS = [np.random.default_rng(number).random((200, 6)) for number in range(6)]


def _runner(kind: str, count: int) -> Runner:
    if kind == "dask":
        return Dask(dask=Cluster(workers=count))
    pool = Pool(workers=count)
    return Threads(threads=pool) if kind == "threads" else Processes(processes=pool)


@pytest.fixture(scope="module")
def workers() -> Iterator[Callable[[str, int], Workers]]:
    """Workers by kind and number, started once for all tests of this module."""
    started: dict[tuple[str, int], Workers] = {}
    with ExitStack() as stack:

        def of(kind: str, count: int) -> Workers:
            if (kind, count) not in started:
                started[kind, count] = stack.enter_context(workers_of(_runner(kind, count)))
            return started[kind, count]

        yield of


@pytest.fixture(params=KINDS)
def two_workers(request: pytest.FixtureRequest, workers: Callable[[str, int], Workers]) -> Workers:
    return workers(request.param, 2)


# what workers are given to do; they import it from here


def fabricated(rows: Any) -> Any:
    return fabricate(rows, 5, steps=3).data


def fabricated_noting_calls(numbered: tuple[int, Any], folder: Path) -> Any:
    number, rows = numbered
    _note(folder, number)
    return fabricated(rows)


def _note(folder: Path, number: int) -> None:
    (folder / f"call-{number}-{os.getpid()}-{time.monotonic_ns()}").touch()


def doubled_out_of_step(number: int) -> int:
    time.sleep(0.03 if number % 3 == 0 else 0)
    return 2 * number


def killed_once(numbered: tuple[int, Any], folder: Path) -> Any:
    number, rows = numbered
    _note(folder, number)
    if number == 2 and not (folder / "killed").exists():
        comes_true((folder / "received-1").exists)  # what is finished has reached the caller
        (folder / "killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return fabricated(rows)


def killed(_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def refused(_: object) -> None:
    raise BudgetRefused("no budget is left")


def not_reached(_: object) -> None:
    raise StopRuleNotReached(0.5, np.array([2.0, 1.0]))


def divided(number: int) -> float:
    return 1 / number


def raised_what_cannot_be_sent(_: object) -> None:
    raise ValueError(lambda: None)


def blas_threads(greedy: bool) -> list[int]:
    if greedy:
        threadpool_limits(2)
        return []
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def slept(folder: Path) -> None:
    (folder / str(time.monotonic_ns())).touch()
    time.sleep(0.3)


def process_number(_: object) -> int:
    return os.getpid()


class Counted:
    """An iterable that knows how many of its items were taken."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.taken = 0

    def __iter__(self) -> Iterator[int]:
        for number in range(self.length):
            self.taken += 1
            yield number


def _runs(process: Any) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)  # one whose parent has not looked yet is dead
    except psutil.NoSuchProcess:
        return False


def _workers_below(pid: int) -> set[Any]:
    """Processes below another one, without the two servers of `multiprocessing`, which stay until its end."""
    found = set()
    for process in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            server = any(name in " ".join(process.cmdline()) for name in ["forkserver", "resource_tracker"])
            if _runs(process) and not (server and process.ppid() == pid):
                found.add(process)
    return found


def _end(processes: Collection[Any]) -> bool:
    return comes_true(lambda: not any(_runs(process) for process in processes), within_s=60)


@contextmanager
def _nothing_left_behind() -> Iterator[None]:
    before = _workers_below(os.getpid())
    yield
    assert _end(_workers_below(os.getpid()) - before)


# one promise after the other


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_bytes_do_not_depend_on_the_runner(kind: str, count: int, workers: Callable[[str, int], Workers]) -> None:
    expected = [fabricated(rows).tobytes() for rows in SHARDS]
    assert [data.tobytes() for data in workers(kind, count).map(fabricated, SHARDS)] == expected


def test_results_are_in_the_order_of_the_items(two_workers: Workers) -> None:
    assert list(two_workers.map(doubled_out_of_step, range(20))) == [2 * number for number in range(20)]


def test_no_items_no_results(two_workers: Workers) -> None:
    assert list(two_workers.map(divided, [])) == []


def test_items_are_taken_as_they_are_needed(two_workers: Workers) -> None:
    items = Counted(1000)
    results = two_workers.map(doubled_out_of_step, items)
    assert items.taken == 0
    for consumed in range(1, 21):
        next(results)
        assert items.taken <= consumed + IN_FLIGHT_PER_WORKER * two_workers.count
    results.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", ["processes", "dask"])
def test_each_worker_has_one_blas_thread(kind: str, workers: Callable[[str, int], Workers]) -> None:
    found = list(workers(kind, 2).map(blas_threads, [True] * 3 + [False] * 3))
    assert {threads for item in found for threads in item} == {1}


def test_threads_leave_blas_one_thread_until_the_end() -> None:
    with threadpool_limits(2):
        before = blas_threads(False)
        with workers_of("threads") as workers:
            found = list(workers.map(blas_threads, [False] * 4))
        assert {threads for item in found for threads in item} == {1}
        assert blas_threads(False) == before


def test_errors_reach_the_caller_as_they_are(two_workers: Workers) -> None:
    with pytest.raises(BudgetRefused, match=r"^no budget is left$") as ours:
        list(two_workers.map(refused, [1]))
    assert ours.value.__cause__ is None
    with pytest.raises(StopRuleNotReached) as numeric:  # its arguments are not its text
        list(two_workers.map(not_reached, [1]))
    assert numeric.value.target == 0.5 and list(numeric.value.errors) == [2.0, 1.0]
    results = two_workers.map(divided, [1, 2, 0, 4])
    assert [next(results), next(results)] == [1.0, 0.5]
    with pytest.raises(ZeroDivisionError):
        next(results)
    assert list(two_workers.map(divided, [1])) == [1.0]  # workers go on


@pytest.mark.parametrize("kind", ["processes", "dask"])
def test_error_of_another_process_tells_where(kind: str, workers: Callable[[str, int], Workers]) -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        list(workers(kind, 2).map(divided, [0]))
    assert "in divided" in str(raised.value.__cause__)
    with pytest.raises(RuntimeError, match="a worker raised ValueError"):
        list(workers(kind, 2).map(raised_what_cannot_be_sent, [0]))


@pytest.mark.parametrize("kind", ["processes", "dask"])
def test_only_what_a_killed_worker_had_not_finished_is_done_again(
    kind: str, workers: Callable[[str, int], Workers], tmp_path: Path
) -> None:
    folder = tmp_path
    results = []
    for number, data in enumerate(workers(kind, 2).map(partial(killed_once, folder=folder), list(enumerate(SHARDS)))):
        results.append(data)
        (folder / f"received-{number}").touch()
    assert [data.tobytes() for data in results] == [fabricated(rows).tobytes() for rows in SHARDS]
    calls = [int(path.name.split("-")[1]) for path in folder.glob("call-*")]
    assert calls.count(2) == 2
    # Dask may have handed a second item to the worker that died
    assert len(calls) <= len(SHARDS) + (1 if kind == "processes" else 2)


def test_every_worker_killed_from_outside(tmp_path: Path) -> None:
    with workers_of(_runner("processes", 2)) as workers:
        for victim in list(workers.map(process_number, range(4))):
            if psutil.pid_exists(victim):
                os.kill(victim, signal.SIGKILL)
        assert list(workers.map(doubled_out_of_step, range(8))) == [2 * number for number in range(8)]


@pytest.mark.parametrize("kind", ["processes", "dask"])
def test_workers_that_always_die(kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    with _nothing_left_behind(), workers_of(_runner(kind, 1)) as workers:
        told = r"killed again and again.*fewer workers.*data are kept"
        with pytest.raises(StepFailed, match=told):
            list(workers.map(killed, [1]))
    assert capfd.readouterr() == ("", "")


def test_cluster_of_this_machine_opens_no_port_to_others(workers: Callable[[str, int], Workers]) -> None:
    assert list(workers("dask", 2).map(divided, [1])) == [1.0]
    ours = [psutil.Process(), *_workers_below(os.getpid())]
    heard = [c for process in ours for c in process.net_connections("tcp") if c.status == psutil.CONN_LISTEN]
    assert heard and all(connection.laddr.ip == "127.0.0.1" for connection in heard)


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("threads", ZeroDivisionError),
        ("processes", ZeroDivisionError),
        ("processes", KeyboardInterrupt),
        ("dask", KeyboardInterrupt),
    ],
)
def test_leaving_early_stops_everything(kind: str, error: type[BaseException], tmp_path: Path) -> None:
    with _nothing_left_behind():
        with pytest.raises(error), workers_of(_runner(kind, 1)) as workers:
            for _ in workers.map(slept, [tmp_path] * 50):
                raise error
        begun = len(list(tmp_path.iterdir()))
        assert begun <= IN_FLIGHT_PER_WORKER
        time.sleep(0.4)
        assert len(list(tmp_path.iterdir())) == begun


PROGRAM = """
import signal, sys, time
from pydantic import TypeAdapter
from schemas.runner import Runner
from tasks.runner import workers_of

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a suite that runs in the background ignores it
    try:
        with workers_of(TypeAdapter(Runner).validate_python({sys.argv[1]: {"workers": 2}})) as workers:
            for _ in workers.map(time.sleep, [0.2] * 1000):
                print("begun", flush=True)
    except KeyboardInterrupt:
        print("stopped")
"""


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("kind", ["processes", "dask"])
def test_end_of_the_parent_is_the_end_of_its_workers(kind: str, end: signal.Signals, tmp_path: Path) -> None:
    """A terminal sends SIGINT to all processes at once, and only the parent may speak of it."""
    (tmp_path / "program.py").write_text(PROGRAM)
    parent = subprocess.Popen(
        [sys.executable, str(tmp_path / "program.py"), kind],
        env=os.environ | {"PYTHONPATH": str(PROJECT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == "begun\n"
    below = psutil.Process(parent.pid).children(recursive=True)
    assert len(_workers_below(parent.pid)) == 2
    if end == signal.SIGINT:
        os.killpg(parent.pid, end)
    else:
        parent.send_signal(end)
    told = set(parent.communicate(timeout=120)[0].splitlines())
    assert _end(below)
    assert end == signal.SIGKILL or told - {"begun"} == {"stopped"}


# a scheduler that others have started


@contextmanager
def _dask(*command: str, before: str = "pass") -> Iterator[subprocess.Popen[bytes]]:
    module = f"distributed.cli.dask_{command[0]}"
    start = f"{before}\nimport sys\nsys.argv[0] = 'dask'\nfrom {module} import main\nmain()"
    process = subprocess.Popen(
        [sys.executable, "-c", start, *command[1:]],
        cwd=PROJECT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def scheduler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A scheduler's address and program; its workers may take their time to come."""
    from tasks.runner import cluster

    monkeypatch.setattr(cluster, "CONNECT_WITHIN_S", 120)
    versions.cache_clear()  # somebody may have committed meanwhile
    about = tmp_path / "scheduler.json"
    options = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(about))
    with _dask("scheduler", *options) as process:
        assert comes_true(lambda: about.exists() and about.read_text().endswith("}"))
        yield json.loads(about.read_text())["address"], process


WORKER = ("--no-nanny", "--nthreads", "1", "--host", "127.0.0.1", "--no-dashboard")


def test_running_scheduler(scheduler: tuple[str, subprocess.Popen[bytes]], capfd: pytest.CaptureFixture[str]) -> None:
    from distributed import Client

    address, process = scheduler
    expected = [fabricated(rows).tobytes() for rows in SHARDS]
    with _dask("worker", address, *WORKER), _dask("worker", address, *WORKER):
        with Client(address, timeout=120, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=120)
        with workers_of(Dask(dask=Cluster(scheduler=address))) as workers:
            assert [data.tobytes() for data in workers.map(fabricated, SHARDS)] == expected
            results = workers.map(doubled_out_of_step, range(1000))
            next(results)
            process.kill()
            with pytest.raises(StepFailed, match="Dask cluster was lost"):
                list(results)
    assert capfd.readouterr() == ("", "")


ANOTHER_NUMPY = "import numpy; numpy.__version__ = '9.9'"


@pytest.mark.parametrize(
    ("before", "told"),
    [("import sys; sys.modules['tasks'] = None", "has no fabrica"), (ANOTHER_NUMPY, r"has numpy 9\.9 \(here ")],
)
def test_worker_that_would_compute_otherwise(
    before: str, told: str, scheduler: tuple[str, subprocess.Popen[bytes]]
) -> None:
    address, _ = scheduler
    with _dask("worker", address, *WORKER, before=before):
        with pytest.raises(RequestRefused, match=told), workers_of(Dask(dask=Cluster(scheduler=address))):
            pass


def test_such_a_worker_that_joins_later(scheduler: tuple[str, subprocess.Popen[bytes]]) -> None:
    address, _ = scheduler
    with _dask("worker", address, *WORKER) as good, workers_of(Dask(dask=Cluster(scheduler=address))) as workers:
        assert list(workers.map(divided, [1])) == [1.0]
        good.kill()
        with _dask("worker", address, *WORKER, before=ANOTHER_NUMPY):
            with pytest.raises(StepFailed, match=r"joined the Dask cluster has numpy 9\.9"):
                list(workers.map(divided, [1]))


def test_scheduler_without_workers(
    scheduler: tuple[str, subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tasks.runner import cluster

    address, _ = scheduler
    with _dask("worker", address, *WORKER) as only, workers_of(Dask(dask=Cluster(scheduler=address))) as workers:
        monkeypatch.setattr(cluster, "WITHOUT_WORKERS_S", 0.5)
        only.kill()
        with pytest.raises(StepFailed, match="all of its workers are gone"):
            list(workers.map(divided, [1]))
    wait = cluster.Client.wait_for_workers
    monkeypatch.setattr(
        cluster.Client, "wait_for_workers", lambda client, n_workers, timeout: wait(client, n_workers, 1)
    )
    with pytest.raises(RequestRefused, match="has no workers"), workers_of(Dask(dask=Cluster(scheduler=address))):
        pass


def test_scheduler_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    from tasks.runner import cluster

    assert cluster.CONNECT_WITHIN_S == 10
    monkeypatch.setattr(cluster, "CONNECT_WITHIN_S", 2)
    start = time.monotonic()
    with socket.socket() as silent:  # bound, so that nobody else takes the port, and deaf
        silent.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(RequestRefused, match="cannot be reached"):
            with workers_of(Dask(dask=Cluster(scheduler=address))):
                pass
    assert time.monotonic() - start < 20  # Dask's own limit is 30


def test_dask_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.delitem(sys.modules, "tasks.runner.cluster", raising=False)
    with pytest.raises(RequestRefused, match=r'pip install "fabrica\[dask\]"'), workers_of("dask"):
        pass


def test_workers_by_default_are_the_usable_cores() -> None:
    assert usable_cores() == len(os.sched_getaffinity(0))
    with workers_of("threads") as workers:
        assert workers.count == usable_cores()
