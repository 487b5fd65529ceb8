"""Where things are: one object that knows every path below the home folder.

`FABRICA_HOME` moves releases, reports, staging, the ledger and the orchestrator's files of in-process runs. Without it
the home is the project folder: the nearest folder upwards that holds a `pyproject.toml`.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from schemas.errors import RequestRefused


def project_root(start: Path) -> Path:
    """The project that `start` (a file or folder) belongs to.

    The nearest folder upwards with a `pyproject.toml`; without any, the folder above `data/specs/`, or else the
    folder of `start` itself.
    """
    folder = start.resolve() if start.is_dir() else start.resolve().parent
    for candidate in [folder, *folder.parents]:
        if (candidate / "pyproject.toml").is_file():
            return candidate
    return folder.parent.parent if folder.parts[-2:] == ("data", "specs") else folder


@dataclass(frozen=True)
class Workspace:
    """Every path that a run reads or writes, below one home folder."""

    home: Path

    @classmethod
    def find(cls, start: Path) -> "Workspace":
        """The workspace of `FABRICA_HOME`, or of the project that `start` belongs to."""
        home = os.environ.get("FABRICA_HOME")
        try:
            return cls(Path(home).expanduser().resolve() if home else project_root(start))
        except (OSError, RuntimeError):
            raise RequestRefused("FABRICA_HOME: is not a folder that can be used") from None

    @property
    def ledger_path(self) -> Path:
        """The ledger's SQLite file."""
        return self.home / "data" / "ledger.sqlite"

    @property
    def prefect_home(self) -> Path:
        """The orchestrator's own files, when no other place is configured."""
        return self.home / "data" / "prefect"

    @property
    def reports(self) -> Path:
        """Folder of all audit reports."""
        return self.home / "reports"

    def release(self, dataset: str, release_id: str) -> Path:
        """Folder of a published release."""
        return self.home / "data" / "releases" / dataset / release_id

    def report(self, dataset: str, release_id: str) -> Path:
        """Folder of a published release's audit report."""
        return self.reports / dataset / release_id

    def staging(self, dataset: str, release_id: str) -> Path:
        """Folder of a release that is being made; internal, readable by its owner only."""
        return self.home / "data" / "staging" / dataset / release_id

    @contextmanager
    def locked(self, dataset: str, release_id: str) -> Iterator[None]:
        """Hold the release's lock, so that two processes never make the same release at once.

        Raises
        ------
        RequestRefused
            Another process holds it.
        """
        folder = self.home / "data" / "staging" / dataset
        make_private(folder.parent)
        make_private(folder)
        path = folder / f".{release_id}.lock"
        try:
            with _held_lock(path) as held:
                if not held:
                    raise RequestRefused(
                        f"release {dataset}/{release_id} is being made by another process; wait for it to end"
                    )
                yield
        finally:
            for empty in [folder, folder.parent]:
                with suppress(OSError):  # not empty: other releases are being made
                    empty.rmdir()


@contextmanager
def _held_lock(path: Path) -> Iterator[bool]:
    while True:
        lock = path.open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            yield False
            return
        if path.exists() and os.fstat(lock.fileno()).st_ino == path.stat().st_ino:
            break
        lock.close()  # its last holder removed the file between our opening and our locking it
    try:
        yield True
    finally:
        path.unlink(missing_ok=True)
        lock.close()


def make_private(folder: Path) -> None:
    """Create `folder` and its parents, readable by the owner only.

    Raises
    ------
    RequestRefused
        It cannot be created.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise RequestRefused(f"{folder}: cannot be created ({error.strerror}); set FABRICA_HOME elsewhere") from None
