"""The noise of the two releases behind a whitening map, from the samplers that are used.

Every value of noise, over the deviation that the sensitivity and mu ask for, is standard normal. Sample: 2 rounds of
30 x 31 / 2 values, 3 times, 2790 in all; the level of each check is 1e-6.
"""

import math

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from schemas.learning import Adjacency
from tasks.classifiers.lattice import VectorLattice
from tasks.classifiers.whitening import private_whitening
from tasks.noise import BitSource, SeededBits
from tests.statistics import ALPHA, variance_p_value

FloatArray = NDArray[np.float64]
D, RUNS, MU = 30, 3, 0.4


def _noise(monkeypatch: pytest.MonkeyPatch, adjacency: Adjacency, factor: float = 1.0) -> FloatArray:
    """All noise, over what (sensitivity of each release, share of mu) ask for; the sampler's is `factor` times it."""
    found: list[FloatArray] = []
    release = VectorLattice.add_gaussian

    def watched(self: VectorLattice, vector: ArrayLike, noise_multiplier: float, bits: BitSource) -> FloatArray:
        answer = release(self, vector, factor * noise_multiplier, bits)
        share = (1.0 / 3.0, 2.0 / 3.0)[len(found) % 2]
        sensitivity = {"add_remove": 1.0, "replace_one": math.sqrt(2.0)}[adjacency] * 2.0**31
        found.append((answer - np.asarray(vector)) / (sensitivity / (MU * math.sqrt(share))))
        return answer

    monkeypatch.setattr(VectorLattice, "add_gaussian", watched)
    table = np.random.default_rng(1).standard_normal((50, D))
    for seed in range(RUNS):
        private_whitening(table, MU, adjacency, SeededBits(seed))
    return np.concatenate(found)


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_the_noise_is_what_mu_asks_for(monkeypatch: pytest.MonkeyPatch, adjacency: Adjacency) -> None:
    noise = _noise(monkeypatch, adjacency)
    assert noise.size == RUNS * D * (D + 1)
    assert variance_p_value(noise) > ALPHA
    assert stats.kstest(noise, "norm").pvalue > ALPHA


def test_a_fifth_less_noise_is_convicted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert variance_p_value(_noise(monkeypatch, "replace_one", 0.8)) < ALPHA
