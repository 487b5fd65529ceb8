"""Validate the source against its declaration with a Great Expectations suite; confidential side.

Great Expectations quotes values in its results and in its exceptions. Only the fields named in `ValidationCheck` are
taken from a result, and nothing else of it leaves this module. Even the counts are exact statistics of confidential
rows: they go to the steward's terminal and the internal report, never into the release folder.
"""

import logging
import os
from collections.abc import Mapping
from typing import Any

import pandas as pd

from schemas.audit import ValidationCheck, ValidationOutcome
from schemas.errors import ValidationFailed
from schemas.table import TableSchema
from tasks.step import noted, step
from tasks.tables import SourceTable

SMALLEST_CLASS = 3
"""Rows a class that occurs must have: two to fabricate from and one to test on."""

_RESULT_FORMAT = {
    "result_format": "BASIC",
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
        Every expectation with its counts, and the number of values that will be clipped, by column.

    Raises
    ------
    ValidationFailed
        An expectation that refuses the source is not met, or a class has too few rows.
    """
    checks = run_suite(source.frame, table)
    clipped: dict[str, int] = {}
    faults: list[str] = []
    for check in checks:
        if check.success:
            continue
        if check.expectation == "expect_column_values_to_be_between" and check.column is not None:
            if not table.refuses_outside(check.column):
                clipped[check.column] = check.unexpected_count or 0
                continue
        faults.append(f"{file_name}: {_fault(check, table)}")
    if labels_public:
        faults += [f"{file_name}: {fault}" for fault in _small_classes(source.frame[table.label], table)]
    elif len(source.frame) < SMALLEST_CLASS:
        faults.append(f"{file_name}: has {len(source.frame)} row(s), at least {SMALLEST_CLASS} are needed")
    if faults:
        raise ValidationFailed("\n".join(faults))
    if clipped:
        noted(f"{sum(clipped.values())} values outside their bounds are clipped, in {len(clipped)} columns")
    return ValidationOutcome(rows=len(source.frame), checks=checks, clipped=clipped)


def run_suite(frame: pd.DataFrame, table: TableSchema) -> list[ValidationCheck]:
    """Every expectation that the declaration implies, with its outcome on `frame`."""
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    import great_expectations as gx
    import great_expectations.expectations as gxe

    # this one sets its own level, and would tell of a temporary folder at each run
    logging.getLogger("great_expectations.data_context.types.base").setLevel(logging.WARNING)
    expectations: list[Any] = [gxe.ExpectTableColumnsToMatchSet(column_set=table.released, exact_match=True)]
    for name in table.released:
        expectations.append(gxe.ExpectColumnValuesToNotBeNull(column=name))
    for name, column in table.features.items():
        lower, upper = column.bounds
        expectations.append(gxe.ExpectColumnValuesToBeBetween(column=name, min_value=lower, max_value=upper))
    expectations.append(
        gxe.ExpectColumnValuesToBeInSet(column=table.label, value_set=list(table.label_column.categories))
    )
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False, "metric_calculations": False}
    batch = context.data_sources.pandas_default.read_dataframe(frame)
    suite = gx.ExpectationSuite(name="declared-table", expectations=expectations)
    result = batch.validate(suite, result_format=_RESULT_FORMAT)
    if len(result.results) != len(expectations):
        raise RuntimeError("an expectation was not evaluated")
    return [_check(outcome) for outcome in result.results]


def _check(outcome: Any) -> ValidationCheck:
    """The allow-listed fields of one result."""
    if outcome.exception_info and _raised(outcome.exception_info):
        raise RuntimeError(f"{outcome.expectation_config.type} could not be evaluated")
    fields: Mapping[str, Any] = outcome.result or {}
    return ValidationCheck(
        expectation=outcome.expectation_config.type,
        column=outcome.expectation_config.kwargs.get("column"),
        success=bool(outcome.success),
        element_count=fields.get("element_count"),
        unexpected_count=fields.get("unexpected_count"),
    )


def _raised(info: Mapping[str, Any]) -> bool:
    if "raised_exception" in info:
        return bool(info["raised_exception"])
    return any(part.get("raised_exception") for part in info.values() if isinstance(part, Mapping))


def _fault(check: ValidationCheck, table: TableSchema) -> str:
    rows = f"{check.unexpected_count} of {check.element_count} rows"
    match check.expectation:
        case "expect_column_values_to_not_be_null":
            return f"column `{check.column}`: {rows} have no value; fill or remove them, or use role: drop"
        case "expect_column_values_to_be_between":
            return (
                f"column `{check.column}`: {rows} lie outside the declared bounds; correct them or the bounds, or "
                "use outside_bounds: clip"
            )
        case "expect_column_values_to_be_in_set":
            known = len(table.label_column.categories)
            return (
                f"column `{check.column}`: {rows} hold a label that is not among the {known} declared categories; "
                "correct them, or declare the category"
            )
        case _:
            return f"{check.expectation} is not met"


def _small_classes(labels: pd.Series, table: TableSchema) -> list[str]:
    counts = labels.value_counts()
    return [
        f"column `{table.label}`: class `{category}` has {counts[category]} row(s), at least {SMALLEST_CLASS} are "
        "needed; merge the class with another, or remove it from source and spec"
        for category in table.label_column.categories
        if 0 < counts.get(category, 0) < SMALLEST_CLASS
    ]
