"""`tt.save` and `tt.load`: objects with tensors in PyTorch's own files (`torch.serialization`).

A file is a zip archive of a pickle and of the storages' bytes. Tensors, parameters, dtypes and devices stand in it
under PyTorch's names, so that either library reads what the other wrote, neither being there.
"""

from __future__ import annotations

import _codecs
import os
import pickle
import sys
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import IO, TYPE_CHECKING, Any, ClassVar, Never

from .dispatch.autograd.grad_mode import no_grad
from .dispatch.generated import functions as _ops
from .dispatch.methods.pickling import _bytes_of, _rebuilt, _rebuilt_storage
from .dispatch.tensor import Tensor
from .runtime import scalar_type
from .runtime.device import device as Device
from .runtime.layout import layout as Layout
from .runtime.layout import sparse_coo, sparse_csr, strided
from .runtime.scalar_type import dtype as ScalarType
from .runtime.size import Size
from .runtime.storage import Storage
from .runtime.traceback_filter import api_boundary

if TYPE_CHECKING:
    import zipfile

    from numpy.typing import NDArray

    from .nn.modules.parameter import Parameter

__all__ = ["add_safe_globals", "clear_safe_globals", "get_safe_globals", "load", "safe_globals", "save"]

File = str | os.PathLike[str] | IO[bytes]
MapLocation = Callable[[Storage, str], Any] | Device | str | Mapping[str, str] | None

ALIGNMENT = 64
"""Of the storages in a file, in bytes."""
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
}
"""PyTorch's names of storages with a dtype; what has none of its own says the dtype beside it."""
STORAGE_NAMES = {dtype: name for name, dtype in TYPED_STORAGES.items()}
DTYPES = {
    **{dtype.name: dtype for dtype in TYPED_STORAGES.values()},
    **{dtype.name: dtype for dtype in (scalar_type.uint16, scalar_type.uint32, scalar_type.uint64)},
    **{dtype.name: dtype for dtype in (scalar_type.float8_e4m3fn, scalar_type.float8_e5m2)},
}
DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}
LAYOUTS = {f"torch.{layout.name}": layout for layout in (strided, sparse_coo, sparse_csr)}


class _Name:
    """A global of PyTorch's, which need not be there."""

    __slots__ = ("module", "name")

    def __init__(self, dotted: str) -> None:
        self.module, _, self.name = dotted.rpartition(".")

    def __call__(self, *args: object) -> Never:
        raise TypeError(f"{self.module}.{self.name} is a name to be written")


class _TypedStorage:
    """A storage as a tensor's bytes: with the dtype that its pickled name says."""

    __slots__ = ("dtype", "storage")

    def __init__(self, storage: Storage, dtype: ScalarType | None) -> None:
        self.storage = storage
        self.dtype = dtype


# The pickler in Python, whose table of types a subclass may extend; the stubs of the library do not name it.
_PythonPickler: Any = vars(pickle)["_Pickler"]


