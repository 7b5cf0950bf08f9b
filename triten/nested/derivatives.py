"""Calls of autograd: they go to the values, in whose graph the derivatives are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..autograd import backward as run_backward
from ..autograd import grad as run_grad
from .nested_tensor import JAGGED, NestedTensor, values_of


@JAGGED.signature("grad")
def grad(outputs: Any, inputs: Any, grad_outputs: Any = None, **named: Any) -> tuple[Any, ...]:
    input_list = [inputs] if not isinstance(inputs, list | tuple) else inputs
    gradients = run_grad(values_of(outputs), values_of(input_list), values_of(grad_outputs), **named)
    return tuple(
        each.like(gradient) if isinstance(each, NestedTensor) and gradient is not None else gradient
        for each, gradient in zip(input_list, gradients, strict=True)
    )


@JAGGED.signature("backward")
def backward(tensors: Any = None, grad_tensors: Any = None, *args: Any, **named: Any) -> None:
    tensors = named.pop("input", tensors)
    grad_tensors = named.pop("gradient", grad_tensors)
    named["inputs"] = values_of(named.get("inputs"))
    run_backward(values_of(tensors), values_of(grad_tensors), *args, **named)


@JAGGED.signature("register_hook")
def register_hook(input: NestedTensor, hook: Callable[[Any], Any]) -> Any:
    return input._packed.register_hook(lambda gradient: values_of(hook(input.like(gradient))))
