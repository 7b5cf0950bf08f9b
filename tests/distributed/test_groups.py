"""Groups with a subset of the processes, and the processes outside of them."""

from __future__ import annotations

from datetime import timedelta

import pytest

import triten as tt
from triten import distributed as dist
from triten.tests.distributed.ranks import on_ranks


@on_ranks(2, 4)
def test_the_group_of_all(rank: int, size: int) -> None:
    assert dist.is_initialized() and dist.get_backend() == "mpi"
    assert dist.get_rank() == rank and dist.get_world_size() == size
    assert dist.group.WORLD is dist.GroupMember.WORLD
    assert dist.get_process_group_ranks(None) == list(range(size))
    assert "cpu:mpi" in dist.get_backend_config()


@on_ranks(2, 4)
def test_a_group_of_some(rank: int, size: int) -> None:
    odd = dist.new_group(range(1, size, 2), timeout=timedelta(seconds=30), group_desc="odd ranks")
    x = tt.ones(2)
    if rank % 2:
        assert isinstance(odd, dist.ProcessGroup)
        assert odd.rank() == rank // 2 and odd.size() == size // 2 and odd.group_desc == "odd ranks"
        assert dist.get_global_rank(odd, 0) == 1 and dist.get_group_rank(odd, 1) == 0
        dist.all_reduce(x, group=odd)
        assert x.tolist() == [size // 2] * 2
        y = tt.full((1,), float(rank))
        dist.broadcast(y, src=1, group=odd)
        dist.broadcast(y, group_src=0, group=odd)
        assert y.item() == 1.0
        with pytest.raises(ValueError, match="Global rank 0 is not part of group"):
            dist.broadcast(y, src=0, group=odd)
    else:
        assert odd == dist.GroupMember.NON_GROUP_MEMBER
        with pytest.warns(UserWarning, match="Running all_reduce on global rank"):
            assert dist.all_reduce(x, group=odd) is None
        assert x.tolist() == [1.0, 1.0]
        assert dist.get_rank(odd) == -1 and dist.get_world_size(odd) == -1
    count = dist.get_pg_count()
    dist.destroy_process_group(odd)
    if rank % 2:
        assert dist.get_pg_count() == count - 1
        with pytest.raises(RuntimeError, match="has been destroyed"):
            dist.all_reduce(x, group=odd)


@on_ranks(4)
def test_groups_side_by_side(rank: int, size: int) -> None:
    own, groups = dist.new_subgroups(2)
    assert isinstance(own, dist.ProcessGroup) and len(groups) == 2
    assert dist.get_process_group_ranks(own) == [rank // 2 * 2, rank // 2 * 2 + 1]
    x = tt.full((1,), float(rank))
    works = [dist.all_reduce(x, group=own, async_op=True)]
    y = tt.ones(1)
    works.append(dist.all_reduce(y, async_op=True))
    for work in works:
        assert work is not None and work.wait()
    assert x.item() == rank // 2 * 4 + 1 and y.item() == size
    turned = dist.new_group([3, 1], sort_ranks=False)
    if rank in (1, 3):
        assert dist.get_rank(turned) == (0 if rank == 3 else 1)
        z = tt.full((1,), float(rank))
        dist.broadcast(z, group=turned, group_src=0)
        assert z.item() == 3.0
    half = dist.split_group(None, [[0, 2], [1, 3]])
    assert half is not None
    z = tt.full((1,), float(rank))
    dist.all_reduce(z, group=half)
    assert z.item() == (2.0 if rank % 2 == 0 else 4.0)
    local = dist.new_group([rank // 2 * 2, rank // 2 * 2 + 1], use_local_synchronization=True)
    assert isinstance(local, dist.ProcessGroup)
    dist.barrier(group=local)
    for group in (own, half, local, turned):
        dist.destroy_process_group(group)


@on_ranks(2)
def test_groups_that_cannot_be(rank: int, size: int) -> None:
    with pytest.raises(ValueError, match="Rank 5 is out of range"):
        dist.new_group([0, 5])
    with pytest.raises(ValueError, match="duplicate"):
        dist.new_group([0, 0])
    with pytest.raises(ValueError, match="must not exceed the world size"):
        dist.new_subgroups(3)
    with pytest.raises(ValueError, match="has appeared in both subgroup"):
        dist.new_subgroups_by_enumeration([[0, 1], [1]])
    with pytest.raises(ValueError, match="cannot have duplicate ranks"):
        dist.split_group(None, [[0], [0, 1]])
    with pytest.raises(TypeError, match=r"datetime\.timedelta"):
        dist.new_group(timeout=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="expected a backend of"):
        dist.new_group(backend="carrier pigeons")


@on_ranks(2)
def test_two_groups_of_one_name_do_not_meet(rank: int, size: int) -> None:
    first, second = dist.new_group(), dist.new_group()
    x, y = tt.ones(1), tt.full((1,), 10.0)
    # Each group has an order of its own.
    order = [(x, first), (y, second)]
    works = [dist.all_reduce(t, group=g, async_op=True) for t, g in (order if rank else order[::-1])]
    for work in works:
        assert work is not None and work.wait()
    assert x.item() == 2.0 and y.item() == 20.0
    dist.destroy_process_group(first)
    dist.destroy_process_group(second)
