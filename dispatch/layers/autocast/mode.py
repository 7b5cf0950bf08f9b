"""`autocast`, and its decorators for custom autograd functions (torch/amp/autocast_mode.py)."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, overload

import numpy as np

from ....runtime.device import device as Device
from ....runtime.local_dispatch_key_set import local
from ....runtime.scalar_type import bfloat16, float16, float64
from ....runtime.scalar_type import dtype as ScalarType
from ....runtime.tensor_impl import TensorImpl
from .state import (
    backend_of,
    get_autocast_dtype,
    is_autocast_available,
    is_autocast_cache_enabled,
    is_autocast_enabled,
    state,
    switch,
)

_SUPPORTED = (bfloat16, float16)
_BF16_CAPABILITY = 8
"""Minimum major compute capability of CUDA devices that support bfloat16."""

Function = TypeVar("Function", bound=Callable[..., Any])


class autocast:
    """Region in which each operator runs in a dtype chosen for it (`torch.autocast`): context manager and decorator.

    Matmuls and convolutions take floating-point arguments in a 16-bit dtype. Operators that lose precision in it take
    them in float32; the rest leave them unchanged. float64 and other arguments are never cast. `lists` has the
    operators. Casts are recorded by autograd: the gradient of a float32 parameter is float32. Casts of float32 leaves
    that require grad are kept until the outermost region ends. In-place and ``out=`` forms are not affected.

    Autocast affects calls with tensors on `device_type`, in this thread. A call with tensors of several backends
    belongs to the higher one, such as CUDA for a zero-dimensional CPU tensor and CUDA tensors. Regions nest, for one
    device type or several, and ``enabled=False`` makes one without autocast inside another.

    Args:
        device_type: ``"cuda"``, ``"cpu"``, or another one for which `is_autocast_available`.
        dtype: The 16-bit dtype. Default: None, which means `get_autocast_dtype`: float16 on CUDA, bfloat16 on the CPU.
        enabled: If True, autocast is on in the region. Default: True.
        cache_enabled: If True, casts are cached. Default: None, which keeps the setting around the region.

    Warns, and leaves autocast off, for a dtype that the device type does not support, and for CUDA on a machine without
    it.

    Raises:
        ValueError: for a device type that is not a string.
        RuntimeError: for an unknown device type, one without autocast, and bfloat16 on a CUDA device without it.
        TypeError: if the decorated object is not callable, and on entry if `dtype` is not a dtype.

    Example:
        >>> import triten as tt
        >>> w, x = tt.ones(2, 2, requires_grad=True), tt.ones(2, 2)
        >>> with tt.autocast("cpu"):
        ...     y = x @ w
        ...     loss = tt.nn.functional.mse_loss(y, x)
        >>> y.dtype, loss.dtype
        (triten.bfloat16, triten.float32)
        >>> loss.backward()
        >>> w.grad.dtype
        triten.float32
    """

    def __init__(
        self,
        device_type: str,
        dtype: ScalarType | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        _check_device_type(device_type)
        if not is_autocast_available(device_type):
            raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
        self.device = Device(device_type).type
        self._backend = backend_of(device_type, "autocast")
        self.fast_dtype = get_autocast_dtype(device_type) if dtype is None else dtype
        if not isinstance(cache_enabled, bool | None):
            raise TypeError(
                f"autocast(): cache_enabled must be bool or None, not {type(cache_enabled).__name__}"
            )
        self._cache_enabled = is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        self._enabled = bool(enabled) and self._is_supported()

    def _is_supported(self) -> bool:
        if self.device == "cuda":
            from ....runtime.cuda import driver as drivers

            if not drivers.is_available():
                warnings.warn("CUDA is not available. Disabling autocast.", stacklevel=3)
                return False
            if self.fast_dtype is bfloat16:
                driver = drivers.driver()
                if driver.properties(driver.current_device()).major < _BF16_CAPABILITY:
                    raise RuntimeError(
                        "Current CUDA Device does not support bfloat16. Please switch dtype to float16."
                    )
        elif self.fast_dtype not in _SUPPORTED:
            name = self.device.upper()
            warnings.warn(
                f"In {name} autocast, but the target dtype {self.fast_dtype} is not supported. Disabling autocast.\n"
                f"{name} Autocast only supports dtypes of {', '.join(map(repr, _SUPPORTED))} currently.",
                stacklevel=3,
            )
            return False
        return True

    def __enter__(self) -> autocast:
        if not isinstance(self.fast_dtype, ScalarType):
            raise TypeError(f"autocast(): dtype must be triten.dtype, not {type(self.fast_dtype).__name__}")
        backend = self._backend
        # Thread-local, not in the instance: a decorated function may run in several threads, and call itself.
        state.entered.append(
            (self, bool(local.autocast >> backend & 1), state.dtypes[backend], state.cache_enabled)
        )
        state.nesting += 1
        state.dtypes[backend] = self.fast_dtype
        state.cache_enabled = self._cache_enabled
        switch(backend, self._enabled)
        return self

    def __exit__(self, *error: object) -> None:
        entered = state.entered
        index = len(entered) - 1
        while index >= 0 and entered[index][0] is not self:
            index -= 1
        if index < 0:
            raise RuntimeError("autocast: this thread leaves a context that it has not entered")
        _, enabled, dtype, state.cache_enabled = entered.pop(index)
        state.nesting -= 1
        if state.nesting == 0:
            state.casts.clear()
        state.dtypes[self._backend] = dtype
        switch(self._backend, enabled)

    def __call__(self, func: Function) -> Function:
        if not callable(func):
            raise TypeError(
                f"autocast()(func) requires a callable, but got {type(func).__name__}. Did you mean to use autocast "
                "as a context manager? For example:\n"
                "    with tt.autocast(device_type=...):\n"
                "        output = model(input)"
            )

        @functools.wraps(func)
        def decorated(*args: Any, **kwargs: Any) -> Any:
            with self:
                return func(*args, **kwargs)

        return decorated  # type: ignore[return-value]


def _check_device_type(device_type: str) -> None:
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")


def _cast(value: Any, device_type: str, dtype: ScalarType) -> Any:
    """Cast the floating-point tensors in a value, except float64 and tensors of other devices."""
    if isinstance(value, TensorImpl):
        spec = value._spec
        eligible = (
            spec.dtype.is_floating_point and spec.device.type == device_type and spec.dtype is not float64
        )
        tensor: Any = value
        return tensor.to(dtype) if eligible else value
    if isinstance(value, str | bytes | np.ndarray):
        return value
    if isinstance(value, Mapping):
        return {_cast(k, device_type, dtype): _cast(v, device_type, dtype) for k, v in value.items()}
    if isinstance(value, Iterable):
        cast = (_cast(v, device_type, dtype) for v in value)
        return type(value)(cast) if isinstance(value, list | tuple) else cast
    return value


@overload
def custom_fwd(
    fwd: None = None, *, device_type: str, cast_inputs: ScalarType | None = None
) -> Callable[[Function], Function]: ...
@overload
def custom_fwd(fwd: Function, *, device_type: str, cast_inputs: ScalarType | None = None) -> Function: ...
def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, device_type: str, cast_inputs: ScalarType | None = None
) -> Callable[..., Any]:
    """Decorate the `forward(ctx, ...)` of a `tt.autograd.Function` (`torch.amp.custom_fwd`).

    In a region with autocast for `device_type`, `forward` runs with autocast off and its arguments are cast to
    `cast_inputs`. The casts affect floating-point tensors of that device type, except float64. Without `cast_inputs`,
    `forward` runs in the caller's autocast state, and `custom_bwd` restores that state for `backward`.

    Raises ValueError for a device type that is not a string.

    Example:
        >>> import triten as tt
        >>> class Product(tt.autograd.Function):
        ...     @staticmethod
        ...     @tt.amp.custom_fwd(device_type="cpu")
        ...     def forward(ctx, a, b):
        ...         ctx.save_for_backward(a, b)
        ...         return a @ b
        ...     @staticmethod
        ...     @tt.amp.custom_bwd(device_type="cpu")
        ...     def backward(ctx, grad):
        ...         a, b = ctx.saved_tensors
        ...         return grad @ b.t(), a.t() @ grad
        >>> a = tt.ones(2, 2, requires_grad=True)
        >>> with tt.autocast("cpu"):
        ...     Product.apply(a, tt.ones(2, 2)).dtype
        triten.bfloat16
    """
    _check_device_type(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)
    forward = fwd

    @functools.wraps(forward)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        ctx = args[0]
        ctx._dtype = get_autocast_dtype(device_type)
        enabled = is_autocast_enabled(device_type)
        ctx._fwd_used_autocast = enabled and cast_inputs is None
        if not enabled or cast_inputs is None:
            return forward(*args, **kwargs)
        with autocast(device_type, enabled=False):
            return forward(*_cast(args, device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs))

    return decorated


@overload
def custom_bwd(bwd: None = None, *, device_type: str) -> Callable[[Function], Function]: ...
@overload
def custom_bwd(bwd: Function, *, device_type: str) -> Function: ...
def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Callable[..., Any]:
    """Decorate the `backward(ctx, ...)` of a function with `custom_fwd`: it runs in the autocast state of `forward`.

    Raises ValueError for a device type that is not a string. Source: `torch.amp.custom_bwd`.
    """
    _check_device_type(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)
    backward = bwd

    @functools.wraps(backward)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        ctx = args[0]
        with autocast(device_type, enabled=ctx._fwd_used_autocast, dtype=ctx._dtype):
            return backward(*args, **kwargs)

    return decorated
