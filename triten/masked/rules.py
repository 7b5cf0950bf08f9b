"""Rules by which public calls handle masked tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..autograd import backward as run_backward
from ..autograd import grad as run_grad
from ..dispatch.generated import functions as ops
from ..dispatch.layers.overrides.rule_table import name_of
from ..dispatch.tensor import Tensor
from ..runtime.layout import layout as Layout
from ..runtime.layout import sparse_coo, sparse_csr, strided
from ..runtime.scalar_type import bool_
from . import operators
from .masked_tensor import MASKED, MaskedTensor, data_of, dense_of, mask_of, masked
from .sparse import specifies_same, with_values


def _masked_in(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[MaskedTensor]:
    return [each for each in (*args, *kwargs.values()) if isinstance(each, MaskedTensor)]


def _masks_match(first: Tensor, second: Tensor) -> bool:
    if first is second:
        return True
    if first.layout is not second.layout or first.dim() != second.dim():
        return False
    if first.layout is strided:
        return bool((first == second).all())
    same = first.shape == second.shape and specifies_same(first, second)
    return same and bool((first.values() == second.values()).all())


def _of_values(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Apply a pointwise operator to the values of sparse masked tensors with the same mask."""
    first = _masked_in(args, kwargs)[0]
    for each in (*args, *kwargs.values()):
        if isinstance(each, Tensor) and not isinstance(each, MaskedTensor) and each.dim():
            raise TypeError(
                f"{name_of(func)}(): a sparse MaskedTensor needs MaskedTensors or numbers as operands"
            )

    def values_of(each: Any) -> Any:
        return each._masked_data.values() if isinstance(each, MaskedTensor) else each

    values = values_of(first)
    operands = [values if each is first else values_of(each) for each in args]
    result = func(*operands, **{name: values_of(value) for name, value in kwargs.items()})
    return first if result is values else masked(with_values(first._masked_data, result), first._masked_mask)


def _wrapped(data: Any, mask: Any) -> Any:
    if isinstance(data, list | tuple):
        return type(data)(_wrapped(d, m) for d, m in zip(data, mask, strict=True))
    return masked(data, mask)


