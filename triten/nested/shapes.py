"""Views and shapes of jagged tensors: the batch stays dimension 0, and the ragged dimension stays whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..dispatch.generated import functions as ops
from ..dispatch.tensor import Tensor
from ..runtime.device import device as Device
from ..runtime.memory_format import memory_format as MemoryFormat
from ..runtime.scalar_type import float64
from .nested_tensor import JAGGED, NestedTensor
from .padding import inner_dim, wrapped
from .ragged import Raggedness, RaggedSize


def _shown(sizes: Sequence[Any]) -> str:
    return f"({', '.join(map(str, sizes))})"


@JAGGED.signature()
def size(input: NestedTensor, dim: int | None = None) -> Any:
    return input.shape if dim is None else input.shape[wrapped(input, dim, "size")]


@JAGGED.signature()
def stride(input: NestedTensor, dim: int | None = None) -> Any:
    inner: list[Any] = list(input._packed.stride())
    outer = max(range(len(inner)), key=lambda i: (inner[i], -i)) if inner else 0
    batch = inner[outer] * input.shape[outer + 1] if inner else 1
    strides = (batch, *inner)
    return strides if dim is None else strides[wrapped(input, dim, "stride")]


@JAGGED.signature("numel", "nelement")
def numel(input: NestedTensor) -> int:
    return int(input.packed()._packed.numel())


@JAGGED.signature()
def is_contiguous(input: NestedTensor, memory_format: MemoryFormat | None = None) -> bool:
    return input._raggedness.lengths is None and input._packed.is_contiguous()


@JAGGED.signature()
def contiguous(input: NestedTensor, memory_format: MemoryFormat | None = None) -> NestedTensor:
    packed = input.packed()
    return packed.like(packed._packed.contiguous())


@JAGGED.signature()
def is_same_size(input: Any, other: Any) -> bool:
    return bool(input.shape == other.shape)


@JAGGED.signature()
def equal(input: Any, other: Any) -> bool:
    if (
        not (isinstance(input, NestedTensor) and isinstance(other, NestedTensor))
        or input.shape != other.shape
    ):
        return False
    return bool(ops.equal(input.packed()._packed, other.packed()._packed))


@JAGGED.signature()
def unbind(input: NestedTensor, dim: int = 0) -> tuple[Tensor, ...]:
    if wrapped(input, dim, "unbind") != 0:
        raise RuntimeError(f"unbind(): only supported for NestedTensor on dim=0, got dim={dim}")
    ragged_dim = input._ragged_idx - 1
    return tuple(
        input._packed.narrow(ragged_dim, start, length) for start, length in input._raggedness.bounds
    )


@JAGGED.signature()
def transpose(input: NestedTensor, dim0: int, dim1: int) -> NestedTensor:
    first, second = wrapped(input, dim0, "transpose"), wrapped(input, dim1, "transpose")
    if first == second:
        return input
    if 0 in (first, second):
        raise ValueError("Transpose is not supported on the batch dimension for jagged NT")
    ragged = {first: second, second: first}.get(input._ragged_idx, input._ragged_idx)
    return input.like(input._packed.transpose(first - 1, second - 1), ragged)


JAGGED.rules["swapaxes"] = JAGGED.rules["swapdims"] = JAGGED.rules["transpose"]


@JAGGED.signature("mT.__get__")
def transposed(input: NestedTensor) -> NestedTensor:
    return transpose(input, -2, -1)  # type: ignore[no-any-return]


@JAGGED.signature()
def permute(input: NestedTensor, *dims: Any) -> NestedTensor:
    requested = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
    order = [wrapped(input, each, "permute") for each in requested]
    if sorted(order) != list(range(input.dim())):
        raise ValueError(f"permute(): expected each of {input.dim()} dimensions once, got {tuple(requested)}")
    if order[0] != 0:
        raise ValueError("Permute is not supported on the batch dimension for jagged NT")
    inner = [each - 1 for each in order[1:]]
    return input.like(input._packed.permute(inner), order.index(input._ragged_idx))


def _sizes(shape: Sequence[Any]) -> list[Any]:
    return list(shape[0]) if len(shape) == 1 and isinstance(shape[0], list | tuple) else list(shape)


def _inner_sizes(input: NestedTensor, shape: Sequence[Any], name: str) -> tuple[list[int], int]:
    """Return the sizes of the values for a nested tensor's sizes, and the position of the ragged one."""
    own = input._raggedness.size
    refused = RuntimeError(f"{name}(): cannot view shape {_shown(input.shape)} as {list(shape)}")
    if len(shape) < 2 or shape[0] not in (len(input), -1):
        raise refused
    ragged_dims = [i for i, each in enumerate(shape) if isinstance(each, RaggedSize)]
    if not ragged_dims and shape[0] != -1:
        ragged_dims = [i for i, each in enumerate(shape) if each == -1 and type(each) is int]
    if len(ragged_dims) != 1 or (
        isinstance(shape[ragged_dims[0]], RaggedSize) and shape[ragged_dims[0]] != own
    ):
        raise refused
    before = input.shape[1 : input._ragged_idx].numel()
    sizes = list(shape)
    sizes[ragged_dims[0]] = int(input._packed.shape[input._ragged_idx - 1])
    if -1 not in sizes[1 : ragged_dims[0]]:
        product = 1
        for each in sizes[1 : ragged_dims[0]]:
            product *= each
        if product != before:
            raise refused
    return sizes[1:], ragged_dims[0]


