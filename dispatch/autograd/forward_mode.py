"""Forward-mode fallback at `ForwardAD`, a key above autograd, that computes tangents beside results.

An operator runs once on the original tensors, so that the backward graph saves them with their tangents. Then
ordinary operators compute each level's tangent, on tensors without the tangents of that level and later ones. Earlier
levels, the graph and batching see these operators like any others.
"""

from __future__ import annotations

import gc
import importlib
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ...runtime.dispatch_key import PYTHON_BIT
from ...runtime.dispatch_key_set import DispatchKeySet
from ...runtime.errors import MissingDerivativeError
from ...runtime.grad_mode import is_grad_enabled, set_grad_enabled
from ...runtime.layout import strided
from ...runtime.local_dispatch_key_set import ExcludeDispatchKeyGuard
from ...runtime.scalar_type import bool_
from ...runtime.tensor_impl import TensorImpl
from ...runtime.version_cell import may_have_views
from ..core.bound_arguments import tensors_in
from ..core.dispatcher import Dispatcher
from ..core.operator_entry import AUTOGRAD, OperatorEntry
from . import gradients as functional
from .creation import unmark
from .node import NotImplementedBackward
from .recording import never_differentiable
from .saved_tensors import packing_later
from .tangents import BATCHED_BIT, FORWARD_BIT, is_visible, set_tangents, tangent_like, tangents_of

if TYPE_CHECKING:
    from ..tensor import Tensor

Formula = Callable[[OperatorEntry, Sequence[Any], Sequence[Any], Any], Sequence[Any]]


def without_tangents() -> ExcludeDispatchKeyGuard:
    """Return a context manager in which this thread's operators compute no tangents."""
    return ExcludeDispatchKeyGuard(FORWARD_BIT)


def forward_fallback(op: OperatorEntry, key_set: DispatchKeySet, stack: list[Any]) -> None:
    """Run an operator, and set the tangents of its results at every level at which an argument has one.

    Raises NotImplementedError for ``out=`` forms and for operators without derivative.
    """
    args = tuple(stack)
    stack.clear()
    levels = sorted(
        {level for tensor in tensors_in(args) for level in tangents_of(tensor) if is_visible(level)}
    )
    schema = op.schema
    if levels and schema.kind == "out":
        raise NotImplementedError(
            f"Trying to use forward AD with {op.name.partition('::')[2].partition('.')[0]}_out that does not support "
            "it because it is an out= function"
        )
    written = [t for a, v in zip(schema.arguments, args, strict=True) if a.is_write for t in tensors_in((v,))]
    had = [dict(tangents_of(t)) for t in written]
    primals = args
    if levels and written:
        # Formulas need the values before the write.
        before = [(tensor, _clone(tensor)) for tensor in written]
        primals = tuple(next((copy for tensor, copy in before if tensor is v), v) for v in args)
    with packing_later():
        with without_tangents():
            result = op.call_with_keys(key_set.raw_repr() & ~FORWARD_BIT, args)
        results = result if isinstance(result, tuple | list) else (result,)
        outputs = list(tensors_in(results))
        for tensor, tangents in zip(written, had, strict=True):
            set_tangents(tensor, tangents)
        for tensor in outputs:
            if not any(tensor is w for w in written):
                set_tangents(tensor, {})
        if levels:
            _differentiate(op, primals, levels, results, written)
    stack.extend(results)


def _differentiate(
    op: OperatorEntry,
    args: Sequence[Any],
    levels: Sequence[int],
    results: Sequence[Any],
    written: Sequence[Any],
) -> None:
    outputs: list[Any] = list(tensors_in(results))
    if not any(is_differentiable(o) for o in outputs) or _never_differentiable(op):
        return
    for level in levels:
        tangents = [_tangents_at(value, level) for value in args]
        primals = [_below(value, level) for value in args]
        try:
            result_tangents = _tangents_of_results(op, primals, tangents, results, bool(written))
        except MissingDerivativeError as error:
            raise _not_implemented(op) from error
        for output, tangent in zip(outputs, result_tangents, strict=True):
            is_written = any(output is w for w in written)
            if is_written:
                _write_tangent(output, level, tangent)
            elif tangent is not None and is_differentiable(output):
                own = fitted(output, tangent, tangents, is_view=output._view_base is not None)
                set_tangents(output, {**tangents_of(output), level: own})
    made: Any
    for number, made in enumerate(outputs):
        if tangents_of(made) and made._spec.requires_grad:
            _share_with_node(op, made, number)


