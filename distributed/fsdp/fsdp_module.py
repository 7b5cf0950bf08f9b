"""`FSDPModule`: methods of a module after `fully_shard`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from types import MethodType
from typing import TYPE_CHECKING, Any, NoReturn, Self

from ...autograd import no_grad
from ..groups import get_process_group_ranks
from ..subgroups import new_group
from .communication import AllGather, ReduceScatter
from .module_state import ModuleState, state_of
from .parameter_group import ParameterGroup
from .sharding_mesh import mesh_after_forward

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor
    from ...nn.modules.module import Module

__all__ = [
    "FSDPModule",
    "UnshardHandle",
    "become_fsdp_module",
    "register_fsdp_forward_method",
    "share_comm_ctx",
]


class UnshardHandle:
    """Parameters that are being gathered (`torch.distributed.fsdp.UnshardHandle`)."""

    def __init__(self, group: ParameterGroup | None) -> None:
        self._group = group

    def wait(self) -> None:
        """Wait for the communication: the module has its whole parameters after."""
        group, self._group = self._group, None
        if group is not None:
            group.wait_for_unshard()


class FSDPModule:
    """Methods that `fully_shard` adds to a module's class (`torch.distributed.fsdp.FSDPModule`)."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        # A container makes others of its class, as when it is indexed: those are of the original one.
        original = cls.__mro__[2]
        made = original.__new__(original, *args, **kwargs)
        made.__init__(*args, **kwargs)
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> NoReturn:
        raise AssertionError("FSDP does not support deepcopy. Please use state dict for serialization.")

    def reshard(self) -> None:
        """Free the whole parameters of this module, not of those below, and put the shards in their place."""
        for group in self._groups():
            group.shard()

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Gather the whole parameters of this module, not of those below.

        Args:
            async_op: whether to return a handle at once, for whose `wait` forward calls if nobody does before.
        """
        handle: UnshardHandle | None = None
        for group in self._groups():
            group.prepare()
            group.unshard(waits=not async_op)
            handle = UnshardHandle(group)
        if async_op:
            return handle or UnshardHandle(None)
        if handle is not None:
            handle.wait()
        return None

    def reset_iter_state(self) -> None:
        """Forget a forward or backward that raised, with all gradients that are not reduced.

        Raises:
            RuntimeError: this is not the root.
        """
        self._get_fsdp_state().abandon()

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Set whether the next backward is the last before the optimizer's step. Its end waits for the
        gradients.
        """
        self._get_fsdp_state().program.is_last_backward = is_last_backward

    def set_requires_gradient_sync(self, requires_gradient_sync: bool, *, recurse: bool = True) -> None:
        """Say whether backward reduces gradients, or adds them up in the whole parameters' without communication."""
        for group in self._groups(recurse):
            group.reduces_grads = group.reduces_replicas = requires_gradient_sync

    def set_requires_all_reduce(self, requires_all_reduce: bool, *, recurse: bool = True) -> None:
        """Say whether backward reduces gradients among replicas, or among the shards of one alone."""
        for group in self._groups(recurse):
            group.reduces_replicas = requires_all_reduce

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Say whether the whole parameters are freed after forward.

        Raises:
            ValueError: no bool is given.
        """
        if not isinstance(reshard_after_forward, bool):
            raise ValueError(f"reshard_after_forward should be a bool, got {type(reshard_after_forward)}")
        for state in self._states(recurse):
            state.chooses_reshard = False
            if state.group is not None:
                state.group.after_forward = mesh_after_forward(reshard_after_forward, state.group.sharding)

    def set_reshard_after_backward(self, reshard_after_backward: bool, *, recurse: bool = True) -> None:
        """Say whether the whole parameters are freed after backward: not to gather them again where gradients
        accumulate."""
        for group in self._groups(recurse):
            group.reshards_after_backward = reshard_after_backward

    def set_modules_to_forward_prefetch(self, modules: Sequence[FSDPModule]) -> None:
        """Set the modules whose parameters are prefetched during this module's forward."""
        self._get_fsdp_state().forward_prefetch = _states_of(modules)

    def set_modules_to_backward_prefetch(self, modules: Sequence[FSDPModule]) -> None:
        """Set the modules whose parameters are prefetched during this module's backward. Default: the module
        that ran before it.
        """
        self._get_fsdp_state().backward_prefetch = _states_of(modules)

    def set_custom_all_gather(self, comm: AllGather) -> None:
        """Gather parameters by something else than `all_gather_into_tensor`."""
        for group in self._groups():
            group.all_gather = comm

    def set_custom_reduce_scatter(self, comm: ReduceScatter) -> None:
        """Reduce gradients by something else than `reduce_scatter_tensor`."""
        for group in self._groups():
            group.reduce_scatter = comm

    def set_all_reduce_hook(self, hook: Callable[[Tensor], None], *, stream: Any = None) -> None:
        """Call a function with the reduced gradients of the shards, in one line, before they are the gradients.

        Args:
            hook: the function.
            stream: not supported: the function runs on the stream of reductions.

        Raises:
            NotImplementedError: a stream is given.
        """
        if stream is not None:
            raise NotImplementedError(
                "set_all_reduce_hook: the hook runs on the stream of reductions; expected None for stream, but got "
                f"{stream!r}"
            )
        for group in self._groups():
            group.reduced_hook = hook

    def set_post_optim_event(self, event: Any) -> None:
        """Have the next forward's gathering wait for this event, and not for all that the current stream was given."""
        self._get_fsdp_state().program.optimizer_event = event

    def set_gradient_divide_factor(self, factor: float) -> None:
        """Divide the sum of gradients by another number than that of the processes."""
        for group in self._groups():
            group.gradient_divide_factor = factor

    set_reduce_scatter_divide_factor = set_gradient_divide_factor

    def set_force_sum_reduction_for_comms(self, enable: bool) -> None:
        """Say whether gradients are reduced by sums alone, and divided after."""
        for group in self._groups():
            group.only_sums = enable

    def set_reduce_scatter_unused_params(
        self, reduce_scatter_unused_params: bool, *, recurse: bool = True
    ) -> None:
        """Say whether a parameter that got no gradient takes part with zeros, as it must where processes use different
        ones."""
        for group in self._groups(recurse):
            group.reduces_unused = reduce_scatter_unused_params

    def set_reduce_scatter_max_input_buffers(self, max_input_buffers: int, *, recurse: bool = True) -> None:
        """Set the maximum number of reductions whose whole gradients are in memory at once. Default: 1.

        Raises:
            TypeError: no int is given.
            ValueError: it is less than 1.
        """
        if isinstance(max_input_buffers, bool) or not isinstance(max_input_buffers, int):
            raise TypeError(f"max_input_buffers must be an int, got {type(max_input_buffers).__name__}")
        if max_input_buffers < 1:
            raise ValueError(f"max_input_buffers must be a positive int, got {max_input_buffers}")
        for group in self._groups(recurse):
            group.max_inputs = max_input_buffers
            group.communications.max_inputs = max_input_buffers

    def set_separate_reduce_scatter_group(self, enable: bool = True, *, recurse: bool = True) -> None:
        """Reduce gradients in a separate group from the gathers of parameters, so that both can overlap."""
        made: dict[tuple[int, ...], Any] = {}
        for group in self._groups(recurse):
            if not enable:
                group.scatter_group = None
                continue
            ranks = tuple(get_process_group_ranks(group.sharding.shard_group))
            if ranks not in made:
                made[ranks] = group.scatter_group or new_group(
                    list(ranks), use_local_synchronization=True, group_desc="fsdp_reduce_scatter"
                )
            group.scatter_group = made[ranks]

    def set_unshard_in_backward(self, unshard_in_backward: bool) -> None:
        """Say whether backward needs this module's parameters: that of an embedding does not."""
        for group in self._groups():
            group.unshards_in_backward = unshard_in_backward

    def _set_unshard_async_op(self, async_op: bool) -> None:
        for group in self._groups(True):
            group.unshards_async = async_op

    def _get_fsdp_state(self) -> ModuleState:
        state = state_of(self)  # type: ignore[arg-type]
        if state is None:
            raise AssertionError(f"No FSDP state found on {self}")
        return state

    def _states(self, recurse: bool = False) -> Iterator[ModuleState]:
        for module in self.modules() if recurse else [self]:  # type: ignore[attr-defined]
            if isinstance(module, FSDPModule):
                yield module._get_fsdp_state()

    def _groups(self, recurse: bool = False) -> Iterator[ParameterGroup]:
        for state in self._states(recurse):
            if state.group is not None:
                yield state.group

    def _apply(self, *args: Any, **kwargs: Any) -> Self:
        self.reshard()
        result = super()._apply(*args, **kwargs)  # type: ignore[misc]
        with no_grad():
            for group in self._groups():
                for each in group.parameters:
                    each.reset()
        return result  # type: ignore[no-any-return]


