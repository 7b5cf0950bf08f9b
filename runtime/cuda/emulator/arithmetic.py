"""Arithmetic instructions of PTX over NumPy arrays that have an element for each thread.

Rounding, subnormals and NaN follow the PTX ISA. NaN results of floating-point arithmetic have one canonical form.
Minimum and maximum order -0.0 before 0.0. Integers wrap, and shifts beyond the width give zero or the sign.
Conversions to integers clamp, and convert NaN to zero.

Approximate instructions are as inaccurate as their documented bound allows. Their exact result is moved by a fraction
of the bound that depends on the operand alone, so that code that relies on more accuracy fails.

Source: NVIDIA, PTX ISA 8.8, chapters "Integer Arithmetic Instructions" to "Data Movement and Conversion
Instructions".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]

u1, u2, u4, u8 = np.uint8, np.uint16, np.uint32, np.uint64
i1, i2, i4, i8 = np.int8, np.int16, np.int32, np.int64
f2, f4, f8 = np.float16, np.float32, np.float64
bf2 = ml_dtypes.bfloat16

UNSIGNED: dict[int, Any] = {8: u1, 16: u2, 32: u4, 64: u8}
SIGNED: dict[int, Any] = {8: i1, 16: i2, 32: i4, 64: i8}
FLOATING: dict[int, Any] = {16: f2, 32: f4, 64: f8}
CANONICAL: dict[Any, Any] = {
    f2: u2(0x7FFF).view(f2),
    bf2: u2(0x7FFF).view(bf2),
    f4: u4(0x7FFFFFFF).view(f4),
    f8: u8(0x7FF8000000000000).view(f8),
}
"""Canonical NaN of arithmetic results; in double precision, a GPU keeps the NaN of an operand."""
TWO_TO_THE_28_PLUS_1 = f8(2**27 + 1)


def canonical(value: Any) -> Any:
    """Return a floating-point result with every NaN in the canonical form."""
    nan = value != value
    return np.where(nan, CANONICAL[value.dtype.type], value) if nan.any() else value


def flushed(value: Any) -> Any:
    """Flush subnormal numbers of single precision to zero, keeping the sign (``.ftz``)."""
    bits = value.view(u4)
    tiny = (bits & u4(0x7F800000)) == 0
    return np.where(tiny, bits & u4(0x80000000), bits).view(f4) if np.any(tiny) else value


def saturated(value: Any) -> Any:
    """Clamp a floating-point number to [0, 1], and NaN to 0 (``.sat``)."""
    upper = value.dtype.type(1)
    return np.where(value > 0, np.minimum(value, upper), value.dtype.type(0))


# Floating point with directed rounding


def _two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """Return the sum in double precision and its rounding error (Knuth)."""
    total = a + b
    other = total - a
    return total, (a - (total - other)) + (b - other)


def _two_product(a: Any, b: Any) -> tuple[Any, Any]:
    """Return the product in double precision and its rounding error (Dekker)."""
    product = a * b
    a_high = a * TWO_TO_THE_28_PLUS_1
    a_high = a_high - (a_high - a)
    b_high = b * TWO_TO_THE_28_PLUS_1
    b_high = b_high - (b_high - b)
    a_low, b_low = a - a_high, b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _to_odd(value: Any, error: Any) -> Any:
    """Return ``value + error`` rounded to odd, so that a second rounding gives the exact result's rounding."""
    bits = np.asarray(value).view(i8)
    away = (error > 0) == (value > 0)
    wrong = (error != 0) & (bits & 1 == 0) & np.isfinite(value)
    return np.where(wrong, bits + np.where(away, 1, -1), bits).view(f8)


def _narrow(value: Any, error: Any, rounding: str) -> Any:
    """Round ``value + error`` to single precision: ``rn``, ``rz``, ``rm`` or ``rp``."""
    if rounding == "rn":
        bits = np.asarray(value).view(u8)
        # A second rounding is wrong only halfway between two numbers, or among subnormals.
        doubtful = ((bits & u8(0x1FFFFFFF)) == 0x10000000) | (
            (bits & u8(0x7FF0000000000000)) < u8(0x3820000000000000)
        )
        if np.any(doubtful):
            value = np.where(doubtful, _to_odd(value, error), value)
        return value.astype(f4)
    near = value.astype(f4)
    over = (near > value) | ((near == value) & (error < 0))
    under = (near < value) | ((near == value) & (error > 0))
    if rounding == "rz":
        over, under = over & (value > 0), under & (value < 0)
    down = over if rounding != "rp" else np.zeros_like(over)
    up = under if rounding != "rm" else np.zeros_like(under)
    moved = np.where(
        down, np.nextafter(near, f4(-np.inf)), np.where(up, np.nextafter(near, f4(np.inf)), near)
    )
    return np.where(np.isfinite(value), moved, near)


