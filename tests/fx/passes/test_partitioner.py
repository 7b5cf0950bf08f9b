"""Partitions that a backend supports, and their fusion. The partitions are those that PyTorch 2.13 proposes."""

import operator

import pytest

import triten as tt
from triten.fx.passes.infra.partitioner import CapabilityBasedPartitioner, Partition
from triten.fx.passes.operator_support import OperatorSupport, OpSupports, any_chain, chain, create_op_support
from triten.fx.passes.shape_prop import ShapeProp
from triten.fx.passes.tools_common import get_node_target, stable_topological_sort
from triten.fx.passes.utils import compare_graphs, lift_subgraph_as_module
from triten.fx.passes.utils.fuser_utils import fuse_as_graphmodule, fuse_by_partitions, topo_sort

CALLED = (operator.add, operator.getitem, tt.ops.aten.std_mean, tt.ops.aten.view, tt.ops.aten.permute)
SUPPORT = create_op_support(lambda submodules, node: node.op == "call_function" and node.target in CALLED)


def blocked(a, b):
    add = a + b
    add_1 = add + b
    add_3 = add_1 + add_1.relu()
    return add_1 + add_3, add_1


def horizontal(a, b):
    return tt.where(a + b > 0, a + 1, b + 2)


def one_branch(a, b):
    add = a + 1
    return add.relu(), add + 2


def two_groups(a, b):
    b0 = a + 1.0
    c0 = a + 1.5
    x0, x1 = b0.relu(), c0.relu()
    return b0 + x1, x0 + c0, c0 + 1.2


def results(a, b):
    deviation, _ = tt.ops.aten.std_mean(a)
    return deviation + 1.0


def bookends(a, b):
    seen = tt.ops.aten.permute(tt.ops.aten.view(a - 1.0, [2, 2]), [1, 0])
    return tt.ops.aten.permute(tt.ops.aten.permute(seen + 1.0, [1, 0]) + 1.0, [1, 0]) - 1.0


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (blocked, [["add_2", "add_3"], ["add", "add_1"]]),
        (horizontal, [["add", "add_1", "add_2"]]),
        (one_branch, [["add", "add_1"]]),
        (two_groups, [["add_2", "add_3", "add_4"], ["add", "add_1"]]),
        (results, [["std_mean", "getitem", "getitem_1", "add"]]),
        (bookends, [["view", "permute", "add", "permute_1", "add_1", "permute_2"]]),
    ],
)
def test_proposed_partitions(function, expected):
    traced = tt.fx.symbolic_trace(function)
    partitioner = CapabilityBasedPartitioner(traced, SUPPORT, allows_single_node_partition=True)
    partitions = partitioner.propose_partitions()
    assert [[node.name for node in each.nodes] for each in partitions] == expected
    fused = partitioner.fuse_partitions(partitions)
    fused.recompile()
    a, b = tt.tensor([1.0, 2.0, 3.0, 5.0]), tt.tensor([-9.0, 2.0, 1.0, 0.5])
    tt.testing.assert_close(fused(a, b), function(a, b))
    calls = [node.target for node in fused.graph.nodes if node.op == "call_module"]
    assert sorted(calls) == [f"fused_{number}" for number in range(len(expected))]


def test_options():
    traced = tt.fx.symbolic_trace(bookends)
    names = ["torch.ops.aten.view", "torch.ops.aten.permute"]
    partitioner = CapabilityBasedPartitioner(traced, SUPPORT, non_compute_ops=names)
    (partition,) = partitioner.propose_partitions()
    partitioner.remove_bookend_non_compute_ops([partition])
    assert [node.name for node in partition.nodes] == ["add", "permute_1", "add_1"]
    traced = tt.fx.symbolic_trace(two_groups)
    assert [each.size() for each in CapabilityBasedPartitioner(traced, SUPPORT).propose_partitions()] == [
        3,
        2,
    ]
    alone = {"allows_single_node_partition": True, "skip_horizontal_fusion": True}
    apart = CapabilityBasedPartitioner(tt.fx.symbolic_trace(horizontal), SUPPORT, **alone)
    assert [each.size() for each in apart.propose_partitions()] == [1, 1, 1]
    assert [node.op for node in apart.partition_and_fuse("part_").graph.nodes].count("call_module") == 3
    with pytest.raises(AssertionError, match="nodes and node_orders must have the same length"):
        Partition(nodes=list(traced.graph.nodes), node_orders=[1])


