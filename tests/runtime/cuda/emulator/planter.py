"""Plants faults into one call's kernel and its launches, and says how each is found."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import triten as tt
from triten.runtime.cuda.emulator import kernel as emulated
from triten.runtime.cuda.emulator.fault import EmulationError
from triten.runtime.cuda.emulator.machine import Program
from triten.runtime.cuda.emulator.ptx import parse
from triten.tests.runtime.cuda.emulator.planted_calls import CALLS, CALLS_BY_UNITS, TARGET
from triten.tests.runtime.cuda.emulator.planted_launches import LAUNCHES, MAPS
from triten.tests.runtime.cuda.emulator.planted_tensor_memory import (
    CALLS_OF_TENSOR_MEMORY,
    choose_small_tiles,
    mutants_of,
)
from triten.tests.runtime.cuda.emulator.planted_text import TEXT, TEXT_BY_UNITS, Mutant, Text
from triten.triton_kernels.reduction import stream_counters

TRAPPED = "device-side assert triggered"
WRONG = "the result is wrong"
Mutants = dict[str, list[Mutant]]
LaunchChange = Callable[[Any, Any, bytes], tuple[Any, bytes]]
TABLES: dict[str, tuple[dict[str, Any], Callable[[str], Mutants], dict[str, LaunchChange]]] = {
    "80": (CALLS, lambda call: TEXT, LAUNCHES),
    "90": (CALLS_BY_UNITS, lambda call: TEXT_BY_UNITS, MAPS),
    "100": (CALLS_OF_TENSOR_MEMORY, mutants_of, {}),
}
"""By the target: calls, faults of their kernels' texts, and of their launches."""

if TARGET == "100":
    choose_small_tiles()


class Planter:
    """Call and its kernel.

    Raises RuntimeError if the call is wrong without a fault, or launches another kernel.
    """

    def __init__(self, name: str) -> None:
        calls, mutants, self.launches = TABLES[TARGET]
        self.kernel_name, self.function, arguments = calls[name]
        self.mutants = mutants(name)
        self.arguments = arguments
        with np.errstate(all="ignore"):
            self.expected = self.function(*arguments).double().numpy()
        self.kernel: Any = None
        self._find_kernel()
        self.text = Text(self.kernel._binary.asm["ptx"], self._traps)

    def faults(
        self, takes: Callable[[int, str], bool] = lambda number, fault: True
    ) -> Iterator[tuple[str, str]]:
        """Yield each fault and how it was found, or an empty text if it was not. `takes` filters by number
        and name.
        """
        number = itertools.count()
        for fault, mutants in self.mutants.items():
            planted: set[str] = set()
            for i, mutate in enumerate(mutants):
                text = self._mutated(mutate)
                if text is not None and text not in planted:
                    planted.add(text)
                    if takes(next(number), name := f"{fault} {i}"):
                        yield name, self._with_text(text)
        for fault, change in self.launches.items():
            if takes(next(number), fault):
                yield fault, self._with_launch(change)

    def _mutated(self, mutate: Mutant) -> str | None:
        text = mutate(self.text)
        return None if text == self.text.text else text

    def _is_right(self) -> bool:
        found: np.ndarray[Any, Any] = (
            self.function(*[a.cuda() for a in self.arguments]).cpu().double().numpy()
        )
        tolerance = 2e-2 if self.arguments[0].dtype.itemsize == 2 else 2e-4
        return found.shape == self.expected.shape and np.allclose(found, self.expected, tolerance, tolerance)

    def _find_kernel(self) -> None:
        def noted(before: Any, kernel: Any, *rest: Any) -> None:
            if kernel.name == self.kernel_name:
                self.kernel = kernel
            before(kernel, *rest)

        with _launches_through(noted):
            right = self._is_right()
        if not right or self.kernel is None:
            raise RuntimeError(f"{self.kernel_name}: wrong without a fault, or not launched")

    def _traps(self, text: str) -> bool:
        return TRAPPED in self._with_text(text)

    def _with_text(self, text: str) -> str:
        """Return how the emulator finds a changed text."""
        program = self.kernel._program
        try:
            self.kernel._program = Program(parse(text), self.kernel.name, program._addresses)
            return self._outcome()
        finally:
            self.kernel._program = program

    def _with_launch(self, change: LaunchChange) -> str:
        """Return how the emulator finds a changed launch."""
        wanted = self.kernel

        def changed(before: Any, kernel: Any, grid: Any, packed: bytes, *rest: Any) -> None:
            if kernel is wanted:
                grid, packed = change(kernel, grid, packed)
                if 0 in grid:
                    return
            before(kernel, grid, packed, *rest)

        with _launches_through(changed):
            return self._outcome()

    def _outcome(self) -> str:
        # A kernel with a fault may leave its counters as they were; on a GPU its context is lost with them.
        for counters in stream_counters._counters.values():
            counters._by_stream.clear()
        # Each time the same blocks lie side by side, and nothing was written behind them.
        tt.cuda.empty_cache()
        try:
            found = "" if self._is_right() else WRONG
        except (EmulationError, IndexError) as error:
            found = str(error)
        # A fault that the kernel itself reported belongs to this call, not to the next.
        try:
            tt.cuda.synchronize()
        except IndexError as error:
            found = found or str(error)
        return found


@contextmanager
def _launches_through(run: Callable[..., None]) -> Iterator[None]:
    """Route every launch of an emulated kernel through `run`, which gets the original launch function."""
    before = emulated.EmulatedKernel._run
    emulated.EmulatedKernel._run = lambda *given: run(before, *given)  # type: ignore[method-assign]
    try:
        yield
    finally:
        emulated.EmulatedKernel._run = before  # type: ignore[method-assign]
