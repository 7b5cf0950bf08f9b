"""Cases for ranks over NCCL, or over its simulation: each case runs on all ranks and checks its own results.

`ALONE` has the cases for any number of ranks. `CASES` adds the cases for two ranks (`nccl_pair_cases`).
"""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import numpy as np

import triten as tt
from triten.distributed.backends.nccl.communicator import NCCLCommunicator
from triten.distributed.errors import DistBackendError
from triten.distributed.failures import Failures
from triten.distributed.process_group import GroupSpec
from triten.distributed.reduce_op import PremultipliedSum, ReduceOp
from triten.distributed.stores.hash_store import HashStore
from triten.runtime.cuda.driver import is_simulated

Case = Callable[[NCCLCommunicator], object]
CASES: dict[str, Case] = {}
ALONE: dict[str, Case] = {}
SIMULATED: set[str] = set()

FLOATS = (tt.float32, tt.float64, tt.float16, tt.bfloat16)
INTEGERS = (tt.uint8, tt.int8, tt.int32, tt.int64, tt.uint32, tt.uint64)
OTHERS = (tt.int16, tt.uint16, tt.complex64, tt.complex128, tt.bool, tt.float8_e4m3fn, tt.float8_e5m2)
FOLDS = {
    ReduceOp.SUM: np.add,
    ReduceOp.PRODUCT: np.multiply,
    ReduceOp.MIN: np.minimum,
    ReduceOp.MAX: np.maximum,
}


def case(function: Case) -> Case:
    """Register a case for two ranks."""
    CASES[function.__name__] = function
    return function


def alone(function: Case) -> Case:
    """Register a case for any number of ranks."""
    ALONE[function.__name__] = function
    return case(function)


def simulated(function: Case) -> Case:
    """Register a case of a promise that only the simulation makes."""
    SIMULATED.add(function.__name__)
    return function


def group_of_one(name: str, device: tt.device | None = None) -> NCCLCommunicator:
    """Return a communicator of this process alone."""
    store = HashStore()
    limit = timedelta(seconds=30)
    return NCCLCommunicator(GroupSpec(name, (0,), 0, store, limit, 0, name, device, Failures(store, 0, 1)))


@contextmanager
def raises(error: type[Exception], words: str) -> Iterator[None]:
    """Check that the block raises this error with these words in its message."""
    try:
        yield
    except error as found:
        assert re.search(words, str(found)), f"{words!r} is not in {str(found)!r}"
    else:
        raise AssertionError(f"no {error.__name__} with {words!r}")


def numbers(rank: int, dtype: tt.dtype, count: int = 6) -> tt.Tensor:
    """Return small numbers of a rank, on the host, whose sums and products are exact."""
    values = [(3 * rank + 2 * i) % 5 for i in range(count)]
    return tt.tensor(values, dtype=tt.float32).to(dtype)


def same(found: tt.Tensor, expected: tt.Tensor) -> None:
    """Check that bits, dtypes and sizes agree."""
    found = found.cpu()
    assert found.dtype == expected.dtype and found.shape == expected.shape, (found, expected)
    as_bytes = [each.contiguous().reshape(-1).view(tt.uint8).tolist() for each in (found, expected)]
    assert as_bytes[0] == as_bytes[1], f"{found.dtype}: {found} instead of {expected}"


def folded(c: NCCLCommunicator, op: ReduceOp, dtype: tt.dtype, count: int = 6) -> tt.Tensor:
    """Return the reduction of all ranks' numbers, in double precision, rounded once."""
    wide = tt.int64 if not (dtype.is_floating_point or dtype.is_complex) else tt.float64
    arrays = [numbers(rank, dtype, count).to(wide).numpy() for rank in range(c.size)]
    total = arrays[0].copy()
    for array in arrays[1:]:
        total = FOLDS.get(op, np.add)(total, array)
    if op is ReduceOp.AVG:
        total = np.trunc(total / c.size) if wide is tt.int64 else total / c.size
    return tt.tensor(total).to(dtype)


@alone
def all_reduce_computes_every_reduction_of_every_dtype(c: NCCLCommunicator) -> None:
    for op in (*FOLDS, ReduceOp.AVG):
        for dtype in (*FLOATS, *INTEGERS):
            x = numbers(c.rank, dtype).cuda()
            c.all_reduce(x, op).wait()
            same(x, folded(c, op, dtype))


@alone
def bools_are_bytes_and_complex_numbers_pairs(c: NCCLCommunicator) -> None:
    flags = tt.tensor([c.rank == 0, False, True]).cuda()
    for op, expected in ((ReduceOp.SUM, [True, False, True]), (ReduceOp.PRODUCT, [c.size == 1, False, True])):
        x = flags.clone()
        c.all_reduce(x, op).wait()
        same(x, tt.tensor(expected))
    for op in (ReduceOp.SUM, ReduceOp.AVG):
        x = numbers(c.rank, tt.complex64).cuda() * (1 - 2j)
        c.all_reduce(x, op).wait()
        same(x, folded(c, op, tt.complex64) * (1 - 2j))


