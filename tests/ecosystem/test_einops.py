"""einops on tensors: gradients, layers, and the order of imports."""

import pytest

import triten as tt
from triten.tests.shared.processes import run_python

einops = pytest.importorskip("einops")


def test_gradients_flow_through_every_function(device):
    x = tt.randn(2, 6, device=device, requires_grad=True)
    made = einops.rearrange(x, "a (b c) -> b a c", b=2)
    made = einops.repeat(einops.reduce(made, "b a c -> a c", "prod"), "a c -> a c d", d=2)
    made.sum().backward()
    pairs = x.detach().view(2, 2, 3)
    assert x.grad.device == x.device
    assert tt.equal(x.grad.view(2, 2, 3), 2 * pairs.flip(1))


def test_packed_tensors_come_back():
    first, second = tt.randn(2, 3), tt.randn(2, 4, 5)
    packed, shapes = einops.pack([first, second], "batch *")
    assert packed.shape == (2, 23)
    assert all(map(tt.equal, einops.unpack(packed, shapes, "batch *"), (first, second)))


def test_a_mean_of_integers_is_refused():
    with pytest.raises(NotImplementedError, match="mean"):
        einops.reduce(tt.arange(6), "(a b) -> a", "mean", a=2)


def test_layers_are_modules():
    from triten.utils.einops import EinMix, Rearrange, Reduce

    tt.manual_seed(0)
    mix = EinMix("b (h w) c -> b h (w o)", weight_shape="c o", bias_shape="o", c=3, o=2, h=2)
    net = tt.nn.Sequential(Rearrange("b c h w -> b (h w) c"), mix, Reduce("b h d -> b d", "max"))
    x = tt.randn(4, 3, 2, 5)
    expected = x.permute(0, 2, 3, 1) @ mix.weight + mix.bias
    assert tt.allclose(net(x), expected.reshape(4, 2, 10).amax(1), atol=1e-6)
    assert set(net.state_dict()) == {"1.weight", "1.bias"}
    assert tt.equal(tt.compile(net)(x), net(x))
    assert "EinMix('b (h w) c -> b h (w o)'" in repr(net)


@pytest.mark.parametrize("first", ["einops", "triten"])
def test_either_may_be_imported_first(first):
    second = {"einops": "triten", "triten": "einops"}[first]
    run = run_python(
        f"""
        import sys, {first}
        if {first!r} == "triten":
            assert "einops" not in sys.modules
        import {second}
        print(einops.rearrange(triten.ones(2, 3), "a b -> b a").shape)
        """
    )
    assert run.stdout == "triten.Size([3, 2])\n", run.stderr
