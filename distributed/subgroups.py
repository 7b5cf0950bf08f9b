"""Groups of some of the ranks (`torch.distributed.new_group` and similar functions)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from ..runtime.device import device as Device
from .backend import Backend, BackendConfig, timeout_or_default
from .groups import (
    Group,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group_or_default,
    state,
    world_group,
)
from .meeting import meet
from .process_group import GroupMember, GroupSpec, ProcessGroup
from .stores.prefix_store import PrefixStore

__all__ = ["new_group", "new_subgroups", "new_subgroups_by_enumeration", "split_group"]


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Device | None = None,
    sort_ranks: bool = True,
) -> ProcessGroup | int | None:
    """Make a group of some processes (`torch.distributed.new_group`).

    All processes of the world call it, in the same order, also those that are not in the group.

    Args:
        ranks: their numbers in the world; None for all.
        timeout: Timeout of a communication. Default: the backend's.
        backend: The backend. Default: that of the world group.
        pg_options: Ignored; accepted for compatibility with PyTorch.
        use_local_synchronization: If True, only the group's own ranks call the function.
        group_desc: Description of the group.
        device_id: the GPU that this process works on.
        sort_ranks: If True, sort the group by global rank. Otherwise keep the given order.

    Returns:
        The group; `GroupMember.NON_GROUP_MEMBER` in a process that is not in it, or None there with
        `use_local_synchronization`.

    Raises:
        ValueError: a number is given twice or does not exist.
    """
    world = world_group()
    size = world.size()
    chosen = tuple(range(size)) if ranks is None else tuple(int(rank) for rank in ranks)
    if use_local_synchronization and world.rank() not in chosen:
        return None
    if sort_ranks:
        chosen = tuple(sorted(chosen))
    if len(set(chosen)) != len(chosen):
        raise ValueError(f"ranks list must not contain duplicate entries, got {list(chosen)}")
    if len(chosen) > size:
        raise ValueError(
            "the new group's world size should be less or equal to the world size set by init_process_group"
        )
    for rank in chosen:
        if not 0 <= rank < size:
            raise ValueError(
                f"Rank {rank} is out of range. Valid ranks are 0 to {size - 1} (world_size={size})"
            )
    backends = world.backends if not backend else BackendConfig(Backend(backend))
    limit = timeout_or_default(timeout, backends) if timeout is not None or backend else world.timeout
    if use_local_synchronization:  # the processes that are not in it count no group
        tag = sum((index + 1) * (rank + 1) for index, rank in enumerate(chosen)) + (1 << 14)
        own = "ranks " + ",".join(map(str, chosen))
        state.local[own] = number = (
            state.local.get(own, 0) + 1
        )  # a name that was used has values in the store
        name = f"{own} ({number})"
    else:
        tag, name = state.made, str(state.made)
        state.made += 1
    if world.rank() not in chosen:
        return GroupMember.NON_GROUP_MEMBER
    spec = GroupSpec(
        name,
        chosen,
        chosen.index(world.rank()),
        PrefixStore(f"group/{name}", world.get_group_store()),
        limit,
        tag,
        group_desc or "undefined",
        device_id or world.bound_device_id,
        world.spec.failures,
    )
    return _registered(ProcessGroup(spec, backends, world))


def _registered(made: ProcessGroup) -> ProcessGroup:
    spec = made.spec
    fake = Backend.FAKE in made.backends.device_backend_map.values()
    if len(spec.ranks) > 1 and not fake:
        meet(spec, made.backends, "new_group")
        if made.backends.device_backend_map.get("cpu") in (Backend.MPI, Backend.GLOO):
            made.communicator("cpu")
    state.groups[spec.name] = made
    return made


def new_subgroups(
    group_size: int | None = None,
    group: Group = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[ProcessGroup | int | None, list[ProcessGroup | int | None]]:
    """Divide a group into groups of one size, in order (`torch.distributed.new_subgroups`).

    Args:
        group_size: Number of ranks of each group. Default: the number of this machine's GPUs.
        group: Group that is split.
        timeout: As for `new_group`.
        backend: As for `new_group`.
        pg_options: Ignored; accepted for compatibility with PyTorch.
        group_desc: As for `new_group`.

    Returns:
        This process's group, and all of them.

    Raises:
        ValueError: the size does not divide the number of processes.
    """
    if group_size is None:
        from .. import cuda

        if not cuda.is_available():
            raise ValueError(
                "Default group size only takes effect when CUDA is available. If your subgroup using a backend that "
                "does not depend on CUDA, please pass in 'group_size' correctly."
            )
        group_size = cuda.device_count()
    size = get_world_size(group)
    if group_size <= 0:
        raise ValueError(f"The arg 'group_size' ({group_size}) must be positive")
    if size < group_size:
        raise ValueError(f"The arg 'group_size' ({group_size}) must not exceed the world size ({size})")
    if size % group_size:
        raise ValueError(f"The world size ({size}) must be divisible by 'group_size={group_size}'")
    ranks = get_process_group_ranks(group)
    parts = [ranks[begin : begin + group_size] for begin in range(0, size, group_size)]
    return new_subgroups_by_enumeration(parts, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[ProcessGroup | int | None, list[ProcessGroup | int | None]]:
    """Divide the world into groups that share no process (`torch.distributed.new_subgroups_by_enumeration`).

    Returns:
        This process's group, None if it is in none, and all of them.

    Raises:
        ValueError: there are none, or a process is in two.
    """
    if not ranks_per_subgroup_list:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    subgroup_of_rank: dict[int, Sequence[int]] = {}
    for ranks in ranks_per_subgroup_list:
        for rank in ranks:
            if rank in subgroup_of_rank:
                raise ValueError(
                    f"Rank {rank} has appeared in both subgroup {subgroup_of_rank[rank]} and {ranks}"
                )
            subgroup_of_rank[rank] = ranks
    groups = [
        new_group(ranks, timeout, backend, pg_options, group_desc=group_desc)
        for ranks in ranks_per_subgroup_list
    ]
    own = [each for ranks, each in zip(ranks_per_subgroup_list, groups, strict=True) if get_rank() in ranks]
    return (own[0] if own else None), groups


def split_group(
    parent_pg: ProcessGroup | None = None,
    split_ranks: Sequence[Sequence[int]] | None = None,
    timeout: timedelta | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
    backend: str | None = None,
) -> ProcessGroup | None:
    """Divide a group, all of whose processes call it (`torch.distributed.split_group`).

    Args:
        parent_pg: the group; None for that of all processes.
        split_ranks: the numbers in it of each part's processes.
        timeout: As for `new_group`.
        pg_options: Ignored; accepted for compatibility with PyTorch.
        group_desc: As for `new_group`.
        backend: As for `new_group`.

    Returns:
        This process's part, or None if it is in none.

    Raises:
        ValueError: the parts are none, share a process, or have one that does not exist.
    """
    if not split_ranks:
        raise ValueError("split_ranks cannot be None or empty")
    world, parent = world_group(), group_or_default(parent_pg)
    parts = [sorted(part) for part in split_ranks]
    numbers = [rank for part in parts for rank in part]
    if len(set(numbers)) != len(numbers):
        raise ValueError("the split group cannot have duplicate ranks")
    if any(not part for part in parts):
        raise ValueError("the split group cannot be empty")
    if any(not 0 <= rank < parent.size() for rank in numbers):
        raise ValueError(f"split_ranks must be in the range [0, {parent.size()}), but got {split_ranks}")
    count = parent.splits = parent.splits + 1
    own = next((part for part in parts if parent.rank() in part), None)
    if own is None:
        return None
    chosen = tuple(parent.spec.ranks[rank] for rank in own)
    name = f"{parent.group_name}:split:{count}:{own[0]}"
    backends = parent.backends if not backend else BackendConfig(Backend(backend))
    spec = GroupSpec(
        name,
        chosen,
        own.index(parent.rank()),
        PrefixStore(f"group/{name}", world.get_group_store()),
        parent.timeout if timeout is None else timeout_or_default(timeout, backends),
        (1 << 13) + count,
        group_desc or f"{parent.group_desc}:split:{chosen}",
        parent.bound_device_id,
        world.spec.failures,
    )
    return _registered(ProcessGroup(spec, backends, world))
