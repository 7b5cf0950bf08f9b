"""Qualified names of objects, for generated source and printed graphs."""

from __future__ import annotations

import builtins
import re
import sys
import types
from typing import Any

from .. import overrides
from ..dispatch.core.op_overload import OpOverload, OpOverloadGroup
from ..dispatch.tensor import Tensor
from ..runtime import public_name

ROOT = __name__.partition(".")[0]
NAMESPACES = ("", "nn.functional", "nn", "linalg", "fft", "special", "nn.init", "autograd", "func")
"""Where the public name of an object of the package is looked for, beside its own module."""

_PREFIX = re.compile(r"^(linalg|fft|special)_")
_CALLERS = ("tests", "examples", "perf")
"""Folders of the package that call it as a program does: what they define is a program's."""


def root_name() -> str:
    """Return the package's displayed name: `triten`, or `torch` in programs of `triten.as_torch`."""
    return public_name.shown


def _follow(path: str) -> Any:
    """Return the object at a dotted path below the root; None if it does not exist."""
    obj: Any = sys.modules[ROOT]
    for name in path.split(".") if path else ():
        obj = getattr(obj, name, None)
        if obj is None:
            return None
    return obj


def own_path(obj: Any) -> str | None:
    """Return an object's dotted path below the package's root; None for an object outside the package.

    Example:
        >>> import triten as tt
        >>> from triten.fx.qualified_names import own_path
        >>> own_path(tt.relu), own_path(tt.linalg.norm), own_path(tt.Tensor), own_path(len)
        ('relu', 'linalg.norm', 'Tensor', None)
    """
    if isinstance(obj, OpOverload):
        return f"ops.{obj.namespace}.{obj._opname}.{obj._overloadname}"
    if isinstance(obj, OpOverloadGroup):
        return f"ops.{obj}"
    module = getattr(obj, "__module__", None)
    inside = public_name.path_below(module) if isinstance(module, str) else None
    if inside is None or inside.partition(".")[0] in _CALLERS:
        return None
    known = overrides.resolve_name(obj)
    if known is not None:
        return known.partition(".")[2]
    name = getattr(obj, "__qualname__", "")
    if not name or "<" in name:
        return None
    short = _PREFIX.sub("", name)
    for namespace in NAMESPACES:
        for each in {name: None, short: None}:
            path = f"{namespace}.{each}".lstrip(".")
            if _follow(path) is obj:
                return path
    path = f"{inside}.{name}"
    return path if _follow(path) is obj else None


def qualified_name(obj: Any) -> str:
    """Return the dotted name of a function or class for generated code and printed graphs.

    Example:
        >>> import operator
        >>> import triten as tt
        >>> from triten.fx.qualified_names import qualified_name
        >>> qualified_name(tt.nn.functional.softmax), qualified_name(operator.add), qualified_name(getattr)
        ('triten.nn.functional.softmax', '_operator.add', 'getattr')
    """
    name = getattr(obj, "__name__", None) or type(obj).__name__
    if getattr(builtins, name, None) is obj:
        return str(name)
    path = own_path(obj)
    if path is not None:
        return f"{root_name()}.{path}"
    is_of_c = isinstance(obj, types.MethodDescriptorType | types.WrapperDescriptorType)
    if is_of_c and getattr(Tensor, name, None) is obj:
        return f"{root_name()}.Tensor.{name}"
    module = getattr(obj, "__module__", None) or type(obj).__module__
    if name == "<lambda>":
        holder = vars(sys.modules.get(module, builtins))
        name = next((key for key, value in holder.items() if value is obj), "lambda")
    return f"{module}.{name}"


def target_text(target: Any) -> str:
    """Format a node's target: ``operator.add``, ``builtins.getattr``, ``triten.relu``, or a string target."""
    if isinstance(target, str):
        return target
    module = getattr(target, "__module__", None)
    name = getattr(target, "__name__", None)
    if name is not None and module in ("builtins", "_operator"):
        return f"{module.lstrip('_')}.{name}"
    return qualified_name(target)


def type_text(annotation: Any) -> str:
    """Format a type by its name, with the module unless it is a builtin."""
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        if annotation.__module__ == "builtins":
            return annotation.__qualname__
        path = own_path(annotation)
        if path is not None:
            return f"{root_name()}.{path}"
        return f"{annotation.__module__}.{annotation.__qualname__}"
    if annotation is ...:
        return "..."
    if isinstance(annotation, types.FunctionType):
        return annotation.__name__
    return repr(annotation).replace(f"{Tensor.__module__}.Tensor", f"{root_name()}.Tensor")
