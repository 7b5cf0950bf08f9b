"""A graph as text: lines to read, and a Python function that runs on `tt.ops`."""

from __future__ import annotations

import math
import operator
from keyword import iskeyword
from typing import Any

from ....runtime.device import device as Device
from ....runtime.layout import layout as Layout
from ....runtime.memory_format import memory_format as MemoryFormat
from ....runtime.scalar_type import dtype as ScalarType
from ....runtime.tensor_spec import TensorSpec
from .graph import Attribute, Graph, Node


def spec_text(val: Any) -> str:
    """Return a result's description: ``float32[2, 3]``, with its device unless it is the host; several in brackets."""
    if isinstance(val, TensorSpec):
        where = "" if val.device.type == "cpu" else f" {val.device}"
        return f"{val.dtype.name}{list(val.sizes)}{where}"
    if val.__class__ is tuple:
        return f"({', '.join(spec_text(v) for v in val)})"
    return type(val).__name__


def _shown(value: Any) -> str:
    if isinstance(value, Node):
        return f"%{value.name}"
    if isinstance(value, ScalarType):
        return value.name
    if isinstance(value, Device):
        return str(value)
    if isinstance(value, MemoryFormat | Layout):
        return repr(value).rpartition(".")[2]
    if value.__class__ is tuple:
        return f"[{', '.join(_shown(v) for v in value)}]"
    if value.__class__ is dict:
        return "{" + ", ".join(f"{key!r}: {_shown(v)}" for key, v in value.items()) + "}"
    return repr(value)


def node_line(node: Node) -> str:
    """Return one step as a line."""
    kind = "" if node.val is None else f" : {spec_text(node.val)}"
    if node.op == "placeholder":
        return f"%{node.name}{kind}"
    if node.op == "get_attr":
        return f"%{node.name}{kind} = self.{node.target}"
    if node.op == "output":
        return f"return {_shown(node.args[0])}"
    if node.target is operator.getitem:
        return f"%{node.name}{kind} = %{node.args[0].name}[{node.args[1]}]"
    arguments = [_shown(v) for v in node.args] + [f"{name}={_shown(v)}" for name, v in node.kwargs.items()]
    schema = node.target._schema
    name = str(schema.operator_name).replace("::", ".")
    return f"%{node.name}{kind} = {name}({', '.join(arguments)})"


def graph_text(graph: Graph) -> str:
    """Return all steps, one per line."""
    inputs = ", ".join(node_line(n) for n in graph.nodes if n.op == "placeholder")
    lines = [f"    {node_line(n)}" for n in graph.nodes if n.op != "placeholder"]
    return "\n".join([f"graph({inputs}):", *lines])


def literal(value: Any) -> str:
    """Return an argument as Python source, in which ``tt`` is the package."""
    if isinstance(value, Node):
        return value.name
    if isinstance(value, Attribute):
        return f"self.{value.name}"
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value}')"
    if isinstance(value, complex) and not (math.isfinite(value.real) and math.isfinite(value.imag)):
        return f"complex({literal(value.real)}, {literal(value.imag)})"
    if isinstance(value, ScalarType):
        return f"tt.{value.name}"
    if isinstance(value, Device):
        return f"tt.device({str(value)!r})"
    if isinstance(value, MemoryFormat | Layout):
        return f"tt.{repr(value).rpartition('.')[2]}"
    if value.__class__ is tuple:
        inner = ", ".join(literal(v) for v in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if value.__class__ is dict:
        return "{" + ", ".join(f"{key!r}: {literal(v)}" for key, v in value.items()) + "}"
    return repr(value)


def python_code(graph: Graph) -> str:
    """Return the program as ``def forward(self, ...)``, which deletes each value after its last use."""
    nodes = list(graph.nodes)
    last: dict[Node, list[str]] = {}
    index_of = {n: i for i, n in enumerate(nodes)}
    for node in nodes:
        if node.op != "output" and node.users:
            final = max(node.users, key=index_of.__getitem__)
            if final.op != "output":
                last.setdefault(final, []).append(node.name)
    inputs = [n.name for n in nodes if n.op == "placeholder"]
    lines = [f"def forward({', '.join(['self', *inputs])}):"]
    for node in nodes:
        if node.op == "placeholder":
            continue
        if node.op == "output":
            lines.append(f"    return {literal(node.args[0])}")
            continue
        if node.op == "get_attr":
            text = f"self.{node.target}"
        elif node.target is operator.getitem:
            text = f"{literal(node.args[0])}[{node.args[1]!r}]"
        else:
            text = f"{_path(node)}({_arguments(node)})"
        freed = "".join(f"{name} = " for name in last.get(node, ()))
        lines.append(f"    {node.name} = {text}" + (f";  {freed}None" if freed else ""))
    return "\n".join(lines) + "\n"


def _path(node: Node) -> str:
    target = node.target
    packet = f"tt.ops.{target.namespace}.{target._opname}"
    if iskeyword(target._overloadname):
        return f"getattr({packet}, {target._overloadname!r})"
    return f"{packet}.{target._overloadname}"


def _arguments(node: Node) -> str:
    named = [(name, literal(v)) for name, v in node.kwargs.items()]
    arguments = [literal(v) for v in node.args] + [
        f"{n}={v}" for n, v in named if n.isidentifier() and n != "from"
    ]
    odd = [f"{name!r}: {v}" for name, v in named if not (name.isidentifier() and name != "from")]
    return ", ".join([*arguments, f"**{{{', '.join(odd)}}}"] if odd else arguments)
