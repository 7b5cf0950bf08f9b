"""`Measurement`: the times of a statement, the measured task, and the confidence in the result."""

from __future__ import annotations

import dataclasses
import math
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...runtime.parallel import get_num_threads, set_num_threads

MAX_FIGURES = 4
SMALLEST_INTERVAL = 25e-9
"""No confidence interval is taken for smaller than this, in seconds."""

WIDE, VERY_WIDE = 0.1, 0.25
"""Interquartile ranges, as a share of the median, that a measurement warns of."""

UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
NAMES = {"ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second"}


@dataclasses.dataclass(repr=False, frozen=True)
class TaskSpec:
    """Measured task: the statement, and the labels by which `Compare` groups it."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label, or the statement, with the second label."""
        if self.label is None and "\n" in self.stmt:
            named = f" ({self.sub_label})" if self.sub_label else ""
            return f"stmt:{named}\n{textwrap.indent(self.stmt, '  ')}"
        name = self.stmt if self.label is None else self.label
        return f"{name}: {self.sub_label}" if self.sub_label else name

    def setup_str(self) -> str:
        """Format the setup as a line or a block; empty without a setup."""
        if not self.setup or self.setup == "pass":
            return ""
        return (
            f"setup:\n{textwrap.indent(self.setup, '  ')}" if "\n" in self.setup else f"setup: {self.setup}"
        )

    def summarize(self) -> str:
        """Format the lines that a measurement prints above its times."""
        sections = [self.title, self.description or "", self.setup_str()]
        return "\n".join(f"{text}\n" if "\n" in text else text for text in sections if text)


_FIELDS = frozenset(field.name for field in dataclasses.fields(TaskSpec))


@dataclasses.dataclass(repr=False)
class Measurement:
    """The times of a statement (`torch.utils.benchmark.Measurement`).

    Args:
        number_per_run: The number of runs of the statement in each time.
        raw_times: the times, in seconds.
        task_spec: The measured task; its fields are attributes of the measurement.
        metadata: whatever the caller wants to keep beside it.

    Example:
        >>> from triten.utils.benchmark import Measurement, TaskSpec
        >>> measured = Measurement(2, [2.0, 4.0, 3.0], TaskSpec("f(x)", "pass"))
        >>> measured.median, measured.stmt
        (1.5, 'f(x)')
    """

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        if name in _FIELDS:
            return getattr(self.task_spec, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def times(self) -> list[float]:
        """Seconds for one run of the statement, in the order of measuring."""
        return [time / self.number_per_run for time in self.raw_times]

    def _quantile(self, share: float) -> float:
        return float(np.quantile(self.times, share)) if self.raw_times else -1.0

    @property
    def median(self) -> float:
        """The median of `times`."""
        return self._quantile(0.5)

    @property
    def mean(self) -> float:
        """The mean of `times`."""
        return math.fsum(self.times) / len(self.raw_times) if self.raw_times else -1.0

    @property
    def iqr(self) -> float:
        """The distance between the quartiles of `times`."""
        return self._quantile(0.75) - self._quantile(0.25)

    @property
    def significant_figures(self) -> int:
        """How many figures of the median can be trusted, from the spread between the quartiles: 1 to 4."""
        times = sorted(self.times)
        middle = times[len(times) // 4 : math.ceil(3 * len(times) / 4)]
        # 1.645: a confidence of 90% for a normal distribution.
        interval = max(1.645 * float(np.std(middle)) / math.sqrt(len(middle)), SMALLEST_INTERVAL)
        return min(max(math.floor(math.log10(self.median / interval)), 1), MAX_FIGURES)

    @property
    def has_warnings(self) -> bool:
        """True if the times spread so much that the measurement is unreliable."""
        return bool(self._warning())

    def _warning(self) -> str:
        if not self.raw_times or self.meets_confidence(WIDE):
            return ""
        cause = (
            "This could indicate system fluctuation."
            if self.meets_confidence(VERY_WIDE)
            else "This suggests significant environmental influence."
        )
        share = self.iqr / self.median * 100
        return (
            f"  WARNING: Interquartile range is {share:.1f}% of the median measurement.\n           {cause}"
        )

    def meets_confidence(self, threshold: float = WIDE) -> bool:
        """Return whether the interquartile range is below `threshold` times the median."""
        return self.iqr / self.median < threshold

    @property
    def title(self) -> str:
        """The task's title."""
        return self.task_spec.title

    @property
    def as_row_name(self) -> str:
        """Row name of this measurement in a table."""
        return self.task_spec.sub_label or self.task_spec.stmt or "[Unknown]"

    def __repr__(self) -> str:
        count, threads = len(self.raw_times), self.task_spec.num_threads
        unit, scale = select_unit(self.median)
        lines = [object.__repr__(self), self.task_spec.summarize()]
        lines.append(f"  {'Median: ' if count > 1 else ''}{self.median / scale:.2f} {unit}")
        if count >= 4:
            low, high = self._quantile(0.25) / scale, self._quantile(0.75) / scale
            lines.append(f"  IQR:    {self.iqr / scale:.2f} {unit} ({low:.2f} to {high:.2f})")
        runs = f"{self.number_per_run} runs {'per measurement,' if count > 1 else ','}"
        lines.append(
            f"  {count} measurement{'s' if count > 1 else ''}, {runs} {threads} thread{'s' if threads > 1 else ''}"
        )
        return "\n".join([*lines, self._warning()]).strip()

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """Merge the measurements of each task, normalized to one run; metadata is dropped."""
        times: dict[TaskSpec, list[float]] = {}
        for measurement in measurements:
            times.setdefault(measurement.task_spec, []).extend(measurement.times)
        return [Measurement(1, task_times, task_spec) for task_spec, task_times in times.items()]


def select_unit(t: float) -> tuple[str, float]:
    """Return the unit, from ns to s, in which a time has one to three digits, and its length in seconds.

    Example:
        >>> from triten.utils.benchmark import select_unit
        >>> select_unit(3e-5)
        ('us', 1e-06)
    """
    power = math.log10(t) // 3 if 0 < t < math.inf else 0
    unit = {-3: "ns", -2: "us", -1: "ms"}.get(int(power), "s")
    return unit, UNITS[unit]


def unit_to_english(u: str) -> str:
    """Return the word for a unit: ``microsecond`` for ``us``."""
    return NAMES[u]


def trim_sigfig(x: float, n: int) -> float:
    """Round a number to `n` significant figures.

    Raises:
        AssertionError: `n` is not an integer.

    Example:
        >>> from triten.utils.benchmark import trim_sigfig
        >>> trim_sigfig(3.14159, 2)
        3.1
    """
    if n != int(n):
        raise AssertionError(f"trim_sigfig: expected n to be an integer, got {n}")
    return round(x, int(n) - math.ceil(math.log10(abs(x)))) if x else 0.0


def ordered_unique(elements: Iterable[Any]) -> list[Any]:
    """Return the distinct elements in the order of their first occurrence."""
    return list(dict.fromkeys(elements))


@contextmanager
def set_torch_threads(n: int) -> Iterator[None]:
    """Run a block with so many threads for kernels on the CPU."""
    before = get_num_threads()
    set_num_threads(n)
    try:
        yield
    finally:
        set_num_threads(before)
