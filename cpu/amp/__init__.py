"""`tt.cpu.amp`: the older name of `tt.autocast` for the CPU (`torch.cpu.amp`)."""

from .autocast_mode import autocast

__all__ = ["autocast"]
