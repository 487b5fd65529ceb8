"""Single out, link and infer from the release, its noise-added data and the raw rows; confidential, internal."""

import numpy as np
import pandas as pd

from schemas.attacks import PrivacyRisks
from schemas.columns import BooleanColumn, CategoricalColumn
from schemas.table import TableSchema
from tasks.audit.columns_table import ColumnsTable
from tasks.columns.values import level_codes, to_comparable
from tasks.sample import AuditSample
from tasks.step import step

MOST_ROWS = 20_000
"""Rows of each kind that attackers hold, and members and control rows that are attacked; all are searched."""


@step("Assess risks")
def assess_risks(sample: AuditSample, table: TableSchema, seed: int) -> PrivacyRisks:
    """The three risks of Giomi et al. (2023), for attackers who hold each kind of rows.

    Parameters
    ----------
    sample : AuditSample
    table : TableSchema
    seed : int
        Of the attacks. The sample's first rows are taken, which stand in random order; control rows are drawn.

    Returns
    -------
    PrivacyRisks
    """
    from tasks.audit import privacy_risks

    controls = np.random.default_rng(seed).permutation(len(sample.control_frame))[:MOST_ROWS]
    members = columns_of(sample.member_frame.head(MOST_ROWS), table)
    return privacy_risks(
        members,
        columns_of(sample.control_frame.iloc[controls], table),
        {
            "real": members,
            "noise-added": columns_of(sample.unsmoothed.head(MOST_ROWS), table),
            "fabricated": columns_of(sample.released.head(MOST_ROWS), table),
        },
        label=table.label,
        seed=seed,
    )


def columns_of(frame: pd.DataFrame, table: TableSchema) -> ColumnsTable:
    """Features and label of a frame, clipped to the bounds, without names or types of their own."""
    columns = {**table.features, table.label: table.columns[table.label]}
    values, kinds = [], []
    for name, column in columns.items():
        if isinstance(column, CategoricalColumn | BooleanColumn):
            values.append(level_codes(frame[name], column.levels).astype(np.int64))
        else:
            values.append(to_comparable(frame[name], column).astype(np.float64))  # type: ignore[arg-type]
        kinds.append(isinstance(column, CategoricalColumn | BooleanColumn))
    return ColumnsTable(tuple(columns), tuple(values), tuple(kinds), len(frame))
