"""Measurement of a workload: prepared in each library, compared, and timed interleaved until its ratios are
known.

In each round the libraries run one after the other, starting with a different library each time. A change of
the machine's speed therefore affects all of them alike. A ratio is the median over the rounds. Garbage
collection is disabled during timing.

Rounds continue until every ratio's confidence interval is narrow enough, or the limit of rounds or time is
reached. This makes the intervals of rows that stopped early slightly too narrow; the raw samples are in the
file.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any

import numpy as np

from ..costs import Cost, cost
from ..interleaved import Slice, calibrate, rotated, statement_slice
from .confidence import paired_ratio_interval, summarise
from .cores import Cores, settle
from .device_work import DeviceWork
from .libraries import Library
from .results import CONFIDENCE, OURS, Row
from .workload import Phrase, Workload

MIN_ROUNDS = 6  # below, the median has no interval of 0.95
# Errors that a library raises for a missing function, overload or kernel.
MISSING = (AttributeError, ImportError, NotImplementedError)
# Errors of a call that exists but fails; for triten, they are bugs.
FAILURES = (RuntimeError, TypeError, ValueError, OSError, MemoryError)
# ||ours - theirs|| / ||theirs||: both round once to the dtype and sum in float32, in another order.
AGREEMENT = {"float64": 1e-10, "float32": 1e-4, "float16": 4e-3, "bfloat16": 2e-2, "complex64": 1e-4}
TF32_AGREEMENT = 2e-3


@dataclass(frozen=True)
class Effort:
    """How long a row is measured. `precision` is the half width of a ratio's interval, as a share of the ratio."""

    rounds: int = 40
    slice_seconds: float = 0.002
    row_seconds: float = 3.0
    precision: float = 0.02
    confidence: float = CONFIDENCE
    collect_garbage: bool = False


class Rival:
    """Prepared workload of one library: its slice and its result."""

    def __init__(self, library: Library, work: Slice, value: tuple[str, np.ndarray] | None) -> None:
        self.library = library
        self.work = work
        self.value = value


class Measurement:
    """Makes rows of workloads with these libraries."""

    def __init__(
        self,
        libraries: Sequence[Library],
        effort: Effort,
        threads: int,
        device: DeviceWork | None = None,
        cores: Cores | None = None,
    ) -> None:
        self._libraries = libraries
        self._effort = effort
        self._threads = threads
        self._device = device
        self._cores = cores or Cores(())

    def row(self, workload: Workload) -> Row:
        """Measure the workload's row; if that fails, the note has the reason."""
        threads = workload.threads or self._threads
        for library in self._libraries:
            library.set_threads(threads)
            library.allow_tf32(workload.tf32)
        row = Row(
            workload.suite, workload.operator, workload.name, workload.size, workload.dtype,
            self._libraries[0].device, workload.direction, threads=threads, bar=workload.bar,
        )  # fmt: skip
        rivals: dict[str, Rival] = {}
        for library in self._libraries:
            try:
                with self._released(workload):
                    rival = self._prepare(workload, library)
            except MISSING as error:
                row = replace(row, note=f"missing in {library.name}: {_first_line(error)}")
            except FAILURES as error:
                row = replace(
                    row, note=f"FAILED in {library.name}: {type(error).__name__}: {_first_line(error)}"
                )
            else:
                if rival is not None:
                    rivals[library.name] = rival
                continue
            finally:
                self._cores.hold_new_threads()
            if library.name == OURS:
                return row
        if workload.compared and workload.prepare is None and (wrong := disagreement(workload, rivals)):
            return replace(row, note=f"WRONG: {wrong}")
        if workload.prepare is None and workload.counted:
            cost = self._cost(workload)
            row = replace(row, bytes=cost.bytes, flops=cost.flops)
        try:
            with self._released(workload):
                return replace(row, samples=self._times(workload, rivals, threads))
        except FAILURES as error:
            return replace(row, note=f"FAILED while timing: {type(error).__name__}: {_first_line(error)}")

    def _released(self, workload: Workload) -> AbstractContextManager[None]:
        return self._cores.released() if workload.processes else nullcontext()

    def _prepare(self, workload: Workload, library: Library) -> Rival | None:
        if workload.prepare is not None:
            work = None if library.has_phrases else workload.prepare(library)
            return None if work is None else Rival(library, work, None)
        phrase = workload.phrase_for(library)
        statement = phrase.statement
        if not statement:
            return None
        codes = _Codes(phrase, workload)
        on_device = self._device is not None and not workload.host
        sets = self._device.sets_of(workload) if on_device and self._device else 1
        namespaces = [library.names() | codes.operands(library) for _ in range(sets)]
        with _NoCollector():
            value = codes.value(namespaces[0], library) if workload.compared else None
        if on_device and self._device is not None:
            return Rival(library, self._device.slice(codes.timed, namespaces, library), value)
        timed = f"{statement}\n{workload.reset}"
        work = statement_slice(timed, namespaces[0], collect_garbage=self._effort.collect_garbage)
        return Rival(library, after_synchronization(work, library), value)

    def _cost(self, workload: Workload) -> Cost:
        ours = self._libraries[0]
        codes = _Codes(workload.phrase_for(ours), workload)
        operands = codes.operands(ours)
        names = ours.names() | {"device": "meta"}

        def program(operands: Mapping[str, Any]) -> None:
            exec(codes.statement, names | operands)

        return cost(program, operands)

    def _times(self, workload: Workload, rivals: Mapping[str, Rival], threads: int) -> dict[str, list[float]]:
        effort = self._effort
        single = workload.repetitions or (1 if self._device is not None and not workload.host else None)
        if single:
            for rival in rivals.values():
                rival.work(single)  # pays for what is made once in a process
        repetitions = {
            name: single or calibrate(rival.work, effort.slice_seconds) for name, rival in rivals.items()
        }
        self._cores.hold_new_threads()
        times: dict[str, list[float]] = {name: [] for name in rivals}
        settling = threads > 1 and len(rivals) > 1
        until = time.perf_counter() + effort.row_seconds
        gc.collect(1)  # what the preparation left; a collection of everything takes longer than most rows
        for turn in range(effort.rounds):
            for name in rotated(list(rivals), turn):
                if settling:
                    settle()
                    rivals[name].work(1)  # wakes its own threads
                    self._cores.hold_new_threads()
                times[name].append(max(rivals[name].work(repetitions[name]) / repetitions[name], 1e-12))
            if turn + 1 >= MIN_ROUNDS and (time.perf_counter() > until or self._is_known(times)):
                break
        return times

    def _is_known(self, times: Mapping[str, list[float]]) -> bool:
        ours, effort = times[OURS], self._effort
        widths = [
            paired_ratio_interval(ours, theirs, effort.confidence).half_width
            for name, theirs in times.items()
            if name != OURS
        ]
        if not widths:
            summary = summarise(ours)
            return summary.interquartile_range / summary.median <= effort.precision
        return max(widths) <= effort.precision


