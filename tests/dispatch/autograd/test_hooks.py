"""Hooks of tensors, leaves and nodes: the values that they see, replace and keep, and the calls that they
may make.
"""

from typing import Any

import pytest

import triten as tt
from triten.autograd import grad
from triten.tests.shared.operands import leaf


def test_a_tensor_hook_sees_and_replaces() -> None:
    x = leaf()
    y = x + 0
    seen: list[Any] = []
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.register_hook(lambda g: g + g)
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.sum().backward()
    assert seen == [[1.0, 1.0], [2.0, 2.0]]
    assert x.grad.tolist() == [2.0, 2.0]


def test_a_hook_on_a_leaf() -> None:
    x = leaf()
    handle = x.register_hook(lambda g: g + 10.0)
    (x + x).sum().backward()
    assert x.grad.tolist() == [12.0, 12.0]
    handle.remove()
    handle.remove()
    x.sum().backward()
    assert x.grad.tolist() == [13.0, 13.0]
    with x.register_hook(lambda g: g + 1.0):
        x.sum().backward()
    x.sum().backward()
    assert x.grad.tolist() == [16.0, 16.0]


def test_a_hook_on_one_of_several_uses_sees_the_whole_gradient() -> None:
    x = leaf()
    y = x + 0
    seen: list[Any] = []
    y.register_hook(lambda g: seen.append(g.tolist()))
    (y + y + y).sum().backward()
    assert seen == [[3.0, 3.0]]


def test_a_hook_on_the_root() -> None:
    x = leaf()
    s = x.sum()
    s.register_hook(lambda g: g + 4.0)
    s.backward()
    assert x.grad.tolist() == [5.0, 5.0]


def test_hooks_run_for_returned_gradients_too() -> None:
    x = leaf()
    y = x + 0
    y.register_hook(lambda g: g + 1.0)
    assert grad(y.sum(), x, retain_graph=True)[0].tolist() == [2.0, 2.0]
    assert grad(y.sum(), y)[0].tolist() == [2.0, 2.0]


def test_what_a_hook_keeps_is_not_written_to_later() -> None:
    x = leaf()
    y = x + 0
    kept: list[Any] = []
    y.register_hook(kept.append)
    x.register_hook(kept.append)
    y.grad_fn.register_hook(lambda gi, go: kept.extend([gi[0], go[0]]))
    s = y.sum()
    s.backward(retain_graph=True)
    s.backward()
    assert all(g.tolist() == [1.0, 1.0] for g in kept)
    assert len(kept) == 8


def test_retain_grad() -> None:
    x = leaf()
    y = x + x
    y.retain_grad()
    y.retain_grad()
    assert y.retains_grad
    s = (y + y).sum()
    s.backward(retain_graph=True)
    assert y.grad.tolist() == [2.0, 2.0]
    s.backward()
    assert y.grad.tolist() == [4.0, 4.0]
    assert x.grad.tolist() == [8.0, 8.0]
    x.retain_grad()
    assert not x.retains_grad
    with pytest.raises(RuntimeError, match="can't retain_grad on Tensor that has requires_grad=False"):
        tt.ones(1).retain_grad()


def test_retain_grad_sees_what_hooks_made() -> None:
    x = leaf()
    y = x + 0
    y.register_hook(lambda g: g + 1.0)
    y.retain_grad()
    y.register_hook(lambda g: g + 1.0)
    y.sum().backward()
    assert y.grad.tolist() == [3.0, 3.0]


def test_post_accumulate_hooks() -> None:
    x = leaf()
    seen: list[Any] = []

    def hook(param: Any) -> None:
        seen.append((param is x, param.grad.tolist()))
        param.grad = None

    handle = x.register_post_accumulate_grad_hook(hook)
    (x + x).sum().backward()
    x.sum().backward()
    handle.remove()
    x.sum().backward()
    assert seen == [(True, [2.0, 2.0]), (True, [1.0, 1.0])]
    assert x.grad.tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="cannot be registered on non-leaf tensors"):
        (x + 0).register_post_accumulate_grad_hook(hook)


