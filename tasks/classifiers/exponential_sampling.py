"""Exponential sampling (Bassily, Smith, Thakurta 2014, algorithm 2): purely private empirical risk minimisation."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from schemas.learning import Adjacency
from tasks.classifiers.convex_sets import Ball, Box, ConvexSet
from tasks.classifiers.exact_losses import ExactLosses, on_exact_rows
from tasks.classifiers.grid_walk import grid_walk_for
from tasks.classifiers.net_sampler import LARGEST_DIMENSION, sample_from_net
from tasks.classifiers.parameter_norms import norm_bounds
from tasks.classifiers.piecewise_sampler import PIECEWISE_ERROR, is_piecewise_linear, sample_piecewise
from tasks.classifiers.range_bounds import range_bound_of, regularization_of
from tasks.classifiers.rejection_sampler import LEAST_ACCEPTANCE, acceptance_lower_bound, sample_by_rejection
from tasks.classifiers.risks import EmpiricalRisk
from tasks.classifiers.selection_law import EPSILON_SLACK, usable_epsilon
from tasks.noise.bits import BitSource

__all__ = ["ExponentialSample", "Sampler", "exponential_sample", "range_bound_of", "regularization_of"]

FloatArray = NDArray[np.float64]
Sampler = Literal["auto", "net", "piecewise", "rejection", "grid-walk"]

SAMPLERS = ("auto", "net", "piecewise", "rejection", "grid-walk")
NET_POINTS = 2**14
ERROR_SHARE = 0.1
_RELEASE_BITS = 30  # of the diameter, that a released coordinate is rounded to
_MOST_UNCERTIFIED_RUNS = 64


@dataclass(frozen=True, eq=False)
class ExponentialSample:
    """A draw from the exponential mechanism over a convex set.

    Attributes
    ----------
    theta : ndarray of float64, shape (p,)
        On a public lattice or net.
    sampler : str
        Which one drew it.
    pure : bool
        Whether the draw is purely epsilon private; False for an uncertified grid walk alone, of which *nothing* is
        claimed.
    range_bound : float
        k: the density is proportional to exp(-epsilon risk / k). `range_bound_of`, and what rounding adds to it.
    details : dict
        Numbers for whoever holds the records; some depend on them and are not covered by the guarantee.
    """

    theta: FloatArray
    sampler: str
    pure: bool
    range_bound: float
    details: dict[str, Any] = field(default_factory=dict)


def exponential_sample(
    risk: EmpiricalRisk,
    convex_set: ConvexSet,
    epsilon: float,
    *,
    adjacency: Adjacency,
    bits: BitSource,
    sampler: Sampler = "auto",
    net_points: int = NET_POINTS,
    cells_per_axis: int | None = None,
    walk_steps: int | None = None,
    error_share: float = ERROR_SHARE,
    certify: bool = True,
) -> ExponentialSample:
    """Draw theta in a convex set with density proportional to exp(-epsilon L(theta; D) / k): purely epsilon private.

    Parameters
    ----------
    risk : EmpiricalRisk
        L(.; D), with a Lipschitz constant that holds on the set.
    convex_set : ConvexSet
        A ball, a box or an intersection of balls, public or released.
    epsilon : float
        At least 2^-16 and finite.
    adjacency : {"replace_one", "add_remove"}
    bits : BitSource
    sampler : {"auto", "net", "piecewise", "rejection", "grid-walk"}, default="auto"
        - "piecewise": one parameter and piecewise linear losses (absolute distance, hinge without regulariser).
        - "net": over a finite net of the set, in up to three dimensions.
        - "rejection": strongly convex and smooth risks on balls, in any dimension.
        - "grid-walk": the paper's Markov chain, certified in one and two dimensions. Slow; for the record.
        - "auto": the first that applies of piecewise, net (p <= 2), rejection; else an error.
    net_points : int, default=16384
        Size of the net.
    cells_per_axis : int or None, default=None
        Of the grid walk; None: 128 for p = 1, else 24.
    walk_steps : int or None, default=None
        Of the grid walk; None: as many as the certificate needs. Needed for `certify=False`.
    error_share : float, default=0.1
        In (0, 1): the part of epsilon that pays for the walk's distance from its law. The walk runs at
        epsilon (1 - error_share), and each probability is certified to a factor exp(epsilon error_share / 2).
    certify : bool, default=True
        False runs the grid walk without a certificate, for experiments: the result has `pure` False, and no
        guarantee of any kind.

    Returns
    -------
    ExponentialSample

    Raises
    ------
    ValueError
        If an argument is outside its range, no sampler applies, the table is too large for rounding to be paid for, or
        the grid walk cannot be certified.

    Notes
    -----
    Guarantee. Let h(theta) = L(theta; D) - L(theta; D') for neighbouring tables and k >= sup_C h - inf_C h: it is
    `range_bound_of` plus what rounding adds. The two unnormalised densities differ by the factor exp(-epsilon h / k),
    which lies between exp(-epsilon sup h / k) and exp(-epsilon inf h / k), and so does the ratio of the normalisers.
    Hence the ratio of the densities lies in [exp(-epsilon), exp(epsilon)], and all its logarithms in one interval of
    width epsilon: a bounded range, which also gives epsilon^2 / 8 zero-concentrated privacy (Dong, Durfee, Rogers 2020;
    Cesar, Rogers 2021). The set must be bounded; |h| need not be.

    Utility. For a convex f on a convex set of dimension p, E f - min f <= p under the density proportional to exp(-f).
    So E L(theta; D) - min L <= p k / epsilon, at most 2 p L ||C|| / epsilon under "replace_one", besides a net's
    coarseness.

    Numbers. The risk that is drawn by is a sum of whole numbers, one for each record and computed from that record
    alone (`ExactLosses`; straight pieces: `sample_piecewise`). Nothing in it grows with n, and how far a record's whole
    number may be from its loss is part of k. Rows of margins are rounded towards 0 to multiples of 2^-24 first. Net and
    piecewise sampler then draw from finite nets with exact whole-number weights; a part 2^-20 of epsilon pays for
    the rounding of exponents and weights, and their guarantee holds as it stands for what the program returns. So does
    the walk's, whose certificate is computed from the very probabilities it moves with.

    The rejection sampler's *acceptance* is covered in the same way, up to a table size beyond which it refuses. Its
    *proposals* are not: they are real numbers in doubles, made by SciPy's special functions and from uniform numbers of
    52 bits, so that events of probability below 2^-52 are not met as often as they should. What it returns is
    rounded to multiples of 2^-30 of the diameter or less.

    Not covered for any budget: the *time* a rejection or a walk takes, and *whether* a walk can be certified, depend on
    the records.

    References
    ----------
    Bassily, Smith, Thakurta (2014), algorithm 2, section 3 (law and utility), section 6 (grid walk).
    McSherry, Talwar (2007).
    """
    if not certify and sampler != "grid-walk":
        raise ValueError("certify=False is for sampler='grid-walk' alone: the others need no certificate")
    sampler, k = sampler_and_range(risk, convex_set, epsilon, adjacency, sampler, error_share)
    if sampler == "piecewise":
        return ExponentialSample(sample_piecewise(risk, convex_set, k, epsilon, bits), sampler, True, k)
    losses = ExactLosses(on_exact_rows(risk), convex_set)
    details: dict[str, Any] = {}
    match sampler:
        case "net":
            theta = sample_from_net(losses, k, epsilon, bits, net_points)
        case "rejection":
            weight = regularization_of(risk)
            draw = sample_by_rejection(losses, k, epsilon, bits, regularization=weight)
            theta = _on_lattice(draw.theta, convex_set)
            bound = acceptance_lower_bound(risk, weight) if isinstance(convex_set, Ball) else None
            details = {"n_proposals": draw.n_proposals, "acceptance_lower_bound": bound}
        case _:
            return _grid_walk(losses, epsilon, k, bits, cells_per_axis, walk_steps, error_share, certify=certify)
    return ExponentialSample(theta, sampler, True, k, details)


def sampler_and_range(
    risk: EmpiricalRisk,
    convex_set: ConvexSet,
    epsilon: float,
    adjacency: Adjacency,
    sampler: Sampler = "auto",
    error_share: float = ERROR_SHARE,
) -> tuple[Sampler, float]:
    """Which sampler `exponential_sample` takes, and its range bound k, by constants alone; parameters as there.

    Raises
    ------
    ValueError
        If an argument is outside its range, no sampler applies, or the table is too large for rounding to be paid for.
    """
    if not math.isfinite(epsilon):
        raise ValueError(f"epsilon must be finite, got epsilon={epsilon!r}")
    usable = usable_epsilon(epsilon)
    if risk.dimension != convex_set.dimension:
        raise ValueError(f"the risk has {risk.dimension} parameters, the set {convex_set.dimension} dimensions")
    if sampler not in SAMPLERS:
        raise ValueError(f"sampler must be one of {', '.join(map(repr, SAMPLERS))}, got sampler={sampler!r}")
    k = range_bound_of(risk, convex_set, adjacency)
    if sampler == "auto":
        sampler = choose_sampler(risk, convex_set)
    if sampler == "piecewise":
        return sampler, k + PIECEWISE_ERROR * (4.0 if adjacency == "replace_one" else 2.0)
    losses = ExactLosses(risk, convex_set)
    k += losses.range_excess(adjacency)
    if sampler == "rejection":
        losses.refuse_unpaid_rounding(k)
    if sampler == "grid-walk":
        if isinstance(error_share, bool) or not 0.0 < error_share < 1.0:
            raise ValueError(f"error_share must be in (0, 1), got error_share={error_share!r}")
        largest = _largest_exponent(losses, usable * (1.0 - error_share) / k)
        if not largest * 2.0**-50 <= 0.25 * epsilon * EPSILON_SLACK:
            raise ValueError(
                f"the grid walk cannot pay for rounding exponents of up to {largest:.3g}: take a smaller set or epsilon"
            )
    return sampler, k


def choose_sampler(risk: EmpiricalRisk, convex_set: ConvexSet) -> Literal["piecewise", "net", "rejection"]:
    """What "auto" takes, by public numbers.

    Raises
    ------
    ValueError
        If none applies, with what to do.
    """
    if is_piecewise_linear(risk):
        return "piecewise"
    if risk.dimension <= 2:
        return "net"
    if not isinstance(convex_set, Box):
        bound = acceptance_lower_bound(risk, regularization_of(risk))
        if bound >= LEAST_ACCEPTANCE:
            return "rejection"
    raise ValueError(
        f"no exact sampler is known for this risk in {risk.dimension} dimensions: make it smooth (loss 'logistic' or "
        "'huberised-hinge') and strongly convex, with a regularization of at least smoothness / 23 for one vector of "
        f"weights, on a ball; or use up to {LARGEST_DIMENSION} parameters with sampler='net'; or take output or "
        "objective perturbation"
    )


def _largest_exponent(losses: ExactLosses, scale: float) -> float:
    """Bound of the difference of two of a walk's exponents."""
    risk, convex_set = losses.risk, losses.convex_set
    slope = scale * risk.n_records * (risk.lipschitz + regularization_of(risk) * norm_bounds(convex_set)[1])
    return slope * convex_set.diameter


def _on_lattice(theta: FloatArray, convex_set: ConvexSet) -> FloatArray:
    spacing = 2.0 ** math.floor(math.log2(convex_set.diameter * 2.0**-_RELEASE_BITS))
    return np.rint(theta / spacing) * spacing


def _grid_walk(
    losses: ExactLosses,
    epsilon: float,
    k: float,
    bits: BitSource,
    cells_per_axis: int | None,
    walk_steps: int | None,
    error_share: float,
    *,
    certify: bool,
) -> ExponentialSample:
    if walk_steps is not None and (isinstance(walk_steps, bool) or int(walk_steps) != walk_steps or walk_steps < 1):
        raise ValueError(f"walk_steps must be a whole number of at least 1, got walk_steps={walk_steps!r}")
    risk = losses.risk
    if certify and risk.dimension > 2:
        raise ValueError(
            f"the grid walk is certified in at most two dimensions, got {risk.dimension}; without a certificate it is "
            "not private"
        )
    if not certify and walk_steps is None:
        raise ValueError("certify=False needs walk_steps")
    cells = cells_per_axis if cells_per_axis is not None else (128 if risk.dimension == 1 else 24)
    scale = usable_epsilon(epsilon) * (1.0 - error_share) / k
    walk = grid_walk_for(losses, scale, cells, _largest_exponent(losses, scale))
    if not certify:
        assert walk_steps is not None
        theta = walk.sample_uncertified(walk_steps, _MOST_UNCERTIFIED_RUNS, bits)
        return ExponentialSample(theta, "grid-walk", False, k, {"steps": walk_steps, "penalty": walk.penalty})
    # 2^-39 more for the fallback
    certified = walk.certified_steps(0.5 * epsilon * error_share - 2.0**-39, walk_steps)
    details = {"steps": certified.steps, "error": certified.error, "penalty": walk.penalty}
    return ExponentialSample(walk.sample(certified, bits), "grid-walk", True, k, details)
