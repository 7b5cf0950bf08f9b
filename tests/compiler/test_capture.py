"""A function that `tt.compile` captures has eager's results, writes and random numbers."""

import functools
from typing import Any, NamedTuple

import pytest

import triten as tt
from triten.tests.compiler.beside_eager import agree, drawn, graphs, same

F = tt.nn.functional

PROGRAMS: dict[str, Any] = {
    "pointwise": lambda x, y: tt.relu((x + y) * 2 - 0.5) / (y.abs() + 1),
    "products": lambda x, y: (x @ y.t()).softmax(-1) @ y,
    "reductions": lambda x, y: (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + 1e-5).sqrt() + y.amax(),
    "views": lambda x, y: tt.cat([x.t().reshape(-1)[::2], y[:, 1:].flatten(), x[0].expand(2, -1)[1]]),
    "comparisons": lambda x, y: tt.where((x > y) | (x < 0), x.to(tt.float64), 1) + (x == y),
    "indices": lambda x, y: x[x.argmax(1) // 2] + x.gather(1, y.argsort(1)) + x.cumsum(0),
    "several": lambda x, y: (*x.max(1), *x.sort(0), *y.split(1)),
    "new tensors": lambda x, y: tt.zeros_like(x) + tt.arange(4, device=x.device) * y + tt.eye(3, 4, device=x.device),
    "nothing of its arguments": lambda x, y: tt.ones(2, device=x.device) * 3,
    "numbers": lambda x, y: (x * y, 3, 2.5, "name", None, True, x.shape[0]),
    "layer norm": lambda x, y: F.layer_norm(x, (4,)) * F.gelu(y),
}  # fmt: skip


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_results(name: str, grad: bool, device: str) -> None:
    compiled = agree(
        PROGRAMS[name], lambda: tuple(drawn(3, 4, device=device, seed=i, grad=grad) for i in (1, 2))
    )
    assert graphs(compiled) == 1


class Pair(NamedTuple):
    """Result of two tensors."""

    first: tt.Tensor
    second: tt.Tensor


def test_arguments_and_results_are_nests() -> None:
    @functools.partial(tt.compile, fullgraph=True)
    def nested(a: Any, *more: Any, scale: float = 1.0, **named: Any) -> Any:
        return {"sum": (a["x"] + a["y"][1]) * scale, "rest": [Pair(*more), (named["z"], None)], "empty": ()}

    x, y, z = (drawn(2, seed=i) for i in range(3))
    found = nested({"x": x, "y": (None, [y][0])}, x, y, scale=2.0, z=z)
    same(found, {"sum": (x + y) * 2.0, "rest": [Pair(x, y), (z, None)], "empty": ()})
    assert type(found["rest"][0]) is Pair


@pytest.mark.parametrize(
    "values", [(1, 1.0, True), (0.0, -0.0), ("mean", "sum"), (None, 1), (tt.float64, tt.int8)]
)
def test_python_values_are_part_of_a_graph(values: tuple[Any, ...]) -> None:
    def f(x: tt.Tensor, value: Any) -> Any:
        if isinstance(value, str):
            return getattr(x, value)()
        if isinstance(value, tt.dtype):
            return x.to(value)
        return x if value is None else tt.zeros(4, dtype=tt.int32) * value + x.int() * value

    compiled = tt.compile(f, fullgraph=True)
    for value in values * 2:
        same(compiled(drawn(4), value), f(drawn(4), value), repr(value))
    assert graphs(compiled) == len(values)


scale = tt.ones(3)


def test_tensors_outside_of_the_arguments_are_read_at_each_call() -> None:
    cell, held = tt.ones(3), {"list": [tt.ones(3)]}

    def f(x: tt.Tensor) -> tt.Tensor:
        return x * scale * cell * held["list"][0]

    compiled = tt.compile(f, fullgraph=True)
    for number in (1, 2, 3):
        for tensor in (scale, cell, held["list"][0]):
            tensor.fill_(number)
            same(compiled(drawn(3)), f(drawn(3)))
    assert graphs(compiled) == 1


def test_dropout_draws_eager_s_numbers(device: str) -> None:
    def f(x: tt.Tensor) -> tt.Tensor:
        noise = (tt.rand_like(x) + tt.randn(4, device=device)).clamp(0, 1)
        return F.dropout(x, 0.5) + F.dropout(noise, 0.2) + noise.bernoulli(0.5)

    for grad in (False, True):
        agree(f, lambda: (drawn(3, 4, device=device, grad=grad),), calls=3)  # noqa: B023


MODES: dict[str, Any] = {
    "no_grad": tt.no_grad,
    "enable_grad": tt.enable_grad,
    "inference_mode": tt.inference_mode,
    "autocast": lambda: tt.autocast("cpu", tt.bfloat16),
}


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize(
    ("mode", "where"),
    [
        *((mode, "outside") for mode in MODES),
        *((mode, "inside") for mode in MODES if mode != "inference_mode"),
    ],
)
def test_modes(mode: str, where: str, grad: bool) -> None:
    def f(x: tt.Tensor, w: tt.Tensor) -> Any:
        if where == "outside":
            return (x @ w).exp(), x * 2
        with MODES[mode]():
            product = x @ w
        return product.exp(), product

    compiled = tt.compile(f, fullgraph=where == "outside")
    for _ in range(2):
        args = drawn(3, 4, grad=grad), drawn(4, 2)
        if where == "inside":
            same(compiled(*args), f(*args))
            continue
        same(compiled(*args), f(*args))
        with MODES[mode]():
            same(compiled(*args), f(*args))
    assert graphs(compiled) <= 2


class Cube(tt.autograd.Function):
    """Function x ** 3 with twice its derivative, so that a test sees which rule ran."""

    @staticmethod
    def forward(ctx: Any, x: tt.Tensor) -> tt.Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, grad: tt.Tensor) -> tt.Tensor:
        (x,) = ctx.saved_tensors
        return grad * 6 * x**2


