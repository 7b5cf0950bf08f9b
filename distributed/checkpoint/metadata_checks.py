"""Validation of a checkpoint's metadata, from any writer, before memory is allocated for it."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any

from ...runtime.tensor_spec import MAX_BYTES
from .metadata import Metadata, MetadataIndex, TensorStorageMetadata
from .save_plans import overlap
from .shard_file import StorageInfo

__all__ = ["check_files", "check_metadata", "file_name"]

MAX_DIMS = 64
MAX_DEPTH = 200
"""Keys that lead to one value."""
MIN_LIST_ENTRIES = 1 << 16
LIST_ENTRIES_PER_NAME = 16
"""Places of lists that a state may have for each of its names; a list with nothing but empty dicts has none."""


def file_name(value: Any) -> str:
    """Return a file name in the checkpoint's folder. Raise ValueError if it leads outside."""
    if type(value) is not str or value in ("", ".", "..") or any(each in value for each in "/\\\0:"):
        raise ValueError(f"invalid file name {value!r:.200}")
    value.encode()
    return value


def check_metadata(metadata: Metadata) -> None:
    """Raise ValueError unless the chunks cover their tensors and each name has its own key path."""
    for name, value in metadata.state_dict_metadata.items():
        if isinstance(value, TensorStorageMetadata):
            _check_tensor(name, value, metadata.storage_data)
    key_paths = metadata.planner_data or {}
    for name, keys in key_paths.items():
        _check_keys(name, keys)
    _check_key_paths([key_paths.get(name, (name,)) for name in metadata.state_dict_metadata])


def _check_tensor(
    name: str, value: TensorStorageMetadata, storage: Mapping[MetadataIndex, StorageInfo]
) -> None:
    itemsize = value.properties.dtype.itemsize
    if len(value.size) > MAX_DIMS or prod(max(each, 1) for each in value.size) * itemsize > MAX_BYTES:
        raise ValueError(f"'{name}' has an invalid size {list(value.size[:8])}")
    for chunk in value.chunks:
        if not len(value.size) == len(chunk.offsets) == len(chunk.sizes):
            raise ValueError(f"'{name}' has a chunk with another number of dimensions")
        elements = prod(chunk.sizes)
        if elements and any(
            begin + size > whole
            for begin, size, whole in zip(chunk.offsets, chunk.sizes, value.size, strict=True)
        ):
            raise ValueError(f"'{name}' has a chunk that extends beyond the tensor")
        info = storage.get(MetadataIndex(name, chunk.offsets))
        # PyTorch's chunks, which have no checksums, are archives.
        if info is not None and (
            info.length < elements * itemsize
            or (info.checksums is not None and info.length > elements * itemsize)
        ):
            raise ValueError(
                f"a chunk of '{name}' with {elements} elements of {value.properties.dtype} has {info.length} bytes"
            )
    if sum(prod(chunk.sizes) for chunk in value.chunks) != prod(value.size):
        raise ValueError(f"'{name}' is not covered by its chunks")
    _check_disjoint(name, value)


def _check_disjoint(name: str, value: TensorStorageMetadata) -> None:
    chunks = [each for each in value.chunks if prod(each.sizes)]
    if len(chunks) < 2:
        return
    # Chunks that follow each other in a dimension are compared with those only that have begun and not ended.
    dim = max(range(len(value.size)), key=lambda each: len({chunk.offsets[each] for chunk in chunks}))
    begun: list[Any] = []
    for chunk in sorted(chunks, key=lambda each: each.offsets[dim]):
        begun = [each for each in begun if each.offsets[dim] + each.sizes[dim] > chunk.offsets[dim]]
        if any(overlap(each, chunk) for each in begun):
            raise ValueError(f"'{name}' has overlapping chunks")
        begun.append(chunk)


def _check_keys(name: str, keys: Sequence[Any]) -> None:
    if (
        not 0 < len(keys) <= MAX_DEPTH
        or type(keys[0]) is not str
        or any(type(key) is not str and (type(key) is not int or key < 0) for key in keys)
    ):
        raise ValueError(f"'{name}' has invalid keys {keys!r:.200}")


class _Node:
    """Node of the nested state: its children, and the length of a list."""

    __slots__ = ("children", "is_value", "length")

    def __init__(self) -> None:
        self.children: dict[Any, _Node] = {}
        self.is_value = False
        self.length = 0


def _check_key_paths(paths: Iterable[Sequence[Any]]) -> None:
    """Raise ValueError if a key path reaches another value, or a list index is out of proportion."""
    root, names, list_entries = _Node(), 0, 0
    for keys in paths:
        names += 1
        node = root
        for key in keys:
            if node.is_value or any(type(each) is not type(key) for each in list(node.children)[:1]):
                raise ValueError(f"the keys {list(keys)!r:.200} pass through another value")
            if type(key) is int and key >= node.length:
                list_entries += key + 1 - node.length
                node.length = key + 1
            node = node.children.setdefault(key, _Node())
        if node.is_value or node.children:
            raise ValueError(f"the keys {list(keys)!r:.200} belong to another value")
        node.is_value = True
    if list_entries > max(MIN_LIST_ENTRIES, LIST_ENTRIES_PER_NAME * names):
        raise ValueError(f"the keys of {names} names need lists of {list_entries} entries")


def check_files(metadata: Metadata, folder: str | os.PathLike[str]) -> None:
    """Raise RuntimeError if a file of the folder is shorter than the items that it should contain."""
    lengths: dict[str, int] = defaultdict(int)
    for info in metadata.storage_data.values():
        lengths[info.relative_path] += info.length
    for name, length in lengths.items():
        path = os.path.join(folder, name)
        size = os.stat(path).st_size
        if size < length:
            raise RuntimeError(f"load: the file {path} has {size} bytes, but its items need {length}")
