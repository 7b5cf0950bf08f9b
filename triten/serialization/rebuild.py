"""Construction of tensors from a file's data. Every argument is checked before memory is touched.

The functions stand for those of PyTorch's `torch._utils` whose names are in files. Each takes the load's state and the
arguments of the file as one tuple. An argument of another kind than PyTorch writes raises UnpicklingError, a geometry
that is negative, does not fit 64 bits or reaches outside its storage RuntimeError.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pickle import UnpicklingError
from typing import Any

from ..dispatch.autograd.grad_mode import no_grad
from ..dispatch.generated import functions as _ops
from ..dispatch.layers.python_key import detached_subclass
from ..dispatch.methods.pickling import _rebuilt
from ..dispatch.methods.quantized_pickling import rebuilt_quantized
from ..dispatch.methods.typed_storage import TypedStorage
from ..dispatch.methods.untyped_storage import UntypedStorage
from ..dispatch.tensor import Tensor
from ..nn.modules.parameter import Buffer, Parameter
from ..nn.modules.uninitialized import UninitializedBuffer, UninitializedParameter
from ..runtime.allocator import storage_size
from ..runtime.device import device as Device
from ..runtime.instance_attributes import added_slots
from ..runtime.layout import sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr, strided
from ..runtime.qscheme import per_channel_affine, per_channel_affine_float_qparams, per_tensor_affine
from ..runtime.quantized_data import INTEGERS
from ..runtime.scalar_type import dtype as ScalarType
from ..runtime.scalar_type import quint4x2, uint8
from ..runtime.size import Size
from ..runtime.tensor_spec import MAX_DIMS
from .limits import Limits

MAX_DEVICE = 64
"""Characters of a device's name."""
MAX_BYTES = 2**63 - 1
LAYOUTS = {
    f"torch.{layout.name}": layout
    for layout in (strided, sparse_coo, sparse_csr, sparse_csc, sparse_bsr, sparse_bsc)
}

SCHEMES = (per_tensor_affine, per_channel_affine, per_channel_affine_float_qparams)
"""The quantization schemes that tensors have."""


class Load:
    """State of one call of `load` that rebuilding needs.

    Attributes:
        limits: The remaining budget.
        classes: The classes that the user allowed; None if the file is trusted.
        pending: Tensors to compute after the objects, if storages get their bytes last.
    """

    __slots__ = ("classes", "limits", "pending")

    def __init__(self, limits: Limits, classes: Sequence[Any] | None, deferred: bool) -> None:
        self.limits = limits
        self.classes = classes
        self.pending: list[Callable[[], object]] | None = [] if deferred else None

    def finish(self) -> None:
        """Compute what waited for bytes."""
        for compute in self.pending or ():
            compute()


Rebuild = Callable[[Load, tuple[Any, ...]], Any]


def arguments(name: str, args: object, *counts: int) -> tuple[Any, ...]:
    """Check the arguments of a call.

    Raises:
        UnpicklingError: `args` is not a tuple of one of these lengths.
    """
    if type(args) is not tuple or len(args) not in counts:
        received = f"{len(args)} of them" if type(args) is tuple else f"'{type(args).__name__}'"
        raise UnpicklingError(
            f"{name}: a tuple of {' or '.join(map(str, counts))} arguments expected, got {received}"
        )
    return args


def of_kind(name: str, argument: str, value: Any, *kinds: type) -> Any:
    """Check a value's type.

    Raises:
        UnpicklingError: The type is not exactly one of `kinds`.
    """
    if type(value) not in kinds:
        expected = " or ".join(kind.__name__ for kind in kinds)
        raise UnpicklingError(f"{name}: argument '{argument}' must be {expected}, not {type(value).__name__}")
    return value


def device_of(name: str, value: Any, *index: Any) -> Device:
    """Return the device of a name.

    Raises:
        RuntimeError: There is no device of this name.
    """
    of_kind(name, "device", value, str, Device)
    for each in index:
        of_kind(name, "index", each, int, type(None))
    if type(value) is str and len(value) > MAX_DEVICE:
        raise RuntimeError(f"{name}: the name of the device is too long")
    return Device(value, *index)


