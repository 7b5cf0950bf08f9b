"""Passes and schedules: the remaining steps of a graph, the steps of one kernel, and their order."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.compiler.passes.common_subexpressions import share_common_subexpressions
from triten.compiler.passes.dead_code import eliminate_dead_code
from triten.compiler.pipeline import run_passes
from triten.compiler.schedule import (
    MAX_POINTWISE,
    MAX_STEPS,
    OperatorCall,
    RowsKernel,
    Schedule,
    fused_schedule,
    plain_schedule,
)
from triten.tests.compiler.beside_eager import drawn

F = tt.nn.functional


def graph_of(function: Callable[..., Any], *sizes: tuple[int, ...], device: str = "cpu") -> Any:
    traced = tt.func.make_graph(function, "fake")
    return traced(*[drawn(*each, device=device) for each in sizes or ((4, 4),) * 3]).graph


def operators(graph: Any) -> list[str]:
    return [n.target._opname for n in graph.find_nodes(op="call_function") if hasattr(n.target, "_opname")]


def shape(schedule: Schedule) -> list[Any]:
    """Return a schedule's steps: a list of operators for a kernel, one operator for a call."""
    return [
        step.node.target._opname
        if isinstance(step, OperatorCall)
        else [c.node.target._opname for c in step.calls]
        for step in schedule.steps
    ]


def scheduled(function: Callable[..., Any], *sizes: tuple[int, ...], device: str = "cpu") -> Schedule:
    schedule = fused_schedule(run_passes(graph_of(function, *sizes, device=device)))
    schedule.check()
    return schedule


SHARED: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "equal steps": (lambda x, y, z: (x + y) * (x + y), ["add", "mul"]),
    "equal chains": (lambda x, y, z: (x + y).exp() * (x + y).exp(), ["add", "exp", "mul"]),
    "other numbers": (lambda x, y, z: (x + 1) * (x + 2), ["add", "add", "mul"]),
    "numbers of other classes": (lambda x, y, z: (x + 1) * (x + 1.0), ["add", "add", "mul"]),
    "zeros of other signs": (lambda x, y, z: (x * 0.0) + (x * -0.0), ["mul", "mul", "add"]),
    "other operands": (lambda x, y, z: (x - y) * (y - x), ["sub", "sub", "mul"]),
    "draws": (lambda x, y, z: tt.rand_like(x) + tt.rand_like(x), ["rand_like", "rand_like", "add"]),
    "results": (lambda x, y, z: (x + y, x + y), ["add", "add"]),
}


@pytest.mark.parametrize("name", SHARED)
def test_common_subexpressions(name: str) -> None:
    function, wanted = SHARED[name]
    graph = graph_of(function)
    changed = share_common_subexpressions(graph)
    assert changed == ("equal" in name)
    graph.lint()
    assert operators(graph) == wanted
    assert not share_common_subexpressions(graph)


def test_dead_code() -> None:
    def f(x: Any, y: Any, z: Any) -> Any:
        x.exp().sin()
        tt.rand_like(x)
        y.max(0)
        return z + 1

    graph = graph_of(f)
    assert eliminate_dead_code(graph)
    assert operators(graph) == ["rand_like", "add"], "a draw moves the generator on"
    assert not eliminate_dead_code(graph)


def test_writes_to_arguments_stay_and_come_last() -> None:
    schedule = scheduled(tt.func.functionalize(lambda x, y, z: (x.add_(y), (x * z).exp())[1]))
    assert shape(schedule) == [["add", "mul", "exp"], "copy_"]


def test_a_pass_that_breaks_a_graph_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(graph: Any) -> bool:
        first = graph.find_nodes(op="call_function")[0]
        first.args = (graph.find_nodes(op="call_function")[-1], *first.args[1:])
        return True

    monkeypatch.setattr("triten.compiler.pipeline.PASSES", (careless,))
    with pytest.raises(RuntimeError, match="after the pass careless: "):
        run_passes(graph_of(lambda x, y, z: (x + y) * z))


