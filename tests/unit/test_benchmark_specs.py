"""The benchmark specs: each can be read, and where the tables are at hand each describes its table."""

import os
from functools import cache
from pathlib import Path

import pandas as pd
import pytest

from flows.serve import find_specs
from schemas.columns import BooleanColumn, BoundedColumn, IntegerColumn, LevelColumn
from schemas.spec import ReleaseSpec
from tasks.read_spec import read_spec
from tests.projects import PROJECT

SPECS = PROJECT / "data" / "specs"
PATHS = sorted((SPECS / "benchmarks").glob("*.yaml"))
TABLES = [
    "adult", "cornell", "credit_approval", "dermatology", "digits", "german_credit", "heart_disease", "isolet",
    "letter", "mnist5k", "satimage", "usps", "vehicle",
]  # fmt: skip
MOST_OUTSIDE = 0.01
each_spec = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)


@cache
def _spec(path: Path) -> ReleaseSpec:
    return read_spec(path)


def _table(path: Path) -> pd.DataFrame:
    named = os.environ.get("FABRICA_BENCHDATA")
    folder = Path(named) if named else PROJECT.parent / "shared" / "benchdata"
    source = folder / Path(_spec(path).source.path).name
    if not source.is_file():
        pytest.skip(f"{source.name} is not here; FABRICA_BENCHDATA names the folder of the benchmark tables")
    return pd.read_parquet(source)


def test_each_table_has_its_spec() -> None:
    assert [path.stem for path in PATHS] == [table.replace("_", "-") for table in TABLES]


def test_serve_does_not_register_them() -> None:
    assert {path.parent for path in find_specs(SPECS)} == {SPECS}


@each_spec
def test_spec_asks_for_what_the_folder_says(path: Path) -> None:
    spec = _spec(path)
    assert spec.dataset == f"bench-{path.stem}"
    assert spec.source.path == f"data/raw/benchmarks/{path.stem.replace('-', '_')}.parquet"
    assert (spec.privacy.unit, spec.privacy.mechanism, spec.privacy.epsilon) == ("record", "private-moments", 4.0)
    assert spec.table.rows is not None and spec.privacy.delta < spec.table.rows**-1.1


@each_spec
def test_spec_describes_the_columns_of_its_table(path: Path) -> None:
    spec, table = _spec(path), _table(path)
    assert list(spec.table.columns) == list(table.columns)
    assert spec.table.rows == len(table)
    missing = {str(name) for name in table.columns[table.isna().any()]}
    assert missing <= {name for name, column in spec.table.columns.items() if column.nullable}


@each_spec
def test_categories_of_the_table_are_declared(path: Path) -> None:
    spec, table = _spec(path), _table(path)
    for name, column in spec.table.columns.items():
        if not isinstance(column, LevelColumn):
            continue
        found = set(table[name].dropna().unique().tolist())
        if isinstance(column, BooleanColumn):
            assert found <= {0, 1} or found <= {"f", "t"}, name
        elif name == spec.table.label:
            assert found == set(column.levels), name
        else:
            assert found <= set(column.levels), name


@each_spec
def test_hardly_any_value_is_outside_its_bounds(path: Path) -> None:
    spec, table = _spec(path), _table(path)
    outside, cells = 0, 0
    for name, column in spec.table.columns.items():
        if not isinstance(column, BoundedColumn):
            continue
        values = table[name].dropna().astype("float64")
        if isinstance(column, IntegerColumn):
            assert (values % 1 == 0).all(), name
        count = int((~values.between(*column.bounds)).sum())
        assert count < MOST_OUTSIDE * len(values), name
        outside, cells = outside + count, cells + len(values)
        if count:
            print(f"{path.stem}: {name}: {count} of {len(values)} values outside")
    print(f"{path.stem}: {outside} of {cells} values outside their bounds ({outside / max(cells, 1):.4%})")
