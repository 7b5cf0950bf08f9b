"""Hooks on saved tensors: each tensor is packed when saved, and unpacked when backward needs it.

Recording has no checks for hooks. The first hooks replace the slots of the node classes by descriptors, which pack
stored tensors. After many stores without hooks in any thread, the slots are restored.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ...runtime.fork_lock import forkable
from ...runtime.grad_mode import is_grad_enabled, set_grad_enabled
from ...runtime.tensor_impl import TensorImpl
from ...runtime.thread_state import inherited
from .node import AccumulateGrad, Edge, Node, Packed, edge_of, set_history
from .tangents import set_tangents, tangents_of

if TYPE_CHECKING:
    from ...runtime.device import device as Device
    from ..tensor import Tensor

PackHook = Callable[[Any], Any]
UnpackHook = Callable[[Any], Any]

IDLE_STORES = 4096
"""Number of stores without hooks after which the original slots are restored."""


class _Hooks(threading.local):
    pairs: tuple[tuple[PackHook, UnpackHook], ...] = ()
    refusal: str | None = None
    waiting: list[tuple[Any, Node, Any]] | None = None
    """The stores that `packing_later` collects: the slot's setter, the node and the tensor. None outside of it."""


_own = inherited(_Hooks())
"""This thread's hook pairs, innermost last, and the error message that disables them."""

_lock = forkable(threading.RLock())
_watched: list[tuple[type[Node], str, Any]] = []
_covered: set[type[Node]] = set()
_active = 0
_idle = 0


class _WatchedSlot:
    """Slot descriptor that packs the tensors stored in it."""

    def __init__(self, slot: Any) -> None:
        self._slot = slot
        self._store = slot.__set__

    def __get__(self, node: Any, owner: type | None = None) -> Any:
        return self if node is None else self._slot.__get__(node, owner)

    def __set__(self, node: Node, value: Any) -> None:
        pairs = _own.pairs
        if pairs:
            if _own.waiting is None:
                value = pack(value, *pairs[-1])
            else:
                _own.waiting.append((self._store, node, value))
        elif not _active:
            _store_idly()
        self._store(node, value)

    def __delete__(self, node: Node) -> None:
        self._slot.__delete__(node)


def _store_idly() -> None:
    global _idle
    _idle += 1
    if _idle > IDLE_STORES:
        with _lock:
            if not _active:
                while _watched:
                    cls, name, slot = _watched.pop()
                    type.__setattr__(cls, name, slot)
                _covered.clear()
                Node.on_new_class.remove(_watch)


def _watch(cls: type[Node]) -> None:
    """Watch the slots of a class that hold saved tensors: those with a version slot beside them."""
    with _lock:
        if cls in _covered:
            return
        _covered.add(cls)
        slots = cls.__dict__.get("__slots__", ())
        for name in slots:
            if f"{name}_version" in slots:
                slot = cls.__dict__[name]
                _watched.append((cls, name, slot))
                type.__setattr__(cls, name, _WatchedSlot(slot))


def _watch_all() -> None:
    global _idle
    with _lock:
        _idle = 0
        if _watch not in Node.on_new_class:
            Node.on_new_class.append(_watch)
            pending = Node.__subclasses__()
            while pending:
                cls = pending.pop()
                pending += cls.__subclasses__()
                _watch(cls)


def pack(value: Any, pack_hook: PackHook, unpack_hook: UnpackHook) -> Any:
    """Return the packed form of a saved tensor or of a list's tensors; other values unchanged.

    Raises RuntimeError for a hook that modifies the tensor.
    """
    if value.__class__ is list:
        return [pack(each, pack_hook, unpack_hook) for each in value]
    if not isinstance(value, TensorImpl):
        return value
    edge = edge_of(value) if value._spec.requires_grad else None
    before = set_grad_enabled(False)
    try:
        # Pack a leaf itself. For any other tensor, pack a twin with its history, which keeps no more alive than the
        # graph does.
        hook_input: Any = (
            value if edge is not None and edge[0].__class__ is AccumulateGrad else _tied(value, edge)
        )
        version = hook_input.version_cell()[0]
        packed = pack_hook(hook_input)
        if hook_input.version_cell()[0] != version:
            raise RuntimeError(
                "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook "
                "cannot be modified by in-place operations as this can lead to unexpected side-effects. Please open an "
                "issue if you need to perform in-place operations on the input to a pack hook."
            )
    finally:
        set_grad_enabled(before)
    return PackedTensor(packed, unpack_hook, edge)


@contextmanager
def packing_later() -> Iterator[None]:
    """Pack the tensors that nodes save in a block at its end, when results have their tangents."""
    before = _own.waiting
    if not _own.pairs or before is not None:
        yield
        return
    waiting: list[tuple[Any, Node, Any]] = []
    _own.waiting = waiting
    try:
        yield
    finally:
        _own.waiting = None
    for store, node, value in waiting:
        store(node, pack_as_hooked(value))


