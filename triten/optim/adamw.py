"""AdamW (`torch.optim.adamw`), which is written beside Adam."""

from .adam import AdamW

__all__ = ["AdamW"]
