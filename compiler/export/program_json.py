"""An exported program without its elements as JSON, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ...dispatch.layers.graph.graph import Graph, Node
from ...nn.modules.parameter import Parameter
from ...runtime.allocator import storage_size
from ...runtime.tensor_spec import TensorSpec
from ...version import __version__
from ..dynamic_shapes.size_expressions import names_in
from ..dynamic_shapes.template import COMPARISONS, Decision, Template
from .dynamic_graph import DynamicGraph, without_results
from .dynamic_shapes import ValueRange
from .graph_json import (
    graph_from_json,
    graph_to_json,
    spec_from_json,
    spec_to_json,
    value_from_json,
    value_to_json,
)
from .program import ExportedProgram
from .signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from .size_json import number_from_json, number_to_json
from .trees import tree_from_json, tree_to_json

MAJOR, MINOR = 1, 1
"""The schema's version: a program of another major one is not read, of a newer minor one neither."""


GAPS = 1024
"""Times its elements that a tensor's memory may span, if that is more than `SMALL` bytes."""
SMALL = 1 << 24


class NewerSchemaError(RuntimeError):
    """A program that a newer version has written."""


def program_to_json(program: ExportedProgram) -> dict[str, Any]:
    """Return a program as JSON. Raise NotImplementedError for an argument or a class that cannot be saved."""
    signature = program.graph_signature
    paths = iter(program._paths)
    inputs = []
    for spec in signature.input_specs:
        row = {"kind": spec.kind.value, **_argument(spec.arg)}
        if spec.kind is InputKind.USER_INPUT:
            row["path"] = next(paths)
        else:
            row["target"] = spec.target
        if spec.persistent is not None:
            row["persistent"] = spec.persistent
        inputs.append(row)
    outputs = [
        {"kind": spec.kind.value, **_argument(spec.arg)}
        | ({} if spec.target is None else {"target": spec.target})
        for spec in signature.output_specs
    ]
    return {
        "schema_version": {"major": MAJOR, "minor": MINOR},
        "producer": f"triten {__version__}",
        "graph": graph_to_json(program.graph),
        "inputs": inputs,
        "outputs": outputs,
        "in_tree": tree_to_json(program._in_spec),
        "out_tree": tree_to_json(program._out_spec),
        "identical": sorted(program._identical),
        "differentiable": sorted(program._differentiable),
        "tensors": _tensors(program),
        "dynamic": None if program._dynamic is None else _dynamic_to_json(program._dynamic),
    }


def _dynamic_to_json(dynamic: DynamicGraph) -> dict[str, Any]:
    template = dynamic.template
    return {
        "ranges": {name: list(each) for name, each in dynamic.ranges.items()},
        "places": [[[dim, name] for dim, name in each.items()] for each in dynamic.dimension_names],
        "numbers": [[list(path), number_to_json(each)] for path, each in template.expressions.items()],
        "decisions": [
            [each.comparison, number_to_json(each.left), number_to_json(each.right), each.outcome]
            for each in template.decisions
        ],
    }


def _dynamic_from_json(described: Mapping[str, Any]) -> DynamicGraph | None:
    fields = described["dynamic"]
    if fields is None:
        return None
    ranges = {name: ValueRange(lower, upper) for name, (lower, upper) in fields["ranges"].items()}
    expressions = {tuple(path): number_from_json(number) for path, number in fields["numbers"]}
    decisions = []
    for comparison, left, right, outcome in fields.get("decisions", ()):
        if comparison not in COMPARISONS:
            raise ValueError(f"the comparison {comparison!r}")
        decisions.append(Decision(comparison, number_from_json(left), number_from_json(right), bool(outcome)))
    numbers = [*expressions.values(), *(side for each in decisions for side in (each.left, each.right))]
    named = {name for each in numbers for name in names_in(each)}
    dimension_names = [dict(each) for each in fields["places"]]
    if named - ranges.keys() or {name for each in dimension_names for name in each.values()} != ranges.keys():
        raise ValueError("the names of sizes")
    rows = without_results(described["graph"])
    if not all(_leads_to_number(rows, path) for path in expressions):
        raise ValueError("the place of a number")
    template = Template(rows, expressions, decisions)
    return DynamicGraph(template, ranges, dimension_names)


def _leads_to_number(rows: Any, path: Sequence[Any]) -> bool:
    """Return True if the keys of a path lead from a graph's rows to an integer."""
    value = rows
    for key in path:
        try:
            value = value[key]
        except (IndexError, KeyError, TypeError):
            return False
    return value.__class__ is int


def _argument(argument: TensorArgument | ConstantArgument) -> dict[str, Any]:
    if isinstance(argument, TensorArgument):
        return {"name": argument.name}
    return {"name": argument.name, "value": value_to_json(argument.value)}


def _tensors(program: ExportedProgram) -> dict[str, Any]:
    """Return the metadata of each tensor of a program; a tensor with several names is described once."""
    first: dict[int, str] = {}
    described: dict[str, Any] = {}
    for name, tensor in {**program.state_dict, **program.constants}.items():
        if first.setdefault(id(tensor), name) != name:
            described[name] = {"same_as": first[id(tensor)]}
            continue
        if _has_gaps(tensor._spec):
            raise NotImplementedError(
                f"'{name}' has the sizes {list(tensor.shape)} and the strides {list(tensor.stride())}, whose memory is "
                "used for the least part, and cannot be saved; clone it to a tensor of its own memory first"
            )
        described[name] = spec_to_json(tensor._spec)
        if isinstance(tensor, Parameter):
            described[name]["parameter"] = {"requires_grad": tensor.requires_grad}
    return described


