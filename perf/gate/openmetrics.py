"""OpenMetrics text of a decision, for Prometheus and compatible stores.

The format is application/openmetrics-text 1.0.0, https://prometheus.io/docs/specs/om/open_metrics_spec/.

    triten_benchmark_seconds          gauge: median time, by row and library
    triten_benchmark_ratio            gauge: time over the baseline's, by row; `_low` and `_high` bound it
    triten_benchmark_run_info         info: commit, baseline, machine
    triten_gate_rows                  gauge: number of rows by kind
    triten_gate_status                gauge: exit status of the gate
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..history.identity import machine_name
from ..suite.results import RowKey
from .decision import KINDS, Decision, label

Sample = tuple[Mapping[str, str], float]


def format_openmetrics(decision: Decision) -> str:
    """Format the new result and its comparison with the baseline."""
    run = {
        "commit": label(decision.new), "baseline": label(decision.base), "machine": machine_name(decision.new.machine),
    }  # fmt: skip
    times = [
        ({**_labels(row.key), "library": library}, summary.median)
        for row in decision.new.rows
        for library in row.samples
        if (summary := row.summary(library)) is not None
    ]
    lines = _family("triten_benchmark_seconds", "gauge", "Median time of one call.", times, unit="seconds")
    compared = [(each.comparison.key, each.comparison.ratio) for each in decision.rows]
    ratios: dict[str, list[Sample]] = {
        "triten_benchmark_ratio": [(_labels(key), ratio.estimate) for key, ratio in compared],
        "triten_benchmark_ratio_low": [
            (_labels(key), ratio.low) for key, ratio in compared if ratio.low is not None
        ],
        "triten_benchmark_ratio_high": [
            (_labels(key), ratio.high) for key, ratio in compared if ratio.high is not None
        ],
    }
    descriptions = ("Time over the baseline's.", "Lower bound of the ratio.", "Upper bound of the ratio.")
    for (name, samples), description in zip(ratios.items(), descriptions, strict=True):
        lines += _family(name, "gauge", description, samples)
    lines += _family("triten_benchmark_run", "info", "Commits and machine.", [(run, 1.0)], suffix="_info")
    counts: list[Sample] = [({"kind": kind}, float(decision.counts.get(kind, 0))) for kind in KINDS]
    lines += _family("triten_gate_rows", "gauge", "Number of benchmarks.", counts)
    lines += _family(
        "triten_gate_status", "gauge", "Exit status of the gate.", [({}, float(decision.status))]
    )
    return "\n".join([*lines, "# EOF"]) + "\n"


def _family(
    name: str, kind: str, description: str, samples: Iterable[Sample], *, unit: str = "", suffix: str = ""
) -> list[str]:
    lines = [f"# TYPE {name} {kind}"]
    if unit:
        lines.append(f"# UNIT {name} {unit}")
    lines.append(f"# HELP {name} {description}")
    for labels, value in samples:
        inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        lines.append(f"{name}{suffix}{f'{{{inside}}}' if inside else ''} {value!r}")
    return lines


def _labels(key: RowKey) -> dict[str, str]:
    # `name` is not reserved, but easily mistaken for the metric's name in queries.
    return {("row" if field == "name" else field): text for field, text in key._asdict().items()}


def _escaped(text: str) -> str:
    whole = text.encode("utf-8", "backslashreplace").decode()
    return whole.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
