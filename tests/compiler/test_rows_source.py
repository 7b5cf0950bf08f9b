"""Row kernels for CUDA: one launch, their source, blocks of registers, and rows in several passes."""

import sys
from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.compiler.pipeline import run_passes
from triten.compiler.schedule import RowsKernel, fused_schedule
from triten.tests.compiler.beside_eager import drawn
from triten.tests.compiler.test_rows import CHAINS, nearly, operands_of, residual_norm, softmax, statistics

if sys.platform != "linux":  # where a wheel exists, a missing Triton is a failure
    pytest.importorskip("triton", reason="triton has no wheel for this platform")

from triten.compiler.triton import rows
from triten.compiler.triton.rows import Tile, write_rows_kernel
from triten.runtime.cuda.driver import driver

F = tt.nn.functional


def launches(run: Callable[[], Any]) -> int:
    before = driver().launches
    run()
    return driver().launches - before


def kernel_of(function: Callable[..., Any], *args: tt.Tensor) -> RowsKernel:
    graph = run_passes(tt.func.make_graph(function, "fake")(*args).graph)
    (kernel,) = fused_schedule(graph).kernels
    assert isinstance(kernel, RowsKernel)
    return kernel


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_is_one_launch(name: str) -> None:
    function, _ = CHAINS[name]
    args = operands_of(name, (6, 20), "cuda")
    compiled = tt.compile(function, fullgraph=True)
    compiled(*args)
    assert launches(lambda: compiled(*args)) == 1 < launches(lambda: function(*args))


def test_the_source_names_operators_and_loads_once() -> None:
    args = operands_of("layer_norm of a residual", (6, 20), "cuda")
    text = write_rows_kernel(kernel_of(residual_norm, *args)).text
    assert text.startswith(
        '"""mul.Tensor, mul.Tensor, add.Tensor, native_layer_norm: rows [20] of [6, 20].\n'
    )
    for line in (
        "# %mul : float32[6, 20] cuda:0 = aten.mul.Tensor(%x, %mask)",
        "def mul_mul_add_native_layer_norm(a0, a1, a2, a3, a4, b0, n_rows, ",
        "is_inside = r < 20",
        "x3 = tl.load(a3 + r, mask=is_inside)  # %w",
    ):
        assert line in text
    assert text.count("tl.load(") == 5 and text.count("tl.store(") == 1, (
        "statistics that nobody reads are not stored"
    )
    assert "for " not in text.split("def ")[1], "a row is read once"


def test_whole_rows_have_no_mask() -> None:
    text = write_rows_kernel(kernel_of(softmax, drawn(8, 16, device="cuda"))).text
    assert "mask" not in text


def test_batches_are_told_apart_where_operands_need_it() -> None:
    def f(x: tt.Tensor, bias: tt.Tensor) -> tt.Tensor:
        return (x + bias).softmax(-1)

    plain = write_rows_kernel(kernel_of(f, drawn(2, 3, 4, 8, device="cuda"), drawn(8, device="cuda"))).text
    assert "o0" not in plain
    text = write_rows_kernel(
        kernel_of(f, drawn(2, 3, 4, 8, device="cuda"), drawn(2, 1, 4, 8, device="cuda"))
    ).text
    assert "o0 = o % 4" in text and "tl.load(a0 + o * 8 + r, mask=is_row)  # %x" in text
    assert "tl.load(a1 + o0 * 8 + o2 * 32 + r, mask=is_row)  # %bias" in text


@pytest.fixture(params=[(1, 16), (4, 16), (2, 8)])
def passes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loop over rows block by block."""
    size, elements = request.param
    monkeypatch.setattr(rows, "tile_of", lambda *_: (Tile(size, elements, 4), False))


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.usefixtures("passes")
def test_rows_in_several_passes(name: str) -> None:
    function, _ = CHAINS[name]
    args = operands_of(name, (5, 40), "cuda")
    exact = function(*[x.double() if x.is_floating_point() else x for x in args])
    nearly(tt.compile(function, fullgraph=True)(*args), function(*args), exact)


@pytest.mark.usefixtures("passes")
def test_many_statistics_in_several_passes() -> None:
    x = drawn(6, 40, device="cuda")
    nearly(tt.compile(statistics, fullgraph=True)(x), statistics(x), statistics(x.double()))


@pytest.mark.usefixtures("passes")
def test_a_pass_for_each_reduction_that_needs_another() -> None:
    text = write_rows_kernel(kernel_of(softmax, drawn(5, 40, device="cuda"))).text
    assert text.count("for base in range(0, 40, BLOCK_R):") == 3
    assert text.count("tl.load(") == 3 and text.count("tl.store(") == 1


TILES: dict[str, tuple[Callable[..., Any], tuple[int, int], Any, tuple[Tile, bool]]] = {
    "short rows": (lambda x: (x * 2).softmax(-1), (1000, 64), tt.float32, (Tile(32, 64, 4), True)),
    "few rows": (lambda x: (x * 2).softmax(-1), (3, 64), tt.float32, (Tile(4, 64, 4), True)),
    "a row": (lambda x: (x * 2).softmax(-1), (1000, 2000), tt.float32, (Tile(1, 2048, 4), True)),
    "a long row": (lambda x: (x * 2).softmax(-1), (1000, 16384), tt.float32, (Tile(1, 16384, 32), True)),
    "a longer row": (lambda x: (x * 2).softmax(-1), (1000, 20000), tt.float32, (Tile(1, 2048, 8), False)),
    "a row of doubles": (lambda x: (x * 2).softmax(-1), (1000, 8192), tt.float64, (Tile(1, 8192, 16), True)),
}


@pytest.mark.parametrize("name", TILES)
def test_blocks_are_what_registers_hold(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, sizes, dtype, wanted = TILES[name]
    monkeypatch.setattr(rows, "interpreted", lambda: False)
    written = write_rows_kernel(kernel_of(function, tt.empty(*sizes, dtype=dtype, device="cuda")))
    assert (written.tile, written.is_whole) == wanted


def test_many_values_at_once_take_more_warps(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: tt.Tensor) -> tt.Tensor:
        values = [x * i for i in range(2, 14)]
        total = x.sum(-1, keepdim=True)
        return sum(value / total for value in values)

    monkeypatch.setattr(rows, "interpreted", lambda: False)
    few = write_rows_kernel(
        kernel_of(lambda x: x * 2 / x.sum(-1, keepdim=True), drawn(4, 4096, device="cuda"))
    )
    many = write_rows_kernel(kernel_of(f, drawn(4, 4096, device="cuda")))
    assert few.tile.warps < many.tile.warps and few.tile.elements == many.tile.elements


def test_long_rows_of_a_few_are_left_to_kernels_that_share_them() -> None:
    f = lambda x: (x * 2).softmax(-1)  # noqa: E731
    graph = run_passes(tt.func.make_graph(f, "fake")(tt.empty(2, 8192, device="cuda")).graph)
    assert not fused_schedule(graph).kernels


def test_explain_shows_the_source() -> None:
    x = drawn(6, 20, device="cuda")
    (name,) = tt.compiler.explain(softmax, x).sources
    assert name == "amax_sub_exp_sum_div"
