"""Pictures of the dashboard's first screen for docs/performance.md: desktop, dark and phone.

Needs playwright and a Chromium. Several result files are a history, as for `report`.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ..refusal import RefusalError, require_writable_folder
from ..suite.results import ResultFileError
from .data import report_data
from .page import format_page

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


class Screen(NamedTuple):
    """A picture's file name, the size of its window, and its colors."""

    name: str
    width: int
    height: int
    scheme: str


SCREENS = (
    Screen("dashboard.png", 1280, 800, "light"),
    Screen("dashboard-dark.png", 1280, 800, "dark"),
    Screen("dashboard-phone.png", 390, 844, "light"),
)


def take(results: Sequence[Path], folder: Path, screens: Sequence[Screen] = SCREENS) -> list[Path]:
    """Take the pictures of a report, and return their paths. Raise RefusalError if that is impossible."""
    if importlib.util.find_spec("playwright") is None:
        raise RefusalError("the screenshots need playwright: pip install playwright")
    require_writable_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    page = format_page(report_data(results))
    playwright = importlib.import_module("playwright.sync_api")
    with tempfile.TemporaryDirectory() as temporary, playwright.sync_playwright() as started:
        path = Path(temporary) / "dashboard.html"
        path.write_text(page, encoding="utf-8")
        installed = next(filter(None, map(shutil.which, BROWSERS)), None)
        browser = started.chromium.launch(executable_path=installed, args=["--no-sandbox"])
        for screen in screens:
            size = {"width": screen.width, "height": screen.height}
            shown = browser.new_page(viewport=size, color_scheme=screen.scheme)
            shown.goto(path.as_uri())
            shown.wait_for_selector("#headline-plot svg", state="attached")
            shown.screenshot(path=folder / screen.name)
            shown.close()
        browser.close()
    return [folder / screen.name for screen in screens]


def main() -> int:
    """Take the pictures for the command line; return exit status 2 if that is impossible."""
    parser = argparse.ArgumentParser(prog="python -m triten.perf.report.screenshot", description=__doc__)
    parser.add_argument("results", nargs="+", type=Path, help="result files of `python -m triten.perf run`")
    parser.add_argument("--folder", type=Path, default=Path(), help="default: the current one")
    names = [screen.name for screen in SCREENS]
    parser.add_argument(
        "--only", nargs="+", choices=names, default=names, metavar="NAME", help="default: all"
    )
    arguments = parser.parse_args()
    try:
        screens = [screen for screen in SCREENS if screen.name in arguments.only]
        paths = take(arguments.results, arguments.folder, screens)
    except (RefusalError, ResultFileError) as error:
        print(f"screenshot: {error}", file=sys.stderr)
        return 2
    print(f"written: {', '.join(map(str, paths))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
