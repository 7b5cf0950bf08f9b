"""Fine-tune a network with LoRA: adapt it to new data through two small matrices for each weight.

    python examples/finetune_lora.py [--device cpu|cuda] [--rank 4] [--epochs 15] [--seed 0]

A perceptron learns handwritten digits, then digits that are turned by a quarter. LoRA keeps each weight W and learns
W + B A, where B (out, rank) begins with zeros (Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021).
`nn.utils.parametrize` adds B A to any module's weight, and merges it for inference. The script prints the accuracy on
both kinds of digits beside that of fine-tuning all weights.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

import triten as tt
import triten.nn.functional as F
from triten import nn
from triten.nn.utils import parametrize

DIGITS = Path(__file__).with_name("digits.npz")
TEST_IMAGES = 360
Digits: TypeAlias = tuple[tt.Tensor, tt.Tensor]
"""Images (N, 64) and their labels (N,)."""


class LoRA(nn.Module):
    """Parametrization of a weight (out, in): the weight plus the matmul of B (out, rank) and A (rank, in)."""

    def __init__(self, weight: tt.Tensor, rank: int, alpha: float = 8.0) -> None:
        super().__init__()
        outputs, inputs = weight.shape
        self.a = nn.Parameter(tt.randn(rank, inputs, device=weight.device) / rank)
        self.b = nn.Parameter(tt.zeros(outputs, rank, device=weight.device))
        self.scale = alpha / rank

    def forward(self, weight: tt.Tensor) -> tt.Tensor:
        return weight + self.scale * (self.b @ self.a)


def add_lora(model: nn.Module, rank: int) -> nn.Module:
    """Freeze a model and add LoRA to the weights of its linear layers, in place."""
    model.requires_grad_(False)
    for module in [each for each in model.modules() if isinstance(each, nn.Linear)]:
        parametrize.register_parametrization(module, "weight", LoRA(module.weight, rank))
    return model


def merge_lora(model: nn.Module) -> nn.Module:
    """Replace each weight by W + B A, in place: the model has its first architecture again."""
    for module in list(model.modules()):
        if parametrize.is_parametrized(module, "weight"):
            parametrize.remove_parametrizations(module, "weight", leave_parametrized=True)
    return model


def load_digits(device: str) -> tuple[Digits, Digits]:
    """Return the images (N, 64) in [0, 1] with their labels, for training and for the test."""
    with np.load(DIGITS) as archive:
        images = tt.from_numpy(archive["images"].astype(np.float32) / 16).flatten(1).to(device)
        labels = tt.from_numpy(archive["labels"].astype(np.int64)).to(device)
    order = tt.from_numpy(np.random.default_rng(0).permutation(len(labels))).to(device)
    parts = order[TEST_IMAGES:], order[:TEST_IMAGES]
    train, test = ((images[part], labels[part]) for part in parts)
    return train, test


def turned(data: Digits) -> Digits:
    """Return the images turned by a quarter."""
    images, labels = data
    return images.view(-1, 8, 8).rot90(1, (1, 2)).flatten(1), labels


def train(model: nn.Module, data: Digits, epochs: int, learning_rate: float) -> None:
    """Train the parameters that require gradients."""
    images, labels = data
    optimizer = tt.optim.AdamW(
        [p for p in model.parameters() if p.requires_grad], lr=learning_rate, fused=True
    )
    for _ in range(epochs):
        for batch in tt.randperm(len(labels), device=labels.device).split(64):
            optimizer.zero_grad()
            F.cross_entropy(model(images[batch]), labels[batch]).backward()
            optimizer.step()


@tt.no_grad()
def accuracy(model: nn.Module, data: Digits) -> float:
    """Return the percentage of images with the right label."""
    images, labels = data
    return 100 * (model(images).argmax(1) == labels).double().mean().item()


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, fine-tune in both ways, and print the table."""
    parser = argparse.ArgumentParser(description="Fine-tune a network with LoRA.")
    parser.add_argument("--device", default="cuda" if tt.cuda.is_available() else "cpu")
    parser.add_argument("--rank", type=int, default=4, help="of the added matrices. Default: 4")
    parser.add_argument("--epochs", type=int, default=15, help="of the training and of each fine-tuning")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    tt.manual_seed(options.seed)
    data, test = load_digits(options.device)
    model = nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)
    ).to(options.device)
    train(model, data, options.epochs, 3e-3)

    full = copy.deepcopy(model)
    train(full, turned(data), options.epochs, 3e-3)
    adapted = add_lora(copy.deepcopy(model), options.rank)
    count = sum(p.numel() for p in adapted.parameters() if p.requires_grad)
    train(adapted, turned(data), options.epochs, 1e-2)
    logits = adapted(test[0])
    merge_lora(adapted)

    total = sum(p.numel() for p in model.parameters())
    print(f"{'':16} {'parameters':>10} {'upright, %':>10} {'turned, %':>10}")
    for name, each, trained in (
        ("trained", model, total),
        ("all weights", full, total),
        ("LoRA", adapted, count),
    ):
        print(f"{name:16} {trained:10,} {accuracy(each, test):10.1f} {accuracy(each, turned(test)):10.1f}")
    same = tt.allclose(adapted(test[0]), logits, atol=1e-4)
    print(f"merged weights give the same logits: {same}")


if __name__ == "__main__":
    main()
