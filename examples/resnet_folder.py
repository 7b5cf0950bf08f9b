"""Train a ResNet on a folder of images, one folder for each class.

    python examples/resnet_folder.py [--folder photos/] [--device cpu|cuda] [--epochs 8]

The network is He et al., "Deep Residual Learning for Image Recognition" (2016), with a first layer for small images.
The script prints the loss, the accuracy on images that training never saw, and how many images of each class are taken
for another. It needs Pillow: pip install pillow.
"""

from __future__ import annotations

import argparse
import math
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

import triten as tt
import triten.nn.functional as F
from triten import nn
from triten.utils.data import DataLoader, Dataset

SHAPES = {"circle": 0, "triangle": 3, "square": 4, "star": 5}


class ImageFolder(Dataset[tuple[tt.Tensor, int]]):
    """Images of a folder's folders, each as a float tensor (3, size, size) in [-1, 1] with its class."""

    def __init__(self, files: Sequence[tuple[Path, int]], size: int, augment: bool) -> None:
        self.files, self.size, self.augment = files, size, augment

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[tt.Tensor, int]:
        path, label = self.files[index]
        with Image.open(path) as image:
            pixels = np.asarray(image.convert("RGB").resize((self.size, self.size)))
        x = tt.tensor(pixels).permute(2, 0, 1) / 127.5 - 1
        if self.augment:
            x = x.flip(2) if tt.rand(()) < 0.5 else x
            top, left = tt.randint(0, 5, (2,)).tolist()
            x = F.pad(x, (2, 2, 2, 2))[:, top : top + self.size, left : left + self.size]
        return x, label


class Block(nn.Module):
    """Two 3x3 convolutions beside the identity, or beside a 1x1 convolution where the shape changes."""

    def __init__(self, width: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, out, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(out), nn.BatchNorm2d(out)
        self.skip = nn.Sequential()
        if stride != 1 or width != out:
            self.skip = nn.Sequential(nn.Conv2d(width, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: tt.Tensor) -> tt.Tensor:
        h = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(h)) + self.skip(x))


def resnet(classes: int, width: int, blocks: Sequence[int]) -> nn.Sequential:
    """Return a ResNet of basic blocks: `blocks` at each resolution, twice the channels at half the resolution."""
    layers: list[nn.Module] = [nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    for level, count in enumerate(blocks):
        layers.append(Block(width, width << (level > 0), 2 if level else 1))
        width <<= level > 0
        layers += [Block(width, width, 1) for _ in range(count - 1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes))


def draw_folder(folder: Path, images: int, size: int, seed: int) -> None:
    """Write `images` PNG files of each shape: random colors, places, sizes and angles over noise."""
    chance = random.Random(seed)
    noise = np.random.default_rng(seed)
    for name, corners in SHAPES.items():
        (folder / name).mkdir(parents=True)
        for number in range(images):
            image = Image.fromarray(noise.integers(0, 110, (size, size, 3), dtype=np.uint8))
            radius, turn = size * chance.uniform(0.22, 0.4), chance.uniform(0, math.tau)
            x, y = (chance.uniform(radius, size - radius) for _ in range(2))
            radii = [radius, radius / 2.4] * corners if name == "star" else [radius] * (corners or 40)
            angles = [turn + math.tau * each / len(radii) for each in range(len(radii))]
            points = [(x + r * math.cos(a), y + r * math.sin(a)) for r, a in zip(radii, angles, strict=True)]
            ImageDraw.Draw(image).polygon(points, fill=tuple(chance.choices(range(80, 256), k=3)))
            image.save(folder / name / f"{number:04d}.png")


@tt.no_grad()
def confusion(model: nn.Sequential, loader: DataLoader[tuple[tt.Tensor, int]], classes: int) -> tt.Tensor:
    """Return how many images of each class (rows) are taken for each class (columns)."""
    table = tt.zeros(classes * classes, dtype=tt.int64)
    for x, labels in loader:
        predictions = model.eval()(x.to(model[-1].weight.device)).argmax(1).cpu()
        table += tt.bincount(labels * classes + predictions, minlength=len(table))
    return table.view(classes, classes)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train on the images, and print the accuracy on the held-out fifth."""
    parser = argparse.ArgumentParser(description="Train a ResNet on a folder of images.")
    parser.add_argument("--folder", type=Path, help="it has a folder for each class. Default: make one")
    parser.add_argument("--device", default="cuda" if tt.cuda.is_available() else "cpu")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--size", type=int, default=24, help="side of the images. Default: 24")
    parser.add_argument("--width", type=int, default=16, help="channels of the first layer")
    parser.add_argument("--images", type=int, default=150, help="made for each class. Default: 150")
    options = parser.parse_args(arguments)
    tt.manual_seed(0)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        if not options.folder:
            draw_folder(folder, options.images, options.size, seed=0)
        classes = sorted(path.name for path in folder.iterdir())
        files = [(path, classes.index(path.parent.name)) for path in sorted(folder.glob("*/*"))]
        random.Random(0).shuffle(files)
        fifth = len(files) // 5
        train = DataLoader(ImageFolder(files[fifth:], options.size, True), 32, shuffle=True)
        test = DataLoader(ImageFolder(files[:fifth], options.size, False), 64)
        model = resnet(len(classes), options.width, (1, 1, 1)).to(options.device)
        optimizer = tt.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)
        scheduler = tt.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=options.epochs * len(train))
        for epoch in range(1, options.epochs + 1):
            model.train()
            total = 0.0
            for x, labels in train:
                loss = F.cross_entropy(model(x.to(options.device)), labels.to(options.device))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                scheduler.step()
                total += loss.item()
            print(f"epoch {epoch:2}: loss {total / len(train):.3f}", flush=True)
        table = confusion(model, test, len(classes))
        print(f"{'true class':>12}" + "".join(f"{name:>10}" for name in classes))
        for name, row in zip(classes, table.tolist(), strict=True):
            print(f"{name:>12}" + "".join(f"{count:>10}" for count in row))
        print(f"test accuracy: {100 * table.trace().item() / table.sum().item():.1f} %")


if __name__ == "__main__":
    main()
