"""Private moments: calibration, public rules, what is released, and that drawing never fails."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tasks.noise import SeededBits
from tasks.noise.gaussian_profile import gaussian_delta
from tasks.noise.moments import MomentsRelease, Standardization, fit_model
from tasks.noise.moments.sums import first_sums, second_sums, standardize
from tasks.noise.private_moments import LATTICE_STEPS, PrivateMoments

IntArray = NDArray[np.int64]


def table(n_rows: int, n_features: int, n_classes: int, seed: int = 0) -> tuple[IntArray, IntArray]:
    """Classes at their own places, cells within the lattice."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, n_classes, n_rows)
    places = random.uniform(0.3, 0.7, (n_classes, n_features))
    cells = np.clip(places[labels] + 0.08 * random.standard_normal((n_rows, n_features)), 0, 1)
    return np.floor(cells * LATTICE_STEPS + 0.5).astype(np.int64), labels.astype(np.int64)


@pytest.mark.parametrize(("epsilon", "multiplier"), [(1.0, 3.7306), (2.0, 1.9938), (4.0, 1.0812), (8.0, 0.6002)])
def test_noise_multiplier_is_the_analytic_gaussian_one(epsilon: float, multiplier: float) -> None:
    """Values of Balle and Wang's calibration at delta = 1e-5."""
    mechanism = PrivateMoments(epsilon, 1e-5, 5, 2, 100)
    assert mechanism.noise_multiplier == pytest.approx(multiplier, abs=6e-5)
    assert mechanism.first_mu**2 + mechanism.second_mu**2 == pytest.approx(mechanism.mu**2, rel=1e-12)
    assert gaussian_delta(epsilon, mechanism.noise_multiplier, 1.0) <= 1e-5 * (1 + 1e-9)
    assert mechanism.dp_event().noise_multiplier == mechanism.noise_multiplier


def test_noise_is_as_derived_and_never_below() -> None:
    mechanism = PrivateMoments(2.0, 1e-6, 7, 3, 500)
    noise, radius = mechanism.parameters(), mechanism.radius
    expected = {
        "sums_noise": 2**16 * math.sqrt(7) / mechanism.first_mu,
        "squares_noise": 2**30 * math.sqrt(2 * 7) / mechanism.first_mu,
        "counts_noise": math.sqrt(8) / mechanism.second_mu,
        "class_sums_noise": 2 * radius / mechanism.second_mu,
        "diagonal_noise": math.sqrt(8) * radius**2 / mechanism.second_mu,
        "above_diagonal_noise": 2 * radius**2 / mechanism.second_mu,
    }

    for name, value in expected.items():
        assert value <= noise[name] <= value * (1 + 1e-8), name


def test_release_is_exact_sums_plus_noise_of_the_stated_size() -> None:
    n, p, c = 400, 60, 2
    lattice, labels = table(n, p, c)
    mechanism = PrivateMoments(1.0, 1e-5, p, c, n)
    release = mechanism.release(lattice, labels, SeededBits(1))
    sums, squares = first_sums(lattice)
    how = release.standardization
    counts, class_sums, seconds = second_sums(lattice, labels, c, how, per_class=mechanism.per_class)
    upper = np.triu_indices(p, 1)
    second_noise = (release.second_moments - seconds)[0]
    assert np.array_equal(second_noise, second_noise.T)
    for noise, deviation in (
        (release.first.sums - sums, release.first.sums_noise),
        (release.first.squares - squares, release.first.squares_noise),
        (release.class_sums - class_sums, release.class_sums_noise),
        (second_noise[upper], release.second_moments_noise),
        (np.diag(second_noise), release.second_moments_noise * math.sqrt(2)),
    ):
        # six standard errors of a variance
        ratio = float(np.mean((noise / deviation) ** 2))
        assert abs(ratio - 1.0) < 6 * math.sqrt(2 / noise.size)
    assert np.all(np.abs(release.counts - counts) < 7 * release.counts_noise)
    assert release.randomness == "seeded (not private)"


def test_sums_in_blocks_are_those_of_whole_numbers() -> None:
    lattice, labels = table(3000, 3, 2)
    how = Standardization(np.array([10, -500, 7]), np.array([2**21, 2**22, 2**20]), 2**10, 2**26)
    grid = standardize(lattice, how)
    counts, class_sums, seconds = second_sums(lattice, labels, 2, how, per_class=True)  # blocks of two rows
    for label in (0, 1):
        own = [[int(cell) for cell in row] for row in grid[labels == label]]
        assert counts[label] == len(own)
        assert class_sums[label].tolist() == [sum(row[j] for row in own) for j in range(3)]
        products = [[sum(row[i] * row[j] for row in own) for j in range(3)] for i in range(3)]
        assert seconds[label].tolist() == products
    pooled = second_sums(lattice, labels, 2, how, per_class=False)[2]
    assert np.array_equal(pooled[0], seconds.sum(axis=0))
    assert first_sums(lattice)[1].tolist() == [sum((int(v) - 2**15) ** 2 for v in column) for column in lattice.T]


