"""Memory of graphs: freed by reference counting, and constant over many steps without the collector.

A bound of 100 bytes a step is below the size of any tensor or node, and above the residue of Python's free
lists.
"""

import gc
import tracemalloc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import triten as tt


@pytest.fixture(autouse=True)
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def matrix() -> tt.Tensor:
    return tt.tensor([[1.0, 2.0], [3.0, -4.0]]).requires_grad_()


def grown(step: Callable[[], Any], steps: int = 1000) -> int:
    """Return the bytes that `steps` steps leave behind, after a warm-up that fills every table."""
    for _ in range(50):
        step()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(steps):
            step()
        after = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert gc.collect() < 50, "a cycle was left to the collector"
    return after - before


def training_step() -> Callable[[], Any]:
    w1, w2, b = matrix(), matrix(), tt.zeros(2).requires_grad_()
    x = tt.tensor([[0.5, -0.5], [0.25, 1.0]])

    def step() -> None:
        hidden = (x.mm(w1) + b).relu()
        (hidden.mm(w2) + hidden).sum().backward()
        with tt.no_grad():
            for p in (w1, w2, b):
                p.add_(p.grad, alpha=-0.001)
                p.grad = None

    return step


def inplace_step() -> Callable[[], Any]:
    w = matrix()

    def step() -> None:
        h = w + 0
        h[0].add_(h[1])
        h[1].zero_()
        h.t()[1].relu_()
        h.sum().backward()
        w.grad.zero_()

    return step


def second_derivative_step() -> Callable[[], Any]:
    w = matrix()

    def step() -> None:
        (first,) = tt.autograd.grad(w.mm(w).relu().sum(), w, create_graph=True)
        tt.autograd.grad(first.sum(), w, allow_unused=True)

    return step


def dropped_graph_step() -> Callable[[], Any]:
    w = matrix()
    return lambda: w.mm(w).relu().sum()


def retained_graph_step() -> Callable[[], Any]:
    w = matrix()

    def step() -> None:
        out = w.mm(w).relu().sum()
        out.backward(retain_graph=True)
        w.grad = None

    return step


def hook_step() -> Callable[[], Any]:
    w = matrix()

    def step() -> None:
        h = w.relu()
        h.retain_grad()
        handle = h.register_hook(lambda g: g + g)
        h.grad_fn.register_hook(lambda gi, go: None)
        h.mm(h).sum().backward()
        handle.remove()
        w.grad = None

    return step


class Square(tt.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        out = x.mm(x)
        ctx.save_for_backward(x, out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, _ = ctx.saved_tensors
        return grad.mm(x.t()) + x.t().mm(grad)


def function_step() -> Callable[[], Any]:
    w = matrix()

    def step() -> None:
        Square.apply(w).sum().backward()
        w.grad = None

    return step


def failing_step() -> Callable[[], Any]:
    w = matrix()

    def step() -> None:
        h = w + 0
        out = h.mm(h).sum()
        h.zero_()
        try:
            out.backward()
        except RuntimeError:
            return
        raise AssertionError("the write was not seen")

    return step


STEPS = [
    training_step,
    inplace_step,
    second_derivative_step,
    dropped_graph_step,
    retained_graph_step,
    hook_step,
    function_step,
]


@pytest.mark.parametrize("make", STEPS, ids=[make.__name__ for make in STEPS])
def test_a_thousand_steps_leave_nothing_behind(make: Callable[[], Callable[[], Any]]) -> None:
    assert grown(make()) < 100_000


def test_a_failing_step_leaves_nothing_behind() -> None:
    assert grown(failing_step()) < 100_000


@pytest.mark.parametrize("shapes", [1, 7])
def test_a_stream_of_new_graphs_of_few_shapes(shapes: int) -> None:
    tensors = [tt.ones(n + 1, n + 1).requires_grad_() for n in range(shapes)]

    def step() -> None:
        for w in tensors:
            w.mm(w).sum().backward()
            w.grad = None

    assert grown(step, 200) < 20_000


def test_saved_tensors_die_with_the_graph() -> None:
    w = matrix()
    h = w + 0
    out = h.mm(h)
    ref = weakref.ref(h)
    del h
    assert ref() is not None
    del out
    assert ref() is None


def test_saved_tensors_die_in_backward() -> None:
    w = matrix()
    h = w + 0
    out = h.mm(h).sum()
    ref = weakref.ref(h)
    del h
    out.backward()
    assert ref() is None


def test_saved_tensors_live_while_the_graph_is_retained() -> None:
    w = matrix()
    h = w + 0
    out = h.mm(h).sum()
    ref = weakref.ref(h)
    del h
    out.backward(retain_graph=True)
    assert ref() is not None
    out.backward()
    assert ref() is None


def test_results_and_nodes_die() -> None:
    w = matrix()
    for make in (
        lambda: w.relu(),
        lambda: w.mm(w),
        lambda: w + w,
        lambda: w.t(),
        lambda: (w + 0).relu_(),
        lambda: w[0],
    ):
        out = make()
        refs = [weakref.ref(out), weakref.ref(out.grad_fn)]
        del out
        assert [r() for r in refs] == [None, None]


def test_a_result_that_its_own_node_saved_dies() -> None:
    w = matrix()
    out = w.relu()
    ref = weakref.ref(out)
    node = out.grad_fn
    del out
    assert ref() is None
    assert node.name() == "ReluBackward0"


def test_leaves_die_with_their_gradients() -> None:
    w = matrix()
    w.relu().sum().backward()
    refs = [weakref.ref(w), weakref.ref(w.grad)]
    del w
    assert [r() for r in refs] == [None, None]


def test_a_graph_keeps_its_leaves_no_longer_than_it_must() -> None:
    w = matrix()
    out = (w + 1).sum()
    ref = weakref.ref(w)
    del w
    assert ref() is None
    out.backward()


def test_bases_and_views_die() -> None:
    x = matrix()
    b = x + 0
    v = b[0]
    v.zero_()
    refs = [weakref.ref(b), weakref.ref(v), weakref.ref(b.grad_fn)]
    del b
    assert refs[0]() is not None
    del v
    assert [r() for r in refs] == [None, None, None]


def test_gradients_of_a_second_derivative_die() -> None:
    w = matrix()
    (first,) = tt.autograd.grad(w.mm(w).sum(), w, create_graph=True)
    refs = [weakref.ref(first), weakref.ref(first.grad_fn)]
    tt.autograd.grad(first.sum(), w)
    del first
    assert [r() for r in refs] == [None, None]


def test_a_plan_with_some_scales_at_their_defaults_holds_no_tensor() -> None:
    a = tt.ones(2, 2, requires_grad=True)
    b = tt.ones(2, 2)
    seen = weakref.ref(b)
    tt.addmm(b, a, b, beta=2)
    del b
    gc.collect()
    assert seen() is None
