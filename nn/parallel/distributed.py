"""`DistributedDataParallel`, for programs that ask whether a module is one."""

from __future__ import annotations

from typing import Any

from ...distributed import NOT_INITIALIZED
from ..modules.module import Module


class DistributedDataParallel(Module):
    """A module whose gradients are averaged over processes (`torch.nn.parallel.DistributedDataParallel`).

    None can be made, since there is no process group.

    Raises:
        ValueError: always, as PyTorch's without a process group.
    """

    def __init__(self, module: Module, *args: Any, **kwargs: Any) -> None:
        raise ValueError(NOT_INITIALIZED)
