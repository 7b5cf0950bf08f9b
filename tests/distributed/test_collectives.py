"""Collectives of 2 and 4 processes: every function, reduction and dtype, views, and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import triten as tt
from triten import distributed as dist
from triten.distributed.reduce_op import make_premultiplied_sum
from triten.tests.distributed.ranks import on_ranks

NUMBERS = [tt.uint8, tt.int8, tt.int16, tt.int32, tt.int64, tt.float32, tt.float64, tt.float16, tt.bfloat16]
ALL = [*NUMBERS, tt.bool, tt.complex64, tt.complex128]


def of_rank(rank: int, shape: tuple[int, ...], dtype: tt.dtype) -> tt.Tensor:
    """Small numbers, others in each process."""
    draws = np.random.default_rng(rank).integers(0, 4, shape)
    return tt.from_numpy(np.asarray(draws)).to(dtype)


@on_ranks(2, 4)
def test_reductions_of_every_dtype(rank: int, size: int) -> None:
    combine: dict[Any, Any] = {
        dist.ReduceOp.SUM: lambda all_: all_.sum(0),
        dist.ReduceOp.PRODUCT: lambda all_: all_.prod(0),
        dist.ReduceOp.MIN: lambda all_: all_.amin(0),
        dist.ReduceOp.MAX: lambda all_: all_.amax(0),
    }
    for dtype in NUMBERS:
        for shape in ((), (0,), (3,), (2, 5)):
            given = tt.stack([of_rank(each, shape, dtype) for each in range(size)])
            for op, reference in combine.items():
                if not given.numel() and op in (dist.ReduceOp.MIN, dist.ReduceOp.MAX):
                    continue
                x = of_rank(rank, shape, dtype)
                before = x._version
                dist.all_reduce(x, op)
                expected = reference(given).to(dtype)
                assert tt.equal(x, expected), (dtype, shape, op, x, expected)
                assert x._version > before
    for dtype in (tt.complex64, tt.complex128):
        x = of_rank(rank, (3,), dtype) * (1 + 2j)
        dist.all_reduce(x)
        assert tt.equal(x, sum(of_rank(each, (3,), dtype) * (1 + 2j) for each in range(size)))


@on_ranks(2, 4)
def test_bits_bools_averages_and_factors(rank: int, size: int) -> None:
    numbers = [0b1100 + each for each in range(size)]
    for op, function in (
        (dist.ReduceOp.BAND, np.bitwise_and),
        (dist.ReduceOp.BOR, np.bitwise_or),
        (dist.ReduceOp.BXOR, np.bitwise_xor),
    ):
        x = tt.tensor([numbers[rank]], dtype=tt.int32)
        dist.all_reduce(x, op)
        assert x.item() == function.reduce(numbers)
        with pytest.raises(ValueError, match=f"{op.name} is not supported for"):
            dist.all_reduce(tt.ones(1), op)
    flags = tt.tensor([rank == 0, True, False])
    dist.all_reduce(flags, dist.ReduceOp.SUM)
    assert flags.tolist() == [True, True, False]
    flags = tt.tensor([rank == 0, True, False])
    dist.all_reduce(flags, dist.ReduceOp.PRODUCT)
    assert flags.tolist() == [False, True, False]
    for dtype in (tt.float32, tt.bfloat16, tt.int32):
        x = tt.tensor([rank, -rank - 1], dtype=dtype)
        dist.all_reduce(x, dist.ReduceOp.AVG)
        total = size * (size - 1) // 2
        exact = [total / size, -(total + size) / size]
        assert x.tolist() == (exact if dtype.is_floating_point else [int(each) for each in exact])
    x = tt.full((2,), 2.0)
    dist.all_reduce(x, make_premultiplied_sum(0.5 * (rank + 1)))
    assert x.tolist() == [size * (size + 1) / 2] * 2
    x = tt.tensor([float("nan") if rank == 0 else 1.0, float(rank), -0.0])
    dist.all_reduce(x, dist.ReduceOp.MAX)
    assert np.isnan(x[0].item()) and x[1].item() == size - 1
    for op in (dist.ReduceOp.MAX, dist.ReduceOp.PRODUCT):
        with pytest.raises(ValueError, match="all_reduce does not support"):
            dist.all_reduce(tt.ones(1, dtype=tt.complex64), op)


@on_ranks(2, 4)
def test_narrow_sums_are_computed_in_float32(rank: int, size: int) -> None:
    for dtype in (tt.float16, tt.bfloat16):
        values = [1.0, *[2.0**-12] * (size - 1)]
        x = tt.full((1,), values[rank]).to(dtype)
        y = tt.full((1,), 256.0 if rank == 0 else 0.75).to(dtype)
        dist.all_reduce(x)
        dist.all_reduce(y)
        assert x.item() == tt.tensor(sum(values)).to(dtype).item()
        assert y.item() == tt.tensor(256.0 + 0.75 * (size - 1)).to(dtype).item()


@on_ranks(2, 4)
def test_views_of_any_strides(rank: int, size: int) -> None:
    base = tt.zeros(6, 4)
    view = base.t()[::2]
    view.fill_(rank + 1.0)
    assert not view.is_contiguous()
    dist.all_reduce(view)
    total = size * (size + 1) / 2
    assert view.eq(total).all() and base.sum().item() == total * view.numel()
    z = tt.full((3,), complex(rank, 1)).conj()
    dist.broadcast(z, src=size - 1)
    assert z.tolist() == [complex(size - 1, -1)] * 3
    out = tt.zeros(3, 2 * size).t()
    dist.all_gather_into_tensor(out, tt.full((3, 2), float(rank)).t())
    assert out.tolist() == [[float(each // 2)] * 3 for each in range(2 * size)]
    leaf = tt.ones(2, requires_grad=True)
    dist.all_reduce(leaf)
    assert leaf.tolist() == [size] * 2 and leaf.is_leaf


@on_ranks(2, 4)
def test_every_dtype_travels(rank: int, size: int) -> None:
    for dtype in [*ALL, tt.float8_e4m3fn, tt.float8_e5m2, tt.uint16]:
        x = of_rank(rank, (2, 3), dtype) if dtype not in (tt.uint16,) else tt.full((2, 3), rank).to(dtype)
        own = x.clone()
        dist.broadcast(x, src=1)
        expected = own if rank == 1 else None
        gathered = [tt.zeros(2, 3).to(dtype) for _ in range(size)]
        dist.all_gather(gathered, own)
        assert gathered[rank].tolist() == own.tolist()
        assert x.tolist() == gathered[1].tolist()
        if expected is not None:
            assert x.tolist() == expected.tolist()
    with pytest.raises(ValueError, match="SUM is not supported for"):
        dist.all_reduce(tt.zeros(2).to(tt.float8_e4m3fn))


@on_ranks(2, 4)
def test_gather_scatter_and_reduce(rank: int, size: int) -> None:
    for root in range(size):
        x = tt.full((2,), float(rank))
        lists = [tt.zeros(2) for _ in range(size)] if rank == root else None
        dist.gather(x, lists, dst=root)
        if lists is not None:
            assert [each.tolist() for each in lists] == [[float(each)] * 2 for each in range(size)]
        given = [tt.full((2,), 10.0 * each) for each in range(size)] if rank == root else None
        dist.scatter(x, given, src=root)
        assert x.tolist() == [10.0 * rank] * 2
        y = tt.full((3,), rank + 1.0)
        dist.reduce(y, dst=root)
        assert y.tolist() == [size * (size + 1) / 2 if rank == root else rank + 1.0] * 3
    out = tt.zeros(2)
    dist.reduce_scatter(out, [tt.full((2,), float(rank * each)) for each in range(size)])
    total = size * (size - 1) / 2
    assert out.tolist() == [total * rank] * 2
    dist.reduce_scatter_tensor(out, tt.arange(2.0 * size) + rank, op=dist.ReduceOp.MAX)
    assert out.tolist() == [2 * rank + size - 1.0, 2 * rank + size]


@on_ranks(2, 4)
def test_all_to_all(rank: int, size: int) -> None:
    given = tt.arange(2 * size).reshape(2 * size, 1) + 100 * rank
    out = tt.zeros_like(given)
    dist.all_to_all_single(out, given)
    assert out.flatten().tolist() == [100 * each + 2 * rank + k for each in range(size) for k in range(2)]
    # Process r sends r + 1 rows to each.
    rows = tt.full(((rank + 1) * size, 2), float(rank))
    received = tt.zeros(size * (size + 1) // 2, 2)
    sizes = [each + 1 for each in range(size)]
    dist.all_to_all_single(received, rows, sizes, [rank + 1] * size)
    assert received[:, 1].tolist() == [float(each) for each in range(size) for _ in range(each + 1)]
    outputs = [tt.zeros(each + 1) for each in range(size)]
    dist.all_to_all(outputs, [tt.full((rank + 1,), float(each)) for each in range(size)])
    assert [each.tolist() for each in outputs] == [[float(rank)] * (each + 1) for each in range(size)]
    with pytest.raises(ValueError, match="does not divide equally"):
        dist.all_to_all_single(tt.zeros(2 * size + 1), tt.zeros(2 * size + 1))
    with pytest.raises(ValueError, match="Split sizes doesn't match"):
        dist.all_to_all_single(tt.zeros(3), tt.zeros(3), [1] * size, [1] * size) if size != 3 else None


@on_ranks(2, 4)
def test_work_ends_in_order_and_with_large_tensors(rank: int, size: int) -> None:
    works = []
    tensors = [tt.full((n,), rank + 1.0) for n in (1, 1 << 16, 3, 1 << 18, 0, 5)]
    for tensor in tensors:
        work = dist.all_reduce(tensor, async_op=True)
        assert isinstance(work, dist.Work)
        works.append(work)
    small = tt.ones(1)
    dist.all_reduce(small)  # waits for its turn behind them
    for work, tensor in zip(works, tensors, strict=True):
        assert work.wait() and work.is_completed() and work.is_success() and work.exception() is None
        assert tensor.eq(size * (size + 1) / 2).all()
    assert works[1].result()[0] is tensors[1]
    assert works[1].get_future().wait()[0] is tensors[1]
    out = [tt.zeros(1 << 16) for _ in range(size)]
    work = dist.all_gather(out, tt.full((1 << 16,), float(rank)), async_op=True)
    assert work is not None and work.wait()
    assert [each[-1].item() for each in out] == list(range(size))
    several = [tt.ones(2), tt.ones(3, dtype=tt.int64), tt.ones(1, 2)]
    dist.all_reduce_coalesced(several)
    assert [each.flatten().tolist() for each in several] == [[size] * 2, [size] * 3, [size] * 2]


@on_ranks(2, 4)
def test_objects(rank: int, size: int) -> None:
    own = {"rank": rank, "text": "x" * (100 * rank)}
    found: list[Any] = [None] * size
    dist.all_gather_object(found, own)
    assert [each["rank"] for each in found] == list(range(size)) and found[rank] == own
    lists: list[Any] | None = [None] * size if rank == 1 else None
    dist.gather_object(own, lists, dst=1)
    assert lists is None or [len(each["text"]) for each in lists] == [100 * each for each in range(size)]
    objects = [own, tt.ones(2), None] if rank == 0 else [None] * 3
    dist.broadcast_object_list(objects, src=0)
    assert objects[0]["rank"] == 0 and objects[1].tolist() == [1.0, 1.0]
    place: list[Any] = [None]
    dist.scatter_object_list(place, [f"for {each}" for each in range(size)] if rank == 0 else None, src=0)
    assert place == [f"for {rank}"]
    if rank == 0:
        dist.send_object_list(["a", 2], dst=1)
    if rank == 1:
        got: list[Any] = [None, None]
        assert dist.recv_object_list(got, src=0) == 0 and got == ["a", 2]


@on_ranks(2, 4)
def test_messages(rank: int, size: int) -> None:
    after, before = (rank + 1) % size, (rank - 1) % size
    for numel in (1, 1 << 17):  # short and long
        x, y = tt.full((numel,), float(rank)), tt.zeros(numel)
        works = dist.batch_isend_irecv([dist.P2POp(dist.isend, x, after), dist.P2POp(dist.irecv, y, before)])
        for work in works:
            work.wait()
        assert y.eq(before).all()
    if rank == 0:
        dist.send(tt.tensor([1.0]), dst=1, tag=7)
        dist.send(tt.tensor([2.0]), dst=1, tag=5)
    if rank == 1:
        got = tt.zeros(1)
        assert dist.recv(got, src=0, tag=5) == 0 and got.item() == 2.0
        assert dist.recv(got, tag=7) == 0 and got.item() == 1.0
    with pytest.raises(ValueError, match="should not be the same as the rank of the current process"):
        dist.send(tt.ones(1), dst=rank)
    with pytest.raises(ValueError, match="is not part of group"):
        dist.send(tt.ones(1), dst=size)


@on_ranks(2, 4)
def test_what_is_refused(rank: int, size: int) -> None:
    with pytest.raises(TypeError, match="Expected parameter `tensor` of type Tensor"):
        dist.all_reduce([tt.ones(1)])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected a ReduceOp"):
        dist.all_reduce(tt.ones(1), "sum")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="different dtypes"):
        dist.all_gather([tt.ones(1)] * size, tt.ones(1, dtype=tt.int64))
    with pytest.raises(ValueError, match=f"expected {size} tensors in tensor_list"):
        dist.all_gather([tt.ones(1)], tt.ones(1))
    with pytest.raises(ValueError, match="invalid tensor size at index 0"):
        dist.all_gather([tt.ones(2)] * size, tt.ones(1))
    with pytest.raises(ValueError, match="output tensor size must be equal to world_size times"):
        dist.all_gather_into_tensor(tt.ones(size + 1), tt.ones(1))
    for count in (2 * size - 1, 2 * size + 1, 4 * size):
        with pytest.raises(ValueError, match="same size as output size times world size"):
            dist.reduce_scatter_tensor(tt.ones(2), tt.ones(count))
    with pytest.raises(ValueError, match="gather_list"):
        dist.gather(tt.ones(1), [tt.ones(1)] * size if rank else None, dst=0)
    with pytest.raises(RuntimeError, match="No backend type associated with device type cpu"):
        dist.all_reduce(tt.ones(1), group=dist.new_group(backend="nccl"))
    with pytest.raises(ValueError, match="twice"):
        dist.init_process_group("mpi")
    with pytest.raises(ValueError, match="dense tensor"):
        dist.all_reduce(tt.ones(2).to_sparse())
    dist.barrier()


@on_ranks(2)
def test_lists_with_more_places_than_ranks(rank: int, size: int) -> None:
    found: list[Any] = [None] * size + ["stays"]
    dist.all_gather_object(found, {"rank": rank})
    assert found == [{"rank": 0}, {"rank": 1}, "stays"]
    found = [None] * size + ["stays"]
    dist.gather_object(rank, None if rank else found)
    assert found == ([None, None, "stays"] if rank else [0, 1, "stays"])
    with pytest.raises(ValueError, match="expected 2 entries in object_list"):
        dist.all_gather_object([None], rank)
