"""Launches of attention's forward pass: which tile, whether heads that share keys are packed, and keys split."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ...dispatch.structured import choices
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.cuda.driver import driver
from ...runtime.device import device as Device
from ...runtime.generator import Seed
from ...runtime.tensor_spec import TensorSpec
from ..budget import Configuration
from ..elementwise.elementwise import check_dtypes
from ..launch import ALIGNMENT, Launch, cdiv, interpreted, launch_nothing
from ..random.dropout import scale_for
from ..random.random import philox_numbers, single, threshold
from ..tuning.choice import configuration
from .bulk import Bulk, plan_bulk, refused
from .forward_kernels import attention
from .merge import Merge
from .operands import LOG2_E, Arguments, Sizes, with_unit_stride
from .splits import FEW_QUERIES, number_of_parts
from .tiles import forward_tile

PACKED_ROWS = 64
"""Heads that share keys are packed into tiles of queries if they fit one such tile, or have few queries each: keys are
then read once for all heads of a tile.
"""
MIN_SPAN = 512
"""Minimum number of keys of a part, with many queries."""


def is_packed(sizes: Sizes) -> bool:
    """Return True if heads that share keys are packed into tiles of queries."""
    few = sizes.length_q * sizes.group <= PACKED_ROWS or sizes.length_q <= FEW_QUERIES
    return few and sizes.group > 1


def spans(sizes: Sizes, programs: int, block_n: int, device: Device) -> tuple[int, int]:
    """Return the number of parts that keys are split into, and the keys of each.

    Many queries are bound by computation: their keys are split until there are two programs for each
    multiprocessor. Few queries are bound by the bandwidth of the busiest multiprocessor (`splits.py`).
    """
    processors = driver().properties(device.resolved_index).multi_processor_count
    if sizes.length_q <= FEW_QUERIES:
        parts = number_of_parts(programs, sizes.length_k, block_n, processors)
    elif 2 * programs > processors or sizes.length_k < 2 * MIN_SPAN:
        parts = 1
    else:
        parts = min(2 * processors // programs, sizes.length_k // MIN_SPAN)
    if parts == 1:
        return 1, sizes.length_k
    span = cdiv(cdiv(sizes.length_k, parts), block_n) * block_n
    return cdiv(sizes.length_k, span), span


def efficient_attention(call: StructuredCall) -> PlannedKernel:
    """Compute softmax(scale * query @ key^T + mask) @ value, with what its backward needs."""
    statistics = call.outputs[1]
    specs = [call.args[name] for name in ("query", "key", "value")]
    mask: TensorSpec | None = call.args["attn_bias"]
    check_dtypes(call, [*specs, *([] if mask is None else [mask])])
    sizes = Sizes.of(*specs)
    if sizes.lines == 0:
        return PlannedKernel(launch_nothing)
    forward = Forward(call, sizes, [with_unit_stride(spec) for spec in specs], mask)
    saves = statistics.numel > 0

    def into(
        out: Any,
        logsumexp: Any,
        draws_seed: Any,
        draws_offset: Any,
        query: Any,
        key: Any,
        value: Any,
        bias: Any,
        p: float,
        scale: float,
        seed: Seed,
        first: int,
    ) -> None:
        operands = [
            gather(data) for (_, gather), data in zip(forward.operands, (query, key, value), strict=True)
        ]
        addresses = [data.address for data in (*operands, *([] if bias is None else [bias]))]
        numbers = [draws_seed.address, draws_offset.address]
        forward(addresses, out.address, logsumexp.address if saves else None, numbers, p, scale, seed, first)

    return PlannedKernel(into)


class Forward:
    """The launches of one call: with and without dropout, with scores scaled in the exponent or before it."""

    def __init__(
        self,
        call: StructuredCall,
        sizes: Sizes,
        operands: list[tuple[TensorSpec, Callable[[Any], Any]]],
        mask: TensorSpec | None,
    ) -> None:
        self.call, self.sizes, self.operands, self.mask = call, sizes, operands, mask
        self.saves = call.outputs[1].numel > 0
        self.packed = is_packed(sizes)
        out = call.outputs[0]
        lines = (("qm", operands[0][0]), ("kn", operands[1][0]), ("vn", operands[2][0]), ("om", out))
        self.arguments = partial(Arguments, call, sizes, lines, mask)
        self.has_whole_lines = self.arguments().has_whole_lines
        self.bulk = self._in_bulk()
        if self.bulk is not None:
            why = "there is no mask, {} keys need no split, and operands lie in whole vectors"
            choices.chosen("by tensor descriptors", why, sizes.length_k)
        else:
            choices.chosen("through pointers", "no tensor descriptors serve it")
        if self.packed:
            why = "{} queries of {} heads that share keys are few for tiles of {}"
            choices.chosen("heads packed into a tile", why, sizes.length_q, sizes.group, PACKED_ROWS)
        self._variants: dict[tuple[bool, bool, bool], Callable[..., None]] = {}

    def __call__(
        self,
        addresses: list[int],
        out: int,
        logsumexp: int | None,
        numbers: list[int],
        p: float,
        scale: float,
        seed: Seed,
        first: int,
    ) -> None:
        is_aligned = not any(address % ALIGNMENT for address in (*addresses[:3], out))
        if self.bulk is not None and is_aligned and p == 0 and scale > 0:
            self.bulk(addresses, out, logsumexp, numbers, single(scale * LOG2_E))
            return
        variant = (p > 0, self.mask is None and scale > 0, is_aligned and self.has_whole_lines)
        run = self._variants.get(variant)
        if run is None:
            run = self._variants[variant] = self._planned(*variant)
        drawn: list[int | float] = []
        if p > 0:
            drawn = [*philox_numbers(seed, first), *threshold(1.0 - p), single(scale_for(p))]
        run(addresses, out, logsumexp, numbers, single(scale * LOG2_E), drawn)

    def _in_bulk(self) -> Bulk | None:
        """Return the launch by tensor descriptors, or None if a mask, shared or split keys, or strides need
        pointers.
        """
        sizes = self.sizes
        if self.mask is not None or self.packed:
            return refused("there is a mask, or heads that share keys are packed")
        programs = cdiv(sizes.length_q, 128) * sizes.batch * sizes.heads
        if spans(sizes, programs, 64, self.call.device)[0] > 1:
            return refused("{} programs are few, so that {} keys are split", programs, sizes.length_k)
        return plan_bulk(self.call, sizes, [spec for spec, _ in self.operands])

    def _planned(self, drops: bool, raw: bool, is_whole: bool) -> Callable[..., None]:
        call, sizes, mask = self.call, self.sizes, self.mask
        query = self.operands[0][0]
        rows = sizes.length_q * sizes.group if self.packed else sizes.length_q
        own = sizes.batch * (sizes.heads_k if self.packed else sizes.heads)
        dtype = query.dtype.triton_name or ""
        beside = drops or mask is not None or not is_whole
        is_causal = call.extra["is_causal"]
        chosen = forward_tile(
            call.device, query.itemsize, sizes.head, rows, sizes.length_k, is_causal, beside, is_whole
        )
        if not (beside or interpreted()):
            chosen = self._measured(dtype, chosen)
        block_m, block_n = chosen.tile[:2]
        programs = cdiv(rows, block_m) * own
        parts, span = spans(sizes, programs, block_n, call.device)
        split = parts > 1
        if split:
            why = "{} programs are few for the device, and there are {} keys"
            choices.chosen(f"keys in {parts} parts, then merged", why, programs, sizes.length_k)
        arguments = self.arguments(span=span)
        every = {"q": f"*{dtype}", "k": f"*{dtype}", "v": f"*{dtype}"}
        every["out"] = "*fp32" if split else f"*{dtype}"
        every |= {"draws_seed": "*i64", "draws_offset": "*i64", "scale": "fp32", **arguments.types}
        constants = {
            **arguments.constants,
            "RAW": raw,
            "CAUSAL": call.extra["is_causal"],
            "DROPOUT": drops,
            "PACKED": self.packed,
            "SPLIT": split,
            "BLOCK_M": block_m,
            "BLOCK_N": block_n,
        }
        if mask is not None:
            every["bias"] = f"*{mask.dtype.triton_name}"
        if self.saves or split:
            every["logsumexp"] = "*fp32"
        if split:
            every["tops"] = "*fp32"
        if drops:
            every |= {"seed": "i64", "first": "i64", "state": "*i64", "limit": "i64", "kept_scale": "fp32"}
        names = [name for name in attention.arg_names if name in every]
        constants |= {
            name: None for name in attention.arg_names if name not in every and name not in constants
        }
        launch = Launch(
            call.device,
            attention,
            {name: every[name] for name in names},
            constants,
            divisible=arguments.divisible,
            elements=("state", "draws_seed", "draws_offset"),
            num_warps=chosen.warps,
            num_stages=chosen.stages,
            enable_fp_fusion=True,
            enable_reflect_ftz=True,
        )
        grid = (programs, parts, 1)
        passed = [arguments.values[name] for name in names if name in arguments.values]
        finish = Merge(call, sizes, call.outputs[0], parts, saves=self.saves) if split else None

        def run(
            addresses: list[int],
            out: int,
            logsumexp: int | None,
            numbers: list[int],
            scale: float,
            drawn: list[int | float],
        ) -> None:
            if finish is None:
                statistics = [] if logsumexp is None else [logsumexp]
                launch(grid, *addresses, out, *statistics, *numbers, *passed, scale, *drawn)
                return
            totals, sums, tops = finish.allocated()
            launch(
                grid, *addresses, totals.address, sums.address, tops.address, *numbers, *passed, scale, *drawn
            )
            finish(totals, sums, tops, out, logsumexp, drawn[-1] if drawn else 1.0)

        return run

    def _measured(self, dtype: str, chosen: Configuration) -> Configuration:
        sizes = self.sizes
        shape = (sizes.batch * sizes.heads, sizes.length_q, sizes.length_k, sizes.head)
        tuned = configuration(attention, self.call.device, dtype, shape, chosen)
        return tuned if tuned.tile[2:] == chosen.tile[2:] else chosen


register_stub("efficient_attention_stub", "cuda", efficient_attention)
