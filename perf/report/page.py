"""Report as one self-contained HTML page: data, style and script.

The charts are SVG that the page's script renders (`chart.js`). A plotting library would make each page several
megabytes larger. The charts work by pointer and by keyboard, and every chart also has a table.

No content of a result file becomes markup. The data is JSON in which `<`, `>` and `&` are escaped, so that it
cannot close an element. The script sets text, never HTML. The page's policy allows only its own script, by its
hash, and no connection. The page therefore cannot load or send anything even if another protection fails.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping
from importlib import resources
from typing import Any

from ..refusal import RefusalError

SCRIPTS = (
    "base.js",
    "chart.js",
    "tables.js",
    "headline.js",
    "benchmarks.js",
    "history.js",
    "profiles.js",
    "main.js",
)
# Significant digits of the page's numbers.
DIGITS = 4
# Fields of a row that only `--format json` has.
UNUSED = ("files", "threads")
_PLACE = re.compile(r"\{\{(\w+)\}\}")


class PageError(RefusalError):
    """Error of a page that cannot be created; the message says what is needed."""


def format_page(data: Mapping[str, Any]) -> str:
    """Format the data of `report_data` as a page."""
    ours = "\n".join(_own(name) for name in SCRIPTS)
    policy = (
        f"default-src 'none'; script-src {_hash(ours)}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    shown = [file["label"] for file in data["files"]] or [each["name"] for each in data["profiles"]]
    labels = " to ".join(dict.fromkeys(str(shown[index]) for index in (0, -1)))
    parts = {
        "policy": html.escape(policy),
        "title": html.escape(f"triten performance: {labels}"),
        "style": _own("page.css"),
        "data": json_in_html(page_data(data)),
        "script": ours,
    }
    return _PLACE.sub(lambda place: parts[place[1]], _own("page.html"))


def json_in_html(data: Any) -> str:
    r"""JSON that no HTML parser takes for markup, wherever it stands in a page.

    Example:
        >>> from triten.perf.report.page import json_in_html
        >>> json_in_html("</script>")
        '"\\u003c/script\\u003e"'
    """
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def page_data(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of the data that the page shows, with rounded numbers.

    Example:
        >>> from triten.perf.report.page import page_data
        >>> page_data({"rows": [{"excess": 1.23456, "threads": 2}]})
        {'rows': [{'excess': 1.235}]}
    """
    rows = [{name: value for name, value in row.items() if name not in UNUSED} for row in data["rows"]]
    shown: dict[str, Any] = _rounded({**data, "rows": rows})
    return shown


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, Mapping):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    return value


def _own(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
