"""The three risks of anonymisation: parts against values worked out by hand, the whole against known leaks."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import cast

import numpy as np
import pytest

from schemas.attacks import PrivacyRisk, PrivacyRisks
from schemas.measures import TrainedOn
from tasks.audit import columns_table, linkability, singling_out
from tasks.audit.attribute_inference import best_constant, is_right, naive_guesses, secret_columns, span_tolerance
from tasks.audit.columns_table import ColumnArray, ColumnsTable, GowerDistance, nearest_rows
from tasks.audit.linkability import halves, linked, linked_at_random
from tasks.audit.proportion import wilson_interval
from tasks.audit.risk import privacy_risks, risk_beyond_controls
from tasks.audit.singling_out import (
    Predicates,
    predicates_of_one_column,
    predicates_of_several_columns,
    random_predicates,
    singles_out,
)

NAN = np.nan


def make_table(columns: dict[str, Sequence[float]], categories: Sequence[str] = ()) -> ColumnsTable:
    is_category = tuple(name in categories for name in columns)
    values: list[ColumnArray] = [
        np.array(v, dtype=np.int64) if c else np.array(v, dtype=np.float64)
        for v, c in zip(columns.values(), is_category, strict=True)
    ]
    return ColumnsTable(tuple(columns), tuple(values), is_category, values[0].size)


def sample(n: int, seed: int, *, missing: float = 0.1) -> ColumnsTable:
    """Six correlated columns: two real, two integers with missing values, two of categories."""
    generator = np.random.default_rng(seed)
    base = generator.normal(size=(n, 2)) @ np.array([[1, 1, 1, 0, 0.5, 0], [0, 1, -1, 1, 0, 1]])
    x = base + generator.normal(size=(n, 6)) / 2
    hidden = generator.random((n, 6)) < missing
    integers = [np.where(hidden[:, j], NAN, np.round(10 * x[:, j])) for j in (2, 3)]
    codes = [np.where(hidden[:, j], -1, np.digitize(x[:, j], [-1, 0, 1])).astype(np.int64) for j in (4, 5)]
    names = ("a", "b", "c", "d", "e", "label")
    return ColumnsTable(names, (x[:, 0], x[:, 1], *integers, *codes), (False,) * 4 + (True,) * 2, n)


def stack(first: ColumnsTable, second: ColumnsTable) -> ColumnsTable:
    values: list[ColumnArray] = [
        cast(ColumnArray, np.concatenate(pair)) for pair in zip(first.values, second.values, strict=True)
    ]
    return ColumnsTable(first.names, tuple(values), first.is_category, first.n_rows + second.n_rows)


def by_name(risks: PrivacyRisks) -> dict[tuple[str, str], PrivacyRisk]:
    return {(risk.risk, risk.variant): risk for risk in risks.risks}


def without_names(risks: PrivacyRisks) -> list[dict[str, object]]:
    return [risk.model_dump(exclude={"variant"}) for risk in risks.risks]


# --- table and distance -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "values", "is_category", "n_rows", "message"),
    [
        (("a",), (), (), 1, "must be equally many, got 1, 0 and 0"),
        (("a", "a"), (np.zeros(1), np.zeros(1)), (False, False), 1, "names must differ"),
        (("a",), (np.zeros(2),), (False,), 1, r"'a' must have shape \(1,\), got \(2,\)"),
        (("a",), (np.zeros(1),), (True,), 1, "'a' must be int64, got float64"),
        (("a",), (np.zeros(1, dtype=np.int64),), (False,), 1, "'a' must be float64, got int64"),
        (("a",), (np.array([np.inf]),), (False,), 1, "'a' must be finite or missing"),
        (("a",), (np.array([-2]),), (True,), 1, "'a' must be finite or missing"),
    ],
)
def test_table_refuses_what_does_not_fit(
    names: tuple[str, ...],
    values: tuple[ColumnArray, ...],
    is_category: tuple[bool, ...],
    n_rows: int,
    message: str,
) -> None:
    with pytest.raises(ValueError, match=message):
        ColumnsTable(names, values, is_category, n_rows)


def test_distance_by_hand() -> None:
    held = make_table({"x": [0, 10, NAN], "k": [3, 3, 3], "c": [0, 1, -1], "m": [NAN] * 3}, ["c"])
    targets = make_table({"x": [5, -100, NAN], "k": [3, 4, NAN], "c": [1, -1, 2], "m": [NAN, 1, NAN]}, ["c"])
    distance = GowerDistance(held, targets)
    (block,) = distance.blocks()
    # a target beyond the range is moved to its end
    np.testing.assert_allclose(distance.column(0, block), [[0.5, 0.5, 1.0], [0.0, 1.0, 1.0], [1.0, 1.0, 0.0]])
    np.testing.assert_allclose(
        distance.column(1, block), [[0.0] * 3, [1.0] * 3, [1.0] * 3]
    )  # the held values are equal
    np.testing.assert_allclose(distance.column(2, block), [[1.0, 0.0, 1.0], [1.0, 1.0, 0.0], [1.0, 1.0, 1.0]])
    np.testing.assert_allclose(distance.column(3, block), [[0.0] * 3, [1.0] * 3, [0.0] * 3])
    np.testing.assert_allclose(distance.total([0, 2], block), [[1.5, 0.5, 2.0], [1.0, 2.0, 1.0], [2.0, 2.0, 1.0]])


@pytest.mark.parametrize("scale", [1e308, 5e-324])
def test_distance_of_numbers_near_the_ends_of_float64(scale: float) -> None:
    held = make_table({"x": [-scale, 0, scale]})
    distance = GowerDistance(held, held)
    (block,) = distance.blocks()
    assert np.isfinite(distance.column(0, block)).all()
    assert (nearest_rows(distance.column(0, block), 1, np.random.default_rng(0))[:2, 0] != 2).all()


def test_distance_is_the_same_in_many_blocks_and_any_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    held, targets = sample(50, 0), sample(20, 1)
    whole = GowerDistance(held, targets).total(range(6), slice(0, 20))
    monkeypatch.setattr(columns_table, "_BLOCK_CELLS", 150)
    moved = [
        ColumnsTable(t.names, (1000 - 7 * t.values[0], *t.values[1:]), t.is_category, t.n_rows) for t in (held, targets)
    ]
    distance = GowerDistance(moved[0], moved[1])
    blocks = list(distance.blocks())
    assert len(blocks) == 7 and all(one.stop == two.start for one, two in pairwise(blocks))
    np.testing.assert_allclose(np.concatenate([distance.total(range(6), b) for b in blocks]), whole, atol=1e-12)


def test_nearest_rows_are_in_order_and_ties_are_drawn_evenly() -> None:
    generator = np.random.default_rng(2)
    distances = np.tile([0.3, 0.1, 0.1 + 1e-14, 2.0, 0.1], (3000, 1))
    nearest = nearest_rows(distances, 4, generator)
    assert {tuple(sorted(row)) for row in nearest[:, :3].tolist()} == {(1, 2, 4)}
    assert (nearest[:, 3] == 0).all()
    for first in (nearest[:, 0], nearest_rows(distances, 1, generator)[:, 0]):
        counts = np.bincount(first, minlength=5)
        assert counts[0] == counts[3] == 0
        assert (np.abs(counts[[1, 2, 4]] - 1000) < 130).all()  # 5 standard deviations


def test_tables_with_other_columns_are_refused() -> None:
    one, two = make_table({"x": [1.0]}), make_table({"y": [1.0]})
    with pytest.raises(ValueError, match="same columns"):
        GowerDistance(one, two)
    with pytest.raises(ValueError, match="at least one row"):
        GowerDistance(make_table({"x": []}), one)


# --- singling out -------------------------------------------------------------------------------------------------


def brute_force(predicates: Predicates, table: ColumnsTable) -> list[int]:
    """How many rows each predicate matches, row by row in plain Python."""
    counts = []
    for columns, lower, upper in zip(predicates.columns, predicates.lower, predicates.upper, strict=True):
        count = 0
        for row in range(table.n_rows):
            fits = True
            for column, low, high in zip(columns, lower, upper, strict=True):
                value = float(table.values[column][row])
                missing = value == -1 if table.is_category[column] else value != value
                fits &= low == -np.inf if missing else low <= value <= high
            count += fits
        counts.append(count)
    return counts


def conditions(predicates: Predicates) -> set[tuple[int, float, float]]:
    rows = zip(predicates.columns[:, 0], predicates.lower[:, 0], predicates.upper[:, 0], strict=True)
    return {(int(column), float(low), float(high)) for column, low, high in rows}


def test_predicates_of_one_column_by_hand() -> None:
    held = make_table(
        {
            "x": [1, 2, 2, 3, 9, 9, NAN],  # row 0 is the minimum, the maximum is twice there, row 3 and 6 are alone
            "c": [0, 0, 1, 2, 2, 2, 2],  # row 2
            "d": [1, 1, 1, 1, -1, 1, 1],  # row 4
            "k": [5, 5, 5, 5, 5, 5, 5],
            "y": [7, 7, 7, 7, 7, 8, 7],  # row 5 is the maximum
        },
        ["c", "d"],
    )
    low, high = float(np.finfo(np.float64).min), float(np.finfo(np.float64).max)
    predicates = predicates_of_one_column(held, 100, np.random.default_rng(0))
    missing = -np.inf
    assert conditions(predicates) == {
        (0, low, 1), (0, 3, 3), (0, missing, missing), (1, 1, 1), (2, missing, missing), (4, 8, high)
    }  # fmt: skip
    assert brute_force(predicates, held) == [1] * 6
    fewer = predicates_of_one_column(held, 5, np.random.default_rng(0))
    assert conditions(fewer) == conditions(predicates) - {(0, 3, 3)}  # a unique number is the last choice
    # each real row that is matched alone counts, two do not
    real = make_table(
        {"x": [-4, -5, NAN, 7], "c": [1, 5, 5, 5], "d": [0, 0, 0, 0], "k": [0, 0, 0, 0], "y": [0, 0, 0, 99]}, ["c", "d"]
    )
    right = predicates.take(np.flatnonzero(singles_out(predicates, real)))
    assert conditions(right) == {(0, missing, missing), (1, 1, 1), (4, 8, high)}


def test_one_predicate_for_each_held_row() -> None:
    held = make_table({"x": [1, 2, 3, 3], "y": [9, 8, 3, 3]})  # rows 0 and 1 are unique in both columns
    assert len(predicates_of_one_column(held, 100, np.random.default_rng(0))) == 2


@pytest.mark.parametrize("make", [predicates_of_one_column, predicates_of_several_columns])
def test_predicates_single_out_different_held_rows(
    make: Callable[[ColumnsTable, int, np.random.Generator], Predicates],
) -> None:
    held, real = sample(80, 3), sample(60, 4)
    predicates = make(held, 30, np.random.default_rng(5))
    assert len(predicates) == 30
    assert brute_force(predicates, held) == [1] * 30
    rows = singling_out._matches(predicates, singling_out._comparable(held))[1]
    assert len(set(rows.tolist())) == 30
    assert singles_out(predicates, real).tolist() == [count == 1 for count in brute_force(predicates, real)]


def test_conjunctions_bound_numbers_away_from_the_median_and_use_two_columns_or_more() -> None:
    held = make_table({"x": range(40), "y": [(7 * i) % 40 for i in range(40)]})
    predicates = predicates_of_several_columns(held, 20, np.random.default_rng(0))
    assert 0 < len(predicates) <= 20
    assert np.isfinite(predicates.lower).all() and np.isfinite(predicates.upper).all()  # both conditions are used
    at_most = predicates.upper < 1e300
    assert (predicates.upper[at_most] <= 19).all() and (predicates.lower[~at_most] > 19).all()


def test_conjunctions_ask_for_the_same_category() -> None:
    held = make_table({f"c{j}": np.random.default_rng(j).integers(-1, 5, 60).tolist() for j in range(4)}, ["c0", "c2"])
    predicates = predicates_of_several_columns(held, 30, np.random.default_rng(0))
    used = np.isfinite(predicates.upper)
    category = used & (predicates.columns % 2 == 0)
    assert np.count_nonzero(category) > 10
    assert (predicates.lower[category] == predicates.upper[category]).all()
    assert (predicates.lower[used & ~category] != predicates.upper[used & ~category]).all()


def test_search_ends_where_no_row_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = 0

    def counted(n: int, n_columns: int, generator: np.random.Generator) -> object:
        nonlocal tries
        tries += n
        return draw(n, n_columns, generator)

    draw = singling_out._random_columns
    monkeypatch.setattr(singling_out, "_random_columns", counted)
    held = stack(sample(40, 6), sample(40, 6))
    assert len(predicates_of_several_columns(held, 50, np.random.default_rng(0))) == 0
    assert tries == 50 * singling_out.TRIES


@pytest.mark.parametrize("several", [False, True])
def test_random_predicates_ask_within_the_held_range(several: bool) -> None:
    held = make_table({"x": [2, 4, NAN], "c": [-1, 3, 5], "m": [NAN] * 3}, ["c"])
    predicates = random_predicates(held, 300, several=several, generator=np.random.default_rng(0))
    assert len(predicates) == 300 and predicates.columns.shape[1] == (3 if several else 1)
    bounds = {
        c: {
            b
            for b in (*predicates.lower[predicates.columns == c], *predicates.upper[predicates.columns == c])
            if several is False or np.isfinite(b)
        }
        for c in range(3)
    }
    assert all(2 <= b <= 4 or abs(b) > 1e300 for b in bounds[0]) and len(bounds[0]) > 20
    assert bounds[1] - {-np.inf} == {3, 5}
    assert bounds[2] <= {-np.inf, np.inf}


def test_conjunctions_need_two_columns() -> None:
    with pytest.raises(ValueError, match="two columns"):
        predicates_of_several_columns(make_table({"x": [1.0]}), 5, np.random.default_rng(0))


# --- linkability and inference ------------------------------------------------------------------------------------


def test_columns_are_split_and_chosen_by_their_place() -> None:
    assert [list(half) for half in halves(5)] == [[0, 2, 4], [1, 3]]
    assert secret_columns(3, 1) == [1, 0, 2]
    assert secret_columns(1, 0) == [0]
    assert secret_columns(12, 11) == [11, 0, 2, 5, 8, 10]  # 0, 2.5, 5, 7.5, 10, halves to even


def test_links_by_hand() -> None:
    held = make_table({"x": [0, 1, 2, 3], "y": [0, 10, 20, 30]})
    targets = make_table({"x": [0.1, 0.1, 2.9], "y": [1, 29, 22]})
    right = linked(held, targets, np.random.default_rng(0))
    assert set(right) == {1}  # five rows are not held
    assert right[1].tolist() == [True, False, False]


def test_links_of_a_constant_table_are_random() -> None:
    """A fixed rule for ties would find all of these."""
    held = make_table({"x": [1] * 20, "y": [1] * 20})
    targets = make_table({"x": [1] * 2000, "y": [1] * 2000})
    generator = np.random.default_rng(0)
    for right in (linked(held, targets, generator)[1], linked_at_random(20, 1, 2000, generator)):
        assert 50 < np.count_nonzero(right) < 155  # 100 are expected, 5 standard deviations


def test_random_links_of_several_neighbours() -> None:
    """Two draws of 5 out of 20 have a row in common with probability 1 - C(15, 5) / C(20, 5) = 0.806."""
    right = linked_at_random(20, 5, 4000, np.random.default_rng(0))
    assert right.mean() == pytest.approx(1 - 3003 / 15504, abs=0.032)


def test_one_column_has_no_halves() -> None:
    one = make_table({"x": [1.0, 2.0]})
    with pytest.raises(ValueError, match="at least two columns, got 1"):
        linked(one, one, np.random.default_rng(0))


def test_right_guesses_by_hand() -> None:
    column = np.append(np.arange(101.0), [NAN, NAN])
    tolerance = span_tolerance(column)  # of 5 to 95, in halves
    assert 2 * tolerance == pytest.approx(4.5)
    guesses = np.array([10, 10, 10, -3, NAN, NAN, 5])
    secrets = np.array([14.5, 5.4, 10, 3, NAN, 5, NAN])
    assert is_right(guesses, secrets, tolerance).tolist() == [True, False, True, False, True, False, False]
    assert is_right(np.array([1, -1, 0]), np.array([1, -1, 1]), None).tolist() == [True, True, False]
    assert span_tolerance(np.array([NAN, NAN])) == 0.0
    assert np.isfinite(span_tolerance(np.array([-1.7e308, 1.7e308])))


def test_best_constant_by_hand() -> None:
    numbers = np.array([1, 5, 5.2, 5.4, 9, 9, NAN, NAN])
    assert best_constant(numbers, 0.0).tolist() == [9]
    assert best_constant(numbers, 0.1).tolist() == [5.2]
    assert np.isnan(best_constant(np.array([1, 2, NAN, NAN]), 0.1)).all()
    assert best_constant(np.array([-1, 2, 2, -1, -1]), None).tolist() == [-1]


def test_naive_guess_is_the_stronger_of_two() -> None:
    held, generator = np.array([0] * 70 + [1] * 30), np.random.default_rng(0)
    assert naive_guesses(held, np.zeros(100, dtype=np.int64), None, generator).all()
    drawn = naive_guesses(held, np.ones(1000, dtype=np.int64), None, generator)
    assert drawn.mean() == pytest.approx(0.3, abs=0.075)


# --- rates --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "controls", "expected"),
    [(60, 20, 0.5), (20, 60, -1.0), (50, 50, 0.0), (100, 30, 1.0), (0, 0, 0.0), (0, 99, -99.0)],
)
def test_risk_beyond_controls_by_hand(members: int, controls: int, expected: float) -> None:
    risk = risk_beyond_controls(wilson_interval(members, 100), wilson_interval(controls, 100))
    assert risk.estimate == pytest.approx(expected, abs=1e-12)
    assert risk.lower < risk.upper and risk.lower <= risk.estimate <= risk.upper <= 1
    assert np.isfinite([risk.lower, risk.upper]).all()


def test_interval_satisfies_its_equation() -> None:
    """At a limit r of the ratio of failures p / q, the distance of p - r q from 0 is the error recovered for it."""
    members, controls = wilson_interval(37, 100), wilson_interval(12, 100)
    risk = risk_beyond_controls(members, controls)
    p, q = 1 - members.estimate, 1 - controls.estimate
    low, high = 1 - risk.upper, 1 - risk.lower
    assert (p - low * q) ** 2 == pytest.approx(
        (members.upper - members.estimate) ** 2 + (low * (controls.estimate - controls.lower)) ** 2
    )
    assert (p - high * q) ** 2 == pytest.approx(
        (members.estimate - members.lower) ** 2 + (high * (controls.upper - controls.estimate)) ** 2
    )


def test_nothing_is_beyond_certainty() -> None:
    with pytest.raises(ValueError, match="controls must be below 1"):
        risk_beyond_controls(wilson_interval(5, 10), wilson_interval(10, 10))
    with pytest.raises(ValueError, match="confidences must be equal"):
        risk_beyond_controls(wilson_interval(5, 10, 0.9), wilson_interval(5, 10))


# --- the whole ----------------------------------------------------------------------------------------------------


def test_copied_members_are_linked_and_inferred() -> None:
    members, controls = sample(400, 10), sample(300, 11)
    risks = by_name(privacy_risks(members, controls, {"fabricated": members}, label="label", seed=0))
    assert len(risks) == 2 + 2 + 6
    for (risk, variant), measured in risks.items():
        beyond = measured.risk_beyond_controls
        if risk == "singling-out":  # 300 of 400 members are looked at, and the others are misses
            assert 0.5 < beyond.estimate < 0.9, variant
        else:
            assert beyond.lower > 0.9, (risk, variant)
        assert measured.members.lower > measured.naive.upper
        assert beyond.lower > 0


def test_copied_members_are_singled_out_where_all_are_looked_at() -> None:
    members, controls = sample(300, 10), sample(300, 11)
    result = privacy_risks(members, controls, {"fabricated": members}, label="label", seed=0)
    for variant in ("one column", "several columns"):
        risk = by_name(result)["singling-out", variant]
        assert risk.members.estimate == 1 and risk.controls.estimate < 0.5 and risk.risk_beyond_controls.lower > 0.9
    assert not any("all members" in missing.what for missing in result.not_computed)


@pytest.mark.parametrize("leaked", [0.0, 0.25, 0.5, 1.0])
def test_risk_is_the_leaked_part(leaked: float) -> None:
    """Linear in the leak, as the paper found, and equal to it where copies are always found.

    A conjunction also misses a copy where it matches another member as well: its risk is below the leak.
    """
    members, controls, other = (sample(400, seed) for seed in (12, 13, 14))
    n = int(400 * leaked)
    held = stack(members.take(np.arange(n)), other.take(np.arange(400 - n)))
    result = privacy_risks(members, controls, {"fabricated": held}, label="label", seed=1)
    for risk in result.risks:
        beyond = risk.risk_beyond_controls
        slack = max(0.02, 1.6 * (beyond.upper - beyond.lower) / 2)
        assert beyond.estimate <= leaked + slack, risk
        assert beyond.estimate >= leaked / (2 if risk.variant == "several columns" and leaked < 1 else 1) - slack, risk


def test_independent_rows_reveal_nothing() -> None:
    outside = total = 0
    for seed in range(5):
        members, controls, held = (sample(300, 100 + 10 * seed + k) for k in range(3))
        for risk in privacy_risks(members, controls, {"fabricated": held}, label="label", seed=seed).risks:
            total += 1
            outside += not risk.risk_beyond_controls.lower <= 0 <= risk.risk_beyond_controls.upper
    assert total == 50 and outside <= 8  # 2.5 are expected


def test_what_the_data_teach_about_everyone_is_no_risk() -> None:
    """An attacker beats the naive guess by far, on control rows as well."""
    members, controls, held = (sample(500, seed, missing=0) for seed in (15, 16, 17))
    risk = by_name(privacy_risks(members, controls, {"fabricated": held}, label="label", seed=0))[
        "attribute-inference", "label"
    ]
    assert risk.members.lower > risk.naive.upper and risk.controls.lower > risk.naive.upper
    assert risk.risk_beyond_controls.lower < 0 < risk.risk_beyond_controls.upper


def test_copied_control_rows_give_a_negative_risk() -> None:
    members, controls = sample(300, 18), sample(300, 19)
    held = stack(controls.take(np.arange(150)), sample(150, 20))
    risk = by_name(privacy_risks(members, controls, {"fabricated": held}, label="label", seed=0))
    assert risk["linkability", "the nearest row"].risk_beyond_controls.upper < 0


def test_names_of_columns_do_not_matter() -> None:
    tables = [sample(200, seed) for seed in (21, 22, 23)]
    names = ("a b", 'it\'s "x"', "größe\n", "@`df`", "==1 or True", "")
    renamed = [ColumnsTable(names, t.values, t.is_category, t.n_rows) for t in tables]
    plain = privacy_risks(tables[0], tables[1], {"fabricated": tables[2]}, label="label", seed=3)
    odd = privacy_risks(renamed[0], renamed[1], {"fabricated": renamed[2]}, label="", seed=3)
    assert without_names(odd) == without_names(plain)
    assert [r.variant for r in odd.risks if r.risk == "attribute-inference"] == ["", *names[:5]]


def test_order_of_held_rows_does_not_matter_and_the_seed_repeats() -> None:
    members, controls, held = (sample(200, seed) for seed in (24, 25, 26))
    shuffled = held.take(np.random.default_rng(0).permutation(200))
    one = privacy_risks(members, controls, {"fabricated": held}, label="label", seed=4)
    assert privacy_risks(members, controls, {"fabricated": shuffled}, label="label", seed=4) == one
    assert privacy_risks(members, controls, {"fabricated": held}, label="label", seed=5) != one


def test_one_kind_is_measured_the_same_beside_others() -> None:
    members, controls, held = (sample(200, seed) for seed in (24, 25, 26))
    kinds: dict[TrainedOn, ColumnsTable] = {"fabricated": held, "real": members, "noise-added": sample(200, 27)}
    together = privacy_risks(members, controls, kinds, label="label", seed=4)
    assert [r.trained_on for r in together.risks[::10]] == ["real", "noise-added", "fabricated"]
    alone = privacy_risks(members, controls, {"fabricated": held}, label="label", seed=4)
    assert [r for r in together.risks if r.trained_on == "fabricated"] == alone.risks


@pytest.mark.parametrize("kind", ["categories", "ordered", "missing", "constant", "one column", "extreme"])
def test_any_table_is_measured_or_says_why_not(kind: str) -> None:
    def table(seed: int) -> ColumnsTable:
        generator = np.random.default_rng(seed)
        codes = {f"c{j}": generator.integers(-1, 4, 60).tolist() for j in range(4)}
        numbers = {f"x{j}": generator.normal(size=60).tolist() for j in range(4)}
        if kind == "categories":
            return make_table(codes, list(codes))
        if kind == "ordered":
            return make_table(numbers)
        if kind == "missing":
            hidden = {name: np.where(generator.random(60) < 0.9, NAN, v).tolist() for name, v in numbers.items()}
            return make_table({**hidden, "all": [NAN] * 60})
        if kind == "constant":
            return make_table({"x": [1] * 60, "y": [2] * 60, "c": [0] * 60}, ["c"])
        if kind == "one column":
            return make_table({"x": generator.normal(size=60).tolist()})
        return make_table({name: (np.array(v) * 4e307).tolist() for name, v in numbers.items()})

    members, controls, held = table(0), table(1), table(2)
    result = privacy_risks(members, controls, {"fabricated": held}, label=members.names[0], seed=0)
    assert PrivacyRisks.model_validate_json(result.model_dump_json()) == result
    wanted = {"singling out by", "linkability by", "attribute inference of"}
    done = {risk.risk.replace("-", " ") for risk in result.risks}
    for what in wanted:
        assert what.rsplit(" ", 1)[0] in done or any(m.what.startswith(what) for m in result.not_computed), what
    reasons = {missing.what: missing.reason for missing in result.not_computed}
    if kind == "constant":
        assert "every guess about control rows" in reasons["attribute inference of x from fabricated rows"]
        assert reasons["singling out by one column from fabricated rows"].startswith("fewer than 10 predicates")
        assert "linkability" in done
    if kind == "one column":
        assert "cannot be split" in reasons["linkability by the nearest row from fabricated rows"]
        assert "no other column" in reasons["attribute inference of x from fabricated rows"]
        assert "single column" in reasons["singling out by several columns from fabricated rows"]
        assert done == {"singling out"}


def test_fewer_predicates_than_wanted_are_told() -> None:
    members, controls, held = (sample(200, seed) for seed in (30, 31, 32))
    result = privacy_risks(members, controls, {"fabricated": held}, label="label", n_attacks=500, seed=0)
    attacked = by_name(result)["singling-out", "several columns"].attacked
    assert 10 <= attacked < 500
    what = "singling out by several columns from fabricated rows with all 500 guesses"
    reasons = {m.what: m.reason for m in result.not_computed}
    assert reasons[what].startswith(f"the figure rests on the {attacked} predicates")


def test_a_rate_of_a_few_predicates_is_no_figure() -> None:
    """Nine held rows are alone, and the exact number of them is not told either."""
    real = make_table({"x": [1] * 20, "c": [0] * 20}, ["c"])
    for alone, said in ((9, True), (10, False)):
        held = make_table({"x": [*range(100, 100 + alone), *[1] * 30], "c": [0] * (30 + alone)}, ["c"])
        result = privacy_risks(real, real, {"fabricated": held}, label="c", seed=0)
        assert (("singling-out", "one column") in by_name(result)) is not said
        reasons = {missing.what: missing.reason for missing in result.not_computed}
        if said:
            reason = reasons["singling out by one column from fabricated rows"]
            assert reason == "fewer than 10 predicates were found that match exactly one held row"


@pytest.mark.parametrize(
    ("n_members", "n_controls", "n_held", "word"),
    [(9, 50, 50, "fewer than 10 members"), (50, 9, 50, "10 control rows"), (50, 50, 9, "10 fabricated rows")],
)
def test_too_few_rows_give_no_figure(n_members: int, n_controls: int, n_held: int, word: str) -> None:
    members, controls, held = sample(n_members, 0), sample(n_controls, 1), sample(n_held, 2)
    result = privacy_risks(members, controls, {"fabricated": held}, label="label", seed=0)
    assert result.risks == [] and len(result.not_computed) == 1 and word in result.not_computed[0].reason


def test_figures_are_over_ten_rows_or_more() -> None:
    members, controls, held = sample(12, 0), sample(10, 1), sample(30, 2)
    result = privacy_risks(members, controls, {"fabricated": held}, label="label", n_attacks=10, seed=0)
    assert result.risks and {risk.attacked for risk in result.risks} == {10}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label": "income"}, "label must be one of"),
        ({"n_attacks": 9}, "n_attacks must be at least 10, got n_attacks=9"),
        ({"seed": -1}, "seed must not be negative, got seed=-1"),
    ],
)
def test_wrong_arguments_are_named(options: dict[str, object], message: str) -> None:
    table = sample(20, 0)
    arguments: dict[str, object] = {"label": "label", "seed": 0, **options}
    with pytest.raises(ValueError, match=message):
        privacy_risks(table, table, {"fabricated": table}, **arguments)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="same columns"):
        privacy_risks(table, make_table({"x": [1.0]}), {}, label="label", seed=0)


# --- tests that can fail ------------------------------------------------------------------------------------------


def first_row_wins(distances: np.ndarray, k: int, generator: np.random.Generator) -> np.ndarray:
    return np.argsort(distances, axis=1, kind="stable")[:, :k]


def test_broken_versions_are_convicted(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(linkability, "nearest_rows", first_row_wins)
        with pytest.raises(AssertionError):
            test_links_of_a_constant_table_are_random()
    with monkeypatch.context() as broken:
        broken.setattr(columns_table, "_scaled", lambda held, targets: (held, targets))
        with pytest.raises(AssertionError):
            test_distance_is_the_same_in_many_blocks_and_any_unit(monkeypatch)
