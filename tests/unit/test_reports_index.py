"""The index of reports: complete without JavaScript, safe with any text, quick with thousands, honest about gaps."""

import base64
import hashlib
import json
import re
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from schemas.attacks import (
    CanaryBound,
    EmpiricalEpsilon,
    Found,
    MembershipAttack,
    MembershipInference,
    PrivacyRisk,
    PrivacyRisks,
)
from schemas.audit import AuditReport, Reproduction, ValidationOutcome
from schemas.events import ApproximateEvent
from schemas.guarantee import Guarantee
from schemas.measures import Interval, NotComputed
from schemas.spec import Budget
from schemas.utility import (
    CategoryUtility,
    ClassifierComparison,
    ClassifierResult,
    ColumnUtility,
    Propensity,
    Utility,
)
from tasks.audit import wilson_interval
from tasks.ledger import Ledger
from tasks.ledger.history import BudgetHistory, BudgetPoint, BudgetSet, budget_histories
from tasks.reporting.index_facts import facts
from tasks.reporting.index_figures import budget_reading
from tasks.reporting.index_page import ReportSummary, reports_index_html
from tests import factories

WHEN = datetime(2026, 3, 9, 14, 5, tzinfo=UTC)
HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "a\"b' &amp; {{ 7*7 }} {% raw %} %s ]]>",
    "two\nlines\x00\x07\u2028\x9f",
    "<img src=x onerror=alert(1)>",
    "x" * 500,
    "列の名前 🎉 עברית",
]


def between(estimate: float, half: float, method: str = "bootstrap, 1000 resamples") -> Interval:
    """An interval of 95 % around an estimate."""
    return Interval(estimate=estimate, lower=estimate - half, upper=estimate + half, confidence=0.95, method=method)


def attack(name: str, kind: str, auc: float, half: float = 0.03) -> MembershipAttack:
    """One membership attack."""
    return MembershipAttack.model_validate(
        {
            "attack": name,
            "trained_on": kind,
            "members": 1258,
            "controls": 539,
            "auc": between(auc, half),
            "found": [Found(false_positive_rate=0.01, true_positive_rate=None)],
            "roc_false_positive_rate": [0.0, 1.0],
            "roc_true_positive_rate": [0.0, 1.0],
            "most_exposed": [3, 1],
        }
    )


def risk(variant: str, beyond: float) -> PrivacyRisk:
    """One privacy risk from the fabricated rows."""
    return PrivacyRisk(
        risk="singling-out",
        variant=variant,
        trained_on="fabricated",
        attacked=500,
        members=wilson_interval(80, 500),
        controls=wilson_interval(60, 500),
        naive=wilson_interval(10, 500),
        risk_beyond_controls=between(beyond, 0.02, "Wilson"),
    )


def result(kind: str, right: int) -> ClassifierResult:
    """One classifier's result on 539 control rows."""
    accuracy = wilson_interval(right, 539)
    return ClassifierResult.model_validate(
        {"name": "kahm", "trained_on": kind, "accuracy": accuracy, "macro_f1": accuracy, "auc": None}
    )


