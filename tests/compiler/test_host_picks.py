"""Gathers in CPU kernels: loads in loops, elements of rows, bounds, and operator calls without a loop."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.compiler.host import loops, row_loops
from triten.tests.compiler.beside_eager import agree, drawn, same
from triten.tests.compiler.test_loops import needs_llvm
from triten.tests.compiler.test_row_loops import needs_all_bits, runs_as

F = tt.nn.functional
DTYPES = [tt.float32, tt.float64, tt.bfloat16, tt.float16, tt.int64, tt.int8, tt.bool]
SHAPES = [(64, 128), (3, 7, 50), (5, 2), (2, 3000)]


def numbers(below: int, *sizes: int, least: int = 0, dtype: Any = tt.int64, seed: int = 0) -> tt.Tensor:
    found = np.random.default_rng([seed, *sizes]).integers(least, below, sizes)
    return tt.tensor(found.tolist(), dtype=dtype)


def values(*shape: int, dtype: Any = tt.float32) -> tt.Tensor:
    return drawn(*shape) > 0 if dtype is tt.bool else drawn(*shape, dtype=dtype)


def picks(
    shape: tuple[int, ...], dtype: Any, of: Any
) -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """Return functions that compile to one loop, and their arguments; `of` is the dtype of indices."""
    x, n, w = values(*shape, dtype=dtype), shape[-1], drawn(shape[-1], seed=9)
    line, all_ = numbers(n, n, dtype=of), numbers(n, *shape)
    return {
        "index_select": (lambda x, p, w: x.index_select(-1, p) * w, (x, line, w)),
        "index": (lambda x, p, w: x[..., p] * w + 1, (x, numbers(n, n, least=-n, dtype=of), w)),
        "transposed": (lambda x, p: x.transpose(0, -1).index_select(-1, p) * 2, (x, numbers(shape[0], 9, dtype=of))),
        "gather": (lambda x, g, w: x.gather(-1, g) * w, (x, all_, w)),
        "gather of rows": (lambda x, g: x.gather(0, g) + 1, (x, numbers(shape[0], *shape))),
        "gather of fewer": (lambda x, g: x.gather(-1, g) + 1, (x, numbers(n, *shape[:-1], 2))),
        "gather of what is flipped": (lambda x, g: x.flip(0).gather(-1, g) + 1, (x, all_)),
        "take_along_dim": (lambda x, g: tt.take_along_dim(x, g, -1) * 2, (x, all_)),
        "two": (lambda x, g, p: x.gather(-1, g) * x + x.index_select(-1, p), (x, all_, line)),
    }  # fmt: skip


@pytest.mark.parametrize("of", [tt.int32, tt.int64], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_picks_have_the_values_of_eager_calls(shape: tuple[int, ...], dtype: Any, of: Any) -> None:
    for name, (function, args) in picks(shape, dtype, of).items():
        if name.startswith(("gather", "take", "two")) and of is tt.int32:
            continue
        agree(function, lambda args=args: args, calls=1)


@needs_llvm
def test_picks_are_loads_of_one_loop() -> None:
    for name, (function, args) in picks((64, 128), tt.float32, tt.int64).items():
        how = runs_as(function, *args)
        assert "one compiled loop" in how, name
        assert not any("eager" in each for each in how), name
    x, p, w = drawn(64, 256), numbers(256, 256), drawn(256)
    assert runs_as(lambda x, p, w: x[:, p].tanh() * w, x, p, w) == (
        "one compiled loop over tiles, with NumPy's tanh",
    )


@pytest.mark.parametrize("bad", [50, -1, -51, 1 << 40])
@pytest.mark.parametrize(
    "function",
    [
        lambda x, p, g, k: x.index_select(-1, p) * 2,
        lambda x, p, g, k: x[..., p] * 2,
        lambda x, p, g, k: x.gather(-1, g) * 2,
        lambda x, p, g, k: (x * 2).log_softmax(-1).gather(-1, k) * 2,
    ],
)
def test_numbers_out_of_bounds_are_refused(function: Callable[..., Any], bad: int) -> None:
    x, p, g, k = drawn(300, 50), numbers(50, 50), numbers(50, 300, 50), numbers(50, 300, 1)
    compiled = tt.compile(function)
    same(compiled(x, p, g, k), function(x, p, g, k))
    for each in (p, g.view(-1), k.view(-1)):
        each[3] = bad
    try:
        expected = function(x, p, g, k)
    except (IndexError, RuntimeError) as error:
        with pytest.raises(type(error)) as found:
            compiled(x, p, g, k)
        assert str(found.value) == str(error)
    else:
        same(compiled(x, p, g, k), expected)


ROWS: dict[str, Callable[..., Any]] = {
    "cross entropy": lambda x, k: -(x.log_softmax(-1).gather(-1, k)).mean(),
    "beside all rows": lambda x, k: (x.log_softmax(-1).gather(-1, k) * 2, (x * 2).softmax(-1)),
    "of an input and of rows": lambda x, k: (x * 2).softmax(-1).gather(-1, k) + x.gather(-1, k),
    "beside logsumexp": lambda x, k: tt.logsumexp(x * 2, -1, keepdim=True) - (x * 2).gather(-1, k),
    "centred": lambda x, k: (x - x.mean(-1, keepdim=True)).gather(-1, k) * 3,
}


@needs_all_bits
@pytest.mark.parametrize("dtype", [tt.float32, tt.bfloat16, tt.float16, tt.float64], ids=str)
@pytest.mark.parametrize("shape", [(60, 200), (3, 30, 130), (700, 31), (4, 9)], ids=str)
@pytest.mark.parametrize("name", ROWS)
def test_an_element_of_each_row(name: str, shape: tuple[int, ...], dtype: Any) -> None:
    x, k = drawn(*shape, dtype=dtype), numbers(shape[-1], *shape[:-1], 1)
    agree(ROWS[name], lambda: (x, k), calls=1)


@needs_all_bits
def test_an_element_of_each_row_is_in_the_loop_over_rows() -> None:
    x, k = drawn(700, 300), numbers(300, 700, 1)
    for name, function in ROWS.items():
        assert any("over rows" in how for how in runs_as(function, x, k)), name
        assert not any("eager" in how for how in runs_as(function, x, k)), name


@needs_llvm
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_share_picks(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "SHARED_FROM", 0)
    monkeypatch.setattr(loops, "PART", 900)
    before, x, k, p = tt.get_num_threads(), drawn(400, 90), numbers(90, 400, 1), numbers(90, 90)

    def f(x: tt.Tensor, k: tt.Tensor, p: tt.Tensor) -> Any:
        return x[:, p] * 2, (x * 2).softmax(-1).gather(-1, k) + 1

    try:
        tt.set_num_threads(threads)
        same(tt.compile(f)(x, k, p), f(x, k, p))
    finally:
        tt.set_num_threads(before)


def test_picks_beside_joins_and_draws() -> None:
    x, g = drawn(60, 200), numbers(200, 60, 200)
    agree(lambda x, g: tt.cat([x.gather(-1, g) * 2, x], -1) + 1, lambda: (x, g), calls=1)
    agree(lambda x, g: F.dropout(x.gather(-1, g) * 2, 0.3) + 1, lambda: (x, g), calls=1)
    agree(lambda x, g: tt.remainder(x.gather(-1, g), 2.0) * 2, lambda: (x, g), calls=1)
    agree(lambda x, g: (x * 2).gather(-1, g) + (g % 7), lambda: (x, g), calls=1)


@needs_llvm
def test_picks_are_eager_where_a_kernel_over_rows_is_no_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    x, k = drawn(700, 300), numbers(300, 700, 1)
    for function in ROWS.values():
        agree(function, lambda: (x, k), calls=1)
    monkeypatch.setattr(row_loops, "target", lambda: None)

    def f(x: tt.Tensor, k: tt.Tensor) -> tt.Tensor:
        return (x * 3).softmax(-1).gather(-1, k) + 1

    agree(f, lambda: (x, k), calls=1)
    assert runs_as(f, x, k) == ("4 steps, of which 1 are eager",)


def test_gradients_of_picks() -> None:
    x, k, p = drawn(60, 200, grad=True), numbers(200, 60, 1), numbers(200, 60, 200)

    def f(x: tt.Tensor) -> tt.Tensor:
        return (x * 2).log_softmax(-1).gather(-1, k).sum() + (x.gather(-1, p) * 3).exp().mean()

    found, expected = (tt.autograd.grad(each(x), [x]) for each in (tt.compile(f), f))
    tt.testing.assert_close(found, expected)


@pytest.mark.parametrize("dtype", [tt.float32, tt.float64])
@pytest.mark.parametrize("pick", ["index", "gather", "index_select"])
def test_picks_beside_what_numpy_computes(pick: str, dtype: tt.dtype) -> None:
    """Split a kernel at an indexing step, because compiled loops do not have `lgamma`."""
    of: dict[str, Any] = {
        "index": lambda y, k: y[k],
        "gather": lambda y, k: y.gather(0, k.remainder(4)),
        "index_select": lambda y, k: y.index_select(0, k.remainder(4)),
    }

    def function(x: tt.Tensor, y: tt.Tensor) -> tt.Tensor:
        return tt.lgamma(x * 2) + (x * 2).sigmoid() + of[pick](y, tt.tensor([0, -1])) * 2

    x, y = tt.ones(2, dtype=dtype), tt.arange(4.0, dtype=dtype)
    same(tt.compile(function, fullgraph=True)(x, y), function(x, y))
    if pick == "index":
        with pytest.raises(IndexError, match=r"index -1 is out of bounds|index 0 is out of bounds|size 0"):
            tt.compile(function)(x, y[:0])
