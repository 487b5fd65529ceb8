"""Gradient perturbation of multi-class linear classifiers: clipped gradients, summed, with Gaussian noise.

What touches the records is one thing, the noisy sum of clipped gradients. Everything else, the step rule, the
regularisers and the average over the last iterates, is post-processing of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tasks.classifiers.exact_rows import directions_and_lengths, euclidean_norms, on_weight_grid
from tasks.classifiers.lattice import VectorLattice, lattice_for
from tasks.classifiers.multiclass_losses import MulticlassLoss
from tasks.classifiers.noisy_sgd import poisson_sample
from tasks.noise.bits import BitSource

__all__ = [
    "GradientDescent",
    "Regularizer",
    "clipped_gradient_sum",
    "gradient_sensitivity",
    "noisy_gradient_descent",
]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

BLOCK = 2048  # rows whose gradients one matrix product sums
_NOISE_AT_ONCE = 2**21  # values drawn in one call
_LARGEST_SCORE = 1e100  # beyond, a slope no longer changes
FIRST_DECAY, SECOND_DECAY, ADAM_FLOOR = 0.9, 0.999, 1e-8


@dataclass(frozen=True)
class Regularizer:
    """`ridge` |W|^2 + `pairwise` sum over k < l of |w_k - w_l|^power: a function of W alone, so it costs no privacy.

    Parameters
    ----------
    ridge, pairwise : float
        mu and lambda, at least 0.
    power : float
        At least 1.
    n_columns : int
        How many columns of W the pairwise part looks at: all but the intercept's.
    """

    ridge: float
    pairwise: float
    power: float
    n_columns: int

    def gradient(self, weights: FloatArray) -> FloatArray:
        """Its gradient (for power 1 and equal rows a subgradient) at W of shape (c, d), in the same shape."""
        gradient = (2.0 * self.ridge) * weights
        if self.pairwise:
            w = weights[:, : self.n_columns]
            if self.power == 2.0:
                pull = 2.0 * (len(w) * w - w.sum(axis=0))
            else:
                squares = np.einsum("kd,kd->k", w, w)
                lengths = np.sqrt(np.maximum(squares[:, None] + squares - 2.0 * (w @ w.T), 0.0))
                factors = np.zeros_like(lengths)
                apart = lengths > 1e-9 * (1.0 + float(np.sqrt(squares.max())))
                factors[apart] = self.power * lengths[apart] ** (self.power - 2.0)
                pull = factors.sum(axis=1)[:, None] * w - factors @ w
            gradient[:, : self.n_columns] += self.pairwise * pull
        return gradient


@dataclass(frozen=True)
class GradientDescent:
    """How the noisy gradients are used.

    Parameters
    ----------
    n_steps : int
        T, at least 1.
    learning_rate : float
        Above 0.
    clip_norm : float
        R: each record's gradient is shortened to this norm; above 0.
    adaptive : bool
        Adam's steps instead of the gradient's own.
    averaging : float
        In [0, 1): the part of the steps, the last ones, whose iterates are averaged; 0 takes the last iterate.
    """

    n_steps: int
    learning_rate: float
    clip_norm: float
    adaptive: bool
    averaging: float


def clipped_gradient_sum(
    directions: FloatArray,
    lengths: FloatArray,
    labels: IntArray,
    weights: FloatArray,
    loss: MulticlassLoss,
    clip_norm: float,
) -> FloatArray:
    """Sum over records of the gradient of the loss in W, each shortened to a norm of at most `clip_norm`.

    Parameters
    ----------
    directions : ndarray of float64, shape (n, d)
        With `lengths`, of shape (n,), the rows: from `directions_and_lengths`.
    labels : ndarray of int64, shape (n,)
        0, ..., c - 1.
    weights : ndarray of float64, shape (c, d)
        On the grid of `on_weight_grid`.
    loss : MulticlassLoss
    clip_norm : float
        R.

    Returns
    -------
    ndarray of float64, shape (c, d)

    Notes
    -----
    A record's gradient is the outer product of its slope g and row x, so clipping multiplies g by min(1, R / (|g|
    |x|)). No gradient of a single record is formed. Cost: two matrix products, 4 n c d operations, and n c numbers of
    memory.

    Scores are exact products of directions and weights, times a length: a record's slopes do not depend on the other
    records, nor on how many there are (`exact_rows`).
    """
    total = np.zeros_like(weights)
    for first in range(0, len(directions), BLOCK):
        part = slice(first, first + BLOCK)
        with np.errstate(over="ignore", invalid="ignore"):
            scores = (directions[part] @ weights.T) * lengths[part, None]
            scores = np.nan_to_num(np.clip(scores, -_LARGEST_SCORE, _LARGEST_SCORE), copy=False)
        slopes = loss.slopes(scores, labels[part])
        norms = euclidean_norms(slopes)
        longest = np.divide(clip_norm, norms, out=np.zeros_like(norms), where=norms > 0.0)
        slopes *= np.minimum(lengths[part], longest)[:, None]
        total += slopes.T @ directions[part]
    return total


def gradient_sensitivity(n_records: int, clip_norm: float, parts: int) -> float:
    """Bound of the l2 distance of the sums of two neighbouring tables, as computed in doubles.

    Parameters
    ----------
    n_records : int
        n.
    clip_norm : float
        R.
    parts : int
        How many records' parts differ: 2 when one record replaces another, 1 when one is added or removed.

    Returns
    -------
    float

    Notes
    -----
    In exact sums of the records' parts it is `parts` R, as no part is longer than R. Summing n numbers in blocks of b
    and then the blocks, in any order within, errs by at most u (b + n / b + 3) / (1 - ...) times the sum of magnitudes
    (Higham 2002, section 4.2), u = 2^-53, and the parts' magnitudes sum to n R at most in the l2 norm; twice that,
    for two tables. Another 256 u for each record covers elementary functions that round otherwise at another place
    of an array. It is 1e-8 R for n = 10^4. The rounding of one record's own part (R to a few units in the last place)
    is covered by `lattice.SLACK`.
    """
    operations = min(n_records, BLOCK) + math.ceil(n_records / BLOCK) + 259
    return clip_norm * (parts + 2.0 * 1.01 * 2.0**-53 * n_records * operations)


def noisy_gradient_descent(
    rows: FloatArray,
    labels: IntArray,
    n_classes: int,
    loss: MulticlassLoss,
    regularizer: Regularizer,
    descent: GradientDescent,
    *,
    noise_multiplier: float,
    parts: int,
    sampling_probability: float = 1.0,
    bits: BitSource,
) -> FloatArray:
    """Minimise the mean loss plus the regulariser by steps along noisy, clipped gradients, from W = 0.

    Parameters
    ----------
    rows : ndarray of float64, shape (n, d)
        Of any norms.
    labels : ndarray of int64, shape (n,)
    n_classes : int
        c.
    loss : MulticlassLoss
    regularizer : Regularizer
    descent : GradientDescent
    noise_multiplier : float
        Standard deviation of each step's noise over the sum's sensitivity; 0 for no noise.
    parts : int
        2 where neighbours differ by replacing a record, 1 by adding or removing one.
    sampling_probability : float, default=1.0
        q: each step sees each record with this probability, independently of all else (Poisson sampling).
    bits : BitSource

    Returns
    -------
    ndarray of float64, shape (c, d)
        The average of the last iterates.

    Notes
    -----
    Step t releases S_t = sum over its sample of clip(gradient at W_t) + noise of standard deviation
    `noise_multiplier` times the sensitivity, in whole lattice steps, which is a Gaussian release (subsampled for q <
    1). W_{t+1} comes from S_t / (q n), where q n is the expected, public size of the sample, and from the regulariser's
    gradient, which looks at no record. For `adaptive` that sum is what Adam gets (beta_1 = 0.9, beta_2 = 0.999, bias
    corrected). So the whole path is post-processing of the T sums.

    References
    ----------
    Abadi et al. (2016), algorithm 1; Park, Choi, Lee (NeurIPS 2025), PMSVM with gradient perturbation; Kingma, Ba
    (2015).
    """
    directions, lengths = directions_and_lengths(rows)
    weights = np.zeros((n_classes, rows.shape[1]))
    expected = sampling_probability * len(rows)
    lattice, noises = _noise(weights.size, len(rows), descent, noise_multiplier, parts, bits)
    first, second = np.zeros_like(weights), np.zeros_like(weights)
    averaged, n_averaged = np.zeros_like(weights), max(1, round(descent.averaging * descent.n_steps))
    for step in range(1, descent.n_steps + 1):
        part = (directions, lengths, labels)
        if sampling_probability < 1.0:
            sample = poisson_sample(len(rows), sampling_probability, bits)
            part = (directions[sample], lengths[sample], labels[sample])
        total = clipped_gradient_sum(*part, on_weight_grid(weights), loss, descent.clip_norm)
        if lattice is not None:
            total = (lattice.snap(total) + next(noises)).astype(np.float64).reshape(total.shape) * lattice.spacing
        with np.errstate(over="ignore", invalid="ignore"):  # too long steps: the caller looks at the weights
            gradient = total / expected + regularizer.gradient(weights)
            if descent.adaptive:
                first = FIRST_DECAY * first + (1.0 - FIRST_DECAY) * gradient
                second = SECOND_DECAY * second + (1.0 - SECOND_DECAY) * gradient**2
                spread = np.sqrt(second / (1.0 - SECOND_DECAY**step)) + ADAM_FLOOR
                gradient = first / (1.0 - FIRST_DECAY**step) / spread
            weights = weights - descent.learning_rate * gradient
            if step > descent.n_steps - n_averaged:
                averaged += weights / n_averaged
    return averaged


def _noise(
    dimension: int, n_records: int, descent: GradientDescent, noise_multiplier: float, parts: int, bits: BitSource
) -> tuple[VectorLattice | None, Iterator[IntArray]]:
    """The lattice of the sums, and the noise of each step in lattice steps; many steps' are drawn at once."""
    if noise_multiplier == 0.0:
        return None, iter(())
    lattice = lattice_for(dimension, gradient_sensitivity(n_records, descent.clip_norm, parts), noise_multiplier)
    law = lattice.gaussian_law(noise_multiplier)
    at_once = max(1, _NOISE_AT_ONCE // dimension)

    def drawn() -> Iterator[IntArray]:
        for first in range(0, descent.n_steps, at_once):
            yield from law.sample((min(at_once, descent.n_steps - first), dimension), bits=bits)

    return lattice, drawn()
