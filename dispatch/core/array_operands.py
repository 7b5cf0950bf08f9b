"""Python's binary operators between a tensor and an ndarray, where NumPy leaves them to the tensor.

NumPy does so with all comparisons, and with the operators whose left operand is the array: a tensor has the higher
``__array_priority__``. Comparisons are the tensors' own. ``array + tensor`` is what ``tensor + array`` is, which
NumPy computes with its rules for dtypes and gives to `Tensor.__array_wrap__`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

COMPARISONS: Final = frozenset({"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"})

REFLECTED: Final[dict[str, Callable[..., Any]]] = {
    "__radd__": np.add,
    "__rsub__": np.subtract,
    "__rmul__": np.multiply,
    "__rfloordiv__": np.floor_divide,
    "__rmod__": np.remainder,
    "__rpow__": np.power,
    "__rmatmul__": np.matmul,
    "__rand__": np.bitwise_and,
    "__ror__": np.bitwise_or,
    "__rxor__": np.bitwise_xor,
    "__rlshift__": np.left_shift,
    "__rrshift__": np.right_shift,
}
"""What an operator is among NumPy's functions."""

REFLECTED_OF_UFUNC: Final[dict[Any, str]] = {function: special for special, function in REFLECTED.items()} | {
    np.true_divide: "__rtruediv__",
    np.less: "__gt__",
    np.less_equal: "__ge__",
    np.greater: "__lt__",
    np.greater_equal: "__le__",
    np.equal: "__eq__",
    np.not_equal: "__ne__",
}
"""The operator by which a tensor computes a function whose first operand is a number of NumPy's."""


def reflected_of_array(special: str, tensor: Any, other: Any, *_: Any) -> Any:
    """``other <operator> tensor``; NotImplemented unless `other` is an ndarray."""
    function = REFLECTED.get(special)
    if function is None or not isinstance(other, np.ndarray):
        return NotImplemented
    return function(other, tensor)
