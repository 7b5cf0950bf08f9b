"""`tt.distributed.pipelining`: pipeline parallelism (`torch.distributed.pipelining`).

`stage` is the part of a model on one rank. `pipe` splits a model by its graph, and `microbatch` splits
batches. `actions` has the order of forwards and backwards of each rank, and `timetable` their steps.
`schedules` runs them; no other module communicates.
"""

from typing import TYPE_CHECKING

from ...runtime.lazy_import import lazy_names as _lazy_names

_NAMES = {
    ".microbatch": "TensorChunkSpec merge_chunks split_args_kwargs_into_chunks",
    ".pipe": "Pipe SplitPoint pipe_split pipeline",
    ".schedules": "Schedule1F1B ScheduleGPipe ScheduleInterleaved1F1B",
    ".stage": "PipelineStage",
}
_MODULES = "microbatch schedules stage"

if TYPE_CHECKING:
    from .microbatch import TensorChunkSpec as TensorChunkSpec
    from .microbatch import merge_chunks as merge_chunks
    from .microbatch import split_args_kwargs_into_chunks as split_args_kwargs_into_chunks
    from .pipe import Pipe as Pipe
    from .pipe import SplitPoint as SplitPoint
    from .pipe import pipe_split as pipe_split
    from .pipe import pipeline as pipeline
    from .schedules import Schedule1F1B as Schedule1F1B
    from .schedules import ScheduleGPipe as ScheduleGPipe
    from .schedules import ScheduleInterleaved1F1B as ScheduleInterleaved1F1B
    from .stage import PipelineStage as PipelineStage

__getattr__, __dir__, __all__ = _lazy_names(__name__, _NAMES, _MODULES.split())
