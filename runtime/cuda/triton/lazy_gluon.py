"""Gluon, Triton's dialect with explicit layouts, copies and waits, for kernel modules.

A kernel's author follows Gluon's documentation, with names from this module, as with `lazy_triton`::

    from ...runtime.cuda.triton.lazy_gluon import gl, gluon, hopper

    @gluon.jit
    def double(x, out, n, BLOCK: gl.constexpr): ...

Gluon's functions were renamed between versions; kernels here use the names of `OLDEST`. Triton's interpreter has no
Gluon (`Driver.has_gluon`), and a Gluon kernel is written for one GPU architecture. Each Gluon kernel therefore has
a counterpart in Triton's own language.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .kernel_key import triton_identity
from .lazy_kernel import GLUON
from .lazy_triton import TYPES, StandIn, constexpr, dtype, jit_as

__all__ = [
    "OLDEST",
    "blackwell",
    "gl",
    "gluon",
    "hopper",
    "is_supported",
    "is_triton_from",
    "shared_descriptor",
]

OLDEST = (3, 9)
"""Oldest Triton whose Gluon has the names that kernels use."""


def is_supported() -> bool:
    """Return True if the installed Triton has the Gluon of `OLDEST`; do not import it.

    Example:
        >>> from triten.runtime.cuda.triton.lazy_gluon import is_supported
        >>> is_supported() in (True, False)
        True
    """
    return is_triton_from(OLDEST)


def is_triton_from(oldest: tuple[int, int]) -> bool:
    """Return True if the installed Triton is of a version or a later one; do not import it."""
    identity = triton_identity()
    match = None if identity is None else re.match(r"(\d+)\.(\d+)", identity[0])
    return match is not None and (int(match[1]), int(match[2])) >= oldest


def shared_descriptor(element: str, *block: int) -> str:
    """Return a signature's type of a tensor descriptor for a Gluon kernel, with swizzled blocks in shared memory.

    Args:
        element: Triton's name of a float type.
        block: Sizes of the block. The last dimension has 32 or 64 bytes, or a multiple of 128.

    Example:
        >>> from triten.runtime.cuda.triton.lazy_gluon import shared_descriptor
        >>> shared_descriptor("bf16", 64, 128)
        'tensordesc<bf16[64, 128],NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)>'
    """
    bits = int(re.sub(r"\D*(\d+).*", r"\1", element))
    swizzle = min(128, block[-1] * bits // 8)
    layout = f"NVMMASharedLayout(swizzle_byte_width={swizzle}, element_bitwidth={bits}, rank={len(block)})"
    return f"tensordesc<{element}[{', '.join(map(str, block))}],{layout}>"


def jit(fn: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Return a lazy kernel with the options of `triton.experimental.gluon.jit`; import nothing."""
    return jit_as(GLUON, fn, options)


if TYPE_CHECKING:
    from triton.experimental import gluon
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.language.nvidia import blackwell, hopper
else:
    gluon = StandIn("triton.experimental.gluon", {"jit": jit})
    gl = StandIn("triton.experimental.gluon.language", {"constexpr": constexpr, "dtype": dtype, **TYPES})
    hopper = StandIn("triton.experimental.gluon.language.nvidia.hopper", {})
    blackwell = StandIn("triton.experimental.gluon.language.nvidia.blackwell", {})
    gluon.language = gl
