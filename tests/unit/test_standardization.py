"""Noisy means and scales: what a record can move, what it costs, and what comes out."""

import math
from inspect import signature
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from schemas.learning import Adjacency
from tasks import classifiers
from tasks.classifiers import standardization
from tasks.classifiers.standardization import private_standardization
from tasks.noise import BitSource, SeededBits

FloatArray = NDArray[np.float64]
ADJACENCIES: tuple[Adjacency, ...] = ("replace_one", "add_remove")
each_adjacency = pytest.mark.parametrize("adjacency", ADJACENCIES)


class Releases:
    """Stands in for the lattice: notes each query, and answers with what it is told, or with the query and some noise.

    Two tables that are given the same answers go the same way, so their queries can be compared one by one.
    """

    def __init__(self, answers: list[FloatArray] | None = None, seed: int = 0, noise: float = 1.0) -> None:
        self.given, self.noise, self.generator = answers, noise, np.random.default_rng(seed)
        self.queries: list[FloatArray] = []
        self.answers: list[FloatArray] = []
        self.sensitivities: list[float] = []
        self.multipliers: list[float] = []

    def lattice_for(self, dimension: int, sensitivity: float, relative_noise: float) -> "Releases":
        self.sensitivities.append(sensitivity)
        return self

    def add_gaussian(self, vector: Any, noise_multiplier: float, bits: BitSource) -> FloatArray:
        self.queries.append(np.asarray(vector, dtype=np.float64))
        self.multipliers.append(noise_multiplier)
        deviation = self.noise * noise_multiplier * self.sensitivities[-1]
        answer = self.queries[-1] + self.generator.normal(0.0, deviation, np.shape(vector))
        if self.given is not None:
            answer = self.given[len(self.answers)]
        self.answers.append(answer)
        return answer


def _run(
    monkeypatch: pytest.MonkeyPatch, table: FloatArray, size: int, adjacency: Adjacency, mu: float, releases: Releases
) -> Releases:
    monkeypatch.setattr(standardization, "lattice_for", releases.lattice_for)
    standardization._in_rounds(table, size, mu, adjacency, SeededBits(0))
    return releases


def _moved(
    monkeypatch: pytest.MonkeyPatch, table: FloatArray, other: FloatArray, adjacency: Adjacency, seed: int, noise: float
) -> FloatArray:
    """How far each of the six queries moves, over the sensitivity that its noise is for."""
    one = _run(monkeypatch, table, len(table), adjacency, 2.0, Releases(None, seed, noise))
    two = _run(monkeypatch, other, len(table), adjacency, 2.0, Releases(one.answers))
    assert one.sensitivities == two.sensitivities and one.multipliers == two.multipliers
    pairs = zip(one.queries, two.queries, one.sensitivities, strict=True)
    return np.array([np.linalg.norm(a - b) / s for a, b, s in pairs])


def _table(n: int, d: int, seed: int = 0) -> FloatArray:
    generator = np.random.default_rng(seed)
    centre, spread = generator.uniform(-0.5, 0.5, d), generator.uniform(0.02, 0.3, d)
    return np.clip(centre + spread * generator.standard_normal((n, d)), -1.0, 1.0)


def _furthest(monkeypatch: pytest.MonkeyPatch, adjacency: Adjacency) -> FloatArray:
    """Over many pairs of neighbours, the worst ones among them: the most that each query moves, in sensitivities."""
    generator = np.random.default_rng(3)
    worst = np.zeros(6)
    for seed in range(60):
        d = int(generator.integers(1, 6))
        table = _table(int(generator.integers(2, 12)), d, seed)
        corner = generator.choice([-1.0, 0.0, 1.0], d)
        table[0] = corner if seed % 2 else generator.uniform(-1.0, 1.0, d)
        opposite = 2.0 * table[1:].mean(axis=0) - table[0]  # the other way from where the centre will be
        new = [-table[0], opposite, generator.choice([-1.0, 1.0], d), np.zeros(d)][seed % 4]
        other = np.vstack([[new], table[1:]]) if adjacency == "replace_one" else table[1:]
        worst = np.maximum(worst, _moved(monkeypatch, table, other, adjacency, seed, noise=float(seed % 3 > 0)))
    return worst


@each_adjacency
def test_no_query_moves_by_more_than_its_sensitivity(monkeypatch: pytest.MonkeyPatch, adjacency: Adjacency) -> None:
    worst = _furthest(monkeypatch, adjacency)
    assert np.all(worst <= 1.0 + 1e-8)  # counts move by exactly 1 and sqrt 2
    assert np.all(worst > 0.98)  # the bounds are attained, but for steps of 2^-30


