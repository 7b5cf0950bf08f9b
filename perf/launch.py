"""Host time of a kernel's launch, from the plan to the driver's call, and of `a + b` on 16 elements by layers.

On a machine with a GPU the launches are real. `--standin PATH` takes another libcuda.so.1, one that runs no kernel
(`python tests/runtime/cuda/standin/build_library.py FOLDER` builds it): what is left is the time of this package and
of CuPy. Times are of the calling thread's processor, so that a busy machine does not count, and the queue of the
device is emptied between slices without being timed. PyTorch is measured beside where it is installed with CUDA.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import importlib.metadata
import importlib.util
import statistics
import time
import timeit
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType

from .interleaved import Slice, measure, paired_ratio
from .machine import write_report
from .refusal import RefusalError, require_positive, require_writable

ARGUMENTS = (1, 3, 9, 20)
BAR = 3.0
"""Microseconds from plan to driver call for `BARRED` arguments."""
BARRED = 9
QUEUE = 256
"""Launches between two waits: fewer than the driver takes before it makes the host wait."""
TYPES = ("i32", "fp32", "i64")
POINTERS = 3


@dataclass
class Row:
    """Microseconds of one statement: the median over the rounds, and its share of another's where that is asked."""

    name: str
    microseconds: float
    note: str = ""


def use_standin(path: Path) -> None:
    """Make the library the process's CUDA driver. Raises OSError where it does not load."""
    library = ctypes.CDLL(str(path / "libcuda.so.1" if path.is_dir() else path))
    runtime = importlib.import_module("cupy_backends.cuda.api.runtime")
    if not library.standin_replace_runtime(str(runtime.__file__).encode()):
        raise OSError(f"{path} does not replace the runtime API of {runtime.__file__}")
    library.standin_set_logging(0)


def queued(statement: str, namespace: Mapping[str, object], wait: Callable[[], object]) -> Slice:
    """Return a slice that repeats the statement and waits for the device at intervals."""
    timer = timeit.Timer(statement, globals=dict(namespace), timer=time.thread_time)

    def work(count: int) -> float:
        seconds = 0.0
        while count > 0:
            seconds += timer.timeit(min(count, QUEUE))
            wait()
            count -= QUEUE
        return seconds

    return work


def signature_of(count: int) -> dict[str, str]:
    """Up to three pointers, then numbers of several types.

    Example:
        >>> from triten.perf.launch import signature_of
        >>> signature_of(4)
        {'a0': '*fp32', 'a1': '*fp32', 'a2': '*fp32', 'a3': 'i32'}
    """
    types = ["*fp32"] * min(count, POINTERS) + [TYPES[i % len(TYPES)] for i in range(count - POINTERS)]
    return {f"a{i}": type_ for i, type_ in enumerate(types)}


def launch_slices(count: int) -> dict[str, Slice]:
    """Return slices of an empty kernel's launch: from the plan, from the kernel, and from CuPy's binding."""
    tt = importlib.import_module("..", __package__)
    kernels = importlib.import_module(".empty_kernels", __package__)
    launching = importlib.import_module("..triton_kernels.launch", __package__)
    libcuda = importlib.import_module("..runtime.cuda.cupy.libcuda", __package__)
    signature = signature_of(count)
    launch = launching.Launch(tt.device("cuda", 0), getattr(kernels, f"of_{count}"), signature, {})
    values = [0 if type_.startswith("*") else 1.5 if type_ == "fp32" else 7 for type_ in signature.values()]
    launch((1, 1, 1), *values)
    kernel = launch.aligned.__globals__  # the function written for the kernel holds what it launches with
    buffer, pointers = kernel["new_buffer"]()
    kernel["pack"](buffer, 0, *values)
    arguments = ", ".join(map(str, values))
    block = f"{kernel['function']}, 1, 1, 1, {kernel['threads']}, 1, 1, {kernel['shared']}, 0, {pointers}, 0"
    names = {
        "plan": launch.enqueue,
        "kernel": launch.aligned,
        "call": kernel["launch_kernel"],
        "ctypes": libcuda.ctypes_launch_kernel(),
        "grid": (1, 1, 1),
        "buffer": buffer,
    }
    return {
        "plan to driver": queued(f"plan(grid, {arguments})", names, tt.cuda.synchronize),
        "kernel to driver": queued(f"kernel(grid, 0, {arguments})", names, tt.cuda.synchronize),
        "driver's call": queued(f"call({block})", names, tt.cuda.synchronize),
        "driver's call by ctypes": queued(f"ctypes({block})", names, tt.cuda.synchronize),
    }


