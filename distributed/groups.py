"""Groups of processes: made, asked, and ended (`torch.distributed.init_process_group`, `new_group` and their kin)."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from ..runtime.device import device as Device
from .backend import Backend, BackendConfig
from .errors import DistStoreError
from .failures import Failures
from .process_group import GroupMember, GroupSpec, ProcessGroup
from .rendezvous import rendezvous
from .stores.prefix_store import PrefixStore
from .stores.store import Store

__all__ = [
    "NOT_INITIALIZED",
    "Group",
    "destroy_process_group",
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
    "init_process_group",
    "is_available",
    "is_initialized",
    "is_member",
    "is_torchelastic_launched",
    "new_group",
    "new_subgroups",
    "new_subgroups_by_enumeration",
    "split_group",
]

NOT_INITIALIZED = (
    "Default process group has not been initialized, please make sure to call init_process_group."
)
DEFAULT_TIMEOUT = timedelta(minutes=30)
NCCL_TIMEOUT = timedelta(minutes=10)
POLL = 0.002
"""Seconds between two looks whether all processes have come."""

Group = ProcessGroup | int | None
"""What functions take for a group: one, None for that of all processes, or `GroupMember.NON_GROUP_MEMBER`."""


class _State:
    """The groups of this process."""

    def __init__(self) -> None:
        self.groups: dict[str, ProcessGroup] = {}
        self.made = 0
        self.begun = 0
        self.local: dict[str, int] = {}
        self.failures: Failures | None = None


_state = _State()


def is_available() -> bool:
    """Whether processes can communicate (`torch.distributed.is_available`): they can.

    Example:
        >>> import triten as tt
        >>> tt.distributed.is_available(), tt.distributed.is_initialized()
        (True, False)
    """
    return True


def is_initialized() -> bool:
    """Whether there is a process group (`torch.distributed.is_initialized`)."""
    return GroupMember.WORLD is not None


def is_torchelastic_launched() -> bool:
    """Whether torchrun or `triten.distributed.run` started this process: by the variable that they set."""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The environment's LOCAL_RANK (`torch.distributed.get_node_local_rank`).

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


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Store | None = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Device | int | str | None = None,
) -> None:
    """Make the group of all processes (`torch.distributed.init_process_group`).

    Each of them calls it. They find each other by `store`, or by the URL `init_method` as `rendezvous` describes it.

    Args:
        backend: ``"mpi"`` for tensors on the host (``"gloo"`` is the same), ``"nccl"`` for those on GPUs, pairs such as
            ``"cpu:mpi,cuda:nccl"``; None for these pairs.
        init_method: a URL; ``env://`` if there is no store either.
        timeout: how long a communication may take; 10 minutes for NCCL, else 30, if nothing is said.
        world_size: the number of processes, where the URL does not say it.
        rank: this process's number, where the URL does not say it.
        store: a store that all processes share, in the place of a URL.
        group_name: taken for PyTorch's sake.
        pg_options: taken for PyTorch's sake.
        device_id: the GPU that this process works on.

    Raises:
        ValueError: there is such a group already, or something that the URL needs is missing.
        AssertionError: both a store and a URL, or a store without `rank` and `world_size`.
        DistError: the processes do not find each other in time.

    Example:
        >>> import triten as tt
        >>> tt.distributed.init_process_group("mpi", store=tt.distributed.HashStore(), rank=0, world_size=1)
        >>> x = tt.ones(2)
        >>> tt.distributed.all_reduce(x)
        >>> tt.distributed.destroy_process_group()
    """
    if GroupMember.WORLD is not None:
        raise ValueError("trying to initialize the default process group twice!")
    if store is not None and init_method is not None:
        raise AssertionError("Cannot specify both init_method and store.")
    if store is not None and not (world_size > 0 and rank >= 0):
        raise AssertionError("world_size must be positive and rank must be non-negative if using store")
    if store is not None and rank >= world_size:
        raise ValueError(f"init_process_group: expected a rank below {world_size}, but got {rank}")
    device = _checked_device(device_id)
    if backend is None:
        backend = Backend.UNDEFINED
        if device is not None and device.type in Backend.default_device_backend_map:
            backend = Backend.default_device_backend_map[device.type]
    backends = BackendConfig(Backend(backend))
    limit = _checked_timeout(timeout, backends)
    if store is None:
        if Backend(backend) == Backend.FAKE and init_method is None:
            raise ValueError(
                "init_process_group: the backend 'fake' needs a store, rank and world_size: FakeStore()"
            )
        store, rank, world_size = next(
            iter(rendezvous(init_method or "env://", rank, world_size, timeout=limit))
        )
        store.set_timeout(limit)
    _state.begun += 1
    own = PrefixStore(f"default_pg/{_state.begun}", store)
    failures = Failures(own, rank, 1 if Backend(backend) == Backend.FAKE else world_size)
    spec = GroupSpec("0", tuple(range(world_size)), rank, own, limit, 0, "default_pg", device, failures)
    world = ProcessGroup(spec, backends)
    try:
        if failures.size > 1:
            _meet(spec, "init_process_group")
        eager = {"cpu": (Backend.MPI, Backend.GLOO), "cuda": (Backend.NCCL,) if device is not None else ()}
        for kind, names in eager.items() if failures.size > 1 else ():  # at once, as all processes are here
            if backends.device_backend_map.get(kind) in names:
                world.communicator(kind)
    except BaseException:
        failures.close()
        raise
    _state.failures = failures
    _state.made = 1
    _state.local = {}
    _state.groups = {spec.name: world}
    GroupMember.WORLD = world


def _checked_device(device_id: Device | int | str | None) -> Device | None:
    if device_id is None:
        return None
    device = Device("cuda", device_id) if isinstance(device_id, int) else Device(device_id)
    if device.type == "cpu":
        return device
    if device.index is None:
        raise ValueError("Please use a device_id with index.")
    from .. import cuda

    if device.index >= cuda.device_count():
        raise ValueError(
            f"device_id {device} is out of range. Please use a device index less than the number of accelerators "
            f"available: {cuda.device_count()}."
        )
    return device


def _checked_timeout(timeout: timedelta | None, backends: BackendConfig) -> timedelta:
    if timeout is None:
        names = set(backends.device_backend_map.values())
        return NCCL_TIMEOUT if names == {Backend.NCCL} else DEFAULT_TIMEOUT
    if not isinstance(timeout, timedelta):
        raise TypeError(
            f"Expected timeout argument to be of type datetime.timedelta, got {timeout} of {type(timeout).__name__}"
        )
    return timeout


def _meet(spec: GroupSpec, name: str) -> None:
    """Wait until all processes of a group have come.

    Raises:
        DistStoreError: some have not within the group's time limit.
    """
    store, size = spec.store, len(spec.ranks)
    store.set(f"came/{spec.rank}", b"")
    if store.add("came", 1) == size:
        store.set("all came", b"")
    deadline = time.monotonic() + spec.timeout.total_seconds()
    while not store.check(["all came"]):
        if time.monotonic() > deadline:
            missing = [rank for number, rank in enumerate(spec.ranks) if not store.check([f"came/{number}"])]
            raise DistStoreError(
                f"{name}: rank {spec.rank} of group {spec.name!r} waited {spec.timeout.total_seconds():g} s for "
                f"{size} processes; not heard of: rank {', '.join(map(str, missing))}"
            )
        gone = spec.failures.gone(spec.ranks) if spec.failures.size > 1 else None
        if gone is not None and not store.check(["all came"]):
            raise DistStoreError(f"{name}: rank {spec.rank} of group {spec.name!r} waited for others; {gone}")
        time.sleep(POLL)


def destroy_process_group(group: Group = None) -> None:
    """End a group, or all of them (`torch.distributed.destroy_process_group`).

    Args:
        group: the group; None, or that of all processes, for all.

    Raises:
        ValueError: there is no such group.
    """
    if group == GroupMember.NON_GROUP_MEMBER:
        return
    world = GroupMember.WORLD
    ended = world if group is None else group
    if world is None:
        raise AssertionError("Process group cannot be None")
    if not isinstance(ended, ProcessGroup) or _state.groups.get(ended.group_name) is not ended:
        raise ValueError("Invalid process group specified")
    if ended is not world:
        ended.shutdown()
        del _state.groups[ended.group_name]
        return
    for each in sorted(_state.groups.values(), key=lambda made: made.spec.tag, reverse=True):
        each.shutdown()
    _state.groups.clear()
    if _state.failures is not None:
        _state.failures.close()
        _state.failures = None
    GroupMember.WORLD = None


def _world() -> ProcessGroup:
    if GroupMember.WORLD is None:
        raise ValueError(NOT_INITIALIZED)
    return GroupMember.WORLD


def group_or_default(group: Group = None) -> ProcessGroup:
    """A group, or that of all processes.

    Raises:
        ValueError: there is none, or this process is not in it.
    """
    if group is None:
        return _world()
    if not isinstance(group, ProcessGroup):
        if group == GroupMember.NON_GROUP_MEMBER:
            raise ValueError("Invalid process group: this process is not in it")
        raise TypeError(f"expected a ProcessGroup for group, but got {type(group).__name__}")
    return group


def group_by_name(name: str) -> ProcessGroup:
    """The group of a name (`torch._C._distributed_c10d._resolve_process_group`).

    Raises:
        LookupError: there is none.
    """
    if name not in _state.groups:
        raise LookupError(f"Could not resolve the process group registered under the name {name}")
    return _state.groups[name]


def group_by_ranks(ranks: Sequence[int]) -> ProcessGroup:
    """The first group that was made of these processes of the world, in this order.

    Raises:
        ValueError: there is none.
    """
    wanted = tuple(ranks)
    for each in _state.groups.values():
        if each.spec.ranks == wanted:
            return each
    raise ValueError(f"there is no process group of ranks {list(wanted)}: make one with new_group")


def is_member(group: Group, name: str = "") -> bool:
    """Whether this process is in a group; where it is not and a function's name is given, it says so.

    Raises:
        ValueError: there is no group of all processes, or it is no group.
    """
    if group is None or isinstance(group, ProcessGroup):
        if group is None:
            _world()
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
    """This process's number in a group; -1 where it is not in it (`torch.distributed.get_rank`)."""
    return group_or_default(group).rank() if is_member(group) else -1


