"""Cases for two ranks over NCCL, or over its simulation.

``python -m triten.tests.distributed.nccl_pair_cases RANK SIZE STORE`` runs one of several ranks. The ranks
rendezvous through a file and write their results to files. They run the cases of `nccl_cases`; two ranks also
run those of this module.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import triten as tt
from triten import distributed as dist
from triten.distributed.backends.nccl.communicator import NCCLCommunicator
from triten.distributed.backends.nccl.simulated.binding import NcclError
from triten.distributed.errors import DistBackendError
from triten.distributed.reduce_op import ReduceOp
from triten.distributed.stores.file_store import FileStore
from triten.distributed.stores.store import Store
from triten.runtime.cuda.driver import is_simulated
from triten.tests.distributed.nccl_cases import (
    ALONE,
    CASES,
    case,
    folded,
    numbers,
    raises,
    run,
    same,
    simulated,
)


class Another:
    """Another group of both ranks."""

    def __init__(self, **options: Any) -> None:
        found = dist.new_group([0, 1], **options)
        assert isinstance(found, dist.ProcessGroup)
        self.group = found
        communicator = found.communicator("cuda")
        assert isinstance(communicator, NCCLCommunicator)
        self.communicator = communicator
        self.who = rf"rank {communicator.rank} of 2 in group '{found.group_name}' \(undefined\)"


def store() -> Store:
    """Return the ranks' store, for messages outside of NCCL."""
    world = dist.group.WORLD
    assert world is not None
    return world.get_group_store()


@case
def messages(c: NCCLCommunicator) -> None:
    peer = 1 - c.rank
    for dtype, count in ((tt.float32, 6), (tt.int8, 0), (tt.float8_e4m3fn, 3)):
        x = numbers(c.rank, dtype, count).cuda()
        if c.rank == 0:
            c.send(x, peer).wait()
        else:
            work = c.receive(x, peer)
            work.wait()
            assert work.source_rank() == 0
        same(x, numbers(0, dtype, count))
    out = tt.empty(6, device="cuda")
    with c.coalescing():  # both send first
        c.send(numbers(c.rank, tt.float32).cuda(), peer)
        work = c.receive(out, peer)
    work.wait()
    same(out, numbers(peer, tt.float32))


@case
def a_group_of_ranks_in_another_order(c: NCCLCommunicator) -> None:
    group = dist.new_group([1, 0], sort_ranks=False)
    assert dist.get_rank(group) == 1 - c.rank
    x = numbers(c.rank, tt.float32).cuda()
    dist.broadcast(x, group_src=0, group=group)
    same(x, numbers(1, tt.float32))
    dist.destroy_process_group(group)


@case
def ranks_wait_for_two_groups_in_either_order(c: NCCLCommunicator) -> None:
    other = Another()
    x, y = numbers(c.rank, tt.float32).cuda(), numbers(c.rank, tt.int32).cuda()
    works = [c.all_reduce(x, ReduceOp.SUM), other.communicator.all_reduce(y, ReduceOp.SUM)]
    for work in works if c.rank else works[::-1]:
        work.wait()
        tt.cuda.current_stream().synchronize()
    same(x, folded(c, ReduceOp.SUM, tt.float32))
    same(y, folded(c, ReduceOp.SUM, tt.int32))
    dist.destroy_process_group(other.group)


@case
def a_rank_that_waits_for_nothing_sends_nevertheless(c: NCCLCommunicator) -> None:
    x = numbers(c.rank, tt.float32).cuda()
    c.broadcast(x, 0).wait()
    if c.rank == 0:
        # The other one goes on only once it has got what is not waited for here.
        store().wait(["got it"])
    else:
        same(x, numbers(0, tt.float32))
        store().set("got it", "yes")


@case
def a_replay_that_nobody_waits_for_sends_nevertheless(c: NCCLCommunicator) -> None:
    x = numbers(c.rank, tt.float32).cuda()
    tt.cuda.synchronize()
    graph = tt.cuda.CUDAGraph()
    with tt.cuda.graph(graph):
        c.broadcast(x, 0).wait()
    graph.replay()
    if c.rank == 0:
        store().wait(["got the replay"])
    else:
        same(x, numbers(0, tt.float32))
        store().set("got the replay", "yes")


@case
def asking_for_the_end_does_not_wait_for_it(c: NCCLCommunicator) -> None:
    x = numbers(c.rank, tt.float32).cuda()
    if c.rank == 0:
        work = c.all_reduce(x, ReduceOp.SUM)
        for _ in range(50):
            assert not work.is_completed()
        store().set("asked", "yes")
        while not work.is_completed():
            time.sleep(0.001)
    else:
        store().wait(["asked"])
        c.all_reduce(x, ReduceOp.SUM).wait()
    same(x, folded(c, ReduceOp.SUM, tt.float32))


