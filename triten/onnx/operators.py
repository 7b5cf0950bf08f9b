"""Translations of operators to ONNX nodes.

A translation is a function of the `Builder`, the `Step` and the operator's ATen arguments, in which names of values
replace tensors. It returns the name of the result, or a tuple of names with None for a result that is not translated.
`TRANSLATIONS` maps operator names to translations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..dispatch.iterator.type_promotion import promote_types
from ..runtime.scalar_type import bool_, int64
from ..runtime.scalar_type import dtype as ScalarType
from ..runtime.tensor_spec import TensorSpec
from .builder import Builder
from .errors import UnsupportedOperatorError


class Step(NamedTuple):
    """An operator call to translate.

    `target` is the operator's name. `result` has the specs of its results. `specs` and `named` have the specs of its
    positional and keyword arguments.
    """

    target: str
    result: Any
    specs: tuple[Any, ...]
    named: dict[str, Any]

    def refuse(self, why: str) -> UnsupportedOperatorError:
        """Return the error for a call that has no translation, for the caller to raise."""
        return UnsupportedOperatorError(f"onnx.export: {self.target}: {why}")

    @property
    def dtype(self) -> ScalarType:
        """The dtype of the first result."""
        spec = self.result[0] if isinstance(self.result, tuple) else self.result
        dtype: ScalarType = spec.dtype
        return dtype

    def spec(self, position: int = 0) -> TensorSpec:
        """Return the spec of a tensor argument, by position."""
        spec: TensorSpec = self.specs[position]
        return spec

    @property
    def rank(self) -> int:
        """The number of dimensions of the first argument."""
        return self.spec().ndim


Translation = Callable[..., Any]
TRANSLATIONS: dict[str, Translation] = {}


def translates(*names: str) -> Callable[[Translation], Translation]:
    """Return a decorator that registers a translation for operators."""

    def enter(function: Translation) -> Translation:
        TRANSLATIONS.update(dict.fromkeys(names, function))
        return function

    return enter


# Pointwise

UNARY = (
    "abs:Abs ceil:Ceil cos:Cos cosh:Cosh erf:Erf exp:Exp floor:Floor isinf:IsInf isnan:IsNaN log:Log logical_not:Not "
    "neg:Neg reciprocal:Reciprocal relu:Relu round:Round sigmoid:Sigmoid sign:Sign sin:Sin sinh:Sinh sqrt:Sqrt tan:Tan "
    "tanh:Tanh acos:Acos asin:Asin atan:Atan clone:Identity alias:Identity detach:Identity lift_fresh_copy:Identity"
)


def _unary(kind: str) -> Translation:
    def translate(b: Builder, step: Step, x: str, **_: Any) -> str:
        source_dtype = step.spec().dtype
        dtype = step.dtype if step.dtype is not bool_ else source_dtype
        return b(kind, b.cast(x, source_dtype, dtype))

    return translate


for _name, _kind in (pair.split(":") for pair in UNARY.split()):
    TRANSLATIONS[f"{_name}.default"] = _unary(_kind)


def _operand(b: Builder, step: Step, value: Any, position: int, dtype: ScalarType) -> str:
    if isinstance(value, str):
        return b.cast(value, step.spec(position).dtype, dtype)
    return b.number(value, dtype)


def _common(step: Step, a: Any, b: Any) -> ScalarType:
    """Return the dtype that a comparison's operands are promoted to."""
    if isinstance(a, str) and isinstance(b, str):
        return promote_types(step.spec(0).dtype, step.spec(1).dtype)
    number, tensor = (b, step.spec(0)) if isinstance(a, str) else (a, step.spec(1))
    if isinstance(number, float) and not tensor.dtype.is_floating_point:
        from ..runtime.scalar_type import get_default_dtype

        return get_default_dtype()
    return tensor.dtype


def _binary(kind: str, compares: bool = False) -> Translation:
    def translate(b: Builder, step: Step, x: Any, y: Any, *, alpha: Any = 1) -> str:
        dtype = _common(step, x, y) if compares else step.dtype
        left, right = _operand(b, step, x, 0, dtype), _operand(b, step, y, 1, dtype)
        if alpha != 1:
            right = b("Mul", right, b.number(alpha, dtype))
        return b(kind, left, right)

    return translate


