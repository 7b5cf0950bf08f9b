"""Helpers of generated autograd wrappers: relevant inputs, saved values, and planners around other planners."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...runtime.grad_mode import grad_disabled, is_grad_enabled
from ...runtime.local_dispatch_key_set import local
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.tensor_impl import TensorImpl
from ..core.bound_arguments import tensors_in
from ..core.kernel_function import Plan
from ..core.operator_entry import BELOW_AUTOGRAD, OperatorEntry
from ..schema.types import is_tensor_like
from .inplace import check_inplace, rebase_history
from .node import NotImplementedBackward, edge_of, next_sequence, saved_version, set_history
from .tangents import FORWARD_BIT

if TYPE_CHECKING:
    from ..tensor import Tensor

AutogradPlanner = Callable[[OperatorEntry, int, Sequence[Any]], Plan]


def requires_grad(value: object) -> bool:
    """Return whether an argument is a tensor that requires grad."""
    return isinstance(value, TensorImpl) and value._spec.requires_grad


def is_discrete(dtype: ScalarType | None) -> bool:
    """Return whether a requested dtype has no gradient, so that history is irrelevant."""
    return dtype is not None and not (dtype.is_floating_point or dtype.is_complex)


_COPIES = {"aten::clone", "aten::_to_copy"}
"""Operators that record a copy of an inference tensor: the copy is a normal tensor."""


def reads_inference_tensors_only(op: OperatorEntry, args: Sequence[Any]) -> bool:
    """Return whether all tensor arguments are inference tensors, so that the call is not recorded.

    A number for a tensor argument counts as a normal tensor, as in PyTorch.
    """
    has_tensor = False
    for argument, value in zip(op.schema.arguments, args, strict=True):
        if not is_tensor_like(argument.type) or value is None:
            continue
        for each in value if isinstance(value, (list, tuple)) else (value,):
            if not isinstance(each, TensorImpl) or not each._spec.is_inference:
                return False
            has_tensor = True
    return has_tensor and op.name not in _COPIES


def spec_of(value: Any) -> Any:
    """Return a tensor's spec, a list of specs for a list, and None for a number or None."""
    if isinstance(value, TensorImpl):
        return value._spec.detached
    return [spec_of(v) for v in value] if isinstance(value, (list, tuple)) else None


def version_of(value: object) -> int:
    """Return the version to store with a saved argument, which may be a number."""
    return saved_version(value) if isinstance(value, TensorImpl) else 0


def clone_before_write(tensor: Tensor) -> Tensor:
    """Copy a tensor before it is written to, for a formula that needs the old values.

    The copy is part of the graph, which supplies its tangents and second derivatives.
    """
    excluded = local.excluded
    local.excluded &= ~FORWARD_BIT
    try:
        return tensor.clone()
    finally:
        local.excluded = excluded


def writes_are_refused_first(planner: AutogradPlanner) -> AutogradPlanner:
    """Wrap an in-place operator's planner: report a refused write before other errors of the call, as PyTorch does."""

    @functools.wraps(planner)
    def plan(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
        try:
            return planner(op, key_set, args)
        except Exception:  # reported unchanged, unless a write is refused
            refusal = _refusal_of_writes(op, args)
            if refusal is None:
                raise
            raise refusal from None

    return plan


_REFUSING_GRADIENTS = {"aten::resize_", "aten::resize_as_", "aten::set_"}
"""Operators that reject arguments that require grad with their own messages."""


def _refusal_of_writes(op: OperatorEntry, args: Sequence[Any]) -> RuntimeError | None:
    """Return the error of `check_inplace` for a call's writes, or None."""
    if not is_grad_enabled() or op.name.partition(".")[0] in _REFUSING_GRADIENTS:
        return None
    for argument, value in zip(op.schema.arguments, args, strict=True):
        if argument.is_write and not argument.is_out:
            for target in tensors_in([value]):
                try:
                    check_inplace(target)
                except RuntimeError as error:
                    return error
    return None


def partly_scaled(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Return a plan that passes all scales (beta, alpha), for a call where only some are at their defaults."""
    positions = op.runtime_positions(args)
    fixed = list(args)
    for position in positions:
        fixed[position] = None

    def record(*runtime: Any) -> Any:
        # A new list for each call: other threads run this too, and a plan must not keep tensors alive.
        values = fixed.copy()
        for position, value in zip(positions, runtime, strict=True):
            values[position] = value
        return op.call_with_keys(key_set, [float(v) if v.__class__ is int else v for v in values])

    return record


@writes_are_refused_first
def not_differentiable(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan the fallback of autograd keys: compute, and record a node that raises PyTorch's error in backward."""
    inner = op.plan(key_set & BELOW_AUTOGRAD, args)
    name = op.name.partition(".")[0]
    arguments = op.schema.arguments
    written = [
        index
        for index, position in enumerate(op.runtime_positions(args))
        if arguments[position].is_write and not arguments[position].is_out
    ]

    def record(*runtime: Any) -> Any:
        if grad_disabled and not is_grad_enabled():
            return inner(*runtime)
        overwritten = [t for t in tensors_in([runtime[index] for index in written]) if _is_real(t)]
        for target in overwritten:
            check_inplace(target)
        sources = [t for t in tensors_in(runtime) if t._spec.requires_grad]
        edges = tuple(edge_of(t) for t in sources)
        out = inner(*runtime)
        if op.schema.is_mutable:
            targets = overwritten
        else:
            results = out if isinstance(out, tuple | list) else (out,)
            targets = [
                o for o in results if isinstance(o, TensorImpl) and _is_real(o) and not o._spec.requires_grad
            ]
        if sources and targets:
            node = NotImplementedBackward()
            node.operator = name
            node.next_edges = edges
            node.sequence = next_sequence()
            node.hooks = None
            node.specs = tuple(t._spec for t in targets)
            for number, target in enumerate(targets):
                if overwritten:
                    rebase_history(target, node)
                else:
                    set_history(target, node, number)
        return out

    return record


def gradient_refused(op: OperatorEntry, inner: Plan, argument: str) -> Plan:
    """Wrap a plan to raise in grad mode if an argument without a derivative requires grad."""
    name = op.name.partition("::")[2].partition(".")[0]

    def refuse(*runtime: Any) -> Any:
        if grad_disabled and not is_grad_enabled():
            return inner(*runtime)
        raise RuntimeError(
            f"The function '{name}' is not differentiable with respect to argument '{argument}'. This input cannot "
            "have requires_grad True."
        )

    return refuse


def _is_real(tensor: TensorImpl) -> bool:
    dtype = tensor._spec.dtype
    return dtype.is_floating_point or dtype.is_complex


@writes_are_refused_first
def never_differentiable(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan operators whose results carry no gradient (comparisons, argmax): autograd is skipped."""
    return op.plan(key_set & BELOW_AUTOGRAD, args)


def out_refuses_grad(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``out=`` forms: raise if an argument requires grad and grad mode is on."""
    name = op.name.partition("::")[2].partition(".")[0]

    def refusal() -> RuntimeError:
        return RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad."
        )

    if is_grad_enabled():
        raise refusal()  # raised before other errors of the call
    inner = op.plan(key_set & BELOW_AUTOGRAD, args)

    def record(*runtime: Any) -> Any:
        if not grad_disabled or is_grad_enabled():
            raise refusal()
        return inner(*runtime)

    return record