def add(a: Any, b: Any, rounding: str = "rn") -> Any:
    """Return a sum; callers subtract by negating the second operand."""
    if rounding == "rn":
        return canonical(a + b)
    total, error = _two_sum(a.astype(f8), b.astype(f8))
    return canonical(_narrow(total, error, rounding))


def multiply(a: Any, b: Any, rounding: str = "rn") -> Any:
    """Return a product."""
    if rounding == "rn":
        return canonical(a * b)
    return canonical(_narrow(a.astype(f8) * b.astype(f8), f8(0), rounding))


def divide(a: Any, b: Any, rounding: str) -> Any:
    """Return the quotient of two single-precision floats, with a directed rounding.

    Example:
        >>> one, three = np.float32(1), np.float32(3)
        >>> float(divide(one, three, "rp") - divide(one, three, "rz")) == 2.0**-25
        True
    """
    dividend, divisor = a.astype(f8), b.astype(f8)
    quotient = dividend / divisor
    product, lost = _two_product(quotient, divisor)
    return canonical(_narrow(quotient, ((dividend - product) - lost) / divisor, rounding))


def fma(a: Any, b: Any, c: Any, rounding: str = "rn") -> Any:
    """Return ``a * b + c``, rounded once.

    In double precision the sum of three parts is rounded twice in rare cases, and may then be the adjacent number.

    Example:
        >>> tiny = np.float32(2.0**-12)
        >>> float(fma(1 + tiny, 1 + tiny, np.float32(-1))) == 2.0**-11 + 2.0**-24
        True
    """
    kind = a.dtype.type
    if kind is f8:
        product, lost = _two_product(a, b)
        total, error = _two_sum(product, c)
        rounded = total + (error + lost)
        plain = np.where(np.isinf(c) & np.isfinite(a) & np.isfinite(b), c, a * b + c)
        return canonical(np.where(np.isfinite(rounded), rounded, plain))
    wide = a.astype(f8) * b.astype(f8)  # exact for single precision and below
    total, error = _two_sum(wide, c.astype(f8))
    if kind is f4:
        return canonical(_narrow(total, error, rounding))
    odd = _to_odd(total, error)
    return canonical(_to_bfloat16(odd) if kind is bf2 else odd.astype(kind))


def minimum(a: Any, b: Any, with_nan: bool = False) -> Any:
    """Return the minimum; ignore NaN unless `with_nan`; -0.0 is less than 0.0."""
    return _extreme(a, b, with_nan, np.less, np.bitwise_or)


def maximum(a: Any, b: Any, with_nan: bool = False) -> Any:
    """Return the maximum; ignore NaN unless `with_nan`; 0.0 is greater than -0.0."""
    return _extreme(a, b, with_nan, np.greater, np.bitwise_and)


def with_sign(magnitude: Any, a: Any, b: Any) -> Any:
    """Return a magnitude with the sign of ``a * b`` (``.xorsign.abs``); NaN is unchanged."""
    bits = UNSIGNED[8 * a.dtype.itemsize]
    sign = (a.view(bits) ^ b.view(bits)) & bits(1 << (8 * a.dtype.itemsize - 1))
    return np.where(magnitude != magnitude, magnitude, (magnitude.view(bits) | sign).view(a.dtype))


def _extreme(a: Any, b: Any, with_nan: bool, before: Callable[..., Any], of_zeros: Callable[..., Any]) -> Any:
    kind = a.dtype.type
    if a.dtype.kind in "iu":
        return np.where(before(a, b), a, b)
    bits = UNSIGNED[8 * a.dtype.itemsize]
    result = np.where(before(a, b), a, b)
    result = np.where(a == b, of_zeros(a.view(bits), b.view(bits)).view(kind), result)
    no_a, no_b = a != a, b != b
    if np.any(no_a) or np.any(no_b):
        if with_nan:
            return np.where(no_a | no_b, CANONICAL[kind], result)
        result = np.where(no_a, b, np.where(no_b, a, result))
        return np.where(no_a & no_b, CANONICAL[kind], result)
    return result


