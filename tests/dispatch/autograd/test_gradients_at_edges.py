"""Gradients at corners, poles and saturation are PyTorch's at 0, infinity and NaN."""

import math

import numpy as np
import pytest

import triten as tt

F = tt.nn.functional
INF, NAN = math.inf, math.nan


def leaf(values, device, dtype=tt.float32):
    return tt.tensor(values, dtype=dtype, device=device).requires_grad_()


def gradient(function, values, device, dtype=tt.float32):
    x = leaf(values, device, dtype)
    (grad,) = tt.autograd.grad(function(x).sum(), x)
    return grad.tolist()


def second(function, values, device, dtype=tt.float32):
    x = leaf(values, device, dtype)
    (grad,) = tt.autograd.grad(function(x).sum(), x, create_graph=True)
    return tt.autograd.grad(grad.sum(), x)[0].tolist()


def tangent(function, values, device):
    with tt.autograd.forward_ad.dual_level():
        x = tt.tensor(values, device=device)
        return tt.autograd.forward_ad.unpack_dual(
            function(tt.autograd.forward_ad.make_dual(x, tt.ones_like(x)))
        ).tangent.tolist()


def same(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-30)


def test_binary_cross_entropy_divides_by_no_less_than_1e_12(device):
    probabilities = [0.0, 0.0, 1.0, 1.0, 1e-13, 0.25]
    targets = tt.tensor([0.0, 1.0, 1.0, 0.0, 0.0, 1.0], dtype=tt.float64, device=device)
    found = gradient(
        lambda x: F.binary_cross_entropy(x, targets, reduction="sum"), probabilities, device, tt.float64
    )
    same(found, [0.0, -1e12, 0.0, 1e12, 0.1, -4.0])


def test_a_saturated_sigmoid_has_no_gradient_through_binary_cross_entropy(device):
    for score, target in ((20.0, 1.0), (-200.0, 0.0), (20.0, 0.0)):
        expected = tt.tensor([target], device=device)

        def loss(z, expected=expected):
            return F.binary_cross_entropy(tt.sigmoid(z), expected)

        assert gradient(loss, [score], device) == [0.0]
        assert second(loss, [score], device) == [0.0]


def test_a_perfectly_classified_batch_leaves_weights_numbers(device):
    model = tt.nn.Sequential(tt.nn.Linear(2, 1), tt.nn.Sigmoid()).to(device)
    with tt.no_grad():
        model[0].weight.fill_(100.0)
    optimizer = tt.optim.SGD(model.parameters(), lr=0.1)
    loss = tt.nn.BCELoss()(model(tt.ones(4, 2, device=device)), tt.ones(4, 1, device=device))
    loss.backward()
    optimizer.step()
    same(model[0].weight.tolist(), [[100.0, 100.0]])


def test_binary_cross_entropy_of_nan_is_refused_on_the_host():
    with pytest.raises(RuntimeError, match="all elements of input should be between 0 and 1"):
        F.binary_cross_entropy(tt.tensor([NAN]), tt.tensor([1.0]))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("relu", 1.0),
        ("relu6", 1.0),
        ("hardtanh", 1.0),
        ("elu", 1.0),
        ("selu", 1.0507010221481323),
        ("celu", 1.0),
        ("hardswish", 1.0),
        ("hardsigmoid", 0.0),
        ("hardshrink", 1.0),
        ("softshrink", 1.0),
        ("leaky_relu", 0.01),
    ],
)
def test_activations_pass_a_gradient_at_nan_as_their_comparisons_fall(name, expected, device):
    found = gradient(getattr(F, name), [NAN], device)
    if name == "hardsigmoid":
        assert found == [0.0]
    else:
        same(found, [expected])


