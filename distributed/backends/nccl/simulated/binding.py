"""API of `cupy.cuda.nccl` for simulated devices.

A real device makes progress by itself; a simulated stream runs only when something waits for it. A rank that
waits for another asks it to send. A thread of that other rank then runs the stream up to the call; for
graphs, it runs all streams of the device.

Calls of one communicator match by their order, messages by the order between their two ranks. Captured calls
match by the order of captures and replays, which NCCL requires to be the same on every rank. Mismatched calls
raise an error, whereas NCCL's result would be undefined.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import NamedTuple

from .....runtime.cuda.driver import driver as current_driver
from .....runtime.cuda.simulated.driver import SimulatedDriver
from .....runtime.cuda.simulated.stream import EventRecord, Reception, Stream
from . import calls
from .calls import Call, Parts
from .mesh import ASK, DATA, Mesh, Message, new_id

__all__ = [
    "NcclCommunicator",
    "NcclError",
    "available",
    "get_unique_id",
    "get_version",
    "groupEnd",
    "groupStart",
]

available = True
ASKING = 0.02
"""Seconds between two looks for calls that others wait for and that are not made yet."""


class NcclError(RuntimeError):
    """A call failed, or a communicator did."""


class Key(NamedTuple):
    """Key that matches calls of different ranks.

    Attributes:
        series: The two ranks of a message, or empty for a collective.
        number: Number of earlier calls in the series.
        replay: Number of earlier replays; -1 for a call outside a graph.
    """

    series: str
    number: int
    replay: int

    def __str__(self) -> str:
        return f"{self.series}#{self.number}#{self.replay}"

    @staticmethod
    def parse(text: str) -> Key:
        """Parse the text form of a key."""
        series, number, replay = text.split("#")
        return Key(series, int(number), int(replay))


class _Group(threading.local):
    """The calls of this thread's open group."""

    depth = 0

    def __init__(self) -> None:
        self.calls: list[tuple[NcclCommunicator, Call, str, int]] = []


_group = _Group()


def get_version() -> int:
    """Return the version of NCCL whose semantics this module implements."""
    return 22707


def get_unique_id() -> bytes:
    """Return an id for a new communicator."""
    return new_id()


def groupStart() -> None:
    """Begin a group: calls until its end are issued together."""
    _group.depth += 1


def groupEnd() -> None:
    """End a group, and issue its calls: all send before any waits."""
    _group.depth -= 1
    if _group.depth == 0:
        made, _group.calls = _group.calls, []
        _issue(made)


def _issue(made: list[tuple[NcclCommunicator, Call, str, int]]) -> None:
    executions = [(each.execution(call, series, stream), each, stream) for each, call, series, stream in made]
    for execution, each, stream in executions:
        each.enqueue_sending(execution, stream)
    for execution, each, stream in executions:
        each.stream(stream).enqueue(execution, "work", execution.call.text)


class Execution(Reception):
    """One call on a stream: `send` is its first piece of work, the object itself the second.

    A captured one is executed again by each replay, under a new key.
    """

    __slots__ = ("call", "communicator", "has_asked", "key", "next_key")

    def __init__(self, communicator: NcclCommunicator, call: Call, next_key: Callable[[], Key]) -> None:
        self.communicator, self.call, self.next_key = communicator, call, next_key
        self.key = Key("", -1, -1)
        self.has_asked = False

    def send(self) -> None:
        """Send the bytes of this call to the other ranks."""
        self.key, self.has_asked = self.next_key(), False
        communicator = self.communicator
        for peer, region in self.call.sends:
            body = calls.read(communicator.driver, region)
            communicator.mesh.send(peer, Message(DATA, str(self.key), self.call.text, body))
        if self.call.sends:
            communicator.note_sent(self.key)

    def is_due(self) -> bool:
        missing = [] if self.communicator.is_aborted else self._missing()
        if missing and not self.has_asked:
            self.has_asked = True
            for peer in missing:
                self.communicator.mesh.send(peer, Message(ASK, str(self.key), "", b""))
        return not missing

    def __call__(self) -> None:
        communicator = self.communicator
        if not self.is_due():
            communicator.driver.scheduler.wait_outside(self._is_over)
        if self.call.sources and not communicator.is_aborted:  # an aborted kernel ends without a result
            for region, data in self.call.combine(communicator.take(self.key, self.call)):
                calls.write(communicator.driver, region, data)

    def _missing(self) -> list[int]:
        arrived = self.communicator.arrived(self.key)
        return [peer for peer in self.call.sources if peer not in arrived]

    def _is_over(self) -> bool:
        gone = set(self.communicator.gone)  # looked at first: what a process sends comes before its end
        missing = self._missing()
        lost = gone.intersection(missing)
        if lost and not self.communicator.is_aborted:
            self.communicator.fail(f"ncclRemoteError: process {min(lost)} is gone, at {self.call.text}")
        return self.communicator.is_aborted or not missing


