"""`TensorSpec`: everything about a tensor but its bytes, interned and immutable.

All tensors that look alike share one spec, so a spec's identity answers every question that the choice of
a kernel depends on, and the tables on the call path are keyed by it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from . import memory_format as mf
from .device import CPU
from .device import device as Device
from .dispatch_key import ADINPLACE_BIT, AUTOGRAD_BITS, Functionality, functionality_bit
from .errors import internal_assert
from .layout import jagged, strided
from .layout import layout as Layout
from .scalar_type import QUANTIZED, READ_BY_NUMPY
from .scalar_type import dtype as ScalarType
from .size import Size

_DENSE = functionality_bit(Functionality.Dense)
_QUANTIZED = functionality_bit(Functionality.Quantized)
_IN_PLACE_OF_DENSE = (
    _QUANTIZED | functionality_bit(Functionality.Sparse) | functionality_bit(Functionality.SparseCsr)
)
"""Keys of tensors that are no dense ones: they have a spec's `keys` stand for Dense."""
_AUTOGRAD = functionality_bit(Functionality.AutogradFunctionality)
internal_assert(bool(_AUTOGRAD & AUTOGRAD_BITS), "the autograd functionality is none of the autograd bits")

MAX_SPECS = 1 << 15
"""Beyond this many the intern table starts anew; living tensors keep their specs, which stay valid."""

MAX_BYTES = (1 << 63) - 129
"""What a tensor's elements may take: offsets are signed 64-bit numbers, and memory is aligned."""

OVERRIDE_FLAG = 1 << 63
"""Stands among a spec's `keys` and routes nothing: the tensor's class may take over public calls, so that its spec is
none for which a plan is kept in front of an operator."""

_table: dict[tuple[object, ...], TensorSpec] = {}


class TensorSpec:
    """Metadata of a tensor: sizes, strides (elements), dtype, device, layout, key set, and flags.

    Made by `TensorSpec.of` only. `key_set` is the set that c10 gives the tensor; `call_keys` the set used
    to route calls, in which autograd bits stand only if the tensor requires grad. `kind` is what the tensor has in
    common with those of other sizes, as far as the choice of kernels goes.
    """

    __slots__ = (
        "call_keys",
        "device",
        "dtype",
        "is_contiguous",
        "is_host_number",
        "is_inference",
        "is_meta",
        "itemsize",
        "key_set",
        "keys",
        "kind",
        "layout",
        "nbytes",
        "ndim",
        "np_dtype",
        "numel",
        "overlaps",
        "read_only",
        "requires_grad",
        "shape",
        "sizes",
        "strides",
        "twin",
    )

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    shape: Size
    dtype: ScalarType
    device: Device
    layout: Layout
    key_set: int
    keys: int
    kind: tuple[ScalarType, Device, int]
    call_keys: int
    ndim: int
    numel: int
    itemsize: int
    nbytes: int
    np_dtype: Any
    is_contiguous: bool
    is_host_number: bool
    is_inference: bool
    is_meta: bool
    overlaps: bool
    read_only: bool
    requires_grad: bool
    twin: TensorSpec

    @staticmethod
    def of(
        sizes: tuple[int, ...],
        strides: tuple[int, ...],
        dtype: ScalarType,
        device: Device,
        *,
        requires_grad: bool = False,
        is_inference: bool = False,
        read_only: bool = False,
        layout: Layout = strided,
        keys: int = 0,
    ) -> TensorSpec:
        """The one spec of this metadata. `keys` are functionality bits beside those that the rest implies."""
        key = (sizes, strides, dtype, device, requires_grad, is_inference, read_only, layout, keys)
        found = _table.get(key)
        if found is not None:
            return found
        if len(_table) >= MAX_SPECS:
            _table.clear()
        return _table.setdefault(key, _make(*key))

    def __getattr__(self, name: str) -> Any:
        """Fields that few specs are asked for, computed then and kept."""
        derive = _DERIVED.get(name)
        if derive is None:
            raise AttributeError(f"TensorSpec has no attribute {name!r}")
        value = derive(self)
        setattr(self, name, value)
        return value

    @staticmethod
    def contiguous(sizes: tuple[int, ...], dtype: ScalarType, device: Device) -> TensorSpec:
        """The spec of a C-contiguous tensor."""
        return TensorSpec.of(sizes, mf.contiguous_strides(sizes), dtype, device)

    def replace(
        self,
        *,
        sizes: tuple[int, ...] | None = None,
        strides: tuple[int, ...] | None = None,
        dtype: ScalarType | None = None,
        device: Device | None = None,
        requires_grad: bool | None = None,
        is_inference: bool | None = None,
        read_only: bool | None = None,
        keys: int | None = None,
    ) -> TensorSpec:
        """The spec that differs from this one in the fields given; new sizes without strides are contiguous."""
        if sizes is not None and strides is None:
            strides = mf.contiguous_strides(sizes)
        return TensorSpec.of(
            self.sizes if sizes is None else sizes,
            self.strides if strides is None else strides,
            self.dtype if dtype is None else dtype,
            self.device if device is None else device,
            requires_grad=self.requires_grad if requires_grad is None else requires_grad,
            is_inference=self.is_inference if is_inference is None else is_inference,
            read_only=self.read_only if read_only is None else read_only,
            layout=self.layout,
            keys=self.keys if keys is None else keys,
        )

    @property
    def detached(self) -> TensorSpec:
        """The same without requires-grad."""
        return self.twin if self.requires_grad else self

    @property
    def differentiable(self) -> TensorSpec:
        """The same with requires-grad."""
        return self if self.requires_grad else self.twin

    @property
    def names(self) -> tuple[str | None, ...]:
        """The dimensions' names, None for those without; only a `NamedSpec` has others."""
        return (None,) * self.ndim

    @property
    def unnamed(self) -> TensorSpec:
        """The same without names."""
        return self

    def suggest_memory_format(self) -> mf.memory_format:
        """The format an operator gives its output: channels-last if the strides are in that order."""
        if (
            self.ndim in (4, 5)
            and not self.is_contiguous
            and mf.is_channels_last_strides(self.sizes, self.strides)
        ):
            return mf.channels_last if self.ndim == 4 else mf.channels_last_3d
        return mf.contiguous_format

    def is_contiguous_in(self, fmt: mf.memory_format) -> bool:
        """Whether the elements lie in this format without gaps."""
        if fmt is mf.channels_last:
            return mf.is_channels_last(self.sizes, self.strides)
        if fmt is mf.channels_last_3d:
            return mf.is_channels_last(self.sizes, self.strides, 5)
        return self.is_contiguous

    def is_dense(self) -> bool:
        """Whether the elements fill one gapless block without overlap."""
        return self.is_contiguous or mf.is_non_overlapping_and_dense(self.sizes, self.strides)

    def __repr__(self) -> str:
        grad = ", requires_grad" if self.requires_grad else ""
        return f"TensorSpec({list(self.sizes)}, {list(self.strides)}, {self.dtype.name}, {self.device}{grad})"


