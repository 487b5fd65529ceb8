"""Fitted models in files that are safe to exchange between sites: arrays and JSON, never pickle.

`metadata` is JSON: format, version, class, parameters, labels and regularizations, the latter nested as machines
(one for each class), branches, layers. The arrays are named after the same levels: `0/2/mean` belongs to branch 2 of
machine 0, `0/2/1/whitened` to its layer 1. Everything is checked against everything else before the first object
is made.

Saving and loading are functions, not methods: only the file knows of which class its model is.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from tasks.kahm.archive import NotAModel, read_archive, require, write_archive
from tasks.kahm.classifier import KAHMClassifier
from tasks.kahm.deep import DeepKernelAffineHullMachine
from tasks.kahm.hull import Hull
from tasks.kahm.layers import Layers
from tasks.kahm.machine import KernelAffineHullMachine
from tasks.kahm.wide import WideKernelAffineHullMachine

Model = KernelAffineHullMachine | DeepKernelAffineHullMachine | WideKernelAffineHullMachine | KAHMClassifier

_FORMAT, _VERSION = "fabrica-kahm", 1
_MOST_ROWS = 10**8
"""An array without columns takes no place in a file, whatever it says of its rows."""
_PARAMETERS: dict[str, set[str]] = {
    "KernelAffineHullMachine": {"n_components"},
    "DeepKernelAffineHullMachine": {"n_components", "n_layers"},
    "WideKernelAffineHullMachine": {"n_components", "n_layers", "n_branches", "assignments"},
    "KAHMClassifier": {"n_components", "n_layers", "n_branches"},
}
#: Label types: booleans, integers, floats, strings of fixed length, and strings as objects.
_LABELS = re.compile(r"\|b1|[<>|][iu][1248]|[<>]f[248]|[<>]U\d{1,7}|\|O")
_PYTHON_TYPE = {"b": bool, "i": int, "u": int, "f": float, "U": str, "O": str}


def save_model(model: Model, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to one file.

    Parameters
    ----------
    model : KernelAffineHullMachine, DeepKernelAffineHullMachine, WideKernelAffineHullMachine or KAHMClassifier
    path : str or path-like
        Overwritten if it exists, once the new file is whole; readable by its owner only.

    Raises
    ------
    TypeError
        If the model is of another class.
    NotFittedError
        If it is not fitted.
    ValueError
        If the class labels are neither booleans, numbers nor strings, or the parameters were changed since `fit`.

    Notes
    -----
    *What the file tells.* The training rows can be computed from it: whoever gets it gets them. Exchange models of
    released data only.
    """
    if type(model).__name__ not in _PARAMETERS:
        raise TypeError(f"{type(model).__name__} is no kernel affine hull machine or classifier of such")
    check_is_fitted(model)
    machines, assigned = _parts(model)
    arrays: dict[str, NDArray[Any]]
    arrays = {f"{m}/assignments": assignments.astype(np.int64) for m, assignments in enumerate(assigned)}
    for m, branches in enumerate(machines):
        for b, layers in enumerate(branches):
            first = layers.hulls[0]
            arrays |= {
                f"{m}/{b}/mean": first.mean,
                f"{m}/{b}/components": first.components,
                f"{m}/{b}/eigenvalues": first.eigenvalues,
            }
            for n, hull in enumerate(layers.hulls):
                arrays |= {f"{m}/{b}/{n}/whitened": hull.whitened, f"{m}/{b}/{n}/coefficients": hull.coefficients}
    metadata = {
        "format": _FORMAT,
        "version": _VERSION,
        "class": type(model).__name__,
        "parameters": {name: _plain(value) for name, value in model.get_params(deep=False).items()},
        "n_features": int(model.n_features_in_),
        "feature_names": _plain(getattr(model, "feature_names_in_", None)),
        "classes": _labels(model.classes_) if isinstance(model, KAHMClassifier) else None,
        "modeling_error": model.modeling_error_ if isinstance(model, KernelAffineHullMachine) else None,
        "regularizations": [
            [[hull.regularization for hull in layers.hulls] for layers in branches] for branches in machines
        ],
    }
    beside = f"{os.fspath(path)}.part"
    try:
        with open(os.open(beside, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), "w+b") as file:
            write_archive(file, metadata, arrays)
            _build(*read_archive(file))
        os.replace(beside, path)
    except NotAModel as error:
        raise ValueError(
            f"this model cannot be saved: {error}; were its parameters changed since it was fitted?"
        ) from error
    finally:
        with suppress(FileNotFoundError):
            os.unlink(beside)


