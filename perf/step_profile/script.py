"""A step of an unchanged script, from one call of an optimizer's `step` to the next.

The script runs as under `python SCRIPT ARGUMENTS`, and ends after the recorded step.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from ...dispatch.layers.profiler.profile import profile
from .recording import recorder, write_step


class StepRecorded(SystemExit):
    """Raised in the script when its step is recorded, so that it ends like after `sys.exit()`."""


class ScriptStep:
    """Recorder of one step, by hooks of all optimizers.

    Args:
        after: Number of optimizer steps before the profiler starts. The recorded step comes two steps later: one is
            timed without the profiler, and one warms it up.
    """

    def __init__(self, after: int) -> None:
        self.after = after
        self.count = 0
        self.seconds: float | None = None
        self.profile: profile | None = None
        self._running: profile | None = None
        self._last = 0.0

    def run(self, script: Callable[[], int]) -> int:
        """Run the script, and return its exit status."""
        hooks = import_module(f"{__name__.partition('.')[0]}.optim.optimizer")
        handle = hooks.register_optimizer_step_post_hook(self._stepped)
        try:
            return script()
        finally:
            handle.remove()
            running, self._running = self._running, None
            if running is not None:
                running.stop()

    def save(self, path: Path) -> None:
        """Write the trace."""
        assert self.profile is not None
        write_step(self.profile, path, self.seconds, 1, None)

    def _stepped(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Count a step of an optimizer; start, or end, the recording."""
        self.count += 1
        now = time.perf_counter()
        if self._running is not None:
            self._running.step()
            if self.profile is not None:
                self._running.stop()
                self._running = None
                raise StepRecorded(0)
        elif self.count == self.after + 1 and self.profile is None:
            self.seconds = now - self._last
            running = recorder(1, on_trace_ready=self._recorded)
            running.start()
            self._running = running
        self._last = now

    def _recorded(self, recorded: profile) -> None:
        if self._running is not None:  # not a step that the end of the script cut off
            self.profile = recorded
