"""Checks without a GPU: compile every kernel for real targets and compare it with its declaration.

Operators run on a driver that records each launch. Worker processes compile the recorded launches, and cache
the results by source, configuration, target and Triton's version. The disassembly must show:

- the occupancy declared for the kernel (registers, shared and tensor memory),
- no spills and no trap,
- 128-bit accesses and matrix instructions if they are claimed,
- parameters with the bytes that a launch passes.

The sets of declared and launched kernels must be equal. The exit status is 1 for any error.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..runtime.cuda.occupancy import KNOWN, RELATIVES, TARGETS
from .ahead_of_time.amd import PLANNED_FOR, WAVES, table
from .ahead_of_time.amd import compile_all as compile_for_targets
from .ahead_of_time.checks import Expectation, faults_of
from .ahead_of_time.compilation import SECONDS, Cache, compile_all, compiling_environment, default_cache
from .ahead_of_time.coverage import kernels_in
from .ahead_of_time.report import Row, print_table, rows_of, with_rows_renewed, write_results
from .ahead_of_time.request import Request, load_module
from .refusal import RefusalError, require_positive, require_writable_folder

SAMPLES = "triten.perf.ahead_of_time.samples"
RESULTS = Path(__file__).parent / "results"


class RecordingError(RuntimeError):
    """The operators of the samples could not be run."""


@dataclass
class Outcome:
    """Result of a run: the table's rows, and one line per error.

    `passed_over` are tuning candidates that need more shared memory than the target has.
    """

    rows: list[Row] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    compiled: int = 0
    cached: int = 0
    triton: str = ""
    seconds: float = 0.0
    passed_over: list[str] = field(default_factory=list)


def record(target: int, samples: str, quick: bool, some: bool) -> dict[str, Any]:
    """Record the launches for a target in a separate process; `some` means that only some kernels are
    selected.

    Raises:
        RecordingError: if the process fails; its last words are in the message.
    """
    command = [sys.executable, "-P", "-m", f"{__package__}.ahead_of_time.recording", str(target), samples]
    done = subprocess.run(
        [*command, *(["--quick"] if quick else []), *(["--some"] if some else [])],
        env=compiling_environment(),
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RecordingError(f"recording the launches for sm_{target} failed: {done.stderr.strip()[-3000:]}")
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def in_turn(requests: Sequence[Request]) -> list[Request]:
    """Interleave the requests by kernel and target, so that an interrupted run covers all of them."""
    turns: Counter[tuple[str, int]] = Counter()
    keyed = []
    for request in requests:
        kind = request.kernel, request.target
        keyed.append((turns[kind], request))
        turns[kind] += 1
    return [request for _, request in sorted(keyed, key=lambda pair: pair[0])]


def hold(
    targets: Sequence[int],
    samples: str = SAMPLES,
    *,
    quick: bool = False,
    kernels: Sequence[str] = (),
    workers: int = 2,
    cache: Path | None = None,
    seconds: float = SECONDS,
    progress: bool = False,
) -> Outcome:
    """Record, compile, compare.

    Args:
        targets: capabilities as in `KNOWN`.
        samples: a module, or a Python file, with ``samples(capability)``, ``kernel_files()`` and ``functions()``.
        quick: one configuration of each kernel.
        kernels: names of those to compile; all if there are none.
        workers: compiling processes.
        cache: the folder of results.
        seconds: Time limit of a compilation.
        progress: If True, count compilations on the error stream.
    """
    started = time.perf_counter()
    outcome = Outcome()
    with ThreadPoolExecutor(max(workers, 1)) as pool:
        recorded = dict(
            zip(targets, pool.map(lambda t: record(t, samples, quick, bool(kernels)), targets), strict=True)
        )
    launches: list[dict[str, Any]] = []
    for target, report in recorded.items():
        outcome.triton = report["triton"]
        if not kernels:
            outcome.faults += [f"sm_{target}: {fault}" for fault in report["faults"]]
        launches += [
            launch
            for launch in report["launches"]
            if not kernels or launch["request"]["kernel"].rpartition(":")[2] in kernels
        ]
    known = {launch["request"]["kernel"].rpartition(":")[2] for launch in launches}
    unknown = [name for name in kernels if name not in known]
    if unknown:
        raise RefusalError(f"--kernel {unknown[0]}: no sample launches a kernel of that name")
    requests = in_turn([Request(**launch["request"]) for launch in launches if "fault" not in launch])
    store = Cache(default_cache() if cache is None else cache)
    outcome.cached = sum(store.get(request.key) is not None for request in requests)
    outcome.compiled = len(requests) - outcome.cached
    counted = 0

    def count(_: Request) -> None:
        nonlocal counted
        counted += 1
        if progress and counted % 20 == 0:
            print(f"\r{counted} of {len(requests)}", end="", file=sys.stderr, flush=True)

    results = compile_all(requests, samples, store, workers, seconds, count)
    if progress:
        print(file=sys.stderr)
    for launch in launches:
        request = launch["request"]
        where = f"sm_{request['target']}: {request['kernel'].rpartition(':')[2]} ({launch['label']})"
        if "fault" in launch:
            outcome.faults.append(f"{where}: {launch['fault']}")
            continue
        launch["found"] = results[request["key"]]
        if is_passed_over(launch):
            outcome.passed_over.append(f"{where}: {launch['configuration']}")
            continue
        launch["faults"] = faults_of(Expectation(**launch["expected"]), launch["found"])
        outcome.faults += [f"{where}: {launch['configuration']}: {fault}" for fault in launch["faults"]]
    outcome.rows = rows_of([launch for launch in launches if "faults" in launch])
    outcome.seconds = time.perf_counter() - started
    return outcome


def is_passed_over(launch: Mapping[str, Any]) -> bool:
    """Return True if a launch is a tuning candidate that needs more shared memory than the device has.

    On targets with declarations, this would be an error.
    """
    compiled, expected = launch["found"], launch["expected"]
    return (
        launch["request"]["target"] in RELATIVES
        and launch["is_tried"]
        and "error" not in compiled
        and compiled["shared"] > expected["opt_in"]
    )


def require_compiler(source: str) -> None:
    """Raise RefusalError if Triton is missing, or if an argument is neither a module nor a file of samples."""
    if importlib.util.find_spec("triton") is None:
        raise RefusalError(
            "kernels are compiled by Triton, which is not installed: pip install 'triton >= 3.6'"
        )
    if source == SAMPLES:
        return
    try:
        module = load_module(source)
    except (ImportError, OSError, SyntaxError, ValueError) as error:
        raise RefusalError(f"--samples {source} cannot be loaded: {error}") from None
    lacking = [name for name in ("samples", "kernel_files", "functions") if not hasattr(module, name)]
    if lacking:
        raise RefusalError(f"--samples {source} has no {lacking[0]}()")


def target_of(text: str) -> int | str:
    """Convert a target's name: a compute capability, or an AMD architecture such as ``gfx942``."""
    return text if text.startswith("gfx") else int(text)


