"""Gaussian, staircase, truncated Laplace and programmed noise: laws and profiles against independent computations."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate

from tasks.noise import (
    MECHANISMS,
    DiracLaplace,
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
    gaussian_delta,
    gaussian_standard_deviation,
    law_from_parameters,
    optimal,
    optimal_on_lattice,
)
from tasks.noise.bits import draw_below
from tasks.noise.buckets import BucketSampler
from tasks.noise.lattice_gaussian import _GaussianDecay
from tasks.noise.lattice_staircase import _mean_magnitude
from tasks.noise.lattice_truncated_laplace import _LaplaceDecay
from tasks.noise.linear_programme import _cells
from tasks.noise.normal import mills_ratio, normal_tail, pi
from tasks.noise.optimal import ContinuousLaw
from tests.benchmarks.bench_noise_limit import least_expected_magnitude

PARAMETERS = [(1.0, 1e-2, 8), (0.3, 1e-3, 5), (4.0, 1e-3, 16), (2.0, 0.3, 2), (1.0, 0.1, 1), (7.0, 1e-6, 30)]
CONTINUOUS: list[ContinuousLaw] = [
    law(epsilon, delta, sensitivity)
    for law in (Staircase, DiracStaircase, TruncatedLaplace, Gaussian)
    for epsilon, delta, sensitivity in ((1.0, 1e-3, 1.0), (3.0, 0.2, 0.7), (0.2, 0.01, 5.0))
]
LATTICE: list[LatticeNoise] = [
    law
    for epsilon, delta, sensitivity in PARAMETERS
    for law in (
        LatticeStaircase(epsilon, sensitivity),
        LatticeDiracStaircase(epsilon, delta, sensitivity),
        LatticeTruncatedLaplace(epsilon, delta, sensitivity),
        LatticeGaussian.calibrated(epsilon, delta, sensitivity),
    )
] + [LatticeOptimal.solve(*case) for case in ((1.0, 1e-2, 8), (2.0, 0.3, 2), (4.0, 1e-3, 40), (1.0, 0.1, 1))]


def name_of(law: object) -> str:
    return repr(law)[:60]


# The normal law in many digits


def test_normal_tail_known_digits() -> None:
    """Known digits of the normal distribution function, from mpmath 1.4."""
    known = {
        Fraction(1): "0.158655253931457051414767454367962077522087033273395609012606",
        Fraction(10): "7.61985302416052606597334325159930836350403327795696057803536e-24",
        Fraction(1, 3): "0.369441340181763638272792282069573583328254369957550359395",
    }
    with localcontext() as exact:
        exact.prec = 70
        for t, digits in known.items():
            assert abs(normal_tail(t, 50) / Decimal(digits) - 1) < Decimal(10) ** -50
    assert str(pi(40)).startswith("3.141592653589793238462643383279502884197")
    assert normal_tail(Fraction(0), 50) == Decimal("0.5")


def test_mills_ratio_series_and_fraction_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    for t in (Fraction(5), Fraction(15, 2)):
        by_series = mills_ratio(t, 60)
        monkeypatch.setattr("tasks.noise.normal._SERIES_UP_TO", 1)
        by_fraction = mills_ratio(t, 60)
        monkeypatch.undo()
        assert abs(Fraction(by_series) / Fraction(by_fraction) - 1) < Fraction(1, 10**59)


# Laws on the line


@pytest.mark.parametrize("law", CONTINUOUS, ids=name_of)
def test_density_integrates_to_cdf_and_magnitude(law: ContinuousLaw) -> None:
    reach = 45.0 * law.expected_magnitude() + 2.0 * law.sensitivity
    v = np.linspace(0.0, reach, 2_000_001)
    middle = (v[1:] + v[:-1]) / 2
    mass = law.pdf(middle) * (v[1] - v[0])
    assert 2 * mass.sum() + law.atom == pytest.approx(1.0, abs=2e-5)
    assert 2 * float(np.sum(mass * middle)) == pytest.approx(law.expected_magnitude(), rel=2e-4)
    np.testing.assert_allclose(law.cdf(v[1:]), 0.5 + law.atom / 2 + np.cumsum(mass), atol=2e-5)
    assert law.cdf(-np.inf) == 0.0 and law.cdf(np.inf) == 1.0
    np.testing.assert_array_equal(law.pdf(-middle), law.pdf(middle))
    np.testing.assert_allclose(law.cdf(-middle), 1.0 - law.cdf(middle), atol=1e-15)


@pytest.mark.parametrize("law", CONTINUOUS, ids=name_of)
def test_cdf_inverts_ppf(law: ContinuousLaw) -> None:
    t = np.concatenate((np.geomspace(1e-12, 1e-3, 50), np.linspace(1e-3, 1 - 1e-3, 999)))
    v = law.ppf(t)
    away = v != 0.0
    np.testing.assert_allclose(law.cdf(v[away]), t[away], rtol=1e-9, atol=1e-15)  # A - v cancels near a cut
    assert np.all(np.abs(t[~away] - 0.5) <= law.atom / 2 + 1e-12) and law.ppf(0.5) == 0.0
    assert np.all(np.diff(v) >= 0)
    np.testing.assert_allclose(law.ppf(1 - t[50:]), -v[50:], rtol=1e-9, atol=1e-12)
    for bad in (-1e-9, 1.1, math.nan):
        with pytest.raises(ValueError, match="t must lie in"):
            law.ppf(bad)


@pytest.mark.parametrize("law", CONTINUOUS, ids=name_of)
@pytest.mark.parametrize("of_epsilon", [0.0, 0.3, 1.0, 1.7])
@pytest.mark.parametrize("of_distance", [0.3, 1.0, 1.6, 3.0])
def test_profile_is_the_hockey_stick_integral(law: ContinuousLaw, of_epsilon: float, of_distance: float) -> None:
    loss, shift = of_epsilon * law.epsilon, of_distance * law.sensitivity
    reach = 40.0 * law.expected_magnitude() + 4.0 * law.sensitivity
    v = np.linspace(-reach, shift, 1_000_001)
    middle = (v[1:] + v[:-1]) / 2
    excess = np.maximum(law.pdf(middle) - math.exp(loss) * law.pdf(middle - shift), 0.0)
    numeric = law.atom + float(excess.sum()) * (v[1] - v[0])
    assert law.delta_at(loss, shift) == pytest.approx(numeric, abs=1e-4)


def test_closed_answers_on_the_line() -> None:
    gaussian = Gaussian(1.0, 1e-5, 2.0)
    assert gaussian.standard_deviation == pytest.approx(2 * 3.730632, rel=1e-6)  # dp_accounting's, sensitivity 1
    assert gaussian.expected_magnitude() == pytest.approx(gaussian.standard_deviation * math.sqrt(2 / math.pi))
    assert gaussian_delta(4.377178096, 1.0, 1.0) == pytest.approx(1e-5, rel=1e-7)  # dp_accounting's epsilon at sigma 1
    assert gaussian_delta(0.0, 1.0, 1.0) == pytest.approx(math.erf(0.5 / math.sqrt(2)), rel=1e-14)  # total variation
    assert gaussian_delta(math.inf, 1.0, 1.0) == 0.0 and gaussian_delta(1e9, 1.0, 1.0) == 5e-324
    assert gaussian_delta(0.5, 1e-3, 1.0) == 1.0
    staircase = Staircase(1.0, 1e-5, 1.0)
    assert staircase.expected_magnitude() == pytest.approx(0.9595, abs=5e-5)
    assert Staircase(8.0, 0.0, 1.0).expected_magnitude() == pytest.approx(0.0183, abs=5e-5)
    assert staircase.delta_at(1.0) == 0.0 and staircase.delta_at(math.inf) == 0.0
    assert staircase.delta_at(2.0, shift=2.0) == 0.0
    for law in (DiracStaircase(1.0, 0.01, 1.0), DiracStaircase(0.1, 1e-9, 0.3)):
        assert law.delta_at(law.epsilon) == law.delta_at(7 * law.epsilon) == law.delta_at(math.inf) == law.delta
    truncated = TruncatedLaplace(1.0, 1e-3, 3.0)
    assert truncated.reach == pytest.approx(3 * math.log1p(math.expm1(1.0) / 2e-3), rel=1e-14)
    assert truncated.delta_at(1.0) <= 1e-3 and truncated.delta_at(1.0) == pytest.approx(1e-3, rel=1e-13)
    assert truncated.delta_at(1.0) == truncated.delta_at(math.inf)
    assert truncated.delta_at(0.0, shift=2 * truncated.reach) == 1.0


@pytest.mark.parametrize("delta", [1e-200, 1e-12, 1e-5, 0.3, 0.999])
@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 0.7, 5.0, 1e4])
def test_gaussian_calibration_is_tight(epsilon: float, delta: float) -> None:
    sigma = gaussian_standard_deviation(epsilon, delta, 3.0)
    assert gaussian_delta(epsilon, sigma, 3.0) <= delta
    assert gaussian_delta(epsilon, sigma * (1 - 1e-9), 3.0) > delta


def test_calibration_agrees_with_dp_accounting() -> None:
    mechanism = pytest.importorskip("dp_accounting.gaussian_mechanism", reason="dp_accounting is not installed")
    for epsilon, delta in ((0.1, 1e-6), (1.0, 1e-5), (8.0, 1e-2)):
        expected = mechanism.get_sigma_gaussian(epsilon, delta)
        assert gaussian_standard_deviation(epsilon, delta, 1.0) == pytest.approx(expected, rel=1e-6)


def test_staircase_at_a_high_epsilon() -> None:
    law = Staircase(1300.0, 0.0, 1.0)
    assert law.expected_magnitude() < 1e-280 and law.delta_at(1299.0) > 0.6 and law.delta_at(1300.0) == 0.0
    with pytest.raises(ValueError, match="epsilon must be at most 1300 for the staircase on the line"):
        Staircase(1301.0, 0.0, 1.0)
    assert LatticeStaircase(1301.0, 4).expected_magnitude() == 0.0


# Laws on the lattice


@pytest.mark.parametrize("law", LATTICE, ids=name_of)
def test_lattice_pmf_cdf_and_magnitude(law: LatticeNoise) -> None:
    reach = min(law.max_magnitude, int(60 * law.expected_magnitude()) + 30 * law.sensitivity)
    k = np.arange(-reach - 2, reach + 3)
    pmf = law.pmf(k)
    assert pmf.sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(np.cumsum(pmf), law.cdf(k), atol=1e-12)
    assert law.expected_magnitude() == pytest.approx(float(np.sum(np.abs(k) * pmf)), rel=1e-11)
    np.testing.assert_array_equal(pmf, pmf[::-1])
    np.testing.assert_allclose(np.exp(law.log_pmf(k)), pmf, rtol=1e-11, atol=1e-300)
    assert 0.0 <= law.atom <= float(law.pmf(0))
    assert 2.0**-130 < law.sampling_bias < 2.0**-116
    with pytest.raises(ValueError, match="whole numbers of lattice steps"):
        law.pmf([0.5])


def exact_masses(law: LatticeNoise) -> Callable[[int], Decimal]:
    """The probability of a magnitude in 60 digits, straight from the definition of each law."""
    if isinstance(law, LatticeOptimal):
        sizes = np.diff([0, *law.ends])
        total = 2 * sum(int(s) * w for s, w in zip(sizes, law.weights, strict=True)) - law.weights[0]
        table = [Decimal(w) / total for s, w in zip(sizes, law.weights, strict=True) for _ in range(int(s))]
        return lambda m: table[m] if m < len(table) else Decimal(0)
    if isinstance(law, LatticeGaussian):
        sigma, half = Fraction(law.standard_deviation), Fraction(1, 2)
        return lambda m: normal_tail((m - half) / sigma, 60) - normal_tail((m + half) / sigma, 60)
    if isinstance(law, LatticeTruncatedLaplace):
        a, reach = (Decimal(-law.epsilon) / law.sensitivity).exp(), law.max_magnitude
        total_mass = 1 + 2 * sum(a**m for m in range(1, reach + 1))
        return lambda m: a**m / total_mass if m <= reach else Decimal(0)
    assert isinstance(law, (LatticeStaircase, LatticeDiracStaircase))
    b, period, rise, delta = Decimal(-law.epsilon).exp(), law.sensitivity, law.rise, Decimal(law.atom)
    assert rise is not None
    whole = 2 * (rise + b * (period - rise)) / (1 - b) - 1
    return lambda m: (1 - delta) * b ** ((m + period - rise) // period) / whole + (delta if m == 0 else 0)


def brute_force_profile(mass: Callable[[int], Decimal], reach: int, loss: float, shift: int) -> Decimal:
    """Both directions, all shifts up to `shift`, term by term."""
    with localcontext() as exact:
        exact.prec = 70
        table = [mass(m) for m in range(reach + shift + 1)]
        factor = Decimal(loss).exp()
        return max(
            sum(
                (max(Decimal(0), table[abs(k)] - factor * table[abs(k - s)]) for k in range(-reach, reach + 1)),
                Decimal(0),
            )
            for t in range(1, shift + 1)
            for s in (t, -t)
        )


@pytest.mark.parametrize(
    "law", [law for law in LATTICE if law.sensitivity <= 8 and law.expected_magnitude() < 10], ids=name_of
)
def test_lattice_profile_is_the_brute_force_maximum(law: LatticeNoise) -> None:
    """At losses below, at and above the mechanism's, at shifts smaller and larger than D."""
    with localcontext() as exact:
        exact.prec = 70
        reach = min(law.max_magnitude, int(50 * law.expected_magnitude()) + 2 * law.sensitivity)
        mass = exact_masses(law)
    epsilon = getattr(law, "epsilon", 1.0)
    for loss in (0.0, 0.41 * epsilon, epsilon, 2.3 * epsilon):
        for shift in {max(1, law.sensitivity // 2), law.sensitivity, 2 * law.sensitivity + 1}:
            truth = brute_force_profile(mass, reach, loss, shift)
            got = law.delta_at(loss, shift)
            # The brute force leaves out what lies beyond its reach.
            tail = Fraction(float(2 * law.cdf(-reach - 1)) * 2 + 1e-55) if law.max_magnitude > reach else Fraction(0)
            assert Fraction(got) >= Fraction(truth) - Fraction(1, 10**50)
            assert Fraction(got) <= Fraction(truth) + tail + Fraction(1, 10**36) + 2 * Fraction(math.ulp(got))


def test_closed_answers_on_the_lattice() -> None:
    for epsilon, delta, steps in PARAMETERS:
        assert LatticeStaircase(epsilon, steps).delta_at(epsilon) == 0.0
        assert LatticeStaircase(epsilon, steps).delta_at(4 * epsilon, 4 * steps) == 0.0  # exact in doubles
        assert LatticeDiracStaircase(epsilon, delta, steps).delta_at(epsilon) == delta
        assert 0.0 < LatticeTruncatedLaplace(epsilon, delta, steps).delta_at(epsilon) <= delta
        gaussian = LatticeGaussian.calibrated(epsilon, delta, steps)
        assert gaussian.delta_at(epsilon) <= gaussian.delta_at_distance(epsilon, steps) <= delta
    # At D = 1 the staircase is the two-sided geometric law.
    k = np.arange(-20, 21)
    np.testing.assert_allclose(LatticeStaircase(0.7, 1).pmf(k), LatticeDiracLaplace(0.7, 0.0, 1).pmf(k), rtol=1e-13)
    # A fine lattice tends to the line.
    fine = 2**20
    for law in (Staircase(2.0, 0.0, 1.0), DiracStaircase(2.0, 0.01, 1.0), TruncatedLaplace(2.0, 0.01, 1.0)):
        on_lattice = law.on_lattice(1.0 / fine)
        assert on_lattice.expected_magnitude() / fine == pytest.approx(law.expected_magnitude(), rel=1e-5)
        for loss in (0.0, 1.1, 1.9):
            assert on_lattice.delta_at(loss) == pytest.approx(law.delta_at(loss), rel=1e-4)
    gaussian_line = Gaussian(2.0, 0.01, 1.0)
    assert gaussian_line.on_lattice(2.0**-20).delta_at(2.0) == pytest.approx(0.01, rel=1e-9)
    with pytest.raises(ValueError, match="power of two"):
        gaussian_line.on_lattice(0.1)


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 5.0, 20.0])
@pytest.mark.parametrize("steps", [1, 2, 7, 64, 1000])
def test_rise_is_the_best(epsilon: float, steps: int) -> None:
    law = LatticeStaircase(epsilon, steps)
    assert law.expected_magnitude() == min(_mean_magnitude(epsilon, steps, rise) for rise in range(1, steps + 1))