@case
def the_functions_of_the_module(c: NCCLCommunicator) -> None:
    rows = numbers(c.rank, tt.float32).cuda().view(2, 3)
    turned = rows.t()
    dist.all_reduce(turned)  # no contiguous one
    same(rows.view(-1), folded(c, ReduceOp.SUM, tt.float32))
    found = [tt.empty(6, device="cuda") for _ in range(2)]
    dist.all_gather(found, numbers(c.rank, tt.float32).cuda())
    same(found[1], numbers(1, tt.float32))
    peer = 1 - c.rank
    got = tt.empty(6, device="cuda")
    batch = [
        dist.P2POp(dist.isend, numbers(c.rank, tt.float32).cuda(), peer),
        dist.P2POp(dist.irecv, got, peer),
    ]
    for work in dist.batch_isend_irecv(batch):
        work.wait()
    same(got, numbers(peer, tt.float32))
    several = [numbers(c.rank, dtype).cuda() for dtype in (tt.float32, tt.int32, tt.float32)]
    dist.all_reduce_coalesced(several)
    for each in several:
        same(each, folded(c, ReduceOp.SUM, each.dtype))
    objects: list[Any] = [None, None]
    dist.all_gather_object(objects, {"rank": c.rank})
    assert objects == [{"rank": 0}, {"rank": 1}]
    dist.barrier()


