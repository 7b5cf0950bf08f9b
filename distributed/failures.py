"""Detection of processes that are gone, with their last errors, so that other ranks do not wait in vain."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from .stores.store import Store

__all__ = ["ASK_AFTER", "Failures"]

Result = TypeVar("Result")
ASK_AFTER = 1.0
"""Seconds that a communication is waited for before the store is asked whether all processes are there, and between two
questions."""


class Failures:
    """Record of processes that have ended.

    A process that ends records this in the store, with its error if any. For a killed process, the TCP
    store's server records the broken connection.

    Args:
        store: Store shared by all processes.
        rank: This process's global rank.
        size: Number of processes.
    """

    def __init__(self, store: Store, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        self._process = os.getpid()
        self._store = store.clone()
        self._presence = store.presence(self._key(rank), b"is gone, without a word")
        self._hook = sys.excepthook
        if size > 1:
            sys.excepthook = self._say

    def close(self) -> None:
        """End the watch: this process's end is none of the others' business any more."""
        if sys.excepthook == self._say:
            sys.excepthook = self._hook
        self._presence.leave()

    def gone(self, ranks: Sequence[int]) -> str | None:
        """Describe the processes that are gone; None if all are alive.

        Args:
            ranks: Global ranks of the processes that the caller waits for.
        """
        from .errors import DistError

        other_ranks = [rank for rank in ranks if rank != self.rank]
        try:
            reports = [
                f"rank {rank} {self._store.get(self._key(rank)).decode(errors='replace')}"
                for rank in other_ranks
                if self._store.check([self._key(rank)])
            ]
        except (DistError, OSError) as error:
            return f"the store is gone: {error}"
        return "; ".join(reports) or None

    def waits(self, key: str, operation: str) -> None:
        """Record the operation that this process waits in."""
        from .errors import DistError

        with contextlib.suppress(DistError, OSError):  # remaining processes report what they can
            self._store.set(f"waits/{key}/{self.rank}", operation)

    def missing(self, key: str, operation: str, ranks: Sequence[int]) -> str:
        """Describe the ranks that have not reported waiting for the same communication, for errors."""
        from .errors import DistError

        other_ranks = [rank for rank in ranks if rank != self.rank]
        operations: dict[int, str | None] = {}
        try:
            for rank in other_ranks:
                store_key = f"waits/{key}/{rank}"
                operations[rank] = (
                    self._store.get(store_key).decode() if self._store.check([store_key]) else None
                )
        except (DistError, OSError) as error:
            return f"the store is gone, too: {error}"
        elsewhere = [
            f"rank {rank} waits in {other}"
            for rank, other in operations.items()
            if other not in (None, operation)
        ]
        silent = [str(rank) for rank, other in operations.items() if other is None]
        if silent:
            elsewhere.append(f"not heard of: rank {', '.join(silent)}")
        return "; ".join(elsewhere) or "all ranks wait for it"

    def watch(
        self, function: Callable[[], Result], ranks: Sequence[int], limit: timedelta, operation: str
    ) -> Result:
        """Call a library function that waits for other ranks, in a thread that is abandoned if they exit.

        Args:
            function: Function to call.
            ranks: Global ranks that it waits for.
            limit: Time limit.
            operation: Name of the function in errors.

        Raises:
            DistBackendError: A rank has exited, or the time limit has passed.
        """
        from .errors import DistBackendError

        ended: Future[Result] = Future()

        def call() -> None:
            try:
                ended.set_result(function())
            except BaseException as error:  # the waiting caller gets it
                ended.set_exception(error)

        deadline = time.monotonic() + limit.total_seconds()
        threading.Thread(target=call, name=operation, daemon=True).start()
        gone: str | None = None
        while not wait([ended], max(min(ASK_AFTER, deadline - time.monotonic()), 0.0)).done:
            if gone is not None or time.monotonic() >= deadline:
                why = gone or f"it took longer than {limit.total_seconds():g} s"
                raise DistBackendError(f"{operation}: rank {self.rank} waited for ranks {list(ranks)}; {why}")
            gone = self.gone(ranks)  # wait once more: its messages may still arrive
        return ended.result()

    @staticmethod
    def _key(rank: int) -> str:
        return f"gone/{rank}"

    def _say(self, kind: type[BaseException], error: BaseException, trace: Any) -> None:
        from .errors import DistError

        if os.getpid() != self._process:  # a fork's end is not this process's, whose connection it shares
            self._hook(kind, error, trace)
            return
        sys.stderr.flush()
        prefix = f"[rank{self.rank}]: "
        try:
            text = str(error).splitlines()
            self._store.set(
                self._key(self.rank),
                f"ended by {kind.__name__}: {text[0] if text else ''} (pid {os.getpid()})",
            )
        except (DistError, OSError):
            pass  # the store is gone, so no process can be told
        _with_prefix(prefix, self._hook, kind, error, trace)


def _with_prefix(prefix: str, hook: Any, *args: Any) -> None:
    """Have a hook write a traceback with the process's number before each line."""
    import io

    stderr, text = sys.stderr, io.StringIO()
    sys.stderr = text
    try:
        hook(*args)
    finally:
        sys.stderr = stderr
    stderr.write("".join(f"{prefix}{line}" for line in text.getvalue().splitlines(keepends=True)))
    stderr.flush()
