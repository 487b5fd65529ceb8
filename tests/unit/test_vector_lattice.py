"""Vectors on a public lattice: sensitivities after rounding, and the laws of the noise that is put on them."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from tasks.classifiers import lattice as module
from tasks.classifiers.lattice import VectorLattice, lattice_for, norm_noise
from tasks.noise import SeededBits
from tests.statistics import ALPHA


@settings(max_examples=60, deadline=None)
@given(dimension=st.integers(1, 40), sensitivity=st.floats(1e-6, 1e6), seed=st.integers(0, 10_000))
def test_rounded_vectors_are_no_further_apart_than_the_steps_say(dimension: int, sensitivity: float, seed: int) -> None:
    own = lattice_for(dimension, sensitivity, 3.0)
    generator = np.random.default_rng(seed)
    vector = generator.standard_normal(dimension) * 100.0 * sensitivity
    move = generator.standard_normal(dimension)
    neighbour = vector + move * (sensitivity / float(np.linalg.norm(move)))
    apart = float(np.linalg.norm((own.snap(vector) - own.snap(neighbour)).astype(np.float64)))
    assert apart <= own.steps
    assert own.steps * own.spacing <= sensitivity * 1.000002
    assert math.log2(own.spacing) == round(math.log2(own.spacing))


def test_rounding_alone_can_take_what_is_added_for_it() -> None:
    """Sixteen coordinates that each fall to the far side: without sqrt(p) steps the sensitivity would be too small."""
    own = VectorLattice(16, 1e-3, 1.0)
    low, high = np.full(16, 0.4999), np.full(16, 0.5001)
    apart = float(np.linalg.norm((own.snap(high) - own.snap(low)).astype(np.float64)))
    assert float(np.linalg.norm(high - low)) < 1e-3
    assert own.sensitivity / own.spacing < 1.0 < apart <= own.steps


def test_far_coordinates_are_moved_to_the_edge_and_not_wrapped_around() -> None:
    own = lattice_for(2, 1.0, 1.0)
    assert np.array_equal(own.snap([1e300, -1e300]), [2**52, -(2**52)])
    with pytest.raises(ValueError, match="2 coordinates"):
        own.snap([1.0])


def test_released_numbers_are_whole_multiples_of_the_spacing_in_the_shape_of_the_vector() -> None:
    own = lattice_for(6, 0.25, 4.0)
    vector = np.arange(6.0).reshape(2, 3) / 7.0
    for released in (own.add_gaussian(vector, 4.0, SeededBits(1)), own.add_norm_noise(vector, 0.5, SeededBits(2))):
        assert released.shape == (2, 3)
        assert np.array_equal(released / own.spacing, np.rint(released / own.spacing))
        assert not np.array_equal(released, vector)


def _gaussian_p_value(noise_multiplier: float) -> float:
    own = lattice_for(20_000, 0.5, 3.0)
    drawn = own.add_gaussian(np.zeros(20_000), noise_multiplier, SeededBits(7))
    return float(stats.kstest(drawn / (3.0 * own.steps * own.spacing), "norm").pvalue)


def test_gaussian_noise_has_the_multiplier_in_sensitivities() -> None:
    """20,000 draws against the normal law; noise that is a fifth too small is convicted."""
    assert _gaussian_p_value(3.0) > ALPHA
    assert _gaussian_p_value(2.4) < ALPHA


def _radii(dimension: int, n_draws: int, factor: float = 1.0) -> np.ndarray:
    return (
        np.array(
            [
                np.linalg.norm(norm_noise(dimension, factor * 2.0**22, SeededBits(i)).astype(float))
                for i in range(n_draws)
            ]
        )
        / 2.0**22
    )


def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same law by a sampler without the 40 ms that exact thresholds take for each new standard deviation."""

    class Fast:
        def __init__(self, standard_deviation: float) -> None:
            self.standard_deviation = standard_deviation

        def sample(self, n: int, bits: SeededBits) -> np.ndarray:
            seed = int(bits.words(1)[0])
            return np.rint(np.random.default_rng(seed).standard_normal(n) * self.standard_deviation).astype(np.int64)

    monkeypatch.setattr(module, "LatticeGaussian", Fast)


@pytest.mark.parametrize("dimension", [1, 2, 5, 60])
def test_norm_noise_has_a_gamma_radius_of_shape_p_and_a_uniform_direction(
    dimension: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """4,000 draws, by a fast sampler of the two normal parts; shape p + 1 and a scale a fifth too small convicted."""
    _fast(monkeypatch)
    radii = _radii(dimension, 4000)
    assert stats.kstest(radii, stats.gamma(dimension).cdf).pvalue > ALPHA
    assert stats.kstest(_radii(dimension, 4000, 0.8), stats.gamma(dimension).cdf).pvalue < ALPHA
    if dimension < 60:
        assert stats.kstest(radii, stats.gamma(dimension + 1).cdf).pvalue < ALPHA
    drawn = np.array([norm_noise(dimension, 2.0**22, SeededBits(i)).astype(float) for i in range(4000)])
    first = drawn[:, 0] / np.linalg.norm(drawn, axis=1)
    if dimension == 1:
        assert abs(np.mean(first)) < 5.0 / math.sqrt(4000)
    else:  # the first coordinate of a uniform direction, squared
        assert stats.kstest(first**2, stats.beta(0.5, (dimension - 1) / 2).cdf).pvalue > ALPHA


def test_norm_noise_as_it_is_really_drawn_has_the_same_law() -> None:
    """40 exact draws in 3 dimensions: a scale three times too small would be convicted."""
    radii = _radii(3, 40)
    assert stats.kstest(radii, stats.gamma(3).cdf).pvalue > ALPHA
    assert stats.kstest(radii / 3.0, stats.gamma(3).cdf).pvalue < ALPHA


def test_the_mixture_of_normal_laws_is_the_norm_law() -> None:
    """The density of sqrt(s) Z with a^2 s chi-square (p + 1), by quadrature, against exp(-a r) a^p / (2 pi ... )."""
    for dimension in (1, 2, 3, 7):
        for radius in (0.1, 1.0, 5.0):
            t, weight = special.roots_legendre(400)
            s = np.exp(9.0 * t)  # substitution s = exp(9 t)
            mixed = (
                np.exp(-0.5 * radius**2 / s) / (2.0 * np.pi * s) ** (dimension / 2.0) * stats.chi2(dimension + 1).pdf(s)
            )
            density = float(np.sum(weight * mixed * 9.0 * s))
            sphere = 2.0 * math.pi ** (dimension / 2.0) / math.gamma(dimension / 2.0)
            assert density == pytest.approx(math.exp(-radius) / (sphere * math.gamma(dimension)), rel=1e-3)


@pytest.mark.parametrize(
    ("dimension", "sensitivity", "noise"), [(0, 1.0, 1.0), (1, 0.0, 1.0), (1, math.inf, 1.0), (1, 1.0, 0.0)]
)
def test_what_makes_no_lattice_is_refused(dimension: int, sensitivity: float, noise: float) -> None:
    with pytest.raises(ValueError, match="finite sensitivity"):
        lattice_for(dimension, sensitivity, noise)


def test_very_much_noise_makes_the_lattice_coarser_and_still_fits() -> None:
    own = lattice_for(3, 1.0, 1e9)
    assert own.gaussian_law(1e9).standard_deviation < 2.0**49
    assert np.all(np.abs(own.add_gaussian(np.ones(3), 1e9, SeededBits(3))) < 1e11)