@pytest.mark.parametrize("standard_deviation", [0.02, 0.3, 3.0, 199.0, 201.0, 999.0, 1001.0, 1e12, 2.0**49])
def test_gaussian_formulas_across_scales(standard_deviation: float) -> None:
    law = LatticeGaussian(standard_deviation)
    at = np.unique(np.rint(np.array([0, 0.1, 1, 2.5, 6]) * standard_deviation)).astype(np.int64)
    for k, p, log_p in zip(at, law.pmf(at), law.log_pmf(at), strict=True):
        sigma, half = Fraction(standard_deviation), Fraction(1, 2)
        truth = float(normal_tail((int(k) - half) / sigma, 60) - normal_tail((int(k) + half) / sigma, 60))
        assert p == pytest.approx(truth, rel=1e-10)
        assert log_p == pytest.approx(math.log(truth), rel=1e-12, abs=1e-10)
    if standard_deviation > 100:
        below = LatticeGaussian(math.nextafter(200.0, 0.0)).expected_magnitude()
        assert LatticeGaussian(200.0).expected_magnitude() == pytest.approx(below, rel=1e-13)
        assert law.expected_magnitude() == pytest.approx(standard_deviation * math.sqrt(2 / math.pi), rel=1e-5)
    assert math.isfinite(float(law.log_pmf(int(1000 * standard_deviation) + 1)))
    samples = law.sample(1000, bits=SeededBits(1))
    assert np.abs(samples).mean() == pytest.approx(law.expected_magnitude(), rel=0.2, abs=0.01)


