"""Allow-list of pickle globals: a table of PyTorch's and triten's names. `user_globals` has the user's.

Names in a file are looked up only here, so that reading it imports nothing. Each callable in the table has a function
that checks its arguments. A name without such a function may only be an element of a container.
"""

from __future__ import annotations

import _codecs
import _compat_pickle
from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pickle import UnpicklingError
from typing import Any

from ..dispatch.tensor import Tensor
from ..nn.modules.parameter import Buffer, Parameter
from ..nn.modules.uninitialized import UninitializedBuffer, UninitializedParameter
from ..runtime import scalar_type
from ..runtime.device import device as Device
from ..runtime.layout import layout as Layout
from ..runtime.scalar_type import dtype as ScalarType
from ..runtime.size import Size
from . import rebuild, rebuild_sparse
from .rebuild import Load, Rebuild, arguments, device_of, of_kind

PACKAGE = __name__.partition(".")[0]
BLOCKED_MODULES = frozenset({"sys", "os", "posix", "nt"})
"""Never read from, whatever was allowed."""
TYPED_STORAGES = {
    "DoubleStorage": scalar_type.float64,
    "FloatStorage": scalar_type.float32,
    "HalfStorage": scalar_type.float16,
    "BFloat16Storage": scalar_type.bfloat16,
    "LongStorage": scalar_type.int64,
    "IntStorage": scalar_type.int32,
    "ShortStorage": scalar_type.int16,
    "CharStorage": scalar_type.int8,
    "ByteStorage": scalar_type.uint8,
    "BoolStorage": scalar_type.bool_,
    "ComplexFloatStorage": scalar_type.complex64,
    "ComplexDoubleStorage": scalar_type.complex128,
    "QInt8Storage": scalar_type.qint8,
    "QUInt8Storage": scalar_type.quint8,
    "QInt32Storage": scalar_type.qint32,
    "QUInt4x2Storage": scalar_type.quint4x2,
}
"""PyTorch's names of storages with a dtype; what has none of its own says the dtype beside it."""
DTYPES = {
    **{dtype.name: dtype for dtype in TYPED_STORAGES.values()},
    **{dtype.name: dtype for dtype in (scalar_type.uint16, scalar_type.uint32, scalar_type.uint64)},
    **{
        dtype.name: dtype
        for dtype in (
            scalar_type.float8_e4m3fn,
            scalar_type.float8_e4m3fnuz,
            scalar_type.float8_e5m2,
            scalar_type.float8_e5m2fnuz,
            scalar_type.float8_e8m0fnu,
            scalar_type.float4_e2m1fn_x2,
            scalar_type.complex32,
        )
    },
}
NOT_SUPPORTED = {
    "torch._utils._rebuild_nested_tensor": "nested tensors are not supported; save `tensor.unbind()`",
    "torch._utils._rebuild_wrapper_subclass": "tensors of wrapper subclasses are not supported",
    "torch._utils._rebuild_device_tensor_from_numpy": "tensors of this device are not supported; save `tensor.cpu()`",
    "torch._utils._rebuild_device_tensor_from_cpu_tensor": "tensors of this device are not supported; save "
    "`tensor.cpu()`",
    "torch._utils._rebuild_xla_tensor": "tensors of this device are not supported; save `tensor.cpu()`",
}
"""Functions of PyTorch's that have no counterpart here, with what to do about it."""


class StorageType:
    """A class of storages as a pickle names it: the dtype of its elements, or None for untyped bytes."""

    __slots__ = ("dtype",)

    def __init__(self, dtype: ScalarType | None) -> None:
        self.dtype = dtype

    def __repr__(self) -> str:
        return f"StorageType(dtype={self.dtype})"


@dataclass(frozen=True, slots=True)
class Global:
    """Meaning of an allowed name, and the result of a pickle that calls it."""

    value: Any
    call: Rebuild | None = None


def _ordered_dict(load: Load, args: tuple[Any, ...]) -> OrderedDict[Any, Any]:
    made: OrderedDict[Any, Any] = OrderedDict()
    if arguments("OrderedDict", args, 0, 1):
        pairs = of_kind("OrderedDict", "items", args[0], list, tuple, dict)
        load.limits.copy(len(pairs))
        for pair in pairs.items() if type(pairs) is dict else pairs:
            if type(pair) not in (list, tuple) or len(pair) != 2:
                raise UnpicklingError("OrderedDict: pairs of a key and a value expected")
            load.limits.check_key(made, pair[0])
            made[pair[0]] = pair[1]
    return made


