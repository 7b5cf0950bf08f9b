"""`cat`, padding and slices in fused CPU kernels: a loop for each region, and kernels that are split."""

from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.compiler import concatenations as concatenations_of
from triten.compiler.host import loops, pointwise
from triten.compiler.passes import views_first as views_first_of
from triten.tests.compiled_code import needs_llvm
from triten.tests.compiler import test_concatenations as concatenations
from triten.tests.compiler import test_views_first as views_first
from triten.tests.compiler.beside_eager import agree, drawn, same
from triten.tests.compiler.test_concatenations import rotary, steps

F = tt.nn.functional


def halves(x: tt.Tensor, y: tt.Tensor) -> tt.Tensor:
    """Apply rotary embedding that concatenates its halves last."""
    a, b = x.chunk(2, -1)
    c, s = (each[..., : a.shape[-1]] for each in (y, y.flip(-1)))
    return tt.cat([a * c - b * s, b * c + a * s], -1)


HOST_CASES: dict[str, Callable[[tt.Tensor, tt.Tensor], Any]] = {
    **{name: function for name, (function, _) in concatenations.CASES.items()},
    **{name: (lambda x, y, f=function: f(x)) for name, (function, _) in concatenations.PADDINGS.items()},
    **{name: function for name, (function, _) in views_first.CASES.items() if name != "numbers"},
    "rotary embedding": lambda x, y: rotary(x, y[:1], y[1]),
    "rotary embedding of halves": halves,
    "two joins that begin elsewhere": lambda x, y: (
        tt.cat([x, y * x, x[:, :1]], 1) * 2 - tt.cat([y, x[:, :1], x], 1)
    ),
    "two dimensions of joins": lambda x, y: (
        tt.cat([x * 2, y])[: len(x)] + tt.cat([y, x * 3], 1)[:, : x.shape[1]]
    ),
    "a new dimension": lambda x, y: tt.cat([(x * 2)[:, None], y[:, None]], 1).sigmoid() + 1,
    "parts of other orders": lambda x, y: tt.cat([x * 2, y.t().contiguous().t()], 1) + 1,
    "what NumPy computes": lambda x, y: tt.cat([tt.fmod(x, y), y * 2], 1).exp() + 1,
    "dropout beside it": lambda x, y: F.dropout(tt.cat([x * 2, y]), 0.3) + tt.cat([y, x + 1]),
    "the gradient of a slice": lambda x, y: (
        tt.ops.aten.slice_backward((x * y)[:, 1:3], list(x.shape), 1, 1, 3, 1) + y
    ),
    "narrow parts": lambda x, y: tt.cat([x[:, :3] * 2, y[:, :1]], 1) + 1,
}
"""Functions of two matrices."""


@pytest.mark.parametrize("shape", [(4, 8), (33, 130)])
@pytest.mark.parametrize("name", HOST_CASES)
def test_results_are_eager(name: str, shape: tuple[int, int]) -> None:
    agree(HOST_CASES[name], lambda: (drawn(*shape), drawn(*shape, seed=1)), calls=1)


@pytest.mark.parametrize("shape", [(4, 8), (300, 130)])
@pytest.mark.parametrize("name", [name for name in HOST_CASES if name != "the whole, too"])
def test_kernels_that_are_cut(name: str, shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pointwise, "is_possible", lambda: False)
    agree(HOST_CASES[name], lambda: (drawn(*shape), drawn(*shape, seed=1)), calls=1)


@pytest.mark.parametrize("dtype", [tt.float16, tt.bfloat16, tt.float64, tt.int32])
def test_dtypes(dtype: Any) -> None:
    f = lambda x, y: F.pad(tt.cat([x * 2, y], 1), (1, 0), value=3) + 1  # noqa: E731
    agree(f, lambda: ((drawn(5, 40) * 3).to(dtype), (drawn(5, 30) * 3).to(dtype)), calls=1)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_parts_of_work(dim: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "SHARED_FROM", 256)
    monkeypatch.setattr(loops, "MIN_PART", 64)
    monkeypatch.setattr(loops, "PART", 64)
    sizes = [[9, 20, 33] for _ in range(3)]
    for i, own in enumerate(sizes):
        own[dim] = 1 + 5 * i
    f = lambda *parts: tt.cat([parts[0] * 2, parts[1], parts[2].neg()], dim).relu() + parts[0]  # noqa: E731
    agree(f, lambda: tuple([drawn(*own, seed=i) for i, own in enumerate(sizes)]), calls=1)


@needs_llvm
def test_rotary_embeddings_are_a_loop_for_each_half() -> None:
    make = lambda: concatenations.rotary_arguments("cpu")  # noqa: E731
    assert steps(rotary, *make()) == ["mul_neg_cat_mul_add"]
    said = "one compiled loop for each of 2 regions"
    assert tt.compiler.explain(rotary, *make()).execution == (f"mul_neg_cat_mul_add: {said}",)
    agree(rotary, make)


def test_gradients_are_eager() -> None:
    def gate(x: tt.Tensor, y: tt.Tensor) -> tt.Tensor:
        a, b = (x * y).chunk(2, -1)
        return F.silu(a) * b

    for function in (gate, lambda x, y: rotary(x, y[:1], y[1]), halves):
        weights = drawn(*function(drawn(6, 8), drawn(6, 8)).shape, seed=2)
        found = []
        for each in (function, tt.compile(function, fullgraph=True)):
            given = [drawn(6, 8, seed=i, grad=True) for i in range(2)]
            found.append(tt.autograd.grad(each(*given), given, weights))
        same(found[1], found[0])


GATES: dict[str, tuple[Callable[[tt.Tensor, tt.Tensor], Any], list[str]]] = {
    "a gate": (
        lambda x, y: F.silu((h := (x * y).chunk(2, -1))[0]) * h[1],
        ["mul_mul_silu_mul"],
    ),
    "a slice": (lambda x, y: (x * y)[:, 1:3] + 1, ["mul_add"]),
    "a slice of a function": (lambda x, y: x.exp()[:, 1:3] + 1, ["exp", "add"]),
    "a function of a slice": (lambda x, y: (x * 2)[:, 1:3].tanh() + 1, ["mul", "tanh_add"]),
    "another order": (lambda x, y: (x * 2).t().contiguous() + 1, ["mul", "clone_add"]),
    "complex numbers": (lambda x, y: (x.to(tt.complex64) * 2)[:, 1:3] + 1, ["to_copy_mul", "add"]),
}
"""Functions, and their steps on the CPU but for views."""


@needs_llvm
@pytest.mark.parametrize("name", GATES)
def test_slices_are_taken_before_arithmetic(name: str) -> None:
    function, wanted = GATES[name]
    make = lambda: (drawn(4, 8), drawn(4, 8, seed=1))  # noqa: E731
    assert steps(function, *make()) == wanted
    agree(function, make, calls=1)


def test_without_loops_steps_stay_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (concatenations_of, views_first_of):
        monkeypatch.setattr(module, "is_possible", lambda: False)
    assert steps(GATES["a slice"][0], drawn(4, 8), drawn(4, 8)) == ["mul", "add"]
    assert steps(rotary, *concatenations.rotary_arguments("cpu")) == ["neg", "cat", "mul_mul_add"]
