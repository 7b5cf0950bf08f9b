"""A module's parameters and buffers as a dictionary of names, and back."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ...dispatch.autograd.node import RemovableHandle
from ...dispatch.tensor import Tensor
from ...utils.swapping import swap_tensors
from .conversion_settings import get_swap_module_params_on_conversion
from .module_hooks import added
from .parameter import Parameter
from .uninitialized import is_lazy

STATE_DICT_HOOK_TABLES = (
    "_state_dict_pre_hooks",
    "_state_dict_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)

EXTRA_STATE = "_extra_state"


class _Keys(NamedTuple):
    missing_keys: list[str]
    unexpected_keys: list[str]


class IncompatibleKeys(_Keys):
    """Missing and unexpected keys of `load_state_dict`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"_{super().__repr__()}" if any(self) else "<All keys matched successfully>"


def _swap(member: Tensor, given: Tensor, assign: bool) -> None:
    """Exchange a module's tensor with the one that its `module_load` makes of a loaded tensor."""
    from ...autograd import no_grad

    with no_grad():
        loaded = member.module_load(given, assign=assign)
    if loaded is member or loaded is given:
        raise RuntimeError("module_load returned one of self or other, please .detach() the result")
    if isinstance(member, Parameter) and not isinstance(loaded, Parameter):
        loaded = Parameter(loaded, member.requires_grad)
    else:
        loaded.requires_grad_(member.requires_grad)
    swap_tensors(member, loaded)


class _ReplacingHook:
    """A hook of a state dictionary that may return another in its place."""

    def __init__(self, hook: Callable[..., Any]) -> None:
        self.hook = hook

    def __call__(self, *args: Any) -> Any:
        return self.hook(*args)


class _HookWithoutModule:
    """A hook that is called without the module."""

    def __init__(self, hook: Callable[..., None]) -> None:
        self.hook = hook

    def __call__(self, module: Any, *args: Any) -> None:
        self.hook(*args)