def load_model(path: str | os.PathLike[str]) -> Model:
    """Read a model that :func:`save_model` has written; its answers are the same to the last bit.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    Model
        Of the class that was saved, fitted.

    Raises
    ------
    OSError
        If the file cannot be opened.
    ValueError
        If it is anything but a whole, consistent model. Nothing in the file is executed.
    """
    with open(path, "rb") as file:
        try:
            return _build(*read_archive(file))
        except NotAModel as error:
            raise ValueError(
                f"{os.fspath(path)} is no usable model file: {error}; ask its sender for a new one from save_model"
            ) from error


def _parts(model: Model) -> tuple[list[Sequence[Layers]], list[NDArray[np.intp]]]:
    """Branches of each machine, and the assignments of each that has some."""
    if isinstance(model, KAHMClassifier):
        return [machine._branches for machine in model.machines_], [m.assignments_ for m in model.machines_]
    if isinstance(model, WideKernelAffineHullMachine):
        return [model._branches], [model.assignments_]
    if isinstance(model, DeepKernelAffineHullMachine):
        return [model._branches], []
    return [[Layers((model._hull,))]], []


def _plain(value: Any) -> Any:
    """A parameter as JSON can hold it."""
    return value if value is None or isinstance(value, int) else np.asarray(value).tolist()


def _labels(classes: NDArray[Any]) -> dict[str, Any]:
    kind = _PYTHON_TYPE.get(classes.dtype.kind)
    values = classes.tolist()
    if kind is None or not _LABELS.fullmatch(classes.dtype.str) or any(type(value) is not kind for value in values):
        raise ValueError(f"class labels of type {classes.dtype} cannot be saved: use booleans, numbers or strings")
    # no wider than the longest string, so that what a file says of itself bounds what reading it takes
    dtype = np.array(values).dtype if classes.dtype.kind == "U" else classes.dtype
    return {"dtype": dtype.str, "values": values}


