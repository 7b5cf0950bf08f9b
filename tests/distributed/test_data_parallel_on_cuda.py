"""Data parallel over NCCL, among 2 processes with a GPU each."""

from __future__ import annotations

import copy
from typing import Any

import triten as tt
from triten import distributed as dist
from triten import nn
from triten.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from triten.nn.parallel import DistributedDataParallel as DDP
from triten.tests.distributed.ranks import on_ranks


@on_ranks(2, cuda="interpret")
def test_gradients_and_steps_on_gpus(rank: int, size: int) -> None:
    device = f"cuda:{rank}"
    for options in ({}, {"gradient_as_bucket_view": True}):
        tt.manual_seed(rank)
        module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)).to(device)
        model = DDP(nn.SyncBatchNorm.convert_sync_batchnorm(module), device_ids=[rank], **options)  # type: ignore[arg-type]
        alone = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
        alone.load_state_dict(copy.deepcopy(model.module.state_dict()))
        optimizer: Any = dist.optim.ZeroRedundancyOptimizer(model.parameters(), tt.optim.SGD, lr=0.1)
        plain = tt.optim.SGD(alone.parameters(), lr=0.1)
        tt.manual_seed(5)
        for step in range(3):
            if step == 2:
                model.register_comm_hook(None, default_hooks.allreduce_hook)
            x = tt.randn(6, 3)
            optimizer.zero_grad()
            plain.zero_grad()
            model(x[rank::size]).square().mean().backward()
            alone(x).square().mean().backward()
            for own, expected in zip(model.parameters(), alone.parameters(), strict=True):
                assert own.grad.device == own.device == tt.device(device)
                tt.testing.assert_close(own.grad.cpu(), expected.grad, rtol=1e-4, atol=1e-5)
            optimizer.step()
            plain.step()
        for own, expected in zip(model.parameters(), alone.parameters(), strict=True):
            tt.testing.assert_close(own.detach().cpu(), expected.detach(), rtol=1e-4, atol=1e-5)


@on_ranks(2, cuda="interpret")
def test_hooks_that_send_again(rank: int, size: int) -> None:
    device = f"cuda:{rank}"
    model = DDP(nn.Sequential(*[nn.Linear(4, 4) for _ in range(3)]).to(device), bucket_cap_mb=0.00001)
    state = powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2, min_compression_rate=1)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    for step in range(4):
        model.zero_grad()
        model(tt.full((2, 4), rank + step + 1.0, device=device)).square().sum().backward()
        for parameter in model.parameters():
            first = parameter.grad.clone()
            dist.broadcast(first, 0)
            assert tt.equal(first, parameter.grad)
    assert len(model.reducer.buckets) == 6 and state.compression_stats()[0] > 1
