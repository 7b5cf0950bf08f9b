"""Items to read from a checkpoint to fill a state, for any sharding of either."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from ...runtime.size import Size
from .metadata import ChunkStorageMetadata, Metadata, MetadataIndex, TensorStorageMetadata
from .planner import LoadItemType, LoadPlan, ReadItem
from .save_plans import overlap
from .shards import create_chunk_list, has_chunks

__all__ = ["create_default_local_load_plan", "create_read_items_for_chunk_list"]


def create_default_local_load_plan(
    state_dict: Mapping[str, Any], metadata: Metadata, strict: bool = True
) -> LoadPlan:
    """Plan what this rank reads for a flat state.

    Args:
        state_dict: Tensors to fill and objects to replace, by name.
        metadata: Contents of the checkpoint.
        strict: If True, a name that the checkpoint lacks is an error. Otherwise its value stays unchanged.

    Raises:
        RuntimeError: the checkpoint does not have a name.
        ValueError: a tensor has another shape there, or is no tensor there.
    """
    items: list[ReadItem] = []
    for name, value in state_dict.items():
        saved = metadata.state_dict_metadata.get(name)
        if saved is None:
            if strict:
                raise RuntimeError(f"Missing key in checkpoint state_dict: {name}.")
            continue
        if not isinstance(saved, TensorStorageMetadata):
            if has_chunks(value):
                raise ValueError(
                    f"load: '{name}' is a tensor in the state_dict, and an object in the checkpoint"
                )
            index, none = MetadataIndex(name), Size([0])
            items.append(ReadItem(LoadItemType.BYTE_IO, index, none, index, none, none))
            continue
        if not has_chunks(value):
            raise ValueError(
                f"load: '{name}' is a tensor of shape {list(saved.size)} in the checkpoint, and "
                f"'{type(value).__name__}' in the state_dict"
            )
        if tuple(saved.size) != tuple(value.shape):
            raise ValueError(
                f"Size mismatch between saved {saved.size} and current: {Size(value.shape)} for {name}"
            )
        items += create_read_items_for_chunk_list(name, saved, create_chunk_list(value))
    return LoadPlan(items)


def create_read_items_for_chunk_list(
    fqn: str, checkpoint_md: TensorStorageMetadata, local_chunks: Sequence[ChunkStorageMetadata]
) -> list[ReadItem]:
    """Return the boxes of a checkpoint's chunks that fill this rank's chunks.

    Raises:
        ValueError: the chunks do not cover one of them.
    """
    items: list[ReadItem] = []
    for local_index, local in enumerate(local_chunks):
        covered = 0
        for saved_index, saved in enumerate(checkpoint_md.chunks):
            common = overlap(local, saved)
            if common is None:
                continue
            begin, sizes = common
            covered += prod(sizes)
            items.append(
                ReadItem(
                    LoadItemType.TENSOR,
                    MetadataIndex(fqn, local.offsets, local_index),
                    _minus(begin, local.offsets),
                    MetadataIndex(fqn, saved.offsets, saved_index),
                    _minus(begin, saved.offsets),
                    Size(sizes),
                )
            )
        if covered != prod(local.sizes):
            raise ValueError(
                f"load: '{fqn}' needs {prod(local.sizes)} elements at offsets {tuple(local.offsets)}, but the "
                f"checkpoint has {covered} of them"
            )
    return items


def _minus(minuend: Sequence[int], subtrahend: Sequence[int]) -> Size:
    return Size([a - b for a, b in zip(minuend, subtrahend, strict=True)])
