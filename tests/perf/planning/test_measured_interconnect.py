"""`Interconnect.measured` in ranks that communicate."""

from __future__ import annotations

import triten as tt
from triten import distributed as dist
from triten.perf import Interconnect
from triten.tests.distributed.ranks import on_ranks


@on_ranks(2)
def test_all_ranks_find_the_same(rank: int, size: int) -> None:
    found = Interconnect.measured([4, 4096], rounds=1)
    numbers = tt.tensor([found.inside.latency, found.inside.bytes_per_second], dtype=tt.float64)
    least, most = numbers.clone(), numbers.clone()
    dist.all_reduce(least, op=dist.ReduceOp.MIN)
    dist.all_reduce(most, op=dist.ReduceOp.MAX)
    assert least.tolist() == most.tolist()
    assert found.inside.latency > 0
    assert (found.library, found.overlaps) == ("mpi", False)
    assert f"collectives of {size} ranks over mpi" in found.source
