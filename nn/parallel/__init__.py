"""`tt.nn.parallel`: modules on several devices (`torch.nn.parallel`), of which one is all that is used here."""

from .data_parallel import DataParallel as DataParallel
from .data_parallel import data_parallel as data_parallel
from .distributed import DistributedDataParallel as DistributedDataParallel

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]