@contextmanager
def without_hooks() -> Iterator[None]:
    """Leave saved tensors as they are in a block; `pack_as_hooked` after it packs them with their tangents."""
    before = _own.pairs
    _own.pairs = ()
    try:
        yield
    finally:
        _own.pairs = before


def pack_as_hooked(value: Any) -> Any:
    """Pack with this thread's innermost hooks, if any, for values that are not stored in a slot."""
    pairs = _own.pairs
    return pack(value, *pairs[-1]) if pairs else value


def _tied(tensor: Any, edge: Edge | None) -> Tensor:
    """Return a tensor with the same memory, version and tangents, attached to this edge."""
    plain: Tensor = tensor.detach()
    tangents = tangents_of(tensor)
    if edge is not None:
        tied = type(plain).from_data(plain._data, plain._spec)
        tied._version_cell = plain._version_cell
        set_history(tied, *edge)
        plain = tied
    if tangents:
        set_tangents(plain, tangents)
    return plain


class PackedTensor(Packed):
    """Packed form of a saved tensor, with the edge of its gradient."""

    __slots__ = ("edge", "packed", "unpack_hook")

    _version_cell = (0,)
    """Placeholder for code that reads a version; it is never checked."""

    def __init__(self, packed: Any, unpack_hook: UnpackHook, edge: Edge | None) -> None:
        self.packed = packed
        self.unpack_hook = unpack_hook
        self.edge = edge

    def unpack(self) -> TensorImpl:
        """Return the tensor, attached to its edge if backward itself is recorded. Raises TypeError for a non-tensor."""
        tensor: Any = self.unpack_hook(self.packed)
        if not isinstance(tensor, TensorImpl):
            raise TypeError(
                "Output of saved tensor unpack_hook expected to be a Tensor but got result of type "
                f"{type(tensor).__name__}"
            )
        if self.edge is None and tensor._autograd is None:
            return tensor
        return _tied(tensor, self.edge if is_grad_enabled() else None)


class saved_tensors_hooks:
    """Context manager that packs tensors when they are saved (`torch.autograd.graph.saved_tensors_hooks`).

    If blocks nest, the innermost applies. A packed tensor's version is not checked.

    Args:
        pack_hook: Function called with each saved tensor, in a block without gradients; it returns any object. A leaf
            is passed itself, another input with its history. A node's own result is passed without history, which
            would keep the node alive.
        unpack_hook: Function called with that object when backward needs the tensor; it returns a tensor of the same
            values.

    Raises:
        RuntimeError: on entering a block inside `disable_saved_tensors_hooks`.

    Example:
        >>> import triten as tt
        >>> w = tt.tensor([1.0, 2.0], requires_grad=True)
        >>> with tt.autograd.graph.saved_tensors_hooks(lambda x: x.tolist(), tt.tensor):
        ...     y = (w * w).sum()
        >>> y.backward()
        >>> w.grad
        tensor([2., 4.])
    """

    def __init__(self, pack_hook: PackHook, unpack_hook: UnpackHook) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        global _active
        if _own.refusal is not None:
            raise RuntimeError(_own.refusal)
        with _lock:
            _active += 1
            _watch_all()
        _own.pairs = (*_own.pairs, (self.pack_hook, self.unpack_hook))
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        global _active
        _own.pairs = _own.pairs[:-1]
        with _lock:
            _active -= 1


class save_on_cpu(saved_tensors_hooks):
    """Context manager that keeps saved tensors in host memory (`torch.autograd.graph.save_on_cpu`).

    Args:
        pin_memory: If True, use pinned memory, from which copies do not block.
        device_type: The device type that must be available for pinning.

    Example:
        >>> import triten as tt
        >>> w = tt.tensor([1.0, 2.0], requires_grad=True)
        >>> with tt.autograd.graph.save_on_cpu():
        ...     y = (w * w).sum()
        >>> y.backward()
        >>> w.grad
        tensor([2., 4.])
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        from ..generated import functions as ops

        def pack_to_cpu(tensor: Tensor) -> tuple[Device, Tensor]:
            if not pin_memory or tensor.device.type == "cpu":
                return tensor.device, tensor.cpu()
            pinned = ops.empty(tensor.size(), dtype=tensor.dtype, pin_memory=True)
            return tensor.device, pinned.copy_(tensor)

        def unpack_from_cpu(packed: tuple[Device, Tensor]) -> Tensor:
            device, saved = packed
            return saved.to(device, non_blocking=pin_memory)

        super().__init__(pack_to_cpu, unpack_from_cpu)


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Disable `saved_tensors_hooks` in a block, with this error message
    (`torch.autograd.graph.disable_saved_tensors_hooks`).

    Raises:
        RuntimeError: where hooks are active around it.

    Example:
        >>> import triten as tt
        >>> with tt.autograd.graph.disable_saved_tensors_hooks("not here"):
        ...     with tt.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
        ...         pass
        Traceback (most recent call last):
        RuntimeError: not here
    """
    before = _own.refusal
    if _own.pairs:
        raise RuntimeError(error_message)
    _own.refusal = error_message
    try:
        yield
    finally:
        _own.refusal = before