def get_world_size(group: Group = None) -> int:
    """How many processes a group has; -1 where this one is not in it (`torch.distributed.get_world_size`)."""
    return group_or_default(group).size() if is_member(group) else -1


def get_backend(group: Group = None) -> Backend:
    """The name of a group's backend (`torch.distributed.get_backend`).

    Raises:
        ValueError: there is no such group, or this process is not in it.
    """
    return Backend(group_or_default(group).name())


def get_backend_config(group: Group = None) -> str:
    """The backend of each type of device, in words (`torch.distributed.get_backend_config`)."""
    return repr(group_or_default(group).backends)


def get_pg_count() -> int:
    """How many groups there are (`torch.distributed.get_pg_count`)."""
    return len(_state.groups)


def get_process_group_ranks(group: Group) -> list[int]:
    """The numbers in the world of a group's processes (`torch.distributed.get_process_group_ranks`)."""
    return list(group_or_default(group).spec.ranks)


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """The number in a group of a process of the world (`torch.distributed.get_group_rank`).

    Raises:
        ValueError: it is not in the group.
    """
    ranks = group_or_default(group).spec.ranks
    if global_rank not in ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return ranks.index(global_rank)


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """The number in the world of a process of a group (`torch.distributed.get_global_rank`).

    Raises:
        ValueError: the group has no such process.
    """
    ranks = group_or_default(group).spec.ranks
    if not 0 <= group_rank < len(ranks):
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return ranks[group_rank]


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
        timeout: how long a communication may take; that of the backend if nothing is said.
        backend: a backend; that of the world if nothing is said.
        pg_options: taken for PyTorch's sake.
        use_local_synchronization: whether only the group's own processes call it.
        group_desc: what it is for, in words.
        device_id: the GPU that this process works on.
        sort_ranks: whether the group's order is that of the numbers, or the given one.

    Returns:
        The group; `GroupMember.NON_GROUP_MEMBER` in a process that is not in it, or None there with
        `use_local_synchronization`.

    Raises:
        ValueError: a number is given twice or does not exist.
    """
    world = _world()
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
    limit = _checked_timeout(timeout, backends) if timeout is not None or backend else world.timeout
    if use_local_synchronization:  # the processes that are not in it count no group
        tag = sum((place + 1) * (rank + 1) for place, rank in enumerate(chosen)) + (1 << 14)
        own = "ranks " + ",".join(map(str, chosen))
        _state.local[own] = number = (
            _state.local.get(own, 0) + 1
        )  # a name that was used has values in the store
        name = f"{own} ({number})"
    else:
        tag, name = _state.made, str(_state.made)
        _state.made += 1
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
        _meet(spec, "new_group")
        if made.backends.device_backend_map.get("cpu") in (Backend.MPI, Backend.GLOO):
            made.communicator("cpu")
    _state.groups[spec.name] = made
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
        group_size: how many processes each has; the number of this machine's GPUs if nothing is said.
        group: what is divided.
        timeout: as for `new_group`.
        backend: as for `new_group`.
        pg_options: taken for PyTorch's sake.
        group_desc: as for `new_group`.

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
    seen: dict[int, Sequence[int]] = {}
    for ranks in ranks_per_subgroup_list:
        for rank in ranks:
            if rank in seen:
                raise ValueError(f"Rank {rank} has appeared in both subgroup {seen[rank]} and {ranks}")
            seen[rank] = ranks
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
        timeout: as for `new_group`.
        pg_options: taken for PyTorch's sake.
        group_desc: as for `new_group`.
        backend: as for `new_group`.

    Returns:
        This process's part, or None if it is in none.

    Raises:
        ValueError: the parts are none, share a process, or have one that does not exist.
    """
    if not split_ranks:
        raise ValueError("split_ranks cannot be None or empty")
    world, parent = _world(), group_or_default(parent_pg)
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
        parent.timeout if timeout is None else _checked_timeout(timeout, backends),
        (1 << 13) + count,
        group_desc or f"{parent.group_desc}:split:{chosen}",
        parent.bound_device_id,
        world.spec.failures,
    )
    return _registered(ProcessGroup(spec, backends, world))
