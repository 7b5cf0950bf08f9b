"""Signatures of generated functions: flat for CPython, and as declared for users.

CPython specializes a call whose function has positional parameters alone, with or without defaults. One keyword-only
parameter, or ``**names``, costs 27 ns, a tenth of a view. A parameter with a default costs 1 ns, and a test for None
2. So a generated function has no keyword-only parameters. Its options are ordinary parameters after `beyond`; NumPy's
names (`schema/numpy_names.py`) come last. A superfluous positional argument binds to `beyond`, or without options to
the first of NumPy's names. The function tests these for None along with `modes`, and passes any other value to
`OverloadPacket.call_named`. A superfluous None is overlooked.

`inspect.signature`, `help` and editors see the schema's signature: keyword-only options, no `beyond`, no NumPy names,
and no default for a required argument.
"""

from __future__ import annotations

import inspect
from collections.abc import Container, Iterable
from types import FunctionType
from typing import Any

from ..schema.numpy_names import OWN_NAMES
from .call_arguments import REQUIRED


class FlatSignature:
    """Object behind a function's ``__wrapped__`` that builds the user-visible signature on demand."""

    __slots__ = ("function",)

    def __init__(self, function: FunctionType) -> None:
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self.function(*args, **kwargs)

    @property
    def __signature__(self) -> inspect.Signature:
        """The signature without the parameters that only the call path needs."""
        flat = inspect.Signature.from_callable(self.function, follow_wrapped=False)
        parameters = list(flat.parameters.values())
        while _stands_for_another(parameters[-1].name, flat.parameters):
            parameters.pop()
        shown = []
        by_keyword = False
        for parameter in parameters:
            if parameter.name == "beyond":
                by_keyword = True
                continue
            default = inspect.Parameter.empty if parameter.default is REQUIRED else parameter.default
            kind = parameter.KEYWORD_ONLY if by_keyword else parameter.kind
            shown.append(parameter.replace(kind=kind, default=default))
        return flat.replace(parameters=shown)


def _stands_for_another(name: str, names: Container[str]) -> bool:
    """Return whether a function's last parameter is NumPy's name for another parameter."""
    return OWN_NAMES.get(name) in names


def declare(functions: Iterable[Any]) -> None:
    """Make `inspect.signature` show the user-visible signatures of functions whose own signatures are flat.

    Objects that are not functions are skipped.
    """
    # Importing triten runs this for all generated functions. The name `beyond` is used only for parameters.
    for function in functions:
        if function.__class__ is FunctionType:
            code = function.__code__
            names = code.co_varnames
            if "beyond" in names or (
                (count := code.co_argcount)
                and names[count - 1] in OWN_NAMES
                and _stands_for_another(names[count - 1], names[:count])
            ):
                function.__wrapped__ = FlatSignature(function)  # type: ignore[attr-defined]


__all__ = ["FlatSignature", "declare"]
