"""Reductions that the last program finishes: bitwise identical to two launches, and counters are restored."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

import triten as tt
from triten.dispatch.structured.stub import StructuredCall
from triten.runtime.cuda.driver import driver
from triten.runtime.tensor_spec import TensorSpec
from triten.triton_kernels.geometry import Geometry
from triten.triton_kernels.launch import cdiv
from triten.triton_kernels.reduction.reduction import REDUCTIONS, UNSPLIT
from triten.triton_kernels.reduction.reduction_kernels import identity, reduce, result_of
from triten.triton_kernels.reduction.sides import Sides, Tile, gapless_strides, plan_sides, sides_of, tile_for
from triten.triton_kernels.reduction.stream_counters import ROOM, STREAMS, Counters


def in_two_launches(x: tt.Tensor, dims: tuple[int, ...]) -> tt.Tensor:
    """Compute a float32 sum by one launch for the parts and one for their reduction."""
    sizes = tuple(size for i, size in enumerate(x.shape) if i not in dims)
    out = tt.empty(sizes, device="cuda")
    call = StructuredCall("sum", {"self": x._spec}, ("self",), (out._spec,), None, x.device, {"dims": dims})
    sides = sides_of(x._spec, out._spec, dims, False)
    tile = tile_for(sides.num_rows, sides.n, sides.reduced_is_inner, True)
    assert tile.splits > 1
    row, fp32 = (
        REDUCTIONS["sum_stub"],
        TensorSpec.contiguous((tile.splits, sides.num_rows), tt.float32, x.device),
    )
    parts = tt.empty(fp32.sizes, device="cuda")
    type_ = row.accumulate(tt.float32, tt.float32)
    constants = {
        "COMBINE": row.combine,
        "ACROSS": row.across,
        "LOAD": identity,
        "FINISH": result_of,
        "START": 0,
        "ACCUMULATOR": type_,
        "VECTOR": 0,
        **UNSPLIT,
    }
    pointers = {"x": "*fp32", "out": "*fp32"}
    of_parts = gapless_strides(sides.kept.sizes, 1)
    kept = sides.kept
    first = Sides(Geometry(kept.sizes, (kept.strides[0], of_parts)), sides.reduced)
    launch, grid, numbers = plan_sides(call, reduce, first, pointers, constants, tile, sides.num_rows)
    launch(grid, x._data.address, parts._data.address, *numbers)
    second = Sides(
        Geometry(kept.sizes, (of_parts, kept.strides[1])), Geometry((tile.splits,), ((sides.num_rows,),))
    )
    reduced = tile.parts
    chunk = cdiv(tile.splits, reduced) * reduced
    again = Tile(tile.outputs, reduced, 1, chunk, tile.warps)
    launch, grid, numbers = plan_sides(call, reduce, second, pointers, constants, again)
    launch(grid, parts._data.address, out._data.address, *numbers)
    return out


@pytest.mark.parametrize(
    ("sizes", "dims"),
    [((1 << 16,), (0,)), ((20_000, 21), (0,)), ((3, 1 << 15), (1,)), ((300, 5, 64), (0, 2))],
    ids=str,
)
def test_the_bits_are_those_of_two_launches(
    random: Callable[..., tt.Tensor], sizes: tuple[int, ...], dims: tuple[int, ...]
) -> None:
    x = random(sizes).to("cuda")
    np.testing.assert_array_equal(x.sum(dims).cpu().numpy(), in_two_launches(x, dims).cpu().numpy())


def large() -> tuple[tt.Tensor, float]:
    """Return numbers whose sums are exact, and their sum."""
    x = np.arange(40_000) % 7
    return tt.from_numpy(x.astype(np.float32)).to("cuda"), float(x.sum())


def test_counters_are_zero_again_and_belong_to_a_stream() -> None:
    x, expected = large()
    tall = tt.ones(9000, 21, device="cuda")
    stream = tt.cuda.Stream()
    for _ in range(3):
        assert x.sum().item() == expected
        assert (tall.sum(0).cpu().numpy() == 9000).all()
        with tt.cuda.stream(stream):
            assert x.sum().item() == expected
            assert (tall.sum(0).cpu().numpy() == 9000).all()


def test_a_device_has_counters_of_its_own() -> None:
    x, expected = large()
    there = x.to("cuda:1")
    for _ in range(2):
        assert x.sum().item() == there.sum().item() == expected
        with tt.cuda.device(1):
            assert x.max().item() == there.max().item() == 6


def test_a_graph_has_counters_of_its_own() -> None:
    x, expected = large()
    x.sum(), x.max()
    graph = tt.cuda.CUDAGraph()
    with tt.cuda.graph(graph):
        total, top = x.sum(), x.max()
    for _ in range(2):
        total.zero_()
        top.zero_()
        graph.replay()
        assert (total.item(), top.item()) == (expected, 6)
    assert x.sum().item() == expected


def test_many_blocks_of_outputs_have_a_counter_each() -> None:
    counters = Counters(driver(), tt.device("cuda:0"))
    few = counters.current(3)
    assert counters.current(ROOM // 4).address == few.address
    many = counters.current(ROOM // 4 + 1)
    assert many.nbytes == 2 * ROOM and many.address != few.address
    assert counters.current(1).address == many.address
    # The test only distinguishes handles, and launches nothing.
    kept = [counters.current()]
    streams = [tt.cuda.Stream() for _ in range(STREAMS + 1)]
    for stream in streams:
        with tt.cuda.stream(stream):
            kept.append(counters.current())
    starts = sorted((each.address, each.nbytes) for each in kept)
    distinct = {s.cuda_stream for s in streams} | {tt.cuda.current_stream().cuda_stream}
    assert len(set(starts)) == len(distinct)
    ordered = sorted(set(starts))
    assert all(a + size <= b for (a, size), (b, _) in pairwise(ordered))
