"""Identity of results and machines, and the moments that order them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from ..suite.results import Result


def moment_of(text: str) -> datetime:
    """Return a moment of a result file; without a time zone, it is UTC. The year 1 stands for unreadable text."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def digest_of(result: Result) -> str:
    """Return the SHA-256 of a result's content, without derived values and the time of the last write."""
    content = asdict(result)
    del content["updated"]
    return content_hash(content)


def run_key(result: Result) -> str:
    """Return the text that all states of one run share: a hash of its start, machine, commit and command."""
    return content_hash([result.started, result.machine, result.commit, result.command])


def machine_name(machine: Mapping[str, Any]) -> str:
    """Return the text that comparable machines share: processor, cores and GPU, but not the host.

    Example:
        >>> from triten.perf.history.identity import machine_name
        >>> machine_name({"host": "runner-17", "processor": "AMD EPYC", "cores": 2, "gpu": None})
        'AMD EPYC, 2 cores'
    """
    parts = [str(machine.get("processor") or "unknown processor"), f"{machine.get('cores', '?')} cores"]
    return ", ".join([*parts, str(machine["gpu"])] if machine.get("gpu") else parts)


def content_hash(value: object) -> str:
    """Return the SHA-256 of a value's canonical JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, allow_nan=False).encode()).hexdigest()
