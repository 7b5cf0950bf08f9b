"""`tt.library`: operators of your own (`torch.library`).

`custom_op` makes a Python function an operator, `opcheck` tests one. `cpu_kernel` and `gpu_kernel` compute pointwise
operators from a function of elements; `launch` and `wrap_triton` run a Triton kernel of your own over tensors.
`check` refuses a caller's mistake, `internal_assert` finds one of the library's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .dispatch.core.library import Library, fallthrough_kernel
from .dispatch.custom_ops.custom_op import CustomOpDef, custom_op
from .dispatch.custom_ops.fake_context import get_ctx
from .dispatch.custom_ops.opcheck import OpCheckError, opcheck
from .dispatch.custom_ops.pointwise_kernels import gpu_kernel, wrap_kernel
from .dispatch.custom_ops.registration import (
    define,
    impl,
    register_autograd,
    register_fake,
    register_kernel,
    register_vmap,
)
from .dispatch.iterator.loops import cpu_kernel
from .dispatch.schema import infer_schema
from .runtime.cuda.driver import driver
from .runtime.errors import InternalAssertError, check, internal_assert, internal_assert_debug_only

__all__ = [
    "CustomOpDef",
    "InternalAssertError",
    "Library",
    "OpCheckError",
    "check",
    "cpu_kernel",
    "custom_op",
    "define",
    "fallthrough_kernel",
    "get_ctx",
    "gpu_kernel",
    "impl",
    "infer_schema",
    "internal_assert",
    "internal_assert_debug_only",
    "launch",
    "opcheck",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_vmap",
    "wrap_kernel",
    "wrap_triton",
]

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

    Numbers are specialised as Triton does it: an int that is 1 becomes a constant, one that 16 divides is known to be
    such; floats are passed as fp32, unless the parameter is annotated.

    Args:
        kernel: a `@triton.jit` function. One that is autotuned is refused: launch a configuration of it.
        grid: one to three sizes, or a function from the arguments by name to them.
        args, kwargs: the kernel's arguments: tensors for pointers, numbers, None, constants; and the options
            `num_warps` (4), `num_stages` (3), `enable_fp_fusion` (True).

    Raises:
        RuntimeError: for tensors that are not on a CUDA device, or on several.
        TypeError: for what is no kernel, no grid, or no argument that a kernel can take.
    """
    driver()  # chooses between a GPU and the interpreter, before Triton is imported
    from .triton_kernels.user_kernel import launch as enqueue

    enqueue(kernel, grid, *args, **kwargs)


class wrap_triton:
    """A Triton kernel in Triton's own notation, ``wrap_triton(kernel)[grid](*args)`` (`torch.library.wrap_triton`).

    The same as `launch`.
    """

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel

    def __getitem__(self, grid: Grid) -> Callable[..., None]:
        def enqueue(*args: Any, **kwargs: Any) -> None:
            launch(self.kernel, grid, *args, **kwargs)

        return enqueue
