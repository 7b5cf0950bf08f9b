"""File ``.metadata`` of a checkpoint: JSON, which holds no code, with its own checksum.

    {"format": "triten.distributed.checkpoint", "version": 1, "checksum": ..., "content": {
        "tensors": {NAME: {"dtype": "float32", "size": [4, 2], "requires_grad": false,
            "chunks": [{"offsets": [0, 0], "sizes": [2, 2],
                        "file": ..., "offset": ..., "length": ..., "block": ..., "crc32": [...]}]}},
        "objects": {NAME: {"file": ..., "offset": ..., "length": ..., "block": ..., "crc32": [...]}},
        "paths": {NAME: ["model", "weight"]}, "save_id": ...}}

The checksum is the CRC-32 of the content as this module writes it, without spaces.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

from ...runtime import scalar_type
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.size import Size
from ...runtime.tensor_spec import MAX_BYTES
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

__all__ = ["dumps", "is_ours", "loads"]

FORMAT = "triten.distributed.checkpoint"
VERSION = 1


def dumps(metadata: Metadata) -> bytes:
    """Serialize the metadata to the file's bytes.

    Raises:
        TypeError: the planner's data are no keys by name.
    """
    tensors: dict[str, Any] = {}
    objects: dict[str, Any] = {}
    for name, value in metadata.state_dict_metadata.items():
        if isinstance(value, BytesStorageMetadata):
            objects[name] = _location(metadata.storage_data[MetadataIndex(name)])
            continue
        tensors[name] = {
            "dtype": value.properties.dtype.name,
            "size": list(value.size),
            "requires_grad": value.properties.requires_grad,
            "chunks": [
                {"offsets": list(chunk.offsets), "sizes": list(chunk.sizes)}
                | _location(metadata.storage_data[MetadataIndex(name, chunk.offsets)])
                for chunk in value.chunks
            ],
        }
    content = {
        "tensors": tensors,
        "objects": objects,
        "paths": _checked_paths(metadata.planner_data),
        "save_id": None if metadata.storage_meta is None else metadata.storage_meta.save_id,
    }
    whole = {"format": FORMAT, "version": VERSION, "checksum": _checksum(content), "content": content}
    return _text(whole)


def _location(info: StorageInfo) -> dict[str, Any]:
    checksums = list(info.checksums or ())
    return {"file": info.relative_path, "offset": info.offset, "length": info.length, "block": info.block} | {
        "crc32": checksums
    }


def _checked_paths(planner_data: Any) -> dict[str, list[str | int]] | None:
    if planner_data is None:
        return None
    paths = {name: list(path) for name, path in dict(planner_data).items()}
    for name, path in paths.items():
        if type(name) is not str or any(type(key) not in (str, int) for key in path):
            raise TypeError(f"save: expected planner_data to map names to keys, but got {name!r}: {path!r}")
    return paths


def _text(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _checksum(content: Any) -> int:
    return zlib.crc32(_text(content))


def is_ours(data: bytes) -> bool:
    """Return True if bytes begin like a file of this format."""
    return data.lstrip()[:1] == b"{"


def loads(data: bytes, path: str) -> Metadata:
    """Parse and validate a metadata file.

    Args:
        data: The file's bytes, which are not trusted.
        path: The file's name, for errors.

    Raises:
        RuntimeError: it is damaged, or of a later version.
    """
    try:
        whole = json.loads(data)
        if whole["format"] != FORMAT:
            raise ValueError(f"format {whole['format']!r}")
        version, content = whole["version"], whole["content"]
        if version == VERSION and whole["checksum"] != _checksum(content):
            raise ValueError("its checksum does not match")
        if version != VERSION:
            raise RuntimeError(f"load: {path} has version {version!r} of the format, expected {VERSION}")
        return _metadata(content)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RuntimeError(f"load: the file {path} is damaged: {type(error).__name__}: {error}") from error


def _metadata(content: Mapping[str, Any]) -> Metadata:
    entries: dict[str, TensorStorageMetadata | BytesStorageMetadata] = {}
    storage: dict[MetadataIndex, StorageInfo] = {}
    for name, value in content["tensors"].items():
        size = _sizes(value["size"])
        chunks = []
        for index, each in enumerate(value["chunks"]):
            chunk = ChunkStorageMetadata(_sizes(each["offsets"]), _sizes(each["sizes"]))
            chunks.append(chunk)
            storage[MetadataIndex(name, chunk.offsets, index)] = _info(each)
        properties = TensorProperties(dtype_of(value["dtype"]), requires_grad=bool(value["requires_grad"]))
        entries[name] = TensorStorageMetadata(properties, size, chunks)
    for name, value in content["objects"].items():
        entries[name] = BytesStorageMetadata()
        storage[MetadataIndex(name)] = _info(value)
    paths = content["paths"]
    planner_data = None if paths is None else {name: _path(name, keys) for name, keys in paths.items()}
    meta = StorageMeta(save_id=content["save_id"])
    made = Metadata(entries, planner_data, storage, meta, str(VERSION))
    check_metadata(made)
    return made


def _path(name: str, keys: Any) -> tuple[str | int, ...]:
    if type(keys) is not list:
        raise ValueError(f"'{name}' has invalid keys {keys!r:.200}")
    return tuple(keys)


def dtype_of(name: str) -> ScalarType:
    """Return the dtype of a name. Raise ValueError if there is none."""
    for each in (*scalar_type.ALL, *scalar_type.registered):
        if each.name == name:
            return each
    raise ValueError(f"unknown dtype {name!r}")


def _number(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= MAX_BYTES:
        raise ValueError(f"invalid size or offset {value!r:.100}")
    return value


def _sizes(values: Any) -> Size:
    return Size([_number(value) for value in values])


def _info(value: Mapping[str, Any]) -> StorageInfo:
    length, checksums = _number(value["length"]), tuple(_number(each) for each in value["crc32"])
    block = _number(value["block"])
    if block == 0 or len(checksums) != -(-length // block):
        raise ValueError(f"{length} bytes have {len(checksums)} checksums")
    return StorageInfo(file_name(value["file"]), _number(value["offset"]), length, checksums, block)
