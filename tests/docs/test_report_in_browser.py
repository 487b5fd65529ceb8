"""The pages in a real browser: quiet, loading nothing, readable on a desk, on a phone and on paper."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tasks.reporting import audit_html, release_card_html
from tasks.reporting.figures.frame import COLOURS, INK, MUTED
from tasks.reporting.figures.usefulness import _LINES
from tasks.reporting.sweep_page import sweep_html
from tests import factories
from tests.projects import PROJECT

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
DESK, PHONE = {"width": 1280, "height": 860}, {"width": 360, "height": 780}
ARTIFACTS = PROJECT / "test-artifacts"
"""Screenshots for people to look at."""


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


@pytest.fixture(scope="module", name="pages")
def _pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    names = ["<script>alert(1)</script>", "עמודה ארוכה", "列の名前", "x" * 400, "two\nlines", ""]
    names += ["a_long_column_name_" * 8 + str(i) for i in range(59)]
    risks = factories.privacy_risks()
    rendered = {
        "audit": audit_html(
            factories.audit_report(
                sweep=factories.sweep(),
                membership_inference=factories.inference(released_classifiers=[factories.released_attack()]),
                data_guarantee=factories.guarantees(),
            )
        ),
        "hostile": audit_html(
            factories.audit_report(
                utility=factories.utility(
                    [factories.column(name, 0.015 * i, 1e7) for i, name in enumerate(names)],
                    categories=[factories.category("c" * 300, names[:9]), factories.category(names[1], names[:2])],
                ),
                privacy_risks=risks.model_copy(
                    update={
                        "risks": [
                            factories.risk("linkability", "far below", "fabricated", 50, 450, 60),
                            *(r.model_copy(update={"variant": names[3]}) for r in risks.risks),
                        ]
                    }
                ),
                warnings=["w" * 400],
                uncovered=["u" * 400],
                empirical_epsilon=factories.empirical_epsilon(9.5),
            )
        ),
        "nothing": audit_html(factories.audit_report(**factories.nothing_measured())),
        "sweep": sweep_html(factories.sweep(notes=["this curve is about a stand-in"])),
        "card": release_card_html(factories.manifest()),
    }
    for name, html in rendered.items():
        (folder / f"{name}.html").write_text(html, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in rendered}


@pytest.fixture(name="visit")
def _visit(browser: Any, pages: dict[str, Path]) -> Iterator[Any]:
    """Opens a page and, when the test ends, checks that it was quiet and loaded nothing but itself."""
    opened: list[tuple[Any, list[str], list[str], str]] = []

    def visit(name: str, viewport: dict[str, int]) -> Any:
        context = browser.new_context(viewport=viewport, java_script_enabled=True)
        page = context.new_page()
        said: list[str] = []
        asked: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        address = pages[name].as_uri()
        opened.append((context, said, asked, address))
        page.goto(address)
        return page

    yield visit
    for context, said, asked, address in opened:
        context.close()
        assert said == []
        assert [url for url in asked if url != address and not url.startswith("data:,")] == []


@pytest.mark.parametrize("viewport", [DESK, PHONE], ids=["desk", "phone"])
def test_first_screen_holds_the_warning_and_the_guarantee(visit: Any, viewport: dict[str, int]) -> None:
    page = visit("audit", viewport)
    for text in (
        "INTERNAL.",
        "Guarantee for one cell",
        "Guarantee for one whole row",
        "No practical guarantee",
        "right in at most",
        "Strong up to ε 1",
        "Membership attacks",
        "Privacy risks",
    ):
        place = page.get_by_text(text).first.bounding_box()
        assert place is not None and 0 <= place["y"] < viewport["height"], text


@pytest.mark.parametrize("name", ["audit", "hostile", "nothing", "card", "sweep"])
@pytest.mark.parametrize("viewport", [DESK, PHONE], ids=["desk", "phone"])
def test_nothing_sticks_out_sideways(visit: Any, name: str, viewport: dict[str, int]) -> None:
    page = visit(name, viewport)
    open_all(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    ARTIFACTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=ARTIFACTS / f"report-{name}-{viewport['width']}.png", full_page=True)


HINTED = """() => [...document.querySelectorAll('.scroll')].map(region => [
  region.ariaLabel,
  region.scrollWidth > region.clientWidth + 1,
  getComputedStyle(region, '::before').display !== 'none'
    && getComputedStyle(region, '::before').visibility === 'visible',
])"""
"""Regions, whether they scroll sideways, and whether they say so."""


@pytest.mark.parametrize("viewport", [DESK, PHONE], ids=["desk", "phone"])
def test_what_scrolls_sideways_says_so_and_nothing_else_does(visit: Any, viewport: dict[str, int]) -> None:
    page = visit("audit", viewport)
    open_all(page)
    page.wait_for_timeout(200)
    found = page.evaluate(HINTED)
    assert [region for region in found if region[1] != region[2]] == []
    assert any(scrolls for _, scrolls, _ in found) == (viewport is PHONE)


def test_on_a_desk_every_area_and_its_rule_is_on_the_first_screen(visit: Any) -> None:
    page = visit("audit", DESK)
    tiles = page.locator(".tile")
    assert tiles.count() == 7
    for tile in tiles.all():
        place = tile.locator(".rule").bounding_box()
        assert place is not None and place["y"] + place["height"] < DESK["height"]
    words = [text.strip() for text in page.locator(".tile .verdict").all_inner_texts()]
    shapes = page.locator(".tile .icon").evaluate_all("icons => icons.map(i => i.innerHTML)")
    tones = tiles.evaluate_all("tiles => tiles.map(t => t.className)")
    assert all(words) and len(set(zip(shapes, tones, strict=True))) == len(set(tones)) == len(set(shapes))


def test_without_javascript_and_styles_everything_is_there(browser: Any, pages: dict[str, Path]) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(pages["audit"].as_uri())
    page.locator("summary", has_text="Quantiles of").click()
    assert page.get_by_role("region", name="Quantiles").is_visible()
    context.close()


def open_all(page: Any) -> None:
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")


CLIPPED = """() => [...document.querySelectorAll('figure svg')].flatMap(svg => {
  const frame = svg.getBoundingClientRect();
  return [...svg.querySelectorAll('text')].filter(t => {
    const box = t.getBoundingClientRect();
    return box.left < frame.left - 3 || box.right > frame.right + 3 || box.bottom > frame.bottom + 3;
  }).map(t => t.textContent);
})"""
"""Words in pictures that their frame cuts off."""


@pytest.mark.parametrize("name", ["audit", "hostile", "sweep"])
@pytest.mark.parametrize("viewport", [DESK, PHONE], ids=["desk", "phone"])
def test_no_word_in_a_figure_is_cut_off(visit: Any, name: str, viewport: dict[str, int]) -> None:
    page = visit(name, viewport)
    open_all(page)
    assert page.evaluate(CLIPPED) == []


def test_text_in_figures_is_legible_on_a_phone(visit: Any) -> None:
    page = visit("audit", PHONE)
    open_all(page)
    heights = page.evaluate(
        "[...document.querySelectorAll('figure svg text')].map(t => t.getBoundingClientRect().height)"
    )
    assert len(heights) > 50
    assert min(heights) >= 10


@pytest.mark.parametrize("name", ["audit", "hostile", "nothing", "card", "sweep"])
def test_every_colour_pair_has_enough_contrast(visit: Any, name: str) -> None:
    """WCAG 2.2 AA: at least 4.5 to 1 for text, measured on what the browser computed."""
    page = visit(name, DESK)
    open_all(page)
    worst = page.evaluate(
        """() => {
          const channel = c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
          const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
          const parse = s => s.match(/[\\d.]+/g).map(Number);
          let worst = [99, ''];
          for (const e of document.querySelectorAll('body *')) {
            const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
            if (!own || ['STYLE', 'title', 'desc'].includes(e.tagName)) continue;
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


def test_shapes_that_carry_meaning_have_enough_contrast() -> None:
    """WCAG 2.2 AA, 1.4.11: at least 3 to 1 for graphics."""

    def light(colour: str) -> float:
        channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for colour in (*COLOURS.values(), INK, MUTED, *(style[0] for style in _LINES.values())):
        assert (1 + 0.05) / (light(colour) + 0.05) >= 3, colour


def test_keyboard_reaches_the_contents_and_the_tables(visit: Any) -> None:
    page = visit("audit", PHONE)
    reached = []
    for _ in range(50):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate(
                "document.activeElement.getAttribute('href') || document.activeElement.getAttribute('aria-label')"
            )
        )
    assert reached[0] == "#main"
    assert {"#attack", "#risks", "#epsilon", "#usefulness", "#distributions", "#reproduction"} <= set(reached)
    assert {"Results of the attacks", "Privacy risks", "Columns in numbers"} <= set(reached)


def test_skip_link_and_folded_parts_work_by_keyboard(visit: Any) -> None:
    page = visit("audit", DESK)
    page.keyboard.press("Tab")
    assert page.get_by_text("Skip to the content").bounding_box()["x"] >= 0
    page.keyboard.press("Enter")
    assert page.url.endswith("#main")
    exposed = page.locator("details", has_text="Rows that the attacks rank highest")
    exposed.locator("summary").focus()
    assert not exposed.locator("table").is_visible()
    page.keyboard.press("Enter")
    assert exposed.locator("table").is_visible()
    every = page.locator(".scroll")
    assert all(every.evaluate_all("regions => regions.map(r => r.tabIndex === 0 && r.ariaLabel.length > 3)"))


def test_on_paper_everything_is_printed(visit: Any) -> None:
    page = visit("audit", DESK)
    page.emulate_media(media="print")
    box = page.locator("[aria-label='Columns in numbers']")
    assert box.evaluate("e => e.scrollHeight <= e.clientHeight + 1")
    assert page.get_by_text("INTERNAL.", exact=True).is_visible()
    for region in ("Quantiles", "Least similar pairs"):  # folded on the screen
        assert page.locator(f"[aria-label='{region}']").bounding_box()["height"] > 100
    ARTIFACTS.mkdir(parents=True, exist_ok=True)
    printed = page.pdf(format="A4", path=ARTIFACTS / "report-audit.pdf")
    assert printed.startswith(b"%PDF")
