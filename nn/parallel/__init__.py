"""`tt.nn.parallel`: one module in several processes, or on several devices of one (`torch.nn.parallel`).

`distributed` is the module of many processes, with what belongs to its call: `graph_sink`, `distributed_join`,
`low_precision`, `delayed_reduction`. `data_parallel` is that of several devices, made of `scatter_gather`, `replicate`
and `parallel_apply`. What processes say to each other is in `distributed.data_parallel`.
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
