"""Checkpoints in the files that Hugging Face's libraries read (`torch.distributed.checkpoint.hf_storage`).

Files are named ``model-00001-of-00002.safetensors``; the index ``model.safetensors.index.json`` says which of them has
a tensor. With `save_distributed` each process writes its shards to ``shard-00001-model-00001-of-00002.safetensors``,
whose metadata says where in the tensors they begin; `consolidate_safetensors_files` joins them.
"""

from __future__ import annotations

import os
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...dispatch.tensor import Tensor
from ...futures import Future
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.size import Size
from ...safetensors.dtypes import geometry_of
from ...safetensors.opening import safe_open
from ...safetensors.saving import save_file
from .filesystem_reader import FileSystemReader
from .filesystem_writer import FileSystemWriter
from .hf_consolidation import (
    SHARDED_FOLDER,
    SUFFIX,
    consolidate_safetensors_files,
    file_name,
    file_texts,
    saved_offsets,
    write_index,
)
from .metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from .planner import LoadItemType, LoadPlan, LoadPlanner, ReadItem, SavePlan, SavePlanner, WriteItem
from .storage import WriteResult

__all__ = ["HuggingFaceStorageReader", "HuggingFaceStorageWriter"]


@dataclass(frozen=True)
class _HFStorageInfo:
    """File, shape, dtype and bytes of a chunk."""

    relative_path: str
    shape: Size
    dtype: ScalarType
    length: int


class HuggingFaceStorageWriter(FileSystemWriter):
    """Writer of safetensors files (`torch.distributed.checkpoint.HuggingFaceStorageWriter`).

    Args:
        path: Folder of the checkpoint.
        fqn_to_index_mapping: Number of the file of each tensor, from 1. Default: one file.
        thread_count: Number of threads that write files. Default: 1.
        save_distributed: If True, each process writes its own shards. Otherwise the state has whole tensors.
        enable_consolidation: If True, shards go to the folder ``sharded`` of `path`, and whole tensors to `path`.
        thread_count_consolidation: Number of threads that write whole tensors. Default: 1.

    Example:
        >>> import os, tempfile, triten as tt
        >>> from triten.distributed import checkpoint as dcp
        >>> from triten.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
        >>> folder = tempfile.mkdtemp()
        >>> _ = dcp.save({"weight": tt.ones(2)}, storage_writer=HuggingFaceStorageWriter(folder), no_dist=True)
        >>> sorted(os.listdir(folder))
        ['model-00001-of-00001.safetensors', 'model.safetensors.index.json']
        >>> state = {"weight": tt.zeros(2)}
        >>> dcp.load(state, storage_reader=HuggingFaceStorageReader(folder), no_dist=True)
        >>> state
        {'weight': tensor([1., 1.])}
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        fqn_to_index_mapping: dict[str, int] | None = None,
        thread_count: int = 1,
        save_distributed: bool = False,
        enable_consolidation: bool = False,
        thread_count_consolidation: int = 1,
    ) -> None:
        super().__init__(path, thread_count=thread_count)
        self.fqn_to_index_mapping = fqn_to_index_mapping
        self.save_distributed = save_distributed
        self.enable_consolidation = enable_consolidation
        self.thread_count_consolidation = thread_count_consolidation
        self.consolidated_output_path: str | None = None
        if enable_consolidation:
            self.consolidated_output_path = str(self.path)
            self.path = self.path / SHARDED_FOLDER

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Return the plans with the number of each process's shard."""
        return [
            replace(plan, storage_data={"shard_index": number if self.save_distributed else None})
            for number, plan in enumerate(plans, start=1)
        ]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Write this process's files.

        Raises:
            TypeError: An item is not a tensor.
            KeyError: `fqn_to_index_mapping` lacks a tensor.
        """
        mapping = self.fqn_to_index_mapping
        files: dict[int, list[WriteItem]] = defaultdict(list)
        for item in plan.items:
            if item.tensor_data is None:
                raise TypeError(
                    f"save: {item.index.fqn!r} is not a tensor, and safetensors files store only tensors; remove it "
                    "from the state_dict"
                )
            if mapping is not None and item.index.fqn not in mapping:
                raise KeyError(f"save: fqn_to_index_mapping has no file for {item.index.fqn!r}")
            files[1 if mapping is None else mapping[item.index.fqn]].append(item)
        last = 1 if mapping is None else max(mapping.values())

        def write(number: int) -> list[WriteResult]:
            name = file_name(number, last, plan.storage_data["shard_index"])
            return self._write(name, files[number], planner)

        with ThreadPoolExecutor(self.thread_count) as threads:
            written = list(threads.map(write, files))
        future: Future[list[WriteResult]] = Future()
        future.set_result([result for each in written for result in each])
        return future

    def _write(self, name: str, items: list[WriteItem], planner: SavePlanner) -> list[WriteResult]:
        tensors: dict[str, Tensor] = {}
        begins: dict[str, list[int]] = {}
        results = []
        for item in items:
            assert item.tensor_data is not None
            fqn, tensor = item.index.fqn, planner.resolve_data(item)
            assert isinstance(tensor, Tensor)
            if fqn in tensors:
                raise ValueError(
                    f"save: {fqn!r} has two chunks in this process, but a safetensors file stores one chunk of a tensor"
                )
            # A file has no two tensors of one memory, and no part of a larger one.
            tensors[fqn] = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous().clone()
            begins[fqn] = list(item.tensor_data.chunk.offsets)
            length = tensor.numel() * tensor.dtype.itemsize
            info = _HFStorageInfo(name, tensor.shape, tensor.dtype, length)
            results.append(WriteResult(item.index, length, info))
        save_file(tensors, self.path / name, file_texts(begins))
        return results

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Write the index, or join the shards with `enable_consolidation`."""
        if not self.save_distributed:
            written = [result for each in results for result in each]
            files = {each.index.fqn: each.storage_data.relative_path for each in written}
            write_index(self.path, files, sum(each.storage_data.length for each in written))
        elif self.consolidated_output_path is not None:
            mapping = self.fqn_to_index_mapping or dict.fromkeys(metadata.state_dict_metadata, 1)
            consolidate_safetensors_files(
                self.path, self.consolidated_output_path, mapping, self.thread_count_consolidation
            )


