"""The older name of `tt.autocast` for the CPU (`torch.cpu.amp`)."""

from __future__ import annotations

import warnings

from ..runtime import scalar_type as _st
from .autocast_mode import autocast as _autocast

__all__ = ["autocast"]


class autocast(_autocast):
    """``tt.autocast("cpu", ...)`` (`torch.cpu.amp.autocast`). A FutureWarning names it.

    Args:
        enabled: If True, operators cast. Default: True.
        dtype: The lower precision. Default: bfloat16.
        cache_enabled: If True, casts of parameters are kept inside the block. Default: True.

    Example:
        >>> import triten as tt, warnings
        >>> warnings.simplefilter("ignore", FutureWarning)
        >>> from triten.amp.cpu import autocast
        >>> with autocast():
        ...     (tt.ones(2, 2) @ tt.ones(2, 2)).dtype
        triten.bfloat16
    """

    def __init__(
        self, enabled: bool = True, dtype: _st.dtype = _st.bfloat16, cache_enabled: bool = True
    ) -> None:
        warnings.warn(
            "`cpu.amp.autocast(args...)` is deprecated. Please use `amp.autocast('cpu', args...)` instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__("cpu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)
