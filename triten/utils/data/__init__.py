"""Data sets, samplers and data loaders (`torch.utils.data`).

- `dataset.py`: data sets.
- `sampler.py`: orders of samples; `distributed.py`: one process's share of an order.
- `collate.py` builds batches; `fetching.py` fetches them; `dataloader.py` loops over them.
- `worker_batches.py` requests batches from worker processes, which run `worker.py`; `transport.py` sends them.
- `datapipes/`: composable data sets, imported at their first use. `graph.py` finds the pipes that a pipe reads from,
  `graph_settings.py` sets their shares and seeds, and `loaded_pipes.py` does so for a loader.
"""

from typing import TYPE_CHECKING

from ...runtime.lazy_import import lazy_names
from .collate import default_collate, default_convert
from .dataloader import DataLoader
from .dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from .distributed import DistributedSampler
from .sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from .worker import get_worker_info

if TYPE_CHECKING:
    from . import datapipes as datapipes
    from . import graph as graph
    from . import graph_settings as graph_settings
    from .datapipes import (
        DataChunk,
        DFIterDataPipe,
        IterDataPipe,
        MapDataPipe,
        argument_validation,
        functional_datapipe,
        guaranteed_datapipes_determinism,
        non_deterministic,
        runtime_validation,
        runtime_validation_disabled,
    )
else:
    __getattr__, __dir__, _ = lazy_names(
        __name__,
        {
            ".datapipes": (
                "DFIterDataPipe DataChunk IterDataPipe MapDataPipe argument_validation functional_datapipe "
                "guaranteed_datapipes_determinism non_deterministic runtime_validation runtime_validation_disabled"
            )
        },
        ["datapipes", "graph", "graph_settings"],
    )

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DFIterDataPipe",
    "DataChunk",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterDataPipe",
    "IterableDataset",
    "MapDataPipe",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "argument_validation",
    "default_collate",
    "default_convert",
    "functional_datapipe",
    "get_worker_info",
    "guaranteed_datapipes_determinism",
    "non_deterministic",
    "random_split",
    "runtime_validation",
    "runtime_validation_disabled",
]
