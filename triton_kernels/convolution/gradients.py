"""Both gradients of a convolution by one operator, which lays out once what both of them read."""

from __future__ import annotations

import dataclasses
from typing import Any

from ...dispatch.structured import choices
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from . import backward_weight as of_weight
from .convolution import backward_input, laid, plan_laid
from .layout_copies import plan_copies
from .pointwise import is_product
from .problem import Problem
from .strided import subsampled
from .volume import as_volume, sums_of, window_of


def backward_both(call: StructuredCall) -> PlannedKernel:
    """Compute the gradients of input and weight of a convolution that is not transposed."""
    args, (to_input, to_weight) = call.args, call.outputs
    grad, source, weight = (as_volume(args[name]) for name in ("grad_output", "input", "weight"))
    window, groups = window_of(call, args["weight"].sizes[2:]), args["groups"]
    problem = Problem(grad, weight, None, as_volume(to_input), groups, window, True)
    out = as_volume(to_weight)
    is_empty = 0 in (grad.numel, to_input.numel, to_weight.numel)
    if is_empty or of_weight.is_depthwise(out, groups) or is_product(problem):
        choices.chosen("one after the other", "the gradients share no operand that is laid out anew")
        return one_after_the_other(call)
    sums = sums_of(call, grad)
    problem, gradient, filters = laid(problem, sums)
    read, over = subsampled(source, window) if groups == 1 else (source, window)
    own, data = of_weight.laid(call, grad, read, out, groups, over)
    if own.is_copied and gradient.is_copied:
        own = gradient
    elif own.is_copied:
        gradient = own
        problem = dataclasses.replace(problem, source=of_weight.unpadded(own))
    copied = plan_copies((gradient, filters, data))
    multiply = plan_laid(call._replace(outputs=(to_input,)), problem, sums)
    specs = of_weight.unpadded(own), of_weight.unpadded(data), out
    sum_up = of_weight.plan_weight(call._replace(outputs=(to_weight,)), *specs, groups, over)
    if copied is None or own.is_copied:

        def into(first: Any, second: Any, g: Any, x: Any, w: Any) -> None:
            if copied is not None:
                g, w, x = copied(g, w, x)
            multiply(first, g, w)
            sum_up(second, g, x)

        return PlannedKernel(into)

    def into_as_it_lies(first: Any, second: Any, g: Any, x: Any, w: Any) -> None:
        laid_g, w, x = copied(g, w, x)
        multiply(first, laid_g, w)
        sum_up(second, g, x)

    return PlannedKernel(into_as_it_lies)


def one_after_the_other(call: StructuredCall) -> PlannedKernel:
    """Compute each gradient by a kernel that makes its own layout copies."""
    args, (to_input, to_weight) = call.args, call.outputs
    sizes = {"input_size": args["input"].sizes, "weight_size": args["weight"].sizes}
    first, second = (
        kernel(call._replace(args={**args, **sizes}, outputs=(out,))).into
        for kernel, out in ((backward_input, to_input), (of_weight.backward_weight, to_weight))
    )

    def into(out: Any, of_filters: Any, g: Any, x: Any, w: Any) -> None:
        first(out, g, w)
        second(of_filters, g, x)

    return PlannedKernel(into)


register_stub("_convolution_backward_both_stub", "cuda", backward_both)