def report(**changes: Any) -> AuditReport:
    """A valid report with every headline number; keyword arguments replace its fields."""
    fields: dict[str, Any] = {
        "release_id": "2026-03-09-a",
        "dataset": "digits",
        "created_at": WHEN,
        "rows": 1258,
        "feature_columns": 30,
        "uncovered": [],
        "guarantee": factories.guarantees(columns=30),
        "mechanism": factories.mechanism(),
        "fabrication": factories.fabrication(),
        "membership_inference": MembershipInference(
            members=1258,
            controls=539,
            attacks=[
                attack("distance-to-class", "real", 0.914),
                attack("distance-to-class", "noise-added", 0.541),
                attack("distance-to-class", "fabricated", 0.512),
                attack("density-ratio", "fabricated", 0.538),
            ],
        ),
        "privacy_risks": PrivacyRisks(risks=[risk("one column", 0.012), risk("several columns", 0.041)]),
        "empirical_epsilon": EmpiricalEpsilon(
            unit="element",
            claimed_epsilon=8.0,
            delta=1e-5,
            confidence=0.95,
            bounds=[
                CanaryBound(
                    contradicts_claim=False,
                    seen="noise-added",
                    epsilon_lower_bound=2.349,
                    correct=181,
                    guesses=200,
                    canaries=1000,
                ),
                CanaryBound(
                    contradicts_claim=False,
                    seen="fabricated",
                    epsilon_lower_bound=0.0,
                    correct=101,
                    guesses=200,
                    canaries=1000,
                ),
            ],
        ),
        "utility": Utility(
            columns=[
                ColumnUtility(
                    name="age",
                    mean_real=1.0,
                    mean_fabricated=1.1,
                    std_real=1.0,
                    std_fabricated=1.0,
                    kolmogorov_smirnov=0.1,
                )
            ],
            categories=[
                CategoryUtility(
                    name="work", categories=["a"], shares_real=[1.0], shares_fabricated=[1.0], total_variation=0.2
                )
            ],
            correlation_difference=0.1834,
            correlation_pairs=435,
            pair_similarity=0.9231,
            propensity=[Propensity(model="logistic regression", pmse=0.01, expected=0.004, ratio=2.5)],
        ),
        "classifiers": ClassifierComparison(
            train_rows=1258,
            test_rows=539,
            majority_accuracy=61 / 539,
            results=[result("real", 526), result("noise-added", 441), result("fabricated", 507)],
        ),
        "validation": ValidationOutcome(rows=1797, checks=[], clipped={}),
        "warnings": ["0.38 cells are expected to get no noise at all"],
        "step_times": [],
        "reproduction": Reproduction(
            audit_seed=20261130,
            command="fabrica release data/specs/digits.yaml",
            code_version="0.1.0",
            spec_sha256="ab" * 32,
            source_sha256="cd" * 32,
            randomness="os-csprng",
            python="3.11.2",
            packages={"numpy": "2.4.0", "scipy": "1.17.0"},
        ),
    }
    return AuditReport(**(fields | changes))


def bare_report(**changes: Any) -> AuditReport:
    """A report of which nothing could be computed, each time for a reason."""

    def because(what: str) -> list[NotComputed]:
        return [NotComputed(what=what, reason=f"too few rows for {what}")]

    return report(
        membership_inference=MembershipInference(members=9, controls=3, attacks=[], not_computed=because("attacks")),
        privacy_risks=PrivacyRisks(risks=[], not_computed=because("risks")),
        empirical_epsilon=EmpiricalEpsilon(
            unit="record", claimed_epsilon=8.0, delta=1e-5, confidence=0.95, bounds=[], not_computed=because("canaries")
        ),
        utility=Utility(
            columns=[], correlation_difference=None, correlation_pairs=0, not_computed=because("columns, pairs, pMSE")
        ),
        classifiers=ClassifierComparison(
            train_rows=9, test_rows=3, majority_accuracy=1 / 3, results=[], not_computed=because("accuracy")
        ),
        mechanism=factories.mechanism(name="private-moments", expected_magnitude=None, expected_unperturbed_cells=None),
        **changes,
    )


def history(dataset: str = "digits", spent: tuple[float | None, ...] = (1.5, 2.9, 4.2)) -> BudgetHistory:
    """A budget of 60 of which releases a week apart spent something."""
    points = [
        BudgetPoint(WHEN + timedelta(weeks=i), epsilon, 1e-6 * (i + 1), i + 1, "reserve", f"2026-week-{i}")
        for i, epsilon in enumerate(spent)
    ]
    start = BudgetPoint(WHEN - timedelta(hours=1), 0.0, 0.0, 0, "budget", None)
    budgets = (BudgetSet(WHEN - timedelta(hours=1), 60.0, 1e-3),)
    return BudgetHistory(dataset, budgets, (start, *points), len(points) + 1)


def hostile_summaries() -> list[ReportSummary]:
    """Reports whose every free text is hostile, and whose names are, which the model would refuse."""
    summaries = []
    for text in HOSTILE:
        ugly = report(
            warnings=HOSTILE,
            uncovered=[text],
            privacy_risks=PrivacyRisks(risks=[risk(text, 0.01)]),
            membership_inference=MembershipInference(
                members=1, controls=1, attacks=[], not_computed=[NotComputed(what=text, reason=text)]
            ),
        )
        summary = ReportSummary.of(ugly)
        named = summary.facts | {("Release", "Data set"): replace(summary.facts["Release", "Data set"], text=text)}
        summaries.append(replace(summary, dataset=text, release_id=text, facts=named))
    return summaries


def embedded(html: str) -> dict[str, Any]:
    """The facts in a page's script element, as a browser would read them."""
    found = re.search(r'(?s)<script type="application/json" id="facts">(.*?)</script', html)
    assert found is not None
    data: dict[str, Any] = json.loads(found.group(1))
    return data


def table_rows(html: str) -> list[str]:
    """The rows of the table of releases."""
    return re.findall(r"(?s)<tr role=\"row\"><th role=\"rowheader\".*?</tr>", html)


