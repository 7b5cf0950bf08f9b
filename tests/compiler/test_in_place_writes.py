"""Operators write to inputs in place if no other step reads the input, with unchanged results."""

from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.compiler.passes.in_place import write_in_place
from triten.tests.compiler.beside_eager import drawn, same

nn = tt.nn


def steps(function: Callable[..., Any], *args: Any) -> list[str]:
    """Return the operators of a compiled call."""
    compiled: Any = tt.compile(function, fullgraph=True, dynamic=False)
    compiled(*args)
    (found,) = compiled._optimized.graphs()
    return [str(node.target) for node in found.recording.graph.find_nodes(op="call_function")]


def counted(x: tt.Tensor, n: tt.Tensor) -> tt.Tensor:
    n.add_(1)
    return x * 2


def test_a_count_is_written_by_its_addition() -> None:
    n = tt.zeros((), dtype=tt.int64)
    assert steps(counted, drawn(3), n) == ["aten.add_.Tensor", "aten.mul.Tensor"]
    assert n == 1


def reads_before(x: tt.Tensor, n: tt.Tensor) -> tt.Tensor:
    before = x * n
    n.add_(1)
    return before


def reads_after(x: tt.Tensor, n: tt.Tensor) -> tt.Tensor:
    n.add_(1)
    return x * n


def gives_the_same_besides(x: tt.Tensor, n: tt.Tensor) -> tt.Tensor:
    other = n.cumsum(0)
    n.cumsum_(0)
    return other


def returns_it(x: tt.Tensor, n: tt.Tensor) -> tt.Tensor:
    return n.add_(1)


def casts(x: tt.Tensor, n: tt.Tensor) -> None:
    n.copy_(x.sum() * 0 + 1.5)


def twice(x: tt.Tensor, n: tt.Tensor) -> None:
    n.add_(n)


KEPT = [reads_before, reads_after, gives_the_same_besides, returns_it, casts, twice]


@pytest.mark.parametrize("function", KEPT)
def test_what_else_reads_the_input_sees_the_right_elements(function: Callable[..., Any], device: str) -> None:
    compiled = tt.compile(function, fullgraph=True)
    own, eager = tt.ones((), dtype=tt.int64, device=device), tt.ones((), dtype=tt.int64, device=device)
    for call in range(3):
        x = drawn(3, device=device, seed=call)
        found, expected = compiled(x, own), function(x, eager)
        same(found, expected)
        same(own, eager)
        assert (found is own) is (expected is eager)
        if found is not None and found is not own:
            own.zero_(), eager.zero_()
            same(found, expected, "after a write to the argument")


def test_batch_normalization_writes_its_statistics(device: str) -> None:
    modules = [nn.Sequential(nn.Conv2d(2, 3, 1), nn.BatchNorm2d(3), nn.ReLU()).to(device) for _ in range(2)]
    modules[1].load_state_dict(modules[0].state_dict())
    compiled: Any = tt.compile(modules[1], fullgraph=True)
    for call in range(3):
        x = drawn(4, 2, 3, 3, device=device, seed=call)
        for each in (modules[0], compiled):
            each(x).square().sum().backward()
    same(dict(modules[1].state_dict()), dict(modules[0].state_dict()))
    for mine, theirs in zip(modules[1].parameters(), modules[0].parameters(), strict=True):
        assert mine.grad is not None and theirs.grad is not None
        assert tt.allclose(mine.grad, theirs.grad, rtol=1e-4, atol=1e-5)


def test_an_optimizer_updates_all_parameters_at_once() -> None:
    parameters = [drawn(3, 2, grad=True), drawn(2, grad=True)]
    optimizer = tt.optim.AdamW(parameters, 0.1, fused=True)
    step: Any = tt.compile(optimizer.step)
    for _ in range(3):
        for each in parameters:
            each.grad = drawn(*each.shape)
        step()
    (found,) = step._optimized.graphs()
    names = [str(node.target) for node in found.recording.graph.find_nodes(op="call_function")]
    assert names == ["aten.add_.Tensor"] * 2 + ["aten._fused_adamw_.default"]


def test_the_pass_says_whether_it_did_anything() -> None:
    traced = tt.func.make_graph(lambda x: x + 1)(tt.ones(2))
    assert not write_in_place(traced.graph)
