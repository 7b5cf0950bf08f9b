"""Tensor maps on an emulated device: the 128 bytes of a map, and the box of a tensor that it describes.

NVIDIA does not document the bytes of its maps. These hold the arguments of `cuTensorMapEncodeTiled` after a magic
number, so that any other argument is detected. Source: CUDA driver API, `cuTensorMapEncodeTiled`; NVIDIA, PTX ISA
8.8, "Tensors".
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from ..tensor_map import HOST_TYPES, MAX_RANK, NBYTES

Array = np.ndarray[Any, Any]

MARK = b"TMAP"
_LAYOUT = struct.Struct("<4s8BQ5Q5Q5H5B")
SIZES = (1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4)
"""Bytes of an element, by the driver's number of its type."""
ELEMENTS = (
    *(np.uint8, np.uint16, np.uint32, np.int32, np.uint64, np.int64),
    *(np.float16, np.float32, np.float64, ml_dtypes.bfloat16),
)
"""NumPy's types of elements, by the same number."""
NAN_BITS = {6: 0x7FFF, 7: 0x7FFFFFFF, 8: 0x7FFFFFFFFFFFFFFF, 9: 0x7FFF}
"""NaN bits that fill out-of-bounds elements: float16, float32, float64, bfloat16."""
ROUNDED_TYPES = (10, 11, 12)
"""Types that round elements during the copy: float32 and TF32 without subnormals, and TF32."""
SPANS = (16, 32, 64, 128)
"""Bytes within which a swizzle permutes 16-byte units, by its number."""
MAX_BOX, MAX_STEP, MAX_EXTENT, MAX_PITCH = 256, 8, 2**32, 2**40
INVALID_VALUE = 1
CUDA_VERSION = 13020


