"""Greedy shrinking: of the smaller cases the first that still shows the same kind of finding takes the case's place."""

import time
from typing import Any

from .campaign import Finding
from .worker import DeathError, Worker


def minimized(
    worker: Worker, case: Any, finding: Finding, *, tries: int = 200, seconds: float = 60.0
) -> tuple[Any, Finding]:
    """Return the smallest failing case and its finding, after at most `tries` runs or about `seconds`."""
    end, left = time.monotonic() + seconds, tries
    improved = True
    while improved:
        improved = False
        try:
            candidates = worker.smaller(case)
        except (DeathError, RuntimeError):
            break
        for candidate in candidates:
            if left <= 0 or time.monotonic() > end:
                return case, finding
            left -= 1
            outcome = worker.run(candidate)
            if isinstance(outcome, Finding) and outcome.kind == finding.kind:
                case, finding, improved = candidate, outcome, True
                break
    return case, finding
