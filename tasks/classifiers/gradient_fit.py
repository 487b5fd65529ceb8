"""A private fit by noisy gradients: what each step's noise must be for a budget, and how fast to go."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.events import Event, GaussianEvent
from schemas.learning import Adjacency
from tasks.classifiers.budget import PrivacyBudget
from tasks.classifiers.fit import PoissonSampledGaussian
from tasks.classifiers.gradient_perturbation import GradientDescent, Regularizer, noisy_gradient_descent
from tasks.classifiers.lattice import SLACK
from tasks.classifiers.multiclass_losses import MulticlassLoss
from tasks.classifiers.number_checks import check_count, check_number
from tasks.classifiers.subsampling import poisson_noise_multiplier
from tasks.noise.bits import BitSource

__all__ = ["GradientFit", "GradientSettings", "StepNoise", "fit_by_gradients", "step_noise"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_LARGEST_RATE = 20.0


@dataclass(frozen=True)
class GradientSettings:
    """Parameters of a fit by noisy gradients, as estimators take them.

    Parameters
    ----------
    adaptive : bool
        Adam's steps.
    n_steps : int
        T.
    learning_rate : float or None
        None: by the rule of `default_rate`.
    clip_norm : float
        R.
    sampling_probability : float
        q.
    averaging : float
        In [0, 1].
    ridge, pairwise, pairwise_power : float
        Of the regulariser.

    Raises
    ------
    ValueError
        If one is outside its range.
    """

    adaptive: bool
    n_steps: int
    learning_rate: float | None
    clip_norm: float
    sampling_probability: float
    averaging: float
    ridge: float = 0.0
    pairwise: float = 0.0
    pairwise_power: float = 2.0

    def __post_init__(self) -> None:
        check_count("n_steps", self.n_steps)
        if self.learning_rate is not None:
            check_number("learning_rate", self.learning_rate, "(0, inf)")
        check_number("clip_norm", self.clip_norm, "[1e-100, 1e100]")
        check_number("sampling_probability", self.sampling_probability, "(0, 1]")
        check_number("averaging", self.averaging, "[0, 1]")
        check_number("ridge", self.ridge, "[0, inf)")
        check_number("pairwise", self.pairwise, "[0, inf)")
        check_number("pairwise_power", self.pairwise_power, "[1, inf)")

    def default_rate(self, n_records: int, n_classes: int, noise: StepNoise) -> float:
        """The learning rate that public numbers suggest.

        Notes
        -----
        Adam: 1.5 / sqrt T, whatever the noise is, since it divides by the gradients' size itself. Else 2 q n / (s sqrt
        T) with s the standard deviation of a step's noise, so that the noise of T steps moves the scores of a row of
        norm 1 by 2; at most 20 / R, and slow enough for the regulariser's own curvature, 2 (mu + lambda c) for power 2.
        """
        if self.adaptive:
            return 1.5 / math.sqrt(self.n_steps)
        curvature = self.ridge + self.pairwise * n_classes
        rate = min(_LARGEST_RATE / self.clip_norm, 0.5 / curvature if curvature else math.inf)
        deviation = noise.multiplier * noise.parts * self.clip_norm
        if deviation == 0.0:
            return rate
        return min(rate, 2.0 * self.sampling_probability * n_records / (deviation * math.sqrt(self.n_steps)))


@dataclass(frozen=True, eq=False)
class StepNoise:
    """The noise of each step, and what all steps together are on one record.

    Attributes
    ----------
    multiplier : float
        Standard deviation over the sensitivity of `parts` records' parts; 0 for a fit without noise.
    parts : int
        How many records' parts the sensitivity is of.
    events : tuple of Event
    sampled : PoissonSampledGaussian or None
    proof : str
    """

    multiplier: float
    parts: int
    events: tuple[Event, ...]
    sampled: PoissonSampledGaussian | None
    proof: str


def step_noise(settings: GradientSettings, budget: PrivacyBudget, adjacency: Adjacency) -> StepNoise:
    """What a budget asks of T noisy sums of gradients that are clipped to R.

    Notes
    -----
    All records in each step: the sensitivity is 2 R for replacing a record, R for adding or removing one. T Gaussian
    releases of multiplier sqrt(T) / mu each are one of multiplier 1 / mu, exactly (Dong, Roth, Su 2022, corollary 3.3),
    and mu is the largest with (epsilon, delta) (Balle, Wang 2018, theorem 8).

    Poisson samples: see `tasks.classifiers.subsampling`. The multiplier is over R under both relations; for replacing,
    the price is that of removing one record and adding another.
    """
    steps, q = int(settings.n_steps), float(settings.sampling_probability)
    replaced = adjacency == "replace_one"
    if q < 1.0:
        how = ", and replacing is removing and adding" if replaced else ""
        proof = (
            "sums of gradients clipped to R over Poisson samples; privacy losses of adding or removing a record, "
            f"convolved{how}"
        )
        if budget.is_infinite:
            return StepNoise(0.0, 1, (), None, proof)
        multiplier = poisson_noise_multiplier(q, steps, budget.epsilon, budget.delta, adjacency)
        sampled = None if replaced else PoissonSampledGaussian(q, multiplier, steps)
        return StepNoise(multiplier, 1, (budget.as_approximate(),), sampled, proof)
    parts = 2 if replaced else 1
    proof = (
        f"sums of gradients clipped to R, sensitivity {'2 R' if replaced else 'R'}; all steps compose to one Gaussian "
        "release (Dong, Roth, Su 2022, corollary 3.3; Balle, Wang 2018, theorem 8)"
    )
    if budget.is_infinite:
        return StepNoise(0.0, parts, (), None, proof)
    multiplier = SLACK * math.sqrt(steps) / budget.mu
    return StepNoise(multiplier, parts, (GaussianEvent(noise_multiplier=multiplier, count=steps),), None, proof)


@dataclass(frozen=True, eq=False)
class GradientFit:
    """Weights of shape (c, d) and what was run to get them."""

    weights: FloatArray
    noise: StepNoise
    attributes: dict[str, Any]


def fit_by_gradients(
    rows: FloatArray,
    labels: IntArray,
    n_classes: int,
    n_features: int,
    loss: MulticlassLoss,
    settings: GradientSettings,
    budget: PrivacyBudget,
    adjacency: Adjacency,
    bits: BitSource,
) -> GradientFit:
    """Fit within a budget; see `noisy_gradient_descent`.

    Parameters
    ----------
    rows : ndarray of float64, shape (n, d)
    labels : ndarray of int64, shape (n,)
    n_classes, n_features : int
        c, and the number of the rows' columns that are features and not the intercept's constant.
    loss : MulticlassLoss
    settings : GradientSettings
    budget : PrivacyBudget
    adjacency : {"replace_one", "add_remove"}
    bits : BitSource

    Returns
    -------
    GradientFit

    Raises
    ------
    ValueError
        If the learning rate was so large that the iterates overflowed; that tells nothing about the records which the
        budget has not paid for.
    """
    noise = step_noise(settings, budget, adjacency)
    rate = settings.learning_rate
    if rate is None:
        rate = settings.default_rate(len(rows), n_classes, noise)
    regularizer = Regularizer(
        ridge=float(settings.ridge),
        pairwise=float(settings.pairwise),
        power=float(settings.pairwise_power),
        n_columns=n_features,
    )
    weights = noisy_gradient_descent(
        rows,
        labels,
        n_classes,
        loss,
        regularizer,
        GradientDescent(
            n_steps=int(settings.n_steps),
            learning_rate=float(rate),
            clip_norm=float(settings.clip_norm),
            adaptive=settings.adaptive,
            averaging=float(settings.averaging),
        ),
        noise_multiplier=noise.multiplier,
        parts=noise.parts,
        sampling_probability=float(settings.sampling_probability),
        bits=bits,
    )
    if not np.isfinite(weights).all():
        raise ValueError(
            f"the weights overflowed: learning_rate={float(rate)!r} is too large for this regulariser; choose a "
            "smaller one"
        )
    attributes = {
        "n_steps_": int(settings.n_steps),
        "learning_rate_": float(rate),
        "noise_multiplier_": noise.multiplier,
    }
    return GradientFit(weights, noise, attributes)
