"""Structured kernels: functional, in-place and ``out=`` forms of an operator from one meta function and one stub.

`StructuredKernel` turns bound arguments into specs, the only input of planning (`structured.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...runtime.device import device as Device
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.tensor_impl import TensorImpl
from ...runtime.tensor_spec import TensorSpec
from ..core.bound_arguments import spec_of
from ..core.call_kind import kind_of, leave_replanner
from ..core.kernel_function import Plan
from ..core.operator_entry import MAX_PLANS, OperatorEntry
from ..structured.meta_base import MetaBase
from ..structured.stub import PlannedKernel, StructuredCall, find_kernel
from ..tensor import Tensor
from .structured import FormPlanner, Frame, MetaFunction, frame_of

_STATIC = frozenset({int, bool, str, float, ScalarType, None.__class__})


class StructuredKernel:
    """The planner of one form of a structured operator.

    Args:
        meta: ``meta(builder, *arguments)``; sees specs for tensors and classes for numbers.
        stub: The name under which devices register kernels.
        form: ``functional``, ``inplace`` or ``out``.
    """

    __slots__ = ("form", "frame", "meta", "serves_shapes", "stub")

    def __init__(self, meta: MetaFunction, stub: str, form: str) -> None:
        self.meta = meta
        self.stub = stub
        self.form = form
        self.frame: Frame | None = None
        self.serves_shapes = form != "out"

    def __call__(self, op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
        """Return the plan for bound arguments."""
        frame = self.frame
        if frame is None or frame.schema is not op.schema:
            frame = self.frame = frame_of(op)
        runtime = op.runtime_positions(args)
        specs = [
            value._spec
            if value.__class__ is Tensor
            else value
            if value.__class__ in _STATIC
            else spec_of(value)
            for value in args
        ]
        are_tensors = []
        for position in runtime:
            value = args[position]
            is_tensor = isinstance(value, TensorImpl)
            are_tensors.append(is_tensor)
            if not is_tensor and isinstance(value, int | float | complex):
                specs[position] = value.__class__
        known = op.replanners
        kind = kind_of(specs) if self.serves_shapes else None
        if kind in known:
            replanner = known[kind]
            plan = replanner(specs)
            if plan is not None:
                return leave_replanner(plan, op, replanner)
        read = [specs[i] for i in frame.inputs]
        # An output determines the device only if no other argument does.
        has_tensors = bool(frame.outs) and any(spec.__class__ is TensorSpec for spec in read)
        device = device_of(read if has_tensors else specs)
        shared = (self, tuple(runtime), tuple(are_tensors), device)
        planner = known.get(shared)
        if not isinstance(planner, FormPlanner):
            planner = known[shared] = FormPlanner(
                self.meta, self.stub, self.form, frame, runtime, are_tensors, device
            )
        plan, new_replanner, is_iterator = planner.plan(specs, kind is not None)
        if new_replanner is None and not is_iterator:
            self.serves_shapes = False
        elif kind is not None and new_replanner is not None and len(known) < MAX_PLANS:
            known[kind] = new_replanner
        return plan if self.form == "out" else leave_replanner(plan, op, new_replanner or planner)

    def planned_kernel(
        self, op: OperatorEntry, values: Sequence[Any]
    ) -> tuple[StructuredCall, PlannedKernel]:
        """Return the kernel of a functional call, without a plan around it. `values` has specs instead of tensors."""
        frame = frame_of(op)
        runtime = op.runtime_positions(values)
        specs = list(values)
        for position in runtime:
            if isinstance(specs[position], int | float | complex):
                specs[position] = specs[position].__class__
        device = device_of(specs)
        builder = MetaBase(frame.name, "functional", [], device)
        self.meta(builder, *specs)
        outputs = tuple([builder.outputs[i] for i in range(len(builder.outputs))])
        args = dict(zip(frame.names, specs, strict=True))
        passed = tuple([frame.names[i] for i in runtime])
        where = outputs[0].device
        call = StructuredCall(frame.name, args, passed, outputs, builder.iterator, where, builder.extra)
        return call, find_kernel(self.stub, where.type, frame.name)(call)


def device_of(specs: Sequence[Any]) -> Device:
    """Return the device of a call: of the first tensor that is not a 0-d host tensor, of the first tensor, or as
    named.
    """
    device = None
    for value in specs:
        for spec in value if isinstance(value, tuple) else (value,):
            if isinstance(spec, TensorSpec):
                if spec.ndim or spec.device.type != "cpu":
                    return spec.device
                device = device or spec.device
            elif isinstance(spec, Device) and device is None:
                device = spec
    return device if device is not None else Device("cpu")