@pytest.mark.parametrize("epsilon", [1e-9, 100.0, 5e3])
def test_extreme_epsilon(epsilon: float) -> None:
    for law in (
        LatticeStaircase(epsilon, 1),
        LatticeStaircase(epsilon, 1000),
        LatticeDiracStaircase(epsilon, 0.1, 3),
        LatticeTruncatedLaplace(epsilon, 1e-5, 7),
        LatticeGaussian.calibrated(epsilon, 1e-5, 100),
    ):
        assert law.delta_at(epsilon) <= getattr(law, "delta", 1e-5)
        assert law.delta_at(2 * epsilon) <= law.delta_at(epsilon) <= law.delta_at(epsilon / 2) <= 1.0
        k = np.array([-(2**60), -1, 0, 1, 2**60])
        assert np.all(np.isfinite(law.pmf(k))) and np.all(np.diff(law.cdf(k)) >= 0)
        samples = law.sample(2000, bits=SeededBits(2))
        assert np.abs(samples).max() <= law.max_magnitude
        assert np.abs(samples).mean() == pytest.approx(law.expected_magnitude(), rel=0.2, abs=0.05)


# The programmed law


@pytest.mark.parametrize(("epsilon", "delta", "steps"), [(1.0, 1e-2, 8), (2.0, 0.05, 255), (4.0, 1e-2, 2**16)])
def test_programmed_law_is_private_and_least(epsilon: float, delta: float, steps: int) -> None:
    law = LatticeOptimal.solve(epsilon, delta, steps)
    assert law.delta_at(epsilon) <= delta
    assert law.delta_at(epsilon) == pytest.approx(delta, rel=1e-6)
    assert law.expected_magnitude() < min(
        row.expected_magnitude
        for row in comparison(epsilon, delta, steps)
        if row.name != "lattice-optimal" and row.expected_magnitude is not None
    )
    assert LatticeOptimal.solve(epsilon, delta, steps) is law  # kept in memory


