"""Tuning of the shipped table of a capability: `tt.triton_kernels.autotune` over the benchmark's workloads.

    python -m triten.perf tune -o triton_kernels/tuning/tables/sm_90.json

The workloads are matmuls, convolutions, rows and attention, then steps of optimizers, each in its own sizes.
Every launch's candidates are timed on this device. The table holds the best candidate of each kernel, dtype
and class of shapes, and its origin. Other entries of the file stay if their kernels are unchanged. Exit
status 2 means that there is no GPU.
"""

from __future__ import annotations

import argparse
import importlib
import math
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from ...runtime.cuda.driver import is_simulated
from ...triton_kernels.tuning.autotune import tune
from ...triton_kernels.tuning.entry import Entry, source_of
from ...triton_kernels.tuning.report import Report
from ...triton_kernels.tuning.table import read_table, table_text
from ..refusal import RefusalError, expression, require_positive, require_writable
from ..result_file import installed_versions
from .rehearsal import REHEARSAL_SCALE, HostTimer, without_store
from .workloads import Operand, Workload, attention, convolutions, products, rows_of_networks

tt: ModuleType = importlib.import_module("..", __package__.rpartition(".")[0])

NO_DEVICE = 2
OPTIMIZER_SIZES = ((1_000_000,), (25_000_000,), (1_000_000, 4_000, 1_000) * 30)
"""Lists of parameters: of one layer, of a small network in one piece, and of many tensors of all sizes."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `python -m triten.perf tune`."""
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="the table to make or renew"
    )
    parser.add_argument(
        "--rows", default="", metavar="REGEX", help="only workloads whose `group: name` matches"
    )
    parser.add_argument(
        "--seconds", type=float, help="no workload begins after so many; the table is written"
    )
    parser.add_argument(
        "--rehearse", action="store_true", help="tiny sizes, without a GPU too; the times say nothing"
    )


def run(arguments: argparse.Namespace) -> int:
    """Tune, write the table, and print the reports."""
    require_positive(arguments, "seconds")
    pattern = expression(arguments.rows)
    require_writable(arguments.output)
    try:
        read_table(arguments.output)
    except (ValueError, KeyError, TypeError) as error:
        raise RefusalError(f"--output {arguments.output} is there and no table: {error}") from None
    missing = "" if arguments.rehearse and tt.cuda.is_available() else what_is_missing()
    if missing:
        print(f"tune: {missing}: nothing was measured, no table was written", file=sys.stderr)
        return NO_DEVICE
    entries: dict[tuple[str, str, str], Entry] = {}
    deadline = math.inf if arguments.seconds is None else time.monotonic() + arguments.seconds
    autotune = rehearsed if arguments.rehearse else tt.triton_kernels.autotune
    for label, call, args in calls(pattern, REHEARSAL_SCALE if arguments.rehearse else 1):
        if time.monotonic() >= deadline:
            print(f"time is up before {label}", file=sys.stderr)
            break
        try:
            report = autotune(call, *args)
        except (NotImplementedError, tt.cuda.OutOfMemoryError) as error:
            print(f"{label}: left out: {error}", file=sys.stderr)
            continue
        print(f"{label}\n{report}\n", flush=True)
        for finding in report.findings:
            entry = finding.entry
            if entry is not None:
                # Classes share an answer: that of the workload which stands first, since those matter most.
                entries.setdefault((entry.kernel, entry.dtype, entry.shape), entry)
        tt.cuda.empty_cache()
    properties = tt.cuda.get_device_properties()
    capability = properties.capability
    write_table(arguments.output, capability, properties.name, list(entries.values()))
    print(f"{len(entries)} entries measured on {properties.name} written to {arguments.output}")
    return 0


def rehearsed(call: Callable[..., object], *args: Any) -> Report:
    """Tune by host time, from which nothing follows, and keep nothing beyond the table."""
    with without_store():
        return tune(partial(call, *args), args, HostTimer, 1, 1)


