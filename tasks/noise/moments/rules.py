"""What private moments decide from public numbers alone: n, c, the blocks, and mu2.

Let W be the expected squared norm of a standardised row and d the dimension of the space that rows differ in; both are
p for p values.  A value or binary column has variance 1 (less where 1 row in 45 or fewer differs).  A one-hot block of
k categories has one factor, by which its expected squared norm is 1, and dimension k - 1.  Unit variance for each
category would make it k - 1, most of it from rare ones.

Covariances are released by class if n / c >= 10 d and the noise's largest eigenvalue in one is at most 4 variances of
a value; else one for all.  G^2 is the largest of 0.6 W to 2 W at which the noise's largest eigenvalue in the common
covariance stays within 0.25 variances of a value, or 0.6 W.  The numbers were chosen on the public tables of
`tests/benchmarks/bench_private_moments.py`.  Cutting rows draws the class means toward each other, at 0.6 by about a
quarter; the larger n is, the less.

Histograms.  Let S be n over the noise on a bin if 0.1 of mu^2 went to them.  By class if S / c >= 96; else of all rows
if S >= 24; else none.  None of all rows either for rows of numbers only, unless half of these have 2 to 32 levels and
mu >= 0.5.  (Moved by rank over all classes, correlated numbers told classes apart by 0.01 to 0.03 less often; by class
at S / c below 96 logistic regression lost likewise.)  The share of mu^2 is what makes S, or S / c, 200, within 0.02 and
0.1; there are as many bins, at most 64.

Tried there and not better: singular value shrinkage of the class means, a third release of moments centred at them,
several centres in a class, beta marginals; for mixed rows weights of 0.5 to 2.5 for one-hot blocks, least radii of 0.3
to 1.5, shares of 0.04 to 0.2 for the first release, class means stretched to make up for the cut; for histograms shares
of 0.05 and 0.2 throughout, 16 bins, correlations calibrated so that rows moved to them have those that they had before.
Second moments that say nothing are not left out, since they cost the class sums nothing (`PrivateMoments`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tasks.noise.moments.blocks import Layout

__all__ = ["NO_MARGINALS", "MarginalsRule", "covariances_by_class", "marginals_rule", "norm_bound"]

_LEAST_RADIUS, _MOST_RADIUS = 0.6, 2.0  # of squared radii, in expected squared norms of a standardised row
_WANTED_EDGE = 0.25
_CLASS_EDGE = 4.0
_CLASS_ROWS = 10
_LEAST_SHARE, _MOST_SHARE = 0.02, 0.1  # of mu^2, for histograms
_WANTED_SIGNAL = 200.0
_LEAST_SIGNAL = 24.0
_CLASS_SIGNAL = 96.0
_MOST_BINS = 64
_FEW_LEVELS = 32
_NUMBERS_MU = 0.5


@dataclass(frozen=True)
class MarginalsRule:
    """What the third release is.

    Attributes
    ----------
    share : float
        Of mu^2; 0 where there is none.
    bins : int
        Of a coordinate without levels.
    by_class : bool
    """

    share: float = 0.0
    bins: int = 0
    by_class: bool = False


NO_MARGINALS = MarginalsRule()


def marginals_rule(layout: Layout, mu: float, n_rows: int, n_classes: int) -> MarginalsRule:
    """Whether histograms are released, at what share, of how many bins, and whether for each class."""
    n_values = layout.values.size
    if not n_values:
        return NO_MARGINALS
    signal = n_rows * math.sqrt(_MOST_SHARE) * mu / math.sqrt(2.0 * n_values)
    large = signal / n_classes >= _CLASS_SIGNAL
    few = sum(1 <= levels <= _FEW_LEVELS for levels in layout.levels)
    numbers = layout.numeric and (2 * few < n_values or mu < _NUMBERS_MU)
    if not large and (signal < _LEAST_SIGNAL or numbers):
        return NO_MARGINALS
    by_class = large and n_classes > 1
    own = signal / n_classes if by_class else signal
    share = max(_LEAST_SHARE, _MOST_SHARE * min(1.0, _WANTED_SIGNAL / own) ** 2)
    bins = min(math.floor(own * math.sqrt(share / _MOST_SHARE)), _MOST_BINS)
    return MarginalsRule(share, bins, by_class)


def covariances_by_class(layout: Layout, second_mu: float, n_rows: int, n_classes: int) -> bool:
    """Whether second moments are released for each class."""
    rows = n_rows / n_classes
    small_noise = _LEAST_RADIUS * _edge(layout, second_mu, rows) <= _CLASS_EDGE
    return n_classes > 1 and rows >= _CLASS_ROWS * layout.dimension and small_noise


def norm_bound(layout: Layout, second_mu: float, n_rows: int, n_blocks: int) -> float:
    """G in column standard deviations, where `n_blocks` second moments are released."""
    pooled_edge = _edge(layout, second_mu, n_rows) * math.sqrt(n_blocks)
    share = min(max(_WANTED_EDGE / pooled_edge, _LEAST_RADIUS), _MOST_RADIUS)
    return math.sqrt(share * layout.weight)


def _edge(layout: Layout, second_mu: float, n_rows: float) -> float:
    """Largest eigenvalue of the noise in a covariance of `n_rows` rows for a squared radius of W, in variances."""
    return 4.0 * math.sqrt(layout.dimension) * layout.weight / (second_mu * n_rows)