class StateDictMixin:
    """The methods of `Module` that save and load."""

    _version = 1

    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]
    _state_dict_pre_hooks: dict[int, Any]
    _state_dict_hooks: dict[int, Any]
    _load_state_dict_pre_hooks: dict[int, Any]
    _load_state_dict_post_hooks: dict[int, Any]

    def get_extra_state(self) -> Any:
        """Return extra state for `state_dict`; a subclass overrides this method and `set_extra_state`.

        Raises:
            RuntimeError: The subclass does not override it.
        """
        raise RuntimeError("get_extra_state is to be written by the subclass that wants extra state")

    def set_extra_state(self, state: Any) -> None:
        """Set the state that `get_extra_state` returned.

        Raises:
            RuntimeError: The subclass does not override it.
        """
        raise RuntimeError("set_extra_state is to be written by the subclass that wants extra state")

    def _own_state(self) -> dict[str, Any]:
        """Return the parameters and persistent buffers by name."""
        transient = self._non_persistent_buffers_set
        buffers = {name: buffer for name, buffer in self._buffers.items() if name not in transient}
        return {name: member for name, member in (self._parameters | buffers).items() if member is not None}

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """Put what is this module's own into `destination`; a subclass may do it in another way."""
        for name, member in self._own_state().items():
            destination[prefix + name] = member if keep_vars or is_lazy(member) else member.detach()
        if type(self).get_extra_state is not StateDictMixin.get_extra_state:
            destination[prefix + EXTRA_STATE] = self.get_extra_state()

    def state_dict(
        self, *, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Return parameters and persistent buffers by their dotted names (`torch.nn.Module.state_dict`).

        The tensors are the module's own memory, without history unless `keep_vars`.

        Example:
            >>> import triten as tt
            >>> list(tt.nn.Sequential(tt.nn.Linear(2, 3), tt.nn.ReLU()).state_dict())
            ['0.weight', '0.bias']
        """
        state: Any = OrderedDict() if destination is None else destination
        if not hasattr(state, "_metadata") and isinstance(state, OrderedDict):
            state._metadata = OrderedDict()  # type: ignore[attr-defined]
        metadata = {"version": self._version}
        if hasattr(state, "_metadata"):
            state._metadata[prefix[:-1]] = metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(state, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=state, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            changed = hook(self, state, prefix, metadata)
            if changed is not None and isinstance(hook, _ReplacingHook):
                state = changed
        return state  # type: ignore[no-any-return]

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Take what is this module's own; a subclass may do it in another way, e.g. for an older version."""
        for hook in self._load_state_dict_pre_hooks.values():
            hook(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        assign = bool(local_metadata.get("assign_to_params_buffers"))
        own = self._own_state()
        for name, member in own.items():
            key = prefix + name
            if key not in state_dict:
                if strict:
                    missing_keys.append(key)
                continue
            error = self._take(name, key, member, state_dict[key], assign)
            if error:
                error_msgs.append(error)
        key = prefix + EXTRA_STATE
        if type(self).set_extra_state is not StateDictMixin.set_extra_state:
            if key in state_dict:
                self.set_extra_state(state_dict[key])
            elif strict:
                missing_keys.append(key)
        elif strict and key in state_dict:
            unexpected_keys.append(key)
        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != prefix + EXTRA_STATE:
                    first, *rest = key[len(prefix) :].split(".", 1)
                    if first not in (self._modules if rest else own):
                        unexpected_keys.append(key)

    def _take(self, name: str, key: str, member: Tensor, loaded: Any, assign: bool) -> str | None:
        """Copy a loaded tensor to a member, or use it as the member if `assign`; return an error message or None."""
        if not isinstance(loaded, Tensor):
            return (
                f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from '
                f"checkpoint but received {type(loaded)}"
            )
        if is_lazy(member) and is_lazy(loaded):
            return None
        if loaded.shape != member.shape:
            return (
                f"size mismatch for {key}: copying a param with shape {loaded.shape} from checkpoint, the shape in "
                f"current model is {member.shape}."
            )
        if get_swap_module_params_on_conversion():
            _swap(member, loaded, assign)
        elif not assign:
            from ...autograd import no_grad

            with no_grad():
                member.copy_(loaded)
        elif name in self._parameters:
            parameter = loaded if isinstance(loaded, Parameter) else Parameter(loaded, member.requires_grad)
            self._parameters[name] = parameter
        else:
            self._buffers[name] = loaded
        return None

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy the tensors of `state_dict` into this module's (`torch.nn.Module.load_state_dict`).

        Args:
            strict: If True, raise an error for missing and unexpected names. Default: True.
            assign: If True, the tensors themselves become the module's, with their dtype and device. Default: False.

        Raises:
            TypeError: `state_dict` is no mapping.
            RuntimeError: names or shapes do not fit; everything that does has been loaded.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        metadata = getattr(state_dict, "_metadata", {})
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []

        self._load_below(OrderedDict(state_dict), "", metadata, assign, missing, unexpected, errors)
        if strict:
            for kind, keys in (("Unexpected", unexpected), ("Missing", missing)):
                if keys:
                    names = ", ".join(f'"{key}"' for key in keys)
                    errors.insert(0, f"{kind} key(s) in state_dict: {names}. ")
        if errors:
            lines = "\n\t".join(itertools.chain([""], errors))
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:{lines}")
        return IncompatibleKeys(missing, unexpected)

    def _load_below(
        self,
        known: dict[str, Any],
        prefix: str,
        metadata: Mapping[str, Any],
        assign: bool,
        missing: list[str],
        unexpected: list[str],
        errors: list[str],
    ) -> None:
        """Load the tensors of this module and its children, and call the post hooks."""
        own = dict(metadata.get(prefix[:-1], {}))
        if assign:
            own["assign_to_params_buffers"] = True
        self._load_from_state_dict(known, prefix, own, True, missing, unexpected, errors)
        for name, child in self._modules.items():
            if child is not None:
                below = f"{prefix}{name}."
                inner = {key: value for key, value in known.items() if key.startswith(below)}
                child._load_below(inner, below, metadata, assign, missing, unexpected, errors)
        keys = IncompatibleKeys(missing, unexpected)
        for hook in self._load_state_dict_post_hooks.values():
            if hook(self, keys) is not None:
                raise RuntimeError(
                    "Hooks registered with register_load_state_dict_post_hook are not expected to return new "
                    "values: change the keys in place"
                )

    def register_state_dict_pre_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call ``hook(module, prefix, keep_vars)`` before this module's state is taken."""
        return added(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata)`` after it; it may change the dictionary."""
        return added(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Register a hook as `register_state_dict_post_hook` does; its result, unless None, replaces the state."""
        return added(self._state_dict_hooks, _ReplacingHook(hook))

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., None], with_module: bool = False
    ) -> RemovableHandle:
        """Register a hook as `register_load_state_dict_pre_hook` does; pass it the module only if `with_module`."""
        return added(self._load_state_dict_pre_hooks, hook if with_module else _HookWithoutModule(hook))

    def register_load_state_dict_pre_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)``
        before this module loads; it may change them.
        """
        return added(self._load_state_dict_pre_hooks, hook)

    def register_load_state_dict_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call ``hook(module, incompatible_keys)`` after it; it may change the lists in place."""
        return added(self._load_state_dict_post_hooks, hook)
