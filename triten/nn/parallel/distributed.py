"""`DistributedDataParallel`: distributed training of one module (`torch.nn.parallel.DistributedDataParallel`)."""

from __future__ import annotations

import copy
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import Any

from ...dispatch.layers.pytree import tree_flatten, tree_unflatten
from ...dispatch.tensor import Tensor
from ...distributed.algorithms.join import Join, _JoinConfig
from ...distributed.data_parallel.buckets import NO_LIMIT, compute_bucket_assignment_by_size
from ...distributed.data_parallel.module_states import (
    sync_module_states,
    verify_param_shape_across_processes,
)
from ...distributed.data_parallel.reducer import Reducer
from ...distributed.groups import group_or_default
from ...distributed.process_group import ProcessGroup
from ...runtime.device import device as Device
from ...runtime.grad_mode import is_grad_enabled
from ..modules.module import Module
from ..modules.sparse import Embedding, EmbeddingBag
from ..parameter import UninitializedParameter
from .communication_hook import check_comm_hook
from .delayed_reduction import DelayedReduction
from .distributed_join import JoinableModule
from .graph_sink import DDPSink
from .low_precision import LowPrecision
from .low_precision import _MixedPrecision as _MixedPrecision
from .scatter_gather import gather, moved, scatter_kwargs
from .synced_buffers import SyncedBuffers

__all__ = ["DistributedDataParallel"]

DEFAULT_BUCKET_CAP_MB = 25
FIRST_BUCKET_BYTES = 1 << 20
BROADCAST_BUCKET_BYTES = 250 << 20


