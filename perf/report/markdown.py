"""Report as a few Markdown tables for the log of a build: suites, changes, the worst rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..suite.display import number

CHANGES = 20
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
    last, totals = data["files"][-1], data["totals"]
    machine, settings = last["machine"], last["settings"]
    files = ", ".join(escaped(file["label"]) for file in data["files"])
    where = ", ".join(escaped(machine[name]) for name in ("gpu", "processor", "python") if machine.get(name))
    lines = [
        "# triten.perf",
        "",
        f"{files}: {where}; threads {escaped(settings.get('threads'))}"
        f"{'; quick' if settings.get('quick') else ''}",
        "",
        f"{totals['timed']} of {totals['rows']} rows timed; bars: {totals['met']} met, {totals['missed']} missed; "
        f"{totals['failed']} failed or wrong. A ratio is triten's time over the peer's.",
    ]
    return "\n".join([*lines, *(f"\n**Note:** {escaped(doubt)}" for doubt in data["doubts"])])


def _suites(data: dict[str, Any]) -> str:
    peers = data["peers"]
    rows = []
    for each in [*data["suites"], {"suite": "all", "device": "", "bar": None, **data["totals"]}]:
        means = [each["means"].get(peer) for peer in peers]
        bar = each["bar"]
        rows.append(
            [
                escaped(each["suite"]),
                escaped(each["device"]),
                f"{each['timed']}/{each['rows']}",
                str(each["met"]),
                str(each["missed"]),
                str(each["failed"]),
                *("" if mean is None else f"{mean['mean']:.2f} ({mean['count']})" for mean in means),
                "" if bar is None else f"{bar['least']:.2f}, aim {bar['aim']:.2f}: {bar['verdict']}",
            ]
        )
    heads = [
        "suite", "device", "timed", "met", "missed", "failed", *(f"mean / {escaped(peer)}" for peer in peers),
        "mean's bar",
    ]  # fmt: skip
    return "## Suites\n\nGeometric means of the ratios, of how many rows.\n\n" + table(heads, rows, 2)


def _changes(data: dict[str, Any]) -> str:
    if len(data["files"]) < 2:
        return ""
    first, last = (escaped(data["files"][index]["label"]) for index in (0, -1))
    head = f"## Slower from {first} to {last}\n\n"
    slower = [each for each in data["changes"] if each["regression"]]
    faster = sum(each["verdict"] == "faster" for each in data["changes"])
    said = f"{len(slower)} rows slower by more than {data['threshold']:.0%}, {faster} faster."
    rows = [
        [
            escaped(data["rows"][each["row"]]["label"]),
            number(each["base_seconds"] * 1e6),
            number(each["new_seconds"] * 1e6),
            f"{each['ratio']:.2f}",
            f"{each['low']:.2f} to {each['high']:.2f}",
        ]
        for each in slower[:CHANGES]
    ]
    if not rows:
        return head + said
    more = f"\n\nand {len(slower) - CHANGES} more" if len(slower) > CHANGES else ""
    return f"{head}{said}\n\n{table(['row', 'before, us', 'after, us', 'ratio', 'interval'], rows)}{more}"


def _worst(data: dict[str, Any]) -> str:
    rows = []
    for index in data["worst"]:
        row = data["rows"][index]
        peer = row["accepted_peer"]
        ratio = row["ratios"].get(peer) if peer else None
        most = row["bar"]["most"] if row["bar"] else None
        accepted = "level" if most is None else f"{most:.2f}" if peer else f"{number(most * 1e6)} us"
        rows.append(
            [
                escaped(row["label"]),
                number(row["summary"]["triten"]["median"] * 1e6),
                f"{ratio['ratio']:.2f} / {escaped(peer)}" if ratio else "",
                accepted,
                f"{row['excess']:.2f}",
                escaped(row["verdict"]),
            ]
        )
    heads = ["row", "us", "ratio", "accepted", "times accepted", "verdict"]
    return f"## The worst {len(rows)}\n\n{table(heads, rows)}" if rows else ""
