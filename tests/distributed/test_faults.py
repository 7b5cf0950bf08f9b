"""After a fault in one process, each surviving process raises an error that names the operation it waited for."""

from __future__ import annotations

import os
import socket
import sys
from datetime import timedelta
from typing import Any

import pytest

import triten as tt
from triten import distributed as dist
from triten.tests.distributed.ranks import needs_mpi, on_ranks, run_programs

BIG = "dist.all_reduce(tt.ones(1 << 16))"
SMALL = "dist.all_reduce(tt.ones(1))"


@needs_mpi
@pytest.mark.parametrize("wait", [SMALL, BIG], ids=["short", "long"])
def test_a_rank_that_is_killed(wait: str) -> None:
    first, second = run_programs(
        [f"start(); {wait}; {wait}", f"start(); {wait}; os.kill(os.getpid(), signal.SIGKILL)"]
    )
    assert second[0] == -9
    assert first[0] == 1
    assert (
        "DistBackendError: all_reduce: rank 0 of 2 in group '0' (default_pg) waited for all ranks" in first[1]
    )
    assert "rank 1 is gone, without a word" in first[1]
    assert "[rank0]: " in first[1]


@needs_mpi
def test_a_rank_that_raises() -> None:
    first, second = run_programs(
        [f"start(); {SMALL}; dist.barrier()", f"start(); {SMALL}; raise KeyError('cabbage')"]
    )
    assert (first[0], second[0]) == (1, 1)
    assert "[rank1]: KeyError: 'cabbage'" in second[1]
    assert "barrier: rank 0 of 2" in first[1] and "rank 1 ended by KeyError: 'cabbage'" in first[1]


@needs_mpi
def test_a_rank_that_hangs() -> None:
    # The second waits for the first's end, by their store, and not by the clock.
    hung = """
start()
dist.new_group([0, 1])
while not dist.distributed_c10d._get_default_group().get_group_store().check(["end"]):
    time.sleep(0.01)
"""
    late = """
start()
group = dist.new_group([0, 1], group_desc="pair")
group.set_timeout(timedelta(seconds=0.2))  # only now, when all have come
for wait in (lambda: dist.all_reduce(tt.ones(1), group=group), lambda: dist.barrier(group=group)):
    try:
        wait()
    except dist.DistBackendError as error:
        print(error)
dist.distributed_c10d._get_default_group().get_group_store().set("end", "")
"""
    first, second = run_programs([late, hung])
    assert (first[0], second[0]) == (0, 0), first[1] + second[1]
    assert (
        "all_reduce: rank 0 of 2 in group '1' (pair) waited 0.2 s for all ranks to call it; not heard of: rank 1"
        in first[1]
    )
    assert "barrier: rank 0 of 2 in group '1' (pair): an earlier communication failed: all_reduce" in first[1]


@needs_mpi
def test_a_message_that_nobody_sends() -> None:
    program = """
start()
dist.group.WORLD.set_timeout(timedelta(seconds=0.2))
try:
    dist.recv(tt.ones(1), src=1 - rank)
except dist.DistBackendError as error:
    print(error)
store = dist.distributed_c10d._get_default_group().get_group_store()
store.set(f"through {rank}", ""); store.wait(["through 0", "through 1"], timedelta(seconds=60))
"""
    for rank, (status, text) in enumerate(run_programs([program, program])):
        assert status == 0, text
        assert (
            f"recv: rank {rank} of 2 in group '0' (default_pg) waited 0.2 s for rank {1 - rank} to send"
            in text
        )


@needs_mpi
def test_the_store_dies_with_its_process() -> None:
    listener = socket.socket()
    listener.bind(("localhost", 0))  # bound but not listening: it reserves the port for the store
    port = listener.getsockname()[1]
    listener.close()
    begin = f"start(init_method='tcp://localhost:{port}', rank=rank, world_size=2); {SMALL}; "
    first, second = run_programs(
        [begin + "os.kill(os.getpid(), signal.SIGKILL)", begin + SMALL],
        {"TORCHELASTIC_USE_AGENT_STORE": "False"},
    )
    assert first[0] == -9 and second[0] == 1
    assert "the store is gone" in second[1] and "all_reduce: rank 1 of 2" in second[1]


