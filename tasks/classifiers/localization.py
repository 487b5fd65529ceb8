"""Localisation for strongly convex risks: find a small ball, then search in it.

Bassily, Smith, Thakurta (2014), algorithm 4 and appendix B.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from schemas.events import Event
from schemas.learning import Adjacency
from tasks.classifiers.budget import PrivacyBudget
from tasks.classifiers.certified import minimiser_norm_bound, refuse_uncertifiable
from tasks.classifiers.convex_sets import Ball, BallIntersection
from tasks.classifiers.exponential_sampling import exponential_sample
from tasks.classifiers.fit import Fit
from tasks.classifiers.localized_risks import by_public_numbers, refuse_what_cannot_be_sampled, risk_on
from tasks.classifiers.noisy_sgd import noisy_sgd
from tasks.classifiers.noisy_sgd_plan import plan_noisy_sgd
from tasks.classifiers.output_perturbation import (
    DEFAULT_TOLERANCE,
    MarginLossName,
    perturbed_minimum,
    plan_perturbation,
)
from tasks.classifiers.regularised import RegularisedClassifier
from tasks.classifiers.risk_of_size import n_problems_of
from tasks.classifiers.risks import EmpiricalRisk, MarginRisk
from tasks.classifiers.row_map import NormRule
from tasks.noise.bits import BitSource

__all__ = ["Localization", "LocalizationClassifier", "Localized", "localization", "localize", "stage_budgets"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

DEFAULT_FAILURE_PROBABILITY = 1e-3


@dataclass(frozen=True, eq=False)
class Localized:
    """The first stage's outcome: a released set that holds the minimiser with the wanted probability.

    Attributes
    ----------
    convex_set : Ball or BallIntersection
        C_0: the ball of `radius` about `theta`, cut to C for gradient descent; C itself where that ball holds all of
        it.
    theta : ndarray of float64, shape (p,)
        Released.
    radius : float
        From public numbers only.
    events : sequence of Event
    """

    convex_set: Ball | BallIntersection
    theta: FloatArray
    radius: float
    events: Sequence[Event] = field(default_factory=tuple)


@dataclass(frozen=True, eq=False)
class Localization:
    """What both stages released.

    Attributes
    ----------
    theta : ndarray of float64, shape (p,)
    localized : Localized
    events : sequence of Event
        Of both stages.
    """

    theta: FloatArray
    localized: Localized
    events: Sequence[Event] = field(default_factory=tuple)


def stage_budgets(budget: PrivacyBudget, share: float) -> tuple[PrivacyBudget, PrivacyBudget]:
    """What the two stages may spend.

    Parameters
    ----------
    budget : PrivacyBudget
    share : float
        In (0, 1), of the first stage: of epsilon for delta = 0; else of mu^2.

    Raises
    ------
    ValueError
        If `share` is outside its range.

    Notes
    -----
    Pure: the epsilons add up. Gaussian stages: mu^2 = mu_1^2 + mu_2^2 (Dong, Roth, Su 2022, corollary 3.3), adaptively;
    each stage's budget is the epsilon of its mu at the whole delta, which its Gaussian noise is made from again.
    """
    if isinstance(share, bool) or not 0.0 < share < 1.0:
        raise ValueError(f"share must be in (0, 1), got share={share!r}")
    if budget.is_infinite:
        return budget, budget
    if budget.is_pure:
        first = share * budget.epsilon
        return PrivacyBudget(first), PrivacyBudget(budget.epsilon - first)
    first, second = (math.sqrt(part) * budget.mu for part in (share, 1.0 - share))
    return PrivacyBudget.of_mu(first, budget.delta), PrivacyBudget.of_mu(second, budget.delta)


def localize(
    risk: EmpiricalRisk,
    convex_set: Ball,
    budget: PrivacyBudget,
    *,
    adjacency: Adjacency,
    bits: BitSource,
    failure_probability: float = DEFAULT_FAILURE_PROBABILITY,
    tolerance: float = DEFAULT_TOLERANCE,
) -> Localized:
    """Stage 1: perturb the minimiser, and take the set where it must nearly surely be.

    Parameters
    ----------
    risk : EmpiricalRisk
        Strongly convex: a `MarginRisk` with regularization, or `SquaredDistance`.
    convex_set : Ball
        C. It must hold every point as short as `minimiser_norm_bound`, so that the risk's minimiser over R^p is in it.
    budget : PrivacyBudget
        Of this stage.
    adjacency : {"replace_one", "add_remove"}
    bits : BitSource
    failure_probability : float, default=1e-3
        In (0, 1): that the minimiser is not in C_0. Privacy does not depend on it, accuracy does.
    tolerance : float, default=0.01
        As for `perturbed_minimum`.

    Raises
    ------
    NotCertifiedError
        If the solver does not reach the tolerance.
    ValueError
        If an argument is outside its range.

    Notes
    -----
    For exponential sampling (delta 0) C_0 is a whole ball, also where it reaches beyond C: any released set is allowed,
    the regularised risk is defined everywhere, and only for whole balls is the sampler's acceptance bounded.
    """
    if not isinstance(convex_set, Ball):
        raise ValueError(f"localisation needs a Ball, got {type(convex_set).__name__}")
    if not 0.0 < failure_probability < 1.0:
        raise ValueError(f"failure_probability must be in (0, 1), got failure_probability={failure_probability!r}")
    if risk.dimension != convex_set.dimension:
        raise ValueError(f"the risk has {risk.dimension} parameters, the set {convex_set.dimension}")
    needed = minimiser_norm_bound(risk) + float(np.linalg.norm(convex_set.centre))
    if convex_set.radius < needed * (1.0 - 1e-9):
        raise ValueError(
            f"the ball must hold the minimiser whatever the records are: a radius of at least {needed:.6g} about this "
            f"centre, got radius={convex_set.radius!r}; or choose more regularization"
        )
    found = perturbed_minimum(risk, convex_set, budget, adjacency=adjacency, bits=bits, tolerance=tolerance)
    radius = found.radius(failure_probability)
    reach = float(np.linalg.norm(found.theta - convex_set.centre)) + convex_set.radius
    if radius >= reach:
        return Localized(convex_set, found.theta, radius, found.events)
    ball = Ball(found.theta, radius)
    cut = ball if budget.is_pure and not budget.is_infinite else BallIntersection(convex_set, ball)
    return Localized(cut, found.theta, radius, found.events)


def localization(
    risk: EmpiricalRisk,
    convex_set: Ball,
    budget: PrivacyBudget,
    *,
    adjacency: Adjacency,
    bits: BitSource,
    share: float = 0.5,
    failure_probability: float = DEFAULT_FAILURE_PROBABILITY,
    tolerance: float = DEFAULT_TOLERANCE,
    n_steps: int = 100,
) -> Localization:
    """Both stages: localise, then exponential sampling (delta = 0) or noisy gradient descent in what is left.

    Parameters
    ----------
    risk : EmpiricalRisk
        Strongly convex: a `MarginRisk` with regularization, or `SquaredDistance`.
    convex_set : Ball
        As for `localize`.
    budget : PrivacyBudget
        Of both stages.
    adjacency : {"replace_one", "add_remove"}
    bits : BitSource
    share : float, default=0.5
        The first stage's, see `stage_budgets`.
    failure_probability, tolerance : float
        As for `localize`.
    n_steps : int, default=100
        Of gradient descent over all records, by the rule for strongly convex risks: step t has size 1 / (n Delta t).

    Returns
    -------
    Localization

    Raises
    ------
    NotCertifiedError
        If the solver does not reach the tolerance.
    ValueError
        If an argument is outside its range, or no sampler is exact for this risk and set; from public numbers, before
        anything is drawn.

    Notes
    -----
    Guarantee: the second stage is private for every fixed set, the set is released by the first, so both together have
    the sum of their budgets (adaptive composition). Where the first stage fails, only accuracy suffers.

    Accuracy, pure, in expectation where C_0 holds the minimiser: excess <= p 2 L ||C_0|| / epsilon_2 with ||C_0|| <=
    2 R and R about 2 L p / (n Delta epsilon_1) ("replace_one").

    References
    ----------
    Bassily, Smith, Thakurta (2014), algorithm 4 and theorem 4.2; appendix B.
    """
    first, second = stage_budgets(budget, share)
    refuse_localization(
        risk,
        convex_set,
        budget,
        adjacency=adjacency,
        share=share,
        failure_probability=failure_probability,
        tolerance=tolerance,
        n_steps=n_steps,
    )
    localized = localize(
        risk,
        convex_set,
        first,
        adjacency=adjacency,
        bits=bits,
        failure_probability=failure_probability,
        tolerance=tolerance,
    )
    if budget.is_infinite:
        return Localization(localized.theta, localized, ())
    events: tuple[Event, ...]
    inner = risk_on(risk, localized.convex_set)
    if budget.is_pure:
        drawn = exponential_sample(inner, localized.convex_set, second.epsilon, adjacency=adjacency, bits=bits)
        theta = drawn.theta
        events = (*localized.events, second.as_approximate())
    else:
        outcome = noisy_sgd(
            by_public_numbers(inner),
            localized.convex_set,
            second,
            adjacency=adjacency,
            bits=bits,
            n_steps=n_steps,
            averaging="tail",
        )
        theta, events = outcome.theta, (*localized.events, *outcome.events)
    return Localization(theta, localized, events)


def refuse_localization(
    risk: EmpiricalRisk,
    convex_set: Ball,
    budget: PrivacyBudget,
    *,
    adjacency: Adjacency,
    share: float,
    failure_probability: float,
    tolerance: float,
    n_steps: int,
) -> None:
    """Refuse what `localization` cannot do, by the constants of the risk alone; parameters as there.

    Raises
    ------
    ValueError
        If the second stage cannot sample or descend in whatever set the first one gives, or the first one's minimiser
        cannot be certified.
    """
    first, second = stage_budgets(budget, share)
    if budget.is_pure and not budget.is_infinite:
        refuse_what_cannot_be_sampled(
            risk, convex_set, first, second, adjacency, failure_probability=failure_probability, tolerance=tolerance
        )
    elif not budget.is_infinite:
        plan_noisy_sgd(by_public_numbers(risk), second, adjacency, "practical", n_steps, 1.0)
    plan = plan_perturbation(risk, first, adjacency=adjacency, tolerance=tolerance)
    refuse_uncertifiable(risk, plan.tolerance)


class LocalizationClassifier(RegularisedClassifier):
    """Linear classifier by localisation: output perturbation, then a second search near its outcome.

    Parameters
    ----------
    epsilon, delta : float, default=1.0 and 1e-5
        Delta 0 asks for pure differential privacy: norm noise, then exponential sampling; above 0 Gaussian noise, then
        noisy gradient descent.
    loss : {"logistic", "huberised-hinge", "hinge"}, default="logistic"
        The hinge only with delta above 0: exact exponential sampling needs a bounded second derivative.
    regularization : float, default=0.1
        Delta of (Delta / 2) |w|^2 a record, above 0. Exact sampling accepts at least exp(-beta / (2 Delta)) of its
        proposals in any dimension (with its best anchor, for up to `public_size` rows), beta the loss's curvature (0.25
        for "logistic", 0.5 / huber_width else), and is refused below 1e-5.
    huber_width : float, default=0.5
        h of the Huberised hinge.
    share : float, default=0.5
        The first stage's part of the budget (of epsilon, or of mu^2), in (0, 1).
    failure_probability : float, default=1e-3
        That the first stage's ball misses the minimiser, for each problem; a matter of accuracy alone.
    n_steps : int, default=100
        Of gradient descent.
    tolerance : float, default=0.01
        The solver's certified distance as a part of the sensitivity.
    public_size : int, default=None
        The number of records that the regulariser's weight, the noise and the sets are set by, and that bought means
        are divided by under "add_remove"; at least a quarter of the number of rows. More rows than it cost accuracy.
        None: the number of rows, which is the same in both tables under "replace_one" and counts as public under
        "add_remove".

    Other parameters are those of `PrivateClassifier`.

    Attributes
    ----------
    radius_ : float
        Of the localised ball, from public numbers only.
    first_coef_ : ndarray of float64, shape (k, d)
        The weights that the first stage released, the constant's included.

    Notes
    -----
    Guarantee: see `localization`. With delta above 0 all classes are one problem of k d parameters, whose stages are
    Gaussian. With delta = 0 each class against the rest is a problem of its own with epsilon / k: norm noise and
    range bound come out the same as for the joint problem (sqrt k times more for L, sqrt k for the norm, against k
    for epsilon), but the sampler's acceptance is exp(-beta / (2 Delta)) instead of exp(-k beta / (2 Delta)).

    References
    ----------
    Bassily, Smith, Thakurta (2014), algorithm 4 and appendix B.
    """

    _needs_norm = "the sensitivity follows from the norm of the rows"

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        loss: MarginLossName = "logistic",
        regularization: float = 0.1,
        huber_width: float = 0.5,
        share: float = 0.5,
        failure_probability: float = DEFAULT_FAILURE_PROBABILITY,
        n_steps: int = 100,
        tolerance: float = DEFAULT_TOLERANCE,
        public_size: int | None = None,
        adjacency: Adjacency = "replace_one",
        data_norm: float | None = 1.0,
        norm_rule: NormRule = "clip",
        fit_intercept: bool = True,
        classes: ArrayLike | None = None,
        feature_bounds: Any = None,
        preprocessing_share: float = 0.0,
        n_jobs: None = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.loss = loss
        self.regularization = regularization
        self.huber_width = huber_width
        self.share = share
        self.failure_probability = failure_probability
        self.n_steps = n_steps
        self.tolerance = tolerance
        self.public_size = public_size
        self.adjacency = adjacency
        self.data_norm = data_norm
        self.norm_rule = norm_rule
        self.fit_intercept = fit_intercept
        self.classes = classes
        self.feature_bounds = feature_bounds
        self.preprocessing_share = preprocessing_share
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _checked(self, sample_weight: Any) -> PrivacyBudget:
        budget = super()._checked(sample_weight)
        if self.loss == "hinge" and budget.is_pure and not budget.is_infinite:
            raise ValueError(
                "loss='hinge' needs delta above 0: no exact sampler is known for it in more than a few dimensions; "
                "take loss='huberised-hinge'"
            )
        return budget

    def _shared(self, n_classes: int, budget: PrivacyBudget) -> tuple[int, PrivacyBudget]:
        """How many problems are localised by themselves, and what each of them may spend."""
        if not budget.is_pure or budget.is_infinite:
            return 1, budget
        n_problems = n_problems_of(n_classes)
        return n_problems, PrivacyBudget(budget.epsilon / n_problems)

    def _refuse_numbers(self, n_records: int, n_columns: int, n_classes: int, budget: PrivacyBudget) -> None:
        n_problems, each = self._shared(n_classes, budget)
        problem = self._risk_of_size(n_records, n_columns, 2 if n_problems > 1 else n_classes, each)
        refuse_localization(
            problem,
            Ball.around_zero(problem.dimension, minimiser_norm_bound(problem)),
            each,
            adjacency=self.adjacency,
            share=self.share,
            failure_probability=self.failure_probability,
            tolerance=self.tolerance,
            n_steps=self.n_steps,
        )

    def _fit_rows(
        self, rows: FloatArray, labels: IntArray, n_classes: int, budget: PrivacyBudget, bits: BitSource
    ) -> Fit:
        risk = self._risk(rows, labels, n_classes, budget)
        pure = budget.is_pure and not budget.is_infinite
        problems = [risk.problem(j) for j in range(risk.n_problems)] if pure else [risk]
        _, each = self._shared(n_classes, budget)
        found = [self._localization(problem, each, bits) for problem in problems]
        events: tuple[Event, ...] = (budget.as_approximate(),) if pure else tuple(found[0].events)
        return Fit(
            weights=risk.weights(np.concatenate([one.theta for one in found])),
            mechanism="localisation: output perturbation, then "
            + ("exponential sampling, of proposals in double precision," if pure else "noisy gradient descent")
            + " in a ball about its outcome",
            proof="adaptive composition of both stages (Bassily, Smith, Thakurta 2014, algorithm 4): "
            + ("epsilons add up" if pure else "mu^2 = mu_1^2 + mu_2^2 (Dong, Roth, Su 2022, corollary 3.3)"),
            events=events,
            pure=budget.is_pure,
            attributes={
                "radius_": found[0].localized.radius,
                "first_coef_": risk.weights(np.concatenate([one.localized.theta for one in found])),
            },
        )

    def _localization(self, problem: MarginRisk, budget: PrivacyBudget, bits: BitSource) -> Localization:
        whole = Ball.around_zero(problem.dimension, minimiser_norm_bound(problem))
        return localization(
            problem,
            whole,
            budget,
            adjacency=self.adjacency,
            bits=bits,
            share=self.share,
            failure_probability=self.failure_probability,
            tolerance=self.tolerance,
            n_steps=self.n_steps,
        )