def test_prelu_at_infinity_and_its_second_derivative(device):
    x = leaf([[INF, -INF, 2.0, -3.0]], device)
    weight = leaf([0.5, 0.25, 0.5, 0.25], device)
    by_x, by_weight = tt.autograd.grad(F.prelu(x, weight).sum(), (x, weight))
    assert by_x.tolist() == [[1.0, 0.25, 1.0, 0.25]]
    assert by_weight.tolist() == [0.0, -INF, 0.0, -3.0]
    fixed = tt.tensor([0.25], device=device)
    assert second(lambda x: F.prelu(x, fixed), [[-1.0, 0.0, 2.0]], device) == [[0.0, 0.0, 0.0]]
    x = leaf([[-3.0, 2.0]], device)
    slope = leaf([0.25], device)
    (by_x,) = tt.autograd.grad(F.prelu(x, slope).sum(), x, create_graph=True)
    assert tt.autograd.grad((by_x * tt.tensor([[5.0, 7.0]], device=device)).sum(), slope)[0].tolist() == [5.0]


@pytest.mark.parametrize("name", ["xlogy", "special_xlog1py"])
def test_products_with_logarithms_of_numbers(name, device):
    function = getattr(tt, name) if name == "xlogy" else tt.special.xlog1py
    number = 2.0 if name == "xlogy" else 1.0
    same(gradient(lambda x: function(x, number), [0.0, 3.0], device), [math.log(2.0)] * 2)
    zero = 0.0 if name == "xlogy" else -1.0
    assert gradient(lambda x: function(x, zero), [0.0, 3.0], device) == [0.0, -INF]


@pytest.mark.parametrize("loss", [F.smooth_l1_loss, F.huber_loss])
def test_losses_that_are_linear_far_out(loss, device):
    target = tt.zeros(4, device=device)

    def function(x):
        return loss(x, target, reduction="none")

    assert tangent(function, [INF, -INF, 0.5, 1.0], device) == [1.0, -1.0, 0.5, 1.0]
    assert gradient(function, [INF, -INF, 0.5, -1.0], device) == [1.0, -1.0, 0.5, -1.0]
    assert second(function, [1.0, -1.0, 0.5, 2.0], device) == [0.0, 0.0, 1.0, 0.0]


def test_margin_losses_on_the_margin_are_flat(device):
    label = tt.tensor([0], device=device)
    labels = tt.tensor([[0, -1]], device=device)
    on_it = [[0.0, -1.0]]
    assert gradient(lambda x: F.multi_margin_loss(x, label), on_it, device) == [[0.0, 0.0]]
    assert gradient(lambda x: F.multilabel_margin_loss(x, labels), on_it, device) == [[0.0, 0.0]]
    found = gradient(lambda x: F.multi_margin_loss(x, label, p=2), [[INF, 0.0]], device)
    assert found == [[0.0, 0.0]]


def test_special_functions_far_out(device):
    assert gradient(tt.digamma, [INF], device) == [0.0]
    assert gradient(tt.special.i1, [NAN], device) == [0.5]
    assert gradient(tt.special.i1e, [NAN], device) == [0.5]


def test_the_tangent_of_no_deviation_is_zero(device):
    assert tangent(lambda x: tt.std(x, -1), [[3.0, 3.0], [1.0, 3.0]], device) == [0.0, 0.0]
    found = tangent(lambda x: tt.std_mean(x, -1)[0] + tt.std_mean(x, -1)[1], [[3.0, 3.0]], device)
    assert found == [1.0]


def test_the_modulus_of_zero_has_a_second_derivative_of_zero(device):
    x = leaf([[0.0, 0.0]], device)
    (grad,) = tt.autograd.grad(tt.view_as_complex(x).abs().sum(), x, create_graph=True)
    assert tt.autograd.grad(grad.sum(), x)[0].tolist() == [[0.0, 0.0]]


def test_the_norm_of_one_element_is_its_size(device):
    values = [[3e38], [-1e-30], [0.0]]
    for order in (2, 3, 0.5):
        x = leaf(values, device)
        norm = tt.linalg.vector_norm(x, order, dim=-1)
        same(norm.tolist(), [3e38, 1e-30, 0.0])
    assert gradient(lambda x: tt.linalg.vector_norm(x, 2, dim=-1), values, device) == [[1.0], [-1.0], [0.0]]
    same(
        F.pairwise_distance(tt.tensor([[1e20]], device=device), tt.tensor([[0.0]], device=device)).tolist(),
        [1e20],
    )


