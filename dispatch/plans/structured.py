"""Plans of a structured operator's form, made from the specs of a call's arguments.

Decisions shared by the calls of one kind are made once (`core/call_kind.py`). A call on new shapes then pays for the
meta function and the choice of a kernel. It pays for neither if the kernel is independent of sizes and a rule gives
the output's sizes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...runtime.device import CPU
from ...runtime.device import device as Device
from ...runtime.memory_format import contiguous_strides
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.spare_memory import CHECKED_FROM, require_memory
from ...runtime.tensor_spec import TensorSpec
from ..core.call_kind import Replanner
from ..core.kernel_function import Plan
from ..core.operator_entry import OperatorEntry
from ..core.result_types import result_type_of
from ..schema import FunctionSchema
from ..structured.meta_base import MetaBase
from ..structured.stub import KernelFactory, PlannedKernel, StructuredCall, find_kernel, for_checked
from .functional import FunctionalForm, list_length, slot_of
from .writing import compute_nothing, writing_plan

MetaFunction = Callable[..., None]
PlanFor = Callable[[PlannedKernel, tuple[TensorSpec, ...]], Plan]


class Frame(NamedTuple):
    """Call-independent facts about an operator that planning a form needs."""

    schema: FunctionSchema
    name: str
    outs: list[int]
    inputs: list[int]
    names: list[str]
    result_type: Callable[[Sequence[Any]], Any] | None


def frame_of(op: OperatorEntry) -> Frame:
    """Return the frame of an operator."""
    arguments = op.schema.arguments
    outs = [i for i, a in enumerate(arguments) if a.is_out]
    return Frame(
        op.schema,
        op.name.partition("::")[2].partition(".")[0].rstrip("_"),
        outs,
        [i for i in range(len(arguments)) if i not in outs],
        [a.name for a in arguments],
        result_type_of(op.schema),
    )


def _round_first(builder: MetaBase, common: ScalarType) -> None:
    """Round results of a 16-bit common dtype, computed in a wider one, to it before they are cast to another dtype."""
    if common.is_floating_point and common.itemsize <= 2:
        for i, spec in builder.outputs.items():
            dtype = spec.dtype
            if dtype is not common and (dtype.is_floating_point or dtype.is_complex):
                builder.proxy.setdefault(
                    i, TensorSpec.of(spec.sizes, contiguous_strides(spec.sizes), common, spec.device)
                )


class FormPlanner:
    """Planner of a form's calls from specs of tensors, classes of numbers and values of other arguments.

    It serves the calls that run on one device and have tensors in the same positions. Called with specs, it replans.

    Args:
        meta: ``meta(builder, *arguments)``.
        stub: The name under which devices register kernels.
        form: ``functional``, ``inplace`` or ``out``.
        frame: The operator's frame.
        runtime: Positions of the arguments that plans take.
        are_tensors: True for each of those that is a tensor.
        device: Device of the calls.
    """

    __slots__ = (
        "are_tensors",
        "device",
        "factory",
        "form",
        "forms",
        "frame",
        "given",
        "meta",
        "others",
        "passed",
        "runtime",
        "stub",
        "written",
    )

    def __init__(
        self,
        meta: MetaFunction,
        stub: str,
        form: str,
        frame: Frame,
        runtime: Sequence[int],
        are_tensors: Sequence[bool],
        device: Device,
    ) -> None:
        self.meta = meta
        self.stub = stub
        self.form = form
        self.frame = frame
        self.are_tensors = are_tensors
        self.device = device
        self.runtime = runtime
        outs, names = frame.outs, frame.names
        self.given = [] if form == "functional" else [0] if form == "inplace" else outs
        self.passed = tuple([names[i] for i in runtime if i not in outs])
        self.written = len(self.passed) if form == "out" else 0
        self.others = [i for i, is_tensor in zip(runtime, are_tensors, strict=True) if not is_tensor]
        self.forms: dict[tuple[int, ...], FunctionalForm] = {}
        self.factory: tuple[Device, KernelFactory] | None = None

    def __call__(self, specs: Sequence[Any]) -> Plan:
        """Return the plan of another call."""
        return self.plan(specs, False)[0]

    def plan(self, specs: Sequence[Any], serves_shapes: bool) -> tuple[Plan, Replanner | None, bool]:
        """Return the plan of a call, a cheaper replanner of its kind, and whether an iterator decides the outputs.

        Args:
            specs: The call's arguments.
            serves_shapes: If True, look for a replanner.
        """
        _, name, outs, inputs, names, result_type = self.frame
        builder = MetaBase(name, self.form, [specs[i] for i in self.given], self.device)
        read = [specs[i] for i in inputs] if outs else specs
        self.meta(builder, *read)
        declared = builder.outputs
        iterator = builder.iterator
        if outs and iterator is not None and iterator.has_common_dtype and not iterator.is_reduction:
            named: Any = builder.extra.get("common_dtype")
            _round_first(builder, named or iterator.common_dtype)
        outputs = (declared[0],) if len(declared) == 1 else tuple([declared[i] for i in range(len(declared))])
        proxy = builder.proxy
        computed = tuple([proxy.get(i, spec) for i, spec in enumerate(outputs)]) if proxy else outputs
        where = outputs[0].device if outputs else self.device
        args = dict(zip([names[i] for i in inputs] if outs else names, read, strict=True))
        call = StructuredCall(name, args, self.passed, computed, builder.iterator, where, builder.extra)
        if where.type == "meta":
            kernel = PlannedKernel(compute_nothing, any_shape=sys.maxsize)
        else:
            if where is CPU and outputs:
                nbytes = max([spec.nbytes for spec in outputs])
                if nbytes >= CHECKED_FROM:
                    require_memory(nbytes, f"{name}: a result")
            cached = self.factory
            if cached is None or cached[0] is not where:
                cached = self.factory = (where, find_kernel(self.stub, where.type, name))
            kernel = cached[1](call)
        is_functional = self.form == "functional"
        if is_functional:
            listed = tuple([list_length(specs[i]) for i in self.others]) if self.others else ()
            form = self.forms.get(listed)
            if form is None:
                slots = tuple([slot_of(specs[i]) for i in self.runtime])
                form = self.forms[listed] = FunctionalForm(slots, result_type)
            plan_for: PlanFor = form.plan
        else:
            plan_for = self._writing(builder)
        plan, replanner = plan_for(kernel, outputs), None
        if builder.rule is not None and is_functional and where.type != "meta":
            replanner = self._rule_replanner(builder.rule, call, kernel, plan_for)
        elif kernel.any_shape and serves_shapes and _is_decided(builder, specs):
            tensors = [spec for spec in specs if spec.__class__ is TensorSpec]
            if all(spec.is_contiguous and spec.ndim for spec in tensors):
                replanner = plain_replanner(plan_for, kernel, outputs[0].dtype, is_functional)
            elif is_functional and repeats_elements(tensors):
                replanner = repeating_replanner(plan_for, kernel, outputs[0].dtype)
        return plan, replanner, builder.iterator is not None

    def _writing(self, builder: MetaBase) -> PlanFor:
        """Return a function from a kernel and outputs to the plan of an in-place or ``out=`` form."""
        are_tensors, written, passed = self.are_tensors, self.written, self.passed
        gather = self.frame.result_type

        def plan_for(kernel: PlannedKernel, outputs: tuple[TensorSpec, ...]) -> Plan:
            return writing_plan(kernel, builder, outputs, are_tensors, written, gather, passed)

        return plan_for

    def _rule_replanner(
        self,
        rule: Callable[[Sequence[Any]], TensorSpec | None],
        call: StructuredCall,
        kernel: PlannedKernel,
        plan_for: PlanFor,
    ) -> Replanner:
        """Return the replanner of calls whose single output follows from a meta function's `rule`."""
        assert self.factory is not None
        factory, largest, sized = for_checked(self.factory[1]), kernel.any_shape, kernel.sized
        names = self.frame.names
        name, _, passed, _, _, where, extra = call

        def replanner(specs: Sequence[Any]) -> Plan | None:
            out = rule(specs)
            if out is None:
                return self(specs)
            if largest and out.numel <= largest:
                return plan_for(kernel if sized is None else sized(out.sizes), (out,))
            args = dict(zip(names, specs))  # noqa: B905 - as many as the operator has
            return plan_for(factory(StructuredCall(name, args, passed, (out,), None, where, extra)), (out,))

        return replanner


