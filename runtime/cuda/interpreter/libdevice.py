"""libdevice's functions for Triton's interpreter, by the symbol that a compiled kernel would call.

float32 functions are computed in float64 and rounded once, so they are at least as accurate as libdevice's. Directed
roundings of arithmetic (``__nv_fadd_rd``) and a few integer functions are missing: calling one raises
NotImplementedError. Source: NVIDIA's libdevice user's guide.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import scipy.special as special

from .formats import Array, convert

Function = Callable[..., Array]

_PI = np.pi


def _rsqrt(x: Array) -> Array:
    return 1.0 / np.sqrt(x)


def _round_half_away(x: Array) -> Array:
    whole = np.trunc(x)
    rounded: Array = np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1.0, x), whole)
    return rounded


def _sinpi(x: Array) -> Array:
    return np.sin(_PI * np.fmod(x, 2.0))


def _cospi(x: Array) -> Array:
    return np.sin(_PI * (0.5 - np.abs(np.fmod(x, 2.0))))


def _fdim(x: Array, y: Array) -> Array:
    return np.where(np.isnan(x) | np.isnan(y), np.nan, np.where(x > y, x - y, 0.0))


def _remainder(x: Array, y: Array) -> Array:
    divisor = np.abs(y)
    rest = np.fmod(np.abs(x), 2.0 * divisor)
    rest = np.where(2.0 * rest > divisor, rest - divisor, rest)
    rest = np.where(2.0 * rest >= divisor, rest - divisor, rest)
    rest = np.where(np.isinf(y) & np.isfinite(x), np.abs(x), rest)
    return np.where(np.signbit(x), -rest, rest)


def _logb(x: Array) -> Array:
    exponent = np.frexp(x)[1] - 1.0
    return np.where(np.isfinite(x) & (x != 0), exponent, np.where(x == 0, -np.inf, np.abs(x)))


def _ilogb(x: Array) -> Array:
    exponent = np.frexp(x)[1] - 1
    low, high = np.iinfo(np.int32).min, np.iinfo(np.int32).max
    return np.where(np.isfinite(x) & (x != 0), exponent, np.where(np.isinf(x), high, low))


def _norm(*xs: Array) -> Array:
    return np.sqrt(sum((x * x for x in xs), np.zeros(())))


def _saturate(x: Array) -> Array:
    return np.where(np.isnan(x), 0.0, np.clip(x, 0.0, 1.0))


_ROUNDED_ONCE: dict[str, Function] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "ceil": np.ceil,
    "copysign": np.copysign,
    "cos": np.cos,
    "cosh": np.cosh,
    "cospi": _cospi,
    "cyl_bessel_i0": special.i0,
    "cyl_bessel_i1": special.i1,
    "erf": special.erf,
    "erfc": special.erfc,
    "erfcinv": special.erfcinv,
    "erfcx": special.erfcx,
    "erfinv": special.erfinv,
    "exp": np.exp,
    "exp10": special.exp10,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "fabs": np.abs,
    "fdim": _fdim,
    "floor": np.floor,
    "fmod": np.fmod,
    "hypot": np.hypot,
    "ilogb": _ilogb,
    "j0": special.j0,
    "j1": special.j1,
    "jn": lambda n, x: special.jv(n, x),
    "ldexp": np.ldexp,
    "lgamma": special.gammaln,
    "llrint": np.rint,
    "llround": _round_half_away,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "logb": _logb,
    "nearbyint": np.rint,
    "norm3d": _norm,
    "norm4d": _norm,
    "normcdf": special.ndtr,
    "normcdfinv": special.ndtri,
    "pow": np.power,
    "powi": np.power,
    "rcbrt": lambda x: 1.0 / np.cbrt(x),
    "remainder": _remainder,
    "rhypot": lambda x, y: 1.0 / np.hypot(x, y),
    "rint": np.rint,
    "rnorm3d": lambda *xs: 1.0 / _norm(*xs),
    "rnorm4d": lambda *xs: 1.0 / _norm(*xs),
    "round": _round_half_away,
    "rsqrt": _rsqrt,
    "scalbn": np.ldexp,
    "sin": np.sin,
    "sinh": np.sinh,
    "sinpi": _sinpi,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
    "tgamma": special.gamma,
    "trunc": np.trunc,
    "y0": special.y0,
    "y1": special.y1,
    "yn": lambda n, x: special.yn(n, x),
}
"""Functions whose symbol is ``__nv_<name>f`` for float32 and ``__nv_<name>`` for float64."""

_FAST: dict[str, Function] = {
    "cosf": np.cos,
    "exp10f": special.exp10,
    "expf": np.exp,
    "fdividef": np.divide,
    "log10f": np.log10,
    "log2f": np.log2,
    "logf": np.log,
    "powf": np.power,
    "sinf": np.sin,
    "tanf": np.tan,
}

_ARITHMETIC: dict[str, Function] = {
    "add": np.add,
    "div": np.divide,
    "mul": np.multiply,
    "rcp": np.reciprocal,
    "sqrt": np.sqrt,
    "sub": np.subtract,
}

_ROUNDINGS: dict[str, Function] = {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}
_NAMED: dict[str, Any] = {
    "float": np.float32,
    "double": np.float64,
    "int": np.int32,
    "uint": np.uint32,
    "ll": np.int64,
    "ull": np.uint64,
    "longlong": np.int64,
}


def _in_float64(function: Function) -> Function:
    def call(*arguments: Array) -> Array:
        return function(*(a.astype(np.float64) if a.dtype == np.float32 else a for a in arguments))

    return call


def _count_bits(x: Array) -> Array:
    count: Array = np.bitwise_count(x.view(f"u{x.itemsize}"))
    return count


def _bit_length(x: Array) -> Array:
    unsigned = x.view(f"u{x.itemsize}")
    for shift in (1, 2, 4, 8, 16, 32)[: 5 if x.itemsize == 4 else 6]:
        unsigned = unsigned | (unsigned >> unsigned.dtype.type(shift))
    count: Array = np.bitwise_count(unsigned)
    return count


def _leading_zeros(x: Array) -> Array:
    return 8 * x.itemsize - _bit_length(x).astype(np.int32)


def _first_set(x: Array) -> Array:
    return _bit_length(x & -x)


def _reverse_bits(x: Array) -> Array:
    octets = np.ascontiguousarray(x)[..., None].view(np.uint8)
    bits = np.unpackbits(octets, axis=-1, bitorder="little")
    reversed_: Array = np.packbits(bits, axis=-1, bitorder="big")[..., ::-1].copy().view(x.dtype)[..., 0]
    return reversed_


def _high_product(x: Array, y: Array) -> Array:
    return (x.astype(np.int64) * y.astype(np.int64)) >> 32


def _high_product_unsigned(x: Array, y: Array) -> Array:
    return (x.astype(np.uint64) * y.astype(np.uint64)) >> np.uint64(32)


def _converter(rounding: Function, target: np.dtype[Any]) -> Function:
    return lambda x: convert(rounding(x), target)


def _caster(target: np.dtype[Any]) -> Function:
    return lambda x: x.astype(target)


def _viewer(target: np.dtype[Any]) -> Function:
    return lambda x: x.view(target)


@cache
def symbols() -> dict[str, Function]:
    """Return the NumPy function of each symbol; the caller converts its result to the declared type."""
    table: dict[str, Function] = {}
    for name, function in _ROUNDED_ONCE.items():
        table[f"__nv_{name}f"] = _in_float64(function)
        table[f"__nv_{name}"] = function
    for name, function in _FAST.items():
        table[f"__nv_fast_{name}"] = _in_float64(function)
    for name, function in _ARITHMETIC.items():
        table[f"__nv_f{name}_rn"] = function
        table[f"__nv_d{name}_rn"] = function
    for rounding, function in _ROUNDINGS.items():
        for source in ("float", "double"):
            for target in ("int", "uint", "ll", "ull"):
                table[f"__nv_{source}2{target}_{rounding}"] = _converter(function, np.dtype(_NAMED[target]))
    for source in ("int", "uint", "ll", "ull"):
        for target in ("float", "double"):
            table[f"__nv_{source}2{target}_rn"] = _caster(np.dtype(_NAMED[target]))
    table["__nv_double2float_rn"] = _caster(np.dtype(np.float32))
    for source, target in (("float", "int"), ("float", "uint"), ("double", "longlong")):
        table[f"__nv_{source}_as_{target}"] = _viewer(np.dtype(_NAMED[target]))
        table[f"__nv_{target}_as_{source}"] = _viewer(np.dtype(_NAMED[source]))
    table |= {
        "__nv_abs": np.abs,
        "__nv_llabs": np.abs,
        "__nv_brev": _reverse_bits,
        "__nv_brevll": _reverse_bits,
        "__nv_clz": _leading_zeros,
        "__nv_clzll": _leading_zeros,
        "__nv_ffs": _first_set,
        "__nv_ffsll": _first_set,
        "__nv_popc": _count_bits,
        "__nv_popcll": _count_bits,
        "__nv_mulhi": _high_product,
        "__nv_umulhi": _high_product_unsigned,
        "__nv_finitef": np.isfinite,
        "__nv_isfinited": np.isfinite,
        "__nv_isinff": np.isinf,
        "__nv_isinfd": np.isinf,
        "__nv_isnanf": np.isnan,
        "__nv_isnand": np.isnan,
        "__nv_signbitf": np.signbit,
        "__nv_signbitd": np.signbit,
        "__nv_nextafterf": np.nextafter,
        "__nv_nextafter": np.nextafter,
        "__nv_frsqrt_rn": _in_float64(_rsqrt),
        "__nv_saturatef": _saturate,
    }
    return table


def function_of(symbol: str) -> Function:
    """Return the function of a symbol. Raise NotImplementedError if the interpreter lacks it."""
    function = symbols().get(symbol)
    if function is None:
        raise NotImplementedError(f"libdevice's {symbol} is not available in the interpreter")
    return function


def _flushed(x: Array) -> Array:
    zero: Array = np.copysign(np.zeros((), x.dtype), x)
    return np.where(np.abs(x) < np.finfo(np.float32).tiny, zero, x)


_INSTRUCTIONS: dict[str, Function] = {
    "ex2.approx.ftz.f32 $0, $1;": lambda x: _flushed(np.exp2(_flushed(x))),
    "rcp.approx.ftz.f32 $0, $1;": lambda x: _flushed(np.reciprocal(_flushed(x))),
    "mov.u64 $0, %globaltimer;": lambda: np.array([time.perf_counter_ns()]),
}


def instruction(assembly: str) -> Function | None:
    """Return the function of an inline PTX instruction, None for an unknown one.

    Source: PTX ISA, "Floating Point Instructions". As with libdevice, an approximation is computed exactly here.
    """
    return _INSTRUCTIONS.get(assembly)
