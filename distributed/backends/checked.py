"""Collectives that are compared before they begin, with TRITEN_DISTRIBUTED_DEBUG=DETAIL (`ProcessGroupWrapper` of
PyTorch).
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

from ...dispatch.tensor import Tensor
from ..errors import DistBackendError
from ..process_group import GroupSpec
from ..reduce_op import Reduction
from ..work import Work
from .agreement import name_of
from .communicator import Communicator, WrappingCommunicator

__all__ = ["CheckedCommunicator"]

POLL = 0.001
"""Seconds between two checks for the calls of other ranks."""


class CheckedCommunicator(WrappingCommunicator):
    """A communicator whose processes first tell each other, in the group's store, what they call.

    Args:
        inner: Communicator to which calls are forwarded.
        spec: the group.
        kind: the type of the tensors' device.
    """

    def __init__(self, inner: Communicator, spec: GroupSpec, kind: str) -> None:
        super().__init__(inner)
        self.spec = spec
        self._prefix = f"calls/{kind}"
        self._count = 0

    def _compare(self, name: str, *tensors: Tensor | None, **arguments: Any) -> None:
        """Wait until all ranks have reported their calls, and compare them.

        Raises:
            RuntimeError: they call different things.
            DistBackendError: some have not in time.
        """
        self._count += 1
        own = {
            "collective": name,
            "shapes": [list(each.shape) for each in tensors if each is not None],
            "dtypes": [str(each.dtype) for each in tensors if each is not None],
            **arguments,
        }
        store, spec = self.spec.store, self.spec
        store.set(self._key(self._count, self.rank), json.dumps(own))
        if self._count > 2:  # all have read what was said two collectives before
            store.delete_key(self._key(self._count - 2, self.rank))
        deadline = time.monotonic() + self.timeout.total_seconds()
        for rank in range(self.size):
            key = self._key(self._count, rank)
            while not store.check([key]):
                gone = spec.failures.gone([spec.ranks[rank]])
                if gone is not None or time.monotonic() > deadline:
                    raise DistBackendError(
                        f"{name}: rank {self.rank} of {self.size} in group {spec.name!r} ({spec.description}) waited "
                        f"for rank {rank} to call it; {gone or f'not heard of: rank {rank}'}"
                    )
                time.sleep(POLL)
            other = json.loads(store.get(key))
            if other != own:
                parts = [part for part in {*own, *other} if own.get(part) != other.get(part)]
                raise RuntimeError(
                    f"Detected mismatch between collectives on ranks of group {spec.name!r} ({spec.description}), "
                    f"number {self._count} of the group. Rank {self.rank} is running collective: {own}, but rank "
                    f"{rank} is running collective: {other}. They differ in: {', '.join(sorted(parts))}"
                )

    def _key(self, count: int, rank: int) -> str:
        return f"{self._prefix}/{count}/{rank}"

    def all_reduce(self, tensor: Tensor, op: Reduction, waits: bool = True) -> Work:
        self._compare("all_reduce", tensor, op=name_of(op))
        return self.inner.all_reduce(tensor, op, waits)

    def reduce(self, tensor: Tensor, op: Reduction, root: int, waits: bool = True) -> Work:
        self._compare("reduce", tensor, op=name_of(op), root=root)
        return self.inner.reduce(tensor, op, root, waits)

    def broadcast(self, tensor: Tensor, root: int, waits: bool = True) -> Work:
        self._compare("broadcast", tensor, root=root)
        return self.inner.broadcast(tensor, root, waits)

    def all_gather(self, output: Tensor, input: Tensor, waits: bool = True) -> Work:
        self._compare("all_gather", input)
        return self.inner.all_gather(output, input, waits)

    def reduce_scatter(self, output: Tensor, input: Tensor, op: Reduction, waits: bool = True) -> Work:
        self._compare("reduce_scatter", output, op=name_of(op))
        return self.inner.reduce_scatter(output, input, op, waits)

    def all_to_all(
        self,
        output: Tensor,
        input: Tensor,
        output_counts: Sequence[int],
        input_counts: Sequence[int],
        waits: bool = True,
    ) -> Work:
        # Counts may differ between ranks. MPI or NCCL detects a mismatch between the two ends.
        self._compare("all_to_all", dtype=str(input.dtype))
        return self.inner.all_to_all(output, input, output_counts, input_counts, waits)

    def gather(self, output: Tensor | None, input: Tensor, root: int, waits: bool = True) -> Work:
        self._compare("gather", input, root=root)
        return self.inner.gather(output, input, root, waits)

    def scatter(self, output: Tensor, input: Tensor | None, root: int, waits: bool = True) -> Work:
        self._compare("scatter", output, root=root)
        return self.inner.scatter(output, input, root, waits)

    def send(self, tensor: Tensor, peer: int, tag: int) -> Work:
        return self.inner.send(tensor, peer, tag)

    def receive(self, tensor: Tensor, peer: int | None, tag: int) -> Work:
        return self.inner.receive(tensor, peer, tag)

    def barrier(self, waits: bool = True) -> Work:
        self._compare("barrier")
        return self.inner.barrier(waits)

    def close(self) -> None:
        self.inner.close()
