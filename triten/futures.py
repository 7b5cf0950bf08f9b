"""`tt.futures`: values that will be there later (`torch.futures`)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from .jit._futures import Future, check_future

__all__ = ["Future", "collect_all", "wait_all"]


def collect_all(futures: Sequence[Future[Any]]) -> Future[list[Future[Any]]]:
    """Return a future that completes when all given futures do (`torch.futures.collect_all`).

    If futures have errors, it has the error of the first of them.

    Args:
        futures: The futures to wait for, in the order of the result.

    Raises:
        RuntimeError: A future is None.
        TypeError: An element is not a future.

    Example:
        >>> import triten as tt
        >>> one, two = tt.futures.Future(), tt.futures.Future()
        >>> both = tt.futures.collect_all([one, two])
        >>> one.set_result(1); two.set_result(2)
        >>> [each.value() for each in both.wait()]
        [1, 2]
    """
    combined: Future[list[Future[Any]]] = Future()
    several = list(futures)
    for each in several:
        check_future(each)
    waiting = {index for index, _ in enumerate(several)}
    if not several:
        combined.set_result([])

    def completed(index: int) -> None:
        # Each index is removed once; the callback that removes the last one completes the result.
        waiting.discard(index)
        if waiting:
            return
        error = next((each._error for each in several if each._error is not None), None)
        with suppress(RuntimeError):  # of the second thread that saw the last ones leave
            if error is not None:
                combined.set_exception(error)
            else:
                combined.set_result(several)

    for index, future in enumerate(several):
        future.add_done_callback(lambda _, index=index: completed(index))  # type: ignore[misc]
    return combined


def wait_all(futures: Sequence[Future[Any]]) -> list[Any]:
    """Wait for all futures and return their values (`torch.futures.wait_all`); raise the first error among them.

    Example:
        >>> import triten as tt
        >>> later = tt.futures.Future()
        >>> twice = later.then(lambda done: 2 * done.value())
        >>> later.set_result(4); tt.futures.wait_all([later, twice])
        [4, 8]
    """
    return [future.wait() for future in collect_all(futures).wait()]
