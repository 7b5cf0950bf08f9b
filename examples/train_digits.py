"""Train a small convolutional network on handwritten digits and print its accuracy on unseen digits.

    python examples/train_digits.py [--device cpu|cuda|auto] [--epochs 20] [--batch-size 32] [--seed 0]

The network has two convolutions, a max-pool and two linear layers; the optimizer is SGD with momentum.
`--device auto` uses the GPU if there is one.

Data: `digits.npz`, 1,797 images of 8x8 pixels (0..16) in ten classes, split once by a fixed permutation into
1,437 for training and 360 for the test. Source: "Optical Recognition of Handwritten Digits" (E. Alpaydin and
C. Kaynak, 1998), UCI Machine Learning Repository, https://doi.org/10.24432/C50P49, licence CC BY 4.0.
"""

import argparse
import math
import time
from pathlib import Path

import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import triten as tt
import triten.nn.functional as F
from triten import nn

DIGITS = Path(__file__).with_name("digits.npz")
TEST_IMAGES = 360


def load_digits(device: str) -> tuple[tt.Tensor, tt.Tensor, tt.Tensor, tt.Tensor]:
    """Training images (1437, 1, 8, 8) float32 in [0, 1], their labels (1437,) int64; 360 of each to test."""
    with np.load(DIGITS) as archive:
        images = archive["images"].astype(np.float32)[:, None] / 16
        labels = archive["labels"].astype(np.int64)
    order = np.random.default_rng(0).permutation(len(labels))
    test, train = order[:TEST_IMAGES], order[TEST_IMAGES:]
    parts = (images[train], labels[train], images[test], labels[test])
    train_images, train_labels, test_images, test_labels = (tt.from_numpy(part).to(device) for part in parts)
    return train_images, train_labels, test_images, test_labels


class ConvNet(nn.Module):
    """Images (N, 1, 8, 8) to logits (N, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.hidden = nn.Linear(32 * 4 * 4, 64)
        self.output = nn.Linear(64, 10)
        for layer in self.children():
            # Keeps the variance through a ReLU (He et al., 2015).
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)

    def forward(self, images: tt.Tensor) -> tt.Tensor:
        x = F.relu(self.conv1(images))
        x = F.relu(self.conv2(x))
        x = F.max_pool2d(x, 2)
        x = F.relu(self.hidden(x.flatten(1)))
        return self.output(x)


def accuracy(model: ConvNet, images: tt.Tensor, labels: tt.Tensor) -> float:
    """Percentage of the images whose largest logit is at their label."""
    with tt.no_grad():
        correct = model(images).argmax(dim=1) == labels
        return 100 * correct.sum().item() / len(labels)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a small convolutional network on handwritten digits.")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.05, help="initial rate; a cosine takes it to zero")
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--seed", type=int, default=0, help="of weights and the order of batches")
    arguments = parser.parse_args()
    if arguments.epochs < 1 or arguments.batch_size < 1:
        parser.error("--epochs and --batch-size must be at least 1")
    return arguments


def main() -> None:
    arguments = parse_arguments()
    device = arguments.device
    if device == "auto":
        device = "cuda" if tt.cuda.is_available() else "cpu"
    tt.manual_seed(arguments.seed)
    train_images, train_labels, test_images, test_labels = load_digits(device)
    model = ConvNet().to(device)
    optimizer = tt.optim.SGD(model.parameters(), arguments.lr, arguments.momentum)
    print(f"device: {device}, {len(train_labels)} training and {len(test_labels)} test images")

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    steps = math.ceil(len(train_labels) / arguments.batch_size)
    started = time.perf_counter()
    with Progress(*columns) as progress:
        bar = progress.add_task("training", total=arguments.epochs * steps)
        for epoch in range(arguments.epochs):
            cosine = 0.5 * (1 + math.cos(math.pi * epoch / arguments.epochs))
            optimizer.param_groups[0]["lr"] = arguments.lr * cosine
            order = tt.randperm(len(train_labels), device=device)
            total = 0.0
            for start in range(0, len(train_labels), arguments.batch_size):
                batch = order[start : start + arguments.batch_size]
                loss = F.cross_entropy(model(train_images[batch]), train_labels[batch])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.item()
                progress.advance(bar)
            progress.update(bar, description=f"epoch {epoch + 1:2}, loss {total / steps:.4f}")
    print(f"time: {time.perf_counter() - started:.1f} s")
    print(f"test accuracy: {accuracy(model, test_images, test_labels):.1f} %")


if __name__ == "__main__":
    main()
