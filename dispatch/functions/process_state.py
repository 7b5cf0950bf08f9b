"""Process-wide queries and settings: former names of autocast, threads, libraries (`torch`).

The root re-exports them.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

from ...runtime.device import DeviceLike
from ...runtime.device import device as Device
from ...runtime.layout import layout as Layout
from ...runtime.parallel import get_num_threads
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.scalar_type import get_default_dtype
from ...runtime.storage import Storage
from ...runtime.traceback_filter import api_boundary
from ...runtime.user_frame import levels_to_user
from ..core.deprecated_call import is_warn_always_enabled, set_warn_always
from ..core.tensor_function import overridable
from ..generated import functions as _ops
from ..layers.autocast.state import (
    get_autocast_dtype,
    is_autocast_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
)
from ..tensor import Tensor

_KINDS = {"cpu": "cpu", "gpu": "cuda", "ipu": "ipu", "xla": "xla"}
"""The device types in the former names of autocast's functions."""


def _former(
    name: str, today: Callable[..., Any], summary: str, argument: str | None, result: str | None
) -> Any:
    """Return a function with a former name that calls the current one for its device type, with PyTorch's warning."""
    kind = next(_KINDS[part] for part in name.split("_") if part in _KINDS)

    def warn(rest: str) -> None:
        warnings.warn(
            f"{name}() is deprecated. Please use {today.__name__}('{kind}'{rest}) instead.",
            DeprecationWarning,
            stacklevel=levels_to_user(),
        )

    def ask() -> Any:
        warn("")
        return today(kind)

    def set_dtype(dtype: ScalarType, /) -> None:
        warn(", dtype")
        today(kind, dtype)

    def set_enabled(enabled: bool, /) -> None:
        warn(", enabled")
        today(kind, enabled)

    former: Any = {None: ask, "dtype": set_dtype, "enabled": set_enabled}[argument]
    former.__name__ = former.__qualname__ = name
    parts = [f"{summary} {kind!r} (`torch.{name}`); its name today is `{today.__name__}`."]
    if argument is not None:
        parts.append(f"Args:\n        {argument}: As there.")
    if result is not None:
        parts.append(f"Returns:\n        {result}")
    call = {None: "", "dtype": f"tt.get_autocast_dtype({kind!r})", "enabled": "False"}[argument]
    shown = "" if argument else f" == tt.{today.__name__}({kind!r})\n        True"
    parts.append(f"Example:\n        >>> import triten as tt\n        >>> tt.{name}({call}){shown}")
    former.__doc__ = "\n\n    ".join(parts)
    return api_boundary(former)


_DTYPE, _ENABLED = "dtype", "enabled"
get_autocast_cpu_dtype, get_autocast_gpu_dtype, get_autocast_ipu_dtype, get_autocast_xla_dtype = (
    _former(f"get_autocast_{key}_dtype", get_autocast_dtype, "Autocast's dtype on", None, "A dtype.")
    for key in _KINDS
)
set_autocast_cpu_dtype, set_autocast_gpu_dtype, set_autocast_ipu_dtype, set_autocast_xla_dtype = (
    _former(f"set_autocast_{key}_dtype", set_autocast_dtype, "Set autocast's dtype on", _DTYPE, None)
    for key in _KINDS
)
is_autocast_cpu_enabled, is_autocast_ipu_enabled, is_autocast_xla_enabled = (
    _former(f"is_autocast_{key}_enabled", is_autocast_enabled, "Whether autocast is on for", None, "A bool.")
    for key in ("cpu", "ipu", "xla")
)
set_autocast_cpu_enabled, set_autocast_ipu_enabled, set_autocast_xla_enabled = (
    _former(f"set_autocast_{key}_enabled", set_autocast_enabled, "Switch autocast for", _ENABLED, None)
    for key in ("cpu", "ipu", "xla")
)

