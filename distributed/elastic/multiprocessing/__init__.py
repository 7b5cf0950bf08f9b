"""The processes of workers, their logs and their errors (`torch.distributed.elastic.multiprocessing`).

`worker` is one process, `command_worker` one that runs a command, `function_worker` one that calls a function;
`process_context` is all those of a node. `logs` says where their streams go, `tail_log` shows them, `errors` is what
they failed with.
"""

from .logs import DefaultLogsSpecs, LogsDest, LogsSpecs, Std
from .process_context import PContext, RunProcsResult, start_processes

__all__ = [
    "DefaultLogsSpecs",
    "LogsDest",
    "LogsSpecs",
    "PContext",
    "RunProcsResult",
    "Std",
    "start_processes",
]
