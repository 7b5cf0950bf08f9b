"""The machine a measurement was made on, and the file that it is kept in."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path


def processor_name() -> str:
    """The processor's model, or its architecture where the system does not tell."""
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def describe_machine() -> dict[str, object]:
    """Host, processor, cores that this process may use, system and Python.

    Example:
        >>> from triten.perf.machine import describe_machine
        >>> sorted(describe_machine())
        ['cores', 'host', 'processor', 'python', 'system']
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "host": platform.node(),
        "processor": processor_name(),
        "cores": cores,
        "system": platform.platform(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    }


def write_report(path: Path, measurement: str, results: object, versions: Mapping[str, str]) -> None:
    """Write results as JSON, with the machine, the libraries' versions and the time (UTC)."""
    report = {
        "measurement": measurement,
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": describe_machine(),
        "versions": dict(versions),
        "results": results,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=2) + "\n")
    print(f"written to {path}")
