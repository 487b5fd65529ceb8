"""Laws, privacy profiles, thresholds and bit sources of the noise, against independent computations."""

from __future__ import annotations

import dataclasses
import decimal
import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate

from tasks.noise import (
    BitSource,
    DiracLaplace,
    ExactCategorical,
    LatticeDiracLaplace,
    LatticeNoise,
    OperatingSystemBits,
    SeededBits,
)
from tasks.noise.bits import draw_half_words, draw_words
from tasks.noise.exact import exp_minus, float_upper_bound, one_minus_exp, to_threshold
from tasks.noise.geometric import group_thresholds, n_digits
from tasks.noise.lattice_dirac_laplace import _head_thresholds

CONTINUOUS = [
    (1.0, 1e-5, 1.0),
    (0.1, 0.0, 3.0),
    (8.0, 0.1, 2.0),
    (0.5, 0.5, 0.25),
    (2.0, 0.97, 1.0),
    (16.0, 1e-9, 255.0),
]
LATTICE = [
    (1.0, 1e-5, 16),
    (0.5, 0.01, 7),
    (4.0, 1e-3, 8),
    (1.0, 0.0, 1),
    (8.0, 0.3, 3),
    (30.0, 1e-5, 2),
    (1e-3, 0.9, 5),
]


# The continuous law


@pytest.mark.parametrize(("epsilon", "delta", "sensitivity"), CONTINUOUS)
def test_cdf_inverts_ppf(epsilon: float, delta: float, sensitivity: float) -> None:
    law = DiracLaplace(epsilon, delta, sensitivity)
    edge = (1 - delta) / 2
    t = np.concatenate((np.geomspace(1e-300, 1e-3, 50), np.linspace(1e-3, 1 - 1e-3, 997)))
    outside = t[(t < edge) | (t > 1 - edge)]
    np.testing.assert_allclose(law.cdf(law.ppf(outside)), outside, rtol=1e-12)
    inside = t[(t > edge) & (t < 1 - edge)]
    assert np.all(law.ppf(inside) == 0.0)
    v = np.array([-20.0, -3.0, -1e-3, -1e-9, 1e-9, 1e-3, 3.0, 20.0]) * law.noise_scale
    np.testing.assert_allclose(law.ppf(law.cdf(v)), v, rtol=1e-6, atol=1e-14 * law.noise_scale)


@pytest.mark.parametrize(("epsilon", "delta", "sensitivity"), CONTINUOUS)
def test_ppf_at_the_edges(epsilon: float, delta: float, sensitivity: float) -> None:
    law = DiracLaplace(epsilon, delta, sensitivity)
    assert law.ppf(0.0) == -math.inf and law.ppf(1.0) == math.inf and law.ppf(0.5) == 0.0
    smallest = float(law.ppf(5e-324))
    assert smallest == pytest.approx(law.noise_scale * (math.log(2 * 5e-324) - math.log1p(-delta)), rel=1e-12)
    edge = Fraction(1, 2) - Fraction(delta) / 2
    below = float(edge)
    if Fraction(below) >= edge:
        below = math.nextafter(below, 0.0)
    exact = float(Fraction(law.noise_scale) * (2 * Fraction(below) / (1 - Fraction(delta)) - 1))  # log1p(x) = x here
    assert float(law.ppf(below)) == pytest.approx(exact, rel=1e-12)
    assert float(law.ppf(below)) < 0.0
    assert law.ppf(math.nextafter(math.nextafter(below, 1.0), 1.0)) >= 0.0


def test_ppf_keeps_shape_and_refuses_levels_outside_0_and_1() -> None:
    law = DiracLaplace(1.0, 0.0, 1.0)
    assert law.ppf([[0.1, 0.2, 0.3]]).shape == (1, 3) and law.ppf(0.1).shape == () and law.ppf([]).shape == (0,)
    for t in (-1e-9, 1.0000001, math.nan, [0.5, math.nan], math.inf):
        with pytest.raises(ValueError, match="t must lie in"):
            law.ppf(t)


