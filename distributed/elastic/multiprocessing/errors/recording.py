"""Decorator that reports a function's exception to its agent."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from .child_failed_error import ChildFailedError
from .error_handler import ErrorHandler, get_error_handler
from .process_failure import NOT_AVAILABLE

__all__ = ["record"]

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def record(
    fn: Callable[Arguments, Result], error_handler: ErrorHandler | None = None
) -> Callable[Arguments, Result | None]:
    """Write what a program's main function raises to the file that its agent names (`record`).

    The agent shows it in its table of failures. Decorate one function of a process, the outermost.

    Args:
        fn: the function.
        error_handler: what writes; `ErrorHandler` by default.

    Returns:
        The function, which raises what `fn` raises.

    Example:
        >>> from triten.distributed.elastic.multiprocessing.errors import record
        >>> @record
        ... def main():
        ...     return "trained"
        >>> main()
        'trained'
    """
    handler = error_handler or get_error_handler()

    @functools.wraps(fn)
    def wrapper(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result | None:
        handler.initialize()
        try:
            return fn(*args, **kwargs)
        except SystemExit as end:
            if end.code == 0:
                return None
            raise
        except ChildFailedError as error:  # an agent's own: what its worker wrote
            _, failure = error.get_first_failure()
            if failure.error_file != NOT_AVAILABLE:
                handler.dump_error_file(failure.error_file, failure.exitcode)
            raise
        except Exception as error:
            handler.record_exception(error)
            raise

    return wrapper
