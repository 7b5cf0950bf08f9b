"""Results computed from other results: gradients between them, hooks, and steps that use both."""

from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.tests.compiler.beside_eager import drawn, graphs, same

F = tt.nn.functional


def logits_and_loss(x: tt.Tensor, w: tt.Tensor) -> Any:
    logits = x @ w
    return logits, F.cross_entropy(logits, tt.arange(3))


def squares(x: tt.Tensor, w: tt.Tensor) -> Any:
    y = (x * 2).exp()
    return y, (y * y).sum() + (y @ w).sin().sum()


def with_a_way_around(x: tt.Tensor, w: tt.Tensor) -> Any:
    h = x @ w
    y = h.tanh()
    return y, (y * h).sum() + w.sum()


def chain(x: tt.Tensor, w: tt.Tensor) -> Any:
    states = [x]
    for _ in range(4):
        states.append((states[-1] @ w).tanh())
    return {"last": states[-1], "states": states[1:-1], "count": 4}


def dropped(x: tt.Tensor, w: tt.Tensor) -> Any:
    y = F.dropout(x @ w, 0.5)
    return y, F.dropout(y, 0.5).sum()


def in_another_order(x: tt.Tensor, w: tt.Tensor) -> Any:
    y = x.sigmoid()
    return (y @ w).exp().sum(), y, x.detach() * 2, y.argmax()


PROGRAMS: dict[str, Callable[..., Any]] = {
    each.__name__: each
    for each in (logits_and_loss, squares, with_a_way_around, chain, dropped, in_another_order)
}

Use = Callable[[list[Any], tt.Tensor, tt.Tensor], Any]


def leaves(result: Any) -> list[Any]:
    found = tt.utils._pytree.tree_leaves(result)
    return [each for each in found if isinstance(each, tt.Tensor) and each.requires_grad]


def hooked(results: list[Any], x: tt.Tensor, w: tt.Tensor) -> Any:
    for each in results:
        each.register_hook(lambda grad: grad * 3)
    return tt.autograd.grad(sum(each.sum() for each in results), [x, w])


def retained(results: list[Any], x: tt.Tensor, w: tt.Tensor) -> Any:
    for each in results:
        each.retain_grad()
    sum(each.square().sum() for each in results).backward()
    return [x.grad, w.grad, *(each.grad for each in results)]


def between(results: list[Any], x: tt.Tensor, w: tt.Tensor) -> Any:
    return [
        tt.autograd.grad(a.sum(), b, retain_graph=True, allow_unused=True)
        for a in results
        for b in results
        if a is not b
    ]


def twice(results: list[Any], x: tt.Tensor, w: tt.Tensor) -> Any:
    first = tt.autograd.grad(sum(each.sin().sum() for each in results), [x, *results], create_graph=True)
    return tt.autograd.grad(sum(each.square().sum() for each in first), [x, w])


USES: dict[str, Use] = {
    "each": lambda results, x, w: [
        tt.autograd.grad(each.sum(), [x, w], retain_graph=True, allow_unused=True) for each in results
    ],
    "together": lambda results, x, w: tt.autograd.grad(sum(each.sin().sum() for each in results), [x, w]),
    "between": between,
    "hooks": hooked,
    "retain_grad": retained,
    "twice": twice,
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients(name: str, use: str) -> None:
    compiled = tt.compile(PROGRAMS[name], fullgraph=True)
    for _ in range(2):
        found = []
        for function in (PROGRAMS[name], compiled):
            tt.manual_seed(0)
            x, w = drawn(3, 3, grad=True), drawn(3, 3, seed=1, grad=True)
            if name == "dropped" and use == "twice" and function is compiled:
                with pytest.raises(RuntimeError, match="differentiated twice"):
                    USES[use](leaves(function(x, w)), x, w)
                return
            result = function(x, w)
            found.append([result, USES[use](leaves(result), x, w)])
        same(found[1][0], found[0][0], f"{name} {use}: results")
        close(found[1][1], found[0][1], f"{name} {use}")
    assert graphs(compiled) == 1


def close(found: Any, expected: Any, note: str) -> None:
    """Compare gradients up to a few roundings, since accumulation may have another order."""
    mine, theirs = (tt.utils._pytree.tree_leaves(each) for each in (found, expected))
    assert [a is None for a in mine] == [b is None for b in theirs], note
    for a, b in zip(mine, theirs, strict=True):
        assert a is None or tt.allclose(a, b, 1e-5, 1e-6), f"{note}: {a} and {b}"


@pytest.mark.parametrize("name", ["logits_and_loss", "squares"])
def test_addends_of_one_way_come_in_eager_s_order(name: str) -> None:
    found = []
    for function in (PROGRAMS[name], tt.compile(PROGRAMS[name], fullgraph=True)):
        x, w = drawn(3, 3, grad=True), drawn(3, 3, seed=1)
        y, z = function(x, w)
        found.append(tt.autograd.grad(z + y.sum(), x))
    same(found[1], found[0])


def test_the_later_result_alone(device: str) -> None:
    found = []
    for function in (squares, tt.compile(squares, fullgraph=True)):
        x, w = drawn(3, 3, device=device, grad=True), drawn(3, 3, device=device, seed=1, grad=True)
        function(x, w)[1].backward()
        found.append([x.grad, w.grad])
    same(found[1], found[0])


def test_long_ways_around_run_eagerly() -> None:
    def f(x: tt.Tensor) -> Any:
        h = x
        for _ in range(8):
            h = h.sin()
        a = h.exp()
        b = h * a
        c = h * b
        return a, b, c, h * c

    x = drawn(3, grad=True)
    compiled = tt.compile(f)
    same(tt.autograd.grad(compiled(x)[3].sum(), x), tt.autograd.grad(f(x)[3].sum(), x))
    assert graphs(compiled) == 0
    with pytest.raises(tt.compiler.Unsupported, match="computed from each other"):
        tt.compile(f, fullgraph=True)(x)


def test_explain_shows_every_backward() -> None:
    found = tt.compiler.explain(squares, drawn(3, 3, grad=True), drawn(3, 3, grad=True))
    assert len(found.schedules) == 3 and str(found).count("Backward: ") == 2
    assert found.peak_bytes > 0
