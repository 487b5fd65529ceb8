"""Properties of machine, smoother and sharding on generated data.

The norm bound of the paper's theorems 2 and 3 is left out on purpose: the image has poles, see
`tests/known_answer/test_kahm_golden.py`.
"""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
from hypothesis import given, settings
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from tasks.kahm import KAHMClassifier, KernelAffineHullMachine, fabricate, shard_rows, smooth

Array = NDArray[np.float64]


def tables(max_rows: int = 12, max_columns: int = 5, size: float = 1.0) -> st.SearchStrategy[Any]:
    """Any table: ties, constant columns and identical rows come often, as Hypothesis likes them."""
    shape = st.tuples(st.integers(1, max_rows), st.integers(1, max_columns))
    values = st.one_of(st.sampled_from([0.0, 0.1, 1.0]), st.floats(-1.0, 1.0)).map(lambda value: size * value)
    return hnp.arrays(np.float64, shape, elements=values)


@st.composite
def generic_tables(draw: st.DrawFn, max_rows: int = 20, max_columns: int = 5) -> Array:
    """A table in general position."""
    shape = draw(st.tuples(st.integers(3, max_rows), st.integers(1, max_columns)))
    return np.random.default_rng(draw(st.integers(0, 2**32 - 1))).random(shape)


dimensions = st.integers(1, 8)


def usable(Y: Array) -> bool:
    largest = float(np.max(np.abs(Y)))
    return largest == 0.0 or largest >= 1e-100


@settings(deadline=None, max_examples=200)
@given(tables().filter(usable), dimensions, st.floats(-1e3, 1e3), st.integers(0, 80))
def test_always_finite(Y: Array, n: int, offset: float, exponent: int) -> None:
    machine = KernelAffineHullMachine(n).fit(Y)
    queries = np.vstack([Y, Y + offset, Y - 10.0**exponent])
    images = machine.transform(queries)
    assert images.shape == queries.shape and np.all(np.isfinite(images))
    assert np.all(np.isfinite(machine.distance(queries)))
    conditioning = machine.conditioning(queries)
    assert np.all((conditioning >= 0.0) & (conditioning <= 1.0))
    mean_square = np.sum(Y**2) / Y.size
    assert 2 * mean_square * (1 - 1e-14) <= machine.regularization_ <= 3 * mean_square * (1 + 1e-14)


@settings(deadline=None, max_examples=100)
@given(tables().filter(usable), dimensions, st.integers(1, 4))
def test_fabricated_data_have_the_shape_of_their_source(Y: Array, n: int, steps: int) -> None:
    result = fabricate(Y, n, steps=steps)
    assert result.data.shape == Y.shape and np.all(np.isfinite(result.data))
    assert result.steps == steps == len(result.errors)
    np.testing.assert_array_equal(smooth(Y, n, steps + 1), result.data)
    np.testing.assert_array_equal(smooth(Y, n, 1), Y)


@settings(deadline=None, max_examples=100)
@given(generic_tables(), dimensions, st.randoms(use_true_random=False))
def test_order_of_rows_is_irrelevant(Y: Array, n: int, random: Any) -> None:
    order = np.array(random.sample(range(len(Y)), len(Y)))
    here, there = KernelAffineHullMachine(n).fit(Y), KernelAffineHullMachine(n).fit(Y[order])
    np.testing.assert_allclose(there.regularization_, here.regularization_, rtol=1e-10)
    np.testing.assert_allclose(there.transform(Y), here.transform(Y), rtol=0, atol=1e-8)
    np.testing.assert_allclose(smooth(Y[order], n, 2), smooth(Y, n, 2)[order], rtol=0, atol=1e-8)


@settings(deadline=None, max_examples=100)
@given(generic_tables(max_rows=6), st.integers(0, 3))
def test_full_dimension_is_a_shrink_towards_the_mean(Y: Array, extra: int) -> None:
    """Closed form for n_eff = N - 1, reached by adding columns until p >= N - 1."""
    N = len(Y)
    Y = np.column_stack([Y, np.random.default_rng(extra).random((N, N))])
    machine = KernelAffineHullMachine(N + extra).fit(Y)
    lam, m1, m2 = machine.regularization_, 1 + (N - 1) / np.e, 1 - 1 / np.e
    shrink = m2 * (m1 + lam) / (m1 * (m2 + lam))
    mean = Y.mean(axis=0)
    np.testing.assert_allclose(machine.transform(Y), mean + shrink * (Y - mean), rtol=0, atol=1e-10)


@settings(deadline=None, max_examples=100)
@given(generic_tables(), dimensions, st.integers(-6, 6))
def test_regularization_grows_with_the_square_of_the_data(Y: Array, n: int, exponent: int) -> None:
    """2 s <= lambda <= 3 s with s the mean square; the kernel and its dimension do not change."""
    scale = 2.0**exponent
    machine, scaled = KernelAffineHullMachine(n).fit(Y), KernelAffineHullMachine(n).fit(scale * Y)
    assert machine.components_.shape == scaled.components_.shape
    np.testing.assert_allclose(scaled.covariance_, scale**2 * machine.covariance_, rtol=1e-9)
    assert 2 / 3 - 1e-9 <= scaled.regularization_ / (scale**2 * machine.regularization_) <= 3 / 2 + 1e-9


@settings(deadline=None, max_examples=50)
@given(generic_tables(), st.integers(1, 3), st.data())
def test_classifier_scores_and_classes_agree(X: Array, n: int, data: st.DataObject) -> None:
    y = np.array(data.draw(st.lists(st.integers(0, 2), min_size=len(X), max_size=len(X))))
    classifier = KAHMClassifier(n).fit(X, y)
    scores = classifier.matching_scores(X)
    assert scores.shape == (len(X), len(classifier.classes_))
    assert np.all((scores >= np.exp(-1.0) - 1e-15) & (scores <= 1.0))
    np.testing.assert_array_equal(classifier.predict(X), classifier.classes_[classifier.distances(X).argmin(axis=1)])


@settings(deadline=None, max_examples=100)
@given(tables(max_rows=60, max_columns=2), st.integers(1, 12))
def test_shards_cover_all_rows_and_stay_small(Y: Array, max_rows: int) -> None:
    shards = shard_rows(Y, max_rows)
    sizes = np.bincount(shards)
    assert len(shards) == len(Y) and sizes.min() >= 1 and sizes.max() <= 2 * max_rows
    if len(Y) <= max_rows:
        assert len(sizes) == 1
