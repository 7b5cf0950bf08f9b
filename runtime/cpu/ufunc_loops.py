"""NumPy's inner loops: the C functions of unary ufuncs, for compiled code to call.

A ufunc holds a function for each dtype, the one for this processor, and its data (`PyUFuncObject` in NumPy's C API).
The function takes pointers, a count and strides, and needs no GIL. So compiled code is bitwise identical to the ufunc.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import NamedTuple

import numpy as np

from .object_code import define_symbol, target

TYPES = {"float32": np.dtype(np.float32).num, "float64": np.dtype(np.float64).num}
"""NumPy's type numbers of the dtypes that have loops."""
MAX_TYPES = 64


class _UfuncHead(ctypes.Structure):
    """The public fields of NumPy's PyUFuncObject, up to the types, without the head that all objects have."""

    _fields_ = (
        ("nin", ctypes.c_int),
        ("nout", ctypes.c_int),
        ("nargs", ctypes.c_int),
        ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
        ("reserved", ctypes.c_int),
        ("name", ctypes.c_char_p),
        ("types", ctypes.POINTER(ctypes.c_char)),
    )


class UfuncLoop(NamedTuple):
    """Loop of a ufunc for one dtype.

    Attributes:
        symbol: Its symbol in LLVM IR.
        has_data: True if it takes data, whose symbol is ``{symbol}_data``.
    """

    symbol: str
    has_data: bool

    def declaration(self) -> str:
        """Return the LLVM declarations."""
        data = f"@{self.symbol}_data = external global i8\n" if self.has_data else ""
        return f"declare void @{self.symbol}(ptr, ptr, ptr, ptr)\n{data}"

    @property
    def data(self) -> str:
        """The last argument."""
        return f"@{self.symbol}_data" if self.has_data else "null"


@cache
def ufunc_loop(function: np.ufunc, dtype: str) -> UfuncLoop | None:
    """Return the loop of a unary ufunc, known to loops by its symbol; None if there is none."""
    head = _head(function)
    if target() is None or head is None or dtype not in TYPES:
        return None
    number = TYPES[dtype].to_bytes(1, "little")
    for i in range(head.ntypes):
        if head.types[2 * i] == head.types[2 * i + 1] == number and head.functions[i]:
            symbol = f"numpy_{function.__name__}_{dtype}"
            define_symbol(symbol, head.functions[i])
            data = head.data[i] if head.data else None
            if data:
                define_symbol(f"{symbol}_data", data)
            return UfuncLoop(symbol, bool(data))
    return None


def _head(function: np.ufunc) -> _UfuncHead | None:
    """Return a ufunc's fields, if they match those that Python reports."""
    size = object.__basicsize__ + ctypes.sizeof(_UfuncHead)
    if type(function) is not np.ufunc or np.ufunc.__basicsize__ < size:
        return None
    head = _UfuncHead.from_address(id(function) + object.__basicsize__)
    numbers = (head.nin, head.nout, head.nargs, head.ntypes)
    if numbers != (1, 1, 2, function.ntypes) or not 0 < head.ntypes <= MAX_TYPES:
        return None
    if head.name != function.__name__.encode() or not head.functions or not head.types:
        return None
    if any(np.dtype(known[0]).num != head.types[2 * i][0] for i, known in enumerate(function.types)):
        return None
    return head
