"""Columns of every type to coordinates and back, and categories as frequent as the noise-added data show."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.spec import Fabrication
from schemas.table import TableSchema
from tasks.accounting import Moments
from tasks.accounting.lattice import LATTICE_STEPS, MISSING
from tasks.columns.categories import ScoreSums, assign
from tasks.columns.layout import layout_of
from tasks.columns.values import from_scaled, to_scaled
from tasks.decode import decode, with_identifiers
from tasks.encode import encode_features, encode_labels
from tasks.fabricate import Fabricated
from tasks.noise_added import piece_of, write_noise_added
from tasks.pieces import Groups, matrix_column
from tasks.restore import estimate_marginals
from tasks.runner import workers_of
from tasks.stage import released_frame
from tasks.tables import NoiseAddedTable

LABEL = {"type": "categorical", "categories": ["no", "yes"]}
COLUMNS: dict[str, dict[str, Any]] = {
    "height": {"type": "numeric", "bounds": [0, 2.5], "precision": 0.01},
    "income": {"type": "numeric", "bounds": [0, 1e6], "transformation": {"log": {"offset": 1}}},
    "age": {"type": "integer", "bounds": [0, 120], "nullable": True},
    "born": {"type": "date", "bounds": ["1900-01-01", "2030-12-31"], "nullable": True},
    "seen": {"type": "datetime", "bounds": ["1960-01-01T00:00", "2030-01-01T00:00"], "resolution": "hour"},
    "left": {
        "type": "datetime",
        "bounds": ["2000-01-01", "2030-01-01"],
        "timezone": "Europe/Vienna",
        "resolution": "day",
    },
    "grade": {"type": "ordinal", "categories": ["low", "middle", "high"], "nullable": True},
    "stage": {"type": "ordinal", "categories": [1, 2, 3, 4]},
    "town": {"type": "categorical", "categories": ["Graz", "Linz", "Wien"], "nullable": True},
    "code": {"type": "categorical", "categories": [10, 20], "other": 99},
    "smoker": {"type": "boolean"},
    "donor": {"type": "boolean", "nullable": True},
    "one": {"type": "categorical", "categories": ["only"]},
    "perhaps": {"type": "categorical", "categories": ["only"], "nullable": True},
    "single": {"type": "ordinal", "categories": ["only"], "nullable": True},
}


def _table(columns: dict[str, dict[str, Any]] | None = None) -> TableSchema:
    declared = COLUMNS if columns is None else columns
    return TableSchema.model_validate({"label": "outcome", "columns": {**declared, "outcome": LABEL}})


def _frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "height": [0.0, 1.75, 2.5, 9.0],
            "income": [0.0, 999.0, 1e6, -5.0],
            "age": [0.0, np.nan, 120.0, 60.0],
            "born": pd.to_datetime(pd.Series(["1900-01-01", None, "2030-12-31", "1965-07-02"])).astype("datetime64[s]"),
            "seen": pd.to_datetime(
                ["1960-01-01", "1969-12-31T23:00", "2030-01-01", "1995-01-01"], format="ISO8601"
            ).as_unit("us"),
            "left": pd.to_datetime(["2000-01-01", "2030-01-01", "2015-03-01", "2015-10-25"]).tz_localize(
                "Europe/Vienna"
            ),
            "grade": pd.Series(["low", "high", None, "middle"], dtype="str"),
            "stage": pd.Series([1, 4, 2, 3], dtype="Int64"),
            "town": pd.Series(["Wien", None, "Graz", "Linz"], dtype="str"),
            "code": pd.Series([10, 20, 99, 99], dtype="Int64"),
            "smoker": pd.Series([True, False, True, False], dtype="boolean"),
            "donor": pd.Series([True, None, False, True], dtype="boolean"),
            "one": pd.Series(["only"] * 4, dtype="str"),
            "perhaps": pd.Series(["only", None, "only", None], dtype="str"),
            "single": pd.Series([None, "only", "only", None], dtype="str"),
            "outcome": pd.Series(["yes", "no", "no", "yes"], dtype="str"),
        }
    )


def test_layout_by_hand() -> None:
    got = [(block.column, block.kind, block.start, block.width, block.levels) for block in layout_of(_table()).blocks]
    assert got == [
        ("height", "value", 0, 1, 0),
        ("income", "value", 1, 1, 0),
        ("age", "missing", 2, 1, 2),
        ("age", "value", 3, 1, 0),
        ("born", "missing", 4, 1, 2),
        ("born", "value", 5, 1, 0),
        ("seen", "value", 6, 1, 0),
        ("left", "value", 7, 1, 0),
        ("grade", "missing", 8, 1, 2),
        ("grade", "value", 9, 1, 0),
        ("stage", "value", 10, 1, 0),
        ("town", "category", 11, 4, 4),
        ("code", "category", 15, 3, 3),
        ("smoker", "category", 18, 1, 2),
        ("donor", "category", 19, 3, 3),
        ("perhaps", "category", 22, 1, 2),
        ("single", "category", 23, 1, 2),
    ]


def test_encoding_by_hand() -> None:
    lattice = encode_features(_frame(), _table())
    top, middle = LATTICE_STEPS, MISSING
    assert lattice[:, 0].tolist() == [0, round(0.7 * top), top, top]  # clipped
    assert lattice[:, 1].tolist() == [0, 32_768, top, 0]  # log(1000) is half of log(1e6 + 1), nearly
    assert lattice[:, 2].tolist() == [0, top, 0, 0] and lattice[:, 3].tolist() == [0, middle, top, middle]
    assert lattice[:, 4].tolist() == [0, top, 0, 0] and lattice[1, 5] == middle and lattice[0, 5] == 0
    assert lattice[:, 6].tolist()[::2] == [0, top]
    assert lattice[:, 7].tolist()[:2] == [0, top]
    assert lattice[:, 8].tolist() == [0, 0, top, 0] and lattice[:, 9].tolist() == [0, top, middle, middle]
    assert lattice[:, 10].tolist() == [0, top, round(top / 3), round(2 * top / 3)]
    town = (lattice[:, 11:15] // top).tolist()
    assert town == [[0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0], [0, 1, 0, 0]]
    assert (lattice[:, 15:18] // top).argmax(axis=1).tolist() == [0, 1, 2, 2]
    assert (lattice[:, 18] // top).tolist() == [1, 0, 1, 0]
    assert (lattice[:, 19:22] // top).argmax(axis=1).tolist() == [1, 2, 0, 1]
    assert (lattice[:, 22] // top).tolist() == [0, 1, 0, 1] and (lattice[:, 23] // top).tolist() == [1, 0, 0, 1]
    assert encode_labels(_frame(), _table()).tolist() == [1, 0, 0, 1]


def _decoded(frame: pd.DataFrame, table: TableSchema, folder: Path) -> pa.Table:
    """What comes out where fabricated rows are the encoded ones."""
    lattice, labels = encode_features(frame, table), encode_labels(frame, table)
    rows = NoiseAddedTable(lattice, labels, 1 / LATTICE_STEPS, "seeded (not private)")
    piece = piece_of(np.arange(len(frame)), rows, frame[list(table.public)])
    noise_added = write_noise_added(folder / "noise_added.parquet", iter([piece]), rows.spacing, rows.randomness, "")
    smoothed = Fabrication(marginals="smoothed")
    marginals = estimate_marginals.function(noise_added, Moments.__new__(Moments), smoothed, table)
    groups = Groups(folder / "fabricated")
    for part in noise_added.pieces():
        groups.add(part.append_column("fabricated", matrix_column(rows.scaled)), labels)
    with workers_of("threads") as workers:
        released = decode.function(Fabricated(groups, len(frame)), marginals, table, workers, folder)
    (again,) = released.pieces()
    return with_identifiers(again, 0, len(frame), table)


def test_without_noise_decoding_is_the_inverse_of_encoding(tmp_path: Path) -> None:
    frame, table = pd.concat([_frame()] * 200, ignore_index=True), _table()
    rows = _decoded(frame, table, tmp_path)
    again = released_frame(rows, table)
    frame["height"], frame["income"] = frame["height"].clip(0, 2.5), frame["income"].clip(0, 1e6)
    for name in table.released:
        assert again[name].isna().tolist() == frame[name].isna().tolist(), name
        present = frame[name].notna()
        if name == "income":
            assert np.allclose(again[name], frame[name], rtol=1e-3)
        elif name == "born":  # 131 years in 2^16 steps
            assert ((again[name] - frame[name])[present].abs() <= pd.Timedelta(days=1)).all()
        elif name in {"seen", "left"}:
            assert ((again[name] - frame[name]).abs() <= pd.Timedelta(days=1)).all()
        else:
            assert again[name][present].tolist() == frame[name][present].tolist(), name
    assert {field.name: str(field.type) for field in rows.schema} == {
        "height": "double", "income": "double", "age": "int64", "born": "date32[day]", "seen": "timestamp[us]",
        "left": "timestamp[us, tz=Europe/Vienna]", "grade": "string", "stage": "int64", "town": "string",
        "code": "int64", "smoker": "bool", "donor": "bool", "one": "string", "perhaps": "string", "single": "string",
        "outcome": "string",
    }  # fmt: skip


def test_public_columns_pass_and_identifiers_are_made_up(tmp_path: Path) -> None:
    columns: dict[str, dict[str, Any]] = {
        "who": {"type": "identifier"},
        "number": {"type": "identifier", "surrogate": "integer"},
        "ward": {"type": "categorical", "categories": ["a", "b"], "role": "public"},
        "age": {"type": "integer", "bounds": [0, 120]},
    }
    table = _table(columns)
    frame = pd.DataFrame(
        {
            "ward": pd.Series(["b", "a"], dtype="str", index=[7, 3]),
            "age": [40.0, 50.0],
            "outcome": pd.Series(["no", "yes"], dtype="str"),
        },
        index=[7, 3],
    )
    frame["age"], frame["outcome"] = [40.0, 50.0], ["no", "yes"]
    again = released_frame(_decoded(frame, table, tmp_path), table)
    assert list(again.columns) == ["who", "number", "ward", "age", "outcome"]
    assert again["who"].tolist() == ["r-000001", "r-000002"] and again["number"].tolist() == [1, 2]
    assert again["ward"].tolist() == ["b", "a"]


@pytest.mark.parametrize(("resolution", "expected"), [("day", "1999-07-17"), ("month", "1999-07-01"), ("year", "1999-01-01")])  # fmt: skip  # noqa: E501
def test_dates_come_out_at_their_resolution(resolution: str, expected: str) -> None:
    declared = {"born": {"type": "date", "bounds": ["1990-01-01", "2010-01-01"], "resolution": resolution}}
    column = _table(declared).features["born"]
    scaled = to_scaled(pd.Series(pd.to_datetime(["1999-07-17"])), column)  # type: ignore[arg-type]
    assert from_scaled(scaled, column).astype(str).tolist() == [expected]  # type: ignore[arg-type]


def test_times_in_the_lost_and_the_doubled_hour_come_out() -> None:
    declared = {"at": {"type": "datetime", "bounds": ["2024-01-01", "2025-01-01"], "timezone": "Europe/Vienna"}}
    column = _table(declared).features["at"]
    hours = pd.Series(pd.date_range("2024-01-01", "2025-01-01", freq="30min").as_unit("us"))
    scaled = to_scaled(hours, column)  # type: ignore[arg-type]
    values = from_scaled(scaled, column)  # type: ignore[arg-type]
    assert str(values.dtype) == "datetime64[us, Europe/Vienna]" and values.notna().all()
    assert values.min() >= pd.Timestamp("2024-01-01", tz="Europe/Vienna")
    assert values.max() <= pd.Timestamp("2025-01-01", tz="Europe/Vienna")


@given(st.floats(-1, 2), st.sampled_from(["height", "income", "age", "born", "seen", "grade", "stage"]))
def test_every_decoded_value_lies_in_its_domain(scaled: float, name: str) -> None:
    column = _table().features[name]
    value = from_scaled(np.array([scaled]), column).iloc[0]  # type: ignore[arg-type]
    if name in {"grade", "stage"}:
        assert value in column.levels  # type: ignore[union-attr]
    elif name in {"born", "seen"}:
        lower, upper = (pd.Timestamp(bound) for bound in column.bounds)  # type: ignore[union-attr]
        assert lower <= value <= upper
    else:
        assert column.bounds[0] <= value <= column.bounds[1]  # type: ignore[union-attr]


@given(
    st.integers(1, 60), st.integers(2, 7), st.integers(0, 2**32 - 1), st.sampled_from(["noise", "constant", "one-hot"])
)  # fmt: skip
def test_categories_are_as_frequent_as_asked(n: int, k: int, seed: int, kind: str) -> None:
    random = np.random.default_rng(seed)
    shares = random.dirichlet(np.ones(k))
    if seed % 3 == 0:
        shares = np.eye(k)[seed % k]
    scores = {
        "noise": random.normal(size=(n, k)) * 10.0 ** random.integers(-6, 6),
        "constant": np.full((n, k), 0.5),
        "one-hot": np.eye(k)[random.integers(0, k, n)],
    }[kind]
    counts = np.bincount(assign(scores, shares), minlength=k)
    assert counts.sum() == n and np.abs(counts - shares * n).max() < 1 + 1e-6


def test_categories_go_to_the_rows_whose_scores_speak_for_them() -> None:
    random = np.random.default_rng(2)
    truth = random.choice(3, 600, p=[0.7, 0.2, 0.1])
    # smoothed scores: everywhere the frequent category has the largest one
    scores = np.array([0.7, 0.2, 0.1]) + 0.1 * (np.eye(3)[truth] - 0.5) + random.normal(0, 0.01, (600, 3))
    assert (scores.argmax(axis=1) == 0).all()
    assert (assign(scores, np.bincount(truth) / 600) == truth).mean() > 0.99


def _shares(estimates: np.ndarray, labels: np.ndarray) -> dict[int, np.ndarray]:
    sums = ScoreSums()
    for rows in np.array_split(np.arange(len(labels)), 3):
        sums.add(estimates[rows], labels[rows])
    return sums.shares()


def test_shares_of_a_class_are_kept_where_they_are_clear_and_shrunk_where_they_are_noise() -> None:
    random = np.random.default_rng(3)
    labels = np.repeat([0, 1], 2000)
    truth = np.concatenate([random.choice(3, 2000, p=[0.8, 0.1, 0.1]), random.choice(3, 2000, p=[0.1, 0.1, 0.8])])
    clear = _shares(np.eye(3)[truth] + random.normal(0, 0.5, (4000, 3)), labels)
    assert np.abs(clear[0] - [0.8, 0.1, 0.1]).max() < 0.08 and np.abs(clear[1] - [0.1, 0.1, 0.8]).max() < 0.08
    drowned = _shares(np.eye(3)[truth] + random.normal(0, 500.0, (4000, 3)), labels)
    for shares in (*clear.values(), *drowned.values()):
        assert shares.min() >= 0 and shares.sum() == pytest.approx(1)