class _Pickler(_PythonPickler):  # type: ignore[misc]
    """Writes what PyTorch has a name for under that name, and storages by their number."""

    dispatch: ClassVar[dict[type, Callable[..., None]]] = dict(_PythonPickler.dispatch)

    def __init__(self, file: IO[bytes], protocol: int) -> None:
        super().__init__(file, protocol)
        self.storages: dict[int, tuple[str, Storage]] = {}

    def persistent_id(self, obj: object) -> tuple[str, _Name, str, str, int] | None:
        """Of a storage: ``("storage", its type, its number, where it is, how many elements it has)``."""
        if isinstance(obj, Storage):
            obj = _TypedStorage(obj, None)
        if not isinstance(obj, _TypedStorage):
            return None
        storage = obj.storage
        key, _ = self.storages.setdefault(id(storage), (str(len(self.storages)), storage))
        name = STORAGE_NAMES.get(obj.dtype) if obj.dtype is not None else None
        kind = _Name(f"torch.{name}" if name else "torch.storage.UntypedStorage")
        count = storage.nbytes() // (obj.dtype.itemsize if name and obj.dtype is not None else 1)
        return "storage", kind, key, str(storage.device), count

    def reducer_override(self, obj: Any) -> Any:
        """Tensors and parameters; a subclass of another package is pickled as it pickles itself."""
        from .nn.modules.parameter import Parameter

        if type(obj) is Parameter:
            made = _Name("torch._utils._rebuild_parameter")
            return made, (obj.detach().as_subclass(Tensor), obj.requires_grad, OrderedDict())
        if type(obj) is not Tensor or obj.is_meta or obj._spec.unnamed is not obj._spec:
            return NotImplemented
        with no_grad():
            plain = obj.detach().resolve_conj().resolve_neg()
        dtype = plain.dtype
        typed = dtype in STORAGE_NAMES
        args: tuple[Any, ...] = (
            _TypedStorage(plain.untyped_storage(), dtype),
            plain.storage_offset(),
            tuple(plain.shape),
            plain._spec.strides,
            obj.requires_grad,
            OrderedDict(),
        )
        if typed:
            return _Name("torch._utils._rebuild_tensor_v2"), args
        return _Name("torch._utils._rebuild_tensor_v3"), (*args, dtype)

    def _save_name(self, name: _Name) -> None:
        self.write(pickle.GLOBAL + f"{name.module}\n{name.name}\n".encode())

    def _save_dtype(self, dtype: ScalarType) -> None:
        known = DTYPE_NAMES.get(dtype)
        if known is None:
            self.save_reduce(*dtype.__reduce_ex__(self.proto), obj=dtype)
        else:
            self._save_name(_Name(f"torch.{known}"))

    def _save_device(self, device: Device) -> None:
        index = () if device.index is None else (device.index,)
        self.save_reduce(_Name("torch.device"), (device.type, *index), obj=device)

    def _save_size(self, size: Size) -> None:
        self.save_reduce(_Name("torch.Size"), (tuple(size),), obj=size)

    def _save_layout(self, layout: Layout) -> None:
        self.save_reduce(_Name("torch.serialization._get_layout"), (f"torch.{layout.name}",), obj=layout)

    dispatch[_Name] = _save_name
    dispatch[ScalarType] = _save_dtype
    dispatch[Device] = _save_device
    dispatch[Size] = _save_size
    dispatch[Layout] = _save_layout


