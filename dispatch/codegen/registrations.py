"""Generated registrations: definitions, kernels and autograd wrappers, a family in each module."""

from __future__ import annotations

import re
from collections.abc import Collection

from ...runtime.dispatch_key import BY_NAME, Functionality
from .autograd import inplace_twin
from .derivatives import Derivative
from .docstrings import NAMESPACES
from .functions import HEADER
from .model import NativeFunction
from .rows import words_by_key

LATE = frozenset({Functionality.Quantized, Functionality.Sparse, Functionality.SparseCsr})
"""Keys whose kernels are found in a table when the first tensor of theirs comes (`OperatorEntry.kernel_for`).

That they are named says where an operator without another kernel is served.
"""


def registrations_module(family: str, functions: list[NativeFunction], derivatives: list[Derivative]) -> str:
    """Return the module whose `register` defines a family."""
    file = f"native_functions/{family}.yaml"
    text = HEADER.format(title=f"Registrations of the {family} family.", source=file)
    recorded = {str(d.function.name) for d in derivatives}
    for d in derivatives:
        twin = inplace_twin(d.function, functions)
        if twin is not None:
            recorded.add(str(twin.name))
    rows = "\n".join(f"    operator({', '.join(_row(f, functions, recorded))})" for f in functions)
    words = set(re.findall(r"\b[a-z_]+\b", re.sub(r"'[^']*'|\"[^\"]*\"", "", rows)))
    imports = [
        f"from {module} import {', '.join(used_names)}"
        for module, names in (
            ("...autograd.recording", ("never_differentiable", "out_refuses_grad")),
            ("...composite.forms", ("inplace_form", "out_form")),
        )
        if (used_names := [name for name in names if name in words])
    ]
    imports += [
        f"from {folder} import {family} as {name}"
        for folder, name in (
            ("...composite", "composition"),
            ("...structured.meta", "meta"),
            ("..autograd", "derivatives"),
        )
        if name in words
    ]
    imports += ["from .. import functions"] * ("functions" in words)
    imports.append("from ...plans.register import operators_of")
    return (
        text
        + "\n".join(imports)
        + "\n\n\ndef register() -> None:\n"
        + f'    """Define the {family} operators and register their kernels."""\n'
        + f'    operator = operators_of("{file}")\n    # fmt: off\n{rows}\n    # fmt: on\n'
    )


def _row(f: NativeFunction, functions: list[NativeFunction], recorded: Collection[str]) -> list[str]:
    """Return the arguments that define an operator, as source."""
    schema = str(f.schema)
    row = [repr(schema) if '"' in schema else f'"{schema}"']
    if f.location.operator != str(f.name):
        row.append(f'entry="{f.location.operator}"')
    if f.tags:
        row.append(f'tags="{" ".join(sorted(f.tags))}"')
    if f.wrapped_numbers not in (False, "src"):
        row.append("wrapped_numbers=True")
    if f.is_view:
        row.append(f"view=meta.{f.meta or f.base}")
    elif f.structured:
        out = out_twin(f, functions)
        through = "" if out is None else f', "{out.name}"'
        row.append(f'structured=(meta.{f.meta}, "{f.stub}", "{f.form}"{through})')
    if f.planner is not None:
        row.append(f"planner=meta.{f.planner}")
        if f.stub is not None:
            row.append(f'stub="{f.stub}"')
    kernels = [(key, kernel) for key, kernel in f.dispatch if BY_NAME[key].functionality not in LATE]
    if kernels:
        pairs = (f'"{key}": {_composite(f, kernel, functions)}' for key, kernel in kernels)
        row.append(f"dispatch={{{', '.join(pairs)}}}")
    if str(f.name) in recorded:
        row.append(f"autograd=derivatives.plan_{f.identifier}")
    elif "nondifferentiable" in f.tags:
        row.append("autograd=never_differentiable")
    elif f.form == "out" and (f.structured or _is_explicit(f)):
        row.append("autograd=out_refuses_grad")
    return row


def _composite(f: NativeFunction, kernel: str, functions: list[NativeFunction]) -> str:
    """Return a kernel that is composed of other operators, as source."""
    if not f.written:
        return f"composition.{kernel}"
    if f.form == "inplace" and any(each.structured and each.base == f"{kernel}_" for each in functions):
        # An alias: the operator's own in-place form keeps what its derivative needs.
        return f"functions.{kernel}_"
    several = f", {len(f.schema.returns)}" if len(f.schema.returns) > 1 else ""
    exact = ", exact=True" if f.exact_out and f.form == "out" else ""
    strided = ", strided=True" if f.strided_out and f.form == "out" else ""
    return f'{f.form}_form("{f.base}", composition.{kernel}{several}{exact}{strided})'


def _is_explicit(f: NativeFunction) -> bool:
    return any(key.startswith("CompositeExplicitAutograd") for key, _ in f.dispatch)


def out_twin(f: NativeFunction, functions: list[NativeFunction]) -> NativeFunction | None:
    """Return the ``out=`` form that computes the same as a functional or in-place form, or None."""
    if f.form == "out":
        return None
    inputs = [(a.name, a.type) for a in f.schema.arguments]
    for each in functions:
        if each.form == "out" and each.structured and (each.meta, each.stub) == (f.meta, f.stub):
            out_inputs = [(a.name, a.type) for a in each.schema.arguments if not a.is_out]
            if out_inputs == inputs and each.base == f.base.rstrip("_"):
                return each
    return None


def package_module(title: str) -> str:
    """Return the ``__init__.py`` of a folder that only holds modules."""
    return HEADER.format(title=title, source="*.yaml")


def index_module(families: list[str]) -> str:
    """Return `generated/__init__.py` with the families."""
    text = HEADER.format(
        title="Generated code, a folder for each kind, a module for each family.", source="*.yaml"
    )
    names = "".join(f'    "{f}",\n' for f in families)
    return text + f"FAMILIES = (\n{names})\n"


def tensor_methods_module(families: list[str]) -> str:
    """Return `generated/methods/__init__.py` with the mixin class that `Tensor` inherits."""
    text = HEADER.format(title="All generated methods of Tensor, as one mixin.", source="*.yaml")
    imports = "from ...core.function_docstrings import take_docstrings\nfrom .. import functions\n"
    imports += "\n".join(f"from .{f} import {f.title().replace('_', '')}Methods" for f in families)
    bases = "".join(f"    {f.title().replace('_', '')}Methods,\n" for f in families)
    return (
        text
        + imports
        + f'\n\n\nclass TensorMethods(\n{bases}):\n    """Every family\'s methods."""\n\n    __slots__ = ()\n'
        + "\n\ntake_docstrings(TensorMethods, functions)\n"
    )


def operator_index_module(names: dict[str, list[str]]) -> str:
    """Return `generated/registrations/operator_index.py`: each operator's family, known before families load."""
    text = HEADER.format(title="The operators of each family.", source="*.yaml")
    return (
        f"{text}_NAMES = {words_by_key(names)}\n"
        "OPERATORS = {\n"
        '    family: tuple([f"aten::{name}" for name in names.split()]) for family, names in _NAMES.items()\n}\n'
    )


def functions_index_module(names: dict[str, list[str]]) -> str:
    """Return `generated/functions/__init__.py` with every public function, for the root and for composites."""
    text = HEADER.format(title="All generated functions.", source="*.yaml")
    imports = "".join(f"from .{family} import *\n" for family, functions in names.items() if functions)
    return f"""{text}{imports}
__all__ = sorted(
    name
    for name, value in globals().items()
    if callable(value) and not name.startswith({tuple(NAMESPACES)!r})
)
"""