def test_programmed_profile_over_every_shift() -> None:
    """The maximum over the critical shifts is the maximum over all, also where the law does not fall with |k|."""
    law = LatticeOptimal.solve(2.0, 0.2, 40)
    assert any(a < b for a, b in pairwise(law.weights))
    k = np.arange(-law.max_magnitude, law.max_magnitude + 1)
    p = law.pmf(k)
    for loss in (0.0, 1.3, 2.0):
        each = [float(np.maximum(p - math.exp(loss) * law.pmf(k - s), 0).sum()) for s in range(1, 90)]
        for shift in (1, 17, 40, 89):
            assert law.delta_at(loss, shift) == pytest.approx(max(each[:shift]), rel=1e-12)
    assert law.delta_at(2.0, 2 * law.max_magnitude + 1) == 1.0
    uncovered = float(2 * law.cdf(-law.max_magnitude - 1 + 40) / 2)
    assert law.delta_at(math.inf) == pytest.approx(uncovered, rel=1e-12)


def test_weights_without_the_guarantee_are_refused() -> None:
    law = LatticeOptimal.solve(1.0, 1e-2, 8)
    with pytest.raises(ValueError, match=r"the weights give delta=0\.0.* above the claimed 0\.005"):
        dataclasses.replace(law, delta=0.005)
    heavier = (*law.weights[:-1], law.weights[-1] * 40)
    with pytest.raises(ValueError, match="the weights give delta="):
        dataclasses.replace(law, weights=heavier)
    for ends, weights, why in (
        ((1, 1), (1, 1), "ends must increase"),
        ((1, 2), (1,), "as many weights"),
        ((1, 2), (0, 0), "not all be 0"),
        ((1, 2), (1, 2**53), "weights must lie"),
        ((0, 2), (1, 1), "ends must be a whole number"),
    ):
        with pytest.raises(ValueError, match=why):
            LatticeOptimal(1.0, 0.1, 1, ends, weights)


