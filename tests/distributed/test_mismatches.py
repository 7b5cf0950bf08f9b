"""Ranks whose calls differ: each gets an error that names the ranks and their calls, and the group goes on."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import triten as tt
from triten import distributed as dist
from triten.distributed.backends import agreement
from triten.distributed.backends.mpi import agreement as mpi_agreement
from triten.tests.distributed.ranks import on_ranks

FOUR = "float32, 4 elements"


def error_of(call: Callable[[], Any]) -> str:
    """Return the message of the error that a call, or the work it returns, raises; nothing without one."""
    try:
        work = call()
        if work is not None:
            work.wait()
    except dist.DistBackendError as error:
        return str(error)
    return ""


def fours(rank: int, count: int = 4, dtype: Any = None) -> Any:
    """Return a tensor of a rank."""
    return tt.full((count,), rank + 1, dtype=dtype or tt.float32)


@on_ranks(2)
def test_every_kind_of_difference(rank: int, size: int) -> None:
    last = rank == 1
    short, wrong = 4 - rank, tt.int32 if last else tt.float32
    max_or_sum = dist.ReduceOp.MAX if last else dist.ReduceOp.SUM
    lists = lambda count: [fours(rank, count) for _ in range(size)]  # noqa: E731
    x, parts = fours(rank), [3, 1] if last else [2, 2]
    cases: list[tuple[Callable[..., Any], str, str]] = [
        (lambda **how: dist.all_reduce(fours(rank, 20 - 10 * rank), **how),
         "all_reduce(float32, 20 elements, sum)", "all_reduce(float32, 10 elements, sum)"),
        (lambda **how: dist.all_reduce(fours(rank, dtype=wrong), **how),
         f"all_reduce({FOUR}, sum)", "all_reduce(int32, 4 elements, sum)"),
        (lambda **how: dist.all_reduce(x, max_or_sum, **how), f"all_reduce({FOUR}, sum)", f"all_reduce({FOUR}, max)"),
        (lambda **how: dist.reduce(x, rank, **how), f"reduce({FOUR}, sum, root 0)", f"reduce({FOUR}, sum, root 1)"),
        (lambda **how: dist.broadcast(x, rank, **how), f"broadcast({FOUR}, root 0)", f"broadcast({FOUR}, root 1)"),
        (lambda **how: dist.broadcast(fours(rank, (1 << 20) - rank), 0, **how),
         "broadcast(float32, 1048576 elements, root 0)", "broadcast(float32, 1048575 elements, root 0)"),
        (lambda **how: dist.all_gather(lists(short), fours(rank, short), **how),
         f"all_gather({FOUR})", "all_gather(float32, 3 elements)"),
        (lambda **how: dist.reduce_scatter(fours(rank, short), lists(short), **how),
         f"reduce_scatter({FOUR}, sum)", "reduce_scatter(float32, 3 elements, sum)"),
        (lambda **how: dist.gather(fours(rank, short), None if last else lists(short), 0, **how),
         f"gather({FOUR}, root 0)", "gather(float32, 3 elements, root 0)"),
        (lambda **how: dist.scatter(fours(rank, short), None if last else lists(short), 0, **how),
         f"scatter({FOUR}, root 0)", "scatter(float32, 3 elements, root 0)"),
        (lambda **how: dist.all_to_all_single(tt.zeros(4), x, parts, parts, **how),
         "all_to_all(float32) that sends [2, 2] elements and receives [2, 2]",
         "all_to_all(float32) that sends [3, 1] elements and receives [3, 1]"),
        (lambda **how: dist.barrier(**how) if last else dist.all_reduce(x, **how),
         f"all_reduce({FOUR}, sum)", "barrier()"),
        (lambda **how: dist.broadcast(x, 0, **how) if last else dist.all_gather(lists(4), x, **how),
         f"all_gather({FOUR})", f"broadcast({FOUR}, root 0)"),
    ]  # fmt: skip
    group = dist.new_group(timeout=timedelta(seconds=60))
    for call, first, second in cases:
        for is_async in (False, True):
            said = error_of(lambda call=call, is_async=is_async: call(group=group, async_op=is_async))
            assert f"differ: rank 0: {first}; rank 1: {second}. All its ranks" in said, (said, first, second)
            assert said.startswith((first, second)[rank].partition("(")[0] + ": ")
        assert x.tolist() == [rank + 1.0] * 4
        y = fours(rank)
        dist.all_reduce(y, group=group)  # the group goes on
        assert y.tolist() == [3.0] * 4
    # One waits at once and the other one later; errors arrive by futures, too.
    said = error_of(lambda: dist.all_reduce(fours(rank, short), group=group, async_op=last))
    assert "differ: rank 0" in said
    work = dist.all_reduce(fours(rank, short), group=group, async_op=True)
    assert work is not None
    with pytest.raises(dist.DistBackendError, match="differ: rank 0"):
        work.get_future().wait()
    assert isinstance(work.exception(), dist.DistBackendError) and not work.is_success()
    dist.destroy_process_group(group)


@on_ranks(2)
def test_objects_and_several_tensors_that_differ(rank: int, size: int) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: dist.broadcast_object_list(["x"] * (1 + rank), 0),
        lambda: dist.broadcast_object_list(["x"], rank),
        lambda: dist.all_gather_object([None] * 2, "x") if rank else dist.broadcast_object_list(["x"], 0),
        lambda: dist.scatter_object_list([None], [1, 2], rank),
        lambda: dist.all_reduce_coalesced([tt.ones(2), tt.ones(3 + rank)]),
        lambda: dist.all_gather_coalesced([[tt.ones(2 + rank)]] * 2, [tt.ones(2 + rank)]),
    ]
    for number, call in enumerate(calls):
        with pytest.raises(dist.DistBackendError, match=r"differ: rank 0: .*; rank 1: "):
            call()
        dist.barrier()
        found: list[Any] = [None] * size
        dist.all_gather_object(found, (number, rank))
        assert found == [(number, 0), (number, 1)]


@on_ranks(4)
def test_one_rank_of_four_and_two_groups(rank: int, size: int) -> None:
    said = error_of(lambda: dist.all_reduce(fours(rank, 5 if rank == 2 else 4), async_op=True))
    assert (
        f"differ: ranks 0, 1, 3: all_reduce({FOUR}, sum); rank 2: all_reduce(float32, 5 elements, sum)"
        in said
    )
    pairs = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    own = pairs[rank % 2]
    assert isinstance(own, dist.ProcessGroup)
    x = tt.zeros(4 + rank % 2)  # groups may differ
    dist.all_reduce(x, group=own)
    said = error_of(lambda: dist.all_reduce(fours(rank, 4 if rank < 2 else 5), group=own, async_op=True))
    assert "differ: rank 0: " in said and f"group '{own.group_name}'" in said
    total = fours(rank)
    dist.all_reduce(total)
    assert total.tolist() == [10.0] * 4
    dist.destroy_process_group(own)


@on_ranks(4)
def test_groups_that_are_made_differently(rank: int, size: int) -> None:
    last, limit = rank == 3, timedelta(seconds=60)
    everyone = [0, 1, 2, 3]
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: dist.new_group([0, 1, 3] if last else everyone, limit), "ranks [0, 1, 3], cpu:mpi"),
        (lambda: dist.new_group([1, 0, 2, 3] if last else everyone, limit, sort_ranks=False),
         "ranks [1, 0, 2, 3], cpu:mpi"),
        (lambda: dist.new_group(everyone, limit, "nccl" if last else "mpi"), "ranks [0, 1, 2, 3], cuda:nccl"),
        (lambda: dist.split_group(None, [[0, 3], [1, 2]] if last else [everyone], limit), "ranks [0, 3], cpu:mpi"),
    ]  # fmt: skip
    for call, words in calls:
        with pytest.raises(dist.DistStoreError, match=r"differ: rank \d: .*; rank \d: new_group\(") as caught:
            call()
        assert words in str(caught.value) and "ranks [0, 1, 2, 3], cpu:mpi" in str(caught.value)
    group = dist.new_group(everyone, limit, "gloo" if last else "mpi")  # two names of one backend
    x = tt.ones(1)
    dist.all_reduce(x, group=group)
    assert x.item() == size
    dist.destroy_process_group(group)


@on_ranks(2)
def test_messages_that_differ(rank: int, size: int) -> None:
    big = 1 << 17
    sent = [
        (4, tt.int32),
        (4, tt.float32),
        (2, tt.float32),
        (big, tt.int32),
        (big, tt.float32),
        (0, tt.float32),
    ]
    expected = [
        (4, tt.float32),
        (2, tt.float32),
        (4, tt.float32),
        (big, tt.float32),
        (2, tt.float32),
        (1, tt.float32),
    ]
    for first, second in zip(sent, expected, strict=True):
        for source in (0, None):  # a rank by its number, and any
            if rank == 0:
                dist.send(fours(rank, *first), 1)
                continue
            theirs, own = agreement.sized(*first[::-1]), agreement.sized(*second[::-1])
            words = rf"rank 0: send\({theirs}\); rank 1: recv\({own}\)"
            work = dist.irecv(fours(rank, *second), source)
            assert work is not None
            for _ in range(2):
                with pytest.raises(dist.DistBackendError, match=words):
                    work.wait()
            assert work.is_completed() and isinstance(work.exception(), dist.DistBackendError)
    # Messages that agree, waited for in another order, in batches, and from any rank.
    peer = 1 - rank
    received = [tt.zeros(3), tt.zeros(5, dtype=tt.int32), tt.zeros(big)]
    operations = [dist.P2POp(dist.irecv, each, peer) for each in received]
    operations += [dist.P2POp(dist.isend, fours(rank, each.numel(), each.dtype), peer) for each in received]
    for work in reversed(dist.batch_isend_irecv(operations)):
        work.wait()
    assert all((each == peer + 1).all() for each in received)
    if rank == 0:
        dist.send_object_list(["a", "bc"], 1)
        dist.send_object_list(["a", "bc"], 1)
    else:
        with pytest.raises(
            dist.DistBackendError, match=r"send\(int64, 2 elements\); rank 1: recv\(int64, 3 elements\)"
        ):
            dist.recv_object_list([None] * 3, 0)
        dist.recv(
            tt.zeros(len(pickle.dumps("a") + pickle.dumps("bc")), dtype=tt.uint8), 0
        )  # those of the first
        found: list[Any] = [None] * 2
        dist.recv_object_list(found, 0)
        assert found == ["a", "bc"]
    dist.barrier()
    assert dist.group.WORLD is not None
    headers: Any = dist.group.WORLD.communicator("cpu")
    assert headers._headers._came == {}


@on_ranks(2)
def test_the_check_can_be_turned_off(rank: int, size: int) -> None:
    os.environ[agreement.VARIABLE] = str(rank)  # one rank that does is enough
    try:
        group = dist.new_group()
        made: Any = group.communicator("cpu")
    finally:
        del os.environ[agreement.VARIABLE]
    assert made._agreement is None and made._headers is None
    x = tt.ones(2)
    dist.all_reduce(x, group=group)
    assert x.tolist() == [2.0, 2.0]
    if rank == 0:
        dist.send(tt.ones(4), 1, group)
    else:
        with pytest.raises(dist.DistBackendError, match="MPI refused"):
            dist.recv(tt.ones(2), 0, group)
    dist.barrier()
    dist.destroy_process_group(group)


@on_ranks(2)
def test_an_mpi_without_persistent_collectives(rank: int, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mpi_agreement, "PERSISTENT", (99, 0))
        group = dist.new_group()
        x = fours(rank)
        dist.all_reduce(x, group=group)
    assert x.tolist() == [3.0] * 4
    assert "differ: rank 0" in error_of(lambda: dist.broadcast(x, rank, group))
    dist.destroy_process_group(group)


def test_the_switch_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(agreement.VARIABLE, "no")
    with pytest.raises(ValueError, match="TRITEN_DISTRIBUTED_CHECK must be 0 or 1, but is 'no'"):
        agreement.is_enabled()


def test_the_table_of_hashes_is_bounded() -> None:
    words = agreement.Words()
    first = words.of(agreement.call_of("all_reduce", tt.float32, 0))
    for count in range(agreement.MAX_WORDS + 10):
        words.of(agreement.call_of("all_reduce", tt.float32, count))
    assert len(words._known) <= agreement.MAX_WORDS
    assert words.of(agreement.call_of("all_reduce", tt.float32, 0)) == first


@on_ranks(2)
def test_an_interrupt_while_calls_are_compared(rank: int, size: int) -> None:
    group = dist.new_group()
    dist.barrier(group)
    if rank == 0:  # the other one does not call it

        def interrupted(*args: Any) -> None:
            raise KeyboardInterrupt

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(mpi_agreement, "spin", interrupted)
            with pytest.raises(KeyboardInterrupt):
                dist.all_reduce(tt.ones(1), group=group)
        with pytest.raises(
            dist.DistBackendError,
            match=r"an earlier communication failed: .* was interrupted before it began",
        ):
            dist.barrier(group)
    dist.barrier()
