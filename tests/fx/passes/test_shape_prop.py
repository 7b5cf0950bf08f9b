"""`ShapeProp` records the metadata of results (torch.fx.passes.shape_prop)."""

import pytest

import triten as tt
from triten import nn
from triten.fx.passes.shape_prop import ShapeProp, TensorMetadata

fx = tt.fx


def described(module: fx.GraphModule, *args: object) -> dict[str, object]:
    ShapeProp(module).propagate(*args)
    return {node.name: node.meta.get("tensor_meta") for node in module.graph.nodes}


def test_tensors_are_described() -> None:
    module = fx.symbolic_trace(nn.Sequential(nn.Conv2d(3, 4, 1)))
    x = tt.ones(2, 3, 8, 8).to(memory_format=tt.channels_last)
    found = described(module, x)
    assert found["input_1"] == TensorMetadata(
        tt.Size([2, 3, 8, 8]), tt.float32, False, (192, 1, 24, 3), tt.channels_last, False, {}
    )
    assert (found["_0"].shape, found["_0"].requires_grad) == (tt.Size([2, 4, 8, 8]), True)


def test_formats() -> None:
    module = fx.symbolic_trace(lambda x: (x.t(), x.contiguous(), x.shape))
    found = described(module, tt.ones(2, 3))
    assert (found["t"].memory_format, found["contiguous"].memory_format) == (None, tt.contiguous_format)
    assert found["t"].stride == (1, 3)
    assert found["getattr_1"] is None
    types = {node.name: node.meta["type"] for node in module.graph.nodes}
    assert (types["getattr_1"], types["output"]) == (tt.Size, tuple)


def test_containers_of_results_are_described() -> None:
    module = fx.symbolic_trace(lambda x: {"m": tt.max(x, dim=0), "n": 3})
    found = described(module, tt.ones(2, 3))
    assert [each.dtype for each in found["max_1"]] == [tt.float32, tt.int64]
    assert found["output"]["n"] == 3
    assert found["output"]["m"][0].shape == tt.Size([3])


def test_meta_tensors_cost_nothing() -> None:
    module = fx.symbolic_trace(nn.Sequential(nn.Linear(10**5, 10**5, device="meta")))
    assert described(module, tt.ones(10**6, 10**5, device="meta"))["_0"].shape == tt.Size([10**6, 10**5])


def test_an_error_names_the_step() -> None:
    module = fx.symbolic_trace(lambda x: x @ x)
    with pytest.raises(RuntimeError, match="ShapeProp error for: node=%matmul") as caught:
        ShapeProp(module).propagate(tt.ones(2, 3))
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_format_node_has_shapes() -> None:
    module = fx.symbolic_trace(lambda x: x.exp())
    described(module, tt.ones(2, 3))
    assert module.graph.find_nodes(op="call_method")[0].format_node(include_tensor_metadata=True) == (
        '%exp : Tensor "f32[2, 3]"[num_users=1] = call_method[target=exp](args = (%x,), kwargs = {})'
    )
