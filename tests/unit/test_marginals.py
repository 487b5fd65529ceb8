"""Distributions of columns from values with noise of a known law, and values that take them on."""

import numpy as np
import pytest

from tasks.accounting.lattice import LATTICE_STEPS
from tasks.columns.marginals import ValueCounts, deconvolve, like, reshaped
from tasks.noise import LatticeNoise, LatticeStaircase, SeededBits
from tasks.noise.lattice_dirac_laplace import LatticeDiracLaplace
from tasks.noise.lattice_gaussian import LatticeGaussian

LAWS: dict[str, LatticeNoise] = {
    "laplace": LatticeDiracLaplace(2.0, 1e-6, LATTICE_STEPS),
    "staircase": LatticeStaircase(4.0, LATTICE_STEPS),
    "gaussian": LatticeGaussian(0.3 * LATTICE_STEPS, LATTICE_STEPS),
}
LEVELS = np.round(np.linspace(0, LATTICE_STEPS, 5)).astype(np.int64)


def _counts(noisy: np.ndarray, labels: np.ndarray, law: LatticeNoise) -> ValueCounts:
    counts = ValueCounts(law)
    for rows in np.array_split(np.arange(len(labels)), 3):
        counts.add(noisy[rows], labels[rows])
    return counts


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_levels_come_out_of_the_noise(law: LatticeNoise) -> None:
    random, n = np.random.default_rng(1), 20_000
    truth = {0: [0.7, 0.1, 0.1, 0.05, 0.05], 1: [0.05, 0.05, 0.1, 0.1, 0.7]}
    labels = random.integers(0, 2, n)
    cells = np.where(labels == 0, random.choice(5, n, p=truth[0]), random.choice(5, n, p=truth[1]))
    found = deconvolve(_counts(LEVELS[cells] + law.sample((n,), bits=SeededBits(2)), labels, law), LEVELS)
    nearest = np.abs((LEVELS[cells] + law.sample((n,), bits=SeededBits(2)))[:, None] - LEVELS).argmin(axis=1)
    for label, shares in truth.items():
        off = np.abs(found[label] - shares).sum() / 2
        seen = np.bincount(nearest[labels == label], minlength=5) / (labels == label).sum()
        # the noise-added values themselves, each at its nearest level, are further off
        assert off < 0.12 and off < np.abs(seen - shares).sum() / 2


def test_where_the_noise_tells_nothing_the_estimate_stays_flat() -> None:
    random, n = np.random.default_rng(1), 300
    law = LatticeDiracLaplace(0.05, 1e-6, LATTICE_STEPS)
    cells = np.zeros(n, dtype=np.int64)
    found = deconvolve(_counts(cells + law.sample((n,), bits=SeededBits(2)), random.integers(0, 2, n), law), LEVELS)
    assert max(shares.max() for shares in found.values()) < 0.35


def test_the_fill_of_missing_values_is_no_value() -> None:
    n, law = 20_000, LAWS["staircase"]
    missing = np.arange(n) % 2 == 0
    cells = np.where(missing, LATTICE_STEPS // 2, 0)
    labels = np.zeros(n, dtype=np.int64)
    noisy = cells + law.sample((n,), bits=SeededBits(2))
    assert deconvolve(_counts(noisy, labels, law), LEVELS)[0][2] > 0.4
    assert deconvolve(_counts(noisy, labels, law), LEVELS, {0: 0.5}, LATTICE_STEPS // 2)[0][0] > 0.9


def test_values_take_on_a_distribution_in_their_order() -> None:
    values = np.array([0.5, 0.1, 0.9, 0.3])
    got = reshaped(values, np.array([0.0, 1.0]), np.array([0.5, 0.5]), spread=0.0)
    assert got.tolist() == [1.0, 0.0, 1.0, 0.0]
    spread = reshaped(values, np.array([0.25, 0.75]), np.array([0.5, 0.5]), spread=0.5)
    assert np.argsort(spread).tolist() == np.argsort(values).tolist()
    assert np.allclose(np.sort(spread), [0.125, 0.375, 0.625, 0.875])
    assert like(values, np.array([7.0, 5.0, 6.0, 8.0])).tolist() == [7.0, 5.0, 8.0, 6.0]
    assert like(values, np.array([1.0, 2.0])).tolist() == [2.0, 1.0, 2.0, 1.0]
