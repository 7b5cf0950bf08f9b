"""Optimizers of 2 processes update parameters as one optimizer does."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import triten as tt
from triten import distributed as dist
from triten import nn
from triten.distributed.algorithms import Join
from triten.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from triten.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer
from triten.nn.parallel import DistributedDataParallel as DDP
from triten.tests.distributed.ranks import on_ranks
from triten.tests.distributed.test_data_parallel import perceptron


def step(model: Any, optimizer: Any, inputs: tt.Tensor) -> None:
    optimizer.zero_grad()
    model(inputs).square().mean().backward()
    optimizer.step()


def assert_equal_parameters(one: nn.Module, other: nn.Module) -> None:
    for own, expected in zip(one.parameters(), other.parameters(), strict=True):
        tt.testing.assert_close(own, expected, rtol=1e-5, atol=1e-6)


@on_ranks(2)
def test_zero_steps_as_the_optimizer_alone(rank: int, size: int) -> None:
    cases: list[tuple[Any, dict[str, Any]]] = [
        (tt.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
        (tt.optim.AdamW, {"lr": 0.01}),
    ]
    for as_view in (False, True):
        for kind, options in cases:
            tt.manual_seed(0)
            model = DDP(perceptron())
            alone = copy.deepcopy(model.module)
            zero = ZeroRedundancyOptimizer(
                model.parameters(), kind, parameters_as_bucket_view=as_view, **options
            )
            plain = kind(alone.parameters(), **options)
            for _ in range(3):
                x = tt.randn(8, 6)
                step(model, zero, x[rank::size])
                step(alone, plain, x)
                assert_equal_parameters(model.module, alone)
            # Options that a scheduler changes reach the part.
            zero.param_groups[0]["lr"] = plain.param_groups[0]["lr"] = 0.5
            step(model, zero, tt.ones(2, 6))
            step(alone, plain, tt.ones(2, 6))
            assert_equal_parameters(model.module, alone)
            held = sum(each.numel() for each in zero.optim.state)
            everything = sum(each.numel() for each in model.parameters())
            assert 0 < held < 0.7 * everything


@on_ranks(2)
def test_states_are_brought_together_and_divided(rank: int, size: int) -> None:
    tt.manual_seed(0)
    model = DDP(perceptron())
    alone = copy.deepcopy(model.module)
    zero = ZeroRedundancyOptimizer(model.parameters(), tt.optim.Adam, lr=0.01)
    plain = tt.optim.Adam(alone.parameters(), lr=0.01)
    for _ in range(2):
        step(model, zero, tt.ones(2, 6))
        step(alone, plain, tt.ones(2, 6))
    with pytest.raises(RuntimeError, match="has not been consolidated on this rank"):
        zero.state_dict()
    zero.consolidate_state_dict(to=1)
    if rank == 1:
        found, expected = zero.state_dict(), plain.state_dict()
        assert found["param_groups"][0]["params"] == expected["param_groups"][0]["params"]
        tt.testing.assert_close(found["state"], expected["state"], rtol=1e-5, atol=1e-6)
    # The state of one optimizer is divided.
    other = ZeroRedundancyOptimizer(model.parameters(), tt.optim.Adam, lr=0.5)
    other.load_state_dict(copy.deepcopy(plain.state_dict()))
    assert other.param_groups[0]["lr"] == other.optim.param_groups[0]["lr"] == 0.01
    assert 0 < len(other.optim.state) < len(plain.state)
    step(model, other, tt.ones(2, 6))
    step(alone, plain, tt.ones(2, 6))
    assert_equal_parameters(model.module, alone)


@on_ranks(2)
def test_groups_of_parameters(rank: int, size: int) -> None:
    for as_view in (False, True):
        tt.manual_seed(0)
        module = perceptron()
        alone = copy.deepcopy(module)
        groups = [{"params": module[0].parameters()}, {"params": [module[2].weight], "lr": 0.5}]
        zero = ZeroRedundancyOptimizer(groups, tt.optim.SGD, lr=0.1, parameters_as_bucket_view=as_view)
        plain = tt.optim.SGD(
            [{"params": alone[0].parameters()}, {"params": [alone[2].weight], "lr": 0.5}], lr=0.1
        )
        step(module, zero, tt.ones(2, 6))
        step(alone, plain, tt.ones(2, 6))
        zero.add_param_group({"params": list(module[4].parameters()), "lr": 1.0})
        plain.add_param_group({"params": list(alone[4].parameters()), "lr": 1.0})
        module[0].bias.requires_grad_(False)
        alone[0].bias.requires_grad_(False)
        step(module, zero, tt.ones(2, 6))
        step(alone, plain, tt.ones(2, 6))
        assert_equal_parameters(module, alone)


@on_ranks(2)
def test_what_zero_refuses(rank: int, size: int) -> None:
    x = tt.ones(1, requires_grad=True)
    with pytest.raises(NotImplementedError, match="overlap_with_ddp"):
        ZeroRedundancyOptimizer([x], tt.optim.SGD, overlap_with_ddp=True, lr=0.1)
    with pytest.raises(TypeError, match="iterable of Tensors, but got"):
        ZeroRedundancyOptimizer(x, tt.optim.SGD, lr=0.1)
    with pytest.raises(TypeError, match="Tensors or dicts"):
        ZeroRedundancyOptimizer([x, {"params": [x]}], tt.optim.SGD, lr=0.1)
    with pytest.raises(ValueError, match="empty parameter list"):
        ZeroRedundancyOptimizer([], tt.optim.SGD, lr=0.1)
    with pytest.raises(ValueError, match="'params' key"):
        ZeroRedundancyOptimizer([{}], tt.optim.SGD, lr=0.1)


@on_ranks(2)
def test_zero_with_different_numbers_of_batches(rank: int, size: int) -> None:
    tt.manual_seed(0)
    model = DDP(perceptron())
    zero = ZeroRedundancyOptimizer(model.parameters(), tt.optim.SGD, lr=0.1)
    with Join([model, zero]):
        for _ in range(1 + 2 * rank):
            step(model, zero, tt.ones(2, 6))
    for parameter in model.parameters():
        other = parameter.detach().clone()
        dist.broadcast(other, 1)
        assert tt.equal(other, parameter)


@on_ranks(2)
def test_parameters_are_averaged_now_and_then(rank: int, size: int) -> None:
    x = tt.full((1,), float(rank), requires_grad=True)
    averager = PeriodicModelAverager(period=2, warmup_steps=1)
    optimizer = PostLocalSGDOptimizer(tt.optim.SGD([x], lr=0.0), averager)
    seen = []
    for _ in range(3):
        optimizer.zero_grad()
        x.sum().backward()
        optimizer.step()
        seen.append(x.item())
    assert seen == [rank, 0.5, 0.5] and optimizer.state_dict()["step"] == 3
    optimizer.load_state_dict(optimizer.state_dict())
    with pytest.warns(UserWarning, match="does not contain a step counter"):
        optimizer.load_state_dict(optimizer.optim.state_dict())
    assert averager.step == 0
    with pytest.raises(ValueError, match="period"):
        PeriodicModelAverager(period=0)
