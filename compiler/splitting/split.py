"""Split functions: found, rewritten, and called."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from types import CellType, CodeType, FunctionType, MethodType, TracebackType
from typing import Any, Protocol

from ...nn.modules.module import Module
from ..capture.frames import is_observed
from ..capture.unsupported import Span, Unsupported, is_own
from .names import Flow, captured, own_nodes, parameters, stored
from .residual import CALLEE, RESCUED, PartTree, Residual, is_light
from .source import UNBOUND, FunctionSource, source_of, unbound

READS_LOCALS = frozenset({"locals", "eval", "exec", "_getframe", "currentframe"})
"""Names that read a function's local variables by other ways than their names."""

Callee = Callable[[Any], Any]


class Part(Protocol):
    """Compiled part; `cell` is where its residual function finds it."""

    cell: CellType | None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it."""


MakePart = Callable[[FunctionType, FunctionSource, PartTree], Part]


def python_function(target: Any) -> tuple[FunctionType, tuple[Any, ...]] | None:
    """Return the Python function that a call runs, and its first arguments.

    Return None for a callee that is not written in Python, and for a module whose calls have hooks.
    """
    if isinstance(target, MethodType):
        if target.__func__ is Module._call_impl:
            return python_function(target.__self__)
        return (target.__func__, (target.__self__,)) if isinstance(target.__func__, FunctionType) else None
    if isinstance(target, FunctionType):
        return target, ()
    if isinstance(target, Module) and type(target).__call__ is Module.__call__:
        own = vars(target)
        hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
        if any(own[name] for name in hooks):
            return None
        return python_function(target.forward)
    call = next((vars(kind)["__call__"] for kind in type(target).__mro__ if "__call__" in vars(kind)), None)
    return (call, (target,)) if isinstance(call, FunctionType) and not isinstance(target, type) else None


class Split:
    """A function in parts, around a statement.

    Args:
        source: the function.
        index: which statement of its body is run by Python.
        span: where in it the expression is that no graph holds, if that is known.
        reason: why.
        make_part: compiles a part.
        callee: compiles what the statement calls.
        is_part: whether the function is itself a part.

    Attributes:
        reason: why the function is split.
        parts: the compiled parts, by name.
    """

    def __init__(
        self,
        source: FunctionSource,
        index: int,
        span: Span | None,
        reason: Unsupported,
        make_part: MakePart,
        callee: Callee,
        is_part: bool,
    ) -> None:
        written = Residual(source, index, span)
        self.reason = reason
        self.parts: dict[str, Part] = {}
        values: dict[str, Any] = {UNBOUND: unbound}
        for name, tree in written.parts.items():
            own = source.with_node(tree.node, tree.unbound, tree.watched, values)
            function = own.function()
            parts.add(function.__code__)
            self.parts[name] = make_part(function, own, tree)
        values |= {CALLEE: callee, RESCUED: rescued, **self.parts}
        whole = source.with_node(written.node, source.unbound, source.watched, values)
        for name, part in self.parts.items():
            part.cell = whole.cells[name]
        self.residual = whole.function()
        residuals.add(self.residual.__code__)
        self._is_watched = bool(source.watched)
        if is_part:
            parts.add(self.residual.__code__)
        self._original = source.original

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        residual, original = self.residual, self._original
        # Setting them invalidates Python's call caches of the function.
        if residual.__defaults__ is not original.__defaults__:
            residual.__defaults__ = original.__defaults__
        if residual.__kwdefaults__ is not original.__kwdefaults__:
            residual.__kwdefaults__ = original.__kwdefaults__
        try:
            return residual(*args, **kwargs)
        except BaseException as error:
            if not self._is_watched:
                error.__traceback__ = without_residuals(error.__traceback__)
            raise


class Splitter:
    """Splits one function, wherever it needs to be.

    Args:
        target: what is called.
        make_part: compiles a part.
        callee: compiles what a statement calls.
        source: of a function that was made here.
    """

    def __init__(
        self, target: Any, make_part: MakePart, callee: Callee, source: FunctionSource | None = None
    ) -> None:
        self.target = target
        self.make_part, self.callee = make_part, callee
        function_and_prefix = python_function(target)
        self.function = None if function_and_prefix is None else function_and_prefix[0]
        self.prefix = () if function_and_prefix is None else function_and_prefix[1]
        self.code = None if self.function is None else self.function.__code__
        is_part = source is not None
        if source is None and self.function is not None and is_observed(self.function.__code__):
            source = source_of(self.function)
            if source is not None and not can_be_split(source):
                source = None
        self.source = source
        self._is_part = is_part
        self.splits: dict[tuple[int, Span | None], Split] = {}

    def is_current(self) -> bool:
        """Return True if a call still runs the function that was split."""
        if self.target is self.function:
            return self.function is not None and self.function.__code__ is self.code
        function_and_prefix = python_function(self.target)
        return (
            function_and_prefix is not None
            and function_and_prefix[0] is self.function
            and function_and_prefix[0].__code__ is self.code
        )

    def at(self, error: Unsupported, line: int | None) -> Split | None:
        """Split the function at the statement that an error concerns.

        Args:
            error: The error of the capture.
            line: The line of the error, used if the error has no position.
        """
        if self.source is None:
            return None
        body = self.source.node.body
        span = self.span(error)
        index = None
        if span is not None:
            index = statement_at(body, span)
        elif error.element is not None:
            index = last_binding(body, error.element)
        elif line is not None:
            index = statement_at(body, (line, line, None, None))
        if index is None:
            index = next((i for i in reversed(range(len(body))) if not is_light(body[i])), None)
        if index is None:
            return None
        return self.split(index, span, error)

    def span(self, error: Unsupported) -> Span | None:
        """Return the span in the function where an error arose, if known."""
        return next((each.span for each in error.trail if each.code is self.code), None)

    def at_reader(self, name: str, reason: Unsupported) -> Split | None:
        """Split the function at the first statement that reads a variable."""
        if self.source is None:
            return None
        body = self.source.node.body
        index = next((i for i, node in enumerate(body) if name in Flow([node]).exposed), None)
        return None if index is None else self.split(index, None, reason)

    def split(self, index: int, span: Span | None, reason: Unsupported) -> Split:
        """Split the function at a statement."""
        assert self.source is not None
        key = (index, span)
        if key not in self.splits:
            self.splits[key] = Split(
                self.source, index, span, reason, self.make_part, self.callee, self._is_part
            )
        return self.splits[key]


def can_be_split(source: FunctionSource) -> bool:
    """Return True if a function's variables are identified by their names, and parts see all of them.

    A nested function that reads a variable bound later would read another variable.
    """
    nodes = list(own_nodes(source.node.body))
    names = {each.id for each in nodes if isinstance(each, ast.Name)}
    names |= {each.attr for each in nodes if isinstance(each, ast.Attribute)}
    if (
        names & READS_LOCALS
        or any(
            isinstance(each, ast.Call) and is_call_without_arguments(each, ("vars", "dir")) for each in nodes
        )
        or any(isinstance(each, ast.Await | ast.AsyncFor | ast.AsyncWith) for each in nodes)
    ):
        return False
    own = frozenset(parameters(source.node.args)) | stored(source.node.body)
    return not _is_bound_later(source.node.body, own, frozenset())


def is_call_without_arguments(node: ast.Call, names: tuple[str, ...]) -> bool:
    """Return True for a call of one of these names, without arguments."""
    return isinstance(node.func, ast.Name) and node.func.id in names and not node.args and not node.keywords


def _is_bound_later(body: Sequence[ast.stmt], own: frozenset[str], later: frozenset[str]) -> bool:
    """Return True if nested functions read variables that are bound at or after their statement."""
    for i, node in enumerate(body):
        variables = captured(node) & own
        if not variables:
            continue
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            variables -= {node.name} - stored(body[i + 1 :]) - later
            binds: frozenset[str] = frozenset()
        else:
            binds = stored([node])
        if variables & (binds | stored(body[i + 1 :]) | later):
            return True
    nonlocals = {
        name
        for node in body
        for each in ast.walk(node)
        if isinstance(each, ast.Nonlocal)
        for name in each.names
    }
    return bool(nonlocals & own)


def statement_at(body: Sequence[ast.stmt], span: Span) -> int | None:
    """Return the index of the statement that contains a span."""
    first = span[0]
    if first is None:
        return None
    lines = [i for i, node in enumerate(body) if node.lineno <= first <= (node.end_lineno or node.lineno)]
    if span[2] is not None:
        for i in lines:
            node = body[i]
            if (node.lineno, node.col_offset) <= (first, span[2]) and (span[1] or first, span[3] or 0) <= (
                node.end_lineno or node.lineno,
                node.end_col_offset or 0,
            ):
                return i
    return lines[0] if lines else None


def last_binding(body: Sequence[ast.stmt], element: int) -> int | None:
    """Return the last statement that binds the variable at an element of the result."""
    last = body[-1]
    value = last.value if isinstance(last, ast.Return) else None
    if isinstance(value, ast.Tuple) and element < len(value.elts):
        value = value.elts[element]
    if not isinstance(value, ast.Name):
        return None
    name = value.id.removeprefix("_triten_out_")
    return next((i for i in reversed(range(len(body))) if name in stored([body[i]])), None)


residuals: set[CodeType] = set()
"""The code of all residual functions."""
parts: set[CodeType] = set()
"""The code of all parts, and of their residual functions."""


def rescued(error: BaseException) -> Mapping[str, Any]:
    """Return the local variables of the part that raised an error, including those of its own parts.

    A parameter without a value was deleted.
    """
    entries = users_entries(error.__traceback__)[:2]
    if len(entries) < 2 or not is_part_of(entries[1].tb_frame.f_code, entries[0].tb_frame.f_code):
        return {}
    code, values = entries[1].tb_frame.f_code, entries[1].tb_frame.f_locals
    parameter_names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return {name: unbound for name in parameter_names if name not in values} | values


def is_part_of(code: CodeType, whole: CodeType) -> bool:
    """Return True if code is a part of a function, given the code of its residual function or of another part."""
    return code in parts and code.co_qualname == whole.co_qualname and code.co_filename == whole.co_filename


def users_entries(trace: TracebackType | None) -> list[TracebackType]:
    """Return the entries of a traceback that belong to the program."""
    entries = []
    while trace is not None:
        if not is_own(trace.tb_frame.f_code.co_filename):
            entries.append(trace)
        trace = trace.tb_next
    return entries


def without_residuals(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback in which a split function appears once: as the part that its residual function called."""
    entries = users_entries(trace)
    joined = None
    for i, each in reversed(list(enumerate(entries))):
        inner = entries[i + 1] if i + 1 < len(entries) else None
        code = each.tb_frame.f_code
        if code not in residuals or inner is None or not is_part_of(inner.tb_frame.f_code, code):
            joined = TracebackType(joined, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return joined
