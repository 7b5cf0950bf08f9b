"""layer_norm and rms_norm: one pass over rows that fit in registers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...dispatch.structured.choices import chosen
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.cuda.triton.lazy_kernel import LazyKernel
from ...runtime.scalar_type import float64
from ...runtime.tensor_spec import TensorSpec
from ..budget import Configuration
from ..conversion import compute_type
from ..elementwise.elementwise import check_dtypes
from ..launch import ALIGNMENT, cdiv, interpreted, launch_nothing, next_power_of_2
from ..tuning.choice import configuration
from .clusters import cluster_tile, has_clusters
from .operands import as_row, as_rows, is_alike, prepare, resident_programs
from .row_norm_kernels import normalise_rows
from .vectors import Cut, cut_rows

INTERPRETED_ROW = 1 << 14
"""The longest row that the interpreter takes whole."""
CLUSTER_LANE, LONGEST_CLUSTER_LANE = 16, 32
"""Elements of a row that a thread of a cluster holds, and those of the longest rows of 16-bit numbers."""
LONGEST_CUT = 8192
"""Elements of a row with edges: a lane has eight, and as many of weight and bias that its program keeps."""


class RowTile(NamedTuple):
    """Rows and elements of a program, the warps of a block, whether it holds whole rows, and its blocks."""

    rows: int
    elements: int
    warps: int
    whole: bool
    ctas: int = 1


class Rows(NamedTuple):
    """The rows of a call: how many, their length, how they are cut, and how many apart they begin alike."""

    rows: int
    n: int
    cut: Cut
    period: int

    @property
    def body(self) -> int:
        """Return the number of elements that a tile must hold to contain a whole row."""
        return self.cut.body(self.n)

    @property
    def in_vectors(self) -> bool:
        """True if neighboring elements are loaded together."""
        return self.cut.vector > 0 or self.n % ALIGNMENT == 0

    def constants(self) -> dict[str, object]:
        """Return the kernels' constexprs."""
        return {**self.cut.constants(), "PERIOD": self.period}

    def parts(self, chunk: int) -> int:
        """Return the number of programs with `chunk` rows each."""
        return max(self.period * cdiv(cdiv(self.rows, self.period), chunk), 1)


