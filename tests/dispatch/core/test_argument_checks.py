"""Argument errors are raised before any kernel runs, as in PyTorch's parser: types, ranges, missing
arguments.
"""

import pytest

import triten as tt

X = tt.ones(2, 3)
HUGE = 1 << 65


def refused(call):
    try:
        result = call()
    except Exception as error:
        return type(error)
    return result


@pytest.mark.parametrize(
    "call",
    [
        lambda: tt.zeros(2, requires_grad="x"),
        lambda: tt.zeros(2, requires_grad=1),
        lambda: tt.rand(2, requires_grad=0),
        lambda: tt.zeros_like(X, requires_grad="x"),
        lambda: tt.arange(3.0, requires_grad="x"),
        lambda: tt.full((2,), 1.0, requires_grad="x"),
        lambda: X.new_zeros(2, requires_grad="x"),
        lambda: tt.tensor(1.0, requires_grad="x"),
        lambda: tt.tensor([1.0], requires_grad=1),
    ],
)
def test_requires_grad_is_a_bool(call):
    with pytest.raises(TypeError, match=r"argument 'requires_grad' must be bool, not (str|int)"):
        call()
    assert not tt.zeros(2, requires_grad=None).requires_grad


@pytest.mark.parametrize(
    "call",
    [
        lambda: tt.zeros(),
        lambda: tt.ones(),
        lambda: tt.empty(),
        lambda: tt.rand(),
        lambda: tt.randn(),
        lambda: X.view(),
        lambda: X.reshape(),
        lambda: X.expand(),
        lambda: X.permute(),
        lambda: X.new_zeros(),
    ],
)
def test_sizes_are_required(call):
    scalar = tt.ones(())
    for made in (tt.zeros(()), tt.ones(()), tt.empty(()), tt.rand(()), scalar.view(()), scalar.reshape(())):
        assert made.shape == ()
    for _ in range(2):
        assert refused(call) is TypeError


@pytest.mark.parametrize("name", ["sum", "mean", "cumsum", "softmax", "max", "unsqueeze", "select", "argmax"])
def test_a_string_is_no_dimension_of_a_tensor_without_names(name):
    rest = (0,) if name == "select" else ()
    assert refused(lambda: getattr(tt, name)(X, "text", *rest)) is TypeError
    assert refused(lambda: getattr(X, name)("text", *rest)) is TypeError


def test_a_string_is_no_dimension_to_join_tensors_along():
    assert refused(lambda: tt.cat((X, X), "text")) is TypeError


@pytest.mark.parametrize("value", [1 << 63, -(1 << 63) - 1, HUGE])
def test_integers_beyond_64_bits_are_refused(value):
    for call in (
        lambda: tt.cumsum(X, value),
        lambda: X.sum(value),
        lambda: tt.roll(X, value),
        lambda: tt.select(X, 0, value),
        lambda: tt.nn.functional.avg_pool2d(tt.ones(1, 1, 4, 4), value),
    ):
        with pytest.raises(ValueError, match="Overflow when unpacking long long"):
            call()
    assert refused(lambda: X.sum((value,))) is TypeError
    assert refused(lambda: tt.zeros((2, value))) is TypeError


@pytest.mark.parametrize("value", [-(1 << 63) - 1, HUGE])
def test_numbers_beyond_64_bits_are_refused(value):
    for call in (
        lambda: tt.full((2,), value),
        lambda: tt.arange(value),
        lambda: tt.linspace(0, value, 3),
        lambda: tt.addmm(X, tt.ones(2, 2), X, beta=value),
    ):
        with pytest.raises(OverflowError):
            call()


def test_a_tensor_stands_for_a_number_only_without_dimensions(device):
    x = tt.ones(2, 3, device=device)
    with tt.no_grad():
        assert tt.add(x, x, alpha=tt.tensor(2)).tolist() == (3 * x).tolist()
        assert tt.clamp(x, tt.tensor(2.0).item()).tolist() == (2 * x).tolist()
        for misfit in (tt.ones(3), tt.ones(0), tt.tensor(1.5, requires_grad=True)):
            assert refused(lambda misfit=misfit: tt.add(x, x, alpha=misfit)) is TypeError
            assert refused(lambda misfit=misfit: tt.sub(x, x, alpha=misfit, out=x.clone())) is TypeError
    assert tt.add(x, x, alpha=tt.tensor(3)).tolist() == (4 * x).tolist()
