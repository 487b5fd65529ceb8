"""Pages say what the models hold: escaped, complete, reproducible, and with no number where there is none."""

import math
import re
import sys
from dataclasses import replace
from datetime import datetime
from html.parser import HTMLParser
from subprocess import run
from typing import Any

import pytest

from schemas.audit import (
    AuditReport,
    ClassifierComparison,
    Density,
    Interval,
    MembershipInference,
    Utility,
    ValidationCheck,
    ValidationOutcome,
)
from schemas.manifest import ReleasedColumn
from tasks.audit import membership_attack
from tasks.reporting import ReportSummary, audit_html, release_card_html, reports_index_html
from tasks.reporting import numbers as n
from tasks.reporting.environment import page
from tasks.reporting.figures import overlap, short_name
from tasks.reporting.words import attack_verdict, guarantee_verdict, guess_bound, stop_rule, utility_verdict
from tests import factories

HOSTILE = [
    "<script>alert(1)</script>",
    "a\"b' &amp; $x_1^2$ \\frac{1}{2} %s {{ 7*7 }}",
    "列の名前 🎉 עברית",
    "x" * 500,
    "two\nlines\x00\x07\x9f",
    "",
    'id="x" clip-path="url(#y)" href="#z"',
    "</text></svg><img src=x onerror=alert(1)>",
    "$unbalanced",
]


