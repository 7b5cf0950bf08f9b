"""Chunks of a tensor that this rank holds, for any kind of tensor.

A sharded tensor implements two methods, as `DTensor` does:

- ``__create_chunk_list__()`` returns the local chunks as `ChunkStorageMetadata`;
- ``__get_tensor_shard__(index)`` returns the memory of the chunk that a `MetadataIndex` names.

Its `shape` is the global shape. The names are those of PyTorch's protocol ``_Checkpointable``.
"""

from __future__ import annotations

from typing import Any

from ...dispatch.tensor import Tensor
from ...runtime.layout import strided
from ...runtime.size import Size
from .metadata import ChunkStorageMetadata, MetadataIndex, TensorProperties
from .planner import BytesIOWriteData, TensorWriteData, WriteItem, WriteItemType

__all__ = ["create_chunk_list", "create_write_items", "find_shard", "has_chunks"]


def _is_sharded(value: Any) -> bool:
    return hasattr(value, "__create_chunk_list__")


def has_chunks(value: Any) -> bool:
    """Return True if a value is saved as chunks: strided tensors are, sparse and quantized tensors are
    objects.
    """
    return isinstance(value, Tensor) and (
        _is_sharded(value) or (value.layout is strided and not value.is_quantized and not value.is_nested)
    )


def create_chunk_list(tensor: Tensor) -> list[ChunkStorageMetadata]:
    """Return the chunks of a tensor that this rank holds."""
    if _is_sharded(tensor):
        chunks: list[ChunkStorageMetadata] = tensor.__create_chunk_list__()  # type: ignore[attr-defined]
        return chunks
    return [ChunkStorageMetadata(Size([0] * tensor.ndim), Size(tensor.shape))]


def find_shard(tensor: Tensor, index: MetadataIndex) -> Tensor:
    """Return the memory of a chunk. Raise ValueError if this rank does not hold it."""
    if _is_sharded(tensor):
        shard: Tensor = tensor.__get_tensor_shard__(index)  # type: ignore[attr-defined]
        return shard.detach()
    if index.offset is not None and any(index.offset):
        raise ValueError(
            f"'{index.fqn}': no shard at {tuple(index.offset)}, because the tensor is not sharded in this process"
        )
    return tensor.detach()


def create_write_items(fqn: str, value: Any) -> list[WriteItem]:
    """Return the items to write for a value of this rank.

    Raises:
        ValueError: it is a Meta tensor, which has no elements.
    """
    if not has_chunks(value):
        return [WriteItem(MetadataIndex(fqn), WriteItemType.BYTE_IO, bytes_io_data=BytesIOWriteData(0))]
    if value.is_meta:
        raise ValueError(f"save: '{fqn}' is a Meta tensor, which has no elements; materialize it first")
    properties = TensorProperties.create_from_tensor(value)
    kind = WriteItemType.SHARD if _is_sharded(value) else WriteItemType.TENSOR
    return [
        WriteItem(
            MetadataIndex(fqn, chunk.offsets),
            kind,
            tensor_data=TensorWriteData(chunk, properties, Size(value.shape)),
        )
        for chunk in create_chunk_list(value)
    ]
