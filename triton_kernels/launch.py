"""The way from a planned operator to a launch: a kernel for one signature, on one device.

Whatever depends on specs alone is decided when the launch is planned. At the call only addresses are looked
at: where all of them are multiples of 16 the variant with 128-bit accesses runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..runtime.cuda.device_guard import device_guard
from ..runtime.cuda.driver import CompiledKernel, Grid, driver, wants_interpreter
from ..runtime.device import device as Device

ALIGNMENT = 16
INT32_MAX = 2**31 - 1


class Launch:
    """A kernel with its signature and constants; compiled at first use, for aligned and other addresses.

    Args:
        device: where it runs.
        kernel: a `@triton.jit` function.
        signature: types of the parameters given at launch, in the kernel's order.
        constexprs: all other parameters.
        divisible: integer parameters that are always multiples of 16.
        elements: pointers to one element only, whose alignment does not matter.
        num_warps, num_stages, enable_fp_fusion: as `Driver.compile` has them.
    """

    __slots__ = (
        "_aligned",
        "_blocks",
        "_driver",
        "_index",
        "_kernel",
        "_options",
        "_other",
        "_pointers",
        "_signature",
    )

    def __init__(
        self,
        device: Device,
        kernel: Any,
        signature: Mapping[str, str],
        constexprs: Mapping[str, object],
        *,
        divisible: Sequence[str] = (),
        elements: Sequence[str] = (),
        num_warps: int = 4,
        num_stages: int = 3,
        enable_fp_fusion: bool = False,
    ) -> None:
        self._driver = driver()
        self._index = device.resolved_index
        self._kernel = kernel
        self._signature = dict(signature)
        self._options = (dict(constexprs), frozenset(divisible), num_warps, num_stages, enable_fp_fusion)
        self._blocks = [n for n, type_ in signature.items() if type_.startswith("*") and n not in elements]
        self._pointers = [i for i, name in enumerate(signature) if name in self._blocks]
        self._aligned: CompiledKernel | None = None
        self._other: CompiledKernel | None = None

    def _compile(self, aligned: bool) -> CompiledKernel:
        constexprs, divisible, num_warps, num_stages, fusion = self._options
        if aligned:
            divisible |= set(self._blocks)
        compiled = self._driver.compile(
            self._kernel,
            self._signature,
            constexprs,
            divisible=divisible,
            num_warps=num_warps,
            num_stages=num_stages,
            enable_fp_fusion=fusion,
        )
        if aligned:
            self._aligned = compiled
        else:
            self._other = compiled
        return compiled

    def __call__(self, grid: Grid, *values: int | float) -> None:
        """Enqueue on the device's current stream; `values` in the order of the signature."""
        cuda, index = self._driver, self._index
        if cuda.current_device() != index:
            with device_guard(index):
                self(grid, *values)
            return
        bits = 0
        for i in self._pointers:
            bits |= values[i]  # type: ignore[operator]
        if bits % ALIGNMENT == 0:
            kernel = self._aligned or self._compile(True)
        else:
            kernel = self._other or self._compile(False)
        kernel.launch(grid, cuda.current_stream(index), *values)


def launch_nothing(*_: object) -> None:
    """The kernel of an output without elements."""


def interpreted() -> bool:
    """Whether kernels run in the interpreter, where a program costs far more than its elements."""
    return wants_interpreter()


def next_power_of_2(n: int) -> int:
    """The smallest power of two that is at least `n`, and at least 1."""
    return 1 << max(n - 1, 0).bit_length()


def cdiv(a: int, b: int) -> int:
    """a / b, rounded up."""
    return -(-a // b)


def integer_type(*values: int) -> str:
    """Triton's type for sizes, strides and offsets of at most these values."""
    return "i32" if all(abs(value) <= INT32_MAX for value in values) else "i64"
