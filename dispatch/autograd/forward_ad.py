"""`tt.autograd.forward_ad`: dual tensors and their levels (torch/autograd/forward_ad.py)."""

from __future__ import annotations

import itertools
import threading
import weakref
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

from ...runtime.local_dispatch_key_set import local, modes
from ...runtime.tensor_impl import TensorImpl
from ...runtime.thread_state import inherited
from ...runtime.transform_stack import stack as _stack
from .tangents import FORWARD_BIT, depths, holders, set_tangents, tangents_of

if TYPE_CHECKING:
    from ..tensor import Tensor

_next_level = itertools.count().__next__


class _Levels(threading.local):
    """Levels that this thread has entered, outermost first."""

    def __init__(self) -> None:
        self.active: list[dual_level] = []


_levels = inherited(_Levels())


class UnpackedDualTensor(NamedTuple):
    """Primal and tangent of a dual tensor; the tangent is None if it is zero."""

    primal: Tensor
    tangent: Tensor | None


class dual_level:
    """Context manager in which tensors may be dual; on exit, their tangents of this level are dropped.

    Levels nest. A function differentiated forward inside another's differentiation has its own level. Level numbers
    increase, so that neither sees the other's tangents.

    Example:
        >>> import triten as tt
        >>> forward_ad = tt.autograd.forward_ad
        >>> with forward_ad.dual_level():
        ...     x = forward_ad.make_dual(tt.tensor([1.0, 2.0]), tt.tensor([1.0, 0.0]))
        ...     forward_ad.unpack_dual(x * x)
        UnpackedDualTensor(primal=tensor([1., 4.]), tangent=tensor([2., 0.]))
    """

    number: int

    def __enter__(self) -> int:
        self.number = _next_level()
        holders[self.number] = weakref.WeakValueDictionary()
        depths[self.number] = len(_stack.levels)
        _levels.active.append(self)
        return self.number

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        exit_dual_level(level=self.number)


def enter_dual_level() -> int:
    """Enter a level and return its number. `dual_level` is the context manager for it."""
    return dual_level().__enter__()


def exit_dual_level(*, level: int | None = None) -> None:
    """Leave the innermost level.

    Raises RuntimeError if no level is active, or `level` is another one.
    """
    active = _levels.active
    if not active or (level is not None and active[-1].number != level):
        last = active[-1].number if active else -1
        raise RuntimeError(
            f"Trying to exit a forward AD level that was not the last one that was created: expected level {last}, "
            f"got {level}. This is not supported."
        )
    left = active.pop()
    del depths[left.number]
    for tensor in list(holders.pop(left.number).values()):
        set_tangents(tensor, {k: t for k, t in tangents_of(tensor).items() if k != left.number})


def current_level() -> int:
    """Return the number of the innermost level, -1 outside of all."""
    return _levels.active[-1].number if _levels.active else -1


def _check(tensor: object, noun: str) -> None:
    if not isinstance(tensor, TensorImpl):
        raise TypeError(f"make_dual: expected {noun} to be a Tensor, got {type(tensor).__name__}")
    dtype = tensor._spec.dtype
    if not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(f"Expected {noun} to be floating point or complex, but got: {dtype}")


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """Return a view of `tensor` with a tangent: results computed from it carry the directional derivative as
    tangents.

    Args:
        tensor: The primal, floating-point or complex.
        tangent: The tangent, of the same sizes, dtype and device. It is copied unless it has the primal's strides and
            the same place in a storage of the same size.
        level: A number from `enter_dual_level`. Default: the innermost level.

    Raises:
        RuntimeError: outside of every level, and for a tangent of other sizes, dtype or device.
        ValueError: for tensors of integers.
    """
    from .forward_mode import copied_like, have_equal_storages, without_tangents

    level = current_level() if level is None else level
    if level < 0:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    _check(tensor, "primal")
    _check(tangent, "tangent")
    spec, tangent_spec = tensor._spec, tangent._spec
    if spec.sizes != tangent_spec.sizes:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
            f"supported. Tensor is of size {list(spec.sizes)} while the given forward gradient is of size "
            f"{list(tangent_spec.sizes)}."
        )
    if spec.dtype is not tangent_spec.dtype or spec.device is not tangent_spec.device:
        raise RuntimeError(
            f"make_dual: expected a tangent of {spec.dtype} on {spec.device}, as the primal is, got "
            f"{tangent_spec.dtype} on {tangent_spec.device}"
        )
    if level in tangents_of(tangent):
        raise RuntimeError(
            "Setting a forward grad that itself has a forward gradient at the same level is not supported."
        )
    if (
        tangent_spec.strides != spec.strides
        or tangent_spec.overlaps
        or not have_equal_storages(tensor, tangent)
    ):
        tangent = copied_like(tensor, tangent)
    with without_tangents():
        dual = tensor.alias()
    set_tangents(dual, {**tangents_of(tensor), level: tangent})
    return dual


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """Return a tensor's primal, as a view without the tangent, and the tangent or None."""
    from .forward_mode import without_tangents

    level = current_level() if level is None else level
    if level < 0:
        return UnpackedDualTensor(tensor, None)
    tangents = tangents_of(tensor) if _is_fwd_grad_enabled() else {}
    with without_tangents():
        primal = tensor.alias()
    set_tangents(primal, {k: t for k, t in tangents.items() if k != level})
    return UnpackedDualTensor(primal, tangents.get(level))


def _is_fwd_grad_enabled() -> bool:
    """Return whether this thread's operators compute tangents."""
    return not (modes and local.excluded & FORWARD_BIT)


class _set_fwd_grad_enabled:
    """Context manager that sets whether this thread's operators compute tangents.

    It takes effect when it is made, like PyTorch's (`torch.autograd.forward_ad._set_fwd_grad_enabled`).
    """

    def __init__(self, mode: bool) -> None:
        self._before = local.excluded
        local.excluded = self._before & ~FORWARD_BIT if mode else self._before | FORWARD_BIT
        modes.append(self)

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        local.excluded = self._before
        modes.remove(self)


__all__ = [
    "UnpackedDualTensor",
    "_is_fwd_grad_enabled",
    "_set_fwd_grad_enabled",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]