class DistributedDataParallel(SyncedBuffers, JoinableModule, Module):
    """Distributed data parallelism: averages gradients over processes (`torch.nn.parallel.DistributedDataParallel`).

    Each process makes the same module and calls it with inputs of its own. Parameters and buffers become those of
    process 0 first; then each backward puts averages of all processes' gradients into ``grad``, which are sent in
    buckets while backward goes on. So optimizers that do the same in all processes keep the parameters equal.

    Args:
        module: is called; it stays reachable as ``module``.
        device_ids: the GPU that the module is on, to which inputs are moved; None on the CPU.
        output_device: the same.
        dim: kept for `scatter` and `gather`.
        broadcast_buffers: If True, buffers of process 0 are sent to all, here and before each forward.
        init_sync: If True, parameters are compared and sent here. Default: True.
        process_group: the processes; None for all.
        bucket_cap_mb: The size of a bucket in MiB. Default: 25, with a first bucket of 1 MiB.
        find_unused_parameters: If True, a forward may use some parameters only; those that none used keep ``grad``.
            Default: False.
        check_reduction: has no effect.
        gradient_as_bucket_view: If True, ``grad`` is a view of its bucket, which saves a copy and its memory.
            Default: False.
        static_graph: If True, each backward uses parameters as the first one does. Default: False.
        delay_all_reduce_named_params: names and parameters whose gradients are averaged together,
        param_to_hook_all_reduce: when this parameter's gradient is there.
        mixed_precision: dtypes in which the module computes and gradients travel.
        device_mesh: a mesh of one dimension instead of `process_group`.
        skip_all_reduce_unused_params: has no effect.
        bucket_cap_mb_list: MiB for each bucket, instead of `bucket_cap_mb`.
        batched_grad_copy: has no effect.
        forward_sync_buffers: `broadcast_buffers` for forward alone; here, they are sent then.

    Raises:
        RuntimeError: no parameter requires grad, or the processes' parameters are not of the same shapes.
        ValueError: there is no process group, or `device_ids` do not fit the module.

    Example:
        >>> import triten as tt
        >>> from triten import distributed as dist
        >>> dist.init_process_group("mpi", store=dist.HashStore(), rank=0, world_size=1)
        >>> model = tt.nn.parallel.DistributedDataParallel(tt.nn.Linear(2, 1, bias=False))
        >>> model(tt.ones(3, 2)).mean().backward()
        >>> model.module.weight.grad
        tensor([[1., 1.]])
        >>> dist.destroy_process_group()
    """

    reducer: Reducer
    module: Module

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[int | Device | str] | None = None,
        output_device: int | Device | str | None = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: ProcessGroup | None = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Iterable[tuple[str, Tensor]] | None = None,
        param_to_hook_all_reduce: Tensor | None = None,
        mixed_precision: _MixedPrecision | None = None,
        device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
        bucket_cap_mb_list: Sequence[float] | None = None,
        batched_grad_copy: bool = False,
        forward_sync_buffers: bool | None = None,
    ) -> None:
        Module.__init__(self)
        self._join_config = _JoinConfig.construct_disabled_join_config()
        if (delay_all_reduce_named_params is None) != (param_to_hook_all_reduce is None):
            raise ValueError(
                "delay_all_reduce_named_params and param_to_hook_all_reduce need to be set at the same time."
            )
        if process_group is not None and device_mesh is not None:
            raise RuntimeError("Cannot specify both process_group and device_mesh arguments.")
        if device_mesh is not None:
            if device_mesh.ndim != 1:
                raise RuntimeError(f"Only 1D device mesh is supported, but got {device_mesh}.")
            self.device_mesh = device_mesh
            process_group = device_mesh.get_group(mesh_dim=0)
        self.process_group = group_or_default(process_group)
        delayed = list(delay_all_reduce_named_params or ())
        self.parameters_to_ignore: set[str] = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        self.parameters_to_ignore.update(name for name, _ in delayed)
        parameters = [
            each for name, each in module.named_parameters() if name not in self.parameters_to_ignore
        ]
        self._module_parameters = parameters
        if any(isinstance(each, UninitializedParameter) for each in module.parameters()):
            raise RuntimeError(
                "Modules with uninitialized parameters can't be used with `DistributedDataParallel`. "
                "Run a dummy forward pass to correctly initialize the modules"
            )
        if not delayed and not any(each.requires_grad for each in parameters):
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter that requires a "
                "gradient."
            )
        self._set_devices([*parameters, *(each for _, each in delayed)], device_ids, output_device)
        self.dim = dim
        self.module = module
        if forward_sync_buffers is not None and broadcast_buffers is not None:
            warnings.warn(
                "Both `broadcast_buffers` and `forward_sync_buffers` were specified. `broadcast_buffers` is deprecated "
                "and its value is ignored when `forward_sync_buffers` is provided.",
                FutureWarning,
                stacklevel=2,
            )
        sends_buffers = broadcast_buffers is None or broadcast_buffers
        self.forward_sync_buffers = sends_buffers if forward_sync_buffers is None else forward_sync_buffers
        self.find_unused_parameters = find_unused_parameters
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.mixed_precision = mixed_precision
        self.static_graph = False
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        self.broadcast_bucket_size = BROADCAST_BUCKET_BYTES
        self._set_bucket_sizes(bucket_cap_mb, bucket_cap_mb_list)
        self._divide_by_initial_world_size = True
        self._ddp_sink_clone = True
        self._static_graph_delay_allreduce_enqueued = False
        self._buffer_hook: tuple[Any, Callable[..., Any], bool] | None = None
        self._comm_hooks: list[tuple[Callable[..., Any], object]] = []
        self._low_precision: LowPrecision | None = None
        self._delayed: DelayedReduction | None = None
        if delayed:
            assert param_to_hook_all_reduce is not None
            self._delayed = DelayedReduction(
                self.process_group, [each for _, each in delayed], param_to_hook_all_reduce
            )
        self._assign_modules_buffers()
        reduced, names, is_sparse = self._build_params_for_reducer()
        if init_sync:
            verify_param_shape_across_processes(self.process_group, reduced, names)
            sync_module_states(
                module,
                self.process_group,
                self.broadcast_bucket_size,
                0,
                self.parameters_to_ignore,
                sends_buffers or forward_sync_buffers is not None,
            )
        self._make_reducer(reduced, names, is_sparse, static_graph)
        if mixed_precision is not None:
            self._low_precision = LowPrecision(self, mixed_precision)
        if static_graph:
            self._set_static_graph()

    def _set_devices(self, parameters: Sequence[Tensor], device_ids: Any, output_device: Any) -> None:
        devices = {each.device for each in parameters}
        if device_ids is not None and len(device_ids) > 1:
            raise ValueError("device_ids can only be None or contain a single element.")
        kinds = {each.type for each in devices}
        if len(kinds) != 1:
            raise ValueError(
                "DistributedDataParallel's input module must be on the same type of devices, but input module "
                f"parameters locate in {kinds}."
            )
        self.device_type = next(iter(kinds))
        self.device = parameters[0].device
        self.is_multi_device_module = len(devices) > 1
        self.device_ids: list[int] | None = None
        self.output_device: int | None = None
        if not device_ids or self.device_type == "cpu" or self.is_multi_device_module:
            if device_ids or output_device:
                raise ValueError(
                    "DistributedDataParallel device_ids and output_device arguments only work with "
                    "single-device/multiple-device GPU modules or CPU modules, but got device_ids "
                    f"{device_ids}, output_device {output_device}, and module parameters {devices}."
                )
            return
        self.device_ids = [_index(device_ids[0])]
        self.output_device = self.device_ids[0] if output_device is None else _index(output_device)

    def _set_bucket_sizes(self, bucket_cap_mb: float | None, each: Sequence[float] | None) -> None:
        if each:
            self._bucket_limits = [int(megabytes * (1 << 20)) for megabytes in each]
            self.bucket_bytes_cap = max(self._bucket_limits)
            return
        cap = DEFAULT_BUCKET_CAP_MB if bucket_cap_mb is None else bucket_cap_mb
        self.bucket_bytes_cap = int(cap * (1 << 20))
        first = FIRST_BUCKET_BYTES if bucket_cap_mb is None else self.bucket_bytes_cap
        self._bucket_limits = [first, self.bucket_bytes_cap]

    def _make_reducer(
        self,
        parameters: Sequence[Tensor],
        names: Sequence[str],
        is_sparse: Sequence[bool],
        static_graph: bool,
    ) -> None:
        is_rebuilt = static_graph or not self.find_unused_parameters
        limits = [NO_LIMIT] if is_rebuilt and len(self._bucket_limits) == 2 else self._bucket_limits
        indices, _ = compute_bucket_assignment_by_size(parameters, limits, is_sparse)
        self.reducer = Reducer(
            parameters,
            indices[::-1],
            self.process_group,
            is_sparse,
            self._bucket_limits,
            self.find_unused_parameters,
            self.gradient_as_bucket_view,
            dict(enumerate(names)),
        )

    def _build_params_for_reducer(self) -> tuple[list[Tensor], list[str], list[bool]]:
        """Return the parameters whose gradients are averaged, their names, and whether their gradients are sparse."""
        entries_by_id: dict[int, tuple[Tensor, str, bool]] = {}
        for prefix, module in self.module.named_modules():
            is_sparse = isinstance(module, (Embedding, EmbeddingBag)) and module.sparse
            for name, parameter in module.named_parameters(recurse=False):
                full = f"{prefix}.{name}" if prefix else name
                if parameter.requires_grad and full not in self.parameters_to_ignore:
                    entries_by_id.setdefault(id(parameter), (parameter, full, is_sparse))
        entries = list(entries_by_id.values())
        return [each[0] for each in entries], [each[1] for each in entries], [each[2] for each in entries]

    # Copies and pickles.

    def _check_default_group(self) -> None:
        if self.process_group is not group_or_default(None):
            raise RuntimeError(
                "DDP Pickling/Unpickling are only supported when using DDP with the default process group. That is, "
                "when you have called init_process_group and have not passed process_group argument to DDP constructor"
            )

    def __getstate__(self) -> dict[str, Any]:
        self._check_default_group()
        state = copy.copy(self.__dict__)
        for name in ("process_group", "reducer"):
            state.pop(name, None)
        state["broadcast_buffers"] = self.forward_sync_buffers
        return state

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.process_group = group_or_default(None)
        super().__setstate__(state)
        self.__dict__.setdefault("require_forward_param_sync", True)
        self.__dict__.setdefault("require_backward_grad_sync", True)
        self.__dict__.setdefault("forward_sync_buffers", self.__dict__.pop("broadcast_buffers", True))
        self.__dict__.pop("broadcast_buffers", None)
        self._make_reducer(*self._build_params_for_reducer(), self.static_graph)
        if self.static_graph:
            self._static_graph_delay_allreduce_enqueued = False
            self.reducer._set_static_graph()

    # A step.

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Disable gradient synchronization for forwards inside the block.

        Backward of these forwards accumulates gradients locally. The first backward of a later forward averages the
        accumulated gradients.

        Example:
            >>> import triten as tt
            >>> from triten import distributed as dist
            >>> dist.init_process_group("mpi", store=dist.HashStore(), rank=0, world_size=1)
            >>> model = tt.nn.parallel.DistributedDataParallel(tt.nn.Linear(1, 1))
            >>> with model.no_sync():
            ...     model(tt.ones(1)).sum().backward()  # nothing is sent
            >>> model(tt.ones(1)).sum().backward()  # the sum of both is averaged
            >>> dist.destroy_process_group()
        """
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Call the module."""
        inputs, kwargs = self._pre_forward(inputs, kwargs)
        return self._post_forward(self.module(*inputs, **kwargs))

    def _pre_forward(self, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        is_recorded = is_grad_enabled()
        if self._join_config.enable:
            work = Join.notify_join_context(self)
            if work is not None:
                self.reducer._set_forward_pass_work_handle(work, self._divide_by_initial_world_size)
        if is_recorded and not self.reducer.has_rebuilt_buckets:
            self.reducer._rebuild_buckets()
        if self.modules_buffers and self._syncs_buffers(after=False):
            self._sync_buffers()
        if self._join_config.enable:
            self._check_global_requires_backward_grad_sync(is_joined_rank=False)
        if self.device_ids is not None:
            inputs, kwargs = moved((inputs, kwargs), Device(self.device_type, self.device_ids[0]))
        if self._low_precision is not None:
            inputs, kwargs = self._low_precision.begin(inputs, kwargs)
        return inputs, kwargs

    def _post_forward(self, output: Any) -> Any:
        if self.modules_buffers and self._syncs_buffers(after=True):
            self._sync_buffers()
        if self._delayed is not None:
            self._delayed.prepare()
        if not is_grad_enabled() or not self.require_backward_grad_sync:
            self.require_forward_param_sync = False
            if self._low_precision is not None and not is_grad_enabled():
                self._low_precision.end()
            return output
        self.require_forward_param_sync = True
        self.reducer.prepare_for_backward()
        if self.static_graph:
            if self._static_graph_delay_allreduce_enqueued:
                return output
        elif not self.find_unused_parameters:
            return output
        return self._through_sink(output)

    def _through_sink(self, output: Any) -> Any:
        """Pass the output through the sink, whose gradient tells the reducer that backward begins."""
        if is_dataclass(output) and not isinstance(output, type):
            tensors = {
                each.name: self._through_sink(getattr(output, each.name))
                for each in fields(output)
                if each.init
            }
            return type(output)(**tensors)
        leaves, spec = tree_flatten(output)
        indices = [
            index
            for index, each in enumerate(leaves)
            if isinstance(each, Tensor) and each.grad_fn is not None
        ]
        if indices:
            passed = DDPSink.apply(weakref.ref(self), *[leaves[index] for index in indices])
            for index, tensor in zip(
                indices, passed if isinstance(passed, tuple) else (passed,), strict=True
            ):
                leaves[index] = tensor
        return tree_unflatten(leaves, spec)

    # Hooks, and what programs ask.

    def register_comm_hook(self, state: object, hook: Callable[..., Any]) -> None:
        """Replace the averaging of gradients by a communication hook.

        Args:
            state: the hook's first argument.
            hook: called with `state` and a `tt.distributed.GradBucket`; gives a `tt.futures.Future` of what the buffer
                shall hold. Its futures are waited for at the end of backward, in the order of the buckets.

        Raises:
            TypeError: `hook` cannot be called.
            ValueError: its parameter `bucket` or its result is declared as something else.
            RuntimeError: there is a hook already.

        Example:
            >>> import triten as tt
            >>> from triten import distributed as dist
            >>> from triten.distributed.algorithms.ddp_comm_hooks import default_hooks
            >>> dist.init_process_group("mpi", store=dist.HashStore(), rank=0, world_size=1)
            >>> model = tt.nn.parallel.DistributedDataParallel(tt.nn.Linear(1, 1))
            >>> model.register_comm_hook(None, default_hooks.fp16_compress_hook)
            >>> model(tt.full((1,), 3.0)).backward()
            >>> model.module.weight.grad
            tensor([[3.]])
            >>> dist.destroy_process_group()
        """
        check_comm_hook(hook)
        self.reducer.register_comm_hook(state, hook)
        self._comm_hooks.append((hook, state))

    def _set_static_graph(self) -> None:
        """Expect that each backward uses parameters as the first one does."""
        if self.static_graph:
            warnings.warn("You've set static_graph to be True, no need to set it again.", stacklevel=2)
            return
        self.static_graph = True
        self._static_graph_delay_allreduce_enqueued = False
        self.reducer._set_static_graph()
        if self.find_unused_parameters:
            warnings.warn(
                "You passed find_unused_parameters=true to DistributedDataParallel, `_set_static_graph` will detect "
                "unused parameters automatically, so you do not need to set find_unused_parameters=true, just be sure "
                "these unused parameters will not change during training loop while calling `_set_static_graph`.",
                stacklevel=2,
            )

    def _set_ddp_sink_clone(self, val: bool) -> None:
        """Set whether outputs are cloned, so that the caller may write to them in-place."""
        self._ddp_sink_clone = val

    def _check_reducer_finalized(self) -> None:
        """Raise RuntimeError if gradients of the last backward are missing."""
        self.reducer._check_reducer_finalized()

    def _remove_autograd_hooks(self) -> None:
        """Stop averaging gradients."""
        self.reducer._remove_autograd_hooks()

    def _update_process_group(self, new_process_group: ProcessGroup) -> None:
        """Average over other processes from now on."""
        self.reducer._reset_state()
        self.process_group = new_process_group
        self.reducer._update_process_group(new_process_group)

    @staticmethod
    def _get_data_parallel_params(module: Module, named_params: bool = False) -> Iterator[Any]:
        """Yield the parameters that are not ignored, with their names if `named_params`."""
        for name, param in module.named_parameters():
            if not hasattr(param, "_ddp_ignored"):
                yield (name, param) if named_params else param

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(
        module: Module, params_and_buffers_to_ignore: Iterable[str]
    ) -> None:
        """Leave parameters and buffers of a module to each process, by their full names."""
        names = list(params_and_buffers_to_ignore)
        module._ddp_params_and_buffers_to_ignore = names
        for name, each in [*module.named_parameters(), *module.named_buffers()]:
            if name in names:
                each._ddp_ignored = True  # type: ignore[attr-defined]

    def scatter(self, inputs: Any, kwargs: Any, device_ids: Sequence[int]) -> Any:
        """Divide inputs among devices."""
        return scatter_kwargs(inputs, kwargs, device_ids, dim=self.dim)

    def gather(self, outputs: Any, output_device: int | Device) -> Any:
        """Concatenate outputs on a device."""
        return gather(outputs, output_device, dim=self.dim)


def _index(device: int | Device | str) -> int:
    return device if isinstance(device, int) else Device(device).index or 0
