"""The way from a planned operator to a launch: a kernel for one signature, on one device.

Whatever depends on specs alone is decided when the launch is planned. At the call only addresses are looked
at: where all of them are multiples of 16 the variant with 128-bit accesses runs.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from types import CodeType, FunctionType
from typing import Any

from ..dispatch.structured.choices import listeners
from ..runtime.cuda.device_guard import device_guard
from ..runtime.cuda.driver import Grid, compiler_options, driver, wants_interpreter
from ..runtime.cuda.tensor_map import DescribedTensor
from ..runtime.cuda.triton.compile import chosen_options
from ..runtime.cuda.triton.kernel_key import KernelRequest
from ..runtime.device import device as Device
from ..runtime.written_code import defined
from .budget import register_limit
from .programmatic import FOLLOWER, LEADER, MIN_CAPABILITY

ALIGNMENT = 16


class _Planned(threading.local):
    launches: list[Launch] | None = None


planned = _Planned()
"""The launches that this thread plans, if a caller collects them."""

INT32_MAX = 2**31 - 1


class Launch:
    """A kernel with its signature and constants; compiled at first use, for aligned and other addresses.

    Args:
        device: Device of the launch.
        kernel: a `@triton.jit` function.
        signature: types of the parameters given at launch, in the kernel's order.
        constexprs: all other parameters, except those of `programmatic.py`, which the device decides, and those that
            keep their defaults.
        divisible: integer parameters that are always multiples of 16.
        elements: pointers to one element only, whose alignment does not matter.
        tensors: what the tensor descriptors in the signature describe, in its order. Their values are addresses, which
            must be multiples of 16: whoever launches looks at them.
        num_warps, num_stages, num_ctas, enable_fp_fusion, enable_reflect_ftz: as `Driver.compile` has them.
    """

    __slots__ = (
        "_blocks",
        "_driver",
        "_follows",
        "_index",
        "_kernel",
        "_options",
        "_signature",
        "_tensors",
        "aligned",
        "enqueue",
        "other",
    )

    enqueue: Callable[..., None]
    """``launch`` itself as a function, for callers that launch often: a call of the object takes longer."""

    aligned: Callable[..., None]
    """Launches, as a `CompiledKernel` does, where every address is a multiple of 16; `other` takes any."""

    other: Callable[..., None]

    def __init__(
        self,
        device: Device,
        kernel: Any,
        signature: Mapping[str, str],
        constexprs: Mapping[str, object],
        *,
        divisible: Sequence[str] = (),
        elements: Sequence[str] = (),
        tensors: Sequence[DescribedTensor] = (),
        num_warps: int = 4,
        num_stages: int = 3,
        num_ctas: int = 1,
        enable_fp_fusion: bool = False,
        enable_reflect_ftz: bool = False,
    ) -> None:
        self._driver = driver()
        self._index = device.resolved_index
        self._kernel = kernel
        self._signature = dict(signature)
        self._tensors = tuple(tensors)
        rounding = (enable_fp_fusion, enable_reflect_ftz)
        overlapping = self._overlapping(signature, constexprs)
        constexprs = {**defaults_of(kernel), **constexprs, **overlapping}
        self._options = (constexprs, frozenset(divisible), (num_warps, num_stages, num_ctas), rounding)
        self._follows = overlapping.get(FOLLOWER, False)
        self._blocks = [n for n, type_ in signature.items() if type_.startswith("*") and n not in elements]
        self.aligned = self._compile_aligned
        self.other = self._compile_other
        if planned.launches is not None:
            planned.launches.append(self)
        if listeners:
            options = {**constexprs, "num_warps": num_warps, "num_stages": num_stages}
            if num_ctas > 1:
                options["num_ctas"] = num_ctas
            for listener in listeners:
                listener.on_launch_planned(kernel, options)
        pointers = tuple(i for i, name in enumerate(signature) if name in self._blocks)
        self.enqueue = FunctionType(
            enqueue_code(len(signature), pointers),
            {
                "__builtins__": {},
                "__name__": __name__,
                "elsewhere": self._elsewhere,
                "index": self._index,
                "kernels": self,
                "thread": self._driver.thread_state,
            },
        )

    def __call__(self, grid: Grid, *values: int | float) -> None:
        """Enqueue on the device's current stream; `values` in the order of the signature."""
        self.enqueue(grid, *values)

    def _elsewhere(self, grid: Grid, *values: int | float) -> None:
        with device_guard(self._index):
            self.enqueue(grid, *values)

    def _overlapping(self, signature: Mapping[str, str], constexprs: Mapping[str, object]) -> dict[str, bool]:
        """Return the constexprs that make a kernel overlap the launch before or after it, if it has them."""
        names = [
            name
            for name in (FOLLOWER, LEADER)
            if name in self._kernel.arg_names and name not in signature and name not in constexprs
        ]
        if not names:
            return {}
        capability = self._driver.properties(self._index).capability
        return dict.fromkeys(names, capability >= MIN_CAPABILITY and not interpreted())

    def request(self) -> KernelRequest:
        """Return the compile request for addresses that are multiples of 16."""
        divisible = self._options[1] | frozenset(self._blocks)
        options = chosen_options(compiler_options(**self._asked(divisible)))
        capability = self._driver.properties(self._index).capability
        return KernelRequest(self._kernel, self._signature, self._options[0], divisible, capability, options)

    def _asked(self, divisible: frozenset[str]) -> dict[str, Any]:
        """Return the driver's compile options for the kernel."""
        constexprs, _, (num_warps, num_stages, num_ctas), (fusion, flushes) = self._options
        capability = self._driver.properties(self._index).capability
        registers = register_limit(
            self._kernel, self._signature, constexprs, divisible, num_warps, num_stages, capability, num_ctas
        )
        return {
            "num_warps": num_warps,
            "num_stages": num_stages,
            "enable_fp_fusion": fusion,
            "enable_reflect_ftz": flushes,
            "launch_pdl": self._follows,
            "maxnreg": registers,
            "num_ctas": num_ctas,
        }

    def _compile(self, divisible: frozenset[str]) -> Callable[..., None]:
        compiled = self._driver.compile(
            self._kernel, self._signature, self._options[0], divisible=divisible, **self._asked(divisible)
        )
        return compiled.bound(self._tensors) if self._tensors else compiled.launch

    def _compile_aligned(self, grid: Grid, stream: int, *values: int | float) -> None:
        self.aligned = self._compile(self._options[1] | frozenset(self._blocks))
        self.aligned(grid, stream, *values)

    def _compile_other(self, grid: Grid, stream: int, *values: int | float) -> None:
        self.other = self._compile(self._options[1])
        self.other(grid, stream, *values)


