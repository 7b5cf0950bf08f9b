"""Reductions of columns and of whole tensors fuse with the steps before them: results, layouts, blocks.

Results of few elements are bitwise identical to eager on the CPU. Other results are as close to float64 as
eager's: their blocks differ in size, so sums have another order.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.compiler.host import block_reductions, pointwise
from triten.compiler.pipeline import run_passes
from triten.compiler.schedule import OperatorCall, ReductionKernel, fused_schedule
from triten.tests.compiler.beside_eager import agree, drawn, same
from triten.tests.compiler.test_loops import needs_llvm
from triten.tests.compiler.test_rows import LAYOUTS, alike, nearly, steps_of

F = tt.nn.functional


def mean_squared_error(a: tt.Tensor, b: tt.Tensor) -> tt.Tensor:
    return ((a - b) ** 2).mean()


def column_sums(a: tt.Tensor, b: tt.Tensor) -> tt.Tensor:
    return (a * b).sum(0)


def gradients_of_a_norm(a: tt.Tensor, b: tt.Tensor) -> tuple[tt.Tensor, ...]:
    return (a * b).sum(0), a.sum(0)


def statistics(a: tt.Tensor, b: tt.Tensor) -> tuple[tt.Tensor, ...]:
    y = a * 0.5 + b
    return (
        y.sum(0), y.mean(0, keepdim=True), y.amax(0), y.amin(0, keepdim=True), (y > 0).all(0), (y > 3).any(0),
        (y > 1).sum(0), y.sum(0, dtype=tt.float64),
    )  # fmt: skip


CHAINS: dict[str, Callable[[tt.Tensor, tt.Tensor], Any]] = {
    "mean squared error": mean_squared_error,
    "column sums": column_sums,
    "gradients of a norm": gradients_of_a_norm,
    "statistics": statistics,
    "the sum of everything": lambda a, b: (a * b).sum(),
    "the greatest": lambda a, b: (a - b).abs().max(),
    "a product": lambda a, b: (a * 0.1 + 1).prod(),
    "norms": lambda a, b: tuple([tt.linalg.vector_norm(a - b, p, 0) for p in (0, 1, 2, math.inf, -math.inf)]),
    "a result and its sums": lambda a, b: ((y := a * b), y.sum(0), y.mean(0)),
}
"""Functions of one kernel of two matrices."""


def kernel_of(function: Callable[..., Any], *args: tt.Tensor) -> ReductionKernel:
    (kernel,) = fused_schedule(run_passes(tt.func.make_graph(function, "fake")(*args).graph)).kernels
    assert isinstance(kernel, ReductionKernel)
    return kernel


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use blocks of 64 floats, four of which make a partial result, shared among threads."""
    monkeypatch.setattr(block_reductions, "BLOCK_BYTES", 256)
    monkeypatch.setattr(block_reductions, "MIN_REDUCED", 4)
    monkeypatch.setattr(pointwise, "WHOLE_UP_TO", 4)
    monkeypatch.setattr(block_reductions, "SHARED_FROM", 256)


@pytest.mark.parametrize("shape", [(6, 20), (130, 3)])
@pytest.mark.parametrize("name", CHAINS)
def test_chains(name: str, shape: tuple[int, ...], device: str) -> None:
    function = CHAINS[name]
    (kernel,) = steps_of(function, *(drawn(*shape, device=device, seed=i) for i in range(2)))
    assert isinstance(kernel, list) and len(kernel) > 1
    alike(function, lambda: [drawn(*shape, device=device, seed=i) for i in range(2)])


@pytest.mark.parametrize("shape", [(7, 9), (65, 3), (3, 70), (129, 33), (300, 1)])
@pytest.mark.parametrize("name", [name for name in CHAINS if name != "a product"])
@pytest.mark.usefixtures("small_blocks")
def test_edges_of_small_blocks(name: str, shape: tuple[int, ...]) -> None:
    args = [drawn(*shape, seed=i) for i in range(2)]
    function = CHAINS[name]
    nearly(
        tt.compile(function, fullgraph=True)(*args), function(*args), function(*[x.double() for x in args])
    )


