"""Exponential sampling by rejection from a normal law cut to a ball: exact, in any dimension, for strongly convex and
smooth risks."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tasks.classifiers.ball_gaussian import BallGaussian, uniforms
from tasks.classifiers.convex_sets import Ball, BallIntersection
from tasks.classifiers.exact_losses import ExactLosses
from tasks.classifiers.risks import EmpiricalRisk, total_strong_convexity
from tasks.classifiers.selection_law import usable_epsilon
from tasks.classifiers.solver import minimise
from tasks.noise.bits import BitSource

__all__ = ["LEAST_ACCEPTANCE", "RejectionDraw", "acceptance_lower_bound", "sample_by_rejection"]

FloatArray = NDArray[np.float64]

LEAST_ACCEPTANCE = 1e-5
"""Below it the sampler refuses: a draw could take more than a hundred thousand proposals."""

_FIRST_BATCH, _LARGEST_BATCH = 4, 256
_MOST_STEPS = 200  # of the search for the anchor
_NEAR = 0.1  # standard deviations from the anchor to its proposals' expectation: less than 1 % of the bound's exponent


class RejectionDraw(NamedTuple):
    """A draw, and how many proposals it took: confidential, since the number depends on the records."""

    theta: FloatArray
    n_proposals: int


def acceptance_lower_bound(risk: EmpiricalRisk, regularization: float) -> float:
    """The share of proposals accepted at the best anchor, at least; from public numbers, for any records and any ball.

    Parameters
    ----------
    risk : EmpiricalRisk
        Its constants alone are used.
    regularization : float
        The part of `risk.strong_convexity` that comes from the regulariser and not from the records' losses.

    Returns
    -------
    float
        exp(-tau / (2 Delta)), where tau bounds the trace of a record's Hessian beyond what strong convexity accounts
        for; 0 without strong convexity or smoothness.

    Notes
    -----
    Write U = scale times the risk, m = scale n Delta, and B(theta) >= 0 for what U exceeds its quadratic lower
    bound at the anchor a by: B(theta) is at most half of (theta - a)' K (theta - a) with K >= 0 of trace at most
    scale n tau. (For margins: B <= scale beta / 2 sum_i <x_i, theta - a>^2.) A proposal is accepted with probability
    E exp(-B) >= exp(-E B), by Jensen's inequality. The proposal's law is a normal law of covariance I / m cut to a
    convex set, so its covariance is at most I / m (Brascamp, Lieb 1976), and with mu for its expectation
    E B <= (scale n tau / 2) (1 / m + |mu - a|^2) = (tau / (2 Delta)) (1 + m |mu - a|^2). There is an anchor with
    mu = a: the map from a to mu is continuous from the set to itself (Brouwer). The dimension does not enter.
    """
    strong = risk.strong_convexity
    if not strong > 0.0 or not math.isfinite(risk.smoothness):
        return 0.0
    trace = risk.hessian_rank * max(risk.smoothness - (strong - regularization), 0.0)
    return math.exp(-trace / (2.0 * strong))


def sample_by_rejection(
    losses: ExactLosses,
    range_bound: float,
    epsilon: float,
    bits: BitSource,
    *,
    regularization: float,
) -> RejectionDraw:
    """Draw theta in the set with density proportional to exp(-epsilon risk / range_bound).

    Parameters
    ----------
    losses : ExactLosses
        Of a risk that is strongly convex and smooth, on a ball or an intersection of two.
    range_bound, epsilon : float
        As in `exponential_choice`, for the totals of `losses` times their unit; the same slack is kept back.
    bits : BitSource
    regularization : float
        As in `acceptance_lower_bound`.

    Returns
    -------
    RejectionDraw

    Raises
    ------
    ValueError
        From n, p and public numbers: if `acceptance_lower_bound` is below 1e-5, if rounding cannot be paid for (see
        Notes), if the set is of another kind, or so small next to the law's spread that hardly any of the uncut law
        would lie in it.

    Notes
    -----
    U, the exponent, exceeds low(theta) = U(a) + <grad U(a), theta - a> + (m / 2) |theta - a|^2 for every anchor a.
    exp(-low) is a normal density with mean a - grad U(a) / m and covariance I / m. Proposals have it on the ball
    (`BallGaussian`; of an intersection the smaller ball) and are accepted with probability exp(low - U), and only in
    the set. Their law is then proportional to exp(-U) exactly, *whatever the anchor*, so that an inexact
    search for it costs time only. There is no limit to the number of proposals, because one would change the law.
    For an intersection of balls the share of the smaller ball's mass that lies in the other one has no public bound.

    The number of proposals depends on the records, hence so does the time that a fit takes: keep it to yourself.

    Numbers. U is the exact sum of the whole numbers of `ExactLosses`; its law is that of the mechanism for *these*
    losses, piecewise constant on a grid far below the released digits. They may lie below the bound from strong
    convexity by 2 n `error` at most, and the computed gradient may be off by some n^2 2^-52 L: both lower the envelope
    by a public number, so that it stays one. What is left are roundings of a sum of four terms, none of which
    is above n (L + Delta B) ||C|| with B the largest norm: (p + 16) 2^-52 of that, times epsilon / k, in the logarithm
    of the density. For two tables, numerator and normaliser it is four times as much, which half of `EPSILON_SLACK`
    pays for where n (p + 16) (L + Delta B) ||C|| / k is at most 2^29; above, the sampler refuses.

    Not covered by that: proposals come from SciPy's incomplete gamma functions and from uniform numbers of 52 bits (see
    `BallGaussian`). An event whose probability is below 2^-52 is not met as often as it should.
    """
    risk, convex_set = losses.risk, losses.convex_set
    bound = acceptance_lower_bound(risk, regularization)
    if bound < LEAST_ACCEPTANCE:
        raise ValueError(
            f"rejection sampling could accept as few as {bound:.3g} of its proposals, for smoothness {risk.smoothness} "
            f"and regularization {risk.strong_convexity}; a regularization of at least smoothness / 23 (for one vector "
            "of weights) or a smoother loss is needed"
        )
    losses.refuse_unpaid_rounding(range_bound)
    match convex_set:
        case Ball():
            ball = convex_set
        case BallIntersection():
            ball = min(convex_set.first, convex_set.second, key=lambda one: one.radius)
        case _:
            raise ValueError(
                f"rejection sampling is for balls and their intersections, got {type(convex_set).__name__}"
            )
    scale = usable_epsilon(epsilon) / range_bound
    spread = 1.0 / math.sqrt(scale * total_strong_convexity(risk))
    anchor = _anchor(risk, ball, spread)
    base = losses.totals(anchor.theta[None, :])[0]
    n_proposals, batch = 0, _FIRST_BATCH
    while True:
        proposals = ball.centre + spread * anchor.law.sample(batch, bits)
        accepted = np.log(uniforms(batch, bits)) < _log_acceptance(losses, scale, anchor, base, proposals)
        for j in np.flatnonzero(accepted):
            if convex_set.contains(proposals[j]):
                return RejectionDraw(proposals[j], n_proposals + int(j) + 1)
        n_proposals, batch = n_proposals + batch, min(2 * batch, _LARGEST_BATCH)


def _log_acceptance(losses: ExactLosses, scale: float, anchor: _Anchor, base: int, proposals: FloatArray) -> FloatArray:
    """low(theta) - U(theta) for each proposal, with low lowered by what rounding may take from U."""
    offsets = proposals - anchor.theta
    excess = np.array([float(total - base) for total in losses.totals(proposals)]) * losses.unit
    excess -= offsets @ anchor.gradient
    excess -= 0.5 * total_strong_convexity(losses.risk) * np.einsum("ij,ij->i", offsets, offsets)
    return -scale * np.maximum(excess + _lowering(losses), 0.0)


def _lowering(losses: ExactLosses) -> float:
    """A public bound of how far the computed excess may be below 0; it costs proposals, and changes no law."""
    risk, diameter = losses.risk, losses.convex_set.diameter
    n, p = risk.n_records, risk.dimension
    reach = float(np.linalg.norm(losses.reference)) + diameter
    sums = n * 2.0**-52 * diameter * ((n + 20) * risk.lipschitz + (p + 6) * risk.smoothness * (1.0 + reach))
    own = (8 * p + 64) * 2.0**-53 * total_strong_convexity(risk) * reach**2
    return 2.0 * n * (losses.error + losses.regularizer_error) + sums + own


class _Anchor(NamedTuple):
    theta: FloatArray
    gradient: FloatArray
    law: BallGaussian
    """Of the proposals, in units of the spread about the ball's centre."""
    shift: FloatArray
    """From the anchor to the expectation of the proposals."""
    distance: float
    """Its length, in units of the spread."""


def _anchor(risk: EmpiricalRisk, ball: Ball, spread: float) -> _Anchor:
    """An anchor near the expectation of its own proposals, the risk's gradient there, and the proposals' law."""
    convexity = total_strong_convexity(risk)
    start = minimise(
        lambda theta: (risk.value(theta), risk.gradient(theta)),
        ball.centre,
        convexity,
        getattr(risk, "hessian_product", None),
        tolerance=0.01 * spread,
    )

    def at(anchor: FloatArray) -> _Anchor:
        gradient = risk.gradient(anchor)
        law = BallGaussian((anchor - gradient / convexity - ball.centre) / spread, ball.radius / spread)
        shift = ball.centre + spread * law.expectation - anchor
        return _Anchor(anchor, gradient, law, shift, float(np.linalg.norm(shift)) / spread)

    best, step = at(ball.project(start.theta)), 1.0
    for _ in range(_MOST_STEPS):
        if best.distance < _NEAR or step < 1e-3:
            break
        tried = at(best.theta + step * best.shift)
        if tried.distance > 0.9 * best.distance:
            step *= 0.5
        if tried.distance < best.distance:
            best = tried
    return best
