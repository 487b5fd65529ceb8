"""Smoothing of noise-added data, and the fabricated data it ends in (definitions 13 and 14).

Everything here reads noise-added (released) data and public parameters only.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array

from tasks.kahm.checks import check_magnitude, check_positive_integer
from tasks.kahm.hull import fit_hull, row_distances
from tasks.kahm.sharding import shard_rows

#: Steps after which a stop rule on the error gives up.
MAX_STEPS = 200

#: Below this share of the error of the noise-added data, smoothing costs utility (measured).
MIN_RELATIVE = 0.1


class StopRuleNotReached(RuntimeError):
    """The summed distance did not come down to the wanted error within MAX_STEPS smoothing steps.

    Attributes
    ----------
    target : float
        The wanted error r.
    errors : ndarray of shape (MAX_STEPS,)
        Summed distances of Yhat_0, Yhat_1, ... as computed.
    """

    def __init__(self, target: float, errors: NDArray[np.float64]) -> None:
        self.target = target
        self.errors = errors
        super().__init__(
            f"after {len(errors) - 1} smoothing steps the error is {errors[-1]:.6g} (at first {errors[0]:.6g}), "
            f"the stop rule wants {target:.6g}: ask for a fixed number of steps or a larger error"
        )

    def __reduce__(self) -> tuple[type[StopRuleNotReached], tuple[float, NDArray[np.float64]]]:
        return type(self), (self.target, self.errors)


@dataclass(frozen=True)
class FabricationResult:
    """Fabricated data and how they came about.

    Attributes
    ----------
    data : ndarray of shape (N, p)
        Yhat_M, one row for each row of Y+, in the same order.
    steps : int
        M, the number of smoothing steps, at least 1.
    errors : ndarray of shape (M,)
        Summed distances ``sum_i ||yhat_i - A(yhat_i)||`` of Yhat_0 = Y+ to Yhat_{M-1}, each under its own
        machine. They cost nothing extra; the error of the data themselves, Yhat_M, is not computed.
    """

    data: NDArray[np.float64]
    steps: int
    errors: NDArray[np.float64]


def smooth(Y_plus: ArrayLike, n_components: int, steps: int) -> NDArray[np.float64]:
    """Smoothed data ``T_{n,steps}(Y+) = Yhat_{steps-1}``, definition 13.

    ``Yhat_0 = Y+``; row i of ``Yhat_{m+1}`` is the image of row i of ``Yhat_m`` under the machine fitted to
    ``Yhat_m``: encoding, covariance and regularization are learned afresh in every step.

    Parameters
    ----------
    Y_plus : array-like of shape (N, p)
        Noise-added data, finite.
    n_components : int
        At least 1.
    steps : int
        At least 1. The paper counts from 1: ``steps=1`` is the identity.

    Returns
    -------
    ndarray of shape (N, p)

    Raises
    ------
    ValueError
        If n_components or steps is not a positive integer, or Y_plus is refused by
        :meth:`KernelAffineHullMachine.fit`.

    Notes
    -----
    Neither scale nor translation equivariant, as the machine itself. Rows of ``Yhat_m`` are images of the
    rows that the machine was fitted to, away from its poles.

    References
    ----------
    Kumar, Moser, Fischer, JAIR 2024, definition 13.
    """
    rows, n_components = _check(Y_plus, n_components)
    for _ in range(check_positive_integer("steps", steps) - 1):
        rows, _ = _step(rows, n_components)
    return rows


def fabricate(
    Y_plus: ArrayLike,
    n_components: int,
    *,
    steps: int | None = None,
    relative: float | None = None,
    threshold: float | None = None,
) -> FabricationResult:
    """Fabricated data ``Yhat_M``, definition 14, under exactly one of three stop rules.

    Parameters
    ----------
    Y_plus : array-like of shape (N, p)
        Noise-added data, finite.
    n_components : int
        At least 1.
    steps : int, default=None
        M itself, at least 1.
    relative : float, default=None
        rho, 0.1 <= rho < 1: stop at the error ``r = rho x (error of Y+)``.
    threshold : float, default=None
        r, at least 0, in the units of a sum of N distances. The paper takes the modeling error of the *raw*
        data, a confidential number: a release made with it is not covered by its guarantee.

    Returns
    -------
    FabricationResult
        For ``relative`` and ``threshold``, M is the smallest m >= 1 with error(Yhat_{m-1}) <= r. At least
        one smoothing step is taken even if Y+ itself meets the rule.

    Raises
    ------
    ValueError
        If not exactly one stop rule is given, or a parameter is outside its range, or Y_plus is refused by
        :meth:`KernelAffineHullMachine.fit`.
    StopRuleNotReached
        If the error is still above r after MAX_STEPS = 200 steps. Data with a small mean square are smoothed
        slowly (lambda* is proportional to it), and a threshold can be out of reach.

    References
    ----------
    Kumar, Moser, Fischer, JAIR 2024, definition 14.
    """
    given = {"steps": steps, "relative": relative, "threshold": threshold}
    named = [name for name, value in given.items() if value is not None]
    if len(named) != 1:
        raise ValueError(f"give exactly one of steps, relative, threshold; got {', '.join(named) or 'none'}")
    rows, n_components = _check(Y_plus, n_components)
    wanted = None if steps is None else check_positive_integer("steps", steps)
    if relative is not None and not (_is_real(relative) and MIN_RELATIVE <= relative < 1.0):
        raise ValueError(f"relative must be at least {MIN_RELATIVE} and below 1, got {relative!r}")
    if threshold is not None and not (_is_real(threshold) and 0.0 <= threshold < np.inf):
        raise ValueError(f"threshold must be a finite number of at least 0, got {threshold!r}")

    errors: list[float] = []
    target = threshold
    while True:
        rows, error = _step(rows, n_components)
        errors.append(error)
        if relative is not None and target is None:
            target = relative * error
        if len(errors) == wanted or (target is not None and error <= target):
            return FabricationResult(rows, len(errors), np.array(errors))
        if target is not None and len(errors) == MAX_STEPS:
            raise StopRuleNotReached(float(target), np.array(errors))


@dataclass(frozen=True)
class ShardedFabrication:
    """Fabricated data of several shards.

    Attributes
    ----------
    data : ndarray of shape (N, p)
        One row for each row of Y+, in the same order.
    shards : ndarray of shape (N,)
        Shard of each row, from 0.
    results : tuple of FabricationResult
        Of each shard, its rows in the order of Y+.
    """

    data: NDArray[np.float64]
    shards: NDArray[np.int64]
    results: tuple[FabricationResult, ...]


def fabricate_by_shard(
    Y_plus: ArrayLike,
    n_components: int,
    *,
    max_rows: int = 1000,
    steps: int | None = None,
    relative: float | None = None,
) -> ShardedFabrication:
    """Fabricated data of many rows: those of each k-means shard by themselves, remark 4.

    Parameters
    ----------
    Y_plus : array-like of shape (N, p)
        Noise-added data of one class, finite. Cost and memory are linear in N.
    n_components : int
        At least 1.
    max_rows : int, default=1000
        Target size of a shard, see :func:`shard_rows`.
    steps, relative : default=None
        The stop rule of every shard, as for :func:`fabricate`; exactly one of the two.

    Returns
    -------
    ShardedFabrication

    Raises
    ------
    ValueError
        As :func:`shard_rows` and, for the rows of any shard, :func:`fabricate`.
    StopRuleNotReached
        As :func:`fabricate`, of the first shard it happens in.

    References
    ----------
    Kumar, Moser, Fischer, JAIR 2024, definition 14, remark 4 and equation (57).
    """
    shards = shard_rows(Y_plus, max_rows)
    rows: NDArray[np.float64] = np.asarray(Y_plus, dtype=np.float64)
    data = np.empty_like(rows)
    results = []
    for own in np.split(np.argsort(shards, kind="stable"), np.cumsum(np.bincount(shards))[:-1]):
        results.append(fabricate(rows[own], n_components, steps=steps, relative=relative))
        data[own] = results[-1].data
    return ShardedFabrication(data, shards, tuple(results))


def _step(rows: NDArray[np.float64], n_components: int) -> tuple[NDArray[np.float64], float]:
    """Yhat_{m+1} from Yhat_m, and the summed distance of Yhat_m."""
    _, images = fit_hull(rows, n_components)
    return images, float(np.sum(row_distances(rows, images)))


def _check(Y_plus: ArrayLike, n_components: int) -> tuple[NDArray[np.float64], int]:
    rows: NDArray[np.float64] = check_array(Y_plus, dtype=np.float64, copy=True, input_name="Y_plus")
    check_magnitude(rows, "Y_plus")
    return rows, check_positive_integer("n_components", n_components)


def _is_real(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
