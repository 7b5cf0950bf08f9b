"""The picture of the dashboard in docs/performance.md, from a result file: needs playwright, plotly and a Chromium.

python -m triten.perf.report.screenshot RESULT.json [-o perf/report/screenshot.png]
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import shutil
import sys
import tempfile
from pathlib import Path

from ..refusal import RefusalError, require_writable
from .data import report_data
from .page import format_page

PICTURE = Path(__file__).with_name("screenshot.png")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WIDTH, HEIGHT = 1280, 1800


def take(result: Path, picture: Path) -> None:
    """Take a screenshot of the top of a result file's report. Raise RefusalError if that is impossible."""
    if importlib.util.find_spec("playwright") is None:
        raise RefusalError("the screenshot needs playwright: pip install playwright")
    require_writable(picture)
    page = format_page(report_data([result]))
    playwright = importlib.import_module("playwright.sync_api")
    with tempfile.TemporaryDirectory() as folder, playwright.sync_playwright() as started:
        path = Path(folder) / "dashboard.html"
        path.write_text(page, encoding="utf-8")
        installed = next(filter(None, map(shutil.which, BROWSERS)), None)
        browser = started.chromium.launch(executable_path=installed, args=["--no-sandbox"])
        shown = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        shown.goto(path.as_uri())
        shown.wait_for_selector("#speed-plot .main-svg")
        shown.screenshot(path=picture)
        browser.close()


def main() -> int:
    """Take the screenshot for the command line; return exit status 2 if that is impossible."""
    parser = argparse.ArgumentParser(prog="python -m triten.perf.report.screenshot", description=__doc__)
    parser.add_argument("result", type=Path, help="a result file of `python -m triten.perf run`")
    parser.add_argument(
        "-o", "--output", type=Path, default=PICTURE, metavar="FILE", help="default: %(default)s"
    )
    arguments = parser.parse_args()
    try:
        take(arguments.result, arguments.output)
    except RefusalError as error:
        print(f"screenshot: {error}", file=sys.stderr)
        return 2
    print(f"written to {arguments.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
