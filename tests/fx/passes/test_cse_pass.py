"""Common-subexpression elimination, and the order of nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.fx.experimental.proxy_tensor import make_fx
from triten.fx.passes.dialect.common.cse_pass import CSEPass, get_CSE_banned_ops
from triten.fx.passes.tools_common import legalize_graph

x = tt.arange(6.0).reshape(2, 3)

CASES: list[tuple[Callable[..., Any], int]] = [
    (lambda a: a.sin() + a.sin(), 1),
    (lambda a: (a.sin() + 1) * (a.sin() + 1), 2),
    (lambda a: a.sum(0) + a.sum(1).sum(), 0),
    (lambda a: (a + 1) * (a + 1.0), 0),
    (lambda a: (a * 0.0) + (a * -0.0), 0),
    (lambda a: tt.cat([a, a]) + tt.cat([a, a]), 1),
    (lambda a: a[0, 1:] + a[0, 1:], 2),
    (lambda a: tt.bernoulli(a * 0) + tt.bernoulli(a * 0), 1),
    (lambda a: tt.zeros(2, 3).add_(a) + tt.zeros(2, 3).add_(a), 1),
]


@pytest.mark.parametrize(("function", "fewer"), CASES)
def test_equal_calls_are_one(function: Callable[..., Any], fewer: int) -> None:
    traced = make_fx(function)(x)
    result = CSEPass(banned_ops=get_CSE_banned_ops())(traced)
    assert len(traced.graph.nodes) - len(result.graph_module.graph.nodes) == fewer
    assert result.modified == bool(fewer) == (result.graph_module is not traced)
    if "zeros" not in traced.code:
        assert tt.equal(result.graph_module(x), function(x))


def test_methods_and_modules_are_kept_and_nothing_is_banned_by_default() -> None:
    model = tt.fx.symbolic_trace(tt.nn.Sequential(tt.nn.ReLU(), tt.nn.ReLU()))
    assert not CSEPass()(model).modified
    assert not CSEPass()(tt.fx.symbolic_trace(lambda a: a.add_(1) + a.add_(1))).modified
    random = make_fx(lambda a: tt.bernoulli(a) + tt.bernoulli(a))(x * 0)
    assert CSEPass()(random).modified


def test_a_sorted_graph_has_inputs_before_users() -> None:
    module = tt.fx.symbolic_trace(lambda a, b: (a.exp() + b).sin())
    nodes = {node.name: node for node in module.graph.nodes}
    nodes["a"].prepend(nodes["sin"])
    nodes["b"].append(nodes["add"])
    legalize_graph(module)
    module.graph.lint()
    assert [node.name for node in module.graph.nodes] == ["a", "b", "exp", "add", "sin", "output"]
    assert tt.equal(module(x, x), (x.exp() + x).sin())
    sin, exp = (next(n for n in module.graph.nodes if n.name == name) for name in ("sin", "exp"))
    exp.args = (sin,)
    with pytest.raises(RuntimeError, match="cycles"):
        legalize_graph(module)
