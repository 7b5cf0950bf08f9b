"""Python's `and`, `or`, `not` and conditions in interpreted kernels, as Triton's compiler understands them.

Plain Python would ask a block for its truth and take one operand whole; the compiler computes lane by lane
and lets only constants cut an expression short. A condition must be a scalar.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import triton.language as tl
from triton.runtime.interpreter import ASTTransformer

_NO_ARGUMENTS = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])


class BooleanTransformer(ASTTransformer):  # type: ignore[misc]
    """Rewrites boolean operators and conditions into calls of the functions in `NAMESPACE`."""

    if not hasattr(ASTTransformer, "visit_Compare"):  # Triton before 3.9

        def visit_Compare(self, node: ast.Compare) -> ast.AST:
            if len(node.ops) > 1:
                raise SyntaxError(
                    f"line {node.lineno} of the kernel: this version of Triton does not compile a chain of comparisons"
                )
            self.generic_visit(node)
            return node

        def visit_Assign(self, node: ast.Assign) -> Any:
            node.value = self.visit(node.value)  # Triton's own leaves what is assigned as it stands
            return super().visit_Assign(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        method = "logical_and" if isinstance(node.op, ast.And) else "logical_or"
        operands: list[ast.expr] = [ast.Lambda(args=_NO_ARGUMENTS, body=value) for value in node.values]
        return _call("_triten_logical", [ast.Constant(method), *operands], node)

    def visit_If(self, node: ast.If) -> Any:
        return self._with_truth(node)

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        return self._with_truth(node)

    def visit_While(self, node: ast.While) -> Any:
        return self._with_truth(node)

    def _with_truth(self, node: Any) -> Any:
        self.generic_visit(node)
        node.test = _call("_triten_truth", [node.test], node.test)
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return _call("_triten_not", [node.operand], node) if isinstance(node.op, ast.Not) else node


def _call(name: str, arguments: list[ast.expr], source: ast.AST) -> ast.expr:
    return ast.copy_location(ast.Call(ast.Name(name, ast.Load()), arguments, []), source)


def logical(method: str, *operands: Callable[[], Any]) -> Any:
    """`and` or `or`: tensors are combined lane by lane, constants short-circuit from left to right."""
    tensors = []
    value: Any = None
    for operand in operands:
        value = operand()
        if isinstance(value, tl.tensor):
            tensors.append(value)
        elif bool(value) is (method == "logical_or"):
            return value
    if not tensors:
        return value
    result = tensors[-1]
    for tensor in reversed(tensors[:-1]):
        result = getattr(tensor, method)(result)
    return result


def logical_not(value: Any) -> Any:
    """`not`, lane by lane on a tensor."""
    return value.__not__() if isinstance(value, tl.tensor) else not value


def truth(value: Any) -> bool:
    """Whether a condition holds. Raises ValueError for a block, as the compiler does."""
    if not isinstance(value, tl.tensor):
        return bool(value)
    data = value.handle.data
    if data.size != 1:
        raise ValueError(f"the truth of a block of shape {data.shape} is ambiguous: use tl.where, & or |")
    return bool(data.all())


NAMESPACE: dict[str, Any] = {"_triten_logical": logical, "_triten_not": logical_not, "_triten_truth": truth}
"""What a rewritten kernel finds among its globals."""
