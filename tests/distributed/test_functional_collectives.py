"""Collectives as functions: results and gradients are those of the same function of all processes' tensors at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

import triten as tt
from triten import distributed as dist
from triten.distributed import _functional_collectives as funcol
from triten.distributed.functional_collectives.pending import count_pending
from triten.distributed.nn import functional as nn_collectives
from triten.tests.distributed.ranks import on_ranks

Tensors = list[tt.Tensor]


def of_rank(rank: int, shape: tuple[int, ...] = (4, 3)) -> tt.Tensor:
    """Other numbers in each process, and the same in each run."""
    generator = tt.Generator().manual_seed(rank)
    return tt.randn(shape, generator=generator, dtype=tt.float64)


def check_against_one_process(
    rank: int,
    size: int,
    collective: Callable[[tt.Tensor], Any],
    together: Callable[[Tensors], Sequence[Any]],
) -> None:
    """Compare a collective, and the gradient of a sum over all processes, with a function of all tensors at once."""
    inputs = [of_rank(each).requires_grad_() for each in range(size)]
    everywhere = [flat(each) for each in together(inputs)]
    loss = sum(
        (weighted(each, place) for place, each in enumerate(everywhere)), tt.zeros((), dtype=tt.float64)
    )
    expected = tt.autograd.grad(loss, inputs, materialize_grads=True)
    own = of_rank(rank).requires_grad_()
    found = flat(collective(own))
    for one, other in zip(found, everywhere[rank], strict=True):
        tt.testing.assert_close(one.detach(), other.detach())
    weighted(found, rank).backward()
    assert own.grad is not None
    tt.testing.assert_close(own.grad, expected[rank])


def flat(result: Any) -> Tensors:
    return [result] if isinstance(result, tt.Tensor) else list(result)


def weighted(tensors: Tensors, rank: int) -> tt.Tensor:
    """Return a scalar that depends on each element differently."""
    total = tt.zeros((), dtype=tt.float64)
    for place, each in enumerate(tensors):
        total = total + (each.sin() * of_rank(100 + 10 * rank + place, tuple(each.shape))).sum()
    return total


def summed(tensors: Tensors) -> Tensors:
    return [sum(tensors[1:], tensors[0])] * len(tensors)


def part(tensors: Sequence[tt.Tensor], rank: int, size: int, dim: int = 0) -> tt.Tensor:
    return tensors[rank].chunk(size, dim)[rank]


@on_ranks(2)
def test_results_and_gradients(rank: int, size: int) -> None:
    world = dist.group.WORLD
    assert world is not None
    sizes = [1, 3]
    received = [sizes[rank]] * size
    pairs: list[tuple[Callable[[tt.Tensor], Any], Callable[[Tensors], Sequence[Any]]]] = [
        (lambda x: funcol.all_reduce(x, "sum", world), summed),
        (lambda x: funcol.all_reduce(x, "SUM", "0"), summed),
        (
            lambda x: funcol.all_reduce_coalesced([x, x * 2], "sum", world),
            lambda all_: [(total, 2 * total) for total in summed(all_)],
        ),
        (lambda x: funcol.all_gather_single(x, 0, world), lambda all_: [tt.cat(all_)] * size),
        (lambda x: funcol.all_gather_tensor(x, 1, world), lambda all_: [tt.cat(all_, 1)] * size),
        (
            lambda x: funcol.all_gather_single_coalesced([x, x.t()], world),
            lambda all_: [(tt.cat(all_), tt.cat([each.t() for each in all_]))] * size,
        ),
        (
            lambda x: funcol.reduce_scatter_single(x, "sum", 0, world),
            lambda all_: [part(summed(all_), each, size) for each in range(size)],
        ),
        (
            lambda x: funcol.reduce_scatter_tensor(x.t(), "sum", 1, world),
            lambda all_: [part(summed(all_), each, size).t() for each in range(size)],
        ),
        (
            lambda x: funcol.reduce_scatter_single_coalesced([x, x.t()], "sum", [0, 1], world),
            lambda all_: [
                (part(summed(all_), each, size), part(summed(all_), each, size).t()) for each in range(size)
            ],
        ),
        (
            lambda x: funcol.all_to_all_single(x, None, None, world),
            lambda all_: [tt.cat([x.chunk(size)[each] for x in all_]) for each in range(size)],
        ),
        (
            lambda x: funcol.all_to_all_single(x, received, sizes, world),
            lambda all_: [tt.cat([x.split(sizes)[each] for x in all_]) for each in range(size)],
        ),
        (lambda x: funcol.permute_tensor(x, [1, 0], world), lambda all_: all_[::-1]),
    ]
    for collective, together in pairs:
        check_against_one_process(rank, size, collective, together)


@on_ranks(2)
def test_results_and_gradients_of_nn_functional(rank: int, size: int) -> None:
    f = nn_collectives
    average = dist.ReduceOp.AVG
    zeros = tt.zeros(4, 3, dtype=tt.float64)
    sizes = [1, 3]
    pairs: list[tuple[Callable[[tt.Tensor], Any], Callable[[Tensors], Sequence[Any]]]] = [
        (f.all_reduce, summed),
        (lambda x: f.all_reduce(x, average), lambda all_: [each / size for each in summed(all_)]),
        (lambda x: f.broadcast(x, 1), lambda all_: [all_[1]] * size),
        (f.all_gather, lambda all_: [tuple(all_)] * size),
        (
            lambda x: f.gather(x, 1),
            lambda all_: [tuple(all_) if each == 1 else (zeros,) * size for each in range(size)],
        ),
        (
            lambda x: f.scatter(x.chunk(size), 1),
            lambda all_: [all_[1].chunk(size)[each] for each in range(size)],
        ),
        (
            lambda x: f.reduce_scatter(tt.empty(2, 3, dtype=tt.float64), x.chunk(size), average),
            lambda all_: [part(summed(all_), each, size) / size for each in range(size)],
        ),
        (
            lambda x: f._all_gather_base(tt.empty(8, 3, dtype=tt.float64), x),
            lambda all_: [tt.cat(all_)] * size,
        ),
        (
            lambda x: f.all_to_all([tt.empty(2, 3, dtype=tt.float64) for _ in range(size)], x.chunk(size)),
            lambda all_: [tuple(x.chunk(size)[each] for x in all_) for each in range(size)],
        ),
        (
            lambda x: f.all_to_all_single(
                tt.empty(sizes[rank] * size, 3, dtype=tt.float64), x, [sizes[rank]] * size, sizes
            ),
            lambda all_: [tt.cat([x.split(sizes)[each] for x in all_]) for each in range(size)],
        ),
    ]
    for collective, together in pairs:
        check_against_one_process(rank, size, collective, together)
    # `reduce` leaves the other ranks' results undefined.
    own = of_rank(rank).requires_grad_()
    reduced = f.reduce(own, 1, average)
    (reduced.sum() * (rank == 1)).backward()
    assert own.grad is not None and own.grad.eq(1 / size).all()
    with pytest.raises(RuntimeError, match="all_reduce backward only supports SUM and AVG"):
        f.all_reduce(own, dist.ReduceOp.MAX).sum().backward()


@on_ranks(2)
def test_gradcheck(rank: int, size: int) -> None:
    # All processes move the same element of the same tensor at once, and the functions are symmetric in them.
    world = dist.group.WORLD
    x = of_rank(0, (1, 2)).requires_grad_()
    for function in (
        lambda a: funcol.wait_tensor(funcol.all_reduce(a.sin(), "sum", world)),
        lambda a: funcol.all_gather_single(a.sin(), 0, world).view(size, 1, 2).sum(0),
        lambda a: funcol.reduce_scatter_single(a.sin().repeat(size, 1), "sum", 0, world) * 1,
    ):
        assert tt.autograd.gradcheck(function, x)
        assert tt.autograd.gradgradcheck(function, x)


@on_ranks(2)
def test_a_result_waits_at_its_first_use(rank: int, size: int) -> None:
    total = size * (size + 1) / 2
    for rows in (2, 40_000):  # that MPI sends at once, and in a thread
        x = tt.full((rows, 3), rank + 1.0)

        def make(x: tt.Tensor = x) -> Any:
            return funcol.all_reduce(x, "sum", "0")

        result = make()
        assert type(result) is funcol.AsyncCollectiveTensor and not result.completed
        view = result.view(-1)[1:]
        assert type(view) is funcol.AsyncCollectiveTensor and not result.completed
        assert result.shape == x.shape and not result.completed
        double = view * 2
        assert type(double) is tt.Tensor and view.completed and double.eq(2 * total).all()
        assert type(result.view(-1)) is funcol.AsyncCollectiveTensor
        for read in (
            lambda: make()[0, 0].item(),
            lambda: make()[0].tolist()[0],
            lambda: make().numpy()[0, 0],
            lambda: make().wait()[0, 0],
            lambda: make().clone()[0, 0],
            lambda: make().contiguous()[0, 0],
            lambda: tt.stack([make(), make()])[1, 0, 0],
            lambda: make().double().amax(),
        ):
            assert read() == total
        written = make()
        assert written.add_(1) is written and written[0, 0] == total + 1
        assert x.eq(rank + 1).all()
        again = make()
        dist.all_reduce(again)
        assert again[-1, 0] == total * size
        assert repr(make()[:1, 0]) == f"AsyncCollectiveTensor(tensor([{int(total)}.]))"
    # Autograd keeps what an operator wrote in place.
    leaf = tt.ones(2, dtype=tt.float64, requires_grad=True)
    written = funcol.all_reduce(leaf * rank, "sum", "0").exp_()
    assert type(written) is funcol.AsyncCollectiveTensor
    written.sum().backward()
    assert leaf.grad is not None
    tt.testing.assert_close(leaf.grad, tt.full_like(leaf, rank * size).mul_(written.detach()))
    assert count_pending() <= 64


@on_ranks(2)
def test_operators_in_place_and_with_out(rank: int, size: int) -> None:
    ops = tt.ops._c10d_functional
    x = tt.full((4, 2), float(rank))
    assert ops.all_reduce_(x, "max", "0") is x
    assert ops.wait_tensor(x) is x and x.eq(size - 1).all()
    several = [tt.full((2,), float(rank)), tt.full((3,), rank), tt.full((1,), float(rank))]
    for one, other in zip(ops.all_reduce_coalesced_(several, "sum", "0"), several, strict=True):
        assert one is other and ops.wait_tensor(one).eq(size * (size - 1) // 2).all()
    column = tt.zeros(4, 2).t()
    column[:] = rank
    ops.broadcast_(column, 1, "0")
    assert ops.wait_tensor(column).eq(1).all()
    out = tt.zeros(4 * size)
    assert ops.all_gather_into_tensor_out(tt.full((4,), float(rank)), size, "0", out=out) is out
    assert ops.wait_tensor(out).tolist() == [float(each) for each in range(size) for _ in range(4)]
    ops.reduce_scatter_tensor_out(tt.arange(4.0), "avg", size, "0", out=out[:2])
    assert ops.wait_tensor(out)[:2].tolist() == [2.0 * rank, 2.0 * rank + 1]
    large = [ops.all_gather_into_tensor(tt.full((40_000,), float(rank)), size, "0") for _ in range(70)]
    assert all(ops.wait_tensor(each)[-1] == size - 1 for each in large)


def in_place(x: tt.Tensor) -> Any:
    double = x * 2
    transposed = double.t()
    dist.all_reduce(double)
    return transposed + 1, double


def overlapped(x: tt.Tensor) -> Any:
    gathered = x.new_empty(2 * x.shape[0], 3)
    work = dist.all_gather_into_tensor(gathered, x, async_op=True)
    other = x.exp()
    assert work is not None
    work.wait()
    part = tt.empty_like(x)
    dist.reduce_scatter_tensor(part, gathered * 2)
    return part * other


def several(x: tt.Tensor) -> Any:
    lists = [tt.empty_like(x) for _ in range(2)]
    dist.all_gather(lists, x + 1)
    dist.broadcast(lists[0], 1)
    exchanged = tt.empty_like(x)
    dist.all_to_all_single(exchanged, lists[0] - lists[1])
    tt.ops._c10d_functional.all_reduce(x, "sum", "0")  # no caller waits for it
    return exchanged


def of_parts(x: tt.Tensor) -> Any:
    copied = x.clone()
    dist.all_reduce(copied[1:])
    work = dist.broadcast(copied[:1], 1, async_op=True)
    tt.ops._c10d_functional.all_reduce_(copied[3:, :2], "max", "0")
    dist.all_gather_into_tensor(copied[1:3], x[3:4])
    assert work is not None
    work.wait()
    tt.ops._c10d_functional.wait_tensor(copied)
    return copied * 2


def across_a_break(x: tt.Tensor) -> Any:
    double = x * 2
    work = dist.all_reduce(double, async_op=True)
    dist.barrier()
    assert work is not None
    work.wait()
    return double + 1


def functional(x: tt.Tensor) -> Any:
    reduced = funcol.all_reduce(x.sin(), "sum", dist.group.WORLD)
    return (funcol.all_gather_single(reduced.exp(), 1, "0") * 2).sum()


def refused(x: tt.Tensor) -> Any:
    double = x * 2
    dist.barrier()
    return double + 1


@on_ranks(2)
def test_graphs_hold_communication(rank: int, size: int) -> None:
    for function in (in_place, overlapped, several, of_parts, functional, refused, across_a_break):
        compiled = tt.compile(function)
        for rows in (4, 30_000):
            x = of_rank(rank, (rows, 3))
            for _ in range(2):
                for one, other in zip(flat(compiled(x)), flat(function(x)), strict=True):
                    tt.testing.assert_close(one, other)
    x, y = (of_rank(rank).requires_grad_() for _ in range(2))
    tt.compile(functional)(x).backward()
    functional(y).backward()
    assert x.grad is not None and y.grad is not None
    tt.testing.assert_close(x.grad, y.grad)
    for function in (in_place, overlapped, several, of_parts):
        traced = tt.func.make_graph(function)(of_rank(rank))
        again = of_rank(rank) + 1
        for one, other in zip(flat(traced(again)), flat(function(again)), strict=True):
            assert tt.equal(one, other)
        pure = tt.func.functionalize(function)
        for one, other in zip(flat(pure(again)), flat(function(again)), strict=True):
            assert tt.equal(one, other)
