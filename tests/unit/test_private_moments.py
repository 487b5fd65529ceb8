"""Private moments: calibration, public rules, what is released, and that drawing never fails."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tasks.noise import SeededBits
from tasks.noise.gaussian_profile import gaussian_delta
from tasks.noise.moments import FirstMoments, MomentsRelease, Standardization, fit_model
from tasks.noise.moments.blocks import layout_of, level_points
from tasks.noise.moments.categories import calibrated_root, categories, highest, to_blocks
from tasks.noise.moments.estimate import simplex
from tasks.noise.moments.marginals import haar, histograms, shrunk, to_marginals
from tasks.noise.moments.rows import draw_pieces
from tasks.noise.moments.shrinkage import block_factors
from tasks.noise.moments.sums import first_sums, second_sums, standardize
from tasks.noise.private_moments import LATTICE_STEPS, Block, PrivateMoments

IntArray = NDArray[np.int64]

ALL_KINDS = (Block("one-hot", 4), Block("value", 1), Block("nullable", 2), Block("binary", 1), Block("one-hot", 3))
MIDDLE = LATTICE_STEPS // 2


def table(n_rows: int, n_features: int, n_classes: int, seed: int = 0) -> tuple[IntArray, IntArray]:
    """Classes at their own places, cells within the lattice."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, n_classes, n_rows)
    places = random.uniform(0.3, 0.7, (n_classes, n_features))
    cells = np.clip(places[labels] + 0.08 * random.standard_normal((n_rows, n_features)), 0, 1)
    return np.floor(cells * LATTICE_STEPS + 0.5).astype(np.int64), labels.astype(np.int64)


def mixed_table(
    blocks: tuple[Block, ...], n_rows: int, n_classes: int, random: np.random.Generator, *, at_the_ends: bool = False
) -> tuple[IntArray, IntArray]:
    """Rows that keep the rules of their blocks; classes differ in every column."""
    labels = random.integers(0, n_classes, n_rows)
    columns = []
    for block in blocks:
        places = random.uniform(0.2, 0.8, n_classes)[labels]
        if block.kind == "one-hot":
            shares = random.dirichlet(np.ones(block.width), n_classes)
            chosen = (random.uniform(size=(n_rows, 1)) > shares.cumsum(axis=1)[labels]).sum(axis=1)
            columns.append(np.eye(block.width, dtype=np.int64)[np.minimum(chosen, block.width - 1)] * LATTICE_STEPS)
            continue
        values = np.clip(places + 0.15 * random.standard_normal(n_rows), 0.0, 1.0)
        if at_the_ends or block.kind == "binary":
            values = (random.uniform(size=n_rows) < places).astype(np.float64)
        if block.levels:
            values = np.rint(values * (block.levels - 1)) / (block.levels - 1)
        cells = np.rint(values * LATTICE_STEPS).astype(np.int64)
        if block.kind == "nullable":
            missing = random.uniform(size=n_rows) < 0.3
            columns.append((missing * LATTICE_STEPS)[:, None])
            cells[missing] = MIDDLE
        columns.append(cells[:, None])
    return np.hstack(columns).astype(np.int64), labels.astype(np.int64)


def keeps_its_blocks(lattice: IntArray, blocks: tuple[Block, ...]) -> bool:
    """The rules as the task states them, row by row."""
    for row in lattice.tolist():
        at = 0
        for block in blocks:
            cells = row[at : at + block.width]
            at += block.width
            points = {round(j * LATTICE_STEPS / max(block.levels - 1, 1)) for j in range(block.levels)}
            if block.levels and cells[-1] not in points and (block.kind == "value" or cells[0] == 0):
                return False
            kept = {
                "value": 0 <= cells[0] <= LATTICE_STEPS,
                "binary": cells[0] in {0, LATTICE_STEPS},
                "one-hot": sorted(cells) == [0] * (block.width - 1) + [LATTICE_STEPS],
                "nullable": cells[0] in {0, LATTICE_STEPS}
                and 0 <= cells[-1] <= LATTICE_STEPS
                and (cells[0] == 0 or cells[-1] == MIDDLE),
            }[block.kind]
            if not kept:
                return False
    return True


@pytest.mark.parametrize(("epsilon", "multiplier"), [(1.0, 3.7306), (2.0, 1.9938), (4.0, 1.0812), (8.0, 0.6002)])
def test_noise_multiplier_is_the_analytic_gaussian_one(epsilon: float, multiplier: float) -> None:
    """Values of Balle and Wang's calibration at delta = 1e-5."""
    mechanism = PrivateMoments(epsilon, 1e-5, 5, 2, 100)
    assert mechanism.noise_multiplier == pytest.approx(multiplier, abs=6e-5)
    parts = mechanism.first_mu**2 + mechanism.second_mu**2 + mechanism.third_mu**2
    assert parts == pytest.approx(mechanism.mu**2, rel=1e-12) and mechanism.third_mu == 0
    for n_rows in (20_000, 10**6):
        counted = PrivateMoments(epsilon, 1e-5, 5, 2, n_rows)
        parts = counted.first_mu**2 + counted.second_mu**2 + counted.third_mu**2
        assert parts == pytest.approx(mechanism.mu**2, rel=1e-12) and counted.third_mu > 0
        assert counted.dp_event().noise_multiplier == mechanism.noise_multiplier
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


