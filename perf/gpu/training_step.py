"""A training step of the digits example's network: eager beside captured in a graph, and beside PyTorch's eager.

Two convolutions, a max-pool, two linear layers, SGD with momentum, 32 images of 8x8 pixels.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from ..costs import cost
from ..interleaved import rotated
from .host_time import wall_clock
from .peer import Pair, Peer
from .rows import EAGER, NOT_BUILT, OURS, PEER, Row

tt: ModuleType = importlib.import_module("..", __package__.rpartition(".")[0])

GROUP = "training step"
BATCH, CLASSES = 32, 10
SHAPES = ((16, 1, 3, 3), (16,), (32, 16, 3, 3), (32,), (64, 512), (64,), (10, 64), (10,))
WARM_UP = 11
LR, MOMENTUM = 0.01, 0.9


class Step:
    """One library's network with its parameters, momenta and batch; calling it trains once."""

    def __init__(self, library: ModuleType, device: str, peer: Peer | MetaPeer) -> None:
        self.library = library
        self.functional = importlib.import_module(f"{library.__name__}.nn.functional")
        which = 0 if library is tt else 1

        def numbers(shape: tuple[int, ...]) -> Any:
            return peer.randn(shape, "float32")[which]

        self.parameters = []
        for shape in SHAPES:
            scale = math.sqrt(2 / math.prod(shape[1:])) if len(shape) > 1 else 0.0
            self.parameters.append((numbers(shape) * scale).requires_grad_())
        self.momenta = [library.zeros_like(parameter) for parameter in self.parameters]
        self.images = numbers((BATCH, 1, 8, 8))
        self.labels = library.arange(BATCH, device=device) % CLASSES
        self.loss = self()

    def forward(self) -> Any:
        functional = self.functional
        conv1, bias1, conv2, bias2, hidden, bias3, output, bias4 = self.parameters
        x = functional.relu(functional.conv2d(self.images, conv1, bias1, padding=1))
        x = functional.relu(functional.conv2d(x, conv2, bias2, padding=1))
        x = functional.max_pool2d(x, 2)
        x = functional.relu(functional.linear(x.flatten(1), hidden, bias3))
        return functional.cross_entropy(functional.linear(x, output, bias4), self.labels)

    def __call__(self) -> Any:
        loss = self.forward()
        loss.backward()
        with self.library.no_grad():
            for parameter, momentum in zip(self.parameters, self.momenta, strict=True):
                momentum.mul_(MOMENTUM).add_(parameter.grad)
                parameter.sub_(momentum, alpha=LR)
                parameter.grad = None
        return loss


class MetaPeer:
    """Source of parameters without memory."""

    def randn(self, shape: tuple[int, ...], dtype: str) -> Pair:
        """Return a Meta tensor."""
        return Pair(tt.empty(shape, dtype=getattr(tt, dtype), device="meta"), None)


def work_of_step() -> tuple[int, int]:
    """Return the bytes and the operations of a step, counted on Meta tensors operator by operator."""
    counted = cost(Step(tt, "meta", MetaPeer()))
    return counted.bytes, counted.flops


def capture(step: Step) -> Callable[[], object] | str:
    """Return a function that replays the captured step, or the reason why there is none."""
    missing = [name for name in ("CUDAGraph", "graph", "Stream") if not hasattr(tt.cuda, name)]
    if missing:
        return f"{NOT_BUILT}: tt.cuda.{missing[0]}"
    graph = tt.cuda.CUDAGraph()
    with tt.cuda.graph(graph):
        step.loss = step()
    return graph.replay  # type: ignore[no-any-return]


def training_steps(peer: Peer, rounds: int, count: int) -> Iterator[Row]:
    """Yield a row for the eager step against PyTorch's, and one for the captured step against the eager one."""
    eager = Step(tt, "cuda", peer)
    rivals: dict[str, Callable[[], object]] = {EAGER: eager}
    if peer.library is not None:
        rivals[PEER] = Step(peer.library, peer.device, peer)
    for step in rivals.values():
        for _ in range(WARM_UP):
            step()
    captured_step = Step(tt, "cuda", peer)
    for _ in range(WARM_UP):
        captured_step()
    tt.cuda.synchronize()
    replay = capture(captured_step)
    if not isinstance(replay, str):
        rivals[OURS] = replay
    times: dict[str, list[float]] = {name: [] for name in rivals}
    for turn in range(rounds):
        for name in rotated(list(rivals), turn):
            times[name].append(wall_clock(rivals[name], peer.synchronize, count))
    work = work_of_step()
    row = Row(GROUP, "digits step, eager", *work, times={OURS: times[EAGER]})
    if PEER in times:
        row.times[PEER] = times[PEER]
    yield row
    row = Row(GROUP, "digits step, captured", *work, times={EAGER: times[EAGER]})
    if OURS in times:
        row.times[OURS] = times[OURS]
    else:
        row.note = str(replay)
    yield row
