"""Operators in the dtype that suits them (`torch.amp.autocast_mode`)."""

from ..dispatch.layers.autocast.mode import autocast, custom_bwd, custom_fwd
from ..dispatch.layers.autocast.state import is_autocast_available

__all__ = [
    "autocast",
    "custom_bwd",
    "custom_fwd",
    "is_autocast_available",
]
