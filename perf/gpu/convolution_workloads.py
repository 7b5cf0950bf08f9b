"""Gradients of ResNet-50's convolutions, bfloat16, channels last: of the input and of the weight, a row each.

The shapes and the batch are those of the forward rows. The first layer has no gradient of its input: images
are data.
"""

from __future__ import annotations

from collections.abc import Iterator

from .workloads import Workload, resnet50

GROUP = "conv2d gradients, ResNet-50"
MASKS = {"input": "[True, False, False]", "weight": "[False, True, False]"}
"""Output masks of `convolution_backward`, whose outputs are the gradients of input, weight and bias."""


def convolution_gradients(scale: int) -> Iterator[Workload]:
    """Yield the rows. `scale` divides the sizes, for a rehearsal."""
    for layer in resnet50(scale):
        stride, padding = layer.stride, layer.padding
        window = f"[{stride}, {stride}], [{padding}, {padding}], [1, 1], False, [0, 0], 1"
        for number, (name, mask) in enumerate(MASKS.items()):
            if name == "input" and layer.is_first:
                continue
            yield Workload(
                GROUP,
                f"{name} of {layer.name}",
                f"lib.ops.aten.convolution_backward(g, x, w, None, {window}, {mask})[{number}]",
                {"g": layer.result, "x": layer.image, "w": layer.weight},
                flops=layer.flops,
            )
