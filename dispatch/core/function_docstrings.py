"""Docstrings and signatures that generated methods share with the functions of the same name."""

from __future__ import annotations

from types import FunctionType, ModuleType

from .flat_signature import declare


def take_docstrings(mixin: type, functions: ModuleType) -> None:
    """Copy each function's docstring to the method of that name in a mixin's bases, unless the method has one.

    Compiled modules hold the text once. Functions and methods get their user-visible signatures.
    """
    named = vars(functions)
    declare(named.values())
    for base in mixin.__bases__:
        methods = vars(base)
        declare(methods.values())
        for name, method in methods.items():
            if method.__class__ is FunctionType:
                method.__qualname__ = f"Tensor.{name}"  # the name that errors show
                if method.__doc__ is None and name in named:
                    method.__doc__ = named[name].__doc__


__all__ = ["take_docstrings"]
