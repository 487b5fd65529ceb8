"""Known answers for machines (plain, deep, wide), smoother, fabricated data and classifier.

They come from the paper's equations in 50-digit or float64 arithmetic and not from this project; see
`golden/README.md` for where. A few small files are kept there and always tested; the whole collection is
tested where it is at hand: in the folder named by FABRICA_GOLDEN, else at shared/golden beside the project.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tasks.kahm import (
    POLE_CONDITIONING,
    DeepKernelAffineHullMachine,
    KAHMClassifier,
    KernelAffineHullMachine,
    WideKernelAffineHullMachine,
    fabricate,
    smooth,
)
from tasks.kahm.kernel import kernel_matrix, whiten

COPIES = Path(__file__).parent / "golden"
WHOLE = Path(os.environ.get("FABRICA_GOLDEN") or Path(__file__).resolve().parents[2].parent / "shared" / "golden")

MACHINES = [
    "kahm_N1",
    "kahm_N2",
    "kahm_all_zero",
    "kahm_constant_column",
    "kahm_digits8",
    "kahm_duplicates",
    "kahm_far_query",
    "kahm_identical_rows",
    "kahm_iris",
    "kahm_p_gt_N",
    "kahm_scale_big",
    "kahm_scale_small",
    "kahm_simplex",
    "kahm_small",
    "kahm_small_fulldim",
]
DEEP = ["deep_capped", "deep_digits8", "deep_multi", "deep_small"]
WIDE = ["wide_digits", "wide_small_singleton"]
SMOOTHERS = ["smoother_digits0", "smoother_simplex", "smoother_small"]


class Golden:
    """One file of expected arrays and its rule of comparison."""

    def __init__(self, folder: Path, name: str) -> None:
        entry = json.loads((folder / "manifest.json").read_text())[f"{name}.npz"]
        with np.load(folder / f"{name}.npz") as stored:
            self.arrays: dict[str, NDArray[Any]] = dict(stored)
        self.tolerance = float(entry["tol"])
        self.yscale = float(entry.get("yscale", 0.0))

    def __getitem__(self, key: str) -> NDArray[Any]:
        return self.arrays[key]

    def __contains__(self, key: str) -> bool:
        return key in self.arrays

    @property
    def Y(self) -> NDArray[np.float64]:
        return self["Y_uint8"] / 16 if "Y_uint8" in self else self["Y"]

    @property
    def n(self) -> int:
        return int(self["n"])

    def error(self, key: str, got: Any, *, data_units: bool = False) -> float:
        """Largest deviation over what it is measured by; only the first rows where fewer are stored."""
        expected = np.asarray(self[key], dtype=np.float64)
        got = np.asarray(got, dtype=np.float64)
        got = got[tuple(slice(size) for size in expected.shape)]
        assert got.shape == expected.shape
        scale = max(float(np.max(np.abs(expected))), self.yscale if data_units else 0.0)
        deviation = float(np.max(np.abs(got - expected)))
        return deviation / scale if scale > 0 else deviation

    def check(self, key: str, got: Any, *, data_units: bool = False) -> None:
        error = self.error(key, got, data_units=data_units)
        assert error <= self.tolerance, f"{key} is off by {error:.2e}, allowed is {self.tolerance:.1e}"


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    folder, name = request.param
    if not (folder / "manifest.json").exists():
        pytest.skip("the whole collection of known answers is absent (set FABRICA_GOLDEN to its folder)")
    return Golden(folder, name)


def _cases(names: list[str]) -> list[Any]:
    kept = [pytest.param((COPIES, name), id=f"{name}-copy") for name in names if (COPIES / f"{name}.npz").exists()]
    return kept + [pytest.param((WHOLE, name), id=name) for name in names]


@pytest.mark.parametrize("golden", _cases(MACHINES), indirect=True)
def test_machine(golden: Golden) -> None:
    Y = golden.Y
    machine = KernelAffineHullMachine(golden.n).fit(Y)
    assert len(machine.components_) == golden["n_eff"]
    golden.check("lam", machine.regularization_)
    tau = 2.0 * np.sum(Y**2) / Y.size
    assert abs(tau - golden["tau"]) <= golden.tolerance * abs(golden["tau"])
    # e_hat = lambda - tau: its error is one of lambda
    assert abs(machine.regularization_ - tau - golden["e_hat"]) <= golden.tolerance * abs(golden["lam"])
    golden.check("A_train", machine.transform(Y), data_units=True)
    golden.check("dist_train", machine.distance(Y), data_units=True)
    golden.check("A_q", machine.transform(golden["Yq"]), data_units=True)
    golden.check("dist_q", machine.distance(golden["Yq"]), data_units=True)
    if "err_sum" in golden:
        golden.check("err_sum", machine.modeling_error_, data_units=True)


@pytest.mark.parametrize(
    "golden",
    _cases([name for name in MACHINES if name not in {"kahm_N1", "kahm_all_zero", "kahm_identical_rows"}]),
    indirect=True,
)
def test_machine_inside(golden: Golden) -> None:
    Y = golden.Y
    machine = KernelAffineHullMachine(golden.n).fit(Y)
    eigenvalues = np.diag(machine.covariance_)
    golden.check("eigvals", eigenvalues)
    np.testing.assert_array_equal(machine.covariance_, np.diag(eigenvalues))
    signs = np.sign(np.sum(machine.components_ * golden["P"], axis=1))
    golden.check("P", machine.components_ * signs[:, None])
    golden.check("K_block", kernel_matrix(whiten((Y - machine.mean_) @ machine.components_.T, eigenvalues)))
    golden.check("weights_train_first", machine.weights(Y))
    golden.check("weights_q", machine.weights(golden["Yq"]))


@pytest.mark.parametrize("golden", _cases(["kahm_pole"]), indirect=True)
def test_pole(golden: Golden) -> None:
    machine = KernelAffineHullMachine(golden.n).fit(golden.Y)
    assert machine.regularization_ == pytest.approx(float(golden["lam"]), rel=1e-10)
    images = machine.transform(golden["Yq"])
    for got, expected in zip(images, golden["A_q"], strict=True):
        np.testing.assert_allclose(got, expected, rtol=0, atol=golden.tolerance * np.max(np.abs(expected)))
    # the paper's bound does not hold there, and the machine says that it should not be trusted
    assert np.max(np.linalg.norm(images, axis=1)) > 1e4 * golden["claimed_bound_outer"]
    conditioning = machine.conditioning(golden["Yq"])
    assert np.all(conditioning < 1e-3)
    assert np.all(machine.near_pole(golden["Yq"])) and not np.any(machine.near_pole(golden.Y))
    np.testing.assert_allclose(conditioning[[0, 5]] / conditioning[[1, 4]], 100.0, rtol=0.01)
    assert np.all(machine.conditioning(golden.Y) > 0.08)


@pytest.mark.parametrize("golden", _cases(SMOOTHERS), indirect=True)
def test_smoother(golden: Golden) -> None:
    Y_plus, kept = golden["Yplus"], golden["kept_m"]
    for position, m in enumerate(kept):
        smoothed = smooth(Y_plus, golden.n, int(m) + 1)
        stage = Golden.__new__(Golden)
        stage.arrays = {"Yhat": golden["Yhat"][position]}
        stage.tolerance, stage.yscale = golden.tolerance, golden.yscale
        stage.check("Yhat", smoothed, data_units=True)
    by_steps = fabricate(Y_plus, golden.n, steps=len(golden["errors"]))
    golden.check("errors", by_steps.errors)


@pytest.mark.parametrize("golden", _cases(SMOOTHERS), indirect=True)
def test_smoother_regularizations(golden: Golden) -> None:
    machines = [
        KernelAffineHullMachine(golden.n).fit(smooth(golden["Yplus"], golden.n, m + 1))
        for m in range(len(golden["lams"]))
    ]
    golden.check("lams", [machine.regularization_ for machine in machines])
    np.testing.assert_array_equal([len(machine.components_) for machine in machines], golden["n_effs"])


@pytest.mark.parametrize("golden", _cases(SMOOTHERS), indirect=True)
def test_fabricated(golden: Golden) -> None:
    for k, threshold in enumerate(golden["r"]):
        result = fabricate(golden["Yplus"], golden.n, threshold=float(threshold))
        assert result.steps == golden["M_tilde"][k]
        np.testing.assert_allclose(result.errors, golden["errors"][: result.steps], rtol=golden.tolerance)
        deviation = np.max(np.abs(result.data - golden["fabricated"][k]))
        assert deviation <= golden.tolerance * max(np.max(np.abs(golden["fabricated"][k])), golden.yscale)


@pytest.mark.parametrize("golden", _cases(["kahm_pole"]), indirect=True)
@pytest.mark.parametrize(
    "machine", [DeepKernelAffineHullMachine(2, 2), WideKernelAffineHullMachine(2, 2, assignments=[0] * 7)]
)
def test_near_a_pole_the_image_is_the_mean(
    golden: Golden, machine: DeepKernelAffineHullMachine | WideKernelAffineHullMachine
) -> None:
    machine.fit(golden.Y)
    assert np.all(machine.near_pole(golden["Yq"])) and np.all(machine.conditioning(golden["Yq"]) < POLE_CONDITIONING)
    np.testing.assert_allclose(machine.transform(golden["Yq"]), np.tile(golden["mean"], (6, 1)), rtol=1e-12)
    assert not np.any(machine.near_pole(golden.Y)) and np.all(machine.conditioning(golden.Y) > 0.08)


@pytest.mark.parametrize("golden", _cases(DEEP), indirect=True)
def test_deep_machine(golden: Golden) -> None:
    Y, queries = golden.Y, golden["Yq"]
    machine = DeepKernelAffineHullMachine(golden.n, int(golden["L"])).fit(Y)
    assert machine.n_layers_ == golden["L_eff"]
    golden.check("layer_lam", machine.regularizations_)
    stages = list(machine._branches[0].walk(queries))
    np.testing.assert_array_equal([len(hull.eigenvalues) for hull in machine._branches[0].hulls], golden["layer_n"])
    golden.check("layer_out", [stage.images for stage in stages], data_units=True)
    golden.check("layer_dist", machine.layer_distances(queries).T, data_units=True)
    np.testing.assert_array_equal(machine.layer_index(queries), golden["layer_index"])
    golden.check("D_q", machine.transform(queries), data_units=True)
    golden.check("dist_q", machine.distance(queries), data_units=True)
    golden.check("D_train_first", machine.transform(Y), data_units=True)
    golden.check("dist_train_first", machine.distance(Y), data_units=True)
    kept = golden["layer_index_train"]
    np.testing.assert_array_equal(machine.layer_index(Y)[: len(kept)], kept)
    assert not np.any(machine.near_pole(np.vstack([Y, queries])))


@pytest.mark.parametrize("golden", _cases(WIDE), indirect=True)
def test_wide_machine(golden: Golden) -> None:
    Y, queries, assigned, L = golden.Y, golden["Yq"], golden["assign"], int(golden["L"])
    machine = WideKernelAffineHullMachine(golden.n, L, assignments=assigned).fit(Y)
    assert machine.n_branches_ == golden["S"]
    np.testing.assert_array_equal(machine.assignments_, assigned)
    branches = [DeepKernelAffineHullMachine(golden.n, L).fit(Y[assigned == s]) for s in range(machine.n_branches_)]
    golden.check("branch_dist", [branch.distance(queries) for branch in branches], data_units=True)
    np.testing.assert_array_equal(machine.branch_index(queries), golden["branch_index"])
    golden.check("W_q", machine.transform(queries), data_units=True)
    golden.check("dist_q", machine.distance(queries), data_units=True)
    golden.check("W_train_first", machine.transform(Y), data_units=True)
    assert not np.any(machine.near_pole(np.vstack([Y, queries])))


@pytest.mark.parametrize("golden", _cases(["classifier_digits", "classifier_iris"]), indirect=True)
def test_classifier(golden: Golden) -> None:
    X, labels = golden["X_uint8"] / 16 if "X_uint8" in golden else golden["X"], golden["labels_all"]
    train, test = golden["train_idx"], golden["test_idx"]
    classifier = KAHMClassifier(golden.n, int(golden["L"])).fit(X[train], labels[train])
    np.testing.assert_array_equal(classifier.classes_, golden["classes"])
    golden.check("distances", classifier.distances(X[test]), data_units=True)
    golden.check("train_min_dist", classifier.distances(X[train]).min(axis=1), data_units=True)
    golden.check("test_min_dist", classifier.distances(X[test]).min(axis=1), data_units=True)
    golden.check("match_score", classifier.matching_scores(X[test]))
    np.testing.assert_array_equal(classifier.predict(X[test]), golden["predicted"])
    assert classifier.score(X[test], labels[test]) == pytest.approx(float(golden["accuracy"]))
    assert not np.any(classifier.distances_and_poles(X)[1])


@pytest.mark.parametrize("golden", _cases(["kahm_small"]), indirect=True)
def test_comparison_can_fail(golden: Golden) -> None:
    """A machine of one component more, or data moved by 1e-6, is told apart."""
    wrong_dimension = KernelAffineHullMachine(golden.n + 1).fit(golden.Y)
    moved = KernelAffineHullMachine(golden.n).fit(golden.Y + 1e-6)
    for machine in (wrong_dimension, moved):
        assert golden.error("lam", machine.regularization_) > 10 * golden.tolerance
        assert golden.error("A_q", machine.transform(golden["Yq"]), data_units=True) > 10 * golden.tolerance