def _counter(load: Load, args: tuple[Any, ...]) -> Counter[Any]:
    made: Counter[Any] = Counter()
    if arguments("Counter", args, 0, 1):
        counts = of_kind("Counter", "counts", args[0], dict)
        load.limits.copy(len(counts))
        for key in counts:
            load.limits.check_key(made, key)
        dict.update(made, counts)
    return made


def _set(load: Load, args: tuple[Any, ...]) -> set[Any]:
    made: set[Any] = set()
    if arguments("set", args, 0, 1):
        elements = of_kind("set", "elements", args[0], list, tuple, set)
        load.limits.copy(len(elements))
        for element in elements:
            load.limits.check_key(made, element)
            made.add(element)
    return made


def _encode(load: Load, args: tuple[Any, ...]) -> bytes:
    """Encode bytes, which protocol 2 pickles as Latin-1 text."""
    text, *encoding = arguments("encode", args, 1, 2)
    of_kind("encode", "obj", text, str)
    if encoding not in (["latin1"], ["latin-1"]):
        raise UnpicklingError("encode: argument 'encoding' must be 'latin1'")
    load.limits.copy(len(text))
    try:
        return _codecs.latin_1_encode(text)[0]
    except UnicodeEncodeError:
        raise UnpicklingError("encode: bytes expected as characters below 256") from None


def _bytearray(load: Load, args: tuple[Any, ...]) -> bytearray:
    if len(arguments("bytearray", args, 0, 1, 2)) == 2:
        return bytearray(_encode(load, args))
    if not args:
        return bytearray()
    data = of_kind("bytearray", "source", args[0], bytes, bytearray)
    load.limits.copy(len(data))
    return bytearray(data)


def _bytes(load: Load, args: tuple[Any, ...]) -> bytes:
    """Return empty bytes, as protocol 2 pickles them."""
    arguments("bytes", args, 0)
    return b""


def _complex(load: Load, args: tuple[Any, ...]) -> complex:
    real, imag = (of_kind("complex", "part", each, float, int) for each in arguments("complex", args, 2))
    try:
        return complex(real, imag)
    except OverflowError as error:
        raise UnpicklingError(f"complex: {error}") from None


def _size(load: Load, args: tuple[Any, ...]) -> Size:
    (sizes,) = arguments("Size", args, 1)
    for each in of_kind("Size", "sizes", sizes, tuple, list, Size):
        of_kind("Size", "sizes", each, int)
    load.limits.copy(len(sizes))
    return Size(sizes)


def _device(load: Load, args: tuple[Any, ...]) -> Device:
    return device_of("device", *arguments("device", args, 1, 2))


def _layout(load: Load, args: tuple[Any, ...]) -> Layout:
    name = of_kind("_get_layout", "name", arguments("_get_layout", args, 1)[0], str)
    if name not in rebuild.LAYOUTS:
        raise UnpicklingError(f"_get_layout: {name!r:.100} is no layout here")
    return rebuild.LAYOUTS[name]


def _functions(prefix: str, calls: Mapping[str, Rebuild]) -> dict[str, Global]:
    return {f"{prefix}.{name}": Global(call, call) for name, call in calls.items()}


def _same(names: tuple[str, ...], entry: Global) -> dict[str, Global]:
    return dict.fromkeys(names, entry)


