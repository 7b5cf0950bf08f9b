"""Ranks on this machine: processes of `rank_process` that a measurement starts and controls."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from .rank_process import READY

PROGRAM = Path(__file__).with_name("rank_process.py")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
WAIT_SECONDS = 10


class Ranks:
    """Group of processes that run a library's `distributed`; each has one thread.

    If a process ends, RuntimeError is raised with its last output. Leaving the context ends all processes.
    """

    def __init__(self, library: str, backend: str, count: int, python: str = sys.executable) -> None:
        self.count = count
        self._folder = tempfile.TemporaryDirectory(prefix="ranks-")
        file = str(Path(self._folder.name) / "store")
        self._errors = [Path(self._folder.name, f"errors-{rank}") for rank in range(count)]
        self._processes: list[subprocess.Popen[str]] = []
        for rank in range(count):
            with self._errors[rank].open("w") as errors:
                self._processes.append(
                    subprocess.Popen(
                        [python, "-P", str(PROGRAM), library, backend, str(rank), str(count), file],
                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
                        env=os.environ | ONE_THREAD, start_new_session=True,
                    )
                )  # fmt: skip
        try:
            for answer in self._answers():
                if answer != READY:
                    raise RuntimeError(f"a rank of {library} began with {answer!r}")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def tell(self, do: str, **arguments: Any) -> list[Any]:
        """Let all ranks do something (a method of `Rank`); their answers in order."""
        line = json.dumps({"do": do, **arguments}) + "\n"
        for process in self._processes:
            assert process.stdin is not None
            try:
                process.stdin.write(line)
                process.stdin.flush()
            except BrokenPipeError:
                break  # its answer says why
        return self._answers()

    def close(self) -> None:
        """End them: by the end of their commands, and if that does not do, by a signal."""
        for process in self._processes:
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    try:
                        stream.close()
                    except BrokenPipeError:
                        continue
        for process in self._processes:
            try:
                process.wait(WAIT_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._folder.cleanup()

    def _answers(self) -> list[Any]:
        answers = []
        for rank, process in enumerate(self._processes):
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                error_lines = self._errors[rank].read_text().splitlines() or ["nothing"]
                for other in self._processes:
                    other.kill()  # they wait for this one
                raise RuntimeError(f"rank {rank} of {self.count} ended: {error_lines[-1]}")
            answers.append(json.loads(line))
        return answers
