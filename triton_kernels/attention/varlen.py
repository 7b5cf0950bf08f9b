"""Launches of attention in sequences of different lengths: forward, and backward by keys and by queries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.structured.meta.varlen_attention import WRONG_COUNTS, WRONG_STARTS
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.allocator import get_allocator
from ...runtime.cuda.faults import Fault, FaultFlags, fault_flags
from ...runtime.tensor_spec import TensorSpec
from ..elementwise.elementwise import check_dtypes
from ..launch import Launch, launch_nothing, next_power_of_2
from ..random.random import single
from .backward import LARGEST_HEAD_OF_TWO_SUMS, row_products_of
from .operands import LOG2_E, Arguments, Sizes, with_unit_stride
from .tiles import VARLEN_FORWARD, VARLEN_KEYS, VARLEN_QUERIES, varlen_tile
from .varlen_kernels import varlen_attention, varlen_backward_keys, varlen_backward_queries

CHUNK = 128
"""Bounds of so many sequences are loaded at a time."""


def as_one_batch(spec: TensorSpec) -> TensorSpec:
    """(rows, heads, width) as (1, heads, rows, width), as attention of one length has it."""
    (rows, heads, width), (row, head, step) = spec.sizes, spec.strides
    return TensorSpec.of((1, heads, rows, width), (0, head, row, step), spec.dtype, spec.device)


class Problem:
    """What the launches of a call share: sizes of all sequences together, operands, and the window."""

    def __init__(self, call: StructuredCall, names: tuple[str, ...]) -> None:
        self.call = call
        given = [call.args[name] for name in names]
        check_dtypes(call, given)
        self.operands = [with_unit_stride(spec) for spec in given]
        self.specs = {name: as_one_batch(spec) for name, (spec, _) in zip(names, self.operands, strict=True)}
        self.sizes = Sizes.of(*(self.specs[name] for name in ("query", "key", "value")))
        self.starts = [with_unit_stride(call.args[name]) for name in ("cu_seq_q", "cu_seq_k")]
        self.sequences = call.args["cu_seq_q"].sizes[0] - 1
        # Wider ones see no more, and their sums with a place stay within 32 bits.
        most = self.sizes.length_q + self.sizes.length_k
        self.window = [min(side, most) for side in call.extra["window"]]

    def gathered(self, data: tuple[Any, ...]) -> list[Any]:
        """The operands with the elements of a head side by side, then the bounds."""
        return [gather(x) for (_, gather), x in zip((*self.operands, *self.starts), data, strict=True)]

    def tiles(self, rows: int, block: int) -> int:
        """At least as many tiles as sequences of so many rows take, and what is behind the last one."""
        return rows // block + self.sequences + 1

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
    ) -> Callable[..., None]:
        """``run(addresses, numbers)`` of a kernel over tiles of ``rows``: "q" or "k"."""
        sizes, left, right = self.sizes, *self.window
        tile = varlen_tile(self.call.device, candidates, sizes.head, sizes.length_q, sizes.length_k)
        arguments = Arguments(
            self.call, sizes, lines, None, sequences=self.sequences, left=max(left, 0), right=max(right, 0)
        )
        scales = {name: "fp32" for name in ("scale", "factor") if name in kernel.arg_names}
        every = {**pointers, **arguments.types, **scales}
        names = [name for name in kernel.arg_names if name in every]
        known: dict[str, object] = {
            **arguments.constants,
            "RAW": raw,
            "LEFT": left >= 0,
            "RIGHT": right >= 0,
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
            elements=("flags", "starts_q", "starts_k", "used"),
            num_warps=tile.warps,
            num_stages=tile.stages,
            enable_fp_fusion=True,
            enable_reflect_ftz=True,
        )
        length, block = (sizes.length_q, tile.tile[0]) if rows == "q" else (sizes.length_k, tile.tile[1])
        grid = (self.tiles(length, block) * heads, 1, 1)
        passed = [arguments.values[name] for name in names if name in arguments.values]
        return lambda addresses, numbers: launch(grid, *addresses, *passed, *numbers)


def varlen_attention_forward(call: StructuredCall) -> PlannedKernel:
    """softmax(scale * query @ key^T) @ value of each sequence; wrong bounds are faults."""
    problem = Problem(call, ("query", "key", "value"))
    specs, sizes = problem.specs, problem.sizes
    used: TensorSpec | None = call.args["seqused_k"]
    if sizes.lines == 0:
        return PlannedKernel(launch_nothing)
    half = f"*{specs['query'].dtype.triton_name}"
    pointers = dict.fromkeys(("q", "k", "v", "out"), half)
    pointers |= {"starts_q": "*i32", "starts_k": "*i32", "logsumexp": "*fp32", "flags": "*i32"}
    gather_used = None
    if used is not None:
        pointers["used"] = "*i32"
        gather_used = with_unit_stride(used)[1]
    out = as_one_batch(call.outputs[0])
    lines = (("qm", specs["query"]), ("kn", specs["key"]), ("vn", specs["value"]), ("om", out))
    flags = _flags(problem)
    runs: dict[bool, Callable[..., None]] = {}

    def into(to: Any, logsumexp: Any, *given: Any) -> None:
        *data, scale, counts = given
        addresses = [x.address for x in problem.gathered(tuple(data))]
        if gather_used is not None:
            addresses.append(gather_used(counts).address)
        raw = scale > 0
        run = runs.get(raw)
        if run is None:
            run = runs[raw] = problem.launch(
                varlen_attention, VARLEN_FORWARD, "q", sizes.heads, pointers, lines, raw=raw
            )
        words = flags.begin()
        run([*addresses, to.address, logsumexp.address, words], [single(scale * LOG2_E)])
        if flags.driver.launch_blocking:
            for found in flags.raised():
                raise RuntimeError(_messages(problem)[found])

    return PlannedKernel(into)


def _messages(problem: Problem) -> tuple[str, str, str]:
    sizes = problem.sizes
    return (
        WRONG_STARTS.format(argument="cu_seq_q", rows=sizes.length_q),
        WRONG_STARTS.format(argument="cu_seq_k", rows=sizes.length_k),
        WRONG_COUNTS,
    )


def _flags(problem: Problem) -> FaultFlags:
    faults = [Fault("varlen_attn", RuntimeError, message) for message in _messages(problem)]
    return fault_flags(problem.call.device.resolved_index, faults)


def varlen_attention_backward(call: StructuredCall) -> PlannedKernel:
    """The gradients of query, key and value. Bounds are those of the forward pass, which has reported wrong ones."""
    problem = Problem(call, ("grad_out", "query", "key", "value", "out"))
    specs, sizes, device = problem.specs, problem.sizes, call.device
    half = f"*{specs['query'].dtype.triton_name}"
    pointers = dict.fromkeys(("q", "k", "v", "grad"), half)
    pointers |= {"starts_q": "*i32", "starts_k": "*i32", "logsumexp": "*fp32", "delta": "*fp32"}
    read = (
        ("qm", specs["query"]),
        ("kn", specs["key"]),
        ("vn", specs["value"]),
        ("gm", specs["grad_out"]),
    )
    grads = [as_one_batch(spec) for spec in call.outputs]
    runs: list[tuple[Callable[..., None], tuple[int, ...]]] = []
    if sizes.heads_k * sizes.length_k:
        for made in ((1,), (2,)) if sizes.head > LARGEST_HEAD_OF_TWO_SUMS else ((1, 2),):
            own = tuple((("yn", "zn")[i - 1], grads[i]) for i in made)
            to = {("grad_k", "grad_v")[i - 1]: half for i in made}
            used = {name: type_ for name, type_ in pointers.items() if name != "v" or made != (2,)}
            lines = (*(each for each in read if each[0] != "vn" or made != (2,)), *own)
            run = problem.launch(varlen_backward_keys, VARLEN_KEYS, "k", sizes.heads_k, used | to, lines)
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
        relative = row_products_of(call, sizes, specs["grad_out"], as_one_batch(problem.operands[4][0]))
    allocate = get_allocator("cuda").allocate

    def into(
        grad_query: Any,
        grad_key: Any,
        grad_value: Any,
        grad: Any,
        query: Any,
        key: Any,
        value: Any,
        out: Any,
        logsumexp: Any,
        starts_q: Any,
        starts_k: Any,
        scale: float,
    ) -> None:
        grad, query, key, value, out, starts_q, starts_k = problem.gathered(
            (grad, query, key, value, out, starts_q, starts_k)
        )
        delta = allocate(4 * sizes.lines, device)
        if relative is not None:
            relative(grad, out, delta)
        addresses = [x.address for x in (query, key, value, grad, starts_q, starts_k, logsumexp, delta)]
        results = (grad_query, grad_key, grad_value)
        numbers = [single(scale * LOG2_E), single(scale)]
        for run, made in runs:
            # The gradients of the values alone need no values.
            given = addresses if made != (2,) else [*addresses[:2], *addresses[3:]]
            run([*given, *(results[i].address for i in made)], numbers)

    return PlannedKernel(into)


register_stub("varlen_attn_stub", "cuda", varlen_attention_forward)
register_stub("varlen_attn_backward_stub", "cuda", varlen_attention_backward)
