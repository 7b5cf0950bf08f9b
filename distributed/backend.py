"""Backends by name, and which of them serves which kind of device."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, ClassVar, NamedTuple

__all__ = [
    "Backend",
    "BackendConfig",
    "get_default_backend_for_device",
    "is_backend_available",
    "is_gloo_available",
    "is_mpi_available",
    "is_nccl_available",
    "is_ucc_available",
    "is_xccl_available",
]


DEFAULT_TIMEOUT = timedelta(minutes=30)
NCCL_TIMEOUT = timedelta(minutes=10)


class _Plugin(NamedTuple):
    creator_fn: Callable[..., Any]
    extended_api: bool


class Backend(str):
    """Name of a backend, in lower case (`torch.distributed.Backend`).

    ``mpi`` serves tensors on the host. It copies CUDA tensors to the host and back. ``gloo`` is an alias of
    ``mpi``, for programs written for PyTorch. ``nccl`` serves tensors on GPUs. ``fake`` has any number of
    ranks and communicates nothing. Libraries add backends with `register_backend`.

    Example:
        >>> import triten as tt
        >>> tt.distributed.Backend("NCCL") == tt.distributed.Backend.NCCL
        True
    """

    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    XCCL = "xccl"
    UCC = "ucc"
    MPI = "mpi"
    FAKE = "fake"

    backend_list: ClassVar[list[str]] = ["undefined", "gloo", "nccl", "xccl", "ucc", "mpi", "fake"]
    default_device_backend_map: ClassVar[dict[str, str]] = {"cpu": "mpi", "cuda": "nccl"}
    backend_capability: ClassVar[dict[str, list[str]]] = {
        "gloo": ["cpu", "cuda"],
        "mpi": ["cpu", "cuda"],
        "nccl": ["cuda"],
        "fake": ["cpu", "cuda", "meta"],
    }
    _plugins: ClassVar[dict[str, _Plugin]] = {}

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise ValueError(f"Backend constructor parameter must be string-ish, not {name!r}")
        return super().__new__(cls, name.lower())

    @classmethod
    def register_backend(
        cls,
        name: str,
        func: Callable[..., Any],
        extended_api: bool = False,
        devices: str | Sequence[str] | None = None,
    ) -> None:
        """Make a backend known (`torch.distributed.Backend.register_backend`).

        Args:
            name: Name of the backend for `init_process_group`.
            func: called with a store, a rank, the number of processes and a timeout; gives a
                `triten.distributed.backends.communicator.Communicator`.
            extended_api: Ignored; accepted for compatibility with PyTorch.
            devices: Device types that it serves. Default: ``cpu`` and ``cuda``.
        """
        lower = name.lower()
        if not hasattr(cls, name.upper()):
            setattr(cls, name.upper(), lower)
        if lower not in cls.backend_list:
            cls.backend_list.append(lower)
        served = [devices] if isinstance(devices, str) else list(devices or ("cpu", "cuda"))
        for device in served if devices is not None else ():
            cls.default_device_backend_map.setdefault(device, lower)
        cls.backend_capability[lower] = served
        cls._plugins[name.upper()] = _Plugin(func, extended_api)


class BackendConfig:
    """The backend of each type of device (`torch.distributed.distributed_c10d.BackendConfig`).

    Args:
        backend: a backend's name, pairs such as ``"cpu:mpi,cuda:nccl"``, or ``"undefined"`` for the defaults of all
            devices.

    Raises:
        ValueError: it is none of these.
    """

    def __init__(self, backend: str) -> None:
        text = str(backend).lower()
        self.device_backend_map: dict[str, Backend] = {}
        if text == Backend.UNDEFINED:
            defaults = Backend.default_device_backend_map
            self.device_backend_map = {device: Backend(name) for device, name in defaults.items()}
        elif ":" in text:
            for pair in text.split(","):
                device, colon, name = (part.strip() for part in pair.partition(":"))
                if not (device and colon and name) or ":" in name:
                    raise ValueError(
                        f"Invalid device:backend pairing: {pair}. Expected '<device_type1>:<backend1>,"
                        f"<device_type2>:<backend2>...', such as 'cpu:mpi,cuda:nccl', but got {str(backend)!r}"
                    )
                if device in self.device_backend_map:
                    raise ValueError(f"Duplicate device type {device} in backend string: {backend}")
                self.device_backend_map[device] = _known(name)
        else:
            name = _known(text)
            self.device_backend_map = dict.fromkeys(Backend.backend_capability[name], name)

    def __repr__(self) -> str:
        return ",".join(f"{device}:{backend}" for device, backend in self.device_backend_map.items())

    def get_device_backend_map(self) -> dict[str, Backend]:
        """Return the backend of each device type."""
        return self.device_backend_map


def _known(name: str) -> Backend:
    if name not in Backend.backend_capability:
        known = ", ".join(sorted(Backend.backend_capability))
        raise ValueError(f"init_process_group: expected a backend of {known}, but got {name!r}")
    return Backend(name)


def get_default_backend_for_device(device: Any) -> str:
    """Return the default backend for tensors of a device
    (`torch.distributed.get_default_backend_for_device`).

    Raises:
        ValueError: there is none.

    Example:
        >>> import triten as tt
        >>> tt.distributed.get_default_backend_for_device("cuda:0")
        'nccl'
    """
    from ..runtime.device import device as as_device

    kind = as_device(device).type
    if kind not in Backend.default_device_backend_map:
        raise ValueError(f"Default backend not registered for device : {device}")
    return Backend.default_device_backend_map[kind]


def is_mpi_available() -> bool:
    """Return True if mpi4py is installed (`torch.distributed.is_mpi_available`)."""
    return importlib.util.find_spec("mpi4py") is not None


def is_gloo_available() -> bool:
    """Return True if the backend behind "gloo", MPI, is available (`torch.distributed.is_gloo_available`)."""
    return is_mpi_available()


def is_nccl_available() -> bool:
    """Return True if NCCL, or its stand-in on simulated devices, is available
    (`torch.distributed.is_nccl_available`).
    """
    if importlib.util.find_spec(f"{__package__}.backends.nccl") is None:
        return False
    from .backends.nccl.library import is_installed

    return bool(is_installed())


def is_ucc_available() -> bool:
    """Return False, since there is no UCC (`torch.distributed.is_ucc_available`)."""
    return False


def is_xccl_available() -> bool:
    """Return False, since there is no XCCL (`torch.distributed.is_xccl_available`)."""
    return False


def is_backend_available(backend: str) -> bool:
    """Return True if a backend is available (`torch.distributed.is_backend_available`).

    Example:
        >>> import triten as tt
        >>> tt.distributed.is_backend_available("ucc"), tt.distributed.is_backend_available("fake")
        (False, True)
    """
    name = str(backend).lower()
    checks = {
        "mpi": is_mpi_available,
        "gloo": is_gloo_available,
        "nccl": is_nccl_available,
    }
    if name in checks:
        return checks[name]()
    return name in Backend.backend_capability


def timeout_or_default(timeout: timedelta | None, backends: BackendConfig) -> timedelta:
    """Return the given timeout, or the default of these backends. Raise TypeError if it is not a timedelta."""
    if timeout is None:
        names = set(backends.device_backend_map.values())
        return NCCL_TIMEOUT if names == {Backend.NCCL} else DEFAULT_TIMEOUT
    if not isinstance(timeout, timedelta):
        raise TypeError(
            f"Expected timeout argument to be of type datetime.timedelta, got {timeout} of {type(timeout).__name__}"
        )
    return timeout