def _viewing(name: str) -> None:
    def rule(input: NestedTensor, *shape: Any, **named: Any) -> NestedTensor:
        requested = shape or (named.get("shape", named.get("size")),)
        dtype = named.get("dtype", requested[0] if len(requested) == 1 else None)
        if not isinstance(dtype, int | list | tuple | RaggedSize) and dtype is not None:
            return input.like(input._packed.view(dtype))
        sizes, ragged = _inner_sizes(input, _sizes(requested), name)
        return input.like(getattr(input._packed, name)(sizes), ragged)

    JAGGED.signature(name)(rule)


_viewing("view")
_viewing("reshape")


@JAGGED.signature("view_as", "reshape_as")
def view_as(input: NestedTensor, other: Tensor) -> NestedTensor:
    sizes, ragged = _inner_sizes(input, list(other.shape), "view_as")
    return input.like(input._packed.view(sizes), ragged)


@JAGGED.signature()
def unflatten(input: NestedTensor, dim: int, sizes: Sequence[int]) -> NestedTensor:
    values_dim = inner_dim(input, dim, "unflatten")
    ragged = input._ragged_idx + (len(sizes) - 1 if values_dim + 1 < input._ragged_idx else 0)
    return input.like(input._packed.unflatten(values_dim, tuple(sizes)), ragged)


@JAGGED.signature()
def flatten(input: NestedTensor, start_dim: int = 0, end_dim: int = -1) -> NestedTensor:
    start, end = wrapped(input, start_dim, "flatten"), wrapped(input, end_dim, "flatten")
    if start == end:
        return input
    for each in range(start, end + 1):
        inner_dim(input, each, "flatten")
    ragged = input._ragged_idx - (end - start if end < input._ragged_idx else 0)
    return input.like(input._packed.flatten(start - 1, end - 1), ragged)


@JAGGED.signature()
def unsqueeze(input: NestedTensor, dim: int) -> NestedTensor:
    dims = input.dim() + 1
    if not -dims <= dim < dims:
        raise IndexError(f"unsqueeze(): Dimension out of range, expected [{-dims}, {dims - 1}], got {dim}")
    new_dim = dim % dims
    if new_dim == 0:
        raise RuntimeError("unsqueeze(): not supported for NestedTensor on dim=0")
    return input.like(
        input._packed.unsqueeze(new_dim - 1), input._ragged_idx + (new_dim <= input._ragged_idx)
    )


@JAGGED.signature()
def squeeze(input: NestedTensor, dim: Any = None) -> NestedTensor:
    if dim is None:
        raise RuntimeError("squeeze(): expected dim for a nested tensor, got None")
    requested = [dim] if isinstance(dim, int) else list(dim)
    inner = [
        each for each in (inner_dim(input, d, "squeeze") for d in requested) if input._packed.shape[each] == 1
    ]
    return input.like(
        input._packed.squeeze(inner), input._ragged_idx - sum(e + 1 < input._ragged_idx for e in inner)
    )


@JAGGED.signature("expand", "broadcast_to")
def expand(input: NestedTensor, *sizes: Any, **named: Any) -> NestedTensor:
    requested = _sizes(sizes or (named["size"],))
    own = input.shape
    if len(requested) != len(own) or any(
        requested[each] not in (own[each], -1) for each in (0, input._ragged_idx)
    ):
        raise RuntimeError(f"expand(): cannot expand shape {_shown(own)} -> {list(requested)}")
    inner = [-1 if isinstance(each, RaggedSize) else each for each in requested[1:]]
    return input.like(input._packed.expand(inner))


@JAGGED.signature()
def expand_as(input: Tensor, other: Tensor) -> NestedTensor:
    if isinstance(input, NestedTensor):
        return expand(input, other.shape)  # type: ignore[no-any-return]
    zero = ops.zeros_like(other, dtype=input.dtype)
    return input + zero  # type: ignore[return-value]


@JAGGED.signature()
def select(input: NestedTensor, dim: int, index: int) -> Tensor:
    if wrapped(input, dim, "select") == 0:
        bounds = input._raggedness.bounds
        if not -len(bounds) <= index < len(bounds):
            raise IndexError(f"select(): index {index} out of range for a batch of {len(bounds)} sequences")
        return input._packed.narrow(input._ragged_idx - 1, *bounds[index])
    values_dim = inner_dim(input, dim, "select")
    return input.like(
        input._packed.select(values_dim, index), input._ragged_idx - (values_dim + 1 < input._ragged_idx)
    )


@JAGGED.signature()
def narrow(input: NestedTensor, dim: int, start: int, length: int) -> NestedTensor:
    return input.like(input._packed.narrow(inner_dim(input, dim, "narrow"), start, length))


