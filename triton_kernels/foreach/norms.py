"""Norms of lists of tensors as launches: one for each dtype, then one for the norms, or one for the norm of all."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.allocator import get_allocator
from ...runtime.cuda.triton.lazy_triton import tl
from ...runtime.device import device as Device
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.scalar_type import float64
from ...runtime.tensor_spec import TensorSpec
from ..budget import DECLARATIONS, Configuration, name_of
from ..conversion import compute_type, type_name
from ..launch import ALIGNMENT, Launch
from ..optimizers.tensor_table import TensorTable
from ..reduction.reduction import NORMS
from .norm_kernels import multi_tensor_norm_parts, multi_tensor_norms, multi_tensor_total_norm


def configuration_of(kernel: Any, dtype: ScalarType) -> Configuration:
    """Return the declared configuration of a kernel's dtype."""
    return DECLARATIONS[name_of(kernel)].configurations[str(dtype.triton_name)][0]


class Parts:
    """The rows of one dtype, and the launch that gives their partial results.

    Args:
        device: Device of the tensors.
        order: Order of the norm, a key of `NORMS`.
        specs: Specs of the rows.
        indices: Indices of the rows among all.
        part: the type of a partial result.
        results: If True, the rows' norms have columns in the table.
    """

    def __init__(
        self,
        device: Device,
        order: str,
        specs: Sequence[TensorSpec],
        indices: Sequence[int],
        part: tl.dtype,
        results: bool,
    ) -> None:
        dtype, norm = specs[0].dtype, NORMS[order]
        chosen = configuration_of(multi_tensor_norm_parts, dtype)
        block, steps = chosen.tile
        self.indices, self.chunk, self.accumulator = indices, block * steps, compute_type(dtype)
        self.table = TensorTable(device, specs, [dtype.itemsize] * (2 if results else 1), self.chunk)
        self.itemsize = part.primitive_bitwidth // 8
        constants = {
            "COMBINE": norm.combine,
            "ACROSS": norm.across,
            "LOAD": norm.load,
            "START": norm.start(self.accumulator),
            "TYPE": self.accumulator,
            "V": ALIGNMENT // dtype.itemsize,
            "BLOCK": block,
            "STEPS": steps,
        }
        signature = {
            "base": f"*{dtype.triton_name}",
            "table": "*i64",
            "rows": "i32",
            "parts": f"*{type_name(part)}",
        }
        self._enqueue = Launch(
            device,
            multi_tensor_norm_parts,
            signature,
            constants,
            elements=("parts",),
            num_warps=chosen.warps,
        )

    def launch(self, columns: Sequence[Sequence[Any]], parts: int) -> Any:
        """Enqueue the partial results, written from the address `parts` on; gives the table."""
        table = self.table.at([[column[index] for index in self.indices] for column in columns])
        self._enqueue((self.table.programs, 1, 1), 0, table.address, self.table.rows, parts)
        return table


def groups(call: StructuredCall, part: tl.dtype | None, results: bool) -> list[Parts]:
    """Return the rows of a call by dtype; partial results have the compute type unless `part` is given."""
    specs: Sequence[TensorSpec] = call.args["self"]
    by_dtype: dict[ScalarType, list[int]] = {}
    for index, spec in enumerate(specs):
        by_dtype.setdefault(spec.dtype, []).append(index)
    order = call.extra["ord"]
    return [
        Parts(
            call.device,
            order,
            [specs[index] for index in indices],
            indices,
            compute_type(dtype) if part is None else part,
            results,
        )
        for dtype, indices in by_dtype.items()
    ]


def tail_constants(order: str, accumulator: tl.dtype, block: int) -> dict[str, object]:
    """Return the constexprs of the kernel that combines partial results."""
    norm = NORMS[order]
    return {
        "COMBINE": norm.combine,
        "ACROSS": norm.across,
        "START": norm.start(accumulator),
        "FINISH": norm.finish,
        "TYPE": accumulator,
        "BLOCK": block,
    }


def plan_norms(call: StructuredCall) -> PlannedKernel:
    """Return ``into(tensors, results)``: the norm of each tensor, two launches for each dtype."""
    order, every, launches = call.extra["ord"], groups(call, None, True), []
    for group in every:
        dtype = call.args["self"][group.indices[0]].dtype
        chosen = configuration_of(multi_tensor_norms, dtype)
        constants = tail_constants(order, group.accumulator, *chosen.tile)
        launches.append(
            Launch(
                call.device,
                multi_tensor_norms,
                {
                    "parts": f"*{type_name(group.accumulator)}",
                    "base": f"*{dtype.triton_name}",
                    "table": "*i64",
                    "rows": "i32",
                },
                {**constants, "LOAD": NORMS[order].load, "CHUNK": group.chunk},
                num_warps=chosen.warps,
            )
        )
    allocate, device = get_allocator("cuda").allocate, call.device

    def into(tensors: Sequence[Any], results: Sequence[Any]) -> None:
        for group, finish in zip(every, launches, strict=True):
            parts = allocate(group.table.programs * group.itemsize, device)
            table = group.launch((tensors, results), parts.address)
            finish((group.table.rows, 1, 1), parts.address, 0, table.address, group.table.rows)

    return PlannedKernel(into)


def plan_total_norm(call: StructuredCall) -> PlannedKernel:
    """Return ``into(tensors, total, coefficient, max_norm)``: one launch for each dtype, and one for both results."""
    specs: Sequence[TensorSpec] = call.args["self"]
    out = call.outputs[0].dtype
    part = tl.float64 if any(spec.dtype is float64 for spec in specs) else tl.float32
    every = groups(call, part, False)
    count = sum(group.table.programs for group in every)
    begins = list(itertools.accumulate((group.table.programs for group in every), initial=0))
    chosen = configuration_of(multi_tensor_total_norm, out)
    finish = Launch(
        call.device,
        multi_tensor_total_norm,
        {
            "parts": f"*{type_name(part)}",
            "count": "i32",
            "total": f"*{out.triton_name}",
            "coefficient": f"*{out.triton_name}",
            "most": "fp64",
        },
        tail_constants(call.extra["ord"], part, *chosen.tile),
        elements=("total", "coefficient"),
        num_warps=chosen.warps,
    )
    allocate, device = get_allocator("cuda").allocate, call.device
    itemsize = part.primitive_bitwidth // 8

    def into(tensors: Sequence[Any], total: Any, coefficient: Any, max_norm: float) -> None:
        parts = allocate(count * itemsize, device)
        for group, begin in zip(every, begins, strict=False):
            group.launch((tensors,), parts.address + begin * itemsize)
        finish((1, 1, 1), parts.address, count, total.address, coefficient.address, max_norm)

    return PlannedKernel(into)


register_stub("multi_tensor_norm_stub", "cuda", plan_norms)
register_stub("multi_tensor_total_norm_stub", "cuda", plan_total_norm)
