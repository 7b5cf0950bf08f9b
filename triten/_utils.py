"""Functions that programs import by PyTorch's private name (`torch._utils`)."""

from __future__ import annotations

import sys
import traceback
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from .dispatch.functions.sparse import sparse_coo_tensor
from .dispatch.functions.sparse_compressed import sparse_compressed_tensor
from .dispatch.generated import functions as _ops
from .dispatch.tensor import Tensor
from .nn.modules.parameter import Parameter
from .runtime.device import device as Device
from .runtime.layout import layout as Layout
from .runtime.layout import sparse_coo
from .runtime.scalar_type import dtype as ScalarType
from .runtime.sparse_data import COMPRESSED

__all__ = [
    "ExceptionWrapper",
    "_element_size",
    "_flatten_dense_tensors",
    "_get_all_device_indices",
    "_get_available_device_type",
    "_get_device_index",
    "_get_device_module",
    "_rebuild_parameter",
    "_rebuild_sparse_tensor",
    "_rebuild_tensor",
    "_rebuild_tensor_v2",
    "_set_obj_state",
    "_take_tensors",
    "_unflatten_dense_tensors",
]


class ExceptionWrapper:
    """Exception with its traceback as text, for another thread or process to raise.

    Args:
        exc_info: What `sys.exc_info()` returns. Default: the exception that is being handled.
        where: The place that the message names. Default: "in background".
    """

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        kind, error, trace = sys.exc_info() if exc_info is None else exc_info
        self.exc_type: Any = kind
        self.exc_msg = "".join(traceback.format_exception(kind, error, trace))
        self.where = where

    def reraise(self) -> NoReturn:
        """Raise an exception of the same class, with the traceback in its message."""
        from .utils.data.worker import Failure

        Failure(
            self.exc_type, f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        ).reraise()


def _element_size(dtype: ScalarType) -> int:
    """Return the bytes of an element. Raises RuntimeError for what is no dtype."""
    if not isinstance(dtype, ScalarType):
        raise RuntimeError(f"expected triten.dtype, but got {type(dtype)}")
    return dtype.itemsize


def _get_available_device_type() -> str | None:
    """Return the accelerators' device type; None without any."""
    from .accelerator import current_accelerator

    device = current_accelerator(check_available=True)
    return None if device is None else device.type


def _get_all_device_indices() -> list[int] | None:
    """Return the numbers of the accelerators; None without any."""
    from .accelerator import device_count

    return None if _get_available_device_type() is None else list(range(device_count()))


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """Return the number of a device.

    Args:
        device: A device, its name or its number.
        optional: If True, None and a device without a number are the current device.
        allow_cpu: If True, the CPU has the number -1.

    Raises:
        ValueError: The device has no number.

    Source: torch._utils._get_device_index.
    """
    from .accelerator import current_device_index

    if isinstance(device, str):
        device = Device(device)
    if isinstance(device, Device):
        if device.type == "cpu":
            if allow_cpu:
                return -1
            raise ValueError(f"Expected a non cpu device, but got: {device}")
        device = device.index
    if isinstance(device, int):
        return device
    if not optional:
        raise ValueError(f"Expected a torch.device with a specified index or an integer, but got: {device}")
    return current_device_index()


def _flatten_dense_tensors(tensors: Sequence[Tensor]) -> Tensor:
    """Return the elements of tensors of one dtype, one after the other (`torch._utils`).

    Example:
        >>> import triten as tt
        >>> from triten._utils import _flatten_dense_tensors, _unflatten_dense_tensors
        >>> flat = _flatten_dense_tensors([tt.ones(2), tt.zeros(1, 2)]); flat
        tensor([1., 1., 0., 0.])
        >>> [each.shape for each in _unflatten_dense_tensors(flat, [tt.ones(2), tt.zeros(1, 2)])]
        [triten.Size([2]), triten.Size([1, 2])]
    """
    flat: Tensor = _ops.cat([each.contiguous().view(-1) for each in tensors])
    return flat


