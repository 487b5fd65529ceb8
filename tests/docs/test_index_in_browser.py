"""The index of reports in a real browser: by keyboard, on a phone, on paper, without JavaScript, and with thousands.

Screenshots stay in `test-artifacts/` for people to look at.
"""

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tasks.reporting.index_page import ReportSummary, reports_index_html
from tests import factories
from tests.unit.test_reports_index import WHEN, attack, bare_report, history, hostile_summaries, report

pytestmark = pytest.mark.browser

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
DESK, PHONE = {"width": 1280, "height": 860}, {"width": 360, "height": 740}
ARTIFACTS = Path(__file__).parents[2] / "test-artifacts"
MANY = 2000


def few() -> str:
    """A page of a handful of reports, some of them with gaps."""
    membership = report().membership_inference
    stronger = membership.model_copy(update={"attacks": [attack("distance-to-class", "fabricated", 0.71)]})
    reports = [
        report(),
        report(release_id="2026-03-16-b", created_at=WHEN + timedelta(days=7), membership_inference=stronger),
        report(
            release_id="2026-03-23-c",
            created_at=WHEN + timedelta(days=14),
            rows=900,
            guarantee=factories.guarantees(0.5, 30),
            warnings=["one", "two", "three"],
        ),
        report(dataset="adult", release_id="first", rows=31_000, uncovered=["the paper's stop rule"]),
        bare_report(dataset="adult", release_id="too-small", rows=9),
    ]
    left_out = [("digits/2024-11-04", "audit.json is not a report that this version can read")]
    return reports_index_html(reports, [history(), history("adult", (12.0, 31.5, None, 58.25))], left_out)


def many() -> str:
    """A page of thousands."""
    summary = ReportSummary.of(report())
    made = [
        replace(summary, dataset=f"set-{i % 9}", release_id=f"release-{i}", created_at=WHEN + timedelta(hours=i))
        for i in range(MANY)
    ]
    return reports_index_html(made, [history(f"set-{i}") for i in range(9)])


@pytest.fixture(scope="module", name="pages")
def _pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("index")
    hostile = hostile_summaries()
    long_names = [replace(hostile[0], dataset="long-" * 13, release_id="a" * 64)]
    rendered = {
        "few": few(),
        "many": many(),
        "hostile": reports_index_html(hostile + long_names, [history(s.dataset) for s in hostile], [("<b>", "<i>")]),
        "empty": reports_index_html([]),
    }
    for name, html in rendered.items():
        (folder / f"{name}.html").write_text(html, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in rendered}


@pytest.fixture(scope="module", name="browser")
def _browser() -> Iterator[Any]:
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        reason = "no Chromium browser on this machine: install the package `chromium` to look at the pages"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(name="visit")
def _visit(browser: Any, pages: dict[str, Path]) -> Iterator[Any]:
    """Opens a page and, when the test ends, checks that it was quiet and loaded nothing but itself."""
    opened: list[tuple[Any, list[str], list[str], str]] = []

    def visit(name: str, viewport: dict[str, int], javascript: bool = True) -> Any:
        context = browser.new_context(viewport=viewport, java_script_enabled=javascript)
        page = context.new_page()
        said: list[str] = []
        asked: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))

        def dismiss(dialog: Any) -> None:
            said.append(f"dialog: {dialog.message}")
            dialog.dismiss()

        page.on("dialog", dismiss)
        address = pages[name].as_uri()
        opened.append((context, said, asked, address))
        page.goto(address)
        return page

    yield visit
    for context, said, asked, address in opened:
        context.close()
        assert said == []
        assert [url for url in asked if url.partition("#")[0] != address and not url.startswith("data:,")] == []


def keep(page: Any, name: str, *, full_page: bool = True) -> None:
    """Keep a screenshot for people."""
    ARTIFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTIFACTS / f"reports-index-{name}.png", full_page=full_page)


def shown(page: Any) -> list[str]:
    """Names of the releases in the table as it is seen, top to bottom."""
    names: list[str] = page.evaluate(
        "[...document.querySelectorAll('#index tbody tr')].filter(r => !r.hidden).map(r => r.cells[0].innerText.trim())"
    )
    return [" ".join(name.split()) for name in names]


def pick(page: Any, *releases: str) -> None:
    """Tick releases for the comparison."""
    for release in releases:
        page.get_by_label(f"Compare {release}", exact=True).check()


def differences(page: Any) -> dict[str, str]:
    """What the comparison says of each figure."""
    found: dict[str, str] = page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('table.compare tbody tr')].filter(r => r.cells.length === 4)"
        ".map(r => [r.cells[0].innerText, r.cells[3].textContent]))"
    )
    return found