def text_of(html: str) -> str:
    """Text without tags."""
    return " ".join(re.sub(r"<[^>]+>", " ", html).replace("\xa0", " ").split())


def test_every_headline_number_stands_in_the_table_without_javascript() -> None:
    (row,) = table_rows(reports_index_html([report()]))
    text = text_of(row)
    for expected in (
        "digits / 2026-03-09-a",
        "2026-03-09 14:05",
        "1,258",
        "ε = 8, δ = 1 × 10⁻⁵",
        "ε = 240",
        "area 0.54",
        "Density ratio",
        "Singling out, several columns",
        "94",
    ):
        assert expected in text, expected
    assert 'href="digits/2026-03-09-a/audit.html"' in row


def test_facts_of_all_reports_are_the_same_ones_in_the_same_order() -> None:
    assert list(facts(report())) == list(facts(bare_report()))


def test_the_strongest_attack_and_the_highest_risk_are_compared_with_widened_intervals() -> None:
    known = facts(report())
    strongest = known["Attacks", "Strongest membership attack on fabricated data, area under the ROC curve"]
    assert strongest.value == 0.538 and "Density ratio" in strongest.note
    assert strongest.lower is not None and strongest.lower < 0.508  # two attacks: wider than one alone
    highest = known["Attacks", "Highest privacy risk beyond control rows, from fabricated data"]
    assert highest.value == 0.041 and "several columns" in highest.note


def test_attacks_on_released_classifiers_count_and_are_compared_by_themselves() -> None:
    name = "Strongest membership attack on released classifiers, area under the ROC curve"
    none = facts(report())["Attacks", name]
    assert none.missing and none.note == "no classifier trained on confidential rows is released"
    inference = report().membership_inference
    found = factories.released_attack().model_copy(update={"auc": between(0.71, 0.02)})
    made = report(
        membership_inference=inference.model_copy(update={"released_classifiers": [found]}),
        data_guarantee=factories.guarantees(),
    )
    own = facts(made)["Attacks", name]
    assert own.value == 0.71 and own.lower == pytest.approx(0.69) and "released classifier (OPERA)" in own.note
    strongest = facts(made)["Attacks", "Strongest membership attack on fabricated data, area under the ROC curve"]
    assert strongest.value == 0.538
    (row,) = table_rows(reports_index_html([made]))
    assert "Clear advantage" in text_of(row) and "Margin under the released classifier (OPERA)" in text_of(row)
    few = [NotComputed(what="membership inference", reason="too few rows")]
    missing = made.model_copy(
        update={"membership_inference": MembershipInference(members=1, controls=1, attacks=[], not_computed=few)}
    )
    assert facts(missing)["Attacks", name].note == "membership inference: too few rows"


def test_a_lower_bound_is_rounded_down_and_a_similarity_to_what_the_rows_support() -> None:
    known = facts(report())
    assert known["Attacks", "Lower bound of epsilon by canaries, noise-added data"].text == "at least 2.3"
    assert known["Attacks", "Lower bound of epsilon by canaries, fabricated data"].text == "0: no epsilon is refuted"
    assert known["Usefulness", "Similarity of pairs of columns, mean"].text == "0.92"
    assert known["Usefulness", "Similarity of columns, mean"].text == "0.85"


def test_what_is_missing_says_not_computed_and_why_and_never_0() -> None:
    known = facts(bare_report())
    gone = {name for (_, name), fact in known.items() if fact.missing}
    assert len(gone) == 16, gone
    for fact in known.values():
        if fact.missing:
            assert fact.text == "not computed" and fact.note and fact.value is None
    (row,) = table_rows(reports_index_html([bare_report()]))
    assert text_of(row).count("not computed") == 3
    for why in ("too few rows for attacks", "too few rows for risks", "too few rows for accuracy"):
        assert why in row
    assert row.count('data-key=""') == 3


def test_reasons_are_those_of_the_figure_that_is_missing() -> None:
    told = [NotComputed(what="the attack on noise-added data", reason="A"), NotComputed(what="other", reason="B")]
    known = facts(
        report(membership_inference=MembershipInference(members=1, controls=1, attacks=[], not_computed=told))
    )
    name = "Strongest membership attack on noise-added data, area under the ROC curve"
    assert known["Attacks", name].note == "the attack on noise-added data: A"


