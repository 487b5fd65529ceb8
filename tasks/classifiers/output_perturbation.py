"""Output perturbation: the minimiser of a strongly convex risk, certified, with noise (Bassily et al., algorithm 3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats

from schemas.events import Event
from schemas.learning import Adjacency
from tasks.classifiers.budget import PrivacyBudget
from tasks.classifiers.certified import certified_minimum, minimiser_norm_bound, refuse_uncertifiable
from tasks.classifiers.convex_sets import Ball, ConvexSet
from tasks.classifiers.fit import Fit
from tasks.classifiers.lattice import VectorLattice, lattice_for
from tasks.classifiers.number_checks import check_number
from tasks.classifiers.regularised import RegularisedClassifier
from tasks.classifiers.risk_of_size import n_problems_of
from tasks.classifiers.risks import EmpiricalRisk, SquaredDistance, total_strong_convexity
from tasks.classifiers.row_map import NormRule
from tasks.noise.bits import BitSource

__all__ = [
    "OutputPerturbationClassifier",
    "PerturbationPlan",
    "PerturbedMinimum",
    "minimiser_sensitivity",
    "perturbed_minimum",
    "plan_perturbation",
]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
MarginLossName = Literal["logistic", "huberised-hinge", "hinge"]

_WANTED_NOISE = 0.2  # standard deviation of the noise in a weight, by default
DEFAULT_TOLERANCE = 0.01


def parts_of(adjacency: Adjacency) -> int:
    """How many records' losses two neighbouring risks differ in: 2 under "replace_one", 1 under "add_remove"."""
    if adjacency not in ("replace_one", "add_remove"):
        raise ValueError(f"adjacency must be 'replace_one' or 'add_remove', got adjacency={adjacency!r}")
    return 2 if adjacency == "replace_one" else 1


def minimiser_sensitivity(risk: EmpiricalRisk, adjacency: Adjacency) -> float:
    """Bound of the distance between the exact minimisers of neighbouring tables: 2 L / (n Delta), or L / (n Delta).

    Parameters
    ----------
    risk : EmpiricalRisk
        Strongly convex.
    adjacency : {"replace_one", "add_remove"}

    Raises
    ------
    ValueError
        If the risk is not strongly convex.

    Notes
    -----
    Let F and F' = F + h be the neighbouring risks, with minimisers w and w' over one closed convex set. Both are M =
    n Delta strongly convex and h is 2 L Lipschitz: one record's loss for another one's; the regulariser is the same
    in both and cancels. By optimality F(w') >= F(w) + (M/2)|w - w'|^2 and F'(w) >= F'(w') + (M/2)|w - w'|^2; their
    sum is M |w - w'|^2 <= h(w) - h(w') <= 2 L |w - w'|. When a record is added or removed, h is its loss alone, L
    Lipschitz; M must then be the same public number in both tables (`MarginRisk.public_size`). Only what h does between
    the minimisers counts: means of points lie in the points' ball, whatever set is searched.

    References
    ----------
    Bassily, Smith, Thakurta (2014), algorithm 3; Chaudhuri, Monteleoni, Sarwate (2011), lemma 7.
    """
    m = total_strong_convexity(risk)
    if not m > 0.0:
        raise ValueError("the risk must be strongly convex: regularization must be above 0")
    lipschitz = risk.lipschitz
    if isinstance(risk, SquaredDistance):
        lipschitz = max(lipschitz, 2.0 * risk.point_norm)
    return parts_of(adjacency) * lipschitz / m


@dataclass(frozen=True, eq=False)
class PerturbationPlan:
    """What public numbers fix of a release: sensitivity, noise and price.

    Attributes
    ----------
    dimension : int
        p.
    sensitivity : float
        l2, of the certified minimiser: that of the exact one and twice the solver's public tolerance.
    tolerance : float
        The solver's, in units of theta.
    relative_noise : float
        Size of the noise in a coordinate, in sensitivities; 0 without noise.
    lattice : VectorLattice or None
        On which it is released; None without noise.
    budget : PrivacyBudget
    """

    dimension: int
    sensitivity: float
    tolerance: float
    relative_noise: float
    lattice: VectorLattice | None
    budget: PrivacyBudget

    @property
    def gaussian(self) -> bool:
        """Whether the noise is Gaussian, or has the density exp(-epsilon |b| / S)."""
        return not self.budget.is_pure

    @property
    def noise_scale(self) -> float:
        """The Gaussian noise's standard deviation in each coordinate, or the scale of the Gamma law of the noise's norm
        (of shape p); 0 without noise."""
        if self.lattice is None:
            return 0.0
        reach = self.lattice.steps * self.lattice.spacing
        return reach * self.relative_noise if self.gaussian else reach / self.budget.epsilon

    @property
    def events(self) -> Sequence[Event]:
        """What the release costs."""
        if self.lattice is None:
            return ()
        return (self.budget.as_gaussian() if self.gaussian else self.budget.as_approximate(),)

    def radius(self, failure_probability: float) -> float:
        """The radius about theta outside of which the exact minimiser lies with at most this probability.

        Parameters
        ----------
        failure_probability : float
            In (0, 1).

        Notes
        -----
        The norm of the noise has a Gamma law of shape p (pure), or is standard deviation times a chi law of p degrees
        of freedom (Gaussian); both tails are exact. The solver's tolerance and the roundings to the lattice, of the
        minimiser and of the noise, are added. Projection to a convex set that holds the minimiser moves nothing away
        from it.
        """
        if not 0.0 < failure_probability < 1.0:
            raise ValueError(f"failure_probability must be in (0, 1), got {failure_probability=}")
        if self.lattice is None:
            return self.tolerance
        p = self.dimension
        if self.gaussian:
            tail = math.sqrt(float(stats.chi2.isf(failure_probability, p)))
        else:
            tail = float(special.gammainccinv(p, failure_probability))
        rounding = math.sqrt(p) * self.lattice.spacing
        return tail * self.noise_scale * (1.0 + 1e-9) + rounding + self.tolerance


