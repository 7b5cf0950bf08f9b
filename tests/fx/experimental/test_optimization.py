"""Networks made cheaper for inference (torch.fx.experimental.optimization)."""

import pytest

import triten as tt
from triten import nn
from triten.fx.experimental.optimization import extract_subgraph, fuse, remove_dropout

fx = tt.fx


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.c, self.b = nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)
        self.l, self.bl = nn.Linear(2, 3), nn.BatchNorm1d(3)
        self.d = nn.Dropout(0.5)
        for norm in (self.b, self.bl):
            norm.running_mean.copy_(tt.arange(norm.num_features) / 3)
            norm.running_var.copy_(tt.arange(norm.num_features) + 0.5)
            with tt.no_grad():
                norm.weight.copy_(tt.arange(norm.num_features) - 0.7)

    def forward(self, x):
        return self.d(self.bl(self.l(self.b(self.c(x)).mean((2, 3)))))


X = tt.arange(50.0).reshape(2, 1, 5, 5).sin()


def modules(module: nn.Module) -> list[str]:
    return [node.target for node in module.graph.find_nodes(op="call_module")]


def test_norms_are_folded_into_layers() -> None:
    model = Model().eval()
    expected = model(X)
    fused = fuse(model)
    assert modules(fused) == ["c", "l", "d"]
    tt.testing.assert_close(fused(X), expected)
    assert model(X).equal(expected)
    assert model.c.bias is not fused.c.bias
    assert list(fused.state_dict()) == ["c.weight", "c.bias", "l.weight", "l.bias"]


@pytest.mark.parametrize("change", ["used twice", "no statistics"])
def test_what_cannot_be_folded_stays(change: str) -> None:
    class Uses(nn.Module):
        def __init__(self):
            super().__init__()
            self.c = nn.Conv2d(1, 2, 3)
            self.b = nn.BatchNorm2d(2, track_running_stats=change != "no statistics")

        def forward(self, x):
            y = self.c(x)
            return self.b(y) + (y if change == "used twice" else 0)

    model = Uses().eval()
    fused = fuse(model)
    assert modules(fused) == ["c", "b"]
    assert fused(X).equal(model(X))


def test_fuse_in_place_without_tracing() -> None:
    traced = fx.symbolic_trace(Model().eval())
    expected = traced(X)
    fused = fuse(traced, inplace=True, no_trace=True)
    assert fused.c is traced.c
    tt.testing.assert_close(fused(X), expected)


def test_dropout_goes() -> None:
    model = Model().eval()
    made = remove_dropout(model)
    assert modules(made) == ["c", "b", "l", "bl"]
    assert made(X).equal(model(X))


def test_extract_subgraph() -> None:
    traced = fx.symbolic_trace(Model().eval())
    nodes = {node.name: node for node in traced.graph.nodes}
    part = extract_subgraph(traced, [nodes["c"], nodes["b"]], [nodes["x"]], [nodes["b"]])
    assert part(X)[0].equal(traced.b(traced.c(X)))
