"""Tracing of ``assert`` statements and annotated assignments (torch/fx/experimental/rewriter.py)."""

from __future__ import annotations

import ast
import copy
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

from ...nn.modules.module import Module
from ...runtime import public_name
from .._symbolic_trace import Tracer
from ..graph import Graph
from ..qualified_names import ROOT

__all__ = ["AST_Rewriter", "RewritingTracer"]


def _call_of(module: str, name: str, arguments: list[ast.expr]) -> ast.Call:
    """Return a call of a module's function that needs no global name."""
    function = ast.parse(f"__import__({module!r}, fromlist=[{name!r}]).{name}", mode="eval").body
    return ast.Call(func=function, args=arguments, keywords=[])


def _definition(source: str) -> ast.AST:
    """Parse the source of a function, whose first line may be indented.

    Dedenting would fail at a string of several lines, which can be indented less.
    """
    if not source[:1].isspace():
        return ast.parse(source).body[0]
    block: Any = ast.parse(f"if True:\n{source}").body[0]
    definition: ast.AST = ast.increment_lineno(block.body[0], -1)
    return definition


class AST_Rewriter(ast.NodeTransformer):
    """Rewriter of functions: statements that a tracer cannot see become calls that it records.

    - ``assert condition, message`` becomes ``tt._assert(condition, message)``.
    - ``name: type = value`` becomes ``name = annotate(value, type)``.

    A subclass adds methods ``visit_X`` for other nodes of Python's `ast`.

    Source: torch.fx.experimental.rewriter.AST_Rewriter.
    """

    def rewrite(self, fn: Callable[..., Any]) -> FunctionType:
        """Return a function with rewritten code, and the same globals, defaults and closure.

        Raises:
            OSError: The source is not available.
        """
        function: Any = inspect.unwrap(getattr(fn, "__func__", fn))
        definition: Any = self.visit(_definition(inspect.getsource(function)))
        definition.decorator_list = []
        free = function.__code__.co_freevars
        # The code needs the free variables of the original, so it is compiled inside of a function that has them.
        outer: Any = ast.parse(f"def _outer({', '.join(free)}): pass").body[0]
        outer.body = [definition]
        code = compile(
            ast.fix_missing_locations(ast.Module([outer], [])), function.__code__.co_filename, "exec"
        )
        code = _code_named("_outer", code)
        made = FunctionType(
            _code_named(function.__name__, code),
            function.__globals__,
            function.__name__,
            function.__defaults__,
            function.__closure__,
        )
        made.__kwdefaults__ = copy.copy(function.__kwdefaults__)
        made.__dict__.update(function.__dict__)
        made.__annotations__ = dict(function.__annotations__)
        made.__module__, made.__qualname__ = function.__module__, function.__qualname__
        return made

    def visit_Assert(self, node: ast.Assert) -> ast.Expr:
        """Return a call of `tt._assert` for an ``assert`` statement."""
        message = node.msg if node.msg is not None else ast.Constant(value="")
        return ast.copy_location(ast.Expr(_call_of(ROOT, "_assert", [node.test, message])), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        """Return an assignment of an annotated value; a declaration without a value is kept."""
        if node.value is None:
            return node
        value = _call_of(f"{ROOT}.fx.annotate", "annotate", [node.value, node.annotation])
        return ast.copy_location(ast.Assign(targets=[node.target], value=value), node)


def _code_named(name: str, code: Any) -> Any:
    return next(each for each in code.co_consts if getattr(each, "co_name", None) == name)


class RewritingTracer(Tracer):
    """Tracer that records ``assert`` statements and annotated assignments (`AST_Rewriter`).

    Source: torch.fx.experimental.rewriter.RewritingTracer.

    Example:
        >>> import triten as tt
        >>> from triten.fx.experimental.rewriter import RewritingTracer
        >>> [node.op for node in RewritingTracer().trace(tt.nn.Identity()).nodes]
        ['placeholder', 'output']
    """

    def trace(
        self, root: Module | Callable[..., Any], concrete_args: dict[str, Any] | tuple[Any, ...] | None = None
    ) -> Graph:
        """Trace a module or a function after rewriting it, as `Tracer.trace` does."""
        return super().trace(_rewrite(root), concrete_args)


def _rewrite(root: Module | Callable[..., Any]) -> Module | Callable[..., Any]:
    """Return a function, or a copy of a module whose own `forward` methods are rewritten."""
    if not isinstance(root, Module):
        return AST_Rewriter().rewrite(root)
    made: Any = copy.copy(root)
    made._modules = {name: child and _rewrite(child) for name, child in root._modules.items()}
    if public_name.path_below(type(root).__module__) is None:
        forward = AST_Rewriter().rewrite(type(root).forward)
        made.__class__ = type(
            type(root).__name__, (type(root),), {"forward": forward, "__module__": type(root).__module__}
        )
    return made  # type: ignore[no-any-return]