class Page(HTMLParser):
    """Tags, ids, text and loads of a page."""

    void = frozenset({"meta", "link", "br", "img", "input", "hr"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(html)
        self.close()
        assert not self.open, self.open
        self.text = " ".join(" ".join(self.texts).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for key, value in attrs:
            assert not key.startswith("on")
            if key == "id":
                self.ids.append(value or "")
            if key in ("href", "src", "srcset", "action", "data"):
                self.links.append(value or "")
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.void:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.texts.append(data)


def hostile_report() -> AuditReport:
    return factories.audit_report(
        utility=Utility(
            columns=[factories.column(name, 0.1 * i) for i, name in enumerate(HOSTILE)],
            correlation_difference=0.1,
            correlation_pairs=36,
        ),
        warnings=HOSTILE[:4],
        uncovered=HOSTILE[:2],
        validation=ValidationOutcome(
            rows=9,
            checks=[
                ValidationCheck(expectation=e, column=e, success=False, element_count=9, unexpected_count=1)
                for e in HOSTILE
            ],
            clipped=dict.fromkeys(HOSTILE, 1),
        ),
    )


def pages() -> dict[str, str]:
    return {
        "audit": audit_html(factories.audit_report()),
        "hostile": audit_html(hostile_report()),
        "card": release_card_html(factories.manifest()),
        "index": reports_index_html([factories.audit_report(), hostile_report()]),
        "empty index": reports_index_html([]),
    }


@pytest.fixture(scope="module", name="rendered")
def _rendered() -> dict[str, str]:
    return pages()


def test_pages_load_nothing_and_run_nothing(rendered: dict[str, str]) -> None:
    for html in rendered.values():
        parsed = Page(html)
        assert not {"script", "iframe", "img", "object", "embed", "form", "video"} & set(parsed.tags)
        assert "@import" not in html and not re.search(r"url\((?!#)", html)
        assert all(
            link.startswith(("#", "data:,")) or re.fullmatch(r"[\w-]+/[\w-]+/audit\.html", link)
            for link in parsed.links
        )
        assert "://" not in re.sub(r"<(td|code|th)[^>]*>.*?</\1>", "", html)


def test_ids_are_unique_and_links_inside_the_page_have_a_target(rendered: dict[str, str]) -> None:
    for html in rendered.values():
        parsed = Page(html)
        assert len(parsed.ids) == len(set(parsed.ids))
        assert {link[1:] for link in parsed.links if link.startswith("#")} <= set(parsed.ids)
        assert set(
            re.findall(
                r"url\(#([^)]+)\)", re.sub(r"(?s)<(text|th|td|li|figcaption|title|desc|bdi)\b.*?</\1>", "", html)
            )
        ) <= set(parsed.ids)


def test_same_report_same_bytes_in_another_process(rendered: dict[str, str]) -> None:
    assert pages() == rendered
    script = (
        "import sys; from schemas.audit import AuditReport; from tasks.reporting import audit_html;"
        "sys.stdout.buffer.write(audit_html(AuditReport.model_validate_json(sys.stdin.buffer.read())).encode())"
    )
    written = factories.audit_report().model_dump_json().encode()
    other = run([sys.executable, "-c", script], input=written, capture_output=True, check=True)
    assert other.stdout.decode() == rendered["audit"]


def test_a_report_from_its_json_gives_the_same_page(rendered: dict[str, str]) -> None:
    again = AuditReport.model_validate_json(factories.audit_report().model_dump_json(indent=2))
    assert audit_html(again) == rendered["audit"]


def test_rendering_leaves_no_global_figure_and_no_setting_behind() -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    audit_html(factories.audit_report())
    assert dict(matplotlib.rcParams) == before
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()


def test_importing_the_package_is_cheap() -> None:
    code = "import sys, tasks.reporting; print([m for m in ('matplotlib', 'prefect', 'pandas') if m in sys.modules])"
    assert run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_hostile_names_are_text(rendered: dict[str, str]) -> None:
    html = rendered["hostile"]
    assert "<script" not in html and "<img" not in html and "\x00" not in html
    text = Page(html).text
    assert "<script>alert(1)</script>" in text
    assert "$x_1^2$ \\frac{1}{2} %s {{ 7*7 }}" in text
    assert "列の名前 🎉 עברית" in text
    assert 'id="x" clip-path="url(#y)" href="#z"' in text
    assert "$unbalanced" in text


def test_card_escapes_names_and_categories() -> None:
    html = release_card_html(
        factories.manifest(
            columns=[
                ReleasedColumn(name=HOSTILE[0], type="numeric", role="feature", bounds=(0, 1)),
                ReleasedColumn(name="y", type="categorical", role="label", categories=[HOSTILE[7], HOSTILE[1]]),
            ]
        )
    )
    assert "<script" not in html and "<img" not in html
    assert HOSTILE[7] in Page(html).text


def test_first_part_holds_warning_guarantee_and_headlines(rendered: dict[str, str]) -> None:
    text = Page(rendered["audit"]).text
    start = text[: text.index("What was measured, in short")]
    assert "INTERNAL." in start and "confidential rows" in start
    report = factories.audit_report()
    for guarantee in (report.guarantee.element, report.guarantee.record):
        assert guarantee.sentence()[1:] in start
    for expected in (
        "No practical guarantee",
        "Labels are public",
        "number of rows is public: 1,258",
        "0.38",
        "2 warnings",
    ):
        assert expected in start
    assert "real 0.97, noise-added 0.54, fabricated 0.50" in start
    assert "must not be compared across data sets" in text
    assert "Not for publication" not in text


def test_uncovered_and_seeded_releases_say_so() -> None:
    report = factories.audit_report()
    seeded = report.reproduction.model_copy(update={"randomness": "seeded (not private)"})
    text = Page(audit_html(factories.audit_report(uncovered=["the stop rule"], reproduction=seeded))).text
    assert "Outside the guarantee" in text and "the stop rule" in text and "Not private" in text
    text = Page(
        release_card_html(factories.manifest(uncovered=["the stop rule"], randomness="seeded (not private)"))
    ).text
    assert "Outside the guarantee" in text and "the stop rule" in text and "Not private" in text
    assert "Outside the guarantee" not in Page(audit_html(report)).text


def test_card_holds_nothing_internal(rendered: dict[str, str]) -> None:
    text = Page(rendered["card"]).text
    assert "INTERNAL" not in text
    assert "attack" not in text.lower() and "accuracy" not in text.lower()
    assert factories.HEX in text and "data/part-00000.parquet" in text and "0.5 to 120" in text and "0, 1, 2" in text


def test_missing_values_are_not_computed_and_never_zero() -> None:
    text = Page(
        audit_html(
            factories.audit_report(
                utility=Utility(columns=[], correlation_difference=None, correlation_pairs=0),
                membership_inference=MembershipInference(members=5, controls=3, attacks=[]),
                classifiers=ClassifierComparison(train_rows=5, test_rows=3, majority_accuracy=0.5, results=[]),
                mechanism=factories.mechanism(expected_unperturbed_cells=None),
                fabrication=factories.fabrication(steps=[], first_errors=[], shards=0),
                validation=ValidationOutcome(rows=8, checks=[], clipped={}),
                step_times=[],
                warnings=[],
            )
        )
    ).text
    for reason in (
        "no attack was run",
        "no ROC curve",
        "no classifier was evaluated",
        "fewer than two columns vary in both tables",
        "no feature whose values have an order",
        "not computed, the rows were not known",
        "no shard was smoothed",
        "no expectation was checked",
        "no step was timed",
        "No attack on fabricated data was run",
        "No classifier was trained on fabricated data",
        "The run gave no warnings",
    ):
        assert reason in text, reason
    assert "None" not in text and "nan" not in text.lower().split()


def test_an_attack_without_curves_or_width() -> None:
    attack = membership_attack([1.0] * 4, [1.0] * 3, "fabricated").model_copy(
        update={
            "roc_false_positive_rate": [],
            "roc_true_positive_rate": [],
            "density": Density(grid=[], members=[], controls=[]),
        }
    )
    assert overlap(attack) is None
    text = Page(
        audit_html(
            factories.audit_report(membership_inference=MembershipInference(members=4, controls=3, attacks=[attack]))
        )
    ).text
    assert "width, ridge: not computed, all distances are equal" in text
    assert "the report holds no densities" in text and "not computed (no curve)" in text


def test_templates_refuse_a_missing_value() -> None:
    summary = replace(ReportSummary.of(factories.audit_report()), created_at=WithoutTime())
    with pytest.raises(TypeError, match="not computed"):
        page("index.html", summaries=[summary], datasets=1)


class WithoutTime(datetime):
    """A time that cannot be said."""

    def __new__(cls) -> "WithoutTime":
        return super().__new__(cls, 2026, 1, 1)

    def strftime(self, format: str) -> Any:
        return None


@pytest.mark.parametrize("count", [1, 2, 40, 41, 500])
def test_any_number_of_columns(count: int) -> None:
    html = audit_html(
        factories.audit_report(
            utility=Utility(columns=factories.columns(count), correlation_difference=None, correlation_pairs=0)
        )
    )
    rows = html[html.index("Columns in numbers") : html.index('id="noise"')]
    assert rows.count("<bdi>pixel_") == count
    assert len(html) < 3_000_000


@pytest.mark.parametrize("magnitude", [0.0, 1e-9, 0.125, 7.5, 1e6])
def test_any_size_of_noise(magnitude: float) -> None:
    report = factories.audit_report(mechanism=factories.mechanism(expected_magnitude=magnitude))
    assert f"moved a cell by {n.significant(100 * magnitude)}{n.NBSP}%" in audit_html(report)


def test_every_figure_has_a_text_alternative_and_a_reading(rendered: dict[str, str]) -> None:
    html = rendered["audit"]
    figures = re.findall(r"(?s)<figure>.*?</figure>", html)
    assert len(figures) == 7
    for figure in figures:
        name = re.search(r'aria-labelledby="([\w-]+)-title \1-desc"', figure)
        assert name and f'<title id="{name[1]}-title">' in figure and 'role="img"' in figure
        reading = re.search(r"<figcaption>(.+?)</figcaption>", figure, re.S)
        assert reading and reading[1].endswith(".") and re.search(r"\d", reading[1])
        assert reading[1].split("&")[0] in figure.split("</desc>")[0]


def test_expectations_that_found_nothing_share_a_row() -> None:
    def check(column: str | None, success: bool, unexpected: int | None) -> ValidationCheck:
        return ValidationCheck(
            expectation="expect_in_range", column=column, success=success, element_count=10, unexpected_count=unexpected
        )

    checks = [check("a", True, 0), check("b", True, 0), check("clipped", True, 3), check("broken", False, 4)]
    validation = ValidationOutcome(rows=10, checks=checks, clipped={})
    text = Page(audit_html(factories.audit_report(validation=validation))).text
    one_by_one = "expect in range clipped met 10 3 expect in range broken not met 10 4"
    assert f"{one_by_one} expect in range 2 columns met 20 0" in text
    assert "No value was clipped" in text


# --- words --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "delta", "word"),
    [
        (0.5, 0, "Strong"),
        (1, 1e-5, "Strong"),
        (3, 1e-5, "Moderate"),
        (10, 1e-5, "Weak"),
        (10.1, 1e-5, "Very weak"),
        (20, 1e-5, "Very weak"),
        (64, 1e-5, "No practical guarantee"),
        (1e6, 0, "No practical guarantee"),
        (0.1, 0.1, "No practical guarantee"),
        (0.1, 1, "No guarantee"),
        (0.1, 3, "No guarantee"),
    ],
)
@pytest.mark.parametrize("unit", ["element", "record"])
def test_guarantees_in_words(unit: str, epsilon: float, delta: float, word: str) -> None:
    verdict = guarantee_verdict(factories.guarantee(unit, epsilon, delta), [])
    assert verdict.word == word
    assert ("row" in verdict.meaning) == (unit == "record")


def test_guess_bound_by_hand() -> None:
    assert guess_bound(factories.guarantee(epsilon=math.log(3), delta=0)) == pytest.approx(0.75)
    assert guess_bound(factories.guarantee(epsilon=math.log(3), delta=0.5)) == pytest.approx(0.875)
    assert guess_bound(factories.guarantee(epsilon=1e9, delta=0)) == 1
    assert (
        "73.2\N{NO-BREAK SPACE}%" in guarantee_verdict(factories.guarantee(epsilon=1), []).meaning
    )  # e / (e + 1) = 0.7311
    assert "no further apart than 0.25" in guarantee_verdict(factories.guarantee(epsilon=1, distance=0.25), []).meaning


def interval(estimate: float, lower: float, upper: float) -> Interval:
    return Interval(estimate=estimate, lower=lower, upper=upper, confidence=0.95, method="test")


@pytest.mark.parametrize(
    ("auc", "word"),
    [
        ((0.5, 0.47, 0.53), "No advantage found"),
        ((0.55, 0.45, 0.65), "Not conclusive"),
        ((0.55, 0.51, 0.59), "Slight advantage"),
        ((0.6, 0.55, 0.65), "Clear advantage"),
        ((0.3, 0.2, 0.4), "No advantage found"),
    ],
)
def test_attack_in_words(auc: tuple[float, float, float], word: str) -> None:
    attack = factories.attacks()[2].model_copy(update={"auc": interval(*auc)})
    inference = MembershipInference(members=9, controls=9, attacks=[attack])
    assert attack_verdict(factories.audit_report(membership_inference=inference)).word == word


@pytest.mark.parametrize(
    ("fabricated", "real", "majority", "word"),
    [
        ((0.94, 0.92, 0.96), (0.98, 0.97, 0.99), 0.1, "Close to real"),
        ((0.6, 0.55, 0.65), (0.98, 0.97, 0.99), 0.1, "Partly useful"),
        ((0.6, 0.55, 0.65), (0.98, 0.97, 0.99), 0.56, "Not useful"),
        ((0.6, 0.55, 0.65), (0.5, 0.4, 0.6), 0.5, "Partly useful"),
    ],
)
def test_usefulness_in_words(fabricated: Any, real: Any, majority: float, word: str) -> None:
    base = factories.comparison(["kahm"])
    results = [
        r.model_copy(update={"accuracy": interval(*values)})
        for r, values in ((base.results[0], real), (base.results[2], fabricated))
    ]
    comparison = base.model_copy(update={"results": results, "majority_accuracy": majority})
    assert utility_verdict(factories.audit_report(classifiers=comparison)).word == word


def test_stop_rules_in_words() -> None:
    assert "(5)" in stop_rule({"steps": 5})
    assert "0.5 times" in stop_rule({"relative": 0.5})
    assert "not covered" in stop_rule("paper")
    assert stop_rule(["other"]) == "['other']"


# --- numbers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0, 3, "0"),
        (8.0, 3, "8"),
        (0.125, 3, "0.125"),
        (0.1234567, 2, "0.12"),
        (-1234.5, 3, "−1,230"),
        (999_999, 2, "1.0 × 10⁶"),
        (1e-5, 3, "1 × 10⁻⁵"),
        (1.5e-300, 2, "1.5 × 10⁻³⁰⁰"),
        (2.5e300, 2, "2.5 × 10³⁰⁰"),
        (65536, 6, "65,536"),
        (12.0, 2, "12"),
    ],
)
def test_significant_digits(value: float, digits: int, text: str) -> None:
    assert n.significant(value, digits).replace(n.NBSP, " ") in (text, text.replace(".0 ", " "))