def _is_decided(builder: MetaBase, specs: Sequence[Any]) -> bool:
    """Return whether an iterator over all of a call's tensors decides its single output, without special operands."""
    iterator = builder.iterator
    if iterator is None or not builder.built or len(builder.outputs) != 1:
        return False
    tensors = [spec for spec in specs if spec.__class__ is TensorSpec]
    if sum(operand.original_spec is not None for operand in iterator.inputs) != len(tensors):
        return False
    return not any(spec.is_inference or spec.read_only for spec in tensors)


def repeats_elements(tensors: Sequence[TensorSpec]) -> bool:
    """Return whether tensors of one shape are contiguous, or expanded from one element each, as a sum's gradient is."""
    sizes = tensors[0].sizes
    if 1 in sizes or 0 in sizes or not any(spec.is_contiguous for spec in tensors):
        return False
    return all(spec.sizes == sizes and (spec.is_contiguous or not any(spec.strides)) for spec in tensors)


def repeating_replanner(plan_for: PlanFor, kernel: PlannedKernel, dtype: ScalarType) -> Replanner:
    """Return `plain_replanner` for calls that satisfy `repeats_elements`; their kind tells which tensors are
    expanded.
    """
    largest, sized = kernel.any_shape, kernel.sized

    def replanner(specs: Sequence[Any]) -> Plan | None:
        tensors = [spec for spec in specs if spec.__class__ is TensorSpec]
        if not repeats_elements(tensors):
            return None
        sizes = tensors[0].sizes
        result = TensorSpec.contiguous(sizes, dtype, tensors[0].device)
        if result.numel > largest:
            return None
        return plan_for(kernel if sized is None else sized(sizes), (result,))

    return replanner


