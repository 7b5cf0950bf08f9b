"""Search with thousands of cases of one fuzz target: several workers, one set of totals, one reported finding
per family.
"""

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .campaign import Campaign, Finding, Verdict
from .minimize import minimized
from .worker import Worker

TERMINAL_SECONDS, LOG_SECONDS = 1.0, 60.0


@dataclass
class Family:
    """Findings that look like one fault: how many, and one of them made smaller."""

    seed: str
    case: Any
    finding: Finding
    count: int = 1
    program: str = ""
    record: Any = None


@dataclass
class Totals:
    """Totals of the cases' outcomes."""

    campaign: str
    outcomes: Counter[str] = field(default_factory=Counter)
    families: dict[str, Family] = field(default_factory=dict)
    unrepeated: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def cases(self) -> int:
        return sum(self.outcomes.values())

    def line(self) -> str:
        known = {verdict.value for verdict in Verdict} | {"refused otherwise"}
        findings = sum(count for name, count in self.outcomes.items() if name not in known)
        texts = [
            f"{self.cases} cases",
            *(f"{self.outcomes[v.value]} {v.value}" for v in Verdict if v.value in self.outcomes),
            f"{self.outcomes['refused otherwise']} refused otherwise",
            f"{findings} other findings in {len(self.families)} families",
        ]
        if self.unrepeated:
            texts.append(f"{len(self.unrepeated)} that did not come again")
        return f"fuzz {self.campaign}: {', '.join(texts)}; {self.seconds:.0f} s"


class Search:
    """One run of a fuzz target. It calls `report` once for each family, with the smallest case."""

    def __init__(
        self,
        campaign: Campaign,
        python: str,
        *,
        seed: int,
        seconds: float,
        cases: int,
        tries: int,
        report: Callable[[Family], None],
    ) -> None:
        self.campaign, self.python, self.seed = campaign, python, seed
        self.seconds, self.most, self.tries, self.report = seconds, cases, tries, report
        self.totals = Totals(campaign.name)
        self._next = 0
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self._shown = 0.0
        self._error: BaseException | None = None

    def run(self, jobs: int) -> Totals:
        """Search with `jobs` workers.

        Raises a worker's error; RuntimeError if the fuzz target cannot generate a case.
        """
        threads = [threading.Thread(target=self._search, daemon=True) for _ in range(jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.totals.seconds = time.monotonic() - self._started
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr)
        if self._error is not None:
            raise self._error
        return self.totals

    def _search(self) -> None:
        try:
            # In a second process: what earlier cases left behind must not be what was found.
            with Worker(self.campaign, self.python) as worker, Worker(self.campaign, self.python) as second:
                while (seed := self._take()) is not None:
                    self._one(worker, second, seed)
        except BaseException as error:  # raised again where the threads are waited for
            self._error = error

    def _take(self) -> str | None:
        with self._lock:
            now = time.monotonic() - self._started
            if self._error is not None or (self.most and self._next >= self.most):
                return None
            if self.seconds and now > self.seconds:
                return None
            self._next += 1
            self._progress(now)
            return f"{self.campaign.name}/{self.seed}/{self._next - 1}"

    def _progress(self, now: float) -> None:
        """Print the totals so far: on a terminal one line that is overwritten, otherwise an occasional line."""
        terminal = sys.stderr.isatty()
        if now - self._shown < (TERMINAL_SECONDS if terminal else LOG_SECONDS):
            return
        self._shown = self.totals.seconds = now
        start, end = ("\r\033[K", "") if terminal else ("", "\n")
        print(f"{start}{self.totals.line()}", end=end, file=sys.stderr, flush=True)

    def _one(self, worker: Worker, second: Worker, seed: str) -> None:
        outcome, case = worker.attempt(seed)
        if not isinstance(outcome, Finding):
            with self._lock:
                self.totals.outcomes[outcome.value] += 1
            return
        name = self.campaign.family(case, outcome)
        with self._lock:
            family = self.totals.families.get(name)
            if family is not None:
                family.count += 1
                self.totals.outcomes[outcome.kind] += 1
                return
            family = self.totals.families[name] = Family(seed, case, outcome)
        again = second.run(case)
        if not isinstance(again, Finding):
            with self._lock:
                del self.totals.families[name]
                self.totals.unrepeated.append(f"{seed}: {outcome.kind}: {outcome.message}")
                self.totals.outcomes[again.value] += 1
            return
        with self._lock:
            self.totals.outcomes[outcome.kind] += 1
        family.case, family.finding = minimized(second, case, again, tries=self.tries)
        family.program = second.describe(family.case)
        family.record = second.record(family.case)
        with self._lock:
            self.report(family)
