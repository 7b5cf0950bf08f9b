"""Constant folding: which steps run once, and what stays."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import triten as tt
from triten.fx.experimental.const_fold import get_unique_attr_name_in_module, split_const_subgraphs


class Model(tt.nn.Module):
    """A product with a constant, a sum with another, and a product with an attribute itself."""

    def __init__(self) -> None:
        super().__init__()
        self.w = tt.nn.Parameter(tt.tensor([[4.0, 9.0]]))
        self.inner = tt.nn.Linear(2, 2)

    def forward(self, x: tt.Tensor) -> tt.Tensor:
        root = self.w.sqrt()
        return self.inner(x * root) + (root.sum() + 1) + self.w


class Single(Model):
    def forward(self, x: tt.Tensor) -> tt.Tensor:
        return x + self.w.sqrt().exp()


class Layer(Model):
    def forward(self, x: tt.Tensor) -> tt.Tensor:
        return self.inner(self.w) + x


class Nothing(Model):
    def forward(self, x: tt.Tensor) -> tt.Tensor:
        return self.inner(x) * self.w


class Size(Model):
    def forward(self, x: tt.Tensor) -> tt.Tensor:
        return x.reshape(self.w.size(0), self.w.size(1))


@pytest.mark.parametrize(
    ("model", "folded_attributes"), [(Model, 2), (Single, 1), (Layer, 1), (Size, 2), (Nothing, 0)]
)
def test_constants_are_computed_once(model: Callable[[], Model], folded_attributes: int) -> None:
    module = model()
    names = set(vars(module))
    folded = split_const_subgraphs(module)
    x = tt.randn(1, 2)
    expected = module(x)
    assert tt.equal(folded(x), expected) and folded.has_folding_been_run == bool(folded_attributes)
    constants = folded.const_subgraph_module
    assert (constants is None) == (not folded_attributes)
    if constants is not None:
        value = folded._FX_CONST_FOLDED_ATTRS
        assert (len(value) if folded_attributes > 1 else 1) == folded_attributes
        targets = [node.target for node in folded.graph.nodes]
        assert not {"sqrt", "sum", "exp", "size"} & set(targets)
        with pytest.raises(AssertionError, match="already"):
            folded.run_folding()
        module.w.data.fill_(1.0)  # The folded value does not change with the parameter.
        if model is Single:
            assert tt.equal(folded(x), expected)
    assert set(vars(module)) == names


def test_steps_can_be_skipped_and_random_steps_are() -> None:
    class Random(Model):
        def forward(self, x: tt.Tensor) -> tt.Tensor:
            return x + tt.rand_like(self.w) * self.w.sqrt()

    folded = split_const_subgraphs(Random())
    assert tt.rand_like in [node.target for node in folded.graph.nodes]
    kept = split_const_subgraphs(Single(), skip_folding_node_fn=lambda node: node.target == "exp")
    targets = [node.target for node in kept.graph.nodes]
    assert "exp" in targets and "sqrt" not in targets


def test_a_training_flag_and_trees_of_inputs_are_kept() -> None:
    assert not split_const_subgraphs(Single().eval()).training
    assert split_const_subgraphs(Single()).training


@pytest.mark.parametrize(
    ("name", "unique"), [("free", "free"), ("w", "w_1"), ("w_1", "w_2"), ("0.a-b", "_0_a_b")]
)
def test_names_of_attributes_are_unique(name: str, unique: str) -> None:
    module = Model()
    if name == "w_1":
        module.w_1 = 1
    assert get_unique_attr_name_in_module(module, name) == unique
