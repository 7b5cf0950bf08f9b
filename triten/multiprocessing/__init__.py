"""`tt.multiprocessing`: Python's `multiprocessing`, whose queues and pipes share tensors (`torch.multiprocessing`).

A tensor of the host that goes to another process is moved to shared memory, and both see its bytes from then on; one of
a GPU is opened by the other process (CUDA IPC). `reductions.py` says how, `spawn.py` starts several processes that fail
together. Python's own module does the same once this one is imported.

Use `tt.multiprocessing` as `multiprocessing`::

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
