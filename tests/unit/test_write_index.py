"""The page of all reports, whatever lies below the reports folder."""

from __future__ import annotations

from pathlib import Path

from schemas.audit import AuditReport
from tasks.ledger import Ledger
from tasks.step import SilentObserver, observed_by
from tasks.write_index import write_index
from tests import factories


def _kept(reports: Path, report: AuditReport, folder: str | None = None) -> Path:
    path = reports / report.dataset / (folder or report.release_id) / "audit.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(report.model_dump_json())
    return path


def test_what_cannot_be_read_is_named_and_stops_nothing(tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    good = factories.audit_report()
    _kept(reports, good)
    _kept(reports, good, folder="renamed")
    (reports / "other" / "folder" / "audit.json").mkdir(parents=True)
    (reports / "other" / "old").mkdir()
    (reports / "other" / "old" / "audit.json").write_text('{"release_id": "old"}')
    page = write_index(reports, Ledger(tmp_path / "none.sqlite")).read_text(encoding="utf-8")
    assert f"{good.dataset}/{good.release_id}/audit.html" in page and "/renamed/audit.html" not in page
    for text in [
        "other/folder",
        "cannot be read",
        "other/old",
        "not an audit report of this version",
        "another release",
    ]:
        assert text in page
    assert str(tmp_path) not in page


class _Notes(SilentObserver):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def noted(self, text: str) -> None:
        self.texts.append(text)


def test_a_page_that_cannot_be_written_is_noted(tmp_path: Path) -> None:
    """What was published stays so."""
    (tmp_path / "reports" / "index.html").mkdir(parents=True)
    notes = _Notes()
    with observed_by(notes):
        write_index(tmp_path / "reports", Ledger(tmp_path / "none.sqlite"))
    assert len(notes.texts) == 1 and "was not written" in notes.texts[0]
