"""Products with compressed rows of elements and of blocks, and products at given places: their launches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...dispatch.structured.meta.sparse_products import FAULTY_COLUMN, FAULTY_ROWS
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.allocator import get_allocator
from ...runtime.cuda.faults import Fault, fault_flags
from ...runtime.cuda.triton.lazy_triton import tl
from ...runtime.tensor_spec import TensorSpec
from ..contiguous import contiguous_copy
from ..conversion import compute_type
from ..elementwise.elementwise import check_dtypes
from ..folded_grid import folded
from ..launch import Launch, cdiv, integer_type, interpreted, launch_nothing, next_power_of_2
from ..products.mm import precision_of
from .product_kernels import add_pieces, bsr_rows, csr_rows, sampled_pairs

CHUNK = 1024
"""Values of a row that one program adds up."""


class Problem:
    """Problem that the launches of an operator share: contiguous operands, types of sums and indices, and
    faults.
    """

    def __init__(self, call: StructuredCall, messages: Sequence[str]) -> None:
        self.call, self.messages = call, tuple(messages)
        check_dtypes(call, [call.outputs[0]])
        self.names = call.runtime
        copies = {name: contiguous_copy(call.args[name]) for name in self.names}
        self.specs: dict[str, TensorSpec] = {name: flat for name, (flat, _) in copies.items()}
        self._copied = [copied for _, copied in copies.values()]
        self.out = call.outputs[0]
        type_ = compute_type(self.out.dtype)
        self.sum_type = type_ if type_.is_floating() else tl.int64
        faults = [Fault(call.name, RuntimeError, message) for message in messages]
        self.flags = fault_flags(call.device.resolved_index, faults)

    def pointers(self, **more: str) -> dict[str, str]:
        """Return the types of the operands and the result."""
        types = {name: f"*{spec.dtype.triton_name}" for name, spec in self.specs.items()}
        return types | {"out": f"*{self.out.dtype.triton_name}"} | more

    def addresses(self, inputs: Sequence[Any]) -> tuple[list[Any], list[int]]:
        """Return the operands' data, which the caller must keep until the launch, and their addresses."""
        data = [copied(x) for copied, x in zip(self._copied, inputs, strict=True)]
        return data, [each.address for each in data]

    def report(self) -> None:
        """Raise what kernels found, where launches are waited for."""
        if self.flags.driver.launch_blocking:
            for i in self.flags.raised():
                raise RuntimeError(f"{self.call.name}(): {self.messages[i]}")


