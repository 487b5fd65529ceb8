"""Recognisable values are planted in the source; every file that any run writes anywhere is searched for them.

All runs go through a real Prefect server. The process that runs them, and the server, have their home, temporary and
Prefect folders below one root, and that root is searched: releases, reports, staging, ledger, the server's database,
its result storage, its log, temporary files, and what the runs printed.
"""

import io
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from tests.conftest import PrefectServer
from tests.projects import FEATURES, SPEC, changed, digits, write_project
from tests.waiting import comes_true

NUMBER = 7.0625031
TEXT = "sentinel-5f3a9c"
CONVICTED = "sentinel-of-a-broken-border"

DRIVER = '''
"""Run one release after another, some of them with a fault planted in the code."""
import sys
import tasks.decode, tasks.step, tasks.validate
from flows import cli

def planted(text):
    def fail(*_, **__):
        value = float(text) if text.startswith("7.") else text
        raise ValueError(f"could not use {value} in row {text!r}")
    return fail

def release(spec, release_id, *more):
    sys.argv = ["fabrica", "release", spec, "--release-id", release_id, *more]
    try:
        cli.main()
    except SystemExit as ended:
        print(f"exit {release_id} {ended.code}", flush=True)

folder, mode = sys.argv[1:3]
if mode == "sound":
    release(f"{folder}/good/spec.yaml", "good")
    release(f"{folder}/waiting/spec.yaml", "waiting")
    for name in ["text", "label", "outside", "null", "category", "other", "identifier", "date"]:
        release(f"{folder}/{name}/spec.yaml", name)
    run_suite, clip = tasks.validate.run_suite, tasks.decode.from_scaled
    tasks.validate.run_suite = planted("%(text)s")
    release(f"{folder}/good/spec.yaml", "broken-suite")
    tasks.validate.run_suite = run_suite
    tasks.decode.from_scaled = planted("%(number)s")
    release(f"{folder}/good/spec.yaml", "broken-decode")
else:
    tasks.step.Step.run = lambda self, *a, **k: self.function(*a, **k)  # the error border is gone
    tasks.validate.run_suite = planted("%(convicted)s")
    release(f"{folder}/good/spec.yaml", "no-border")
''' % {"text": TEXT, "number": NUMBER, "convicted": CONVICTED}  # noqa: UP031


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything that the runs may write lies below it."""
    return tmp_path_factory.mktemp("leak")


def _sources(folder: Path) -> None:
    spec = changed(SPEC, "table.columns.note", {"role": "drop"})
    spec = changed(spec, "table.columns.r2c3", {"type": "numeric", "bounds": [0, 16]})
    trained = {"classifier": "pmsvm-adaptive", "epsilon": 4.0, "delta": 1e-5}
    spec = changed(spec, "evaluation.private_classifiers", [trained])
    source = digits().assign(note=TEXT)
    source["r2c3"] = source["r2c3"].astype(float)
    source.loc[[5, 6, 7], "r2c3"] = NUMBER
    write_project(folder / "good", changed(spec, "dataset", "leak-good"), source)
    write_project(folder / "waiting", changed(changed(spec, "dataset", "leak-waiting"), "approval", "required"), source)
    cells = {"text": ("r3c4", TEXT), "label": ("digit", TEXT), "null": ("r3c4", None)}
    for name, (column, value) in cells.items():
        bad = source.astype({column: object})
        bad[column] = [value if row == 3 else cell for row, cell in enumerate(bad[column])]
        text_labels = changed(spec, "table.columns.digit.categories", ["0", "1", "2"])
        write_project(folder / name, changed(text_labels, "dataset", f"leak-{name}"), bad)
    two = {"type": "categorical", "categories": ["a", "b"]}
    notes = {
        "category": two,
        "other": {**two, "other": "z"},
        "identifier": {"type": "identifier"},
        "date": {"type": "date", "bounds": ["2000-01-01", "2020-01-01"]},
    }
    for name, column_of_notes in notes.items():
        declared = changed(spec, "table.columns.note", column_of_notes)
        write_project(folder / name, changed(declared, "dataset", f"leak-{name}"), source)
    outside = changed(changed(spec, "table.outside_bounds", "refuse"), "table.columns.r2c3.bounds", [0, NUMBER - 1])
    write_project(folder / "outside", changed(outside, "dataset", "leak-outside"), source)


def _run(server: PrefectServer, root: Path, mode: str) -> str:
    for name in ["home", "tmp", "user"]:
        (root / name).mkdir(exist_ok=True)
    environment = server.environment | {
        "FABRICA_HOME": str(root / "home"),
        "TMPDIR": str(root / "tmp"),
        "HOME": str(root / "user"),
        "PYTHONWARNINGS": "ignore",
    }
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, str(root / "sources"), mode],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    (root / f"printed-{mode}.txt").write_text(done.stdout + done.stderr)
    return done.stdout + done.stderr


def _files(root: Path, server: PrefectServer) -> Iterator[tuple[Path, bytes]]:
    for folder in [root, server.home]:
        # what is moved from a database's journal to the database meanwhile is seen there
        for path in sorted(folder.rglob("*"), key=lambda path: not path.name.endswith("-wal")):
            if path.is_file() and root / "sources" not in path.parents:
                try:
                    content = path.read_bytes()
                except FileNotFoundError:  # the server's own, which lives
                    continue
                if path.suffix == ".parquet":  # compressed: search what it holds
                    content += pd.read_parquet(io.BytesIO(content)).to_csv().encode()
                yield path, content


def _records_a_failure_of(task: str, server: PrefectServer) -> bool:
    """Whether the server, which writes down what it is told of tasks a while later, has come to such a failure."""
    failed = {"name": {"any_": [task]}, "state": {"type": {"any_": ["FAILED"]}}}
    return comes_true(lambda: server.post("task_runs/filter", {"task_runs": failed})[1])


def _holding(root: Path, server: PrefectServer, patterns: list[bytes]) -> list[str]:
    return [
        f"{path} holds {pattern!r}"
        for path, content in _files(root, server)
        for pattern in patterns
        if pattern in content
    ]


@pytest.fixture(scope="module")
def printed(prefect_server: PrefectServer, root: Path) -> str:
    """What the sound runs printed."""
    _sources(root / "sources")
    return _run(prefect_server, root, "sound")


def test_planted_values_are_found_nowhere(prefect_server: PrefectServer, root: Path, printed: str) -> None:
    expected = {
        "good": 0, "waiting": 6, "text": 3, "label": 3, "outside": 3, "null": 3, "category": 3, "other": 0,
        "identifier": 0, "date": 3, "broken-suite": 1, "broken-decode": 1,
    }  # fmt: skip
    codes = {line.split()[1]: int(line.split()[2]) for line in printed.splitlines() if line.startswith("exit ")}
    assert codes == expected, printed
    assert _records_a_failure_of("Decode", prefect_server)  # the last of all that is told
    searched = [path for path, _ in _files(root, prefect_server)]
    assert any(path.name == "prefect.db" for path in searched)
    assert {
        "audit.json",
        "manifest.json",
        "pmsvm-adaptive.json",
        "part-00000.parquet",
        "ledger.sqlite",
        "noise_added.parquet",
    } <= {path.name for path in searched}
    patterns = [TEXT.encode(), TEXT.encode("utf-16-le"), str(NUMBER).encode()]
    patterns += [struct.pack(order + "d", NUMBER) for order in "<>"]
    assert _holding(root, prefect_server, patterns) == []
    # the search does find what is there: a column's name, in release, report and database alike
    named = _holding(root, prefect_server, [FEATURES[0].encode()])
    assert any("manifest.json" in line for line in named) and any("audit.json" in line for line in named)


def test_the_search_convicts_a_broken_border(prefect_server: PrefectServer, root: Path) -> None:
    _sources(root / "sources")
    _run(prefect_server, root, "broken")
    assert comes_true(
        lambda: any("prefect.db" in line for line in _holding(root, prefect_server, [CONVICTED.encode()]))
    )


@pytest.mark.usefixtures("printed")
def test_staging_and_reports_are_for_their_owner_only(root: Path) -> None:
    for folder in ["data/staging", "reports/leak-good"]:
        assert (root / "home" / folder).stat().st_mode & 0o077 == 0, folder
