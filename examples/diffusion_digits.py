"""Train a diffusion model on handwritten digits and sample the digits that it is asked for.

    python examples/diffusion_digits.py [--device cpu|cuda] [--epochs 60] [--seed 0]

A convolutional network learns to find the noise in a noisy image, given the noise level and the digit (Ho et al.,
"Denoising Diffusion Probabilistic Models", 2020), with the cosine schedule of Nichol and Dhariwal (2021). Sampling
begins with noise and removes it in a few deterministic steps (Song et al., "Denoising Diffusion Implicit Models",
2021). The script prints the samples and how many have the digit that was asked for, by their nearest training image.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

import triten as tt
import triten.nn.functional as F
from triten import nn

DIGITS = Path(__file__).with_name("digits.npz")
SHADES = " .:-=+*#%@"


class Block(nn.Module):
    """Residual block of two convolutions; the condition (N, width) is added between them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(4, width), nn.GroupNorm(4, width)
        self.conv1, self.conv2 = (nn.Conv2d(width, width, 3, padding=1) for _ in range(2))
        self.condition = nn.Linear(width, width)

    def forward(self, x: tt.Tensor, condition: tt.Tensor) -> tt.Tensor:
        h = self.conv1(F.silu(self.norm1(x))) + self.condition(condition)[:, :, None, None]
        return x + self.conv2(F.silu(self.norm2(h)))


class Denoiser(nn.Module):
    """Noisy images (N, 1, 8, 8), noise levels (N,) in [0, 1] and labels (N,) to the noise (N, 1, 8, 8)."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.frequencies = width // 2
        self.label, self.level = nn.Embedding(10, width), nn.Linear(width, width)
        self.enter, self.leave = nn.Conv2d(1, width, 3, padding=1), nn.Conv2d(width, 1, 3, padding=1)
        self.down, self.up = nn.Conv2d(width, width, 3, 2, 1), nn.ConvTranspose2d(width, width, 4, 2, 1)
        self.outer1, self.inner1, self.inner2, self.outer2 = (Block(width) for _ in range(4))

    def forward(self, x: tt.Tensor, level: tt.Tensor, label: tt.Tensor) -> tt.Tensor:
        scale = tt.exp(tt.linspace(0, math.log(1000), self.frequencies, device=x.device))
        angles = level[:, None] * scale
        condition = F.silu(self.level(tt.cat([angles.sin(), angles.cos()], 1)) + self.label(label))
        skip = self.outer1(self.enter(x), condition)
        inner = self.inner2(self.inner1(self.down(skip), condition), condition)
        return self.leave(F.silu(self.outer2(skip + self.up(inner), condition)))


def signal_and_noise(level: tt.Tensor) -> tuple[tt.Tensor, tt.Tensor]:
    """Return the factors of image and noise at a level (N,), each (N, 1, 1, 1): the cosine schedule."""
    angle = (level * (math.pi / 2) * 0.98).view(-1, 1, 1, 1)
    return angle.cos(), angle.sin()


def loss_of(model: Denoiser, images: tt.Tensor, labels: tt.Tensor) -> tt.Tensor:
    """Return the mean squared error of the noise, at a random level for each image."""
    noise, level = tt.randn_like(images), tt.rand(len(images), device=images.device)
    signal, sigma = signal_and_noise(level)
    return F.mse_loss(model(signal * images + sigma * noise, level, labels), noise)


@tt.no_grad()
def sample(model: Denoiser, labels: tt.Tensor, steps: int = 20) -> tt.Tensor:
    """Sample images (N, 1, 8, 8) of labels (N,): at each step estimate the image, and take less noise."""
    x = tt.randn(len(labels), 1, 8, 8, device=labels.device)
    levels = tt.linspace(1, 0, steps + 1, device=labels.device)
    for now, then in pairwise(levels):
        noise = model(x, now.expand(len(labels)), labels)
        signal, sigma = signal_and_noise(now)
        image = ((x - sigma * noise) / signal).clamp(-1, 1)
        signal, sigma = signal_and_noise(then)
        x = signal * image + sigma * noise
    return x


def picture(images: tt.Tensor) -> str:
    """Return images (N, 1, 8, 8) in [-1, 1] as text, side by side."""
    shades = ((images.squeeze(1).cpu() + 1) / 2 * (len(SHADES) - 1)).round().clamp(0, len(SHADES) - 1).int()
    rows = shades.transpose(0, 1).tolist()
    return "\n".join("  ".join("".join(SHADES[value] for value in part) for part in row) for row in rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train the model, sample each digit, and print how many are right."""
    parser = argparse.ArgumentParser(description="Train a diffusion model on handwritten digits.")
    parser.add_argument("--device", default="cuda" if tt.cuda.is_available() else "cpu")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--images", type=int, default=1797, help="of the data. Default: all 1797")
    parser.add_argument("--samples", type=int, default=10, help="of each digit. Default: 10")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    tt.manual_seed(options.seed)
    with np.load(DIGITS) as archive:
        images = tt.from_numpy(archive["images"][: options.images].astype(np.float32)[:, None] / 8 - 1)
        labels = tt.from_numpy(archive["labels"][: options.images].astype(np.int64))
    images, labels = images.to(options.device), labels.to(options.device)
    model = Denoiser().to(options.device)
    optimizer = tt.optim.AdamW(model.parameters(), lr=2e-3, fused=True)
    steps = options.epochs * math.ceil(len(images) / 64)
    scheduler = tt.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for epoch in range(1, options.epochs + 1):
        total = tt.zeros((), device=options.device)
        for batch in tt.randperm(len(images), device=images.device).split(64):
            loss = loss_of(model, images[batch], labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            total += loss.detach() * len(batch)
        if epoch % max(1, options.epochs // 6) == 0:
            print(f"epoch {epoch:3}: mean squared error {total.item() / len(images):.4f}", flush=True)
    digits = tt.arange(10, device=options.device).repeat(options.samples)
    samples = sample(model.eval(), digits)
    print(picture(samples[:10]))
    nearest = labels[tt.cdist(samples.flatten(1), images.flatten(1)).argmin(1)]
    print(f"digits as asked for: {100 * (nearest == digits).double().mean().item():.0f} %")


if __name__ == "__main__":
    main()
