"""Cache key of a call: the properties that calls of one graph share."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from ..dispatch.autograd.tangents import FORWARD_BIT
from ..dispatch.layers.autocast.state import state as autocast
from ..dispatch.layers.pytree import TreeSpec, tree_flatten
from ..dispatch.tensor import Tensor
from ..nn.modules.parameter import Parameter
from ..runtime.determinism import are_deterministic_algorithms_enabled
from ..runtime.device import get_default_device
from ..runtime.grad_mode import is_grad_enabled, is_inference_mode_enabled
from ..runtime.local_dispatch_key_set import local, modes
from ..runtime.scalar_type import get_default_dtype
from ..runtime.size import Size
from ..runtime.tensor_impl import TensorImpl

PLAIN = frozenset({Tensor, Parameter})
SPEC = attrgetter("_spec")
"""Return a tensor's spec."""


def signature(leaves: Sequence[Any], spec: TreeSpec) -> tuple[list[Any] | None, Any]:
    """Return the tensors among the leaves, and the cache key of calls with the same metadata.

    The tensors are None for tensor subclasses, dual tensors, and tensors whose history is not defined.
    """
    tensors = []
    looks: list[Any] = [spec, is_grad_enabled(), is_inference_mode_enabled(), get_default_dtype()]
    if modes:
        looks.append((local.autocast, tuple(autocast.dtypes.values()), autocast.cache_enabled))
    if get_default_device().type != "cpu":
        looks.append(get_default_device())
    looks.append(are_deterministic_algorithms_enabled())
    for leaf in leaves:
        kind = leaf.__class__
        if kind in PLAIN and not leaf._spec.keys & FORWARD_BIT:
            tensors.append(leaf)
            looks.append(leaf._spec)
            if leaf._spec.requires_grad:
                meta = leaf._autograd
                try:
                    is_leaf = leaf.is_leaf
                except (
                    RuntimeError
                ):  # a view made in no_grad and written to: the function may not ask for its history
                    return None, None
                looks.append((is_leaf, meta is not None and meta.grad is not None))
        elif isinstance(leaf, TensorImpl):
            return None, None
        elif kind is float:
            looks.append(leaf.hex())
        elif kind in HASHED:
            looks.append((kind, leaf))
        else:
            # An object is known by its identity for as long as it lives; the key does not keep it alive.
            looks.append(Identity(leaf))
    if len({id(t) for t in tensors}) < len(tensors):
        first: dict[int, int] = {}
        looks.append(tuple([first.setdefault(id(t), i) for i, t in enumerate(tensors)]))
    return tensors, tuple(looks)


HASHED = frozenset({bool, int, complex, str, bytes, type(None), Size})


class Identity:
    """Object as a part of a key: equal to itself alone, and held weakly if possible."""

    __slots__ = ("_hash", "_reference")

    def __init__(self, value: object) -> None:
        self._hash = id(value)
        try:
            self._reference: Callable[[], Any] = weakref.ref(value)
        except TypeError:
            self._reference = lambda: value

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Identity):
            return False
        value = self._reference()
        return value is not None and value is other._reference()


def is_plain_call(leaves: Sequence[Any], spec: TreeSpec, tensors: Sequence[Any]) -> bool:
    """Return True if a call has only distinct tensors and numbers, none requires grad, and no mode is active."""
    if modes or is_inference_mode_enabled() or get_default_device().type != "cpu":
        return False
    if flat_looks(leaves) is None or spec != tree_flatten((tuple(leaves), {}))[1]:
        return False
    return len({id(t) for t in tensors}) == len(tensors) and not any(t._spec.requires_grad for t in tensors)


def flat_looks(args: Sequence[Any]) -> list[Any] | None:
    """Return the metadata of each argument of a call, or None if one is neither a tensor nor a number."""
    looks: list[Any] = []
    for each in args:
        kind = each.__class__
        if kind in PLAIN:
            looks.append(each._spec)
        elif kind is float:
            looks.append(each.hex())
        elif kind in HASHED:
            looks.append((kind, each))
        else:
            return None
    return looks
