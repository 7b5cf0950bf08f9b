"""Training of compiled modules has eager's gradients, and eager's parameters after some steps."""

from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.tests.compiler.beside_eager import drawn, graphs, same
from triten.tests.shared.comparison import close

F = tt.nn.functional
nn = tt.nn


class Attention(nn.Module):
    """Transformer block: attention and two linear layers with residual connections."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(8), nn.Linear(8, 24), nn.Linear(8, 8)
        self.mlp = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))

    def forward(self, x: tt.Tensor) -> tt.Tensor:
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(-2, -1) / 2).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).flatten(2))
        return x + self.mlp(x)


class Tied(nn.Module):
    """Module with one weight in two places."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        self.second.weight = self.first.weight

    def forward(self, x: tt.Tensor) -> tt.Tensor:
        return self.second(self.first(x).tanh())


MODULES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mlp": (lambda: nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4), nn.Sigmoid()), (3, 8)),
    "conv": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.SiLU(), nn.MaxPool2d(2), nn.Dropout(0.3),
            nn.Flatten(), nn.Linear(16, 3),
        ),
        (2, 2, 4, 4),
    ),
    "attention": (Attention, (2, 3, 8)),
    "tied": (Tied, (3, 8)),
}  # fmt: skip


def pair(name: str, device: str = "cpu", **options: Any) -> tuple[nn.Module, Any]:
    """Return two equal modules, the second compiled."""

    def made() -> nn.Module:
        tt.manual_seed(0)
        return MODULES[name][0]().to(device)

    return made(), tt.compile(made(), fullgraph=True, **options)


def gradients(module: nn.Module) -> list[Any]:
    return [p.grad for p in module.parameters()]


@pytest.mark.parametrize("name", MODULES)
def test_gradients_of_modules(name: str, device: str) -> None:
    eager, compiled = pair(name, device)
    found = []
    for module in (eager, compiled):
        tt.manual_seed(1)
        x = drawn(*MODULES[name][1], device=device, grad=True)
        result = module(x)
        (result * drawn(*result.shape, device=device, seed=5)).sum().backward()
        found.append((result, x.grad, gradients(module)))
    same(found[1][0], found[0][0], "result")
    close(found[1][1], found[0][1], 2e-5, 1e-6, "gradient of the input")
    close(found[1][2], found[0][2], 2e-5, 1e-6, "gradients of parameters")
    assert graphs(compiled) == 1


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda parameters: tt.optim.SGD(parameters, 0.1, momentum=0.9),
    "adamw": lambda parameters: tt.optim.AdamW(parameters, 0.01),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", MODULES)
def test_training_gives_eager_s_parameters(name: str, optimizer: str) -> None:
    eager, compiled = pair(name)
    for module in (eager, compiled):
        tt.manual_seed(1)
        steps = OPTIMIZERS[optimizer](module.parameters())
        for i in range(5):
            steps.zero_grad()
            module(drawn(*MODULES[name][1], seed=i)).square().mean().backward()
            steps.step()
    same([p.detach() for p in compiled.parameters()], [p.detach() for p in eager.parameters()], name)
    same([b for b in compiled.buffers()], [b for b in eager.buffers()], name)  # noqa: C416
    assert graphs(compiled) == 1


def test_gradients_accumulate_and_a_graph_can_be_kept() -> None:
    eager, compiled = pair("mlp")
    for module in (eager, compiled):
        for i in range(2):
            loss = module(drawn(3, 8, seed=i)).sum()
            loss.backward(retain_graph=True)
            loss.backward()
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()
    same(gradients(compiled), gradients(eager))


def test_autocast_trains_in_float32() -> None:
    eager, compiled = pair("mlp")
    for module in (eager, compiled):
        with tt.autocast("cpu", tt.bfloat16):
            loss = module(drawn(3, 8)).float().square().mean()
        loss.backward()
    assert all(g.dtype is tt.float32 for g in gradients(compiled))
    close(gradients(compiled), gradients(eager), 1e-2, 1e-4)


def test_gradients_are_nobody_else_s(device: str) -> None:
    compiled = tt.compile(lambda a, b, c: (a + b + c.t(), a * b), fullgraph=True)
    for _ in range(4):
        a, b, c = (drawn(3, 3, device=device, seed=i, grad=True) for i in range(3))
        total, product = compiled(a, b, c)
        coming = drawn(3, 3, device=device, seed=5)
        before = coming.clone()
        (first,) = tt.autograd.grad(product.sum(), [a], retain_graph=True)
        tt.autograd.backward([total, product], [coming, coming])
        for x in (a, b, c):
            assert x.grad is not None
            x.grad.add_(1)
        same(coming, before)
        same(c.grad, coming.t().contiguous() + 1)
        same(first, b.detach() * tt.ones(3, 3, device=device))
        same([a.grad, b.grad], [coming + coming * x.detach() + 1 for x in (b, a)])
