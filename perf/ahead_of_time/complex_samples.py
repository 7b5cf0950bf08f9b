"""Calls of elementwise operators on complex numbers.

Every function in complex64, the longest also in complex128, and in complex32 those that it has."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from ...triton_kernels.elementwise import pointwise
from .sample import Sample, empty, tt

PAIRS = ("pairs",)
BESIDE = {"complex32": "int32", "complex64": "float32", "complex128": "float64"}
# fmt: off
UNARY = (
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "conj_physical", "cos", "cosh", "exp", "exp2", "expm1",
    "log", "log10", "log1p", "log2", "logical_not", "nan_to_num", "neg", "reciprocal", "rsqrt",
    "sgn", "sigmoid", "sin", "sinc", "sinh", "sqrt", "tan", "tanh",
)
LONG_UNARY = ("acosh", "atan", "cos", "sinh", "sqrt", "tanh")
HALF_UNARY = ("abs", "acosh", "conj_physical", "cos", "exp", "neg", "rsqrt", "sgn", "sinh", "sqrt", "tanh")
HALF_BINARY = ("add", "div", "eq", "logaddexp", "mul", "ne", "pow", "rsub", "sub")
BINARY = ("add", "div", "eq", "logaddexp", "logical_and", "logical_or", "logical_xor", "mul", "ne", "pow", "rsub",
          "sub")
# fmt: on
SIZES = (512, 1024)


def functions() -> list[Any]:
    """Return the complex functions, each of which some sample must launch."""
    return [*pointwise.COMPLEX.values(), *pointwise.REAL_OF_COMPLEX.values()]


def numbers(dtype: str, *sizes: int) -> Any:
    """Return a complex tensor."""
    return tt.empty(sizes, dtype=getattr(tt, dtype), device="cuda")


def complex_numbers(capability: int) -> Iterator[Sample]:
    for dtype, beside in BESIDE.items():
        x, y = numbers(dtype, *SIZES), numbers(dtype, *SIZES)
        yield Sample(f"add {dtype}", lambda x=x, y=y: x + y, PAIRS)
        yield Sample(f"add {dtype} of slices", lambda x=x: x[:, :512] + x[:, 512:], PAIRS)
        real = empty(SIZES[1], dtype=beside)
        yield Sample(f"add {dtype} of a row of real numbers", lambda x=x, real=real: x + real, PAIRS)
        yield Sample(f"add {dtype} transposed", lambda d=dtype, x=x: numbers(d, 1024, 512).t() + x)
        yield Sample(f"add {dtype}, every second column", lambda x=x: x[:, ::2] + 1)
        yield Sample(f"mul {dtype} by a number", lambda x=x: x * 2.5j, PAIRS)
        yield Sample(f"copy {dtype} transposed", lambda x=x: x.t().contiguous())
        yield Sample(
            f"copy {dtype} to its parts", lambda x=x, d=dtype: empty(*SIZES, dtype="bool").copy_(x == x)
        )
        yield Sample(f"eq {dtype} of slices", lambda x=x: x[:, :512] == x[:, 512:])
        yield Sample(
            f"fill {dtype}", lambda d=dtype: tt.full((4096,), 1j, dtype=getattr(tt, d), device="cuda"), PAIRS
        )
        yield Sample(f"copy float32 to {dtype}", lambda d=dtype: empty(*SIZES).to(getattr(tt, d)))
    functions = (HALF_UNARY, HALF_BINARY), (UNARY, BINARY), (LONG_UNARY, ("div", "pow"))
    for dtype, (unary, binary) in zip(BESIDE, functions, strict=True):
        x, y = numbers(dtype, *SIZES), numbers(dtype, *SIZES)
        for name in unary:
            yield Sample(f"{name} {dtype}", partial(getattr(tt, name), x))
        for name in binary:
            yield Sample(f"{name} {dtype}", partial(getattr(tt, name), x, y))
    x, y = numbers("complex64", *SIZES), numbers("complex64", *SIZES)
    for name, function in others(x, y).items():
        yield Sample(f"{name} complex64", function)


def others(x: Any, y: Any) -> dict[str, Any]:
    """Functions of three operands, with numbers, or of gradients."""
    return {
        "add with alpha": lambda: tt.add(x, y, alpha=2j),
        "sub with alpha": lambda: tt.sub(x, y, alpha=2j),
        "rsub with alpha": lambda: tt.rsub(x, y, alpha=2j),
        "addcmul": lambda: tt.addcmul(x, x, y),
        "addcmul with value": lambda: tt.addcmul(x, x, y, value=2j),
        "addcdiv": lambda: tt.addcdiv(x, x, y),
        "addcdiv with value": lambda: tt.addcdiv(x, x, y, value=2j),
        "lerp": lambda: tt.lerp(x, x, y),
        "where": lambda: tt.where(empty(*SIZES, dtype="bool"), x, y),
        "masked_fill": lambda: x.masked_fill(empty(*SIZES, dtype="bool"), 2j),
        "silu": lambda: tt.nn.functional.silu(x),
        "sigmoid_backward": lambda: tt.ops.aten.sigmoid_backward(x, y),
        "tanh_backward": lambda: tt.ops.aten.tanh_backward(x, y),
        "silu_backward": lambda: tt.ops.aten.silu_backward(x, y),
    }
