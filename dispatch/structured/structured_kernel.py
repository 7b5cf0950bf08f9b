"""Structured kernels: functional, in-place and ``out=`` forms of an operator from one meta and one stub.

`StructuredKernel.plan` runs the meta function over specs, asks the device's stub for the kernel, and closes
over both: the plan then only reads bytes, computes, and wraps the result.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...runtime.device import device as Device
from ...runtime.memory_format import contiguous_strides
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.tensor_impl import TensorImpl
from ...runtime.tensor_spec import TensorSpec
from ..core.argument_roles import kind_of, spec_of
from ..core.kernel_function import Plan
from ..core.operator_entry import MAX_PLANS, OperatorEntry
from ..schema import FunctionSchema
from ..tensor import Tensor
from .call_plans import compute_nothing, functional_plan, writing_plan
from .meta_base import MetaBase
from .result_types import result_type_of
from .stub import PlannedKernel, StructuredCall, find_kernel

MetaFunction = Callable[..., None]

_LISTS = (list, tuple)
_STATIC = frozenset({int, bool, str, float, ScalarType, None.__class__})


class StructuredKernel:
    """The planner of one form of a structured operator.

    Args:
        meta: ``meta(builder, *arguments)``; sees specs for tensors and classes for numbers.
        stub: the name that devices register kernels under.
        form: ``functional``, ``inplace`` or ``out``.
    """

    __slots__ = ("form", "frame", "meta", "serves_shapes", "stub")

    def __init__(self, meta: MetaFunction, stub: str, form: str) -> None:
        self.meta = meta
        self.stub = stub
        self.form = form
        self.frame: _Frame | None = None
        self.serves_shapes = form != "out"

    def __call__(self, op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
        """The plan for bound arguments."""
        frame = self.frame
        if frame is None or frame.schema is not op.schema:
            frame = self.frame = _frame_of(op)
        _, name, outs, inputs, names, result_type = frame
        runtime = op.runtime_positions(args)
        specs = [
            value._spec
            if value.__class__ is Tensor
            else value
            if value.__class__ in _STATIC
            else spec_of(value)
            for value in args
        ]
        kinds = []
        for position in runtime:
            value = args[position]
            is_tensor = isinstance(value, TensorImpl)
            kinds.append(is_tensor)
            if not is_tensor and isinstance(value, int | float | complex):
                specs[position] = value.__class__
        functional = self.form == "functional"
        known = op.kinds
        kind = kind_of(specs) if self.serves_shapes else None
        if kind in known:
            of_kind = known[kind]
            plan = of_kind(specs)
            if plan is not None:
                plan.of_kind = of_kind  # type: ignore[attr-defined]
                return plan
        given: tuple[Any, ...] = (
            () if functional else (specs[0],) if self.form == "inplace" else tuple([specs[i] for i in outs])
        )
        read = [specs[i] for i in inputs]
        # An output decides where the call runs only if nothing else does.
        has_tensors = bool(outs) and any(spec.__class__ is TensorSpec for spec in read)
        device = device_of(read if has_tensors else specs)
        builder = MetaBase(name, self.form, given, device)
        self.meta(builder, *(read if outs else specs))
        declared = builder.outputs
        outputs = (declared[0],) if len(declared) == 1 else tuple([declared[i] for i in range(len(declared))])
        proxy = builder.proxy
        computed = tuple([proxy.get(i, spec) for i, spec in enumerate(outputs)]) if proxy else outputs
        call = StructuredCall(
            name,
            {names[i]: specs[i] for i in inputs},
            tuple([names[i] for i in runtime if i not in outs] if outs else [names[i] for i in runtime]),
            computed,
            builder.iterator,
            outputs[0].device if outputs else device,
            builder.extra,
        )
        if call.device.type == "meta":
            kernel = PlannedKernel(compute_nothing, any_shape=sys.maxsize)
        else:
            kernel = find_kernel(self.stub, call.device.type, name)(call)
        one_list = len(runtime) == 1 and _is_list(specs[runtime[0]])
        written = len(runtime) - len(outs) if self.form == "out" else 0

        def plan_for(kernel: PlannedKernel, outputs: tuple[TensorSpec, ...]) -> Plan:
            if functional:
                return functional_plan(kernel, outputs, kinds, result_type, one_list)
            return writing_plan(kernel, builder, outputs, kinds, written, result_type, call.runtime)

        plan = plan_for(kernel, outputs)
        if builder.iterator is None:
            self.serves_shapes = False
        if kind is not None and kernel.any_shape and _is_plain(builder, specs):
            of_kind = plans_of_kind(plan_for, kernel, outputs[0].dtype, functional)
            plan.of_kind = of_kind  # type: ignore[attr-defined]
            if len(known) < MAX_PLANS:
                known[kind] = of_kind
        return plan


def _is_list(specs: Any) -> bool:
    """Whether a runtime argument is a list of tensors, none of them missing."""
    return specs.__class__ is tuple and all(spec.__class__ is TensorSpec for spec in specs)


def _is_plain(builder: MetaBase, specs: Sequence[Any]) -> bool:
    """Whether an iterator over all of a call's tensors decides its one output, and all of them are contiguous."""
    iterator = builder.iterator
    if iterator is None or not builder.built or len(builder.outputs) != 1:
        return False
    tensors = [spec for spec in specs if spec.__class__ is TensorSpec]
    if sum(operand.original_spec is not None for operand in iterator.inputs) != len(tensors):
        return False
    return all(s.is_contiguous and s.ndim and not s.is_inference and not s.read_only for s in tensors)


