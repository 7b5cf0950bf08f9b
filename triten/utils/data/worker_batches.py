"""Batches of a `DataLoader` fetched by worker processes."""

from __future__ import annotations

import itertools
import os
import signal
import weakref
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any

from ...runtime.traceback_filter import hide_inner_frames
from .loaded_pipes import draw_shared_seed, share_of_process
from .transport import receive, send
from .worker import GRACE, Assignment, Batch, End, Failure, Order, run

if TYPE_CHECKING:
    from multiprocessing.context import BaseContext
    from multiprocessing.process import BaseProcess

    from .dataloader import DataLoader


class _Worker:
    """A worker as the process that asks sees it."""

    __slots__ = ("connection", "is_ended", "ordered", "process")

    def __init__(self, process: BaseProcess, connection: Connection) -> None:
        self.process = process
        self.connection = connection
        self.is_ended = False
        self.ordered = 0

    def end_of_it(self) -> RuntimeError:
        """Return the error for a worker that has died."""
        self.process.join(GRACE)
        code = self.process.exitcode
        if code is not None and code < 0:
            how = f"is killed by signal: {signal.strsignal(-code) or -code}"
        else:
            how = f"exited unexpectedly with exit code {code}"
        return RuntimeError(f"DataLoader worker (pid(s) {self.process.pid}) {how}")


class WorkerBatches(Iterator[Any]):
    """Iterator of one loop over a `DataLoader`; persistent workers serve several loops in turn.

    Each worker has its own connection for requests and batches. The number of outstanding requests is the number of
    workers times `prefetch_factor`. A worker's death closes its connection, so that a waiting caller notices it
    immediately.
    """

    def __init__(
        self, loader: DataLoader[Any], context: BaseContext, base_seed: int, shared_seed: int | None
    ) -> None:
        self._in_order = loader.in_order
        self._timeout = loader.timeout or None
        self._limit = (loader.prefetch_factor or 1) * loader.num_workers
        self._is_persistent = loader.persistent_workers
        self._workers: list[_Worker] = []
        self._loop = 0
        self._close = weakref.finalize(self, _end, self._workers, os.getpid())
        fetching = loader.fetching()
        ranks = share_of_process(loader.dataset)
        is_forking = context.get_start_method() == "fork"
        for number in range(loader.num_workers):
            ours, theirs = context.Pipe()
            assignment = Assignment(
                number, loader.num_workers, base_seed, fetching, loader.worker_init_fn, shared_seed, ranks
            )
            inherited = [*(w.connection for w in self._workers), ours] if is_forking else []
            process = context.Process(  # type: ignore[attr-defined]  # a context of no known method has none
                target=run, args=(theirs, inherited, assignment), daemon=True
            )
            process.start()
            theirs.close()
            self._workers.append(_Worker(process, ours))
        self._begin(loader)

    def _begin(self, loader: DataLoader[Any]) -> None:
        self._indices = iter(loader._index_sampler)
        self._next_number = 0
        self._awaited = 0
        self._arrived: dict[int, Any] = {}
        self._turns = itertools.cycle(self._workers)
        self._is_over = False
        self._fill()

    def processes(self) -> list[BaseProcess]:
        """Return the worker processes."""
        return [worker.process for worker in self._workers]

    @property
    def is_usable(self) -> bool:
        """True if the workers can serve another loop."""
        return self._close.alive

    def close(self) -> None:
        """End the workers; the loop is over."""
        self._is_over = True
        self._close()

    def restart(self, loader: DataLoader[Any]) -> None:
        """Begin another loop with the same workers. Batches of the previous loop are dropped on arrival."""
        self._loop += 1
        shared_seed = draw_shared_seed(loader.dataset, loader.generator)
        try:
            for worker in self._workers:
                worker.is_ended = False
                self._send(worker, Order(self._loop, 0, None, shared_seed))
            self._begin(loader)
        except BaseException:
            self._close()
            raise

    def __next__(self) -> Any:
        try:
            try:
                value = self._next()
            except BaseException as error:
                if not isinstance(error, StopIteration):
                    self._is_over = True
                    self._close()
                raise
            if isinstance(value, Failure):
                # The worker lives, and goes on with its next batch.
                value.reraise()
            return value
        except BaseException:
            hide_inner_frames()
            raise

    def _next(self) -> Any:
        while not self._is_over:
            if self._arrived and (not self._in_order or self._awaited in self._arrived):
                number = self._awaited if self._in_order else next(iter(self._arrived))
                value = self._arrived.pop(number)
                self._awaited += 1
                self._fill()
                if value is End:
                    continue
                return value
            if self._awaited == self._next_number:
                self._is_over = True
                if not self._is_persistent:
                    self._close()
                break
            self._receive()
        raise StopIteration

    def _fill(self) -> None:
        """Order batches from one worker after the other, as many as may be underway."""
        while self._next_number - self._awaited < self._limit:
            worker = self._next_worker()
            if worker is None:
                return
            try:
                indices = next(self._indices)
            except StopIteration:
                return
            self._send(worker, Order(self._loop, self._next_number, (indices,)))
            self._next_number += 1

    def _next_worker(self) -> _Worker | None:
        """Whose turn it is among those whose streams have not ended: the least busy one, where order is free."""
        working = [worker for worker in self._workers if not worker.is_ended]
        if not working:
            return None
        if not self._in_order:
            return min(working, key=lambda worker: worker.ordered)
        return next(worker for worker in self._turns if not worker.is_ended)

    def _send(self, worker: _Worker, order: Order) -> None:
        try:
            send(worker.connection, order)
        except (BrokenPipeError, ConnectionResetError):
            raise worker.end_of_it() from None
        worker.ordered += order.indices is not None

    def _receive(self) -> None:
        """Wait until batches or ends of workers come, and take all that have."""
        busy = {worker.connection: worker for worker in self._workers if worker.ordered}
        processes = {worker.process.sentinel: worker for worker in busy.values()}
        ready = wait([*busy, *processes], self._timeout)
        if not ready:
            raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds")
        for each in ready:
            worker = busy[each] if isinstance(each, Connection) else processes[each]  # type: ignore[index]
            try:
                if not isinstance(each, Connection) and not worker.connection.poll():
                    raise EOFError
                self._take(worker, receive(worker.connection))
            except (EOFError, ConnectionResetError):
                raise worker.end_of_it() from None

    def _take(self, worker: _Worker, batch: Batch) -> None:
        worker.ordered -= 1
        if batch.loop != self._loop:
            return
        worker.is_ended = worker.is_ended or batch.value is End
        self._arrived[batch.number] = batch.value


def _end(workers: list[_Worker], owner: int) -> None:
    """Have workers end what they are doing, if it takes no longer than they are given, and then themselves.

    Called in a worker that is a fork of the process that owns the others, it leaves them alone.
    """
    if os.getpid() != owner:
        return
    for worker in workers:
        worker.connection.close()
    for worker in workers:
        worker.process.join(GRACE)
        if worker.process.is_alive():
            worker.process.terminate()
            worker.process.join()
