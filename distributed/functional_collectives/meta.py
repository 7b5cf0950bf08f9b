"""Meta kernels of the collective operators: shapes and dtypes of their outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...dispatch.generated import functions as ops
from ...dispatch.tensor import Tensor
from ...runtime.memory_format import contiguous_format

Shape = tuple[int, ...]


def gathered_shape(shape: Sequence[int], group_size: int) -> Shape:
    """Return the shape of the tensors of `group_size` ranks, concatenated along dimension 0."""
    return (group_size * shape[0], *shape[1:]) if shape else (group_size,)


def scattered_shape(shape: Sequence[int], group_size: int) -> Shape:
    """Return the shape of one rank's part.

    Raises:
        RuntimeError: the rows cannot be divided.
    """
    if not shape or shape[0] % group_size:
        raise RuntimeError(
            f"reduce_scatter_tensor: expected an input whose first dimension is divisible by group_size {group_size}, "
            f"but got shape {list(shape)}"
        )
    return (shape[0] // group_size, *shape[1:])


def exchanged_shape(shape: Sequence[int], output_split_sizes: Sequence[int]) -> Shape:
    """Return the shape of the rows received from all ranks. Empty sizes mean equal parts, and the input's
    shape.

    Raises:
        RuntimeError: a size is negative, or there are no rows to divide.
    """
    if not output_split_sizes:
        return tuple(shape)
    if min(output_split_sizes) < 0 or not shape:
        raise RuntimeError(
            f"all_to_all_single: expected an input of one dimension or more and sizes of at least 0, but got shape "
            f"{list(shape)} and output_split_sizes {list(output_split_sizes)}"
        )
    return (sum(output_split_sizes), *shape[1:])


def _like(input: Tensor, *_: object) -> Tensor:
    return ops.empty_like(input, memory_format=contiguous_format)


def _all_like(inputs: Sequence[Tensor], *_: object) -> list[Tensor]:
    return [_like(each) for each in inputs]


def _itself(input: Tensor | Sequence[Tensor], *_: object) -> Tensor | Sequence[Tensor]:
    return input


def _all_gather(input: Tensor, group_size: int, group_name: str) -> Tensor:
    return input.new_empty(gathered_shape(input.shape, group_size))


def _all_gather_coalesced(inputs: Sequence[Tensor], group_size: int, group_name: str) -> list[Tensor]:
    return [_all_gather(each, group_size, group_name) for each in inputs]


def _reduce_scatter(input: Tensor, reduce_op: str, group_size: int, group_name: str) -> Tensor:
    return input.new_empty(scattered_shape(input.shape, group_size))


def _reduce_scatter_coalesced(
    inputs: Sequence[Tensor], reduce_op: str, group_size: int, group_name: str
) -> list[Tensor]:
    return [_reduce_scatter(each, reduce_op, group_size, group_name) for each in inputs]


def _all_to_all(
    input: Tensor, output_split_sizes: Sequence[int], input_split_sizes: Sequence[int], group_name: str
) -> Tensor:
    return input.new_empty(exchanged_shape(input.shape, output_split_sizes))


def _waited(tensor: Tensor) -> Tensor:
    return ops.empty_like(tensor)


def _out(*arguments: object) -> object:
    return arguments[-1]


KERNELS: dict[str, Callable[..., Any]] = {
    "all_reduce": _like,
    "all_reduce_": _itself,
    "all_reduce_coalesced": _all_like,
    "all_reduce_coalesced_": _itself,
    "all_gather_into_tensor": _all_gather,
    "all_gather_into_tensor_out": _out,
    "all_gather_into_tensor_coalesced": _all_gather_coalesced,
    "reduce_scatter_tensor": _reduce_scatter,
    "reduce_scatter_tensor_out": _out,
    "reduce_scatter_tensor_coalesced": _reduce_scatter_coalesced,
    "all_to_all_single": _all_to_all,
    "broadcast": _like,
    "broadcast_": _itself,
    "wait_tensor": _waited,
    "_wrap_tensor_autograd": _waited,
}