@alone
def a_factor_multiplies_before_the_sum(c: NCCLCommunicator) -> None:
    for factor in (0.5, tt.tensor(0.5, device="cuda")):
        x = numbers(c.rank, tt.float16).cuda()
        c.all_reduce(x, PremultipliedSum(factor)).wait()
        same(x, folded(c, ReduceOp.SUM, tt.float16) * 0.5)


@alone
def what_nccl_does_not_compute_is_refused(c: NCCLCommunicator) -> None:
    for op in (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR):
        with raises(ValueError, rf"Cannot use ReduceOp.{op.name} with NCCL"):
            c.all_reduce(numbers(0, tt.int32).cuda(), op)
    for dtype, op, error, words in (
        (tt.bool, ReduceOp.AVG, TypeError, "Cannot use ReduceOp.AVG with boolean inputs"),
        (tt.float8_e5m2, ReduceOp.SUM, TypeError, "Float8 dtypes are not currenlty supported"),
        (tt.int16, ReduceOp.SUM, TypeError, "Input tensor data type is not supported for NCCL process group"),
        (
            tt.complex64,
            ReduceOp.MAX,
            ValueError,
            "all_reduce does not support ReduceOp.MAX on complex tensors",
        ),
    ):
        with raises(error, words):
            c.all_reduce(numbers(0, dtype).cuda(), op)
    with raises(ValueError, "NCCL cannot receive from any rank"):
        c.receive(numbers(0, tt.int32).cuda(), None)


@alone
def reduce_and_reduce_scatter(c: NCCLCommunicator) -> None:
    root = c.size - 1
    x = numbers(c.rank, tt.float32).cuda()
    c.reduce(x, ReduceOp.SUM, root).wait()
    same(x, folded(c, ReduceOp.SUM, tt.float32) if c.rank == root else numbers(c.rank, tt.float32))
    x = numbers(c.rank, tt.bfloat16, 3 * c.size).cuda()
    out = tt.empty(3, dtype=tt.bfloat16, device="cuda")
    c.reduce_scatter(out, x, ReduceOp.AVG).wait()
    same(out, folded(c, ReduceOp.AVG, tt.bfloat16, 3 * c.size)[3 * c.rank : 3 * c.rank + 3])
    same(x, numbers(c.rank, tt.bfloat16, 3 * c.size))


@alone
def bytes_of_every_dtype_move(c: NCCLCommunicator) -> None:
    for dtype in (*FLOATS, *INTEGERS, *OTHERS):
        x = numbers(c.rank, dtype).cuda()
        c.broadcast(x, c.size - 1).wait()
        same(x, numbers(c.size - 1, dtype))
        out = tt.empty(6 * c.size, dtype=dtype, device="cuda")
        c.all_gather(out, numbers(c.rank, dtype).cuda()).wait()
        same(out, tt.cat([numbers(rank, dtype) for rank in range(c.size)]))


@alone
def gather_scatter_and_all_to_all(c: NCCLCommunicator) -> None:
    root, ranks = c.size - 1, range(c.size)
    out = tt.empty(6 * c.size, dtype=tt.int16, device="cuda") if c.rank == root else None
    c.gather(out, numbers(c.rank, tt.int16).cuda(), root).wait()
    if out is not None:
        same(out, tt.cat([numbers(rank, tt.int16) for rank in ranks]))
    part = tt.empty(2, device="cuda")
    whole = numbers(7, tt.float32, 2 * c.size).cuda() if c.rank == root else None
    c.scatter(part, whole, root).wait()
    same(part, numbers(7, tt.float32, 2 * c.size)[2 * c.rank : 2 * c.rank + 2])
    # Rank i sends i + j + 1 elements to rank j, all of them i.
    sent = [c.rank + peer + 1 for peer in ranks]
    out = tt.empty(sum(sent), device="cuda")
    c.all_to_all(out, tt.full((sum(sent),), float(c.rank), device="cuda"), sent, sent).wait()
    same(out, tt.cat([tt.full((count,), float(peer)) for peer, count in enumerate(sent)]))


@alone
def empty_tensors_are_communicated(c: NCCLCommunicator) -> None:
    x = tt.empty(0, device="cuda")
    c.all_reduce(x, ReduceOp.SUM).wait()
    c.broadcast(x, 0).wait()
    c.all_gather(tt.empty(0, device="cuda"), x).wait()
    c.gather(x if c.rank == 0 else None, x, 0).wait()
    c.scatter(x, x if c.rank == 0 else None, 0).wait()
    c.all_to_all(x, x, [0] * c.size, [0] * c.size).wait()
    assert x.tolist() == []
    out = tt.empty(6 * c.size, device="cuda") if c.rank == 0 else None
    c.gather(out, numbers(c.rank, tt.float32).cuda(), 0).wait()  # its messages are the first ones
    if out is not None:
        same(out, tt.cat([numbers(rank, tt.float32) for rank in range(c.size)]))


