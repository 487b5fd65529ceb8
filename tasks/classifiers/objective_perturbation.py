"""Objective perturbation: minimise the risk plus a random linear term (Bassily et al., appendix E)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from schemas.learning import Adjacency
from tasks.accounting.gaussian_profile import gaussian_mu
from tasks.classifiers.budget import PrivacyBudget
from tasks.classifiers.certified import certified_minimum, refuse_uncertifiable
from tasks.classifiers.fit import Fit
from tasks.classifiers.lattice import SLACK, lattice_for, norm_noise
from tasks.classifiers.number_checks import check_number
from tasks.classifiers.objective_profile import determinant_loss, gaussian_shift
from tasks.classifiers.output_perturbation import parts_of
from tasks.classifiers.regularised import RegularisedClassifier
from tasks.classifiers.risks import MarginRisk
from tasks.classifiers.row_map import NormRule
from tasks.noise.bits import BitSource
from tasks.noise.lattice_gaussian import LatticeGaussian

__all__ = ["ObjectivePerturbationClassifier", "ObjectivePlan", "objective_perturbation", "plan_objective"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
SmoothLossName = Literal["logistic", "huberised-hinge"]

DEFAULT_TOLERANCE = 1e-4
RELEASE_SHARE = 0.01
"""Part of the budget that pays for the minimiser being inexact."""

_SHARES = np.linspace(0.01, 0.95, 95)  # of epsilon, for the determinant
_LARGEST_EXPONENT = 700.0  # beyond, the regularisation that the determinant asks for is none in doubles anyway


@dataclass(frozen=True)
class ObjectivePlan:
    """Everything that public numbers fix.

    Attributes
    ----------
    regularization : float
        lam of (lam / 2) |theta|^2 in the whole objective.
    determinant_loss : float
        The part of epsilon that the Hessians' determinants take.
    noise_epsilon : float
        The part that is left for the noise.
    noise_scale : float
        Standard deviation of b's coordinates, or the scale of the Gamma law of its norm (of shape p); 0 without noise.
    gaussian : bool
    released : PrivacyBudget
        For the small noise on the minimiser.
    gradient_tolerance : float
        Certified bound of the objective's gradient where the solver stops.
    """

    regularization: float
    determinant_loss: float
    noise_epsilon: float
    noise_scale: float
    gaussian: bool
    released: PrivacyBudget
    gradient_tolerance: float

    @property
    def expected_noise(self) -> float:
        """The noise on theta in one coordinate, roughly: b's over lam."""
        return self.noise_scale / self.regularization


def plan_objective(
    risk: MarginRisk,
    budget: PrivacyBudget,
    *,
    adjacency: Adjacency,
    regularization: float,
    target_norm: float = 1.0,
    tolerance: float = DEFAULT_TOLERANCE,
) -> ObjectivePlan:
    """Split epsilon between determinant and noise, and choose lam; reads only the constants of the risk.

    Parameters
    ----------
    risk : MarginRisk
        Of a loss with a bounded second derivative.
    budget : PrivacyBudget
    adjacency : {"replace_one", "add_remove"}
    regularization : float
        Least lam, of the whole objective; above 0.
    target_norm : float, default=1.0
        B: a guess of the norm of a good solution.
    tolerance : float, default=1e-4
        In (0, 1]: where the solver stops, in units of b's size in one coordinate.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the loss has a kink.

    Notes
    -----
    The excess risk is at most (lam / 2) B^2 + 2 B |b| (compare the objective at its minimiser and at the risk's).
    Larger lam leaves more of epsilon for b. Of a hundred splits the one with the smallest bound is taken, with E|b|
    put at sqrt(p k) parts L / mu for Gaussian noise.
    """
    parts = parts_of(adjacency)
    if not isinstance(risk, MarginRisk):
        raise ValueError(
            f"objective perturbation is proven for a MarginRisk, whose records' gradients keep their directions; got "
            f"{type(risk).__name__}"
        )
    k, p, slope = risk.n_problems, risk.dimension, risk.loss.lipschitz
    regularization = check_number("regularization", regularization, "(0, inf)")
    target_norm = check_number("target_norm", target_norm, "(0, inf)")
    tolerance = check_number("tolerance", tolerance, "(0, 1]")
    determinant_loss(risk.smoothness, regularization, risk.hessian_rank)  # refuses a loss with a kink
    if budget.is_infinite:
        return ObjectivePlan(regularization, 0.0, math.inf, 0.0, False, budget, tolerance)
    released = budget.share(RELEASE_SHARE)
    epsilon, delta = (budget.epsilon - released.epsilon) / SLACK, budget.delta - released.delta

    def split(share: float) -> tuple[float, float, float]:
        exponent = min(share * epsilon / risk.hessian_rank, _LARGEST_EXPONENT)
        lam = max(regularization, risk.smoothness / math.expm1(exponent))
        loss = determinant_loss(risk.smoothness, lam, risk.hessian_rank) * SLACK
        rest = epsilon - loss
        if not rest > 0.0:
            return math.inf, lam, loss
        size = parts * math.sqrt(k) * slope
        length = size * p / rest if budget.is_pure else size * math.sqrt(p) / gaussian_mu(rest, delta)
        return 0.5 * lam * target_norm**2 + 2.0 * target_norm * length, lam, loss

    _, lam, loss = min(split(float(share)) for share in _SHARES)
    rest = epsilon - loss
    if budget.is_pure:
        scale = parts * math.sqrt(k) * slope / rest * SLACK
        size = math.sqrt(p) * scale
    else:
        scale = size = slope / gaussian_shift(rest, delta, k, parts) * SLACK
    return ObjectivePlan(lam, loss, rest, scale, not budget.is_pure, released, tolerance * size)


