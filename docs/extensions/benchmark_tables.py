"""``{benchmarks}``: the committed result files of `perf/results/` as tables.

- ``{benchmarks} suite`` shows runs of the suite on a CPU by their geometric means.
- ``gpu`` shows runs on a GPU.
- ``aot`` shows kernels compiled ahead of time.
- ``expected`` shows a model's predictions for a GPU's rows.
- ``overview`` shows which machine was measured when, and a chart of the geometric means against PyTorch.

With ``:rows:``, every row of a run follows. ``{benchmarks} others`` names files of other kinds, so that none
is omitted silently.
"""

from __future__ import annotations

import html
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from pytorch_comparison import table
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from triten.perf.report.data import report_data
from triten.perf.suite.display import number

RESULTS = Path(__file__).parents[2] / "perf" / "results"


class Benchmarks(SphinxDirective):
    """The tables of each committed file of one kind, with the machine, the commit and the versions above them."""

    required_arguments = 1
    option_spec: ClassVar[Any] = {"rows": directives.flag}

    def run(self) -> list[nodes.Node]:
        kind = self.arguments[0]
        if kind == "overview":
            paths = sorted(RESULTS.glob("*.json"))
            for path in paths:
                self.env.note_dependency(str(path))
            return overview(
                [path for path in paths if kind_of(json.loads(path.read_text())) in ("gpu", "suite")]
            )
        found: list[nodes.Node] = []
        for path in sorted(RESULTS.glob("*.json")):
            self.env.note_dependency(str(path))
            content = json.loads(path.read_text())
            if kind_of(content) == kind:
                found += row_tables(path) if "rows" in self.options else TABLES[kind](path, content)
        return found or [nodes.paragraph("", "No result file of this kind is committed.")]


def kind_of(content: Any) -> str:
    if content.get("format") == "triten.perf.run":
        return "gpu" if content["machine"].get("gpu") else "suite"
    if content.get("format") == "triten.perf.expected":
        return "expected"
    return "aot" if "triton" in content and "faults" in content else "others"


def suite_tables(path: Path, content: Any) -> list[nodes.Node]:
    """Return the machine's description, and a table of the suites by their geometric means."""
    data = report_data([path])
    peers = data["peers"]
    machine, versions = content["machine"], content["versions"]
    commit = (content.get("commit") or {}).get("hash", "")[:9]
    where = machine.get("gpu") or f"{machine['processor']}, {machine['cores']} cores"
    said = ", ".join(f"{name} {version}" for name, version in versions.items() if name != "triten")
    head = nodes.paragraph(
        "",
        f"{where}; {machine['python']}; {said}; {content['settings']['threads']} threads; commit {commit}, "
        f"{content['started'][:10]}.",
    )
    heads = [
        "suite",
        "device",
        "benchmarks",
        *(f"mean ratio to {peer}" for peer in peers),
        "target",
        "result",
    ]
    body = [
        [
            each["suite"],
            each["device"],
            f"{each['timed']} of {each['rows']}",
            *(f"{each['means'][peer]['mean']:.2f}" if peer in each["means"] else "" for peer in peers),
            f"{each['bar']['least']:.2f}" if each["bar"] else "",
            each["bar"]["verdict"] if each["bar"] else "",
        ]
        for each in data["suites"]
    ]
    return [head, table(heads, body)]


CHART_PEER = "torch"
BAR_HEIGHT, LABEL_WIDTH, CHART_WIDTH, LONGEST = 18, 250, 700, 2.0
"""Pixels of the chart, and the ratio at its right edge; a longer bar ends there."""


def overview(paths: list[Path]) -> list[nodes.Node]:
    """Return a chart of each run's geometric means against PyTorch, and a table of the runs, the latest first."""
    runs = sorted(
        ((path, json.loads(path.read_text()), report_data([path])) for path in paths),
        key=lambda run: str(run[1]["started"]),
        reverse=True,
    )
    body, drawn = [], []
    for path, content, data in runs:
        machine = content["machine"]
        where = machine.get("gpu") or f"{machine['processor']}, {machine['cores']} cores"
        means = {
            each["suite"]: each["means"][CHART_PEER]["mean"]
            for each in data["suites"]
            if CHART_PEER in each["means"]
        }
        date, triton = content["started"][:10], content["versions"].get("triton", "")
        drawn.append((f"{where}, {date} ({path.stem})", means))
        body.append(
            [
                path.stem, where, date, (content.get("commit") or {}).get("hash", "")[:9],
                f"PyTorch {content['versions'].get(CHART_PEER, '-')}, Triton {triton or '-'}",
                str(sum(each["timed"] for each in data["suites"])),
            ]
        )  # fmt: skip
    chart = nodes.raw("", "".join(svg_chart(title, means) for title, means in drawn if means), format="html")
    return [chart, table(["result file", "machine", "date", "commit", "versions", "benchmarks timed"], body)]


