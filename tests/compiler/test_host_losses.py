"""Gradients of losses on the CPU: kernels do not materialize rows that are zero but for one element."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.compiler.passes.scattered_zeros import scatter_into_a_number
from triten.compiler.pipeline import run_passes
from triten.tests.compiler.beside_eager import agree, drawn, same
from triten.tests.compiler.test_host_picks import numbers
from triten.tests.compiler.test_loops import needs_llvm
from triten.tests.compiler.test_row_loops import needs_all_bits, runs_as

F = tt.nn.functional
SHAPES = [(64, 10), (3, 7), (70, 300), (700, 31), (2, 5000)]

LOSSES: dict[str, Callable[..., Any]] = {
    "mean": lambda x, t: F.cross_entropy(x * 1.5, t),
    "sum": lambda x, t: F.cross_entropy(x, t, reduction="sum") * 2,
    "none": lambda x, t: F.cross_entropy(x, t, reduction="none") * 3.5,
    "nll_loss": lambda x, t: F.nll_loss(x * x, t),
    "another reader": lambda x, t: F.nll_loss((x * 2).log_softmax(-1), t) * x.sum(),
    "weighted": lambda x, t: F.cross_entropy(x, t, weight=x[0].detach().exp()),
    "a class that is ignored": lambda x, t: F.cross_entropy(x, t.clamp(0), ignore_index=1),
}


def with_gradient(function: Callable[..., Any], x: tt.Tensor, *given: tt.Tensor) -> list[Any]:
    x = x.detach().requires_grad_()
    made = function(x, *given)
    return [made.detach(), *tt.autograd.grad(made, [x], tt.full_like(made, 1.25))]


@pytest.mark.parametrize("dtype", [tt.float32, tt.bfloat16, tt.float64], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", LOSSES)
def test_gradients_of_losses(name: str, shape: tuple[int, int], dtype: Any) -> None:
    x, target = drawn(*shape, dtype=dtype), numbers(shape[1], shape[0])
    some, none = target.clone(), tt.full_like(target, -100)
    some[::3] = -100
    for t in (target, some, none):
        same(with_gradient(tt.compile(LOSSES[name]), x, t), with_gradient(LOSSES[name], x, t))


@needs_llvm
@pytest.mark.parametrize("bad", [300, -1, 1 << 33])
def test_a_target_that_is_no_class(bad: int) -> None:
    x, target, total = drawn(70, 300), numbers(300, 70), tt.tensor(70.0)

    def f(x: tt.Tensor, target: tt.Tensor) -> tt.Tensor:
        return tt.ops.aten.nll_loss_backward(total, x, target, None, 1, -100, total) * 2

    compiled = tt.compile(f)
    same(compiled(x, target), f(x, target))
    target[5] = bad
    with pytest.raises(IndexError, match=f"Target {bad} is out of bounds."):
        compiled(x, target)


@needs_all_bits
def test_the_gradient_of_a_loss_is_one_loop() -> None:
    x, target = drawn(700, 300, grad=True), numbers(300, 700)
    (how,) = [how for how in tt.compiler.explain(LOSSES["mean"], x, target).execution if "backward" in how]
    assert how == "nll_loss_backward_log_softmax_backward_data_mul: one compiled loop over rows"


PICKED: dict[str, Callable[..., Any]] = {
    "cross entropy": lambda x, k: -(x.log_softmax(-1).gather(-1, k)).mean(),
    "negative zeros": lambda x, k: x.log_softmax(-1).gather(-1, k) * -0.0,
    "infinite": lambda x, k: x.log_softmax(-1).gather(-1, k) * float("inf"),
    "softmax": lambda x, k: (x * 2).softmax(-1).gather(-1, k) * 3,
    "squares": lambda x, k: (x * x).gather(-1, k) * 2,
    "a scatter": lambda x, k: tt.zeros_like(x).scatter_add(-1, k, x[..., :1] * 2) * x,
    "a scatter of a number": lambda x, k: tt.zeros_like(x).scatter(-1, k, 2.0) * x,
    "a scatter that sets": lambda x, k: x.new_zeros(x.shape).scatter(-1, k, x[..., :1]) + x,
    "ones": lambda x, k: tt.ones_like(x).scatter_add(-1, k, x[..., :1] * 2) * x,
}


@pytest.mark.parametrize("dtype", [tt.float32, tt.bfloat16, tt.float16, tt.float64], ids=str)
@pytest.mark.parametrize("shape", [*SHAPES, (4, 30, 131)], ids=str)
@pytest.mark.parametrize("name", PICKED)
def test_gradients_of_picks(name: str, shape: tuple[int, ...], dtype: Any) -> None:
    x, k = drawn(*shape, dtype=dtype), numbers(shape[-1], *shape[:-1], 1)
    same(with_gradient(tt.compile(PICKED[name]), x, k), with_gradient(PICKED[name], x, k))


@needs_all_bits
def test_the_gradient_of_a_pick_is_in_the_loop_over_rows() -> None:
    x, k = drawn(700, 300, grad=True), numbers(300, 700, 1)
    assert runs_as(PICKED["cross entropy"], x, k) == ("one compiled loop over rows",) * 2


@needs_llvm
@pytest.mark.parametrize("bad", [300, -1])
def test_places_out_of_bounds_are_refused(bad: int) -> None:
    x, k = drawn(70, 300), numbers(300, 70, 1)
    compiled = tt.compile(PICKED["a scatter"])
    same(compiled(x, k), PICKED["a scatter"](x, k))
    k[5] = bad
    with pytest.raises(RuntimeError, match=f"index {bad} is out of bounds for dimension 1 with size 300"):
        compiled(x, k)


SCATTERED: dict[str, tuple[Callable[..., Any], bool]] = {
    "zeros_like": (lambda x, k: tt.zeros_like(x).scatter_add(-1, k, x), True),
    "zeros": (lambda x, k: tt.zeros(4, 6, device=x.device).scatter(0, k % 4, x) * 2, True),
    "two scatters": (lambda x, k: (z := x.new_zeros(4, 6)).scatter_add(1, k, x) + z.scatter(1, k, 1.0), True),
    "read elsewhere": (lambda x, k: (z := tt.zeros_like(x)).scatter_add(1, k, x) + z, False),
    "a result": (lambda x, k: ((z := tt.zeros_like(x)), z.scatter_add(1, k, x)), False),
    "as the source": (lambda x, k: x.scatter_add(1, k, tt.zeros_like(x)), False),
    "ones": (lambda x, k: tt.ones_like(x).scatter_add(1, k, x), False),
    "in place": (lambda x, k: tt.zeros_like(x).scatter_add_(1, k, x) * 2, False),
}


@pytest.mark.parametrize("name", SCATTERED)
def test_zeros_that_scatters_copy_are_a_number(name: str, device: str) -> None:
    function, wanted = SCATTERED[name]

    def made() -> tuple[tt.Tensor, tt.Tensor]:
        places = np.tile(np.random.default_rng(0).permutation(6), (4, 1))
        return drawn(4, 6, device=device), tt.tensor(places.tolist(), dtype=tt.int64, device=device)

    graph = run_passes(tt.func.make_graph(function, "fake")(*made()).graph)
    graph.lint()
    names = [n.target._opname for n in graph.find_nodes(op="call_function")]
    assert ("expand" in names) == wanted
    assert not scatter_into_a_number(graph)
    if name != "zeros":  # Numbers of several elements at one place are set in no order.
        agree(function, made, calls=1)