def test_post_accumulate_hooks_run_as_soon_as_all_gradients_are_there() -> None:
    first, last = leaf(), leaf()
    order: list[str] = []
    first.register_post_accumulate_grad_hook(lambda p: order.append(f"first {p.grad.tolist()}"))
    last.register_post_accumulate_grad_hook(lambda p: order.append(f"last {p.grad.tolist()}"))
    hidden = first * 2.0
    hidden.register_hook(lambda g: order.append("hidden"))
    ((hidden + last) * last + last).sum().backward()
    # By hand: d/d first = 2 * last, d/d last = 2 * first + 2 * last + 1, and `first` comes after `hidden`.
    assert order == ["last [5.0, 9.0]", "hidden", "first [2.0, 4.0]"]


def test_a_leaf_to_which_a_node_sends_nothing_is_called_at_the_end() -> None:
    class Half(tt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            return x + y

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad, None

    x, y = leaf(), leaf()
    seen: list[Any] = []
    y.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.tolist()))
    (Half.apply(x, y) + y).sum().backward()
    tt.autograd.backward([y, (y * 3.0).sum()], [tt.ones(2), tt.tensor(1.0)])
    assert seen == [[1.0, 1.0], [5.0, 5.0]]


def test_callbacks_at_the_end_of_a_backward() -> None:
    engine = tt.autograd.Variable._execution_engine
    x = leaf()
    seen: list[str] = []
    x.register_hook(lambda g: engine.queue_callback(lambda: seen.append(f"end {x.grad.tolist()}")))
    (x * 1.0).sum().backward()
    assert seen == ["end [1.0, 1.0]"]
    with pytest.raises(RuntimeError, match="only be installed during backward"):
        engine.queue_callback(lambda: None)


def test_post_accumulate_hooks_do_not_run_for_grad() -> None:
    x = leaf()
    seen: list[Any] = []
    x.register_post_accumulate_grad_hook(seen.append)
    grad(x.sum(), x)
    assert seen == []


def test_node_hooks() -> None:
    x, y = leaf(), leaf()
    out = x + y
    seen: list[Any] = []
    out.grad_fn.register_prehook(lambda go: (go[0] + 1.0,))
    out.grad_fn.register_hook(
        lambda gi, go: seen.append(([g.tolist() for g in gi], [g.tolist() for g in go]))
    )
    handle = out.grad_fn.register_hook(lambda gi, go: (gi[0] + gi[0], gi[1]))
    out.sum().backward()
    assert seen == [([[2.0, 2.0], [2.0, 2.0]], [[2.0, 2.0]])]
    assert (x.grad.tolist(), y.grad.tolist()) == ([4.0, 4.0], [2.0, 2.0])
    handle.remove()


def test_hooks_are_refused_where_there_is_no_gradient() -> None:
    with pytest.raises(
        RuntimeError, match="cannot register a hook on a tensor that doesn't require gradient"
    ):
        tt.ones(1).register_hook(print)


def test_hooks_may_call_backward() -> None:
    x, other = leaf(), leaf()
    y = x + 0

    def hook(g: Any) -> None:
        with tt.enable_grad():
            (other + other).sum().backward()

    y.register_hook(hook)
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    assert other.grad.tolist() == [2.0, 2.0]


def _hooked() -> tuple[list[str], Any, Any]:
    """Return a log, a leaf and a copy of it, with hooks on both and on their nodes."""
    log: list[str] = []

    def on_tensor(name: str) -> Any:
        return lambda g: log.append(name) or g * 3

    def before(name: str) -> Any:
        return lambda gs: log.append(name) or (gs[0] * 2,)

    a = tt.tensor(1.0, requires_grad=True)
    b = a.clone()
    b.register_hook(on_tensor("b"))
    b.grad_fn.register_prehook(before("before clone"))
    a.register_hook(on_tensor("a"))
    b.grad_fn.next_functions[0][0].register_prehook(before("before a"))
    return log, a, b


