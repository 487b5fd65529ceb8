"""What PMSVM is compared with: one-versus-rest private SVMs, composed or joint, and regression by noisy gradients."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from schemas.events import GaussianEvent
from schemas.learning import Adjacency
from tasks.classifiers.base import PrivateClassifier
from tasks.classifiers.budget import PrivacyBudget
from tasks.classifiers.certified import certified_minimum, refuse_uncertifiable
from tasks.classifiers.fit import Fit
from tasks.classifiers.gradient_fit import GradientSettings, fit_by_gradients, step_noise
from tasks.classifiers.lattice import lattice_for
from tasks.classifiers.losses import HingeLoss, HuberisedHingeLoss, MarginLoss
from tasks.classifiers.multiclass_losses import CrossEntropy
from tasks.classifiers.number_checks import check_number
from tasks.classifiers.risk_of_size import n_problems_of, risk_of_size
from tasks.classifiers.risks import MarginRisk, signs_of
from tasks.classifiers.row_map import NormRule
from tasks.classifiers.row_scaling import column_factors
from tasks.classifiers.weight_perturbation import RELATIVE_TOLERANCE
from tasks.noise.bits import BitSource

__all__ = [
    "OPERAClassifier",
    "OneVsRestPrivateSVM",
    "PrivateLinearClassifier",
    "PrivateSVMClassifier",
    "classic_gaussian_multiplier",
]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def classic_gaussian_multiplier(epsilon: float, delta: float) -> float:
    """sqrt(2 log(1.25 / delta)) / epsilon, the textbook's noise of a Gaussian release over its sensitivity.

    Parameters
    ----------
    epsilon : float
        Above 0 and finite. Proven for epsilon below 1 only.
    delta : float
        In (0, 1).

    References
    ----------
    Dwork, Roth (2014), theorem A.1.
    """
    return math.sqrt(2.0 * math.log(1.25 / delta)) / epsilon


class _OneVsRest(PrivateClassifier):
    """Linear SVMs, one class against the rest each (one in all for two classes), whose weights get Gaussian noise."""

    _delta_needed = "its noise is Gaussian"
    _needs_norm = "the sensitivity of a minimiser grows with the rows' norms"

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        C: float | None = None,
        smoothing: float = 0.25,
        intercept_scaling: float = 0.1,
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
        self.C = C
        self.smoothing = smoothing
        self.intercept_scaling = intercept_scaling
        self.adjacency = adjacency
        self.data_norm = data_norm
        self.norm_rule = norm_rule
        self.fit_intercept = fit_intercept
        self.classes = classes
        self.feature_bounds = feature_bounds
        self.preprocessing_share = preprocessing_share
        self.n_jobs = n_jobs
        self.random_state = random_state

    @abstractmethod
    def _release(self, n_problems: int, budget: PrivacyBudget) -> tuple[int, float, float, str, str]:
        """How many vectors are released, how many problems' distances each one's sensitivity adds up (as a root), the
        noise multiplier of each, the mechanism's name, and how the budget is kept."""

    def _checked(self, sample_weight: Any) -> PrivacyBudget:
        budget = super()._checked(sample_weight)
        if self.C is not None:
            check_number("C", self.C, "[1e-100, 1e100]")
        check_number("smoothing", self.smoothing, "[0, 1e6]")
        check_number("intercept_scaling", self.intercept_scaling, "(0, 1)")
        return budget

    def _loss(self) -> MarginLoss:
        return HuberisedHingeLoss(float(self.smoothing)) if self.smoothing else HingeLoss()

    def _sensitivity(self, n_records: int, n_classes: int, budget: PrivacyBudget) -> tuple[float, float]:
        """C, and the sensitivity of each vector's exact minimiser."""
        _, root, multiplier, _, _ = self._release(n_problems_of(n_classes), budget)
        unit = (2.0 if self.adjacency == "replace_one" else 1.0) * root / n_records  # for C = 1
        C = self.C
        if C is None:
            C = float(n_records) if budget.is_infinite else min(float(n_records), 1.0 / (n_classes * multiplier * unit))
        return float(C), float(C) * unit

    def _refuse_numbers(self, n_records: int, n_columns: int, n_classes: int, budget: PrivacyBudget) -> None:
        C, exact = self._sensitivity(n_records, n_classes, budget)
        risk = risk_of_size(n_records, n_columns, n_classes, self._loss(), 1.0 / C)
        refuse_uncertifiable(risk, RELATIVE_TOLERANCE * exact)

    def _fit_rows(
        self, rows: FloatArray, labels: IntArray, n_classes: int, budget: PrivacyBudget, bits: BitSource
    ) -> Fit:
        factors = column_factors(rows.shape[1], self.data_norm, bool(self.fit_intercept), float(self.intercept_scaling))
        signs, loss, replaced = signs_of(labels, n_classes), self._loss(), self.adjacency == "replace_one"
        n_releases, _, multiplier, mechanism, how = self._release(signs.shape[1], budget)
        C, exact = self._sensitivity(len(rows), n_classes, budget)
        tolerance = RELATIVE_TOLERANCE * exact
        risk = MarginRisk(rows * factors, signs, loss, regularization=1.0 / C)
        weights = risk.weights(certified_minimum(risk, tolerance).theta)
        events = []
        if not budget.is_infinite:
            parts = np.split(weights, n_releases)
            lattice = lattice_for(parts[0].size, exact + 2.0 * tolerance, multiplier)
            weights = np.concatenate([lattice.add_gaussian(part, multiplier, bits) for part in parts])
            events.append(GaussianEvent(noise_multiplier=multiplier, count=n_releases))
        sensitivity = f"{'2 ' if replaced else ''}{'sqrt(k) ' if n_releases == 1 else ''}C / n"
        return Fit(
            weights=weights * factors,
            mechanism=f"{mechanism}, {signs.shape[1]} problems, weight perturbation, {loss.name} loss",
            proof=(
                f"minimisers of 1-strongly convex objectives move by at most {sensitivity}, plus twice the solver's "
                f"certified tolerance; {how}"
            ),
            events=events,
            attributes={"C_": C, "noise_multiplier_": multiplier},
        )


