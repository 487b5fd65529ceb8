"""Machine, smoother and classifier: against naive oracles, closed forms, and degenerate input."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone

import tasks.kahm.hull as hull_module
import tasks.kahm.regularization as regularization_module
from tasks.kahm import (
    IN_RANGE_CONDITIONING,
    MAX_STEPS,
    KAHMClassifier,
    KernelAffineHullMachine,
    StopRuleNotReached,
    fabricate,
    fixed_point_regularization,
    smooth,
)
from tests.oracles import naive_machine, naive_regularization, naive_step, residual_error

Array = NDArray[np.float64]


def rows(seed: int, N: int = 25, p: int = 4) -> Array:
    return np.random.default_rng(seed).random((N, p))


def kernel_and_data(seed: int, N: int, p: int) -> tuple[Array, Array]:
    Y = rows(seed, N, p)
    distances = np.sum((Y[:, None, :] - Y[None, :, :]) ** 2, axis=2)
    return np.exp(-6.0 * distances), Y


class TestRegularization:
    @pytest.mark.parametrize("seed", range(4))
    @pytest.mark.parametrize(
        ("N", "p", "scale"), [(2, 1, 1.0), (12, 3, 1.0), (40, 5, 30.0), (40, 5, 1e-2), (250, 8, 1.0)]
    )
    def test_is_the_naive_fixed_point(self, seed: int, N: int, p: int, scale: float) -> None:
        K, Y = kernel_and_data(seed, N, p)
        assert fixed_point_regularization(K, scale * Y) == pytest.approx(naive_regularization(K, scale * Y), rel=1e-11)

    def test_reaches_machine_precision(self) -> None:
        K, Y = kernel_and_data(0, 300, 6)
        Y[:, 0] *= 3.0
        values, vectors = np.linalg.eigh(K)
        shares = np.sum((vectors.T @ Y) ** 2, axis=1) / Y.size
        lam = fixed_point_regularization(K, Y)
        image = 2.0 * np.sum(Y**2) / Y.size + np.sum(shares * (lam / (values + lam)) ** 2)
        assert abs(lam - image) <= 1e-14 * lam

    def test_the_comparison_can_fail(self) -> None:
        K, Y = kernel_and_data(1, 20, 3)
        tau = 2.0 * np.sum(Y**2) / Y.size
        lam = fixed_point_regularization(K, Y)
        assert abs(lam - tau - residual_error(K, Y, lam)) < 1e-13
        perturbed = 1.0001 * lam
        assert abs(perturbed - tau - residual_error(K, Y, perturbed)) > 1e-6

    @pytest.mark.parametrize("start", [2.0, 2.2, 2.6, 3.0])
    @pytest.mark.parametrize("N", [30, 220])
    def test_does_not_depend_on_where_it_starts(self, start: float, N: int, monkeypatch: pytest.MonkeyPatch) -> None:
        K, Y = kernel_and_data(2, N, 4)
        expected = fixed_point_regularization(K, Y)
        monkeypatch.setattr(regularization_module, "_first_level", lambda rhs, s: start)
        assert fixed_point_regularization(K, Y) == pytest.approx(expected, rel=4e-15)

    def test_coefficients_solve_the_system(self) -> None:
        K, Y = kernel_and_data(3, 260, 4)
        lam, coefficients = regularization_module.solve_regularized(K, Y)
        right = np.column_stack([Y, np.ones(len(Y))])
        np.testing.assert_allclose((K + lam * np.eye(len(K))) @ coefficients, right, rtol=0, atol=1e-12)

    def test_lies_between_two_and_three_mean_squares(self) -> None:
        K, Y = kernel_and_data(4, 30, 3)
        s = np.sum(Y**2) / Y.size
        assert 2 * s < fixed_point_regularization(K, Y) < 3 * s
        # no kernel at all leaves the whole of Y as residual: the upper end
        assert fixed_point_regularization(np.zeros((30, 30)), Y) == pytest.approx(3 * s, rel=1e-15)
        assert fixed_point_regularization(1e12 * np.eye(30), Y) == pytest.approx(2 * s, rel=1e-15)

    def test_zero_data(self) -> None:
        assert fixed_point_regularization(np.ones((3, 3)), np.zeros((3, 2))) == 0.0

    def test_only_one_triangle_is_read_and_nothing_written(self) -> None:
        K, Y = kernel_and_data(5, 30, 3)
        broken = np.triu(K) + np.tril(np.full_like(K, 77.0), -1)
        before = broken.copy()
        assert fixed_point_regularization(broken, Y) == pytest.approx(fixed_point_regularization(K, Y), rel=1e-14)
        np.testing.assert_array_equal(broken, before)

    def test_singular_kernel_and_tiny_data_use_the_spectrum(self, monkeypatch: pytest.MonkeyPatch) -> None:
        Y = np.repeat(rows(6, 20, 3), 3, axis=0) * 1e-12
        calls = []
        spectral = regularization_module._spectral
        monkeypatch.setattr(
            regularization_module,
            "_spectral",
            lambda *a: calls.append(1) or spectral(*a),  # type: ignore[func-returns-value]
        )
        machine = KernelAffineHullMachine(2).fit(Y)
        assert calls, "this case is meant to have no Cholesky factor"
        assert np.all(np.isfinite(machine.transform(Y)))
        np.testing.assert_allclose(machine.transform(Y), Y, rtol=0, atol=1e-15)
        assert np.all(np.isfinite(machine.weights(Y + 1e-13)))

    @pytest.mark.parametrize(
        ("K", "Y", "message"),
        [
            (np.ones((3, 2)), np.ones((3, 1)), "K must have shape"),
            (np.ones((2, 2)), np.ones((3, 1)), "K must have shape"),
            (np.ones((2, 2)), np.array([[1.0], [np.nan]]), "NaN"),
            (np.full((2, 2), np.inf), np.ones((2, 1)), "infinity"),
            (np.ones((2, 2)), np.full((2, 1), 1e120), "scale the data"),
            (np.ones((2, 2)), np.full((2, 1), 1e-120), "scale the data"),
        ],
    )
    def test_value_errors(self, K: Array, Y: Array, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            fixed_point_regularization(K, Y)


class TestMachine:
    @pytest.mark.parametrize(("N", "p", "n"), [(10, 3, 2), (25, 4, 4), (9, 12, 5), (30, 2, 1)])
    def test_is_the_naive_machine(self, N: int, p: int, n: int) -> None:
        Y, queries = rows(7, N, p), rows(8, 15, p)
        machine, oracle = KernelAffineHullMachine(n).fit(Y), naive_machine(Y, n)
        assert machine.regularization_ == pytest.approx(oracle.lam, rel=1e-10)
        np.testing.assert_allclose(machine.transform(Y), oracle.images(Y), rtol=0, atol=1e-10)
        np.testing.assert_allclose(machine.transform(queries), oracle.images(queries), rtol=0, atol=1e-8)
        np.testing.assert_allclose(
            machine.distance(queries), np.linalg.norm(queries - oracle.images(queries), axis=1), atol=1e-8
        )

    def test_the_comparison_can_fail(self) -> None:
        Y = rows(7, 25, 4)
        machine, oracle = KernelAffineHullMachine(2).fit(Y), naive_machine(Y, 2)
        perturbed = type(oracle)(oracle.Y, oracle.P, oracle.theta, 1.001 * oracle.lam)
        assert np.max(np.abs(machine.transform(Y) - perturbed.images(Y))) > 1e-5

    def test_attributes(self) -> None:
        Y = rows(9)
        machine = KernelAffineHullMachine(3).fit(Y)
        np.testing.assert_allclose(machine.components_ @ machine.components_.T, np.eye(3), atol=1e-13)
        np.testing.assert_allclose(machine.covariance_, np.cov(machine.components_ @ Y.T), atol=1e-14)
        np.testing.assert_allclose(machine.mean_, Y.mean(axis=0), rtol=1e-15)
        assert machine.n_features_in_ == 4
        assert machine.modeling_error_ == pytest.approx(machine.distance(Y).sum(), rel=1e-12)

    def test_large_data_take_the_cheap_encoding_and_agree_with_the_exact_one(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        Y = rows(10, 60, 40)
        for data in (Y, Y[:20]):
            cheap = KernelAffineHullMachine(6).fit(data)
            with monkeypatch.context() as patch:
                patch.setattr("tasks.kahm.encoding._leading_by_gram", lambda *_: None)
                exact = KernelAffineHullMachine(6).fit(data)
            np.testing.assert_allclose(cheap.components_, exact.components_, atol=1e-12)
            np.testing.assert_allclose(cheap.transform(Y), exact.transform(Y), atol=1e-11)

    @pytest.mark.parametrize(("N", "p"), [(2, 1), (2, 5), (4, 6), (6, 10), (5, 4)])
    def test_full_dimension_shrinks_towards_the_mean(self, N: int, p: int) -> None:
        """n_eff = N - 1: every kernel value off the diagonal is exp(-1), whatever the data."""
        Y = rows(11, N, p)
        machine = KernelAffineHullMachine(20).fit(Y)
        assert len(machine.components_) == N - 1
        lam, m1, m2 = machine.regularization_, 1 + (N - 1) / math.e, 1 - 1 / math.e
        shrink = m2 * (m1 + lam) / (m1 * (m2 + lam))
        mean = Y.mean(axis=0)
        np.testing.assert_allclose(machine.transform(Y), mean + shrink * (Y - mean), atol=1e-13)

    def test_neither_scale_nor_translation_equivariant(self) -> None:
        Y = rows(12)
        machine = KernelAffineHullMachine(2).fit(Y)
        scaled = KernelAffineHullMachine(2).fit(3.0 * Y)
        moved = KernelAffineHullMachine(2).fit(Y + 1.0)
        assert scaled.regularization_ == pytest.approx(9.0 * machine.regularization_, rel=0.1)
        assert np.max(np.abs(scaled.transform(3.0 * Y) - 3.0 * machine.transform(Y))) > 1e-2
        assert np.max(np.abs(moved.transform(Y + 1.0) - machine.transform(Y) - 1.0)) > 1e-2

    def test_blocks_do_not_change_the_images(self, monkeypatch: pytest.MonkeyPatch) -> None:
        Y, queries = rows(13), rows(14, 53)
        machine = KernelAffineHullMachine(3).fit(Y)
        whole, weights, ratios = machine.transform(queries), machine.weights(queries), machine.conditioning(queries)
        monkeypatch.setattr(hull_module, "_BLOCK_SIZE", 7 * len(Y))
        np.testing.assert_allclose(machine.transform(queries), whole, rtol=0, atol=1e-13)
        np.testing.assert_allclose(machine.weights(queries), weights, rtol=0, atol=1e-12)
        np.testing.assert_allclose(machine.conditioning(queries), ratios, rtol=0, atol=1e-12)

    def test_weights_give_the_images(self) -> None:
        Y, queries = rows(15), rows(16, 9)
        machine = KernelAffineHullMachine(3).fit(Y)
        weights = machine.weights(queries)
        np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-12)
        np.testing.assert_allclose(weights @ Y, machine.transform(queries), atol=1e-11)
        np.testing.assert_allclose(machine.conditioning(queries), 1 / np.abs(weights).sum(axis=1), atol=1e-12)

    def test_training_rows_are_in_range(self) -> None:
        for seed in range(5):
            Y = rows(seed, 200, 8)
            assert np.all(KernelAffineHullMachine(5).fit(Y).conditioning(Y) > IN_RANGE_CONDITIONING)

    def test_exact_pole_is_finite(self) -> None:
        """Coefficients that cancel exactly: the sum of weights is kept at its rounding error."""
        coefficients = np.array([[1.0, 1.0], [2.0, -1.0]])
        image = hull_module._quotient(np.array([[1.0, 1.0]]), coefficients)
        assert np.isfinite(image).all() and image[0, 0] > 1e15

    @pytest.mark.parametrize("n_components", [0, -1, 1.5, True, "2", None])
    def test_n_components_value_errors(self, n_components: object) -> None:
        with pytest.raises(ValueError, match="n_components must be an integer of at least 1"):
            KernelAffineHullMachine(n_components).fit(rows(0))  # type: ignore[arg-type]

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    def test_not_finite_value_errors(self, bad: float) -> None:
        Y = rows(0)
        machine = KernelAffineHullMachine(2).fit(Y)
        Y[3, 1] = bad
        with pytest.raises(ValueError, match="NaN|infinity"):
            KernelAffineHullMachine(2).fit(Y)
        for method in (machine.transform, machine.distance, machine.weights, machine.conditioning):
            with pytest.raises(ValueError, match="NaN|infinity"):
                method(Y)

    def test_shape_and_magnitude_value_errors(self) -> None:
        machine = KernelAffineHullMachine(2).fit(rows(0))
        with pytest.raises(ValueError, match="features"):
            machine.transform(rows(0, 5, 3))
        with pytest.raises(ValueError, match="scale the data"):
            machine.transform(np.full((1, 4), 1e101))
        with pytest.raises(ValueError, match="scale the data"):
            KernelAffineHullMachine(2).fit(1e101 * rows(0))
        with pytest.raises(ValueError, match="minimum of 1"):
            KernelAffineHullMachine(2).fit(np.zeros((0, 3)))

    def test_clones_and_pickles(self) -> None:
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


class TestSmoothing:
    def test_counts_from_one(self) -> None:
        Y = rows(18)
        np.testing.assert_array_equal(smooth(Y, 2, 1), Y)
        np.testing.assert_allclose(smooth(Y, 2, 2), KernelAffineHullMachine(2).fit(Y).transform(Y), atol=1e-13)

    def test_is_the_naive_smoother(self) -> None:
        Y = rows(19, 12, 3)
        expected = Y
        for m in range(4):
            np.testing.assert_allclose(smooth(Y, 2, m + 1), expected, rtol=0, atol=1e-9)
            expected = naive_step(expected, 2)
        assert np.max(np.abs(smooth(Y, 2, 4) - expected)) > 1e-3  # one step more is told apart

    def test_leaves_its_input_alone(self) -> None:
        Y = rows(20)
        before = Y.copy()
        returned = smooth(Y, 2, 1)
        returned[:] = 0.0
        fabricate(Y, 2, steps=2)
        np.testing.assert_array_equal(Y, before)

    def test_fixed_steps(self) -> None:
        Y = rows(21)
        result = fabricate(Y, 2, steps=3)
        np.testing.assert_array_equal(result.data, smooth(Y, 2, 4))
        assert result.steps == 3 and result.errors.shape == (3,)
        errors = [KernelAffineHullMachine(2).fit(smooth(Y, 2, m + 1)).modeling_error_ for m in range(3)]
        np.testing.assert_allclose(result.errors, errors, rtol=1e-12)

    def test_threshold_takes_the_first_error_that_is_small_enough(self) -> None:
        Y = rows(22)
        errors = fabricate(Y, 2, steps=6).errors
        assert np.all(np.diff(errors) < 0)
        for m in range(1, 7):
            at_most = fabricate(Y, 2, threshold=float(errors[m - 1]))
            assert at_most.steps == m
            np.testing.assert_array_equal(at_most.data, smooth(Y, 2, m + 1))

    def test_at_least_one_step(self) -> None:
        Y = rows(23)
        result = fabricate(Y, 2, threshold=1e9)
        assert result.steps == 1
        np.testing.assert_array_equal(result.data, smooth(Y, 2, 2))

    def test_relative_is_a_threshold_on_released_data(self) -> None:
        Y = rows(24)
        first = fabricate(Y, 2, steps=1).errors[0]
        relative, threshold = fabricate(Y, 2, relative=0.4), fabricate(Y, 2, threshold=0.4 * first)
        assert relative.steps == threshold.steps > 1
        np.testing.assert_array_equal(relative.data, threshold.data)
        assert relative.errors[-1] <= 0.4 * first < relative.errors[-2]

    @pytest.mark.parametrize(
        ("rule", "message"),
        [
            ({}, "exactly one of steps, relative, threshold; got none"),
            ({"steps": 2, "relative": 0.5}, "exactly one of steps, relative, threshold; got steps, relative"),
            ({"steps": 0}, "steps must be an integer of at least 1, got 0"),
            ({"steps": 2.5}, "steps must be an integer"),
            ({"steps": True}, "steps must be an integer"),
            ({"relative": 0.0999}, "relative must be at least 0.1 and below 1, got 0.0999"),
            ({"relative": 1.0}, "relative must be"),
            ({"relative": math.nan}, "relative must be"),
            ({"relative": True}, "relative must be"),
            ({"threshold": -1.0}, "threshold must be a finite number of at least 0"),
            ({"threshold": math.inf}, "threshold must be"),
        ],
    )
    def test_value_errors(self, rule: dict[str, float], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            fabricate(rows(0), 2, **rule)  # type: ignore[arg-type]

    def test_smooth_value_errors(self) -> None:
        with pytest.raises(ValueError, match="steps must be an integer of at least 1, got 0"):
            smooth(rows(0), 2, 0)
        with pytest.raises(ValueError, match="n_components"):
            smooth(rows(0), 0, 1)
        with pytest.raises(ValueError, match="NaN"):
            smooth(np.array([[np.nan]]), 1, 1)

    def test_an_error_out_of_reach_ends_with_a_named_outcome(self) -> None:
        Y = 1e-3 * rows(25, 5, 6)  # a small mean square: the smoother hardly moves
        with pytest.raises(StopRuleNotReached, match=f"after {MAX_STEPS} smoothing steps") as caught:
            fabricate(Y, 4, relative=0.1)
        assert caught.value.errors.shape == (MAX_STEPS,)
        assert caught.value.errors[-1] > caught.value.target
        again = pickle.loads(pickle.dumps(caught.value))
        assert str(again) == str(caught.value)

    def test_zero_threshold_is_reached_by_identical_rows(self) -> None:
        assert fabricate(np.ones((4, 2)), 1, threshold=0.0).steps == 1
        assert fabricate(np.ones((4, 2)), 1, relative=0.5).steps == 1


class TestClassifier:
    X = np.vstack([rows(26, 30, 3), rows(27, 30, 3) + [0.8, 0.0, 0.0]])
    y = np.repeat(["left", "right"], 30)

    def test_one_machine_per_class(self) -> None:
        classifier = KAHMClassifier(2).fit(self.X, self.y)
        np.testing.assert_array_equal(classifier.classes_, ["left", "right"])
        for column, label in enumerate(classifier.classes_):
            machine = KernelAffineHullMachine(2).fit(self.X[self.y == label])
            np.testing.assert_array_equal(classifier.distances(self.X)[:, column], machine.distance(self.X))
        assert classifier.score(self.X, self.y) > 0.9
        assert classifier.predict(self.X).dtype == self.y.dtype

    def test_matching_scores(self) -> None:
        classifier = KAHMClassifier(2).fit(self.X, self.y)
        squares = classifier.distances(self.X) ** 2
        expected = np.exp(-squares / squares.sum(axis=1, keepdims=True))
        np.testing.assert_allclose(classifier.matching_scores(self.X), expected, rtol=1e-14)

    def test_all_zero_distances_match_perfectly(self) -> None:
        classifier = KAHMClassifier(2).fit([[1.0, 2.0], [1.0, 2.0]], [0, 1])
        np.testing.assert_array_equal(classifier.matching_scores([[1.0, 2.0]]), [[1.0, 1.0]])

    def test_ties_go_to_the_first_class(self) -> None:
        classifier = KAHMClassifier(1).fit([[-1.0], [1.0]], ["b", "a"])
        np.testing.assert_array_equal(classifier.predict([[0.0], [-0.5], [0.5]]), ["a", "b", "a"])

    def test_single_class_is_always_predicted(self) -> None:
        classifier = KAHMClassifier(2).fit(self.X, np.zeros(60, dtype=int))
        np.testing.assert_array_equal(classifier.predict(self.X), np.zeros(60))
        np.testing.assert_allclose(classifier.matching_scores(self.X + 1.0), math.exp(-1.0))

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"n_layers": 2}, "n_layers=2: deep machines are not available yet"),
            ({"n_branches": 3}, "n_branches=3: wide machines are not available yet"),
            ({"n_components": 0}, "n_components must be"),
        ],
    )
    def test_value_errors(self, arguments: dict[str, int], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            KAHMClassifier(**({"n_components": 2} | arguments)).fit(self.X, self.y)

    def test_one_branch_may_be_said(self) -> None:
        assert KAHMClassifier(2, n_layers=1, n_branches=1).fit(self.X, self.y).machines_

    def test_input_value_errors(self) -> None:
        classifier = KAHMClassifier(2).fit(self.X, self.y)
        for bad in (np.full((1, 3), np.nan), np.full((1, 3), np.inf), np.zeros((1, 2))):
            with pytest.raises(ValueError, match="NaN|infinity|features"):
                classifier.predict(bad)
        with pytest.raises(ValueError, match="continuous"):
            KAHMClassifier(2).fit(self.X, self.X[:, 0])
        with pytest.raises(ValueError, match="inconsistent"):
            KAHMClassifier(2).fit(self.X, self.y[:-1])

    def test_membership_inference_score_reads_the_smallest_distances(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import tasks.audit

        seen = {}

        def score(members: Array, controls: Array, **kwargs: float) -> float:
            seen.update(members=members, controls=controls, **kwargs)
            return 0.25

        monkeypatch.setattr(tasks.audit, "membership_inference_score", score, raising=False)
        classifier = KAHMClassifier(2).fit(self.X, self.y)
        assert classifier.membership_inference_score(self.X[::2], self.X[1::2], sigma=0.1) == 0.25
        np.testing.assert_array_equal(seen["members"], classifier.distances(self.X[::2]).min(axis=1))
        np.testing.assert_array_equal(seen["controls"], classifier.distances(self.X[1::2]).min(axis=1))
        assert seen["sigma"] == 0.1
