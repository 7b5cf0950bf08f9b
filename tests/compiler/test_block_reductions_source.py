"""Cooperative reduction kernels for CUDA: one launch, bitwise identical to eager, with the expected source."""

import sys
from typing import Any

import pytest

import triten as tt
from triten.tests.compiler.beside_eager import drawn, same
from triten.tests.compiler.test_block_reductions import (
    CHAINS,
    column_sums,
    gradients_of_a_norm,
    kernel_of,
    mean_squared_error,
)
from triten.tests.compiler.test_rows_source import launches

if sys.platform != "linux":  # where a wheel exists, a missing Triton is a failure
    pytest.importorskip("triton", reason="triton has no wheel for this platform")

from triten.compiler.triton import block_reductions
from triten.compiler.triton.block_reductions import write_reduction_kernel
from triten.triton_kernels.reduction.sides import Tile


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_is_one_launch(name: str) -> None:
    args = [drawn(9, 20, device="cuda", seed=i) for i in range(2)]
    compiled = tt.compile(CHAINS[name], fullgraph=True)
    compiled(*args)
    assert launches(lambda: compiled(*args)) == 1 < launches(lambda: CHAINS[name](*args))


@pytest.mark.parametrize("shape", [(300, 70), (64, 64), (5, 1000)])
@pytest.mark.parametrize("function", [mean_squared_error, column_sums, gradients_of_a_norm])
def test_the_tiles_and_the_order_are_eager_s(function: Any, shape: tuple[int, ...]) -> None:
    args = [drawn(*shape, device="cuda", seed=i) for i in range(2)]
    same(tt.compile(function, fullgraph=True)(*args), function(*args))


def test_parts_are_combined_by_the_last_program() -> None:
    args = [drawn(70_001, device="cuda", seed=i) for i in range(2)]
    kernel = kernel_of(mean_squared_error, *args)
    written = write_reduction_kernel(kernel)
    assert written.tile.splits > 1 and "if is_last(counters + tl.program_id(0)" in written.text
    compiled = tt.compile(mean_squared_error, fullgraph=True)
    same(compiled(*args), mean_squared_error(*args))
    assert launches(lambda: compiled(*args)) == 1
    same(compiled(*args), mean_squared_error(*args), "counters are zero again")


def test_the_source_names_operators_and_loads_once() -> None:
    args = [drawn(40, 20, device="cuda", seed=i) for i in range(2)]
    text = write_reduction_kernel(kernel_of(gradients_of_a_norm, *args)).text
    assert text.startswith('"""mul.Tensor, sum.dim_IntList, sum.dim_IntList: dimensions [0] of [40, 20].\n')
    for line in (
        "def mul_sum_sum_elements(a0, a1, o, r, ",
        "x0 = tl.load(a0 + o + r * 20, mask=of_both)  # %a",
        "# %mul : float32[40, 20] cuda:0 = aten.mul.Tensor(%a, %b)",
        "return z0, z1",
    ):
        assert line in text
    assert text.count("tl.load(") == 2 and text.count("tl.store(") == 2


def test_a_tile_is_smaller_where_lanes_would_hold_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(a: tt.Tensor, b: tt.Tensor) -> Any:
        y = a * b
        return tuple([(y * k).sum(0) for k in range(2, 12)])

    args = [drawn(300, 70, device="cuda", seed=i) for i in range(2)]
    monkeypatch.setattr(block_reductions, "interpreted", lambda: False)
    monkeypatch.setattr(block_reductions, "tile_for", lambda *_, **__: Tile(64, 64, 1, 320, 4))
    tile = write_reduction_kernel(kernel_of(f, *args)).tile
    assert tile.outputs * tile.reduced < 64 * 64 and tile.chunk % tile.reduced == 0
