"""Samples of the noise family against their laws, and the privacy they claim against what samples show.

Seeded bits make every outcome here repeatable.  Each check that a right sampler passes is also shown to convict a
broken one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from tasks.noise import (
    LatticeDiracLaplace,
    LatticeDiracStaircase,
    LatticeGaussian,
    LatticeNoise,
    LatticeOptimal,
    LatticeStaircase,
    LatticeTruncatedLaplace,
    OperatingSystemBits,
    SeededBits,
)
from tasks.noise.buckets import BucketSampler, Decay
from tasks.noise.lattice_gaussian import _GaussianDecay
from tasks.noise.lattice_gaussian import _sampler as gaussian_sampler
from tests.statistics import (
    ALPHA,
    chi_square_p_value,
    hockey_stick_violation,
    independence_p_value,
    proportion_interval,
)

N = 500_000
LAWS: list[LatticeNoise] = [
    LatticeGaussian(0.3),
    LatticeGaussian(5.0),
    LatticeGaussian(31.9),  # the last with a category for each magnitude
    LatticeGaussian(40.0),  # two magnitudes to a bucket
    LatticeGaussian(2.0**16),
    LatticeGaussian(1e12),
    LatticeStaircase(1.0, 2**16),
    LatticeStaircase(8.0, 255),
    LatticeStaircase(0.1, 1),
    LatticeStaircase(100.0, 3),  # no digits at all
    LatticeDiracStaircase(1.0, 0.05, 2**16),
    LatticeDiracStaircase(4.0, 0.3, 7),
    LatticeTruncatedLaplace(1.0, 1e-2, 2**16),
    LatticeTruncatedLaplace(1.0, 0.4, 3),
    LatticeTruncatedLaplace(1e-6, 0.2, 1),
    LatticeOptimal.solve(1.0, 1e-2, 8),
    LatticeOptimal.solve(2.0, 1e-2, 2**16),
    LatticeOptimal.solve(4.0, 1e-2, 2**30),
]


def name_of(law: object) -> str:
    return repr(law)[:60]


def draw(law: LatticeNoise, n: int = N, seed: int = 1) -> NDArray[np.int64]:
    return law.sample(n, bits=SeededBits(seed))


def goodness(law: LatticeNoise, samples: NDArray[np.int64]) -> float:
    """Zero by itself, then cells of equal numbers of steps, some hundred of them to E|K|."""
    width = max(1, round(law.expected_magnitude() / 400))
    cells = np.sign(samples) * (-(-np.abs(samples) // width))

    def pmf(cell: NDArray[np.int64]) -> NDArray[np.float64]:
        magnitude = np.abs(cell)
        one_side = law.cdf(-(magnitude - 1) * width - 1) - law.cdf(-magnitude * width - 1)
        return np.where(cell == 0, law.pmf(0), one_side)

    reach = round(25 * law.expected_magnitude() / width) + 2
    return chi_square_p_value(cells, pmf, (-reach, reach))


@pytest.mark.parametrize("law", LAWS, ids=name_of)
def test_law(law: LatticeNoise) -> None:
    samples = draw(law)
    assert np.abs(samples).max() <= law.max_magnitude
    lower, upper = proportion_interval(int(np.count_nonzero(samples == 0)), N)
    assert lower <= float(law.pmf(0)) <= upper
    if law.pmf(0) < 1 - 1e-5:
        assert goodness(law, samples) > ALPHA
        lower, upper = proportion_interval(int(np.count_nonzero(samples > 0)), int(np.count_nonzero(samples)))
        assert lower <= 0.5 <= upper
        assert independence_p_value(samples[samples != 0]) > ALPHA


@pytest.mark.parametrize(
    "law",
    [
        LatticeGaussian(2.0**30),
        LatticeStaircase(1.0, 2**30 - 7),
        LatticeTruncatedLaplace(1.0, 1e-3, 2**30),
        LatticeOptimal.solve(1.0, 1e-2, 2**30),
    ],
    ids=name_of,
)
def test_every_low_digit_is_right(law: LatticeNoise) -> None:
    """The lowest eight digits of |k|, uniform but for 1 in 10^6 in so wide a law; coarse cells would not see them."""
    low = np.abs(draw(law)) % 256
    assert chi_square_p_value(low, lambda b: np.full(b.shape, 1 / 256), (0, 255)) > ALPHA


def place_in_bucket_p_value(law: LatticeGaussian, samples: NDArray[np.int64], width: int) -> float:
    """Where in their buckets the values lie, in 16 parts; the law falls inside each."""
    part = width // 16
    places = (np.abs(samples[samples != 0]) - 1) % width // part
    starts = 1 + width * np.arange(14 * 32)
    edges = starts[:, None] + part * np.arange(17)
    tails = law.cdf(-edges)
    mass = (tails[:, :-1] - tails[:, 1:]).sum(axis=0)
    return chi_square_p_value(places, lambda place: mass[place] / mass.sum(), (0, 15))


class RoughDecay:
    """The Gaussian decay with an error bound so wide that every comparison is settled in 128 bits."""

    def __init__(self, exact: Decay) -> None:
        self.exact, self.asked = exact, 0

    def least(self, bucket: NDArray[np.int64]) -> NDArray[np.float64]:
        return self.exact.least(bucket)

    def estimate(
        self, bucket: NDArray[np.int64], offset: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return np.full(bucket.shape, 0.5), np.ones(bucket.shape)

    def threshold(self, bucket: int, offset: int) -> int:
        self.asked += 1
        return self.exact.threshold(bucket, offset)


def remade(sampler: BucketSampler, decay: Decay | None) -> BucketSampler:
    starts, widths = sampler._starts[1:].tolist(), sampler._widths[1:].tolist()
    return BucketSampler(sampler._category.thresholds, starts, widths, decay)


def test_place_in_bucket_and_its_exact_decision() -> None:
    law, width = LatticeGaussian(2.0**10), 2**6
    assert place_in_bucket_p_value(law, draw(law), width) > ALPHA
    sampler = gaussian_sampler(law.standard_deviation)
    rough = RoughDecay(_GaussianDecay(law.standard_deviation, width, len(sampler._starts) - 1))
    samples = remade(sampler, rough).draw(40_000, SeededBits(3))
    assert 1000 < rough.asked < 4000
    assert place_in_bucket_p_value(law, samples, width) > ALPHA and goodness(law, samples) > ALPHA
    flat = remade(sampler, None).draw(N, SeededBits(3))
    assert place_in_bucket_p_value(law, flat, width) < ALPHA  # a sampler that forgets to refuse is convicted


def gaussian(epsilon: float, delta: float, steps: int, scale: float) -> LatticeGaussian:
    return LatticeGaussian(scale * LatticeGaussian.calibrated(epsilon, delta, steps).standard_deviation, steps)


SCALED: list[tuple[str, float, Callable[[float], LatticeNoise]]] = [
    ("gaussian", 1.0, lambda scale: gaussian(1.0, 1e-3, 2**16, scale)),
    ("gaussian on a coarse lattice", 4.0, lambda scale: gaussian(4.0, 1e-2, 8, scale)),
    ("staircase", 1.0, lambda scale: LatticeStaircase(1.0 / scale, 2**16)),
    ("staircase on a coarse lattice", 4.0, lambda scale: LatticeStaircase(4.0 / scale, 8)),
    ("dirac-staircase", 1.0, lambda scale: LatticeDiracStaircase(1.0 / scale, 1e-3, 2**16)),
    ("dirac-staircase on a coarse lattice", 4.0, lambda scale: LatticeDiracStaircase(4.0 / scale, 1e-2, 8)),
    ("truncated-laplace", 1.0, lambda scale: LatticeTruncatedLaplace(1.0 / scale, 1e-3, 2**16)),
    ("truncated-laplace on a coarse lattice", 0.5, lambda scale: LatticeTruncatedLaplace(0.5 / scale, 1e-2, 8)),
    ("lattice-optimal", 1.0, lambda scale: LatticeOptimal.solve(1.0 / scale, 1e-2, 2**16)),
    ("lattice-optimal on a coarse lattice", 2.0, lambda scale: LatticeOptimal.solve(2.0 / scale, 1e-2, 8)),
]


@pytest.mark.parametrize(("epsilon", "build"), [row[1:] for row in SCALED], ids=[row[0] for row in SCALED])
def test_claimed_privacy_holds_and_less_noise_is_convicted(
    epsilon: float, build: Callable[[float], LatticeNoise]
) -> None:
    """2 x 10^6 samples on neighbours at the extreme shift; the too small noise has 0.8 of the scale."""

    def outputs(law: LatticeNoise) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return draw(law, 2_000_000, 11), law.sensitivity + draw(law, 2_000_000, 12)

    law, too_small = build(1.0), build(0.8)
    first, second = outputs(law)
    for loss in (epsilon, epsilon / 2):
        assert hockey_stick_violation(first, second, loss, law.delta_at(loss)) is None
    assert hockey_stick_violation(*outputs(too_small), epsilon, law.delta_at(epsilon)) is not None
    assert goodness(law, first) > ALPHA
    assert goodness(law, draw(too_small)) < ALPHA


def test_a_smaller_atom_or_reach_is_convicted() -> None:
    mixture = LatticeDiracStaircase(1.0, 0.02, 1000)
    assert goodness(mixture, draw(LatticeStaircase(1.0, 1000))) < ALPHA
    cut = LatticeTruncatedLaplace(1.0, 0.02, 1000)
    uncut = draw(LatticeDiracLaplace(1.0, 0.0, 1000))
    assert goodness(cut, uncut) < ALPHA
    shorter = uncut[np.abs(uncut) <= 0.9 * cut.max_magnitude]
    violation = hockey_stick_violation(shorter, 1000 + shorter[::-1], 1.0, cut.delta_at(1.0))
    assert violation is not None


def test_zero_counted_twice_is_convicted() -> None:
    law = LatticeStaircase(4.0, 20)
    samples = draw(law)
    folded = np.abs(samples)
    doubled = np.concatenate((samples, np.zeros(np.count_nonzero(folded == 0), dtype=np.int64)))
    assert goodness(law, doubled) < ALPHA


def test_operating_system_bits_follow_the_law() -> None:
    for law in (LatticeGaussian(1000.0), LatticeDiracStaircase(1.0, 0.05, 1000), LatticeOptimal.solve(1.0, 1e-2, 8)):
        samples = law.sample(N, bits=OperatingSystemBits())
        assert goodness(law, samples) > ALPHA
        assert not np.array_equal(samples, law.sample(N))


def test_vectors_keep_the_gaussian_guarantee() -> None:
    """Along the direction of the shift, the best test for a vector, rounded noise is no worse than the claim."""
    law = LatticeGaussian.calibrated(1.0, 1e-2, 100)
    direction = np.array([60, -64, 48])  # Euclidean length 100
    noise = [draw(law, 3 * N, seed).reshape(N, 3) for seed in (21, 22)]
    first, second = noise[0] @ direction, (noise[1] + direction) @ direction
    assert hockey_stick_violation(first, second, 1.0, law.delta_at_distance(1.0, 100.0)) is None
    small = LatticeGaussian(0.8 * law.standard_deviation)
    noise = [draw(small, 3 * N, seed).reshape(N, 3) for seed in (23, 24)]
    violation = hockey_stick_violation(noise[0] @ direction, (noise[1] + direction) @ direction, 1.0, 1e-2)
    assert violation is not None
