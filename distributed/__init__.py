"""`tt.distributed`: what a program of one process asks for (`torch.distributed`). There is no communication.

Programs that train on one device import it, ask, and go on alone. `is_available()` is False, as where PyTorch was built
without it; so are `is_initialized()` and the questions about backends. What needs a process group raises the ValueError
that PyTorch raises before `init_process_group`, and `init_process_group` raises RuntimeError.

`ReduceOp`, `ProcessGroup`, `Backend`, `Work` and `group` are here for annotations and defaults of arguments.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Callable
from typing import Any, NoReturn

__all__ = [
    "Backend",
    "GroupMember",
    "ProcessGroup",
    "ReduceOp",
    "Work",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "batch_isend_irecv",
    "broadcast",
    "broadcast_object_list",
    "destroy_process_group",
    "gather",
    "gather_object",
    "get_backend",
    "get_global_rank",
    "get_group_rank",
    "get_node_local_rank",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_device_mesh",
    "init_process_group",
    "irecv",
    "is_available",
    "is_backend_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
    "isend",
    "monitored_barrier",
    "new_group",
    "recv",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
    "scatter_object_list",
    "send",
]

NOT_INITIALIZED = (
    "Default process group has not been initialized, please make sure to call init_process_group."
)


class ReduceOp(enum.Enum):
    """What `all_reduce` does with the tensors of its processes (`torch.distributed.ReduceOp`)."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8


class ProcessGroup:
    """The processes that communicate (`torch.distributed.ProcessGroup`): there are none."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse("ProcessGroup")


class Work:
    """A communication that is under way (`torch.distributed.Work`): there is none."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse("Work")


class Backend(str):
    """A backend's name, in lower case (`torch.distributed.Backend`)."""

    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    XCCL = "xccl"
    UCC = "ucc"
    MPI = "mpi"

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise ValueError(f"Backend constructor parameter must be string-ish, not {name!r}")
        return super().__new__(cls, name.lower())


class group:
    """`WORLD`, the group of all processes, which is None as long as there is none (`torch.distributed.group`)."""

    WORLD: ProcessGroup | None = None


class GroupMember:
    """What stands for a group in a process that is in it, and in one that is not (`torch.distributed.GroupMember`)."""

    WORLD: ProcessGroup | None = None
    NON_GROUP_MEMBER = -100


def _refuse(name: str) -> NoReturn:
    raise RuntimeError(
        f"{name}: triten has no distributed communication; distributed.is_available() is False"
    )


def is_available() -> bool:
    """False: there is no communication (`torch.distributed.is_available`)."""
    return False


def is_initialized() -> bool:
    """False: there is no process group (`torch.distributed.is_initialized`)."""
    return False


def is_backend_available(backend: str) -> bool:
    """False, for every backend (`torch.distributed.is_backend_available`)."""
    return False


def is_gloo_available() -> bool:
    """False (`torch.distributed.is_gloo_available`)."""
    return False


def is_mpi_available() -> bool:
    """False (`torch.distributed.is_mpi_available`)."""
    return False


def is_nccl_available() -> bool:
    """False (`torch.distributed.is_nccl_available`)."""
    return False


def is_ucc_available() -> bool:
    """False (`torch.distributed.is_ucc_available`)."""
    return False


def is_xccl_available() -> bool:
    """False (`torch.distributed.is_xccl_available`)."""
    return False


def is_torchelastic_launched() -> bool:
    """Whether torchrun started this process: by the variable that it sets, as in PyTorch."""
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


def init_process_group(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises RuntimeError: no process group can be made (`torch.distributed.init_process_group`)."""
    _refuse("init_process_group")


def init_device_mesh(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises RuntimeError: no mesh of devices can be made (`torch.distributed.init_device_mesh`)."""
    _refuse("init_device_mesh")


def _needs_a_group(name: str) -> Callable[..., NoReturn]:
    """A function of a process group, which is never there."""

    def function(*args: Any, **kwargs: Any) -> NoReturn:
        raise ValueError(NOT_INITIALIZED)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Raises ValueError: there is no process group (`torch.distributed.{name}`)."
    return function


all_gather = _needs_a_group("all_gather")
all_gather_into_tensor = _needs_a_group("all_gather_into_tensor")
all_gather_object = _needs_a_group("all_gather_object")
all_reduce = _needs_a_group("all_reduce")
all_to_all = _needs_a_group("all_to_all")
all_to_all_single = _needs_a_group("all_to_all_single")
barrier = _needs_a_group("barrier")
batch_isend_irecv = _needs_a_group("batch_isend_irecv")
broadcast = _needs_a_group("broadcast")
broadcast_object_list = _needs_a_group("broadcast_object_list")
destroy_process_group = _needs_a_group("destroy_process_group")
gather = _needs_a_group("gather")
gather_object = _needs_a_group("gather_object")
get_backend = _needs_a_group("get_backend")
get_global_rank = _needs_a_group("get_global_rank")
get_group_rank = _needs_a_group("get_group_rank")
get_process_group_ranks = _needs_a_group("get_process_group_ranks")
get_rank = _needs_a_group("get_rank")
get_world_size = _needs_a_group("get_world_size")
irecv = _needs_a_group("irecv")
isend = _needs_a_group("isend")
monitored_barrier = _needs_a_group("monitored_barrier")
new_group = _needs_a_group("new_group")
recv = _needs_a_group("recv")
reduce = _needs_a_group("reduce")
reduce_scatter = _needs_a_group("reduce_scatter")
reduce_scatter_tensor = _needs_a_group("reduce_scatter_tensor")
scatter = _needs_a_group("scatter")
scatter_object_list = _needs_a_group("scatter_object_list")
send = _needs_a_group("send")
