"""`tt.library`: operators of your own (`torch.library`).

`custom_op` makes a Python function an operator, `opcheck` tests one. `cpu_kernel` and `gpu_kernel` compute pointwise
operators from a function of elements; `launch` and `wrap_triton` run a Triton kernel of your own over tensors.
A backend of another package (see `tt.utils`) brings an `Allocator`, kernels (`register_stub`, `Library.impl`), a
`DeviceGuardImpl`, and takes `cpu_fallback` for the rest.
`check` refuses a caller's mistake, `internal_assert` finds one of the library's own.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .dispatch.core.library import Library, fallthrough_kernel
from .dispatch.iterator.loops import cpu_kernel
from .dispatch.schema import infer_schema
from .dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from .runtime.allocator import Allocator, get_allocator, set_allocator
from .runtime.data_ptr import DataPtr
from .runtime.device_guard import DeviceGuard, DeviceGuardImpl, register_device_guard
from .runtime.errors import InternalAssertError, check, internal_assert, internal_assert_debug_only
from .runtime.lazy_import import lazy_names

if TYPE_CHECKING:
    from .dispatch.custom_ops.boxed_fallback import cpu_fallback
    from .dispatch.custom_ops.custom_op import CustomOpDef, custom_op, triton_op
    from .dispatch.custom_ops.fake_context import get_ctx
    from .dispatch.custom_ops.from_blob import from_blob
    from .dispatch.custom_ops.opcheck import OpCheckError, opcheck
    from .dispatch.custom_ops.pointwise_kernels import gpu_kernel, wrap_kernel
    from .dispatch.custom_ops.registration import (
        define,
        impl,
        impl_abstract,
        register_autocast,
        register_autograd,
        register_fake,
        register_kernel,
        register_tensor_dispatch,
        register_vmap,
    )
    from .runtime.cuda.driver import driver as driver
    from .runtime.custom_dtype import register_dtype

__all__ = [
    "Allocator",
    "CustomOpDef",
    "DataPtr",
    "DeviceGuard",
    "DeviceGuardImpl",
    "InternalAssertError",
    "Library",
    "OpCheckError",
    "PlannedKernel",
    "StructuredCall",
    "check",
    "cpu_fallback",
    "cpu_kernel",
    "custom_op",
    "define",
    "fallthrough_kernel",
    "from_blob",
    "get_allocator",
    "get_ctx",
    "gpu_kernel",
    "impl",
    "impl_abstract",
    "infer_schema",
    "internal_assert",
    "internal_assert_debug_only",
    "launch",
    "opcheck",
    "register_autocast",
    "register_autograd",
    "register_device_guard",
    "register_dtype",
    "register_fake",
    "register_kernel",
    "register_stub",
    "register_tensor_dispatch",
    "register_vmap",
    "set_allocator",
    "triton_op",
    "use_triton_driver",
    "wrap_kernel",
    "wrap_triton",
]

_AT_FIRST_USE = {
    ".dispatch.custom_ops.boxed_fallback": "cpu_fallback",
    ".dispatch.custom_ops.custom_op": "CustomOpDef custom_op triton_op",
    ".dispatch.custom_ops.fake_context": "get_ctx",
    ".dispatch.custom_ops.from_blob": "from_blob",
    ".dispatch.custom_ops.opcheck": "OpCheckError opcheck",
    ".dispatch.custom_ops.pointwise_kernels": "gpu_kernel wrap_kernel",
    ".dispatch.custom_ops.registration": (
        "define impl impl_abstract register_autocast register_autograd register_fake register_kernel "
        "register_tensor_dispatch register_vmap"
    ),
    ".runtime.cuda.driver": "driver",
    ".runtime.custom_dtype": "register_dtype",
}
"""The names of each module that is imported with their first use."""

__getattr__, __dir__, _ = lazy_names(__name__, _AT_FIRST_USE)


Grid = Sequence[int] | Callable[[Mapping[str, Any]], Sequence[int]]


def launch(kernel: Any, grid: Grid, *args: Any, **kwargs: Any) -> None:
    """Enqueue a Triton kernel of your own on the current stream of its tensors' device.

    On a machine without a GPU the same call runs in Triton's interpreter (``TRITEN_CUDA=interpret``)::

        @triton.jit
        def add_one(x, out, n, BLOCK: tl.constexpr):
            i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            tl.store(out + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)

        @mine.register_kernel("cuda")
        def _(x):
            out = tt.empty_like(x)
            tt.library.launch(add_one, (triton.cdiv(x.numel(), 1024),), x, out, x.numel(), BLOCK=1024)
            return out

    Numbers are specialized as in Triton: the int 1 becomes a constant, and divisibility by 16 is known to the
    compiler. Floats are passed as fp32, unless the parameter is annotated.

    Args:
        kernel: A `@triton.jit` function. Autotuned kernels are refused: launch one of their configurations.
        grid: One to three sizes, or a function that returns them from a dict of the arguments.
        args, kwargs: The kernel's arguments (tensors for pointers, numbers, None, constexprs), and the options
            `num_warps` (4), `num_stages` (3), `enable_fp_fusion` (True).

    Raises:
        RuntimeError: The tensors are not on a CUDA device, or on several.
        TypeError: `kernel`, `grid` or an argument has an unsupported type.
    """
    from .runtime.cuda.driver import driver

    driver()  # chooses between a GPU and the interpreter, before Triton is imported
    from .dispatch.custom_ops.triton_launch import launch_or_dispatch

    launch_or_dispatch(kernel, grid, args, kwargs, _enqueue)


def _enqueue(kernel: Any, grid: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    from .triton_kernels.user_kernel import launch

    launch(kernel, grid, *args, **kwargs)


class wrap_triton:
    """A Triton kernel whose launches graphs and modes can see (`torch.library.wrap_triton`).

    ``wrap_triton(kernel)[grid](*args)`` launches like `launch`. While a function is traced, and under a dispatch mode,
    it calls ``higher_order::triton_kernel_wrapper_mutation``, an operator whose arguments are the launch's tensors and
    integers. `tt.compile` captures ``kernel[grid](*args)`` without this wrapper, too.

    Args:
        kernel: A `@triton.jit` function, or one under `@triton.autotune` or `@triton.heuristics`.
    """

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel

    def __getitem__(self, grid: Grid) -> Callable[..., None]:
        kernel = self.kernel

        def enqueue(*args: Any, **kwargs: Any) -> None:
            if not hasattr(getattr(kernel, "fn", None), "fn"):
                return launch(kernel, grid, *args, **kwargs)
            from .dispatch.custom_ops.triton_launch import launch_kernel, launch_or_dispatch

            launch_or_dispatch(kernel, grid, args, kwargs, launch_kernel)

        return enqueue


class use_triton_driver:
    """Switch that runs kernels in Triton's notation, ``kernel[grid](x, n, BLOCK=1024)``, on triten's streams.

    A process that has not imported PyTorch uses triten's driver by default. If PyTorch uses Triton too, its driver
    serves the process. A kernel then runs on PyTorch's current stream, of which triten's operators know nothing. This
    class selects triten's driver, for all threads, until the next call, or as a context until its end::

        with tt.library.use_triton_driver():
            kernel[grid](x, y, n, BLOCK=1024)

    Args:
        enabled: If False, return the choice to Triton. Default: True.

    Raises:
        RuntimeError: There is no CUDA device.
    """

    def __init__(self, enabled: bool = True) -> None:
        from .runtime.cuda.driver import driver

        cuda_driver = driver()
        # Triton's import may want `triton_driver` too, which must not be half imported then.
        importlib.import_module("triton")
        from .runtime.cuda.triton import triton_driver

        self._restore = triton_driver.restore
        self._previous = triton_driver.active()
        if enabled:
            triton_driver.install(cuda_driver, automatic=False)
        else:
            triton_driver.restore(None)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        self._restore(self._previous)