@pytest.mark.parametrize("dims", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
@pytest.mark.usefixtures("small_blocks")
def test_any_dimensions_are_reduced(dims: tuple[int, ...], device: str) -> None:
    def f(x: tt.Tensor, y: tt.Tensor) -> Any:
        return (x * y).sum(dims), (x * y).mean(dims, keepdim=True)

    args = [drawn(5, 1, 7, 11, device=device, seed=i).squeeze(1) for i in range(2)]
    nearly(tt.compile(f, fullgraph=True)(*args), f(*args), f(*[x.double() for x in args]))


@pytest.mark.parametrize("right", LAYOUTS)
@pytest.mark.parametrize("left", ["contiguous", "transposed"])
@pytest.mark.usefixtures("small_blocks")
def test_layouts(left: str, right: str, device: str) -> None:
    def f(x: tt.Tensor, y: tt.Tensor) -> Any:
        z = (x * 2 + y) * 0.5
        return z.sum((0, 1)), z.sum((0, 2)), z.mean()

    args = LAYOUTS[left](device).contiguous(), LAYOUTS[right](device)
    nearly(tt.compile(f, fullgraph=True)(*args), f(*args), f(*[x.double() for x in args]))


@pytest.mark.parametrize("dtype", [tt.float16, tt.bfloat16, tt.float32, tt.float64])
@pytest.mark.parametrize("name", ["mean squared error", "statistics", "a result and its sums"])
@pytest.mark.usefixtures("small_blocks")
def test_dtypes(name: str, dtype: Any, device: str) -> None:
    args = [drawn(40, 6, device=device, dtype=dtype, seed=i) for i in range(2)]
    function = CHAINS[name]
    nearly(
        tt.compile(function, fullgraph=True)(*args), function(*args), function(*[x.double() for x in args])
    )


@pytest.mark.usefixtures("small_blocks")
def test_integers_and_truth_values_have_eager_s_bits(device: str) -> None:
    def f(i: tt.Tensor, j: tt.Tensor) -> Any:
        k = i * j
        return k.sum(0), k.sum(), k.amax(0), k.amin(), k.prod(), (k > 0).sum(0), (k > 4).any(), (k > 0).all(0)

    agree(f, lambda: [(drawn(70, 5, device=device, seed=i) * 9).to(tt.int32) for i in range(2)], calls=1)


@pytest.mark.usefixtures("small_blocks")
def test_numbers_that_are_not_finite(device: str) -> None:
    def f(x: tt.Tensor, y: tt.Tensor) -> Any:
        z = x * y
        return z.sum(0), z.amax(0), z.amin(0), z.mean(0), (z > 0).any(0)

    def make() -> list[tt.Tensor]:
        x = tt.ones(90, 4)
        x[3, 0], x[80, 1], x[5, 2], x[85, 2] = float("nan"), float("inf"), float("inf"), float("-inf")
        return [x.to(device), tt.ones(90, 4, device=device)]

    agree(f, make, calls=1)


@pytest.mark.usefixtures("small_blocks")
def test_the_number_of_threads_changes_nothing(threads: int) -> None:
    args = [drawn(150, 40, seed=i) for i in range(2)]
    before = tt.get_num_threads()
    for function in (CHAINS | HOST_CHAINS).values():
        found = tt.compile(function, fullgraph=True)(*args)
        tt.set_num_threads(3)
        same(tt.compile(function, fullgraph=True)(*args), found)
        tt.set_num_threads(before)


MANY: dict[str, tuple[tuple[int, ...], Any]] = {
    "runs, and a shorter one": ((70, 600), 0),
    "columns that parts share out": ((40, 3000), 0),
    "a few long rows": ((2, 70_000), 1),
    "a few columns": ((70_000, 2), 0),
    "everything": ((300, 257), None),
    "channels": ((9, 8, 40, 33), (0, 2, 3)),
    "two channels": ((9, 2, 60, 33), (0, 2, 3)),
    "planes": ((40, 12, 90), (0, 1)),
}
"""Sizes, and what is reduced: blocks and loops of the sizes that programs have, and more than one of them."""


@pytest.mark.parametrize("name", MANY)
def test_many_elements(name: str) -> None:
    shape, dims = MANY[name]

    def f(a: tt.Tensor, b: tt.Tensor) -> Any:
        y = a * b
        return y.sum(dims), y.amax(dims if dims is not None else ()), (y - 1).mean(dims), y

    args = [tt.tensor(np.random.default_rng(i).standard_normal(shape, np.float32)) for i in range(2)]
    nearly(tt.compile(f, fullgraph=True)(*args), f(*args), f(*[x.double() for x in args]))


def variances(a: tt.Tensor, b: tt.Tensor, dims: Any = 0) -> Any:
    y = a * b
    return (
        y.var(dims), y.std(dims, correction=0.5, keepdim=True), tt.var_mean(y + 3, dims), tt.std_mean(y, dims),
        y.mean(dims), tt.var(y) if dims is None else y,
    )  # fmt: skip


def places(a: tt.Tensor, b: tt.Tensor, dim: int = 0) -> Any:
    y = a * b
    return y.argmax(dim), y.argmin(dim, keepdim=True), y.max(dim), y.min(dim, keepdim=True), y.amax(dim)


HOST_CHAINS = {
    "variances": variances,
    "places": places,
    "the places alone": lambda a, b: ((a - b).max(0)[1], (a - b).min(0)[0]),
    "the variance of everything": lambda a, b: ((a - b).var(), (a * b).std(correction=0)),
}
"""Functions of one or two matrices whose reductions are in kernels on the CPU alone."""


@pytest.mark.parametrize("shape", [(6, 20), (130, 3)])
@pytest.mark.parametrize("name", HOST_CHAINS)
def test_chains_of_the_cpu(name: str, shape: tuple[int, ...], device: str) -> None:
    function = HOST_CHAINS[name]
    steps = steps_of(function, *(drawn(*shape, device=device, seed=i) for i in range(2)))
    assert any("var" in step or "max" in step for step in steps if isinstance(step, list)) == (
        device == "cpu"
    )
    alike(function, lambda: [drawn(*shape, device=device, seed=i) for i in range(2)])


@pytest.mark.parametrize("name", HOST_CHAINS)
@pytest.mark.parametrize("shape", [(40, 32), (129, 33), (3, 70), (300, 1)])
@pytest.mark.usefixtures("small_blocks")
def test_chains_of_the_cpu_in_small_blocks(name: str, shape: tuple[int, ...]) -> None:
    args = [drawn(*shape, seed=i) for i in range(2)]
    function = HOST_CHAINS[name]
    nearly(
        tt.compile(function, fullgraph=True)(*args), function(*args), function(*[x.double() for x in args])
    )


@pytest.mark.parametrize("dtype", [tt.float16, tt.bfloat16, tt.float32])
@pytest.mark.parametrize("name", MANY)
def test_variances_of_many_elements(name: str, dtype: Any) -> None:
    shape, dims = MANY[name]
    numbers = [np.random.default_rng(i).standard_normal(shape, np.float32) for i in range(2)]
    args = [tt.tensor(x).to(dtype) for x in numbers]
    f = lambda a, b: variances(a, b, dims)  # noqa: E731
    nearly(tt.compile(f, fullgraph=True)(*args), f(*args), f(*[x.double() for x in args]))


def test_variances_of_float64_have_eager_s_bits() -> None:
    f = lambda a, b: ((y := a * b).var(0), tt.std_mean(y, 0), y)  # noqa: E731
    agree(f, lambda: tuple([tt.ones(900, 64).cumsum(i).double().sin() for i in range(2)]), calls=1)


@pytest.mark.parametrize(
    "offset", [0.0, 1e3, pytest.param(1e6, id="a mean that is 10^6 times the deviation")]
)
def test_a_variance_far_from_zero(offset: float) -> None:
    x = tt.tensor(np.random.default_rng(0).standard_normal((900, 64), np.float32))
    f = lambda x: (x + offset).var(0)  # noqa: E731
    nearly(tt.compile(f, fullgraph=True)(x), f(x), (x + offset).double().var(0))


PLACED: dict[str, tuple[tuple[int, ...], int]] = {
    "runs, and a shorter one": ((700, 64), 0),
    "columns that parts share out": ((40, 3000), 0),
    "planes": ((9, 300, 33), 1),
}
"""Sizes, and the dimension along which places are."""


@pytest.mark.parametrize("dtype", [tt.uint8, tt.int64, tt.float16, tt.bfloat16, tt.float32, tt.float64])
@pytest.mark.parametrize("name", PLACED)
def test_places_have_eager_s_bits(name: str, dtype: Any) -> None:
    shape, dim = PLACED[name]

    def make() -> tuple[tt.Tensor, ...]:
        # Few different numbers: many are equal.
        a = tt.tensor(np.random.default_rng(1).integers(-3 if dtype.is_signed else 0, 4, shape)).to(dtype)
        return a, tt.ones(1, dtype=dtype)

    agree(lambda a, b: places(a, b, dim), make, calls=1)


@pytest.mark.parametrize("fill", [math.inf, -math.inf, math.nan, 0.0])
def test_places_and_variances_of_numbers_that_are_not_finite(fill: float) -> None:
    def f(x: tt.Tensor, y: tt.Tensor) -> Any:
        return places(x, y), tt.var_mean(x * y, 0), (x * y).std(0)

    def make() -> tuple[tt.Tensor, ...]:
        x = tt.zeros(1000, 40)
        x[:, 1:3], x[300, 5], x[777, 5:8], x[5, 8] = fill, fill, fill, -fill
        x[::2, 9], x[999, 10], x[:, 11] = -0.0, fill, -fill
        return x, tt.ones(1)

    agree(f, make, calls=1)


def test_too_few_for_a_correction() -> None:
    f = lambda x: ((x * 2).var(0, correction=40), (x * 2 * 0).std(0, correction=40))  # noqa: E731
    x = tt.tensor(np.random.default_rng(0).standard_normal((40, 1000), np.float32))
    same(tt.compile(f, fullgraph=True)(x), f(x))


ALONE: dict[str, Callable[[tt.Tensor], Any]] = {
    "a variance": lambda x: x.var(0),
    "a deviation of everything": lambda x: x.std(),
    "an extremum and its place": lambda x: x.max(0),
    "places": lambda x: (x.argmax(0), x.argmin(0, keepdim=True)),
    "a mean and a deviation": lambda x: (x - x.mean(0)) / x.std(0),
    "a variance and a mean": lambda x: tt.var_mean(x, 0, correction=0),
}
"""Reductions of an argument."""


@pytest.mark.parametrize("shape", [(6, 20), (300, 200), (2, 70_000)])
@pytest.mark.parametrize("name", ALONE)
def test_reductions_of_an_argument(name: str, shape: tuple[int, ...]) -> None:
    x = tt.tensor(np.random.default_rng(0).standard_normal(shape, np.float32))
    function = ALONE[name]
    nearly(tt.compile(function, fullgraph=True)(x), function(x), function(x.double()))


@needs_llvm
@pytest.mark.parametrize("name", ALONE)
def test_reductions_of_an_argument_are_one_loop(name: str) -> None:
    execution = tt.compiler.explain(ALONE[name], drawn(300, 200)).execution
    assert execution[0].endswith("one compiled loop, which adds what it computes")
    assert len(execution) == (2 if name == "a mean and a deviation" else 1)


@pytest.mark.parametrize("dims", [0, 1, (0, 2), None])
def test_truth_values_of_many_elements(dims: Any) -> None:
    def f(x: tt.Tensor, y: tt.Tensor) -> Any:
        z = x * y
        given = () if dims is None else (dims,)
        return (z > 0).any(*given), (z > -9).all(*given), (z > 3).any(*given), (z == z).all(*given), z > 3

    def make() -> tuple[tt.Tensor, ...]:
        x = tt.tensor(np.random.default_rng(0).standard_normal((40, 33, 64), np.float32))
        x[3, 5, 7], x[39, 32, 63], x[0, 0] = float("nan"), 100.0, -1.0
        return x, tt.ones(1)

    agree(f, make, calls=1)


def test_reductions_that_no_loop_does_are_apart() -> None:
    def f(a: tt.Tensor, b: tt.Tensor) -> Any:
        y = a * b
        return y.sum(0), y.var(0), y.max(0), tt.linalg.vector_norm(y, 2, 0), y

    args = [tt.tensor(np.random.default_rng(i).standard_normal((300, 200), np.float32)) for i in range(2)]
    (kernel,) = fused_schedule(run_passes(tt.func.make_graph(f, "fake")(*args).graph)).kernels
    assert isinstance(kernel, ReductionKernel)
    assert "compiled loop, which adds" not in block_reductions.execution_of_reductions(kernel)
    nearly(tt.compile(f, fullgraph=True)(*args), f(*args), f(*[x.double() for x in args]))


@pytest.mark.parametrize("name", HOST_CHAINS)
def test_chains_of_the_cpu_without_llvm(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (block_reductions, pointwise):
        monkeypatch.setattr(module, "is_possible", lambda: False)
    args = [drawn(300, 200, seed=i) for i in range(2)]
    function = HOST_CHAINS[name]
    nearly(
        tt.compile(function, fullgraph=True)(*args), function(*args), function(*[x.double() for x in args])
    )


@needs_llvm
@pytest.mark.parametrize("name", HOST_CHAINS)
def test_variances_and_places_are_loops(name: str) -> None:
    args = [drawn(300, 200, seed=i) for i in range(2)]
    for execution in tt.compiler.explain(HOST_CHAINS[name], *args).execution:
        assert execution.endswith("one compiled loop, which adds what it computes")


@needs_llvm
def test_a_loop_adds_what_it_computes() -> None:
    args = [drawn(300, 257, seed=i) for i in range(2)]
    said = "one compiled loop, which adds what it computes"
    assert tt.compiler.explain(gradients_of_a_norm, *args).execution == (f"mul_sum_sum: {said}",)
    (execution,) = tt.compiler.explain(lambda a, b: (a * b).exp().sum(0), *args).execution
    assert execution == "mul_exp_sum: one compiled loop, and a reduction over blocks"


def test_rows_that_no_block_has_whole(device: str) -> None:
    def f(x: tt.Tensor) -> Any:
        return (x * 2).sum(-1)

    x = drawn(2, 5, device=device).repeat(1, 60_000)
    (kernel,) = steps_of(f, x)
    assert kernel == ["mul", "sum"]
    nearly(tt.compile(f, fullgraph=True)(x), f(x), f(x.double()))


VIEWED: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "dimensions that are merged": (lambda x: (x * 2).view(12, 5).sum(0), [["mul", "sum"]]),
    "a dimension that is split": (
        lambda x: (x * 2).view(12, 5).view(3, 4, 5).mean((0, 1)),
        [["mul", "mean"]],
    ),
    "everything": (lambda x: (x * 2).flatten().mean(), [["mul", "mean"]]),
    "the last dimension": (lambda x: (x * 2).view(12, 5).sum(1), ["mul", "view", "sum"]),
    "a part of a dimension": (lambda x: (x * 2).view(6, 10).sum(0), ["mul", "view", "sum"]),
    "kept dimensions": (lambda x: (x * 2).view(12, 5).sum(0, keepdim=True), ["mul", "view", "sum"]),
    "an argument": (lambda x: x.view(12, 5).sum(0), ["view", "sum"]),
}
"""Reductions of views, and their schedules."""


@pytest.mark.parametrize("name", VIEWED)
def test_reductions_of_views(name: str, device: str) -> None:
    function, wanted = VIEWED[name]
    assert steps_of(function, drawn(3, 4, 5, device=device)) == wanted
    agree(function, lambda: (drawn(3, 4, 5, device=device),), calls=1)


APART: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "what reads the sums": (lambda x: x * 2 - (x * 2).mean(0), [["mul", "mean"], "sub"]),
    "a root of a sum": (lambda x: x.square().sum().sqrt(), [["pow", "sum"], "sqrt"]),
    "other dimensions": (lambda x: ((x * 2).sum(0), (x * 3).sum(1)), [["mul", "sum"], ["mul", "sum"]]),
    "a reduction alone": (lambda x: x.sum(0) + 1, ["sum", "add"]),
    "rows before columns": (
        lambda x: ((y := x * 2).softmax(-1), y.sum(0)),
        [["mul", "_softmax"], "sum"],
    ),
}


