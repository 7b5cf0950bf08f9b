"""Dispatch keys: backend components × functionalities, and alias keys (c10/core/DispatchKey.h).

A tensor carries a *set* of keys as one integer: a bit for each backend component and, above them, a bit for each
functionality. A higher bit comes earlier in a call. A *runtime key* such as ``AutogradCPU`` is the pair of a
per-backend functionality and a backend. An *alias key* such as ``Autograd`` stands for several runtime keys at
registration only.
"""

from __future__ import annotations

import enum
import threading

from .fork_lock import forkable


class BackendComponent(enum.IntEnum):
    """Backends, by bit position in a `DispatchKeySet`; CPU, CUDA and Meta first, to keep usual sets small."""

    CPU = 0
    CUDA = 1
    Meta = 2
    XLA = 3
    XPU = 4
    IPU = 5
    HPU = 6
    VE = 7
    Lazy = 8
    MPS = 9
    PrivateUse1 = 10
    PrivateUse2 = 11
    PrivateUse3 = 12


NUM_BACKENDS = len(BackendComponent)
BACKEND_MASK = (1 << NUM_BACKENDS) - 1


class Functionality(enum.IntEnum):
    """Functionalities, lowest priority first; the bit of each in a set is ``NUM_BACKENDS + value``."""

    Dense = 0
    Quantized = 1
    Sparse = 2
    SparseCsr = 3
    BackendSelect = 4
    Python = 5
    FuncTorchDynamicLayerBackMode = 6
    Functionalize = 7
    Named = 8
    ADInplaceOrView = 9
    AutogradOther = 10
    AutogradFunctionality = 11
    ForwardAD = 12
    Tracer = 13
    Profiler = 14
    AutocastFunctionality = 15
    Batched = 16
    VmapMode = 17
    PythonTLSSnapshot = 18
    PreDispatch = 19
    PythonDispatcher = 20


PER_BACKEND = {
    Functionality.Dense: "{}",
    Functionality.Quantized: "Quantized{}",
    Functionality.Sparse: "Sparse{}",
    Functionality.SparseCsr: "SparseCsr{}",
    Functionality.AutogradFunctionality: "Autograd{}",
    Functionality.AutocastFunctionality: "Autocast{}",
}
"""Functionalities that each backend can customize, and the name patterns of their runtime keys."""

ALIASES = (
    "Autograd",
    "CompositeImplicitAutograd",
    "CompositeExplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
)


class DispatchKey:
    """Dispatch key. Runtime keys have a `functionality` (and a `backend` if it is per-backend); aliases have neither.

    Example:
        >>> import triten as tt
        >>> tt.DispatchKey.AutogradCPU.backend.name, tt.DispatchKey.Autograd.is_alias
        ('CPU', True)
    """

    __slots__ = ("backend", "bits", "functionality", "is_alias", "name", "priority")

    def __init__(
        self,
        name: str,
        functionality: Functionality | None = None,
        backend: BackendComponent | None = None,
        is_alias: bool = False,
    ) -> None:
        self.name = name
        self.functionality = functionality
        self.backend = backend
        self.is_alias = is_alias
        self.bits = 0
        if functionality is not None:
            self.bits |= 1 << (NUM_BACKENDS + functionality)
        if backend is not None:
            self.bits |= 1 << backend
        self.priority = (
            -1 if functionality is None else int(functionality),
            -1 if backend is None else int(backend),
        )

    def __repr__(self) -> str:
        return f"DispatchKey.{self.name}"

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return parse, (spelling(self),)

    @staticmethod
    def register(name: str) -> DispatchKey:
        """Register a new functionality above all others, with its own bit in every `DispatchKeySet`.

        The key is in a call's key set while a thread includes it (`tt.dispatch.IncludeDispatchKeyGuard`). Kernels and
        a fallback are registered for it as for any other key; operators without a kernel fall through it. Among
        several such keys, the last one registered comes first. A key lives as long as the process; c10 only has keys
        at compile time.

        Raises:
            RuntimeError: For an invalid identifier, a name that is taken, and when none of the 64 bits is free.

        Example:
            >>> import triten as tt
            >>> Audit = tt.DispatchKey.register("DocsAudit")
            >>> def audit(op, keys, stack):
            ...     print(op.name)
            ...     args, stack[:] = list(stack), []
            ...     stack.append(op.call_with_keys((keys - Audit).raw_repr(), args))
            >>> with tt.library.Library("_", "IMPL") as lib:
            ...     lib.fallback(audit, "DocsAudit")
            ...     with tt.dispatch.IncludeDispatchKeyGuard(Audit):
            ...         y = tt.ones(2).neg()
            aten::ones
            aten::neg
        """
        with _registering:
            if not name.isidentifier() or hasattr(DispatchKey, name):
                raise RuntimeError(
                    f"DispatchKey.register: the name must be an identifier that no key has, got {name!r}"
                )
            value = len(Functionality)
            if NUM_BACKENDS + value >= 64:
                raise RuntimeError(
                    f"DispatchKey.register: no bit is left for {name}: {NUM_BACKENDS} backends and {value} "
                    "functionalities fill a key set of 64"
                )
            # Enumerations have no public way to grow; iteration and lookup by value use these tables.
            member = int.__new__(Functionality, value)
            member._name_, member._value_ = name, value
            Functionality._member_map_[name] = Functionality._value2member_map_[value] = member
            Functionality._member_names_.append(name)
            key = DispatchKey(name, member)
            BY_NAME[name] = RUNTIME[member, None] = key
            setattr(DispatchKey, name, key)
        return key


