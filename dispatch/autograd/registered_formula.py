"""Autograd kernel of an operator whose formula is registered from Python (torch/_library/autograd.py).

Every call records a node. Backward calls the formula, and raises if none is registered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...runtime.dispatch_key import Functionality, functionality_bit
from ...runtime.grad_mode import grad_disabled, is_grad_enabled, set_grad_enabled
from ...runtime.tensor_impl import TensorImpl
from ..core.bound_arguments import tensors_in
from ..core.operator_entry import BELOW_AUTOGRAD, OperatorEntry
from .function import Function, FunctionCtx

_BATCHED = functionality_bit(Functionality.Batched)

Layout = list[int | None]
"""Structure of flattened values: None for a single value, or the number of elements of a list."""


class Formula:
    """Arguments of `register_autograd`: ``backward(ctx, *grads)`` and the function that saves values for it."""

    __slots__ = ("backward", "setup_context")

    def __init__(self) -> None:
        self.backward: Callable[..., Any] | None = None
        self.setup_context: Callable[..., Any] | None = None


def formula_kernel(op: OperatorEntry, formula: Formula) -> Callable[..., Any]:
    """Return a kernel for the Autograd key, called with the key set's bits and all arguments."""
    function: type[_RecordedCall] | None = None

    def kernel(bits: int, *args: Any) -> Any:
        nonlocal function
        if (grad_disabled and not is_grad_enabled()) or not any(
            t._spec.requires_grad for t in tensors_in(args)
        ):
            return op.call_with_keys(bits & BELOW_AUTOGRAD, args)
        if function is None:
            name = op.name.replace("::", "_").replace(".", "_")
            overload = "" if op.schema.overload_name else "_default"
            function = type(
                f"GeneratedBackwardFor_{name}{overload}", (_RecordedCall,), {"op": op, "formula": formula}
            )
        return function.call(bits & BELOW_AUTOGRAD, args)

    return kernel


def flatten(values: Sequence[Any]) -> tuple[list[Any], Layout]:
    """Flatten lists of tensors, since a node's inputs and outputs are tensors."""
    flat: list[Any] = []
    layout: Layout = []
    for value in values:
        if isinstance(value, tuple | list) and all(v is None or isinstance(v, TensorImpl) for v in value):
            flat += value
            layout.append(len(value))
        else:
            flat.append(value)
            layout.append(None)
    return flat, layout


def unflatten(flat: Sequence[Any], layout: Layout) -> list[Any]:
    """Undo `flatten`."""
    rest = iter(flat)
    return [next(rest) if n is None else [next(rest) for _ in range(n)] for n in layout]


class _Call:
    """Call data that the node's inputs do not hold."""

    __slots__ = ("bits", "inputs", "keyword_only", "outputs", "several")

    def __init__(self, bits: int, inputs: Layout, keyword_only: Sequence[Any]) -> None:
        self.bits = bits
        self.inputs = inputs
        self.keyword_only = keyword_only
        self.outputs: Layout = []
        self.several = False


class _RecordedCall(Function):
    """`Function` of one operator; its last argument is the `_Call`."""

    op: OperatorEntry
    formula: Formula

    @classmethod
    def call(cls, bits: int, args: Sequence[Any]) -> Any:
        """Return the operator's recorded result on these arguments."""
        count = len(cls.op.schema.positional_arguments)
        flat, inputs = flatten(args[:count])
        call = _Call(bits, inputs, args[count:])
        results = unflatten(cls._apply((*flat, call)), call.outputs)
        if not call.outputs:
            return None
        return tuple(results) if call.several else results[0]

    @classmethod
    def forward(cls, ctx: FunctionCtx, *flat: Any) -> tuple[Any, ...]:
        op, formula, call = cls.op, cls.formula, flat[-1]
        inputs = tuple(unflatten(flat[:-1], call.inputs))
        # Batching rules run on tensors outside their vmap, which autograd records separately.
        before = set_grad_enabled(bool(call.bits & _BATCHED))
        try:
            result = op.call_with_keys(call.bits, (*inputs, *call.keyword_only))
        finally:
            set_grad_enabled(before)
        call.several = len(op.schema.returns) > 1
        values = () if not op.schema.returns else result if call.several else (result,)
        results, call.outputs = flatten(values)
        ctx.__dict__["_call"] = call
        if formula.setup_context is not None:
            names = [a.name for a in op.schema.kwarg_only_arguments]
            context_args: dict[str, Any] = {"ctx": ctx, "inputs": _opened(inputs), "output": result}
            if names:
                context_args["keyword_only_inputs"] = dict(zip(names, call.keyword_only, strict=True))
            with _as_called(ctx, call):
                formula.setup_context(**context_args)
        return tuple(results)

    @classmethod
    def backward(cls, ctx: FunctionCtx, *grads: Any) -> tuple[Any, ...]:
        formula, call = cls.formula, ctx.__dict__["_call"]
        if formula.backward is None:
            namespace, _, rest = cls.op.name.partition("::")
            name = rest if "." in rest else f"{rest}.default"
            raise RuntimeError(
                f"Trying to backward through {namespace}.{name} but no autograd formula was registered. "
                "Please use register_autograd to add one."
            )
        with _as_called(ctx, call):
            input_grads = formula.backward(ctx, *unflatten(grads, call.outputs))
        return (
            *_flat_gradients(
                ctx, input_grads if isinstance(input_grads, tuple) else (input_grads,), call.inputs
            ),
            None,
        )


def _opened(values: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(list(v) if isinstance(v, tuple) else v for v in values)


@contextmanager
def _as_called(ctx: FunctionCtx, call: _Call) -> Iterator[None]:
    """Give `ctx.needs_input_grad` the structure of the operator's arguments inside the block."""
    flat = ctx.needs_input_grad
    ctx.needs_input_grad = tuple(unflatten(flat[:-1], call.inputs))
    try:
        yield
    finally:
        ctx.needs_input_grad = flat


def _flat_gradients(ctx: FunctionCtx, grads: tuple[Any, ...], inputs: Layout) -> list[Any]:
    """Return a formula's gradients, one for each input, with lists flattened as the inputs are."""
    if len(grads) > len(inputs) and all(g is None for g in grads[len(inputs) :]):
        grads = grads[: len(inputs)]
    if len(grads) != len(inputs):
        raise RuntimeError(
            f"function {ctx.name()} returned an incorrect number of gradients (expected {len(inputs)}, got "
            f"{len(grads)})"
        )
    flat: list[Any] = []
    for position, (grad, count) in enumerate(zip(grads, inputs, strict=True)):
        if count is None:
            flat.append(grad)
        elif grad is None:
            flat += [None] * count
        elif isinstance(grad, tuple | list) and len(grad) == count:
            flat += grad
        else:
            got = f"{len(grad)} of them" if isinstance(grad, tuple | list) else type(grad).__name__
            raise RuntimeError(
                f"function {ctx.name()}: Expected the return from backward to be of the same structure as the "
                f"inputs: a list of {count} gradients at position {position + 1}, got {got}"
            )
    return flat