@pytest.mark.parametrize(("epsilon", "delta", "sensitivity"), CONTINUOUS)
def test_density_integrates_to_cdf_and_magnitude(epsilon: float, delta: float, sensitivity: float) -> None:
    law = DiracLaplace(epsilon, delta, sensitivity)
    assert law.atom == delta

    def density(v: float) -> float:
        return float(law.pdf(v))

    reach = 60 * law.noise_scale
    mass = 2 * integrate.quad(density, 0, reach)[0]
    assert mass == pytest.approx(1 - delta, rel=1e-9)
    magnitude = 2 * integrate.quad(lambda v: v * density(v), 0, reach)[0]
    assert law.expected_magnitude() == pytest.approx(magnitude, rel=1e-9)
    assert law.expected_magnitude() == pytest.approx((1 - delta) * sensitivity / epsilon, rel=1e-15)
    part = integrate.quad(density, -reach, -0.3 * law.noise_scale)[0]
    assert float(law.cdf(-0.3 * law.noise_scale)) == pytest.approx(part, rel=1e-9)
    jump = law.cdf(0.0) - law.cdf(-5e-324)
    assert float(jump) == pytest.approx(delta, abs=1e-15)
    assert law.cdf(-math.inf) == 0.0 and law.cdf(math.inf) == 1.0


@pytest.mark.parametrize(("epsilon", "delta", "sensitivity"), CONTINUOUS)
@pytest.mark.parametrize("of_epsilon", [0.0, 0.3, 0.999, 1.0, 1.7])
@pytest.mark.parametrize("of_distance", [0.4, 1.0, 2.5])
def test_profile_is_the_hockey_stick_integral(
    epsilon: float, delta: float, sensitivity: float, of_epsilon: float, of_distance: float
) -> None:
    law = DiracLaplace(epsilon, delta, sensitivity)
    loss, shift = of_epsilon * epsilon, of_distance * sensitivity

    def excess(v: float) -> float:
        return max(0.0, float(law.pdf(v)) - math.exp(loss) * float(law.pdf(v - shift)))

    turn = (shift - loss * law.noise_scale) / 2  # right of it nothing is left
    knots = sorted({-50 * law.noise_scale, -5 * law.noise_scale, min(0.0, turn), turn, shift})
    numeric = delta + sum(integrate.quad(excess, a, b, epsabs=1e-13)[0] for a, b in pairwise(knots))
    assert law.delta_at(loss, shift) == pytest.approx(numeric, rel=1e-8, abs=1e-11)


def test_profile_closed_answers() -> None:
    law = DiracLaplace(1.0, 1e-5, 1.0)
    assert law.delta_at(1.0) == 1e-5  # the paper's statement, to the last bit
    assert law.delta_at(5.0) == law.delta_at(math.inf) == 1e-5  # the atom never goes away
    assert law.delta_at(0.0) == pytest.approx(1e-5 + (1 - 1e-5) * -math.expm1(-0.5), rel=1e-15)
    assert law.delta_at(2.0, shift=2.0) == 1e-5
    assert law.delta_at(1.0, shift=2.0) == pytest.approx(1e-5 + (1 - 1e-5) * -math.expm1(-0.5), rel=1e-15)
    assert DiracLaplace(1.0, 0.0, 1.0).delta_at(1.0) == 0.0
    assert DiracLaplace(1000.0, 0.0, 1.0).delta_at(0.0) == 1.0
    # 0.1 x 3 / 0.3 is not 1 in doubles; the profile sees the doubles as the rationals they are
    assert DiracLaplace(0.1, 0.0, 0.3).delta_at(1.0, shift=3.0) < 1e-15


# The law on the lattice


