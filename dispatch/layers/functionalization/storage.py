"""Storage behind functional tensors: a value that writes replace, and views of it (ATen/FunctionalStorageImpl.h).

A tensor under functionalization has no memory. Tensors that would share memory share a `FunctionalStorage`. The storage
has the current value of the whole, an immutable plain tensor, and counts the writes. Each handle records the views that
lead from the whole to it. Forward, the views compute its value; backward, they compute the whole after a write to the
handle. Addresses are as in real memory, so that strides, offsets and overlaps are known.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ....runtime.allocator import storage_size
from ....runtime.data_ptr import DataPtr
from ....runtime.storage import address_of
from ....runtime.tensor_spec import TensorSpec

if TYPE_CHECKING:
    from ...tensor import Tensor

_ALIGNMENT = 64
_addresses = itertools.count(1 << 48, 1 << 40)
"""Addresses of phantom memory; no two storages overlap."""

Call = Callable[..., Any]
"""Calls an operator by its full name on values."""


class Step(NamedTuple):
    """One view: the operator's name, its arguments after the tensor, and its source and result specs.

    `offset` is the distance from the base's first element to the result's, in elements of the result.
    """

    name: str
    args: tuple[Any, ...]
    source: TensorSpec
    result: TensorSpec
    offset: int


class FunctionalStorage:
    """Value that handles share.

    `origin` is the external tensor that it began as; `is_input` is True if writes are copied back to the origin.
    `generation` counts the writes.
    """

    __slots__ = (
        "__weakref__",
        "generation",
        "handles",
        "is_input",
        "layer",
        "origin",
        "root",
        "spec",
        "value",
    )

    def __init__(
        self, layer: Any, value: Tensor, spec: TensorSpec, root: DataPtr, origin: Tensor | None = None
    ) -> None:
        self.layer = layer
        self.value = value
        self.spec = spec
        self.root = root
        self.origin: Any = origin
        self.is_input = False
        self.generation = 0
        self.handles: weakref.WeakSet[FunctionalData] = weakref.WeakSet()

    @property
    def is_written(self) -> bool:
        """True if the storage was written since its creation."""
        return self.generation > 0

    @property
    def address(self) -> int:
        """Address of the first element of the whole."""
        return self.root.address if self.origin is None else address_of(self.origin._data)

    def replace(self, value: Any, call: Call, copies: bool) -> None:
        """Count a write that gives the whole another value."""
        self.value = value
        self.generation += 1
        if self.spec.is_dense():
            # Results computed from the value inherit its strides.
            self.laid_out(call, copies)

    def laid_out(self, call: Call, copies: bool) -> Tensor:
        """Return the value, with the tensor's strides unless views are copied."""
        if not copies:
            self.lay_out(call)
        return self.value

    def lay_out(self, call: Call) -> Tensor:
        """Return the value with the tensor's strides, which strided views need."""
        if self.value._spec.strides != self.spec.strides and self.spec.numel > 1:
            self.value = call("aten::_restride", self.value, self.spec.strides)
        return self.value


class FunctionalData(DataPtr):
    """Phantom memory of a functional tensor: an address, and the views from the storage's value to its own."""

    __slots__ = ("cached", "generation", "steps", "storage")

    def __init__(
        self,
        address: int,
        nbytes: int,
        base: DataPtr | None,
        storage: FunctionalStorage,
        steps: tuple[Step, ...],
    ) -> None:
        super().__init__(address, nbytes, storage.root.device, base)
        self.storage = storage
        self.steps = steps
        self.cached: Any = None
        self.generation = -1
        storage.handles.add(self)

    def value(self, call: Call, copies: bool) -> Any:
        """Return the current value, recomputed through the views if the storage was written since."""
        storage = self.storage
        if not self.steps:
            return storage.value
        if self.generation != storage.generation:
            self.cached = self._replayed(call, copies)
            self.generation = storage.generation
        return self.cached

    def _replayed(self, call: Call, copies: bool) -> Tensor:
        value = self.storage.laid_out(call, copies)
        for step in self.steps:
            value = forward(step, value, self.storage, call, copies)
        return value

    def write(self, new: Tensor, call: Call, copies: bool) -> None:
        """Replace the value, and with it the storage's. `new` has the sizes and dtype of this handle."""
        storage = self.storage
        storage.replace(self._whole_of(new, call, copies), call, copies)
        if self.steps:
            self.generation = -1
            last = self.steps[-1].result
            if copies or (new._spec.sizes, new._spec.strides) == (last.sizes, last.strides):
                self.cached, self.generation = new, storage.generation

    def _whole_of(self, new: Tensor, call: Call, copies: bool) -> Any:
        """Return the storage's value with `new` written to this handle's elements, by the inverse views."""
        steps = self.steps
        if not steps:
            return new
        values = [self.storage.laid_out(call, copies)]
        for step in steps[:-1]:
            values.append(forward(step, values[-1], self.storage, call, copies))
        for step, source in zip(reversed(steps), reversed(values), strict=True):
            if inverse_of(step) is None:
                return scattered_into_whole(step, self.storage, new, call)
            new = backward(step, source, new, call, copies)
        return new


