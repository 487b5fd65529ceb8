"""The list of all audited releases; internal like the reports it links to."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from schemas.audit import AuditReport
from tasks.reporting.environment import page
from tasks.reporting.words import (
    Verdict,
    attack_verdict,
    guarantee_verdict,
    utility_verdict,
)


@dataclass(frozen=True)
class ReportSummary:
    """What the index shows of one report, so that a caller need not keep whole reports."""

    dataset: str
    release_id: str
    created_at: datetime
    rows: int
    element: Verdict
    record: Verdict
    attack: Verdict
    usefulness: Verdict
    warnings: int

    @classmethod
    def of(cls, report: AuditReport) -> "ReportSummary":
        """The summary of a report."""
        return cls(
            dataset=report.dataset,
            release_id=report.release_id,
            created_at=report.created_at,
            rows=report.rows,
            element=guarantee_verdict(report.guarantee.element, report.uncovered),
            record=guarantee_verdict(report.guarantee.record, report.uncovered),
            attack=attack_verdict(report),
            usefulness=utility_verdict(report),
            warnings=len(report.warnings),
        )

    @property
    def link(self) -> str:
        """Address of the report, relative to the index."""
        return f"{quote(self.dataset, safe='')}/{quote(self.release_id, safe='')}/audit.html"


def reports_index_html(reports: Iterable[AuditReport | ReportSummary]) -> str:
    """A table of all audited releases, by data set and newest first, as one self-contained HTML page.

    Parameters
    ----------
    reports : iterable of AuditReport or ReportSummary
        Each links to `<dataset>/<release_id>/audit.html` beside the page.

    Returns
    -------
    str
    """
    summaries = [r if isinstance(r, ReportSummary) else ReportSummary.of(r) for r in reports]
    summaries.sort(key=lambda s: s.release_id)
    summaries.sort(key=lambda s: s.created_at, reverse=True)
    summaries.sort(key=lambda s: s.dataset)
    return page("index.html", summaries=summaries, datasets=len({s.dataset for s in summaries}))
