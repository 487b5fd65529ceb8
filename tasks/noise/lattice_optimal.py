"""The additive noise with the least E|K| at a given (epsilon, delta), by linear programme, with an exact guarantee."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tasks.noise.bits import BitSource, OperatingSystemBits
from tasks.noise.buckets import BucketSampler
from tasks.noise.exact import THRESHOLD_BITS, context, exp_minus
from tasks.noise.parameters import as_steps, check_delta, check_epsilon, check_loss, check_steps
from tasks.noise.staircase import staircase_rise

if TYPE_CHECKING:
    from dp_accounting import DpEvent

__all__ = ["LatticeOptimal"]

MAX_MAGNITUDE = 2**50
"""Places stay exact in doubles, which search for the worst shift; the guarantee itself is computed in integers."""

_WEIGHT_BITS = 52  # a weight is a whole number below 2^53: JSON readers everywhere keep it
_FACTOR_BITS = 96  # exp(loss) is rounded down to a multiple of 2^-96
_MOST_CELLS = 230
_EVERY_STEP_UP_TO = 16  # steps per sensitivity: below, each magnitude is a cell of its own
_MARGIN = 1e-9  # of delta, kept for the rounding of the solution to whole weights
_FAR = 700.0
_HIGH_LOSS = 40.0  # exp(40) is above 2^53, hence above the ratio of any two weights that are not 0


@dataclass(frozen=True)
class LatticeOptimal:
    """Noise in whole lattice steps, uniform on each of a few cells of neighbouring magnitudes, of finite support.

    `LatticeOptimal.solve` finds the weights that make E|K| least; the constructor takes any and keeps them only
    if they have the guarantee that is claimed.

    Parameters
    ----------
    epsilon : float
        Finite, above 0, at most 700.
    delta : float
        In (0, 1).
    sensitivity : int
        D, the number of lattice steps by which one cell may differ between adjacent tables.
    ends : tuple of int, shape (n_cells,)
        Cell i holds the magnitudes from ends[i - 1] (0 for the first) to ends[i] - 1; at most 2^50.
    weights : tuple of int, shape (n_cells,)
        P(k) is proportional to the weight of the cell that |k| lies in; below 2^53.

    Raises
    ------
    ValueError
        If a parameter is outside its range or the law is not (epsilon, delta)-differentially private.

    Notes
    -----
    Guarantee: (epsilon, delta_at(epsilon))-differential privacy, where the latter is at most delta, for the adjacency
    "one cell moves by at most D lattice steps".  Assumed: integer data on a lattice fixed in advance, integer sums,
    a uniform bit source.

    Proof.  Let I_i be the intervals of integers on which P is constant, with values p_i.  For a shift s

        H(s) = sum_k [P(k) - exp(e) P(k - s)]_+ = sum_(i,j) |I_i intersected with (I_j + s)| [p_i - exp(e) p_j]_+,

    where one of the I is what lies beyond the support, with value 0.  The size of the intersection of two intervals is
    a piecewise linear function of s, whose slope changes only where an end of I_i meets an end of I_j + s.  So between
    two neighbouring such shifts H is linear, H(s) is a convex combination of its values at the two, hence at most
    their maximum: the largest H over 1, ..., D is reached at a difference of two ends, or at D.  `delta_at` evaluates
    those, in whole numbers, with exp(e) rounded down.  (For cells of equal width w it says that a shift between two
    multiples of w is no worse than the worse of them.)

    The privacy loss takes finitely many values, infinity among them.  P need not fall with |k| everywhere.

    References
    ----------
    Geng, Viswanath (2016) for the linear programme at delta = 0, whose solution is the staircase; Ghosh,
    Roughgarden, Sundararajan (2012) for mechanisms by linear programming.
    """

    epsilon: float
    delta: float
    sensitivity: int
    ends: tuple[int, ...]
    weights: tuple[int, ...]

    def __post_init__(self) -> None:
        _check(self.epsilon, self.delta)
        object.__setattr__(self, "epsilon", float(self.epsilon))
        object.__setattr__(self, "delta", float(self.delta))
        object.__setattr__(self, "sensitivity", check_steps("sensitivity", self.sensitivity, MAX_MAGNITUDE))
        ends = tuple(check_steps("ends", end, MAX_MAGNITUDE) for end in self.ends)
        weights = tuple(int(weight) for weight in self.weights)
        if not ends or len(ends) != len(weights) or any(a >= b for a, b in pairwise(ends)):
            raise ValueError("ends must increase, and there must be as many weights")
        if any(not 0 <= weight < 2**53 for weight in weights) or not any(weights):
            raise ValueError("weights must lie in [0, 2^53) and not all be 0")
        object.__setattr__(self, "ends", ends)
        object.__setattr__(self, "weights", weights)
        exact = self.delta_at(self.epsilon)
        if exact > self.delta:
            raise ValueError(
                f"the weights give delta={exact!r} at epsilon={self.epsilon!r}, above the claimed {self.delta!r}"
            )

    @classmethod
    def solve(cls, epsilon: float, delta: float, sensitivity: int) -> LatticeOptimal:
        """Find the weights with the least E|K| among laws that are uniform on the cells chosen here.

        Parameters
        ----------
        epsilon : float
            Above 0, at most 700.
        delta : float
            In (0, 1); at 0 `LatticeStaircase` is optimal and nothing is to be solved.
        sensitivity : int
            D.  Up to 16 each magnitude is a cell, so the law is the best of all additive noise on the lattice (but for
            what the finite support costs); beyond, there are 2 to 22 cells to every D, fewer for a longer support.

        Returns
        -------
        LatticeOptimal
            The same for the same arguments in one process; manifests should keep `parameters()`, since another
            version of the solver may find other weights.

        Raises
        ------
        ValueError
            If an argument is outside its range, or delta is so small for this epsilon that the support would be
            too large for the programme.  (There the closed forms are within 0.1 % of the limit.)

        Notes
        -----
        Variables: the cells' values p_i, and for each pair of cells that shifts may bring together the excess
        t_ij >= p_i - exp(epsilon) p_j, t_ij >= 0.  For each shift at which H may be largest (see the class) one row,
        sum of overlaps x t_ij <= delta.  Solved by HiGHS' dual simplex in doubles; then the values are rounded to whole
        weights, the guarantee is computed exactly, and if it is above delta the programme is solved again for as
        much less.  Mean time 0.1 s, at most about 1 s.
        """
        _check(epsilon, delta)
        return _solve(float(epsilon), float(delta), check_steps("sensitivity", sensitivity, MAX_MAGNITUDE))

    @property
    def name(self) -> str:
        """`lattice-optimal`."""
        return "lattice-optimal"

    def parameters(self) -> dict[str, float | int | list[int]]:
        """Give what `law_from_parameters` needs to build this law again."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "sensitivity": self.sensitivity,
            "ends": list(self.ends),
            "weights": list(self.weights),
        }

    @property
    def atom(self) -> float:
        """What P(0) has above P(1): the probability of no noise by design, beside the zero of a law without an atom."""
        masses = self._weight(np.array([0, 1]))
        return max(0.0, float(Fraction(int(masses[0]) - int(masses[1]), self._total)))

    @property
    def max_magnitude(self) -> int:
        """The largest |k|, in steps."""
        return self.ends[-1] - 1

    @property
    def sampling_bias(self) -> float:
        """A bound, below 2^-119, of the total variation distance per value between `sample` and this law."""
        return _sampler(self.ends, self.weights).rounding_bias

    @property
    def _total(self) -> int:
        return _total(self.ends, self.weights)

    def _weight(self, k: ArrayLike) -> NDArray[np.int64]:
        as_steps(k)
        cell = np.searchsorted(np.array(self.ends), np.abs(np.asarray(k, dtype=np.int64)), side="right")
        return np.array([*self.weights, 0], dtype=np.int64)[cell]

    def pmf(self, k: ArrayLike) -> NDArray[np.float64]:
        """Give the probability of each number of steps, an array of integers; ValueError for other types."""
        return np.asarray(self._weight(k) / float(self._total))

    def log_pmf(self, k: ArrayLike) -> NDArray[np.float64]:
        """Give the logarithm of `pmf`, -infinity where that is 0."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.pmf(k)))

    def cdf(self, k: ArrayLike) -> NDArray[np.float64]:
        """Give P(K <= k); parameters and errors as for `pmf`."""
        as_steps(k)
        steps = np.asarray(k, dtype=np.int64)
        ends = np.array([0, *self.ends], dtype=np.int64)
        sizes = [b - a for a, b in pairwise(ends.tolist())]
        masses = [size * weight for size, weight in zip(sizes, self.weights, strict=True)]
        tails = [0]
        for mass in reversed(masses):
            tails.append(tails[-1] + mass)
        at_start = np.array([tail / self._total for tail in reversed(tails)])  # P(K >= ends[i])
        first = np.minimum(np.where(steps < 0, -steps, steps + 1), ends[-1])
        cell = np.minimum(np.searchsorted(ends, first, side="right") - 1, len(self.weights) - 1)
        weight = np.array(self.weights, dtype=np.float64)[cell] / float(self._total)
        tail = at_start[cell + 1] + (ends[cell + 1] - first) * weight
        return np.asarray(np.where(steps < 0, tail, 1.0 - tail))

    def expected_magnitude(self) -> float:
        """Give E|K|, in steps."""
        start, weighted = 0, 0
        for end, weight in zip(self.ends, self.weights, strict=True):
            weighted += weight * (end - start) * (start + end - 1)  # twice the sum of the magnitudes
            start = end
        return float(Fraction(weighted, self._total))

    def delta_at(self, epsilon: float, shift: int | None = None) -> float:
        """Give the exact privacy profile of this law: the least delta that goes with `epsilon`.

        Parameters
        ----------
        epsilon : float
            The loss e >= 0 asked about; infinity is allowed, and leaves what lies beyond the other's support.
        shift : int, default=None
            The number of steps s >= 1 by which the cell may differ at most; None means `sensitivity`.

        Returns
        -------
        float
            The maximum over the shifts 1 to s, in both directions, of sum_k [P(k) - exp(e) P(k - shift)]_+,
            rounded up: never below the true value, above it by about one unit in the last place.

        Raises
        ------
        ValueError
            If `epsilon` or `shift` is outside its range.
        """
        loss = check_loss(epsilon)
        steps = check_steps("shift", self.sensitivity if shift is None else shift, 2**62)
        return _profile(self.ends, self.weights, loss, steps)

    def dp_event(self) -> DpEvent:
        """Give the event of one use at D."""
        from tasks.noise.event import LatticeNoiseDpEvent

        parameters = tuple(
            (key, tuple(value) if isinstance(value, list) else value) for key, value in self.parameters().items()
        )
        return LatticeNoiseDpEvent(self.name, parameters, self.sensitivity)

    def sample(self, shape: int | tuple[int, ...], *, bits: BitSource | None = None) -> NDArray[np.int64]:
        """Draw independent values: a cell, a uniform place in it, a fair sign.

        Parameters
        ----------
        shape : int or tuple of int
        bits : BitSource, default=None
            None means `OperatingSystemBits()`.  Anything else is for tests and brands the release.

        Returns
        -------
        ndarray of int64, of shape `shape`
            In lattice steps, between -`max_magnitude` and `max_magnitude`.

        Raises
        ------
        ValueError
            If `shape` has a negative entry or the bit source does not keep its promise.
        """
        source = OperatingSystemBits() if bits is None else bits
        values = np.empty(shape, dtype=np.int64)
        values.reshape(-1)[...] = _sampler(self.ends, self.weights).draw(values.size, source)
        return values


def _check(epsilon: object, delta: object) -> None:
    loss, probability = check_epsilon(epsilon), check_delta(delta)
    if loss > _FAR:
        raise ValueError(f"epsilon must be at most 700 for the linear programme, got epsilon={epsilon!r}")
    if probability == 0.0:
        raise ValueError("delta must be above 0 for the linear programme; at delta=0 LatticeStaircase is optimal")


def _total(ends: tuple[int, ...], weights: tuple[int, ...]) -> int:
    """The sum of the weights of all integers."""
    sizes = [ends[0], *(b - a for a, b in pairwise(ends))]
    return 2 * sum(size * weight for size, weight in zip(sizes, weights, strict=True)) - weights[0]


# The exact guarantee


def _signed(ends: Sequence[int]) -> NDArray[np.int64]:
    """First integers of the intervals on which the law is constant, and the first beyond its support."""
    positive = np.array(ends, dtype=np.int64)
    return np.concatenate((1 - positive[::-1], positive))


def _critical_shifts(ends: Sequence[int], largest: int) -> NDArray[np.int64]:
    """The shifts up to `largest` at which the divergence may be largest, in descending order."""
    edges = _signed(ends)
    shifts = np.unique(edges[None, :] - edges[:, None])
    shifts = shifts[(shifts > 0) & (shifts < largest)]
    return np.concatenate(([largest], shifts[::-1]))


def _overlaps(edges: NDArray[np.int64], shift: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Cells of the law, cells of the law moved by `shift` (n_cells: beyond the support), sizes of intersections."""
    moved = edges + shift
    cuts = np.unique(np.concatenate((edges, moved)))
    size, first = np.diff(cuts), cuts[:-1]
    n_cells = len(edges) // 2

    def cell(of: NDArray[np.int64]) -> NDArray[np.int64]:
        index = np.searchsorted(of, first, side="right") - 1
        inside = (index >= 0) & (index < len(of) - 1)
        return np.where(inside, np.abs(index - (n_cells - 1)), n_cells).astype(np.int64)

    return cell(edges), cell(moved), size