class TensorMap(NamedTuple):
    """Tensor in global memory and its copy box; all tuples begin with the innermost dimension.

    `pitches` are the strides in bytes of each dimension, `steps` the element strides of a box.
    """

    type: int
    address: int
    sizes: tuple[int, ...]
    pitches: tuple[int, ...]
    box: tuple[int, ...]
    steps: tuple[int, ...]
    swizzle: int
    fill: int

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return SIZES[self.type]

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of box elements along each dimension."""
        return tuple(-(-length // step) for length, step in zip(self.box, self.steps, strict=True))

    @property
    def nbytes(self) -> int:
        """Bytes of a box, including elements outside of the tensor."""
        return int(np.prod(self.counts)) * self.itemsize


def encode(
    type_: int,
    address: int,
    sizes: Sequence[int],
    pitches: Sequence[int],
    box: Sequence[int],
    steps: Sequence[int],
    interleave: int = 0,
    swizzle: int = 0,
    fill: int = 0,
) -> bytes:
    """Return the bytes of a map from the arguments of `cuTensorMapEncodeTiled`, innermost dimension first.

    Args:
        type_: The driver's number of the element type.
        address: Address of the tensor.
        sizes: Sizes of the tensor in elements.
        pitches: Strides in bytes of each dimension but the innermost.
        box: Extent of a box in elements.
        steps: Element strides of a box.
        interleave, swizzle, fill: The driver's numbers.

    Raises:
        ValueError: For arguments that the driver refuses.

    Example:
        >>> decode(encode(7, 4096, (100, 20), (400,), (8, 4), (1, 1))).counts
        (8, 4)
    """
    padded = [list(numbers) + [0] * (MAX_RANK - len(numbers)) for numbers in (sizes, box)]
    rank = len(sizes)
    # The innermost dimension has no stride of its own and is contiguous (CUDA driver API).
    own = [SIZES[type_] if 0 <= type_ < len(SIZES) else 0, *pitches[: rank - 1], *[0] * (MAX_RANK - rank)]
    further = [1, *steps[1:rank], *[0] * (MAX_RANK - rank)]
    fields = (
        rank,
        type_,
        swizzle,
        fill,
        interleave,
        0,
        0,
        0,
        address,
        *padded[0],
        *own,
        *padded[1],
        *further,
    )
    check(*fields)
    return _LAYOUT.pack(MARK, *fields).ljust(NBYTES, b"\0")


def check(
    rank: int,
    type_: int,
    swizzle: int,
    fill: int,
    interleave: int,
    _a: int,
    _b: int,
    _c: int,
    address: int,
    *rest: int,
) -> None:
    """Raise ValueError for map fields that the driver refuses."""
    sizes, pitches, box, steps = (rest[i : i + rank] for i in range(0, 4 * MAX_RANK, MAX_RANK))

    def require(condition: bool, problem: str) -> None:
        if not condition:
            raise ValueError(f"tensor map: {problem}")

    require(1 <= rank <= MAX_RANK, f"{rank} dimensions, expected 1 to {MAX_RANK}")
    require(0 <= type_ < len(SIZES), f"element type {type_}")
    require(interleave == 0, f"interleave mode {interleave}")
    require(0 <= swizzle < len(SPANS), f"swizzle mode {swizzle}")
    require(address % 16 == 0, f"address {address:#x} is no multiple of 16")
    require(all(0 < size <= MAX_EXTENT for size in sizes), f"sizes {list(sizes)}")
    require(
        all(pitch % 16 == 0 and 0 <= pitch < MAX_PITCH for pitch in pitches[1:]),
        f"strides {list(pitches[1:])} in bytes, expected multiples of 16",
    )
    require(all(0 < length <= MAX_BOX for length in box), f"box {list(box)}, expected 1 to {MAX_BOX}")
    require(all(0 < step <= MAX_STEP for step in steps), f"element strides {list(steps)}")
    inner = box[0] * SIZES[type_]
    require(inner % 16 == 0, f"the box's inner side of {inner} bytes is no multiple of 16")
    require(
        swizzle == 0 or inner <= SPANS[swizzle],
        f"the box's inner side of {inner} bytes is wider than swizzled",
    )
    require(fill in (0, 1) and (fill == 0 or type_ in NAN_BITS), f"fill mode {fill} of type {type_}")


def decode(data: bytes) -> TensorMap:
    """Decode a map. Raise ValueError for bytes that are no map, or for a map that the driver refuses."""
    mark, *fields = _LAYOUT.unpack_from(data)
    if mark != MARK:
        raise ValueError("these bytes are no tensor map")
    check(*fields)
    rank, type_, swizzle, fill, _, _, _, _, address, *numbers = fields
    sizes, pitches, box, steps = (tuple(numbers[i : i + rank]) for i in range(0, 4 * MAX_RANK, MAX_RANK))
    return TensorMap(type_, address, sizes, pitches, box, steps, swizzle, fill)


_FIELDS = {
    "rank": 0,
    "elemtype": 1,
    "swizzle_mode": 2,
    "fill_mode": 3,
    "interleave_layout": 4,
    "global_address": 8,
}
_LISTS = {
    "global_dim": 9,
    "global_stride": 9 + MAX_RANK,
    "box_dim": 9 + 2 * MAX_RANK,
    "element_stride": 9 + 3 * MAX_RANK,
}


def replaced(data: bytes, field: str, index: int, value: int) -> bytes:
    """Return the bytes of a map with one field replaced (``tensormap.replace``); zeros are a new map.

    Source: NVIDIA, PTX ISA 8.8, "tensormap.replace", for the fields and their numbers.

    Raises:
        ValueError: for bytes that are no map.
    """
    mark, *fields = _LAYOUT.unpack_from(data)
    if mark != MARK and any(data):
        raise ValueError("these bytes are no tensor map")
    if field in _LISTS:
        # Strides exclude the innermost dimension.
        fields[_LISTS[field] + index + (field == "global_stride")] = value
    else:
        fields[_FIELDS[field]] = {"rank": value + 1, "elemtype": HOST_TYPES.get(value, value)}.get(
            field, value
        )
    if field == "elemtype":
        fields[_LISTS["global_stride"]] = SIZES[fields[1]]
    return _LAYOUT.pack(MARK, *fields).ljust(NBYTES, b"\0")


class Box(NamedTuple):
    """Elements of a box in units of `unit` bytes: their positions, and whether they are inside the tensor.

    `offsets` are distances from the box's first byte in shared memory, before swizzling.
    """

    unit: int
    addresses: Array
    inside: Array
    offsets: Array


def box_at(tensor: TensorMap, coordinates: Sequence[int]) -> Box:
    """Return the box whose first element has these coordinates, innermost first; it may lie outside the tensor."""
    itemsize, counts = tensor.itemsize, tensor.counts
    row, first, end = counts[0] * itemsize, coordinates[0] * itemsize, tensor.sizes[0] * itemsize
    unit = 16
    while unit > 1 and any(number % unit for number in (first, row, end)):
        unit //= 2
    inner = first + unit * np.arange(row // unit, dtype=np.int64)
    offsets, inside = inner, (inner >= 0) & (inner < end)
    for i in range(1, len(counts)):
        along = coordinates[i] + tensor.steps[i] * np.arange(counts[i], dtype=np.int64)
        within = (along >= 0) & (along < tensor.sizes[i])
        offsets = (along * tensor.pitches[i])[:, None] + offsets.reshape(-1)
        inside = within[:, None] & inside.reshape(-1)
    flat = offsets.reshape(-1)
    addresses = (flat + tensor.address).astype(np.uint64)
    return Box(unit, addresses, inside.reshape(-1), unit * np.arange(flat.size, dtype=np.int64))


def swizzled(addresses: Array, swizzle: int) -> Array:
    """Return the swizzled positions in shared memory of the 16-byte units at these addresses.

    Within a span, the index of the 16-byte unit is XORed with the lowest bits of the index of the 128-byte line.

    Example:
        >>> swizzled(np.array([0, 128, 256 + 16]), 3).tolist()
        [0, 144, 304]
    """
    mask = SPANS[swizzle] // 16 - 1
    return addresses ^ (((addresses >> 7) & mask) << 4) if mask else addresses


class EncoderLibrary:
    """Replacement for the driver's library in `tensor_map.encode_tiled`, with maps that the emulator understands."""

    def library(self) -> EncoderLibrary:
        """Return itself: the functions."""
        return self

    def check(self, status: int, operation: str) -> None:
        """Raise RuntimeError for a status that is not 0."""
        if status:
            raise RuntimeError(f"CUDA error: invalid argument: {operation}: {self.refusal}")

    def __init__(self) -> None:
        self.refusal = ""

    def cuDriverGetVersion(self, version: Any) -> int:
        """Write a driver version that encodes small tensors correctly."""
        ctypes.cast(version, ctypes.POINTER(ctypes.c_int))[0] = CUDA_VERSION
        return 0

    def cuTensorMapEncodeTiled(
        self,
        target: Any,
        type_: int,
        rank: int,
        address: Any,
        sizes: Any,
        pitches: Any,
        box: Any,
        steps: Any,
        interleave: int,
        swizzle: int,
        promotion: int,
        fill: int,
    ) -> int:
        """Write a map to `target`; return status 0, or the status of an invalid value."""
        del promotion
        try:
            data = encode(
                type_,
                address.value or 0,
                list(sizes)[:rank],
                list(pitches)[: rank - 1],
                list(box)[:rank],
                list(steps)[:rank],
                interleave,
                swizzle,
                fill,
            )
        except ValueError as error:
            self.refusal = str(error)
            return INVALID_VALUE
        ctypes.memmove(target.value, data, NBYTES)
        return 0
