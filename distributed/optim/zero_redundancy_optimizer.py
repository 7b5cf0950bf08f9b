"""An optimizer whose state is divided among processes (`torch.distributed.optim.ZeroRedundancyOptimizer`).

Source: Rajbhandari, Rasley, Ruwase and He, "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models",
2020, stage 1: each process steps a part of the parameters, and gets the others from those that step them.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

from ...autograd import no_grad
from ...dispatch.tensor import Tensor
from ...optim.optimizer import Optimizer
from ..algorithms.join import Join, Joinable, JoinHook, _JoinConfig
from ..collectives import broadcast
from ..data_parallel.module_states import broadcast_coalesced
from ..groups import group_or_default
from ..object_collectives import gather_object

if TYPE_CHECKING:
    from ...runtime.device import device as Device
    from ..process_group import ProcessGroup

__all__ = ["ZeroRedundancyOptimizer"]

logger = logging.getLogger(__name__)

BROADCAST_BYTES = 25 << 20
"""Bytes up to which parameters of one process are sent together."""


class _ZeroJoinHook(JoinHook):
    """Hook that runs steps without gradients, for ranks without further batches."""

    def __init__(self, optimizer: ZeroRedundancyOptimizer) -> None:
        self.optimizer = optimizer

    def main_hook(self) -> None:
        """Step this process's part, and take the others'."""
        self.optimizer.step()


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """An optimizer of which each process has a part (`torch.distributed.optim.ZeroRedundancyOptimizer`).

    Parameters are given to processes by size, the largest first to the one that has least. A step steps this process's
    and sends them to all. Gradients must be the same in all processes, as `DistributedDataParallel` makes them.

    Args:
        params: the parameters, or groups of them in dicts.
        optimizer_class: makes an optimizer of a part.
        process_group: The group. None means all ranks.
        parameters_as_bucket_view: If True, each rank's parameters are views of a flat buffer, which is sent
            without a copy.
        overlap_with_ddp: is not supported.
        defaults: arguments of `optimizer_class`.

    Raises:
        TypeError, ValueError: `params` are no tensors or dicts, there are none, or some are sparse.
        NotImplementedError: `overlap_with_ddp` is asked for.

    Example:
        >>> import triten as tt
        >>> from triten import distributed as dist
        >>> dist.init_process_group("mpi", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = tt.ones(2, requires_grad=True)
        >>> optimizer = dist.optim.ZeroRedundancyOptimizer([x], tt.optim.SGD, lr=0.5)
        >>> x.sum().backward(); optimizer.step(); x
        tensor([0.5000, 0.5000], requires_grad=True)
        >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        params: Any,
        optimizer_class: type[Optimizer],
        process_group: ProcessGroup | None = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        if overlap_with_ddp:
            raise NotImplementedError(
                "ZeroRedundancyOptimizer: overlap_with_ddp=True is not supported; without it, step() follows backward"
            )
        groups, self._all_params = _checked(params)
        self.process_group = group_or_default(process_group)
        self.world_size, self.rank = self.process_group.size(), self.process_group.rank()
        self.initialized = False
        self._join_config = _JoinConfig.construct_disabled_join_config()
        self._partition: list[list[dict[str, Any]]] = []
        self._all_state_dicts: list[dict[str, Any]] = []
        self._lines: list[list[Tensor]] = []
        Optimizer.__init__(self, groups, defaults)
        self._default_device = self._all_params[0].device
        self._trainable = [each.requires_grad for each in self._all_params]
        self.parameters_as_bucket_view = parameters_as_bucket_view
        self.optim: Optimizer = optimizer_class(
            self._partition_parameters()[self.rank],
            **defaults,
        )
        # Copy keys that the optimizer's class adds to its groups into our groups.
        for ours, theirs in zip(self.param_groups, self.optim.param_groups, strict=True):
            for key, value in theirs.items():
                ours.setdefault(key, value)
        self._build_param_buckets()
        self.initialized = True

    # Whose are which parameters.

    def _partition_parameters(self) -> list[list[dict[str, Any]]]:
        """For each process, its groups of parameters."""
        if not self._partition:
            self._partition = [[] for _ in range(self.world_size)]
            sizes = [0] * self.world_size
            for group in self.param_groups:
                parts: list[list[Tensor]] = [[] for _ in range(self.world_size)]
                for param in sorted(group["params"], key=lambda each: each.numel(), reverse=True):
                    rank = sizes.index(min(sizes))
                    parts[rank].append(param)
                    sizes[rank] += param.numel()
                for rank, part in enumerate(parts):
                    self._partition[rank].append({**group, "params": part})
        return self._partition

    def _params_of(self, rank: int) -> list[Tensor]:
        return [each for group in self._partition_parameters()[rank] for each in group["params"]]

    def _build_param_buckets(self) -> None:
        """Put the parameters of each process that are trained into one line for each dtype and device."""
        self._lines = []
        if not self.parameters_as_bucket_view:
            return
        with no_grad():
            for rank in range(self.world_size):
                kinds: dict[Any, list[Tensor]] = {}
                for param in self._params_of(rank):
                    if param.requires_grad:
                        kinds.setdefault((param.dtype, param.device), []).append(param)
                    else:
                        param.data = param.data.clone()
                self._lines.append([_as_views(params) for params in kinds.values()])

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters, and divide all of them anew.

        The parts of other groups stay what they are, since the new parameters go where there is least.

        Args:
            param_group: Parameter group, as for any optimizer.
        """
        super().add_param_group(param_group)
        if not self.initialized:
            return
        added = self.param_groups[-1]["params"]
        self._all_params += added
        self._trainable += [each.requires_grad for each in added]
        self._partition = []
        self.optim.add_param_group(self._partition_parameters()[self.rank][-1])
        self._build_param_buckets()

    # A step.

    def step(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> Any:
        """Step this process's parameters, and get the others.

        Args:
            closure: computes the loss again, as for the optimizer's own `step`.
            kwargs: for the optimizer's `step`.

        Returns:
            What its `step` returned.
        """
        Join.notify_join_context(self)
        trainable = [each.requires_grad for each in self._all_params]
        if trainable != self._trainable:
            self._trainable = trainable
            self._build_param_buckets()
        _copy_options(self.param_groups, self.optim.param_groups)
        loss = self.optim.step(**kwargs) if closure is None else self.optim.step(closure=closure, **kwargs)
        _copy_options(self.optim.param_groups, self.param_groups)
        self._sync_params()
        return loss

    def _sync_params(self) -> None:
        """Send this process's parameters, and get the others."""
        with no_grad():
            for rank in range(self.world_size):
                if self.parameters_as_bucket_view:
                    for line in self._lines[rank]:
                        broadcast(line, group=self.process_group, group_src=rank)
                else:
                    several = [each.detach() for each in self._params_of(rank)]
                    broadcast_coalesced(self.process_group, several, BROADCAST_BYTES, rank)

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Return the hook that runs on a rank without batches."""
        return _ZeroJoinHook(self)

    @property
    def join_device(self) -> Device:
        """Device of the first parameter."""
        return self._default_device

    @property
    def join_process_group(self) -> Any:
        """The processes."""
        return self.process_group

    # States.

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Bring the states of all processes together, where `state_dict` finds them. All processes call it.

        Args:
            to: Rank in the group that gets the states.
        """
        _copy_options(self.param_groups, self.optim.param_groups)
        own = _on_device(self.optim.state_dict(), "cpu")
        states: list[Any] | None = [None] * self.world_size if self.rank == to else None
        gather_object(own, states, group=self.process_group, group_dst=to)
        self._all_state_dicts = states or []

    def state_dict(self) -> dict[str, Any]:
        """Return the state of all parameters, as the optimizer's own class would.

        Raises:
            RuntimeError: `consolidate_state_dict` has not brought it to this process.
        """
        if not self._all_state_dicts:
            raise RuntimeError(
                "Optimizer state has not been consolidated on this rank. Please call "
                f"`consolidate_state_dict(to={self.rank})` on all ranks beforehand if you meant to save the global "
                "state."
            )
        result = super().state_dict()
        numbers = {id(each): number for number, each in enumerate(self._in_groups())}
        state = dict(result["state"])
        for rank, local in enumerate(self._all_state_dicts):
            for group, own in zip(local["param_groups"], self._partition_parameters()[rank], strict=True):
                for local_index, param in zip(group["params"], own["params"], strict=True):
                    if local_index in local["state"]:
                        state[numbers[id(param)]] = local["state"][local_index]
        result["state"] = dict(sorted(state.items()))
        return result

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the state of all parameters, of which each process keeps its part.

        Args:
            state_dict: what `state_dict` gave here, or that of an optimizer of `optimizer_class`.
        """
        own = {id(each) for each in self._params_of(self.rank)}
        params = self._in_groups()
        for number, value in state_dict["state"].items():
            param = params[number]
            if id(param) not in own:
                continue
            state = {
                name: each.cpu()
                if isinstance(each, Tensor) and each.ndim == 0
                else _on_device(each, param.device)
                for name, each in value.items()
            }
            self.optim.state[param] = state
        super().load_state_dict({**state_dict, "state": {}})
        _copy_options(state_dict["param_groups"], self.param_groups)
        _copy_options(self.param_groups, self.optim.param_groups)

    def _in_groups(self) -> list[Tensor]:
        return list(chain.from_iterable(group["params"] for group in self.param_groups))


def _checked(params: Any) -> tuple[list[Any], list[Tensor]]:
    """Return the parameters or groups, and all parameters. Raise TypeError or ValueError for anything else."""
    if isinstance(params, Tensor):
        raise TypeError("`params` argument should be an iterable of Tensors, but got Tensor")
    try:
        groups = list(params)
    except TypeError:
        raise TypeError(
            f"`params` argument should be an iterable of Tensors or dicts, but got {type(params).__name__}"
        ) from None
    if not groups:
        raise ValueError("ZeroRedundancyOptimizer got an empty parameter list")
    if all(isinstance(each, Tensor) for each in groups):
        several = list(groups)
    elif all(isinstance(each, dict) for each in groups):
        several = []
        for index, group in enumerate(groups):
            if "params" not in group:
                raise ValueError(
                    "Each parameter group passed-in via `params` must have a 'params' key mapping to the parameters in "
                    "the group"
                )
            groups[index] = group = copy.copy(group)
            group_params = group["params"]
            group["params"] = [group_params] if isinstance(group_params, Tensor) else list(group_params)
            several += group["params"]
    else:
        raise TypeError("`params` argument should be an iterable of Tensors or dicts")
    for each in several:
        if each.is_sparse:
            raise ValueError(
                "ZeroRedundancyOptimizer only supports using the same dense type for all parameters but got a sparse "
                "tensor"
            )
    return groups, several


def _as_views(params: list[Tensor]) -> Tensor:
    """Copy parameters into a flat buffer, and make them views of it."""
    first = params[0]
    line = first.new_empty(sum(each.numel() for each in params))
    offset = 0
    for each in params:
        part = line[offset : offset + each.numel()].view(each.shape)
        part.copy_(each.detach())
        each.data = part
        offset += each.numel()
    return line


def _copy_options(source: list[dict[str, Any]], target: list[dict[str, Any]]) -> None:
    """Copy the options of groups, such as learning rates, to other groups."""
    for source_group, target_group in zip(source, target, strict=True):
        target_group.update({key: value for key, value in source_group.items() if key != "params"})


def _on_device(value: Any, device: Any) -> Any:
    """Move the tensors of a nested value to a device."""
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, (list, tuple)):
        several = [_on_device(each, device) for each in value]
        return several if isinstance(value, list) else tuple(several)
    if isinstance(value, Mapping):
        return {key: _on_device(each, device) for key, each in value.items()}
    return value
