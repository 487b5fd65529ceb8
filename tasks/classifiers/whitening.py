"""A noisy second moment of the rows' directions, and the linear map by which rows vary alike in all directions.

Where features measure much the same thing, most of a row's length lies in a few directions, and clipped gradients with
noise that is alike in all directions learn little of the others. Whitening gives every direction that can be told from
noise the same length. It is a gamble: it helps where classes differ in directions in which rows vary little, and hurts
where they differ in those in which rows vary most, as with pictures.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from schemas.learning import Adjacency
from tasks.classifiers.exact_rows import directions_and_lengths, on_weight_grid
from tasks.classifiers.lattice import lattice_for
from tasks.noise.bits import BitSource

__all__ = ["private_whitening", "refuse_unwhitenable", "whitened"]

FloatArray = NDArray[np.float64]

_SHARES = (1.0 / 3.0, 2.0 / 3.0)  # of mu^2, by round
_STEPS = 2.0**12  # in a direction's length
_SQUARE, _PRODUCT = 128.0, 181.0  # weights of u_i^2 and of u_i u_j; 181 / 128 is just below sqrt 2
_UNIT = _SQUARE * _STEPS**2  # norm of a record's part, at most
_MOST_ROWS = 2**22  # whose sums doubles hold exactly
_FLOOR = 0.3  # of the largest eigenvalue that noise alone has
_LEAST = 1e-3  # of the largest eigenvalue
_LARGEST = 1e300  # of a coordinate


def private_whitening(rows: FloatArray, mu: float, adjacency: Adjacency, bits: BitSource) -> FloatArray:
    """A map W for which the rows x W vary about alike in all directions, Gaussian differentially private with `mu`.

    Parameters
    ----------
    rows : ndarray of float64, shape (n, d)
        Finite, of any lengths; about centred.
    mu : float
        Above 0; infinite for no noise.
    adjacency : {"replace_one", "add_remove"}
        The number of rows is not used.
    bits : BitSource

    Returns
    -------
    ndarray of float64, shape (d, d)
        For `whitened`. On average, over what was released, it keeps the lengths of rows.

    Raises
    ------
    ValueError
        If mu is not above 0, the adjacency is unknown, or there are more than 2^22 rows.

    Notes
    -----
    Two rounds, with 1/3 and 2/3 of mu^2. With the map W so far (the identity at first), a row has the direction u = x W
    / |x W|, cut to whole steps of 2^-12 towards 0, so |u| <= 1; 0 for a row of zeros. What is released is the sum of

        v(u) = (u_i^2 for all i, r u_i u_j for all i < j),  r = 181 / 128 < sqrt 2,

    with Gaussian noise on a lattice. W becomes W M^(-1/2) up to a factor, M the released matrix, whose eigenvalues are
    raised to 0.3 of the largest one that noise alone has, s sqrt(2 d) for noise s on the diagonal.

    Sensitivity. "add_remove": |v(u)|^2 <= sum u_i^4 + 2 sum over i < j of u_i^2 u_j^2 = |u|^4 <= 1. "replace_one": sqrt
    2, as

        <v(u), v(u')> = (r^2 / 2) <u, u'>^2 + (1 - r^2 / 2) sum u_i^2 u'_i^2 >= 0,

    so |v(u) - v(u')|^2 <= |v(u)|^2 + |v(u')|^2 <= 2, attained by orthogonal rows. This holds whatever the rows are and
    whatever W is, so nothing is assumed about lengths.

    Proof. A round is a Gaussian mechanism whose query depends on the round before; so they compose to mu^2 = the sum of
    their mu_i^2 (Dong, Roth, Su 2022, corollary 3.3). A record's direction depends on that record and W alone, to the
    last bit (`exact_rows`), and its part is whole numbers, of which doubles hold the sums of 2^22 rows exactly.

    Cost. 2 n d^2 operations, d^2 values of noise and an eigendecomposition in each round.

    References
    ----------
    Biswas, Dong, Kamath, Ullman, "CoinPress" (NeurIPS 2020), for covariances in rounds. Tyler (1987), for directions in
    place of rows.
    """
    if not mu > 0.0:
        raise ValueError(f"mu must be above 0, got mu={mu!r}")
    if adjacency not in ("replace_one", "add_remove"):
        raise ValueError(f"adjacency must be 'replace_one' or 'add_remove', got adjacency={adjacency!r}")
    refuse_unwhitenable(len(rows))
    sensitivity = 1.0 if adjacency == "add_remove" else math.sqrt(2.0)
    whitening = np.eye(rows.shape[1])
    for share in _SHARES:
        directions, _ = directions_and_lengths(whitened(rows, whitening))
        moment, edge = _released_moment(directions, math.sqrt(share) * mu, sensitivity, bits)
        whitening = on_weight_grid(_inverse_root(moment, edge) @ whitening.T).T
    return whitening


def refuse_unwhitenable(n_rows: int) -> None:
    """Refuse more rows than doubles hold the sums of.

    Raises
    ------
    ValueError
        If there are more than 2^22.
    """
    if n_rows > _MOST_ROWS:
        raise ValueError(f"whitening is for at most {_MOST_ROWS} rows, got {n_rows}")


def whitened(rows: FloatArray, whitening: FloatArray) -> FloatArray:
    """Rows times a map from `private_whitening`; each depends on no other row, to the last bit."""
    directions, lengths = directions_and_lengths(rows)
    with np.errstate(over="ignore"):
        images: FloatArray = np.clip((directions @ whitening) * lengths[:, None], -_LARGEST, _LARGEST)
    return images


def _released_moment(
    directions: FloatArray, mu: float, sensitivity: float, bits: BitSource
) -> tuple[FloatArray, float]:
    """Sum of u u' over the rows, released, and the largest eigenvalue of its noise, about."""
    d = directions.shape[1]
    steps = np.trunc(directions * _STEPS)
    upper = np.triu_indices(d)
    weights = np.where(upper[0] == upper[1], _SQUARE, _PRODUCT)
    total = (steps.T @ steps)[upper] * weights
    edge = 0.0
    if not math.isinf(mu):
        total = lattice_for(total.size, sensitivity * _UNIT, 1.0 / mu).add_gaussian(total, 1.0 / mu, bits)
        edge = math.sqrt(2.0 * d) * sensitivity / mu
    moment = np.zeros((d, d))
    moment[upper] = total / (weights * _STEPS**2)
    return moment + np.triu(moment, 1).T, edge


def _inverse_root(moment: FloatArray, edge: float) -> FloatArray:
    """The inverse root of a released matrix over its mean eigenvalue, with eigenvalues that have a floor."""
    values, vectors = np.linalg.eigh(moment)
    floored = np.maximum(values, max(_FLOOR * edge, _LEAST * float(values[-1]), 1e-300))
    root: FloatArray = (vectors * np.sqrt(floored.mean() / floored)) @ vectors.T
    return root
