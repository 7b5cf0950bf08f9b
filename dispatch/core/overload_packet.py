"""`OverloadPacket`: the overloads behind one public name, and the plans in front of them.

A generated function looks up a plan by its arguments' specs and calls it. A miss comes here. The packet resolves the
overload as PyTorch's argument parser does, and the operator makes a plan. The packet stores the plan for the
generated function to find. Calls under modes, guards or with ``out=`` come here every time.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Sequence
from functools import cache
from itertools import starmap
from typing import Any, NoReturn

import numpy as np

from ...runtime import allocator, determinism, device, device_guard, float32_precision, scalar_type
from ...runtime.errors import internal_assert
from ...runtime.fork_lock import forkable
from ...runtime.grad_mode import inference_enabled
from ...runtime.local_dispatch_key_set import effective, local, modes
from ...runtime.size import Size
from ...runtime.tensor_impl import TensorImpl
from ...runtime.tensor_spec import OVERRIDE_FLAG, TensorSpec
from ...runtime.traceback_filter import has_handler, hide_inner_frames
from ..schema import FunctionSchema, gathered, resolve
from ..schema.numpy_names import OWN_NAMES
from . import tensor_function as overrides
from .call_arguments import (
    NOT_GIVEN,
    PLAIN,
    REQUIRED,
    Parameter,
    all_ints,
    general_key_element,
    has_names,
    holds_tensor,
    is_absent,
    is_hashable,
    key_element,
    plain_number,
    unwrap_numbers,
    wrap_numbers,
)
from .call_kind import CallKind, adapted
from .deprecated_call import call_deprecated
from .dispatched_overload import reached
from .dispatcher import Dispatcher
from .factory_options import OPTIONS, without_options
from .kernel_function import Plan
from .operator_entry import MAX_PLANS, PYTHON_BIT, OperatorEntry
from .public_spelling import FUNCTION, METHOD, public_callable


class _Prefix:
    """First element of a key, which tells one use of a table from the others."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


SHORT = frozenset({int, str, scalar_type.dtype, device.device})
"""Classes of the last argument of general calls that the generated functions look up in `short` themselves."""

FIRST: list[int | str] = [0]
"""Positions of a general call's runtime arguments if the first argument is the only one."""


GUARDED, BELOW, KIND = _Prefix("guarded"), _Prefix("below"), _Prefix("kind")
"""First elements of keys that no argument equals."""

_lock = forkable(threading.Lock())
_epoch = [0]
"""Counter of registrations: a plan interrupted by a registration while being made is used once and not stored."""
packets: dict[str, OverloadPacket] = {}
_planned: set[OverloadPacket] = set()
"""Packets that hold plans: few or none while import registers thousands of operators."""


def _check_invertible(tensor: Any) -> None:
    """Raise TypeError for ``~`` of non-integer tensors, as PyTorch's method does, before dispatch."""
    if not (tensor._spec.dtype.is_integral or tensor._spec.dtype is scalar_type.bool_):
        raise TypeError(
            "~ (operator.invert) is only implemented on integer and Boolean-type tensors, "
            f"but got {tensor._spec.dtype}"
        )


def packet(
    name: str,
    overloads: tuple[str, ...],
    parameters: tuple[tuple[Any, ...], ...] = (),
    numbers_as_tensors: bool | str = False,
) -> OverloadPacket:
    """Return the packet of a public name, for generated code; `parameters` are arguments of `Parameter`."""
    made = packets[name] = OverloadPacket(name, overloads, parameters, numbers_as_tensors)
    return made


_COMPARED_ANYWAY = frozenset({"__eq__", "__ne__"})

_OWN_OPERATORS = frozenset({"__lshift__", "__rshift__", "__ilshift__", "__irshift__"})
"""Special methods that PyTorch dispatches as operators of these names. The packets' operators serve them here."""


