"""Worker processes that run tasks, each with a CUDA context of its own.

A task that kills its process, or the context in it, is a finding about that task: the rest goes on in a new one.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).resolve().parents[1] / "check.py"
START_SECONDS = 180.0
STDERR_TAIL = 1500
DIED = "died"
Task = dict[str, Any]
Answer = dict[str, Any]


class WorkerDied(Exception):
    """The process ended, or did not answer in time."""


class Worker:
    """One process that answers tasks, a JSON line each."""

    def __init__(self, arguments: Sequence[str]) -> None:
        environment = os.environ | dict.fromkeys(
            ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"
        )
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(PROGRAM), "--worker", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env=environment,
        )
        self._pending = b""
        try:
            self.hello = self._answer(START_SECONDS)
        except WorkerDied:
            self.close()
            raise

    def ask(self, task: Task, seconds: float) -> Answer:
        """Send a task and return its answer. Raises WorkerDied."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(task).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise WorkerDied(f"does not listen: {error}; {self._last_words()}") from error
        return self._answer(seconds)

    def _answer(self, seconds: float) -> Answer:
        assert self._process.stdout is not None
        until = time.monotonic() + seconds
        stream = self._process.stdout.fileno()
        while b"\n" not in self._pending:
            left = until - time.monotonic()
            if left <= 0 or not select.select([stream], [], [], left)[0]:
                self._process.kill()
                raise WorkerDied(f"no answer within {seconds:g} s; {self._last_words()}")
            read = os.read(stream, 1 << 16)
            if not read:
                code = self._process.wait()
                raise WorkerDied(f"ended with status {code}; {self._last_words()}")
            self._pending += read
        line, _, self._pending = self._pending.partition(b"\n")
        answer: Answer = json.loads(line)
        return answer

    def _last_words(self) -> str:
        self._stderr.seek(0)
        text = self._stderr.read()[-STDERR_TAIL:].decode(errors="replace").strip()
        return f"stderr: {text}" if text else "nothing on stderr"

    def close(self) -> None:
        """End the process."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except OSError:
                    continue
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._stderr.close()


class Shards:
    """Task scheduler over several workers; an idle worker takes the next task.

    Args:
        arguments: the workers' command line.
        workers: how many there are.
        task_seconds: after which a task counts as hanging.
        deadline: in `time.monotonic()`'s seconds; no task begins after it.
    """

    def __init__(
        self, arguments: Sequence[str], workers: int, task_seconds: float, deadline: float | None
    ) -> None:
        self._arguments = arguments
        self._count = workers
        self._task_seconds = task_seconds
        self._deadline = deadline
        self._idle: list[Worker] = []
        self._lock = threading.Lock()
        self.failure: str | None = None
        self.stopped = False

    def run(
        self, tasks: Sequence[Task], note: Callable[[Task, Answer], None], workers: int | None = None
    ) -> int:
        """Run the tasks in order and return how many were not begun; `note` gets each answer, one at a time."""
        waiting = deque(tasks)
        threads = [
            threading.Thread(target=self._serve, args=(waiting, note), daemon=True)
            for _ in range(min(workers or self._count, len(waiting)))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return len(waiting)

    def adopt(self, worker: Worker) -> None:
        """Take over a worker that was started before."""
        self._idle.append(worker)

    def over(self) -> bool:
        """Return True if no further task may begin."""
        late = self._deadline is not None and time.monotonic() >= self._deadline
        return late or self.stopped or self.failure is not None

    def _serve(self, waiting: deque[Task], note: Callable[[Task, Answer], None]) -> None:
        worker: Worker | None = None
        while not self.over():
            try:
                task = waiting.popleft()
            except IndexError:
                break
            started = time.monotonic()
            try:
                worker = worker or self._take()
            except WorkerDied as error:
                waiting.appendleft(task)
                self.failure = f"a worker did not start: {error}"
                return
            try:
                answer = worker.ask(task, self._task_seconds)
            except WorkerDied as error:
                worker.close()
                worker = None
                answer = {"status": DIED, "reason": str(error), "seconds": time.monotonic() - started}
            else:
                if answer.get("fatal"):
                    worker.close()
                    worker = None
            with self._lock:
                note(task, answer)
        if worker is not None:
            with self._lock:
                self._idle.append(worker)

    def _take(self) -> Worker:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return Worker(self._arguments)

    def close(self) -> None:
        """End all workers."""
        while self._idle:
            self._idle.pop().close()
