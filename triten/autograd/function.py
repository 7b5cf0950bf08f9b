"""Functions with a backward of their own (`torch.autograd.function`)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..dispatch.autograd.function import Function, FunctionCtx, FunctionMeta
from ..dispatch.autograd.grad_mode import no_grad
from ..dispatch.tensor import Tensor
from ..runtime.grad_mode import is_grad_enabled

__all__ = [
    "BackwardCFunction",
    "Function",
    "FunctionCtx",
    "FunctionMeta",
    "InplaceFunction",
    "once_differentiable",
]

BackwardCFunction = FunctionCtx
"""The base of the nodes of functions, under PyTorch's name."""


class InplaceFunction(Function):
    """A function that may write to its input; it keeps whether it does as ``inplace``."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


class _NotTwice(Function):
    """Passes tensors on, and refuses to differentiate them."""

    @staticmethod
    def forward(*tensors: Tensor) -> Any:
        return tensors

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Save nothing; with this method, `apply` also works inside transforms."""

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        raise RuntimeError(
            "trying to differentiate twice a function that was marked with @once_differentiable"
        )


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a `Function.backward` that computes without a graph, for example by NumPy
    (`torch.autograd.function.once_differentiable`).

    A second derivative through its results raises RuntimeError instead of returning a wrong number.

    Example:
        >>> import triten as tt
        >>> from triten.autograd.function import once_differentiable
        >>> class Double(tt.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         return 2 * x
        ...     @staticmethod
        ...     @once_differentiable
        ...     def backward(ctx, grad):
        ...         return 2 * grad
        >>> x = tt.ones(2, requires_grad=True)
        >>> Double.apply(x).sum().backward()
        >>> x.grad
        tensor([2., 2.])
    """

    @functools.wraps(backward)
    def guarded(ctx: Any, *args: Any) -> Any:
        with no_grad():
            results = backward(ctx, *args)
        if not is_grad_enabled() or not any(isinstance(a, Tensor) and a.requires_grad for a in args):
            return results
        outputs = results if isinstance(results, tuple) else (results,)
        tensors = [each.detach()._set_requires_grad() for each in outputs if isinstance(each, Tensor)]
        marked = iter(_NotTwice.apply(*tensors) if tensors else ())
        passed = tuple(next(marked) if isinstance(each, Tensor) else each for each in outputs)
        return passed if isinstance(results, tuple) else passed[0]

    return guarded
