"""Host time of small calls beside NumPy and eager PyTorch, in one process and interleaved.

The calls are those of `small_calls`; PyTorch runs on one thread. A ratio is triten's time over PyTorch's, the
median over the rounds; a row has a bar where one was set for it. Rows that triten does not offer yet are
reported as missing.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import importlib.util
import itertools
import math
import random
import re
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from types import CodeType, ModuleType
from typing import cast

import numpy as np

from .interleaved import Slice, measure, paired_ratio, rotated, statement_slice, timed_without_collector
from .machine import write_report
from .small_calls import NEW_SHAPE_CALLS, OPERANDS, SMALL_CALLS, SmallCall

OURS, PEER = "triten", "torch"
NEW_SHAPES_A_ROUND = 32
NEW_SHAPE_OPERANDS = ("a", "b", "w", "shape")
# What a library raises for a function, an overload or a kernel that it does not have.
MISSING = (AttributeError, ImportError, NotImplementedError)


@dataclass
class Row:
    """What was measured for one call: microseconds by library (medians), and triten's against PyTorch's."""

    name: str
    group: str
    bar: float | None
    microseconds: dict[str, float] = field(default_factory=dict)
    ratio: float | None = None
    note: str = ""

    @property
    def verdict(self) -> str:
        """`met` or `MISSED` where there is a bar and a ratio, else why there is none."""
        if self.note or self.bar is None or self.ratio is None:
            return self.note
        return "met" if self.ratio <= self.bar else "MISSED"


def load_libraries(names: list[str]) -> dict[str, ModuleType]:
    """The libraries to compare, imported; PyTorch is set to one thread."""
    libraries = {}
    for name in names:
        libraries[name] = (
            importlib.import_module("..", __package__) if name == OURS else importlib.import_module(name)
        )
        if name == PEER:
            libraries[name].set_num_threads(1)
    return libraries


def tensor_of(library: ModuleType, array: np.ndarray, requires_grad: bool) -> object:
    """The array as the library's tensor, or itself for NumPy."""
    if library is np:
        return array
    tensor = library.from_numpy(array)
    return tensor.requires_grad_() if requires_grad else tensor


def functions_of(library: ModuleType) -> dict[str, object]:
    """The names by which statements reach the library itself."""
    if library is np:
        return {"np": np}
    functional = importlib.import_module(f"{library.__name__}.nn.functional")
    return {"tt": library, "F": functional}


def namespace_of(library: ModuleType, code: CodeType) -> dict[str, object]:
    """The library and those operands that a compiled statement names."""
    operands = {
        name: tensor_of(library, operand.array(), operand.requires_grad)
        for name, operand in OPERANDS.items()
        if name in code.co_names
    }
    return functions_of(library) | operands


def statement_for(call: SmallCall, library: ModuleType) -> str | None:
    return call.numpy if library is np else call.statement


def value_of(statement: str, library: ModuleType, namespace: dict[str, object]) -> np.ndarray | None:
    """What the statement gives, as an array; None for several statements. Runs it once either way."""
    if ";" in statement:
        exec(statement, namespace)
        return None
    result = eval(statement, namespace)
    return np.asarray(result) if library is np else result.detach().numpy()


def prepare(call: SmallCall, libraries: dict[str, ModuleType], row: Row, gc_on: bool) -> dict[str, Slice]:
    """A slice for each library that has the call; the note of `row` says which lacks it or disagrees."""
    slices, values = {}, {}
    for name, library in libraries.items():
        statement = statement_for(call, library)
        if statement is None:
            continue
        try:
            namespace = namespace_of(library, compile(statement, "<small call>", "exec"))
            values[name] = value_of(statement, library, namespace)
        except MISSING as error:
            row.note = f"missing in {name}: {error}"
            continue
        slices[name] = statement_slice(statement, namespace, collect_garbage=gc_on)
    if disagree(call, values):
        row.note = "WRONG: the libraries' results differ"
    return slices


def disagree(call: SmallCall, values: dict[str, np.ndarray | None]) -> bool:
    """Whether triten's result is not PyTorch's; a call of `empty` has no value to compare."""
    ours, theirs = values.get(OURS), values.get(PEER)
    if ours is None or theirs is None:
        return False
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return True
    return "empty" not in call.name and not np.allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def fill(row: Row, seconds: dict[str, list[float]]) -> None:
    """Medians and the ratio of what was measured, into `row`."""
    row.microseconds = {name: 1e6 * statistics.median(times) for name, times in seconds.items()}
    if OURS in seconds and PEER in seconds:
        row.ratio = paired_ratio(seconds[OURS], seconds[PEER])


def selected(calls: Iterable[SmallCall], arguments: argparse.Namespace) -> list[SmallCall]:
    """The calls that `--rows` picks."""
    return [call for call in calls if re.search(arguments.rows, f"{call.group}: {call.name}")]