def compile_for_amd(targets: Sequence[str], arguments: argparse.Namespace) -> int:
    """Compile the recorded launches for AMD's targets, and print what does not compile; the exit status is 0."""
    if importlib.util.find_spec("triton") is None:
        raise RefusalError(
            "kernels are compiled by Triton, which is not installed: pip install 'triton >= 3.6'"
        )
    report = record(PLANNED_FOR, arguments.samples, arguments.quick, bool(arguments.kernel))
    requests = [Request(**launch["request"]) for launch in report["launches"]]
    if arguments.kernel:
        requests = [each for each in requests if each.kernel.rpartition(":")[2] in arguments.kernel]
    if not requests:
        raise RefusalError(f"--kernel {' '.join(arguments.kernel)}: no such kernel")
    for target in targets:
        print(table(list(compile_for_targets(requests, target))), flush=True)
    return 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `python -m triten.perf aot`."""
    parser.add_argument(
        "--quick", action="store_true", help="one configuration of each kernel for each target"
    )
    parser.add_argument("--kernel", nargs="+", default=[], metavar="NAME", help="only these kernels")
    parser.add_argument(
        "--target",
        nargs="+",
        type=target_of,
        default=list(TARGETS),
        choices=[*KNOWN, *WAVES],
        help=f"default: {', '.join(map(str, TARGETS))}, of which the table is kept; AMD's are only compiled",
    )
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="compiling processes")
    parser.add_argument("--cache", type=Path, metavar="FOLDER", help=f"default: {default_cache()}")
    parser.add_argument("--samples", default=SAMPLES, metavar="MODULE", help="calls to be looked at")
    parser.add_argument(
        "--results",
        type=Path,
        default=RESULTS,
        metavar="FOLDER",
        help="where the table is kept: a run of everything writes it, one of some kernels renews their rows",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the table and the faults. Raises RefusalError.

    A run of everything also writes them. One of some kernels without faults renews their rows of the table.
    """
    require_positive(arguments, "workers")
    amd = [target for target in arguments.target if isinstance(target, str)]
    if amd and len(amd) < len(arguments.target):
        raise RefusalError(
            "--target: NVIDIA's targets and AMD's have checks of their own; name them in two runs"
        )
    if amd:
        return compile_for_amd(amd, arguments)
    require_writable_folder(arguments.cache or default_cache())
    is_kept = not arguments.quick and set(arguments.target) == set(TARGETS) and arguments.samples == SAMPLES
    if is_kept:
        require_writable_folder(arguments.results)
    require_compiler(arguments.samples)
    try:
        outcome = hold(
            arguments.target,
            arguments.samples,
            quick=arguments.quick,
            kernels=arguments.kernel,
            workers=arguments.workers,
            cache=arguments.cache,
            progress=sys.stderr.isatty(),
        )
    except RecordingError as error:
        print(f"aot: {error}", file=sys.stderr)
        return 1
    print_table(outcome.rows)
    for fault in outcome.faults:
        print(fault)
    for each in outcome.passed_over:
        print(f"{each}: more shared memory than the device has, a tuner passes it over")
    print(
        f"{outcome.compiled} compiled and {outcome.cached} from the cache in {outcome.seconds:.0f} s, "
        f"{len(outcome.faults)} faults, Triton {outcome.triton}"
    )
    rows: list[Row] | None = outcome.rows
    if arguments.kernel:
        is_kept = is_kept and not outcome.faults
        rows = None
        if is_kept:
            names = {name.rpartition(":")[2] for name in kernels_in(load_module(SAMPLES).kernel_files())}
            rows = with_rows_renewed(arguments.results, outcome.rows, outcome.triton, names)
    if is_kept and rows is not None:
        for path in write_results(arguments.results, rows, outcome.faults, outcome.triton):
            print(f"written to {path}")
    return 1 if outcome.faults else 0
