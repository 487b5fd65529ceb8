"""What a run of noisy gradient descent will do and cost: fixed before a record is read, from public numbers only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from schemas.events import Event
from schemas.learning import Adjacency
from tasks.classifiers.budget import PrivacyBudget
from tasks.classifiers.fit import PoissonSampledGaussian
from tasks.classifiers.lattice import SLACK, VectorLattice, lattice_for
from tasks.classifiers.risks import EmpiricalRisk
from tasks.classifiers.subsampling import poisson_noise_multiplier, single_draw_epsilon_upper_bound

__all__ = ["MOST_PAPER_RECORDS", "NoisySGDPlan", "Schedule", "paper_noise_scale", "plan_noisy_sgd"]

Schedule = Literal["practical", "paper"]

MOST_PAPER_RECORDS = 1000
"""Tables with more records are refused by the paper's schedule: 1000 are a million steps already."""

_LEAST_COUNT = 2**15  # of records for which rounding is allowed: one allowance for all smaller tables


@dataclass(frozen=True)
class NoisySGDPlan:
    """Steps, noise and price of a run.

    Attributes
    ----------
    n_records : int
        n, the number that scales are made of.
    n_steps : int
    sampling : float
        With which probability a record is in a step's Poisson sample; 1 for all records, or for single ones.
    single : bool
        Whether a step takes one record, drawn uniformly, and n times its gradient.
    lattice : VectorLattice or None
        On which sums are released; None without noise.
    noise_multiplier : float
        Over the lattice's sensitivity.
    events : sequence of Event
    sampled : PoissonSampledGaussian or None
    mechanism, proof : str
    """

    n_records: int
    n_steps: int
    sampling: float
    single: bool
    lattice: VectorLattice | None
    noise_multiplier: float
    events: tuple[Event, ...]
    sampled: PoissonSampledGaussian | None
    mechanism: str
    proof: str

    @property
    def noise_scale(self) -> float:
        """Standard deviation in a coordinate of what is released."""
        if self.lattice is None:
            return 0.0
        return self.noise_multiplier * self.lattice.steps * self.lattice.spacing

    @property
    def estimate_factor(self) -> float:
        """What a released sum is multiplied by, to estimate the sum over all records."""
        return 1.0 if self.single else 1.0 / self.sampling


def paper_noise_scale(n_records: int, lipschitz: float, epsilon: float, delta: float) -> float:
    """The standard deviation of algorithm 1: sqrt(32 L^2 n^2 log(n / delta) log(1 / delta)) / epsilon.

    Parameters
    ----------
    n_records : int
    lipschitz, epsilon, delta : float

    Returns
    -------
    float
        Of the noise on n times the gradient of one record.
    """
    logs = math.log(n_records / delta) * math.log(1.0 / delta)
    return lipschitz * n_records * math.sqrt(32.0 * logs) / epsilon


def plan_noisy_sgd(
    risk: EmpiricalRisk,
    budget: PrivacyBudget,
    adjacency: Adjacency,
    schedule: Schedule,
    n_steps: int,
    sampling_probability: float,
) -> NoisySGDPlan:
    """Plan a run; arguments and errors as for `noisy_sgd`, of which nothing but n, p and L of the risk is used."""
    if adjacency not in ("replace_one", "add_remove"):
        raise ValueError(f"adjacency must be 'replace_one' or 'add_remove', got adjacency={adjacency!r}")
    if isinstance(n_steps, bool) or not isinstance(n_steps, int | np.integer) or n_steps < 1:
        raise ValueError(f"n_steps must be a whole number of at least 1, got n_steps={n_steps!r}")
    if isinstance(sampling_probability, bool) or not 0.0 < sampling_probability <= 1.0:
        raise ValueError(f"sampling_probability must be in (0, 1], got sampling_probability={sampling_probability!r}")
    if budget.is_pure and not budget.is_infinite:
        raise ValueError("noisy gradient descent needs delta above 0, got delta=0: its noise is Gaussian")
    if schedule == "paper":
        return _paper_plan(risk, budget, adjacency, sampling_probability)
    return _practical_plan(risk, budget, adjacency, int(n_steps), float(sampling_probability))