@dataclass(frozen=True, eq=False)
class PerturbedMinimum(PerturbationPlan):
    """A released minimiser, and the law of its distance from the exact one.

    Attributes
    ----------
    theta : ndarray of float64, shape (p,)
        Released: it carries the noise, and is projected to the convex set where there is one.
    """

    theta: FloatArray


def plan_perturbation(
    risk: EmpiricalRisk, budget: PrivacyBudget, *, adjacency: Adjacency, tolerance: float = DEFAULT_TOLERANCE
) -> PerturbationPlan:
    """Sensitivity and noise of `perturbed_minimum`; reads only the constants of the risk.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    """
    tolerance = check_number("tolerance", tolerance, "(0, 1]")
    exact = minimiser_sensitivity(risk, adjacency)
    sensitivity, relative = exact * (1.0 + 2.0 * tolerance), 0.0
    lattice: VectorLattice | None = None
    if not budget.is_infinite:
        relative = math.sqrt(risk.dimension + 1.0) / budget.epsilon if budget.is_pure else 1.0 / budget.mu
        lattice = lattice_for(risk.dimension, sensitivity, relative)
    return PerturbationPlan(risk.dimension, sensitivity, tolerance * exact, relative, lattice, budget)


def perturbed_minimum(
    risk: EmpiricalRisk,
    convex_set: ConvexSet | None,
    budget: PrivacyBudget,
    *,
    adjacency: Adjacency,
    bits: BitSource,
    tolerance: float = DEFAULT_TOLERANCE,
) -> PerturbedMinimum:
    """Minimise, certify, add noise, project.

    Parameters
    ----------
    risk : EmpiricalRisk
        Strongly convex: a `MarginRisk` with regularization, or `SquaredDistance`.
    convex_set : ConvexSet or None
        To which the noisy minimiser is projected.
    budget : PrivacyBudget
        Delta 0: noise of density exp(-epsilon |b| / S). Above 0: Gaussian noise. Infinite: no noise.
    adjacency : {"replace_one", "add_remove"}
    bits : BitSource
    tolerance : float, default=0.01
        In (0, 1]: the solver's certified distance, as a part of the exact minimiser's sensitivity.

    Returns
    -------
    PerturbedMinimum

    Raises
    ------
    NotCertifiedError
        If the solver does not reach the tolerance; nothing was drawn then.
    ValueError
        If an argument is outside its range.

    Notes
    -----
    Both neighbours' computed minimisers are within `tolerance` S0 of the exact ones, for certain, so they are within
    S = (1 + 2 tolerance) S0 of each other. The noise is added on a lattice, see `lattice`.
    """
    plan = plan_perturbation(risk, budget, adjacency=adjacency, tolerance=tolerance)
    theta = certified_minimum(risk, plan.tolerance).theta
    if plan.lattice is not None:
        if plan.gaussian:
            theta = plan.lattice.add_gaussian(theta, plan.relative_noise, bits)
        else:
            theta = plan.lattice.add_norm_noise(theta, budget.epsilon, bits)
    if convex_set is not None:
        theta = convex_set.project(theta)
    return PerturbedMinimum(**vars(plan), theta=theta)


