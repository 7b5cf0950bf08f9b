"""A group's collectives and messages by NCCL, of tensors on CUDA devices."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from ....dispatch.generated.functions.factories import zeros
from ....dispatch.tensor import Tensor
from ....runtime.cuda.device_guard import device_guard
from ....runtime.cuda.driver import driver
from ....runtime.cuda.memory.caching_allocator import CUDA_ALLOCATOR
from ....runtime.device import device as Device
from ...errors import DistBackendError, DistStoreError
from ...reduce_op import ReduceOp, Reduction
from ...stores.prefix_store import PrefixStore
from ...work import Work
from ..agreement import Call as ComparedCall
from ..agreement import call_of, is_enabled, sized
from ..communicator import Communicator
from .agreement import CallLog
from .device_communicator import Call, DeviceCommunicator
from .health import GroupHealth
from .library import load
from .reductions import UINT8, Plan, plan
from .watchdog import WATCHDOG, Watched
from .work import CoalescedWork, NCCLWork

if TYPE_CHECKING:
    from ...process_group import GroupSpec, ProcessGroup

__all__ = ["NCCLCommunicator", "connect"]

_ALL = "all ranks to call it"


class _Pending(NamedTuple):
    """Calls deferred to the end of a coalesced block."""

    on: DeviceCommunicator
    name: str
    calls: Sequence[Call]
    tensors: Sequence[Tensor]
    results: Sequence[Tensor]


class _Block(threading.local):
    """Thread-local calls of the current coalesced block and their common work; None outside a block."""

    pending: list[_Pending] | None = None
    coalesced: CoalescedWork | None = None


class NCCLCommunicator(Communicator):
    """A group over NCCL (`torch.distributed.ProcessGroupNCCL`).

    NCCL's communicator of a device is made with the first collective on that device, or at once for `device`. Messages
    have one of their own for each pair of processes, unless there is a `device`. Each has a stream, which waits for
    what the current stream was given until a call; `Work.wait` has the current stream wait for it. Memory in use there
    is reused only when that stream is through with it (`Tensor.record_stream`).

    Args:
        spec: the group, with the device for which the communicator is made now, if it names one.

    Raises:
        ModuleNotFoundError: CuPy is not installed.
        RuntimeError: NCCL is not installed.
        DistBackendError: the processes do not find each other.
    """

    def __init__(self, spec: GroupSpec) -> None:
        self.rank, self.size, self.timeout = spec.rank, len(spec.ranks), spec.timeout
        self._store, self._nccl = PrefixStore("nccl", spec.store), load()
        self._health = GroupHealth(spec)
        self._log = CallLog(self._health) if self.size > 1 and is_enabled() else None
        self._communicators: dict[tuple[str, int], DeviceCommunicator] = {}
        self._made: dict[str, int] = {}
        self._sequence = 0
        self._block = _Block()
        self._lock = threading.RLock()
        self._device = _named(spec.device)
        if self._device is not None:
            self._of_all(self._device)

    def all_reduce(self, tensor: Tensor, op: Reduction, waits: bool = True) -> Work:
        how = plan("all_reduce", tensor.dtype, op)
        source = _scaled(tensor, how)
        call = _reduction("allReduce", source, tensor, how, tensor.numel())
        compared = call_of("all_reduce", tensor.dtype, tensor.numel(), op)
        return self._collective(compared, [call], [source, tensor], [tensor])

    def reduce(self, tensor: Tensor, op: Reduction, root: int, waits: bool = True) -> Work:
        how = plan("reduce", tensor.dtype, op)
        source = _scaled(tensor, how)
        call = _reduction("reduce", source, tensor, how, tensor.numel(), root)
        compared = call_of("reduce", tensor.dtype, tensor.numel(), op, root)
        return self._collective(compared, [call], [source, tensor], [tensor])

    def broadcast(self, tensor: Tensor, root: int, waits: bool = True) -> Work:
        address, nbytes = tensor.data_ptr(), tensor.nbytes

        def call(nccl: Any, stream: int) -> None:
            nccl.broadcast(address, address, nbytes, UINT8, root, stream)

        compared = call_of("broadcast", tensor.dtype, tensor.numel(), root=root)
        return self._collective(compared, [call], [tensor], [tensor])

    def all_gather(self, output: Tensor, input: Tensor, waits: bool = True) -> Work:
        source_ptr, out_ptr, nbytes = input.data_ptr(), output.data_ptr(), input.nbytes

        def call(nccl: Any, stream: int) -> None:
            nccl.allGather(source_ptr, out_ptr, nbytes, UINT8, stream)

        compared = call_of("all_gather", input.dtype, input.numel())
        return self._collective(compared, [call], [output, input], [output])

    def reduce_scatter(self, output: Tensor, input: Tensor, op: Reduction, waits: bool = True) -> Work:
        how = plan("reduce_scatter", output.dtype, op)
        source = _scaled(input, how)
        call = _reduction("reduceScatter", source, output, how, output.numel())
        compared = call_of("reduce_scatter", output.dtype, output.numel(), op)
        return self._collective(compared, [call], [source, output], [output])

    def all_to_all(
        self,
        output: Tensor,
        input: Tensor,
        output_counts: Sequence[int],
        input_counts: Sequence[int],
        waits: bool = True,
    ) -> Work:
        calls = [
            *_messages("send", input, input_counts),
            *_messages("recv", output, output_counts),
        ]
        on = self._of_all(_index(output))
        if self._log is not None and not _is_captured(on.device):
            for peer in (each for each in range(self.size) if each != self.rank):
                self._log.sends(f"all_to_all: {sized(input.dtype, input_counts[peer])}", peer, on.series)
                self._log.receives(f"all_to_all: {sized(output.dtype, output_counts[peer])}", peer, on.series)
        return self._collective(call_of("all_to_all", input.dtype), calls, [output, input], [output])

    def gather(self, output: Tensor | None, input: Tensor, root: int, waits: bool = True) -> Work:
        calls, tensors = _message("send", input.data_ptr(), input.nbytes, root), [input]
        if output is not None and self.rank == root:
            calls += _messages("recv", output, [input.numel()] * self.size)
            tensors.append(output)
        compared = call_of("gather", input.dtype, input.numel(), root=root)
        return self._collective(compared, calls, tensors, tensors[1:])

    def scatter(self, output: Tensor, input: Tensor | None, root: int, waits: bool = True) -> Work:
        calls, tensors = _message("recv", output.data_ptr(), output.nbytes, root), [output]
        if input is not None and self.rank == root:
            calls += _messages("send", input, [output.numel()] * self.size)
            tensors.append(input)
        compared = call_of("scatter", output.dtype, output.numel(), root=root)
        return self._collective(compared, calls, tensors, tensors[:1])

    def send(self, tensor: Tensor, peer: int, tag: int = 0) -> Work:
        """Send a message. NCCL has no tags: messages arrive in the order in which they are sent."""
        on, number = self._of_pair(_index(tensor), peer)
        calls = _message("send", tensor.data_ptr(), tensor.nbytes, number)
        if self._log is not None and not _is_captured(on.device):
            self._log.sends(sized(tensor.dtype, tensor.numel()), peer, on.series)
        return self._issue(on, "send", calls, [tensor], [], waits_for=f"rank {peer} to receive")

    def receive(self, tensor: Tensor, peer: int | None, tag: int = 0) -> Work:
        """Receive a message. NCCL has no tags, and cannot receive from any rank.

        Raises:
            ValueError: `peer` is None.
        """
        if peer is None:
            raise ValueError(
                "recv: src is None, but NCCL cannot receive from any rank; pass the sending rank"
            )
        on, number = self._of_pair(_index(tensor), peer)
        calls = _message("recv", tensor.data_ptr(), tensor.nbytes, number)
        if self._log is not None and not _is_captured(on.device):
            self._log.receives(sized(tensor.dtype, tensor.numel()), peer, on.series)
        waits_for = f"rank {peer} to send"
        return self._issue(on, "recv", calls, [tensor], [tensor], waits_for=waits_for, source=peer)

    def barrier(self, waits: bool = True) -> Work:
        """Run a barrier on the group's device, a device used before, or the current device. `wait` waits for
        that device.
        """
        device = self._device
        if device is None:
            used = (each for key, each in self._communicators if not key)
            device = next(used, driver().current_device())
        token = zeros(1, device=Device("cuda", device))
        how = plan("barrier", token.dtype, ReduceOp.SUM)
        call = _reduction("allReduce", token, token, how, 1)
        return self._collective(call_of("barrier"), [call], [token], [], blocks=True)

    @contextmanager
    def coalescing(self) -> Iterator[None]:
        """Issue the communications of this block together, at its end (``ncclGroupStart``).

        All messages of a block progress at once, so two ranks may both send first. Waiting for an earlier
        communication of the block issues the calls made so far.
        """
        block = self._block
        block.pending = []
        try:
            yield
            self._issue_pending()
        finally:
            block.pending = block.coalesced = None

    def _issue_pending(self) -> None:
        block = self._block
        work, pending = block.coalesced, block.pending
        if work is None or pending is None:
            return
        block.coalesced, block.pending = None, []
        works = []
        for on in dict.fromkeys(each.on for each in pending):
            same_communicator = [each for each in pending if each.on is on]
            calls = [call for each in same_communicator for call in each.calls]
            tensors = [tensor for each in same_communicator for tensor in each.tensors]
            results = [tensor for each in same_communicator for tensor in each.results]
            name = "+".join(dict.fromkeys(each.name for each in same_communicator))
            works.append(self._work(on, name, calls, tensors, results))
        work.begin(works)

    def abort(self) -> None:
        """Abort the communicator. Pending communications are lost, and their waiters get DistBackendError."""
        self._health.fail(f"{self._health.group} was aborted")

    def close(self) -> None:
        """Close the communicator after pending communications have ended or timed out."""
        if self._log is not None:
            self._log.close()
        for each in self._communicators.values():
            each.close()
        self._communicators.clear()

    def _collective(
        self,
        compared: ComparedCall,
        calls: Sequence[Call],
        tensors: Sequence[Tensor],
        results: Sequence[Tensor],
        blocks: bool = False,
    ) -> Work:
        on = self._of_all(_index(tensors[0]))
        if self._log is not None and not _is_captured(on.device):
            self._log.collective(compared, on.series)
        return self._issue(on, compared[0], calls, tensors, results, blocks=blocks)

    def _issue(
        self,
        on: DeviceCommunicator,
        name: str,
        calls: Sequence[Call],
        tensors: Sequence[Tensor],
        results: Sequence[Tensor],
        waits_for: str = _ALL,
        source: int = -1,
        blocks: bool = False,
    ) -> Work:
        block = self._block
        if block.pending is not None:
            block.pending.append(_Pending(on, name, calls, tensors, results))
            if block.coalesced is None:
                block.coalesced = CoalescedWork(self._issue_pending)
            return block.coalesced
        return self._work(on, name, calls, tensors, results, waits_for, source, blocks)

    def _work(
        self,
        on: DeviceCommunicator,
        name: str,
        calls: Sequence[Call],
        tensors: Sequence[Tensor],
        results: Sequence[Tensor],
        waits_for: str = _ALL,
        source: int = -1,
        blocks: bool = False,
    ) -> NCCLWork:
        self._health.check(name)
        try:
            with self._lock:
                issued = on.issue(calls)
                self._sequence += 1
                sequence = self._sequence
        except self._nccl.NcclError as error:
            raise DistBackendError(f"{name}: {self._health.group}: {error}") from error
        for tensor in tensors:
            root = tensor._data.root
            if root.deleter is not None:
                CUDA_ALLOCATOR.record_stream(root, on.stream.cuda_stream)
        limit = self.timeout.total_seconds()
        watched = Watched(name, waits_for, sequence, issued, limit, self._health)
        if not issued.is_captured:
            WATCHDOG.watch(watched)
        return NCCLWork(watched, on.device, results, source, blocks)

    def _of_all(self, device: int) -> DeviceCommunicator:
        """Return the communicator of all ranks on a device of this rank."""
        return self._found("", device, self.rank, self.size)

    def _of_pair(self, device: int, peer: int) -> tuple[DeviceCommunicator, int]:
        """Return the communicator for messages with a peer, and the peer's rank in it."""
        if self._device is not None or self._block.pending is not None:
            return self._of_all(device), peer
        if peer == self.rank:
            raise ValueError(
                f"rank {peer} cannot send to or receive from itself, except in a coalesced block"
            )
        low, high = sorted((self.rank, peer))
        key, number = f"{low}:{high}", int(self.rank > peer)
        return self._found(key, device, number, 2), 1 - number

    def _found(self, key: str, device: int, rank: int, size: int) -> DeviceCommunicator:
        communicator = self._communicators.get((key, device))
        if communicator is None:
            with self._lock:
                communicator = self._communicators.get((key, device)) or self._make(key, device, rank, size)
        return communicator

    def _make(self, key: str, device: int, rank: int, size: int) -> DeviceCommunicator:
        """Create a communicator whose ranks find each other through the store."""
        if _is_captured(device):
            raise RuntimeError(
                f"{self._health.group}: an NCCL communicator cannot be created during graph capture; call a collective "
                "of the group before the capture, or pass device_id to init_process_group"
            )
        made = self._made.get(key, 0)
        self._made[key] = made + 1
        store_key = f"{key or 'all'}/{made}"
        try:
            if rank == 0:
                self._store.set(store_key, self._nccl.get_unique_id())
            unique_id = self._store.get(store_key)
            communicator = DeviceCommunicator(
                self._nccl, unique_id, rank, size, device, store_key.replace("/", " ")
            )
        except DistStoreError as error:
            raise DistBackendError(f"{self._health.group}: rank 0 sent no NCCL unique id: {error}") from error
        except self._nccl.NcclError as error:
            raise DistBackendError(
                f"{self._health.group}: cannot create the NCCL communicator: {error}"
            ) from error
        self._health.add(communicator)
        self._communicators[key, device] = communicator
        return communicator