@pytest.mark.parametrize(("epsilon", "delta", "sensitivity"), LATTICE)
def test_lattice_pmf_cdf_and_magnitude(epsilon: float, delta: float, sensitivity: int) -> None:
    law = LatticeDiracLaplace(epsilon, delta, sensitivity)
    reach = min(400_000, int(45 * sensitivity / epsilon) + 2)
    k = np.arange(-reach, reach + 1)
    pmf = law.pmf(k)
    assert pmf.sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(np.cumsum(pmf), law.cdf(k), rtol=1e-9, atol=1e-13)
    assert law.expected_magnitude() == pytest.approx(float(np.sum(np.abs(k) * pmf)), rel=1e-9)
    assert law.atom == delta
    assert np.array_equal(pmf, pmf[::-1])
    a = math.exp(-epsilon / sensitivity)
    assert float(law.pmf(0)) == pytest.approx(delta + (1 - delta) * (1 - a) / (1 + a), rel=1e-12)
    assert float(law.pmf(3)) == pytest.approx((1 - delta) * (1 - a) / (1 + a) * a**3, rel=1e-12)


def brute_force_profile(epsilon: float, delta: float, sensitivity: int, loss: float, shift: int) -> Decimal:
    """Both directions, all shifts, term by term in 70 digits, straight from the definition."""
    with decimal.localcontext() as exact:
        exact.prec = 70
        rate = Decimal(epsilon) / sensitivity
        a, factor = (-rate).exp(), Decimal(loss).exp()
        constant = (1 - Decimal(delta)) * (1 - a) / (1 + a)
        reach = min(3000, int(160 / rate) + 1) + shift
        powers = [constant * a**j for j in range(2 * reach + 2)]

        def p(k: int) -> Decimal:
            return powers[abs(k)] + (Decimal(delta) if k == 0 else 0)

        return max(
            sum((max(Decimal(0), p(k) - factor * p(k - s)) for k in range(-reach, reach + 1)), Decimal(0))
            for s in range(1, shift + 1)
            for s in (s, -s)
        )


@pytest.mark.parametrize(("epsilon", "delta", "sensitivity"), LATTICE[:-1])
@pytest.mark.parametrize("of_epsilon", [0.0, 0.37, 0.9999, 1.0, 1.0001, 1.5])
def test_lattice_profile_is_the_brute_force_maximum(
    epsilon: float, delta: float, sensitivity: int, of_epsilon: float
) -> None:
    law = LatticeDiracLaplace(epsilon, delta, sensitivity)
    loss = of_epsilon * epsilon
    for shift in {1, (sensitivity + 1) // 2, sensitivity, sensitivity + 3}:
        truth = brute_force_profile(epsilon, delta, sensitivity, loss, shift)
        got = law.delta_at(loss, shift)
        # The brute force has its own error: the tail beyond its reach and its 70 digits.
        assert Fraction(got) >= Fraction(truth) - Fraction(1, 10**60)
        assert Fraction(got) <= Fraction(truth) + Fraction(1, 10**60) + 2 * Fraction(math.ulp(got))


def test_lattice_profile_closed_answers() -> None:
    law = LatticeDiracLaplace(1.0, 1e-5, 2**16)
    assert law.delta_at(1.0) == 1e-5
    assert law.delta_at(2.0, shift=2**17) == 1e-5
    assert law.delta_at(math.inf) == 0.0  # unlike on the line: noise reaches every integer
    assert 0.0 < law.delta_at(1.5) < 1e-5
    assert law.delta_at(1e300) == 0.0
    assert LatticeDiracLaplace(1.0, 0.0, 8).delta_at(1.0) == 0.0
    assert LatticeDiracLaplace(1.0, 0.0, 8).delta_at(3.0) == 0.0
    # total variation distance one step apart: P(K <= 0) - P(K <= -1) = P(0)
    a = math.exp(-1.0)
    assert LatticeDiracLaplace(1.0, 0.0, 1).delta_at(0.0) == pytest.approx((1 - a) / (1 + a), rel=1e-15)
    # a fine lattice tends to the line
    line = DiracLaplace(1.0, 1e-5, 1.0)
    assert law.delta_at(0.5) == pytest.approx(line.delta_at(0.5), rel=1e-9)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-15, 100.0, 5e3, 1e9, 1e300])
