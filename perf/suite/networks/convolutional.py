"""Convolutional networks: residual, grouped, depthwise, and an encoder with a decoder."""

from __future__ import annotations

from types import ModuleType
from typing import Any


def _normalized(nn: Any, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> Any:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    )


def residual_network(
    library: ModuleType, width: int, blocks: int, groups: int, classes: int, stem: int = 3
) -> Any:
    """Four stages of residual blocks: of two 3x3 layers as ResNet-18 with one group, else as ResNeXt's bottlenecks.

    A stem of 7 is that of ResNet-18: a 7x7 layer of stride 2, and a max-pool.
    """
    nn = library.nn

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            layers = [
                _normalized(nn, inputs, outputs, 3, stride),
                nn.ReLU(),
                _normalized(nn, outputs, outputs, 3),
            ]
            if groups > 1:
                layers = [
                    _normalized(nn, inputs, outputs, 1), nn.ReLU(),
                    _normalized(nn, outputs, outputs, 3, stride, groups), nn.ReLU(),
                    _normalized(nn, outputs, outputs, 1),
                ]  # fmt: skip
            self.body = nn.Sequential(*layers)
            same = inputs == outputs and stride == 1
            self.shortcut = nn.Identity() if same else _normalized(nn, inputs, outputs, 1, stride)
            self.activation = nn.ReLU()

        def forward(self, x: Any) -> Any:
            return self.activation(self.body(x) + self.shortcut(x))

    layers = [_normalized(nn, 3, width, stem, 1 if stem == 3 else 2), nn.ReLU()]
    layers += [] if stem == 3 else [nn.MaxPool2d(3, 2, 1)]
    inputs = width
    for stage in range(4):
        outputs = width << stage
        for number in range(blocks):
            layers.append(Block(inputs, outputs, 2 if stage and not number else 1))
            inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


def mobile_network(library: ModuleType, width: int, classes: int) -> Any:
    """Depthwise layers between 1x1 layers, as MobileNet for CIFAR's images."""
    nn = library.nn
    layers, inputs = [_normalized(nn, 3, width, 3), nn.ReLU6()], width
    for outputs, stride in ((2, 1), (4, 2), (4, 1), (8, 2), (8, 1), (16, 2), (16, 1)):
        layers += [_normalized(nn, inputs, inputs, 3, stride, inputs), nn.ReLU6()]
        layers += [_normalized(nn, inputs, width * outputs, 1), nn.ReLU6()]
        inputs = width * outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


def convnext(library: ModuleType, widths: tuple[int, ...], blocks: int, classes: int) -> Any:
    """Blocks of a depthwise 7x7 layer and a perceptron over channels, as ConvNeXt."""
    nn = library.nn

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, width: int) -> None:
            super().__init__()
            self.spatial = nn.Conv2d(width, width, 7, padding=3, groups=width)
            self.norm = nn.LayerNorm(width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            self.scale = nn.Parameter(library.full((width,), 1e-2))

        def forward(self, x: Any) -> Any:
            y = self.mlp(self.norm(self.spatial(x).permute(0, 2, 3, 1))) * self.scale
            return x + y.permute(0, 3, 1, 2)

    layers, inputs = [], 3
    for stage, width in enumerate(widths):
        size = 2 if stage else 4
        layers.append(nn.Conv2d(inputs, width, size, size))
        layers += [Block(width) for _ in range(blocks)]
        inputs = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


def u_network(library: ModuleType, width: int, classes: int) -> Any:
    """Logits of every pixel from an encoder and a decoder that see each other, as U-Net."""
    nn = library.nn

    def layers(inputs: int, outputs: int) -> Any:
        return nn.Sequential(
            _normalized(nn, inputs, outputs, 3), nn.ReLU(), _normalized(nn, outputs, outputs, 3), nn.ReLU()
        )

    class UNetwork(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.down = nn.ModuleList(
                [layers(3, width), layers(width, 2 * width), layers(2 * width, 4 * width)]
            )
            self.up = nn.ModuleList(
                [nn.ConvTranspose2d(4 * width, 2 * width, 2, 2), nn.ConvTranspose2d(2 * width, width, 2, 2)]
            )
            self.merge = nn.ModuleList([layers(4 * width, 2 * width), layers(2 * width, width)])
            self.pool = nn.MaxPool2d(2)
            self.head = nn.Conv2d(width, classes, 1)

        def forward(self, x: Any) -> Any:
            first = self.down[0](x)
            second = self.down[1](self.pool(first))
            y = self.down[2](self.pool(second))
            y = self.merge[0](library.cat((self.up[0](y), second), 1))
            y = self.merge[1](library.cat((self.up[1](y), first), 1))
            return self.head(y)

    return UNetwork()
