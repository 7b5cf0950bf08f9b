"""Derivatives of `scatter_reduce` and `index_reduce`, both ways, for every reduction, zeros and ties among factors."""

import numpy as np
import pytest

import triten as tt

REDUCED = ("sum", "prod", "mean", "amax", "amin")


def leaf(values):
    return tt.tensor(values, dtype=tt.float64).requires_grad_()


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", REDUCED)
def test_forward_and_backward_agree_with_differences(reduce, include_self):
    values = np.random.default_rng(7).permutation(18).reshape(3, 6) / 5 - 1.7
    x, s = leaf(values[:, :4]), leaf(values[:, 3:])
    each = tt.tensor([[0, 3, 0], [1, 1, 1], [2, 0, 3]])
    assert tt.autograd.gradcheck(
        lambda x, s: x.scatter_reduce(1, each, s, reduce, include_self=include_self),
        (x, s),
        check_forward_ad=True,
    )
    if reduce != "sum":
        where = tt.tensor([3, 1, 3])
        assert tt.autograd.gradcheck(
            lambda x, s: x.index_reduce(1, where, s, reduce, include_self=include_self),
            (x, s),
            check_forward_ad=True,
        )


@pytest.mark.parametrize("zeros", [1, 2])
def test_a_product_with_zeros_has_the_tangents_of_the_product_of_the_others(zeros):
    factors = [2.0, 0.0, 0.0 if zeros == 2 else 3.0, 5.0]
    s, t = tt.tensor(factors), tt.tensor([0.5, 1.5, -1.0, 2.0])
    where = tt.tensor([0, 0, 0, 1])
    _, tangent = tt.func.jvp(lambda s: tt.ones(2).scatter_reduce(0, where, s, "prod"), (s,), (t,))
    assert tangent.tolist() == [9.0 if zeros == 1 else 0.0, 2.0]


def test_tied_extremes_share_the_tangent():
    _, tangent = tt.func.jvp(
        lambda x, s: x.scatter_reduce(0, tt.tensor([0, 0]), s, "amax"),
        (tt.tensor([3.0, 1.0]), tt.tensor([3.0, 2.0])),
        (tt.tensor([1.0, 7.0]), tt.tensor([2.0, 9.0])),
    )
    assert tangent.tolist() == [1.5, 7.0]


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean"])
def test_complex_elements_are_reduced_with_their_derivative(reduce: str, include_self: bool) -> None:
    index = tt.tensor([[0, 1, 0], [1, 0, 0]])
    x, src = (tt.randn(n, 3, dtype=tt.complex128, requires_grad=True) for n in (3, 2))

    def function(x: tt.Tensor, src: tt.Tensor) -> tt.Tensor:
        return tt.scatter_reduce(x, 0, index, src, reduce, include_self=include_self)

    assert tt.autograd.gradcheck(function, (x, src), check_forward_ad=True)
