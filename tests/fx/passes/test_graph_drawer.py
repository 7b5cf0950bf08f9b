"""Pictures of graphs (torch.fx.passes.graph_drawer), by a stand-in for `pydot`, or the error without it."""

import sys
from types import ModuleType
from typing import Any

import pytest

import triten as tt
from triten import nn
from triten.fx.passes.graph_drawer import FxGraphDrawer
from triten.fx.passes.shape_prop import ShapeProp

fx = tt.fx


class Drawn:
    """Objects of the stand-in library: names and options of each call."""

    def __init__(self, *names: str, **options: Any) -> None:
        self.names, self.options = names, options
        self.nodes: list[Drawn] = []
        self.edges: list[tuple[str, ...]] = []

    def add_node(self, node: "Drawn") -> None:
        self.nodes.append(node)

    def add_edge(self, edge: "Drawn") -> None:
        self.edges.append(edge.names)


@pytest.fixture
def pydot(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("pydot")
    module.Dot = module.Node = module.Edge = Drawn
    monkeypatch.setitem(sys.modules, "pydot", module)


def test_without_pydot_there_is_no_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydot", None)
    with pytest.raises(RuntimeError, match="FXGraphDrawer requires the pydot package to be installed"):
        FxGraphDrawer(fx.symbolic_trace(lambda x: x), "name")


@pytest.mark.usefixtures("pydot")
def test_a_picture_has_nodes_and_edges() -> None:
    module = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    ShapeProp(module).propagate(tt.ones(1, 2))
    picture = FxGraphDrawer(module, "model").get_dot_graph()
    assert picture.names == ("model",)
    assert picture.edges == [("input_1", "_0"), ("_0", "_1"), ("_1", "output")]
    label = picture.nodes[1].options["label"]
    assert label.startswith("{name=%_0|op_code=call_module|target=0|Linear|")
    assert label.endswith("|num_users=1|dtype=triten.float32|shape=(1, 2)|stride=(2, 1)}")


@pytest.mark.usefixtures("pydot")
def test_attributes_may_be_left_out() -> None:
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.p = nn.Parameter(tt.ones(2))

        def forward(self, x):
            return tt.add(x, self.p, alpha=2)

    drawer = FxGraphDrawer(fx.symbolic_trace(Model()), "model", ignore_getattr=True)
    picture = drawer.get_main_dot_graph()
    assert [node.names[0] for node in picture.nodes] == ["x", "add", "output"]
    assert "kwargs=(alpha: 2)" in picture.nodes[1].options["label"]
    assert (
        picture.nodes[1].options["fillcolor"]
        == drawer.get_all_dot_graphs()["model"].nodes[1].options["fillcolor"]
    )


@pytest.mark.usefixtures("pydot")
def test_modules_below_have_pictures_of_their_own() -> None:
    outer = nn.Sequential(fx.symbolic_trace(nn.Sequential(nn.ReLU())))

    class Leaves(fx.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return True

    drawer = FxGraphDrawer(fx.GraphModule(outer, Leaves().trace(outer)), "model")
    assert list(drawer.get_all_dot_graphs()) == ["model", "model_0"]
    assert len(drawer.get_dot_graph("0").nodes) == 3