def checked_geometry(
    name: str, offset: Any, size: Any, stride: Any, itemsize: int, nbytes: int | None
) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Check a tensor's geometry, and return its offset in bytes, sizes and strides.

    The tensor is over `nbytes` bytes, or without bounds if None.

    Raises:
        RuntimeError: A number is negative or too large, or the tensor exceeds the storage.
    """
    of_kind(name, "storage_offset", offset, int)
    sizes, strides = (
        tuple(of_kind(name, label, value, tuple, list, Size))
        for label, value in (("size", size), ("stride", stride))
    )
    if len(sizes) > MAX_DIMS or len(sizes) != len(strides):
        raise RuntimeError(
            f"{name}: at most {MAX_DIMS} sizes and as many strides expected, got {len(sizes)} and {len(strides)}"
        )
    for label, numbers in (("size", sizes), ("stride", strides), ("storage_offset", (offset,))):
        for number in numbers:
            if of_kind(name, label, number, int) < 0:
                raise RuntimeError(f"{name}: argument '{label}' must not be negative")
            if number.bit_length() > 63 or number * itemsize > MAX_BYTES:
                raise RuntimeError(f"{name}: argument '{label}' must fit 64 bits, in bytes")
    if math.prod(max(each, 1) for each in sizes) * itemsize > MAX_BYTES:
        raise RuntimeError(f"{name}: the product of the sizes {list(sizes)} overflows")
    span = storage_size(sizes, strides) * itemsize
    if span > MAX_BYTES or (nbytes is not None and span and offset * itemsize + span > nbytes):
        raise RuntimeError(
            f"setStorage: sizes {list(sizes)}, strides {list(strides)}, storage offset {offset}, and itemsize "
            f"{itemsize} requiring a storage size of {offset * itemsize + span} are out of bounds for storage of size "
            f"{nbytes}"
        )
    return offset * itemsize, sizes, strides


def rebuild_tensor(load: Load, args: tuple[Any, ...]) -> Tensor:
    """Rebuild a tensor of its storage's dtype: ``torch._utils._rebuild_tensor`` and ``_rebuild_tensor_v2``."""
    name = "_rebuild_tensor_v2"
    storage, offset, size, stride, *rest = arguments(name, args, 4, 6, 7)
    requires_grad, _, metadata = (*rest, None)[:3] if rest else (False, None, None)
    dtype = storage.dtype if type(storage) is TypedStorage else None
    return _tensor(load, name, storage, offset, size, stride, requires_grad, dtype or uint8, metadata)


def rebuild_tensor_v3(load: Load, args: tuple[Any, ...]) -> Tensor:
    """Rebuild a tensor of a given dtype: ``torch._utils._rebuild_tensor_v3``."""
    name = "_rebuild_tensor_v3"
    storage, offset, size, stride, requires_grad, _, dtype, *rest = arguments(name, args, 7, 8)
    of_kind(name, "dtype", dtype, ScalarType)
    return _tensor(load, name, storage, offset, size, stride, requires_grad, dtype, *rest)


