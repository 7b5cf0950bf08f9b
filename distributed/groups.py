"""Process groups and their queries (`torch.distributed.get_rank` and similar functions).

`world` creates and destroys the group of all ranks; `subgroups` creates other groups.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence

from .backend import Backend
from .failures import Failures
from .process_group import GroupMember, ProcessGroup

__all__ = [
    "NOT_INITIALIZED",
    "Group",
    "get_backend",
    "get_backend_config",
    "get_global_rank",
    "get_group_rank",
    "get_node_local_rank",
    "get_pg_count",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group_by_name",
    "group_by_ranks",
    "group_or_default",
    "is_available",
    "is_initialized",
    "is_member",
    "is_torchelastic_launched",
]

NOT_INITIALIZED = (
    "Default process group has not been initialized, please make sure to call init_process_group."
)

Group = ProcessGroup | int | None
"""Type of a group argument: a group, None for the group of all ranks, or `GroupMember.NON_GROUP_MEMBER`."""


class _State:
    """The groups of this process."""

    def __init__(self) -> None:
        self.groups: dict[str, ProcessGroup] = {}
        self.made = 0
        self.begun = 0
        self.local: dict[str, int] = {}
        self.failures: Failures | None = None


state = _State()
"""Written by `world` and `subgroups`."""


def is_available() -> bool:
    """Return True: distributed communication is available (`torch.distributed.is_available`).

    Example:
        >>> import triten as tt
        >>> tt.distributed.is_available(), tt.distributed.is_initialized()
        (True, False)
    """
    return True


def is_initialized() -> bool:
    """Return True if the default process group exists (`torch.distributed.is_initialized`)."""
    return GroupMember.WORLD is not None


def is_torchelastic_launched() -> bool:
    """Return True if torchrun or `triten.distributed.run` started this process, according to
    TORCHELASTIC_RUN_ID.
    """
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """Return the environment's LOCAL_RANK (`torch.distributed.get_node_local_rank`).

    Raises:
        RuntimeError: it is not set, and there is no `fallback_rank`.
    """
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is None:
        raise RuntimeError(
            "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow `get_node_local_rank` to "
            "work, assuming you are not running in a multi-device context and want the code to run locally instead."
        )
    return int(fallback_rank)


def world_group() -> ProcessGroup:
    """Return the group of all ranks. Raise ValueError if there is none."""
    if GroupMember.WORLD is None:
        raise ValueError(NOT_INITIALIZED)
    return GroupMember.WORLD


def group_or_default(group: Group = None) -> ProcessGroup:
    """Return the given group, or the group of all ranks for None.

    Raises:
        ValueError: there is none, or this process is not in it.
    """
    if group is None:
        return world_group()
    if not isinstance(group, ProcessGroup):
        if group == GroupMember.NON_GROUP_MEMBER:
            raise ValueError("Invalid process group: this process is not in it")
        raise TypeError(f"expected a ProcessGroup for group, but got {type(group).__name__}")
    return group


def group_by_name(name: str) -> ProcessGroup:
    """Return the group with a name (`torch._C._distributed_c10d._resolve_process_group`).

    Raises:
        LookupError: there is none.
    """
    if name not in state.groups:
        raise LookupError(f"Could not resolve the process group registered under the name {name}")
    return state.groups[name]


def group_by_ranks(ranks: Sequence[int]) -> ProcessGroup:
    """Return the first group created with these global ranks, in this order.

    Raises:
        ValueError: There is no such group.
    """
    requested_ranks = tuple(ranks)
    for each in state.groups.values():
        if each.spec.ranks == requested_ranks:
            return each
    raise ValueError(f"there is no process group of ranks {list(requested_ranks)}: make one with new_group")


def is_member(group: Group, name: str = "") -> bool:
    """Return True if this process is in a group. Otherwise warn if a function's name is given.

    Raises:
        ValueError: there is no group of all processes, or it is no group.
    """
    if group is None or isinstance(group, ProcessGroup):
        if group is None:
            world_group()
        return True
    if group != GroupMember.NON_GROUP_MEMBER:
        raise ValueError(
            f"Process group {group} is not initialized in the world group map: expected a ProcessGroup, but got "
            f"{type(group).__name__}"
        )
    if name:
        warnings.warn(
            f"Running {name} on global rank {get_rank()} which does not belong to the given group.",
            stacklevel=3,
        )
    return False


def get_rank(group: Group = None) -> int:
    """Return this process's rank in a group, or -1 if it is not a member (`torch.distributed.get_rank`)."""
    return group_or_default(group).rank() if is_member(group) else -1


def get_world_size(group: Group = None) -> int:
    """Return the number of ranks of a group; -1 if this process is not in it
    (`torch.distributed.get_world_size`).
    """
    return group_or_default(group).size() if is_member(group) else -1


def get_backend(group: Group = None) -> Backend:
    """Return the name of a group's backend (`torch.distributed.get_backend`).

    Raises:
        ValueError: there is no such group, or this process is not in it.
    """
    return Backend(group_or_default(group).name())


def get_backend_config(group: Group = None) -> str:
    """Return the backend of each device type as text (`torch.distributed.get_backend_config`)."""
    return repr(group_or_default(group).backends)


def get_pg_count() -> int:
    """Return the number of groups (`torch.distributed.get_pg_count`)."""
    return len(state.groups)


def get_process_group_ranks(group: Group) -> list[int]:
    """Return the global ranks of a group (`torch.distributed.get_process_group_ranks`)."""
    return list(group_or_default(group).spec.ranks)


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """Return the rank in a group for a global rank (`torch.distributed.get_group_rank`).

    Raises:
        ValueError: it is not in the group.
    """
    ranks = group_or_default(group).spec.ranks
    if global_rank not in ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return ranks.index(global_rank)


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """Return the global rank for a rank in a group (`torch.distributed.get_global_rank`).

    Raises:
        ValueError: the group has no such process.
    """
    ranks = group_or_default(group).spec.ranks
    if not 0 <= group_rank < len(ranks):
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return ranks[group_rank]