def test_value_blocks_are_what_no_blocks_stand_for() -> None:
    lattice, labels = table(300, 4, 3)
    plain = PrivateMoments(1.0, 1e-5, 4, 3, 300)
    blocked = PrivateMoments(1.0, 1e-5, 4, 3, 300, (Block("value", 1),) * 4)
    releases = [mechanism.release(lattice, labels, SeededBits(1)) for mechanism in (plain, blocked)]
    assert releases[0].to_dict() == releases[1].to_dict()
    draws = [m.draw(release, 300, SeededBits(2)) for m, release in zip((plain, blocked), releases, strict=True)]
    assert np.array_equal(draws[0][0], draws[1][0]) and np.array_equal(draws[0][1], draws[1][1])


@pytest.mark.parametrize(
    ("blocks", "cost"),
    [
        ((Block("value", 1),), 4),
        ((Block("binary", 1),), 4),
        ((Block("one-hot", 3),), 8),
        ((Block("one-hot", 40),), 8),
        ((Block("nullable", 2),), 7),
        (ALL_KINDS, 8 + 4 + 7 + 4 + 8),
    ],
)
def test_noise_of_the_first_release_counts_blocks(blocks: tuple[Block, ...], cost: int) -> None:
    width = sum(block.width for block in blocks)
    mechanism = PrivateMoments(2.0, 1e-6, width, 3, 500, blocks)
    noise = mechanism.parameters()
    expected = 2**15 * math.sqrt(cost) / mechanism.first_mu
    assert expected <= noise["sums_noise"] <= expected * (1 + 1e-8)
    assert noise["squares_noise"] == pytest.approx(expected * 2**15 / math.sqrt(2), rel=1e-8)
    assert noise["class_sums_noise"] == pytest.approx(2 * mechanism.radius / mechanism.second_mu, rel=1e-8)


def test_the_radius_counts_a_one_hot_block_once() -> None:
    narrow, wide = (PrivateMoments(1.0, 1e-5, k, 2, 20, (Block("one-hot", k),)) for k in (3, 30))
    assert narrow.radius == wide.radius == PrivateMoments(1.0, 1e-5, 1, 2, 20).radius


def test_standardised_blocks_have_their_expected_squared_norms() -> None:
    """Little noise, and a radius that cuts no row, so that the mean squared norms show."""
    random = np.random.default_rng(5)
    lattice, labels = mixed_table(ALL_KINDS, 4000, 2, random)
    mechanism = PrivateMoments(50.0, 1e-3, lattice.shape[1], 2, 4000, ALL_KINDS)
    how = mechanism.release(lattice, labels, SeededBits(1)).standardization
    uncut = Standardization(how.centre, how.factor, how.unit, 100 * how.radius)
    squared = np.mean((standardize(lattice, uncut) / how.unit) ** 2, axis=0)
    ends = np.cumsum([block.width for block in ALL_KINDS])
    seen = np.add.reduceat(squared, ends - [block.width for block in ALL_KINDS])
    np.testing.assert_allclose(seen, [block.weight for block in ALL_KINDS], rtol=0.1)


@pytest.mark.parametrize(
    ("kind", "width", "match"),
    [
        ("one-hot", 2, "at least 3"),
        ("binary", 2, "has width 1"),
        ("value", 0, "has width 1"),
        ("nullable", 1, "has width 2"),
        ("ordinal", 1, "kind must be"),
        ("one-hot", 3.0, "whole number"),
        ("value", True, "whole number"),
    ],
)
def test_blocks_are_refused(kind: Any, width: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        Block(kind, width)


def test_blocks_have_the_width_of_a_row() -> None:
    with pytest.raises(ValueError, match="blocks must have 5"):
        PrivateMoments(1.0, 1e-5, 5, 2, 10, (Block("one-hot", 4),))
    with pytest.raises(ValueError, match="of type Block"):
        PrivateMoments(1.0, 1e-5, 1, 2, 10, ("value",))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("row", "number"),
    [
        ([0, 0, 0, 0, 5, 0, 7, 0, 0, 0, 65536], 0),
        ([65536, 65536, 0, 0, 5, 0, 7, 0, 0, 0, 65536], 0),
        ([0, 40961, 0, 0, 5, 0, 7, 0, 0, 0, 65536], 0),
        ([65536, 0, 0, 0, 5, 40961, 7, 0, 0, 0, 65536], 2),
        ([65536, 0, 0, 0, 5, 65536, 40961, 0, 0, 0, 65536], 2),
        ([65536, 0, 0, 0, 5, 0, 7, 40961, 0, 0, 65536], 3),
        ([65536, 0, 0, 0, 5, 0, 7, 0, 0, 40961, 65536], 4),
    ],
)
def test_rows_that_break_a_block_are_refused_without_naming_a_cell(row: list[int], number: int) -> None:
    lattice, labels = mixed_table(ALL_KINDS, 10, 2, np.random.default_rng(0))
    mechanism = PrivateMoments(1.0, 1e-5, 11, 2, 10, ALL_KINDS)
    mechanism.release(lattice, labels, SeededBits(1))
    lattice[7] = row
    with pytest.raises(ValueError, match=rf"rule of blocks \[{number}\]$") as caught:
        mechanism.release(lattice, labels, SeededBits(1))
    assert "40961" not in str(caught.value)


