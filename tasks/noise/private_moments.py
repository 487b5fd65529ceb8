"""Private moments: rows of a labelled table drawn from its noisy moments, with a record-level guarantee."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tasks.noise.bits import BitSource
from tasks.noise.gaussian_profile import gaussian_standard_deviation
from tasks.noise.lattice_gaussian import LatticeGaussian
from tasks.noise.moments import (
    Block,
    FirstMoments,
    Layout,
    MomentsRelease,
    Standardization,
    draw_rows,
    first_estimate,
    fit_model,
    layout_of,
)
from tasks.noise.moments.estimate import column_scales
from tasks.noise.moments.laws import BlockNoise, MomentsNoise, moments_noise, noise_laws, symmetric_noise
from tasks.noise.moments.marginals import histograms
from tasks.noise.moments.released import COUNT_UNIT, HALF_RANGE
from tasks.noise.moments.rows import draw_pieces
from tasks.noise.moments.rules import MarginalsRule, covariances_by_class, marginals_rule, norm_bound
from tasks.noise.moments.sums import first_sums, second_sums
from tasks.noise.parameters import check_epsilon

if TYPE_CHECKING:
    from dp_accounting import DpEvent

__all__ = ["LATTICE_STEPS", "Block", "BlockNoise", "MomentsNoise", "PrivateMoments"]

IntArray = NDArray[np.int64]
Pieces = Callable[[], Iterator[tuple[IntArray, IntArray]]]
"""What gives some confidential rows and their labels at a time."""

LATTICE_STEPS = 2 * HALF_RANGE
"""Cells are whole numbers in [0, 2^16]."""

FIRST_SHARE = 0.1
"""Share of mu^2 that the first release gets; 0.05 to 0.15 do equally well on the benchmark's tables."""

_UNIT = 2**10  # grid steps a column standard deviation
_MOST_SUM = 2**61


