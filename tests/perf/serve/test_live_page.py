"""The live page works in Chromium: a run that arrives, its benchmarks, phone, dark, and accessibility."""

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from triten.perf.serve.server import PerfServer
from triten.perf.serve.watching import Watcher
from triten.perf.suite.results import Bar, Result, Row

playwright = pytest.importorskip("playwright.sync_api", reason="the page's test needs playwright")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
HOSTILE = "<img src=x onerror=alert(1)>"


def write_run(path: Path, day: int, names: dict[str, float]) -> None:
    rows = [
        Row(
            "overhead", "add", name, "16x16", "float32", "cpu", bar=Bar("torch", 0.8),
            samples={"triten": [1e-6] * 8, "torch": [ratio * 1e-6] * 8},
        )
        for name, ratio in names.items()
    ]  # fmt: skip
    commit = {"hash": "a" * 40, "time": f"2026-01-0{day}T00:00:00+00:00", "dirty": False}
    started = f"2026-01-0{day}T10:00:00+00:00"
    Result({"host": "h"}, {"triten": "0"}, {"device": "cpu"}, commit, started=started, rows=rows).write(path)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[PerfServer, Path]]:
    folder = tmp_path / "results"
    folder.mkdir()
    write_run(folder / "old.json", 1, {"a + b": 2.0, HOSTILE: 0.5})
    watcher = Watcher([folder], None)
    watcher.poll()
    server = PerfServer(("127.0.0.1", 0), watcher)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server, folder
    server.shutdown()
    server.server_close()


def test_runs_arrive_and_their_benchmarks_are_shown(served: tuple[PerfServer, Path]) -> None:
    server, folder = served
    said: list[str] = []
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(server.url)
        benchmarks, runs = page.locator("#rows tr"), page.locator("#runs tr")
        playwright.expect(benchmarks).to_have_count(2)
        assert page.locator("#benchmarks-title").inner_text() == "Benchmarks of old.json"
        assert benchmarks.nth(0).locator("td").all_inner_texts() == [
            "1 us",
            "2.00× [2.00, 2.00] over torch",
            "target met",
        ]
        assert "target missed" in benchmarks.nth(1).inner_text() and HOSTILE in benchmarks.nth(1).inner_text()

        write_run(folder / "new.json", 2, {"a * b": 1.0})
        server.watcher.poll()
        playwright.expect(runs).to_have_count(2)
        assert benchmarks.count() == 2, "the run that is shown stays"
        runs.first.locator("button").click()
        playwright.expect(benchmarks).to_have_count(1)
        assert page.locator("#runs tr[aria-current=true]").count() == 1

        page.set_viewport_size({"width": 390, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        shown = page.evaluate("document.body.innerText").lower()
        assert [word for word in ("row", "peer", "verdict", "unsure", "bar ") if word in shown] == []
        _accessible(browser, server.url)
        browser.close()
    assert said == []


def _accessible(browser: Any, url: str) -> None:
    """Check the dark page by axe, where it is installed."""
    try:
        import axe_playwright_python
    except ImportError:
        return
    page = browser.new_context(color_scheme="dark", bypass_csp=True).new_page()
    page.goto(url)
    page.wait_for_selector("#rows tr")
    page.evaluate((Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("axe.run()")
    assert [(each["id"], each["nodes"][0]["html"]) for each in found["violations"]] == []