@pytest.mark.parametrize(
    ("values", "text", "ends"),
    [
        ((0.5043, 0.4751, 0.5333), "0.50", "0.47 to 0.54"),
        ((0.98123, 0.97912, 0.98311), "0.981", "0.979 to 0.984"),
        ((1.0, 0.0, 1.0), "1.0", "0.0 to 1.0"),
        ((0.5, 0.5, 0.5), "0.500", "0.500 to 0.500"),
    ],
)
def test_rounding_to_what_the_interval_supports(values: tuple[float, float, float], text: str, ends: str) -> None:
    assert n.estimate(interval(*values)) == text
    assert n.interval_range(interval(*values)) == ends


def test_rounding_does_not_hide_the_side_of_a_coin_toss() -> None:
    assert n.interval_range(interval(0.54, 0.5049, 0.57), 0.5) == "0.504 to 0.570"
    assert n.interval_range(interval(0.54, 0.52, 0.57), 0.5) == "0.52 to 0.57"


def test_small_shares_are_not_zero_and_large_ones_not_all() -> None:
    assert [n.percent(s).replace(n.NBSP, " ") for s in (0, 0.001, 0.25, 0.999, 1)] == [
        "0 %",
        "under 1 %",
        "25 %",
        "over 99 %",
        "100 %",
    ]
    assert n.seconds(0.01).startswith("under") and n.seconds(2.06) == f"2.1{n.NBSP}s"
    assert n.fixed(-0.0001, 2) == "0.00"
    assert n.plural(1, "row") == f"1{n.NBSP}row" and n.plural(1258, "row") == f"1,258{n.NBSP}rows"


@pytest.mark.parametrize("name", HOSTILE)
def test_names_in_figures_are_short_and_on_one_line(name: str) -> None:
    short = short_name(name)
    assert 0 < len(short) <= 22 and short == " ".join(short.split())


# --- index --------------------------------------------------------------------------------------------------------


def test_index_lists_by_data_set_and_newest_first() -> None:
    reports: list[AuditReport | ReportSummary] = [
        factories.audit_report(release_id="old", created_at=factories.WHEN.replace(year=2025)),
        factories.audit_report(release_id="other", dataset="adult"),
        ReportSummary.of(factories.audit_report(release_id="new")),
    ]
    parsed = Page(reports_index_html(reports))
    assert [link for link in parsed.links if link.endswith(".html")] == [
        "adult/other/audit.html",
        "digits/new/audit.html",
        "digits/old/audit.html",
    ]
    assert "INTERNAL." in parsed.text
    assert "No release has been audited yet" in Page(reports_index_html([])).text
