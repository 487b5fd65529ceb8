"""Validate the source and the release against their declaration with a Great Expectations suite.

Great Expectations quotes values in its results and in its exceptions. Only the fields named in `ValidationCheck` are
taken from a result, and nothing else of it leaves this module. Even the counts are exact statistics of confidential
rows: they go to the steward's terminal and the internal report, never into the release folder.

How the suite is evaluated. Context: an expectation costs Great Expectations 3 to 4 ms whatever it is about, and more
the more columns a table has. It also takes a column for another whose name differs in case only. Decision: columns of
one kind are put below each other under a fixed name, one expectation is asked of all of them, and the numbers of the
rows that do not meet it tell which column they came from. Bounds, which differ by column, stand beside the values, so
that `between` is asked as two comparisons of columns; categories are looked up together with their column's name.
Times are compared as clocks show them. What we gave up: Great Expectations' own outcome is no longer by column.
"""

import logging
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from schemas.audit import ValidationCheck, ValidationOutcome
from schemas.columns import (
    BooleanColumn,
    CategoricalColumn,
    DateColumn,
    DatetimeColumn,
    IdentifierColumn,
    IntegerColumn,
    NumericColumn,
    OrdinalColumn,
)
from schemas.errors import StepFailed, ValidationFailed
from schemas.table import TableSchema
from tasks.ingest import few
from tasks.memory import give_back
from tasks.step import noted, step
from tasks.tables import SourceTable

SMALLEST_CLASS = 3
"""Rows a class that occurs must have: two to fabricate from and one to test on."""

_MOST_CELLS = 4_000_000
"""Cells that are validated together, to bound memory; a single column may have more."""

_RESULT_FORMAT = {
    "result_format": "COMPLETE",  # numbers of rows
    "partial_unexpected_count": 0,
    "exclude_unexpected_values": True,
}


@step("Validate source")
def validate(
    source: SourceTable, table: TableSchema, file_name: str, *, labels_public: bool = True
) -> ValidationOutcome:
    """Check the source against the suite built from its declaration.

    Parameters
    ----------
    source : SourceTable
    table : TableSchema
    file_name : str
        How error texts call the source.
    labels_public : bool, default=True
        Only then every class that occurs must have some rows; else the labels decide nothing.

    Returns
    -------
    ValidationOutcome
        Every expectation with its counts, the number of values that will be clipped or that became a column's
        `other`, and the number of rows that break a constraint which allows it.

    Raises
    ------
    ValidationFailed
        An expectation or a constraint that refuses the source is not met, or a class has too few rows.
    """
    from tasks.columns.constraints import describe, violations

    checks: list[ValidationCheck] = []
    violated = [0] * len(table.constraints)
    for frame in source.pieces():
        checks = added(checks, run_suite(frame, table))
        violated = [sum(counts) for counts in zip(violated, violations(frame, table), strict=True)]
        give_back()
    clipped: dict[str, int] = {}
    faults: list[str] = []
    for check in checks:
        if check.success:
            continue
        if check.expectation == "expect_column_values_to_be_between" and check.column not in {None, *table.public}:
            assert check.column is not None
            if not table.refuses_outside(check.column):
                clipped[check.column] = check.unexpected_count or 0
                continue
        faults.append(_fault(check, table))
    broken: dict[str, int] = {}
    numbered = enumerate(zip(table.constraints, violated, strict=True), start=1)
    for number, (constraint, count) in numbered:
        if count and constraint.violated == "refuse":
            faults.append(
                f"constraint {number} ({describe(constraint)}): {count} of {source.n_rows} rows break it; correct "
                "them, or use violated: allow"
            )
        elif count:
            broken[describe(constraint)] = count
    if labels_public:
        faults += _small_classes(source.labels, table)
    elif source.n_rows < SMALLEST_CLASS:
        faults.append(f"has {source.n_rows} row(s), at least {SMALLEST_CLASS} are needed")
    if faults:
        raise ValidationFailed("\n".join(few([f"{file_name}: {fault}" for fault in faults])))
    if table.rows is not None and not 0.8 <= source.n_rows / table.rows <= 1.25:
        noted(f"table.rows is {table.rows}, the source has {source.n_rows} rows: the plan was for another table")
    if clipped:
        noted(f"{sum(clipped.values())} values outside their bounds are clipped, in {len(clipped)} columns")
    for name, count in source.mapped_to_other.items():
        noted(f"column `{name}`: {count} values that are not declared became `{_other(name, table)}`")
    for words, count in broken.items():
        noted(f"{count} rows break a constraint that allows it: {words}")
    return ValidationOutcome(
        rows=source.n_rows,
        checks=checks,
        clipped=clipped,
        mapped_to_other=source.mapped_to_other,
        broken_constraints=broken,
    )