@pytest.mark.parametrize("n", [1, 3, 60, 3000])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 50.0])
@pytest.mark.parametrize("kind", ["constant", "mixed", "all missing"])
def test_drawing_mixed_rows_never_fails(n: int, epsilon: float, kind: str) -> None:
    lattice, labels = mixed_table(ALL_KINDS, n, 3, np.random.default_rng(n))
    if kind == "constant":
        lattice = np.repeat(lattice[:1], n, axis=0)
    elif kind == "all missing":
        lattice[:, 5:7] = LATTICE_STEPS, MIDDLE
    mechanism = PrivateMoments(epsilon, 1e-5, 11, 3, n, ALL_KINDS)
    release = mechanism.release(lattice, labels, SeededBits(4))
    drawn, drawn_labels = mechanism.draw(release, n, SeededBits(5))
    assert keeps_its_blocks(drawn, ALL_KINDS) and drawn_labels.shape == (n,)
    model = fit_model(release, mechanism.layout)
    assert np.all(np.isfinite(model.means)) and np.all(np.isfinite(model.roots))
    assert np.all(model.frequencies >= 0) and np.all(model.frequencies <= 1)
    np.testing.assert_allclose(model.frequencies[:, :4].sum(axis=1), 1.0)


@pytest.mark.parametrize("n", [4000, 150_000])
def test_mixed_moments_are_met_where_the_noise_is_small(n: int) -> None:
    """150000 rows are drawn in blocks, 4000 at once."""
    lattice, labels = mixed_table(ALL_KINDS, n, 2, np.random.default_rng(3))
    mechanism = PrivateMoments(50.0, 1e-3, 11, 2, n, ALL_KINDS)
    drawn, drawn_labels = mechanism.draw(mechanism.release(lattice, labels, SeededBits(1)), n, SeededBits(2))
    assert keeps_its_blocks(drawn[:2000], ALL_KINDS)
    for label in (0, 1):
        real, made = lattice[labels == label] / LATTICE_STEPS, drawn[drawn_labels == label] / LATTICE_STEPS
        np.testing.assert_allclose(made.mean(axis=0), real.mean(axis=0), atol=0.03)
        np.testing.assert_allclose(made.std(axis=0), real.std(axis=0), rtol=0.15, atol=0.03)


def test_categories_come_as_often_as_the_release_says() -> None:
    lattice, labels = mixed_table(ALL_KINDS, 2000, 2, np.random.default_rng(3))
    mechanism = PrivateMoments(1.0, 1e-5, 11, 2, 2000, ALL_KINDS)
    release = mechanism.release(lattice, labels, SeededBits(1))
    model = fit_model(release, mechanism.layout)
    drawn, drawn_labels = mechanism.draw(release, 2000, SeededBits(2))
    for label in (0, 1):
        own = drawn[drawn_labels == label]
        for columns in (slice(0, 4), slice(5, 6), slice(7, 8), slice(8, 11)):
            seen = np.count_nonzero(own[:, columns] == LATTICE_STEPS, axis=0)
            assert np.all(np.abs(seen - len(own) * model.frequencies[label, columns]) <= 4)


def test_mixed_columns_keep_their_correlation_where_the_noise_is_small() -> None:
    random = np.random.default_rng(1)
    n, blocks = 20_000, (Block("one-hot", 3), Block("value", 1))
    chosen = random.integers(0, 3, n)
    value = np.clip(0.3 + 0.2 * chosen + 0.1 * random.standard_normal(n), 0, 1)
    lattice = np.hstack([np.eye(3)[chosen], value[:, None]]) * LATTICE_STEPS
    mechanism = PrivateMoments(50.0, 1e-3, 4, 1, n, blocks)
    release = mechanism.release(np.rint(lattice).astype(np.int64), np.zeros(n, dtype=np.int64), SeededBits(1))
    drawn, _ = mechanism.draw(release, n, SeededBits(2))
    means = [drawn[drawn[:, k] == LATTICE_STEPS, 3].mean() / LATTICE_STEPS for k in range(3)]
    assert means[0] + 0.1 < means[1] < means[2] - 0.1


