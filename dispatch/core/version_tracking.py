"""Version counters and view bases around user-registered backend kernels (torch ADInplaceOrViewType).

Plans of this package bump the versions that they write, record the bases of their views and name their results
themselves. A user's kernel, registered at a backend's key for one of these operators, does none of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...runtime.dispatch_key import DispatchKey, Functionality
from ...runtime.grad_mode import grad_disabled
from ...runtime.storage import root_of
from ...runtime.tensor_impl import TensorImpl
from .kernel_function import KernelFunction, Plan

if TYPE_CHECKING:
    from .operator_entry import OperatorEntry

_BACKENDS = frozenset(
    {Functionality.Dense, Functionality.Quantized, Functionality.Sparse, Functionality.SparseCsr}
)


def tracked(
    op: OperatorEntry, key: DispatchKey, kernel: KernelFunction, args: Sequence[Any], plan: Plan
) -> Plan:
    """Wrap `plan` of a foreign kernel: count its writes once, record its views' bases, name several results.

    As in PyTorch, this applies only to operators of ``aten``. A user's own operator has a kernel for ADInplaceOrView,
    or goes without.
    """
    if key.functionality not in _BACKENDS or not op.name.startswith("aten::"):
        return plan
    if op.origin_of(key, op.kernels) not in (key, None):
        return plan
    schema = op.schema
    positions = op.runtime_positions(args)
    written = [index for index, position in enumerate(positions) if schema.arguments[position].is_write]
    if written:
        return _counted(plan, written, op.schema.is_inplace)
    aliases = [each.alias_info for each in schema.returns if each.alias_info is not None]
    for index, position in enumerate(positions):
        info = schema.arguments[position].alias_info
        if info is not None and aliases:
            return _based(plan, index, op.name != "aten::detach")
    return _named(plan, op)


def _named(plan: Plan, op: OperatorEntry) -> Plan:
    from .result_types import result_type_of

    make = result_type_of(op.schema)
    if make is None or make is tuple:
        return plan

    def named(*runtime: Any) -> Any:
        out = plan(*runtime)
        return make(out) if isinstance(out, (list, tuple)) else out

    return named


def _counted(plan: Plan, written: Sequence[int], inplace: bool) -> Plan:
    def counted(*runtime: Any) -> Any:
        targets = [runtime[index] for index in written if isinstance(runtime[index], TensorImpl)]
        before = [None if t._spec.is_inference else t.current_version() for t in targets]
        out = plan(*runtime)
        for target, version in zip(targets, before, strict=True):
            if version is not None:
                target.version_cell()[0] = version + 1
        return runtime[written[0]] if inplace else out

    return counted


def _based(plan: Plan, index: int, differentiable: bool) -> Plan:
    from ..autograd.creation import creation_of, mark_unrecorded

    def based(*runtime: Any) -> Any:
        base = runtime[index]
        out = plan(*runtime)
        for view in out if isinstance(out, tuple | list) else (out,):
            if (
                isinstance(view, TensorImpl)
                and view is not base
                and view._view_base is None
                and not base._spec.is_inference
                and root_of(view._data) is root_of(base._data)
            ):
                view._version_cell = base.version_cell()
                view._made_at, view._alias_mark = view._version_cell[0], None
                if differentiable:
                    view._view_base = base if base._view_base is None else base._view_base
                    view._creation = None if base._view_base is None else creation_of(base)
                    if grad_disabled:
                        mark_unrecorded(view)
        return out

    return based
