"""Markdown of a decision, for a job summary or a comment on a pull request."""

from __future__ import annotations

from collections.abc import Sequence

from ..report.markdown import escaped, table
from ..suite.display import number
from ..suite.results import RowKey
from .decision import INCONCLUSIVE, KINDS, QUICKER, SLOWER, UNCHANGED, Decision, JudgedRow, label

# A comment on GitHub has at most 65536 characters.
MAX_CHARACTERS = 60_000
MAX_ROWS = 50
TITLES = {
    "passed": "no benchmark became slower",
    "failed": "benchmarks became slower",
    "inconclusive": "inconclusive",
}


def format_decision(decision: Decision) -> str:
    """Format a decision as Markdown: the outcome, changed rows, and the others folded in."""
    title = TITLES[decision.outcome]
    if decision.broken and not decision.counts.get(SLOWER):
        title = "benchmarks fail"
    parts = [f"## Performance: {title}", _summary(decision)]
    if decision.broken:
        rows = [[escaped(key), escaped(note)] for key, note in list(decision.broken.items())[:MAX_ROWS]]
        parts.append("**Broken**\n\n" + table(["benchmark", "note"], rows, 2))
    for kind in (SLOWER, QUICKER):
        rows_of_kind = [row for row in decision.rows if row.kind == kind]
        if rows_of_kind:
            ordered = rows_of_kind if kind == SLOWER else rows_of_kind[::-1]
            parts.append(f"**{kind.capitalize()}**\n\n" + _table(ordered))
    for kind in (INCONCLUSIVE, UNCHANGED):
        rows_of_kind = [row for row in decision.rows if row.kind == kind]
        if rows_of_kind:
            parts.append(_folded(f"{len(rows_of_kind)} {kind}", _table(rows_of_kind)))
    for side, keys in (("baseline", decision.only_base), ("new result", decision.only_new)):
        if keys:
            parts.append(_folded(f"{len(keys)} only in the {side}", _names(keys)))
    parts += [f"**Note:** {escaped(note)}" for note in decision.notes]
    text = ""
    for part in parts:
        if len(text) + len(part) > MAX_CHARACTERS:
            return f"{text}More benchmarks are in the JSON output.\n"
        text += f"{part}\n\n"
    return text.rstrip("\n") + "\n"


def _summary(decision: Decision) -> str:
    counts = ", ".join(f"{decision.counts[kind]} {kind}" for kind in KINDS if kind in decision.counts)
    mean = "" if decision.mean is None else f" Geometric mean of the ratios: {decision.mean:.3f}."
    return (
        f"`{_code(label(decision.new))}` against `{_code(label(decision.base))}`: {counts}.{mean} "
        f"Tolerance {decision.tolerance:.0%}; the intervals hold for all benchmarks together with "
        f"{decision.new.confidence:.0%} confidence."
    )


def _table(rows: Sequence[JudgedRow]) -> str:
    cells = [
        [
            escaped(row.comparison.key), number(row.comparison.base_seconds * 1e6),
            number(row.comparison.new_seconds * 1e6), f"{row.comparison.ratio.estimate:.3f}", _interval(row),
        ]
        for row in rows[:MAX_ROWS]
    ]  # fmt: skip
    text = table(["benchmark", "base us", "new us", "ratio", "interval"], cells)
    return text + (f"\n\n{len(rows) - MAX_ROWS} more benchmarks." if len(rows) > MAX_ROWS else "")


def _interval(row: JudgedRow) -> str:
    low, high = row.comparison.ratio.low, row.comparison.ratio.high
    return "" if low is None or high is None else f"{low:.3f} to {high:.3f}"


def _names(keys: Sequence[RowKey]) -> str:
    lines = [f"- {escaped(key)}" for key in keys[:MAX_ROWS]]
    return "\n".join(lines + ([f"- {len(keys) - MAX_ROWS} more"] if len(keys) > MAX_ROWS else []))


def _folded(summary: str, body: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"


def _code(text: str) -> str:
    """Keep only the characters of labels: a code span has no escapes."""
    return "".join(character for character in text if character.isalnum() or character in "+-:. ")
