"""The linear programme for the additive noise with the least E|K| at a given (epsilon, delta)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.noise.cell_profile import critical_shifts, largest_divergence, overlaps, signed_edges
from tasks.noise.staircase import staircase_rise

__all__ = ["MAX_MAGNITUDE", "least_magnitude"]

MAX_MAGNITUDE = 2**50
"""Places stay exact in doubles, which search for the worst shift; the guarantee itself is computed in integers."""

_WEIGHT_BITS = 52  # a weight is a whole number below 2^53: JSON readers everywhere keep it
_MOST_CELLS = 230
_EVERY_STEP_UP_TO = 16  # steps per sensitivity: below, each magnitude is a cell of its own
_MARGIN = 1e-9  # of delta, kept for the rounding of the solution to whole weights


def least_magnitude(epsilon: float, delta: float, sensitivity: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Give the ends and weights of the cells with the least E|K|; their exact delta is at most `delta`.

    Variables: the cells' values p_i, and for each pair of cells that shifts may bring together the excess
    t_ij >= p_i - exp(epsilon) p_j, t_ij >= 0.  For each shift at which the divergence may be largest (see
    `LatticeOptimal`) one row, sum of overlaps x t_ij <= delta.  Solved by HiGHS' dual simplex in doubles; then the
    values are rounded to whole weights, the guarantee is computed exactly, and if it is above delta the programme is
    solved again for as much less.
    """
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
            exact = largest_divergence(cells, whole, epsilon, sensitivity)
            if exact <= delta:
                return cells, whole
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
    edges = signed_edges(ends)
    shifts = [sensitivity] if falling else critical_shifts(ends, sensitivity)
    codes, lengths = [], []
    for shift in shifts:
        i, j, n = overlaps(edges, int(shift))
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
