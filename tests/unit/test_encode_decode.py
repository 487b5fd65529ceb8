"""Encoding to the lattice and back."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.columns import IntegerColumn, NumericColumn
from tasks.accounting.lattice import LATTICE_STEPS, SPACING, lattice_distance
from tasks.columns.values import from_scaled, to_scaled
from tasks.encode import choose_members, to_lattice


def test_bounds_map_to_the_ends_of_the_lattice() -> None:
    column = NumericColumn(type="numeric", bounds=(-3.0, 5.0))
    lattice = to_lattice(to_scaled(pd.Series([-9.0, -3.0, 1.0, 5.0, 99.0]), column))
    assert lattice.tolist() == [0, 0, LATTICE_STEPS // 2, LATTICE_STEPS, LATTICE_STEPS]


@given(st.integers(-(2**53), 2**53 - 1).flatmap(lambda a: st.tuples(st.just(a), st.integers(a + 1, min(a + LATTICE_STEPS // 2, 2**53)))), st.data())  # fmt: skip  # noqa: E501
def test_integers_come_back_exactly(bounds: tuple[int, int], data: st.DataObject) -> None:
    column = IntegerColumn(type="integer", bounds=bounds)
    value = data.draw(st.integers(*bounds))
    lattice = to_lattice(to_scaled(pd.Series([float(value)]), column))
    # far from zero doubles are coarse, so the decoded value may be one step of a double away
    assert abs(int(from_scaled(lattice.astype(np.float64) * SPACING, column)[0]) - value) <= (
        0 if max(map(abs, bounds)) < 2**50 else 1
    )


@given(
    st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.sampled_from([0.1, 0.25, 0.5, 1.0, 5.0, 0.003]),
    st.lists(st.floats(-2, 3), min_size=1, max_size=20),
)  # fmt: skip
def test_decoded_values_are_inside_the_domain_and_idempotent(
    lower: float, span: float, precision: float, scaled: list[float]
) -> None:
    upper = lower + span
    if not precision <= upper - lower:
        return
    column = NumericColumn(type="numeric", bounds=(lower, upper), precision=precision)
    values = np.asarray(from_scaled(np.array(scaled), column), dtype=np.float64)
    assert (values >= lower).all() and (values <= upper).all()
    again = from_scaled((values - lower) / (upper - lower), column)
    assert np.allclose(again, values, atol=precision * 1e-6 + 1e-9 * max(abs(lower), abs(upper)))


def test_precision_gives_the_nearest_decimal() -> None:
    column = NumericColumn(type="numeric", bounds=(0.0, 1.0), precision=0.1)
    assert from_scaled(np.array([0.3 + 1e-12, 0.74, 0.76]), column).tolist() == [0.3, 0.7, 0.8]


@given(st.floats(1e-6, 1.0))
def test_lattice_distance_is_never_smaller_than_the_distance(distance: float) -> None:
    steps = lattice_distance(distance)
    assert min(1.0, distance + 2.1 * SPACING) >= steps * SPACING >= distance
    assert isinstance(steps, int)


@pytest.mark.parametrize("fraction", [0.01, 0.3, 0.99])
def test_every_class_keeps_two_members_and_gives_a_control(fraction: float) -> None:
    labels = np.array(["a"] * 3 + ["b"] * 10 + ["c"] * 100)
    members = choose_members(labels, fraction, np.random.default_rng(0), by_class=True)
    kept = pd.Series(labels[members]).value_counts()
    for label, total in [("a", 3), ("b", 10), ("c", 100)]:
        assert kept[label] == total - min(max(round(fraction * total), 1), total - 2)
    assert len(set(members.tolist())) == len(members)


def test_labels_that_are_not_public_have_no_part_in_the_choice() -> None:
    chosen = [
        choose_members(np.array(list(labels)), 0.3, np.random.default_rng(5), by_class=False).tolist()
        for labels in ("aabbbabababbbaa", "bbbbbbbbbbbbbba")
    ]
    assert chosen[0] == chosen[1] and len(chosen[0]) == 15 - round(0.3 * 15)


def test_how_many_members_a_class_has_depends_on_public_labels_only() -> None:
    labels = np.array(list("aabbbabababbbaa"))
    counts = set()
    for seed in range(20):
        members = choose_members(labels, 0.3, np.random.default_rng(seed), by_class=True)
        counts.add(tuple(pd.Series(labels[members]).value_counts().sort_index()))
    assert len(counts) == 1


def test_members_come_in_random_order() -> None:
    labels = np.array(["a"] * 400)
    members = choose_members(labels, 0.25, np.random.default_rng(0), by_class=True)
    assert abs(np.corrcoef(np.arange(300), members)[0, 1]) < 0.3  # sorted, it is 1


@given(st.floats(-1e3, 1e3), st.floats(1e-2, 1e3), st.floats(1e-4, 1.0), st.floats(0, 1), st.booleans())
def test_no_two_cells_within_the_distance_are_further_apart_on_the_lattice(
    lower: float, span: float, distance: float, start: float, down: bool
) -> None:
    column = NumericColumn(type="numeric", bounds=(lower, lower + span))
    one = lower + span * start
    other = one + span * distance * (1 - 1e-12) * (-1 if down else 1)
    steps = to_lattice(to_scaled(pd.Series([one, other]), column))
    assert abs(int(steps[0] - steps[1])) <= lattice_distance(distance)
