"""The list of all audited releases: to search, to sort, to compare, with what was spent; internal like the reports."""

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from markupsafe import Markup

from schemas.audit import AuditReport
from schemas.measures import NotComputed
from schemas.sweep import Sweep
from tasks.reporting.environment import page
from tasks.reporting.index_facts import Fact, attack_missing, facts, reason, risk_missing
from tasks.reporting.index_figures import MOST_FIGURES, budget_views, utc
from tasks.reporting.names import CLASSIFIERS, attack_name, risk_name
from tasks.reporting.numbers import NBSP, count
from tasks.reporting.verdicts import (
    ATTACK_RULE,
    RISK_RULE,
    UTILITY_RULE,
    Tone,
    Verdict,
    attack_verdict,
    attacks_on_release,
    best_result,
    risk_verdict,
    risks_on,
    utility_verdict,
)
from tasks.reporting.words import GRADE_RULE, guarantee_verdict

if TYPE_CHECKING:
    from tasks.ledger.history import BudgetHistory

NO_LEDGER = NotComputed(what="the budget over time", reason="no ledger was at hand when this page was written")


@dataclass(frozen=True, slots=True)
class Cell:
    """A result in the table: a word, its number, and what it is sorted by."""

    word: str
    tone: Tone
    number: str
    note: str = ""
    key: float | None = None
    """`None` where there is no number; sorted last."""

    @classmethod
    def of(cls, verdict: Verdict, key: float | None, note: str = "") -> "Cell":
        """A verdict and the number that it is about."""
        number = verdict.number.replace(" = ", f"{NBSP}={NBSP}")
        return cls(verdict.word, verdict.tone, number, note, key)


@dataclass(frozen=True)
class ReportSummary:
    """What the index shows of one report, so that a caller need not keep whole reports."""

    dataset: str
    release_id: str
    created_at: datetime
    rows: int
    element: Cell
    record: Cell
    attack: Cell
    risk: Cell
    usefulness: Cell
    warnings: int
    facts: dict[tuple[str, str], Fact]

    @classmethod
    def of(cls, report: AuditReport) -> "ReportSummary":
        """The summary of a report."""
        cell, row = report.guarantee.element, report.guarantee.record
        return cls(
            dataset=report.dataset,
            release_id=report.release_id,
            created_at=report.created_at,
            rows=report.rows,
            element=Cell.of(guarantee_verdict(cell, report.uncovered), cell.epsilon),
            record=Cell.of(guarantee_verdict(row, report.uncovered), row.epsilon),
            attack=_attack(report),
            risk=_risk(report),
            usefulness=_usefulness(report),
            warnings=len(report.warnings),
            facts=facts(report),
        )

    @property
    def name(self) -> str:
        """Data set and release."""
        return f"{self.dataset} / {self.release_id}"

    @property
    def link(self) -> str:
        """Address of the report, relative to the index."""
        return f"{quote(self.dataset, safe='')}/{quote(self.release_id, safe='')}/audit.html"

    @property
    def made(self) -> str:
        """When the report was made, in UTC, to the minute."""
        return utc(self.created_at).strftime("%Y-%m-%d %H:%M")


def _attack(report: AuditReport) -> Cell:
    found = attacks_on_release(report)
    if not found:
        return Cell("not computed", "unknown", attack_missing(report, "fabricated"))
    return Cell.of(attack_verdict(report), found[0].auc.estimate, attack_name(found[0]))


def _risk(report: AuditReport) -> Cell:
    found = risks_on(report, "fabricated")
    if not found:
        return Cell("not computed", "unknown", risk_missing(report))
    return Cell.of(risk_verdict(report), found[0].risk_beyond_controls.estimate, risk_name(found[0]))


def _usefulness(report: AuditReport) -> Cell:
    best = best_result(report.classifiers.results, "fabricated")
    if best is None:
        why = reason(report.classifiers.not_computed, ("fabricated",), "no classifier was trained on fabricated data")
        return Cell("not computed", "unknown", why)
    return Cell.of(utility_verdict(report), best.accuracy.estimate, CLASSIFIERS[best.name])