def plain_replanner(
    plan_for: PlanFor, kernel: PlannedKernel, dtype: ScalarType, is_functional: bool
) -> Replanner:
    """Return the replanner of calls on contiguous tensors.

    A stream of new shapes then pays for neither the meta function nor kernel selection. The replanner returns None
    for a call that needs full planning: one with more elements than the kernel serves, or with a complex broadcast.

    Args:
        plan_for: Function from a kernel and the output's spec to a plan.
        dtype: Dtype of the output.
        is_functional: True if the output is new, False if it is the first argument.
    """

    largest, sized = kernel.any_shape, kernel.sized

    def replanner(specs: Sequence[Any]) -> Plan | None:
        first = specs[0]
        if first.__class__ is not TensorSpec:
            return None
        sizes = first.sizes
        for spec in specs:
            if spec.__class__ is TensorSpec and spec is not first and spec.sizes != sizes:
                broadcast = plain_broadcast(sizes, spec.sizes)
                if broadcast is None or spec.strides != contiguous_strides(spec.sizes):
                    return None
                sizes = broadcast
        if not is_functional:
            result = first
            if sizes != first.sizes:
                return None
        elif (
            (sizes is first.sizes or sizes == first.sizes)
            and first.dtype is dtype
            and 1 not in sizes
            and 0 not in sizes
        ):
            result = first.detached
        else:
            # Dimensions of size 1 have arbitrary strides; the iterator determines those of the result.
            if first.strides != contiguous_strides(first.sizes):
                return None
            result = TensorSpec.contiguous(sizes, dtype, first.device)
        if result.numel > largest:
            return None
        return plan_for(kernel if sized is None else sized(sizes), (result,))

    return replanner


def plain_broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the broadcast shape of two shapes of equal rank; None for other ranks or incompatible sizes."""
    if len(a) != len(b):
        return None
    sizes = [m if n == 1 else n for m, n in zip(a, b, strict=True)]
    for size, m, n in zip(sizes, a, b, strict=True):
        if (m != size and m != 1) or (n != size and n != 1):
            return None
    return tuple(sizes)
