"""Derivatives of compiled functions: incoming and outgoing gradients, double backward, hooks."""

from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.tests.compiler.beside_eager import drawn, graphs, same
from triten.tests.shared.comparison import close

F = tt.nn.functional


def function(x: tt.Tensor, y: tt.Tensor) -> tuple[tt.Tensor, tt.Tensor]:
    return (x * y).exp().sum(0), (x.sin() @ y.t()) ** 3


def test_double_backward() -> None:
    compiled = tt.compile(function, fullgraph=True)
    found = []
    for f in (function, compiled):
        x, y = drawn(2, 3, seed=1, grad=True), drawn(2, 3, seed=2, grad=True)
        a, b = f(x / 4, y / 4)
        first = tt.autograd.grad(a.sum() + b.square().sum(), (x, y), create_graph=True)
        second = tt.autograd.grad(first[0].square().sum() + first[1].sum(), (x, y))
        found.append((*first, *second))
    close(found[1], found[0], 1e-5, 1e-5)
    assert graphs(compiled) == 1


def test_double_backward_through_random_numbers_is_refused() -> None:
    x = drawn(8, grad=True)
    loss = tt.compile(lambda x: F.dropout(x, 0.5).square().sum(), fullgraph=True)(x)
    with pytest.raises(RuntimeError, match="draws random numbers cannot be differentiated twice"):
        tt.autograd.grad(loss, x, create_graph=True)


def test_gradients_of_dropout_are_those_of_the_numbers_drawn() -> None:
    x = drawn(50, grad=True)
    compiled = tt.compile(lambda x: F.dropout(x, 0.5) * x.detach(), fullgraph=True)
    for _ in range(3):
        result = compiled(x)
        (grad,) = tt.autograd.grad(result.sum(), x)
        same(grad * x.detach(), result.detach())


