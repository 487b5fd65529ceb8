"""Write the page of all audit reports; internal, as they are."""

from pathlib import Path

from schemas.errors import IntegrityFailed
from schemas.measures import NotComputed
from tasks.files import write_whole
from tasks.ledger import Ledger
from tasks.step import noted
from tasks.write_report import read_report


def write_index(reports: Path, ledger: Ledger) -> Path:
    """Render `index.html` of all audit reports below `reports`, with the budgets that the ledger tells.

    A report or a ledger that cannot be read is another release's trouble: the page says so.
    """
    from tasks.ledger.history import budget_histories
    from tasks.reporting.index_page import ReportSummary, reports_index_html

    summaries: list[ReportSummary] = []
    left_out: list[tuple[str, str]] = []
    for path in sorted(reports.glob("*/*/audit.json")):
        try:
            summaries.append(ReportSummary.of(read_report(path.parent)))
        except IntegrityFailed as error:
            noted(f"left out of the index: {error}")
            _, _, reason = str(error).partition(": ")  # what stands before it is the path
            left_out.append((f"{path.parent.parent.name}/{path.parent.name}", reason))
    try:
        histories = budget_histories(ledger.entries())
    except IntegrityFailed as error:
        page = reports_index_html(summaries, NotComputed(what="the budget over time", reason=str(error)), left_out)
    else:
        page = reports_index_html(summaries, histories, left_out)
    path = reports / "index.html"
    write_whole(path, page.encode())
    path.chmod(0o600)
    return path
