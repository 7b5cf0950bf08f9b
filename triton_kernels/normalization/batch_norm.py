"""batch_norm: statistics over samples and positions in two stages, then one launch that normalises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.memory_format import channels_last_strides
from ...runtime.tensor_spec import TensorSpec
from ..elementwise.copy import copy_kernel
from ..elementwise.elementwise import check_dtypes
from .channel_norm import ChannelNorm, Family, Lines, laid_out, lines_of, zeros
from .operands import as_row


def layout_of(spec: TensorSpec) -> TensorSpec:
    """Return the input's spec as contiguous or channels-last, which is also the layout of its results."""
    strides = TensorSpec.contiguous(spec.sizes, spec.dtype, spec.device).strides
    if spec.ndim in (4, 5) and not spec.is_contiguous and spec.strides == channels_last_strides(spec.sizes):
        strides = spec.strides
    return TensorSpec.of(spec.sizes, strides, spec.dtype, spec.device)


def batch_norm(call: StructuredCall) -> PlannedKernel:
    """Normalize (N, C, ...) over all but channels, by its own statistics or by the running ones."""
    args, training = call.args, call.extra["training"]
    x, weight, bias, running = (args[k] for k in ("input", "weight", "bias", "running_mean"))
    out, save_mean = call.outputs[:2]
    check_dtypes(call, [x, *(spec for spec in (weight, bias, running) if spec is not None)])
    own = TensorSpec.of(out.sizes, out.strides, x.dtype, x.device)
    norm = ChannelNorm(call, own)
    c = x.sizes[1]
    lines = lines_of(own, 1)
    family = Family(c, 1, c)
    gather = laid_out(x, own)
    rows = [as_row(args[name]) for name in ("weight", "bias", "running_mean", "running_var")]
    statistic = save_mean if training else running
    normalise = norm.normalise(lines, family, statistic, weight, bias, not training)
    measure = _measured(call, norm, lines) if training else None

    def into(
        out_data: Any,
        mean: Any,
        rstd: Any,
        data: Any,
        weights: Any,
        biases: Any,
        run_mean: Any,
        run_var: Any,
        momentum: Any,
        eps: Any,
    ) -> None:
        data = gather(data)
        w, b = rows[0](weights), rows[1](biases)
        if measure is not None:
            measure(mean, rstd, data, run_mean, run_var, momentum, eps)
            m, v = mean, rstd
        else:
            m, v = rows[2](run_mean), rows[3](run_var)
        normalise((data, out_data, m, v, w, b), float(eps))

    return PlannedKernel(into)


def batch_norm_statistics(call: StructuredCall) -> PlannedKernel:
    """Means and reciprocal deviations of the channels of (N, C, ...); running statistics are brought up to date."""
    x, running = call.args["input"], call.args["running_mean"]
    check_dtypes(call, [x, *(() if running is None else (running,))])
    own = layout_of(x)
    gather = laid_out(x, own)
    measure = _measured(call, ChannelNorm(call, own), lines_of(own, 1))

    def into(mean: Any, rstd: Any, data: Any, run_mean: Any, run_var: Any, momentum: Any, eps: Any) -> None:
        measure(mean, rstd, gather(data), run_mean, run_var, momentum, eps)

    return PlannedKernel(into)


def _measured(call: StructuredCall, norm: ChannelNorm, lines: Lines) -> Callable[..., None]:
    """``(mean, rstd, x, running_mean, running_var, momentum, eps)``: the statistics of a batch."""
    args = call.args
    names = ("running_mean", "running_var")
    c, device, running = args["input"].sizes[1], args["input"].device, args["running_mean"]
    rows = [as_row(args[name]) for name in names]
    moments = norm.moments(lines, c, lines.lines // c, None, running)
    back = None
    if running is not None and not all(args[name].is_contiguous for name in names):
        back = [
            copy_kernel(args[name], TensorSpec.contiguous(args[name].sizes, args[name].dtype, device))
            for name in names
        ]

    def measure(
        mean: Any, rstd: Any, data: Any, run_mean: Any, run_var: Any, momentum: Any, eps: Any
    ) -> None:
        m, v = rows[0](run_mean), rows[1](run_var)
        moments(data, mean, rstd, None, None, m, v, float(momentum), float(eps), 0.0)
        if back is not None:
            back[0](run_mean, m)
            back[1](run_var, v)

    return measure


def batch_norm_backward(call: StructuredCall) -> PlannedKernel:
    """Compute the gradients of input, weight and bias; in evaluation, statistics are constants."""
    args, train = call.args, call.extra["train"]
    grad, x, mean, spread, weight = (args[k] for k in ("grad_out", "input", "mean", "spread", "weight"))
    grad_input, grad_weight, grad_bias = call.extra["outputs"]
    check_dtypes(call, [x, grad, mean, spread, *(spec for spec in (weight,) if spec is not None)])
    if x.numel == 0:
        return zeros(call)
    own = grad_input if grad_input is not None else layout_of(x)
    own = TensorSpec.of(own.sizes, own.strides, x.dtype, x.device)
    norm = ChannelNorm(call, own)
    c = x.sizes[1]
    lines = lines_of(own, 1)
    family = Family(c, 1, c)
    gather = (laid_out(grad, own), laid_out(x, own))
    rows = [as_row(spec) for spec in (mean, spread, weight)]
    total = norm.scratch(c)
    param_specs = (grad_bias, grad_weight)
    summed = (train and grad_input is not None) or any(spec is not None for spec in param_specs)
    if summed:
        sums, parts = norm.gradient_sums(lines, family, (mean, spread), not train)
        shaped = norm.scratch(lines.lines // c, c, parts.sizes[1])
        results = [spec if spec is not None and spec.dtype is total.dtype else total for spec in param_specs]
        add_up = norm.sums(shaped, (0, 2), total)
        casts = [
            None if spec is None or spec is result else copy_kernel(spec, total)
            for spec, result in zip(param_specs, results, strict=True)
        ]
    shift = total if train else None
    if grad_input is not None:
        gradients = norm.gradients(lines, family, (mean, spread), weight, shift, not train, False)
    scale = c / x.numel

    def into(
        to_x: Any, to_w: Any, to_b: Any, g: Any, data: Any, m: Any, r: Any, weights: Any, eps: Any
    ) -> None:
        g, data = gather[0](g), gather[1](data)
        m, r, weights = (row(each) for row, each in zip(rows, (m, r, weights), strict=True))
        eps = float(eps)
        totals: list[Any] = [None, None]
        if summed:
            made = [norm.room(parts), norm.room(parts)]
            sums((g, data, m, r, *made), eps)
            for i, (out, cast) in enumerate(zip((to_b, to_w), casts, strict=True)):
                direct = out is not None and cast is None
                totals[i] = out if direct else norm.room(total)
                add_up(totals[i], made[i])
                if cast is not None:
                    cast(out, totals[i])
        if to_x is not None:
            shifts = totals if train else (None, None)
            gradients((g, data, m, r, weights, *shifts, to_x), scale, eps)

    return PlannedKernel(into)


register_stub("native_batch_norm_stub", "cuda", batch_norm)
register_stub("batch_norm_statistics_stub", "cuda", batch_norm_statistics)
register_stub("native_batch_norm_backward_stub", "cuda", batch_norm_backward)
