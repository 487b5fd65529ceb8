"""What must hold for every mechanism of the Dirac-Laplace family, whatever its parameters."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tasks.noise import DiracLaplace, ExactCategorical, LatticeDiracLaplace, SeededBits

epsilons = st.floats(1e-4, 50.0)
deltas = st.one_of(st.just(0.0), st.floats(1e-12, 0.999))
distances = st.floats(1e-3, 1e3)
steps = st.integers(1, 2**20)
losses = st.floats(0.0, 100.0)
quick = settings(max_examples=100, deadline=None)


@quick
@given(epsilons, deltas, distances, st.lists(st.floats(-40.0, 40.0), min_size=2, max_size=20))
def test_line_is_symmetric_and_its_cdf_monotone(
    epsilon: float, delta: float, distance: float, scaled: list[float]
) -> None:
    law = DiracLaplace(epsilon, delta, distance)
    v = np.sort(np.array(scaled) * law.noise_scale)
    cdf = law.cdf(v)
    assert np.all(np.diff(cdf) >= 0.0) and np.all((cdf >= 0.0) & (cdf <= 1.0))
    assert np.array_equal(law.pdf(v), law.pdf(-v))
    away = v != 0.0
    np.testing.assert_allclose(law.cdf(-v[away]), 1.0 - cdf[away], rtol=0, atol=1e-15)


@quick
@given(epsilons, deltas, distances, st.lists(st.floats(0.0, 1.0), min_size=2, max_size=20))
def test_ppf_is_monotone_and_antisymmetric(epsilon: float, delta: float, distance: float, levels: list[float]) -> None:
    law = DiracLaplace(epsilon, delta, distance)
    t = np.sort(levels)
    v = law.ppf(t)
    assert np.all(v[1:] >= v[:-1])
    mirrored = 1.0 - t
    exact = 1.0 - mirrored == t  # 1 - t must be a double for the mirror image to be the same level
    assert np.array_equal(law.ppf(mirrored[exact]), -v[exact])
    assert np.all((v == 0.0) | (np.abs(t - 0.5) >= delta / 2))


@quick
@given(epsilons, deltas, steps, st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=20))
def test_lattice_is_symmetric_and_its_cdf_monotone(
    epsilon: float, delta: float, sensitivity: int, values: list[int]
) -> None:
    law = LatticeDiracLaplace(epsilon, delta, sensitivity)
    k = np.sort(values)
    assert np.array_equal(law.pmf(k), law.pmf(-k))
    assert np.all(np.diff(law.cdf(k)) >= 0.0)
    np.testing.assert_allclose(law.cdf(-k - 1), 1.0 - law.cdf(k), rtol=0, atol=1e-15)
    np.testing.assert_allclose(law.cdf(k) - law.cdf(k - 1), law.pmf(k), rtol=1e-9, atol=1e-15)


@quick
@given(epsilons, epsilons, deltas, steps)
def test_more_epsilon_is_less_noise_and_less_privacy(
    first: float, second: float, delta: float, sensitivity: int
) -> None:
    low, high = sorted((first, second))
    assume(high > low * (1 + 1e-9))
    for more, less in (
        (DiracLaplace(low, delta, sensitivity), DiracLaplace(high, delta, sensitivity)),
        (LatticeDiracLaplace(low, delta, sensitivity), LatticeDiracLaplace(high, delta, sensitivity)),
    ):
        assert more.expected_magnitude() > less.expected_magnitude()
        for loss in (0.0, low, (low + high) / 2, high):
            assert more.delta_at(loss) <= less.delta_at(loss)


@quick
@given(epsilons, deltas, steps, losses, losses, st.integers(1, 2**21), st.integers(1, 2**21))
def test_profiles_fall_with_the_loss_and_rise_with_the_shift(
    epsilon: float, delta: float, sensitivity: int, e1: float, e2: float, s1: int, s2: int
) -> None:
    for law in (DiracLaplace(epsilon, delta, sensitivity), LatticeDiracLaplace(epsilon, delta, sensitivity)):
        near, far = sorted((s1, s2))
        small, large = sorted((e1, e2))
        assert 0.0 <= law.delta_at(large, near) <= law.delta_at(small, near) <= 1.0
        assert law.delta_at(small, near) <= law.delta_at(small, far)
        assert law.delta_at(epsilon) == delta


@quick
@given(epsilons, deltas, steps, losses)
def test_lattice_profile_lies_between_the_line_and_randomized_response(
    epsilon: float, delta: float, sensitivity: int, loss: float
) -> None:
    """Below its epsilon the lattice's law tells more than the line's, so it is the one to claim and compose.

    It touches the line where (D - e/rate) is an even integer, and at D = 1 it is randomized response, the
    worst of all epsilon-private laws.
    """
    line = DiracLaplace(epsilon, delta, sensitivity).delta_at(loss)
    lattice = LatticeDiracLaplace(epsilon, delta, sensitivity).delta_at(loss)
    coarsest = LatticeDiracLaplace(epsilon, delta, 1).delta_at(loss)
    if loss <= epsilon:
        worst = delta + (1 - delta) * math.expm1(epsilon - loss) / (math.exp(epsilon - loss) + math.exp(-loss))
        assert line * (1 - 1e-15) <= lattice <= coarsest * (1 + 1e-15)
        assert math.isclose(coarsest, worst, rel_tol=1e-12, abs_tol=1e-300)
    else:
        assert lattice <= line == delta
    even = LatticeDiracLaplace(epsilon, delta, 2 * sensitivity).delta_at(0.0)
    assert math.isclose(even, DiracLaplace(epsilon, delta, 1.0).delta_at(0.0), rel_tol=1e-15)


@settings(max_examples=40, deadline=None)
@given(epsilons, deltas, st.integers(1, 8), st.floats(0.0, 2.0))
def test_lattice_profile_is_never_below_the_sum_that_defines_it(
    epsilon: float, delta: float, sensitivity: int, of_epsilon: float
) -> None:
    law = LatticeDiracLaplace(epsilon, delta, sensitivity)
    loss = of_epsilon * epsilon
    k = np.arange(-20_000, 20_001)
    p = law.pmf(k)
    for shift in range(1, sensitivity + 1):
        terms = np.maximum(p - math.exp(loss) * law.pmf(k - shift), 0.0)
        assert law.delta_at(loss) >= math.fsum(terms) - 1e-13


@settings(max_examples=30, deadline=None)
@given(epsilons, deltas, st.integers(1, 2**30), st.integers(0, 2**32))
def test_samples_are_integers_in_range_and_repeatable(
    epsilon: float, delta: float, sensitivity: int, seed: int
) -> None:
    law = LatticeDiracLaplace(epsilon, delta, sensitivity)
    first = law.sample((5, 7), bits=SeededBits(seed))
    assert first.dtype == np.int64 and first.shape == (5, 7)
    assert np.abs(first).max() <= law.max_magnitude
    assert np.array_equal(first, law.sample((5, 7), bits=SeededBits(seed)))


@quick
@given(st.lists(st.integers(0, 2**128), max_size=40), st.integers(0, 2**32))
def test_categorical_stays_in_its_categories(thresholds: list[int], seed: int) -> None:
    """Any thresholds, however crowded; the long-run frequencies follow them."""
    ordered = sorted(thresholds)
    drawn = ExactCategorical(ordered).draw(2000, SeededBits(seed))
    assert drawn.max(initial=0) <= len(ordered)
    reached = [Fraction(b - a, 2**128) for a, b in zip([0, *ordered], [*ordered, 2**128], strict=True)]
    assert all(reached[i] > 0 for i in np.unique(drawn))