def test_a_quotient_that_stays_in_range_does_not_overflow_on_the_way(device):
    tensor1 = tt.tensor([1e30], device=device)

    def function(x):
        return tt.addcdiv(tt.ones(1, device=device), tensor1, x, value=2)

    same(gradient(function, [1e10], device), [-2e10])
    same(tangent(lambda x: tt.addcdiv(x, x, x, value=3), [2.0], device), [1.0])


def test_extrema_of_nan(device):
    values = [1.0, NAN, 2.0, NAN]
    assert gradient(lambda x: x.max(), values, device) == [0.0, 0.5, 0.0, 0.5]
    for function in (tt.amax, tt.amin, lambda x: tt.aminmax(x)[0]):
        assert all(math.isnan(g) for g in gradient(function, values, device))
    assert gradient(tt.amax, [1.0, 2.0, 2.0], device) == [0.0, 0.5, 0.5]


INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("values", "expected", "recorded"),
    [
        ([INF, 0.0, 3.0], [NAN, INF, 0.0], [1.0, INF, NAN]),
        ([1.0, INF, 0.0], [INF, NAN, INF], [NAN, 1.0, INF]),
        ([0.0, 0.0, INF], [1.0, 0.0, 0.0], [NAN, NAN, 0.0]),
        ([1.0, 0.0, NAN], [1.0, NAN, 0.0], [NAN, NAN, 0.0]),
        ([-INF, 2.0, 0.0, 3.0], [NAN, -INF, -INF, 0.0], [3.0, NAN, -INF, NAN]),
        ([0.0, 1.0, 2.0, 0.0, 3.0], [4.0, 0.0, 0.0, 0.0, 0.0], [4.0, 0.0, 0.0, 0.0, 0.0]),
    ],
)
def test_running_products_of_zeros_and_infinities(values, expected, recorded, device):
    x = tt.tensor(values, dtype=tt.float64, device=device, requires_grad=True)
    for create_graph in (False, True):
        (found,) = tt.autograd.grad(x.cumprod(0).sum(), x, create_graph=create_graph)
        wanted = recorded if create_graph else expected
        np.testing.assert_array_equal(found.tolist(), wanted)


@pytest.mark.parametrize("base", [-3.0, -3, tt.tensor(-3.0, dtype=tt.float64), tt.tensor(-3)])
@pytest.mark.parametrize("power", [tt.pow, tt.float_power])
def test_a_complex_exponent_of_a_negative_base(base, power):
    exponent = tt.tensor(2.5 + 1.5j, dtype=tt.complex128, requires_grad=True)
    value = power(base, exponent)
    log = complex(math.log(3), math.pi)
    expected = (-3.0 + 0j) ** exponent.item()
    (grad,) = tt.autograd.grad(value, exponent, tt.ones_like(value))
    np.testing.assert_allclose(value.item(), expected, rtol=1e-12)
    np.testing.assert_allclose(grad.item(), (expected * log).conjugate(), rtol=1e-12)
    with tt.autograd.forward_ad.dual_level():
        dual = tt.autograd.forward_ad.make_dual(exponent.detach(), tt.ones_like(value.detach()))
        slope = tt.autograd.forward_ad.unpack_dual(power(base, dual)).tangent
    np.testing.assert_allclose(slope.item(), expected * log, rtol=1e-12)


@pytest.mark.parametrize(
    "values", [[2.0, 1.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [2.0, 1.0, 3.0, 0.0], [2.0, 1.0, 0.0, 5.0]]
)
@pytest.mark.parametrize("reduce", [tt.scatter_reduce, tt.index_reduce])
@pytest.mark.parametrize("outer", [tt.func.jacrev, tt.func.jacfwd])
@pytest.mark.parametrize("inner", [tt.func.jacrev, tt.func.jacfwd])
def test_second_derivatives_of_scattered_products_at_zeros(values, reduce, outer, inner):
    def product(x):
        return reduce(x[:2], 0, tt.tensor([0, 0]), x[2:], "prod")[0]

    a, _, b, c = values  # the product is a * b * c
    expected = [[0, 0, c, b], [0, 0, 0, 0], [c, 0, 0, a], [b, 0, a, 0]]
    found = outer(inner(product))(tt.tensor(values, dtype=tt.float64))
    np.testing.assert_array_equal(found.numpy(), expected)