def what_is_missing() -> str:
    """Return why nothing can be timed; an empty string if a GPU is available."""
    if not tt.cuda.is_available():
        return "no CUDA GPU is available here"
    if is_simulated():
        return f"TRITEN_CUDA={os.environ['TRITEN_CUDA']} simulates a device, whose times say nothing"
    return ""


def write_table(path: Path, capability: int, device: str, measured: list[Entry]) -> None:
    """Update a table with measured entries, replacing the entries of the same questions."""
    known = {(e.kernel, e.dtype, e.shape): e for e in read_table(path) if e.source == source_of(e.kernel)}
    known |= {(e.kernel, e.dtype, e.shape): e for e in measured}
    versions = installed_versions()
    origin = f"python -m triten.perf tune on {device}, {datetime.now(UTC):%Y-%m-%d}, Triton {versions.get('triton')}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(table_text(capability, origin, known.values()), encoding="utf-8")


def calls(
    pattern: re.Pattern[str], scale: int = 1
) -> Iterator[tuple[str, Callable[..., object], tuple[Any, ...]]]:
    """Yield the tuning calls: a label, a function, and its arguments. `scale` divides the sizes."""
    for family in (products, convolutions, rows_of_networks, attention):
        for workload in family(scale):
            label = f"{workload.group}: {workload.name}"
            if pattern.search(label) and reaches(workload.needs):
                yield label, *as_call(workload)
    for dtype in ("float32", "bfloat16"):
        for sizes in OPTIMIZER_SIZES:
            label = f"optimizers: {len(sizes)} tensors of up to {max(sizes)} {dtype}"
            if pattern.search(label):
                for call, args in optimizer_calls(sizes, dtype):
                    yield label, call, args


def reaches(path: str) -> bool:
    """Return True if a public name of triten exists."""
    value: Any = tt
    for name in path.split(".") if path else ():
        value = getattr(value, name, None)
    return value is not None


def as_call(workload: Workload) -> tuple[Callable[..., object], tuple[Any, ...]]:
    """Convert a workload's statement to a function of its operands."""
    names = tuple(workload.operands)
    functional = importlib.import_module(f"{tt.__name__}.nn.functional")
    code = compile(f"lambda {', '.join(names)}: {workload.statement}", f"<{workload.name}>", "eval")
    function: Callable[..., object] = eval(code, {"lib": tt, "F": functional})
    if reaches("set_float32_matmul_precision"):
        tt.set_float32_matmul_precision("high" if workload.tf32 else "highest")
    return function, tuple(tensor_for(operand) for operand in workload.operands.values())


def tensor_for(operand: Operand) -> Any:
    """Sample a tensor of normal numbers, or of integers."""
    if operand.high:
        return tt.randint(0, operand.high, operand.shape, device="cuda", dtype=getattr(tt, operand.dtype))
    made = tt.randn(*operand.shape, device="cuda").to(getattr(tt, operand.dtype))
    return made.contiguous(memory_format=tt.channels_last) if operand.channels_last else made


def optimizer_calls(
    sizes: tuple[int, ...], dtype: str
) -> Iterator[tuple[Callable[..., object], tuple[Any, ...]]]:
    """Yield a step of SGD with momentum, and a step of AdamW."""

    def lists(count: int) -> list[list[Any]]:
        kind = getattr(tt, dtype)
        return [[tt.rand(size, device="cuda", dtype=kind) for size in sizes] for _ in range(count)]

    sgd = partial(
        tt._fused_sgd_, weight_decay=0.1, momentum=0.9, lr=0.1, dampening=0.0, nesterov=False, maximize=False,
        is_first_step=False,
    )  # fmt: skip
    yield sgd, tuple(lists(3))
    steps = [tt.ones((), device="cuda") for _ in sizes]
    adamw = partial(
        tt._fused_adamw_,
        lr=0.1,
        beta1=0.9,
        beta2=0.999,
        weight_decay=0.1,
        eps=1e-8,
        amsgrad=False,
        maximize=False,
    )
    yield adamw, (*lists(4), [], steps)