def is_differentiable(tensor: TensorImpl) -> bool:
    """Return whether tensors of this dtype can have tangents."""
    dtype = tensor._spec.dtype
    return bool(dtype.is_floating_point or dtype.is_complex)


def _never_differentiable(op: OperatorEntry) -> bool:
    kernels = op.kernels.get(AUTOGRAD)
    return kernels is not None and kernels[-1].planner is never_differentiable


def _clone(tensor: Any) -> Any:
    return tensor.clone()


def _tangents_at(value: Any, level: int) -> Any:
    """Return the tangents of an argument: None if it has none, a list for a list of tensors."""
    if isinstance(value, TensorImpl):
        return tangents_of(value).get(level)
    if isinstance(value, (list, tuple)):
        tangents = [_tangents_at(v, level) for v in value]
        return None if all(t is None for t in tangents) else tangents
    return None


def _below(value: Any, level: int) -> Any:
    """Return an argument as levels before this one see it."""
    if isinstance(value, (list, tuple)):
        return [_below(v, level) for v in value]
    return below(value, level) if isinstance(value, TensorImpl) else value


def below(tensor: Any, level: int) -> Any:
    """Return a tensor without its tangents of `level` and later ones, over the same memory and in the same graph."""
    tangents = tangents_of(tensor)
    if all(other < level for other in tangents):
        return tensor
    with without_tangents():
        out = tensor.alias()
    set_tangents(out, {other: tangent for other, tangent in tangents.items() if other < level})
    return out


def _tangents_of_results(
    op: OperatorEntry, args: Sequence[Any], tangents: Sequence[Any], results: Sequence[Any], writes: bool
) -> Sequence[Any]:
    computed = op
    if writes:
        name = _index().FUNCTIONAL_OF.get(op.name)
        if name is not None:
            computed = Dispatcher.singleton().find_schema_or_throw(name)
    formula = find_formula(computed.name)
    if formula is not None:
        result = results if len(op.schema.returns) > 1 else results[0]
        computed_tangents = list(formula(computed, args, tangents, result))
        return (
            computed_tangents[0]
            if len(computed_tangents) == 1 and computed_tangents[0].__class__ is list
            else computed_tangents
        )
    if writes and computed is op:
        raise _not_implemented(op)
    return differentiated_twice(computed, args, tangents)


def _index() -> ModuleType:
    from ..generated import forward

    return forward


def find_formula(name: str) -> Formula | None:
    """Return the tangent formula of an operator, from `derivatives.yaml`."""
    family = _index().FAMILY_OF.get(name)
    if family is None:
        return None
    module = importlib.import_module(f"..generated.forward.{family}", __package__)
    formulas: Mapping[str, Formula] = module.FORMULAS
    return formulas[name]


def differentiated_twice(op: OperatorEntry, args: Sequence[Any], tangents: Sequence[Any]) -> Sequence[Any]:
    """Compute the tangents of an operator that has only a backward formula.

    The input gradients are linear in the result gradients. Differentiating this linear function gives the Jacobian
    again.
    """
    from ..generated.functions import where

    outer = is_grad_enabled()
    sources: list[Any] = []
    directions: list[Any] = []
    room = _of_every_example([*tensors_in(args), *tensors_in(tangents)])

    def source(value: Any, tangent: Any) -> Any:
        if isinstance(value, (list, tuple)):
            element_tangents = [None] * len(value) if tangent is None else tangent
            return [source(v, t) for v, t in zip(value, element_tangents, strict=True)]
        if tangent is None:
            return value
        made = value.alias() if room is None else where(room, value, value)
        unmark(made)
        if not made._spec.requires_grad:
            made._set_requires_grad()
        sources.append(made)
        directions.append(tangent)
        return made

    linked = outer and any(t._spec.requires_grad for t in tensors_in((*args, *tangents)))
    inputs = [source(v, t) for v, t in zip(args, tangents, strict=True)]
    set_grad_enabled(True)
    try:
        result = op.call(*inputs)
        results: list[Any] = list(tensors_in(result if isinstance(result, tuple | list) else (result,)))
        ends = [r for r in results if r._spec.requires_grad]
        if not ends:
            return [None] * len(results)
        if any(isinstance(end.grad_fn, NotImplementedBackward) for end in ends):
            raise _not_implemented(op)
        weights = [_zeros_like(end)._set_requires_grad() for end in ends]
        grads = functional.grad(ends, sources, weights, create_graph=True, allow_unused=True)
        pairs = [
            (g, d) for g, d in zip(grads, directions, strict=True) if g is not None and g._spec.requires_grad
        ]
        end_tangents: Sequence[Any] = [None] * len(ends)
        if pairs:
            end_tangents = functional.grad(
                [g for g, _ in pairs], weights, [d for _, d in pairs], create_graph=linked, allow_unused=True
            )
    finally:
        set_grad_enabled(outer)
    by_end = iter(end_tangents)
    return [next(by_end) if r._spec.requires_grad else None for r in results]


