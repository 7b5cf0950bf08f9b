"""Batched tensors: the metadata of one example over the values of all examples (functorch BatchedTensorImpl).

A batched tensor has the metadata of one example. Instead of bytes it holds a `BatchedValue`: the tensor of all
examples, which of its dimensions is mapped, and the vmap level that maps it. Its key set sends every operator to the
batching rules, below autograd.
"""

from __future__ import annotations

from textwrap import indent
from typing import Any, NoReturn, Self

from ...runtime.dispatch_key import Functionality, functionality_bit
from ...runtime.quantized_data import QUANTIZED_BIT
from ...runtime.storage import address_of, root_of
from ...runtime.tensor_impl import TensorImpl
from ...runtime.tensor_spec import MAX_SPECS, TensorSpec
from ...runtime.transform_stack import tracked_text, tracking_levels
from ..core.tensor_function import disabled_tensor_function, plain_classes
from ..tensor import Tensor
from .levels import VmapLevel, is_visible

BATCHED_KEYS = functionality_bit(Functionality.Batched) | functionality_bit(
    Functionality.FuncTorchDynamicLayerBackMode
)
"""Additional keys of a batched tensor: those of the batching rules and of user kernels."""

_specs: dict[tuple[TensorSpec, int], TensorSpec] = {}


class BatchedValue:
    """Data of a batched tensor.

    `base`, `nbytes` and the array interface give `root_of` the storage of all examples, and `address_of` the address of
    the first one. Views of a batched tensor thus know their offset in the storage.
    """

    __slots__ = ("dim", "level", "value")

    def __init__(self, value: TensorImpl, dim: int, level: VmapLevel) -> None:
        self.value = value
        self.dim = dim
        self.level = level

    @property
    def base(self) -> Any:
        """The root of the bytes of all examples."""
        return root_of(self.value._data)

    @property
    def nbytes(self) -> int:
        """How many bytes the root has."""
        return int(self.base.nbytes)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {"data": (address_of(self.value._data), True)}


def logical_spec(spec: TensorSpec, dim: int) -> TensorSpec:
    """Return the spec of one example of a tensor of this spec, mapped over `dim`."""
    result = _specs.get((spec, dim))
    if result is None:
        if len(_specs) >= MAX_SPECS:
            _specs.clear()
        result = _specs[spec, dim] = TensorSpec.of(
            spec.sizes[:dim] + spec.sizes[dim + 1 :],
            spec.strides[:dim] + spec.strides[dim + 1 :],
            spec.dtype,
            spec.device,
            is_inference=spec.is_inference,
            read_only=spec.read_only,
            layout=spec.layout,
            keys=BATCHED_KEYS,
        )
    return result


def batched(value: Tensor, dim: int, level: VmapLevel) -> BatchedTensor:
    """Return a tensor whose dimension `dim` is mapped by `level`. Raises RuntimeError for a quantized tensor."""
    if value._spec.keys & QUANTIZED_BIT:
        raise RuntimeError(
            f"vmap: expected tensors that are not quantized, got one of dtype {value._spec.dtype}: dequantize() gives "
            "its numbers"
        )
    made = BatchedTensor._blank()
    made._data = BatchedValue(value, dim, level)
    made._spec = logical_spec(value._spec, dim)
    made._version_cell = made._autograd = made._view_base = None
    return made


def level_of(tensor: TensorImpl) -> VmapLevel | None:
    """Return the level that maps a tensor; None for a tensor that is not batched."""
    data = tensor._data
    return data.level if data.__class__ is BatchedValue else None


def unbatched(tensor: TensorImpl, level: VmapLevel) -> tuple[Any, int | None]:
    """Return the tensor of all examples and the dimension that `level` maps; the tensor itself and None for others."""
    data = tensor._data
    if data.__class__ is BatchedValue and data.level is level:
        return data.value, data.dim
    return tensor, None


def refuse_escaped(level: VmapLevel, operation: str) -> None:
    """Raise RuntimeError for a batched tensor whose vmap has ended, or is not visible here."""
    if not is_visible(level):
        raise RuntimeError(
            f"{operation}: a BatchedTensor of vmap level {level.number} is used where that vmap is not in progress. "
            "Either your tensor may have escaped from inside a function being vmapped, which is a user error, or it is "
            "used in another thread. Return it from the function instead."
        )


class BatchedTensor(Tensor):
    """Tensor inside `tt.vmap`: it has the metadata of one example, and operators compute on all examples.

    Values of single examples cannot be read: `item`, `bool`, `numpy` and similar methods raise RuntimeError.
    """

    __slots__ = ()
    __tensor_function__: Any = disabled_tensor_function

    def __repr__(self) -> str:
        data: BatchedValue = self._data
        body = indent(repr(data.value), " " * 4)
        text = f"BatchedTensor(lvl={data.level.number}, bdim={data.dim}, value=\n{body}\n)"
        return tracked_text(text, [n for n in tracking_levels(self) if n > data.level.number])

    def item(self) -> NoReturn:
        """Raise RuntimeError: there is one value for each example."""
        raise RuntimeError(
            "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on a "
            "Tensor, please try to rewrite what you're doing with other operations."
        )

    def __bool__(self) -> NoReturn:
        raise RuntimeError(
            "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't "
            "support that; tt.where chooses between values for each example."
        )

    def detach_(self) -> Self:
        """Detach the tensor, also from the graph outside of vmap, and drop its outer tangents."""
        super().detach_()
        data: BatchedValue = self._data
        value: Any = data.value
        self._data = BatchedValue(value.detach(), data.dim, data.level)
        return self

    def _no_storage(self, accessor: str) -> NoReturn:
        raise RuntimeError(
            f"vmap: Cannot access data pointer of Tensor that doesn't have storage: {accessor} asks for the values of "
            "a BatchedTensor"
        )

    def numpy(self, *, force: bool = False) -> NoReturn:
        """Raise RuntimeError: a batched tensor has no array of its own."""
        self._no_storage("Tensor.numpy()")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        self._no_storage("Tensor.__array__()")

    def tolist(self) -> NoReturn:
        """Raise RuntimeError: there is one list for each example."""
        self._no_storage("Tensor.tolist()")

    def host_array(self) -> NoReturn:
        """Raise RuntimeError: a batched tensor has no array of its own."""
        self._no_storage("reading it on the host")

    def data_ptr(self) -> NoReturn:
        """Raise RuntimeError: a batched tensor has no bytes of its own."""
        self._no_storage("Tensor.data_ptr()")

    def untyped_storage(self) -> NoReturn:
        """Raise RuntimeError: a batched tensor has no bytes of its own."""
        self._no_storage("Tensor.untyped_storage()")

    def storage_offset(self) -> int:
        """Return the offset of the first example, in elements."""
        value: Tensor = self._data.value
        return int(value.storage_offset())


plain_classes.add(BatchedTensor)
