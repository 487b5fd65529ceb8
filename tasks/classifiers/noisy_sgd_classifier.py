"""A linear classifier trained by noisy gradient descent."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from schemas.learning import Adjacency
from tasks.classifiers.base import PrivateClassifier
from tasks.classifiers.budget import PrivacyBudget
from tasks.classifiers.clipped_risk import ClippedMarginRisk
from tasks.classifiers.convex_sets import Ball
from tasks.classifiers.exact_rows import on_row_grid, query_grid
from tasks.classifiers.fit import Fit
from tasks.classifiers.losses import margin_loss
from tasks.classifiers.noisy_sgd import Averaging, Schedule, StepRule, noisy_sgd
from tasks.classifiers.noisy_sgd_plan import plan_noisy_sgd
from tasks.classifiers.number_checks import check_number
from tasks.classifiers.risk_of_size import risk_of_size
from tasks.classifiers.risks import MarginRisk, signs_of
from tasks.classifiers.row_map import NormRule
from tasks.classifiers.subsampling import poisson_noise_multiplier
from tasks.noise.bits import BitSource

__all__ = ["NoisySGDClassifier"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class NoisySGDClassifier(PrivateClassifier):
    """Linear classification by noisy gradient descent, algorithm 1 of Bassily, Smith, Thakurta (2014).

    Two classes share one vector of weights; more classes get one each, against the rest, fitted jointly: one noisy
    gradient step is for all of them.

    Parameters
    ----------
    epsilon, delta, adjacency, data_norm, norm_rule, fit_intercept, classes, feature_bounds, preprocessing_share, \
