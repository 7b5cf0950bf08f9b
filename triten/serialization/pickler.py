"""Writing of an archive: objects under PyTorch's names, so that PyTorch reads what is written."""

from __future__ import annotations

import _codecs
import io
import os
import pickle
import sys
from collections import OrderedDict
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import IO, TYPE_CHECKING, Any, ClassVar, Never

import numpy as np

from ..dispatch.autograd.grad_mode import no_grad
from ..dispatch.core.tensor_function import DisableTensorFunctionSubclass
from ..dispatch.methods.pickling import _bytes_of, sparse_parts
from ..dispatch.methods.quantized_pickling import parts_of
from ..dispatch.methods.typed_storage import TypedStorage
from ..dispatch.tensor import Tensor
from ..nn.modules.parameter import Buffer, Parameter
from ..runtime.device import device as Device
from ..runtime.instance_attributes import slot_values
from ..runtime.layout import layout as Layout
from ..runtime.layout import sparse_coo, strided
from ..runtime.qscheme import qscheme
from ..runtime.scalar_type import QUANTIZED
from ..runtime.scalar_type import dtype as ScalarType
from ..runtime.size import Size
from ..runtime.storage import Storage
from .allowed_globals import DTYPES, TYPED_STORAGES
from .archive import writing
from .legacy import COUNT, MAGIC_NUMBER, PROTOCOL_VERSION
from .locations import location_tag
from .replacing_file import replacing
from .settings import skips_data

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .loading import File

STORAGE_NAMES = {dtype: name for name, dtype in TYPED_STORAGES.items()}
DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}


class _Name:
    """Global of PyTorch, which need not be installed."""

    __slots__ = ("module", "name")

    def __init__(self, dotted: str) -> None:
        self.module, _, self.name = dotted.rpartition(".")

    def __call__(self, *args: object) -> Never:
        raise TypeError(f"{self.module}.{self.name} is a name to be written")


# The pickler written in Python: a subclass can extend its dispatch table. Typeshed does not declare it.
_PythonPickler: Any = vars(pickle)["_Pickler"]


