"""Writing of an archive: objects under PyTorch's names, so that PyTorch reads what is written."""

from __future__ import annotations

import _codecs
import io
import os
import pickle
import sys
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import IO, TYPE_CHECKING, Any, ClassVar, Never

from ..dispatch.autograd.grad_mode import no_grad
from ..dispatch.core.tensor_function import DisableTensorFunctionSubclass
from ..dispatch.methods.pickling import _bytes_of, sparse_parts
from ..dispatch.methods.quantized_pickling import parts_of
from ..dispatch.tensor import Tensor
from ..nn.modules.parameter import Buffer, Parameter
from ..runtime.device import device as Device
from ..runtime.layout import layout as Layout
from ..runtime.layout import sparse_coo, strided
from ..runtime.qscheme import qscheme
from ..runtime.scalar_type import QUANTIZED
from ..runtime.scalar_type import dtype as ScalarType
from ..runtime.size import Size
from ..runtime.storage import Storage
from .allowed_globals import DTYPES, TYPED_STORAGES
from .archive import writing
from .rebuild import TypedStorage
from .replacing_file import replacing

if TYPE_CHECKING:
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

    def __init__(self, file: IO[bytes], protocol: int) -> None:
        super().__init__(file, protocol)
        self.storages: dict[int, tuple[str, Storage]] = {}
        self.dtypes: dict[str, str] = {}

    def persistent_id(self, obj: object) -> tuple[str, _Name, str, str, int] | None:
        """Return a storage's id: ``("storage", its type, its number, where it is, how many elements it has)``."""
        if isinstance(obj, Storage):
            obj = TypedStorage(obj, None, obj.nbytes())
        if not isinstance(obj, TypedStorage) or not isinstance(obj.storage, Storage):
            return None
        storage = obj.storage
        key, _ = self.storages.setdefault(id(storage), (str(len(self.storages)), storage))
        name = STORAGE_NAMES.get(obj.dtype) if obj.dtype is not None else None
        kept = self.dtypes.setdefault(key, name or "ByteStorage")
        if storage.nbytes() and kept != (name or "ByteStorage"):
            raise RuntimeError(
                "Cannot save multiple tensors or storages that view the same data as different types: one is of "
                f"{kept}, another of {name or 'UntypedStorage'}. Save a clone of one of them."
            )
        kind = _Name(f"torch.{name}" if name else "torch.storage.UntypedStorage")
        count = storage.nbytes() // (obj.dtype.itemsize if name and obj.dtype is not None else 1)
        return "storage", kind, key, str(storage.device), count

    def reducer_override(self, obj: Any) -> Any:
        """Tensors, and those of a class that does not pickle itself."""
        if not isinstance(obj, Tensor):
            return NotImplemented
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
        if kind is Buffer:
            kind, state = Tensor, {"persistent": state.get("persistent", True), "_is_buffer": True}
        attributes = dict(state) if state else None
        return _Name("torch._tensor._rebuild_from_type_v2"), (function, kind, call, attributes)

    def _reduced(self, obj: Tensor) -> tuple[_Name, tuple[Any, ...]]:
        spec = obj._spec
        with no_grad(), DisableTensorFunctionSubclass():
            plain = obj.detach().as_subclass(Tensor).resolve_conj().resolve_neg()
        dtype = plain.dtype
        if spec.layout is not strided:
            # Behind the dense parts the size, and of coordinates whether they are coalesced.
            *parts, last = sparse_parts(plain)
            size = Size(plain.shape)
            whole = (*parts, size, last) if spec.layout is sparse_coo else (*parts, last, size)
            return _Name("torch._utils._rebuild_sparse_tensor"), (spec.layout, whole)
        if spec.is_meta and dtype in DTYPE_NAMES:
            name = _Name("torch._utils._rebuild_meta_tensor_no_storage")
            return name, (dtype, tuple(spec.sizes), spec.strides, spec.requires_grad)
        storage = plain.untyped_storage()
        if dtype in QUANTIZED:
            data: Any = plain._data
            at = (plain.storage_offset(), tuple(plain.shape), plain._spec.strides)
            typed = TypedStorage(storage, dtype, storage.nbytes())
            quantizer = parts_of(data.quantizer)
            return _Name("torch._utils._rebuild_qtensor"), (typed, *at, quantizer, False, OrderedDict())
        place: tuple[Any, ...] = (
            plain.storage_offset(),
            tuple(plain.shape),
            plain._spec.strides,
            spec.requires_grad,
            OrderedDict(),
        )
        typed = TypedStorage(storage, dtype, storage.nbytes())
        if dtype in STORAGE_NAMES:
            return _Name("torch._utils._rebuild_tensor_v2"), (typed, *place)
        return _Name("torch._utils._rebuild_tensor_v3"), (typed, *place, dtype)

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


def write(obj: object, f: File, protocol: int, with_byteorder: bool) -> None:
    """Write a file for `save`, which has checked the arguments."""
    opened: AbstractContextManager[IO[bytes]]
    folder = "archive"
    if isinstance(f, str | os.PathLike):
        path = os.fspath(f)
        parent, name = os.path.split(path)
        if parent and not os.path.isdir(parent):
            raise RuntimeError(f"Parent directory {parent} does not exist.")
        folder, opened = os.path.splitext(name)[0], replacing(path)
    elif not callable(getattr(f, "write", None)):
        raise AttributeError(
            f"expected 'f' to be string, path, or a file-like object with a 'write' attribute, got {type(f).__name__}"
        )
    else:
        opened = nullcontext(f)
    data = io.BytesIO()
    pickler = _Pickler(data, protocol)
    pickler.dump(obj)
    with opened as file, writing(file, folder) as archive:
        archive.add("data.pkl", data.getvalue())
        if with_byteorder:
            archive.add("byteorder", sys.byteorder.encode())
        for key, storage in pickler.storages.values():
            archive.add(f"data/{key}", _bytes_of(storage).cpu()._data)
        archive.add("version", b"3\n")
