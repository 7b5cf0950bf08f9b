"""Functional forms derived for mutating operators of users (torch/_higher_order_ops/auto_functionalize.py).

``ns::fill(Tensor x, Tensor(a!) out) -> ()`` has no operator that returns what it writes. Its derived form is
``ns::fill_functional(Tensor x, Tensor out, *, Tensor[] bases, SymInt[] views, int[] donated=[]) -> Tensor[]``:

- `bases` are the tensors whose memory is written, each once. The form clones them, calls `fill` on the clones, and
  returns them after the operator's own results.
- `views` are three numbers for each operand in that memory: its place among the operator's tensors, that of its base,
  and its distance from the base in bytes. A graph compares values, so that equal operands of a graph can be one tensor
  or several of the program; `views` says which operands share memory.
- `donated` are the places of bases that nothing reads afterwards. A compiler pass finds them; they are not cloned.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from ....runtime.dispatch_key import BY_NAME
from ....runtime.scalar_type import uint8
from ....runtime.tensor_impl import TensorImpl
from ....runtime.tensor_spec import TensorSpec
from ...core.dispatcher import Dispatcher
from ...core.kernel_function import KernelFunction
from ...core.operator_entry import OperatorEntry
from ...core.registration import RegistrationHandle
from ...schema import FunctionSchema
from ...schema.function_schema import Argument, OperatorName, Return
from ...schema.types import BaseType, ListType

SUFFIX = "_functional"
BASES, VIEWS, DONATED = "bases", "views", "donated"

_SOURCE = "derived from "
_INHERITED = frozenset({"maybe_aliasing_or_mutating"})
"""Tags of operators with effects beyond their schemas; their derived forms have the tags too."""

_derived: dict[str, tuple[FunctionSchema, list[RegistrationHandle]]] = {}
"""Schema that each derived form was made from, and its registrations, by the mutating operator's name."""


def derived_form(op: OperatorEntry) -> str | None:
    """Return the name of the operator that clones the targets of `op`; None if none can be derived.

    PyTorch's own operators have functional forms of their own, and an ``out=`` form is written by its functional one.
    """
    schema = op.schema
    if schema.operator_name.namespace == "aten" or schema.out_arguments or not schema.is_mutable:
        return None
    if any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns):
        return None
    name = OperatorName(schema.name + SUFFIX, schema.overload_name)
    dispatcher = Dispatcher.singleton()
    with dispatcher.lock:
        if not _derived:
            dispatcher.add_listener(_Closing(), as_loaded=True)
        known = _derived.get(op.name)
        if known is not None and known[0] is schema:
            return str(name)
        for handle in known[1] if known is not None else ():
            handle.close()
        if dispatcher.find_schema(str(name)) is not None:
            return None
        arguments = tuple(
            Argument(a.name, a.type, a.default, a.kwarg_only, None, a.default_text) for a in schema.arguments
        )
        tensors = ListType(BaseType("Tensor"))
        added = (
            Argument(BASES, tensors, kwarg_only=True),
            Argument(VIEWS, ListType(BaseType("SymInt")), kwarg_only=True),
            Argument(DONATED, ListType(BaseType("int")), (), True),
        )
        own = [Return(r.type) for r in schema.returns if r.alias_info is None]
        functional = FunctionSchema(name, (*arguments, *added), (*own, Return(tensors)))

        def kernel_of(call: Callable[..., Any]) -> KernelFunction:
            def kernel(*args: Any) -> Any:
                bases, views, donated = args[-len(added) :]
                return _call_on_clones(op, call, args[: -len(added)], bases, views, donated or ())

            return KernelFunction(kernel, source=_SOURCE + op.name)

        def call_meta(*args: Any) -> Any:
            # By key, since a call without tensors would find another kernel.
            return op.call_with_keys(BY_NAME["Meta"].bits, args)

        _derived[op.name] = (
            schema,
            [
                dispatcher.register_def(functional, f"{_SOURCE}{op.name}", op.tags & _INHERITED),
                dispatcher.register_impl(str(name), "CompositeExplicitAutograd", kernel_of(op.call)),
                dispatcher.register_impl(str(name), "Meta", kernel_of(call_meta)),
            ],
        )
    return str(name)


class _Closing:
    """Listener that removes derived forms together with their operators."""

    def on_operator_registered(self, op: OperatorEntry) -> None:
        """Do nothing: a form is derived on request."""

    def on_operator_deregistered(self, op: OperatorEntry) -> None:
        """Close the registrations of the operator's derived form."""
        for handle in _derived.pop(op.name, (None, ()))[1]:
            handle.close()


def is_derived(op: OperatorEntry) -> bool:
    """Return whether an operator is the derived form of another one."""
    arguments = op.schema.arguments
    return bool(arguments) and arguments[-1].name == DONATED and op.source.startswith(_SOURCE)


def _call_on_clones(
    op: OperatorEntry,
    call: Callable[..., Any],
    args: Sequence[Any],
    bases: Sequence[Any],
    views: Sequence[int],
    donated: Sequence[int],
) -> Any:
    """Call a mutating operator on clones of bases. Returns its own results, then the list of clones."""
    clones = [base if i in donated else _clone_of(base) for i, base in enumerate(bases)]
    clone_views = {views[i]: (clones[views[i + 1]], views[i + 2]) for i in range(0, len(views), 3)}
    counter = itertools.count()

    def stand_in(tensor: Any) -> Any:
        view_args = clone_views.get(next(counter))
        return tensor if view_args is None else _view_of(*view_args, tensor)

    result = call(*map_tensors(args, stand_in))
    results = result if isinstance(result, list | tuple) else (result,)
    own = [v for v, r in zip(results, op.schema.returns, strict=False) if r.alias_info is None]
    return (*own, clones) if own else clones


def map_tensors(args: Sequence[Any], function: Callable[[Any], Any]) -> list[Any]:
    """Return bound arguments with a function's results for their tensors, in the order of `tensors_in`."""

    def mapped(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return type(value)([mapped(v) for v in value])
        return function(value) if isinstance(value, TensorImpl) else value

    return [mapped(value) for value in args]


def _clone_of(base: Any) -> Any:
    """Return a clone with the same strides, since a kernel may have received them as numbers."""
    spec = base._spec
    if spec.is_dense() or not spec.numel:
        return base.clone()
    return _flat(base).clone()._strided_from(spec.sizes, spec.strides, 0)


def _view_of(base: Any, distance: int, like: Any) -> Any:
    """Return the tensor in a base's memory, at a byte offset from its first element, with another tensor's geometry."""
    spec = like._spec
    if (spec.sizes, spec.strides, spec.dtype, distance) == (
        base._spec.sizes,
        base._spec.strides,
        base._spec.dtype,
        0,
    ):
        return base
    if spec.dtype is base._spec.dtype:
        return base._strided_from(spec.sizes, spec.strides, distance // spec.itemsize)
    flat = _flat(base).view(uint8)._strided_from((_extent(spec) * spec.itemsize,), (1,), distance)
    return flat.view(spec.dtype)._strided_from(spec.sizes, spec.strides, 0)


def _flat(tensor: Any) -> Any:
    """Return the memory between a tensor's first and last element as a vector."""
    return tensor._strided_from((_extent(tensor._spec),), (1,), 0)


def _extent(spec: TensorSpec) -> int:
    """Return the number of elements in the memory span of the tensor."""
    return sum((n - 1) * s for n, s in zip(spec.sizes, spec.strides, strict=True)) + 1 if spec.numel else 0
