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


def _place(group: ProcessGroup, device: Any = None) -> Device:
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


def _packed(value: Any, place: Device) -> Tensor:
    """Return a pickled object's bytes as a tensor."""
    from ..dispatch.tensor_data import from_numpy

    return from_numpy(np.frombuffer(pickle.dumps(value), np.uint8).copy()).to(place)


def _unpacked(memory: Tensor, size: int) -> Any:
    return pickle.loads(memory[:size].cpu().numpy().tobytes())


def _numbers(values: Sequence[int], place: Device) -> Tensor:
    from ..dispatch.tensor_data import tensor
    from ..runtime.scalar_type import int64

    return tensor(list(values), dtype=int64, device=place)


def _room(size: int, place: Device) -> Tensor:
    from ..dispatch.generated.functions import zeros
    from ..runtime.scalar_type import uint8

    return zeros(size, dtype=uint8, device=place)


def _joined(packed: Sequence[Tensor], place: Device) -> Tensor:
    """Concatenate the bytes of several objects."""
    from ..dispatch.generated.functions import cat

    return cat([_room(0, place), *packed])


def _padded(memory: Tensor, size: int) -> Tensor:
    room = _room(size, memory.device)
    room[: memory.numel()] = memory
    return room


def all_gather_object(object_list: list[Any], obj: Any, group: Group = None) -> None:
    """Put the objects of all processes into a list of each (`torch.distributed.all_gather_object`).

    Args:
        object_list: a place for each process; what is in more of them stays.
        obj: This rank's object, which must be picklable.
        group: The group. Default: all ranks.

    Raises:
        ValueError: the list has fewer places than the group has processes.
    """
    if not is_member(group, "all_gather_object"):
        return
    chosen = group_or_default(group)
    _check_room(object_list, chosen, "object_list", "all_gather_object")
    place = _place(chosen)
    memory = _packed(obj, place)
    sizes = _numbers([0] * chosen.size(), place)
    all_gather_into_tensor(sizes, _numbers([memory.numel()], place), chosen)
    lengths = sizes.tolist()
    most = max(lengths)
    room = _room(most * chosen.size(), place)
    all_gather_into_tensor(room, _padded(memory, most), chosen)
    for rank, length in enumerate(lengths):
        object_list[rank] = _unpacked(room[rank * most :], length)


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
    """Put the objects of all processes into a list of one (`torch.distributed.gather_object`).

    Args:
        obj: This rank's object, which must be picklable.
        object_gather_list: in the process that gets them, a place for each.
        dst: Global rank that gets the result. Default: 0.
        group: The group. Default: all ranks.
        group_dst: Rank in the group that gets the result, instead of `dst`.

    Raises:
        ValueError: there is a list in another process, or none in that one.
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
    place = _place(chosen)
    memory = _packed(obj, place)
    sizes = _numbers([0] * chosen.size(), place)
    all_gather_into_tensor(sizes, _numbers([memory.numel()], place), chosen)
    lengths = sizes.tolist()
    most = max(lengths)
    rooms = [_room(most, place) for _ in lengths] if is_root else None
    gather(_padded(memory, most), rooms, group=chosen, group_dst=root)
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
    """Put the objects of one process's list into each one's (`torch.distributed.broadcast_object_list`).

    Args:
        object_list: as many places in all processes.
        src: Global rank that sends. Default: 0.
        group: The group. Default: all ranks.
        device: by which device they travel.
        group_src: Rank in the group that sends, instead of `src`.
    """
    if not is_member(group, "broadcast_object_list"):
        return
    chosen = group_or_default(group)
    root = group_rank_of(chosen, src, group_src, "src", "broadcast_object_list", default=0)
    place = _place(chosen, device)
    is_root = chosen.rank() == root
    packed = [_packed(each, place) for each in object_list] if is_root else []
    sizes = _numbers([each.numel() for each in packed] if is_root else [0] * len(object_list), place)
    broadcast(sizes, group=chosen, group_src=root)
    lengths = sizes.tolist()
    line = _joined(packed, place) if is_root else _room(sum(lengths), place)
    broadcast(line, group=chosen, group_src=root)
    if not is_root:
        _unpack_all(object_list, line, lengths)


def _unpack_all(object_list: list[Any], line: Tensor, lengths: Sequence[int]) -> None:
    at = 0
    for number, length in enumerate(lengths):
        object_list[number] = _unpacked(line[at:], length)
        at += length


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: Sequence[Any] | None = None,
    src: int | None = None,
    group: Group = None,
    group_src: int | None = None,
) -> None:
    """Put an object of one process's list into the first place of each one's (`torch.distributed.scatter_object_list`).

    Args:
        scatter_object_output_list: a list with a first place.
        scatter_object_input_list: in the process that sends, an object for each.
        src: Global rank that sends. Default: 0.
        group: The group. Default: all ranks.
        group_src: Rank in the group that sends, instead of `src`.

    Raises:
        ValueError: a list has too few places, or there is none in the process that sends.
    """
    if not is_member(group, "scatter_object_list"):
        return
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    chosen = group_or_default(group)
    root = group_rank_of(chosen, src, group_src, "src", "scatter_object_list", default=0)
    place = _place(chosen)
    is_root = chosen.rank() == root
    packed: list[Tensor] = []
    if is_root:
        if scatter_object_input_list is None:
            raise ValueError("source rank must provide non-None scatter_object_input_list")
        _check_count(scatter_object_input_list, chosen, "scatter_object_input_list", "scatter_object_list")
        packed = [_packed(each, place) for each in scatter_object_input_list]
    sizes = _numbers([each.numel() for each in packed] if is_root else [0] * chosen.size(), place)
    broadcast(sizes, group=chosen, group_src=root)
    lengths = sizes.tolist()
    most = max(lengths)
    room = _room(most, place)
    scatter(room, [_padded(each, most) for each in packed] or None, group=chosen, group_src=root)
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
        object_list: what is sent.
        dst: Global rank that receives.
        group: The group. Default: all ranks.
        device: by which device they travel.
        group_dst: Rank in the group that gets the result, instead of `dst`.
        use_batch: Ignored; accepted for compatibility with PyTorch.
    """
    if not is_member(group, "send_object_list"):
        return
    chosen = group_or_default(group)
    place = _place(chosen, device)
    packed = [_packed(each, place) for each in object_list]
    send(_numbers([each.numel() for each in packed], place), dst, chosen, 0, group_dst)
    send(_joined(packed, place), dst, chosen, 0, group_dst)


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
        object_list: as many places as the sender's list has.
        src: Global rank that sends. Default: any rank.
        group: The group. Default: all ranks.
        device: by which device they travel.
        group_src: Rank in the group that sends, instead of `src`.
        use_batch: Ignored; accepted for compatibility with PyTorch.

    Returns:
        The number in the world of the process that sent; -1 where this one is not in the group.
    """
    if not is_member(group, "recv_object_list"):
        return -1
    chosen = group_or_default(group)
    place = _place(chosen, device)
    sizes = _numbers([0] * len(object_list), place)
    sender = recv(sizes, src, chosen, 0, group_src)
    lengths = sizes.tolist()
    line = _room(sum(lengths), place)
    recv(line, sender, chosen)
    _unpack_all(object_list, line, lengths)
    return sender
