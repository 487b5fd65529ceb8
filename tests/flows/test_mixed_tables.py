"""Whole releases of tables with columns of every type, and of awkward ones."""

import datetime
import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows import pipeline
from schemas.audit import AuditReport
from schemas.manifest import Manifest
from schemas.table import TableSchema
from tasks.files import checksum_lines
from tasks.noise import SeededBits
from tasks.staging import Staging
from tasks.workspace import Workspace, make_private
from tests.conftest import Outcome, leave_figures_blank
from tests.mixed_table import COLUMNS, SPEC, TOWNS, mixed
from tests.projects import changed, write_project

Fabrica = Callable[..., Outcome]
RECORD = {"unit": "record", "epsilon": 8.0, "delta": 1e-5, "budget": {"epsilon": 500.0, "delta": 1e-2}}
PRIVACY: dict[str, dict[str, Any]] = {
    "cell noise": SPEC["privacy"],
    "cell noise for rows": {**RECORD, "split": "optimal"},
    "private moments": {**RECORD, "mechanism": "private-moments"},
    "weights and labels": {
        **SPEC["privacy"],
        "split": {"weights": {"age": 2.0, "town": 0.5}},
        "labels": {"randomized_response": {"epsilon": 2.0}},
    },
}


def _release(fabrica: Fabrica, home: Path, folder: Path, spec: dict[str, Any], frame: pd.DataFrame) -> Path:
    outcome = fabrica("release", write_project(folder, spec, frame), "--release-id", "a")
    assert outcome.exit_code == 0, outcome.err
    release = home / "data" / "releases" / "mixed" / "a"
    verified = fabrica("verify", release)
    assert verified.exit_code == 0, verified.err
    return release


@pytest.mark.usefixtures("on_axes")
@pytest.mark.parametrize("privacy", PRIVACY.values(), ids=PRIVACY)
def test_the_release_looks_like_the_source(
    fabrica: Fabrica, home: Path, tmp_path: Path, privacy: dict[str, Any]
) -> None:
    release = _release(fabrica, home, tmp_path / "p", changed(SPEC, "privacy", privacy), mixed())
    kinds = {field.name: str(field.type) for field in pq.read_schema(release / "data" / "part-00000.parquet")}
    assert kinds == {
        "patient": "string", "age": "int64", "costs": "double", "height (m)": "double", "admitted": "date32[day]",
        "left": "date32[day]", "seen": "timestamp[us, tz=Europe/Vienna]", "triage": "string", "town": "string",
        "smoker": "bool", "select": "bool", "constant": "string", "outcome": "string",
    }  # fmt: skip
    data = pd.read_parquet(release / "data")
    nullable = {name for name, column in COLUMNS.items() if column.get("nullable")}
    assert {name for name in data if data[name].isna().any()} <= nullable
    assert len(data) == 210 and data["patient"].is_unique and not set(data["patient"]) & set(mixed()["patient"])
    assert data["age"].between(0, 120).all() and data["height (m)"].between(0.5, 2.5).all()
    assert np.allclose(data["height (m)"] * 100, np.rint(data["height (m)"] * 100))
    assert set(data["town"].dropna()) <= {*TOWNS, "elsewhere"} and set(data["constant"]) == {"one"}
    assert (data["seen"].dt.second == 0).all()
    both = data["left"].notna()
    assert (data["admitted"][both] <= data["left"][both]).all()
    assert (data["age"][data["triage"] == "red"] >= 18).all()
    manifest = Manifest.model_validate_json((release / "manifest.json").read_bytes())
    assert [column.name for column in manifest.columns] == list(data.columns)
    audit = AuditReport.model_validate_json((home / "reports" / "mixed" / "a" / "audit.json").read_bytes())
    assert {c.name for c in audit.utility.categories} == {"triage", "town", "smoker", "select", "constant"}
    assert audit.validation.mapped_to_other["town"] > 0
    package = json.loads((release / "datapackage.json").read_text())
    fields = {field["name"]: field for field in package["resources"][0]["schema"]["fields"]}
    assert fields["left"]["type"] == "date" and fields["left"]["constraints"]["required"] is False
    assert fields["smoker"]["type"] == "boolean" and fields["patient"]["constraints"]["unique"] is True


