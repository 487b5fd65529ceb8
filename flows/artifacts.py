"""What a flow run shows of a release in the orchestrator's pages: a summary with links, and a table of numbers.

Artifacts lie in the server's database, which others may read. So they hold only what the manifest states, which is
released or public; what was measured on confidential rows stays in the report, to which the summary leads.
"""

import re
from pathlib import Path

from prefect import get_run_logger
from prefect.artifacts import create_markdown_artifact, create_table_artifact

from schemas.guarantee import Guarantee
from schemas.manifest import Manifest
from schemas.release import Candidate, Publication

_MARKS = re.compile(r"[\x00-\x1f`*_<>\[\]\\#|!]+")


def show(result: Candidate | Publication) -> None:
    """Attach summary and table to the current flow run.

    A server that does not take them is no reason to fail a release that is charged and staged, or published.
    """
    folder = result.release if isinstance(result, Publication) else result.report.parent.parent / "release"
    try:
        manifest = Manifest.model_validate_json((folder / "manifest.json").read_bytes())
        key = f"fabrica-{result.dataset}"
        create_markdown_artifact(summary(result, manifest, folder), key=key, description="What was released")
        create_table_artifact(numbers(manifest), key=f"{key}-numbers", description="What the manifest states")
    except Exception as error:
        get_run_logger().warning(f"the run's artifacts were not written ({type(error).__name__})")


def summary(result: Candidate | Publication, manifest: Manifest, folder: Path) -> str:
    """A few lines in Markdown."""
    published = isinstance(result, Publication)
    lines = [
        f"# {result.dataset} / {result.release_id}",
        "Published." if published else "Staged; waits for publication.",
        f"- {_plain(manifest.guarantee.element.sentence())}",
        f"- {_plain(manifest.guarantee.record.sentence())}",
        *(f"- **Not covered by the guarantee:** {_plain(what)}" for what in manifest.uncovered),
        f"- digest `{result.digest}`",
        "",
        "| what | where |",
        "| --- | --- |",
        f"| release | {_link(folder)} |",
        f"| card, public | {_link(folder / 'card.html')} |",
        f"| audit, **internal** | {_link(result.report)} |",
    ]
    return "\n".join(lines)


def _plain(text: str) -> str:
    """Text without marks: a public column's name may hold any."""
    return _MARKS.sub(" ", text)


def _link(path: Path) -> str:
    return f"[`{path.name}`]({path.absolute().as_uri()})"


def numbers(manifest: Manifest) -> list[dict[str, str]]:
    """The manifest's headline numbers, a row each."""
    mechanism, fabrication = manifest.mechanism, manifest.fabrication
    size, passed_over = mechanism.expected_magnitude, mechanism.expected_unperturbed_cells
    rows = [
        ("epsilon, one cell", _number(manifest.guarantee.element)),
        ("epsilon, one whole row", _number(manifest.guarantee.record)),
        *([("epsilon, one whole row, data alone", _number(manifest.data_guarantee.record)),
           ("private classifiers released", ", ".join(own.name for own in manifest.classifiers))]
          if manifest.data_guarantee is not None else []),
        ("mechanism", mechanism.name),
        ("noise on a cell, of its column's range", "not computed (no cell has noise of its own)" if size is None
         else f"{size:.3g}"),
        ("cells expected to get no noise", "not computed (no cell has noise of its own)" if passed_over is None
         else f"{passed_over:.3g}"),
        ("rows", f"{manifest.rows:,}"),
        ("columns", f"{len(manifest.columns):,}"),
        ("shards", f"{fabrication.shards:,}"),
        ("randomness", manifest.randomness),
    ]  # fmt: skip
    return [{"number": name, "value": value} for name, value in rows]


def _number(guarantee: Guarantee) -> str:
    return f"{guarantee.epsilon:.4g} (delta {guarantee.delta:.3g})"
