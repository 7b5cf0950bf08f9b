"""The process at its worst moment: a first use that is interrupted, forked beside, short of memory, or made by threads.

Each case runs in a fork of a process that has imported nothing but the package, so that each use is the first one.
Afterwards the use gives the bits that it gives undisturbed.
"""

import errno
import os
import random
import resource
import sys
import threading
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from triten.tests.shared import first_uses
from triten.tests.shared.first_uses import bits, interrupt, moments_of
from triten.tests.shared.interrupts import HANGS, Moments, in_child, is_of_package
from triten.tests.shared.threads import together

from ..campaign import AGREED, INTERPRETED, REFUSED_ALIKE, Campaign, Case, Finding, Outcome

USES = {**first_uses.USES, **first_uses.ON_CUDA}
MAX_THREADS = 5
MIN_MEMORY, MAX_MEMORY = 1 << 20, 1 << 29
LONGEST = 60
"""Seconds of CPU time after which a child counts as a hang."""
COMPILED_PACKAGES = ("scipy.fft", "scipy.linalg", "scipy.sparse", "scipy.sparse.linalg", "scipy.special")


class ProcessState(Campaign):
    """Fuzz target that caches the undisturbed results and each use's number of events."""

    name = "process_state"
    needs: ClassVar[Mapping[str, str]] = {**INTERPRETED, "TRITEN_CACHE_MAXSIZE": "0"}
    limit = 600.0
    forks = True

    def __init__(self) -> None:
        self._expected: dict[str, Any] = {}
        self._moments: dict[tuple[str, bool], int] = {}

    def draw(self, rng: random.Random) -> Case:
        kind = rng.choice(("interrupt", "interrupt", "interrupt", "fork", "memory", "threads"))
        case: Case = {"kind": kind, "use": rng.choice([*USES]), "at": rng.random(), "own": rng.random() < 0.8}
        if kind == "fork":
            case["after"] = rng.choice([*first_uses.USES])
        elif kind == "memory":
            case["bytes"] = int(MIN_MEMORY * (MAX_MEMORY / MIN_MEMORY) ** rng.random())
        elif kind == "threads":
            case["others"] = rng.choices([*USES], k=rng.randrange(1, MAX_THREADS))
        return case

    def run(self, case: Case) -> Outcome:
        disturb = {
            "interrupt": self._interrupted,
            "fork": self._forked,
            "memory": self._short,
            "threads": self._shared,
        }
        return disturb[case["kind"]](case)

    def smaller(self, case: Case) -> Iterator[Case]:
        for place in range(len(case.get("others", ()))):
            others = [*case["others"][:place], *case["others"][place + 1 :]]
            yield {**case, "others": others}

    def describe(self, case: Case) -> str:
        return f"ProcessState().run({case!r})"

    def family(self, case: Case, finding: Finding) -> str:
        return f"{case['kind']}: {super().family(case, finding)}"

    def _interrupted(self, case: Case) -> Outcome:
        use, at = USES[case["use"]], self._moment(case)
        found = in_child(lambda: interrupt(use, at, case["own"]), LONGEST)
        if found[0] == "value" and found[1][1] != self._result(case["use"]):
            return Finding("wrong value", f"{case['use']} after an interrupt at {found[1][0]}")
        return AGREED if found[0] == "value" else _finding(found, f"{case['use']}, moment {at}")

    def _forked(self, case: Case) -> Outcome:
        """Fork during another thread's first use; the child then makes its own first use."""
        at = self._moment(case)

        def parent() -> Any:
            reached = threading.Event()

            def count(frame: Any, event: str, argument: Any) -> None:
                moments.count += event in ("call", "c_return") and moments.counts(frame.f_code)
                if moments.count == at:
                    reached.set()

            def other() -> None:
                sys.setprofile(count)
                try:
                    USES[case["use"]]()
                finally:
                    sys.setprofile(None)
                    reached.set()

            moments = Moments(0, is_of_package if case["own"] else lambda code: True)
            thread = threading.Thread(target=other)
            thread.start()
            reached.wait()
            found = in_child(lambda: bits(USES[case["after"]]()), LONGEST // 2)
            thread.join()
            return found

        found = in_child(parent, LONGEST)
        if found[0] == "value":
            found = found[1]
        if found[0] == "value" and found[1] != self._result(case["after"]):
            return Finding("wrong value", f"{case['after']} in a child beside {case['use']}")
        return (
            AGREED
            if found[0] == "value"
            else _finding(found, f"{case['after']} in a child beside {case['use']}")
        )

    def _short(self, case: Case) -> Outcome:
        """Give a use little memory, and then as much as it likes."""
        use = USES[case["use"]]

        def child() -> Any:
            for name in COMPILED_PACKAGES:  # their own first imports crash with little memory
                import_module(name)
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            most = resource.getrlimit(resource.RLIMIT_AS)[1]
            limit = pages * os.sysconf("SC_PAGE_SIZE") + case["bytes"]
            resource.setrlimit(resource.RLIMIT_AS, (limit, most))
            refused = ""
            try:
                first = bits(use())
            except Exception as error:  # which ones are allowed is asked below
                first, refused = None, "" if _is_of_memory(error) else f"{type(error).__name__}: {error}"
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
            return first, refused, bits(use())

        found = in_child(child, LONGEST)
        what = f"{case['use']} with little memory"
        if found[0] != "value":
            return _finding(found, what)
        first, refused, second = found[1]
        if refused:
            return Finding("refused otherwise", f"{what}: {refused}")
        if second != self._result(case["use"]) or first not in (None, second):
            return Finding("wrong value", what)
        return REFUSED_ALIKE if first is None else AGREED

    def _shared(self, case: Case) -> Outcome:
        names = [case["use"], *case["others"]]
        found = in_child(lambda: together(*[lambda name=name: bits(USES[name]()) for name in names]), LONGEST)
        what = f"{' and '.join(sorted(names))} at once"
        if found[0] != "value":
            return _finding(found, what)
        return AGREED if found[1] == [self._result(name) for name in names] else Finding("wrong value", what)

    def _result(self, name: str) -> Any:
        if name not in self._expected:
            kind, self._expected[name] = in_child(lambda: bits(USES[name]()), LONGEST)
            assert kind == "value", self._expected.pop(name)
        return self._expected[name]

    def _moment(self, case: Case) -> int:
        key = case["use"], case["own"]
        if key not in self._moments:
            self._moments[key] = moments_of(USES[case["use"]], case["own"])
        return 1 + int(case["at"] * self._moments[key])


def _finding(found: tuple[str, Any], what: str) -> Finding:
    kind, message = found
    if kind == "death":
        return Finding("hang" if message in HANGS else "crash", f"{what}: exit status {message}")
    return Finding("inner error", f"{what}: {message}")


def _is_of_memory(error: BaseException | None) -> bool:
    """Return whether an error, or what it came of, says that there is no memory."""
    while error is not None:
        text = str(error).lower()
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
            return True
        if isinstance(error, ImportError | OSError) and (
            "cannot allocate" in text or "failed to map" in text
        ):
            return True
        if isinstance(error, RuntimeError) and "can't start new thread" in text:
            return True
        error = error.__cause__ or error.__context__
    return False