class NcclCommunicator:
    """One device's part in a communicator (`ncclComm_t`).

    Args:
        ndev: the number of processes.
        commId: the id that one of them has made.
        rank: Rank of this process.
    """

    def __init__(self, ndev: int, commId: bytes, rank: int) -> None:
        driver = current_driver()
        assert isinstance(driver, SimulatedDriver)
        self.driver = driver
        self._device = driver.current_device()
        self._rank, self._size = rank, ndev
        self.is_aborted = False
        self.gone: set[int] = set()
        self._error: str | None = None
        self._lock = threading.Lock()
        self._arrived: dict[Key, dict[int, tuple[str, bytes]]] = {}
        self._unsent: dict[Key, tuple[Stream, EventRecord] | None] = {}
        self._issued: dict[str, int] = {}
        self._captured: dict[str, int] = {}
        self._replays: dict[tuple[str, int], int] = {}
        self._requests: queue.SimpleQueue[Key | None] = queue.SimpleQueue()
        self.mesh = Mesh(commId, rank, ndev, self._deliver)
        threading.Thread(target=self._answer, name="NCCL progress", daemon=True).start()

    def allReduce(self, sendbuf: int, recvbuf: int, count: int, datatype: int, op: int, stream: int) -> None:
        """`ncclAllReduce`."""
        self._call(
            calls.all_reduce(*self._rank_and_size, sendbuf, recvbuf, count, self._kind(datatype), op), stream
        )

    def reduce(
        self, sendbuf: int, recvbuf: int, count: int, datatype: int, op: int, root: int, stream: int
    ) -> None:
        """`ncclReduce`."""
        kind = self._kind(datatype)
        self._call(
            calls.reduce(*self._rank_and_size, sendbuf, recvbuf, count, kind, op, self._peer(root)), stream
        )

    def broadcast(
        self, sendbuff: int, recvbuff: int, count: int, datatype: int, root: int, stream: int
    ) -> None:
        """`ncclBroadcast`."""
        kind = self._kind(datatype)
        self._call(
            calls.broadcast(*self._rank_and_size, sendbuff, recvbuff, count, kind, self._peer(root)), stream
        )

    def allGather(self, sendbuf: int, recvbuf: int, count: int, datatype: int, stream: int) -> None:
        """`ncclAllGather`."""
        self._call(
            calls.all_gather(*self._rank_and_size, sendbuf, recvbuf, count, self._kind(datatype)), stream
        )

    def reduceScatter(
        self, sendbuf: int, recvbuf: int, recvcount: int, datatype: int, op: int, stream: int
    ) -> None:
        """`ncclReduceScatter`."""
        kind = self._kind(datatype)
        self._call(calls.reduce_scatter(*self._rank_and_size, sendbuf, recvbuf, recvcount, kind, op), stream)

    def send(self, sendbuf: int, count: int, datatype: int, peer: int, stream: int) -> None:
        """`ncclSend`."""
        call = calls.send(sendbuf, count, self._kind(datatype), self._peer(peer))
        self._call(call, stream, f"{self._rank}>{peer}")

    def recv(self, recvbuf: int, count: int, datatype: int, peer: int, stream: int) -> None:
        """`ncclRecv`."""
        call = calls.receive(recvbuf, count, self._kind(datatype), self._peer(peer))
        self._call(call, stream, f"{peer}>{self._rank}")

    def check_async_error(self) -> None:
        """Raise NcclError if the communicator has failed."""
        if self._error is not None:
            raise NcclError(self._error)

    def abort(self) -> None:
        """Abort the communicator; work that waits for other ranks ends without a result.

        Calls that wait for no other rank are sent first: a device would have sent them long before.
        """
        for key, send in list(self._unsent.items()):
            while send is not None and key in self._unsent and self.driver.scheduler.poll(send[0]):
                pass
        self.is_aborted = True
        self._close()

    def destroy(self) -> None:
        """Send what was issued, and end the communicator."""
        for send in list(self._unsent.values()):
            if send is not None:
                stream, record = send
                stream.run(record)
        self._close()

    def device_id(self) -> int:
        """Return the device index."""
        return self._device

    def rank_id(self) -> int:
        """Return this process's rank."""
        return self._rank

    def size(self) -> int:
        """Return the number of ranks."""
        return self._size

    @property
    def _rank_and_size(self) -> tuple[int, int]:
        return self._rank, self._size

    def _kind(self, datatype: int) -> int:
        if datatype not in calls.DTYPES:
            raise NcclError(f"ncclInvalidArgument: datatype {datatype}")
        return datatype

    def _peer(self, peer: int) -> int:
        if not 0 <= peer < self._size:
            raise NcclError(f"ncclInvalidArgument: process {peer} of {self._size}")
        return peer

    def stream(self, handle: int) -> Stream:
        """Return a stream of the communicator's device."""
        return self.driver.stream(handle, self._device)

    def _call(self, call: Call, stream: int, series: str = "") -> None:
        if self.is_aborted:
            raise NcclError("ncclInvalidArgument: the communicator was aborted")
        _group.calls.append((self, call, series, stream))
        if _group.depth == 0:
            made, _group.calls = _group.calls, []
            _issue(made)

    def execution(self, call: Call, series: str, stream: int) -> Execution:
        """Assign a call its number within its series; both ends count messages."""
        counted = series if call.sends or not series else f"{series}, received"
        if self.stream(stream).capture is None:
            number = self._issued.get(counted, 0)
            key = Key(series, number, -1)
            if call.sends:
                self._unsent[key] = None  # before it counts as issued, for who looks from another thread
            self._issued[counted] = number + 1
            return Execution(self, call, lambda: key)
        number = self._captured.get(counted, 0)
        self._captured[counted] = number + 1
        return Execution(self, call, lambda: self._next_replay(series, number, counted))

    def _next_replay(self, series: str, number: int, counted: str) -> Key:
        replay = self._replays.get((counted, number), 0)
        self._replays[counted, number] = replay + 1
        return Key(series, number, replay)

    def enqueue_sending(self, execution: Execution, stream: int) -> None:
        """Enqueue a call's first piece of work."""
        on = self.stream(stream)
        on.enqueue(execution.send, "work", execution.call.text)
        if on.capture is None and execution.call.sends:
            record = on.record()
            assert isinstance(record, EventRecord)
            self._unsent[execution.next_key()] = on, record

    def note_sent(self, key: Key) -> None:
        """Record that a call has sent its bytes."""
        self._unsent.pop(key, None)

    def arrived(self, key: Key) -> dict[int, tuple[str, bytes]]:
        """Return the bytes received so far for a call, by rank."""
        return self._arrived.get(key, {})

    def take(self, key: Key, call: Call) -> Parts:
        """Remove and return all bytes received for a call. Raise NcclError if other ranks made a different
        call.
        """
        with self._lock:
            messages = self._arrived.pop(key, {})
        for peer, (text, _) in messages.items():
            if text != call.text:
                self.fail(f"process {self._rank} called {call.text}, but process {peer} called {text}")
        self.check_async_error()
        return {peer: body for peer, (_, body) in messages.items()}

    def fail(self, text: str) -> None:
        """Mark the communicator as failed."""
        self._error = self._error or text

    def _deliver(self, peer: int, message: Message | None) -> None:
        if message is None:
            self.gone.add(peer)
        elif message.kind == ASK:
            self._requests.put(Key.parse(message.key))
            return
        else:
            with self._lock:
                self._arrived.setdefault(Key.parse(message.key), {})[peer] = message.text, message.body
        self.driver.scheduler.notify()

    def _answer(self) -> None:
        """Run requested calls once they have been issued."""
        requested: set[Key] = set()
        while True:
            try:
                key = self._requests.get(timeout=ASKING if requested else None)
                if key is None:
                    return
                requested.add(key)
            except queue.Empty:
                pass  # time to look again at what was asked for before
            try:
                requested = {key for key in requested if not self._is_sent(key)}
            except Exception as error:  # the caller that waits for the communicator gets it
                self.fail(f"{type(error).__name__}: {error}")
                return

    def _is_sent(self, key: Key) -> bool:
        """Run the stream up to a call's send, and return True if the call has sent."""
        if key.replay >= 0:
            if self._replays.get((key.series, key.number), 0) <= key.replay:
                self.driver.run_device(self._device)
            return self._replays.get((key.series, key.number), 0) > key.replay
        if key not in self._unsent:
            return self._issued.get(key.series, 0) > key.number
        send = self._unsent.get(key)
        if send is not None:
            stream, record = send
            stream.run(record)
        return send is not None

    def _close(self) -> None:
        self._requests.put(None)
        self.mesh.close()
        self.driver.scheduler.notify()
