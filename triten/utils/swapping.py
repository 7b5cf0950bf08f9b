"""Exchange of two tensors' contents, while references to either stay valid (`torch.utils.swap_tensors`)."""

from __future__ import annotations

import copyreg
import weakref
from typing import Any, NoReturn

from ..dispatch.autograd.node import AccumulateGrad, NodeHooks
from ..dispatch.tensor import Tensor
from ..runtime.tensor_impl import TensorImpl


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Exchange the contents of two tensors: bytes, metadata, gradients, classes, attributes.

    A graph that was recorded with either as a leaf cannot be run backward any more. Views and graphs that refer to a
    tensor see its new content: give up both before.

    Raises:
        RuntimeError: a tensor has weak references, or their classes have different slots.

    Example:
        >>> import triten as tt
        >>> a, b = tt.ones(2), tt.zeros(3, dtype=tt.int64)
        >>> tt.utils.swap_tensors(a, b)
        >>> a, b
        (tensor([0, 0, 0]), tensor([1., 1.]))
    """
    if t1 is t2:
        return
    accumulators = [_accumulator_of(tensor) for tensor in (t1, t2)]
    for name, tensor, accumulator in zip(("t1", "t2"), (t1, t2), accumulators, strict=True):
        known = () if accumulator is None else (accumulator.leaf,)
        if any(all(reference is not own for own in known) for reference in weakref.getweakrefs(tensor)):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
    slots, other_slots = (set(_slots(tensor)) for tensor in (t1, t2))
    try:
        if slots != other_slots:
            raise TypeError(f"one has {sorted(slots ^ other_slots)}")
        first, second = t1.__class__, t2.__class__
        t1.__class__, t2.__class__ = second, first
    except TypeError as error:
        raise RuntimeError(
            f"Cannot swap t1 and t2 if they have different slots: a {type(t1).__name__} and a {type(t2).__name__}, "
            f"{error}"
        ) from error
    for accumulator in accumulators:
        if accumulator is not None:
            # A graph may still hold the accumulator, which would add to the swapped leaf.
            accumulator.register_prehook(_refuse)
    for name in slots:
        _exchange(t1, t2, name)
    t1.__dict__, t2.__dict__ = t2.__dict__, t1.__dict__
    for tensor, accumulator in ((t2, accumulators[0]), (t1, accumulators[1])):
        if accumulator is not None:
            tensor._autograd.edge = (_moved(accumulator, tensor), 0)


def _slots(tensor: Tensor) -> list[str]:
    slots: list[str] = copyreg._slotnames(type(tensor))  # type: ignore[attr-defined]
    own = [name for name in TensorImpl.__slots__ if not name.startswith("__")]
    return [*own, *(name for name in slots if name not in TensorImpl.__slots__)]


def _exchange(a: Any, b: Any, name: str) -> None:
    """Exchange one slot, which may be empty."""
    missing = object()
    of_a, of_b = getattr(a, name, missing), getattr(b, name, missing)
    for tensor, value, before in ((a, of_b, of_a), (b, of_a, of_b)):
        if value is not missing:
            setattr(tensor, name, value)
        elif before is not missing:
            delattr(tensor, name)


def _accumulator_of(tensor: Tensor) -> AccumulateGrad | None:
    meta = tensor._autograd
    node = None if meta is None or meta.edge is None else meta.edge[0]
    return node if isinstance(node, AccumulateGrad) else None


def _moved(accumulator: AccumulateGrad, leaf: Tensor) -> AccumulateGrad:
    """Return a copy of an accumulation node, with its hooks, for another leaf."""
    made = AccumulateGrad(leaf)
    if accumulator.hooks is not None:
        made.hooks, before = NodeHooks(), accumulator.hooks
        # The very dictionaries: handles remove hooks from them. Hooks before a node are the old one's refusal.
        made.hooks.tensor, made.hooks.retain, made.hooks.post = before.tensor, before.retain, before.post
        made.hooks.accumulated = before.accumulated
    return made


def _refuse(grads: Any) -> NoReturn:
    raise RuntimeError(
        "Trying to execute AccumulateGrad node that was poisoned by swap_tensors this can happen when you try to run "
        "backward on a tensor that was swapped. For a module m with "
        "`torch.__future__.set_swap_module_params_on_conversion(True)` you should not change the device or dtype of "
        "the module (e.g. `m.cpu()` or `m.half()`) between running forward and backward. To resolve this, please only "
        "change the device/dtype before running forward (or after both forward and backward)."
    )