@lru_cache(maxsize=1024)
def _profile(ends: tuple[int, ...], weights: tuple[int, ...], loss: float, largest: int) -> float:
    """The largest divergence over the shifts 1 to `largest`, exactly, rounded up to a double."""
    if largest >= 2 * ends[-1] - 1:
        return 1.0  # the supports are disjoint at that shift
    edges, total = _signed(ends), _total(ends, weights)
    falling = all(a >= b for a, b in pairwise(weights))
    # A law that falls with |k| has its worst shift at the end: each positive term grows with it.
    shifts = np.array([largest]) if falling else _critical_shifts(ends, largest)
    pairs = [_overlaps(edges, int(shift)) for shift in shifts]
    factor = math.exp(min(loss, _FAR))
    value = np.array([*weights, 0], dtype=np.float64) / total
    rough = np.array([float(np.sum(np.maximum(value[i] - factor * value[j], 0.0) * n)) for i, j, n in pairs])
    # Doubles are off by less than 1e-13 here; what they cannot tell apart is computed in integers.
    worst = max(
        _exact_divergence(pairs[index], weights, loss) for index in np.flatnonzero(rough >= rough.max() - 1e-13)
    )
    return min(1.0, _up(Fraction(worst, total << _FACTOR_BITS)))


def _exact_divergence(
    overlaps: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]], weights: tuple[int, ...], loss: float
) -> int:
    """The divergence times the total weight times 2^96, where exp(loss) is rounded down."""
    scaled = [*weights, 0]
    if loss > _HIGH_LOSS:
        return sum(
            (scaled[i] << _FACTOR_BITS) * n for i, j, n in zip(*map(_ints, overlaps), strict=True) if not scaled[j]
        )
    factor = _factor(loss)
    return sum(
        max(0, (scaled[i] << _FACTOR_BITS) - factor * scaled[j]) * n
        for i, j, n in zip(*map(_ints, overlaps), strict=True)
    )


