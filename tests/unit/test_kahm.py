"""The machine: against the naive one, closed forms, and degenerate data."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone

import tasks.kahm.hull as hull_module
from tasks.kahm import IN_RANGE_CONDITIONING, KernelAffineHullMachine, fabricate, smooth
from tests.oracles import naive_machine

Array = NDArray[np.float64]


def rows(seed: int, N: int = 25, p: int = 4) -> Array:
    return np.random.default_rng(seed).random((N, p))


@pytest.mark.parametrize(("N", "p", "n"), [(10, 3, 2), (25, 4, 4), (9, 12, 5), (30, 2, 1)])
def test_is_the_naive_machine(N: int, p: int, n: int) -> None:
    Y, queries = rows(7, N, p), rows(8, 15, p)
    machine, oracle = KernelAffineHullMachine(n).fit(Y), naive_machine(Y, n)
    assert machine.regularization_ == pytest.approx(oracle.lam, rel=1e-10)
    np.testing.assert_allclose(machine.transform(Y), oracle.images(Y), rtol=0, atol=1e-10)
    np.testing.assert_allclose(machine.transform(queries), oracle.images(queries), rtol=0, atol=1e-8)
    np.testing.assert_allclose(
        machine.distance(queries), np.linalg.norm(queries - oracle.images(queries), axis=1), atol=1e-8
    )


def test_the_comparison_can_fail() -> None:
    Y = rows(7, 25, 4)
    machine, oracle = KernelAffineHullMachine(2).fit(Y), naive_machine(Y, 2)
    perturbed = type(oracle)(oracle.Y, oracle.P, oracle.theta, 1.001 * oracle.lam)
    assert np.max(np.abs(machine.transform(Y) - perturbed.images(Y))) > 1e-5


def test_attributes() -> None:
    Y = rows(9)
    machine = KernelAffineHullMachine(3).fit(Y)
    np.testing.assert_allclose(machine.components_ @ machine.components_.T, np.eye(3), atol=1e-13)
    np.testing.assert_allclose(machine.covariance_, np.cov(machine.components_ @ Y.T), atol=1e-14)
    np.testing.assert_allclose(machine.mean_, Y.mean(axis=0), rtol=1e-15)
    assert machine.n_features_in_ == 4
    assert machine.modeling_error_ == pytest.approx(machine.distance(Y).sum(), rel=1e-12)


def test_large_data_take_the_cheap_encoding_and_agree_with_the_exact_one(monkeypatch: pytest.MonkeyPatch) -> None:
    Y = rows(10, 60, 40)
    for data in (Y, Y[:20]):
        cheap = KernelAffineHullMachine(6).fit(data)
        with monkeypatch.context() as patch:
            patch.setattr("tasks.kahm.encoding._leading_by_gram", lambda *_: None)
            exact = KernelAffineHullMachine(6).fit(data)
        np.testing.assert_allclose(cheap.components_, exact.components_, atol=1e-12)
        np.testing.assert_allclose(cheap.transform(Y), exact.transform(Y), atol=1e-11)


@pytest.mark.parametrize(("N", "p"), [(2, 1), (2, 5), (4, 6), (6, 10), (5, 4)])
def test_full_dimension_shrinks_towards_the_mean(N: int, p: int) -> None:
    """n_eff = N - 1: every kernel value off the diagonal is exp(-1), whatever the data."""
    Y = rows(11, N, p)
    machine = KernelAffineHullMachine(20).fit(Y)
    assert len(machine.components_) == N - 1
    lam, m1, m2 = machine.regularization_, 1 + (N - 1) / math.e, 1 - 1 / math.e
    shrink = m2 * (m1 + lam) / (m1 * (m2 + lam))
    mean = Y.mean(axis=0)
    np.testing.assert_allclose(machine.transform(Y), mean + shrink * (Y - mean), atol=1e-13)


def test_neither_scale_nor_translation_equivariant() -> None:
    Y = rows(12)
    machine = KernelAffineHullMachine(2).fit(Y)
    scaled = KernelAffineHullMachine(2).fit(3.0 * Y)
    moved = KernelAffineHullMachine(2).fit(Y + 1.0)
    assert scaled.regularization_ == pytest.approx(9.0 * machine.regularization_, rel=0.1)
    assert np.max(np.abs(scaled.transform(3.0 * Y) - 3.0 * machine.transform(Y))) > 1e-2
    assert np.max(np.abs(moved.transform(Y + 1.0) - machine.transform(Y) - 1.0)) > 1e-2


def test_blocks_do_not_change_the_images(monkeypatch: pytest.MonkeyPatch) -> None:
    Y, queries = rows(13), rows(14, 53)
    machine = KernelAffineHullMachine(3).fit(Y)
    whole, weights, ratios = machine.transform(queries), machine.weights(queries), machine.conditioning(queries)
    monkeypatch.setattr(hull_module, "_BLOCK_SIZE", 7 * len(Y))
    np.testing.assert_allclose(machine.transform(queries), whole, rtol=0, atol=1e-13)
    np.testing.assert_allclose(machine.weights(queries), weights, rtol=0, atol=1e-12)
    np.testing.assert_allclose(machine.conditioning(queries), ratios, rtol=0, atol=1e-12)


def test_weights_give_the_images() -> None:
    Y, queries = rows(15), rows(16, 9)
    machine = KernelAffineHullMachine(3).fit(Y)
    weights = machine.weights(queries)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(weights @ Y, machine.transform(queries), atol=1e-11)
    np.testing.assert_allclose(machine.conditioning(queries), 1 / np.abs(weights).sum(axis=1), atol=1e-12)


def test_training_rows_are_in_range() -> None:
    for seed in range(5):
        Y = rows(seed, 200, 8)
        assert np.all(KernelAffineHullMachine(5).fit(Y).conditioning(Y) > IN_RANGE_CONDITIONING)


def test_exact_pole_is_finite() -> None:
    """Coefficients that cancel exactly: the sum of weights is kept at its rounding error."""
    coefficients = np.array([[1.0, 1.0], [2.0, -1.0]])
    image = hull_module._quotient(np.array([[1.0, 1.0]]) @ coefficients, coefficients)
    assert np.isfinite(image).all() and image[0, 0] > 1e15


@pytest.mark.parametrize("n_components", [0, -1, 1.5, True, "2", None])
def test_n_components_value_errors(n_components: object) -> None:
    with pytest.raises(ValueError, match="n_components must be an integer of at least 1"):
        KernelAffineHullMachine(n_components).fit(rows(0))  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_not_finite_value_errors(bad: float) -> None:
    Y = rows(0)
    machine = KernelAffineHullMachine(2).fit(Y)
    Y[3, 1] = bad
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        KernelAffineHullMachine(2).fit(Y)
    for method in (machine.transform, machine.distance, machine.weights, machine.conditioning):
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            method(Y)


def test_shape_and_magnitude_value_errors() -> None:
    machine = KernelAffineHullMachine(2).fit(rows(0))
    with pytest.raises(ValueError, match="features"):
        machine.transform(rows(0, 5, 3))
    with pytest.raises(ValueError, match="scale the data"):
        machine.transform(np.full((1, 4), 1e101))
    with pytest.raises(ValueError, match="scale the data"):
        KernelAffineHullMachine(2).fit(1e101 * rows(0))
    with pytest.raises(ValueError, match="minimum of 1"):
        KernelAffineHullMachine(2).fit(np.zeros((0, 3)))


def test_clones_and_pickles() -> None:
    Y = rows(17)
    machine = KernelAffineHullMachine(3).fit(Y)
    assert clone(machine).get_params() == {"n_components": 3}
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(machine)).transform(Y), machine.transform(Y))


DEGENERATE = {
    "one row": np.array([[0.4, -0.3, 0.2]]),
    "two rows": np.array([[0.4, -0.3, 0.2], [0.1, 0.5, 0.9]]),
    "identical rows": np.tile([0.1, 0.2, 0.3], (7, 1)),
    "all zero": np.zeros((5, 3)),
    "constant column": np.column_stack([rows(1, 20, 2), np.full(20, 0.1)]),
    "duplicates": np.repeat(rows(2, 5, 3), 4, axis=0),
    "one row apart": np.vstack([np.tile([0.1, 0.2, 0.3], (9, 1)), [[0.9, 0.2, 0.3]]]),
    "rank one": np.outer(np.linspace(0, 1, 30), [1.0, 2.0, 3.0]),
    "identical up to rounding": np.tile([0.1, 0.2, 0.3], (8, 1)) + np.spacing(0.1) * (rows(3, 8, 3) > 0.5),
    "huge": 1e90 * rows(4, 12, 3),
    "tiny": 1e-90 * rows(5, 12, 3),
    "tiny with duplicates": 1e-90 * np.repeat(rows(5, 4, 3), 3, axis=0),
    "far from zero": 1e6 + rows(6, 12, 3),
    "outlier": np.vstack([rows(7, 30, 3), [[1e8, 1e8, 1e8]]]),
    "binary": (rows(8, 40, 3) > 0.5).astype(float),
    "columns of very different size": rows(9, 30, 3) * [1.0, 1e-6, 1e6],
}


@pytest.mark.parametrize("Y", DEGENERATE.values(), ids=DEGENERATE.keys())
@pytest.mark.parametrize("n", [1, 2, 20])
def test_degenerate_data_give_finite_answers(Y: Array, n: int) -> None:
    size = max(float(np.max(np.abs(Y))), 1e-3)
    queries = np.vstack([Y, Y + 0.1 * size, Y - 1e3 * size, Y * 0 + 1e8 * min(size, 1e90)])
    machine = KernelAffineHullMachine(n).fit(Y)
    assert len(machine.components_) <= min(n, Y.shape[1], len(Y) - 1)
    for result in (
        machine.transform(queries),
        machine.distance(queries),
        machine.weights(queries),
        machine.conditioning(queries),
        smooth(Y, n, 4),
        fabricate(Y, n, steps=2).errors,
    ):
        assert np.all(np.isfinite(result))
    assert math.isfinite(machine.regularization_) and math.isfinite(machine.modeling_error_)


@pytest.mark.parametrize("name", ["one row", "identical rows", "all zero"])
def test_no_direction_maps_everything_to_the_row(name: str) -> None:
    Y = DEGENERATE[name]
    machine = KernelAffineHullMachine(2).fit(Y)
    assert machine.components_.shape == (0, 3) and machine.covariance_.shape == (0, 0)
    queries = np.array([Y[0], Y[0] + 1.0, Y[0] - 1e6])
    np.testing.assert_array_equal(machine.transform(queries), np.tile(Y[0], (3, 1)))
    np.testing.assert_array_equal(machine.conditioning(queries), np.ones(3))
    assert machine.modeling_error_ == 0.0
    np.testing.assert_array_equal(smooth(Y, 2, 5), Y)


def test_rank_ignores_what_is_only_rounding() -> None:
    assert len(KernelAffineHullMachine(3).fit(DEGENERATE["constant column"]).components_) == 2
    assert len(KernelAffineHullMachine(3).fit(DEGENERATE["rank one"]).components_) == 1
    shifted = DEGENERATE["constant column"] + [0.0, 0.0, 1e9]
    assert len(KernelAffineHullMachine(3).fit(shifted).components_) == 2
