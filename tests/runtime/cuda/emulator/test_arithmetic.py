"""Arithmetic follows the PTX ISA: rounding, edges, and the error bounds of approximations."""

import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

Array = np.ndarray[Any, Any]
Each = Callable[..., Array]

EDGES = np.array(
    [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1.1754944e-38, 3.4028235e38, 0.1, 3.0],
    np.float32,
)
A, B = (grid.reshape(-1) for grid in np.meshgrid(EDGES, EDGES))


def bits(array: Array) -> list[int]:
    return [int(x) for x in array.view(f"u{array.dtype.itemsize}")]


def canonical(array: Array) -> Array:
    return np.where(np.isnan(array), np.uint32(0x7FFFFFFF).view(np.float32), array)


@pytest.mark.parametrize(
    ("opcode", "function"),
    [
        ("add.rn.f32", np.add),
        ("sub.rn.f32", np.subtract),
        ("mul.rn.f32", np.multiply),
        ("div.rn.f32", np.divide),
    ],
)
def test_arithmetic_gives_one_nan(each: Each, opcode: str, function: Any) -> None:
    with np.errstate(all="ignore"):
        expected = canonical(function(A, B))
    assert bits(each(f"{opcode} %y, %x0, %x1;", "fff", A, B)) == bits(expected)


def exact(rounding: str, value: Fraction) -> float:
    """Round a fraction to single precision."""
    near = np.float32(float(value)) if value.denominator == 1 and abs(value) < 2**24 else None
    if near is not None:
        return float(near)
    scale = max(math.floor(math.log2(abs(value))) - 23, -149)
    units = value / Fraction(2) ** scale
    low = math.floor(units)
    rest = units - low
    if rounding == "rn":
        low += rest > Fraction(1, 2) or (rest == Fraction(1, 2) and low % 2 == 1)
    elif rounding == "rp":
        low += rest > 0
    elif rounding == "rz":
        low += rest > 0 and value < 0
    return float(low * Fraction(2) ** scale)


@pytest.mark.parametrize("rounding", ["rn", "rz", "rm", "rp"])
def test_a_fused_product_is_rounded_once(each: Each, rng: Any, rounding: str) -> None:
    a, b = (rng.standard_normal(256).astype(np.float32) for _ in range(2))
    c = (-a.astype(np.float64) * b * (1 + rng.standard_normal(256) * 2.0**-20)).astype(np.float32)
    # Halfway between two numbers but for the last bits of the product.
    a[:2], b[:2], c[:2] = [1 + 2**-12, 1 - 2**-12], [1 + 2**-12, 1 + 2**-12], [2**23, 2**24]
    found = each(f"fma.{rounding}.f32 %y, %x0, %x1, %x2;", "ffff", a, b, c)
    expected = [
        exact(rounding, Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)))
        for x, y, z in zip(a, b, c, strict=True)
    ]
    assert found.tolist() == expected


@pytest.mark.parametrize("rounding", ["rn", "rz", "rm", "rp"])
def test_a_quotient_is_rounded_once(each: Each, rng: Any, rounding: str) -> None:
    a, b = (rng.standard_normal(256).astype(np.float32) for _ in range(2))
    found = each(f"div.{rounding}.ftz.f32 %y, %x0, %x1;", "fff", a, b)
    expected = [exact(rounding, Fraction(float(x)) / Fraction(float(y))) for x, y in zip(a, b, strict=True)]
    assert found.tolist() == expected


def test_decimal_operands(each: Each) -> None:
    x = np.array([1.5, -2.0], np.float32)
    assert each("fma.rn.f32 %y, %x0, -2.5e-1, 1.0;", "ff", x).tolist() == [0.625, 1.5]
    assert each("div.rn.f64 %y, 1.0, %x0;", "dd", x.astype(np.float64)).tolist() == [1 / 1.5, -0.5]


def test_a_fused_product_in_double_precision(each: Each) -> None:
    a = np.array([1 + 2.0**-40, 1e300, 3.0, np.inf])
    b = np.array([1 - 2.0**-40, 1e300, 1 / 3, 0.0])
    c = np.array([-1.0, -np.inf, -1.0, 1.0])
    found = each("fma.rn.f64 %y, %x0, %x1, %x2;", "dddd", a, b, c)
    assert found[:3].tolist() == [-(2.0**-80), -np.inf, float(Fraction(3) * Fraction(1 / 3) - 1)]
    assert np.isnan(found[3])


