"""What `perturb` releases of one cell, of every kind, keeps the element-level claim for any change of that cell.

2e5 rows that are alike but for noise, on each of two neighbouring tables; the search for a violating event is wrong
with a chance of 1e-3 (and the bits are seeded besides). Broken borders are convicted by the same search.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from schemas.spec import Privacy
from schemas.table import TableSchema
from tasks.accounting import CellNoise, Part, cell_noise, groups_of
from tasks.columns.layout import layout_of
from tasks.encode import encode_features
from tasks.noise import LabelRandomizedResponse, SeededBits, law_from_parameters
from tasks.perturb import noise_on_cells
from tasks.tables import ConfidentialTable
from tests.statistics import Violation, hockey_stick_violation

N = 200_000
EPSILON, DELTA = 1.0, 1e-3
COLUMNS: dict[str, dict[str, Any]] = {
    "amount": {"type": "numeric", "bounds": [0, 1], "nullable": True},
    "grade": {"type": "ordinal", "categories": ["a", "b", "c"]},
    "town": {"type": "categorical", "categories": list("abcd"), "nullable": True},
    "street": {"type": "categorical", "categories": [f"s{i}" for i in range(14)]},
    "flag": {"type": "boolean"},
}
TABLE = TableSchema.model_validate({"label": "y", "columns": {**COLUMNS, "y": {"type": "boolean"}}})
CELLS: dict[str, pd.Series] = {
    "amount": pd.Series([0.25]),
    "grade": pd.Series(["b"], dtype="str"),
    "town": pd.Series(["a"], dtype="str"),
    "street": pd.Series(["s3"], dtype="str"),
    "flag": pd.Series([True], dtype="boolean"),
}
CHANGES: list[tuple[str, Any, Any]] = [
    ("amount", 0.0, 1.0),
    ("amount", 0.0, None),
    ("amount", 1.0, None),
    ("amount", 0.5, None),
    ("grade", "a", "c"),
    ("town", "a", "d"),
    ("town", "a", None),
    ("street", "s0", "s13"),
    ("flag", False, True),
]


def _noise(mechanism: str) -> CellNoise:
    budget = {"epsilon": 100.0, "delta": 0.5}
    asked = {"unit": "element", "epsilon": EPSILON, "delta": DELTA, "mechanism": mechanism, "budget": budget}
    return cell_noise(Privacy.model_validate(asked), groups_of(TABLE), 2)


def _outputs(noise: CellNoise, column: str, cell: Any, seed: int) -> np.ndarray:
    """All that is released of one cell, as whole numbers: every answer exactly, a value in 64ths of the range."""
    changed = pd.Series([cell], dtype=CELLS[column].dtype)
    frame = pd.DataFrame({**CELLS, column: changed})
    members = ConfidentialTable(np.repeat(encode_features(frame, TABLE), N, axis=0), np.zeros(N, np.int64), 2.0**-16)
    released = noise_on_cells(members, noise, layout_of(TABLE), SeededBits(seed)).lattice
    seen = np.zeros(N, dtype=np.int64)
    for block in layout_of(TABLE).of(column):
        for place in range(block.start, block.start + block.width):
            answers = released[:, place]
            seen = seen * 2 + (answers > 0) if block.kind != "value" else seen * 2**20 + (answers >> 10) + 2**19
    return seen


def _violation(noise: CellNoise, column: str, one: Any, other: Any) -> Violation | None:
    outputs = [_outputs(noise, column, cell, seed) for seed, cell in enumerate((one, other), start=1)]
    return hockey_stick_violation(outputs[0], outputs[1], EPSILON, DELTA)


@pytest.mark.parametrize("mechanism", ["dirac-laplace", "optimal", "gaussian"])
@pytest.mark.parametrize(("column", "one", "other"), CHANGES)
def test_no_event_refutes_the_claim(mechanism: str, column: str, one: Any, other: Any) -> None:
    assert _violation(_noise(mechanism), column, one, other) is None


def _broken(noise: CellNoise, column: str, what: str, weaken: Callable[[Part], Part]) -> CellNoise:
    return replace(
        noise,
        parts=tuple(weaken(part) if column in part.columns and part.what == what else part for part in noise.parts),
    )


def _sure_answers(part: Part) -> Part:
    assert isinstance(part.noise, LabelRandomizedResponse)
    return replace(part, noise=LabelRandomizedResponse(2.0 * part.noise.epsilon + 0.5, part.noise.n_categories))


def _half_the_noise(part: Part) -> Part:
    own = {"epsilon": 2.5 * EPSILON, "delta": DELTA, "sensitivity": 2**16}
    return replace(part, noise=law_from_parameters("dirac-laplace", own))


@pytest.mark.parametrize(
    ("column", "what", "weaken", "one", "other"),
    [
        ("amount", "missing", _sure_answers, 0.0, None),
        ("amount", "value", _half_the_noise, 0.0, 1.0),
        ("town", "category", _sure_answers, "a", None),
        ("flag", "category", _sure_answers, False, True),
    ],
)
def test_a_broken_border_is_convicted(
    column: str, what: str, weaken: Callable[[Part], Part], one: Any, other: Any
) -> None:
    assert _violation(_broken(_noise("dirac-laplace"), column, what, weaken), column, one, other) is not None


PAIRS: dict[str, dict[str, Any]] = {
    **{f"flag{i}": {"type": "boolean"} for i in range(3)},
    **{f"amount{i}": {"type": "numeric", "bounds": [0, 1], "nullable": True} for i in range(3)},
}


@pytest.mark.parametrize("name", PAIRS)
def test_every_column_of_a_part_gets_answers_of_its_own(name: str) -> None:
    """No answer is passed on as it is, and none is shared with another column."""
    table = TableSchema.model_validate({"label": "y", "columns": {**PAIRS, "y": {"type": "boolean"}}})
    budget = {"epsilon": 100.0, "delta": 0.5}
    asked = {"unit": "element", "epsilon": EPSILON, "delta": DELTA, "mechanism": "dirac-laplace", "budget": budget}
    noise = cell_noise(Privacy.model_validate(asked), groups_of(table), 2)
    n, random = 20_000, np.random.default_rng(2)
    frame = pd.DataFrame({f"flag{i}": pd.Series(random.random(n) < 0.5, dtype="boolean") for i in range(3)})
    frame = frame.assign(**{f"amount{i}": np.where(random.random(n) < 0.5, np.nan, 0.5) for i in range(3)})
    members = ConfidentialTable(encode_features(frame, table), np.zeros(n, np.int64), 2.0**-16)
    released = noise_on_cells(members, noise, layout_of(table), SeededBits(5)).lattice
    flips = {}
    for block in layout_of(table).blocks:
        if block.kind != "value":
            flips[block.column] = (released[:, block.start] > 2**15) != (members.lattice[:, block.start] > 2**15)
    part = next(part for part in noise.parts if name in part.columns and part.what != "value")
    expected = part.noise.change_probability  # type: ignore[union-attr]
    # five standard deviations of a share, and of a correlation, of n rows
    assert flips[name].mean() == pytest.approx(expected, abs=5 * (0.25 / n) ** 0.5)
    for other in set(flips) - {name}:
        assert abs(np.corrcoef(flips[name], flips[other])[0, 1]) < 5 / n**0.5