def softmax(x: tt.Tensor) -> tt.Tensor:
    e = (x - x.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)


GROUPS: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "a chain": (lambda x, y, z: tt.relu((x + y) * z), [["add", "mul", "relu"]]),
    "one step": (lambda x, y, z: x + y, ["add"]),
    "a chain around a sum": (
        lambda x, y, z: ((x + y) * 2 - (x * y).exp().sum()).abs() * 3,
        [["mul", "exp", "sum"], ["add", "mul", "sub", "abs", "mul"]],
    ),
    "softmax by hand": (lambda x, y, z: softmax(x), [["amax", "sub", "exp", "sum", "div"]]),
    "two results": (lambda x, y, z: (x.exp() + 1, x.exp() * 2), [["exp", "add", "mul"]]),
    "other sizes": (lambda x, y, z: (x[0] * 2 + 1) + (y * 2 + 1), ["select", ["mul", "add"], ["mul", "add", "add"]]),
    "products": (lambda x, y, z: (x.exp() + 1) @ (y * 2 - 1), [["exp", "add"], ["mul", "sub"], "mm"]),
    "dtypes": (lambda x, y, z: ((x > 0).float() * y).half() + 1, [["gt", "_to_copy", "mul", "_to_copy", "add"]]),
    "views between": (lambda x, y, z: (x * 2 + y).view(2, 8) * 3 + 1, [["mul", "add"], "view", ["mul", "add"]]),
    "draws": (lambda x, y, z: (x.exp() * tt.rand_like(x)).sin() + 1, ["rand_like", ["exp", "mul", "sin", "add"]]),
}  # fmt: skip


@pytest.mark.parametrize("name", GROUPS)
def test_groups(name: str, device: str) -> None:
    function, wanted = GROUPS[name]
    assert sorted(map(str, shape(scheduled(function, device=device)))) == sorted(map(str, wanted))


def test_steps_of_another_order_in_memory_are_together_on_cuda(device: str) -> None:
    steps = shape(scheduled(lambda x, y, z: x.t() * 3 + 1, device=device))
    assert steps == ["t", ["mul", "add"]] if device == "cuda" else ["t", "mul", "add"]


def test_no_group_runs_before_and_after_a_step() -> None:
    def f(x: Any, y: Any, z: Any) -> Any:
        for _ in range(4):
            x = (x * 2 + y).exp()
            y = x - x.sum(0) * y
            z = (z + y).abs() * x.amax()
        return x, y, z

    schedule = scheduled(f)
    assert len(schedule.kernels) < len(schedule.graph.find_nodes(op="call_function")) / 2
    done = set(schedule.graph.find_nodes(op="placeholder"))
    for step in schedule.steps:
        given = step.node.all_input_nodes if isinstance(step, OperatorCall) else step.inputs
        assert done.issuperset(given), f"{step} reads what comes later"
        done.update([step.node] if isinstance(step, OperatorCall) else step.outputs)


def test_a_kernel_s_inputs_outputs_and_index_space() -> None:
    (kernel,) = scheduled(lambda x, y, z: ((x + y).exp(), (x + y).sin() * 2), (3, 4), (4,), (1, 1)).kernels
    assert [n.name for n in kernel.inputs] == ["x", "y"]
    assert [n.target._opname for n in kernel.outputs] == ["exp", "mul"], "what nobody else reads stays inside"
    assert kernel.domain.sizes == (3, 4) and kernel.name == "add_exp_sin_mul"


def test_kernels_over_rows_have_an_end(device: str) -> None:
    def f(x: Any, y: Any, z: Any) -> Any:
        for _ in range(30):
            x = softmax(x) * y
            spread, mean = tt.var_mean(x, -1, keepdim=True)
            x = x * spread + mean
        return x

    schedule = scheduled(f, device=device)
    kernels = [kernel for kernel in schedule.kernels if isinstance(kernel, RowsKernel)]
    assert len(kernels) > 3 and not [step for step in schedule.steps if isinstance(step, OperatorCall)]
    assert all(len(kernel.calls) <= MAX_STEPS + 2 for kernel in kernels)