class HuggingFaceStorageReader(FileSystemReader):
    """Reader of safetensors files (`torch.distributed.checkpoint.HuggingFaceStorageReader`).

    Args:
        path: Folder with the files, of whole tensors or of shards.
        thread_count: Number of threads that read files. Default: 1.

    Raises:
        SafetensorError: A file is not in the format, or not whole.
    """

    def __init__(self, path: str | os.PathLike[str], thread_count: int = 1) -> None:
        super().__init__(path)
        self.thread_count = max(1, thread_count)

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """Return the tensors of all files in the folder.

        Raises:
            FileNotFoundError: The folder has no safetensors file.
        """
        paths = sorted(self.path.glob(f"*{SUFFIX}"))
        if not paths:
            raise FileNotFoundError(f"load: no *{SUFFIX} file in {self.path}")
        tensors: dict[str, Any] = {}
        storage_data: dict[MetadataIndex, _HFStorageInfo] = {}
        for path in paths:
            _add_file(path, tensors, storage_data)
        return Metadata(tensors, storage_data=storage_data, storage_meta=StorageMeta())

    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        """Take the metadata, which were made of the files themselves."""
        self.metadata = metadata

    def check_files(self) -> None:
        """Accept the files: each is checked when it is opened."""

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Read this process's items, file by file."""
        files: dict[str, list[ReadItem]] = defaultdict(list)
        assert self.metadata is not None
        for item in plan.items:
            if item.type == LoadItemType.BYTE_IO:
                raise TypeError(
                    f"load: {item.storage_index.fqn!r} is not a tensor, and safetensors files store only tensors"
                )
            files[self.metadata.storage_data[item.storage_index].relative_path].append(item)

        def read(name: str) -> None:
            with safe_open(self.path / name) as file:
                for item in files[name]:
                    box = tuple(
                        slice(begin, begin + size)
                        for begin, size in zip(item.storage_offsets, item.lengths, strict=True)
                    )
                    target = planner.resolve_tensor(item)
                    target.copy_(file.get_slice(item.storage_index.fqn)[box])
                    planner.commit_tensor(item, target)

        with ThreadPoolExecutor(self.thread_count) as threads:
            list(threads.map(read, files))
        future: Future[None] = Future()
        future.set_result(None)
        return future


def _add_file(path: Path, tensors: dict[str, Any], storage_data: dict[MetadataIndex, _HFStorageInfo]) -> None:
    """Add the chunks of a file to a checkpoint's tensors and storage data."""
    with safe_open(path) as file:
        begins = saved_offsets(file.metadata())
        for name in file.offset_keys():
            part = file.get_slice(name)
            dtype, shape = geometry_of(part.get_dtype(), tuple(part.get_shape()))
            begin = begins[name] if begins is not None else (0,) * len(shape)
            chunk = ChunkStorageMetadata(Size(begin), Size(shape))
            known = tensors.setdefault(
                name, TensorStorageMetadata(TensorProperties(dtype), Size((0,) * len(shape)), [])
            )
            known.chunks.append(chunk)
            known.size = Size(
                max(size, start + length)
                for size, start, length in zip(known.size, begin, shape, strict=True)
            )
            storage_data[MetadataIndex(name, begin)] = _HFStorageInfo(
                path.name, Size(shape), dtype, chunk.sizes.numel() * dtype.itemsize
            )
