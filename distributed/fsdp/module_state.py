"""Hooks of `fully_shard` around a module's forward and backward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...dispatch.autograd.graph import current_task, know_tasks, queue_callback
from ...dispatch.tensor import Tensor
from ...runtime.device import device as Device
from ...runtime.grad_mode import is_grad_enabled
from .nested_tensors import map_tensors, tensors_of
from .parameter_group import Communications, ParameterGroup, Pass
from .policies import MixedPrecisionPolicy

if TYPE_CHECKING:
    from ...nn.modules.module import Module

__all__ = ["ModuleState", "Program", "state_of"]


class Program:
    """State shared by the modules below one root.

    Attributes:
        states: All states, the root's first.
        forward_root: State of the outermost running forward. It is not the root's if only a part of the model
            runs.
        is_last_backward: True if the end of the next backward waits for all gradients.
        ends_backward: True if the running backward will call `ModuleState.end_backward`.
        optimizer_event: CUDA event after the optimizer's step, for which gathers wait.
    """

    def __init__(self) -> None:
        self.states: list[ModuleState] = []
        self.forward_root: ModuleState | None = None
        self.is_last_backward = True
        self.ends_backward = False
        self.optimizer_event: Any = None


class ModuleState:
    """The state of a module that `fully_shard` was applied to, or of several together.

    Args:
        modules: the modules.
        device: where they compute.
        mp_policy: in which dtypes.
        chooses_reshard: whether the root's parameters stay whole after forward, as nothing else was asked for.
    """

    def __init__(
        self,
        modules: Sequence[Module],
        device: Device,
        mp_policy: MixedPrecisionPolicy,
        chooses_reshard: bool,
    ) -> None:
        self.modules = tuple(modules)
        self.device, self.mp_policy = device, mp_policy
        self.chooses_reshard = chooses_reshard
        self.group: ParameterGroup | None = None
        self.is_root: bool | None = None
        self.program = Program()
        self.communications = Communications(device)
        self.now = Pass.IDLE
        self.forward_prefetch: list[ModuleState] = []
        self.backward_prefetch: list[ModuleState] = []
        self._to_run: set[Module] = set()
        know_tasks()
        for module in self.modules:
            module.__dict__["_fsdp_state"] = self
            module.register_forward_pre_hook(self.pre_forward, prepend=True, with_kwargs=True)
            module.register_forward_hook(self.post_forward)

    # Initialization

    def prepare(self) -> None:
        """Settle, in the first forward, what the root is.

        Raises:
            RuntimeError: the root is a list of modules, or a state below it has run as a root before.
            ValueError: groups share a parameter.
        """
        if self.is_root is not None:
            return
        if len(self.modules) > 1:
            raise RuntimeError(
                f"FSDP requires a single root module but got {[type(each).__name__ for each in self.modules]}"
            )
        root = self.modules[0]
        states: list[ModuleState] = []
        for name, module in root.named_modules():
            state = state_of(module)
            if state is None or state in states:
                continue
            if state is not self and state.is_root is not None:
                raise RuntimeError(
                    f"FSDP state has already been lazily initialized for {name}\nFSDP requires running forward through "
                    "the root module first"
                )
            states.append(state)
        for state in states:
            state.is_root = state is self
        if self.chooses_reshard and self.group is not None:
            # Backward needs them at once.
            self.group.after_forward = None
        self.program.states = states
        self._name(root)
        owners: dict[int, str] = {}
        for state in states:
            state.program, state.communications = self.program, self.communications
            group = state.group
            if group is None:
                continue
            group.communications = self.communications
            self.communications.max_inputs = max(self.communications.max_inputs, group.max_inputs)
            for each in group.parameters:
                if each.original_id in owners:
                    raise ValueError(
                        f"Parameter '{each.name}' is shared with a parameter already managed by another FSDP group "
                        f"({owners[each.original_id]!r}). For shared/tied parameters, use fully_shard([module_a, "
                        "module_b]) to place them in the same FSDP group."
                    )
                owners[each.original_id] = each.name
        for state in states:
            if state.group is not None:
                state.group.prepare()

    def _name(self, root: Module) -> None:
        """Tell groups and parameters their dotted names, for messages."""
        names = {id(module): name for name, module in root.named_modules()}
        for state in self.program.states:
            if state.group is not None:
                state.group.name = ", ".join(names[id(each)] for each in state.modules)
                for each in state.group.parameters:
                    prefix = names.get(id(each.location.module), "")
                    each.name = f"{prefix}.{each.location.name}" if prefix else each.location.name

    # Forward

    def _begin(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Prepare the outermost forward."""
        self.prepare()
        if self.program.forward_root is not None:
            return args, kwargs
        self.program.forward_root = self
        gathers = self.communications.lanes.gathers
        event, self.program.optimizer_event = self.program.optimizer_event, None
        if event is None:
            gathers.wait_for_current()
        else:
            gathers.wait_for(event)
        if self.device.type == "cuda":
            args, kwargs = map_tensors(self._moved, (args, kwargs))
        return args, kwargs

    def _moved(self, tensor: Tensor) -> Tensor:
        return tensor if tensor.device == self.device else tensor.to(self.device)

    def pre_forward(self, module: Module, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Run the hook before forward.

        Raises:
            RuntimeError: the last backward raised.
        """
        if self.program.ends_backward and current_task() is None:
            raise RuntimeError(
                "the last backward through modules of fully_shard did not finish; call reset_iter_state() on the root "
                "module, which discards unreduced gradients"
            )
        if self.now is Pass.PRE_BACKWARD:
            # Something below computes again in backward, which has gathered the parameters, or else must now.
            if self.group is not None:
                self.group.unshard(waits=True)
                self.group.wait_for_unshard()
            return self._cast_inputs(args, kwargs)
        if len(self.modules) > 1 and not self._to_run:
            self._to_run.update(self.modules)
        is_first = self.now is not Pass.FORWARD
        self.now = Pass.FORWARD
        if is_first:
            args, kwargs = self._begin(args, kwargs)
        args, kwargs = self._cast_inputs(args, kwargs)
        if self.group is not None:
            args, kwargs = self.group.pre_forward(args, kwargs)
        if is_first:
            for state in self.forward_prefetch:
                if state.group is not None:
                    state.group.prefetch(Pass.FORWARD)
        return args, kwargs

    def post_forward(self, module: Module, args: Any, output: Any) -> Any:
        """Run the hook after forward."""
        if self.now is Pass.PRE_BACKWARD:
            return self._cast_output(output)
        if len(self.modules) > 1:
            self._to_run.discard(module)
            if self._to_run:
                return self._cast_output(output)
        self._end_forward(output)
        if self.program.forward_root is self:
            for state in reversed(self.program.states):
                # A group of which not all modules ran has ended, too.
                if state is not self and state._to_run:
                    state._end_forward(output)
                    state._to_run.clear()
            self.program.forward_root = None
        return self._cast_output(output)

    def _end_forward(self, output: Any) -> None:
        if self.group is not None:
            self.group.post_forward(output)
        if is_grad_enabled():
            for tensor in tensors_of(output):
                if tensor.requires_grad:
                    base: Any = tensor._view_base
                    # Writing in place to a view gives it another origin, whose gradient goes to the base's.
                    (base if base is not None and base.requires_grad else tensor).register_hook(
                        self._pre_backward
                    )
        self.now = Pass.IDLE

    def _cast_inputs(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        dtype = self.mp_policy.param_dtype
        if dtype is None or not self.mp_policy.cast_forward_inputs:
            return args, kwargs
        return map_tensors(lambda t: t.to(dtype) if t.is_floating_point() else t, (args, kwargs))  # type: ignore[no-any-return]

    def _cast_output(self, output: Any) -> Any:
        dtype = self.mp_policy.output_dtype
        if dtype is None:
            return output
        return map_tensors(lambda t: t.to(dtype) if t.is_floating_point() else t, output)

    # Backward

    def _pre_backward(self, grad: Tensor) -> None:
        """Run the hook on the gradients of forward's outputs."""
        self.now = Pass.PRE_BACKWARD
        if not self.program.ends_backward:
            self.program.ends_backward = True
            queue_callback(self.end_backward)
        if self.group is not None:
            self.group.pre_backward(prefetches=not self.backward_prefetch)
        for state in self.backward_prefetch:
            if state.group is not None:
                state.group.prefetch(Pass.PRE_BACKWARD)

    def end_backward(self) -> None:
        """Finish a run of the autograd engine."""
        program = self.program
        program.forward_root = None
        program.ends_backward = False
        for state in program.states:
            state._to_run.clear()
            group = state.group
            if group is not None:
                if group.now is not Pass.POST_BACKWARD:
                    # No argument of its forward required a gradient.
                    group.post_backward()
                group.now = Pass.IDLE
            state.now = Pass.IDLE
        if program.is_last_backward:
            self.communications.finish()
            self.communications.forward_order.clear()
            for state in program.states:
                if state.group is not None:
                    state.group.end_backward()

    def abandon(self) -> None:
        """Forget a forward or backward that raised.

        Raises:
            RuntimeError: this is not the root's state.
        """
        if self.is_root is False:
            raise RuntimeError("reset_iter_state must be called on the root FSDP module")
        self.communications.finish()
        self.communications.forward_order.clear()
        for state in self.program.states:
            state._to_run.clear()
            state.now = Pass.IDLE
            if state.group is not None:
                state.group.abandon()
        self.program.forward_root = None
        self.program.ends_backward = False


def state_of(module: Module) -> ModuleState | None:
    """Return the state of a module to which `fully_shard` was applied; None for another module."""
    state: ModuleState | None = module.__dict__.get("_fsdp_state")
    return state