@pytest.mark.parametrize(
    ("inputs", "expected", "calls"),
    [
        ("b", [3.0], ["b"]),
        ("a", [18.0], ["b", "before clone", "a"]),
        ("ab", [18.0, 3.0], ["b", "before clone", "a"]),
    ],
)
def test_grad_captures_between_the_hooks_of_a_tensor_and_of_its_node(
    inputs: str, expected: list[float], calls: list[str]
) -> None:
    log, a, b = _hooked()
    found = grad(b.sum(), [{"a": a, "b": b}[name] for name in inputs])
    assert [g.item() for g in found] == expected and log == calls


@pytest.mark.parametrize(
    ("inputs", "expected", "calls"),
    [
        ("b", (None, 3.0), ["b", "before clone"]),
        ("a", (36.0, None), ["b", "before clone", "a", "before a"]),
        ("ab", (36.0, 3.0), ["b", "before clone", "a", "before a"]),
    ],
)
def test_backward_runs_the_nodes_of_its_inputs(inputs: str, expected: Any, calls: list[str]) -> None:
    log, a, b = _hooked()
    b.sum().backward(inputs=[{"a": a, "b": b}[name] for name in inputs])
    assert tuple(None if t._grad is None else t._grad.item() for t in (a, b)) == expected and log == calls


def test_a_hook_on_one_of_several_outputs_gets_none() -> None:
    seen: list[Any] = []
    first, second = leaf().unbind()
    first.register_hook(seen.append)
    first.backward()
    second.backward()
    assert [None if g is None else g.item() for g in seen] == [1.0, None]
    var, mean = tt.var_mean(leaf())
    var.register_hook(lambda g: tt.ones(()))
    with pytest.raises(RuntimeError, match="can't replace a None gradient"):
        mean.backward()


def test_hooks_after_the_accumulation_of_a_leaf() -> None:
    x = tt.ones(1, requires_grad=True)
    seen: list[Any] = []
    node = x.view_as(x).grad_fn.next_functions[0][0]
    node.register_hook(lambda inputs, outputs: seen.append((inputs, outputs[0].item())))
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.item()))
    (x * 2 + x).backward()
    assert seen == [3.0, ((), 3.0)]


class Scaled(tt.autograd.Function):
    """Function that also returns its number."""

    @staticmethod
    def forward(ctx, x, factor, y):
        ctx.factor = factor
        return x * factor, factor, y * factor

    @staticmethod
    def backward(ctx, first, number, second):
        assert number is None
        return first * ctx.factor, None, second * ctx.factor


def test_hooks_of_a_node_see_one_gradient_for_each_output():
    x, y = (tt.ones(2, requires_grad=True) for _ in range(2))
    first, _, second = Scaled.apply(x, 3, y)
    seen = []

    def doubled(grads):
        seen.append([g is not None for g in grads])
        return grads[0] * 2, None, grads[2] * 2

    first.grad_fn.register_prehook(doubled)
    first.grad_fn.register_hook(lambda inputs, outputs: seen.append((len(inputs), outputs[1], len(outputs))))
    (first + second).sum().backward()
    assert seen == [[True, False, True], (2, None, 3)]
    assert x.grad.tolist() == y.grad.tolist() == [6.0, 6.0]


def test_a_prehook_returns_one_gradient_for_each_output():
    first, *_ = Scaled.apply(tt.ones(2, requires_grad=True), 3, tt.ones(2))
    first.grad_fn.register_prehook(lambda grads: (grads[0], grads[2]))
    with pytest.raises(RuntimeError, match=r"incorrect number of values \(got 2, but expected 3\)"):
        first.sum().backward()


def test_a_hook_of_a_node_returns_as_many_gradients_as_the_node() -> None:
    x = tt.ones(2, requires_grad=True)
    for hook, count in ((lambda *_: (), 0), (lambda grads, _: (*grads, grads[0]), 2)):
        y = x.sigmoid()
        y.grad_fn.register_hook(hook)
        with pytest.raises(
            RuntimeError, match=rf"incorrect number of values \(got {count}, but expected 1\)"
        ):
            y.sum().backward()
