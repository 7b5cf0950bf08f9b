"""Modules that are equal in all processes: their parameters' shapes compared, their bytes sent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ...autograd import no_grad
from ..collectives import _one_line, _take, broadcast
from ..object_collectives import all_gather_object

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor
    from ...nn.modules.module import Module
    from ..process_group import ProcessGroup

__all__ = ["broadcast_coalesced", "sync_module_states", "verify_param_shape_across_processes"]


def broadcast_coalesced(
    group: ProcessGroup, tensors: Sequence[Tensor], buffer_size: int, src: int = 0
) -> None:
    """Broadcast one rank's tensors, in-place on the other ranks (`torch.distributed._broadcast_coalesced`).

    Args:
        group: The group.
        tensors: This rank's tensors.
        buffer_size: Maximum bytes of tensors of one dtype that are sent together.
        src: Rank in the group that sends.
    """
    kinds: dict[Any, list[list[Tensor]]] = {}
    sizes: dict[Any, int] = {}
    for tensor in tensors:
        kind = tensor.dtype, tensor.device
        lists = kinds.setdefault(kind, [[]])
        if lists[-1] and sizes[kind] + tensor.nbytes > buffer_size:
            lists.append([])
        sizes[kind] = tensor.nbytes + (sizes[kind] if lists[-1] else 0)
        lists[-1].append(tensor)
    with no_grad():
        for lists in kinds.values():
            for together in lists:
                if len(together) == 1:
                    each = together[0]
                    broadcast(each.detach() if each.requires_grad else each, group=group, group_src=src)
                    continue
                line = _one_line(together)
                broadcast(line, group=group, group_src=src)
                if group.rank() != src:
                    _take(together, line)


def verify_param_shape_across_processes(
    group: ProcessGroup, params: Sequence[Tensor], names: Sequence[str] = ()
) -> None:
    """Compare all processes' parameters (`torch.distributed._verify_params_across_processes`).

    Args:
        group: The group.
        params: This rank's parameters.
        names: Names of the parameters in errors.

    Raises:
        RuntimeError: a process has another number of them than process 0, or one of another shape or dtype.
    """
    own = [(tuple(each.shape), str(each.dtype)) for each in params]
    all_ranks: list[Any] = [None] * group.size()
    all_gather_object(all_ranks, own, group)
    first = all_ranks[0]
    for rank, other in enumerate(all_ranks):
        if len(other) != len(first):
            raise RuntimeError(
                f"DDP expects same model across all ranks, but Rank 0 has {len(first)} params, while rank {rank} has "
                f"inconsistent {len(other)} params."
            )
    for rank, other in enumerate(all_ranks):
        for index, (theirs, expected) in enumerate(zip(other, first, strict=True)):
            if theirs != expected:
                name = f" ({names[index]})" if names else ""
                raise RuntimeError(
                    f"[{rank}]: params[{index}]{name} in this process with sizes {list(theirs[0])} and dtype "
                    f"{theirs[1]} appears not to match sizes of the same param in process 0: {list(expected[0])}, "
                    f"{expected[1]}."
                )


def sync_module_states(
    module: Module,
    group: ProcessGroup,
    broadcast_bucket_size: int,
    src: int,
    params_and_buffers_to_ignore: Iterable[str],
    broadcast_buffers: bool = True,
) -> None:
    """Broadcast one rank's parameters and buffers to the other ranks (`torch.distributed.utils`).

    Args:
        module: The module.
        group: The group.
        broadcast_bucket_size: Maximum bytes of tensors that are sent together.
        src: Rank in the group that sends.
        params_and_buffers_to_ignore: Names of parameters and buffers that stay unchanged.
        broadcast_buffers: If True, broadcast buffers too. Default: True.
    """
    ignored = set(params_and_buffers_to_ignore)
    states = [each.detach() for name, each in module.named_parameters() if name not in ignored]
    if broadcast_buffers:
        states += [each.detach() for name, each in module.named_buffers() if name not in ignored]
    if states:
        broadcast_coalesced(group, states, broadcast_bucket_size, src)
