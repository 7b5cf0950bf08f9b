"""The dispatcher: every operator by name, and the registrations (ATen/core/dispatch/Dispatcher.h).

Reading takes no lock; registrations do, and each one forgets the plans that it may have changed.
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
from .kernel_signature import check_is_boxed, place_of
from .operator_entry import OperatorEntry, registering
from .registration import OpRegistrationListener, RegistrationHandle
from .tags import parse_tags


class Dispatcher:
    """The registry of operators. `singleton()` is the one of the process.

    A registration gives a handle that takes back exactly what it registered, in whatever order handles are closed;
    a refused one leaves everything as it was. `lock` is held while one is made or taken back.
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
        """The process's dispatcher."""
        return _singleton

    def register_def(
        self,
        schema: str | FunctionSchema,
        source: str = "",
        tags: str | Iterable[str] = (),
        name: str | None = None,
    ) -> RegistrationHandle:
        """Define an operator. `name` saves parsing where the caller knows it (generated code does).

        Kernels may be registered already, or remain when the definition is taken back; an operator that someone
        found before that refuses calls, whatever takes its name later.

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
        """Retire an operator; what is registered under its name beside the definition goes to a successor."""
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
        """Register a kernel, or a function as one, for a runtime or alias key; it may come before the definition.

        The last of several for one key serves. The first time in a process that one takes another's place a
        UserWarning names both. One that is registered `beneath` stands before those that there are, and so in no
        one's place.
        """
        key = parse(key)
        if not isinstance(kernel, KernelFunction):
            kernel = KernelFunction.from_function(kernel, source=place_of(kernel))
        with self.lock:
            entry = self._find(name)
            if entry is not None:
                earlier = entry.kernels.get(key, ())
                if earlier and not beneath:
                    self._warn_of_override(entry, key, earlier[-1], kernel)
                    if any(each is kernel for each in earlier):
                        # Each registration is an object of its own, so that its handle finds it.
                        kernel = copy(kernel)
            entry = self._find_or_create(name)
            others = entry.kernels.get(key, ())
            entry.kernels = {**entry.kernels, key: (kernel, *others) if beneath else (*others, kernel)}
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

        A fallthrough, which is what the keys of layers start with, is no kernel: another takes its
        place while it is registered. Raises RuntimeError for a second one.
        """
        key = parse(key)
        if not isinstance(kernel, KernelFunction):
            check_is_boxed(kernel, "fallback", place_of(kernel))
            kernel = KernelFunction(kernel, boxed=True, source=place_of(kernel))
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
        """The fallbacks of a key, of which the last serves."""
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
        """Make a name known: `find_op` finds it, `find_schema` does not until it is defined."""
        with self.lock:
            self._find_or_create(name).names += 1

        def undo() -> None:
            with self.lock:
                entry = self._operators[name]
                entry.names -= 1
                self._drop_if_empty(entry)

        return RegistrationHandle(undo)

    def register_library(self, namespace: str, source: str) -> RegistrationHandle:
        """Claim a namespace for definitions. Raises RuntimeError for one that is taken."""
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
        """Remember that the allowlist of a library at `source` passed over a definition, for error messages."""
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
        """Tell a listener of every operator that is defined or taken back, first of all of those defined already.

        With `as_loaded` it is told of this package's operators when they are loaded, rather than now.

        It is called while `lock` is held; kernels and names without a definition do not count. A listener that
        raises on a definition refuses it; one that raises when a definition is taken back cannot keep it, and
        the error reaches whoever closed the handle. Source: Dispatcher::addRegistrationListener.

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
        """The operator of a name, whose family is loaded if it is the first of it to be asked for."""
        entry = self._operators.get(name)
        if entry is None:
            prepare = self._deferred.get(name)
            if prepare is not None:
                self._load(prepare)
            # Again in any case: another thread may have loaded it between the two questions.
            entry = self._operators.get(name)
        return entry

    def defer(self, names: Iterable[str], prepare: Callable[[], Callable[[], None]]) -> None:
        """Have the function that `prepare` gives install operators of this package when one is first asked for.

        Everyone else sees all of them defined from now on: no name can be taken before they are loaded, and none is
        seen half registered. Importing is for `prepare`, which runs outside `lock`: modules wait for one another.
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
                return  # a signal's handler came between, asked for the family itself, and its entries are in use
            # An interrupt between these two steps leaves a family both loaded and deferred: what it has stays.
            loaded = {name: entry for name, entry in loaded.items() if name not in self._operators}
            self._operators.update(loaded)
            self._deferred = {name: each for name, each in self._deferred.items() if each is not prepare}
            for (listener,) in self._listeners:
                for entry in loaded.values():
                    listener.on_operator_registered(entry)

    def load_all(self) -> None:
        """Run every deferred registration, for whoever wants to see all operators."""
        for prepare in dict.fromkeys(list(self._deferred.values())):
            self._load(prepare)

    def install(self, name: str, schema: str, source: str, tags: frozenset[str]) -> OperatorEntry:
        """Define an operator of this package in a deferred registration: no one can have been before it."""
        entry = self._staged[name] = OperatorEntry(name)
        entry.define(schema, source, tags)
        return entry

    def install_kernel(self, name: str, keys: Iterable[DispatchKey], kernel: KernelFunction) -> None:
        """Give an operator that was just installed the kernel of some keys."""
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
        """Take away an operator of which neither schema nor kernel nor name is left."""
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
        """The operator of a full name (``aten::add.Tensor``, or the overload apart), defined or only named, or None."""
        return self._find(f"{name}.{overload_name}" if overload_name else name)

    def find_schema(self, name: str, overload_name: str = "") -> OperatorEntry | None:
        """The operator of a full name if it is defined, else None."""
        entry = self.find_op(name, overload_name)
        return entry if entry is not None and entry.has_schema else None

    def find_schema_or_throw(self, name: str, overload_name: str = "") -> OperatorEntry:
        """The defined operator of a full name. Raises RuntimeError where there is none.

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
        """What is known of a name without definition, in brackets; empty where nothing is."""
        skipped = self.skipped.get(name)
        if skipped:
            return f" (the allowlist of the library at {skipped[-1]} passes over it)"
        entry = self._find(name)
        if entry is None:
            return ""
        what = "kernels are" if entry.kernels else "the name is"
        return f" ({what} registered for it, but no schema)"

    def dump(self, name: str) -> str:
        """An operator's registrations and dispatch table, as text. Raises RuntimeError for an unknown name."""
        entry = self._find(name)
        if entry is None:
            raise RuntimeError(f"Could not find operator {name}{self.why_undefined(name)}")
        return entry.dump()

    def get_all_op_names(self) -> list[str]:
        """Every name, sorted."""
        self.load_all()
        return sorted(list(self._operators))  # noqa: C414 - list() is one step, while others register

    def get_registrations_for_dispatch_key(self, key: DispatchKey | str | None = None) -> list[str]:
        """Names of the operators with a kernel of their own at `key`; with None, of all with any kernel."""
        self.load_all()
        wanted = None if key is None else parse(key)
        return sorted(
            name
            for name, entry in list(self._operators.items())
            if (entry.kernels if wanted is None else wanted in entry.kernels)
        )

    def call(self, op: OperatorEntry, /, *args: Any, **kwargs: Any) -> Any:
        """Call an operator with arguments as its schema has them. Raises TypeError for others."""
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
        """Call over a stack: takes the operator's arguments off it and pushes the results.

        A call that raises leaves the stack as it was.
        """
        args = _pop(op, stack)
        try:
            _push(op, stack, op.call(*args))
        except BaseException:
            stack.extend(args)
            raise

    def redispatch_boxed(self, op: OperatorEntry, key_set: DispatchKeySet, stack: list[Any]) -> None:
        """`redispatch` over a stack."""
        args = _pop(op, stack)
        try:
            _push(op, stack, op.call_with_keys(key_set.raw_repr(), args))
        except BaseException:
            stack.extend(args)
            raise

    @contextmanager
    def loading(self) -> Iterator[None]:
        """The block in which the package registers its own operators, before any call: nothing is to be forgotten."""
        self._is_loading = True
        try:
            yield
        finally:
            self._is_loading = False
            self.forget_all()

    def forget(self, entry: OperatorEntry) -> None:
        """Drop an operator's decisions, those of all that may hold its plans, and every plan in front of them."""
        entry.clear()
        self.forget_all()

    def forget_all(self) -> None:
        """Drop the decisions of every operator that holds some."""
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
