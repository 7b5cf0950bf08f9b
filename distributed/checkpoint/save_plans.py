"""Save plans of all ranks: each chunk written once, the load balanced, and each tensor covered."""

from __future__ import annotations

import dataclasses
from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import prod
from sys import maxsize
from typing import Any

from .metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorStorageMetadata,
)
from .planner import SavePlan, WriteItem, WriteItemType
from .shards import create_write_items

__all__ = ["create_default_global_save_plan", "create_default_local_save_plan", "dedup_save_plans", "overlap"]


def create_default_local_save_plan(state_dict: Mapping[str, Any], is_coordinator: bool) -> SavePlan:
    """Plan what this rank could write of a flat state: its shards, and all values that are not sharded."""
    return SavePlan([item for name, value in state_dict.items() for item in create_write_items(name, value)])


def dedup_save_plans(all_plans: Sequence[SavePlan], save_to_lowest_rank: bool = False) -> list[SavePlan]:
    """Keep each item in only one rank's plan.

    Args:
        all_plans: Plans of all ranks.
        save_to_lowest_rank: If True, the lowest rank that has an item writes it. Otherwise the rank with the
            least bytes to write so far.

    Raises:
        ValueError: an item is of another shape or dtype in another process.
    """
    holders: dict[MetadataIndex, list[int]] = defaultdict(list)
    item_of: dict[MetadataIndex, WriteItem] = {}
    for rank, plan in enumerate(all_plans):
        for item in plan.items:
            holders[item.index].append(rank)
            _check_same(item_of.setdefault(item.index, item), item)
    load = [0] * len(all_plans)
    chosen: dict[MetadataIndex, int] = {}
    # Items that one process alone has are given first: those that can be divided then even the loads out.
    for index, ranks in sorted(holders.items(), key=lambda each: len(each[1]) > 1):
        rank = ranks[0] if save_to_lowest_rank else min(ranks, key=load.__getitem__)
        load[rank] += item_of[index].tensor_storage_size() or 1
        chosen[index] = rank
    return [
        dataclasses.replace(plan, items=[item for item in plan.items if chosen[item.index] == rank])
        for rank, plan in enumerate(all_plans)
    ]


def _check_same(first: WriteItem, second: WriteItem) -> None:
    a, b = first.tensor_data, second.tensor_data
    if a is None or b is None or first is second:
        return
    if (a.size, a.chunk, a.properties.dtype) != (b.size, b.chunk, b.properties.dtype):
        raise ValueError(
            f"save: '{first.index.fqn}' has shape {list(a.size)} and {a.properties.dtype} in one process, "
            f"{list(b.size)} and {b.properties.dtype} in another"
        )


def create_default_global_save_plan(all_plans: Sequence[SavePlan]) -> tuple[list[SavePlan], Metadata]:
    """Return the plans with each chunk's position in the metadata, and the checkpoint's metadata.

    Raises:
        ValueError: processes disagree on a tensor's shape or dtype, or on whether it is one; chunks overlap, lie
            outside of their tensor, or do not cover it.
    """
    entries: dict[str, TensorStorageMetadata | BytesStorageMetadata] = {}
    plans = [
        dataclasses.replace(plan, items=[_entered(item, entries) for item in plan.items])
        for plan in all_plans
    ]
    for name, value in entries.items():
        if isinstance(value, TensorStorageMetadata):
            _check_chunks(name, value)
    return plans, Metadata(entries)


def _entered(item: WriteItem, entries: dict[str, TensorStorageMetadata | BytesStorageMetadata]) -> WriteItem:
    name, data = item.index.fqn, item.tensor_data
    known = entries.get(name)
    if data is None:
        if known is not None:
            raise ValueError(f"save: '{name}' is an object in one process and a tensor in another")
        entries[name] = BytesStorageMetadata()
        return item
    if known is None:
        known = entries[name] = TensorStorageMetadata(data.properties, data.size, [])
    elif not isinstance(known, TensorStorageMetadata):
        raise ValueError(f"save: '{name}' is an object in one process and a tensor in another")
    elif known.size != data.size or known.properties.dtype != data.properties.dtype:
        raise ValueError(
            f"save: '{name}' has shape {list(known.size)} and {known.properties.dtype} in one process, "
            f"{list(data.size)} and {data.properties.dtype} in another"
        )
    elif item.type != WriteItemType.SHARD:
        raise ValueError(f"save: '{name}' is sharded in one process and whole in another")
    known.chunks.append(data.chunk)
    return dataclasses.replace(item, index=dataclasses.replace(item.index, index=len(known.chunks) - 1))


def overlap(
    first: ChunkStorageMetadata, second: ChunkStorageMetadata
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the intersection of two chunks as offsets and sizes; None if it is empty.

    Example:
        >>> from triten import Size
        >>> from triten.distributed.checkpoint import ChunkStorageMetadata
        >>> from triten.distributed.checkpoint.save_plans import overlap
        >>> left = ChunkStorageMetadata(Size([0, 0]), Size([4, 3]))
        >>> overlap(left, ChunkStorageMetadata(Size([2, 1]), Size([4, 1])))
        ((2, 1), (2, 1))
    """
    begin = tuple(map(max, zip(first.offsets, second.offsets, strict=True)))
    sizes = tuple(
        min(a + n, b + m) - start
        for a, n, b, m, start in zip(
            first.offsets, first.sizes, second.offsets, second.sizes, begin, strict=True
        )
    )
    return (begin, sizes) if all(size > 0 for size in sizes) else None


def _check_chunks(name: str, value: TensorStorageMetadata) -> None:
    for chunk in value.chunks:
        inside = len(chunk.offsets) == len(chunk.sizes) == len(value.size) and all(
            offset >= 0 and size >= 0 and offset + size <= whole
            for offset, size, whole in zip(chunk.offsets, chunk.sizes, value.size, strict=True)
        )
        if not inside:
            raise ValueError(
                f"save: '{name}' of shape {list(value.size)} has a chunk out of its bounds: {chunk}"
            )
    _check_disjoint(name, value)
    covered = sum(prod(chunk.sizes) for chunk in value.chunks)
    if covered != prod(value.size):
        raise ValueError(
            f"save: '{name}' of shape {list(value.size)} has {prod(value.size)} elements, but its chunks have {covered}"
        )


def _check_disjoint(name: str, value: TensorStorageMetadata) -> None:
    """Chunks by where they begin along the longest dimension, each beside those that have not ended yet."""
    if not value.size:
        return
    dim = max(range(len(value.size)), key=value.size.__getitem__)
    active: list[tuple[int, int]] = []
    order = sorted(range(len(value.chunks)), key=lambda number: value.chunks[number].offsets[dim])
    for number in order:
        chunk = value.chunks[number]
        begin = chunk.offsets[dim]
        del active[: bisect_right(active, (begin, maxsize))]
        for _, other in active:
            if overlap(chunk, value.chunks[other]) is not None:
                raise ValueError(f"save: '{name}' has overlapping chunks: {chunk} and {value.chunks[other]}")
        insort(active, (begin + chunk.sizes[dim], number))
