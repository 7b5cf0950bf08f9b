"""Operator objects: ``ops.<namespace>.<operator>.<overload>`` (torch/_ops.py).

Objects are created on lookup. While an object is alive, further lookups return it, so that programs may compare with
``is``, as they do in PyTorch. They are pickled by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn
from weakref import WeakValueDictionary

from ...runtime.dispatch_key import DispatchKey
from ...runtime.dispatch_key_set import DispatchKeySet
from ...runtime.traceback_filter import hide_inner_frames
from ..schema import FunctionSchema, bind_operator, resolve_operator
from .call_arguments import unwrap_numbers, wrap_numbers
from .dispatcher import Dispatcher
from .operator_entry import IMPLICIT, OperatorEntry
from .tags import Tag
from .tensor_function import handle, overloaded, plain_classes, unmarked

_overloads: WeakValueDictionary[int, OpOverload] = WeakValueDictionary()
"""Overloads by the identity of their entry. An overload keeps its entry alive, so the id cannot be reused."""
_groups: WeakValueDictionary[str, OpOverloadGroup] = WeakValueDictionary()


class OpOverload:
    """One overload; calling it binds the arguments to its schema and dispatches.

    Example:
        >>> import triten as tt
        >>> str(tt.ops.aten.relu.default._schema)
        'aten::relu(Tensor self) -> Tensor'
        >>> str(tt.ops.aten.add.Tensor), tt.ops.aten.add.Tensor.overloadpacket
        ('aten.add.Tensor', <OpOverloadPacket(op='aten.add')>)
    """

    __slots__ = ("__weakref__", "_entry")
    _entry: OperatorEntry

    def __new__(cls, entry: OperatorEntry) -> OpOverload:
        """Return the overload of an entry."""
        overload = _overloads.get(id(entry))
        if overload is None:
            overload = object.__new__(cls)
            overload._entry = entry
            overload = _overloads.setdefault(id(entry), overload)
        return overload

    @property
    def _schema(self) -> FunctionSchema:
        return self._entry.schema.with_namespace(self.namespace)

    @property
    def _name(self) -> str:
        return self._entry.name

    @property
    def _opname(self) -> str:
        return self._entry.name.partition("::")[2].partition(".")[0]

    @property
    def _overloadname(self) -> str:
        return self._entry.name.partition("::")[2].partition(".")[2] or "default"

    @property
    def namespace(self) -> str:
        """The namespace."""
        return self._entry.name.partition("::")[0]

    @property
    def __name__(self) -> str:
        return f"{self._opname}.{self._overloadname}"

    @property
    def overloadpacket(self) -> OpOverloadGroup:
        """All overloads of the operator."""
        return OpOverloadGroup(self._entry.name.partition(".")[0])

    @property
    def tags(self) -> frozenset[Tag]:
        """The operator's tags."""
        # Generated operators also have tags internal to this package's code generator.
        return frozenset(Tag[name] for name in self._entry.tags if name in Tag.__members__)

    def name(self) -> str:
        """Return the full name."""
        return self._entry.name

    def bind(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Sequence[Any]:
        """Return all arguments in schema order. Raises RuntimeError for arguments that do not fit the schema."""
        if self._entry.numbers_as_tensors:
            args, kwargs = wrap_numbers(args, kwargs)
            return unwrap_numbers(bind_operator(self._entry.schema, tuple(args), kwargs))
        return bind_operator(self._entry.schema, tuple(args), kwargs)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Dispatch the call. Raises RuntimeError for arguments that do not fit the schema."""
        try:
            if kwargs or not plain_classes.issuperset(map(type, args)):
                askers = overloaded(args, kwargs)
                if askers:
                    return handle(self, askers, args, kwargs)
                return unmarked(self._entry.call(*self.bind(args, kwargs)))
            return self._entry.call(*self.bind(args, kwargs))
        except BaseException:
            hide_inner_frames()
            raise

    def redispatch(self, key_set: DispatchKeySet, /, *args: Any, **kwargs: Any) -> Any:
        """Call the kernel of this key set."""
        try:
            return self._entry.call_with_keys(key_set.raw_repr(), self.bind(args, kwargs))
        except BaseException:
            hide_inner_frames()
            raise

    def decompose(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the operator's CompositeImplicitAutograd kernel, whatever the tensors' keys are.

        Returns:
            The kernel's result; NotImplemented for an operator without such a kernel.
        """
        kernels = self._entry.kernels.get(IMPLICIT)
        if not kernels:
            return NotImplemented
        entry, kernel, bound = self._entry, kernels[-1], self.bind(args, kwargs)
        key_set = entry.key_set_of(bound)
        if kernel.function is not None:
            return unmarked(kernel.bind(entry, key_set)(*bound))
        plan = kernel.plan(entry, key_set, bound)
        return unmarked(plan(*(bound[i] for i in entry.runtime_positions(bound))))

    def has_kernel_for_dispatch_key(self, key: DispatchKey) -> bool:
        """Return whether a kernel is registered for exactly this key."""
        return bool(self._entry.kernels.get(key))

    def dump(self) -> str:
        """Return the operator's definition, its kernels, and the kernel of each dispatch key with the reason, as
        text.
        """
        return self._entry.dump()

    def __eq__(self, other: object) -> bool:
        return self._entry is other._entry if isinstance(other, OpOverload) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._entry)

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return find_overload, (self._entry.name,)

    def __str__(self) -> str:
        return f"{self.namespace}.{self._opname}.{self._overloadname}"

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self.namespace}.{self._opname}', overload='{self._overloadname}')>"


