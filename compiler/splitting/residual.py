"""Residual function: a function rewritten around an unsupported statement, which calls parts.

It keeps the signature, and the statement, with its loop, condition or block. Everything else is outlined into parts:
functions of the local variables that they read, which return those that are read later.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..capture.unsupported import Span
from .exits import (
    BREAK,
    CONTINUE,
    END,
    RESULT,
    RETURN,
    WithReturns,
    is_tangled,
    outer_exits,
    returned,
    statements,
)
from .hoisting import Hoisting, as_block, is_truth
from .names import NONE, SCOPES, Flow, Names, parameters, stored, unbound_by
from .source import UNBOUND, FunctionSource, copied

CALLEE, RESCUED = "_triten_callee", "_triten_rescued"
"""Names in residual functions of the compiler of callees, and of the function that finds variables after an error."""
TEST = "_triten_test"
"""The local variable of a condition that a part computes."""


@dataclass(frozen=True)
class PartTree:
    """Part of a function, as a tree.

    Attributes:
        node: The function.
        inputs: The local variables that it takes.
        unbound: Inputs that may be unbound.
        watched: The local variables that are read elsewhere after an error.
    """

    node: ast.FunctionDef
    inputs: tuple[str, ...]
    unbound: Names
    watched: Names


@dataclass(frozen=True)
class Context:
    """Context of statements.

    Attributes:
        bound: Variables that are definitely bound before them.
        maybe: Variables that may be bound.
        live: Variables that are read after them.
        is_tail: True if the function returns None after them.
        is_guarded: True if the function may catch an error in them.
        has_final: True if a ``finally`` follows a return in them.
    """

    bound: Names
    maybe: Names
    live: Names
    is_tail: bool
    is_guarded: bool
    has_final: bool = False


class Residual:
    """Rest of a function around a statement.

    Args:
        source: The function to split.
        index: The index of the unsupported statement in its body.
        span: The span of the unsupported expression, if known.

    Attributes:
        node: The rewritten function.
        parts: The parts that it calls, by name.
    """

    def __init__(self, source: FunctionSource, index: int, span: Span | None) -> None:
        self._span = span
        self.parts: dict[str, PartTree] = {}
        function = source.node
        own = frozenset(parameters(function.args))
        self.locals = own | stored(function.body) - source.declared.keys() | {TEST}
        body = [copied(each) for each in function.body]
        context = Context(own - source.unbound, own, source.watched, True, bool(source.watched))
        before, unsupported, after = body[:index], as_block(body[index], span), body[index + 1 :]
        is_test = span is not None and is_truth(unsupported, span)
        values = self._hoisted(unsupported, before, is_test)
        lines = self._in_parts(before, self._followed(context, [unsupported, *after]))
        context = self._after(context, before)
        lines += values.released(self._around(unsupported, self._followed(context, after), is_test))
        lines += self._in_parts(after, self._after(context, [unsupported]))
        self.node = ast.FunctionDef(function.name, function.args, lines or [ast.Pass()], [], None)
        ast.copy_location(self.node, function)

    def _hoisted(self, node: ast.stmt, before: list[ast.stmt], is_test: bool) -> Hoisting:
        """Hoist the expressions that a statement evaluates first into statements before it."""
        if is_test and isinstance(node, ast.If):
            hoist_test(node, before)
        values = Hoisting(node, None if is_test else self._span, self.locals)
        if not is_test:
            before += values.before
            self.locals |= frozenset(values.names)
        return values

    def _followed(self, context: Context, rest: Sequence[ast.stmt]) -> Context:
        """Return a context with more statements after it."""
        live = frozenset(Flow(rest).exposed) | context.live
        return replace(context, live=live, is_tail=context.is_tail and not rest)

    def _after(self, context: Context, done: Sequence[ast.stmt]) -> Context:
        """Return the context after statements."""
        bound = Flow(done, context.bound).bound
        return replace(context, bound=NONE if bound is None else bound, maybe=context.maybe | stored(done))

    # The unsupported statement

    def _around(self, node: ast.stmt, context: Context, is_test: bool) -> list[ast.stmt]:
        """Return the statement as Python runs it, with its blocks in parts and its callees compiled."""
        calls = WithCallees()
        if isinstance(node, ast.If):
            node.test = calls.visit(node.test)
            node.body = self._in_parts(node.body, context) or [ast.Pass()]
            node.orelse = self._in_parts(node.orelse, context)
            return [node]
        if isinstance(node, ast.While):
            return self._around_while(node, context, is_test)
        if isinstance(node, ast.For):
            node.iter = calls.visit(node.iter)
            inside = self._inside_loop(node, context)
            targets = stored([node.target])
            node.body = self._in_parts(
                node.body, replace(inside, bound=inside.bound | targets, maybe=inside.maybe | targets)
            )
            node.orelse = self._in_parts(
                node.orelse, replace(context, bound=inside.bound, maybe=inside.maybe)
            )
            return [node]
        if isinstance(node, ast.With):
            names: Names = NONE
            for item in node.items:
                item.context_expr = calls.visit(item.context_expr)
                names |= NONE if item.optional_vars is None else stored([item.optional_vars])
            inside = replace(
                context, bound=context.bound | names, maybe=context.maybe | names, is_guarded=True
            )
            node.body = self._in_parts(node.body, inside)
            return [node]
        if isinstance(node, ast.Try):
            return self._around_try(node, context)
        if isinstance(node, ast.Match):
            node.subject = calls.visit(node.subject)
            for case in node.cases:
                names = stored([case.pattern])
                inside = replace(context, bound=context.bound | names, maybe=context.maybe | names)
                case.body = self._in_parts(case.body, inside)
            return [node]
        return [calls.visit(node)]

    def _inside_loop(self, node: ast.For | ast.While, context: Context) -> Context:
        """Return the context of a loop's body: names bound in every iteration, and names that later ones read."""
        head: list[ast.stmt] = [node]
        live = frozenset(Flow(head).exposed) | context.live | frozenset(Flow(node.orelse).exposed)
        return replace(
            context,
            bound=context.bound - unbound_by(head),
            maybe=context.maybe | stored(head),
            live=live,
            is_tail=False,
        )

    def _around_while(self, node: ast.While, context: Context, is_test: bool) -> list[ast.stmt]:
        inside = self._inside_loop(node, context)
        before: list[ast.stmt] = []
        ended = ast.copy_location(ast.If(copied(node.test), [ast.Pass()], []), node)
        self._hoisted(ended, before, is_test)
        if not before or outer_exits(node.orelse) & {BREAK, CONTINUE}:
            node.test = WithCallees().visit(node.test)
            node.body = self._in_parts(node.body, inside)
            node.orelse = self._in_parts(
                node.orelse, replace(context, bound=inside.bound, maybe=inside.maybe)
            )
            return [node]
        ended.test = ast.copy_location(ast.UnaryOp(ast.Not(), ended.test), node)
        leave = ast.copy_location(ast.Break(), node)
        ended.body = [*self._in_parts(node.orelse, replace(inside, live=context.live)), leave]
        read = frozenset(Flow([ended]).exposed)
        ended.test = WithCallees().visit(ended.test)
        head = self._in_parts(before, replace(inside, live=inside.live | read))
        body = [*head, ended, *self._in_parts(node.body, inside)]
        test = ast.copy_location(ast.Constant(True), node)
        return [ast.copy_location(ast.While(test, body, []), node)]

    def _around_try(self, node: ast.Try, context: Context) -> list[ast.stmt]:
        rest = Flow(node.finalbody).exposed | Flow(node.orelse).exposed
        for handler in node.handlers:
            rest |= Flow(handler.body).exposed
        live, tail = context.live | rest, context.is_tail and not node.finalbody
        maybe = context.maybe | stored([node])
        final = context.has_final or bool(node.finalbody)
        within = replace(
            context, live=live, is_tail=tail and not node.orelse, is_guarded=True, has_final=final
        )
        broken = context.bound - unbound_by(node.body)
        after_body = self._after(within, node.body)
        node.body = self._in_parts(node.body, within)
        node.orelse = self._in_parts(node.orelse, replace(after_body, is_tail=tail))
        for handler in node.handlers:
            bound = broken | ({handler.name} if handler.name else NONE)
            handler.body = self._in_parts(
                handler.body, replace(within, bound=bound, maybe=maybe, is_tail=tail)
            )
        node.finalbody = self._in_parts(
            node.finalbody, replace(context, bound=broken - unbound_by([node]), maybe=maybe, is_tail=False)
        )
        return [node]

    # Parts

    def _in_parts(self, body: Sequence[ast.stmt], context: Context) -> list[ast.stmt]:
        """Return statements as a call of a part; statements at its ends that compute nothing stay."""
        first, last = 0, len(body)
        while first < last and is_light(body[first]):
            first += 1
        while last > first and is_light(body[last - 1]):
            last -= 1
        if first == last:
            return list(body)
        if context.is_tail and not (outer_exits(body) & {BREAK, CONTINUE}) and all(map(is_end, body[last:])):
            last = len(body)
        core, rest = body[first:last], body[last:]
        core_context = self._followed(self._after(context, body[:first]), rest)
        unsupported_exits = frozenset((BREAK, CONTINUE, RETURN) if context.has_final else (BREAK, CONTINUE))
        if is_tangled(core, unsupported_exits, core_context.live):
            return [WithCallees().visit(each) for each in body]
        return [*body[:first], *self._call(core, core_context), *rest]

    def _call(self, core: Sequence[ast.stmt], context: Context) -> list[ast.stmt]:
        """Make a part of statements, and return its call."""
        name = f"_triten_part_{len(self.parts)}"
        flow = Flow(core, context.bound & self.locals)
        exits = outer_exits(core)
        is_tail = context.is_tail and not exits & {BREAK, CONTINUE}
        keeps_result = context.has_final and RETURN in exits
        is_end = flow.bound is None and not exits & {BREAK, CONTINUE} and not keeps_result
        outputs = [] if is_tail or is_end else sorted(stored(core) & context.live & self.locals)
        read = Flow(core).exposed & self.locals & context.maybe
        early = exits & {BREAK, CONTINUE} or keeps_result
        sure = NONE if flow.bound is None or early else Flow(core).bound or NONE
        read |= {each for each in outputs if each not in sure and each in context.maybe}
        watched = stored(core) & context.live & self.locals if context.is_guarded else NONE
        read |= unbound_by(core) & watched & context.maybe
        inputs = sorted(read)
        careful = [each for each in inputs if each not in context.bound]
        returns_exit = bool(exits) and not is_tail
        bound = context.bound - unbound_by(core)
        body: list[ast.stmt] = list(core)
        if returns_exit:
            leave = lambda exit_kind, location: self._left(exit_kind, keeps_result, outputs, bound, location)  # noqa: E731
            body = WithReturns(leave, keeps_result).block(body)
        if flow.bound is not None and not is_tail:
            exit_kind = END if returns_exit else None
            body += self._left(exit_kind, keeps_result, outputs, flow.bound, core[-1])
        arguments = ast.arguments([], [ast.arg(each) for each in inputs], None, [], [], None, [])
        node = ast.copy_location(ast.FunctionDef(name, arguments, body, [], None), core[0])
        self.parts[name] = PartTree(node, tuple(inputs), frozenset(careful), watched)
        call_arguments = [f"_triten_in_{each}" if each in careful else each for each in inputs]
        before = "".join(
            f"try: _triten_in_{each} = {each}\nexcept NameError: _triten_in_{each} = {UNBOUND}\n"
            for each in careful
        )
        call = f"{name}({', '.join(call_arguments)})"
        released = "".join(f"del _triten_in_{each}\n" for each in careful)
        doubtful = [each for each in outputs if flow.bound is None or each not in flow.bound or returns_exit]
        unbinding = "".join(f"if {each} is {UNBOUND}: del {each}\n" for each in doubtful)
        if is_tail:
            text = f"return {call}\n"
        elif not returns_exit:
            text = f"{''.join(f'{each}, ' for each in outputs)}{'= ' * bool(outputs)}{call}\n"
            text += released + unbinding
        else:
            text = f"_triten_result = {call}\n{released}"
            if RETURN in exits and not keeps_result:
                text += f"if _triten_result[0] == {RETURN}: return _triten_result[1]\n"
            result_names = [RESULT] if keeps_result else []
            text += (
                f"_triten_way, {''.join(f'{each}, ' for each in (*result_names, *outputs))}= _triten_result\n"
            )
            text += f"del _triten_result\n{unbinding}"
            text += f"if _triten_way == {RETURN}: return {RESULT}\n" * keeps_result
            text += f"if _triten_way == {BREAK}: break\n" * (BREAK in exits)
            text += f"if _triten_way == {CONTINUE}: continue\n" * (CONTINUE in exits)
        if watched:
            names = sorted(watched)
            indented = "".join(f"    {line}\n" for line in text.splitlines())
            text = f"try:\n{indented}except BaseException as _triten_error:\n"
            text += f"    _triten_found = {RESCUED}(_triten_error)\n"
            text += "".join(
                f"    if {each!r} in _triten_found: {each} = _triten_found[{each!r}]\n"
                f"    if {each!r} in _triten_found and {each} is {UNBOUND}: del {each}\n"
                for each in names
            )
            text += "    del _triten_found\n    raise\n"
        return statements(before + text, core[0])

    def _left(
        self,
        exit_kind: int | None,
        keeps_result: bool,
        outputs: Sequence[str],
        bound: Names,
        location: ast.stmt,
    ) -> list[ast.stmt]:
        """Return the end of a part for one exit."""
        if not keeps_result:
            return returned(exit_kind, outputs, bound, location)
        none = [] if exit_kind == RETURN else statements(f"{RESULT} = None", location)
        return [*none, *returned(exit_kind, [RESULT, *outputs], bound | {RESULT}, location)]