@alone
def the_stream_of_nccl_waits_and_is_waited_for(c: NCCLCommunicator) -> None:
    side = tt.cuda.Stream()
    x = tt.ones(4, device="cuda")
    side.wait_stream(tt.cuda.current_stream())
    with tt.cuda.stream(side):
        y = x * (c.rank + 1)
        work = c.all_reduce(y, ReduceOp.SUM)
        work.wait()
        z = y + 1
    tt.cuda.current_stream().wait_stream(side)
    same(z, tt.full((4,), float(sum(range(c.size + 1)) + 1)))
    work.issued.end.synchronize()
    assert work.is_completed() and work.is_success() and work.exception() is None
    assert work.result()[0] is y


@alone
@simulated
def memory_in_use_is_not_given_to_others(c: NCCLCommunicator) -> None:
    for value in range(4):
        x = tt.full((256,), float(value + c.rank), device="cuda")
        kept = x.view(-1)
        work = c.all_reduce(x, ReduceOp.MAX)
        address = x.data_ptr()
        del x, kept, work
        other = tt.full((256,), -1.0, device="cuda")
        assert other.data_ptr() != address, "the block was handed out while NCCL used it"


@alone
def coalesced_communications_are_one_work(c: NCCLCommunicator) -> None:
    tensors = [numbers(c.rank, dtype).cuda() for dtype in (tt.float32, tt.int32, tt.int64)]
    with c.coalescing():
        first, second = (c.all_reduce(tensor, ReduceOp.SUM) for tensor in tensors[:2])
        assert first is second and not first.is_completed()
        first.wait()  # has both issued
        same(tensors[0], folded(c, ReduceOp.SUM, tt.float32))
        third = c.all_reduce(tensors[2], ReduceOp.SUM)
        assert third is not first
    third.wait()
    for tensor in tensors:
        same(tensor, folded(c, ReduceOp.SUM, tensor.dtype))
    with raises(KeyError, "lost"), c.coalescing():
        given_up = c.all_reduce(tensors[0], ReduceOp.SUM)
        raise KeyError("lost")
    with raises(DistBackendError, "has not been issued yet"):
        given_up.wait()
    assert first.result()[1] is tensors[1]


@alone
def barrier_and_future(c: NCCLCommunicator) -> None:
    c.barrier().wait()
    x = numbers(c.rank, tt.float32).cuda()
    found = c.all_reduce(x, ReduceOp.SUM).get_future().wait()
    same(found[0], folded(c, ReduceOp.SUM, tt.float32))


@alone
def a_graph_replays_collectives(c: NCCLCommunicator) -> None:
    x = numbers(c.rank, tt.float32).cuda()
    c.all_reduce(x * 2 + 1, ReduceOp.SUM).wait()  # kernels and the communicator are there before
    out = tt.empty(6 * c.size, device="cuda")
    tt.cuda.synchronize()
    graph = tt.cuda.CUDAGraph()
    with tt.cuda.graph(graph):
        y = x * 2
        work = c.all_reduce(y, ReduceOp.SUM)
        c.all_gather(out, x).wait()
        work.wait()
        z = y + 1
    for turn in range(3):
        x.copy_(numbers(c.rank + turn, tt.float32).cuda())
        graph.replay()
        mine = [numbers(rank + turn, tt.float32) for rank in range(c.size)]
        same(z, sum(mine, tt.zeros(6)) * 2 + 1)
        same(out, tt.cat(mine))
    eager = numbers(c.rank, tt.float32).cuda()
    c.all_reduce(eager, ReduceOp.SUM).wait()
    same(eager, folded(c, ReduceOp.SUM, tt.float32))


@alone
def waits_that_block_come_back_after_the_end(c: NCCLCommunicator) -> None:
    x = numbers(c.rank, tt.float32).cuda()
    tt.cuda.synchronize()
    before = os.environ.get("TORCH_NCCL_BLOCKING_WAIT")
    os.environ["TORCH_NCCL_BLOCKING_WAIT"] = "1"
    try:
        work = c.all_reduce(x, ReduceOp.SUM)
    finally:
        del os.environ["TORCH_NCCL_BLOCKING_WAIT"]
        if before is not None:
            os.environ["TORCH_NCCL_BLOCKING_WAIT"] = before
    work.wait()
    assert work.is_completed()  # at the first question, which has a simulated stream take a single step
    same(x, folded(c, ReduceOp.SUM, tt.float32))


@alone
def a_time_limit_that_is_kept_changes_nothing(c: NCCLCommunicator) -> None:
    x = numbers(c.rank, tt.float32).cuda()
    assert c.all_reduce(x, ReduceOp.SUM).wait(timedelta(seconds=60))
    same(x, folded(c, ReduceOp.SUM, tt.float32))


def run(communicator: NCCLCommunicator, cases: dict[str, Case]) -> dict[str, str]:
    """Run cases, and say what became of each: nothing where all is well."""
    found: dict[str, str] = {}
    for name, function in cases.items():
        if name in SIMULATED and not is_simulated():
            continue
        try:
            function(communicator)
            found[name] = ""
        except Exception:
            found[name] = traceback.format_exc()
            break  # other ranks may be anywhere
    return found
