"""Files that are whole or absent: written beside, synced to disk, renamed; and their checksums."""

import hashlib
import os
from pathlib import Path

CHECKSUMS = "SHA256SUMS"


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that a crash leaves either the old one or the new one."""
    beside = path.with_name(f".{path.name}.part")
    with beside.open("wb") as file:
        file.write(content)
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
    """The content of SHA256SUMS for every file below `folder` but that one, readable by `sha256sum -c`."""
    names = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    return "".join(f"{sha256_file(folder / name)}  {name}\n" for name in names if name != CHECKSUMS)
