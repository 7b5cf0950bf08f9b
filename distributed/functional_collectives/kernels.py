"""Kernels of the collective operators, for every backend: start the communication and return its output.

An output is not valid until `wait_tensor` has been called for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...autograd import no_grad
from ...dispatch.tensor import Tensor
from ...runtime.memory_format import contiguous_format
from .. import coalescing, collectives
from ..arguments import sent
from ..groups import group_by_name
from ..process_group import ProcessGroup
from ..reduce_op import ReduceOp
from ..work import Work
from .async_collective_tensor import AsyncCollectiveTensor
from .meta import exchanged_shape, gathered_shape, scattered_shape
from .pending import register_work, wait_for

REDUCTIONS = {op.name.lower(): op for op in ReduceOp if op is not ReduceOp.PREMUL_SUM}
"""By the names that operators take."""


def _reduction(name: str) -> ReduceOp:
    if name not in REDUCTIONS:
        raise RuntimeError(f"Unrecognized reduce_op: {name}; expected one of {', '.join(REDUCTIONS)}")
    return REDUCTIONS[name]


def _group(name: str) -> ProcessGroup:
    try:
        return group_by_name(name)
    except LookupError as error:
        raise RuntimeError(error.args[0]) from None


def _copied(tensor: Tensor) -> Tensor:
    """Return a contiguous copy that may be written."""
    plain = sent(tensor)
    return plain.clone(memory_format=contiguous_format) if plain is tensor else plain


def all_reduce(input: Tensor, reduce_op: str, group_name: str) -> Tensor:
    with no_grad():
        return all_reduce_(_copied(input), reduce_op, group_name)


def all_reduce_(input: Tensor, reduce_op: str, group_name: str) -> Tensor:
    op, group = _reduction(reduce_op), _group(group_name)
    with no_grad():
        register_work(input, collectives.all_reduce(input, op, group, async_op=True))
    return input


def all_reduce_coalesced(inputs: Sequence[Tensor], reduce_op: str, group_name: str) -> Sequence[Tensor]:
    with no_grad():
        return all_reduce_coalesced_([_copied(each) for each in inputs], reduce_op, group_name)


def all_reduce_coalesced_(inputs: Sequence[Tensor], reduce_op: str, group_name: str) -> Sequence[Tensor]:
    op, group = _reduction(reduce_op), _group(group_name)
    with no_grad():
        work = coalescing.all_reduce_coalesced(inputs, op, group, async_op=True)
    for each in inputs:
        register_work(each, work)
    return list(inputs)


def all_gather_into_tensor(input: Tensor, group_size: int, group_name: str) -> Tensor:
    group = _group(group_name)
    with no_grad():
        out = input.new_empty(gathered_shape(input.shape, group_size))
        register_work(out, collectives.all_gather_into_tensor(out, input, group, async_op=True))
    return out


def all_gather_into_tensor_out(input: Tensor, group_size: int, group_name: str, out: Tensor) -> Tensor:
    group = _group(group_name)
    with no_grad():
        register_work(out, collectives.all_gather_into_tensor(out, input, group, async_op=True))
    return out


def all_gather_into_tensor_coalesced(
    inputs: Sequence[Tensor], group_size: int, group_name: str
) -> list[Tensor]:
    return [all_gather_into_tensor(each, group_size, group_name) for each in inputs]


def reduce_scatter_tensor(input: Tensor, reduce_op: str, group_size: int, group_name: str) -> Tensor:
    op, group = _reduction(reduce_op), _group(group_name)
    with no_grad():
        out = input.new_empty(scattered_shape(input.shape, group_size))
        register_work(out, collectives.reduce_scatter_tensor(out, input, op, group, async_op=True))
    return out


def reduce_scatter_tensor_out(
    input: Tensor, reduce_op: str, group_size: int, group_name: str, out: Tensor
) -> Tensor:
    op, group = _reduction(reduce_op), _group(group_name)
    with no_grad():
        register_work(out, collectives.reduce_scatter_tensor(out, input, op, group, async_op=True))
    return out


def reduce_scatter_tensor_coalesced(
    inputs: Sequence[Tensor], reduce_op: str, group_size: int, group_name: str
) -> list[Tensor]:
    return [reduce_scatter_tensor(each, reduce_op, group_size, group_name) for each in inputs]


def all_to_all_single(
    input: Tensor, output_split_sizes: Sequence[int], input_split_sizes: Sequence[int], group_name: str
) -> Tensor:
    group = _group(group_name)
    with no_grad():
        out = input.new_empty(exchanged_shape(input.shape, output_split_sizes))
        work = collectives.all_to_all_single(
            out, input, output_split_sizes, input_split_sizes, group, async_op=True
        )
        register_work(out, work)
    return out


def broadcast(input: Tensor, src: int, group_name: str) -> Tensor:
    with no_grad():
        return broadcast_(_copied(input), src, group_name)


def broadcast_(input: Tensor, src: int, group_name: str) -> Tensor:
    group = _group(group_name)
    with no_grad():
        register_work(input, collectives.broadcast(input, group=group, group_src=src, async_op=True))
    return input


def wait_tensor(tensor: Tensor) -> Tensor:
    wait_for(tensor)
    return tensor


def _wrap_tensor_autograd(input: Tensor) -> Tensor:
    return AsyncCollectiveTensor(input.detach())


def scatter_(
    output_tensors: Sequence[Tensor],
    input_tensors: Sequence[Sequence[Tensor]],
    process_group: ProcessGroup,
    root_rank: int,
    async_op: bool,
    timeout: int,
) -> tuple[list[Tensor], Work | None]:
    """`timeout` has no effect: a communication has that of its group."""
    if len(output_tensors) != 1:
        raise RuntimeError(f"c10d::scatter_: expected 1 output tensor, but got {len(output_tensors)}")
    sends = input_tensors[0] if input_tensors else None
    with no_grad():
        work = collectives.scatter(
            output_tensors[0], sends, group=process_group, async_op=async_op, group_src=root_rank
        )
    return list(output_tensors), work
