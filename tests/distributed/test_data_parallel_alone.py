"""`DistributedDataParallel` works in one process: buckets, arguments, and devices other than the host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import triten as tt
from triten import distributed as dist
from triten import nn
from triten.distributed.algorithms.join import Join
from triten.distributed.data_parallel.buckets import NO_LIMIT, compute_bucket_assignment_by_size
from triten.distributed.work import DoneWork
from triten.distributed.work_future import WorkFuture, completed_by_waiters
from triten.nn.parallel import DistributedDataParallel as DDP


@pytest.fixture
def alone() -> Iterator[None]:
    dist.init_process_group("cpu:mpi,cuda:mpi", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture
def many() -> Iterator[None]:
    dist.init_process_group("fake", store=dist.HashStore(), rank=1, world_size=8)
    yield
    dist.destroy_process_group()


def test_parameters_go_into_buckets_by_size() -> None:
    tensors = [
        tt.zeros(10),
        tt.zeros(20),
        tt.zeros(5, dtype=tt.float64),
        tt.zeros(30),
        tt.zeros(1),
        tt.zeros(4),
    ]
    indices, limits = compute_bucket_assignment_by_size(tensors, [100, 1000])
    assert indices == [[0, 1], [2], [3, 4, 5]] and limits == [100, 100, 1000]
    indices, _ = compute_bucket_assignment_by_size(tensors, [100], [False, True, False, False, False, False])
    assert indices == [[0, 3], [1], [2], [4, 5]]
    indices, limits = compute_bucket_assignment_by_size(tensors[:2][::-1], [NO_LIMIT], [], [1, 0])
    assert indices == [[1, 0]] and limits == [NO_LIMIT]


def test_a_module_on_any_device(device: str, alone: None) -> None:
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)).to(device)
    other = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)).to(device)
    other.load_state_dict(module.state_dict())
    for as_view in (False, True):
        model = DDP(module, device_ids=[0] if device == "cuda" else None, gradient_as_bucket_view=as_view)
        for _ in range(2):
            x = tt.randn(5, 3)
            model.zero_grad()
            other.zero_grad()
            model(x if device == "cuda" else x.clone()).sum().backward()  # moved to the module's device
            other(x.to(device)).sum().backward()
            for own, expected in zip(module.parameters(), other.parameters(), strict=True):
                tt.testing.assert_close(own.grad, expected.grad)


def test_meta_tensors_of_many_ranks(many: None) -> None:
    model = DDP(nn.Sequential(nn.Linear(1000, 1000), nn.Linear(1000, 10)).to("meta"))
    optimizer = dist.optim.ZeroRedundancyOptimizer(model.parameters(), tt.optim.SGD, lr=0.1, momentum=0.9)
    for _ in range(2):
        optimizer.zero_grad()
        model(tt.ones(4, 1000, device="meta")).sum().backward()
        optimizer.step()
        assert all(each.grad.device.type == "meta" for each in model.parameters())
    assert [bucket.buffer.numel() for bucket in model.reducer.buckets] == [1_011_010]  # 1 MiB and more
    owned = [[each.numel() for each in optimizer._params_of(rank)] for rank in range(8)]
    assert owned == [[1_000_000], [10_000], [1000], [10], [], [], [], []]


def test_averages_divide_by_the_number_of_processes(many: None) -> None:
    model = DDP(nn.Linear(1, 1), bucket_cap_mb=1)
    model(tt.full((1, 1), 16.0)).backward()
    assert model.module.weight.grad.item() == 2.0  # no other rank contributes


def test_arguments(alone: None) -> None:
    with pytest.raises(ValueError, match="need to be set at the same time"):
        DDP(nn.Linear(1, 1), delay_all_reduce_named_params=[])
    with pytest.raises(ValueError, match="contain a single element"):
        DDP(nn.Linear(1, 1), device_ids=[0, 1])
    with pytest.raises(RuntimeError, match="uninitialized parameters"):
        DDP(nn.LazyLinear(1))
    with pytest.warns(FutureWarning, match="value is ignored"):
        assert not DDP(nn.Linear(1, 1), broadcast_buffers=True, forward_sync_buffers=False).broadcast_buffers
    model = DDP(nn.Linear(1, 1), bucket_cap_mb_list=[1, 2], static_graph=True)
    assert model.bucket_bytes_cap == 2 << 20
    with pytest.warns(UserWarning, match="no need to set it again"):
        model._set_static_graph()
    with pytest.warns(UserWarning, match="find_unused_parameters=true"):
        DDP(nn.Linear(1, 1), static_graph=True, find_unused_parameters=True)
    with pytest.raises(ValueError, match="at least one joinable"):
        Join([])


def test_a_hook_makes_buffers_equal(alone: None) -> None:
    seen: list[Any] = []
    model = DDP(nn.BatchNorm1d(2))
    model._register_buffer_comm_hook("state", lambda state, buffers: seen.append((state, sorted(buffers))))
    model(tt.randn(3, 2))
    assert seen == [("state", ["num_batches_tracked", "running_mean", "running_var"])]


def test_outputs_of_any_structure_may_be_written_to(alone: None) -> None:
    class Several(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x: tt.Tensor) -> Any:
            return {"a": (self.one(x), None), "b": [self.two(x), "text", x]}

    model = DDP(Several(), find_unused_parameters=True)
    out = model(tt.ones(1, 2))
    assert out["a"][1] is None and out["b"][1] == "text" and out["b"][2].tolist() == [[1.0, 1.0]]
    out["a"][0].mul_(2)
    out["a"][0].sum().backward()
    assert model.module.one.bias.grad.tolist() == [2.0, 2.0] and model.module.two.bias.grad is None
    with tt.no_grad():
        model(tt.ones(1, 2))


def test_an_error_in_backward_leaves_the_next_step_to_fail(alone: None) -> None:
    model = DDP(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)))

    def fails(grad: tt.Tensor) -> None:
        raise KeyError("cabbage")

    hidden = model.module[0].register_forward_hook(lambda m, i, o: o.register_hook(fails) and None)
    with pytest.raises(KeyError, match="cabbage"):
        model(tt.ones(1, 2)).sum().backward()
    hidden.remove()
    with pytest.raises(RuntimeError, match="Expected to have finished reduction"):
        model(tt.ones(1, 2))


def test_futures_are_completed_by_whoever_waits() -> None:
    order: list[str] = []

    def produce(name: str) -> Any:
        def run() -> str:
            order.append(name)
            return name

        return run

    first = WorkFuture(produce("first"), lambda: False)
    second = first.then(lambda done: done.value() + " and second")
    assert order == [] and not second.done()
    assert second.wait() == "first and second" and second.done() and order == ["first"]
    failing = WorkFuture(lambda: 1 // 0, lambda: True)
    assert failing.done()
    with pytest.raises(ZeroDivisionError):
        failing.then(lambda done: done.value()).wait()
    called: list[Any] = []
    late = WorkFuture(produce("late"), lambda: False)
    late.add_done_callback(called.append)
    assert late.wait() == "late" and tt.futures.collect_all([late]).wait() == [late]
    with completed_by_waiters():
        assert DoneWork([tt.ones(1)]).get_future().wait()[0].item() == 1.0