def test_minimum_and_maximum_know_signs_of_zero_and_numbers(each: Each) -> None:
    a = np.array([0.0, -0.0, np.nan, 1.0, np.nan, 2.0], np.float32)
    b = np.array([-0.0, 0.0, 1.0, np.nan, np.nan, 1.0], np.float32)
    nan = 0x7FFFFFFF
    one = 0x3F800000
    assert bits(each("max.f32 %y, %x0, %x1;", "fff", a, b)) == [0, 0, one, one, nan, 0x40000000]
    assert bits(each("min.f32 %y, %x0, %x1;", "fff", a, b)) == [1 << 31, 1 << 31, one, one, nan, one]
    assert bits(each("max.NaN.f32 %y, %x0, %x1;", "fff", a, b)) == [0, 0, nan, nan, nan, 0x40000000]


def test_flushing_takes_subnormal_operands_and_results_for_zero(each: Each) -> None:
    a = np.array([1e-45, -1e-45, 1.2e-38, 2.0], np.float32)
    b = np.array([1e38, 1e38, 0.5, 1e-39], np.float32)
    assert bits(each("mul.ftz.f32 %y, %x0, %x1;", "fff", a, b)) == [0, 1 << 31, 0, 0]


@pytest.mark.parametrize(
    ("statement", "function", "low", "high", "bound"),
    [
        ("ex2.approx.f32", np.exp2, -100, 100, 2.0**-22),
        ("lg2.approx.f32", np.log2, 3, 100, 2.0**-22),
        ("rcp.approx.ftz.f32", np.reciprocal, 0.1, 100, 2.0**-23),
        ("sqrt.approx.f32", np.sqrt, 0, 100, 2.0**-23 + 2.0**-24),
        ("rsqrt.approx.f32", lambda x: 1 / np.sqrt(x), 0.1, 100, 2.0**-22.9 + 2.0**-24),
        ("tanh.approx.f32", np.tanh, -3, 3, 2.0**-11),
    ],
)
def test_approximations_are_within_their_bound_and_not_exact(
    each: Each, rng: Any, statement: str, function: Any, low: float, high: float, bound: float
) -> None:
    x = rng.uniform(low, high, 4096).astype(np.float32)
    found = each(f"{statement} %y, %x0;", "ff", x).astype(np.float64)
    wanted = function(x.astype(np.float64))
    error = np.abs(found - wanted) / np.maximum(np.abs(wanted), 1e-30)
    assert error.max() <= bound
    assert (found.astype(np.float32) != wanted.astype(np.float32)).mean() > 0.05


def test_approximations_at_edges(each: Each) -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 3.0, 1.0], np.float32)
    assert each("ex2.approx.f32 %y, %x0;", "ff", x).tolist()[:4] == [1.0, 1.0, np.inf, 0.0]
    assert each("ex2.approx.f32 %y, %x0;", "ff", x)[5] == 8.0
    assert bits(each("rcp.approx.ftz.f32 %y, %x0;", "ff", x))[:5] == [
        0x7F800000,
        0xFF800000,
        0,
        1 << 31,
        0x7FFFFFFF,
    ]


@pytest.mark.parametrize(
    ("statement", "function"), [("rcp", np.reciprocal), ("rsqrt", lambda x: 1 / np.sqrt(x))]
)
def test_flushed_double_precision_approximations_have_20_bits(
    each: Each, statement: str, function: Any
) -> None:
    x = np.array([3.0, 7.0, 1e300, 1e-310])
    halves = each(f"{statement}.approx.ftz.f64 %y, %x0;", "dd", x)
    assert (halves.view(np.uint64) & np.uint64(0xFFFFFFFF) == 0).all()
    assert np.allclose(halves[:3], function(x[:3]), rtol=2.0**-20)
    assert (halves[:2] != function(x[:2])).all()
    assert halves[3] == np.inf


def test_the_reciprocal_root_in_double_precision_is_within_an_ulp(each: Each, rng: Any) -> None:
    x = np.concatenate([rng.uniform(0.1, 100, 256), [1e300, 1e-310, 5e-324]])
    found = each("rsqrt.approx.f64 %y, %x0;", "dd", x)
    assert np.allclose(found, 1 / np.sqrt(x), rtol=2.0**-52, atol=0)
    edges = each("rsqrt.approx.f64 %y, %x0;", "dd", [0.0, -0.0, np.inf, -1.0])
    assert np.array_equal(edges, [np.inf, -np.inf, 0.0, np.nan], equal_nan=True)


