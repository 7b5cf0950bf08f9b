"""Batches cut into microbatches, and results put together (`torch.distributed.pipelining.microbatch`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...dispatch.generated.functions import cat, tensor_split
from ...dispatch.tensor import Tensor
from ...utils._pytree import tree_flatten, tree_map, tree_unflatten

__all__ = ["TensorChunkSpec", "merge_chunks", "split_args_kwargs_into_chunks"]


class TensorChunkSpec:
    """The dimension along which a tensor is cut (`torch.distributed.pipelining.microbatch.TensorChunkSpec`).

    Args:
        split_dim: the dimension.

    Example:
        >>> from triten.distributed.pipelining import TensorChunkSpec
        >>> TensorChunkSpec.from_tuple((0, 1))
        (TensorChunkSpec(0), TensorChunkSpec(1))
    """

    def __init__(self, split_dim: int) -> None:
        self.split_dim = split_dim

    def __repr__(self) -> str:
        return f"TensorChunkSpec({self.split_dim})"

    @staticmethod
    def from_tuple(chunk_dims: tuple[int, ...]) -> Any:
        """Return the specs of positional arguments."""
        return tree_map(TensorChunkSpec, chunk_dims)

    @staticmethod
    def from_dict(chunk_dims: dict[str, int]) -> Any:
        """Return the specs of keyword arguments."""
        return tree_map(TensorChunkSpec, chunk_dims)


def split_tensor(tensor: Tensor, spec: TensorChunkSpec, chunks: int) -> list[Tensor]:
    """Split a tensor into chunks. Raise ValueError if it is shorter than the number of chunks."""
    if tensor.shape[spec.split_dim] < chunks:
        raise ValueError(
            f"a tensor of shape {list(tensor.shape)} cannot be split into {chunks} microbatches along dimension "
            f"{spec.split_dim}"
        )
    return list(tensor_split(tensor, chunks, spec.split_dim))


def _default(value: Any) -> Any:
    return TensorChunkSpec(0) if isinstance(value, Tensor) else None


def _split(values: Any, spec: Any, chunks: int, name: str) -> list[Any]:
    leaves, tree = tree_flatten(values)
    if spec is None:
        specs = [_default(leaf) for leaf in leaves]
    else:
        specs, _ = tree_flatten(spec, is_leaf=lambda each: each is None)
        if len(specs) != len(leaves):
            raise ValueError(f"{name}: expected {len(leaves)} specs, one for each value, but got {spec}")
    columns: list[Sequence[Any]] = []
    for leaf, each in zip(leaves, specs, strict=True):
        is_cut = isinstance(each, TensorChunkSpec) and isinstance(leaf, Tensor)
        columns.append(split_tensor(leaf, each, chunks) if is_cut else [leaf] * chunks)
    return [tree_unflatten([column[number] for column in columns], tree) for number in range(chunks)]


def split_args_kwargs_into_chunks(
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None,
    chunks: int,
    args_chunk_spec: tuple[Any, ...] | None = None,
    kwargs_chunk_spec: Mapping[str, Any] | None = None,
) -> tuple[list[tuple[Any, ...]], list[dict[str, Any]]]:
    """Split the arguments of a batch into microbatches
    (`torch.distributed.pipelining.microbatch.split_args_kwargs_into_chunks`).

    Args:
        args: Positional arguments of the batch.
        kwargs: Keyword arguments of the batch.
        chunks: Number of microbatches.
        args_chunk_spec: Split dimension of each positional argument. Default: dimension 0 for tensors. Values
            with the spec None and values that are not tensors are passed to all microbatches.
        kwargs_chunk_spec: Split dimension of each keyword argument.

    Raises:
        ValueError: there are not as many specs as values, or a tensor is too short.

    Example:
        >>> import triten as tt
        >>> from triten.distributed.pipelining import split_args_kwargs_into_chunks
        >>> split_args_kwargs_into_chunks((tt.arange(4), 7), {}, 2)
        ([(tensor([0, 1]), 7), (tensor([2, 3]), 7)], [{}, {}])
    """
    keyword_arguments = dict(kwargs or {})
    if kwargs_chunk_spec is not None and keyword_arguments.keys() != kwargs_chunk_spec.keys():
        raise ValueError(
            f"kwargs_chunk_spec: expected the keys {list(keyword_arguments)}, but got {list(kwargs_chunk_spec)}"
        )
    ordered = (
        None if kwargs_chunk_spec is None else {name: kwargs_chunk_spec[name] for name in keyword_arguments}
    )
    return (
        _split(args, args_chunk_spec, chunks, "args_chunk_spec"),
        _split(keyword_arguments, ordered, chunks, "kwargs_chunk_spec"),
    )


def merge_chunks(chunks: Sequence[Any], chunk_spec: Any) -> Any:
    """Merge the results of microbatches (`torch.distributed.pipelining.microbatch.merge_chunks`).

    Args:
        chunks: Results of the microbatches.
        chunk_spec: Dimension along which each tensor is concatenated. None means dimension 0. Values without a
            `TensorChunkSpec` must be the same in all microbatches.

    Raises:
        ValueError: a result has another number of values than there are specs, or values differ.
    """
    rows = [tree_flatten(chunk)[0] for chunk in chunks]
    tree = tree_flatten(chunks[0])[1]
    if chunk_spec is None:
        specs = [_default(value) for value in rows[0]]
    else:
        specs = tree_flatten(chunk_spec, is_leaf=lambda each: each is None)[0]
    merged: list[Any] = []
    for row in rows:
        if len(row) != len(specs):
            raise ValueError(f"Chunk {row} did not match chunk spec {chunk_spec}")
    for spec, column in zip(specs, zip(*rows, strict=True), strict=True):
        if isinstance(spec, TensorChunkSpec):
            merged.append(cat(list(column), spec.split_dim))
            continue
        if any(value is not column[0] and not _equal(value, column[0]) for value in column[1:]):
            raise ValueError(
                f"expected equal results of all microbatches for a value that is not split, but got {column}"
            )
        merged.append(column[0])
    return tree_unflatten(merged, tree)


def _equal(first: Any, second: Any) -> bool:
    if isinstance(first, Tensor) and isinstance(second, Tensor):
        return first.shape == second.shape and bool((first == second).all())
    return bool(first == second)
