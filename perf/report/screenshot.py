"""Pictures of the dashboard's or the live page's first screen for docs/performance.md: desktop, dark and phone.

Needs playwright and a Chromium. Several result files are a history, as for `report`. `--live` takes the pictures of a
running `python -m triten.perf serve`.
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
LIVE_SCREENS = tuple(screen._replace(name=screen.name.replace("dashboard", "live")) for screen in SCREENS)


def take(results: Sequence[Path], folder: Path, screens: Sequence[Screen] = SCREENS) -> list[Path]:
    """Take the pictures of a report, and return their paths. Raise RefusalError if that is impossible."""
    page = format_page(report_data(results))
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "dashboard.html"
        path.write_text(page, encoding="utf-8")
        return _photograph(path.as_uri(), "#headline-plot svg", folder, screens)


def take_live(url: str, folder: Path, screens: Sequence[Screen] = LIVE_SCREENS) -> list[Path]:
    """Take the pictures of a running server's page, and return their paths. Raise RefusalError if it fails."""
    return _photograph(url, "#rows tr", folder, screens)


def _photograph(url: str, ready: str, folder: Path, screens: Sequence[Screen]) -> list[Path]:
    if importlib.util.find_spec("playwright") is None:
        raise RefusalError("the screenshots need playwright: pip install playwright")
    require_writable_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    playwright = importlib.import_module("playwright.sync_api")
    with playwright.sync_playwright() as started:
        installed = next(filter(None, map(shutil.which, BROWSERS)), None)
        browser = started.chromium.launch(executable_path=installed, args=["--no-sandbox"])
        try:
            for screen in screens:
                size = {"width": screen.width, "height": screen.height}
                shown = browser.new_page(viewport=size, color_scheme=screen.scheme)
                shown.goto(url)
                shown.wait_for_selector(ready, state="attached")
                shown.screenshot(path=folder / screen.name)
                shown.close()
        except playwright.Error as error:
            raise RefusalError(f"cannot show {url}: {error.message.splitlines()[0]}") from None
        finally:
            browser.close()
    return [folder / screen.name for screen in screens]


def main() -> int:
    """Take the pictures for the command line; return exit status 2 if that is impossible."""
    parser = argparse.ArgumentParser(prog="python -m triten.perf.report.screenshot", description=__doc__)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "results", nargs="*", default=[], type=Path, help="result files of `python -m triten.perf run`"
    )
    source.add_argument("--live", metavar="URL", help="address that `python -m triten.perf serve` printed")
    parser.add_argument("--folder", type=Path, default=Path(), help="default: the current one")
    names = [screen.name for screen in SCREENS + LIVE_SCREENS]
    parser.add_argument(
        "--only", nargs="+", choices=names, default=names, metavar="NAME", help="default: all"
    )
    arguments = parser.parse_args()
    try:
        if arguments.live:
            screens = [screen for screen in LIVE_SCREENS if screen.name in arguments.only]
            paths = take_live(arguments.live, arguments.folder, screens)
        else:
            screens = [screen for screen in SCREENS if screen.name in arguments.only]
            paths = take(arguments.results, arguments.folder, screens)
    except (RefusalError, ResultFileError) as error:
        print(f"screenshot: {error}", file=sys.stderr)
        return 2
    print(f"written: {', '.join(map(str, paths))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