def reports_index_html(
    reports: Iterable[AuditReport | ReportSummary],
    histories: "Sequence[BudgetHistory] | NotComputed" = NO_LEDGER,
    left_out: Iterable[tuple[str, str]] = (),
    sweeps: Iterable[Sweep] = (),
) -> str:
    """All audited releases, by data set and newest first, with the budgets, as one self-contained HTML page.

    The page holds everything without JavaScript; with it, the table can be searched and sorted, and two releases can
    be compared.

    Parameters
    ----------
    reports : iterable of AuditReport or ReportSummary
        Each links to `<dataset>/<release_id>/audit.html` beside the page.
    histories : sequence of BudgetHistory, or NotComputed
        Budgets over time, from `tasks.ledger.history.budget_histories`, or why there are none.
    left_out : iterable of (str, str)
        Reports that could not be read, by name, each with its reason.
    sweeps : iterable of Sweep
        Each links to `<dataset>/<sweep_id>/sweep.html`.

    Returns
    -------
    str
        The same bytes for the same arguments.
    """
    summaries = [r if isinstance(r, ReportSummary) else ReportSummary.of(r) for r in reports]
    summaries.sort(key=lambda s: s.release_id)
    summaries.sort(key=lambda s: utc(s.created_at), reverse=True)
    summaries.sort(key=lambda s: s.dataset)
    script = (Path(__file__).parent / "templates" / "index.js").read_text(encoding="utf-8")
    unknown = isinstance(histories, NotComputed)
    views = [] if isinstance(histories, NotComputed) else budget_views(histories)
    datasets = {s.dataset for s in summaries}
    return page(
        "index.html",
        summaries=summaries,
        datasets=len(datasets),
        newest=max(summaries, key=lambda s: utc(s.created_at)) if summaries else None,
        columns=_COLUMNS,
        rows=map(_row, summaries),
        budgets=views,
        drawn=sum(view.figure.svg is not None for view in views),
        most_figures=MOST_FIGURES,
        budget_missing=f"{histories.what}: {histories.reason}" if isinstance(histories, NotComputed) else "",
        not_in_ledger=[] if unknown else sorted(datasets - {view.dataset for view in views}),
        left_out=sorted(left_out),
        sweeps=sorted(sweeps, key=lambda s: (utc(s.created_at), s.sweep_id), reverse=True),
        rules=[GRADE_RULE, ATTACK_RULE, RISK_RULE, UTILITY_RULE],
        data=_data(summaries),
        script=Markup(script),
        script_digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


_COLUMNS: list[tuple[str, Literal["text", "number"]]] = [
    ("Release", "text"),
    ("Made (UTC)", "text"),
    ("Rows", "number"),
    ("One cell", "number"),
    ("One whole row", "number"),
    ("Membership attack", "number"),
    ("Privacy risk", "number"),
    ("Usefulness", "number"),
    ("Warnings", "number"),
]
"""Headings of the table, and how each column is sorted."""


def _row(summary: ReportSummary) -> dict[str, Any]:
    cells = [summary.element, summary.record, summary.attack, summary.risk, summary.usefulness]
    return {
        "name": summary.name,
        "dataset": summary.dataset,
        "release_id": summary.release_id,
        "link": summary.link,
        "made": summary.made,
        "rows": count(summary.rows),
        "rows_key": summary.rows,
        "cells": [
            (label, cell, "" if cell.key is None else repr(cell.key))
            for (label, _), cell in zip(_COLUMNS[3:8], cells, strict=True)
        ],
        "warnings": count(summary.warnings),
        "warnings_key": summary.warnings,
    }


def _data(summaries: Sequence[ReportSummary]) -> Markup:
    """The facts of all releases as JSON that may stand in a script element, equal facts written once.

    No `<`, `>` or `&` is left in it, so nothing in it can end the element.
    """
    names = list(summaries[0].facts) if summaries else []
    pool: dict[Fact, int] = {}
    releases = [[s.name, s.made, [pool.setdefault(s.facts[name], len(pool)) for name in names]] for s in summaries]
    every = [[f.text, f.note, f.value, f.lower, f.upper, f.items, f.missing] for f in pool]
    text = json.dumps({"names": names, "facts": every, "releases": releases}, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)
