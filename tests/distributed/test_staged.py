"""GPU tensors in a group of the CPU backend are copied to the host and back."""

from __future__ import annotations

import importlib.util

import pytest

import triten as tt
from triten import distributed as dist
from triten.tests.distributed.ranks import on_ranks

if importlib.util.find_spec("triton") is None:
    pytest.skip("triton has no wheel for this platform", allow_module_level=True)


@on_ranks(2, cuda="interpret")
def test_every_function_of_tensors_on_a_gpu(rank: int, size: int) -> None:
    group = dist.new_group(backend="mpi")
    device = tt.device("cuda", rank)
    x = tt.full((3,), rank + 1.0, device=device)
    dist.all_reduce(x, group=group)
    assert x.device == device and x.tolist() == [3.0] * 3
    view = tt.zeros(2, 3, device=device).t()
    view.fill_(rank)
    work = dist.all_reduce(view, dist.ReduceOp.MAX, group=group, async_op=True)
    assert work is not None and work.wait() and view.eq(1).all()
    y = tt.full((2,), float(rank), device=device)
    dist.broadcast(y, src=1, group=group)
    dist.reduce(y, dst=0, group=group)
    assert y.tolist() == [2.0 if rank == 0 else 1.0] * 2
    out = tt.zeros(4, device=device)
    dist.all_gather_into_tensor(out, tt.full((2,), float(rank), device=device), group=group)
    assert out.tolist() == [0.0, 0.0, 1.0, 1.0]
    part = tt.zeros(2, device=device)
    dist.reduce_scatter_tensor(part, out + rank, group=group)
    assert part.tolist() == [1.0 + 2 * rank] * 2
    given = tt.arange(2.0, device=device) + 10 * rank
    received = tt.zeros(2, device=device)
    dist.all_to_all_single(received, given, group=group)
    assert received.tolist() == [float(rank), 10.0 + rank]
    lists = [tt.zeros(2, device=device) for _ in range(size)] if rank == 0 else None
    dist.gather(part, lists, dst=0, group=group)
    assert lists is None or [each.tolist() for each in lists] == [[1.0] * 2, [3.0] * 2]
    dist.scatter(part, lists, src=0, group=group)
    assert part.tolist() == [1.0 + 2 * rank] * 2
    if rank == 0:
        dist.send(part, dst=1, group=group)
    else:
        dist.recv(part, src=0, group=group)
    assert part.tolist() == [1.0] * 2
    dist.barrier(group=group)
    dist.destroy_process_group(group)
