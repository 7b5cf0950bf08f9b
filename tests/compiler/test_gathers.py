"""Gathers of rows in fused kernels: embeddings, `index_select` and index tensors, with their consumers."""

import importlib.util
from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.compiler import gathers
from triten.compiler.schedule import OperatorCall
from triten.tests.compiler.beside_eager import agree, drawn, same

F = tt.nn.functional


@pytest.fixture(autouse=True)
def few_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use blocks on the CPU for few elements, as for many."""
    monkeypatch.setattr(gathers, "FEWEST_ON_HOST", 0)


def numbers(*shape: int, device: str, high: int = 10, dtype: Any = tt.int64, seed: int = 0) -> tt.Tensor:
    """Return random row indices."""
    generator = tt.Generator().manual_seed(seed)
    return tt.randint(high, shape, generator=generator, dtype=dtype).to(device)


def kernels(function: Callable[..., Any], *given: Any) -> list[str]:
    """Return the kernels of a function's first graph and the operators that it calls, without views."""
    schedule = tt.compiler.explain(function, *given).schedules[0]
    schedule.check()
    return [
        step.node.target._opname if isinstance(step, OperatorCall) else step.name
        for step in schedule.steps
        if not isinstance(step, OperatorCall) or hasattr(step.node.target, "_opname")
    ]


def launches(run: Callable[[], Any]) -> int:
    from triten.runtime.cuda.driver import driver

    before = driver().launches
    run()
    return driver().launches - before


CASES: dict[str, tuple[Callable[..., Any], tuple[int, ...], tuple[int, ...]]] = {
    "an embedding": (lambda w, i: F.embedding(i, w) * 2 + 1, (10, 8), (3, 4)),
    "index_select": (lambda w, i: w.index_select(0, i).relu() + 1, (10, 8), (6,)),
    "an index tensor": (lambda w, i: w[i].exp() * 3, (10, 8), (2, 3)),
    "negative numbers": (lambda w, i: w[i - 10].exp() * 3, (10, 8), (2, 3)),
    "rows of two dimensions": (lambda w, i: F.gelu(w[i]) * w[0], (10, 2, 8), (5,)),
    "a reduction": (lambda w, i: (F.embedding(i, w) * 0.5).softmax(-1), (10, 8), (3, 4)),
    "two of one table": (lambda w, i: F.embedding(i, w) - F.embedding(i + 0, w).relu(), (10, 8), (3, 4)),
    "rows of what is computed": (lambda w, i: F.embedding(i, w.exp()) + w.exp(), (6, 8), (6,)),
    "numbers with gaps": (lambda w, i: F.embedding(i.t(), w).tanh() + 1, (10, 8), (3, 4)),
    "one table read again": (lambda w, i: F.embedding(i, w) + w * 2, (10, 8), (10,)),
    "numbers read again": (lambda w, i: F.embedding(i, w) * i[:, :, None], (10, 8), (3, 4)),
}
"""Functions of a table and numbers, and the sizes of both."""


@pytest.mark.parametrize("name", CASES)
def test_results_are_eager(name: str, device: str) -> None:
    function, table, index = CASES[name]
    high = min(table[0], 6)
    agree(function, lambda: (drawn(*table, device=device), numbers(*index, device=device, high=high)))


