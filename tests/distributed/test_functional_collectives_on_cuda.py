"""Collectives as functions over NCCL, or what stands in its place: streams, memory, graphs."""

from __future__ import annotations

import importlib.util

import pytest

import triten as tt
from triten import distributed as dist
from triten.distributed import _functional_collectives as funcol
from triten.tests.distributed.ranks import on_ranks

if importlib.util.find_spec("triton") is None:
    pytest.skip("triton has no wheel for this platform", allow_module_level=True)


@on_ranks(2, cuda="interpret")
def test_on_cuda(rank: int, size: int) -> None:
    world = dist.group.WORLD
    x = tt.full((4, 2), rank + 1.0, device="cuda", requires_grad=True)
    reduced = funcol.all_reduce(x * 2, "sum", world)
    assert type(reduced) is funcol.AsyncCollectiveTensor and not reduced.completed
    view = reduced.view(-1)
    assert type(view) is funcol.AsyncCollectiveTensor
    (view * tt.arange(8.0, device="cuda")).sum().backward()
    assert view.eq(size * (size + 1)).all() and x.grad is not None
    assert x.grad.flatten().tolist() == [2.0 * size * each for each in range(8)]
    # The stream that waits is the one that reads, whatever was current when the collective began.
    side = tt.cuda.Stream()
    gathered = funcol.all_gather_single(x.detach(), 1, world)
    with tt.cuda.stream(side):
        side.wait_stream(tt.cuda.default_stream())
        double = funcol.reduce_scatter_single(x.detach() * 2, "sum", 0, world) * 2
    tt.cuda.current_stream().wait_stream(side)
    assert double.tolist() == [[2.0 * size * (size + 1)] * 2] * 2
    assert gathered.tolist() == [[1.0, 1.0, 2.0, 2.0]] * 4
    # The allocator does not reuse freed memory before the communication has finished with it.
    for step in range(3):
        funcol.all_reduce(tt.full((1000,), float(step), device="cuda"), "sum", world)
        tt.full((1000,), -1.0, device="cuda")
    kept = [
        funcol.all_to_all_single(tt.full((2,), float(rank + step), device="cuda"), None, None, world)
        for step in range(3)
    ]
    assert [each.tolist() for each in kept] == [[float(step), step + 1.0] for step in range(3)]


@on_ranks(2, cuda="interpret")
def test_in_graphs_of_cuda(rank: int, size: int) -> None:
    x = tt.full((4,), float(rank), device="cuda")

    def doubled() -> tt.Tensor:
        return funcol.all_reduce(x + 1, "sum", "0") * 2

    doubled()  # makes the communicator
    graph = tt.cuda.CUDAGraph()
    with tt.cuda.graph(graph):
        total = doubled()
    for step in range(2):
        x.fill_(rank + step)
        graph.replay()
        assert total.tolist() == [2.0 * (1 + 2 * step + size)] * 4

    def step(x: tt.Tensor) -> tt.Tensor:
        double = x * 2
        dist.all_reduce(double)
        return double.exp() + x

    for mode in (None, "reduce-overhead"):
        compiled = tt.compile(step, mode=mode)
        for value in range(4):
            y = tt.full((4,), rank + 0.25 * value, device="cuda")
            assert tt.equal(compiled(y), step(y))
