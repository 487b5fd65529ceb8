"""What must hold for every law of the noise family, whatever its parameters."""

from __future__ import annotations

import json
import math

import numpy as np
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from tasks.noise import (
    DiracStaircase,
    Gaussian,
    LatticeDiracLaplace,
    LatticeDiracStaircase,
    LatticeGaussian,
    LatticeNoise,
    LatticeOptimal,
    LatticeStaircase,
    LatticeTruncatedLaplace,
    SeededBits,
    Staircase,
    TruncatedLaplace,
    comparison,
    law_from_parameters,
    optimal,
)
from tasks.noise.optimal import ContinuousLaw

epsilons = st.floats(1e-3, 30.0)
deltas = st.floats(1e-9, 0.49)
distances = st.floats(1e-3, 1e3)
quick = settings(max_examples=60, deadline=None)


def lattice_laws(epsilon: float, delta: float, steps: int) -> list[LatticeNoise]:
    return [
        LatticeDiracLaplace(epsilon, delta, steps),
        LatticeStaircase(epsilon, steps),
        LatticeDiracStaircase(epsilon, delta, steps),
        LatticeTruncatedLaplace(epsilon, delta, steps),
        LatticeGaussian.calibrated(epsilon, delta, steps),
    ]


def line_laws(epsilon: float, delta: float, distance: float) -> list[ContinuousLaw]:
    return [law(epsilon, delta, distance) for law in (Staircase, DiracStaircase, TruncatedLaplace, Gaussian)]


@quick
@given(epsilons, deltas, distances, st.lists(st.floats(-40.0, 40.0), min_size=2, max_size=20))
def test_lines_are_symmetric_and_their_cdfs_monotone(
    epsilon: float, delta: float, distance: float, scaled: list[float]
) -> None:
    for law in line_laws(epsilon, delta, distance):
        v = np.sort(np.array(scaled) * law.expected_magnitude())
        cdf = law.cdf(v)
        assert np.all(np.diff(cdf) >= -1e-15) and np.all((cdf >= 0.0) & (cdf <= 1.0))
        assert np.array_equal(law.pdf(v), law.pdf(-v))
        away = v != 0.0
        np.testing.assert_allclose(law.cdf(-v[away]), 1.0 - cdf[away], rtol=0, atol=1e-15)


@quick
@given(epsilons, deltas, distances, st.lists(st.floats(0.0, 1.0), min_size=2, max_size=20))
def test_ppfs_are_monotone_and_inverse(epsilon: float, delta: float, distance: float, levels: list[float]) -> None:
    t = np.sort(levels)
    for law in line_laws(epsilon, delta, distance):
        v = law.ppf(t)
        assert np.all(v[1:] >= v[:-1])
        away = (v != 0.0) & np.isfinite(v)
        np.testing.assert_allclose(law.cdf(v[away]), t[away], rtol=1e-8, atol=1e-11)


@quick
@given(epsilons, deltas, distances, st.floats(0.0, 2.0), st.floats(0.1, 3.0))
def test_the_claim_holds_and_profiles_are_ordered(
    epsilon: float, delta: float, distance: float, of_epsilon: float, of_distance: float
) -> None:
    for law in line_laws(epsilon, delta, distance):
        assert law.delta_at(epsilon) <= delta
        loss, shift = of_epsilon * epsilon, of_distance * distance
        assert 0.0 <= law.delta_at(1.1 * loss, shift) <= law.delta_at(loss, shift) <= 1.0
        assert law.delta_at(loss, shift) <= law.delta_at(loss, 1.2 * shift)


@quick
@given(epsilons, deltas, st.integers(1, 2**20), st.floats(0.0, 2.0), st.integers(1, 2**21))
def test_the_lattice_claim_holds_and_profiles_are_ordered(
    epsilon: float, delta: float, steps: int, of_epsilon: float, shift: int
) -> None:
    for law in lattice_laws(epsilon, delta, steps):
        assert law.delta_at(epsilon) <= delta
        loss = of_epsilon * epsilon
        assert 0.0 <= law.delta_at(1.1 * loss, shift) <= law.delta_at(loss, shift) <= 1.0
        assert law.delta_at(loss, shift) <= law.delta_at(loss, shift + 1)
        assert law.delta_at(math.inf) <= law.delta_at(epsilon)