def defaults_of(kernel: Any) -> dict[str, object]:
    """Return the default values of a kernel's parameters, by name."""
    defaults = kernel.fn.__defaults__ or ()
    return dict(zip(kernel.arg_names[len(kernel.arg_names) - len(defaults) :], defaults, strict=True))


@functools.lru_cache(maxsize=512)
def enqueue_code(count: int, pointers: tuple[int, ...]) -> CodeType:
    """Return the code of `enqueue(grid, value0, ...)` for this many values; its globals come with the launch.

    Specialized code for each arity makes no tuple and no loop. Both the current device and the current stream
    are in the thread's own dictionary, so one lookup of thread-local storage serves both.
    """
    names = [f"value{i}" for i in range(count)]
    values = "".join(f", {name}" for name in names)
    bits = " | ".join(names[i] for i in pointers) or "0"
    source = f"""
def enqueue(grid{values}):
    own = thread.__dict__
    if own["device"] != index:
        return elsewhere(grid{values})
    launch = kernels.other if ({bits}) % {ALIGNMENT} else kernels.aligned
    launch(grid, own["streams"].get(index, 0){values})
"""
    code: CodeType = defined("enqueue", source, "launch of a plan", {}).__code__
    return code


def launch_nothing(*_: object) -> None:
    """Do nothing: the kernel of an output without elements."""


def interpreted() -> bool:
    """Return True if kernels run in the interpreter, where a program costs far more than its elements."""
    return wants_interpreter()


def next_power_of_2(n: int) -> int:
    """Return the smallest power of two that is at least `n`, and at least 1."""
    return 1 << max(n - 1, 0).bit_length()


def cdiv(a: int, b: int) -> int:
    """Compute a / b, rounded up."""
    return -(-a // b)


def integer_type(*values: int) -> str:
    """Return Triton's type for sizes, strides and offsets of at most these values."""
    return "i32" if all(abs(value) <= INT32_MAX for value in values) else "i64"
