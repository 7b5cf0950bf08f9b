"""Errors of CUDA as PyTorch words them: the one place where CuPy's exceptions become `AcceleratorError`.

CuPy raises `CUDARuntimeError` and `CUDADriverError`, whose text is an enumerator and NVIDIA's sentence. The driver
calls the runtime API through `runtime` of this module, and puts `reported()` around what CuPy calls by itself.
Source: c10/cuda/CUDAException.cpp; CUDA Runtime API, "Error Handling".
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
"""Errors of a kernel that ran: reported by whatever call comes next, and by every one after it."""

_ASYNCHRONOUS = (
    "\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
    "incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1. The device answers nothing else in this "
    "process from here on."
)

NATIVE = (runtime_api.CUDARuntimeError, driver_api.CUDADriverError)
"""What CuPy raises."""


class CUDAError(AcceleratorError):
    """A call of CUDA that failed, by its status.

    Example::

        >>> CUDAError(700)
        CUDAError('CUDA error: an illegal memory access was encountered...')
    """

    def __init__(self, status: int, cause: BaseException | None = None, doing: str = "") -> None:
        described = str(cause if cause is not None else runtime_api.CUDARuntimeError(status))
        name, _, text = described.partition(": ")
        place = f": {doing}" if doing else ""
        hint = _ASYNCHRONOUS if status in LOST else ""
        super().__init__(f"CUDA error: {text or name}{place}{hint}", status)
        self.status = status
        self.name = name


def error_text(status: int) -> str:
    """NVIDIA's sentence of a status of the runtime API."""
    name, _, text = str(runtime_api.CUDARuntimeError(status)).partition(": ")
    return text or name


def reported_as(error: BaseException, doing: str = "") -> CUDAError:
    """CuPy's exception as ours; `doing` says what failed."""
    return CUDAError(error.status, error, doing)  # type: ignore[attr-defined]


class reported:
    """A block of code whose errors of CUDA leave it as `CUDAError`."""

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
    """`cupy.cuda.runtime` with its errors reported as `CUDAError`; a function is wrapped at its first use."""

    CUDARuntimeError = CUDAError

    def __getattr__(self, name: str) -> Any:
        found = getattr(runtime_api, name)
        if callable(found):
            found = _reporting(found)
        setattr(self, name, found)
        return found


def _reporting(function: Callable[..., Any]) -> Callable[..., Any]:
    cuda_error = runtime_api.CUDARuntimeError

    def call(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except cuda_error as error:
            raise reported_as(error) from error

    return call


runtime = RuntimeAPI()
"""The runtime API, as CuPy binds it."""
