"""Generated forward mode: for each operator the tangents of its results from those of its inputs.

A module for each family, which is imported when an operator of it first meets a dual tensor, and an index of them.
"""

from __future__ import annotations

import ast
import re

from ..schema import base_type
from ..schema.function_schema import local_name
from .autograd import BUILTINS, formula_functions, inplace_twin
from .derivatives import Derivative, Formula, is_list, result_names
from .functions import HEADER
from .model import ModelError, NativeFunction
from .rows import parted, words_by_key


def forward_module(family: str, derivatives: list[Derivative]) -> str:
    """Return the module of a family's formulas, with the table of formulas by operator."""
    having = [d for d in derivatives if d.forward]
    parts = [_function(d) for d in having]
    rows = "".join(f'    "aten::{d.function.name}": jvp_{d.function.identifier},\n' for d in having)
    code = "\n\n\n".join(parts)
    called = {
        n.func.id
        for n in ast.walk(ast.parse(code))
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
    }
    written = formula_functions()
    imports = ["from typing import Any", ""]
    manual: dict[str, list[str]] = {}
    for name in sorted(called & written.keys()):
        manual.setdefault(written[name], []).append(name)
    imports += [
        f"from ...autograd.formulas.{m} import {', '.join(names)}" for m, names in sorted(manual.items())
    ]
    shared = sorted(called & {"plus", "tangent_like", "zero_tangent"})
    if shared:
        imports.append(f"from ...autograd.tangents import {', '.join(shared)}")
    generated = sorted(called - BUILTINS - written.keys() - set(shared))
    if generated:
        imports.append(f"from ..functions import {', '.join(generated)}")
    text = HEADER.format(title=f"Forward mode of the {family} family.", source="derivatives.yaml")
    return text + "\n".join(imports) + "\n\n\n" + code + f"\n\n\nFORMULAS = {{\n{rows}}}\n"


def forward_index(derivatives: list[Derivative], functions: list[NativeFunction]) -> str:
    """Return `generated/forward/__init__.py`: each formula's module, and the functional operators of in-place ones."""
    operators: dict[str, list[str]] = {}
    twins: list[str] = []
    for d in derivatives:
        if d.forward:
            operators.setdefault(d.function.family, []).append(str(d.function.name))
        twin = inplace_twin(d.function, functions)
        if twin is not None:
            twins.append(f'"aten::{twin.name}": "aten::{d.function.name}"')
    text = HEADER.format(title="Where forward mode's formulas stand.", source="derivatives.yaml")
    return (
        f"{text}_NAMES = {words_by_key(operators)}\n"
        'FAMILY_OF = {f"aten::{name}": family for family, names in _NAMES.items() for name in names.split()}\n'
        f'"""The family in whose module `forward_<family>` an operator\'s formula stands."""\n\n'
        f"FUNCTIONAL_OF = {parted('{', twins, '}')}  # fmt: skip\n"
        f'"""The operator whose derivative an in-place one shares."""\n'
    )


def _function(d: Derivative) -> str:
    function = d.function
    arguments = [a for a in function.schema.arguments if not a.is_out]
    body: list[str] = []
    results = []
    names = result_names(function)
    for number, (name, differentiable) in enumerate(zip(names, d.differentiable_outputs, strict=True)):
        source = d.forward.get(name)
        if source is None:
            if differentiable:
                raise ModelError(f"{d.location}: {function.name} has no tangent for its result '{name}'")
            results.append("None")
            continue
        local = f"{name}_t"
        results.append(local)
        body += _tangent_lines(d, local, source, f"[{number}]" if len(names) > 1 else "")
    used = set(re.findall(r"\b[A-Za-z_][A-Za-z_0-9]*\b", "\n".join(body)))
    lines = [f"def jvp_{function.identifier}(op: Any, args: Any, tangents: Any, result: Any) -> Any:"]
    lines.append(f'    """Compute the tangents of ``{function.schema}``."""')
    lines += [
        f"    {local_name(a.name)} = args[{i}]" for i, a in enumerate(arguments) if local_name(a.name) in used
    ]
    lines += [f"    {a.name}_t = tangents[{i}]" for i, a in enumerate(arguments) if f"{a.name}_t" in used]
    if len(names) > 1:
        lines += [f"    {n} = result[{i}]" for i, n in enumerate(names) if n in used]
    lines += [f"    {line}" for line in body]
    lines.append(f"    return {', '.join(results)}{',' if len(results) == 1 else ''}")
    return "\n".join(lines)


