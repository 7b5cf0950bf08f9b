"""Base of weight and spectral normalization by hooks that compute a weight before each forward pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, TypeVar

from ...autograd import no_grad
from ..modules.module import Module
from ..modules.parameter import Parameter
from ..modules.uninitialized import is_lazy

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor

__all__ = ["NormHook"]


Given = TypeVar("Given", bound=Module)


class NormHook:
    """Hook that computes a module's weight before each forward pass, from the parameters that replace it."""

    title: ClassVar[str]

    def __init__(self, name: str) -> None:
        self.name = name

    def weight(self, module: Module) -> Tensor:
        """Compute the weight from the parameters that replace it. Every subclass overrides this method.

        Raises:
            NotImplementedError: The subclass does not override it.
        """
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
        if is_lazy(getattr(module, self.name)):
            title = self.title.replace("_", " ")
            raise ValueError(
                f"The module passed to `{type(self).__name__}` can't have uninitialized parameters. Make sure to run "
                f"the dummy forward before applying {title}alization"
            )
        module.register_forward_pre_hook(self)

    def detach(self, module: Module, suffixes: str) -> None:
        """Make the weight a parameter again."""
        with no_grad():
            weight = self.weight(module).detach()
        for name in (self.name, *(f"{self.name}_{suffix}" for suffix in suffixes.split())):
            delattr(module, name)
        module.register_parameter(self.name, Parameter(weight))


def hook_of(module: Module, kind: type[NormHook], name: str) -> NormHook:
    """Take a hook off a module. Raises ValueError where it has none."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, kind) and hook.name == name:
            del module._forward_pre_hooks[key]
            return hook
    raise ValueError(f"{kind.title} of '{name}' not found in {module}")
