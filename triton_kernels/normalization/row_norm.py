"""layer_norm and rms_norm: one pass over rows that fit in registers; sums over rows in two stages, without atomics."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.allocator import get_allocator
from ...runtime.cuda.driver import driver
from ...runtime.cuda.lazy_triton import tl
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.scalar_type import float32, float64
from ...runtime.tensor_spec import TensorSpec
from ..contiguous import contiguous_copy
from ..conversion import compute_type
from ..elementwise.elementwise import check_dtypes
from ..geometry import coalesced
from ..launch import ALIGNMENT, Launch, cdiv, integer_type, interpreted, next_power_of_2
from ..reduction.reduction import REDUCTIONS, reduction
from .row_norm_kernels import normalise_rows, normalise_rows_backward, weight_gradients

INTERPRETED_ROW = 1 << 14
"""The longest row that the interpreter takes whole."""


class RowTile(NamedTuple):
    """Rows and elements of a block, its warps, and whether it holds whole rows."""

    rows: int
    elements: int
    warps: int
    whole: bool


def row_tile(rows: int, n: int, double: bool, longest: int, blocked: int) -> RowTile:
    """A block of 16 elements of a row for each lane, several rows where they are short.

    Args:
        double: whether numbers are computed in float64, of which a lane has eight.
        longest: rows up to this are whole; longer ones are read in blocks of `blocked`.
    """
    if interpreted():
        longest = blocked = INTERPRETED_ROW
        reduced = min(next_power_of_2(n), longest)
        return RowTile(min(next_power_of_2(rows), max(1, longest // reduced)), reduced, 4, n <= longest)
    if n > longest:
        return RowTile(1, blocked, 8, False)
    reduced = next_power_of_2(n)
    least = 1024 if double else 2048
    outputs = min(next_power_of_2(rows), max(1, least // reduced))
    lane = 8 if double else 16
    return RowTile(outputs, reduced, min(max(outputs * reduced // (32 * lane), 4), 32), True)


def strided_rows(spec: TensorSpec, lead: int) -> int | None:
    """The stride between a tensor's rows, whose elements lie one after another; None where that is not so."""
    step = 1
    for size, stride in zip(reversed(spec.sizes[lead:]), reversed(spec.strides[lead:]), strict=True):
        if size != 1 and stride != step:
            return None
        step *= size
    outer = coalesced(spec.sizes[:lead], [spec.strides[:lead]], keep_order=True)
    if len(outer.sizes) > 1:
        return None
    return outer.strides[0][0] if outer.sizes else step


class Operand(NamedTuple):
    """A tensor as rows: the stride between them, and a function from its data to data laid out so."""

    stride: int
    data: Callable[[Any], Any]


def as_rows(spec: TensorSpec, lead: int) -> Operand:
    """A tensor's rows where they lie, or those of a contiguous copy."""
    stride = strided_rows(spec, lead)
    if stride is not None:
        return Operand(stride, lambda data: data)
    return Operand(math.prod(spec.sizes[lead:]), contiguous_copy(spec)[1])


def as_row(spec: TensorSpec | None) -> Callable[[Any], Any]:
    """A parameter's data, contiguous; None stays."""
    return (lambda data: data) if spec is None else contiguous_copy(spec)[1]


def prepare(
    call: StructuredCall,
    kernel: Any,
    pointers: Mapping[str, TensorSpec | None],
    sizes: Mapping[str, int],
    constants: Mapping[str, object],
    warps: int,
    extent: int,
    numbers: Mapping[str, str] | None = None,
) -> tuple[Launch, tuple[int, ...]]:
    """The launch, and the sizes that follow its pointers at each call; `numbers` come after those.

    Pointers without a spec are None in the kernel, and not passed.
    """
    kind = integer_type(extent)
    signature = {name: f"*{s.dtype.triton_name}" for name, s in pointers.items() if s is not None}
    signature |= dict.fromkeys(sizes, kind) | dict(numbers or {})
    missing: dict[str, object] = {name: None for name, spec in pointers.items() if spec is None}
    index = {"INDEX": tl.int32 if kind == "i32" else tl.int64}
    launch = Launch(
        call.device,
        kernel,
        {name: signature[name] for name in kernel.arg_names if name in signature},
        {**constants, **missing, **index},
        divisible=[name for name, value in sizes.items() if value % ALIGNMENT == 0],
        num_warps=warps,
    )
    return launch, tuple(sizes[name] for name in kernel.arg_names if name in sizes)


