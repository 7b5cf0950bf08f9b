"""Schemas of the operators over lists of tensors (``aten::_foreach_*``), known before `foreach` is loaded.

PyTorch's overloads with ``out=`` lists are left out.
"""

from __future__ import annotations

from collections.abc import Iterator

UNARY = (
    "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac", "lgamma",
    "log", "log10", "log1p", "log2", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt",
    "tan", "tanh", "trunc",
)  # fmt: skip
"""Unary operators."""

BINARY = ("add", "sub", "mul", "div", "pow", "clamp_max", "clamp_min", "maximum", "minimum")
"""Operators of a tensor and another operand: a number for all tensors, or a list with one tensor or number for each."""

TERNARY = ("addcdiv", "addcmul")
"""Operators of three tensors and a number."""

_BY_TENSOR = ("add", "mul", "div")
_SCALED = ("add", "sub")


def _with_inplace(name: str, overload: str, arguments: str) -> Iterator[str]:
    """Yield the schemas of a functional operator and of its in-place form."""
    suffix = f".{overload}" if overload else ""
    parameters = f", {arguments}" if arguments else ""
    yield f"_foreach_{name}{suffix}(Tensor[] self{parameters}) -> Tensor[]"
    yield f"_foreach_{name}_{suffix}(Tensor(a!)[] self{parameters}) -> ()"


def _schemas() -> Iterator[str]:
    for name in UNARY:
        yield from _with_inplace(name, "", "")
    for name in BINARY:
        other, scalar, scalars = ("exponent",) * 3 if name == "pow" else ("other", "scalar", "scalars")
        alpha = ", *, Scalar alpha=1" if name in _SCALED else ""
        if name in _BY_TENSOR:
            yield from _with_inplace(name, "Tensor", f"Tensor {other}{alpha}")
        yield from _with_inplace(name, "Scalar", f"Scalar {scalar}")
        yield from _with_inplace(name, "List", f"Tensor[] {other}{alpha}")
        yield from _with_inplace(name, "ScalarList", f"Scalar[] {scalars}")
    yield "_foreach_pow.ScalarAndTensor(Scalar self, Tensor[] exponent) -> Tensor[]"
    for name in TERNARY:
        tensors = "Tensor[] tensor1, Tensor[] tensor2"
        yield from _with_inplace(name, "Tensor", f"{tensors}, Tensor scalars")
        yield from _with_inplace(name, "Scalar", f"{tensors}, Scalar value=1")
        yield from _with_inplace(name, "ScalarList", f"{tensors}, Scalar[] scalars")
    yield from _with_inplace("lerp", "List", "Tensor[] tensors1, Tensor[] weights")
    yield from _with_inplace("lerp", "Scalar", "Tensor[] tensors1, Scalar weight")
    yield from _with_inplace("lerp", "ScalarList", "Tensor[] tensors1, Scalar[] weight")
    for name in ("norm", "powsum"):
        yield f"_foreach_{name}.Scalar(Tensor[] self, Scalar ord=2, ScalarType? dtype=None) -> Tensor[]"
    yield "_foreach_max(Tensor[] self) -> Tensor[]"
    yield "_foreach_mm(Tensor[] self, Tensor[] mat2) -> Tensor[]"
    yield "_foreach_clone(Tensor[] self, *, MemoryFormat? memory_format=None) -> Tensor[]"
    yield "_foreach_copy_(Tensor(a!)[] self, Tensor[] src, bool non_blocking=False) -> ()"
    yield "_foreach_zero_(Tensor(a!)[] self) -> ()"


SCHEMAS = {f"aten::{schema.partition('(')[0]}": f"aten::{schema}" for schema in _schemas()}
"""Schemas by the operators' full names."""
