"""Where checkpoints are written to and read from (`torch.distributed.checkpoint.storage`)."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from ...futures import Future
from .metadata import Metadata, MetadataIndex, StorageMeta
from .planner import LoadPlan, LoadPlanner, SavePlan, SavePlanner

__all__ = ["StorageReader", "StorageWriter", "WriteResult"]

CheckpointId = str | os.PathLike[str] | None


@dataclass(frozen=True)
class WriteResult:
    """Where an item went (`torch.distributed.checkpoint.storage.WriteResult`)."""

    index: MetadataIndex
    size_in_bytes: int
    storage_data: Any


class StorageWriter(ABC):
    """What `save` writes to (`torch.distributed.checkpoint.StorageWriter`).

    `reset`, `set_up_storage_writer` and `prepare_local_plan` are called in each process, `prepare_global_plan` in the
    one that decides, `write_data` in each, and `finish` in the one that decides, once all have written.
    """

    @abstractmethod
    def reset(self, checkpoint_id: CheckpointId = None) -> None:
        """A save begins, of the checkpoint of this name if one is given."""

    @abstractmethod
    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Whether this process decides."""

    @abstractmethod
    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """What this process could write."""

    @abstractmethod
    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """What each process writes, with what the storage adds to it."""

    @abstractmethod
    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Write this process's items."""

    @abstractmethod
    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """All have written: the checkpoint is one from now on."""

    @classmethod
    @abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether a name can be one of this storage."""

    def storage_meta(self) -> StorageMeta | None:
        """Which checkpoint is written."""
        return None


class StorageReader(ABC):
    """What `load` reads from (`torch.distributed.checkpoint.StorageReader`).

    `reset`, `read_metadata`, `set_up_storage_reader` and `prepare_local_plan` are called in each process,
    `prepare_global_plan` in the one that decides, and `read_data` in each.
    """

    @abstractmethod
    def reset(self, checkpoint_id: CheckpointId = None) -> None:
        """A load begins, of the checkpoint of this name if one is given."""

    @abstractmethod
    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """What the checkpoint has."""

    @abstractmethod
    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        """What was read, and whether this process decides."""

    @abstractmethod
    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """What this process reads."""

    @abstractmethod
    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """What each process reads, with what the storage adds to it."""

    @abstractmethod
    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Read this process's items."""

    @classmethod
    @abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether a name can be one of this storage."""
