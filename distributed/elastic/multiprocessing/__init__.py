"""Worker processes, their logs and their errors (`torch.distributed.elastic.multiprocessing`).

- `worker` is one process, `command_worker` runs a command, `function_worker` calls a function.
- `process_context` is the set of a node's workers.
- `logs` defines the destinations of their streams, and `tail_log` displays them.
- `errors` records their failures.
"""

from typing import TYPE_CHECKING

from ....runtime.lazy_import import lazy_names as _lazy_names

_NAMES = {
    "..signals": "SignalException",
    ".logs": "DefaultLogsSpecs LogsDest LogsSpecs Std",
    ".process_context": "PContext RunProcsResult start_processes",
}

if TYPE_CHECKING:
    from ..signals import SignalException as SignalException
    from .logs import DefaultLogsSpecs as DefaultLogsSpecs
    from .logs import LogsDest as LogsDest
    from .logs import LogsSpecs as LogsSpecs
    from .logs import Std as Std
    from .process_context import PContext as PContext
    from .process_context import RunProcsResult as RunProcsResult
    from .process_context import start_processes as start_processes

# A worker that uses `errors` imports nothing of an agent.
__getattr__, __dir__, __all__ = _lazy_names(__name__, _NAMES, ["errors"])
