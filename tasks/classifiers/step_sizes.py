"""How far each noisy gradient step goes, and what the rules are worth: public numbers only."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np

from tasks.classifiers.convex_sets import ConvexSet
from tasks.classifiers.noisy_sgd_plan import NoisySGDPlan
from tasks.classifiers.parameter_norms import norm_bounds
from tasks.classifiers.risks import EmpiricalRisk, total_strong_convexity

__all__ = ["StepRule", "excess_risk_upper_bound", "second_moment", "step_sizes"]

StepRule = Literal["lipschitz", "strongly-convex", "smooth"]


def second_moment(
    risk: EmpiricalRisk, convex_set: ConvexSet, noise_scale: float, sampling: float, *, single: bool
) -> float:
    """G^2: a bound of the expected squared norm of a step's estimate of the gradient of the whole sum.

    Parameters
    ----------
    risk, convex_set
    noise_scale : float
        Standard deviation of the noise in a coordinate of a step's sum.
    sampling : float
        q of a Poisson sample, 1 for all records.
    single : bool
        For n times the gradient of one record, drawn uniformly.

    Returns
    -------
    float
        (n (L + Delta R))^2 + (1/q - 1) n L^2 + p (sigma / q)^2; for single records without the second term.
    """
    n, lipschitz = risk.n_records, risk.lipschitz
    own = 0.0
    if risk.strong_convexity > 0.0 and np.any(risk.regularizer_gradient(np.ones(risk.dimension))):
        own = risk.strong_convexity * norm_bounds(convex_set)[1]
    sampled = 0.0 if single else (1.0 / sampling - 1.0) * n * lipschitz**2
    return (n * (lipschitz + own)) ** 2 + sampled + risk.dimension * (noise_scale / sampling) ** 2


def step_sizes(
    risk: EmpiricalRisk, convex_set: ConvexSet, plan: NoisySGDPlan, step_size: float | str | None
) -> Callable[[int], float]:
    """From a step's number, from 1, to what the gradient of the sum is multiplied by; see `noisy_sgd`.

    Returns
    -------
    callable
        Of public numbers only.
    """
    n, strong = risk.n_records, risk.strong_convexity
    if step_size is None:
        step_size = "strongly-convex" if strong > 0.0 else "lipschitz"
    if step_size == "strongly-convex":
        whole = total_strong_convexity(risk)
        return lambda t: 1.0 / (whole * t)
    if step_size == "lipschitz":
        moment = second_moment(risk, convex_set, plan.noise_scale, plan.sampling, single=plan.single)
        first = convex_set.diameter / math.sqrt(moment)
        return lambda t: first / math.sqrt(t)
    if step_size == "smooth":
        noise = math.sqrt(risk.dimension) * plan.noise_scale / plan.sampling
        steep = n * risk.smoothness + total_strong_convexity(risk)
        limits = [1.0 / steep if steep > 0.0 else math.inf]
        if noise > 0.0:
            limits.append(convex_set.diameter / (math.sqrt(plan.n_steps) * noise))
        constant = min(limits)
        if constant == math.inf:  # a linear loss without noise
            constant = convex_set.diameter / (n * risk.lipschitz)
        return lambda t: constant
    constant = float(step_size) / n
    return lambda t: constant


def excess_risk_upper_bound(
    risk: EmpiricalRisk, convex_set: ConvexSet, noise_scale: float, n_steps: int, sampling_probability: float = 1.0
) -> float:
    """A bound of the expected excess of the *sum* of losses, for the practical schedule, its own rule and the tail.

    Parameters
    ----------
    risk, convex_set
        As for `noisy_sgd`.
    noise_scale : float
        Standard deviation of the noise in a coordinate of a step's sum.
    n_steps : int
        T, at least 2 and even.
    sampling_probability : float, default=1.0

    Returns
    -------
    float
        1.586 ||C|| G / sqrt(T) for Delta = 0, else 4.70 G^2 / (n Delta T).

    Notes
    -----
    For convex f, unbiased g_t with E|g_t|^2 <= G^2 and steps e_t that do not rise, expanding |theta_{t+1} - theta*|^2
    gives for every s: sum over t > s of E f(theta_t) - f* <= E|theta_{s+1} - theta*|^2 / (2 e) + drift
    + (G^2 / 2) sum of e_t.

    Lipschitz: distances are at most ||C||, so the first terms telescope to ||C||^2 / (2 e_T), and the sum of
    1 / sqrt(t) over the second half is at most (2 - sqrt 2) sqrt(T). Together (0.5 + 0.293) ||C|| G sqrt(T) over T / 2
    iterates. Strongly convex: the drift leaves (s n Delta / 2) E|theta_{s+1} - theta*|^2, which is at most
    2 G^2 / (n Delta) since E|theta_t - theta*|^2 <= 4 G^2 / ((n Delta)^2 t) (Rakhlin, Shamir, Sridharan 2012, lemma 1),
    and the sum of 1 / t over the second half is at most log 2: 2.347 G^2 / (n Delta) over T / 2 iterates. The iterates
    that are averaged are those after a step, one later than in the sums; that shifts s by one, which the decreasing
    steps absorb but for a factor of 1 + 4 / T that is applied.
    """
    size = second_moment(risk, convex_set, noise_scale, sampling_probability, single=False)
    late = 1.0 + 4.0 / n_steps
    if risk.strong_convexity > 0.0:
        return late * 4.70 * size / (risk.n_records * risk.strong_convexity * n_steps)
    return late * 1.586 * convex_set.diameter * math.sqrt(size / n_steps)