class _Pickler(_PythonPickler):  # type: ignore[misc]
    """Pickler that writes objects under PyTorch's names, and storages by number."""

    dispatch: ClassVar[dict[type, Callable[..., None]]] = dict(_PythonPickler.dispatch)

    def __init__(self, file: IO[bytes], protocol: int, is_legacy: bool = False) -> None:
        super().__init__(file, protocol)
        self.is_legacy = is_legacy
        self.storages: dict[int, tuple[str, Storage, int]] = {}
        """Keys, storages and sizes of an element, by the storage's identity."""
        self.dtypes: dict[str, str] = {}

    def persistent_id(self, obj: object) -> tuple[Any, ...] | None:
        """Return a storage's id: ``("storage", type, number, location, number of elements)``.

        A legacy file has a sixth field for views, which is always None.
        """
        if not isinstance(obj, Storage | TypedStorage):
            return None
        storage = obj.untyped()
        name = STORAGE_NAMES.get(obj.dtype) if isinstance(obj, TypedStorage) else None
        itemsize = obj.dtype.itemsize if name and isinstance(obj, TypedStorage) else 1
        key = self.storages.setdefault(id(storage), (str(len(self.storages)), storage, itemsize))[0]
        dtype_name = self.dtypes.setdefault(key, name or "ByteStorage")
        if storage.nbytes() and dtype_name != (name or "ByteStorage"):
            raise RuntimeError(
                "Cannot save multiple tensors or storages that view the same data as different types: one is of "
                f"{dtype_name}, another of {name or 'UntypedStorage'}. Save a clone of one of them."
            )
        kind = _Name(f"torch.{name}" if name else "torch.storage.UntypedStorage")
        persistent = "storage", kind, key, location_tag(storage), storage.nbytes() // itemsize
        return (*persistent, None) if self.is_legacy else persistent

    def reducer_override(self, obj: Any) -> Any:
        """Reduce tensors, also those of a subclass that does not pickle itself."""
        if not isinstance(obj, Tensor):
            # Pickle modules that extend Python's C pickler, such as cloudpickle, have an override.
            override = getattr(super(), "reducer_override", None)
            return NotImplemented if override is None else override(obj)
        spec, kind = obj._spec, type(obj)
        if spec.unnamed is not spec or hasattr(kind, "__tensor_dispatch__"):
            return NotImplemented
        # A class whose `__reduce_ex__` calls the handlers of a subclass is not a subclass itself.
        owner = next(each for each in kind.__mro__ if "__reduce_ex__" in vars(each))
        if issubclass(owner, Tensor) and owner not in (Tensor, Parameter):
            return NotImplemented
        state: dict[str, Any] = vars(obj)
        if kind is Parameter:
            args: tuple[Any, ...] = obj.detach().as_subclass(Tensor), obj.requires_grad, OrderedDict()
            if not state:
                return _Name("torch._utils._rebuild_parameter"), args
            return _Name("torch._utils._rebuild_parameter_with_state"), (*args, dict(state))
        function, call = self._reduced(obj)
        if kind is Tensor and not state:
            return function, call
        slots = slot_values(obj)
        if kind is Buffer:
            kind, state = Tensor, {"persistent": state.get("persistent", True), "_is_buffer": True}
        attributes: Any = dict(state) if state else None
        if slots:
            attributes = attributes, slots
        return _Name("torch._tensor._rebuild_from_type_v2"), (function, kind, call, attributes)

    def _reduced(self, obj: Tensor) -> tuple[_Name, tuple[Any, ...]]:
        spec = obj._spec
        with no_grad(), DisableTensorFunctionSubclass():
            plain = obj.detach().as_subclass(Tensor).resolve_conj().resolve_neg()
        dtype = plain.dtype
        if spec.layout is not strided:
            # The dense parts, the size, and for COO whether it is coalesced.
            *parts, last = sparse_parts(plain)
            size = Size(plain.shape)
            whole = (*parts, size, last) if spec.layout is sparse_coo else (*parts, last, size)
            return _Name("torch._utils._rebuild_sparse_tensor"), (spec.layout, whole)
        if spec.is_meta and dtype in DTYPE_NAMES:
            name = _Name("torch._utils._rebuild_meta_tensor_no_storage")
            return name, (dtype, tuple(spec.sizes), spec.strides, spec.requires_grad)
        if dtype in QUANTIZED:
            data: Any = plain._data
            geometry = (plain.storage_offset(), tuple(plain.shape), plain._spec.strides)
            typed = plain._typed_storage()
            quantizer = parts_of(data.quantizer)
            return _Name("torch._utils._rebuild_qtensor"), (typed, *geometry, quantizer, False, OrderedDict())
        rebuild_args: tuple[Any, ...] = (
            plain.storage_offset(),
            tuple(plain.shape),
            plain._spec.strides,
            spec.requires_grad,
            OrderedDict(),
        )
        typed = plain._typed_storage()
        if dtype in STORAGE_NAMES:
            return _Name("torch._utils._rebuild_tensor_v2"), (typed, *rebuild_args)
        return _Name("torch._utils._rebuild_tensor_v3"), (typed, *rebuild_args, dtype)

    def _save_name(self, name: _Name) -> None:
        self.write(pickle.GLOBAL + f"{name.module}\n{name.name}\n".encode())

    def _save_dtype(self, dtype: ScalarType) -> None:
        known = DTYPE_NAMES.get(dtype)
        if known is None:
            self.save_global(dtype, dtype.__reduce__())
        else:
            self._save_name(_Name(f"torch.{known}"))

    def _save_scheme(self, scheme: qscheme) -> None:
        self._save_name(_Name(f"torch.{scheme.name}"))

    def _save_device(self, device: Device) -> None:
        index = () if device.index is None else (device.index,)
        self.save_reduce(_Name("torch.device"), (device.type, *index), obj=device)

    def _save_size(self, size: Size) -> None:
        self.save_reduce(_Name("torch.Size"), (tuple(size),), obj=size)

    def _save_layout(self, layout: Layout) -> None:
        self.save_reduce(_Name("torch.serialization._get_layout"), (f"torch.{layout.name}",), obj=layout)

    def _save_tensor_class(self, cls: type) -> None:
        self._save_name(_Name("torch.Tensor")) if cls is Tensor else self.save_type(cls)

    def _save_bytes(self, data: bytes) -> None:
        # Python writes empty ones as a call of `bytes`, which PyTorch does not load.
        if self.proto < 3 and not data:
            self.save_reduce(_codecs.encode, ("", "latin1"), obj=data)
        else:
            _PythonPickler.save_bytes(self, data)

    dispatch[_Name] = _save_name
    dispatch[ScalarType] = _save_dtype
    dispatch[Device] = _save_device
    dispatch[qscheme] = _save_scheme
    dispatch[Size] = _save_size
    dispatch[Layout] = _save_layout
    dispatch[bytes] = _save_bytes
    dispatch[type(Tensor)] = _save_tensor_class


