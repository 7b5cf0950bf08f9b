"""Parametrizations: parameters computed as functions of other parameters (`torch.nn.utils.parametrize`)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from ...autograd import no_grad
from ...dispatch.tensor import Tensor
from ...runtime.traceback_filter import api_boundary
from ..modules.container import ModuleDict, ModuleList
from ..modules.module import Module
from ..modules.parameter import Parameter

Given = TypeVar("Given", bound=Module)

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]

_cache_enabled: int = 0
"""Number of blocks in progress that cache. Programs written for PyTorch count hooks of their own in it."""
_cache: dict[tuple[int, str], Tensor] = {}


@contextmanager
def cached() -> Iterator[None]:
    """Cache parametrized tensors: compute each once inside the block (`torch.nn.utils.parametrize.cached`).

    Example:
        >>> import triten as tt
        >>> layer = tt.nn.utils.parametrizations.weight_norm(tt.nn.Linear(2, 2))
        >>> with tt.nn.utils.parametrize.cached():
        ...     layer.weight is layer.weight
        True
        >>> layer.weight is layer.weight
        False
    """
    global _cache_enabled
    _cache_enabled += 1
    try:
        yield
    finally:
        _cache_enabled -= 1
        if not _cache_enabled:
            _cache.clear()


def _register(module: Module, name: str, tensor: Tensor) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _check_inverse(inverse: Tensor, before: Tensor, shown: str) -> None:
    """Raise ValueError if a `right_inverse` changes the class, dtype or shape of the tensor."""
    function_name = "parametrization.right_inverse"
    if not isinstance(inverse, Tensor):
        raise ValueError(f"{function_name} must return a tensor. Got: {type(inverse).__name__}")
    for kind, new, old in (("dtype", inverse.dtype, before.dtype), ("shape", inverse.shape, before.shape)):
        if new != old:
            raise ValueError(
                f"The tensor returned by {function_name} must have the same {kind} as {shown}, unless the `unsafe` "
                f"flag is enabled.\n{shown}.{kind}: {old}\nreturned {kind}: {new}"
            )


def _check_kept(parametrized: Tensor, before: Tensor, shown: str = "") -> None:
    """Raise ValueError if a parametrization changes the class, dtype or shape of the tensor.

    Args:
        parametrized: The parametrized tensor.
        before: The tensor.
        shown: Its name, of a further parametrization. Default: ``""``, for the first one.
    """
    if not isinstance(parametrized, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(parametrized).__name__}.")
    for kind, new, old in (
        ("dtype", parametrized.dtype, before.dtype),
        ("shape", parametrized.shape, before.shape),
    ):
        if new != old:
            flag = "the `unsafe` flag" if shown else "`unsafe` flag"
            values = (
                f"{shown}.{kind}: {old}\nparametrization({shown}).{kind}: {new}"
                if shown
                else f"unparametrized {kind}: {old}\nparametrized {kind}: {new}"
            )
            raise ValueError(
                f"Registering a parametrization may not change the {kind} of the tensor, unless {flag} is enabled.\n"
                f"{values}"
            )


class ParametrizationList(ModuleList):
    """The functions of one tensor, and what the first of them takes (`torch.nn.utils.parametrize.ParametrizationList`).

    That is ``original``, or ``original0``, ``original1`` ... where `right_inverse` of the first gives several.

    Args:
        modules: the functions, the first one first.
        original: the tensor as it was.
        unsafe: If True, they may change its dtype or shape, and may contradict their inverses. Default: False.

    Raises ValueError for functions that do what they may not, or that give no tensor.
    """

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        before = original.detach().clone()
        with no_grad():
            new: Any = original
            for module in reversed([*self]):
                if hasattr(module, "right_inverse"):
                    try:
                        new = module.right_inverse(new)
                    except NotImplementedError:
                        continue
        if not isinstance(new, Tensor | Sequence):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got "
                f"{type(new).__name__}"
            )
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if isinstance(new, Tensor) else len(new)
        if isinstance(new, Tensor):
            for kind in ("dtype", "device"):
                if getattr(original, kind) != getattr(new, kind):
                    raise ValueError(
                        f"When `right_inverse` outputs one tensor, it may not change the {kind}.\noriginal.{kind}: "
                        f"{getattr(original, kind)}\nright_inverse(original).{kind}: {getattr(new, kind)}"
                    )
            original.data = new.detach()
            _register(self, "original", original)
        else:
            for i, each in enumerate(new):
                if not isinstance(each, Tensor):
                    raise ValueError(
                        "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got element "
                        f"{i} of the sequence with type {type(each).__name__}."
                    )
                each = each.detach().clone()
                if isinstance(original, Parameter):
                    each = Parameter(each, original.requires_grad)
                _register(self, f"original{i}", each.requires_grad_(original.requires_grad))
        if not unsafe:
            _check_kept(self(), before)

    def right_inverse(self, value: Tensor) -> None:
        """Set what the first function takes so that the last gives `value`.

        Raises RuntimeError where a function has no inverse, ValueError for an inverse of another kind than before.
        """
        with no_grad():
            for module in reversed([*self]):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse."
                    )
                value = module.right_inverse(value)
            if self.is_tensor:
                if not isinstance(value, Tensor):
                    raise ValueError(f"`right_inverse` should return a tensor. Got {type(value).__name__}")
                parts = {"original": value}
            else:
                if not isinstance(value, Sequence) or isinstance(value, Tensor):
                    raise ValueError(
                        f"'right_inverse' must return a sequence of tensors. Got {type(value).__name__}."
                    )
                if len(value) != self.ntensors:
                    raise ValueError(
                        f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. Got a sequence "
                        f"of length {len(value)}."
                    )
                parts = {f"original{i}": each for i, each in enumerate(value)}
            for name, each in parts.items():
                original = getattr(self, name)
                if not isinstance(each, Tensor) or each.dtype != original.dtype:
                    dtype = each.dtype if isinstance(each, Tensor) else type(each).__name__
                    raise ValueError(
                        f"The tensor returned by `right_inverse` has dtype {dtype} while `{name}` has dtype "
                        f"{original.dtype}"
                    )
            for name, each in parts.items():
                getattr(self, name).data = each.detach().clone()

    def forward(self) -> Tensor:
        """Compute the tensor from the originals by applying each parametrization in turn."""
        names = ["original"] if self.is_tensor else [f"original{i}" for i in range(self.ntensors)]
        first, *remaining = [*self]
        value: Tensor = first(*(getattr(self, name) for name in names))
        for module in remaining:
            value = module(value)
        return value


def _refuse_state(self: Module) -> Any:
    raise RuntimeError("Serialization of parametrized modules is only supported through state_dict().")


def _copied(self: Module, memo: dict[int, Any]) -> Any:
    replica = object.__new__(type(self))
    memo[id(self)] = replica
    replica.__dict__.update(copy.deepcopy(self.__dict__, memo))
    return replica


def _as_property(name: str) -> property:
    def get(self: Any) -> Tensor:
        functions: Callable[[], Tensor] = self.parametrizations[name]
        if not _cache_enabled:
            return functions()
        key = (id(self), name)
        if key not in _cache:
            _cache[key] = functions()
        return _cache[key]

    def assign(self: Any, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    return property(get, assign)


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Return whether a module or its tensor is parametrized (`torch.nn.utils.parametrize.is_parametrized`)."""
    parametrizations = getattr(module, "parametrizations", None)
    if not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def type_before_parametrizations(module: Module) -> type:
    """Return a module's class before parametrization (`...parametrize.type_before_parametrizations`)."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


@api_boundary
def register_parametrization(
    module: Given, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Given:
    """Compute a module's tensor by a function (`torch.nn.utils.parametrize.register_parametrization`).

    The function's input is trained and saved, as ``parametrizations.<name>.original``. A second function takes the
    first one's result. Assigning to the tensor calls the functions' ``right_inverse``.

    Args:
        module: The module; its class becomes ``Parametrized...``.
        tensor_name: a parameter, a buffer, or a tensor that is parametrized.
        parametrization: a module that takes a tensor, or as many as its ``right_inverse`` gives.
        unsafe: If True, allow it to change dtype or shape. Default: False.

    Raises ValueError for a name that the module has not, and for functions that do what they may not.

    Example:
        >>> import triten as tt
        >>> class Symmetric(tt.nn.Module):
        ...     def forward(self, x):
        ...         return x.triu() + x.triu(1).mT
        >>> layer = tt.nn.Linear(3, 3)
        >>> layer = tt.nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
        >>> tt.equal(layer.weight, layer.weight.mT), [name for name, _ in layer.named_parameters()]
        (True, ['bias', 'parametrizations.weight.original'])
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        functions: Any = module.parametrizations[tensor_name]
        if not unsafe:
            before = getattr(module, tensor_name)
            parametrized = parametrization(before)
            _check_kept(parametrized, before, f"module.{tensor_name}")
            if hasattr(parametrization, "right_inverse"):
                try:
                    back = parametrization.right_inverse(parametrized)
                except NotImplementedError:
                    back = before
                _check_inverse(back, before, f"module.{tensor_name}")
        functions.append(parametrization)
        functions.unsafe |= unsafe
        return module
    if tensor_name not in module._parameters and tensor_name not in module._buffers:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
            f"'{tensor_name}'"
        )
    listed = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe=unsafe)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        cls = type(module)
        added: dict[str, Any] = {"__getstate__": _refuse_state}
        if not hasattr(cls, "__deepcopy__"):
            added["__deepcopy__"] = _copied
        module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), added)
        module.parametrizations = ModuleDict()
    setattr(module.__class__, tensor_name, _as_property(tensor_name))
    module.parametrizations[tensor_name] = listed
    return module