def svg_chart(title: str, means: dict[str, float]) -> str:
    """Return a chart of ratios to PyTorch as HTML; the vertical line is at 1, PyTorch's time."""
    unit = (CHART_WIDTH - LABEL_WIDTH - 50) / LONGEST
    line = LABEL_WIDTH + unit
    height = BAR_HEIGHT * len(means) + 8
    said = ", ".join(f"{name} {mean:.2f}" for name, mean in means.items())
    parts = [
        f"<figure><figcaption>{html.escape(title)}: geometric mean of the time divided by PyTorch's</figcaption>",
        f'<svg viewBox="0 0 {CHART_WIDTH} {height}" role="img" aria-label="{html.escape(said)}" '
        'style="max-width: 100%; font: 12px sans-serif" fill="currentColor">',
    ]
    for line_number, (name, mean) in enumerate(means.items()):
        y, length = line_number * BAR_HEIGHT + 4, min(mean, LONGEST) * unit
        color = "#2a7f62" if mean <= 1 else "#b5541c"
        parts += [
            f'<text x="{LABEL_WIDTH - 8}" y="{y + 12}" text-anchor="end">{html.escape(name)}</text>',
            f'<rect x="{LABEL_WIDTH}" y="{y}" width="{length:.1f}" height="{BAR_HEIGHT - 4}" fill="{color}"/>',
            f'<text x="{LABEL_WIDTH + length + 6:.1f}" y="{y + 12}">{mean:.2f}</text>',
        ]
    parts.append(f'<line x1="{line}" x2="{line}" y1="0" y2="{height}" stroke="currentColor"/></svg></figure>')
    return "\n".join(parts) + "\n"


def row_tables(path: Path) -> list[nodes.Node]:
    """Return a table of every timed row, suite by suite."""
    data = report_data([path])
    peers = data["peers"]
    found: list[nodes.Node] = []
    for suite in dict.fromkeys(row["suite"] for row in data["rows"]):
        body = [
            [
                " ".join(str(row[part]) for part in ("name", "size", "dtype", "direction") if row[part]),
                number(row["summary"]["triten"]["median"] * 1e6),
                *(ratio_text(row, peer) for peer in peers),
                "" if row["of_limit"] is None else f"{row['of_limit']:.0%}",
            ]
            for row in data["rows"]
            if row["suite"] == suite and "triten" in row["summary"]
        ]
        if body:
            heads = ["call", "us", *(f"ratio to {peer}" for peer in peers), "of limit"]
            found += [nodes.rubric("", suite), table(heads, body)]
    return found


def ratio_text(row: Any, peer: str) -> str:
    ratio = row["ratios"].get(peer)
    if not ratio:
        return ""
    # A few rounds have no interval.
    interval = "" if ratio["low"] is None else f" ({ratio['low']:.2f} to {ratio['high']:.2f})"
    return f"{ratio['ratio']:.2f}{interval}"


def ahead_of_time_tables(path: Path, content: Any) -> list[nodes.Node]:
    """For each target: how many kernels and configurations were compiled, and what was found."""
    rows = content["rows"]
    body = []
    for target in sorted({row["target"] for row in rows}, key=lambda each: int(each.rpartition("_")[2])):
        mine = [row for row in rows if row["target"] == target]
        matrix = Counter(name for row in mine for name in row["matrix"])
        body.append(
            [
                target,
                str(len({row["kernel"] for row in mine})),
                str(len(mine)),
                str(sum(row["compiled"] for row in mine)),
                str(max(row["local"] for row in mine)),
                str(sum(row["faults"] for row in mine)),
                ", ".join(f"{name} in {count}" for name, count in sorted(matrix.items())),
            ]
        )
    heads = [
        "target", "kernels", "configurations", "launches compiled", "local memory of a thread, bytes at most", "faults",
        "matrix instructions, by configuration",
    ]  # fmt: skip
    return [nodes.paragraph("", f"Triton {content['triton']}."), table(heads, body)]


def expected_tables(path: Path, content: Any) -> list[nodes.Node]:
    """Return tables of predictions grouped by model of launch time, next to published figures."""
    rows = content["rows"]
    groups: dict[str, list[Any]] = {}
    for row in rows:
        groups.setdefault(row["group"], []).append(row)
    body = []
    for group, members in groups.items():
        slowest, fastest = (choose(members, key=lambda row: row["share"]) for choose in (min, max))
        terms = Counter(row["term"] for row in members)
        body.append(
            [
                group,
                str(len(members)),
                f"{slowest['share']:.0%} of {slowest['limit']}: {slowest['name']}",
                f"{fastest['share']:.0%} of {fastest['limit']}: {fastest['name']}",
                ", ".join(f"{term} in {count}" for term, count in terms.most_common()),
            ]
        )
    known = [
        [
            row["name"],
            f"{row['share']:.0%}",
            row["term"],
            f"{row['of_best']:.0%}",
            "; ".join(row["published"]),
        ]
        for row in rows
        if row["of_best"] is not None
    ]
    said = f"{content['device']}, by a model: nothing was measured."
    return [
        nodes.paragraph("", said),
        table(["group", "rows", "the least share", "the largest share", "what binds"], body),
        table(
            ["row", "model, of the peak", "what binds", "model, of the best published", "published"], known
        ),
    ]


def name_of_file(path: Path, content: Any) -> list[nodes.Node]:
    return [nodes.paragraph("", "", nodes.literal("", f"perf/results/{path.name}"))]


TABLES: dict[str, Callable[[Path, Any], list[nodes.Node]]] = {
    "suite": suite_tables,
    "aot": ahead_of_time_tables,
    "expected": expected_tables,
    "gpu": suite_tables,
    "others": name_of_file,
}


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("benchmarks", Benchmarks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
