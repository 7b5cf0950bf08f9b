"""Parameters that are gathered, freed and reduced together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Any

from ...autograd import Function
from ...dispatch.autograd.graph import current_task
from ...dispatch.tensor import Tensor
from ...nn.modules.parameter import Parameter
from ...runtime.device import device as Device
from ...runtime.grad_mode import is_grad_enabled
from ...runtime.scalar_type import dtype as ScalarType
from ..process_group import ProcessGroup
from .communication import AllGather, Lanes, ReduceScatter
from .freed import Buffer
from .gathering import Gathering, begin_gathering
from .nested_tensors import map_tensors, tensors_of
from .policies import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy
from .reduction import GradientReduction, ReductionPlan
from .sharded_parameter import ParameterLocation, ShardedParameter, ShardedState, ShardPlacement
from .sharding_mesh import ShardingMesh

if TYPE_CHECKING:
    from ...nn.modules.module import Module

__all__ = ["Communications", "ParameterGroup", "Pass"]


class Pass(Enum):
    """Pass that a group is running."""

    IDLE = "idle"
    FORWARD = "forward"
    PRE_BACKWARD = "backward"
    POST_BACKWARD = "after backward"


class Communications:
    """Communication state shared by the groups of one root module.

    Attributes:
        lanes: The lanes of communications.
        reductions: Reductions whose results are not yet in the gradients.
        forward_order: Groups in the order in which their forwards have ended since the last backward.
        max_inputs: Maximum number of reductions whose whole gradients are in memory.
    """

    def __init__(self, device: Device) -> None:
        self.lanes = Lanes(device)
        self.reductions: list[GradientReduction] = []
        self.forward_order: list[ParameterGroup] = []
        self.max_inputs = 1

    def make_room(self) -> None:
        """Wait for reductions until another reduction's whole gradients may be allocated."""
        held = [each for each in self.reductions if each.holds_input]
        for each in held[: max(len(held) - self.max_inputs + 1, 0)]:
            each.release_input()

    def finish(self) -> None:
        """Wait for all reductions."""
        for each in self.reductions:
            each.finish()
        self.reductions.clear()


