"""Modules that are exported, each with what gives arguments of a call."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import triten as tt
from examples.compile_gpt import GPT
from triten import nn
from triten.tests.compiler.beside_eager import drawn
from triten.utils._pytree import register_dataclass

F = nn.functional


@dataclass
class Batch:
    """Dataclass registered as a pytree node."""

    features: tt.Tensor
    mask: tt.Tensor | None


register_dataclass(Batch, serialized_type_name="triten.tests.Batch")


class Convolutions(nn.Module):
    """Convolutional network with batch norm, from (2, 3, 8, 8) to (2, 4)."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU())
        self.head = nn.Linear(4, 4)

    def forward(self, x: tt.Tensor) -> tt.Tensor:
        x = F.max_pool2d(self.features(x), 2)
        return self.head(x.mean((2, 3)))


class Containers(nn.Module):
    """Module with arguments and results in dicts, tuples and a dataclass."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(tt.tensor([1.5, -2.0]))

    def forward(self, pair: Any, batch: Batch, *rest: Any, options: Any, factor: float = 1.0) -> Any:
        a, b = pair
        x = (a * self.scale + b["x"]) * factor + options["bias"][0]
        return OrderedDict(y=x, batch=Batch(x * batch.features, None)), (rest[0] - 1, options["name"])


class Counter(nn.Module):
    """Module with two buffers that a call writes to, one of which it returns, and a constant tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", tt.zeros((), dtype=tt.int64))
        self.register_buffer("sum", tt.zeros(3), persistent=False)
        self.weights = tt.tensor([1.0, 2.0, 3.0])

    def forward(self, x: tt.Tensor) -> tuple[tt.Tensor, ...]:
        self.calls += 1
        self.sum.add_(x.sum(0))
        return self.sum, x * self.weights / self.calls, x.view(-1)


class InPlace(nn.Module):
    """Module that writes to its argument, and returns it together with a view."""

    def forward(self, x: tt.Tensor, y: tt.Tensor) -> Any:
        x.mul_(2).add_(y)
        return x, x[0], y


class Tied(nn.Module):
    """Module with one weight under two names and with non-default strides."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Embedding(5, 4)
        self.head = nn.Linear(4, 5, bias=False)
        self.head.weight = self.token.weight
        self.kernel = nn.Parameter(drawn(2, 3, 2, 2).to(memory_format=tt.channels_last), requires_grad=False)

    def forward(self, tokens: tt.Tensor) -> tuple[tt.Tensor, tt.Tensor]:
        return self.head(self.token(tokens)), self.kernel * 2


class Case(NamedTuple):
    """Module and the arguments of a call; every call makes equal ones."""

    module: Callable[[], nn.Module]
    arguments: Callable[[str], tuple[tuple[Any, ...], dict[str, Any]]]


def _tensors(*sizes: tuple[int, ...]) -> Callable[[str], Any]:
    return lambda device: (tuple(drawn(*size, device=device, seed=i) for i, size in enumerate(sizes)), {})


def _tokens(*sizes: int) -> Callable[[str], Any]:
    return lambda device: ((tt.arange(sizes[0] * sizes[1], device=device).view(sizes) % 5,), {})


def _containers(device: str) -> Any:
    a, b, c, d, e = (drawn(2, device=device, seed=i) for i in range(5))
    return ((a, {"x": b}), Batch(c, None), d), {"options": {"bias": [e], "name": "n"}, "factor": 0.5}


CASES = {
    "perceptron": Case(
        lambda: nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3)).eval(),
        _tensors((4, 6)),
    ),
    "convolutions": Case(lambda: Convolutions().eval(), _tensors((2, 3, 8, 8))),
    "convolutions in training": Case(Convolutions, _tensors((2, 3, 8, 8))),
    "transformer": Case(lambda: GPT(5, 1, 16, heads=4).eval(), _tokens(2, 6)),
    "containers": Case(Containers, _containers),
    "counter": Case(Counter, _tensors((2, 3))),
    "in place": Case(InPlace, _tensors((2, 3), (3,))),
    "tied": Case(Tied, _tokens(2, 3)),
    "dropout": Case(
        lambda: nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 8), nn.Dropout(0.2)),
        _tensors((4, 6)),
    ),
}


def made(name: str, device: str) -> nn.Module:
    """Return the module of a case on a device, with the same weights at each call."""
    tt.manual_seed(0)
    module = CASES[name].module().to(device)
    for each in module.modules():
        for key, value in vars(each).items():
            if isinstance(value, tt.Tensor):
                setattr(each, key, value.to(device))
    return module
