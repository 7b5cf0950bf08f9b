"""Dispatch keys: backend components × functionalities, and alias keys (c10/core/DispatchKey.h).

A tensor carries a *set* of keys as one integer: a bit for each backend component and, above them, a bit
for each functionality, the higher the earlier in a call. A *runtime key* such as ``AutogradCPU`` is the
pair of a per-backend functionality and a backend; an *alias key* such as ``Autograd`` stands for several
runtime keys at registration only.
"""

from __future__ import annotations

import enum


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
    """Functionalities, lowest priority first; the bit of one in a set is ``NUM_BACKENDS + value``."""

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
    Tracer = 12
    Profiler = 13
    AutocastFunctionality = 14
    Batched = 15
    VmapMode = 16
    PythonTLSSnapshot = 17
    PreDispatch = 18
    PythonDispatcher = 19


PER_BACKEND = {
    Functionality.Dense: "{}",
    Functionality.Quantized: "Quantized{}",
    Functionality.Sparse: "Sparse{}",
    Functionality.SparseCsr: "SparseCsr{}",
    Functionality.AutogradFunctionality: "Autograd{}",
    Functionality.AutocastFunctionality: "Autocast{}",
}
"""The functionalities that each backend can customise, and how their runtime keys are spelt."""

ALIASES = (
    "Autograd",
    "CompositeImplicitAutograd",
    "CompositeExplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
)


class DispatchKey:
    """One key. Runtime keys have a `functionality` (and a `backend` where it is per-backend); aliases neither.

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
        return parse, (self.name,)


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
    """The key of this name. Raises RuntimeError for an unknown one."""
    if isinstance(name, DispatchKey):
        return name
    found = BY_NAME.get(name)
    if found is None:
        raise RuntimeError(f"could not parse dispatch key: {name}")
    return found


def functionality_bit(functionality: Functionality) -> int:
    """The bit of a functionality in a key set."""
    return 1 << (NUM_BACKENDS + functionality)


AUTOGRAD_BITS = functionality_bit(Functionality.AutogradFunctionality) | functionality_bit(
    Functionality.AutogradOther
)
ADINPLACE_BIT = functionality_bit(Functionality.ADInplaceOrView)
AUTOCAST_BIT = functionality_bit(Functionality.AutocastFunctionality)


def highest_priority(bits: int) -> DispatchKey:
    """The runtime key that a set of bits dispatches to first; Undefined for a set without functionality."""
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
