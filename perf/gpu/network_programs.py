"""Training steps of GPT-2, ResNet-50 and ViT-B under bfloat16 autocast, with AdamW."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import Any

from ..suite.networks import transformers
from .program import Program, Step

TRAINING = "training step of networks"
LR = 1e-4
RESNET50_MULTIPLY_ADDS = 4.089e9
"""Of the forward pass of an image of 224x224 pixels, as PyTorch's documentation of its model says."""
STAGES = (3, 4, 6, 3)
"""Bottleneck blocks in each stage of ResNet-50."""


def training(
    make: Callable[[ModuleType], Any],
    inputs: Callable[[ModuleType, str], tuple[Any, Any]],
    channels_last: bool,
    library: ModuleType,
    device: str,
    compiled: bool,
) -> Step:
    """Return a training step: forward, cross-entropy, backward, AdamW. It returns the loss."""
    model = make(library).to(device)
    x, y = inputs(library, device)
    if channels_last:
        model = model.to(memory_format=library.channels_last)
        x = x.contiguous(memory_format=library.channels_last)
    optimizer = library.optim.AdamW(model.parameters(), lr=LR, fused=True)
    forward = library.compile(model) if compiled else model

    def step() -> Any:
        with library.autocast(device, dtype=library.bfloat16):
            loss = library.nn.functional.cross_entropy(forward(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step


def gpt_inputs(vocabulary: int, batch: int, length: int, library: ModuleType, device: str) -> tuple[Any, Any]:
    """Return tokens and the tokens that follow."""
    tokens = library.randint(0, vocabulary, (batch, length), device=device)
    return tokens, library.randint(0, vocabulary, (batch * length,), device=device)


def image_inputs(classes: int, batch: int, side: int, library: ModuleType, device: str) -> tuple[Any, Any]:
    """Return images and their classes."""
    images = library.randn(batch, 3, side, side, device=device)
    return images, library.randint(0, classes, (batch,), device=device)


def bottleneck_network(width: int, stages: tuple[int, ...], classes: int, library: ModuleType) -> Any:
    """Return ResNet-50 for a width of 64: bottleneck blocks whose 3x3 convolution has the stride."""
    nn = library.nn

    def normalized(inputs: int, outputs: int, kernel: int, stride: int = 1) -> list[Any]:
        return [
            nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False),
            nn.BatchNorm2d(outputs),
        ]

    class Bottleneck(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, inputs: int, inner: int, stride: int) -> None:
            super().__init__()
            self.body = nn.Sequential(
                *normalized(inputs, inner, 1), nn.ReLU(), *normalized(inner, inner, 3, stride), nn.ReLU(),
                *normalized(inner, 4 * inner, 1),
            )  # fmt: skip
            same = stride == 1 and inputs == 4 * inner
            self.shortcut = (
                nn.Identity() if same else nn.Sequential(*normalized(inputs, 4 * inner, 1, stride))
            )
            self.activation = nn.ReLU()

        def forward(self, x: Any) -> Any:
            return self.activation(self.body(x) + self.shortcut(x))

    layers = [*normalized(3, width, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inputs = width
    for number, blocks in enumerate(stages):
        inner = width << number
        for block in range(blocks):
            layers.append(Bottleneck(inputs, inner, 2 if number and not block else 1))
            inputs = 4 * inner
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


def transformer_flops(
    parameters: int, tokens: int, layers: int, width: int, length: int, causal: bool
) -> int:
    """Return the operations of a training step: 6 a parameter and token, and attention's two matmuls.

    `parameters` are those of matmuls. Reference: Kaplan et al., Scaling Laws for Neural Language Models (2020).
    """
    attention = 12 * layers * width * length * tokens
    return 6 * parameters * tokens + (attention // 2 if causal else attention)


def network_programs(scale: int) -> Iterator[Program]:
    """Yield the training steps. `scale` divides the sizes, for a rehearsal."""
    tiny = scale > 1
    vocabulary, length, width, heads, layers = (16, 8, 16, 2, 1) if tiny else (50304, 1024, 768, 12, 12)
    batch = 1 if tiny else 16
    block, tokens = 12 * width * width, batch * length
    yield Program(
        TRAINING, "GPT-2 124M" if not tiny else "GPT-2, scaled down",
        partial(
            training, lambda library: transformers.gpt(library, vocabulary, length, width, heads, layers),
            partial(gpt_inputs, vocabulary, batch, length), False,
        ),
        flops=transformer_flops(layers * block + vocabulary * width, tokens, layers, width, length, True),
        can_compile=True,
    )  # fmt: skip
    side, classes, images = (16, 4, 1) if tiny else (224, 1000, 256)
    yield Program(
        TRAINING, f"ResNet-50, {images} images, channels-last",
        partial(
            training, partial(bottleneck_network, 4 if tiny else 64, (1,) if tiny else STAGES, classes),
            partial(image_inputs, classes, images, side), True,
        ),
        flops=0 if tiny else int(3 * 2 * RESNET50_MULTIPLY_ADDS * images), can_compile=True,
    )  # fmt: skip
    images = 1 if tiny else 64
    patches = (side // 16) ** 2
    yield Program(
        TRAINING, f"ViT-B, {images} images",
        partial(
            training,
            lambda library: transformers.vision_transformer(library, side, 16, width, heads, layers, classes),
            partial(image_inputs, classes, images, side), False,
        ),
        flops=transformer_flops(layers * block, images * patches, layers, width, patches, False), can_compile=True,
    )  # fmt: skip