def addition_slices() -> dict[str, Slice]:
    """Return the parts of `a + b` on 16 elements: memory, launch, and the call with neither."""
    tt = importlib.import_module("..", __package__)
    allocator = importlib.import_module("..runtime.allocator", __package__).get_allocator("cuda")
    device = tt.device("cuda", 0)
    a, b, out = (tt.ones(16, device=device) for _ in range(3))
    m = tt.ones(16, device="meta")
    names = {"a": a, "b": b, "out": out, "m": m, "tt": tt, "allocate": allocator.allocate, "device": device}
    slices = {
        "a + b": queued("a + b", names, tt.cuda.synchronize),
        "tt.add(a, b, out=out)": queued("tt.add(a, b, out=out)", names, tt.cuda.synchronize),
        "memory of the result": queued("allocate(64, device)", names, tt.cuda.synchronize),
        "launch": launch_slices(4)["plan to driver"],
        "the same on meta": queued("m + m", names, tt.cuda.synchronize),
    }
    torch = peer()
    if torch is not None:
        operands = {name: torch.ones(16, device="cuda") for name in ("a", "b")}
        slices["a + b of torch"] = queued("a + b", operands, torch.cuda.synchronize)
    return slices


def peer() -> ModuleType | None:
    """PyTorch, where it reaches the same GPU."""
    if importlib.util.find_spec("torch") is None:
        return None
    torch = importlib.import_module("torch")
    return torch if torch.cuda.is_available() else None


def launch_rows(seconds: Mapping[int, Mapping[str, list[float]]]) -> list[Row]:
    """Return a row for each number of arguments and each start of the launch."""
    rows = []
    for count, rivals in seconds.items():
        for name, times in rivals.items():
            microseconds = 1e6 * statistics.median(times)
            note = ""
            if name == "plan to driver" and count == BARRED:
                note = f"bar {BAR:.1f}: {'met' if microseconds <= BAR else 'MISSED'}"
            rows.append(Row(f"{count} arguments: {name}", microseconds, note))
    return rows


def addition_rows(seconds: Mapping[str, list[float]]) -> list[Row]:
    """Return the layers of the addition. The time beyond memory and launch is plan lookup and the tensor."""
    whole = seconds["a + b"]
    rows = []
    for name, times in seconds.items():
        ratio = "" if name == "a + b" else f"{paired_ratio(times, whole):.0%} of a + b"
        if name.endswith("torch"):
            ratio = f"a + b is {paired_ratio(whole, times):.2f} times this"
        rows.append(Row(name, 1e6 * statistics.median(times), ratio))
    layers = zip(whole, seconds["memory of the result"], seconds["launch"], strict=True)
    rest = [all_ - memory - launch for all_, memory, launch in layers]
    rows.append(
        Row(
            "plan lookup and tensor (the rest)",
            1e6 * statistics.median(rest),
            f"{paired_ratio(rest, whole):.0%} of a + b",
        )
    )
    return rows


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `python -m triten.perf launch`."""
    parser.add_argument(
        "--standin", type=Path, metavar="PATH", help="a stand-in's libcuda.so.1, or its folder"
    )
    parser.add_argument("--rounds", type=int, default=40, help="slices of each statement")
    parser.add_argument("--slice-ms", type=float, default=2.0, help="length of a slice")
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write the rows to this file")


def run(arguments: argparse.Namespace) -> int:
    """Measure, print, and write where `--json` says. Raises RefusalError without a GPU or a stand-in."""
    require_positive(arguments, "rounds", "slice_ms")
    require_writable(arguments.json)
    if importlib.util.find_spec("cupy") is None:
        raise RefusalError("launches of a GPU need CuPy: pip install 'triten[cuda13]'")
    if arguments.standin is not None:
        try:
            use_standin(arguments.standin)
        except (OSError, AttributeError) as error:
            raise RefusalError(
                f"--standin {arguments.standin}: no stand-in for libcuda.so.1: {error}"
            ) from None
    tt = importlib.import_module("..", __package__)
    if not tt.cuda.is_available():
        raise RefusalError("no GPU, and no stand-in for its driver (--standin PATH)")
    where = f"{tt.cuda.get_device_name()}{', stand-in' if arguments.standin else ''}"
    options = {"rounds": arguments.rounds, "slice_seconds": arguments.slice_ms / 1e3}
    launches = measure({count: launch_slices(count) for count in ARGUMENTS}, **options)
    addition = measure({"addition": addition_slices()}, **options)["addition"]
    rows = [*launch_rows(launches), *addition_rows(addition)]
    print(f"host time on {where}")
    for row in rows:
        print(f"{row.name:<44}{row.microseconds:8.2f} us  {row.note}".rstrip())
    if arguments.json:
        versions = {name: importlib.metadata.version(name) for name in ("triton", "numpy")}
        results = {"device": where, "rows": [asdict(row) for row in rows]}
        write_report(arguments.json, "launch", results, versions)
    return 0
