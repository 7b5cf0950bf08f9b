"""CUDA errors in PyTorch's wording: the one place where CuPy's exceptions become `AcceleratorError`.

CuPy raises `CUDARuntimeError` and `CUDADriverError`, whose text is an enumerator and NVIDIA's message. The driver
calls the runtime API through `runtime` of this module. It wraps other CuPy calls in `reported()`. Source:
c10/cuda/CUDAException.cpp; CUDA Runtime API, "Error Handling".
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

from cupy.cuda import driver as driver_api
from cupy.cuda import runtime as runtime_api

from ...errors import AcceleratorError

INVALID_CONTEXT, INVALID_HANDLE = 201, 400

LOST = frozenset({214, 700, 710, 714, 715, 716, 717, 718, 719, 721})
"""Sticky errors of a kernel that ran: the next call reports them, and so does every later call."""

_ASYNCHRONOUS = (
    "\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
    "incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1. The device answers nothing else in this "
    "process from here on."
)

NATIVE = (runtime_api.CUDARuntimeError, driver_api.CUDADriverError)
"""Exceptions that CuPy raises."""


class CUDAError(AcceleratorError):
    """Failed CUDA call, by its status.

    Example::

        >>> CUDAError(700)
        CUDAError('CUDA error: an illegal memory access was encountered...')
    """

    def __init__(self, status: int, cause: BaseException | None = None, doing: str = "") -> None:
        described = str(cause if cause is not None else runtime_api.CUDARuntimeError(status))
        name, _, text = described.partition(": ")
        suffix = f": {doing}" if doing else ""
        hint = _ASYNCHRONOUS if status in LOST else ""
        super().__init__(f"CUDA error: {text or name}{suffix}{hint}", status)
        self.status = status
        self.name = name


def error_text(status: int) -> str:
    """Return NVIDIA's message for a status of the runtime API."""
    name, _, text = str(runtime_api.CUDARuntimeError(status)).partition(": ")
    return text or name


def reported_as(error: BaseException, doing: str = "") -> CUDAError:
    """Convert CuPy's exception to `CUDAError`; `doing` says what failed."""
    return CUDAError(error.status, error, doing)  # type: ignore[attr-defined]


class reported:
    """Context manager that converts CUDA errors to `CUDAError`."""

    __slots__ = ("_doing",)

    def __init__(self, doing: str = "") -> None:
        self._doing = doing

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, NATIVE):
            raise reported_as(error, self._doing) from error


class RuntimeAPI:
    """`cupy.cuda.runtime` with its errors converted to `CUDAError`; a function is wrapped at its first use."""

    CUDARuntimeError = CUDAError

    def __getattr__(self, name: str) -> Any:
        value = getattr(runtime_api, name)
        if callable(value):
            value = _reporting(value)
        setattr(self, name, value)
        return value


def _reporting(function: Callable[..., Any]) -> Callable[..., Any]:
    cuda_error = runtime_api.CUDARuntimeError

    def call(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except cuda_error as error:
            raise reported_as(error) from error

    return call


runtime = RuntimeAPI()
"""The runtime API, as bound by CuPy."""
