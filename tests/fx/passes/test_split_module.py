"""Graphs cut into modules (torch.fx.passes.split_module)."""

from typing import Any

import pytest

import triten as tt
from triten import nn
from triten.fx.passes.split_module import split_module

fx = tt.fx


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.l, self.inner = nn.Linear(2, 2), nn.ModuleDict({"k": nn.ReLU()})
        self.p = nn.Parameter(tt.ones(2))

    def forward(self, x, y):
        a = self.l(x) + y
        b = self.inner["k"](a) * self.p
        return b.sum() + a, b


PARTS = {"l": 0, "add": 0, "inner_k": 1, "mul": 1, "sum_1": 2, "add_1": 2}


@pytest.fixture
def traced() -> fx.GraphModule:
    return fx.symbolic_trace(Model())


def split(module: fx.GraphModule, **options: Any) -> fx.GraphModule:
    return split_module(module, None, lambda node: PARTS[node.name], **options)


def lines(module: fx.GraphModule) -> list[str]:
    return [line.strip() for line in module.code.strip().splitlines() if line.strip()]


def test_parts_are_modules(traced: fx.GraphModule) -> None:
    made = split(traced)
    assert lines(made) == [
        "def forward(self, x, y):",
        "p = self.p",
        "submod_0 = self.submod_0(x, y);  x = y = None",
        "submod_1 = self.submod_1(submod_0, p);  p = None",
        "submod_2 = self.submod_2(submod_1, submod_0);  submod_0 = None",
        "return (submod_2, submod_1)",
    ]
    assert lines(made.submod_1) == [
        "def forward(self, add, p):",
        "inner_k = self.inner_k(add);  add = None",
        "mul = inner_k * p;  inner_k = p = None",
        "return mul",
    ]
    assert list(made.state_dict()) == ["p", "submod_0.l.weight", "submod_0.l.bias"]
    assert made.meta["partition_names"] == {"submod_0", "submod_1", "submod_2"}
    x, y = tt.ones(3, 2), tt.tensor([1.0, -5.0])
    for got, expected in zip(made(x, y), traced(x, y), strict=True):
        assert got.equal(expected)


def test_parts_with_several_results() -> None:
    module = fx.symbolic_trace(lambda x: (x.exp(), x.log()))
    made = split_module(module, None, lambda node: 0)
    assert lines(made)[1:4] == [
        "submod_0 = self.submod_0(x);  x = None",
        "getitem = submod_0[0]",
        "getitem_1 = submod_0[1];  submod_0 = None",
    ]
    assert made(tt.ones(1))[1].item() == 0


def test_options(traced: fx.GraphModule) -> None:
    new_names: dict[str, str] = {}
    affixed = split(traced, partition_affix="pp", qualname_map=new_names)
    assert new_names == {"submod_pp_0.l": "l", "submod_pp_1.inner_k": "inner.k"}
    assert [name for name, _ in affixed.named_children()] == ["submod_pp_0", "submod_pp_1", "submod_pp_2"]
    assert (
        lines(split(traced, keep_original_input_name=False).submod_2)[0] == "def forward(self, arg_0, arg_1):"
    )
    assert lines(split(traced, tuple_return=True).submod_0)[-1] == "return (add,)"
    assert [n.name for n in split(traced, keep_original_node_name=True).submod_2.graph.nodes][2:4] == [
        "sum_1",
        "add_1",
    ]
    ordered = split(traced, keep_original_order=True)
    assert lines(ordered)[1:3] == ["submod_0 = self.submod_0(x, y);  x = y = None", "p = self.p"]


def test_defaults_stay() -> None:
    made = split_module(fx.symbolic_trace(lambda x, y=3: x + y), None, lambda node: 0)
    assert made(1) == 4


def test_an_input_that_is_returned_stays() -> None:
    made = split_module(
        fx.symbolic_trace(lambda x: (x, x + 1)), None, lambda node: 0, keep_original_order=True
    )
    assert made(1) == (1, 2)


def test_parts_that_need_each_other_are_an_error(traced: fx.GraphModule) -> None:
    with pytest.raises(RuntimeError, match="cycle exists between partitions"):
        split_module(traced, None, lambda node: int(node.name in ("l", "sum_1")))
