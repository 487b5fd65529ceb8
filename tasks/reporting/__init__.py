"""Pages for people, rendered from the models in `schemas/` and nothing else.

`audit_html` and `reports_index_html` are internal, `release_card_html` may be published. Each page is one file that
loads nothing and needs no JavaScript, and the same model always gives the same bytes.
"""

from tasks.reporting.audit_page import audit_html
from tasks.reporting.card_page import release_card_html
from tasks.reporting.index_page import ReportSummary, reports_index_html

__all__ = ["ReportSummary", "audit_html", "release_card_html", "reports_index_html"]
