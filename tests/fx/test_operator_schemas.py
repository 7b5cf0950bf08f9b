"""Arguments in one form (torch.fx.operator_schemas, Node.normalized_arguments), and annotations of values."""

from typing import Any

import pytest

import triten as tt
from triten import nn
from triten.fx.annotate import annotate
from triten.fx.operator_schemas import normalize_function, normalize_module

fx = tt.fx


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "expected"),
    [
        (tt.add, (1, 2), {}, ((1, 2), {"alpha": 1})),
        (tt.add, (1,), {"alpha": 3, "other": 2}, ((1,), {"other": 2, "alpha": 3})),
        (tt.ops.aten.add.Tensor, (1, 2), {}, ((1, 2), {"alpha": 1})),
        (tt.ops.aten.add.Tensor, (), {"other": 2, "self": 1}, ((), {"self": 1, "other": 2, "alpha": 1})),
        (tt.ops.aten.add.Tensor, (1,), {}, None),
        (tt.ops.aten.add.Tensor, (1, 2), {"no_such": 1}, None),
        (tt.flatten, (1,), {}, ((1,), {"start_dim": 0, "end_dim": -1})),
        (tt.sum, (1, 0), {}, ((1, 0), {"keepdim": False, "dtype": None})),
        (tt.ops.aten.relu, (1,), {}, ((1,), {})),
        (nn.functional.relu, (1,), {}, ((1,), {"inplace": False})),
        (nn.functional.relu, (), {}, None),
        (lambda *args: args, (1,), {}, None),
        (lambda a, b=2, *, c=3: a, (1,), {}, ((1,), {"b": 2, "c": 3})),
    ],
)
def test_functions(function: Any, args: Any, kwargs: Any, expected: Any) -> None:
    found = normalize_function(function, args, kwargs)
    assert found == expected
    if expected is not None:
        by_name = normalize_function(function, args, kwargs, normalize_to_only_use_kwargs=True)
        assert by_name is not None
        assert (by_name.args, list(by_name.kwargs.values())) == ((), [*found.args, *found.kwargs.values()])


def test_overloads_that_differ_are_ambiguous() -> None:
    with pytest.raises(
        RuntimeError, match=r"Tried to normalize arguments to triten\.max but the schema match was"
    ):
        normalize_function(tt.max, (1, 2))
    assert normalize_function(tt.max, (1,), {"other": 2}) == ((1,), {"other": 2})


def test_modules() -> None:
    root = nn.Sequential(nn.Linear(2, 2), nn.MultiheadAttention(2, 1))
    assert normalize_module(root, "0", (1,), normalize_to_only_use_kwargs=True) == ((), {"input": 1})
    found = normalize_module(root, "1", (1, 2), {"value": 3})
    assert found is not None
    assert (found.args, found.kwargs["value"], found.kwargs["need_weights"]) == ((1, 2), 3, True)
    with pytest.raises(RuntimeError, match="root did not have that target"):
        normalize_module(root, "2", ())


def test_nodes() -> None:
    module = fx.symbolic_trace(nn.Sequential(nn.ReLU()))
    input_1, relu, output = module.graph.nodes
    assert relu.normalized_arguments(module, normalize_to_only_use_kwargs=True) == ((), {"input": input_1})
    assert output.normalized_arguments(module) is None
    graph = fx.symbolic_trace(lambda x: tt.flatten(x, 1)).graph
    x, flatten, _ = graph.nodes
    assert flatten.normalized_arguments(module) == ((x, 1), {"end_dim": -1})


def test_annotate() -> None:
    assert annotate(3, int) == 3
    assert fx.symbolic_trace(lambda x: annotate(x + 1, int)).graph.output_node().args[0].type is int
    with pytest.raises(RuntimeError, match="already has the type"):
        fx.symbolic_trace(lambda x: annotate(annotate(x + 1, int), int))


def test_signatures_of_an_operators_overloads() -> None:
    from triten.fx.operator_schemas import get_signature_for_torch_op

    signatures, schemas = get_signature_for_torch_op(tt.add, return_schemas=True)
    assert [list(each.parameters) for each in signatures[:2]] == [["input", "other", "alpha"]] * 2
    assert "out" in signatures[-1].parameters and len(schemas) == len(signatures)
    bound = signatures[0].bind(1, 2)
    bound.apply_defaults()
    assert bound.arguments == {"input": 1, "other": 2, "alpha": 1}
    assert next(iter(get_signature_for_torch_op(tt.ops.aten.add.Tensor)[0].parameters)) == "self"
    assert get_signature_for_torch_op(len) is None


def test_mutable_operations_are_refused_on_request():
    class Checking(tt.fx.Tracer):
        check_mutable_operations = True

    def into(x):
        y = tt.rand_like(x)
        tt.sigmoid(x, out=y)
        return y

    with pytest.raises(RuntimeError, match=r"Tried to trace mutable operation aten::sigmoid\.out"):
        Checking().trace(into)
    with pytest.raises(RuntimeError, match="mutable operation aten::relu_"):
        Checking().trace(lambda x: tt.relu_(x))
    assert len(Checking().trace(lambda x: tt.sigmoid(x)).nodes) == 3
    assert len(tt.fx.Tracer().trace(into).nodes) == 4
