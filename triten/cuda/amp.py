"""`tt.cuda.amp`: the older names of `tt.amp` for CUDA (`torch.cuda.amp`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeVar, overload

from .. import amp as _amp
from ..runtime import scalar_type as _st

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]

Function = TypeVar("Function", bound=Callable[..., Any])


class _CustomForward(Protocol):
    """`tt.amp.custom_fwd` of one device type."""

    @overload
    def __call__(
        self, fwd: None = None, *, cast_inputs: _st.dtype | None = None
    ) -> Callable[[Function], Function]: ...
    @overload
    def __call__(self, fwd: Function, *, cast_inputs: _st.dtype | None = None) -> Function: ...


class _CustomBackward(Protocol):
    """`tt.amp.custom_bwd` of one device type."""

    @overload
    def __call__(self, bwd: None = None) -> Callable[[Function], Function]: ...
    @overload
    def __call__(self, bwd: Function) -> Function: ...


class autocast(_amp.autocast):
    """``tt.autocast("cuda", ...)`` (`torch.cuda.amp.autocast`).

    Example:
        >>> import triten as tt
        >>> with tt.cuda.amp.autocast():
        ...     tt.is_autocast_enabled("cuda")
        True
    """

    def __init__(
        self, enabled: bool = True, dtype: _st.dtype = _st.float16, cache_enabled: bool = True
    ) -> None:
        super().__init__("cuda", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(_amp.GradScaler):
    """``tt.amp.GradScaler("cuda", ...)`` (`torch.cuda.amp.GradScaler`)."""

    def __init__(
        self,
        init_scale: float = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        super().__init__(
            "cuda",
            init_scale=init_scale,
            growth_factor=growth_factor,
            backoff_factor=backoff_factor,
            growth_interval=growth_interval,
            enabled=enabled,
        )


custom_fwd: _CustomForward = partial(_amp.custom_fwd, device_type="cuda")  # type: ignore[assignment]
"""`tt.amp.custom_fwd` for CUDA (`torch.cuda.amp.custom_fwd`)."""

custom_bwd: _CustomBackward = partial(_amp.custom_bwd, device_type="cuda")  # type: ignore[assignment]
"""`tt.amp.custom_bwd` for CUDA (`torch.cuda.amp.custom_bwd`)."""
