"""The planners that `save` and `load` use if none is given (`torch.distributed.checkpoint.default_planner`)."""

from __future__ import annotations

import dataclasses
import io
from collections import ChainMap
from collections.abc import Collection
from typing import Any

from ... import serialization
from ...dispatch.tensor import Tensor
from .metadata import Metadata, MetadataIndex, StorageMeta, TensorStorageMetadata
from .nested_dict import flatten_state_dict, set_element, stored_paths
from .planner import LoadPlan, LoadPlanner, ReadItem, SavePlan, SavePlanner, WriteItem, WriteItemType
from .read_items import create_default_local_load_plan
from .save_plans import create_default_global_save_plan, create_default_local_save_plan, dedup_save_plans
from .shards import find_shard

__all__ = [
    "DefaultLoadPlanner",
    "DefaultSavePlanner",
    "create_default_global_save_plan",
    "create_default_local_load_plan",
    "create_default_local_save_plan",
]


class DefaultSavePlanner(SavePlanner):
    """Each process writes its shards; what all have is divided (`torch.distributed.checkpoint.DefaultSavePlanner`).

    Args:
        flatten_state_dict: whether nested dicts, and lists with tensors, are saved by dotted names; otherwise each
            value of the state is a tensor or an object.
        flatten_sharded_tensors: Ignored; accepted for compatibility with PyTorch.
        dedup_replicated_tensors: Ignored; accepted for compatibility with PyTorch. Replicated data is written
            once.
        dedup_save_to_lowest_rank: If True, the lowest rank that has an item writes it.
        enable_plan_caching: Ignored; accepted for compatibility with PyTorch. Each save is planned.
    """

    def __init__(
        self,
        flatten_state_dict: bool = True,
        flatten_sharded_tensors: bool = True,
        dedup_replicated_tensors: bool | None = None,
        dedup_save_to_lowest_rank: bool = False,
        enable_plan_caching: bool = False,
    ) -> None:
        self.flatten_state_dict = flatten_state_dict
        self.dedup_save_to_lowest_rank = dedup_save_to_lowest_rank
        self.mappings: dict[str, tuple[Any, ...]] = {}

    def set_up_planner(
        self,
        state_dict: dict[str, Any],
        storage_meta: StorageMeta | None = None,
        is_coordinator: bool = False,
    ) -> None:
        """Take the state; raises ValueError where two values have the same dotted name."""
        self.state_dict: dict[str, Any] = state_dict
        if self.flatten_state_dict:
            self.state_dict, paths = flatten_state_dict(state_dict)
            self.mappings = stored_paths(paths, state_dict)
        self.is_coordinator = is_coordinator

    def create_local_plan(self) -> SavePlan:
        """Plan everything that this rank could write, with the path of each key in the nested state."""
        plan = create_default_local_save_plan(self.state_dict, self.is_coordinator)
        self.plan = dataclasses.replace(plan, planner_data=self.mappings if self.flatten_state_dict else None)
        return self.plan

    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        """Assign each item to one rank's plan. Raise ValueError if ranks contradict each other."""
        plans, metadata = create_default_global_save_plan(
            dedup_save_plans(all_plans, self.dedup_save_to_lowest_rank)
        )
        if self.flatten_state_dict:
            metadata.planner_data = dict(ChainMap(*(plan.planner_data for plan in plans)))
        self.global_plan, self.metadata = plans, metadata
        return plans, metadata

    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        """Store the final plan."""
        self.plan = new_plan
        return new_plan

    def resolve_data(self, write_item: WriteItem) -> Tensor | io.BytesIO:
        """Return the tensor of an item, or the object's bytes as `tt.save` writes them."""
        return self.transform_object(write_item, self.lookup_object(write_item.index))

    def lookup_object(self, index: MetadataIndex) -> Any:
        """Return the value of a name, or the shard of a sharded tensor. Subclasses may override it."""
        value = self.state_dict[index.fqn]
        return find_shard(value, index) if index.offset is not None else value

    def transform_object(self, write_item: WriteItem, object: Any) -> Tensor | io.BytesIO:
        """Convert a value to what is written. Subclasses may override it."""
        if write_item.type != WriteItemType.BYTE_IO:
            tensor: Tensor = object
            return tensor
        written = io.BytesIO()
        serialization.save(object, written)
        return written