def _tangent_lines(d: Derivative, local: str, source: str, subscript: str) -> list[str]:
    """Return statements that assign a result's tangent to `local`; None is zero, `subscript` indexes the results."""
    if source == "auto_element_wise":
        terms = [term for f in d.formulas for term in _element_wise(d, f)]
    elif source in ("auto_linear", "auto_multilinear"):
        if d.function.form == "inplace":
            raise ModelError(f"{d.location}: {source} calls {d.function.name}, which writes")
        if source == "auto_linear":
            condition = " or ".join(f"{n}_t is not None" for n in d.inputs)
            call = f"op.call({', '.join(_arguments(d, d.inputs))}){subscript}"
            return [f"{local} = None", f"if {condition}:", f"    {local} = {call}"]
        terms = [([f"{n}_t"], f"op.call({', '.join(_arguments(d, (n,)))}){subscript}") for n in d.inputs]
    else:
        terms = _terms(d, source)
    if len(terms) == 1 and not terms[0][0]:
        return [f"{local} = {terms[0][1]}"]
    lines = [f"{local} = None"]
    for position, (needed, term) in enumerate(terms):
        condition = " and ".join(f"{n} is not None" for n in needed)
        value = term if position == 0 else f"plus({local}, {term})"
        lines += [f"if {condition}:", f"    {local} = {value}"] if condition else [f"{local} = {value}"]
    return lines


def _arguments(d: Derivative, replaced: tuple[str, ...]) -> list[str]:
    """Return the operator's arguments with some replaced by tangents; missing ones of several are zero."""
    out = []
    for a in d.function.schema.arguments:
        local = local_name(a.name)
        if a.name not in replaced:
            out.append(local)
        elif len(replaced) == 1 and not is_list(d.function, a.name):
            out.append(f"{a.name}_t")
        else:
            out.append(f"zero_tangent({local}, {a.name}_t)")
    return out


def _element_wise(d: Derivative, formula: Formula) -> list[tuple[list[str], str]]:
    """Return the backward formula of each input, applied to its tangent, since the Jacobian is diagonal."""
    if formula.uses_grads or len(formula.inputs) > 1 or len(d.function.schema.returns) > 1:
        raise ModelError(
            f"{d.location}: {d.function.name} is not element-wise: a formula has several inputs or results"
        )
    name = formula.inputs[0]
    grad = f"conjugated(tangent_like({name}_t, result))"
    tree = _Forward({"grad": grad}).visit(ast.parse(formula.source, mode="eval"))
    return [([f"{name}_t"], f"conjugated({ast.unparse(tree)})")]


def _terms(d: Derivative, source: str) -> list[tuple[list[str], str]]:
    """Return the summands of a formula, each with the tangents in it."""
    try:
        tree = ast.parse(source, mode="eval").body
    except SyntaxError as error:
        raise ModelError(f"{d.location}: formula '{source}' is no expression: {error}") from None
    terms: list[ast.expr] = []
    while isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Add):
        terms.insert(0, tree.right)
        tree = tree.left
    terms.insert(0, tree)
    arguments = {a.name for a in d.function.schema.arguments}
    tensors = {a.name for a in d.function.schema.arguments if base_type(a.type).name == "Tensor"}
    known = arguments | {f"{n}_t" for n in tensors} | set(result_names(d.function))
    out = []
    for term in terms:
        names = [n.id for n in ast.walk(term) if isinstance(n, ast.Name)]
        functions = {
            n.func.id for n in ast.walk(term) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
        }
        for name in names:
            if name not in known and name not in functions:
                raise ModelError(
                    f"{d.location}: formula '{source}' uses '{name}', which {d.function.name} does not have"
                )
        needed = list(
            dict.fromkeys(n for n in names if n.removesuffix("_t") in tensors and n not in arguments)
        )
        out.append((needed, ast.unparse(_Forward({}).visit(term))))
    return out


class _Forward(ast.NodeTransformer):
    """Spells the names of a formula as a generated function has them; all tensors are whole there."""

    def __init__(self, replaced: dict[str, str]) -> None:
        self.replaced = replaced

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        value = self.generic_visit(node)
        assert isinstance(value, ast.Attribute)
        if value.attr in ("sizes", "strides"):
            return ast.Attribute(ast.Attribute(value.value, "_spec"), value.attr)
        return value

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in self.replaced:
            return ast.parse(self.replaced[node.id], mode="eval").body
        return ast.Name(local_name(node.id))
