"""Models in files: what is read back is the same to the last bit, what is no model is refused and runs nothing."""

from __future__ import annotations

import io
import json
import pickle
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from tasks.kahm import (
    DeepKernelAffineHullMachine,
    KAHMClassifier,
    KernelAffineHullMachine,
    WideKernelAffineHullMachine,
    load_model,
    save_model,
)

Array = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]


def rows(seed: int, N: int = 25, p: int = 4) -> Array:
    return np.random.default_rng(seed).random((N, p))


Y, QUERIES = rows(1), np.vstack([rows(2), rows(3) * 100.0])
LABELS = np.arange(25) % 3

MACHINES: dict[str, Any] = {
    "plain": KernelAffineHullMachine(3),
    "plain, one row": KernelAffineHullMachine(3),
    "deep": DeepKernelAffineHullMachine(3, 2),
    "wide": WideKernelAffineHullMachine(np.int64(2), 2, 3),  # type: ignore[arg-type]
    "wide, assigned": WideKernelAffineHullMachine(2, assignments=LABELS),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.npz"


@pytest.mark.parametrize("name", MACHINES)
def test_machines_come_back(name: str, path: Path) -> None:
    machine = MACHINES[name].fit(Y[:1] if "one row" in name else Y)
    save_model(machine, path)
    loaded = load_model(path)
    assert type(loaded) is type(machine)
    assert {
        key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in machine.get_params().items()
    } == loaded.get_params()
    for method in ("transform", "distance", "conditioning", "near_pole"):
        np.testing.assert_array_equal(getattr(loaded, method)(QUERIES), getattr(machine, method)(QUERIES))
    assert vars(loaded).keys() == vars(machine).keys()
    for attribute, value in vars(machine).items():
        if attribute.endswith("_"):
            np.testing.assert_array_equal(getattr(loaded, attribute), value)


@pytest.mark.parametrize(
    "names",
    [
        np.array([-3, 0, 2**40]),
        np.array([1, 2, 255], np.uint8),
        np.array(["a", "bc", "é\u20ac"]),
        np.array(["a", "bc", "é\u20ac"], dtype=object),
        np.array([False, True, True]),
        np.array([0.0, 1.0, 2.0]),
    ],
    ids=["int", "uint8", "str", "object", "bool", "float"],
)
def test_classifiers_come_back(names: NDArray[Any], path: Path) -> None:
    classifier = KAHMClassifier(2, 2, 2).fit(Y, names[LABELS])
    save_model(classifier, path)
    loaded = load_model(path)
    assert isinstance(loaded, KAHMClassifier) and loaded.get_params() == classifier.get_params()
    assert loaded.classes_.dtype == classifier.classes_.dtype
    np.testing.assert_array_equal(loaded.predict(QUERIES), classifier.predict(QUERIES))
    np.testing.assert_array_equal(loaded.distances(QUERIES), classifier.distances(QUERIES))
    np.testing.assert_array_equal(loaded.matching_scores(QUERIES), classifier.matching_scores(QUERIES))
    assert loaded.machines_[0].get_params() == classifier.machines_[0].get_params()
    again = path.with_name("again.npz")
    save_model(loaded, again)
    np.testing.assert_equal(_entries(again), _entries(path))


def test_names_of_columns_come_back(path: Path) -> None:
    frame = pd.DataFrame(Y, columns=["a", "b", "c", "d"])
    save_model(KernelAffineHullMachine(2).fit(frame), path)
    loaded = load_model(path)
    np.testing.assert_array_equal(loaded.feature_names_in_, frame.columns)
    with pytest.raises(ValueError, match="feature names"):
        loaded.transform(frame[["b", "a", "c", "d"]])


def test_what_cannot_be_saved(path: Path) -> None:
    with pytest.raises(TypeError, match="dict is no kernel affine hull machine"):
        save_model({}, path)  # type: ignore[arg-type]
    with pytest.raises(NotFittedError):
        save_model(KernelAffineHullMachine(2), path)
    classifier = KAHMClassifier(2).fit(Y, LABELS)
    classifier.classes_ = np.array([1 + 2j, 3, 4])
    with pytest.raises(ValueError, match="class labels of type complex128 cannot be saved"):
        save_model(classifier, path)
    assert not path.exists()


def test_a_model_whose_parameters_were_changed_is_not_saved_and_leaves_the_older_file(path: Path) -> None:
    save_model(KernelAffineHullMachine(3).fit(Y), path)
    older = path.read_bytes()
    with pytest.raises(ValueError, match="parameters changed since it was fitted"):
        save_model(KernelAffineHullMachine(3).fit(Y).set_params(n_components=1), path)
    assert path.read_bytes() == older and list(path.parent.iterdir()) == [path]
    assert path.stat().st_mode & 0o077 == 0


def test_a_file_cut_off_by_a_full_disk_leaves_the_older_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_model(KernelAffineHullMachine(3).fit(Y), path)
    older = path.read_bytes()

    def full(file: Any, *_: Any) -> None:
        file.write(b"PK")
        raise OSError("no space left on device")

    monkeypatch.setattr("tasks.kahm.storage.write_archive", full)
    with pytest.raises(OSError, match="no space"):
        save_model(KernelAffineHullMachine(2).fit(Y), path)
    assert path.read_bytes() == older and list(path.parent.iterdir()) == [path]


def test_labels_that_claim_more_width_than_they_have_are_refused_before_they_take_memory(path: Path) -> None:
    values = [f"{number:06d}" for number in range(20_000)]
    metadata = {
        "format": "fabrica-kahm", "version": 1, "class": "KAHMClassifier", "n_features": 4, "feature_names": None,
        "parameters": {"n_components": 1, "n_layers": 1, "n_branches": None}, "modeling_error": None,
        "classes": {"dtype": "<U9999", "values": values}, "regularizations": [[[1.0]]] * len(values),
    }  # fmt: skip
    np.savez(path, metadata=np.frombuffer(json.dumps(metadata).encode(), np.uint8))
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="class labels are damaged"):
            load_model(path)
        assert tracemalloc.get_traced_memory()[1] < 100 * 2**20
    finally:
        tracemalloc.stop()


