"""The summary that a run leaves in the orchestrator's pages."""

from pathlib import Path

from flows.artifacts import numbers, summary
from schemas.release import Candidate
from tests import factories


def test_a_candidate_waits_and_names_are_no_markup() -> None:
    manifest = factories.manifest()
    hostile = "public column a`\n\n# Big <img src=x> [x](javascript:y) is released as it is"
    manifest = manifest.model_copy(update={"uncovered": [hostile]})
    candidate = Candidate(
        release_id="a",
        dataset="d",
        digest="0" * 64,
        guarantee=manifest.guarantee,
        uncovered=[hostile],
        report=Path("/reports/audit.html"),
        needs_approval=True,
    )
    text = summary(candidate, manifest, Path("/release"))
    assert "waits for publication" in text and "Big img src=x x (javascript:y)" in " ".join(text.split())
    assert "\n# Big" not in text and "<img" not in text and "](javascript" not in text


def test_what_has_no_number_says_why() -> None:
    manifest = factories.manifest()
    mechanism = manifest.mechanism.model_copy(update={"expected_magnitude": None, "expected_unperturbed_cells": None})
    rows = {row["number"]: row["value"] for row in numbers(manifest.model_copy(update={"mechanism": mechanism}))}
    assert [value for value in rows.values() if value.startswith("not computed")] == [
        "not computed (no cell has noise of its own)"
    ] * 2
