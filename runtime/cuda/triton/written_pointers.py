"""Analysis of Triton kernels: the pointer parameters that a kernel writes through, from its Python source.

PyTorch finds the same in Triton IR (`identify_mutated_tensors` in torch/_higher_order_ops/triton_kernel_wrap.py),
which needs a compiler and a target. The source serves interpreted kernels too. The analysis is flow-insensitive and
conservative: an argument of an unknown call counts as written.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import sys
import textwrap
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any, NamedTuple

_WRITES = ("store", "scatter", "atomic")
"""Substrings of the names of all `triton.language` functions and methods that write to memory."""

_OPAQUE = frozenset({"inline_asm_elementwise", "extern_elementwise", "map_elementwise"})
"""Functions of `triton.language` that may do anything with their arguments."""

_DESCRIPTIONS = frozenset({"dtype", "shape", "type"})
"""Attributes of tensors and pointers that hold no pointer."""

_INTERPRETER = __name__.replace(".triton.written_pointers", ".interpreter")


class _Found(NamedTuple):
    """Parameters that a function may write through, and those that its result may point into."""

    written: frozenset[str]
    returned: frozenset[str]


def written_parameters(kernel: Any) -> frozenset[str]:
    """Return the names of the parameters through which a `@triton.jit` function may write.

    All of them, if its source cannot be read.
    """
    # A capture traces the program in this thread; it must not trace the analysis.
    tracer = sys.gettrace()
    sys.settrace(None)
    try:
        return _found(kernel, {}).written
    finally:
        sys.settrace(tracer)


def _found(kernel: Any, known: dict[int, _Found]) -> _Found:
    """Return the analysis of a function. A function that calls itself counts as writing through all parameters."""
    names = frozenset(kernel.arg_names)
    if id(kernel) not in known:
        known[id(kernel)] = _Found(names, names)
        function = inspect.unwrap(kernel.fn)
        # `src` is the source that Triton compiles; interpreted functions have none.
        tree = _tree(function, getattr(kernel, "src", None))
        if tree is not None:
            known[id(kernel)] = _Analysis(function, names, tree, known).found
    return known[id(kernel)]


@functools.lru_cache(maxsize=1024)
def _tree(function: Callable[..., Any], source: str | None) -> ast.FunctionDef | None:
    """Return a function's syntax tree, None if its source cannot be read."""
    try:
        tree = ast.parse(textwrap.dedent(source or inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return None
    definition = tree.body[0] if len(tree.body) == 1 else None
    if not isinstance(definition, ast.FunctionDef):
        return None
    definition.decorator_list = []
    return definition


class _Analysis:
    """Pointers that each variable of a function may come from, and those that are written through."""

    def __init__(
        self,
        function: Callable[..., Any],
        names: frozenset[str],
        tree: ast.FunctionDef,
        known: dict[int, _Found],
    ) -> None:
        self._names = names
        self._known = known
        self._scope = _scope(function)
        self._sources: dict[str, frozenset[str]] = {name: frozenset({name}) for name in names}
        # A loaded pointer comes from the pointer that it was loaded through.
        self._loads_pointers = any(
            isinstance(node, ast.Attribute | ast.Name) and _last_name(node) in ("pointer_type", "PtrTy")
            for node in ast.walk(tree)
        )
        before = None
        while before != self._sources:
            before = dict(self._sources)
            for target, value in _assignments(tree):
                self._sources[target] = self._sources.get(target, frozenset()) | self._of(value)
        nodes = list(ast.walk(tree))
        self.found = _Found(
            _union(self._by_call(node) for node in nodes if isinstance(node, ast.Call)),
            _union(self._of(node.value) for node in nodes if isinstance(node, ast.Return) and node.value),
        )

    def _of(self, node: ast.AST) -> frozenset[str]:
        """Return the parameters from which the value of an expression may be a pointer."""
        if isinstance(node, ast.Name):
            return self._sources.get(node.id, frozenset())
        if isinstance(node, ast.Attribute) and node.attr in _DESCRIPTIONS:
            return frozenset()
        if isinstance(node, ast.Call):
            callee = self._value(node.func)
            if _is_jit_function(callee) and not self._is_language(node.func, callee):
                return self._of_arguments(node, callee, _found(callee, self._known).returned)
            if _last_name(node.func) == "load" and not self._loads_pointers:
                is_method = isinstance(node.func, ast.Attribute) and self._is_local(node.func)
                if is_method or self._is_language(node.func, callee):
                    return frozenset()
        return _union(self._of(child) for child in ast.iter_child_nodes(node))

    def _by_call(self, node: ast.Call) -> frozenset[str]:
        """Return the parameters that a call may write through."""
        callee = self._value(node.func)
        arguments = _union(self._of(each) for each in _arguments(node))
        if self._is_language(node.func, callee):
            names = {_last_name(node.func), getattr(callee, "__name__", "")}
            if names & _OPAQUE:
                return arguments
            if not any(part in name for part in _WRITES for name in names):
                return frozenset()
            return self._of(node.args[0]) if node.args else arguments
        if _is_jit_function(callee):
            return self._of_arguments(node, callee, _found(callee, self._known).written)
        if isinstance(callee, type):
            # An object of an aggregate keeps pointers, and its methods may write through them.
            is_plain = callee.__module__ == "builtins" or issubclass(callee, tuple)
            return frozenset() if is_plain else self._names
        if callee is not None and getattr(builtins, getattr(callee, "__name__", ""), None) is callee:
            return frozenset()
        if isinstance(node.func, ast.Attribute) and self._is_local(node.func):
            if node.func.attr in _methods():
                return arguments
            return arguments | self._of(node.func.value)
        return arguments

    def _of_arguments(self, node: ast.Call, callee: Any, parameters: frozenset[str]) -> frozenset[str]:
        """Return the caller's parameters that may be pointers in the arguments for some parameters of a callee."""
        if any(isinstance(each, ast.Starred) for each in node.args) or any(
            k.arg is None for k in node.keywords
        ):
            return _union(self._of(each) for each in _arguments(node)) if parameters else frozenset()
        bound_arguments = [
            *zip(callee.arg_names, node.args, strict=False),
            *((k.arg, k.value) for k in node.keywords),
        ]
        return _union(self._of(value) for name, value in bound_arguments if name in parameters)

    def _is_language(self, node: ast.AST, callee: Any) -> bool:
        """Return True if a function belongs to `triton.language`; the interpreter may have replaced it."""
        holder = self._value(node.value) if isinstance(node, ast.Attribute) else None
        module = getattr(callee, "__module__", None) or ""
        return str(getattr(holder, "__name__", module)).startswith(("triton.language", _INTERPRETER))

    def _is_local(self, node: ast.AST) -> bool:
        """Return True if an attribute belongs to a local variable or a computed value."""
        while isinstance(node, ast.Attribute):
            node = node.value
        return not isinstance(node, ast.Name) or node.id in self._sources

    def _value(self, node: ast.AST) -> Any:
        """Return the object of a name or a dotted name in the kernel's scope, None for other values."""
        if isinstance(node, ast.Name):
            return None if node.id in self._sources else self._scope.get(node.id)
        if isinstance(node, ast.Attribute):
            holder = self._value(node.value)
            return getattr(holder, node.attr, None) if isinstance(holder, ModuleType) else None
        return None


def _scope(function: Any) -> Mapping[str, Any]:
    """Return the objects of a function's free names."""
    cells = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            cells[name] = cell.cell_contents
        except ValueError:  # a variable that is not bound yet
            cells[name] = None
    return ChainMap(cells, function.__globals__, vars(builtins))


@functools.cache
def _methods() -> frozenset[str]:
    """Return the methods of tensors and descriptors that write to no memory."""
    language = sys.modules["triton.language"]
    names = {*dir(language.tensor), *dir(language.tensor_descriptor)}
    return frozenset(name for name in names if not any(part in name for part in _WRITES))


def _is_jit_function(callee: Any) -> bool:
    return callable(getattr(callee, "fn", None)) and hasattr(callee, "arg_names")


def _arguments(node: ast.Call) -> list[ast.expr]:
    return [*node.args, *(keyword.value for keyword in node.keywords)]


def _assignments(function: ast.FunctionDef) -> Iterator[tuple[str, ast.AST]]:
    """Yield each variable with each expression that is assigned to it."""
    for node in ast.walk(function):
        targets: list[ast.AST] = []
        if isinstance(node, ast.Assign):
            targets, value = list(node.targets), node.value
        elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            targets, value = [node.target], node.value
        elif isinstance(node, ast.For | ast.comprehension):
            targets, value = [node.target], node.iter
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            targets, value = [node.optional_vars], node.context_expr
        for target in targets:
            for each in ast.walk(target):
                if isinstance(each, ast.Name):
                    yield each.id, value


def _union(sets: Iterator[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*sets)


def _last_name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
