"""The fixed point of the regularization: against plain iteration, at machine precision, on singular kernels."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import tasks.kahm.regularization as regularization_module
from tasks.kahm import KernelAffineHullMachine, fixed_point_regularization
from tests.oracles import naive_regularization, residual_error

Array = NDArray[np.float64]


def rows(seed: int, N: int = 25, p: int = 4) -> Array:
    return np.random.default_rng(seed).random((N, p))


def kernel_and_data(seed: int, N: int, p: int) -> tuple[Array, Array]:
    Y = rows(seed, N, p)
    distances = np.sum((Y[:, None, :] - Y[None, :, :]) ** 2, axis=2)
    return np.exp(-6.0 * distances), Y


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("N", "p", "scale"), [(2, 1, 1.0), (12, 3, 1.0), (40, 5, 30.0), (40, 5, 1e-2), (250, 8, 1.0)])
def test_is_the_naive_fixed_point(seed: int, N: int, p: int, scale: float) -> None:
    K, Y = kernel_and_data(seed, N, p)
    assert fixed_point_regularization(K, scale * Y) == pytest.approx(naive_regularization(K, scale * Y), rel=1e-11)


def test_reaches_machine_precision() -> None:
    K, Y = kernel_and_data(0, 300, 6)
    Y[:, 0] *= 3.0
    values, vectors = np.linalg.eigh(K)
    shares = np.sum((vectors.T @ Y) ** 2, axis=1) / Y.size
    lam = fixed_point_regularization(K, Y)
    image = 2.0 * np.sum(Y**2) / Y.size + np.sum(shares * (lam / (values + lam)) ** 2)
    assert abs(lam - image) <= 1e-14 * lam


def test_the_comparison_can_fail() -> None:
    K, Y = kernel_and_data(1, 20, 3)
    tau = 2.0 * np.sum(Y**2) / Y.size
    lam = fixed_point_regularization(K, Y)
    assert abs(lam - tau - residual_error(K, Y, lam)) < 1e-13
    perturbed = 1.0001 * lam
    assert abs(perturbed - tau - residual_error(K, Y, perturbed)) > 1e-6


@pytest.mark.parametrize("start", [2.0, 2.2, 2.6, 3.0])
@pytest.mark.parametrize("N", [30, 220])
def test_does_not_depend_on_where_it_starts(start: float, N: int, monkeypatch: pytest.MonkeyPatch) -> None:
    K, Y = kernel_and_data(2, N, 4)
    expected = fixed_point_regularization(K, Y)
    monkeypatch.setattr(regularization_module, "_first_level", lambda rhs, s: start)
    assert fixed_point_regularization(K, Y) == pytest.approx(expected, rel=4e-15)


def test_coefficients_solve_the_system() -> None:
    K, Y = kernel_and_data(3, 260, 4)
    lam, coefficients = regularization_module.solve_regularized(K, Y)
    right = np.column_stack([Y, np.ones(len(Y))])
    np.testing.assert_allclose((K + lam * np.eye(len(K))) @ coefficients, right, rtol=0, atol=1e-12)


def test_lies_between_two_and_three_mean_squares() -> None:
    K, Y = kernel_and_data(4, 30, 3)
    s = np.sum(Y**2) / Y.size
    assert 2 * s < fixed_point_regularization(K, Y) < 3 * s
    # no kernel at all leaves the whole of Y as residual: the upper end
    assert fixed_point_regularization(np.zeros((30, 30)), Y) == pytest.approx(3 * s, rel=1e-15)
    assert fixed_point_regularization(1e12 * np.eye(30), Y) == pytest.approx(2 * s, rel=1e-15)


def test_zero_data() -> None:
    assert fixed_point_regularization(np.ones((3, 3)), np.zeros((3, 2))) == 0.0


def test_only_one_triangle_is_read_and_nothing_written() -> None:
    K, Y = kernel_and_data(5, 30, 3)
    broken = np.tril(K) + np.triu(np.full_like(K, 77.0), 1)
    before = broken.copy()
    assert fixed_point_regularization(broken, Y) == pytest.approx(fixed_point_regularization(K, Y), rel=1e-14)
    np.testing.assert_array_equal(broken, before)


def test_singular_kernel_and_tiny_data_use_the_spectrum(monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_value_errors(K: Array, Y: Array, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fixed_point_regularization(K, Y)
