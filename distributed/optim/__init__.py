"""`tt.distributed.optim`: optimizers of many processes (`torch.distributed.optim`).

`zero_redundancy_optimizer` divides an optimizer's state among processes; `post_localSGD_optimizer` averages parameters
now and then.
"""

from .post_localSGD_optimizer import PostLocalSGDOptimizer as PostLocalSGDOptimizer
from .zero_redundancy_optimizer import ZeroRedundancyOptimizer as ZeroRedundancyOptimizer

__all__ = ["PostLocalSGDOptimizer", "ZeroRedundancyOptimizer"]
