"""Metadata that a tensor subclass computes (torch/csrc/PyInterpreter.cpp, c10/core/TensorImpl.h).

A subclass may create tensors with `dispatch_sizes_strides_policy`, `dispatch_device` or `dispatch_layout`. Each of
these tensors has a spec of its own, a `DispatchedSpec`, whose properties call the class's handler. All other tensors
have interned specs, whose metadata is stored.

The handler receives the operator that computes the metadata:

- ``aten.sym_size.default``, ``aten.dim.default``, ``aten.sym_numel.default``
- ``aten.sym_stride.default``, ``aten.is_contiguous``, ``aten.is_strides_like_format.default``,
  ``aten.is_non_overlapping_and_dense.default``
- ``prim.device.default``, ``prim.layout.default``

If the handler returns None, the answer is the metadata that the tensor was created with. Only `dim` and `device`
require an answer. The storage offset is always that of creation.
"""

from __future__ import annotations

import weakref
from typing import Any

from ...runtime import memory_format as mf
from ...runtime.device import device as Device
from ...runtime.dispatch_key import BY_NAME
from ...runtime.dispatch_key_set import DispatchKeySet
from ...runtime.layout import layout as Layout
from ...runtime.size import Size
from ...runtime.tensor_impl import TensorImpl
from ...runtime.tensor_spec import TensorSpec
from ..core.dispatcher import Dispatcher
from ..core.kernel_function import KernelFunction

STRIDES, SIZES, DEVICE, LAYOUT = 1, 2, 4, 8
"""Flags of the metadata that a handler computes; SIZES comes with STRIDES."""
POLICIES = {None: 0, "strides": STRIDES, "sizes": STRIDES | SIZES}
"""Flags of `dispatch_sizes_strides_policy`."""

_COPIED = (
    "call_keys",
    "dtype",
    "is_inference",
    "itemsize",
    "key_set",
    "keys",
    "kind",
    "np_dtype",
    "overlaps",
    "read_only",
    "requires_grad",
)


class DispatchedSpec(TensorSpec):
    """Spec of one tensor whose class computes metadata; `own` has the metadata of creation.

    Only `dispatch_metadata` creates it. Keys, dtype and flags are those of `own`. No operator keeps a plan for it.
    """

    __slots__ = ("_policy", "_tensor", "own")

    is_interned = False
    own: TensorSpec
    _policy: int
    _tensor: weakref.ref[TensorImpl]

    def _ask(self, policy: int, operator: str, *args: Any) -> Any:
        """Return the handler's answer; None if the handler is not asked."""
        tensor = self._tensor() if self._policy & policy else None
        if tensor is None:
            return None
        from .python_key import python_fallback

        stack = [tensor, *args]
        entry = Dispatcher.singleton().find_schema_or_throw(operator)
        python_fallback(entry, DispatchKeySet.from_raw_repr(self.key_set), stack)
        return stack[0]

    def _ask_for(self, policy: int, kind: type, operator: str, *args: Any) -> Any:
        """Return the handler's answer, an instance of `kind`; None if the handler is not asked or has no answer."""
        answer = self._ask(policy, operator, *args)
        if answer is not None and not isinstance(answer, kind):
            raise _invalid(operator, answer, kind)
        return answer

    @property
    def sizes(self) -> tuple[int, ...]:  # type: ignore[override]
        """Sizes, by ``aten.sym_size``."""
        return _numbers(self._ask(SIZES, "aten::sym_size"), "sym_size", self.own.sizes)

    @property
    def shape(self) -> Size:  # type: ignore[override]
        """Sizes as a `Size`."""
        return Size(self.sizes)

    @property
    def strides(self) -> tuple[int, ...]:  # type: ignore[override]
        """Strides, by ``aten.sym_stride``."""
        return _numbers(self._ask(STRIDES, "aten::sym_stride"), "sym_strides", self.own.strides)

    @property
    def ndim(self) -> int:  # type: ignore[override]
        """Number of dimensions, by ``aten.dim``."""
        if not self._policy & SIZES or self._tensor() is None:
            return self.own.ndim
        answer = self._ask(SIZES, "aten::dim")
        if not isinstance(answer, int):
            raise _invalid("aten::dim", answer, int)
        return answer

    @property
    def numel(self) -> int:  # type: ignore[override]
        """Number of elements, by ``aten.sym_numel``."""
        answer = self._ask(SIZES, "aten::sym_numel")
        if answer is None:
            return self.own.numel
        if not hasattr(answer, "__index__"):
            raise _invalid("aten::sym_numel", answer, int)
        return answer  # type: ignore[no-any-return]

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """Bytes of all elements."""
        return self.numel * self.itemsize

    @property
    def is_contiguous(self) -> bool:  # type: ignore[override]
        """True if the tensor is contiguous, by ``aten.is_contiguous``."""
        answer = self._ask_for(STRIDES, bool, "aten::is_contiguous")
        return self.own.is_contiguous if answer is None else answer

    def is_contiguous_in(self, fmt: mf.memory_format) -> bool:
        """Return True if the tensor is contiguous in a memory format, by ``aten.is_contiguous``."""
        if fmt is mf.contiguous_format:
            return self.is_contiguous
        answer = self._ask_for(STRIDES, bool, "aten::is_contiguous.memory_format", fmt)
        return self.own.is_contiguous_in(fmt) if answer is None else answer

    def is_strides_like(self, fmt: mf.memory_format) -> bool:
        """Return True if the strides have the order of a memory format, by ``aten.is_strides_like_format``."""
        answer = self._ask_for(STRIDES, bool, "aten::is_strides_like_format", fmt)
        return self.own.is_strides_like(fmt) if answer is None else answer

    def is_dense(self) -> bool:
        """Return True if the elements fill one block, by ``aten.is_non_overlapping_and_dense``."""
        answer = self._ask_for(STRIDES, bool, "aten::is_non_overlapping_and_dense")
        return self.own.is_dense() if answer is None else answer

    @property
    def device(self) -> Device:  # type: ignore[override]
        """Device, by ``prim.device``."""
        if not self._policy & DEVICE or self._tensor() is None:
            return self.own.device
        answer = self._ask(DEVICE, "prim::device")
        if not isinstance(answer, Device):
            raise _invalid("prim::device", answer, Device)
        return answer

    @property
    def is_meta(self) -> bool:  # type: ignore[override]
        """True if the device is meta."""
        return self.device.type == "meta"

    @property
    def is_host_number(self) -> bool:  # type: ignore[override]
        """False: the class has a handler."""
        return False

    @property
    def layout(self) -> Layout:  # type: ignore[override]
        """Layout, by ``prim.layout``."""
        answer = self._ask_for(LAYOUT, Layout, "prim::layout")
        return self.own.layout if answer is None else answer

    @property
    def twin(self) -> TensorSpec:  # type: ignore[override]
        """Same spec with the other `requires_grad`."""
        return self if self.own.twin is self.own else _bound(self._tensor, self.own.twin, self._policy)

    def replace(self, **changes: Any) -> TensorSpec:
        """Return `TensorSpec.replace` of the metadata of creation, which no handler computes."""
        return self.own.replace(**changes)

    def __repr__(self) -> str:
        return f"{TensorSpec.__repr__(self.own)[:-1]}, dispatched)"