for _name, _kind in (
    pair.split(":")
    for pair in ["add:Add", "sub:Sub", "mul:Mul", "div:Div", "logical_and:And", "logical_or:Or"]
):
    for _overload in ("Tensor", "Scalar", "default"):
        TRANSLATIONS[f"{_name}.{_overload}"] = _binary(_kind)
for _name, _kind in (
    pair.split(":") for pair in ["eq:Equal", "lt:Less", "le:LessOrEqual", "gt:Greater", "ge:GreaterOrEqual"]
):
    for _overload in ("Tensor", "Scalar"):
        TRANSLATIONS[f"{_name}.{_overload}"] = _binary(_kind, compares=True)
TRANSLATIONS["maximum.default"], TRANSLATIONS["minimum.default"] = _binary("Max"), _binary("Min")
for _overload in ("Tensor_Tensor", "Tensor_Scalar", "Scalar"):
    TRANSLATIONS[f"pow.{_overload}"] = _binary("Pow")


@translates("ne.Tensor", "ne.Scalar")
def _not_equal(b: Builder, step: Step, x: Any, y: Any) -> str:
    return b("Not", _binary("Equal", compares=True)(b, step, x, y))


@translates("rsub.Scalar", "rsub.Tensor")
def _subtracted(b: Builder, step: Step, x: Any, y: Any, alpha: Any = 1) -> str:
    left = _operand(b, step, x, 0, step.dtype)
    if alpha != 1:
        left = b("Mul", left, b.number(alpha, step.dtype))
    return b("Sub", _operand(b, step, y, 1, step.dtype), left)


@translates("where.self")
def _where(b: Builder, step: Step, condition: str, x: str, y: str) -> str:
    return b(
        "Where",
        condition,
        b.cast(x, step.spec(1).dtype, step.dtype),
        b.cast(y, step.spec(2).dtype, step.dtype),
    )


@translates("masked_fill.Scalar")
def _filled(b: Builder, step: Step, x: str, mask: str, value: Any) -> str:
    return b("Where", mask, b.number(value, step.dtype), x)


@translates("rsqrt.default")
def _reciprocal_root(b: Builder, step: Step, x: str) -> str:
    return b("Reciprocal", b("Sqrt", x))


@translates("square.default")
def _squared(b: Builder, step: Step, x: str) -> str:
    return b("Mul", x, x)


@translates("silu.default")
def _silu(b: Builder, step: Step, x: str) -> str:
    return b("Mul", x, b("Sigmoid", x))


@translates("gelu.default")
def _gelu(b: Builder, step: Step, x: str, *, approximate: str = "none") -> str:
    def number(value: float) -> str:
        return b.number(value, step.dtype)

    if approximate == "tanh":
        cubed = b("Mul", number(0.044715), b("Mul", x, b("Mul", x, x)))
        inner = b("Tanh", b("Mul", number(math.sqrt(2 / math.pi)), b("Add", x, cubed)))
    else:
        inner = b("Erf", b("Mul", x, number(math.sqrt(0.5))))
    return b("Mul", b("Mul", x, number(0.5)), b("Add", inner, number(1.0)))