def test_programme_refusals() -> None:
    with pytest.raises(ValueError, match="at delta=0 LatticeStaircase is optimal"):
        LatticeOptimal.solve(1.0, 0.0, 8)
    with pytest.raises(ValueError, match="epsilon must be at most 700"):
        LatticeOptimal.solve(701.0, 0.1, 8)
    with pytest.raises(ValueError, match="too large for the linear programme"):
        LatticeOptimal.solve(0.01, 1e-6, 8)


@pytest.mark.parametrize("steps", [1, 2, 15, 16, 17, 255, 1000, 2**16, 2**40])
def test_cells_map_onto_each_other(steps: int) -> None:
    ends = np.array(_cells(2.0, 0.01, steps)[:-1])
    edges = set((1 - ends).tolist()) | set(ends.tolist())
    inside = [edge for edge in edges if edge + steps <= ends[-1]]
    assert all(edge + steps in edges for edge in inside)
    assert np.all(np.diff(ends) > 0) and ends[0] == 1


# The family


def test_optimal_takes_the_least() -> None:
    assert optimal(1.0, 1e-5, 1.0) == DiracStaircase(1.0, 1e-5, 1.0)
    assert optimal(0.1, 1e-2, 2.0) == TruncatedLaplace(0.1, 1e-2, 2.0)
    assert optimal(1.0, 0.0, 1.0).expected_magnitude() == Staircase(1.0, 0.0, 1.0).expected_magnitude()
    for epsilon, delta in ((0.1, 1e-6), (1.0, 0.01), (8.0, 0.4), (1e-4, 0.6)):
        least = optimal(epsilon, delta, 1.0).expected_magnitude()
        assert least <= DiracLaplace(epsilon, delta, 1.0).expected_magnitude()
        assert least <= Gaussian(epsilon, delta, 1.0).expected_magnitude()


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-3), (1.0, 1e-5), (1.0, 1e-2), (4.0, 1e-2), (8.0, 1e-6)])
def test_family_is_within_a_thousandth_of_the_limit(epsilon: float, delta: float) -> None:
    """Against a linear programme over all additive noise on the lattice that shares no code with ours."""
    limit = least_expected_magnitude(epsilon, delta, 8)
    best = optimal_on_lattice(epsilon, delta, 8).expected_magnitude() / 8
    assert limit * (1 - 1e-6) <= best <= 1.001 * limit


