"""In-place and ``out=`` forms of compositions: the result, copied to where it is wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..structured.native.indexing import can_cast


def write_out(name: str, out: Any, result: Any) -> Any:
    """Put a composition's result into an ``out=`` tensor, resized where its shape is another."""
    if out._spec.device is not result._spec.device:
        raise RuntimeError(
            f"{name}(): expected out tensor to be on device {result._spec.device}, but got "
            f"{out._spec.device} instead"
        )
    if not can_cast(result._spec.dtype, out._spec.dtype):
        raise RuntimeError(
            f"{name}(): result type {result._spec.dtype.scalar_name} can't be cast to the desired output "
            f"type {out._spec.dtype.scalar_name}"
        )
    if result._spec.requires_grad:
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, but one "
            "of the arguments requires grad."
        )
    if out._spec.sizes != result._spec.sizes:
        out.resize_(result._spec.sizes)
    return out.copy_(result)


def out_form(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The ``out=`` form of a composition with one result or several, which takes its outputs last."""

    def form(*args: Any) -> Any:
        result = function(*args[: len(args) - 1])
        return write_out(name, args[-1], result)

    return form


def inplace_form(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The in-place form of a composition."""

    def form(self: Any, *args: Any) -> Any:
        result = function(self, *args)
        if result._spec.sizes != self._spec.sizes:
            raise RuntimeError(
                f"output with shape {list(self._spec.sizes)} doesn't match the broadcast shape "
                f"{list(result._spec.sizes)}"
            )
        if not can_cast(result._spec.dtype, self._spec.dtype):
            raise RuntimeError(
                f"result type {result._spec.dtype.scalar_name} can't be cast to the desired output type "
                f"{self._spec.dtype.scalar_name}"
            )
        return self.copy_(result)

    return form