NAMES: dict[str, Global] = {
    **_functions(
        "torch._utils",
        {
            "_rebuild_tensor": rebuild.rebuild_tensor,
            "_rebuild_tensor_v2": rebuild.rebuild_tensor,
            "_rebuild_tensor_v3": rebuild.rebuild_tensor_v3,
            "_rebuild_qtensor": rebuild.rebuild_qtensor,
            "_rebuild_parameter": rebuild.rebuild_parameter,
            "_rebuild_parameter_with_state": rebuild.rebuild_parameter,
            "_rebuild_meta_tensor_no_storage": rebuild.rebuild_meta_tensor,
            "_rebuild_sparse_tensor": rebuild_sparse.rebuild_sparse_tensor,
            "_rebuild_sparse_csr_tensor": rebuild_sparse.rebuild_sparse_tensor,
        },
    ),
    **_functions(
        # A class whose `__reduce_ex__` returns such a function is saved under this package's name of it.
        f"{PACKAGE}._utils",
        {
            "_rebuild_tensor": rebuild.rebuild_tensor,
            "_rebuild_tensor_v2": rebuild.rebuild_tensor,
            "_rebuild_parameter": rebuild.rebuild_parameter,
            "_rebuild_sparse_tensor": rebuild_sparse.rebuild_sparse_tensor,
        },
    ),
    **_functions("torch._tensor", {"_rebuild_from_type_v2": rebuild.rebuild_from_type}),
    **_functions("torch.serialization", {"_get_layout": _layout}),
    **_functions(f"{PACKAGE}.dispatch.methods.pickling", {"_rebuilt": rebuild.rebuild_own_tensor}),
    **_functions(f"{PACKAGE}.quantization.quantized_tensor", {"rebuilt": rebuild.rebuild_quantized}),
    **_functions(f"{PACKAGE}.sparse.semi_structured", {"rebuilt": rebuild_sparse.rebuild_semi_structured}),
    "torch.storage.UntypedStorage": Global(StorageType(None)),
    "torch.UntypedStorage": Global(StorageType(None)),
    **{f"torch.{name}": Global(StorageType(dtype)) for name, dtype in TYPED_STORAGES.items()},
    **{f"torch.{name}": Global(dtype) for name, dtype in DTYPES.items()},
    **{f"torch.{scheme.name}": Global(scheme) for scheme in rebuild.SCHEMES},
    **_same(("torch.Tensor", f"{PACKAGE}.dispatch.tensor.Tensor"), Global(Tensor)),
    **_same(
        ("torch.nn.parameter.Parameter", f"{PACKAGE}.nn.modules.parameter.Parameter"),
        Global(Parameter, rebuild.rebuild_parameter),
    ),
    **_same(("torch.nn.parameter.Buffer", f"{PACKAGE}.nn.modules.parameter.Buffer"), Global(Buffer)),
    **_same(
        (
            "torch.nn.parameter.UninitializedParameter",
            f"{PACKAGE}.nn.modules.uninitialized.UninitializedParameter",
        ),
        Global(UninitializedParameter, rebuild.rebuild_uninitialized_parameter),
    ),
    **_same(
        ("torch.nn.parameter.UninitializedBuffer", f"{PACKAGE}.nn.modules.uninitialized.UninitializedBuffer"),
        Global(UninitializedBuffer, rebuild.rebuild_uninitialized_buffer),
    ),
    "torch.device": Global(Device, _device),
    "torch.Size": Global(Size, _size),
    "collections.OrderedDict": Global(OrderedDict, _ordered_dict),
    "collections.Counter": Global(Counter, _counter),
    "_codecs.encode": Global(_encode, _encode),
    "builtins.set": Global(set, _set),
    "builtins.bytearray": Global(bytearray, _bytearray),
    "builtins.bytes": Global(bytes, _bytes),
    "builtins.complex": Global(complex, _complex),
}
"""The globals that `load` accepts from any file."""
CALLS: dict[int, Rebuild] = {id(entry.value): entry.call for entry in NAMES.values() if entry.call}
"""The function that rebuilds a call of a value of `NAMES`, by the value's identity."""


def full_name(module: str, name: str) -> str:
    """Return a global's dotted name in Python 3; protocols 0 to 2 write Python 2's name."""
    if (module, name) in _compat_pickle.NAME_MAPPING:
        module, name = _compat_pickle.NAME_MAPPING[module, name]
    return f"{_compat_pickle.IMPORT_MAPPING.get(module, module)}.{name}"


def find(dotted: str) -> Global | None:
    """Return the table's entry for a name; None if the name is not allowed."""
    entry = NAMES.get(dotted)
    if entry is None and dotted.startswith(f"{scalar_type.__name__}."):
        name = dotted.rpartition(".")[2]
        entry = next((Global(dtype) for dtype in scalar_type.registered if dtype.name == name), None)
    return entry