@each_adjacency
def test_a_sensitivity_that_is_too_small_shows(monkeypatch: pytest.MonkeyPatch, adjacency: Adjacency) -> None:
    right = standardization._sensitivity
    monkeypatch.setattr(standardization, "_sensitivity", lambda *arguments: 0.8 * right(*arguments))
    assert np.all(_furthest(monkeypatch, adjacency)[[1, 3, 5]] > 1.2)


def test_magnitudes_are_not_free_beside_values_once_they_are_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    """With |z| - b in place of |z| a replaced record moves the sum by more than sqrt 2 radii."""
    right = standardization._vectors
    monkeypatch.setattr(standardization, "_vectors", lambda rows, at, number, offset: right(rows, at, number, 0.8))
    assert _furthest(monkeypatch, "replace_one")[5] > 1.1


@each_adjacency
def test_the_releases_compose_to_mu(monkeypatch: pytest.MonkeyPatch, adjacency: Adjacency) -> None:
    releases = _run(monkeypatch, _table(50, 3), 50, adjacency, 0.3, Releases())
    assert len(releases.multipliers) == 6
    assert math.fsum(m**-2 for m in releases.multipliers) == pytest.approx(0.3**2, rel=1e-12)


_WITH_PUBLIC_SIZE = [
    own for own in vars(classifiers).values() if isinstance(own, type) and "public_size" in signature(own).parameters
]


def _fitted_again(
    monkeypatch: pytest.MonkeyPatch, kind: type, n: int, public_size: int | None, releases: Releases
) -> tuple[Any, Releases]:
    """Fitted to the first n rows, all of them one; the answers of the preprocessing's releases are those given."""
    monkeypatch.setattr(standardization, "lattice_for", releases.lattice_for)
    fitted = kind(
        4.0,
        1e-5,
        adjacency="add_remove",
        public_size=public_size,
        preprocessing_share=0.5,
        feature_bounds=(-1.0, 1.0),
        classes=[0, 1],
        regularization=1.0,
        random_state=0,
    ).fit(np.full((n, 3), 0.5), np.arange(n) % 2)
    return fitted, releases


def test_estimators_with_a_public_size_are_found() -> None:
    assert {kind.__name__ for kind in _WITH_PUBLIC_SIZE} == {
        "OutputPerturbationClassifier",
        "ObjectivePerturbationClassifier",
        "LocalizationClassifier",
    }


