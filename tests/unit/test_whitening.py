"""The noisy second moment of directions: what a record can move, what it costs, and what comes out."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from schemas.learning import Adjacency
from tasks.classifiers import whitening
from tasks.classifiers.whitening import private_whitening, whitened
from tasks.noise import BitSource, SeededBits

FloatArray = NDArray[np.float64]
ADJACENCIES: tuple[Adjacency, ...] = ("replace_one", "add_remove")


class Releases:
    """Stands in for the lattice: notes each query, and answers the same whatever the query is.

    So two tables go the same way, and their queries can be compared one by one, for each answer that may come out.
    """

    def __init__(self, seed: int = 0) -> None:
        self.generator = np.random.default_rng(seed)
        self.queries: list[FloatArray] = []
        self.sensitivities: list[float] = []
        self.multipliers: list[float] = []

    def lattice_for(self, dimension: int, sensitivity: float, relative_noise: float) -> "Releases":
        self.sensitivities.append(sensitivity)
        return self

    def add_gaussian(self, vector: Any, noise_multiplier: float, bits: BitSource) -> FloatArray:
        self.queries.append(np.array(vector, dtype=np.float64))
        self.multipliers.append(noise_multiplier)
        return 30.0 * self.sensitivities[-1] * self.generator.standard_normal(np.shape(vector))


def _run(rows: FloatArray, adjacency: Adjacency = "add_remove", mu: float = 0.5, seed: int = 0) -> Releases:
    releases = Releases(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(whitening, "lattice_for", releases.lattice_for)
        private_whitening(rows, mu, adjacency, SeededBits(0))
    return releases


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(0, 5),
    d=st.integers(1, 6),
    scale=st.floats(-290.0, 290.0),
    sparse=st.booleans(),
)
def test_no_record_moves_a_release_further_than_its_sensitivity(
    seed: int, n: int, d: int, scale: float, sparse: bool
) -> None:
    generator = np.random.default_rng(seed)
    rows = generator.standard_normal((n + 2, d)) * np.exp2(generator.uniform(-20.0, 20.0, (n + 2, d)))
    if sparse:
        rows *= generator.random((n + 2, d)) < 0.4
    rows[n:] *= 10.0**scale
    both, first, second, none = rows, rows[: n + 1], np.delete(rows, n, 0), rows[:n]
    added, replaced = _run(both, seed=seed), _run(first, "replace_one", seed=seed)
    assert added.sensitivities == [2.0**31] * 2
    assert replaced.sensitivities == [math.sqrt(2.0) * 2.0**31] * 2
    for more, less in ((both, first), (both, second), (first, none)):
        for a, b in zip(_run(more, seed=seed).queries, _run(less, seed=seed).queries, strict=True):
            assert np.linalg.norm(a - b) <= 2.0**31
    other = _run(second, "replace_one", seed=seed)
    for a, b in zip(replaced.queries, other.queries, strict=True):
        assert np.linalg.norm(a - b) <= math.sqrt(2.0) * 2.0**31


def test_the_sensitivities_are_reached() -> None:
    """A row along a feature; orthogonal ones where one replaces another."""
    one, none = _run(np.eye(3)[:1]).queries[0], _run(np.zeros((1, 3))).queries[0]
    assert not none.any()
    assert np.linalg.norm(one) == pytest.approx(2.0**31, rel=1e-3)
    other = _run(np.eye(3)[1:2]).queries[0]
    assert np.linalg.norm(one - other) == pytest.approx(math.sqrt(2.0) * 2.0**31, rel=1e-3)


def test_a_releases_parts_are_whole_and_add_up_exactly() -> None:
    """Each record's part is the same whatever rows it stands among, in both rounds, to the last bit."""
    rows = np.random.default_rng(2).standard_normal((37, 7)) * np.array([1e3, 1.0, 1.0, 1e-2, 1.0, 5.0, 1e-9])
    together = _run(rows).queries
    singly = [_run(row[None]).queries for row in rows]
    for number in range(2):
        assert np.array_equal(together[number], np.rint(together[number]))
        assert np.array_equal(together[number], np.sum([parts[number] for parts in singly], axis=0))
    assert np.array_equal(_run(rows[::-1]).queries, together)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("mu", [0.01, 0.3, 4.0])
