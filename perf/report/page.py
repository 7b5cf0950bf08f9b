"""Report as one self-contained HTML page: data, style, script, and the plotting library.

The plots use an inlined copy of plotly, which makes the page 4.8 MB. A page is written for a run and opened
from a disk or a build's artifacts, where loading it takes a fraction of a second. In return, a maintained
library provides logarithmic axes, hover labels, zoom, legends that hide a series, and sharp text. Custom
plots would need some hundred lines of script for less. Plots support neither keyboards nor screen readers, so
every plot also has its table.

No content of a result file becomes markup. The data is JSON in which `<`, `>` and `&` are escaped, so that it
cannot close an element. The script sets text, never HTML. The page's policy allows only two scripts, by their
hashes, and no connection. The page therefore cannot load or send anything even if another protection fails.
"""

from __future__ import annotations

import base64
import hashlib
import html
import importlib.util
import json
import re
from collections.abc import Mapping
from importlib import resources
from typing import Any

from ..refusal import RefusalError

SCRIPTS = ("filters.js", "tables.js", "plots.js", "main.js")
_PLACE = re.compile(r"\{\{(\w+)\}\}")


class PageError(RefusalError):
    """Error of a page that cannot be created; the message says what is needed."""


def format_page(data: Mapping[str, Any]) -> str:
    """Format the data of `report_data` as a page. Raise PageError if plotly is not installed."""
    library = plotting_library()
    ours = "\n".join(_own(name) for name in SCRIPTS)
    hashes = " ".join(_hash(script) for script in (library, ours))
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    labels = " to ".join(dict.fromkeys(str(data["files"][index]["label"]) for index in (0, -1)))
    parts = {
        "policy": html.escape(policy),
        "title": html.escape(f"triten.perf: {labels}"),
        "style": _own("page.css"),
        "data": json_in_html(data),
        "library": library,
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


def plotting_library() -> str:
    """Return the source of plotly.js in the Python package. Raise PageError without the package."""
    if importlib.util.find_spec("plotly") is None:
        raise PageError(
            "the page's plots need plotly: pip install plotly (extra `perf`); --format markdown and json do not"
        )
    from plotly.offline import get_plotlyjs

    source: str = get_plotlyjs()
    return source


def _own(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
