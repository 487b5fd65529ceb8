"""What several folders of tests share: a home of their own, the command line in process, one Prefect server."""

import gc
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import hypothesis
import psutil  # type: ignore[import-untyped]
import pytest
from threadpoolctl import threadpool_limits

# The same examples in every run, so that a red suite is red for all; HYPOTHESIS_PROFILE=explore looks for new ones.
hypothesis.settings.register_profile("suite", derandomize=True, deadline=None)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=1000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))

for _name in ["PREFECT_API_URL", "PREFECT_PROFILE", "FABRICA_HOME"]:
    os.environ.pop(_name, None)  # a user's own server and releases stay out of it
os.environ["DO_NOT_TRACK"] = "1"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, bool, bool]:
    """Fits and releases in this process draw the same noise and members in every run: a red suite is red for all.

    As if the operating system had given these words: nothing is branded. The stream begins anew with each test, so two
    releases of one test differ. Releases in a program of their own, as in `tests/leak`, draw afresh, and so do
    statistical tests, whose alpha is stated, and those of the operating system's source itself.
    """
    with pytest.MonkeyPatch.context() as patched:
        if item.path.parent.name not in {"statistical", "leak"} and item.path.name != "test_noise.py":
            repeat_draws(patched)
        return (yield)


def repeat_draws(patched: pytest.MonkeyPatch) -> None:
    """Let one stream, the same at each call of this, stand for the operating system's."""
    from tasks.noise import OperatingSystemBits, SeededBits

    stream = SeededBits(20)
    patched.setattr(OperatingSystemBits, "words", lambda _, n_words: stream.words(n_words))


@pytest.fixture(scope="session", autouse=True)
def one_blas_thread() -> Iterator[None]:
    """As in the pipeline's workers: more threads than work are many times slower on small matrices."""
    with threadpool_limits(1):
        yield


@pytest.fixture(scope="session", autouse=True)
def garbage_sought_less_often() -> Iterator[None]:
    """There is little cyclic garbage, and looking for it takes a fifth of a release's time."""
    often = gc.get_threshold()
    gc.set_threshold(50_000, 20, 20)
    yield
    gc.set_threshold(*often)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder of the test's own, and no Prefect server configured."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("FABRICA_HOME", str(folder))
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "no-prefect-profile"))
    return folder


_BLANK = b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"><g id="blank"/></svg>'


class _Blank:
    """A figure, its axes and its canvas in one: takes every call and shows nothing."""

    def __getattr__(self, name: str) -> "_Blank":
        return self

    def __call__(self, *_: object, **__: object) -> "_Blank":
        return self

    def __getitem__(self, _: object) -> "_Blank":
        return self

    def __iter__(self) -> Iterator["_Blank"]:
        return iter(())

    def print_svg(self, file: IO[bytes], **_: object) -> None:
        file.write(_BLANK)


def leave_figures_blank(patched: pytest.MonkeyPatch, *, on_axes: bool = False) -> None:
    """Draw no figures in this process: on axes that are there, or on none, which takes a third of a release."""
    if on_axes:
        from matplotlib.backends.backend_svg import FigureCanvasSVG

        patched.setattr(FigureCanvasSVG, "print_svg", lambda _, file, **__: file.write(_BLANK))
        return
    import matplotlib

    blank = _Blank()
    for place in ("figure.Figure", "backends.backend_svg.FigureCanvasSVG", "rcdefaults"):
        patched.setattr(f"matplotlib.{place}", blank)
    patched.setattr("matplotlib.rc_context", nullcontext)
    patched.setattr("matplotlib.rcParams", matplotlib.rcParams.copy())


@pytest.fixture
def on_axes() -> None:
    """For a test whose figures are to be put together, since its table is an odd one, though they are not drawn."""


@pytest.fixture(autouse=True)
def figures_left_blank(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where whole releases run in this process, figures are not drawn: that takes as long as all else together.

    They are in `tests/unit/test_reporting.py`, in `tests/docs`, and wherever a program of its own is run.
    """
    if {"flows", "cli"} & set(request.path.parts[-2:]):
        leave_figures_blank(monkeypatch, on_axes="on_axes" in request.fixturenames)


@dataclass(frozen=True)
class Outcome:
    """What a command printed and how it ended."""

    exit_code: int
    out: str
    err: str


@pytest.fixture
def fabrica(home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outcome]:
    """The command line, run in this process."""

    def run(*arguments: str | Path) -> Outcome:
        from flows.cli import main

        monkeypatch.setattr(sys, "argv", ["fabrica", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        code = ended.value.code
        return Outcome(code if isinstance(code, int) else 0, out, err)

    return run


@dataclass(frozen=True)
class PrefectServer:
    """A real Prefect server on this machine's loopback."""

    api: str
    home: Path
    environment: dict[str, str]

    def post(self, path: str, content: dict[str, Any]) -> tuple[int, Any]:
        """Status and answer of a request to the server's interface, refusals as well."""
        request = urllib.request.Request(
            f"{self.api}/{path}", json.dumps(content).encode(), {"Content-Type": "application/json"}, method="POST"
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refusal:
            return refusal.code, json.load(refusal)


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrefectServer]:
    """One real Prefect server for the whole session, with all its files in one folder."""
    folder = tmp_path_factory.mktemp("prefect")
    with (folder / "server.log").open("wb") as log:
        for _ in range(3):  # whoever takes the port before the server does makes it end
            port = _free_port()
            api = f"http://127.0.0.1:{port}/api"
            environment = os.environ | {
                "PREFECT_HOME": str(folder),
                "PREFECT_API_URL": api,
                "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
                "DO_NOT_TRACK": "1",
            }
            server = subprocess.Popen(
                [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)],
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            try:
                if _is_healthy(f"{api}/health", server, port):
                    yield PrefectServer(api, folder, environment)
                    return
            finally:
                _end(server)
    pytest.fail(f"the Prefect server did not start:\n{(folder / 'server.log').read_text(errors='replace')[-2000:]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _is_healthy(url: str, server: subprocess.Popen[bytes], port: int, within_s: float = 300) -> bool:
    """Whether the server answers, and it is this one that does; waits for it."""
    end = time.monotonic() + within_s
    while time.monotonic() < end and server.poll() is None:
        with suppress(urllib.error.URLError, TimeoutError, ConnectionError), urllib.request.urlopen(url, timeout=10):
            return _listens(server.pid, port)
        time.sleep(0.3)
    return False


def _listens(pid: int, port: int) -> bool:
    with suppress(psutil.NoSuchProcess):
        program = psutil.Process(pid)
        every = [program, *program.children(recursive=True)]
        return any(one.laddr.port == port for process in every for one in process.net_connections("tcp"))
    return False


def _end(server: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGTERM)
    try:
        server.wait(timeout=60)
    except subprocess.TimeoutExpired:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