def test_missing_values_and_categories_come_out_in_distribution(fabrica: Fabrica, home: Path, tmp_path: Path) -> None:
    spec = changed(SPEC, "privacy.epsilon", 12.0)
    release = _release(fabrica, home, tmp_path / "p", spec, mixed(900))
    data, source = pd.read_parquet(release / "data"), mixed(900)
    for name in ("costs", "left", "smoker"):
        missing = (source[name] == "").mean()
        assert data[name].isna().mean() == pytest.approx(missing, abs=0.06), name
    for label in ("home", "ward"):
        mine, theirs = data[data["outcome"] == label], source[source["outcome"] == label]
        assert mine["costs"].isna().mean() == pytest.approx((theirs["costs"] == "").mean(), abs=0.08)
        assert (mine["town"] == "Wien").mean() == pytest.approx((theirs["town"] == "Wien").mean(), abs=0.08)


def test_public_columns_are_the_members_own(fabrica: Fabrica, home: Path, tmp_path: Path) -> None:
    frame = mixed().assign(**{"height (m)": [f"{0.5 + n / 200:.3f}" for n in range(300)]})
    spec = changed(SPEC, "table.columns.height (m)", {"type": "numeric", "bounds": [0.5, 2.5], "role": "public"})
    release = _release(fabrica, home, tmp_path / "p", spec, frame)
    rows = json.loads((home / "reports" / "mixed" / "a" / "members.json").read_text())["member_rows"]
    data = pd.read_parquet(release / "data")
    assert data["height (m)"].tolist() == [float(frame["height (m)"][row]) for row in rows]
    manifest = Manifest.model_validate_json((release / "manifest.json").read_bytes())
    assert manifest.guarantee.record.public_columns == ["height (m)"]
    assert "column `height (m)`" in manifest.guarantee.element.sentence()
    moments = changed(spec, "privacy", PRIVACY["private moments"])
    refused = fabrica("plan", write_project(tmp_path / "q", moments))
    assert (
        refused.exit_code == 2
        and "table.columns.height (m).role: is public, but private-moments draws new rows" in refused.err
    )


def test_the_plan_speaks_each_columns_language(fabrica: Fabrica, home: Path, tmp_path: Path) -> None:
    outcome = fabrica("plan", write_project(tmp_path / "p", changed(SPEC, "privacy.mechanism", "dirac-laplace")))
    assert outcome.exit_code == 0, outcome.err
    lines = {line.split("  ")[0]: line for line in outcome.out.splitlines()}
    # E|v| = 1/3 of the range
    assert "typical error 40 years" in lines["age"]
    assert "typically wrong by a factor of" in lines["costs"] and "whether missing wrong in 18.2 %" in lines["costs"]
    assert "typical error 1.34e+03 days" in lines["admitted"] and "typical error 1 places" in lines["triage"]
    # 6 possibilities: 5 / (e^3 + 5) are replaced
    assert "another category in 19.9 % of the rows" in lines["town"]
    assert "signal-to-noise" in outcome.out
    assert list(home.rglob("*")) == []


def test_a_useless_release_is_foretold(fabrica: Fabrica, tmp_path: Path) -> None:
    for privacy, useless in [({"epsilon": 0.2}, True), ({"epsilon": 8.0}, False)]:
        spec = changed(SPEC, "privacy", {**SPEC["privacy"], **privacy})
        plan = json.loads(fabrica("plan", write_project(tmp_path / str(useless), spec), "--json").out)
        assert any("hardly ever better" in warning for warning in plan["warnings"]) == useless, plan["signal_to_noise"]


def test_constraints_that_cannot_hold_are_refused_before_anything(fabrica: Fabrica, tmp_path: Path) -> None:
    impossible = [
        {"if": {"outcome": ["home"]}, "then": {"age": {"at_least": 50}}},
        {"at_most": ["admitted", "left"]},
        {"if": {"outcome": ["home"]}, "then": {"age": {"at_most": 40}}},
    ]
    outcome = fabrica("plan", write_project(tmp_path / "p", changed(SPEC, "table.constraints", impossible)))
    assert outcome.exit_code == 2 and "constraints 1 and 3 cannot hold together" in outcome.err
    columns = changed(SPEC, "table.columns.left.bounds", ["2014-01-01", "2014-12-31"])
    for command in ("plan", "release"):
        outcome = fabrica(command, write_project(tmp_path / command, columns, mixed()))
        assert outcome.exit_code == 2 and "cannot hold within the declared bounds" in outcome.err


def test_rows_that_break_a_constraint_refuse_the_source_or_are_counted(
    fabrica: Fabrica, home: Path, tmp_path: Path
) -> None:
    frame = mixed()
    frame.loc[:6, "admitted"], frame.loc[:6, "left"] = "2020-01-02", "2020-01-01"
    refused = fabrica("release", write_project(tmp_path / "p", SPEC, frame), "--release-id", "a")
    assert refused.exit_code == 3 and "constraint 1 (admitted <= left): 7 of 300 rows break it" in refused.err
    allowed = [{"at_most": ["admitted", "left"], "violated": "allow"}]
    _release(fabrica, home, tmp_path / "q", changed(SPEC, "table.constraints", allowed), frame)
    audit = AuditReport.model_validate_json((home / "reports" / "mixed" / "a" / "audit.json").read_bytes())
    assert audit.validation.broken_constraints == {"admitted <= left": 7}


