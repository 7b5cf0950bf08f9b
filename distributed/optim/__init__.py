"""`tt.distributed.optim`: distributed optimizers (`torch.distributed.optim`).

`zero_redundancy_optimizer` shards an optimizer's state over ranks. `post_localSGD_optimizer` averages
parameters periodically.
"""

from .post_localSGD_optimizer import PostLocalSGDOptimizer as PostLocalSGDOptimizer
from .zero_redundancy_optimizer import ZeroRedundancyOptimizer as ZeroRedundancyOptimizer

__all__ = ["PostLocalSGDOptimizer", "ZeroRedundancyOptimizer"]
