"""The attack on floating-point noise through its low-order bits (Mironov, CCS 2012), and what the lattice does to it.

An inverse distribution function in doubles reaches only some doubles; which ones, after the sum with the data, depends
on the data.  The attacker asks of an output y: is there a uniform double u with x + F^-1(u) = y for x = 0?
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray

from tasks.noise import (
    LatticeDiracLaplace,
    LatticeGaussian,
    LatticeNoise,
    LatticeStaircase,
    LatticeTruncatedLaplace,
    SeededBits,
)
from tests.statistics import ALPHA, chi_square_p_value, hockey_stick_violation

N = 200_000
NEIGHBOUR = 1.0  # the two data sets hold 0 and 1: sensitivity 1, epsilon 1, noise scale 1


def noise_in_doubles(u: NDArray[np.float64], sign: NDArray[np.float64]) -> NDArray[np.float64]:
    """Laplace noise the plain way."""
    return sign * np.log(u)


def plain_release(value: float, seed: int) -> NDArray[np.float64]:
    generator = np.random.default_rng(seed)
    u = 1.0 - generator.random(N)  # multiples of 2^-53 in (0, 1]
    return value + noise_in_doubles(u, generator.choice([-1.0, 1.0], N))


def could_come_from(value: float, released: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether some uniform double gives each output when the data set holds `value`."""
    wanted = released - value
    sign = np.where(wanted <= 0, 1.0, -1.0)
    nearest = np.rint(np.exp(-np.abs(wanted)) * 2.0**53)
    found = np.zeros(released.shape, dtype=np.bool_)
    for step in range(-12, 13):
        u = np.clip(nearest + step, 1, 2.0**53) * 2.0**-53
        found |= value + noise_in_doubles(u, sign) == released
    return found


def test_attack_tells_neighbours_apart_on_plain_doubles() -> None:
    on_first, on_second = plain_release(0.0, 1), plain_release(NEIGHBOUR, 2)
    assert could_come_from(0.0, on_first).all()
    impossible = ~could_come_from(0.0, on_second)
    assert impossible.mean() > 0.2  # a fifth of the outputs prove, each by itself, that the data set holds 1
    flags = [(~could_come_from(0.0, y)).astype(np.int64) for y in (on_first, on_second)]
    violation = hockey_stick_violation(flags[1], flags[0], 1.0, 1e-5)
    assert violation is not None and violation.p_lower > 0.2
    # no epsilon below 8 would save it
    assert hockey_stick_violation(flags[1], flags[0], 8.0, 1e-5) is not None


def uniform(n: int, low: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.full(low.shape, 1 / n)


STEPS = 2**20
ON_LATTICE: list[LatticeNoise] = [
    LatticeDiracLaplace(1.0, 0.0, STEPS),
    LatticeStaircase(1.0, STEPS),
    LatticeGaussian.calibrated(1.0, 1e-5, STEPS),
    LatticeTruncatedLaplace(1.0, 1e-5, STEPS),
]


@pytest.mark.parametrize("law", ON_LATTICE, ids=lambda law: law.name)
def test_attack_fails_on_the_lattice(law: LatticeNoise) -> None:
    """Every integer that one neighbour can give the other can too, the low bits look alike, the doubles are exact."""
    spacing = 1.0 / STEPS
    released = [(value * STEPS + law.sample(N, bits=SeededBits(seed))) * spacing for value, seed in ((0, 3), (1, 4))]
    steps = [np.rint(y * STEPS).astype(np.int64) for y in released]
    for k, y in zip(steps, released, strict=True):
        assert np.array_equal(k * spacing, y)  # the sum is a multiple of the spacing, whatever the data
    reachable = [law.pmf(k) > 0 for k in steps]
    assert reachable[0].all()
    # What the second data set gives and the first cannot is at most delta (a cut law's tail).
    assert np.count_nonzero(~reachable[1]) <= 10 + 20 * N * 1e-5
    for k in steps:
        for bits in (2, 8):
            assert chi_square_p_value(k % 2**bits, partial(uniform, 2**bits), (0, 2**bits - 1)) > ALPHA
    flags = [(~hit).astype(np.int64) for hit in reachable]
    assert hockey_stick_violation(flags[1], flags[0], 1.0, 1e-5) is None
    assert hockey_stick_violation(steps[1] % 256, steps[0] % 256, 1.0, 1e-5) is None
