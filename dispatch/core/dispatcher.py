"""Dispatcher: the registry of operators by name (ATen/core/dispatch/Dispatcher.h).

Reads take no lock. Registrations take the lock, and each one invalidates the plans that it may affect.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from typing import Any

from ...runtime.dispatch_key import DispatchKey, parse
from ...runtime.dispatch_key_set import DispatchKeySet
from ..schema import FunctionSchema, parse_schema
from . import operator_entry
from .kernel_function import KernelFunction
from .kernel_signature import check_is_boxed, location_of
from .operator_entry import OperatorEntry, registering
from .registration import OpRegistrationListener, RegistrationHandle
from .tags import parse_tags


class Dispatcher:
    """Registry of operators. `singleton()` is the process-wide instance.

    A registration returns a handle that undoes exactly that registration; handles may be closed in any order. A
    failed registration changes nothing. `lock` is held while a registration is made or undone.
    """

    def __init__(self) -> None:
        self._operators: dict[str, OperatorEntry] = {}
        self._deferred: dict[str, Callable[[], Callable[[], None]]] = {}
        self._staged: dict[str, OperatorEntry] = {}
        self._libraries = {"aten": "triten.dispatch"}
        self._fallbacks: dict[DispatchKey, tuple[KernelFunction, ...]] = {}
        self._listeners: tuple[list[OpRegistrationListener], ...] = ()
        self._has_warned_of_override = False
        self._is_loading = False
        self.lock = registering
        self.packets: dict[str, tuple[str, ...]] = {}
        self.skipped: dict[str, tuple[str, ...]] = {}
        self.on_change: list[Callable[[], None]] = []

    @staticmethod
    def singleton() -> Dispatcher:
        """Return the process's dispatcher."""
        return _singleton

    def register_def(
        self,
        schema: str | FunctionSchema,
        source: str = "",
        tags: str | Iterable[str] = (),
        name: str | None = None,
    ) -> RegistrationHandle:
        """Define an operator. `name` saves parsing if the caller knows it (generated code does).

        Kernels may be registered before the definition, and remain after its removal. After removal, an operator
        object that a caller still holds refuses calls, even if a new operator takes its name.

        Raises:
            RuntimeError: for a second definition, naming both places.
            TypeError: for an unknown tag.
        """
        if name is None:
            schema = parse_schema(schema, source or None) if isinstance(schema, str) else schema
            name = str(schema.operator_name)
            tags = parse_tags(tags, name)
        with self.lock:
            waiting = self._find(name)
            if waiting is not None and waiting.has_schema:
                raise RuntimeError(
                    f"Tried to register an operator ({schema}) with the same name and overload name multiple times. "
                    f"First registered at {waiting.source}, again at {source}."
                )
            entry = self._find_or_create(name)
            entry.define(schema, source, frozenset(tags))
            if self._listeners:
                with ExitStack() as refused:
                    refused.callback(self._undefine, entry)
                    for (listener,) in self._listeners:
                        listener.on_operator_registered(entry)
                        refused.callback(listener.on_operator_deregistered, entry)
                    refused.pop_all()

        def undo() -> None:
            with self.lock, ExitStack() as last:
                last.callback(self._undefine, entry)
                for (listener,) in self._listeners:
                    last.callback(listener.on_operator_deregistered, entry)

        return RegistrationHandle(undo)

    def _undefine(self, entry: OperatorEntry) -> None:
        """Retire an operator. Registrations under its name other than the definition move to a successor."""
        name = entry.name
        if entry.kernels or entry.names:
            successor = OperatorEntry(name)
            successor.kernels, successor.names = entry.kernels, entry.names
            self._operators[name] = successor
        else:
            self._drop(name)
        entry.retire()
        self.forget(entry)

    def register_impl(
        self,
        name: str,
        key: DispatchKey | str,
        kernel: KernelFunction | Callable[..., Any],
        *,
        beneath: bool = False,
    ) -> RegistrationHandle:
        """Register a kernel or function for a runtime or alias key. It may precede the definition.

        The last kernel registered for a key is active. The first override in a process issues a UserWarning that
        names both kernels. A kernel registered `beneath` is placed before the existing ones, and overrides none.
        """
        key = parse(key)
        if not isinstance(kernel, KernelFunction):
            kernel = KernelFunction.from_function(kernel, source=location_of(kernel))
        with self.lock:
            entry = self._find(name)
            if entry is not None:
                earlier = entry.kernels.get(key, ())
                if earlier and not beneath:
                    self._warn_of_override(entry, key, earlier[-1], kernel)
                    if any(each is kernel for each in earlier):
                        # Each registration is a distinct object, so that its handle can find it.
                        kernel = copy(kernel)
            entry = self._find_or_create(name)
            registered = entry.kernels.get(key, ())
            entry.kernels = {
                **entry.kernels,
                key: (kernel, *registered) if beneath else (*registered, kernel),
            }
            if key is operator_entry.ADINPLACE:
                operator_entry.inplace_or_view.append(kernel)
            self.forget(entry)

        def undo() -> None:
            with self.lock:
                entry = self._operators[name]
                if key is operator_entry.ADINPLACE:
                    operator_entry.inplace_or_view.remove(kernel)
                left = tuple(k for k in entry.kernels[key] if k is not kernel)
                entry.kernels = {
                    k: left if k is key else each for k, each in entry.kernels.items() if left or k is not key
                }
                self.forget(entry)
                self._drop_if_empty(entry)

        return RegistrationHandle(undo)

    def _warn_of_override(
        self, entry: OperatorEntry, key: DispatchKey, previous: KernelFunction, new: KernelFunction
    ) -> None:
        if self._has_warned_of_override:
            return
        warnings.warn(
            "Warning only once for all operators, other operators may also be overridden.\n"
            "  Overriding a previously registered kernel for the same operator and the same dispatch key\n"
            f"  operator: {entry.schema if entry.has_schema else entry.name}\n"
            f"  dispatch key: {key}\n"
            f"  previous kernel: registered at {previous.source}\n"
            f"       new kernel: registered at {new.source}",
            UserWarning,
            stacklevel=5,
        )
        self._has_warned_of_override = True

    def register_fallback(
        self, key: DispatchKey | str, kernel: KernelFunction | Callable[..., Any]
    ) -> RegistrationHandle:
        """Register the kernel of a key for every operator without one; a function is a boxed kernel.

        A fallthrough, the initial fallback of layer keys, does not count as a kernel: another fallback replaces it
        while registered. Raises RuntimeError for a second fallback.
        """
        key = parse(key)
        if not isinstance(kernel, KernelFunction):
            check_is_boxed(kernel, "fallback", location_of(kernel))
            kernel = KernelFunction(kernel, boxed=True, source=location_of(kernel))
        with self.lock:
            earlier = self._fallbacks.get(key, ())
            if earlier and not earlier[-1].is_fallthrough:
                raise RuntimeError(
                    f"Tried to register multiple backend fallbacks for the same dispatch key {key}; previous "
                    f"registration {earlier[-1].source}, new registration {kernel.source}"
                )
            self._set_fallbacks(key, (*earlier, copy(kernel)))
            registered = self._fallbacks[key][-1]

        def undo() -> None:
            with self.lock:
                self._set_fallbacks(key, tuple(k for k in self._fallbacks[key] if k is not registered))

        return RegistrationHandle(undo)

    def _set_fallbacks(self, key: DispatchKey, kernels: tuple[KernelFunction, ...]) -> None:
        """Set the fallbacks of a key, of which the last is active."""
        before = self._fallbacks.get(key, ())
        self._fallbacks[key] = kernels
        if kernels:
            operator_entry.fallbacks[key] = kernels[-1]
        else:
            operator_entry.fallbacks.pop(key, None)
        if key is operator_entry.ADINPLACE:
            for kernel in before:
                if not kernel.is_fallthrough:
                    operator_entry.inplace_or_view.remove(kernel)
            operator_entry.inplace_or_view.extend(k for k in kernels if not k.is_fallthrough)
        self.forget_all()

    def register_name(self, name: str) -> RegistrationHandle:
        """Declare a name: `find_op` finds it, but `find_schema` does not until it is defined."""
        with self.lock:
            self._find_or_create(name).names += 1

        def undo() -> None:
            with self.lock:
                entry = self._operators[name]
                entry.names -= 1
                self._drop_if_empty(entry)

        return RegistrationHandle(undo)

    def register_library(self, namespace: str, source: str) -> RegistrationHandle:
        """Claim a namespace for definitions. Raises RuntimeError if it is already claimed."""
        with self.lock:
            if namespace in self._libraries:
                raise RuntimeError(
                    f"Only a single library can be registered for a namespace: {namespace} is registered at "
                    f"{self._libraries[namespace]}, again at {source}. Use FRAGMENT to add to it."
                )
            self._libraries[namespace] = source

        def undo() -> None:
            with self.lock:
                del self._libraries[namespace]

        return RegistrationHandle(undo)

    def register_skipped(self, name: str, source: str) -> RegistrationHandle:
        """Remember that the allowlist of a library at `source` skipped a definition, for error messages."""
        with self.lock:
            self.skipped[name] = (*self.skipped.get(name, ()), source)

        def undo() -> None:
            with self.lock:
                left = list(self.skipped.pop(name))
                left.remove(source)
                if left:
                    self.skipped[name] = tuple(left)

        return RegistrationHandle(undo)

    def add_listener(
        self, listener: OpRegistrationListener, *, as_loaded: bool = False
    ) -> RegistrationHandle:
        """Register a listener for operator definitions and removals. It is first notified of all existing
        definitions.

        With `as_loaded`, notifications for this package's operators come when they are loaded, rather than now.

        `lock` is held during notifications. Kernels and names without a definition do not trigger them. A listener
        that raises on a definition rejects it. A listener that raises on a removal cannot prevent it, and the error
        propagates to the caller that closed the handle. Source: Dispatcher::addRegistrationListener.

        Example:
            >>> from triten.dispatch.core.dispatcher import Dispatcher
            >>> class Printing:
            ...     def on_operator_registered(self, op):
            ...         print("new:", op.name)
            ...     def on_operator_deregistered(self, op):
            ...         print("gone:", op.name)
            >>> dispatcher = Dispatcher()
            >>> with dispatcher.add_listener(Printing()):
            ...     dispatcher.register_def("docs::f(Tensor x) -> Tensor").close()
            new: docs::f
            gone: docs::f
        """
        registered = [listener]

        def undo() -> None:
            with self.lock:
                self._listeners = tuple(each for each in self._listeners if each is not registered)

        if not as_loaded:
            self.load_all()
        with self.lock, ExitStack() as refused:
            self._listeners = (*self._listeners, registered)
            refused.callback(undo)
            for entry in list(self._operators.values()):
                if entry.has_schema:
                    listener.on_operator_registered(entry)
            refused.pop_all()
        return RegistrationHandle(undo)

    def _find(self, name: str) -> OperatorEntry | None:
        """Return the operator of a name. The first lookup in a family of operators loads the family."""
        entry = self._operators.get(name)
        if entry is None:
            prepare = self._deferred.get(name)
            if prepare is not None:
                self._load(prepare)
            # Look again in any case: another thread may have loaded it between the two lookups.
            entry = self._operators.get(name)
        return entry

    def defer(self, names: Iterable[str], prepare: Callable[[], Callable[[], None]]) -> None:
        """Defer the installation of this package's operators to `prepare`'s function, run at the first lookup.

        All other code sees the operators as defined from now on: no name can be claimed before loading, and no
        operator is visible half registered. `prepare` does the importing and runs outside `lock`, since imports wait
        for one another.
        """
        with self.lock:
            for name in names:
                self._deferred[name] = prepare
                base = name.partition(".")[0]
                self.packets[base] = (*self.packets.get(base, ()), name)

    def _load(self, prepare: Callable[[], Callable[[], None]]) -> None:
        """Run a deferred registration, once."""
        register = prepare()
        with self.lock:
            if prepare not in self._deferred.values():
                return
            outer, self._staged = self._staged, {}
            try:
                register()
                loaded = self._staged
            finally:
                self._staged = outer
            if prepare not in self._deferred.values():
                return  # a signal handler ran in between, looked up the family itself, and its entries are in use
            # An interrupt between these two steps leaves a family both loaded and deferred: its entries stay.
            loaded = {name: entry for name, entry in loaded.items() if name not in self._operators}
            self._operators.update(loaded)
            self._deferred = {name: each for name, each in self._deferred.items() if each is not prepare}
            for (listener,) in self._listeners:
                for entry in loaded.values():
                    listener.on_operator_registered(entry)

    def load_all(self) -> None:
        """Run every deferred registration, so that all operators are visible."""
        for prepare in dict.fromkeys(list(self._deferred.values())):
            self._load(prepare)

    def install(self, name: str, schema: str, source: str, tags: frozenset[str]) -> OperatorEntry:
        """Define an operator of this package in a deferred registration. The name cannot be defined already."""
        entry = self._staged[name] = OperatorEntry(name)
        entry.define(schema, source, tags)
        return entry

    def install_kernel(self, name: str, keys: Iterable[DispatchKey], kernel: KernelFunction) -> None:
        """Register a kernel under some keys of a just-installed operator."""
        kernels = self._staged[name].kernels
        for key in keys:
            kernels[key] = (kernel,)
            if key is operator_entry.ADINPLACE:
                operator_entry.inplace_or_view.append(kernel)

    def _find_or_create(self, name: str) -> OperatorEntry:
        entry = self._find(name)
        if entry is None:
            entry = self._operators[name] = OperatorEntry(name)
            base = name.partition(".")[0]
            self.packets[base] = (*self.packets.get(base, ()), name)
        return entry

    def _drop_if_empty(self, entry: OperatorEntry) -> None:
        """Remove an operator that has no schema, kernel or name registration left."""
        if not (entry.has_schema or entry.kernels or entry.names):
            self._drop(entry.name)
            entry.retire()

    def _drop(self, name: str) -> None:
        del self._operators[name]
        base = name.partition(".")[0]
        left = tuple(each for each in self.packets[base] if each != name)
        if left:
            self.packets[base] = left
        else:
            del self.packets[base]

    def find_op(self, name: str, overload_name: str = "") -> OperatorEntry | None:
        """Return the operator of a full name (``aten::add.Tensor``, or the overload apart), defined or only named, or
        None.
        """
        return self._find(f"{name}.{overload_name}" if overload_name else name)

    def find_schema(self, name: str, overload_name: str = "") -> OperatorEntry | None:
        """Return the operator of a full name if it is defined, else None."""
        entry = self.find_op(name, overload_name)
        return entry if entry is not None and entry.has_schema else None

    def find_schema_or_throw(self, name: str, overload_name: str = "") -> OperatorEntry:
        """Return the defined operator of a full name. Raises RuntimeError if there is none.

        Example:
            >>> import triten as tt
            >>> add = tt.dispatch.Dispatcher.singleton().find_schema_or_throw("aten::add", "Tensor")
            >>> add.name, add.schema.arguments[2].name
            ('aten::add.Tensor', 'alpha')
        """
        entry = self.find_schema(name, overload_name)
        if entry is None:
            full = f"{name}.{overload_name}" if overload_name else name
            raise RuntimeError(f"Could not find schema for {full}{self.why_undefined(full)}")
        return entry

    def why_undefined(self, name: str) -> str:
        """Return why a name has no definition, in parentheses; an empty string if the reason is unknown."""
        skipped = self.skipped.get(name)
        if skipped:
            return f" (the allowlist of the library at {skipped[-1]} passes over it)"
        entry = self._find(name)
        if entry is None:
            return ""
        subject = "kernels are" if entry.kernels else "the name is"
        return f" ({subject} registered for it, but no schema)"

    def dump(self, name: str) -> str:
        """Return an operator's registrations and dispatch table as text. Raises RuntimeError for an unknown name."""
        entry = self._find(name)
        if entry is None:
            raise RuntimeError(f"Could not find operator {name}{self.why_undefined(name)}")
        return entry.dump()

    def get_all_op_names(self) -> list[str]:
        """Return every name, sorted."""
        self.load_all()
        return sorted(list(self._operators))  # noqa: C414 - list() is one step, while others register

    def get_registrations_for_dispatch_key(self, key: DispatchKey | str | None = None) -> list[str]:
        """Return the names of operators with a kernel of their own at `key`, or with any kernel if `key` is None."""
        self.load_all()
        selected_key = None if key is None else parse(key)
        return sorted(
            name
            for name, entry in list(self._operators.items())
            if (entry.kernels if selected_key is None else selected_key in entry.kernels)
        )

    def call(self, op: OperatorEntry, /, *args: Any, **kwargs: Any) -> Any:
        """Call an operator with arguments in schema order. Raises TypeError if they do not fit the schema."""
        return op.call(*_bound(op, args, kwargs))

    def redispatch(self, op: OperatorEntry, key_set: DispatchKeySet, /, *args: Any, **kwargs: Any) -> Any:
        """Call the kernel of exactly this key set."""
        return op.call_with_keys(key_set.raw_repr(), _bound(op, args, kwargs))

    def call_with_dispatch_key(
        self, op: OperatorEntry, key: DispatchKey | str, /, *args: Any, **kwargs: Any
    ) -> Any:
        """Call the kernel of one key."""
        return op.call_with_keys(parse(key).bits, _bound(op, args, kwargs))

    def call_boxed(self, op: OperatorEntry, stack: list[Any]) -> None:
        """Call over a stack: pop the operator's arguments and push the results.

        A call that raises leaves the stack unchanged.
        """
        args = _pop(op, stack)
        try:
            _push(op, stack, op.call(*args))
        except BaseException:
            stack.extend(args)
            raise

    def redispatch_boxed(self, op: OperatorEntry, key_set: DispatchKeySet, stack: list[Any]) -> None:
        """Call `redispatch` over a stack."""
        args = _pop(op, stack)
        try:
            _push(op, stack, op.call_with_keys(key_set.raw_repr(), args))
        except BaseException:
            stack.extend(args)
            raise

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Suspend plan invalidation while the package registers its own operators, before any call."""
        self._is_loading = True
        try:
            yield
        finally:
            self._is_loading = False
            self.forget_all()

    def forget(self, entry: OperatorEntry) -> None:
        """Drop an operator's decisions, those of all operators that may hold its plans, and every plan in front of
        them.
        """
        entry.clear()
        self.forget_all()

    def forget_all(self) -> None:
        """Drop the decisions of every operator that holds any."""
        if self._is_loading:
            return
        for each in list(operator_entry.deciding):
            each.clear()
            if each.is_retired:
                operator_entry.deciding.discard(each)
        for changed in self.on_change:
            changed()


def _bound(op: OperatorEntry, args: Sequence[Any], kwargs: dict[str, Any]) -> Sequence[Any]:
    from .op_overload import OpOverload

    return OpOverload(op).bind(args, kwargs)


def _pop(op: OperatorEntry, stack: list[Any]) -> Sequence[Any]:
    count = len(op.schema.arguments)
    if len(stack) < count:
        raise RuntimeError(f"{op.name}: the stack holds {len(stack)} values, the schema takes {count}")
    args = stack[len(stack) - count :]
    del stack[len(stack) - count :]
    return args


def _push(op: OperatorEntry, stack: list[Any], result: Any) -> None:
    returns = len(op.schema.returns)
    if returns == 1:
        stack.append(result)
    elif returns:
        stack.extend(result)


_singleton = Dispatcher()