def rebuild_qtensor(load: Load, args: tuple[Any, ...]) -> Tensor:
    """Rebuild a quantized tensor from its quantizer: ``torch._utils._rebuild_qtensor``.

    Raises:
        UnpicklingError: The dtype is not quantized, or the quantizer is invalid.
    """
    name = "_rebuild_qtensor"
    storage, offset, size, stride, parts, requires_grad, *_ = arguments(name, args, 7)
    of_kind(name, "storage", storage, TypedStorage)
    of_kind(name, "quantizer_params", parts, tuple)
    of_kind(name, "requires_grad", requires_grad, bool)
    dtype = storage.dtype
    if dtype not in INTEGERS:
        raise UnpicklingError(f"{name}: {dtype} is no quantized dtype")
    sizes = checked_geometry(name, 0, size, stride, dtype.itemsize, None)[1]
    if dtype is quint4x2:
        size, stride = ((math.prod(sizes) + 1) // 2,), (1,)
    ints = _tensor(load, name, storage, offset, size, stride, False, INTEGERS[dtype])
    scheme, *rest = parts if parts else (None,)
    if scheme is per_tensor_affine and len(rest) == 2:
        of_kind(name, "scale", rest[0], float)
        of_kind(name, "zero_point", rest[1], int)
    elif scheme in SCHEMES and scheme is not per_tensor_affine and len(rest) == 3:
        scales, zero_points, axis = rest
        of_kind(name, "axis", axis, int)
        for each in (
            of_kind(name, "scales", scales, Tensor),
            of_kind(name, "zero_points", zero_points, Tensor),
        ):
            if not 0 <= axis < len(sizes) or tuple(each.shape) != (sizes[axis],):
                raise UnpicklingError(
                    f"{name}: expected {sizes} to have as many elements along dimension {axis} as there are scales and "
                    f"zero points, got {tuple(each.shape)}"
                )
        if zero_points.is_floating_point():
            scheme = per_channel_affine_float_qparams
    else:
        raise UnpicklingError(f"{name}: {parts!r:.100} is no quantizer")
    return rebuilt_quantized(ints, (scheme, *rest), dtype, sizes)  # type: ignore[no-any-return]


def _tensor(
    load: Load,
    name: str,
    storage: Any,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any,
    dtype: ScalarType,
    metadata: Any = None,
) -> Tensor:
    of_kind(name, "storage", storage, TypedStorage, UntypedStorage)
    of_kind(name, "requires_grad", requires_grad, bool)
    of_kind(name, "metadata", metadata, dict, type(None))
    geometry = checked_geometry(name, offset, size, stride, dtype.itemsize, storage.nbytes())
    made = _rebuilt(Tensor, storage.untyped(), geometry, dtype, False, None)
    # There are no lazily conjugated or negated tensors here.
    bits = [
        apply for bit, apply in (("conj", _ops.conj_physical), ("neg", _ops.neg)) if (metadata or {}).get(bit)
    ]
    if bits:
        made = _with_bits(load, made, bits)
    return made._set_requires_grad() if requires_grad else made


def _with_bits(load: Load, view: Tensor, bits: Sequence[Callable[[Tensor], Tensor]]) -> Tensor:
    """Conjugate or negate a view into new memory; elements repeated by stride 0 are computed once."""
    sizes = view.shape
    repeated = [stride == 0 and size > 0 for size, stride in zip(sizes, view.stride(), strict=True)]
    source = view[tuple(slice(0, 1) if each else slice(None) for each in repeated)] if repeated else view
    load.limits.compute(source.numel() * view.dtype.itemsize)
    target = _ops.empty_like(source)

    def compute() -> None:
        with no_grad():
            value = source
            for apply in bits:
                value = apply(value)
            target.copy_(value)

    if load.pending is None:
        compute()
    else:
        load.pending.append(compute)
    return target.expand(sizes) if any(repeated) else target


def rebuild_meta_tensor(load: Load, args: tuple[Any, ...]) -> Tensor:
    """Rebuild a meta tensor: ``torch._utils._rebuild_meta_tensor_no_storage``."""
    name = "_rebuild_meta_tensor_no_storage"
    dtype, size, stride, requires_grad = arguments(name, args, 4)
    of_kind(name, "dtype", dtype, ScalarType)
    of_kind(name, "requires_grad", requires_grad, bool)
    geometry = checked_geometry(name, 0, size, stride, dtype.itemsize, None)
    return _rebuilt(Tensor, Device("meta"), geometry, dtype, requires_grad, None)


def rebuild_parameter(load: Load, args: tuple[Any, ...]) -> Parameter:
    """Rebuild a parameter, also with a state: ``torch._utils._rebuild_parameter``. Hooks are not loaded."""
    name = "_rebuild_parameter"
    data, requires_grad, *rest = arguments(name, args, 2, 3, 4)
    if not isinstance(data, Tensor):
        of_kind(name, "data", data, Tensor)
    made = Parameter(data, of_kind(name, "requires_grad", requires_grad, bool))
    if len(rest) == 2:
        set_attributes(load, made, rest[1])
    return made


def rebuild_quantized(load: Load, args: tuple[Any, ...]) -> Tensor:
    """Rebuild a quantized tensor, whose class checks its parts.

    Raises:
        UnpicklingError: A size is negative, or the parts do not match the class.
    """
    from ..quantization.quantized_tensor import rebuilt

    name = "quantized tensor"
    kind, shape, dtype, transposed, parts, settings, is_parameter = arguments(name, args, 7)
    of_kind(name, "class", kind, str)
    of_kind(name, "dtype", dtype, ScalarType)
    for flag, value in (("transposed", transposed), ("is_parameter", is_parameter)):
        of_kind(name, flag, value, bool)
    for each in arguments(name, of_kind(name, "shape", shape, tuple), 2):
        if of_kind(name, "shape", each, int) < 0:
            raise UnpicklingError(f"{name}: sizes of 0 and more expected, got {each}")
    for part in of_kind(name, "parts", parts, tuple):
        of_kind(name, "part", part, Tensor)
    of_kind(name, "settings", settings, tuple)
    try:
        return rebuilt(kind, shape, dtype, transposed, parts, settings, is_parameter)
    except ValueError as error:
        raise UnpicklingError(str(error)) from None


def rebuild_from_type(load: Load, args: tuple[Any, ...]) -> Tensor:
    """Rebuild a tensor of another class, or with attributes: ``torch._tensor._rebuild_from_type_v2``.

    Raises:
        UnpicklingError: `func` is not a function that rebuilds a tensor.
    """
    name = "_rebuild_from_type_v2"
    function, kind, call, state = arguments(name, args, 4)
    if not any(function is each for each in PLAIN_TENSORS):
        raise UnpicklingError(f"{name}: argument 'func' must be a function that rebuilds a tensor")
    made: Tensor = function(load, of_kind(name, "args", call, tuple))
    if kind is Tensor and isinstance(state, Mapping) and state.get("_is_buffer") is True:
        return Buffer(made, persistent=state.get("persistent") is not False)
    if type(made) is not kind:
        made = _of_class(load, name, made, kind)
    own = getattr(kind, "__setstate__", None)
    if own is not None and state is not None:
        own(made, state)
    else:
        set_attributes(load, made, state)
    return made


def _of_class(load: Load, name: str, made: Tensor, kind: Any) -> Tensor:
    own = kind is Parameter or kind is Buffer
    allowed = own or load.classes is None or any(kind is each for each in load.classes)
    if not allowed or not isinstance(kind, type) or not issubclass(kind, Tensor):
        received = kind.__qualname__ if isinstance(kind, type) else f"a {type(kind).__name__}"
        raise UnpicklingError(f"{name}: a class of tensors that is allowed is expected, got {received}")
    turned = Buffer(made.detach()) if kind is Buffer else detached_subclass(made.detach(), kind)
    return turned._set_requires_grad() if made.requires_grad else turned


def set_attributes(load: Load, made: Tensor, state: Any) -> None:
    """Give a tensor of a user's class its attributes and the values of its slots.

    Raises:
        UnpicklingError: `Tensor` has an attribute of that name, or the class has no slot of that name.
    """
    if type(state) is tuple and len(state) == 2:
        state, slots = state
        if slots is not None:
            of_kind("load", "state", slots, dict)
            known = added_slots(type(made))
            for name, value in slots.items():
                if name not in known:
                    raise UnpicklingError(f"{type(made).__name__} has no slot {name!r:.100}")
                setattr(made, name, value)
    if state is None:
        return
    of_kind("load", "state", state, dict)
    load.limits.copy(len(state))
    for name in state:
        if type(name) is not str or hasattr(Tensor, name):
            raise UnpicklingError(f"a {type(made).__name__} takes no attribute {name!r:.100} from a file")
    vars(made).update(state)


def rebuild_own_tensor(load: Load, args: tuple[Any, ...]) -> Tensor:
    """Rebuild a tensor from triten's own pickles: a named tensor, or an instance of a subclass.

    Raises:
        UnpicklingError: A tensor that is not on meta has no storage, or the names are invalid.
        RuntimeError: The offset is not a multiple of the itemsize, or the geometry exceeds the storage.
    """
    name = "_rebuilt"
    kind, storage, geometry, dtype, requires_grad, names = arguments(name, args, 6)
    of_kind(name, "dtype", dtype, ScalarType)
    of_kind(name, "requires_grad", requires_grad, bool)
    offset, size, stride = of_kind(name, "geometry", arguments(name, geometry, 3), tuple)
    if of_kind(name, "offset", offset, int) % dtype.itemsize:
        raise RuntimeError(f"{name}: argument 'offset' must be a multiple of the itemsize {dtype.itemsize}")
    of_kind(name, "storage", storage, TypedStorage, UntypedStorage, Device)
    if isinstance(storage, Device) and storage.type != "meta":
        raise UnpicklingError(f"{name}: only a tensor on Meta has no storage")
    nbytes = None if isinstance(storage, Device) else storage.nbytes()
    if type(storage) is TypedStorage:
        storage = storage.untyped()
    bounds = checked_geometry(name, offset // dtype.itemsize, size, stride, dtype.itemsize, nbytes)
    if names is not None and not (
        type(names) is tuple
        and len(names) == len(bounds[1])
        and all(each is None or type(each) is str for each in names)
    ):
        raise UnpicklingError(f"{name}: argument 'names' must be a str or None for each dimension")
    made = _rebuilt(Tensor, storage, bounds, dtype, False, names)
    if kind is not Tensor:
        made = _of_class(load, name, made, kind)
    return made._set_requires_grad() if requires_grad else made


def rebuild_uninitialized_parameter(load: Load, args: tuple[Any, ...]) -> UninitializedParameter:
    """Rebuild a lazy module's parameter."""
    requires_grad, device, dtype = arguments("UninitializedParameter", args, 3)
    return UninitializedParameter(*_uninitialized("UninitializedParameter", requires_grad, device, dtype))


def rebuild_uninitialized_buffer(load: Load, args: tuple[Any, ...]) -> UninitializedBuffer:
    """Rebuild a lazy module's buffer."""
    name = "UninitializedBuffer"
    requires_grad, device, dtype, persistent = arguments(name, args, 4)
    of_kind(name, "persistent", persistent, bool)
    return UninitializedBuffer(*_uninitialized(name, requires_grad, device, dtype), persistent)


def _uninitialized(
    name: str, requires_grad: Any, device: Any, dtype: Any
) -> tuple[bool, str | Device, ScalarType]:
    of_kind(name, "requires_grad", requires_grad, bool)
    return requires_grad, device_of(name, device), of_kind(name, "dtype", dtype, ScalarType)


PLAIN_TENSORS = (rebuild_tensor, rebuild_tensor_v3, rebuild_meta_tensor, rebuild_parameter)
"""What `rebuild_from_type` calls."""