_ONE_VS_REST = """
    Parameters
    ----------
    epsilon : float, default=1.0
    delta : float, default=1e-5
        Above 0.
    C : float or None, default=None
        Of 1/2 |w|^2 + (C / n) sum_i hinge(y_i <w, x_i>), above 0. None: such that the noise has the standard deviation
        1 / c, but at most n.
    smoothing : float, default=0.25
        Half width of the parabola that replaces the hinge's kink; 0 is the hinge itself, which takes longer.
    intercept_scaling : float, default=0.1
        The constant that stands for the intercept, beside features of norm at most 1; in (0, 1).
    adjacency, data_norm, norm_rule, fit_intercept, classes, feature_bounds, preprocessing_share, n_jobs, random_state
        See `PrivateClassifier`. `data_norm` is needed.

    Attributes
    ----------
    C_ : float
        That was used.
    noise_multiplier_ : float
        Standard deviation of the noise over the sensitivity of each vector that is released.
"""


class PrivateSVMClassifier(_OneVsRest):
    __doc__ = f"""One-versus-rest SVMs with the textbook's Gaussian noise, each class at (epsilon / k, delta / k).
{_ONE_VS_REST}
    Notes
    -----
    k is the number of problems: one a class, but 1 for two classes. A record has a part in all of them, so their
    guarantees add up (basic composition), delta included. Each minimiser moves by at most 2 C / n when a record is
    replaced (see `weight_sensitivity`; the hinge's Lipschitz constant is 1), or C / n when one is added or removed. The
    noise is sqrt(2 log(1.25 k / delta)) k / epsilon sensitivities, which is proven for epsilon / k below 1; where that
    would be less than what (epsilon / k, delta / k) takes exactly, as it may be beyond, it is the exact amount.

    This is the baseline of the PMSVM paper's comparison, with the norm of the rows enforced and delta shared out.
    The PrivateSVM of Rubinstein et al. (2012) has Laplace noise instead.

    References
    ----------
    Rubinstein, Bartlett, Huang, Taft (2012); Dwork, Roth (2014), theorems A.1 and 3.16.
    """

    def _release(self, n_problems: int, budget: PrivacyBudget) -> tuple[int, float, float, str, str]:
        how = "each at (epsilon / k, delta / k) by the classic Gaussian formula, never less than the analytic one"
        if budget.is_infinite:
            return n_problems, 1.0, 0.0, "PrivateSVM, one versus rest", how
        each = budget.share(1.0 / n_problems)
        multiplier = max(classic_gaussian_multiplier(each.epsilon, each.delta), 1.0 / each.mu)
        return n_problems, 1.0, multiplier, "PrivateSVM, one versus rest", f"{how}; basic composition"


class OPERAClassifier(_OneVsRest):
    __doc__ = f"""One-versus-rest SVMs with analytic Gaussian noise, each class at (epsilon / k, delta / k).
{_ONE_VS_REST}
    Notes
    -----
    As `PrivateSVMClassifier`, with the least Gaussian noise that has (epsilon / k, delta / k), whatever epsilon is.

    References
    ----------
    Balle, Wang (ICML 2018), theorem 8; the name is that of the PMSVM paper's baseline.
    """

    def _release(self, n_problems: int, budget: PrivacyBudget) -> tuple[int, float, float, str, str]:
        how = (
            "each at (epsilon / k, delta / k) by the analytic Gaussian (Balle, Wang 2018, theorem 8); basic composition"
        )
        multiplier = 0.0 if budget.is_infinite else 1.0 / budget.share(1.0 / n_problems).mu
        return n_problems, 1.0, multiplier, "OPERA, one versus rest", how