def test_comparison_names_and_reasons() -> None:
    rows = comparison(1.0, 0.0, 16)
    assert tuple(row.name for row in rows) == MECHANISMS
    by_name = {row.name: row for row in rows}
    for name in ("truncated-laplace", "gaussian", "lattice-optimal"):
        assert by_name[name].expected_magnitude is None and "delta" in str(by_name[name].reason)
    assert by_name["staircase"].expected_magnitude == LatticeStaircase(1.0, 16).expected_magnitude()
    assert by_name["staircase"].reason is None
    law = optimal_on_lattice(1.0, 1e-2, 8)
    assert law.name == "lattice-optimal" and law.delta_at(1.0) <= 1e-2
    assert optimal_on_lattice(1.0, 1e-2, 8, ["gaussian", "dirac-laplace"]).name == "dirac-laplace"
    assert optimal_on_lattice(1.0, 1e-5, 2**16).name == "dirac-staircase"
    with pytest.raises(ValueError, match="unknown mechanism 'laplacian'; known are dirac-staircase"):
        comparison(1.0, 0.1, 8, ["laplacian"])
    with pytest.raises(ValueError, match="no mechanism is available: gaussian: delta must be above 0"):
        optimal_on_lattice(1.0, 0.0, 8, ["gaussian"])


@pytest.mark.parametrize("law", [*LATTICE, LatticeDiracLaplace(0.3, 1e-5, 7)], ids=name_of)
def test_parameters_round_trip_through_json(law: LatticeNoise) -> None:
    again = law_from_parameters(law.name, json.loads(json.dumps(law.parameters())))
    assert again == law and again.parameters() == law.parameters() and law.name in MECHANISMS


