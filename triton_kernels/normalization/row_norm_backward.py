"""The gradients of layer_norm and rms_norm; sums over rows in two stages, without atomics."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.allocator import get_allocator
from ...runtime.cuda.triton.lazy_kernel import LazyKernel
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.scalar_type import float64
from ...runtime.tensor_spec import TensorSpec
from ..budget import Configuration
from ..conversion import compute_type
from ..elementwise.elementwise import check_dtypes
from ..launch import Launch, cdiv, interpreted, launch_nothing, next_power_of_2
from ..tuning.choice import configuration
from . import row_norm
from .clusters import cluster_tile
from .operands import accumulator_dtype, as_row, as_rows, prepare, resident_programs
from .row_norm import RowTile, chosen_tile, row_tile, rows_of
from .row_norm_backward_kernels import add_up_parts, normalise_rows_backward, weight_gradients

CLUSTER_LANE = 16
"""Elements of gradient and row each that a thread of a cluster holds, with weight and both sums."""
ADDED = (256, 16)
"""Parts and columns of a tile that adds up: runs of 64 bytes, so that few columns make programs enough."""


class WeightSums:
    """Room for each part's gradients of weight and bias, and the launch that adds them up."""

    def __init__(
        self, call: StructuredCall, outs: tuple[Any, Any], parts: int, n: int, dtype: ScalarType
    ) -> None:
        self.direct = parts == 1 or all(out is None for out in outs)
        part = TensorSpec.contiguous((parts, n), dtype, call.device)
        self.specs = [None if out is None else out if self.direct else part for out in outs]
        self.nbytes, self.device = part.nbytes, call.device
        self.allocate = get_allocator("cuda").allocate
        if not self.direct:
            self._plan(call, outs, parts, n, dtype)

    def _plan(
        self, call: StructuredCall, outs: tuple[Any, Any], parts: int, n: int, dtype: ScalarType
    ) -> None:
        flat = [TensorSpec.contiguous((n,), out.dtype, call.device) for out in outs if out is not None]
        part = TensorSpec.contiguous((parts, n), dtype, call.device)
        pointers: dict[str, TensorSpec | None] = {
            "first": part,
            "second": None,
            "to_first": flat[0],
            "to_second": None,
        }
        if len(flat) == 2:
            pointers |= {"second": part, "to_second": flat[1]}
        rows, columns = ADDED
        if dtype is float64:
            rows //= 2
        if interpreted():
            rows, columns = next_power_of_2(parts), next_power_of_2(min(n, row_norm.INTERPRETED_ROW))
        self.launch, self.numbers = prepare(
            call,
            add_up_parts,
            pointers,
            {"parts": parts, "n": n},
            {"ACCUMULATOR": compute_type(dtype), "BLOCK_O": rows, "BLOCK_R": columns},
            8,
            (parts + rows) * n + columns,
        )
        self.grid = (cdiv(n, columns), len(flat), 1)

    def targets(self, outs: tuple[Any, Any]) -> list[Any]:
        """Return the memory that the parts are written to."""
        if self.direct:
            return list(outs)
        return [None if out is None else self.allocate(self.nbytes, self.device) for out in outs]

    def finish(self, outs: tuple[Any, Any], targets: list[Any]) -> None:
        """Add the parts up."""
        if not self.direct:
            self.launch(self.grid, *[d.address for d in (*targets, *outs) if d is not None], *self.numbers)


