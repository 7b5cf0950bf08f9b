"""Collectives that communicate several tensors at once (`torch.distributed.all_reduce_coalesced` and similar
functions).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from ..dispatch.tensor import Tensor
from .arguments import check_tensors
from .collectives import _one_line, _take, all_gather, all_reduce
from .groups import Group, group_or_default, is_member
from .reduce_op import ReduceOp, Reduction
from .work import FollowedWork, Work

__all__ = ["all_gather_coalesced", "all_reduce_coalesced", "coalescing_manager"]


class _SeveralWorks(Work):
    """Several communications."""

    def __init__(self) -> None:
        super().__init__()
        self.works: list[Work] = []

    def append(self, work: Work | None) -> None:
        """Add one."""
        if work is not None:
            self.works.append(work)

    def wait(self, timeout: timedelta | None = None) -> bool:
        for work in self.works:
            work.wait(timeout)
        return True

    def is_completed(self) -> bool:
        return all(work.is_completed() for work in self.works)

    def exception(self) -> BaseException | None:
        return next((error for work in self.works if (error := work.exception()) is not None), None)

    def result(self) -> list[Tensor]:
        return [tensor for work in self.works for tensor in work.result()]


def _by_kind(tensors: Sequence[Tensor]) -> list[list[Tensor]]:
    kinds: dict[Any, list[Tensor]] = {}
    for tensor in tensors:
        kinds.setdefault((tensor.dtype, tensor.device), []).append(tensor)
    return list(kinds.values())


def all_reduce_coalesced(
    tensors: Sequence[Tensor] | Tensor,
    op: Reduction = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """`all_reduce` of several tensors, those of a dtype together (`torch.distributed.all_reduce_coalesced`).

    Args:
        tensors: This rank's tensors. All ranks have equally many, with the same shapes and dtypes.
        op: The reduction. Default: sum.
        group: The group. Default: all ranks.
        async_op: If True, return a `Work` before the communication ends. Default: False.
    """
    several = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    check_tensors(several, "tensors", "all_reduce_coalesced")
    if not is_member(group, "all_reduce_coalesced"):
        return None
    works = _SeveralWorks()
    for kind in _by_kind(several):
        if len(kind) == 1:
            works.append(all_reduce(kind[0], op, group, async_op=True))
            continue
        line = _one_line(kind)
        work = all_reduce(line, op, group, async_op=True)
        assert work is not None
        works.append(FollowedWork(work, lambda kind=kind, line=line: _take(kind, line), kind))  # type: ignore[misc]
    if async_op:
        return works
    works.wait()
    return None


def all_gather_coalesced(
    output_tensor_lists: Sequence[Sequence[Tensor]],
    input_tensor_list: Sequence[Tensor],
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """`all_gather` of several tensors (`torch.distributed.all_gather_coalesced`).

    Args:
        output_tensor_lists: for each process, a tensor for each of its inputs.
        input_tensor_list: This rank's tensors.
        group: The group. Default: all ranks.
        async_op: If True, return a `Work` before the communication ends. Default: False.
    """
    check_tensors(input_tensor_list, "input_tensor_list", "all_gather_coalesced")
    if not is_member(group, "all_gather_coalesced"):
        return None
    works = _SeveralWorks()
    with coalescing_manager(group, input_tensor_list[0].device if input_tensor_list else None):
        for index, tensor in enumerate(input_tensor_list):
            works.append(
                all_gather([each[index] for each in output_tensor_lists], tensor, group, async_op=True)
            )
    if async_op:
        return works
    works.wait()
    return None


@contextmanager
def coalescing_manager(
    group: Group = None, device: Any = None, async_ops: bool = False
) -> Iterator[_SeveralWorks]:
    """Issue the collectives called inside together (`torch.distributed._coalescing_manager`).

    Args:
        group: The group. Default: all ranks.
        device: Device of the tensors.
        async_ops: If True, the yielded object's `wait` waits for appended works of calls with
            ``async_op=True``. Otherwise the end of the block does. Default: False.
    """
    kind = "cpu" if device is None else str(device).partition(":")[0]
    works = _SeveralWorks()
    with group_or_default(group).communicator(kind).coalescing():
        yield works
    if not async_ops:
        works.wait()
