"""Samples of the lattice noise against its law, and the privacy it claims against what samples show.

Seeded bits make every outcome here repeatable; one test at the end runs on the operating system's generator.
Each check that a right sampler passes is also shown to convict a broken one.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from tasks.noise import DiracLaplace, LatticeDiracLaplace, OperatingSystemBits, SeededBits
from tests.statistics import (
    ALPHA,
    chi_square_p_value,
    hockey_stick_violation,
    independence_p_value,
    proportion_interval,
)

N = 1_000_000
LAWS = [
    (1.0, 1e-5, 2**16),  # the default: 23 binary digits in three groups
    (1.0, 0.0, 1),
    (0.1, 0.05, 1),
    (1.0, 0.05, 1000),
    (8.0, 1e-3, 255),
    (3.0, 0.5, 7),
    (40.0, 0.2, 1),  # nearly all noise is 0 or one step
    (1e-9, 1e-5, 1),  # 37 digits, the last group short
    (1e-6, 0.0, 2**30),
    (100.0, 0.05, 1),  # no digits at all
]


def draw(law: LatticeDiracLaplace, n: int = N, seed: int = 1) -> NDArray[np.int64]:
    return law.sample(n, bits=SeededBits(seed))


def coarse(law: LatticeDiracLaplace, samples: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """Samples in cells of `width` steps with zero alone in cell 0, so that wide laws need few cells."""
    width = max(1, round(law.expected_magnitude() / 1000))
    return np.sign(samples) * (-(-np.abs(samples) // width)), width


def goodness(law: LatticeDiracLaplace, samples: NDArray[np.int64]) -> float:
    cells, width = coarse(law, samples)

    def pmf(cell: NDArray[np.int64]) -> NDArray[np.float64]:
        magnitude = np.abs(cell)
        one_side = law.cdf(-(magnitude - 1) * width - 1) - law.cdf(-magnitude * width - 1)
        return np.where(cell == 0, law.pmf(0), one_side)

    reach = round(25 * law.expected_magnitude() / width) + 2
    return chi_square_p_value(cells, pmf, (-reach, reach))


def sign_is_fair(samples: NDArray[np.int64]) -> bool:
    lower, upper = proportion_interval(int(np.count_nonzero(samples > 0)), int(np.count_nonzero(samples)))
    return lower <= 0.5 <= upper


@pytest.mark.parametrize(("epsilon", "delta", "sensitivity"), LAWS)
def test_law(epsilon: float, delta: float, sensitivity: int) -> None:
    law = LatticeDiracLaplace(epsilon, delta, sensitivity)
    samples = draw(law)
    assert np.abs(samples).max() <= law.max_magnitude
    lower, upper = proportion_interval(int(np.count_nonzero(samples == 0)), N)
    assert lower <= float(law.pmf(0)) <= upper
    if law.pmf(0) < 1 - 1e-5:
        assert goodness(law, samples) > ALPHA
        assert sign_is_fair(samples)


@pytest.mark.parametrize(("epsilon", "delta", "sensitivity"), [(0.5, 0.05, 2**10), (1.0, 1e-5, 5), (1e-8, 0.0, 1)])
def test_every_low_digit_is_right(epsilon: float, delta: float, sensitivity: int) -> None:
    """The lowest eight digits of |k| - 1, which a coarse histogram of a wide law would not see."""
    law = LatticeDiracLaplace(epsilon, delta, sensitivity)
    magnitude = np.abs(draw(law))
    low = (magnitude[magnitude > 0] - 1) % 256
    rate = epsilon / sensitivity

    def pmf(b: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.exp(-rate * b) * np.expm1(-rate) / np.expm1(-256 * rate)

    assert chi_square_p_value(low, pmf, (0, 255)) > ALPHA


@pytest.mark.parametrize("lag", [1, 2, 3, 4, 1 << 16])
def test_values_are_independent(lag: int) -> None:
    """Lags 1 to 4 share a random word, lag 2^16 is the next block's value at the same place."""
    assert independence_p_value(draw(LatticeDiracLaplace(1.0, 0.05, 100)), lag) > ALPHA


def test_magnitude_and_sign_are_independent() -> None:
    samples = draw(LatticeDiracLaplace(1.0, 0.0, 50))
    nonzero = samples[samples != 0]
    interleaved = np.column_stack((np.abs(nonzero), np.sign(nonzero) * 1000)).ravel()
    assert independence_p_value(interleaved) > ALPHA


def test_shape_and_block_borders() -> None:
    law = LatticeDiracLaplace(1.0, 0.0, 100)
    assert draw(law, 0).shape == (0,)
    assert law.sample((), bits=SeededBits(1)).shape == ()
    assert law.sample((3, 0, 2), bits=SeededBits(1)).shape == (3, 0, 2)
    for n in (1, 3, 65535, 65536, 65537):
        samples = draw(law, n)
        assert samples.dtype == np.int64 and samples.shape == (n,)
        assert np.array_equal(samples, draw(law, n))
        assert np.abs(samples).max() <= law.max_magnitude
    assert np.array_equal(law.sample((300, 400), bits=SeededBits(5)).ravel(), draw(law, 120_000, seed=5))


