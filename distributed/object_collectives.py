"""Collectives of pickled Python objects (`torch.distributed`'s ``*_object*``).

Receivers unpickle the objects, which can execute arbitrary code. Use them only among processes of one
program.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dispatch.tensor import Tensor
from ..runtime.device import device as Device
from .arguments import group_rank_of
from .collectives import all_gather_into_tensor, broadcast, gather, scatter
from .groups import Group, group_or_default, is_member
from .point_to_point import recv, send
from .process_group import ProcessGroup

__all__ = [
    "all_gather_object",
    "broadcast_object_list",
    "gather_object",
    "recv_object_list",
    "scatter_object_list",
    "send_object_list",
]


def _transfer_device(group: ProcessGroup, device: Any = None) -> Device:
    """Return the device through which a group communicates objects."""
    if device is not None:
        return Device(device)
    kinds = list(group.backends.device_backend_map)
    if "cpu" in kinds:
        return Device("cpu")
    if kinds[0] == "cuda":
        from .. import cuda

        return Device("cuda", cuda.current_device())
    return Device(kinds[0])


def _packed(value: Any, device: Device) -> Tensor:
    """Return a pickled object's bytes as a tensor."""
    from ..dispatch.tensor_data import from_numpy

    return from_numpy(np.frombuffer(pickle.dumps(value), np.uint8).copy()).to(device)


def _unpacked(memory: Tensor, size: int) -> Any:
    return pickle.loads(memory[:size].cpu().numpy().tobytes())


def _numbers(values: Sequence[int], device: Device) -> Tensor:
    from ..dispatch.tensor_data import tensor
    from ..runtime.scalar_type import int64

    return tensor(list(values), dtype=int64, device=device)


def _room(size: int, device: Device) -> Tensor:
    from ..dispatch.generated.functions import zeros
    from ..runtime.scalar_type import uint8

    return zeros(size, dtype=uint8, device=device)


def _joined(packed: Sequence[Tensor], device: Device) -> Tensor:
    """Concatenate the bytes of several objects."""
    from ..dispatch.generated.functions import cat

    return cat([_room(0, device), *packed])


def _padded(memory: Tensor, size: int) -> Tensor:
    room = _room(size, memory.device)
    room[: memory.numel()] = memory
    return room


def all_gather_object(object_list: list[Any], obj: Any, group: Group = None) -> None:
    """Gather the objects of all ranks on every rank (`torch.distributed.all_gather_object`).

    Args:
        object_list: List that receives one object per rank. Further entries are unchanged.
        obj: This rank's object, which must be picklable.
        group: The group. Default: all ranks.

    Raises:
        ValueError: The list has fewer entries than the group has ranks.
    """
    if not is_member(group, "all_gather_object"):
        return
    chosen = group_or_default(group)
    _check_room(object_list, chosen, "object_list", "all_gather_object")
    device = _transfer_device(chosen)
    memory = _packed(obj, device)
    sizes = _numbers([0] * chosen.size(), device)
    all_gather_into_tensor(sizes, _numbers([memory.numel()], device), chosen)
    lengths = sizes.tolist()
    max_length = max(lengths)
    room = _room(max_length * chosen.size(), device)
    all_gather_into_tensor(room, _padded(memory, max_length), chosen)
    for rank, length in enumerate(lengths):
        object_list[rank] = _unpacked(room[rank * max_length :], length)


def _check_room(values: Sequence[Any], group: ProcessGroup, name: str, function: str) -> None:
    """Raise ValueError for a list that is too short. Extra items stay unchanged."""
    if len(values) < group.size():
        _check_count(values, group, name, function)


def _check_count(values: Sequence[Any], group: ProcessGroup, name: str, function: str) -> None:
    if len(values) != group.size():
        raise ValueError(
            f"{function}: expected {group.size()} entries in {name}, one for each rank of group {group.group_name!r}, "
            f"but got {len(values)}"
        )


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Group = None,
    group_dst: int | None = None,
) -> None:
    """Gather the objects of all ranks on one rank (`torch.distributed.gather_object`).

    Args:
        obj: This rank's object, which must be picklable.
        object_gather_list: On the destination rank, a list with one entry per rank.
        dst: Global rank that gets the result. Default: 0.
        group: The group. Default: all ranks.
        group_dst: Rank in the group that gets the result, instead of `dst`.

    Raises:
        ValueError: The destination rank has no list, or another rank has one.
    """
    if not is_member(group, "gather_object"):
        return
    chosen = group_or_default(group)
    root = group_rank_of(chosen, dst, group_dst, "dst", "gather_object", default=0)
    is_root = chosen.rank() == root
    if is_root and not object_gather_list:
        raise ValueError("Argument ``object_gather_list`` must be specified on destination rank.")
    if not is_root and object_gather_list:
        raise ValueError("Argument ``object_gather_list`` must NOT be specified on non-destination ranks.")
    if is_root:
        _check_room(object_gather_list or (), chosen, "object_gather_list", "gather_object")
    device = _transfer_device(chosen)
    memory = _packed(obj, device)
    sizes = _numbers([0] * chosen.size(), device)
    all_gather_into_tensor(sizes, _numbers([memory.numel()], device), chosen)
    lengths = sizes.tolist()
    max_length = max(lengths)
    rooms = [_room(max_length, device) for _ in lengths] if is_root else None
    gather(_padded(memory, max_length), rooms, group=chosen, group_dst=root)
    if rooms is not None and object_gather_list is not None:
        for rank, length in enumerate(lengths):
            object_gather_list[rank] = _unpacked(rooms[rank], length)


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Group = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """Broadcast the objects of one rank's list to all ranks (`torch.distributed.broadcast_object_list`).

    Args:
        object_list: List of the same length on all ranks.
        src: Global rank that sends. Default: 0.
        group: The group. Default: all ranks.
        device: Device of the communicated tensors. Default: the backend's.
        group_src: Rank in the group that sends, instead of `src`.
    """
    if not is_member(group, "broadcast_object_list"):
        return
    chosen = group_or_default(group)
    root = group_rank_of(chosen, src, group_src, "src", "broadcast_object_list", default=0)
    transfer_device = _transfer_device(chosen, device)
    is_root = chosen.rank() == root
    packed = [_packed(each, transfer_device) for each in object_list] if is_root else []
    sizes = _numbers(
        [each.numel() for each in packed] if is_root else [0] * len(object_list), transfer_device
    )
    broadcast(sizes, group=chosen, group_src=root)
    lengths = sizes.tolist()
    line = _joined(packed, transfer_device) if is_root else _room(sum(lengths), transfer_device)
    broadcast(line, group=chosen, group_src=root)
    if not is_root:
        _unpack_all(object_list, line, lengths)


