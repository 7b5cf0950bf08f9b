"""Hooks on saved tensors: the values that they see, the values for backward, and no cost after their
removal.
"""

import gc
import threading
import weakref

import pytest

import triten as tt
from triten.dispatch.autograd import saved_tensors
from triten.dispatch.generated.autograd.pointwise import MulBackward0
from triten.tests.shared.operands import leaf

graph = tt.autograd.graph


class Doubling(tt.autograd.Function):
    """Function that saves its input and its output."""

    @staticmethod
    def forward(ctx, x):
        y = 2 * x
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return grad * (y / x)


PROGRAMS = [
    lambda x: x * x.exp(),
    lambda x: tt.nn.functional.layer_norm(x, [3]) * x,
    lambda x: tt.cat([x, x * 2]).relu().sigmoid(),
    lambda x: x.clone().mul_(x).tanh(),
    lambda x: Doubling.apply(x) * x,
    lambda x: (x.view(3, 1) @ x.view(1, 3)).softmax(0),
    lambda x: tt.stack([x, x.sin()]).prod(0),
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_gradients_are_the_same(program):
    counts = {"packed": 0, "unpacked": 0}

    def pack(tensor):
        counts["packed"] += 1
        assert not tt.is_grad_enabled()
        return tensor.detach().numpy().copy()

    def unpack(packed):
        counts["unpacked"] += 1
        return tt.from_numpy(packed)

    x, y = leaf(0.5, 1.5, 2.5), leaf(0.5, 1.5, 2.5)
    with graph.saved_tensors_hooks(pack, unpack):
        result = program(x).sum()
    result.backward()
    program(y).sum().backward()
    assert tt.allclose(x.grad, y.grad) and counts["packed"] > 0 and counts["unpacked"] > 0


@pytest.mark.parametrize("program", PROGRAMS[:4] + PROGRAMS[5:])
def test_second_derivatives_are_the_same(program):
    seconds = []
    for hooked in (True, False):
        x = leaf(0.5, 1.5, 2.5)
        hooks = graph.saved_tensors_hooks(lambda t: t, lambda t: t)
        if hooked:
            with hooks:
                result = program(x).sum()
        else:
            result = program(x).sum()
        (first,) = tt.autograd.grad(result, x, create_graph=True)
        seconds.append(tt.autograd.grad((first * first).sum(), x)[0])
    assert tt.allclose(*seconds)


def test_the_innermost_hooks_count():
    seen = []
    x = leaf(2.0)
    with graph.saved_tensors_hooks(lambda t: seen.append("outer") or t, lambda t: t):
        with graph.saved_tensors_hooks(lambda t: seen.append("inner") or t, lambda t: t):
            x.exp()
        x.exp()
    x.exp()
    assert seen == ["inner", "outer"]


def test_other_threads_have_their_own():
    seen = []
    x = leaf(2.0)
    with graph.saved_tensors_hooks(lambda t: seen.append(t) or t, lambda t: t):
        thread = threading.Thread(target=lambda: (x * x).sum().backward())
        thread.start()
        thread.join()
    assert not seen and x.grad.item() == 4.0


def test_the_slots_are_as_they_were_after_a_while(monkeypatch):
    monkeypatch.setattr(saved_tensors, "IDLE_STORES", 10)
    x = leaf(2.0)
    with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        y = x * x
    assert isinstance(vars(MulBackward0)["self_"], saved_tensors._WatchedSlot)
    for _ in range(20):
        x * x
    assert not isinstance(vars(MulBackward0)["self_"], saved_tensors._WatchedSlot)
    y.backward()
    assert x.grad.item() == 4.0


def test_graphs_with_hooks_are_freed_without_the_collector():
    gc.disable()
    try:
        x = leaf(2.0)
        with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            y = (x * x).exp().relu()
        node = weakref.ref(y.grad_fn)
        del y
        assert node() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("pack", "unpack", "error", "message"),
    [
        (lambda t: t.mul_(2), lambda t: t, RuntimeError, "pack hook is modifying its input in place"),
        (
            lambda t: 3,
            lambda t: t,
            TypeError,
            "unpack_hook expected to be a Tensor but got result of type int",
        ),
        (lambda t: 1 / 0, lambda t: t, ZeroDivisionError, "division by zero"),
    ],
)
def test_hooks_that_are_wrong(pack, unpack, error, message):
    x = tt.ones(2, requires_grad=True) * 1
    with pytest.raises(error, match=message):
        with graph.saved_tensors_hooks(pack, unpack):
            y = x.sin()
        y.sum().backward()


def test_hooks_are_refused_where_they_are_disabled():
    hooks = graph.saved_tensors_hooks(lambda t: t, lambda t: t)
    with graph.disable_saved_tensors_hooks("not here"), pytest.raises(RuntimeError, match="not here"), hooks:
        pass
    with hooks, pytest.raises(RuntimeError, match="nor here"), graph.disable_saved_tensors_hooks("nor here"):
        pass
    with hooks:
        pass


@pytest.mark.parametrize("pin_memory", [False, True])
def test_tensors_wait_on_the_host(pin_memory):
    x = tt.ones(3, device="cuda", requires_grad=True)
    with graph.save_on_cpu(pin_memory=pin_memory):
        y = (x * 2).exp()
    kept = y.grad_fn.__class__.__dict__["result"].__get__(y.grad_fn).packed
    assert kept[1].device.type == "cpu" and kept[0].type == "cuda"
    y.sum().backward()
    assert tt.allclose(x.grad.cpu(), 2 * tt.ones(3).mul(2).exp())


HOOKS = [
    lambda: graph.saved_tensors_hooks(lambda x: x, lambda x: x),
    lambda: graph.saved_tensors_hooks(lambda x: x.clone(), lambda x: x),
    lambda: graph.save_on_cpu(),
]


@pytest.mark.parametrize("hooks", HOOKS)
@pytest.mark.parametrize(
    ("program", "second"),
    [(lambda x: x * x, lambda x: tt.full_like(x, 2)), (tt.exp, tt.exp), (Doubling.apply, tt.zeros_like)],
    ids=["saved argument", "saved result", "function"],
)
def test_packed_tensors_keep_their_tangents(hooks, program, second):
    class WithTangent(Doubling):
        jvp = staticmethod(lambda ctx, tangent: 2 * tangent)

    program = WithTangent.apply if program == Doubling.apply else program
    x = leaf(0.5, 1.5, 2.5)
    with tt.autograd.forward_ad.dual_level():
        dual = tt.autograd.forward_ad.make_dual(x, tt.ones_like(x))
        with hooks():
            result = program(dual).sum()
        (grad,) = tt.autograd.grad(result, dual, create_graph=True)
        tangent = tt.autograd.forward_ad.unpack_dual(grad).tangent
    expected = second(x.detach())
    assert tt.allclose(tt.zeros_like(expected) if tangent is None else tangent, expected)
