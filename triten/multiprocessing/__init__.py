"""`tt.multiprocessing`: Python's `multiprocessing`, whose queues and pipes share tensors (`torch.multiprocessing`).

Sending a CPU tensor to another process moves its storage to shared memory, and both processes use that memory. The
receiver of a CUDA tensor opens its memory through CUDA IPC. `reductions.py` pickles tensors, `spawn.py` starts several
processes that fail together. Importing this module makes Python's own `multiprocessing` share tensors too.

Use `tt.multiprocessing` in place of `multiprocessing`.

Example::

    import triten as tt
    import triten.multiprocessing as mp

    def work(rank, model):
        ...  # `model` has the parent's parameters

    if __name__ == "__main__":
        model = tt.nn.Linear(10, 2).share_memory()
        mp.spawn(work, (model,), nprocs=4)
"""

from __future__ import annotations

import multiprocessing as _multiprocessing
from multiprocessing import *  # noqa: F403

from . import reductions as reductions
from . import spawn as _spawn
from .reductions import init_reductions as init_reductions
from .sharing import get_all_sharing_strategies, get_sharing_strategy, set_sharing_strategy

ProcessContext = _spawn.ProcessContext
ProcessException = _spawn.ProcessException
ProcessExitedException = _spawn.ProcessExitedException
ProcessRaisedException = _spawn.ProcessRaisedException
spawn = _spawn.spawn
start_processes = _spawn.start_processes

__all__ = [
    *_multiprocessing.__all__,
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]

init_reductions()