@quick
@given(epsilons, deltas, st.integers(1, 2**20), st.lists(st.integers(-(2**30), 2**30), min_size=1, max_size=20))
def test_lattice_laws_are_symmetric_and_their_cdfs_monotone(
    epsilon: float, delta: float, steps: int, values: list[int]
) -> None:
    k = np.sort(values)
    for law in lattice_laws(epsilon, delta, steps):
        assert np.array_equal(law.pmf(k), law.pmf(-k))
        assert np.all(np.diff(law.cdf(k)) >= 0.0)
        np.testing.assert_allclose(law.cdf(-k - 1), 1.0 - law.cdf(k), rtol=0, atol=1e-14)
        np.testing.assert_allclose(law.cdf(k) - law.cdf(k - 1), law.pmf(k), rtol=1e-6, atol=1e-13)


@settings(max_examples=40, deadline=None)
@given(epsilons, deltas, st.integers(1, 8), st.floats(0.0, 2.0))
def test_lattice_profiles_are_never_below_the_sum_that_defines_them(
    epsilon: float, delta: float, steps: int, of_epsilon: float
) -> None:
    loss = of_epsilon * epsilon
    k = np.arange(-20_000, 20_001)
    for law in lattice_laws(epsilon, delta, steps):
        p = law.pmf(k)
        for shift in range(1, steps + 1):
            terms = np.maximum(p - math.exp(loss) * law.pmf(k - shift), 0.0)
            assert law.delta_at(loss) >= math.fsum(terms) - 1e-12


@settings(max_examples=15, deadline=None)
@given(st.floats(0.5, 10.0), st.floats(1e-4, 0.9), st.integers(1, 40))
def test_programmed_law_keeps_its_claim_on_every_shift(epsilon: float, delta: float, steps: int) -> None:
    try:
        law = LatticeOptimal.solve(epsilon, delta, steps)
    except ValueError as error:  # the solver gave up in doubles; a closed form is taken then
        assert "found no law" in str(error)
        reject()
    assert law.delta_at(epsilon) <= delta
    k = np.arange(-law.max_magnitude, law.max_magnitude + 1)
    p = law.pmf(k)
    worst = max(float(np.maximum(p - math.exp(epsilon) * law.pmf(k - s), 0.0).sum()) for s in range(1, steps + 1))
    assert abs(worst - law.delta_at(epsilon)) <= 1e-12
    closed = [row.expected_magnitude for row in comparison(epsilon, delta, steps, ["dirac-staircase", "dirac-laplace"])]
    if steps <= 16:
        assert all(law.expected_magnitude() <= value * (1 + 1e-6) + 1e-9 for value in closed if value is not None)
    assert law_from_parameters(law.name, json.loads(json.dumps(law.parameters()))) == law


@quick
@given(epsilons, st.one_of(st.just(0.0), st.floats(1e-9, 0.9)), distances)
def test_optimal_is_no_worse_than_any_member(epsilon: float, delta: float, distance: float) -> None:
    least = optimal(epsilon, delta, distance)
    assert least.delta_at(epsilon) <= delta
    for build in (DiracStaircase, Staircase, TruncatedLaplace, Gaussian):
        try:
            law = build(epsilon, delta, distance)
        except ValueError:
            continue
        assert least.expected_magnitude() <= law.expected_magnitude()


@settings(max_examples=20, deadline=None)
@given(epsilons, deltas, st.integers(1, 2**30), st.integers(0, 2**32))
def test_samples_are_integers_in_range_and_repeatable(epsilon: float, delta: float, steps: int, seed: int) -> None:
    for law in lattice_laws(epsilon, delta, steps):
        first = law.sample((5, 7), bits=SeededBits(seed))
        assert first.dtype == np.int64 and first.shape == (5, 7)
        assert np.abs(first).max() <= law.max_magnitude
        assert np.array_equal(first, law.sample((5, 7), bits=SeededBits(seed)))
        assert law_from_parameters(law.name, json.loads(json.dumps(law.parameters()))) == law
