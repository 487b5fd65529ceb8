"""Write the page of all audit reports and sweeps; internal, as they are."""

from pathlib import Path

from schemas.errors import IntegrityFailed
from schemas.measures import NotComputed
from tasks.files import write_whole
from tasks.ledger import Ledger
from tasks.step import noted
from tasks.sweep import sweeps_below
from tasks.write_report import read_report


def write_index(reports: Path, ledger: Ledger) -> Path:
    """Render `index.html` of all audit reports below `reports`, with the budgets that the ledger tells.

    A report or a ledger that cannot be read is another release's trouble: the page says so.
    """
    from tasks.ledger.history import BudgetHistory, budget_histories
    from tasks.reporting.index_page import ReportSummary, reports_index_html

    summaries: list[ReportSummary] = []
    left_out: list[tuple[str, str]] = []
    for path in sorted(reports.glob("*/*/audit.json")):
        try:
            report = read_report(path.parent)
            if (report.dataset, report.release_id) != (path.parent.parent.name, path.parent.name):
                raise IntegrityFailed(f"{path}: is of another release than its folder says")
            summaries.append(ReportSummary.of(report))
        except IntegrityFailed as error:
            noted(f"left out of the index: {error}")
            _, _, reason = str(error).partition(": ")  # what stands before it is the path
            left_out.append((f"{path.parent.parent.name}/{path.parent.name}", reason))
    histories: list[BudgetHistory] | NotComputed
    try:
        histories = budget_histories(ledger.entries())
    except IntegrityFailed as error:
        histories = NotComputed(what="the budget over time", reason=str(error))
    page = reports_index_html(summaries, histories, left_out, sweeps_below(reports))
    path = reports / "index.html"
    try:
        write_whole(path, page.encode())
        path.chmod(0o600)
    except OSError as error:  # the page can be made again; what was published stays so
        noted(f"{path}: was not written ({error.strerror}); run `fabrica report RELEASE_DIR` when it can be")
    return path
