"""Results of the check: stored in a file as they arrive, counted, and printed as a table at the end."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from triten.perf.result_file import kernel_driver_version, read_result, write_section

SECTION = "check"
SAVE_SECONDS = 3.0
BAD = ("failed", "died")
STATUSES = ("passed", "failed", "died", "not built", "needs a card", "refused")
SHOWN = 60


class Results:
    """The answers by task name, and the file that holds them.

    A file whose `complete` is false is as valid as another: it says what was run.
    """

    def __init__(self, path: Path, about: Mapping[str, Any], kept: Mapping[str, Any] | None = None) -> None:
        self.path = path
        self.about = dict(about) | {"kernel driver": kernel_driver_version()}
        kept = kept or {}
        self.checks: dict[str, dict[str, Any]] = dict(kept.get("checks", {}))
        self.kernels: set[str] = set(kept.get("kernels", ()))
        self.started = kept.get("started") or datetime.now(UTC).isoformat(timespec="seconds")
        self.seconds_before = float(kept.get("seconds", 0.0))
        self.complete = False
        self.not_run = 0
        self._begun = time.monotonic()
        self._saved = 0.0

    def note(self, name: str, answer: Mapping[str, Any]) -> None:
        """Keep an answer."""
        self.kernels.update(answer.get("kernels", ()))
        self.checks[name] = {
            key: value
            for key, value in answer.items()
            if key not in ("kernels", "fatal") and value not in ("", [], 0)
        }
        if time.monotonic() - self._saved > SAVE_SECONDS:
            self.save()

    def save(self) -> None:
        """Write the file."""
        counts = Counter(answer["status"] for answer in self.checks.values())
        write_section(
            self.path,
            SECTION,
            self.about
            | {
                "started": self.started,
                "seconds": round(self.seconds_before + time.monotonic() - self._begun, 1),
                "complete": self.complete,
                "not_run": self.not_run,
                "counts": dict(counts),
                "compiled": sum(answer.get("compiled", 0) for answer in self.checks.values()),
                "compile_seconds": round(sum(a.get("compile_seconds", 0.0) for a in self.checks.values()), 1),
                "kernels": sorted(self.kernels),
                "checks": self.checks,
            },
        )
        self._saved = time.monotonic()

    @property
    def failed(self) -> list[str]:
        """Return the names of the checks that failed or died."""
        return [name for name, answer in self.checks.items() if answer["status"] in BAD]

    def table(self) -> str:
        """First what is wrong, then what is not built, by reason; the counts last."""
        lines: list[str] = []
        for name in self.failed[:SHOWN]:
            answer = self.checks[name]
            lines.append(f"{answer['status'].upper():<7}{name}: {answer.get('reason', '')[:300]}")
        if len(self.failed) > SHOWN:
            lines.append(f"... and {len(self.failed) - SHOWN} more, in the file")
        absent: Counter[str] = Counter()
        for name, answer in self.checks.items():
            if answer["status"] in ("not built", "needs a card"):
                what = name.partition("/")[0] if "#" in name else name
                absent[f"{answer['status']}: {what.partition('#')[0]}: {answer.get('reason', '')[:110]}"] += 1
        lines += [f"{count:>5} x {reason}" for reason, count in absent.most_common(SHOWN)]
        if len(absent) > SHOWN:
            lines.append(f"... and {len(absent) - SHOWN} more reasons, in the file")
        lines += ["", self.measurements(), ""] if self.measurements() else [""]
        groups: dict[str, Counter[str]] = {}
        for name, answer in self.checks.items():
            group = "operators" if "#" in name else "runtime"
            groups.setdefault(group, Counter())[answer["status"]] += 1
        lines.append(f"{'':<12}" + "".join(f"{status:>14}" for status in STATUSES))
        for group in ("runtime", "operators"):
            counted = groups.get(group, Counter())
            lines.append(f"{group:<12}" + "".join(f"{counted[status]:>14}" for status in STATUSES))
        return "\n".join(lines)

    def measurements(self) -> str:
        """Return the measurements of the runtime's checks."""
        told = [
            f"{name}: {answer['result']}"
            for name, answer in self.checks.items()
            if "#" not in name and answer.get("result")
        ]
        return "\n".join(told)


def load_for_resuming(path: Path) -> dict[str, Any]:
    """Return the check's section of a file. Raises ValueError if there is none."""
    section = read_result(path).get(SECTION)
    if not isinstance(section, dict) or "checks" not in section:
        raise ValueError(f"--resume {path}: no section {SECTION!r} in it")
    return section
