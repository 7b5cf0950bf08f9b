"""Calls with the same metadata run on Meta once in a recording, and each call has its own results."""

from typing import Any

import pytest

import triten as tt
from triten.dispatch.layers.graph import fake_tensor
from triten.dispatch.layers.graph.call_looks import call_look


class Watched(int):
    """Subclass of int as a size."""


def look(name: str, *values: Any) -> Any:
    packet, _, overload = name.partition(".")
    return call_look(getattr(getattr(tt.ops.aten, packet), overload or "default")._entry, values)


def test_numbers_of_other_classes_look_otherwise() -> None:
    x = tt.ones(2, 3)
    looks = [look("add.Tensor", x, x, number) for number in (1, True, 1.0, 2)]
    assert len(set(looks)) == 4 and looks[0] == look("add.Tensor", tt.zeros(2, 3), x, 1)
    assert look("add.Tensor", x, tt.ones(3), 1) not in looks


def test_what_follows_from_more_has_no_look() -> None:
    x = tt.ones(2, 3)
    assert look("select.int", x, 0, 1) is not None
    assert look("select.int", x, 0, Watched(1)) is None
    assert look("relu_", x) is None
    assert look("full", [2], 1.0, None, None, None, None) is None


def several(x: tt.Tensor, y: tt.Tensor) -> Any:
    a, b = x.max(1), y.max(1)
    rows = x[1], y[1]
    rows[1].add_(1)
    return a.values, b.indices, rows[0], rows[1] * 2, y[1], x.t().contiguous(), y.t().contiguous()


@pytest.mark.parametrize("functional", [True, False])
def test_results_are_those_of_each_call(functional: bool) -> None:
    function = tt.func.functionalize(several) if functional else several
    expected = several(tt.arange(6.0).view(2, 3), tt.arange(6.0).view(2, 3).flip(1))
    given = [tt.arange(6.0).view(2, 3), tt.arange(6.0).view(2, 3).flip(1)]
    traced = tt.func.make_graph(function, "fake")(*given)
    found = traced(*given)
    assert [each.tolist() for each in found] == [each.tolist() for each in expected]
    assert [each.stride() for each in found] == [each.stride() for each in expected]


def test_the_meta_kernel_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    meta_of = fake_tensor._meta_of
    monkeypatch.setattr(fake_tensor, "_meta_of", lambda tensor: asked.append(1) or meta_of(tensor))

    def function(x: tt.Tensor) -> tt.Tensor:
        for _ in range(5):
            x = (x + 1).relu()
        return x

    traced = tt.func.make_graph(function, "fake")(tt.ones(3))
    assert len(traced.graph.find_nodes(op="call_function")) == 10 and len(asked) == 2
