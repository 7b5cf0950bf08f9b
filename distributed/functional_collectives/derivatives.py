"""Derivatives of the collective operators, which are other collectives.

A sum over ranks is treated as a function of all ranks' tensors. Its gradient is the sum of the ranks'
gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

from ...dispatch.autograd.registered_formula import Formula
from ...dispatch.core.op_overload import OpOverload, find_overload
from ...dispatch.core.operator_entry import OperatorEntry
from ...dispatch.tensor import Tensor


@cache
def _operator(name: str) -> OpOverload:
    return find_overload(f"_c10d_functional::{name}")


def _waited(result: Any) -> Any:
    wait = _operator("wait_tensor")
    return wait(result) if isinstance(result, Tensor) else [wait(each) for each in result]


def _contiguous(grad: Any) -> Any:
    return grad.contiguous() if isinstance(grad, Tensor) else [each.contiguous() for each in grad]


class Backward(NamedTuple):
    """How a gradient goes back.

    Attributes:
        operator: the collective of gradients.
        arguments: its arguments behind the gradient, of those that forward was called with.
        sums_alone: whether there is a derivative for the reduction "sum" alone.
    """

    operator: str
    arguments: Callable[[dict[str, Any]], Sequence[Any]]
    sums_alone: bool = False


def _names(*names: str) -> Callable[[dict[str, Any]], Sequence[Any]]:
    return lambda given: [given[name] for name in names]


_REDUCE = _names("reduce_op", "group_name")
_GATHER = _names("group_size", "group_name")
_SWAPPED = _names("input_split_sizes", "output_split_sizes", "group_name")


def _summed(arguments: dict[str, Any]) -> Sequence[Any]:
    return ["sum", *_GATHER(arguments)]


BACKWARDS = {
    "all_reduce": Backward("all_reduce", _REDUCE, sums_alone=True),
    "all_reduce_coalesced": Backward("all_reduce_coalesced", _REDUCE, sums_alone=True),
    "all_gather_into_tensor": Backward("reduce_scatter_tensor", _summed),
    "all_gather_into_tensor_coalesced": Backward("reduce_scatter_tensor_coalesced", _summed),
    "reduce_scatter_tensor": Backward("all_gather_into_tensor", _GATHER, sums_alone=True),
    "reduce_scatter_tensor_coalesced": Backward("all_gather_into_tensor_coalesced", _GATHER, sums_alone=True),
    "all_to_all_single": Backward("all_to_all_single", _SWAPPED),
}


def formula_of(op: OperatorEntry, name: str) -> Formula | None:
    """Return the derivative of an operator; None if it has none.

    Args:
        op: The operator.
        name: Its name without the namespace.
    """
    if name in ("wait_tensor", "_wrap_tensor_autograd"):
        return _formula(lambda ctx, grad: grad, None)
    rule = BACKWARDS.get(name)
    if rule is None:
        return None

    def setup_context(ctx: Any, inputs: Sequence[Any], output: Any) -> None:
        names = [argument.name for argument in op.schema.arguments]
        ctx.arguments = dict(zip(names[1:], inputs[1:], strict=True))

    def backward(ctx: Any, grad: Any) -> tuple[Any, ...]:
        if rule.sums_alone and ctx.arguments["reduce_op"] != "sum":
            raise RuntimeError(
                f"{name} backward only supports 'sum' reduction, got '{ctx.arguments['reduce_op']}'"
            )
        result = _operator(rule.operator)(_contiguous(grad), *rule.arguments(ctx.arguments))
        return (_waited(result), *[None] * len(ctx.arguments))

    return _formula(backward, setup_context)


def _formula(backward: Callable[..., Any], setup_context: Callable[..., Any] | None) -> Formula:
    made = Formula()
    made.backward, made.setup_context = backward, setup_context
    return made
