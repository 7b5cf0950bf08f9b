"""Operators of a trace: calls and times of a step, beside the prediction of `tt.perf.plan`."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from ..planning import Plan
from .trace import LAUNCH_CATEGORIES, Span, Trace

AUTOGRAD = "(autograd's nodes)"
OUTSIDE = "(Python between operators)"


def plan_record(plan: Plan) -> dict[str, Any]:
    """Return a plan as JSON for the trace file."""
    totals = ("seconds", "work_seconds", "overhead_seconds")
    return asdict(plan) | {name: getattr(plan, name) for name in totals}


def operator_rows(trace: Trace) -> list[dict[str, Any]]:
    """Return a row for each operator, the longest first, for a single step.

    Returns:
        name, calls, host and device (seconds of a step without called operators), predicted_calls,
        predicted_work and predicted_overhead (seconds; None without a prediction). The rows' times add up to the
        time of the step on the host.
    """
    rows: dict[str, dict[str, Any]] = {}
    for span in trace.spans():
        row = _row(rows, _operator_of(span))
        row["calls"] += span.category not in LAUNCH_CATEGORIES
        row["host"] += span.self_time / 1e9
        row["device"] += sum(work.duration for work in span.launched) / 1e9
    for work in trace.spans(is_device=True):
        if work.launch is None:
            _row(rows, work.name)["device"] += work.duration / 1e9
    steps = trace.steps
    for row in rows.values():
        for name in ("calls", "host", "device"):
            row[name] /= steps
        row["calls"] = _count(row["calls"])
    if OUTSIDE in rows:
        rows[OUTSIDE]["calls"] = None
    if AUTOGRAD in rows:  # the engine's work for a node, and the node in it
        rows[AUTOGRAD]["calls"] = _count(rows[AUTOGRAD]["calls"] / 2)
    plan = trace.step.get("plan")
    if plan:
        _predict(rows, plan)
    return sorted(rows.values(), key=lambda row: -(row["host"] + row["device"]))


def _count(calls: float) -> float:
    """Round calls of a step, which are no whole number if the steps differ."""
    return int(calls) if calls == int(calls) else round(calls, 1)


def _row(rows: dict[str, dict[str, Any]], name: str) -> dict[str, Any]:
    if name not in rows:
        rows[name] = {
            "name": name,
            "calls": 0,
            "host": 0.0,
            "device": 0.0,
            "predicted_calls": None,
            "predicted_work": None,
            "predicted_overhead": None,
        }
    return rows[name]


def _operator_of(span: Span) -> str:
    """Name the row of a span: a launch belongs to the operator that made it."""
    each: Span | None = span
    while each is not None and each.category in LAUNCH_CATEGORIES:
        each = each.parent
    if each is None or each.category != "cpu_op":
        return OUTSIDE
    return AUTOGRAD if each.is_backward else each.name


def _predict(rows: dict[str, dict[str, Any]], plan: dict[str, Any]) -> None:
    for operator in plan["operators"]:
        row = _row(rows, operator["name"].partition(".")[0])
        row["predicted_calls"] = (row["predicted_calls"] or 0) + operator["calls"]
        row["predicted_work"] = (row["predicted_work"] or 0.0) + operator["work_seconds"]
        row["predicted_overhead"] = (row["predicted_overhead"] or 0.0) + operator["overhead_seconds"]
    if plan["backward_nodes"]:
        row = _row(rows, AUTOGRAD)
        row["predicted_calls"] = plan["backward_nodes"]
        row["predicted_work"], row["predicted_overhead"] = 0.0, plan["autograd_seconds"]


def format_rows(trace: Trace, top: int = 15) -> str:
    """Format the operators as a table for the terminal."""
    rows = operator_rows(trace)
    has_plan = bool(trace.step.get("plan"))
    has_device = any(row["device"] for row in rows)
    heads = ["calls", "host us"] + ["device us"] * has_device + ["predicted us"] * has_plan
    width = max([len("operator"), *(len(row["name"]) for row in rows[:top])])
    lines = [f"{'operator':<{width}}" + "".join(f"{head:>14}" for head in heads)]
    for row in rows[:top]:
        cells = ["" if row["calls"] is None else f"{row['calls']:g}", f"{1e6 * row['host']:,.1f}"]
        if has_device:
            cells.append(f"{1e6 * row['device']:,.1f}")
        if has_plan:
            predicted = row["predicted_work"]
            cells.append("" if predicted is None else f"{1e6 * (predicted + row['predicted_overhead']):,.1f}")
        lines.append(f"{row['name']:<{width}}" + "".join(f"{cell:>14}" for cell in cells))
    if len(rows) > top:
        lines.append(f"and {len(rows) - top} more")
    return "\n".join([*lines, *totals(trace)])


def totals(trace: Trace) -> list[str]:
    """Return sentences: the time of a step with the profiler, without it, and predicted."""
    sentences = [f"A step took {_shown(trace.duration / trace.steps / 1e9)} with the profiler"]
    seconds, plan = trace.step.get("seconds"), trace.step.get("plan")
    if seconds:
        sentences[0] += f", {_shown(seconds)} without it"
    if plan:
        sentences.append(
            f"Predicted by tt.perf.plan: {_shown(plan['seconds'])} on {plan['device']}, {_shown(plan['work_seconds'])} "
            f"of work and {_shown(plan['overhead_seconds'])} of overhead"
        )
    return sentences


def _shown(seconds: float) -> str:
    """Format a time with three significant digits."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.{max(0, 2 - int(math.log10(seconds / size)))}f} {unit}"
    return f"{1e6 * seconds:.1f} us"
