"""Data pipes: data sets composed by constructors or methods (`torch.utils.data.datapipes`).

`datapipe.py` has the bases and how a class becomes a method, `validation.py` what decorators check, `iter.py` pipes of
samples one after the other, `map.py` those of samples by index. PyTorch keeps them for old programs.
"""

from . import iter as iter
from . import map as map
from .datapipe import DataChunk, DFIterDataPipe, IterDataPipe, MapDataPipe, functional_datapipe
from .validation import (
    argument_validation,
    guaranteed_datapipes_determinism,
    non_deterministic,
    runtime_validation,
    runtime_validation_disabled,
)

__all__ = [
    "DFIterDataPipe",
    "DataChunk",
    "IterDataPipe",
    "MapDataPipe",
    "argument_validation",
    "functional_datapipe",
    "guaranteed_datapipes_determinism",
    "iter",
    "map",
    "non_deterministic",
    "runtime_validation",
    "runtime_validation_disabled",
]
