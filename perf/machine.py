"""The machine a measurement was made on, and the file that it is kept in."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from .refusal import RefusalError
from .result_file import write_whole


def processor_name() -> str:
    """Return the processor's model, or its architecture if the system does not name the model.

    `utils.collect_env` has the same function. This folder also measures older commits, which lack that module.
    """
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
    """Write results as JSON, with the machine, the libraries' versions and the time (UTC).

    Raises RefusalError if the file cannot be written.
    """
    report = {
        "measurement": measurement,
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": describe_machine(),
        "versions": dict(versions),
        "results": results,
    }
    try:
        write_whole(path, json.dumps(report, indent=2) + "\n")
    except OSError as error:
        raise RefusalError(f"cannot write {path}: {error.strerror}") from None
    print(f"written to {path}")
