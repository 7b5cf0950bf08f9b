"""Writes into tensors that a graph has saved, permitted for a block (`allow_mutation_on_saved_tensors`).

The mode records saved tensors by their storage. Before an operator writes into that storage, the mode clones its saved
tensors, and backward gets the clones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

from ...runtime.storage import root_of
from ...runtime.tensor_impl import TensorImpl
from ..autograd.saved_tensors import saved_tensors_hooks
from ..tensor import Tensor
from .python_key import TensorDispatchMode


class _Saved:
    """Tensor that a node has saved, as it is or cloned."""

    __slots__ = ("__weakref__", "is_clone", "tensor")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.is_clone = False


class SavedTensors:
    """Tensors saved by a block's graph, by storage and version; empty once the block has ended."""

    def __init__(self) -> None:
        self._of_storage: defaultdict[int, WeakSet[_Saved]] = defaultdict(WeakSet)
        self.is_open = True

    def pack(self, tensor: Tensor) -> _Saved:
        """Record a saved tensor, and return the handle that the node holds."""
        saved = _Saved(tensor)
        self._of_storage[_storage_of(tensor)].add(saved)
        return saved

    def unpack(self, saved: _Saved) -> Tensor:
        """Return the tensor as it was saved."""
        if not self.is_open:
            raise AssertionError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context in which the graph was "
                "originally recorded."
            )
        return saved.tensor

    def keep(self, written: Any) -> None:
        """Clone the saved tensors of a storage that is about to be written."""
        if isinstance(written, list | tuple):
            for each in written:
                self.keep(each)
        elif isinstance(written, TensorImpl):
            for saved in list(self._of_storage.pop(_storage_of(written), ())):
                if not saved.is_clone:
                    saved.tensor, saved.is_clone = saved.tensor.clone(), True

    def clear(self) -> None:
        """Forget everything; backward is refused from now on."""
        self._of_storage.clear()
        self.is_open = False


def _storage_of(tensor: TensorImpl) -> int:
    return id(root_of(tensor._data))


class _KeepBeforeWrites(TensorDispatchMode):
    sees_parts = True

    def __init__(self, saved: SavedTensors) -> None:
        super().__init__()
        self._saved = saved

    def __tensor_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        for position, argument in enumerate(func._schema.arguments):
            if argument.is_write:
                self._saved.keep(args[position] if position < len(args) else named.get(argument.name))
        return func(*args, **named)


_open: list[SavedTensors] = []


@contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[SavedTensors]:
    """Permit writes into tensors that a graph has saved, within the block.

    Without it, backward refuses (`torch.autograd.graph.allow_mutation_on_saved_tensors`). Forward and backward are
    both inside of the block. A clone is made where something is written, and only there.

    Raises:
        RuntimeError: inside another such block.
        AssertionError: by backward after the block.

    Example:
        >>> import triten as tt
        >>> a = tt.ones(2, requires_grad=True)
        >>> with tt.autograd.graph.allow_mutation_on_saved_tensors():
        ...     b = a.clone()
        ...     out = (b**2).sum()
        ...     _ = b.sin_()
        ...     out.backward()
        >>> a.grad
        tensor([2., 2.])
    """
    if _open:
        raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
    saved = SavedTensors()
    _open.append(saved)
    try:
        with saved_tensors_hooks(saved.pack, saved.unpack), _KeepBeforeWrites(saved):
            yield saved
    finally:
        saved.clear()
        _open.clear()
