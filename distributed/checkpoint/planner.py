"""Plans of writes and reads, and the planner interfaces (`torch.distributed.checkpoint.planner`)."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum, auto
from math import prod
from typing import Any

from ...dispatch.tensor import Tensor
from ...runtime.size import Size
from .metadata import ChunkStorageMetadata, Metadata, MetadataIndex, StorageMeta, TensorProperties

__all__ = [
    "BytesIOWriteData",
    "LoadItemType",
    "LoadPlan",
    "LoadPlanner",
    "ReadItem",
    "SavePlan",
    "SavePlanner",
    "TensorWriteData",
    "WriteItem",
    "WriteItemType",
]


class WriteItemType(Enum):
    """Kind of an item to write: a whole tensor, a shard, or an object's bytes."""

    TENSOR = auto()
    SHARD = auto()
    BYTE_IO = auto()


class LoadItemType(Enum):
    """Kind of an item to read: a box of a tensor, or an object's bytes."""

    TENSOR = auto()
    BYTE_IO = auto()


@dataclass(frozen=True)
class BytesIOWriteData:
    """How many bytes an object has, as far as that is known."""

    nbytes: int


@dataclass(frozen=True)
class TensorWriteData:
    """A chunk, and the tensor that it is a part of."""

    chunk: ChunkStorageMetadata
    properties: TensorProperties
    size: Size


@dataclass(frozen=True)
class WriteItem:
    """Something to write (`torch.distributed.checkpoint.WriteItem`)."""

    index: MetadataIndex
    type: WriteItemType
    bytes_io_data: BytesIOWriteData | None = None
    tensor_data: TensorWriteData | None = None

    def tensor_storage_size(self) -> int | None:
        """Return the size of a chunk in bytes; None for an object."""
        if self.tensor_data is None:
            return None
        return prod(self.tensor_data.chunk.sizes) * self.tensor_data.properties.dtype.itemsize


@dataclass(frozen=True)
class ReadItem:
    """Something to read (`torch.distributed.checkpoint.ReadItem`).

    Attributes:
        type: Kind of the item.
        dest_index: Shard of the state that is filled.
        dest_offsets: Offsets in that shard.
        storage_index: Chunk of the checkpoint that is read.
        storage_offsets: Offsets in that chunk.
        lengths: Sizes of the box.
    """

    type: LoadItemType
    dest_index: MetadataIndex
    dest_offsets: Size
    storage_index: MetadataIndex
    storage_offsets: Size
    lengths: Size


@dataclass(frozen=True)
class SavePlan:
    """Items that a rank writes (`torch.distributed.checkpoint.SavePlan`)."""

    items: list[WriteItem]
    storage_data: Any = None
    planner_data: Any = None
    usable: bool = True


@dataclass
class LoadPlan:
    """Items that a rank reads (`torch.distributed.checkpoint.LoadPlan`)."""

    items: list[ReadItem]
    storage_data: Any = None
    planner_data: Any = None


class SavePlanner(ABC):
    """Who plans a save (`torch.distributed.checkpoint.SavePlanner`).

    `set_up_planner` and `create_local_plan` are called in each process, `create_global_plan` in the one that decides,
    `finish_plan` in each, and then `resolve_data` for each item.
    """

    @abstractmethod
    def set_up_planner(
        self,
        state_dict: dict[str, Any],
        storage_meta: StorageMeta | None = None,
        is_coordinator: bool = False,
    ) -> None:
        """Take the state that is to be saved."""

    @abstractmethod
    def create_local_plan(self) -> SavePlan:
        """Plan everything that this rank could write."""

    @abstractmethod
    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        """Assign the items to ranks, and return the plans and the checkpoint's metadata."""

    @abstractmethod
    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        """Handle the final plan."""

    @abstractmethod
    def resolve_data(self, write_item: WriteItem) -> Tensor | io.BytesIO:
        """Return the tensor or the bytes of an item."""


class LoadPlanner(ABC):
    """Who plans a load (`torch.distributed.checkpoint.LoadPlanner`).

    `set_up_planner` and `create_local_plan` are called in each process, `create_global_plan` in the one that decides,
    `finish_plan` in each, and then, for each item, `load_bytes`, or `resolve_tensor` and `commit_tensor`.
    """

    @abstractmethod
    def set_up_planner(
        self, state_dict: dict[str, Any], metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        """Set the state to fill, and the checkpoint's metadata."""

    @abstractmethod
    def create_local_plan(self) -> LoadPlan:
        """Plan what this rank reads."""

    @abstractmethod
    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        """Return the final plan of each rank, given the local plans of all ranks."""

    @abstractmethod
    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        """Handle the final plan."""

    @abstractmethod
    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Put an object into the state."""

    @abstractmethod
    def resolve_tensor(self, read_item: ReadItem) -> Tensor:
        """Return the memory into which a box is read."""

    @abstractmethod
    def commit_tensor(self, read_item: ReadItem, tensor: Tensor) -> None:
        """Handle a box that has been read."""
