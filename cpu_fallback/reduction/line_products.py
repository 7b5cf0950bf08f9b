"""Products of contiguous lines: halves are multiplied until they are short, by NumPy or by a compiled loop."""

from __future__ import annotations

from typing import Any

from ...runtime.cpu.code import Code
from ..plain_numpy import np
from .line_loops import LINE_PRODUCTS

Array = np.ndarray[Any, Any]

SEQUENTIAL = 16
"""Half of the length from which a line's halves are multiplied; shorter lines are multiplied one after another."""
LONGEST_PRODUCT = 1 << 13
"""The longest line of a loop, which keeps half a line on the stack."""


def line_products(array: Array) -> Any:
    """Multiply real floats along the last axis.

    ``np.multiply.reduce`` is a sequential dependency chain; the halves of a line are multiplied in vectors.

    Example:
        >>> import numpy as np
        >>> line_products(np.full((2, 101), -1, np.float32))
        array([-1., -1.], dtype=float32)
    """
    while array.shape[-1] > LONGEST_PRODUCT:
        array = _halved(array)
    made = LINE_PRODUCTS.reduced(array)
    return products_of_halves(array) if made is None else made


def products_of_halves(array: Array) -> Any:
    """Multiply along the last axis by NumPy."""
    while array.shape[-1] >= 2 * SEQUENTIAL:
        array = _halved(array)
    return np.multiply.reduce(array, -1)


def _halved(array: Array) -> Array:
    """Multiply the halves of lines; an element that is left multiplies the first product."""
    half = array.shape[-1] // 2
    products: Array = array[..., :half] * array[..., half : 2 * half]
    if array.shape[-1] % 2:
        products[..., 0] *= array[..., -1]
    return products


def line_product() -> str:
    """Return ``float @line_product(ptr %x, i64 %m)`` of a line of at most `LONGEST_PRODUCT` elements."""
    code = Code()
    kept = f"%{code.name('kept')}"
    code.variables.append(f"  {kept} = alloca [{LONGEST_PRODUCT // 2} x float], align 64")
    source, length = code.variable("ptr", "%x"), code.variable("i64", "%m")
    longest = LONGEST_PRODUCT.bit_length()
    with code.loop("0", str(longest)):
        m = code.new(f"load i64, ptr {length}")
        with code.when(code.new(f"icmp sge i64 {m}, {2 * SEQUENTIAL}")):
            half = code.new(f"lshr i64 {m}, 1")
            first = code.new(f"load ptr, ptr {source}")
            second = code.at("float", first, half)
            with code.loop("0", half) as i:
                a, b = (code.new(f"load float, ptr {code.at('float', each, i)}") for each in (first, second))
                code.do(f"store float {code.new(f'fmul float {a}, {b}')}, ptr {code.at('float', kept, i)}")
            with code.when(code.new(f"trunc i64 {m} to i1")):
                last = code.new(f"load float, ptr {code.at('float', first, code.add(m, '-1'))}")
                product = code.new(f"fmul float {code.new(f'load float, ptr {kept}')}, {last}")
                code.do(f"store float {product}, ptr {kept}")
            code.do(f"store ptr {kept}, ptr {source}")
            code.do(f"store i64 {half}, ptr {length}")
    total = code.variable("float", "1.0")
    rest, left = code.new(f"load ptr, ptr {source}"), code.new(f"load i64, ptr {length}")
    with code.loop("0", left) as i:
        value = code.new(f"load float, ptr {code.at('float', rest, i)}")
        before = code.new(f"load float, ptr {total}")
        code.do(f"store float {code.new(f'fmul float {before}, {value}')}, ptr {total}")
    made = code.new(f"load float, ptr {total}")
    return code.function("line_product", "ptr readonly %x, i64 %m", result=f"float {made}")