def objective_perturbation(risk: MarginRisk, plan: ObjectivePlan, bits: BitSource) -> FloatArray:
    """Draw b, minimise, certify, and release the minimiser with a little noise.

    Parameters
    ----------
    risk : MarginRisk
        Its own regulariser is replaced by the plan's.
    plan : ObjectivePlan
    bits : BitSource

    Returns
    -------
    ndarray of float64, shape (p,)
        theta; everything together costs the budget that the plan was made for.

    Raises
    ------
    NotCertifiedError
        If the solver does not reach the plan's tolerance, which depends on the records. Nothing was released then.
    ValueError
        If doubles cannot certify it, by public numbers.

    Notes
    -----
    Let b be the ideal, continuous term and theta(b) the exact minimiser, which is (epsilon', delta')-private (see
    `objective_profile`). What is computed is theta~: for a term b~ on a lattice of spacing g, with |b~ - b| <= g
    sqrt(p) / 2 and a relative 2^-40 of |b| for the sampler's own rounding, to a certified gradient of norm <= gamma.
    The objective is lam-strongly convex, so |theta~ - theta(b)| <= tau = (gamma + |b~ - b|) / lam, whatever the data
    are. Think of theta(b) as released first. Given it, theta~ is a function of the table and of randomness that does
    not depend on the table, within tau of theta(b), so for neighbours within 2 tau of each other; noise made for this
    sensitivity and the plan's `released` budget makes the second release private, and by basic composition both
    together. Leaving theta(b) out is post-processing. That is Approximate Minima Perturbation.

    References
    ----------
    Iyengar, Near, Song, Thakkar, Thakurta, Wang (2019), algorithm 1.
    """
    p, lam = risk.dimension, plan.regularization
    whole, bound = _whole(risk, plan), _linear_bound(risk, plan)
    if plan.noise_scale == 0.0:
        return certified_minimum(whole, plan.gradient_tolerance / lam, np.zeros(p)).theta
    size = plan.noise_scale if plan.gaussian else math.sqrt(p) * plan.noise_scale
    spacing = 2.0 ** math.floor(math.log2(size * 2.0**-32 / math.sqrt(p)))
    in_steps = plan.noise_scale / spacing
    steps = LatticeGaussian(in_steps).sample(p, bits=bits) if plan.gaussian else norm_noise(p, in_steps, bits)
    b: FloatArray = steps.astype(np.float64) * spacing
    longest = 100.0 * (p + 1) * size  # |b| is beyond it with a probability below 2^-128
    off = 0.5 * math.sqrt(p) * spacing + 2.0**-40 * longest
    tau = (plan.gradient_tolerance + off) / lam * SLACK
    theta = certified_minimum(whole, plan.gradient_tolerance / lam, b, linear_bound=bound).theta
    released = plan.released
    if released.is_pure:
        lattice = lattice_for(p, 2.0 * tau, math.sqrt(p + 1.0) / released.epsilon)
        return lattice.add_norm_noise(theta, released.epsilon, bits)
    lattice = lattice_for(p, 2.0 * tau, 1.0 / released.mu)
    return lattice.add_gaussian(theta, 1.0 / released.mu, bits)


def _whole(risk: MarginRisk, plan: ObjectivePlan) -> MarginRisk:
    """The risk with the plan's regulariser."""
    return replace(risk, regularization=plan.regularization / risk.nominal_size)


