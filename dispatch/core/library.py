"""`Library`: definitions and kernels of a namespace (torch/library.py, TORCH_LIBRARY).

A ``DEF`` library owns a namespace, a ``FRAGMENT`` adds to one, an ``IMPL`` registers kernels for one key.
"""

from __future__ import annotations

import inspect
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
from .registration import RegistrationHandle

if TYPE_CHECKING:
    from .op_overload import OpOverload

_KINDS = ("DEF", "IMPL", "FRAGMENT")

fallthrough_kernel = KernelFunction.fallthrough("fallthrough")


def caller(depth: int = 2) -> str:
    """The file and line that asked, for messages."""
    frame = inspect.currentframe()
    for _ in range(depth):
        frame = frame.f_back if frame is not None else None
    return "unknown" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


class Library:
    """A namespace's registrations, all undone by `close()` or at the end of a ``with`` block.

    Args:
        ns: the namespace; ``_`` for fallbacks of every operator (IMPL only).
        kind: ``DEF``, ``FRAGMENT`` or ``IMPL``.
        dispatch_key: the key of an IMPL library's kernels, unless `impl` names another.
        allowlist: the only operators to register, as ``conv2d`` (all its overloads), ``add.out`` (that one) or a
            pattern such as ``conv*``, each with or without the namespace. Definitions and kernels of others are
            passed over.

    Raises:
        ValueError: for an unknown kind, and for the namespace ``_`` in a library that is not of kind IMPL.
        RuntimeError: for a namespace that another DEF library owns.

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
        if ns == "_" and kind != "IMPL":
            raise ValueError(f"{ns} is a reserved namespace, please use IMPL to register fallbacks.")
        self.ns = ns
        self.kind = kind
        self.dispatch_key = parse(dispatch_key) if dispatch_key else None
        self._allowlist = None if allowlist is None else tuple(a.removeprefix(f"{ns}::") for a in allowlist)
        self._place = caller()
        self._dispatcher = Dispatcher.singleton()
        self._kernels: dict[tuple[str, DispatchKey], str] = {}
        self._is_closed = False
        self._registrations = ExitStack()
        if kind == "DEF":
            self._keep(self._dispatcher.register_library(ns, self._place))

    def _keep(self, handle: RegistrationHandle) -> None:
        self._registrations.enter_context(handle)

    def define(
        self, schema: str, fn: Callable[..., Any] | None = None, *, tags: str | Iterable[str] = ()
    ) -> str:
        """Define an operator by its schema; `fn` becomes its CompositeImplicitAutograd kernel. Returns its name.

        Args:
            schema: in ATen's schema language, with or without the library's namespace.
            fn: the kernel, if the operator is a composite of others.
            tags: a `tt.Tag`, or several.

        Raises:
            ValueError: in an IMPL library, and for a schema of another namespace.
            RuntimeError: for a malformed schema (`SchemaError`), a second definition, and a kernel, given here or
                registered before, that cannot take the schema's arguments. Nothing is registered then.
            TypeError: for an unknown tag.
        """
        if self.kind == "IMPL":
            raise ValueError("an IMPL library cannot define operators; use DEF or FRAGMENT")
        place = caller()
        parsed = parse_schema(schema, place)
        given = parsed.operator_name.namespace
        if given and given != self.ns:
            raise ValueError(f"the schema names namespace {given}, the library is of {self.ns}: {schema}")
        parsed = parsed.with_namespace(self.ns)
        name = str(parsed.operator_name)
        short = name.partition("::")[2]
        with self._dispatcher.lock:
            self._check_open()
            if self._skips(short):
                self._keep(self._dispatcher.register_skipped(name, self._place))
                return short
            with ExitStack() as refused:
                definition = self._dispatcher.register_def(parsed, place, tags)
                refused.enter_context(definition)
                if fn is not None:
                    self._impl(
                        name,
                        parse("CompositeImplicitAutograd"),
                        KernelFunction.from_function(fn, source=place),
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
        allow_override: bool = False,
    ) -> None:
        """Register a kernel; it may come before the operator's definition.

        It is called with the arguments in schema order; those that are keyword-only come by name where the
        function asks for that. Where another library has a kernel for the key, the new one takes its place
        until it is taken back (and the first time in a process a UserWarning says so).

        Args:
            op_name: the operator's name, with or without namespace, or a `tt.ops` overload.
            fn: the kernel; `fallthrough_kernel` hands every call to the next key.
            dispatch_key: a runtime or alias key, if not the library's.
            with_keyset: whether the kernel takes the call's `DispatchKeySet` first.
            boxed: whether it is called as ``fn(op, key_set, stack)``.
            allow_override: whether it may take the place of a kernel of this library.

        Raises:
            RuntimeError: where no key is named, for a function that cannot take the schema's arguments, and for a
                second kernel of this library for the same operator and key.

        Example:
            >>> import triten as tt
            >>> with tt.library.Library("docs", "DEF") as lib:
            ...     name = lib.define("scaled(Tensor x, *, float by) -> Tensor")
            ...     lib.impl(name, lambda x, *, by: x * by, "CPU")
            ...     tt.ops.docs.scaled(tt.ones(2), by=3.0)
            tensor([3., 3.])
        """
        key = parse(dispatch_key) if dispatch_key else self.dispatch_key
        if key is None:
            raise RuntimeError(f"impl of {op_name}: no dispatch key is given, by the library or the call")
        parsed = parse_name(getattr(op_name, "_name", None) or str(op_name))
        name = str(parsed if parsed.namespace else parsed.with_namespace(self.ns))
        place = caller()
        if isinstance(fn, KernelFunction):
            kernel = copy(fn)
            if fn is fallthrough_kernel or not fn.source:
                kernel.source = place
        else:
            kernel = KernelFunction.from_function(fn, with_keyset=with_keyset, boxed=boxed, source=place)
        with self._dispatcher.lock:
            self._check_open()
            if self._skips(name.partition("::")[2]):
                return
            earlier = self._kernels.get((name, key))
            if earlier is not None and not allow_override:
                raise RuntimeError(
                    f"This is not allowed since there's already a kernel registered from python overriding {name}'s "
                    f"behavior for {key} dispatch key and {self.ns} namespace: first registered at {earlier}, again "
                    f"at {place}."
                )
            self._impl(name, key, kernel)

    def _impl(self, name: str, key: DispatchKey, kernel: KernelFunction) -> None:
        self._keep(self._dispatcher.register_impl(name, key, kernel))
        self._kernels[name, key] = kernel.source

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
        place = caller()
        if isinstance(fn, KernelFunction):
            kernel = fn
        else:
            check_is_boxed(fn, "fallback", place)
            kernel = KernelFunction(fn, boxed=True, source=place)
        with self._dispatcher.lock:
            self._check_open()
            self._keep(self._dispatcher.register_fallback(key, kernel))

    def _skips(self, name: str) -> bool:
        """Whether the allowlist leaves out an operator, named without the namespace."""
        if self._allowlist is None:
            return False
        base = name.partition(".")[0]
        return not any(fnmatchcase(each, pattern) for pattern in self._allowlist for each in (name, base))

    def _check_open(self) -> None:
        if self._is_closed:
            raise RuntimeError(f"the library of {self.ns} made at {self._place} is closed")

    def close(self) -> None:
        """Take every registration back, the last one first; the library registers nothing afterwards."""
        with self._dispatcher.lock:
            self._is_closed = True
            self._kernels.clear()
            self._registrations.close()

    def __enter__(self) -> Library:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
