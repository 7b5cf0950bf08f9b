"""``{benchmarks}``: the committed result files of `perf/results/` as tables.

- ``{benchmarks} suite`` shows runs of the suite on a CPU by their geometric means.
- ``gpu`` shows runs on a GPU.
- ``aot`` shows kernels compiled ahead of time.
- ``expected`` shows a model's predictions for a GPU's rows.

With ``:rows:``, every row of a run follows. ``{benchmarks} others`` names files of other kinds, so that none
is omitted silently.
"""

from __future__ import annotations

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