def test_conversions_to_integers_clamp(each: Each) -> None:
    x = np.array([1.5, -1.5, 2.5, 3e9, -3e9, np.nan, np.inf, -0.5], np.float32)
    top, least = 2**31 - 1, -(2**31)
    assert each("cvt.rzi.s32.f32 %y, %x0;", "if", x).tolist() == [1, -1, 2, top, least, 0, top, 0]
    assert each("cvt.rni.s32.f32 %y, %x0;", "if", x).tolist() == [2, -2, 2, top, least, 0, top, 0]
    assert each("cvt.rmi.s32.f32 %y, %x0;", "if", x).tolist() == [1, -2, 2, top, least, 0, top, -1]
    assert each("cvt.rpi.s32.f32 %y, %x0;", "if", x).tolist() == [2, -1, 3, top, least, 0, top, 0]
    assert each("cvt.rzi.u32.f32 %y, %x0;", "If", x).tolist() == [1, 0, 2, 3_000_000_000, 0, 0, 2**32 - 1, 0]


def test_conversions_between_integers(each: Each) -> None:
    x = np.array([255, 128, 65535, -1], np.int32)
    assert each("cvt.s32.s8 %y, %x0;", "ii", x).tolist() == [-1, -128, -1, -1]
    assert each("cvt.u32.u8 %y, %x0;", "ii", x).tolist() == [255, 128, 255, 255]
    assert each("cvt.s64.s32 %y, %x0;", "qi", x).tolist() == [255, 128, 65535, -1]
    assert each("cvt.u64.u32 %y, %x0;", "qi", x).tolist() == [255, 128, 65535, 2**32 - 1]


def test_conversions_to_halves(each: Each, rng: Any) -> None:
    x = np.concatenate(
        [rng.standard_normal(200) * 10.0 ** rng.integers(-8, 5, 200), [65520, 1e-8, np.nan, -0.0]]
    )
    x = x.astype(np.float32)
    with np.errstate(over="ignore"):
        halves = x.astype(np.float16)
    halves[np.isnan(halves)] = np.uint16(0x7FFF).view(np.float16)
    assert bits(each("cvt.rn.f16.f32 %y, %x0;", "ef", x)) == bits(halves)
    brain = x.astype(ml_dtypes.bfloat16).view(np.uint16)
    brain[np.isnan(x)] = 0x7FFF
    assert each("cvt.rn.bf16.f32 %y, %x0;", "Hf", x).tolist() == brain.tolist()
    words = np.array([0x3F801000, 0x3F803000, 0x3F800FFF, 0xBF801000, 0x7F7FFFFF, 0x7F800000], np.uint32)
    ties = each("cvt.rna.tf32.f32 %y, %x0;", "If", words.view(np.float32))
    assert ties.tolist() == [0x3F802000, 0x3F804000, 0x3F800000, 0xBF802000, 0x7F800000, 0x7F800000]
    ties = each("cvt.rn.tf32.f32 %y, %x0;", "If", words.view(np.float32))
    assert ties.tolist() == [0x3F800000, 0x3F804000, 0x3F800000, 0xBF800000, 0x7F800000, 0x7F800000]
    pair = each("cvt.rn.bf16x2.f32 %y, %x0, %x1;", "Iff", x, np.ones_like(x))
    assert (pair >> 16).tolist() == brain.tolist() and set((pair & 0xFFFF).tolist()) == {0x3F80}
    toward = each("cvt.rz.f16x2.f32 %y, %x0, %x0;", "If", x[:200]) & 0xFFFF
    assert (np.abs(toward.astype(np.uint16).view(np.float16).astype(float)) <= np.abs(x[:200])).all()


