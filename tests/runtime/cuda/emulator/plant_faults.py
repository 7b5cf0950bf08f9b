"""Plants faults into compiled kernels and their launches, and prints a line for each: found, or not.

Run in a process of its own with ``TRITEN_CUDA=emulate``. A fault counts as found where the emulator raises, or where
the result is not the CPU's any more.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import triten as tt
from triten.runtime.cuda.emulator import kernel as emulated
from triten.runtime.cuda.emulator.fault import EmulationError
from triten.runtime.cuda.emulator.machine import Program
from triten.runtime.cuda.emulator.ptx import parse

RNG = np.random.default_rng(3)


def numbers(*sizes: int, dtype: Any = tt.float32) -> Any:
    return tt.from_numpy(RNG.standard_normal(sizes).astype(np.float32)).to(dtype)


F = tt.nn.functional
tt.backends.cudnn.allow_tf32 = False
CALLS: dict[str, tuple[str, Callable[..., Any], list[Any]]] = {
    "add": ("dense", lambda a, b: a + b, [numbers(1111), numbers(1111)]),
    "strided add": ("tiles", lambda a, b: a.t() + b, [numbers(137, 153), numbers(153, 137)]),
    "softmax": ("softmax", lambda a: tt.softmax(a, 1), [numbers(5, 3001)]),
    "sum of rows": ("reduce", lambda a: a.sum(1), [numbers(37, 1030)]),
    "sum of columns": ("reduce", lambda a: a.sum(0), [numbers(1030, 137)]),
    "layer_norm": (
        "normalise_rows",
        lambda a, w: F.layer_norm(a, (777,), w),
        [numbers(9, 777), numbers(777)],
    ),
    "cumsum": ("prefix_scan", lambda a: a.cumsum(1), [numbers(7, 3000)]),
    "mm": ("matmul", tt.mm, [numbers(100, 72), numbers(72, 90)]),
    "mm of halves": ("matmul", tt.mm, [numbers(96, 64, dtype=tt.float16), numbers(64, 80, dtype=tt.float16)]),
    "largest of rows": ("extreme_with_index", lambda a: a.max(1).indices, [numbers(33, 500)]),
    "sort": ("sort_rows", lambda a: a.sort(1).values, [numbers(5, 300)]),
    "embedding": ("pick_runs", lambda i, t: F.embedding(i, t), [tt.tensor([3, 0, 9, 5, 5]), numbers(10, 37)]),
    "conv2d": ("convolve", lambda x, w: F.conv2d(x, w), [numbers(2, 5, 9, 9), numbers(6, 5, 3, 3)]),
    "var": ("reduce_moments", lambda a: a.var(1), [numbers(13, 901)]),
}

Mutant = Callable[[str], str | None]


def nth(pattern: str, change: Callable[[re.Match[str]], str], number: int) -> Mutant:
    """A change of the number-th match of a pattern; None where there is none. Negative numbers count from the end."""

    def mutate(text: str) -> str | None:
        found = list(re.finditer(pattern, text))
        if not -len(found) <= number < len(found):
            return None
        match = found[number]
        return text[: match.start()] + change(match) + text[match.end() :]

    return mutate


WIDE = r"(mad|mul)\.wide\.(s32|u32) \t(%rd\d+, %r\d+), (\d+)"
WAIT = r"cp\.async\.wait_group \t(\d+)"
TEXT: dict[str, list[Mutant]] = {
    "missing barrier": [nth(r"bar\.sync \t0;", lambda m: "", i) for i in (-1, 0)],
    "missing mask of a load": [nth(r"@%p\d+ (ld\.global|cp\.async\.c[ag])", lambda m: m[1], -1)],
    "missing mask of a store": [nth(r"@%p\d+ (st\.global)", lambda m: m[1], -1)],
    "wrong stride": [nth(WIDE, lambda m: f"{m[1]}.wide.{m[2]} \t{m[3]}, {int(m[4]) * 2}", 0)],
    "wrong offset of a store": [nth(r"(st\.global\.\S+ \[ %rd\d+) \+ 0", lambda m: f"{m[1]} + 8", 0)],
    "wrong place in shared memory": [nth(r"(ld\.shared\.\S+ \t[^;]*\[%r\d+)\]", lambda m: f"{m[1]}+128]", 0)],
    "bounds off by one": [lambda text: re.sub(r"setp\.lt\.s(32|64)", r"setp.le.s\1", text)],
    "wait for too few copies": [nth(WAIT, lambda m: f"cp.async.wait_group \t{int(m[1]) + 2}", 0)],
    "wrong partner": [nth(r"(shfl\.sync\.bfly\.b32 \t[^;]*?), 16, 31", lambda m: f"{m[1]}, 8, 31", 0)],
}


def changed_launches() -> dict[str, Callable[[Any, Any, bytes], tuple[Any, bytes]]]:
    """Changes of a launch: (kernel, grid, packed parameters) to another grid and other parameters."""

    def pointers(kernel: Any) -> list[int]:
        types = kernel._binary.parameter_types
        return [kernel._layout.offsets[i] for i, name in enumerate(types) if name.startswith("*")]

    def exchanged(kernel: Any, grid: Any, packed: bytes) -> tuple[Any, bytes]:
        first, *_, last = pointers(kernel)
        a, b = packed[first : first + 8], packed[last : last + 8]
        found = bytearray(packed)
        found[first : first + 8], found[last : last + 8] = b, a
        return grid, bytes(found)

    def moved(kernel: Any, grid: Any, packed: bytes) -> tuple[Any, bytes]:
        at = pointers(kernel)[0]
        value = int.from_bytes(packed[at : at + 8], "little") + 4
        return grid, packed[:at] + value.to_bytes(8, "little") + packed[at + 8 :]

    def smaller(kernel: Any, grid: Any, packed: bytes) -> tuple[Any, bytes]:
        return (grid[0] - 1, grid[1], grid[2]), packed

    def stale(kernel: Any, grid: Any, packed: bytes) -> tuple[Any, bytes]:
        at = pointers(kernel)[0]
        memory = kernel._driver.memory(0)
        address = memory.malloc(1 << 20)
        return grid, packed[:at] + address.to_bytes(8, "little") + packed[at + 8 :]

    return {
        "exchanged arguments": exchanged,
        "address that is not aligned": moved,
        "a block too few": smaller,
        "memory of no block": stale,
    }


class Planter:
    """One call, its kernel, and whether what is planted there is found."""

    def __init__(self, name: str) -> None:
        self.kernel_name, self.function, arguments = CALLS[name]
        self.arguments = arguments
        with np.errstate(all="ignore"):
            self.expected = self.function(*arguments).double().numpy()
        self.kernel: Any = None
        self.text = ""

    def run(self) -> np.ndarray[Any, Any]:
        found: np.ndarray[Any, Any] = (
            self.function(*[a.cuda() for a in self.arguments]).cpu().double().numpy()
        )
        return found

    def is_right(self) -> bool:
        found = self.run()
        tolerance = 2e-2 if self.arguments[0].dtype is tt.float16 else 2e-4
        return found.shape == self.expected.shape and np.allclose(found, self.expected, tolerance, tolerance)

    def find_kernel(self) -> None:
        """Run the call as it is, and note its kernel."""
        before = emulated.EmulatedKernel._run

        def noted(kernel: Any, *rest: Any) -> None:
            if kernel.name == self.kernel_name:
                self.kernel = kernel
            before(kernel, *rest)

        emulated.EmulatedKernel._run = noted  # type: ignore[method-assign]
        try:
            right = self.is_right()
        finally:
            emulated.EmulatedKernel._run = before  # type: ignore[method-assign]
        if not right or self.kernel is None:
            raise RuntimeError(f"{self.kernel_name}: wrong without a fault, or not launched")
        self.text = self.kernel._binary.asm["ptx"]

    def with_text(self, text: str) -> str:
        """How a changed text is found."""
        program = self.kernel._program
        try:
            self.kernel._program = Program(parse(text), self.kernel.name, program._addresses)
            return self.outcome()
        finally:
            self.kernel._program = program

    def with_launch(self, change: Callable[[Any, Any, bytes], tuple[Any, bytes]]) -> str:
        """How a changed launch is found."""
        before, wanted = emulated.EmulatedKernel._run, self.kernel

        def changed(kernel: Any, grid: Any, packed: bytes, *rest: Any) -> None:
            if kernel is wanted:
                grid, packed = change(kernel, grid, packed)
                if 0 in grid:
                    return
            before(kernel, grid, packed, *rest)

        emulated.EmulatedKernel._run = changed  # type: ignore[method-assign]
        try:
            return self.outcome()
        finally:
            emulated.EmulatedKernel._run = before  # type: ignore[method-assign]

    def outcome(self) -> str:
        """What came of it."""
        try:
            return "" if self.is_right() else "the result is wrong"
        except EmulationError as error:
            tt.cuda.synchronize()
            return str(error)


def planted(name: str) -> Iterator[tuple[str, str]]:
    """Each fault of a call, and how it was found; nothing where it was not."""
    planter = Planter(name)
    planter.find_kernel()
    for fault, mutants in TEXT.items():
        for i, mutate in enumerate(mutants):
            text = mutate(planter.text)
            if text is not None and text != planter.text:
                yield f"{fault} {i}", planter.with_text(text)
    for fault, change in changed_launches().items():
        yield fault, planter.with_launch(change)


if __name__ == "__main__":
    for call in sys.argv[1:] or CALLS:
        for fault, found in planted(call):
            print(json.dumps({"call": call, "fault": fault, "found": found[:300]}), flush=True)