def _of_every_example(tensors: Sequence[Any]) -> Any:
    """Return True for each example of all the levels of `vmap` that map a tensor; None if no level does.

    A graph of a tensor that an outer level shares among its examples would also be that level's.
    """
    room: Any = None
    for tensor in tensors:
        if tensor._spec.keys & BATCHED_BIT:
            ones = tensor.new_ones((), dtype=bool_)
            room = ones if room is None else room & ones
    return room


def _zeros_like(tensor: Tensor) -> Tensor:
    from ..generated.functions import zeros_like

    made = zeros_like(tensor)
    return made.detach() if made._spec.requires_grad else made


def _not_implemented(op: OperatorEntry) -> NotImplementedError:
    name = op.name.partition("::")[2].partition(".")[0]
    return NotImplementedError(
        f"Trying to use forward AD with {name} that does not support it because it has not been implemented yet."
    )


def fitted(output: Any, tangent: Tensor, input_tangents: Sequence[Any], is_view: bool) -> Tensor:
    """Return a tangent with its tensor's dtype, sizes and strides, in memory of its own unless it is a view."""
    spec, have = output._spec, tangent._spec
    if have.dtype is not spec.dtype:
        if have.dtype.is_complex and not spec.dtype.is_complex:
            tangent = _real(tangent)
        tangent = tangent.to(spec.dtype)
        have = tangent._spec
    if have.sizes == spec.sizes and (have.strides == spec.strides or is_view):
        shared = not is_view and (
            tangent._view_base is not None or any(tangent is t for t in tensors_in(input_tangents))
        )
        return tangent.clone() if shared else tangent
    return copied_like(output, tangent_like(tangent, output))


def _has_storage(tensor: Any) -> bool:
    """Return whether a tensor lies in a storage as its spec says, without wrappers or overlaps."""
    spec = tensor._spec
    return not spec.keys & ~FORWARD_BIT and spec.layout is strided and not spec.overlaps


def have_equal_storages(tensor: Tensor, tangent: Tensor) -> bool:
    """Return whether views of the tensor, also beyond its own elements, correspond to views of the tangent."""
    if not _has_storage(tensor) or not _has_storage(tangent):
        return True
    return (
        tensor.storage_offset() == tangent.storage_offset()
        and tensor.untyped_storage().nbytes() == tangent.untyped_storage().nbytes()
    )


def copied_like(tensor: Tensor, tangent: Tensor) -> Tensor:
    """Copy a tangent to its tensor's strides, so that views of the tensor correspond to views of the tangent."""
    if _has_storage(tensor) and not tangent._spec.keys & ~FORWARD_BIT:
        size = tensor.untyped_storage().nbytes() // tensor._spec.itemsize
        if size != tensor._spec.numel or not tensor._spec.is_dense():
            whole = tangent.new_zeros(size)
            part = whole.as_strided(tensor._spec.sizes, tensor._spec.strides, tensor.storage_offset())
            return part.copy_(tangent)
    made = _zeros_like(tensor)
    if made._spec.strides != tensor._spec.strides and tensor._spec.is_dense():
        made = tangent.new_empty_strided(tensor._spec.sizes, tensor._spec.strides)
    elif tangent._spec.keys & (BATCHED_BIT | PYTHON_BIT):
        # The tangent may have more examples than the tensor, or a class whose handler serves its operators.
        made = tangent.new_empty_strided(made._spec.sizes, made._spec.strides, dtype=made._spec.dtype)
    return made.copy_(tangent)


