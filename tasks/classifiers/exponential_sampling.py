"""Exponential sampling (Bassily, Smith, Thakurta 2014, algorithm 2): purely private empirical risk minimisation."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from schemas.learning import Adjacency
from tasks.classifiers.convex_sets import Ball, BallIntersection, Box, ConvexSet
from tasks.classifiers.grid_walk import grid_walk_for
from tasks.classifiers.net_sampler import LARGEST_DIMENSION, sample_from_net
from tasks.classifiers.piecewise_sampler import is_piecewise_linear, sample_piecewise
from tasks.classifiers.rejection_sampler import LEAST_ACCEPTANCE, acceptance_lower_bound, sample_by_rejection
from tasks.classifiers.risks import EmpiricalRisk, MarginRisk
from tasks.classifiers.selection_law import usable_epsilon
from tasks.noise.bits import BitSource

__all__ = ["ExponentialSample", "Sampler", "exponential_sample", "range_bound_of"]

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
        k: the density is proportional to exp(-epsilon risk / k).
    details : dict
        Numbers for whoever holds the records; some depend on them and are not covered by the guarantee.
    """

    theta: FloatArray
    sampler: str
    pure: bool
    range_bound: float
    details: dict[str, Any] = field(default_factory=dict)


def range_bound_of(risk: EmpiricalRisk, convex_set: ConvexSet, adjacency: Adjacency) -> float:
    """How far h = L(.; D) - L(.; D') ranges over the set for neighbouring tables, at most: sup h - inf h.

    Parameters
    ----------
    risk : EmpiricalRisk
        Its constants alone are used.
    convex_set : ConvexSet
    adjacency : {"replace_one", "add_remove"}

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If adjacency is another one, or under "add_remove" for a regulariser that is not a multiple of |theta|^2.

    Notes
    -----
    One record's loss ranges over at most R = L ||C||, with the diameter ||C||. A loss phi of a margin <theta, x> with
    |x| <= 1 is convex and non-increasing: on a ball of radius r about c the margin takes an interval of length 2 r at
    most, and the fall of phi over it is largest for the leftmost one, R = phi(-|c| - r) - phi(-|c| + r). That is at
    most 2 L r, and for the logistic loss on a ball about 0 half of it, r.

    "replace_one": h is the difference of two records' losses, and the regulariser cancels: 2 R. "add_remove": h is one
    record's loss and its share of the regulariser, (lambda / 2) |theta|^2, which does *not* cancel because it is
    counted once for each record: R + (lambda / 2) (sup |theta|^2 - inf |theta|^2). No public number of records is
    needed for that.
    """
    own = _range_of_one(risk, convex_set)
    if adjacency == "replace_one":
        return 2.0 * own
    if adjacency != "add_remove":
        raise ValueError(f"adjacency must be 'replace_one' or 'add_remove', got adjacency={adjacency!r}")
    smallest, largest = _norms(convex_set)
    return own + 0.5 * regularization_of(risk) * (largest**2 - smallest**2)


def _range_of_one(risk: EmpiricalRisk, convex_set: ConvexSet) -> float:
    """Bound of sup - inf over the set of one record's loss, without the regulariser."""
    if isinstance(convex_set, BallIntersection):
        return min(_range_of_one(risk, convex_set.first), _range_of_one(risk, convex_set.second))
    general = risk.lipschitz * convex_set.diameter
    if not isinstance(risk, MarginRisk) or risk.n_problems > 1:
        return general
    radius, middle = 0.5 * convex_set.diameter, float(np.linalg.norm(convex_set.centre))
    left, right = risk.loss.value(np.array([-middle - radius, -middle + radius]))
    return min(general, float(left - right) * (1.0 + 2.0**-40))


def regularization_of(risk: EmpiricalRisk) -> float:
    """The lambda of a regulariser n (lambda / 2) |theta|^2; 0 for none.

    Raises
    ------
    ValueError
        If the regulariser has another form.
    """
    rest = np.linspace(1.0, 2.0, risk.dimension)
    gradient = risk.regularizer_gradient(rest)
    weight = float(gradient @ rest) / float(rest @ rest)
    first = np.zeros(risk.dimension)
    first[0] = 1.0
    other = risk.regularizer_gradient(first)
    if not (np.allclose(gradient, weight * rest, rtol=1e-9) and np.allclose(other, weight * first, rtol=1e-9)):
        raise ValueError("exponential sampling is for a regulariser n (lambda / 2) |theta|^2 or none")
    return weight / risk.n_records