# Approximations


def _spread(value: Any) -> Any:
    """Return a number in [-1, 1] that depends on the bits of each element (the finalizer of MurmurHash3)."""
    bits = value.view(UNSIGNED[8 * value.dtype.itemsize]).astype(u8)
    bits = (bits ^ (bits >> u8(33))) * u8(0xFF51AFD7ED558CCD)
    bits = (bits ^ (bits >> u8(33))) * u8(0xC4CEB9FE1A85EC53)
    return (bits >> u8(11)).astype(f8) * f8(2.0**-52) - f8(1)


def _approximately(x: Any, exact: Any, relative: float = 0.0, absolute: float = 0.0) -> Any:
    """Return an exact double-precision result in single precision, with an error of at most a bound.

    Zeros and powers of two stay exact, as on every GPU.
    """
    mantissa, _ = np.frexp(exact)
    plain = (np.abs(mantissa) == 0.5) | (exact == 0) | ~np.isfinite(exact)
    moved = exact + _spread(x) * (np.abs(exact) * relative + absolute)
    return canonical(np.where(plain, exact, moved).astype(f4))


def exp2_approximate(x: Any) -> Any:
    """Compute ``ex2.approx``: relative error below 2**-22.5."""
    return _approximately(x, np.exp2(x.astype(f8)), relative=2.0**-22.5)


def log2_approximate(x: Any) -> Any:
    """Compute ``lg2.approx``: absolute error below 2**-22 for operands in (0.5, 2), relative below 2**-22 elsewhere."""
    exact = np.log2(x.astype(f8))
    near = (x > f4(0.5)) & (x < f4(2))
    return np.where(
        near,
        _approximately(x, exact, absolute=2.0**-22.6),
        _approximately(x, exact, relative=2.0**-22.6),
    )


def reciprocal_approximate(x: Any) -> Any:
    """Compute ``rcp.approx``: one unit in the last place; in double precision 20 bits, the low half zero."""
    if x.dtype.type is f8:
        return _high_half(x, lambda x: f8(1) / x)
    return _approximately(x, f8(1) / x.astype(f8), relative=2.0**-24)


def _high_half(x: Any, function: Callable[[Any], Any]) -> Any:
    """Compute the ``approx.ftz.f64`` form of a function: subnormal operands are zero, the result has 20 bits."""
    tiny = np.abs(x) < f8(2.0**-1022)
    exact = function(np.where(tiny, np.copysign(f8(0), x), x))
    bits = (exact * (1 + _spread(x) * 2.0**-21)).view(u8) & u8(0xFFFFFFFF00000000)
    return canonical(np.where(np.isfinite(exact) & (exact != 0), bits.view(f8), exact))


def divide_approximate(a: Any, b: Any, full: bool = False) -> Any:
    """Compute ``div.approx`` or ``div.full`` to two units in the last place; the former is 0 for b above 2**126."""
    result = _approximately(a, a.astype(f8) / b.astype(f8), relative=2.0**-23)
    if full:
        return result
    great = (np.abs(b) > f4(2.0**126)) & np.isfinite(b)
    return np.where(great, np.where(np.isinf(a), CANONICAL[f4], np.copysign(f4(0), a * np.sign(b))), result)


def root_approximate(x: Any) -> Any:
    """Compute ``sqrt.approx``: relative error below 2**-23."""
    return _approximately(x, np.sqrt(x.astype(f8)), relative=2.0**-23.5)


def reciprocal_root_approximate(x: Any, flush: bool = False) -> Any:
    """Compute ``rsqrt.approx``: relative error below 2**-22.9.

    The assembler expands ``rsqrt.approx.f64`` to Newton steps, with an error of one unit in the last place (CUDA C++
    Programming Guide, ``rsqrt``). With `flush`, ``rsqrt.approx.ftz.f64`` has 20 bits, and the low half is zero.
    """
    if x.dtype.type is f8:
        return _high_half(x, _reciprocal_root) if flush else canonical(_reciprocal_root(x))
    return _approximately(x, f8(1) / np.sqrt(x.astype(f8)), relative=2.0**-23.4)


def _reciprocal_root(x: Any) -> Any:
    return f8(1) / np.sqrt(x)


