"""Calls of elementwise operators: every dtype, every layout, every function.

Every function is called in float32 (those of integers alone in int32), and in float64 those whose mathematics takes
the most registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ...triton_kernels.budget import MIN_CAPABILITY
from ...triton_kernels.elementwise import activation, exponents, pointwise
from ...triton_kernels.elementwise import pointwise_functions as f
from .sample import FLOATING, NUMBERS, Sample, empty, gradients, tt


def functions() -> list[Any]:
    """Return the functions of pointwise operators, each of which some sample must launch."""
    scalar_functions = [row[0] for row in pointwise.FUNCTIONS.values()]
    scalar_functions += [function for row in pointwise.SCALED.values() for function in row[:2]]
    scalar_functions += [
        f.clamp,
        f.eq,
        f.ne,
        exponents.equal_exponents,
        exponents.unequal_exponents,
        exponents.from_exponents,
        exponents.to_exponents,
        f.where,
        f.gelu,
        f.gelu_tanh,
        f.gelu_backward,
        f.gelu_tanh_backward,
        f.trunc_divide,
        f.softplus,
        f.round_places,
        f.round_tens,
    ]
    scalar_functions += pointwise.NARROW.values()
    scalar_functions += [row[0] for row in activation.FUNCTIONS.values()]
    return [*scalar_functions, *pointwise.ROUNDING.values()]


def elementwise(capability: int) -> Iterator[Sample]:
    dense = ("dense",)
    n = 1 << 16
    yield Sample("add float32", lambda: empty(n) + empty(n), dense)
    yield Sample("add float32 unaligned", lambda: empty(n, offset=1) + empty(n))
    for dtype in NUMBERS:
        yield Sample(f"add {dtype}", lambda d=dtype: empty(n, dtype=d) + empty(n, dtype=d), dense)
    for dtype in ("bfloat16", "int8"):
        yield Sample(
            f"add {dtype} unaligned", lambda d=dtype: empty(n, dtype=d, offset=1) + empty(n, dtype=d)
        )
    yield Sample("add bfloat16 and a number", lambda: empty(n, dtype="bfloat16") + 1.5, dense)


def powers(n: int) -> Any:
    """Return a vector of powers of two."""
    return empty(n, dtype="float8_e8m0fnu")


def copies(capability: int) -> Iterator[Sample]:
    dense = ("dense",)
    n = 1 << 16
    for dtype in NUMBERS:
        for other in ("float32", "float64"):
            if other != dtype:
                yield Sample(
                    f"copy {other} to {dtype}",
                    lambda d=dtype, o=other: empty(n, dtype=o).to(getattr(tt, d)),
                    dense,
                )
    exponent = tt.float8_e8m0fnu
    for dtype in FLOATING:
        yield Sample(f"copy float8_e8m0fnu to {dtype}", partial(powers(n).to, getattr(tt, dtype)), dense)
        yield Sample(f"copy {dtype} to float8_e8m0fnu", partial(empty(n, dtype=dtype).to, exponent), dense)
    yield Sample("fill float8_e8m0fnu", partial(tt.full, (n,), 2.0, dtype=exponent, device="cuda"), dense)
    yield Sample("eq float8_e8m0fnu", lambda: powers(n) == powers(n), dense)
    yield Sample("ne float8_e8m0fnu", lambda: powers(n) != powers(n), dense)
    for dtype, name in (("float8_e5m2", "fp8e5"), ("float8_e4m3fn", "fp8e4nv")):
        refused = capability < MIN_CAPABILITY.get(name, 0)
        yield Sample(
            f"copy float32 to {dtype}",
            lambda d=dtype: empty(n).to(getattr(tt, d)),
            () if refused else dense,
            refused,
        )
        yield Sample(
            f"copy {dtype} to float32",
            lambda d=dtype: tt.empty((n,), dtype=getattr(tt, d), device="cuda").to(tt.float32),
            () if refused else dense,
            refused,
        )
    yield Sample("copy int8 to float32", lambda: empty(n, dtype="int8").to(tt.float32), dense)
    yield Sample("copy int64 to bfloat16", lambda: empty(n, dtype="int64").to(tt.bfloat16), dense)
    yield Sample("fill float32", lambda: tt.ones(n, device="cuda"), dense)


# fmt: off
UNARY = (
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "_conj_physical", "cos",
    "cosh", "erf", "erfc", "exp", "exp2", "expm1", "floor", "log", "log10", "log1p", "log2",
    "logical_not", "neg", "reciprocal", "relu", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh",
    "sqrt", "tan", "tanh", "trunc",
)
BINARY = (
    "add", "atan2", "div", "eq", "floor_divide", "fmax", "fmin", "fmod", "ge", "gt", "le",
    "logical_and", "logical_or", "logical_xor", "lt", "maximum", "minimum", "mul", "ne", "pow",
    "remainder", "rsub", "sub",
)
# fmt: on
LONG_UNARY = ("acosh", "asin", "cosh", "erfc", "expm1", "sin", "tan", "tanh")
LONG_BINARY = ("atan2", "fmod", "pow", "remainder")
BITWISE = ["bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift"]
ACTIVATIONS = [
    *(
        "gelu",
        "silu",
        "softplus",
        "leaky_relu",
        "elu",
        "hardshrink",
        "hardsigmoid",
        "hardswish",
        "logsigmoid",
        "mish",
    ),
    "softshrink",
]


def pointwise_functions(capability: int) -> Iterator[Sample]:
    """Yield every float function in float32, integer functions in int32, and the most expensive functions in
    float64.
    """
    dense = ("dense",)
    n = 1 << 16
    for dtype, unary, binary in (("float32", UNARY, BINARY), ("float64", LONG_UNARY, LONG_BINARY)):
        x, y = empty(n, dtype=dtype), empty(n, dtype=dtype)
        for name in unary:
            yield Sample(f"{name} {dtype}", partial(getattr(tt, name), x), dense)
        for name in binary:
            yield Sample(f"{name} {dtype}", partial(getattr(tt, name), x, y), dense)
    x, y = empty(n), empty(n)
    for name, function in scaled_and_gradients(x, y).items():
        yield Sample(f"{name} float32", function, dense)
    narrow = empty(n, dtype="bfloat16")
    for name in ("exp", "sigmoid", "tanh"):
        yield Sample(f"{name} bfloat16", partial(getattr(tt, name), narrow), dense)
    for name in ("gelu", "silu"):
        yield Sample(f"{name} bfloat16", partial(getattr(tt.nn.functional, name), narrow), dense)
    gelu = partial(tt.nn.functional.gelu, narrow, approximate="tanh")
    yield Sample("gelu by tanh bfloat16", gelu, dense)
    truths = empty(n, dtype="bool")
    yield Sample("pow of truth values", lambda: tt.pow(truths, True), dense)
    i = empty(n, dtype="int32")
    for name in BITWISE:
        yield Sample(f"{name} int32", partial(getattr(tt, name), i, i), dense)
    for name in ("bitwise_not", "abs", "neg", "sign", "relu"):
        yield Sample(f"{name} int32", partial(getattr(tt, name), i), dense)
    for name in ("floor_divide", "remainder", "fmod", "pow", "gcd", "lcm"):
        for dtype in ("int32", "int64"):
            k = empty(n, dtype=dtype)
            yield Sample(f"{name} {dtype}", partial(getattr(tt, name), k, k), dense)


def fake_quantization(capability: int) -> Iterator[Sample]:
    quantize = tt.fake_quantize_per_tensor_affine
    n = 1 << 16
    for dtype in FLOATING:
        kernels = ("fake_quantize",)
        yield Sample(
            f"fake_quantize {dtype}", lambda d=dtype: quantize(empty(n, dtype=d), 0.1, 0, -128, 127), kernels
        )
        yield Sample(
            f"fake_quantize {dtype} by tensors",
            lambda d=dtype: quantize(empty(n, dtype=d), empty(1), empty(1, dtype="int32"), -128, 127),
            kernels,
        )
        yield Sample(
            f"fake_quantize {dtype} to 32 bits",
            lambda d=dtype: quantize(empty(n, dtype=d), 0.1, 0, -(1 << 31), (1 << 31) - 1),
            kernels,
        )


def quantization(capability: int) -> Iterator[Sample]:
    """Yield samples of quantization and dequantization, per tensor and per channel."""
    n, rows = 1 << 16, 256
    quantize, requantize, dequantize = tt._quantize_affine, tt._requantize, tt._dequantize_affine
    scales, zero_points = empty(rows, 1), empty(rows, 1, dtype="int64")
    doubles = empty(rows, 1, dtype="float64")
    for name in ("qint8", "quint8", "qint32", "quint4x2"):
        dtype = getattr(tt, name)
        yield Sample(f"quantize {name}", lambda d=dtype: quantize(empty(n), 0.1, 3, d), ("dense",))
        yield Sample(
            f"quantize {name} by rows",
            lambda d=dtype: quantize(empty(rows, rows), scales, zero_points, d),
        )
    for name in ("qint8", "quint8", "qint32"):
        dtype = getattr(tt, name)
        for source_dtype in ("float32", "int32"):
            yield Sample(
                f"requantize {source_dtype} to {name}",
                lambda d=dtype, g=source_dtype: requantize(empty(n, dtype=g), 0.1, 3, d),
                ("dense",),
            )
    for source_dtype in ("int8", "uint8", "int32"):
        ints = partial(empty, dtype=source_dtype)
        yield Sample(f"dequantize {source_dtype}", lambda e=ints: dequantize(e(n), 0.1, 3), ("dense",))
        for kind, each in (("float32", scales), ("float64", doubles)):
            yield Sample(
                f"dequantize {source_dtype} by rows of {kind}",
                lambda e=ints, s=each: dequantize(e(rows, rows), s, zero_points),
            )


def scaled_and_gradients(x: Any, y: Any) -> dict[str, Callable[[], object]]:
    """Return calls of functions with scalar arguments, and of functions that only gradients call."""
    functional = tt.nn.functional
    calls: dict[str, Callable[[], object]] = {
        "add with alpha": lambda: tt.add(x, y, alpha=2),
        "sub with alpha": lambda: tt.sub(x, y, alpha=2),
        "rsub with alpha": lambda: tt.rsub(x, y, alpha=2),
        "addcmul": lambda: tt.addcmul(x, y, y),
        "addcmul with value": lambda: tt.addcmul(x, y, y, value=2.0),
        "addcdiv": lambda: tt.addcdiv(x, y, y),
        "addcdiv with value": lambda: tt.addcdiv(x, y, y, value=2.0),
        "lerp": lambda: tt.lerp(x, y, y),
        "where": lambda: tt.where(empty(x.numel(), dtype="bool"), x, y),
        "clamp": lambda: x.clamp(0.0, 1.0),
        "masked_fill": lambda: x.masked_fill(empty(x.numel(), dtype="bool"), 2.5),
        "threshold": lambda: functional.threshold(x, 0.5, 1.0),
        "round to places": lambda: tt.round(x, decimals=2),
        "round to tens": lambda: tt.round(x, decimals=-2),
        "div trunc": lambda: tt.div(x, y, rounding_mode="trunc"),
        "div floor": lambda: tt.div(x, y, rounding_mode="floor"),
        "mse_loss each": lambda: gradients(lambda a, b: functional.mse_loss(a, b, reduction="none"), x, y),
    }
    for name in ("sigmoid", "tanh", "relu"):
        calls[f"{name} backward"] = partial(gradients, getattr(tt, name), x)
    for name in ACTIVATIONS:
        calls[f"{name} backward"] = partial(gradients, getattr(functional, name), x)
    calls["gelu by tanh backward"] = lambda: gradients(lambda a: functional.gelu(a, approximate="tanh"), x)
    return calls
