"""A child process that runs cases, as its parent sees it; it is begun anew after a crash or a hang."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import triten

from .campaign import Campaign, Finding, Outcome
from .child import outcome_of

START_LIMIT = 180.0
OTHER_LIMIT = 60.0
STACK = 1500


class DeathError(Exception):
    """The worker died or was ended: `finding` says how, with the stack that it left."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


class Worker:
    """Context manager of one child process of a fuzz target; the child starts at the first request."""

    def __init__(self, campaign: Campaign, python: str = sys.executable) -> None:
        self.campaign = campaign
        self._python = os.path.abspath(python)  # a link to a Python is an environment of its own
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="triten-fuzz-")
        # Whatever Python it is, it gets this very checkout.
        os.symlink(triten.__path__[0], Path(self._folder.name) / "triten", target_is_directory=True)
        self._errors = Path(self._folder.name) / "errors"
        self._rest = b""
        self._served_by = 0

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._folder.cleanup()

    def attempt(self, seed: str) -> tuple[Outcome, Any]:
        """Generate the seed's case and run it; return the outcome, and the case if the outcome is a finding."""
        try:
            reply = self._ask({"do": "try", "seed": seed}, self.campaign.limit)
        except DeathError as death:
            case = self._drawn(seed)
            outcome = self.campaign.judge_death(case, death.finding)
            return outcome, case
        return outcome_of(reply["outcome"]), reply["case"]

    def run(self, case: Any) -> Outcome:
        """Run that case."""
        try:
            return outcome_of(self._ask({"do": "run", "case": case}, self.campaign.limit))
        except DeathError as death:
            return self.campaign.judge_death(case, death.finding)

    def smaller(self, case: Any) -> list[Any]:
        """Run `Campaign.smaller` in the child. Raises DeathError."""
        found: list[Any] = self._ask({"do": "smaller", "case": case}, OTHER_LIMIT)
        return found

    def describe(self, case: Any) -> str:
        """Run `Campaign.describe` in the child; return the case itself if that fails."""
        try:
            return str(self._ask({"do": "describe", "case": case}, OTHER_LIMIT))
        except (DeathError, RuntimeError):
            return json.dumps(case)

    def record(self, case: Any) -> Any:
        """Run `Campaign.record` in the child; return None if the child dies, as when a case kills the oracle."""
        try:
            return self._ask({"do": "record", "case": case}, OTHER_LIMIT)
        except (DeathError, RuntimeError):
            return None

    def stop(self) -> None:
        """End the child."""
        if self._process is not None:
            if self._served_by not in (0, self._process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._served_by, signal.SIGKILL)
            self._process.kill()
            self._process.wait()
            self._served_by = 0
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    stream.close()
            self._process = None

    def _drawn(self, seed: str) -> Any:
        try:
            return self._ask({"do": "draw", "seed": seed}, OTHER_LIMIT)
        except DeathError:
            return {"seed": seed}

    def _start(self) -> subprocess.Popen[bytes]:
        self.stop()
        environment = dict(os.environ) | dict(self.campaign.needs) | {"PYTHONPATH": self._folder.name}
        environment.setdefault("OPENBLAS_NUM_THREADS", "1")
        environment.setdefault("OMP_NUM_THREADS", "1")
        self._rest = b""
        with self._errors.open("ab") as errors:  # what is read is cut off, for a child that goes on writing
            self._process = process = subprocess.Popen(
                [self._python, "-P", "-m", "triten.tests.fuzz.child", self.campaign.name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                cwd=self._folder.name,
            )
        self._await_ready(process)
        return process

    def _await_ready(self, process: subprocess.Popen[bytes]) -> None:
        try:
            self._served_by = self._reply(process, START_LIMIT)["ready"]
        except DeathError as death:
            self.stop()
            raise RuntimeError(
                f"a worker of {self.campaign.name} does not start: {death.finding.message}"
            ) from None

    def _ask(self, request: dict[str, Any], limit: float) -> Any:
        process = self._process if self._process is not None else self._start()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(request | {"limit": limit}).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:  # it died after its last answer
            self.stop()
            return self._ask(request, limit)
        reply = self._reply(process, limit)
        if "error" in reply:
            raise RuntimeError(f"{self.campaign.name}, {request['do']}: {reply['error']}")
        return reply["answer"]

    def _reply(self, process: subprocess.Popen[bytes], limit: float) -> Any:
        """Return the next reply. Raises DeathError if the child dies, or after `limit` seconds."""
        assert process.stdout is not None
        end = time.monotonic() + limit
        while b"\n" not in self._rest:
            ready, _, _ = select.select([process.stdout], [], [], max(end - time.monotonic(), 0))
            if not ready:
                finding = Finding("hang", f"over {limit:g} s\n{self._stack()}")
                self._end_serving(process)
                raise DeathError(finding)
            piece = os.read(process.stdout.fileno(), 1 << 16)
            if not piece:
                finding = Finding("crash", f"exit status {process.wait()}\n{self._stack()}")
                self.stop()
                raise DeathError(finding)
            self._rest += piece
        line, self._rest = self._rest.split(b"\n", 1)
        reply = json.loads(line)
        if "died" in reply:
            finding = Finding("crash", f"exit status {reply['died']}\n{self._stack()}")
            self._await_ready(process)
            raise DeathError(finding)
        return reply

    def _end_serving(self, process: subprocess.Popen[bytes]) -> None:
        """End the child that serves; the one that it is a fork of begins another."""
        if self._served_by in (0, process.pid):
            self.stop()
            return
        os.kill(self._served_by, signal.SIGKILL)
        try:
            self._reply(process, OTHER_LIMIT)
        except DeathError:
            return

    def _stack(self) -> str:
        text = self._errors.read_text(errors="replace")
        self._errors.write_bytes(b"")
        start = max(text.rfind("Fatal Python error"), text.rfind("Timeout (0:"))
        return text[start : start + STACK] if start >= 0 else text[-STACK:]
