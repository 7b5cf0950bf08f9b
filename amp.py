"""`tt.amp`: mixed precision (`torch.amp`): `autocast`, and `GradScaler` for gradients that float16 cannot hold."""

from typing import TYPE_CHECKING, Any

from .dispatch.functional.autocast.mode import autocast, custom_bwd, custom_fwd
from .dispatch.functional.autocast.state import is_autocast_available

__all__ = ["GradScaler", "OptState", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

if TYPE_CHECKING:
    from .dispatch.functional.autocast.grad_scaler import GradScaler, OptState
else:

    def __getattr__(name: str) -> Any:
        # Loaded when first asked for: importing the package is for programs that never scale a gradient, too.
        if name in ("GradScaler", "OptState"):
            from .dispatch.functional.autocast import grad_scaler

            return getattr(grad_scaler, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