class _Frame(NamedTuple):
    """What a form's planning needs of its operator, whatever the call."""

    schema: FunctionSchema
    name: str
    outs: list[int]
    inputs: list[int]
    names: list[str]
    result_type: Callable[[Sequence[Any]], Any] | None


def _frame_of(op: OperatorEntry) -> _Frame:
    arguments = op.schema.arguments
    outs = [i for i, a in enumerate(arguments) if a.is_out]
    return _Frame(
        op.schema,
        op.name.partition("::")[2].partition(".")[0].rstrip("_"),
        outs,
        [i for i in range(len(arguments)) if i not in outs],
        [a.name for a in arguments],
        result_type_of(op.schema),
    )


def plans_of_kind(
    plan_for: Callable[[PlannedKernel, tuple[TensorSpec, ...]], Plan],
    kernel: PlannedKernel,
    dtype: ScalarType,
    functional: bool,
) -> Callable[[Sequence[Any]], Plan | None]:
    """A function from a call on contiguous tensors of the same dtypes to its plan.

    A stream of new shapes then pays for neither meta function nor kernel choice. It gives None for calls that take
    the long way: of more elements than the kernel serves, or that do not broadcast plainly.

    Args:
        plan_for: makes a plan from a kernel and the output's spec.
        dtype: of the output.
        functional: whether the output is new, or the first argument.
    """

    largest, sized = kernel.any_shape, kernel.sized

    def of_kind(parts: Sequence[Any]) -> Plan | None:
        first = parts[0]
        if first.__class__ is not TensorSpec:
            return None
        sizes = first.sizes
        for part in parts:
            if part.__class__ is TensorSpec and part is not first and part.sizes != sizes:
                broadcast = plain_broadcast(sizes, part.sizes)
                if broadcast is None or part.strides != contiguous_strides(part.sizes):
                    return None
                sizes = broadcast
        if not functional:
            result = first
            if sizes != first.sizes:
                return None
        elif sizes is first.sizes and first.dtype is dtype and 1 not in sizes and 0 not in sizes:
            result = first.detached
        else:
            # Dimensions of one element have whatever strides; those of the result are the iterator's to say.
            if first.strides != contiguous_strides(first.sizes):
                return None
            result = TensorSpec.contiguous(sizes, dtype, first.device)
        if result.numel > largest:
            return None
        return plan_for(kernel if sized is None else sized(sizes), (result,))

    return of_kind


def plain_broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape that two of one rank broadcast to; None for others, and for those that do not."""
    if len(a) != len(b):
        return None
    sizes = [m if n == 1 else n for m, n in zip(a, b, strict=True)]
    for size, m, n in zip(sizes, a, b, strict=True):
        if (m != size and m != 1) or (n != size and n != 1):
            return None
    return tuple(sizes)


def device_of(specs: Sequence[Any]) -> Device:
    """The device of a call: of the first tensor that is no 0-d host tensor, of the first tensor, or as named."""
    found = None
    for value in specs:
        for spec in value if isinstance(value, tuple) else (value,):
            if isinstance(spec, TensorSpec):
                if spec.ndim or spec.device.type != "cpu":
                    return spec.device
                found = found or spec.device
            elif isinstance(spec, Device) and found is None:
                found = spec
    return found if found is not None else Device("cpu")