@pytest.mark.parametrize(("opcode", "dtype"), [("s32", "i"), ("s64", "q"), ("u32", "I"), ("u64", "Q")])
def test_division_of_integers(each: Each, opcode: str, dtype: str) -> None:
    info = np.iinfo(dtype)
    a = np.array([7, 7, info.max, info.min, info.min, 5], dtype)
    b = np.array([2, info.max, 3, info.max, 1, 0], dtype)
    if info.min:
        a, b = np.append(a, [-7, info.min]).astype(dtype), np.append(b, [2, -1]).astype(dtype)
    found = each(f"div.{opcode} %y, %x0, %x1;", dtype * 3, a, b)
    left = each(f"rem.{opcode} %y, %x0, %x1;", dtype * 3, a, b)
    for x, y, z, rest in zip(a.tolist(), b.tolist(), found.tolist(), left.tolist(), strict=True):
        wanted = -1 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        assert (z - wanted) % 2 ** (8 * np.dtype(dtype).itemsize) == 0
        assert rest == (x if y == 0 else x - wanted * y)


@pytest.mark.parametrize(("opcode", "dtype"), [("s32", "i"), ("u32", "I"), ("s64", "q"), ("u64", "Q")])
def test_products_of_integers(each: Each, rng: Any, opcode: str, dtype: str) -> None:
    info, width = np.iinfo(dtype), 8 * np.dtype(dtype).itemsize
    a, b = (rng.integers(info.min, info.max, 64, dtype) for _ in range(2))
    high = each(f"mul.hi.{opcode} %y, %x0, %x1;", dtype * 3, a, b)
    low = each(f"mul.lo.{opcode} %y, %x0, %x1;", dtype * 3, a, b)
    for x, y, h, l in zip(a.tolist(), b.tolist(), high.tolist(), low.tolist(), strict=True):
        assert (x * y) >> width == h
        assert (x * y - l) % 2**width == 0
    if width == 32:
        wide = each(f"mul.wide.{opcode} %y, %x0, %x1;", {"i": "q", "I": "Q"}[dtype] + 2 * dtype, a, b)
        assert wide.tolist() == [x * y for x, y in zip(a.tolist(), b.tolist(), strict=True)]


def test_shifts_beyond_the_width(each: Each) -> None:
    x, count = np.array([-1, -8, 5, 5], np.int32), np.array([32, 1, 31, 1000], np.uint32)
    assert each("shl.b32 %y, %x0, %x1;", "iiI", x, count).tolist() == [0, -16, -(2**31), 0]
    assert each("shr.s32 %y, %x0, %x1;", "iiI", x, count).tolist() == [-1, -4, 0, 0]
    assert each("shr.u32 %y, %x0, %x1;", "IiI", x, count).tolist() == [0, 2**31 - 4, 0, 0]
    low, high = np.array([0x80000000, 1], np.uint32), np.array([1, 0], np.uint32)
    assert each("shf.l.wrap.b32 %y, %x0, %x1, 33;", "III", low, high).tolist() == [3, 0]
    assert each("shf.r.clamp.b32 %y, %x0, %x1, 33;", "III", low, high).tolist() == [1, 0]


def test_fields_of_bits(each: Each) -> None:
    x = np.array([0xABCD1234, 0x80000000], np.uint32)
    assert each("bfe.u32 %y, %x0, 8, 8;", "II", x).tolist() == [0x12, 0]
    assert each("bfe.s32 %y, %x0, 24, 8;", "iI", x).tolist() == [0xAB - 256, -128]
    assert each("bfe.s32 %y, %x0, 28, 8;", "iI", x).tolist() == [-6, -8]
    assert each("bfi.b32 %y, %x0, %x1, 8, 8;", "III", [0xFF, 0x1], [0, 0xFFFFFFFF]).tolist() == [
        0xFF00,
        0xFFFF01FF,
    ]
    assert each("popc.b32 %y, %x0;", "II", x).tolist() == [15, 1]
    assert each("clz.b32 %y, %x0;", "II", [1, 0]).tolist() == [31, 32]
    assert each("brev.b32 %y, %x0;", "II", [1, 0x80000000]).tolist() == [0x80000000, 1]
    assert each("bfind.u32 %y, %x0;", "II", [0x100, 0]).tolist() == [8, 0xFFFFFFFF]


def test_bytes_are_permuted(each: Each) -> None:
    a, b = np.array([0x44332211], np.uint32), np.array([0x88776655], np.uint32)
    assert each("prmt.b32 %y, %x0, %x1, 0x7531;", "III", a, b).tolist() == [0x88664422]
    assert each("prmt.b32 %y, %x0, %x1, 0xF8;", "III", a, b).tolist() == [0x1111FF00]


