"""Python's statements and builtins in interpreted kernels, with the semantics of Triton's compiler.

Plain Python would ask a tensor for its truth, its integer or its order, and would compute with Python's integers. The
compiler lowers each construct (`triton.compiler.code_generator`). `KernelTransformer` rewrites each to a call of a
function in `namespace`:

* `and`, `or`, `not`, chained comparisons: lane by lane; only constants short-circuit.
* `if`, `while`, `a if c else b`: the condition is a constant or a scalar.
* `min`, `max`, `range`, `print`, `len`, ...: the compiler's own table. Any other builtin is undefined.
* Assignments: a number becomes a scalar tensor, except under the annotation `tl.constexpr`.
"""

from __future__ import annotations

import ast
import builtins
import copy
import operator
import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import FunctionType
from typing import Any

import numpy as np
import triton.language as tl
from triton.compiler.code_generator import CodeGenerator, _condition_types
from triton.compiler.errors import CompileTimeAssertionFailure
from triton.runtime.interpreter import ASTTransformer, TensorHandle

from .batch import uniform
from .formats import Array, numpy_type

_PREFIX = "_triten_"
_NO_ARGUMENTS = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
_COMPILES_CHAINS = hasattr(ASTTransformer, "visit_Compare")
"""Triton before 3.9 compiles no chain of comparisons."""
_OPERATORS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_unwrap = tl.core._unwrap_if_constexpr
_CONDITION: Any = getattr(tl, "condition", ())


