"""Noisy gradient descent: algorithm 1 of Bassily, Smith, Thakurta (2014), as published and as one would run it today.

Each step takes the gradient of the losses of all records, or of a random sample of them, adds Gaussian noise, moves
against it and projects on the set. What a record adds to a sum is bounded by the risk's Lipschitz constant; the
regulariser, in which no record has a part, comes in after the noise.

`paper` runs n^2 - 1 steps of one record each with the paper's variance. It is a reference: the accountants show
several times more noise than the guarantee needs, and its cost keeps it to small tables. `practical` runs a public
number of steps over all records (or Poisson samples of them) with the least noise that the budget asks for. T steps
over all records are together *one* Gaussian release (Dong, Roth, Su 2022, corollary 3.3), so their number costs no
privacy beyond the factor sqrt(T) in each step's noise, which is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from schemas.events import Event
from schemas.learning import Adjacency
from tasks.classifiers.budget import PrivacyBudget
from tasks.classifiers.clipped_risk import ClippedMarginRisk
from tasks.classifiers.convex_sets import ConvexSet
from tasks.classifiers.exact_losses import on_exact_rows
from tasks.classifiers.exact_rows import query_grid as query_grid_of
from tasks.classifiers.fit import PoissonSampledGaussian
from tasks.classifiers.noisy_sgd_plan import Schedule, plan_noisy_sgd
from tasks.classifiers.parameter_norms import norm_bounds, refuse_beyond_parameter_norm
from tasks.classifiers.risks import EmpiricalRisk, MarginRisk
from tasks.classifiers.step_sizes import StepRule, step_sizes
from tasks.noise.bits import BitSource, draw_below, draw_words

__all__ = [
    "Averaging",
    "NoisySGDOutcome",
    "Schedule",
    "StepRule",
    "noisy_sgd",
    "poisson_sample",
]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Averaging = Literal["tail", "last"]
Observer = Callable[[int, FloatArray, FloatArray], None]

_NOISE_BLOCK = 2**20  # values of noise that are drawn at a time


@dataclass(frozen=True, eq=False)
class NoisySGDOutcome:
    """What a run released, and what it cost.

    Attributes
    ----------
    theta : ndarray of float64, shape (p,)
        In the set.
    n_steps : int
    noise_scale : float
        Standard deviation of the noise in each coordinate of a step's *sum* of gradients; 0 without noise.
    noise_multiplier : float
        The same over the norm that one record (under "replace_one" with all records: a pair of them) can move the sum.
    events : sequence of Event
        One event for the whole run; none without noise.
    sampled : PoissonSampledGaussian or None
        The finer event of Poisson samples under "add_remove".
    mechanism, proof : str
    """

    theta: FloatArray
    n_steps: int
    noise_scale: float
    noise_multiplier: float
    events: tuple[Event, ...]
    sampled: PoissonSampledGaussian | None
    mechanism: str
    proof: str


def noisy_sgd(
    risk: EmpiricalRisk,
    convex_set: ConvexSet,
    budget: PrivacyBudget,
    *,
    adjacency: Adjacency,
    bits: BitSource,
    schedule: Schedule = "practical",
    n_steps: int = 100,
    sampling_probability: float = 1.0,
    step_size: float | StepRule | None = None,
    averaging: Averaging = "tail",
    query_grid: float | None = None,
    observer: Observer | None = None,
) -> NoisySGDOutcome:
    """Minimise a risk over a convex set by noisy gradient steps.

    Parameters
    ----------
    risk : EmpiricalRisk
        Of n records, over R^p, whose `lipschitz` bounds each record's gradient wherever it may be asked for.
    convex_set : ConvexSet
        In R^p; the first iterate is its centre.
    budget : PrivacyBudget
        With delta above 0, or infinite.
    adjacency : {"replace_one", "add_remove"}
    bits : BitSource
    schedule : {"practical", "paper"}, default="practical"
    n_steps : int, default=100
        T. The paper's schedule has n^2 - 1 steps instead.
    sampling_probability : float, default=1.0
        q in (0, 1]. Below 1, each step takes each record with this probability, by itself; not for the paper's
        schedule.
    step_size : float, {"lipschitz", "strongly-convex", "smooth"} or None, default=None
        A number multiplies the gradient of the *mean* loss in every step. Rules multiply the gradient of the sum, with
        G^2 = E|g|^2 of a step's estimate of it (see Notes):

        - "lipschitz": ||C|| / (sqrt(t) G).
        - "strongly-convex": 1 / (n Delta t).
        - "smooth": the constant min(1 / (n (beta + Delta)), ||C|| / (sqrt(T) N)), with N^2 = p sigma^2 the squared
          norm of the noise in the estimate. Needs a smooth loss.

        None: "strongly-convex" where Delta is above 0, else "lipschitz".
    averaging : {"tail", "last"}, default="tail"
        Give the mean of the second half of the iterates, or the last one; the paper's schedule gives the last.
    query_grid : float, default=None
        A power of two. Gradients are taken at the iterate with each coordinate rounded towards 0 to a multiple of this,
        and at rows of margins on a grid as well, so that a record's margin is formed without rounding and does not
        depend on the place of its row in a matrix. None: for risks of margins `exact_rows.query_grid` of the largest
        norm in the set, for others no grid; a coarser one may be given, a finer one is refused.
    observer : callable, default=None
        Called after each step with its number from 1, the new iterate and the released sum of gradients: both are
        covered by the guarantee.

    Returns
    -------
    NoisySGDOutcome

    Raises
    ------
    ValueError
        If an argument is outside its range, or the set goes beyond the norm up to which the risk's Lipschitz constant
        holds; nothing was drawn then.

    Notes
    -----
    Guarantee. In each step a vector is released whose l2 sensitivity is at most

    - all records: 2 L for replacing a record and L for adding or removing one;
    - Poisson sample: L, for adding or removing one;
    - paper: 2 n L for replacing one (n times the gradient of one record; nothing is added up),

    for the first two plus 2 n (n + 8) 2^-53 L for the rounding of a sum of n gradients in doubles on both tables: any
    order of adding up products errs in a coordinate by at most (n + 8) 2^-53 times the sum of their magnitudes, and
    those sums over all coordinates have a norm of at most n L. There n is the number of records rounded up to a power
    of two, at least 2^15 (an allowance of 2^-22 L). What a record contributes depends on that record alone, see
    `query_grid`. The noise is exact on a lattice, see `VectorLattice`. Everything else (steps, projection, averaging,
    the regulariser) is post-processing and public numbers.

    T steps over all records, each with multiplier sqrt(T) / mu, are mu-Gaussian differentially private together. For
    Poisson samples and for the paper's schedule see `tasks.classifiers.subsampling`. The paper's variance is not taken
    on trust: the run is refused where the bound of its real epsilon is above the target.

    G. The estimate of the gradient of the whole sum is the released sum over q, so
    G^2 = (n (L + Delta R))^2 + (1/q - 1) n L^2 + p (sigma / q)^2, R the largest norm in the set; for the paper's
    schedule G^2 = n^2 (L + Delta R)^2 + p sigma^2. For Delta = 0 and all records that is the paper's
    n^2 L^2 + p sigma^2. Bounds of the excess risk are in `excess_risk_upper_bound`.

    Cost: T gradients of (q n) records in p coordinates.

    References
    ----------
    Bassily, Smith, Thakurta, "Private empirical risk minimization" (FOCS 2014), algorithm 1 and section 2.
    """
    _checked(risk, convex_set, schedule, step_size, averaging)
    grid = _grid_for(risk, convex_set, query_grid)
    risk = on_exact_rows(risk)
    plan = plan_noisy_sgd(risk, budget, adjacency, schedule, n_steps, sampling_probability)
    sizes = step_sizes(risk, convex_set, plan, step_size)
    tail_from = plan.n_steps // 2 if averaging == "tail" and schedule == "practical" else plan.n_steps - 1
    theta = np.array(convex_set.centre, dtype=np.float64)
    total = np.zeros_like(theta)
    law = None if plan.lattice is None else plan.lattice.gaussian_law(plan.noise_multiplier)
    block = max(1, min(plan.n_steps, _NOISE_BLOCK // risk.dimension))
    noise = np.zeros((0, risk.dimension), dtype=np.int64)
    drawn = np.zeros(0, dtype=np.int64)
    for step in range(plan.n_steps):
        place = step % block
        if place == 0:
            ahead = min(block, plan.n_steps - step)
            if law is not None:
                noise = law.sample((ahead, risk.dimension), bits=bits)
            if plan.single:
                drawn = draw_below(np.full(ahead, plan.n_records, dtype=np.int64), bits)
        at = theta if grid is None else np.trunc(theta / grid) * grid
        if plan.single:
            gradient = plan.n_records * risk.loss_gradient(at, drawn[place : place + 1])
        elif plan.sampling < 1.0:
            gradient = risk.loss_gradient(at, poisson_sample(plan.n_records, plan.sampling, bits))
        else:
            gradient = risk.loss_gradient(at)
        if plan.lattice is not None:
            gradient = (plan.lattice.snap(gradient) + noise[place]).astype(np.float64) * plan.lattice.spacing
        whole = gradient * plan.estimate_factor + risk.regularizer_gradient(theta)
        theta = convex_set.project(theta - sizes(step + 1) * whole)
        if step >= tail_from:
            total += theta
        if observer is not None:
            observer(step + 1, theta, gradient)
    # a mean of points of a convex set is in it, but for rounding
    theta = convex_set.project(total / (plan.n_steps - tail_from))
    return NoisySGDOutcome(
        theta=theta,
        n_steps=plan.n_steps,
        noise_scale=plan.noise_scale,
        noise_multiplier=plan.noise_multiplier,
        events=plan.events,
        sampled=plan.sampled,
        mechanism=plan.mechanism,
        proof=plan.proof,
    )


def _grid_for(risk: EmpiricalRisk, convex_set: ConvexSet, query_grid: float | None) -> float | None:
    """The grid that gradients are asked for on: no finer than what makes scalar products exact; None without any."""
    if query_grid is None and not isinstance(risk, MarginRisk | ClippedMarginRisk):
        return None  # distances and inner products: coordinate by coordinate
    finest = query_grid_of(norm_bounds(convex_set)[1])
    if query_grid is None:
        return finest
    if isinstance(query_grid, bool) or not finest <= query_grid < math.inf or math.frexp(query_grid)[0] != 0.5:
        raise ValueError(
            f"query_grid must be a power of two of at least {finest:.3g} for parameters of this set, got "
            f"query_grid={query_grid!r}"
        )
    return query_grid


def poisson_sample(n_records: int, probability: float, bits: BitSource) -> IntArray:
    """The records that are in a step's sample: each with this probability, independently.

    Parameters
    ----------
    n_records : int
    probability : float
        In (0, 1]; exact as a double where it is at least 2^-11, else rounded down to a multiple of 2^-64.
    bits : BitSource

    Returns
    -------
    ndarray of int64
        Indices in rising order; their number is random.
    """
    threshold = int(math.ldexp(probability, 64))
    if threshold >= 2**64:
        return np.arange(n_records)
    return np.flatnonzero(draw_words(bits, n_records) < np.uint64(threshold))


def _checked(
    risk: EmpiricalRisk, convex_set: ConvexSet, schedule: str, step_size: float | str | None, averaging: str
) -> None:
    if risk.dimension != convex_set.dimension:
        raise ValueError(f"the risk has {risk.dimension} parameters, the set {convex_set.dimension}")
    refuse_beyond_parameter_norm(risk, convex_set)
    if not 0.0 < risk.lipschitz < math.inf:
        raise ValueError(f"the risk must be Lipschitz with a finite constant above 0, got lipschitz={risk.lipschitz!r}")
    if schedule not in ("practical", "paper"):
        raise ValueError(f"schedule must be 'practical' or 'paper', got schedule={schedule!r}")
    if averaging not in ("tail", "last"):
        raise ValueError(f"averaging must be 'tail' or 'last', got averaging={averaging!r}")
    if isinstance(step_size, str):
        if step_size not in ("lipschitz", "strongly-convex", "smooth"):
            raise ValueError(
                "step_size must be a number, 'lipschitz', 'strongly-convex', 'smooth' or None, got "
                f"step_size={step_size!r}"
            )
        if step_size == "strongly-convex" and not risk.strong_convexity > 0.0:
            raise ValueError("step_size='strongly-convex' needs a regularised or strongly convex loss, its Delta is 0")
        if step_size == "smooth" and not risk.smoothness < math.inf:
            raise ValueError("step_size='smooth' needs a smooth loss, and this one has a kink; take 'lipschitz'")
    elif step_size is not None and (isinstance(step_size, bool) or not 0.0 < step_size < math.inf):
        raise ValueError(f"step_size must be above 0 and finite, got step_size={step_size!r}")
