"""The fixed point of the regularization: against plain iteration, at machine precision, on singular kernels."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

import tasks.kahm.regularization as regularization_module
from tasks.kahm import KernelAffineHullMachine, fixed_point_regularization
from tasks.kahm.regularization import solve_regularized, solve_shifted
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


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e-4])
def test_solves_lose_no_digits_beside_those_of_lapack(scale: float) -> None:
    """Several blocks, down to a regularization of 1e-8 beside eigenvalues of hundreds."""
    X = np.random.default_rng(5).normal(size=(300, 3))
    K = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2) / 6)
    Y = scale * np.random.default_rng(6).normal(size=(300, 4))
    shift, _ = solve_regularized(K, Y)
    exact = _long_solve(K, shift, K @ Y)
    errors = [
        float(np.max(np.abs(found - exact)) / np.max(np.abs(exact)))
        for found in (solve_shifted(K, shift, K @ Y), cho_solve(cho_factor(K + shift * np.eye(300)), K @ Y))
    ]
    assert errors[0] <= 4.0 * errors[1] + 1e-14


def _long_solve(K: np.ndarray, shift: float, B: np.ndarray) -> np.ndarray:
    """(K + shift I)^-1 B in long doubles, by the Cholesky factor row by row."""
    A = K.astype(np.longdouble) + np.longdouble(shift) * np.eye(len(K), dtype=np.longdouble)
    L = np.zeros_like(A)
    for j in range(len(A)):
        L[j, j] = np.sqrt(A[j, j] - L[j, :j] @ L[j, :j])
        L[j + 1 :, j] = (A[j + 1 :, j] - L[j + 1 :, :j] @ L[j, :j]) / L[j, j]
    X = B.astype(np.longdouble)
    for j in range(len(A)):
        X[j] = (X[j] - L[j, :j] @ X[:j]) / L[j, j]
    for j in reversed(range(len(A))):
        X[j] = (X[j] - L[j + 1 :, j] @ X[j + 1 :]) / L[j, j]
    return X


def test_a_kernel_of_any_size_makes_no_warning() -> None:
    fixed_point_regularization(np.eye(300) * 1e60, np.ones((300, 2)))
