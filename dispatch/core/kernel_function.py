"""`KernelFunction`: a kernel as the dispatcher sees it, boxed or unboxed (ATen/core/boxing/KernelFunction.h).

A kernel may have a *planner*. Given the operator, the key set and the bound arguments, the planner returns a *plan*:
a closure over every decision that the specs allow, which takes the runtime arguments alone. A kernel without a
planner, or whose planner returns None for a call, is called directly.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .kernel_signature import python_call

if TYPE_CHECKING:
    from .operator_entry import OperatorEntry

Plan = Callable[..., Any]
Planner = Callable[["OperatorEntry", int, Sequence[Any]], Plan | None]


class KernelFunction:
    """One registered kernel.

    Args:
        function: The kernel: ``f(*args)`` in schema order; with `takes_key_set` ``f(key_set, *args)``; with `boxed`
            ``f(operator, key_set, stack)``, which replaces the arguments on the stack by the results.
        planner: Function that returns plans. For a kernel that also has a function, it returns None for calls to
            that.
        source: The location of the registration, for messages.
        leaf: True if the kernel never calls the dispatcher, and so needs no guard below autograd.

    `written` is the function as a user wrote it (see `from_function`), None for kernels of this package.
    """

    __slots__ = (
        "boxed",
        "function",
        "is_fallthrough",
        "leaf",
        "planner",
        "source",
        "takes_key_set",
        "written",
    )

    def __init__(
        self,
        function: Callable[..., Any] | None,
        *,
        planner: Planner | None = None,
        boxed: bool = False,
        takes_key_set: bool = False,
        source: str = "",
        leaf: bool = False,
        is_fallthrough: bool = False,
    ) -> None:
        self.function = function
        self.planner = planner
        self.boxed = boxed
        self.takes_key_set = takes_key_set
        self.source = source
        self.leaf = leaf
        self.is_fallthrough = is_fallthrough
        self.written: Callable[..., Any] | None = None

    @staticmethod
    def fallthrough(source: str = "") -> KernelFunction:
        """Return the kernel that hands every call to the next key."""
        return KernelFunction(None, is_fallthrough=True, source=source)

    @staticmethod
    def from_function(
        function: Callable[..., Any], *, with_keyset: bool = False, boxed: bool = False, source: str = ""
    ) -> KernelFunction:
        """Wrap a user's function as a kernel. Like PyTorch, do not check its signature.

        With `with_keyset`, the function takes a `DispatchKeySet` first; boxed kernels always take one.
        """
        if with_keyset and not boxed:
            from ...runtime.dispatch_key_set import DispatchKeySet

            def keyed(bits: int, *args: Any, **named: Any) -> Any:
                return function(DispatchKeySet.from_raw_repr(bits), *args, **named)

            made = KernelFunction(keyed, takes_key_set=True, source=source)
        else:
            made = KernelFunction(function, boxed=boxed, source=source)
        made.written = function
        return made

    def plan(self, op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
        """Return a callable of the runtime arguments of `args` (see `OperatorEntry.runtime_positions`)."""
        plan = None if self.planner is None else self.planner(op, key_set, args)
        return op.rebind(self.bind(op, key_set), args) if plan is None else plan

    def bind(self, op: OperatorEntry, key_set: int) -> Plan:
        """Return a callable of all arguments in schema order."""
        function = self.function
        assert function is not None
        if self.boxed:
            return lambda *args: unbox(op, function, key_set, args)
        bound = functools.partial(function, key_set) if self.takes_key_set else function
        if self.written is None:
            return bound
        return python_call(bound, self.written, op.schema, takes_key_set=self.takes_key_set)


def unbox(op: OperatorEntry, function: Callable[..., Any], key_set: int, args: Sequence[Any]) -> Any:
    """Call a boxed kernel with unboxed arguments: push them on a stack, call, and pop the results."""
    from ...runtime.dispatch_key_set import DispatchKeySet

    stack = list(args)
    function(op, DispatchKeySet.from_raw_repr(key_set), stack)
    returns = len(op.schema.returns)
    if len(stack) != returns:
        raise RuntimeError(
            f"boxed kernel of {op.name} ({op.schema}) left {len(stack)} values on the stack, expected {returns}"
        )
    if returns < 2:
        return stack[0] if returns else None
    from .result_types import result_type_of

    gather = result_type_of(op.schema)
    assert gather is not None
    return gather(stack)
