"""Generated registrations: definitions, kernels and autograd wrappers, a family in each module."""

from __future__ import annotations

from ...runtime.dispatch_key import BY_NAME, Functionality
from .autograd import inplace_twin
from .derivatives import Derivative
from .docstrings import NAMESPACES
from .functions import HEADER
from .model import NativeFunction

LATE = frozenset({Functionality.Quantized, Functionality.Sparse, Functionality.SparseCsr})
"""Keys whose kernels are found in a table when the first tensor of theirs comes (`OperatorEntry.kernel_for`).

That they are named says where an operator without another kernel is served.
"""


def registrations_module(family: str, functions: list[NativeFunction], derivatives: list[Derivative]) -> str:
    """The module whose `register` defines a family."""
    text = HEADER.format(
        title=f"Registrations of the {family} family.", source=f"native_functions/{family}.yaml"
    )
    lines: list[str] = []
    used: set[str] = set()
    modules: set[str] = set()
    forms: set[str] = set()
    aliased: set[str] = set()
    differentiable = {str(d.function.name): d for d in derivatives}
    twins: dict[str, Derivative] = {}
    for d in derivatives:
        twin = inplace_twin(d.function, functions)
        if twin is not None:
            twins[str(twin.name)] = d
    operators = {f.base for f in functions if f.structured}
    for f in functions:
        tags = f", ({', '.join(repr(t) for t in sorted(f.tags))},)" if f.tags else ""
        wrapped = ", wrapped_numbers=True" if f.wrapped_numbers not in (False, "src") else ""
        lines.append(f'define("{f.name}", {str(f.schema)!r}, "{f.location}"{tags}{wrapped})')
        used.add("define")
        if f.is_view:
            lines.append(f'view("{f.name}", meta.{f.meta or f.base})')
            used.add("view")
            modules.add("meta")
        elif f.structured:
            out = out_twin(f, functions)
            through = "" if out is None else f', "{out.name}"'
            lines.append(f'structured("{f.name}", meta.{f.meta}, "{f.stub}", "{f.form}"{through})')
            used.add("structured")
            modules.add("meta")
        if f.planner is not None and f.stub is not None:
            lines.append(f'planned("{f.name}", "{f.stub}", meta.{f.planner})')
            used.add("planned")
            modules.add("meta")
        elif f.planner is not None:
            lines.append(f'planner("{f.name}", "CompositeExplicitAutograd", meta.{f.planner})')
            used.add("planner")
            modules.add("meta")
        for key, kernel in f.dispatch:
            if BY_NAME[key].functionality in LATE:
                continue
            composition = f"composition.{kernel}"
            if f.written and f.form == "inplace" and f"{kernel}_" in operators:
                # An alias: the operator's own in-place form keeps what its derivative needs.
                composition = f"{kernel}_"
                aliased.add(composition)
            elif f.written:
                several = f", {len(f.schema.returns)}" if len(f.schema.returns) > 1 else ""
                exact = ", exact=True" if f.exact_out and f.form == "out" else ""
                strided = ", strided=True" if f.strided_out and f.form == "out" else ""
                composition = f'{f.form}_form("{f.base}", {composition}{several}{exact}{strided})'
                forms.add(f"{f.form}_form")
            lines.append(f'composite("{f.name}", "{key}", {composition})')
            used.add("composite")
            if "composition." in composition:
                modules.add("composition")
        if str(f.name) in differentiable or str(f.name) in twins:
            lines.append(f'autograd("{f.name}", autograd_{family}.plan_{f.identifier})')
            used.add("autograd")
            modules.add("autograd")
        elif "nondifferentiable" in f.tags:
            lines.append(f'autograd("{f.name}", never_differentiable)')
            used.add("autograd")
            modules.add("never")
        elif f.form == "out" and (f.structured or _is_explicit(f)):
            lines.append(f'autograd("{f.name}", out_refuses_grad)')
            used.add("autograd")
            modules.add("refuse")
    imports: list[str] = []
    recording = [
        n for m, n in (("never", "never_differentiable"), ("refuse", "out_refuses_grad")) if m in modules
    ]
    if recording:
        imports.append(f"from ...autograd.recording import {', '.join(recording)}")
    if "composition" in modules:
        imports.append(f"from ...composite import {family} as composition")
    if forms:
        imports.append(f"from ...composite.forms import {', '.join(sorted(forms))}")
    if "meta" in modules:
        imports.append(f"from ...structured.meta import {family} as meta")
    imports.append(f"from ...plans.register import {', '.join(sorted(used))}")
    if "autograd" in modules:
        imports.append(f"from ..autograd import {family} as autograd_{family}")
    if aliased:
        imports.append(f"from ..functions.{family} import {', '.join(sorted(aliased))}")
    imports.sort()
    body = "\n".join(f"    {line}" for line in lines)
    return (
        text
        + "\n".join(imports)
        + "\n\n\ndef register() -> None:\n"
        + f'    """Define the {family} operators and register their kernels."""\n{body}\n'
    )


def _is_explicit(f: NativeFunction) -> bool:
    return any(key.startswith("CompositeExplicitAutograd") for key, _ in f.dispatch)


def out_twin(f: NativeFunction, functions: list[NativeFunction]) -> NativeFunction | None:
    """The ``out=`` form that computes what a functional or in-place form does; None where there is none."""
    if f.form == "out":
        return None
    inputs = [(a.name, a.type) for a in f.schema.arguments]
    for each in functions:
        if each.form == "out" and each.structured and (each.meta, each.stub) == (f.meta, f.stub):
            given = [(a.name, a.type) for a in each.schema.arguments if not a.is_out]
            if given == inputs and each.base == f.base.rstrip("_"):
                return each
    return None


def package_module(title: str) -> str:
    """The ``__init__.py`` of a folder that only holds modules."""
    return HEADER.format(title=title, source="*.yaml")


def index_module(families: list[str]) -> str:
    """`generated/__init__.py`: the families."""
    text = HEADER.format(
        title="Generated code, a folder for each kind, a module for each family.", source="*.yaml"
    )
    names = "".join(f'    "{f}",\n' for f in families)
    return text + f"FAMILIES = (\n{names})\n"


def tensor_methods_module(families: list[str]) -> str:
    """`generated/methods/__init__.py`: the one mixin that `Tensor` takes."""
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
    """`generated/registrations/operator_index.py`: the family of every operator, known before families load."""
    text = HEADER.format(title="The operators of each family.", source="*.yaml")
    listed = "".join(
        f'    "{family}": (' + "".join(f'"aten::{n}", ' for n in of) + "),\n" for family, of in names.items()
    )
    return text + f"OPERATORS: dict[str, tuple[str, ...]] = {{\n{listed}}}\n"


def functions_index_module(names: dict[str, list[str]]) -> str:
    """`generated/functions/__init__.py`: every public function, for the root and for composites."""
    text = HEADER.format(title="All generated functions.", source="*.yaml")
    imports = ""
    exported: list[str] = []
    for family, functions in names.items():
        if functions:
            imports += f"from .{family} import (\n" + "".join(f"    {n},\n" for n in functions) + ")\n"
            exported += functions
    public = sorted(name for name in exported if not name.startswith(tuple(NAMESPACES)))
    listed = "".join(f'    "{n}",\n' for n in public)
    return text + imports + f"\n__all__ = [\n{listed}]\n"
