"""Interleaved runs of a program in two processes, one under PyTorch and one under triten."""

from __future__ import annotations

import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..interleaved import paired_ratio, rotated
from .comparison import disagreements
from .program import Program

WORKER = Path(__file__).with_name("worker.py")
TRITEN, PYTORCH = "triten", "torch"
# Limits of one request, including building and importing.
SECONDS = 120.0
ROUNDS = 7
SLICE_SECONDS = 0.15
# In how many ways PyTorch's weights are moved where results differ.
MOVES = 3


@dataclass(frozen=True)
class Effort:
    """Limits of a program: seconds of one request, rounds of timing (0: none), and threads (None: all)."""

    seconds: float = SECONDS
    rounds: int = ROUNDS
    slice_seconds: float = SLICE_SECONDS
    threads: int | None = 1


@dataclass
class Outcome:
    """Result of one program.

    `status` is "agrees", "differs", "stops" (triten raised; `gap` is the exception's last line) or "not
    comparable" (PyTorch raised or timed out). `amplifies` is True if results agree only as closely as
    PyTorch's own when its weights change by their last bit. Times are seconds of a step; memory is the peak
    of the whole process in bytes.
    """

    name: str
    package: str
    version: str
    status: str
    gap: str = ""
    at: str = ""
    during: str = ""
    amplifies: bool = False
    seconds: dict[str, float] = field(default_factory=dict)
    ratio: float | None = None
    peak_bytes: dict[str, int] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the row of the result file."""
        return asdict(self)


def without_paths(text: str) -> str:
    """Strip folders, which are specific to one machine, from an error message.

    Example:
        >>> from triten.perf.programs.contest import without_paths
        >>> without_paths("cannot import name 'x' from 'torch' (/home/me/torch/__init__.py), see /home/me/log.txt")
        "cannot import name 'x' from 'torch', see log.txt"
    """
    return re.sub(r"(?<![\w.])/(?:[\w.+-]+/)+", "", re.sub(r" \(/[^\s()]*\)", "", text))


class StoppedError(Exception):
    """A worker that ended, took too long, or answered with an error."""

    def __init__(self, answer: Mapping[str, Any]) -> None:
        super().__init__(answer["error"])
        self.answer = answer


class Worker:
    """A process of `worker.py`. Use it in a ``with`` statement: it is ended at the block's end, whatever it does.

    Args:
        command: The interpreter, and its options.
        packages: Folder of third-party packages.
        seconds: The most that one request may take.
        threads: The number of threads; None leaves the libraries' own. Default: 1.
    """

    def __init__(
        self, command: Sequence[str], packages: Path | None, seconds: float, threads: int | None = 1
    ) -> None:
        self.seconds = seconds
        self.errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115
        self.process = subprocess.Popen(
            [*command, str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env=worker_environment(packages, threads),
            text=True,
        )

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()
        self.errors.close()

    def ask(self, do: str, **request: object) -> dict[str, Any]:
        """Send a request and wait for its answer.

        Raises:
            StoppedError: where the program stopped, the process ended, or there was no answer in time.
        """
        assert self.process.stdin is not None and self.process.stdout is not None
        late = threading.Event()

        def end() -> None:
            late.set()
            self.process.kill()

        watch = threading.Timer(self.seconds, end)
        watch.start()
        try:
            self.process.stdin.write(json.dumps({"do": do, **request}) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            watch.cancel()
        if not line:
            reason = f"took more than {self.seconds:.0f} seconds" if late.is_set() else self._last_words()
            raise StoppedError({"error": reason, "at": "", "traceback": ""})
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise StoppedError(answer)
        return answer

    def _last_words(self) -> str:
        code = self.process.wait()
        self.errors.seek(0)
        lines = self.errors.read().strip().splitlines()
        return f"ended with status {code}{': ' + lines[-1] if lines else ''}"


THREAD_COUNTS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def worker_environment(packages: Path | None, threads: int | None = 1) -> dict[str, str]:
    """Return the environment of both processes: the same packages and threads, no network access."""
    path = [str(packages.resolve())] if packages else []
    path += [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path),
        "PYTHONWARNINGS": "ignore",
        **({} if threads is None else dict.fromkeys(THREAD_COUNTS, str(threads))),
        "HF_HUB_OFFLINE": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }


def triten_command(python: str = sys.executable) -> list[str]:
    """Return the command that runs PyTorch programs with triten."""
    return [python, "-P", "-m", f"{__package__.partition('.')[0]}.as_torch"]


def hold_contest(
    program: Program, version: str, pytorch: str, packages: Path | None, effort: Effort
) -> tuple[Outcome, str]:
    """Run a program under both; return the outcome, and the traceback if it stopped."""
    outcome = Outcome(program.name, program.package, version, "agrees")
    with (
        tempfile.TemporaryDirectory() as folder,
        Worker([pytorch, "-P"], packages, effort.seconds, effort.threads) as theirs,
        Worker(triten_command(), packages, effort.seconds, effort.threads) as ours,
    ):
        workers = {PYTORCH: theirs, TRITEN: ours}
        for name, worker in workers.items():
            during = "build"
            try:
                build(worker, program, Path(folder), make_weights=name == PYTORCH)
                during = "run"
                answer = worker.ask("results", file=f"{folder}/{name}.npz")
            except StoppedError as stopped:
                outcome.status = "stops" if name == TRITEN else "not comparable"
                outcome.gap, outcome.at = without_paths(str(stopped)), stopped.answer["at"]
                outcome.during = during
                return outcome, stopped.answer["traceback"]
            outcome.peak_bytes[name] = answer["peak_bytes"]
        actual, expected = (dict(np.load(f"{folder}/{name}.npz")) for name in (TRITEN, PYTORCH))
        differing = disagreements(actual, expected, program.tolerance)
        if differing:
            moved = moved_results(program, pytorch, packages, effort, Path(folder))
            outcome.amplifies = not disagreements(actual, expected, program.tolerance, moved)
        if differing and not outcome.amplifies:
            outcome.status, outcome.gap, outcome.during = "differs", differing[0], "compare"
            return outcome, "\n".join(differing)
        if effort.rounds:
            try:
                time_steps(workers, effort, outcome)
            except StoppedError as stopped:
                outcome.status, outcome.gap, outcome.during = "stops", str(stopped), "time"
                return outcome, stopped.answer["traceback"]
    return outcome, ""


def moved_results(
    program: Program, pytorch: str, packages: Path | None, effort: Effort, folder: Path
) -> list[dict[str, Any]]:
    """Return PyTorch's results with the last bits of the weights changed, once per seed."""
    results = []
    for seed in range(1, MOVES + 1):
        with Worker([pytorch, "-P"], packages, effort.seconds) as worker:
            try:
                build(worker, program, folder, make_weights=False, moved=seed)
                worker.ask("results", file=f"{folder}/moved.npz")
            except StoppedError:
                continue
            results.append(dict(np.load(f"{folder}/moved.npz")))
    return results


def build(worker: Worker, program: Program, folder: Path, *, make_weights: bool, moved: int = 0) -> None:
    """Make a worker build the model, and save its weights or load the other worker's."""
    worker.ask(
        "build",
        program=program.request(),
        weights=str(folder / "weights.pt"),
        make_weights=make_weights,
        moved=moved,
    )


def time_steps(workers: Mapping[str, Worker], effort: Effort, outcome: Outcome) -> None:
    """Time interleaved slices of steps, starting with another library each round."""
    counts = {}
    for name, worker in workers.items():
        worker.ask("steps", count=1)
        once = worker.ask("steps", count=1)["seconds"]
        counts[name] = max(1, math.ceil(effort.slice_seconds / max(once, 1e-6)))
    samples: dict[str, list[float]] = {name: [] for name in workers}
    for turn in range(effort.rounds):
        for name in rotated(list(workers), turn):
            seconds = workers[name].ask("steps", count=counts[name])["seconds"]
            samples[name].append(seconds / counts[name])
    outcome.seconds = {name: statistics.median(each) for name, each in samples.items()}
    outcome.ratio = paired_ratio(samples[TRITEN], samples[PYTORCH])
