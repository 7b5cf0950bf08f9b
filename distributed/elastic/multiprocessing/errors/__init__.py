"""Errors of workers, reported to the agent through files
(`torch.distributed.elastic.multiprocessing.errors`).

The agent names a file in each worker's TORCHELASTIC_ERROR_FILE. A function under `record` writes its
exception there, in PyTorch's format; `ChildFailedError` shows all of them.
"""

from .child_failed_error import ChildFailedError
from .error_handler import ErrorHandler, get_error_handler
from .process_failure import ProcessFailure
from .recording import record

__all__ = ["ChildFailedError", "ErrorHandler", "ProcessFailure", "get_error_handler", "record"]
