"""Views and shapes of nested tensors of layout ``tt.strided``: the batch stays dimension 0."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ..dispatch.generated import functions as ops
from ..dispatch.tensor import Tensor
from ..runtime.memory_format import memory_format as MemoryFormat
from .strided import STRIDED, StridedNestedTensor, _wrapped


def _mapped(input: StridedNestedTensor, function: Any) -> StridedNestedTensor:
    return StridedNestedTensor([function(each) for each in input._components])


@STRIDED.signature()
def squeeze(input: StridedNestedTensor, dim: int | Sequence[int] | None = None) -> StridedNestedTensor:
    if dim is None:
        raise RuntimeError(
            "squeeze(): For nested tensors, squeeze without the dim argument is not supported at the moment, however "
            "you can use squeeze(Tensor self, int dim) instead"
        )
    dims = [_wrapped(input, each, "squeeze") for each in ([dim] if isinstance(dim, int) else dim)]
    if 0 in dims:
        raise RuntimeError(
            "squeeze(): For nested tensors, squeezing dimension 0 is not supported at the moment"
        )
    alone = [each for each in dims if all(part.shape[each - 1] == 1 for part in input._components)]
    if alone and input.dim() == 2:
        raise RuntimeError(
            "squeeze(): For nested tensors, squeezing a nested tensor of singleton tensors is not supported at the "
            "moment"
        )
    return _mapped(input, lambda part: ops.squeeze(part, [each - 1 for each in alone])) if alone else input


@STRIDED.signature()
def unsqueeze(input: StridedNestedTensor, dim: int) -> StridedNestedTensor:
    dims = input.dim() + 1
    if not -dims <= dim < dims:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-dims}, {dims - 1}], but got {dim})"
        )
    new_dim = dim % dims
    if new_dim == 0:
        raise RuntimeError(
            "unsqueeze(): For nested tensors, unsqueezing dimension 0 is not supported at the moment"
        )
    return _mapped(input, lambda part: part.unsqueeze(new_dim - 1))


@STRIDED.signature("transpose", "swapaxes", "swapdims")
def transpose(input: StridedNestedTensor, dim0: int, dim1: int) -> StridedNestedTensor:
    first, second = _wrapped(input, dim0, "transpose"), _wrapped(input, dim1, "transpose")
    if first == second:
        return input
    if 0 in (first, second):
        raise RuntimeError("Nested tensor dimension 0 cannot be transposed")
    return _mapped(input, lambda part: part.transpose(first - 1, second - 1))


def _columns(parts: Sequence[Sequence[Tensor]]) -> tuple[StridedNestedTensor, ...]:
    return tuple(StridedNestedTensor(each) for each in zip(*parts, strict=True))


@STRIDED.signature()
def chunk(input: StridedNestedTensor, chunks: int, dim: int = 0) -> tuple[StridedNestedTensor, ...]:
    wrapped_dim = _wrapped(input, dim, "split")
    if wrapped_dim == 0:
        raise RuntimeError(
            "Chunk for nested tensors is currently only supported for the last dimension. Got dimension 0 of "
            f"{input.dim()}"
        )
    parts = [each.chunk(chunks, wrapped_dim - 1) for each in input._components]
    if len({len(each) for each in parts}) > 1:
        raise RuntimeError(
            "Chunk for nested tensors is currently only supported for the last dimension. The tensors have "
            f"{[len(each) for each in parts]} chunks along dimension {wrapped_dim}"
        )
    return _columns(parts)


@STRIDED.signature()
def split_with_sizes(
    input: StridedNestedTensor, split_sizes: Sequence[int], dim: int = 0
) -> tuple[StridedNestedTensor, ...]:
    wrapped_dim = _wrapped(input, dim, "split")
    if wrapped_dim != input.dim() - 1 or wrapped_dim == 0:
        raise RuntimeError(
            "split_with_sizes for nested tensors is currently only supported for the last dimension."
        )
    size = input.size(wrapped_dim)
    if sum(split_sizes) != size:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {size} (input tensor's size at dimension "
            f"{wrapped_dim}), but got split_sizes={list(split_sizes)}"
        )
    return _columns([each.split_with_sizes(list(split_sizes), wrapped_dim - 1) for each in input._components])


@STRIDED.signature()
def split(
    tensor: StridedNestedTensor, split_size_or_sections: int | Sequence[int], dim: int = 0
) -> tuple[StridedNestedTensor, ...]:
    sizes = split_size_or_sections
    if isinstance(sizes, int):
        size = tensor.size(_wrapped(tensor, dim, "split"))
        sizes = [min(sizes, size - first) for first in range(0, size, sizes)]
    return split_with_sizes(tensor, sizes, dim)  # type: ignore[no-any-return]


def _reshaped(name: str) -> None:
    def rule(input: StridedNestedTensor, *shape: Any) -> StridedNestedTensor:
        sizes = list(shape[0]) if len(shape) == 1 and isinstance(shape[0], list | tuple) else list(shape)
        if not sizes:
            raise RuntimeError("shape '[]' is invalid for a nested tensor")
        if not len(input):
            raise RuntimeError("empty nested tensor cannot be reshaped")
        if sizes[0] != len(input):
            raise RuntimeError(
                f"{name}: For now nested {name} cannot change or infer the implicit batch dimension, got {sizes}"
            )
        parts = [_sizes_of(each, sizes) for each in input._components]
        for part, each in zip(parts, input._components, strict=True):
            if prod(part) != each.numel():
                raise RuntimeError(f"shape '{sizes}' is invalid for input of size {each.numel()}")
        pairs = zip(input._components, parts, strict=True)
        return StridedNestedTensor([getattr(each, name)(part) for each, part in pairs])

    STRIDED.signature(name)(rule)


def _sizes_of(part: Tensor, sizes: Sequence[int]) -> list[int]:
    """Return the new sizes of a tensor: -1 stands for its size of that dimension, or once for what is left."""
    new_sizes = [
        int(part.shape[dim]) if size == -1 and dim < part.dim() else size
        for dim, size in enumerate(sizes[1:])
    ]
    # One dimension may have another size than before; PyTorch infers it from the others too.
    unknown = [dim for dim, size in enumerate(sizes[1:]) if size == -1]
    if len(unknown) > 1 and len(sizes) - 1 != part.dim():
        raise RuntimeError("only one dimension can be inferred")
    if len(unknown) == 1:
        rest = prod(size for size in sizes[1:] if size != -1)
        if rest and part.numel() % rest == 0:
            new_sizes[unknown[0]] = part.numel() // rest
    return new_sizes


_reshaped("view")
_reshaped("reshape")


@STRIDED.signature()
def is_same_size(input: Any, other: Any) -> bool:
    if not (isinstance(input, StridedNestedTensor) and isinstance(other, StridedNestedTensor)):
        raise RuntimeError("Expected both self and other to be nested tensors.")
    return [each.shape for each in input._components] == [each.shape for each in other._components]


@STRIDED.signature()
def clone(input: StridedNestedTensor, *, memory_format: MemoryFormat | None = None) -> StridedNestedTensor:
    name = getattr(memory_format, "name", "preserve_format")
    if name not in ("preserve_format", "contiguous_format"):
        shown = "".join(word.capitalize() for word in name.split("_"))
        raise RuntimeError(
            "Nested tensor clone supports Preserve and Contiguous memory formats, called clone with memory format: "
            f"{shown}"
        )
    return _mapped(input, lambda part: part.clone(memory_format=memory_format))


@STRIDED.signature()
def copy_(input: Any, src: Any, non_blocking: bool = False) -> Any:
    if not (isinstance(input, StridedNestedTensor) and isinstance(src, StridedNestedTensor)):
        raise RuntimeError(
            "copy_ only supports Nested tensors, got "
            f"{type(input).__name__} and {type(src).__name__}; copy the tensors of unbind() one by one"
        )
    if not is_same_size(input, src):
        raise RuntimeError("copy_ only supports tensors that are the same size for Nested implementations")
    for target, source in zip(input._components, src._components, strict=True):
        target.copy_(source, non_blocking)
    return input