_registering = forkable(threading.RLock())
BY_NAME: dict[str, DispatchKey] = {"Undefined": DispatchKey("Undefined")}
RUNTIME: dict[tuple[Functionality, BackendComponent | None], DispatchKey] = {}

for _functionality in Functionality:
    _spelling = PER_BACKEND.get(_functionality)
    if _spelling is None:
        _key = DispatchKey(_functionality.name, _functionality)
        BY_NAME[_key.name] = RUNTIME[_functionality, None] = _key
    else:
        for _backend in BackendComponent:
            _key = DispatchKey(_spelling.format(_backend.name), _functionality, _backend)
            BY_NAME[_key.name] = RUNTIME[_functionality, _backend] = _key
for _alias in ALIASES:
    BY_NAME[_alias] = DispatchKey(_alias, is_alias=True)
for _name, _key in BY_NAME.items():
    setattr(DispatchKey, _name, _key)


def parse(name: str | DispatchKey) -> DispatchKey:
    """Return the key of this name. Raise RuntimeError for an unknown one."""
    if isinstance(name, DispatchKey):
        return name
    key = BY_NAME.get(name)
    if key is None:
        raise RuntimeError(f"could not parse dispatch key: {name}")
    return key


def spelling(key: DispatchKey, backend: str | None = None) -> str:
    """Return the name of a key, optionally with `backend` instead of its own backend's name."""
    if key.functionality is None:
        return key.name
    if key.backend is None:
        return key.functionality.name
    return PER_BACKEND[key.functionality].format(key.backend.name if backend is None else backend)


def rename_backend(backend: BackendComponent, name: str) -> None:
    """Rename a backend's keys: ``PrivateUse1`` to ``NPU``, ``AutogradPrivateUse1`` to ``AutogradNPU``.

    Keys print under the new name; both names are parsed. Raises RuntimeError for a name that another key has.
    """
    with _registering:
        keys = [RUNTIME[functionality, backend] for functionality in PER_BACKEND]
        spelt = {spelling(key, name): key for key in keys}
        for text, key in spelt.items():
            if getattr(DispatchKey, text, key) is not key:
                raise RuntimeError(
                    f"the keys of backend {name} cannot be told from others: there is a {text}"
                )
        for text, key in spelt.items():
            key.name = text
            BY_NAME[text] = key
            setattr(DispatchKey, text, key)


def functionality_bit(functionality: Functionality) -> int:
    """Return the bit of a functionality in a key set."""
    return 1 << (NUM_BACKENDS + functionality)


AUTOGRAD_BITS = functionality_bit(Functionality.AutogradFunctionality) | functionality_bit(
    Functionality.AutogradOther
)
ADINPLACE_BIT = functionality_bit(Functionality.ADInplaceOrView)
AUTOCAST_BIT = functionality_bit(Functionality.AutocastFunctionality)
PYTHON_BIT = functionality_bit(Functionality.Python)


def highest_priority(bits: int) -> DispatchKey:
    """Return the runtime key that a key set dispatches to first; Undefined for a set without functionality."""
    functionality_bits = bits >> NUM_BACKENDS
    if not functionality_bits:
        return BY_NAME["Undefined"]
    functionality = Functionality(functionality_bits.bit_length() - 1)
    if functionality not in PER_BACKEND:
        return RUNTIME[functionality, None]
    backends = bits & BACKEND_MASK
    if not backends:
        return BY_NAME["Undefined"]
    return RUNTIME[functionality, BackendComponent(backends.bit_length() - 1)]
