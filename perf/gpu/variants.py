"""Variants of kernels against the default: every candidate of a tuning question, timed over rows of the benchmark.

    python -m triten.perf gpu variants --rows "^(softmax|norms)" --output variants.json

A candidate that a kernel declares appears by itself. A variant is kept only if it is faster than the default
by more than 3 % and by more than the spread of both. Nothing changes: the shipped tables and the stored
measurements stay as they are. Programmatic dependent launch is timed on and off.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from ...runtime.cuda import driver as drivers
from ...triton_kernels import launch
from ...triton_kernels.tuning.autotune import failures, tune
from ...triton_kernels.tuning.choice import forget, make_plans_anew
from ...triton_kernels.tuning.measurement import RUNS, TURNS, Times, measure
from ...triton_kernels.tuning.report import Finding
from ...triton_kernels.tuning.timer import EventTimer, Timer
from ..refusal import expression, require_positive, require_writable
from ..result_file import write_whole
from .further_workloads import further_workloads
from .peer import Pair
from .rehearsal import REHEARSAL_SCALE, HostTimer, without_store
from .statements import statement_runner
from .tune import tensor_for
from .workloads import Workload, all_workloads

tt: ModuleType = importlib.import_module("..", __package__.rpartition(".")[0])

MIN_GAIN = 0.03
"""Share of the default's time that a variant must save."""
FAMILIES = (
    r"^softmax: softmax (4096x16384|2048x50257)", r"^norms: .*(4096x16384|2048x50257)",
    r"^matmul, at most 64 rows", r"^attention: .*head 64", r"^conv2d, ResNet-50: .*1x1/2", r"^conv2d, ResNet-50",
    r"^attention", r"^(softmax|norms)", r"^backward", r"^cross-entropy", r"^matmul",
)  # fmt: skip
"""Patterns of ``group: name``, in the order in which rows are measured."""
ALWAYS = 1 << 30


@dataclass(frozen=True)
class Variant:
    """One configuration of one launch, in microseconds.

    Attributes:
        row: ``group: name`` of the row.
        question: Kernel, dtype and class of shapes, or the name of a switch.
        configuration: Tile, warps and stages, or the state of the switch.
        median: Median time of the row.
        spread: Half of the interquartile range.
        gain: Share of the default's time that the variant saves; 0 for the default.
        result: ``default``, ``ahead``, ``behind`` or ``within the noise``.
    """

    row: str
    question: str
    configuration: str
    median: float
    spread: float
    gain: float
    result: str


def judged(row: str, question: str, named: Sequence[tuple[str, Times]]) -> list[Variant]:
    """Compare candidates with the first, the default.

    Example:
        >>> from triten.triton_kernels.tuning.measurement import Times
        >>> times = [("a", Times((10.0, 10.0))), ("b", Times((9.8, 9.8))), ("c", Times((9.0, 9.0)))]
        >>> [variant.result for variant in judged("row", "kernel", times)]
        ['default', 'within the noise', 'ahead']
    """
    found = []
    default = named[0][1]
    for number, (name, times) in enumerate(named):
        gain = 1 - times.median / default.median
        noise = max(MIN_GAIN, (times.spread + default.spread) / default.median)
        result = "ahead" if gain > noise else "behind" if gain < -noise else "within the noise"
        result = result if number else "default"
        found.append(Variant(row, question, name, times.median, times.spread, gain, result))
    return found


def variants_of(finding: Finding, row: str) -> list[Variant]:
    """Compare the candidates of a tuning question."""
    named = [(str(configuration), times) for configuration, times in finding.times.items()]
    return judged(row, str(finding.question), named) if named else []


@contextmanager
def without_dependent_launch() -> Iterator[None]:
    """Plan launches that wait for the whole previous launch."""
    least = launch.MIN_CAPABILITY
    launch.MIN_CAPABILITY = ALWAYS  # type: ignore[attr-defined]
    make_plans_anew()
    try:
        yield
    finally:
        launch.MIN_CAPABILITY = least  # type: ignore[attr-defined]
        make_plans_anew()


SWITCHES: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "programmatic dependent launch off": without_dependent_launch
}
"""Variants that are no candidates of a kernel."""


def switched(
    run: Callable[[], object], timer: Timer, row: str, turns: int, runs: int
) -> Iterator[list[Variant]]:
    """Time a row under each switch against the default."""
    for name, switch in SWITCHES.items():

        def take(candidate: int, count: int, switch: Any = switch) -> list[float]:
            with switch() if candidate else _as_it_is():
                run()
                run()
                return [timer.microseconds(run) for _ in range(count)]

        times = measure(2, take, turns, runs)
        yield judged(row, name, list(zip(("default", name), times, strict=True)))


