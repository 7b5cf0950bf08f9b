"""Operators over lists of tensors, for the gate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .optimizer_samples import lists
from .sample import FLOATING, Sample, empty, tt

UNARY = ("abs", "ceil", "exp", "log", "neg", "reciprocal", "rsqrt", "sigmoid", "sign", "sqrt", "tanh")
NAME = "multi_tensor_pointwise"


def foreach(capability: int) -> Iterator[Sample]:
    """Yield each number of operands in every dtype, and each function with its own shape in float32 and
    float64.
    """
    for dtype in FLOATING:
        a, b, c = lists(dtype, 3)
        element = empty(dtype=dtype)
        programs: dict[str, Callable[[], Any]] = {
            "add_ of numbers": lambda a=a: tt._foreach_add_(a, 1.5),
            "mul_ by an element": lambda a=a, e=element: tt._foreach_mul_(a, e),
            "add of lists": lambda a=a, b=b: tt._foreach_add(a, b, alpha=2.0),
            "addcdiv_": lambda a=a, b=b, c=c: tt._foreach_addcdiv_(a, b, c, value=0.5),
            "lerp_ by weights": lambda a=a, b=b, c=c: tt._foreach_lerp_(a, b, c),
            "copy_": lambda a=a, b=b: tt._foreach_copy_(a, b),
            "zero_": lambda a=a: tt._foreach_zero_(a),
        }
        if dtype in ("float32", "float64"):
            programs |= {name: lambda a=a, n=name: getattr(tt, f"_foreach_{n}")(a) for name in UNARY}
            programs |= {
                "clamp_max": lambda a=a: tt._foreach_clamp_max(a, 1.0),
                "div": lambda a=a, b=b: tt._foreach_div(a, b),
                "addcmul": lambda a=a, b=b, c=c: tt._foreach_addcmul(a, b, c, value=0.5),
            }
        for label, program in programs.items():
            # A load of zero_ is of no use, so that there is none.
            yield Sample(f"foreach {label} {dtype}", program, () if label == "zero_" else (NAME,))
        yield Sample(f"foreach clamp_within {dtype}", lambda a=a: clip_by_value(a), (NAME,))
        for order in (1.0, 2.0, float("inf"), -float("inf")):
            yield Sample(
                f"foreach norm of order {order} {dtype}",
                lambda a=a, o=order: tt._foreach_norm(a, o),
                ("multi_tensor_norm_parts",),
            )
            yield Sample(
                f"norm of all of order {order} {dtype}",
                lambda a=a, o=order: tt.nn.utils.get_total_norm(a, o),
                ("multi_tensor_norm_parts",),
            )
        mixed = [*a, empty(1 << 20)]
        yield Sample(f"norm of all with float32 {dtype}", lambda m=mixed: tt.nn.utils.get_total_norm(m))


def clip_by_value(gradients: list[Any]) -> None:
    """Hold gradients within a range."""
    parameters = [tt.empty_like(gradient) for gradient in gradients]
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient
    tt.nn.utils.clip_grad_value_(parameters, 1.0)