@pytest.mark.parametrize("kind", _WITH_PUBLIC_SIZE)
def test_a_public_size_stands_for_the_number_of_rows_in_preprocessing_too(
    kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One row more and the same answers: then nothing differs but the queries, and these by their sensitivities."""
    first, one = _fitted_again(monkeypatch, kind, 40, 40, Releases())
    second, two = _fitted_again(monkeypatch, kind, 41, 40, Releases(one.answers))
    np.testing.assert_array_equal(first.row_map_.centre, second.row_map_.centre)
    np.testing.assert_array_equal(first.row_map_.scale, second.row_map_.scale)
    assert one.sensitivities == two.sensitivities and one.multipliers == two.multipliers
    moved = [np.linalg.norm(a - b) / s for a, b, s in zip(one.queries, two.queries, one.sensitivities, strict=True)]
    assert 0.3 < max(moved) <= 1.0 + 1e-8
    assert first.guarantee_ == second.guarantee_
    assert not any("number of records is public" in text for text in first.guarantee_.assumptions)


def test_without_a_public_size_the_number_of_rows_shows_and_the_guarantee_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kind = classifiers.OutputPerturbationClassifier
    first, one = _fitted_again(monkeypatch, kind, 40, None, Releases())
    second, _ = _fitted_again(monkeypatch, kind, 41, None, Releases(one.answers))
    assert np.all(first.row_map_.centre != second.row_map_.centre)
    assert any("number of records is public" in text for text in first.guarantee_.assumptions)


def test_the_sum_and_its_noise_are_in_the_units_of_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = _table(40, 4)
    lengths = np.linalg.norm(vectors, axis=1)
    releases = Releases(noise=0.0)
    monkeypatch.setattr(standardization, "lattice_for", releases.lattice_for)
    total, noise = standardization._released_sum(vectors, lengths, 0.5, 0.1, 2.0, SeededBits(0))
    shortened = vectors * np.minimum(1.0, 0.5 / lengths)[:, None]
    np.testing.assert_allclose(total, shortened.sum(axis=0), atol=1e-6)
    assert noise == pytest.approx(2.0 * 0.5 / 0.1)
    assert releases.sensitivities == [pytest.approx(2.0 * 2.0**30)]


@each_adjacency
def test_much_budget_finds_centre_and_scale_in_small_corners_of_the_bounds(adjacency: Adjacency) -> None:
    generator = np.random.default_rng(5)
    centre, spread = generator.uniform(-0.6, 0.6, 8), generator.uniform(0.02, 0.06, 8)
    table = centre + spread * generator.standard_normal((4000, 8))
    found, scale = private_standardization(table, 50.0, adjacency, SeededBits(1))
    np.testing.assert_allclose(found, centre, atol=0.25 * spread.min())
    ratio = scale / spread
    assert ratio.max() / ratio.min() < 1.3 and 0.7 < ratio.mean() < 1.2  # rows are shortened, so scales are smaller


def test_little_budget_finds_them_roughly() -> None:
    """Vehicle's size at epsilon 1: wide bounds, where plain sums over the cube would have noise 0.07 on a mean."""
    generator = np.random.default_rng(7)
    centre, spread = generator.uniform(-0.5, 0.7, 18), np.geomspace(0.02, 0.2, 18)
    table = np.clip(centre + spread * generator.standard_normal((677, 18)), -1.0, 1.0)
    found, scale = private_standardization(table, 0.12, "add_remove", SeededBits(2))
    assert np.sqrt(np.mean((found - centre) ** 2)) < 0.03
    assert 0.4 < np.median(scale / spread) < 1.6


def test_nothing_but_noise_gives_a_common_centre_and_scale_within_the_bounds() -> None:
    for adjacency in ADJACENCIES:
        centre, scale = private_standardization(_table(20, 40), 1e-4, adjacency, SeededBits(3))
        assert np.all(np.abs(centre) <= 1.0) and np.all(scale > 0.0) and np.isfinite(scale).all()


def test_no_noise_gives_exact_statistics() -> None:
    table = np.column_stack([_table(30, 2), np.full(30, 0.25)])
    centre, scale = private_standardization(table, math.inf, "replace_one", SeededBits(0))
    np.testing.assert_allclose(centre, table.mean(axis=0))
    np.testing.assert_allclose(scale, [*table[:, :2].std(axis=0), 1.0])


@each_adjacency
def test_the_order_of_rows_does_not_matter_at_all(adjacency: Adjacency) -> None:
    table = _table(300, 5)
    one = private_standardization(table, 0.5, adjacency, SeededBits(4))
    two = private_standardization(table[::-1].copy(), 0.5, adjacency, SeededBits(4))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("table", [np.zeros((1, 1)), np.ones((5, 1)), np.zeros((40, 3)), _table(2, 6)])
@each_adjacency
def test_degenerate_tables(monkeypatch: pytest.MonkeyPatch, table: FloatArray, adjacency: Adjacency) -> None:
    for mu in (0.01, 1.0, 1000.0):
        monkeypatch.setattr(standardization, "lattice_for", Releases().lattice_for)
        centre, scale = private_standardization(table, mu, adjacency, SeededBits(6))
        assert centre.shape == scale.shape == table.shape[1:]
        assert np.isfinite(centre).all() and np.isfinite(scale).all() and np.all(scale > 0.0)


def test_the_radius_covers_two_thirds() -> None:
    """Shares 0.5 in the bin up to 1 and 0.5 in the next: a third of the way from 1 to sqrt 2, by factors."""
    shares = np.zeros(12)
    edges = standardization._edges(4.0)
    np.testing.assert_allclose(edges[[-1, -3, -5]], [4.0, 2.0, 1.0])
    shares[[-5, -4]] = 0.5
    assert standardization._covering(shares, 4.0) == pytest.approx(2.0 ** (0.5 / 3.0))
    assert standardization._covering(np.zeros(12), 4.0) == 4.0
    assert standardization._covering(np.eye(12)[0], 4.0) == pytest.approx(edges[0])


def test_bad_input() -> None:
    with pytest.raises(ValueError, match=r"mu must be above 0, got mu=0\.0"):
        private_standardization(np.zeros((3, 2)), 0.0, "replace_one", SeededBits(0))
    with pytest.raises(ValueError, match="adjacency must be"):
        private_standardization(np.zeros((3, 2)), 1.0, "element", SeededBits(0))  # type: ignore[arg-type]


def test_cutting_to_whole_steps_lengthens_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 8 steps in a radius instead of 2^30, where rounding to the nearest or downwards would show."""
    monkeypatch.setattr(standardization, "_FINE", 8.0)
    for row in _table(50, 6):
        releases = Releases(noise=0.0)
        monkeypatch.setattr(standardization, "lattice_for", releases.lattice_for)
        length = np.linalg.norm(row[None], axis=1)
        standardization._released_sum(row[None], length, 0.5 * float(length[0]), 1.0, 1.0, SeededBits(0))
        assert np.linalg.norm(releases.queries[0]) <= 8.0
