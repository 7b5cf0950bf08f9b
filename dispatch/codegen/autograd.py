"""Generated autograd: a node class and a plan wrapper for each operator with a derivative.

The node's slots hold what the formulas need, its `backward` evaluates them, its `release` frees them. The
wrapper is a planner: it plans the call below autograd, then closes over that and the recording.
"""

from __future__ import annotations

import ast
import keyword
import re
from pathlib import Path

from .derivatives import Derivative, Formula, is_list, result_names
from .functions import HEADER
from .model import ModelError, NativeFunction


class _Rename(ast.NodeTransformer):
    """Replaces argument names in a formula by the locals that `backward` unpacks."""

    def __init__(self, specs: set[str]) -> None:
        self.specs = specs

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id in self.specs:
            spec = ast.Attribute(ast.Name("self_node"), f"{node.value.id}_spec")
            return spec if node.attr == "specs" else ast.Attribute(spec, node.attr)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name("self_") if node.id == "self" else node


_KNOWN_AS = {"_select_first": "SelectBackward0", "_slice_first": "SliceBackward0"}
"""Names of the nodes of operators of our own, which stand for one of ATen's with some arguments fixed."""


def _source(formula: Formula) -> str:
    tree = _Rename(set(formula.specs)).visit(ast.parse(formula.source, mode="eval"))
    return ast.unparse(ast.fix_missing_locations(tree)).replace("self_node.", "self.")


def local_name(name: str) -> str:
    return f"{name}_" if name == "self" or keyword.iskeyword(name) else name


def _all(d: Derivative, attribute: str) -> list[str]:
    return list(dict.fromkeys(n for f in d.formulas for n in getattr(f, attribute)))


def node_text(d: Derivative) -> str:
    """The node class."""
    saves, specs, statics, results = (_all(d, a) for a in ("saves", "specs", "statics", "results"))
    specs = list(dict.fromkeys(n for f in d.formulas for n in f.specs))
    slots = sorted(
        [f"{local_name(n)}" for n in saves]
        + [f"{local_name(n)}_version" for n in saves]
        + [f"{n}_spec" for n in specs]
        + [local_name(n) for n in statics]
        + list(results)
        + [f"{n}_version" for n in results]
    )
    several = len(d.function.schema.returns) > 1
    lines = [f"class {d.node}(Node):", f'    """{d.function.schema}"""', ""]
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
    """The body of `backward` after the gradient is at hand."""
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
        wanted = [f"edges[{p}] is not None" for p in positions]
        body = _unpack_lines(d, f)
        if "output_mask" in f.source:
            body.append(f"output_mask = ({', '.join(wanted)})")
        body.append(f"{', '.join(outs[p] for p in positions)} = {_source(f)}")
        return [f"if {(' and ' if together else ' or ').join(wanted)}:", *(f"    {line}" for line in body)]

    joined = {i: f for f in d.joint for i in f.inputs}
    for f in d.joint:
        lines += [*evaluated(f, together=True), "else:"]
        lines += [
            f"    {line}"
            for each in formulas
            if each.inputs[0] in f.inputs and each is not f
            for line in evaluated(each, together=False)
        ]
    for f in d.separate:
        if f.inputs[0] not in joined:
            lines += evaluated(f, together=False)
    return [*lines, f"return {', '.join(outs)}"]


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