def test_hostile_texts_stay_text() -> None:
    html = reports_index_html(hostile_summaries(), [history(text) for text in HOSTILE], [(t, t) for t in HOSTILE])
    assert html.count("<script") == html.count("</script") == 2
    assert "<img" not in html and "<!--" not in html
    assert "\x00" not in html and "\x07" not in html
    assert {release[0] for release in embedded(html)["releases"]} == {f"{t} / {t}" for t in HOSTILE}
    for link in re.findall(r'href="([^"]*)"', html):
        assert link.startswith(("#", "data:,")) or re.fullmatch(r"[\w.~%-]*/[\w.~%-]*/audit\.html", link), link


def test_unescaped_data_would_end_the_script_element() -> None:
    """The check above can fail: plain JSON of the same facts holds a tag that ends the element."""
    plain = json.dumps([fact.items for fact in hostile_summaries()[0].facts.values()])
    assert "</script>" in plain


def test_one_file_that_loads_nothing_and_allows_one_script_only() -> None:
    html = reports_index_html([report()], [history()])
    script = re.findall(r"(?s)<script>(.*?)</script>", html)
    assert len(script) == 1
    digest = base64.b64encode(hashlib.sha256(script[0].encode()).digest()).decode()
    assert f"default-src 'none'; script-src 'sha256-{digest}';" in html
    assert "://" not in html and "@import" not in html and not re.search(r"url\((?!#)", html)
    assert not re.search(r"<(iframe|img|object|embed|form|video|link rel=\"?style)", html)
    assert not re.search(r"\son\w+=", re.sub(r"(?s)<script.*?</script>", "", html))
    ids = re.findall(r'\sid="([^"]+)"', html)
    assert len(ids) == len(set(ids))


def test_same_reports_same_bytes_in_any_order_and_in_another_process() -> None:
    reports: list[AuditReport | ReportSummary] = [
        report(),
        report(release_id="b", warnings=[]),
        report(dataset="adult", created_at=WHEN + timedelta(days=1)),
        bare_report(release_id="c"),
    ]
    histories, left_out = [history(), history("adult")], [("x", "y"), ("a", "b")]
    html = reports_index_html(reports, histories, left_out)
    assert reports_index_html(reports[::-1], histories[::-1], left_out[::-1]) == html
    script = (
        "import sys; from tests.unit.test_reports_index import *;"
        "sys.stdout.buffer.write(reports_index_html([report(), report(release_id='b', warnings=[]),"
        "report(dataset='adult', created_at=WHEN + timedelta(days=1)), bare_report(release_id='c')],"
        "[history(), history('adult')], [('x', 'y'), ('a', 'b')]).encode())"
    )
    other = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert other.stdout.decode() == html


def test_by_data_set_and_newest_first() -> None:
    reports: list[AuditReport | ReportSummary] = [
        report(release_id="old", created_at=WHEN.replace(year=2025)),
        report(release_id="other", dataset="adult"),
        ReportSummary.of(report(release_id="new")),
    ]
    links = re.findall(r'href="([^"]*audit\.html)"', reports_index_html(reports))
    assert links == ["adult/other/audit.html", "digits/new/audit.html", "digits/old/audit.html"]


def test_no_report_at_all_says_what_to_do() -> None:
    html = reports_index_html([])
    assert "No release has been audited yet" in html and "fabrica release" in html
    assert "no ledger was at hand" in html
    assert embedded(html) == {"names": [], "facts": [], "releases": []}


def test_reports_that_cannot_be_read_are_named_with_the_reason() -> None:
    html = reports_index_html([report()], [], [("digits/2024-old", "made by an earlier version")])
    assert "<bdi>digits/2024-old</bdi></strong> left out: made by an earlier version" in html
    assert "1\xa0report left out" in html


def test_two_thousand_reports_render_in_seconds() -> None:
    summaries = [
        replace(ReportSummary.of(report()), dataset=f"set-{i % 7}", release_id=f"release-{i}") for i in range(2000)
    ]
    histories = [history(f"set-{i}") for i in range(7)]
    started = time.perf_counter()
    html = reports_index_html(summaries, histories)
    assert time.perf_counter() - started < 6  # 3 s on an idle machine
    assert len(table_rows(html)) == 2000


def test_the_reading_says_what_is_spent_and_left() -> None:
    assert budget_reading(history()) == (
        "3\xa0charges spent epsilon 4.2 of 60; 55.8 are left (all together, at delta 0.001)."
    )
    assert "1\xa0charge spent epsilon 59.99 of 60; 0.01 are left" in budget_reading(history(spent=(59.985,)))
    assert "not computed" in budget_reading(history(spent=(1.0, None)))
    over = budget_reading(history(spent=(61.5,)))
    assert "61.5 of 60; that is 1.5 more than the budget, and nothing is left" in over