@MASKED.rule("pointwise", "relu", "dropout")
def pointwise(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Apply a pointwise operator; masked tensors must have the same mask, which the result keeps.

    Raises:
        ValueError: The masks differ.
    """
    operands = _masked_in(args, kwargs)
    first = operands[0]._masked_mask
    for each in operands[1:]:
        if not _masks_match(each._masked_mask, first):
            raise ValueError(f"{name_of(func)}(): Input masks must match.")
    if first.layout is not strided:
        return _of_values(func, args, kwargs)
    result = func(*data_of(tuple(args)), **{name: data_of(value) for name, value in kwargs.items()})
    if result is operands[0]._masked_data:
        return operands[0]
    return masked(result, first.expand_as(result) if first.shape != result.shape else first)


_PASSED = (
    "select transpose t split chunk unbind narrow expand view reshape unsqueeze squeeze flatten unflatten permute "
    "movedim swapaxes swapdims flip roll unfold cat concat stack index_select gather take_along_dim repeat tile "
    "contiguous clone detach diagonal broadcast_to tril triu __getitem__"
)


@MASKED.rule(*_PASSED.split(), "T.__get__", "mT.__get__")
def passed(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call a function that moves elements with the data, and again with the mask."""
    filled = [_filled(each) for each in args]
    data = func(*data_of(tuple(filled)), **{name: data_of(_filled(value)) for name, value in kwargs.items()})
    mask = func(*mask_of(tuple(filled)), **{name: mask_of(_filled(value)) for name, value in kwargs.items()})
    return _wrapped(data, mask)


def _filled(value: Any) -> Any:
    """Return a list with masked and plain tensors as masked tensors."""
    if not isinstance(value, list | tuple) or not any(isinstance(each, MaskedTensor) for each in value):
        return value
    return [
        each if isinstance(each, MaskedTensor) else masked(each, ops.ones_like(each, dtype=bool_))
        for each in value
    ]


_CONVERTED = (
    "to type type_as cpu cuda float double half int long short char bool pin_memory "
    "ones_like zeros_like empty_like full_like rand_like randn_like fill_ zero_ requires_grad_ retain_grad detach_"
)


@MASKED.rule(*_CONVERTED.split())
def converted(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call a function that returns other data under the same mask."""
    first = _masked_in(args, kwargs)[0]
    result = func(*data_of(tuple(args)), **{name: data_of(value) for name, value in kwargs.items()})
    if result is first._masked_data:
        return first
    return masked(result, first._masked_mask.to(result.device)) if isinstance(result, Tensor) else result


_ASKED = "size stride dim ndimension numel nelement element_size is_contiguous is_floating_point is_complex is_signed"
_PROPERTIES = (
    "shape ndim dtype device layout is_cuda is_cpu is_meta is_sparse is_sparse_csr is_nested itemsize"
)
_PROPERTIES += " is_quantized retains_grad"


@MASKED.rule(*_ASKED.split(), "__len__", "get_device", *[f"{each}.__get__" for each in _PROPERTIES.split()])
def asked(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Answer a query from the data."""
    return func(*data_of(tuple(args)), **kwargs)


@MASKED.signature()
def to_dense(input: MaskedTensor, dtype: Any = None, **named: Any) -> MaskedTensor:
    if input._masked_data.layout is strided and dtype is None:
        return input
    return masked(input._masked_data.to_dense(dtype, **named), dense_of(input._masked_mask))


def _to_layout(name: str, layout: Layout) -> None:
    def rule(input: MaskedTensor) -> MaskedTensor:
        if input._masked_data.layout is layout:
            return input
        mask = getattr(dense_of(input._masked_mask), name)()
        return masked(dense_of(input._masked_data).sparse_mask(mask), mask)

    MASKED.signature(name)(rule)


_to_layout("to_sparse", sparse_coo)
_to_layout("to_sparse_coo", sparse_coo)
_to_layout("to_sparse_csr", sparse_csr)


@MASKED.signature()
def where(condition: Any, input: Any = None, other: Any = None, **named: Any) -> MaskedTensor:
    parts = [each if isinstance(each, Tensor) else ops.scalar_tensor(each) for each in (input, other)]
    masks = [mask_of(e) if isinstance(e, MaskedTensor) else ops.ones_like(e, dtype=bool_) for e in parts]
    return masked(ops.where(condition, *map(data_of, parts)), ops.where(condition, *masks))


@MASKED.signature()
def item(input: MaskedTensor) -> Any:
    if input._masked_data.numel() == 1 and not bool(input._masked_mask):
        raise ValueError("item(): expected an element that is not masked out")
    return input._masked_data.item()


@MASKED.signature()
def copy_(input: MaskedTensor, other: Any, non_blocking: bool = False) -> MaskedTensor:
    if isinstance(other, MaskedTensor) and not bool((input._masked_mask == other._masked_mask).all()):
        raise ValueError("copy_(): the masks of both tensors must match")
    input._masked_data.copy_(data_of(other), non_blocking)
    return input


def _any(mask: Tensor, dim: Any, keepdim: bool) -> Tensor:
    return mask.any() if dim is None else mask.any(dim, keepdim)


def _reduction(name: str, function: Callable[..., Tensor]) -> None:
    def rule(input: MaskedTensor, dim: Any = None, keepdim: bool = False, **named: Any) -> MaskedTensor:
        input = to_dense(input)
        named = {each: value for each, value in named.items() if value is not None}
        result = function(input, dim=dim, keepdim=keepdim, **named)
        return masked(result, _any(input._masked_mask, dim, keepdim))

    MASKED.signature(name)(rule)


for _name in ("sum", "mean", "amin", "amax", "argmin", "argmax", "prod", "logsumexp"):
    _reduction(_name, getattr(operators, _name))


def _logical(name: str, neutral: bool) -> None:
    operator = getattr(ops, name)

    def logical(input: MaskedTensor, dim: Any, keepdim: bool) -> Tensor:
        data = (input._masked_data != 0).masked_fill(~input._masked_mask, neutral)
        return operator(data) if dim is None else operator(data, dim, keepdim)  # type: ignore[no-any-return]

    _reduction(name, logical)


_logical("all", True)
_logical("any", False)


def _deviation(name: str) -> None:
    function = getattr(operators, name)

    def rule(
        input: MaskedTensor,
        dim: Any = None,
        unbiased: Any = None,
        keepdim: bool = False,
        *,
        correction: Any = None,
    ) -> MaskedTensor:
        input = to_dense(input)
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        result = function(input, dim, unbiased, correction=correction, keepdim=keepdim)
        return masked(result, _any(input._masked_mask, dim, keepdim))

    MASKED.signature(name)(rule)


_deviation("var")
_deviation("std")


@MASKED.signature("norm", "linalg_vector_norm")
def norm(
    input: MaskedTensor,
    ord: Any = 2.0,
    dim: Any = None,
    keepdim: bool = False,
    dtype: Any = None,
    **named: Any,
) -> MaskedTensor:
    input = to_dense(input)
    order = named.pop("p", ord)
    result = operators.norm(
        input, 2.0 if order in (None, "fro") else order, dim, keepdim=keepdim, dtype=dtype
    )
    return masked(result, _any(input._masked_mask, dim, keepdim))


@MASKED.signature()
def median(input: MaskedTensor, dim: int = -1, keepdim: bool = False) -> MaskedTensor:
    input = to_dense(input)
    return masked(operators.median(input, dim, keepdim=keepdim), _any(input._masked_mask, dim, keepdim))


def _normalization(name: str) -> None:
    function = getattr(operators, name)

    def rule(input: MaskedTensor, dim: int, dtype: Any = None, *, _stacklevel: int = 3) -> MaskedTensor:
        return masked(function(input, dim, dtype=dtype), input._masked_mask)

    MASKED.signature(name)(rule)


for _name in ("softmax", "log_softmax", "softmin", "cumsum", "cumprod"):
    _normalization(_name)


@MASKED.signature("grad")
def grad(outputs: Any, inputs: Any, grad_outputs: Any = None, **named: Any) -> tuple[Any, ...]:
    input_list = inputs if isinstance(inputs, list | tuple) else [inputs]
    gradients = run_grad(data_of(outputs), data_of(input_list), data_of(grad_outputs), **named)
    return tuple(
        masked(gradient, each._masked_mask)
        if isinstance(each, MaskedTensor) and gradient is not None
        else gradient
        for each, gradient in zip(input_list, gradients, strict=True)
    )


@MASKED.signature("backward")
def backward(tensors: Any = None, grad_tensors: Any = None, *args: Any, **named: Any) -> None:
    tensors = named.pop("input", tensors)
    grad_tensors = named.pop("gradient", grad_tensors)
    named["inputs"] = data_of(named.get("inputs"))
    run_backward(data_of(tensors), data_of(grad_tensors), *args, **named)


def _refused(name: str) -> None:
    def rule(input: Any, *args: Any, **named: Any) -> Any:
        raise RuntimeError(
            f".{name}() is not supported for tensor subclasses, got MaskedTensor; to_tensor(value) is one"
        )

    MASKED.signature(name)(rule)


for _name in ("numpy", "tolist", "__array__"):
    _refused(_name)
