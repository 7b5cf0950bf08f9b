"""`profile_step`: a training step under the profiler, with the prediction of its time and memory."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...dispatch.layers.profiler.profile import profile, schedule
from ...runtime.cuda import driver as drivers
from ..planning import Plan, plan
from .comparison import format_rows, plan_record
from .trace import METADATA, read_trace

TIMED = 5
"""Number of steps that are timed without the profiler."""
RECORDED = 3
"""Number of recordings, of which the one with the median time is kept."""


@dataclass
class StepProfile:
    """Recording of a step.

    Attributes:
        profile: The finished `tt.profiler.profile`, with its events and tables.
        seconds: Median time of a step without the profiler.
        steps: Number of recorded steps.
        plan: The prediction, or None.
    """

    profile: profile
    seconds: float
    steps: int
    plan: Plan | None

    def save(self, path: str | Path) -> None:
        """Write the trace as JSON, or as compressed JSON for ``.gz``.

        Perfetto and chrome://tracing open the file, and ``python -m triten.perf report --profile FILE`` shows it.
        """
        write_step(self.profile, Path(path), self.seconds, self.steps, self.plan)

    def __str__(self) -> str:
        import tempfile

        with tempfile.TemporaryDirectory(prefix="triten-step-") as folder:
            self.save(Path(folder) / "step.json")
            return format_rows(read_trace(Path(folder) / "step.json"))


def write_step(
    recorded: profile, path: Path, seconds: float | None, steps: int, predicted: Plan | None
) -> None:
    """Write a trace with what the report shows beside it."""
    step = {
        "steps": steps,
        "seconds": seconds,
        "plan": None if predicted is None else plan_record(predicted),
    }
    recorded.add_metadata_json(METADATA, json.dumps(step))
    recorded.export_chrome_trace(path)


def recorder(steps: int, **more: Any) -> profile:
    """Return a profiler that warms up for a step, then records `steps` steps with stacks, shapes and memory."""
    return profile(
        schedule=schedule(wait=0, warmup=1, active=steps, repeat=1),
        record_shapes=True,
        profile_memory=True,
        with_stack=True,
        with_modules=True,
        **more,
    )


def profile_step(
    step: Callable[..., object],
    /,
    *args: Any,
    warmup: int = 2,
    steps: int = 1,
    predict: str | None = None,
    **kwargs: Any,
) -> StepProfile:
    """Profile a training step: operators, launches, memory and call stacks, beside a prediction.

    The step runs ``warmup`` times, then some times without the profiler for its time, then under the profiler. The
    profiler records every call, which makes small operators slower than they are without it. `profile_step` records
    three times, and keeps the recording with the median time.

    Args:
        step: A function that runs one step: forward, backward, optimizer.
        args, kwargs: Its arguments.
        warmup: Number of calls before anything is measured. The first calls make plans and compile kernels.
        steps: Number of recorded calls.
        predict: Device for `tt.perf.plan`, such as ``"cpu"`` or ``"h200"``. The step must then receive its modules,
            optimizers and tensors as arguments. Default: None, no prediction.

    Returns:
        The profile. `StepProfile.save` writes a trace for Perfetto and for the dashboard.

    Raises:
        ValueError: for fewer than one step, a negative `warmup`, or an unknown device.
        RuntimeError: while another profiler runs.

    Example:
        >>> import triten as tt
        >>> model = tt.nn.Linear(4, 2)
        >>> optimizer = tt.optim.SGD(model.parameters(), lr=0.1)
        >>> def step(model, optimizer, x):
        ...     optimizer.zero_grad()
        ...     model(x).square().mean().backward()
        ...     optimizer.step()
        >>> found = tt.perf.profile_step(step, model, optimizer, tt.ones(8, 4))
        >>> {"aten::addmm", "AddmmBackward0", "aten::_fused_sgd_"} <= {event.name for event in found.profile.events()}
        True
    """
    if steps < 1 or warmup < 0:
        raise ValueError(
            f"profile_step(): expected steps >= 1 and warmup >= 0, got steps={steps}, warmup={warmup}"
        )
    for _ in range(warmup):
        step(*args, **kwargs)
    predicted = None if predict is None else plan(step, *args, device=predict, **kwargs)
    times = []
    for _ in range(TIMED):
        _synchronize()
        start = time.perf_counter()
        step(*args, **kwargs)
        _synchronize()
        times.append(time.perf_counter() - start)
    recordings = sorted(
        (_record(lambda: step(*args, **kwargs), steps) for _ in range(RECORDED)), key=_duration
    )
    return StepProfile(recordings[RECORDED // 2], statistics.median(times), steps, predicted)


def _record(step: Callable[[], object], steps: int) -> profile:
    with recorder(steps) as recorded:
        for _ in range(1 + steps):
            step()
            recorded.step()
    return recorded


def _duration(recorded: profile) -> float:
    """Return the time from the first event's start to the last event's end."""
    return max((event.time_range.end for event in recorded.events()), default=0.0)


def _synchronize() -> None:
    """Wait for the devices that the process uses."""
    driver = drivers.current_driver()
    if driver is not None:
        driver.synchronize(driver.current_device())