class OneVsRestPrivateSVM(_OneVsRest):
    __doc__ = f"""One-versus-rest SVMs whose weights are released together: one budget, noise grown by sqrt(k) only.
{_ONE_VS_REST}
    Notes
    -----
    The weights of all k problems are the minimiser of the sum of their objectives, which is 1-strongly convex in all
    weights together; a record's losses have a gradient of norm at most sqrt(k) C / n there. So the weights move by at
    most 2 sqrt(k) C / n when a record is replaced, by half of that when one is added or removed, and get analytic
    Gaussian noise for the whole budget. This is the honest rival of PMSVM by weights, whose bound is 2 sqrt(2) C / n.

    References
    ----------
    Balle, Wang (ICML 2018), theorem 8.
    """

    def _release(self, n_problems: int, budget: PrivacyBudget) -> tuple[int, float, float, str, str]:
        how = "jointly, by the analytic Gaussian (Balle, Wang 2018, theorem 8)"
        multiplier = 0.0 if budget.is_infinite else 1.0 / budget.mu
        return 1, math.sqrt(n_problems), multiplier, "one versus rest, joint", how


class PrivateLinearClassifier(PrivateClassifier):
    """Multinomial logistic regression by noisy, clipped gradients: DP-GD or DP-Adam with cross-entropy.

    Parameters
    ----------
    epsilon : float, default=1.0
    delta : float, default=1e-5
        Above 0.
    optimizer : {"adam", "gradient"}, default="adam"
    n_steps : int, default=100
    learning_rate : float or None, default=None
        Above 0. None: `GradientSettings.default_rate`.
    ridge : float, default=0.0
        mu of mu |W|^2; at least 0.
    clip_norm : float, default=1.0
        To which each record's gradient is shortened; above 0.
    sampling_probability : float, default=1.0
        Below 1, each step sees a Poisson sample of the records. In (0, 1].
    averaging : float, default=0.5
        The part of the steps, the last ones, whose iterates are averaged. In [0, 1].
    intercept_scaling : float, default=0.1
        The constant that stands for the intercept, beside features of a norm of about 1; in (0, 1).
    adjacency, data_norm, norm_rule, fit_intercept, classes, feature_bounds, preprocessing_share, n_jobs, random_state
        See `PrivateClassifier`. `data_norm` may be None: clipping bounds what a record can do.

    Attributes
    ----------
    noise_multiplier_ : float
        Standard deviation of each step's noise over its sensitivity.
    n_steps_, learning_rate_ : int and float

    Notes
    -----
    The guarantee is that of `PMSVMClassifier` by gradients; only the loss differs.

    References
    ----------
    Abadi et al. (2016), algorithm 1; Kingma, Ba (2015).
    """

    _delta_needed = "its noise is Gaussian"

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        optimizer: Literal["adam", "gradient"] = "adam",
        n_steps: int = 100,
        learning_rate: float | None = None,
        ridge: float = 0.0,
        clip_norm: float = 1.0,
        sampling_probability: float = 1.0,
        averaging: float = 0.5,
        intercept_scaling: float = 0.1,
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
        self.optimizer = optimizer
        self.n_steps = n_steps
        self.learning_rate = learning_rate
        self.ridge = ridge
        self.clip_norm = clip_norm
        self.sampling_probability = sampling_probability
        self.averaging = averaging
        self.intercept_scaling = intercept_scaling
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
        if self.optimizer not in ("adam", "gradient"):
            raise ValueError(f"optimizer must be 'adam' or 'gradient', got optimizer={self.optimizer!r}")
        check_number("intercept_scaling", self.intercept_scaling, "(0, 1)")
        self._settings()
        return budget

    def _settings(self) -> GradientSettings:
        return GradientSettings(
            adaptive=self.optimizer == "adam",
            n_steps=self.n_steps,
            learning_rate=self.learning_rate,
            clip_norm=self.clip_norm,
            sampling_probability=self.sampling_probability,
            averaging=self.averaging,
            ridge=self.ridge,
        )

    def _refuse_numbers(self, n_records: int, n_columns: int, n_classes: int, budget: PrivacyBudget) -> None:
        step_noise(self._settings(), budget, self.adjacency)

    def _fit_rows(
        self, rows: FloatArray, labels: IntArray, n_classes: int, budget: PrivacyBudget, bits: BitSource
    ) -> Fit:
        intercept, loss = bool(self.fit_intercept), CrossEntropy()
        factors = column_factors(rows.shape[1], self.data_norm, intercept, float(self.intercept_scaling))
        n_features = rows.shape[1] - intercept
        fit = fit_by_gradients(
            rows * factors, labels, n_classes, n_features, loss, self._settings(), budget, self.adjacency, bits
        )
        weights = fit.weights * factors
        return Fit(
            weights=weights[1:] - weights[:1] if n_classes == 2 else weights,
            mechanism=f"linear classifier, noisy {self.optimizer} steps, {loss.name} loss",
            proof=fit.noise.proof,
            events=fit.noise.events,
            sampled=fit.noise.sampled,
            attributes=fit.attributes,
        )