@pytest.mark.parametrize("table", [0x00, 0x80, 0x96, 0xCA, 0xE8, 0xFF])
def test_any_function_of_three_bits(each: Each, rng: Any, table: int) -> None:
    a, b, c = (rng.integers(0, 2**32, 8, np.uint32) for _ in range(3))
    found = each(f"lop3.b32 %y, %x0, %x1, %x2, {table};", "IIII", a, b, c)
    for x, y, z, w in zip(a.tolist(), b.tolist(), c.tolist(), found.tolist(), strict=True):
        for i in range(32):
            which = (x >> i & 1) << 2 | (y >> i & 1) << 1 | z >> i & 1
            assert w >> i & 1 == table >> which & 1


def test_carries(each: Each) -> None:
    x = np.array([2**63 + 5, 2**64 - 1, 1], np.uint64)
    y = np.array([2**63 + 6, 1, 2], np.uint64)
    begin = "{ .reg .u32 a0, a1, b0, b1; mov.b64 {a0, a1}, %x0; mov.b64 {b0, b1}, %x1;"
    add = begin + "add.cc.u32 a0, a0, b0; addc.u32 a1, a1, b1; mov.b64 %y, {a0, a1}; }"
    subtract = begin + "sub.cc.u32 a0, a0, b0; subc.u32 a1, a1, b1; mov.b64 %y, {a0, a1}; }"
    assert each(add, "QQQ", x, y).tolist() == [11, 0, 3]
    assert each(subtract, "QQQ", x, y).tolist() == [2**64 - 1, 2**64 - 2, 2**64 - 1]


def test_floats_in_pairs(each: Each) -> None:
    """Compute with pairs of 32-bit floats in a 64-bit register, as sm_100 does."""
    x, y, z = (np.random.default_rng(i).standard_normal((64, 2)).astype(np.float32) for i in range(3))
    pairs = [each.view(np.uint64).reshape(-1) for each in (x, y, z)]

    def found(statement: str) -> np.ndarray[Any, Any]:
        count = statement.count("%x")
        return each(statement, "Q" * (count + 1), *pairs[:count]).view(np.float32).reshape(-1, 2)

    assert np.array_equal(found("add.rn.f32x2 %y, %x0, %x1;"), x + y)
    assert np.array_equal(found("sub.f32x2 %y, %x0, %x1;"), x - y)
    assert np.array_equal(found("mul.rn.f32x2 %y, %x0, %x1;"), x * y)
    exact = x.astype(np.float64) * y + z
    assert np.array_equal(found("fma.rn.f32x2 %y, %x0, %x1, %x2;"), exact.astype(np.float32))


@pytest.mark.parametrize(("name", "dtype"), [("bf16", ml_dtypes.bfloat16), ("f16", np.float16)])
def test_floats_of_two_widths(each: Each, name: str, dtype: Any) -> None:
    """Take the 16-bit operand first, as sm_100 does: `sub` subtracts the 32-bit operand from it."""
    x, y, z = (np.random.default_rng(i).standard_normal(64).astype(np.float32) for i in range(3))
    a, b = x.astype(dtype), y.astype(dtype)
    bits = [each.view(np.uint16) for each in (a, b)]
    wide = [each.astype(np.float32) for each in (a, b)]
    found = each(f"add.rn.f32.{name} %y, %x0, %x1;", ("f4", "u2", "f4"), bits[0], z)
    assert np.array_equal(found, wide[0] + z)
    found = each(f"sub.rn.f32.{name} %y, %x0, %x1;", ("f4", "u2", "f4"), bits[0], z)
    assert np.array_equal(found, wide[0] - z)
    found = each(f"fma.rn.f32.{name} %y, %x0, %x1, %x2;", ("f4", "u2", "u2", "f4"), *bits, z)
    assert np.array_equal(found, (wide[0].astype(np.float64) * wide[1] + z).astype(np.float32))


