"""`FakeTensorProp`: the results of a graph's nodes without elements."""

import pytest

import triten as tt
from triten._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from triten.fx.passes.fake_tensor_prop import FakeTensorProp


def test_each_node_has_its_fake_result():
    def program(x, y=None):
        halves = x.chunk(2)
        return halves[0] * 2 if y is None else y

    module = tt.fx.symbolic_trace(program, concrete_args={"y": None})
    result = FakeTensorProp(module).propagate(tt.ones(4, 3), None)
    assert isinstance(result, FakeTensor) and result.shape == (2, 3)
    values = {node.name: node.meta["val"] for node in module.graph.nodes}
    assert [each.shape for each in values["chunk"]] == [(2, 3), (2, 3)]
    assert all(isinstance(values[name], FakeTensor) for name in ("x", "getitem", "mul"))


def test_metadata_is_that_of_the_time_when_the_node_ran():
    graph = tt.fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_method("clone", (x,))
    graph.output(graph.call_method("t_", (y,)))
    module = tt.fx.GraphModule({}, graph)
    assert FakeTensorProp(module).propagate(tt.ones(2, 3)).shape == (3, 2)
    assert y.meta["val"].shape == (2, 3)


def test_parameters_must_be_of_the_mode():
    module = tt.fx.symbolic_trace(tt.nn.Sequential(tt.nn.Linear(3, 2)))
    with pytest.raises(AssertionError, match="convert all Tensors to FakeTensors"):
        FakeTensorProp(module).propagate(tt.ones(4, 3))
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    assert FakeTensorProp(module, mode).propagate(tt.ones(4, 3)).shape == (4, 2)