def _unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return views of a flat tensor in the shapes of others, which are not read."""
    begin, views = 0, []
    for each in tensors:
        views.append(flat.narrow(0, begin, each.numel()).view(each.shape))
        begin += each.numel()
    return tuple(views)


def _take_tensors(tensors: Sequence[Tensor], size_limit: int) -> Iterator[list[Tensor]]:
    """Give tensors in lists of one dtype and of at most so many bytes, and of at least one tensor.

    Args:
        tensors: The tensors.
        size_limit: Bytes of a list.
    """
    buckets: dict[tuple[Device, ScalarType], list[Tensor]] = {}
    sizes: dict[tuple[Device, ScalarType], int] = {}
    for each in tensors:
        key = (each.device, each.dtype)
        size = each.numel() * each.dtype.itemsize
        if buckets.get(key) and sizes[key] + size > size_limit:
            yield buckets.pop(key)
            sizes[key] = 0
        buckets.setdefault(key, []).append(each)
        sizes[key] = sizes.get(key, 0) + size
    yield from buckets.values()


def _rebuild_tensor(storage: Any, storage_offset: int, size: Sequence[int], stride: Sequence[int]) -> Tensor:
    """Return a tensor over a typed storage, as pickles of PyTorch ask for it."""
    made = _ops.empty((0,), dtype=storage.dtype, device=storage.device)
    made.set_(storage.untyped(), storage_offset, tuple(size), tuple(stride))
    return made


def _rebuild_tensor_v2(
    storage: Any,
    storage_offset: int,
    size: Sequence[int],
    stride: Sequence[int],
    requires_grad: bool,
    backward_hooks: OrderedDict[int, Any] | None,
    metadata: Any = None,
) -> Tensor:
    """Return a tensor over a typed storage, with its hooks, as pickles of PyTorch ask for it."""
    tensor = _rebuild_tensor(storage, storage_offset, size, stride)
    tensor.requires_grad = requires_grad
    for hook in (backward_hooks or {}).values():
        tensor.register_hook(hook)
    return tensor


def _rebuild_sparse_tensor(layout: Layout, data: tuple[Any, ...]) -> Tensor:
    """Return a sparse tensor of its parts and size, as pickles of PyTorch ask for it.

    Args:
        layout: A sparse layout.
        data: Indices, values, size, and optionally `is_coalesced`; or compressed indices, plain indices, values and
            size.

    Raises:
        RuntimeError: An index does not fit the size.
        NotImplementedError: The layout is not sparse.
    """
    if layout is sparse_coo:
        indices, values, size, *rest = data
        return sparse_coo_tensor(
            indices, values, size, check_invariants=True, is_coalesced=rest[0] if rest else None
        )
    if layout in COMPRESSED:
        compressed, plain, values, size = data
        return sparse_compressed_tensor(compressed, plain, values, size, layout=layout, check_invariants=True)
    raise NotImplementedError(f"rebuilding sparse tensor for layout {layout}")


def _rebuild_parameter(data: Tensor, requires_grad: bool, backward_hooks: OrderedDict[int, Any]) -> Parameter:
    """Return a parameter, with its hooks, as pickles of PyTorch ask for it."""
    parameter = Parameter(data, requires_grad)
    for hook in (backward_hooks or {}).values():
        parameter.register_hook(hook)
    return parameter


def _set_obj_state(obj: Any, state: Any) -> Any:
    """Set the attributes of an object: a dict, or a dict and the values of slots."""
    if isinstance(state, tuple):
        if len(state) != 2:
            raise RuntimeError(f"Invalid serialized state: {state}")
        attributes, slots = state
    else:
        attributes, slots = state, None
    vars(obj).update(attributes or {})
    for name, value in (slots or {}).items():
        setattr(obj, name, value)
    return obj


def _get_device_module(device_type: str) -> Any:
    """Return the module of a device type, such as `tt.cuda` (`torch._utils`).

    Raises:
        RuntimeError: There is no module of that name.

    Example:
        >>> import triten as tt
        >>> from triten._utils import _get_device_module
        >>> _get_device_module("cuda") is tt.cuda
        True
    """
    import sys

    module = getattr(sys.modules[__package__], device_type, None)
    if module is None:
        raise RuntimeError(
            f"Device '{device_type}' does not have a corresponding module registered as 'torch.{device_type}'."
        )
    return module
