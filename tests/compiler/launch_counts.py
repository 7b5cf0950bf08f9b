"""Launch counts of training steps, eager and compiled, in a process whose driver records launches.

``python -m triten.tests.compiler.launch_counts`` prints JSON. For each step it has the launches of an eager
step, of a step with a compiled model, and of a step with a compiled model and optimizer.
"""

import json
import os
from collections.abc import Callable
from typing import Any

os.environ["TRITEN_TUNING_STORE"] = "0"

import triten as tt
from examples.compile_gpt import GPT
from examples.train_digits import ConvNet
from triten.runtime.cuda import driver as cuda
from triten.runtime.cuda.occupancy import TARGETS
from triten.runtime.cuda.recording_driver import RecordingDriver

nn, F = tt.nn, tt.nn.functional


class ResidualBlock(nn.Module):
    """Two convolutions with batch norm, and a residual connection."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(64, 64, 3, padding=1, bias=False)
        self.conv2 = nn.Conv2d(64, 64, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(64), nn.BatchNorm2d(64)

    def forward(self, x: tt.Tensor) -> tt.Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + x)


def launches(
    driver: RecordingDriver,
    model: nn.Module,
    inputs: tt.Tensor,
    loss: Callable[[tt.Tensor], tt.Tensor],
    optimizer: Callable[[Any], Any],
) -> list[int]:
    """Count the launches of a step after its capture: eager, with the model compiled, with the optimizer
    compiled too.
    """
    model = model.cuda()
    made = optimizer(model.parameters())
    found = []
    for run, step in (
        (model, made.step),
        (tt.compile(model, fullgraph=True), made.step),
        (tt.compile(model, fullgraph=True), tt.compile(made.step)),
    ):
        for _ in range(2):
            driver.launched.clear()
            made.zero_grad()
            loss(run(inputs)).backward()
            step()
        found.append(len(driver.launched))
    return found


def main() -> None:
    driver = cuda._driver = RecordingDriver(TARGETS[90])  # type: ignore[abstract] # its methods are set below the class
    sgd = lambda parameters: tt.optim.SGD(parameters, 0.05, momentum=0.9)  # noqa: E731
    labels = tt.zeros(32, dtype=tt.int64, device="cuda")
    tokens = tt.zeros(4, 64, dtype=tt.int64, device="cuda")
    found = {
        "digits": launches(
            driver,
            ConvNet(),
            tt.empty(32, 1, 8, 8, device="cuda"),
            lambda y: F.cross_entropy(y, labels),
            sgd,
        ),
        "ResNet block": launches(
            driver, ResidualBlock(), tt.empty(8, 64, 16, 16, device="cuda"), lambda y: y.square().mean(), sgd
        ),
        "GPT, 2 layers": launches(
            driver,
            GPT(65, 2, 128, 4),
            tokens,
            lambda y: F.cross_entropy(y.flatten(0, 1), tokens.flatten()),
            lambda parameters: tt.optim.AdamW(parameters, lr=3e-3, fused=True),
        ),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
