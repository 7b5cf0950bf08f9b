"""Launches of attention's backward pass: what rows are relative to, then keys and values, then queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.allocator import get_allocator
from ...runtime.tensor_spec import TensorSpec
from ..budget import Configuration
from ..elementwise.elementwise import check_dtypes
from ..launch import ALIGNMENT, Launch, cdiv, interpreted, launch_nothing, next_power_of_2
from ..random.dropout import scale_for
from ..random.random import single, threshold
from ..tuning.choice import configuration
from .backward_kernels import attention_backward_keys, attention_backward_queries, row_products
from .backward_warp_specialized import plan_specialized
from .operands import LOG2_E, Arguments, Sizes, padded, with_unit_stride
from .tiles import keys_tile, queries_tile

Run = Callable[..., None]

LARGEST_HEAD_OF_TWO_SUMS = 128
"""The largest head of which one program holds the sums of the keys' gradients and of the values'."""


def efficient_attention_backward(call: StructuredCall) -> PlannedKernel:
    """Compute the requested gradients of query, key and value."""
    specs = [call.args[name] for name in ("query", "key", "value")]
    grad, out, mask = (call.args[name] for name in ("grad_out_", "out", "attn_bias"))
    check_dtypes(call, [*specs, grad, out, *([] if mask is None else [mask])])
    sizes = Sizes.of(*specs)
    if sizes.lines == 0 and sizes.batch * sizes.heads_k * sizes.length_k == 0:
        return PlannedKernel(launch_nothing)
    return PlannedKernel(Backward(call, sizes, mask))


class Backward:
    """The launches of one call, with and without dropout."""

    def __init__(self, call: StructuredCall, sizes: Sizes, mask: TensorSpec | None) -> None:
        self.call, self.sizes, self.mask = call, sizes, mask
        names = ("query", "key", "value", "grad_out_", "out")
        self.operands = [with_unit_stride(call.args[name]) for name in names]
        self.wants_queries = call.extra["wanted"][0] and sizes.lines > 0
        self.wants_keys = any(call.extra["wanted"][1:]) and sizes.batch * sizes.heads_k * sizes.length_k > 0
        self.relative = None
        if sizes.lines:
            self.relative = row_products_of(call, sizes, self.operands[3][0], self.operands[4][0])
        grads = call.outputs
        lines = zip(
            ("qm", "kn", "vn", "gm", "xm", "yn", "zn"),
            (*(s for s, _ in self.operands[:4]), *grads),
            strict=True,
        )
        self.has_whole_lines = Arguments(call, sizes, tuple(lines), mask).has_whole_lines
        specs = [spec for spec, _ in self.operands[:4]]
        self.specialized = None if mask is not None else plan_specialized(call, sizes, specs)
        self._variants: dict[tuple[bool, bool, bool], list[tuple[Run, tuple[int, ...]]]] = {}
        self._allocate = get_allocator("cuda").allocate

    def __call__(
        self,
        grad_query: Any,
        grad_key: Any,
        grad_value: Any,
        grad: Any,
        query: Any,
        key: Any,
        value: Any,
        bias: Any,
        out: Any,
        logsumexp: Any,
        draws_seed: Any,
        draws_offset: Any,
        p: float,
        scale: float,
    ) -> None:
        device = self.call.device
        query, key, value, grad, out = [
            gather(data)
            for (_, gather), data in zip(self.operands, (query, key, value, grad, out), strict=True)
        ]
        delta = self._allocate(4 * self.sizes.lines, device)
        if self.relative is not None:
            self.relative(grad, out, delta)
        drops = p > 0
        is_aligned = not any(d.address % ALIGNMENT for d in (query, key, value, grad))
        beside = drops or self.mask is not None or not (is_aligned and self.has_whole_lines)
        grads = (grad_query, grad_key, grad_value)
        in_bulk = self.specialized is not None and is_aligned and not drops
        if in_bulk and any(
            d.address % ALIGNMENT for d, w in zip(grads, self.call.extra["wanted"], strict=True) if w
        ):
            in_bulk = False
        runs = self._variants.get((drops, beside, in_bulk))
        if runs is None:
            runs = self._variants[drops, beside, in_bulk] = [
                *(self._keys(drops, beside, in_bulk) if self.wants_keys else ()),
                *(self._queries(drops, beside, in_bulk) if self.wants_queries else ()),
            ]
        operands = [query, key, value, *([] if bias is None else [bias]), grad, logsumexp, delta]
        if drops:
            operands += [draws_seed, draws_offset]
        addresses = [data.address for data in operands]
        numbers: list[int | float] = [single(scale * LOG2_E), single(scale)]
        if drops:
            numbers += [*threshold(1.0 - p), single(scale_for(p))]
        for run, made in runs:
            run(addresses, [grads[i].address for i in made], numbers)

    def _keys(self, drops: bool, beside: bool, in_bulk: bool) -> Iterator[tuple[Run, tuple[int, ...]]]:
        """Yield the launches by keys, with the gradients that each computes: both at once, or one by one for
        large heads.
        """
        sizes = self.sizes
        outputs = tuple(i for i in (1, 2) if self.call.extra["wanted"][i])
        if in_bulk and outputs == (1, 2) and self.specialized is not None:
            run = self.specialized.keys()
            if run is not None:
                yield run, outputs
                return
        tile = self._tile(attention_backward_keys, beside)
        programs = cdiv(sizes.length_k, tile.tile[1]) * sizes.batch * sizes.heads_k
        for made in [(i,) for i in outputs] if sizes.head > LARGEST_HEAD_OF_TWO_SUMS else [outputs]:
            yield self._planned(attention_backward_keys, tile, programs, made, drops), made

    def _queries(self, drops: bool, beside: bool, in_bulk: bool) -> Iterator[tuple[Run, tuple[int, ...]]]:
        sizes = self.sizes
        if in_bulk and self.specialized is not None:
            run = self.specialized.queries()
            if run is not None:
                yield run, (0,)
                return
        tile = self._tile(attention_backward_queries, beside)
        programs = cdiv(sizes.length_q, tile.tile[0]) * sizes.batch * sizes.heads
        yield self._planned(attention_backward_queries, tile, programs, (0,), drops), (0,)

    def _tile(self, kernel: Any, beside: bool) -> Configuration:
        sizes, query = self.sizes, self.call.args["query"]
        tile = keys_tile if kernel is attention_backward_keys else queries_tile
        chosen = tile(self.call.device, query.itemsize, sizes.head, sizes.length_q, sizes.length_k, beside)
        if beside or interpreted():
            return chosen
        shape = (sizes.batch * sizes.heads, sizes.length_q, sizes.length_k, sizes.head)
        dtype = query.dtype.triton_name or ""
        tuned = configuration(kernel, self.call.device, dtype, shape, chosen)
        return tuned if tuned.tile[2:] == chosen.tile[2:] else chosen

    def _planned(
        self,
        kernel: Any,
        tile: Configuration,
        programs: int,
        made: tuple[int, ...],
        drops: bool,
    ) -> Run:
        (query, _), (key, _), (value, _), (grad, _), _ = self.operands
        grads = tuple((("xm", "yn", "zn")[i], self.call.outputs[i]) for i in made)
        reads_values = made != (2,)
        values = (("vn", value),) if reads_values else ()
        operands = (("qm", query), ("kn", key), *values, ("gm", grad), *grads)
        arguments = Arguments(self.call, self.sizes, operands, self.mask)
        pointer = f"*{query.dtype.triton_name}"
        own = tuple(("grad_q", "grad_k", "grad_v")[i] for i in made)
        every = dict.fromkeys(("q", "k", *(("v",) if reads_values else ()), "grad", *own), pointer)
        every |= {
            "logsumexp": "*fp32",
            "delta": "*fp32",
            "scale": "fp32",
            "factor": "fp32",
            **arguments.types,
        }
        if self.mask is not None:
            every["bias"] = f"*{self.mask.dtype.triton_name}"
        if drops:
            every |= {"draws_seed": "*i64", "draws_offset": "*i64", "limit": "i64", "kept_scale": "fp32"}
        names = [name for name in kernel.arg_names if name in every]
        known: dict[str, object] = {
            **arguments.constants,
            "CAUSAL": self.call.extra["is_causal"],
            "DROPOUT": drops,
            "BLOCK_M": tile.tile[0],
            "BLOCK_N": tile.tile[1],
        }
        launch = Launch(
            self.call.device,
            kernel,
            {name: every[name] for name in names},
            {name: known.get(name) for name in kernel.arg_names if name not in every},
            divisible=[name for name in arguments.divisible if name in names],
            elements=("draws_seed", "draws_offset"),
            num_warps=tile.warps,
            num_stages=tile.stages,
            enable_fp_fusion=True,
            enable_reflect_ftz=True,
        )
        grid = (programs, 1, 1)
        passed = [arguments.values[name] for name in names if name in arguments.values]

        def run(addresses: list[int], made: list[int], numbers: list[int | float]) -> None:
            read = addresses if reads_values else [*addresses[:2], *addresses[3:]]
            launch(grid, *read, *made, *passed, *numbers)

        return run


def row_products_of(call: StructuredCall, sizes: Sizes, grad: TensorSpec, out: TensorSpec) -> Run:
    """Return ``run(grad, out, delta)``: the launch of `row_products`."""
    wide = padded(sizes.width_v)
    block = min(64 if interpreted() else max(2048 // wide, 1), next_power_of_2(sizes.lines))
    arguments = Arguments(call, sizes, (("gm", grad), ("om", out)), None)
    every = {
        "grad": f"*{grad.dtype.triton_name}",
        "out": f"*{out.dtype.triton_name}",
        "delta": "*fp32",
        "n_lines": "i64",
        **arguments.types,
    }
    names = [name for name in row_products.arg_names if name in every]
    known = {**arguments.constants, "BLOCK_M": block}
    launch = Launch(
        call.device,
        row_products,
        {name: every[name] for name in names},
        {name: known[name] for name in row_products.arg_names if name not in every},
        divisible=[name for name in arguments.divisible if name in names],
    )
    grid = (cdiv(sizes.lines, block), 1, 1)
    values = {**arguments.values, "n_lines": sizes.lines}
    passed = [values[name] for name in names if name in values]
    return lambda grad, out, delta: launch(grid, grad.address, out.address, delta.address, *passed)


register_stub("efficient_attention_backward_stub", "cuda", efficient_attention_backward)
