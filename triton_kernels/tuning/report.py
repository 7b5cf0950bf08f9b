"""Printable report of `autotune`'s results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..budget import Configuration
from .entry import Entry
from .measurement import Times
from .question import Question


@dataclass(frozen=True)
class Finding:
    """The answer to one question.

    Args:
        question: kernel, device, dtype and class of shapes.
        times: the runs of each candidate that was timed, the default first.
        skipped: why others were not.
        chosen: Configuration that launches take from now on.
        entry: Recorded entry; None if there was no choice.
    """

    question: Question
    times: Mapping[Configuration, Times]
    skipped: Mapping[Configuration, str]
    chosen: Configuration
    entry: Entry | None = None

    def __str__(self) -> str:
        lines = [str(self.question)]
        for number, (candidate, times) in enumerate(self.times.items()):
            notes = [
                note
                for note, applies in (("default", number == 0), ("chosen", candidate == self.chosen))
                if applies
            ]
            median = f"{times.median:10.2f} us +- {times.spread:.2f} ({len(times.runs)} runs)"
            lines.append(f"  {candidate!s:24} {median} {', '.join(notes)}".rstrip())
        lines += [f"  {candidate!s:24} skipped: {why}" for candidate, why in self.skipped.items()]
        if not self.times:
            lines.append(f"  {self.chosen!s:24} the only candidate")
        return "\n".join(lines)


@dataclass(frozen=True)
class Report:
    """Results of `autotune`, question by question, in the order in which they were asked."""

    findings: tuple[Finding, ...] = field(default=())

    def __str__(self) -> str:
        if not self.findings:
            return "no launch had a choice of configurations"
        return "\n".join(str(finding) for finding in self.findings)
