"""Warp-specialized matmuls with an epilogue: the source of their Gluon kernels, with another end.

The kernel keeps a part of a tile's accumulators in registers. The first result is stored through the kernel's buffers,
as the matmul is without an epilogue; other results are stored by pointers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from types import ModuleType
from typing import Any, NamedTuple

from ...runtime.cuda.triton.lazy_kernel import LazyKernel, attributes_of
from ...triton_kernels.products import tensor_memory_kernels, warp_specialized_kernels

HEADER = '''"""{what}

Written by `tt.compile` for cuda; each step names the operator that it comes from.
"""

from triten.runtime.cuda.triton.lazy_gluon import {dialect}, gl, gluon
from triten.triton_kernels.conversion import convert
{imports}
'''
STORE = """

@gluon.jit
def {name}_store(
    total, addend, out, {others}buffer, batch, row, column, m, n, sz, sn, alpha, beta,
    ADDEND: gl.constexpr, ACTIVATION: gl.constexpr, ROWS: gl.constexpr, COLUMNS: gl.constexpr,
):
    PART: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, COLUMNS, 16])
    rows = row + gl.arange(0, ROWS, gl.SliceLayout(1, PART))
    columns = column + gl.arange(0, COLUMNS, gl.SliceLayout(0, PART))
    is_row, is_column = rows < m, columns < n
    mask = is_row[:, None] & is_column[None, :]
    total = finished(total, addend, batch, columns, n, sz, sn, alpha, beta, ADDEND, ACTIVATION)
    # {product}
    product = convert(total, {type})
{body}
    store_through({first}, buffer, out, batch, row, column, ROWS, COLUMNS)
"""
FINISHED = """

@gluon.jit
def {name}_finished(
    total, addend, {others}scale_a, scale_b, scale_out, batch, row, column, m, n, sz, sn, alpha, beta,
    ADDEND: gl.constexpr, ACTIVATION: gl.constexpr, ROW_WISE: gl.constexpr, SATURATES: gl.constexpr,
    TYPE: gl.constexpr, ROWS: gl.constexpr, COLUMNS: gl.constexpr, PART: gl.constexpr,
):
    rows = row + gl.arange(0, ROWS, gl.SliceLayout(1, PART))
    columns = column + gl.arange(0, COLUMNS, gl.SliceLayout(0, PART))
    is_row, is_column = rows < m, columns < n
    mask = is_row[:, None] & is_column[None, :]
    # {product}
    product = finished(
        total, addend, scale_a, scale_b, scale_out, batch, row, column, m, n, sz, sn, alpha, beta,
        ADDEND, ACTIVATION, ROW_WISE, SATURATES, {type}, ROWS, COLUMNS, PART,
    )
{body}
    return {first}
"""


class Form(NamedTuple):
    """Kernel in Gluon.

    Attributes:
        kernel: The kernel.
        loop: The function of the warps that have the accumulators.
        inner: The name of the function that ends a part of a tile, in the loop and in this module.
        dialect: The name of the device's part of the language.
        end: The text of that function.
        imports: Further functions that the texts call.
    """

    kernel: Any
    loop: Any
    inner: tuple[str, str]
    dialect: str
    end: str
    imports: tuple[str, ...]


FORMS = {
    "warp_specialized": Form(
        warp_specialized_kernels.matmul_warp_specialized,
        warp_specialized_kernels.compute,
        ("store_part", "store"),
        "hopper",
        STORE,
        (
            "from triten.triton_kernels.products.product import tile_of",
            "from triten.triton_kernels.products.warp_specialized_kernels import (",
            "    copy, finished, in_parts, store_through,",
            ")",
        ),
    ),
    "tensor_memory": Form(
        tensor_memory_kernels.matmul_tensor_memory,
        tensor_memory_kernels.store,
        ("finished", "finished"),
        "blackwell",
        FINISHED,
        (
            "from triten.triton_kernels.products.product import tile_of",
            "from triten.triton_kernels.products.tensor_memory_kernels import copy, finished, multiply",
        ),
    ),
}
"""Gluon kernels by the names of their forms."""


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


def gluon_text(form: Form, filled: Mapping[str, str]) -> str:
    """Return the module of a form with an epilogue.

    Args:
        form: The form.
        filled: ``name`` of the kernel, its ``others`` pointers, ``what``, ``product`` and ``type`` for comments and
            the compiler, ``imports``, and the ``body`` that computes the epilogue of `product`, whose ``first`` result
            is stored as the matmul would be.
    """
    filled = {
        **filled,
        "dialect": form.dialect,
        "imports": "\n".join([*form.imports, filled["imports"]]),
        "type": filled["type"].replace("tl.", "gl."),
        "body": IN_TRITON.sub(r"gl.where(mask, \1, \1)", filled["body"]).replace("tl.", "gl."),
    }
    name, epilogue_pointers = filled["name"], filled["others"]
    loop, kernel = form.loop.__name__, form.kernel.__name__
    parameters = "".join(f"    {each}\n" for each in epilogue_pointers.replace(", ", ",\n").splitlines())
    called, own = form.inner
    text: str = form.loop.source
    text = text.replace(f"def {loop}(", f"def {name}_{loop}(", 1)
    text = text.replace("    out,\n", f"    out,\n{parameters}", 1)
    body: str = form.kernel.source
    body = body.replace(f"def {kernel}(", f"def {name}(", 1)
    body = body.replace("    out,\n", f"    out,\n{parameters}", 1)
    body = body.replace(f"({loop}, (\n", f"({name}_{loop}, (\n").replace(
        "addend, out, ", f"addend, out, {epilogue_pointers}"
    )
    text = re.sub(
        rf"\b{called}\(\s*(\w+),\s*addend,\s*(out,\s*)?",
        rf"{name}_{own}(\1, addend, \2{epilogue_pointers}",
        text,
    )
    return HEADER.format(**filled) + form.end.format(**filled) + "\n\n" + text + "\n\n" + body