@step("Validate release")
def validate_release(frames: Iterable[pd.DataFrame], table: TableSchema) -> None:
    """Check that the released rows are inside their declared domain.

    Parameters
    ----------
    frames : iterable of DataFrame
        The released rows, with identifiers, piece by piece.
    table : TableSchema

    Raises
    ------
    StepFailed
        They are not, which is a fault of ours.
    """
    checks: list[ValidationCheck] = []
    last: dict[str, int | str] = {}
    faults: list[str] = []
    for frame in frames:
        checks = added(checks, run_suite(frame, table, table.released))
        for name in table.released:
            if isinstance(table.columns[name], IdentifierColumn) and name in frame and len(frame):
                # they ascend; so those of one piece are none of another's
                smallest, largest = frame[name].min(), frame[name].max()
                if name in last and not smallest > last[name]:
                    faults.append(f"{_UNIQUE} of column `{name}`")
                last[name] = largest
        give_back()
    faults = [
        f"{check.expectation}{'' if check.column is None else f' of column `{check.column}`'}"
        for check in checks
        if not check.success
    ] + faults
    if faults:
        raise StepFailed("the fabricated rows do not agree with their declared table: " + "; ".join(faults[:5]))


def added(checks: list[ValidationCheck], more: list[ValidationCheck]) -> list[ValidationCheck]:
    """The outcome of the same expectations on two pieces of a table, taken together."""
    if not checks:
        return more
    return [
        one.model_copy(
            update={
                "success": one.success and other.success,
                "element_count": _sum(one.element_count, other.element_count),
                "unexpected_count": _sum(one.unexpected_count, other.unexpected_count),
            }
        )
        for one, other in zip(checks, more, strict=True)
    ]


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def run_suite(frame: pd.DataFrame, table: TableSchema, names: list[str] | None = None) -> list[ValidationCheck]:
    """Every expectation that the declaration implies, with its outcome on `frame`.

    Parameters
    ----------
    frame : DataFrame
        Source or released rows.
    table : TableSchema
    names : list of str, default=None
        The columns that `frame` must have: `table.read`, the default, of the source; `table.released` of a release.

    Returns
    -------
    list of ValidationCheck
        The columns; then by kind of expectation the columns it is about, in declared order: no missing values (where
        not nullable), inside the bounds, among the declared values, without a repetition (identifiers). Columns that
        are not there have no outcome of their own.
    """
    names = table.read if names is None else names
    suite = _Suite()
    complete = frame.columns.is_unique and suite.columns_match(frame, names)
    checks = [
        ValidationCheck(
            expectation="expect_table_columns_to_match_set",
            column=None,
            success=complete,
            element_count=None,
            unexpected_count=None,
        )
    ]
    if not frame.columns.is_unique:
        return checks
    asked = [question for name in names if name in frame for question in _questions(frame[name], name, table)]
    counts = {
        (question.expectation, question.column): count
        for stack in _stacks(asked, len(frame))
        for question, count in zip(stack, suite.count(stack), strict=True)
    }
    for expectation in _EXPECTATIONS:
        for name in names:
            if (count := counts.get((expectation, name))) is not None:
                checks.append(
                    ValidationCheck(
                        expectation=expectation,
                        column=name,
                        success=count == 0,
                        element_count=len(frame),
                        unexpected_count=count,
                    )
                )
    return checks


_NOT_NULL = "expect_column_values_to_not_be_null"
_BETWEEN = "expect_column_values_to_be_between"
_IN_SET = "expect_column_values_to_be_in_set"
_UNIQUE = "expect_column_values_to_be_unique"
_EXPECTATIONS = (_NOT_NULL, _BETWEEN, _IN_SET, _UNIQUE)


@dataclass(frozen=True, eq=False)
class _Question:
    """One expectation about one column."""

    expectation: str
    column: str
    values: pd.Series
    bounds: tuple[float, float] | tuple[int, int] | None = None
    levels: tuple[str, ...] = ()

    @property
    def stack(self) -> tuple[object, ...]:
        """Questions with the same one can be asked together."""
        alone = self.column if self.expectation == _UNIQUE else None
        return self.expectation, str(self.values.dtype), alone