def _numbers(answer: Any, name: str, own: tuple[int, ...]) -> tuple[int, ...]:
    if answer is None:
        return own
    if not isinstance(answer, list | tuple):
        raise RuntimeError(f"{name} must be a list or a tuple, got {type(answer).__name__}")
    return tuple(answer)


def _invalid(operator: str, answer: Any, kind: type) -> RuntimeError:
    name = operator.partition("::")[2].partition(".")[0]
    expected = {Device: "Device", Layout: "Layout"}.get(kind, kind.__name__)
    return RuntimeError(f"{name} returned invalid type {type(answer).__name__}, expected {expected}")


def _bound(tensor: weakref.ref[TensorImpl], own: TensorSpec, policy: int) -> DispatchedSpec:
    spec = DispatchedSpec()
    for field in _COPIED:
        setattr(spec, field, getattr(own, field))
    spec.own, spec._policy, spec._tensor = own, policy, tensor
    return spec


def dispatch_metadata(tensor: TensorImpl, sizes_strides: str | None, device: bool, layout: bool) -> None:
    """Have the class of a new tensor compute metadata, by the arguments of `_make_wrapper_subclass`.

    Raises ValueError for an unknown policy.
    """
    if sizes_strides not in POLICIES:
        raise ValueError(f"Unknown sizes_strides_policy: {sizes_strides}; expected 'strides' or 'sizes'")
    policy = POLICIES[sizes_strides] | (DEVICE if device else 0) | (LAYOUT if layout else 0)
    tensor._spec = _bound(weakref.ref(tensor), tensor._spec, policy)


def register_queries() -> None:
    """Define ``prim::device`` and ``prim::layout``, which return a tensor's own."""
    dispatcher = Dispatcher.singleton()
    implicit = BY_NAME["CompositeImplicitAutograd"]
    for name, schema, kernel in (
        ("prim::device", "prim::device(Tensor a) -> Device", _device),
        ("prim::layout", "prim::layout(Tensor a) -> Layout", _layout),
    ):
        dispatcher.install(name, schema, __name__, frozenset())
        dispatcher.install_kernel(name, (implicit,), KernelFunction(kernel, source=__name__))


def _device(a: TensorImpl) -> Device:
    return a._spec.device


def _layout(a: TensorImpl) -> Layout:
    return a._spec.layout
