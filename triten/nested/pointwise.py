"""Calls that leave the sequences as they are: they are made with the values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..dispatch.layers.overrides.rule_table import name_of
from ..dispatch.tensor import Tensor
from .nested_tensor import JAGGED, NestedTensor, nested_in, values_of
from .ragged import unpad


def _shapes(values: Sequence[Any]) -> str:
    return " and ".join(f"({', '.join(map(str, v.shape))})" for v in values if isinstance(v, Tensor))


@JAGGED.rule(
    "pointwise",
    "where",
    "masked_fill",
    "masked_fill_",
    "lerp",
    "addcmul",
    "addcdiv",
    "clamp",
    "copy_",
    "frexp",
)
def pointwise(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Run a pointwise operator. Other nested tensors have the same sequences; dense tensors broadcast.

    Raises:
        RuntimeError: Nested tensors have different sequences or numbers of dimensions.
    """
    nested = nested_in(args, kwargs)
    first = nested[0]
    for other in nested[1:]:
        if (
            other._raggedness.size != first._raggedness.size
            or other._ragged_idx != first._ragged_idx
            or other.dim() != first.dim()
        ):
            raise RuntimeError(
                f"cannot call binary pointwise function {name_of(func)} with inputs of shapes {_shapes(nested)}"
            )
    arguments = [*args, *kwargs.values()]
    if any(isinstance(each, Tensor) and each is not first for each in arguments):
        moved = first.packed() if any(_needs_rows(each, first) for each in arguments) else first
        values = [_aligned(each, first, moved, func) for each in arguments]
    else:
        moved, values = first, [first._packed if each is first else each for each in arguments]
    result = func(*values[: len(args)], **dict(zip(kwargs, values[len(args) :], strict=True)))
    if isinstance(result, Tensor):
        if result is moved._packed:
            return args[0]
        return moved.like(result)
    return type(result)(moved.like(each) for each in result) if isinstance(result, tuple) else result


def _needs_rows(value: Any, nested: NestedTensor) -> bool:
    return (
        isinstance(value, Tensor)
        and not value.is_nested
        and value.dim() == nested.dim()
        and value.shape[0] != 1
    )


def _aligned(value: Any, nested: NestedTensor, packed: NestedTensor, func: Any) -> Any:
    """Align an argument so that it broadcasts with the values of `packed`, which is `nested` without holes."""
    if isinstance(value, NestedTensor):
        return (value if packed is nested else value.packed())._packed
    if not isinstance(value, Tensor) or value.dim() == 0:
        return value
    dims, ragged = nested.dim(), nested._ragged_idx
    sizes = (1,) * (dims - value.dim()) + tuple(value.shape)
    if value.dim() <= dims and sizes[0] == 1 and sizes[ragged] == 1:
        return value if value.dim() < dims else value.squeeze(0)
    raggedness = packed._raggedness
    if value.dim() == dims and sizes[0] in (1, raggedness.batch_size):
        if sizes[ragged] == 1:
            return value.squeeze(ragged).index_select(0, raggedness.rows).movedim(0, ragged - 1)
        if sizes[ragged] == raggedness.max_seqlen:
            whole = value.expand(raggedness.batch_size, *value.shape[1:])
            return unpad(whole, raggedness, ragged)
    if value.dim() > dims:
        raise NotImplementedError(
            f"{name_of(func)}(): broadcasting a nested tensor with a dense one of more dimensions is not supported, "
            f"got shapes {_shapes([nested, value])}"
        )
    raise RuntimeError(
        f"cannot call binary pointwise function {name_of(func)} with inputs of shapes {_shapes([nested, value])}"
    )


_VALUEWISE = (
    "dropout dropout_ alpha_dropout alpha_dropout_ feature_alpha_dropout relu relu6 hardtanh gelu silu mish elu selu "
    "celu leaky_relu rrelu logsigmoid hardswish hardsigmoid softplus softshrink hardshrink tanhshrink threshold clone "
    "detach detach_ requires_grad_ retain_grad zeros_like ones_like empty_like full_like rand_like randn_like "
    "randint_like fill fill_ zero_ bernoulli bernoulli_ uniform_ normal_ exponential_ to type type_as cpu cuda float "
    "double half bfloat16 int long short char byte bool cfloat cdouble pin_memory share_memory_ embedding one_hot "
    "alias positive"
)
VALUEWISE = _VALUEWISE.split()
"""Calls whose result has a row for each position of the packed dimension, whatever the values are."""


@JAGGED.rule(*VALUEWISE)
def valuewise(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Run a call on the values and wrap its result; an unchanged value returns the nested tensor itself."""
    first = nested_in(args, kwargs)[0]
    result = func(*values_of(tuple(args)), **{name: values_of(value) for name, value in kwargs.items()})
    return first.like(result) if isinstance(result, Tensor) else result


ASKED = (
    "is_floating_point is_complex is_signed is_pinned is_shared is_conj is_neg is_inference element_size type"
)
ASKED += " data_ptr get_device has_names apply_"


@JAGGED.rule(
    *ASKED.split(),
    *[
        f"{name}.__get__"
        for name in ("dtype", "device", "is_cuda", "is_cpu", "is_meta", "itemsize", "is_sparse")
    ],
    *[
        f"{name}.__get__"
        for name in ("is_quantized", "is_mps", "retains_grad", "_version", "output_nr", "is_xla")
    ],
)
def asked(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Answer a query from the values."""
    return func(*values_of(tuple(args)), **kwargs)


LOSSES = "mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits"


@JAGGED.rule(*LOSSES.split(), "kl_div")
def loss(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Run a pointwise loss; a reduction covers the elements of all sequences.

    Raises:
        RuntimeError: The nested tensors have different sequences.
    """
    nested = [each.packed() for each in nested_in(args, kwargs)]
    first = nested[0]
    if any(each._raggedness.size != first._raggedness.size for each in nested[1:]):
        raise RuntimeError(
            f"{name_of(func)}(): expected inputs of the same sequences, got shapes {_shapes(nested)}"
        )

    def packed(value: Any) -> Any:
        return value.packed()._packed if isinstance(value, NestedTensor) else value

    result = func(*map(packed, args), **{name: packed(value) for name, value in kwargs.items()})
    return first.like(result) if result.dim() == first._packed.dim() and result.dim() else result
