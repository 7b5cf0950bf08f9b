"""GradScaler keeps small gradients alive, skips steps with infinities, and finds its scale."""

import pickle

import numpy as np
import pytest

import triten as tt


class SGD:
    """Minimal optimizer."""

    def __init__(self, *params, lr=1.0):
        self.param_groups = [{"params": list(params)}]
        self.lr, self.steps = lr, 0

    def step(self, note=None):
        self.steps += 1
        with tt.no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        p.sub_(p.grad, alpha=self.lr)
        return note


def param(*values, device="cpu"):
    return tt.tensor(list(values), device=device).requires_grad_()


def backward(scaler, w, factor=1.0):
    w.grad = None
    scaler.scale((w * factor).sum()).backward()


def test_an_iteration_steps_by_the_unscaled_gradients(device):
    w = param(3.0, 4.0, device=device)
    optimizer, scaler = SGD(w), tt.amp.GradScaler(device, init_scale=8.0)
    backward(scaler, w, 0.5)
    assert w.grad.tolist() == [4.0, 4.0]
    assert scaler.step(optimizer, "kept") == "kept"
    scaler.update()
    assert w.tolist() == [2.5, 3.5] and w.grad.tolist() == [0.5, 0.5]
    assert scaler.get_scale() == 8.0 and scaler._get_growth_tracker() == 1


@pytest.mark.parametrize("bad", [float("inf"), float("nan"), -float("inf")])
def test_steps_with_infinities_are_skipped_and_the_scale_backs_off(device, bad):
    w, v = param(1.0, device=device), param(1.0, device=device)
    optimizer, scaler = SGD(w, v), tt.amp.GradScaler(device, init_scale=8.0, backoff_factor=0.25)
    backward(scaler, w, bad)
    backward(scaler, v)
    assert scaler.step(optimizer, "kept") is None
    scaler.update()
    assert optimizer.steps == 0 and w.tolist() == [1.0]
    assert scaler.get_scale() == 2.0 and scaler._get_growth_tracker() == 0


def test_the_scale_grows_after_an_interval_without_infinities():
    w = param(1.0)
    optimizer, scaler = SGD(w), tt.amp.GradScaler("cpu", init_scale=2.0, growth_factor=4.0, growth_interval=2)
    seen = []
    for factor in (1.0, 1.0, 1.0, float("inf"), 1.0, 1.0):
        backward(scaler, w, factor)
        scaler.step(optimizer)
        scaler.update()
        seen.append((scaler.get_scale(), scaler._get_growth_tracker()))
    assert seen == [(2.0, 1), (8.0, 0), (8.0, 1), (4.0, 0), (4.0, 1), (16.0, 0)]


def test_it_does_not_grow_to_infinity():
    w = param(1.0)
    scaler = tt.amp.GradScaler("cpu", init_scale=2.0**127, growth_interval=1)
    backward(scaler, w, 2.0**-100)
    scaler.step(SGD(w))
    scaler.update()
    assert scaler.get_scale() == 2.0**127 and scaler._get_growth_tracker() == 0