def test_a_port_that_is_taken() -> None:
    with socket.socket() as other:
        other.bind(("localhost", 0))
        other.listen()
        with pytest.raises(dist.DistNetworkError, match="EADDRINUSE"):
            dist.TCPStore("localhost", other.getsockname()[1], is_master=True)


def test_a_world_that_does_not_come_together() -> None:
    limit = timedelta(seconds=0.2)
    with pytest.raises(dist.DistStoreError, match=r"waited 0.2 s for 2 processes; not heard of: rank 1"):
        dist.init_process_group("mpi", store=dist.HashStore(), rank=0, world_size=2, timeout=limit)
    with pytest.raises(dist.DistStoreError, match="1 of 3 processes connected to localhost"):
        dist.init_process_group("mpi", init_method="tcp://localhost:0", rank=0, world_size=3, timeout=limit)
    assert not dist.is_initialized()


@needs_mpi
def test_two_processes_of_one_rank() -> None:
    program = "os.environ['RANK'] = '1'; start()"
    for status, text in run_programs(
        [program, program]
    ):  # the one that came first does not wait for the time limit
        assert (
            status == 1 and "rank 1 of group '0': another process has already joined as rank 1 of 2" in text
        )


@needs_mpi
def test_mpi_that_runs_with_others() -> None:
    program = """
import mpi4py.MPI
start()
"""
    for status, text in run_programs([program, program]):
        assert status == 1
        assert "of 2, but MPI started rank 0 of 1" in text


@on_ranks(2)
def test_calls_are_compared_if_asked_for(rank: int, size: int) -> None:
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    try:
        group = dist.new_group(timeout=timedelta(seconds=30))
        x = tt.ones(2)
        dist.all_reduce(x, group=group)
        assert x.tolist() == [2.0, 2.0]
        with pytest.raises(RuntimeError, match=r"Detected mismatch between collectives.*differ in: shapes"):
            dist.all_reduce(tt.ones(2 + rank), group=group)
        with pytest.raises(RuntimeError, match="differ in: dtypes"):
            dist.broadcast(tt.ones(2).to(tt.float64 if rank else tt.float32), 0, group=group)
        with pytest.raises(RuntimeError, match=r"[rR]ank 1 is running"):
            (dist.barrier if rank else dist.all_reduce)(*(() if rank else (x,)), group=group)
        with pytest.raises(RuntimeError, match="differ in: op"):
            dist.all_reduce(x, dist.ReduceOp.MAX if rank else dist.ReduceOp.SUM, group=group)
        dist.barrier(group=group)
        dist.destroy_process_group(group)
    finally:
        dist.set_debug_level(dist.DebugLevel.OFF)


@on_ranks(2)
def test_a_barrier_that_names_who_is_missing(rank: int, size: int) -> None:
    dist.monitored_barrier(timeout=timedelta(seconds=30))
    if rank == 0:
        with pytest.raises(RuntimeError, match=r"rank\(s\) 1 failed to pass monitoredBarrier"):
            dist.monitored_barrier(timeout=timedelta(seconds=0.1))
    dist.barrier()
    if rank == 1:
        with pytest.raises(RuntimeError, match="failed to pass monitoredBarrier"):
            dist.monitored_barrier(timeout=timedelta(seconds=30))
    dist.barrier()


@on_ranks(2)
def test_groups_give_their_communicators_back(rank: int, size: int) -> None:
    for _ in range(3):  # MPICH has 2048 communicators, of which a group takes three
        group = dist.new_group()
        made: Any = group.communicator("cpu")
        x = tt.ones(1 << 13)
        dist.all_reduce(x, group=group, async_op=True)  # only the end of the group waits for it
        dist.destroy_process_group(group)
        assert x[0].item() == size
        assert all(each == made.mpi.COMM_NULL for each in (made.comm, made._exchange, made._header_comm))


