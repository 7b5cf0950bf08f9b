"""The page works in headless Chromium without an error: drawing, filters, dark mode, keyboard and phone."""

import importlib.util
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from triten.perf.report.data import report_data
from triten.perf.report.page import format_page

_spec = importlib.util.spec_from_file_location("report_files", Path(__file__).with_name("report_files.py"))
assert _spec is not None and _spec.loader is not None
report_files = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(report_files)

playwright = pytest.importorskip("playwright.sync_api", reason="the page's test needs playwright")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Any]:
    """Open the page of two files; its console must stay empty."""
    path = tmp_path / "dashboard.html"
    path.write_text(format_page(report_data(report_files.write_files(tmp_path))), encoding="utf-8")
    said: list[str] = []
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        shown = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme="light")
        shown.on("console", lambda message: said.append(message.text))
        shown.on("pageerror", lambda error: said.append(str(error)))
        shown.on("dialog", lambda dialog: said.append("a file's script ran") or dialog.dismiss())
        shown.on("request", lambda request: request.url.startswith("http") and said.append(request.url))
        shown.goto(path.as_uri())
        shown.wait_for_selector("#history-plot .main-svg")
        yield shown
        browser.close()
    assert said == []


def test_the_page_works(opened: Any, tmp_path: Path) -> None:
    rows = opened.locator("#rows-table tbody tr")
    assert rows.count() == 7
    assert opened.locator("#worst-table tbody tr").count() == 6
    assert report_files.HOSTILE in opened.locator("#rows-table").text_content()
    assert "0.71" in opened.locator("#suites-table").inner_text()
    opened.screenshot(path=tmp_path / "light.png", full_page=True)

    points = opened.locator("#speed-plot .point")
    before = points.count()
    opened.select_option("#filter-suite", "overhead")
    playwright.expect(rows).to_have_count(3)
    assert points.count() < before
    opened.fill("#filter-operator", "^views$")
    playwright.expect(rows).to_have_count(1)
    assert opened.locator("#shown").text_content() == "1 of 7 rows"
    opened.fill("#filter-operator", "(")
    playwright.expect(opened.locator("#operator-error")).to_contain_text("No regular expression")
    assert rows.count() == 1
    opened.click("button[type=reset]")
    playwright.expect(rows).to_have_count(7)
    for name, value, count in (("dtype", "float64", 1), ("direction", "backward", 1), ("device", "cpu", 7)):
        opened.select_option(f"#filter-{name}", value)
        playwright.expect(rows).to_have_count(count)
        opened.click("button[type=reset]")
        playwright.expect(rows).to_have_count(7)

    paper = "getComputedStyle(document.body).backgroundColor"
    light = opened.evaluate(paper)
    opened.click("#theme")
    assert opened.get_attribute("#theme", "aria-pressed") == "true"
    assert opened.evaluate(paper) != light
    opened.screenshot(path=tmp_path / "dark.png", full_page=True)
    opened.evaluate("document.activeElement.blur(); scrollTo(0, 0)")

    opened.reload()
    opened.keyboard.press("Tab")
    assert opened.evaluate("document.activeElement.className") == "skip"
    opened.locator("#worst-table thead button").nth(3).press("Enter")
    sorted_by = opened.locator("#worst-table th[aria-sort=descending]")
    assert sorted_by.inner_text() == "us"
    assert opened.evaluate("document.activeElement.textContent") == "us"

    opened.set_viewport_size({"width": 390, "height": 800})
    assert opened.evaluate("document.documentElement.scrollWidth") <= 390
    opened.screenshot(path=tmp_path / "phone.png", full_page=True)
