"""`Timer`: a statement, run often enough that its time says something."""

from __future__ import annotations

import enum
import statistics
import sys
import textwrap
import timeit
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

from ... import cuda
from ...runtime import public_name
from .measurement import Measurement, TaskSpec, set_torch_threads

Callback = Callable[[int, float], Any]

MAX_RUNS = 2**31 - 1
"""A block never has more runs of the statement than this."""


def timer() -> float:
    """Synchronize the GPU, and return the time of a clock in seconds."""
    if cuda.is_initialized():
        cuda.synchronize()
    return timeit.default_timer()


class Language(enum.Enum):
    """Language of a statement. C++ is refused, because there is no compiler."""

    PYTHON = 0
    CPP = 1


class Timer:
    """Measures a statement (`torch.utils.benchmark.Timer`), as `timeit.Timer` does.

    It differs from that one in waiting for the GPU, in the number of threads, which is 1 unless given, and in running
    the statement before it measures.

    Args:
        stmt: the statement, a str, which may have several lines.
        setup: The statement that runs once before.
        timer: the clock.
        globals: names that the statement knows; the package is among them.
        label, sub_label, description: what is measured, in words; `Compare` makes a table of each label with a row for
            each second label and a column for each description.
        env: in which of several environments.
        num_threads: for kernels on the CPU.
        language: Python.

    Raises:
        ValueError: `stmt` is no str, `language` is not Python, or there is a `global_setup`, which is for C++.

    Example:
        >>> import triten as tt
        >>> from triten.utils import benchmark
        >>> ticks = iter(range(1000))
        >>> measured = benchmark.Timer("x + x", globals={"x": tt.ones(3)}, timer=lambda: next(ticks)).timeit(10)
        >>> measured.number_per_run, measured.median
        (10, 0.1)
    """

    _timer_cls: ClassVar[Any] = timeit.Timer

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Language | str = Language.PYTHON,
    ) -> None:
        if not isinstance(stmt, str):
            raise ValueError(f"Currently only a `str` stmt is supported, got {type(stmt).__name__}.")
        if language in (Language.CPP, "cpp", "c++"):
            raise ValueError("Timer: statements in C++ are not supported; language must be 'python'")
        if language not in (Language.PYTHON, "py", "python"):
            raise ValueError(f"Invalid language `{language}`.")
        if global_setup:
            raise ValueError(
                f"global_setup is C++ only, got `{global_setup}`. Most likely this code can simply be moved to `setup`."
            )
        stmt, setup = _dedented(stmt), _dedented(setup)
        root = __package__.partition(".")[0]
        self._globals = dict.fromkeys((root, "tt", public_name.shown), sys.modules[root]) | (globals or {})
        self._timer = self._timer_cls(stmt=stmt, setup=setup, timer=timer, globals=self._globals)
        self._task_spec = TaskSpec(
            stmt, setup, "", label, sub_label, description, env, num_threads=num_threads
        )

    def _timeit(self, number: int) -> float:
        # At least a nanosecond, so that a clock without progress causes no division by zero.
        return max(float(self._timer.timeit(number)), 1e-9)

    def timeit(self, number: int = 1000000) -> Measurement:
        """Time `number` runs once, after `number` / 100 warm-up runs."""
        with set_torch_threads(self._task_spec.num_threads):
            self._timeit(max(number // 100, 2))
            return Measurement(number, [self._timeit(number)], self._task_spec)

    def repeat(self, repeat: int = -1, number: int = -1) -> NoReturn:
        """Raise NotImplementedError: `blocked_autorange` replaces this method."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def autorange(self, callback: Callback | None = None) -> NoReturn:
        """Raise NotImplementedError: `blocked_autorange` replaces this method."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def _block_size(self, min_run_time: float) -> int:
        """Return the number of runs that makes the timer's overhead negligible."""
        overhead = statistics.median(self._timeit(0) for _ in range(5))
        number = 1
        while True:
            taken = self._timeit(number)
            negligible = overhead / taken <= 1e-4 and taken >= min_run_time / 1000
            if negligible or taken > min_run_time or number * 10 > MAX_RUNS:
                return number
            number *= 10

    def _times(
        self,
        number: int,
        may_stop: Callable[[list[float]], bool],
        min_run_time: float,
        max_run_time: float | None,
        callback: Callback | None,
    ) -> list[float]:
        total = 0.0
        times: list[float] = []
        while True:
            taken = self._timeit(number)
            times.append(taken)
            total += taken
            if callback is not None:
                callback(number, taken)
            if (max_run_time and total > max_run_time) or (may_stop(times) and total >= min_run_time):
                return times

    def blocked_autorange(self, callback: Callback | None = None, min_run_time: float = 0.2) -> Measurement:
        """Measure blocks of runs that are long enough for the clock's overhead to be negligible.

        Args:
            callback: Called with the number of runs and the time of each block.
            min_run_time: The measuring time in seconds.
        """
        with set_torch_threads(self._task_spec.num_threads):
            number = self._block_size(min_run_time)
            times = self._times(number, lambda times: True, min_run_time, None, callback)
        return Measurement(number, times, self._task_spec)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callback | None = None,
    ) -> Measurement:
        """Measure blocks like `blocked_autorange` until the times agree.

        Args:
            threshold: The interquartile range, as a fraction of the median, at which measuring stops.
            min_run_time: The minimum measuring time in seconds.
            max_run_time: The maximum measuring time in seconds.
            callback: Called with the number of runs and the time of each block.
        """

        def agree(times: list[float]) -> bool:
            return len(times) > 3 and Measurement(number, times, self._task_spec).meets_confidence(threshold)

        with set_torch_threads(self._task_spec.num_threads):
            number = self._block_size(0.05)
            times = self._times(number, agree, min_run_time, max_run_time, callback)
        return Measurement(number, times, self._task_spec)

    def collect_callgrind(
        self,
        number: int = 100,
        *,
        repeats: int | None = None,
        collect_baseline: bool = True,
        retain_out_file: bool = False,
    ) -> NoReturn:
        """Raise NotImplementedError: counting instructions is not supported."""
        raise NotImplementedError(
            "Timer.collect_callgrind: counting instructions under Valgrind is not supported; `blocked_autorange` "
            "measures times"
        )


def _dedented(text: str) -> str:
    """Remove the common indentation of a text's lines."""
    return textwrap.dedent(text).removeprefix("\n").rstrip()