def test_rounds_spend_mu(adjacency: Adjacency, mu: float) -> None:
    multipliers = _run(np.eye(4), adjacency, mu).multipliers
    assert len(multipliers) == 2
    assert math.fsum(1.0 / m**2 for m in multipliers) == pytest.approx(mu**2, rel=1e-12)


def test_without_noise_rows_come_out_alike_in_all_directions() -> None:
    generator = np.random.default_rng(4)
    mixing = generator.standard_normal((6, 6)) * np.array([10.0, 3.0, 1.0, 1.0, 0.5, 0.3])[:, None]
    rows = generator.standard_normal((4000, 6)) @ mixing
    before = np.linalg.eigvalsh(rows.T @ rows)
    images = whitened(rows, private_whitening(rows, math.inf, "add_remove", SeededBits(0)))
    after = np.linalg.eigvalsh(images.T @ images)
    assert before[-1] > 300.0 * before[0]
    assert after[-1] < 3.0 * after[0]  # two rounds go most of the way


def test_the_map_of_one_round_is_the_inverse_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Directions along features, 16 of the first, 4 of the second, 1 of the third: lengths as 1 : 2 : 4."""
    monkeypatch.setattr(whitening, "_SHARES", (1.0,))
    found = private_whitening(np.repeat(np.eye(3), [16, 4, 1], axis=0), math.inf, "add_remove", SeededBits(0))
    assert np.allclose(found / found[0, 0], np.diag([1.0, 2.0, 4.0]), atol=1e-3)
    assert np.sum(np.diag(found) ** 2 * [16, 4, 1]) == pytest.approx(21.0, rel=1e-3)  # mean squared length is kept


def test_a_rows_image_depends_on_no_other_row() -> None:
    """To the last bit, however many rows a matrix product sees: 300 of 40 features, and each by itself."""
    rows = np.random.default_rng(3).standard_normal((300, 40))
    found = private_whitening(rows, 0.5, "replace_one", SeededBits(1))
    assert np.array_equal(whitened(rows, found), np.vstack([whitened(row[None], found) for row in rows]))


def test_eigenvalues_of_noise_do_not_blow_rows_up() -> None:
    """Two rows, much noise: no direction gets more than the floor allows, and none is lost."""
    for seed in range(5):
        found = private_whitening(np.eye(12)[:2], 0.1, "add_remove", SeededBits(seed))
        stretches = np.linalg.svd(found, compute_uv=False)
        # each round's ratio is at most the root of (a few edges) / (0.3 edge)
        assert stretches[-1] > 0.0 and stretches[0] / stretches[-1] < 5.0 / 0.3


def test_rows_of_any_length_have_images() -> None:
    rows = np.vstack([np.eye(3), [1e308, 1e308, -1e308], [1e-300, 0.0, 0.0], np.zeros(3)])
    found = private_whitening(rows, 0.5, "replace_one", SeededBits(1))
    images = whitened(rows, found)
    assert np.isfinite(found).all() and np.isfinite(images).all() and not images[-1].any()
    assert np.array_equal(private_whitening(np.zeros((4, 3)), math.inf, "add_remove", SeededBits(0)), np.eye(3))


@pytest.mark.parametrize(
    ("mu", "adjacency", "named"),
    [(0.0, "add_remove", "mu=0.0"), (math.nan, "add_remove", "mu=nan"), (1.0, "add", "adjacency='add'")],
)
def test_bad_arguments_are_named(mu: float, adjacency: Any, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        private_whitening(np.eye(2), mu, adjacency, SeededBits(0))


def test_more_rows_than_doubles_add_up_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert whitening._MOST_ROWS * 2.0**31 <= 2.0**53
    monkeypatch.setattr(whitening, "_MOST_ROWS", 3)
    with pytest.raises(ValueError, match="at most 3 rows, got 4"):
        private_whitening(np.eye(4), 1.0, "add_remove", SeededBits(0))
