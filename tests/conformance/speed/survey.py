"""The timing: each operator beside PyTorch's, small and large, in one process and in turn."""

import gc
import json
import math
import statistics
import sys
import time
import warnings
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial

import torch
from torch.testing._internal.opinfo.core import OpInfo

import triten as tt
from triten.perf.interleaved import Slice, measure, statement_slice

from ..conversion import Conversion, OutsideError, copied
from ..modes.mode import ours_of
from ..operators import FACTORED, RANDOM, MissingError, chosen, functional, ordered, title
from .operands import Operands, large, seconds_of, small

SIZES = ("small", "large")
ROUNDS, SLICE_SECONDS = 5, 0.003
LONGEST, GROWTH = 0.04, 4
"""Seconds that PyTorch may take for a large call, and by how much operands grow at once."""
SLOW = 5.0
"""Ratios beyond this are listed with their times."""
TOGETHER = 12
"""Operators in one measurement, which goes through all of them in each round."""


@dataclass(frozen=True)
class Row:
    """Medians of one operator's seconds at one size."""

    operator: str
    size: str
    operands: str
    ours: float
    theirs: float

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs


def survey(options: Namespace) -> int:
    """Print the ratios' geometric means, and each operator beyond `SLOW`. Gives the exit status, 0."""
    warnings.filterwarnings("ignore")
    torch.set_num_threads(options.threads)
    tt.set_num_threads(options.threads)
    gc.freeze()
    started, rows = time.monotonic(), list(measured(options.ops, options.part))
    if options.json:
        with open(options.json, "w") as file:
            json.dump([asdict(row) for row in rows], file, indent=1)
    gc.unfreeze()
    print(summary(rows))
    print(f"{time.monotonic() - started:.0f} s")
    return 0


def measured(pattern: str, part: tuple[int, int] = (1, 1)) -> Iterator[Row]:
    """Measure the operators whose names match `pattern`, or one part of them: the first of three, for example."""
    number, of = part
    operators = list(chosen(pattern, torch.float32))[number - 1 :: of]
    for start in range(0, len(operators), TOGETHER):
        contests: dict[str, dict[str, Slice]] = {}
        made: dict[str, tuple[str, str, str]] = {}
        for operator in operators[start : start + TOGETHER]:
            for size in SIZES:
                found = contest(operator, size)
                if found is not None:
                    name = f"{title(operator)} {size}"
                    contests[name], made[name] = found[1], (title(operator), size, found[0])
        times = measure(contests, rounds=ROUNDS, slice_seconds=SLICE_SECONDS)
        for name, seconds in times.items():
            yield Row(*made[name], *(statistics.median(seconds[rival]) for rival in ("triten", "torch")))


def contest(operator: OpInfo, size: str) -> tuple[str, dict[str, Slice]] | None:
    """Return both libraries' calls with the first operands that both accept; None if there are none."""
    try:
        for ladder in large(operator) if size == "large" else map(iter, zip(small(operator))):
            if found := _highest(operator, ladder):
                return found
    except MissingError:
        return None
    print(f"no {size} operands for {title(operator)}", file=sys.stderr)
    return None


def _highest(operator: OpInfo, ladder: Iterator[Operands]) -> tuple[str, dict[str, Slice]] | None:
    """Return the largest of growing operands that PyTorch processes within `LONGEST`."""
    found = None
    for operands in ladder:
        rivals, seconds = _rivals(operator, operands)
        if rivals is None or (found and seconds > LONGEST):
            break
        found = str(operands), rivals
        if seconds * GROWTH > LONGEST:
            break
    return found


def _rivals(operator: OpInfo, operands: Operands) -> tuple[dict[str, Slice] | None, float]:
    """Return both calls, unless one refuses, and the seconds of PyTorch's."""
    call = functional(operator)
    try:
        mine, mine_named = ours_of(operator, Conversion("cpu"), operands.positional, operands.named)
    except OutsideError:
        return None, math.inf
    theirs, (positional, named) = operator.op, copied((operands.positional, operands.named))
    if RANDOM.match(operator.name) or operator.name in FACTORED:
        # The database's own sets a seed at each call.
        theirs, positional = functional(operator, torch), ordered(operator, positional)
    seconds = seconds_of(partial(theirs, *positional, **named))
    if math.isinf(seconds):
        return None, seconds
    if math.isinf(seconds_of(partial(call, *mine, **mine_named))):
        print(
            f"{title(operator)}({operands}): PyTorch takes these operands, triten refuses them",
            file=sys.stderr,
        )
        return None, seconds
    return {
        "torch": statement_slice("f(*a, **k)", {"f": theirs, "a": positional, "k": named}),
        "triten": statement_slice("f(*a, **k)", {"f": call, "a": mine, "k": mine_named}),
    }, seconds


def summary(rows: list[Row]) -> str:
    """Return the geometric means and the slowest rows, worst first."""
    lines = []
    for size in SIZES:
        ratios = [row.ratio for row in rows if row.size == size]
        if ratios:
            beyond = sum(ratio > SLOW for ratio in ratios)
            lines.append(
                f"speed {size}: {math.exp(statistics.fmean(map(math.log, ratios))):.3f} times PyTorch's time "
                f"(geometric mean of {len(ratios)} operators, median {statistics.median(ratios):.2f}); "
                f"{beyond} over {SLOW:g}"
            )
    slow = sorted((row for row in rows if row.ratio > SLOW), key=lambda row: -row.ratio)
    lines += [
        f"{row.ratio:7.1f} {row.size} {row.operator}({row.operands}): "
        f"{row.ours * 1e6:.1f} us, PyTorch {row.theirs * 1e6:.1f} us"
        for row in slow
    ]
    return "\n".join(lines)
