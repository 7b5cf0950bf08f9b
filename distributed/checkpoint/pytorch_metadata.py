"""Reader of the ``.metadata`` that PyTorch wrote: a pickle, read without executing its code.

Its classes become plain records with attributes only, which are validated afterwards. Chunks written with
extensions, such as compression, are refused.
"""

from __future__ import annotations

from pickle import UnpicklingError
from typing import Any

from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.size import Size
from ...runtime.tensor_spec import MAX_BYTES
from ...serialization.limits import Limits
from ...serialization.rebuild import Load
from ...serialization.restricted_unpickler import RestrictedUnpickler
from .metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from .metadata_checks import check_metadata, file_name
from .shard_file import StorageInfo

__all__ = ["loads"]


class _Record:
    """An object of the pickle: its class's name, and the state that it was given."""

    kind = ""

    def __init__(self, *args: Any) -> None:
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute."""
        if type(self.state) is not dict:
            raise UnpicklingError(f"load: a {self.kind} of PyTorch's metadata has no attributes")
        return self.state.get(name, default)


def _record(kind: str) -> type[_Record]:
    return type(kind, (_Record,), {"kind": kind})


_MODULE = "torch.distributed.checkpoint.metadata"
_KINDS = {
    kind: _record(kind)
    for kind in (
        "BytesStorageMetadata",
        "ChunkStorageMetadata",
        "Metadata",
        "MetadataIndex",
        "StorageMeta",
        "TensorProperties",
        "TensorStorageMetadata",
        "_MEM_FORMAT_ENCODING",
    )
}
_INFO = _record("_StorageInfo")
_PATH = _record("PosixPath")
_ALLOWED: dict[str, Any] = {
    **{f"{_MODULE}.{kind}": record for kind, record in _KINDS.items()},
    "torch.distributed.checkpoint.filesystem._StorageInfo": _INFO,
    "pathlib.PosixPath": _PATH,
    "pathlib.WindowsPath": _PATH,
    "pathlib._local.PosixPath": _PATH,
    "pathlib._local.WindowsPath": _PATH,
}


def loads(data: bytes) -> Metadata:
    """Parse PyTorch's metadata file.

    Raises:
        UnpicklingError: it has more than PyTorch writes, or is malformed.
    """

    def refuse(persistent_id: Any) -> Any:
        raise UnpicklingError("load: the metadata of a checkpoint has no storages")

    state = Load(Limits(len(data), 0), list(_ALLOWED.values()), False)
    try:
        root = RestrictedUnpickler(data, state, _ALLOWED, refuse).read()
    except EOFError as error:
        raise UnpicklingError("load: .metadata is neither JSON nor a complete pickle") from error
    _expect(root, "Metadata")
    entries: dict[str, TensorStorageMetadata | BytesStorageMetadata] = {}
    for name, value in _dict(root.get("state_dict_metadata"), "state_dict_metadata").items():
        kind = getattr(value, "kind", "")
        if type(name) is not str:
            raise UnpicklingError(f"load: a name in PyTorch's metadata is a {type(name).__name__}")
        entries[name] = BytesStorageMetadata() if kind == "BytesStorageMetadata" else _tensor(value)
    storage = {
        _index(index): _info(info) for index, info in _dict(root.get("storage_data"), "storage_data").items()
    }
    meta = root.get("storage_meta")
    save_id = None if meta is None else _expect(meta, "StorageMeta").get("save_id")
    paths = root.get("planner_data")
    planner_data = (
        None if paths is None else {name: _path(each) for name, each in _dict(paths, "planner_data").items()}
    )
    made = Metadata(entries, planner_data, storage, StorageMeta(save_id=save_id), root.get("version"))
    try:
        check_metadata(made)
    except ValueError as error:
        raise UnpicklingError(f"load: PyTorch's metadata: {error}") from None
    return made


def _expect(value: Any, kind: str) -> _Record:
    if not isinstance(value, _Record) or value.kind != kind:
        raise UnpicklingError(
            f"load: PyTorch's metadata has a {type(value).__name__} where a {kind} is expected"
        )
    return value


def _dict(value: Any, name: str) -> dict[Any, Any]:
    if type(value) is not dict:
        raise UnpicklingError(f"load: '{name}' of PyTorch's metadata is no dict, but {type(value).__name__}")
    return value


def _sizes(value: Any) -> Size:
    if not isinstance(value, (tuple, list)) or any(
        type(each) is not int or not 0 <= each <= MAX_BYTES for each in value
    ):
        raise UnpicklingError("load: sizes in PyTorch's metadata are no list of numbers of at most 63 bits")
    return Size(value)


def _tensor(value: Any) -> TensorStorageMetadata:
    record = _expect(value, "TensorStorageMetadata")
    properties = _expect(record.get("properties"), "TensorProperties").state
    if type(properties) is not tuple or not properties or not isinstance(properties[0], ScalarType):
        raise UnpicklingError(
            "load: a tensor in PyTorch's metadata has no properties that begin with a dtype"
        )
    size = _sizes(record.get("size"))
    chunks = []
    listed = record.get("chunks") or []
    if type(listed) is not list:
        raise UnpicklingError(f"load: chunks in PyTorch's metadata are no list, but {type(listed).__name__}")
    for each in listed:
        chunk = _expect(each, "ChunkStorageMetadata")
        chunks.append(ChunkStorageMetadata(_sizes(chunk.get("offsets")), _sizes(chunk.get("sizes"))))
    return TensorStorageMetadata(
        TensorProperties(properties[0], requires_grad=properties[2:3] == (True,)), size, chunks
    )


def _index(value: Any) -> MetadataIndex:
    record = _expect(value, "MetadataIndex")
    name, offset = record.get("fqn"), record.get("offset")
    if type(name) is not str:
        raise UnpicklingError(f"load: a name in PyTorch's metadata is a {type(name).__name__}")
    return MetadataIndex(name, None if offset is None else _sizes(offset))


def _info(value: Any) -> StorageInfo:
    record = _expect(value, "_StorageInfo")
    if record.get("transform_descriptors"):
        raise UnpicklingError("load: chunks were written with extensions, which are not supported")
    try:
        name = file_name(record.get("relative_path"))
    except ValueError as error:
        raise UnpicklingError(f"load: PyTorch's metadata: {error}") from None
    offset, length = _sizes((record.get("offset"), record.get("length")))
    return StorageInfo(name, offset, length)


def _path(value: Any) -> tuple[Any, ...]:
    if type(value) is not tuple:
        raise UnpicklingError(f"load: keys in PyTorch's metadata are no tuple, but {type(value).__name__}")
    return value
