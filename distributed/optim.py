"""`ZeroRedundancyOptimizer`, for programs that ask whether an optimizer is one (`torch.distributed.optim`)."""

from __future__ import annotations

from typing import Any

from ..optim.optimizer import Optimizer

__all__ = ["ZeroRedundancyOptimizer"]


class ZeroRedundancyOptimizer(Optimizer):
    """An optimizer whose state is divided among processes (`torch.distributed.optim.ZeroRedundancyOptimizer`).

    Raises:
        RuntimeError: always: there are no other processes.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(
            "ZeroRedundancyOptimizer: triten has no distributed communication; distributed.is_available() is False"
        )
