"""Factories made of others, and `tensor`, `from_numpy`, `as_tensor`, which take Python and NumPy data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...runtime.device import CPU
from ...runtime.device import device as Device
from ...runtime.grad_mode import is_inference_mode_enabled
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.scalar_type import dtype_of_number, from_numpy_dtype, get_default_dtype, int64
from ...runtime.tensor_impl import TensorImpl
from ...runtime.tensor_spec import TensorSpec
from ..generated.functions import empty
from ..tensor import Tensor


def full(
    size: Sequence[int],
    fill_value: Any,
    dtype: ScalarType | None,
    layout: Any,
    device: Device | None,
    pin: Any,
) -> Any:
    """`torch.full`: the dtype follows the value unless given."""
    chosen = dtype_of_number(fill_value.__class__) if dtype is None else dtype
    return empty(tuple(size), dtype=chosen, layout=layout, device=device).fill_(fill_value)


def scalar_tensor(s: Any, dtype: ScalarType | None, layout: Any, device: Device | None, pin: Any) -> Any:
    """`torch.scalar_tensor`: a number as a 0-d tensor of the default dtype unless given."""
    return empty((), dtype=dtype or get_default_dtype(), layout=layout, device=device).fill_(s)


def from_numpy(array: Any) -> Tensor:
    """A tensor over an ndarray's memory (`torch.from_numpy`). A read-only array gives a tensor that refuses writes.

    Raises TypeError for anything but an ndarray or for a dtype without counterpart, ValueError for negative or
    odd strides.

    Example:
        >>> import numpy as np, triten as tt
        >>> a = np.zeros(2, np.float32); t = tt.from_numpy(a); a[0] = 1
        >>> t
        tensor([1., 0.])
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
    dtype = from_numpy_dtype(array.dtype)
    if not array.dtype.isnative:
        raise ValueError("given numpy array has byte order different from the native byte order.")
    itemsize = dtype.itemsize
    if any(s < 0 for s in array.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative strides are not "
            "supported. (You can probably work around this by making a copy of your array with array.copy().)"
        )
    if any(s % itemsize for s, n in zip(array.strides, array.shape, strict=True) if n > 1):
        raise ValueError("given numpy array strides not a multiple of the element byte size. Copy it first.")
    strides = tuple(s // itemsize for s in array.strides)
    spec = TensorSpec.of(
        array.shape,
        strides,
        dtype,
        CPU,
        is_inference=is_inference_mode_enabled(),
        read_only=not array.flags.writeable,
    )
    plain = array if type(array) is np.ndarray else array.view(np.ndarray)
    made: Tensor = Tensor.from_data(plain, spec)
    return made


def _infer_dtype(data: Any) -> ScalarType | None:
    """The dtype of nested Python numbers: the widest kind among them; None for no numbers."""
    kind: type | None = None
    order: dict[type | None, int] = {None: -1, bool: 0, int: 1, float: 2, complex: 3}
    stack = [data]
    while stack:
        value = stack.pop()
        if isinstance(value, list | tuple):
            stack.extend(value)
            continue
        found: type
        if isinstance(value, TensorImpl):
            return value._spec.dtype if kind is None else None
        if isinstance(value, bool | np.bool_):
            found = bool
        elif isinstance(value, int | np.integer):
            found = int
        elif isinstance(value, float | np.floating):
            found = float
        elif isinstance(value, complex | np.complexfloating):
            found = complex
        else:
            raise TypeError(f"tensor(): could not infer dtype of {type(value).__name__}")
        if order[found] > order[kind]:
            kind = found
    return None if kind is None else dtype_of_number(kind)


def _check_shape(data: Any, depth: int = 0) -> tuple[int, ...]:
    """The shape of nested sequences. Raises ValueError where their lengths differ."""
    if not isinstance(data, list | tuple):
        return tuple(data._spec.sizes) if isinstance(data, TensorImpl) else np.shape(data)
    if not data:
        return (0,)
    first = _check_shape(data[0], depth + 1)
    for element in data:
        have = _check_shape(element, depth + 1)
        if have != first:
            expected = first[0] if first else 0
            got = have[0] if have else 0
            raise ValueError(f"expected sequence of length {expected} at dim {depth + 1} (got {got})")
    return (len(data), *first)


def tensor(
    data: Any,
    *,
    dtype: ScalarType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A new tensor that holds a copy of `data`: numbers, nested sequences, an ndarray, a tensor (`torch.tensor`).

    Raises TypeError for data that are no numbers, ValueError for ragged sequences.

    Example:
        >>> import triten as tt
        >>> tt.tensor([[1, 2], [3, 4]]).dtype
        triten.int64
    """
    if dtype is not None and not isinstance(dtype, ScalarType):
        raise TypeError(f"tensor(): argument 'dtype' must be dtype, not {type(dtype).__name__}")
    made: Any
    if isinstance(data, Tensor):
        made = data.detach().clone()
        if dtype is not None or device is not None:
            made = made.to(device=None if device is None else Device(device), dtype=dtype)
    else:
        if isinstance(data, np.ndarray | np.generic):
            array = np.array(data)
            if array.dtype.kind in "OUSV" and array.dtype.itemsize > 2:
                from_numpy_dtype(array.dtype)
        else:
            if not isinstance(data, list | tuple | bool | int | float | complex):
                if hasattr(data, "__array__"):
                    return tensor(np.asarray(data), dtype=dtype, device=device, requires_grad=requires_grad)
                raise TypeError(f"tensor(): could not infer dtype of {type(data).__name__}")
            inferred = _infer_dtype(data)
            chosen = dtype or inferred or get_default_dtype()
            shape = _check_shape(data)
            plain = _plain(data)
            if inferred is int64 and chosen.is_integral and _overflows(plain, chosen):
                raise RuntimeError(f"value cannot be converted to type {chosen.name} without overflow")
            array = np.array(plain, dtype=chosen.np).reshape(shape)
        array = np.ascontiguousarray(array).reshape(array.shape)
        made = from_numpy(array)
        if not array.flags.owndata:
            made = made.clone()
        if (dtype is not None and made.dtype is not dtype) or device is not None:
            made = made.to(device=None if device is None else Device(device), dtype=dtype)
    if requires_grad:
        made.requires_grad_()
    return made  # type: ignore[no-any-return]


def _plain(data: Any) -> Any:
    if isinstance(data, list | tuple):
        return [_plain(v) for v in data]
    return data.tolist() if isinstance(data, TensorImpl) and hasattr(data, "tolist") else data


def _overflows(values: Any, dtype: ScalarType) -> bool:
    limits = np.iinfo(dtype.np)
    stack = [values]
    while stack:
        value = stack.pop()
        if isinstance(value, list):
            stack.extend(value)
        elif not limits.min <= int(value) <= limits.max:
            return True
    return False


def as_tensor(data: Any, dtype: ScalarType | None = None, device: Any = None) -> Tensor:
    """`data` as a tensor, sharing memory where it can (`torch.as_tensor`)."""
    made: Any
    if isinstance(data, Tensor):
        made = data
    elif isinstance(data, np.ndarray):
        made = from_numpy(data)
    else:
        return tensor(data, dtype=dtype, device=device)
    if dtype is not None or device is not None:
        made = made.to(device=None if device is None else Device(device), dtype=dtype)
    return made  # type: ignore[no-any-return]