def sine_approximate(x: Any) -> Any:
    """Compute ``sin.approx``: absolute error below 2**-20.5 in [-pi, pi]; growing with the operand beyond."""
    return _approximately(x, np.sin(x.astype(f8)), absolute=2.0**-21)


def cosine_approximate(x: Any) -> Any:
    """Compute ``cos.approx``: absolute error below 2**-20.5 in [-pi, pi]; growing with the operand beyond."""
    return _approximately(x, np.cos(x.astype(f8)), absolute=2.0**-21)


def tanh_approximate(x: Any) -> Any:
    """Compute ``tanh.approx``: relative error below 2**-11."""
    return _approximately(x, np.tanh(x.astype(f8)), relative=2.0**-11.5)


# Integers


def quotient(a: Any, b: Any) -> Any:
    """Divide towards zero; set all bits for a zero divisor, as GPUs do."""
    kind = a.dtype.type
    safe = np.where(b == 0, kind(1), b)
    if a.dtype.kind == "u":
        result = a // safe
    else:
        # The minimum integer divided by -1 wraps.
        result = np.where(safe == -1, kind(0) - a, _truncated(a, np.where(safe == -1, kind(1), safe)))
    return np.where(b == 0, kind(0) - kind(1) if a.dtype.kind == "u" else kind(-1), result)


def _truncated(a: Any, b: Any) -> Any:
    floored = a // b
    return floored + ((floored * b != a) & ((a < 0) != (b < 0))).astype(a.dtype)


def remainder(a: Any, b: Any) -> Any:
    """Return the remainder of division towards zero; return the dividend for a zero divisor."""
    safe = np.where(b == 0, a.dtype.type(1), b)
    return np.where(b == 0, a, a - quotient(a, safe) * safe)


def high_product(a: Any, b: Any) -> Any:
    """Return the upper half of a product."""
    bits = 8 * a.dtype.itemsize
    if bits < 64:
        wide = (SIGNED if a.dtype.kind == "i" else UNSIGNED)[2 * bits]
        return ((a.astype(wide) * b.astype(wide)) >> wide(bits)).astype(a.dtype)
    mask, half = u8(0xFFFFFFFF), u8(32)
    x, y = a.view(u8), b.view(u8)
    low = (x & mask) * (y & mask)
    cross = (x >> half) * (y & mask) + (low >> half)
    other = (x & mask) * (y >> half) + (cross & mask)
    high = (x >> half) * (y >> half) + (cross >> half) + (other >> half)
    if a.dtype.kind == "i":
        high = high - np.where(a < 0, y, u8(0)) - np.where(b < 0, x, u8(0))
    return high.view(a.dtype)


def wide_product(a: Any, b: Any) -> Any:
    """Return a product of twice the width."""
    wide = (SIGNED if a.dtype.kind == "i" else UNSIGNED)[16 * a.dtype.itemsize]
    return a.astype(wide) * b.astype(wide)


def shift_left(a: Any, count: Any) -> Any:
    """Shift bits left; the result is zero if the count reaches the width."""
    width = 8 * a.dtype.itemsize
    shift = np.minimum(count, u4(width - 1)).astype(a.dtype)
    return np.where(count >= width, a.dtype.type(0), a << shift)


def shift_right(a: Any, count: Any) -> Any:
    """Shift bits right, filling with zeros, or with the sign of a signed number."""
    width = 8 * a.dtype.itemsize
    shift = np.minimum(count, u4(width - 1)).astype(a.dtype)
    return a >> shift if a.dtype.kind == "i" else np.where(count >= width, a.dtype.type(0), a >> shift)


def funnel_left(low: Any, high: Any, count: Any, wraps: bool) -> Any:
    """Return the upper word of two words shifted left (``shf.l``)."""
    shift = (count & u4(31)) if wraps else np.minimum(count, u4(32))
    both = (high.astype(u8) << u8(32)) | low
    return ((both << shift.astype(u8)) >> u8(32)).astype(u4)


def funnel_right(low: Any, high: Any, count: Any, wraps: bool) -> Any:
    """Return the lower word of two words shifted right (``shf.r``)."""
    shift = (count & u4(31)) if wraps else np.minimum(count, u4(32))
    both = (high.astype(u8) << u8(32)) | low
    return (both >> shift.astype(u8)).astype(u4)


