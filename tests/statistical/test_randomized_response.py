"""Randomised response: its law by chi-square (alpha 1e-6, 2e5 draws a label), its ratio, and convictions."""

import math

import numpy as np
import pytest

from tasks.noise import LabelRandomizedResponse, SeededBits
from tests.statistics import ALPHA, chi_square_p_value

N = 200_000


@pytest.mark.parametrize(("epsilon", "k"), [(0.1, 2), (1.0, 2), (1.0, 10), (3.0, 5), (8.0, 3)])
def test_law(epsilon: float, k: int) -> None:
    response = LabelRandomizedResponse(epsilon, k)
    for label in (0, k - 1):
        drawn = response.respond(np.full(N, label), SeededBits(7 + label))
        other = 1 / (math.exp(epsilon) + k - 1)
        law = np.full(k, other)
        law[label] = math.exp(epsilon) * other
        assert response.keep_probability == pytest.approx(law[label], rel=1e-12)
        assert chi_square_p_value(drawn, law.take, (0, k - 1)) > ALPHA
    if 0.5 <= epsilon < 5:  # the check convicts a keep probability that is a tenth of the way off
        wrong = LabelRandomizedResponse(epsilon * 1.1, k).respond(np.zeros(N, dtype=np.int64), SeededBits(1))
        law = np.full(k, 1 / (math.exp(epsilon) + k - 1))
        law[0] *= math.exp(epsilon)
        assert chi_square_p_value(wrong, law.take, (0, k - 1)) < ALPHA


def test_the_ratio_is_never_above_e_to_the_epsilon() -> None:
    for epsilon in (1e-6, 0.5, 1.0, 2.0, 40.0, 2000.0):
        response = LabelRandomizedResponse(epsilon, 7)
        other = response._other()
        kept = 2**128 - 6 * other
        assert kept >= other and math.log(kept) - math.log(other) <= epsilon * (1 + 1e-12) + 1e-15


@pytest.mark.parametrize(("epsilon", "k"), [(0.0, 2), (-1.0, 2), (math.inf, 2), (1.0, 1), (1.0, 70_000)])
def test_ranges(epsilon: float, k: int) -> None:
    with pytest.raises(ValueError):
        LabelRandomizedResponse(epsilon, k)