def _real(tangent: Tensor) -> Tensor:
    from ..core.overload_packet import packets

    real: Tensor = packets["real"].call(tangent)
    return real


def _write_tangent(tensor: Tensor, level: int, tangent: Tensor | None) -> None:
    """Update the tangent of a written tensor in place, since views share it."""
    present = tangents_of(tensor).get(level)
    if present is None:
        if tangent is None:
            return
        present = _zero_of_base(tensor, level)
        set_tangents(tensor, {**tangents_of(tensor), level: present})
    if tangent is not None and not _holders(tangent) <= _holders(present):
        present = _widened(tensor, level, tangent)
    if tangent is None:
        present.zero_()
    elif tangent is not present:
        present.copy_(tangent)


def _zero_of_base(tensor: Tensor, level: int) -> Tensor:
    """Return a zero tangent. For a view, return a view of its base's tangent, which is created if absent."""
    base: Any = tensor._view_base
    if base is None:
        zero = copied_like(tensor, _zeros_like(tensor))
        _tell_views(tensor, level, zero)
        return zero
    whole = tangents_of(base).get(level)
    if whole is None:
        whole = copied_like(base, _zeros_like(base))
        set_tangents(base, {**tangents_of(base), level: whole})
        _tell_views(base, level, whole)
    return _part_of(whole, tensor, base)


def _holders(tensor: Any) -> set[Any]:
    """Return the levels of `vmap` that map a tangent, and its class if that has a handler."""
    holders = set()
    while tensor._spec.keys & BATCHED_BIT:
        holders.add(tensor._data.level)
        tensor = tensor._data.value
    if tensor._spec.keys & PYTHON_BIT:
        holders.add(type(tensor))
    return holders


def _widened(tensor: Any, level: int, tangent: Tensor) -> Tensor:
    """Give the tangents of a tensor, its base and their views room for the examples and the class of `tangent`.

    Inside `vmap`, a mapped tensor may have a tangent that is the same for all examples. A dense tensor may have a
    tangent whose class has a handler, which writes into tensors of its class alone.
    """
    base = tensor if tensor._view_base is None else tensor._view_base
    before = tangents_of(base)[level]
    room = before.new_empty(()) + tangent.new_empty(())
    whole = room.new_empty_strided(before._spec.sizes, before._spec.strides, dtype=before._spec.dtype)
    whole.copy_(before)
    set_tangents(base, {**tangents_of(base), level: whole})
    _tell_views(base, level, whole, replace=True)
    widened: Tensor = tangents_of(tensor)[level]
    return widened


def _part_of(whole: Tensor, view: Any, base: Any) -> Tensor:
    """Return the view's part of its base's tangent."""
    spec = view._spec
    return whole.as_strided(spec.sizes, spec.strides, view.storage_offset() - base.storage_offset())


def _tell_views(base: Tensor, level: int, whole: Tensor, replace: bool = False) -> None:
    """Set the tangents of views made before their base had one, found as the other holders of its version counter.

    With `replace`, also set those of views that have one.
    """
    if not may_have_views(base):  # finding referrers scans all objects of the process
        return
    for holder in gc.get_referrers(base._version_cell):
        if (
            isinstance(holder, TensorImpl)
            and holder._view_base is base
            and holder._spec.dtype is base._spec.dtype
            and (replace or level not in tangents_of(holder))
        ):
            set_tangents(holder, {**tangents_of(holder), level: _part_of(whole, holder, base)})


def _share_with_node(op: OperatorEntry, output: Tensor, number: int) -> None:
    """Copy a result's tangent to the copy that its own node saved, for forward over backward mode."""
    returns = op.schema.returns
    name = "result" if len(returns) == 1 else returns[number].name or f"result{number}"
    saved = getattr(output.grad_fn, name, None)
    if isinstance(saved, TensorImpl):
        set_tangents(saved, tangents_of(output))