def forward(centred: bool) -> Callable[[StructuredCall], PlannedKernel]:
    """layer_norm, or rms_norm, which subtracts no mean and has no bias."""

    def factory(call: StructuredCall) -> PlannedKernel:
        args = call.args
        x, weight, bias = args["input"], args["weight"], args.get("bias")
        out, rstd = call.outputs[0], call.outputs[-1]
        check_dtypes(call, [x, *(spec for spec in (weight, bias) if spec is not None)])
        lead = call.extra["lead"]
        rows, n = math.prod(x.sizes[:lead]), math.prod(x.sizes[lead:])
        default = 2.0 ** (-52 if x.dtype is float64 else -23)
        if rows == 0:
            return PlannedKernel(lambda *_: None)
        operand = as_rows(x, lead)
        weight_data, bias_data = as_row(weight), as_row(bias)
        double = x.dtype is float64
        # Without wide accesses each element has an address of its own, for which long rows have no room.
        is_odd = n % ALIGNMENT != 0
        longest = 4096 if double else 32768 if x.itemsize == 2 and not is_odd else 16384
        tile = row_tile(rows, n, double, longest, 2048 if double else 4096)
        if is_odd and tile.whole and tile.elements == 8192:
            tile = tile._replace(warps=32)
        launch, numbers = prepare(
            call,
            normalise_rows,
            {
                "x": x,
                "weight": weight,
                "bias": bias,
                "out": out,
                "mean": call.outputs[1] if centred else None,
                "rstd": rstd,
            },
            {"rows": rows, "n": n, "x_row": operand.stride},
            {
                "CENTRED": centred,
                "WHOLE": tile.whole,
                "ACCUMULATOR": compute_type(x.dtype),
                "BLOCK_O": tile.rows,
                "BLOCK_R": tile.elements,
            },
            tile.warps,
            (rows + tile.rows) * max(n, abs(operand.stride), 1) + tile.elements,
            {"eps": "fp64"},
        )
        grid = (cdiv(rows, tile.rows), 1, 1)

        def into(to: Any, means: Any, rstds: Any, data: Any, weights: Any, biases: Any, eps: Any) -> None:
            given = (operand.data(data), weight_data(weights), bias_data(biases), to, means, rstds)
            addresses = [each.address for each in given if each is not None]
            launch(grid, *addresses, *numbers, default if eps is None else float(eps))

        if centred:
            return PlannedKernel(into)
        return PlannedKernel(
            lambda to, rstds, data, weights, eps: into(to, None, rstds, data, weights, None, eps)
        )

    return factory


def accumulator_dtype(dtype: ScalarType) -> ScalarType:
    """The dtype in which sums of a floating dtype are kept."""
    return float64 if dtype is float64 else float32


def resident_programs(call: StructuredCall, blocks: int) -> int:
    """How many blocks run at a time, if `blocks` share a multiprocessor; few in the interpreter."""
    if interpreted():
        return 3
    return blocks * driver().properties(call.device.resolved_index).multi_processor_count


def sum_parts(
    call: StructuredCall, parts: TensorSpec, out: TensorSpec, dims: tuple[int, ...]
) -> Callable[[Any, Any], Any]:
    """``add_up(out, parts)`` over some dimensions, in a fixed order."""
    add_up = reduction(REDUCTIONS["sum_stub"])
    return add_up(
        call._replace(
            name="sum", args={"self": parts}, runtime=("self",), outputs=(out,), extra={"dims": dims}
        )
    ).into