NAMES = ["my age", 'a "quoted" one', "it's", "größe", "select", "名前", "a,b", "a`b", "100%", "true"]


@pytest.mark.usefixtures("on_axes")
@pytest.mark.parametrize("mechanism", ["optimal", "private-moments"])
def test_column_names_of_every_kind(fabrica: Fabrica, home: Path, tmp_path: Path, mechanism: str) -> None:
    random = np.random.default_rng(0)
    frame = pd.DataFrame({name: random.integers(0, 9, 60) for name in NAMES} | {"from": random.choice(["a", "b"], 60)})
    columns: dict[str, Any] = {name: {"type": "integer", "bounds": [0, 8]} for name in NAMES}
    columns["from"] = {"type": "categorical", "categories": ["a", "b"]}
    spec = changed(
        changed(SPEC, "table", {"label": "from", "columns": columns}), "privacy", {**RECORD, "mechanism": mechanism}
    )
    release = _release(fabrica, home, tmp_path / "p", spec, frame)
    assert list(pd.read_parquet(release / "data").columns) == [*NAMES, "from"]
    page = (release / "card.html").read_text()
    assert "a &#34;quoted&#34; one" in page or "a &quot;quoted&quot; one" in page


def _small(columns: dict[str, Any], label: dict[str, Any] | None = None) -> dict[str, Any]:
    declared = {**columns, "y": label or {"type": "categorical", "categories": ["a", "b"]}}
    return changed(SPEC, "table", {"label": "y", "columns": declared})


INTEGER = {"type": "integer", "bounds": [0, 9]}
NULLABLE = {**INTEGER, "nullable": True}
LABELS = ["a", "b"] * 20
BOTH = [1, 2] * 20


def _categorical(*categories: object, **more: Any) -> dict[str, Any]:
    return {"type": "categorical", "categories": list(categories), **more}


AWKWARD: dict[str, tuple[dict[str, Any], dict[str, Any], bool]] = {
    "constant column": (_small({"x": INTEGER}), {"x": [4] * 40, "y": LABELS}, True),
    "all-null column": (_small({"x": NULLABLE, "z": INTEGER}), {"x": [None] * 40, "z": BOTH, "y": LABELS}, True),
    "all-null categories": (
        _small({"x": _categorical("a", "b", nullable=True)}), {"x": [None] * 40, "y": LABELS}, True,
    ),
    "one category": (_small({"x": _categorical("k"), "z": INTEGER}), {"x": ["k"] * 40, "z": BOTH, "y": LABELS}, True),
    "label with a single class": (_small({"x": INTEGER}, _categorical("a")), {"x": BOTH, "y": ["a"] * 40}, True),
    "one class of two occurs": (_small({"x": INTEGER}), {"x": BOTH, "y": ["a"] * 40}, True),
    "boolean label": (_small({"x": INTEGER}, {"type": "boolean"}), {"x": BOTH, "y": ["yes", "no"] * 20}, True),
    "ordinal label": (
        _small({"x": INTEGER}, {"type": "ordinal", "categories": [1, 2, 3]}), {"x": BOTH, "y": [1, 3] * 20}, True,
    ),
    "values on the bounds": (_small({"x": INTEGER}), {"x": [0, 9] * 20, "y": LABELS}, True),
    "a class with two rows": (_small({"x": INTEGER}), {"x": [1] * 40, "y": ["a"] * 38 + ["b"] * 2}, False),
    "a class with one row": (_small({"x": INTEGER}), {"x": [1] * 40, "y": ["a"] * 39 + ["b"]}, False),
    "one row": (_small({"x": INTEGER}), {"x": [1], "y": ["a"]}, False),
    "two rows": (_small({"x": INTEGER}), {"x": [1, 2], "y": ["a", "a"]}, False),
    "no rows": (_small({"x": INTEGER}), {"x": [], "y": []}, False),
    "category not declared": (_small({"x": _categorical("k", "l")}), {"x": ["k", "m"] * 20, "y": LABELS}, False),
}  # fmt: skip