class DefaultLoadPlanner(LoadPlanner):
    """Each process reads what its shards need (`torch.distributed.checkpoint.DefaultLoadPlanner`).

    Tensors are filled where they are; other values of the state are replaced. Objects are read as `tt.load` does by
    default: what a file says is not executed, and classes beyond plain ones are those of
    `tt.serialization.add_safe_globals`.

    Args:
        flatten_state_dict: as when the checkpoint was saved.
        flatten_sharded_tensors: Ignored; accepted for compatibility with PyTorch.
        allow_partial_load: If True, leave values of names that the checkpoint lacks unchanged.
    """

    def __init__(
        self,
        flatten_state_dict: bool = True,
        flatten_sharded_tensors: bool = True,
        allow_partial_load: bool = False,
    ) -> None:
        self.flatten_state_dict = flatten_state_dict
        self.allow_partial_load = allow_partial_load
        self.mappings: dict[str, tuple[Any, ...]] = {}

    def set_up_planner(
        self, state_dict: dict[str, Any], metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        """Set the state; a Meta tensor is replaced by a CPU tensor, whose elements are read."""
        self.original_state_dict = state_dict
        self.state_dict: dict[str, Any] = state_dict
        if self.flatten_state_dict:
            self.state_dict, self.mappings = flatten_state_dict(state_dict)
        for name, value in list(self.state_dict.items()):
            if type(value) is Tensor and value.is_meta:
                self._replace(name, value.new_empty(value.shape, device="cpu"))
        self.metadata = metadata
        self.is_coordinator = is_coordinator

    def create_local_plan(self) -> LoadPlan:
        """Plan what this rank reads. Raise RuntimeError for a missing name, ValueError for a different shape."""
        assert self.metadata is not None
        return create_default_local_load_plan(self.state_dict, self.metadata, not self.allow_partial_load)

    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        """Return the plans of all ranks unchanged."""
        return global_plan

    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        """Return the final plan."""
        return central_plan

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Put an object into the state. Raises UnpicklingError for classes that are not allowed."""
        self._replace(read_item.dest_index.fqn, serialization.load(value, map_location="cpu"))

    def _replace(self, name: str, value: Any) -> None:
        self.state_dict[name] = value
        if self.flatten_state_dict:
            set_element(self.original_state_dict, self.mappings[name], value)

    def resolve_tensor(self, read_item: ReadItem) -> Tensor:
        """Return the memory of a box of a shard."""
        tensor = self.lookup_tensor(read_item.dest_index)
        return self.transform_tensor(read_item, tensor)

    def commit_tensor(self, read_item: ReadItem, tensor: Tensor) -> None:
        """Nothing is left to do: the box is part of the state's tensor."""

    def lookup_tensor(self, index: MetadataIndex) -> Tensor:
        """Return the shard of a name. Subclasses may override it."""
        return find_shard(self.state_dict[index.fqn], index)

    def transform_tensor(self, read_item: ReadItem, tensor: Tensor) -> Tensor:
        """Return the box of a shard. Subclasses may override it."""
        for dim, (begin, size) in enumerate(zip(read_item.dest_offsets, read_item.lengths, strict=True)):
            tensor = tensor.narrow(dim, begin, size)
        return tensor


class _EmptyStateDictLoadPlanner(DefaultLoadPlanner):
    """Fills an empty state with all that a checkpoint has, whole.

    Args:
        keys: names, dotted or of dicts that hold more, that alone are read; all if nothing is said.
    """

    def __init__(self, keys: Collection[str] | None = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.keys = keys

    def set_up_planner(
        self, state_dict: dict[str, Any], metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        from ...dispatch.generated.functions import empty

        if state_dict:
            raise ValueError(f"load: expected an empty state_dict, but got the keys {list(state_dict)}")
        assert metadata is not None
        paths = metadata.planner_data or {}
        for name, saved in metadata.state_dict_metadata.items():
            path = paths.get(name, (name,))
            if not self._is_wanted(name, path):
                continue
            value: Any = None
            if isinstance(saved, TensorStorageMetadata):
                value = empty(tuple(saved.size), dtype=saved.properties.dtype)
            set_element(state_dict, path, value)
        super().set_up_planner(state_dict, metadata, is_coordinator)

    def _is_wanted(self, name: str, path: tuple[Any, ...]) -> bool:
        if self.keys is None or name in self.keys:
            return True
        return any(".".join(map(str, path[:length])) in self.keys for length in range(1, len(path)))
