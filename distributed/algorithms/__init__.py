"""`tt.distributed.algorithms`: algorithms for distributed training (`torch.distributed.algorithms`).

`join` supports ranks with different numbers of batches. `ddp_comm_hooks` replaces the average of gradients in
`DistributedDataParallel`.
"""

from .join import Join as Join
from .join import Joinable as Joinable
from .join import JoinHook as JoinHook

__all__ = ["Join", "JoinHook", "Joinable"]
