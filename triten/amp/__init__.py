"""`tt.amp`: mixed precision (`torch.amp`): `autocast`, and `GradScaler` for gradients that float16 cannot hold."""

from typing import TYPE_CHECKING

from ..runtime.lazy_import import lazy_names
from .autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available

__all__ = ["GradScaler", "OptState", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

if TYPE_CHECKING:
    from .grad_scaler import GradScaler, OptState
else:
    # Programs that scale no gradient do not load what does.
    __getattr__, __dir__, _ = lazy_names(__name__, {".grad_scaler": "GradScaler OptState"}, ("grad_scaler",))
