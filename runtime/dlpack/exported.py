"""Capsules over triten's memory, for other libraries to consume.

Any thread may free a capsule, with or without the GIL, and so may a library that outlives the interpreter. A Python
deleter cannot run then, so NumPy creates the capsules. NumPy's C deleter takes the GIL and drops an array, or does
nothing after the interpreter's end. The array keeps the owner of the memory alive. The capsule's fields for memory,
dtype and geometry overwrite NumPy's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..scalar_type import dtype as ScalarType
from .structures import DATA_TYPES, MANAGED, NAME, READ_ONLY, VERSION, VERSIONED_NAME, address_in

_BYTE = np.zeros(1, np.uint8)


class _Owner:
    """Makes NumPy create a non-contiguous array of `ndim` dimensions, so that its capsules have strides."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, owner: object, ndim: int) -> None:
        self.owner = owner
        shape = (2,) + (1,) * (ndim - 1) if ndim else ()
        self.__array_interface__ = {
            "data": (_BYTE.ctypes.data, False),
            "shape": shape,
            "strides": (0,) * ndim,
            "typestr": "|u1",
            "version": 3,
        }


def capsule(
    owner: object,
    address: int,
    device: tuple[int, int],
    dtype: ScalarType,
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    flags: int,
    versioned: bool,
) -> Any:
    """Return a capsule over memory of `owner`, which the capsule or its consumer keeps alive.

    Args:
        owner: Object that owns the memory.
        address: Address of the first element.
        device: DLPack's device type and index.
        dtype, sizes, strides: Dtype and geometry, strides in elements.
        flags: `READ_ONLY`, `IS_COPIED`.
        versioned: If True, the capsule is of DLPack 1, else of earlier versions.

    Raises:
        BufferError: For a dtype that DLPack does not have, and for read-only memory without a version to say so.
    """
    data_type = DATA_TYPES.get(dtype)
    if data_type is None:
        raise BufferError(f"__dlpack__: DLPack has no counterpart of {dtype}")
    if flags & READ_ONLY and not versioned:
        raise BufferError(
            "__dlpack__: a read-only tensor is shown to those alone who ask for DLPack 1 or later (max_version)"
        )
    carrier = np.asarray(_Owner(owner, len(sizes)))
    made = carrier.__dlpack__(max_version=VERSION if versioned else None)
    name = VERSIONED_NAME if versioned else NAME
    managed: Any = MANAGED[name].from_address(address_in(made, name))
    if versioned:
        managed.flags = flags
    tensor = managed.tensor
    tensor.data = address if 0 not in sizes else None
    tensor.device.kind, tensor.device.index = device
    tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes = data_type
    tensor.byte_offset = 0
    for i, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        tensor.shape[i], tensor.strides[i] = size, stride
    return made
