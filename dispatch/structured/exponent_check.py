"""Range check of constant exponents of integers; the exponent is known when the call runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def exponent_check(np_dtype: Any, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that makes a kernel refuse negative or too large constant exponents of an integer dtype."""
    max_exponent = np.iinfo(np_dtype).max

    def wrap(kernel: Callable[..., Any]) -> Callable[..., Any]:
        def checked_kernel(*data: Any) -> Any:
            exponent = data[-1]
            if exponent < 0:
                raise RuntimeError("Integers to negative integer powers are not allowed.")
            if exponent > max_exponent:
                kind = "int" if name == "int32" else f"{name}_t"
                raise RuntimeError(f"value cannot be converted to type {kind} without overflow")
            return kernel(*data)

        return checked_kernel

    return wrap
