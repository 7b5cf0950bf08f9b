"""A group of processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from ..runtime.device import device as Device
from ..runtime.dispatch_key import Functionality, functionality_bit
from ..runtime.local_dispatch_key_set import local
from .backend import Backend, BackendConfig

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor
    from .backends.communicator import Communicator
    from .failures import Failures
    from .stores.store import Store
    from .work import Work

__all__ = ["GroupMember", "GroupSpec", "ProcessGroup", "group"]

_REWRITES = functionality_bit(Functionality.Python) | functionality_bit(Functionality.Functionalize)
"""The keys that a thread has included while its calls are recorded in a graph, or functionalized."""


class GroupSpec(NamedTuple):
    """Specification of a group.

    Attributes:
        name: Unique name of the group, the same on all its ranks.
        ranks: Global ranks, in the order of the ranks in the group.
        rank: This process's rank in the group.
        store: Store used only by this group.
        timeout: Timeout of a communication.
        tag: Number that is the same on all its ranks.
        description: Description for people.
        device: CUDA device of this process, if it was named.
        failures: Record of processes that are gone.
    """

    name: str
    ranks: tuple[int, ...]
    rank: int
    store: Store
    timeout: timedelta
    tag: int
    description: str
    device: Device | None
    failures: Failures


class ProcessGroup:
    """Processes that communicate (`torch.distributed.ProcessGroup`).

    `init_process_group` and `new_group` make them. Numbers of processes in a group are their places in it.

    Args:
        spec: what it is made of.
        backends: the backend of each type of device.
        parent: the group of all processes; None for that one itself.
    """

    def __init__(self, spec: GroupSpec, backends: BackendConfig, parent: ProcessGroup | None = None) -> None:
        self.spec = spec
        self.backends = backends
        self.parent = parent
        self.splits = self.monitored = 0
        self._has_ended = False
        self._communicators: dict[str, Communicator] = {}
        self._by_backend: dict[str, Communicator] = {}

    def rank(self) -> int:
        """Return this process's rank in the group."""
        return self.spec.rank

    def size(self) -> int:
        """Return the number of ranks."""
        return len(self.spec.ranks)

    def name(self) -> str:
        """Return the name of the group's backend."""
        return str(next(iter(self.backends.device_backend_map.values()), Backend.UNDEFINED))

    @property
    def group_name(self) -> str:
        """A name that no other group has."""
        return self.spec.name

    @property
    def group_desc(self) -> str:
        """Description of the group's purpose."""
        return self.spec.description

    @property
    def bound_device_id(self) -> Device | None:
        """The GPU that this process works on, if `init_process_group` was told."""
        return self.spec.device

    @property
    def timeout(self) -> timedelta:
        """How long a communication may take."""
        return self.spec.timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Set how long a communication may take."""
        self.spec = self.spec._replace(timeout=timeout)
        for communicator in self._communicators.values():
            communicator.timeout = timeout

    def get_group_store(self) -> Store:
        """Return the store that only this group uses."""
        return self.spec.store

    def communicator(self, kind: str) -> Communicator:
        """Return the communicator for tensors of a device type.

        Raises:
            RuntimeError: no backend serves it, or the group has been destroyed.
        """
        if local.included & _REWRITES:
            from .backends.traced import traced_communicator

            traced = traced_communicator(self)
            if traced is not None:
                return traced
        communicator = self._communicators.get(kind)
        if communicator is None:
            communicator = self._communicators[kind] = self._connect(kind)
        return communicator

    def _connect(self, kind: str) -> Communicator:
        from .backends.table import connect

        if self._has_ended:
            raise RuntimeError(f"the process group {self.spec.name!r} has been destroyed")
        backend = self.backends.device_backend_map.get(kind, Backend.FAKE if kind == "meta" else None)
        if backend is None:
            raise RuntimeError(
                f"No backend type associated with device type {kind}: group {self.spec.name!r} has {self.backends!r}"
            )
        name = f"{backend} {kind}" if kind == "cuda" and backend != "nccl" else str(backend)
        if name not in self._by_backend:
            self._by_backend[name] = connect(self, backend, kind)
        return self._by_backend[name]

    def shutdown(self) -> None:
        """End the group's communication."""
        communicators, self._by_backend = self._by_backend, {}
        self._communicators.clear()
        for communicator in communicators.values():
            communicator.close()
        self._has_ended = True

    def abort(self) -> None:
        """End the group's communication at once."""
        self.shutdown()

    @property
    def _device_types(self) -> list[Device]:
        return [Device(kind) for kind in self.backends.device_backend_map]

    def _get_backend_name(self) -> str:
        return self.name()

    def __deepcopy__(self, memo: dict[int, Any]) -> ProcessGroup:
        return self  # what is copied communicates with the same processes

    def __repr__(self) -> str:
        return f"ProcessGroup({self.spec.name!r}, rank {self.spec.rank} of {self.size()}, backends {self.backends!r})"

    # The forms in which PyTorch's own modules, and hooks of DDP, ask a group: lists of tensors, always a Work.

    def allreduce(self, tensors: Sequence[Tensor] | Tensor, op: Any = None, **kwargs: Any) -> Work:
        """`all_reduce` of one tensor or several."""
        from .coalescing import all_reduce_coalesced

        return _work(all_reduce_coalesced, _several(tensors), _reduction(op), group=self)

    def broadcast(self, tensors: Sequence[Tensor] | Tensor, root: Any = 0, **kwargs: Any) -> Work:
        """`broadcast` of one tensor."""
        from .collectives import broadcast

        (tensor,) = _several(tensors)
        return _work(broadcast, tensor, group=self, group_src=int(getattr(root, "rootRank", root)))

    def allgather(
        self, outputs: Sequence[Sequence[Tensor]], inputs: Sequence[Tensor] | Tensor, **kwargs: Any
    ) -> Work:
        """`all_gather` of one tensor."""
        from .collectives import all_gather

        (tensor,) = _several(inputs)
        return _work(all_gather, list(outputs[0]), tensor, group=self)

    def _allgather_base(self, output: Tensor, input: Tensor, **kwargs: Any) -> Work:
        from .collectives import all_gather_into_tensor

        return _work(all_gather_into_tensor, output, input, group=self)

    def _reduce_scatter_base(self, output: Tensor, input: Tensor, op: Any = None, **kwargs: Any) -> Work:
        from .collectives import reduce_scatter_tensor

        return _work(reduce_scatter_tensor, output, input, _reduction(op), group=self)

    def barrier(self, **kwargs: Any) -> Work:
        """`barrier`."""
        from .barriers import barrier

        return _work(barrier, group=self)


def _several(tensors: Sequence[Tensor] | Tensor) -> list[Tensor]:
    return list(tensors) if isinstance(tensors, (list, tuple)) else [tensors]  # type: ignore[list-item]


def _reduction(op: Any) -> Any:
    from .reduce_op import ReduceOp

    return ReduceOp.SUM if op is None else getattr(op, "reduceOp", op)


def _work(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Work:
    work: Work = function(*args, async_op=True, **kwargs)
    return work


class _World(type):
    """Metaclass through which `group.WORLD` and `GroupMember.WORLD` share one value."""

    default: ProcessGroup | None = None

    @property
    def WORLD(cls) -> ProcessGroup | None:  # PyTorch's name
        return _World.default

    @WORLD.setter
    def WORLD(cls, value: ProcessGroup | None) -> None:
        _World.default = value


class group(metaclass=_World):
    """`WORLD`, the group of all processes; None as long as there is none (`torch.distributed.group`)."""


class GroupMember(metaclass=_World):
    """Membership markers of a group: the world group, and the marker of non-members
    (`torch.distributed.GroupMember`).
    """

    NON_GROUP_MEMBER = -100
