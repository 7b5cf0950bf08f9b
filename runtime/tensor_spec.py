"""`TensorSpec`: all metadata of a tensor, interned and immutable.

All tensors with the same metadata share one spec. The choice of a kernel therefore depends on a spec's identity
alone, and the tables on the call path are keyed by it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

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
IN_PLACE_OF_DENSE = (
    _QUANTIZED | functionality_bit(Functionality.Sparse) | functionality_bit(Functionality.SparseCsr)
)
"""Keys of tensors that are not dense: they make a spec's `keys` replace Dense."""
_AUTOGRAD = functionality_bit(Functionality.AutogradFunctionality)
internal_assert(bool(_AUTOGRAD & AUTOGRAD_BITS), "the autograd functionality is none of the autograd bits")

MAX_SPECS = 1 << 15
"""Beyond this many specs the intern table restarts; live tensors keep their specs, which stay valid."""

MAX_BYTES = (1 << 63) - 129
"""Maximum size of a tensor's elements: offsets are signed 64-bit numbers, and memory is aligned."""
MAX_DIMS = 64
"""NumPy's limit, for tensors of the CPU."""

OVERRIDE_FLAG = 1 << 63
"""Flag among a spec's `keys` without a dispatch function: the tensor's class may override public calls, so an
operator keeps no plan for its spec.
"""

_table: dict[tuple[object, ...], TensorSpec] = {}


class TensorSpec:
    """Metadata of a tensor: sizes, strides (elements), dtype, device, layout, key set, and flags.

    Only `TensorSpec.of` creates it. `key_set` is c10's key set of the tensor. `call_keys` is the set that routes
    calls, with autograd bits only if the tensor requires grad. `kind` is the part of the metadata that is independent
    of sizes and affects the choice of kernels.
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

    is_interned: ClassVar[bool] = True
    """False for the spec of a single tensor: a plan for it would serve no other."""

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
        """Return the interned spec of this metadata. `keys` are functionality bits beyond the implied ones."""
        key = (sizes, strides, dtype, device, requires_grad, is_inference, read_only, layout, keys)
        spec = _table.get(key)
        if spec is not None:
            return spec
        if len(_table) >= MAX_SPECS:
            _table.clear()
        return _table.setdefault(key, _make(*key))

    def __getattr__(self, name: str) -> Any:
        """Compute a rarely used field on first access and cache it."""
        derive = _DERIVED.get(name)
        if derive is None:
            raise AttributeError(f"TensorSpec has no attribute {name!r}")
        value = derive(self)
        setattr(self, name, value)
        return value

    @staticmethod
    def contiguous(sizes: tuple[int, ...], dtype: ScalarType, device: Device) -> TensorSpec:
        """Return the spec of a C-contiguous tensor."""
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
        """Return the spec with the given fields replaced; new sizes without strides are contiguous."""
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
        """Same spec without requires-grad."""
        return self.twin if self.requires_grad else self

    @property
    def differentiable(self) -> TensorSpec:
        """Same spec with requires-grad."""
        return self if self.requires_grad else self.twin

    @property
    def names(self) -> tuple[str | None, ...]:
        """Names of the dimensions, None for those without; only a `NamedSpec` has any."""
        return (None,) * self.ndim

    @property
    def unnamed(self) -> TensorSpec:
        """Same spec without names."""
        return self

    def suggest_memory_format(self) -> mf.memory_format:
        """Return the memory format of an operator's output: channels-last if the strides are in that order."""
        if self.ndim in (4, 5) and mf.is_channels_last_strides(self.sizes, self.strides):
            return mf.channels_last if self.ndim == 4 else mf.channels_last_3d
        return mf.contiguous_format

    def is_strides_like(self, fmt: mf.memory_format) -> bool:
        """Return True if the strides are in the order of a channels-last format, gaps allowed."""
        ranks = {mf.channels_last: 4, mf.channels_last_3d: 5}
        return self.ndim == ranks.get(fmt) and mf.is_channels_last_strides(self.sizes, self.strides)

    def is_contiguous_in(self, fmt: mf.memory_format) -> bool:
        """Return True if the elements are contiguous in this memory format."""
        if fmt is mf.channels_last:
            return mf.is_channels_last(self.sizes, self.strides)
        if fmt is mf.channels_last_3d:
            return mf.is_channels_last(self.sizes, self.strides, 5)
        return self.is_contiguous

    def is_dense(self) -> bool:
        """Return True if the elements fill one block without gaps or overlap."""
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
    # In a contiguous tensor, each stride is the number of elements of its inner dimensions.
    numel, contiguous = 1, True
    for i in range(len(sizes) - 1, -1, -1):
        size = sizes[i]
        if size != 1:
            if strides[i] != numel:
                contiguous = False
            numel *= size
    spec.numel = numel
    if len(sizes) > MAX_DIMS and device.type == "cpu":
        raise RuntimeError(
            f"only tensors with up to {MAX_DIMS} dims are supported on the CPU, got {len(sizes)}"
        )
    if layout is not strided:
        contiguous = layout is jagged
    elif not numel:
        contiguous = True
        if len(sizes) > 1 and math.prod([n or 1 for n in sizes]) * dtype.itemsize > MAX_BYTES:
            # No byte is needed, but strides and NumPy's arrays count them.
            raise RuntimeError("Stride calculation overflowed")
    spec.is_contiguous = contiguous
    spec.itemsize = itemsize = dtype.itemsize
    spec.nbytes = nbytes = numel * itemsize
    if nbytes > MAX_BYTES and not keys & IN_PLACE_OF_DENSE:
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
    repeats = not contiguous and not any(strides)
    flags = contiguous | (requires_grad << 1) | (is_inference << 2) | (read_only << 3) | repeats << 4
    spec.kind = (dtype, device, flags | spec.ndim << 5 | keys << 12)
    return spec


def _twin(spec: TensorSpec) -> TensorSpec:
    """Return the spec that differs only in requires-grad; the two refer to each other.

    An integral or bool tensor cannot require grad: its spec is its own twin.
    """
    if not (spec.dtype.is_floating_point or spec.dtype.is_complex):
        return spec
    twin = spec.replace(requires_grad=not spec.requires_grad)
    twin.twin = spec
    return twin


def _backend_keys(device: Device, keys: int) -> int:
    """Return a tensor's backend, the functionality that stores it, and its other keys."""
    stored = 0 if keys & IN_PLACE_OF_DENSE else _DENSE
    return (1 << device.backend) | stored | keys & ~OVERRIDE_FLAG


def _key_set(spec: TensorSpec) -> int:
    dense = _backend_keys(spec.device, spec.keys)
    return dense if spec.is_inference else dense | ADINPLACE_BIT | _AUTOGRAD


def _has_internal_overlap(spec: TensorSpec) -> bool:
    """Return True if two indices surely share an address (an expanded dimension), by ATen's cheap test."""
    if spec.is_contiguous:
        return False
    return any(size > 1 and stride == 0 for size, stride in zip(spec.sizes, spec.strides, strict=True))


def _is_host_number(spec: TensorSpec) -> bool:
    """Return True for a plain host tensor of one element, which NumPy itself converts to a Python number."""
    return spec.device is CPU and spec.numel == 1 and not spec.keys and spec.dtype in READ_BY_NUMPY


_DERIVED: dict[str, Callable[[TensorSpec], Any]] = {
    "is_host_number": _is_host_number,
    "is_meta": lambda spec: spec.device.type == "meta",
    "key_set": _key_set,
    "overlaps": _has_internal_overlap,
    "shape": lambda spec: Size(spec.sizes),
    "twin": _twin,
}
