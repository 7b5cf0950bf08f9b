"""Programs whose time is predicted and measured in turn: `python predicted_programs.py NAME TRIES` prints seconds."""

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import triten as tt
import triten.nn.functional as F
from triten.perf.planning.prediction import forget_measurements

CALLS = 7

Program = tuple[Callable[..., Any], tuple[Any, ...]]


def trained(model: Any, optimizer: Any, images: tt.Tensor, labels: tt.Tensor) -> None:
    F.cross_entropy(model(images), labels).backward()
    optimizer.step()
    optimizer.zero_grad()


def digits() -> Program:
    """Return a training step of the digits example."""
    model = tt.nn.Sequential(
        tt.nn.Conv2d(1, 16, 3, padding=1), tt.nn.ReLU(), tt.nn.Conv2d(16, 32, 3, padding=1), tt.nn.ReLU(),
        tt.nn.MaxPool2d(2), tt.nn.Flatten(), tt.nn.Linear(512, 64), tt.nn.ReLU(), tt.nn.Linear(64, 10),
    )  # fmt: skip
    optimizer = tt.optim.SGD(model.parameters(), 0.05, 0.9)
    return trained, (model, optimizer, tt.randn(32, 1, 8, 8), tt.zeros(32, dtype=tt.int64))


class Block(tt.nn.Module):
    """A transformer's block."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.before, self.between = tt.nn.LayerNorm(width), tt.nn.LayerNorm(width)
        self.split, self.joined = tt.nn.Linear(width, 3 * width), tt.nn.Linear(width, width)
        self.up, self.down = tt.nn.Linear(width, 4 * width), tt.nn.Linear(4 * width, width)
        self.heads = heads

    def forward(self, x: tt.Tensor) -> tt.Tensor:
        batch, tokens, width = x.shape
        parts = self.split(self.before(x)).view(batch, tokens, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.joined(seen.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(F.gelu(self.up(self.between(x))))


def transformer() -> Program:
    """Return a training step of a transformer block with AdamW."""

    def step(model: Any, optimizer: Any, x: tt.Tensor) -> None:
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    model = Block(192, 4)
    return step, (model, tt.optim.AdamW(model.parameters()), tt.randn(4, 96, 192))


class Residual(tt.nn.Module):
    """Two convolutions and what goes past them."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.first = tt.nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.second = tt.nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.norms = tt.nn.ModuleList([tt.nn.BatchNorm2d(out), tt.nn.BatchNorm2d(out)])
        self.past = tt.nn.Conv2d(channels, out, 1, stride, bias=False) if stride > 1 else tt.nn.Identity()

    def forward(self, x: tt.Tensor) -> tt.Tensor:
        y = F.relu(self.norms[0](self.first(x)))
        return F.relu(self.norms[1](self.second(y)) + self.past(x))


def residual_network() -> Program:
    """Return a training step of a small residual network."""
    model = tt.nn.Sequential(
        tt.nn.Conv2d(3, 16, 3, padding=1), tt.nn.ReLU(), Residual(16, 16, 1), Residual(16, 32, 2),
        tt.nn.AdaptiveAvgPool2d(1), tt.nn.Flatten(), tt.nn.Linear(32, 10),
    )  # fmt: skip
    optimizer = tt.optim.SGD(model.parameters(), 0.1, 0.9)
    return trained, (model, optimizer, tt.randn(8, 3, 32, 32), tt.zeros(8, dtype=tt.int64))


def small_calls() -> Program:
    """Return a program of forty calls on small tensors, which measures only overhead."""

    def program(weight: tt.Tensor, x: tt.Tensor) -> tt.Tensor:
        for _ in range(10):
            x = (x @ weight + 1.0).relu() * 0.5
        return x

    return program, (tt.randn(8, 8), tt.randn(8, 8))


PROGRAMS = {program.__name__: program for program in (digits, transformer, residual_network, small_calls)}


def pair(fn: Callable[..., Any], args: tuple[Any, ...]) -> tuple[float, float]:
    """Return the predicted seconds, from new measurements, and the measured seconds.

    Both are the thread's CPU time. A program runs long enough for other processes to preempt it. Half of the
    single calls that the prediction rests on do not.
    """
    forget_measurements()
    predicted = tt.perf.plan(fn, *args, device="cpu").seconds
    times = []
    for _ in range(CALLS):
        start = time.thread_time()
        fn(*args)
        times.append(time.thread_time() - start)
    return predicted, statistics.median(times)


if __name__ == "__main__":
    tt.set_num_threads(1)
    fn, args = PROGRAMS[sys.argv[1]]()
    fn(*args)
    fn(*args)
    for _ in range(int(sys.argv[2])):
        print(*pair(fn, args), flush=True)