@pytest.mark.usefixtures("on_axes")
@pytest.mark.parametrize("mechanism", ["dirac-laplace", "private-moments"])
@pytest.mark.parametrize(("spec", "data", "good"), AWKWARD.values(), ids=AWKWARD)
def test_awkward_tables_are_released_or_refused_with_nothing_spent(
    fabrica: Fabrica, home: Path, tmp_path: Path, mechanism: str, spec: dict[str, Any], data: dict[str, Any], good: bool
) -> None:
    privacy = (
        {**RECORD, "mechanism": mechanism}
        if mechanism == "private-moments"
        else {**SPEC["privacy"], "mechanism": mechanism}
    )
    path = write_project(tmp_path / "p", changed(spec, "privacy", privacy), pd.DataFrame(data))
    outcome = fabrica("release", path, "--release-id", "a")
    few_of_a_class = data["x"] == [1] * 40
    if good or (few_of_a_class and mechanism == "private-moments"):  # labels that are not public decide nothing
        assert outcome.exit_code == 0, outcome.err
        declared = TableSchema.model_validate(spec["table"])
        released = pd.read_parquet(home / "data" / "releases" / "mixed" / "a" / "data")
        assert list(released.columns) == declared.released and len(released) == 28
        if data["x"] == [None] * 40 and mechanism == "private-moments":
            assert released["x"].isna().mean() > 0.5
    else:
        assert outcome.exit_code == 3 and outcome.err, outcome
        assert [file for file in home.rglob("*") if file.is_file()] == []


@pytest.mark.usefixtures("on_axes")
def test_five_hundred_columns(fabrica: Fabrica, home: Path, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    frame = pd.DataFrame(random.integers(0, 10, (60, 500)), columns=[f"c{n}" for n in range(500)])
    frame["y"] = random.choice(["a", "b"], 60)
    spec = _small({f"c{n}": INTEGER for n in range(500)})
    release = _release(fabrica, home, tmp_path / "p", changed(spec, "privacy.budget.epsilon", 5e3), frame)
    assert pd.read_parquet(release / "data").shape == (42, 501)


def test_released_labels_are_the_responses_and_nothing_else(home: Path, tmp_path: Path) -> None:
    spec = changed(SPEC, "privacy.labels", {"randomized_response": {"epsilon": 0.5}})
    pipeline.propose(write_project(tmp_path / "p", spec, mixed()), "a", bits=SeededBits(3))
    staging = Staging(Workspace(home), "mixed", "a")
    noise_added, members = staging.noise_added(), staging.member_rows()
    assert noise_added is not None and members is not None
    released = pd.read_parquet(staging.release / "data")["outcome"]
    assert released.tolist() == [["home", "ward"][label] for label in noise_added.read().labels]
    assert (released.to_numpy() != mixed()["outcome"].to_numpy()[members]).mean() > 0.2  # e^0.5 to 1: 38 % change


def test_what_is_released_depends_on_released_data_only(home: Path, tmp_path: Path) -> None:
    """The same noise-added rows give the same release whatever the source's cells are."""
    spec = changed(SPEC, "table.constraints", [])
    first = tmp_path / "p"
    pipeline.propose(write_project(first, spec, mixed()), "a", bits=SeededBits(3))
    staging = Staging(Workspace(home), "mixed", "a")
    kept, members = staging.noise_added(), staging.member_rows()
    released = pd.read_parquet(staging.release / "data")
    assert kept is not None and members is not None
    other = mixed()
    for name in ("age", "costs", "height (m)", "town", "smoker", "select", "triage"):
        other[name] = other[name].to_numpy()[::-1]
    again = Staging(Workspace(home), "mixed", "b")
    original = Staging.noise_added

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Staging, "noise_added", lambda self, *_: kept if self.release_id == "b" else original(self))
        patched.setattr(Staging, "member_rows", lambda self: members)
        patched.setattr(Staging, "start", lambda *_: make_private(again.folder))
        pipeline.propose(write_project(tmp_path / "q", spec, other), "b", bits=SeededBits(4))
    pd.testing.assert_frame_equal(pd.read_parquet(again.release / "data"), released)


@pytest.mark.parametrize("zone", ["America/Sao_Paulo", "Asia/Beirut"])
def test_days_that_begin_at_one_in_the_morning(fabrica: Fabrica, home: Path, tmp_path: Path, zone: str) -> None:
    random = np.random.default_rng(0)
    at = pd.Timestamp("2017-01-01T12:00") + pd.to_timedelta(random.integers(0, 364, 600), unit="D")
    frame = pd.DataFrame({"at": at.strftime("%Y-%m-%dT%H:%M"), "y": random.choice(["a", "b"], 600)})
    bounds = ["2017-01-01T00:00", "2017-12-31T23:00"]
    spec = _small({"at": {"type": "datetime", "bounds": bounds, "timezone": zone, "resolution": "day"}})
    released = pd.read_parquet(_release(fabrica, home, tmp_path / "p", spec, frame) / "data")
    assert released["at"].dt.hour.isin([0, 1]).all()


