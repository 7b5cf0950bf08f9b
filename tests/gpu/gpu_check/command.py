"""The command: what is run, in which order, by how many workers, for how long.

First the runtime's own checks that want the device for themselves, by one worker. Then, in parallel, the others,
and every operator once, in its first dtype, which compiles every kernel; then dtypes, layouts, and both crossed. Each
stage is worth more than the next, so that a run that is cut off has found what is likeliest.
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from triten.perf.result_file import result_path

from .brief import takes_case
from .cases import FIRST_PASS, Case, all_cases
from .first_checks import check_names, is_alone, is_composed, is_rehearsal
from .kernels import entry_kernels, unreached
from .results import Results, load_for_resuming
from .shards import Answer, Shards, Task, Worker, WorkerDied

NO_DEVICE, BAD_USAGE = 2, 2
MAX_WORKERS = 16
STAGES = ("every operator once", "dtypes", "layouts", "dtypes x layouts")
"""By their rank (`cases.all_cases`)."""
KERNELS_CHECK = "kernels: every one was compiled and run"


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -P tests/gpu/check.py",
        description="Check triten on a GPU: the runtime, then every operator, dtype and layout against the CPU.",
    )
    parser.add_argument("--workers", type=int, help="processes; default: one for each core, at most 16")
    parser.add_argument("--seconds", type=float, help="begin nothing after so many; what is there is valid")
    parser.add_argument(
        "--task-seconds", type=float, default=150.0, help="after which a case counts as hanging"
    )
    parser.add_argument("--seed", type=int, help="of the inputs; default: a new one, which is printed")
    parser.add_argument("--only", default="", metavar="REGEX", help="checks and cases whose name matches")
    parser.add_argument("--dtypes", default="", metavar="NAMES", help="only these, with commas between")
    parser.add_argument("--layouts", default="", metavar="NAMES", help="only these, with commas between")
    parser.add_argument("--first-pass", action="store_true", help="every operator once, no more")
    parser.add_argument(
        "--brief",
        action="store_true",
        help="operators with kernels of their own, an eighth of the others and of the gradients, half of the further "
        "rows and of the dtypes of a check, as the seed draws them",
    )
    parser.add_argument("--shard", default="1/1", metavar="I/N", help="the I-th of N parts of the cases")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="go on with what a file has begun")
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="default: perf/results/<device>-<date>.json"
    )
    parser.add_argument(
        "--interpret", action="store_true", help="in Triton's interpreter, at small sizes: a rehearsal"
    )
    parser.add_argument(
        "--emulate",
        action="store_true",
        help="compiled kernels executed on the CPU, at small sizes: a rehearsal too",
    )
    parser.add_argument(
        "--standin",
        action="store_true",
        help="CuPy's driver over a stand-in for NVIDIA's, which executes compiled kernels on the CPU",
    )
    parser.add_argument("--list", action="store_true", help="print the names of checks and cases, run none")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--card-sizes", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--plant", help=argparse.SUPPRESS)
    found = parser.parse_args(arguments)
    try:
        part, _, parts = found.shard.partition("/")
        found.part, found.parts = int(part), int(parts)
    except ValueError:
        parser.error(f"--shard: expected I/N, got {found.shard!r}")
    if not 1 <= found.part <= found.parts:
        parser.error(f"--shard: expected 1 <= I <= N, got {found.shard!r}")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0: nothing failed, 1: something did, 2: no device, or a bad command line."""
    given = parse(arguments)
    if given.worker:
        from .worker import serve

        return serve(given.seed, given.card_sizes, given.plant, given.brief)
    try:
        kept = load_for_resuming(given.resume) if given.resume else None
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return BAD_USAGE
    seed = kept["seed"] if kept else given.seed if given.seed is not None else secrets.randbits(31)
    checks, cases = selected(given, seed)
    if given.list:
        print("\n".join([*checks, *(case.name for _, case in cases)]))
        return 0
    if not checks and not cases:
        print(f"no check and no case matches {given.only!r}", file=sys.stderr)
        return BAD_USAGE
    return run(given, seed, checks, cases, kept)


def selected(given: argparse.Namespace, seed: int) -> tuple[list[str], list[tuple[int, Case]]]:
    """Return the names of the selected checks, and the selected cases, in order."""
    wanted = re.compile(given.only)
    dtypes, layouts = (
        [name.strip() for name in text.split(",") if name.strip()] for text in (given.dtypes, given.layouts)
    )
    checks = [
        name
        for name in check_names()
        if given.part == 1 and wanted.search(name) and not (given.brief and is_composed(name))
    ]
    cases = [
        (rank, case)
        for number, (rank, case) in enumerate(all_cases(dtypes, layouts))
        if number % given.parts == given.part - 1
        and wanted.search(case.name)
        and (rank == FIRST_PASS or not given.first_pass)
        and (not given.brief or takes_case(case, seed))
    ]
    return checks, cases


