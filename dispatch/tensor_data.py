"""Construction of tensors from Python and NumPy data (torch/csrc/utils/tensor_new.cpp)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np

from ..runtime.device import CPU, get_default_device
from ..runtime.device import device as Device
from ..runtime.exponent_format import to_exponents
from ..runtime.grad_mode import is_inference_mode_enabled
from ..runtime.local_dispatch_key_set import modes
from ..runtime.scalar_type import (
    EXPONENTS,
    PACKED,
    SUB_BYTE,
    bool_,
    complex128,
    dtype_of_number,
    float32,
    float64,
    from_numpy_dtype,
    get_default_dtype,
    int64,
    integer_limits,
)
from ..runtime.scalar_type import dtype as ScalarType
from ..runtime.storage import Storage, TypedStorageBase, untyped_bytes
from ..runtime.tensor_impl import TensorImpl
from ..runtime.tensor_spec import TensorSpec
from ..runtime.traceback_filter import api_boundary, hide_inner_frames
from ..runtime.user_frame import levels_to_user
from ..runtime.version_cell import lend
from .core.factory_options import check_flags, check_requires_grad
from .core.op_overload import find_overload
from .iterator.type_promotion import promote_types
from .scalars import overflow_error
from .tensor import Tensor, blank_tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..runtime.device import DeviceLike

_FOREIGN_ORDER = "given numpy array has byte order different from the native byte order."
_PYTHON_NUMBERS = (bool, int, float, complex)
_NO_SEQUENCES = (str, bytes, dict, np.generic, TensorImpl)
_TRUSTED = frozenset({list, tuple, range, np.ndarray})
"""Sequence classes whose length is reliable."""
MAX_DIMENSIONS = 64
"""Maximum number of dimensions of an ndarray."""


def from_numpy(array: NDArray[Any]) -> Tensor:
    """Return a tensor that shares an ndarray's memory (`torch.from_numpy`).

    Args:
        array: An ndarray; a read-only one gives a tensor that refuses writes.

    Returns:
        A tensor of the same shape and dtype; writes to one are seen in the other. Its storage cannot be resized.

    Raises:
        TypeError: `array` is not an ndarray, or its dtype has no counterpart.
        ValueError: A stride is negative or no multiple of the element's size.

    Example:
        >>> import numpy as np, triten as tt
        >>> a = np.zeros(2, np.float32); t = tt.from_numpy(a); a[0] = 1
        >>> t
        tensor([1., 0.])
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
    made = _over_array(array)
    lend(made)
    return made


