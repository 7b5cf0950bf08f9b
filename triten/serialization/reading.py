"""Reading of either format, with the restricted unpickler or, of a file that is trusted, with Python's own."""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable
from pickle import UnpicklingError
from typing import IO, TYPE_CHECKING, Any

from ..dispatch.methods.untyped_storage import UntypedStorage
from . import settings
from .allowed_globals import NOT_SUPPORTED, PACKAGE, StorageType, find, full_name
from .archive import SIGNATURE, ArchiveReader
from .legacy import LegacyFile, View, typed
from .limits import Limits
from .pickle_names import globals_in
from .placement import goes_to_meta, host_storage, placed, storage_of_bytes
from .rebuild import Load, Rebuild
from .restricted_unpickler import NOT_ALLOWED, RestrictedUnpickler
from .settings import LoadEndianness, skips_data
from .user_globals import allowed_by_user

if TYPE_CHECKING:
    from .loading import MapLocation

MAX_KEY = 64
"""Characters of a storage's key, which is a number."""
MAX_ELEMENTS = 2**63 - 1

Unpickler = type[pickle.Unpickler]
"""Class of a pickle module that a file which the user trusts is loaded with."""

StorageOf = Callable[..., Any]
"""Called with a key, a location, a type, a number of elements and, in legacy files, a `View`."""


class _Caller:
    """A function that rebuilds, as Python's own unpickler calls it."""

    def __init__(self, load: Load, function: Rebuild) -> None:
        self.load = load
        self.function = function

    def __call__(self, *args: Any) -> Any:
        return self.function(
            self.load, tuple(each.function if type(each) is _Caller else each for each in args)
        )


class _Trusting:
    """Mixin of unpicklers that run what the file says; PyTorch's names mean what they mean in any file."""

    _load: Load
    _persistent: Callable[[Any], Any]

    def find_class(self, module: str, name: str) -> Any:
        dotted = full_name(module, name)
        entry = find(dotted) if dotted.partition(".")[0] in ("torch", PACKAGE) else None
        if entry is not None:
            return _Caller(self._load, entry.call) if entry.value is entry.call else entry.value
        if dotted in NOT_SUPPORTED:
            raise UnpicklingError(f"Unsupported global: GLOBAL {dotted}: {NOT_SUPPORTED[dotted]}")
        root, dot, path = module.partition(".")
        own = f"{PACKAGE}{dot}{path}" if root == "torch" else module
        return super().find_class(own, name)  # type: ignore[misc]

    def persistent_load(self, pid: Any) -> Any:
        if type(pid) is tuple and len(pid) == 4 and pid[0] == "module":
            return pid[1]
        return self._persistent(pid)


def _persistent_load(storage_of: StorageOf, length: int) -> Callable[[Any], Any]:
    """Return a function that checks a persistent id of this length and creates its storage."""

    def persistent_load(pid: Any) -> Any:
        if type(pid) is not tuple:
            raise UnpicklingError(f"persistent_load id must be tuple or int, but got {type(pid)}")
        tag = pid[0] if pid else None
        if tag not in ("storage", b"storage"):
            raise UnpicklingError(f"Only persistent_load of storage is allowed, but got {type(tag)}")
        if len(pid) != length:
            raise UnpicklingError(f"a storage has {length} fields, got {len(pid)}")
        _, kind, key, location, count, *view = pid
        # Strings of Python 2 are bytes under `encoding="bytes"`.
        key, location = (
            each.decode("ascii", "replace") if type(each) is bytes else each for each in (key, location)
        )
        if type(kind) is not StorageType or type(key) is not str or type(location) is not str:
            raise UnpicklingError("a storage has a type, a key and a location")
        if type(count) is not int or not 0 <= count <= MAX_ELEMENTS or len(key) > MAX_KEY:
            raise UnpicklingError("a storage has a number of elements and a short key")
        if not view or view[0] is None:
            return storage_of(key, location, kind, count)
        return storage_of(key, location, kind, count, _view(view[0], count))

    return persistent_load