class KernelTransformer(ast.NodeTransformer):
    """Rewrites the body of a kernel for the functions of `namespace`.

    Args:
        function: The kernel, whose globals decide which names are builtins.
        defined: Names beside the globals that the kernel finds.
    """

    def __init__(self, function: FunctionType, defined: frozenset[str] = frozenset()) -> None:
        self._globals = function.__globals__
        self._defined = defined
        self._annotations: dict[str, ast.expr] = {}

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        stored = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        self._defined |= stored | {
            argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)
        }
        node.body = [self.visit(statement) for statement in node.body]
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        name = node.id
        if name in self._defined or name in self._globals or not hasattr(builtins, name):
            return node
        if name in CodeGenerator.builtin_namespace:
            return ast.copy_location(ast.Name(_PREFIX + name, ast.Load()), node)
        return _call("undefined", [ast.Constant(name)], node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        if len(node.targets) > 1:
            raise ValueError("Multiple assignments are not supported")
        target = node.targets[0]
        annotation = self._annotations.pop(target.id, None) if isinstance(target, ast.Name) else None
        self.generic_visit(node)
        node.value = self._assigned(annotation, node.value)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is None:
            if isinstance(node.target, ast.Name):
                self._annotations[node.target.id] = node.annotation
            return node
        value = self._assigned(node.annotation, self.visit(node.value))
        return ast.copy_location(ast.Assign([node.target], value), node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        target = copy.deepcopy(node.target)
        target.ctx = ast.Load()
        value = ast.copy_location(ast.BinOp(target, node.op, node.value), node)
        return self.visit(ast.copy_location(ast.Assign([node.target], value), node))  # type: ignore[no-any-return]

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.AST:
        self.generic_visit(node)
        node.value = self._assigned(None, node.value)
        return node

    def _assigned(self, annotation: ast.expr | None, value: ast.expr) -> ast.expr:
        return _call("assigned", [value] if annotation is None else [value, annotation], value)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if len(node.ops) == 1 and type(node.ops[0]) in _OPERATORS:
            return node
        if len(node.ops) > 1 and not _COMPILES_CHAINS:
            raise SyntaxError(
                f"line {node.lineno} of the kernel: this version of Triton does not compile a chain of comparisons"
            )
        links = [_call("link", [node.left], node)]
        for kind, right in zip(node.ops, node.comparators, strict=True):
            links.append(_call("link", [right, ast.Constant(type(kind).__name__)], node))
        return _chain("logical_and", links, node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        method = "logical_and" if isinstance(node.op, ast.And) else "logical_or"
        links = [_call("link", [ast.Constant(None)], node)]
        links += [_call("link", [value, ast.Constant("Operand")], node) for value in node.values]
        return _chain(method, links, node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return _call("not", [node.operand], node) if isinstance(node.op, ast.Not) else node

    def visit_If(self, node: ast.If) -> Any:
        return self._with_truth(node)

    def visit_While(self, node: ast.While) -> Any:
        return self._with_truth(node)

    def _with_truth(self, node: Any) -> Any:
        self.generic_visit(node)
        node.test = _call("truth", [node.test], node.test)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        branches: list[ast.expr] = [ast.Lambda(_NO_ARGUMENTS, body) for body in (node.body, node.orelse)]
        return _call("ternary", [node.test, *branches], node)

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        self.generic_visit(node)
        arguments = [node.test] if node.msg is None else [node.test, node.msg]
        return ast.copy_location(ast.Expr(_call("assert", arguments, node)), node)


def _call(name: str, arguments: list[ast.expr], source: ast.AST) -> ast.expr:
    return ast.copy_location(ast.Call(ast.Name(_PREFIX + name, ast.Load()), arguments, []), source)


def _chain(method: str, links: list[ast.expr], source: ast.AST) -> ast.expr:
    """Return ``(link < link < ...).result()``: operands stay in their scope, so that `:=` binds there."""
    first, *rest = links
    assert isinstance(first, ast.Call)
    first.args.append(ast.Constant(method))
    chain = ast.copy_location(ast.Compare(first, [ast.Lt() for _ in rest], rest), source)
    result = ast.copy_location(ast.Attribute(chain, "result", ast.Load()), source)
    return ast.copy_location(ast.Call(result, [], []), source)


class Link:
    """One operand of a chain of comparisons, or of `and` and `or`.

    Python evaluates ``a < b < c`` from left to right and stops at a false result. Each `<` hands the chain's state to
    the operand on its right, which is the result.

    Args:
        value: The operand.
        kind: The first link's method, "logical_and" or "logical_or"; else "Operand" for an operand of that method, or
            the comparison of the operand on the left with this one.
    """

    __slots__ = ("_condition", "_kind", "_method", "_stopped", "_tensors", "_value")

    def __init__(self, value: Any, kind: str) -> None:
        self._value = value
        self._kind = self._method = kind
        self._tensors: list[Any] = []
        self._condition: Any = None
        self._stopped = False

    def __lt__(self, right: Link) -> Link:
        right._method, right._tensors = self._method, self._tensors
        right._condition = condition = _compare(right._kind, self._value, right._value)
        if isinstance(condition, tl.tensor):
            right._tensors.append(condition)
        else:
            right._stopped = bool(condition) is (right._method == "logical_or")
        return right

    def __bool__(self) -> bool:
        return not self._stopped

    def result(self) -> Any:
        """Return the constant that decided the chain, or the tensors combined from right to left."""
        if self._stopped or not self._tensors:
            return self._condition
        *left_tensors, result = self._tensors
        for tensor in reversed(left_tensors):
            result = getattr(tensor, self._method)(result)
        return result


def _compare(kind: str, left: Any, right: Any) -> Any:
    if kind == "Operand":
        return right
    if kind in ("Is", "IsNot"):
        return (_unwrap(left) is _unwrap(right)) is (kind == "Is")
    operation = _OPERATORS.get(getattr(ast, kind))
    if operation is None:
        raise SyntaxError(
            f"AST comparison operator '{kind}' is not (currently) implemented by Triton's compiler"
        )
    return operation(left, right)


def logical_not(value: Any) -> Any:
    """Return `not value`, lane by lane for a tensor."""
    return value.__not__() if isinstance(value, tl.tensor) else not value


def scalars(value: Any) -> Array:
    """Return a scalar tensor's number in each program, for control flow.

    Raises:
        ValueError: for a block of several lanes, as the compiler does.
    """
    data: Array = value.handle.data
    if data.size != len(data):
        raise ValueError(f"the truth of a block of shape {data.shape[1:]} is ambiguous: use tl.where, & or |")
    return data.reshape(len(data))


def refuse_truth(tensor: Any) -> bool:
    """Refuse `bool(tensor)` (`tl.tensor.__bool__`).

    Triton's own code asks ``if other`` to see whether there is an argument, so it gets True.

    Raises:
        TypeError: for any other caller, whose line it names.
    """
    caller = sys._getframe(1)
    if caller.f_globals.get("__name__", "").startswith("triton."):
        return True
    raise TypeError(
        f"{caller.f_code.co_filename}:{caller.f_lineno}: a tensor of type {tensor.type} has no truth value in Python: "
        "a kernel may use it in `if`, `while`, `and`, `or` and `not`, or in tl.where"
    )


def _undefined(name: str) -> Any:
    raise NameError(f"{name} is not defined: Triton's compiler does not know this builtin of Python")


class StaticAssertionError(CompileTimeAssertionFailure, AssertionError):  # type: ignore[misc]
    """Error: an assertion about constants failed. The autotuner skips configurations that raise it."""

    def __init__(self, message: str) -> None:
        super().__init__(None, None, message)
        self.message = message


def static_assert(condition: Any, message: Any = "") -> None:
    """Check a constant (`tl.static_assert`).

    Raises:
        StaticAssertionError: if the condition is False.
        NotImplementedError: unless the condition is a bool.
    """
    condition = _unwrap(condition)
    if not isinstance(condition, bool):
        raise NotImplementedError(
            "Assertion condition could not be determined at compile-time. Make sure that it depends only on "
            f"`constexpr` values. It is of type {type(condition).__name__}"
        )
    if not condition:
        raise StaticAssertionError(str(_unwrap(message)))


class _Language:
    """The constructs that make tensors or call Triton's builtins."""

    def __init__(self, semantic: Any) -> None:
        self._semantic = semantic

    def assigned(self, value: Any, annotation: Any = None) -> Any:
        """Return what a name is bound to: numbers are tensors, in tuples too."""
        if annotation is tl.constexpr:
            return value
        value = _unwrap(value)
        if isinstance(value, tl.tuple):
            return tl.tuple([self.assigned(item) for item in value.values], value.type)
        if isinstance(value, tuple):
            items = [self.assigned(item) for item in value]
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        return self._semantic.to_tensor(value, False)

    def truth(self, value: Any) -> bool:
        """Return the truth of a condition: of a scalar tensor, or of a constant that is a bool, an int or None.

        Raises:
            TypeError: for any other constant, as the compiler does.
            Unbatchable: if the programs of a batch do not agree.
            ValueError: for a block of several lanes.
        """
        if isinstance(value, _CONDITION):
            value = value.condition
        if isinstance(value, tl.tensor):
            batch = self._semantic.builder.batch
            if batch is not None:
                batch.decide()
            return bool(uniform(scalars(value)))
        value = _unwrap(value)
        if type(value) not in _condition_types:
            names = ", ".join(type_.__name__ for type_ in _condition_types)
            raise TypeError(
                f"conditionals can only accept values of type {{{names}}}, not objects of type {type(value).__name__}"
            )
        return bool(value)

    def ternary(self, condition: Any, body: Callable[[], Any], orelse: Callable[[], Any]) -> Any:
        """Return `body if condition else orelse`; under a tensor's condition numbers are tensors."""
        chosen = (body if self.truth(condition) else orelse)()
        return self._semantic.to_tensor(chosen, False) if isinstance(condition, tl.tensor) else chosen

    def range(self, first: Any, second: Any = None, step: Any = 1, **options: object) -> Iterator[Any]:
        """Yield the induction variable of a loop, a scalar tensor of the bounds' type.

        Programs of a batch may begin at different numbers, as persistent kernels do, but loop equally often.
        """
        bounds = (0, first) if second is None else (first, second)
        tensors = [self._semantic.to_tensor(bound) for bound in (*bounds, 1 if step is None else step)]
        type_ = tensors[0].dtype
        for tensor in tensors:
            if not tensor.dtype.is_int():
                names = ", ".join(str(tensor.dtype) for tensor in tensors)
                raise TypeError(f"For loop bounds and step must all be ints, are ({names})")
            type_ = self._semantic.integer_promote_impl(type_, tensor.dtype)
        start, stop, stride = (scalars(tensor).astype(np.int64) for tensor in tensors)
        if not stride.all():
            raise ValueError("the step of a loop must not be zero")
        dtype = numpy_type(type_)
        for trip in builtins.range(uniform(-((start - stop) // stride))):
            yield tl.tensor(TensorHandle((start + trip * stride).astype(dtype), type_), type_)

    def device_assert(self, condition: Any, message: Any = "") -> None:
        """Check a condition where the launch is one for debugging, as `assert` compiles."""
        self._semantic.device_assert(self._semantic.to_tensor(condition), _unwrap(message), None)

    def call(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Call a function of the compiler's table of builtins with constants unwrapped."""
        if tl.core.is_builtin(function):
            options["_semantic"] = self._semantic
        return _unwrap(function(*(_unwrap(value) for value in args), **options))


def namespace(semantic: Any) -> dict[str, Any]:
    """Return what a rewritten kernel finds among its globals."""
    language = _Language(semantic)
    functions: dict[str, Any] = {
        name: partial(language.call, function) for name, function in CodeGenerator.builtin_namespace.items()
    }
    functions |= {
        "assert": language.device_assert,
        "assigned": language.assigned,
        "link": Link,
        "not": logical_not,
        "range": language.range,
        "ternary": language.ternary,
        "truth": language.truth,
        "undefined": _undefined,
    }
    return {_PREFIX + name: function for name, function in functions.items()}
