"""Generated autograd: a node class and a planner for each operator with a derivative.

The node's slots hold what the formulas need, its `backward` evaluates them, its `release` frees them. The planner is
a row that says what a node keeps: `autograd/recorder.py` writes its recorders.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from ..schema.function_schema import local_name
from .derivatives import BLOCKSIZE, Derivative, Formula, is_list, result_names
from .functions import HEADER
from .model import ModelError, NativeFunction


class _Rename(ast.NodeTransformer):
    """Replaces argument names in a formula by the locals that `backward` unpacks."""

    def __init__(self, specs: set[str]) -> None:
        self.specs = specs

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.attr == BLOCKSIZE:
            return ast.Attribute(ast.Name("self_node"), f"{node.value.id}_{BLOCKSIZE}")
        if isinstance(node.value, ast.Name) and node.value.id in self.specs:
            spec = ast.Attribute(ast.Name("self_node"), f"{node.value.id}_spec")
            return spec if node.attr == "specs" else ast.Attribute(spec, node.attr)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name("self_") if node.id == "self" else node


BUILTINS = frozenset({"list", "tuple", "len", "range", "min", "max", "sum", "int", "float", "bool"})
"""What formulas may call of Python's."""

_KNOWN_AS = {"_select_first": "SelectBackward0", "_slice_first": "SliceBackward0"}
"""Names of the nodes of operators of our own, which stand for one of ATen's with some arguments fixed."""


def _source(formula: Formula) -> str:
    tree = _Rename(set(formula.specs)).visit(ast.parse(formula.source, mode="eval"))
    return ast.unparse(ast.fix_missing_locations(tree)).replace("self_node.", "self.")


def _all(d: Derivative, attribute: str) -> list[str]:
    return list(dict.fromkeys(n for f in d.formulas for n in getattr(f, attribute)))


def _blocksizes(d: Derivative) -> list[str]:
    """Return the arguments of whose block sizes formulas make use."""
    return list(
        dict.fromkeys(n for f in d.formulas for n in re.findall(rf"\b(\w+)\.{BLOCKSIZE}\b", f.source))
    )


def node_text(d: Derivative) -> str:
    """Return the node class as source."""
    saves, specs, statics, results = (_all(d, a) for a in ("saves", "specs", "statics", "results"))
    specs = list(dict.fromkeys(n for f in d.formulas for n in f.specs))
    slots = sorted(
        [f"{local_name(n)}" for n in saves]
        + [f"{local_name(n)}_version" for n in saves]
        + [f"{n}_spec" for n in specs]
        + [f"{n}_{BLOCKSIZE}" for n in _blocksizes(d)]
        + [local_name(n) for n in statics]
        + list(results)
        + [f"{n}_version" for n in results]
    )
    several = len(d.function.schema.returns) > 1
    lines = [f"class {d.node}(Node):", f'    """Derivative of ``{d.function.schema}``."""', ""]
    lines.append(f"    __slots__ = ({', '.join(repr(s) for s in slots)}{',' if len(slots) == 1 else ''})")
    lines.append("")
    if slots:
        lines += [f"    {slot}: Any" for slot in slots]
        lines.append("")
    signature = "*grads: Any" if several else "grad: Any"
    lines.append(f"    def backward(self, {signature}) -> Any:")
    if several and any(re.search(r"\bgrad\b", f.source) for f in d.formulas):
        lines.append("        grad = grads[0]")
    inputs = d.inputs
    one_list = len(inputs) == 1 and is_list(d.function, inputs[0])
    lines += [f"        {line}" for line in _backward_lines(d, one_list)]
    freed = [local_name(n) for n in saves] + list(results)
    if freed:
        lines += ["", "    def release(self) -> None:"]
        lines.append("        " + "".join(f"self.{n} = " for n in freed) + "FREED")
    known_as = _KNOWN_AS.get(d.function.base)
    if known_as is not None:
        lines += ["", "", f'{d.node}.__name__ = "{known_as}"']
    return "\n".join(lines)


def _backward_lines(d: Derivative, one_list: bool) -> list[str]:
    """Return the body of `backward` once the gradient is there: the gradients in the order of their names."""
    inputs = d.inputs
    formulas = d.formulas
    if one_list:
        return [line for f in formulas for line in _unpack_lines(d, f)] + [
            f"return list({_source(formulas[0])})"
        ]
    if len(inputs) == 1:
        return [line for f in formulas for line in _unpack_lines(d, f)] + [
            f"return ({_source(formulas[0])},)"
        ]
    outs = [f"grad_{local_name(i).rstrip('_')}" for i in inputs]
    lines = ["edges = self.next_edges", *(f"{out}: Any = None" for out in outs)]

    def evaluated(f: Formula, together: bool) -> list[str]:
        positions = [inputs.index(i) for i in f.inputs]
        conditions = [f"edges[{p}] is not None" for p in positions]
        body = _unpack_lines(d, f)
        if "output_mask" in f.source:
            body.append(f"output_mask = ({', '.join(conditions)})")
        body.append(f"{', '.join(outs[p] for p in positions)} = {_source(f)}")
        return [
            f"if {(' and ' if together else ' or ').join(conditions)}:",
            *(f"    {line}" for line in body),
        ]

    joined = {i: f for f in d.joint for i in f.inputs}
    for f in d.joint:
        lines += [*evaluated(f, together=True), "else:"]
        lines += [
            f"    {line}"
            for each in sorted(formulas, key=_input_names)
            if each.inputs[0] in f.inputs and each is not f
            for line in evaluated(each, together=False)
        ]
    for f in sorted(d.separate, key=_input_names):
        if f.inputs[0] not in joined:
            lines += evaluated(f, together=False)
    return [*lines, f"return {', '.join(outs)}"]


