"""Checkpoints in folders, written: `FileSystemWriter` (`torch.distributed.checkpoint.filesystem`)."""

from __future__ import annotations

import os
import re
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

from ...dispatch.tensor import Tensor
from ...futures import Future
from ...serialization.replacing_file import replacing
from . import metadata_file
from .metadata import Metadata, StorageMeta
from .planner import SavePlan, SavePlanner, WriteItem, WriteItemType
from .shard_file import Entry, write_entries
from .storage import CheckpointId, StorageWriter, WriteResult

__all__ = ["FileSystemWriter"]

METADATA = ".metadata"
SUFFIX = ".safetensors"
OURS = re.compile(r"__\d+_\d+-[0-9a-f]{32}\.safetensors")


@dataclass(frozen=True)
class _Prefix:
    """How the files of a process are called: those of each save otherwise, so that none replaces another's."""

    rank: int
    save_id: str

    def file(self, number: int) -> str:
        return f"__{self.rank}_{number}-{self.save_id}{SUFFIX}"


class FileSystemWriter(StorageWriter):
    """Writer of a checkpoint to a folder that all ranks share
    (`torch.distributed.checkpoint.FileSystemWriter`).

    Each rank writes its shards to its own files in the safetensors format. When all files are on the disk, a
    new ``.metadata`` replaces the old one, and the old checkpoint's files are removed. An interrupted save
    leaves the old checkpoint as it was. Only one save at a time may write to a folder.

    Args:
        path: The folder, created if it does not exist.
        single_file_per_rank: If True, a rank writes one file per thread. Otherwise it writes one file per
            item.
        sync_files: If True, wait until files are on the disk. Otherwise a power loss can damage the
            checkpoint.
        thread_count: Number of threads of a rank that write, each to its own file.
        per_thread_copy_ahead: Ignored; accepted for compatibility with PyTorch.
        cache_staged_state_dict: Ignored; accepted for compatibility with PyTorch.
        overwrite: If True, replace an existing checkpoint. Otherwise an existing checkpoint raises
            RuntimeError.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        single_file_per_rank: bool = True,
        sync_files: bool = True,
        thread_count: int = 1,
        per_thread_copy_ahead: int = 10_000_000,
        cache_staged_state_dict: bool = False,
        overwrite: bool = True,
    ) -> None:
        self.path = Path(path)
        self.single_file_per_rank = single_file_per_rank
        self.sync_files = sync_files
        self.thread_count = max(1, thread_count)
        self.overwrite = overwrite
        self.save_id = uuid.uuid4().hex

    @property
    def checkpoint_id(self) -> Path:
        """The folder."""
        return self.path

    def reset(self, checkpoint_id: CheckpointId = None) -> None:
        """Start a save, to another folder if `checkpoint_id` is given."""
        if checkpoint_id is not None:
            self.path = Path(checkpoint_id)
        self.save_id = uuid.uuid4().hex

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Prepare the writer. `is_coordinator` is True on the rank that decides."""

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Make the folder. Raises RuntimeError if it has a checkpoint that shall not be replaced."""
        self.path.mkdir(parents=True, exist_ok=True)
        if not self.overwrite and (self.path / METADATA).exists():
            raise RuntimeError(f"Checkpoint already exists and overwrite=False: {self.path}")
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Add the prefix of each rank's file names to the plans."""
        return [replace(plan, storage_data=_Prefix(rank, self.save_id)) for rank, plan in enumerate(plans)]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Write this process's files."""
        prefix: _Prefix = plan.storage_data
        if self.single_file_per_rank:
            files = _divided(plan.items, self.thread_count)
        else:
            files = [[item] for item in plan.items]

        def write(number: int) -> list[WriteResult]:
            return self._write(prefix.file(number), files[number], planner)

        if self.thread_count > 1 and len(files) > 1:
            with ThreadPoolExecutor(self.thread_count) as threads:
                written = list(threads.map(write, range(len(files))))
        else:
            written = list(map(write, range(len(files))))
        future: Future[list[WriteResult]] = Future()
        future.set_result([result for each in written for result in each])
        return future

    def _write(self, name: str, items: list[WriteItem], planner: SavePlanner) -> list[WriteResult]:
        entries = [_entry(item, planner) for item in items]
        with replacing(str(self.path / name), self.sync_files) as file:
            infos = write_entries(file, name, entries)
        return [WriteResult(item.index, info.length, info) for item, info in zip(items, infos, strict=True)]

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Write ``.metadata`` atomically, and remove data files that it does not reference."""
        metadata.storage_data = {result.index: result.storage_data for each in results for result in each}
        metadata.storage_meta = self.storage_meta()
        metadata.version = str(metadata_file.VERSION)
        with replacing(str(self.path / METADATA), self.sync_files) as file:
            file.write(metadata_file.dumps(metadata))
        referenced = {info.relative_path for info in metadata.storage_data.values()}
        for each in self.path.iterdir():
            if OURS.fullmatch(each.name) and each.name not in referenced:
                each.unlink(missing_ok=True)

    def storage_meta(self) -> StorageMeta:
        """Return the folder and the id of this save."""
        return StorageMeta(checkpoint_id=self.path, save_id=self.save_id)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Return True if the id is a path, not a URL."""
        return "://" not in str(checkpoint_id)


def _entry(item: WriteItem, planner: SavePlanner) -> Entry:
    if item.type == WriteItemType.BYTE_IO:
        data = planner.resolve_data(item)
        assert isinstance(data, BytesIO)
        content = data.getvalue()
        return Entry(item.index.fqn, None, (len(content),), lambda: content)
    assert item.tensor_data is not None
    chunk, name = item.tensor_data.chunk, item.index.fqn
    if item.type == WriteItemType.SHARD:
        # A name that no tensor or object of the state has.
        name += "@" + ",".join(map(str, chunk.offsets)) + "/" + str(item.index.index)

    def tensor() -> Tensor:
        resolved = planner.resolve_data(item)
        assert isinstance(resolved, Tensor)
        return resolved

    return Entry(name, item.tensor_data.properties.dtype, tuple(chunk.sizes), tensor)


def _divided(items: list[WriteItem], count: int) -> list[list[WriteItem]]:
    """Split items into at most `count` lists of similar bytes: the largest items first, each to the smallest
    list.
    """
    if not items:
        return []
    lists: list[list[WriteItem]] = [[] for _ in range(min(count, len(items)))]
    loads = [0] * len(lists)
    for item in sorted(items, key=lambda each: -(each.tensor_storage_size() or 0)):
        shortest = loads.index(min(loads))
        lists[shortest].append(item)
        loads[shortest] += item.tensor_storage_size() or 1
    return lists
