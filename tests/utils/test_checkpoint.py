"""Checkpoints: the same results and gradients, with what forward did not keep computed again."""

import pytest

import triten as tt
from triten.utils.checkpoint import (
    CheckpointError,
    check_backward_validity,
    checkpoint,
    checkpoint_sequential,
    detach_variable,
    get_device_states,
    set_checkpoint_early_stop,
    set_device_states,
)

both = pytest.mark.parametrize("use_reentrant", [False, True])


def leaf(*sizes):
    count = tt.ones(sizes).numel()
    return (tt.arange(float(count)).reshape(sizes) / 7 + 0.1).requires_grad_()


@both
def test_values_gradients_and_random_numbers_are_the_same(use_reentrant):
    x, w, calls = leaf(3, 4), leaf(4, 5), []

    def function(x, w):
        calls.append(1)
        return tt.nn.functional.dropout((x @ w).exp(), 0.5).sigmoid(), (x * x).sum()

    found = []
    for call in (lambda: checkpoint(function, x, w, use_reentrant=use_reentrant), lambda: function(x, w)):
        tt.manual_seed(3)
        first, second = call()
        tt.rand(5)
        state = tt.get_rng_state()
        ((first * first).sum() + second).backward()
        assert tt.equal(state, tt.get_rng_state())
        found.append((first, x.grad, w.grad))
        x.grad = w.grad = None
    assert all(tt.allclose(a, b) for a, b in zip(*found, strict=True)) and len(calls) == 3


@both
def test_checkpoints_inside_each_other(use_reentrant):
    calls = {"inner": 0, "outer": 0}

    def inner(x):
        calls["inner"] += 1
        return x.sin().exp()

    def outer(x):
        calls["outer"] += 1
        return checkpoint(inner, x.cos(), use_reentrant=use_reentrant).tanh()

    x, y = leaf(3), leaf(3)
    checkpoint(outer, x, use_reentrant=use_reentrant).sum().backward()
    y.cos().sin().exp().tanh().sum().backward()
    assert tt.allclose(x.grad, y.grad) and calls["inner"] <= 3 and calls["outer"] == 2


@both
def test_chains(use_reentrant):
    net = tt.nn.Sequential(*(tt.nn.Linear(4, 4) for _ in range(5)))
    x, y = leaf(2, 4), leaf(2, 4)
    checkpoint_sequential(net, 2, x, use_reentrant=use_reentrant).sum().backward()
    grads = [p.grad for p in net.parameters()]
    net.zero_grad()
    net(y).sum().backward()
    assert tt.allclose(x.grad, y.grad)
    assert all(tt.allclose(a, p.grad) for a, p in zip(grads, net.parameters(), strict=True))


def test_nothing_is_kept_that_can_be_computed():
    kept = []
    x = leaf(3)
    with tt.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        y = checkpoint(lambda x: x.sin().exp().tanh(), x, use_reentrant=False)
    # The call's own input alone.
    assert len(kept) == 1 and kept[0] is x
    y.sum().backward()
    assert x.grad is not None


def test_a_graph_that_is_kept_is_computed_again_for_each_backward():
    calls = []
    x = leaf(3)

    def function(x):
        calls.append(1)
        return x.sin().exp()

    y = checkpoint(function, x, use_reentrant=False).sum()
    y.backward(retain_graph=True)
    y.backward()
    once = leaf(3)
    once.sin().exp().sum().backward()
    assert len(calls) == 3 and tt.allclose(x.grad, 2 * once.grad)


def test_second_derivatives():
    x = leaf(3)
    y = checkpoint(lambda x: (x**3).sin(), x, use_reentrant=False).sum()
    (first,) = tt.autograd.grad(y, x, create_graph=True)
    (second,) = tt.autograd.grad(first.sum(), x)
    cube = x.detach() ** 3
    assert tt.allclose(second, 6 * x.detach() * cube.cos() - 9 * x.detach() ** 4 * cube.sin())


@pytest.mark.parametrize("early_stop", [True, False])
def test_computing_again_stops_early(early_stop):
    reached = []

    def function(x):
        y = x.sin().cos()
        reached.append(1)
        return y * 2

    with set_checkpoint_early_stop(early_stop):
        y = checkpoint(function, leaf(3), use_reentrant=False)
    y.sum().backward()
    assert len(reached) == (1 if early_stop else 2)


def test_autocast_and_keywords_are_the_same_again():
    dtypes = []
    w = leaf(3, 3)

    def function(x, *, factor):
        y = x @ w
        dtypes.append(y.dtype)
        return (y * factor).sum()

    with tt.autocast("cpu", dtype=tt.bfloat16):
        y = checkpoint(function, leaf(2, 3), factor=leaf(1), use_reentrant=False)
    y.backward()
    assert dtypes == [tt.bfloat16] * 2


def of_calls(*functions):
    """Return a function that calls the next of `functions` each time."""
    rest = iter(functions)
    return lambda x: next(rest)(x)


@pytest.mark.parametrize(
    ("again", "message"),
    [
        (lambda x: x.clone(), "A different number of tensors was saved"),
        (lambda x: x[:2].exp(), "different metadata than during the forward pass"),
    ],
)
def test_another_computation_is_noticed(again, message):
    y = checkpoint(of_calls(lambda x: x.exp(), again), leaf(3), use_reentrant=False)
    with pytest.raises(CheckpointError, match=message):
        y.sum().backward()


def test_refusals():
    x = leaf(3)
    with pytest.raises(ValueError, match="Unexpected keyword arguments: factor"):
        checkpoint(lambda x: x, x, use_reentrant=True, factor=2)
    with pytest.raises(ValueError, match="determinism_check should be one of"):
        checkpoint(lambda x: x, x, use_reentrant=False, determinism_check="some")
    with pytest.raises(ValueError, match="only supported when use_reentrant=False"):
        checkpoint(lambda x: x, x, use_reentrant=True, debug=True)
    with pytest.raises(RuntimeError, match="When use_reentrant=True, checkpoint is incompatible"):
        tt.autograd.grad(checkpoint(lambda x: x.sin(), x, use_reentrant=True).sum(), x)
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
        checkpoint(lambda x: x, x)
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        checkpoint(lambda x: x * 2, x.detach(), use_reentrant=True)


def test_states_of_devices_are_taken_and_given_back(device):
    x = tt.ones(2, device=device)
    devices, states = get_device_states(x, [{"again": x}], 3)
    assert devices == ([0] if device == "cuda" else []) and len(states) == len(devices)
    first = tt.rand(2, device=device)
    set_device_states(devices, states)
    assert tt.equal(tt.rand(2, device=device), first) == (device == "cuda")


def test_tensors_are_detached_and_asked_for():
    x = tt.ones(2, requires_grad=True)
    detached, number = detach_variable((x * 2, 3))
    assert detached.is_leaf and detached.requires_grad and number == 3
    with pytest.raises(
        RuntimeError, match=r"Only tuple of tensors is supported\. Got Unsupported input type: list"
    ):
        detach_variable([x])
    check_backward_validity([3, x])
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        check_backward_validity([3, tt.ones(2)])


def test_a_read_outside_of_a_backward_keeps_nothing():
    calls = []

    def f(x):
        calls.append(1)
        return x.exp()

    x = tt.ones(3, requires_grad=True)
    y = checkpoint(f, x, use_reentrant=False)
    for count in (2, 3):
        tt.testing.assert_close(y.grad_fn._saved_result, x.exp())
        assert len(calls) == count
    y.sum().backward()
    assert len(calls) == 4
    tt.testing.assert_close(x.grad, x.detach().exp())