@case
def threads_communicate_in_groups_of_their_own(c: NCCLCommunicator) -> None:
    others = [Another() for _ in range(2)]
    found: list[tt.Tensor | None] = [None, None]

    def repeat(place: int) -> None:
        # On one stream each group's collectives would wait for the other's, in an order of each rank's own.
        with tt.cuda.stream(tt.cuda.Stream()):
            x = numbers(c.rank, tt.int64).cuda()
            with others[place].communicator.coalescing():
                for _ in range(3):
                    others[place].communicator.all_reduce(x, ReduceOp.SUM).wait()
            found[place] = x.cpu()

    threads = [threading.Thread(target=repeat, args=(place,)) for place in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    for other, x in zip(others, found, strict=True):
        assert x is not None
        same(x, folded(c, ReduceOp.SUM, tt.int64) * 4)
        dist.destroy_process_group(other.group)


@case
def a_communication_that_does_not_end_is_an_error(c: NCCLCommunicator) -> None:
    other = Another(timeout=timedelta(seconds=1))
    lost = other.communicator
    x = numbers(c.rank, tt.float32).cuda()
    lost.all_reduce(x, ReduceOp.SUM).wait()
    tt.cuda.synchronize()
    if c.rank == 0:
        work = lost.all_reduce(x, ReduceOp.SUM)
        work.wait()  # has the stream wait, which goes on when the communicator is aborted
        message = rf"all_reduce: {other.who} waited 1 s for all ranks to call it; not heard of: rank 1"
        with raises(DistBackendError, message):
            x.tolist()  # nobody takes this for a result
        with raises(DistBackendError, message):
            work.wait()
        assert (
            isinstance(work.exception(), DistBackendError) and work.is_completed() and not work.is_success()
        )
        with raises(DistBackendError, f"broadcast: .* an earlier communication failed: {message}"):
            lost.broadcast(x, 0)
        store().set("lost", "yes")
    else:
        store().wait(["lost"])
    dist.destroy_process_group(other.group)
    y = numbers(c.rank, tt.float32).cuda()
    c.all_reduce(y, ReduceOp.SUM).wait()  # other groups go on
    same(y, folded(c, ReduceOp.SUM, tt.float32))


@case
def a_limit_of_a_wait_blocks_and_ends(c: NCCLCommunicator) -> None:
    other = Another()
    lost = other.communicator
    x = numbers(c.rank, tt.float32).cuda()
    lost.broadcast(x, 0).wait()
    tt.cuda.synchronize()
    if c.rank == 0:
        with raises(DistBackendError, rf"all_reduce: {other.who} waited 0.3 s for all ranks to call it"):
            lost.all_reduce(x, ReduceOp.SUM).wait(timedelta(seconds=0.3))
        store().set("limit", "yes")
    else:
        store().wait(["limit"])
    dist.destroy_process_group(other.group)


@case
@simulated
def what_needs_to_wait_for_nobody_is_sent_before_an_abort(c: NCCLCommunicator) -> None:
    other = Another()
    x = numbers(c.rank, tt.float32).cuda()
    other.communicator.broadcast(x, 0).wait()
    if c.rank == 0:
        other.communicator.abort()
        with raises(DistBackendError, rf"{other.who} was aborted"):
            tt.cuda.synchronize()
    else:
        same(x, numbers(0, tt.float32))
        store().set("got it before the abort", "yes")
    store().wait(["got it before the abort"])
    dist.destroy_process_group(other.group)


@case
@simulated
def ranks_whose_calls_differ_are_told(c: NCCLCommunicator) -> None:
    os.environ["TRITEN_DISTRIBUTED_CHECK"] = "0"  # the stand-in itself notices
    try:
        other = Another()
    finally:
        del os.environ["TRITEN_DISTRIBUTED_CHECK"]
    x = numbers(c.rank, tt.float32).cuda()
    other.communicator.all_reduce(x[: 2 + c.rank], ReduceOp.SUM).wait()
    with raises(RuntimeError, r"process . called ncclAllReduce\(count=., .* but process . called"):
        x.tolist()
    other.communicator.abort()
    with raises(DistBackendError, other.who):
        tt.cuda.synchronize()


def _mismatches(c: NCCLCommunicator) -> dict[str, Any]:
    """Return calls of which each rank makes another, by what errors say of both ranks."""
    rank, peer = c.rank, 1 - c.rank
    x, y = tt.zeros(4, device="cuda"), tt.zeros(4, device="cuda", dtype=tt.int32)
    four = "float32, 4 elements"
    return {
        rf"rank 0: all_reduce\({four}, sum\); rank 1: all_reduce\(float32, 3 elements, sum\)": (
            lambda on: on.all_reduce(x[: 4 - rank], ReduceOp.SUM)
        ),
        rf"rank 0: all_reduce\({four}, sum\); rank 1: all_reduce\(int32, 4 elements, sum\)": (
            lambda on: on.all_reduce(y if rank else x, ReduceOp.SUM)
        ),
        rf"rank 0: all_reduce\({four}, sum\); rank 1: all_reduce\({four}, max\)": (
            lambda on: on.all_reduce(x, ReduceOp.MAX if rank else ReduceOp.SUM)
        ),
        rf"rank 0: broadcast\({four}, root 0\); rank 1: broadcast\({four}, root 1\)": (
            lambda on: on.broadcast(x, rank)
        ),
        r"rank 0: all_gather\(float32, 1 elements\); rank 1: reduce_scatter\(float32, 2 elements, sum\)": (
            lambda on: on.reduce_scatter(x[:2], x, ReduceOp.SUM) if rank else on.all_gather(x[:2], x[:1])
        ),
        r"rank 0: send\(all_to_all: float32, 3 elements\); rank 1: recv\(all_to_all: float32, 2 elements\)": (
            lambda on: on.all_to_all(x, x, [2, 1] if rank else [1, 2], [2, 1] if rank else [1, 3])
        ),
        rf"rank 0: send\({four}\); rank 1: recv\(int32, 4 elements\)": (
            lambda on: on.receive(y, peer) if rank else on.send(x, peer)
        ),
    }


@case
@simulated
def calls_that_differ_fail_the_group_of_both_ranks(c: NCCLCommunicator) -> None:
    for said, call in _mismatches(c).items():
        other = Another()
        work = call(other.communicator)
        while work.exception() is None:  # the device is not waited for: its calls do not end
            time.sleep(0.01)
        with raises(DistBackendError, said):
            work.wait()
        with raises(DistBackendError, "an earlier communication failed"):
            other.communicator.barrier()
        with raises(DistBackendError, said):
            synchronize()


def synchronize() -> None:
    """Synchronize. A call that runs before its communicator is aborted first raises the stand-in's own error."""
    try:
        tt.cuda.synchronize()
    except NcclError:
        tt.cuda.synchronize()


def main(rank: int, size: int, path: str) -> None:
    """Run every case as one of several ranks, and write down what became of each."""
    if not is_simulated():
        tt.cuda.set_device(rank)
    limit = timedelta(seconds=30)
    dist.init_process_group("nccl", store=FileStore(path), rank=rank, world_size=size, timeout=limit)
    world = dist.group.WORLD
    assert world is not None
    communicator = world.communicator("cuda")
    assert isinstance(communicator, NCCLCommunicator)
    found = run(communicator, CASES if size == 2 else ALONE)
    Path(f"{path}.{rank}").write_text(json.dumps(found))
    if not any(found.values()):
        dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
