"""Signatures of generated functions: as Python runs them, and as users see them.

CPython specialises a call whose function has positional parameters alone, defaults or not. One keyword-only parameter
more, or ``**names``, costs 27 ns, a tenth of a view; a parameter with a default 1 ns, and to ask whether it is None 2.
So a generated function has no keyword-only parameters: its options are ordinary ones behind `beyond`, and NumPy's names
(`schema/numpy_names.py`) the last. What is superfluous by position falls into `beyond`, or where there are no options
into the first of NumPy's names. The function asks whether one of those is None where it asks for `modes`, and leaves
all others to `OverloadPacket.call_named`. (A superfluous None is overlooked.)

`inspect.signature`, `help` and editors see what the schema says: options by keyword alone, no `beyond`, no name of
NumPy's, no default where an argument is required.
"""

from __future__ import annotations

import inspect
from collections.abc import Container, Iterable
from types import FunctionType
from typing import Any

from ..schema.numpy_names import OWN_NAMES
from .call_arguments import REQUIRED


class FlatSignature:
    """Stands behind a function's ``__wrapped__`` for the signature as users see it, which is made when asked for."""

    __slots__ = ("function",)

    def __init__(self, function: FunctionType) -> None:
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's result."""
        return self.function(*args, **kwargs)

    @property
    def __signature__(self) -> inspect.Signature:
        """The signature without what only the call path needs."""
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
    """Whether a function's last parameter is NumPy's name of another."""
    return OWN_NAMES.get(name) in names


def declare(functions: Iterable[Any]) -> None:
    """Let `inspect.signature` see the signatures that users know, where those of the functions are others.

    What is no function is passed over.
    """
    # All generated functions go through here when triten is imported. Only parameters are called `beyond`.
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
