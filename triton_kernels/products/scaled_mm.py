"""Products of 8-bit and 4-bit floats with scales, on the tensor cores of sm_89 and later.

Sums are float32; without `use_fast_accum` those of sm_90's tensor cores, which keep fewer bits, are added to float32
after every 128 products, as cuBLAS does.
"""

from __future__ import annotations

from typing import Any

from ...dispatch.structured.meta.block_scales import block_scaling
from ...dispatch.structured.meta.scaled_mm import scaled_by_blocks
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.cuda.driver import driver
from ...runtime.cuda.triton.lazy_triton import tl
from ..launch import launch_nothing
from .block_scaled import block_scaled_mm
from .bulk import plan_bulk
from .matmul import plan_tiled
from .mm import with_other_way
from .problem import Epilogue, Factors, Matrices, Problem, expanded
from .product import Accumulation
from .scaled_blocks import scaled_blocks_mm

FIRST_CAPABILITY = 89
EXACT_AFTER = 128
"""Products of 8-bit floats that are added up with fewer bits than float32 has."""


def refuse_old_devices(call: StructuredCall) -> None:
    """Refuse devices whose tensor cores do not multiply 8-bit floats."""
    properties = driver().properties(call.device.resolved_index)
    if properties.capability < FIRST_CAPABILITY:
        raise NotImplementedError(
            f"{call.name}: products of {call.args['self'].dtype} need compute capability 8.9 or later, "
            f"{properties.name} has {properties.major}.{properties.minor}"
        )


def scaled_mm(call: StructuredCall) -> PlannedKernel:
    """Return the kernel of ``_scaled_mm``."""
    left, right, out = call.args["self"], call.args["mat2"], call.outputs[0]
    bias, result = call.args["bias"], call.args["scale_result"]
    refuse_old_devices(call)
    if out.numel == 0:
        return PlannedKernel(launch_nothing)
    if block_scaling(left, right, call.args["scale_a"], call.args["scale_b"]) is not None:
        return block_scaled_mm(call)
    shared = scaled_by_blocks(left, right, call.args["scale_a"], call.args["scale_b"])
    if shared is not None:
        return scaled_blocks_mm(call, shared)
    row_wise = call.args["scale_a"].numel != 1 or call.args["scale_b"].numel != 1
    has_result = result is not None and out.itemsize == 1
    addend = None
    if bias is not None:
        line = bias.replace(sizes=(bias.numel,), strides=(bias.strides[-1] if bias.ndim else 1,))
        addend = expanded(line, out)
    design = driver().properties(call.device.resolved_index).design
    exact = EXACT_AFTER if design == 90 and not call.args["use_fast_accum"] else None
    problem = Problem(
        call.device,
        Accumulation(tl.float32, True),
        Matrices.of(left),
        Matrices.of(right),
        Matrices.of(out),
        Epilogue(addend, factors=Factors(row_wise, has_result)),
        "ieee",
        exact,
    )
    bulk = plan_bulk(problem)
    run = plan_tiled(problem) if bulk is None else with_other_way(bulk, problem, 3 if bias is None else 4)
    names = call.runtime
    order = ["self", "mat2", *([] if bias is None else ["bias"])]
    scales = ["scale_a", "scale_b", *(["scale_result"] if has_result else [])]
    before, after = [names.index(name) for name in order], [names.index(name) for name in scales]

    def into(out_data: Any, *inputs: Any) -> None:
        run(
            *(inputs[i].address for i in before),
            out_data.address,
            *(inputs[i].address for i in after),
        )

    return PlannedKernel(into)


register_stub("_scaled_mm_stub", "cuda", scaled_mm)
