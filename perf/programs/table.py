"""The page of the documentation that says which programs run: text made from the result file, and from nothing else."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ..report.markdown import escaped, table
from .comparison import AMPLIFIED
from .contest import MOVES, PYTORCH, TRITEN
from .program import FORWARD_TOLERANCE, GRADIENT_TOLERANCE, LOSS_TOLERANCE

MEBIBYTE = 1 << 20
AGREES, NOT_COMPARABLE = "agrees", "not comparable"
RESULT_FILE = "perf/results/programs.json"


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Count the programs by status; programs that PyTorch itself stops count separately."""
    counts = Counter(row["status"] for row in rows)
    return {
        "programs": len(rows) - counts[NOT_COMPARABLE],
        "agree": counts[AGREES],
        "differ": counts["differs"],
        "stop": counts["stops"],
        "not comparable": counts[NOT_COMPARABLE],
    }


def gaps(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, int]]:
    """Return the reasons for which programs stop or differ, the most frequent first."""
    counts = Counter(row["gap"] for row in rows if row["status"] in ("stops", "differs"))
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def page(report: Mapping[str, Any]) -> str:
    """Format the page from the result file's content."""
    rows = report["results"]
    parts = [_head(report), _running(rows), _stopped(rows), _not_comparable(rows), HOW]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(report: Mapping[str, Any]) -> str:
    counts, versions = summary(report["results"]), report["versions"]
    ratios = [row["ratio"] for row in report["results"] if row["ratio"] is not None]
    machine = report["machine"]
    mean = (
        f" A step takes {statistics.geometric_mean(ratios):.1f} times PyTorch's, in the geometric mean."
        if ratios
        else ""
    )
    where = ", ".join(escaped(f"{name} {version}") for name, version in versions.items())
    return f"""\
# Programs that run

<!-- Written by `make programs`, from {RESULT_FILE}. -->

Programs of other people, written for PyTorch and installed from PyPI as they are, run with triten by
`python -m triten.as_torch`: {counts["agree"]} of {counts["programs"]} give PyTorch's forward pass, gradients and
losses.{mean}

Measured {report["measured_at"][:10]} by `make programs`: {where}; {escaped(machine["processor"])}, one thread, \
{escaped(machine["python"])}."""


def _running(rows: Sequence[Mapping[str, Any]]) -> str:
    body = [
        [
            escaped(row["name"]) + (" \\*" if row["amplifies"] else ""),
            escaped(f"{row['package']} {row['version']}".strip()),
            *(f"{row['seconds'][name] * 1e3:.1f}" if row["seconds"] else "" for name in (TRITEN, PYTORCH)),
            "" if row["ratio"] is None else f"{row['ratio']:.2f}",
            *(f"{row['peak_bytes'][name] / MEBIBYTE:.0f}" for name in (TRITEN, PYTORCH)),
        ]
        for row in rows
        if row["status"] == AGREES
    ]
    heads = ["program", "package", "step, ms", "PyTorch, ms", "ratio", "peak, MiB", "PyTorch, MiB"]
    text = """\
## Those that agree

A step is forward pass, backward pass and optimizer; its time is the median of rounds that both libraries ran in turn.
The peak is that of the whole process, Python and the libraries included."""
    starred = any(row["amplifies"] for row in rows)
    note = "\n\n\\* amplifies rounding: as close as PyTorch is to itself, see below" if starred else ""
    return f"{text}\n\n{table(heads, body, 2)}{note}" if body else ""


def _stopped(rows: Sequence[Mapping[str, Any]]) -> str:
    failing = [row for row in rows if row["status"] in ("stops", "differs")]
    if not failing:
        return ""
    by_count = [[str(count), escaped(gap)] for gap, count in gaps(rows)]
    body = [
        [
            escaped(row["name"]),
            escaped(f"{row['package']} {row['version']}".strip()),
            escaped(row["status"]),
            escaped(row["at"]),
            escaped(row["gap"]),
        ]
        for row in failing
    ]
    return f"""\
## Those that stop or differ

The first gap of each, by how many programs it stops:

{table(["programs", "gap"], by_count, 2)}

{table(["program", "package", "result", "at", "first gap"], body, 5)}"""


def _not_comparable(rows: Sequence[Mapping[str, Any]]) -> str:
    body = [
        [escaped(row["name"]), escaped(f"{row['package']} {row['version']}".strip()), escaped(row["gap"])]
        for row in rows
        if row["status"] == NOT_COMPARABLE
    ]
    if not body:
        return ""
    return f"## Those that PyTorch stops\n\n{table(['program', 'package', 'because'], body, 3)}"


HOW = f"""\
## How they are compared

PyTorch makes a model and saves its weights, triten loads that file. Inputs are NumPy's, from a seed, and so are the
random numbers of programs that draw some in their forward pass. Dropout is off. Then both write the forward pass, each
parameter's gradient and the losses of three steps:

- every element of the forward pass is within {FORWARD_TOLERANCE:.0e} of the largest one of its tensor, or within what
  `perf/programs/catalogue.py` says of a program that amplifies rounding; whole numbers are equal;
- a gradient's distance, by a sketch of 64 sums of elements with drawn signs, is within
  {GRADIENT_TOLERANCE:.0e} of its norm, or of a thousandth of the largest norm;
- losses are within {LOSS_TOLERANCE:.0e} of their size.

A program that differs is run under PyTorch {MOVES} times more, with every weight moved to the next number above or
below. What that moves further than is accepted amplifies rounding, as a batch norm of few values does; there the
results agree if they lie within {AMPLIFIED:.0f} times as much.

torchvision's library in C++ is not loaded, under neither: its models and transforms are Python.

`make programs PROGRAMS_ARGS="--only unet --traceback"` runs some of them and shows what stops them."""