@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_extreme_epsilon(epsilon: float, delta: float) -> None:
    law = LatticeDiracLaplace(epsilon, delta, 1)
    assert law.delta_at(epsilon) == delta
    assert law.delta_at(epsilon / 2) >= delta
    assert law.delta_at(0.0, shift=2) <= 1.0
    assert law.delta_at(2 * epsilon) <= delta
    k = np.array([-(2**60), -1, 0, 1, 2**60])
    assert np.all(np.isfinite(law.pmf(k))) and np.all(np.diff(law.cdf(k)) >= 0)
    assert math.isfinite(law.expected_magnitude())
    if epsilon <= 1e-9:
        assert law.expected_magnitude() == pytest.approx((1 - delta) / epsilon, rel=1e-6)
    samples = law.sample(1000, bits=SeededBits(1))
    if epsilon >= 100:
        assert not samples.any()
    else:
        assert np.abs(samples).mean() == pytest.approx(1 / epsilon, rel=0.2)


def test_limit_of_64_bit_integers() -> None:
    finest = LatticeDiracLaplace(1.0, 0.0, 2**54)
    assert finest.max_magnitude == 2**61
    assert np.abs(finest.sample(1000, bits=SeededBits(1))).max() < 2**61
    with pytest.raises(ValueError, match=r"64-bit integers: got epsilon=1\.0, sensitivity=36028797018963968"):
        LatticeDiracLaplace(1.0, 0.0, 2**55)
    with pytest.raises(ValueError, match="64-bit integers"):
        LatticeDiracLaplace(1e-17, 0.0, 1)
    with pytest.raises(ValueError, match="sensitivity must be a whole number of lattice steps"):
        LatticeDiracLaplace(1e9, 0.0, 2**61 + 1)


def test_on_lattice() -> None:
    assert DiracLaplace(1.0, 1e-5, 1.0).on_lattice(2.0**-16) == LatticeDiracLaplace(1.0, 1e-5, 65536)
    assert DiracLaplace(1.0, 1e-5, 12.0).on_lattice(4.0) == LatticeDiracLaplace(1.0, 1e-5, 3)
    law: LatticeNoise = DiracLaplace(1.0, 1e-5, 1.0).on_lattice(0.5)
    assert law.sensitivity == 2
    with pytest.raises(ValueError, match=r"power of two, got spacing=0\.1"):
        DiracLaplace(1.0, 0.0, 1.0).on_lattice(0.1)
    with pytest.raises(ValueError, match=r"whole number of lattice steps, got sensitivity=0\.3, spacing=0\.25"):
        DiracLaplace(1.0, 0.0, 0.3).on_lattice(0.25)
    with pytest.raises(ValueError, match="whole number"):
        DiracLaplace(1.0, 0.0, 1.0).on_lattice(2.0)
    for spacing in (0.0, -0.5, math.inf, math.nan):
        with pytest.raises(ValueError, match="spacing must be a finite number > 0"):
            DiracLaplace(1.0, 0.0, 1.0).on_lattice(spacing)


# Refusals