def fresh_root(spec: TensorSpec) -> DataPtr:
    """Return the memory that a new tensor of this spec would have."""
    return DataPtr(next(_addresses), storage_size(spec.sizes, spec.strides) * spec.itemsize, spec.device)


_COPY_NAMES = {
    "aten::_strided_from": "aten::_strided_copy",
}


def copy_name(name: str) -> str:
    """Return the operator that copies a view: ``select_copy.int`` for ``select.int``."""
    known = _COPY_NAMES.get(name)
    if known is not None:
        return known
    base, dot, overload = name.partition(".")
    return f"{base}_copy{dot}{overload}"


def forward(step: Step, value: Tensor, storage: FunctionalStorage, call: Call, copies: bool) -> Any:
    """Apply the view to a value. A strided view is taken of the base, whose strides are known."""
    if step.name == "aten::_strided_from":
        value = storage.lay_out(call)
    return call(copy_name(step.name) if copies else step.name, value, *step.args)


def _reshape(step: Step, source: Tensor, new: Tensor, call: Call, copies: bool) -> Any:
    sizes = step.source.sizes
    if copies:
        return call("aten::view_copy", new, sizes)
    if not new._spec.is_contiguous:
        new = call("aten::clone", new, memory_format=_contiguous())
    return call("aten::view", new, sizes)


def _contiguous() -> Any:
    from ....runtime.memory_format import contiguous_format

    return contiguous_format


def _expand(step: Step, source: Any, new: Any, call: Call, copies: bool) -> Any:
    if step.result.numel != step.source.numel:
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
            "Please clone() the tensor before performing the operation."
        )
    return _reshape(step, source, new, call, copies)


def _same_view(name: str) -> Callable[..., Any]:
    """Return the inverse of a view that is its own inverse."""

    def undo(step: Step, source: Tensor, new: Tensor, call: Call, copies: bool) -> Any:
        return call(copy_name(name) if copies else name, new, *step.args)

    return undo


def _permute(step: Step, source: Tensor, new: Tensor, call: Call, copies: bool) -> Any:
    dims: Sequence[int] = step.args[0]
    inverse = [0] * len(dims)
    for position, d in enumerate(dims):
        inverse[d % len(dims)] = position
    return call("aten::permute_copy" if copies else "aten::permute", new, tuple(inverse))


def _view_dtype(step: Step, source: Tensor, new: Tensor, call: Call, copies: bool) -> Any:
    new = call("aten::clone", new, memory_format=_contiguous())
    return call("aten::view_copy.dtype" if copies else "aten::view.dtype", new, step.source.dtype)


def _as_real(step: Step, source: Tensor, new: Tensor, call: Call, copies: bool) -> Any:
    if copies:
        return call("aten::view_as_complex_copy", new)
    if not new._spec.is_contiguous:
        new = call("aten::clone", new, memory_format=_contiguous())
    return call("aten::view_as_complex", new)


def _as_complex(step: Step, source: Tensor, new: Tensor, call: Call, copies: bool) -> Any:
    return call("aten::view_as_real_copy" if copies else "aten::view_as_real", new)


def _scatter(name: str) -> Callable[..., Any]:
    def scatter(step: Step, source: Tensor, new: Tensor, call: Call, copies: bool) -> Any:
        return call(name, source, new, *step.args)

    return scatter


_INVERSES: dict[str, Callable[..., Any]] = {
    "aten::view": _reshape,
    "aten::squeeze": _reshape,
    "aten::squeeze.dim": _reshape,
    "aten::squeeze.dims": _reshape,
    "aten::unsqueeze": _reshape,
    "aten::expand": _expand,
    "aten::permute": _permute,
    "aten::t": _same_view("aten::t"),
    "aten::transpose.int": _same_view("aten::transpose.int"),
    "aten::view.dtype": _view_dtype,
    "aten::view_as_real": _as_real,
    "aten::view_as_complex": _as_complex,
    "aten::select.int": _scatter("aten::select_scatter"),
    "aten::slice.Tensor": _scatter("aten::slice_scatter"),
    "aten::diagonal": _scatter("aten::diagonal_scatter"),
}
"""Inverses of views: functions from a new value of a view's result to a value of its base.

Other views are scattered by their strides.
"""


def inverse_of(step: Step) -> Callable[..., Any] | None:
    """Return the inverse view; None if only its strides are known."""
    return _INVERSES.get(step.name)


def backward(step: Step, source: Tensor, new: Tensor, call: Call, copies: bool) -> Any:
    """Return the value of the view's base, with `new` written to the view's elements."""
    inverse = _INVERSES[step.name]
    return inverse(step, source, new, call, copies)


def scattered_into_whole(step: Step, storage: FunctionalStorage, new: Tensor, call: Call) -> Any:
    """Return the storage's value with `new` written to a strided view.

    Raises RuntimeError for a view of another dtype than the base, and for one that reaches beyond it.
    """
    if step.result.dtype is not storage.spec.dtype:
        raise RuntimeError(
            f"functionalize: a write to a strided view of dtype {step.result.dtype} of a tensor of dtype "
            f"{storage.spec.dtype} cannot be expressed without memory"
        )
    return call(
        "aten::_strided_scatter",
        storage.lay_out(call),
        new,
        step.result.sizes,
        step.result.strides,
        step.offset,
    )
