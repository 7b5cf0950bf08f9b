"""`load` (`torch.distributed.checkpoint.state_dict_loader`)."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Any

from ..groups import Group, is_initialized
from .coordination import Coordination
from .default_planner import DefaultLoadPlanner, _EmptyStateDictLoadPlanner
from .filesystem_reader import FileSystemReader
from .planner import LoadPlan, LoadPlanner
from .stateful import Stateful
from .storage import StorageReader

__all__ = ["load"]


def load(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_reader: StorageReader | None = None,
    planner: LoadPlanner | None = None,
    process_group: Group = None,
    no_dist: bool = False,
) -> None:
    """Fill a state from a checkpoint saved by any number of ranks (`torch.distributed.checkpoint.load`).

    All ranks of the group call it with the same names. Tensors are filled in-place, and each rank reads what
    its shards need. Other values are replaced. For a `Stateful`, `load` fills its `state_dict` and passes it
    to `load_state_dict`.

    Args:
        state_dict: tensors, objects, and dicts and lists of them, by name.
        checkpoint_id: the folder.
        storage_reader: The reader. Default: a `FileSystemReader`.
        planner: The planner. Default: a `DefaultLoadPlanner`.
        process_group: The group. Default: all ranks.
        no_dist: If True, this process loads alone, which is the case without a process group.

    Raises:
        CheckpointException: a process failed, in all processes: a name is missing, a shape is another one, a file is
            damaged. Some tensors may have been filled by then.
        ValueError: neither a folder nor a reader is given.
    """
    reader = _reader(storage_reader, checkpoint_id)
    coordination = Coordination(process_group, is_initialized() and not no_dist)
    states = {
        key: each.state_dict() if isinstance(each, Stateful) else each
        for key, each in sorted(state_dict.items())
    }
    _load(states, reader, planner or DefaultLoadPlanner(), coordination)
    for key, value in states.items():
        held = state_dict[key]
        if isinstance(held, Stateful):
            held.load_state_dict(value)
        else:
            state_dict[key] = value


def _reader(
    storage_reader: StorageReader | None, checkpoint_id: str | os.PathLike[str] | None
) -> StorageReader:
    if storage_reader is None:
        if checkpoint_id is None:
            raise ValueError("load: expected `checkpoint_id`, or a `storage_reader`, but got neither")
        if not FileSystemReader.validate_checkpoint_id(checkpoint_id):
            raise ValueError(f"load: `checkpoint_id` is expected to be a folder, but got {checkpoint_id!r}")
        storage_reader = FileSystemReader(checkpoint_id)
    storage_reader.reset(checkpoint_id)
    return storage_reader


def _load(
    state_dict: dict[str, Any], reader: StorageReader, planner: LoadPlanner, coordination: Coordination
) -> None:
    def plan() -> LoadPlan:
        metadata = reader.read_metadata()
        reader.set_up_storage_reader(metadata, coordination.is_coordinator)
        if isinstance(planner, _EmptyStateDictLoadPlanner) and isinstance(reader, FileSystemReader):
            reader.check_files()
        planner.set_up_planner(state_dict, metadata, coordination.is_coordinator)
        return reader.prepare_local_plan(planner.create_local_plan())

    def decide(plans: list[LoadPlan]) -> list[LoadPlan]:
        return reader.prepare_global_plan(planner.create_global_plan(plans))

    central = coordination.reduce_scatter("plan", plan, decide)

    def read() -> None:
        reader.read_data(planner.finish_plan(central), planner).wait()

    coordination.all_gather("read", read)


def _load_state_dict_from_keys(
    keys: Collection[str] | str | None = None,
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_reader: StorageReader | None = None,
) -> dict[str, Any]:
    """Load a whole checkpoint on this rank alone.

    Args:
        keys: Names to read: dotted names, or names of dicts that hold more. None reads all.
        checkpoint_id: The folder.
        storage_reader: The reader.
    """
    chosen = {keys} if isinstance(keys, str) else keys
    state_dict: dict[str, Any] = {}
    reader = _reader(storage_reader, checkpoint_id)
    _load(state_dict, reader, _EmptyStateDictLoadPlanner(chosen), Coordination(None, False))
    return state_dict
