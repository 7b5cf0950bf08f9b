"""`Library`: definitions and kernels of a namespace (torch/library.py, TORCH_LIBRARY).

A ``DEF`` library owns a namespace, a ``FRAGMENT`` adds to one, an ``IMPL`` registers kernels for one key.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from copy import copy
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from ...runtime.dispatch_key import DispatchKey, parse
from ..schema import parse_name, parse_schema
from .dispatcher import Dispatcher
from .kernel_function import KernelFunction
from .kernel_signature import check_is_boxed
from .operator_entry import registering
from .registration import RegistrationHandle
from .tags import check_tagged, parse_tags

if TYPE_CHECKING:
    from .op_overload import OpOverload

_KINDS = ("DEF", "IMPL", "FRAGMENT")
_RESERVED = ("prim", "_")
_ALIAS_ANALYSES = ("", "FROM_SCHEMA", "CONSERVATIVE")

_abandoned: list[ExitStack] = []
"""Registrations of libraries collected during another registration: the next registration undoes them."""

fallthrough_kernel = KernelFunction.fallthrough("fallthrough")


def caller(depth: int = 2) -> str:
    """Return the caller's file and line, for messages."""
    frame = inspect.currentframe()
    for _ in range(depth):
        frame = frame.f_back if frame is not None else None
    return "unknown" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _take_back(registrations: ExitStack) -> None:
    """Undo the registrations of a library that has become unreachable.

    Garbage collection may run in a thread that holds the registry's lock, or holds a lock for which the registry
    lock's holder waits. In that case the next registration undoes them.
    """
    _abandoned.append(registrations)
    if not registering._is_owned() and registering.acquire(blocking=False):  # type: ignore[attr-defined]
        try:
            _take_abandoned_back()
        finally:
            registering.release()


def _take_abandoned_back() -> None:
    while _abandoned:
        _abandoned.pop().close()


def _check_callable(fn: object) -> None:
    if not callable(fn):
        raise TypeError(f"Input function is required to be a callable but found type {type(fn)}")