class ParameterGroup:
    """The parameters of a module, or of several, that communicate together.

    Args:
        parameters: the parameters.
        modules: whose they are.
        sharding: among whom they are sharded.
        after_forward: among whom between forward and backward; None where they stay whole.
        device: where they are computed with.
        shard_placement_fn: says along which dimension each is sharded.
        mp_policy: in which dtypes.
        offload_policy: where the shards lie.
    """

    def __init__(
        self,
        parameters: Sequence[Parameter],
        modules: Sequence[Module],
        sharding: ShardingMesh,
        after_forward: ShardingMesh | None,
        device: Device,
        shard_placement_fn: ShardPlacement | None,
        mp_policy: MixedPrecisionPolicy,
        offload_policy: OffloadPolicy,
    ) -> None:
        self.modules = tuple(modules)
        self.sharding, self.after_forward = sharding, after_forward
        self.device = device
        self.mp_policy, self.offload_policy = mp_policy, offload_policy
        self.parameters = [
            ShardedParameter(parameter, location, sharding, device, shard_placement_fn, offload_policy)
            for parameter, location in zip(parameters, locations_of(parameters, modules), strict=True)
        ]
        self.state = ShardedState.SHARDED
        self.now = Pass.IDLE
        self.name: str | None = None
        self.communications = Communications(device)
        # Options set by `FSDPModule`.
        self.reduces_grads = self.reduces_replicas = True
        self.reshards_after_backward = self.unshards_in_backward = True
        self.gradient_divide_factor: float | None = None
        self.only_sums = self.reduces_unused = self.unshards_async = False
        self.max_inputs = 1
        self.all_gather: AllGather | None = None
        self.reduce_scatter: ReduceScatter | None = None
        self.scatter_group: ProcessGroup | None = None
        self.reduced_hook: Callable[[Tensor], None] | None = None
        self._gathering: Gathering | None = None
        self._buffers: dict[ScalarType, Buffer] = {}
        self._reduction: GradientReduction | None = None
        self._partial: Tensor | None = None
        self._order: list[int] = []
        self._is_ready = self._has_hooks = False
        self._reduce_dtype: ScalarType | None = None

    def prepare(self) -> None:
        """Settle what the module's state decides: once it is where it will be used.

        Raises:
            RuntimeError: parameters are on the meta device still, or not on the CPU where they are to be offloaded.
            ValueError: trainable parameters have several dtypes.
        """
        if self.state is ShardedState.SHARDED and not self._is_ready:
            for each in self.parameters:
                each.reset()
            self._is_ready = True
        absent = [each.name for each in self.parameters if each.sharded.device.type == "meta"]
        if absent:
            raise RuntimeError(
                "FSDP parameters should be materialized from meta device before training, but the following were still "
                f"on meta device: {absent}\nFor example, call module.to_empty(device=...) to materialize to device and "
                "call module.reset_parameters() on each module to initialize values."
            )
        if isinstance(self.offload_policy, CPUOffloadPolicy):
            elsewhere = [
                (each.name, each.sharded.device)
                for each in self.parameters
                if each.sharded.device.type != "cpu"
            ]
            if elsewhere:
                raise RuntimeError(
                    "FSDP parameters should be materialized on CPU when enabling CPU offloading. For example, load a "
                    'CPU state dict or call module.to_empty(device="cpu"). Found following parameters on non-CPU '
                    f"device: {elsewhere}"
                )
        for each in self.parameters:
            each.choose_dtypes(self.mp_policy)
        trained = [each for each in self.parameters if each.sharded.requires_grad]
        dtypes = {each.dtype for each in trained}
        if len(dtypes) > 1:
            raise ValueError(
                f"FSDP expects uniform original parameter dtype but got {sorted(map(str, dtypes))}"
            )
        self._reduce_dtype = trained[0].reduce_dtype if trained else None
        self._register_hooks()

    def _register_hooks(self) -> None:
        if self._has_hooks:
            return
        self._has_hooks = True
        for module in {id(each.location.module): each.location.module for each in self.parameters}.values():
            module.register_state_dict_pre_hook(lambda *_: self.shard())
            module.register_load_state_dict_pre_hook(lambda *_: self.shard())

    # The parameters' states

    @property
    def is_unsharded(self) -> bool:
        """True if the modules have whole parameters."""
        return self.state is ShardedState.UNSHARDED

    def unshard(self, waits: bool = False) -> None:
        """Begin to gather the whole parameters, unless they are there or on their way.

        Args:
            waits: whether `wait_for_unshard` is called next.
        """
        if self._gathering is not None or not self.parameters:
            return
        if self.is_unsharded:
            if self.now is not Pass.FORWARD or not any(each.is_stale for each in self.parameters):
                return
            self.shard()  # the optimizer has stepped since a forward that kept them
        if self.now is Pass.PRE_BACKWARD and not self.unshards_in_backward:
            return
        is_partly = self.state is ShardedState.SHARDED_POST_FORWARD and self.after_forward is not None
        sharding: Any = self.after_forward if is_partly else self.sharding
        if is_partly or self.now not in (Pass.FORWARD, Pass.PRE_BACKWARD):
            # The inputs were computed after the root's forward began, or outside a forward.
            self.communications.lanes.gathers.wait_for_current()
        self._gathering = begin_gathering(
            self.parameters,
            sharding.shard_group,
            self.device,
            self.communications.lanes.gathers,
            self.all_gather,
            waits,
        )

    def wait_for_unshard(self) -> None:
        """Have the modules have the whole parameters that were gathered."""
        gathering, self._gathering = self._gathering, None
        if gathering is None:
            return
        gathering.take(self._buffers)
        for each in self.parameters:
            each.to_unsharded()
        self.state = ShardedState.UNSHARDED

    def shard(self, outputs: Iterable[Tensor] = ()) -> None:
        """Have the modules have the shards, and free the whole parameters.

        Args:
            outputs: what forward gave: what their graph keeps of the parameters is freed, too.
        """
        if self.state is not ShardedState.SHARDED:
            for each in self.parameters:
                each.to_sharded()
            self.state = ShardedState.SHARDED
            self._free(outputs)

    def _free(self, outputs: Iterable[Tensor]) -> None:
        output_list = list(outputs)
        for dtype, buffer in self._buffers.items():
            wholes = [each.bytes for each in self.parameters if each.gathered_dtype == dtype]
            buffer.free([each for each in wholes if each is not None], output_list)

    def reshard(self, outputs: Iterable[Tensor] = ()) -> None:
        """Shard the parameters as the pass that the group is in wants it."""
        if self.now is not Pass.FORWARD or self.after_forward is self.sharding:
            self.shard(outputs)
        elif self.after_forward is not None and self.is_unsharded:
            for each in self.parameters:
                each.to_sharded_after_forward(self.after_forward)
            self.state = ShardedState.SHARDED_POST_FORWARD
            self._free(outputs)

    # The passes

    def pre_forward(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Gather the parameters, and have the arguments' gradients tell that backward has ended."""
        is_first = self.now is not Pass.FORWARD
        self.now = Pass.FORWARD
        self.unshard(waits=not self.unshards_async)
        self.wait_for_unshard()
        return self._mark_inputs(args, kwargs) if is_first else (args, kwargs)

    def _mark_inputs(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        if not is_grad_enabled():
            return args, kwargs
        inputs = [tensor for tensor in tensors_of((args, kwargs)) if tensor.requires_grad]
        if not inputs:
            return args, kwargs
        passed = _EndOfBackward.apply(self, *inputs)
        marked = iter(passed if isinstance(passed, tuple) else (passed,))
        return map_tensors(lambda t: next(marked) if t.requires_grad else t, (args, kwargs))  # type: ignore[no-any-return]

    def post_forward(self, output: Any) -> None:
        """Shard the parameters, and note when the forward ended."""
        if current_task() is None:
            records = is_grad_enabled()
            self.reshard(tensors_of(output) if records else ())
            if records:
                order = self.communications.forward_order
                self._order.append(len(order))
                order.append(self)
        self.now = Pass.IDLE

    def pre_backward(self, prefetches: bool) -> None:
        """Gather the parameters for backward.

        Args:
            prefetches: whether those of the group whose forward ended before are gathered next.
        """
        if self.now is Pass.PRE_BACKWARD:
            return
        self.now = Pass.PRE_BACKWARD
        self.unshard(waits=not self.unshards_async)
        self.wait_for_unshard()
        if prefetches and self._order:
            index, order = self._order.pop(), self.communications.forward_order
            # Another root's backward, whose order this is too, may have cleared it.
            if 0 < index < len(order) and order[index] is self:
                order[index - 1].prefetch(Pass.PRE_BACKWARD)

    def prefetch(self, now: Pass) -> None:
        """Begin to gather the parameters for a pass that is to come."""
        with self._in(now):
            self.unshard()

    @contextmanager
    def _in(self, now: Pass) -> Iterator[None]:
        before, self.now = self.now, now
        try:
            yield
        finally:
            self.now = before

    def post_backward(self) -> None:
        """Free the whole parameters, and begin to reduce their gradients."""
        self.now = Pass.POST_BACKWARD
        for each in self.parameters:
            each.accumulate_grad()
        if not self.reduces_grads:
            if self.reshards_after_backward:
                self.reshard()
            for each in self.parameters:
                each.keep_grad()
            return
        reduced: list[ShardedParameter] = []
        grads: list[Tensor] = []
        for each in self.parameters:
            grad = each.take_grad(self.reduces_unused)
            if grad is not None:
                reduced.append(each)
                grads.append(grad)
        if self.reshards_after_backward:
            self.reshard()
        self.communications.make_room()
        if not grads:
            return
        del grad
        self._settle()
        self._reduction = GradientReduction(self._plan(), reduced, grads, self._reduce_dtype, self._partial)
        self._partial = None
        self.communications.reductions.append(self._reduction)

    def _plan(self) -> ReductionPlan:
        return ReductionPlan(
            self.scatter_group or self.sharding.shard_group,
            self.sharding.replicate_group,
            self.device,
            self.communications.lanes.reductions,
            self.gradient_divide_factor,
            self.only_sums,
            self.reduces_replicas,
            self.reduce_scatter,
            self.reduced_hook,
        )

    def _settle(self) -> None:
        """Wait for the group's last reduction, and keep its gradients that are not reduced over replicas."""
        if self._reduction is not None:
            self._reduction.finish()
            self._partial = self._reduction.partial
            self._reduction = None

    def end_backward(self) -> None:
        """Leave nothing behind of a backward that was the last before the optimizer's step."""
        self._settle()
        if self._gathering is not None:
            # It was gathered for a backward that did not come.
            self._gathering.wait()
            self._gathering = None
        self._order.clear()

    def abandon(self) -> None:
        """Forget a forward or backward that raised, and all gradients that are not reduced."""
        if self._gathering is not None:
            self._gathering.wait()
            self._gathering = None
        if self._reduction is not None:
            self._reduction.finish()
            self._reduction = None
        self._partial = None
        for each in self.parameters:
            each.accumulated_grad = None
            if each.unsharded is not None:
                each.unsharded.grad = None
        self._order.clear()
        self.now = Pass.IDLE
        self.shard()

    def __repr__(self) -> str:
        return f"ParameterGroup({self.name!r}, {len(self.parameters)} parameters, {self.state.name})"


class _EndOfBackward(Function):
    """Passes a module's arguments through, and tells its group when their gradients have come."""

    @staticmethod
    def forward(ctx: Any, group: ParameterGroup, *inputs: Tensor) -> tuple[Tensor, ...]:
        ctx.group = group
        return inputs

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        ctx.group.post_backward()
        return (None, *grads)


def locations_of(parameters: Sequence[Parameter], modules: Sequence[Module]) -> list[ParameterLocation]:
    """Return the places of parameters. A parameter or a module may occur in several places."""
    locations: dict[int, ParameterLocation] = {}
    parameter_ids = {id(each) for each in parameters}
    visited: set[tuple[int, str]] = set()
    for root in modules:
        for module in root.modules():
            for name, parameter in module._parameters.items():
                if id(parameter) not in parameter_ids or (id(module), name) in visited:
                    continue
                visited.add((id(module), name))
                if id(parameter) in locations:
                    locations[id(parameter)].shared.append((module, name))
                else:
                    locations[id(parameter)] = ParameterLocation(module, name)
    return [locations[id(each)] for each in parameters]
