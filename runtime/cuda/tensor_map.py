"""Tensor maps: descriptors of tensors for the tensor memory accelerator (TMA) of sm_90 and later.

A `TensorDescriptor` argument becomes a tensor map, 128 bytes that are passed with the launch. Source: CUDA driver
API, `cuTensorMapEncodeTiled`.
"""

from __future__ import annotations

import ctypes
import functools
import re
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

NBYTES = 128
MAX_RANK = 5
ALIGNMENT = 64
HOST_TYPES = {8: 10, 9: 8, 10: 9}
"""Element types with different numbers in driver and compiler: float64, float16, bfloat16."""
TFLOAT32 = 11
INTERLEAVE_NONE = 0
L2_PROMOTION_128_BYTES = 2
FILL_NAN = 1
SMALL_TENSOR = 128 * 1024
LAST_DRIVER_WITH_SMALL_TENSORS_WRONG = 13010
SMALL_TENSOR_BIT = 1 << 21


KEPT = 256
"""Number of maps that a kernel caches for a descriptor; a caching allocator returns the same addresses often."""


class DescribedTensor(NamedTuple):
    """Tensor behind a kernel's descriptor, without its address: sizes and strides in elements, the last stride 1."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]


class DescriptorType(NamedTuple):
    """Descriptor entry of a signature: the element type, and the block that is loaded or stored at a time."""

    element: str
    block: tuple[int, ...]


@functools.lru_cache(maxsize=512)
def descriptor_type(type_: str) -> DescriptorType | None:
    """Parse a signature's entry such as ``"tensordesc<bf16[128, 64]>"``; return None for every other type.

    Example:
        >>> descriptor_type("tensordesc<bf16[128, 64]>")
        DescriptorType(element='bf16', block=(128, 64))
        >>> descriptor_type("*bf16") is None
        True

    A Gluon kernel's entry also names the layout of the block in shared memory, which tells the launch nothing:
    the compiler repeats it as the map's swizzle.
    """
    match = re.fullmatch(r"tensordesc<(\w+)\[([\d, ]+)\](?:,\s*\w+\(.*\))?>", type_)
    if match is None:
        return None
    return DescriptorType(match[1], tuple(int(size) for size in match[2].split(",")))


class Encoder(Protocol):
    """Provider of the driver's functions: a `MachineCode`, or a replacement for the library."""

    def library(self) -> Any:
        """Return the driver's library."""

    def check(self, status: int, operation: str) -> None:
        """Raise RuntimeError for a nonzero status of the driver."""


class TensorMaps(dict[int, bytes]):
    """Kernel parameters of a descriptor, by tensor address; encoded on first use.

    A parameter is the map, then sizes as int32 and strides as int64, in the compiler's layout.

    Args:
        code: Provider of the driver's library.
        tensor: Sizes and strides.
        meta: The compiler's metadata of the descriptor; see `encode_tiled`.
    """

    def __init__(self, code: Encoder, tensor: DescribedTensor, meta: Mapping[str, Any]) -> None:
        super().__init__()
        self._code, self._tensor, self._meta = code, tensor, meta
        rank = len(tensor.sizes)
        self._rest = struct.pack(parameter_format(rank), bytes(NBYTES), *tensor.sizes, *tensor.strides)[
            NBYTES:
        ]

    def __missing__(self, address: int) -> bytes:
        memory = ctypes.create_string_buffer(NBYTES + ALIGNMENT)
        target = ctypes.addressof(memory)
        target += -target % ALIGNMENT
        encode_tiled(self._code, target, address, self._tensor.sizes, self._tensor.strides, self._meta)
        made = ctypes.string_at(target, NBYTES) + self._rest
        if len(self) >= KEPT:
            self.clear()
        self[address] = made
        return made


def parameter_format(rank: int) -> str:
    """Return the `struct` format of a descriptor parameter of this rank."""
    return f"@{NBYTES}s{rank}i{rank}q"


def encode_tiled(
    code: Encoder,
    target: int,
    address: int,
    sizes: Sequence[int],
    strides: Sequence[int],
    meta: Mapping[str, Any],
    *,
    nan_outside: bool = False,
    round_to_tf32: bool = False,
) -> None:
    """Write the map of a tensor.

    Args:
        code: Provider of the driver's library.
        target: Destination: `NBYTES` bytes aligned to `ALIGNMENT`.
        address: Address of the tensor's first element.
        sizes, strides: Sizes and strides of the tensor in elements; the last stride is 1.
        meta: The compiler's metadata of the descriptor: `block_size`, `elem_size` in bytes, `elem_type`, `swizzle`,
            `fp4_padded`.
        nan_outside: If True, elements outside the tensor read as NaN instead of 0.
        round_to_tf32: If True, the copy rounds float32 to TF32.

    Raises:
        NotImplementedError: For a descriptor of convolutions (im2col).
        RuntimeError: For arguments that the driver refuses.
    """
    if meta.get("is_im2col"):
        raise NotImplementedError("a host's tensor descriptor in im2col mode is not supported")
    rank = len(sizes)
    if not (rank == len(strides) == len(meta["block_size"]) <= MAX_RANK):
        raise RuntimeError(
            f"tensor map: sizes {list(sizes)}, strides {list(strides)} and block {list(meta['block_size'])} differ in "
            f"rank, or have more than {MAX_RANK} dimensions"
        )
    itemsize = meta["elem_size"]
    extents = [*sizes[:-1], sizes[-1] * 2] if meta["fp4_padded"] else list(sizes)
    pitches = [itemsize * stride for stride in strides[:-1]]
    type_ = TFLOAT32 if round_to_tf32 else HOST_TYPES.get(meta["elem_type"], meta["elem_type"])
    library = code.library()
    status = library.cuTensorMapEncodeTiled(
        ctypes.c_void_p(target),
        type_,
        rank,
        ctypes.c_void_p(address),
        _innermost_first(ctypes.c_uint64, extents),
        _innermost_first(ctypes.c_uint64, [extents[0] * (pitches[0] if pitches else itemsize), *pitches]),
        _innermost_first(ctypes.c_uint32, meta["block_size"]),
        (ctypes.c_uint32 * MAX_RANK)(*[1] * MAX_RANK),
        INTERLEAVE_NONE,
        meta["swizzle"],
        L2_PROMOTION_128_BYTES,
        FILL_NAN if nan_outside else 0,
    )
    code.check(
        status,
        f"cuTensorMapEncodeTiled of sizes {list(sizes)}, strides {list(strides)} in elements of {itemsize} bytes, "
        f"block {list(meta['block_size'])}, address {address:#x}",
    )
    _mend_small(code, target, extents, [*pitches, itemsize])


def _innermost_first(type_: Any, numbers: Sequence[int]) -> Any:
    return (type_ * MAX_RANK)(*reversed(numbers))


def _mend_small(code: Encoder, target: int, extents: Sequence[int], pitches: Sequence[int]) -> None:
    # Drivers up to CUDA 13.1 encode small tensors wrongly; CUTLASS and Triton clear the same bit.
    version = ctypes.c_int()
    code.check(code.library().cuDriverGetVersion(ctypes.byref(version)), "cuDriverGetVersion")
    last_byte = sum((extent - 1) * pitch for extent, pitch in zip(extents, pitches, strict=True))
    if version.value <= LAST_DRIVER_WITH_SMALL_TENSORS_WRONG and last_byte + 1 < SMALL_TENSOR:
        words = (ctypes.c_uint64 * (NBYTES // 8)).from_address(target)
        words[1] &= ~SMALL_TENSOR_BIT
