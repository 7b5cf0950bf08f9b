"""Results share memory and writes reach tensors as in eager, arguments and buffers included."""

from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.tests.compiler.beside_eager import agree, drawn, graphs, same


@pytest.mark.parametrize("grad", [False, True])
def test_a_returned_argument_is_the_argument(grad: bool) -> None:
    compiled = tt.compile(lambda x, y: (y, x + y, x, y), fullgraph=True)
    for _ in range(2):
        x, y = drawn(3, seed=1, grad=grad), drawn(3, seed=2)
        found = compiled(x, y)
        assert found[0] is y and found[2] is x and found[3] is y


def test_a_returned_view_views_the_argument() -> None:
    compiled = tt.compile(lambda x: (x[1:], x.t(), x.t()[0] * 2), fullgraph=True)
    for _ in range(2):
        x = drawn(3, 4)
        rows, turned, _ = compiled(x)
        rows.zero_()
        assert (x[1:] == 0).all() and (turned[:, 1:] == 0).all() and x[0].all()
        assert rows._base is x


def test_results_have_memory_of_their_own() -> None:
    first, second = tt.compile(lambda x: (x * 2, x * 2), fullgraph=True)(drawn(3))
    first.zero_()
    assert second.all()


WRITES: dict[str, Any] = {
    "add_": lambda x, y: x.add_(y),
    "a row": lambda x, y: x[0].mul_(2) + y,
    "setitem": lambda x, y: x.__setitem__((slice(None), 1), y[:, 0]),
    "a transposed view": lambda x, y: x.t()[1:].copy_(y.t()[1:]),
    "read, write, read": lambda x, y: (x.sum(), x.exp_().add_(y).clone(), x.sum()),
    "both": lambda x, y: (x.add_(y), y.sub_(x)),
    "out": lambda x, y: tt.mul(x, y, out=x),
    "a new tensor": lambda x, y: tt.zeros_like(x).index_add_(0, y.argmax(0)[:3], x).fill_diagonal_(2),
    "draws": lambda x, y: x.normal_() + y.uniform_(),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_to_arguments(name: str, device: str) -> None:
    agree(WRITES[name], lambda: (drawn(3, 4, device=device, seed=1), drawn(3, 4, device=device, seed=2)))


def test_writes_are_counted_and_seen_by_autograd() -> None:
    compiled = tt.compile(lambda x: x.add_(1), fullgraph=True)
    w, x = drawn(3, grad=True), drawn(3)
    product = (w * x).sum()
    before = x._version
    assert compiled(x) is x and x._version > before
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


def test_buffers_that_a_module_holds(device: str) -> None:
    def made() -> tt.nn.Module:
        tt.manual_seed(0)
        return tt.nn.Sequential(tt.nn.Conv2d(2, 3, 1), tt.nn.BatchNorm2d(3), tt.nn.ReLU()).to(device)

    eager, compiled = made(), tt.compile(made(), fullgraph=True)
    for i in range(3):
        x = drawn(2, 2, 3, 3, device=device, seed=i)
        same(compiled(x), eager(x))
        same(dict(compiled._orig_mod.named_buffers()), dict(eager.named_buffers()))
    assert eager[1].num_batches_tracked.item() == 3


ALIASES: dict[str, Callable[[tt.Tensor], tuple[tt.Tensor, tt.Tensor]]] = {
    "the same tensor": lambda x: (x, x),
    "a view": lambda x: (x, x.view(4)),
    "parts that overlap": lambda x: (x[:3], x[1:]),
    "parts beside each other": lambda x: (x[:2], x[2:]),
}


@pytest.mark.parametrize("compiled_before", [False, True])
@pytest.mark.parametrize("name", ALIASES)
def test_arguments_that_share_memory(name: str, compiled_before: bool) -> None:
    def f(x: tt.Tensor, y: tt.Tensor) -> tt.Tensor:
        x.mul_(2)
        total = x + y
        y.add_(1)
        return total + x

    compiled = tt.compile(f)
    if compiled_before:
        size = ALIASES[name](drawn(4))[0].shape[0]
        same(compiled(drawn(size), drawn(size, seed=1)), f(drawn(size), drawn(size, seed=1)))
        assert graphs(compiled) == 1
    for _ in range(2):
        given, own = drawn(4), drawn(4)
        same(compiled(*ALIASES[name](own)), f(*ALIASES[name](given)))
        same(own, given)
