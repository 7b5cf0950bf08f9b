"""DLPack's structures, devices and dtypes (github.com/dmlc/dlpack, include/dlpack/dlpack.h)."""

from __future__ import annotations

import ctypes
from typing import Final

from .. import scalar_type as types
from ..scalar_type import dtype as ScalarType

VERSION: Final = 1, 0
"""Version of exported capsules; capsules of this major version can be imported."""
READ_ONLY, IS_COPIED = 1, 2
"""Flags of a versioned managed tensor."""
NAME, VERSIONED_NAME = b"dltensor", b"dltensor_versioned"
"""Names of a capsule until it is consumed; afterwards they have the prefix `USED`."""
USED: Final = b"used_"


class DLDevice(ctypes.Structure):
    """Device: its type and index."""

    _fields_ = (("kind", ctypes.c_int32), ("index", ctypes.c_int32))


class DLDataType(ctypes.Structure):
    """Dtype: its kind, bits of a number, and numbers of an element."""

    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class DLTensor(ctypes.Structure):
    """Memory and its geometry, strides in elements; null strides mean contiguous."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", DLDevice),
        ("ndim", ctypes.c_int32),
        ("dtype", DLDataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class DLManagedTensor(ctypes.Structure):
    """Managed tensor with its deleter, before version 1."""

    _fields_ = (("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class DLManagedTensorVersioned(ctypes.Structure):
    """Managed tensor with its deleter, version and flags."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    )


MANAGED: Final = {NAME: DLManagedTensor, VERSIONED_NAME: DLManagedTensorVersioned}

INT, UINT, FLOAT, BFLOAT, COMPLEX, BOOL = 0, 1, 2, 4, 5, 6
FLOAT8_E4M3FN, FLOAT8_E4M3FNUZ, FLOAT8_E5M2, FLOAT8_E5M2FNUZ, FLOAT8_E8M0FNU, FLOAT4_E2M1FN = (
    10,
    11,
    12,
    13,
    14,
    17,
)


def _by_kind() -> dict[ScalarType, tuple[int, int, int]]:
    codes = {"i": INT, "u": UINT, "f": FLOAT, "c": COMPLEX, "b": BOOL}
    codes_by_dtype = {each: (codes[each.np.kind], 8 * each.itemsize, 1) for each in types.READ_BY_NUMPY}
    return codes_by_dtype | {
        types.complex32: (COMPLEX, 32, 1),
        types.bfloat16: (BFLOAT, 16, 1),
        types.float8_e4m3fn: (FLOAT8_E4M3FN, 8, 1),
        types.float8_e4m3fnuz: (FLOAT8_E4M3FNUZ, 8, 1),
        types.float8_e5m2: (FLOAT8_E5M2, 8, 1),
        types.float8_e5m2fnuz: (FLOAT8_E5M2FNUZ, 8, 1),
        types.float8_e8m0fnu: (FLOAT8_E8M0FNU, 8, 1),
        types.float4_e2m1fn_x2: (FLOAT4_E2M1FN, 4, 2),
    }


DATA_TYPES: Final = _by_kind()
"""Code, bits and lanes of each dtype that DLPack has."""
DTYPES: Final = {data_type: dtype for dtype, data_type in DATA_TYPES.items()}

_python = ctypes.pythonapi
_python.PyCapsule_IsValid.argtypes = (ctypes.py_object, ctypes.c_char_p)
_python.PyCapsule_IsValid.restype = ctypes.c_int
_python.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
_python.PyCapsule_GetPointer.restype = ctypes.c_void_p
_python.PyCapsule_SetName.argtypes = (ctypes.py_object, ctypes.c_char_p)
_python.PyCapsule_SetName.restype = ctypes.c_int

has_name = _python.PyCapsule_IsValid
"""Returns True if an object is a capsule of a name."""
address_in = _python.PyCapsule_GetPointer
"""Returns the address in a capsule of a name."""
rename = _python.PyCapsule_SetName
"""Renames a capsule; the bytes of the name must never be freed."""