def _unpack_all(object_list: list[Any], line: Tensor, lengths: Sequence[int]) -> None:
    offset = 0
    for number, length in enumerate(lengths):
        object_list[number] = _unpacked(line[offset:], length)
        offset += length


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: Sequence[Any] | None = None,
    src: int | None = None,
    group: Group = None,
    group_src: int | None = None,
) -> None:
    """Send one object of the source rank's list to each rank (`torch.distributed.scatter_object_list`).

    Args:
        scatter_object_output_list: List of at least one entry. The first entry receives the object.
        scatter_object_input_list: On the source rank, one object per rank.
        src: Global rank that sends. Default: 0.
        group: The group. Default: all ranks.
        group_src: Rank in the group that sends, instead of `src`.

    Raises:
        ValueError: A list is too short, or the source rank has no input list.
    """
    if not is_member(group, "scatter_object_list"):
        return
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    chosen = group_or_default(group)
    root = group_rank_of(chosen, src, group_src, "src", "scatter_object_list", default=0)
    device = _transfer_device(chosen)
    is_root = chosen.rank() == root
    packed: list[Tensor] = []
    if is_root:
        if scatter_object_input_list is None:
            raise ValueError("source rank must provide non-None scatter_object_input_list")
        _check_count(scatter_object_input_list, chosen, "scatter_object_input_list", "scatter_object_list")
        packed = [_packed(each, device) for each in scatter_object_input_list]
    sizes = _numbers([each.numel() for each in packed] if is_root else [0] * chosen.size(), device)
    broadcast(sizes, group=chosen, group_src=root)
    lengths = sizes.tolist()
    max_length = max(lengths)
    room = _room(max_length, device)
    scatter(room, [_padded(each, max_length) for each in packed] or None, group=chosen, group_src=root)
    scatter_object_output_list[0] = _unpacked(room, lengths[chosen.rank()])


def send_object_list(
    object_list: Sequence[Any],
    dst: int | None = None,
    group: Group = None,
    device: Any = None,
    group_dst: int | None = None,
    use_batch: bool = False,
) -> None:
    """Send the objects of a list (`torch.distributed.send_object_list`).

    Args:
        object_list: Objects to send, which must be picklable.
        dst: Global rank that receives.
        group: The group. Default: all ranks.
        device: Device of the communicated tensors. Default: the backend's.
        group_dst: Rank in the group that gets the result, instead of `dst`.
        use_batch: Ignored; accepted for compatibility with PyTorch.
    """
    if not is_member(group, "send_object_list"):
        return
    chosen = group_or_default(group)
    transfer_device = _transfer_device(chosen, device)
    packed = [_packed(each, transfer_device) for each in object_list]
    send(_numbers([each.numel() for each in packed], transfer_device), dst, chosen, 0, group_dst)
    send(_joined(packed, transfer_device), dst, chosen, 0, group_dst)


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Group = None,
    device: Any = None,
    group_src: int | None = None,
    use_batch: bool = False,
) -> int:
    """Receive the objects of a list (`torch.distributed.recv_object_list`).

    Args:
        object_list: List of the same length as the sender's.
        src: Global rank that sends. Default: any rank.
        group: The group. Default: all ranks.
        device: Device of the communicated tensors. Default: the backend's.
        group_src: Rank in the group that sends, instead of `src`.
        use_batch: Ignored; accepted for compatibility with PyTorch.

    Returns:
        The global rank of the sender; -1 if this rank is not in the group.
    """
    if not is_member(group, "recv_object_list"):
        return -1
    chosen = group_or_default(group)
    transfer_device = _transfer_device(chosen, device)
    sizes = _numbers([0] * len(object_list), transfer_device)
    sender = recv(sizes, src, chosen, 0, group_src)
    lengths = sizes.tolist()
    line = _room(sum(lengths), transfer_device)
    recv(line, sender, chosen)
    _unpack_all(object_list, line, lengths)
    return sender