GRADIENTS: dict[str, Callable[[Any, Any], Any]] = {
    "expanded": lambda a, b: a.sum() + b.sum(),
    "of the first alone": lambda a, b: (a * 2).sum(),
    "of the second alone": lambda a, b: b.t().contiguous().sum(),
    "transposed": lambda a, b: (b.t() @ drawn(2, 2)).sum() + a[::2].sum(),
    "one element": lambda a, b: b[1, 0],
    "half": lambda a, b: (a.half() * 2).sum().float() + b.bfloat16().sum(),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_that_come_in(name: str) -> None:
    compiled = tt.compile(function, fullgraph=True)
    for _ in range(2):
        found = []
        for f in (function, compiled):
            x, y = drawn(2, 3, seed=1, grad=True), drawn(2, 3, seed=2, grad=True)
            found.append(tt.autograd.grad(GRADIENTS[name](*f(x, y)), (x, y)))
        close(found[1], found[0], 1e-5, 1e-6, name)


@pytest.mark.parametrize("wanted", [(True, False), (False, True), (True, True)])
def test_inputs_that_require_gradients(wanted: tuple[bool, bool]) -> None:
    compiled = tt.compile(function, fullgraph=True)
    found = []
    for f in (function, compiled):
        inputs = [drawn(2, 3, seed=i, grad=g) for i, g in enumerate(wanted)]
        a, b = f(*inputs)
        (a.sum() + b.sum()).backward()
        found.append([x.grad for x in inputs])
    assert [g is None for g in found[1]] == [not g for g in wanted]
    close([g for g in found[1] if g is not None], [g for g in found[0] if g is not None], 1e-6, 1e-6)


def test_an_input_that_the_result_does_not_need_has_no_gradient() -> None:
    x, y = drawn(3, seed=1, grad=True), drawn(3, seed=2, grad=True)
    result = tt.compile(lambda x, y: (x * 2, (y * 3).detach()), fullgraph=True)(x, y)
    assert result[0].requires_grad and not result[1].requires_grad
    result[0].sum().backward()
    same(x.grad, tt.ones(3) * 2)
    assert y.grad is None


def test_results_that_have_no_gradient() -> None:
    compiled = tt.compile(lambda x: (x * 2, x.argmax(), x > 0, x.detach() + 1, 3), fullgraph=True)
    x = drawn(3, grad=True)
    doubled, *others, three = compiled(x)
    assert doubled.requires_grad and not any(t.requires_grad for t in others) and three == 3
    same(others, [x.argmax(), x > 0, x.detach() + 1])


def test_one_tensor_twice_among_the_results() -> None:
    def f(x: tt.Tensor) -> Any:
        y = x * 2
        return y, {"again": y, "more": y + 1}

    x = drawn(3, grad=True)
    first, rest = tt.compile(f, fullgraph=True)(x)
    assert rest["again"] is first
    (first.sum() + rest["again"].sum() + rest["more"].sum()).backward()
    same(x.grad, tt.full((3,), 6.0))


VIEWS: dict[str, Callable[[tt.Tensor], Any]] = {
    "a view": lambda x: (x.t(), x.sin()),
    "itself": lambda x: (x, x.sin()),
    "a part": lambda x: (x[1:], x.sin(), x[:, 0]),
    "views alone": lambda x: (x.t(), x[0]),
}


@pytest.mark.parametrize("name", VIEWS)
def test_results_that_view_inputs(name: str) -> None:
    compiled = tt.compile(VIEWS[name], fullgraph=True)
    for _ in range(2):
        found = []
        for f in (VIEWS[name], compiled):
            x = drawn(2, 3, grad=True)
            results = f(x * 1)
            sum((r * r).sum() for r in results).backward()
            found.append((results, x.grad, [r._is_view() for r in results]))
        same(found[1], found[0], name)


def test_a_result_can_be_written_to() -> None:
    found = []
    for f in (function, tt.compile(function)):
        x, y = drawn(2, 3, seed=1, grad=True), drawn(2, 3, seed=2, grad=True)
        a, b = f(x, y)
        a.mul_(2)
        (a.sum() + b.sum()).backward()
        found.append([x.grad, y.grad])
    close(found[1], found[0], 1e-6, 1e-6)


def test_an_input_that_is_written_to_before_backward_is_an_error() -> None:
    x, y = drawn(2, 3, seed=1, grad=True), drawn(2, 3, seed=2)
    result = tt.compile(function, fullgraph=True)(x, y)[0]
    y.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


def test_hooks_on_inputs_and_results_run_once() -> None:
    seen = []
    compiled = tt.compile(lambda x: x * 3)
    for _ in range(2):
        x = tt.ones(2, requires_grad=True)
        x.register_hook(lambda grad: seen.append("input") or grad * 2)
        x.register_post_accumulate_grad_hook(lambda x: seen.append("accumulated"))
        result = compiled(x)
        result.register_hook(lambda grad: seen.append("result") or grad * 5)
        assert not seen
        result.sum().backward()
        assert seen == ["result", "input", "accumulated"]
        same(x.grad, tt.full((2,), 30.0))
        seen.clear()


def test_hooks_inside_are_part_of_the_derivative() -> None:
    def f(x: tt.Tensor) -> tt.Tensor:
        y = x * 2
        y.register_hook(lambda grad: grad * 10)
        return y * 3

    compiled = tt.compile(f)
    for _ in range(2):
        x = tt.ones(2, requires_grad=True)
        compiled(x).sum().backward()
        same(x.grad, tt.full((2,), 60.0))


def test_a_chain_of_compiled_functions() -> None:
    first, second = (
        tt.compile(lambda x: x.exp() * 2, fullgraph=True),
        tt.compile(lambda x: x.sin(), fullgraph=True),
    )
    x, y = drawn(4, grad=True), drawn(4, grad=True)
    second(first(x)).sum().backward()
    (y.exp() * 2).sin().sum().backward()
    close(x.grad, y.grad, 1e-6, 1e-7)


def test_checked_against_differences() -> None:
    compiled = tt.compile(lambda x, w: F.gelu(x @ w).softmax(-1), fullgraph=True)
    args = drawn(2, 3, dtype=tt.float64, grad=True), drawn(3, 4, dtype=tt.float64, seed=1, grad=True)
    assert tt.autograd.gradcheck(compiled, args)
    assert tt.autograd.gradgradcheck(compiled, args)


@tt.compile
def _compiled(x: tt.Tensor) -> tt.Tensor:
    return (x * x).sin() + x


@tt.compile
def _broken(x: tt.Tensor) -> tt.Tensor:
    squares = x * x
    tt._dynamo.graph_break()
    return squares.sin() + x


def _of_a_dual_gradient(function: Callable[[Any], Any], x: Any) -> Any:
    with tt.autograd.forward_ad.dual_level():
        leaf = x.clone().requires_grad_()
        seed = tt.autograd.forward_ad.make_dual(tt.zeros_like(x), tt.ones_like(x))
        (grad,) = tt.autograd.grad(function(leaf), leaf, seed)
        return tt.autograd.forward_ad.unpack_dual(grad).tangent


def _of_batched_gradients(function: Callable[[Any], Any], x: Any) -> Any:
    leaf = x.clone().requires_grad_()
    rows = tt.eye(len(x), dtype=x.dtype)
    return tt.autograd.grad(function(leaf), leaf, rows, is_grads_batched=True)[0].diag()


def _of_duals(function: Callable[[Any], Any], x: Any) -> Any:
    with tt.autograd.forward_ad.dual_level():
        result = function(tt.autograd.forward_ad.make_dual(x, tt.ones_like(x)))
        return tt.autograd.forward_ad.unpack_dual(result).tangent


def _of_what_it_holds(function: Callable[[Any], Any], x: Any) -> Any:
    ones = tt.ones_like(x)
    return tt.func.jvp(lambda held: tt.compile(lambda a: function(a * held))(ones), (x,), (ones,))[1]


FIRST_DERIVATIVES: dict[str, Callable[[Callable[[Any], Any], Any], Any]] = {
    "jacrev": lambda f, x: tt.func.jacrev(f)(x).diag(),
    "jacfwd": lambda f, x: tt.func.jacfwd(f)(x).diag(),
    "jvp": lambda f, x: tt.func.jvp(f, (x,), (tt.ones_like(x),))[1],
    "vmap of vjp": lambda f, x: tt.vmap(tt.func.vjp(f, x)[1])(tt.eye(len(x), dtype=x.dtype))[0].diag(),
    "vmap of grad": lambda f, x: tt.vmap(tt.func.grad(f))(x),
    "linearize": lambda f, x: tt.func.linearize(f, x)[1](tt.ones_like(x)),
    "vectorized jacobian": lambda f, x: tt.autograd.functional.jacobian(f, x, vectorize=True).diag(),
    "is_grads_batched": _of_batched_gradients,
    "duals": _of_duals,
    "a dual gradient": _of_a_dual_gradient,
    "a dual that the function holds": _of_what_it_holds,
}
SECOND_DERIVATIVES: dict[str, Callable[[Callable[[Any], Any], Any], Any]] = {
    "hessian": lambda f, x: tt.func.hessian(lambda x: f(x).sum())(x).diag(),
    "reverse over reverse": lambda f, x: tt.func.jacrev(tt.func.jacrev(lambda x: f(x).sum()))(x).diag(),
    "forward over forward": lambda f, x: tt.func.jacfwd(tt.func.jacfwd(lambda x: f(x).sum()))(x).diag(),
    "jvp of grad": lambda f, x: tt.func.jvp(
        tt.func.grad(lambda x: f(x).sum()), (x,), (tt.ones_like(x),)
    )[1],
    "vectorized hessian": lambda f, x: tt.autograd.functional.hessian(
        lambda x: f(x).sum(), x, vectorize=True
    ).diag(),
}  # fmt: skip


@pytest.mark.parametrize("function", [_compiled, _broken])
@pytest.mark.parametrize("transform", [*FIRST_DERIVATIVES, *SECOND_DERIVATIVES])
def test_transforms_of_a_compiled_function(transform: str, function: Callable[[Any], Any]) -> None:
    x = tt.tensor([1.0, 2.0, 3.0], dtype=tt.float64)
    square = x * x
    if transform in FIRST_DERIVATIVES:
        made = FIRST_DERIVATIVES[transform](function, x)
        wanted = 2 * x * square.cos() + 1
    else:
        made = SECOND_DERIVATIVES[transform](function, x)
        wanted = 2 * square.cos() - 4 * square * square.sin()
    close(made, wanted, 1e-12, 1e-12)
    leaf = x.clone().requires_grad_()
    function(leaf).sum().backward()
    close(leaf.grad, 2 * x * square.cos() + 1, 1e-12, 1e-12)


def test_batched_gradients_through_random_numbers_are_refused() -> None:
    x = tt.ones(3, requires_grad=True)
    result = tt.compile(lambda x: F.dropout(x, 0.5))(x)
    with pytest.raises(RuntimeError, match="vmap cannot map its gradients"):
        tt.autograd.grad(result, x, tt.eye(3), is_grads_batched=True)