def wrapper_text(d: Derivative, function: NativeFunction) -> str:
    """The planner of an operator's autograd kernel, for its functional or in-place form."""
    arguments = [a for a in function.schema.arguments if not a.is_out]
    names = [a.name for a in arguments]
    lines = ["@writes_are_refused_first"] if function.form == "inplace" else []
    lines.append(
        f"def plan_{function.identifier}(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:"
    )
    lines.append(f'    """{function.schema}"""')
    lines.append("    inner = op.plan(key_set & BELOW_AUTOGRAD, args)")
    for n in d.refused:
        position = names.index(n)
        lines.append(f"    if requires_grad(args[{position}]):")
        lines.append(f'        return gradient_refused(op, inner, "{n}")')
    if function.form == "functional" and "dtype" in names:
        lines += [f"    if is_discrete(args[{names.index('dtype')}]):", "        return inner"]
    inputs = d.inputs
    if d.silent:
        needed = " or ".join(f"requires_grad(args[{names.index(n)}])" for n in inputs)
        lines += [f"    if not ({needed}):", "        return inner"]
    one_list = len(inputs) == 1 and is_list(d.function, inputs[0])
    plain = [n for n in inputs if not is_list(d.function, n)]
    for n in plain:
        if n == "self" and function.form == "inplace":
            continue
        lines.append(f"    needs_{local_name(n)} = requires_grad(args[{names.index(n)}])")
    from .signature import role_of

    runtime = [i for i, a in enumerate(arguments) if role_of(a.type, a, False) != "static"]
    baked = [
        i
        for i in runtime
        if arguments[i].default.__class__ is int
        and role_of(arguments[i].type, arguments[i], False) == "scale"
    ]
    statics = _all(d, "statics")
    for i, n in enumerate(names):
        if n in statics and i not in runtime:
            lines.append(f"    {n} = args[{i}]")
    # A plan is made for these specs alone, so they are no work of the call.
    lines += [
        f"    {n}_spec = spec_of(args[{names.index(n)}])"
        for n in _all(d, "specs")
        if not is_list(d.function, n)
    ]
    lines += [
        f"    {n}_is_tensor = isinstance(args[{names.index(n)}], TensorImpl)"
        for n in _all(d, "saves")
        if not one_list and not is_list(d.function, n) and not (n == "self" and function.form == "inplace")
    ]
    if baked:
        lines.append(f"    if len(op.runtime_positions(args)) == {len(runtime)}:")
        lines += [f"        {line}" for line in _plan_lines(d, function, names, runtime, "record_scaled")]
        present = [i for i in runtime if i not in baked]
        if len(baked) > 1:
            lines.append(f"    if len(op.runtime_positions(args)) != {len(present)}:")
            lines.append("        return partly_scaled(op, key_set, args)")
        plain = [f"    {line}" for line in _plan_lines(d, function, names, present)]
        for i in baked:
            if any(re.search(rf"\b{names[i]}\b", line) for line in plain):
                lines.append(f"    {names[i]} = args[{i}]")
        lines += plain
    else:
        lines += [f"    {line}" for line in _plan_lines(d, function, names, runtime)]
    return "\n".join(lines)