class WithCallees(ast.NodeTransformer):
    """Transformer of statements whose calls go through `CALLEE`; functions that they define are unchanged."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and (
            node.func.id == "super" or node.func.id.startswith("_triten_")
        ):
            return node
        name = ast.copy_location(ast.Name(CALLEE, ast.Load()), node.func)
        node.func = ast.copy_location(ast.Call(name, [node.func], []), node.func)
        return node

    def visit(self, node: ast.AST) -> Any:
        """Return the node with its calls rewritten."""
        return node if isinstance(node, SCOPES) else super().visit(node)


def hoist_test(node: ast.If, before: list[ast.stmt]) -> None:
    """Have a statement before bind a condition to a variable; ``not`` stays."""
    owner: Any = node
    field = "test"
    while isinstance(getattr(owner, field), ast.UnaryOp) and isinstance(getattr(owner, field).op, ast.Not):
        owner, field = getattr(owner, field), "operand"
    test = getattr(owner, field)
    if not isinstance(test, ast.Name | ast.Constant):
        target = ast.copy_location(ast.Name(TEST, ast.Store()), test)
        before.append(ast.copy_location(ast.Assign([target], test), test))
        setattr(owner, field, ast.copy_location(ast.Name(TEST, ast.Load()), test))


def is_light(node: ast.stmt) -> bool:
    """Return True if a statement is not worth a graph: it computes nothing, or counts."""
    if isinstance(node, ast.Pass | ast.Break | ast.Continue | ast.Import | ast.ImportFrom):
        return True
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return True
    if isinstance(node, ast.AugAssign):
        return isinstance(node.target, ast.Name) and isinstance(node.value, ast.Constant)
    if isinstance(node, ast.Assign):
        return all(isinstance(each, ast.Name) for each in node.targets) and is_known(node.value)
    if isinstance(node, ast.AnnAssign):
        return isinstance(node.target, ast.Name) and (node.value is None or is_known(node.value))
    if isinstance(node, ast.Return):
        return node.value is None or is_known(node.value)
    if isinstance(node, ast.Expr):
        return is_known(node.value)
    if isinstance(node, ast.If):
        return is_sentinel_check(node)
    if isinstance(node, ast.Try):
        return all(isinstance(each, ast.Assign) and is_light(each) for each in node.body) and all(
            is_light(each) for handler in node.handlers for each in handler.body
        )
    return False


def is_sentinel_check(node: ast.If) -> bool:
    """Return True for a residual function's own check of the sentinel for an unbound variable."""
    return (
        isinstance(node.test, ast.Compare)
        and isinstance(node.test.comparators[0], ast.Name)
        and node.test.comparators[0].id == UNBOUND
    )


def is_known(node: ast.expr) -> bool:
    """Return True if an expression consists of names and constants alone."""
    if isinstance(node, ast.Tuple | ast.List):
        return all(map(is_known, node.elts))
    if isinstance(node, ast.Dict):
        return all(each is not None and is_known(each) for each in (*node.keys, *node.values))
    return isinstance(node, ast.Name | ast.Constant | ast.Lambda)


def is_end(node: ast.stmt) -> bool:
    """Return True if a statement may follow in a part that ends the function."""
    return isinstance(node, ast.Return | ast.Pass)