@dataclass(frozen=True)
class PrivateMoments:
    """Two or three Gaussian releases of integer sums, and rows drawn from them.

    Parameters
    ----------
    epsilon : float
        Finite, above 0.
    delta : float
        In (0, 1).
    n_features, n_classes, n_rows : int
        p, c and n, at least 1; all public.
    blocks : tuple of Block, default=None
        What the coordinates of a row stand for, in order, widths in sum p; public.  None stands for p values.

    Raises
    ------
    ValueError
        If a parameter is outside its range, the blocks are not p coordinates wide, or the sums or their noise would not
        fit into 64 bits.

    Notes
    -----
    Guarantee: (epsilon, delta)-differential privacy at record level; neighbours differ in one whole row, its label
    included (substitution: n is public).  In terms of Gaussian differential privacy it is `mu`, to be composed as one
    Gaussian mechanism of noise multiplier 1 / mu (`dp_event`).

    First release.  With v = index - K in [-K, K], K = 2^15: the sums of v and of v^2 of each column, with noise
    s1 and s1 K / sqrt 2.  A replaced row moves them, squared and in units of noise, by at most

        C K^2 / s1^2,   C = 4 for each value or binary block, 8 for each one-hot block, 7 for each nullable block

    (`moments.blocks` has the proofs: blocks count, not coordinates).  So s1 = K sqrt C / mu1; attained where each block
    moves as far as it can.  For p values s1 = 2 K sqrt(p) / mu1.

    Standardisation.  From the first release alone: a centre and a factor for each column, integers, and a radius G.
    Each row becomes an integer vector t with |t| <= G, by integer operations on that row and a check of the
    integer norm (`moments.sums.standardize`), so rounding cannot widen what follows.

    Second release, y the row's class, e_y its indicator: the sums over the rows of

        T = (G^2 e_y, sqrt 2 G e_y (x) t, t t'),   |T|^2 = (G^2 + |t|^2)^2 <= 4 G^4.

    For two rows <T, T'> is (G^2 + t.t')^2 if the classes agree and (t.t')^2 if not, never below 0; so |T - T'|^2 <= 8
    G^4, attained by orthogonal rows of two classes and by opposite rows of one.  With t t' kept by class, <T, T'> = 0
    for different classes: the same bound.  (Class sums alone would need the same noise: the second moments cost them
    nothing.)  As |t| <= G for any row, nothing here depends on the blocks.  Noise of standard deviation s2 = sqrt 8
    G^2 / mu2 in each direction of that space means s2 / G^2 on a count, s2 / (sqrt 2 G) on an entry of a class sum, s2
    on a diagonal entry and s2 / sqrt 2 on one above the diagonal (which counts twice in the norm).

    Third release, where the public rule has one: a histogram of each value coordinate over public bins, of all rows or
    by class; missing values are in no bin.  A replaced row takes 1 from a bin and adds 1 to another, for each of the
    p_v value coordinates: |H - H'|^2 <= 2 p_v, attained (`moments.marginals`), so s3 = sqrt(2 p_v) / mu3 rows, on
    counts in units of 2^-10 rows, so that rounding is fine beside it.  Drawn values are moved to them by rank.

    Composition.  mu^2 = mu1^2 + mu2^2 + mu3^2 (Dong, Roth, Su 2022, corollary 3.3; each release may depend on those
    before it), and mu is the reciprocal of the analytic Gaussian noise multiplier for (epsilon, delta).  The rounded
    Gaussian on integers is post-processing of the continuous one (`LatticeGaussian`).  Each standard deviation is taken
    1 + 2^-30 times as large, more than the float operations before it can lose.  Beside it stands the sampler's own
    deviation, below 2^-117 in total variation for each of the released numbers.

    Public rules.  Whether covariances are released by class, G, and what the third release is, follow from public
    numbers (`moments.rules`).  Without a third release the noise is as if there had never been one.

    Cost.  n p^2 operations in blocks of 2^20 cells, and 10 ms to 40 ms for each of six or seven noise laws.

    References
    ----------
    Balle, Wang (ICML 2018), theorem 8. Dong, Roth, Su (JRSS B 2022). Biswas, Dong, Kamath, Ullman (NeurIPS 2020), for
    centring before the second release. Benaych-Georges, Nadakuditi (Advances in Mathematics 2011), for the eigenvalues.
    """

    epsilon: float
    delta: float
    n_features: int
    n_classes: int
    n_rows: int
    blocks: tuple[Block, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        for name in ("n_features", "n_classes", "n_rows"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, got {name}={value!r}")
            object.__setattr__(self, name, int(value))
        if self.blocks is not None:
            object.__setattr__(self, "blocks", tuple(self.blocks))
            if not all(isinstance(block, Block) for block in self.blocks):
                raise ValueError("blocks must be of type Block")
            if sum(block.width for block in self.blocks) != self.n_features:
                raise ValueError(f"blocks must have {self.n_features} coordinates together, as n_features says")
        if self.n_rows * HALF_RANGE**2 > _MOST_SUM or self.n_rows * self.radius**2 > _MOST_SUM:
            raise ValueError(f"sums of {self.n_rows} rows of {self.n_features} columns do not fit into 64 bits")
        self._laws()

    @property
    def layout(self) -> Layout:
        """The blocks and where they are."""
        return layout_of(self.blocks, self.n_features)

    @property
    def mu(self) -> float:
        """The parameter of Gaussian differential privacy of the whole release."""
        return 1.0 / gaussian_standard_deviation(self.epsilon, self.delta, 1.0)

    @property
    def noise_multiplier(self) -> float:
        """1 / mu."""
        return 1.0 / self.mu

    @property
    def first_mu(self) -> float:
        """mu1, the first release's part."""
        return math.sqrt(FIRST_SHARE) * self.mu

    @property
    def second_mu(self) -> float:
        """mu2, the second release's part."""
        return math.sqrt(1.0 - FIRST_SHARE - self.marginals.share) * self.mu

    @property
    def third_mu(self) -> float:
        """mu3, the third release's part; 0 where there is none."""
        return math.sqrt(self.marginals.share) * self.mu

    @property
    def marginals(self) -> MarginalsRule:
        """What the third release is; a public rule."""
        return marginals_rule(self.layout, self.mu, self.n_rows, self.n_classes)

    def dp_event(self) -> DpEvent:
        """Give dp_accounting's Gaussian event for one release, under replacement of a record."""
        from dp_accounting import GaussianDpEvent

        return GaussianDpEvent(self.noise_multiplier)

    @property
    def per_class(self) -> bool:
        """Whether second moments are released for each class; a public rule."""
        return covariances_by_class(self.layout, self.second_mu, self.n_rows, self.n_classes)

    @property
    def unit(self) -> int:
        """Grid steps that make one column standard deviation."""
        return _UNIT

    @property
    def radius(self) -> int:
        """G, in grid steps; a public rule."""
        blocks = self.n_classes if self.per_class else 1
        return max(1, math.floor(norm_bound(self.layout, self.second_mu, self.n_rows, blocks) * self.unit))

    def _laws(self) -> dict[str, LatticeGaussian]:
        layout = self.layout
        return noise_laws(
            layout.first_cost, self.radius, layout.values.size, self.first_mu, self.second_mu, self.third_mu
        )

    def parameters(self) -> dict[str, float | int | bool]:
        """Give what a plan and a manifest state; all public.  Noise on histograms is in 2^-10 rows."""
        return {
            "mu": self.mu,
            "rows": self.n_rows,
            "columns": self.n_features,
            "classes": self.n_classes,
            **self._blocks_by_kind(),
            "covariance_by_class": self.per_class,
            "radius_steps": self.radius,
            "marginals_share": self.marginals.share,
            "marginals_bins": self.marginals.bins,
            "marginals_by_class": self.marginals.by_class,
            **{f"{name}_noise": law.standard_deviation for name, law in self._laws().items()},
        }

    def _blocks_by_kind(self) -> dict[str, int]:
        kinds = [block.kind for block in self.blocks or ()]
        return {f"{kind.replace('-', '_')}_blocks": kinds.count(kind) for kind in dict.fromkeys(kinds)}

    def expected_noise(self, column_deviation: float = 0.2) -> MomentsNoise:
        """Give the noise in terms of what it disturbs, before any data are read.

        Parameters
        ----------
        column_deviation : float, default=0.2
            A typical column's standard deviation in scaled units, above 0; a uniform column has 0.29.
        """
        return moments_noise(
            self._laws(),
            self.layout,
            n_rows=self.n_rows,
            n_classes=self.n_classes,
            per_class=self.per_class,
            unit=self.unit,
            column_deviation=column_deviation,
            by_block=self.blocks is not None,
            n_groups=self.n_classes if self.marginals.by_class else 1,
        )

    def release(self, lattice: IntArray, labels: IntArray, bits: BitSource) -> MomentsRelease:
        """Draw the noise, once, and give everything that is revealed of the confidential rows.

        Parameters
        ----------
        lattice : ndarray of int64, shape (n_rows, n_features)
            In [0, 2^16], each row by the rules of its blocks.
        labels : ndarray of int64, shape (n_rows,)
            In 0, ..., n_classes - 1.
        bits : BitSource

        Raises
        ------
        ValueError
            If the arrays are not of that shape, type or range, or break a block's rule; cells are never named.
        """
        return self.release_from(lambda: iter([(lattice, labels)]), bits)

    def release_from(self, pieces: Pieces, bits: BitSource) -> MomentsRelease:
        """Give what `release` gives, of rows that are read piece by piece, two times over.

        Parameters
        ----------
        pieces : callable
            Gives an iterator over (lattice, labels) of some rows each, together `n_rows`; the same rows each time.
        bits : BitSource

        Raises
        ------
        ValueError
            As `release`.
        """
        laws = self._laws()
        sums, squares = (np.zeros(self.n_features, dtype=np.int64) for _ in range(2))
        for lattice, _ in self._checked(pieces):
            for total, own in zip((sums, squares), first_sums(lattice), strict=True):
                total += own
        first = FirstMoments(
            sums=sums + laws["sums"].sample(sums.shape, bits=bits),
            squares=squares + laws["squares"].sample(squares.shape, bits=bits),
            sums_noise=laws["sums"].standard_deviation,
            squares_noise=laws["squares"].standard_deviation,
        )
        how = self.standardization(first)
        counts, class_sums, seconds, counted = self._second_statistics(pieces, how)
        noisy_counts = counts + laws["counts"].sample(counts.shape, bits=bits)
        noisy_sums = class_sums + laws["class_sums"].sample(class_sums.shape, bits=bits)
        noisy_seconds = seconds + symmetric_noise(laws, len(seconds), self.n_features, bits)
        third: dict[str, Any] = {}
        if counted is not None:
            third = {
                "marginals": counted * COUNT_UNIT + laws["marginals"].sample(counted.shape, bits=bits),
                "marginals_noise": laws["marginals"].standard_deviation,
                "marginal_bins": self.marginals.bins,
            }
        return MomentsRelease(
            n_rows=self.n_rows,
            first=first,
            standardization=how,
            counts=noisy_counts,
            class_sums=noisy_sums,
            second_moments=noisy_seconds,
            counts_noise=laws["counts"].standard_deviation,
            class_sums_noise=laws["class_sums"].standard_deviation,
            second_moments_noise=laws["above_diagonal"].standard_deviation,
            randomness=bits.label,
            **third,
        )

    def _second_statistics(
        self, pieces: Pieces, how: Standardization
    ) -> tuple[IntArray, IntArray, IntArray, IntArray | None]:
        """The exact sums of the second release and counts of the third, where there is one."""
        totals: list[IntArray] = []
        for lattice, labels in self._checked(pieces):
            own = list(second_sums(lattice, labels, self.n_classes, how, per_class=self.per_class))
            if self.marginals.share:
                own.append(self._histograms(lattice, labels))
            totals = own if not totals else [total + more for total, more in zip(totals, own, strict=True)]
        counts, class_sums, seconds, *counted = totals
        return counts, class_sums, seconds, counted[0] if counted else None

    def _histograms(self, lattice: IntArray, labels: IntArray) -> IntArray:
        """The exact counts of the third release, in rows."""
        rule = self.marginals
        n_groups = self.n_classes if rule.by_class else 1
        groups = labels if rule.by_class else np.zeros_like(labels)
        return histograms(lattice, groups, n_groups, self.layout, rule.bins)

    def standardization(self, first: FirstMoments) -> Standardization:
        """Give how rows are standardised, from the first release alone."""
        means, deviations = first_estimate(first, self.n_rows, self.layout)
        scales = column_scales(deviations, self.layout)
        factor = self.unit * 2.0**Standardization.FACTOR_BITS / (scales * HALF_RANGE)
        return Standardization(
            centre=np.rint(means * HALF_RANGE).astype(np.int64),
            factor=np.maximum(np.rint(factor), 1.0).astype(np.int64),
            unit=self.unit,
            radius=self.radius,
        )

    def draw(self, release: MomentsRelease, n_rows: int, bits: BitSource) -> tuple[IntArray, IntArray]:
        """Draw rows from released moments; post-processing, costs no budget and may be repeated.

        Parameters
        ----------
        release : MomentsRelease
        n_rows : int
            At least 1; the public number of members, as a rule.
        bits : BitSource
            256 bits of it seed a generator.

        Returns
        -------
        lattice : ndarray of int64, shape (n_rows, n_features)
            In [0, 2^16], by the rules of the blocks: real categories, flags, and the middle where a value is missing.
            No row belongs to a member.
        labels : ndarray of int64, shape (n_rows,)
            In random order, as the rows.
        """
        if n_rows < 1:
            raise ValueError(f"n_rows must be at least 1, got n_rows={n_rows}")
        return draw_rows(fit_model(release, self.layout), release.standardization, n_rows, bits, self.layout, release)

    def draw_pieces(self, release: MomentsRelease, most: int, bits: BitSource) -> Iterator[tuple[IntArray, IntArray]]:
        """Draw as many rows as were released of, some `most` at a time; each piece as `draw` gives rows.

        Parameters
        ----------
        release : MomentsRelease
        most : int
            At least 1; pieces have about that many rows.
        bits : BitSource
        """
        model = fit_model(release, self.layout)
        return draw_pieces(model, release.standardization, release.n_rows, bits, self.layout, release, most)

    def _checked(self, pieces: Pieces) -> Iterator[tuple[IntArray, IntArray]]:
        """The pieces, each once it was looked at."""
        n_rows = 0
        for lattice, labels in pieces():
            self._check(lattice, labels)
            n_rows += len(lattice)
            yield lattice, labels
        if n_rows != self.n_rows:
            raise ValueError(f"lattice must have {self.n_rows} rows, got {n_rows}")

    def _check(self, lattice: Any, labels: Any) -> None:
        n_rows = len(lattice) if isinstance(lattice, np.ndarray) and lattice.size else self.n_rows
        for name, array, shape, least, most in (
            ("lattice", lattice, (n_rows, self.n_features), 0, LATTICE_STEPS),
            ("labels", labels, (n_rows,), 0, self.n_classes - 1),
        ):
            if not isinstance(array, np.ndarray) or array.dtype != np.int64 or array.shape != shape:
                raise ValueError(f"{name} must be an int64 array of shape {shape}")
            if int(array.min()) < least or int(array.max()) > most:
                raise ValueError(f"{name} must lie in [{least}, {most}]")
        broken = self.layout.broken(lattice)
        if broken:
            raise ValueError(f"lattice has rows that break the rule of blocks {broken[:5]}")
