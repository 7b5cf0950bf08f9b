"""Collectives over the processes of a group (`torch.distributed`'s collectives).

Each function takes the group, by default that of all ranks. With ``async_op`` it returns a `Work` at once. In
a process outside the group it warns and does nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from ..autograd import no_grad
from ..dispatch.tensor import Tensor
from .arguments import (
    as_real,
    check_op,
    check_same_dtype,
    check_tensor,
    check_tensors,
    ended,
    group_rank_of,
    sent,
    written,
)
from .groups import Group, group_or_default, is_member
from .process_group import ProcessGroup
from .reduce_op import ReduceOp, Reduction
from .work import Work

__all__ = [
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_single",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
    "scatter",
]


def all_reduce(
    tensor: Tensor, op: Reduction = ReduceOp.SUM, group: Group = None, async_op: bool = False
) -> Work | None:
    """Reduce the tensors of all ranks, in-place on every rank (`torch.distributed.all_reduce`).

    Args:
        tensor: This rank's tensor. All ranks have the same shape and dtype.
        op: The reduction. Default: sum.
        group: The group. Default: all ranks.
        async_op: If True, return a `Work` before the communication ends. Default: False.

    Raises:
        ValueError: there is no such reduction of this dtype.
        DistBackendError: the communication failed, or did not end in time.

    Example:
        >>> import triten as tt
        >>> from triten import distributed as dist
        >>> dist.init_process_group("mpi", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = tt.ones(2)
        >>> dist.all_reduce(x, dist.ReduceOp.SUM); x  # with one process, what it was
        tensor([1., 1.])
        >>> dist.destroy_process_group()
    """
    check_tensor(tensor, "tensor", "all_reduce")
    check_op(op, "all_reduce")
    if not is_member(group, "all_reduce"):
        return None
    communicator = group_or_default(group).communicator(tensor.device.type)
    buffer, finish = written(tensor, reads=True)
    work = communicator.all_reduce(as_real(buffer, op, "all_reduce"), op, waits=not async_op)
    return ended(work, finish, [tensor], async_op)


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: Reduction = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Reduce the tensors of all ranks, in-place on one rank (`torch.distributed.reduce`).

    Args:
        tensor: This rank's tensor. All ranks have the same shape and dtype. PyTorch leaves the tensors of the
            other ranks undefined afterwards; here they stay unchanged.
        dst: Global rank that gets the result.
        op: The reduction. Default: sum.
        group: The group. Default: all ranks.
        async_op: If True, return a `Work` before the communication ends. Default: False.
        group_dst: Rank in the group that gets the result, instead of `dst`.
    """
    check_tensor(tensor, "tensor", "reduce")
    check_op(op, "reduce")
    if not is_member(group, "reduce"):
        return None
    chosen = group_or_default(group)
    root = group_rank_of(chosen, dst, group_dst, "dst", "reduce")
    communicator = chosen.communicator(tensor.device.type)
    if chosen.rank() == root:
        buffer, finish = written(tensor, reads=True)
    else:
        buffer, finish = sent(tensor), None
    work = communicator.reduce(as_real(buffer, op, "reduce"), op, root, waits=not async_op)
    return ended(work, finish, [tensor], async_op)


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: Group = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Broadcast one rank's tensor, in-place on the other ranks (`torch.distributed.broadcast`).

    Args:
        tensor: Tensor to send or to fill. All ranks have the same shape and dtype.
        src: Global rank that sends.
        group: The group. Default: all ranks.
        async_op: If True, return a `Work` before the communication ends. Default: False.
        group_src: Rank in the group that sends, instead of `src`.
    """
    check_tensor(tensor, "tensor", "broadcast")
    if not is_member(group, "broadcast"):
        return None
    chosen = group_or_default(group)
    root = group_rank_of(chosen, src, group_src, "src", "broadcast")
    communicator = chosen.communicator(tensor.device.type)
    buffer, finish = (sent(tensor), None) if chosen.rank() == root else written(tensor)
    return ended(communicator.broadcast(buffer, root, waits=not async_op), finish, [tensor], async_op)


def _parts(tensors: Sequence[Tensor], like: Tensor, name: str, function: str) -> None:
    """Raise ValueError unless each part has as many elements as another tensor."""
    for index, part in enumerate(tensors):
        if part.numel() != like.numel():
            raise ValueError(
                f"{function}: invalid tensor size at index {index} of {name} (expected {tuple(like.shape)}, got "
                f"{tuple(part.shape)})"
            )
        if part.device != like.device:
            raise ValueError(
                f"{function}: expected tensors on {like.device} in {name}, but got {part.device} at index {index}"
            )


def _count(tensors: Sequence[Any], group: ProcessGroup, name: str, function: str) -> None:
    if len(tensors) != group.size():
        raise ValueError(
            f"{function}: expected {group.size()} tensors in {name}, one for each rank of group "
            f"{group.group_name!r}, but got {len(tensors)}"
        )


def _one_line(tensors: Sequence[Tensor]) -> Tensor:
    """Concatenate tensors into a flat tensor."""
    from ..dispatch.generated.functions import cat

    with no_grad():
        return cat([sent(each).reshape(-1) for each in tensors])


def _take(tensors: Sequence[Tensor], line: Tensor) -> None:
    """Copy the parts of a flat tensor into tensors."""
    with no_grad():
        offset = 0
        for each in tensors:
            target = each.detach() if each.requires_grad else each
            target.copy_(line[offset : offset + each.numel()].view(each.shape))
            offset += each.numel()


def all_gather(
    tensor_list: Sequence[Tensor], tensor: Tensor, group: Group = None, async_op: bool = False
) -> Work | None:
    """Put the tensors of all processes into a list of each (`torch.distributed.all_gather`).

    Args:
        tensor_list: a tensor for each process, with as many elements as that one's.
        tensor: This rank's tensor.
        group: The group. Default: all ranks.
        async_op: If True, return a `Work` before the communication ends. Default: False.

    Raises:
        ValueError: the tensors have several dtypes or sizes.
    """
    check_tensors(tensor_list, "tensor_list", "all_gather")
    check_tensor(tensor, "tensor", "all_gather")
    check_same_dtype("all_gather", tensor_list, tensor)
    if not is_member(group, "all_gather"):
        return None
    chosen = group_or_default(group)
    _count(tensor_list, chosen, "tensor_list", "all_gather")
    _parts(tensor_list, tensor, "tensor_list", "all_gather")
    communicator = chosen.communicator(tensor.device.type)
    line = tensor.new_empty(chosen.size() * tensor.numel())
    work = communicator.all_gather(line, sent(tensor), waits=not async_op)
    return ended(work, lambda: _take(tensor_list, line), tensor_list, async_op)


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Group = None, async_op: bool = False
) -> Work | None:
    """Put the tensors of all processes into one of each (`torch.distributed.all_gather_into_tensor`).

    Args:
        output_tensor: with as many elements as all inputs have: of shape ``(size * n, ...)`` or ``(size, n, ...)``.
        input_tensor: This rank's tensor, of shape ``(n, ...)``.
        group: The group. Default: all ranks.
        async_op: If True, return a `Work` before the communication ends. Default: False.

    Raises:
        ValueError: the output has another dtype or size.
    """
    check_tensor(input_tensor, "input_tensor", "all_gather_into_tensor")
    check_tensor(output_tensor, "output_tensor", "all_gather_into_tensor")
    check_same_dtype("all_gather_into_tensor", output_tensor, input_tensor)
    if not is_member(group, "all_gather_into_tensor"):
        return None
    chosen = group_or_default(group)
    if output_tensor.numel() != chosen.size() * input_tensor.numel():
        raise ValueError(
            f"all_gather_into_tensor: output tensor size must be equal to world_size times input tensor size: "
            f"expected {chosen.size() * input_tensor.numel()} elements, but got {output_tensor.numel()}"
        )
    communicator = chosen.communicator(input_tensor.device.type)
    buffer, finish = written(output_tensor)
    work = communicator.all_gather(buffer, sent(input_tensor), waits=not async_op)
    return ended(work, finish, [output_tensor], async_op)


def gather(
    tensor: Tensor,
    gather_list: Sequence[Tensor] | None = None,
    dst: int | None = None,
    group: Group = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Put the tensors of all processes into a list of one (`torch.distributed.gather`).

    Args:
        tensor: This rank's tensor.
        gather_list: in the process that gets them, a tensor for each.
        dst: Global rank that gets the result. Default: 0.
        group: The group. Default: all ranks.
        async_op: If True, return a `Work` before the communication ends. Default: False.
        group_dst: Rank in the group that gets the result, instead of `dst`.

    Raises:
        ValueError: there is a list in another process, or none in that one.
    """
    check_tensor(tensor, "tensor", "gather")
    outputs = list(gather_list or ())
    check_tensors(outputs, "gather_list", "gather")
    check_same_dtype("gather", tensor, outputs)
    if not is_member(group, "gather"):
        return None
    chosen = group_or_default(group)
    root = group_rank_of(chosen, dst, group_dst, "dst", "gather", default=0)
    communicator = chosen.communicator(tensor.device.type)
    if chosen.rank() != root:
        if outputs:
            raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
        return ended(communicator.gather(None, sent(tensor), root, waits=not async_op), None, [], async_op)
    if not outputs:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    _count(outputs, chosen, "gather_list", "gather")
    _parts(outputs, tensor, "gather_list", "gather")
    line = tensor.new_empty(chosen.size() * tensor.numel())
    work = communicator.gather(line, sent(tensor), root, waits=not async_op)
    return ended(work, lambda: _take(outputs, line), outputs, async_op)


def scatter(
    tensor: Tensor,
    scatter_list: Sequence[Tensor] | None = None,
    src: int | None = None,
    group: Group = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Scatter one rank's list of tensors, one tensor to each rank (`torch.distributed.scatter`).

    Args:
        tensor: Tensor to fill.
        scatter_list: On the sending rank, one tensor per rank.
        src: Global rank that sends. Default: 0.
        group: The group. Default: all ranks.
        async_op: If True, return a `Work` before the communication ends. Default: False.
        group_src: Rank in the group that sends, instead of `src`.

    Raises:
        ValueError: there is a list in another process, or none in that one.
    """
    check_tensor(tensor, "tensor", "scatter")
    inputs = list(scatter_list or ())
    check_tensors(inputs, "scatter_list", "scatter")
    check_same_dtype("scatter", tensor, inputs)
    if not is_member(group, "scatter"):
        return None
    chosen = group_or_default(group)
    root = group_rank_of(chosen, src, group_src, "src", "scatter", default=0)
    communicator = chosen.communicator(tensor.device.type)
    line = None
    if chosen.rank() == root:
        if not inputs:
            raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
        _count(inputs, chosen, "scatter_list", "scatter")
        _parts(inputs, tensor, "scatter_list", "scatter")
        line = _one_line(inputs)
    elif inputs:
        raise ValueError("Argument ``scatter_list`` must NOT be specified on non-source ranks.")
    buffer, finish = written(tensor)
    work = communicator.scatter(buffer, line, root, waits=not async_op)
    return ended(work, finish, [tensor], async_op)


def reduce_scatter(
    output: Tensor,
    input_list: Sequence[Tensor],
    op: Reduction = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Reduce the lists of all ranks, and scatter the results, one per rank
    (`torch.distributed.reduce_scatter`).

    Args:
        output: Tensor for this rank's part.
        input_list: a tensor for each process, with as many elements as that one's output.
        op: The reduction. Default: sum.
        group: The group. Default: all ranks.
        async_op: If True, return a `Work` before the communication ends. Default: False.
    """
    check_tensor(output, "output", "reduce_scatter")
    check_tensors(input_list, "input_list", "reduce_scatter")
    check_same_dtype("reduce_scatter", output, input_list)
    check_op(op, "reduce_scatter")
    if not is_member(group, "reduce_scatter"):
        return None
    chosen = group_or_default(group)
    _count(input_list, chosen, "input_list", "reduce_scatter")
    _parts(input_list, output, "input_list", "reduce_scatter")
    return _reduce_scatter(output, _one_line(input_list), op, chosen, async_op)


def reduce_scatter_tensor(
    output: Tensor,
    input: Tensor,
    op: Reduction = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Reduce the tensors of all ranks, and scatter the result (`torch.distributed.reduce_scatter_tensor`).

    Args:
        output: Tensor for this rank's part, of shape ``(n, ...)``.
        input: Input of shape ``(size * n, ...)`` or ``(size, n, ...)``.
        op: The reduction. Default: sum.
        group: The group. Default: all ranks.
        async_op: If True, return a `Work` before the communication ends. Default: False.

    Raises:
        ValueError: the output has another dtype or size.
    """
    check_tensor(output, "output", "reduce_scatter_tensor")
    check_tensor(input, "input", "reduce_scatter_tensor")
    check_same_dtype("reduce_scatter_tensor", output, input)
    check_op(op, "reduce_scatter_tensor")
    if not is_member(group, "reduce_scatter_tensor"):
        return None
    chosen = group_or_default(group)
    if input.numel() != chosen.size() * output.numel():
        raise ValueError(
            f"reduce_scatter_tensor: input tensor must be the same size as output size times world size: expected "
            f"{chosen.size() * output.numel()} elements, but got {input.numel()}"
        )
    return _reduce_scatter(output, sent(input), op, chosen, async_op)


def _reduce_scatter(
    output: Tensor, line: Tensor, op: Reduction, group: ProcessGroup, async_op: bool
) -> Work | None:
    communicator = group.communicator(output.device.type)
    buffer, finish = written(output)
    work = communicator.reduce_scatter(
        as_real(buffer, op, "reduce_scatter"), as_real(line, op, "reduce_scatter"), op, waits=not async_op
    )
    return ended(work, finish, [output], async_op)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Exchange parts of a tensor between all ranks (`torch.distributed.all_to_all_single`).

    Args:
        output: Tensor to fill.
        input: Tensor to send.
        output_split_sizes: Number of rows received from each rank. Default: equal parts.
        input_split_sizes: Number of rows sent to each rank. Default: equal parts.
        group: The group. Default: all ranks.
        async_op: If True, return a `Work` before the communication ends. Default: False.

    Raises:
        ValueError: the rows cannot be divided so.
    """
    check_tensor(output, "output", "all_to_all_single")
    check_tensor(input, "input", "all_to_all_single")
    check_same_dtype("all_to_all_single", output, input)
    if not is_member(group, "all_to_all_single"):
        return None
    chosen = group_or_default(group)
    communicator = chosen.communicator(input.device.type)
    output_splits = _rows(output, output_split_sizes, chosen.size(), "output")
    input_splits = _rows(input, input_split_sizes, chosen.size(), "input")
    buffer, finish = written(output)
    work = communicator.all_to_all(buffer, sent(input), output_splits, input_splits, waits=not async_op)
    return ended(work, finish, [output], async_op)


def _rows(tensor: Tensor, sizes: Sequence[int] | None, count: int, name: str) -> list[int]:
    """Return the number of elements that each rank gets when a tensor is split along dimension 0."""
    rows = tensor.shape[0] if tensor.dim() else 1
    width = tensor.numel() // rows if rows else 0
    if sizes is None or len(sizes) == 0:
        if rows % count:
            raise ValueError(
                f"all_to_all_single: Tensor's dim 0 does not divide equally across group size: {name} has {rows} rows "
                f"for {count} ranks"
            )
        return [rows // count * width] * count
    parts = [int(size) for size in sizes]
    if len(parts) != count:
        raise ValueError(
            f"all_to_all_single: Number of tensor splits not equal to group size: {name}_split_sizes has {len(parts)} "
            f"for {count} ranks"
        )
    if sum(parts) != rows or min(parts) < 0:
        raise ValueError(
            f"all_to_all_single: Split sizes doesn't match total dim 0 size: {name}_split_sizes {parts} for {rows} rows"
        )
    return [part * width for part in parts]


def all_to_all(
    output_tensor_list: Sequence[Tensor],
    input_tensor_list: Sequence[Tensor],
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Exchange tensors between all ranks (`torch.distributed.all_to_all`).

    Args:
        output_tensor_list: Tensors to fill, one per rank.
        input_tensor_list: Tensors to send, one per rank.
        group: The group. Default: all ranks.
        async_op: If True, return a `Work` before the communication ends. Default: False.
    """
    check_tensors(output_tensor_list, "output_tensor_list", "all_to_all")
    check_tensors(input_tensor_list, "input_tensor_list", "all_to_all")
    check_same_dtype("all_to_all", output_tensor_list, input_tensor_list)
    if not is_member(group, "all_to_all"):
        return None
    chosen = group_or_default(group)
    _count(output_tensor_list, chosen, "output_tensor_list", "all_to_all")
    _count(input_tensor_list, chosen, "input_tensor_list", "all_to_all")
    output_splits = [each.numel() for each in output_tensor_list]
    input_splits = [each.numel() for each in input_tensor_list]
    communicator = chosen.communicator(input_tensor_list[0].device.type)
    line = input_tensor_list[0].new_empty(list(accumulate(output_splits))[-1])
    work = communicator.all_to_all(
        line, _one_line(input_tensor_list), output_splits, input_splits, waits=not async_op
    )
    return ended(work, lambda: _take(output_tensor_list, line), output_tensor_list, async_op)


all_gather_single = all_gather_into_tensor
"""PyTorch's newer name."""
reduce_scatter_single = reduce_scatter_tensor
"""PyTorch's newer name."""
