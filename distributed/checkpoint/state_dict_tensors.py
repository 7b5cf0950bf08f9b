"""The tensors of states, made whole out of shards, and shards out of whole ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ...autograd import no_grad
from ...dispatch.generated import functions as ops
from ...dispatch.tensor import Tensor
from ...runtime.device import device as Device
from ...runtime.scalar_type import dtype as ScalarType
from ..collectives import broadcast
from ..groups import get_rank, is_initialized
from ..object_collectives import broadcast_object_list
from ..tensor import DTensor, Replicate

__all__ = ["broadcast_whole", "gathered", "mapped", "sharded_like"]


def mapped(function: Callable[[Tensor], Any], value: Any) -> Any:
    """Apply a function to each tensor in nested dictionaries and lists, in order."""
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, dict):
        made: Any = type(value)() if type(value).__init__ is dict.__init__ else {}
        made.update((key, mapped(function, each)) for key, each in value.items())
        if hasattr(value, "_metadata"):
            made._metadata = value._metadata
        return made
    if type(value) in (list, tuple):
        return type(value)(mapped(function, each) for each in value)
    return value


def gathered(state: Any, full: bool, on_host: bool) -> Any:
    """Gather whole tensors of a state, move them to the host, or both.

    Args:
        state: Dictionaries and lists with tensors.
        full: If True, convert `DTensor`s to whole tensors; all ranks take part.
        on_host: If True, move tensors to the host. With `full`, only the first rank gets them, and the other
            ranks get an empty dictionary.
    """
    drops = full and on_host and is_initialized() and get_rank() != 0

    def gather(tensor: Tensor) -> Any:
        if full and isinstance(tensor, DTensor):
            whole: Any = tensor.detach()
            tensor = whole.full_tensor()
        if drops:
            return None
        return tensor.cpu() if on_host else tensor

    if not full and not on_host:
        return state
    with no_grad():
        result = mapped(gather, state)
    return {} if drops else result


def sharded_like(whole: Tensor, like: Any) -> Tensor:
    """Return this rank's part of a whole tensor, with the placements of `like`; the whole itself if `like` is
    plain.
    """
    if not isinstance(like, DTensor) or isinstance(whole, DTensor):
        return whole
    mesh = like.device_mesh
    with no_grad():
        if not like.is_meta:
            whole = whole.to(like._local_tensor.device)
        replicated = DTensor.from_local(whole.detach(), mesh, [Replicate()] * mesh.ndim, run_check=False)
        part: Any = replicated.redistribute(placements=like.placements)
        # No view, which would keep the whole one.
        placed: Tensor = part.clone() if part._local_tensor.numel() != whole.numel() else part
        return placed


class _Sent(NamedTuple):
    """Placeholder of a tensor until it is sent."""

    shape: tuple[int, ...]
    dtype: ScalarType


def broadcast_whole(state: Any, device: Device) -> Any:
    """Broadcast the first rank's state to every rank: dictionaries and lists with tensors, sent one by one.

    Args:
        state: The first rank's state. The states of other ranks are ignored.
        device: Device on which the tensors are sent.
    """
    return _received(state, _structure(state), device, lambda tensor, path: tensor)


def _structure(state: Any) -> Any:
    """Broadcast the first rank's state without its elements."""
    message: list[Any] = [None]
    if get_rank() == 0:
        parts: list[Tensor] = []

        def told_of(tensor: Tensor) -> _Sent:
            parts.append(tensor)
            return _Sent(tuple(tensor.shape), tensor.dtype)

        structure = mapped(told_of, state)
        is_whole = not any(isinstance(each, DTensor) for each in parts)
        # All processes raise, not the first alone.
        message = [
            structure if is_whole else TypeError("expected whole tensors to broadcast, but got a DTensor")
        ]
    broadcast_object_list(message, src=0)
    if isinstance(message[0], TypeError):
        raise message[0]
    return message[0]


def _received(
    state: Any,
    structure: Any,
    device: Device,
    take: Callable[[Tensor, tuple[Any, ...]], Any],
    path: tuple[Any, ...] = (),
) -> Any:
    """Receive the tensors of a structure, and replace each placeholder with the result of `take(tensor,
    path)`.
    """
    if isinstance(structure, _Sent):
        if get_rank() == 0:
            value = state
            for key in path:
                value = value[key]
            tensor = value.detach().to(device).contiguous()
        else:
            tensor = ops.empty(structure.shape, dtype=structure.dtype, device=device)
        broadcast(tensor, src=0)
        return take(tensor, path)
    if isinstance(structure, dict):
        return {key: _received(state, each, device, take, (*path, key)) for key, each in structure.items()}
    if type(structure) in (list, tuple):
        return type(structure)(
            _received(state, each, device, take, (*path, index)) for index, each in enumerate(structure)
        )
    return structure


def broadcast_sharded(state: Any, device: Device, like: Callable[[tuple[Any, ...]], Any]) -> Any:
    """`broadcast_whole`, of which each process keeps its parts alone.

    Args:
        state: the first process's.
        device: where the tensors are sent.
        like: gives the tensor as which one lies, by the keys that lead to it.
    """
    return _received(state, _structure(state), device, lambda tensor, path: sharded_like(tensor, like(path)))
