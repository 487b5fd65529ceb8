"""The noise of the six releases behind noisy means and scales, from the samplers that are used.

Every value of noise, over the deviation that the sensitivity and mu ask for, is standard normal. Sample: 4 runs of 60
features, 3 x 12 + 60 + 2 x 120 values each, 1344 in all; the level of each check is 1e-6.
"""

import math

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from schemas.learning import Adjacency
from tasks.classifiers.lattice import VectorLattice
from tasks.classifiers.standardization import private_standardization
from tasks.noise import BitSource, SeededBits
from tests.statistics import ALPHA, variance_p_value

FloatArray = NDArray[np.float64]
D, RUNS, MU = 60, 4, 0.4


def _noise(monkeypatch: pytest.MonkeyPatch, adjacency: Adjacency, factor: float = 1.0) -> FloatArray:
    """All noise, over what (sensitivity of each release, share of mu) ask for; the sampler's is `factor` times it."""
    found: list[FloatArray] = []
    release = VectorLattice.add_gaussian

    def watched(self: VectorLattice, vector: ArrayLike, noise_multiplier: float, bits: BitSource) -> FloatArray:
        answer = release(self, vector, factor * noise_multiplier, bits)
        number = len(found) % 6
        share = (0.2 if number % 2 == 0 else 0.8) / 3.0
        if number % 2 == 0:
            sensitivity = {"add_remove": 1.0, "replace_one": math.sqrt(2.0)}[adjacency]
        else:
            radii = {"add_remove": (1.0, 1.0, 1.0), "replace_one": (2.0, math.sqrt(2.0), math.sqrt(2.0))}[adjacency]
            sensitivity = radii[number // 2] * 2.0**30
        found.append((answer - np.asarray(vector)) / (sensitivity / (MU * math.sqrt(share))))
        return answer

    monkeypatch.setattr(VectorLattice, "add_gaussian", watched)
    table = np.random.default_rng(1).uniform(-1.0, 1.0, (50, D))
    for seed in range(RUNS):
        private_standardization(table, MU, adjacency, SeededBits(seed))
    return np.concatenate(found)


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_the_noise_is_what_mu_asks_for(monkeypatch: pytest.MonkeyPatch, adjacency: Adjacency) -> None:
    noise = _noise(monkeypatch, adjacency)
    assert noise.size == RUNS * (3 * 12 + D + 4 * D)
    assert variance_p_value(noise) > ALPHA
    assert stats.kstest(noise, "norm").pvalue > ALPHA


def test_a_fifth_less_noise_is_convicted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert variance_p_value(_noise(monkeypatch, "replace_one", 0.8)) < ALPHA
