"""`Library`: definitions and kernels of a namespace (torch/library.py, TORCH_LIBRARY).

A ``DEF`` library owns a namespace, a ``FRAGMENT`` adds to one, an ``IMPL`` registers kernels for one key.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ...runtime.dispatch_key import DispatchKey, parse
from ..schema import parse_name, parse_schema
from .dispatcher import Dispatcher, RegistrationHandle
from .kernel_function import KernelFunction

_KINDS = ("DEF", "IMPL", "FRAGMENT")


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
        allowlist: names of the only operators to register; others are passed over.

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
        self._allowlist = None if allowlist is None else frozenset(allowlist)
        self._handles: list[RegistrationHandle] = []
        if kind == "DEF":
            self._handles.append(Dispatcher.singleton().register_library(ns, caller()))

    def define(self, schema: str, fn: Callable[..., Any] | None = None, *, tags: Sequence[str] = ()) -> str:
        """Define an operator by its schema; `fn` becomes its CompositeImplicitAutograd kernel. Returns its name."""
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
        if self._skips(short):
            return short
        waiting = Dispatcher.singleton().find_op(name)
        for kernels in () if waiting is None else waiting.kernels.values():
            for kernel in kernels:
                if kernel.function is not None and not kernel.boxed:
                    _check_signature(
                        kernel.function,
                        len(parsed.arguments) + kernel.takes_key_set,
                        str(parsed),
                        kernel.source,
                    )
        self._handles.append(Dispatcher.singleton().register_def(parsed, place, frozenset(tags)))
        if fn is not None:
            self.impl(short, fn, "CompositeImplicitAutograd")
        return short

    def impl(
        self,
        op_name: Any,
        fn: Callable[..., Any] | KernelFunction,
        dispatch_key: str | DispatchKey = "",
        *,
        with_keyset: bool = False,
        boxed: bool = False,
    ) -> None:
        """Register a kernel. With `with_keyset` it takes the `DispatchKeySet` first; with `boxed`
        ``(op, key_set, stack)``.

        Raises RuntimeError where no key is named or the function cannot take the schema's arguments.
        """
        key = parse(dispatch_key) if dispatch_key else self.dispatch_key
        if key is None:
            raise RuntimeError(f"impl of {op_name}: no dispatch key is given, by the library or the call")
        name = getattr(op_name, "_name", None) or str(op_name)
        parsed = parse_name(name)
        full = str(parsed if parsed.namespace else parsed.with_namespace(self.ns))
        if self._skips(full.partition("::")[2]):
            return
        place = caller()
        kernel = fn if isinstance(fn, KernelFunction) else _kernel(fn, with_keyset, boxed, place)
        entry = Dispatcher.singleton().find_schema(full)
        if entry is not None and not isinstance(fn, KernelFunction) and not boxed:
            _check_signature(fn, len(entry.schema.arguments) + with_keyset, str(entry.schema), place)
        self._handles.append(Dispatcher.singleton().register_impl(full, key, kernel))

    def fallback(
        self,
        fn: Callable[..., Any] | KernelFunction,
        dispatch_key: str | DispatchKey = "",
        *,
        with_keyset: bool = True,
    ) -> None:
        """Register a boxed kernel for every operator without one at the key: ``fn(op, key_set, stack)``."""
        if self.ns != "_":
            raise RuntimeError(f"fallbacks are registered in the namespace '_', not {self.ns}")
        key = parse(dispatch_key) if dispatch_key else self.dispatch_key
        if key is None:
            raise RuntimeError("fallback: no dispatch key is given, by the library or the call")
        kernel = fn if isinstance(fn, KernelFunction) else _kernel(fn, False, True, caller())
        self._handles.append(Dispatcher.singleton().register_fallback(key, kernel))

    def _skips(self, name: str) -> bool:
        allowed = self._allowlist
        return allowed is not None and name not in allowed and name.partition(".")[0] not in allowed

    def close(self) -> None:
        """Take every registration back, the last one first."""
        while self._handles:
            self._handles.pop().close()

    def __enter__(self) -> Library:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _kernel(fn: Callable[..., Any], with_keyset: bool, boxed: bool, place: str) -> KernelFunction:
    if with_keyset and not boxed:
        from ...runtime.dispatch_key_set import DispatchKeySet

        def keyed(bits: int, *args: Any) -> Any:
            return fn(DispatchKeySet.from_raw_repr(bits), *args)

        return KernelFunction(keyed, takes_key_set=True, source=place)
    return KernelFunction(fn, boxed=boxed, source=place)


def _check_signature(fn: Callable[..., Any], count: int, schema: str, place: str) -> None:
    """Refuse a kernel that cannot be called with the schema's arguments. Raises RuntimeError."""
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*[None] * count)
    except TypeError as error:
        raise RuntimeError(
            f"the kernel at {place} cannot take the arguments of '{schema}': {signature} ({error})"
        ) from None


fallthrough_kernel = KernelFunction.fallthrough("fallthrough")