@api_boundary
def save(
    obj: object,
    f: File,
    pickle_module: ModuleType = pickle,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Write an object with its tensors to a file that `load`, and PyTorch, can read (`torch.save`).

    Tensors that share memory do so when they are loaded. Of a module its `state_dict` is best saved: the module
    itself
    is pickled by the names of its classes.

    Args:
        obj: What is written: tensors, and containers and objects that hold them.
        f: A path, or a binary file open for writing.
        pickle_module: Python's `pickle`, and no other.
        pickle_protocol: The protocol of the pickle; PyTorch loads 2.

    Raises:
        RuntimeError: The path is in a folder that is not there.
        ValueError: `pickle_module` is another one, or the format before PyTorch 1.6 is asked for.

    Example:
        >>> import io, triten as tt
        >>> file = io.BytesIO()
        >>> tt.save({"weight": tt.ones(2)}, file)
        >>> tt.load(io.BytesIO(file.getvalue()))
        {'weight': tensor([1., 1.])}
    """
    if pickle_module is not pickle:
        raise ValueError("save: the pickle module of the standard library is expected")
    if not _use_new_zipfile_serialization:
        raise ValueError("save: only the zip format is written")
    import io
    import zipfile

    data = io.BytesIO()
    pickler = _Pickler(data, pickle_protocol)
    pickler.dump(obj)
    root = "archive"
    if isinstance(f, str | os.PathLike):
        folder, name = os.path.split(os.fspath(f))
        if folder and not os.path.isdir(folder):
            raise RuntimeError(f"Parent directory {folder} does not exist.")
        root = os.path.splitext(name)[0]
    with zipfile.ZipFile(f, "w", zipfile.ZIP_STORED) as archive:
        _add(archive, f"{root}/data.pkl", data.getvalue())
        if not _disable_byteorder_record:
            _add(archive, f"{root}/byteorder", sys.byteorder.encode())
        for key, storage in pickler.storages.values():
            _add(archive, f"{root}/data/{key}", _bytes_of(storage).cpu()._data)
        _add(archive, f"{root}/version", b"3\n")


def _add(archive: zipfile.ZipFile, name: str, data: bytes | NDArray[Any]) -> None:
    """A record whose bytes begin at a multiple of `ALIGNMENT`."""
    import zipfile

    info = zipfile.ZipInfo(name)
    header = 30 + len(name.encode()) + 4
    padding = -(archive.start_dir + header) % ALIGNMENT
    info.extra = b"FB" + padding.to_bytes(2, "little") + bytes(padding)
    archive.writestr(info, memoryview(data))  # type: ignore[arg-type]


_safe: dict[str, Any] = {}


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Have `load` take these classes and functions where it loads weights only (`torch.serialization`).

    Args:
        safe_globals: classes and functions, or pairs of one and the full name that files have it under.
    """
    for each in safe_globals:
        found, name = each if isinstance(each, tuple) else (each, f"{each.__module__}.{each.__qualname__}")
        _safe[name] = found


def clear_safe_globals() -> None:
    """Forget what `add_safe_globals` added."""
    _safe.clear()


def get_safe_globals() -> list[Any]:
    """What `add_safe_globals` added."""
    return list(_safe.values())


@contextmanager
def safe_globals(safe_globals: list[Any]) -> Iterator[None]:
    """A block with `add_safe_globals`.

    Example:
        >>> import triten as tt
        >>> from fractions import Fraction
        >>> with tt.serialization.safe_globals([Fraction]):
        ...     tt.serialization.get_safe_globals()
        [<class 'fractions.Fraction'>]
    """
    before = dict(_safe)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _safe.clear()
        _safe.update(before)


def _tensor(
    storage: _TypedStorage, offset: int, size: Sequence[int], stride: Sequence[int], *rest: Any
) -> Tensor:
    """``torch._utils._rebuild_tensor`` and its second version."""
    requires_grad, _, metadata = (*rest, None, None, None)[:3]
    dtype = storage.dtype
    assert dtype is not None
    return _rebuilt_tensor(storage.storage, dtype, offset, size, stride, bool(requires_grad), metadata)


def _tensor_v3(
    storage: Storage, offset: int, size: Sequence[int], stride: Sequence[int], requires_grad: bool, hooks: object,
    dtype: ScalarType, metadata: Mapping[str, bool] | None = None,
) -> Tensor:  # fmt: skip
    return _rebuilt_tensor(storage, dtype, offset, size, stride, requires_grad, metadata)


def _rebuilt_tensor(
    storage: Storage,
    dtype: ScalarType,
    offset: int,
    size: Sequence[int],
    stride: Sequence[int],
    requires_grad: bool,
    metadata: Mapping[str, bool] | None,
) -> Tensor:
    geometry = (offset * dtype.itemsize, tuple(size), tuple(stride))
    made = _rebuilt(Tensor, storage, geometry, dtype, False, None)
    # There are no lazily conjugated or negated tensors here.
    for bit, apply in (("conj", _ops.conj), ("neg", _ops.neg)):
        if metadata and metadata.get(bit):
            made = apply(made)
    return made.requires_grad_() if requires_grad else made


def _parameter(data: Tensor, requires_grad: bool, hooks: object = None) -> Parameter:
    from .nn.modules.parameter import Parameter

    return Parameter(data, requires_grad)


def _of_type(function: Callable[..., Tensor], kind: object, args: Sequence[Any], state: object) -> Tensor:
    """``torch._tensor._rebuild_from_type_v2``: a tensor with attributes, such as a buffer."""
    return function(*args)


BUILTINS = ("builtins", "__builtin__")
"""The module of Python's own types, by its name in Python 3 and 2: protocol 2 writes the latter."""
NAMES: dict[str, Any] = {
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_tensor_v3": _tensor_v3,
    "torch._utils._rebuild_parameter": _parameter,
    "torch._tensor._rebuild_from_type_v2": _of_type,
    "torch.storage.UntypedStorage": None,
    "torch.serialization._get_layout": LAYOUTS.__getitem__,
    "torch.device": Device,
    "torch.Size": Size,
    "torch.Tensor": Tensor,
    "collections.OrderedDict": OrderedDict,
    "collections.Counter": Counter,
    "_codecs.encode": _codecs.encode,  # protocol 2 writes bytes by it
    **{f"{module}.{kind.__name__}": kind for module in BUILTINS for kind in (set, bytearray, complex)},
    **{f"torch.{name}": dtype for name, dtype in TYPED_STORAGES.items()},
    **{f"torch.{name}": dtype for name, dtype in DTYPES.items()},
}
"""What a file's names are here. A storage's type is its dtype, or None."""


class _Unpickler(pickle.Unpickler):
    def __init__(
        self,
        data: IO[bytes],
        storage_of: Callable[[str, str, int], Storage],
        weights_only: bool,
        options: dict[str, Any],
    ) -> None:
        super().__init__(data, **options)
        self._storage_of = storage_of
        self._weights_only = weights_only

    def find_class(self, module: str, name: str) -> Any:
        dotted = f"{module}.{name}"
        if dotted in NAMES:
            return NAMES[dotted]
        if dotted in _safe:
            return _safe[dotted]
        found = None
        if not self._weights_only or module.partition(".")[0] == __package__:
            found = super().find_class(module, name)
        own = found is _rebuilt or (isinstance(found, type) and issubclass(found, Tensor))
        if self._weights_only and not own:
            raise pickle.UnpicklingError(
                f"Weights only load failed: {dotted} was not an allowed global by default. Add it with "
                "`triten.serialization.add_safe_globals` if you trust it, or load with weights_only=False, which runs "
                "whatever code the file names, if you trust the file."
            )
        return found

    def persistent_load(self, pid: Any) -> Storage | _TypedStorage:
        if not isinstance(pid, tuple) or pid[0] != "storage":
            raise pickle.UnpicklingError(f"a storage expected, {pid!r} found")
        _, dtype, key, location, count = pid
        storage = self._storage_of(key, location, count * (1 if dtype is None else dtype.itemsize))
        return storage if dtype is None else _TypedStorage(storage, dtype)


@api_boundary
def load(
    f: File,
    map_location: MapLocation = None,
    pickle_module: ModuleType = pickle,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Read what `save`, or PyTorch, wrote (`torch.load`).

    Args:
        f: A path, or a binary file that can seek.
        map_location: Where tensors go: a device, a mapping of devices' names, or a function of a storage on the host
            and its device's name, which gives a storage or None; by default where they were.
        pickle_module: Python's `pickle`, and no other.
        weights_only: Whether only tensors, plain containers and `add_safe_globals` are loaded, which is so unless
            False is given. Otherwise the file may run any code.
        mmap: Accepted as False and None: a file is read whole.
        **pickle_load_args: What Python's unpickler takes beside the file, such as `encoding`.

    Returns:
        The object that was written.

    Raises:
        AttributeError: `f` is no path, nor a file that can seek.
        FileNotFoundError: There is no file at the path.
        UnpicklingError: The file names a global that is not allowed.
        RuntimeError: The file has another format, or a device is not there.

    Example:
        >>> import io, triten as tt
        >>> file = io.BytesIO()
        >>> tt.save([tt.arange(3), "text"], file)
        >>> tt.load(io.BytesIO(file.getvalue()), map_location="meta")[0].device
        device(type='meta')
    """
    if pickle_module is not pickle:
        raise ValueError("load: the pickle module of the standard library is expected")
    if mmap:
        raise NotImplementedError("load: mmap=True is not supported, the file is read whole")
    if isinstance(f, str | os.PathLike):
        with open(f, "rb") as file:
            return load(file, map_location, weights_only=weights_only, **pickle_load_args)
    if not (hasattr(f, "seek") and hasattr(f, "read")):
        raise AttributeError(
            f"load: argument 'f' must be a path or a file that can seek, got {type(f).__name__}"
        )
    import io
    import zipfile

    if not zipfile.is_zipfile(f):
        raise RuntimeError(
            "load: a zip archive is expected, as torch.save has written since PyTorch 1.6; this file is none"
        )
    with zipfile.ZipFile(f) as archive:
        records = set(archive.namelist())
        roots = [name.rpartition("/")[0] for name in records if name.endswith("/data.pkl")]
        if not roots:
            raise RuntimeError("load: the archive has no data.pkl; it is none of torch.save's")
        root = roots[0]
        order = archive.read(f"{root}/byteorder") if f"{root}/byteorder" in records else b"little"
        if order.decode() != sys.byteorder:
            raise RuntimeError(
                f"load: the file's numbers are {order.decode()}-endian, this machine's are not"
            )
        storages: dict[str, Storage] = {}

        def storage_of(key: str, location: str, nbytes: int) -> Storage:
            if key not in storages:
                storages[key] = _placed(archive.read(f"{root}/data/{key}"), location, map_location)
            return storages[key]

        data = io.BytesIO(archive.read(f"{root}/data.pkl"))
        return _Unpickler(data, storage_of, weights_only is not False, pickle_load_args).load()


def _placed(data: bytes, location: str, map_location: MapLocation) -> Any:
    """A storage of these bytes where it belongs; on Meta, the device alone."""
    if callable(map_location):
        host = _rebuilt_storage(data, Device("cpu"))
        found = map_location(host, location)
        if found is not None:
            return found.untyped_storage() if isinstance(found, Tensor) else found
    elif isinstance(map_location, Mapping):
        location = map_location.get(location, location)
    elif map_location is not None:
        location = str(map_location)
    device = Device(location)
    if device.type == "meta":
        return device
    if device.type == "cuda":
        from . import cuda

        if not cuda.is_available():
            raise RuntimeError(
                "Attempting to deserialize object on a CUDA device but triten.cuda.is_available() is False. If you are "
                "running on a CPU-only machine, please use load with map_location='cpu' to map your storages."
            )
    return _rebuilt_storage(data, device)
