"""Published calibrations of objective perturbation, recalled and checked by quadrature; ours need less noise.

KST 2012: Kifer, Smith, Thakurta, "Private convex empirical risk minimization", algorithm 1: lam = 2 beta / epsilon,
Gaussian s^2 = L^2 (8 log(2 / delta) + 4 epsilon) / epsilon^2, or norm noise of rate epsilon / (2 L); adding or removing
a record. CMS 2011: Chaudhuri, Monteleoni, Sarwate, algorithm 2, for a mean of losses with |l'| <= 1, |l''| <= c:
epsilon' = epsilon - log(1 + 2 c / (n Lam) + c^2 / (n Lam)^2), b of density exp(-epsilon' |b| / 2); replacing a record.
"""

import math

import numpy as np
import pytest

from tasks.classifiers.objective_profile import determinant_loss, gaussian_shift
from tests.unit.test_objective_perturbation import ADDED, REPLACED, _exact_delta, _log_density_1d

BETA = 0.25


def kst_standard_deviation(epsilon: float, delta: float) -> float:
    return math.sqrt(8 * math.log(2 / delta) + 4 * epsilon) / epsilon


def cms_epsilon(epsilon: float, n_lam: float) -> float:
    return epsilon - math.log(1 + 2 * BETA / n_lam + (BETA / n_lam) ** 2)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_kst_gaussian_holds_and_is_larger_than_ours(epsilon: float, delta: float) -> None:
    lam, theirs = 2 * BETA / epsilon, kst_standard_deviation(epsilon, delta)
    ours = 1.0 / gaussian_shift(epsilon - determinant_loss(BETA, lam, 1), delta, 1, 1)
    assert ours < theirs
    theta = np.linspace(-(12 * theirs + 12) / lam, (12 * theirs + 12) / lam, 40_001)
    for scale in (ours, theirs):
        for shared in ([], [1.0, -1.0]):
            for first, second in ADDED:
                both = [_log_density_1d(shared + own, lam, scale, theta, gaussian=True) for own in (first, second)]
                assert _exact_delta(both[0], both[1], epsilon, float(theta[1] - theta[0])) <= delta


def test_kst_at_1_and_1e_5_by_hand() -> None:
    """sqrt(8 log(2e5) + 4) = 10.083."""
    assert kst_standard_deviation(1.0, 1e-5) == pytest.approx(10.083, abs=1e-3)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_kst_pure_holds_and_is_larger_than_ours(epsilon: float) -> None:
    lam, rate = 2 * BETA / epsilon, epsilon / 2
    own_rate = epsilon - determinant_loss(BETA, lam, 1)
    assert own_rate >= rate
    theta = np.linspace(-200.0 / lam, 200.0 / lam, 20_001)
    for own in (rate, own_rate):
        for first, second in ADDED:
            both = [_log_density_1d(side, lam, 1 / own, theta, gaussian=False) for side in (first, second)]
            assert float(np.max(np.abs(both[0] - both[1]))) <= epsilon


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_cms_holds_and_is_larger_than_ours(epsilon: float) -> None:
    """In their unit the mean, b / n; in ours the sum. Their determinant term is twice ours."""
    n_lam = 2.0
    own = epsilon - determinant_loss(BETA, n_lam, 1)
    theirs = cms_epsilon(epsilon, n_lam)
    assert theirs == pytest.approx(epsilon - 2 * math.log1p(BETA / n_lam)) and 0 < theirs < own
    theta = np.linspace(-80.0, 80.0, 20_001)
    for rate in (theirs / 2, own / 2):
        for first, second in REPLACED:
            both = [_log_density_1d([1.0, *side], n_lam, 1 / rate, theta, gaussian=False) for side in (first, second)]
            assert float(np.max(np.abs(both[0] - both[1]))) <= epsilon