def csr_mm(call: StructuredCall) -> PlannedKernel:
    """Return the kernel of ``_csr_mm``."""
    rows, width = call.outputs[0].sizes
    nnz, length = call.args["col_indices"].sizes[0], call.args["dense"].sizes[0]
    if not rows or not width:
        return PlannedKernel(launch_nothing)
    problem = Problem(call, (FAULTY_ROWS.format(nnz=nnz), FAULTY_COLUMN.format(columns=length)))
    columns = min(next_power_of_2(width), 64)
    entries = {1: 256, 64: 8}.get(columns, 256 // columns)
    if interpreted():
        entries = min(max(next_power_of_2(nnz // rows + 1), 1), 64)
    pieces = nnz // CHUNK
    across = cdiv(width, columns)
    integers = integer_type(max(length, rows) * width + nnz + CHUNK + rows)
    sum_name = "i64" if problem.sum_type == tl.int64 else problem.sum_type.name
    numbers = {"rows": rows, "nnz": nnz, "length": length, "width": width}
    constants: dict[str, object] = {
        "TYPE": problem.sum_type,
        "INDEX": tl.int32 if integers == "i32" else tl.int64,
        "CHUNK": CHUNK,
        "STEPS": rows.bit_length(),
        "COLUMNS": columns,
    }
    workspace = {"heads": f"*{sum_name}", "tails": f"*{sum_name}"} if pieces else {}
    types = problem.pointers(crow="", col="", flag="*i32", **workspace)
    types |= {"crow": types["crow_indices"], "col": types["col_indices"]} | dict.fromkeys(numbers, integers)
    own = constants | {"ENTRIES": entries} | ({} if pieces else {"heads": None, "tails": None})
    multiply = Launch(
        call.device,
        csr_rows,
        {name: types[name] for name in csr_rows.arg_names if name in types and name not in own},
        own,
        elements=("crow", "col", "flag", "values"),
    )
    add: Launch | None = None
    if pieces:
        add = Launch(
            call.device,
            add_pieces,
            {name: types[name] for name in add_pieces.arg_names if name in types},
            constants,
            elements=("crow",),
        )
    allocate = get_allocator("cuda").allocate
    size = (pieces + 1) * width * (4 if sum_name == "fp32" else 8)

    def into(out: Any, *inputs: Any) -> None:
        _kept, (crow, col, values, dense) = problem.addresses(inputs)
        flag = problem.flags.begin()
        extents = (rows, nnz, length, width)
        if add is None:
            multiply(folded(rows, across), crow, col, values, dense, out.address, flag, *extents)
        else:
            heads, tails = allocate(size, call.device), allocate(size, call.device)
            both = (heads.address, tails.address)
            multiply(
                folded(rows + pieces, across), crow, col, values, dense, out.address, *both, flag, *extents
            )
            add(folded(pieces, across), crow, *both, out.address, rows, nnz, width)
        problem.report()

    return PlannedKernel(into)


def sampled_mm(call: StructuredCall) -> PlannedKernel:
    """Return the kernel of ``_sampled_mm``."""
    (count,) = call.outputs[0].sizes
    (above, inner), across = call.args["left"].sizes, call.args["right"].sizes[0]
    if not count:
        return PlannedKernel(launch_nothing)
    problem = Problem(call, (f"a number of a row lies outside of [0, {above}) or [0, {across})",))
    integers = integer_type(max(above, across) * max(inner, 1) + count + 1024)
    numbers = {"count": count, "above": above, "across": across, "inner": inner}
    pairs, taken = (16, 32) if not interpreted() else (256, min(next_power_of_2(max(inner, 1)), 64))
    constants: dict[str, object] = {
        "TYPE": problem.sum_type,
        "INDEX": tl.int32 if integers == "i32" else tl.int64,
        "PAIRS": pairs,
        "INNER": min(taken, next_power_of_2(max(inner, 1))),
    }
    types = problem.pointers(flag="*i32") | dict.fromkeys(numbers, integers)
    launch = Launch(
        call.device,
        sampled_pairs,
        {name: types[name] for name in sampled_pairs.arg_names if name in types},
        constants,
        elements=("rows", "columns", "flag"),
    )

    def into(out: Any, *inputs: Any) -> None:
        _kept, operands = problem.addresses(inputs)
        launch((cdiv(count, pairs), 1, 1), *operands, out.address, problem.flags.begin(), *numbers.values())
        problem.report()

    return PlannedKernel(into)


def bsr_mm(call: StructuredCall) -> PlannedKernel:
    """Return the kernel of ``_bsr_mm``, by tensor cores; it rejects integers, which they do not support."""
    lines = call.args["crow_indices"].sizes[0] - 1
    nnz, high, wide = call.args["values"].sizes
    length, width = call.args["dense"].sizes[0] // wide, call.outputs[0].sizes[1]
    if not call.outputs[0].dtype.is_floating_point:
        raise call.refuse(call.outputs[0])
    if not lines or not width:
        return PlannedKernel(launch_nothing)
    problem = Problem(call, (FAULTY_ROWS.format(nnz=nnz), FAULTY_COLUMN.format(columns=length)))
    itemsize = call.outputs[0].itemsize
    most_m, most_n, most_k = {8: (32, 32, 16), 4: (64, 64, 16)}.get(itemsize, (64, 64, 64))
    block_m = min(max(next_power_of_2(high), 16), most_m)
    block_k = min(max(next_power_of_2(wide), 16), most_k)
    block_n = most_n if itemsize == 2 else min(max(next_power_of_2(width), 16), most_n)
    integers = integer_type(max(nnz * high * wide, (length + 1) * wide * width, lines * high * width) + 4096)
    numbers = {"rows": lines, "nnz": nnz, "length": length, "width": width, "high": high, "wide": wide}
    types = problem.pointers(crow="", col="", flag="*i32")
    types |= {"crow": types["crow_indices"], "col": types["col_indices"]} | dict.fromkeys(numbers, integers)
    launch = Launch(
        call.device,
        bsr_rows,
        {name: types[name] for name in bsr_rows.arg_names if name in types},
        {
            "PRECISION": precision_of(call, call.args["values"]),
            "TYPE": problem.sum_type,
            "INDEX": tl.int32 if integers == "i32" else tl.int64,
            "BLOCK_M": block_m,
            "BLOCK_N": block_n,
            "BLOCK_K": block_k,
        },
        divisible=[name for name, number in numbers.items() if number % 16 == 0],
        elements=("crow", "col", "flag"),
    )
    grid = folded(lines, cdiv(high, block_m), cdiv(width, block_n))

    def into(out: Any, *inputs: Any) -> None:
        _kept, operands = problem.addresses(inputs)
        launch(grid, *operands, out.address, problem.flags.begin(), *numbers.values())
        problem.report()

    return PlannedKernel(into)


register_stub("_csr_mm_stub", "cuda", csr_mm)
register_stub("_sampled_mm_stub", "cuda", sampled_mm)
register_stub("_bsr_mm_stub", "cuda", bsr_mm)