def test_a_function_with_a_derivative_of_its_own() -> None:
    x = drawn(3, grad=True)
    compiled = tt.compile(lambda x: Cube.apply(x * 1) + 1, fullgraph=True)
    for _ in range(2):
        found = compiled(x)
        same(found, Cube.apply(x * 1) + 1)
        (grad,) = tt.autograd.grad(found.sum(), x)
        same(grad, (6 * x**2).detach())


def test_compiled_functions_inside_of_each_other() -> None:
    inner = tt.compile(lambda x: tt.relu(x) + 1, fullgraph=True)
    outer = tt.compile(lambda x: inner(x * 2) * inner(x), fullgraph=True)
    for _ in range(2):
        x = drawn(4)
        same(outer(x), (tt.relu(x * 2) + 1) * (tt.relu(x) + 1))
    assert graphs(outer) == 1 and graphs(inner) == 0


class Gate:
    """Callable object with a method."""

    def __init__(self) -> None:
        self.w = drawn(4, seed=7)

    def __call__(self, x: tt.Tensor) -> tt.Tensor:
        return x * self.w.sigmoid()

    def twice(self, x: tt.Tensor) -> tt.Tensor:
        return self(self(x))


@pytest.mark.parametrize("form", ["object", "method", "partial", "decorated", "builtin"])
def test_whatever_can_be_called(form: str) -> None:
    gate = Gate()
    function: Any = {
        "object": gate,
        "method": gate.twice,
        "partial": functools.partial(tt.add, other=2, alpha=3),
        "decorated": tt.no_grad()(tt.relu),
        "builtin": tt.exp,
    }[form]
    compiled = agree(function, lambda: (drawn(4),))
    assert graphs(compiled) == 1


def test_a_compiled_module_is_the_module_by_another_name() -> None:
    module = tt.nn.Sequential(tt.nn.Linear(3, 2), tt.nn.Dropout(0.5))
    compiled = tt.compile(module)
    assert next(iter(compiled.parameters())) is module[0].weight
    assert list(compiled.state_dict()) == ["_orig_mod.0.weight", "_orig_mod.0.bias"]
    assert compiled.eval() is compiled and not module[1].training
    module.register_forward_hook(lambda module, args, result: result * 10)
    same(compiled(drawn(2, 3)), module(drawn(2, 3)))
    assert not (compiled(drawn(2, 3)) == module[0](drawn(2, 3))).any()


def test_functions_know_that_they_are_captured() -> None:
    compiled = tt.compile(lambda x: x + 1 if tt.compiler.is_compiling() else x - 1, fullgraph=True)
    same(compiled(tt.ones(2)), tt.ones(2) + 1)
    assert not tt.compiler.is_compiling()
