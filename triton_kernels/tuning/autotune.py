"""`autotune`: the candidates of every launch that a function makes, timed on its device, the best ones remembered."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial
from typing import Any

from ...dispatch.layers.profiler import session
from ...dispatch.layers.pytree import tree_leaves
from ...runtime.cuda import driver as drivers
from ...runtime.cuda.triton.lazy_triton import module_if_imported
from ...runtime.device import device as Device
from ...runtime.generator import default_generator, generators_in_use
from ...runtime.tensor_impl import TensorImpl
from ..budget import Configuration
from .agreement import disagreement
from .choice import forced, listening, make_plans_anew, note
from .entry import Entry, source_of
from .inputs import Inputs
from .measurement import RUNS, TURNS, WARM_UP, measure, winner
from .question import Question, candidates
from .report import Finding, Report
from .timer import EventTimer, Timer

_running = threading.Lock()


def autotune(function: Callable[..., object], /, *args: Any, **kwargs: Any) -> Report:
    """Time the candidate configurations of a function's launches, and use the fastest ones from now on.

    Runs ``function(*args, **kwargs)`` and records which of its kernels have a choice of configurations. For
    each of them it times the whole function with each candidate: CUDA events around it, the L2 flushed before
    each run, candidates interleaved, medians of up to 25 runs. A candidate replaces the default if its
    results agree within the rounding of their dtype and it is faster by more than the noise.

    Results are stored, for this process at once and for later ones in a file (see `tuning/records.py`;
    ``TRITEN_TUNING_STORE=0`` turns that off), by kind of device, version of the kernel, dtype and class of
    shapes. Plans are made anew. Graphs that were captured before keep their configurations. Only this call
    ever times kernels.

    Pass the one call that matters rather than a training step: other work in the function is timed along and
    hides differences. The function runs a few hundred times. Arguments that it writes to are restored before
    each run and at the end, and so are the states of the random number generators. It must have no other
    effect and return the same result each time: for ``backward()``, which adds to ``.grad``, use
    `tt.autograd.grad`.

    Args:
        function: what to run; its result is a tensor, or any nesting of tensors, numbers and None.
        args, kwargs: its arguments.

    Returns:
        a report: ``print(report)`` shows each kernel with its dtype, class of shapes, candidates, medians and choice.

    Raises:
        RuntimeError: without a CUDA device, and where kernels are interpreted; during the capture of a graph, under
            the profiler, and within another `autotune`; if the function's results differ from run to run.

    Warns:
        RuntimeWarning: for a candidate that cannot be compiled or launched, or whose results are wrong.

    Example::

        a, b = (tt.randn(4096, 4096, device="cuda", dtype=tt.bfloat16) for _ in range(2))
        print(tt.triton_kernels.autotune(tt.mm, a, b))
    """
    if not drivers.is_available():
        raise RuntimeError(
            "autotune: there is no CUDA device to time on; kernels take the shipped and the declared configurations"
        )
    if drivers.is_simulated():
        raise RuntimeError(
            "autotune: TRITEN_CUDA asks for simulated devices, whose times say nothing of a real one"
        )
    return tune(partial(function, *args, **kwargs), (args, kwargs), EventTimer)


def tune(
    run: Callable[[], object],
    arguments: object,
    timer_for: Callable[[Device], Timer],
    turns: int = TURNS,
    runs: int = RUNS,
) -> Report:
    """Tune as `autotune` does, with any timer.

    Args:
        run: the call.
        arguments: Nesting that contains the tensors that the run may write to.
        timer_for: makes the timer of a device.
        turns, runs: Number of timings of each candidate.
    """
    if not _running.acquire(blocking=False):
        raise RuntimeError(
            "autotune: another autotune is running in this process; one cannot time within another"
        )
    try:
        _check_undisturbed()
        index = drivers.driver().current_device()
        generators = [*generators_in_use(), default_generator(Device("cuda", index))]
        with Inputs(arguments, generators) as inputs:
            return _Tuner(run, inputs, timer_for, turns, runs).report()
    finally:
        _running.release()


def _check_undisturbed() -> None:
    cuda = drivers.driver()
    if cuda.captures_underway:
        raise RuntimeError(
            "autotune: a graph is being captured, and what is captured does not run; call autotune before the capture"
        )
    if session.active() is not None:
        raise RuntimeError(
            "autotune: a profiler is running, and would be timed along; call autotune outside of it"
        )


def failures() -> tuple[type[BaseException], ...]:
    """Return the exceptions that a candidate raises if it cannot be compiled or launched."""
    triton = module_if_imported("triton.errors")
    return (RuntimeError, ValueError) if triton is None else (RuntimeError, ValueError, triton.TritonError)


class _Tuner:
    """One call of `autotune`."""

    def __init__(
        self,
        run: Callable[[], object],
        inputs: Inputs,
        timer_for: Callable[[Device], Timer],
        turns: int,
        runs: int,
    ) -> None:
        self._run = run
        self._inputs = inputs
        self._timer_for = timer_for
        self._timers: dict[Device, Timer] = {}
        self._often = turns, runs
        self._expected: list[object] = []

    def report(self) -> Report:
        """Collect the questions, time their candidates, and store the answers."""
        default_of: dict[Question, Configuration] = {}
        make_plans_anew()
        with listening(lambda question, default: default_of.setdefault(question, default)):
            result = self._once()
        self._expected = self._results_of(result)
        again = self._wrong(self._expected, self._results_of(self._once()))
        if again is not None:
            raise RuntimeError(
                f"autotune: the function gives another result when it is run again, {again}: it has an effect beyond "
                "its arguments' values, such as an in-place write to another tensor or to .grad"
            )
        try:
            return Report(tuple(self._answer(question, default) for question, default in default_of.items()))
        finally:
            make_plans_anew()

    def _once(self) -> object:
        self._inputs.restore()
        return self._run()

    def _results_of(self, result: object) -> list[object]:
        """Return a run's results and the arguments that it wrote, on the host or in separate tensors."""
        return [_own(leaf) for leaf in (*tree_leaves(result), *self._inputs.written())]

    @staticmethod
    def _wrong(expected: Iterable[object], actual: Iterable[object]) -> str | None:
        a, b = list(expected), list(actual)
        if len(a) != len(b):
            return f"{len(b)} results instead of {len(a)}"
        wrong = (disagreement(x, y) for x, y in zip(a, b, strict=True))
        return next((each for each in wrong if each is not None), None)

    def _answer(self, question: Question, default: Configuration) -> Finding:
        source = source_of(question.kernel)
        every = candidates(question, default)
        if source is None or len(every) == 1:
            return Finding(question, {}, {}, default)
        skipped: dict[Configuration, str] = {}
        usable = [default, *(each for each in every[1:] if self._is_usable(question, each, skipped))]
        timer = self._timers.get(question.device)
        if timer is None:
            timer = self._timers[question.device] = self._timer_for(question.device)

        def take(candidate: int, runs: int) -> list[float]:
            with self._taking(question, usable[candidate]):
                for _ in range(WARM_UP):
                    self._once()
                return [self._time(timer) for _ in range(runs)]

        times = measure(len(usable), take, *self._often)
        chosen = usable[winner(times)]
        medians = {
            str(each): round(times_of_candidate.median, 3)
            for each, times_of_candidate in zip(usable, times, strict=True)
        }
        entry = Entry(
            question.kernel,
            source,
            question.dtype,
            question.shape,
            chosen.tile,
            chosen.warps,
            chosen.stages,
            medians,
            drivers.driver().properties(question.device.resolved_index).name,
            chosen.ctas,
        )
        note(question, entry)
        return Finding(question, dict(zip(usable, times, strict=True)), skipped, chosen, entry)

    def _time(self, timer: Timer) -> float:
        self._inputs.restore()
        return timer.microseconds(self._run)

    def _taking(self, question: Question, candidate: Configuration) -> ExitStack:
        """Return a context that forces a candidate, and makes plans anew before and after."""
        stack = ExitStack()
        stack.callback(make_plans_anew)
        stack.enter_context(forced(question, candidate))
        make_plans_anew()
        return stack

    def _is_usable(
        self, question: Question, candidate: Configuration, skipped: dict[Configuration, str]
    ) -> bool:
        """Return True if a candidate runs and agrees with the default's results; else warn with the reason."""
        try:
            with self._taking(question, candidate):
                wrong = self._wrong(self._expected, self._results_of(self._once()))
        except failures() as error:
            wrong = f"{type(error).__name__}: {error}".partition("\n")[0]
        if wrong is None:
            return True
        skipped[candidate] = wrong
        warnings.warn(f"autotune: {question}: {candidate} is skipped: {wrong}", RuntimeWarning, stacklevel=2)
        return False


def _own(leaf: object) -> object:
    """Return a copy of a result that later runs do not change."""
    return leaf.detach().clone() if isinstance(leaf, TensorImpl) else leaf  # type: ignore[attr-defined]
