"""Arrays and JSON in one uncompressed .npz, read as a file that somebody else has made.

Nothing in it is executed and nothing is unpacked to more than the file's own size. What is wrong is said by a
:class:`NotAModel`, whose text names no value of the data.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

_METADATA = "metadata"


class NotAModel(ValueError):
    """The file does not hold what its format promises."""


def require(condition: object, what: str) -> None:
    """NotAModel with this text unless the condition holds."""
    if not condition:
        raise NotAModel(what)


def write_archive(file: BinaryIO, metadata: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write metadata, which JSON must be able to hold, and arrays of numbers."""
    text = json.dumps(metadata, allow_nan=False).encode()
    little_endian = {name: array.astype(array.dtype.newbyteorder("<"), copy=False) for name, array in arrays.items()}
    np.savez(file, allow_pickle=False, **{_METADATA: np.frombuffer(text, np.uint8)}, **little_endian)


def read_archive(file: BinaryIO) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Metadata and arrays of a file.

    Raises
    ------
    NotAModel
        If the file is no such archive, is damaged, or holds Python objects.
    """
    try:
        arrays = _read_arrays(file)
    except NotAModel:
        raise
    except Exception as error:  # a foreign file can make zipfile and numpy fail in many ways
        raise NotAModel(f"it cannot be read as an .npz archive of numbers ({type(error).__name__})") from error
    text = arrays.pop(_METADATA, None)
    require(text is not None and text.dtype == np.uint8, "it has no metadata")
    try:
        metadata = json.loads(text.tobytes())  # type: ignore[union-attr]
    except (ValueError, RecursionError) as error:
        raise NotAModel("its metadata are not JSON") from error
    require(isinstance(metadata, dict), "its metadata are not a JSON object")
    return metadata, arrays


def _read_arrays(file: BinaryIO) -> dict[str, NDArray[Any]]:
    size = file.seek(0, os.SEEK_END)
    arrays: dict[str, NDArray[Any]] = {}
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        require(all(entry.compress_type == zipfile.ZIP_STORED for entry in entries), "it is compressed")
        require(sum(entry.file_size for entry in entries) <= size, "its entries overlap")
        for entry in entries:
            name = entry.filename.removesuffix(".npy")
            require(name not in arrays, f"entry {name!r} occurs twice")
            array = np.load(io.BytesIO(archive.read(entry)), allow_pickle=False)
            require(isinstance(array, np.ndarray), f"entry {name!r} is no array")
            arrays[name] = array
    return arrays
