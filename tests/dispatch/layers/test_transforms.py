"""`tt.func`: grad, vjp, jvp, Jacobians and Hessians, alone, nested, in vmap and in the caller's graph."""

from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.dispatch.layers.levels import current_levels
from triten.dispatch.layers.transforms import as_tuple, slice_argnums
from triten.func import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp, vmap
from triten.runtime.local_dispatch_key_set import modes
from triten.tests.shared import comparison

X = np.array([0.5, 1.5, -2.0])


def tensor(values: Any, **options: Any) -> tt.Tensor:
    return tt.tensor(values, dtype=tt.float64, **options)


def close(found: Any, expected: Any) -> None:
    assert not found.requires_grad
    comparison.close(found, expected, rtol=1e-6, atol=1e-9)


@pytest.fixture(autouse=True)
def nothing_is_left() -> Any:
    yield
    assert current_levels() == ()
    assert not modes
    assert tt.is_grad_enabled()


# --- grad


def test_grad_of_a_scalar_function() -> None:
    close(grad(lambda x: x.sin().sum())(tensor(X)), np.cos(X))


def test_grad_leaves_its_argument_alone() -> None:
    x = tensor(X)
    grad(lambda x: (x * x).sum())(x)
    assert not x.requires_grad
    assert x.grad is None


def test_grad_with_several_arguments() -> None:
    def f(x: Any, y: Any, scale: float = 1.0) -> Any:
        return (x * y).sum() * scale

    x, y = tensor(X), tensor(X + 1)
    gx, gy = grad(f, argnums=(0, 1))(x, y, scale=3.0)
    close(gx, 3 * (X + 1))
    close(gy, 3 * X)
    close(grad(f, argnums=-1)(x, y), X)


def test_grad_of_trees() -> None:
    def loss(parameters: Any) -> Any:
        return (parameters["w"] * 2).sum() + (parameters["b"][0] ** 2).sum()

    found = grad(loss)({"w": tensor(X), "b": (tensor(X),)})
    close(found["w"], np.full(3, 2.0))
    close(found["b"][0], 2 * X)


def test_grad_with_auxiliary_output() -> None:
    found, (value, aux) = grad_and_value(lambda x: ((x * x).sum(), {"y": x + 1}), has_aux=True)(tensor(X))
    close(found, 2 * X)
    close(value, (X * X).sum())
    close(aux["y"], X + 1)
    found, aux = grad(lambda x: ((x * x).sum(), x), has_aux=True)(tensor(X))
    close(aux, X)


def test_grad_of_what_does_not_depend_on_it_is_zero() -> None:
    close(grad(lambda x: tensor(1.0))(tensor(X)), np.zeros(3))
    _, gy = grad(lambda x, y: x.sum(), argnums=(0, 1))(tensor(X), tensor(X))
    close(gy, np.zeros(3))


def test_grads_nest() -> None:
    third = grad(grad(grad(lambda x: x**4)))
    close(third(tensor(2.0)), 48.0)


def test_grad_inside_a_graph() -> None:
    """Keep closed-over tensors and the argument itself in the caller's graph."""
    w = tensor(X, requires_grad=True)
    found = grad(lambda x: (x * x * w).sum())(tensor(X))
    found.sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), 2 * X)
    x = tensor(X, requires_grad=True)
    grad(lambda x: (x**3).sum())(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 6 * X)


def test_no_grad_outside_does_not_stop_grad_and_inside_does() -> None:
    x = tensor(X, requires_grad=True)
    with tt.no_grad():
        close(grad(lambda x: (x * x).sum())(x), 2 * X)

    def f(x: Any) -> Any:
        with tt.no_grad():
            c = x**2
        return (x * c).sum()

    close(grad(f)(tensor(X)), X**2)


