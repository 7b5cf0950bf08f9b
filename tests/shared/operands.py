"""Leaves of graphs, and options of optimizers."""

from typing import Any

import triten as tt

SGD: dict[str, Any] = {
    "weight_decay": 0.0,
    "momentum": 0.0,
    "lr": 0.1,
    "dampening": 0.0,
    "nesterov": False,
    "maximize": False,
    "is_first_step": False,
}
"""Options of `_fused_sgd_`, none of which changes the plain step."""
ADAM: dict[str, Any] = {
    "lr": 0.1,
    "beta1": 0.9,
    "beta2": 0.99,
    "weight_decay": 0.0,
    "eps": 1e-8,
    "amsgrad": False,
    "maximize": False,
}
"""Options of `_fused_adam_` and `_fused_adamw_`."""


def leaf(*values: Any, dtype: tt.dtype = tt.float32) -> tt.Tensor:
    """Return a vector that requires grad; its default values are 1 and 2."""
    return tt.tensor(values or (1.0, 2.0), dtype=dtype).requires_grad_()
