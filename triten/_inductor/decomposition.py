"""Decompositions that programs register for the compiler (`torch._inductor.decomposition`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ..dispatch.core.dispatcher import Dispatcher
from ..dispatch.core.op_overload import OpOverload, OpOverloadGroup
from ..dispatch.core.operator_entry import IMPLICIT

__all__ = ["decompositions", "register_decomposition"]

Function = TypeVar("Function", bound=Callable[..., Any])

decompositions: dict[OpOverload, Callable[..., Any]] = {}
"""The registered functions, by operator."""


def register_decomposition(
    ops: OpOverload | OpOverloadGroup | Sequence[OpOverload | OpOverloadGroup],
) -> Callable[[Function], Function]:
    """Return a decorator that registers a function as the decomposition of operators.

    `tt.compile` and `make_fx` trace the function instead of the operator. An operator with a CompositeImplicitAutograd
    kernel keeps that kernel, which captured graphs decompose already.

    Args:
        ops: An overload, an overload group, which stands for all its overloads, or a sequence of both.

    Example:
        >>> import triten as tt
        >>> from triten._inductor.decomposition import register_decomposition
        >>> from triten.fx.experimental.proxy_tensor import make_fx
        >>> library = tt.library.Library("shapes", "DEF")
        >>> _ = library.define("wave(Tensor r) -> Tensor")
        >>> library.impl("wave", lambda r: 3.14 * r.sin(), "CompositeExplicitAutograd")
        >>> wave = register_decomposition(tt.ops.shapes.wave)(lambda r: r.sin().mul(3.14))
        >>> graph = make_fx(tt.ops.shapes.wave)(tt.ones(2)).graph
        >>> [node.target.name() for node in graph.nodes if node.op == "call_function"]
        ['aten::sin', 'aten::mul.Tensor']
    """
    operators = [ops] if isinstance(ops, OpOverload | OpOverloadGroup) else ops
    overloads = [
        overload
        for each in operators
        for overload in ([each] if isinstance(each, OpOverload) else _overloads(each))
    ]

    def register(function: Function) -> Function:
        for overload in overloads:
            decompositions[overload] = function
            if IMPLICIT not in overload._entry.kernels:
                Dispatcher.singleton().register_impl(overload.name(), "Tracer", function)
        return function

    return register


def _overloads(group: OpOverloadGroup) -> list[OpOverload]:
    return [getattr(group, name) for name in group.overloads()]