class Library:
    """A namespace's registrations, undone by `close()`, at the end of a ``with`` block, and with the object's end.

    Args:
        ns: The namespace; ``_`` for fallbacks of every operator (IMPL only).
        kind: ``DEF``, ``FRAGMENT`` or ``IMPL``.
        dispatch_key: The key of an IMPL library's kernels, unless `impl` names another.
        allowlist: The only operators to register, as ``conv2d`` (all its overloads), ``add.out`` (that one) or a
            pattern such as ``conv*``, each with or without the namespace. Definitions and kernels of others are
            skipped.

    Raises:
        ValueError: for an unknown kind, and for the namespaces ``prim`` and ``_`` in a library that is not of kind
            IMPL.
        RuntimeError: for a namespace that another DEF library owns, and for an unknown key.

    Example:
        >>> import triten as tt
        >>> with tt.library.Library("docs", "DEF") as lib:
        ...     lib.define("twice(Tensor x) -> Tensor")
        ...     lib.impl("twice", lambda x: x + x, "CompositeImplicitAutograd")
        ...     tt.ops.docs.twice(tt.ones(2))
        'twice'
        tensor([2., 2.])
    """

    def __init__(
        self,
        ns: str,
        kind: str,
        dispatch_key: str | DispatchKey = "",
        allowlist: Sequence[str] | None = None,
    ) -> None:
        if kind not in _KINDS:
            raise ValueError(f"Unsupported kind: {kind}; expected one of {', '.join(_KINDS)}")
        if ns in _RESERVED and kind != "IMPL":
            raise ValueError(
                f"{ns} is a reserved namespace. Please try creating a library with another name, or use IMPL to "
                "register kernels and fallbacks."
            )
        self.ns = ns
        self.kind = kind
        self.dispatch_key = parse(dispatch_key) if dispatch_key else None
        self._allowlist = None if allowlist is None else tuple(a.removeprefix(f"{ns}::") for a in allowlist)
        self._place = caller()
        self._dispatcher = Dispatcher.singleton()
        self._is_closed = False
        self._registrations = ExitStack()
        weakref.finalize(self, _take_back, self._registrations).atexit = False
        if kind == "DEF":
            self._keep(self._dispatcher.register_library(ns, self._place))

    def _keep(self, handle: RegistrationHandle) -> None:
        self._registrations.enter_context(handle)

    def define(
        self,
        schema: str,
        fn: Callable[..., Any] | str | None = None,
        *,
        alias_analysis: str = "",
        tags: str | Iterable[str] = (),
    ) -> str:
        """Define an operator by its schema and return its name. `fn` becomes its CompositeImplicitAutograd kernel.

        Args:
            schema: Text in ATen's schema language, with or without the library's namespace.
            fn: The kernel, if the operator is a composite of others. A str is PyTorch's `alias_analysis`, which has
                this position there.
            alias_analysis: ``""``, ``"FROM_SCHEMA"`` or ``"CONSERVATIVE"``. The schema says what aliases in any case.
            tags: A `tt.Tag`, or several.

        Raises:
            ValueError: for a schema without the form that its tags ``out`` and ``inplace`` require.
            RuntimeError: in an IMPL library, for a schema of another namespace, a malformed schema (`SchemaError`), a
                second definition, and an unknown `alias_analysis`. Nothing is registered then.
            TypeError: for an unknown tag, and for a kernel that cannot be called.
        """
        if isinstance(fn, str):
            alias_analysis, fn = fn, None
        if alias_analysis not in _ALIAS_ANALYSES:
            raise RuntimeError(
                f"Invalid alias_analysis type {alias_analysis}; expected one of {', '.join(map(repr, _ALIAS_ANALYSES))}"
            )
        self._check_open()
        source = caller()
        parsed = parse_schema(schema, source)
        if self.kind == "IMPL":
            raise RuntimeError(
                f'def("{parsed.operator_name}"): an IMPL library cannot define operators; use DEF or FRAGMENT'
            )
        namespace = parsed.operator_name.namespace
        if namespace and namespace != self.ns:
            raise RuntimeError(
                f"the schema names namespace {namespace}, the library is of {self.ns}: {schema}"
            )
        parsed = parsed.with_namespace(self.ns)
        check_tagged(parsed, parse_tags(tags, str(parsed.operator_name)))
        if fn is not None:
            _check_callable(fn)
        name = str(parsed.operator_name)
        short = name.partition("::")[2]
        with self._dispatcher.lock:
            self._check_open()
            if self._skips(short):
                self._keep(self._dispatcher.register_skipped(name, self._place))
                return short
            with ExitStack() as refused:
                definition = self._dispatcher.register_def(parsed, source, tags)
                refused.enter_context(definition)
                if fn is not None:
                    self._impl(
                        name,
                        parse("CompositeImplicitAutograd"),
                        KernelFunction.from_function(fn, source=source),
                    )
                refused.pop_all()
            self._keep(definition)
        return short

    def impl(
        self,
        op_name: str | OpOverload,
        fn: Callable[..., Any] | KernelFunction,
        dispatch_key: str | DispatchKey = "",
        *,
        with_keyset: bool = False,
        boxed: bool = False,
        allow_override: bool = True,
    ) -> None:
        """Register a kernel. It may precede the operator's definition.

        The kernel is called as PyTorch calls Python kernels. Keyword-only arguments are passed by name. Trailing
        arguments that equal their defaults are omitted, unless the function has a parameter without a default for
        them. The signature is not checked at registration. A second kernel for the key overrides the first until it
        is removed; the first override in a process issues a UserWarning.

        Args:
            op_name: The operator's name, with or without namespace, or a `tt.ops` overload.
            fn: The kernel; `fallthrough_kernel` hands every call to the next key.
            dispatch_key: A runtime or alias key, if not the library's. Default: CompositeImplicitAutograd.
            with_keyset: If True, the kernel takes the call's `DispatchKeySet` first.
            boxed: If True, the kernel is called as ``fn(op, key_set, stack)``.
            allow_override: If False, refuse to take the place of a Python kernel. Default: True.

        Raises:
            TypeError: for a kernel that cannot be called.
            RuntimeError: `op_name` is not an operator's name or has another namespace; the key is unknown or not the
                library's; a Meta kernel is for an operator that decomposes; or a second Python kernel comes without
                `allow_override`.

        Example:
            >>> import triten as tt
            >>> with tt.library.Library("docs", "DEF") as lib:
            ...     name = lib.define("scaled(Tensor x, *, float by) -> Tensor")
            ...     lib.impl(name, lambda x, *, by: x * by, "CPU")
            ...     tt.ops.docs.scaled(tt.ones(2), by=3.0)
            tensor([3., 3.])
        """
        if not isinstance(fn, KernelFunction):
            _check_callable(fn)
        if not isinstance(op_name, str) and not hasattr(op_name, "_overloadname"):
            raise RuntimeError(
                "impl should be passed either a name or an OpOverload object as the first argument, got "
                f"{type(op_name)}"
            )
        key_name = dispatch_key if isinstance(dispatch_key, str) else dispatch_key.name
        if key_name and self.dispatch_key is not None and key_name != self.dispatch_key.name:
            raise RuntimeError(
                f'impl("{op_name}", ...): Explicitly provided dispatch key ({key_name}) is inconsistent with the '
                f"dispatch key of the enclosing TORCH_LIBRARY_IMPL block ({self.dispatch_key.name}). Make a Library "
                "for this dispatch key."
            )
        key = parse(dispatch_key) if dispatch_key else self.dispatch_key or parse("CompositeImplicitAutograd")
        parsed = parse_name(op_name if isinstance(op_name, str) else op_name._name)
        if parsed.namespace not in ("", self.ns):
            raise RuntimeError(
                f'impl("{parsed}", ...): Explicitly provided namespace ({parsed.namespace}) in operator name does not '
                f"match namespace of the library ({self.ns})"
            )
        name = str(parsed.with_namespace(self.ns))
        source = caller()
        if isinstance(fn, KernelFunction):
            kernel = copy(fn)
            if fn is fallthrough_kernel or not fn.source:
                kernel.source = source
        else:
            if boxed:
                check_is_boxed(fn, f"kernel of {name}", source)
            kernel = KernelFunction.from_function(fn, with_keyset=with_keyset, boxed=boxed, source=source)
        with self._dispatcher.lock:
            self._check_open()
            if self._skips(name.partition("::")[2]):
                return
            entry = self._dispatcher.find_op(name)
            kernels = {} if entry is None else entry.kernels
            if key.name == "Meta" and any(k.name == "CompositeImplicitAutograd" for k in kernels):
                raise RuntimeError(
                    f"We should not register a meta kernel directly to the operator '{name}', because it has a "
                    "CompositeImplicitAutograd kernel. Let the operator decompose, and register meta kernels for the "
                    "operators that it decomposes into."
                )
            earlier = [each for each in kernels.get(key, ()) if each.written is not None]
            if earlier and not allow_override:
                raise RuntimeError(
                    f"This is not allowed since there's already a kernel registered from python overriding {name}'s "
                    f"behavior for {key} dispatch key and {self.ns} namespace: first registered at "
                    f"{earlier[-1].source}, again at {source}."
                )
            self._impl(name, key, kernel)

    def _impl(self, name: str, key: DispatchKey, kernel: KernelFunction) -> None:
        self._keep(self._dispatcher.register_impl(name, key, kernel))

    def fallback(
        self,
        fn: Callable[..., Any] | KernelFunction,
        dispatch_key: str | DispatchKey = "",
        *,
        with_keyset: bool = True,
    ) -> None:
        """Register a boxed kernel for every operator without one at the key: ``fn(op, key_set, stack)``.

        Raises:
            RuntimeError: in a namespace other than ``_``, where no key is named or the key has a fallback, and for a
                function that does not take these three arguments.
        """
        if self.ns != "_":
            raise RuntimeError(f"fallbacks are registered in the namespace '_', not {self.ns}")
        key = parse(dispatch_key) if dispatch_key else self.dispatch_key
        if key is None:
            raise RuntimeError("fallback: no dispatch key is given, by the library or the call")
        source = caller()
        if isinstance(fn, KernelFunction):
            kernel = fn
        else:
            check_is_boxed(fn, "fallback", source)
            kernel = KernelFunction(fn, boxed=True, source=source)
        with self._dispatcher.lock:
            self._check_open()
            self._keep(self._dispatcher.register_fallback(key, kernel))

    def _skips(self, name: str) -> bool:
        """Return whether the allowlist leaves out an operator, named without the namespace."""
        if self._allowlist is None:
            return False
        base = name.partition(".")[0]
        return not any(fnmatchcase(each, pattern) for pattern in self._allowlist for each in (name, base))

    def _check_open(self) -> None:
        if self._is_closed:
            raise AssertionError(
                f"Library object has been destroyed: the library of {self.ns} made at {self._place} is closed"
            )
        with registering:
            _take_abandoned_back()

    def close(self) -> None:
        """Undo every registration, the last one first. The library cannot register anything afterwards."""
        with self._dispatcher.lock:
            self._is_closed = True
            self._registrations.close()

    _destroy = close

    @property
    def m(self) -> Library | None:
        """The library while it is open, None afterwards; named after PyTorch's C++ object."""
        return None if self._is_closed else self

    def __repr__(self) -> str:
        key = "" if self.dispatch_key is None else self.dispatch_key
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={key})"

    def __enter__(self) -> Library:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
