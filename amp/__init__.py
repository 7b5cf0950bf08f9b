"""`tt.amp`: mixed precision (`torch.amp`): `autocast`, and `GradScaler` for gradients that float16 cannot hold."""

from ..dispatch.functional.autocast_mode import autocast, custom_bwd, custom_fwd
from ..dispatch.functional.autocast_state import is_autocast_available
from .grad_scaler import GradScaler, OptState

__all__ = ["GradScaler", "OptState", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