class OverloadPacket:
    """Overloads of ``aten::<name>`` in resolution order, with the plan tables of the name.

    - `plans` maps the first argument's key element to a plan, or to a table by the other elements.
    - `scaled` is the same for calls whose ``alpha``-like arguments differ from their defaults.
    - `outs` is for calls with ``out=``.
    - `short` is for calls of a general name that one or two arguments decide: a number for a factory, else a tensor's
      spec with or without a number. It also holds a factory's calls by sizes whose other parameters equal `unset`.

    The generated functions look these up. `_made` is the table of the packet's own calls:

    - calls of a general name, by the arguments as given
    - `GUARDED`: calls under modes, by the thread's key sets and the arguments
    - `BELOW`: calls with disabled overrides
    - `KIND`: how to plan the calls of a kind

    Methods have separate entries if a call may be handled elsewhere: the handler receives the public callable.
    `parameters` and `roles` are built from `declared` by the name's first call, since import has thousands of names.
    """

    __slots__ = (
        "_entries",
        "_made",
        "_parameters",
        "_roles",
        "count",
        "declared",
        "deprecated",
        "name",
        "numbers_as_tensors",
        "outs",
        "overloads",
        "plans",
        "scaled",
        "short",
        "unset",
    )

    def __init__(
        self,
        name: str,
        overloads: tuple[str, ...],
        parameters: tuple[tuple[Any, ...], ...],
        numbers_as_tensors: bool | str,
    ) -> None:
        self.name = name
        self.overloads = overloads
        self.declared = parameters
        self.numbers_as_tensors = numbers_as_tensors
        self.plans: dict[Any, Any] = {}
        self.scaled: dict[Any, Any] = {}
        self.outs: dict[Any, Plan] = {}
        self.short: dict[Any, Plan] = {}
        self._made: dict[Any, Any] = {}
        self._entries: dict[int, OperatorEntry] | None = None
        self._parameters: tuple[Parameter, ...] | None = None
        self._roles: list[tuple[str, Any]] = []
        self.count = 0
        self.unset: tuple[None, ...] | None = None
        self.deprecated: Sequence[tuple[str, Sequence[tuple[str, str | int]]]] = ()

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Parameters of the public name."""
        made = self._parameters
        if made is None:
            made = self._parameters = tuple(starmap(Parameter, self.declared))
            self._roles = [(role, default) for _, role, default, _ in made]
        return made

    @property
    def roles(self) -> list[tuple[str, Any]]:
        """The parameters' roles and defaults."""
        return self._roles or [(role, default) for _, role, default, _ in self.parameters]

    def clear(self) -> None:
        """Clear every plan."""
        self.plans.clear()
        self.scaled.clear()
        self.outs.clear()
        self.short.clear()
        self._made.clear()
        self.count = 0

    def schemas(self) -> dict[int, OperatorEntry]:
        """Return the overloads' operators by the identity of their schemas."""
        entries = self._entries
        if entries is None:
            find = Dispatcher.singleton().find_schema_or_throw
            overload_entries = [find(f"aten::{overload}") for overload in self.overloads]
            entries = self._entries = {id(entry.schema): entry for entry in overload_entries}
        return entries

    def resolve(
        self, args: Sequence[Any], kwargs: dict[str, Any], spelling: str = FUNCTION
    ) -> tuple[OperatorEntry, list[Any]]:
        """Return the resolved overload, and the arguments bound in its schema's order.

        Raises TypeError, as PyTorch's parser does, if no overload matches. Positions in the messages of a method do
        not count the tensor that it is called on.
        """
        method = spelling == METHOD
        entries = self.schemas()
        args = [plain_number(a) for a in args]
        kwargs = {name: plain_number(value) for name, value in kwargs.items()}
        if self.numbers_as_tensors:
            args, kwargs = wrap_numbers(args, kwargs, self.numbers_as_tensors)
        schemas: list[FunctionSchema] = [entry.schema for entry in entries.values()]
        if isinstance(kwargs.get("out"), TensorImpl) and not OPTIONS.isdisjoint(kwargs):
            is_factory = any(a.name == "pin_memory" for schema in schemas for a in schema.arguments)
            kwargs = without_options(self.name, kwargs) if is_factory else kwargs
        schema, bound = resolve(schemas, tuple(args), kwargs, self.name, method=method)
        signature = schema.signature
        if signature.takes_names and not has_names(bound):
            # Without dimension names to look up, a string is a value of the wrong type.
            plain = [each for each in schemas if not each.signature.takes_names]
            schema, bound = resolve(plain or schemas, tuple(args), kwargs, self.name, method=method)
        signature.check_range(bound)
        entry, values = reached(entries[id(schema)], unwrap_numbers(bound))
        return entry, list(values)

    def miss(self, *args: Any) -> Plan:
        """Return the plan for arguments in the parameters' order, stored under the key that the wrapper computes.

        The wrapper calls this on a table miss with `scale` arguments at their defaults.
        """
        try:
            return self._miss(args, False, FUNCTION)
        except BaseException:
            hide_inner_frames()
            raise

    def miss_method(self, *args: Any) -> Plan:
        """Return the plan of a method call; see `miss`."""
        try:
            return self._miss(args, False, METHOD)
        except BaseException:
            hide_inner_frames()
            raise

    def miss_scaled(self, *args: Any) -> Plan:
        """Return the plan of a call with a `scale` argument that differs from its default; see `miss`."""
        try:
            return self._miss(args, True, FUNCTION)
        except BaseException:
            hide_inner_frames()
            raise

    def miss_scaled_method(self, *args: Any) -> Plan:
        """Return the plan of a method call with a non-default `scale` argument; see `miss_scaled`."""
        try:
            return self._miss(args, True, METHOD)
        except BaseException:
            hide_inner_frames()
            raise

    def _miss(self, args: Sequence[Any], scaled: bool, spelling: str) -> Plan:
        elements, kind, keep, has_lists = self._key_elements(args, scaled)
        table = self.scaled if scaled else self.plans
        nested = len(elements) > 1
        rest: Any = elements[1] if len(elements) == 2 else tuple(elements[1:])
        if has_lists:
            stored = table.get(elements[0])
            if stored is not None and nested:
                stored = stored.get(rest)
            if stored is not None:
                return stored  # type: ignore[no-any-return]
        epoch = _epoch[0]
        call_kind: CallKind | None = None if kind is None else self._made.get(kind)
        if call_kind is None:
            handled = self._plan_overridden(args, elements, scaled, keep, spelling, epoch)
            if handled is not None:
                return handled
            try:
                plan, is_reusable = self._plan_new_kind(args, kind, scaled, spelling, epoch)
            except TypeError:
                # An overload with as many positional arguments as a deprecated order hides that order.
                if not self.deprecated:
                    raise
                written, named = self._as_written(args)
                return _first_run(lambda *_: call_deprecated(self, tuple(written), named, spelling), {})
            keep, handles = keep and is_reusable, has_handler(plan)
        else:
            plan, handles = call_kind.plan(args, elements), call_kind.handles
        if keep:
            self._store(epoch, table, elements[0], rest, nested, plan)
        return plan if handles else _first_run(plan, table, elements[0], rest, nested)

    def _key_elements(
        self, args: Sequence[Any], scaled: bool
    ) -> tuple[list[Any], tuple[Any, ...] | None, bool, bool]:
        """Return the elements of a call's plan key.

        Returns:
            its key; what it has in common with calls of other shapes (None: nothing); whether the key may be kept; True
            if it holds a value that the wrapper cannot look up: a list, or a number instead of a tensor. The wrapper
            looks up an int or a float only as an operand.
        """
        elements: list[Any] = []
        kind: list[Any] = [KIND]
        plain, keep, has_lists = not scaled, True, False
        for (role, default), value in zip(self._roles or self.roles, args):  # noqa: B905 - as many as the wrapper has
            cls = value.__class__
            if role == "static":
                if cls in PLAIN:
                    kind.append(cls)
                    kind.append(value)
                    elements.append(value)
                    continue
                if cls is Size:
                    value = tuple(value)
                elif cls is list:
                    value = tuple(value)
                    has_lists = True
                if value.__class__ is tuple and all_ints(value):
                    kind.append(len(value))
                else:
                    plain = False
                    keep = keep and not holds_tensor(value) and is_hashable(value)
                elements.append(value)
            elif role == "tensor" and isinstance(value, TensorImpl):
                spec = value._spec
                elements.append(spec)
                kind.append(spec.kind)
            elif role == "scale":
                if scaled:
                    elements.append(None if value is default else cls)
                    keep = keep and not isinstance(value, TensorImpl)
            elif role != "rare":
                if role == "number":
                    # The class of a tensor is not enough: the next one may not stand for a number.
                    element = cls
                    keep = keep and not isinstance(value, TensorImpl)
                else:
                    element = key_element(value)
                elements.append(element)
                if element is bool or element is complex or element is int or element is float:
                    looked_up = role == "number" or (
                        role == "operand" and (element is int or element is float)
                    )
                    has_lists = has_lists or not looked_up
                if element.__class__ is TensorSpec:
                    kind.append(element.kind)
                elif element.__class__ is tuple:
                    kind.append(
                        tuple([each.kind if each.__class__ is TensorSpec else each for each in element])
                    )
                else:
                    kind.append(element)
        return elements, tuple(kind) if plain else None, keep, has_lists and keep

    def _may_store(self, epoch: int) -> bool:
        """Return False if a registration happened since `epoch`. Otherwise make room. The caller holds the lock."""
        if epoch != _epoch[0]:
            return False
        _planned.add(self)
        self.count += 1
        if self.count > MAX_PLANS:
            self.clear()
            self.count = 1
        return True

    def _store_made(self, epoch: int, key: Any, made: Any) -> None:
        """Store what was planned for the packet's own calls, unless a registration happened meanwhile."""
        with _lock:
            if self._may_store(epoch):
                self._made[key] = made

    def _store(
        self, epoch: int, table: dict[Any, Any], first: Any, rest: Any, nested: bool, plan: Plan
    ) -> None:
        """Store a plan, unless a registration happened while it was made."""
        with _lock:
            if not self._may_store(epoch):
                return
            if nested:
                inner = table.get(first)
                if inner is None:
                    table[first] = {rest: plan}
                else:
                    inner[rest] = plan
                if rest == self.unset and first != ():  # a call without arguments has no sizes ()
                    self.short[first] = self.short[first,] = plan
            else:
                table[first] = plan

    def _plan_new_kind(
        self,
        args: Sequence[Any],
        kind: tuple[Any, ...] | None,
        scaled: bool,
        spelling: str,
        epoch: int,
    ) -> tuple[Plan, bool]:
        """Return the plan of a call of a new kind, and whether it holds for its key; remember the kind."""
        entry, bound = self.resolve(*self._split(args), spelling)
        plan, is_reusable, picks = adapted(entry, bound, self._runtime(args, scaled))
        if kind is not None and is_reusable:
            call_kind = CallKind.of(self.parameters, args, entry, bound, plan, picks)
            if call_kind is not None:
                self._store_made(epoch, kind, call_kind)
        return plan, is_reusable

    def _plan_overridden(
        self,
        args: Sequence[Any],
        elements: Sequence[Any],
        scaled: bool,
        keep: bool,
        spelling: str,
        epoch: int,
    ) -> Plan | None:
        """Return the plan of a call whose arguments may override it; None if no argument does.

        The plan stays out of the plan tables. It calls the arguments' handlers. If overrides are disabled, as
        during a handler's own call, it calls the operator.
        """
        askers = overrides.overloaded_in(args)
        if askers and not overrides.state.disabled:
            return _first_run(lambda *_: self.handled_in(spelling, askers, *self._as_written(args)), {})
        if not overrides.is_marked(elements):
            return None
        key = (BELOW, scaled, *elements)
        plan: Plan | None = self._made.get(key) if keep else None
        if plan is None:
            entry, bound = self.resolve(*self._split(args), spelling)
            inner, is_reusable, _ = adapted(entry, bound, self._runtime(args, scaled))

            def below(*runtime: Any) -> Any:
                return overrides.unmarked(inner(*runtime))

            plan = below
            if keep and is_reusable:
                self._store_made(epoch, key, plan)
        return plan

    def _as_written(self, args: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return values in the parameters' order as a caller writes them, omitting values at their defaults."""
        positional, named = self._split(args)
        while positional and len(positional) > 1:
            default = self.parameters[len(positional) - 1].default
            if positional[-1] is not default:
                break
            positional.pop()
        return tuple(positional), named

    def _handled(self, spelling: str, args: Sequence[Any], out: Any = None) -> tuple[bool, Any]:
        """Return whether an argument handled a call in the parameters' order, and the result."""
        if out is None and overrides.plain_classes.issuperset(map(type, args)):
            return False, None
        askers = overrides.overloaded_in(args if out is None else (*args, out))
        if not askers or overrides.state.disabled:
            return False, None
        positional, named = self._as_written(args)
        if out is not None:
            named["out"] = out
        return True, self.handled_in(spelling, askers, positional, named)

    def handled_in(
        self, spelling: str, askers: Sequence[Any], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Any:
        """Return the handlers' result. If a special method's handler raises TypeError, Python tries the other
        operand.
        """
        func = public_callable(self.name, spelling)
        if spelling in (FUNCTION, METHOD):
            return overrides.handle(func, askers, args, kwargs)
        return overrides.handle_operator(func, askers, args, kwargs)

    def _runtime(self, args: Sequence[Any], scaled: bool) -> list[tuple[str, Any]]:
        """Return the names and values of the plan's runtime arguments."""
        return [
            (name, value)
            for (name, role, _, _), value in zip(self.parameters, args, strict=True)
            if role not in ("static", "rare") and (scaled or role != "scale")
        ]

    def _split(self, args: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        """Split values in the parameters' order into positional and keyword arguments; omit those not given."""
        positional: list[Any] = []
        named: dict[str, Any] = {}
        gap = False
        for parameter, value in zip(self.parameters, args, strict=True):
            if parameter.role == "sizes" and isinstance(value, np.integer):
                value = (int(value),)
            left_out = parameter.keyword_only or parameter.role == "rare"
            if value is NOT_GIVEN or value is REQUIRED or (left_out and value is parameter.default):
                gap = True
            elif gap or parameter.keyword_only:
                named[parameter.name] = value
            else:
                positional.append(value)
        return positional, named

    def miss_out(self, *args: Any) -> Plan:
        """Return the plan for arguments in the parameters' order and ``out``, stored in `outs`.

        The plan takes all runtime arguments. It ignores ``alpha``-like arguments at their defaults.
        """
        try:
            return self._miss_out(args[:-1], args[-1])
        except BaseException:
            hide_inner_frames()
            raise

    def _miss_out(self, args: Sequence[Any], out: Any) -> Plan:
        epoch = _epoch[0]
        askers = overrides.overloaded_in((*args, out))
        if askers and not overrides.state.disabled:
            written, options = self._as_written(args)
            options["out"] = out
            return _first_run(lambda *_: self.handled_in(FUNCTION, askers, written, options), {})
        positional, named = self._split(args)
        named["out"] = out
        entry, bound = self.resolve(positional, named)
        runtime: list[tuple[str, Any]] = []
        key: list[Any] = []
        keep = isinstance(out, TensorImpl) and not out._spec.keys & OVERRIDE_FLAG
        for (name, role, default, _), value in zip(self.parameters, args, strict=True):
            if role == "rare":
                continue
            if role in ("static", "number", "scale"):
                keep = keep and not holds_tensor(value)
            if role == "static":
                key.append(tuple(value) if value.__class__ is list else value)
                continue
            if role == "scale":
                key.append(None if value is default else value.__class__)
            else:
                key.append(value.__class__ if role == "number" else key_element(value))
            runtime.append((name, value))
        runtime.append((entry.schema.out_arguments[0].name, out))
        plan, is_reusable, _ = adapted(entry, bound, runtime)
        whole = (*key, out._spec) if keep else ()
        if keep and is_reusable and not overrides.is_marked(key) and is_hashable(whole):
            self._store(epoch, self.outs, whole, None, False, plan)
        return plan if has_handler(plan) else _first_run(plan, self.outs, whole)

    def operator_miss(self, special: str, *args: Any) -> Plan:
        """Return the plan of a Python binary operator; for a foreign operand, a plan that returns NotImplemented."""
        try:
            if self.is_foreign(args[1]) and (
                overrides.state.disabled or not overrides.handles(type(args[1]))
            ):
                return self._compared if special in _COMPARED_ANYWAY else not_implemented
            if special in _OWN_OPERATORS and (overrides.state.disabled or not overrides.overloaded_in(args)):
                entry = _own_operator(special, args)
                if entry is not None:
                    return _first_run(entry.call, {})
            return self._miss(args, False, special)
        except BaseException:
            hide_inner_frames()
            raise

    def invert_miss(self, tensor: Any) -> Plan:
        """Return the plan of ``~``; see `miss`."""
        try:
            _check_invertible(tensor)
            return self._miss((tensor,), False, METHOD)
        except BaseException:
            hide_inner_frames()
            raise

    def call_invert(self, tensor: Any) -> Any:
        """Call ``~`` under guards and modes."""
        try:
            _check_invertible(tensor)
            return self.call_method_parameters(tensor)
        except BaseException:
            hide_inner_frames()
            raise

    def call_operator(self, special: str, *args: Any) -> Any:
        """Call a binary operator under guards and modes. Return NotImplemented for a foreign operand."""
        try:
            was_handled, result = self._handled(special, args)
            if was_handled:
                return result
            if not self.is_foreign(args[1]):
                entry = _own_operator(special, args) if special in _OWN_OPERATORS else None
                if entry is not None:
                    return overrides.unmarked(entry.call(args[0], plain_number(args[1])))
                return self._call_parameters(args)
            return self._compared(*args) if special in _COMPARED_ANYWAY else NotImplemented
        except BaseException:
            hide_inner_frames()
            raise

    def _compared(self, tensor: Any, other: Any) -> Any:
        """Compare a tensor with an ndarray elementwise: NumPy defers to the tensor, and Python would compare
        identities.
        """
        if not isinstance(other, np.ndarray):
            return NotImplemented
        from ..tensor_data import as_tensor

        try:
            return self.call(tensor, as_tensor(other))
        except BaseException:
            hide_inner_frames()
            raise

    @staticmethod
    def is_foreign(other: Any) -> bool:
        """Return whether a binary operator must defer to the type of its other operand."""
        return not isinstance(other, TensorImpl | int | float | complex | np.number | np.bool_)

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Call as the function, by the plan of an earlier call where no guard, mode or inference mode is active."""
        if not modes:
            return self.general(args, kwargs, FUNCTION)
        try:
            return self.call_as(args, kwargs, FUNCTION)
        except BaseException:
            hide_inner_frames()
            raise

    def call_method(self, *args: Any, **kwargs: Any) -> Any:
        """Call the method; see `call`."""
        try:
            return self.call_as(args, kwargs, METHOD)
        except BaseException:
            hide_inner_frames()
            raise

    def call_as(self, args: Sequence[Any], kwargs: dict[str, Any], spelling: str) -> Any:
        """Call as the function or the method, according to `spelling`."""
        self._check_keywords(kwargs, spelling)
        kwargs = {k: v for k, v in kwargs.items() if not is_absent(v)}
        askers = overrides.overloaded(args, kwargs)
        if askers:
            return self.handled_in(spelling, askers, args, kwargs)
        entry, bound = self.resolve(self._gathered(args, spelling), kwargs, spelling)
        return overrides.unmarked(entry.call(*bound))

    def _gathered(self, args: Any, spelling: str) -> Any:
        """Pack a method's trailing integers into one list, if its schema accepts that."""
        if spelling != METHOD or len(args) < 3:
            return args
        return gathered([entry.schema for entry in self.schemas().values()], args)

    def _check_keywords(self, kwargs: dict[str, Any], spelling: str) -> None:
        """Raise TypeError for ``out=`` of a method: only functions accept it."""
        if spelling == METHOD and "out" in kwargs:
            raise TypeError(f"{self.name}() got an unexpected keyword argument 'out'")

    def call_parameters(self, *args: Any, out: Any = None) -> Any:
        """Call with arguments in the parameters' order, as the generated functions have them."""
        try:
            was_handled, result = self._handled(FUNCTION, args, out)
            return result if was_handled else self._call_parameters(args, out)
        except BaseException:
            hide_inner_frames()
            raise

    def call_method_parameters(self, *args: Any) -> Any:
        """Call the method with arguments in the parameters' order."""
        try:
            was_handled, result = self._handled(METHOD, args)
            return result if was_handled else self._call_parameters(args, spelling=METHOD)
        except BaseException:
            hide_inner_frames()
            raise

    def _call_parameters(self, args: Sequence[Any], out: Any = None, spelling: str = FUNCTION) -> Any:
        if out is None and not inference_enabled:
            key: list[Any] = [GUARDED, local.included, local.excluded, local.autocast]
            runtime: list[Any] = []
            for (role, default), value in zip(self.roles, args, strict=True):
                if role == "static":
                    key.append(value.__class__)
                    key.append(tuple(value) if value.__class__ is list else value)
                elif role != "scale" and role != "rare":
                    key.append(
                        (value if holds_tensor(value) else value.__class__)
                        if role == "number"
                        else key_element(value)
                    )
                    runtime.append(tuple(value) if value.__class__ is list else value)
                elif value is not default:
                    break
            else:
                elements = tuple(key)
                try:
                    plan = self._made.get(elements)
                except TypeError:
                    plan = None
                if plan is None:
                    plan = self._miss_guarded(args, elements, spelling)
                return overrides.unmarked(plan(*runtime))
        positional, named = self._split(args)
        if out is not None:
            named["out"] = out
        entry, bound = self.resolve(positional, named, spelling)
        return overrides.unmarked(entry.call(*bound))

    def _miss_guarded(self, args: Sequence[Any], key: tuple[Any, ...], spelling: str) -> Plan:
        """Return the plan of a call through this thread's key sets, with `scale` arguments at their defaults."""
        epoch = _epoch[0]
        entry, bound = self.resolve(*self._split(args), spelling)
        plan, is_reusable, _ = adapted(entry, bound, self._runtime(args, False))
        if is_reusable and is_hashable(key) and not any(holds_tensor(element) for element in key):
            self._store_made(epoch, key, plan)
        return plan

    def call_named(
        self, spelling: str, beyond: Any, numpy_names: dict[str, Any], *args: Any, out: Any = None
    ) -> Any:
        """Serve a call with NumPy's parameter names or too many positional arguments; None means that neither is
        present.

        Args:
            spelling: `FUNCTION` or `METHOD`.
            beyond: The first superfluous positional argument, if the function has options; the others bound to these.
            numpy_names: Arguments by NumPy's names. Without options, superfluous positional arguments bound to these.
            *args: All arguments in the parameters' order.
            out: The option ``out``.

        Raises:
            TypeError: for an argument under both names, unless its own is at the default; for an unknown name, and
                too many positions that are no deprecated order.
        """
        try:
            if beyond is not None:
                return call_deprecated(self, *self._moved(args, beyond, out, numpy_names), spelling)
            values = list(args)
            numpy_args = {name: value for name, value in numpy_names.items() if value is not None}
            for name, value in numpy_args.items():
                index = self._index_of(name)
                if index is None or not self._is_unset(index, values[index]):
                    self._refuse_names(args, out, numpy_names, numpy_args)
                values[index] = value
            was_handled, result = self._handled(spelling, values, out)
            return result if was_handled else self._call_parameters(values, out, spelling)
        except BaseException:
            hide_inner_frames()
            raise

    def _refuse_names(
        self, args: Sequence[Any], out: Any, numpy_names: dict[str, Any], numpy_args: dict[str, Any]
    ) -> NoReturn:
        """Raise TypeError if a NumPy name is unknown, or repeats an argument that is already given."""
        first = next(iter(numpy_names))
        positional: Sequence[Any]
        if first in numpy_args and not any(is_absent(value) for value in args):
            positional, named = self._moved(args, numpy_args[first], out, {**numpy_names, first: None})
        else:
            positional, named = self._split(args)
            named |= numpy_args
        self.resolve(positional, named if out is None else {**named, "out": out})
        internal_assert(False, f"{self.name}: {list(numpy_args)} fit a schema, but not the parameters")

    def _moved(
        self, args: Sequence[Any], beyond: Any, out: Any, numpy_names: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the positional arguments and options of a call whose superfluous positions bound to options."""
        count, names, defaults = _options_of(self)
        values = (*args[count:], out, *numpy_names.values())
        if all(map(operator.is_, values, defaults)):
            return (*args[:count], beyond), {}
        options = list(zip((*names, *numpy_names), values, defaults, strict=False))
        positional = [*args[:count], beyond]
        while options and options[0][1] is not options[0][2]:
            positional.append(options.pop(0)[1])
        return tuple(positional), {name: value for name, value, default in options if value is not default}

    def _index_of(self, numpy_name: str) -> int | None:
        """Return the index of the parameter with this NumPy name, or None."""
        own = OWN_NAMES.get(numpy_name)
        return next((i for i, p in enumerate(self.parameters) if p.name == own), None)

    def _is_unset(self, index: int, value: Any) -> bool:
        """Return whether the call may have omitted a parameter."""
        return is_absent(value) or value is self.parameters[index].default

    def general(self, args: tuple[Any, ...], kwargs: dict[str, Any], spelling: str = "") -> Any:
        """Serve a call of a name whose overloads share no signature, planned by the arguments as given.

        `spelling` is `METHOD` for the method.
        """
        key: Any
        if len(args) == 1 and not kwargs:
            key = general_key_element(args[0])
        else:
            key = (
                tuple([general_key_element(a) for a in args]),
                tuple([(name, general_key_element(kwargs[name])) for name in sorted(kwargs)])
                if kwargs
                else None,
            )
        try:
            is_hashable = True
            try:
                entry = self._made.get(key)
            except TypeError:  # as in `OperatorEntry.call_with_keys`
                is_hashable = False
            if not is_hashable:
                return self.call_as(args, kwargs, spelling)
            if entry is None:
                return self._miss_general(key, args, kwargs, spelling)
            plan, where = entry
            if where == FIRST:
                return plan(args[0])
            return _called(plan, where, args, kwargs)
        except BaseException:
            hide_inner_frames()
            raise

    def _miss_general(self, key: Any, args: tuple[Any, ...], kwargs: dict[str, Any], spelling: str) -> Any:
        """Serve the first `general` call with a key, and store its plan under that key."""
        epoch = _epoch[0]
        self._check_keywords(kwargs, spelling)
        if overrides.overloaded_in((*args, *kwargs.values())) or overrides.is_marked((key,)):
            return self.call_as(args, kwargs, spelling)
        args = self._gathered(args, spelling)
        entry, bound = self.resolve(args, kwargs)
        where: list[int | str] = []
        names = [argument.name for argument in entry.schema.arguments]
        # One object given twice counts as two arguments: other calls of this kind give two objects.
        left: dict[int | str, Any] = dict([*enumerate(args), *kwargs.items()])
        for position in entry.runtime_positions(bound):
            value, name = bound[position], names[position]
            if name not in left or left[name] is not value:
                origin = next((key for key, passed in left.items() if passed is value), None)
                if origin is None and value is not None:
                    return entry.call(*bound)
                where.append("" if origin is None else origin)
            else:
                where.append(name)
            left.pop(where[-1], None)
        plan = entry.plan(entry.key_set_of(bound), bound)
        first = args[0] if args else None
        element = first._spec if isinstance(first, TensorImpl) else first
        result = _called(plan, where, args, kwargs)
        with _lock:
            if self._may_store(epoch):
                self._made[key] = (plan, where)
                if where == FIRST and not kwargs:
                    if len(args) == 1 and (element is not first or first.__class__ in SHORT):
                        self.short[element] = plan
                    elif len(args) == 2 and element is not first and args[1].__class__ in SHORT:
                        self.short[element, args[1]] = plan
        return result


def _own_operator(special: str, args: Sequence[Any]) -> OperatorEntry | None:
    """Return the operator of a special method if user-written code sees it: a mode, a subclass or a kernel."""
    overload = "Tensor" if isinstance(args[1], TensorImpl) else "Scalar"
    entry = Dispatcher.singleton().find_schema_or_throw(f"aten::{special}.{overload}")
    is_seen = effective(entry.key_set_of(args)) & PYTHON_BIT or entry.has_user_kernel
    return entry if is_seen else None


def _first_run(
    plan: Plan, table: dict[Any, Any], first: Any = (), rest: Any = None, nested: bool = False
) -> Plan:
    """Wrap a plan with an error handler for its first run after a miss.

    If that run fails, the plan is dropped, and the next call of the kind misses again.
    """

    def run(*runtime: Any) -> Any:
        try:
            return plan(*runtime)
        except BaseException:
            hide_inner_frames()
            _forget(plan, table, first, rest, nested)
            raise

    return run


def _forget(plan: Plan, table: dict[Any, Any], first: Any, rest: Any, nested: bool) -> None:
    """Remove a plan from its table, if present."""
    with _lock:
        try:
            plans, key = (table[first], rest) if nested else (table, first)
            if plans[key] is plan:
                del plans[key]
        except (KeyError, TypeError):  # Never stored: the key may be unhashable or of another form.
            pass


def _called(plan: Plan, where: list[int | str], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a plan with the arguments that `where` selects."""
    return plan(*[args[w] if w.__class__ is int else kwargs[w] if w else None for w in where])  # type: ignore[index]


def not_implemented(*_: Any) -> Any:
    """Return NotImplemented: the plan of a binary operator with a foreign operand."""
    return NotImplemented


def clear_plans() -> None:
    """Clear every packet's plans, after a registration or a change of defaults."""
    with _lock:
        _epoch[0] += 1
        for made in _planned:
            made.clear()
        _planned.clear()


Dispatcher.singleton().on_change.append(clear_plans)
scalar_type.on_default_change.append(Dispatcher.singleton().forget_all)
device.on_default_change.append(Dispatcher.singleton().forget_all)
allocator.on_change.append(Dispatcher.singleton().forget_all)
determinism.on_change.append(Dispatcher.singleton().forget_all)
device_guard.on_change.append(Dispatcher.singleton().forget_all)
float32_precision.on_change.append(Dispatcher.singleton().forget_all)


@cache
def _options_of(packet: OverloadPacket) -> tuple[int, tuple[str, ...], tuple[Any, ...]]:
    """Return the number of positional parameters; the names of the options, and `out`; their defaults, and those of
    NumPy's names.
    """
    options = [p for p in packet.parameters if p.keyword_only]
    defaults = (*(p.default for p in options), None, *[None] * len(OWN_NAMES))
    return len(packet.parameters) - len(options), (*(p.name for p in options), "out"), defaults