def connect(group: ProcessGroup) -> NCCLCommunicator:
    """Create the communicator of a group. Every rank of the group calls this.

    Raises:
        ModuleNotFoundError: CuPy is not installed.
        RuntimeError: NCCL is not installed.
        DistBackendError: the processes do not find each other.
    """
    return NCCLCommunicator(group.spec)


def _named(device: Device | None) -> int | None:
    return device.index if device is not None and device.type == "cuda" else None


def _index(tensor: Tensor) -> int:
    device = tensor.device
    if device.type != "cuda":
        raise RuntimeError(f"No backend type associated with device type {device.type}")
    return device.resolved_index


def _is_captured(device: int) -> bool:
    """Return whether the current stream's calls become part of a graph. Replays leave nothing to compare."""
    if not driver().captures_underway:
        return False
    with device_guard(device) as cuda:
        return bool(cuda.is_capturing(cuda.current_stream(device)))


def _scaled(tensor: Tensor, how: Plan) -> Tensor:
    """Return the tensor that NCCL adds: the input, times the factor if there is one."""
    if how.factor is None:
        return tensor
    return (tensor.detach() * how.factor).detach().to(tensor.dtype)


def _reduction(function: str, source: Tensor, out: Tensor, how: Plan, count: int, *root: int) -> Call:
    sent, received, numbers = source.data_ptr(), out.data_ptr(), count * how.width

    def call(nccl: Any, stream: int) -> None:
        getattr(nccl, function)(sent, received, numbers, how.datatype, how.operation, *root, stream)

    return call


def _message(function: str, address: int, nbytes: int, peer: int) -> list[Call]:
    """Return the call that sends or receives a message; none for zero bytes."""

    def call(nccl: Any, stream: int) -> None:
        getattr(nccl, function)(address, nbytes, UINT8, peer, stream)

    return [call] if nbytes else []


def _messages(function: str, tensor: Tensor, counts: Sequence[int]) -> list[Call]:
    """Return one message per rank, each with `counts` elements of the tensor."""
    address, width = tensor.data_ptr(), tensor.element_size()
    starts = accumulate(counts, initial=0)
    return [
        call
        for peer, (start, count) in enumerate(zip(starts, counts, strict=False))
        for call in _message(function, address + start * width, count * width, peer)
    ]