@pytest.mark.parametrize("name", ["few", "hostile", "empty"])
@pytest.mark.parametrize("viewport", [DESK, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("javascript", [True, False], ids=["js", "no-js"])
def test_nothing_sticks_out_sideways(visit: Any, name: str, viewport: dict[str, int], javascript: bool) -> None:
    page = visit(name, viewport, javascript)
    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    outside = page.evaluate(
        """width => [...document.querySelectorAll('main *')].filter(e => e.getBoundingClientRect().right > width + 1
             && !e.closest('svg') && getComputedStyle(e).clipPath === 'none' && !e.closest('thead'))
           .map(e => e.tagName + ' ' + e.className)""",
        viewport["width"],
    )
    assert outside == []
    keep(page, f"{name}-{'phone' if viewport is PHONE else 'desk'}{'' if javascript else '-no-js'}")


def test_without_javascript_everything_but_the_controls_is_there(visit: Any) -> None:
    page = visit("few", DESK, javascript=False)
    assert len(page.query_selector_all("#index tbody tr")) == 5
    assert page.get_by_text("The list is complete.").is_visible()
    assert not page.locator("#search").is_visible() and not page.locator("#comparison").is_visible()
    assert page.locator("svg[role=img]").count() == 2
    assert page.locator("figcaption", has_text="58.25 of 60").is_visible()
    assert page.get_by_text("left out: audit.json is not a report").is_visible()


def test_sorting_by_keyboard(visit: Any) -> None:
    page = visit("few", DESK)
    before = shown(page)
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.tagName === 'BUTTON' && document.activeElement.innerText") == "Rows":
            break
    else:
        pytest.fail("the sort button was not reached by Tab")
    page.keyboard.press("Enter")
    rows = page.evaluate("[...document.querySelectorAll('#index tbody tr')].map(r => r.cells[2].innerText)")
    assert rows == ["9", "900", "1,258", "1,258", "31,000"]
    assert shown(page) != before
    header = page.locator("#index thead th", has_text="Rows")
    assert header.get_attribute("aria-sort") == "ascending"
    page.keyboard.press("Space")
    assert header.get_attribute("aria-sort") == "descending"
    assert shown(page)[0] == "adult / first"
    assert page.locator("#index thead th[aria-sort]").count() == 1


def test_every_column_sorts_and_what_was_not_computed_comes_last(visit: Any) -> None:
    page = visit("few", DESK)
    for heading in ("Release", "Made (UTC)", "One cell", "One whole row", "Usefulness", "Warnings"):
        header = page.locator("#index thead th", has_text=heading)
        header.get_by_role("button").click()
        up = shown(page)
        header.get_by_role("button").click()
        assert sorted(up) == sorted(shown(page)) and header.get_attribute("aria-sort") == "descending"
    for _ in range(2):
        page.locator("#index thead th", has_text="Membership attack").get_by_role("button").click()
        assert shown(page)[-1] == "adult / too-small"
    assert shown(page)[0] == "digits / 2026-03-16-b"  # area 0.71


def test_searching_by_typing(visit: Any) -> None:
    page = visit("few", DESK)
    page.locator("#search").focus()
    page.keyboard.type("digits 2026-03-16")
    assert shown(page) == ["digits / 2026-03-16-b"]
    assert page.locator("#found").inner_text() == "1 of 5 releases found"
    page.locator("#search").fill("no such thing")
    assert shown(page) == [] and page.locator("#found").inner_text() == "0 of 5 releases found"
    page.locator("#search").fill("private-moments")  # a mechanism
    assert shown(page) == ["adult / too-small"]
    page.locator("#search").fill("")
    assert len(shown(page)) == 5


@pytest.mark.parametrize("viewport", [DESK, PHONE], ids=["desk", "phone"])
def test_two_releases_side_by_side(visit: Any, viewport: dict[str, int]) -> None:
    page = visit("few", viewport)
    pick(page, "digits / 2026-03-09-a", "digits / 2026-03-16-b")
    told = differences(page)
    on = "Strongest membership attack on {} data, area under the ROC curve"
    assert told[on.format("fabricated")] == "second is higher; the intervals do not overlap"
    assert told[on.format("noise-added")] == "cannot be compared: not computed in the second"
    assert told["Rows"] == told["SHA-256 of the spec"] == "same"
    assert len(told) == len(ReportSummary.of(report()).facts)
    alike = page.locator(
        "table.compare tbody tr", has=page.get_by_role("rowheader", name="Control rows", exact=True)
    ).locator("td")
    assert [cell.is_visible() for cell in alike.all()] == [True, viewport is DESK, viewport is DESK]
    page.get_by_role("button", name="Go to the comparison").click()
    assert page.evaluate("document.activeElement.id") == "comparison-heading"
    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    keep(page, f"comparison-{'phone' if viewport is PHONE else 'desk'}")
    page.get_by_role("button", name="Swap").click()
    assert differences(page)[on.format("fabricated")] == "second is lower; the intervals do not overlap"
    page.locator("#only-differences").check()
    assert "Rows" not in differences(page)
    page.get_by_role("button", name="Clear").click()
    assert not page.locator("#comparison").is_visible()


def test_what_a_comparison_says_of_overlap_lists_and_other_data(visit: Any) -> None:
    page = visit("few", DESK)
    pick(page, "digits / 2026-03-09-a", "digits / 2026-03-23-c")
    told = differences(page)
    assert told["Warnings"] == "differs: 1 only in the first, 3 only in the second"
    assert told["One cell, epsilon"] == "second is lower" and told["One cell, in words"] == "differs"
    pick(page, "adult / too-small")  # takes the place of the one picked first
    assert "different data sets" in page.locator("#comparison-remarks").inner_text()
    told = differences(page)
    assert told["Best accuracy, trained on real rows"] == "cannot be compared: not computed in the second"
    assert told["Expected size of the noise on a cell"] == "cannot be compared: not computed in the second"


def test_overlapping_intervals_are_remarked(browser: Any, tmp_path: Path) -> None:
    first = report()
    inference = first.membership_inference
    near = inference.model_copy(update={"attacks": [attack("density-ratio", "fabricated", 0.55)]})
    html = reports_index_html([first, report(release_id="near", membership_inference=near)])
    (tmp_path / "index.html").write_text(html, encoding="utf-8")
    page = browser.new_page()
    page.goto((tmp_path / "index.html").as_uri())
    pick(page, "digits / 2026-03-09-a", "digits / near")
    told = differences(page)["Strongest membership attack on fabricated data, area under the ROC curve"]
    page.close()
    assert told == "second is higher; the intervals overlap: may be chance"


def test_hostile_texts_in_a_comparison_stay_text(visit: Any) -> None:
    page = visit("hostile", DESK)
    boxes = page.locator("td.pick input")
    boxes.nth(0).check()
    boxes.nth(1).check()
    assert page.locator("table.compare img, table.compare script").count() == 0
    assert page.locator("table.compare").inner_text().count("<img src=x onerror=alert(1)>") >= 2
    assert page.evaluate("document.documentElement.scrollWidth") <= DESK["width"]


def test_search_and_sorting_stay_quick_with_thousands(visit: Any) -> None:
    page = visit("many", DESK)
    taken = page.evaluate(
        """() => {
          const timed = work => { const start = performance.now(); work(); document.body.offsetHeight;
                                  return performance.now() - start; };
          const search = document.getElementById('search');
          const type = text => { search.value = text; search.dispatchEvent(new Event('input')); };
          return [timed(() => type('release-19')), timed(() => type('set-3')), timed(() => type('')),
                  timed(() => document.querySelectorAll('#index thead button')[1].click())];
        }"""
    )
    assert len(shown(page)) == MANY
    assert max(taken) < 3000, taken  # some hundred ms on an idle machine
    keep(page, "many-desk", full_page=False)


@pytest.mark.parametrize("viewport", [DESK, PHONE], ids=["desk", "phone"])
def test_every_colour_pair_has_enough_contrast(visit: Any, viewport: dict[str, int]) -> None:
    """WCAG 2.2 AA: at least 4.5 to 1 for text, measured on what the browser computed."""
    page = visit("few", viewport)
    pick(page, "digits / 2026-03-09-a", "adult / too-small")
    worst = page.evaluate(
        """() => {
          const channel = c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
          const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
          const parse = s => s.match(/[\\d.]+/g).map(Number);
          let worst = [99, ''];
          for (const e of document.querySelectorAll('body *')) {
            const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
            if (!own || ['STYLE', 'SCRIPT', 'NOSCRIPT', 'title', 'desc'].includes(e.tagName)) continue;
            const svg = e.closest('svg');
            const style = getComputedStyle(e);
            const front = parse(svg ? style.fill : style.color);
            let back = [255, 255, 255];
            for (let p = svg ? svg.parentElement : e; p; p = p.parentElement) {
              const c = parse(getComputedStyle(p).backgroundColor);
              if (c.length === 3 || c[3] > 0) { back = c; break; }
            }
            const [a, b] = [light(front), light(back)].sort((x, y) => y - x);
            const ratio = (a + 0.05) / (b + 0.05);
            if (ratio < worst[0]) worst = [ratio, e.tagName + ' ' + e.className + ' ' + e.textContent.slice(0, 40)];
          }
          return worst;
        }"""
    )
    assert worst[0] >= 4.5, worst


def test_text_in_figures_is_legible_and_targets_are_large_enough_on_a_phone(visit: Any) -> None:
    page = visit("few", PHONE)
    heights = page.evaluate(
        "[...document.querySelectorAll('figure svg text')].map(t => t.getBoundingClientRect().height)"
    )
    assert len(heights) > 10 and min(heights) >= 9
    small = page.evaluate(
        """[...document.querySelectorAll('main button, main input, main summary')].map(e => (e.closest('label') || e))
             .map(e => e.getBoundingClientRect()).filter(r => r.width && r.height < 24).length"""
    )
    assert small == 0


def test_on_paper_the_controls_are_gone_and_the_rows_are_not(visit: Any) -> None:
    page = visit("few", DESK)
    pick(page, "digits / 2026-03-09-a", "digits / 2026-03-16-b")
    page.emulate_media(media="print")
    for control in ("#controls", "#picked", "td.pick", "nav.contents"):
        assert not page.locator(control).first.is_visible(), control
    assert page.get_by_text("INTERNAL.", exact=True).is_visible()
    assert len(shown(page)) == 5 and page.locator("#comparison").is_visible()
    ARTIFACTS.mkdir(exist_ok=True)
    assert page.pdf(path=ARTIFACTS / "reports-index.pdf", prefer_css_page_size=True).startswith(b"%PDF")
