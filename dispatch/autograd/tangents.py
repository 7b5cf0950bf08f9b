"""Tangents of tensors by level: storage for forward mode, and helpers of its formulas.

A tensor with tangents has the `ForwardAD` functionality in its spec, so that it uses no plan of plain tensors.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...runtime.dispatch_key import Functionality, functionality_bit
from ...runtime.grad_mode import is_grad_enabled
from ...runtime.tensor_impl import TensorImpl
from ...runtime.transform_stack import stack as _stack
from .node import leaf_meta

if TYPE_CHECKING:
    from ..tensor import Tensor

FORWARD_BIT = functionality_bit(Functionality.ForwardAD)
BATCHED_BIT = functionality_bit(Functionality.Batched)

Tangents = Mapping[int, Any]
_NONE: Tangents = {}

holders: dict[int, weakref.WeakValueDictionary[int, TensorImpl]] = {}
"""The tensors with a tangent at each active level; the level's end clears these tangents."""

depths: dict[int, int] = {}
"""The number of transforms around each active level when it began. Work for a transform outside does not see it."""


def is_visible(level: int) -> bool:
    """Return False if a level is inside a transform that this thread works outside of, as batching rules do."""
    return depths.get(level, 0) <= len(_stack.levels)


def tangents_of(tensor: TensorImpl) -> Tangents:
    """Return a tensor's tangents by level."""
    if not tensor._spec.keys & FORWARD_BIT or tensor._autograd is None:
        return _NONE
    return getattr(tensor._autograd, "tangents", _NONE)


def is_differentiated(*tensors: TensorImpl | None) -> bool:
    """Return True if results computed from these tensors carry derivatives: in a graph, or as tangents.

    A batched tensor is checked at every level. Levels outside of its vmap record regardless of the inner grad mode.
    Formulas call this before they use saved values without history, such as LU factors or row means.
    """
    recorded = is_grad_enabled()
    for tensor in tensors:
        inner: Any = tensor
        records = recorded
        while inner is not None:
            spec = inner._spec
            if spec.keys & FORWARD_BIT or (records and spec.requires_grad):
                return True
            inner = inner._data.value if spec.keys & BATCHED_BIT else None
            records = True
    return False


def all_examples(tensor: Any) -> Any:
    """Return the values of all examples of a batched tensor, and any other tensor unchanged."""
    while tensor._spec.keys & BATCHED_BIT:
        tensor = tensor._data.value
    return tensor


def set_tangents(tensor: TensorImpl, tangents: Tangents) -> None:
    """Replace a tensor's tangents; without tangents it is a plain tensor again."""
    spec = tensor._spec
    if not tangents:
        if spec.keys & FORWARD_BIT:
            tensor._spec = spec.replace(keys=spec.keys & ~FORWARD_BIT)
            if tensor._autograd is not None:
                tensor._autograd.tangents = _NONE
        return
    if tensor._autograd is None:
        tensor._autograd = leaf_meta()
    tensor._autograd.tangents = dict(tangents)
    tensor._spec = spec.replace(keys=spec.keys | FORWARD_BIT)
    for level in tangents:
        held = holders.get(level)
        if held is not None:
            held[id(tensor)] = tensor


def plus(present: Tensor | None, term: Tensor) -> Tensor:
    """Return a sum whose first term may be None for zero."""
    return term if present is None else present + term


def zero_tangent(value: Any, tangent: Any) -> Any:
    """Return an argument's tangent in the operator's form: zeros if it has none, for a list elementwise."""
    if isinstance(value, (list, tuple)):
        element_tangents: Sequence[Any] = [None] * len(value) if tangent is None else tangent
        return [zero_tangent(v, t) for v, t in zip(value, element_tangents, strict=True)]
    if tangent is not None or value is None:
        return tangent
    if not isinstance(value, TensorImpl):
        return 0
    from ..generated import functions

    zeros: Any = functions.zeros_like
    return zeros(value)


def tangent_like(tangent: Tensor, result: Tensor) -> Tensor:
    """Return a tangent broadcast to the sizes of the result."""
    sizes = result._spec.sizes
    return tangent if tangent._spec.sizes == sizes else tangent.expand(sizes)
