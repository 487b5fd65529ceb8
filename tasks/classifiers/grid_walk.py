"""The grid walk of Bassily, Smith and Thakurta (2014, section 6): private where its distance from the wanted law is
certified, which is possible in one and two dimensions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, special

from tasks.classifiers.convex_sets import ConvexSet
from tasks.classifiers.exact_losses import ExactLosses
from tasks.classifiers.net_sampler import bounding_box
from tasks.noise.bits import BitSource, draw_below, draw_words

__all__ = ["CertifiedSteps", "GridWalk", "grid_walk_for", "penalty_rate"]

FloatArray = NDArray[np.float64]
Cell = tuple[int, ...]

MOST_STATES = 4096
"""Cells of a grid on which the distance is certified."""

MOST_STEPS = 2**20
"""Steps that a certificate is sought for."""

_FINE = 2**20  # places of a point inside its cell, along each axis
_FALLBACK_SHARE = 40.0 * math.log(2.0)  # the fallback's part in any outcome is below e to minus this
_STEPS_AT_A_TIME = 4096


class CertifiedSteps(NamedTuple):
    """A length of the walk, and what is certified for it.

    Attributes
    ----------
    steps : int
    error : float
        log of the largest over the smallest ratio of the walk's law to the wanted one, over the cells that meet the
        set: given the set, no probability is off by more than a factor e^error.
    outside : float
        Bound of the probability that a run ends outside the set.
    """

    steps: int
    error: float
    outside: float


def penalty_rate(radial_slope: float, dimension: int) -> float:
    """The rate a of the penalty exp(-a (gauge - 1)) that leaves at most half of the mass outside the set.

    Parameters
    ----------
    radial_slope : float
        Bound of how much the exponent changes along a ray from the centre to the set's surface.
    dimension : int
        p.

    Notes
    -----
    Along a ray whose point on the surface has the exponent V, the mass outside is at most
    e^-V int_(s > 1) e^(-a (s - 1)) s^(p-1) ds, since the exponent is continued constantly, and the mass inside at
    least e^-V int_(s < 1) e^(-slope (1 - s)) s^(p-1) ds. The first is at most the second for the returned a (up to
    the grid's coarseness, which no guarantee rests on).
    """
    nodes, weights = special.roots_legendre(64)
    s = 0.5 * (nodes + 1.0)
    # by the substitution 1 - s = v / (1 + slope), cut where nothing is left
    reach = min(1.0, 40.0 / max(radial_slope, 40.0))
    at = reach * s
    inside = reach * 0.5 * float(weights @ (np.exp(-radial_slope * at) * (1.0 - at) ** (dimension - 1)))
    a = 1.0
    while True:
        outside = sum(special.binom(dimension - 1, j) * math.factorial(j) / a ** (j + 1) for j in range(dimension))
        if outside <= inside:
            return a
        a *= 1.25


@dataclass(frozen=True, eq=False)
class GridWalk:
    """A lazy Metropolis walk on the cells of a grid over the box around a convex set.

    Parameters
    ----------
    losses : ExactLosses
        Of the risk, on the convex set.
    scale : float
        epsilon / k: cells have weight exp(-scale risk - penalty (gauge - 1)_+).
    cells_per_axis : int
        At least 2.
    penalty : float
        Above 0.

    Notes
    -----
    A cell's weight is taken at its middle, outside the set with the risk of the nearest point of the set: that is
    Lipschitz, with the risk's constant, and so the ratio of two neighbours' weights has the same bounded range as
    over the set. A step stays with probability 1/2, else picks one of the 2p neighbours and moves there with
    probability min(1, ratio of the weights) in whole 2^-64; never out of the box.

    The gauge counts beyond 1 plus that of half a cell's diagonal, so that no cell that meets the set is penalised:
    given the set, the law does not depend on the penalty, which need not be public then.

    Exponents are whole numbers times scale and unit, with four roundings of at most 2^-53 of the largest exponent, so
    that the law's logarithms are off by less than 2^-50 of it on both tables together. `exponential_sample` refuses
    where that is above a quarter of `EPSILON_SLACK` times epsilon.
    """

    losses: ExactLosses
    scale: float
    cells_per_axis: int
    penalty: float

    def __post_init__(self) -> None:
        lower, upper = bounding_box(self.convex_set)
        object.__setattr__(self, "_lower", lower)
        object.__setattr__(self, "_side", (upper - lower) / self.cells_per_axis)
        object.__setattr__(self, "_known", {})
        corners = np.array(list(product((-0.5, 0.5), repeat=lower.size))) * self._side
        margin = max(self.convex_set.gauge(self.convex_set.centre + corner) for corner in corners)
        object.__setattr__(self, "_margin", margin)

    _lower: FloatArray = None  # type: ignore[assignment]
    _side: FloatArray = None  # type: ignore[assignment]
    _known: dict[Cell, float] = None  # type: ignore[assignment]
    _margin: float = 0.0

    @property
    def convex_set(self) -> ConvexSet:
        """Give the set that the walk is for."""
        return self.losses.convex_set

    @property
    def dimension(self) -> int:
        """Give p."""
        return self.convex_set.dimension

    @property
    def start(self) -> Cell:
        """The cell of the set's centre, which is no cell of the records' choosing."""
        place = np.floor((self.convex_set.centre - self._lower) / self._side).astype(int)
        return tuple(np.clip(place, 0, self.cells_per_axis - 1).tolist())

    def exponent(self, cell: Cell) -> float:
        """Minus the logarithm of a cell's weight."""
        known = self._known.get(cell)
        if known is None:
            nearest = self.convex_set.project(self._middle(cell))
            total = self.losses.totals(nearest[None, :])[0]
            known = float(total) * (self.scale * self.losses.unit) + self.penalty * self._beyond(cell)
            self._known[cell] = known
        return known

    def _middle(self, cell: Cell) -> FloatArray:
        return self._lower + (np.array(cell) + 0.5) * self._side

    def _beyond(self, cell: Cell) -> float:
        """How far the gauge says that a cell is out of the set; 0 for every cell that meets it."""
        return max(0.0, self.convex_set.gauge(self._middle(cell)) - 1.0 - self._margin)

    def acceptance(self, here: Cell, there: Cell) -> int:
        """The probability of a move that was picked, in whole 2^-64."""
        rise = self.exponent(there) - self.exponent(here)
        return 2**64 if rise <= 0.0 else int(math.exp(-rise) * 2.0**64)

    # --- the chain's law, exactly ---------------------------------------------------------------------------------

    def cells(self) -> list[Cell]:
        """All cells, in the order of `transition_matrix`."""
        if self.cells_per_axis**self.dimension > MOST_STATES:
            raise ValueError(
                f"a grid of {self.cells_per_axis}^{self.dimension} cells is too large: its law is certified for "
                f"at most {MOST_STATES}"
            )
        return [tuple(map(int, cell)) for cell in np.ndindex(*(self.cells_per_axis,) * self.dimension)]

    def weights(self) -> FloatArray:
        """The wanted law over `cells`, normalised."""
        exponents = np.array([self.exponent(cell) for cell in self.cells()])
        relative = np.exp(exponents.min() - exponents)
        return relative / relative.sum()

    def transition_matrix(self) -> sparse.csr_array:
        """P, with the very probabilities that the walk uses: entry (u, v) of moving from u to v."""
        cells = self.cells()
        place = {cell: i for i, cell in enumerate(cells)}
        stay = np.ones(len(cells))
        entries: list[tuple[float, int, int]] = []
        for cell in cells:
            for there in self._neighbours(cell):
                if there in place:
                    share = self.acceptance(cell, there) * 2.0**-64 / (4.0 * self.dimension)
                    entries.append((share, place[cell], place[there]))
                    stay[place[cell]] -= share
        entries += [(share, i, i) for i, share in enumerate(stay)]
        values, rows, columns = zip(*entries, strict=True)
        return sparse.csr_array((values, (rows, columns)), shape=(len(cells), len(cells)))

    def certified_steps(self, error: float, steps: int | None = None) -> CertifiedSteps:
        """A number of steps after which the walk's law is within the error, or the certificate of a given number.

        Parameters
        ----------
        error : float
            Above 0.
        steps : int or None, default=None
            None: the smallest power of two that will do.

        Raises
        ------
        ValueError
            If the error is above `error` after `steps`, or after 2^20. That it is tells something about the records,
            and no budget pays for that: keep it from whoever must not know them. The text has public numbers only.
        """
        wanted = self.weights()
        meets = np.array([self._beyond(cell) == 0.0 for cell in self.cells()])
        transposed = self.transition_matrix().T.tocsr()
        law: FloatArray = np.zeros(wanted.size)
        law[self.cells().index(self.start)] = 1.0
        inside = np.array([self._is_inside(cell) for cell in self.cells()])
        done, aim = 0, 64 if steps is None else steps
        while True:
            for _ in range(aim - done):
                law = np.asarray(transposed @ law, dtype=np.float64)
            done = aim
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = np.log(law[meets] / wanted[meets])
            # products and sums of positive numbers: each step adds a few roundings to the relative error
            found = float(ratio.max() - ratio.min() + done * 2.0**-48) if np.isfinite(ratio).all() else math.inf
            if found <= error:
                return CertifiedSteps(done, found, float(1.0 - law[inside].sum()) + done * 2.0**-50)
            if steps is not None or done >= MOST_STEPS:
                raise ValueError(
                    f"after {done} steps the grid walk is not certified to be within {error:.3g} of its law (in "
                    "logarithms of probabilities), so it is not private as claimed: take more steps, fewer cells, or "
                    "the sampler 'net'"
                )
            aim = 2 * done

    def _neighbours(self, cell: Cell) -> list[Cell]:
        return [
            (*cell[:axis], cell[axis] + move, *cell[axis + 1 :]) for axis in range(self.dimension) for move in (-1, 1)
        ]

    def _is_inside(self, cell: Cell) -> bool:
        """Whether the whole cell lies in the set: its corners do."""
        corners = np.array(list(product((0.0, 1.0), repeat=self.dimension)))
        return all(self.convex_set.contains(self._lower + (np.array(cell) + c) * self._side) for c in corners)

    # --- the walk -------------------------------------------------------------------------------------------------

    def walk(self, steps: int, bits: BitSource) -> Cell:
        """The cell after a number of steps from the start."""
        here = self.start
        last = self.cells_per_axis - 1
        known: dict[tuple[Cell, int], tuple[Cell, int]] = {}
        for first in range(0, steps, _STEPS_AT_A_TIME):
            count = min(_STEPS_AT_A_TIME, steps - first)
            picks = draw_below(np.full(count, 4 * self.dimension), bits).tolist()
            words = draw_words(bits, count).tolist()
            for pick, word in zip(picks, words, strict=True):
                if pick >= 2 * self.dimension:
                    continue
                move = known.get((here, pick))
                if move is None:
                    axis, there = pick // 2, self._neighbours(here)[pick]
                    out = not 0 <= there[axis] <= last
                    move = known[here, pick] = (here, 0) if out else (there, self.acceptance(here, there))
                if word < move[1]:
                    here = move[0]
        return here

    def point_in(self, cell: Cell, bits: BitSource) -> FloatArray:
        """A uniform point of a cell, one of 2^20 places along each axis."""
        places = draw_below(np.full(self.dimension, _FINE), bits)
        return self._lower + (np.array(cell) + (places + 0.5) / _FINE) * self._side

    def sample(self, certified: CertifiedSteps, bits: BitSource) -> FloatArray:
        """Run the walk until a uniform point of the last cell lies in the set; after many runs give the centre.

        Notes
        -----
        Given that it is not the fallback, the point has the walk's law given the set, within e^error of the wanted
        law given the set. The number of runs is so large that the fallback adds less than 2^-40 of its probability
        to any outcome.
        """
        if not certified.outside < 0.999:
            raise ValueError("the grid walk ends outside of the set nearly always: take more cells")
        exponents = [self.exponent(cell) for cell in self.cells() if self._beyond(cell) == 0.0]
        n_places = float(self.cells_per_axis * _FINE) ** self.dimension
        rarest = max(exponents) - min(exponents) + math.log(n_places)
        runs = math.ceil((rarest + certified.error + _FALLBACK_SHARE) / -math.log(max(certified.outside, 1e-3)))
        return self.sample_uncertified(certified.steps, runs, bits)

    def sample_uncertified(self, steps: int, runs: int, bits: BitSource) -> FloatArray:
        """Run the walk of a length at most `runs` times: no guarantee by itself."""
        for _ in range(runs):
            point = self.point_in(self.walk(steps, bits), bits)
            if self.convex_set.contains(point):
                return point
        # a place of the centre's cell, so that it is no outcome of its own
        corner = self._lower + np.array(self.start) * self._side
        places = np.clip(np.floor((self.convex_set.centre - corner) / self._side * _FINE), 0, _FINE - 1)
        return self._lower + (np.array(self.start) + (places + 0.5) / _FINE) * self._side


def grid_walk_for(losses: ExactLosses, scale: float, cells_per_axis: int, radial_slope: float) -> GridWalk:
    """The walk with the penalty that leaves about half of the mass in the set at least.

    Raises
    ------
    ValueError
        If `cells_per_axis` is not a whole number of at least 2.
    """
    if isinstance(cells_per_axis, bool) or not isinstance(cells_per_axis, int | np.integer) or cells_per_axis < 2:
        raise ValueError(f"cells_per_axis must be a whole number of at least 2, got cells_per_axis={cells_per_axis!r}")
    rate = penalty_rate(radial_slope, losses.convex_set.dimension)
    return GridWalk(losses, scale, int(cells_per_axis), rate)
