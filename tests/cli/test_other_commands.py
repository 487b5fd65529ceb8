"""`fabrica plan`, `verify`, `ledger`, `report`, and what the command line costs to start."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from flows import pipeline
from tests.conftest import Outcome, leave_figures_blank
from tests.projects import PROJECT, SPEC, changed, write_project

Fabrica = Callable[..., Outcome]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with one release, made once; tests copy it."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patched:
        leave_figures_blank(patched)
        patched.setenv("FABRICA_HOME", str(folder / "home"))
        spec = write_project(folder / "p")
        pipeline.publish(spec, "a", pipeline.propose(spec, "a").digest)
    return folder / "home"


@pytest.fixture
def released(made: Path, home: Path) -> Path:
    shutil.copytree(made, home, dirs_exist_ok=True)
    return home / "data" / "releases" / "small-digits" / "a"


def test_plan_reads_no_data_and_spends_nothing(fabrica: Fabrica, home: Path, tmp_path: Path) -> None:
    spec = write_project(tmp_path / "p")
    (tmp_path / "p" / "source.csv").unlink()
    outcome = fabrica("plan", spec)
    assert outcome.exit_code == 0
    for text in [
        "dirac-laplace",
        "element level",
        "record level",
        "e^7.9999",
        "left: 80, 0.001",
        "such releases fit",
    ]:
        assert text in outcome.out
    assert "r2c3    integer  0 to 16  typical error 8" in outcome.out  # E|v| = 1/2 of the range at epsilon 2
    assert list(home.rglob("*")) == []
    plan = json.loads(fabrica("plan", spec, "--json").out)
    assert plan["columns"][0]["expected_error"] == pytest.approx(8, rel=1e-3)
    assert 10 <= plan["releases_left"] <= 15  # basic composition allows ten, tight composition a few more
    assert plan["unperturbed_cells_per_row"] == pytest.approx(4e-6)
    assert (plan["rows_before_warning"], plan["rows_before_refusal"]) == (25000, 250000)


def test_plan_foresees_a_refusal(fabrica: Fabrica, home: Path, tmp_path: Path) -> None:
    outcome = fabrica("plan", write_project(tmp_path / "p", changed(SPEC, "privacy.budget.epsilon", 1.0)))
    assert outcome.exit_code == 0 and "0 such releases fit" in outcome.out and "will be refused" in outcome.out


def test_plan_does_not_count_for_ever(fabrica: Fabrica, tmp_path: Path) -> None:
    """1000 are as far as it counts, so that many are at least that many."""
    budget = {"epsilon": 1e6, "delta": 0.5}
    outcome = fabrica("plan", write_project(tmp_path / "p", changed(SPEC, "privacy.budget", budget)))
    assert outcome.exit_code == 0 and "; at least 1000 such releases fit" in outcome.out


def test_ledger_shows_and_verifies(fabrica: Fabrica, released: Path) -> None:
    shown = json.loads(fabrica("ledger", "show", "--json").out)
    assert shown["balances"][0]["spent_epsilon"] < 8.0 and len(shown["entries"]) == 4
    row = next(line for line in fabrica("ledger", "show", "small-digits").out.splitlines() if "small-digits" in line)
    assert row.split() == ["small-digits", "80", "0.001", *row.split()[3:7], "1"]
    assert 7 < float(row.split()[3]) < 8 and 72 < float(row.split()[5]) < 73
    assert json.loads(fabrica("ledger", "verify", "--json").out) == {"entries": 4}


def test_ledger_verify_misses_the_charge_of_a_published_release(fabrica: Fabrica, home: Path, released: Path) -> None:
    import sqlite3

    with sqlite3.connect(home / "data" / "ledger.sqlite") as connection:
        connection.execute("DELETE FROM fabrica_ledger WHERE sequence > 1")  # the chain alone cannot tell
    connection.close()
    outcome = fabrica("ledger", "verify")
    assert outcome.exit_code == 5 and "not the whole one" in outcome.err


def test_an_empty_ledger_is_no_error(fabrica: Fabrica) -> None:
    assert fabrica("ledger", "show").out.strip().endswith("ledger.sqlite is empty")
    assert json.loads(fabrica("ledger", "verify", "--json").out) == {"entries": 0}


def test_report_is_rendered_again_from_its_json(fabrica: Fabrica, home: Path, released: Path) -> None:
    page = home / "reports" / "small-digits" / "a" / "audit.html"
    before = page.read_bytes()
    page.unlink()
    assert fabrica("report", released).exit_code == 0
    assert page.read_bytes() == before
    (page.parent / "audit.json").write_text("{}")
    assert fabrica("report", released).exit_code == 5


def _append(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b" ")


def _edit_manifest(release: Path, old: str, new: str) -> None:
    """Edit the manifest and forge its checksum, as an attacker would."""
    from tasks.files import checksum_lines

    path = release / "manifest.json"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    (release / "SHA256SUMS").write_text(checksum_lines(release))


def _forge_guarantee(release: Path) -> None:
    manifest = json.loads((release / "manifest.json").read_text())
    stated = json.dumps(manifest["guarantee"]["element"]["epsilon"])
    assert stated == "2.0"
    text = (release / "manifest.json").read_text()
    place = text.index('"guarantee"')
    text = text[:place] + text[place:].replace('"epsilon": 2.0', '"epsilon": 0.5', 1)
    (release / "manifest.json").write_text(text)
    from tasks.files import checksum_lines

    (release / "SHA256SUMS").write_text(checksum_lines(release))


def _swap_values(release: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from tasks.files import checksum_lines

    path = release / "data" / "part-00000.parquet"
    table = pq.read_table(path)
    frame = table.to_pandas()
    frame.loc[0, "r2c3"] = 99
    edited = pa.Table.from_pandas(frame, preserve_index=False)
    pq.write_table(edited.replace_schema_metadata(table.schema.metadata), path)
    (release / "SHA256SUMS").write_text(checksum_lines(release))


TAMPERINGS: dict[str, tuple[Callable[[Path], object], str]] = {
    "data changed": (lambda r: _append(r / "data" / "part-00000.parquet"), "part-00000.parquet: was changed"),
    "card changed": (lambda r: _append(r / "card.html"), "card.html: was changed"),
    "file missing": (lambda r: (r / "datapackage.json").unlink(), "datapackage.json: is missing"),
    "file added": (lambda r: (r / "extra.txt").write_text("x"), "extra.txt: is not listed"),
    "sums missing": (lambda r: (r / "SHA256SUMS").unlink(), "SHA256SUMS: is missing"),
    "guarantee forged": (_forge_guarantee, "stronger than the noise law gives"),
    "spec forged": (lambda r: _edit_manifest(r, '"components": 3', '"components": 4'), "not the one its digest"),
    "rows forged": (lambda r: _edit_manifest(r, '"rows": 105', '"rows": 106'), "expected number of unperturbed cells"),
    "ledger entry forged": (lambda r: _edit_manifest(r, '"sequence": 2', '"sequence": 3'), "no entry charges"),
    "value outside its domain": (_swap_values, "part-00000.parquet"),
    "manifest cut off": (lambda r: _edit_manifest(r, '"release_id"', '"release_ib"'), "not a valid manifest"),
}


@pytest.mark.parametrize(("tamper", "text"), TAMPERINGS.values(), ids=TAMPERINGS)
def test_verify_finds_tampering(fabrica: Fabrica, released: Path, tamper: Callable[[Path], object], text: str) -> None:
    assert fabrica("verify", released).exit_code == 0
    tamper(released)
    outcome = fabrica("verify", released)
    assert outcome.exit_code == 5 and text in outcome.err, outcome.err


def test_verify_without_a_ledger_says_what_was_not_checked(fabrica: Fabrica, home: Path, released: Path) -> None:
    (home / "data" / "ledger.sqlite").unlink()
    outcome = fabrica("verify", released)
    assert outcome.exit_code == 0 and "not checked: there is no ledger" in outcome.out


def test_released_parquet_reads_with_plain_pandas(released: Path) -> None:
    assert pd.read_parquet(released / "data" / "part-00000.parquet").shape == (105, 5)


PIPELINES = {"prefect", "great_expectations", "sklearn"}
TABLES = {"pandas", "pyarrow", "matplotlib", "distributed", "dp_accounting"}
NUMERICS = {"numpy", "scipy", "sqlalchemy"}


@pytest.mark.parametrize(
    ("arguments", "heavy", "most"),
    [
        (["--help"], PIPELINES | TABLES | NUMERICS, 600),
        (["plan", "data/specs/digits.yaml"], PIPELINES | TABLES, 1500),
    ],
)
def test_starting_imports_little(arguments: list[str], heavy: set[str], most: int, home: Path) -> None:
    """What starting costs is its imports: 350 modules for help and 1,050 for a plan."""
    script = (
        "import sys; from flows import cli; sys.argv = ['fabrica', *sys.argv[1:]]\n"
        "try: cli.main()\n"
        "finally: print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], cwd=PROJECT, capture_output=True, text=True, timeout=300
    )
    imported = done.stderr.split()
    assert done.returncode == 0 and "flows.cli" in imported
    assert heavy & set(imported) == set()
    assert len(imported) < most
