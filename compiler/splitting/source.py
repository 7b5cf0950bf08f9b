"""Syntax trees of compiled functions, and functions made of such trees.

The whole file is parsed and compiled again. A function is found by its line, and is used only if its bytecode is
identical to the running one. So a file that was edited since, or rewritten at import, gives no tree.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from types import CellType, CodeType, FunctionType
from typing import Any

from .names import own_nodes

UNBOUND = "_triten_unbound"
"""The name, in generated functions, of the sentinel for an unbound local variable."""
FUTURES = 0x01FF0000
"""The bits of code's flags that are `__future__` imports."""
GENERATORS = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR


class Unbound:
    """Type of the sentinel for an unbound local variable."""

    def __repr__(self) -> str:
        return "an unbound local variable"


unbound = Unbound()


@dataclass(frozen=True)
class FunctionSource:
    """Syntax tree of a function, with its context.

    Attributes:
        node: The function without decorators, annotations, defaults and declarations of globals.
        original: The function of the program.
        declared: The names that the function declares ``global`` and ``nonlocal``.
        unbound: Parameters that may be given the sentinel `unbound`.
        watched: Local variables of a part that are read elsewhere after an error, if a block may catch it.
        cells: The closure variables of the function, by name.
    """

    node: ast.FunctionDef
    original: FunctionType
    declared: Mapping[str, type[ast.Global] | type[ast.Nonlocal]]
    unbound: frozenset[str] = frozenset()
    watched: frozenset[str] = frozenset()
    cells: Mapping[str, CellType] = field(default_factory=dict)

    def with_node(
        self,
        node: ast.FunctionDef,
        unbound: frozenset[str],
        watched: frozenset[str],
        values: Mapping[str, Any],
    ) -> FunctionSource:
        """Return another function in the same context, with extra names for some values."""
        cells = {**self.cells, **{name: CellType(value) for name, value in values.items()}}
        return replace(self, node=node, unbound=unbound, watched=watched, cells=cells)

    def function(self) -> FunctionType:
        """Return the function of the tree: its lines are the file's, its globals and cells the program's."""
        original = self.original
        # A name that hides none of the program's.
        node = ast.FunctionDef("_triten_function", self.node.args, [], [], None, lineno=self.node.lineno)
        ast.copy_location(node, self.node)
        for kind in (ast.Global, ast.Nonlocal):
            names = [name for name, declared in self.declared.items() if declared is kind]
            if names:
                node.body.append(kind(names))
        for name in sorted(self.unbound):
            node.body += ast.parse(f"if {name} is {UNBOUND}: del {name}").body
        for each in node.body:
            for inner in ast.walk(each):
                ast.copy_location(inner, self.node)
        node.body += self.node.body
        body: ast.stmt = node
        names = original.__qualname__.split(".")
        if len(names) > 1 and names[-2] != "<locals>":
            # Private names are spelt with the class's, without underscores in front.
            body = ast.ClassDef(f"_______{names[-2]}", [], [], [node], [])
        parameters = [ast.arg(name) for name in self.cells]
        outer = ast.FunctionDef(
            "surroundings", ast.arguments([], parameters, None, [], [], None, []), [body], []
        )
        for made in (body, outer):
            if hasattr(made, "type_params"):
                made.type_params = []
        if hasattr(node, "type_params"):
            node.type_params = []
        module = ast.fix_missing_locations(ast.Module([outer], []))
        flags = original.__code__.co_flags & FUTURES
        code = compile(module, original.__code__.co_filename, "exec", flags, dont_inherit=True)
        for _ in range(2 if body is node else 3):
            code = next(each for each in code.co_consts if isinstance(each, CodeType))
        code = code.replace(co_name=original.__code__.co_name, co_qualname=original.__code__.co_qualname)
        closure = tuple([self.cells[name] for name in code.co_freevars])
        return FunctionType(code, original.__globals__, original.__name__, None, closure)


def source_of(function: FunctionType) -> FunctionSource | None:
    """Return the syntax tree of a function; None if its text is unknown, and for generators and coroutines."""
    code = function.__code__
    if code.co_flags & GENERATORS:
        return None
    lines = linecache.getlines(code.co_filename, function.__globals__)
    if not lines:
        return None
    node = _tree_of(code, "".join(lines))
    if node is None:
        return None
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    declared: dict[str, Any] = {}
    for each in own_nodes(node.body):
        if isinstance(each, ast.Global | ast.Nonlocal):
            declared |= dict.fromkeys(each.names, type(each))
    cleaned = _Cleaned(node).visit(node)
    return FunctionSource(cleaned, function, declared, cells=cells)


