"""The pages in a real browser: quiet, loading nothing, readable on a desk, on a phone and on paper."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from schemas.audit import Utility
from tasks.reporting import audit_html, release_card_html, reports_index_html
from tests import factories

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
DESK, PHONE = {"width": 1280, "height": 860}, {"width": 375, "height": 812}


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
    long_names = [factories.column("a_long_column_name_" * 8 + str(i), 0.01 * i) for i in range(60)]
    rendered = {
        "audit": audit_html(factories.audit_report()),
        "long": audit_html(
            factories.audit_report(
                utility=Utility(columns=long_names, correlation_difference=None, correlation_pairs=0),
                warnings=["w" * 400],
                uncovered=["u" * 400],
            )
        ),
        "card": release_card_html(factories.manifest()),
        "index": reports_index_html([factories.audit_report()]),
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
    sentence = factories.audit_report().guarantee.element.sentence()[1:40]
    for text in (
        "INTERNAL.",
        "Guarantee for one cell",
        "Guarantee for one whole row",
        "No practical guarantee",
        sentence,
    ):
        place = page.get_by_text(text).first.bounding_box()
        assert place is not None and 0 <= place["y"] < viewport["height"], text


@pytest.mark.parametrize("name", ["audit", "long", "card", "index"])
@pytest.mark.parametrize("viewport", [DESK, PHONE], ids=["desk", "phone"])
def test_nothing_sticks_out_sideways(visit: Any, name: str, viewport: dict[str, int]) -> None:
    page = visit(name, viewport)
    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]


def test_text_in_figures_is_legible_on_a_phone(visit: Any) -> None:
    page = visit("audit", PHONE)
    heights = page.evaluate(
        "[...document.querySelectorAll('figure svg text')].map(t => t.getBoundingClientRect().height)"
    )
    assert len(heights) > 50
    assert min(heights) >= 10


def test_every_colour_pair_has_enough_contrast(visit: Any) -> None:
    """WCAG 2.2 AA: at least 4.5 to 1 for text, measured on what the browser computed."""
    page = visit("audit", DESK)
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


def test_keyboard_reaches_the_contents_and_the_tables(visit: Any) -> None:
    page = visit("audit", PHONE)
    reached = []
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate(
                "document.activeElement.getAttribute('href') || document.activeElement.getAttribute('aria-label')"
            )
        )
    assert reached[0] == "#main"
    assert {"#attack", "#reproduction", "Results of the attack", "Columns in numbers"} <= set(reached)


def test_on_paper_every_column_is_printed(visit: Any) -> None:
    page = visit("audit", DESK)
    page.emulate_media(media="print")
    box = page.locator("[aria-label='Columns in numbers']")
    assert box.evaluate("e => e.scrollHeight <= e.clientHeight + 1")
    assert page.get_by_text("INTERNAL.", exact=True).is_visible()
    assert page.pdf(format="A4").startswith(b"%PDF")
