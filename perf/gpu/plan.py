"""The first 30 minutes on a GPU as one command: checks, flushes, tuning, variants, new rows.

    python -m triten.perf gpu plan  # or make gpu-plan

Each task is a process of its own with a time limit, so that a fault or a hang costs its own task alone. Each writes
a result file of its own into the folder. `plan.json` is written after each task: statuses, times, clocks, driver,
commit and versions. Kernels are compiled before the first timed task, on all cores and without the GPU
(`precompile.py`).
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

from ...runtime.cuda import driver as drivers
from ...triton_kernels.tuning.table import table_path
from ..refusal import expression, require_positive
from ..result_file import installed_versions, kernel_driver_version, source_commit, utc_now, write_whole

tt: ModuleType = importlib.import_module("..", __package__.rpartition(".")[0])

ROOT = Path(__file__).parents[2]
GRACE = 30.0
"""Seconds that a process gets beyond its budget to start, to finish its row and to write."""
ALLOWED = 1.0
TUNED = r"^(softmax|norms|attention|matmul, at most 64 rows|conv2d, ResNet-50):"
FLUSHED = r"^(reductions|matmul, at most 64 rows):"
BATCH_NORM = r"batch_norm 256x64x112x112"
NEW = (
    r"^(training step of networks|language model|backward|fused rows|cross-entropy|compiled chains|layers of image|"
    r"random numbers|indexing|sorting|matmul, (narrow|grouped|sparse)|optimizers|host time)"
)
REHEARSED_ROWS = r"^softmax: softmax 32x785 bfloat16|^host time$"
"""Rows of a rehearsal: what a task runs in a minute without a GPU."""
QUERY = "name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,temperature.gpu,power.draw,pstate"


@dataclass(frozen=True)
class Task:
    """Process of the plan.

    Attributes:
        part: Letter of the part.
        name: Name of the task and of its result file.
        seconds: Time budget.
        command: Arguments of ``python -m triten.perf``, or of Python if the first one is a path.
    """

    part: str
    name: str
    seconds: float
    command: tuple[str, ...]


@dataclass
class Outcome:
    """Result of a task: ``done``, ``failed``, ``timed out``, ``skipped``, and what was observed."""

    part: str
    name: str
    status: str
    seconds: float = 0.0
    exit_status: int | None = None
    output: str = ""
    command: list[str] = field(default_factory=list)
    before: dict[str, str] = field(default_factory=dict)
    after: dict[str, str] = field(default_factory=dict)


Run = Callable[[Sequence[str], Mapping[str, str], float, Path], int | None]
"""Run a command with an environment and a limit, its output into a file; return the status, None if it timed out."""


def tasks(folder: Path, capability: int, flushes: Sequence[str], rehearse: bool) -> list[Task]:
    """Return the tasks in order.

    Args:
        folder: Where results go.
        capability: Compute capability of the device, major times 10 plus minor.
        flushes: Modes of `--flush` that the benchmark has; empty if it has no such option.
        rehearse: If True, tasks take a row or two at tiny sizes.
    """
    small = ("--rehearse", "--no-peer", "--rounds", "1", "--row-seconds", "0.01") if rehearse else ()

    def rows(pattern: str) -> tuple[str, ...]:
        return ("--rows", REHEARSED_ROWS if rehearse else pattern)

    def bench(part: str, name: str, seconds: float, pattern: str, *options: str) -> Task:
        file = str(folder / f"{name}.json")
        limit = ("--seconds", str(seconds))
        return Task(part, name, seconds, ("gpu", *rows(pattern), *limit, "--output", file, *options, *small))

    table = folder / table_path(capability).name
    variants = str(folder / "variants.json")
    check = (str(ROOT / "tests/gpu/check.py"), "--output", str(folder / "check.json"), "--seconds", "90")
    found = [
        Task("A", "check", 90, (*check, "--interpret", "--only", "^launch: ") if rehearse else check),
        *(
            bench("A", f"flush-{mode}", 40, FLUSHED, "--flush", mode, "--no-peer", "--rounds", "15")
            for mode in flushes
        ),
        bench("A", "batch_norm", 15, BATCH_NORM),
        Task("B", "tune", 250, ("tune", "-o", str(table), "--seconds", "250", *rows(TUNED), *small[:1])),
        bench("B", "tuned", 150, TUNED),
        Task(
            "C",
            "variants",
            460,
            ("variants", "--output", variants, "--seconds", "460", *rows(""), *small[:1]),
        ),
        bench("D", "new", 460, NEW),
    ]
    return found


def precompilation(capability: int, cuda: int) -> tuple[str, ...]:
    """Return the command that compiles the kernels of all tasks."""
    module = "triten.perf.gpu.precompile"
    version = ("--cuda", f"{cuda // 1000}.{cuda % 1000 // 10}") if cuda else ()
    return ("-m", module, "--target", str(capability), *version)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `python -m triten.perf plan`."""
    parser.add_argument("--parts", default="ABCD", help="letters of the parts; default: ABCD")
    parser.add_argument("--tasks", default="", metavar="REGEX", help="only tasks whose name matches")
    parser.add_argument("--folder", type=Path, help="default: gpu-plan-<moment> in this folder")
    parser.add_argument("--budget", type=float, default=ALLOWED, help="factor of all time limits")
    parser.add_argument("--no-precompile", action="store_true", help="compile nothing beforehand")
    parser.add_argument("--list", action="store_true", help="print the commands, run none")
    parser.add_argument(
        "--rehearse", action="store_true", help="a row of each task at tiny sizes, without a GPU too"
    )


