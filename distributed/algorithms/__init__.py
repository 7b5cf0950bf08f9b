"""`tt.distributed.algorithms`: ways to train with many processes (`torch.distributed.algorithms`).

`join` is for processes with different numbers of batches; `ddp_comm_hooks` are what `DistributedDataParallel` may do
with gradients in the place of an average.
"""

from .join import Join as Join
from .join import Joinable as Joinable
from .join import JoinHook as JoinHook

__all__ = ["Join", "JoinHook", "Joinable"]