@on_ranks(2)
def test_a_message_whose_work_nobody_keeps(rank: int, size: int) -> None:
    count = 1 << 16  # more than MPI takes at once
    if rank == 0:
        for number in range(8):
            dist.isend(tt.full((count,), float(number)), 1)
        dist.barrier()
        assert [tt.full((count,), -1.0)[0].item() for _ in range(16)] == [
            -1.0
        ] * 16  # would take freed memory
        dist.barrier()
    else:
        dist.barrier()
        x = tt.empty(count)
        dist.barrier()
        for number in range(8):
            dist.recv(x, 0)
            assert (x == number).all()


@on_ranks(2)
def test_parts_for_oneself_that_do_not_match(rank: int, size: int) -> None:
    with pytest.raises(ValueError, match=f"rank {rank} sends itself 2 elements and expects 1"):
        dist.all_to_all_single(tt.zeros(2), tt.zeros(4))
    out = tt.zeros(2)
    dist.all_to_all_single(out, tt.full((2,), float(rank)))
    assert out.tolist() == [0.0, 1.0]


@on_ranks(2)
def test_a_local_group_made_again_meets_again(rank: int, size: int) -> None:
    limit = timedelta(seconds=60)
    names = []
    for _ in range(2):
        group = dist.new_group([0, 1], use_local_synchronization=True, timeout=limit)
        dist.monitored_barrier(group)
        names.append(group.group_name)
        dist.destroy_process_group(group)
    assert names[0] != names[1]  # the values of the first in the store are none of the second's


@on_ranks(2)
def test_a_fork_has_a_connection_of_its_own(rank: int, size: int) -> None:
    group = dist.new_group()
    store = group.get_group_store()
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            store.set(f"fork {rank}", "there")
            sys.excepthook(KeyError, KeyError("cabbage"), None)  # its end is not its parent's
            os.write(write, store.get(f"fork {rank}"))
        finally:
            os._exit(0)
    assert os.read(read, 5) == b"there"
    os.close(read)
    os.close(write)
    os.waitpid(child, 0)
    assert store.get(f"fork {rank}") == b"there"
    dist.barrier(group)
    assert group.spec.failures.gone(range(size)) is None


@on_ranks(2)
def test_groups_that_are_none(rank: int, size: int) -> None:
    for group in ("x", 3):
        with pytest.raises(ValueError, match="is not initialized in the world group map"):
            dist.all_reduce(tt.ones(1), group=group)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="expected a ProcessGroup, but got"):
            dist.barrier(group)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"datetime.timedelta, got 3 of int"):
        dist.monitored_barrier(timeout=3)  # type: ignore[arg-type]
    x = tt.ones(2, device="meta")
    dist.all_reduce(x)  # says nothing to anybody
    assert x.shape == (2,)


@needs_mpi
def test_a_rank_that_is_killed_while_mpi_starts() -> None:
    killed = """
from triten.distributed.backends.mpi import library
library._initialize = lambda MPI: os.kill(os.getpid(), signal.SIGKILL)
start()
"""
    first, second = run_programs(["start()", killed])
    assert (first[0], second[0]) == (1, -9)
    assert (
        "group '0' (default_pg): rank 0 waited for ranks [0, 1]; rank 1 is gone, without a word" in first[1]
    )


@needs_mpi
def test_the_end_of_a_group_does_not_wait_for_a_rank_that_is_gone() -> None:
    first, second = run_programs(
        [
            f"start(); {SMALL}; dist.all_reduce(tt.ones(1 << 16), async_op=True); dist.destroy_process_group(); "
            "print('end')",
            f"start(); {SMALL}; os.kill(os.getpid(), signal.SIGKILL)",
        ]
    )
    assert second[0] == -9
    assert first[0] == 0 and "end" in first[1]
