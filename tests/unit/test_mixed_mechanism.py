"""Mixed columns: what protects a cell of each kind, what a row costs, and how epsilon is shared out."""

import math
from typing import Any

import pytest

from schemas.errors import RequestRefused
from schemas.spec import Budget, Privacy
from schemas.table import TableSchema
from tasks.accounting import CellNoise, Part, cell_noise, groups_of
from tasks.accounting.composition import basic_epsilon, composed_delta
from tasks.accounting.groups import HALF_RANGE, CategoryResponse
from tasks.accounting.lattice import LATTICE_STEPS, lattice_distance
from tasks.noise import LabelRandomizedResponse, LatticeNoise, UnaryRandomizedResponse

BUDGET = Budget(epsilon=1e6, delta=0.5)
TABLE = TableSchema.model_validate(
    {
        "label": "y",
        "columns": {
            "plain": {"type": "numeric", "bounds": [0, 1]},
            "second": {"type": "integer", "bounds": [0, 100]},
            "perhaps": {"type": "numeric", "bounds": [0, 1], "nullable": True},
            "grade": {"type": "ordinal", "categories": ["a", "b", "c"]},
            "town": {"type": "categorical", "categories": list("abcdef"), "nullable": True},
            "flag": {"type": "boolean"},
            "constant": {"type": "categorical", "categories": ["only"]},
            "y": {"type": "boolean"},
        },
    }
)


def _noise(unit: str = "element", epsilon: float = 1.0, delta: float = 1e-5, **more: Any) -> CellNoise:
    privacy = Privacy.model_validate({"unit": unit, "epsilon": epsilon, "delta": delta, "budget": BUDGET, **more})
    return cell_noise(privacy, groups_of(TABLE, privacy.split), 2)


def _of(noise: CellNoise, column: str) -> dict[str, Part]:
    return {part.what: part for part in noise.parts if column in part.columns}


def _law(part: Part) -> LatticeNoise:
    assert not isinstance(part.noise, CategoryResponse)
    return part.noise


def _answer(part: Part) -> LabelRandomizedResponse:
    assert isinstance(part.noise, LabelRandomizedResponse)
    return part.noise


def test_every_column_with_more_than_one_value_is_protected_once() -> None:
    found = sorted((column, part.what) for part in _noise().parts for column in part.columns)
    assert found == [
        ("flag", "category"), ("grade", "value"), ("perhaps", "missing"), ("perhaps", "value"), ("plain", "value"),
        ("second", "value"), ("town", "category"),
    ]  # fmt: skip


def _missing_delta(law: LatticeNoise, answer: LabelRandomizedResponse, epsilon: float) -> float:
    """The exact delta of a value that goes missing: the answer's outcomes one by one, each with the law's profile.

    sum over answers a of sum_k [P(a) p(k) - e^eps Q(a) p(k - s)]_+ with log P(a)/Q(a) = m or -m.
    """
    m, stay = answer.epsilon, answer.keep_probability
    near = law.delta_at(max(0.0, epsilon - m), HALF_RANGE) if epsilon >= m else 1.0
    return stay * near + (1 - stay) * law.delta_at(epsilon + m, HALF_RANGE)


@pytest.mark.parametrize("mechanism", ["optimal", "dirac-laplace", "staircase", "dirac-staircase", "gaussian"])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-5), (1.0, 1e-3), (4.0, 1e-6)])
def test_any_change_of_a_nullable_cell_costs_at_most_what_is_asked(
    mechanism: str, epsilon: float, delta: float
) -> None:
    parts = _of(_noise(epsilon=epsilon, delta=delta, mechanism=mechanism), "perhaps")
    law, answer = _law(parts["value"]), _answer(parts["missing"])
    assert law.delta_at(epsilon, LATTICE_STEPS) <= delta * (1 + 1e-9)
    assert _missing_delta(law, answer, epsilon) <= delta * (1 + 1e-9)
    assert answer.epsilon >= 0.4 * epsilon * (1 - 1e-9)
    # an answer as strong as the whole epsilon beside that noise is convicted
    assert _missing_delta(law, LabelRandomizedResponse(epsilon, 2), epsilon) > delta * 1.5


def test_with_laplace_noise_a_nullable_value_gets_no_more_noise_than_another() -> None:
    noise = _noise(mechanism="dirac-laplace", epsilon=2.0)
    assert _law(_of(noise, "perhaps")["value"]) == _law(_of(noise, "plain")["value"])
    assert _answer(_of(noise, "perhaps")["missing"]).epsilon == pytest.approx(1.0, rel=1e-3)


def test_a_short_distance_is_for_plain_values_only() -> None:
    noise = _noise(distance=0.25, mechanism="dirac-laplace")
    assert _law(_of(noise, "plain")["value"]).sensitivity == lattice_distance(0.25)
    for column in ("perhaps", "grade"):
        assert _law(_of(noise, column)["value"]).delta_at(1.0, LATTICE_STEPS) <= 1e-5 * (1 + 1e-9)