def _view(fields: Any, count: int) -> View:
    """Check the key, offset and size of a view, which files from before PyTorch 0.4 have, of `count` elements."""
    if type(fields) is not tuple or len(fields) != 3:
        raise UnpicklingError("a view of a storage has a key, an offset and a size")
    key, offset, size = fields
    key = key.decode("ascii", "replace") if type(key) is bytes else key
    if type(key) is not str or type(offset) is not int or type(size) is not int or len(key) > MAX_KEY:
        raise UnpicklingError("a view of a storage has a short key, an offset and a size")
    if not 0 <= offset <= offset + size <= count:
        raise UnpicklingError(f"a view of {size} elements at {offset} is outside of its storage of {count}")
    return key, offset, size


def read(
    file: IO[bytes],
    map_location: MapLocation,
    trusted: Unpickler | None,
    options: dict[str, Any],
    mapped: bool = False,
) -> Any:
    """Read the object of a seekable file for `load`.

    `trusted` is the unpickler of a file that may run any code; None selects the restricted one. If `mapped`, storages
    are views of the memory-mapped file.

    Raises:
        EOFError: The file is empty.
        RuntimeError: The file is of another kind, or `mapped` is set for a file that is no zip archive.
        UnpicklingError: The pickle is invalid, or names a class or function that is not allowed.
    """
    try:
        start = file.tell()
        signature = file.read(len(SIGNATURE))
        file.seek(start)
        if not signature:
            raise EOFError("load: the file is empty")
        if signature == SIGNATURE:
            return _load_archive(ArchiveReader(file, mapped), map_location, trusted, options)
        if signature[:1] != pickle.PROTO:
            raise RuntimeError(
                "load: a zip archive is expected, or the pickles that torch.save wrote before PyTorch 1.6; this "
                "file is neither"
            )
        if mapped:
            raise RuntimeError(
                "mmap can only be used with files saved with `torch.save(_use_new_zipfile_serialization=True), please "
                "torch.save your checkpoint with this option in order to use mmap. Load this file with mmap=False"
            )
        return _load_legacy(file.read(), map_location, trusted, options)
    except UnpicklingError as error:
        if trusted is not None:
            raise
        raise UnpicklingError(_explained(str(error))) from None


def _load_archive(
    archive: ArchiveReader, map_location: MapLocation, trusted: Unpickler | None, options: dict[str, Any]
) -> Any:
    _check_archive(archive)
    skipped = goes_to_meta(map_location)
    known: dict[str, UntypedStorage] = {}

    def storage_of(key: str, location: str, kind: StorageType, count: int) -> Any:
        record = f"data/{key}"
        itemsize = 1 if kind.dtype is None else kind.dtype.itemsize
        # A storage on Meta has no record.
        absent = location == "meta" and record not in archive
        size = count * itemsize if absent else _checked_size(archive, record, count * itemsize, itemsize)
        if key not in known:
            if absent or skipped:
                known[key] = UntypedStorage(size, device="meta")
            else:
                bytes_in_file = archive.mapped(record)
                if bytes_in_file is not None:
                    host = storage_of_bytes(bytes_in_file)
                else:
                    host, array = host_storage(size)
                    if size and not skips_data():
                        archive.read_into(record, memoryview(array))  # type: ignore[arg-type]
                known[key] = placed(host, location, map_location)
        return typed(known[key], kind.dtype)

    data = archive.read("data.pkl")
    state = Load(
        Limits(len(data), archive.size), list(allowed_by_user().values()) if trusted is None else None, False
    )
    return _unpickled(data, state, _persistent_load(storage_of, 5), trusted, options)[0]


def _checked_size(archive: ArchiveReader, record: str, nbytes: int, itemsize: int) -> int:
    """Return the size of a storage's record: the size of its elements, plus at most a partial element."""
    size = archive.record(record).size
    if not 0 <= size - nbytes < itemsize:
        raise RuntimeError(f"load: storage has wrong byte size: expected {nbytes} got {size}")
    return size


