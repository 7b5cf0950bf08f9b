"""Which code serves a backend's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..backend import Backend
from ..debug_level import DebugLevel, get_debug_level

if TYPE_CHECKING:
    from ..process_group import ProcessGroup
    from .communicator import Communicator

__all__ = ["connect"]


def connect(group: ProcessGroup, backend: str, kind: str) -> Communicator:
    """Return the communicator of a group for a kind of device.

    Args:
        group: the group, in each of whose processes this is called.
        backend: the backend's name.
        kind: the type of the tensors' device.

    Raises:
        ModuleNotFoundError: something that the backend needs is not installed.
        DistBackendError: the processes do not come together.
    """
    made = _made(group, backend, kind)
    if get_debug_level() is DebugLevel.DETAIL and group.size() > 1 and backend != Backend.FAKE:
        from .checked import CheckedCommunicator

        return CheckedCommunicator(made, group.spec, kind)
    return made


def _made(group: ProcessGroup, backend: str, kind: str) -> Communicator:
    plugin = Backend._plugins.get(backend.upper())
    if plugin is not None:
        spec = group.spec
        own: Communicator = plugin.creator_fn(spec.store, spec.rank, group.size(), spec.timeout)
        return own
    if backend == Backend.FAKE:
        return _fake(group)
    if group.size() == 1 and backend != Backend.NCCL:
        return _alone(group)
    if kind == "cuda" and backend != Backend.NCCL:
        from .staged import StagedCommunicator

        return StagedCommunicator(group.communicator("cpu"))
    return _CONNECTS[backend](group)


def _fake(group: ProcessGroup) -> Communicator:
    from .fake import FakeCommunicator

    return FakeCommunicator(group.spec.rank, group.size(), group.spec.timeout)


def _alone(group: ProcessGroup) -> Communicator:
    from .alone import LoneCommunicator

    return LoneCommunicator(group.spec.timeout)


def _mpi(group: ProcessGroup) -> Communicator:
    from .mpi.communicator import connect as connect_mpi

    return connect_mpi(group)


def _nccl(group: ProcessGroup) -> Communicator:
    from .nccl.communicator import connect as connect_nccl

    return connect_nccl(group)


_CONNECTS: dict[str, Callable[[ProcessGroup], Communicator]] = {
    Backend.MPI: _mpi,
    Backend.GLOO: _mpi,
    Backend.NCCL: _nccl,
}
