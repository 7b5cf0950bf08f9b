"""Spectral normalization by hooks, the form before `parametrizations` (`torch.nn.utils.spectral_norm`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...autograd import no_grad
from ...dispatch.generated import functions as _ops
from .. import functional as F
from ..modules.module import Module
from .parametrizations import as_matrix, output_dim

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor
from .norm_hooks import Given, NormHook, hook_of

__all__ = ["SpectralNorm", "remove_spectral_norm", "spectral_norm"]


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
        """Divide the weight by its largest singular value, after `iterations` power iterations."""
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
    hook_of(module, SpectralNorm, name).detach(module, "orig u v")
    return module