def backward(centred: bool) -> Callable[[StructuredCall], PlannedKernel]:
    """Return the factory of input, weight and bias gradients; whole rows compute all three in one pass."""

    def factory(call: StructuredCall) -> PlannedKernel:
        args, lead = call.args, call.extra["lead"]
        grad, x, mean, rstd, weight = (args.get(k) for k in ("grad_out", "input", "mean", "rstd", "weight"))
        grad_input, *rest = call.extra["outputs"]
        outs = (rest[0], rest[1] if centred else None)
        check_dtypes(call, [x, grad, rstd, *(spec for spec in (weight, mean) if spec is not None)])
        rows, n = math.prod(x.sizes[:lead]), math.prod(x.sizes[lead:])
        needs_params = any(out is not None for out in outs)
        if n == 0:
            return PlannedKernel(launch_nothing)
        plan = Backward(call, (grad, x, mean, rstd, weight), grad_input, rows, n, lead, centred)
        fused = plan.is_fused
        steps: list[Callable[..., None]] = []
        if grad_input is not None and rows and not (needs_params and fused):
            steps.append(plan.of_rows(grad_input, (None, None)))
        if needs_params:
            steps.append(plan.of_rows(grad_input, outs) if fused else plan.of_columns(outs))

        def into(*data: Any) -> None:
            if centred:
                results, (g, values, means, rstds, weights) = data[:3], data[3:]
            else:
                results, (g, values, rstds, weights), means = (*data[:2], None), data[2:], None
            operands = (plan.grad.data(g), plan.x.data(values), plan.mean(means), plan.rstd(rstds))
            for step in steps:
                step(results, (*operands, plan.weight(weights)))

        return PlannedKernel(into)

    return factory


