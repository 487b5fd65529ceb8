"""Properties of machines, smoother and sharding on generated data.

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

from tasks.kahm import (
    DeepKernelAffineHullMachine,
    KAHMClassifier,
    KernelAffineHullMachine,
    WideKernelAffineHullMachine,
    fabricate,
    load_model,
    save_model,
    shard_rows,
    smooth,
)

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


layers = st.integers(1, 4)


@st.composite
def branches(draw: st.DrawFn) -> tuple[Array, Array]:
    """Branch of each of some rows, all numbers from 0 up in use, and queries in and around the rows."""
    Y = draw(generic_tables())
    n_branches = draw(st.integers(1, min(4, len(Y))))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    assignments = rng.permutation(np.arange(len(Y)) % n_branches)
    return np.column_stack([assignments, Y]), rng.normal(0.5, draw(st.sampled_from([0.3, 3.0, 100.0])), (9, Y.shape[1]))


@settings(deadline=None, max_examples=60)
@given(tables().filter(usable), dimensions, layers, st.floats(-1e3, 1e3), st.integers(0, 80))
def test_deep_and_wide_are_always_finite(Y: Array, n: int, n_layers: int, offset: float, exponent: int) -> None:
    queries = np.vstack([Y, Y + offset, Y - 10.0**exponent])
    for machine in (DeepKernelAffineHullMachine(n, n_layers), WideKernelAffineHullMachine(n, n_layers, 3)):
        images = machine.fit(Y).transform(queries)
        assert images.shape == queries.shape and np.all(np.isfinite(images))
        distances = machine.distance(queries)
        np.testing.assert_allclose(distances, np.linalg.norm(queries - images, axis=1), rtol=1e-12)
        conditioning = machine.conditioning(queries)
        assert np.all((conditioning >= 0.0) & (conditioning <= 1.0))


@settings(deadline=None, max_examples=60)
@given(branches(), dimensions)
def test_one_layer_is_the_machine(case: tuple[Array, Array], n: int) -> None:
    Y, queries = case[0][:, 1:], case[1]
    machine, deep = KernelAffineHullMachine(n).fit(Y), DeepKernelAffineHullMachine(n, 1).fit(Y)
    near_pole = machine.near_pole(queries)
    np.testing.assert_array_equal(deep.near_pole(queries), near_pole)
    np.testing.assert_array_equal(deep.transform(queries)[~near_pole], machine.transform(queries)[~near_pole])
    np.testing.assert_array_equal(deep.layer_distances(queries)[:, 0], machine.distance(queries))


@settings(deadline=None, max_examples=60)
@given(branches(), dimensions, layers)
def test_one_branch_is_the_deep_machine(case: tuple[Array, Array], n: int, n_layers: int) -> None:
    Y, queries = case[0][:, 1:], case[1]
    deep = DeepKernelAffineHullMachine(n, n_layers).fit(Y)
    wide = WideKernelAffineHullMachine(n, n_layers, 1).fit(Y)
    np.testing.assert_array_equal(wide.transform(queries), deep.transform(queries))
    np.testing.assert_array_equal(wide.distance(queries), deep.distance(queries))
    np.testing.assert_array_equal(wide.near_pole(queries), deep.near_pole(queries))


@settings(deadline=None, max_examples=60)
@given(branches(), dimensions, layers)
def test_more_layers_are_not_farther(case: tuple[Array, Array], n: int, n_layers: int) -> None:
    Y, queries = case[0][:, 1:], case[1]
    machine = DeepKernelAffineHullMachine(n, n_layers).fit(Y)
    well = ~machine.near_pole(queries)
    assert np.all(machine.distance(queries)[well] <= machine.layer_distances(queries)[well, 0])


@settings(deadline=None, max_examples=60)
@given(branches(), dimensions, layers, st.randoms(use_true_random=False))
def test_order_of_branches_is_irrelevant(case: tuple[Array, Array], n: int, n_layers: int, random: Any) -> None:
    Y, queries, assignments = case[0][:, 1:], case[1], case[0][:, 0].astype(int)
    names = np.array(random.sample(range(10), int(assignments.max()) + 1))
    here = WideKernelAffineHullMachine(n, n_layers, assignments=assignments).fit(Y)
    there = WideKernelAffineHullMachine(n, n_layers, assignments=names[assignments]).fit(Y)
    np.testing.assert_array_equal(there.distance(queries), here.distance(queries))
    np.testing.assert_array_equal(there.near_pole(queries), here.near_pole(queries))


@settings(deadline=None, max_examples=60)
@given(branches(), dimensions, layers)
def test_wide_distance_is_the_smallest_of_its_branches(case: tuple[Array, Array], n: int, n_layers: int) -> None:
    """Of the well-conditioned ones; where there is none, of the distances to the branches' means."""
    Y, queries, assignments = case[0][:, 1:], case[1], case[0][:, 0].astype(int)
    wide = WideKernelAffineHullMachine(n, n_layers, assignments=assignments).fit(Y)
    deep = [DeepKernelAffineHullMachine(n, n_layers).fit(Y[assignments == s]) for s in range(wide.n_branches_)]
    distances = np.array([machine.distance(queries) for machine in deep])
    near_pole = np.array([machine.near_pole(queries) for machine in deep])
    none = near_pole.all(axis=0)
    usable_distances = np.where(near_pole & ~none, np.inf, distances)
    np.testing.assert_array_equal(wide.near_pole(queries), none)
    np.testing.assert_allclose(wide.distance(queries), usable_distances.min(axis=0), rtol=1e-9, atol=1e-12)


@settings(deadline=None, max_examples=30)
@given(branches(), dimensions, layers, st.sampled_from(["int", "str", "bool"]))
def test_models_come_back_from_files(
    tmp_path_factory: Any, case: tuple[Array, Array], n: int, n_layers: int, kind: str
) -> None:
    Y, queries, numbers = case[0][:, 1:], case[1], case[0][:, 0].astype(int)
    labels = numbers > 0 if kind == "bool" else numbers.astype(kind)
    path = tmp_path_factory.getbasetemp() / "property.npz"
    for model in (
        KAHMClassifier(n, n_layers).fit(Y, labels),
        WideKernelAffineHullMachine(n, n_layers, assignments=numbers).fit(Y),
        DeepKernelAffineHullMachine(n, n_layers).fit(Y),
        KernelAffineHullMachine(n).fit(Y),
    ):
        save_model(model, path)
        loaded = load_model(path)
        for method in ("predict", "distances") if isinstance(model, KAHMClassifier) else ("transform", "distance"):
            np.testing.assert_array_equal(getattr(loaded, method)(queries), getattr(model, method)(queries))


@settings(deadline=None, max_examples=100)
@given(tables(max_rows=60, max_columns=2), st.integers(1, 12))
def test_shards_cover_all_rows_and_stay_small(Y: Array, max_rows: int) -> None:
    shards = shard_rows(Y, max_rows)
    sizes = np.bincount(shards)
    assert len(shards) == len(Y) and sizes.min() >= 1 and sizes.max() <= 2 * max_rows
    if len(Y) <= max_rows:
        assert len(sizes) == 1
