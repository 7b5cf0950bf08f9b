"""Gradients scaled into the range of float16 (`torch.amp.grad_scaler`)."""

from ..dispatch.layers.autocast.grad_scaler import (
    GradScaler,
    OptState,
)

__all__ = [
    "GradScaler",
    "OptState",
]
