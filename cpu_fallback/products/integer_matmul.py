"""Products of integer matrices, exact modulo 2^bits as C's are, by float64 BLAS.

NumPy has no BLAS for integers and multiplies them in a naive loop. A float64 product is exact as long as
every sum of products stays below 2^53; larger integers are cut into limbs whose products do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.float_errors import quietly
from ...runtime.parallel import parallel_for
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
    """Compute ``a @ b`` for integer arrays of one dtype, wrapping around like C; vectors and batches as `np.matmul`."""
    inner = a.shape[-1]
    if a.size * (b.shape[-1] if b.ndim > 1 else 1) <= SMALL:
        return np.matmul(a, b)
    if _largest(a) * _largest(b) * inner < EXACT:
        return np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64).astype(a.dtype)
    return _by_limbs(a, b)


EXACT_FLOAT32 = 1 << 24
"""Magnitude up to which every integer is a float32."""
WIDENED = 1 << 18
"""Elements of the right matrix that are widened at a time: a megabyte of float32."""
SHARED_FROM = 1 << 20
"""Multiplications from which another thread takes columns."""


def int_mm(call: StructuredCall) -> PlannedKernel:
    """Multiply 8-bit integers in int32 by float32 BLAS, over as many K elements at a time as keep sums exact."""
    product = blocked_product(call)

    def into(out: Any, x: Any, y: Any) -> None:
        def store(part: slice, total: Any) -> None:
            out[:, part] = total

        product(x, y, store)

    return PlannedKernel(into)


def scaled_int_mm(call: StructuredCall) -> PlannedKernel:
    """Multiply integer matrices, times a scale for each row and for each column, in float32."""
    product = blocked_product(call)

    @quietly
    def into(out: Any, x: Any, y: Any, scale_a: Any, scale_b: Any) -> None:
        def store(part: slice, total: Any) -> None:
            made = total.astype(np.float32)
            made *= scale_a[:, None]
            made *= scale_b[part]
            np.copyto(out[:, part], made, casting="unsafe")

        product(x, y, store)

    return PlannedKernel(into)


def requantized_int_mm(call: StructuredCall) -> PlannedKernel:
    """Multiply integer matrices, subtract each column's offset, and requantize to the nearest integers."""
    product = blocked_product(call)
    zero, least = np.float32(call.args["zero_point"]), np.float32(call.args["least"])

    @quietly
    def into(out: Any, x: Any, y: Any, offsets: Any, bias: Any, multiplier: Any) -> None:
        def store(part: slice, total: Any) -> None:
            total -= offsets[part]
            steps = total.astype(np.float32)
            if bias is not None:
                steps += bias[part]
            steps *= multiplier[part]
            np.rint(steps, out=steps)
            steps += zero
            np.copyto(out[:, part], np.fmax(np.fmin(steps, np.float32(255)), least), casting="unsafe")

        product(x, y, store)

    return PlannedKernel(into)


def blocked_product(call: StructuredCall) -> Callable[[Any, Any, Callable[[slice, Any], None]], None]:
    """``product(x, y, store)``, which calls ``store(columns, sums)`` for blocks of columns, on several threads."""
    left, right = call.args["self"], call.args["mat2"]
    (m, k), n = left.sizes, right.sizes[1]
    inner = EXACT_FLOAT32 // ((128 if left.dtype.is_signed else 255) * 128)
    columns = max(WIDENED // max(min(k, inner), 1), 16)

    def product(x: Any, y: Any, store: Callable[[slice, Any], None]) -> None:
        x = x.astype(np.float32)

        def work(first: int, last: int) -> None:
            for start in range(first * columns, min(last * columns, n), columns):
                part = slice(start, min(start + columns, n))
                total = np.dot(x[:, :inner], y[:inner, part].astype(np.float32)).astype(np.int32)
                for done in range(inner, k, inner):
                    wide = y[done : done + inner, part].astype(np.float32)
                    total += np.dot(x[:, done : done + inner], wide).astype(np.int32)
                store(part, total)

        blocks = -(-n // columns)
        parallel_for(0, blocks, 1 if m * n * k >= SHARED_FROM else blocks, work)

    return product


register_stub("_int_mm_stub", "cpu", int_mm)
register_stub("_scaled_int_mm_stub", "cpu", scaled_int_mm)
register_stub("_requantized_int_mm_stub", "cpu", requantized_int_mm)


def _largest(a: Any) -> int:
    """Return the largest magnitude."""
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
    """Split the two's complement of an integer array into unsigned limbs, as float64 arrays."""
    unsigned = a.astype(np.uint64)
    mask = np.uint64((1 << LIMB) - 1)
    return [((unsigned >> np.uint64(LIMB * i)) & mask).astype(np.float64) for i in range(count)]