# What must be convicted


def reference(law: LatticeDiracLaplace, n: int = N, seed: int = 3) -> NDArray[np.int64]:
    """An independent sampler: NumPy's geometric variables, one minus the other, and an atom."""
    generator = np.random.default_rng(seed)
    p = -np.expm1(-law.epsilon / law.sensitivity)
    noise = generator.geometric(p, n) - generator.geometric(p, n)
    return np.where(generator.random(n) < law.delta, 0, noise)


CONVICTION_LAW = LatticeDiracLaplace(1.0, 0.01, 100)


def test_reference_sampler_passes_the_same_checks() -> None:
    assert goodness(CONVICTION_LAW, reference(CONVICTION_LAW)) > ALPHA


def test_too_small_noise_is_convicted() -> None:
    assert goodness(CONVICTION_LAW, draw(LatticeDiracLaplace(1.25, 0.01, 100))) < ALPHA


def test_missing_atom_is_convicted() -> None:
    samples = draw(LatticeDiracLaplace(1.0, 0.0, 100))
    assert goodness(CONVICTION_LAW, samples) < ALPHA
    assert proportion_interval(int(np.count_nonzero(samples == 0)), N)[1] < float(CONVICTION_LAW.pmf(0))


def test_zero_counted_twice_is_convicted() -> None:
    """A sign before a magnitude that may be 0, without rejecting -0."""
    law = LatticeDiracLaplace(1.0, 0.0, 100)
    generator = np.random.default_rng(4)
    magnitude = generator.geometric(-np.expm1(-0.01), N) - 1
    samples = np.where(generator.random(N) < 0.5, -magnitude, magnitude)
    assert goodness(law, samples) < ALPHA
    assert proportion_interval(int(np.count_nonzero(samples == 0)), N)[0] > float(law.pmf(0))


def test_biased_sign_is_convicted() -> None:
    """Every hundredth sign forced to plus is seen in the count of signs, every twentieth in the chi-square too."""
    samples = reference(CONVICTION_LAW)
    assert sign_is_fair(samples)
    chance = np.random.default_rng(5).random(N)
    assert not sign_is_fair(np.where(chance < 0.01, np.abs(samples), samples))
    assert goodness(CONVICTION_LAW, np.where(chance < 0.05, np.abs(samples), samples)) < ALPHA


def test_repeated_values_are_convicted() -> None:
    assert independence_p_value(np.repeat(draw(CONVICTION_LAW, N // 2), 2)) < ALPHA


# Privacy, on neighbours as far apart as the adjacency allows


@pytest.mark.parametrize(
    ("epsilon", "delta", "sensitivity"), [(1.0, 1e-5, 2**16), (0.5, 0.01, 20), (4.0, 1e-3, 8), (1.0, 0.0, 1)]
)
def test_claimed_privacy_holds_and_less_noise_is_convicted(epsilon: float, delta: float, sensitivity: int) -> None:
    def outputs(law: LatticeDiracLaplace) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return draw(law, 2 * N, seed=11), sensitivity + draw(law, 2 * N, seed=12)

    law = LatticeDiracLaplace(epsilon, delta, sensitivity)
    for loss in (epsilon, epsilon / 2):
        assert hockey_stick_violation(*outputs(law), loss, law.delta_at(loss)) is None
    too_small = LatticeDiracLaplace(1.25 * epsilon, delta, sensitivity)
    assert hockey_stick_violation(*outputs(too_small), epsilon, law.delta_at(epsilon)) is not None


def test_larger_atom_than_claimed_is_convicted() -> None:
    law = LatticeDiracLaplace(1.0, 0.002, 1000)
    first, second = draw(law, seed=13), 1000 + draw(law, seed=14)
    violation = hockey_stick_violation(first, second, 1.0, 1e-3)
    assert violation is not None and violation.excess > 0
    assert hockey_stick_violation(first, second, 1.0, 0.002) is None


# The two other sources of values


def test_operating_system_bits_follow_the_law() -> None:
    law = LatticeDiracLaplace(1.0, 0.01, 1000)
    samples = law.sample(N, bits=OperatingSystemBits())
    assert goodness(law, samples) > ALPHA
    assert not np.array_equal(samples, law.sample(N))


def test_continuous_samples_follow_the_continuous_law() -> None:
    law = DiracLaplace(2.0, 0.03, 0.7)
    samples = law.sample(N, bits=SeededBits(15))
    uniform = np.floor(law.cdf(samples) * 200).astype(np.int64)
    zeros = np.count_nonzero(samples == 0.0)
    lower, upper = proportion_interval(int(zeros), N)
    assert lower <= law.atom + 2.0**-30 and law.atom <= upper

    def pmf(cell: NDArray[np.int64]) -> NDArray[np.float64]:
        # The cumulative probability skips the atom's interval (0.485, 0.515), whose mass sits at its top.
        return np.where((cell >= 97) & (cell <= 102), 0.0, 1 / 200)

    away = uniform[samples != 0.0]
    conditional = len(away) / N
    assert chi_square_p_value(away, lambda cell: pmf(cell) / (194 / 200), (0, 199)) > ALPHA
    assert conditional == pytest.approx(0.97, abs=0.002)