def _pickler_class(module: ModuleType) -> type[_Pickler]:
    """Return the pickler for a pickle module: its `Pickler` under the names and persistent ids of `_Pickler`."""
    base = module.Pickler
    if base is pickle.Pickler or base is _PythonPickler:
        return _Pickler
    own = {
        kind: save
        for kind, save in _Pickler.dispatch.items()
        if save is not _PythonPickler.dispatch.get(kind)
    }

    is_python = issubclass(base, _PythonPickler)

    class ModulePickler(_Pickler, base):  # type: ignore[misc, valid-type]
        dispatch: ClassVar[dict[type, Callable[..., None]]] = {
            **(base.dispatch if is_python else _Pickler.dispatch),
            **own,
        }

        memo: Any = None
        """Hides the attribute of Python's C pickler, which is not the dict of the one written in Python."""

        def __init__(self, file: IO[bytes], protocol: int, is_legacy: bool) -> None:
            if not is_python:
                base.__init__(self, file, protocol)
            super().__init__(file, protocol, is_legacy)

    return ModulePickler


def write(
    obj: object, f: File, protocol: int, with_byteorder: bool, is_legacy: bool, pickle_module: ModuleType
) -> None:
    """Write a file for `save`, which has checked the arguments.

    Raises:
        RuntimeError: The folder of the file does not exist.
        AttributeError: `f` is neither a path nor has the attribute `write`.
        TypeError: `f.write` cannot be called.
    """
    opened: AbstractContextManager[IO[bytes]]
    folder = "archive"
    if isinstance(f, str | os.PathLike):
        path = os.fspath(f)
        parent, name = os.path.split(path)
        if parent and not os.path.isdir(parent):
            raise RuntimeError(f"Parent directory {parent} does not exist.")
        folder, opened = os.path.splitext(name)[0], replacing(path)
    elif not hasattr(f, "write"):
        raise AttributeError(
            f"expected 'f' to be string, path, or a file-like object with a 'write' attribute, got {type(f).__name__}"
        )
    elif not callable(f.write):
        raise TypeError(f"save: the 'write' attribute of 'f' must be callable, got {type(f.write).__name__}")
    else:
        opened = nullcontext(f)
    data = io.BytesIO()
    pickler = _pickler_class(pickle_module)(data, protocol, is_legacy)
    pickler.dump(obj)
    storages = pickler.storages.values()
    with opened as file:
        if is_legacy:
            _write_legacy(file, protocol, data.getvalue(), storages)
        else:
            with writing(file, folder) as archive:
                archive.add("data.pkl", data.getvalue())
                if with_byteorder:
                    archive.add("byteorder", sys.byteorder.encode())
                for key, storage, _ in storages:
                    archive.add(f"data/{key}", _bytes_in_file(storage))
                archive.add("version", b"3\n")
        # Another program may read the file before the caller closes it.
        flush = getattr(file, "flush", None)
        if flush is not None:
            flush()


def _bytes_in_file(storage: Storage) -> NDArray[Any]:
    """Return a storage's bytes on the host; zeros inside a block of `skip_data`."""
    if skips_data():
        return np.zeros(storage.nbytes(), np.uint8)
    data: NDArray[Any] = _bytes_of(storage).cpu()._data
    return data


def _write_legacy(
    file: IO[bytes], protocol: int, pickled: bytes, storages: Collection[tuple[str, Storage, int]]
) -> None:
    """Write the pickles of a legacy file, then each storage's number of elements and bytes (see `legacy`)."""
    system = {
        "protocol_version": PROTOCOL_VERSION,
        "little_endian": sys.byteorder == "little",
        "type_sizes": {"short": 2, "int": 4, "long": 4},
    }
    for part in (MAGIC_NUMBER, PROTOCOL_VERSION, system):
        pickle.dump(part, file, protocol)
    file.write(pickled)
    pickle.dump([key for key, _, _ in storages], file, protocol)
    for _, storage, itemsize in storages:
        data: Any = _bytes_in_file(storage)
        file.write(COUNT.pack(storage.nbytes() // itemsize))
        file.write(data.data)