def _linear_bound(risk: MarginRisk, plan: ObjectivePlan) -> float:
    """|b| is beyond it with a probability below 2^-128: tails of chi of p degrees of freedom and of Gamma(p)."""
    p = risk.dimension
    return plan.noise_scale * (math.sqrt(p) + 14.0 if plan.gaussian else p + math.sqrt(180.0 * p) + 90.0)


class ObjectivePerturbationClassifier(RegularisedClassifier):
    """Linear classifier by objective perturbation: the minimiser of the risk plus a random linear term.

    Parameters
    ----------
    epsilon, delta : float, default=1.0 and 1e-5
        Delta 0 asks for pure differential privacy: norm noise; above 0 Gaussian noise.
    loss : {"logistic", "huberised-hinge"}, default="logistic"
        The hinge is refused: it has no second derivative.
    regularization : float, default=1e-4
        Least Delta of (Delta / 2) |w|^2 a record, above 0; `plan_objective` chooses more where epsilon asks for it.
    target_norm : float, default=1.0
        A guess of the norm of good weights for one class, by which that choice is made; public.
    huber_width : float, default=0.5
        h of the Huberised hinge.
    tolerance : float, default=1e-4
        Where the solver stops, in units of the linear term's size in one coordinate.
    public_size : int, default=None
        The number of records by which `regularization` is multiplied, and by which bought means are divided under
        "add_remove"; at least a quarter of the number of rows. None: the number of rows, which is the same in both
        tables under "replace_one" and counts as public under "add_remove".

    Other parameters are those of `PrivateClassifier`.

    Attributes
    ----------
    plan_ : ObjectivePlan
        How the budget was split, and what noise that gave.

    Notes
    -----
    Guarantee: (epsilon, delta), the sum of three parts: `determinant_loss`, the noise (`objective_delta`, or for norm
    noise rate times the largest difference of gradients, parts sqrt(k) L), and a hundredth for the inexact minimiser
    (`objective_perturbation`).

    References
    ----------
    Bassily, Smith, Thakurta (2014), appendix E; Kifer, Smith, Thakurta (2012); Redberg, Koskela, Wang (2023).
    """

    _gaussian = False
    _needs_norm = "the noise follows from the norm of the rows"

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        loss: SmoothLossName = "logistic",
        regularization: float = 1e-4,
        target_norm: float = 1.0,
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
        self.target_norm = target_norm
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

    def _checked(self, sample_weight: Any) -> PrivacyBudget:
        budget = super()._checked(sample_weight)
        check_number("target_norm", self.target_norm, "[1e-100, 1e100]")
        return budget

    def _plan(self, risk: MarginRisk, budget: PrivacyBudget) -> ObjectivePlan:
        return plan_objective(
            risk,
            budget,
            adjacency=self.adjacency,
            regularization=risk.total_regularization,
            target_norm=float(self.target_norm) * math.sqrt(risk.n_problems),
            tolerance=self.tolerance,
        )

    def _refuse_numbers(self, n_records: int, n_columns: int, n_classes: int, budget: PrivacyBudget) -> None:
        risk = self._risk_of_size(n_records, n_columns, n_classes, budget)
        plan = self._plan(risk, budget)
        refuse_uncertifiable(
            _whole(risk, plan), plan.gradient_tolerance / plan.regularization, _linear_bound(risk, plan)
        )

    def _fit_rows(
        self, rows: FloatArray, labels: IntArray, n_classes: int, budget: PrivacyBudget, bits: BitSource
    ) -> Fit:
        risk = self._risk(rows, labels, n_classes, budget)
        plan = self._plan(risk, budget)
        theta = objective_perturbation(risk, plan, bits)
        return Fit(
            weights=risk.weights(theta),
            mechanism="objective perturbation: the minimiser of the regularised risk plus a "
            + ("Gaussian" if plan.gaussian else "norm-exponential")
            + " linear term, released with a little noise",
            proof=f"density ratio at most determinant {plan.determinant_loss:.4g} (rank {risk.hessian_rank}) and noise "
            + (
                "by the corners of the gradients' differences"
                if plan.gaussian
                else "by the gradients' largest difference"
            )
            + "; the inexact minimiser by Approximate Minima Perturbation (Iyengar et al. 2019) for a "
            "hundredth of the budget",
            events=() if budget.is_infinite else (budget.as_approximate(),),
            pure=budget.is_pure,
            attributes={"plan_": plan},
        )
