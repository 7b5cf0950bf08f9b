"""Forward-mode differentiation: dual tensors, and `tt.func.jvp` over them."""

import triten as tt
from triten.autograd import forward_ad


def test_dual_tensors() -> None:
    with forward_ad.dual_level():
        x = forward_ad.make_dual(tt.tensor([1.0, 2.0]), tt.tensor([1.0, -1.0]))
        y = (x * x).sum()
        primal, tangent = forward_ad.unpack_dual(y)
    assert (primal.item(), tangent.item()) == (5.0, -2.0)


def test_forward_over_backward() -> None:
    with forward_ad.dual_level():
        x = forward_ad.make_dual(tt.tensor([2.0], requires_grad=True), tt.ones(1))
        (gradient,) = tt.autograd.grad((x**3).sum(), x)
        assert forward_ad.unpack_dual(gradient).tangent.tolist() == [12.0]