def _plan_lines(
    d: Derivative, function: NativeFunction, names: list[str], runtime: list[int], record: str = "record"
) -> list[str]:
    inplace = function.form == "inplace"
    parameters = [local_name(names[i]) for i in runtime]
    call = ", ".join(parameters)
    inputs = d.inputs
    one_list = len(inputs) == 1 and is_list(d.function, inputs[0])
    lines = [f"def {record}({', '.join(f'{p}: Any' for p in parameters)}) -> Any:"]
    body: list[str] = ["if grad_disabled and not is_grad_enabled():", f"    return inner({call})"]
    if inplace:
        body.append("check_inplace(self_)")
    edges = []
    for n in inputs:
        local = local_name(n)
        if one_list:
            continue
        if n == "self" and inplace:
            edges.append("inplace_edge(self_)")
        else:
            # `edge_of` of what is no view and has its edge, spelt out.
            known = f"({local}._autograd.edge if {local}._view_base is None else None)"
            edges.append(f"({known} or edge_of({local})) if needs_{local} else None")
    if one_list:
        body.append(
            f"edges = tuple([edge_of(t) if requires_grad(t) else None for t in {local_name(inputs[0])}])"
        )
    else:
        body.append(f"edges = ({', '.join(edges)}{',' if len(edges) == 1 else ''})")
    saves = _all(d, "saves")
    if inplace and "self" in saves:
        users = {i for f in d.separate if "self" in f.saves for i in f.inputs}
        needed = " or ".join(
            f"needs_{local_name(u)}" if u != "self" else "edges[0] is not None" for u in sorted(users)
        )
        body.append(f"original = clone_before_write(self_) if {needed} else None")
    specs = list(dict.fromkeys(n for f in d.formulas for n in f.specs))
    saving: list[str] = []
    for n in saves:
        local = local_name(n)
        users_of = list(dict.fromkeys(i for f in d.separate if n in f.saves for i in f.inputs))
        condition = " or ".join(
            ("edges[0] is not None" if inplace and u == "self" else f"needs_{local_name(u)}")
            for u in users_of
        )
        source = "original" if inplace and n == "self" else local
        if is_list(d.function, n):
            saving.append(f"node.{local} = list({source})")
            saving.append(f"node.{local}_version = [saved_version(t) for t in {source}]")
        elif one_list:
            saving.append(f"node.{local} = {source}")
            saving.append(f"node.{local}_version = version_of({source})")
        else:
            saving.append(f"if {condition}:")
            saving.append(f"    node.{local} = {source}")
            if source == "original":
                saving.append(f"    node.{local}_version = 0")
            else:
                saving.append(f"    cell = {source}._version_cell if {n}_is_tensor else None")
                saving.append(f"    node.{local}_version = 0 if cell is None else cell[0]")
    if inplace:
        body.append(f"node = {d.node}()")
        body += [
            f"node.{n}_spec = " + (f"spec_of({local_name(n)})" if is_list(d.function, n) else f"{n}_spec")
            for n in specs
        ]
        # Versions from before the write, so that a saved argument that is, or overlaps, self is stale.
        body += saving
        body.append(f"inner({call})")
        result = "self_"
    else:
        body.append(f"out = inner({call})")
        body.append(f"node = {d.node}()")
        body += [
            f"node.{n}_spec = " + (f"spec_of({local_name(n)})" if is_list(d.function, n) else f"{n}_spec")
            for n in specs
        ]
        result = "out"
    body.append("node.next_edges = edges")
    body.append("node.sequence = next_sequence()")
    body.append("node.hooks = None")
    if not inplace:
        body += saving
    body += [f"node.{local_name(n)} = {local_name(n)}" for n in _all(d, "statics")]
    returns = len(d.function.schema.returns)
    if returns == 1:
        if inplace:
            body += ["node.specs = (self_._spec.detached,)", "rebase_history(self_, node)"]
        elif d.function.schema.returns[0].alias_info is None:
            # `set_history` of what is no view, spelt out: every recorded call comes through here.
            body += [
                "spec = out._spec",
                "node.specs = (spec,)",
                "out._spec = spec.twin",
                "out._autograd = meta = AutogradMeta()",
                "meta.edge = (node, 0)",
                "meta.grad = None",
            ]
        else:
            body += [
                "spec = out._spec",
                "node.specs = (spec,)",
                "out._spec = spec.twin",
                "out._autograd = meta = AutogradMeta()",
                "meta.edge = (node, 0)",
                "meta.grad = None",
                "if out._view_base is not None:",
                "    meta.version = out._version_cell[0]",
            ]
        if _all(d, "results") and not inplace and d.function.schema.returns[0].alias_info is None:
            body += _saving("result", "out", "spec")
        elif _all(d, "results"):
            body.append(f"node.result = kept = save_result({result})")
            body.append("cell = kept._version_cell")
            body.append("node.result_version = cell[0] if cell else saved_version(kept)")
    else:
        masked = any(a.name == "output_mask" for a in function.schema.arguments)
        names_of_outs = [f"out{i}" for i in range(returns)]
        if masked:
            body.append("node.specs = tuple([spec_of(o) for o in out])")
        else:
            body.append(f"{', '.join(names_of_outs)} = out")
            body.append(f"node.specs = ({', '.join([f'{o}._spec' for o in names_of_outs])})")
        for i, differentiable in enumerate(d.differentiable_outputs):
            if differentiable:
                if masked:  # what the mask does not ask for is None
                    body += [f"if out[{i}] is not None:", f"    set_history(out[{i}], node, {i})"]
                else:  # `set_history`, spelt out
                    body += [
                        f"out{i}._spec = out{i}._spec.twin",
                        f"out{i}._autograd = meta = AutogradMeta()",
                        f"meta.edge = (node, {i})",
                        "meta.grad = None",
                        f"if out{i}._view_base is not None:",
                        f"    meta.version = out{i}._version_cell[0]",
                    ]
        for n in _all(d, "results"):
            index = result_names(d.function).index(n)
            if masked:
                body.append(f"node.{n} = save_result(out[{index}])")
                body.append(f"node.{n}_version = saved_version(node.{n})")
            else:
                body += _saving(n, f"out{index}", f"out{index}._spec.detached")
    body.append("return self_" if inplace else "return out")
    kept = [n for n in saves if not is_list(d.function, n) and not (n == "self" and inplace)]
    finish = f"return {record}"
    if kept and not one_list:
        finish = f"return saves_refused({record}, ({', '.join(_kept(d, names, n) for n in kept)},))"
    return lines + [f"    {line}" for line in body] + ["", finish]


def _saving(name: str, out: str, spec: str) -> list[str]:
    """The statements of `save_result`, and what its version is; `saved_version` refuses an inference tensor."""
    return [
        f"kept = blank_tensor() if {out}.__class__ is Tensor else {out}._blank()",
        f"kept._data = {out}._data",
        f"kept._spec = {spec}",
        "kept._autograd = kept._view_base = None",
        f"cell = {out}._version_cell",
        "if cell is None:",
        f"    cell = {out}._version_cell = [saved_version({out}) if {out}._spec.is_inference else 0]",
        "kept._version_cell = cell",
        f"node.{name} = kept",  # whole by now: hooks on what is saved see it here
        f"node.{name}_version = cell[0]",
    ]


