"""Names that PyTorch keeps for old programs."""

import pytest

import triten as tt

F = tt.nn.functional


def test_a_loss_for_images():
    with pytest.warns(FutureWarning, match="NLLLoss"):
        loss = tt.nn.NLLLoss2d(reduction="sum")
    assert isinstance(loss, tt.nn.NLLLoss)
    x, target = tt.randn(2, 3, 4, 4).log_softmax(1), tt.randint(0, 3, (2, 4, 4))
    assert tt.equal(loss(x, target), F.nll_loss(x, target, reduction="sum"))


def test_a_container():
    with pytest.warns(FutureWarning, match="Subclass that instead"):
        found = tt.nn.Container(a=tt.nn.Linear(1, 2), b=tt.nn.ReLU())
    assert [name for name, _ in found.named_children()] == ["a", "b"]
    assert list(found.state_dict()) == ["a.weight", "a.bias"]


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_poolings_with_indices(device, dims):
    x = tt.arange(2 * 6**dims, device=device).view(1, 2, *[6] * dims).sin().requires_grad_()
    fixed, adaptive = (getattr(F, f"{kind}max_pool{dims}d") for kind in ("", "adaptive_"))
    for function, args in ((fixed, (2,)), (fixed, (3, 2, 1)), (adaptive, (2,))):
        named = getattr(F, f"{function.__name__}_with_indices")
        expected = function(x, *args, return_indices=True)
        for given in ({}, {"return_indices": False}, {"return_indices": True}):
            found = named(x, *args, **given)
            assert all(map(tt.equal, found, expected))
    named(x, 2)[0].sum().backward()
    assert x.grad.sum().item() == 2 * 2**dims


def test_poolings_with_indices_can_be_overridden():
    class Handled:
        @classmethod
        def __tensor_function__(cls, func, types, args=(), kwargs=None):
            return func, args, kwargs

    given = Handled()
    func, args, kwargs = F.max_pool2d_with_indices(given, 2, ceil_mode=True)
    assert func is F.max_pool2d_with_indices and args == (given, 2) and kwargs == {"ceil_mode": True}


def test_poolings_with_indices_know_their_arguments():
    with pytest.raises(TypeError, match="stridess"):
        F.max_pool2d_with_indices(tt.ones(1, 2, 2), 2, stridess=1)


def test_bounds_of_hardtanh():
    with pytest.warns(FutureWarning, match="`min_value` is deprecated and renamed to `min_val`"):
        layer = tt.nn.Hardtanh(min_value=-2.0, max_val=3.0)
    assert (layer.min_val, layer.max_val) == (-2.0, 3.0)
    with pytest.warns(FutureWarning, match="`max_value` is deprecated and renamed to `max_val`"):
        layer = tt.nn.Hardtanh(max_value=0.5)
    assert layer(tt.tensor([-2.0, 2.0])).tolist() == [-1.0, 0.5]
