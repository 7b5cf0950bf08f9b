"""Messages between two ranks (`torch.distributed.send`, `recv` and similar functions)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..dispatch.tensor import Tensor
from .arguments import Finish, check_tensor, group_rank_of, sent, written
from .groups import Group, get_global_rank, get_rank, group_or_default, is_member
from .process_group import ProcessGroup
from .work import FollowedWork, Work

__all__ = ["P2POp", "batch_isend_irecv", "irecv", "isend", "recv", "send"]


def _peer(group: ProcessGroup, rank: int | None, group_rank: int | None, name: str, function: str) -> int:
    peer = group_rank_of(group, rank, group_rank, name, function)
    if peer == group.rank():
        verb = "destination" if name == "dst" else "source"
        raise ValueError(
            f"Invalid {verb} rank: {verb} rank should not be the same as the rank of the current process."
        )
    return peer


def isend(
    tensor: Tensor, dst: int | None = None, group: Group = None, tag: int = 0, group_dst: int | None = None
) -> Work | None:
    """Begin to send a tensor (`triten.distributed.isend`).

    Args:
        tensor: Tensor to send, which must not change until the work has ended.
        dst: Global rank that receives.
        group: The group. Default: all ranks.
        tag: Tag that matches the receiver's call.
        group_dst: Rank in the group that gets the result, instead of `dst`.

    Raises:
        ValueError: there is no such process, or it is this one.
    """
    check_tensor(tensor, "tensor", "isend")
    if not is_member(group, "isend"):
        return None
    chosen = group_or_default(group)
    peer = _peer(chosen, dst, group_dst, "dst", "isend")
    return chosen.communicator(tensor.device.type).send(sent(tensor), peer, tag)


def send(
    tensor: Tensor, dst: int | None = None, group: Group = None, tag: int = 0, group_dst: int | None = None
) -> None:
    """Send a tensor (`torch.distributed.send`): as `isend`, but to the end."""
    check_tensor(tensor, "tensor", "send")
    work = isend(tensor, dst, group, tag, group_dst)
    if work is not None:
        work.wait()


def irecv(
    tensor: Tensor,
    src: int | None = None,
    group: Group = None,
    tag: int = 0,
    group_src: int | None = None,
) -> Work | None:
    """Begin to receive a tensor (`triten.distributed.irecv`).

    Args:
        tensor: Tensor to fill, of the sender's dtype and size.
        src: Global rank that sends. Default: any rank.
        group: The group. Default: all ranks.
        tag: Tag that matches the sender's call.
        group_src: Rank in the group that sends, instead of `src`.

    Raises:
        ValueError: there is no such process, or it is this one.
    """
    check_tensor(tensor, "tensor", "irecv")
    if not is_member(group, "irecv"):
        return None
    work, finish = _receive(tensor, src, group, tag, group_src, "irecv")
    return work if finish is None else FollowedWork(work, finish, [tensor])


def _receive(
    tensor: Tensor, src: int | None, group: Group, tag: int, group_src: int | None, function: str
) -> tuple[Work, Finish]:
    chosen = group_or_default(group)
    from_any = src is None and group_src is None
    peer = None if from_any else _peer(chosen, src, group_src, "src", function)
    buffer, finish = written(tensor)
    return chosen.communicator(tensor.device.type).receive(buffer, peer, tag), finish


def recv(
    tensor: Tensor,
    src: int | None = None,
    group: Group = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    """Receive a tensor (`torch.distributed.recv`): as `irecv`, but to the end.

    Returns:
        The number in the world of the process that sent it; -1 where this one is not in the group.
    """
    check_tensor(tensor, "tensor", "recv")
    if not is_member(group, "recv"):
        return -1
    chosen = group_or_default(group)
    work, finish = _receive(tensor, src, group, tag, group_src, "recv")
    work.wait()
    if finish is not None:
        finish()
    if src is None and group_src is None:
        return get_global_rank(chosen, work.source_rank())
    return src if src is not None else get_global_rank(chosen, group_src or 0)


class P2POp:
    """A message for `batch_isend_irecv` (`triten.distributed.P2POp`).

    Args:
        op: `isend` or `irecv`.
        tensor: Tensor to send or to fill.
        peer: Global rank of the other process.
        group: The group. Default: all ranks.
        tag: Tag, as for `isend`.
        group_peer: Rank in the group of the other process, instead of `peer`.

    Raises:
        ValueError: `op` is neither.
    """

    def __init__(
        self,
        op: Callable[..., Any],
        tensor: Tensor,
        peer: int | None = None,
        group: Group = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ValueError(
                "Invalid ``op``. Expected ``op`` to be of type ``triten.distributed.isend`` or "
                f"``triten.distributed.irecv``, but got {op!r}"
            )
        check_tensor(tensor, "tensor", "P2POp")
        chosen = group_or_default(group)
        self.op, self.tensor, self.group, self.tag = op, tensor, group, tag
        self.group_peer = _peer(chosen, peer, group_peer, "dst" if op is isend else "src", "P2POp")
        self.peer = get_global_rank(chosen, self.group_peer)

    def __repr__(self) -> str:
        return (
            f"P2POp({self.op.__name__} pg={group_or_default(self.group).group_name}, s={get_rank()}, d={self.peer}, "
            f"{tuple(self.tensor.shape)}, {self.tensor.dtype})"
        )


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Work]:
    """Begin several messages (`torch.distributed.batch_isend_irecv`).

    Args:
        p2p_op_list: the messages; on GPUs the order does not matter, and all go together.

    Raises:
        ValueError: there are none, or they are of several groups.
    """
    operations = list(p2p_op_list)
    if not operations or not all(isinstance(each, P2POp) for each in operations):
        raise ValueError(
            "Invalid ``p2p_op_list``. Each op is expected to be of type ``triten.distributed.P2POp``."
        )
    group = operations[0].group
    if any(each.group is not group for each in operations):
        raise ValueError("All ops need to use the same group.")
    communicator = group_or_default(group).communicator(operations[0].tensor.device.type)
    with communicator.coalescing():
        works = [
            each.op(each.tensor, group=group, tag=each.tag, **{_KEYWORD[each.op]: each.group_peer})
            for each in operations
        ]
    return [work for work in works if work is not None]


_KEYWORD: dict[Callable[..., Any], str] = {isend: "group_dst", irecv: "group_src"}