@pytest.mark.parametrize("law", [DiracLaplace, LatticeDiracLaplace])
def test_parameters_out_of_range_are_refused(law: type[DiracLaplace] | type[LatticeDiracLaplace]) -> None:
    for epsilon in (0.0, -1.0, math.inf, math.nan, "1", None, True, 10**400):
        with pytest.raises(ValueError, match="epsilon must be a finite number > 0, got epsilon="):
            law(epsilon, 0.0, 1)  # type: ignore[arg-type]
    for delta in (-1e-9, 1.0, 2.0, math.nan, "0", None, False):
        with pytest.raises(ValueError, match=r"delta must be a number in \[0, 1\), got delta="):
            law(1.0, delta, 1)  # type: ignore[arg-type]
    for sensitivity in (0, -1, math.inf, math.nan, "1", None, True):
        with pytest.raises(ValueError, match=r"sensitivity must be .*, got sensitivity="):
            law(1.0, 0.0, sensitivity)  # type: ignore[arg-type]
    good = law(1.0, 0.0, 1)
    for loss in (-1e-9, math.nan, None):
        with pytest.raises(ValueError, match="epsilon must be a number >= 0, got epsilon="):
            good.delta_at(loss)  # type: ignore[arg-type]
    for shift in (0, -1, math.nan):
        with pytest.raises(ValueError, match="shift must be"):
            good.delta_at(1.0, shift=shift)  # type: ignore[arg-type]
    with pytest.raises(dataclasses.FrozenInstanceError):
        good.epsilon = 2.0  # type: ignore[misc]


def test_other_refusals() -> None:
    with pytest.raises(ValueError, match="whole number of lattice steps"):
        LatticeDiracLaplace(1.0, 0.0, 1.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="normal double"):
        DiracLaplace(1e-300, 0.0, 1e300)
    with pytest.raises(ValueError, match="normal double"):
        DiracLaplace(1e300, 0.0, 1e-300)
    with pytest.raises(ValueError, match="whole numbers of lattice steps"):
        LatticeDiracLaplace(1.0, 0.0, 1).pmf([0.5])
    with pytest.raises(ValueError, match="negative"):
        LatticeDiracLaplace(1.0, 0.0, 1).sample(-1)


def test_numbers_of_other_types_are_taken() -> None:
    assert DiracLaplace(1, 0, 1) == DiracLaplace(1.0, 0.0, 1.0)
    assert DiracLaplace(np.float32(0.5), 0, Fraction(1, 2)) == DiracLaplace(0.5, 0.0, 0.5)  # type: ignore[arg-type]
    law = LatticeDiracLaplace(np.float64(1), np.float64(0.5), np.int64(4))  # type: ignore[arg-type]
    assert law == LatticeDiracLaplace(1.0, 0.5, 4) and type(law.sensitivity) is int and type(law.epsilon) is float


# Thresholds, against rational arithmetic that shares nothing with the code


def rational_exp_minus(x: Fraction) -> Fraction:
    """exp(-x) by halving and the Taylor series, to about 2^-700."""
    halvings = max(0, x.numerator.bit_length() - x.denominator.bit_length() + 2)
    small, unit = x / 2**halvings, 2**800
    term, total, j = Fraction(1), Fraction(0), 0
    while abs(term) * unit > 1:
        total += term
        j += 1
        term = Fraction(math.floor(term * -small / j * unit * 2**40), unit * 2**40)
    for _ in range(halvings):
        total = Fraction(math.floor(total * total * unit), unit)
    return total


def nearest(p: Fraction) -> int:
    return math.floor(p * 2**128 + Fraction(1, 2))


@pytest.mark.parametrize(
    "rate", [Fraction(1), Fraction(1, 65536), Fraction(1e-9), Fraction(7, 2), Fraction(0.1), Fraction(60)]
)
def testgroup_thresholds_are_the_product_of_independent_digits(rate: Fraction) -> None:
    n_digits = 5
    ones = []
    for j in range(n_digits):
        power = rational_exp_minus(rate * 2**j)
        ones.append(power / (1 + power))
    cumulative, expected = Fraction(0), []
    for b in range(2**n_digits - 1):
        cumulative += math.prod(p if b >> j & 1 else 1 - p for j, p in enumerate(ones))
        expected.append(nearest(cumulative))
    assert group_thresholds(rate, n_digits) == expected


