"""Worker process of a `DataLoader`: receives requests for batches, fetches the batches, and sends them back."""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import random
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ...dispatch.random import manual_seed
from ...runtime.parallel import set_num_threads
from .fetching import Fetching
from .loaded_pipes import seed_pipe, share_pipe
from .transport import receive, send

GRACE = 5.0
"""Seconds that a worker which nobody listens to any more has for what it is doing."""


@dataclass(eq=False)
class WorkerInfo:
    """Information of a worker about itself (`torch.utils.data.get_worker_info`).

    Attributes:
        id: The worker's index, from 0.
        num_workers: The number of workers.
        seed: The seed of triten's and Python's generators in this worker.
        dataset: The worker's copy of the data set.

    Raises:
        RuntimeError: An attribute is assigned.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any

    def __setattr__(self, name: str, value: Any) -> None:
        if "dataset" in vars(self):  # the last field: the object is complete
            raise RuntimeError("Cannot assign attributes to WorkerInfo objects")
        super().__setattr__(name, value)


_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """Return the `DataLoader` worker that this process is, or None (`torch.utils.data.get_worker_info`).

    An `IterableDataset` calls it, so that its copies in several workers do not all yield the same samples.

    Example:
        >>> import triten as tt
        >>> print(tt.utils.data.get_worker_info())
        None
    """
    return _info


class Order(NamedTuple):
    """Request for a batch: the loop, the batch's number in it, and the indices.

    `indices` is a tuple of the batch's index or indices; None begins a new loop, with the seed of a data pipe.
    """

    loop: int
    number: int
    indices: tuple[Any] | None
    shared_seed: int | None = None


class Batch(NamedTuple):
    """Answer to an order: a batch, a `Failure`, or `End`."""

    loop: int
    number: int
    worker: int
    value: Any


class End:
    """Marker of the end of a worker's stream of samples."""


class Failure(NamedTuple):
    """An error of a worker, on its way to the process that asks for batches."""

    kind: type[BaseException]
    text: str

    def reraise(self) -> NoReturn:
        """Raise the error, with the worker's traceback in its message."""
        if issubclass(self.kind, KeyError):
            raise self.kind(_Text(self.text))
        try:
            error = self.kind(self.text)
        except Exception:
            # The error's class takes other arguments.
            raise RuntimeError(self.text) from None
        raise error


class _Text(str):
    """A text that a KeyError prints as it is, not in quotes."""

    def __repr__(self) -> str:
        return str(self)


def failure_of(error: BaseException, where: str) -> Failure:
    """Convert an error for sending; an unpicklable class or StopIteration becomes RuntimeError."""
    text = "".join(traceback.format_exception(error))
    kind = RuntimeError if isinstance(error, StopIteration) else type(error)
    try:
        pickle.dumps(kind)
    except Exception:
        kind = RuntimeError
    return Failure(kind, f"Caught {type(error).__name__} {where}.\nOriginal {text}")


class Assignment(NamedTuple):
    """Arguments that a worker starts with; those of data pipes are as in `loaded_pipes`."""

    id: int
    num_workers: int
    base_seed: int
    fetching: Fetching
    init: Callable[[int], None] | None
    shared_seed: int | None = None
    ranks: tuple[int, int] | None = None


def run(orders: Connection, inherited: list[Connection], assignment: Assignment) -> None:
    """Run a worker until the other end of `orders` is closed.

    Args:
        inherited: Connection ends that a fork copied. The worker closes them; they would otherwise stay open.
    """
    for connection in inherited:
        connection.close()
    # The process that asks has ended, or has got the same interrupt and says so.
    with contextlib.suppress(KeyboardInterrupt, EOFError, BrokenPipeError, ConnectionResetError):
        _serve(orders, assignment)


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """Return four 32-bit words that seed NumPy's generator in a worker, by `SeedSequence` as in PyTorch."""
    entropy = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    return list(map(int, np.random.SeedSequence(entropy).generate_state(4)))


def _serve(orders: Connection, assignment: Assignment) -> None:
    global _info
    number, count, base_seed, fetching, init, shared_seed, ranks = assignment
    where = f"in DataLoader worker process {number}"
    waiting: queue.SimpleQueue[Order | None] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(orders, os.getppid(), waiting), daemon=True).start()
    set_num_threads(1)
    seed = base_seed + number
    random.seed(seed)
    manual_seed(seed)
    np.random.seed(_generate_state(base_seed, number))
    _info = WorkerInfo(number, count, seed, fetching.dataset)
    failure: Failure | None = None
    fetch: Callable[[Any], Any] | None = None
    try:
        seed_pipe(fetching.dataset, shared_seed)
        share_pipe(fetching.dataset, ranks, count, number)
        if init is not None:
            init(number)
        fetch = fetching.fetcher()
    except Exception as error:
        failure = failure_of(error, where)
    ended = False
    while (order := waiting.get()) is not None:
        if order.indices is None:
            ended = False
            try:
                seed_pipe(fetching.dataset, order.shared_seed)
                fetch = fetching.fetcher()
            except Exception as error:
                failure = failure_of(error, where)
            continue
        value: Any = failure or End
        if failure is None and not ended and fetch is not None:
            try:
                value = fetch(order.indices[0])
            except StopIteration as error:
                ended = fetching.is_iterable
                value = End if ended else failure_of(error, where)
            except Exception as error:
                value = failure_of(error, where)
        failure = None
        try:
            send(orders, Batch(order.loop, order.number, number, value))
        except (BrokenPipeError, ConnectionResetError):
            raise
        except Exception as error:
            send(orders, Batch(order.loop, order.number, number, failure_of(error, where)))
        del value  # Its memory need not wait for the next batch.


def _listen(orders: Connection, parent: int, waiting: queue.SimpleQueue[Order | None]) -> None:
    """Receive requests as they arrive, so that the sender never blocks; stop if the parent has ended.

    A process forked from the parent may hold the other end of the connection. The loop therefore checks the parent's
    process id too.
    """
    try:
        while os.getppid() == parent:
            if orders.poll(GRACE):
                waiting.put(receive(orders))
    except (EOFError, OSError):
        pass
    waiting.put(None)
    time.sleep(GRACE)
    os._exit(1)
