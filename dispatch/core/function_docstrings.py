"""Docstrings that generated methods share with the functions of the same name."""

from __future__ import annotations

from types import FunctionType, ModuleType


def take_docstrings(mixin: type, functions: ModuleType) -> None:
    """Give each method of a mixin's bases the docstring of its function, unless it has one of its own.

    The text stands once in compiled modules, and a method of the same name means the same.
    """
    named = vars(functions)
    for base in mixin.__bases__:
        for name, method in vars(base).items():
            if name in named and method.__class__ is FunctionType and method.__doc__ is None:
                method.__doc__ = named[name].__doc__


__all__ = ["take_docstrings"]