def test_law_from_parameters_refusals() -> None:
    with pytest.raises(ValueError, match="unknown mechanism 'x'"):
        law_from_parameters("x", {})
    with pytest.raises(ValueError, match="parameters of gaussian are not what it takes: got sigma"):
        law_from_parameters("gaussian", {"sigma": 1.0})


def test_events() -> None:
    dp_accounting = pytest.importorskip("dp_accounting", reason="dp_accounting is not installed")
    from tasks.noise.event import LatticeNoiseDpEvent

    assert Gaussian(1.0, 1e-5, 2.0).dp_event() == dp_accounting.GaussianDpEvent(
        Gaussian(1.0, 1e-5, 2.0).standard_deviation / 2.0
    )
    assert DiracLaplace(0.5, 0.0, 3.0).dp_event() == dp_accounting.LaplaceDpEvent(2.0)
    for law in [*LATTICE, LatticeDiracLaplace(0.3, 1e-5, 7)]:
        if isinstance(law, LatticeGaussian):
            assert law.dp_event() == dp_accounting.GaussianDpEvent(law.standard_deviation / law.sensitivity)
            continue
        event = law.dp_event()  # type: ignore[attr-defined]
        assert isinstance(event, LatticeNoiseDpEvent) and isinstance(event, dp_accounting.DpEvent)
        assert event.shift == law.sensitivity and hash(event) == hash(law.dp_event())  # type: ignore[attr-defined]
        parameters = {key: list(v) if isinstance(v, tuple) else v for key, v in event.parameters}
        assert law_from_parameters(event.name, parameters) == law
    for line in (Staircase(1.0, 0.0, 1.0), DiracStaircase(1.0, 0.1, 1.0), TruncatedLaplace(1.0, 0.1, 1.0)):
        assert isinstance(line.dp_event(), LatticeNoiseDpEvent)


# Refusals


@pytest.mark.parametrize("law", [Staircase, DiracStaircase, TruncatedLaplace, Gaussian])
def test_parameters_out_of_range_are_refused(law: Callable[..., ContinuousLaw]) -> None:
    for epsilon in (0.0, -1.0, math.inf, math.nan, "1", None, True):
        with pytest.raises(ValueError, match="epsilon must be a finite number > 0, got epsilon="):
            law(epsilon, 0.1, 1.0)
    for delta in (-1e-9, 1.0, math.nan, "0", None, False):
        with pytest.raises(ValueError, match=r"delta must be .*, got delta="):
            law(1.0, delta, 1.0)
    for sensitivity in (0, -1, math.inf, math.nan, "1", None):
        with pytest.raises(ValueError, match=r"sensitivity must be .*, got sensitivity="):
            law(1.0, 0.1, sensitivity)
    good = law(1.0, 0.1, 1.0)
    for loss in (-1e-9, math.nan):
        with pytest.raises(ValueError, match="epsilon must be a number >= 0"):
            good.delta_at(loss)
    for shift in (0.0, -1.0, math.nan):
        with pytest.raises(ValueError, match="shift must be"):
            good.delta_at(1.0, shift)
    with pytest.raises(dataclasses.FrozenInstanceError):
        good.epsilon = 2.0  # type: ignore[misc]


def test_deltas_that_a_law_cannot_use() -> None:
    with pytest.raises(ValueError, match="delta must be above 0 for Gaussian noise"):
        Gaussian(1.0, 0.0, 1.0)
    for delta in (0.0, 0.5, 0.7):
        with pytest.raises(ValueError, match=r"delta must be in \(0, 0\.5\) for truncated Laplace noise"):
            TruncatedLaplace(1.0, delta, 1.0)
        with pytest.raises(ValueError, match=r"delta must be in \(0, 0\.5\)"):
            LatticeTruncatedLaplace(1.0, delta, 4)
    assert Staircase(1.0, 0.3, 1.0).delta_at(1.0) == 0.0


def test_limit_of_64_bit_integers() -> None:
    with pytest.raises(ValueError, match="at most 2\\^49 lattice steps"):
        LatticeGaussian(2.0**50)
    for build in (LatticeStaircase, lambda e, s: LatticeTruncatedLaplace(e, 1e-5, s)):
        with pytest.raises(ValueError, match="too small for noise in 64-bit integers"):
            build(1e-3, 2**58)
    assert np.abs(LatticeStaircase(1.0, 2**52).sample(1000, bits=SeededBits(1))).max() > 2**50
    with pytest.raises(ValueError, match="rise must be a whole number"):
        LatticeStaircase(1.0, 4, 5)


