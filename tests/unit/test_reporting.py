"""Pages say what the models hold: escaped, complete, reproducible, and with no number where there is none."""

import math
import re
import sys
from html.parser import HTMLParser
from subprocess import run
from typing import Any

import pytest

from schemas.attacks import Density, MembershipAttack, PrivacyRisk, PrivacyRisks
from schemas.audit import AuditReport, ValidationCheck, ValidationOutcome
from schemas.manifest import ReleasedColumn
from schemas.measures import NotComputed
from schemas.utility import CorrelationMap, Histogram, Propensity
from tasks.audit.classifiers import reliably_above
from tasks.reporting import audit_html, release_card_html
from tasks.reporting import numbers as n
from tasks.reporting.columns import column_figure, small_figures
from tasks.reporting.environment import _finalize
from tasks.reporting.figures import category_bars, histogram_steps, overlap, short_name
from tasks.reporting.making import fabrication_rows, noise_figure
from tasks.reporting.names import ATTACKS
from tasks.reporting.pairs import correlation, correlations, pair_sentence, projection_figures
from tasks.reporting.risks import epsilon_figure, risk_figure, risk_rows
from tasks.reporting.sweep_page import sweep_html
from tasks.reporting.usefulness import SWEPT_ATTACKS
from tasks.reporting.verdict import NO_BETTER
from tasks.reporting.verdicts import (
    Verdict,
    attack_verdict,
    distribution_verdict,
    epsilon_verdict,
    risk_verdict,
    utility_verdict,
    widened,
)
from tasks.reporting.words import guarantee_verdict, guess_bound, stop_rule
from tasks.reporting.worth import useful_interval
from tests import factories
from tests.factories import interval

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
        self.drawn_with: list[str] = []
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
            if key in ("clip-path", "fill", "stroke", "style"):
                self.drawn_with += re.findall(r"url\(#([^)]+)\)", value or "")
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
    risks = factories.privacy_risks()
    return factories.audit_report(
        utility=factories.utility(
            [factories.column(name, 0.1 * i) for i, name in enumerate(HOSTILE)],
            categories=[factories.category(name, HOSTILE) for name in HOSTILE[:3]],
            correlation_pairs=36,
            not_computed=[NotComputed(what=HOSTILE[0], reason=HOSTILE[7])],
        ),
        privacy_risks=risks.model_copy(
            update={"risks": [r.model_copy(update={"variant": HOSTILE[i % 9]}) for i, r in enumerate(risks.risks)]}
        ),
        sweep=factories.sweep(
            points=[p.model_copy(update={"attack": HOSTILE[0]}) for p in factories.sweep().points],
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


SHORT: dict[str, Any] = {key: value for key, value in factories.nothing_measured().items() if key != "utility"}
"""Fields that leave out the figures of attacks and classifiers, so that a page takes less time."""


def pages() -> dict[str, str]:
    return {
        "audit": audit_html(factories.audit_report()),
        "hostile": audit_html(hostile_report()),
        "card": release_card_html(factories.manifest()),
        "sweep and 65 columns": audit_html(
            factories.audit_report(sweep=factories.sweep(), utility=factories.utility(factories.columns(65)))
        ),
        "nothing": audit_html(factories.audit_report(**factories.nothing_measured())),
    }


@pytest.fixture(scope="module", name="rendered")
def _rendered() -> dict[str, str]:
    return pages()


def test_pages_load_nothing_and_run_nothing(rendered: dict[str, str]) -> None:
    for html in rendered.values():
        parsed = Page(html)
        assert not {"script", "iframe", "img", "object", "embed", "form", "video"} & set(parsed.tags)
        assert "@import" not in html and not re.search(r"url\((?!#)", html)
        assert all(link.startswith(("#", "data:,", "data:image/png;base64,")) for link in parsed.links)
        assert "://" not in re.sub(r"<(td|code|th)[^>]*>.*?</\1>", "", html)


def test_ids_are_unique_and_links_inside_the_page_have_a_target(rendered: dict[str, str]) -> None:
    for html in rendered.values():
        parsed = Page(html)
        assert len(parsed.ids) == len(set(parsed.ids))
        assert {link[1:] for link in parsed.links if link.startswith("#")} <= set(parsed.ids)
        assert set(parsed.drawn_with) <= set(parsed.ids)


def test_same_report_same_bytes_in_another_process(rendered: dict[str, str]) -> None:
    assert audit_html(hostile_report()) == rendered["hostile"]
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
    audit_html(factories.audit_report(**SHORT))
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
    assert "right in at most 99.97" in start and "no limit worth stating" in start
    for area in ("Membership attacks", "Privacy risks", "Empirical epsilon", "Usefulness", "Distributions"):
        assert area in start
    assert start.count("Good: ") == 5 and start.count("Strong up to ε 1") == 2
    assert "real 0.994, noise-added 0.57, fabricated 0.53" in text
    assert "must not be compared across data sets" in text
    assert "Not for publication" not in text


def test_uncovered_and_seeded_releases_say_so() -> None:
    report = factories.audit_report()
    seeded = report.reproduction.model_copy(update={"randomness": "seeded (not private)"})
    text = Page(audit_html(factories.audit_report(uncovered=["the stop rule"], reproduction=seeded, **SHORT))).text
    assert "Outside the guarantee" in text and "the stop rule" in text and "Not private" in text
    text = Page(
        release_card_html(factories.manifest(uncovered=["the stop rule"], randomness="seeded (not private)"))
    ).text
    assert "Outside the guarantee" in text and "the stop rule" in text and "Not private" in text
    assert "Outside the guarantee" not in Page(audit_html(factories.audit_report(**SHORT))).text


def test_card_holds_nothing_internal(rendered: dict[str, str]) -> None:
    text = Page(rendered["card"]).text
    assert "INTERNAL" not in text
    assert "attack" not in text.lower() and "accuracy" not in text.lower()
    assert factories.HEX in text and "data/part-00000.parquet" in text and "0.5 to 120" in text and "0, 1, 2" in text


def test_missing_values_are_not_computed_and_never_zero() -> None:
    text = Page(
        audit_html(
            factories.audit_report(
                **factories.nothing_measured(),
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
        "no privacy risk was measured",
        "no canary audit was run",
        "no classifier was evaluated",
        "no sweep over epsilon with this release's settings had been run before this release",
        "a report is frozen with its release",
        "fabrica sweep SPEC --epsilons 0.5,2,8 --stand-in FILE",
        "fewer than two columns vary in both tables",
        "no map of correlations",
        "similarity of pairs of columns was not computed",
        "no propensity score",
        "no projection",
        "no feature whose values have an order",
        "not computed, the rows were not known",
        "no shard was smoothed",
        "no expectation was checked",
        "no step was timed",
        "No attack on fabricated data was run",
        "No risk was measured on fabricated data",
        "No classifier was trained on fabricated data",
        "Neither a pMSE ratio nor a column's distance was computed",
        "The run gave no warnings",
    ):
        assert reason in text, reason
    assert "None" not in text and "nan" not in text.lower().split()
    assert text.count("Not computed Good:") == 5


def test_what_was_not_computed_says_why() -> None:
    text = Page(audit_html(factories.audit_report())).text
    reason = "its shadow models would take 209,999 seconds"
    assert f"The likelihood-ratio attack on KAHM was not computed: {reason}." in text
    assert "Attribute inference of pixel_0_0 was not computed: the column does not vary." in text
    missing = [r.model_copy(update={"auc": None}) for r in factories.comparison(["kahm"]).results]
    comparison = factories.comparison(["kahm"]).model_copy(update={"results": missing})
    assert (
        "AUC not computed (too few control rows of a class)"
        in Page(audit_html(factories.audit_report(classifiers=comparison))).text
    )


def test_an_attack_without_curves_or_width() -> None:
    attack = factories.attacks()[2]
    assert attack.density_difference is not None
    bare = attack.density_difference.model_copy(
        update={"sigma": 0.0, "density": Density(grid=[], members=[], controls=[])}
    )
    assert overlap(bare) is None
    attack = attack.model_copy(
        update={"roc_false_positive_rate": [], "roc_true_positive_rate": [], "found": [], "density_difference": bare}
    )
    text = Page(audit_html(factories.audit_report(membership_inference=factories.inference(attacks=[attack])))).text
    assert "width, ridge: not computed, all distances are equal" in text
    assert "the report holds no densities" in text and "the report holds no ROC curve of this attack" in text
    assert "no shares of members found" in text


def test_members_found_are_resolved_or_say_what_they_need(rendered: dict[str, str]) -> None:
    text = Page(rendered["audit"]).text
    assert "With 0.1 % of the control rows wrongly accused, not resolved: needs at least 1,000 control rows" in text
    assert "there are 539, and 270 for density ratio" in text
    assert "on 1,258 members, 270 control rows" in text
    assert "Share of the members found while 1 % of the control rows are wrongly accused" in text


def test_attacks_stand_side_by_side_and_the_strongest_first(rendered: dict[str, str]) -> None:
    html = rendered["audit"]
    table = html[html.index('aria-label="Results of the attacks"') :]
    table = table[: table.index("</table>")]
    names = re.findall(r'<th scope="row">(.*?)</th>', table)
    assert len(names) == 6 and names[0] == "Distance to the closest row"
    assert [len(row.split("<td")) - 1 for row in table.split("<tr>")[2:]] == [3] * 6


def test_attacks_on_released_classifiers_stand_beside_the_others_and_count() -> None:
    attacked = factories.inference(
        released_classifiers=[factories.released_attack(0.05), factories.released_attack(1.0, "pmsvm-gradient")]
    )
    report = factories.audit_report(**SHORT | {"membership_inference": attacked}, data_guarantee=factories.guarantees())
    html = audit_html(report)
    text = Page(html).text
    table = html[html.index('aria-label="Attacks on the released classifiers"') :]
    table = table[: table.index("</table>")]
    names = re.findall(r'<th scope="row">(.*?)</th>', table)
    assert names == ["PMSVM, noise on gradients", "OPERA"]  # the strongest first
    assert table.count("at most 73.2\N{NO-BREAK SPACE}% of pairs") == 2  # e / (e + 1), and delta
    assert table.count("not resolved: needs at least 1,000\N{NO-BREAK SPACE}control rows") == 2
    assert html.count("the area is how often this attack can") == 1 and 'id="roc-released-1-title"' in html
    assert "were not attacked" not in text and "the margin stands for the loss" in text
    folded = html[html.index("Rows that the attacks rank highest") :]
    exposed = "; ".join(f"{row:,}" for row in attacked.released_classifiers[1].most_exposed)
    assert exposed in folded[: folded.index("</details>")]
    verdict = attack_verdict(report)
    auc = attacked.released_classifiers[1].auc.estimate
    assert verdict.word == "Clear advantage" and auc > 0.7
    assert "strongest of 8 attacks, margin under the released classifier (PMSVM, noise on gradients)" in verdict.meaning
    assert verdict.comparison.endswith(f"released classifiers {auc:.2f}")
    reversed_ = attacked.released_classifiers[0].model_copy(update={"auc": interval(0.4, 0.38, 0.42)})
    below = report.model_copy(
        update={"membership_inference": factories.inference(attacks=[], released_classifiers=[reversed_])}
    )
    assert attack_verdict(below).word == "Below a coin toss"


def test_without_released_classifiers_nothing_is_said_of_them(rendered: dict[str, str]) -> None:
    report = factories.audit_report()
    assert "eleased classifier" not in Page(rendered["audit"]).text
    assert "released_classifiers" not in report.model_dump_json()
    assert "strongest of 6 attacks" in attack_verdict(report).meaning
    unattacked = factories.audit_report(**factories.nothing_measured(), data_guarantee=factories.guarantees())
    assert "the released classifiers were not attacked" in Page(audit_html(unattacked)).text


def test_exposed_rows_are_folded_and_indices_only(rendered: dict[str, str]) -> None:
    html = rendered["audit"]
    folded = html[html.index("Rows that the attacks rank highest") :]
    assert html[: html.index("Rows that the attacks rank highest")].rstrip().endswith("<summary>")
    rows = factories.attacks()[2].most_exposed
    assert "; ".join(f"{row:,}" for row in rows) in folded[: folded.index("</details>")]
    assert "<details open" not in html


def test_templates_refuse_a_missing_value() -> None:
    with pytest.raises(TypeError, match="not computed"):
        _finalize(None)


@pytest.mark.parametrize("count", [1, 2, 40, 41, 500])
def test_any_number_of_columns(count: int) -> None:
    html = audit_html(factories.audit_report(utility=factories.utility(factories.columns(count)), **SHORT))
    rows = html[html.index('aria-label="Columns in numbers"') :]
    assert rows[: rows.index("</table>")].count("<bdi>pixel_") == count
    assert html.count('class="small-figure"') == count + 2
    assert len(html) < 3_000_000


def test_columns_beyond_the_worst_are_folded() -> None:
    html = audit_html(factories.audit_report(utility=factories.utility(factories.columns(65)), **SHORT))
    opened = html[: html.index("The other 55")]
    assert opened.count('class="small-figure"') == 12
    assert "Of 65\N{NO-BREAK SPACE}columns whose values have an order, the maps show the 40" in html
    assert len(html) < 1_000_000


def test_a_histogram_is_a_density_and_odd_ones_are_left_out() -> None:
    wide = Histogram(edges=[0, 1, 4], real=[0.25, 0.75], fabricated=[0.5, 0.5])
    svg = histogram_steps(wide, "label")
    assert svg is not None
    heights = [float(y) for y in re.findall(r"L[\d.]+ ([\d.]+)", svg.split('fill="none"')[0].split("<path")[-1])]
    assert heights[0] == heights[2]  # 0.25 on a width of 1 is as high as 0.75 on a width of 3
    for edges in ([0.0, 4.0], [0.0, 0.0, 1.0], []):
        assert histogram_steps(wide.model_copy(update={"edges": edges}), "label") is None
    assert category_bars([], [], [], "label") is None
    bars = category_bars(["<b>"], [0.0], [0.0], "a < b") or ""
    assert 'aria-label="a &lt; b"' in bars and ">&lt;b&gt;<" in bars


@pytest.mark.parametrize("magnitude", [0.0, 1e-9, 0.125, 7.5, 1e6])
def test_any_size_of_noise(magnitude: float) -> None:
    report = factories.audit_report(
        mechanism=factories.mechanism(expected_magnitude=magnitude), **factories.nothing_measured()
    )
    assert f"is expected to move a cell by {n.significant(100 * magnitude)}{n.NBSP}%" in audit_html(report)


def test_every_figure_has_a_text_alternative_and_a_reading(rendered: dict[str, str]) -> None:
    html = rendered["audit"]
    figures = re.findall(r"(?s)<figure>.*?</figure>", html)
    # ROC curves, densities, risks, epsilon, accuracies, columns, correlations, projections, noise
    assert len(figures) == 6 + 3 + 1 + 1 + 1 + 1 + 3 + 2 + 1
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
    text = Page(audit_html(factories.audit_report(validation=validation, **factories.nothing_measured()))).text
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


@pytest.mark.parametrize(
    ("auc", "word"),
    [
        ((0.5, 0.47, 0.53), "No advantage found"),
        ((0.55, 0.45, 0.65), "Not conclusive"),
        ((0.55, 0.51, 0.59), "Slight advantage"),
        ((0.6, 0.55, 0.65), "Clear advantage"),
        ((0.3, 0.2, 0.4), "Below a coin toss"),
    ],
)
def test_attack_in_words(auc: tuple[float, float, float], word: str) -> None:
    attack = factories.attacks()[2].model_copy(update={"auc": interval(*auc)})
    inference = factories.inference(attacks=[attack])
    verdict = attack_verdict(factories.audit_report(membership_inference=inference))
    assert verdict.word == word
    assert ("turned the attack round" in verdict.meaning) == (auc[2] < 0.5)


def test_the_strongest_of_many_attacks_is_judged_by_a_wider_interval() -> None:
    """0.51 to 0.59 alone is an advantage; as the largest of six it is not one."""
    fabricated = [a for a in factories.attacks() if a.trained_on == "fabricated"]
    auc = interval(0.55, 0.51, 0.59)

    def verdict(attacks: list[MembershipAttack]) -> Verdict:
        return attack_verdict(factories.audit_report(membership_inference=factories.inference(attacks=attacks)))

    strongest = fabricated[0].model_copy(update={"auc": auc})
    assert verdict([strongest]).word == "Slight advantage"
    others = [a.model_copy(update={"auc": interval(0.5, 0.46, 0.54)}) for a in fabricated[1:]]
    several = verdict([*others, strongest])
    assert several.word == "Not conclusive" and "strongest of 6 attacks" in several.meaning
    # z at 0.05 / 12 over z at 0.05 / 2, from tables: 2.638 / 1.960
    assert widened(auc, 6).lower == pytest.approx(0.55 - 0.04 * 2.638 / 1.960, abs=1e-4)
    reversed_ = others[0].model_copy(update={"auc": interval(0.4, 0.38, 0.42)})
    below = verdict([strongest.model_copy(update={"auc": interval(0.51, 0.48, 0.54)}), reversed_])
    assert below.word == "Below a coin toss" and below.tone == "fair"
    with pytest.raises(ValueError, match="tried=0"):
        widened(auc, 0)


@pytest.mark.parametrize(
    ("hits", "controls", "word"),
    [(200, 20, "Clear risk"), (55, 24, "Slight risk"), (20, 20, "No risk found"), (250, 250, "Not conclusive")],
)
def test_risks_in_words(hits: int, controls: int, word: str) -> None:
    risk = factories.risk("linkability", "halves", "fabricated", hits, controls, 1, attacked=500)
    verdict = risk_verdict(factories.audit_report(privacy_risks=PrivacyRisks(risks=[risk])))
    assert verdict.word == word


def risks_report(*risks: PrivacyRisk) -> AuditReport:
    return factories.audit_report(**(SHORT | {"privacy_risks": PrivacyRisks(risks=list(risks))}))


def test_an_attack_that_does_not_beat_guessing_is_neither_judged_nor_counted() -> None:
    """Right about 300 of 500 members where guessing is right about 300: by itself it would be a clear risk of 0.5."""
    worthless = factories.risk("attribute-inference", "worthless", "fabricated", 300, 100, 300)
    judged = factories.risk("linkability", "halves", "fabricated", 55, 24, 1)
    alone, both = risk_verdict(risks_report(judged)), risk_verdict(risks_report(worthless, judged))
    assert (both.word, both.number, both.comparison) == (alone.word, alone.number, alone.comparison)
    assert "widened" not in both.number  # for one attack there is nothing to widen for
    assert f"other attack is left out: {NO_BETTER}" in both.meaning and "linkability" in both.meaning
    better = factories.risk("attribute-inference", "worthless", "fabricated", 300, 100, 299)
    assert risk_verdict(risks_report(better, judged)).word == "Clear risk"
    assert "widened for 2" in risk_verdict(risks_report(better, judged)).number

    rows = risk_rows(risks_report(worthless, judged))
    assert [(row["name"], row["no_better"]) for row in rows] == [
        ("Linkability, halves", ""),
        ("Attribute inference, worthless", NO_BETTER),
    ]
    figure = risk_figure(risks_report(worthless, judged))
    assert f"↑ {NO_BETTER}" in str(figure.svg) and "1\N{NO-BREAK SPACE}attack is left out" in figure.reading
    assert "7\N{NO-BREAK SPACE}% (" in figure.reading and "50\N{NO-BREAK SPACE}%" not in figure.reading


def test_where_no_attack_beats_guessing_the_verdict_says_so() -> None:
    found = [factories.risk("linkability", f"{i}", "fabricated", 300, 100, 300 + i) for i in range(3)]
    verdict = risk_verdict(risks_report(*found))
    assert (verdict.word, verdict.tone) == ("No attack beats guessing", "good")
    assert f"All 3 attacks on fabricated data are {NO_BETTER}" in verdict.meaning
    assert "fabricated none" in verdict.comparison
    assert risk_figure(risks_report(*found)).reading == f"On fabricated data all 3 attacks are {NO_BETTER}."


def test_a_risk_far_below_zero_gets_an_arrow_and_its_number() -> None:
    figure = risk_figure(risks_report(factories.risk("linkability", "far", "fabricated", 50, 450, 10)))
    assert "◂ −800 %" in str(figure.svg)  # (0.1 - 0.9) / (1 - 0.9)
    assert "no interval lies wholly above" in figure.reading
    near = risk_figure(risks_report(factories.risk("linkability", "near", "fabricated", 50, 60, 10)))
    assert "◂" not in str(near.svg)


def test_a_bound_above_the_claim_accuses_only_where_the_claim_is_refuted() -> None:
    """At 95 % one sound release in twenty has a bound above its claim."""
    bare = epsilon_verdict(factories.audit_report(empirical_epsilon=factories.empirical_epsilon(8.5, 8.0, False)))
    assert (bare.word, bare.tone) == ("Not conclusive", "fair") and "99.99" in bare.meaning
    sure = epsilon_verdict(factories.audit_report(empirical_epsilon=factories.empirical_epsilon(8.5, 8.0, True)))
    assert (sure.word, sure.tone) == ("Contradicts the claim", "poor")


def test_an_audit_that_refutes_nothing_says_nothing() -> None:
    empirical = factories.empirical_epsilon()
    zero = [b.model_copy(update={"epsilon_lower_bound": 0.0}) for b in empirical.bounds]
    report = factories.audit_report(empirical_epsilon=empirical.model_copy(update={"bounds": zero}))
    verdict = epsilon_verdict(report)
    assert (verdict.word, verdict.tone) == ("Says nothing", "unknown") and "had no power" in verdict.meaning
    assert "says nothing about the claimed 8" in epsilon_figure(report).reading
    mixed = empirical.model_copy(update={"bounds": [zero[0], empirical.bounds[1]]})
    one = factories.audit_report(empirical_epsilon=mixed)
    assert epsilon_verdict(one).tone == "good"
    assert f"both hold together at 95{n.NBSP}%" in epsilon_figure(one).reading


@pytest.mark.parametrize(
    ("bound", "word", "number"),
    [
        (3.2185, "Agrees with the claim", "at least 3.21, claimed 8"),
        (0.0, "Agrees with the claim", "at least 0.41, claimed 8"),
        (8.0, "Agrees with the claim", "at least 8, claimed 8"),
        (8.127, "Contradicts the claim", "at least 8.12, claimed 8"),
    ],
)
def test_empirical_epsilon_in_words(bound: float, word: str, number: str) -> None:
    verdict = epsilon_verdict(factories.audit_report(empirical_epsilon=factories.empirical_epsilon(bound)))
    assert (verdict.word, verdict.number) == (word, number)
    assert ("do not rely" in verdict.meaning) == (verdict.tone == "poor")


@pytest.mark.parametrize(
    ("ratio", "distance", "word"),
    [
        (1.2, 0.05, "Close to real"),
        (9.0, 0.05, "Moved"),
        (1.2, 0.3, "Moved"),
        (9.0, 0.3, "Far from real"),
        (None, 0.05, "Close to real"),
        (9.0, None, "Far from real"),
        (None, None, "Not computed"),
    ],
)
def test_distributions_in_words(ratio: float | None, distance: float | None, word: str) -> None:
    utility = factories.utility(
        [] if distance is None else [factories.column("a", distance)],
        categories=[],
        propensity=[Propensity(model="m", pmse=0.01, expected=0.005, ratio=ratio)],
    )
    verdict = distribution_verdict(factories.audit_report(utility=utility))
    assert verdict.word == word
    assert (verdict.tone == "unknown") == (word == "Not computed")


def test_every_word_has_a_rule_under_methods(rendered: dict[str, str]) -> None:
    text = Page(rendered["audit"]).text
    methods = text[text.index("Rules behind the words") :]
    for word in (
        "Clear advantage", "Slight advantage", "Below a coin toss", "Not conclusive", "No advantage found",
        "Clear risk", "Slight risk", "No risk found", "No attack beats guessing", "Contradicts the claim",
        "Agrees with the claim", "Says nothing",
        "Not useful", "Close to real", "Partly useful", "Moved", "Far from real",
    ):  # fmt: skip
        assert word in methods, word


def test_references_are_those_that_are_cited(rendered: dict[str, str]) -> None:
    html = rendered["audit"]
    listed = html[html.index('class="references"') :].split("</ol>")[0].count("<li>")
    cited = {int(n) for group in re.findall(r"\[(\d+(?:, \d+)*)\]", html) for n in group.split(", ")}
    assert cited == set(range(1, listed + 1))


def test_a_map_without_any_correlation_says_so() -> None:
    nothing: list[list[float | None]] = [[None, None], [None, None]]
    empty = CorrelationMap(columns=["a", "b"], real=nothing, fabricated=[[1.0, 0.25], [0.25, 1.0]])
    report = factories.audit_report(utility=factories.utility(factories.columns(2), correlations=empty))
    found = correlations(report)
    assert found is not None and found.moved == []
    assert [f.reading.replace(n.NBSP, " ") for f in found.figures] == [
        "Not computed for any of 1 pair.",
        "0 pairs of 1 have a correlation of 0.5 or more in size: pairs of columns that vary here.",
        "Not computed for any of 1 pair.",
    ]
    assert correlations(factories.audit_report(utility=factories.utility([], correlations=None))) is None


def test_risks_that_stand_open_hold_the_largest_of_each() -> None:
    rows = risk_rows(factories.audit_report())
    opened = [row["name"] for row in rows if row["first"] and not row["folded"]]
    assert len(opened) == 6 and "Linkability, columns in two halves" in opened
    assert sum(name.startswith("Singling out") for name in opened) == 1


def test_parameters_are_explained() -> None:
    parameters = {"rise": 11956, "value_blocks": 7, "marginals_noise": 5283.7, "spacing": 2.0**-16, "per_part": True}
    record = factories.mechanism(name="dirac-staircase", parameters=parameters)
    fabrication = factories.fabrication(rows_projected=1130, shard_rows=5000)
    rows = dict(fabrication_rows(factories.audit_report(mechanism=record, fabrication=fabrication)))
    assert rows["Width of the top step of the noise's law (its rise), in lattice steps"] == "11,956"
    assert rows["Columns of numbers without missing values"] == "7"
    assert rows["Noise on a count in a column's histogram, in rows (standard deviation)"] == "5.16"
    assert rows["Lattice step, as a part of a column's whole range"] == "1/65,536"
    assert rows["Parameter per part"] == "yes"
    moved = rows["Fabricated rows moved to obey the constraints"].replace(n.NBSP, " ")
    assert moved == "1,130, which is 89.8 % of the 1,258 released rows"
    assert rows["Mechanism"].startswith("dirac-staircase (noise whose law falls in steps")


def test_a_sample_is_named_where_the_columns_are() -> None:
    warning = "columns, categories and correlations are compared on 20000 of 209999 members, drawn at random"
    text = Page(audit_html(factories.audit_report(warnings=[warning], **SHORT))).text
    columns = text[text.index("What happened to the columns?") :]
    assert "Computed on a sample. Columns, categories and correlations are compared on 20,000 of 209,999" in columns
    assert "Computed on a sample" not in Page(audit_html(factories.audit_report(**SHORT))).text


def test_a_sweep_says_who_paid(rendered: dict[str, str]) -> None:
    text = Page(rendered["sweep and 65 columns"]).text
    assert "Paid by a stand-in: a table, public by the steward's word" in text and "fabrica sweep SPEC" not in text
    assert "92 % at epsilon 8 (KAHM)" in text and "Epsilon is of one cell" in text and "Each point is one run" in text
    assert "of 9 March 2026" in text and "widened for 3 attacks), at epsilon 8" in text
    assert "It is an estimate, not a bound." in text
    paid = factories.audit_report(sweep=factories.sweep(paid_by="ledger", points=[]), **factories.nothing_measured())
    text = Page(audit_html(paid)).text
    assert "charged to the data set's budget" in text and "the sweep has no points" in text


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


def test_the_usefulness_card_shows_the_interval_that_decides() -> None:
    """Over all counts of right rows, the word agrees with the audit's own rule and the interval with the word."""
    base = factories.comparison()
    words = set()
    for right in range(40, 120, 4):
        results = [r.model_copy(update={"accuracy": factories.wilson(right, 539)}) for r in base.results]
        comparison = base.model_copy(update={"results": results})
        best = results[2]
        judged, tried = useful_interval(best, comparison)
        assert tried == 4 and judged.lower < best.accuracy.lower and judged.upper > best.accuracy.upper
        assert comparison.majority_accuracy is not None
        useful = judged.lower > comparison.majority_accuracy
        assert useful == reliably_above(best, comparison)
        verdict = utility_verdict(factories.audit_report(classifiers=comparison))
        assert (verdict.word == "Not useful") == (not useful)
        ends = n.interval_range_percent(judged, comparison.majority_accuracy)
        assert f"({ends}, widened for 4{n.NBSP}classifiers)" in verdict.number
        words.add(verdict.word)
    assert {"Not useful"} < words
    one = factories.comparison(["kahm"])
    assert "widened" not in utility_verdict(factories.audit_report(classifiers=one)).number


def test_distances_say_which_kind_they_are_and_which_counts() -> None:
    utility = factories.utility(
        [factories.column("size", 0.2), factories.column("weight", 0.3)],
        categories=[factories.category("size"), factories.category("town")],
    )
    report = factories.audit_report(utility=utility, **SHORT)
    assert "Half of the 2 columns whose values have an order" in column_figure(report).reading
    assert f"1{n.NBSP}column of categories without an order is not drawn here" in column_figure(report).reading
    assert "half of 3 columns" in distribution_verdict(report).number
    readings = {figure.name: figure.reading for figure in small_figures(report)}
    assert readings["weight"].startswith("Kolmogorov-Smirnov distance 0.3")
    assert "; Kolmogorov-Smirnov 0.20, which counts." in readings["size"]
    assert readings["town"].startswith("Total variation distance") and "Smirnov" not in readings["town"]
    text = Page(audit_html(report)).text
    assert not re.search(r"(?<!Smirnov )(?<!variation )[Dd]istance 0\.", text)


def test_columns_that_could_not_be_compared_come_last_and_say_why() -> None:
    """Else they stand among those that moved most."""
    missing = factories.column("rare").model_copy(update={"kolmogorov_smirnov": None})
    columns = [factories.column("near", 0.01), missing, factories.column("far", 0.9)]
    report = factories.audit_report(utility=factories.utility(columns, categories=[]), **SHORT)
    figures = small_figures(report)
    assert [figure.name for figure in figures] == ["far", "near", "rare"]
    assert figures[-1].reading.startswith("Not computed: fewer than 10 values are present in one of the tables, or")
    assert "half of 2 columns" in distribution_verdict(report).number


def test_a_histogram_of_one_interval_is_not_drawn() -> None:
    column = factories.column("constant", 0.1).model_copy(
        update={"histogram": Histogram(edges=[0, 16], real=[1.0], fabricated=[1.0])}
    )
    (figure,) = small_figures(factories.audit_report(utility=factories.utility([column], categories=[])))
    assert figure.svg is None
    assert figure.reading.endswith("Too few real rows apart from one value to show a distribution.")


@pytest.mark.parametrize(("left_out", "compared"), [(0.06, True), (0.2, True), (0.21, False)])
def test_rows_in_thin_cells_are_not_compared_in_a_number(left_out: float, compared: bool) -> None:
    projection = factories.projection().model_copy(update={"real_left_out": left_out})
    reading = projection_figures(factories.audit_report(utility=factories.utility(projection=projection)))[1].reading
    assert ("in common, cell by cell" in reading) == compared
    assert ("cells too thin to show" in reading) == (not compared)


@pytest.mark.parametrize(
    ("ratio", "said"),
    [
        (1.2, "pMSE is 1.2 times what two samples of one population give, so real and fabricated rows were not told"),
        (2.1, "pMSE is 2.1 times what two samples of one population give, so real and fabricated rows were hardly"),
        (9.0, "pMSE is 9 times what two samples of one population give. "),
    ],
)
def test_a_pmse_ratio_in_words(ratio: float, said: str) -> None:
    utility = factories.utility(propensity=[Propensity(model="m", pmse=0.01, expected=0.005, ratio=ratio)])
    assert distribution_verdict(factories.audit_report(utility=utility)).meaning.startswith(said)


def test_counts_of_pairs_have_their_reasons() -> None:
    few = factories.audit_report()
    assert f"over 29{n.NBSP}pairs: all columns, the label included" in pair_sentence(few)
    listed = factories.utility().pairs * 40
    many = factories.audit_report(feature_columns=63, utility=factories.utility(pairs=listed[:1000]))
    assert f"over 2,016{n.NBSP}pairs" in pair_sentence(many)  # 64 * 63 / 2
    assert f"435{n.NBSP}pairs of features that vary in both tables" in correlation(few)


def test_noise_is_expected_and_says_of_which_columns() -> None:
    def part(what: str, columns: list[str], size: float | None) -> dict[str, Any]:
        change = 0.3 if what == "category" else None
        name = "dirac-laplace" if what == "value" else "randomized-response"
        return {
            "what": what, "columns": columns, "name": name, "parameters": {}, "expected_magnitude": size,
            "change_probability": change,
        }  # fmt: skip

    def reading(parts: list[dict[str, Any]]) -> str:
        report = factories.audit_report(mechanism=factories.mechanism(parts=parts))
        return noise_figure(report).reading.replace(n.NBSP, " ")

    mixed = reading([part("value", ["a", "b"], 0.1), part("value", ["c"], 0.2), part("category", ["d"], None)])
    assert mixed.startswith("In 3 columns of numbers, noise is expected to move a cell by 12.5 %")
    assert "1 column of categories has random responses instead" in mixed and "different noise" in mixed
    alone = reading([part("value", ["a"], 0.125)])
    assert alone.startswith("Noise is expected to move") and "categories" not in alone and "different" not in alone


def test_a_sweep_page_names_its_attacks_and_claims_no_more_than_was_checked() -> None:
    points = factories.sweep().points
    points[-1] = points[-1].model_copy(update={"attack_auc": interval(0.53, 0.5049, 0.56)})  # 0.50 would hide its side
    text = Page(sweep_html(factories.sweep(points=points))).text
    for name in SWEPT_ATTACKS:
        assert ATTACKS[name] in text
    assert "By the steward's word a public table took the source's place" in text
    assert "Nothing on this page was computed" not in text and "that the table is public was not checked" in text
    assert "whoever holds the real rows holds the members" in text and "Each point is one run" in text
    caption = re.search(r"at epsilon 8 it is (\S+ \([^)]+\))", text)
    assert caption is not None
    area, ends = caption[1].rstrip(")").split(" (")
    assert ends == "0.504 to 0.560" and f"{area} {ends} Density ratio" in text  # the same digits in the table


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
        ((1.0, 0.0, 1.0), "1.00", "0.00 to 1.00"),
        ((0.545, 0.38, 0.71), "0.55", "0.38 to 0.71"),
        ((0.5, 0.5, 0.5), "0.500", "0.500 to 0.500"),
    ],
)
def test_rounding_to_what_the_interval_supports(values: tuple[float, float, float], text: str, ends: str) -> None:
    assert n.estimate(interval(*values)) == text
    assert n.interval_range(interval(*values)) == ends


def test_thousands_are_set_apart_in_sentences() -> None:
    said = n.with_thousands("209999 of 20000 rows in 1258, not 2026-03-09, 2024, a1234, 0.12345, 12,345 or 1/65536.")
    assert said == "209,999 of 20,000 rows in 1,258, not 2026-03-09, 2024, a1234, 0.12345, 12,345 or 1/65536."


def test_rounding_does_not_hide_the_side_of_a_coin_toss() -> None:
    assert n.interval_range(interval(0.54, 0.5049, 0.57), 0.5) == "0.504 to 0.570"
    assert n.interval_range(interval(0.54, 0.52, 0.57), 0.5) == "0.52 to 0.57"
    assert n.interval_range_percent(interval(0.04, 0.002, 0.08), 0.0).replace(n.NBSP, " ") == "0.2 to 8.0 %"


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
