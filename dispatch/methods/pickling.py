"""Pickling and deep copies of tensors: a tensor is geometry over a storage, so that views stay views.

Tensors that share memory before also share it after, as in PyTorch (torch/_tensor.py, torch/_utils.py). Each storage
is written or copied once, whole, and each tensor refers to its elements in it. In protocol 5 the bytes may be out of
band (PEP 574); tensors are then made over the returned buffers without a copy.
"""

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np

from ...runtime.device import CPU
from ...runtime.device import device as Device
from ...runtime.grad_mode import is_inference_mode_enabled
from ...runtime.instance_attributes import slot_values
from ...runtime.layout import layout as Layout
from ...runtime.layout import sparse_coo
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.scalar_type import uint8
from ...runtime.sparse_data import KEY_BIT, SparseCoo
from ...runtime.storage import Storage, storage_of, view_at
from ...runtime.tensor_spec import TensorSpec
from ..autograd.grad_mode import no_grad
from ..core.op_overload import find_overload

if TYPE_CHECKING:
    from ...runtime.tensor_impl import TensorImpl
    from ..tensor import Tensor


def copied(tensor: Tensor, memo: dict[int, Any]) -> Tensor:
    """Return a leaf's deep copy, with its gradient and attributes.

    Raises RuntimeError for a tensor that an operator recorded.
    """
    if not tensor.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at "
            "the moment. If you were attempting to deepcopy a module, this may be because of a "
            "nn.utils.weight_norm usage."
        )
    known = memo.get(id(tensor))
    if known is not None:
        return known  # type: ignore[no-any-return]
    spec = tensor._spec
    made: Any
    if spec.layout in KEY_BIT:
        made = from_parts(spec.layout, copy.deepcopy(sparse_parts(tensor), memo), tuple(spec.sizes))
    elif spec.is_meta or hasattr(tensor, "__tensor_dispatch__") or not hasattr(tensor._data, "base"):
        # A tensor without memory, or whose class alone knows its location.
        with no_grad():
            made = tensor.clone()
        if type(made) is not type(tensor):
            raise RuntimeError(
                "The default implementation of __deepcopy__() for wrapper subclasses only works for subclass types "
                "that implement clone() and for which cloning returns another instance of the same subclass. You "
                "should either properly implement clone() for your subclass or override __deepcopy__() if it is "
                "intended behavior for clone() to return an instance of a different type."
            )
    else:
        storage = _copied_storage(tensor.untyped_storage(), memo)
        leaf_spec = spec.detached.replace(is_inference=is_inference_mode_enabled(), read_only=False, keys=0)
        made = _of_class(type(tensor), view_at(storage, _byte_offset(tensor), leaf_spec), leaf_spec)
    memo[id(tensor)] = made
    if spec.requires_grad:
        made._set_requires_grad()
    if tensor._autograd is not None and tensor._autograd.grad is not None:
        made.grad = copy.deepcopy(tensor._autograd.grad, memo)
    attributes = vars(tensor)
    if attributes:
        made.__dict__.update(copy.deepcopy(attributes, memo))
    for name, value in slot_values(tensor).items():
        setattr(made, name, copy.deepcopy(value, memo))
    return made  # type: ignore[no-any-return]


def reduced(tensor: Tensor) -> tuple[Any, ...]:
    """Return the reduce value of a tensor for `pickle`; a recorded tensor becomes a leaf that requires grad."""
    spec = tensor._spec
    if spec.layout in KEY_BIT:
        rebuild_args = (spec.layout, sparse_parts(tensor), tuple(spec.sizes), spec.requires_grad)
        return _rebuilt_sparse, rebuild_args, _state(tensor)
    names = spec.names if spec.unnamed is not spec else None
    storage = spec.device if spec.is_meta else tensor.untyped_storage()
    geometry = (0 if spec.is_meta else _byte_offset(tensor), spec.sizes, spec.strides)
    return (
        _rebuilt,
        (type(tensor), storage, geometry, spec.dtype, spec.requires_grad, names),
        _state(tensor),
    )


def _state(tensor: Tensor) -> Any:
    """Return the state of a tensor for `pickle`: its dict or None, with the values of added slots if there are any."""
    attributes = vars(tensor) or None
    slots = slot_values(tensor)
    return (attributes, slots) if slots else attributes