@translates("elu.default")
def _elu(b: Builder, step: Step, x: str, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> str:
    if scale != 1 and input_scale == 1:
        return b("Selu", x, alpha=float(alpha), gamma=float(scale))
    if input_scale != 1:
        raise step.refuse(f"input_scale must be 1, got {input_scale}")
    return b("Elu", x, alpha=float(alpha))


@translates("leaky_relu.default")
def _leaky(b: Builder, step: Step, x: str, negative_slope: float = 0.01) -> str:
    return b("LeakyRelu", x, alpha=float(negative_slope))


@translates("mish.default")
def _mish(b: Builder, step: Step, x: str) -> str:
    return b("Mul", x, b("Tanh", b("Softplus", x)))


@translates("log_sigmoid.default")
def _log_sigmoid(b: Builder, step: Step, x: str) -> str:
    return b("Neg", b("Softplus", b("Neg", x)))


@translates(
    "bitwise_and.Tensor",
    "bitwise_or.Tensor",
    "bitwise_xor.Tensor",
    "bitwise_and.Scalar",
    "bitwise_or.Scalar",
    "bitwise_not.default",
)
def _bits(b: Builder, step: Step, *operands: Any) -> str:
    kind = step.target.partition(".")[0].removeprefix("bitwise_").capitalize()
    inputs = [_operand(b, step, x, i, step.dtype) for i, x in enumerate(operands)]
    return b(kind if step.dtype is bool_ else f"Bitwise{kind}", *inputs)


@translates("_prelu_kernel.default")
def _prelu(b: Builder, step: Step, x: str, weight: str) -> str:
    return b("PRelu", x, weight)


@translates("softplus.default")
def _softplus(b: Builder, step: Step, x: str, beta: float = 1, threshold: float = 20) -> str:
    if beta == 1:
        return b("Softplus", x)
    factor = b.number(beta, step.dtype)
    return b("Div", b("Softplus", b("Mul", x, factor)), factor)


@translates("hardsigmoid.default")
def _hardsigmoid(b: Builder, step: Step, x: str) -> str:
    return b("HardSigmoid", x, alpha=1 / 6, beta=0.5)


@translates("hardswish.default")
def _hardswish(b: Builder, step: Step, x: str) -> str:
    return b("Mul", x, _hardsigmoid(b, step, x))


@translates("clamp.default", "hardtanh.default")
def _clamp(b: Builder, step: Step, x: str, min: Any = None, max: Any = None) -> str:
    if step.target.startswith("hardtanh"):
        min, max = -1 if min is None else min, 1 if max is None else max
    limits = ["" if limit is None else b.number(limit, step.dtype) for limit in (min, max)]
    return b("Clip", b.cast(x, step.spec().dtype, step.dtype), *limits)


@translates("clamp_min.default", "clamp_max.default")
def _limited(b: Builder, step: Step, x: str, limit: Any) -> str:
    name = "min" if "min" in step.target else "max"
    return str(_clamp(b, step, x, **{name: limit}))


@translates("_to_copy.default")
def _converted(b: Builder, step: Step, x: str, **_: Any) -> str:
    return b("Cast", x, to=b.kind_of(step.dtype))


# Matmuls and convolutions


@translates("mm.default", "bmm.default", "matmul.default")
def _product(b: Builder, step: Step, x: str, y: str) -> str:
    return b("MatMul", x, y)


@translates("addmm.default", "baddbmm.default")
def _added_product(
    b: Builder, step: Step, bias: str, x: str, y: str, *, beta: Any = 1, alpha: Any = 1
) -> str:
    product = b("MatMul", x, y)
    if alpha != 1:
        product = b("Mul", product, b.number(alpha, step.dtype))
    if beta == 0:
        return product
    return b("Add", product, bias if beta == 1 else b("Mul", bias, b.number(beta, step.dtype)))


@translates("convolution.default")
def _convolution(
    b: Builder,
    step: Step,
    x: str,
    weight: str,
    bias: str | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> str:
    inputs = [x, weight] if bias is None else [x, weight, bias]
    common = {
        "strides": list(stride),
        "pads": [*padding, *padding],
        "dilations": list(dilation),
        "group": groups,
    }
    if transposed:
        return b("ConvTranspose", *inputs, output_padding=list(output_padding), **common)
    return b("Conv", *inputs, **common)


@translates(
    "_scaled_dot_product_flash_attention_for_cpu.default",
    "_scaled_dot_product_efficient_attention.default",
    "_scaled_dot_product_flash_attention.default",
)
def _attention(
    b: Builder,
    step: Step,
    query: str,
    key: str,
    value: str,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *_: Any,
    attn_mask: str | None = None,
    scale: float | None = None,
    **__: Any,
) -> tuple[str, ...]:
    if dropout_p:
        raise step.refuse("dropout is for training")
    width, dtype = step.spec().sizes[-1], step.dtype
    turned = b("Transpose", key, perm=[*range(step.rank - 2), step.rank - 1, step.rank - 2])
    factor = b.number(1 / math.sqrt(width) if scale is None else scale, dtype)
    scores = b("MatMul", b("Mul", query, factor), turned)
    if is_causal:
        shape = b(
            "Slice", b("Shape", scores), b.integers(step.rank - 2), b.integers(step.rank), b.integers(0)
        )
        lower = b("Trilu", b("Expand", b.number(1, dtype), shape), upper=0)
        scores = b("Where", b("Cast", lower, to=b.kind_of(bool_)), scores, b.number(-math.inf, dtype))
    if attn_mask is not None:
        if step.named["attn_mask"].dtype is bool_:
            attn_mask = b("Where", attn_mask, b.number(0, dtype), b.number(-math.inf, dtype))
        scores = b("Add", scores, attn_mask)
    return (b("MatMul", b("Softmax", scores, axis=-1), value),)


# Normalization


@translates("_softmax.default")
def _softmax(b: Builder, step: Step, x: str, dim: int, half_to_float: bool) -> str:
    return b("Softmax", b.cast(x, step.spec().dtype, step.dtype), axis=dim)


@translates("_log_softmax.default")
def _log_softmax(b: Builder, step: Step, x: str, dim: int, half_to_float: bool) -> str:
    return b("LogSoftmax", b.cast(x, step.spec().dtype, step.dtype), axis=dim)


@translates("_native_batch_norm_legit_no_training.default")
def _batch_norm(
    b: Builder,
    step: Step,
    x: str,
    weight: str | None,
    bias: str | None,
    mean: str,
    variance: str,
    momentum: float,
    eps: float,
) -> tuple[str | None, ...]:
    channels = step.spec().sizes[1]
    weight = weight or b.constant(np.ones(channels, step.dtype.np), "ones")
    bias = bias or b.constant(np.zeros(channels, step.dtype.np), "zeros")
    return b("BatchNormalization", x, weight, bias, mean, variance, epsilon=eps), None, None


@translates("native_layer_norm.default")
def _layer_norm(
    b: Builder, step: Step, x: str, shape: Sequence[int], weight: str | None, bias: str | None, eps: float
) -> tuple[str | None, ...]:
    weight = weight or b.constant(np.ones(shape, step.dtype.np), "ones")
    inputs = [x, weight] if bias is None else [x, weight, bias]
    return b("LayerNormalization", *inputs, axis=-len(shape), epsilon=eps), None, None


@translates("native_group_norm.default")
def _group_norm(
    b: Builder,
    step: Step,
    x: str,
    weight: str | None,
    bias: str | None,
    batch: int,
    channels: int,
    area: int,
    groups: int,
    eps: float,
) -> tuple[str | None, ...]:
    kind = step.dtype.np
    parts = b("Reshape", x, b.integers(0, groups, -1))
    ones, zeros = b.constant(np.ones(groups, kind), "ones"), b.constant(np.zeros(groups, kind), "zeros")
    normalized = b("Reshape", b("InstanceNormalization", parts, ones, zeros, epsilon=eps), b("Shape", x))
    sizes = (channels, *[1] * (step.rank - 2))
    for kind_of_node, each in (("Mul", weight), ("Add", bias)):
        if each is not None:
            normalized = b(kind_of_node, normalized, b("Reshape", each, b.integers(*sizes)))
    return normalized, None, None


@translates("_native_batch_norm_legit.no_stats")
def _norm_by_its_own(
    b: Builder,
    step: Step,
    x: str,
    weight: str | None,
    bias: str | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[str | None, ...]:
    dims = b.integers(*(dim for dim in range(step.rank) if dim != 1))
    centered = b("Sub", x, b("ReduceMean", x, dims, keepdims=1))
    variance = b("ReduceMean", b("Mul", centered, centered), dims, keepdims=1)
    normalized = b("Div", centered, b("Sqrt", b("Add", variance, b.number(eps, step.dtype))))
    shape = b.integers(-1, *[1] * (step.rank - 2))
    for kind, each in (("Mul", weight), ("Add", bias)):
        if each is not None:
            normalized = b(kind, normalized, b("Reshape", each, shape))
    return normalized, None, None


# Pooling and resizing


def _each(values: Sequence[int], count: int) -> list[int]:
    return [*values] * count if len(values) == 1 else [*values]


@translates("max_pool2d_with_indices.default", "max_pool3d_with_indices.default")
def _max_pool(
    b: Builder,
    step: Step,
    x: str,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> tuple[str | None, ...]:
    count = 3 if "3d" in step.target else 2
    if step.rank != count + 2:
        raise step.refuse(f"expected {count + 2} dimensions, got {step.rank}")
    kernel = _each(kernel, count)
    pooled = b(
        "MaxPool",
        x,
        kernel_shape=kernel,
        strides=_each(stride, count) or kernel,
        pads=_each(padding, count) * 2,
        dilations=_each(dilation, count),
        ceil_mode=int(ceil_mode),
    )
    return pooled, None


@translates("avg_pool2d.default", "avg_pool3d.default")
def _avg_pool(
    b: Builder,
    step: Step,
    x: str,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> str:
    count = 3 if "3d" in step.target else 2
    if step.rank != count + 2 or divisor_override is not None:
        raise step.refuse(f"expected {count + 2} dimensions and no divisor_override")
    kernel = _each(kernel, count)
    return b(
        "AveragePool",
        x,
        kernel_shape=kernel,
        strides=_each(stride, count) or kernel,
        pads=_each(padding, count) * 2,
        ceil_mode=int(ceil_mode),
        count_include_pad=int(count_include_pad),
    )


@translates("_adaptive_avg_pool2d.default", "_adaptive_avg_pool3d.default")
def _adaptive_avg_pool(b: Builder, step: Step, x: str, sizes: Sequence[int]) -> str:
    input_sizes = step.spec().sizes[-len(sizes) :]
    if (
        any(in_size % out_size for in_size, out_size in zip(input_sizes, sizes, strict=True))
        or step.rank != len(sizes) + 2
    ):
        raise step.refuse(f"sizes {list(input_sizes)} are no multiples of {list(sizes)}")
    kernel = [in_size // out_size for in_size, out_size in zip(input_sizes, sizes, strict=True)]
    return b("AveragePool", x, kernel_shape=kernel, strides=kernel)


@translates("upsample_nearest1d.default", "upsample_nearest2d.default", "upsample_nearest3d.default")
def _nearest(b: Builder, step: Step, x: str, sizes: Sequence[int], *_: Any) -> str:
    return _resized(b, step, x, sizes, "nearest", "asymmetric")


@translates("upsample_linear1d.default", "upsample_bilinear2d.default", "upsample_trilinear3d.default")
def _linear(b: Builder, step: Step, x: str, sizes: Sequence[int], align_corners: bool, *_: Any) -> str:
    return _resized(b, step, x, sizes, "linear", "align_corners" if align_corners else "half_pixel")


def _resized(b: Builder, step: Step, x: str, sizes: Sequence[int], mode: str, transformation: str) -> str:
    # Batch and channels stay, whatever they are.
    batch_and_channels = b("Slice", b("Shape", x), b.integers(0), b.integers(2), b.integers(0))
    output_sizes = b("Concat", batch_and_channels, b.integers(*sizes), axis=0)
    return b(
        "Resize",
        x,
        "",
        "",
        output_sizes,
        mode=mode,
        coordinate_transformation_mode=transformation,
        nearest_mode="floor" if mode == "nearest" else None,
    )


# Reductions


def _reduced(kind: str) -> Translation:
    def translate(
        b: Builder, step: Step, x: str, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
    ) -> str:
        x = b.cast(x, step.spec().dtype, step.dtype)
        dims = [dim] if isinstance(dim, int) else list(dim or ())
        return b(kind, x, b.integers(*dims) if dims else "", keepdims=int(keepdim))

    return translate


REDUCTIONS = (
    "sum.default:ReduceSum sum.dim_IntList:ReduceSum mean.default:ReduceMean mean.dim:ReduceMean "
    "amax.default:ReduceMax amin.default:ReduceMin max.default:ReduceMax min.default:ReduceMin"
)
for _name, _kind in (pair.split(":") for pair in REDUCTIONS.split()):
    TRANSLATIONS[_name] = _reduced(_kind)


@translates("argmax.default", "argmin.default")
def _place_of(b: Builder, step: Step, x: str, dim: int | None = None, keepdim: bool = False) -> str:
    kind = "ArgMax" if "argmax" in step.target else "ArgMin"
    if dim is None:
        return b("Squeeze", b(kind, b("Reshape", x, b.integers(-1)), axis=0, keepdims=0))
    return b(kind, x, axis=dim, keepdims=int(keepdim))


@translates("var.correction")
def _variance(
    b: Builder, step: Step, x: str, dim: Any = None, *, correction: Any = None, keepdim: bool = False
) -> str:
    dims = [*range(step.rank)] if dim is None else [dim] if isinstance(dim, int) else list(dim)
    count = math.prod(step.spec().sizes[each] for each in dims)
    centred = b("Sub", x, b("ReduceMean", x, b.integers(*dims), keepdims=1))
    total = b("ReduceSum", b("Mul", centred, centred), b.integers(*dims), keepdims=int(keepdim))
    return b("Div", total, b.number(count - (1 if correction is None else correction), step.dtype))


@translates("var.dim", "std.dim")
def _variance_of(
    b: Builder, step: Step, x: str, dim: Any, unbiased: bool = True, keepdim: bool = False
) -> str:
    variance = _variance(b, step, x, dim, correction=int(unbiased), keepdim=keepdim)
    return b("Sqrt", variance) if step.target.startswith("std") else variance


@translates("var.default", "std.default")
def _variance_of_all(b: Builder, step: Step, x: str, unbiased: bool = True) -> str:
    return str(_variance_of(b, step, x, None, unbiased))


@translates("std.correction")
def _deviation(b: Builder, step: Step, x: str, dim: Any = None, **options: Any) -> str:
    return b("Sqrt", _variance(b, step, x, dim, **options))


@translates("linalg_vector_norm.default")
def _norm(
    b: Builder, step: Step, x: str, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> str:
    kinds = {1: "ReduceL1", 2: "ReduceL2", math.inf: "ReduceMax"}
    if ord not in kinds:
        raise step.refuse(f"ord must be 1, 2 or inf, got {ord}")
    if ord == math.inf:
        x = b("Abs", x)
    return str(_reduced(kinds[ord])(b, step, x, dim, keepdim))


# Shapes


Sizes = Sequence[int | str]
"""Sizes: an int, or the name of a value for a size that depends on a dynamic axis."""


def _listed(b: Builder, sizes: Sizes) -> str:
    if not any(isinstance(size, str) for size in sizes):
        return b.integers(*(size for size in sizes if isinstance(size, int)))
    return b("Concat", *(size if isinstance(size, str) else b.integers(size) for size in sizes), axis=0)


@translates("view.default", "_unsafe_view.default", "reshape.default")
def _reshaped(b: Builder, step: Step, x: str, sizes: Sizes) -> str:
    # A 0 copies the input's size in the same dimension, unless the result has no elements.
    return b("Reshape", x, _listed(b, sizes), allowzero=1 if step.result.numel == 0 else None)


@translates("t.default")
def _matrix_turned(b: Builder, step: Step, x: str) -> str:
    return x if step.rank < 2 else b("Transpose", x, perm=[1, 0])


@translates("transpose.int")
def _turned(b: Builder, step: Step, x: str, dim0: int, dim1: int) -> str:
    order = [*range(step.rank)]
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return b("Transpose", x, perm=order)


@translates("permute.default")
def _permuted(b: Builder, step: Step, x: str, dims: Sequence[int]) -> str:
    return b("Transpose", x, perm=[dim % step.rank for dim in dims])


@translates("unsqueeze.default")
def _unsqueezed(b: Builder, step: Step, x: str, dim: int) -> str:
    return b("Unsqueeze", x, b.integers(dim))


@translates("squeeze.dim", "squeeze.dims", "squeeze.default")
def _squeezed(b: Builder, step: Step, x: str, dim: Any = None) -> str:
    sizes = step.spec().sizes
    dims = range(step.rank) if dim is None else [dim] if isinstance(dim, int) else dim
    unit_dims = [each for each in dims if sizes[each] == 1]
    return b("Squeeze", x, b.integers(*unit_dims)) if unit_dims else b("Identity", x)


@translates("expand.default")
def _expanded(b: Builder, step: Step, x: str, sizes: Sizes, **_: Any) -> str:
    # In Expand a size of 1 keeps the input's size.
    return b("Expand", x, _listed(b, [1 if size == -1 else size for size in sizes]))


@translates("repeat.default")
def _repeated(b: Builder, step: Step, x: str, repeats: Sequence[int]) -> str:
    new = len(repeats) - step.rank
    if new:
        x = b("Unsqueeze", x, b.integers(*range(new)))
    return b("Tile", x, b.integers(*repeats))


@translates("cat.default")
def _joined(b: Builder, step: Step, tensors: Sequence[str], dim: int = 0) -> str:
    values = [b.cast(x, spec.dtype, step.dtype) for x, spec in zip(tensors, step.specs[0], strict=True)]
    return b("Concat", *values, axis=dim)


@translates("stack.default")
def _stacked(b: Builder, step: Step, tensors: Sequence[str], dim: int = 0) -> str:
    return b("Concat", *[b("Unsqueeze", x, b.integers(dim)) for x in tensors], axis=dim)


@translates("split.Tensor", "split_with_sizes.default")
def _parts(b: Builder, step: Step, x: str, sizes: Any, dim: int = 0) -> tuple[str, ...]:
    lengths = [spec.sizes[dim] for spec in step.result]
    return tuple(b.many("Split", [x, b.integers(*lengths)], len(lengths), axis=dim))


@translates("unbind.int")
def _unbound(b: Builder, step: Step, x: str, dim: int = 0) -> tuple[str, ...]:
    return tuple(b("Gather", x, b.number(i, int64), axis=dim) for i in range(len(step.result)))


@translates("slice.Tensor")
def _sliced(
    b: Builder, step: Step, x: str, dim: int = 0, start: Any = None, end: Any = None, stride: int = 1
) -> str:
    limits = (0 if start is None else start, 2**63 - 1 if end is None else end)
    return b("Slice", x, *[b.integers(each) for each in (*limits, dim, stride)])


@translates("select.int")
def _selected(b: Builder, step: Step, x: str, dim: int, index: int) -> str:
    return b("Gather", x, b.number(index, int64), axis=dim)


@translates("constant_pad_nd.default")
def _padded(b: Builder, step: Step, x: str, pad: Sequence[int], value: Any = 0) -> str:
    dims = [(step.rank - 1 - i) for i in range(len(pad) // 2)]
    before, after = [pad[2 * i] for i in range(len(dims))], [pad[2 * i + 1] for i in range(len(dims))]
    return b("Pad", x, b.integers(*before, *after), b.number(value, step.dtype), b.integers(*dims))


@translates("embedding.default")
def _embedding(b: Builder, step: Step, weight: str, indices: str, *_: Any) -> str:
    return b("Gather", weight, indices, axis=0)


@translates("index_select.default")
def _gathered_rows(b: Builder, step: Step, x: str, dim: int, index: str) -> str:
    return b("Gather", x, index, axis=dim)


@translates("index.Tensor")
def _indexed(b: Builder, step: Step, x: str, indices: Sequence[str | None]) -> str:
    indexed_dims = [dim for dim, index in enumerate(indices) if index is not None]
    if len(indexed_dims) != 1 or step.specs[1][indexed_dims[0]].dtype is bool_:
        raise step.refuse("more than one tensor of indices, or a mask")
    return b("Gather", x, indices[indexed_dims[0]] or "", axis=indexed_dims[0])


@translates("gather.default")
def _gathered(b: Builder, step: Step, x: str, dim: int, index: str, **_: Any) -> str:
    return b("GatherElements", x, index, axis=dim)


@translates("tril.default", "triu.default")
def _triangle(b: Builder, step: Step, x: str, diagonal: int = 0) -> str:
    return b("Trilu", x, b.number(diagonal, int64), upper=int("triu" in step.target))