def extract(a: Any, position: Any, length: Any) -> Any:
    """Extract a bit field, sign-extended for signed numbers (``bfe``)."""
    width = 8 * a.dtype.itemsize
    position, length = position & u4(255), length & u4(255)
    bits = a.view(UNSIGNED[width]).astype(u8)
    shifted = np.where(position >= width, u8(0), bits >> np.minimum(position, u4(63)).astype(u8))
    mask = np.where(length >= 64, ~u8(0), (u8(1) << np.minimum(length, u4(63)).astype(u8)) - u8(1))
    field = shifted & mask & u8((1 << width) - 1)
    if a.dtype.kind == "i":
        last = np.minimum(position.astype(i8) + length.astype(i8) - 1, width - 1)
        sign = np.where(length == 0, u8(0), (bits >> np.maximum(last, 0).astype(u8)) & u8(1))
        num_bits = np.minimum(length.astype(i8), np.maximum(width - position.astype(i8), 0))
        above = np.where(num_bits >= 64, u8(0), ~u8(0) << np.minimum(num_bits, 63).astype(u8))
        field = np.where(sign == 1, field | above, field)
    return field.astype(UNSIGNED[width]).view(a.dtype)


def insert(a: Any, b: Any, position: Any, length: Any) -> Any:
    """Return `b` with a bit field inserted from `a` (``bfi``)."""
    width = 8 * a.dtype.itemsize
    position, length = position & u4(255), length & u4(255)
    mask = np.where(length >= 64, ~u8(0), (u8(1) << np.minimum(length, u4(63)).astype(u8)) - u8(1))
    mask = np.where(position >= width, u8(0), mask << np.minimum(position, u4(63)).astype(u8))
    field = a.astype(u8) << np.minimum(position, u4(63)).astype(u8)
    return ((b.astype(u8) & ~mask) | (field & mask)).astype(a.dtype)


def permuted(a: Any, b: Any, selection: Any) -> Any:
    """Choose four bytes out of eight, each unchanged or its sign replicated (``prmt``)."""
    both = a.astype(u8) | (b.astype(u8) << u8(32))
    result: Any = u4(0)
    for i in range(4):
        chosen = (selection >> u4(4 * i)) & u4(15)
        byte = ((both >> (u8(8) * (chosen & u4(7)).astype(u8))) & u8(255)).astype(u4)
        byte = np.where(chosen & u4(8), np.where(byte & u4(128), u4(255), u4(0)), byte)
        result = result | (byte << u4(8 * i))
    return result


def logic(a: Any, b: Any, c: Any, table: int) -> Any:
    """Compute any function of three bits from its truth table (``lop3``)."""
    result: Any = u4(0)
    for i in range(8):
        if table >> i & 1:
            result = result | ((a if i & 4 else ~a) & (b if i & 2 else ~b) & (c if i & 1 else ~c))
    return result


def ones(a: Any) -> Any:
    """Count the set bits (``popc``)."""
    return np.bitwise_count(a).astype(u4)


def leading_zeros(a: Any) -> Any:
    """Count the leading zero bits (``clz``)."""
    width = 8 * a.dtype.itemsize
    for shift in (1, 2, 4, 8, 16, 32):
        if shift < width:
            a = a | (a >> a.dtype.type(shift))
    return u4(width) - ones(a)


def reversed_bits(a: Any) -> Any:
    """Reverse the bits (``brev``)."""
    width = 8 * a.dtype.itemsize
    result = a.dtype.type(0)
    for i in range(width):
        result = result | (((a >> a.dtype.type(i)) & a.dtype.type(1)) << a.dtype.type(width - 1 - i))
    return result


def highest_bit(a: Any) -> Any:
    """Return the position of the highest bit that differs from the sign; all bits set if there is none (``bfind``)."""
    if a.dtype.kind == "i":
        a = np.where(a < 0, ~a, a).view(UNSIGNED[8 * a.dtype.itemsize])
    return u4(8 * a.dtype.itemsize - 1) - leading_zeros(a)


def sum_with_carry(a: Any, b: Any, carry: Any) -> tuple[Any, Any]:
    """Return ``a + b + carry`` and the carry out."""
    first = a + b
    total = first + carry.astype(a.dtype)
    return total, (first < a) | (total < first)


def difference_with_borrow(a: Any, b: Any, borrow: Any) -> tuple[Any, Any]:
    """Return ``a - b - borrow`` and the borrow out."""
    first = a - b
    difference = first - borrow.astype(a.dtype)
    return difference, (a < b) | (first < borrow.astype(a.dtype))


