"""Graphs as JSON: operators by name and overload, arguments, and the spec of each step's result.

Reading checks the graph: a step's operator must exist here, and its arguments must match its schema. Running the graph
on fake tensors must give the written shapes, strides, dtypes and devices. So a kernel never accesses memory of another
size than its spec.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

from ...dispatch.core.op_overload import OpOverload, find_overload
from ...dispatch.layers.graph.fake_tensor import FakeTracer, phantom
from ...dispatch.layers.graph.graph import Graph, Node, map_nodes
from ...dispatch.layers.graph.make_graph import described
from ...dispatch.layers.graph.pickling import PROCESS_NAMESPACE, refuse_process_objects
from ...dispatch.tensor import blank_tensor
from ...runtime import layout as layouts
from ...runtime import memory_format as memory_formats
from ...runtime import scalar_type
from ...runtime.device import device as Device
from ...runtime.grad_mode import set_grad_enabled
from ...runtime.layout import layout as Layout
from ...runtime.memory_format import memory_format as MemoryFormat
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.tensor_spec import TensorSpec
from .result_counts import check_result_count

NAMED: dict[str, Any] = {"dtype": ScalarType, "layout": Layout, "memory_format": MemoryFormat}
DTYPES = {each.name: each for each in vars(scalar_type).values() if isinstance(each, ScalarType)}
LAYOUTS = {each.name: each for each in vars(layouts).values() if isinstance(each, Layout)}
MEMORY_FORMATS = {each.name: each for each in vars(memory_formats).values() if isinstance(each, MemoryFormat)}
NAMES: dict[str, dict[str, Any]] = {"dtype": DTYPES, "layout": LAYOUTS, "memory_format": MEMORY_FORMATS}
OPS = ("placeholder", "call_function", "output")
GETITEM = "getitem"


def value_to_json(value: Any) -> Any:
    """Return an argument as JSON. Raise NotImplementedError for an object without a JSON form."""
    if isinstance(value, Node):
        return {"node": value.name}
    if value is None or value.__class__ in (bool, int, str):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, complex):
        return {"complex": [value.real.hex(), value.imag.hex()]}
    if isinstance(value, tuple | list):
        return [value_to_json(each) for each in value]
    if isinstance(value, Device):
        return {"device": str(value)}
    for name, kind in NAMED.items():
        if isinstance(value, kind):
            return {name: value.name}
    raise NotImplementedError(f"{value!r}, a {type(value).__name__}, cannot be saved")


def value_from_json(value: Any, nodes: Mapping[str, Node]) -> Any:
    """Return the argument of JSON. Raise ValueError or KeyError for invalid JSON."""
    if isinstance(value, list):
        return tuple([value_from_json(each, nodes) for each in value])
    if not isinstance(value, dict):
        if isinstance(value, float):
            raise ValueError(f"the number {value!r}")
        return value
    ((kind, content),) = value.items()
    if kind == "node":
        return nodes[content]
    if kind == "float":
        return float.fromhex(content)
    if kind == "complex":
        return complex(*map(float.fromhex, content))
    if kind == "device":
        return Device(content)
    return NAMES[kind][content]


def spec_to_json(val: Any) -> Any:
    """Return a spec as JSON: a tensor's geometry, a list of these, or null for a value that is not a tensor."""
    if isinstance(val, TensorSpec):
        return {
            "sizes": list(val.sizes),
            "strides": list(val.strides),
            "dtype": val.dtype.name,
            "device": str(val.device),
        }
    return [spec_to_json(each) for each in val] if isinstance(val, tuple | list) else None


def spec_from_json(value: Any) -> TensorSpec:
    """Return a tensor's geometry. Raise ValueError, KeyError or TypeError for invalid JSON."""
    sizes, strides = tuple(value["sizes"]), tuple(value["strides"])
    if len(sizes) != len(strides) or any(type(n) is not int or n < 0 for n in (*sizes, *strides)):
        raise ValueError(f"sizes {sizes} and strides {strides}")
    return TensorSpec.of(sizes, strides, DTYPES[value["dtype"]], Device(value["device"]))