PICKS: dict[str, tuple[Callable[..., Any], tuple[int, ...], list[str]]] = {
    "along the last dimension": (lambda x, i: x.gather(1, i) * 2 + 1, (4, 5), ["gather_mul_add"]),
    "along the first": (lambda x, i: x.gather(0, i).exp() * i, (3, 5), ["gather_exp_mul"]),
    "of a view": (lambda x, i: x.t().gather(0, i).exp(), (3, 4), ["t", "gather_exp"]),
    "of what is computed": (lambda x, i: (x * 2).gather(1, i) + x, (4, 8), ["mul", "gather_add"]),
    "by numbers that are computed": (
        lambda x, i: x.gather(1, i % 3) + x,
        (4, 8),
        ["remainder", "gather_add"],
    ),
    "two": (lambda x, i: x.gather(1, i) - x.gather(1, i.flip(0)), (4, 8), ["flip", "gather_gather_sub"]),
    "columns": (lambda x, i: x.index_select(-1, i) * x[:, :1], (5,), ["slice", "index_select_mul"]),
    "a part of a cat": (lambda x, i: tt.cat([x.gather(1, i), x * 2]) + 1, (4, 8), ["gather", "mul_cat_add"]),
    "in rows": (lambda x, i: (x.gather(1, i) * 2).softmax(-1), (4, 8), ["gather", "mul_softmax"]),
}
"""Functions of a tensor (4, 8) and numbers, the sizes of these, and the steps on CUDA."""


@pytest.mark.parametrize("name", PICKS)
def test_picked_elements_are_eager(name: str, device: str) -> None:
    function, sizes, wanted = PICKS[name]
    make = lambda: (drawn(4, 8, device=device), numbers(*sizes, device=device, high=3))  # noqa: E731
    agree(function, make)
    if device == "cuda" and name != "in rows":
        assert kernels(function, *make()) == wanted


@pytest.mark.parametrize("dtype", [tt.float16, tt.bfloat16, tt.float64, tt.int32, tt.bool])
def test_dtypes(dtype: Any, device: str) -> None:
    function = lambda w, i: (w[i] == 0, F.embedding(i, w) * 2)  # noqa: E731
    for index in (tt.int32, tt.int64):
        make = lambda: (drawn(10, 8, device=device).round().to(dtype), numbers(7, device=device, dtype=index))  # noqa: B023, E731
        agree(function, make, calls=1)


def test_masks_are_no_numbers(device: str) -> None:
    mask = tt.arange(10, device=device) % 2 == 0
    x = drawn(10, 8, device=device)
    same(tt.compile(lambda x, m: x[m] * 2)(x, mask), x[mask] * 2)


def test_tokens_positions_and_a_norm_are_one_kernel(device: str) -> None:
    def f(tokens: tt.Tensor, words: tt.Tensor, places: tt.Tensor, weight: tt.Tensor) -> tt.Tensor:
        x = F.embedding(tokens, words) + F.embedding(tt.arange(tokens.shape[1], device=device), places)
        return F.layer_norm(x, (16,), weight)

    def make() -> tuple[tt.Tensor, ...]:
        words, places, weight = (
            drawn(10, 16, device=device),
            drawn(7, 16, device=device),
            drawn(16, device=device),
        )
        return numbers(3, 7, device=device), words, places, weight

    wanted = ["embedding", "embedding_add_native_layer_norm"]
    assert kernels(f, *make()) == (
        ["embedding_embedding_add_native_layer_norm"] if device == "cuda" else wanted
    )
    compiled = agree(f, make)
    if device == "cuda":
        given = make()
        assert launches(lambda: compiled(*given)) == 1 < launches(lambda: f(*given))


def test_rows_that_pointwise_steps_broadcast() -> None:
    if importlib.util.find_spec("triton") is None:
        pytest.skip("triton has no wheel for this platform")
    f = lambda x, w, i: (x * 2 + F.embedding(i, w)).relu()  # noqa: E731
    make = lambda: (drawn(3, 4, 8, device="cuda"), drawn(10, 8, device="cuda"), numbers(4, device="cuda"))  # noqa: E731
    assert kernels(f, *make()) == ["mul_embedding_add_relu"]
    agree(f, make)
    across = lambda x, w, i: x + F.embedding(i, w)[:, None]  # noqa: E731
    agree(across, lambda: (drawn(4, 3, 8, device="cuda"), *make()[1:]))