class WeightSums:
    """Room for each part's gradients of weight and bias, and their sums."""

    def __init__(
        self, call: StructuredCall, outs: tuple[Any, Any], parts: int, n: int, dtype: ScalarType
    ) -> None:
        self.direct = parts == 1
        part = TensorSpec.contiguous((parts, n), dtype, call.device)
        self.specs = [None if out is None else out if self.direct else part for out in outs]
        self.nbytes, self.device = part.nbytes, call.device
        flat = [None if out is None else TensorSpec.contiguous((n,), out.dtype, call.device) for out in outs]
        self.sums = [None if out is None or self.direct else sum_parts(call, part, out, (0,)) for out in flat]
        self.allocate = get_allocator("cuda").allocate

    def targets(self, outs: tuple[Any, Any]) -> list[Any]:
        """Where the parts go."""
        if self.direct:
            return list(outs)
        return [None if out is None else self.allocate(self.nbytes, self.device) for out in outs]

    def finish(self, outs: tuple[Any, Any], targets: list[Any]) -> None:
        """Add the parts up."""
        for add_up, out, target in zip(self.sums, outs, targets, strict=True):
            if add_up is not None:
                add_up(out, target)


def backward(centred: bool) -> Callable[[StructuredCall], PlannedKernel]:
    """The gradients of input, weight and bias; whole rows give all three in one pass over gradient and input."""

    def factory(call: StructuredCall) -> PlannedKernel:
        args, lead = call.args, call.extra["lead"]
        grad, x, mean, rstd, weight = (args.get(k) for k in ("grad_out", "input", "mean", "rstd", "weight"))
        to, *rest = call.extra["outputs"]
        outs = (rest[0], rest[1] if centred else None)
        check_dtypes(call, [x, grad, rstd, *(spec for spec in (weight, mean) if spec is not None)])
        rows, n = math.prod(x.sizes[:lead]), math.prod(x.sizes[lead:])
        wanted = any(out is not None for out in outs)
        if n == 0:
            return PlannedKernel(lambda *_: None)
        double = x.dtype is float64
        fused = n <= (INTERPRETED_ROW if interpreted() else 4096 if double or n % ALIGNMENT else 8192)
        plan = Backward(call, (grad, x, mean, rstd, weight), rows, n, lead, centred, double)
        steps: list[Callable[..., None]] = []
        if to is not None and rows and not (wanted and fused):
            steps.append(plan.of_rows(to, (None, None)))
        if wanted:
            steps.append(plan.of_rows(to, outs) if fused else plan.of_columns(outs))

        def into(*data: Any) -> None:
            if centred:
                results, (g, values, means, rstds, weights) = data[:3], data[3:]
            else:
                results, (g, values, rstds, weights), means = (*data[:2], None), data[2:], None
            given = (plan.grad.data(g), plan.x.data(values), plan.mean(means), plan.rstd(rstds))
            for step in steps:
                step(results, (*given, plan.weight(weights)))

        return PlannedKernel(into)

    return factory