def test_calibrated_scores_give_back_correlations_that_categories_lose() -> None:
    blocks = (Block("binary", 1), Block("value", 1), Block("one-hot", 3))
    layout = layout_of(blocks, 5)
    wanted = np.eye(5)
    wanted[0, 1] = wanted[1, 0] = 0.5
    wanted[1, 2:] = wanted[2:, 1] = 0.5, -0.4, -0.1
    frequencies = np.array([0.2, 0.0, 0.5, 0.3, 0.2])
    how = Standardization(np.zeros(5, dtype=np.int64), np.full(5, 2**21), 2**10, 2**12)
    normal, root = np.random.default_rng(4).standard_normal((20_000, 5)), np.linalg.cholesky(wanted).astype(np.float64)
    errors = []
    for part in (root, calibrated_root(root, normal, frequencies, np.zeros(5), how, layout)):
        scores = normal @ part.T
        cells = scores * how.scale
        to_blocks(cells, scores, frequencies, layout)
        errors.append(np.abs(np.corrcoef(cells, rowvar=False) - wanted)[1, [0, 2, 3, 4]].max())
    assert errors[0] > 0.09 and errors[1] < 0.05


def test_categories_and_thresholds_meet_frequencies() -> None:
    random = np.random.default_rng(2)
    scores = random.standard_normal((5000, 6)) * [1.0, 0.1, 3.0, 1.0, 1.0, 0.0]
    wanted = np.array([0.5, 0.3, 0.15, 0.049, 0.001, 0.0])
    seen = np.bincount(categories(scores, wanted), minlength=6)
    assert np.all(np.abs(seen - 5000 * wanted) <= 6) and seen[5] == 0
    assert [np.count_nonzero(highest(scores[:, 0], share)) for share in (0.0, 0.1234, 1.0)] == [0, 617, 5000]
    np.testing.assert_allclose(simplex(np.array([[0.2, 0.3, 0.5], [2.0, 0.1, -1.0], [0.6, 0.6, 0.0]])), [
        [0.2, 0.3, 0.5],
        [1.0, 0.0, 0.0],
        [0.5, 0.5, 0.0],
    ])  # fmt: skip


def test_blocks_that_tell_classes_apart_are_trusted_more() -> None:
    layout = layout_of((Block("value", 1),) * 20, 20)
    apart = np.random.default_rng(0).standard_normal((2, 20)) * 0.1
    apart[:, 3] = 0.8, -0.8
    factors = block_factors(apart, np.full(2, 0.01), np.ones(20), layout)
    assert np.all(factors[:, 3] > 0.9) and np.all(np.delete(factors, 3, axis=1) < 0.75)
    assert np.all(block_factors(apart, np.full(2, 10.0), np.ones(20), layout) < 0.1)


def test_plan_figures_of_mixed_rows_are_public_and_by_block() -> None:
    mechanism = PrivateMoments(1.0, 1e-5, 11, 2, 800, ALL_KINDS)
    assert {name: mechanism.parameters()[f"{name}_blocks"] for name in ("value", "binary", "one_hot", "nullable")} == {
        "value": 1,
        "binary": 1,
        "one_hot": 2,
        "nullable": 1,
    }
    noise = mechanism.expected_noise(0.2)
    assert [(block.kind, block.width) for block in noise.blocks] == [(block.kind, block.width) for block in ALL_KINDS]
    one_hot, value, nullable, binary, smaller = noise.blocks
    assert value.class_mean == noise.class_mean and value.class_signal_to_noise == noise.class_signal_to_noise
    assert binary.class_mean == pytest.approx(2.5 * value.class_mean)
    # Four categories of frequency 1/4: deviation sqrt(3)/4; standardised they have variance 1/4 and noise sqrt(3)/2.
    assert one_hot.class_signal_to_noise == pytest.approx(value.class_signal_to_noise / math.sqrt(3))
    assert one_hot.class_mean == pytest.approx(math.sqrt(3) / 4 / one_hot.class_signal_to_noise)
    assert smaller.class_signal_to_noise > one_hot.class_signal_to_noise
    assert nullable.class_mean == value.class_mean


