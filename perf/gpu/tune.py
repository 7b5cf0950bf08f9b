"""Tuning of the shipped table of a capability: `tt.triton_kernels.autotune` over the benchmark's workloads.

    python -m triten.perf tune -o triton_kernels/tuning/tables/sm_90.json

The workloads are those of the benchmark: matmuls, convolutions, rows, attention, elementwise work and reductions.
The gradients of convolutions, rows and attention follow, then norms of channels, cross-entropy, sorting, and
steps of optimizers. Every launch's candidates are timed on this device. The table holds the best candidate of
each kernel, dtype and class of shapes, and its origin. Other entries of the file stay if their kernels are
unchanged. The file is written after each workload, so that an interrupted run keeps what it measured. No
workload begins after `--seconds`. Exit status 2 means that there is no GPU.
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
from .convolution_workloads import convolution_gradients
from .rehearsal import REHEARSAL_SCALE, HostTimer, without_store
from .workloads import (
    Operand,
    Workload,
    attention,
    convolutions,
    memory_bound,
    products,
    rows_of_networks,
)

tt: ModuleType = importlib.import_module("..", __package__.rpartition(".")[0])

NO_DEVICE = 2
OPTIMIZER_SIZES = ((1_000_000,), (25_000_000,), (1_000_000, 4_000, 1_000) * 30)
"""Lists of parameters: of one layer, of a small network in one piece, and of many tensors of all sizes."""


CHANNEL_NORMS = ((256, 64, 112), (64, 256, 56), (64, 1024, 14), (64, 2048, 7))
"""Batches, channels and sides of images: ResNet-50's norms."""
GROUPS = 32
Call = tuple[Callable[..., object], tuple[Any, ...]]
"""A function and its arguments."""
LOSSES = ((8192, 50257), (8192, 128256), (16384, 1000))
"""Rows and classes of cross-entropy: vocabularies, and ImageNet."""
ATTENTION = (("float32", 64, False), ("float32", 128, False), ("bfloat16", 64, True), ("bfloat16", 128, True))
"""Dtypes, head sizes and masks of attention that the benchmark's rows lack; other kernels serve it."""
SORTED_LINES = ((1, 1 << 24), (4096, 1 << 14), (256, 128256))


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
    properties = tt.cuda.get_device_properties()
    deadline = math.inf if arguments.seconds is None else time.monotonic() + arguments.seconds
    autotune = rehearsed if arguments.rehearse else tt.triton_kernels.autotune
    for label, made in calls(pattern, REHEARSAL_SCALE if arguments.rehearse else 1):
        if time.monotonic() >= deadline:
            print(f"{label} and what follows: left out after {arguments.seconds:g} seconds", file=sys.stderr)
            break
        try:
            call, args = made()
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
        write_table(arguments.output, properties.capability, properties.name, list(entries.values()))
        del call, args
        tt.cuda.empty_cache()
    write_table(arguments.output, properties.capability, properties.name, list(entries.values()))
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


def calls(pattern: re.Pattern[str], scale: int = 1) -> Iterator[tuple[str, Callable[[], Call]]]:
    """Yield labels of tuning calls, and functions that make them; a device may lack the dtype of some.

    `scale` divides the sizes of workloads, for a rehearsal.
    """
    for label, made in every_call(scale):
        if pattern.search(label):
            yield label, made


def every_call(scale: int = 1) -> Iterator[tuple[str, Callable[[], Call]]]:
    """Yield every label with its function."""
    for family in (
        products,
        convolutions,
        convolution_gradients,
        rows_of_networks,
        attention,
        memory_bound,
    ):
        for workload in family(scale):
            if reaches(workload.needs):
                yield f"{workload.group}: {workload.name}", partial(as_call, workload)
    for family in (rows_of_networks, attention):
        for workload in family(scale):
            if reaches(workload.needs):
                label = f"{workload.group}, gradients: {workload.name}"
                yield label, lambda workload=workload: with_gradients(*as_call(workload))
    if scale == 1:
        yield from further_calls()
    for dtype in ("float32", "bfloat16"):
        for sizes in OPTIMIZER_SIZES:
            label = f"optimizers: {len(sizes)} tensors of up to {max(sizes)} {dtype}"
            yield f"{label}, SGD", partial(sgd_call, sizes, dtype)
            yield f"{label}, AdamW", partial(adamw_call, sizes, dtype)


