"""The guarantee of private moments, tried on neighbours: sensitivities in integer units, and what samples show."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from tasks.noise import SeededBits
from tasks.noise.gaussian_profile import gaussian_delta
from tasks.noise.lattice_gaussian import LatticeGaussian
from tasks.noise.moments import Standardization
from tasks.noise.moments.marginals import histograms
from tasks.noise.moments.released import COUNT_UNIT
from tasks.noise.moments.sums import first_sums, second_sums, standardize
from tasks.noise.private_moments import LATTICE_STEPS, Block, PrivateMoments
from tests.statistics import hockey_stick_violation

IntArray = NDArray[np.int64]

N_SAMPLES = 400_000


def first_statistic(lattice: IntArray) -> IntArray:
    return np.concatenate(first_sums(lattice))


def first_deviations(mechanism: PrivateMoments) -> NDArray[np.float64]:
    noise = mechanism.parameters()
    return np.repeat([float(noise["sums_noise"]), float(noise["squares_noise"])], mechanism.n_features)


def second_statistic(
    mechanism: PrivateMoments, lattice: IntArray, labels: IntArray, how: Standardization, *, per_class: bool
) -> IntArray:
    """All that the second release adds noise to: counts, class sums, diagonals, entries above them."""
    p = mechanism.n_features
    counts, sums, seconds = second_sums(lattice, labels, mechanism.n_classes, how, per_class=per_class)
    rows, columns = np.triu_indices(p, 1)
    diagonals = seconds[:, np.arange(p), np.arange(p)]
    return np.concatenate([counts, sums.ravel(), diagonals.ravel(), seconds[:, rows, columns].ravel()])


def second_deviations(mechanism: PrivateMoments, *, per_class: bool) -> NDArray[np.float64]:
    noise, p, c = mechanism.parameters(), mechanism.n_features, mechanism.n_classes
    blocks = c if per_class else 1
    names = ["counts_noise", "class_sums_noise", "diagonal_noise", "above_diagonal_noise"]
    return np.repeat([float(noise[name]) for name in names], [c, c * p, blocks * p, blocks * p * (p - 1) // 2])


def rows_to_try(p: int, random: np.random.Generator) -> IntArray:
    """Random rows, corners, the middle, single columns at their ends, and rows on one line through the middle."""
    middle = LATTICE_STEPS // 2
    directions = random.uniform(-1.0, 1.0, (8, p))
    directions /= np.abs(directions).max(axis=1, keepdims=True)
    lengths = np.array([-1.0, -0.3, -0.03, 0.03, 0.3, 1.0])
    line = np.rint(middle * (1.0 + lengths[:, None, None] * directions)).reshape(-1, p)
    single = np.full((2 * p, p), middle)
    single[np.arange(p), np.arange(p)] = 0
    single[p + np.arange(p), np.arange(p)] = LATTICE_STEPS
    corners = random.integers(0, 2, (16, p)) * LATTICE_STEPS
    ends = np.array([[0] * p, [LATTICE_STEPS] * p, [middle] * p])
    return np.concatenate([line, single, corners, LATTICE_STEPS - corners, ends]).astype(np.int64)


@pytest.mark.parametrize("p", [1, 2, 5])
def test_no_neighbour_exceeds_the_first_release_and_the_bound_is_met(p: int) -> None:
    mechanism = PrivateMoments(1.0, 1e-5, p, 2, 3)
    tried = rows_to_try(p, np.random.default_rng(p))
    random_pairs = np.random.default_rng(p + 10).integers(0, LATTICE_STEPS + 1, (100, p))
    statistics = np.array([first_statistic(row[None]) for row in np.concatenate([tried, random_pairs])])
    scaled = statistics / first_deviations(mechanism)
    farthest = max(float(np.max(np.linalg.norm(scaled - one, axis=1))) for one in scaled)
    assert 0.999 * mechanism.first_mu < farthest <= mechanism.first_mu


@pytest.mark.parametrize(("p", "c"), [(1, 1), (1, 3), (2, 2), (5, 1), (5, 3)])
@pytest.mark.parametrize("per_class", [False, True])
@pytest.mark.parametrize("steepness", [1.0, 1000.0])
def test_no_neighbour_exceeds_the_second_release_and_the_bound_is_met(
    p: int, c: int, per_class: bool, steepness: float
) -> None:
    """Neighbours change the label too; steepness 1000 sends all rows to the sphere of radius G."""
    mechanism = PrivateMoments(1.0, 1e-5, p, c, 3)
    random = np.random.default_rng(100 * p + c)
    factor = np.full(p, round(steepness * mechanism.unit * 2**24 / 2**15), dtype=np.int64)
    how = Standardization(np.zeros(p, dtype=np.int64), factor, mechanism.unit, mechanism.radius)
    rest, rest_labels = random.integers(0, LATTICE_STEPS + 1, (2, p)), np.array([0, c - 1])
    statistics = np.array(
        [
            second_statistic(mechanism, np.vstack([row, rest]), np.append(label, rest_labels), how, per_class=per_class)
            for row, label in product(rows_to_try(p, random), range(c))
        ]
    )
    scaled = statistics / second_deviations(mechanism, per_class=per_class)
    farthest = max(float(np.max(np.linalg.norm(scaled - one, axis=1))) for one in scaled)
    assert 0.97 * mechanism.second_mu < farthest <= mechanism.second_mu


def test_no_row_leaves_the_ball_however_it_is_standardised() -> None:
    random = np.random.default_rng(5)
    for p in (1, 3, 50):
        rows = np.concatenate([rows_to_try(p, random), random.integers(0, LATTICE_STEPS + 1, (2000, p))])
        for factor, radius in ((2**10, 500), (2**19, 1), (2**19, 793), (2**24, 4096)):
            how = Standardization(
                random.integers(-(2**15), 2**15, p), np.full(p, factor, dtype=np.int64), 2**10, radius
            )
            grid = standardize(rows, how)
            squared = [sum(int(cell) ** 2 for cell in row) for row in grid]
            assert max(squared) <= radius**2
            if radius > 100 and factor > 2**10:
                assert max(squared) > 0.9 * (radius - math.sqrt(p)) ** 2  # cut to the ball, not to nothing


def scores(
    statistics: list[IntArray], deviations: NDArray[np.float64], bits: SeededBits, shrink: float
) -> list[NDArray[np.float64]]:
    """Noisy statistics of two neighbours along the line that tells them apart best, in units of noise."""
    direction = (statistics[0] - statistics[1]) / deviations
    distance = float(np.linalg.norm(direction))
    out = []
    for statistic in statistics:
        score = np.zeros(N_SAMPLES)
        for j in np.flatnonzero(direction):
            law = LatticeGaussian(float(deviations[j]) * shrink)
            noisy = statistic[j] - statistics[1][j] + law.sample(N_SAMPLES, bits=bits)
            score += noisy * (direction[j] / deviations[j])
        out.append(score)
    assert distance > 0
    return out


def verdicts(epsilon: float, delta: float, first: NDArray[np.float64], second: NDArray[np.float64]) -> bool:
    whole = [np.rint(part * 1e6).astype(np.int64) for part in (first, second)]
    return hockey_stick_violation(whole[0], whole[1], epsilon, delta) is not None


@pytest.mark.parametrize(("shrink", "convicted"), [(1.0, False), (0.8, True)])
def test_both_releases_together_keep_their_claim(shrink: float, convicted: bool) -> None:
    """The row that goes from one corner to the opposite one meets both bounds at once.

    The neighbours' log-likelihood ratio is a function of the two scores' sum, so no other test is stronger.
    """
    epsilon, delta = 0.5, 0.05
    mechanism = PrivateMoments(epsilon, delta, 2, 2, 3)
    labels = np.array([0, 0, 1])
    neighbours = [np.array([[end, end], [30000, 2], [5, 60000]], dtype=np.int64) for end in (0, LATTICE_STEPS)]
    factor = np.full(2, 2**23, dtype=np.int64)
    how = Standardization(np.zeros(2, dtype=np.int64), factor, mechanism.unit, mechanism.radius)
    bits = SeededBits(11)
    first = scores([first_statistic(rows) for rows in neighbours], first_deviations(mechanism), bits, shrink)
    second = scores(
        [second_statistic(mechanism, rows, labels, how, per_class=False) for rows in neighbours],
        second_deviations(mechanism, per_class=False),
        bits,
        shrink,
    )
    assert verdicts(epsilon, delta, first[0] + second[0], first[1] + second[1]) is convicted


@pytest.mark.parametrize("per_class", [False, True])
@pytest.mark.parametrize(("shrink", "convicted"), [(1.0, False), (0.8, True)])
def test_a_changed_label_keeps_the_second_release_s_claim(per_class: bool, shrink: float, convicted: bool) -> None:
    mechanism = PrivateMoments(0.5, 0.05, 2, 2, 3)
    how = Standardization(np.zeros(2, dtype=np.int64), np.full(2, 2**23), mechanism.unit, mechanism.radius)
    middle = LATTICE_STEPS // 2
    rest = np.array([[1, 2], [3, 60000]], dtype=np.int64)
    statistics = [
        second_statistic(mechanism, np.vstack([row, rest]), np.array([label, 0, 1]), how, per_class=per_class)
        for row, label in (([LATTICE_STEPS, middle], 0), ([middle, 0], 1))
    ]
    pair = scores(statistics, second_deviations(mechanism, per_class=per_class), SeededBits(12), shrink)
    delta = gaussian_delta(0.5, 1.0 / mechanism.second_mu, 1.0)
    assert verdicts(0.5, delta, *pair) is convicted


def test_every_released_statistic_gets_its_noise() -> None:
    """Released less exact, over the stated deviation, has deviation 1 for each statistic of its own.

    At least 600 numbers each, so outside 0.8 to 1.25 lies less than 1e-9 of the runs; noise left out of one gives 0.
    """
    from tasks.noise.moments.sums import first_sums, second_sums

    random = np.random.default_rng(3)
    n, p, c = 60, 12, 10
    mechanism = PrivateMoments(4.0, 1e-5, p, c, n)
    lattice, labels = random.integers(0, 2**16 + 1, (n, p)), random.integers(0, c, n)
    sums, squares = first_sums(lattice)
    scores: dict[str, list[float]] = {}
    for seed in range(60):
        release = mechanism.release(lattice, labels, SeededBits(seed))
        counts, class_sums, seconds = second_sums(
            lattice, labels, c, release.standardization, per_class=mechanism.per_class
        )
        above = np.triu_indices(p, 1)
        pairs = {
            "sums": (release.first.sums - sums, release.first.sums_noise),
            "squares": (release.first.squares - squares, release.first.squares_noise),
            "counts": (release.counts - counts, release.counts_noise),
            "class sums": (release.class_sums - class_sums, release.class_sums_noise),
            "above": ((release.second_moments - seconds)[:, above[0], above[1]], release.second_moments_noise),
            "diagonal": (
                np.diagonal(release.second_moments - seconds, axis1=1, axis2=2),
                np.sqrt(2.0) * release.second_moments_noise,
            ),
        }
        for name, (noise, deviation) in pairs.items():
            scores.setdefault(name, []).extend((np.ravel(noise) / deviation).tolist())
    for name, values in scores.items():
        assert len(values) >= 600 and 0.8 < np.std(values) < 1.25, name


def every_row(blocks: tuple[Block, ...], values: list[int]) -> IntArray:
    """All rows that keep the rules of the blocks, with each value one of some."""
    parts: list[list[list[int]]] = []
    for block in blocks:
        if block.kind == "one-hot":
            parts.append((np.eye(block.width, dtype=np.int64) * LATTICE_STEPS).tolist())
        elif block.kind == "binary":
            parts.append([[0], [LATTICE_STEPS]])
        elif block.kind == "value":
            parts.append([[v] for v in values])
        else:
            parts.append([[LATTICE_STEPS, LATTICE_STEPS // 2], *([0, v] for v in values)])
    return np.array([[cell for part in row for cell in part] for row in product(*parts)], dtype=np.int64)


MIXED = [
    (Block("value", 1),),
    (Block("binary", 1),),
    (Block("one-hot", 3),),
    (Block("one-hot", 12),),
    (Block("nullable", 2),),
    (Block("nullable", 2), Block("one-hot", 4)),
    (Block("binary", 1), Block("one-hot", 3), Block("value", 1), Block("nullable", 2)),
]


@pytest.mark.parametrize("blocks", MIXED)
def test_no_mixed_neighbour_exceeds_either_release_and_the_first_bound_is_met(blocks: tuple[Block, ...]) -> None:
    """All pairs of rows of a grid, with all pairs of labels in the second release."""
    mechanism = PrivateMoments(1.0, 1e-5, sum(block.width for block in blocks), 2, 3, blocks)
    values = [0, 1, 9000, 16384, 21845, 32767, 32768, 32769, 43691, 50000, 65535, 65536]
    tried = every_row(blocks, values if len(blocks) < 3 else values[::5] + values[-1:])
    scaled = np.array([first_statistic(row[None]) for row in tried]) / first_deviations(mechanism)
    farthest = max(float(np.max(np.linalg.norm(scaled - one, axis=1))) for one in scaled)
    assert 0.999999 * mechanism.first_mu < farthest <= mechanism.first_mu

    random = np.random.default_rng(len(tried))
    some, rest = tried[random.permutation(len(tried))[:60]], tried[:2]
    how = mechanism.release(np.vstack([some[:1], rest]), np.array([0, 0, 1]), SeededBits(3)).standardization
    for per_class in (False, True):
        statistics = np.array(
            [
                second_statistic(mechanism, np.vstack([row, rest]), np.array([label, 0, 1]), how, per_class=per_class)
                for row, label in product(some, (0, 1))
            ]
        )
        scaled = statistics / second_deviations(mechanism, per_class=per_class)
        assert max(float(np.max(np.linalg.norm(scaled - one, axis=1))) for one in scaled) <= mechanism.second_mu


@pytest.mark.parametrize(
    ("blocks", "neighbours", "wrong_cost"),
    [
        ((Block("one-hot", 3),), ([LATTICE_STEPS, 0, 0], [0, 0, LATTICE_STEPS]), 4),
        ((Block("nullable", 2),), ([LATTICE_STEPS, LATTICE_STEPS // 2], [0, LATTICE_STEPS]), 4),
    ],
    ids=["one-hot", "nullable"],
)
@pytest.mark.parametrize("broken", [False, True])
def test_the_first_release_of_mixed_rows_keeps_its_claim(
    blocks: tuple[Block, ...], neighbours: tuple[list[int], list[int]], wrong_cost: int, broken: bool
) -> None:
    """Noise scaled as if a one-hot or nullable block counted no more than a value is convicted.

    2 times 400000 samples of the likelihood ratio's own score; a right mechanism is convicted in at most 1 of 1000.
    """
    mechanism = PrivateMoments(4.0, 0.05, blocks[0].width, 1, 1, blocks)
    shrink = math.sqrt(wrong_cost / blocks[0].first_cost) if broken else 1.0
    statistics = [first_statistic(np.array([row], dtype=np.int64)) for row in neighbours]
    pair = scores(statistics, first_deviations(mechanism), SeededBits(13), shrink)
    epsilon = 0.5 * mechanism.first_mu**2
    delta = gaussian_delta(epsilon, 1.0 / mechanism.first_mu, 1.0)
    assert verdicts(epsilon, delta, *pair) is broken


@pytest.mark.parametrize("broken", [False, True])
def test_distances_convict_a_noise_that_counts_a_one_hot_block_once(broken: bool) -> None:
    """The exact distance of two neighbours shows it without any sample."""
    blocks = (Block("one-hot", 5), Block("nullable", 2))
    mechanism = PrivateMoments(1.0, 1e-5, 7, 1, 1, blocks)
    middle = LATTICE_STEPS // 2
    neighbours = np.array([[LATTICE_STEPS, 0, 0, 0, 0, 0, 0], [0, LATTICE_STEPS, 0, 0, 0, LATTICE_STEPS, middle]])
    moved = first_statistic(neighbours[:1]) - first_statistic(neighbours[1:])
    deviations = first_deviations(mechanism) * (math.sqrt((4 + 7) / (8 + 7)) if broken else 1.0)
    assert (float(np.linalg.norm(moved / deviations)) > mechanism.first_mu) is broken


def test_every_kind_of_mixed_column_gets_its_noise() -> None:
    """Released less exact sums, over the deviation stated for the column's mean, have deviation 1.

    600 numbers for each block, so outside 0.8 to 1.25 lies less than 1e-9 of the runs.
    """
    blocks = MIXED[-1]
    rows = every_row(blocks, [0, 500, LATTICE_STEPS])
    mechanism = PrivateMoments(1.0, 1e-5, rows.shape[1], 1, len(rows), blocks)
    sums = first_sums(rows)[0]
    noise = []
    for seed in range(600):
        release = mechanism.release(rows, np.zeros(len(rows), dtype=np.int64), SeededBits(seed))
        noise.append((release.first.sums - sums) / (len(rows) * LATTICE_STEPS))
    seen, start = np.std(noise, axis=0), 0
    for block in mechanism.expected_noise().blocks:
        ratios = seen[start : start + block.width] / block.column_mean
        assert np.all((ratios > 0.8) & (ratios < 1.25))
        start += block.width


def third_statistic(mechanism: PrivateMoments, lattice: IntArray, labels: IntArray) -> IntArray:
    rule = mechanism.marginals
    groups = mechanism.n_classes if rule.by_class else 1
    return histograms(lattice, labels * rule.by_class, groups, mechanism.layout, rule.bins).ravel() * COUNT_UNIT


LEVELS = [
    (Block("value", 1),),
    (Block("value", 1, 3),),
    (Block("nullable", 2, 4),),
    (Block("nullable", 2), Block("value", 1, 2), Block("one-hot", 3)),
]


@pytest.mark.parametrize("blocks", LEVELS)
@pytest.mark.parametrize("n_classes", [1, 2])
def test_no_neighbour_exceeds_the_third_release_and_the_bound_is_met(blocks: tuple[Block, ...], n_classes: int) -> None:
    """All pairs of rows of a grid, with all pairs of labels; by class and not.  Rows that agree say nothing."""
    columns = sum(block.width for block in blocks)
    n_rows = 10**5
    kinds = {PrivateMoments(4.0, 1e-5, columns, c, n_rows, blocks).marginals.by_class for c in (1, 2)}
    assert kinds == {False, True}
    mechanism = PrivateMoments(4.0, 1e-5, columns, n_classes, n_rows, blocks)
    tried = on_levels(every_row(blocks, [0, 1, 9000, 32768, 65535, 65536]), blocks)
    statistics = np.array(
        [third_statistic(mechanism, row[None], np.array([label])) for row, label in product(tried, range(n_classes))]
    )
    scaled = statistics / float(mechanism.parameters()["marginals_noise"])
    farthest = max(float(np.max(np.linalg.norm(scaled - one, axis=1))) for one in scaled)
    assert 0.999999 * mechanism.third_mu < farthest <= mechanism.third_mu


def on_levels(rows: IntArray, blocks: tuple[Block, ...]) -> IntArray:
    """Present values of coordinates with levels, moved to the nearest."""
    rows, at = rows.copy(), 0
    for block in blocks:
        at += block.width
        if block.levels:
            nearest = np.rint(rows[:, at - 1] / LATTICE_STEPS * (block.levels - 1)) / (block.levels - 1)
            missing = rows[:, at - 2] > 0 if block.kind == "nullable" else np.zeros(len(rows), dtype=bool)
            rows[~missing, at - 1] = np.rint(nearest * LATTICE_STEPS).astype(np.int64)[~missing]
    return rows


@pytest.mark.parametrize("broken", [False, True])
def test_histograms_keep_their_claim_and_noise_for_one_moved_bin_is_convicted(broken: bool) -> None:
    """Noise scaled as if a replaced row moved one bin: by the exact distance, and by samples."""
    blocks = (Block("value", 1), Block("nullable", 2, 3))
    mechanism = PrivateMoments(4.0, 0.05, 3, 1, 2000, blocks)
    rows = np.array([[0, 0, 0], [LATTICE_STEPS, 0, LATTICE_STEPS]], dtype=np.int64)
    statistics = [third_statistic(mechanism, row[None], np.zeros(1, dtype=np.int64)) for row in rows]
    shrink = math.sqrt(0.5) if broken else 1.0
    deviations = np.full(len(statistics[0]), float(mechanism.parameters()["marginals_noise"]))
    moved = float(np.linalg.norm((statistics[0] - statistics[1]) / (deviations * shrink)))
    assert (moved > mechanism.third_mu) is broken
    pair = scores(statistics, deviations, SeededBits(14), shrink)
    epsilon = 0.5 * mechanism.third_mu**2
    assert verdicts(epsilon, gaussian_delta(epsilon, 1.0 / mechanism.third_mu, 1.0), *pair) is broken


def test_every_bin_gets_its_noise() -> None:
    """At least 600 numbers, so outside 0.8 to 1.25 lies less than 1e-9 of the runs."""
    blocks = (Block("value", 1), Block("nullable", 2, 5))
    rows = np.repeat(every_row(blocks[:1], [0, 7, 65536]), 500, axis=0)
    lattice = np.hstack([rows, np.tile([0, 16384], (len(rows), 1))])
    labels = np.zeros(len(rows), dtype=np.int64)
    mechanism = PrivateMoments(2.0, 1e-5, 3, 1, len(rows), blocks)
    noise = np.array(
        [
            mechanism.release(lattice, labels, SeededBits(seed)).marginals.ravel()
            - third_statistic(mechanism, lattice, labels)
            for seed in range(600)
        ]
    )
    ratios = np.std(noise, axis=0) / float(mechanism.parameters()["marginals_noise"])
    assert np.all((ratios > 0.8) & (ratios < 1.25)) and len(np.unique(noise)) > 0.5 * noise.size