def test_a_budget_figure_has_a_text_alternative_with_its_steps() -> None:
    html = reports_index_html([report()], [history()])
    assert 'aria-labelledby="budget-0-title budget-0-desc"' in html
    assert re.search(r"<desc id=\"budget-0-desc\">[^<]*2026-03-16 2\.9; 2026-03-23 4\.2\. 3.charges spent", html)


@pytest.mark.parametrize("spent", [(1.0,), (None,), (1.0, None, 3.0), (0.0,), (1e-9, 59.0)])
def test_any_course_of_a_budget_can_be_drawn(spent: tuple[float | None, ...]) -> None:
    assert "<svg" in reports_index_html([], [history(spent=spent)])


def test_many_data_sets_are_not_all_drawn_but_all_told() -> None:
    html = reports_index_html([], [history(f"set-{i:02}") for i in range(40)])
    assert html.count("<svg") == 24 and html.count("are left (all together") >= 40
    assert "Drawn are the 24 data sets that were charged last" in html


def test_a_data_set_that_the_ledger_does_not_know_is_named() -> None:
    html = reports_index_html([report(), report(dataset="adult")], [history()])
    assert "ledger holds no budget: <bdi>adult</bdi>." in html


def charged(ledger: Ledger, release_id: str, epsilon: float, dataset: str = "digits") -> None:
    """Charge a release to a budget of 60."""
    guarantee: Guarantee = factories.guarantee("record", epsilon, 1e-6)
    event = ApproximateEvent(epsilon=epsilon, delta=1e-6)
    ledger.reserve(dataset, release_id, guarantee, [event], Budget(epsilon=60.0, delta=1e-3))


def test_history_is_what_the_ledger_shows_after_each_entry(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    shown: list[float | None] = [0.0]
    for number, epsilon in enumerate((1.0, 1.5, 2.0)):
        charged(ledger, f"r{number}", epsilon)
        shown.append(ledger.balances()[0].spent_epsilon)
    ledger.void("digits", "r1", "crashed")
    shown.append(ledger.balances()[0].spent_epsilon)
    ledger.set_budget("digits", Budget(epsilon=50.0, delta=1e-9), "stricter")
    shown.append(ledger.balances()[0].spent_epsilon)
    charged(ledger, "first", 1.0, "adult")
    ledger.draw("adult", "first")
    told = budget_histories(ledger.entries())
    assert [h.dataset for h in told] == ["digits", "adult"]
    digits = told[0]
    assert [p.epsilon_spent for p in digits.points] == shown
    assert [p.releases for p in digits.points] == [0, 1, 2, 3, 2, 2]
    assert digits.points[-1].delta_spent == ledger.balances()[0].spent_delta
    assert (digits.epsilon_budget, digits.delta_budget) == (50.0, 1e-9)
    assert [b.epsilon for b in digits.budgets] == [60.0, 50.0]
    assert len(told[1].points) == told[1].changes == 2  # the drawing of noise changes no balance


def test_a_long_history_keeps_its_ends_and_counts_what_it_passes_over(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    for number in range(12):
        charged(ledger, f"r{number}", 0.5)
    (told,) = budget_histories(ledger.entries(), most_points=5)
    assert len(told.points) == 5 and told.changes == 13
    assert told.points[0].kind == "budget" and told.points[-1].release_id == "r11"
    assert told.points[-1].epsilon_spent == ledger.balances()[0].spent_epsilon
    assert "8 more of the ledger's entries" in reports_index_html([], [told])
    with pytest.raises(ValueError, match="most_points=1"):
        budget_histories([], most_points=1)
    assert budget_histories([]) == []


def test_importing_the_index_is_cheap() -> None:
    code = (
        "import sys, tasks.reporting.index_page;"
        "print([m for m in ('matplotlib', 'sqlalchemy', 'prefect', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_sweeps_are_listed_with_who_paid() -> None:
    paid, free = factories.sweep(paid_by="ledger"), factories.sweep(paid_by="stand-in", sweep_id="free")
    html = reports_index_html([], sweeps=[paid, free]).split('id="sweeps"')[1]
    for made in (paid, free):
        assert f'href="{made.dataset}/{made.sweep_id}/sweep.html"' in html
    assert html.count("data set&#39;s budget") + html.count("data set's budget") == 1
    assert html.count("public stand-in") == 1
    assert 'id="sweeps"' not in reports_index_html([])
