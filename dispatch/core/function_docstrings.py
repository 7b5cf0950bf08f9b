"""What generated methods share with the functions of the same name, and what users see of both."""

from __future__ import annotations

from types import FunctionType, ModuleType

from .flat_signature import declare


def take_docstrings(mixin: type, functions: ModuleType) -> None:
    """Give each method of a mixin's bases the docstring of its function, unless it has one of its own.

    The text stands once in compiled modules, and a method of the same name means the same. Functions and methods get
    the signatures that users know.
    """
    named = vars(functions)
    declare(named.values())
    for base in mixin.__bases__:
        methods = vars(base)
        declare(methods.values())
        for name, method in methods.items():
            if method.__class__ is FunctionType:
                method.__qualname__ = f"Tensor.{name}"  # as errors name it
                if method.__doc__ is None and name in named:
                    method.__doc__ = named[name].__doc__


__all__ = ["take_docstrings"]
