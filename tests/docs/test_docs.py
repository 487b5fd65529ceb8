"""What the documents say is true: commands exist, schemas are the models', every dependency has its line."""

import json
import re
import shlex
import tomllib
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
import typer

from flows.cli import app
from schemas.export import FOLDER, PUBLISHED, json_schema
from tests.benchmarks.bench_classifiers import Line, accuracy_rows
from tests.conftest import Outcome
from tests.projects import PROJECT, write_project

README = (PROJECT / "README.md").read_text(encoding="utf-8")


def _commands() -> dict[str, str | None]:
    found: dict[str, str | None] = {}

    def walk(command: object, name: str) -> None:
        for sub_name, sub in getattr(command, "commands", {}).items():
            walk(sub, f"{name} {sub_name}")
        if not getattr(command, "commands", None):
            found[name] = getattr(command, "help", None)

    walk(typer.main.get_command(app), "fabrica")
    return found


def test_every_command_has_help_and_a_place_in_the_readme() -> None:
    commands = _commands()
    assert len(commands) >= 7
    for name, text in commands.items():
        assert text and len(text) > 20, name
        assert f"`{name}" in README or f"\n    {name}" in README or f"\n{name}" in README, name


def _shell_lines() -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", README, flags=re.S)
    return [line.strip() for block in blocks for line in block.splitlines() if line.strip()]


def test_readme_shows_commands_that_exist() -> None:
    lines = _shell_lines()
    assert lines
    targets = set(re.findall(r"^([a-z]+):", (PROJECT / "Makefile").read_text(), flags=re.M))
    commands = _commands()
    for line in lines:
        words = shlex.split(line, comments=True)
        if words[0] == "make":
            assert words[1] in targets, line
        elif words[0].endswith("fabrica"):
            assert any(
                line_name == " ".join(["fabrica", *words[1:depth]]) for depth in (2, 3) for line_name in commands
            ), line
        else:
            assert words[0] in {"export", "PREFECT_SERVER_ANALYTICS_ENABLED=false"}, line


def test_accuracies_in_the_documents_are_those_that_were_measured() -> None:
    """All of them in the classifiers' README, some in the project's."""
    measured = json.loads((PROJECT / "tests" / "benchmarks" / "results" / "classifiers.json").read_text())
    lines = [Line(**case) for case in measured["cases"]]
    rows = {table: accuracy_rows(table, lines, share) for table, share in measured["majority"].items()}
    own = (PROJECT / "tasks" / "classifiers" / "README.md").read_text(encoding="utf-8")
    assert _accuracy_table(own) == [row for table in rows.values() for row in table]
    shown = _accuracy_table(README)
    assert len(shown) >= 9 * len(rows) and not set(shown) - {row for table in rows.values() for row in table}
    assert [row.split("|")[1].split()[0] for row in shown if row.split("|")[1].strip()] == list(rows)
    for table, found in measured["targets"].items():
        assert found["within_tolerance"] and found["twice_diffprivlib"], table


def _accuracy_table(text: str) -> list[str]:
    """The rows below the header and its rule."""
    return text[text.index("| table (largest class) |") :].split("\n\n")[0].strip().split("\n")[2:]


def test_files_named_in_the_documents_exist() -> None:
    for document in PROJECT.rglob("*.md"):
        if ".venv" in document.parts:
            continue
        for link in re.findall(r"\]\(([^)#:]+)\)", document.read_text(encoding="utf-8")):
            assert (document.parent / link).exists(), f"{document.relative_to(PROJECT)} links to {link}"


def test_every_dependency_is_justified() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(d for extra in project["optional-dependencies"].values() for d in extra)]
    for requirement in wanted:
        name = re.split(r"[>\[<=]", requirement)[0]
        assert re.search(rf"^\|.*\b{re.escape(name)}\b.*\|.*\|", README, flags=re.M), name


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_json_schemas_are_the_models(name: str) -> None:
    assert (FOLDER / f"{name}.schema.json").read_text(encoding="utf-8") == json_schema(name), (
        "run `python -m schemas.export`"
    )


def test_written_files_fit_their_published_schemas(fabrica: Callable[..., Outcome], home: Path, tmp_path: Path) -> None:
    assert fabrica("release", write_project(tmp_path / "p"), "--release-id", "a").exit_code == 0
    manifest = json.loads((home / "data" / "releases" / "small-digits" / "a" / "manifest.json").read_text())
    audit = json.loads((home / "reports" / "small-digits" / "a" / "audit.json").read_text())
    for name, content in [("manifest", manifest), ("audit", audit), ("spec", manifest["spec"])]:
        schema = json.loads((FOLDER / f"{name}.schema.json").read_text())
        jsonschema.Draft202012Validator.check_schema(schema)
        jsonschema.validate(content, schema)
        broken = dict(content, unheard_of=1)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(broken, schema)


def test_sample_specs_plan(fabrica: Callable[..., Outcome]) -> None:
    for spec in (PROJECT / "data" / "specs" / name for name in ("digits.yaml", "digits-element.yaml")):
        assert fabrica("plan", spec).exit_code == 0, spec


def test_specs_in_the_readme_are_valid(fabrica: Callable[..., Outcome], tmp_path: Path) -> None:
    examples = re.findall(r"```yaml\n(.*?)```", README, flags=re.S)
    assert examples
    for example in examples:
        (tmp_path / "example.yaml").write_text(example)
        outcome = fabrica("plan", tmp_path / "example.yaml")
        assert outcome.exit_code == 0 and "will be refused" not in outcome.out, outcome


def test_every_sample_has_source_and_licence() -> None:
    text = (PROJECT / "data" / "samples" / "README.md").read_text(encoding="utf-8")
    for sample in (PROJECT / "data" / "samples").iterdir():
        if sample.suffix != ".md":
            row = next(line for line in text.splitlines() if f"`{sample.name}`" in line)
            assert "CC BY" in row or "licen" in row.lower()