@pytest.mark.parametrize(
    ("kind", "width", "levels", "match"),
    [
        ("value", 1, 1, "from 2 to 1025"),
        ("value", 1, -3, "from 2 to 1025"),
        ("nullable", 2, 1026, "from 2 to 1025"),
        ("value", 1, 4.0, "whole number"),
        ("value", 1, True, "whole number"),
        ("binary", 1, 2, "has no levels"),
        ("one-hot", 3, 2, "has no levels"),
    ],
)
def test_levels_are_refused(kind: Any, width: int, levels: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        Block(kind, width, levels)


def test_levels_are_lattice_points_and_part_of_a_block() -> None:
    assert level_points(2).tolist() == [0, 65536]
    assert level_points(4).tolist() == [0, 21845, 43691, 65536]
    for levels in (2, 3, 4, 7, 16, 74, 1000, 1025):
        assert level_points(levels).tolist() == [round(j * 65536 / (levels - 1)) for j in range(levels)]
    assert Block("value", 1) == Block("value", 1, 0) != Block("value", 1, 3)
    assert layout_of(
        (Block("value", 1, 3), Block("one-hot", 3), Block("nullable", 2, 5), Block("value", 1)), 7
    ).levels == [
        3,
        5,
        0,
    ]


@pytest.mark.parametrize("number", [0, 1])
def test_rows_off_their_levels_are_refused_without_naming_a_cell(number: int) -> None:
    blocks = (Block("value", 1, 4), Block("nullable", 2, 5))
    lattice, labels = mixed_table(blocks, 30, 2, np.random.default_rng(0))
    lattice[3, 1:] = 0, 16384
    mechanism = PrivateMoments(1.0, 1e-5, 3, 2, 30, blocks)
    mechanism.release(lattice, labels, SeededBits(1))
    lattice[3, 2 * number] = 40961
    with pytest.raises(ValueError, match=rf"rule of blocks \[{number}\]$") as caught:
        mechanism.release(lattice, labels, SeededBits(1))
    assert "40961" not in str(caught.value)


def test_a_small_histogram_by_hand() -> None:
    """Bins of a continuous value: 0 alone, 65536 alone, three of equal width between them."""
    blocks = (Block("value", 1), Block("nullable", 2, 3))
    layout = layout_of(blocks, 3)
    lattice = np.array(
        [
            [0, 0, 0],
            [1, 0, 32768],
            [21845, 65536, 32768],
            [21846, 0, 65536],
            [65535, 0, 65536],
            [65536, 65536, 32768],
            [0, 0, 0],
        ]
    )
    groups = np.array([0, 0, 0, 0, 1, 1, 1])
    assert histograms(lattice, groups, 2, layout, 5).tolist() == [
        [1, 2, 1, 0, 0, 1, 1, 1],
        [1, 0, 0, 1, 1, 1, 0, 1],
    ]
    assert histograms(lattice, 0 * groups, 1, layout, 5).tolist() == [[2, 2, 1, 1, 1, 2, 1, 2]]


def test_drawn_values_move_to_a_histogram_by_hand() -> None:
    """Eight drawn values in order; half belong on 0, a quarter in the middle, the rest on the other end."""
    cells = np.array([[700.0], [100.0], [200.0], [300.0], [400.0], [500.0], [600.0], [-9.0]])
    layout = layout_of((Block("value", 1),), 1)
    how = Standardization(np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64), 1, 1)
    first = FirstMoments(np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64), 1.0, 1.0)
    none = np.zeros(1, dtype=np.int64)
    release = MomentsRelease(8, first, how, none, none, none, 1.0, 1.0, 1.0, "", np.array([[4, 2, 2]]) * 1024, 1e-6, 3)
    moved = to_marginals(cells, np.zeros((8, 1), dtype=bool), np.zeros(8, dtype=np.int64), release, layout)
    assert np.floor(np.clip(moved[:, 0], 0, 65536) + 0.5).tolist() == [65536, 0, 0, 0, 16384, 49152, 65536, 0]


def test_third_release_is_public_and_its_noise_as_derived() -> None:
    blocks = (Block("value", 1, 16), Block("one-hot", 3), Block("nullable", 2), Block("value", 1))
    few, some, many = (PrivateMoments(2.0, 1e-5, 7, 3, n, blocks) for n in (100, 1000, 10**6))
    assert not few.marginals.share and few.third_mu == 0 and "marginals_noise" not in few.parameters()
    assert few.expected_noise().marginal == 0
    assert few.second_mu == pytest.approx(math.sqrt(0.9) * few.mu)
    assert not some.marginals.by_class and many.marginals.by_class
    assert 0.02 <= many.marginals.share < some.marginals.share <= 0.1
    for mechanism, groups in ((some, 1), (many, 3)):
        assert 8 <= mechanism.marginals.bins <= 64
        rows = math.sqrt(2 * 3) / mechanism.third_mu
        assert 1024 * rows <= mechanism.parameters()["marginals_noise"] <= 1024 * rows * (1 + 1e-8)
        assert mechanism.expected_noise().marginal == pytest.approx(rows * groups / mechanism.n_rows, rel=1e-8)
    assert not PrivateMoments(1e-3, 1e-5, 7, 3, 1000, blocks).marginals.share
    assert not PrivateMoments(8.0, 1e-5, 2, 2, 10**6, (Block("binary", 1),) * 2).marginals.share


