"""The page works in headless Chromium without an error: drawing, filters, dark mode, keyboard and phone."""

import importlib
import importlib.util
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from triten.perf.report.data import report_data
from triten.perf.report.page import format_page


def _load(name: str, folder: Path = Path(__file__).parent) -> Any:
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


report_files, synthetic_history = _load("report_files"), _load("synthetic_history")
trace_files = _load("trace_files", Path(__file__).parents[1] / "step_profile")

playwright = pytest.importorskip("playwright.sync_api", reason="the page's test needs playwright")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")

Open = Callable[..., Any]
PHONE = {"width": 390, "height": 844}
DESKTOP = {"width": 1280, "height": 800}
# Words of the implementation that a reader of the page would not know.
PRIVATE = (
    "held to",
    "times accepted",
    "unsure",
    "verdict",
    "peer",
    "bar met",
    "Infinity",
    "NaN",
    "undefined",
)


@pytest.fixture
def browse(tmp_path: Path) -> Iterator[Open]:
    """Return a function that opens the page of result files; the console of every page must stay empty."""
    said: list[str] = []
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])

        def opened(
            files: Sequence[Path],
            viewport: dict[str, int] = DESKTOP,
            scheme: str = "light",
            profiles: Sequence[Path] = (),
            **more: Any,
        ) -> Any:
            path = tmp_path / "dashboard.html"
            path.write_text(format_page(report_data(files, profiles=profiles)), encoding="utf-8")
            shown = browser.new_context(viewport=viewport, color_scheme=scheme, **more).new_page()
            shown.on("console", lambda message: said.append(message.text))
            shown.on("pageerror", lambda error: said.append(str(error)))
            shown.on("dialog", lambda dialog: said.append("a file's script ran") or dialog.dismiss())
            shown.on("request", lambda request: request.url.startswith("http") and said.append(request.url))
            shown.goto(path.as_uri())
            drawn = "#headline-plot svg .dot" if files else "#timeline-plot svg .block"
            shown.wait_for_selector(drawn, state="attached")
            return shown

        yield opened
        browser.close()
    assert said == []


def hidden_sections(page: Any) -> set[str]:
    sections = "[...document.querySelectorAll('section')]"
    return set(page.evaluate(f"{sections}.filter((each) => each.hidden).map(({{ id }}) => id)"))


def test_filters_tables_and_themes_work(browse: Open, tmp_path: Path) -> None:
    page = browse(report_files.write_files(tmp_path))
    rows = page.locator("#rows-table tbody tr")
    assert rows.count() == 7
    assert report_files.HOSTILE in page.locator("#rows-table").text_content()
    assert "1.41×" in page.locator("#suites-table").inner_text()
    assert page.locator("#attention-table tbody tr").count() == 4
    assert "1 of 6" in page.locator("#changes-table caption").inner_text()
    assert "overhead: a.T" in page.locator("#sentences").inner_text()

    page.select_option("#filter-suite", "overhead")
    playwright.expect(rows).to_have_count(3)
    page.fill("#filter-operator", "^views$")
    playwright.expect(rows).to_have_count(1)
    assert page.locator("#shown").text_content() == "1 of 7 benchmarks"
    page.fill("#filter-operator", "(")
    playwright.expect(page.locator("#operator-error")).to_contain_text("Invalid regular expression")
    assert rows.count() == 1
    page.click("button[type=reset]")
    playwright.expect(rows).to_have_count(7)
    for name, value, count in (("dtype", "float64", 1), ("direction", "backward", 1)):
        page.select_option(f"#filter-{name}", value)
        playwright.expect(rows).to_have_count(count)
        page.click("button[type=reset]")
        playwright.expect(rows).to_have_count(7)
    assert not page.locator("#filter-device").is_visible(), "a filter of one value has no use"

    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(paper)
    page.click("#theme")
    assert page.get_attribute("#theme", "aria-pressed") == "true"
    assert page.evaluate(paper) != light
    page.reload()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.locator("#attention-table thead button", has_text="time, us").press("Enter")
    assert page.locator("#attention-table th[aria-sort=descending]").inner_text() == "time, us"
    assert page.evaluate("document.activeElement.textContent") == "time, us"


def test_a_benchmark_opens_its_history_and_the_keyboard_reads_its_points(
    browse: Open, tmp_path: Path
) -> None:
    page = browse(report_files.write_files(tmp_path))
    page.locator("#changes-table button.open").press("Enter")
    assert page.evaluate("document.activeElement.id") == "history-benchmark"
    chart = page.locator("#history-plot")
    assert chart.locator("circle.dot").count() == 2
    picture = chart.locator(".picture")
    picture.focus()
    picture.press("ArrowRight")
    assert "oldoldold (1 Jan): 1.00 us" in chart.locator("output").text_content()
    picture.press("End")
    assert "newnewnew (2 Jan): 2.00 us" in chart.locator("output").text_content()
    assert "1.00× over torch" in chart.locator(".tip").text_content()
    picture.press("Escape")
    assert not chart.locator(".tip").is_visible()


