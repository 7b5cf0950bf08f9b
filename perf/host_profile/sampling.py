"""Samples of a running program: at each tick of a timer, the time since the last one goes to what runs.

The timer's signal reaches the interpreter between two instructions, so that a long call of a library is one sample,
taken when it returns, with all of its time. The signal interrupts the main thread only; other threads' work counts for
what the main thread waits in.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from .layers import LAYERS, OUTSIDE, layer_of, names_operators

NO_OPERATOR = "(none)"
BACKWARD = "backward"


@dataclass
class HostProfile:
    """Seconds by operator and layer, and by line.

    `operators[name][layer]` has the public operator whose call was running, the outermost one. In a backward pass they
    are called ``backward: mm``, what the engine does of itself `BACKWARD`; `NO_OPERATOR` is everything outside.
    `lines[(file, line, function)]` has the innermost line of the package, or of the program where none of it runs.
    `overhead` is what taking the samples took, which is not part of `seconds`.
    """

    interval: float
    seconds: float = 0.0
    samples: int = 0
    overhead: float = 0.0
    operators: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    lines: Counter[tuple[str, int, str]] = field(default_factory=Counter)

    @property
    def layers(self) -> dict[str, float]:
        """Seconds of each layer, in the order of a call."""
        return {name: sum(row[name] for row in self.operators.values()) for name in LAYERS}

    def add(self, frame: FrameType | None, seconds: float) -> None:
        """Add a sample: `seconds` in the innermost frame."""
        layer: str | None = None
        operator = NO_OPERATOR
        location = None
        each = frame
        while each is not None:
            code = each.f_code
            if location is None:
                location = code.co_filename, each.f_lineno, code.co_name
            frame_layer = layer_of(code.co_filename)
            if frame_layer is not None:
                if layer is None:
                    layer, location = frame_layer, (code.co_filename, each.f_lineno, code.co_name)
                if names_operators(code.co_filename):
                    operator = code.co_name
                elif code.co_filename.endswith(ENGINE):
                    operator = BACKWARD if operator == NO_OPERATOR else f"{BACKWARD}: {operator}"
                    break
            each = each.f_back
        self.samples += 1
        self.seconds += seconds
        self.operators[operator][layer or OUTSIDE] += seconds  # type: ignore[assignment]
        if location is not None:
            self.lines[location] += seconds  # type: ignore[assignment]

    def as_json(self) -> dict[str, Any]:
        """Return the profile as JSON."""
        return {
            "interval": self.interval,
            "seconds": self.seconds,
            "samples": self.samples,
            "overhead": self.overhead,
            "layers": self.layers,
            "operators": {name: dict(row) for name, row in self.operators.items()},
            "lines": [
                {"file": file, "line": line, "function": function, "seconds": seconds}
                for (file, line, function), seconds in self.lines.most_common(200)
            ],
        }


ENGINE = os.path.join("dispatch", "autograd", "engine.py")


def is_available() -> bool:
    """Return True if the system has the timer."""
    return hasattr(signal, "setitimer")


@contextmanager
def sampled(interval: float = 0.001) -> Iterator[HostProfile]:
    """Sample the main thread every `interval` seconds of wall-clock time, inside the block.

    Raises:
        RuntimeError: on a system without interval timers (Windows); ValueError outside of the main thread, or for an
            interval that is not positive.

    Example:
        >>> import triten as tt
        >>> from triten.perf.host_profile.sampling import sampled
        >>> x = tt.ones(300, 300)
        >>> with sampled(0.001) as profile:
        ...     for _ in range(30):
        ...         y = x @ x
        >>> sorted(profile.as_json())
        ['interval', 'layers', 'lines', 'operators', 'overhead', 'samples', 'seconds']
    """
    if not is_available():
        raise RuntimeError("sampled(): this system has no interval timer (signal.setitimer)")
    if not interval > 0:
        raise ValueError(f"sampled(): interval must be positive, got {interval}")
    profile = HostProfile(interval)
    last = time.perf_counter()
    is_adding = False

    def tick(number: int, frame: FrameType | None) -> None:
        nonlocal last, is_adding
        if is_adding:
            return  # a signal within this function; what it would add is added by the next one
        is_adding = True
        now = time.perf_counter()
        profile.add(frame, now - last)
        last = time.perf_counter()
        profile.overhead += last - now
        is_adding = False

    before = signal.signal(signal.SIGALRM, tick)
    signal.setitimer(signal.ITIMER_REAL, interval, interval)
    try:
        last = time.perf_counter()
        yield profile
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