def test_pointwise_kernels_have_an_end(device: str) -> None:
    def f(x: Any, y: Any, z: Any) -> Any:
        for i in range(3 * MAX_POINTWISE // 2):
            x = (x * y - 0.25).sin() if i % 2 else x + z
        return x

    schedule = scheduled(f, device=device)
    assert len(schedule.kernels) == len(schedule.steps) == 3
    assert all(len(kernel.calls) <= MAX_POINTWISE for kernel in schedule.kernels)


def test_a_long_chain_gives_the_values_of_eager_calls() -> None:
    def f(x: Any) -> Any:
        y = x
        for i in range(MAX_POINTWISE + 40):
            x = x * 1.01 + 0.1 if i % 3 else (x - y).abs()
        return x, y + 1

    x = drawn(3, 41)
    for found, wanted in zip(tt.compile(f)(x), f(x), strict=True):
        assert tt.equal(found, wanted)


@pytest.mark.parametrize("length", [126, 127, 128, 129])
def test_a_step_with_several_results_is_not_cut(length: int) -> None:
    def f(x: Any) -> Any:
        for _ in range(length):
            x = x * 1.01
        return tt.nn.functional.dropout(x, 0.25) + 1

    x = drawn(3, 41)
    tt.manual_seed(3)
    expected = f(x)
    tt.manual_seed(3)
    assert tt.equal(tt.compile(f)(x), expected)


def test_names_of_long_kernels_are_short() -> None:
    def f(x: Any, y: Any, z: Any) -> Any:
        for _ in range(20):
            x = (x + y) * z
        return x

    (kernel,) = scheduled(f).kernels
    assert kernel.name == "add_38_more_mul"


def test_check() -> None:
    whole = scheduled(lambda x, y, z: ((x + y) * 2).sum(0) + z[0])
    first, *rest = whole.steps
    for steps, said in (
        (whole.steps[1:], "is computed before %"),
        ((*whole.steps, first), "is computed twice"),
        (whole.steps[:-1], "is missing"),
        ((*rest, first), "is computed before %"),
    ):
        with pytest.raises(RuntimeError, match=f"schedule: %.*{said}"):
            dataclasses.replace(whole, steps=tuple(steps)).check()


def test_a_plain_schedule_is_the_graph() -> None:
    graph = graph_of(lambda x, y, z: tt.relu((x + y) * z).sum())
    schedule = plain_schedule(graph)
    schedule.check()
    assert shape(schedule) == operators(graph) == ["add", "mul", "relu", "sum"]


def test_printing() -> None:
    assert str(scheduled(lambda x, y, z: ((x + y) * 2).sum(0), (3, 4), (4,), (1,))) == "\n".join(
        [
            "kernel add_mul_sum(%x, %y) -> %sum_1 over dimensions [0] of [3, 4] on cpu:",
            "    %add : float32[3, 4] = aten.add.Tensor(%x, %y)",
            "    %mul : float32[3, 4] = aten.mul.Tensor(%add, 2)",
            "    %sum_1 : float32[4] = aten.sum.dim_IntList(%mul, [0])",
        ]
    )


def test_explain_counts_and_prints() -> None:
    layer = tt.nn.Linear(3, 2)
    found = tt.compiler.explain(lambda x: F.relu(layer(x) * 2) + 1, drawn(4, 3))
    assert (found.graph_count, found.graph_break_count) == (1, 0)
    assert len(found.schedules) == 2 and found.op_count == sum(
        len(s.graph.find_nodes(op="call_function")) for s in found.schedules
    )
    assert str(found).startswith("Forward: ") and "\nBackward: " in str(found) and "\nGuards: " in str(found)
    assert any("layer.weight is " in guard for guard in found.guards)
    broken = tt.compiler.explain(lambda x: x.tolist(), drawn(3))
    assert (broken.graph_count, broken.graph_break_count, broken.kernel_count) == (0, 1, 0)
    assert "runs eagerly" in str(broken) and "test_schedule.py" in str(broken)
