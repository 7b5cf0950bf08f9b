"""Hoisting of the expressions before an unsupported expression into statements of their own.

``print(n, (x * 2).sum().item())`` becomes ``value = (x * 2).sum()`` and ``print(n, value.item())``. The order of
evaluation stays the same.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from ..capture.unsupported import Span
from .names import Names, own_nodes
from .source import copied

VALUE = "_triten_value_"
"""Prefix of local variables for hoisted values."""
WORK = (ast.Call, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Subscript)
Slot = tuple[Any, str, int | None]


class Hoisting:
    """A statement, changed in place, and the statements that go before it.

    Args:
        node: the statement.
        span: The position of the unsupported expression; None for the statement itself or its outermost call.
        own: the function's local variables.

    Attributes:
        before: statements that compute values.
        names: the variables that they bind.
    """

    def __init__(self, node: ast.stmt, span: Span | None, own: Names) -> None:
        self.before: list[ast.stmt] = []
        self.names: list[str] = []
        self._own = own
        taken = [int(name.removeprefix(VALUE)) for name in own if name.startswith(VALUE)]
        self._next = max(taken, default=-1) + 1
        for slot in self._slots(node, span):
            self._move(slot, node)

    def _slots(self, node: ast.stmt, span: Span | None) -> list[Slot]:
        """Return the expressions that are evaluated before, in order; none if the order is not simple."""
        field = field_of(node)
        if isinstance(node, ast.AugAssign) and not (
            isinstance(node.target, ast.Name) and node.target.id in self._own
        ):
            return []
        root = None if field is None else getattr(node, field)
        if field is None or root is None or any(isinstance(each, ast.NamedExpr) for each in ast.walk(root)):
            return []
        path = None if span is None else path_to(root, span)
        if path is None:
            if isinstance(node, ast.Assign) and not all(isinstance(each, ast.Name) for each in node.targets):
                return [(node, field, None)] if is_work(root) else []
            path = [root]
        hoisted: list[Slot] = []
        for each, below in zip(path, [*path[1:], None], strict=True):
            slots = operands(each)
            if slots is None:
                return []
            on_the_way = [i for i, slot in enumerate(slots) if below in list(ast.walk(value_of(slot)))]
            if below is not None and not on_the_way:
                # It is computed under a condition, or again and again.
                return []
            hoisted += slots[: on_the_way[0]] if on_the_way else slots
        if any(isinstance(value_of(slot), ast.GeneratorExp | ast.Starred) for slot in hoisted):
            return []
        return hoisted if any(is_work(value_of(slot)) for slot in hoisted) else []

    def _move(self, slot: Slot, statement: ast.stmt) -> None:
        owner, field, index = slot
        value = value_of(slot)
        if isinstance(value, ast.Constant | ast.Lambda):
            return
        if isinstance(value, ast.Name) and (value.id in self._own or isinstance(owner, ast.Attribute)):
            return
        name = f"{VALUE}{self._next + len(self.names)}"
        target = ast.copy_location(ast.Name(name, ast.Store()), value)
        self.before.append(ast.copy_location(ast.Assign([target], value), value))
        self.names.append(name)
        made = ast.copy_location(ast.Name(name, ast.Load()), value)
        if index is None:
            setattr(owner, field, made)
        else:
            getattr(owner, field)[index] = made

    def released(self, nodes: list[ast.stmt]) -> list[ast.stmt]:
        """Return the rewritten statement, and a statement after it that deletes the values."""
        last = nodes[-1]
        if not self.names or not isinstance(last, ast.Expr | ast.Assign | ast.AugAssign | ast.AnnAssign):
            return nodes
        targets: list[ast.expr] = [ast.copy_location(ast.Name(name, ast.Del()), last) for name in self.names]
        return [*nodes, ast.copy_location(ast.Delete(targets), last)]


def field_of(node: ast.stmt) -> str | None:
    """Return the field of the expression that a statement evaluates first, and once."""
    if isinstance(node, ast.Expr | ast.Assign | ast.AugAssign | ast.Return | ast.AnnAssign):
        return "value"
    if isinstance(node, ast.If | ast.Assert):
        return "test"
    return "iter" if isinstance(node, ast.For) else None


def path_to(root: ast.expr, span: Span) -> list[ast.expr] | None:
    """Return the expressions from a root down to the one at a span."""
    if (root.lineno, root.end_lineno, root.col_offset, root.end_col_offset) == span:
        return [root]
    for each in ast.iter_child_nodes(root):
        inner = each.value if isinstance(each, ast.keyword) else each
        path = path_to(inner, span) if isinstance(inner, ast.expr) else None
        if path is not None:
            return [root, *path]
    return None


def operands(node: ast.expr) -> list[Slot] | None:
    """Return an expression's operands, in order of evaluation; None if some are evaluated conditionally."""
    if isinstance(node, ast.Call):
        # The callee has a name; for a method, the object is evaluated first.
        first: list[Slot] = []
        if isinstance(node.func, ast.Attribute):
            first = [(node.func, "value", None)]
        elif not isinstance(node.func, ast.Name):
            first = [(node, "func", None)]
        arguments: list[Slot] = [(node, "args", i) for i in range(len(node.args))]
        return [*first, *arguments, *[(each, "value", None) for each in node.keywords]]
    if isinstance(node, ast.BinOp):
        return [(node, "left", None), (node, "right", None)]
    if isinstance(node, ast.UnaryOp):
        return [(node, "operand", None)]
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return [(node, "left", None), (node, "comparators", 0)]
    if isinstance(node, ast.Attribute | ast.FormattedValue):
        return [(node, "value", None)]
    if isinstance(node, ast.Subscript) and not any(isinstance(e, ast.Slice) for e in own_nodes([node.slice])):
        return [(node, "value", None), (node, "slice", None)]
    if isinstance(node, ast.Tuple | ast.List):
        return [(node, "elts", i) for i in range(len(node.elts))]
    if isinstance(node, ast.JoinedStr):
        return [(each, "value", None) for each in node.values if isinstance(each, ast.FormattedValue)]
    if isinstance(node, ast.BoolOp):
        return [(node, "values", 0)]
    return [(node, "test", None)] if isinstance(node, ast.IfExp) else None