def further_calls() -> Iterator[tuple[str, Callable[[], Call]]]:
    """Yield labels, and functions that make the calls: attention, norms of channels, cross-entropy and sorting."""
    for dtype, head, masked in ATTENTION:
        label = f"attention: {dtype}, head {head}{', mask' if masked else ''}"
        yield label, partial(attention_call, dtype, head, masked)
    yield "attention: one query, head 128 bfloat16", decoding_call
    for shape in CHANNEL_NORMS:
        for last in (False, True):
            size = "x".join(map(str, (*shape, shape[-1])))
            label = f"{size} bfloat16{', channels-last' if last else ''}"
            yield f"norms of channels: batch_norm {label}", partial(channel_norm_call, shape, last, 0)
            yield f"norms of channels: group_norm {label}", partial(channel_norm_call, shape, last, GROUPS)
    for rows, classes in LOSSES:
        for dtype in ("float32", "bfloat16"):
            yield f"losses: cross_entropy {rows}x{classes} {dtype}", partial(loss_call, rows, classes, dtype)
    for lines, length in SORTED_LINES:
        operand = Operand((lines, length), "float32")
        size = f"{lines}x{length} float32"
        yield f"sorting: sort {size}", lambda x=operand: (lambda x: x.sort(1), (tensor_for(x),))
        yield f"sorting: topk {size}", lambda x=operand: (lambda x: x.topk(50, 1), (tensor_for(x),))


def attention_call(dtype: str, head: int, masked: bool) -> Call:
    """Return attention of 4096 tokens with its gradients, in samples of 1024."""
    functional = importlib.import_module(f"{tt.__name__}.nn.functional")
    mask = tensor_for(Operand((1024, 1024), dtype)) if masked else None
    operand = Operand((4, 16, 1024, head), dtype)

    def attend(q: Any, k: Any, v: Any) -> Any:
        return functional.scaled_dot_product_attention(q, k, v, mask)

    return with_gradients(attend, tuple(tensor_for(operand) for _ in range(3)))


def decoding_call() -> Call:
    """Return attention of one query in each of 64 samples, whose heads share keys."""
    functional = importlib.import_module(f"{tt.__name__}.nn.functional")
    query, keys = Operand((64, 32, 1, 128), "bfloat16"), Operand((64, 8, 4096, 128), "bfloat16")
    attend = partial(functional.scaled_dot_product_attention, enable_gqa=True)
    return attend, (tensor_for(query), tensor_for(keys), tensor_for(keys))


def channel_norm_call(shape: tuple[int, int, int], last: bool, groups: int) -> Call:
    """Return a training step of batch norm, or of group norm with this many groups, over square images."""
    functional = importlib.import_module(f"{tt.__name__}.nn.functional")
    batch, channels, side = shape
    x = tensor_for(Operand((batch, channels, side, side), "bfloat16", channels_last=last))
    weight, bias = (tensor_for(Operand((channels,), "bfloat16" if groups else "float32")) for _ in range(2))

    def norm(x: Any, weight: Any, bias: Any) -> Any:
        if groups:
            return functional.group_norm(x, groups, weight, bias)
        return functional.batch_norm(x, None, None, weight, bias, training=True)

    return with_gradients(norm, (x, weight, bias))


def loss_call(rows: int, classes: int, dtype: str) -> Call:
    """Return cross-entropy with its gradient."""
    functional = importlib.import_module(f"{tt.__name__}.nn.functional")
    targets = tt.randint(classes, (rows,), device="cuda")
    scores = tensor_for(Operand((rows, classes), dtype))
    return with_gradients(lambda x: functional.cross_entropy(x, targets), (scores,))


def with_gradients(function: Callable[..., Any], args: tuple[Any, ...]) -> Call:
    """Return a function of the same tensors that returns their gradients.

    It runs the function too, since the nodes of a graph keep the plans of their forward pass.
    """

    def gradients(*tensors: Any) -> Any:
        leaves = [each.detach().requires_grad_() for each in tensors]
        result = function(*leaves)
        return tt.autograd.grad(result, leaves, tt.ones_like(result))

    return gradients, args


def reaches(path: str) -> bool:
    """Return True if a public name of triten exists."""
    value: Any = tt
    for name in path.split(".") if path else ():
        value = getattr(value, name, None)
    return value is not None


def as_call(workload: Workload) -> Call:
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


def lists(count: int, sizes: tuple[int, ...], dtype: str) -> tuple[list[Any], ...]:
    """Return so many lists of tensors of these sizes."""
    kind = getattr(tt, dtype)
    return tuple([tt.rand(size, device="cuda", dtype=kind) for size in sizes] for _ in range(count))


def sgd_call(sizes: tuple[int, ...], dtype: str) -> Call:
    """Return a step of SGD with momentum."""
    sgd = partial(
        tt._fused_sgd_, weight_decay=0.1, momentum=0.9, lr=0.1, dampening=0.0, nesterov=False, maximize=False,
        is_first_step=False,
    )  # fmt: skip
    return sgd, lists(3, sizes, dtype)


def adamw_call(sizes: tuple[int, ...], dtype: str) -> Call:
    """Return a step of AdamW."""
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
    steps = [tt.ones((), device="cuda") for _ in sizes]
    return adamw, (*lists(4, sizes, dtype), [], steps)
