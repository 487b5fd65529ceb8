"""Files that are whole or absent: written beside, synced to disk, renamed; and their checksums."""

import hashlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from schemas.errors import IntegrityFailed

CHECKSUMS = "SHA256SUMS"


def write_whole(path: Path, content: bytes | Iterable[bytes]) -> None:
    """Write a file, from one piece or several, so that a crash leaves either the old one or the new one."""
    beside = path.with_name(f".{path.name}.part")
    with beside.open("wb") as file:
        file.writelines([content] if isinstance(content, bytes) else content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    sync_folder(path.parent)


def move_folder(source: Path, target: Path) -> None:
    """Move a finished folder to its place in one step; everything in it is on disk before.

    Raises
    ------
    FileExistsError
        The target exists.
    """
    if target.exists():
        raise FileExistsError(target)
    for folder, _, names in os.walk(source):
        for name in names:
            descriptor = os.open(Path(folder) / name, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)
        sync_folder(Path(folder))
    target.parent.mkdir(parents=True, exist_ok=True)
    source.rename(target)
    sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Make a folder's list of names durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256_file(path: Path) -> str:
    """SHA-256 of a file, as 64 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def checksum_lines(folder: Path) -> str:
    """The content of SHA256SUMS for every file below `folder` but that one, readable by `sha256sum -c`.

    Raises
    ------
    IntegrityFailed
        Something below `folder` (or `folder` itself) is neither a plain file nor a plain folder that holds one.
    """
    if folder.is_symlink() or not folder.is_dir():
        raise IntegrityFailed(f"{folder}: is missing or not a plain folder")
    names = []
    for parent, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            path = Path(parent) / name
            mode = path.lstat().st_mode
            if not (stat.S_ISREG(mode) or (stat.S_ISDIR(mode) and any(path.iterdir()))):
                raise IntegrityFailed(
                    f"{path}: is neither a plain file nor a folder that holds one; it does not belong here"
                )
        names += [(Path(parent) / name).relative_to(folder).as_posix() for name in files]
    return "".join(f"{sha256_file(folder / name)}  {name}\n" for name in sorted(names) if name != CHECKSUMS)