def _questions(values: pd.Series, name: str, table: TableSchema) -> Iterator[_Question]:
    column = table.columns[name]
    if not column.nullable:
        yield _Question(_NOT_NULL, name, pd.Series(np.where(values.isna(), np.nan, 0.0)))  # one type for all columns
    match column:
        case IdentifierColumn():
            yield _Question(_UNIQUE, name, values)
        case DateColumn() | DatetimeColumn():
            lower, upper = (int(np.datetime64(bound, "us").astype(np.int64)) for bound in column.bounds)
            yield _Question(_BETWEEN, name, _microseconds(values), bounds=(lower, upper))
        case NumericColumn() | IntegerColumn():
            yield _Question(_BETWEEN, name, pd.Series(values.to_numpy(np.float64, na_value=np.nan)), column.bounds)
        case CategoricalColumn() | OrdinalColumn() | BooleanColumn():
            levels = tuple(f"{name}: {level!r}" for level in column.levels)
            yield _Question(_IN_SET, name, _with_name(values, name), levels=levels)


def _with_name(values: pd.Series, name: str) -> pd.Series:
    """Values as text that tells their column and type too, so that one set can hold those of all columns."""
    codes, different = pd.factorize(values)
    shown = np.array([None, *(f"{name}: {value!r}" for value in different.tolist())], dtype=object)
    return pd.Series(shown[codes + 1], dtype="str")


def _microseconds(values: pd.Series) -> pd.Series:
    """Dates and times as whole numbers, as clocks show them in the column's time zone, where bounds are meant."""
    if values.dt.tz is not None:
        values = values.dt.tz_localize(None)
    times = values.to_numpy("datetime64[us]")
    return pd.Series(pd.arrays.IntegerArray(times.astype(np.int64), np.isnat(times)))


