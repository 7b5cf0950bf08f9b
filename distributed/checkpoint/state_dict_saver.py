"""`save` and `async_save` (`torch.distributed.checkpoint.state_dict_saver`)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from weakref import WeakKeyDictionary

from ..groups import Group, group_or_default, is_initialized
from ..process_group import ProcessGroup
from ..subgroups import new_group
from .coordination import Coordination
from .default_planner import DefaultSavePlanner
from .filesystem_writer import FileSystemWriter
from .metadata import Metadata
from .planner import SavePlan, SavePlanner
from .staging import staged
from .stateful import Stateful
from .storage import StorageWriter, WriteResult

__all__ = ["async_save", "save"]


def save(
    state_dict: Mapping[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: StorageWriter | None = None,
    planner: SavePlanner | None = None,
    process_group: Group = None,
    no_dist: bool = False,
) -> Metadata:
    """Save a state, with each rank writing its shards (`torch.distributed.checkpoint.save`).

    All ranks of the group call it. A tensor that is the same on all ranks is written once per chunk. For a
    `Stateful`, `save` stores its `state_dict`. An existing checkpoint in the folder stays until the new one
    is complete.

    Args:
        state_dict: Tensors, objects, and dicts and lists of them, by name.
        checkpoint_id: The folder, shared by all ranks.
        storage_writer: The writer. Default: a `FileSystemWriter`.
        planner: The planner. Default: a `DefaultSavePlanner`.
        process_group: The group. Default: all ranks.
        no_dist: If True, this process saves alone, which is the case without a process group.

    Returns:
        The checkpoint's metadata.

    Raises:
        CheckpointException: a process failed, in all processes.
        ValueError: neither a folder nor a writer is given.

    Example:
        >>> import os, tempfile, triten as tt
        >>> from triten.distributed import checkpoint
        >>> folder = os.path.join(tempfile.mkdtemp(), "step_100")
        >>> _ = checkpoint.save({"model": {"weight": tt.ones(2)}, "step": 100}, checkpoint_id=folder)
        >>> state = {"model": {"weight": tt.zeros(2)}, "step": 0}
        >>> checkpoint.load(state, checkpoint_id=folder)
        >>> state
        {'model': {'weight': tensor([1., 1.])}, 'step': 100}
    """
    writer = _writer(storage_writer, checkpoint_id)
    coordination = Coordination(process_group, is_initialized() and not no_dist)
    writer.reset(checkpoint_id)
    return _save(_states(state_dict), writer, planner or DefaultSavePlanner(), coordination)


def _writer(
    storage_writer: StorageWriter | None, checkpoint_id: str | os.PathLike[str] | None
) -> StorageWriter:
    if storage_writer is None:
        if checkpoint_id is None:
            raise ValueError("save: expected `checkpoint_id`, or a `storage_writer`, but got neither")
        if not FileSystemWriter.validate_checkpoint_id(checkpoint_id):
            raise ValueError(f"save: `checkpoint_id` is expected to be a folder, but got {checkpoint_id!r}")
        storage_writer = FileSystemWriter(checkpoint_id)
    return storage_writer


def _states(state_dict: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: each.state_dict() if isinstance(each, Stateful) else each for key, each in state_dict.items()
    }


def _save(
    state_dict: dict[str, Any], writer: StorageWriter, planner: SavePlanner, coordination: Coordination
) -> Metadata:
    decided: list[Metadata] = []

    def plan() -> SavePlan:
        planner.set_up_planner(state_dict, writer.storage_meta(), coordination.is_coordinator)
        writer.set_up_storage_writer(coordination.is_coordinator)
        return writer.prepare_local_plan(planner.create_local_plan())

    def decide(plans: list[SavePlan]) -> list[SavePlan]:
        chosen, metadata = planner.create_global_plan(plans)
        decided.append(metadata)
        return writer.prepare_global_plan(chosen)

    central = coordination.reduce_scatter("plan", plan, decide)

    def write() -> list[WriteResult]:
        future = writer.write_data(planner.finish_plan(central), planner)
        future.wait()
        return future.value()

    def finish(results: list[list[WriteResult]]) -> Metadata:
        writer.finish(decided[0], results)
        return decided[0]

    return coordination.all_reduce("write", write, finish)


_groups: WeakKeyDictionary[ProcessGroup, ProcessGroup] = WeakKeyDictionary()
"""The group, beside that of all processes, by which saves in threads communicate."""
_threads = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
"""One save after another, so that all processes begin them in one order."""


def _group_of_saves(process_group: Group) -> Group:
    chosen = group_or_default(process_group)
    backend = chosen.backends.device_backend_map.get("cpu")
    if backend is None:
        raise ValueError(
            "async_save: a CPU backend must be enabled for async save; try initializing the process group with "
            f"'cpu:mpi,cuda:nccl', got {chosen!r}"
        )
    if process_group is not None or chosen.size() == 1:
        return chosen
    if chosen not in _groups:
        made = new_group(backend=backend)
        assert isinstance(made, ProcessGroup)
        _groups[chosen] = made
    return _groups[chosen]


def async_save(
    state_dict: Mapping[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: StorageWriter | None = None,
    planner: SavePlanner | None = None,
    process_group: Group = None,
    no_dist: bool = False,
) -> Future[Metadata]:
    """Save a state in a thread (`torch.distributed.checkpoint.async_save`).

    The state is copied to the host before the call returns, and may be changed then. Saves follow each other. The
    program does not end before the last one has.

    Args:
        state_dict: As for `save`.
        checkpoint_id: the folder.
        storage_writer: The writer.
        planner: The planner.
        process_group: the processes, in a group that nothing else communicates by meanwhile; if nothing is said, all of
            them, in a group that the first such call makes.
        no_dist: If True, this process saves alone.

    Returns:
        The metadata, when the checkpoint is whole; its `result` raises what `save` would.

    Raises:
        ValueError: neither a folder nor a writer is given, or the group has no backend for the host.
    """
    writer = _writer(storage_writer, checkpoint_id)
    is_distributed = is_initialized() and not no_dist
    chosen = _group_of_saves(process_group) if is_distributed else None
    coordination = Coordination(chosen, is_distributed)
    copied = staged(_states(state_dict))
    chosen_planner = planner or DefaultSavePlanner()

    def save_in_thread() -> Metadata:
        # Here, and not before: a save in the thread may still use the writer.
        writer.reset(checkpoint_id)
        return _save(copied, writer, chosen_planner, coordination)

    return _threads.submit(save_in_thread)