def _rebuilt(
    cls: type[Tensor],
    storage: Storage | Device,
    geometry: tuple[int, tuple[int, ...], tuple[int, ...]],
    dtype: ScalarType,
    requires_grad: bool,
    names: tuple[str | None, ...] | None,
) -> Tensor:
    from ..generated.functions import empty_strided

    offset, sizes, strides = geometry
    made: Tensor
    if isinstance(storage, Device):
        made = empty_strided(sizes, strides, dtype=dtype, device=storage)
    else:
        spec = TensorSpec.of(
            sizes,
            strides,
            dtype,
            storage.device,
            is_inference=is_inference_mode_enabled(),
            read_only=storage.device is CPU and not storage.root.flags.writeable,
        )
        made = _of_class(cls, view_at(storage, offset, spec), spec)
    if names is not None:
        made.names = names
    return made._set_requires_grad() if requires_grad else made


def sparse_parts(tensor: Any) -> tuple[Any, ...]:
    """Return the dense parts of a sparse tensor, and for COO whether it is coalesced."""
    data = tensor._data
    if isinstance(data, SparseCoo):
        return data.indices, data.values, data.is_coalesced
    return data.compressed, data.plain, data.values


def from_parts(layout: Layout, parts: tuple[Any, ...], sizes: tuple[int, ...]) -> Any:
    """Return the sparse tensor of these parts."""
    if layout is sparse_coo:
        indices, values, is_coalesced = parts
        make = find_overload("aten::_sparse_coo_tensor_unsafe")
        return make(indices, values, sizes, is_coalesced=is_coalesced).detach()
    make = find_overload("aten::_sparse_compressed_tensor_unsafe")
    return make(*parts, sizes, layout=layout).detach()


def _rebuilt_sparse(
    layout: Layout, parts: tuple[Any, ...], sizes: tuple[int, ...], requires_grad: bool
) -> Any:
    made = from_parts(layout, parts, sizes)
    return made._set_requires_grad() if requires_grad else made


def _of_class(cls: type[Tensor], data: Any, spec: TensorSpec) -> Tensor:
    from ..layers.python_key import detached_subclass
    from ..tensor import Tensor

    made = Tensor.from_data(data, spec)
    return made if cls is Tensor else detached_subclass(made, cls)


def _byte_offset(tensor: TensorImpl) -> int:
    return int(tensor.storage_offset()) * int(tensor._spec.itemsize)


def _bytes_of(storage: Storage) -> Tensor:
    """Return all bytes of a storage as a uint8 tensor."""
    from ..tensor import Tensor

    spec = TensorSpec.contiguous((storage.nbytes(),), uint8, storage.device)
    return Tensor.from_data(view_at(storage, 0, spec), spec)


def _copied_storage(storage: Storage, memo: dict[int, Any]) -> Storage:
    duplicate = memo.get(id(storage))
    if duplicate is None:
        clone = _bytes_of(storage).clone()
        duplicate = memo[id(storage)] = storage_of(clone._data, storage.device)
        # As in `copy` itself: an identity in the memo is valid as long as its object lives.
        memo.setdefault(id(memo), []).append(storage)
    return duplicate


BUFFERS_SINCE = 5
"""The first `pickle` protocol with out-of-band buffers."""
ALIGNMENT = 16
"""Required alignment of a storage's memory, in bytes: no element needs more."""


def _reduced_storage(storage: Storage, protocol: Any = 0) -> tuple[Any, ...]:
    data = _bytes_of(storage).cpu()._data
    if protocol >= BUFFERS_SINCE:
        return _storage_over, (pickle.PickleBuffer(data), storage.device)
    return _rebuilt_storage, (data.tobytes(), storage.device)


def _storage_over(buffer: Any, device: Device) -> Storage:
    """Return a storage over a buffer, read-only if the buffer is; a copy for another device."""
    from ..tensor_data import from_numpy

    array = np.empty(0, np.uint8) if not memoryview(buffer).nbytes else np.frombuffer(buffer, np.uint8)
    if array.__array_interface__["data"][0] % ALIGNMENT:
        array = array.copy()
    if device is not CPU:
        array = from_numpy(array).to(device=device)._data
    return storage_of(array, device)


def _rebuilt_storage(data: bytes, device: Device) -> Storage:
    from ..generated.functions import empty

    made: Tensor = empty(len(data), dtype=uint8, device="cpu")
    if data:
        made._data[:] = np.frombuffer(data, np.uint8)
    made = made.to(device=device)
    return storage_of(made._data, device)