@pytest.mark.parametrize("name", APART)
def test_what_is_apart(name: str, device: str) -> None:
    function, wanted = APART[name]
    x = drawn(6, 8, device=device)
    assert sorted(map(str, steps_of(function, x))) == sorted(map(str, wanted))
    alike(function, lambda: [drawn(6, 8, device=device)])


def test_norms_of_everything_keep_their_kernel_on_the_cpu(device: str) -> None:
    f = lambda x: (x - 1).norm()  # noqa: E731
    found = steps_of(f, drawn(4, 6, device=device))
    assert found == ([["sub", "_vector_norm"]] if device == "cuda" else ["sub", "linalg_vector_norm"])
    alike(f, lambda: [drawn(4, 6, device=device)])


def test_sums_of_one_tensor_go_together_where_launches_cost() -> None:
    f = lambda x: (x.sum(0), x.amax(0))  # noqa: E731
    assert steps_of(f, drawn(4, 6, device="cuda")) == [["sum", "amax"]]
    assert steps_of(f, drawn(4, 6)) == ["sum", "amax"]


def test_a_bias_s_gradient_is_the_product_s(device: str) -> None:
    def step(x: tt.Tensor, w: tt.Tensor, b: tt.Tensor) -> Any:
        return tt.autograd.grad(F.silu(x * w + b).square().sum(), (w, b))

    def make() -> list[tt.Tensor]:
        return [drawn(12, 5, device=device), *(drawn(5, device=device, seed=i, grad=True) for i in (1, 2))]

    compiled = tt.compile(lambda x, w, b: F.silu(x * w + b).square().sum())
    given = make()
    compiled(*given).backward()
    expected = step(*make())
    nearly(
        [x.grad for x in given[1:]],
        list(expected),
        list(step(*[x.detach().double().requires_grad_() for x in make()])),
    )
    schedule = tt.compiler.explain(lambda x, w, b: F.silu(x * w + b).square().sum(), *make()).schedules[-1]
    assert not [step for step in schedule.steps if isinstance(step, OperatorCall) and "sum" in str(step)]