Forgery = Callable[[Path], None]


def _rewrite(folder: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    part = folder / "data" / "part-00000.parquet"
    pq.write_table(change(pq.ParquetFile(part).read()), part)


def _cell(name: str, value: object, kind: pa.DataType | None = None) -> Forgery:
    def forge(folder: Path) -> None:
        def change(table: pa.Table) -> pa.Table:
            place = table.column_names.index(name)
            cells = [value, *table.column(name).to_pylist()[1:]]
            field = table.schema.field(name) if kind is None else pa.field(name, kind)
            return table.set_column(place, field, pa.array(cells, field.type))

        _rewrite(folder, change)

    return forge


def _column(name: str, value: object) -> Forgery:
    def change(table: pa.Table) -> pa.Table:
        field = table.schema.field(name)
        return table.set_column(table.column_names.index(name), field, pa.array([value] * len(table), field.type))

    return lambda folder: _rewrite(folder, change)


def _as(name: str, kind: pa.DataType) -> Forgery:
    def change(table: pa.Table) -> pa.Table:
        place = table.column_names.index(name)
        return table.set_column(place, name, table.column(name).cast(kind))

    return lambda folder: _rewrite(folder, change)


def _extra(name: str) -> Forgery:
    def forge(folder: Path) -> None:
        shutil.copy(folder / "data" / "part-00000.parquet", folder / name)

    return forge


def _manifest_key(**changes: Any) -> Forgery:
    def forge(folder: Path) -> None:
        content = json.loads((folder / "manifest.json").read_text())
        (folder / "manifest.json").write_text(json.dumps(content | changes))

    return forge


TAMPERED: dict[str, Forgery] = {
    "out of bounds": _cell("age", 500),
    "far out of bounds": _cell("age", 2**60),
    "off its precision": _cell("height (m)", 1.7512),
    "undeclared category": _cell("town", "Paris"),
    "null where there is none": _cell("age", None, pa.int64()),
    "source's identifier": _cell("patient", "P00007"),
    "other type": _as("age", pa.float64()),
    "dates as times": _as("admitted", pa.timestamp("us")),
    "other time zone": _as("seen", pa.timestamp("us", tz="Europe/Berlin")),
    "constraint broken": _column("admitted", datetime.date(2025, 12, 31)),  # where `left` is missing, a row may
    "another file": _extra("source.parquet"),
    "another part": _extra("data/part-00001.parquet"),
    "columns": _manifest_key(columns=[]),
    "files": _manifest_key(files=[]),
    "rows": _manifest_key(rows=0),
}


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A published release, made once; its tests copy it."""
    folder = tmp_path_factory.mktemp("published")
    path = write_project(folder / "p", changed(SPEC, "privacy.epsilon", 9.0), mixed(90))
    with pytest.MonkeyPatch.context() as patched:
        leave_figures_blank(patched)
        patched.setenv("FABRICA_HOME", str(folder / "home"))
        return pipeline.publish(path, "a", pipeline.propose(path, "a").digest).release


@pytest.fixture
def alone(published: Path, home: Path) -> Path:
    """A copy of the published release, in a home without a ledger."""
    copied = home / "data" / "releases" / "mixed" / "a"
    shutil.copytree(published, copied)
    return copied


@pytest.mark.parametrize("forge", TAMPERED.values(), ids=TAMPERED)
def test_a_forged_release_is_found_even_without_the_ledger(fabrica: Fabrica, alone: Path, forge: Forgery) -> None:
    """With all digests made again, as a forger would."""
    forge(alone)
    manifest = json.loads((alone / "manifest.json").read_text())
    for file in manifest["files"]:
        content = (alone / file["path"]).read_bytes()
        file |= {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    (alone / "manifest.json").write_text(json.dumps(manifest))
    (alone / "SHA256SUMS").write_text(checksum_lines(alone))
    verified = fabrica("verify", alone)
    assert verified.exit_code == 5, verified.out + verified.err


def test_the_same_release_is_sound_before_it_is_forged(fabrica: Fabrica, alone: Path) -> None:
    manifest = json.loads((alone / "manifest.json").read_text())
    (alone / "manifest.json").write_text(json.dumps(manifest))
    (alone / "SHA256SUMS").write_text(checksum_lines(alone))
    verified = fabrica("verify", alone)
    assert verified.exit_code == 0, verified.out + verified.err