def graph_to_json(graph: Graph) -> list[dict[str, Any]]:
    """Return the steps of a graph as JSON. Raises NotImplementedError for a launch of a Triton kernel."""
    refuse_process_objects(graph)
    rows = []
    for node in graph.nodes:
        row: dict[str, Any] = {"op": node.op, "name": node.name}
        if node.op == "call_function":
            target = node.target
            row["target"] = GETITEM if target is operator.getitem else target.name()
        if node.op != "placeholder":
            row["args"] = value_to_json(node.args)
            if node.kwargs:
                row["kwargs"] = {name: value_to_json(value) for name, value in node.kwargs.items()}
        if node.op != "output":
            row["val"] = spec_to_json(node.val)
        rows.append(row)
    return rows


def graph_from_json(rows: list[dict[str, Any]]) -> Graph:
    """Return the graph of JSON, checked. A step without ``val`` may return anything.

    Raises:
        ValueError, KeyError, TypeError, LookupError: It is not a graph.
        RuntimeError: A step uses an unknown operator, or its result differs from the written spec.
    """
    graph = Graph()
    nodes: dict[str, Node] = {}
    tracer = FakeTracer()
    results: dict[Node, Any] = {}
    before = set_grad_enabled(False)
    try:
        with tracer:
            for row in rows:
                node = _node(graph, row, nodes)
                if node.name != row["name"] or row["name"] in nodes:
                    raise ValueError(f"the name {row['name']!r}")
                nodes[node.name] = node
                if node.op == "placeholder":
                    node.val = spec_from_json(row["val"])
                    results[node] = tracer.enter_input(blank_tensor_of(node.val), node.name)
                elif node.op == "call_function":
                    results[node] = _result(node, results)
                    node.val = _seen(results[node])
                    if "val" in row and spec_to_json(node.val) != row["val"]:
                        raise RuntimeError(
                            f"%{node.name} = {row['target']}: the program has {row['val']}, here it gives "
                            f"{spec_to_json(node.val)}; it was exported by another version, or is damaged"
                        )
    finally:
        tracer.leave_inputs()
        set_grad_enabled(before)
    graph.lint()
    return graph


def _node(graph: Graph, row: Mapping[str, Any], nodes: Mapping[str, Node]) -> Node:
    op, name = row["op"], row["name"]
    if op not in OPS:
        raise ValueError(f"the kind of step {op!r}")
    if op == "placeholder":
        return graph.placeholder(name)
    args = value_from_json(row["args"], nodes)
    kwargs = {key: value_from_json(value, nodes) for key, value in row.get("kwargs", {}).items()}
    if op == "output":
        return graph.create_node("output", "output", args, name=name)
    target: Any = operator.getitem if row["target"] == GETITEM else _operator(row["target"])
    if isinstance(target, OpOverload):
        unknown = kwargs.keys() - {argument.name for argument in target._schema.arguments}
        if unknown:
            raise ValueError(f"{row['target']} has no arguments {sorted(unknown)}")
    return graph.create_node("call_function", target, args, kwargs, name=name)


def _operator(name: str) -> OpOverload:
    if name.startswith(f"{PROCESS_NAMESPACE}::"):
        raise RuntimeError(f"the program uses {name}, which refers to an object of the process that saved it")
    try:
        return find_overload(name)
    except (AttributeError, LookupError, RuntimeError, ValueError) as error:
        raise RuntimeError(
            f"the program uses the operator {name}, which is not known here; import what defines it first"
        ) from error


def _result(node: Node, results: Mapping[Node, Any]) -> Any:

    args = map_nodes(node.args, results.__getitem__)
    if node.target is operator.getitem:
        return args[0][args[1]]
    kwargs = map_nodes(dict(node.kwargs), results.__getitem__)
    check_result_count(node.target, args, kwargs)
    return node.target(*args, **kwargs)


def _seen(result: Any) -> Any:

    if isinstance(result, list | tuple):
        return tuple([_seen(each) for each in result])
    return described(result._spec) if hasattr(result, "_spec") else result


def blank_tensor_of(spec: TensorSpec) -> Any:
    """Return a tensor of a spec with phantom memory, for a tracer that reads the spec alone."""
    made = blank_tensor()
    made._spec, made._data = spec, phantom(spec)
    made._version_cell = made._autograd = made._view_base = None
    return made