def test_halves_in_pairs(each: Each) -> None:
    def pair(low: float, high: float) -> int:
        first, second = (int(np.float16(v).view(np.uint16)) for v in (low, high))
        return first | second << 16

    a, b = np.array([pair(1, np.nan)], np.uint32), np.array([pair(0.5, 2)], np.uint32)
    assert each("add.rn.f16x2 %y, %x0, %x1;", "III", a, b).tolist() == [0x7FFF0000 | 0x3E00]
    assert each("min.f16x2 %y, %x0, %x1;", "III", a, b).tolist() == [pair(0.5, 2)]
    assert each("neg.f16x2 %y, %x0;", "II", b).tolist() == [pair(-0.5, -2)]
    assert each("set.nan.f16x2.f16x2 %y, %x0, %x0;", "II", a).tolist() == [0x3C000000]
    brain = each("fma.rn.bf16x2 %y, %x0, %x0, %x0;", "II", np.array([0x40003F80], np.uint32))
    assert brain.tolist() == [0x40C04000]


@pytest.mark.parametrize(
    "comparison", ["eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "geu", "num", "nan"]
)
def test_comparisons_with_nan(each: Each, comparison: str) -> None:
    found = each(f"setp.{comparison}.f32 %p1, %x0, %x1; selp.b32 %y, 1, 0, %p1;", "iff", A, B)
    nan = np.isnan(A) | np.isnan(B)
    plain = {"eq": A == B, "ne": (A != B) & ~nan, "lt": A < B, "le": A <= B, "gt": A > B, "ge": A >= B}
    wanted = {"num": ~nan, "nan": nan}.get(comparison)
    if wanted is None:
        wanted = plain[comparison[:2]] | nan if comparison.endswith("u") else plain[comparison]
    assert found.astype(bool).tolist() == wanted.tolist()


def test_extremes_of_magnitudes_and_above_zero(each: Callable[..., Array]) -> None:
    a = np.array([1, -2, -0.0, np.nan, np.inf, -np.inf, 3], np.float32)
    b = np.array([-3, -1, 5, 1, -2, -7, np.nan], np.float32)
    found = each("min.NaN.xorsign.abs.f32 %y, %x0, %x1;", ("f4", "f4", "f4"), a, b)
    assert np.array_equal(found, np.array([-1, 1, -0.0, np.nan, -2, 7, np.nan], np.float32), equal_nan=True)
    assert np.signbit(found[:3]).tolist() == [True, False, True]
    numbers = np.array([-5, 0, 4, 9], np.int32)
    found = each("min.relu.s32 %y, %x0, %x1;", ("i4", "i4", "i4"), numbers, np.full(4, 7, np.int32))
    assert found.tolist() == [0, 0, 4, 7]


@pytest.mark.parametrize("name", ["e4m3", "e5m2"])
def test_floats_of_8_bits(each: Callable[..., Array], name: str) -> None:
    kind = ml_dtypes.float8_e4m3fn if name == "e4m3" else ml_dtypes.float8_e5m2
    most = float(ml_dtypes.finfo(kind).max)
    x = np.array([0.0, -0.0, 1.1, -3.3, 1e-9, most, 1.01 * most, 1e9, -np.inf, np.nan], np.float32)
    found = each(f"cvt.rn.satfinite.{name}x2.f32 %y, %x0, %x1;", ("u2", "f4", "f4"), x, x[::-1].copy())
    wanted = np.clip(x, -most, most).astype(kind).view(np.uint8) & np.where(np.isnan(x), 0x7F, 0xFF)
    wanted = np.where(np.isnan(x), 0x7F, wanted).astype(np.uint8)
    assert np.array_equal(found >> 8, wanted) and np.array_equal(found & 255, wanted[::-1])
    every = np.arange(256, dtype=np.uint16)
    found = each(f"cvt.rn.f16x2.{name}x2 %y, %x0;", ("u4", "u2"), every | (every[::-1] << 8))
    halves = np.arange(256, dtype=np.uint8).view(kind).astype(np.float16)
    assert np.array_equal((found & 0xFFFF).astype(np.uint16).view(np.float16), halves, equal_nan=True)
    assert np.array_equal((found >> 16).astype(np.uint16).view(np.float16), halves[::-1], equal_nan=True)


@pytest.mark.parametrize("form", ["fma.rn.relu.f16", "min.rn.f32", "add.wide.s32"])
def test_a_form_that_is_unknown_is_refused(machine: Any, form: str) -> None:
    register = "%h" if form.endswith("16") else "%r"
    operands = ", ".join(f"{register}{i}" for i in range(4 if form.startswith("fma") else 3))
    with pytest.raises(NotImplementedError, match=re.escape(f"'{form}' is not emulated")):
        machine.run(f"{form} {operands};")