def _stacks(questions: list[_Question], n_rows: int) -> Iterator[list[_Question]]:
    """The questions in groups that are asked together."""
    together: dict[tuple[object, ...], list[_Question]] = {}
    for question in questions:
        together.setdefault(question.stack, []).append(question)
    most = max(1, _MOST_CELLS // max(1, n_rows))
    for alike in together.values():
        for first in range(0, len(alike), most):
            yield alike[first : first + most]


class _Suite:
    """Great Expectations, with its own voice turned off."""

    def __init__(self) -> None:
        os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
        import great_expectations as gx

        # this one sets its own level, and would tell of a temporary folder at each run
        logging.getLogger("great_expectations.data_context.types.base").setLevel(logging.WARNING)
        self._gx = gx
        context = gx.get_context(mode="ephemeral")
        context.variables.progress_bars = {"globally": False, "metric_calculations": False}
        self._source = context.data_sources.add_pandas("rows")
        self._batches = self._source.add_dataframe_asset("rows").add_batch_definition_whole_dataframe("rows")

    @cached_property
    def _expectations(self) -> Any:
        import great_expectations.expectations as gxe

        return gxe

    def columns_match(self, frame: pd.DataFrame, names: list[str]) -> bool:
        """Whether `frame` has the columns of these names and no others."""
        expectation = self._expectations.ExpectTableColumnsToMatchSet(column_set=names, exact_match=True)
        return bool(self._outcomes(frame.head(0), [expectation])[0].success)

    def count(self, stack: list[_Question]) -> list[int]:
        """The number of rows of each column that do not meet the expectation, for questions of one stack."""
        n_rows = len(stack[0].values)
        frame = pd.DataFrame({"values": pd.concat([question.values for question in stack], ignore_index=True)})
        outcomes = self._outcomes(frame, self._ask(stack, frame))
        rows = np.concatenate([_rows(outcome) for outcome in outcomes])
        counts: list[int] = np.bincount(rows // max(1, n_rows), minlength=len(stack)).tolist()
        return counts

    def _ask(self, stack: list[_Question], frame: pd.DataFrame) -> list[Any]:
        """Expectations of which a row can fail only one; bounds are added to `frame`."""
        ask = self._expectations
        match stack[0].expectation:
            case "expect_column_values_to_not_be_null":
                return [ask.ExpectColumnValuesToNotBeNull(column="values")]
            case "expect_column_values_to_be_between":
                for place, side in enumerate(["lower", "upper"]):
                    ends = [question.bounds[place] for question in stack if question.bounds is not None]
                    frame[side] = pd.Series(np.repeat(ends, len(stack[0].values))).astype(frame["values"].dtype)
                return [
                    ask.ExpectColumnPairValuesAToBeGreaterThanB(
                        column_A=larger, column_B=smaller, or_equal=True, ignore_row_if="either_value_is_missing"
                    )
                    for larger, smaller in [("values", "lower"), ("upper", "values")]
                ]
            case "expect_column_values_to_be_in_set":
                # of the declared values only those that occur: the time grows with the size of the set
                occurring = set(frame["values"].dropna().unique().tolist())
                declared = [level for question in stack for level in question.levels if level in occurring]
                return [ask.ExpectColumnValuesToBeInSet(column="values", value_set=declared)]
            case _:
                return [ask.ExpectColumnValuesToBeUnique(column="values")]

    def _outcomes(self, frame: pd.DataFrame, expectations: list[Any]) -> list[Any]:
        batch = self._batches.get_batch(batch_parameters={"dataframe": frame})
        suite = self._gx.ExpectationSuite(name="declared-table", expectations=expectations)
        outcomes = list(batch.validate(suite, result_format=_RESULT_FORMAT).results)
        for name in list(frame):  # Great Expectations holds on to the frame, in a circle
            del frame[name]
        if len(outcomes) != len(expectations):
            raise RuntimeError("an expectation was not evaluated")
        for outcome in outcomes:
            if outcome.exception_info and _raised(outcome.exception_info):
                raise RuntimeError(f"{outcome.expectation_config.type} could not be evaluated")
        return outcomes


def _rows(outcome: Any) -> npt.NDArray[np.int64]:
    """Numbers of the rows that do not meet an expectation; nothing else of its outcome is looked at."""
    rows = np.asarray(outcome.result["unexpected_index_list"] or [], dtype=np.int64)
    if len(rows) != outcome.result["unexpected_count"] or bool(outcome.success) != (len(rows) == 0):
        raise RuntimeError(f"{outcome.expectation_config.type} contradicts itself")
    return rows


def _raised(info: dict[str, Any]) -> bool:
    if "raised_exception" in info:
        return bool(info["raised_exception"])
    return any(part.get("raised_exception") for part in info.values() if isinstance(part, dict))


def _fault(check: ValidationCheck, table: TableSchema) -> str:
    rows = f"{check.unexpected_count} of {check.element_count} rows"
    column = None if check.column is None else table.columns[check.column]
    match check.expectation:
        case "expect_column_values_to_not_be_null" if check.column == table.label:
            return f"column `{check.column}`: {rows} have no value; fill or remove them"
        case "expect_column_values_to_not_be_null":
            return (
                f"column `{check.column}`: {rows} have no value; fill or remove them, or use nullable: true or "
                "role: drop"
            )
        case "expect_column_values_to_be_between" if check.column in table.public:
            return (
                f"column `{check.column}`: {rows} lie outside the declared bounds; correct them or the bounds, since "
                "public values are released as they are"
            )
        case "expect_column_values_to_be_between":
            return (
                f"column `{check.column}`: {rows} lie outside the declared bounds; correct them or the bounds, or "
                "use outside_bounds: clip"
            )
        case "expect_column_values_to_be_in_set" if isinstance(column, CategoricalColumn | OrdinalColumn):
            what = "label" if check.column == table.label else "value"
            other = ", or name an `other`" if isinstance(column, CategoricalColumn) else ""
            return (
                f"column `{check.column}`: {rows} hold a {what} that is not among the {len(column.levels)} declared "
                f"categories; correct them, {'' if other else 'or '}declare the category{other}"
            )
        case _:
            return f"{check.expectation} is not met"


def _small_classes(labels: npt.NDArray[np.int32], table: TableSchema) -> list[str]:
    counts = np.bincount(labels[labels >= 0], minlength=len(table.classes)).tolist()
    return [
        f"column `{table.label}`: class `{str(category).lower() if isinstance(category, bool) else category}` has "
        f"{count} row(s), at least {SMALLEST_CLASS} are needed; merge the class with another, or remove it "
        "from source and spec"
        for category, count in zip(table.classes, counts, strict=True)
        if 0 < count < SMALLEST_CLASS
    ]


def _other(name: str, table: TableSchema) -> str | int | None:
    column = table.columns[name]
    return column.other if isinstance(column, CategoricalColumn) else None
