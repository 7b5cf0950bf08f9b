"""`SyncBatchNorm` in 2 processes is a batch norm over both batches."""

from __future__ import annotations

import copy

import triten as tt
from triten import distributed as dist
from triten import nn
from triten.nn.parallel import DistributedDataParallel as DDP
from triten.tests.distributed.ranks import on_ranks


@on_ranks(2)
def test_it_is_batch_norm_of_all_batches(rank: int, size: int) -> None:
    for shape, make, part in (
        ((8, 3), nn.BatchNorm1d, slice(4 * rank, 4 * rank + 4)),
        ((6, 3, 4, 2), nn.BatchNorm2d, slice(0, 2) if rank == 0 else slice(2, 6)),  # of different sizes
        ((4, 3, 2, 2), nn.BatchNorm2d, slice(0, 0) if rank == 0 else slice(0, 4)),  # one has none
    ):
        for options in ({}, {"momentum": None}, {"affine": False}, {"track_running_stats": False}):
            tt.manual_seed(0)
            plain = make(3, **options)  # type: ignore[arg-type]
            if plain.affine:
                with tt.no_grad():
                    plain.weight.uniform_()
                    plain.bias.uniform_()
            own = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(make(3, **options)))[0]  # type: ignore[arg-type]
            own.load_state_dict(plain.state_dict())
            for memory_format in (tt.contiguous_format, tt.channels_last):
                if len(shape) < 4 and memory_format is tt.channels_last:
                    continue
                x = tt.randn(shape).contiguous(memory_format=memory_format).requires_grad_()
                weights = tt.randn(shape)
                mine = x.detach()[part].clone(memory_format=tt.preserve_format).requires_grad_()
                plain.zero_grad()
                own.zero_grad()
                expected, result = plain(x), own(mine)
                tt.testing.assert_close(result, expected[part], rtol=1e-4, atol=1e-5)
                (expected * weights).sum().backward()
                (result * weights[part]).sum().backward()
                tt.testing.assert_close(mine.grad, x.grad[part], rtol=1e-4, atol=1e-5)
                for mean, single in zip(own.buffers(), plain.buffers(), strict=True):
                    tt.testing.assert_close(mean, single, rtol=1e-4, atol=1e-5)
                if plain.affine:
                    for grad, whole in (
                        (own.weight.grad, plain.weight.grad),
                        (own.bias.grad, plain.bias.grad),
                    ):
                        total = tt.zeros(3) if grad is None else grad.clone()
                        dist.all_reduce(total)
                        tt.testing.assert_close(total, whole, rtol=1e-4, atol=1e-5)
            x = tt.randn(shape)
            tt.testing.assert_close(own.eval()(x), plain.eval()(x), rtol=1e-4, atol=1e-5)


@on_ranks(2)
def test_narrow_inputs_and_groups(rank: int, size: int) -> None:
    x = tt.full((2, 1), float(rank)).half()
    layer = nn.SyncBatchNorm(1, affine=False)
    assert layer(x).dtype is tt.float16
    assert abs(layer.running_mean.item() - 0.05) < 1e-6
    alone = dist.new_group([rank], use_local_synchronization=True)
    own = nn.SyncBatchNorm(1, process_group=alone)
    own(x.float() + tt.tensor([[0.0], [2.0]]))
    assert abs(own.running_mean.item() - 0.1 * (rank + 1)) < 1e-6


@on_ranks(2)
def test_in_a_data_parallel_network(rank: int, size: int) -> None:
    tt.manual_seed(0)
    plain = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 2))
    model = DDP(nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(plain)))
    for _ in range(2):
        x = tt.randn(6, 1, 4, 4)
        plain.zero_grad()
        model.zero_grad()
        plain(x).square().mean().backward()
        model(x[rank::size]).square().mean().backward()
        for own, expected in zip(model.parameters(), plain.parameters(), strict=True):
            tt.testing.assert_close(own.grad, expected.grad, rtol=1e-4, atol=1e-5)