def test_grad_as_a_decorator() -> None:
    @grad
    def derivative(x: Any) -> Any:
        """Compute it."""
        return x.exp()

    close(derivative(tensor(1.0)), np.e)
    assert derivative.__doc__ == "Compute it."


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: grad(lambda x: x)(tensor(X)),
            RuntimeError,
            "return a scalar Tensor, got tensor with 1 dims",
        ),
        (lambda: grad(lambda x: 1.0)(tensor(X)), RuntimeError, "to return a Tensor, got <class 'float'>"),
        (
            lambda: grad(lambda x: (x.sum(), x))(tensor(X)),
            RuntimeError,
            "return a Tensor, got <class 'tuple'>",
        ),
        (
            lambda: grad(lambda x: x.sum(), has_aux=True)(tensor(X)),
            RuntimeError,
            r"should be a tuple: \(output, aux\)",
        ),
        (lambda: grad(lambda x: x, argnums=1)(tensor(1.0)), RuntimeError, "argnum=1, but only 1 positional"),
        (lambda: grad(lambda x: x, argnums=())(tensor(1.0)), RuntimeError, "non-empty"),
        (lambda: grad(lambda x: x, argnums="x")(tensor(1.0)), RuntimeError, "argnums must be int or Tuple"),
        (lambda: grad(lambda x, y: x, argnums=(0, -2))(tensor(1.0), 2), RuntimeError, "must be unique"),
        (lambda: grad(lambda x: x, argnums=("x",))(tensor(1.0)), RuntimeError, "argnum must be int, got"),
        (lambda: grad(lambda x: x)(1.0), ValueError, "must be Tensor, got <class 'float'>"),
        (lambda: grad(lambda x: x)(tt.tensor(1)), RuntimeError, "only Tensors of floating point dtype"),
        (lambda: grad(lambda x: 1 / 0)(tensor(1.0)), ZeroDivisionError, "division"),
    ],
)
def test_grad_refuses(call: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        call()


# --- vjp and jvp


def test_vjp_may_be_called_again() -> None:
    value, pull_back = vjp(lambda x, y: (x * y, x.sum()), tensor(X), tensor(X + 1))
    close(value[0], X * (X + 1))
    for scale in (1.0, 2.0):
        gx, gy = pull_back((tensor(np.full(3, scale)), tensor(scale)))
        close(gx, scale * (X + 1) + scale)
        close(gy, scale * X)


def test_vjp_with_auxiliary_output() -> None:
    _, pull_back, aux = vjp(lambda x: (x * x, {"sum": x.sum()}), tensor(X), has_aux=True)
    close(aux["sum"], X.sum())
    close(pull_back(tensor(X))[0], 2 * X * X)


def test_vjp_refuses_cotangents_of_another_structure() -> None:
    _, pull_back = vjp(lambda x: (x, x), tensor(X))
    with pytest.raises(RuntimeError, match="structure of cotangents"):
        pull_back(tensor(X))
    with pytest.raises(RuntimeError, match=r"grad_output\[1\] has a shape of .*\[2\]\) and output\[1\]"):
        pull_back((tensor(X), tensor(X[:2])))
    with pytest.raises(TypeError, match="gradients can be either Tensors or None, but got float"):
        pull_back((tensor(X), 1.0))


@pytest.mark.parametrize("has_aux", [False, True])
@pytest.mark.parametrize(
    "transform",
    [
        lambda f, **options: grad(lambda x: f(x), **options)(tensor(1.0)),
        lambda f, **options: vjp(f, tensor(1.0), **options),
        lambda f, **options: jvp(f, (tensor(1.0),), (tensor(1.0),), **options),
        lambda f, **options: jacrev(f, **options)(tensor(1.0)),
        lambda f, **options: jacfwd(f, **options)(tensor(1.0)),
    ],
)
def test_results_are_tensors(transform: Any, has_aux: bool) -> None:
    if has_aux:
        with pytest.raises(RuntimeError, match="Expected tensors, got unsupported type <class 'int'>"):
            transform(lambda x: (x, [x, 1]), has_aux=True)
        return
    message = "(to return a Tensor, got|to return only tensors, got unsupported type) <class 'int'>"
    with pytest.raises(RuntimeError, match=message):
        transform(lambda x: 1)


def test_a_value_is_not_empty() -> None:
    for result in ((), None):
        with pytest.raises(RuntimeError, match=r"non-empty output \(got output = "):
            vjp(lambda x, result=result: result, tensor(X))


def test_a_jacobian_by_single_rows_needs_no_vmap() -> None:
    sizes = []

    class Square(tt.autograd.Function):
        """A function whose backward reads numbers, which `vmap` refuses."""

        @staticmethod
        def forward(x: Any) -> Any:
            return x * x

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            sizes.append(grad.sum().item())
            return 2 * ctx.saved_tensors[0] * grad

    close(jacrev(Square.apply, chunk_size=1)(tensor(X)), np.diag(2 * X))
    assert sizes == [1.0, 1.0, 1.0]
    close(jacrev(lambda x: {"a": x * x, "b": x.sum()}, chunk_size=1)(tensor(X))["a"], np.diag(2 * X))
    assert jacrev(lambda x: x[:0], chunk_size=1)(tensor(X)).shape == (0, 3)
    for size in (0, -2):
        with pytest.raises(ValueError, match="jacrev: `chunk_size` should be greater than 0"):
            jacrev(lambda x: x, chunk_size=size)


class WithContext(tt.autograd.Function):
    """A function of the old form, which transforms refuse."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 2


REFUSED = [
    (lambda x: x.clone().requires_grad_().sum(), r"Tensor.requires_grad_\(\)"),
    (lambda x: tt.autograd.functional.jacobian(tt.sin, x).sum(), "torch.autograd.functional"),
    (lambda x: tt.autograd.functional.hessian(lambda y: y.sum(), x).sum(), "torch.autograd.functional"),
    (lambda x: tt.autograd.functional.vjp(tt.sin, x, x)[1].sum(), "torch.autograd.functional"),
    (lambda x: tt.autograd.functional.jvp(tt.sin, x, x)[1].sum(), "torch.autograd.functional"),
    (lambda x: (x * 2).retain_grad(), r"Tensor.retain_grad\(\)"),
    (lambda x: x.sum().backward(), r"backward\(\) called inside a functorch transform"),
    (lambda x: tt.autograd.backward([x.sum()]), r"backward\(\) called inside a functorch transform"),
    (lambda x: WithContext.apply(x).sum(), "must override the setup_context.*WithContext"),
]


@pytest.mark.parametrize(("function", "message"), REFUSED)
@pytest.mark.parametrize(
    "transform",
    [
        lambda f, x: grad(f)(x),
        lambda f, x: tt.vmap(grad(f))(x.unsqueeze(0)),
        lambda f, x: vjp(f, x),
        lambda f, x: jvp(f, (x,), (x,)),
        lambda f, x: jacrev(f)(x),
    ],
)
def test_a_transform_refuses_what_needs_leaves(transform: Any, function: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        transform(function, tensor(X))
    leaf = tensor(X).requires_grad_()  # the refusal ends with the transform
    WithContext.apply(leaf).sum().backward()
    close(leaf.grad, np.full(3, 2.0))


def test_a_transform_makes_leaves_in_other_ways() -> None:
    def f(x: Any) -> Any:
        weight = tt.nn.Parameter(tt.full((3,), 2.0, dtype=x.dtype))
        bias = tt.ones(3, dtype=x.dtype)
        bias.requires_grad = True
        return (x * weight * tt.ones(3, requires_grad=True) + bias).sum()

    close(grad(f)(tensor(X)).detach(), np.full(3, 2.0))


def test_jvp_computes_tangents_where_the_caller_does_not() -> None:
    with tt.autograd.forward_ad._set_fwd_grad_enabled(False):
        _, moved = jvp(tt.sin, (tensor(X),), (tensor(np.ones(3)),))
    close(moved, np.cos(X))


def test_jvp_is_the_derivative_in_a_direction() -> None:
    direction = np.array([1.0, 0.0, 2.0])
    value, moved = jvp(lambda x: {"y": (x * x).sum()}, (tensor(X),), (tensor(direction),))
    close(value["y"], (X * X).sum())
    close(moved["y"], (2 * X * direction).sum())


def test_jvp_with_auxiliary_output_and_constants() -> None:
    _, moved, aux = jvp(lambda x: (tensor(X), x + 1), (tensor(X),), (tensor(X),), has_aux=True)
    close(moved, np.zeros(3))
    close(aux, X + 1)
    with pytest.raises(RuntimeError, match="independent of the inputs"):
        jvp(lambda x: tensor(X), (tensor(X),), (tensor(X),), strict=True)


@pytest.mark.parametrize(
    ("primals", "tangents", "message"),
    [
        (tensor(X), (tensor(X),), "Expected primals to be a tuple"),
        ((tensor(X),), tensor(X), "same python structure"),
        ((), (), "Expected primals to contain at least one Tensor"),
        ((tensor(X),), (tensor(X), tensor(X)), "same python structure"),
        ((tensor(X),), (tensor(X[:2]),), "different size"),
    ],
)
def test_jvp_refuses(primals: Any, tangents: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        jvp(lambda x: x, primals, tangents)


def f(x: Any) -> Any:
    return (x.sin() * x**2).sum()


D1 = 2 * X * np.sin(X) + X**2 * np.cos(X)
D2 = 2 * np.sin(X) + 4 * X * np.cos(X) - X**2 * np.sin(X)


def along(function: Any) -> Any:
    """Return the directional derivative of a function of a vector, in the direction of ones."""
    return lambda x: jvp(function, (x,), (tt.ones_like(x),))[1]


@pytest.mark.parametrize(
    "second", [along(grad(f)), grad(along(f)), along(grad(f)), grad(lambda x: grad(f)(x).sum())]
)
def test_second_derivatives_by_every_order_of_modes(second: Any) -> None:
    close(second(tensor(X)), D2)


def test_jvp_of_jvp() -> None:
    close(along(along(f))(tensor(X)), D2.sum())


# --- Jacobians


def layer(w: Any, x: Any) -> Any:
    return {"out": (w @ x).tanh(), "norm": (w * w).sum()}


@pytest.mark.parametrize("transform", [jacrev, jacfwd])
def test_jacobians_of_trees_by_several_arguments(transform: Any) -> None:
    w, x = np.linspace(-1, 1, 6).reshape(2, 3), X
    found = transform(layer, argnums=(0, 1))(tensor(w), tensor(x))
    slope = 1 - np.tanh(w @ x) ** 2
    close(found["out"][0], np.einsum("i,ij,k->ijk", slope, np.eye(2), x))
    close(found["out"][1], slope[:, None] * w)
    close(found["norm"][0], 2 * w)
    close(found["norm"][1], np.zeros(3))


@pytest.mark.parametrize("transform", [jacrev, jacfwd])
def test_jacobians_with_auxiliary_output(transform: Any) -> None:
    found, aux = transform(lambda x: (x * x, x + 1), has_aux=True)(tensor(X))
    close(found, np.diag(2 * X))
    close(aux, X + 1)


def test_jacrev_in_chunks() -> None:
    close(jacrev(lambda x: x * x, chunk_size=2)(tensor(X)), np.diag(2 * X))


@pytest.mark.parametrize("outer", [jacrev, jacfwd])
@pytest.mark.parametrize("inner", [jacrev, jacfwd, grad])
def test_hessians_by_every_order_of_modes(outer: Any, inner: Any) -> None:
    close(outer(inner(f))(tensor(X)), np.diag(D2))


def test_hessian_of_a_network() -> None:
    rng = np.random.default_rng(0)
    x, w2 = rng.standard_normal((5, 3)), rng.standard_normal(4)

    def loss(w: Any) -> Any:
        return (((tensor(x) @ w).tanh() @ tensor(w2)) ** 2).mean()

    at = rng.standard_normal((3, 4))
    found = hessian(loss)(tensor(at))
    assert found.shape == (3, 4, 3, 4)
    np.testing.assert_allclose(found.numpy().reshape(12, 12), found.numpy().reshape(12, 12).T, atol=1e-9)
    eps = 1e-5
    step = np.zeros_like(at)
    step[1, 2] = eps
    numeric = (grad(loss)(tensor(at + step)).numpy() - grad(loss)(tensor(at - step)).numpy()) / (2 * eps)
    np.testing.assert_allclose(found.numpy()[1, 2], numeric, atol=1e-6)


def test_jacobians_in_the_callers_graph() -> None:
    x = tensor(X, requires_grad=True)
    jacrev(lambda x: x**3)(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 6 * X)


# --- with vmap


def network(w: Any, x: Any, y: Any) -> Any:
    return (((x @ w).tanh() - y) ** 2).mean()


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_gradients_for_each_example(device: str) -> None:
    rng = np.random.default_rng(0)
    w, x, y = (tt.tensor(rng.standard_normal(s), device=device) for s in ((3, 2), (5, 3), (5, 2)))
    found = vmap(grad(network), in_dims=(None, 0, 0))(w, x, y)
    for i in range(5):
        close(found[i].cpu(), grad(network)(w, x[i], y[i]).cpu().numpy())


def test_grad_of_vmap() -> None:
    close(grad(lambda x: vmap(lambda v: v * v)(x).sum())(tensor(X)), 2 * X)


def test_vmap_of_grad_of_vmap_in_a_graph() -> None:
    w = tensor(2.0, requires_grad=True)
    x = tensor(np.arange(6.0).reshape(2, 3))
    found = vmap(grad(lambda row: vmap(lambda v: w * v**3)(row).sum()))(x)
    np.testing.assert_allclose(found.detach().numpy(), 6 * np.arange(6.0).reshape(2, 3) ** 2)
    found.sum().backward()
    assert w.grad.item() == (3 * np.arange(6.0) ** 2).sum()


def test_vmap_of_jvp_and_jvp_of_vmap() -> None:
    x = tensor(X)
    close(vmap(lambda v: jvp(lambda u: u**3, (v,), (tt.ones_like(v),))[1])(x), 3 * X**2)
    close(jvp(vmap(lambda u: u**3), (x,), (tt.ones_like(x),))[1], 3 * X**2)
    close(vmap(lambda t: jvp(lambda u: u**3, (x,), (t,))[1])(tensor(np.eye(3))), np.diag(3 * X**2))


def test_vmap_of_hessian() -> None:
    found = vmap(hessian(f))(tensor(np.stack([X, X])))
    close(found[1], np.diag(D2))


def test_the_gradient_by_what_is_not_mapped_is_mapped() -> None:
    w = tensor(2.0)
    close(vmap(lambda v: grad(lambda w: w * w * v)(w))(tensor(X)), 4 * X)


@pytest.mark.parametrize("transform", [jacrev, jacfwd])
def test_jacobians_of_complex_numbers_are_refused(transform: Any) -> None:
    with pytest.raises(
        RuntimeError, match="inputs to be real but received complex tensor at flattened input idx: 0"
    ):
        transform(lambda z: z * z)(tt.ones(2, dtype=tt.complex64))
    with pytest.raises(RuntimeError, match="outputs to be real"):
        transform(lambda x: (x, tt.complex(x, x)))(tt.ones(2))


def test_jvp_refuses_what_is_no_tangent() -> None:
    with pytest.raises(RuntimeError, match="Expected tangents to only contain Tensors"):
        jvp(tt.sin, (tt.ones(2),), (5,))


def test_detach_in_place_inside_vmap_cuts_what_is_outside_of_it():
    def each(x):
        y = x * x
        y.detach_()
        return y * y + x

    def function(x):
        return tt.vmap(each)(x).sum()

    x = tt.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert tt.func.grad(function)(x).tolist() == [[1.0, 1.0]] * 2
    assert tt.func.jvp(function, (x,), (x,))[1].item() == 10.0


# --- hooks on saved tensors, which these transforms do not see


def hooks() -> Any:
    return tt.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x)


def square(x: tt.Tensor) -> tt.Tensor:
    return (x * x).sum()


def hooked_square(x: tt.Tensor) -> tt.Tensor:
    with hooks():
        return square(x)


@pytest.mark.parametrize("transform", [grad, grad_and_value, jacrev, hessian, lambda f: lambda x: vjp(f, x)])
def test_hooks_on_saved_tensors_are_refused(transform: Any) -> None:
    with pytest.raises(RuntimeError, match="don't yet support saved tensor hooks"):
        transform(hooked_square)(tensor(X))
    with hooks(), pytest.raises(RuntimeError, match="don't yet support saved tensor hooks"):
        transform(square)(tensor(X))
    transform(square)(tensor(X))


def test_forward_mode_and_vmap_take_hooks_on_saved_tensors() -> None:
    close(jacfwd(hooked_square)(tensor(X)), 2 * X)
    close(vmap(hooked_square)(tensor(X)), X * X)


# --- writes to tensors that a function allocates


def assembled(x: tt.Tensor) -> tt.Tensor:
    """Return [x[1], x[0] ** 2, x[1] ** 2, x[0] ** 3, x[1] ** 3, x[2] ** 3], written part by part."""
    out = tt.zeros(6, dtype=x.dtype)
    out[0] = x[1]
    out[1:3].copy_(x[:2] ** 2)
    cubes = tt.empty(3, dtype=x.dtype)
    cubes.copy_(x**3)
    out[3:] = cubes
    return out


def test_forward_mode_of_writes_to_new_tensors() -> None:
    expected = np.zeros((6, 3))
    expected[0, 1] = 1.0
    expected[1, 0], expected[2, 1] = 2 * X[:2]
    expected[3:] = np.diag(3 * X**2)
    close(jacfwd(assembled)(tensor(X)), expected)


def test_the_primal_of_a_mapped_tangent_is_computed_once() -> None:
    shapes: list[Any] = []

    def f(x: tt.Tensor) -> tt.Tensor:
        primal = tt.autograd.forward_ad.unpack_dual(x.sin()).primal
        shapes.append(tt.func.debug_unwrap(primal).shape)
        return x.sin()

    close(jacfwd(f)(tensor(X)), np.diag(np.cos(X)))
    assert shapes == [(3,)]


def test_tangents_of_a_shared_primal_have_no_graph_of_the_caller() -> None:
    """`logdet` has no formula of its own for tangents, and differentiates its backward."""
    x = np.array([1.0, 2.0])

    def f(t: tt.Tensor) -> tt.Tensor:
        return tt.logdet(tt.diag(t))

    close(jacfwd(f)(tensor(x)), 1 / x)
    close(jacfwd(jacfwd(f))(tensor(x)), np.diag(-1 / x**2))


def test_mapped_tangents_of_a_shared_primal_inside_another_map() -> None:
    rows = np.linspace(-1, 1, 6).reshape(2, 3)

    def f(x: tt.Tensor) -> tt.Tensor:
        return vmap(lambda row: grad(lambda y: ((y * row) ** 3).sum())(x))(tensor(rows))

    expected = 6 * X * rows**3
    close(jacfwd(f)(tensor(X)), expected[:, :, None] * np.eye(3))
    close(jacfwd(jacfwd(lambda x: f(x).sum()))(tensor(X)), np.diag((6 * rows**3).sum(0)))


# --- the rows of a Jacobian


@pytest.mark.parametrize("chunk_size", [None, 1, 2, 3, 7])
def test_rows_are_copied_into_allocated_memory(chunk_size: int | None) -> None:
    def f(x: tt.Tensor) -> Any:
        return x.sin(), x[:2].prod()

    found = jacrev(f, chunk_size=chunk_size, _preallocate_and_copy=True)(tensor(X))
    close(found[0], np.diag(np.cos(X)))
    close(found[1], [X[1], X[0], 0.0])


def test_arguments_by_position() -> None:
    assert slice_argnums(("a", "b"), -1) == ("b",)
    assert slice_argnums(("a", "b"), 1, as_tuple=False) == "b"
    assert slice_argnums(("a", "b", "c"), (2, 0)) == ("c", "a")
    with pytest.raises(RuntimeError, match="must be unique"):
        slice_argnums(("a", "b"), (0, -2))
    assert as_tuple(1) == (1,)
    assert as_tuple((1, 2)) == (1, 2)


def test_a_captured_tensor_that_was_written_leaves_the_graph_with_the_transform() -> None:
    captured = tt.zeros(3)
    head = captured[:2]

    def function(x):
        head.copy_(x[:2] * 2)
        return (captured * x).sum()

    x = tt.ones(3)
    for derivative in (
        lambda: grad(function)(x),
        lambda: vjp(function, x)[1](tt.tensor(1.0))[0],
    ):
        captured.zero_()
        assert derivative().tolist() == [4, 4, 0]
        assert captured.tolist() == [2, 2, 0]
        assert not captured.requires_grad
        assert not head.requires_grad
        assert captured.grad_fn is None


def test_second_derivatives_pass_through_a_captured_tensor() -> None:
    captured = tt.zeros(2)

    def function(x):
        captured.copy_(x * x)
        return (captured * x).sum()

    x = tt.tensor([1.0, 2.0])
    assert grad(lambda x: grad(function)(x).sum())(x).tolist() == [6, 12]
    assert not captured.requires_grad
    weight = tt.ones(2, requires_grad=True)
    result = grad(lambda x: function(x * weight))(x)
    result.sum().backward()
    assert weight.grad.tolist() == [9, 36]


def test_written_outputs_stay_in_the_graph_of_vjp() -> None:
    def function(x):
        out = tt.zeros(2)
        out[0].copy_(x * 3)
        return out[:1]

    value, pull_back = vjp(function, tt.tensor(2.0))
    assert value.tolist() == [6]
    assert pull_back(tt.ones(1))[0].item() == 3


def test_the_text_of_a_tensor_names_the_transforms_that_differentiate_it() -> None:
    texts: list[str] = []

    def function(x):
        texts.append("".join(repr(x.sin()).split()))
        return x.sum()

    def shown(transformed) -> str:
        transformed(tt.zeros(2))
        return texts.pop()

    assert shown(grad(function)) == "GradTrackingTensor(lvl=1,value=tensor([0.,0.]))"
    assert shown(lambda x: vjp(function, x)) == "GradTrackingTensor(lvl=1,value=tensor([0.,0.]))"
    assert shown(grad(lambda x: grad(function)(x).sum())) == (
        "GradTrackingTensor(lvl=2,value=GradTrackingTensor(lvl=1,value=tensor([0.,0.])))"
    )
    assert shown(vmap(grad(function))) == (
        "GradTrackingTensor(lvl=2,value=BatchedTensor(lvl=1,bdim=0,value=tensor([0.,0.])))"
    )
    assert shown(grad(lambda x: vmap(function)(x).sum())) == (
        "BatchedTensor(lvl=2,bdim=0,value=GradTrackingTensor(lvl=1,value=tensor([0.,0.])))"
    )
    assert shown(grad(lambda x: grad(lambda y: function(x) + y)(x.sum()))) == (
        "GradTrackingTensor(lvl=1,value=tensor([0.,0.]))"
    )
    assert shown(grad(lambda x: function(tt.ones(1)) + x.sum())) == "tensor([0.8415])"
