"""Collectives while a graph of the program is recorded: they become operators, which the graph holds.

They are those of `tt.ops._c10d_functional` (`distributed.functional_collectives`). In a graph a communication begins
where the program began it, and is waited for where the program waited.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from ...dispatch.core.op_overload import Ops
from ...dispatch.layers.graph.make_graph import innermost_tracer
from ...dispatch.tensor import Tensor
from ...runtime.dispatch_key import Functionality, functionality_bit
from ...runtime.local_dispatch_key_set import local
from ..reduce_op import PremultipliedSum, Reduction
from ..work import Work
from .communicator import Communicator

if TYPE_CHECKING:
    from ..process_group import ProcessGroup

__all__ = ["TracedCommunicator", "traced_communicator"]


_FUNCTIONALIZE = functionality_bit(Functionality.Functionalize)


def traced_communicator(group: ProcessGroup) -> TracedCommunicator | None:
    """Return the recorded stand-in for a group's communicator while this thread traces or functionalizes;
    else None.
    """
    if local.included & _FUNCTIONALIZE or innermost_tracer() is not None:
        return TracedCommunicator(group)
    return None


class _TracedWork(Work):
    """A communication of a graph; to wait for it is an operator, too.

    Args:
        tensor: what is written.
        received: what the operator gives, if that is another tensor. It is copied there when it is waited for, since
            what is made of a tensor that is written reads it at once.
    """

    def __init__(self, tensor: Tensor, received: Tensor | None = None) -> None:
        super().__init__([tensor])
        self._received = received
        # Functionalized communications are waited for where they are written.
        self._is_waited_for = received is None and bool(local.included & _FUNCTIONALIZE)

    def wait(self, timeout: timedelta | None = None) -> bool:
        if not self._is_waited_for:
            tensor, received = self._results[0], self._received
            waited = Ops()._c10d_functional.wait_tensor(tensor if received is None else received)
            if received is not None:
                tensor.copy_(waited.view(tensor.shape))
            self._is_waited_for = True
        return True

    def is_completed(self) -> bool:
        return self._is_waited_for


class TracedCommunicator(Communicator):
    """A group's collectives as operators. Messages, and what one process alone gets or gives, have none.

    Args:
        group: the group, which a graph knows by its name.
    """

    def __init__(self, group: ProcessGroup) -> None:
        self.rank, self.size, self.timeout = group.rank(), group.size(), group.timeout
        self._name = group.group_name
        self._operators: Any = Ops()._c10d_functional

    def all_reduce(self, tensor: Tensor, op: Reduction, waits: bool = True) -> Work:
        if not waits:
            return _TracedWork(tensor, self._operators.all_reduce(tensor, _name(op), self._name))
        self._operators.all_reduce_(tensor, _name(op), self._name)
        return _TracedWork(tensor)

    def broadcast(self, tensor: Tensor, root: int, waits: bool = True) -> Work:
        if not waits:
            return _TracedWork(tensor, self._operators.broadcast(tensor, root, self._name))
        self._operators.broadcast_(tensor, root, self._name)
        return _TracedWork(tensor)

    def all_gather(self, output: Tensor, input: Tensor, waits: bool = True) -> Work:
        arguments = input.reshape(-1), self.size, self._name
        if not waits:
            return _TracedWork(output, self._operators.all_gather_into_tensor(*arguments))
        self._operators.all_gather_into_tensor_out(*arguments, out=output.view(-1))
        return _TracedWork(output)

    def reduce_scatter(self, output: Tensor, input: Tensor, op: Reduction, waits: bool = True) -> Work:
        arguments = input.reshape(-1), _name(op), self.size, self._name
        if not waits:
            return _TracedWork(output, self._operators.reduce_scatter_tensor(*arguments))
        self._operators.reduce_scatter_tensor_out(*arguments, out=output.view(-1))
        return _TracedWork(output)

    def all_to_all(
        self,
        output: Tensor,
        input: Tensor,
        output_counts: Sequence[int],
        input_counts: Sequence[int],
        waits: bool = True,
    ) -> Work:
        received = self._operators.all_to_all_single(
            input.reshape(-1), list(output_counts), list(input_counts), self._name
        )
        return _TracedWork(output, received)

    def reduce(self, tensor: Tensor, op: Reduction, root: int, waits: bool = True) -> Work:
        _refuse("reduce")

    def gather(self, output: Tensor | None, input: Tensor, root: int, waits: bool = True) -> Work:
        _refuse("gather")

    def scatter(self, output: Tensor, input: Tensor | None, root: int, waits: bool = True) -> Work:
        _refuse("scatter")

    def send(self, tensor: Tensor, peer: int, tag: int) -> Work:
        _refuse("send")

    def receive(self, tensor: Tensor, peer: int | None, tag: int) -> Work:
        _refuse("recv")

    def barrier(self, waits: bool = True) -> Work:
        _refuse("barrier")

    def close(self) -> None:
        pass  # the group's own communicator is ended by the group


def _name(op: Reduction) -> str:
    if isinstance(op, PremultipliedSum):
        _refuse("a sum with factors")
    return op.name.lower()


def _refuse(operation: str) -> NoReturn:
    raise RuntimeError(
        f"{operation} between processes is not an operator and cannot be traced; call it outside of the traced function"
    )