n_jobs, random_state
        As for `PrivateClassifier`; delta must be above 0. With data_norm=None rows may have any length, and
        `clip_norm` alone bounds what a record does.
    loss : {"logistic", "hinge", "huberised-hinge"}, default="logistic"
    huber_width : float, default=0.5
        Of the Huberised hinge's parabola; above 0.
    schedule : {"practical", "paper"}, default="practical"
        "paper" is algorithm 1 as published: n^2 - 1 steps of one record each, the paper's noise, the last iterate.
        For n up to 1000 and "replace_one".
    n_steps : int, default=100
        Gradient steps of the practical schedule.
    sampling_probability : float, default=1.0
        In (0, 1]. Below 1, each step takes each record with this probability (a Poisson sample).
    step_size : float, {"lipschitz", "smooth", "strongly-convex"} or None, default=None
        See `noisy_sgd`; a number multiplies the gradient of the mean loss. None: "lipschitz", the paper's
        2 radius / (sqrt(t) G), where G bounds the noisy gradient by public numbers; for the paper's schedule with
        regularization its other rule, "strongly-convex".
    regularization : float, default=0.0
        Delta of (Delta / 2) |weights|^2, per record; at least 0.
    radius : float, default=10.0
        Weights are sought in the ball of this radius about 0, those of all classes together.
    clip_norm : float or None, default=1.0
        Bound of each record's gradient; longer ones are scaled down. None, or at least the bound that `data_norm`
        gives already (sqrt(number of weight vectors)): gradients are left as they are.
    averaging : {"tail", "last"}, default="tail"
        Give the mean of the second half of the iterates, or the last one; the paper's schedule gives the last.

    Attributes
    ----------
    n_iter_ : int
        Steps that were taken.
    noise_scale_ : float
        Standard deviation of the noise in each coordinate of a step's sum of gradients; a public number.
    noise_multiplier_ : float
        The same over the sensitivity.

    Notes
    -----
    Guarantee: `noisy_sgd` says what is released in each step and what it costs. All records in every step, the
    default, are one Gaussian release altogether, priced exactly.

    Clipping changes what is minimised. With one weight vector it is another convex loss, of which slopes are limited;
    with more, clipped gradients need not be gradients of any loss. Set clip_norm=None (and a data_norm) for the risk
    as it is written; then noise is for a bound of sqrt(number of weight vectors). With clip_norm below the typical
    length of gradients classes are still told apart, and noise is less.

    Rows are rounded towards 0 to multiples of 2^-24 of their bound, and gradients are taken at weights on a grid as
    fine, so that a record's margin is formed without rounding: otherwise it could depend on the place of its row in a
    matrix, which changes where another record is left out.

    References
    ----------
    Bassily, Smith, Thakurta, "Private empirical risk minimization: efficient algorithms and tight error bounds" (FOCS
    2014), algorithm 1. Abadi et al., "Deep learning with differential privacy" (CCS 2016), for clipping.
    """

    _delta_needed = "its noise is Gaussian"

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        loss: str = "logistic",
        huber_width: float = 0.5,
        schedule: Schedule = "practical",
        n_steps: int = 100,
        sampling_probability: float = 1.0,
        step_size: float | StepRule | None = None,
        regularization: float = 0.0,
        radius: float = 10.0,
        clip_norm: float | None = 1.0,
        averaging: Averaging = "tail",
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
        self.huber_width = huber_width
        self.schedule = schedule
        self.n_steps = n_steps
        self.sampling_probability = sampling_probability
        self.step_size = step_size
        self.regularization = regularization
        self.radius = radius
        self.clip_norm = clip_norm
        self.averaging = averaging
        self.adjacency = adjacency
        self.data_norm = data_norm
        self.norm_rule = norm_rule
        self.fit_intercept = fit_intercept
        self.classes = classes
        self.feature_bounds = feature_bounds
        self.preprocessing_share = preprocessing_share
        self.n_jobs = n_jobs
        self.random_state = random_state

    @property
    def _gaussian(self) -> bool:
        """Only steps over all records are one Gaussian release; the others share a budget by basic composition."""
        return self.schedule == "practical" and self.sampling_probability == 1.0

    def _checked(self, sample_weight: Any) -> PrivacyBudget:
        budget = super()._checked(sample_weight)
        margin_loss(self.loss, self.huber_width)
        check_number("radius", self.radius, "[1e-100, 1e100]")
        if self.clip_norm is not None:
            check_number("clip_norm", self.clip_norm, "[1e-100, 1e100]")
        check_number("regularization", self.regularization, "[0, 1e100]")
        if self.data_norm is None and self.clip_norm is None:
            raise ValueError(
                "NoisySGDClassifier needs a data_norm or a clip_norm: one of them must bound what a record does"
            )
        if self.data_norm is None and self.step_size == "smooth":
            raise ValueError("step_size='smooth' needs a data_norm: rows of any length have no common smoothness")
        return budget

    def _refuse_numbers(self, n_records: int, n_columns: int, n_classes: int, budget: PrivacyBudget) -> None:
        if self.schedule == "paper":  # whose checks ask for n and a finite Lipschitz constant alone
            risk = risk_of_size(n_records, n_columns, n_classes, margin_loss(self.loss, self.huber_width))
            plan_noisy_sgd(risk, budget, self.adjacency, "paper", self.n_steps, self.sampling_probability)
        elif self.sampling_probability < 1.0 and not budget.is_infinite:
            poisson_noise_multiplier(
                float(self.sampling_probability), int(self.n_steps), budget.epsilon, budget.delta, self.adjacency
            )

    def _fit_rows(
        self, rows: FloatArray, labels: IntArray, n_classes: int, budget: PrivacyBudget, bits: BitSource
    ) -> Fit:
        signs = signs_of(labels, n_classes)
        k = signs.shape[1]
        loss = margin_loss(self.loss, self.huber_width)
        own = float(self.regularization)
        risk: MarginRisk | ClippedMarginRisk
        if self.data_norm is not None and (self.clip_norm is None or self.clip_norm >= math.sqrt(k) * loss.lipschitz):
            risk = MarginRisk(on_row_grid(rows), signs, loss, own)
        else:
            row_norm = math.inf if self.data_norm is None else 1.0
            assert self.clip_norm is not None  # or `_checked` had refused
            risk = ClippedMarginRisk.of_rows(rows, signs, loss, float(self.clip_norm), own, row_norm)
        radius = float(self.radius)
        step_size = self.step_size
        if step_size is None:
            step_size = "strongly-convex" if self.schedule == "paper" and own > 0.0 else "lipschitz"
        run = noisy_sgd(
            risk,
            Ball.around_zero(risk.dimension, radius),
            budget,
            adjacency=self.adjacency,
            bits=bits,
            schedule=self.schedule,
            n_steps=self.n_steps,
            sampling_probability=self.sampling_probability,
            step_size=step_size,
            averaging=self.averaging,
            query_grid=query_grid(radius),
        )
        return Fit(
            weights=risk.weights(run.theta),
            mechanism=run.mechanism,
            proof=run.proof,
            events=run.events,
            sampled=run.sampled,
            attributes={
                "n_iter_": run.n_steps,
                "noise_scale_": run.noise_scale,
                "noise_multiplier_": run.noise_multiplier,
            },
        )
