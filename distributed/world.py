"""The group of all processes: made, and ended (`torch.distributed.init_process_group`, `destroy_process_group`)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from ..runtime.device import device as Device
from .backend import Backend, BackendConfig, timeout_or_default
from .failures import Failures
from .groups import Group, state
from .meeting import meet
from .process_group import GroupMember, GroupSpec, ProcessGroup
from .rendezvous import rendezvous
from .stores.prefix_store import PrefixStore
from .stores.store import Store

__all__ = ["destroy_process_group", "init_process_group"]


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
        timeout: Timeout of a communication. Default: 10 minutes for NCCL, else 30.
        world_size: the number of processes, where the URL does not say it.
        rank: Rank of this process, if the URL does not contain it.
        store: Store that all ranks share, instead of a URL.
        group_name: Ignored; accepted for compatibility with PyTorch.
        pg_options: Ignored; accepted for compatibility with PyTorch.
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
    limit = timeout_or_default(timeout, backends)
    if store is None:
        if Backend(backend) == Backend.FAKE and init_method is None:
            raise ValueError(
                "init_process_group: the backend 'fake' needs a store, rank and world_size: FakeStore()"
            )
        store, rank, world_size = next(
            iter(rendezvous(init_method or "env://", rank, world_size, timeout=limit))
        )
        store.set_timeout(limit)
    state.begun += 1
    own = PrefixStore(f"default_pg/{state.begun}", store)
    failures = Failures(own, rank, 1 if Backend(backend) == Backend.FAKE else world_size)
    spec = GroupSpec("0", tuple(range(world_size)), rank, own, limit, 0, "default_pg", device, failures)
    world = ProcessGroup(spec, backends)
    try:
        if failures.size > 1:
            meet(spec, backends, "init_process_group")
        eager = {"cpu": (Backend.MPI, Backend.GLOO), "cuda": (Backend.NCCL,) if device is not None else ()}
        for kind, names in eager.items() if failures.size > 1 else ():  # at once, as all processes are here
            if backends.device_backend_map.get(kind) in names:
                world.communicator(kind)
    except BaseException:
        failures.close()
        raise
    state.failures = failures
    state.made = 1
    state.local = {}
    state.groups = {spec.name: world}
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
    if not isinstance(ended, ProcessGroup) or state.groups.get(ended.group_name) is not ended:
        raise ValueError("Invalid process group specified")
    if ended is not world:
        ended.shutdown()
        del state.groups[ended.group_name]
        return
    for each in sorted(state.groups.values(), key=lambda made: made.spec.tag, reverse=True):
        each.shutdown()
    state.groups.clear()
    if state.failures is not None:
        state.failures.close()
        state.failures = None
    GroupMember.WORLD = None
