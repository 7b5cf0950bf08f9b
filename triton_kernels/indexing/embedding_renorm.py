"""Rows of an embedding table scaled down to a norm, in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.allocator import storage_size
from ...runtime.cuda.triton.lazy_triton import tl, triton
from ...runtime.scalar_type import uint8
from ...runtime.tensor_spec import TensorSpec
from ..budget import STREAMING, Configuration, declare
from ..conversion import compute_type, convert, type_name
from ..elementwise.elementwise import check_dtypes, number_for
from ..elementwise.pointwise_functions import pow
from ..launch import Launch, cdiv, integer_type, interpreted, launch_nothing, next_power_of_2
from .index_bounds import Bound, filled_bytes
from .placement import Placement, placed_kernel, put

BLOCK_ROWS, BLOCK_COLUMNS = 4, 256
INTERPRETED_ROWS = 1024


@triton.jit
def larger(a, b):
    return tl.where((a > b) | (a != a), a, b)


@triton.jit
def scale_rows(
    table,
    marks,
    max_norm,
    p,
    rows,
    columns,
    row_stride,
    column_stride,
    KIND: tl.constexpr,
    TYPE: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """Scale each marked row whose p-norm exceeds `max_norm` down to it; KIND selects the specialized norms."""
    r = tl.program_id(0).to(INDEX) * BLOCK_R + tl.arange(0, BLOCK_R).to(INDEX)
    marked = r < rows
    marked = marked & (tl.load(marks + r, mask=marked, other=0) != 0)
    total = tl.zeros((BLOCK_R, BLOCK_C), TYPE)
    for start in range(0, columns, BLOCK_C):
        c = start + tl.arange(0, BLOCK_C).to(INDEX)
        mask = marked[:, None] & (c < columns)[None, :]
        at = table + r[:, None] * row_stride + c[None, :] * column_stride
        x = tl.abs(tl.where(mask, convert(tl.load(at, mask=mask), TYPE), 0))
        if KIND == "largest":
            total = larger(total, x)
        elif KIND == "count":
            total += (x != 0).to(TYPE)
        elif KIND == "sum":
            total += x
        elif KIND == "euclidean":
            total += x * x
        else:
            total += tl.where(mask, pow(x, p), 0)
    if KIND == "largest":
        norm = tl.reduce(total, 1, larger)
    else:
        norm = tl.sum(total, 1)
        if KIND == "euclidean":
            norm = tl.sqrt(norm) if norm.dtype == tl.float64 else tl.sqrt_rn(norm)
        elif KIND == "power":
            norm = pow(norm, 1.0 / (tl.zeros_like(norm) + p))
    large = marked & (norm > max_norm)
    if norm.dtype == tl.float64:
        scale = max_norm / (norm + 1e-7)
    else:
        scale = tl.div_rn(tl.zeros_like(norm) + max_norm, norm + 1e-7)
    for start in range(0, columns, BLOCK_C):
        c = start + tl.arange(0, BLOCK_C).to(INDEX)
        mask = large[:, None] & (c < columns)[None, :]
        at = table + r[:, None] * row_stride + c[None, :] * column_stride
        x = convert(tl.load(at, mask=mask), TYPE) * scale[:, None]
        tl.store(at, convert(x, table.dtype.element_ty), mask=mask)


KINDS = {0.0: "count", 1.0: "sum", 2.0: "euclidean", float("inf"): "largest"}


def embedding_renorm(call: StructuredCall) -> PlannedKernel:
    """Mark the rows that the indices name, then scale the marked ones."""
    table, where = call.outputs[0], call.args["indices"]
    check_dtypes(call, [table])
    if not table.dtype.is_floating_point:
        raise call.refuse(table)
    rows, columns = table.sizes
    marks = TensorSpec.contiguous((rows,), uint8, table.device)
    single = TensorSpec.contiguous((1,), uint8, table.device)
    if where.numel == 0:
        return PlannedKernel(launch_nothing)
    bound = Bound(call.name, where, rows, 0, False, IndexError, "index out of range in self")
    none = (None,) * where.ndim
    indices = ((bound, where.strides, 0),)
    mark = placed_kernel(Placement(marks, single, where.sizes, indices, none, (), (0,) * where.ndim, ()), put)
    type_ = compute_type(table.dtype)
    block_rows, block_columns = BLOCK_ROWS, min(next_power_of_2(columns), BLOCK_COLUMNS)
    if interpreted():
        block_rows, block_columns = min(next_power_of_2(rows), INTERPRETED_ROWS), next_power_of_2(columns)
    kind = integer_type(storage_size(table.sizes, table.strides) + block_rows * table.strides[0], columns)
    signature = {"table": f"*{table.dtype.triton_name}", "marks": "*u8"}
    signature |= {name: type_name(type_) for name in ("max_norm", "p")}
    signature |= dict.fromkeys(("rows", "columns", "row_stride", "column_stride"), kind)
    constants: dict[str, object] = {
        "TYPE": type_,
        "INDEX": tl.int32 if kind == "i32" else tl.int64,
        "BLOCK_R": block_rows,
        "BLOCK_C": block_columns,
    }
    numbers = (rows, columns, *table.strides)
    grid = (cdiv(rows, block_rows), 1, 1)
    number = number_for(type_)
    launches: dict[str, Callable[..., None]] = {}

    def launch_for(name: str) -> Callable[..., None]:
        if name not in launches:
            launches[name] = Launch(call.device, scale_rows, signature, {**constants, "KIND": name})
        return launches[name]

    def into(out: Any, data: Any, where: Any, max_norm: float, norm_type: float) -> None:
        chosen = filled_bytes(rows, 0, out.device)
        mark(chosen, filled_bytes(1, 1, out.device), (where,))
        if columns:
            launch = launch_for(KINDS.get(float(norm_type), "power"))
            launch(grid, out.address, chosen.address, number(max_norm), number(norm_type), *numbers)

    return PlannedKernel(into)


register_stub("embedding_renorm_stub", "cuda", embedding_renorm)

declare(
    scale_rows,
    why=STREAMING,
    operand="table",
    tile=("BLOCK_R", "BLOCK_C"),
    dtypes={
        ("fp32", "fp16", "bf16"): (Configuration((BLOCK_ROWS, BLOCK_COLUMNS)),),
        # An odd norm's powers are long sequences of DFMA, whose latency 16 warps hide; eight of them go on at a time,
        # in pairs of registers.
        ("fp64",): (Configuration((BLOCK_ROWS, BLOCK_COLUMNS), blocks=4),),
    },
    smaller=True,
    operations="3 for each element of a marked row; of an odd norm a power too",
    traffic="marked rows twice, and where they are too long once more",
)
