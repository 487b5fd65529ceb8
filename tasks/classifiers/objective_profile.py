"""What objective perturbation costs: the privacy loss of a risk's minimiser when a random linear term was added.

The minimiser theta of L(.; D) + (lam/2)|.|^2 + <b, .> determines b = -grad L(theta; D) - lam theta, so its density is
that of b at this point times |det(H + lam I)|, H the Hessian of L there. (For losses whose slope is continuous and
Lipschitz but not everywhere differentiable, as the Huberised hinge, theta -> b is a homeomorphism that is Lipschitz
both ways, and the area formula gives the same almost everywhere.) Two neighbours differ in both factors.

Determinant. With A = H + lam I of the records they share, A >= lam I, and a record's Hessian h of rank r with
eigenvalues up to beta, det(A + h) / det(A) = det(I + A^-1/2 h A^-1/2) lies in [1, (1 + beta/lam)^r]. Both tables'
determinants are in that range over det(A), so their ratio costs at most a = r log(1 + beta/lam), whether a record is
added, removed or replaced. One class against the rest: the Hessian of one record is block diagonal with k blocks c_j
x x', of rank k together, so r = k.

Density of b. Norm noise exp(-rate |b|): at most rate times the largest difference of gradients. Gaussian noise: below.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import special

from tasks.accounting.gaussian_profile import gaussian_delta, gaussian_mu

__all__ = ["determinant_loss", "gaussian_shift", "objective_delta"]

FloatArray = NDArray[np.float64]

_GRID = 2000
_POWERS = np.geomspace(0.05, 5000.0, 400)  # of the Chernoff bound


def determinant_loss(smoothness: float, regularization: float, rank: int) -> float:
    """Bound of the logarithm of the determinants' ratio: rank log(1 + beta / lam).

    Parameters
    ----------
    smoothness : float
        beta of one record's loss; finite.
    regularization : float
        lam of the whole risk, above 0.
    rank : int
        Of one record's Hessian.

    Raises
    ------
    ValueError
        If beta is infinite: the determinant has no bound then.
    """
    if not math.isfinite(smoothness):
        raise ValueError("objective perturbation needs a loss with a bounded second derivative, which this one has not")
    if not regularization > 0.0:
        raise ValueError(f"regularization must be above 0, got regularization={regularization!r}")
    return rank * math.log1p(smoothness / regularization)


def objective_delta(epsilon: float, shift: float, n_problems: int, parts: int) -> float:
    """Upper bound of delta for Gaussian objective perturbation of monotone margin losses.

    Parameters
    ----------
    epsilon : float
        What is left of the epsilon after `determinant_loss`; at least 0.
    shift : float
        t = L / s: the largest slope of the loss of one margin over the standard deviation of b's coordinates; rows have
        norms of at most 1. Above 0.
    n_problems : int
        k, of one vector each.
    parts : int
        1 when a record is added or removed, 2 when one replaces another.

    Returns
    -------
    float
        At most 1.

    Notes
    -----
    Let v be the difference of the gradients at theta. The loss of b's density is (|v|^2 / 2 + <b, v>) / s^2 with b as
    it was drawn, and v depends on theta, hence on b. But v's directions do not. In problem j it is c u + c' u', where
    u and u' are the neighbours' rows with fixed signs (u' = 0 when nothing takes the record's place), and c, c' in
    [0, L] since the slope of a monotone loss keeps its sign. The loss is convex in (c, c'), so at most its maximum
    over the corners of the square; with Z = b_j / s standard normal and l_m(Z) = m <Z, direction> + m^2 / 2, which is
    the loss of a Gaussian mechanism of shift m, the corners give 0, l_m for |u| t and |u'| t, and l_m for |u + u'| t
    <= 2 t. Hence

        loss <= a + sum over j of M_j,    M_j = max(0, l_t)  or  M_j = max(0, l_t, l'_t, l''_2t),

    with independent Z for the k problems. P(M_j > y) for y >= 0 is at most the sum of the corners', each of which
    grows with its shift, so M_j may be replaced by an independent variable with exactly that survival function (cut
    at 1), which is larger in the stochastic order. For k = 1 this is gaussian_delta(t) and gaussian_delta(2t) + 2
    gaussian_delta(t), at epsilon - a. For more problems the law is put on a grid, rounded *up*, and convolved by
    Fourier transform, whose rounding is bounded (Higham 2002, theorem 24.2) and added; a Chernoff bound takes over
    where that is better.

    Redberg, Koskela, Wang (2023) bound one added record by U = a + t^2/2 + t |Z|; that the slope keeps its sign
    halves their delta, and replacing and several classes are derived here. Tests compare with exact densities in one
    dimension.

    References
    ----------
    Redberg, Koskela, Wang (NeurIPS 2023), theorem 3.1; Chaudhuri, Monteleoni, Sarwate (2011); Kifer, Smith, Thakurta
    (2012); Bassily, Smith, Thakurta (2014), appendix E.
    """
    if not epsilon >= 0.0 or not shift > 0.0 or n_problems < 1 or parts not in (1, 2):
        raise ValueError(
            f"need epsilon >= 0, shift > 0, n_problems >= 1 and parts 1 or 2, got {epsilon=}, {shift=}, {n_problems=}, "
            f"{parts=}"
        )
    corners = [(1.0, shift)] if parts == 1 else [(2.0, shift), (1.0, 2.0 * shift)]
    if n_problems == 1:
        return min(1.0, math.fsum(count * float(gaussian_delta(m, epsilon)) for count, m in corners))
    chernoff = _chernoff(epsilon, corners, n_problems)
    return min(1.0, chernoff) if chernoff < 1e-12 else min(1.0, chernoff, _convolved(epsilon, corners, n_problems))


_LEAST_SHARE_OF_MU = 1e-6


def gaussian_shift(epsilon: float, delta: float, n_problems: int, parts: int) -> float:
    """The largest shift t = L / s with `objective_delta` at most delta, rounded down by 1e-9.

    Parameters
    ----------
    epsilon : float
        After `determinant_loss`, above 0.
    delta : float
        In (0, 1).
    n_problems, parts : int

    Raises
    ------
    ValueError
        If epsilon or delta is outside its range, or so small that convolutions in doubles cannot prove it.
    """
    high = gaussian_mu(epsilon, delta)  # one problem and one part could not have more
    low = high
    while objective_delta(epsilon, low, n_problems, parts) > delta:
        low *= 0.5
        if low < _LEAST_SHARE_OF_MU * high:
            raise ValueError(
                f"objective perturbation cannot be calibrated for epsilon={epsilon:.3g}, delta={delta:.3g} and "
                f"{n_problems} classes at once: take a larger epsilon or delta, or another classifier"
            )
    while high - low > 1e-9 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if objective_delta(epsilon, middle, n_problems, parts) <= delta else (low, middle)
    return low


def _chernoff(epsilon: float, corners: list[tuple[float, float]], n_problems: int) -> float:
    """E (1 - e^(epsilon - S))_+ <= c E e^(alpha (S - epsilon)), with c the maximum of (1 - e^-x) e^(-alpha x).

    E e^(alpha M) = 1 + integral of alpha e^(alpha y) P(M > y), a sum over the corners in closed form.
    """
    alpha = _POWERS
    with np.errstate(over="ignore"):
        moment = 1.0 + sum(
            count
            * (np.exp(0.5 * alpha * (1.0 + alpha) * m * m + special.log_ndtr(m / 2 + alpha * m)) - special.ndtr(m / 2))
            for count, m in corners
        )
        exponent = n_problems * np.log(moment) - alpha * epsilon
    exponent += alpha * np.log(alpha / (1.0 + alpha)) - np.log1p(alpha)
    return math.exp(min(0.0, float(np.min(exponent)))) * (1.0 + 1e-9)


def _convolved(epsilon: float, corners: list[tuple[float, float]], n_problems: int) -> float:
    largest = max(m for _, m in corners)
    step = largest * (0.5 * largest + 9.0) / _GRID
    grid = np.arange(_GRID + 1) * step
    survival = np.minimum(1.0, sum(count * special.ndtr(0.5 * m - grid / m) for count, m in corners))
    mass = np.append(1.0 - survival[0], -np.diff(survival))  # of (grid[i-1], grid[i]], put at grid[i]
    size = 1 << math.ceil(math.log2(n_problems * _GRID + 1))
    total = np.fft.irfft(np.fft.rfft(mass, size) ** n_problems, size)
    gain = -np.expm1(np.minimum(0.0, epsilon - np.arange(size) * step))
    rounding = math.sqrt(size) * (n_problems + 3) * 6.0 * math.log2(size) * 2.0**-53
    return float(np.sum(total * gain)) + n_problems * float(survival[-1]) + rounding