def _build(metadata: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Model:
    """The model, once everything is checked."""
    require(metadata.get("format") == _FORMAT, f"its format is not {_FORMAT!r}")
    version = metadata.get("version")
    require(
        type(version) is int and version == _VERSION,
        f"its version is {version!r:.20}, this program reads {_VERSION}",
    )
    name = metadata.get("class")
    require(isinstance(name, str) and name in _PARAMETERS, "its class is unknown")
    p: Any = metadata.get("n_features")
    require(_is_count(p), "n_features is no positive integer")
    names: Any = metadata.get("feature_names")
    require(names is None or (_is_list(names, str) and len(names) == p), "feature_names are not n_features strings")
    parameters = _check_parameters(metadata.get("parameters"), str(name))
    levels: Any = metadata.get("regularizations")
    require(_is_list(levels, list) and all(_is_list(branches, list) for branches in levels), "levels are missing")
    classes: Any = _read_labels(metadata.get("classes")) if name == "KAHMClassifier" else None
    require(len(levels) == (1 if classes is None else len(classes)), "the number of machines is wrong")
    if name in {"KernelAffineHullMachine", "DeepKernelAffineHullMachine"}:
        require(len(levels[0]) == 1, "the number of branches is wrong")
    machines = [
        [
            _read_layers(arrays, f"{m}/{b}", p, parameters["n_components"], parameters.get("n_layers", 1), values)
            for b, values in enumerate(branches)
        ]
        for m, branches in enumerate(levels)
    ]
    assigned = []
    if name in {"WideKernelAffineHullMachine", "KAHMClassifier"}:
        assigned = [_read_assignments(arrays, m, branches) for m, branches in enumerate(machines)]
    error: Any = metadata.get("modeling_error")
    if name == "KernelAffineHullMachine":
        require(type(error) is float and 0.0 <= error < math.inf, "modeling_error is no finite number")
    require(not arrays, f"entry {next(iter(arrays), '')!r:.60} does not belong to it")

    model: Model
    if name == "KernelAffineHullMachine":
        model = KernelAffineHullMachine(**parameters)._describe(machines[0][0].hulls[0], error)
    elif name == "DeepKernelAffineHullMachine":
        model = DeepKernelAffineHullMachine(**parameters)._describe(machines[0][0])
    elif name == "WideKernelAffineHullMachine":
        model = WideKernelAffineHullMachine(**parameters)._describe(tuple(machines[0]), assigned[0])
    else:
        model = KAHMClassifier(**parameters)
        model.classes_ = classes
        model.machines_ = [
            WideKernelAffineHullMachine(**parameters)._describe(tuple(branches), assignments)
            for branches, assignments in zip(machines, assigned, strict=True)
        ]
        for machine in model.machines_:
            machine.n_features_in_ = p
    model.n_features_in_ = p
    if names is not None:
        model.feature_names_in_ = np.array(names, dtype=object)
    return model


def _check_parameters(parameters: Any, name: str) -> dict[str, Any]:
    require(
        isinstance(parameters, dict) and parameters.keys() == _PARAMETERS[name],
        "its parameters are not those of its class",
    )
    for key, value in parameters.items():
        if key == "assignments":
            require(value is None or _is_list(value, int), "parameter assignments is no list of integers")
        else:
            require(
                _is_count(value) or (key == "n_branches" and value is None), f"parameter {key} is no positive integer"
            )
    checked: dict[str, Any] = parameters
    return checked


def _read_labels(described: Any) -> NDArray[Any]:
    wrong = "its class labels are damaged"
    require(isinstance(described, dict) and described.keys() == {"dtype", "values"}, wrong)
    dtype, values = described["dtype"], described["values"]
    require(isinstance(dtype, str) and _LABELS.fullmatch(dtype), wrong)
    kind = np.dtype(dtype).kind
    require(_is_list(values, _PYTHON_TYPE[kind]), wrong)
    require(kind != "U" or int(dtype[2:]) == max(1, *map(len, values)), wrong)
    try:
        classes = np.array(values, dtype=dtype)
        distinct = np.unique(classes)
    except (ValueError, OverflowError) as error:
        raise NotAModel(wrong) from error
    require(classes.tolist() == values and np.array_equal(distinct, classes), wrong)
    return classes


def _read_layers(
    arrays: dict[str, NDArray[Any]], place: str, p: int, n_components: int, n_layers: int, regularizations: Any
) -> Layers:
    mean = _take(arrays, f"{place}/mean", (p,))
    components = _take(arrays, f"{place}/components", (None, p))
    n_eff = len(components)
    eigenvalues = _take(arrays, f"{place}/eigenvalues", (n_eff,))
    require(n_eff <= min(n_components, p) and np.all(eigenvalues > 0.0), f"the components of {place} are impossible")
    require(
        _is_list(regularizations, float)
        and len(regularizations) == max(1, min(n_layers, n_eff))
        and all(0.0 <= value < math.inf and (value > 0.0 or n_eff == 0) for value in regularizations),
        f"the regularizations of {place} are impossible",
    )
    hulls = []
    N = None
    for layer, regularization in enumerate(regularizations):
        n = n_eff - layer
        whitened = _take(arrays, f"{place}/{layer}/whitened", (N, n))
        N = len(whitened)
        require(n_eff < N, f"{place} has too few rows for its components")
        coefficients = _take(arrays, f"{place}/{layer}/coefficients", (N if n_eff else 0, p + 1))
        require(n_eff == 0 or np.any(coefficients[:, -1]), f"the coefficients of {place} are impossible")
        hulls.append(Hull(mean, components[:n], eigenvalues[:n], whitened, coefficients, regularization))
    return Layers(tuple(hulls))


def _read_assignments(arrays: dict[str, NDArray[Any]], m: int, branches: list[Layers]) -> NDArray[np.int64]:
    sizes = [len(layers.hulls[0].whitened) for layers in branches]
    assigned = _take(arrays, f"{m}/assignments", (sum(sizes),), np.int64)
    require(
        assigned.min() >= 0 and assigned.max() < len(sizes) and np.bincount(assigned).tolist() == sizes,
        f"the assignments of machine {m} do not match its branches",
    )
    return assigned


def _take(
    arrays: dict[str, NDArray[Any]], name: str, shape: tuple[int | None, ...], dtype: type[Any] = np.float64
) -> NDArray[Any]:
    """The array of that name, taken out; of that shape, where None stands for any size, and finite."""
    require(name in arrays, f"entry {name!r} is missing")
    array = arrays.pop(name)
    stored = np.dtype(dtype).newbyteorder("<")
    require(array.dtype == stored, f"entry {name!r} is {array.dtype}, not {stored}")
    array = array.astype(dtype, copy=False)
    require(len(array) <= _MOST_ROWS, f"entry {name!r} has more than {_MOST_ROWS} rows")
    fits = array.ndim == len(shape) and all(
        wanted in (None, size) for wanted, size in zip(shape, array.shape, strict=True)
    )
    require(fits, f"entry {name!r} has shape {array.shape}, not {shape}".replace("None", "any"))
    require(np.all(np.isfinite(array)), f"entry {name!r} holds NaN or infinity")
    return array


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 1


def _is_list(value: object, kind: type) -> bool:
    """A list of such values; empty ones have no use here."""
    return isinstance(value, list) and len(value) > 0 and all(type(item) is kind for item in value)
