"""The live page works in Chromium: a run that arrives, its benchmarks, phone, dark, and accessibility."""

import importlib
import shutil
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from triten.perf.refusal import RefusalError
from triten.perf.report.screenshot import take_live
from triten.perf.serve.server import PerfServer
from triten.perf.serve.watching import Watcher
from triten.perf.suite.progress_file import ProgressFile, progress_path
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

        state = runs.first.locator("td").nth(2)
        assert state.inner_text() == "incomplete"
        with ProgressFile(progress_path(folder / "new.json")) as progress:
            progress.write(title="a * b", done=1, total=2)
            server.watcher.poll()
            playwright.expect(state).to_have_text("running")
            assert page.locator("#progress").inner_text() == "new.json: benchmark 2 of 2: a * b"
        server.watcher.poll()
        playwright.expect(state).to_have_text("incomplete")

        page.set_viewport_size({"width": 390, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        color = "getComputedStyle(document.querySelector('{}')).color"
        assert page.evaluate(color.format("#rows td.bad")) != page.evaluate(
            color.format("#rows td:not([class])")
        )
        left = "parseFloat(getComputedStyle(document.querySelector('{}')).paddingLeft)"
        assert page.evaluate(left.format("#runs td")) == page.evaluate(left.format("thead th"))
        shown = page.evaluate("document.body.innerText").lower()
        assert [word for word in ("row", "peer", "verdict", "unsure", "bar ") if word in shown] == []
        browser.close()
    assert said == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation_and_finds_a_planted_one(served: tuple[PerfServer, Path], scheme: str) -> None:
    package = importlib.import_module("axe_playwright_python")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_context(color_scheme=scheme, bypass_csp=True).new_page()
        page.goto(served[0].url)
        page.wait_for_selector("#rows tr")
        page.evaluate((Path(package.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
        found = page.evaluate("axe.run()")
        assert [(each["id"], each["nodes"][0]["html"]) for each in found["violations"]] == []
        page.evaluate("document.querySelector('header').append(document.createElement('button'))")
        assert [each["id"] for each in page.evaluate("axe.run()")["violations"]] == ["button-name"]
        browser.close()


def test_pictures_of_the_page_have_the_size_of_their_windows(
    served: tuple[PerfServer, Path], tmp_path: Path
) -> None:
    paths = take_live(served[0].url, tmp_path / "pictures")
    # The IHDR chunk of a PNG holds width and height.
    sizes = {path.name: struct.unpack(">II", path.read_bytes()[16:24]) for path in paths}
    assert sizes == {"live.png": (1280, 800), "live-dark.png": (1280, 800), "live-phone.png": (390, 844)}
    with pytest.raises(RefusalError, match=r"cannot show http://127\.0\.0\.1:1/: .*"):
        take_live("http://127.0.0.1:1/", tmp_path)
