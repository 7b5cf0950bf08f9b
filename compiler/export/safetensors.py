"""Tensors as bytes in the safetensors format: 8 bytes of length, a header in JSON, the elements.

The format holds names, dtypes, shapes and elements in row-major order, and nothing that could be executed.

Source: https://github.com/huggingface/safetensors, "Format".
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...dispatch.generated import functions as ops
from ...dispatch.tensor_data import from_numpy
from ...runtime import scalar_type
from ...runtime.scalar_type import dtype as ScalarType

NAMES = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "uint16": "U16", "int16": "I16", "uint32": "U32", "int32": "I32",
    "uint64": "U64", "int64": "I64", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float16": "F16",
    "bfloat16": "BF16", "float32": "F32", "float64": "F64", "complex64": "C64",
}  # fmt: skip
DTYPES: dict[str, ScalarType] = {
    name: getattr(scalar_type, "bool_" if ours == "bool" else ours) for ours, name in NAMES.items()
}
ALIGNMENT = 8
LARGEST_HEADER = 100_000_000


def dumps(tensors: Mapping[str, Any]) -> bytes:
    """Return tensors as bytes. Raise NotImplementedError for a dtype or a layout that the format does not have.

    Example:
        >>> import triten as tt
        >>> from triten.compiler.export.safetensors import dumps, loads
        >>> loads(dumps({"x": tt.tensor([1.0, 2.0])}))
        {'x': tensor([1., 2.])}
    """
    header: dict[str, Any] = {}
    parts: list[bytes] = []
    end = 0
    # Wide elements first, so that each is aligned to its size.
    for name in sorted(tensors, key=lambda each: -tensors[each].dtype.itemsize):
        tensor = tensors[name].detach()
        dtype = NAMES.get(tensor.dtype.name)
        if dtype is None or tensor._spec.layout.name != "strided":
            raise NotImplementedError(
                f"'{name}': safetensors has no tensors of {tensor.dtype} and {tensor.layout}"
            )
        part = np.ascontiguousarray(tensor.contiguous().host_array()).tobytes()
        header[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [end, end + len(part)]}
        end += len(part)
        parts.append(part)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])


def loads(data: bytes) -> dict[str, Any]:
    """Return the tensors of bytes, on the CPU. Raise ValueError for an invalid format, or truncated data."""
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > min(LARGEST_HEADER, len(data) - 8):
        raise ValueError("safetensors: the header is longer than the data")
    elements = memoryview(data)[8 + size :]
    tensors: dict[str, Any] = {}
    end = 0
    try:
        header = json.loads(data[8 : 8 + size])
        header.pop("__metadata__", None)
        rows = sorted(header.items(), key=lambda row: row[1]["data_offsets"])
        for name, row in rows:
            first, last = row["data_offsets"]
            dtype, shape = DTYPES[row["dtype"]], tuple(row["shape"])
            if any(type(n) is not int or n < 0 for n in shape) or first != end:
                raise ValueError
            if last - first != math.prod(shape) * dtype.itemsize or last > len(elements):
                raise ValueError
            array = np.empty(shape, dtype.np)
            array.reshape(-1)[...] = np.frombuffer(elements[first:last], dtype=dtype.np)
            tensors[name] = from_numpy(array) if array.size else ops.empty(shape, dtype=dtype)
            end = last
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(f"safetensors: the header is damaged ({type(error).__name__}: {error})") from error
    if end != len(elements):
        raise ValueError(f"safetensors: {len(elements) - end} bytes belong to no tensor")
    return tensors