@pytest.mark.parametrize(
    ("n", "p", "c", "epsilon"),
    [(3, 1, 1, 1.0), (3, 40, 5, 0.01), (50, 1, 3, 8.0), (20, 200, 2, 1.0), (2000, 4, 1, 8.0), (1, 2, 2, 50.0)],
)
@pytest.mark.parametrize("kind", ["constant", "random", "one class", "corners"])
def test_drawing_never_fails(n: int, p: int, c: int, epsilon: float, kind: str) -> None:
    random = np.random.default_rng(3)
    lattice = {
        "constant": np.full((n, p), 12345),
        "random": random.integers(0, LATTICE_STEPS + 1, (n, p)),
        "one class": random.integers(0, 100, (n, p)),
        "corners": random.integers(0, 2, (n, p)) * LATTICE_STEPS,
    }[kind].astype(np.int64)
    labels = np.zeros(n, dtype=np.int64) if kind == "one class" else random.integers(0, c, n).astype(np.int64)
    mechanism = PrivateMoments(epsilon, 1e-5, p, c, n)
    release = mechanism.release(lattice, labels, SeededBits(4))
    drawn, drawn_labels = mechanism.draw(release, n, SeededBits(5))
    assert drawn.shape == (n, p) and drawn.dtype == np.int64 and drawn_labels.shape == (n,)
    assert drawn.min() >= 0 and drawn.max() <= LATTICE_STEPS
    assert drawn_labels.min() >= 0 and drawn_labels.max() < c
    model = fit_model(release)
    assert np.all(np.isfinite(model.means)) and np.all(np.isfinite(model.roots))


@pytest.mark.parametrize("n", [3000, 60_000])
def test_moments_are_met_where_the_noise_is_small(n: int) -> None:
    """60000 rows by class of mean size 20000 are drawn in blocks, 3000 are matched."""
    lattice, labels = table(n, 3, 3)
    mechanism = PrivateMoments(50.0, 1e-3, 3, 3, n)
    assert mechanism.per_class
    drawn, drawn_labels = mechanism.draw(mechanism.release(lattice, labels, SeededBits(1)), n, SeededBits(2))
    assert np.max(np.abs(np.bincount(drawn_labels) - np.bincount(labels))) < 20
    for label in range(3):
        real, made = lattice[labels == label] / LATTICE_STEPS, drawn[drawn_labels == label] / LATTICE_STEPS
        np.testing.assert_allclose(made.mean(axis=0), real.mean(axis=0), atol=0.02)
        np.testing.assert_allclose(made.std(axis=0), real.std(axis=0), rtol=0.15)


def test_an_empty_class_stays_nearly_empty_where_the_noise_is_small() -> None:
    lattice, labels = table(2000, 3, 2)
    mechanism = PrivateMoments(8.0, 1e-5, 3, 3, 2000)
    _, drawn_labels = mechanism.draw(mechanism.release(lattice, labels, SeededBits(1)), 2000, SeededBits(2))
    assert np.count_nonzero(drawn_labels == 2) < 20


def test_any_number_of_rows_can_be_drawn_without_new_noise() -> None:
    lattice, labels = table(300, 4, 3)
    mechanism = PrivateMoments(1.0, 1e-5, 4, 3, 300)
    release = mechanism.release(lattice, labels, SeededBits(1))
    again = MomentsRelease.from_dict(json.loads(json.dumps(release.to_dict())))
    assert again.to_dict() == release.to_dict()
    for n_rows in (1, 7, 300, 1000):
        first, second = (mechanism.draw(r, n_rows, SeededBits(2)) for r in (release, again))
        assert np.array_equal(first[0], second[0]) and np.array_equal(first[1], second[1])
        assert len(first[0]) == n_rows
    with pytest.raises(ValueError, match="n_rows must be at least 1"):
        mechanism.draw(release, 0, SeededBits(2))


def test_plan_figures_need_no_data_and_fall_with_rows_and_epsilon() -> None:
    few, many = (PrivateMoments(1.0, 1e-5, 10, 4, n).expected_noise() for n in (500, 50_000))
    private, loose = (PrivateMoments(epsilon, 1e-5, 10, 4, 500).expected_noise() for epsilon in (1.0, 8.0))
    for less, more in ((many, few), (loose, private)):
        assert less.column_mean < more.column_mean and less.class_mean < more.class_mean
        assert less.covariance < more.covariance
        assert less.signal_to_noise > more.signal_to_noise
        assert less.class_signal_to_noise > more.class_signal_to_noise


def test_public_rules() -> None:
    assert not PrivateMoments(8.0, 1e-5, 10, 1, 10**5).per_class
    assert PrivateMoments(8.0, 1e-5, 10, 4, 10**5).per_class
    assert not PrivateMoments(8.0, 1e-5, 10, 4, 200).per_class
    shares = [PrivateMoments(8.0, 1e-5, 10, 2, n).radius ** 2 / (10 * 2**20) for n in (50, 10**6)]
    np.testing.assert_allclose(shares, [0.6, 2.0], rtol=1e-3)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"epsilon": 0.0}, "epsilon must be"),
        ({"delta": 0.0}, "delta must be"),
        ({"n_features": 0}, "n_features must be"),
        ({"n_classes": True}, "n_classes must be"),
        ({"n_rows": 2.5}, "n_rows must be"),
        ({"n_rows": 2**40}, "do not fit"),
        ({"epsilon": 1e-9, "delta": 1e-9}, "standard_deviation must be"),
    ],
)
def test_parameters_are_refused(change: dict[str, float], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        PrivateMoments(**{"epsilon": 1.0, "delta": 1e-5, "n_features": 3, "n_classes": 2, "n_rows": 10, **change})  # type: ignore[arg-type]


def test_rows_are_refused_without_naming_a_cell() -> None:
    lattice, labels = table(10, 3, 2)
    mechanism = PrivateMoments(1.0, 1e-5, 3, 2, 10)
    secret = lattice.copy()
    secret[4, 1] = 70123
    refused: list[tuple[Any, Any]] = [
        (secret, labels),
        (lattice - LATTICE_STEPS, labels),
        (lattice[:9], labels),
        (lattice.astype(np.float64), labels),
        (lattice, labels + 2),
        (lattice, labels[:9]),
    ]
    for bad_lattice, bad_labels in refused:
        with pytest.raises(ValueError, match=r"lattice|labels") as caught:
            mechanism.release(bad_lattice, bad_labels, SeededBits(1))
        assert "70123" not in str(caught.value)
