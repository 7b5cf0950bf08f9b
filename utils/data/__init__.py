"""`tt.utils.data`: samples of a data set, drawn in some order and put together in batches (`torch.utils.data`).

`dataset.py` has what samples come from, `sampler.py` the orders, `distributed.py` that of one process among several,
`collate.py` how a batch is made, `fetching.py` how it is fetched, `dataloader.py` the loop over all of it. With
workers, `worker_batches.py` orders batches from processes that do what `worker.py` says, and `transport.py` brings
them. `datapipes/` has data sets that are methods of each other; they are imported with their first use.
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
        ["datapipes"],
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