def remove_parametrizations(module: Given, tensor_name: str, leave_parametrized: bool = True) -> Given:
    """Undo `register_parametrization` (`torch.nn.utils.parametrize.remove_parametrizations`).

    Args:
        leave_parametrized: If True, the tensor stays what the functions made of it; else it is the original one.
            Default: True.

    Raises ValueError for a tensor that is not parametrized, and for originals that are several or of other sizes where
    the tensor shall not stay.

    Example:
        >>> import triten as tt
        >>> parametrize = tt.nn.utils.parametrize
        >>> layer = tt.nn.utils.parametrizations.weight_norm(tt.nn.Linear(2, 2))
        >>> type(parametrize.remove_parametrizations(layer, "weight")).__name__, parametrize.is_parametrized(layer)
        ('Linear', False)
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    functions: Any = module.parametrizations[tensor_name]
    if leave_parametrized:
        with no_grad():
            made = getattr(module, tensor_name).detach()
        if functions.is_tensor:
            original = functions.original
            original.data = made
        else:
            original = Parameter(made, functions.original0.requires_grad)
            if not isinstance(functions.original0, Parameter):
                original = made
    elif functions.is_tensor:
        original = functions.original
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a "
            "sequence of tensors."
        )
    delattr(module.__class__, tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, original)
    if not len(module.parametrizations):
        delattr(module, "parametrizations")
        module.__class__ = module.__class__.__bases__[0]
    return module


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Given, tensor_name: str | None = None
) -> Given:
    """Parametrize a module as another is, and give it the other's originals
    (`torch.nn.utils.parametrize.transfer_parametrizations_and_params`).

    Args:
        tensor_name: The name of one tensor. Default: all parametrized tensors.

    Raises ValueError where the other is not parametrized.

    Example:
        >>> import triten as tt
        >>> one = tt.nn.utils.parametrizations.weight_norm(tt.nn.Linear(2, 2))
        >>> other = tt.nn.utils.parametrize.transfer_parametrizations_and_params(one, tt.nn.Linear(2, 2))
        >>> tt.equal(one.weight, other.weight)
        True
    """
    if not is_parametrized(from_module):
        raise ValueError(f"Module {from_module} is not parametrized")
    source: Any = from_module.parametrizations
    for name in source if tensor_name is None else [tensor_name]:
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach().clone()))
        for function in source[name]:
            register_parametrization(to_module, name, function, unsafe=True)
        for part, value in source[name].__dict__["_parameters"].items():
            getattr(to_module.parametrizations[name], part).data = value.detach().clone()
    return to_module
