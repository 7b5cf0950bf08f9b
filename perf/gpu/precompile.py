"""Kernels of the benchmark's rows compiled into the disk cache, without a GPU.

    python -m triten.perf.gpu.precompile --target 90 --rows "^(softmax|norms)"

The rows are planned with every candidate of a tuning question (`tt.cuda.precompile`). A run on a GPU of the target,
with the same Triton and the same ``TRITEN_CACHE_DIR``, then loads what it needs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from ...cuda.precompilation import make_plan, planned_and_compiled
from ...runtime.cuda.occupancy import KNOWN
from ...triton_kernels.tuning.choice import forced, listening, make_plans_anew
from ...triton_kernels.tuning.question import Question, candidates
from ..ahead_of_time.sample import empty, tt
from ..refusal import expression
from .further_workloads import further_workloads
from .peer import Pair
from .program import FAILURES
from .rehearsal import without_store
from .statements import statement_runner
from .workloads import Workload, all_workloads


def run_row(workload: Workload, with_candidates: bool) -> None:
    """Run a row, under each candidate of its tuning questions too."""
    operands = {
        name: Pair(empty(*operand.shape, dtype=operand.dtype, last=operand.channels_last), None)
        for name, operand in workload.operands.items()
    }
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


def _tried(work: Callable[[], object]) -> None:
    """Plan a candidate; one that a kernel refuses is refused on the GPU too."""
    try:
        work()
    except FAILURES:
        return


def run_rows(pattern: str, with_candidates: bool) -> None:
    """Run the rows that match; name those that cannot be planned."""
    wanted = expression(pattern)
    with without_store():
        for workload in (*all_workloads(), *further_workloads()):
            label = f"{workload.group}: {workload.name}"
            if not wanted.search(label):
                continue
            tt.set_float32_matmul_precision("high" if workload.tf32 else "highest")
            try:
                run_row(workload, with_candidates)
            except FAILURES as error:
                print(f"{label}: not planned: {error}", file=sys.stderr)


def main() -> int:
    """Compile, and print the numbers of kernels; the exit status is 1 if some do not compile."""
    parser = argparse.ArgumentParser(prog="python -m triten.perf.gpu.precompile", description=__doc__)
    parser.add_argument("--rows", default="", metavar="REGEX", help="only rows whose `group: name` matches")
    parser.add_argument("--target", type=int, default=90, choices=list(KNOWN), help="default: 90")
    parser.add_argument("--cuda", metavar="VERSION", help="the driver's CUDA version, such as 12.8")
    parser.add_argument("--workers", type=int, help="compiling processes. Default: the available cores")
    parser.add_argument("--no-candidates", action="store_true", help="without the candidates of tuning")
    arguments = parser.parse_args()
    plan = make_plan(arguments.target, arguments.cuda, arguments.workers)
    try:
        print(planned_and_compiled(lambda: run_rows(arguments.rows, not arguments.no_candidates), plan))
    except RuntimeError as error:  # The other kernels are in the cache.
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