class Backward:
    """One backward call: its operands as rows, and the launches that it may be made of."""

    def __init__(
        self,
        call: StructuredCall,
        specs: tuple[Any, ...],
        grad_input: Any,
        count: int,
        n: int,
        lead: int,
        centred: bool,
    ) -> None:
        self.call, self.specs = call, specs
        grad, x, mean, rstd, weight = specs
        self.double = x.dtype is float64
        self.grad, self.x = as_rows(grad, lead), as_rows(x, lead)
        self.mean, self.rstd, self.weight = as_row(mean), as_row(rstd), as_row(weight)
        self.constants = {"CENTRED": centred, "ACCUMULATOR": compute_type(x.dtype)}
        self.dtype = accumulator_dtype(x.dtype)
        strides = [self.x.stride, self.grad.stride, *([] if grad_input is None else [n])]
        self.rows = rows_of(count, n, [x, grad], strides)

    @property
    def is_fused(self) -> bool:
        """True if rows fit a block, so that one pass over gradient and input computes all three gradients."""
        if interpreted():
            return self.rows.body <= row_norm.INTERPRETED_ROW
        return self.rows.body <= self.longest or self.cluster is not None

    @property
    def longest(self) -> int:
        """Return the longest row for which a program has space."""
        return 8192 >> (self.double + self.is_crowded)

    @property
    def is_crowded(self) -> bool:
        """True if a lane also holds addresses and masks of elements, or those of edges."""
        return self.rows.cut.edges or not self.rows.in_vectors

    def _prepare(
        self, kernel: Any, outputs: dict[str, Any], tile: RowTile, chunk: int, constants: dict[str, object]
    ) -> tuple[Launch, tuple[int, ...]]:
        pointers = dict(zip(("grad", "x", "mean", "rstd", "weight"), self.specs, strict=True))
        pointers = {name: spec for name, spec in pointers.items() if name in kernel.arg_names} | outputs
        rows, n = self.rows.rows, self.rows.n
        reach = max(n, abs(self.grad.stride), abs(self.x.stride), 1)
        return prepare(
            self.call,
            kernel,
            pointers,
            {"rows": rows, "n": n, "g_row": self.grad.stride, "x_row": self.x.stride, "chunk": chunk},
            {
                **self.constants,
                **self.rows.constants(),
                **constants,
                "BLOCK_O": tile.rows,
                "BLOCK_R": tile.elements,
            },
            tile.warps,
            (self.rows.parts(chunk) * chunk + rows + self.rows.period * tile.rows) * reach + tile.elements,
            ctas=tile.ctas,
        )

    def _chosen(self, kernel: LazyKernel, default: Configuration) -> RowTile:
        dtype = str(self.specs[1].dtype.triton_name)
        return chosen_tile(self.call, kernel, dtype, self.rows, default, self.cluster)

    @property
    def cluster(self) -> Configuration | None:
        """Return the cluster that holds a row which no block does, or None."""
        body = self.rows.body
        if interpreted() or body <= self.longest or not self.rows.in_vectors or self.double:
            return None
        return cluster_tile(self.call.device, body, CLUSTER_LANE, max_warps=16)

    def of_rows(self, grad_input: TensorSpec | None, outs: tuple[Any, Any]) -> Callable[..., None]:
        """Whole rows, or rows in blocks if no sums are wanted."""
        rows, double = self.rows, self.double
        meant = row_tile(rows, double, self.longest, 2048 if double else 4096)
        if not rows.in_vectors and not double and meant.elements <= 2048 and not interpreted():
            meant = Configuration(meant.tile, 8)
        if double and rows.body <= meant.tile[1]:
            meant = Configuration(
                (max(1, min(meant.tile[0], 1024 // meant.tile[1])), meant.tile[1]), meant.warps
            )
        needs_params = any(out is not None for out in outs)
        if needs_params and self.cluster is not None:
            # Only whole rows have sums for weight and bias.
            meant = self.cluster
        tile = self._chosen(normalise_rows_backward, meant)
        chunk = tile.rows
        if needs_params:
            programs = cdiv(resident_programs(self.call, max(16 // tile.warps, 1)), tile.ctas)
            chunk = cdiv(cdiv(max(rows.rows, 1), programs), tile.rows) * tile.rows
        parts = rows.parts(chunk)
        sums = WeightSums(self.call, outs, parts, rows.n, self.dtype)
        launch, numbers = self._prepare(
            normalise_rows_backward,
            {"grad_input": grad_input, "grad_weight": sums.specs[0], "grad_bias": sums.specs[1]},
            tile,
            chunk,
            {"WHOLE": tile.whole},
        )
        grid = (parts, 1, 1)

        def step(results: tuple[Any, ...], operands: tuple[Any, ...]) -> None:
            own = (results[1], results[2]) if needs_params else (None, None)
            targets = sums.targets(own)
            launch(grid, *[d.address for d in (*operands, results[0], *targets) if d is not None], *numbers)
            sums.finish(own, targets)

        return step

    def of_columns(self, outs: tuple[Any, Any]) -> Callable[..., None]:
        """Return the kernel of weight and bias gradients alone, for long rows."""
        rows = self.rows
        meant = Configuration((16 if self.double or self.is_crowded else 32, 64))
        if interpreted():
            meant = Configuration((next_power_of_2(min(rows.rows, 64)), 1024))
        else:
            dtype = str(self.specs[1].dtype.triton_name)
            tuned = configuration(weight_gradients, self.call.device, dtype, (rows.rows, rows.n), meant)
            meant = tuned if tuned.elements <= meant.elements else meant
        tile = RowTile(*meant.tile, meant.warps, False)
        columns = max(cdiv(rows.body, tile.elements), 1)
        programs = max(resident_programs(self.call, 4 if self.double else 8) // columns, 1)
        chunk = max(cdiv(cdiv(rows.rows, programs), tile.rows), 1) * tile.rows
        parts = rows.parts(chunk)
        sums = WeightSums(self.call, outs, parts, rows.n, self.dtype)
        launch, numbers = self._prepare(
            weight_gradients, {"grad_weight": sums.specs[0], "grad_bias": sums.specs[1]}, tile, chunk, {}
        )
        grid = (columns, parts, 1)

        def step(results: tuple[Any, ...], operands: tuple[Any, ...]) -> None:
            own = (results[1], results[2])
            targets = sums.targets(own)
            launch(grid, *[d.address for d in (*operands[:4], *targets) if d is not None], *numbers)
            sums.finish(own, targets)

        return step


FACTORIES = {
    "native_layer_norm_backward_stub": backward(True),
    "fused_rms_norm_backward_stub": backward(False),
}

for _stub, _factory in FACTORIES.items():
    register_stub(_stub, "cuda", _factory)