class _Codes:
    """Compiled statements of a library: to run, to time, and to compare."""

    def __init__(self, phrase: Phrase, workload: Workload) -> None:
        self._workload = workload
        statement = phrase.statement
        self.statement = compile(statement, f"<{workload.name}>", "exec")
        self.timed = compile(f"{statement}\n{workload.reset}", f"<{workload.name}>", "exec")
        self._reset = compile(workload.reset, f"<reset of {workload.name}>", "exec")
        self._has_setup = bool(phrase.setup)
        self._setup = compile(phrase.setup, f"<setup of {workload.name}>", "exec")
        shown = workload.result or statement
        self._shown: CodeType | None = None
        if workload.compared:
            self._shown = compile(shown, f"<result of {workload.name}>", "eval")

    def operands(self, library: Library) -> dict[str, Any]:
        """Create new tensors for the names in the statement and its setup, and run the setup."""
        used = names_in(self.timed) | names_in(self._setup)
        used |= names_in(self._shown) if self._shown else set()
        made = {name: library.tensor(made) for name, made in self._workload.operands.items() if name in used}
        if self._has_setup:
            namespace = library.names() | made
            exec(self._setup, namespace)
            made = {name: namespace[name] for name in namespace if name != "__builtins__"}
        return made

    def value(self, namespace: dict[str, Any], library: Library) -> tuple[str, np.ndarray]:
        """Return the result of the statement."""
        assert self._shown is not None
        if self._workload.result:
            exec(self.statement, namespace)
        result = library.value(eval(self._shown, namespace))
        exec(self._reset, namespace)
        return result


def names_in(code: CodeType) -> set[str]:
    """Return the global names that code uses, including those in nested comprehensions and functions."""
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*map(names_in, inner))


class _NoCollector:
    """The garbage collector off."""

    def __enter__(self) -> None:
        self._was_enabled = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._was_enabled:
            gc.enable()


def after_synchronization(work: Slice, library: Library) -> Slice:
    """Wrap a slice to start on an idle device without waiting for its work, to measure host time alone."""
    if library.device == "cpu":
        return work

    def timed(count: int) -> float:
        library.synchronize()
        return work(count)

    return timed


def disagreement(workload: Workload, rivals: Mapping[str, Rival]) -> str | None:
    """Describe how triten's result differs from a baseline's; return None if all agree.

    Only PyTorch's dtypes are compared, since NumPy's promotion differs.
    """
    ours = rivals[OURS].value
    assert ours is not None
    dtype, left = ours
    for name, rival in rivals.items():
        if name == OURS or rival.value is None:
            continue
        other, right = rival.value
        if name == "torch" and other != dtype:
            return f"dtype {dtype}, {name}'s is {other}"
        if left.shape != right.shape:
            return f"shape {left.shape}, {name}'s is {right.shape}"
        allowed = agreement(workload, (dtype, other))
        norm = float(np.linalg.norm(right.reshape(-1)))
        distance = float(np.linalg.norm((left - right).reshape(-1)))
        if not distance <= allowed * max(norm, 1e-30) and not (distance == 0 == norm):
            return f"{distance / max(norm, 1e-30):.2g} from {name}'s, allowed {allowed:.2g}"
    return None


def agreement(workload: Workload, dtypes: Sequence[str]) -> float:
    """Return the tolerance of results, by the lowest-precision dtype involved; 0 for integers."""
    if workload.tf32:
        return TF32_AGREEMENT
    operands = [operand.dtype or "float32" for operand in workload.operands.values()] or ["float32"]
    floats = [name for each in dtypes for name in each.split(", ") if name in AGREEMENT]
    if not floats and not any(each.startswith("float") for each in dtypes):
        return 0.0
    taking_part = {*floats, *(name for name in operands if workload.dtype != "float64")}
    return max(AGREEMENT.get(name, 2e-2 if name.startswith("float8") else 0.0) for name in taking_part)


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0][:200]