@JAGGED.signature("__getitem__")
def subscript(input: NestedTensor, index: Any) -> Tensor:
    codes = list(index) if isinstance(index, tuple) else [index]
    taken = sum(each is not None and each is not Ellipsis for each in codes)
    if Ellipsis in [each for each in codes if not isinstance(each, Tensor)]:
        position = next(i for i, each in enumerate(codes) if each is Ellipsis)
        codes[position : position + 1] = [slice(None)] * (input.dim() - taken)
    if codes and isinstance(codes[0], int) and not isinstance(codes[0], bool):
        chosen = select(input, 0, codes[0])
        return chosen[tuple(codes[1:])] if len(codes) > 1 else chosen  # type: ignore[no-any-return]
    result, dim = input, 0
    for each in codes:
        if isinstance(each, slice):
            if each != slice(None):
                values_dim = inner_dim(result, dim, "slice")
                cut = (slice(None),) * values_dim + (each,)
                result = result.like(result._packed[cut])
            dim += 1
        elif each is None:
            result, dim = unsqueeze(result, dim), dim + 1
        elif isinstance(each, int) and not isinstance(each, bool):
            result = select(result, dim, each)
        else:
            raise RuntimeError(
                f"__getitem__(): expected integers, slices, None and ... in a subscript of a nested tensor, got "
                f"{type(each).__name__}"
            )
    return result


@JAGGED.signature()
def chunk(input: NestedTensor, chunks: int, dim: int = 0) -> tuple[NestedTensor, ...]:
    if wrapped(input, dim, "chunk") != 0:
        return tuple(input.like(each) for each in input._packed.chunk(chunks, inner_dim(input, dim, "chunk")))
    packed = input.packed()
    values_dim, bounds = packed._ragged_idx - 1, packed._raggedness.bounds
    each = -(-len(bounds) // chunks)
    made = []
    for first in range(0, len(bounds), each):
        part = bounds[first : first + each]
        lengths = [length for _, length in part]
        values = packed._packed.narrow(values_dim, part[0][0], sum(lengths))
        made.append(
            NestedTensor(values, Raggedness.of_lengths(lengths, Device(values.device)), values_dim + 1)
        )
    return tuple(made)


@JAGGED.signature("split", "split_with_sizes")
def split(
    input: NestedTensor, split_size_or_sections: Any = None, dim: int = 0, **named: Any
) -> tuple[Any, ...]:
    sizes = split_size_or_sections
    if sizes is None:
        sizes = named.get("split_size", named.get("split_sizes"))
    values_dim = inner_dim(input, dim, "split")
    return tuple(input.like(each) for each in input._packed.split(sizes, values_dim))


def _same(tensors: Sequence[Any], name: str) -> NestedTensor:
    first = next(each for each in tensors if isinstance(each, NestedTensor))
    for each in tensors:
        if (
            not isinstance(each, NestedTensor)
            or each._raggedness.size != first._raggedness.size
            or each._ragged_idx != first._ragged_idx
        ):
            raise RuntimeError(
                f"{name}(): expected nested tensors of the same sequences, got shapes {_shown(first.shape)} and "
                f"{_shown(each.shape)}"
            )
    return first


@JAGGED.signature("cat", "concat", "concatenate")
def cat(tensors: Sequence[Any], dim: int = 0) -> NestedTensor:
    first = next(each for each in tensors if isinstance(each, NestedTensor))
    values_dim = inner_dim(first, dim, "cat")
    _same(tensors, "cat")
    return first.like(ops.cat([each._packed for each in tensors], values_dim))


@JAGGED.signature()
def stack(tensors: Sequence[Any], dim: int = 0) -> NestedTensor:
    first = _same(tensors, "stack")
    dims = first.dim() + 1
    if dim % dims == 0:
        raise RuntimeError("stack(): not supported for NestedTensor on dim=0")
    values_dim = dim % dims - 1
    return first.like(
        ops.stack([each._packed for each in tensors], values_dim),
        first._ragged_idx + (values_dim < first._ragged_idx),
    )


@JAGGED.signature()
def masked_select(input: NestedTensor, mask: NestedTensor) -> NestedTensor:
    if input.dim() != 2:
        raise RuntimeError(
            f"masked_select only support 2-D selections currently, got {input.dim()} dimensions"
        )
    _same([input, mask], "masked_select")
    packed, chosen = input.packed(), mask.packed()._packed
    counts = ops.segment_reduce(chosen.to(float64), "sum", offsets=packed._raggedness.offsets)
    offsets = ops.constant_pad_nd(counts.to(packed.offsets().dtype).cumsum(0), [1, 0])
    return NestedTensor(packed._packed.masked_select(chosen), Raggedness.of(offsets))


@JAGGED.signature()
def item(input: NestedTensor) -> Any:
    return input.packed()._packed.item()


def _refused(name: str) -> None:
    def rule(input: NestedTensor, *args: Any, **named: Any) -> Any:
        raise RuntimeError(f".{name}() is not supported for tensor subclasses, got NestedTensor")

    JAGGED.signature(name)(rule)


_refused("tolist")
_refused("numpy")
_refused("__array__")
