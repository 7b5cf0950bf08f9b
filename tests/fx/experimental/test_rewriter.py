"""Tracing of assertions and annotated assignments."""

from __future__ import annotations

import pytest

import triten as tt
from triten.fx import GraphModule
from triten.fx.experimental.rewriter import RewritingTracer


def make_checked(limit: int):
    def checked(x, scale=2):
        assert x.sum() < limit, "too large"
        y: tt.Tensor = x * scale
        z: int
        z = y + limit
        return z

    return checked


class Inner(tt.nn.Module):
    def forward(self, x):
        assert x.ndim == 1
        return super().extra_repr(), self.layer(x)


class Outer(tt.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()
        self.inner.layer = tt.nn.Linear(2, 2)

    def forward(self, x):
        return self.inner(x)[1]


def test_assertions_and_annotations_of_a_function_are_steps() -> None:
    tracer = RewritingTracer()
    graph = tracer.trace(make_checked(10))
    module = GraphModule(tracer.root, graph)
    assert module(tt.ones(2)).tolist() == [12.0, 12.0]
    with pytest.raises(AssertionError, match="too large"):
        module(tt.ones(20))
    assert [node.type for node in graph.nodes if node.op == "call_function" and node.type] in (
        [tt.Tensor],
        ["tt.Tensor"],
    )


def test_modules_are_rewritten_below_too_and_stay_as_they_are() -> None:
    model = Outer()
    tracer = RewritingTracer()
    module = GraphModule(model, tracer.trace(model))
    x = tt.ones(2)
    assert tt.equal(module(x), model(x)) and type(model.inner) is Inner
    with pytest.raises(AssertionError):
        module(tt.ones(1, 2))


class Spoken(tt.nn.Module):
    def forward(self, x):
        message = """
less indented
        """
        assert x.ndim == 1, message
        return x + 1


def test_strings_of_several_lines_stay_as_they_are() -> None:
    model = Spoken()
    module = GraphModule(model, RewritingTracer().trace(model))
    assert module(tt.ones(2)).tolist() == [2.0, 2.0]
    with pytest.raises(AssertionError, match=r"^\nless indented\n        $"):
        module(tt.ones(1, 2))