def test_categories_get_the_response_that_errs_less() -> None:
    assert isinstance(_of(_noise(epsilon=0.3), "town")["category"].noise, UnaryRandomizedResponse)
    town = _of(_noise(epsilon=2.0), "town")["category"].noise
    assert isinstance(town, LabelRandomizedResponse) and (town.epsilon, town.n_categories) == (2.0, 7)
    flag = _of(_noise(epsilon=2.0), "flag")["category"].noise
    assert isinstance(flag, LabelRandomizedResponse) and (flag.epsilon, flag.n_categories) == (2.0, 2)


def test_element_level_is_what_was_asked_and_the_row_is_composed() -> None:
    noise = _noise(mechanism="dirac-laplace")
    assert (noise.guarantees.element.epsilon, noise.guarantees.element.delta) == (1.0, 1e-5)
    assert "likelihood ratio" in noise.guarantees.element.proof
    record = noise.guarantees.record
    assert composed_delta(noise.events, record.epsilon) <= record.delta * (1 + 1e-9)
    # three values, a value with its answer, two categories: 4 + 0.5 + 2 by basic composition
    assert record.epsilon <= basic_epsilon(noise.events, record.delta) <= 6.5 * (1 + 1e-3)


@pytest.mark.parametrize("mechanism", ["optimal", "dirac-laplace", "staircase", "truncated-laplace", "gaussian"])
@pytest.mark.parametrize("split", ["equal", "optimal", {"weights": {"plain": 3.0, "town": 0.5}}])
def test_record_unit_is_met_and_not_wasted(mechanism: str, split: Any) -> None:
    noise = _noise("record", 2.0, 1e-5, mechanism=mechanism, split=split)
    assert composed_delta(noise.events, 2.0 * (1 + 1e-9)) <= 1e-5 * (1 + 1e-9)
    assert noise.guarantees.record.epsilon <= 2.0 * (1 + 1e-9)
    assert noise.guarantees.record.epsilon >= 2.0 * (1 - 2e-3)
    assert noise.guarantees.element.epsilon <= noise.guarantees.record.epsilon * (1 + 1e-9)


def _errors(noise: CellNoise) -> float:
    """Summed root mean square errors of all columns, as `optimal_weight` counts them."""
    total = 0.0
    for part in noise.parts:
        one = (
            math.sqrt(part.noise.estimate_variance / (2 if part.noise.n_categories == 2 else 1))
            if isinstance(part.noise, CategoryResponse)
            else math.sqrt(2) * part.noise.expected_magnitude() / LATTICE_STEPS
        )
        total += one * len(part.columns)
    return total


@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_optimal_split_errs_less_than_equal_shares_and_costs_the_same(epsilon: float) -> None:
    equal, best = (
        _noise("record", epsilon, 1e-5, split=split, mechanism="dirac-laplace") for split in ("equal", "optimal")
    )
    assert _errors(best) < _errors(equal)
    worse = _noise("record", epsilon, 1e-5, split={"weights": {"town": 0.2}}, mechanism="dirac-laplace")
    assert _errors(worse) > _errors(best)


def test_weights_share_out_epsilon() -> None:
    noise = _noise(epsilon=2.0, split={"weights": {"plain": 4.0, "flag": 2.0}}, mechanism="dirac-laplace")
    size = {name: _law(_of(noise, name)["value"]).expected_magnitude() for name in ("plain", "second")}
    assert size["second"] / size["plain"] == pytest.approx(4.0, rel=1e-3)
    assert _of(noise, "flag")["category"].noise.epsilon == 1.0  # type: ignore[union-attr]
    assert noise.guarantees.element.epsilon == 2.0
    assert noise.guarantees.element.delta <= 1e-5 * (1 + 1e-9)


def test_all_categories_need_no_noise_law() -> None:
    table = TableSchema.model_validate({"label": "y", "columns": {"a": {"type": "boolean"}, "y": {"type": "boolean"}}})
    privacy = Privacy.model_validate({"unit": "element", "epsilon": 1.0, "delta": 0.0, "budget": BUDGET})
    noise = cell_noise(privacy, groups_of(table), 2)
    assert noise.name == "randomized-response" and noise.record(10).expected_magnitude is None
    assert (noise.guarantees.record.epsilon, noise.guarantees.record.delta) == (1.0, 0.0)
    for mechanism in ("optimal", "gaussian", "staircase"):
        asked = {"unit": "record", "epsilon": 1.0, "delta": 1e-6, "budget": BUDGET, "mechanism": mechanism}
        row = cell_noise(Privacy.model_validate(asked), groups_of(table), 2)
        assert row.guarantees.record.epsilon == pytest.approx(1.0, rel=1e-3)


def test_what_the_sampler_cannot_keep_is_refused_for_responses_too() -> None:
    with pytest.raises(RequestRefused, match="sampler cannot keep"):
        _noise(epsilon=41.0, mechanism="dirac-laplace")


def test_the_price_does_not_depend_on_the_order_of_columns() -> None:
    other = TableSchema.model_validate(
        {"label": "y", "columns": dict(reversed(TABLE.model_dump(by_alias=True)["columns"].items()))}
    )
    privacy = Privacy.model_validate({"unit": "element", "epsilon": 1.0, "delta": 1e-5, "budget": BUDGET})
    one, two = (cell_noise(privacy, groups_of(table), 2).guarantees.record for table in (TABLE, other))
    assert one.epsilon == pytest.approx(two.epsilon, rel=1e-9)