def _make(
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: ScalarType,
    device: Device,
    requires_grad: bool,
    is_inference: bool,
    read_only: bool,
    layout: Layout,
    keys: int,
) -> TensorSpec:
    spec = TensorSpec()
    spec.sizes = sizes
    spec.strides = strides
    spec.dtype = dtype
    spec.device = device
    spec.layout = layout
    spec.requires_grad = requires_grad
    spec.is_inference = is_inference
    spec.read_only = read_only
    spec.ndim = len(sizes)
    # A tensor is contiguous where each stride is the number of elements that its inner dimensions hold.
    numel, contiguous = 1, True
    for i in range(len(sizes) - 1, -1, -1):
        size = sizes[i]
        if size != 1:
            if strides[i] != numel:
                contiguous = False
            numel *= size
    spec.numel = numel
    if layout is not strided:
        contiguous = layout is jagged
    elif not numel:
        contiguous = True
        if len(sizes) > 1 and math.prod([n or 1 for n in sizes]) * dtype.itemsize > MAX_BYTES:
            # No byte is needed, but strides and NumPy's arrays count them.
            raise RuntimeError(f"Storage size calculation overflowed with sizes={list(sizes)}")
    spec.is_contiguous = contiguous
    spec.itemsize = itemsize = dtype.itemsize
    spec.nbytes = nbytes = numel * itemsize
    if nbytes > MAX_BYTES and not keys & _IN_PLACE_OF_DENSE:
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(sizes)}")
    if dtype in QUANTIZED and not keys & _QUANTIZED:
        raise RuntimeError(
            f"a tensor of dtype {dtype} needs a quantizer: make it by quantize_per_tensor, quantize_per_channel or "
            "_empty_affine_quantized"
        )
    spec.np_dtype = dtype.np
    spec.keys = keys
    dense = (1 << device.backend) | _DENSE
    if keys:
        dense = _backend_keys(device, keys)
    spec.call_keys = dense | _AUTOGRAD if requires_grad else dense
    flags = contiguous | (requires_grad << 1) | (is_inference << 2) | (read_only << 3)
    spec.kind = (dtype, device, flags | spec.ndim << 4 | keys << 11)
    return spec


def _twin(spec: TensorSpec) -> TensorSpec:
    """The spec that differs in requires-grad alone; the two point at each other.

    An integral or bool tensor cannot require grad: its spec is its own twin.
    """
    if not (spec.dtype.is_floating_point or spec.dtype.is_complex):
        return spec
    twin = spec.replace(requires_grad=not spec.requires_grad)
    twin.twin = spec
    return twin


def _backend_keys(device: Device, keys: int) -> int:
    """A tensor's backend, the functionality that stores it, and its other keys."""
    stored = 0 if keys & _IN_PLACE_OF_DENSE else _DENSE
    return (1 << device.backend) | stored | keys & ~OVERRIDE_FLAG


def _key_set(spec: TensorSpec) -> int:
    dense = _backend_keys(spec.device, spec.keys)
    return dense if spec.is_inference else dense | ADINPLACE_BIT | _AUTOGRAD


def _has_internal_overlap(spec: TensorSpec) -> bool:
    """Whether two indices surely share an address (an expanded dimension), as ATen's cheap test decides."""
    if spec.is_contiguous:
        return False
    return any(size > 1 and stride == 0 for size, stride in zip(spec.sizes, spec.strides, strict=True))


def _is_host_number(spec: TensorSpec) -> bool:
    """Whether this is a plain host tensor of one element, which NumPy turns into a Python number itself."""
    return spec.device is CPU and spec.numel == 1 and not spec.keys and spec.dtype in READ_BY_NUMPY


_DERIVED: dict[str, Callable[[TensorSpec], Any]] = {
    "is_host_number": _is_host_number,
    "is_meta": lambda spec: spec.device.type == "meta",
    "key_set": _key_set,
    "overlaps": _has_internal_overlap,
    "shape": lambda spec: Size(spec.sizes),
    "twin": _twin,
}
