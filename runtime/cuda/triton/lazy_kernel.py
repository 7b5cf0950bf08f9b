"""Lazy kernels: Python source only, until they must be compiled."""

from __future__ import annotations

import linecache
import re
import types
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

TRITON, GLUON = "triton", "triton.experimental.gluon"
"""Languages of kernels, by the module that has their `jit`."""

_WORD = re.compile(r"[^\W\d]\w*")
_modules: dict[str, tuple[object, str]] = {}
"""Module texts by file name, each with the import system's record of the import that it was read for."""


class LazyKernel:
    """Function under `@triton.jit` or `@gluon.jit`, its options, and the module values that it can reach.

    It has the attributes that host code reads from Triton's kernels: `fn`, `arg_names`, `cache_key`, the function's
    names and documentation. The module's text is kept as of the import. Later compilations use that text even if the
    file has been edited in the meantime.

    Args:
        fn: The function.
        options: Options of the decorator.
        language: `TRITON` or `GLUON`.
    """

    def __init__(self, fn: Callable[..., Any], options: Mapping[str, Any], language: str = TRITON) -> None:
        if not isinstance(fn, types.FunctionType):
            raise TypeError(
                f"{language.rpartition('.')[2]}.jit(): expected a function, got {type(fn).__name__}"
            )
        code = fn.__code__
        self.fn = fn
        self.kwargs = dict(options)
        self.language = language
        self.arg_names = list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
        self.__name__ = fn.__name__
        self.__qualname__ = fn.__qualname__
        self.__module__ = fn.__module__
        self.__doc__ = fn.__doc__
        self.real: Any = None
        """Triton's kernel, once it has been created; see `real_triton.py`."""
        self._cache_key: str | None = None
        self._code_key: str | None = None
        self._module_source = _source_of_module(fn)
        self._source: str | None = None
        self._reached: dict[str, Any] | None = None

    @property
    def module_source(self) -> str:
        """Text of the module as it was imported."""
        return self._module_source

    @property
    def source(self) -> str:
        """Text of the function, decorators included. Raises ValueError for a function that is in no file."""
        source = self._source
        if source is None:
            source = self._source = function_source(self.fn, self._module_source)
        return source

    @property
    def reached(self) -> Mapping[str, Any]:
        """Globals and free variables that the text names, with their values at the first access."""
        reached = self._reached
        if reached is None:
            reached = self._reached = named_values(self.fn, self.source)
        return reached

    @property
    def cache_key(self) -> str:
        """Hash of its text and of everything that it reaches. Raises `NoKeyError` if there is none."""
        key = self._cache_key
        if key is None:
            from .kernel_key import digest  # which imports this module

            key = self._cache_key = digest(self)
        return key

    @property
    def code_key(self) -> str:
        """Hash like `cache_key` that does not change with comments, docstrings, line numbers and names."""
        key = self._code_key
        if key is None:
            from .kernel_key import digest  # which imports this module

            key = self._code_key = digest(self, code_only=True)
        return key

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        raise RuntimeError(f"kernel '{self.__name__}' cannot be called outside of another kernel")

    def __repr__(self) -> str:
        return f"LazyKernel({self.__module__}:{self.__qualname__})"


def _source_of_module(fn: types.FunctionType) -> str:
    filename = fn.__code__.co_filename
    known = _modules.get(filename)
    # A reloaded module has another record, and perhaps another text.
    spec = fn.__globals__.get("__spec__")
    if known is not None and spec is not None and known[0] is spec:
        return known[1]
    try:
        with open(filename, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError):
        text = "".join(linecache.getlines(filename, fn.__globals__))
    _modules[filename] = (spec, text)
    return text


def function_source(fn: types.FunctionType, module_source: str) -> str:
    """Return a function's text within its module, from its decorators to its last line.

    `inspect.getsource` finds the end by tokenizing, at some milliseconds a kernel. Here the code object gives the
    last line with code, and the indentation gives the end.
    """
    lines = module_source.split("\n")
    code = fn.__code__
    first = code.co_firstlineno - 1
    if not module_source or first >= len(lines):
        raise ValueError(
            f"kernel '{fn.__name__}': a kernel must be defined in a Python file, {code.co_filename!r} cannot be read"
        )
    last = max((end for _, end, _, _ in code.co_positions() if end is not None), default=first + 1)
    head = lines[first]
    indent = len(head) - len(head.lstrip())
    while last < len(lines):
        line = lines[last]
        if line.strip() and len(line) - len(line.lstrip()) <= indent:
            break
        last += 1
    return "\n".join(lines[first:last]).rstrip() + "\n"


def named_values(fn: Any, source: str) -> dict[str, Any]:
    """Return the globals and free variables of a function whose names are words of its text.

    Words in comments also match, so the result may contain more than the function uses, never less.
    """
    words = set(_WORD.findall(source))
    namespace = fn.__globals__
    values = {word: namespace[word] for word in sorted(words & namespace.keys())}
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        try:
            values[name] = cell.cell_contents
        except ValueError:  # a variable that has no value yet
            continue
    return values


def attributes_of(module: types.ModuleType, name: str, source: str) -> dict[str, Any]:
    """Return the attributes that a text reads from a module after ``name.``, with their values."""
    words = set(re.findall(rf"\b{name}\s*\.\s*(\w+)", source))
    return {word: getattr(module, word) for word in sorted(words) if hasattr(module, word)}