class Model(tt.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = tt.nn.Linear(4, 4)
        self.param = tt.nn.Parameter(tt.rand(4, 4))

    def forward(self, a, b):
        add = a + b
        linear = self.linear(add)
        return (add + self.param + linear).relu(), linear


@pytest.mark.parametrize(
    "partition",
    [["add", "linear"], ["add_1", "param", "add"], ["add_2", "relu"], ["param", "linear", "add_1"]],
)
def test_fusion(partition):
    model = Model()
    traced = tt.fx.symbolic_trace(model)
    named = {node.name: node for node in traced.graph.nodes}
    named["relu"].meta["val"] = "kept"
    fused = fuse_by_partitions(traced, [[named[name] for name in partition]])
    fused.recompile()
    a, b = tt.rand(4), tt.rand(4)
    tt.testing.assert_close(fused(a, b), model(a, b))
    assert "call_module" in [node.op for node in fused.graph.nodes if node.target == "fused_0"]
    inner = [node.op for node in fused.fused_0.graph.nodes if node.op not in ("placeholder", "output")]
    assert len(inner) == len(partition)


def test_refused_fusions():
    traced = tt.fx.symbolic_trace(Model())
    named = {node.name: node for node in traced.graph.nodes}
    with pytest.raises(AssertionError, match="Invalid partition, found dependency cycles"):
        fuse_by_partitions(traced, [[named["add"], named["add_2"]]])
    with pytest.raises(AssertionError, match="doesn't have same length as input nodes"):
        topo_sort([named["add"], named["add"]])
    other = tt.fx.symbolic_trace(Model())
    with pytest.raises(AssertionError, match="doesn't belong to passed in graph module"):
        fuse_as_graphmodule(other, [named["add"]], "Fused")
    module, inputs, outputs = fuse_as_graphmodule(traced, [named["add"]], "Fused", always_return_tuple=True)
    assert type(module).__name__ == "Fused" and module(1, 2) == (3,)
    assert [node.name for node in inputs] == ["a", "b"] and outputs == (named["add"],)
    assert topo_sort([named["relu"], named["add_2"], named["linear"]])[0] is named["linear"]


def test_support_by_dtypes():
    traced = tt.fx.symbolic_trace(Model())
    ShapeProp(traced).propagate(tt.ones(4), tt.ones(4))
    modules = dict(traced.named_modules())
    named = {node.name: node for node in traced.graph.nodes}
    assert get_node_target(modules, named["add"]) == "_operator.add"
    assert get_node_target(modules, named["linear"]).endswith("nn.modules.linear.Linear")
    assert get_node_target(modules, named["relu"]) == "relu"
    with pytest.raises(AssertionError, match="Expect op types of"):
        get_node_target(modules, named["a"])
    floats = OperatorSupport(
        {"_operator.add": ((None, [tt.float32]), {}), "relu": ((), {"inplace": [tt.bool]})}
    )
    ints = OperatorSupport({"_operator.add": (([tt.int64],), {})})
    assert floats.is_node_supported(modules, named["add"]) and floats.is_node_supported(
        modules, named["relu"]
    )
    assert floats.is_node_supported(modules, named["a"])
    assert not ints.is_node_supported(modules, named["add"]) and not ints.is_node_supported(
        modules, named["relu"]
    )
    no_floats = OpSupports.decline_if_input_dtype(tt.float32)
    no_relu = OpSupports.decline_if_node_in_names({"relu"})
    assert not chain(floats, no_floats).is_node_supported(modules, named["add"])
    assert any_chain(floats, no_floats).is_node_supported(modules, named["add"])
    assert [no_relu.is_node_supported(modules, named[name]) for name in ("add", "relu")] == [True, False]


def test_modules_of_subgraphs():
    traced = tt.fx.symbolic_trace(Model())
    graph = tt.fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_module("linear", (x,)))
    module, names = lift_subgraph_as_module(traced, graph, "part", "Part")
    assert names == {"linear": "part.linear"} and module.linear is traced.linear
    assert type(module).__name__ == "Part" and [name for name, _ in module.named_parameters()] == [
        "linear.weight",
        "linear.bias",
    ]
    assert compare_graphs(graph, tt.fx.symbolic_trace(module).graph)
    assert not compare_graphs(tt.fx.symbolic_trace(blocked).graph, tt.fx.symbolic_trace(one_branch).graph)


def test_sorting_keeps_the_order():
    traced = tt.fx.symbolic_trace(lambda x: (x.exp(), x.sin() + 1))
    x, exp, sin, add, output = traced.graph.nodes
    x.prepend(add)
    exp.append(x)
    assert list(stable_topological_sort(traced).graph.nodes) == [x, exp, sin, add, output]
