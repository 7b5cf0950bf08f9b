"""Backward inside backward, deeper than Python's stack: worker threads take over, with the waiting threads'
state.
"""

import threading

import pytest

import triten as tt
from triten.runtime import grad_mode
from triten.runtime.local_dispatch_key_set import local, modes
from triten.utils.checkpoint import checkpoint

DEPTH = 300


def nested(inside):
    """Return a function that differentiates itself `depth` times; the last call runs `inside`."""

    class Nested(tt.autograd.Function):
        @staticmethod
        def forward(ctx, x, depth):
            ctx.depth = depth
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            if not ctx.depth:
                inside()
                return grad * 2, None
            with tt.enable_grad():
                y = x.detach().requires_grad_()
                out = Nested.apply(y, ctx.depth - 1).sum()
                if ctx.depth % 2:
                    out.backward()
                    return grad * y.grad, None
                return grad * tt.autograd.grad(out, y)[0], None

    return Nested.apply


@pytest.mark.parametrize("depth", [5, DEPTH])
def test_backward_within_backward(depth, device):
    seen = set()
    x = tt.ones(2, device=device, requires_grad=True)
    nested(lambda: seen.add(threading.get_ident()))(x, depth).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    assert (threading.get_ident() in seen) is (depth < DEPTH)


def test_hooks_go_as_deep():
    def descend(depth):
        x = tt.ones(1, requires_grad=True)

        def hook(grad):
            with tt.enable_grad():
                return grad * descend(depth - 1) if depth else grad * 3

        (x * 1).register_hook(hook)
        y = x * 1
        y.register_hook(hook)
        y.sum().backward()
        return x.grad

    assert descend(DEPTH).tolist() == [3.0]


def test_errors_come_back_and_leave_nothing():
    def fault():
        raise KeyError("deep")

    before = (
        list(modes),
        list(grad_mode.grad_disabled),
        local.included,
        local.excluded,
        threading.active_count(),
    )
    x = tt.ones(2, requires_grad=True)
    with pytest.raises(KeyError, match="deep"):
        nested(fault)(x, DEPTH).sum().backward()
    after = (
        list(modes),
        list(grad_mode.grad_disabled),
        local.included,
        local.excluded,
        threading.active_count(),
    )
    assert after == before


def test_modes_of_the_thread_that_waits_hold_deep_down(device):
    seen = []

    class Seeing(tt.TensorDispatchMode):
        def __tensor_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    def look():
        a = tt.ones(2, 2, device=device)
        found["recording"] = tt.is_grad_enabled()
        found["dtype"] = (a @ a).dtype
        if device == "cuda":
            found["device"], found["stream"] = tt.cuda.current_device(), tt.cuda.current_stream()
        with Seeing():
            a.neg()
            count = len(seen)
        a.neg()
        found["seen"] = count, len(seen)

    found = {}
    x = tt.ones(2, requires_grad=True)
    last = tt.cuda.device_count() - 1 if device == "cuda" else 0
    stream = tt.cuda.Stream(device=last) if device == "cuda" else None
    out = nested(look)(x, DEPTH).sum()
    with tt.amp.autocast(device, dtype=tt.bfloat16):
        if stream is None:
            out.backward()
        else:
            with tt.cuda.device(last), tt.cuda.stream(stream):
                out.backward()
    assert found.pop("recording") is False and found.pop("dtype") is tt.bfloat16
    assert found.pop("seen") == (len(seen), len(seen))
    if device == "cuda":
        assert found["device"] == last and found["stream"] == stream


def test_checkpoints_within_checkpoints():
    def layered(x, depth):
        return checkpoint(layered, x * 1.0, depth - 1, use_reentrant=True) if depth else x.sin()

    x = tt.ones(2, requires_grad=True)
    layered(x, 60).sum().backward()
    assert x.grad.tolist() == pytest.approx([0.5403023] * 2)
