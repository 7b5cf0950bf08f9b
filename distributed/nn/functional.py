"""Differentiable collectives (`torch.distributed.nn.functional`).

Each function returns new tensors, and its gradient is the reverse communication. All ranks must call
backward, as they all called forward.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...autograd import Function
from ...dispatch.tensor import Tensor
from ...runtime.memory_format import contiguous_format
from .. import collectives
from ..groups import Group, get_group_rank, group_or_default
from ..process_group import ProcessGroup
from ..reduce_op import ReduceOp, Reduction

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
]


def broadcast(tensor: Tensor, src: int, group: Group = None) -> Tensor:
    """Broadcast one rank's tensor (`torch.distributed.nn.functional.broadcast`).

    The source's gradient is the sum of all ranks' gradients. The gradient of the other ranks is zero.

    Args:
        tensor: This rank's tensor. All ranks have the same shape and dtype.
        src: Global rank that sends.
        group: The group. Default: all ranks.

    Example:
        >>> import triten as tt
        >>> from triten import distributed as dist
        >>> from triten.distributed.nn.functional import broadcast
        >>> dist.init_process_group("mpi", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = tt.ones(2, requires_grad=True)
        >>> broadcast(x, 0).sum().backward(); x.grad
        tensor([1., 1.])
        >>> dist.destroy_process_group()
    """
    chosen = group_or_default(group)
    return _one(_Broadcast, get_group_rank(chosen, src), chosen, tensor)


def gather(tensor: Tensor, dst: int = 0, group: Group = None) -> tuple[Tensor, ...]:
    """Gather the tensors of all ranks on one rank (`torch.distributed.nn.functional.gather`). The others get
    zeros.

    Args:
        tensor: This rank's tensor. All ranks have the same shape and dtype.
        dst: Global rank that gathers. Default: 0.
        group: The group. Default: all ranks.
    """
    chosen = group_or_default(group)
    return _several(_Gather, get_group_rank(chosen, dst), chosen, tensor)


def scatter(tensors: Sequence[Tensor], src: int = 0, group: Group = None) -> Tensor:
    """Scatter one process's tensors, and return this process's tensor (`torch.distributed.nn.functional.scatter`).

    Args:
        tensors: one for each process; those of `src` count, the others' give shape and dtype.
        src: that process's number in the world.
        group: The group. Default: all ranks.
    """
    chosen = group_or_default(group)
    return _one(_Scatter, get_group_rank(chosen, src), chosen, *tensors)


def reduce(tensor: Tensor, dst: int, op: Reduction = ReduceOp.SUM, group: Group = None) -> Tensor:
    """Reduce the tensors of all ranks on one rank (`torch.distributed.nn.functional.reduce`).

    Args:
        tensor: This rank's tensor, which ranks other than `dst` get back.
        dst: Global rank that gets the result.
        op: The reduction. Default: sum. Only SUM and AVG have derivatives.
        group: The group. Default: all ranks.
    """
    chosen = group_or_default(group)
    return _one(_Reduce, get_group_rank(chosen, dst), op, chosen, tensor)


def reduce_scatter(
    output: Tensor, input_list: Sequence[Tensor], op: Reduction = ReduceOp.SUM, group: Group = None
) -> Tensor:
    """Return this process's part of the reduction (`torch.distributed.nn.functional.reduce_scatter`).

    Args:
        output: where it is put.
        input_list: a tensor for each process.
        op: SUM and AVG have derivatives.
        group: The group. Default: all ranks.
    """
    return _one(_ReduceScatter, op, group_or_default(group), output, *input_list)


def all_gather(tensor: Tensor, group: Group = None) -> tuple[Tensor, ...]:
    """Gather the tensors of all ranks on every rank (`torch.distributed.nn.functional.all_gather`).

    Args:
        tensor: This rank's tensor. All ranks have the same shape and dtype.
        group: The group. Default: all ranks.
    """
    return _several(_AllGather, group_or_default(group), tensor)


def _all_gather_base(output_tensor: Tensor, input_tensor: Tensor, group: Group = None) -> Tensor:
    """`all_gather` into one tensor (`torch.distributed.nn.functional._all_gather_base`)."""
    return _one(_AllGatherBase, output_tensor, input_tensor, group_or_default(group))


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: Group = None
) -> tuple[Tensor, ...]:
    """Exchange tensors between all ranks (`torch.distributed.nn.functional.all_to_all`).

    Args:
        output_tensor_list: Tensors to fill, one per rank.
        input_tensor_list: Tensors to send, one per rank.
        group: The group. Default: all ranks.
    """
    return _several(_AllToAll, group_or_default(group), list(output_tensor_list), *input_tensor_list)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Group = None,
) -> Tensor:
    """Exchange rows of one tensor between all ranks (`torch.distributed.nn.functional.all_to_all_single`).

    Args:
        output: Tensor to fill.
        input: Tensor to send.
        output_split_sizes: Number of rows received from each rank. Default: equal parts.
        input_split_sizes: Number of rows sent to each rank. Default: equal parts.
        group: The group. Default: all ranks.
    """
    return _one(
        _AllToAllSingle, group_or_default(group), output, output_split_sizes, input_split_sizes, input
    )


def all_reduce(tensor: Tensor, op: Reduction = ReduceOp.SUM, group: Group = None) -> Tensor:
    """Reduce the tensors of all ranks on every rank (`torch.distributed.nn.functional.all_reduce`).

    Args:
        tensor: This rank's tensor. All ranks have the same shape and dtype.
        op: The reduction. Default: sum. Only SUM and AVG have derivatives.
        group: The group. Default: all ranks.
    """
    return _one(_AllReduce, op, group_or_default(group), tensor)


def _call(function: type[Function], *args: Any) -> Any:
    return function.apply(*args)


def _one(function: type[Function], *args: Any) -> Tensor:
    result: Tensor = function.apply(*args)
    return result


def _several(function: type[Function], *args: Any) -> tuple[Tensor, ...]:
    results: tuple[Tensor, ...] = function.apply(*args)
    return results


def _copied(tensor: Tensor) -> Tensor:
    return tensor.clone(memory_format=contiguous_format)


def _scaled(grad: Tensor, op: Reduction, group: ProcessGroup, name: str) -> Tensor:
    """Scale the gradient of a sum to that of another linear reduction.

    Raises:
        RuntimeError: the reduction is not linear.
    """
    if op is ReduceOp.SUM:
        return grad
    if op is ReduceOp.AVG:
        return grad / group.size()
    raise RuntimeError(f"{name} backward only supports SUM and AVG, got {op}")


class _Broadcast(Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: ProcessGroup, tensor: Tensor) -> Tensor:
        ctx.src, ctx.group = src, group
        made = _copied(tensor)
        collectives.broadcast(made, group=group, group_src=src)
        return made

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        total = _call(_Reduce, ctx.src, ReduceOp.SUM, ctx.group, grad)
        return None, None, total if ctx.src == ctx.group.rank() else total * 0


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, dst: int, group: ProcessGroup, tensor: Tensor) -> tuple[Tensor, ...]:
        ctx.dst, ctx.group = dst, group
        made = [tensor.new_zeros(tensor.shape) for _ in range(group.size())]
        collectives.gather(tensor, made if group.rank() == dst else None, group=group, group_dst=dst)
        return tuple(made)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return None, None, _call(_Scatter, ctx.dst, ctx.group, *grads)


class _Scatter(Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: ProcessGroup, *tensors: Tensor) -> Tensor:
        ctx.src, ctx.group = src, group
        first = tensors[0]
        if any(each.shape != first.shape for each in tensors):
            raise ValueError(
                f"scatter: expected tensors of one shape, but got {[tuple(each.shape) for each in tensors]}"
            )
        made = first.new_empty(first.shape)
        collectives.scatter(made, tensors if group.rank() == src else None, group=group, group_src=src)
        return made

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, *_call(_Gather, ctx.src, ctx.group, grad)


class _Reduce(Function):
    @staticmethod
    def forward(ctx: Any, dst: int, op: Reduction, group: ProcessGroup, tensor: Tensor) -> Tensor:
        ctx.dst, ctx.op, ctx.group = dst, op, group
        made = _copied(tensor)
        collectives.reduce(made, op=op, group=group, group_dst=dst)
        return made

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        scaled = _scaled(grad, ctx.op, ctx.group, "reduce")
        return None, None, None, _call(_Broadcast, ctx.dst, ctx.group, scaled)


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx: Any, op: Reduction, group: ProcessGroup, output: Tensor, *inputs: Tensor) -> Tensor:
        ctx.op, ctx.group = op, group
        collectives.reduce_scatter(output, inputs, op, group)
        return output

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        scaled = _scaled(grad, ctx.op, ctx.group, "reduce_scatter")
        return None, None, None, *_call(_AllGather, ctx.group, scaled)


class _AllGather(Function):
    @staticmethod
    def forward(ctx: Any, group: ProcessGroup, tensor: Tensor) -> tuple[Tensor, ...]:
        ctx.group = group
        made = [tensor.new_empty(tensor.shape) for _ in range(group.size())]
        collectives.all_gather(made, tensor, group)
        return tuple(made)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        part = grads[0].new_empty(grads[0].shape)
        return None, _call(_ReduceScatter, ReduceOp.SUM, ctx.group, part, *grads)


class _AllGatherBase(Function):
    @staticmethod
    def forward(ctx: Any, output: Tensor, input: Tensor, group: ProcessGroup) -> Tensor:
        ctx.group, ctx.shape = group, input.shape
        collectives.all_gather_into_tensor(output, input, group)
        return output

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        part = grad.new_empty(ctx.shape)
        parts = grad.reshape(ctx.group.size(), *ctx.shape).unbind(0)
        return None, _call(_ReduceScatter, ReduceOp.SUM, ctx.group, part, *parts), None


class _AllToAll(Function):
    @staticmethod
    def forward(ctx: Any, group: ProcessGroup, outputs: list[Tensor], *inputs: Tensor) -> tuple[Tensor, ...]:
        ctx.group, ctx.shapes = group, [each.shape for each in inputs]
        collectives.all_to_all(outputs, inputs, group)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        received = [grads[0].new_empty(shape) for shape in ctx.shapes]
        return None, None, *_call(_AllToAll, ctx.group, received, *grads)


class _AllToAllSingle(Function):
    @staticmethod
    def forward(
        ctx: Any, group: ProcessGroup, output: Tensor, output_splits: Any, input_splits: Any, input: Tensor
    ) -> Tensor:
        ctx.group, ctx.shape, ctx.output_splits, ctx.input_splits = (
            group,
            input.shape,
            output_splits,
            input_splits,
        )
        collectives.all_to_all_single(output, input, output_splits, input_splits, group)
        return output

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        received = grad.new_empty(ctx.shape)
        result = _call(_AllToAllSingle, ctx.group, received, ctx.input_splits, ctx.output_splits, grad)
        return None, None, None, None, result


class _AllReduce(Function):
    @staticmethod
    def forward(ctx: Any, op: Reduction, group: ProcessGroup, tensor: Tensor) -> Tensor:
        ctx.op, ctx.group = op, group
        made = _copied(tensor)
        collectives.all_reduce(made, op, group)
        return made

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        scaled = _scaled(grad, ctx.op, ctx.group, "all_reduce")
        return None, None, _call(_AllReduce, ReduceOp.SUM, ctx.group, scaled)