def rows_of(rows: int, n: int, specs: Sequence[TensorSpec], strides: Sequence[int]) -> Rows:
    """Return the rows of these tensors, with the given row strides."""
    cut = cut_rows(n, [spec.itemsize for spec in specs], [[stride] for stride in strides])
    return Rows(rows, n, cut, cut.vector // math.gcd(cut.vector, strides[0]) if cut.edges else 1)


def row_tile(rows: Rows, double: bool, longest: int, blocked: int) -> Configuration:
    """Return a block of 16 elements of a row for each lane, with several rows if they are short.

    Args:
        double: If True, compute in float64, of which a lane has eight numbers.
        longest: rows up to this are whole; longer ones are read in blocks of `blocked`.
    """
    body = rows.body
    if interpreted():
        longest = blocked = INTERPRETED_ROW
        reduced = min(next_power_of_2(body), longest)
        outputs = 1 if rows.cut.edges else min(next_power_of_2(rows.rows), max(1, longest // reduced))
        return Configuration((outputs, reduced))
    if body > longest:
        return Configuration((1, blocked), 8)
    reduced = next_power_of_2(body)
    if rows.cut.edges:
        return Configuration((1, reduced), min(max(reduced // 256, 4), 32))
    least = 1024 if double else 2048
    outputs = min(next_power_of_2(rows.rows), max(1, least // reduced))
    lane = 8 if double else 16
    return Configuration((outputs, reduced), min(max(outputs * reduced // (32 * lane), 4), 32))


def chosen_tile(
    call: StructuredCall,
    kernel: LazyKernel,
    dtype: str,
    rows: Rows,
    one_block: Configuration,
    cluster: Configuration | None = None,
) -> RowTile:
    """Return the tile of a launch; with edges it has one row, and no more elements per lane than declared.

    Args:
        one_block: The default without clusters.
        cluster: The default for rows that a cluster holds, if there is one.
    """
    default = tuned = cluster or one_block
    if not interpreted():
        tuned = configuration(kernel, call.device, dtype, (rows.rows, rows.n), default)
        lanes, default_lanes = tuned.warps * tuned.ctas, default.warps * default.ctas
        crowded = tuned.elements * default_lanes > default.elements * lanes
        fits = is_alike(tuned, default, rows.body) or is_alike(tuned, one_block, rows.body)
        narrow = rows.cut.edges and tuned.warps > default.warps
        astray = tuned.ctas > 1 and (narrow or not rows.in_vectors or not has_clusters(call.device))
        if (rows.cut.edges and (crowded or tuned.tile[0] > 1)) or not fits or astray:
            tuned = default
    if tuned.ctas > 1:
        chosen("a cluster of blocks", "{} blocks hold a row in their registers", tuned.ctas)
    return RowTile(*tuned.tile, tuned.warps, rows.body <= tuned.tile[1], tuned.ctas)


def forward(centred: bool) -> Callable[[StructuredCall], PlannedKernel]:
    """Compute layer_norm, or rms_norm, which subtracts no mean and has no bias."""

    def factory(call: StructuredCall) -> PlannedKernel:
        args = call.args
        x, weight, bias = args["input"], args["weight"], args.get("bias")
        out, rstd = call.outputs[0], call.outputs[-1]
        check_dtypes(call, [x, *(spec for spec in (weight, bias) if spec is not None)])
        lead = call.extra["lead"]
        count, n = math.prod(x.sizes[:lead]), math.prod(x.sizes[lead:])
        default = 2.0 ** (-52 if x.dtype is float64 else -23)
        if count == 0:
            return PlannedKernel(launch_nothing)
        operand = as_rows(x, lead)
        weight_data, bias_data = as_row(weight), as_row(bias)
        double = x.dtype is float64
        rows = rows_of(count, n, [x, out], [operand.stride, n])
        # Without wide accesses each element has an address of its own, for which long rows have no room.
        longest = 4096 if double else 32768 if x.itemsize == 2 and rows.in_vectors else 16384
        longest = LONGEST_CUT if rows.cut.edges else longest
        meant = row_tile(rows, double, longest, 2048 if double or rows.cut.edges else 4096)
        if not rows.in_vectors and not double and not interpreted():
            meant = Configuration(meant.tile, {4: 8, 16: 32}.get(meant.warps, meant.warps))
        cluster = None
        if rows.body > meant.tile[1] and rows.in_vectors and not double:
            # With edges weight and bias stay in registers, of which 32 warps have too few.
            cluster = cluster_tile(call.device, rows.body, CLUSTER_LANE, 16 if rows.cut.edges else 32)
            if cluster is None and x.itemsize == 2 and not rows.cut.edges:
                cluster = cluster_tile(call.device, rows.body, LONGEST_CLUSTER_LANE)
        tile = chosen_tile(call, normalise_rows, str(x.dtype.triton_name), rows, meant, cluster)
        if tile.whole:
            chosen("whole rows", "{} elements of a row fit a block of {}", rows.body, tile.elements)
        else:
            chosen(
                "rows in several blocks",
                "{} elements of a row do not fit a block of {}",
                rows.body,
                tile.elements,
            )
        chunk = tile.rows
        if rows.cut.edges and tile.whole:
            # Weights are loaded an element at a time, and once for all rows of a program.
            programs = cdiv(resident_programs(call, max(32 // tile.warps, 1)), tile.ctas)
            chunk = max(cdiv(count, 4 * programs), 1)
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
            {"rows": count, "n": n, "x_row": operand.stride, "chunk": chunk},
            {
                "CENTRED": centred,
                "WHOLE": tile.whole,
                **rows.constants(),
                "ACCUMULATOR": compute_type(x.dtype),
                "BLOCK_O": tile.rows,
                "BLOCK_R": tile.elements,
            },
            tile.warps,
            (count + rows.period * (chunk + tile.rows)) * max(n, abs(operand.stride), 1) + tile.elements,
            {"eps": "fp64"},
            tile.ctas,
        )
        grid = (rows.parts(chunk), 1, 1)

        def into(
            out_data: Any, means: Any, rstds: Any, data: Any, weights: Any, biases: Any, eps: Any
        ) -> None:
            operands = (operand.data(data), weight_data(weights), bias_data(biases), out_data, means, rstds)
            addresses = [each.address for each in operands if each is not None]
            launch(grid, *addresses, *numbers, default if eps is None else float(eps))

        if centred:
            return PlannedKernel(into)
        return PlannedKernel(
            lambda out_data, rstds, data, weights, eps: into(out_data, None, rstds, data, weights, None, eps)
        )

    return factory


FACTORIES = {"native_layer_norm_stub": forward(True), "fused_rms_norm_stub": forward(False)}

for _stub, _factory in FACTORIES.items():
    register_stub(_stub, "cuda", _factory)
