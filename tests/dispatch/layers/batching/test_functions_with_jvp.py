"""Custom functions with a `jvp`, under vmap and forward mode in every order."""

from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.tests.shared.comparison import close

F64 = tt.float64


class Generated(tt.autograd.Function):
    """Function x sin(y) and cos(y), with rules for both modes."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any, y: Any) -> Any:
        return x * y.sin(), y.cos()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, y = inputs
        ctx.save_for_backward(x, y, output[1])
        ctx.save_for_forward(x, y)

    @staticmethod
    def backward(ctx: Any, first: Any, second: Any) -> Any:
        x, y, cosine = ctx.saved_tensors
        return first * y.sin(), first * x * cosine - second * y.sin()

    @staticmethod
    def jvp(ctx: Any, x_t: Any, y_t: Any) -> Any:
        x, y = ctx.saved_tensors
        return x_t * y.sin() + x * y.cos() * y_t, -y.sin() * y_t


class WithRule(Generated):
    """`Generated` with a vmap rule of its own."""

    generate_vmap_rule = False

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any, y: Any) -> Any:
        x, y = (
            v.expand(info.batch_size, *v.shape) if d is None else v.movedim(d, 0)
            for v, d in zip((x, y), in_dims, strict=True)
        )
        rank = max(x.dim(), y.dim())
        wide_x, wide_y = (v.reshape(len(v), *[1] * (rank - v.dim()), *v.shape[1:]) for v in (x, y))
        return (WithRule.apply(wide_x, wide_y)[0], WithRule.apply(y, y)[1]), (0, 0)


class WithoutJvp(tt.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 2

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass


def plain(x: Any, y: Any) -> Any:
    return x * y.sin(), y.cos()


x, y = (tt.tensor(values, dtype=F64) for values in ([1.0, 2.0, 3.0], [0.5, -1.0, 2.0]))
t, u = (tt.tensor(values, dtype=F64) for values in ([0.3, 1.0, -2.0], [1.0, 0.7, 0.1]))
scalar = tt.tensor(0.7, dtype=F64)


def total(f: Any, x: Any, y: Any) -> Any:
    first, second = f(x, y)
    return (first * second).sum()


TRANSFORMED: dict[str, Callable[[Any], Any]] = {
    "jvp": lambda f: tt.func.jvp(f, (x, y), (t, u)),
    "jvp of vmap": lambda f: tt.func.jvp(tt.vmap(f), (x, y), (t, u)),
    "vmap of jvp": lambda f: tt.vmap(lambda x, y, t, u: tt.func.jvp(f, (x, y), (t, u)))(x, y, t, u),
    "jvp by what is not mapped": lambda f: tt.func.jvp(
        lambda x: tt.vmap(f, (None, 0))(x, y), (scalar,), (scalar,)
    ),
    "jvp by both": lambda f: tt.func.jvp(
        lambda x, y: tt.vmap(f, (None, 0))(x, y), (scalar, y), (scalar, u)
    ),
    "jacfwd": lambda f: tt.func.jacfwd(f, (0, 1))(x, y),
    "jacrev": lambda f: tt.func.jacrev(f, (0, 1))(x, y),
    "hessian": lambda f: tt.func.hessian(lambda x, y: total(f, x, y), (0, 1))(x, y),
    "jacfwd of jacfwd": lambda f: tt.func.jacfwd(tt.func.jacfwd(lambda y: total(f, x, y)))(y),
    "jacrev of jacrev": lambda f: tt.func.jacrev(tt.func.jacrev(lambda y: total(f, x, y)))(y),
    "jacrev of jacfwd": lambda f: tt.func.jacrev(tt.func.jacfwd(lambda y: total(f, x, y)))(y),
    "vmap of hessian": lambda f: tt.vmap(tt.func.hessian(lambda y: total(f, scalar, y)))(y),
    "vmap of vmap": lambda f: tt.vmap(tt.vmap(f, (None, 0)), (0, None))(x, y),
    "vmap of grad of vmap": lambda f: tt.vmap(
        tt.func.grad(lambda x: tt.vmap(f, (None, 0))(x, y)[0].sum())
    )(x),
    "jvp of vmap of vmap": lambda f: tt.func.jvp(
        lambda y: tt.vmap(tt.vmap(f, (None, 0)), (0, None))(x, y), (y,), (u,)
    ),
    "forward-mode": lambda f: tt.autograd.functional.jacobian(
        f, (x, y), strategy="forward-mode", vectorize=True
    ),
    "hessian, forward-mode": lambda f: tt.autograd.functional.hessian(
        lambda y: total(f, x, y), y, outer_jacobian_strategy="forward-mode", vectorize=True
    ),
}  # fmt: skip


def leaves(value: Any) -> list[Any]:
    return [value] if isinstance(value, tt.Tensor) else [leaf for item in value for leaf in leaves(item)]


@pytest.mark.parametrize("function", [Generated, WithRule])
@pytest.mark.parametrize("name", TRANSFORMED)
def test_transforms_agree_with_those_of_the_operators(
    name: str, function: type[tt.autograd.Function]
) -> None:
    made, wanted = (leaves(TRANSFORMED[name](f)) for f in (function.apply, plain))
    assert len(made) == len(wanted)
    for got, right in zip(made, wanted, strict=True):
        close(got.detach(), right.detach(), 1e-12, 1e-12)


@pytest.mark.parametrize("wrap", [lambda f: f, tt.vmap])
def test_a_function_without_jvp_is_refused_rather_than_constant(wrap: Any) -> None:
    for transform in (tt.func.jacfwd, lambda f: lambda x: tt.func.jvp(f, (x,), (x,))):
        with pytest.raises(RuntimeError, match="ou must implement the jvp function"):
            transform(wrap(WithoutJvp.apply))(x)
