"""What must hold for private moments whatever the table."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.noise import SeededBits
from tasks.noise.moments import MomentsRelease
from tasks.noise.private_moments import LATTICE_STEPS, PrivateMoments

sizes = st.tuples(st.integers(1, 40), st.integers(1, 12), st.integers(1, 5))
# few different values, so that the noise laws are set up once
epsilons = st.sampled_from([0.05, 1.0, 20.0])
seeds = st.integers(0, 2**32)


@settings(max_examples=40, deadline=None)
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
    assert all(np.isfinite(value) and value > 0 for value in vars(mechanism.expected_noise()).values())
