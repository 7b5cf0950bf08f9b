"""Iterable-style pipes (`torch.utils.data.datapipes.iter`).

- `callable.py`: functions of samples; `selecting.py`: which samples; `grouping.py`: batches and groups.
- `combinatorics.py`: the order; `combining.py`: several pipes as one; `forking.py`: one pipe as several.
- `sharding.py`: a share of the samples for each worker.
- `files.py`: files, their names and content; `wrapper.py`: the samples of a container.
"""

from .callable import CollatorIterDataPipe as Collator
from .callable import MapperIterDataPipe as Mapper
from .combinatorics import SamplerIterDataPipe as Sampler
from .combinatorics import ShufflerIterDataPipe as Shuffler
from .combining import ConcaterIterDataPipe as Concater
from .combining import MultiplexerIterDataPipe as Multiplexer
from .combining import ZipperIterDataPipe as Zipper
from .files import FileListerIterDataPipe as FileLister
from .files import FileOpenerIterDataPipe as FileOpener
from .files import RoutedDecoderIterDataPipe as RoutedDecoder
from .files import StreamReaderIterDataPipe as StreamReader
from .forking import DemultiplexerIterDataPipe as Demultiplexer
from .forking import ForkerIterDataPipe as Forker
from .grouping import BatcherIterDataPipe as Batcher
from .grouping import GrouperIterDataPipe as Grouper
from .grouping import UnBatcherIterDataPipe as UnBatcher
from .selecting import FilterIterDataPipe as Filter
from .sharding import ShardingFilterIterDataPipe as ShardingFilter
from .wrapper import IterableWrapperIterDataPipe as IterableWrapper

__all__ = [
    "Batcher",
    "Collator",
    "Concater",
    "Demultiplexer",
    "FileLister",
    "FileOpener",
    "Filter",
    "Forker",
    "Grouper",
    "IterableWrapper",
    "Mapper",
    "Multiplexer",
    "RoutedDecoder",
    "Sampler",
    "ShardingFilter",
    "Shuffler",
    "StreamReader",
    "UnBatcher",
    "Zipper",
]