def measure_calls(libraries: dict[str, ModuleType], arguments: argparse.Namespace) -> Iterator[Row]:
    """A row for each call of `SMALL_CALLS` that matches `--rows`; the rounds run over all of them."""
    rows = {
        call.name: (Row(call.name, call.group, call.bar), call) for call in selected(SMALL_CALLS, arguments)
    }
    contests = {name: prepare(call, libraries, row, arguments.gc) for name, (row, call) in rows.items()}
    seconds = measure(contests, rounds=arguments.rounds, slice_seconds=arguments.slice_ms / 1e3)
    for name, (row, _) in rows.items():
        fill(row, seconds[name])
        yield row


def distinct_shapes(count: int) -> Iterator[tuple[int, ...]]:
    """At least `count` shapes of four dimensions, all different, in a fixed random order."""
    extents = range(2, 2 + math.ceil(count**0.25))
    shapes = list(itertools.product(extents, repeat=4))
    random.Random(0).shuffle(shapes)
    return iter(shapes)


def measure_new_shapes(libraries: dict[str, ModuleType], arguments: argparse.Namespace) -> Iterator[Row]:
    """A row for each call of `NEW_SHAPE_CALLS`: every single call meets a shape for the first time."""
    calls = selected(NEW_SHAPE_CALLS, arguments)
    shapes = distinct_shapes(NEW_SHAPES_A_ROUND * (arguments.rounds + 1) * len(calls))
    for call in calls:
        row = Row(call.name, call.group, call.bar)
        seconds: dict[str, list[float]] = {
            name: [] for name, library in libraries.items() if statement_for(call, library)
        }
        for turn in range(arguments.rounds + 1):
            fresh = list(itertools.islice(shapes, NEW_SHAPES_A_ROUND))
            for name in rotated(list(seconds), turn):
                try:
                    elapsed = time_new_shapes(call, libraries[name], fresh)
                except MISSING as error:
                    row.note = f"missing in {name}: {error}"
                    del seconds[name]
                    continue
                if turn:  # the first round also pays for what is made once in a process
                    seconds[name].append(elapsed / NEW_SHAPES_A_ROUND)
        fill(row, seconds)
        yield row


def time_new_shapes(call: SmallCall, library: ModuleType, shapes: list[tuple[int, ...]]) -> float:
    """Seconds of the call over all of the shapes; making the operands is not counted."""
    statement = statement_for(call, library)
    assert statement is not None
    used = compile(statement, "<new shapes>", "exec").co_names
    names = [name for name in NEW_SHAPE_OPERANDS if name in used]
    operands = [
        tuple(
            shape if name == "shape" else tensor_of(library, np.ones(shape, np.float32), name == "w")
            for name in names
        )
        for shape in shapes
    ]
    namespace = functions_of(library)
    loop = f"def loop(operands):\n    for {', '.join(names)}, in operands:\n        {statement}"
    exec(loop, namespace)
    return timed_without_collector(partial(cast(Callable[[object], None], namespace["loop"]), operands))


def format_table(rows: list[Row], libraries: list[str]) -> str:
    """The rows as text, a heading for each group, and the geometric mean of the ratios of warm calls."""
    lines = []
    for group, members in itertools.groupby(rows, key=lambda row: row.group):
        headings = "".join(f"{name + ' us':>12}" for name in libraries)
        lines += ["", f"{group:<28}{headings}{'ratio':>8}{'bar':>7}  verdict"]
        for row in members:
            times = "".join(
                f"{row.microseconds[name]:>12.2f}" if name in row.microseconds else f"{'':>12}"
                for name in libraries
            )
            ratio = f"{row.ratio:>8.2f}" if row.ratio is not None else f"{'':>8}"
            bar = f"{row.bar:>7.2f}" if row.bar is not None else f"{'':>7}"
            lines.append(f"{row.name:<28}{times}{ratio}{bar}  {row.verdict}".rstrip())
    ratios = [row.ratio for row in rows if row.ratio is not None and row.group != "new shapes"]
    if ratios:
        mean = statistics.geometric_mean(ratios)
        lines += ["", f"geometric mean of {len(ratios)} ratios, without new shapes: {mean:.2f}"]
    return "\n".join(lines)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `python -m triten.perf overhead`."""
    peers = [name for name in ("numpy", PEER) if importlib.util.find_spec(name)]
    parser.add_argument(
        "--peers", nargs="*", default=peers, choices=("numpy", PEER), help="default: those installed"
    )
    parser.add_argument("--rows", default="", metavar="REGEX", help="only rows whose `group: name` matches")
    parser.add_argument("--rounds", type=int, default=40, help="slices of each call and library")
    parser.add_argument("--slice-ms", type=float, default=2.0, help="length of a slice")
    parser.add_argument("--gc", action="store_true", help="leave the garbage collector on while timing")
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write the rows to this file")


def run(arguments: argparse.Namespace) -> int:
    """Measure, print the table, and write it where `--json` says."""
    libraries = load_libraries([*arguments.peers, OURS])
    rows = [*measure_calls(libraries, arguments), *measure_new_shapes(libraries, arguments)]
    if not rows:
        print(f"no row matches {arguments.rows!r}", file=sys.stderr)
        return 2
    print(format_table(rows, list(libraries)))
    if arguments.json:
        results = [asdict(row) | {"verdict": row.verdict} for row in rows]
        versions = {name: importlib.metadata.version(name) for name in libraries}
        write_report(arguments.json, "overhead", results, versions)
    return 0
