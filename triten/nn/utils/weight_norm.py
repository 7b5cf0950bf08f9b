"""Weight normalization by hooks, the form before `parametrizations` (`torch.nn.utils.weight_norm`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...dispatch.generated import functions as _ops
from ..modules.module import Module
from ..modules.parameter import Parameter
from .parametrizations import normed

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor
from .norm_hooks import Given, NormHook, hook_of

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]


class WeightNorm(NormHook):
    """``<name>_g`` times the direction of ``<name>_v``."""

    title = "weight_norm"

    def __init__(self, name: str, dim: int) -> None:
        super().__init__(name)
        self.dim = dim

    def weight(self, module: Module) -> Tensor:
        """Return magnitude times direction."""
        magnitude, direction = (getattr(module, f"{self.name}_{part}") for part in "gv")
        return normed(direction, magnitude, self.dim)


def weight_norm(module: Given, name: str = "weight", dim: int | None = 0) -> Given:
    """Parametrize a weight as ``<name>_g`` times the direction of ``<name>_v`` (`torch.nn.utils.weight_norm`).

    Prefer `tt.nn.utils.parametrizations.weight_norm`, which is newer.

    Raises:
        RuntimeError: The weight already has a weight norm.

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
    hook_of(module, WeightNorm, name).detach(module, "g v")
    return module
