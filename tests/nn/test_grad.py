"""`tt.nn.grad`: gradients of convolutions by their operands."""

from __future__ import annotations

import pytest

import triten as tt
from triten.nn import functional as F
from triten.nn import grad


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize(("stride", "padding", "dilation", "groups"), [(1, 0, 1, 1), (2, 1, 2, 2)])
def test_gradients_are_those_of_backward(
    dims: int, stride: int, padding: int, dilation: int, groups: int
) -> None:
    x = tt.randn(2, 4, *[7] * dims, dtype=tt.float64, requires_grad=True)
    w = tt.randn(6, 4 // groups, *[3] * dims, dtype=tt.float64, requires_grad=True)
    settings = (stride, padding, dilation, groups)
    out = getattr(F, f"conv{dims}d")(x, w, None, *settings)
    given = tt.randn_like(out)
    by_input, by_weight = tt.autograd.grad(out, (x, w), given)
    of = {name: getattr(grad, f"conv{dims}d_{name}") for name in ("input", "weight")}
    tt.testing.assert_close(of["input"](x.shape, w.detach(), given, *settings), by_input)
    tt.testing.assert_close(of["weight"](x.detach(), w.shape, given, *settings), by_weight)


def test_functional_has_the_module():
    assert tt.nn.functional.grad is grad