def stored_tensors(
    program: ExportedProgram, described: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the tensors whose elements are saved: of the state dict, and the constants."""
    return (
        {name: t for name, t in program.state_dict.items() if "same_as" not in described[name]},
        {name: t for name, t in program.constants.items() if "same_as" not in described[name]},
    )


def check_version(described: Mapping[str, Any]) -> None:
    """Raise RuntimeError for a program of a schema that is not read here."""
    version = described["schema_version"]
    schema = version["major"], version["minor"]
    if schema > (MAJOR, MINOR):
        raise NewerSchemaError(
            f"load: the program has the schema {schema[0]}.{schema[1]}, written by {described.get('producer')}; this "
            f"is triten {__version__}, which reads schemas up to {MAJOR}.{MINOR}: install a newer triten"
        )


def program_from_json(
    described: Mapping[str, Any], state: Mapping[str, Any], constants: Mapping[str, Any]
) -> ExportedProgram:
    """Return the program of JSON, with the elements of its tensors. Raise as `graph_from_json` does."""
    graph = graph_from_json(described["graph"])
    nodes = {node.name: node for node in graph.nodes}
    inputs, paths = [], []
    for row in described["inputs"]:
        kind = InputKind(row["kind"])
        argument = _read_argument(row)
        if kind is InputKind.USER_INPUT:
            paths.append(str(row["path"]))
        inputs.append(InputSpec(kind, argument, row.get("target"), row.get("persistent")))
    outputs = [
        OutputSpec(OutputKind(row["kind"]), _read_argument(row), row.get("target"))
        for row in described["outputs"]
    ]
    signature = ExportGraphSignature(tuple(inputs), tuple(outputs))
    made = _placed(described["tensors"], {**state, **constants})
    own_state = {name: t for name, t in made.items() if _first(described["tensors"], name) in state}
    own_constants = {name: t for name, t in made.items() if name not in own_state}
    _check_signature(signature, graph, nodes, made)
    in_spec, out_spec = tree_from_json(described["in_tree"]), tree_from_json(described["out_tree"])
    results = sum(spec.kind is OutputKind.USER_OUTPUT for spec in outputs)
    if in_spec.type is not tuple or [child.type for child in in_spec.children()] != [tuple, dict]:
        raise ValueError("the structure of arguments")
    if in_spec.num_leaves != len(paths) or out_spec.num_leaves != results:
        raise ValueError("the structure of arguments or results")
    identical = frozenset(described["identical"])
    dynamic = _dynamic_from_json(described)
    differentiable = frozenset(described.get("differentiable", ()))
    return ExportedProgram(
        graph,
        signature,
        own_state,
        own_constants,
        in_spec,
        out_spec,
        paths,
        identical,
        None,
        dynamic,
        differentiable,
    )


def _read_argument(row: Mapping[str, Any]) -> TensorArgument | ConstantArgument:
    if "value" in row:
        return ConstantArgument(row["name"], value_from_json(row["value"], {}))
    return TensorArgument(row["name"])


def _first(described: Mapping[str, Any], name: str) -> str:
    first_name: str = described[name].get("same_as", name)
    return first_name


def _placed(described: Mapping[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tensors on their devices, with their strides, and as parameters if they were."""
    made: dict[str, Any] = {}
    for name, row in described.items():
        if "same_as" in row:
            made[name] = made[row["same_as"]]
            continue
        spec, tensor = spec_from_json(row), stored[name]
        if tuple(tensor.shape) != spec.sizes or tensor.dtype is not spec.dtype:
            raise ValueError(f"'{name}' has other elements than are described")
        tensor = tensor.to(spec.device)
        if _has_gaps(spec):
            raise ValueError(f"'{name}' has the sizes {spec.sizes} and the strides {spec.strides}")
        if tensor._spec.strides != spec.strides:
            tensor = tensor.new_empty_strided(spec.sizes, spec.strides).copy_(tensor)
        if "parameter" in row:
            tensor = Parameter(tensor, bool(row["parameter"]["requires_grad"]))
        made[name] = tensor
    return made


def _has_gaps(spec: TensorSpec) -> bool:
    """Return True if a tensor's memory is much larger than its elements, since a file holds only the elements."""
    span = storage_size(spec.sizes, spec.strides)
    return span > GAPS * math.prod(spec.sizes) and span * spec.itemsize > SMALL


def _check_signature(
    signature: ExportGraphSignature, graph: Graph, nodes: Mapping[str, Any], tensors: Mapping[str, Any]
) -> None:
    """Raise ValueError unless the signature is that of the graph and of the tensors."""
    tensor_inputs = [spec for spec in signature.input_specs if isinstance(spec.arg, TensorArgument)]
    if [spec.arg.name for spec in tensor_inputs] != [
        node.name for node in graph.find_nodes(op="placeholder")
    ]:
        raise ValueError("the inputs of the graph")
    for spec in tensor_inputs:
        if spec.kind is not InputKind.USER_INPUT:
            tensor, expected = tensors[spec.target or ""]._spec, nodes[spec.arg.name].val
            if spec_to_json(tensor) != spec_to_json(expected):
                raise ValueError(f"'{spec.target}' is another tensor than the graph's %{spec.arg.name}")
    results = graph.output_node.args[0]
    if len(results) != len(signature.output_specs):
        raise ValueError("the outputs of the graph")
    for output, result in zip(signature.output_specs, results, strict=True):
        name = result.name if isinstance(result, Node) else None
        if isinstance(output.arg, TensorArgument) and output.arg.name != name:
            raise ValueError(f"the output {output.arg.name!r}")