def _ints(values: NDArray[np.int64]) -> list[int]:
    return [int(value) for value in values]


@lru_cache(maxsize=1024)
def _factor(loss: float) -> int:
    """exp(loss) 2^96, rounded down."""
    digits = 45 + math.ceil(loss / 2.3)
    with localcontext(context(digits)):
        power = exp_minus(-Fraction(loss), digits - 10)
        lower = power * (1 - Decimal(10) ** (12 - digits)) * 2**_FACTOR_BITS if loss else Decimal(2**_FACTOR_BITS)
        return int(lower.to_integral_value(rounding=ROUND_FLOOR))


def _up(value: Fraction) -> float:
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


# The linear programme


@lru_cache(maxsize=64)
def _solve(epsilon: float, delta: float, sensitivity: int) -> LatticeOptimal:
    ends = _cells(epsilon, delta, sensitivity)
    for falling in (False, True):
        target = delta * (1.0 - _MARGIN)
        for _ in range(4):
            values = _programme(epsilon, target, sensitivity, ends, falling)
            if values is None:
                break
            weights = _whole(values)
            kept = max(i for i, weight in enumerate(weights) if weight) + 1
            cells, whole = tuple(ends[:kept]), tuple(weights[:kept])
            exact = _profile(cells, whole, epsilon, sensitivity)
            if exact <= delta:
                return LatticeOptimal(epsilon, delta, sensitivity, cells, whole)
            target *= delta / exact * (1.0 - _MARGIN)
    raise ValueError(
        f"the linear programme found no law for epsilon={epsilon!r}, delta={delta!r}, sensitivity={sensitivity}"
    )


