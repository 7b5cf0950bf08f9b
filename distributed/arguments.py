"""Checks of the arguments of collectives, and contiguous buffers for tensors with other strides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..autograd import no_grad
from ..dispatch.tensor import Tensor
from ..runtime.layout import strided
from .groups import get_group_rank
from .process_group import ProcessGroup
from .reduce_op import PremultipliedSum, ReduceOp, Reduction, supports_complex
from .work import FollowedWork, Work

__all__ = [
    "Finish",
    "as_real",
    "check_group_rank",
    "check_op",
    "check_same_dtype",
    "check_tensor",
    "check_tensors",
    "ended",
    "group_rank_of",
    "sent",
    "written",
]

Finish = Callable[[], None] | None
"""Callback that runs after a communication has ended."""


def check_tensor(tensor: Any, name: str, function: str) -> None:
    """Raise TypeError for a value that is not a tensor, and ValueError for a tensor that cannot be sent."""
    if not isinstance(tensor, Tensor):
        raise TypeError(
            f"{function}: Invalid function argument. Expected parameter `{name}` of type Tensor, but got "
            f"{type(tensor)} instead."
        )
    if tensor.layout is not strided:
        raise ValueError(f"{function}: expected a dense tensor for {name}, but got layout {tensor.layout}")


def check_tensors(tensors: Any, name: str, function: str) -> None:
    """Raise TypeError for a value that is not a list of tensors."""
    if not isinstance(tensors, (list, tuple)) or not all(isinstance(each, Tensor) for each in tensors):
        raise TypeError(
            f"{function}: Invalid function argument. Expected parameter `{name}` of type List[Tensor], but got "
            f"{type(tensors)}{' with other elements' if isinstance(tensors, (list, tuple)) else ''}."
        )
    for tensor in tensors:
        check_tensor(tensor, name, function)


def check_same_dtype(function: str, *tensors: Tensor | Sequence[Tensor]) -> None:
    """Raise ValueError for tensors of several dtypes."""
    flat = [each for arg in tensors for each in ([arg] if isinstance(arg, Tensor) else arg)]
    for each in flat[1:]:
        if each.dtype != flat[0].dtype:
            raise ValueError(
                f"{function}: Invalid usage of tensors with different dtypes. Found {flat[0].dtype} and {each.dtype}"
            )


def check_op(op: Any, function: str) -> None:
    """Raise TypeError for a value that is not a reduction."""
    if not isinstance(op, (ReduceOp, PremultipliedSum)):
        raise TypeError(f"{function}: expected a ReduceOp for op, but got {type(op).__name__}")


def as_real(tensor: Tensor, op: Reduction, function: str) -> Tensor:
    """Return a tensor that can be reduced: complex tensors as their real and imaginary parts.

    Raises:
        ValueError: there is no such reduction of complex numbers.
    """
    if not tensor.is_complex():
        return tensor
    if not supports_complex(op):
        raise ValueError(f"{function} does not support {op} on complex tensors")
    from ..dispatch.generated.functions import view_as_real

    return view_as_real(tensor.detach().resolve_conj())


def check_group_rank(group: ProcessGroup, rank: int, name: str, function: str) -> int:
    """Return a rank of a group. Raise ValueError if the group has no such rank."""
    if not 0 <= rank < group.size():
        raise ValueError(
            f"{function}: expected a rank from 0 to {group.size() - 1} in group {group.group_name!r} for {name}, but "
            f"got {rank}"
        )
    return rank


def group_rank_of(
    group: ProcessGroup,
    global_rank: int | None,
    group_rank: int | None,
    name: str,
    function: str,
    default: int | None = None,
) -> int:
    """Return a rank in a group, given the rank in the group or the global rank.

    Args:
        group: the group.
        global_rank: Global rank.
        group_rank: Rank in the group.
        name: Name of the argument, for errors.
        function: Name of the function, for errors.
        default: Global rank if neither is given.

    Raises:
        ValueError: both are given or none, or the group has no such process.
    """
    if group_rank is not None:
        if global_rank is not None:
            raise ValueError(f"{function}: Can't specify both group_{name} and {name}")
        return check_group_rank(group, group_rank, f"group_{name}", function)
    if global_rank is None:
        global_rank = default
    if global_rank is None:
        raise ValueError(f"{function}: Must specify {name} or group_{name}")
    return get_group_rank(group, global_rank)


def _is_plain(tensor: Tensor) -> bool:
    return tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()


def sent(tensor: Tensor) -> Tensor:
    """Return the tensor itself if it can be sent as it is, else a contiguous copy."""
    if _is_plain(tensor):
        return tensor
    with no_grad():
        return tensor.resolve_conj().resolve_neg().contiguous()


def written(tensor: Tensor, reads: bool = False) -> tuple[Tensor, Finish]:
    """Return the buffer that a communication writes, and the callback that copies it into the tensor.

    Args:
        tensor: The tensor; its version is incremented.
        reads: If True, the communication also reads the tensor. Default: False.
    """
    if _is_plain(tensor):
        tensor.bump_version()
        return tensor, None
    with no_grad():
        buffer = sent(tensor) if reads else tensor.new_empty(tensor.shape)
        if buffer is tensor:
            buffer = tensor.clone()

    def take() -> None:
        with no_grad():
            (tensor.detach() if tensor.requires_grad else tensor).copy_(buffer)

    return buffer, take


def ended(work: Work, finish: Finish, results: Sequence[Tensor], async_op: bool) -> Work | None:
    """Return the work if the caller asked for asynchronous execution. Otherwise wait for it and return None."""
    if async_op:
        return work if finish is None else FollowedWork(work, finish, results)
    work.wait()
    if finish is not None:
        finish()
    return None
