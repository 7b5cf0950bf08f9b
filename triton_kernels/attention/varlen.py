"""Launches of attention in sequences, packed, paged or a batch each: forward, and backward by keys and by queries."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from ...dispatch.structured import choices
from ...dispatch.structured.meta.varlen_attention import WRONG_COUNTS, WRONG_PAGES, WRONG_STARTS
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.allocator import get_allocator
from ...runtime.cuda.driver import driver
from ...runtime.cuda.faults import Fault, FaultFlags, fault_flags
from ...runtime.tensor_spec import TensorSpec
from ..budget import Configuration
from ..contiguous import contiguous_copy
from ..elementwise.elementwise import check_dtypes
from ..launch import Launch, cdiv, launch_nothing, next_power_of_2
from ..random.random import single
from .backward import LARGEST_HEAD_OF_TWO_SUMS, row_products_of
from .merge import Merge
from .operands import LOG2_E, Arguments, Sizes, with_unit_stride
from .splits import FEW_QUERIES, number_of_parts
from .tiles import VARLEN_FORWARD, VARLEN_KEYS, VARLEN_QUERIES, varlen_tile
from .varlen_kernels import varlen_attention, varlen_backward_keys, varlen_backward_queries

CHUNK = 128
"""Bounds of so many sequences are loaded at a time."""


def as_one_batch(spec: TensorSpec) -> TensorSpec:
    """View (rows, heads, width) as (1, heads, rows, width), the layout of fixed-length attention."""
    (rows, heads, width), (row, head, step) = spec.sizes, spec.strides
    return TensorSpec.of((1, heads, rows, width), (0, head, row, step), spec.dtype, spec.device)


def as_pages(spec: TensorSpec) -> TensorSpec:
    """View (pages, page size, heads, width) as (pages, heads, page size, width)."""
    (pages, rows, heads, width), (page, row, head, step) = spec.sizes, spec.strides
    return TensorSpec.of((pages, heads, rows, width), (page, head, row, step), spec.dtype, spec.device)


class Problem:
    """Problem that the launches of a call share: total sizes of all sequences, operands, and the window.

    Operands are (rows, heads, width) of packed sequences, keys and values also pages, or (batch, heads,
    length, width).
    """

    def __init__(self, call: StructuredCall, names: tuple[str, ...]) -> None:
        self.call = call
        specs = [call.args[name] for name in names]
        check_dtypes(call, specs)
        self.operands = [with_unit_stride(spec) for spec in specs]
        self.is_packed = call.args["query"].ndim == 3
        table: TensorSpec | None = call.args.get("block_table")
        self.specs = {
            name: self.in_batches(spec) for name, (spec, _) in zip(names, self.operands, strict=True)
        }
        self.sizes = Sizes.of(*(self.specs[name] for name in ("query", "key", "value")))
        bounds = (
            () if not self.is_packed else ("cu_seq_q",) if table is not None else ("cu_seq_q", "cu_seq_k")
        )
        self.starts = [with_unit_stride(call.args[name]) for name in bounds]
        self.sequences = call.args["cu_seq_q"].sizes[0] - 1 if self.is_packed else self.sizes.batch
        self.pages: dict[str, int] = {}
        if table is not None:
            n_pages, page_size = call.args["key"].sizes[:2]
            self.pages = {"page_size": page_size, "n_pages": n_pages, "entries": table.sizes[1]}
            # Without pages, every key count must be zero.
            length = table.sizes[1] * page_size if n_pages else 0
            self.sizes = dataclasses.replace(self.sizes, length_k=length)
        # Wider ones see no more, and their sums with a place stay within 32 bits.
        max_side = self.sizes.length_q + self.sizes.length_k
        self.window = [min(side, max_side) for side in call.extra["window"]]

    def in_batches(self, spec: TensorSpec) -> TensorSpec:
        """Return an operand with dimensions (batch or page, heads, rows, width)."""
        if not self.is_packed:
            return spec
        return as_pages(spec) if spec.ndim == 4 else as_one_batch(spec)

    def gathered(self, data: tuple[Any, ...]) -> list[Any]:
        """Return the operands with contiguous heads, then the bounds."""
        return [gather(x) for (_, gather), x in zip((*self.operands, *self.starts), data, strict=True)]

    def tiles(self, rows: int, block: int) -> int:
        """Tiles of all sequences; of packed ones at least as many as they take, and what is behind the last one."""
        if not self.is_packed:
            return cdiv(rows, block) * self.sequences
        return rows // block + self.sequences + 1

    def tile(self, candidates: Any) -> Configuration:
        """Return the tile of a launch."""
        sizes = self.sizes
        return varlen_tile(self.call.device, candidates, sizes.head, sizes.length_q, sizes.length_k)

    def shared_heads(self, room: int) -> int:
        """Return the number of heads that share a tile of `room` rows for each query, or 0 if each head has its
        own tiles.

        Heads that read the same keys share a tile if an average sequence's queries fit it with all their
        heads.
        """
        sizes = self.sizes
        shared, queries = next_power_of_2(sizes.group), sizes.length_q
        if self.is_packed:
            queries = cdiv(queries, max(self.sequences, 1))
        if sizes.group == 1 or shared * queries > room:
            return 0
        why = "{} queries of a sequence on average, and {} heads that share keys, have at most {} rows"
        choices.chosen("heads packed into a tile", why, queries, sizes.group, room)
        return shared

    def parts(self, shared: int) -> int:
        """Return the number of parts that the keys of a sequence are split into, if it has few queries.

        Its keys are those that its pages can hold, or an average sequence has, within the window.
        """
        sizes, (left, right), tile = self.sizes, self.window, self.tile(VARLEN_FORWARD)
        queries, keys = sizes.length_q, sizes.length_k
        if self.is_packed:
            queries = cdiv(queries, max(self.sequences, 1))
            keys = keys if self.pages else cdiv(keys, max(self.sequences, 1))
        if queries > FEW_QUERIES or self.call.extra.get("num_splits") == 1:
            return 1
        if left >= 0 and right >= 0:
            keys = min(keys, left + right + queries)
        block_m, block_n = tile.tile[:2]
        own_heads = sizes.heads_k if shared else sizes.heads
        programs = self.sequences * cdiv(queries, block_m // max(shared, 1)) * own_heads
        processors = driver().properties(self.call.device.resolved_index).multi_processor_count
        parts = number_of_parts(programs, keys, block_n, processors)
        if parts > 1:
            why = "{} programs are few for the device, and a sequence has up to {} keys"
            choices.chosen(f"keys in {parts} parts, then merged", why, programs, keys)
        return parts

    def launch(
        self,
        kernel: Any,
        candidates: Any,
        rows: str,
        heads: int,
        pointers: dict[str, str],
        lines: tuple[tuple[str, TensorSpec], ...],
        *,
        raw: bool = False,
        shared: int = 0,
        parts: int = 1,
    ) -> Callable[..., None]:
        """``run(addresses, numbers)`` of a kernel over tiles of ``rows``: "q" or "k"; `shared` heads have a tile."""
        sizes, left, right = self.sizes, *self.window
        tile = self.tile(candidates)
        arguments = Arguments(
            self.call,
            sizes,
            lines,
            None,
            sequences=self.sequences,
            left=max(left, 0),
            right=max(right, 0),
            **self.pages,
        )
        scales = {name: "fp32" for name in ("scale", "factor") if name in kernel.arg_names}
        every = {**pointers, **arguments.types, **scales}
        names = [name for name in kernel.arg_names if name in every]
        known: dict[str, object] = {
            **arguments.constants,
            "RAW": raw,
            "SHARED": shared,
            "LEFT": left >= 0,
            "RIGHT": right >= 0,
            "SPLIT": parts > 1,
            "WHOLE": self.pages.get("page_size", 0) % tile.tile[1] == 0,
            "BLOCK_M": tile.tile[0],
            "BLOCK_N": tile.tile[1],
            "CHUNK": min(next_power_of_2(self.sequences + 1), CHUNK),
        }
        launch = Launch(
            self.call.device,
            kernel,
            {name: every[name] for name in names},
            {name: known.get(name) for name in kernel.arg_names if name not in every},
            divisible=[name for name in arguments.divisible if name in names],
            elements=("flags", "starts_q", "starts_k", "used", "table"),
            num_warps=tile.warps,
            num_stages=tile.stages,
            enable_fp_fusion=True,
            enable_reflect_ftz=True,
        )
        length, block = (
            (sizes.length_q, tile.tile[0] // max(shared, 1))
            if rows == "q"
            else (sizes.length_k, tile.tile[1])
        )
        grid = (self.tiles(length, block) * heads, parts, 1)
        passed = [arguments.values[name] for name in names if name in arguments.values]
        return lambda addresses, numbers: launch(grid, *addresses, *passed, *numbers)


def _forward(
    problem: Problem, pointers: dict[str, str]
) -> Callable[[list[int], tuple[int, int], list[int], float], None]:
    """Return ``run(addresses of the operands, of out and logsumexp, of the flags if any, scale)``."""
    specs, out = problem.specs, problem.in_batches(problem.call.outputs[0])
    lines = (("qm", specs["query"]), ("kn", specs["key"]), ("vn", specs["value"]), ("om", out))
    sizes, shared = problem.sizes, problem.shared_heads(problem.tile(VARLEN_FORWARD).tile[0])
    own_heads = sizes.heads_k if shared else sizes.heads
    runs: dict[bool, Callable[..., None]] = {}
    parts = problem.parts(shared)
    merge = Merge(problem.call, sizes, out, parts, saves=True, of_sequences=True) if parts > 1 else None
    if merge is not None:
        pointers = {**pointers, "out": "*fp32", "tops": "*fp32"}

    def run(operands: list[int], results: tuple[int, int], flags: list[int], scale: float) -> None:
        raw = scale > 0
        launch = runs.get(raw)
        if launch is None:
            launch = runs[raw] = problem.launch(
                varlen_attention,
                VARLEN_FORWARD,
                "q",
                own_heads,
                pointers,
                lines,
                raw=raw,
                shared=shared,
                parts=parts,
            )
        numbers = [single(scale * LOG2_E)]
        if merge is None:
            launch([*operands, *results, *flags], numbers)
            return
        totals, sums, tops = merge.allocated()
        launch([*operands, totals.address, sums.address, tops.address, *flags], numbers)
        merge(totals, sums, tops, *results, 1.0)

    return run


def varlen_attention_forward(call: StructuredCall) -> PlannedKernel:
    """Compute softmax(scale * query @ key^T) @ value of each sequence; wrong bounds and pages are faults."""
    problem = Problem(call, ("query", "key", "value"))
    if problem.sizes.lines == 0:
        return PlannedKernel(launch_nothing)
    half = f"*{call.args['query'].dtype.triton_name}"
    pointers = {"q": half, "k": half, "v": half, "starts_q": "*i32"}
    if not problem.pages:
        pointers["starts_k"] = "*i32"
    optional: list[tuple[int, Callable[[Any], Any]]] = []
    for index, (argument, name) in enumerate((("seqused_k", "used"), ("block_table", "table"))):
        spec: TensorSpec | None = call.args[argument]
        if spec is not None:
            pointers[name] = "*i32"
            optional.append((index, contiguous_copy(spec)[1]))
    pointers |= {"out": half, "logsumexp": "*fp32", "flags": "*i32"}
    forward, flags = _forward(problem, pointers), _flags(problem)

    def into(out: Any, logsumexp: Any, *inputs: Any) -> None:
        *data, starts_k, scale, used, table = inputs
        if not problem.pages:
            data.append(starts_k)
        # Copies live until the launch.
        operands = problem.gathered(tuple(data))
        operands += [gather((used, table)[index]) for index, gather in optional]
        addresses = [x.address for x in operands]
        forward(addresses, (out.address, logsumexp.address), [flags.begin()], scale)
        if flags.driver.launch_blocking:
            for fault in flags.raised():
                raise RuntimeError(_messages(problem)[fault])

    return PlannedKernel(into)


def sliding_window_forward(call: StructuredCall) -> PlannedKernel:
    """Compute softmax(scale * query @ key^T) @ value in a window, of each batch."""
    problem = Problem(call, ("query", "key", "value"))
    if problem.sizes.lines == 0:
        return PlannedKernel(launch_nothing)
    half = f"*{call.args['query'].dtype.triton_name}"
    forward = _forward(problem, {**dict.fromkeys(("q", "k", "v", "out"), half), "logsumexp": "*fp32"})

    def into(out: Any, logsumexp: Any, query: Any, key: Any, value: Any, scale: float) -> None:
        operands = problem.gathered((query, key, value))
        forward([x.address for x in operands], (out.address, logsumexp.address), [], scale)

    return PlannedKernel(into)


def _messages(problem: Problem) -> tuple[str, ...]:
    sizes = problem.sizes
    return (
        WRONG_STARTS.format(argument="cu_seq_q", rows=sizes.length_q),
        WRONG_STARTS.format(argument="cu_seq_k", rows=sizes.length_k),
        WRONG_COUNTS,
        WRONG_PAGES.format(pages=problem.pages.get("n_pages", 0)),
    )


def _flags(problem: Problem) -> FaultFlags:
    faults = [Fault("varlen_attn", RuntimeError, message) for message in _messages(problem)]
    return fault_flags(problem.call.device.resolved_index, faults)


def varlen_attention_backward(call: StructuredCall) -> PlannedKernel:
    """Compute the gradients of query, key and value, of packed sequences or of batches.

    Bounds are those of the forward pass, which has reported invalid ones.
    """
    problem = Problem(call, ("grad_out", "query", "key", "value", "out"))
    specs, sizes, device = problem.specs, problem.sizes, call.device
    half = f"*{specs['query'].dtype.triton_name}"
    pointers = dict.fromkeys(("q", "k", "v", "grad"), half)
    if problem.is_packed:
        pointers |= {"starts_q": "*i32", "starts_k": "*i32"}
    pointers |= {"logsumexp": "*fp32", "delta": "*fp32"}
    read = (
        ("qm", specs["query"]),
        ("kn", specs["key"]),
        ("vn", specs["value"]),
        ("gm", specs["grad_out"]),
    )
    grads = [problem.in_batches(spec) for spec in call.outputs]
    runs: list[tuple[Callable[..., None], tuple[int, ...]]] = []
    if sizes.batch * sizes.heads_k * sizes.length_k:
        for made in ((1,), (2,)) if sizes.head > LARGEST_HEAD_OF_TWO_SUMS else ((1, 2),):
            own = tuple((("yn", "zn")[i - 1], grads[i]) for i in made)
            halves = {("grad_k", "grad_v")[i - 1]: half for i in made}
            used = {name: type_ for name, type_ in pointers.items() if name != "v" or made != (2,)}
            lines = (*(each for each in read if each[0] != "vn" or made != (2,)), *own)
            run = problem.launch(varlen_backward_keys, VARLEN_KEYS, "k", sizes.heads_k, used | halves, lines)
            runs.append((run, made))
    relative = None
    if sizes.lines:
        own = (("xm", grads[0]),)
        run = problem.launch(
            varlen_backward_queries,
            VARLEN_QUERIES,
            "q",
            sizes.heads,
            pointers | {"grad_q": half},
            (*read, *own),
        )
        runs.append((run, (0,)))
        relative = row_products_of(call, sizes, specs["grad_out"], specs["out"])
    allocate = get_allocator("cuda").allocate

    def into(grad_query: Any, grad_key: Any, grad_value: Any, *inputs: Any) -> None:
        grad, query, key, value, out, logsumexp, *starts, scale = inputs
        grad, query, key, value, out, *starts = problem.gathered((grad, query, key, value, out, *starts))
        delta = allocate(4 * sizes.lines, device)
        if relative is not None:
            relative(grad, out, delta)
        addresses = [x.address for x in (query, key, value, grad, *starts, logsumexp, delta)]
        results = (grad_query, grad_key, grad_value)
        numbers = [single(scale * LOG2_E), single(scale)]
        for run, made in runs:
            # The gradients of the values alone need no values.
            read = addresses if made != (2,) else [*addresses[:2], *addresses[3:]]
            run([*read, *(results[i].address for i in made)], numbers)

    return PlannedKernel(into)


register_stub("varlen_attn_stub", "cuda", varlen_attention_forward)
register_stub("varlen_attn_backward_stub", "cuda", varlen_attention_backward)
register_stub("sliding_window_attn_stub", "cuda", sliding_window_forward)
register_stub("sliding_window_attn_backward_stub", "cuda", varlen_attention_backward)