def value_of(slot: Slot) -> ast.expr:
    """Return the expression in a slot."""
    owner, field, index = slot
    value: ast.expr = getattr(owner, field) if index is None else getattr(owner, field)[index]
    return value


def is_work(node: ast.expr) -> bool:
    """Return True if an expression computes a value that a graph may contain."""
    nodes: Sequence[Any] = list(own_nodes([node]))
    return any(isinstance(each, WORK) for each in nodes)


def is_truth(node: ast.stmt, span: Span) -> bool:
    """Return True if a span is the truth test of a condition."""
    if not isinstance(node, ast.If | ast.While):
        return False
    test = node.test
    spans = [span_of(test)]
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test = test.operand
        spans.append(span_of(test))
    return not isinstance(test, ast.BoolOp) and span in spans


def span_of(node: ast.expr) -> Span:
    """Return an expression's span in its file."""
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


def as_block(node: ast.stmt, span: Span | None) -> ast.stmt:
    """Return a statement with a conditional expression as an ``if`` statement, if its condition causes the break."""
    value = node.value if isinstance(node, ast.Return | ast.Assign) else None
    if not isinstance(value, ast.IfExp) or span is None or path_to(value.test, span) is None:
        return node
    branches: list[list[ast.stmt]] = []
    for each in (value.body, value.orelse):
        made: ast.stmt = ast.Return(each)
        if isinstance(node, ast.Assign):
            made = ast.Assign([copied(target) for target in node.targets], each)
        branches.append([ast.copy_location(made, node)])
    return ast.copy_location(ast.If(value.test, *branches), node)
