"""Products of integer matrices, exact modulo 2^bits as C's are, by float64 BLAS.

NumPy has no BLAS for integers and multiplies them in a naive loop. A float64 product is exact as long as
every sum of products stays below 2^53; larger integers are cut into limbs whose products do.
"""

from __future__ import annotations

from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ..plain_numpy import np

EXACT = 1 << 53
"""Below this every integer is a float64."""
SMALL = 4096
"""Multiplications up to which NumPy's own loop is quicker than conversions and BLAS."""
LIMB = 22
"""Bits of a limb: three hold an int64."""
INNER = 1 << 9
"""Inner dimension of one exact product of limbs: 2 * LIMB + 9 is 53."""


def integer_matmul(a: Any, b: Any) -> Any:
    """``a @ b`` for integer arrays of one dtype, wrapping around like C; vectors and batches as `np.matmul`."""
    inner = a.shape[-1]
    if a.size * (b.shape[-1] if b.ndim > 1 else 1) <= SMALL:
        return np.matmul(a, b)
    if _largest(a) * _largest(b) * inner < EXACT:
        return np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64).astype(a.dtype)
    return _by_limbs(a, b)


NARROW_INNER = 1 << 9
"""Inner dimension up to which sums of products of 8 bits are float32, 24 bits of mantissa."""


def int_mm(call: StructuredCall) -> PlannedKernel:
    """8-bit integers multiplied in int32, by BLAS in the narrowest floats whose sums are exact."""
    wide = np.float32 if call.args["self"].sizes[1] <= NARROW_INNER else np.float64

    def into(out: Any, x: Any, y: Any) -> None:
        np.copyto(out, np.matmul(x.astype(wide), y.astype(wide)).astype(np.int64), casting="unsafe")

    return PlannedKernel(into)


register_stub("_int_mm_stub", "cpu", int_mm)


def _largest(a: Any) -> int:
    """The largest magnitude."""
    return max(int(a.max()), -int(a.min())) if a.size else 0


def _by_limbs(a: Any, b: Any) -> Any:
    bits = 8 * a.dtype.itemsize
    count = -(-bits // LIMB)
    lefts, rights = _limbs(a, count), _limbs(b, count)
    axis = -1 if b.ndim == 1 else -2
    total: Any = np.uint64(0)
    for start in range(0, a.shape[-1], INNER):
        part = slice(start, start + INNER)
        cut = (..., part) if axis == -1 else (..., part, slice(None))
        for i, left in enumerate(lefts):
            for j, right in enumerate(rights[: count - i]):
                product = np.matmul(left[..., part], right[cut]).astype(np.int64).view(np.uint64)
                total = total + (product << np.uint64(LIMB * (i + j)))
    return total.astype(a.dtype)


def _limbs(a: Any, count: int) -> list[Any]:
    """The two's complement of an integer array, cut into unsigned limbs, as float64 arrays."""
    unsigned = a.astype(np.uint64)
    mask = np.uint64((1 << LIMB) - 1)
    return [((unsigned >> np.uint64(LIMB * i)) & mask).astype(np.float64) for i in range(count)]
