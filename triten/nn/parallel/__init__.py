"""Data parallelism over several processes, or over several devices of one process (`torch.nn.parallel`).

`distributed` implements `DistributedDataParallel`. Its parts are `graph_sink`, `distributed_join`, `low_precision`
and `delayed_reduction`. `data_parallel` runs on several devices of one process, with `scatter_gather`, `replicate`
and `parallel_apply`. Communication between processes is in `distributed.data_parallel`.
"""

from typing import TYPE_CHECKING

from ...runtime.lazy_import import lazy_names as _lazy_names

# Functions of the names of their modules are taken at once, before anybody imports the modules.
from .data_parallel import DataParallel as DataParallel
from .data_parallel import data_parallel as data_parallel
from .parallel_apply import parallel_apply as parallel_apply
from .replicate import replicate as replicate
from .scatter_gather import gather as gather
from .scatter_gather import scatter as scatter

if TYPE_CHECKING:
    from .distributed import DistributedDataParallel as DistributedDataParallel

__getattr__, __dir__, __all__ = _lazy_names(
    __name__, {".distributed": "DistributedDataParallel"}, ["distributed"]
)
__all__ += ["DataParallel", "data_parallel", "gather", "parallel_apply", "replicate", "scatter"]
