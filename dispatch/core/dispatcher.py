"""The dispatcher: every operator by name, and the registrations (ATen/core/dispatch/Dispatcher.h).

Reading takes no lock; registrations do, and each one forgets the plans that it may have changed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from ...runtime.dispatch_key import DispatchKey, parse
from ...runtime.dispatch_key_set import DispatchKeySet
from ..schema import FunctionSchema, parse_schema
from . import operator_entry
from .kernel_function import KernelFunction
from .operator_entry import OperatorEntry


class RegistrationHandle:
    """Undoes one registration at `close()`, or at the end of a ``with`` block; closing twice is one closing."""

    __slots__ = ("_undo",)

    def __init__(self, undo: Callable[[], None]) -> None:
        self._undo: Callable[[], None] | None = undo

    def close(self) -> None:
        """Take the registration back."""
        undo, self._undo = self._undo, None
        if undo is not None:
            undo()

    def __enter__(self) -> RegistrationHandle:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class Dispatcher:
    """The registry of operators. `singleton()` is the one of the process."""

    def __init__(self) -> None:
        self._operators: dict[str, OperatorEntry] = {}
        self._libraries: dict[str, str] = {}
        self._lock = threading.RLock()
        self.packets: dict[str, list[str]] = {}
        self.on_change: list[Callable[[], None]] = []

    @staticmethod
    def singleton() -> Dispatcher:
        """The process's dispatcher."""
        return _singleton

    def register_def(
        self,
        schema: str | FunctionSchema,
        source: str = "",
        tags: frozenset[str] = frozenset(),
        name: str | None = None,
    ) -> RegistrationHandle:
        """Define an operator. `name` saves parsing where the caller knows it (generated code does).

        Raises RuntimeError for a second definition, naming both places.
        """
        if name is None:
            schema = parse_schema(schema, source or None) if isinstance(schema, str) else schema
            name = str(schema.operator_name)
        with self._lock:
            entry = self._find_or_create(name)
            if entry.has_schema:
                raise RuntimeError(
                    f"Tried to register an operator ({schema}) with the same name and overload name multiple times. "
                    f"First registered at {entry.source}, again at {source}."
                )
            entry.define(schema, source, tags)

        def undo() -> None:
            with self._lock:
                entry.undefine()
                self.forget(entry)
                self._drop_if_empty(entry)

        return RegistrationHandle(undo)

    def register_impl(self, name: str, key: DispatchKey | str, kernel: KernelFunction) -> RegistrationHandle:
        """Register a kernel for a runtime or alias key; it may come before the operator's definition."""
        key = parse(key)
        with self._lock:
            entry = self._find_or_create(name)
            entry.kernels = {**entry.kernels, key: (*entry.kernels.get(key, ()), kernel)}
            self.forget(entry)

        def undo() -> None:
            with self._lock:
                kernels = {**entry.kernels, key: tuple(k for k in entry.kernels[key] if k is not kernel)}
                entry.kernels = {k: registered for k, registered in kernels.items() if registered}
                self.forget(entry)
                self._drop_if_empty(entry)

        return RegistrationHandle(undo)

    def register_fallback(self, key: DispatchKey | str, kernel: KernelFunction) -> RegistrationHandle:
        """Register the kernel of a key for every operator without one. Raises RuntimeError for a second one."""
        key = parse(key)
        with self._lock:
            if key in operator_entry.fallbacks:
                raise RuntimeError(
                    f"Tried to register multiple backend fallbacks for the same dispatch key {key}; previous "
                    f"registration {operator_entry.fallbacks[key].source}, new registration {kernel.source}"
                )
            operator_entry.fallbacks[key] = kernel
            self.forget_all()

        def undo() -> None:
            with self._lock:
                operator_entry.fallbacks.pop(key, None)
                self.forget_all()

        return RegistrationHandle(undo)

    def register_name(self, name: str) -> OperatorEntry:
        """The entry of a name, made without schema if it is new: `find_op` finds it, `find_schema` does not."""
        with self._lock:
            return self._find_or_create(name)

    def register_library(self, namespace: str, source: str) -> RegistrationHandle:
        """Claim a namespace for definitions. Raises RuntimeError for one that is taken."""
        with self._lock:
            if namespace in self._libraries:
                raise RuntimeError(
                    f"Only a single library can be registered for a namespace: {namespace} is registered at "
                    f"{self._libraries[namespace]}, again at {source}. Use FRAGMENT to add to it."
                )
            self._libraries[namespace] = source

        def undo() -> None:
            self._libraries.pop(namespace, None)

        return RegistrationHandle(undo)

    def _find_or_create(self, name: str) -> OperatorEntry:
        entry = self._operators.get(name)
        if entry is None:
            entry = OperatorEntry(name)
            base = name.partition(".")[0]
            self.packets.setdefault(base, []).append(name)
            self._operators[name] = entry
        return entry

    def _drop_if_empty(self, entry: OperatorEntry) -> None:
        """Take away an operator of which neither schema nor kernel is left."""
        if entry.has_schema or entry.kernels or self._operators.get(entry.name) is not entry:
            return
        del self._operators[entry.name]
        base = entry.name.partition(".")[0]
        self.packets[base].remove(entry.name)
        if not self.packets[base]:
            del self.packets[base]

    def find_op(self, name: str) -> OperatorEntry | None:
        """The operator of a full name, defined or only named, or None."""
        return self._operators.get(name)

    def find_schema(self, name: str) -> OperatorEntry | None:
        """The operator of a full name if it is defined, else None."""
        entry = self._operators.get(name)
        return entry if entry is not None and entry.has_schema else None

    def find_schema_or_throw(self, name: str) -> OperatorEntry:
        """The defined operator of a full name. Raises RuntimeError where there is none."""
        entry = self.find_schema(name)
        if entry is None:
            hint = " (kernels are registered for it, but no schema)" if name in self._operators else ""
            raise RuntimeError(f"Could not find schema for {name}{hint}")
        return entry

    def get_all_op_names(self) -> list[str]:
        """Every name, sorted."""
        return sorted(list(self._operators))  # noqa: C414 - list() is one step, while others register

    def get_registrations_for_dispatch_key(self, key: DispatchKey | str | None = None) -> list[str]:
        """Names of the operators with a kernel of their own at `key`; with None, of all with any kernel."""
        wanted = None if key is None else parse(key)
        return sorted(
            name
            for name, entry in list(self._operators.items())
            if (entry.kernels if wanted is None else wanted in entry.kernels)
        )

    def call(self, op: OperatorEntry, *args: Any) -> Any:
        """Call with all arguments in schema order."""
        return op.call(*args)

    def redispatch(self, op: OperatorEntry, key_set: DispatchKeySet, *args: Any) -> Any:
        """Call the kernel of exactly this key set."""
        return op.call_with_keys(key_set.raw_repr(), args)

    def call_with_dispatch_key(self, op: OperatorEntry, key: DispatchKey, *args: Any) -> Any:
        """Call the kernel of one key."""
        return op.call_with_keys(key.bits, args)

    def call_boxed(self, op: OperatorEntry, stack: list[Any]) -> None:
        """Call over a stack: takes the operator's arguments off it and pushes the results."""
        _push(op, stack, op.call(*_pop(op, stack)))

    def redispatch_boxed(self, op: OperatorEntry, key_set: DispatchKeySet, stack: list[Any]) -> None:
        """`redispatch` over a stack."""
        _push(op, stack, op.call_with_keys(key_set.raw_repr(), _pop(op, stack)))

    def forget(self, entry: OperatorEntry) -> None:
        """Drop an operator's decisions, and every plan in front of it, since plans hold plans of others."""
        entry.clear()
        for changed in self.on_change:
            changed()

    def forget_all(self) -> None:
        """Drop the decisions of every operator."""
        for entry in list(self._operators.values()):
            entry.clear()
        for changed in self.on_change:
            changed()


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
