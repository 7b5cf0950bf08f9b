"""`derivatives.yaml`, parsed: for each operator the formulas of its inputs, and what they need saved.

A formula is a Python expression over the operator's arguments, ``grad`` or ``grads``, and ``result`` (or the
results' names). Reading it as syntax tells what to save: the whole tensor, or only its spec where nothing
but ``shape``, ``dtype`` and the like is asked of it.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..schema import base_type, parse_schema
from ..schema.types import is_list_type
from .load import Operators, read_entries
from .model import Location, ModelError, NativeFunction

SPEC_ATTRIBUTES = frozenset(
    {"shape", "dtype", "ndim", "device", "layout", "sizes", "specs", "strides", "numel"}
)
"""What a formula may ask of a tensor without saving it; ``tensors.specs`` are the specs of a list."""

BLOCKSIZE = "blocksize"
"""Attribute of a tensor that a node saves by itself: the spec of a blocked tensor has no block size."""


@dataclass(frozen=True)
class Formula:
    """The gradient of one or several inputs. `saves` are whole tensors, `specs` only specs, by argument name."""

    inputs: tuple[str, ...]
    source: str
    saves: tuple[str, ...]
    specs: tuple[str, ...]
    statics: tuple[str, ...]
    results: tuple[str, ...]
    calls: tuple[str, ...]
    uses_grads: bool


@dataclass(frozen=True)
class Derivative:
    """An operator's derivative. `forward` has the tangents' formulas, by result; `silent` inputs get no gradient."""

    function: NativeFunction
    formulas: tuple[Formula, ...]
    silent: tuple[str, ...]
    differentiable_outputs: tuple[bool, ...]
    node: str
    forward: dict[str, str]
    location: Location

    @property
    def inputs(self) -> tuple[str, ...]:
        """Differentiable inputs in schema order."""
        named = {i for f in self.formulas for i in f.inputs}
        return tuple(a.name for a in self.function.schema.arguments if a.name in named)

    @property
    def joint(self) -> tuple[Formula, ...]:
        """Formulas of several inputs that have formulas of their own too: they stand for all of them together."""
        alone = {f.inputs[0] for f in self.formulas if len(f.inputs) == 1}
        return tuple(f for f in self.formulas if len(f.inputs) > 1 and alone.issuperset(f.inputs))

    @property
    def separate(self) -> tuple[Formula, ...]:
        """The other ones, which have each input once."""
        joint = self.joint
        return tuple(f for f in self.formulas if f not in joint)

    @property
    def refused(self) -> tuple[str, ...]:
        """Tensors of which the file says nothing: a call is refused if one of them requires grad."""
        named = {*self.inputs, *self.silent}
        return tuple(
            a.name
            for a in self.function.schema.arguments
            if base_type(a.type).name == "Tensor"
            and a.name not in named
            and not is_list(self.function, a.name)
        )


def load_derivatives(path: Path, operators: Operators) -> list[Derivative]:
    """Parse the file. Raises ModelError for an unknown operator, argument or malformed formula."""
    by_name = {str(f.name): f for f in operators.functions}
    out: list[Derivative] = []
    counts: dict[str, int] = {}
    locations: dict[str, Location] = {}
    for fields, location in read_entries(path):
        if "name" not in fields:
            raise ModelError(f"{location}: an entry needs a 'name'")
        schema = parse_schema(str(fields.pop("name")), str(location))
        function = by_name.get(str(schema.operator_name))
        if function is None:
            raise ModelError(f"{location}: no operator {schema.operator_name}")
        if function.schema != schema:
            raise ModelError(f"{location}: the declaration is '{function.schema}', here stands '{schema}'")
        before = locations.setdefault(str(schema.operator_name), location)
        if before is not location:
            raise ModelError(f"{location}: its derivative stands at {before.file}:{before.line} already")
        outputs = fields.pop("output_differentiability", None)
        if outputs is not None and len(outputs) != len(schema.returns):
            raise ModelError(
                f"{location}: output_differentiability has {len(outputs)} entries for {len(schema.returns)} results"
            )
        forward = {name: str(fields.pop(name)) for name in result_names(function) if name in fields}
        silent = tuple(
            name
            for names, text in fields.items()
            if text == "not_differentiable"
            for name in _inputs(names, function, location)
        )
        formulas = tuple(
            _formula(_inputs(names, function, location), text, function, location)
            for names, text in fields.items()
            if text != "not_differentiable"
        )
        camel = _camel(function.base)
        number = counts.get(camel, 0)
        counts[camel] = number + 1
        node = f"{camel}Backward{number}"
        differentiable = tuple(outputs) if outputs is not None else (True,) * len(function.schema.returns)
        out.append(Derivative(function, formulas, silent, differentiable, node, forward, location))
    return out


def _camel(base: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in base.split("_"))


def result_names(function: NativeFunction) -> tuple[str, ...]:
    """Return the names by which formulas refer to the outputs."""
    returns = function.schema.returns
    if len(returns) == 1:
        return ("result",)
    return tuple(r.name or f"result{i}" for i, r in enumerate(returns))


def _inputs(names: Any, function: NativeFunction, location: Location) -> tuple[str, ...]:
    inputs = tuple(n.strip() for n in str(names).split(","))
    for name in inputs:
        if all(name != a.name for a in function.schema.arguments):
            raise ModelError(f"{location}: {function.name} has no argument '{name}'")
    return inputs


def _formula(inputs: tuple[str, ...], text: Any, function: NativeFunction, location: Location) -> Formula:
    arguments = {a.name: a for a in function.schema.arguments}
    source = str(text)
    try:
        tree = ast.parse(source, mode="eval")
    except SyntaxError as error:
        raise ModelError(f"{location}: formula '{source}' is no expression: {error}") from None
    results = result_names(function)
    whole: list[str] = []
    spec_only: list[str] = []
    statics: list[str] = []
    used_results: list[str] = []
    calls: list[str] = []
    attribute_of: set[int] = set()
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.attr in SPEC_ATTRIBUTES | {BLOCKSIZE}
        ):
            attribute_of.add(id(node.value))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            calls.append(node.func.id)
    bound = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Name):
            continue
        name = node.id
        if name in arguments:
            kind = base_type(arguments[name].type).name
            if kind == "Tensor":
                target = spec_only if id(node) in attribute_of else whole
            else:
                target = statics
            if name not in target:
                target.append(name)
        elif name in results:
            if name not in used_results:
                used_results.append(name)
        elif name not in ("grad", "grads", "output_mask", *calls) and name not in bound:
            raise ModelError(
                f"{location}: formula '{source}' uses '{name}', which {function.name} does not have"
            )
    specs = tuple(n for n in spec_only if n not in whole)
    uses_grads = any(isinstance(n, ast.Name) and n.id == "grads" for n in ast.walk(tree))
    return Formula(
        inputs,
        source,
        tuple(whole),
        specs,
        tuple(statics),
        tuple(used_results),
        tuple(dict.fromkeys(calls)),
        uses_grads,
    )


def is_list(function: NativeFunction, name: str) -> bool:
    """Return whether an argument is a list of tensors."""
    return next(is_list_type(a.type) for a in function.schema.arguments if a.name == name)