def _input_names(f: Formula) -> str:
    return ", ".join(f.inputs)


def _unpack_lines(d: Derivative, f: Formula) -> list[str]:
    lines = []
    for n in f.saves:
        local = local_name(n)
        function = "unpack_list" if is_list(d.function, n) else "unpack"
        lines.append(f"{local} = {function}(self, self.{local}, self.{local}_version)")
    lines += [f"{local_name(n)} = self.{local_name(n)}" for n in f.statics]
    names = result_names(d.function)
    for n in f.results:
        number = names.index(n)
        if d.differentiable_outputs[number]:
            lines.append(f"{n} = unpack_result(self, self.{n}, self.{n}_version, {number})")
        else:
            lines.append(f"{n} = unpack(self, self.{n}, self.{n}_version)")
    return lines


def planner_row(d: Derivative) -> str:
    """Return the row that makes the planner of an operator's Autograd keys."""
    users = {
        n: " ".join(dict.fromkeys(i for f in d.separate if n in f.saves for i in f.inputs))
        for n in _all(d, "saves")
    }
    words = {
        "inputs": d.inputs,
        "specs": _all(d, "specs"),
        "blocksizes": _blocksizes(d),
        "statics": _all(d, "statics"),
        "results": _all(d, "results"),
        "refused": d.refused,
    }
    row = [d.node, *(f'{name}="{" ".join(values)}"' for name, values in words.items() if values)]
    if users:
        row.insert(2, f"saves={users!r}")
    if not all(d.differentiable_outputs):
        row.append(f"differentiable={d.differentiable_outputs}")
    if d.silent:
        row.append("has_silent_inputs=True")
    planner = f"recorded({', '.join(row)})"
    if d.function.form == "inplace":
        planner = f"writes_are_refused_first({planner})"
    return f"plan_{d.function.identifier} = {planner}"


def autograd_module(family: str, derivatives: list[Derivative], functions: list[NativeFunction]) -> str:
    """Return the module of a family's nodes and planners."""
    text = HEADER.format(title=f"Derivatives of the {family} family.", source="derivatives.yaml")
    parts: list[str] = []
    own = {str(d.function.name) for d in derivatives}
    for d in derivatives:
        planners = planner_row(d)
        twin = inplace_twin(d.function, functions)
        if twin is not None and str(twin.name) not in own:
            planners += f"\nplan_{twin.identifier} = writes_are_refused_first(plan_{d.function.identifier})"
        parts += [node_text(d), planners]
    code = "\n\n\n".join(parts)
    words = set(re.findall(r"\b[A-Za-z_][A-Za-z_0-9]*\b", code))
    calls = {name for d in derivatives for f in d.formulas for name in f.calls}
    written = formula_functions()
    called: dict[str, list[str]] = {}
    for name in sorted(calls):
        if name in written:
            called.setdefault(f"...autograd.formulas.{written[name]}", []).append(name)
        elif name not in BUILTINS:
            called.setdefault("..functions", []).append(name)
    used = {
        "...autograd.node": sorted(words & {"FREED", "Node", "unpack", "unpack_list", "unpack_result"}),
        "...autograd.recorder": ["recorded"],
        "...autograd.recording": sorted(words & {"writes_are_refused_first"}),
    }
    imports = [
        f"from {module} import {', '.join(names)}" for module, names in {**called, **used}.items() if names
    ]
    return text + "\n".join(["from typing import Any", "", *imports]) + "\n\n\n" + code + "\n"


def formula_functions() -> dict[str, str]:
    """Map the functions of `autograd/formulas/` to their modules."""
    folder = Path(__file__).resolve().parent.parent / "autograd" / "formulas"
    modules: dict[str, str] = {}
    for path in sorted(folder.glob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                if any(isinstance(each, ast.Name) and each.id == "overload" for each in node.decorator_list):
                    continue
                if node.name in modules:
                    raise ModelError(
                        f"formula {node.name} stands in {modules[node.name]}.py and in {path.name}"
                    )
                modules[node.name] = path.stem
    return modules


def inplace_twin(function: NativeFunction, functions: list[NativeFunction]) -> NativeFunction | None:
    """Return the in-place form that shares a functional operator's derivative, or its tangents alone."""
    inplace_name = f"{function.base}_" + (f".{function.name.overload}" if function.name.overload else "")
    names = (inplace_name, f"{function.base}_", *function.autogen)
    types = [a.type for a in function.schema.arguments]
    return next(
        (
            f
            for f in functions
            if f.form == "inplace" and str(f.name) in names and [a.type for a in f.schema.arguments] == types
        ),
        None,
    )
