"""Gradients of ResNet-50's convolutions, bfloat16, channels last: of the input and of the weight, a row each.

The shapes and the batch are those of the forward rows. The first layer has no gradient of its input: images
are data.
"""

from __future__ import annotations

from collections.abc import Iterator

from .workloads import RESNET50, Operand, Workload

GROUP = "conv2d gradients, ResNet-50"
BATCH = 64
MASKS = {"input": "[True, False, False]", "weight": "[False, True, False]"}
"""Output masks of `convolution_backward`, whose outputs are the gradients of input, weight and bias."""


def convolution_gradients(scale: int) -> Iterator[Workload]:
    """Yield the rows. `scale` divides the sizes, for a rehearsal."""
    batch = max(BATCH // scale, 1)
    for given, filters, size, stride, side in RESNET50:
        channels = given
        if scale > 1:
            channels, filters, side = min(channels, 8), min(filters, 8), max(side // scale, size)
        padding = size // 2
        out = (side + 2 * padding - size) // stride + 1
        operands = {
            "g": Operand((batch, filters, out, out), "bfloat16", channels_last=True),
            "x": Operand((batch, channels, side, side), "bfloat16", channels_last=True),
            "w": Operand((filters, channels, size, size), "bfloat16", channels_last=True),
        }
        window = f"[{stride}, {stride}], [{padding}, {padding}], [1, 1], False, [0, 0], 1"
        for number, (name, mask) in enumerate(MASKS.items()):
            if name == "input" and given == 3:
                continue
            yield Workload(
                GROUP,
                f"{name} of conv2d {channels} to {filters}, {size}x{size}/{stride}, {side}",
                f"lib.ops.aten.convolution_backward(g, x, w, None, {window}, {mask})[{number}]",
                operands,
                flops=2 * batch * filters * out * out * channels * size * size,
            )
