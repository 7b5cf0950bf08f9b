"""Calls of convolutions that reach every configuration of their kernels."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from .sample import Sample, empty, gradients, tt

flags: Any = importlib.import_module("...runtime.float32_precision", __package__)

NARROW = ("convolve", "convolve_backward_weight", "add_parts")
WIDE = ("convolve", "add_parts")
"""TF32 on tensor cores and float64 want what is summed innermost, which pixels are not: elements go one by one."""
STRIDED = ("convolve_bulk_strided", "convolve_bulk_phases")
DEPTHWISE = ("convolve_depthwise", "convolve_depthwise_backward_weight")


def last(*sizes: int, dtype: str) -> Any:
    """Return a channels-last CUDA tensor of any spatial rank."""
    n, c, *spatial = sizes
    moved = empty(n, *spatial, c, dtype=dtype)
    return moved.permute((0, len(spatial) + 1, *range(1, len(spatial) + 1)))


def gradients_last(function: Callable[..., Any], *inputs: Any) -> None:
    """Forward and backward, the gradient with channels innermost as the result has them."""
    leaves = [x.detach().requires_grad_() for x in inputs]
    result = function(*leaves)
    result.backward(last(*result.shape, dtype=inputs[0].dtype.name))


def exactly(run: Callable[[], object]) -> None:
    """Run a call with IEEE float32 convolutions."""
    flags.set_precision("conv", "ieee")
    try:
        run()
    finally:
        flags.set_precision("conv", "tf32")


def convolutions(capability: int) -> Iterator[Sample]:
    """Yield all samples; for bfloat16 also layouts and forms that change no configuration."""
    for dtype in ("bfloat16", "float32", "float16", "float64"):
        yield from channels_innermost(dtype)
        yield from channels_outermost(dtype)
        yield from few_channels(dtype)
        yield from depthwise(dtype)
    yield from forms()


def channels_innermost(dtype: str) -> Iterator[Sample]:
    wide = NARROW if dtype in ("bfloat16", "float16") else WIDE
    for images, channels, filters, side, label in (
        (64, 256, 128, 28, "channels last"),
        (64, 64, 64, 56, "channels last of 64 filters"),
        (1, 64, 128, 14, "channels last of few pixels"),
        (256, 256, 512, 28, "channels last of many filters"),
    ):
        x, w = (
            last(images, channels, side, side, dtype=dtype),
            last(filters, channels, 3, 3, dtype=dtype),
        )
        b = empty(filters, dtype=dtype)
        run = partial(gradients_last, lambda *a: tt.conv2d(*a, (1, 1), (1, 1)), x, w, b)
        claims = () if images == 1 else (*wide, "convolve_bulk", "convolve_backward_weight_bulk")
        if dtype in ("bfloat16", "float16") or images != 256:
            yield Sample(f"conv2d {dtype} {label}", run, claims)
            doubled = last(images, channels, 2 * side, 2 * side, dtype=dtype)
            strided = partial(gradients_last, lambda *a: tt.conv2d(*a, (2, 2), (1, 1)), doubled, w, b)
            yield Sample(f"conv2d {dtype} {label}, strided", strided, (*claims, *STRIDED) if claims else ())
            # The last fold of an odd side has no second phase, so pointers read the pixels.
            odd = last(images, channels, 2 * side + 1, 2 * side + 1, dtype=dtype)
            pointers = partial(gradients_last, lambda *a: tt.conv2d(*a, (2, 2), (0, 0)), odd, w, b)
            yield Sample(f"conv2d {dtype} {label}, odd sides", pointers, wide if claims else ())
        if dtype in ("bfloat16", "float16") and images == 1:
            # Few tiles, whose steps are split along K.
            few, many = last(4, 512, 14, 14, dtype=dtype), last(512, 512, 3, 3, dtype=dtype)
            for stride in (1, 2):
                parts = partial(
                    gradients_last, lambda a, f, s=stride: tt.conv2d(a, f, None, (s, s), (1, 1)), few, many
                )
                yield Sample(
                    f"conv2d {dtype} {label}, many channels, stride {stride}", parts, ("convolve_bulk_parts",)
                )
        if dtype == "float32" and images != 256:
            yield Sample(f"conv2d {dtype} exactly, {label}", partial(exactly, run), claims)


def channels_outermost(dtype: str) -> Iterator[Sample]:
    x, w, b = (empty(*sizes, dtype=dtype) for sizes in ((16, 128, 56, 56), (128, 128, 3, 3), (128,)))
    run = partial(tt.conv2d, x, w, b, (1, 1), (1, 1))
    yield Sample(f"conv2d {dtype} contiguous", run, ("lay_out",))
    # With operands of one shape, the compiler emits one kernel, whose pointers have no names.
    both = partial(gradients, lambda *a: tt.conv2d(*a, (1, 1), (1, 1)), x, w, b)
    yield Sample(f"conv2d {dtype} contiguous, with gradients", both)
    if dtype in ("bfloat16", "float16"):
        # Planes that the weight's gradient reads as they lie.
        planes, tap = empty(16, 128, 64, 64, dtype=dtype), empty(256, 128, 1, 1, dtype=dtype)
        yield Sample(f"conv2d {dtype} contiguous of one tap", partial(gradients, tt.conv2d, planes, tap))


def few_channels(dtype: str) -> Iterator[Sample]:
    first, filters = empty(64, 3, 224, 224, dtype=dtype), empty(64, 3, 7, 7, dtype=dtype)
    yield Sample(f"conv2d {dtype} of three channels", lambda: tt.conv2d(first, filters, None, (2, 2), (3, 3)))
    count = 32 if dtype == "float64" else 64
    small, few = empty(2, 8, 14, 14, dtype=dtype), empty(count, 8, 3, 3, dtype=dtype)
    yield Sample(
        f"conv2d {dtype} of eight channels and few pixels",
        partial(gradients, lambda a, f: tt.conv2d(a, f), small, few),
    )
    wider = empty(64, 16, 56, 56, dtype=dtype), empty(256, 16, 3, 3, dtype=dtype)
    yield Sample(
        f"conv2d {dtype} of 16 channels",
        partial(gradients, lambda a, f: tt.conv2d(a, f, None, (1, 1), (1, 1)), *wider),
    )


def depthwise(dtype: str) -> Iterator[Sample]:
    for layout in ("channels last", "contiguous"):
        make, through = (last, gradients_last) if layout == "channels last" else (empty, gradients)
        x, w = make(64, 96, 56, 56, dtype=dtype), empty(96, 1, 3, 3, dtype=dtype)
        yield Sample(
            f"conv2d {dtype} depthwise {layout}",
            partial(through, lambda a, f: tt.conv2d(a, f, None, (1, 1), (1, 1), (1, 1), 96), x, w),
            DEPTHWISE if layout == "channels last" else (),
        )


def forms() -> Iterator[Sample]:
    dtype = "bfloat16"
    x, w = empty(64, 64, 28, 28, dtype=dtype), empty(128, 64, 3, 3, dtype=dtype)
    yield Sample(
        "conv2d bfloat16 contiguous, strided",
        partial(gradients, lambda a, f: tt.conv2d(a, f, None, (2, 2), (1, 1)), x, w),
    )
    volume, cube = last(8, 64, 16, 28, 28, dtype=dtype), last(64, 64, 3, 3, 3, dtype=dtype)
    yield Sample(
        "conv3d bfloat16 channels last",
        partial(gradients_last, lambda a, f: tt.conv3d(a, f, None, (2, 2, 2), (1, 1, 1)), volume, cube),
    )
    strided, grouped = empty(16, 64, 57, 57, dtype=dtype), empty(128, 32, 3, 3, dtype=dtype)
    yield Sample(
        "conv2d bfloat16 with strides, dilation and groups",
        partial(gradients, lambda a, f: tt.conv2d(a, f, None, (2, 2), (1, 1), (2, 2), 2), strided, grouped),
    )
    small, wider = last(16, 64, 56, 56, dtype=dtype), last(64, 128, 4, 4, dtype=dtype)
    yield Sample(
        "conv_transpose2d bfloat16",
        partial(gradients_last, lambda a, f: tt.conv_transpose2d(a, f, None, (2, 2), (1, 1)), small, wider),
    )
    tap = empty(256, 64, 1, 1, dtype=dtype)
    yield Sample("conv2d bfloat16 of one tap", lambda: tt.conv2d(small, tap))
