"""Functional forms derived for operators of users that write (torch/_higher_order_ops/auto_functionalize.py).

``ns::fill(Tensor x, Tensor(a!) out) -> ()`` has no operator that returns what it writes. Its derived form
``ns::fill_functional(Tensor x, Tensor out, *, int[] donated=[]) -> Tensor`` clones `out`, calls `fill` and returns the
clone. A compiler pass donates operands that nothing reads afterwards: these are written without a clone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ....runtime.storage import address_of, root_of
from ....runtime.tensor_impl import TensorImpl
from ...core.bound_arguments import tensors_in
from ...core.dispatcher import Dispatcher
from ...core.kernel_function import KernelFunction
from ...core.operator_entry import OperatorEntry
from ...core.registration import RegistrationHandle
from ...schema import FunctionSchema
from ...schema.function_schema import Argument, OperatorName, Return
from ...schema.types import BaseType, ListType

SUFFIX = "_functional"
DONATED = "donated"
"""The argument of a derived form: the places, among the tensors that are written, of those that need no clone."""

_SOURCE = "derived from "

_derived: dict[str, tuple[FunctionSchema, list[RegistrationHandle]]] = {}
"""The schema that each derived form was made from, and its registrations, by the writing operator's name."""


def derived_form(op: OperatorEntry) -> str | None:
    """Return the name of the operator that clones what `op` writes; None where none can be derived.

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
        donated = Argument(DONATED, ListType(BaseType("int")), (), True)
        own = [Return(r.type) for r in schema.returns if r.alias_info is None]
        written = [Return(a.type) for a in schema.arguments if a.is_write]
        functional = FunctionSchema(name, (*arguments, donated), (*own, *written))

        def kernel(*args: Any) -> Any:
            return _call_on_clones(op, args[:-1], args[-1] or ())

        _derived[op.name] = (
            schema,
            [
                dispatcher.register_def(functional, f"{_SOURCE}{op.name}"),
                *(
                    dispatcher.register_impl(str(name), key, KernelFunction(kernel, source=_SOURCE + op.name))
                    for key in ("CompositeExplicitAutograd", "Meta")
                ),
            ],
        )
    return str(name)


class _Closing:
    """Takes derived forms back with the operators that they were derived from."""

    def on_operator_registered(self, op: OperatorEntry) -> None:
        """Do nothing: a form is derived when it is asked for."""

    def on_operator_deregistered(self, op: OperatorEntry) -> None:
        """Close the registrations of the operator's derived form."""
        for handle in _derived.pop(op.name, (None, ()))[1]:
            handle.close()


def is_derived(op: OperatorEntry) -> bool:
    """Return whether an operator is the derived form of another one."""
    arguments = op.schema.arguments
    return bool(arguments) and arguments[-1].name == DONATED and op.source.startswith(_SOURCE)


def _call_on_clones(op: OperatorEntry, args: Sequence[Any], donated: Sequence[int]) -> Any:
    """Call a writing operator on clones of what it writes. Returns its own results, then the clones."""
    schema = op.schema
    places = [i for i, a in enumerate(schema.arguments) if a.is_write]
    written = tensors_in([args[i] for i in places])
    clones = _cloned([t for i, t in enumerate(written) if i not in donated], tensors_in(args))

    def stand_in(value: Any) -> Any:
        if isinstance(value, TensorImpl):
            return clones.get(id(value), value)
        return type(value)([stand_in(v) for v in value]) if isinstance(value, list | tuple) else value

    given = [stand_in(value) for value in args]
    result = op.call(*given)
    results = result if isinstance(result, list | tuple) else (result,)
    own = [v for v, r in zip(results, schema.returns, strict=False) if r.alias_info is None]
    roots = Counter(
        id(root_of(clone._data)) for clone in {id(t): clones.get(id(t), t) for t in written}.values()
    )

    def apart(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return type(value)([apart(v) for v in value])
        shares = isinstance(value, TensorImpl) and roots[id(root_of(value._data))] > 1
        return value.clone() if shares else value

    returned = (*own, *(apart(given[i]) for i in places))
    return returned[0] if len(returned) == 1 else returned


def _cloned(written: Sequence[Any], operands: Sequence[Any]) -> dict[int, Any]:
    """Return clones of written tensors and of operands that overlap them, by the ids of what they stand for.

    Strides are kept, since a kernel may have been given them as numbers. Overlapping operands are views of one clone,
    so that they see each other's writes.
    """
    clones: dict[int, Any] = {}
    for tensor in written:
        if id(tensor) in clones or not tensor._spec.numel:
            continue
        root, spec = root_of(tensor._data), tensor._spec
        (first, last), group = _extent(tensor), {id(tensor): tensor}
        beside = {id(t): t for t in operands if root_of(t._data) is root and t._spec.numel}
        while joined := [
            t
            for t in beside.values()
            if id(t) not in group and _extent(t)[0] < last and first < _extent(t)[1]
        ]:
            group |= {id(t): t for t in joined}
            first = min(first, *(_extent(t)[0] for t in joined))
            last = max(last, *(_extent(t)[1] for t in joined))
        start = (first - address_of(tensor._data)) // spec.itemsize
        whole = tensor._strided_from(((last - first) // spec.itemsize,), (1,), start).clone()
        for key, each in group.items():
            own = each._spec
            view = whole if own.dtype is spec.dtype else whole.view(own.dtype)
            clones[key] = view._strided_from(
                own.sizes, own.strides, (address_of(each._data) - first) // own.itemsize
            )
    return clones


def _extent(tensor: Any) -> tuple[int, int]:
    """Return the addresses of a tensor's first byte and of the byte behind its last one."""
    spec = tensor._spec
    first = address_of(tensor._data)
    reach = sum((n - 1) * s for n, s in zip(spec.sizes, spec.strides, strict=True)) + 1
    return first, first + reach * spec.itemsize