def test_gradients_may_be_looked_at_between(device):
    w = param(1.0, device=device)
    optimizer, scaler = SGD(w), tt.amp.GradScaler(device, init_scale=8.0)
    backward(scaler, w)
    scaler.unscale_(optimizer)
    assert w.grad.tolist() == [1.0]
    with pytest.raises(RuntimeError, match="already been called on this optimizer since the last update"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    assert w.grad.tolist() == [1.0] and w.tolist() == [0.0]
    with pytest.raises(RuntimeError, match=r"step\(\) has already been called"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match=r"unscale_\(\) is being called after step\(\)"):
        scaler.unscale_(optimizer)


def test_calls_out_of_order_are_refused():
    w = param(1.0)
    optimizer, scaler = SGD(w), tt.amp.GradScaler("cpu")
    for call in (lambda: scaler.unscale_(optimizer), lambda: scaler.step(optimizer), scaler.update):
        with pytest.raises(AssertionError, match="_scale is None"):
            call()
    scaler.scale(w)
    with pytest.raises(AssertionError, match="No inf checks were recorded for this optimizer"):
        scaler.step(optimizer)
    with pytest.raises(AssertionError, match="No inf checks were recorded prior to update"):
        tt_scaler = tt.amp.GradScaler("cpu")
        tt_scaler.scale(w)
        tt_scaler.update()
    with pytest.raises(RuntimeError, match="Closure use"):
        scaler.step(optimizer, closure=lambda: None)
    with pytest.raises(AssertionError, match=r"growth factor must be > 1\.0"):
        tt.amp.GradScaler("cpu", growth_factor=1.0)
    with pytest.raises(AssertionError, match=r"backoff factor must be < 1\.0"):
        tt.amp.GradScaler("cpu", backoff_factor=1.0)
    with pytest.raises(AssertionError, match=r"expected param to be triten\.Tensor, got int"):
        scaler.unscale_(SGD(3))


def test_float16_gradients_are_refused():
    w = tt.ones(1, dtype=tt.float16).requires_grad_()
    scaler = tt.amp.GradScaler("cpu", init_scale=2.0)
    scaler.scale(w.sum()).backward()
    with pytest.raises(ValueError, match="Attempting to unscale FP16 gradients"):
        scaler.unscale_(SGD(w))


def test_outputs_may_be_nested():
    scaler = tt.amp.GradScaler("cpu", init_scale=2.0)
    a, (b, c) = scaler.scale([tt.ones(1), (tt.ones(1), tt.ones(1, device="cuda"))])
    assert (a.item(), b.item(), c.item()) == (2.0, 2.0, 2.0) and c.device.type == "cuda"
    assert [x.item() for x in scaler.scale(x for x in [tt.ones(1)])] == [2.0]
    with pytest.raises(ValueError, match="outputs must be a Tensor or an iterable of Tensors"):
        scaler.scale(3)


def test_the_scale_may_be_set():
    scaler = tt.amp.GradScaler("cpu", init_scale=2.0)
    scaler.scale(tt.ones(1))
    scaler.update(8.0)
    assert scaler.get_scale() == 8.0
    scaler.update(tt.tensor([4.0]))
    assert scaler.get_scale() == 4.0
    for bad in (3, tt.ones(2), tt.ones(1, requires_grad=True), tt.ones(1, device="meta")):
        with pytest.raises(AssertionError, match="new_scale should be a float or a 1-element tensor on cpu"):
            scaler.update(bad)


def test_a_disabled_one_leaves_everything_as_it_is(monkeypatch):
    from triten.runtime.cuda import driver

    w = param(1.0)
    optimizer, scaler = SGD(w), tt.amp.GradScaler("cpu", enabled=False)
    assert scaler.scale(w) is w and not scaler.is_enabled()
    w.sum().backward()
    scaler.unscale_(optimizer)
    assert scaler.step(optimizer, "kept") == "kept"
    scaler.update()
    assert scaler.get_scale() == 1.0 and scaler.state_dict() == {} and scaler._get_growth_tracker() == 0
    scaler.load_state_dict({})
    monkeypatch.setattr(driver, "is_available", lambda: False)
    with pytest.warns(UserWarning, match="CUDA is not available"):
        assert not tt.amp.GradScaler().is_enabled()


def test_its_state_is_saved_loaded_and_pickled():
    w = param(1.0)
    scaler = tt.amp.GradScaler("cpu", init_scale=2.0, growth_factor=4.0)
    backward(scaler, w)
    scaler.unscale_(SGD(w))
    with pytest.raises(AssertionError, match="may only be pickled at the beginning"):
        pickle.dumps(scaler)
    scaler.update()
    expected = {
        "scale": 2.0,
        "growth_factor": 4.0,
        "backoff_factor": 0.5,
        "growth_interval": 2000,
        "_growth_tracker": 1,
    }
    assert scaler.state_dict() == expected
    assert pickle.loads(pickle.dumps(scaler)).state_dict() == expected
    fresh, used = tt.amp.GradScaler("cpu"), tt.amp.GradScaler("cpu")
    used.scale(tt.ones(1))
    for other in (fresh, used):
        other.load_state_dict(expected)
        assert other.state_dict() == expected
        assert other.scale(tt.ones(1)).item() == 2.0
    with pytest.raises(RuntimeError, match="source state dict is empty"):
        fresh.load_state_dict({})
    for name, value in (("growth_factor", 3.0), ("backoff_factor", 0.1), ("growth_interval", 7)):
        getattr(fresh, f"set_{name}")(value)
        assert getattr(fresh, f"get_{name}")() == fresh.state_dict()[name] == value


def test_an_optimizer_may_handle_the_scale_itself():
    class Fused(SGD):
        _step_supports_amp_scaling = True

        def step(self):
            seen.append(
                (
                    self.grad_scale if self.grad_scale is None else self.grad_scale.item(),
                    self.found_inf.item(),
                )
            )

    seen, w = [], param(1.0)
    optimizer, scaler = Fused(w), tt.amp.GradScaler("cpu", init_scale=8.0)
    for factor, unscale in ((1.0, False), (float("inf"), True), (float("nan"), False)):
        backward(scaler, w, factor)
        if unscale:
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
    assert seen == [(8.0, 0.0), (None, 1.0), (4.0, 1.0)]
    assert not hasattr(optimizer, "grad_scale") and scaler.get_scale() == 2.0


def test_the_scales_of_a_training_are_those_of_pytorch():
    torch = pytest.importorskip("torch")
    factors = [1.0, float("inf"), 1.0, 1.0, 1.0, float("nan"), 1.0, 1.0, 1.0, 1.0]

    def train(lib, optimizer_of):
        w = lib.tensor([1.0, 2.0]).requires_grad_()
        optimizer, scaler = optimizer_of(w), lib.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=3)
        scales = []
        for factor in factors:
            backward(scaler, w, factor)
            scaler.step(optimizer)
            scaler.update()
            scales.append((scaler.get_scale(), scaler.state_dict()["_growth_tracker"]))
        return scales, w.detach().numpy()

    ours, theirs = train(tt, SGD), train(torch, lambda w: torch.optim.SGD([w], lr=1.0))
    assert ours[0] == theirs[0]
    np.testing.assert_array_equal(ours[1], theirs[1])


def test_with_autocast_a_small_network_learns(device):
    rng = np.random.default_rng(0)
    x = tt.from_numpy(rng.standard_normal((16, 4)).astype(np.float32)).to(device)
    w = tt.zeros(1, 4, device=device).requires_grad_()
    y = x @ tt.tensor([[1.0], [-2.0], [0.5], [3.0]], device=device)
    optimizer, scaler = SGD(w, lr=0.2), tt.amp.GradScaler(device, init_scale=2.0**12)
    losses = []
    for _ in range(6):
        w.grad = None
        with tt.autocast(device, dtype=tt.float16):
            loss = tt.nn.functional.mse_loss(tt.nn.functional.linear(x, w), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    assert w.grad.dtype is tt.float32 and losses[-1] < 0.2 * losses[0]
