"""`tt.amp`: mixed precision, which is `autocast` (`torch.amp`)."""

from .dispatch.functional.autocast_mode import autocast, custom_bwd, custom_fwd
from .dispatch.functional.autocast_state import is_autocast_available

__all__ = ["autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
