"""Models of distributed tensors: embeddings, losses, optimizers and clipping, as on whole tensors."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

import triten as tt
from triten import nn
from triten.distributed import init_device_mesh
from triten.distributed.tensor import DTensor, Replicate, Shard, distribute_module, distribute_tensor
from triten.nn import functional as F
from triten.tests.distributed.ranks import on_ranks

LAYOUTS = [[Replicate()], [Shard(0)], [Shard(1)]]


def _numbers(*shape: int) -> tt.Tensor:
    return tt.from_numpy(np.random.default_rng(0).standard_normal(shape))


@on_ranks(2)
def test_embeddings(rank: int, size: int) -> None:
    mesh = init_device_mesh("cpu", (size,))
    indices = tt.tensor([[0, 4, 2], [3, 1, 4], [4, 4, 0], [2, 2, 1]])
    for options in ({}, {"padding_idx": 2}):
        table = _numbers(5, 4).requires_grad_()
        expected = F.embedding(indices, table, **options)
        (expected * _numbers(4, 3, 4)).sum().backward()
        assert table.grad is not None
        for layout in LAYOUTS:
            for where in LAYOUTS:
                own = distribute_tensor(table.detach(), mesh, layout).requires_grad_()
                found = F.embedding(distribute_tensor(indices, mesh, where), own, **options)
                assert tt.allclose(found.full_tensor(), expected), (layout, where)
                (found * distribute_tensor(_numbers(4, 3, 4), mesh)).sum().backward()
                assert own.grad is not None and tt.allclose(own.grad.full_tensor(), table.grad), (
                    layout,
                    where,
                )


@on_ranks(2)
def test_losses(rank: int, size: int) -> None:
    mesh = init_device_mesh("cpu", (size,))
    target = tt.tensor([0, 2, -100, 1, 2])
    weight = tt.tensor([0.5, 1.0, 2.0], dtype=tt.float64)
    for options in (
        {},
        {"weight": weight},
        {"reduction": "sum"},
        {"reduction": "none"},
        {"label_smoothing": 0.1},
    ):
        x = _numbers(5, 3).requires_grad_()
        expected = F.cross_entropy(x, target, **options)
        expected.sum().backward()
        for layout in LAYOUTS:
            own = distribute_tensor(x.detach(), mesh, layout).requires_grad_()
            given = {
                k: distribute_tensor(v, mesh) if isinstance(v, tt.Tensor) else v for k, v in options.items()
            }
            found = F.cross_entropy(own, distribute_tensor(target, mesh), **given)
            assert tt.allclose(found.full_tensor(), expected), (options, layout)
            found.sum().backward()
            assert own.grad is not None and tt.allclose(own.grad.full_tensor(), x.grad), (options, layout)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.second = nn.Linear(6, 8), nn.LayerNorm(8), nn.Linear(8, 3)

    def forward(self, x: tt.Tensor) -> tt.Tensor:
        out: tt.Tensor = self.second(self.norm(F.gelu(self.first(x))))
        return out


def _sharded(name: str, module: nn.Module, mesh: Any) -> None:
    """Columns of the first layer, rows of the second, as tensor parallel programs have it."""
    layout = {"first": Shard(0), "second": Shard(1)}.get(name)
    if layout is not None:
        weight: Any = module.weight
        module.register_parameter("weight", nn.Parameter(distribute_tensor(weight.detach(), mesh, [layout])))


OPTIMIZERS: dict[str, Callable[..., tt.optim.Optimizer]] = {
    "SGD": lambda p: tt.optim.SGD(p, lr=0.1, momentum=0.9),
    "SGD looped": lambda p: tt.optim.SGD(p, lr=0.1, momentum=0.9, foreach=False),
    "Adam": lambda p: tt.optim.Adam(p, lr=0.1, amsgrad=True),
    "AdamW": lambda p: tt.optim.AdamW(p, lr=0.1, foreach=True),
    "AdamW fused": lambda p: tt.optim.AdamW(p, lr=tt.tensor(0.1), fused=True),
    "Adagrad": lambda p: tt.optim.Adagrad(p, lr=0.1),
    "Adadelta": lambda p: tt.optim.Adadelta(p, lr=0.1),
    "Adamax": lambda p: tt.optim.Adamax(p, lr=0.1),
    "ASGD": lambda p: tt.optim.ASGD(p, lr=0.1),
    "NAdam": lambda p: tt.optim.NAdam(p, lr=0.1),
    "RAdam": lambda p: tt.optim.RAdam(p, lr=0.1),
    "RMSprop": lambda p: tt.optim.RMSprop(p, lr=0.01),
    "Rprop": lambda p: tt.optim.Rprop(p, lr=0.1),
    "Adafactor": lambda p: tt.optim.Adafactor(p, lr=0.1),
}


@on_ranks(2)
def test_every_optimizer_trains_as_on_whole_tensors(rank: int, size: int) -> None:
    mesh = init_device_mesh("cpu", (size,))
    tt.manual_seed(0)
    model = Model().double()
    x, y = _numbers(4, 6), _numbers(4, 3)
    for name, make in OPTIMIZERS.items():
        plain = copy.deepcopy(model)
        spread = distribute_module(copy.deepcopy(model), mesh, _sharded)
        first, second = make(plain.parameters()), make(spread.parameters())
        for _ in range(3):
            for optimizer, net, place in ((first, plain, None), (second, spread, [Shard(0)])):
                optimizer.zero_grad()
                given, wanted = (
                    (x, y)
                    if place is None
                    else (distribute_tensor(x, mesh, place), distribute_tensor(y, mesh, place))
                )
                F.mse_loss(net(given), wanted).backward()
                nn.utils.clip_grad_norm_(net.parameters(), 0.5)
                optimizer.step()
        for (key, expected), found in zip(plain.named_parameters(), spread.parameters(), strict=True):
            assert isinstance(found, DTensor)
            assert tt.allclose(found.full_tensor(), expected, rtol=1e-4), (name, key)
        assert spread.first.weight.placements == (Shard(0),) and spread.second.weight.placements == (
            Shard(1),
        )


@on_ranks(2)
def test_clipping(rank: int, size: int) -> None:
    mesh = init_device_mesh("cpu", (size,))
    for order in (1.0, 2.0, float("inf")):
        plain, own = (
            nn.Parameter(_numbers(5, 3)),
            nn.Parameter(distribute_tensor(_numbers(5, 3), mesh, [Shard(0)])),
        )
        plain.grad, own.grad = _numbers(5, 3), distribute_tensor(_numbers(5, 3), mesh, [Shard(0)])
        expected = nn.utils.clip_grad_norm_([plain], 1.0, order)
        found: Any = nn.utils.clip_grad_norm_([own], 1.0, order)
        assert tt.allclose(found.full_tensor(), expected)
        assert tt.allclose(own.grad.full_tensor(), plain.grad)


@on_ranks(2)
def test_scaled_gradients(rank: int, size: int) -> None:
    mesh = init_device_mesh("cpu", (size,))
    weight = nn.Parameter(distribute_tensor(_numbers(4, 3), mesh, [Shard(0)]))
    optimizer = tt.optim.SGD([weight], lr=1.0)
    scaler = tt.amp.GradScaler("cpu", init_scale=4.0)
    for infinite in (False, True):
        before = weight.full_tensor().clone()
        optimizer.zero_grad()
        factor = distribute_tensor(_numbers(4, 3), mesh, [Shard(0)])
        scaler.scale((weight * factor).sum()).backward()
        if infinite and rank == 1:
            weight.grad.to_local().fill_(float("inf"))  # type: ignore[union-attr]
        scaler.step(optimizer)
        scaler.update()
        expected = before if infinite else before - _numbers(4, 3)
        assert tt.allclose(weight.full_tensor(), expected)
        assert scaler.get_scale() == (2.0 if infinite else 4.0)


@on_ranks(2)
def test_modules_on_meta_get_the_numbers_of_whole_ones(rank: int, size: int) -> None:
    mesh = init_device_mesh("cpu", (size,))

    def rows(name: str, module: nn.Module, mesh: Any) -> None:
        for key, parameter in list(module._parameters.items()):
            assert parameter is not None
            made = distribute_tensor(parameter.detach(), mesh, [Shard(0)])
            module.register_parameter(key, nn.Parameter(made))

    with tt.device("meta"):
        layer = nn.Linear(5, 3)
    distribute_module(layer, mesh, rows).to_empty(device="cpu")
    tt.manual_seed(0)
    layer.reset_parameters()
    tt.manual_seed(0)
    expected = nn.Linear(5, 3)
    assert isinstance(layer.weight, nn.Parameter) and layer.weight.to_local().shape == (2 - rank, 5)
    assert tt.equal(layer.weight.full_tensor(), expected.weight)
    assert tt.equal(layer.bias.full_tensor(), expected.bias)
    assert layer.double().weight.dtype == tt.float64
