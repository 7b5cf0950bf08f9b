"""Launches of attention's forward pass by tensor descriptors, where the operands can be described."""

from __future__ import annotations

from collections.abc import Callable

from ...dispatch.structured import choices
from ...dispatch.structured.stub import StructuredCall
from ...runtime.cuda.driver import driver
from ...runtime.cuda.tensor_map import DescribedTensor
from ...runtime.tensor_spec import TensorSpec
from ..budget import Configuration
from ..launch import ALIGNMENT, INT32_MAX, Launch, cdiv, interpreted
from ..products.bulk import FIRST_DESIGN, MAX_PITCH
from ..tuning.choice import configuration
from . import tensor_memory, warp_specialized
from .bulk_kernels import attention_bulk
from .operands import LARGEST_TILE, Sizes, padded
from .tiles import bulk_tile

IN_GLUON = {form.DESIGN: form for form in (warp_specialized, tensor_memory)}
"""By the design of a device, the module of the kernel that is for its matrix instructions alone."""
Bulk = Callable[[list[int], int, int | None, list[int], float], None]
"""``launch(addresses of query, key and value, of out, of logsumexp, of seed and offset, scale)``."""


def described(spec: TensorSpec) -> DescribedTensor | None:
    """Return the tensor map of an operand (batch, heads, length, head), or None if row strides are not whole
    vectors.
    """
    whole = ALIGNMENT // spec.itemsize
    if spec.numel == 0 or max(spec.sizes) > INT32_MAX - LARGEST_TILE:
        return None
    if spec.strides[3] != 1 and spec.sizes[3] != 1:
        return None
    strides = []
    for size, stride in zip(spec.sizes[:3], spec.strides[:3], strict=True):
        # The only one of its kind lies nowhere else, whatever its stride.
        pitch = stride if size > 1 else cdiv(spec.sizes[3], whole) * whole
        if pitch <= 0 or pitch % whole or pitch * spec.itemsize >= MAX_PITCH:
            return None
        strides.append(pitch)
    return DescribedTensor(spec.sizes, (*strides, 1))


def refused(why: str, *values: object) -> None:
    """Tell why tensor descriptors do not serve a call."""
    choices.chosen("no tensor descriptors", why, *values)


def plan_bulk(call: StructuredCall, sizes: Sizes, specs: list[TensorSpec]) -> Bulk | None:
    """Return the launch for operands and an output that tensor maps describe, or None if it does not apply.

    It takes no mask and no dropout, a positive scale, and addresses that are multiples of 16.
    """
    query, out, device = specs[0], call.outputs[0], call.device
    design = driver().properties(device.resolved_index).design
    if query.itemsize != 2 or design < FIRST_DESIGN:
        return refused("{} has 4 bytes or more, or the device has none", query.dtype.name)
    tensors = [described(spec) for spec in (*specs, out)]
    if None in tensors:
        return refused("an operand's lines are no multiples of 16 bytes apart")
    dtype, numbers = query.dtype.triton_name or "", sizes.numbers()
    is_causal = call.extra["is_causal"]
    constants: dict[str, object] = {"CAUSAL": is_causal}
    form = IN_GLUON.get(design)
    chosen = None if form is None else form.tile_of(device, sizes, dtype, is_causal)
    if form is not None and chosen is not None:
        form.report(sizes)
        kernel, operands = form.KERNEL, form.operand_types(dtype, chosen)
        programs, more_constants, more_numbers = form.grid_of(device, sizes, chosen, is_causal)
        constants |= more_constants
        numbers |= more_numbers
    else:
        chosen = _tile(call, sizes, dtype)
        kernel, operands = attention_bulk, _operand_types(sizes, dtype, chosen)
        programs = cdiv(sizes.length_q, chosen.tile[0]) * sizes.batch * sizes.heads
    constants |= {"BLOCK_M": chosen.tile[0], "BLOCK_N": chosen.tile[1]}
    constants |= {"BLOCK_D": padded(sizes.width), "BLOCK_DV": padded(sizes.width_v)}
    types = {
        **operands,
        "draws_seed": "*i64",
        "draws_offset": "*i64",
        **dict.fromkeys(numbers, "i32"),
        "scale": "fp32",
    }
    if call.outputs[1].numel:
        types["logsumexp"] = "*fp32"
    else:
        constants["logsumexp"] = None
    launch = Launch(
        device,
        kernel,
        {name: types[name] for name in kernel.arg_names if name in types},
        constants,
        divisible=[name for name, value in numbers.items() if value % 16 == 0],
        elements=("draws_seed", "draws_offset"),
        tensors=[tensor for tensor in tensors if tensor is not None],
        num_warps=chosen.warps,
        num_stages=chosen.stages,
        enable_fp_fusion=True,
        enable_reflect_ftz=True,
    )
    grid = (programs, 1, 1)
    passed = [numbers[name] for name in kernel.arg_names if name in numbers]

    def run(
        addresses: list[int], out_data: int, logsumexp: int | None, draws: list[int], scale: float
    ) -> None:
        statistics = [] if logsumexp is None else [logsumexp]
        launch(grid, *addresses, out_data, *statistics, *draws, *passed, scale)

    return run


def _tile(call: StructuredCall, sizes: Sizes, dtype: str) -> Configuration:
    chosen = bulk_tile(call.device, sizes.head, sizes.length_q, sizes.length_k, call.extra["is_causal"])
    if interpreted():
        return chosen
    shape = (sizes.batch * sizes.heads, sizes.length_q, sizes.length_k, sizes.head)
    tuned = configuration(attention_bulk, call.device, dtype, shape, chosen)
    return tuned if tuned.tile[2:] == chosen.tile[2:] else chosen


def _operand_types(sizes: Sizes, dtype: str, chosen: Configuration) -> dict[str, str]:
    block_m, block_n = chosen.tile[:2]
    width, width_v = padded(sizes.width), padded(sizes.width_v)
    return {
        "q": f"tensordesc<{dtype}[1, 1, {block_m}, {width}]>",
        "k": f"tensordesc<{dtype}[1, 1, {block_n}, {width}]>",
        "v": f"tensordesc<{dtype}[1, 1, {block_n}, {width_v}]>",
        "out": f"tensordesc<{dtype}[1, 1, {block_m}, {width_v}]>",
    }