def _whole(values: NDArray[np.float64]) -> list[int]:
    scale = 2.0**_WEIGHT_BITS / float(values.max())
    return [max(0, round(float(value) * scale)) for value in values]


def _cells(epsilon: float, delta: float, sensitivity: int) -> list[int]:
    """Ends of the cells: a partition of the integers that reflections and moves by D leave as it is.

    Zero and the multiples of D are cells of their own, for atoms; then 16 (or 8, or 4) equal parts of D, and cuts at
    the staircase's r and r/2 on both sides of each multiple; where the support is long, cuts at r alone.  The support
    ends one D after the truncated Laplace law's for delta/3.
    """
    growth = epsilon + math.log(-math.expm1(-epsilon)) + math.log(3.0 / (2.0 * delta))  # log(3 (e^eps - 1)/(2 delta))
    reach = math.ceil(sensitivity * (float(np.logaddexp(0.0, growth)) / epsilon + 1.0))
    rise = sensitivity * staircase_rise(epsilon)
    choices: list[set[int]] = []
    if sensitivity <= _EVERY_STEP_UP_TO:
        choices.append(set(range(1, sensitivity + 1)))
    for parts in (16, 8, 4):
        cuts = {1, round(rise), round(rise / 2.0)} | {math.ceil(sensitivity * (i + 0.5) / parts) for i in range(parts)}
        choices.append({cut for cut in cuts if 1 <= 2 * cut <= sensitivity + 1})
    choices.append({min(max(1, round(rise)), (sensitivity + 1) // 2)})
    for half in choices:
        period = sorted(half | {sensitivity + 1 - cut for cut in half})
        n_cells = (reach // sensitivity + 1) * len(period)
        if n_cells <= _MOST_CELLS and reach < MAX_MAGNITUDE:
            ends = sorted({cut + i * sensitivity for i in range(reach // sensitivity + 1) for cut in period})
            return [end for end in ends if end <= reach] + [reach + 1]
    raise ValueError(
        f"the support at epsilon={epsilon!r}, delta={delta!r} would be about {reach // sensitivity} times the "
        "sensitivity, too large for the linear programme; the closed forms are near the limit there"
    )


def _programme(
    epsilon: float, delta: float, sensitivity: int, ends: list[int], falling: bool
) -> NDArray[np.float64] | None:
    """The optimal values of the cells, in units of 1/D; None if the solver gives up."""
    from scipy import optimize, sparse

    n_cells = len(ends)
    end = np.array(ends, dtype=np.float64)
    start = np.concatenate(([0.0], end[:-1]))
    size = 2.0 * (end - start)
    size[0] -= 1.0
    magnitude = (end - start) * (start + end - 1.0)
    edges = _signed(ends)
    shifts = [sensitivity] if falling else _critical_shifts(ends, sensitivity)
    codes, lengths = [], []
    for shift in shifts:
        i, j, n = _overlaps(edges, int(shift))
        use = i < j  # where |k| is the larger one P does not exceed exp(epsilon) Q; the exact check covers it
        code, place = np.unique(i[use] * (n_cells + 1) + j[use], return_inverse=True)
        codes.append(code)
        lengths.append(np.bincount(place, n[use].astype(np.float64)) / (sensitivity * delta))
    pairs = np.unique(np.concatenate(codes))
    first, second = pairs // (n_cells + 1), pairs % (n_cells + 1)
    beyond = second == n_cells  # Q = 0: the excess is P itself
    column = np.where(beyond, first, n_cells + np.cumsum(~beyond) - 1)
    n_excess = int(np.count_nonzero(~beyond))
    row = np.arange(n_excess)
    ones = np.ones(n_excess)
    entries = [
        (row, first[~beyond], ones),
        (row, second[~beyond], -math.exp(epsilon) * ones),
        (row, n_cells + row, -ones),
    ]
    for index, (code, length) in enumerate(zip(codes, lengths, strict=True)):
        entries.append((np.full(code.size, n_excess + index), column[np.searchsorted(pairs, code)], length))
    n_rows = n_excess + len(codes)
    bound = np.concatenate((np.zeros(n_excess), np.ones(len(codes))))
    if falling:
        cell = np.arange(n_cells - 1)
        entries += [(n_rows + cell, cell + 1, np.ones(cell.size)), (n_rows + cell, cell, -np.ones(cell.size))]
        n_rows += cell.size
        bound = np.concatenate((bound, np.zeros(cell.size)))
    rows, columns, values = (np.concatenate([entry[part] for entry in entries]) for part in range(3))
    n_columns = n_cells + n_excess
    csr_matrix: Any = sparse.csr_matrix  # the solver's type stubs know dense matrices only
    solution = optimize.linprog(
        np.concatenate((magnitude / float(sensitivity) ** 2, np.zeros(n_excess))),
        A_ub=csr_matrix((values, (rows, columns)), shape=(n_rows, n_columns)),
        b_ub=bound,
        A_eq=csr_matrix(np.concatenate((size / sensitivity, np.zeros(n_excess)))[None, :]),
        b_eq=[1.0],
        bounds=(0.0, None),
        method="highs-ds",
        options={"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9},
    )
    return None if solution.status != 0 or solution.x is None else np.asarray(solution.x[:n_cells])


@lru_cache(maxsize=32)
def _sampler(ends: tuple[int, ...], weights: tuple[int, ...]) -> BucketSampler:
    """Zero, and the cells without it."""
    total = _total(ends, weights)
    starts, widths, thresholds = [], [], []
    passed, start = weights[0], 1
    for end, weight in zip(ends, weights, strict=True):
        if end > start and weight:
            thresholds.append(((passed << (THRESHOLD_BITS + 1)) + total) // (2 * total))
            starts.append(start)
            widths.append(end - start)
            passed += 2 * (end - start) * weight
        start = max(start, end)
    return BucketSampler(thresholds, starts, widths)