def _entries(path: Path) -> Arrays:
    with np.load(path) as stored:
        return dict(stored)


def _tampered(path: Path, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> None:
    arrays: dict[str, Any] = _entries(path)
    metadata = json.loads(arrays.pop("metadata").tobytes())
    change(metadata, arrays)
    text = np.frombuffer(json.dumps(metadata).encode(), np.uint8)
    np.savez(path, **{"metadata": text, **arrays})


class Bomb:
    """Its unpickling leaves a trace."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return pytest.fail, ("code of a file was run",)


def _set(key: str, value: Any) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    def change(metadata: dict[str, Any], arrays: dict[str, Any]) -> None:
        (metadata if key in metadata else arrays)[key] = value

    return change


def _parameter(key: str, value: Any) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    return lambda metadata, arrays: metadata["parameters"].update({key: value})


def _array(key: str, change: Callable[[NDArray[Any]], Any]) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    return lambda metadata, arrays: arrays.update({key: change(arrays[key])})


TAMPERINGS: list[tuple[Callable[[dict[str, Any], dict[str, Any]], Any], str]] = [
    (_set("format", "pickle"), "its format is not 'fabrica-kahm'"),
    (_set("version", 2), "its version is 2, this program reads 1"),
    (_set("version", "1" * 99), "its version is '1111111111111111111, this program reads 1"),
    (_set("version", True), "its version is True"),
    (_set("class", "Popen"), "its class is unknown"),
    (_set("class", ["KAHMClassifier"]), "its class is unknown"),
    (_set("class", "WideKernelAffineHullMachine"), "its parameters are not those of its class"),
    (_set("n_features", 4.0), "n_features is no positive integer"),
    (_set("n_features", 5), "entry '0/0/mean' has shape (4,), not (5,)"),
    (_set("feature_names", ["a"]), "feature_names are not n_features strings"),
    (_set("feature_names", [1, 2, 3, 4]), "feature_names are not n_features strings"),
    (_set("parameters", {"n_components": 2}), "its parameters are not those of its class"),
    (_set("parameters", []), "its parameters are not those of its class"),
    (_parameter("n_components", 0), "parameter n_components is no positive integer"),
    (_parameter("n_layers", None), "parameter n_layers is no positive integer"),
    (_parameter("n_branches", True), "parameter n_branches is no positive integer"),
    (_parameter("n_components", 1), "the components of 0/0 are impossible"),
    (_parameter("n_layers", 1), "the regularizations of 0/0 are impossible"),
    (_set("classes", None), "its class labels are damaged"),
    (_set("classes", {"dtype": "<i8", "values": [0, 1, "2"]}), "its class labels are damaged"),
    (_set("classes", {"dtype": "<i8", "values": [0, 2, 1]}), "its class labels are damaged"),
    (_set("classes", {"dtype": "|i1", "values": [0, 1, 300]}), "its class labels are damaged"),
    (_set("classes", {"dtype": "<U1", "values": ["a", "b", "cd"]}), "its class labels are damaged"),
    (_set("classes", {"dtype": "i8,O", "values": [0, 1, 2]}), "its class labels are damaged"),
    (_set("classes", {"dtype": "<i8", "values": [0, 1]}), "the number of machines is wrong"),
    (_set("classes", {"dtype": "<f8", "values": [0.0, 1.0, float("nan")]}), "its class labels are damaged"),
    (_set("regularizations", None), "levels are missing"),
    (_set("regularizations", [[], [], []]), "levels are missing"),
    (_set("regularizations", [[[0.5, -1.0]], [[0.5, 0.5]], [[0.5, 0.5]]]), "the regularizations of 0/0 are impossible"),
    (_set("regularizations", [[["a", 0.5]], [[0.5, 0.5]], [[0.5, 0.5]]]), "the regularizations of 0/0 are impossible"),
    (_array("0/0/mean", lambda array: array * np.nan), "entry '0/0/mean' holds NaN or infinity"),
    (_array("1/0/0/coefficients", lambda array: array + np.inf), "entry '1/0/0/coefficients' holds NaN or infinity"),
    (_array("0/0/mean", lambda array: array.astype(np.float32)), "entry '0/0/mean' is float32, not float64"),
    (_array("0/0/mean", lambda array: array.astype(">f8")), "entry '0/0/mean' is >f8, not float64"),
    (_array("0/0/1/whitened", lambda array: array[:-1]), "entry '0/0/1/whitened' has shape"),
    (_array("0/0/components", lambda array: array[0]), "entry '0/0/components' has shape (4,), not (any, 4)"),
    (_array("0/0/components", lambda array: array[:1]), "entry '0/0/eigenvalues' has shape (2,), not (1,)"),
    (_array("0/0/eigenvalues", np.negative), "the components of 0/0 are impossible"),
    (_array("0/0/0/coefficients", np.zeros_like), "the coefficients of 0/0 are impossible"),
    (_array("0/assignments", lambda array: array + 1), "the assignments of machine 0 do not match its branches"),
    (_array("0/assignments", lambda array: array - 1), "the assignments of machine 0 do not match its branches"),
    (_array("0/assignments", lambda array: array + 2**60), "the assignments of machine 0 do not match its branches"),
    (_array("0/assignments", lambda array: array[1:]), "entry '0/assignments' has shape"),
    (lambda metadata, arrays: arrays.pop("0/0/0/whitened"), "entry '0/0/0/whitened' is missing"),
    (_set("9/9/extra", np.zeros(1)), "entry '9/9/extra' does not belong to it"),
    (_set("0/0/mean", np.array([Bomb()], dtype=object)), "cannot be read as an .npz archive of numbers (ValueError)"),
]


@pytest.mark.parametrize(("change", "message"), TAMPERINGS, ids=[message[:60] for _, message in TAMPERINGS])
def test_inconsistent_files_are_refused(change: Callable[..., None], message: str, path: Path) -> None:
    save_model(KAHMClassifier(2, 2).fit(Y, LABELS), path)
    _tampered(path, change)
    with pytest.raises(ValueError) as caught:
        load_model(path)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{path} is no usable model file: ")
    assert str(caught.value).endswith("; ask its sender for a new one from save_model")


@pytest.mark.parametrize(
    ("model", "change", "message"),
    [
        (KernelAffineHullMachine(2), _set("modeling_error", None), "modeling_error is no finite number"),
        (KernelAffineHullMachine(2), _set("modeling_error", float("inf")), "modeling_error is no finite number"),
        (DeepKernelAffineHullMachine(2, 2), _set("regularizations", [[[1.0], [1.0]]]), "number of branches is wrong"),
        (WideKernelAffineHullMachine(2), _parameter("assignments", [0.5]), "assignments is no list of integers"),
        (WideKernelAffineHullMachine(2), _set("regularizations", [[[1.0]], [[1.0]]]), "number of machines is wrong"),
    ],
)
def test_inconsistent_machines_are_refused(model: Any, change: Callable[..., None], message: str, path: Path) -> None:
    save_model(model.fit(Y), path)
    _tampered(path, change)
    with pytest.raises(ValueError, match=message):
        load_model(path)


def test_other_files_are_refused(path: Path) -> None:
    save_model(KAHMClassifier(2).fit(Y, LABELS), path)
    whole = path.read_bytes()
    compressed, doubled, array = io.BytesIO(), io.BytesIO(whole), io.BytesIO()
    np.savez_compressed(compressed, **_entries(path))  # type: ignore[arg-type]
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(doubled, "a") as archive:
        archive.writestr("0/0/mean.npy", b"")
    np.save(array, Y)
    for content, message in [
        (b"", "cannot be read as an .npz archive of numbers"),
        (b"a,b\n1,2\n", "cannot be read as an .npz archive of numbers"),
        (pickle.dumps(Bomb()), "cannot be read as an .npz archive of numbers"),
        (array.getvalue(), "cannot be read as an .npz archive of numbers"),
        (compressed.getvalue(), "it is compressed"),
        (doubled.getvalue(), "entry '0/0/mean' occurs twice"),
        *((whole[:size], "cannot be read as an .npz archive") for size in range(0, len(whole), 97)),
    ]:
        path.write_bytes(content)
        with pytest.raises(ValueError, match=message):
            load_model(path)


def test_archives_without_readable_metadata_are_refused(path: Path) -> None:
    deep = b"[" * 100_000
    for entries, message in [
        ({"a": Y}, "it has no metadata"),
        ({"metadata": Y}, "it has no metadata"),
        ({"metadata": np.frombuffer(b"{", np.uint8)}, "its metadata are not JSON"),
        ({"metadata": np.frombuffer(deep, np.uint8)}, "its metadata are not JSON"),
        ({"metadata": np.frombuffer(b"[]", np.uint8)}, "its metadata are not a JSON object"),
        ({"metadata": np.frombuffer(b"{}", np.uint8)}, "its format is not"),
    ]:
        np.savez(path, **entries)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=message):
            load_model(path)


def test_a_missing_file_is_an_os_error(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_model(path)


def test_entries_may_not_be_larger_than_the_file(path: Path) -> None:
    """An array that claims terabytes, and an entry that claims more bytes than there are."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (2**40,)})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("metadata.npy", header.getvalue())
    with pytest.raises(ValueError, match="cannot be read as an"):
        load_model(path)
    whole = bytearray(path.read_bytes())
    central = whole.rindex(b"PK\x01\x02")
    whole[central + 20 : central + 28] = (2**30).to_bytes(4, "little") * 2
    path.write_bytes(whole)
    with pytest.raises(ValueError, match="its entries overlap"):
        load_model(path)


def test_flipped_bytes_are_refused_or_change_nothing(path: Path) -> None:
    machine = KernelAffineHullMachine(2).fit(Y)
    save_model(machine, path)
    whole, expected = path.read_bytes(), machine.transform(QUERIES)
    refused = 0
    for position in range(0, len(whole), 5):
        flipped = bytearray(whole)
        flipped[position] ^= 0x41
        path.write_bytes(flipped)
        try:
            loaded = load_model(path)
        except ValueError:
            refused += 1
        else:
            np.testing.assert_array_equal(loaded.transform(QUERIES), expected)
    assert refused > 0.8 * len(whole) / 5