@pytest.mark.parametrize(
    "rate", [Fraction(1), Fraction(1, 65536), Fraction(1e-9), Fraction(40), Fraction(300), Fraction(10**9)]
)
@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.3, 1 - 2.0**-53])
def test_sign_thresholds_are_rounded_up(rate: Fraction, delta: float) -> None:
    zero_below, plus_below = _head_thresholds(rate, delta)
    plus, minus = plus_below - zero_below, 2**128 - plus_below
    assert plus == minus
    if rate <= 300:
        a = rational_exp_minus(rate)
        assert plus == math.ceil((1 - Fraction(delta)) * a / (1 + a) * 2**128)
    else:
        assert plus == 1
    zero = Fraction(delta) + (1 - Fraction(delta)) * (1 - rational_exp_minus(min(rate, Fraction(300)))) / 2
    assert Fraction(zero_below, 2**128) <= max(zero, Fraction(1)) and zero_below >= 0


def test_number_of_digits_leaves_less_than_2_to_minus_128() -> None:
    for rate in (
        Fraction(1),
        Fraction(1, 65536),
        Fraction(1e-9),
        Fraction(89),
        Fraction(88),
        Fraction(88722839, 10**6),
    ):
        j = n_digits(rate)
        assert rational_exp_minus(rate * 2**j) < Fraction(1, 2**128)
        assert j == 0 or rational_exp_minus(rate * 2 ** (j - 1)) > Fraction(1, 2**128) * (1 - Fraction(1, 10**6))


def test_decimal_helpers_against_rationals() -> None:
    for x in (Fraction(1, 3), Fraction(10), Fraction(1, 10**18), Fraction(1, 10**40)):
        truth = rational_exp_minus(x)
        assert abs(Fraction(exp_minus(x, 60)) - truth) <= truth / 10**60
        assert abs(Fraction(one_minus_exp(x, 60)) - (1 - truth)) <= (1 - truth) / 10**60
    assert one_minus_exp(Fraction(10**7), 60) == 1
    assert float_upper_bound(Decimal("0.1")) == 0.1  # the double lies above 1/10
    assert float_upper_bound(Decimal("0.3")) == math.nextafter(0.3, 1)  # and below 3/10
    assert float_upper_bound(Decimal("0.25")) == 0.25


def test_threshold_asks_for_more_digits_when_it_must() -> None:
    asked = []
    value = (Fraction(2**127) + Fraction(1, 2) + Fraction(1, 10**70)) / 2**128  # 10^-70 above a rounding boundary

    def evaluate(digits: int) -> Decimal:
        asked.append(digits)
        with decimal.localcontext() as exact:
            exact.prec = digits + 5
            return Decimal(value.numerator) / Decimal(value.denominator)

    assert to_threshold(evaluate, "nearest") == 2**127 + 1
    assert len(asked) == 2 and asked[1] > asked[0]
    assert to_threshold(evaluate, "up") == 2**127 + 1


@pytest.mark.parametrize(("epsilon", "delta", "sensitivity"), LATTICE)
def test_sampling_bias_bounds_the_rounding(epsilon: float, delta: float, sensitivity: int) -> None:
    law = LatticeDiracLaplace(epsilon, delta, sensitivity)
    assert 2.0**-128 < law.sampling_bias < 2.0**-117
    if delta > 0:
        assert law.delta_at(epsilon) + (1 + math.exp(epsilon)) * law.sampling_bias == delta or epsilon > 20


# Exact drawing


class Script:
    """A bit source that gives the words it was told to."""

    label = "script"

    def __init__(self, words: Sequence[int]) -> None:
        self.left = list(words)

    def words(self, n_words: int) -> NDArray[np.uint64]:
        taken, self.left = self.left[:n_words], self.left[n_words:]
        return np.array(taken, dtype=np.uint64)


def draw_at(law: ExactCategorical, u: int) -> int:
    """The category at the 128-bit number u, fed as the sampler asks: 16 bits, 48 bits, 64 bits."""
    source = Script([u >> 112, ((u >> 64) & (2**48 - 1)) << 16, u & (2**64 - 1)])
    return int(law.draw(1, source)[0])


