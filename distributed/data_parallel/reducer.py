"""Gradient averaging over ranks, overlapped with backward (`torch.distributed.Reducer`).

Hooks of the parameters report their gradients. A full bucket is sent at once if all earlier buckets have been
sent, so that all ranks send in the same order. The end of backward waits for the sums.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...autograd import no_grad
from ...dispatch.autograd.graph import know_tasks, queue_callback
from ...dispatch.autograd.node import Edge
from ...runtime.layout import strided
from ..collectives import all_reduce, broadcast
from ..work import DoneWork, Work
from ..work_future import completed_by_waiters
from .buckets import Bucket, compute_bucket_assignment_by_size, is_same_memory
from .grad_bucket import GradBucket
from .reduction_errors import marked_twice, unfinished
from .sparse_gradients import all_reduce_sparse
from .unused_parameters import leaves_below

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor
    from ...runtime.scalar_type import dtype as ScalarType
    from ..process_group import ProcessGroup

__all__ = ["Reducer"]

logger = logging.getLogger(__name__)


SENT_AT_THE_END = 1 << 20
"""Bytes up to which the waiting thread itself sends the last bucket: no other work is left to overlap."""


class Reducer:
    """Reducer that averages the gradients of parameters (`torch.distributed.Reducer`).

    Args:
        params: Parameters that require a gradient.
        bucket_indices: For each bucket, the indices of its parameters.
        process_group: The group.
        expect_sparse_gradients: For each parameter, True if its gradients are sparse.
        bucket_size_limits: Limits in bytes of the buckets that are rebuilt once the order of gradients is
            known.
        find_unused_parameters: If True, search the graph for parameters that a forward does not use.
        gradient_as_bucket_view: If True, each parameter's ``grad`` is a view of its bucket.
        param_names: Names of parameters in errors.
    """

    def __init__(
        self,
        params: Sequence[Tensor],
        bucket_indices: Sequence[Sequence[int]],
        process_group: ProcessGroup,
        expect_sparse_gradients: Sequence[bool],
        bucket_size_limits: Sequence[int],
        find_unused_parameters: bool,
        gradient_as_bucket_view: bool,
        param_names: Mapping[int, str],
    ) -> None:
        know_tasks()
        self.params = list(params)
        self.process_group = process_group
        self.expect_sparse_gradients = list(expect_sparse_gradients)
        self.bucket_size_limits = list(bucket_size_limits)
        self.find_unused_parameters = find_unused_parameters
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.param_names = dict(param_names)
        self.static_graph = False
        self.has_rebuilt_buckets = False
        self.hook: Callable[[Any, GradBucket], Any] | None = None
        self.hook_state: Any = None
        self.finish: Callable[[], None] | None = None
        self._size = process_group.size()
        self._divisor: int | None = None
        self._forward_work: tuple[Work, bool] | None = None
        self._installed: list[Any] = []
        self._expects_hooks = self._requires_finalize = False
        self._next_bucket = 0
        self._ready = bytearray(len(self.params))
        self._used = bytearray(len(self.params))
        self._used_everywhere: Tensor | None = None
        self._used_work: Work | None = None
        self._times: list[int] = [0] * len(self.params)
        self._times_left: list[int] = []
        self._unused: list[int] = []
        self._is_first_static = False
        self._order: list[int] = []
        self._gradient_dtype: ScalarType | None = None
        self._make_buckets(bucket_indices)
        self._handles = [
            param.register_post_accumulate_grad_hook(self._hook_of(index))
            for index, param in enumerate(self.params)
        ]

    def _hook_of(self, index: int) -> Callable[[Tensor], None]:
        take = self._autograd_hook
        return lambda leaf: take(index)

    def _make_buckets(self, bucket_indices: Sequence[Sequence[int]]) -> None:
        self.buckets = [
            Bucket(
                indices,
                [self.params[each] for each in indices],
                self.expect_sparse_gradients[indices[0]],
                self._gradient_dtype,
            )
            for indices in bucket_indices
        ]
        self._positions = {
            index: (bucket, position)
            for bucket in self.buckets
            for position, index in enumerate(bucket.indices)
        }
        if self.gradient_as_bucket_view:
            self._move_gradients()

    def _move_gradients(self) -> None:
        """Move existing gradients into the new buckets."""
        with no_grad():
            for param, (bucket, position) in zip(self.params, self._in_order(), strict=True):
                if param.grad is not None and not bucket.is_sparse and param.grad.layout is strided:
                    bucket.views[position].copy_(param.grad)
                    param.grad = bucket.views[position]

    def _in_order(self) -> list[tuple[Bucket, int]]:
        return [self._positions[index] for index in range(len(self.params))]

    # Start of a step.

    def prepare_for_forward(self) -> None:
        """Begin a step."""

    def prepare_for_backward(self, outputs: Sequence[Tensor] = ()) -> None:
        """Expect gradients.

        Args:
            outputs: what backward will start from, for `find_unused_parameters`; `mark_unused` is told what of it.

        Raises:
            RuntimeError: gradients of the last step are missing.
        """
        self.ensure_prior_reduction_finished()
        self._expects_hooks = True
        self._next_bucket = 0
        self._ready = bytearray(len(self.params))
        for bucket in self.buckets:
            bucket.pending = len(bucket.params)
        if self.static_graph and not self._is_first_static:
            self._times_left = list(self._times)
            self._marks_unused = True
        else:
            self._unused = []
            self._marks_unused = False

    _marks_unused = False
    """True until known unused parameters are marked, at the first gradient."""

    def mark_unused(self, edges: Sequence[Edge]) -> None:
        """Count parameters to which no gradient goes as ready (`prepare_for_backward`'s search).

        Args:
            edges: along which gradients come to the module's graph.
        """
        if not self._expects_hooks:
            return
        reached = leaves_below(edges)
        for index, param in enumerate(self.params):
            if id(param) not in reached and not self._ready[index]:
                self._mark_ready(index)

    def ensure_prior_reduction_finished(self) -> None:
        """Raise RuntimeError if gradients of the last step are missing."""
        if self._requires_finalize:
            raise unfinished(
                self.process_group.rank(),
                [index for index, is_ready in enumerate(self._ready) if not is_ready],
                self.param_names,
                self.static_graph,
                self.find_unused_parameters,
            )

    # Backward.

    def _autograd_hook(self, index: int) -> None:
        """Handle the arrival of a gradient."""
        if (self.find_unused_parameters or self._is_first_static) and self.params[index].grad is not None:
            self._used[index] = 1
        if not self._expects_hooks:
            return
        if self.static_graph:
            if self._is_first_static:
                self._times[index] += 1
                return
            if self._marks_unused:
                self._marks_unused = False
                for unused in self._unused:
                    self._mark_ready(unused)
            self._times_left[index] -= 1
            if self._times_left[index] != 0:
                return
        self._mark_ready(index)

    def _mark_ready(self, index: int) -> None:
        """Count a parameter's gradient as there, and send its bucket if it is the last."""
        if self._ready[index]:
            raise marked_twice(index, self.param_names)
        self._ready[index] = 1
        if not self.has_rebuilt_buckets and self._may_rebuild():
            self._order.append(index)
        self._requires_finalize = True
        bucket, position = self._positions[index]
        if bucket.is_sparse:
            self._take_sparse(bucket, index)
        else:
            self._take(bucket, position, self.params[index])
        bucket.pending -= 1
        if bucket.pending == 0:
            self._send_ready()

    def _may_rebuild(self) -> bool:
        return self.static_graph or not self.find_unused_parameters

    def _take(self, bucket: Bucket, position: int, param: Tensor) -> None:
        """Put a gradient into its bucket; `_scale` divides the small ones."""
        grad, view = param.grad, bucket.views[position]
        if grad is None:
            view.zero_()
            return
        is_divided = self.hook is None and not bucket.is_scaled_whole
        if grad is view or (self.gradient_as_bucket_view and is_same_memory(grad, view)):
            if is_divided:
                view.mul_(1.0 / self._count_of_processes())
            return
        if grad.layout is not strided:
            raise RuntimeError(
                "DistributedDataParallel: expected a dense gradient, but got a sparse one; only parameters of "
                "Embedding and EmbeddingBag with sparse=True may have one"
            )
        if grad.requires_grad:
            warnings.warn(
                "Using DistributedDataParallel with create_graph=True  is not well-supported. The higher-order "
                "gradient will  not be synchronized across ranks, and backpropagation  through all_reduce operations "
                "will not occur. If you require  DDP to work with higher-order gradients for your use case,  please "
                "ping https://github.com/pytorch/pytorch/issues/63929",
                stacklevel=2,
            )
            grad = grad.detach()
        if is_divided and grad.dtype is view.dtype:
            from ...dispatch.generated.functions import mul

            mul(grad, 1.0 / self._count_of_processes(), out=view)
        else:
            view.copy_(grad)
            if is_divided:
                view.mul_(1.0 / self._count_of_processes())
        if self.gradient_as_bucket_view:
            param.grad = view

    def _take_sparse(self, bucket: Bucket, index: int) -> None:
        grad = self.params[index].grad
        if grad is None:
            raise RuntimeError("Expected sparse gradient to be defined.")
        if grad.layout is strided:
            raise RuntimeError("Expected variable to have sparse gradient.")
        bucket.buffer = grad if self.hook is not None else grad * (1.0 / self._count_of_processes())

    def _count_of_processes(self) -> int:
        """Return the divisor of the sums: the number of ranks, or under `join` the number of active ranks."""
        if self._divisor is None:
            self._divisor = self._size
            if self._forward_work is not None:
                work, uses_initial_size = self._forward_work
                if not uses_initial_size:
                    self._divisor = int(work.result()[0].item())
        return self._divisor

    def _send_ready(self) -> None:
        """Send the full buckets that are next in order."""
        buckets = self.buckets
        while self._next_bucket < len(buckets) and buckets[self._next_bucket].pending == 0:
            with no_grad():
                self._send(self._next_bucket)
            self._next_bucket += 1
        if self._next_bucket == len(buckets):
            if self.find_unused_parameters and not self.static_graph:
                self._send_used()
            queue_callback(self._finalize_backward)

    def _send(self, number: int) -> None:
        bucket = self.buckets[number]
        if self.hook is not None:
            with completed_by_waiters():
                bucket.future = self.hook(self.hook_state, GradBucket(bucket, number, len(self.buckets)))
            return
        if bucket.is_scaled_whole:
            bucket.buffer.mul_(1.0 / self._count_of_processes())
        is_followed = number < len(self.buckets) - 1 or self.find_unused_parameters
        if is_followed or bucket.is_sparse or bucket.buffer.nbytes > SENT_AT_THE_END:
            bucket.work = self._reduced(bucket)

    def _reduced(self, bucket: Bucket) -> Work:
        if bucket.is_sparse:
            bucket.buffer = all_reduce_sparse(bucket.buffer, self.process_group)
            return DoneWork([bucket.buffer])
        work = all_reduce(bucket.buffer, group=self.process_group, async_op=True)
        assert work is not None
        return work

    def _send_used(self) -> None:
        """Count the ranks that used each parameter."""
        from ...dispatch.tensor_data import tensor

        device = next((bucket.buffer.device for bucket in self.buckets), None)
        self._used_everywhere = tensor(list(self._used), device=device).int()
        self._used_work = all_reduce(self._used_everywhere, group=self.process_group, async_op=True)

    # How backward ends.

    def _finalize_backward(self) -> None:
        """Wait for the averages, and write them to the parameters' gradients."""
        self._expects_hooks = self._requires_finalize = False
        with no_grad(), completed_by_waiters():
            for bucket in self.buckets:
                self._finish(bucket)
            self._divisor = self._forward_work = None
            installed, self._installed = self._installed, []
            for future in installed:
                future.wait()
        if self._used_work is not None:
            self._used_work.wait()
            self._used_work = None
        if self.find_unused_parameters and not self.static_graph:
            self._used_everywhere = None
            self._used = bytearray(len(self.params))
        if self.finish is not None:
            self.finish()

    def _finish(self, bucket: Bucket) -> None:
        if self.hook is not None:
            value = bucket.future.wait()
            bucket.future = None
            result = value[0] if isinstance(value, list | tuple) else value
        else:
            if bucket.work is None:
                all_reduce(bucket.buffer, group=self.process_group)
            else:
                bucket.work.wait()
                bucket.work = None
            result = bucket.buffer
        if bucket.is_sparse:
            bucket.params[0].grad = result
            bucket.buffer = None
            return
        views = bucket.views if result is bucket.buffer else bucket.views_of(result)
        watches = self.static_graph or self.find_unused_parameters
        as_view = self.gradient_as_bucket_view
        for position, (index, view) in enumerate(zip(bucket.indices, views, strict=True)):
            if watches and not self._used[index] and self._is_unused_everywhere(index):
                continue
            bucket.give(position, view, as_view)

    def _is_unused_everywhere(self, index: int) -> bool:
        if self._used_work is not None:
            self._used_work.wait()
            self._used_work = None
            assert self._used_everywhere is not None
            self._used = bytearray(int(each > 0) for each in self._used_everywhere.tolist())
        return not self._used[index]

    # A graph that stays as it is.

    def _set_static_graph(self) -> None:
        """Expect that each backward uses the parameters as the first one does."""
        self.static_graph = self._is_first_static = True

    def _delay_all_reduce(self) -> None:
        """Send all gradients at the end of the first backward of a static graph."""
        self._send_used()
        self._unused = [index for index, times in enumerate(self._times) if not times]
        self._requires_finalize = True
        with no_grad():
            for index, param in enumerate(self.params):
                self._ready[index] = 1
                self._order.append(index)
                bucket, position = self._positions[index]
                if bucket.is_sparse:
                    self._take_sparse(bucket, index)
                else:
                    self._take(bucket, position, param)
            for number in range(len(self.buckets)):
                self._send(number)
            self._finalize_backward()
        self._is_first_static = False

    # Buckets in the order in which gradients come.

    def _rebuild_buckets(self) -> bool:
        """Put parameters together in the order in which gradients came, once; the order is that of process 0.

        Raises:
            RuntimeError: gradients of the last step are missing.
        """
        if self.has_rebuilt_buckets or not self._order or not self._may_rebuild():
            self.ensure_prior_reduction_finished()
            return False
        self.ensure_prior_reduction_finished()
        from ...dispatch.tensor_data import tensor

        has_host = "cpu" in self.process_group.backends.device_backend_map
        with no_grad():
            order = tensor(self._order, device="cpu" if has_host else self.params[0].device)
            broadcast(order, group=self.process_group, group_src=0)
            numbers = order.tolist()
        indices, _ = compute_bucket_assignment_by_size(
            [self.params[each] for each in numbers],
            self.bucket_size_limits,
            self.expect_sparse_gradients,
            numbers,
        )
        self.has_rebuilt_buckets = True
        self._order = []
        self._make_buckets(indices)
        return True

    def _push_all_rebuilt_params(self) -> None:
        """Under `join`: a process without inputs knows no order, and says its parameters' own."""
        if not self.has_rebuilt_buckets and self._may_rebuild():
            self._order = list(range(len(self.params)))

    # Hooks, and processes without inputs.

    def register_comm_hook(self, state: Any, hook: Callable[[Any, GradBucket], Any]) -> None:
        """Have a function reduce the buckets (`torch.distributed._register_comm_hook`).

        Raises:
            RuntimeError: there is one already.
        """
        if self.hook is not None:
            raise RuntimeError("register_comm_hook or register_builtin_comm_hook can only be called once.")
        self.hook, self.hook_state = hook, state

    def _get_zeros_like_grad_buckets(self) -> list[GradBucket]:
        """Buckets of zeros, for a process without inputs."""
        count = len(self.buckets)
        return [GradBucket(each, number, count, each.zeros()) for number, each in enumerate(self.buckets)]

    def _run_comm_hook(self, grad_bucket: GradBucket) -> Any:
        """Start the reduction of a bucket, and return the work or future to wait for."""
        with no_grad(), completed_by_waiters():
            if self.hook is not None:
                return self.hook(self.hook_state, grad_bucket)
            if grad_bucket._bucket.is_sparse:
                return DoneWork([all_reduce_sparse(grad_bucket.buffer(), self.process_group)])
            return all_reduce(grad_bucket.buffer(), group=self.process_group, async_op=True)

    def _get_local_used_map(self) -> Tensor:
        """For each parameter, whether this step used it."""
        from ...dispatch.tensor_data import tensor

        return tensor(list(self._used), device=self.params[0].device).int()

    def _set_forward_pass_work_handle(self, work: Work, use_static_world_size: bool) -> None:
        """Set the work that counts active ranks under `join`."""
        self._forward_work = work, use_static_world_size

    def _install_post_backward_futures(self, futures: Sequence[Any]) -> None:
        """Wait for these, too, at the end of backward."""
        self._installed += futures

    def _set_mixed_precision_param_dtype(self, dtype: ScalarType) -> None:
        """Have gradients of another dtype than the parameters'."""
        self._gradient_dtype = dtype
        self._make_buckets([bucket.indices for bucket in self.buckets])

    def _check_reducer_finalized(self) -> None:
        """Raise RuntimeError if gradients of the last step are missing."""
        self.ensure_prior_reduction_finished()

    def _remove_autograd_hooks(self) -> None:
        """Stop averaging gradients."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _reset_state(self) -> None:
        """Reset the state of a step, and the order of gradients."""
        self._requires_finalize = self._expects_hooks = False
        self.has_rebuilt_buckets = False
        self._order = []
        self._divisor = self._forward_work = None

    def _update_process_group(self, new_process_group: ProcessGroup) -> None:
        """Average over other processes from now on."""
        self.process_group, self._size = new_process_group, new_process_group.size()
