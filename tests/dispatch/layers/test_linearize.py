"""`tt.func.linearize` and `debug_unwrap`."""

import pytest

import triten as tt
from triten.func import debug_unwrap, grad, jvp, linearize, vmap


def test_a_derivative_is_called_any_number_of_times(device):
    calls = []

    def function(x, y):
        calls.append(None)
        return x * y, {"a": x.sin()}

    x, y = tt.tensor([1.0, 2.0], device=device), tt.tensor([3.0, 4.0], device=device)
    value, derivative = linearize(function, x, y)
    assert value[0].tolist() == [3.0, 8.0] and tt.equal(value[1]["a"], x.sin())
    for _ in range(2):
        one, found = derivative(tt.tensor([1.0, 0.0], device=device), tt.tensor([0.0, 1.0], device=device))
        assert one.tolist() == [3.0, 2.0]
        assert found["a"].tolist() == pytest.approx([0.5403023, 0.0], abs=1e-6)
        assert not one.requires_grad and not found["a"].requires_grad
    assert len(calls) == 1


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.exp() * x.relu(),
        lambda x: (x @ x).cumsum(0).softmax(-1),
        lambda x: x.sort().values[0],
        lambda x: tt.linalg.inv(x + 3 * tt.eye(3, dtype=x.dtype)),
    ],
)
def test_it_is_what_forward_mode_gives(function):
    tt.manual_seed(0)
    x, t = tt.randn(2, 3, 3, dtype=tt.float64)
    value, derivative = linearize(function, x)
    expected = jvp(function, (x,), (t,))
    assert tt.allclose(value, expected[0]) and tt.allclose(derivative(t), expected[1])


def test_it_nests():
    x = tt.tensor([1.0, 2.0])
    ones = tt.ones(2)

    def slope(x):
        return linearize(lambda y: y**3, x)[1](ones)

    assert grad(lambda x: slope(x).sum())(x).tolist() == [6.0, 12.0]
    assert [each.tolist() for each in jvp(slope, (x,), (ones,))] == [[3.0, 12.0], [6.0, 12.0]]
    assert vmap(slope)(tt.stack([x, 2 * x])).tolist() == [[3.0, 12.0], [12.0, 48.0]]
    mapped = vmap(linearize(lambda y: y**3, x)[1])(tt.eye(2))
    assert mapped.tolist() == [[3.0, 0.0], [0.0, 12.0]] and not mapped.requires_grad


def test_gradients_flow_through_points_and_tangents():
    x = tt.tensor([1.0, 2.0], requires_grad=True)
    linearize(lambda y: y**3, x)[1](tt.ones(2)).sum().backward()
    assert x.grad.tolist() == [6.0, 12.0]
    t = tt.ones(2, requires_grad=True)
    linearize(lambda y: y**3, x.detach())[1](t).sum().backward()
    assert t.grad.tolist() == [3.0, 12.0]


def test_what_does_not_depend_on_the_point_has_no_derivative():
    assert linearize(lambda a: tt.ones(2), tt.ones(2))[1](tt.ones(2)).tolist() == [0.0, 0.0]


def test_tangents_that_do_not_fit():
    _, derivative = linearize(lambda x, y: x * y, tt.ones(2), tt.ones(2))
    for given, message in (
        ((tt.ones(2),), "to have the same argspec as the primals"),
        ((tt.ones(3), tt.ones(2)), r"tangent:0 with shape .*3.* in flattened pytree doesn't match the shape"),
        (
            (tt.ones(2), tt.ones(2, dtype=tt.float64)),
            "tangent:1 with dtype triten.float64 in flattened pytree",
        ),
        ((3, tt.ones(2)), "tangent:0 with shape None"),
    ):
        with pytest.raises(RuntimeError, match=message):
            derivative(*given)


def test_what_is_mapped_is_seen():
    seen = []

    def look(x):
        seen.append((debug_unwrap(x).shape, debug_unwrap(x, recurse=False).shape))
        return x

    vmap(vmap(look))(tt.ones(2, 3, 4))
    vmap(look, in_dims=1)(tt.ones(2, 3))
    look(tt.ones(5))
    assert seen == [((2, 3, 4), (3, 4)), ((2, 3), (2, 3)), ((5,), (5,))]
