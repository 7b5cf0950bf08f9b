"""The layers above the backends, alone and in each other: modes, autocast, vmap, functionalize, graphs, names."""

import json
from typing import Any

import pytest

import triten as tt


class Log(tt.TensorDispatchMode):
    def __init__(self) -> None:
        self.names: list[str] = []

    def __tensor_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func.name())
        return func(*args, **(kwargs or {}))


def test_modes_see_operators_below_autograd() -> None:
    w = tt.ones(2, requires_grad=True)
    with Log() as outer, Log() as inner:
        (w * 2).sum().backward()
    assert inner.names == outer.names
    assert inner.names[:2] == ["aten::mul.Tensor", "aten::sum"]


def test_autocast_chooses_dtypes_by_operator() -> None:
    x = tt.ones(2, 2)
    with tt.autocast("cpu", dtype=tt.bfloat16):
        assert (x @ x).dtype == tt.bfloat16
        assert (x + x).dtype == tt.float32
        with tt.autocast("cpu", enabled=False):
            assert (x @ x).dtype == tt.float32
    assert (x @ x).dtype == tt.float32


def test_vmap_maps_nested_and_under_grad() -> None:
    x = tt.arange(6.0).reshape(2, 3)
    assert tt.vmap(lambda row: row.sum())(x).tolist() == [3.0, 12.0]
    assert tt.vmap(tt.vmap(lambda v: v * v))(x).tolist() == (x * x).tolist()
    per_example = tt.vmap(tt.func.grad(lambda row: (row**2).sum()))(x)
    assert per_example.tolist() == (2 * x).tolist()
    with pytest.raises(RuntimeError, match="vmap: called random operation while in randomness error mode"):
        tt.vmap(lambda row: row + tt.rand(3))(x)


def test_functionalize_removes_writes_and_views() -> None:
    def program(x: Any) -> Any:
        y = x.clone()
        y[0].mul_(2)
        return y.view(-1)

    x = tt.ones(2, 2)
    plain = tt.func.functionalize(program, remove="mutations_and_views")
    assert plain(x).tolist() == program(x).tolist()
    graph = tt.func.make_graph(plain)(x)
    assert not any(
        node.target._schema.is_mutable for node in graph.graph.nodes if hasattr(node.target, "_schema")
    )


def test_a_graph_is_printed_and_run() -> None:
    graph = tt.func.make_graph(lambda x, y: (x + y).relu())(tt.ones(2), tt.ones(2))
    text = str(graph.graph)
    assert "aten.add.Tensor" in text
    assert "aten.relu" in text
    assert "float32[2]" in text
    assert graph(tt.tensor([1.0, -9.0]), tt.ones(2)).tolist() == [2.0, 0.0]


@pytest.mark.filterwarnings("ignore:Named tensors")
def test_names_propagate() -> None:
    x = tt.zeros(2, 3, names=("N", "C"))
    assert (x + 1).names == ("N", "C")
    assert x.sum("C").names == ("N",)
    with pytest.raises(RuntimeError, match="do not match"):
        x + tt.zeros(2, 3, names=("C", "N"))


def test_the_profiler_records_operators_and_kernels(tmp_path: Any) -> None:
    x = tt.ones(4, 4)
    with tt.profiler.profile() as profile:
        (x @ x).relu()
    names = [event.key for event in profile.key_averages()]
    assert {"aten::mm", "aten::relu"} <= set(names)
    assert "aten::mm" in profile.key_averages().table()
    profile.export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert any(event["name"] == "aten::mm" and event["ph"] == "X" for event in events)


def test_layers_stand_in_each_other() -> None:
    """Check that a mode in autocast in vmap in grad each apply to the same call."""
    x = tt.ones(3, 2, 2)
    log = Log()

    def loss(w: Any) -> Any:
        with tt.autocast("cpu", dtype=tt.bfloat16), log:
            return tt.vmap(lambda m: (m @ w).float().sum())(x).sum()

    gradient = tt.func.grad(loss)(tt.ones(2, 2))
    assert gradient.dtype == tt.float32
    assert gradient.tolist() == [[6.0, 6.0]] * 2
    assert any("mm" in name for name in log.names)