def run(arguments: argparse.Namespace, run_command: Run | None = None) -> int:
    """Run the tasks; the exit status is 1 if one failed.

    Args:
        arguments: Parsed options.
        run_command: Runs a command. Default: as a process (`run_process`).
    """
    require_positive(arguments, "budget")
    wanted = expression(arguments.tasks, "--tasks")
    if not tt.cuda.is_available() or (drivers.is_simulated() and not arguments.rehearse):
        print(
            "plan: no CUDA GPU is available here: nothing was run; --rehearse runs without one",
            file=sys.stderr,
        )
        return 2
    folder = arguments.folder or Path(f"gpu-plan-{datetime.now(UTC):%Y-%m-%d-%H%M}")
    properties = drivers.driver().properties(drivers.driver().current_device())
    chosen = [
        task
        for task in tasks(folder, properties.capability, flush_modes(), arguments.rehearse)
        if task.part in arguments.parts and wanted.search(task.name)
    ]
    if arguments.list:
        for task in chosen:
            print(
                f"{task.part} {task.name}, {task.seconds * arguments.budget:.0f} s: {' '.join(task.command)}"
            )
        return 0
    folder.mkdir(parents=True, exist_ok=True)
    report: dict[str, Any] = {
        "format": "triten.perf.plan", "rehearsal": arguments.rehearse, "device": properties.name,
        "capability": properties.capability, "kernel_driver": kernel_driver_version(), "commit": source_commit(),
        "versions": installed_versions(), "flushes": list(flush_modes()), "started": utc_now(), "tasks": [],
    }  # fmt: skip
    outcomes: list[Outcome] = []
    for outcome in outcomes_of(chosen, folder, arguments, properties.capability, run_command or run_process):
        outcomes.append(outcome)
        report |= {"tasks": [asdict(each) for each in outcomes], "updated": utc_now()}
        write_whole(folder / "plan.json", json.dumps(report, indent=1) + "\n")
        print(f"{outcome.part} {outcome.name}: {outcome.status}, {outcome.seconds:.0f} s", flush=True)
    print(f"written to {folder}")
    return int(any(outcome.status in ("failed", "timed out") for outcome in outcomes))


def outcomes_of(
    chosen: Sequence[Task], folder: Path, arguments: argparse.Namespace, capability: int, run_command: Run
) -> Iterator[Outcome]:
    """Run each task and yield its outcome; a table of tuned configurations is put in place at once."""
    if not (arguments.no_precompile or arguments.rehearse):
        command = precompilation(capability, getattr(drivers.driver(), "cuda_version", 0))
        yield observed(Task("0", "precompile", 300, command), folder, arguments.budget, run_command)
    for task in chosen:
        table = folder / table_path(capability).name
        if task.name == "tune" and table_path(capability).exists():
            shutil.copy(table_path(capability), table)
            shutil.copy(table, table.with_suffix(".before.json"))
        yield observed(task, folder, arguments.budget, run_command)
        if task.name == "tune" and table.exists() and not arguments.rehearse:
            shutil.copy(table, table_path(capability))
            yield Outcome("B", f"{table.name} copied to {table_path(capability)}", "done")


def observed(task: Task, folder: Path, budget: float, run_command: Run) -> Outcome:
    """Run a task; record its clocks before and after."""
    direct = task.command[0] == "-m" or task.command[0].endswith(".py")
    command = [sys.executable, "-P", *(() if direct else ("-m", "triten.perf")), *task.command]
    command = with_budget(command, budget)
    log = folder / f"{task.name}.log"
    outcome = Outcome(task.part, task.name, "done", output=log.name, command=command, before=clocks())
    started = time.monotonic()
    outcome.exit_status = run_command(command, os.environ, task.seconds * budget + GRACE, log)
    outcome.seconds = round(time.monotonic() - started, 1)
    outcome.after = clocks()
    if outcome.exit_status is None:
        outcome.status = "timed out"
    elif outcome.exit_status:
        outcome.status = "failed"
    return outcome


def with_budget(command: Sequence[str], budget: float) -> list[str]:
    """Multiply the value of `--seconds`.

    Example:
        >>> with_budget(["gpu", "--seconds", "40"], 0.5)
        ['gpu', '--seconds', '20.0']
    """
    scaled = list(command)
    for i, word in enumerate(command[:-1]):
        if word == "--seconds" and budget != ALLOWED:
            scaled[i + 1] = str(float(command[i + 1]) * budget)
    return scaled


def run_process(
    command: Sequence[str], environment: Mapping[str, str], seconds: float, log: Path
) -> int | None:
    """Run a process with its output in a file. End it, and the processes that it started, when its time is up."""
    with log.open("w") as file:
        process = subprocess.Popen(
            command, env=dict(environment), stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            return process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 15)
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.wait()
            return None


def flush_modes() -> tuple[str, ...]:
    """Return the modes of the benchmark's `--flush`; empty if it has no such option."""
    from . import command

    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    options = (action for action in parser._actions if "--flush" in action.option_strings)
    return next((tuple(map(str, action.choices or ())) for action in options), ())


def clocks() -> dict[str, str]:
    """Return the device's clocks, temperature and power as nvidia-smi prints them; empty without it."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return {}
    done = subprocess.run(
        [tool, f"--query-gpu={QUERY}", "--format=csv,noheader", "--id=0"], capture_output=True, text=True
    )
    values = re.split(r",\s*", done.stdout.strip()) if done.returncode == 0 else []
    return dict(zip(QUERY.split(","), values, strict=False))
