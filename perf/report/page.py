"""The report as one HTML page with everything in it: data, style, script, and the library that plots.

The plots are plotly's, inlined. It makes the page 4.8 MB; a page is written for a run and opened from a disk or a
build's artefacts, where that is a fraction of a second, and logarithmic axes, hover labels, zoom, legends that hide a
series and sharp text on every screen come from a library that others keep up. Plots of our own would be some hundred
lines of script to maintain for less. What plotly does not give, use by keyboard and reading aloud, no picture gives:
every plot has its table.

Nothing that comes from a result file becomes markup. The data stands in the page as JSON in which `<`, `>` and `&` are
escapes, so that no element ends in it; the script sets text, never HTML; and the page's policy names the two scripts
that may run by their hashes and allows no connection, so that a page can neither load nor send anything even if one of
these fails.
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
    """The page cannot be made; the message says what is needed."""


def format_page(data: Mapping[str, Any]) -> str:
    """What `report_data` arranged, as a page. Raises PageError where plotly is not installed."""
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
    """The source of plotly.js that the Python package brings along. Raises PageError where there is none."""
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
