"""Freeing bytes that tensors are over, and giving them back: `Storage.resize_` for tensors that are in use.

The parameters of a group lie in one buffer. After forward its memory is given up while tensors over it live on: the
parameters themselves, and views of them that the graph keeps for backward. Each gets a stand-in for its bytes, which
raises where it is used, and is put over the next buffer before backward.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from ...dispatch.autograd.function import FunctionCtx
from ...dispatch.autograd.node import Node, edge_of
from ...dispatch.layers.tensor_of_parts import TensorOfParts
from ...dispatch.tensor import Tensor
from ...runtime.storage import FOLLOWERS, address_of, root_of, storage_of, view_at
from ...runtime.tensor_impl import TensorImpl

__all__ = ["Buffer", "is_freed"]


class FreedBytes:
    """Stands for bytes that are not there. Raises RuntimeError for every use."""

    __slots__ = ()

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(
            "the parameter's data was freed by fully_shard after forward. It is gathered again by the "
            "module's next forward, by backward through the module's outputs, and by unshard()"
        )

    __array__ = __array_ufunc__ = __array_function__ = __getattr__ = __len__ = __getitem__ = __setitem__ = (
        _refuse
    )

    def __repr__(self) -> str:
        return "<freed by fully_shard>"


FREED: Any = FreedBytes()


def is_freed(tensor: TensorImpl) -> bool:
    """Return True if a tensor's memory has been freed."""
    return tensor._data is FREED


_slots: dict[type[Node], tuple[str, ...]] = {}


def _saved_slots(cls: type[Node]) -> tuple[str, ...]:
    """Return the slots of a node class that hold saved tensors: those with a matching version slot."""
    saved = _slots.get(cls)
    if saved is None:
        slots = [name for each in cls.__mro__ for name in each.__dict__.get("__slots__", ())]
        saved = _slots[cls] = tuple(name for name in slots if f"{name}_version" in slots)
    return saved


def _saved_in(node: Node) -> Iterator[Any]:
    if isinstance(node, FunctionCtx):
        yield from [saved[0] for saved in node._saved]
        return
    for name in _saved_slots(type(node)):
        value = getattr(node, name, None)
        if value.__class__ is list:
            yield from value
        else:
            yield value


def saved_tensors(outputs: Iterable[Tensor]) -> Iterator[TensorImpl]:
    """Yield the tensors that the graph of these outputs saves for backward."""
    edges = [edge_of(tensor) for tensor in outputs if tensor.requires_grad]
    visited = {edge[0] for edge in edges if edge is not None}
    pending = [*visited]
    while pending:
        node = pending.pop()
        for saved in _saved_in(node):
            if isinstance(saved, TensorOfParts):
                # A node's own result, which it keeps without its origin, may have lost its parts.
                parts = [vars(saved).get(name) for name in saved.PARTS]
                yield from (part for part in parts if isinstance(part, TensorImpl))
            elif isinstance(saved, TensorImpl):
                yield saved
        for edge in node.next_edges:
            if edge is not None and edge[0] not in visited:
                visited.add(edge[0])
                pending.append(edge[0])


class Buffer:
    """The memory of some tensors, which is freed and filled again."""

    def __init__(self) -> None:
        self.content: Tensor | None = None
        self._views: dict[int, tuple[weakref.ref[TensorImpl], int]] = {}

    def fill(self, content: Tensor) -> None:
        """Take new memory, and put the views that were over the former one over it.

        Args:
            content: tensors that are no views have been put over it already.
        """
        self.content = content
        storage = storage_of(content._data, content.device)
        for number, (reference, offset) in [*self._views.items()]:
            view = reference()
            if view is None:
                del self._views[number]
            elif is_freed(view):
                view._data = view_at(storage, offset, view._spec)

    def free(self, tensors: Iterable[Tensor], outputs: Iterable[Tensor] = ()) -> None:
        """Free the memory of tensors and of their views that a graph keeps.

        A view outside the graph keeps the memory alive and stays valid.

        Args:
            tensors: The tensors.
            outputs: Outputs of the graph.
        """
        content, self.content = self.content, None
        if content is None:
            return
        root = root_of(content._data)
        start = address_of(root)
        for view in saved_tensors(outputs):
            data = view._data
            if data is not FREED and data is not None and root_of(data) is root:
                self._views[id(view)] = weakref.ref(view), address_of(data) - start
        for tensor in tensors:
            tensor._data = FREED
            for reference in vars(tensor).get(FOLLOWERS, ()):
                follower = reference()
                if follower is not None:
                    follower._data = FREED
            vars(tensor)[FOLLOWERS] = []
        for number, (reference, _) in [*self._views.items()]:
            alive = reference()
            if alive is None:
                del self._views[number]
            else:
                alive._data = FREED
