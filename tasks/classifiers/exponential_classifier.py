"""A linear classifier drawn by exponential sampling: purely private, at delta 0."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from schemas.learning import Adjacency
from tasks.classifiers.base import PrivateClassifier
from tasks.classifiers.budget import PrivacyBudget
from tasks.classifiers.convex_sets import Ball
from tasks.classifiers.exponential_sampling import NET_POINTS, choose_sampler, exponential_sample, sampler_and_range
from tasks.classifiers.fit import Fit
from tasks.classifiers.losses import MarginLoss, margin_loss
from tasks.classifiers.net_sampler import LARGEST_DIMENSION, net_of, risk_values
from tasks.classifiers.number_checks import check_number
from tasks.classifiers.risk_of_size import n_problems_of, risk_of_size
from tasks.classifiers.risks import MarginRisk, signs_of
from tasks.classifiers.row_map import NormRule
from tasks.classifiers.solver import minimise
from tasks.noise.bits import BitSource

__all__ = ["ExponentialSamplingClassifier"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class ExponentialSamplingClassifier(PrivateClassifier):
    """Linear classification with weights drawn with probability density proportional to exp(-epsilon risk / k).

    Algorithm 2 of Bassily, Smith and Thakurta (2014) on the regularised risk over a ball, drawn exactly. For the
    parameters that all private classifiers share see `PrivateClassifier`; `delta` is 0 by default, and only
    `preprocessing_share` makes use of another one.

    Parameters
    ----------
    loss : {"logistic", "huberised-hinge", "hinge"}, default="logistic"
        "hinge" has an exact sampler in up to three dimensions only, the constant of the intercept included.
    huber_width : float, default=0.5
        Of the parabola of the Huberised hinge; its curvature is at most 1 / (2 huber_width).
    regularization : float, default=0.05
        Delta of (Delta / 2) |w|^2 for each record, at least 0. Beyond two dimensions at least a 23rd of the loss's
        largest curvature: the share of accepted proposals may be as low as exp(-curvature / (2 Delta)), which is 0.08
        for the default values. It costs no privacy; less of it needs more records.
    radius : float or None, default=None
        Of the ball in which each vector of weights is sought. None: the smaller of 1 / Delta and
        sqrt(2 loss(0) / Delta), which covers the minimiser for any records; needs a regularization above 0.
    sampler : {"auto", "net", "piecewise", "rejection", "grid-walk"}, default="auto"
        See `exponential_sample`.
    net_points : int, default=16384
        Size of the net in up to three dimensions.

    Attributes
    ----------
    sampler_ : str
        Which one drew the weights.
    radius_ : float
    range_bound_ : float
        k.

    Notes
    -----
    Guarantee: epsilon, at delta 0, by the bounded range of the exponential mechanism; the derivation and what there is
    to know about numbers is with `exponential_sample`. More than two classes are told one from the rest, each by
    a draw of its own at epsilon / n_classes on a ball of its own: basic composition.

    Utility: the expected regularised risk of a draw exceeds the least by at most d k / epsilon, where k is twice
    the radius for the logistic loss under "replace_one". So 2 d radius / (n epsilon) should be small next to 1.

    A fit's time depends on the records, by the number of proposals or steps, and so does whether sampler="grid-walk"
    is refused as not certified. No budget pays for that: keep both to yourself.

    References
    ----------
    Bassily, Smith, Thakurta (2014), algorithm 2.
    """

    _gaussian: ClassVar[bool] = False
    _needs_norm: ClassVar[str] = "a record's loss has a Lipschitz constant only for rows of bounded norm"

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        loss: Literal["logistic", "huberised-hinge", "hinge"] = "logistic",
        huber_width: float = 0.5,
        regularization: float = 0.05,
        radius: float | None = None,
        sampler: Literal["auto", "net", "piecewise", "rejection", "grid-walk"] = "auto",
        net_points: int = NET_POINTS,
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
        self.regularization = regularization
        self.radius = radius
        self.sampler = sampler
        self.net_points = net_points
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
        loss = margin_loss(self.loss, self.huber_width)
        weight = check_number("regularization", self.regularization, "[0, 1e100]")
        if self.radius is None and weight == 0.0:
            raise ValueError("radius must be given where regularization is 0: exponential sampling needs a bounded set")
        if self.radius is not None:
            check_number("radius", self.radius, "[1e-100, 1e100]")
        if self.sampler == "rejection" and not math.isfinite(loss.smoothness):
            raise ValueError(f"sampler='rejection' needs a smooth loss, got loss={self.loss!r}")
        return budget

    def _radius(self, loss: MarginLoss) -> float:
        if self.radius is not None:
            return float(self.radius)
        weight = float(self.regularization)
        at_zero = float(loss.value(np.zeros(1))[0])
        return min(loss.lipschitz / weight, math.sqrt(2.0 * at_zero / weight))

    def _refuse_numbers(self, n_records: int, n_columns: int, n_classes: int, budget: PrivacyBudget) -> None:
        if budget.is_infinite:
            return
        loss, share = margin_loss(self.loss, self.huber_width), budget.epsilon / n_problems_of(n_classes)
        risk = risk_of_size(n_records, n_columns, 2, loss, float(self.regularization))
        ball = Ball.around_zero(n_columns, self._radius(loss))
        sampler_and_range(risk, ball, share, self.adjacency, self.sampler)

    def _fit_rows(
        self, rows: FloatArray, labels: IntArray, n_classes: int, budget: PrivacyBudget, bits: BitSource
    ) -> Fit:
        loss = margin_loss(self.loss, self.huber_width)
        ball = Ball.around_zero(rows.shape[1], self._radius(loss))
        signs = signs_of(labels, n_classes)
        risks = [MarginRisk(rows, signs[:, [j]], loss, float(self.regularization)) for j in range(signs.shape[1])]
        if budget.is_infinite:
            weights = np.array([self._without_noise(risk, ball) for risk in risks])
            return Fit(weights, "no noise", "no guarantee", attributes={"radius_": ball.radius})
        share = budget.epsilon / len(risks)
        draws = [
            exponential_sample(
                risk,
                ball,
                share,
                adjacency=self.adjacency,
                bits=bits,
                sampler=self.sampler,
                net_points=self.net_points,
            )
            for risk in risks
        ]
        each = "" if len(risks) == 1 else f", for each of {n_classes} classes against the rest at epsilon / {n_classes}"
        return Fit(
            weights=np.array([draw.theta for draw in draws]),
            mechanism=f"exponential sampling of weights in a ball of radius {ball.radius:.6g}, drawn by "
            f"{draws[0].sampler}{each}"
            + (", of proposals in double precision" if draws[0].sampler == "rejection" else ""),
            proof="Bassily, Smith, Thakurta (2014), algorithm 2: exponential mechanism of bounded range"
            + ("" if len(risks) == 1 else "; basic composition over the classes"),
            events=[PrivacyBudget(budget.epsilon).as_approximate()],
            pure=True,
            attributes={
                "sampler_": draws[0].sampler,
                "radius_": ball.radius,
                "range_bound_": draws[0].range_bound,
            },
        )

    def _without_noise(self, risk: MarginRisk, ball: Ball) -> FloatArray:
        """The minimiser, brought into the ball; for a hinge the best point of the net."""
        if math.isfinite(risk.loss.smoothness) and risk.regularization > 0.0:
            found = minimise(
                lambda theta: (risk.value(theta), risk.gradient(theta)),
                np.zeros(risk.dimension),
                risk.total_regularization,
                risk.hessian_product,
                tolerance=1e-8,
            )
            return ball.project(found.theta)
        if risk.dimension > LARGEST_DIMENSION:
            choose_sampler(risk, ball)  # says what to do
        net = net_of(ball, self.net_points)
        best: FloatArray = net[int(np.argmin(risk_values(risk, net)))]
        return best