def _kept(d: Derivative, names: list[str], name: str) -> str:
    """The argument, if some input that needs it requires grad, as source."""
    users = dict.fromkeys(i for f in d.separate if name in f.saves for i in f.inputs if i != "self")
    uses_self = any(name in f.saves and "self" in f.inputs for f in d.separate)
    conditions = [f"requires_grad(args[{names.index(u)}])" for u in users]
    if uses_self:
        conditions.append(f"requires_grad(args[{names.index('self')}])")
    return f"args[{names.index(name)}] if {' or '.join(conditions)} else None"


def autograd_module(family: str, derivatives: list[Derivative], functions: list[NativeFunction]) -> str:
    """The module of a family's nodes and wrappers."""
    import re

    text = HEADER.format(title=f"Derivatives of the {family} family.", source="derivatives.yaml")
    parts: list[str] = []
    calls: set[str] = set()
    own = {str(d.function.name) for d in derivatives}
    for d in derivatives:
        parts.append(node_text(d))
        parts.append(wrapper_text(d, d.function))
        for f in d.formulas:
            calls |= set(f.calls)
        twin = inplace_twin(d.function, functions)
        if twin is not None and str(twin.name) not in own:
            parts.append(wrapper_text(d, twin))
    code = "\n\n\n".join(parts)
    words = set(re.findall(r"\b[A-Za-z_][A-Za-z_0-9]*\b", code))
    imports = ["from collections.abc import Sequence", "from typing import Any", ""]
    imports.append("from ....runtime.grad_mode import grad_disabled, is_grad_enabled")
    if "TensorImpl" in words:
        imports.append("from ....runtime.tensor_impl import TensorImpl")
    inplace_names = sorted(words & {"check_inplace", "inplace_edge", "rebase_history"})
    node_names = sorted(
        words
        & {
            "AutogradMeta",
            "FREED",
            "Node",
            "edge_of",
            "next_sequence",
            "save_result",
            "saved_version",
            "set_history",
            "unpack",
            "unpack_list",
            "unpack_result",
        }
    )
    shared = sorted(
        words
        & {
            "clone_before_write",
            "gradient_refused",
            "is_discrete",
            "partly_scaled",
            "requires_grad",
            "spec_of",
            "version_of",
            "writes_are_refused_first",
        }
    )
    builtins = {"list", "tuple", "len", "range", "min", "max", "sum", "int", "float", "bool"}
    written = formula_functions()
    manual: dict[str, list[str]] = {}
    for name in sorted(c for c in calls if c in written):
        manual.setdefault(written[name], []).append(name)
    generated = sorted(c for c in calls if c not in builtins and c not in written)
    for module, functions_of in sorted(manual.items()):
        imports.append(f"from ...autograd.formulas.{module} import {', '.join(functions_of)}")
    if inplace_names:
        imports.append(f"from ...autograd.inplace import {', '.join(inplace_names)}")
    imports.append(f"from ...autograd.node import {', '.join(node_names)}")
    if shared:
        imports.append(f"from ...autograd.recording import {', '.join(shared)}")
    if "saves_refused" in words:
        imports.append("from ...core.inference import saves_refused")
    imports.append("from ...core.kernel_function import Plan")
    imports.append("from ...core.operator_entry import BELOW_AUTOGRAD, OperatorEntry")
    if "blank_tensor" in words:
        imports.append("from ...tensor import Tensor, blank_tensor")
    if generated:
        imports.append(f"from ..functions import {', '.join(generated)}")
    return text + "\n".join(imports) + "\n\n\n" + code + "\n"


def formula_functions() -> dict[str, str]:
    """The functions of `autograd/formulas/`, each with its module."""
    folder = Path(__file__).resolve().parent.parent / "autograd" / "formulas"
    found: dict[str, str] = {}
    for path in sorted(folder.glob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                if any(isinstance(each, ast.Name) and each.id == "overload" for each in node.decorator_list):
                    continue
                if node.name in found:
                    raise ModelError(
                        f"formula {node.name} stands in {found[node.name]}.py and in {path.name}"
                    )
                found[node.name] = path.stem
    return found


def inplace_twin(function: NativeFunction, functions: list[NativeFunction]) -> NativeFunction | None:
    """The in-place form that shares a functional operator's derivative; of one with its own, the tangents alone."""
    wanted = f"{function.base}_" + (f".{function.name.overload}" if function.name.overload else "")
    names = (wanted, *function.autogen)
    types = [a.type for a in function.schema.arguments]
    return next(
        (
            f
            for f in functions
            if f.form == "inplace" and str(f.name) in names and [a.type for a in f.schema.arguments] == types
        ),
        None,
    )