# Drawing by buckets


@pytest.mark.parametrize("standard_deviation", [32.0, 40.5, 1000.0, 1e12])
def test_gaussian_decay_estimates_are_within_their_error(standard_deviation: float) -> None:
    width = 1 << max(0, math.frexp(standard_deviation)[1] - 5)
    decay = _GaussianDecay(standard_deviation, width, 14 * 32)
    generator = np.random.default_rng(1)
    bucket = generator.integers(0, int(8 * standard_deviation / width), 40)
    offset = generator.integers(0, width, 40)
    ratio, error = decay.estimate(bucket, offset)
    exact = np.array([decay.threshold(int(b), int(o)) / 2**128 for b, o in zip(bucket, offset, strict=True)])
    assert np.all(np.abs(ratio - exact) <= error) and np.all(error < 3e-5)
    assert np.all(decay.least(bucket) <= exact + 1e-15) and np.all(decay.least(bucket) > 0.2)


def test_laplace_decay_estimates_are_within_their_error() -> None:
    decay = _LaplaceDecay(Fraction(1, 1000), 32)
    offset = np.arange(32)
    ratio, error = decay.estimate(np.zeros(32, dtype=np.int64), offset)
    exact = np.array([decay.threshold(0, int(o)) / 2**128 for o in offset])
    assert np.all(np.abs(ratio - exact) <= error)
    assert np.all(decay.least(np.zeros(32, dtype=np.int64)) <= exact)


def test_bucket_refusals() -> None:
    with pytest.raises(ValueError, match="as many starts and widths"):
        BucketSampler([1], [1, 2], [1, 1])
    with pytest.raises(ValueError, match="buckets must start at 1"):
        BucketSampler([1], [0], [1])
    with pytest.raises(ValueError, match="hold 1 to 2"):
        BucketSampler([1], [1], [0])


def test_draw_below_covers_every_width() -> None:
    widths = np.array([1, 2, 3, 5, 2**31 + 1, 2**62], dtype=np.int64)
    drawn = np.array([draw_below(widths, SeededBits(seed)) for seed in range(2000)])
    assert np.all(drawn >= 0) and np.all(drawn < widths)
    assert np.all(drawn[:, 0] == 0) and set(drawn[:, 3]) == set(range(5))
    assert drawn[:, 5].astype(np.float64).mean() == pytest.approx(2.0**61, rel=0.05)


@pytest.mark.parametrize(
    "law",
    [
        LatticeGaussian(0.3),
        LatticeGaussian(1000.0),
        LatticeStaircase(1.0, 5),
        LatticeDiracStaircase(1.0, 0.1, 5),
        LatticeTruncatedLaplace(1.0, 0.01, 100),
        LatticeOptimal.solve(1.0, 0.01, 8),
    ],
    ids=name_of,
)
def test_samples_have_shape_and_repeat(law: LatticeNoise) -> None:
    assert law.sample(0).shape == (0,) and law.sample(()).shape == () and law.sample((3, 0, 2)).shape == (3, 0, 2)
    for n in (1, 3, 65535, 65536, 65537):
        samples = law.sample(n, bits=SeededBits(5))
        assert samples.dtype == np.int64 and samples.shape == (n,) and np.abs(samples).max() <= law.max_magnitude
    assert np.array_equal(law.sample((300, 400), bits=SeededBits(5)).ravel(), law.sample(120_000, bits=SeededBits(5)))
    with pytest.raises(ValueError, match="negative"):
        law.sample(-1)


def test_continuous_samples_follow_their_law() -> None:
    for law in CONTINUOUS[::3]:
        samples = law.sample(100_000, bits=SeededBits(3))
        assert np.abs(samples).mean() == pytest.approx(law.expected_magnitude(), rel=0.02)
        assert float(np.mean(samples <= law.sensitivity / 3)) == pytest.approx(
            float(law.cdf(law.sensitivity / 3)), abs=0.01
        )


def test_density_of_the_staircase_integrates_exactly() -> None:
    law = Staircase(3.0, 0.0, 0.7)
    knots = [0.7 * (j + part) for j in range(12) for part in (0.0, law.rise)]
    mass = sum(integrate.quad(lambda v: float(law.pdf(v)), a, b)[0] for a, b in pairwise(knots))
    assert 2 * mass == pytest.approx(1.0, rel=1e-12)
