"""`tt.compiler.minify` finds an injected fault: an operator that a backend computes wrongly or refuses."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

import triten as tt
from triten.tests.compiler.beside_eager import drawn, same

F = tt.nn.functional
aten = tt.ops.aten
Faulty = Callable[[Any, Sequence[Any]], Callable[..., Any]]


def operators(graph: Any) -> list[str]:
    return [n.target._opname for n in graph.find_nodes(op="call_function") if hasattr(n.target, "_opname")]


def replacing(operator: Any, other: Any) -> Faulty:
    """Return a backend that replaces one operator by another."""

    def faulty(graph: Any, inputs: Sequence[Any]) -> Callable[..., Any]:
        graph = graph.copy()
        for node in graph.find_nodes(op="call_function", target=operator):
            node.target = other
        return tt.compiler.interpreted(graph)

    return faulty


def refusing(*wanted: str) -> Faulty:
    """Return a backend that raises for graphs that have all of the given operators."""

    def faulty(graph: Any, inputs: Sequence[Any]) -> Callable[..., Any]:
        if set(wanted) <= set(operators(graph)):
            raise NotImplementedError(f"no {' and '.join(wanted)}")
        return tt.compiler.interpreted(graph)

    return faulty


def model(layers: int = 2) -> tt.nn.Module:
    tt.manual_seed(0)
    blocks = [
        tt.nn.Sequential(tt.nn.Linear(8, 8), tt.nn.GELU(), tt.nn.LayerNorm(8), tt.nn.Dropout(0.1))
        for _ in range(layers)
    ]
    return tt.nn.Sequential(*blocks, tt.nn.Tanh(), tt.nn.Linear(8, 4))


FAULTS: dict[str, tuple[Faulty, list[str], str]] = {
    "a wrong operator": (replacing(aten.tanh.default, aten.sin.default), ["tanh"], "differs"),
    "a wrong operator of backward": (
        replacing(aten.tanh_backward.default, aten.mul.Tensor),
        ["tanh_backward"],
        "differs",
    ),
    "a missing operator": (refusing("tanh"), ["tanh"], "no tanh"),
    "a missing operator of backward": (refusing("gelu_backward"), ["gelu_backward"], "no gelu_backward"),
    "two operators together": (refusing("tanh", "addmm"), ["addmm", "tanh"], "no tanh and addmm"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_in_a_model(name: str) -> None:
    backend, expected, words = FAULTS[name]
    x, module = drawn(4, 8), model()
    state = tt.get_rng_state()
    found = tt.compiler.minify(module, [x], backend=backend)
    assert found and words in found.failure
    assert sorted(operators(found.graph)) == expected
    assert all(n <= 4 for tensor in found.inputs for n in tensor.shape)
    same(tt.get_rng_state(), state)
    same(x, drawn(4, 8))


@pytest.mark.parametrize("name", ["a wrong operator", "a missing operator"])
def test_what_is_found_is_a_file_that_fails_as_well(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    backend, _, words = FAULTS[name]
    backend.__name__ = "planted"
    found = tt.compiler.minify(tt.compile(model(), backend=backend), [drawn(4, 8)])
    program = compile(str(found), "minified.py", "exec")
    if "differs" in words:
        exec(program, {"planted": backend})
        assert capsys.readouterr().out.startswith("False")
    else:
        with pytest.raises(NotImplementedError, match=words):
            exec(program, {"planted": backend})


def test_registered_backends_are_named() -> None:
    tt.compiler.register_backend(FAULTS["a missing operator"][0], name="without_tanh")
    text = str(tt.compiler.minify(lambda x: x.tanh(), [drawn(2)], backend="without_tanh"))
    assert "backend='without_tanh'" in text and "Import the backend" in text


def test_nothing_fails() -> None:
    for backend in (None, "graph"):
        found = tt.compiler.minify(model(), [drawn(4, 8)], backend=backend)
        assert not found and found.graph is None and found.failure is None
        assert str(found).startswith("The program does not fail")


def test_inputs_keep_what_the_failure_needs() -> None:
    """Keep indices in bounds, keep strides, and write out the values on which the fault depends."""
    indices, table = tt.tensor([[5, 1], [2, 7]]), drawn(8, 6)
    found = tt.compiler.minify(
        lambda i, w: F.embedding(i, w).exp(), [indices, table], backend=refusing("embedding")
    )
    assert operators(found.graph) == ["embedding"]
    assert "tt.randint(" in str(found)
    turned = drawn(3, 4, seed=1).t()
    found = tt.compiler.minify(
        lambda x: x.exp() * 2,
        [turned],
        check=lambda graph, inputs: any(not t.is_contiguous() for t in inputs),
    )
    assert "tt.empty_strided([4, 3], [1, 4]" in str(found)
    found = tt.compiler.minify(
        lambda x: (x * 2).log() + 1,
        [tt.tensor([1.0, -123.5, 2.0])],
        check=lambda graph, inputs: "log" in operators(graph) and any((t < -100).any() for t in inputs),
    )
    assert operators(found.graph) == ["log"] and "-247.0" in str(found)


def test_draws_start_from_one_seed() -> None:
    found = tt.compiler.minify(
        lambda x: (F.dropout(x, 0.5) + tt.rand(3)).exp().sum(),
        [drawn(3)],
        backend=replacing(aten.exp.default, aten.sin.default),
    )
    assert operators(found.graph) == ["exp"]
    assert not tt.compiler.minify(lambda x: F.dropout(x, 0.5) + tt.rand(3), [drawn(3)])


def test_writes_are_part_of_a_program() -> None:
    x = drawn(3)
    wrong = replacing(aten.exp.default, aten.sin.default)
    found = tt.compiler.minify(lambda x: (x.exp_(), None)[1], [x], backend=wrong)
    assert operators(found.graph) == ["exp"]
    same(x, drawn(3))


def test_sizes_shrink_together() -> None:
    found = tt.compiler.minify(
        lambda a, b: (a @ b).view(32).relu(), [drawn(4, 16), drawn(16, 8)], backend=refusing("mm", "view")
    )
    assert [list(t.shape) for t in found.inputs] == [[1, 1], [1, 1]]


def test_what_cannot_be_captured_is_an_error() -> None:
    with pytest.raises(tt.compiler.Unsupported, match="value"):
        tt.compiler.minify(lambda x: x if x.sum() > 0 else -x, [drawn(3)])


def test_faults_on_a_device(device: str) -> None:
    found = tt.compiler.minify(
        lambda x: (x + 1).tanh().exp(),
        [drawn(4, device=device)],
        backend=replacing(aten.tanh.default, aten.sin.default),
    )
    assert operators(found.graph) == ["tanh"] and found.inputs[0].device.type == device
    assert ("device=" in str(found)) == (device != "cpu")