def default_regularization(
    n_records: int, n_problems: int, n_columns: int, budget: PrivacyBudget, adjacency: Adjacency
) -> float:
    """The Delta with which the noise in each weight has a standard deviation of about a fifth; public numbers only.

    Parameters
    ----------
    n_records, n_problems, n_columns : int
        n, k (1 for two classes) and the rows' columns.
    budget : PrivacyBudget
    adjacency : {"replace_one", "add_remove"}

    Returns
    -------
    float
        parts sqrt(k) z / (n / 5), with z the noise of one weight in sensitivities, in [1e-4, 10]; 1e-3 without noise.

    Notes
    -----
    A fifth was chosen by looking at test accuracy on four tables; it is no part of any guarantee.
    """
    if budget.is_infinite:
        return 1e-3
    noise = math.sqrt(n_problems * n_columns + 1.0) / budget.epsilon if budget.is_pure else 1.0 / budget.mu
    wanted = parts_of(adjacency) * math.sqrt(n_problems) * noise / (n_records * _WANTED_NOISE)
    return min(max(wanted, 1e-4), 10.0)


class OutputPerturbationClassifier(RegularisedClassifier):
    """Linear classifier by output perturbation: the regularised minimiser with noise.

    Parameters
    ----------
    epsilon, delta : float, default=1.0 and 1e-5
        Delta 0 asks for pure differential privacy: noise of density exp(-epsilon |b| / S); above 0 Gaussian noise.
    loss : {"logistic", "huberised-hinge", "hinge"}, default="logistic"
    regularization : float or None, default=None
        Delta of (Delta / 2) |w|^2 a record, above 0. The noise shrinks with it. None: such that the noise in each
        weight has a standard deviation of about a fifth (`default_regularization`).
    huber_width : float, default=0.5
        h of the Huberised hinge.
    tolerance : float, default=0.01
        The solver's certified distance as a part of the sensitivity; it makes the noise larger by twice this part.
    public_size : int, default=None
        The number of records that the regulariser's weight, the noise and the radius are set by, and that bought means
        are divided by under "add_remove"; at least a quarter of the number of rows. More rows than it cost accuracy.
        None: the number of rows, which is the same in both tables under "replace_one" and counts as public under
        "add_remove".

    Other parameters are those of `PrivateClassifier`.

    Attributes
    ----------
    regularization_ : float
        That was used.
    sensitivity_ : float
        l2, of the weights before the noise; from public numbers only.
    noise_scale_ : float
        Standard deviation of the Gaussian noise in each weight, or scale of the Gamma law of the noise's norm.
    radius_ : float
        Public bound of the exact minimiser's norm (for up to `public_size` rows), to which the noisy weights are
        projected.

    Notes
    -----
    Guarantee: (epsilon, delta), by `minimiser_sensitivity` with L = sqrt(k) for k classes against the rest (1 for two
    classes) and rows of norm at most 1, and by `perturbed_minimum`. The projection needs no data.

    References
    ----------
    Bassily, Smith, Thakurta (2014), algorithm 3 and appendix B, stage 1; Chaudhuri, Monteleoni, Sarwate (2011),
    algorithm 1.
    """

    _needs_norm = "the sensitivity follows from the norm of the rows"
    _has_rule = True

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        loss: MarginLossName = "logistic",
        regularization: float | None = None,
        huber_width: float = 0.5,
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

    def _regularization(self, n_records: int, n_columns: int, n_classes: int, budget: PrivacyBudget) -> float:
        if self.regularization is not None:
            return float(self.regularization)
        size = n_records if self.public_size is None else int(self.public_size)
        return default_regularization(size, n_problems_of(n_classes), n_columns, budget, self.adjacency)

    def _refuse_numbers(self, n_records: int, n_columns: int, n_classes: int, budget: PrivacyBudget) -> None:
        risk = self._risk_of_size(n_records, n_columns, n_classes, budget)
        plan = plan_perturbation(risk, budget, adjacency=self.adjacency, tolerance=self.tolerance)
        refuse_uncertifiable(risk, plan.tolerance)

    def _fit_rows(
        self, rows: FloatArray, labels: IntArray, n_classes: int, budget: PrivacyBudget, bits: BitSource
    ) -> Fit:
        risk = self._risk(rows, labels, n_classes, budget)
        radius = minimiser_norm_bound(risk)
        found = perturbed_minimum(
            risk,
            Ball.around_zero(risk.dimension, radius),
            budget,
            adjacency=self.adjacency,
            bits=bits,
            tolerance=self.tolerance,
        )
        return Fit(
            weights=risk.weights(found.theta),
            mechanism="output perturbation: the regularised minimiser with "
            + ("noise of density exp(-epsilon |b| / sensitivity)" if budget.is_pure else "Gaussian noise"),
            proof="sensitivity parts * L / (n Delta) of the strongly convex minimiser (Bassily, Smith, Thakurta 2014, "
            "algorithm 3) and twice the solver's certified distance; "
            + ("norm-exponential noise" if budget.is_pure else "analytic Gaussian (Balle, Wang 2018, theorem 8)"),
            events=found.events,
            pure=budget.is_pure,
            attributes={
                "regularization_": risk.regularization,
                "sensitivity_": found.sensitivity,
                "noise_scale_": found.noise_scale,
                "radius_": radius,
            },
        )
