"""Kernels with an epilogue or a prologue: an eager kernel, called with functions that the compiler writes.

Eager kernels have parameters for them, which are None in eager calls:

- `operands`: a tuple of pointers, for both functions.
- `EPILOGUE`: a function of a tile's sums, called instead of the tile's store.
- `PROLOGUE`: a function of the tiles of both operands, called before they are multiplied. It returns both.
- `WHOLE`: whether the K dimension is a multiple of the tile's, so that a prologue needs no mask.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence

from ...runtime.cuda.triton.lazy_kernel import GLUON, LazyKernel
from ...triton_kernels.products.matmul import matmul
from ...triton_kernels.products.persistent import matmul_persistent
from ...triton_kernels.products.split_k import add_parts
from ...triton_kernels.products.stream_k_kernels import matmul_stream_k

HEADER = '''"""{what}

Written by `tt.compile` for cuda; each step names the operator that it comes from.
"""

from triten.runtime.cuda.triton.lazy_triton import tl, triton
from triten.triton_kernels.conversion import convert
{imports}
'''

EPILOGUE = """

@triton.jit
def {name}_epilogue(
    total, operands, addend, out, batch, row, column, m, n, sz, sm, sn, alpha, beta, ACTIVATION: tl.constexpr
):
    {unpacked} = operands
    rows, columns = row + tl.arange(0, total.shape[0]), column + tl.arange(0, total.shape[1])
    is_row, is_column = rows < m, columns < n
    mask = is_row[:, None] & is_column[None, :]
    value = None
    if addend is not None:
        value = {addend}.to(total.dtype)
    total = finish(total, value, alpha, beta, ACTIVATION)
    # {product}
    product = convert(total, {type})
{body}
"""
ADDENDS = {
    "row": "tl.load(addend + batch * sz + columns * sn, mask=is_column, other=0)[None, :]",
    "tile": "tl.load(addend + batch * sz + rows[:, None] * sm + columns[None, :] * sn, mask=mask, other=0)",
}
"""Load of a matmul's own bias: one row for all, or an element each."""
QUADS = "quads = column // 4 + tl.arange(0, total.shape[1] // 4)"
"""Groups of four columns of a tile, as random words count them."""
KERNELS = {
    "tiled": matmul,
    "persistent": matmul_persistent,
    "stream_k": matmul_stream_k,
    "parts": add_parts,
}
"""Eager kernels by the names of their forms."""


def import_text(kernel: LazyKernel) -> str:
    """Return the import of an eager kernel as source."""
    return f"from {kernel.__module__} import {kernel.__name__}"


def unpacked_text(pointers: Sequence[str]) -> str:
    """Return names as the target of an assignment, as source."""
    return f"({', '.join(pointers)},)" if pointers else "_"


def entry_text(kernel: LazyKernel, name: str, pointers: Sequence[str], functions: Mapping[str, str]) -> str:
    """Return the source of a kernel that calls an eager kernel with pointers and functions.

    Args:
        kernel: The eager kernel.
        name: Name of the new kernel.
        pointers: Names of the pointers, which are parameters after `out`, or the first ones if there is no `out`.
        functions: Names of functions by the eager kernel's parameters, such as ``EPILOGUE``.
    """
    given = {"operands": f"({', '.join(pointers)},)" if pointers else "()", **functions}
    jit, language = ("gluon", "gl") if kernel.language == GLUON else ("triton", "tl")
    parameters: list[str] = [] if "out" in kernel.arg_names else list(pointers)
    arguments: list[str] = []
    for each in inspect.signature(kernel.fn).parameters.values():
        if each.name in given:
            arguments.append(given[each.name])
        elif each.default is not each.empty and not (each.name == "WHOLE" and "PROLOGUE" in functions):
            arguments.append("None")
        else:
            arguments.append(each.name)
            parameters.append(
                each.name if each.annotation is each.empty else f"{each.name}: {language}.constexpr"
            )
        if each.name == "out":
            parameters += pointers
    signature, call = _wrapped(parameters, 4), _wrapped(arguments, 8)
    return f"\n\n@{jit}.jit\ndef {name}(\n{signature}\n):\n    {kernel.__name__}(\n{call}\n    )\n"


def _wrapped(items: Sequence[str], indent: int) -> str:
    """Return items, each followed by a comma, in lines that break between items."""
    lines = [""]
    for each in items:
        if lines[-1] and len(lines[-1]) + len(each) > 110 - indent:
            lines.append("")
        lines[-1] += f"{each}, "
    return "\n".join(" " * indent + line.rstrip() for line in lines)
