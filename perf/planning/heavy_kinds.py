"""Kinds of work with operand shapes of their own: matmuls, convolutions, attention, lists, and all other
calls.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...dispatch.core.op_overload import find_overload
from .kinds import (
    BYTES,
    FLOPS,
    Arguments,
    Kind,
    contiguous,
    described,
    elementwise,
    is_by_lines,
    is_elementwise,
    lines,
    map_operands,
    resized,
)
from .recording import Operand, RecordedCall

MAX_FLOPS = 30_000_000
"""Maximum operations of a probe that is measured by operations: some milliseconds."""
MAX_BYTES = 8 << 20
"""Bytes of the operands of the largest probe that is cut out of a call."""
SQUARES = (4, 32, 128, 256, 512)
BATCH = 8
BATCHED_SQUARES = (4, 16, 64, 128)
MATRICES = (4, 32, 128)
ATTENTION = {
    "_scaled_dot_product_efficient_attention": "forward",
    "_scaled_dot_product_flash_attention_for_cpu": "forward",
    "_scaled_dot_product_efficient_attention_backward": "backward",
    "_scaled_dot_product_flash_attention_for_cpu_backward": "backward",
}
FORWARD = "aten::_scaled_dot_product_flash_attention_for_cpu"


def kind_of(call: RecordedCall) -> Kind | None:
    """Return the kind of a call's work; None if no probe is known, as for a package's own operators.

    These operators are not called, since their side effects are unknown.
    """
    if call.func.namespace != "aten":
        return None
    if call.base in ATTENTION:
        return attention(call)
    if call.base in ("mm", "addmm", "_addmm_activation"):
        return products(call)
    if call.base in ("bmm", "baddbmm"):
        return batched_products(call)
    if call.base.startswith("convolution") and not call.arguments.get("transposed", False):
        return convolutions(call)
    if call.base.startswith(("linalg_", "_linalg_")) and call.operands and len(call.operands[0].shape) > 1:
        return matrices(call)
    if not call.results and _lists_in(call):
        return lists(call)
    if is_elementwise(call):
        return elementwise(call)
    if is_by_lines(call):
        return lines(call)
    return leading(call)


def products(call: RecordedCall) -> Kind:
    """Products of squares, by their operations."""

    def square(operand: Operand, side: int) -> Operand:
        return contiguous(*(side for _ in operand.shape), dtype=operand.dtype)

    def probe(side: int) -> Arguments:
        return map_operands(call.arguments, lambda operand: square(operand, side))

    return Kind(described(call), call.func, FLOPS, SQUARES, probe)


def batched_products(call: RecordedCall) -> Kind:
    """Return the kind of a batch of square matmuls, by the operations of one matmul."""

    def probe(side: int) -> Arguments:
        return map_operands(
            call.arguments, lambda operand: contiguous(BATCH, side, side, dtype=operand.dtype)
        )

    return Kind(
        described(call), call.func, FLOPS, BATCHED_SQUARES, probe, BATCH,
        lambda call: max(1, call.results[0].shape[0]),
    )  # fmt: skip


def convolutions(call: RecordedCall) -> Kind:
    """Return probes of a convolution with the call's own filter over fewer and smaller images, by operations."""
    call_arguments = call.arguments
    filters = (
        call_arguments["weight_size"] if "weight_size" in call_arguments else call_arguments["weight"].shape
    )
    source = call_arguments["input_size"] if "input_size" in call_arguments else call_arguments["input"].shape
    extents = [d * (k - 1) + 1 for d, k in zip(call_arguments["dilation"], filters[2:], strict=True)]
    shown = next(operand for operand in call.operands if len(operand.shape) == len(source))
    per_place = 2 * filters[0] * math.prod(filters[1:])

    def place_count(image: Sequence[int]) -> list[int]:
        return [
            (size + 2 * p - extent) // s + 1
            for size, p, s, extent in zip(
                image, call_arguments["padding"], call_arguments["stride"], extents, strict=True
            )
        ]

    def cut(size: int) -> tuple[int, list[int]]:
        if size == 0:
            return 1, [min(full, extent + s) for full, extent, s in
                       zip(source[2:], extents, call_arguments["stride"], strict=True)]  # fmt: skip
        images, image = source[0], list(source[2:])
        while per_place * images * math.prod(place_count(image)) > MAX_FLOPS and images > 1:
            images = (images + 1) // 2
        while per_place * images * math.prod(place_count(image)) > MAX_FLOPS and max(image) > 2 * max(
            extents
        ):
            image = [max(extent, (full + 1) // 2) for full, extent in zip(image, extents, strict=True)]
        return images, image

    def probe(size: int) -> Arguments:
        images, image = cut(size)
        shapes = {
            "input": (images, source[1], *image),
            "grad_output": (images, filters[0], *place_count(image)),
        }
        arguments = dict(call_arguments)
        for name, shape in shapes.items():
            if name in arguments:
                arguments[name] = resized(arguments[name], shape)
        if "input_size" in arguments:
            arguments["input_size"] = shapes["input"]
        return arguments

    options = {name: value for name, value in call_arguments.items() if name in (
        "stride", "padding", "dilation", "groups", "output_mask"
    )}  # fmt: skip
    channels_last = len(shown.strides) > 1 and shown.strides[1] == 1
    name = described(call, tuple(filters), options, channels_last, *cut(1))
    return Kind(name, call.func, FLOPS, (0, 1), probe)


def attention(call: RecordedCall) -> Kind:
    """Return probes of the CPU's attention over fewer heads, by operations; the program's is another device's
    operator.
    """
    call_arguments = call.arguments
    query, key, value = (call_arguments[name] for name in ("query", "key", "value"))
    backward = ATTENTION[call.base] == "backward"
    per_head = max(1, call.work.flops // math.prod(query.shape[:2]))
    heads = max(1, min(math.prod(query.shape[:2]), MAX_FLOPS // per_head))
    mask = call_arguments.get("attn_bias", call_arguments.get("attn_mask"))
    mask = mask if mask is not None and mask.numel else None

    def probe(size: int) -> Arguments:
        count, queries, keys = (heads, query.shape[2], key.shape[2]) if size else (1, 2, 2)

        def of_heads(rows: int, like: Operand) -> Operand:
            return contiguous(1, count, rows, like.shape[3], dtype=like.dtype)

        arguments: dict[str, Any] = {
            "query": of_heads(queries, query), "key": of_heads(keys, key), "value": of_heads(keys, value),
            "dropout_p": 0.0, "is_causal": call_arguments["is_causal"], "scale": call_arguments.get("scale"),
            "attn_mask": None if mask is None else contiguous(1, 1, queries, keys, dtype=mask.dtype),
        }  # fmt: skip
        if backward:
            output = of_heads(queries, value)
            arguments |= {
                "grad_out": output, "out": output,
                "logsumexp": contiguous(1, count, queries, dtype=call_arguments["logsumexp"].dtype),
            }  # fmt: skip
        return arguments

    name = described(
        call, query.shape[2:], key.shape[2:], value.shape[3], mask is not None, call_arguments["is_causal"]
    )
    func = find_overload(f"{FORWARD}_backward" if backward else FORWARD)
    return Kind(name, func, FLOPS, (0, 1), probe)


def matrices(call: RecordedCall) -> Kind:
    """Return probes of operators on whole matrices, such as factorizations: smaller matrices, by the work per
    matrix.
    """
    order = call.operands[0].shape[-1]
    batch = call.operands[0].shape[:-2]

    def smaller(operand: Operand, side: int) -> Operand:
        shape = operand.shape[len(batch) :] if operand.shape[: len(batch)] == batch else operand.shape
        return contiguous(
            *(side if size == order else min(size, side) for size in shape), dtype=operand.dtype
        )

    def probe(side: int) -> Arguments:
        return map_operands(call.arguments, lambda operand: smaller(operand, side))

    shapes = [[size == order for size in operand.shape] for operand in call.operands]
    return Kind(
        described(call, shapes), call.func, FLOPS if call.work.flops else BYTES, MATRICES, probe,
        items_of=lambda call: max(1, math.prod(batch)),
    )  # fmt: skip


def lists(call: RecordedCall) -> Kind:
    """Return probes of lists of equally many tensors, all of one size, as in optimizer steps, by bytes."""
    length = max(map(len, _lists_in(call)))

    def placed(operand: Operand, elements: int) -> Operand:
        return contiguous(*((elements,) if operand.shape else ()), dtype=operand.dtype)

    def probe(elements: int) -> Arguments:
        each = max(4, elements // length)
        return map_operands(call.arguments, lambda operand: placed(operand, each))

    return Kind(described(call, length), call.func, BYTES, (16, 1 << 16, 1 << 18), probe)


def _lists_in(call: RecordedCall) -> list[tuple[Operand, ...]]:
    return [
        value
        for value in call.arguments.values()
        if isinstance(value, tuple) and value and isinstance(value[0], Operand)
    ]


def leading(call: RecordedCall) -> Kind | None:
    """Return probes of the first elements along the leading dimension (images, rows, indices), by bytes.

    If the operands have no dimensions, the probe is the call itself. Return None if the operands stay large
    anyway.
    """
    index = next((o for o in call.operands if o.shape and not o.dtype.is_floating_point), None)
    ranked = [operand for operand in call.operands if operand.shape]
    if not ranked and max([result.numel for result in call.results], default=0) <= MAX_BYTES // 8:
        return Kind(
            f"{call.func.name()} {call.arguments!r}", call.func, BYTES, (1,), lambda _: call.arguments
        )
    if not ranked:
        return None
    picks = index is not None and call.base in PICKING
    full = (index if picks and index is not None else ranked[0]).shape[0]
    if not full:
        return None

    def cut(count: int) -> dict[str, Any]:
        def shortened(operand: Operand) -> Operand:
            if operand.shape and operand.shape[0] == full:
                return resized(operand, (count, *operand.shape[1:]))
            return resized(operand, operand.shape)

        arguments = map_operands(call.arguments, shortened)
        if arguments.get("N") == full:  # of group_norm
            arguments["N"] = count
        for name, value in arguments.items():
            if isinstance(value, tuple) and len(value) > 1 and type(value[0]) is int and value[0] == full:
                arguments[name] = (count, *value[1:])
        return arguments

    def nbytes(count: int) -> int:
        operands: list[Operand] = []
        map_operands(cut(count), lambda operand: operands.append(operand) or operand)  # type: ignore[func-returns-value]
        return sum(operand.numel * operand.dtype.itemsize for operand in operands)

    probe_size = full
    while probe_size > 1 and nbytes(probe_size) > MAX_BYTES:
        probe_size = (probe_size + 1) // 2
    if nbytes(probe_size) > 4 * MAX_BYTES:
        return None
    sizes = (1, probe_size) if probe_size > 1 else (1,)
    return Kind(f"{call.func.name()} {cut(1)!r} {probe_size}", call.func, BYTES, sizes, cut)


# For these operators, the indices determine the work; the table that they index stays whole.
PICKING = frozenset(
    {"index_select", "embedding", "index", "gather", "take", "index_add", "index_put", "scatter_add"}
)