def test_what_a_file_lacks_is_not_shown(browse: Open) -> None:
    page = browse([synthetic_history.SOURCE])
    assert hidden_sections(page) == {"roofline", "overhead", "changes", "history", "profiles"}
    assert not page.locator("#headline-plot .line").count(), "a history of one run is no history"
    assert page.locator("#headline-plot .dot").count() == 132
    assert page.locator(".sparkline").count() == 0
    assert "yardstick" not in page.locator("#suites-table").inner_text()


def test_thirty_runs_have_lines_sparklines_and_whole_labels(browse: Open, tmp_path: Path) -> None:
    page = browse(synthetic_history.write_history(tmp_path))
    assert hidden_sections(page) == {"roofline", "overhead", "profiles"}
    assert page.locator("#suites-table .sparkline").count() == 12
    assert page.locator("#headline-plot [data-group=all] .line").count() > 20
    ticks = page.locator("#headline-plot .tick").all_text_contents()
    assert {"1", "2"} <= set(ticks) or "1.2" in ticks
    for viewport in (DESKTOP, PHONE):
        page.set_viewport_size(viewport)
        page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
        page.wait_for_function("document.querySelectorAll('#speed-charts svg').length >= 12")
        cut = page.evaluate(
            """() => [...document.querySelectorAll('.picture > svg')].flatMap((picture) => {
                 const box = picture.getBoundingClientRect();
                 return [...picture.querySelectorAll('text')].filter((each) => {
                   const text = each.getBoundingClientRect();
                   const outside = [box.left - text.left, text.right - box.right, box.top - text.top];
                   return Math.max(...outside, text.bottom - box.bottom) > 1;
                 }).map((each) => each.textContent);
               })"""
        )
        assert cut == []
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    shown = page.evaluate("document.body.innerText")
    assert [word for word in PRIVATE if word in shown] == []


@pytest.mark.parametrize(("viewport", "scheme"), [(DESKTOP, "light"), (DESKTOP, "dark"), (PHONE, "light")])
def test_axe_finds_no_violation_and_finds_a_planted_one(
    browse: Open, tmp_path: Path, viewport: dict[str, int], scheme: str
) -> None:
    package = importlib.import_module("axe_playwright_python")
    source = (Path(package.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
    trace = trace_files.write_trace(tmp_path / "train.json")
    runs = tmp_path / "runs"
    runs.mkdir()
    files = synthetic_history.write_history(runs, runs=3)
    page = browse(files, viewport, scheme, profiles=[trace], bypass_csp=True)
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    page.evaluate(source)
    found = page.evaluate("axe.run()")
    assert [(each["id"], each["nodes"][0]["html"]) for each in found["violations"]] == []
    assert len(found["passes"]) > 20
    page.evaluate("document.querySelector('main').append(document.createElement('button'))")
    assert [each["id"] for each in page.evaluate("axe.run('main > button')")["violations"]] == ["button-name"]


def test_a_profile_has_a_flame_graph_a_timeline_operators_and_memory(browse: Open, tmp_path: Path) -> None:
    page = browse([], profiles=[trace_files.write_trace(tmp_path / "train.json")])
    shown = "[...document.querySelectorAll('section')].filter((each) => each.offsetParent)"
    assert page.evaluate(f"{shown}.map(({{ id }}) => id)") == ["profiles"]
    assert "Predicted by tt.perf.plan: 14.0 us on h200" in page.locator("#profile-sentences").inner_text()
    assert page.locator("#operators-table tbody tr").first.inner_text().split()[-1] == "60.0"
    assert page.locator("#memory-plot polygon.area").count() == 2

    flame = page.locator("#flame-plot")
    assert flame.locator(".block").count() == 11, "the kernel takes no time of the host"
    flame.locator(".block", has_text="nn.Module: Net_0").first.click()
    playwright.expect(flame.locator(".block", has_text="MmBackward0")).to_have_count(0)
    assert page.locator("#flame-whole").is_enabled()
    page.click("#flame-whole")
    playwright.expect(flame.locator(".block")).to_have_count(11)
    page.select_option("#flame-clock", "device")
    playwright.expect(flame.locator(".block", has_text="mm_kernel")).to_have_count(1)
    playwright.expect(flame.locator(".block", has_text="aten::add")).to_have_count(0)

    timeline = page.locator("#timeline-plot")
    assert timeline.locator(".block").count() == 16
    picture = timeline.locator(".picture")
    picture.focus()
    for _ in range(3):
        picture.press("ArrowRight")
    said = timeline.locator("output").text_content()
    assert said == "aten::mm: 20.0 us, from 15.0 us; float32[4x8]; forward (net.py:3)"
    picture.press("Enter")
    assert page.locator("#timeline-note").text_content() == "14.6 us to 35.4 us of 200 us"
    page.click("#timeline-out")
    assert page.locator("#timeline-note").text_content() == "4.20 us to 45.8 us of 200 us"
    page.click("#timeline-whole")
    assert page.locator("#timeline-note").text_content() == "0 us to 200 us of 200 us"
    page.set_viewport_size(PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
