"""The regularization of a KAHM: the fixed point of equations (28) and (40-44), and the solve it needs.

With ``s = ||Y||_F^2 / (pN)`` and c_i the share of ``||Y||_F^2`` along the i-th eigenvector of K (eigenvalue
mu_i), the wanted lambda solves

    lambda = 2 s + s sum_i c_i (lambda / (mu_i + lambda))^2,        so 2 s <= lambda <= 3 s.

The right side is a contraction (rate at most 4/27), so the solution is unique. One Cholesky factor of
``K + lambda_0 I`` is enough for far more than one Newton step: each triangular solve with it gives one more
moment ``M_k = sum_i c_i u_i^k`` of ``u_i = lambda_0 / (mu_i + lambda_0)``, and with
``lambda = lambda_0 (1 + rho)``

    sum_i c_i (lambda / (mu_i + lambda))^2 = (1 + rho)^2 sum_{k>=0} (k+1) (-rho)^k M_{k+2}.

As 0 < u_i <= 1, the rest of the series after M_J has a bound. That bound is the stop rule: refactor at the
new lambda while |rho| is large, finish with the factor at hand once it is small. The same solves give the
series of ``(K + lambda I)^-1 [Y, 1]``, all that a KAHM needs to evaluate its image. Usually one factorisation
in float32 finds a good start and one in float64 the result. There is no warm start, on purpose: the result
depends on K and Y alone, so a smoothing step that is taken up again after a crash gives the same bytes (with the same
BLAS and number of its threads).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh
from sklearn.utils import check_array

from tasks.kahm.checks import check_magnitude
from tasks.kahm.cholesky import ShiftedCholesky

_EPS = float(np.finfo(np.float64).eps)

_MAX_FACTORISATIONS = 8
#: So many solves with one factor cost about as much as factoring again (measured at N = 1000, p = 50).
_MAX_SOLVES = 7
#: From so many rows on, a first look in float32 costs less than it saves.
_COARSE_FROM = 200


def fixed_point_regularization(K: ArrayLike, Y: ArrayLike) -> float:
    """Regularization lambda* = e^ + tau of a KAHM, the unique fixed point of equations (40-44).

    ``tau = 2/(pN) ||Y||_F^2`` (uncentred) and e^ is the fixed point of
    ``R(e) = 1/(pN) ||Y - K (K + (e + tau) I)^-1 Y||_F^2``; found to machine precision.

    Parameters
    ----------
    K : array-like of shape (N, N)
        Kernel matrix, symmetric positive semi-definite; one triangle is read.
    Y : array-like of shape (N, p)
        Data, in the units in which the method is meant to see them (it is neither scale nor translation
        equivariant).

    Returns
    -------
    float
        lambda*, between 2 s and 3 s with ``s = ||Y||_F^2 / (pN)``; 0.0 if all of Y is zero.

    Raises
    ------
    ValueError
        If K is not square, K and Y have different numbers of rows, a value is NaN or infinite, or the
        magnitudes of Y lie outside [1e-100, 1e100].

    Notes
    -----
    The value is the fixed point for the K given. Where lambda* is tiny beside 1, as for data scaled far below 1,
    rounding in the entries of K moves it: by about 1e-13 of itself for data of size 0.1, 1e-9 for 0.001.

    References
    ----------
    Kumar, Moser, Fischer, JAIR 2024, equations (28) and (40-44).
    """
    kernel: NDArray[np.float64] = check_array(K, dtype=np.float64, order="C", input_name="K")
    rows: NDArray[np.float64] = check_array(Y, dtype=np.float64, input_name="Y")
    if kernel.shape != (len(rows), len(rows)):
        raise ValueError(f"K must have shape ({len(rows)}, {len(rows)}) to match Y, got {kernel.shape}")
    check_magnitude(rows)
    if not np.any(rows):
        return 0.0
    return solve_regularized(kernel, rows)[0]


def solve_regularized(K: NDArray[np.float64], Y: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
    """lambda* and the coefficients ``(K + lambda* I)^-1 [Y, 1]``, without checks of the input.

    Parameters
    ----------
    K : ndarray of shape (N, N)
        Row-major; the lower triangle is read, nothing is written.
    Y : ndarray of shape (N, p)
        Not all zero.

    Returns
    -------
    regularization : float
    coefficients : ndarray of shape (N, p + 1)
    """
    N, p = Y.shape
    norm = float(np.linalg.norm(Y))
    s = norm / (p * N) * norm
    rhs = np.empty((N, p + 1))
    np.divide(Y, norm, out=rhs[:, :p])
    rhs[:, p] = 1.0
    shift = s * _first_level(rhs, s)
    if N >= _COARSE_FROM:
        shift = _coarse_shift(K, rhs, shift, s)
    for attempt in range(_MAX_FACTORISATIONS):
        factor = ShiftedCholesky.factorise(K, shift)
        if factor is None:
            regularization, coefficients = _spectral(K, rhs, s)
            break
        rho, powers = _solve_nearby(factor, rhs, shift, s, force=attempt == _MAX_FACTORISATIONS - 1)
        regularization = shift * (1.0 + rho)
        if powers is not None:
            coefficients = _resolvent(powers, rho) / shift
            break
        shift = min(max(regularization, 2.0 * s), 3.0 * s)
    coefficients[:, :p] *= norm
    return regularization, coefficients


def solve_shifted(K: NDArray[np.float64], shift: float, B: NDArray[np.float64]) -> NDArray[np.float64]:
    """``(K + shift I)^-1 B`` for a positive semi-definite K, by the same route as :func:`solve_regularized`.

    Parameters
    ----------
    K : ndarray of shape (N, N)
    shift : float
        Positive.
    B : ndarray of shape (N, m)

    Returns
    -------
    ndarray of shape (N, m)
    """
    factor = ShiftedCholesky.factorise(K, shift)
    if factor is not None:
        return factor.backward(factor.forward(np.ascontiguousarray(B))) / shift
    return _spectral_solve(*_spectrum(K), shift, B)


def _first_level(rhs: NDArray[np.float64], s: float) -> float:
    """lambda / s as if all kernel values off the diagonal were exp(-1), which is exact for n = N - 1."""
    N, p = rhs.shape[0], rhs.shape[1] - 1
    variance_share = 1.0 - N * float(np.sum(rhs[:, :p].mean(axis=0) ** 2))
    level = 2.5
    for _ in range(4):
        level = 2.0 + variance_share * (s * level / (s * level + 1.0 - math.exp(-1.0))) ** 2
    return level


def _coarse_shift(K: NDArray[np.float64], rhs: NDArray[np.float64], shift: float, s: float) -> float:
    """One refinement of the shift in float32, at half the cost; where it fails, the shift as it was.

    Only the starting point of the float64 iteration depends on it, not its result.
    """
    if not 1e-30 < shift < 1e30:
        return shift
    with np.errstate(over="ignore", invalid="ignore"):
        factor = ShiftedCholesky.factorise(K, shift, np.float32)
    if factor is None:
        return shift
    rho, _ = _solve_nearby(factor, rhs.astype(np.float32), shift, s, coarse=True)
    return min(max(shift * (1.0 + rho), 2.0 * s), 3.0 * s) if math.isfinite(rho) else shift


def _solve_nearby(
    factor: ShiftedCholesky,
    rhs: NDArray[Any],
    shift: float,
    s: float,
    *,
    coarse: bool = False,
    force: bool = False,
) -> tuple[float, list[NDArray[Any]] | None]:
    """Relative step rho to the fixed point; the powers needed there, None if factoring again is cheaper."""
    p = rhs.shape[1] - 1
    moments = [1.0]
    powers: list[NDArray[Any]] = []
    current = rhs
    while True:
        half = factor.forward(current)
        current = factor.backward(half)
        powers.append(current)
        moments += [_square_sum(half[:, :p]), _square_sum(current[:, :p])]
        if len(powers) == 1:
            continue
        rho = _step(moments, shift, s)
        if coarse:
            return rho, None
        if _is_settled(moments, rho, len(powers), shift, s) or (force and len(powers) == _MAX_SOLVES):
            return rho, powers
        if not force and (abs(rho) ** _MAX_SOLVES > _EPS or len(powers) == _MAX_SOLVES):
            return rho, None


def _square_sum(columns: NDArray[Any]) -> float:
    flat = columns.ravel()
    return float(flat @ flat)


def _step(moments: list[float], shift: float, s: float) -> float:
    """Root rho of shift (1 + rho) - 2 s - s (1 + rho)^2 sum_k (k+1) (-rho)^k M_{k+2}, by Newton's method."""
    series = np.polynomial.Polynomial([(-1.0) ** k * (k + 1) * moment for k, moment in enumerate(moments[2:])])
    slope = series.deriv()
    rho = 0.0
    for _ in range(50):
        value = shift * (1 + rho) - 2 * s - s * (1 + rho) ** 2 * series(rho)
        gradient = shift - 2 * s * (1 + rho) * series(rho) - s * (1 + rho) ** 2 * slope(rho)
        update = float(value / gradient) if gradient > 0.5 * shift else float(value / shift)
        rho = min(max(rho - update, -0.4), 0.6)
        if abs(update) <= 0.25 * _EPS:
            break
    return rho