def _norms(convex_set: ConvexSet) -> tuple[float, float]:
    """Bounds of |theta| over a set: below and above."""
    match convex_set:
        case Ball():
            middle = float(np.linalg.norm(convex_set.centre))
            return max(0.0, middle - convex_set.radius), middle + convex_set.radius
        case Box():
            nearest = convex_set.project(np.zeros(convex_set.dimension))
            farthest = np.maximum(np.abs(convex_set.lower), np.abs(convex_set.upper))
            return float(np.linalg.norm(nearest)), float(np.linalg.norm(farthest))
        case BallIntersection():
            first, second = _norms(convex_set.first), _norms(convex_set.second)
            return max(first[0], second[0]), min(first[1], second[1])
    raise ValueError(f"the set must be a Ball, Box or BallIntersection, got {type(convex_set).__name__}")


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
        If an argument is outside its range, no sampler applies, or the grid walk cannot be certified.

    Notes
    -----
    Guarantee. Let h(theta) = L(theta; D) - L(theta; D') for neighbouring tables and k >= sup_C h - inf_C h
    (`range_bound_of`). The two unnormalised densities differ by the factor exp(-epsilon h / k), which lies between
    exp(-epsilon sup h / k) and exp(-epsilon inf h / k), and so does the ratio of the normalisers. Hence the ratio of
    the densities lies in [exp(-epsilon), exp(epsilon)], and all its logarithms in one interval of width epsilon:
    a bounded range, which also gives epsilon^2 / 8 zero-concentrated privacy (Dong, Durfee, Rogers 2020; Cesar, Rogers
    2021). The set must be bounded; |h| need not be.

    Utility. For a convex f on a convex set of dimension p, E f - min f <= p under the density proportional to exp(-f).
    So E L(theta; D) - min L <= p k / epsilon, at most 2 p L ||C|| / epsilon under "replace_one", besides a net's
    coarseness.

    Numbers. Net and piecewise sampler draw from finite nets with exact whole-number weights, and a part 2^-20 of
    epsilon pays for the rounding of the risk's values: their guarantee holds as it stands for what the program
    returns. The rejection sampler draws the real-valued law in doubles and then rounds to multiples of 2^-30 of the
    diameter or less, so that low-order digits tell nothing; what remains is that its uniform numbers have 53 bits and
    its densities a relative error of about 1e-10. The walk's certificate is computed from the very probabilities it
    moves with. The *time* a rejection or walk takes depends on the records.

    References
    ----------
    Bassily, Smith, Thakurta (2014), algorithm 2, section 3 (law and utility), section 6 (grid walk).
    McSherry, Talwar (2007).
    """
    if not math.isfinite(epsilon):
        raise ValueError(f"epsilon must be finite, got epsilon={epsilon!r}")
    usable_epsilon(epsilon)
    if risk.dimension != convex_set.dimension:
        raise ValueError(f"the risk has {risk.dimension} parameters, the set {convex_set.dimension} dimensions")
    if sampler not in SAMPLERS:
        raise ValueError(f"sampler must be one of {', '.join(map(repr, SAMPLERS))}, got sampler={sampler!r}")
    if not certify and sampler != "grid-walk":
        raise ValueError("certify=False is for sampler='grid-walk' alone: the others need no certificate")
    k = range_bound_of(risk, convex_set, adjacency)
    if sampler == "auto":
        sampler = choose_sampler(risk, convex_set)
    details: dict[str, Any] = {}
    match sampler:
        case "piecewise":
            theta = sample_piecewise(risk, convex_set, k, epsilon, bits)
        case "net":
            theta = sample_from_net(risk, convex_set, k, epsilon, bits, net_points)
        case "rejection":
            weight = regularization_of(risk)
            draw = sample_by_rejection(risk, convex_set, k, epsilon, bits, regularization=weight)
            theta = _on_lattice(draw.theta, convex_set)
            bound = acceptance_lower_bound(risk, weight) if isinstance(convex_set, Ball) else None
            details = {"n_proposals": draw.n_proposals, "acceptance_lower_bound": bound}
        case _:
            return _grid_walk(
                risk, convex_set, epsilon, k, bits, cells_per_axis, walk_steps, error_share, certify=certify
            )
    return ExponentialSample(theta, sampler, True, k, details)


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


def _on_lattice(theta: FloatArray, convex_set: ConvexSet) -> FloatArray:
    spacing = 2.0 ** math.floor(math.log2(convex_set.diameter * 2.0**-_RELEASE_BITS))
    return np.rint(theta / spacing) * spacing


def _grid_walk(
    risk: EmpiricalRisk,
    convex_set: ConvexSet,
    epsilon: float,
    k: float,
    bits: BitSource,
    cells_per_axis: int | None,
    walk_steps: int | None,
    error_share: float,
    *,
    certify: bool,
) -> ExponentialSample:
    if isinstance(error_share, bool) or not 0.0 < error_share < 1.0:
        raise ValueError(f"error_share must be in (0, 1), got error_share={error_share!r}")
    if walk_steps is not None and (isinstance(walk_steps, bool) or int(walk_steps) != walk_steps or walk_steps < 1):
        raise ValueError(f"walk_steps must be a whole number of at least 1, got walk_steps={walk_steps!r}")
    if certify and risk.dimension > 2:
        raise ValueError(
            f"the grid walk is certified in at most two dimensions, got {risk.dimension}; without a certificate it is "
            "not private"
        )
    if not certify and walk_steps is None:
        raise ValueError("certify=False needs walk_steps")
    cells = cells_per_axis if cells_per_axis is not None else (128 if risk.dimension == 1 else 24)
    scale = usable_epsilon(epsilon) * (1.0 - error_share) / k
    slope = scale * risk.n_records * (risk.lipschitz + regularization_of(risk) * _norms(convex_set)[1])
    walk = grid_walk_for(risk, convex_set, scale, cells, slope * convex_set.diameter)
    if not certify:
        assert walk_steps is not None
        theta = walk.sample_uncertified(walk_steps, _MOST_UNCERTIFIED_RUNS, bits)
        return ExponentialSample(theta, "grid-walk", False, k, {"steps": walk_steps, "penalty": walk.penalty})
    # 2^-39 more for the fallback
    certified = walk.certified_steps(0.5 * epsilon * error_share - 2.0**-39, walk_steps)
    details = {"steps": certified.steps, "error": certified.error, "penalty": walk.penalty}
    return ExponentialSample(walk.sample(certified, bits), "grid-walk", True, k, details)
