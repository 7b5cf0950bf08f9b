"""The base of optimizers: groups of parameters with their options, a state for each parameter, saving and loading."""

from __future__ import annotations

import copy
import functools
import itertools
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, SupportsFloat, TypeAlias, TypeVar, overload

from ..autograd import enable_grad, set_grad_enabled
from ..dispatch.autograd.node import RemovableHandle
from ..dispatch.functions.foreach import FOREACH
from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from ..runtime.layout import strided
from ..runtime.profiler_ranges import recorded_range, sessions
from ..runtime.traceback_filter import hide_inner_frames

if TYPE_CHECKING:
    from ..runtime.device import device as Device

__all__ = ["Optimizer"]

Group = dict[str, Any]
Rate = float | Tensor
StateDict: TypeAlias = dict[str, Any]
Params: TypeAlias = Iterable[Tensor] | Iterable[tuple[str, Tensor]] | Iterable[dict[str, Any]]
Loss = TypeVar("Loss", bound=SupportsFloat)
Hooks: TypeAlias = dict[int, Callable[..., Any]]
Step = TypeVar("Step", bound=Callable[..., Any])


class _RequiredParameter:
    """Marker in an optimizer's defaults of an option that every group must give (`torch.optim.optimizer.required`)."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _RequiredParameter()


class Optimizer:
    """Base class of optimizers: groups of parameters with options; a subclass defines the step
    (`torch.optim.Optimizer`).

    Args:
        params: parameters, pairs of names and parameters, or groups: dictionaries with ``params`` and options of their
            own.
        defaults: the options, and what they are where a group does not say.

    Raises:
        TypeError: `params` holds what is no tensor.
        ValueError: there are no parameters, one was computed from others, or is in two groups.
    """

    _optimizer_step_pre_hooks: Hooks
    _optimizer_step_post_hooks: Hooks
    _optimizer_state_dict_pre_hooks: Hooks
    _optimizer_state_dict_post_hooks: Hooks
    _optimizer_load_state_dict_pre_hooks: Hooks
    _optimizer_load_state_dict_post_hooks: Hooks

    def __init__(self, params: Params, defaults: Mapping[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got Tensor"
            )
        self.defaults = dict(defaults)
        self.state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[Group] = []
        self._make_hooks()
        param_list: list[Any] = list(params)
        if not param_list:
            raise ValueError("optimizer got an empty parameter list")
        for group in param_list if isinstance(param_list[0], dict) else [{"params": param_list}]:
            self.add_param_group(group)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Have every `step` run its hooks."""
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:
            cls.step = _stepping(cls.__dict__["step"])  # type: ignore[method-assign]

    def add_param_group(self, param_group: Group) -> None:
        """Add parameters, with options of their own where `param_group` has some.

        Raises:
            TypeError, ValueError: as the optimizer itself.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        members = param_group["params"]
        if isinstance(members, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in "
                "sets will change between runs. Please use a list instead."
            )
        members = [members] if isinstance(members, Tensor) else list(members)
        names = [member[0] for member in members if isinstance(member, tuple)]
        if names and len(names) != len(members):
            raise ValueError(
                "all optimizer params should be with/without names. Some param names are missing"
            )
        if names:
            members = [member[1] for member in members]
        for member in members:
            if not isinstance(member, Tensor):
                raise TypeError(
                    f"optimizer can only optimize Tensors, but one of the params is {type(member).__name__}"
                )
            if not (self.defaults.get("differentiable") or member.is_leaf or member.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        if len({id(member) for member in members}) != len(members):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this will cause an error",
                stacklevel=3,
            )
        known = {id(member) for group in self.param_groups for member in group["params"]}
        if any(id(member) in known for member in members):
            raise ValueError("some parameters appear in more than one parameter group")
        if self.param_groups and bool(names) != ("param_names" in self.param_groups[0]):
            raise ValueError(
                "all optimizer param groups should be with/without names. cannot add param group "
                f"{'with' if names else 'without'} names to the optimizer"
            )
        for name, value in self.defaults.items():
            if value is required and name not in param_group:
                raise ValueError(
                    f"parameter group didn't specify a value of required optimization parameter {name}"
                )
        group = {**self.defaults, **param_group, "params": members}
        if names:
            group["param_names"] = names
        self.param_groups.append(group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients of all parameters to None, or to zeros if `set_to_none` is False."""
        with recorded_range(f"Optimizer.zero_grad#{type(self).__name__}.zero_grad"):
            self._zero_grad(set_to_none)

    def _zero_grad(self, set_to_none: bool) -> None:
        grads_by_device: defaultdict[Device, list[Tensor]] = defaultdict(list)
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    if set_to_none:
                        parameter.grad = None
                    else:
                        grad = parameter.grad
                        grad.detach_() if grad.grad_fn is not None else grad.requires_grad_(False)
                        grads_by_device[grad.device].append(grad)
        for gradients in grads_by_device.values():
            FOREACH["_foreach_zero_"](gradients)

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], Loss]) -> Loss: ...
    def step(self, closure: Callable[[], Loss] | None = None) -> Loss | None:
        """Update the parameters by their gradients. Every subclass overrides this method.

        Args:
            closure: Recomputes the loss and the gradients. Default: None.

        Raises:
            NotImplementedError: The subclass does not override it.
        """
        raise NotImplementedError(f"{type(self).__name__} has no step")

    def state_dict(self) -> dict[str, Any]:
        """Return the state and the groups, with parameters as indices (`torch.optim.Optimizer.state_dict`).

        The tensors share memory with the optimizer's state.
        """
        for hook in [*self._optimizer_state_dict_pre_hooks.values()]:
            hook(self)
        numbers: dict[int, int] = {}
        start = 0
        for group in self.param_groups:
            # A parameter of several groups keeps the index that it has in the first one.
            numbers |= {id(p): n for n, p in enumerate(group["params"], start) if id(p) not in numbers}
            start += len(group["params"])
        result: dict[str, Any] = {
            "state": {
                numbers.get(id(key), key) if isinstance(key, Tensor) else key: value
                for key, value in self.state.items()
            },
            "param_groups": [
                {**group, "params": [numbers[id(parameter)] for parameter in group["params"]]}
                for group in self.param_groups
            ],
        }
        for hook in [*self._optimizer_state_dict_post_hooks.values()]:
            result = hook(self, result) or result
        return result

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the state and the options of another optimizer's `state_dict`.

        States that are tensors of floats come to the dtype and the device of their parameter; counts of steps keep
        theirs. A state dict of an older version of PyTorch may lack options and hold counts as numbers.

        Raises:
            ValueError: the groups are not of the same sizes.
        """
        state_dict = {**state_dict}
        for hook in [*self._optimizer_load_state_dict_pre_hooks.values()]:
            state_dict = hook(self, state_dict) or state_dict
        saved = copy.deepcopy(state_dict["param_groups"])
        if len(saved) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        for group, other in zip(self.param_groups, saved, strict=True):
            if len(group["params"]) != len(other["params"]):
                raise ValueError(
                    "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
                )
        parameters = dict(
            zip(
                itertools.chain.from_iterable(group["params"] for group in saved),
                itertools.chain.from_iterable(group["params"] for group in self.param_groups),
                strict=True,
            )
        )
        state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            parameter = parameters.get(key)
            state[key if parameter is None else parameter] = (
                copy.deepcopy(value)
                if parameter is None
                else {name: _brought(name, each, parameter) for name, each in value.items()}
            )
        groups = [
            {**group, "params": own["params"]} for own, group in zip(self.param_groups, saved, strict=True)
        ]
        self.__setstate__({"state": state, "param_groups": groups})
        for hook in [*self._optimizer_load_state_dict_post_hooks.values()]:
            hook(self)

    def _make_hooks(self) -> None:
        """Create the tables of hooks that the optimizer does not have yet."""
        for name in HOOKS:
            self.__dict__.setdefault(name, {})

    def _add_hook(self, hooks: Hooks, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        handle = RemovableHandle(hooks)
        later = dict(hooks) if prepend else {}
        if prepend:
            hooks.clear()
        hooks[handle.id] = hook
        hooks.update(later)
        return handle

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` before `step`; new ``(args, kwargs)`` take their place.

        The first of `args` is the optimizer, as `step` gets it.
        """
        return self._add_hook(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` after `step`."""
        return self._add_hook(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer)`` before `state_dict`, with `prepend` as the first."""
        return self._add_hook(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` after it, with `prepend` as the first; a dictionary takes its place."""
        return self._add_hook(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` before it is loaded, with `prepend` as the first.

        A dictionary that the hook returns takes its place.
        """
        return self._add_hook(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer)`` after a state was loaded, with `prepend` as the first."""
        return self._add_hook(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    def _accelerator_graph_capture_health_check(self) -> None:
        """Check, for the step of a subclass, that a graph's capture is possible where there is one.

        Raises:
            RuntimeError: The current stream is being captured, and not all groups have ``capturable``.
        """
        from .. import cuda

        if cuda.is_current_stream_capturing() and not all(
            group.get("capturable") for group in self.param_groups
        ):
            raise RuntimeError(
                f"Attempting CUDA graph capture of step() for an instance of {type(self).__name__} but param_groups' "
                "capturable is False."
            )

    _cuda_graph_capture_health_check = _accelerator_graph_capture_health_check

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for number, group in enumerate(self.param_groups):
            lines += [""] * (number > 0) + [f"Parameter Group {number}"]
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join([*lines, ")"])

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take attributes of another optimizer; give options and counts of older versions today's form.

        `load_state_dict` passes ``state`` and ``param_groups``, so that a subclass that overrides this method also sees
        loaded states.
        """
        self.__dict__.update(state)
        self._make_hooks()
        defaults = self.__dict__.get("defaults", {})
        for group in self.param_groups:
            for name in LATER_OPTIONS.keys() & defaults.keys():
                group.setdefault(name, LATER_OPTIONS[name])
            if "decoupled_weight_decay" in defaults:
                group.setdefault("decoupled_weight_decay", defaults["decoupled_weight_decay"])
            for parameter in group["params"]:
                held = self.state.get(parameter, {})
                for name, value in held.items():
                    if type(value) in (int, float):
                        held[name] = self._kept_number(group, parameter, value)

    def _kept_number(self, group: Group, parameter: Tensor, value: float) -> Any:
        """Return a number of a loaded state as `step` keeps it: here, as it is."""
        return value


LATER_OPTIONS: dict[str, Any] = {
    "amsgrad": False,
    "capturable": False,
    "centered": False,
    "differentiable": False,
    "foreach": None,
    "fused": None,
    "maximize": False,
    "momentum": 0,
    "nesterov": False,
}
"""Options that state dicts of older versions lack, with the values that those versions implied."""
HOOKS = (
    "_optimizer_step_pre_hooks",
    "_optimizer_step_post_hooks",
    "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks",
    "_optimizer_load_state_dict_pre_hooks",
    "_optimizer_load_state_dict_post_hooks",
)
"""Attributes of an optimizer that hold its hooks. A wrapper that calls no `Optimizer.__init__` may create them."""

_global_hooks: dict[str, Hooks] = {"step_pre": {}, "step_post": {}}


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` before each `step` of every optimizer, before the optimizer's own hooks.

    Args:
        hook: The function; new ``(args, kwargs)`` that it returns take the place of the old ones.

    Returns:
        A handle, whose ``remove()`` ends it.

    Source: torch.optim.optimizer.register_optimizer_step_pre_hook.
    """
    return _add_global_hook("step_pre", hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` after each `step` of every optimizer, after the optimizer's own hooks.

    Args:
        hook: The function, whose result has no effect.

    Returns:
        A handle, whose ``remove()`` ends it.

    Source: torch.optim.optimizer.register_optimizer_step_post_hook.

    Example:
        >>> import triten as tt
        >>> from triten.optim.optimizer import register_optimizer_step_post_hook
        >>> handle = register_optimizer_step_post_hook(lambda optimizer, args, kwargs: print("stepped"))
        >>> tt.optim.SGD([tt.ones(2, requires_grad=True)]).step()
        stepped
        >>> handle.remove()
    """
    return _add_global_hook("step_post", hook)


def _add_global_hook(kind: str, hook: Callable[..., Any]) -> RemovableHandle:
    handle = RemovableHandle(_global_hooks[kind])
    _global_hooks[kind][handle.id] = hook
    return handle


def _stepping(step: Step) -> Step:
    """Wrap `step` with its hooks. `step` itself controls gradient mode, because it may compute gradients."""

    @functools.wraps(step)
    def stepped(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        try:
            # A wrapper of an optimizer may be a subclass that never calls `Optimizer.__init__`.
            state = vars(self)
            state["_opt_called"] = True
            args = (self, *args)
            for hook in [
                *_global_hooks["step_pre"].values(),
                *state.get("_optimizer_step_pre_hooks", {}).values(),
            ]:
                replaced = hook(self, args, kwargs)
                if replaced is not None:
                    if not isinstance(replaced, tuple) or len(replaced) != 2:
                        raise RuntimeError(
                            f"{step} must return None or a tuple of (new_args, new_kwargs), but got {replaced}."
                        )
                    args, kwargs = replaced
            if sessions:
                with recorded_range(f"Optimizer.step#{type(self).__name__}.step"):
                    result = step(*args, **kwargs)
            else:
                result = step(*args, **kwargs)
            for hook in [
                *state.get("_optimizer_step_post_hooks", {}).values(),
                *_global_hooks["step_post"].values(),
            ]:
                hook(self, args, kwargs)
            return result
        except BaseException:
            hide_inner_frames()
            raise

    return stepped  # type: ignore[return-value]


def _use_grad_for_differentiable(step: Step) -> Step:
    """Wrap `step` so that it records gradients only with the option ``differentiable``."""

    @functools.wraps(step)
    def stepped(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        with set_grad_enabled(bool(self.defaults.get("differentiable"))):
            return step(self, *args, **kwargs)

    return stepped  # type: ignore[return-value]


def spare_saved(state: dict[str, Any]) -> None:
    """Replace the buffers of a differentiable step by copies: the graph of the last step has saved those before."""
    for name, value in state.items():
        if isinstance(value, Tensor) and name != "step":
            state[name] = value.clone()


def loss_of(closure: Callable[[], Loss] | None) -> Loss | None:
    """Compute the closure's loss with gradients enabled; return None without a closure."""
    if closure is None:
        return None
    with enable_grad():
        return closure()


def _brought(name: str, value: Any, parameter: Tensor) -> Any:
    """Copy a state value to its parameter's device and dtype."""
    if not isinstance(value, Tensor):
        return copy.deepcopy(value)
    if name == "step":
        return value.detach().clone()
    dtype = parameter.dtype if parameter.is_floating_point() else value.dtype
    return value.detach().to(parameter.device, dtype, copy=True)


def check_number(name: str, value: Rate, least: float = 0.0) -> None:
    """Raise ValueError for a number below `least`."""
    if not isinstance(value, Tensor) and not least <= value:
        raise ValueError(f"Invalid {name}: {value}")


def check_options(lr: Rate, foreach: bool | None, fused: bool | None, differentiable: bool) -> None:
    """Raise ValueError for an invalid learning rate, and RuntimeError for options that conflict."""
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")
    check_number("learning rate", lr)
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


def check_capturable(group: Group, parameter: Tensor) -> None:
    """Raise AssertionError if `capturable` is set for a parameter on the CPU, which has no graphs."""
    if group.get("capturable") and not group.get("fused") and parameter.device.type == "cpu":
        raise AssertionError(
            "If capturable=True, params and state_steps must be on a device with graphs, not on cpu."
        )


def takes_fused(group: Group, parameters: list[Tensor], gradients: list[Tensor]) -> bool:
    """Return whether one fused launch updates a group.

    The launch requires real floating parameters, dense unless ``fused`` is True, and that neither ``fused`` nor
    ``foreach`` is False. Meta tensors qualify, because a program planned on Meta must use the same operators as on a
    device.

    Raises:
        RuntimeError: ``fused`` is True but the group does not qualify.
    """
    if group["fused"] is False or group["foreach"] is False or group["differentiable"]:
        return False
    able = all(
        parameter.is_floating_point() and parameter.device.type in ("cpu", "cuda", "meta")
        for parameter in parameters
    )
    if group["fused"] and not able:
        raise RuntimeError(
            "`fused=True` requires all the params to be floating point Tensors on the CPU or on CUDA"
        )
    return able and all(
        gradient._spec.dtype is parameter._spec.dtype
        and gradient._spec.layout is strided
        and (parameter._spec.is_contiguous or group["fused"] or parameter._spec.is_dense())
        for gradient, parameter in zip(gradients, parameters, strict=True)
    )


def in_layout(gradient: Tensor, parameter: Tensor) -> Tensor:
    """Return the gradient with the strides of its parameter."""
    if gradient.stride() == parameter.stride():
        return gradient
    return _ops.empty_like(parameter).copy_(gradient)


def by_device(parameters: list[Tensor]) -> list[list[int]]:
    """Group the indices of the parameters by device."""
    indices: defaultdict[Device, list[int]] = defaultdict(list)
    for i, parameter in enumerate(parameters):
        indices[parameter.device].append(i)
    return list(indices.values())


def rate_for(lr: Rate, device: Device) -> Rate:
    """Move a tensor learning rate to `device` unless it is on the CPU; return a number unchanged."""
    return lr if not isinstance(lr, Tensor) or lr.device.type == "cpu" else lr.to(device)