has_lapack: bool = True
"""True if LAPACK is available (`torch.has_lapack`): NumPy and SciPy provide it."""
has_mkl: bool = False
"""True if kernels use MKL (`torch.has_mkl`)."""
has_openmp: bool = False
"""True if kernels use OpenMP (`torch.has_openmp`): threads are Python's and BLAS's."""
has_spectral: bool = True
"""True if Fourier transforms are available (`torch.has_spectral`)."""

_interop: list[int] = []


def get_num_interop_threads() -> int:
    """Return the number of operators that may run in parallel on the CPU (`torch.get_num_interop_threads`).

    Returns:
        The argument of `set_num_interop_threads`; before its call, the number of threads in an operator. Operators
        run in the calling thread.

    Example:
        >>> import triten as tt
        >>> tt.get_num_interop_threads() > 0
        True
    """
    return _interop[0] if _interop else get_num_threads()


@api_boundary
def set_num_interop_threads(num_threads: int, /) -> None:
    """Set the number of operators that may run in parallel on the CPU (`torch.set_num_interop_threads`).

    Operators run in the calling thread, so this only changes the result of `get_num_interop_threads`.

    Args:
        num_threads: A positive integer.

    Raises:
        RuntimeError: It is not a positive integer, or was set before.

    Example:
        >>> import triten as tt
        >>> tt.set_num_interop_threads(0)
        Traceback (most recent call last):
        RuntimeError: set_num_interop_threads expects a positive integer
    """
    if isinstance(num_threads, bool) or not isinstance(num_threads, int):
        raise RuntimeError(f"set_num_interop_threads expects an int, but got {type(num_threads).__name__}")
    if num_threads < 1:
        raise RuntimeError("set_num_interop_threads expects a positive integer")
    if _interop:
        raise RuntimeError(
            "Error: cannot set number of interop threads after parallel work has started or set_num_interop_threads "
            "called"
        )
    _interop.append(num_threads)


def init_num_threads() -> None:
    """Do nothing: threads are started when a kernel first needs them (`torch.init_num_threads`).

    Example:
        >>> import triten as tt
        >>> tt.init_num_threads()
    """


@api_boundary
def set_flush_denormal(mode: bool, /) -> bool:
    """Request that denormal numbers are flushed to zero on the CPU (`torch.set_flush_denormal`).

    Args:
        mode: If True, request flushing.

    Returns:
        False: Python cannot set the processor's mode.

    Raises:
        TypeError: `mode` is not a bool.

    Example:
        >>> import triten as tt
        >>> tt.set_flush_denormal(True)
        False
    """
    if not isinstance(mode, bool):
        raise TypeError(f"set_flush_denormal expects a bool, but got {type(mode).__name__}")
    return False


def compiled_with_cxx11_abi() -> bool:
    """Return True, as current PyTorch releases do (`torch.compiled_with_cxx11_abi`); nothing here is compiled.

    Returns:
        A bool.

    Example:
        >>> import triten as tt
        >>> tt.compiled_with_cxx11_abi()
        True
    """
    return True


def is_vulkan_available() -> bool:
    """Return False: there are no kernels for Vulkan (`torch.is_vulkan_available`).

    Returns:
        A bool.

    Example:
        >>> import triten as tt
        >>> tt.is_vulkan_available()
        False
    """
    return False


@overridable
def is_distributed(input: Tensor) -> bool:
    """Return False: no tensor is distributed over several machines (`torch.is_distributed`).

    Args:
        input: A tensor.

    Returns:
        False.

    Example:
        >>> import triten as tt
        >>> tt.is_distributed(tt.ones(1))
        False
    """
    return False


