"""Localisation's second stage: what its risk's constants are on a released set, and whether that set can be sampled."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

import numpy as np

from schemas.learning import Adjacency
from tasks.classifiers.ball_gaussian import LEAST_LOG_MASS, log_lower_gamma
from tasks.classifiers.budget import PrivacyBudget
from tasks.classifiers.certified import largest_size
from tasks.classifiers.convex_sets import Ball, BallIntersection
from tasks.classifiers.exact_losses import MOST_ROUNDINGS, ExactLosses
from tasks.classifiers.exponential_sampling import choose_sampler
from tasks.classifiers.output_perturbation import plan_perturbation
from tasks.classifiers.range_bounds import range_bound_of
from tasks.classifiers.risks import EmpiricalRisk, MarginRisk, SquaredDistance, total_strong_convexity
from tasks.classifiers.selection_law import usable_epsilon

__all__ = ["PublicMarginRisk", "by_public_numbers", "refuse_what_cannot_be_sampled", "risk_on"]


def risk_on(risk: EmpiricalRisk, convex_set: Ball | BallIntersection) -> EmpiricalRisk:
    """The risk with a Lipschitz constant that holds on a released set; that of a margin holds everywhere."""
    if not isinstance(risk, SquaredDistance):
        return risk
    balls = [convex_set] if isinstance(convex_set, Ball) else [convex_set.first, convex_set.second]
    longest = min(float(np.linalg.norm(ball.centre)) + ball.radius for ball in balls)
    return replace(risk, parameter_norm=longest * (1.0 + 1e-12))


@dataclass(frozen=True, eq=False)
class PublicMarginRisk(MarginRisk):
    """A risk of gradients whose `n_records` is public as well: so many as rounding is allowed for, `largest_size`.

    `n_records` times `strong_convexity` is the weight of the regulariser still, so that step sizes are what they were.
    """

    def __post_init__(self) -> None:
        """Nothing: what it is made of was checked."""

    @property
    def n_records(self) -> int:
        return largest_size(self)

    @property
    def strong_convexity(self) -> float:
        return self.regularization * (self.nominal_size / largest_size(self))


def by_public_numbers(risk: EmpiricalRisk) -> EmpiricalRisk:
    """For gradient descent over all records: the risk, with its scales made of public numbers where they are given."""
    if not isinstance(risk, MarginRisk) or risk.public_size is None:
        return risk
    return PublicMarginRisk(**{one.name: getattr(risk, one.name) for one in fields(MarginRisk)})


def refuse_what_cannot_be_sampled(
    risk: EmpiricalRisk,
    whole: Ball,
    first: PrivacyBudget,
    second: PrivacyBudget,
    adjacency: Adjacency,
    *,
    failure_probability: float,
    tolerance: float,
) -> None:
    """Before anything is drawn, and by public numbers: whatever set the first stage gives, the second can sample it.

    The radius is known before; of the centre only that it lies in the whole ball. The range of a margin's loss grows
    with the centre's distance from 0, and so does that of a regulariser: each refusal of the sampler is asked for with
    the centre for which it comes first.

    Raises
    ------
    ValueError
        If no sampler is exact, the table is too large for rounding to be paid for, or a ball of the law's own size is
        too large for it in so many dimensions.
    """
    usable_epsilon(second.epsilon)
    sampler = choose_sampler(risk, whole)
    plan = plan_perturbation(risk, first, adjacency=adjacency, tolerance=tolerance)
    radius, p = plan.radius(failure_probability), whole.dimension
    balls = [(whole, whole)] if radius >= whole.radius else []
    if radius < 2.0 * whole.radius:
        farthest = (float(np.linalg.norm(whole.centre)) + whole.radius) * (1.0 + 1e-9)
        balls.append((Ball(np.append(farthest, np.zeros(p - 1)), radius), Ball.around_zero(p, radius)))
    for far, near in balls:
        losses, inner = ExactLosses(risk_on(risk, far), far), risk_on(risk, near)
        if sampler != "rejection":
            continue
        k = range_bound_of(losses.risk, far, adjacency) + losses.range_excess(adjacency)
        spread = math.sqrt(k / (usable_epsilon(second.epsilon) * total_strong_convexity(risk)))
        within = log_lower_gamma(0.5 * p, np.array([0.5 * (far.radius / spread) ** 2]))
        if float(within[0]) < LEAST_LOG_MASS:
            raise ValueError(
                f"the localised ball would have a radius of {far.radius / spread:.3g} standard deviations of the law "
                f"that is to be drawn in it, too few for exact sampling in {p} dimensions: take a "
                "smaller share, delta above 0, fewer features, more records or more regularization; or output or "
                "objective perturbation"
            )
        reach = float(np.linalg.norm(far.centre)) + far.diameter
        steepest = losses.risk.lipschitz + risk.strong_convexity * reach
        largest = steepest * far.diameter / range_bound_of(inner, near, adjacency)
        n = risk.n_records if adjacency == "replace_one" else largest_size(risk)  # public, and no fewer records
        if not n * (p + 16) * largest <= MOST_ROUNDINGS:
            raise ValueError(
                f"exact sampling in the localised ball may not be able to pay for rounding with {n} records, {p} "
                "parameters: take delta above 0, output or objective perturbation, or a part of the records"
            )