@pytest.mark.parametrize(("n", "by_class"), [(1500, False), (40_000, True)])
def test_marginals_are_met(n: int, by_class: bool) -> None:
    """A column that is 0 in nine rows of ten, one of four levels, one that is missing in a third of the rows."""
    random = np.random.default_rng(7)
    labels = random.integers(0, 2, n)
    gain = np.where(random.uniform(size=n) < 0.05 + 0.1 * labels, random.uniform(0.05, 1.0, n) ** 2, 0.0)
    level = random.choice(4, n, p=[0.1, 0.6, 0.05, 0.25]) / 3
    missing = random.uniform(size=n) < 0.3
    age = np.where(missing, 0.5, random.beta(2, 5, n))
    lattice = np.rint(np.column_stack([gain, level, missing, age]) * LATTICE_STEPS).astype(np.int64)
    blocks = (Block("value", 1), Block("value", 1, 4), Block("nullable", 2))
    mechanism = PrivateMoments(4.0, 1e-5, 4, 2, n, blocks)
    assert mechanism.marginals.share and mechanism.marginals.by_class is by_class
    release = mechanism.release(lattice, labels, SeededBits(1))
    for wanted in (n, n // 3, 2 * n):
        drawn, drawn_labels = mechanism.draw(release, wanted, SeededBits(2))
        assert keeps_its_blocks(drawn, blocks)
        assert np.mean(drawn[:, 0] == 0) == pytest.approx(np.mean(lattice[:, 0] == 0), abs=0.04)
        for point in level_points(4):
            assert np.mean(drawn[:, 1] == point) == pytest.approx(np.mean(lattice[:, 1] == point), abs=0.04)
        made, real = (rows[rows[:, 2] == 0, 3] for rows in (drawn, lattice))
        quantiles = np.array([0.1, 0.25, 0.5, 0.75, 0.9])
        np.testing.assert_allclose(np.quantile(made, quantiles), np.quantile(real, quantiles), atol=2500)
        if by_class:
            for label in (0, 1):
                seen, true = drawn[drawn_labels == label, 0] == 0, lattice[labels == label, 0] == 0
                assert np.mean(seen) == pytest.approx(np.mean(true), abs=0.03)


@pytest.mark.parametrize("bins", [2, 3, 4, 17, 64])
def test_contrasts_are_orthonormal_and_single_out_the_ends(bins: int) -> None:
    rows = haar(bins)
    np.testing.assert_allclose(rows @ rows.T, np.eye(bins - 1), atol=1e-12)
    np.testing.assert_allclose(rows.sum(axis=1), 0.0, atol=1e-12)
    assert np.count_nonzero(np.abs(rows[:, 0]) > 1e-12) == 1


def test_noise_alone_moves_no_value_and_a_point_mass_stays() -> None:
    """Departures within their noise are dropped, one far outside it stays nearly whole."""
    noise = np.random.default_rng(1).standard_normal(60) * 0.01
    assert np.abs(shrunk(noise, np.full(60, 0.01))).max() < 0.01
    noise[5] += 0.8
    assert shrunk(noise, np.full(60, 0.01))[5] > 0.78


def test_releases_without_histograms_are_read_and_levels_kept() -> None:
    """A release that an earlier version stored has no histograms."""
    blocks = (Block("value", 1, 5), Block("nullable", 2, 3))
    lattice, labels = mixed_table(blocks, 40, 2, np.random.default_rng(0))
    mechanism = PrivateMoments(1.0, 1e-5, 3, 2, 40, blocks)
    assert not mechanism.marginals.share
    plain = mechanism.release(lattice, labels, SeededBits(1)).to_dict()
    older = {name: part for name, part in plain.items() if not name.startswith("marginal")}
    release = MomentsRelease.from_dict(older)
    assert release.to_dict() == plain
    assert keeps_its_blocks(mechanism.draw(release, 40, SeededBits(2))[0], blocks)


# pieces

KINDS_WITH_LEVELS = (*ALL_KINDS, Block("value", 1, 9))
WIDTH = sum(block.width for block in KINDS_WITH_LEVELS)


def cut(lattice: IntArray, labels: IntArray, ends: list[int]) -> Callable[[], Iterator[tuple[IntArray, IntArray]]]:
    """Rows in pieces that end there; may be read more than once."""
    return lambda: zip(np.split(lattice, ends), np.split(labels, ends), strict=True)


@pytest.mark.parametrize("n_rows", [60, 1200, 40_000])
def test_a_release_of_pieces_is_that_of_the_whole(n_rows: int) -> None:
    """Without a third release, with one of all rows, and with one by class."""
    lattice, labels = mixed_table(KINDS_WITH_LEVELS, n_rows, 3, np.random.default_rng(0))
    mechanism = PrivateMoments(4.0, 1e-5, WIDTH, 3, n_rows, KINDS_WITH_LEVELS)
    expected = mechanism.release(lattice, labels, SeededBits(1)).to_dict()
    for ends in ([], [1], list(range(7, n_rows, max(7, n_rows // 9))), [n_rows // 2, n_rows - 1]):
        found = mechanism.release_from(cut(lattice, labels, ends), SeededBits(1)).to_dict()
        assert json.dumps(found) == json.dumps(expected)
    in_classes = np.argsort(labels, kind="stable")  # pieces of one class each
    sorted_ends = np.cumsum(np.bincount(labels))[:-1].tolist()
    found = mechanism.release_from(cut(lattice[in_classes], labels[in_classes], sorted_ends), SeededBits(1)).to_dict()
    assert json.dumps(found) == json.dumps(expected)


def test_pieces_are_checked_as_the_whole_is() -> None:
    lattice, labels = mixed_table(KINDS_WITH_LEVELS, 60, 2, np.random.default_rng(0))
    mechanism = PrivateMoments(1.0, 1e-5, WIDTH, 2, 60, KINDS_WITH_LEVELS)
    for size in (59, 1):
        with pytest.raises(ValueError, match=f"lattice must have 60 rows, got {size}"):
            mechanism.release_from(cut(lattice[:size], labels[:size], []), SeededBits(1))
    with pytest.raises(ValueError, match="lattice must have 60 rows, got 61"):
        more = cut(np.vstack([lattice, lattice[:1]]), np.append(labels, labels[0]), [60])
        mechanism.release_from(more, SeededBits(1))
    late = labels.copy()
    late[-1] = 2
    with pytest.raises(ValueError, match=r"labels must lie in \[0, 1\]"):
        mechanism.release_from(cut(lattice, late, [30]), SeededBits(1))
    broken = lattice.copy()
    broken[-1, :4] = LATTICE_STEPS
    with pytest.raises(ValueError, match="break the rule of blocks"):
        mechanism.release_from(cut(broken, labels, [30]), SeededBits(1))


@pytest.mark.parametrize("most", [100, 1000, 4999, 5000, 10**6])
def test_drawn_pieces_have_together_what_one_draw_has_of_each_class(most: int) -> None:
    n_rows, shares = 5000, [0.7, 0.25, 0.04, 0.01]
    random = np.random.default_rng(3)
    lattice, _ = mixed_table(KINDS_WITH_LEVELS, n_rows, 1, random)
    labels = random.permutation(np.repeat(np.arange(4), (np.array(shares) * n_rows).astype(int)))
    mechanism = PrivateMoments(8.0, 1e-5, WIDTH, 4, n_rows, KINDS_WITH_LEVELS)
    release = mechanism.release(lattice, labels, SeededBits(1))
    _, whole = mechanism.draw(release, n_rows, SeededBits(2))
    pieces = list(mechanism.draw_pieces(release, most, SeededBits(2)))
    counts = np.array([np.bincount(own, minlength=4) for _, own in pieces])
    assert counts.sum(axis=0).tolist() == np.bincount(whole, minlength=4).tolist()
    assert all(keeps_its_blocks(rows, KINDS_WITH_LEVELS) and len(rows) == len(own) for rows, own in pieces)
    assert len(pieces) <= math.ceil(n_rows / most)
    for own in counts.T:
        assert np.count_nonzero(own) == min(math.ceil(n_rows / most), max(1, own.sum() // 64))
        assert np.ptp(own[own > 0]) <= 1, "the pieces of a class are of even size"
    again = list(mechanism.draw_pieces(release, most, SeededBits(2)))
    assert all(np.array_equal(one[0], other[0]) for one, other in zip(pieces, again, strict=True))
    if most >= n_rows:
        assert np.array_equal(pieces[0][0], mechanism.draw(release, n_rows, SeededBits(2))[0])


def test_small_classes_are_not_all_in_the_same_piece() -> None:
    """Forty classes of 100 rows, in pieces of 1,000: none has much more than its part, none is empty."""
    lattice, _ = table(4000, 3, 1)
    labels = np.repeat(np.arange(40), 100)
    mechanism = PrivateMoments(8.0, 1e-5, 3, 40, 4000)
    release = mechanism.release(lattice, labels, SeededBits(1))
    sizes = [len(own) for _, own in mechanism.draw_pieces(release, 1000, SeededBits(2))]
    assert sum(sizes) == 4000 and len(sizes) == 4 and max(sizes) < 1500 and min(sizes) > 500


@pytest.mark.parametrize("third", [False, True])
def test_moments_of_all_pieces_agree_with_the_model(third: bool) -> None:
    """Pieces are drawn with the model's sample moments, so these are met but for clipping and rounding.

    20,000 rows of normal classes at their own places, far from the ends. Where values are moved to histograms, those
    decide, and pieces agree with one draw: means to 0.005 of the range, covariances to a tenth of a variance.
    """
    n_rows = 20_000
    lattice, labels = table(n_rows, 5, 2)
    mechanism = PrivateMoments(8.0, 1e-5, 5, 2, n_rows)
    release = mechanism.release(lattice, labels, SeededBits(1))
    assert mechanism.marginals.share > 0
    model = fit_model(release, mechanism.layout)
    marginals = release if third else None
    pieces = list(draw_pieces(model, release.standardization, n_rows, SeededBits(2), mechanism.layout, marginals, 2000))
    assert len(pieces) == 10
    rows, drawn = (np.concatenate(own) for own in zip(*pieces, strict=True))
    whole, whole_labels = mechanism.draw(release, n_rows, SeededBits(3))
    scale, centre = release.standardization.scale, release.standardization.centre + LATTICE_STEPS // 2
    for label in (0, 1):
        mine = rows[drawn == label]
        if third:
            theirs = whole[whole_labels == label]
            means, covariance = theirs.mean(axis=0), np.cov(theirs.T)
        else:
            root = model.roots[label if len(model.roots) > 1 else 0]
            means = centre + model.means[label] * scale
            covariance = root @ root.T * np.outer(scale, scale)
        np.testing.assert_allclose(mine.mean(axis=0), means, atol=0.005 * LATTICE_STEPS)
        np.testing.assert_allclose(np.cov(mine.T), covariance, atol=0.1 * np.diag(covariance).max())
        for own, of in pieces:  # and each of them
            np.testing.assert_allclose(own[of == label].mean(axis=0), means, atol=0.01 * LATTICE_STEPS)


def test_a_noisy_release_of_a_class_without_rows_is_drawn_in_pieces() -> None:
    lattice, _ = table(3000, 3, 1)
    labels = np.zeros(3000, dtype=np.int64)
    mechanism = PrivateMoments(2.0, 1e-5, 3, 5, 3000)
    release = mechanism.release(lattice, labels, SeededBits(1))
    pieces = list(mechanism.draw_pieces(release, 500, SeededBits(2)))
    assert sum(len(own) for _, own in pieces) == 3000 and all(len(own) for _, own in pieces)


def _drawn_in_pieces(shares: np.ndarray, most: int) -> tuple[PrivateMoments, MomentsRelease, list[tuple[Any, Any]]]:
    """Two values about .2, .5 or .8, by class in turn; 30,000 rows."""
    random, n = np.random.default_rng(0), 30_000
    labels = random.choice(len(shares), n, p=shares / shares.sum())
    cells = np.array([0.2, 0.5, 0.8])[labels % 3][:, None] + 0.05 * random.normal(size=(n, 2))
    mechanism = PrivateMoments(8.0, 1e-6, 2, len(shares), n)
    lattice = np.rint(np.clip(cells, 0, 1) * LATTICE_STEPS).astype(np.int64)
    release = mechanism.release(lattice, labels, SeededBits(1))
    return mechanism, release, list(mechanism.draw_pieces(release, most, SeededBits(2)))


def test_a_rare_class_in_one_piece_of_five_keeps_its_distribution() -> None:
    """Beside one draw of everything. Where a row of a piece counts for one row of all, its deviation is off by 0.2."""
    mechanism, release, pieces = _drawn_in_pieces(np.array([0.5, 0.497, 0.003]), 6_000)
    assert release.marginals.shape[0] == 3 and release.marginals.size
    assert sum(2 in labels for _, labels in pieces) == 1 and len(pieces) == 5
    lattice, drawn = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    whole, whole_labels = mechanism.draw(release, 30_000, SeededBits(2))
    for label in range(3):
        found, alike = lattice[drawn == label] / LATTICE_STEPS, whole[whole_labels == label] / LATTICE_STEPS
        assert np.abs(found.mean(axis=0) - alike.mean(axis=0)).max() < 0.02
        assert np.abs(found.std(axis=0) - alike.std(axis=0)).max() < 0.02


def test_pieces_have_about_the_mix_of_classes_that_all_rows_have() -> None:
    """300 classes of some 100 rows, each in one piece of three, of three kinds in turn."""
    _, _, pieces = _drawn_in_pieces(np.full(300, 1.0), 10_000)
    for _, labels in pieces:
        kinds = np.bincount(labels % 3, minlength=3) / len(labels)
        assert kinds.min() > 0.2 and kinds.max() < 0.5  # in the order of the labels each piece has one kind