def _states_of(modules: Sequence[Any]) -> list[ModuleState]:
    for module in modules:
        if not isinstance(module, FSDPModule):
            raise ValueError(f"Expected FSDPModule but got {type(module)}: {module}")
    return [module._get_fsdp_state() for module in modules]


_classes: dict[type[Module], type[Module]] = {}


def become_fsdp_module(module: Module) -> None:
    """Give a module's class the methods of `FSDPModule`."""
    cls = type(module)
    if cls not in _classes:
        _classes[cls] = type(f"FSDP{cls.__name__}", (FSDPModule, cls), {"__module__": cls.__module__})
    module.__class__ = _classes[cls]


def share_comm_ctx(modules: Sequence[FSDPModule]) -> None:
    """Share one order of communications between several root modules
    (`torch.distributed.fsdp.share_comm_ctx`).

    Pipeline stages in one process use this. They then share streams and communication buffers.

    Args:
        modules: the roots.

    Raises:
        ValueError: one is no `FSDPModule`.
    """
    states = _states_of(modules)
    for state in states[1:]:
        below = [state, *state.program.states]
        for each in below:
            each.communications = states[0].communications
            if each.group is not None:
                each.group.communications = states[0].communications


def register_fsdp_forward_method(module: Module, method_name: str) -> None:
    """Make a method gather and free parameters as forward does
    (`torch.distributed.fsdp.register_fsdp_forward_method`).

    A module without `fully_shard` stays unchanged.

    Args:
        module: the module.
        method_name: the method's name.

    Raises:
        ValueError: the module has no such method.
    """
    if not isinstance(module, FSDPModule):
        return
    if not hasattr(module, method_name):
        raise ValueError(f"{type(module)} does not have a method {method_name}")
    original = getattr(module, method_name)

    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        state = self._get_fsdp_state()
        args, kwargs = state.pre_forward(self, args, kwargs)
        return state.post_forward(self, args, original(*args, **kwargs))

    setattr(module, method_name, MethodType(method, module))
