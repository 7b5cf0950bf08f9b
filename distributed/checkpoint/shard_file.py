"""Files of shards, in the safetensors format: written with checksums, and read in part.

A file holds tensors' elements in row-major order, and objects' bytes as tensors of bytes; any reader of safetensors
reads it. The metadata of the checkpoint says which bytes an item has, and has a CRC-32 for each block of them, so that
a part can be checked without the rest.

Source: https://github.com/huggingface/safetensors, "Format".
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import IO, Any

import numpy as np

from ...dispatch.tensor import Tensor
from ...dispatch.tensor_data import from_numpy
from ...runtime.memory_format import contiguous_strides
from ...runtime.regular_file import open_regular
from ...runtime.scalar_type import dtype as ScalarType
from ...safetensors.dtypes import DTYPES

__all__ = ["Entry", "StorageInfo", "read_box", "read_bytes", "write_entries"]

BLOCK = 1 << 20
"""Bytes of an item under one checksum."""
ALIGNMENT = 8
NAMES = {dtype: name for name, dtype in DTYPES.items() if not name.startswith("F4")}
"""Names of dtypes in the format. Other dtypes are stored as bytes; the checkpoint's metadata has their dtype.
"""


@dataclass(frozen=True)
class StorageInfo:
    """Location of an item in a checkpoint.

    Attributes:
        relative_path: File, relative to the checkpoint's folder.
        offset: First byte.
        length: Number of bytes.
        checksums: CRC-32 of each block. None if the file has no checksums, as in PyTorch's files.
        block: Bytes of a block.
    """

    relative_path: str
    offset: int
    length: int
    checksums: tuple[int, ...] | None = None
    block: int = 0


@dataclass(frozen=True)
class Entry:
    """Something to be written.

    Attributes:
        name: Name in the file.
        dtype: Dtype of a tensor. None for an object's bytes.
        sizes: Sizes of a tensor, or the number of bytes of an object.
        data: Function that returns the tensor or the bytes when they are needed.
    """

    name: str
    dtype: ScalarType | None
    sizes: tuple[int, ...]
    data: Callable[[], Tensor | bytes]

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return 1 if self.dtype is None else self.dtype.itemsize

    @property
    def length(self) -> int:
        """Its bytes."""
        return prod(self.sizes) * self.itemsize


def write_entries(file: IO[bytes], path: str, entries: Sequence[Entry]) -> list[StorageInfo]:
    """Write a file of entries. One of them at a time is in the host's memory.

    Raises:
        ValueError: two have the same name.
    """
    # Wide elements first, so that each lies at a multiple of its size.
    order = sorted(range(len(entries)), key=lambda number: -entries[number].itemsize)
    header: dict[str, Any] = {}
    end = 0
    for number in order:
        entry = entries[number]
        if entry.name in header:
            raise ValueError(f"save: {entry.name!r} is the name of two items of one file")
        known = None if entry.dtype is None else NAMES.get(entry.dtype)
        header[entry.name] = {
            "dtype": known or "U8",
            "shape": list(entry.sizes) if known else [entry.length],
            "data_offsets": [end, end + entry.length],
        }
        end += entry.length
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    file.write(len(text).to_bytes(8, "little") + text)
    offset = len(text) + 8
    infos: dict[int, StorageInfo] = {}
    for number in order:
        entry = entries[number]
        memory = _bytes_of(entry)
        checksums = []
        for begin in range(0, len(memory), BLOCK):
            block = memory[begin : begin + BLOCK]
            checksums.append(zlib.crc32(block))
            file.write(block)
        infos[number] = StorageInfo(path, offset, len(memory), tuple(checksums), BLOCK)
        offset += len(memory)
    return [infos[number] for number in range(len(entries))]


def _bytes_of(entry: Entry) -> memoryview[int]:
    data = entry.data()
    if isinstance(data, Tensor):
        if (data.dtype, tuple(data.shape)) != (entry.dtype, entry.sizes):
            raise ValueError(
                f"save: {entry.name!r} was planned as {list(entry.sizes)} of {entry.dtype}, and is "
                f"{list(data.shape)} of {data.dtype}"
            )
        array = np.ascontiguousarray(
            data.detach().resolve_conj().resolve_neg().cpu().contiguous().host_array()
        )
        return array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")
    return memoryview(data)


def read_bytes(folder: str, info: StorageInfo) -> bytes:
    """Read all bytes of an item.

    Raises:
        RuntimeError: they are not those that were written.
    """
    return _read(folder, info, 0, info.length)


def _read(folder: str, info: StorageInfo, begin: int, end: int) -> bytes:
    """Bytes of an item, checked, with those around them that are under the same checksums."""
    path = os.path.join(folder, info.relative_path)
    size = info.block
    if info.checksums is not None:
        begin, end = begin // size * size, min(-(-end // size) * size, info.length)
    data = b""
    with open_regular(path) as file:
        # Compared first: memory is taken for as many bytes as are asked for.
        if info.offset + end <= os.fstat(file.fileno()).st_size:
            file.seek(info.offset + begin)
            data = file.read(end - begin)
    if len(data) != end - begin:
        raise RuntimeError(f"load: the file {path} is damaged: it ends before byte {info.offset + end}")
    if info.checksums is not None:
        for number in range(begin // size, -(-end // size)):
            block = memoryview(data)[number * size - begin : (number + 1) * size - begin]
            if zlib.crc32(block) != info.checksums[number]:
                raise RuntimeError(
                    f"load: the file {path} is damaged: bytes {info.offset + number * size} to "
                    f"{info.offset + number * size + len(block)} do not match their checksum"
                )
    return data


def read_box(
    folder: str,
    info: StorageInfo,
    dtype: ScalarType,
    sizes: Sequence[int],
    offsets: Sequence[int],
    lengths: Sequence[int],
) -> Tensor:
    """Read a box of a chunk, and no bytes outside the range from its first to its last element.

    Args:
        folder: The checkpoint's folder.
        info: Location of the chunk.
        dtype: Dtype of its elements.
        sizes: Sizes of the chunk.
        offsets: Offsets of the box in the chunk.
        lengths: Sizes of the box, none of them 0.

    Raises:
        RuntimeError: the bytes are not those that were written, or not as many as the chunk has.
    """
    if prod(sizes) * dtype.itemsize != info.length:
        raise RuntimeError(
            f"load: a chunk of {list(sizes)} elements of {dtype} has {info.length} bytes in the file "
            f"{os.path.join(folder, info.relative_path)}"
        )
    strides = [stride * dtype.itemsize for stride in contiguous_strides(tuple(sizes))]
    begin = sum(offset * stride for offset, stride in zip(offsets, strides, strict=True))
    last = begin + sum((length - 1) * stride for length, stride in zip(lengths, strides, strict=True))
    data = _read(folder, info, begin, last + dtype.itemsize)
    start = begin % info.block if info.checksums is not None else 0
    span = np.frombuffer(data, np.uint8)[start : start + last - begin + dtype.itemsize]
    rows = np.lib.stride_tricks.as_strided(span, (*lengths, dtype.itemsize), (*strides, 1), writeable=False)
    flat = np.ascontiguousarray(rows).reshape(-1)
    made: Tensor = (
        from_numpy(flat.copy() if not flat.flags.writeable else flat).view(dtype).view(tuple(lengths))
    )
    return made
