"""Warp-specialized matmuls with an epilogue: eager Gluon kernels with a function of a part of a tile.

The kernel keeps a part of a tile's accumulators in registers. The first result is stored through the kernel's buffers,
as the matmul is without an epilogue; other results are stored by pointers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from types import ModuleType
from typing import Any

from ...runtime.cuda.triton.lazy_kernel import LazyKernel, attributes_of
from ...triton_kernels.products.tensor_memory_kernels import matmul_tensor_memory
from ...triton_kernels.products.warp_specialized_kernels import matmul_warp_specialized
from .product_forms import entry_text, import_text

HEADER = '''"""{what}

Written by `tt.compile` for cuda; each step names the operator that it comes from.
"""

from triten.runtime.cuda.triton.lazy_gluon import gl, gluon
from triten.triton_kernels.conversion import convert
{imports}
'''
EPILOGUE = """

@gluon.jit
def {name}_epilogue(
    total, operands, batch, row, column, m, n, ROWS: gl.constexpr, COLUMNS: gl.constexpr, PART: gl.constexpr
):
    {unpacked} = operands
    rows = row + gl.arange(0, ROWS, gl.SliceLayout(1, PART))
    columns = column + gl.arange(0, COLUMNS, gl.SliceLayout(0, PART))
    is_row, is_column = rows < m, columns < n
    mask = is_row[:, None] & is_column[None, :]
    # {product}
    product = convert(total, {type})
{body}
    return {first}
"""

KERNELS = {"warp_specialized": matmul_warp_specialized, "tensor_memory": matmul_tensor_memory}
"""Eager kernels by the names of their forms."""

IN_TRITON = re.compile(r"tl\.broadcast_to\((\w+), mask\.shape\)")
"""A call for which Gluon has no function."""


def makes_blocks(function: LazyKernel, visited: Collection[Any] = ()) -> bool:
    """Return True if a function of elements, or a callee, creates a block, which has no layout in Gluon."""
    text = function.source
    if any(f"tl.{name}(" in text for name in ("full", "zeros", "arange")):
        return True
    called: list[Any] = []
    for name, value in function.reached.items():
        called += attributes_of(value, name, text).values() if isinstance(value, ModuleType) else [value]
    inner = [
        each
        for each in called
        if isinstance(each, LazyKernel) and each is not function and each not in visited
    ]
    return any(makes_blocks(each, [*visited, function]) for each in inner)


def gluon_text(form: str, pointers: Sequence[str], filled: Mapping[str, str]) -> str:
    """Return the source of a form with an epilogue.

    Args:
        form: A name in `KERNELS`.
        pointers: Names of the epilogue's pointers.
        filled: The values of `EPILOGUE` and `HEADER`. ``first`` is the result that is stored as the matmul would be.
    """
    kernel = KERNELS[form]
    filled = {
        **filled,
        "imports": "\n".join([import_text(kernel), filled["imports"]]),
        "type": filled["type"].replace("tl.", "gl."),
        "body": IN_TRITON.sub(r"gl.where(mask, \1, \1)", filled["body"]).replace("tl.", "gl."),
    }
    functions = {"EPILOGUE": f"{filled['name']}_epilogue"}
    entry = entry_text(kernel, filled["name"], pointers, functions)
    return HEADER.format(**filled) + EPILOGUE.format(**filled) + entry
