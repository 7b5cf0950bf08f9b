"""Which pointer parameters a Triton kernel writes through, read off its Python source.

PyTorch finds the same in Triton IR (`identify_mutated_tensors` in torch/_higher_order_ops/triton_kernel_wrap.py), which
needs a compiler and a target. The source serves interpreted kernels too. The analysis is flow-insensitive and errs on
the side of a write: an argument of a call that it does not know counts as written.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import sys
import textwrap
from collections.abc import Iterator
from types import ModuleType
from typing import Any

_STORES = frozenset({"store", "scatter", "descriptor_store"})
"""Functions of `triton.language` and methods of descriptors that write through their first operand, beside atomics."""

_OPAQUE = frozenset({"inline_asm_elementwise", "extern_elementwise", "map_elementwise"})
"""Functions of `triton.language` that may do anything with what they get."""

_INTERPRETER = __name__.replace(".triton.written_pointers", ".interpreter")

_METHODS = frozenset(
    {
        "abs",
        "append",
        "argmax",
        "argmin",
        "associative_scan",
        "broadcast_to",
        "cast",
        "cumprod",
        "cumsum",
        "exp",
    }
    | {
        "expand_dims",
        "flip",
        "gather",
        "item",
        "load",
        "log",
        "max",
        "min",
        "permute",
        "ravel",
        "reduce",
        "reduce_or",
    }
    | {"reshape", "sigmoid", "sort", "split", "sqrt", "sum", "to", "trans", "view", "xor_sum"}
)
"""Methods of tensors, descriptors and lists that write to no pointer."""


def written_parameters(kernel: Any) -> frozenset[str]:
    """Return the names of the parameters through which a `@triton.jit` function may write.

    All of them, if its source cannot be read.
    """
    # Whoever traces this thread, as a capture does, traces the program, and not how its source is found.
    tracer = sys.gettrace()
    sys.settrace(None)
    try:
        return _written(kernel, ())
    finally:
        sys.settrace(tracer)


@functools.lru_cache(maxsize=1024)
def _written(kernel: Any, callers: tuple[Any, ...]) -> frozenset[str]:
    names = frozenset(kernel.arg_names)
    if kernel in callers:
        return names
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kernel.fn)))
    except (OSError, TypeError, SyntaxError):
        return names
    (function,) = tree.body
    if not isinstance(function, ast.FunctionDef):
        return names
    return _Analysis(kernel, names, function, (*callers, kernel)).written


class _Analysis:
    """The pointers that each variable of a kernel may come from, and those that are written through."""

    def __init__(
        self, kernel: Any, names: frozenset[str], function: ast.FunctionDef, callers: tuple[Any, ...]
    ) -> None:
        closure = inspect.getclosurevars(kernel.fn)
        self._scope = {**vars(builtins), **closure.globals, **closure.nonlocals}
        self._callers = callers
        self._sources: dict[str, frozenset[str]] = {name: frozenset({name}) for name in names}
        # A pointer that was itself loaded comes from whatever it was loaded through.
        self._loads_pointers = any(
            isinstance(node, ast.Attribute | ast.Name) and _last_name(node) in ("pointer_type", "PtrTy")
            for node in ast.walk(function)
        )
        before = None
        while before != self._sources:
            before = dict(self._sources)
            for target, value in _assignments(function):
                self._sources[target] = self._sources.get(target, frozenset()) | self._of(value)
        self.written = frozenset().union(
            *(self._by_call(node) for node in ast.walk(function) if isinstance(node, ast.Call))
        )

    def _of(self, node: ast.AST) -> frozenset[str]:
        """Return the parameters from which the value of an expression may be a pointer."""
        if isinstance(node, ast.Name):
            return self._sources.get(node.id, frozenset())
        if isinstance(node, ast.Call) and _last_name(node.func) == "load" and not self._loads_pointers:
            return frozenset()
        return frozenset().union(*(self._of(child) for child in ast.iter_child_nodes(node)))

    def _by_call(self, node: ast.Call) -> frozenset[str]:
        """Return the parameters that a call may write through."""
        name = _last_name(node.func)
        callee = self._value(node.func)
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        if callee is None and isinstance(node.func, ast.Attribute):
            # A method of a variable: a tensor's, a descriptor's, or a list's.
            if name in _METHODS:
                return frozenset()
            return self._of(node.func.value).union(*(self._of(each) for each in arguments))
        if callable(getattr(callee, "fn", None)) and hasattr(callee, "arg_names"):
            if self._is_language(node.func, callee):
                return frozenset()
            written = _written(callee, self._callers)
            given = [
                *zip(callee.arg_names, node.args, strict=False),
                *((k.arg, k.value) for k in node.keywords),
            ]
            if any(isinstance(each, ast.Starred) for each in node.args) or None in [key for key, _ in given]:
                written = frozenset(callee.arg_names)
            return frozenset().union(
                *(self._of(value) for key, value in given if key in written or key is None)
            )
        if self._is_language(node.func, callee) and name not in _OPAQUE:
            if name not in _STORES and not name.startswith("atomic_"):
                return frozenset()
            return frozenset().union(*(self._of(each) for each in arguments[:1] or ()), *self._pointer(node))
        if isinstance(callee, type) or getattr(builtins, name, None) is callee:
            return frozenset()
        return frozenset().union(*(self._of(each) for each in arguments))

    def _pointer(self, node: ast.Call) -> Iterator[frozenset[str]]:
        return (self._of(k.value) for k in node.keywords if k.arg in ("pointer", "desc"))

    def _is_language(self, node: ast.AST, callee: Any) -> bool:
        """Return whether a function is one of `triton.language`, for which the interpreter may have put its own."""
        holder = self._value(node.value) if isinstance(node, ast.Attribute) else None
        module = getattr(callee, "__module__", None) or ""
        return getattr(holder, "__name__", module).startswith(("triton.language", _INTERPRETER))

    def _value(self, node: ast.AST) -> Any:
        """Return the object that a name or a dotted name in the kernel's scope stands for, None for other values."""
        if isinstance(node, ast.Name):
            return None if node.id in self._sources else self._scope.get(node.id)
        if isinstance(node, ast.Attribute):
            holder = self._value(node.value)
            return getattr(holder, node.attr, None) if isinstance(holder, ModuleType) else None
        return None


def _assignments(function: ast.FunctionDef) -> Iterator[tuple[str, ast.AST]]:
    """Yield each variable with each expression that it is set to."""
    for node in ast.walk(function):
        targets: list[ast.AST] = []
        if isinstance(node, ast.Assign):
            targets, value = list(node.targets), node.value
        elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            targets, value = [node.target], node.value
        elif isinstance(node, ast.For | ast.comprehension):
            targets, value = [node.target], node.iter
        for target in targets:
            for each in ast.walk(target):
                if isinstance(each, ast.Name):
                    yield each.id, value


def _last_name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