class Backward:
    """One backward call: its operands as rows, and the launches that it may be made of."""

    def __init__(
        self,
        call: StructuredCall,
        specs: tuple[Any, ...],
        rows: int,
        n: int,
        lead: int,
        centred: bool,
        double: bool,
    ) -> None:
        self.call, self.specs, self.rows, self.n = call, specs, rows, n
        self.double = double
        grad, x, mean, rstd, weight = specs
        self.grad, self.x = as_rows(grad, lead), as_rows(x, lead)
        self.mean, self.rstd, self.weight = as_row(mean), as_row(rstd), as_row(weight)
        self.constants = {"CENTRED": centred, "ACCUMULATOR": compute_type(x.dtype)}
        self.dtype = accumulator_dtype(x.dtype)

    def _prepare(
        self, kernel: Any, outputs: dict[str, Any], tile: RowTile, chunk: int, constants: dict[str, object]
    ) -> tuple[Launch, tuple[int, ...]]:
        pointers = dict(zip(("grad", "x", "mean", "rstd", "weight"), self.specs, strict=True))
        pointers = {name: spec for name, spec in pointers.items() if name in kernel.arg_names} | outputs
        rows, n = self.rows, self.n
        reach = max(n, abs(self.grad.stride), abs(self.x.stride), 1)
        parts = cdiv(rows, chunk) if rows else 1
        return prepare(
            self.call,
            kernel,
            pointers,
            {"rows": rows, "n": n, "g_row": self.grad.stride, "x_row": self.x.stride, "chunk": chunk},
            {**self.constants, **constants, "BLOCK_O": tile.rows, "BLOCK_R": tile.elements},
            tile.warps,
            (max(rows, parts * chunk) + tile.rows) * reach + tile.elements,
        )

    def of_rows(self, to: TensorSpec | None, outs: tuple[Any, Any]) -> Callable[..., None]:
        """Whole rows, or rows in blocks if no sums are wanted."""
        double = self.double
        is_odd = self.n % ALIGNMENT != 0
        longest = 4096 if double or is_odd else 8192
        blocked = 2048 if double else 4096
        tile = row_tile(self.rows, self.n, double, longest, blocked)
        if is_odd and not double and tile.rows * tile.elements <= 2048 and not interpreted():
            tile = tile._replace(warps=8)
        if double and tile.whole:
            tile = tile._replace(rows=max(1, min(tile.rows, 1024 // tile.elements)))
        wanted = any(out is not None for out in outs)
        chunk = tile.rows
        if wanted:
            programs = resident_programs(self.call, max(16 // tile.warps, 1))
            chunk = cdiv(cdiv(max(self.rows, 1), programs), tile.rows) * tile.rows
        parts = max(cdiv(self.rows, chunk), 1)
        sums = WeightSums(self.call, outs, parts, self.n, self.dtype)
        launch, numbers = self._prepare(
            normalise_rows_backward,
            {"to": to, "to_weight": sums.specs[0], "to_bias": sums.specs[1]},
            tile,
            chunk,
            {"WHOLE": tile.whole},
        )
        grid = (parts, 1, 1)

        def step(results: tuple[Any, ...], given: tuple[Any, ...]) -> None:
            own = (results[1], results[2]) if wanted else (None, None)
            targets = sums.targets(own)
            launch(grid, *[d.address for d in (*given, results[0], *targets) if d is not None], *numbers)
            sums.finish(own, targets)

        return step

    def of_columns(self, outs: tuple[Any, Any]) -> Callable[..., None]:
        """The gradients of weight and bias alone, of long rows."""
        tile = RowTile(16 if self.double or self.n % ALIGNMENT else 32, 64, 4, False)
        if interpreted():
            tile = RowTile(next_power_of_2(min(self.rows, 64)), 1024, 4, False)
        columns = cdiv(self.n, tile.elements)
        programs = max(resident_programs(self.call, 4 if self.double else 8) // columns, 1)
        chunk = max(cdiv(cdiv(self.rows, programs), tile.rows), 1) * tile.rows
        parts = max(cdiv(self.rows, chunk), 1)
        sums = WeightSums(self.call, outs, parts, self.n, self.dtype)
        launch, numbers = self._prepare(
            weight_gradients, {"to_weight": sums.specs[0], "to_bias": sums.specs[1]}, tile, chunk, {}
        )
        grid = (columns, parts, 1)

        def step(results: tuple[Any, ...], given: tuple[Any, ...]) -> None:
            own = (results[1], results[2])
            targets = sums.targets(own)
            launch(grid, *[d.address for d in (*given[:4], *targets) if d is not None], *numbers)
            sums.finish(own, targets)

        return step


FACTORIES = {
    "native_layer_norm_stub": forward(True),
    "native_layer_norm_backward_stub": backward(True),
    "fused_rms_norm_stub": forward(False),
    "fused_rms_norm_backward_stub": backward(False),
}

for _stub, _factory in FACTORIES.items():
    register_stub(_stub, "cuda", _factory)
