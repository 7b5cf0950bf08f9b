"""Graphs with dynamic shapes: new sizes need no capture, and size-dependent control flow follows eager."""

import random
import sys
from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.compiler.dynamic_shapes.probes import NAMES
from triten.compiler.dynamic_shapes.probes import points as tried_points
from triten.compiler.dynamic_shapes.size_expressions import SizeExpression, fitted
from triten.tests.compiler.beside_eager import drawn, graphs, same

nn = tt.nn
SIZES = (4, 6, 9, 13, 3, 20, 64, 7)


def reads_shape(x: tt.Tensor) -> tt.Tensor:
    rows, columns = x.shape
    return (x.view(rows * 2, columns // 2) * tt.arange(rows * 2, device=x.device).view(-1, 1)).sum() / rows


def halves(x: tt.Tensor) -> tt.Tensor:
    return x[: x.size(0) // 2] * 2 + x.shape[0] % 2


def attention(x: tt.Tensor) -> tt.Tensor:
    scores = x @ x.t() / x.shape[-1] ** 0.5
    mask = tt.ones(len(x.t()) and x.shape[0], x.shape[0], device=x.device).tril()
    return scores.masked_fill(mask == 0, -1e9).softmax(-1) @ x


def asserts(x: tt.Tensor) -> tt.Tensor:
    assert x.shape[0] < 10**6 and x.numel() == x.shape[0] * 6
    return x.reshape(*x.shape[:1], 2, -1).mean(1)


VARYING: dict[str, Callable[..., Any]] = {
    "pointwise": lambda x: tt.relu(x * 2 + 1),
    "sums": lambda x: (x.sum(0), x.mean(), x.softmax(0)),
    "flattened": lambda x: x.flatten() * 2,
    "reads shape": reads_shape,
    "halves": halves,
    "attention": attention,
    "asserts": asserts,
    "draws": lambda x: x + tt.rand(x.shape[0], 1, device=x.device),
}


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", VARYING)
def test_further_sizes_need_no_capture(name: str, grad: bool) -> None:
    function = VARYING[name]
    compiled = tt.compile(function, fullgraph=True)
    for size in SIZES:
        results, grads = [], []
        for run in (compiled, function):
            x = drawn(size, 6, grad=grad)
            tt.manual_seed(size)
            results.append(run(x))
            if grad:
                first = results[-1][0] if isinstance(results[-1], tuple) else results[-1]
                first.square().sum().backward()
                grads.append(x.grad)
        same(results[0], results[1], f"{name} at {size}")
        for g, e in [grads] if grad else []:
            assert g is not None and e is not None and tt.allclose(g, e, rtol=1e-4, atol=1e-5)
    assert graphs(compiled) == 1


def loops(x: tt.Tensor) -> tt.Tensor:
    for _ in range(x.shape[0] // 8):
        x = x + 1
    return x


def table(x: tt.Tensor) -> tt.Tensor:
    return x * [3, 5, 7, 11][x.shape[0] % 4]


def named(x: tt.Tensor) -> tt.Tensor:
    return x * {"13": 5}.get(f"{x.shape[0]}", 1)


DECIDING: dict[str, Callable[..., Any]] = {
    "large": lambda x: x * 2 if x.shape[0] > 8 else x * 3,
    "very large": lambda x: x * 2 if x.numel() > 20000 else x * 3,
    "one of them": lambda x: x * 2 if x.shape[0] == 13 else x * 3,
    "between": lambda x: x * 2 if 10 < x.shape[0] < 15 else x * 3,
    "odd": lambda x: x * 2 if x.size(0) % 2 else x * 3,
    "a sum": lambda x: x * 2 if sum(x.shape) == 19 else x * 3,
    "a list": lambda x: x * 2 if x.shape[0] in (7, 9, 20) else x * 3,
    "a shape": lambda x: x * 2 if x.shape == (13, 6) else x * 3,
    "the length": lambda x: x * len(x),
    "loops": loops,
    "table": table,
    "named": named,
    "the least": lambda x: x[: min(x.shape[0], 10)] * 2,
    "a float": lambda x: x * (x.shape[0] / 4),
    "a float that decides": lambda x: x * 2 if 3.2 < x.shape[0] / 4 < 3.3 else x * 3,
    "an integer that decides": lambda x: x * 2 if int(x.shape[0]) == 13 else x * 3,
    "a key": lambda x: x * {13: 2}.get(x.size(0), 3),
    "rounded": lambda x: x * (x.shape[0] // 8 + 1),
    "stride": lambda x: x * 2 if x.t().stride(0) == 1 and x.t().size(1) == 13 else x * 3,
    "type": lambda x: x * 2 if isinstance(x.shape[0], int) else x * 3,
    "rows": lambda x: [row * 2 for row in x],
}


@pytest.mark.parametrize("name", DECIDING)
def test_what_sizes_decide_is_as_in_eager_calls(name: str) -> None:
    function = DECIDING[name]
    compiled = tt.compile(function, recompile_limit=100)
    for size in (*SIZES, *([] if name in ("rows", "loops") else [5000])):
        same(compiled(drawn(size, 6)), function(drawn(size, 6)), f"{name} at {size}")


@pytest.mark.parametrize("special", [0, 1])
def test_sizes_of_0_and_1_are_captured_by_themselves(special: int) -> None:
    function = lambda x, y: (x + y, x * y.sum(0))  # noqa: E731
    compiled = tt.compile(function, fullgraph=True)
    for size in (4, 5, special, 6):
        same(compiled(drawn(size, 3), drawn(size, 3)), function(drawn(size, 3), drawn(size, 3)))
    assert graphs(compiled) == 2


def test_two_sizes_vary_and_a_third_need_not_agree() -> None:
    function = lambda x, y: (x.flatten(0, 1) @ y).relu().view(*x.shape[:2], -1)  # noqa: E731
    compiled = tt.compile(function, fullgraph=True)
    for a, b in ((2, 5), (3, 7), (4, 4), (9, 2), (6, 6), (2, 11)):
        same(compiled(drawn(a, b, 3), drawn(3, 4)), function(drawn(a, b, 3), drawn(3, 4)), f"{a}, {b}")
    assert graphs(compiled) == 1
    same(compiled(drawn(2, 3, 5), drawn(5, 4)), function(drawn(2, 3, 5), drawn(5, 4)))
    with pytest.raises(RuntimeError, match="shape"):
        compiled(drawn(2, 3, 6), drawn(5, 4))


def test_graphs_for_sizes_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triten.compiler.optimized.SIZES", 3)
    compiled: Any = tt.compile(lambda x: x * 2 + 1, fullgraph=True)
    for size in (2, 3, 4, 5, 6, 7, 3, 2, 7, 4):
        same(compiled(drawn(size)), drawn(size) * 2 + 1)
    assert graphs(compiled) == 1
    optimized = compiled._optimized
    assert len(optimized.compilations) == len(optimized.quick) == 4


def test_false_captures_each_size() -> None:
    compiled = tt.compile(lambda x: x * 2, dynamic=False)
    for size in (2, 3, 4):
        compiled(drawn(size))
    assert graphs(compiled) == 3


def test_guards_hold_for_all_sizes() -> None:
    held = {"scale": 2.0}
    function = lambda x: x * held["scale"]  # noqa: E731
    compiled = tt.compile(function, fullgraph=True)
    for size in (3, 4, 5, 6):
        same(compiled(drawn(size)), function(drawn(size)))
    held["scale"] = 3.0
    for size in (3, 5, 6, 7, 8):
        same(compiled(drawn(size)), function(drawn(size)))


def test_a_module_trains_on_batches_of_many_sizes(device: str) -> None:
    made = []
    for _ in range(2):
        tt.manual_seed(0)
        made.append(nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3)).to(device))
    compiled = tt.compile(made[1], fullgraph=True)
    for module in (made[0], compiled):
        optimizer = tt.optim.SGD(module.parameters(), 0.1)
        for size in (4, 5, 7, 10):
            optimizer.zero_grad()
            module(drawn(size, 6, device=device)).square().mean().backward()
            optimizer.step()
    for mine, theirs in zip(made[1].parameters(), made[0].parameters(), strict=True):
        assert tt.allclose(mine, theirs, rtol=1e-4, atol=1e-6)
    assert graphs(compiled) == 1


@pytest.mark.parametrize("count", [1, 2, 3])
def test_expressions_give_back_what_they_were_made_of(count: int) -> None:
    numbers = random.Random(0)
    names = NAMES[:count]
    for _ in range(10):
        seen = [{name: numbers.randrange(2, 99) for name in names} for _ in range(2)]
        points = tried_points(seen, 2, 4099)
        first, last = names[0], names[-1]
        for product in ((first,), (first, last), (last, last), tuple(names)):
            wanted = SizeExpression({product: numbers.randrange(1, 9), (): numbers.randrange(-9, 9)})
            found = fitted(names, points, [wanted.value(at) for at in points])
            assert found is not None
            assert found.value({"s0": 11, "s1": 13, "s2": 17}) == wanted.value({"s0": 11, "s1": 13, "s2": 17})
        assert fitted(names, points, [at[first] // 2 for at in points]) is None
        assert fitted(names, points, [min(at[first], 100) for at in points]) is None


def test_three_sizes_vary() -> None:
    function = lambda x, y: (x.flatten(0, 1) @ y).relu().view(*x.shape[:2], -1)  # noqa: E731
    compiled = tt.compile(function, fullgraph=True)
    for a, b, c in ((2, 5, 3), (3, 7, 4), (4, 4, 6), (9, 2, 11), (6, 6, 6), (2, 11, 5)):
        same(compiled(drawn(a, b, c), drawn(c, 4)), function(drawn(a, b, c), drawn(c, 4)), f"{a}, {b}, {c}")
    assert graphs(compiled) == 1


def test_what_is_computed_of_sizes_may_be_read_again_and_returned() -> None:
    def function(x: tt.Tensor) -> Any:
        half = x[: x.shape[0] // 2]
        return half * half.shape[0], half.shape[0] + 1

    compiled = tt.compile(function, fullgraph=True)
    for size in SIZES:
        same(compiled(drawn(size, 3)), function(drawn(size, 3)))
    assert graphs(compiled) == 1


def test_kernels_without_coordinates_are_compiled_once() -> None:
    if sys.platform != "linux":  # where a wheel exists, a missing Triton is a failure
        pytest.importorskip("triton", reason="triton has no wheel for this platform")
    sources = set()
    for rows in (4, 5, 8):
        found = tt.compiler.explain(lambda x: (x * 2 + 1).relu(), drawn(rows, 6, device="cuda"))
        sources.update(found.sources.values())
    assert len(sources) == 1