def run(
    given: argparse.Namespace,
    seed: int,
    checks: list[str],
    cases: list[tuple[int, Case]],
    kept: dict[str, Any] | None,
) -> int:
    """Run checks and cases, and keep and print what they came to."""
    started = time.monotonic()
    if given.interpret:
        os.environ["TRITEN_CUDA"], os.environ["TRITON_INTERPRET"] = "interpret", "1"
        os.environ.setdefault("TRITEN_INTERPRET_POISON", "1")
    if given.emulate:
        os.environ["TRITEN_CUDA"] = "emulate"
    if given.standin:
        from triten.tests.runtime.cuda.standin.install import prepare

        os.environ.pop("TRITEN_CUDA", None)
        prepare(Path(tempfile.mkdtemp(prefix="standin-")))
    simulated = is_rehearsal()
    if os.environ.get("TRITEN_CUDA") != "interpret":
        os.environ.pop("TRITON_INTERPRET", None)  # left over from tests, it would interpret kernels on a card
    options = ["--seed", str(seed), *([] if simulated else ["--card-sizes"])]
    options += ["--plant", given.plant] if given.plant else []
    options += ["--brief"] if given.brief else []
    workers = given.workers or (1 if given.interpret else min(MAX_WORKERS, len(os.sched_getaffinity(0))))
    try:
        first = Worker(options)
    except WorkerDied as error:
        print(f"the first worker did not start: {error}", file=sys.stderr)
        return NO_DEVICE
    about = first.hello
    if "error" in about:
        first.close()
        print(about["error"], file=sys.stderr)
        return NO_DEVICE
    differs = kept and next(
        (
            key
            for key in ("device", "versions", "sizes")
            if kept.get(key) != (about | sizes(simulated)).get(key)
        ),
        None,
    )
    if differs:
        first.close()
        print(f"--resume {given.resume}: {differs} differs: {kept[differs]} there, {about.get(differs)} here",
              file=sys.stderr)  # fmt: skip
        return BAD_USAGE
    path = given.output or given.resume or result_path(about["device"])
    print(f"{about['device']}, {workers} workers, seed {seed}, {len(checks)} checks, {len(cases)} cases -> {path}",
          flush=True)  # fmt: skip
    results = Results(path, about | sizes(simulated) | {"seed": seed, "shard": given.shard}, kept)
    shards = Shards(options, workers, given.task_seconds, started + given.seconds if given.seconds else None)
    shards.adopt(first)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        results.not_run = run_stages(given, shards, results, checks, cases)
        results.complete = results.not_run == 0
    except KeyboardInterrupt:
        shards.stopped = True
        results.not_run = sum(
            1 for name in [*checks, *(c.name for _, c in cases)] if name not in results.checks
        )
        print("interrupted", file=sys.stderr)
    finally:
        results.save()
        shards.close()
    print(results.table())
    whole = "complete" if results.complete else f"INCOMPLETE: {results.not_run} not run"
    print(f"{whole} after {time.monotonic() - started:.0f} s; seed {seed}; written to {path}")
    if shards.failure:
        print(shards.failure, file=sys.stderr)
    return 1 if results.failed or shards.failure else 0


def sizes(simulated: bool) -> dict[str, str]:
    """Return the size class of the samples."""
    return {"sizes": "small" if simulated else "card"}


def run_stages(
    given: argparse.Namespace,
    shards: Shards,
    results: Results,
    checks: list[str],
    cases: list[tuple[int, Case]],
) -> int:
    """Run the stages one after the other and return how many tasks were not begun."""

    def note(task: Task, answer: Answer) -> None:
        name = task["check"] if "check" in task else Case(*task["case"]).name
        results.note(name, answer)

    undone = [name for name in checks if name not in results.checks]
    left = shards.run([{"check": name} for name in undone if is_alone(name)], note, workers=1)
    progress(results, "the runtime's checks", left)
    beside = [{"check": name} for name in undone if not is_alone(name)]
    for rank in range(FIRST_PASS, len(STAGES)):
        stage = [case for found, case in cases if found == rank]
        tasks = [{"case": list(case)} for case in stage if case.name not in results.checks]
        if rank == FIRST_PASS:
            tasks = beside + tasks
        if not tasks:
            continue
        behind = shards.run(tasks, note)
        progress(results, STAGES[rank], behind)
        left += behind
        whole = not (given.only or given.dtypes or given.layouts or given.parts > 1)
        if rank == FIRST_PASS and whole and not behind:
            note_kernels(results)
    return left


def note_kernels(results: Results) -> None:
    """Record if the first pass reached every kernel."""
    missing = unreached(results.kernels, int(results.about["capability"].split(".")[0]))
    count = len(entry_kernels())
    results.note(
        KERNELS_CHECK,
        {"status": "failed", "reason": f"{len(missing)} of {count} were not: {', '.join(missing)}"}
        if missing
        else {"status": "passed", "result": f"{count} kernels"},
    )


def progress(results: Results, stage: str, left: int) -> None:
    """Save the results and print a line after each stage."""
    results.save()
    compiled = sum(answer.get("compiled", 0) for answer in results.checks.values())
    print(
        f"{stage}: {len(results.checks)} done, {len(results.failed)} failed, {left} not begun, "
        f"{compiled} compilations",
        flush=True,
    )
