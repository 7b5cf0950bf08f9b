"""`GenericBase`: a base class like `object`, whose instances `PyType_GenericNew` allocates.

For a class with a dict, `object.__new__` also allocates space for attributes that are not set yet (Python 3.11 and
3.12). That costs a small operator 10 to 20 ns of 300. `PyType_GenericNew` defers it to the first attribute. A class
inherits it only from a base written in C, so this module creates a base through C's stable interface.

Source: Python's C API reference, "Type Objects", `PyType_FromSpec`.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

_NAME = f"{__name__}.GenericBase".encode()
_TP_NEW = 65
_DEFAULT_AND_BASETYPE = 1 << 18 | 1 << 10


class _Slot(ctypes.Structure):
    _fields_ = (("slot", ctypes.c_int), ("function", ctypes.c_void_p))


class _Spec(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("basicsize", ctypes.c_int),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_Slot)),
    )


def _generic_base() -> type:
    python = ctypes.PyDLL(None)
    slots = (_Slot * 2)(
        _Slot(_TP_NEW, ctypes.cast(python.PyType_GenericNew, ctypes.c_void_p)), _Slot(0, None)
    )
    # The interpreter may keep the name. Sizes of 0 are those of `object`.
    spec = _Spec(_NAME, 0, 0, _DEFAULT_AND_BASETYPE, slots)
    python.PyType_FromSpec.argtypes = (ctypes.POINTER(_Spec),)
    python.PyType_FromSpec.restype = ctypes.py_object
    made: type = python.PyType_FromSpec(ctypes.byref(spec))
    return made


if TYPE_CHECKING:

    class GenericBase:
        """Object without any attributes."""
else:
    GenericBase = _generic_base()
