"""What must hold for private moments whatever the table."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.noise import SeededBits
from tasks.noise.moments import MomentsRelease
from tasks.noise.moments.marginals import histograms
from tasks.noise.moments.sums import first_sums, second_sums
from tasks.noise.private_moments import LATTICE_STEPS, Block, PrivateMoments
from tests.unit.test_private_moments import keeps_its_blocks, mixed_table

sizes = st.tuples(st.integers(1, 40), st.integers(1, 12), st.integers(1, 5))
# few different values, so that the noise laws are set up once
epsilons = st.sampled_from([0.05, 1.0, 20.0])
seeds = st.integers(0, 2**32)
block = st.one_of(
    st.sampled_from([Block("value", 1), Block("binary", 1), Block("nullable", 2)]),
    st.builds(Block, st.just("value"), st.just(1), st.integers(2, 9)),
    st.builds(Block, st.just("nullable"), st.just(2), st.integers(2, 9)),
    st.integers(3, 6).map(lambda k: Block("one-hot", k)),
)
mixed = st.lists(block, min_size=1, max_size=5).map(tuple)


@settings(max_examples=25, deadline=None)
@given(sizes, epsilons, seeds, st.integers(1, 60), st.sampled_from([0, 1, LATTICE_STEPS]))
def test_draws_are_rows_of_the_domain(
    size: tuple[int, int, int], epsilon: float, seed: int, n_drawn: int, spread: int
) -> None:
    n, p, c = size
    random = np.random.default_rng(seed)
    lattice = random.integers(0, spread + 1, (n, p)).astype(np.int64)
    mechanism = PrivateMoments(epsilon, 1e-5, p, c, n)
    release = mechanism.release(lattice, random.integers(0, c, n).astype(np.int64), SeededBits(seed))
    plain = release.to_dict()
    assert MomentsRelease.from_dict(json.loads(json.dumps(plain))).to_dict() == plain
    drawn, labels = mechanism.draw(release, n_drawn, SeededBits(seed + 1))
    assert drawn.shape == (n_drawn, p) and labels.shape == (n_drawn,)
    assert drawn.min() >= 0 and drawn.max() <= LATTICE_STEPS
    assert labels.min() >= 0 and labels.max() < c


@settings(max_examples=20, deadline=None)
@given(sizes, seeds)
def test_order_of_rows_is_irrelevant_and_the_draw_depends_on_the_release_alone(
    size: tuple[int, int, int], seed: int
) -> None:
    n, p, c = size
    random = np.random.default_rng(seed)
    lattice = random.integers(0, LATTICE_STEPS + 1, (n, p)).astype(np.int64)
    labels = random.integers(0, c, n).astype(np.int64)
    order = random.permutation(n)
    mechanism = PrivateMoments(1.0, 1e-5, p, c, n)
    release = mechanism.release(lattice, labels, SeededBits(seed))
    assert mechanism.release(lattice[order], labels[order], SeededBits(seed)).to_dict() == release.to_dict()


@settings(max_examples=30, deadline=None)
@given(epsilons, st.integers(1, 50), st.integers(1, 10), st.integers(1, 10**6))
def test_noise_falls_with_epsilon_and_a_plan_is_finite(epsilon: float, p: int, c: int, n: int) -> None:
    less_private = PrivateMoments(1.5 * epsilon, 1e-5, p, c, n)
    mechanism = PrivateMoments(epsilon, 1e-5, p, c, n)
    assert less_private.mu > mechanism.mu
    assert less_private.expected_noise().column_mean < mechanism.expected_noise().column_mean
    figures = vars(mechanism.expected_noise())
    assert figures.pop("blocks") == ()
    assert (figures.pop("marginal") > 0) is bool(mechanism.marginals.share)
    assert all(np.isfinite(value) and value > 0 for value in figures.values())


@settings(max_examples=35, deadline=None)
@given(mixed, st.integers(1, 40), st.integers(1, 4), epsilons, seeds, st.integers(1, 60))
def test_mixed_rows_are_drawn_as_mixed_rows(
    blocks: tuple[Block, ...], n: int, c: int, epsilon: float, seed: int, n_drawn: int
) -> None:
    random = np.random.default_rng(seed)
    lattice, labels = mixed_table(blocks, n, c, random)
    mechanism = PrivateMoments(epsilon, 1e-5, lattice.shape[1], c, n, blocks)
    release = mechanism.release(lattice, labels, SeededBits(seed))
    order = random.permutation(n)
    assert mechanism.release(lattice[order], labels[order], SeededBits(seed)).to_dict() == release.to_dict()
    drawn, drawn_labels = mechanism.draw(release, n_drawn, SeededBits(seed + 1))
    assert drawn.shape == (n_drawn, lattice.shape[1]) and drawn.dtype == np.int64
    assert keeps_its_blocks(drawn, blocks)
    assert drawn_labels.min() >= 0 and drawn_labels.max() < c


@settings(max_examples=100, deadline=None)
@given(mixed, st.integers(1, 3), st.integers(1, 4), seeds, st.booleans())
def test_no_mixed_neighbour_exceeds_any_release(
    blocks: tuple[Block, ...], c: int, n: int, seed: int, at_the_ends: bool
) -> None:
    """The squared distance of two neighbours' exact sums, in units of noise, is at most mu1^2, mu2^2 and mu3^2."""
    random = np.random.default_rng(seed)
    lattice, labels = mixed_table(blocks, n, c, random, at_the_ends=at_the_ends)
    row, label = mixed_table(blocks, 1, c, random, at_the_ends=at_the_ends)
    other, other_labels = np.vstack([row, lattice[1:]]), np.append(label, labels[1:])
    mechanism = PrivateMoments(1.0, 1e-5, lattice.shape[1], c, n, blocks)
    noise = mechanism.parameters()
    first = [a - b for a, b in zip(first_sums(lattice), first_sums(other), strict=True)]
    moved = sum(
        float(np.sum((part / noise[name]) ** 2))
        for part, name in zip(first, ("sums_noise", "squares_noise"), strict=True)
    )
    assert moved <= mechanism.first_mu**2

    how = mechanism.release(lattice, labels, SeededBits(seed)).standardization
    for per_class in (False, True):
        counts, sums, seconds = (
            a - b
            for a, b in zip(
                second_sums(lattice, labels, c, how, per_class=per_class),
                second_sums(other, other_labels, c, how, per_class=per_class),
                strict=True,
            )
        )
        moved = float(np.sum((counts / noise["counts_noise"]) ** 2) + np.sum((sums / noise["class_sums_noise"]) ** 2))
        # Noise above the diagonal is 1 / sqrt 2 of that on it, so each entry of the mirrored matrix counts alike.
        moved += float(np.sum((seconds / noise["diagonal_noise"]) ** 2))
        assert moved <= mechanism.second_mu**2

    # Histograms of so few rows are never released; their noise is that of a mechanism with more rows.
    more = PrivateMoments(1.0, 1e-5, lattice.shape[1], c, 10**6, blocks)
    if more.marginals.share:
        deviation = float(more.parameters()["marginals_noise"]) / 1024
        for groups, other_groups in ((labels, other_labels), (0 * labels, 0 * labels)):
            one, two = (
                histograms(rows, own, c, more.layout, bins)
                for rows, own in ((lattice, groups), (other, other_groups))
                for bins in (more.marginals.bins,)
            )
            assert np.sum(((one - two) / deviation) ** 2) <= more.third_mu**2
    else:
        assert not more.layout.values.size


@settings(max_examples=20, deadline=None)
@given(mixed, st.integers(1, 3), seeds, st.integers(1, 3000))
def test_rows_moved_to_histograms_are_mixed_rows(blocks: tuple[Block, ...], c: int, seed: int, n_drawn: int) -> None:
    lattice, labels = mixed_table(blocks, 1500, c, np.random.default_rng(seed))
    mechanism = PrivateMoments(20.0, 1e-5, lattice.shape[1], c, 1500, blocks)
    release = mechanism.release(lattice, labels, SeededBits(seed))
    assert bool(mechanism.marginals.share) is bool(release.marginals.size)
    plain = release.to_dict()
    assert MomentsRelease.from_dict(json.loads(json.dumps(plain))).to_dict() == plain
    drawn, drawn_labels = mechanism.draw(release, n_drawn, SeededBits(seed + 1))
    assert drawn.shape == (n_drawn, lattice.shape[1]) and drawn_labels.shape == (n_drawn,)
    assert keeps_its_blocks(drawn, blocks)