def find_overload(name: str) -> OpOverload:
    """Return the overload of a full name, ``aten::add.Tensor``. Raises RuntimeError if there is none."""
    return OpOverload(Dispatcher.singleton().find_schema_or_throw(name))


class OpOverloadGroup:
    """Overloads of one operator; calling the group resolves an overload by the arguments."""

    __slots__ = ("__weakref__", "_qualified")
    _qualified: str

    def __new__(cls, qualified: str) -> OpOverloadGroup:
        """Return the group of an operator's overloads."""
        group = _groups.get(qualified)
        if group is None:
            group = object.__new__(cls)
            group._qualified = qualified
            group = _groups.setdefault(qualified, group)
        return group

    @property
    def __name__(self) -> str:
        return self._qualified.partition("::")[2]

    def _defined(self) -> list[OperatorEntry]:
        dispatcher = Dispatcher.singleton()
        entries = [dispatcher.find_schema(name) for name in dispatcher.packets.get(self._qualified, ())]
        return [entry for entry in entries if entry is not None]

    def overloads(self) -> list[str]:
        """Return the overloads' names; the unnamed one is ``default``."""
        return [e.name.partition("::")[2].partition(".")[2] or "default" for e in self._defined()]

    def __getattr__(self, overload: str) -> OpOverload:
        if overload.startswith("__"):
            raise AttributeError(overload)
        name = self._qualified if overload == "default" else f"{self._qualified}.{overload}"
        dispatcher = Dispatcher.singleton()
        entry = dispatcher.find_schema(name)
        if entry is None:
            raise AttributeError(
                f"'{self._qualified}' has no overload '{overload}'{dispatcher.why_undefined(name)}; "
                f"it has {self.overloads()}",
                name=overload,
                obj=self,
            )
        return OpOverload(entry)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        try:
            askers = overloaded(args, kwargs)
            if askers:
                return handle(self, askers, args, kwargs)
            entries = self._defined()
            if not entries:
                why = Dispatcher.singleton().why_undefined(self._qualified)
                raise NotImplementedError(
                    f"Could not run '{self._qualified}': it is not defined any more{why}"
                )
            schema, bound = resolve_operator([e.schema for e in entries], args, kwargs, self._qualified)
            return unmarked(next(e for e in entries if e.schema is schema).call(*bound))
        except BaseException:
            hide_inner_frames()
            raise

    def __dir__(self) -> list[str]:
        return self.overloads()

    def __iter__(self) -> Iterator[str]:
        return iter(self.overloads())

    def __eq__(self, other: object) -> bool:
        return self._qualified == other._qualified if isinstance(other, OpOverloadGroup) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._qualified)

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return OpOverloadGroup, (self._qualified,)

    def __str__(self) -> str:
        return self._qualified.replace("::", ".")

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self}')>"


class _MissingOperator(AttributeError):
    """AttributeError that looks for similar names only when it is printed: `hasattr` discards it."""

    __module__, __qualname__ = "builtins", AttributeError.__name__  # as tracebacks name it

    name: str
    obj: OpNamespace

    def __str__(self) -> str:
        return self.obj._describe_missing(self.name)


class OpNamespace:
    """Operators of one namespace."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, operator: str) -> OpOverloadGroup:
        qualified = f"{self._name}::{operator}"
        group = OpOverloadGroup(qualified)
        if not group.overloads():
            raise _MissingOperator(name=operator, obj=self)
        return group

    def _describe_missing(self, operator: str) -> str:
        why = Dispatcher.singleton().why_undefined(f"{self._name}::{operator}")
        if why:
            return f"'{self._name}' has no operator '{operator}'{why}"
        known = dir(self)
        if not known:
            spaces = dir(Ops())
            return (
                f"'{self._name}' has no operator '{operator}': no operator is defined in this namespace"
                f"{_suggestion(self._name, spaces)}; there are {spaces}"
            )
        return f"'{self._name}' has no operator '{operator}'{_suggestion(operator, known)}"

    def __dir__(self) -> list[str]:
        prefix = f"{self._name}::"
        return [
            name[len(prefix) :]
            for name in list(Dispatcher.singleton().packets)
            if name.startswith(prefix) and OpOverloadGroup(name).overloads()
        ]

    def __iter__(self) -> Iterator[str]:
        return iter(dir(self))

    def __repr__(self) -> str:
        return f"<operators of namespace '{self._name}'>"


class Ops:
    """``tt.ops``: every namespace as an attribute."""

    def __getattr__(self, namespace: str) -> OpNamespace:
        # IPython and inspect probe for names such as _repr_html_, which would otherwise pass for namespaces.
        if namespace.startswith("__") or (namespace.startswith("_") and namespace not in dir(self)):
            raise AttributeError(namespace)
        return OpNamespace(namespace)

    def load_library(self, path: str) -> NoReturn:
        """Raise OSError: operators compiled against PyTorch cannot be loaded (`torch.ops.load_library`).

        `tt.library` registers operators written in Python.
        """
        raise OSError(f"Could not load this library: {path}: it would need PyTorch's own libraries")

    @property
    def loaded_libraries(self) -> set[str]:
        """Loaded libraries: always empty."""
        return set()

    def __dir__(self) -> list[str]:
        return sorted({name.partition("::")[0] for name in list(Dispatcher.singleton().packets)})

    def __iter__(self) -> Iterator[str]:
        return iter(dir(self))

    def __repr__(self) -> str:
        return f"<operators of namespaces {dir(self)}>"


def _suggestion(name: str, known: Iterable[str]) -> str:
    import difflib

    close = difflib.get_close_matches(name, list(known), n=3)
    return f"; did you mean {' or '.join(repr(c) for c in close)}?" if close else ""
