"""Whole tensors made of the shards of several safetensors files.

Source: torch.distributed.checkpoint._consolidate_hf_safetensors, _hf_utils.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import prod
from pathlib import Path
from typing import Any

from ...dispatch.generated import functions as ops
from ...safetensors.dtypes import geometry_of
from ...safetensors.opening import SafeSlice, safe_open
from ...safetensors.saving import save_file
from ..barriers import barrier
from ..groups import get_rank, get_world_size, is_initialized
from ..object_collectives import all_gather_object

__all__ = ["consolidate_safetensors_files", "consolidate_safetensors_files_on_every_rank"]

SUFFIX = ".safetensors"
SHARDED_FOLDER = "sharded"
INDEX = "model.safetensors.index.json"
SHARDING_INFO = "DCP_SHARDING_INFO"
DCP_VERSION = "1.0"

PathLike = str | os.PathLike[str]


def file_name(number: int, last: int, shard: int | None = None) -> str:
    """Return the name of a file of whole tensors, or of a process's shards.

    Example:
        >>> from triten.distributed.checkpoint.hf_consolidation import file_name
        >>> file_name(1, 2), file_name(1, 2, shard=3)
        ('model-00001-of-00002.safetensors', 'shard-00003-model-00001-of-00002.safetensors')
    """
    prefix = "" if shard is None else f"shard-{shard:05}-"
    return f"{prefix}model-{number:05}-of-{last:05}{SUFFIX}"


def file_texts(begins: Mapping[str, Sequence[int]]) -> dict[str, str]:
    """Return the metadata of a file: the begin of each chunk in its tensor."""
    info = {name: {"saved_offsets": list(begin)} for name, begin in begins.items()}
    return {SHARDING_INFO: json.dumps(info), "DCP_VERSION": DCP_VERSION, "format": "pt"}


def saved_offsets(texts: Mapping[str, str] | None) -> dict[str, tuple[int, ...]] | None:
    """Return the begin of each chunk of a file; None if the file's metadata do not say it."""
    text = (texts or {}).get(SHARDING_INFO)
    if not text:
        return None
    return {name: tuple(each["saved_offsets"]) for name, each in json.loads(text).items()}


def write_index(folder: PathLike, files: Mapping[str, str], total_size: int) -> None:
    """Write the index, which says the file of each tensor."""
    index = {"metadata": {"total_size": total_size}, "weight_map": dict(files)}
    (Path(folder) / INDEX).write_text(json.dumps(index, indent=2))


class _Shards:
    """Chunks of one tensor in opened files."""

    def __init__(self) -> None:
        self.parts: list[tuple[tuple[int, ...], SafeSlice]] = []

    def size(self) -> tuple[int, ...]:
        """Return the sizes of the whole tensor."""
        ends = [
            [begin + length for begin, length in zip(offsets, part.get_shape(), strict=True)]
            for offsets, part in self.parts
        ]
        return tuple(map(max, *ends)) if len(ends) > 1 else tuple(ends[0])

    def whole(self, name: str) -> Any:
        """Return the whole tensor. Raises ValueError if shards are missing."""
        size = self.size()
        dtype, shape = geometry_of(self.parts[0][1].get_dtype(), size)
        made = ops.empty(shape, dtype=dtype)
        read = 0
        for offsets, part in self.parts:
            lengths = part.get_shape()
            box = tuple(slice(begin, begin + length) for begin, length in zip(offsets, lengths, strict=True))
            made[box] = part[...]
            read += prod(lengths)
        if read < prod(size):
            raise ValueError(
                f"consolidate_safetensors_files: the shards of {name!r} have {read} of the {prod(size)} elements of a "
                f"tensor of shape {list(size)}; a file of shards is missing"
            )
        return made


def _consolidate(
    input_dir: PathLike, output_dir: PathLike, files: Mapping[str, str], num_threads: int
) -> dict[str, int]:
    """Write files of whole tensors; `files` maps tensors to file names. Return the bytes of each tensor."""
    shards: dict[str, _Shards] = defaultdict(_Shards)
    for path in sorted(Path(input_dir).glob(f"*{SUFFIX}")):
        opened = safe_open(path)
        begins = saved_offsets(opened.metadata())
        if begins is None:
            raise ValueError(
                f"No DCP custom metadata found in safetensors file. The file must be saved with DCP to be "
                f"consolidated: {path}"
            )
        for name in opened.offset_keys():
            shards[name].parts.append((begins[name], opened.get_slice(name)))
    missing = sorted(name for name in files if name not in shards)
    if missing:
        raise ValueError(
            f"consolidate_safetensors_files: no file in {input_dir} has the tensors {', '.join(missing)}"
        )
    contents: dict[str, list[str]] = defaultdict(list)
    for name, file in files.items():
        contents[file].append(name)
    Path(output_dir).mkdir(parents=True, exist_ok=True)

    def write(file: str) -> dict[str, int]:
        tensors = {name: shards[name].whole(name) for name in contents[file]}
        save_file(tensors, Path(output_dir) / file, {"format": "pt"})
        return {name: each.numel() * each.dtype.itemsize for name, each in tensors.items()}

    with ThreadPoolExecutor(max(1, num_threads)) as threads:
        return {name: size for each in threads.map(write, contents) for name, size in each.items()}


def consolidate_safetensors_files(
    input_dir: PathLike, output_dir: PathLike, fqn_to_index_mapping: Mapping[str, int], num_threads: int = 1
) -> None:
    """Join the shards in a folder to whole tensors, and write an index of the new files.

    Args:
        input_dir: Folder of the shards that `HuggingFaceStorageWriter` wrote with `save_distributed`.
        output_dir: Folder of the new files; it is made if it is missing.
        fqn_to_index_mapping: Number of the new file of each tensor, from 1.
        num_threads: Number of threads that write files. Default: 1.

    Raises:
        ValueError: A file does not say where its shards begin, or shards are missing.

    Source: torch.distributed.checkpoint._consolidate_hf_safetensors.
    """
    last = max(fqn_to_index_mapping.values())
    files = {name: file_name(number, last) for name, number in fqn_to_index_mapping.items()}
    sizes = _consolidate(input_dir, output_dir, files, num_threads)
    write_index(output_dir, files, sum(sizes.values()))


def consolidate_safetensors_files_on_every_rank(
    input_dir: PathLike,
    output_dir: PathLike,
    fqn_to_index_mapping: Mapping[str, int],
    num_threads: int = 1,
    process_group: Any = None,
) -> None:
    """Join the shards in a folder, each process those of its own files. The first process writes the index.

    Args:
        input_dir: Folder of the shards, which all processes see.
        output_dir: Folder of the new files.
        fqn_to_index_mapping: Number of the new file of each tensor, from 1; equal in all processes.
        num_threads: Number of threads of a process that write files. Default: 1.
        process_group: The processes. Default: all of them.

    Raises:
        ValueError: As for `consolidate_safetensors_files`.
    """
    distributed = is_initialized()
    rank, world = (get_rank(process_group), get_world_size(process_group)) if distributed else (0, 1)
    last = max(fqn_to_index_mapping.values())
    files = {name: file_name(number, last) for name, number in fqn_to_index_mapping.items()}
    own = {name: files[name] for name, number in fqn_to_index_mapping.items() if number % world == rank}
    own_sizes = _consolidate(input_dir, output_dir, own, num_threads) if own else {}
    sizes: list[Any] = [own_sizes] * world
    if distributed:
        all_gather_object(sizes, own_sizes, group=process_group)
    if rank == 0:
        write_index(output_dir, files, sum(size for each in sizes for size in each.values()))
    if distributed:
        barrier(process_group)