# Conversions

ROUNDED: dict[str, Callable[[Any], Any]] = {
    "rni": np.rint,
    "rzi": np.trunc,
    "rmi": np.floor,
    "rpi": np.ceil,
}


def to_integer(x: Any, kind: Any, rounding: str) -> Any:
    """Convert a float to an integer: rounded, clamped to the integer's range, zero for NaN."""
    whole = ROUNDED[rounding](x.astype(f8))
    limits = np.iinfo(kind)
    low, high = f8(limits.min), f8(limits.max)
    inside = np.where((whole > low) & (whole < high), whole, f8(0)).astype(kind)
    result = np.where(whole >= high, kind(limits.max), np.where(whole <= low, kind(limits.min), inside))
    return np.where(x != x, kind(0), result)


def to_float(x: Any, kind: Any, rounding: str) -> Any:
    """Convert a number to a float of another type."""
    if rounding == "rn" or not rounding:
        return canonical(_to_bfloat16(x) if kind is bf2 else x.astype(kind))
    if kind is f4:
        wide = x.astype(f8)
        return canonical(_narrow(wide, f8(0), rounding))
    if kind in (f2, bf2) and rounding == "rz":
        near = x.astype(kind)
        over = np.abs(near.astype(f8)) > np.abs(x.astype(f8))
        return canonical(np.where(over, (near.view(u2) - u2(1)).view(kind), near))
    raise NotImplementedError(f"cvt.{rounding} to {np.dtype(kind)}")


def to_tf32(bits: Any, rounding: str) -> Any:
    """Return the bits of a float32 rounded to the 10 bits of TF32; a tie to even (``rn``) or away from 0 (``rna``)."""
    half = u4(0x1000) if rounding == "rna" else u4(0xFFF) + (bits >> u4(13) & u4(1))
    is_finite = bits & u4(0x7F800000) != u4(0x7F800000)
    return np.where(is_finite, bits + half & u4(0xFFFFE000), bits)


def _eight_bits(name: str) -> Any:
    import ml_dtypes

    return ml_dtypes.float8_e4m3fn if name == "e4m3" else ml_dtypes.float8_e5m2


def to_eight_bits(x: Any, name: str) -> Any:
    """Return the bits of a number as ``e4m3`` or ``e5m2``, clamped to the largest finite value (``.satfinite``)."""
    max_finite = x.dtype.type(448 if name == "e4m3" else 57344)
    bits = np.clip(x, -max_finite, max_finite).astype(_eight_bits(name)).view(u1)
    return np.where(x != x, u1(0x7F), bits)


def from_eight_bits(bits: Any, name: str) -> Any:
    """Convert 8-bit floats to float16, which holds each exactly."""
    return canonical(bits.astype(u1).view(_eight_bits(name)).astype(f2))


def _to_bfloat16(x: Any) -> Any:
    if x.dtype.type is f4:
        bits = x.view(u4)
        rounded = (bits + u4(0x7FFF) + ((bits >> u4(16)) & u4(1))) >> u4(16)
        return np.where(x != x, u2(0x7FFF), rounded.astype(u2)).view(bf2)
    return _to_bfloat16(_to_odd_single(x))


def _to_odd_single(x: Any) -> Any:
    """Round to odd in single precision, so that only the next rounding has an effect."""
    wide = x.astype(f8)
    near = wide.astype(f4)
    error = wide - near.astype(f8)
    bits = near.view(i4)
    wrong = (error != 0) & (bits & 1 == 0) & np.isfinite(near)
    return np.where(wrong, bits + np.where((error > 0) == (wide > 0), 1, -1).astype(i4), bits).view(f4)


def compared(a: Any, b: Any, comparison: str) -> Any:
    """Compare: ordered, or with a ``u`` suffix true if an operand is NaN."""
    if comparison in ("num", "nan"):
        nan = (a != a) | (b != b)
        return ~nan if comparison == "num" else nan
    result = COMPARISONS[comparison[:2]](a, b)
    if a.dtype.kind in "iu":
        return result
    if len(comparison) > 2:
        return result | (a != a) | (b != b)
    return result & (a == a) & (b == b) if comparison == "ne" else result


COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lo": np.less,
    "ls": np.less_equal,
    "hi": np.greater,
    "hs": np.greater_equal,
}
