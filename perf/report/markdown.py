"""Report as Markdown for the log of a build: the summary, and tables of suites, changes and the slowest benchmarks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..suite.display import number
from ..suite.results import MET, MISSED, UNSURE
from .changes import FASTER, SLOWER

CHANGES = 20
RESULTS = {MET: "met", MISSED: "missed", UNSURE: "inconclusive"}
# Characters that Markdown or HTML would read as markup. A table cell ends with the line.
_MARKUP = re.compile(r"[\\`*_{}\[\]|~$]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def format_markdown(data: dict[str, Any]) -> str:
    """Format the data of `report_data` as Markdown."""
    sections = [_head(data), _suites(data), _changes(data), _worst(data)]
    return "\n\n".join(section for section in sections if section) + "\n"


def escaped(value: object) -> str:
    r"""Escape a text from a file, so that it shows literally.

    Example:
        >>> from triten.perf.report.markdown import escaped
        >>> escaped("<b> a|b")
        '&lt;b&gt; a\\|b'
    """
    text = _CONTROL.sub(" ", str(value)).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKUP.sub(r"\\\g<0>", text)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], texts: int = 1) -> str:
    """Return a table of markdown; the first `texts` columns are left-aligned, the others right."""
    rules = [":--" if index < texts else "--:" for index in range(len(heads))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, rules, *rows))


def _head(data: dict[str, Any]) -> str:
    last = data["files"][-1]
    machine, settings = last["machine"], last["settings"]
    files = ", ".join(escaped(file["label"]) for file in data["files"])
    where = ", ".join(escaped(machine[name]) for name in ("gpu", "processor", "python") if machine.get(name))
    lines = [
        "# triten performance",
        "",
        f"{files}: {where}; threads {escaped(settings.get('threads'))}"
        f"{'; quick' if settings.get('quick') else ''}",
        "",
        *(f"- {escaped(sentence)}" for sentence in data["summary"]["sentences"]),
    ]
    return "\n".join([*lines, *(f"\n**Note:** {escaped(doubt)}" for doubt in data["doubts"])])


def _suites(data: dict[str, Any]) -> str:
    peers = data["peers"]
    rows = []
    for each in [*data["suites"], {"suite": "all", "device": "", "bar": None, **data["totals"]}]:
        means = [each["means"].get(peer) for peer in peers]
        rows.append(
            [
                escaped(each["suite"]),
                escaped(each["device"]),
                f"{each['timed']}/{each['rows']}",
                *(str(each[name]) for name in ("met", "missed", "unsure", "failed")),
                *("" if mean is None else f"{1 / mean['mean']:.2f} ({mean['count']})" for mean in means),
                _mean_target(each["bar"]),
            ]
        )
    heads = [
        "suite", "device", "timed", "met", "missed", "inconclusive", "failed",
        *(f"speed-up over {escaped(peer)}" for peer in peers), "target of the mean",
    ]  # fmt: skip
    return "## Suites\n\nGeometric means of the speed-ups, with the number of benchmarks.\n\n" + table(
        heads, rows, 2
    )


def _mean_target(bar: dict[str, Any] | None) -> str:
    if bar is None:
        return ""
    return f"{1 / bar['least']:.2f}, aim {1 / bar['aim']:.2f}: {bar['verdict'].lower()}"


def _changes(data: dict[str, Any]) -> str:
    if not data["changes"]:
        return ""
    slower = [each for each in data["changes"] if each["verdict"] == SLOWER]
    faster = sum(each["verdict"] == FASTER for each in data["changes"])
    sentence = (
        f"{len(slower)} benchmarks slower by more than {data['threshold']:.0%} and beyond the noise, {faster} faster, "
        f"of {len(data['changes'])}."
    )
    head = f"## Slower than before\n\n{sentence}"
    rows = [
        [
            escaped(data["rows"][each["row"]]["label"]),
            escaped(data["files"][each["base_file"]]["label"]),
            number(each["base_seconds"] * 1e6),
            number(each["new_seconds"] * 1e6),
            f"{each['ratio']:.2f}",
            f"{each['low']:.2f} to {each['high']:.2f}",
        ]
        for each in slower[:CHANGES]
    ]
    if not rows:
        return head
    more = f"\n\nand {len(slower) - CHANGES} more" if len(slower) > CHANGES else ""
    heads = ["benchmark", "since", "before, us", "now, us", "time ratio", "interval"]
    return f"{head}\n\n{table(heads, rows, 2)}{more}"


def _worst(data: dict[str, Any]) -> str:
    """Return the benchmarks farthest from their targets, or without a target from the baseline's time."""
    rows = []
    for index in data["worst"]:
        row = data["rows"][index]
        peer, bar = row["accepted_peer"], row["bar"]
        ratio = row["ratios"].get(peer) if peer else None
        target = (
            ""
            if bar is None
            else f"at least {1 / bar['most']:.2f}"
            if peer
            else f"at most {number(bar['most'] * 1e6)} us"
        )
        rows.append(
            [
                escaped(row["label"]),
                number(row["summary"]["triten"]["median"] * 1e6),
                f"{1 / ratio['ratio']:.2f} over {escaped(peer)}" if ratio else "",
                target,
                escaped(RESULTS.get(row["verdict"], row["verdict"])),
            ]
        )
    heads = ["benchmark", "us", "speed-up", "target", "result"]
    return f"## Farthest from the target or the baseline\n\n{table(heads, rows)}" if rows else ""
