"""Deep and wide machines: division into branches, caps, ties, blocks, wrong parameters."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tasks.kahm.hull as hull_module
import tasks.kahm.wide as wide_module
from tasks.kahm import (
    DeepKernelAffineHullMachine,
    KernelAffineHullMachine,
    WideKernelAffineHullMachine,
    shard_rows,
)

Array = NDArray[np.float64]


def rows(seed: int, N: int = 25, p: int = 4) -> Array:
    return np.random.default_rng(seed).random((N, p))


def test_layers_are_machines_of_falling_dimension() -> None:
    Y, queries = rows(1), rows(2, 9)
    machine = DeepKernelAffineHullMachine(3, 3).fit(Y)
    images, distances = queries, []
    for n in (3, 2, 1):
        images = KernelAffineHullMachine(n).fit(Y).transform(images)
        distances.append(np.linalg.norm(queries - images, axis=1))
    np.testing.assert_allclose(machine.layer_distances(queries), np.transpose(distances), rtol=0, atol=1e-11)
    np.testing.assert_array_equal(machine.layer_index(queries), np.argmin(distances, axis=0))


def test_layers_share_one_decomposition(monkeypatch: pytest.MonkeyPatch) -> None:
    import tasks.kahm.layers as layers_module

    calls = []
    original = layers_module.principal_encoding

    def counted(Y: Array, n: int) -> Any:
        calls.append(n)
        return original(Y, n)

    monkeypatch.setattr(layers_module, "principal_encoding", counted)
    DeepKernelAffineHullMachine(4, 4).fit(rows(1))
    assert calls == [4]


@pytest.mark.parametrize(("Y", "layers"), [(rows(3, 4), 3), (rows(3, 1), 1), (np.ones((5, 2)), 1), (rows(3), 4)])
def test_layers_are_capped(Y: Array, layers: int) -> None:
    machine = DeepKernelAffineHullMachine(10, 10).fit(Y)
    assert machine.n_layers_ == len(machine.regularizations_) == layers
    assert machine.layer_distances(Y).shape == (len(Y), layers)
    assert np.all(np.isfinite(machine.transform(Y)))


def test_ties_go_to_the_first() -> None:
    Y = rows(4, 10)
    machine = WideKernelAffineHullMachine(2, assignments=[1, 0] * 10).fit(np.repeat(Y, 2, axis=0))
    np.testing.assert_array_equal(machine.branch_index(rows(5)), np.zeros(25))
    one_row = DeepKernelAffineHullMachine(2, 3).fit(np.array([[0.0, 1.0], [0.0, 1.0]]))
    np.testing.assert_array_equal(one_row.layer_index(rows(5, 3, 2)), np.zeros(3))


def test_assignments_keep_their_order() -> None:
    Y = rows(6, 12)
    machine = WideKernelAffineHullMachine(2, assignments=[7, -2, 7, 5] * 3).fit(Y)
    np.testing.assert_array_equal(machine.assignments_, [2, 0, 2, 1] * 3)
    assert machine.n_branches_ == 3


def test_branches_by_default_are_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wide_module, "ROWS_PER_BRANCH", 10)
    Y = rows(7, 45)
    np.testing.assert_array_equal(WideKernelAffineHullMachine(2).fit(Y).assignments_, shard_rows(Y, 10))
    monkeypatch.undo()
    assert wide_module.ROWS_PER_BRANCH == 1000
    assert WideKernelAffineHullMachine(2).fit(Y).n_branches_ == 1


def test_number_of_branches() -> None:
    apart = np.vstack([rows(8, 10), rows(9, 10) + 5.0, rows(10, 10) - 5.0])
    machine = WideKernelAffineHullMachine(2, n_branches=3).fit(apart)
    assert [len(set(machine.assignments_[part])) for part in (slice(10), slice(10, 20), slice(20, 30))] == [1, 1, 1]
    np.testing.assert_array_equal(machine.branch_index(apart), machine.assignments_)
    # more branches than distinct rows: as many as there are
    assert WideKernelAffineHullMachine(2, n_branches=5).fit(np.repeat([[0.0], [1.0]], 4, axis=0)).n_branches_ == 2
    assert WideKernelAffineHullMachine(2, n_branches=5).fit([[0.0], [1.0]]).n_branches_ == 2


def test_blocks_do_not_change_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    machine, queries = WideKernelAffineHullMachine(3, 2, n_branches=3).fit(rows(11, 60)), rows(12, 53)
    whole, index = machine.transform(queries), machine.branch_index(queries)
    ratios = machine.conditioning(queries)
    monkeypatch.setattr(hull_module, "_BLOCK_SIZE", 300)
    np.testing.assert_allclose(machine.transform(queries), whole, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(machine.branch_index(queries), index)
    np.testing.assert_allclose(machine.conditioning(queries), ratios, rtol=0, atol=1e-12)


def test_memory_does_not_grow_with_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside 34 bytes a query for the result, what a block needs: not queries x columns, nor x branches."""
    monkeypatch.setattr(hull_module, "_BLOCK_SIZE", 2**16)
    machine = WideKernelAffineHullMachine(2, assignments=np.arange(200) % 10).fit(rows(13, 200, 30))
    queries = rows(14, 20_000, 30)
    tracemalloc.start()
    try:
        machine.distance(queries)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 40 * len(queries) + 3 * 8 * 2**16 < queries.nbytes


@pytest.mark.parametrize(
    ("machine", "message"),
    [
        (DeepKernelAffineHullMachine(0, 1), "n_components must be an integer of at least 1, got 0"),
        (DeepKernelAffineHullMachine(1, 0), "n_layers must be an integer of at least 1, got 0"),
        (DeepKernelAffineHullMachine(1, True), "n_layers must be an integer of at least 1, got True"),
        (WideKernelAffineHullMachine(1, 1, 0), "n_branches must be an integer of at least 1, got 0"),
        (WideKernelAffineHullMachine(1, 1, 2, [0] * 25), "give n_branches or assignments, not both"),
        (WideKernelAffineHullMachine(1, assignments=[0, 1]), "assignments must be 25 integers, one for each row"),
        (WideKernelAffineHullMachine(1, assignments=[0.0] * 25), "got float64 of shape"),
    ],
)
def test_value_errors(machine: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        machine.fit(rows(0))


@pytest.mark.parametrize("machine", [DeepKernelAffineHullMachine(2, 2), WideKernelAffineHullMachine(2, n_branches=2)])
def test_query_value_errors(machine: Any) -> None:
    machine.fit(rows(0))
    methods = [machine.transform, machine.distance, machine.layer_index, machine.conditioning, machine.near_pole]
    for method in methods:
        for bad in (np.full((1, 4), np.nan), np.zeros((1, 3)), np.full((1, 4), 1e101)):
            with pytest.raises(ValueError, match=r"NaN|features|scale the data"):
                method(bad)


def test_branch_of_tiny_rows_beside_larger_ones() -> None:
    Y = np.array([[0.1, 0.2], [0.3, 0.1], [1e-283, 0.0], [0.0, 2e-283]])
    machine = WideKernelAffineHullMachine(2, assignments=[0, 0, 1, 1]).fit(Y)
    np.testing.assert_array_equal(machine.transform([[0.01, 0.0]]), [[0.0, 0.0]])
