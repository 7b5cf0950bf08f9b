"""Older wrapper, which `fully_shard` has replaced."""

from __future__ import annotations

from typing import Any, NoReturn

from ...nn.modules.module import Module

__all__ = ["FullyShardedDataParallel"]


class FullyShardedDataParallel(Module):
    """A wrapper that shards parameters in one flat tensor (`torch.distributed.fsdp.FullyShardedDataParallel`).

    There is none here: `fully_shard` shards each parameter for itself, in place.

    Raises:
        NotImplementedError: always.

    Example:
        >>> from triten.distributed.fsdp import FullyShardedDataParallel
        >>> FullyShardedDataParallel(None)
        Traceback (most recent call last):
        NotImplementedError: FullyShardedDataParallel is not supported: use fully_shard(module), first for ...
    """

    def __init__(self, module: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(
            "FullyShardedDataParallel is not supported: use fully_shard(module), first for the layers that an "
            "auto_wrap_policy would name, then for the whole; mixed_precision is its mp_policy, cpu_offload its "
            "offload_policy, and sharding_strategy its reshard_after_forward and mesh"
        )
