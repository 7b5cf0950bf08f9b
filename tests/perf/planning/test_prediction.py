"""What `plan` predicts for the CPU, beside what this machine takes.

A machine that does other work too may slow either of the two down, so that both are taken in turn, a few times: a model
that is wrong is wrong each time. One thread, since two that wait for each other on busy processors take any time.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import triten as tt
import triten.nn.functional as F
from triten.perf.planning.prediction import forget_measurements

TRIES, CALLS = 6, 5
FACTOR = 2.0

Program = tuple[Callable[..., Any], tuple[Any, ...]]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = tt.get_num_threads()
    tt.set_num_threads(1)
    yield
    tt.set_num_threads(before)


def trained(model: Any, optimizer: Any, images: tt.Tensor, labels: tt.Tensor) -> None:
    F.cross_entropy(model(images), labels).backward()
    optimizer.step()
    optimizer.zero_grad()


def digits() -> Program:
    """A step of the digits example."""
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
    """A step of a transformer's block with AdamW."""

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
    """A step of a small residual network."""
    model = tt.nn.Sequential(
        tt.nn.Conv2d(3, 16, 3, padding=1), tt.nn.ReLU(), Residual(16, 16, 1), Residual(16, 32, 2),
        tt.nn.AdaptiveAvgPool2d(1), tt.nn.Flatten(), tt.nn.Linear(32, 10),
    )  # fmt: skip
    optimizer = tt.optim.SGD(model.parameters(), 0.1, 0.9)
    return trained, (model, optimizer, tt.randn(8, 3, 32, 32), tt.zeros(8, dtype=tt.int64))


def small_calls() -> Program:
    """Forty calls on small tensors: overhead alone."""

    def program(weight: tt.Tensor, x: tt.Tensor) -> tt.Tensor:
        for _ in range(10):
            x = (x @ weight + 1.0).relu() * 0.5
        return x

    return program, (tt.randn(8, 8), tt.randn(8, 8))


@pytest.mark.parametrize("program", [digits, transformer, residual_network, small_calls])
def test_the_predicted_time_is_within_a_factor_of_the_measured(program: Callable[[], Program]) -> None:
    fn, args = program()
    for _ in range(2):
        fn(*args)
    found: list[str] = []
    for _ in range(TRIES):
        forget_measurements()
        predicted = tt.perf.plan(fn, *args, device="cpu").seconds
        times = []
        for _ in range(CALLS):
            start = time.perf_counter()
            fn(*args)
            times.append(time.perf_counter() - start)
        measured = statistics.median(times)
        found.append(f"{1e3 * predicted:.3f} ms for {1e3 * measured:.3f}")
        if 1 / FACTOR <= predicted / measured <= FACTOR:
            return
    pytest.fail(f"predicted for measured: {'; '.join(found)}")


def test_measuring_is_quick_and_kept() -> None:
    forget_measurements()
    fn, args = digits()
    first = tt.perf.plan(fn, *args, device="cpu")
    assert tt.perf.plan(fn, *args, device="cpu") == first
    tt.set_num_threads(2)
    assert "2 threads" in str(tt.perf.plan(lambda a: a + 1.0, tt.zeros(3), device="cpu"))
    tt.set_num_threads(1)
    forget_measurements()
    assert tt.perf.plan(fn, *args, device="cpu").seconds != first.seconds
