"""`OptimizedModule`: a module whose calls are compiled (torch/_dynamo/eval_frame.py)."""

from __future__ import annotations

from typing import Any

from ..nn.modules.module import Module
from .backends import Backend
from .optimized import OptimizedFunction
from .options import PLAIN_OPTIONS, Options


class OptimizedModule(Module):
    """Wrapper of a module whose calls run as graphs.

    Parameters, attributes and `train()` are those of the original module, `_orig_mod`. Names in the state dict have
    this prefix, as in PyTorch.
    """

    _orig_mod: Module

    def __init__(
        self,
        module: Module,
        backend: str | Backend,
        fullgraph: bool = False,
        limit: int | None = None,
        options: Options = PLAIN_OPTIONS,
    ) -> None:
        super().__init__()
        self.__dict__["_compiled"] = OptimizedFunction(module, backend, fullgraph, limit, options)
        self._orig_mod = module
        self.training = module.training

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module within, compiled; its hooks are part of the call."""
        return self.__dict__["_compiled"](*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module."""
        return self(*args, **kwargs)

    def train(self, mode: bool = True) -> OptimizedModule:
        """Set the mode of both."""
        self.training = mode
        self._orig_mod.train(mode)
        return self

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return self.__dict__["_modules"]["_orig_mod"]
        return getattr(self._orig_mod, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("_orig_mod", "training") or "_orig_mod" not in self.__dict__.get("_modules", {}):
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._orig_mod, name)

    def __reduce__(self) -> Any:
        compiled = self.__dict__["_compiled"]
        return OptimizedModule, (
            self._orig_mod, compiled.backend, compiled.fullgraph, compiled.own_limit, compiled.options,
        )  # fmt: skip
