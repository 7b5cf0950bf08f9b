"""Programs: steps that each library builds and runs by itself, timed with the host's work and peak memory.

Parameters and inputs differ between the libraries, so results are not compared. A step's result must be finite.
"""

from __future__ import annotations

import gc
import importlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

from ..interleaved import rotated
from .host_time import wall_clock
from .peer import Peer
from .rows import COMPILED, OURS, OURS_COMPILED, PEER, Row

tt: ModuleType = importlib.import_module("..", __package__.rpartition(".")[0])

WARM_UP = 3
"""Steps after the first two, before anything is timed; a rehearsal has none."""
MIN_ROUNDS = 3
FAILURES = (RuntimeError, ValueError, TypeError, AttributeError, NotImplementedError, KeyError)
"""Exceptions that end a row or a rival, not the run."""

Step = Callable[[], Any]


@dataclass(frozen=True)
class Program:
    """Program of one row.

    Attributes:
        group: Group of the row.
        name: Name of the row.
        build: ``build(library, device, compiled)`` returns the step, a function without arguments.
        nbytes: Bytes that a step must move; 0 if the row has no such limit.
        flops: Operations that a step requires; 0 if the row has no such limit.
        can_compile: True if the row also times the step under `tt.compile` and `torch.compile`.
        is_alone: True if the libraries run one after the other, since their memory does not fit together.
    """

    group: str
    name: str
    build: Callable[[ModuleType, str, bool], Step]
    nbytes: int = 0
    flops: int = 0
    can_compile: bool = False
    is_alone: bool = False


def measure_program(
    program: Program, peer: Peer, *, rounds: int, seconds: float, count: int, compiled: bool
) -> Row:
    """Measure a program.

    Args:
        program: The program.
        peer: The baseline.
        rounds: Largest number of rounds. A round times `count` steps of each rival.
        seconds: No round begins after this time, but the first `MIN_ROUNDS`.
        count: Steps of a round; 1 in a rehearsal.
        compiled: If True, also time compiled steps.
    """
    row = Row(program.group, program.name, program.nbytes, program.flops)
    builders = builders_of(program, peer, compiled and program.can_compile)
    times: dict[str, list[float]] = {}
    if program.is_alone:
        for name, build in builders.items():
            _measure_together(row, {name: build}, peer, times, rounds, seconds / len(builders), count)
    else:
        _measure_together(row, builders, peer, times, rounds, seconds, count)
    row.times = times
    if OURS not in times:
        row.note = f"FAILED: {row.absent.get(OURS, 'no step')}"
    return row


def builders_of(program: Program, peer: Peer, compiled: bool) -> dict[str, Callable[[], Step]]:
    """Return the function that builds each rival's step."""
    builders: dict[str, Callable[[], Step]] = {OURS: partial(program.build, tt, "cuda", False)}
    if compiled:
        builders[OURS_COMPILED] = partial(program.build, tt, "cuda", True)
    if peer.library is not None:
        builders[PEER] = partial(program.build, peer.library, peer.device, False)
        if compiled and not peer.rehearsal:
            builders[COMPILED] = partial(program.build, peer.library, peer.device, True)
    return builders


def _measure_together(
    row: Row,
    builders: dict[str, Callable[[], Step]],
    peer: Peer,
    times: dict[str, list[float]],
    rounds: int,
    seconds: float,
    count: int,
) -> None:
    """Build the steps, run each until it is warm, and time them in turns."""
    steps: dict[str, Step] = {}
    for name, build in builders.items():
        library = tt if name in (OURS, OURS_COMPILED) else peer.library
        try:
            steps[name] = warmed_up(row, name, build, library, peer, WARM_UP if count > 1 else 0)
        except FAILURES as error:
            row.absent[name] = f"{type(error).__name__}: {error}"[:300]
        release(peer)
    until = time.monotonic() + seconds
    for turn in range(rounds if steps else 0):
        if turn >= MIN_ROUNDS and time.monotonic() > until:
            break
        for name in rotated(list(steps), turn):
            times.setdefault(name, []).append(wall_clock(steps[name], peer.synchronize, count))
    steps.clear()
    release(peer)


def warmed_up(row: Row, name: str, build: Callable[[], Step], library: Any, peer: Peer, warm_up: int) -> Step:
    """Build a step and run it until it is warm. Record its first times, its peak memory and its result."""
    step = build()
    for ordinal in ("first", "second"):
        row.facts[f"{name}: {ordinal} step, ms"] = wall_clock(step, peer.synchronize, 1) / 1e3
    for _ in range(warm_up):
        step()
    peer.synchronize()
    if library is tt or not peer.rehearsal:
        library.cuda.reset_peak_memory_stats()
    result = step()
    peer.synchronize()
    if library is tt or not peer.rehearsal:
        row.facts[f"{name}: peak memory, MB"] = library.cuda.max_memory_allocated() / 1e6
    if result is not None:
        value = float(result)
        if not math.isfinite(value):
            raise ValueError(f"the step's result is {value}")
        row.facts[f"{name}: result after {3 + warm_up} steps"] = value
    return step


def release(peer: Peer) -> None:
    """Free what no step holds any more."""
    gc.collect()
    peer.empty_caches()