def _is_settled(moments: list[float], rho: float, n_solves: int, shift: float, s: float) -> bool:
    """Whether both truncated series are exact to rounding: moments for lambda, powers for the solve."""
    r, first_left_out = abs(rho), len(moments) - 2
    tail = moments[-1] * r**first_left_out * ((first_left_out + 1) / (1 - r) + r / (1 - r) ** 2)
    return r**n_solves <= _EPS and s * (1 + rho) ** 2 * tail <= _EPS * shift


def _resolvent(powers: list[NDArray[np.float64]], rho: float) -> NDArray[np.float64]:
    """Neumann series ``sum_k (-rho)^k U^(k+1)`` of ``U (I + rho U)^-1``, by Horner's rule."""
    total = powers[-1].copy()
    for power in reversed(powers[:-1]):
        total *= -rho
        total += power
    return total


def _spectrum(K: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Eigenvalues, none below zero, and eigenvectors of K; only for K singular to working precision."""
    values, vectors = eigh(K, lower=True, check_finite=False)
    return np.maximum(values, 0.0), vectors


def _spectral_solve(
    values: NDArray[np.float64], vectors: NDArray[np.float64], shift: float, B: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(K + shift I)^-1 B without the directions of K that are pure rounding, if the shift is no larger."""
    rounding = len(values) * _EPS * float(values[-1])
    projected = vectors.T @ B
    if shift <= rounding:
        projected[values <= rounding] = 0.0
    return vectors @ (projected / (values + shift)[:, None])


def _spectral(K: NDArray[np.float64], rhs: NDArray[np.float64], s: float) -> tuple[float, NDArray[np.float64]]:
    """As solve_regularized where K + lambda I has no Cholesky factor: lambda is below the rounding of K."""
    values, vectors = _spectrum(K)
    shares = np.sum((vectors.T @ rhs[:, :-1]) ** 2, axis=1)
    level = 2.5
    for _ in range(100):  # contraction with rate at most 4/27: 20 rounds give machine precision
        previous, level = level, 2.0 + float(np.sum(shares * (s * level / (values + s * level)) ** 2))
        if abs(level - previous) <= 0.5 * _EPS * level:
            break
    return s * level, _spectral_solve(values, vectors, s * level, rhs)