def _over_array(array: NDArray[Any]) -> Tensor:
    """Return `from_numpy` of an array, whose storage may be resized."""
    if not array.dtype.isnative:
        raise ValueError(_FOREIGN_ORDER)
    dtype = from_numpy_dtype(array.dtype)
    itemsize = dtype.itemsize
    if any(s < 0 for s in array.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative strides "
            "are not supported. (You can probably work around this by making a copy of your array with "
            "array.copy().)"
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


def _leaves(data: Any) -> tuple[tuple[int, ...], list[Any]]:
    """Return the shape of nested sequences and their elements, level by level.

    Raises ValueError for unequal lengths or too many levels, as in a list that contains itself. Raises TypeError for
    a number next to a sequence.
    """
    shape: list[int] = []
    level = [data]
    while level and (types := set(map(type, level))) and any(_is_sequence(t) for t in types):
        if any(issubclass(t, np.ndarray) for t in types):
            # An array without dimensions is a number.
            level = [e[()] if isinstance(e, np.ndarray) and not e.ndim else e for e in level]
            types = set(map(type, level))
            if not any(_is_sequence(t) for t in types):
                break
        for element in level:
            if not _is_sequence(type(element)):
                if any(each is inner for each in level if type(each) in _TRUSTED for inner in each):
                    raise TypeError("new(): self-referential lists are incompatible")
                if _is_sequence(type(level[0])):
                    raise TypeError("not a sequence")
                sequence_type = next(type(e) for e in level if _is_sequence(type(e)))
                raise TypeError(f"'{sequence_type.__name__}' object cannot be interpreted as a number")
        length = len(level[0])
        for element in level:
            if len(element) != length:
                raise ValueError(
                    f"expected sequence of length {length} at dim {len(shape)} (got {len(element)})"
                )
        if not types <= _TRUSTED:
            level = [_items(element, length, len(shape)) for element in level]
        shape.append(length)
        if len(shape) == 2:  # before levels grow without bound; most data have no more
            _check_depth(data)
        level = list(chain.from_iterable(level))
    return tuple(shape), level


def _check_depth(data: Any) -> None:
    """Raise an error for more levels of first elements than a tensor has dimensions. No other element
    may lie deeper.
    """
    for _ in range(MAX_DIMENSIONS):
        kind = type(data)
        if not _is_sequence(kind) or (isinstance(data, np.ndarray) and not data.ndim) or not len(data):
            return
        data = _first_of(data)
    if _is_sequence(type(data)):
        raise ValueError(f"too many dimensions '{type(data).__name__}'")


def _first_of(sequence: Any) -> Any:
    try:
        return sequence[0]
    except Exception as error:
        kind = type(sequence).__name__
        raise ValueError(f"could not determine the shape of object type '{kind}'") from error


def _items(sequence: Any, length: int, dim: int) -> Sequence[Any]:
    """Return the elements of a user-defined sequence. Raises ValueError if it has more than its length."""
    if type(sequence) in _TRUSTED:
        return sequence  # type: ignore[no-any-return]
    elements = [sequence[i] if i else _first_of(sequence) for i in range(length)]
    rest = list(islice(iter(sequence), length, length + 1))
    if rest:
        raise ValueError(f"expected sequence of length {length} at dim {dim} (got {length + 1})")
    return elements


def _is_sequence(kind: type) -> bool:
    """Return whether a class is an indexable sequence (PySequence_Check) other than numbers, tensors and strings."""
    if kind is list or kind is tuple:
        return True
    return hasattr(kind, "__getitem__") and not issubclass(kind, _NO_SEQUENCES)


def _dtype_of(leaves: list[Any], shape: Sequence[int] = ()) -> ScalarType:
    """Return the promoted dtype of elements of these classes; the default dtype for none."""
    common: ScalarType | None = None
    for kind in set(map(type, leaves)):
        if kind in _PYTHON_NUMBERS:
            dtypes = {dtype_of_number(kind)}
        elif issubclass(kind, np.generic):
            dtypes = {from_numpy_dtype(leaf.dtype) for leaf in leaves if type(leaf) is kind}
        elif issubclass(kind, TensorImpl):
            dtypes = {leaf._spec.dtype for leaf in leaves if type(leaf) is kind}
        elif issubclass(kind, str | bytes):
            if shape and isinstance(leaves[0], str):
                raise ValueError("too many dimensions 'str'")
            raise TypeError(f"new(): invalid data type '{kind.__name__}'")
        else:
            base = next((number for number in _PYTHON_NUMBERS if issubclass(kind, number)), None)
            if base is None:
                raise RuntimeError(f"Could not infer dtype of {kind.__name__}")
            dtypes = {dtype_of_number(base)}
        for dtype in dtypes:
            common = dtype if common is None else promote_types(common, dtype)
    return get_default_dtype() if common is None else common


def _array_of(data: Any, dtype: ScalarType | None) -> NDArray[Any]:
    """Return nested numbers as a new ndarray."""
    shape, leaves = _leaves(data)
    inferred = _dtype_of(leaves, shape)
    chosen = inferred if dtype is None else dtype
    if any(issubclass(kind, TensorImpl) for kind in set(map(type, leaves))):
        leaves = [_number_in(leaf) if isinstance(leaf, TensorImpl) else leaf for leaf in leaves]
    kinds = set(map(type, leaves))
    if chosen.is_complex:
        with np.errstate(all="ignore"):
            return np.array(leaves, np.complex128).astype(chosen.np).reshape(shape)
    if chosen.name == "bool":
        return np.array([bool(v) for v in leaves], np.bool_).reshape(shape)
    if any(issubclass(kind, complex | np.complexfloating) for kind in kinds):
        target = "interpreted as an integer" if chosen.is_integral else "converted to a real number"
        raise TypeError(f"'complex' object cannot be {target}")
    if chosen in SUB_BYTE:
        raise RuntimeError(f"a tensor of {chosen} is not made of numbers: view a tensor of uint8")
    if chosen is PACKED:
        raise RuntimeError(
            f"a tensor of {chosen} is not made of numbers: view one of bytes, two numbers each"
        )
    if chosen.is_floating_point:
        with np.errstate(all="ignore"):
            if chosen is EXPONENTS:
                powers: NDArray[Any] = to_exponents(np.array(leaves, np.float64).astype(np.float32))
                return powers.reshape(shape)
            return np.array(leaves, np.float64).astype(chosen.np).reshape(shape)
    return _integers(leaves, chosen).reshape(shape)


_QUICK = frozenset({float, int, bool, list, tuple})
"""Classes of data that `_quick_array` accepts."""


def _load_quiet(function: Callable[..., Any], *args: Any) -> Any:
    from ..runtime.float_errors import run_quiet

    _quiet[0] = run_quiet
    return run_quiet(function, *args)


_quiet: list[Callable[..., Any]] = [_load_quiet]
"""The context manager that ignores floating-point errors, imported on first use."""

_NOT_QUICK: tuple[None, None] = (None, None)


def _quick_array(data: Any, dtype: ScalarType | None) -> tuple[Any, TensorSpec | None]:
    """Return the array and spec of numbers of one class: alone, in a sequence, or in sequences of one length.

    The result equals that of `_array_of`. Return neither for other data, for conversions to another kind of number,
    and if NumPy raises.
    """
    kind = type(data)
    if kind is list or kind is tuple:
        kinds = set(map(type, data))
        if len(kinds) != 1:
            return _NOT_QUICK
        kind = kinds.pop()
        if kind is list or kind is tuple:
            if len(set(map(len, data))) != 1:
                return _NOT_QUICK
            kinds = set(map(type, chain.from_iterable(data)))
            if len(kinds) != 1:
                return _NOT_QUICK
            kind = kinds.pop()
    if kind is float:
        dtype = get_default_dtype() if dtype is None else dtype
        if dtype is not float32 and dtype is not float64:
            return _NOT_QUICK
    elif kind is int or kind is bool:
        own = int64 if kind is int else bool_
        if dtype is not None and dtype is not own:
            return _NOT_QUICK
        dtype = own
    else:
        return _NOT_QUICK
    try:
        array = _quiet[0](np.array, data, dtype.np)
    except (RuntimeError, OverflowError):
        return _NOT_QUICK
    return array, TensorSpec.contiguous(array.shape, dtype, CPU)


def _integers(leaves: list[Any], dtype: ScalarType) -> NDArray[Any]:
    """Convert elements to integers: floats are truncated, negative ones wrap for an unsigned dtype."""
    limits = integer_limits(dtype)
    if any(issubclass(kind, float | np.floating) for kind in set(map(type, leaves))):
        array = np.array(leaves, np.float64)
        if not ((array >= float(limits.min)) & (array <= float(limits.max)) & (array < 2.0**64)).all():
            raise overflow_error(dtype)
        array = array.astype(np.int64)
    else:
        try:
            array = np.array(leaves, np.int64)
        except OverflowError:
            if dtype.name != "uint64":
                raise ValueError("Overflow when unpacking long long") from None
            array = np.array(leaves, np.uint64)
    if array.size:
        least = -int(limits.max) if limits.min == 0 else int(limits.min)
        if int(array.min()) < least or int(array.max()) > int(limits.max):
            raise overflow_error(dtype)
    return array.astype(dtype.np)


def _number_in(tensor: Any) -> Any:
    if tensor._spec.numel != 1:
        raise ValueError("only one element tensors can be converted to Python scalars")
    if modes:
        from .layers.python_key import without_modes

        # Modes see the resulting tensor, not the reads.
        with without_modes():
            return tensor.item()
    return tensor.item()


_OF_PYTHON_TYPES: dict[Any, ScalarType] = {bool: bool_, int: int64, float: float64, complex: complex128}


def _checked_dtype(name: str, dtype: Any) -> ScalarType | None:
    """Return a given dtype, or that of a Python number type. Raises TypeError for anything else."""
    if dtype is None or isinstance(dtype, ScalarType):
        return dtype
    if isinstance(dtype, type) and dtype in _OF_PYTHON_TYPES:
        return _OF_PYTHON_TYPES[dtype]
    raise TypeError(f"{name}(): argument 'dtype' must be triten.dtype, not {type(dtype).__name__}")


def tensor(
    data: Any,
    *,
    dtype: ScalarType | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    names: Sequence[str | None] | None = None,
) -> Tensor:
    """Return a new tensor with a copy of numbers, nested sequences, an ndarray or a tensor (`torch.tensor`).

    Args:
        data: The data to copy; for a tensor, the result is a detached copy. A storage is not copied: the result is a
            view of all its bytes, as int64 if `dtype` is None.
        dtype: The dtype; by default that of the widest element: bool, int64, the default dtype for floats, its
            complex one for complex numbers. NumPy numbers and arrays keep theirs.
        device: The result's device; by default `tt.get_default_device()`, of a tensor its own.
        requires_grad: If True, autograd records operations on the result.
        pin_memory: If True, place the result in pinned memory, from which copies to a GPU may overlap with other
            work.
        names: Names of the dimensions.

    Returns:
        A tensor of `data`'s shape.

    Raises:
        ValueError: A sequence is ragged, or an integer is beyond 64 bits.
        TypeError: An element is a string, or a number appears next to a sequence.
        RuntimeError: `data` is another object, or a value is out of an integral dtype's range.

    Example:
        >>> import triten as tt
        >>> tt.tensor([[1, 2], [3, 4]]).dtype
        triten.int64
    """
    if (
        device is None
        and type(data) in _QUICK
        and get_default_device() is CPU
        and names is None
        and not pin_memory
        and not modes
    ):
        array: Any
        spec: TensorSpec | None
        if dtype is None and type(data) is float and -1e4 < data < 1e4:
            spec = TensorSpec.of((), (), get_default_dtype(), CPU)
            array = np.array(data, spec.np_dtype)
        else:
            array, spec = _quick_array(data, dtype)
        if spec is not None:
            quick: Any = blank_tensor()
            quick._data = array
            quick._spec = spec
            quick._version_cell = quick._autograd = quick._view_base = None
            if requires_grad is False:
                return quick  # type: ignore[no-any-return]
            if requires_grad is not True:
                check_flags("tensor", requires_grad=requires_grad)
            return quick._set_requires_grad()  # type: ignore[no-any-return]
    try:
        check_flags("tensor", requires_grad=requires_grad, pin_memory=pin_memory)
        dtype = _checked_dtype("tensor", dtype)
        where = None if device is None else Device(device)
        made: Any
        if isinstance(data, TensorImpl):
            source: Any = data
            warn_of_copy("tensor")
            made = source.detach().to(device=where, dtype=dtype, copy=True)
        elif isinstance(data, Storage | TypedStorageBase):
            made = _over_storage(data, dtype).to(device=where)
        elif shows_device_memory(data):
            made = _over_device_memory(data).to(device=where, dtype=dtype, copy=True)
        else:
            if isinstance(data, np.ndarray | np.generic):
                if not data.dtype.isnative:
                    raise ValueError(_FOREIGN_ORDER)
                from_numpy_dtype(data.dtype)
                array = np.array(data, order="C")
            elif _exports_array(data):
                array = np.array(np.asarray(data), order="C")
            else:
                array = _array_of(data, dtype)
            made = _placed(_over_own(array), dtype, where)
            if modes:
                from .layers.python_key import sees_whole

                # A graph should make the tensor at each run, instead of keeping the recorded one.
                made = find_overload("aten::lift_fresh" if sees_whole() else "aten::lift_fresh_copy")(made)
        if pin_memory:
            made = made.pin_memory()
        if names is not None:
            made.names = names
        if requires_grad:
            made._set_requires_grad()
        return made  # type: ignore[no-any-return]
    except BaseException:
        hide_inner_frames()
        raise


def warn_of_copy(name: str) -> None:
    """Warn of a tensor copied by a constructor for numbers; `clone` is the intended call."""
    warnings.warn(
        "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
        f"sourceTensor.detach().clone().requires_grad_(True), rather than {name}(sourceTensor).",
        UserWarning,
        stacklevel=levels_to_user(),
    )


def _exports_array(data: Any) -> bool:
    """Return whether an object other than a number or sequence exports its elements to NumPy."""
    return hasattr(data, "__array__") and not isinstance(data, list | tuple | bool | int | float | complex)


def shows_device_memory(data: Any) -> bool:
    """Return whether a non-tensor object exports memory of a CUDA device, as CuPy's arrays do."""
    return not isinstance(data, TensorImpl | np.ndarray) and hasattr(data, "__cuda_array_interface__")


def _over_device_memory(data: Any) -> Any:
    """Return a tensor over an object's exported memory, which lives as long as the tensor."""
    from ..runtime.cuda.array_interface import imported

    pointer, spec = imported(data)
    return Tensor.from_data(pointer, spec.replace(is_inference=is_inference_mode_enabled()))


def _over_storage(source: Storage | TypedStorageBase, dtype: ScalarType | None) -> Any:
    """Return a view of a storage's whole elements: of its own dtype if it has one, of int64 by default."""
    if dtype is None:
        dtype = source.dtype if isinstance(source, TypedStorageBase) else int64
    storage = untyped_bytes(source, dtype)
    made = find_overload("aten::empty.memory_format")((0,), dtype=dtype, device=storage.device)
    return made.set_(storage, 0, (storage.nbytes() // dtype.itemsize,), (1,))


def _over_own(array: NDArray[Any]) -> Tensor:
    """Return a contiguous tensor over an unshared array, or over a copy if it is a view of a temporary."""
    if array.size == 0:
        # NumPy gives empty arrays strides of 0.
        result: Tensor = find_overload("aten::empty.memory_format")(
            array.shape, dtype=from_numpy_dtype(array.dtype), device=CPU
        )
        return result
    return _over_array(array if array.flags.owndata else array.copy())


def _placed(made: Tensor, dtype: ScalarType | None, device: Device | None) -> Tensor:
    device = get_default_device() if device is None else device
    if dtype is None and device is CPU:
        return made
    return made.to(device=device, dtype=dtype)


def as_tensor(data: Any, dtype: ScalarType | None = None, device: DeviceLike = None) -> Tensor:
    """Convert data to a tensor, sharing memory and history if nothing changes (`torch.as_tensor`).

    Args:
        data: A tensor, an ndarray, or what `tt.tensor` takes. An object with ``__cuda_array_interface__`` gives a
            tensor on its device, whose current stream waits for the stream that the object names.
        dtype: The result's dtype; by default that of `data`.
        device: The result's device; by default that of `data`, or `tt.get_default_device()`.

    Returns:
        A tensor; `data` itself if it is one of that dtype and device.

    Example:
        >>> import numpy as np, triten as tt
        >>> a = np.zeros(2); tt.as_tensor(a).fill_(1)
        tensor([1., 1.], dtype=triten.float64)
        >>> a
        array([1., 1.])
    """
    try:
        dtype = _checked_dtype("as_tensor", dtype)
        made: Any
        if isinstance(data, TensorImpl):
            made = data
            if dtype is None and device is None:
                return made  # type: ignore[no-any-return]
            return made.to(device=None if device is None else Device(device), dtype=dtype)  # type: ignore[no-any-return]
        if shows_device_memory(data):
            made = _over_device_memory(data)
            return made.to(device=None if device is None else Device(device), dtype=dtype)  # type: ignore[no-any-return]
        if isinstance(data, np.ndarray) or _exports_array(data):
            made = from_numpy(np.asarray(data))
            return _placed(made, dtype, None if device is None else Device(device))
        return tensor(data, dtype=dtype, device=device)
    except BaseException:
        hide_inner_frames()
        raise


@api_boundary
def asarray(
    obj: Any,
    *,
    dtype: ScalarType | None = None,
    device: DeviceLike = None,
    copy: bool | None = None,
    requires_grad: bool | None = None,
) -> Tensor:
    """Convert data to a tensor that shares its memory if possible (`torch.asarray`).

    Args:
        obj: A tensor, an ndarray, what `tt.tensor` takes, a storage, a DLPack capsule, or bytes. An object with
            Python's buffer protocol that is no sequence of numbers holds elements of `dtype`, by default the default
            dtype.
        dtype: The result's dtype; by default that of `obj`.
        device: The result's device; by default that of `obj`, or `tt.get_default_device()`.
        copy: True copies always, False never; None copies where it has to.
        requires_grad: If True, the result requires grad; by default it does as `obj` does, with its history.

    Returns:
        A tensor.

    Raises:
        ValueError: ``copy=False`` is impossible, or the bytes are not a whole number of elements.

    Example:
        >>> import triten as tt
        >>> x = tt.zeros(2)
        >>> tt.asarray(x).data_ptr() == x.data_ptr(), tt.asarray(x, copy=True).data_ptr() == x.data_ptr()
        (True, False)
    """
    check_requires_grad("asarray", requires_grad)
    if copy is not None:
        check_flags("asarray", copy=copy)
    dtype = _checked_dtype("asarray", dtype)
    made: Any
    if isinstance(obj, Storage | TypedStorageBase):
        obj, dtype = _over_storage(obj, dtype), None
    elif type(obj).__name__ == "PyCapsule":
        from ..runtime.dlpack.imported import taken

        obj = Tensor.from_data(*taken(obj, is_inference=is_inference_mode_enabled()))
    if isinstance(obj, bytes | bytearray | memoryview):
        return _of_bytes(obj, dtype or get_default_dtype(), device, copy, bool(requires_grad))
    if copy and isinstance(obj, TensorImpl):
        source: Any = obj
        made = source.to(device=None if device is None else Device(device), dtype=dtype, copy=True)
    elif copy:
        made = tensor(obj, dtype=dtype, device=device)
    else:
        made = as_tensor(obj, dtype, device)
        if copy is False and not _shares(made, obj):
            raise _alias_error(obj, made)
    if requires_grad is None:
        requires_grad = isinstance(obj, TensorImpl) and obj._spec.requires_grad
    if requires_grad:
        return made._set_requires_grad()  # type: ignore[no-any-return]
    return made.detach() if made._spec.requires_grad else made  # type: ignore[no-any-return]


def _of_bytes(data: Any, dtype: ScalarType, device: Any, copy: bool | None, requires_grad: bool) -> Tensor:
    """Return a vector of `dtype` over the memory of bytes; for read-only memory, a tensor that rejects writes."""
    view = memoryview(data).cast("B")
    if len(view) % dtype.itemsize:
        raise ValueError(
            f"buffer length ({len(view)} bytes) after offset (0 bytes) must be a multiple of element size "
            f"({dtype.itemsize})"
        )
    made: Tensor = from_numpy(np.frombuffer(view, dtype.np))
    where = None if device is None else Device(device)
    if copy:
        made = made.to(device=where, copy=True)
    elif where is not None and where is not CPU:
        if copy is False:
            raise ValueError(f"can't alias tensor from device 'cpu' to '{where}'.")
        made = made.to(device=where)
    return made._set_requires_grad() if requires_grad else made


def _alias_error(obj: Any, made: Tensor) -> Exception:
    """Return the error of `asarray(obj, copy=False)`, which made a copy."""
    if isinstance(obj, np.generic):
        return RuntimeError(
            "can't alias NumPy scalars. Either remove copy=False or transform it in a ndarray."
        )
    if not isinstance(obj, TensorImpl | np.ndarray):
        return ValueError("can't alias arbitrary sequence into a tensor.")
    source: Any = obj if isinstance(obj, TensorImpl) else _over_array(obj)
    if source.device != made.device:
        return ValueError(f"can't alias tensor from device '{source.device}' to '{made.device}'.")
    source_dtype, result_dtype = source.dtype.scalar_name, made.dtype.scalar_name
    return ValueError(f"can't alias tensor with dtype '{source_dtype}' into dtype '{result_dtype}'.")


def _shares(made: Tensor, obj: NDArray[Any] | Sequence[int]) -> bool:
    if isinstance(obj, TensorImpl):
        return made._data is obj._data
    if shows_device_memory(obj):
        return made._spec.device.type == "cuda" and made._data.root.context is obj
    return isinstance(obj, np.ndarray) and made._data is obj
