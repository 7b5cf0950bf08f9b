"""A linear layer and its activation in one operator: the values of both apart, and who keeps them apart."""

import pytest

import triten as tt
import triten.nn.functional as F
from triten.nn.modules.linear_activation import activated
from triten.runtime.cuda.driver import driver


def launches_of(program):
    before = driver().launches
    made = program()
    return driver().launches - before, made


@pytest.mark.parametrize("activation", [F.relu, F.gelu], ids=["relu", "gelu"])
@pytest.mark.parametrize("dtype", [tt.float32, tt.bfloat16, tt.float64], ids=lambda d: d.name)
@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 5), (0, 5)], ids=str)
def test_values(shape, dtype, activation):
    tt.manual_seed(0)
    layer = tt.nn.Linear(5, 7, device="cuda", dtype=dtype)
    x = tt.randn(*shape, device="cuda", dtype=dtype)
    with tt.no_grad():
        got = activated(layer, activation, x)
        wide = activation(F.linear(x.double(), layer.weight.double(), layer.bias.double()))
    assert got.shape == (*shape[:-1], 7) and got.dtype is dtype
    epsilon = tt.finfo(dtype).eps
    tt.testing.assert_close(got.double(), wide, rtol=epsilon, atol=4 * tt.finfo(tt.float32).eps)


def test_one_launch_without_gradients_and_two_with_them():
    layer, x = tt.nn.Linear(8, 8, device="cuda"), tt.randn(4, 8, device="cuda")
    with tt.no_grad():
        one, fused = launches_of(lambda: activated(layer, F.gelu, x))
    two, apart = launches_of(lambda: activated(layer, F.gelu, x))
    assert (one, two) == (1, 2)
    assert apart.requires_grad and not fused.requires_grad
    tt.testing.assert_close(fused, apart.detach())


def test_hooks_see_what_lies_between():
    layer, x = tt.nn.Linear(8, 8, device="cuda"), tt.randn(4, 8, device="cuda")
    seen = []
    handle = layer.register_forward_hook(lambda module, args, output: seen.append(output.shape))
    with tt.no_grad():
        activated(layer, F.relu, x)
    assert seen == [(4, 8)]
    handle.remove()
    handle = tt.nn.modules.module.register_module_forward_hook(lambda *args: seen.append(None))
    try:
        with tt.no_grad():
            activated(layer, F.relu, x)
    finally:
        handle.remove()
    assert len(seen) == 2


@pytest.mark.parametrize("activation", [F.silu, tt.nn.GELU()], ids=["silu", "module"])
def test_others_are_called(activation):
    layer, x = tt.nn.Linear(8, 8, device="cuda"), tt.randn(4, 8, device="cuda")
    with tt.no_grad():
        count, made = launches_of(lambda: activated(layer, activation, x))
        tt.testing.assert_close(made, activation(layer(x)))
    assert count == 2


def test_on_the_host_nothing_changes():
    layer, x = tt.nn.Linear(8, 8), tt.randn(4, 8)
    with tt.no_grad():
        assert bool((activated(layer, F.gelu, x) == F.gelu(layer(x))).all())