def _check_archive(archive: ArchiveReader) -> None:
    if "constants.pkl" in archive:
        raise RuntimeError("load: a TorchScript archive is not supported")
    if "data.pkl" not in archive:
        raise RuntimeError("load: the archive has no data.pkl; it is none of torch.save's")
    if "byteorder" not in archive:
        if settings.load.endianness is LoadEndianness.BIG and sys.byteorder != "big":
            raise RuntimeError("load: the default load endianness is big, this machine's numbers are not")
        return
    order = archive.read("byteorder") if archive.record("byteorder").size <= 6 else b""
    if order not in (b"little", b"big"):
        raise ValueError(f"Unknown endianness type: {order!r}")
    if order.decode() != sys.byteorder:
        raise RuntimeError(f"load: the file's numbers are {order.decode()}-endian, this machine's are not")


def _load_legacy(
    data: bytes, map_location: MapLocation, trusted: Unpickler | None, options: dict[str, Any]
) -> Any:
    file = LegacyFile(data, lambda storage, location: placed(storage, location, map_location))
    state = Load(
        Limits(len(data), len(data)), list(allowed_by_user().values()) if trusted is None else None, True
    )
    position, head = 0, []

    def storage_of(key: str, location: str, kind: StorageType, count: int, view: View | None = None) -> Any:
        return file.storage(key, location, kind.dtype, count, view)

    persistent_load = _persistent_load(storage_of, 6)
    for _ in range(3):
        value, position = _unpickled(data, state, persistent_load, trusted, options, position)
        head.append(value)
        if len(head) == 1:
            file.check_head(value)
    file.check_version(*head[1:])
    result, position = _unpickled(data, state, persistent_load, trusted, options, position)
    keys, position = _unpickled(data, state, persistent_load, trusted, options, position)
    file.read_storages(keys, position)
    state.finish()
    return result


def _unpickled(
    data: bytes,
    state: Load,
    persistent_load: Callable[[Any], Any],
    trusted: Unpickler | None,
    options: dict[str, Any],
    position: int = 0,
) -> tuple[Any, int]:
    """Unpickle the object at a position; return it with the position after it."""
    if trusted is None:
        encoding = options["encoding"]
        machine = RestrictedUnpickler(data, state, allowed_by_user(), persistent_load, position, encoding)
        return machine.read(), machine.position
    file = io.BytesIO(data)
    file.seek(position)
    unpickler: Any = type("TrustingUnpickler", (_Trusting, trusted), {})(file, **options)
    unpickler._load, unpickler._persistent = state, persistent_load
    return unpickler.load(), file.tell()


def _explained(message: str) -> str:
    """Explain why a file was refused, and how its owner can allow a class or function that it names."""
    text = f"Weights only load failed. {message}"
    if NOT_ALLOWED not in message:
        return text
    return (
        f"{text}\nAlternatively, load with weights_only=False, which runs whatever code the file names, only if you "
        "trust its source."
    )


def unsafe_globals(file: IO[bytes]) -> list[str]:
    """Return the names in a seekable file that `read` refuses, for `get_unsafe_globals_in_checkpoint`.

    Raises:
        ValueError: The file is not a zip archive, or is a TorchScript archive.
    """
    start = file.tell()
    if file.read(len(SIGNATURE)) != SIGNATURE:
        raise ValueError("Expected input to be a checkpoint returned by torch.save")
    file.seek(start)
    archive = ArchiveReader(file)
    if "constants.pkl" in archive:
        raise ValueError(
            "Expected input to be a checkpoint returned by torch.save but got a torchscript checkpoint"
        )
    allowed = allowed_by_user()
    names = dict.fromkeys(globals_in(archive.read("data.pkl")))
    return [name for name in names if find(name) is None and name not in allowed]
