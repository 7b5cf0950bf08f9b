"""Launches of attention's forward pass by tensor descriptors, where the operands can be described."""

from __future__ import annotations

from collections.abc import Callable

from ...dispatch.structured import choices
from ...dispatch.structured.stub import StructuredCall
from ...runtime.cuda.driver import driver
from ...runtime.cuda.tensor_map import DescribedTensor
from ...runtime.tensor_spec import TensorSpec
from ..launch import ALIGNMENT, INT32_MAX, Launch, cdiv, interpreted
from ..products.bulk import FIRST_DESIGN, MAX_PITCH
from ..tuning.choice import configuration
from .bulk_kernels import attention_bulk
from .operands import LARGEST_TILE, Sizes, padded
from .tiles import bulk_tile

Bulk = Callable[[list[int], int, int | None, list[int], float], None]
"""``launch(addresses of query, key and value, of out, of logsumexp, of seed and offset, scale)``."""


def described(spec: TensorSpec) -> DescribedTensor | None:
    """The tensor map of an operand (batch, heads, length, head); None where rows are not whole vectors apart."""
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


def plan_bulk(call: StructuredCall, sizes: Sizes, given: list[TensorSpec]) -> Bulk | None:
    """The launch for operands and an output that tensor maps describe; None where there is none.

    There is no mask and no dropout, the scale is positive, and all addresses are multiples of 16.
    """
    query, out, device = given[0], call.outputs[0], call.device
    if query.itemsize != 2 or driver().properties(device.resolved_index).design < FIRST_DESIGN:
        return refused("{} has 4 bytes or more, or the device has none", query.dtype.name)
    tensors = [described(spec) for spec in (*given, out)]
    if None in tensors:
        return refused("an operand's lines are no multiples of 16 bytes apart")
    is_causal = call.extra["is_causal"]
    chosen = bulk_tile(device, sizes.head, sizes.length_q, sizes.length_k, is_causal)
    dtype = query.dtype.triton_name or ""
    if not interpreted():
        shape = (sizes.batch * sizes.heads, sizes.length_q, sizes.length_k, sizes.head)
        found = configuration(attention_bulk, device, dtype, shape, chosen)
        chosen = found if found.tile[2:] == chosen.tile[2:] else chosen
    block_m, block_n = chosen.tile[:2]
    width, width_v = padded(sizes.width), padded(sizes.width_v)
    numbers = sizes.numbers()
    types = {
        "q": f"tensordesc<{dtype}[1, 1, {block_m}, {width}]>",
        "k": f"tensordesc<{dtype}[1, 1, {block_n}, {width}]>",
        "v": f"tensordesc<{dtype}[1, 1, {block_n}, {width_v}]>",
        "out": f"tensordesc<{dtype}[1, 1, {block_m}, {width_v}]>",
        "draws_seed": "*i64",
        "draws_offset": "*i64",
        **dict.fromkeys(numbers, "i32"),
        "scale": "fp32",
    }
    constants: dict[str, object] = {
        "CAUSAL": is_causal,
        "BLOCK_M": block_m,
        "BLOCK_N": block_n,
        "BLOCK_D": width,
        "BLOCK_DV": width_v,
    }
    if call.outputs[1].numel:
        types["logsumexp"] = "*fp32"
    else:
        constants["logsumexp"] = None
    launch = Launch(
        device,
        attention_bulk,
        {name: types[name] for name in attention_bulk.arg_names if name in types},
        constants,
        divisible=[name for name, value in numbers.items() if value % 16 == 0],
        elements=("draws_seed", "draws_offset"),
        tensors=[tensor for tensor in tensors if tensor is not None],
        num_warps=chosen.warps,
        num_stages=chosen.stages,
        enable_fp_fusion=True,
    )
    grid = (cdiv(sizes.length_q, block_m) * sizes.batch * sizes.heads, 1, 1)
    passed = [numbers[name] for name in attention_bulk.arg_names if name in numbers]

    def run(addresses: list[int], to: int, logsumexp: int | None, draws: list[int], scale: float) -> None:
        kept = [] if logsumexp is None else [logsumexp]
        launch(grid, *addresses, to, *kept, *draws, *passed, scale)

    return run
