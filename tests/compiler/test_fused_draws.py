"""Dropout in fused kernels: eager's random numbers, and eager's final generator state."""

import sys
from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.compiler.schedule import OperatorCall
from triten.tests.compiler.beside_eager import agree, drawn, same

if sys.platform != "linux":  # where a wheel exists, a missing Triton is a failure
    pytest.importorskip("triton", reason="triton has no wheel for this platform")

from triten.compiler.triton import rows
from triten.runtime.cuda.driver import driver

F = tt.nn.functional
VIEWS = ("t", "view", "select", "transpose", "slice", "expand")


def steps(function: Callable[..., Any], *given: Any) -> list[str]:
    """Return the names of the kernels and operators in a function's first graph, without views."""
    schedule = tt.compiler.explain(function, *given).schedules[0]
    schedule.check()
    nodes = [
        s for s in schedule.steps if not isinstance(s, OperatorCall) or hasattr(s.node.target, "_opname")
    ]
    names = [s.node.target._opname if isinstance(s, OperatorCall) else s.name for s in nodes]
    return [name for name in names if name not in VIEWS]


def launches(run: Callable[[], Any]) -> int:
    before = driver().launches
    run()
    return driver().launches - before


CASES: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "a chain": (lambda x, y: F.dropout(x + y, 0.3) * 2, ["add_native_dropout_mul"]),
    "rows": (
        lambda x, y: F.layer_norm(x + F.dropout(y, 0.4), y.shape[-1:]),
        ["native_dropout_add_native_layer_norm"],
    ),
    "weights": (lambda x, y: F.dropout((x * 0.5).softmax(-1), 0.1), ["mul_softmax_native_dropout"]),
    "two of them": (
        lambda x, y: F.dropout(F.dropout(x, 0.1) + y, 0.9),
        ["native_dropout_add_native_dropout"],
    ),
    "with the mask": (
        lambda x, y: (tt.native_dropout(x * y, 0.5, True)[1], tt.native_dropout(y, 0.5, True)[0] + 1),
        ["mul_native_dropout", "native_dropout_add"],
    ),
    "a draw between": (
        lambda x, y: F.dropout(x * 2, 0.5) + F.dropout(y.sum(), 0.5) + F.dropout(y, 0.5),
        ["sum", "mul_native_dropout", "native_dropout", "add", "native_dropout", "add"],
    ),
    "everything kept": (lambda x, y: tt.native_dropout(x, 0.0, True)[0] * y, ["native_dropout_mul"]),
    "nothing kept": (lambda x, y: tt.native_dropout(x, 1.0, True)[0] * y, ["native_dropout_mul"]),
    "broadcast": (lambda x, y: F.dropout(x * y[:, :1], 0.5) - y[0], ["mul_native_dropout_sub"]),
    "columns": (lambda x, y: F.dropout(x.t() * 2, 0.5) + y.t(), ["mul", "native_dropout", "add"]),
    "evaluation": (lambda x, y: F.dropout(x + y, 0.5, training=False) * 2, ["add_mul"]),
}
"""Functions, and their steps on CUDA but for views."""


@pytest.mark.parametrize("width", [7, 8])
@pytest.mark.parametrize("name", CASES)
def test_numbers_are_eager(name: str, width: int) -> None:
    function, wanted = CASES[name]
    make = lambda: (drawn(5, width, device="cuda"), drawn(5, width, device="cuda", seed=1))  # noqa: E731
    agree(function, make)
    if name != "a draw between":
        assert steps(function, *make()) == wanted


def test_an_operand_of_another_order_does_not_change_the_order_of_draws() -> None:
    function = lambda x, y: F.dropout(x.t().contiguous() + y, 0.5)  # noqa: E731
    make = lambda: (drawn(6, 5, device="cuda"), drawn(5, 6, device="cuda", seed=1))  # noqa: E731
    assert steps(function, *make()) == ["clone_add_native_dropout"]
    agree(function, make)


@pytest.mark.parametrize("dtype", [tt.float16, tt.bfloat16, tt.float64])
def test_dtypes(dtype: Any) -> None:
    function = lambda x: F.dropout(x * 3, 0.3) + 1  # noqa: E731
    agree(function, lambda: (drawn(3, 50, device="cuda", dtype=dtype),))


def test_every_backend_draws_the_same() -> None:
    function = lambda x: F.dropout(x * 2, 0.3) + 1  # noqa: E731
    found = []
    for device in ("cpu", "cuda"):
        compiled = tt.compile(function, fullgraph=True)
        tt.manual_seed(5)
        found.append([compiled(drawn(9, 300, device=device)).cpu() for _ in range(2)])
    same(found[1], found[0])


@pytest.mark.parametrize("size", [2, 3, 63, 1025])
def test_edges_of_blocks(size: int) -> None:
    agree(lambda x: F.dropout(x + 1, 0.5), lambda: (drawn(size, device="cuda"),), calls=1)


@pytest.mark.parametrize("width", [400, 402])
def test_rows_that_are_gone_through_twice(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "INTERPRETED_REDUCED", 128)
    function = lambda x: (y := F.dropout(x, 0.5)) - y.amax(-1, keepdim=True)  # noqa: E731
    make = lambda: (drawn(4, width, device="cuda"),)  # noqa: E731
    (text,) = tt.compiler.explain(function, *make()).sources.values()
    assert "for base in" in text
    agree(function, make, calls=1)


def test_a_training_step_draws_once() -> None:
    def f(x: tt.Tensor, y: tt.Tensor) -> tt.Tensor:
        return F.dropout(F.gelu(x), 0.3) * y

    found, counts = [], []
    for function in (f, tt.compile(f, fullgraph=True)):
        for seed in range(2):
            x, y = drawn(6, 9, device="cuda", grad=True), drawn(6, 9, device="cuda", seed=1)
            tt.manual_seed(seed)
            result = function(x, y)
            result.sum().backward()
            last = (result.detach(), x.grad, tt.rand(1, device="cuda"))
        found.append(last)
        x = drawn(6, 9, device="cuda", grad=True)
        counts.append(launches(lambda x=x, y=y, f=function: f(x, y).sum().backward()))  # type: ignore[misc]
    same(found[1], found[0])
    assert counts[1] < counts[0]


def test_one_launch() -> None:
    f = lambda x, y: F.dropout(x + y, 0.3) * 2  # noqa: E731
    x, y = drawn(5, 8, device="cuda"), drawn(5, 8, device="cuda", seed=1)
    compiled = tt.compile(f, fullgraph=True)
    compiled(x, y)
    assert launches(lambda: compiled(x, y)) == 1 < launches(lambda: f(x, y))


def test_a_probability_out_of_range_is_eager_s_error(device: str) -> None:
    f = lambda x: tt.native_dropout(x * 2, 1.5, True)[0] + 1  # noqa: E731
    errors = []
    for function in (f, tt.compile(f)):
        with pytest.raises(RuntimeError) as caught:
            function(drawn(4, device=device))
        errors.append(str(caught.value))
    assert errors[0] == errors[1]