@pytest.mark.parametrize("width", [48, 5000])
def test_rows_longer_than_a_block(width: int, device: str) -> None:
    if device == "cuda" and width > 4096:
        width = 3000
    f = lambda w, i: (F.embedding(i, w) * 2).amax(-1, keepdim=True) + F.embedding(i, w)  # noqa: E731
    agree(f, lambda: (drawn(10, width, device=device), numbers(5, device=device)), calls=1)


def test_few_elements_are_taken_at_once_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    f = lambda w, i: F.embedding(i, w) * 2 - 1  # noqa: E731
    assert kernels(f, drawn(9, 8), numbers(7, device="cpu", high=9)) == ["embedding", "mul_sub"]


def test_blocks_of_rows(threads: int) -> None:
    f = lambda w, i: (F.embedding(i, w) * 2 - 1).softmax(-1)  # noqa: E731
    make = lambda: (drawn(50, 96), numbers(40, 200, device="cpu", high=50))  # noqa: E731
    assert kernels(f, *make()) == ["embedding_mul_sub_softmax"]
    agree(f, make)


WRONG: dict[str, Callable[..., Any]] = {
    "embedding": lambda w, i: F.embedding(i, w) * 2,
    "index_select": lambda w, i: w.index_select(0, i) * 2,
    "index": lambda w, i: w[i] * 2,
    "gather": lambda w, i: w.gather(0, i[:, None]) * 2,
    "columns": lambda w, i: w.t().contiguous().index_select(1, i) * 2,
}


@pytest.mark.parametrize("wrong", [-11, 10])
@pytest.mark.parametrize("name", WRONG)
@pytest.mark.usefixtures("launch_blocking")
def test_numbers_out_of_bounds_are_eager_errors(name: str, wrong: int, device: str) -> None:
    w, good = drawn(10, 8, device=device), numbers(6, device=device)
    bad = good.clone()
    bad[3] = wrong
    compiled = tt.compile(WRONG[name], fullgraph=True)
    same(compiled(w, good), WRONG[name](w, good))
    errors = []
    for function in (WRONG[name], compiled):
        with pytest.raises((IndexError, RuntimeError)) as caught:
            function(w, bad)
        errors.append((caught.type, str(caught.value)))
    assert errors[0] == errors[1]
    same(compiled(w, good), WRONG[name](w, good))


@pytest.mark.parametrize("name", WRONG)
def test_a_gpu_reports_numbers_out_of_bounds_later(name: str) -> None:
    if importlib.util.find_spec("triton") is None:
        pytest.skip("triton has no wheel for this platform")
    w, bad = drawn(10, 8, device="cuda"), tt.tensor([1, 30], device="cuda")
    errors, results = [], []
    for function in (WRONG[name], tt.compile(WRONG[name], fullgraph=True)):
        result = function(w, bad)
        with pytest.raises((IndexError, RuntimeError)) as caught:
            tt.cuda.synchronize()
        errors.append((caught.type, str(caught.value)))
        results.append(result)
    assert errors[0] == errors[1]
    same(results[1], results[0])


def test_gradients_of_a_table(device: str) -> None:
    def f(w: tt.Tensor, i: tt.Tensor) -> tt.Tensor:
        return (F.embedding(i, w) * 2).tanh()

    i = numbers(3, 4, device=device)
    found = []
    for function in (f, tt.compile(f, fullgraph=True)):
        w = drawn(10, 8, device=device, grad=True)
        function(w, i).sum().backward()
        found.append(w.grad)
    same(found[1], found[0])


def test_a_number_out_of_bounds_in_one_of_many_blocks(threads: int) -> None:
    w, i = drawn(50, 96), numbers(40, 200, device="cpu", high=50)
    i[39, 199] = 50
    compiled = tt.compile(lambda w, i: (F.embedding(i, w) * 2 - 1).softmax(-1), fullgraph=True)
    with pytest.raises(IndexError, match="index out of range in self"):
        compiled(w, i)
    i[39, 199] = 0
    same(compiled(w, i), (F.embedding(i, w) * 2 - 1).softmax(-1))