def _tree_of(code: CodeType, text: str) -> ast.FunctionDef | None:
    """Return a fresh tree of the function that has this code."""
    try:
        tree, codes = _parsed(text, code.co_filename, code.co_flags & FUTURES)
    except (SyntaxError, ValueError):
        return None
    if not any(_is_same(each, code) for each in codes.get((code.co_name, code.co_firstlineno), ())):
        return None
    if code.co_name == "<lambda>":
        return _lambda(code, tree)
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.FunctionDef)
            and node.name == code.co_name
            and min([node.lineno, *(each.lineno for each in node.decorator_list)]) == code.co_firstlineno
        ):
            tree_copy: ast.FunctionDef = copied(node)
            return tree_copy
    return None


def _lambda(code: CodeType, tree: ast.Module) -> ast.FunctionDef | None:
    """Return the innermost lambda that contains all of the code, as a function."""
    spans = [
        (a, c, b, d)
        for a, b, c, d in code.co_positions()
        if a and b and c is not None and d is not None and d
    ]
    best: ast.Lambda | None = None
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno:
            first, last = (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)
            if all(first <= (a, c) and (b, d) <= last for a, c, b, d in spans if (a, c) != (b, d)):
                best = node  # a nested lambda comes later
    if best is None:
        return None
    result = ast.copy_location(ast.Return(copied(best.body)), best.body)
    return ast.copy_location(ast.FunctionDef("lambda_", copied(best.args), [result], [], None), best)


@lru_cache(maxsize=64)
def _parsed(text: str, filename: str, flags: int) -> tuple[ast.Module, dict[tuple[str, int], list[CodeType]]]:
    """Return a file's tree, and the code of its functions by name and first line."""
    tree = ast.parse(text, filename)
    codes: dict[tuple[str, int], list[CodeType]] = {}
    for code in _codes_in(compile(tree, filename, "exec", flags, dont_inherit=True)):
        codes.setdefault((code.co_name, code.co_firstlineno), []).append(code)
    return tree, codes


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _codes_in(each)


def _is_same(a: CodeType, b: CodeType) -> bool:
    """Return True if two code objects are equal and have the same positions in a file."""
    return (
        a.co_code == b.co_code
        and (a.co_names, a.co_varnames, a.co_freevars, a.co_cellvars)
        == (b.co_names, b.co_varnames, b.co_freevars, b.co_cellvars)
        and list(a.co_positions()) == list(b.co_positions())
        and _plain(a.co_consts) == _plain(b.co_consts)
    )


def _plain(constants: Sequence[Any]) -> list[str]:
    return [repr(each) for each in constants if not isinstance(each, CodeType | frozenset)]


def copied(node: Any) -> Any:
    """Return a copy of a tree."""
    if isinstance(node, list):
        return [copied(each) for each in node]
    if not isinstance(node, ast.AST):
        return node
    made = type(node)(**{name: copied(value) for name, value in ast.iter_fields(node)})
    return ast.copy_location(made, node) if "lineno" in node._attributes else made


class _Cleaned(ast.NodeTransformer):
    """Transformer that removes expressions evaluated at a function's definition, and spells out `super()`."""

    def __init__(self, function: ast.FunctionDef) -> None:
        self.function = function
        arguments = function.args
        self.first = next((each.arg for each in (*arguments.posonlyargs, *arguments.args)), None)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        if node is not self.function:
            return node
        for each in ast.walk(node.args):
            if isinstance(each, ast.arg):
                each.annotation = None
        node.args.defaults, node.args.kw_defaults = [], [None] * len(node.args.kwonlyargs)
        node.decorator_list, node.returns = [], None
        node.body = [self.visit(each) for each in node.body]
        return node

    def visit_Global(self, node: ast.Global) -> ast.AST:
        return ast.copy_location(ast.Pass(), node)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.AST:
        return ast.copy_location(ast.Pass(), node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if (
            isinstance(node.func, ast.Name)
            and node.func.id == "super"
            and not node.args
            and not node.keywords
            and self.first is not None
        ):
            node.args = [
                ast.copy_location(ast.Name(name, ast.Load()), node) for name in ("__class__", self.first)
            ]
        return node
