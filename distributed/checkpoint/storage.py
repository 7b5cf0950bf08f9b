"""Storage interfaces of checkpoints (`torch.distributed.checkpoint.storage`)."""

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
    """Location of a written item (`torch.distributed.checkpoint.storage.WriteResult`)."""

    index: MetadataIndex
    size_in_bytes: int
    storage_data: Any


class StorageWriter(ABC):
    """Interface to which `save` writes (`torch.distributed.checkpoint.StorageWriter`).

    Each rank calls `reset`, `set_up_storage_writer` and `prepare_local_plan`. The coordinator calls
    `prepare_global_plan`. Each rank calls `write_data`. The coordinator calls `finish` once all ranks have
    written.
    """

    @abstractmethod
    def reset(self, checkpoint_id: CheckpointId = None) -> None:
        """Start a save, of the checkpoint `checkpoint_id` if it is given."""

    @abstractmethod
    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Prepare the writer. `is_coordinator` is True on the rank that decides."""

    @abstractmethod
    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Return the plan of everything that this rank could write."""

    @abstractmethod
    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Return the final plans of all ranks, with the storage's own data."""

    @abstractmethod
    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Write this process's items."""

    @abstractmethod
    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Complete the checkpoint after all ranks have written."""

    @classmethod
    @abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Return True if this storage accepts the name."""

    def storage_meta(self) -> StorageMeta | None:
        """Return the identity of the checkpoint that is written."""
        return None


class StorageReader(ABC):
    """Interface from which `load` reads (`torch.distributed.checkpoint.StorageReader`).

    Each rank calls `reset`, `read_metadata`, `set_up_storage_reader` and `prepare_local_plan`. The
    coordinator calls `prepare_global_plan`. Each rank calls `read_data`.
    """

    @abstractmethod
    def reset(self, checkpoint_id: CheckpointId = None) -> None:
        """Start a load, of the checkpoint `checkpoint_id` if it is given."""

    @abstractmethod
    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """Read the checkpoint's metadata."""

    @abstractmethod
    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        """Prepare the reader. `is_coordinator` is True on the rank that decides."""

    @abstractmethod
    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Return the plan of the reads of this rank."""

    @abstractmethod
    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """Return the final plans of all ranks, with the storage's own data."""

    @abstractmethod
    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Read this process's items."""

    @classmethod
    @abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Return True if this storage accepts the name."""
