"""Whole programs: training the digits network for an epoch, a step of a transformer block."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ...interleaved import Slice, timed_without_collector
from ..libraries import Library
from ..workload import Operand, Scale, Workload, bar, normal

DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits.npz"
BAR = 1.3
BATCH, LR, MOMENTUM = 32, 0.05, 0.9
SHAPES = ((16, 1, 3, 3), (16,), (32, 16, 3, 3), (32,), (64, 512), (64,), (10, 64), (10,))


class DigitsTraining:
    """The network of `examples/train_digits.py` with SGD, in one library: calling it trains a number of batches.

    Raises FileNotFoundError where the digits are not: they are in a checkout, not in the wheel.
    """

    def __init__(self, library: Library) -> None:
        names = library.names()
        self.library, self.functional = names["tt"], names["F"]
        generator = np.random.default_rng(0)
        self.parameters = [
            library.tensor(Operand(lambda array=array: array, requires_grad=True))
            for shape in SHAPES
            for array in [_weights(generator, shape)]
        ]
        self.optimizer = self.library.optim.SGD(self.parameters, LR, MOMENTUM)
        with np.load(DIGITS) as archive:
            images = archive["images"].astype(np.float32)[:, None] / 16
            labels = archive["labels"].astype(np.int64)
        self.images, self.labels = (
            library.tensor(Operand(lambda array=array: array)) for array in (images, labels)
        )

    @property
    def batches(self) -> int:
        """Batches of an epoch."""
        return math.ceil(len(self.labels) / BATCH)

    def forward(self, images: Any) -> Any:
        """Logits."""
        f = self.functional
        conv1, bias1, conv2, bias2, hidden, bias3, output, bias4 = self.parameters
        x = f.relu(f.conv2d(images, conv1, bias1, padding=1))
        x = f.max_pool2d(f.relu(f.conv2d(x, conv2, bias2, padding=1)), 2)
        return f.linear(f.relu(f.linear(x.flatten(1), hidden, bias3)), output, bias4)

    def __call__(self, batches: int) -> float:
        """Return the sum of the losses."""
        total = 0.0
        for number in range(batches):
            chosen = slice(number * BATCH, (number + 1) * BATCH)
            loss = self.functional.cross_entropy(self.forward(self.images[chosen]), self.labels[chosen])
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += loss.item()
        return total


def _weights(generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    scale = math.sqrt(2 / math.prod(shape[1:])) if len(shape) > 1 else 0.0
    return (generator.standard_normal(shape) * scale).astype(np.float32)


def workloads(scale: Scale) -> Iterator[Workload]:
    """Yield an epoch of the digits (a few batches for a quick run), then a transformer block's step."""
    batches = scale.side(0, 8, 2)
    yield Workload(
        "end_to_end", "training", f"digits, {batches} batches" if batches else "digits, an epoch",
        "1797 images", "float32", direction="both", bar=bar(BAR), host=True, repetitions=1,
        prepare=lambda library: _prepare_digits(library, batches),
    )  # fmt: skip
    tokens, width = scale.side(256, 64, 8), scale.side(256, 128, 16)
    heads = 4
    split = f".view({tokens}, 3, {heads}, {width // heads}).permute(1, 2, 0, 3)"
    statement = (
        f"h = F.layer_norm(x, ({width},))\n"
        f"q, k, v = F.linear(h, wqkv){split}\n"
        f"h = F.scaled_dot_product_attention(q, k, v).transpose(0, 1).reshape({tokens}, {width})\n"
        "x1 = x + F.linear(h, wo)\n"
        f"y = x1 + F.linear(F.gelu(F.linear(F.layer_norm(x1, ({width},)), w1)), w2)\n"
        "y.square().mean().backward()"
    )
    shapes = {
        "wqkv": (3 * width, width), "wo": (width, width), "w1": (4 * width, width), "w2": (width, 4 * width)
    }  # fmt: skip
    operands = {
        name: Operand(normal(*shape, scale=shape[1] ** -0.5), requires_grad=True)
        for name, shape in shapes.items()
    }
    yield Workload(
        "end_to_end", "transformer block", "transformer block with backward", f"{tokens}x{width}", "float32",
        statement, "", operands | {"x": Operand(normal(tokens, width))}, direction="both", bar=bar(BAR),
        result="(wqkv.grad, wo.grad, w1.grad, w2.grad)", reset="wqkv.grad = wo.grad = w1.grad = w2.grad = None",
    )  # fmt: skip


def _prepare_digits(library: Library, batches: int) -> Slice | None:
    if library.is_arrays:
        return None
    training = DigitsTraining(library)
    number = batches or training.batches

    def work(count: int) -> float:
        library.synchronize()
        seconds = timed_without_collector(lambda: [training(number) for _ in range(count)])
        library.synchronize()
        return seconds

    return work
