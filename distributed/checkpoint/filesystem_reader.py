"""Checkpoints in folders, read: `FileSystemReader` (`torch.distributed.checkpoint.filesystem`)."""

from __future__ import annotations

import os
from collections import defaultdict
from io import BytesIO
from pathlib import Path
from typing import Any

from ... import serialization
from ...dispatch.tensor import Tensor
from ...futures import Future
from ...runtime.regular_file import open_regular
from . import metadata_checks, metadata_file
from .metadata import Metadata, MetadataIndex, TensorStorageMetadata
from .planner import LoadItemType, LoadPlan, LoadPlanner, ReadItem
from .shard_file import StorageInfo, read_box, read_bytes
from .storage import CheckpointId, StorageReader

__all__ = ["FileSystemReader"]

METADATA = ".metadata"


class FileSystemReader(StorageReader):
    """Reader of a checkpoint in a folder that all ranks share
    (`torch.distributed.checkpoint.FileSystemReader`).

    The reader loads only the needed parts of a file of `FileSystemWriter`, and checks them against their
    checksums. It also reads folders that PyTorch wrote. It executes nothing in them, and reads whole chunks
    of their tensors.

    Args:
        path: The folder.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.metadata: Metadata | None = None

    @property
    def checkpoint_id(self) -> Path:
        """The folder."""
        return self.path

    def reset(self, checkpoint_id: CheckpointId = None) -> None:
        """Start a load, from another folder if `checkpoint_id` is given."""
        self.metadata = None
        if checkpoint_id is not None:
            self.path = Path(checkpoint_id)

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """Read the checkpoint's metadata.

        Raises:
            FileNotFoundError: there is none in the folder; a save that did not end leaves none.
            RuntimeError: ``.metadata`` is damaged.
            UnpicklingError: ``.metadata`` is PyTorch's, and has more than it writes.
        """
        path = self.path / METADATA
        try:
            with open_regular(path) as file:
                data = file.read()
        except FileNotFoundError as error:
            raise FileNotFoundError(
                error.errno,
                f"load: there is no checkpoint in {self.path}, or the save did not end",
                str(path),
            ) from None
        if metadata_file.is_ours(data):
            return metadata_file.loads(data, str(path))
        from .pytorch_metadata import loads

        return loads(data)

    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        """Store the metadata that was read."""
        self.metadata = metadata

    def check_files(self) -> None:
        """Raise RuntimeError if a file is too short for the contents that the metadata declare.

        Callers that allocate by the metadata alone call this first. Other loads compare what they read.
        """
        assert self.metadata is not None
        metadata_checks.check_files(self.metadata, self.path)

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Return the local plan unchanged."""
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """Return the plans of all ranks unchanged."""
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Read this process's items, those of a file after each other.

        Raises:
            FileNotFoundError: a file is missing.
            RuntimeError: one is damaged.
        """
        files: dict[str, list[ReadItem]] = defaultdict(list)
        for item in plan.items:
            files[self._info(item.storage_index).relative_path].append(item)
        for items in files.values():
            for item in sorted(items, key=lambda each: self._info(each.storage_index).offset):
                self._read(item, planner)
        future: Future[None] = Future()
        future.set_result(None)
        return future

    def _info(self, index: MetadataIndex) -> StorageInfo:
        assert self.metadata is not None
        info: StorageInfo | None = self.metadata.storage_data.get(index)
        if info is None:
            raise RuntimeError(
                f"load: {index} has no location in the metadata of the checkpoint in {self.path}"
            )
        return info

    def _read(self, item: ReadItem, planner: LoadPlanner) -> None:
        info = self._info(item.storage_index)
        if item.type == LoadItemType.BYTE_IO:
            planner.load_bytes(item, BytesIO(read_bytes(str(self.path), info)))
            return
        target = planner.resolve_tensor(item)
        box = self._box(item, info)
        if box.shape != target.shape:
            raise ValueError(
                f"load: '{item.storage_index.fqn}' needs a part of shape {list(target.shape)}, but the checkpoint has "
                f"{list(box.shape)}"
            )
        target.copy_(box)
        planner.commit_tensor(item, target)

    def _box(self, item: ReadItem, info: StorageInfo) -> Tensor:
        assert self.metadata is not None
        index = item.storage_index
        saved = self.metadata.state_dict_metadata[index.fqn]
        assert isinstance(saved, TensorStorageMetadata)
        if info.checksums is None:
            return self._box_of_archive(item, info)
        chunk = next(each for each in saved.chunks if each.offsets == index.offset)
        return read_box(
            str(self.path), info, saved.properties.dtype, chunk.sizes, item.storage_offsets, item.lengths
        )

    def _box_of_archive(self, item: ReadItem, info: StorageInfo) -> Tensor:
        """Read a box of a chunk that PyTorch wrote, as an archive of `torch.save` inside the file."""
        tensor = serialization.load(BytesIO(read_bytes(str(self.path), info)), map_location="cpu")
        if not isinstance(tensor, Tensor):
            raise RuntimeError(f"load: '{item.storage_index.fqn}' is not a tensor in {info.relative_path}")
        for dim, (begin, size) in enumerate(zip(item.storage_offsets, item.lengths, strict=True)):
            tensor = tensor.narrow(dim, begin, size)
        return tensor.detach()

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Return True if the id is a path, not a URL."""
        return "://" not in str(checkpoint_id)
