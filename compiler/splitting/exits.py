"""Control flow out of a part: statements that leave a part become returns with the destination.

A part returns the tuple of its outputs. A part with several exits returns the number of the exit first:

- At the end: 0.
- With only the result of the whole function: 1.
- For ``break`` of an outer loop: 2.
- For ``continue`` of an outer loop: 3.

If a ``finally`` follows that may read variables, the function's result, or None, comes next, and then the outputs.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from .names import Names, own_nodes, stored
from .source import UNBOUND

END, RETURN, BREAK, CONTINUE = range(4)
RESULT = "_triten_returned"
"""The local variable for the function's result, if an exit also returns outputs."""


def statements(text: str, location: ast.stmt) -> list[ast.stmt]:
    """Return the statements of a text, each at the position of another statement."""
    nodes = ast.parse(text).body
    for each in nodes:
        for node in ast.walk(each):
            if "lineno" in node._attributes:
                ast.copy_location(node, location)
    return nodes


def outer_exits(nodes: Sequence[ast.AST], depth: int = 0) -> set[int]:
    """Return the exits of statements that run in an outer loop or in none."""
    exits: set[int] = set()
    for node in nodes:
        if isinstance(node, ast.Return):
            exits.add(RETURN)
        elif isinstance(node, ast.Break | ast.Continue):
            if not depth:
                exits.add(BREAK if isinstance(node, ast.Break) else CONTINUE)
        elif isinstance(node, ast.For | ast.While):
            exits |= outer_exits(node.body, depth + 1) | outer_exits(node.orelse, depth)
        elif isinstance(node, ast.If | ast.With | ast.Try | ast.Match | ast.ExceptHandler | ast.match_case):
            exits |= outer_exits(list(ast.iter_child_nodes(node)), depth)
    return exits


def is_tangled(nodes: Sequence[ast.stmt], exits: frozenset[int], live: Names) -> bool:
    """Return True if an exit leaves a block whose end binds variables, or unbinds the error's name."""
    return any(
        (
            isinstance(node, ast.Try)
            and stored(node.finalbody)
            and outer_exits([*node.body, *node.handlers, *node.orelse]) & exits
        )
        or (isinstance(node, ast.ExceptHandler) and node.name in live and outer_exits(node.body) & exits)
        for node in own_nodes(nodes)
    )


def returned(
    exit_kind: int | None, outputs: Sequence[str], bound: Names, location: ast.stmt
) -> list[ast.stmt]:
    """Return the statements that end a part and return its outputs, including those that may be unbound."""
    text, values = "", [] if exit_kind is None else [str(exit_kind)]
    for name in outputs:
        if name in bound:
            values.append(name)
        else:
            text += f"try: _triten_out_{name} = {name}\nexcept NameError: _triten_out_{name} = {UNBOUND}\n"
            values.append(f"_triten_out_{name}")
    return statements(f"{text}return ({', '.join(values)}{',' * (len(values) == 1)})", location)


class WithReturns(ast.NodeTransformer):
    """Transformer of statements whose exits become returns.

    Args:
        leave: Return the statements for an exit, at the position of another statement.
        keeps_result: If True, the function's result is a variable of its own, and outputs are returned with it.
    """

    def __init__(self, leave: Callable[[int, ast.stmt], list[ast.stmt]], keeps_result: bool) -> None:
        self.leave, self.keeps_result, self.depth = leave, keeps_result, 0

    def visit_Return(self, node: ast.Return) -> ast.AST | list[ast.stmt]:
        value = ast.copy_location(ast.Constant(None), node) if node.value is None else node.value
        if self.keeps_result:
            target = ast.copy_location(ast.Name(RESULT, ast.Store()), node)
            return [ast.copy_location(ast.Assign([target], value), node), *self.leave(RETURN, node)]
        number = ast.copy_location(ast.Constant(RETURN), node)
        pair = ast.copy_location(ast.Tuple([number, value], ast.Load()), node)
        return ast.copy_location(ast.Return(pair), node)

    def visit_Break(self, node: ast.Break) -> ast.AST | list[ast.stmt]:
        return node if self.depth else self.leave(BREAK, node)

    def visit_Continue(self, node: ast.Continue) -> ast.AST | list[ast.stmt]:
        return node if self.depth else self.leave(CONTINUE, node)

    def _visit_loop(self, node: ast.For | ast.While) -> ast.AST:
        self.depth += 1
        node.body = self.block(node.body)
        self.depth -= 1
        node.orelse = self.block(node.orelse)
        return node

    def block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        statements: list[ast.stmt] = []
        for each in body:
            visited = self.visit(each)
            statements += visited if isinstance(visited, list) else [visited]
        return statements

    visit_For = visit_While = _visit_loop

    def _left_alone(self, node: ast.AST) -> ast.AST:
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = _left_alone
