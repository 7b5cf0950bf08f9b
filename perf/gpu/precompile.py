"""Kernels of the benchmark's rows compiled into the store of kernels, without a GPU.

    python -m triten.perf.gpu.precompile --target 90 --rows "^(softmax|norms)"

The rows are planned on a driver that records launches, with every candidate of a tuning question. A run on a GPU
of the target, with the same Triton and the same ``TRITEN_CACHE_DIR``, then loads what it needs. `--worker I/N`
compiles the I-th of N parts.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from ...runtime.cuda import driver as cuda
from ...runtime.cuda.driver import kernel_name
from ...runtime.cuda.occupancy import KNOWN
from ...runtime.cuda.triton.cubin_store import find_or_compile
from ...triton_kernels.tuning.choice import forced, listening, make_plans_anew
from ...triton_kernels.tuning.question import Question, candidates
from ..ahead_of_time.recording import RecordingDriver, request_for, versions
from ..ahead_of_time.sample import empty, tt
from ..refusal import expression
from .further_workloads import further_workloads
from .peer import Pair
from .program import FAILURES
from .statements import statement_runner
from .workloads import Workload, all_workloads


def launches_of(workload: Workload, driver: RecordingDriver, with_candidates: bool) -> list[dict[str, Any]]:
    """Return the launches of a row, under each candidate too."""
    operands = {
        name: Pair(empty(*operand.shape, dtype=operand.dtype, last=operand.channels_last), None)
        for name, operand in workload.operands.items()
    }
    driver.launched.clear()
    defaults: dict[Question, Any] = {}
    with listening(lambda question, default: defaults.setdefault(question, default)):
        make_plans_anew()
        work = statement_runner(workload, tt, [operands], 0)
        work(0)
    for question, default in defaults.items() if with_candidates else ():
        for candidate in candidates(question, default)[1:]:
            with forced(question, candidate):
                make_plans_anew()
                _tried(lambda: work(0))
    make_plans_anew()
    return list(driver.launched)  # type: ignore[arg-type]


def _tried(work: Callable[[], object]) -> None:
    """Plan a candidate; one that a kernel refuses is refused on the GPU too."""
    try:
        work()
    except FAILURES:
        return


def requests(pattern: str, capability: int, with_candidates: bool) -> Iterator[dict[str, Any]]:
    """Yield each distinct launch of the rows that match."""
    driver = cuda._driver = RecordingDriver(KNOWN[capability])
    version, wanted, seen = versions(), expression(pattern), set()
    for workload in (*all_workloads(), *further_workloads()):
        label = f"{workload.group}: {workload.name}"
        if not wanted.search(label):
            continue
        tt.set_float32_matmul_precision("high" if workload.tf32 else "highest")
        try:
            launches = launches_of(workload, driver, with_candidates)
        except FAILURES as error:
            print(f"{label}: not planned: {error}", file=sys.stderr)
            continue
        for noted in launches:
            key = request_for(noted, driver.target, version).key
            if key not in seen:
                seen.add(key)
                yield noted


def compile_part(arguments: argparse.Namespace, index: int, count: int) -> int:
    """Compile the requests whose number is `index` modulo `count`; return how many failed."""
    failed = made = 0
    until = time.monotonic() + arguments.seconds
    for number, noted in enumerate(
        list(requests(arguments.rows, arguments.target, not arguments.no_candidates))
    ):
        if number % count != index:
            continue
        if time.monotonic() >= until:
            print(f"time is up after {made} kernels", file=sys.stderr)
            break
        try:
            find_or_compile(
                noted["kernel"], noted["signature"], noted["constants"], frozenset(noted["divisible"]),
                arguments.target, noted["options"], arguments.cuda,
            )  # fmt: skip
            made += 1
        except (
            Exception
        ) as error:  # Triton raises whatever its passes raise; the run on the GPU skips the candidate
            failed += 1
            print(f"{kernel_name(noted['kernel'])}: {type(error).__name__}: {error}"[:300], file=sys.stderr)
    print(f"part {index + 1} of {count}: {made} kernels compiled or found, {failed} failed")
    return failed


def main() -> int:
    """Compile in `--workers` processes; the exit status is that of the first that died."""
    parser = argparse.ArgumentParser(prog="python -m triten.perf.gpu.precompile", description=__doc__)
    parser.add_argument("--rows", default="", metavar="REGEX", help="only rows whose `group: name` matches")
    parser.add_argument("--target", type=int, default=90, choices=list(KNOWN), help="default: 90")
    parser.add_argument("--cuda", type=int, default=0, help="the driver's CUDA version, 12080 for 12.8")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="compiling processes")
    parser.add_argument("--seconds", type=float, default=600.0, help="no kernel is begun after so many")
    parser.add_argument("--no-candidates", action="store_true", help="without the candidates of tuning")
    parser.add_argument("--worker", metavar="I/N", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        index, _, count = arguments.worker.partition("/")
        compile_part(arguments, int(index), int(count))
        return 0
    command = [sys.executable, "-P", "-m", f"{__package__}.precompile", *sys.argv[1:]]
    environment = {k: v for k, v in os.environ.items() if k not in ("TRITEN_CUDA", "TRITON_INTERPRET")}
    environment["TRITEN_TUNING_STORE"] = "0"
    workers = [
        subprocess.Popen([*command, "--worker", f"{i}/{arguments.workers}"], env=environment)
        for i in range(arguments.workers)
    ]
    return max(worker.wait() for worker in workers)


if __name__ == "__main__":
    sys.exit(main())
