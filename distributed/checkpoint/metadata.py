"""Metadata of a checkpoint: the description of its contents (`torch.distributed.checkpoint.metadata`)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...runtime import layout as layouts
from ...runtime import memory_format as memory_formats
from ...runtime import scalar_type
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.size import Size

__all__ = [
    "BytesStorageMetadata",
    "ChunkStorageMetadata",
    "Metadata",
    "MetadataIndex",
    "StorageMeta",
    "TensorProperties",
    "TensorStorageMetadata",
]


@dataclass
class ChunkStorageMetadata:
    """A box of a tensor: where it begins, and its sizes (`torch.distributed.checkpoint.ChunkStorageMetadata`)."""

    offsets: Size
    sizes: Size


@dataclass
class TensorProperties:
    """Properties of a tensor besides its shape (`torch.distributed.checkpoint.metadata.TensorProperties`)."""

    dtype: ScalarType = scalar_type.float32
    layout: Any = layouts.strided
    requires_grad: bool = False
    memory_format: Any = memory_formats.contiguous_format
    pin_memory: bool = False

    @staticmethod
    def create_from_tensor(tensor: Any) -> TensorProperties:
        """Return the properties of a tensor, which is written in row-major order."""
        return TensorProperties(dtype=tensor.dtype, requires_grad=tensor.requires_grad)


@dataclass
class TensorStorageMetadata:
    """A tensor of a checkpoint, and its chunks (`torch.distributed.checkpoint.TensorStorageMetadata`)."""

    properties: TensorProperties
    size: Size
    chunks: list[ChunkStorageMetadata]


@dataclass
class BytesStorageMetadata:
    """An object of a checkpoint that is no tensor (`torch.distributed.checkpoint.BytesStorageMetadata`)."""


@dataclass
class StorageMeta:
    """Which checkpoint something belongs to (`torch.distributed.checkpoint.metadata.StorageMeta`)."""

    checkpoint_id: str | os.PathLike[str] | None = None
    save_id: str | None = None
    load_id: str | None = None
    modules: list[str] = field(default_factory=list)


@dataclass
class Metadata:
    """Contents of a checkpoint (`torch.distributed.checkpoint.Metadata`).

    Attributes:
        state_dict_metadata: Tensors and objects, by name.
        planner_data: Path of keys in the nested state, by name.
        storage_data: Locations of chunks and objects, by index. The storage defines their type.
        storage_meta: Identity of the checkpoint.
        version: Version of the format.
    """

    state_dict_metadata: dict[str, TensorStorageMetadata | BytesStorageMetadata]
    planner_data: Any = None
    storage_data: Any = None
    storage_meta: StorageMeta | None = None
    version: str | None = None


@dataclass(frozen=True)
class MetadataIndex:
    """Index of a chunk or an object (`torch.distributed.checkpoint.metadata.MetadataIndex`).

    Attributes:
        fqn: Name of the tensor or object.
        offset: Offset of the chunk in the tensor.
        index: Position in the list of chunks: a hint that comparisons ignore.
    """

    fqn: str
    offset: Size | None = None
    index: int | None = field(hash=False, compare=False, default=None)

    def __init__(self, fqn: str, offset: Sequence[int] | None = None, index: int | None = None) -> None:
        object.__setattr__(self, "fqn", fqn)
        object.__setattr__(self, "index", index)
        object.__setattr__(self, "offset", None if offset is None else Size(offset))
