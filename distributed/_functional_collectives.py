"""Functional collectives, which return new tensors (`torch.distributed._functional_collectives`).

They are differentiable, and graphs can contain them. A returned `AsyncCollectiveTensor` may still be pending;
its first use waits. A group is a `ProcessGroup`, its name, a one-dimensional mesh, a mesh with one of its
dimensions, or a list of ranks of an existing group.

Example:
    >>> import triten as tt
    >>> from triten import distributed as dist
    >>> from triten.distributed import _functional_collectives as funcol
    >>> dist.init_process_group("mpi", store=dist.HashStore(), rank=0, world_size=1)
    >>> total = funcol.all_reduce(tt.ones(3), "sum", dist.group.WORLD)
    >>> total * 2
    tensor([2., 2., 2.])
    >>> dist.destroy_process_group()
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any

from ..dispatch.core.op_overload import OpOverload, find_overload
from ..dispatch.layers.graph.make_graph import innermost_tracer
from ..dispatch.tensor import Tensor
from ..runtime.dispatch_key import Functionality, functionality_bit
from ..runtime.local_dispatch_key_set import local
from .functional_collectives.async_collective_tensor import AsyncCollectiveTensor
from .groups import get_rank, group_by_name, group_by_ranks
from .process_group import ProcessGroup

__all__ = [
    "AsyncCollectiveTensor",
    "all_gather_into_tensor_coalesced",
    "all_gather_single",
    "all_gather_single_autograd",
    "all_gather_single_coalesced",
    "all_gather_tensor",
    "all_gather_tensor_autograd",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all_single",
    "all_to_all_single_autograd",
    "broadcast",
    "permute_tensor",
    "reduce_scatter_single",
    "reduce_scatter_single_autograd",
    "reduce_scatter_single_coalesced",
    "reduce_scatter_tensor",
    "reduce_scatter_tensor_autograd",
    "reduce_scatter_tensor_coalesced",
    "wait_tensor",
]

RANK_TYPES = Any
"""Types that identify a group: see above. A mesh is any object with `ndim` and `get_group`."""

_FUNCTIONALIZE = functionality_bit(Functionality.Functionalize)


@cache
def _operator(name: str) -> OpOverload:
    return find_overload(f"_c10d_functional::{name}")


def _resolve_group(group: RANK_TYPES, tag: str = "") -> ProcessGroup:
    """Return the process group that `group` identifies.

    Raises:
        ValueError: `group` does not identify a process group.
        RuntimeError: there is no group of that name.
    """
    if isinstance(group, ProcessGroup):
        return group
    if isinstance(group, str):
        try:
            return group_by_name(group)
        except LookupError as error:
            raise RuntimeError(error.args[0]) from None
    if isinstance(group, list) and group:
        warnings.warn(
            "The combination of ranks + tag as process group identifier has been deprecated. Please switch to using "
            "ProcessGroup, DeviceMesh, or group name instead.",
            FutureWarning,
            stacklevel=4,
        )
        if isinstance(group[0], list):
            own = get_rank()
            group = next((each for each in group if own in each), group[0])
        return group_by_ranks(group)
    mesh, dim = group if isinstance(group, tuple) and len(group) == 2 else (group, None)
    if hasattr(mesh, "get_group") and hasattr(mesh, "ndim") and (dim is None or isinstance(dim, (int, str))):
        if dim is None and mesh.ndim != 1:
            raise AssertionError("Only 1D mesh is supported, pass in (DeviceMesh, int) together if mesh > 1D")
        mesh_group: ProcessGroup = mesh.get_group(0 if dim is None else dim)
        return mesh_group
    if isinstance(group, tuple):
        raise ValueError(
            f"Invalid tuple for group must be (DeviceMesh, int). Instead got {tuple(map(type, group))}"
        )
    raise ValueError(f"Unsupported group type: {type(group)}, {group}")


def _resolve_group_name(group: RANK_TYPES, tag: str = "") -> str:
    """Return the name of the process group that `group` identifies."""
    return _resolve_group(group, tag).group_name


def _maybe_wrap_tensor(tensor: Tensor) -> Tensor:
    """Wrap a result so that its first use waits for it. While calls are recorded, wait at once."""
    if local.included & _FUNCTIONALIZE or innermost_tracer() is not None:
        return wait_tensor(tensor)
    return tensor if tensor._spec.is_meta else AsyncCollectiveTensor(tensor)


def wait_tensor(tensor: Tensor) -> Tensor:
    """Wait for the communication that writes a tensor, if there is one (`wait_tensor`).

    Args:
        tensor: a result of a collective, or a view of one.

    Returns:
        The tensor, whose elements are there now. On CUDA the current stream waits.

    Raises:
        DistBackendError: the communication failed, or did not end in time.
    """
    if isinstance(tensor, AsyncCollectiveTensor):
        return tensor.wait()
    waited: Tensor = _operator("wait_tensor")(tensor)
    return waited


def broadcast(self: Tensor, src: int, group: RANK_TYPES, tag: str = "") -> Tensor:
    """Broadcast one rank's tensor (`torch.distributed._functional_collectives.broadcast`). It has no
    derivative.

    Args:
        self: This rank's tensor. All ranks have the same shape and dtype.
        src: Rank in the group that sends.
        group: The group.
        tag: Ignored; accepted for compatibility with PyTorch.
    """
    return _maybe_wrap_tensor(_operator("broadcast")(self, src, _resolve_group_name(group, tag)))


def all_reduce(self: Tensor, reduceOp: str, group: RANK_TYPES, tag: str = "") -> Tensor:
    """Reduce the tensors of all ranks (`torch.distributed._functional_collectives.all_reduce`).

    Args:
        self: This rank's tensor. All ranks have the same shape and dtype.
        reduceOp: ``"sum"``, ``"avg"``, ``"product"``, ``"min"``, ``"max"``, ``"band"``, ``"bor"`` or
            ``"bxor"``. Only ``"sum"`` has a derivative.
        group: The group.
        tag: Ignored; accepted for compatibility with PyTorch.
    """
    name = _resolve_group_name(group, tag)
    return _maybe_wrap_tensor(_operator("all_reduce")(self, reduceOp.lower(), name))


def all_reduce_coalesced(
    self: Sequence[Tensor], reduceOp: str, group: RANK_TYPES, tag: str = ""
) -> list[Tensor]:
    """`all_reduce` of several tensors, those of a dtype together."""
    name = _resolve_group_name(group, tag)
    return [
        _maybe_wrap_tensor(each)
        for each in _operator("all_reduce_coalesced")(list(self), reduceOp.lower(), name)
    ]


def all_gather_single(self: Tensor, gather_dim: int, group: RANK_TYPES, tag: str = "") -> Tensor:
    """Concatenate the tensors of all ranks (`torch.distributed._functional_collectives.all_gather_single`).

    Args:
        self: This rank's tensor. All ranks have the same shape and dtype.
        gather_dim: Dimension along which the tensors are concatenated.
        group: The group.
        tag: Ignored; accepted for compatibility with PyTorch.
    """
    from ..dispatch.generated.functions import cat

    process_group = _resolve_group(group, tag)
    size = process_group.size()
    gathered = _maybe_wrap_tensor(_operator("all_gather_into_tensor")(self, size, process_group.group_name))
    if not gather_dim:
        return gathered
    return cat(gathered.chunk(size, 0), gather_dim)


def all_gather_single_coalesced(self: Sequence[Tensor], group: RANK_TYPES, tag: str = "") -> list[Tensor]:
    """`all_gather_single` of several tensors, along their first dimensions."""
    process_group = _resolve_group(group, tag)
    gathered = _operator("all_gather_into_tensor_coalesced")(
        list(self), process_group.size(), process_group.group_name
    )
    return [_maybe_wrap_tensor(each) for each in gathered]


def _divided(tensor: Tensor, dim: int, size: int, where: str = "") -> Tensor:
    """Split a tensor into `size` parts along `dim`, and concatenate the parts along dimension 0."""
    from ..dispatch.generated.functions import cat

    if tensor.shape[dim] % size:
        raise AssertionError(
            f"input dimension {dim} ({tensor.shape[dim]} must be a multiple of group_size {size}{where})"
        )
    return cat(tensor.chunk(size, dim)) if dim else tensor


def reduce_scatter_single(
    self: Tensor, reduceOp: str, scatter_dim: int, group: RANK_TYPES, tag: str = ""
) -> Tensor:
    """Return this process's part of the reduction (`torch.distributed._functional_collectives.reduce_scatter_single`).

    Args:
        self: This rank's tensor. All ranks have the same shape and dtype.
        reduceOp: as for `all_reduce`.
        scatter_dim: the dimension along which the result is divided.
        group: The group.
        tag: Ignored; accepted for compatibility with PyTorch.

    Raises:
        AssertionError: the dimension cannot be divided by the number of processes.
    """
    process_group = _resolve_group(group, tag)
    size = process_group.size()
    rank_major = _divided(self, scatter_dim, size)
    reduced = _operator("reduce_scatter_tensor")(rank_major, reduceOp.lower(), size, process_group.group_name)
    return _maybe_wrap_tensor(reduced)


def reduce_scatter_single_coalesced(
    inputs: Sequence[Tensor], reduceOp: str, scatter_dim: Sequence[int], group: RANK_TYPES, tag: str = ""
) -> list[Tensor]:
    """Run `reduce_scatter_single` on several tensors, each with its own dimension."""
    process_group = _resolve_group(group, tag)
    size = process_group.size()
    if len(scatter_dim) != len(inputs):
        raise AssertionError(
            f"Length of scatter_dim ({len(scatter_dim)}) must equal length of inputs ({len(inputs)})"
        )
    rank_major = [
        _divided(tensor, dim, size, f" for tensor at index {index}")
        for index, (tensor, dim) in enumerate(zip(inputs, scatter_dim, strict=True))
    ]
    reduced = _operator("reduce_scatter_tensor_coalesced")(
        rank_major, reduceOp.lower(), size, process_group.group_name
    )
    return [_maybe_wrap_tensor(each) for each in reduced]


def all_to_all_single(
    self: Tensor,
    output_split_sizes: Sequence[int] | None,
    input_split_sizes: Sequence[int] | None,
    group: RANK_TYPES,
    tag: str = "",
) -> Tensor:
    """Exchange rows between all ranks (`torch.distributed._functional_collectives.all_to_all_single`).

    Args:
        self: The rows to send.
        output_split_sizes: Number of rows received from each rank. None, with `input_split_sizes` None too,
            splits evenly.
        input_split_sizes: Number of rows sent to each rank.
        group: The group.
        tag: Ignored; accepted for compatibility with PyTorch.
    """
    process_group = _resolve_group(group, tag)
    if output_split_sizes is None or input_split_sizes is None:
        if not (output_split_sizes is None and input_split_sizes is None):
            raise AssertionError(
                "output_split_sizes and input_split_sizes must either be specified together or both set to None"
            )
        output_split_sizes = input_split_sizes = [
            self.shape[0] // process_group.size()
        ] * process_group.size()
    received = _operator("all_to_all_single")(
        self, list(output_split_sizes), list(input_split_sizes), process_group.group_name
    )
    return _maybe_wrap_tensor(received)


def permute_tensor(self: Tensor, src_dst: Sequence[int], group: RANK_TYPES, tag: str = "") -> Tensor:
    """Send each rank's tensor to another rank (`torch.distributed._functional_collectives.permute_tensor`).

    Args:
        self: This rank's tensor, sent whole. All ranks have the same shape and dtype.
        src_dst: For each source rank, its destination rank.
        group: The group.
        tag: Ignored; accepted for compatibility with PyTorch.
    """
    process_group = _resolve_group(group, tag)
    rank, rows = process_group.rank(), self.shape[0]
    input_splits, output_splits = [0] * process_group.size(), [0] * process_group.size()
    for source, target in enumerate(src_dst):
        if source == rank:
            input_splits[target] = rows
        if target == rank:
            output_splits[source] = rows
    return all_to_all_single(self, output_splits, input_splits, process_group)


# Their names before PyTorch 2.13, and those from before all had derivatives.
all_gather_tensor = all_gather_tensor_autograd = all_gather_single_autograd = all_gather_single
all_gather_into_tensor_coalesced = all_gather_single_coalesced
reduce_scatter_tensor = reduce_scatter_tensor_autograd = reduce_scatter_single_autograd = (
    reduce_scatter_single
)
reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
all_to_all_single_autograd = all_to_all_single