@contextmanager
def _as_it_is() -> Iterator[None]:
    yield


def rows_of(pattern: str, scale: int) -> list[Workload]:
    """Return the rows that match a pattern, in the order of `FAMILIES`, each once."""
    wanted = expression(pattern)
    workloads = {
        f"{each.group}: {each.name}": each for each in (*all_workloads(scale), *further_workloads(scale))
    }
    names = [name for family in FAMILIES for name in workloads if expression(family).search(name)]
    return [workloads[name] for name in dict.fromkeys((*names, *workloads)) if wanted.search(name)]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `python -m triten.perf variants`."""
    parser.add_argument("--rows", "--only", default="", metavar="REGEX", help="only rows that match")
    parser.add_argument("--seconds", type=float, help="no row begins after so many; what is there is valid")
    parser.add_argument("--output", type=Path, metavar="FILE", help="all candidates, as JSON")
    parser.add_argument("--rehearse", action="store_true", help="tiny sizes, without a GPU too")


def run(arguments: argparse.Namespace) -> int:
    """Time the variants, print those ahead of the default, write all."""
    started = time.monotonic()
    require_positive(arguments, "seconds")
    require_writable(arguments.output)
    expression(arguments.rows)
    if not tt.cuda.is_available() or (drivers.is_simulated() and not arguments.rehearse):
        print(
            "variants: no CUDA GPU is available here: nothing was measured; --rehearse runs without one",
            file=sys.stderr,
        )
        return 2
    with without_store():
        return measure_rows(arguments, started)


def measure_rows(arguments: argparse.Namespace, started: float) -> int:
    """Time the rows that were asked for; return the exit status."""
    turns, runs, scale = (1, 2, REHEARSAL_SCALE) if arguments.rehearse else (TURNS, RUNS, 1)
    timer_for = HostTimer if arguments.rehearse else EventTimer
    found: list[Variant] = []
    errors: dict[str, str] = {}
    rows = rows_of(arguments.rows, scale)
    done = 0
    for workload in rows:
        forget()  # each row's default is the shipped one, whatever an earlier row of its class has found
        if arguments.seconds is not None and time.monotonic() - started >= arguments.seconds:
            break
        label = f"{workload.group}: {workload.name}"
        try:
            found += measured(workload, label, timer_for, turns, runs)
        except (*failures(), NotImplementedError, AttributeError) as error:
            errors[label] = f"{type(error).__name__}: {error}"[:300]
        done += 1
        tt.cuda.empty_cache()
        if arguments.output is not None:
            payload = {
                "format": "triten.perf.variants", "rehearsal": arguments.rehearse, "rows": done, "of": len(rows),
                "variants": [asdict(each) for each in found], "errors": errors,
            }  # fmt: skip
            write_whole(arguments.output, json.dumps(payload, indent=1) + "\n")
    if not rows:
        print(f"no row matches {arguments.rows!r}", file=sys.stderr)
        return 2
    print(text_of(found))
    for label, error in errors.items():
        print(f"left out: {label}: {error}")
    print(f"{done} of {len(rows)} rows, {len(found)} configurations")
    if arguments.rehearse:
        print("a rehearsal: its times say nothing")
    return 0


def measured(workload: Workload, label: str, timer_for: Any, turns: int, runs: int) -> list[Variant]:
    """Time the candidates and the switches of a row."""
    operands = {name: tensor_for(operand) for name, operand in workload.operands.items()}
    work = partial(
        statement_runner(workload, tt, [{name: Pair(x, None) for name, x in operands.items()}], 0), 0
    )
    report = tune(work, list(operands.values()), timer_for, turns, runs)
    found = [variant for finding in report.findings for variant in variants_of(finding, label)]
    timer = timer_for(tt.device("cuda", tt.cuda.current_device()))
    for each in switched(work, timer, label, turns, runs):
        found += each
    return found


def text_of(variants: Sequence[Variant]) -> str:
    """Format the variants that are ahead of the default, the largest gain first."""
    ahead = sorted((each for each in variants if each.result == "ahead"), key=lambda each: -each.gain)
    lines = [f"{'ahead of the default by more than 3 % and the spread':<64}{'us':>10}{'gain':>7}"]
    lines += [f"{each.row}\n  {each.question}, {each.configuration:<50}{each.median:>10.2f}{each.gain:>7.1%}"
              for each in ahead]  # fmt: skip
    return "\n".join(
        lines if ahead else ["no variant is ahead of the default by more than 3 % and the spread"]
    )
