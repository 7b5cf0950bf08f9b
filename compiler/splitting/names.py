"""Which local variables statements read and write, in the order in which they run.

All answers err to the safe side: a variable that may be read counts as read, and one that may be left without a value
does not count as bound.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
Names = frozenset[str]
NONE: Names = frozenset()


def own_nodes(nodes: Iterable[ast.AST]) -> Iterator[Any]:
    """Yield all nodes of a function's body, except those inside nested functions and classes."""
    for node in nodes:
        yield node
        if isinstance(node, ast.Lambda):
            yield from own_nodes([*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)])
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = node.args
            yield from own_nodes(
                [
                    *node.decorator_list,
                    *arguments.defaults,
                    *(d for d in arguments.kw_defaults if d is not None),
                ]
            )
        elif isinstance(node, ast.ClassDef):
            yield from own_nodes([*node.decorator_list, *node.bases, *node.keywords])
        else:
            yield from own_nodes(ast.iter_child_nodes(node))


def parameters(arguments: ast.arguments) -> list[str]:
    """Return the names of a function's parameters."""
    arguments_in_order = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    arguments_in_order += [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
    return [each.arg for each in arguments_in_order]


def stored(nodes: Iterable[ast.AST]) -> Names:
    """Return the names that statements bind or delete in their function's scope."""
    names: set[str] = set()
    hidden: set[int] = set()
    for node in own_nodes(nodes):
        if isinstance(node, COMPREHENSIONS):
            # The variables of a comprehension are local to it; targets of `:=` are not.
            hidden |= {
                id(name)
                for generator in node.generators
                for name in ast.walk(generator.target)
                if isinstance(name, ast.Name)
            }
        elif isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Load) and id(node) not in hidden:
                names.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {each.asname or each.name.partition(".")[0] for each in node.names}
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name is not None:
            names.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest is not None:
            names.add(node.rest)
    return frozenset(names)


def loaded(nodes: Iterable[ast.AST]) -> Names:
    """Return the names that statements may read, including in functions that they define."""
    return frozenset(
        name.id
        for node in nodes
        for name in ast.walk(node)
        if isinstance(name, ast.Name) and not isinstance(name.ctx, ast.Store)
    ) | frozenset(
        each.target.id
        for node in nodes
        for each in ast.walk(node)
        if isinstance(each, ast.AugAssign) and isinstance(each.target, ast.Name)
    )


def captured(node: ast.AST) -> Names:
    """Return the free variables of functions that a statement defines, including generators, which read them late."""
    names: Names = NONE
    for each in ast.walk(node):
        if isinstance(each, ast.GeneratorExp):
            names |= loaded([each]) - stored([generator.target for generator in each.generators])
        elif isinstance(each, ast.Lambda):
            names |= loaded([each.body]) - frozenset(parameters(each.args))
        elif isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            names |= loaded(each.body) - frozenset(parameters(each.args)) - stored(each.body)
        elif isinstance(each, ast.ClassDef):
            names |= loaded(each.body)
    return names


class Flow:
    """Data flow of statements: variables read before they are bound, and variables bound at the end.

    Attributes:
        exposed: Names that may be read with their earlier value.
        bound: Names that are definitely bound at the end, given those at the start; None if the end is not reached.
    """

    def __init__(self, statements: Sequence[ast.stmt], bound: Names = NONE) -> None:
        self.exposed: set[str] = set()
        self.bound: Names | None = self._through(statements, bound)

    def _through(self, statements: Sequence[ast.stmt], bound: Names | None) -> Names | None:
        for each in statements:
            if bound is None:
                return None
            bound = self._after(each, bound)
        return bound

    def _read(self, nodes: Iterable[ast.AST | None], bound: Names) -> None:
        self.exposed |= loaded([each for each in nodes if each is not None]) - bound

    def _after(self, node: ast.stmt, bound: Names) -> Names | None:
        if isinstance(node, ast.If):
            self._read([node.test], bound)
            return joined(self._through(node.body, bound), self._through(node.orelse, bound))
        if isinstance(node, ast.While):
            self._read([node.test], bound)
            self._through(node.body, bound)
            self._through(node.orelse, bound)
            return bound - unbound_by([node])
        if isinstance(node, ast.For):
            self._read([node.iter], bound)
            self._read([node.target], bound | stored([node.target]))
            self._through(node.body, bound | stored([node.target]))
            self._through(node.orelse, bound - unbound_by([node]))
            return bound - unbound_by([node])
        if isinstance(node, ast.With):
            self._read([each.context_expr for each in node.items], bound)
            targets = [each.optional_vars for each in node.items if each.optional_vars is not None]
            inside = bound | stored(targets)
            self._read(targets, inside)
            self._through(node.body, inside)
            # If a context manager suppresses an error, the block may have ended anywhere.
            return bound - unbound_by([node])
        if isinstance(node, ast.Try):
            return self._after_try(node, bound)
        if isinstance(node, ast.Match):
            self._read([node.subject], bound)
            ends: list[Names | None] = [bound]
            for case in node.cases:
                inside = bound | stored([case.pattern])
                self._read([case.pattern, case.guard], bound)
                ends.append(self._through(case.body, inside))
            return joined(*ends)
        self._read([node], bound)
        if isinstance(node, ast.Return | ast.Raise | ast.Break | ast.Continue):
            return None
        return (bound | surely_bound(node)) - unbound_by([node])

    def _after_try(self, node: ast.Try, bound: Names) -> Names | None:
        broken = bound - unbound_by(node.body)
        ends = [self._through(node.orelse, self._through(node.body, bound))]
        for handler in node.handlers:
            self._read([handler.type], broken)
            inside = broken | ({handler.name} if handler.name else NONE)
            end = self._through(handler.body, inside)
            ends.append(None if end is None else end - {handler.name})
        end = joined(*ends)
        if not node.finalbody:
            return end
        after = self._through(node.finalbody, broken if end is None else end & broken)
        if end is None or after is None:
            return None
        return (end | after) - unbound_by(node.finalbody)


def joined(*ends: Names | None) -> Names | None:
    """Return the names that are bound where several paths meet."""
    reached = [each for each in ends if each is not None]
    return frozenset.intersection(*reached) if reached else None


def unbound_by(nodes: Sequence[ast.AST]) -> Names:
    """Return the names that statements may unbind."""
    return frozenset(
        each.id for each in own_nodes(nodes) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Del)
    ) | frozenset(
        each.name
        for each in own_nodes(nodes)
        if isinstance(each, ast.ExceptHandler) and each.name is not None
    )


def surely_bound(node: ast.stmt) -> Names:
    """Return the names that a statement without a body binds whenever it completes."""
    if isinstance(node, ast.Assign):
        return stored(node.targets)
    if isinstance(node, ast.AugAssign | ast.AnnAssign):
        return stored([node.target]) if node.value is not None else NONE
    if isinstance(node, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
        return stored([node])
    return NONE