@pytest.mark.parametrize(
    "thresholds",
    [
        [0, 2**127 + 12345],
        [2**128],
        [2**128 - 2, 2**128 - 1],
        [1],
        [5, 5, 5, 2**112, 2**112 + 1, 2**127, 2**128],
        [2**64, 2**64, 2**64 + 1, 2**65],
        group_thresholds(Fraction(1, 100), 8),
        _head_thresholds(Fraction(1, 65536), 1e-5),
    ],
)
def test_drawn_category_counts_the_thresholds_at_or_below_u(thresholds: list[int]) -> None:
    law = ExactCategorical(thresholds)
    points = {0, 1, 2**128 - 1, 2**127}
    for c in thresholds:
        points |= {c - 2**64, c - 1, c, c + 1, c + 2**64, (c >> 64) << 64, ((c >> 64) << 64) + 2**64 - 1}
    for u in points:
        if 0 <= u < 2**128:
            assert draw_at(law, u) == sum(c <= u for c in thresholds)


def test_categorical_without_thresholds_and_refusals() -> None:
    assert np.array_equal(ExactCategorical([]).draw(5, SeededBits(0)), np.zeros(5))
    for bad, why in (([2, 1], "decrease"), ([-1], "lie in"), ([2**128 + 1], "lie in"), ([0] * 65535, "fewer")):
        with pytest.raises(ValueError, match=why):
            ExactCategorical(bad)


# Bit sources


def test_operating_system_bits() -> None:
    source = OperatingSystemBits()
    assert source.label == "os-csprng" and isinstance(source, BitSource)
    drawn = source.words(1000)
    assert drawn.dtype == np.uint64 and drawn.shape == (1000,) and len(np.unique(drawn)) == 1000
    assert source.words(0).shape == (0,)
    assert not np.array_equal(source.words(4), source.words(4))


def test_seeded_bits_are_a_fixed_stream() -> None:
    source = SeededBits(7)
    assert source.label == "seeded (not private)" and isinstance(source, BitSource)
    parts = np.concatenate((source.words(3), source.words(0), source.words(5)))
    assert np.array_equal(parts, SeededBits(7).words(8))
    assert not np.array_equal(parts, SeededBits(8).words(8))
    assert SEEDED_FIRST == [int(w) for w in SeededBits(0).words(3)]


SEEDED_FIRST = [11749869230777074271, 4976686463289251617, 755828109848996024]
"""The first words for seed 0, the same on every platform and NumPy release: NumPy's published stream policy."""


def test_seeded_samples_leave_the_global_generator_alone() -> None:
    before = np.random.get_state()  # noqa: NPY002
    LatticeDiracLaplace(1.0, 1e-5, 100).sample(1000, bits=SeededBits(1))
    after = np.random.get_state()  # noqa: NPY002
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


def test_half_words_are_the_words_lowest_bits_first() -> None:
    assert draw_half_words(Script([0x4444333322221111, 5]), 5).tolist() == [0x1111, 0x2222, 0x3333, 0x4444, 5]
    assert draw_half_words(Script([]), 0).shape == (0,)


def test_bad_bit_sources_and_counts_are_refused() -> None:
    for seed in (-1, 1.5, "1", None, True):
        with pytest.raises(ValueError, match="seed must be an integer of at least 0"):
            SeededBits(seed)  # type: ignore[arg-type]
    for source in (OperatingSystemBits(), SeededBits(1)):
        with pytest.raises(ValueError, match="n_words must be at least 0, got n_words=-1"):
            source.words(-1)
    with pytest.raises(TypeError, match="bits must be a bit source"):
        LatticeDiracLaplace(1.0, 0.0, 1).sample(3, bits=np.random.default_rng(1))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"must give a uint64 array of shape \(9,\), got uint64 of shape \(1,\)"):
        draw_words(Script([1]), 9)

    class Floats:
        label = "floats"

        def words(self, n_words: int) -> NDArray[np.float64]:
            return np.zeros(n_words)

    with pytest.raises(ValueError, match="got float64"):
        draw_words(Floats(), 2)  # type: ignore[arg-type]