def _practical_plan(
    risk: EmpiricalRisk, budget: PrivacyBudget, adjacency: Adjacency, n_steps: int, sampling: float
) -> NoisySGDPlan:
    n, p = risk.n_records, risk.dimension
    what = f"{n_steps} gradient steps over " + (
        "all records" if sampling == 1.0 else f"Poisson samples of the records (each with probability {sampling:g})"
    )
    if budget.is_infinite:
        return NoisySGDPlan(n, n_steps, sampling, False, None, 0.0, (), None, what + " without noise", "no guarantee")
    part = risk.lipschitz * SLACK
    rounding = _sum_rounding(n, risk.lipschitz)
    events: tuple[Event, ...]
    if sampling == 1.0:
        multiplier = math.sqrt(n_steps) / budget.mu * SLACK
        sensitivity = (2.0 if adjacency == "replace_one" else 1.0) * part + rounding
        events, sampled = (budget.as_gaussian(),), None
        proof = (
            f"{n_steps} Gaussian releases of multiplier {multiplier:.6g} are one of multiplier {1.0 / budget.mu:.6g} "
            "(Dong, Roth, Su 2022, corollary 3.3), priced exactly (Balle, Wang 2018, theorem 8)"
        )
    else:
        multiplier = poisson_noise_multiplier(sampling, n_steps, budget.epsilon, budget.delta, adjacency)
        sensitivity = part + rounding
        events = (budget.as_approximate(),)
        sampled = PoissonSampledGaussian(sampling, multiplier, n_steps) if adjacency == "add_remove" else None
        proof = f"Poisson-sampled Gaussian releases of multiplier {multiplier:.6g}, composed by privacy losses " + (
            "(dp_accounting)"
            if adjacency == "add_remove"
            else "(dp_accounting) for adding or removing a record at (epsilon / 2, delta / (1 + exp(epsilon / 2))); "
            "replacing one is removing one and adding another"
        )
    return NoisySGDPlan(
        n_records=n,
        n_steps=n_steps,
        sampling=sampling,
        single=False,
        lattice=lattice_for(p, sensitivity, multiplier),
        noise_multiplier=multiplier,
        events=events,
        sampled=sampled,
        mechanism=f"noisy gradient descent: {what}, Gaussian noise on each sum of gradients",
        proof=proof,
    )


def _paper_plan(risk: EmpiricalRisk, budget: PrivacyBudget, adjacency: Adjacency, sampling: float) -> NoisySGDPlan:
    n, p = risk.n_records, risk.dimension
    steps = n * n - 1
    if adjacency != "replace_one":
        raise ValueError(
            "schedule='paper' is for adjacency='replace_one': the number of records fixes its steps and its noise, so "
            f"it must be public; got adjacency={adjacency!r}"
        )
    if sampling != 1.0:
        raise ValueError(
            "schedule='paper' draws one record a step and takes no sampling_probability, got "
            f"sampling_probability={sampling!r}"
        )
    if not 2 <= n <= MOST_PAPER_RECORDS:
        raise ValueError(
            f"schedule='paper' is for 2 to {MOST_PAPER_RECORDS} records: {n} would take {n * n - 1} steps of one "
            "record each; schedule='practical' has the same guarantee with less noise"
        )
    what = f"algorithm 1 as published: {steps} steps, each with {n} times the gradient of one record drawn uniformly"
    if budget.is_infinite:
        return NoisySGDPlan(n, steps, 1.0, True, None, 0.0, (), None, what + ", without noise", "no guarantee")
    sensitivity = 2.0 * n * risk.lipschitz * SLACK
    multiplier = paper_noise_scale(n, risk.lipschitz, budget.epsilon, budget.delta) / sensitivity * SLACK
    real = single_draw_epsilon_upper_bound(n, multiplier, steps, budget.delta)
    if not real <= budget.epsilon:
        raise ValueError(
            f"schedule='paper' cannot prove epsilon={budget.epsilon:g} here: with the paper's variance the "
            f"accountant's bound is {real:.4g}; take schedule='practical'"
        )
    return NoisySGDPlan(
        n_records=n,
        n_steps=steps,
        sampling=1.0,
        single=True,
        lattice=lattice_for(p, sensitivity, multiplier),
        noise_multiplier=multiplier,
        events=(budget.as_approximate(),),
        sampled=None,
        mechanism=f"noisy stochastic gradient descent, {what}, and Gaussian noise of the paper's variance",
        proof=(
            "Renyi divergences of a Gaussian release of one record out of n (Wang, Balle, Kasiviswanathan 2019, "
            f"theorem 9), added up over the steps: epsilon is at most {real:.4g}, the target {budget.epsilon:g}"
        ),
    )


def _sum_rounding(n_records: int, lipschitz: float) -> float:
    """By how much rounding may lengthen the distance of two sums: 2 n (n + 8) 2^-53 L, n rounded up."""
    count = float(max(_LEAST_COUNT, 2 ** (n_records - 1).bit_length()))
    return 2.0 * count * (count + 8.0) * 2.0**-53 * lipschitz
