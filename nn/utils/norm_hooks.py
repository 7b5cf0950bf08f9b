"""Weight and spectral normalization by hooks, the forms before `parametrizations` (`torch.nn.utils`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, TypeVar

from ...autograd import no_grad
from ...dispatch.generated import functions as _ops
from .. import functional as F
from ..modules.module import Module
from ..modules.parameter import Parameter
from .parametrizations import as_matrix, normed, output_dim

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor

Given = TypeVar("Given", bound=Module)

__all__ = ["remove_spectral_norm", "remove_weight_norm", "spectral_norm", "weight_norm"]


class NormHook:
    """Sets a module's weight before each forward pass, from tensors that stand in its place."""

    title: ClassVar[str]

    def __init__(self, name: str) -> None:
        self.name = name

    def weight(self, module: Module) -> Tensor:
        """The weight from what stands in its place."""
        raise NotImplementedError(f"{self.title} has no weight")

    def __call__(self, module: Module, inputs: object) -> None:
        setattr(module, self.name, self.weight(module))

    def attach(self, module: Module) -> None:
        """Have a module call the hook. Raises RuntimeError where another of its kind stands for the weight."""
        for hook in module._forward_pre_hooks.values():
            if type(hook) is type(self) and hook.name == self.name:
                raise RuntimeError(
                    f"Cannot register two {self.title} hooks on the same parameter {self.name}"
                )
        module.register_forward_pre_hook(self)

    def detach(self, module: Module, suffixes: str) -> None:
        """Make the weight a parameter again."""
        with no_grad():
            weight = self.weight(module).detach()
        for name in (self.name, *(f"{self.name}_{suffix}" for suffix in suffixes.split())):
            delattr(module, name)
        module.register_parameter(self.name, Parameter(weight))


def _hook_of(module: Module, kind: type[NormHook], name: str) -> NormHook:
    """Take a hook off a module. Raises ValueError where it has none."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, kind) and hook.name == name:
            del module._forward_pre_hooks[key]
            return hook
    raise ValueError(f"{kind.title} of '{name}' not found in {module}")


class WeightNorm(NormHook):
    """``<name>_g`` times the direction of ``<name>_v``."""

    title = "weight_norm"

    def __init__(self, name: str, dim: int) -> None:
        super().__init__(name)
        self.dim = dim

    def weight(self, module: Module) -> Tensor:
        """The product."""
        magnitude, direction = (getattr(module, f"{self.name}_{part}") for part in "gv")
        return normed(direction, magnitude, self.dim)


def weight_norm(module: Given, name: str = "weight", dim: int | None = 0) -> Given:
    """A weight as ``<name>_g`` times the direction of ``<name>_v`` (`torch.nn.utils.weight_norm`).

    `tt.nn.utils.parametrizations.weight_norm` is newer. Raises RuntimeError for a second one of a weight.

    Example:
        >>> import triten as tt
        >>> layer = tt.nn.utils.weight_norm(tt.nn.Linear(3, 2))
        >>> [name for name, _ in layer.named_parameters()]
        ['bias', 'weight_g', 'weight_v']
    """
    hook = WeightNorm(name, -1 if dim is None else dim)
    hook.attach(module)
    weight: Tensor = getattr(module, name)
    delattr(module, name)
    module.register_parameter(f"{name}_g", Parameter(_ops.norm_except_dim(weight.detach(), 2, hook.dim)))
    module.register_parameter(f"{name}_v", Parameter(weight.detach()))
    hook(module, None)
    return module


def remove_weight_norm(module: Given, name: str = "weight") -> Given:
    """Undo `weight_norm` (`torch.nn.utils.remove_weight_norm`). Raises ValueError where there is none.

    Example:
        >>> import triten as tt
        >>> layer = tt.nn.utils.remove_weight_norm(tt.nn.utils.weight_norm(tt.nn.Linear(3, 2)))
        >>> [name for name, _ in layer.named_parameters()]
        ['bias', 'weight']
    """
    _hook_of(module, WeightNorm, name).detach(module, "g v")
    return module


class SpectralNorm(NormHook):
    """``<name>_orig`` over its largest singular value, which ``<name>_u`` and ``<name>_v`` follow."""

    title = "spectral_norm"

    def __init__(self, name: str, iterations: int, dim: int, eps: float) -> None:
        super().__init__(name)
        if iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={iterations}"
            )
        self.n_power_iterations, self.dim, self.eps = iterations, dim, eps

    def weight(self, module: Module, iterations: int = 0) -> Tensor:
        """The quotient, after so many iterations."""
        original: Tensor
        original, u, v = (getattr(module, f"{self.name}_{part}") for part in ("orig", "u", "v"))
        matrix = as_matrix(original, self.dim)
        with no_grad():
            for _ in range(iterations):
                v.copy_(F.normalize(matrix.mT @ u, dim=0, eps=self.eps))
                u.copy_(F.normalize(matrix @ v, dim=0, eps=self.eps))
        return original / _ops.dot(u.clone(), matrix @ v.clone())

    def __call__(self, module: Module, inputs: object) -> None:
        setattr(module, self.name, self.weight(module, self.n_power_iterations if module.training else 0))


def spectral_norm(
    module: Given,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Given:
    """``<name>_orig`` over its largest singular value as a weight (`torch.nn.utils.spectral_norm`).

    Arguments are those of `tt.nn.utils.parametrizations.spectral_norm`, which is newer. Raises RuntimeError for a
    second one of a weight, ValueError for a number of iterations below 1 and a weight that is None.

    Example:
        >>> import triten as tt
        >>> layer = tt.nn.utils.spectral_norm(tt.nn.Linear(3, 2))
        >>> sorted(layer.state_dict())
        ['bias', 'weight_orig', 'weight_u', 'weight_v']
    """
    hook = SpectralNorm(name, n_power_iterations, output_dim(module) if dim is None else dim, eps)
    weight = module._parameters.get(name)
    if weight is None and f"{name}_orig" not in module._parameters:
        raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
    hook.attach(module)
    weight = module._parameters[name]
    delattr(module, name)
    module.register_parameter(f"{name}_orig", weight)
    setattr(module, name, weight.detach())
    with no_grad():
        matrix = as_matrix(weight.detach(), hook.dim)
        for part, size in zip("uv", matrix.shape, strict=True):
            drawn = matrix.new_empty(size).normal_()
            module.register_buffer(f"{name}_{part}", F.normalize(drawn, dim=0, eps=eps))
    return module


def remove_spectral_norm(module: Given, name: str = "weight") -> Given:
    """Undo `spectral_norm` (`torch.nn.utils.remove_spectral_norm`). Raises ValueError where there is none.

    Example:
        >>> import triten as tt
        >>> layer = tt.nn.utils.remove_spectral_norm(tt.nn.utils.spectral_norm(tt.nn.Linear(3, 2)))
        >>> sorted(layer.state_dict())
        ['bias', 'weight']
    """
    _hook_of(module, SpectralNorm, name).detach(module, "orig u v")
    return module
