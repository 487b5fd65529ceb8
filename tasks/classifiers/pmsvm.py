"""PMSVM: one multi-class support vector machine for all classes at once, made private in one of three ways."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from schemas.events import Event, GaussianEvent
from schemas.learning import Adjacency
from tasks.classifiers.base import PrivateClassifier
from tasks.classifiers.budget import PrivacyBudget
from tasks.classifiers.fit import Fit
from tasks.classifiers.gradient_fit import GradientSettings, fit_by_gradients, step_noise
from tasks.classifiers.multiclass_losses import LossName, MulticlassLoss, multiclass_loss
from tasks.classifiers.number_checks import check_number
from tasks.classifiers.row_map import NormRule
from tasks.classifiers.row_scaling import column_factors
from tasks.classifiers.weight_perturbation import fit_by_weights, refuse_uncertifiable_weights
from tasks.classifiers.whitening import private_whitening, refuse_unwhitenable, whitened
from tasks.noise.bits import BitSource

__all__ = ["PMSVMClassifier"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Method = Literal["weight", "gradient", "adaptive"]


class PMSVMClassifier(PrivateClassifier):
    """Private multi-class support vector machine: one problem for all classes, so one budget for all classes.

    Parameters
    ----------
    epsilon : float, default=1.0
    delta : float, default=1e-5
        Above 0.
    method : {"adaptive", "gradient", "weight"}, default="adaptive"
        What gets the noise:

        - "weight" (PMSVM-WP): the minimiser of 1/2 |W|^2 + (C / n) sum_i loss_i.
        - "gradient" (PMSVM-GP): the sums of clipped gradients of `n_steps` gradient steps.
        - "adaptive" (PMSVM-AGP): the same sums, used for Adam's steps.
    loss : {"auto", "all-pairs", "crammer-singer", "cross-entropy"}, default="auto"
        "auto" is "crammer-singer" for "weight" and "all-pairs" else, as in the paper.
    C : float or None, default=None
        For "weight", above 0. None: a public rule, see Notes.
    n_steps : int, default=100
        T, for the gradient methods.
    learning_rate : float or None, default=None
        Above 0. None: a public rule, see Notes.
    pairwise : float, default=1e-5
        lambda of the regulariser lambda sum over k < l of |w_k - w_l|^power, for the gradient methods. At least 0.
    pairwise_power : float, default=2.0
        At least 1.
    ridge : float, default=0.0
        mu of the regulariser mu |W|^2, for the gradient methods. At least 0.
    smoothing : float, default=0.5
        Of both hinges; in [1e-6, 1e6].
    clip_norm : float, default=1.0
        R: to which each record's gradient is shortened; in [1e-100, 1e100].
    sampling_probability : float, default=1.0
        q: below 1, each step sees a Poisson sample of the records, for the gradient methods. In (0, 1].
    averaging : float, default=0.5
        The part of the steps, the last ones, whose iterates are averaged; 0 takes the last iterate. In [0, 1].
    intercept_scaling : float, default=0.1
        The constant that stands for the intercept, beside features of a norm of about 1; in (0, 1). A large one takes
        room in the norm, a small one makes the intercept slow to learn.
    whitening_share : float, default=0.0
        0, or in [0.001, 0.999]: the part of the budget, after preprocessing, that buys a noisy second moment of the
        rows' directions, by which rows are whitened (`private_whitening`), for the gradient methods. Worth a try where
        features are few, much correlated and standardised; see Notes.
    adjacency, data_norm, norm_rule, fit_intercept, classes, feature_bounds, preprocessing_share, n_jobs, random_state
        See `PrivateClassifier`. `data_norm` may be None for the gradient methods, whose clipping bounds what a record
        can do; the default learning rates then expect features of a size of about 1.

    Attributes
    ----------
    noise_multiplier_ : float
        Standard deviation of the noise over the sensitivity of what is released, once ("weight") or in each step.
    C_ : float
        That was used by "weight".
    n_steps_, learning_rate_ : int and float
        That were used by the gradient methods.

    Notes
    -----
    Guarantee of "weight". Rows have norms of at most 1, the constant for the intercept included, and the intercept is
    regularised like a weight. The objective is 1-strongly convex and neighbouring ones differ by one record's loss for
    another's, of Lipschitz constants L C / n, so the minimisers are at most 2 L C / n apart: L = sqrt 2 for the
    Crammer-Singer hinge and for cross-entropy, sqrt(c (c - 1)) for the all-pairs hinge (`weight_sensitivity`). Twice a
    public tolerance, a thousandth of it, is added for the solver, which is certified to reach it. Under "add_remove" it
    is half of that, n being public. The noise is Gaussian, calibrated exactly (Balle, Wang 2018), on a lattice.

    Guarantee of "gradient" and "adaptive". A step releases the sum of the records' gradients, each shortened to
    the norm R, with Gaussian noise. The sum's sensitivity is 2 R ("replace_one") or R ("add_remove"), whatever
    the rows are. With q = 1 the T steps are one Gaussian release of sensitivity sqrt(T) times as large (Dong, Roth, Su
    2022), exactly. With q < 1 the noise comes from convolving privacy losses; "replace_one" then is removing and
    adding. Regularisers, Adam, averages and the rest are post-processing.

    Guarantee of whitening. The map is released by `private_whitening`, and the gradients are those of the rows x W: the
    sums' sensitivities hold whatever the rows are, so for each W that may come out. With q = 1 both are Gaussian, and
    the squares of their mu add up; with q < 1 epsilons and deltas do. The map is folded into `coef_`, so `row_map_` is
    the same as without.

    When to whiten. It is for rows that vary mostly in a few directions while classes differ in the others. No public
    number tells that: among tables of 5 to 40 features it gained up to 0.06 of accuracy and lost up to 0.05, and its
    share of the budget is lost wherever n epsilon is not well above d^1.5. So it is off unless asked for, by what is
    known of the features or by what fabricated rows show.

    Rules, from public numbers alone. C is such that the noise has the standard deviation 1 / c, but at most n; for
    learning rates see `GradientSettings.default_rate`. They are for rows that have been multiplied by public factors
    (`column_factors`) to features of norm at most about 1 beside a constant of `intercept_scaling`. C, learning rates,
    regularisers and clipping are all about these rows; `coef_` is about those of `row_map_`.

    References
    ----------
    Park, Choi, Lee, "PMSVM" (NeurIPS 2025, arXiv 2510.04027), weight, gradient and adaptive gradient perturbation;
    Crammer, Singer (2001); Hao, Nie, Wang (AAAI 2024), the all-pairs loss and pairwise regulariser; Abadi et al.
    (2016).
    """

    _delta_needed = "its noise is Gaussian"

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        method: Method = "adaptive",
        loss: LossName | Literal["auto"] = "auto",
        C: float | None = None,
        n_steps: int = 100,
        learning_rate: float | None = None,
        pairwise: float = 1e-5,
        pairwise_power: float = 2.0,
        ridge: float = 0.0,
        smoothing: float = 0.5,
        clip_norm: float = 1.0,
        sampling_probability: float = 1.0,
        averaging: float = 0.5,
        intercept_scaling: float = 0.1,
        whitening_share: float = 0.0,
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
        self.method = method
        self.loss = loss
        self.C = C
        self.n_steps = n_steps
        self.learning_rate = learning_rate
        self.pairwise = pairwise
        self.pairwise_power = pairwise_power
        self.ridge = ridge
        self.smoothing = smoothing
        self.clip_norm = clip_norm
        self.sampling_probability = sampling_probability
        self.averaging = averaging
        self.intercept_scaling = intercept_scaling
        self.whitening_share = whitening_share
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
        if self.method not in ("weight", "gradient", "adaptive"):
            raise ValueError(f"method must be 'weight', 'gradient' or 'adaptive', got method={self.method!r}")
        budget = super()._checked(sample_weight)
        if self.method == "weight" and self.data_norm is None:
            raise ValueError("method='weight' needs a data_norm, got None: its sensitivity grows with the rows' norms")
        if self.method == "weight" and self.sampling_probability != 1.0:
            raise ValueError(
                "sampling_probability must be 1.0 for method='weight', which looks at all records, got "
                f"sampling_probability={self.sampling_probability!r}"
            )
        if self.C is not None:
            check_number("C", self.C, "[1e-100, 1e100]")
        check_number("smoothing", self.smoothing, "[1e-6, 1e6]")
        check_number("intercept_scaling", self.intercept_scaling, "(0, 1)")
        share = check_number("whitening_share", self.whitening_share, "[0, 1)")
        if share and not 1e-3 <= share <= 0.999:
            raise ValueError(f"whitening_share must be 0, or in [0.001, 0.999], got whitening_share={share!r}")
        if share and self.method == "weight":
            raise ValueError("whitening_share must be 0 for method='weight': whitened rows have norms above 1")
        self._settings()
        self._loss()
        return budget

    def _loss(self) -> MulticlassLoss:
        default = "crammer-singer" if self.method == "weight" else "all-pairs"
        return multiclass_loss(default if self.loss == "auto" else self.loss, float(self.smoothing))

    def _settings(self) -> GradientSettings:
        return GradientSettings(
            adaptive=self.method == "adaptive",
            n_steps=self.n_steps,
            learning_rate=self.learning_rate,
            clip_norm=self.clip_norm,
            sampling_probability=self.sampling_probability,
            averaging=self.averaging,
            ridge=self.ridge,
            pairwise=self.pairwise,
            pairwise_power=self.pairwise_power,
        )

    def _parted(self, budget: PrivacyBudget) -> tuple[float, PrivacyBudget]:
        """mu of the whitening map, and the steps' budget; all of it where no map is asked for."""
        share = float(self.whitening_share)
        if not share or budget.is_infinite:
            return math.inf, budget
        if self._gaussian:
            return math.sqrt(share) * budget.mu, PrivacyBudget.of_mu(math.sqrt(1.0 - share) * budget.mu, budget.delta)
        return budget.share(share).mu, budget.share(1.0 - share)

    def _refuse_numbers(self, n_records: int, n_columns: int, n_classes: int, budget: PrivacyBudget) -> None:
        if self.method == "weight":
            loss, C = self._loss(), None if self.C is None else float(self.C)
            refuse_uncertifiable_weights(n_records, n_columns, n_classes, loss, C, budget, self.adjacency)
            return
        if self.whitening_share:
            refuse_unwhitenable(n_records)
        step_noise(self._settings(), self._parted(budget)[1], self.adjacency)

    def _fit_rows(
        self, rows: FloatArray, labels: IntArray, n_classes: int, budget: PrivacyBudget, bits: BitSource
    ) -> Fit:
        intercept, loss = bool(self.fit_intercept), self._loss()
        factors = column_factors(rows.shape[1], self.data_norm, intercept, float(self.intercept_scaling))
        scaled = rows * factors
        if self.method == "weight":
            fit = fit_by_weights(scaled, labels, n_classes, loss, self.C, budget, self.adjacency, bits)
            name, weights, events, sampled, proof = "weight", fit.weights, fit.events, None, fit.proof
            attributes = {"C_": fit.C, "noise_multiplier_": fit.noise_multiplier}
        else:
            n_features = rows.shape[1] - intercept
            mu, own = self._parted(budget)
            spent: tuple[Event, ...] = () if math.isinf(mu) else (GaussianEvent(noise_multiplier=1.0 / mu),)
            whitening = None
            if self.whitening_share:
                whitening = private_whitening(scaled[:, :n_features], mu, self.adjacency, bits)
                scaled[:, :n_features] = whitened(scaled[:, :n_features], whitening)
            found = fit_by_gradients(
                scaled, labels, n_classes, n_features, loss, self._settings(), own, self.adjacency, bits
            )
            name = "gradient" if self.method == "gradient" else "adaptive gradient"
            weights, sampled, attributes = found.weights, found.noise.sampled, found.attributes
            events, proof = (*spent, *found.noise.events), found.noise.proof
            if whitening is not None:
                weights = np.hstack([weights[:, :n_features] @ whitening.T, weights[:, n_features:]])
                name, proof = f"whitened rows, {name}", f"{proof}; composed with the second moment of directions"
        weights = weights * factors
        return Fit(
            weights=weights[1:] - weights[:1] if n_classes == 2 else weights,
            mechanism=f"PMSVM, {name} perturbation, {loss.name} loss",
            proof=proof,
            events=events,
            sampled=sampled,
            attributes=attributes,
        )