@api_boundary
def from_file(
    filename: str | os.PathLike[str],
    shared: bool | None = None,
    size: int | None = 0,
    *,
    dtype: ScalarType | None = None,
    layout: Layout | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Return a tensor that maps the bytes of a file, which are read on demand (`torch.from_file`).

    Args:
        filename: The file.
        shared: If True, writes go to the file, which is created or extended if needed; else writes stay in memory.
        size: Number of elements.
        dtype: Their dtype, by default the default dtype.
        layout: ``tt.strided`` or None.
        device: The CPU.
        requires_grad: If True, autograd records operations on the result.
        pin_memory: Must be False: a mapped file is not pinned memory.

    Returns:
        A tensor of shape ``(size,)``.

    Raises:
        RuntimeError: The file cannot be opened or is too short, `size` is negative, or `pin_memory` is True.
        NotImplementedError: `device` is not the CPU.

    Example:
        >>> import numpy, os, tempfile
        >>> import triten as tt
        >>> path = os.path.join(tempfile.mkdtemp(), "numbers")
        >>> numpy.arange(3, dtype=numpy.float32).tofile(path)
        >>> tt.from_file(path, size=3)
        tensor([0., 1., 2.])
    """
    if pin_memory:
        raise RuntimeError("from_file: tensors over a file cannot be pinned")
    where = Device("cpu" if device is None else device)
    if where.type != "cpu":
        raise NotImplementedError(f"from_file: expected the CPU, got {where}")
    kind = dtype or get_default_dtype()
    count = size or 0
    if count < 0:
        raise RuntimeError(f"from_file: expected a size that is not negative, got {count}")
    storage = Storage.from_file(filename, bool(shared), count * kind.itemsize)
    made = _ops.empty(0, dtype=kind).set_(storage, 0, (count,), (1,))
    return made._set_requires_grad() if requires_grad else made


@api_boundary
def cond(
    pred: bool | float | Tensor,
    true_fn: Callable[..., Any],
    false_fn: Callable[..., Any],
    operands: tuple[Any, ...] | list[Any] = (),
) -> Any:
    """Return the result of one of two functions, selected by a condition (`torch.cond`).

    The condition is read and that function called, so that `tt.compile` specializes on the branch. `make_fx` records
    both branches if the condition depends on the inputs.

    Args:
        pred: A bool, or a tensor of one element.
        true_fn: Called with `operands` if the condition holds.
        false_fn: Called with `operands` otherwise.
        operands: The arguments of either.

    Returns:
        The result of the called function.

    Raises:
        RuntimeError: `pred` is a tensor of several elements, or `operands` is not a tuple.

    Example:
        >>> import triten as tt
        >>> tt.cond(tt.ones(3).sum() > 2, lambda x: x + 1, lambda x: x - 1, (tt.ones(2),))
        tensor([2., 2.])
    """
    if isinstance(pred, Tensor) and pred.numel() != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    if not isinstance(pred, (bool, int, float, Tensor)):
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred!r}.")
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("Expect both branches to be callable.")
    if not isinstance(operands, (tuple, list)):
        raise RuntimeError(
            f"Expect operands to be a tuple of possibly nested dict/list/tuple, got {operands!r}."
        )
    from ..custom_ops import branches

    if branches.is_recorded(pred):
        return branches.record_branches(pred, true_fn, false_fn, operands)
    return (true_fn if pred else false_fn)(*operands)


__all__ = [
    "compiled_with_cxx11_abi",
    "cond",
    "from_file",
    "get_autocast_cpu_dtype",
    "get_autocast_gpu_dtype",
    "get_autocast_ipu_dtype",
    "get_autocast_xla_dtype",
    "get_num_interop_threads",
    "has_lapack",
    "has_mkl",
    "has_openmp",
    "has_spectral",
    "init_num_threads",
    "is_autocast_cpu_enabled",
    "is_autocast_ipu_enabled",
    "is_autocast_xla_enabled",
    "is_distributed",
    "is_vulkan_available",
    "is_warn_always_enabled",
    "set_autocast_cpu_dtype",
    "set_autocast_cpu_enabled",
    "set_autocast_gpu_dtype",
    "set_autocast_ipu_dtype",
    "set_autocast_ipu_enabled",
    "set_autocast_xla_dtype",
    "set_autocast_xla_enabled",
    "set_flush_denormal",
    "set_num_interop_threads",
    "set_warn_always",
]
