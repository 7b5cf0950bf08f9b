"""`DistributedDataParallel` in 2 processes: gradients are those of one process with all inputs."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import triten as tt
from triten import distributed as dist
from triten import nn
from triten.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook
from triten.nn.parallel import DistributedDataParallel as DDP
from triten.tests.distributed.ranks import on_ranks


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3))


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4 * 9, 3)
    )


def gradients(module: nn.Module) -> list[Any]:
    return [each.grad for each in module.parameters()]


def assert_averages(model: Any, inputs: tt.Tensor, rank: int, size: int, **kwargs: Any) -> None:
    """Gradients of a model, called with this process's share, are those of its module with all inputs."""
    alone = copy.deepcopy(model.module)
    alone.zero_grad()
    model.zero_grad()
    model(inputs[rank::size]).square().mean().backward()
    alone(inputs).square().mean().backward()
    for own, expected in zip(gradients(model.module), gradients(alone), strict=True):
        tt.testing.assert_close(own, expected, rtol=1e-5, atol=1e-6, **kwargs)


def train(make: Any, shape: tuple[int, ...], rank: int, size: int, **options: Any) -> Any:
    tt.manual_seed(rank)  # the parameters of process 0 win
    model = DDP(make(), **options)
    optimizer = tt.optim.SGD(model.parameters(), lr=0.1)
    tt.manual_seed(7)
    for _ in range(3):
        assert_averages(model, tt.randn(*shape), rank, size)
        optimizer.step()
    for parameter in model.parameters():
        first = parameter.detach().clone()
        dist.broadcast(first, 0)
        assert tt.equal(first, parameter)
    return model


@on_ranks(2, 4)
def test_gradients_are_those_of_one_process_with_all_inputs(rank: int, size: int) -> None:
    train(perceptron, (12, 6), rank, size)


@on_ranks(2)
def test_options_change_no_gradient(rank: int, size: int) -> None:
    for make, shape in ((perceptron, (12, 6)), (convolutional, (8, 1, 6, 6))):
        train(make, shape, rank, size, static_graph=True)
        train(make, shape, rank, size, find_unused_parameters=True)
        assert len(train(make, shape, rank, size, bucket_cap_mb=0.0005).reducer.buckets) > 1
        model = train(make, shape, rank, size, gradient_as_bucket_view=True)
        lines = [bucket.buffer.untyped_storage().data_ptr() for bucket in model.reducer.buckets]
        assert all(grad.untyped_storage().data_ptr() in lines for grad in gradients(model))


@on_ranks(2)
def test_buckets_are_sent_in_the_order_in_which_gradients_come(rank: int, size: int) -> None:
    class Backwards(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last, self.first = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: tt.Tensor) -> tt.Tensor:
            return self.last(self.first(x))

    model = DDP(Backwards(), bucket_cap_mb=0.00001)
    sent: list[list[str]] = []
    names = {id(parameter): name for name, parameter in model.module.named_parameters()}

    def hook(state: Any, bucket: dist.GradBucket) -> Any:
        sent.append([names[id(each)] for each in bucket.parameters()])
        assert bucket.index() == len(sent) - 1 and bucket.is_last() == (len(sent) == 4)
        return dist.all_reduce(bucket.buffer().div_(size), async_op=True).get_future()

    assert_averages(model, tt.ones(4, 4), rank, size)
    model.register_comm_hook(None, hook)
    assert_averages(model, tt.ones(4, 4), rank, size)
    assert sent[0][0].startswith("last") and sent[-1][0].startswith("first")


@on_ranks(2)
def test_a_bucket_is_sent_while_backward_goes_on(rank: int, size: int) -> None:
    model = DDP(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), bucket_cap_mb=0.00001)
    model(tt.ones(1, 4)).sum().backward()
    order: list[str] = []

    def hook(state: Any, bucket: dist.GradBucket) -> Any:
        order.append("sent")
        return noop_hook(state, bucket)

    model.register_comm_hook(None, hook)
    model.module[0].register_full_backward_hook(lambda *given: order.append("hidden"))
    model(tt.ones(1, 4, requires_grad=True)).sum().backward()
    assert order.index("sent") < order.index("hidden")


@on_ranks(2)
def test_no_sync_adds_up(rank: int, size: int) -> None:
    for as_view in (False, True):
        tt.manual_seed(1)
        model = DDP(perceptron(), gradient_as_bucket_view=as_view)
        alone = copy.deepcopy(model.module)
        for _ in range(2):
            batches = [tt.randn(4, 6) for _ in range(3)]
            for place, batch in enumerate(batches):
                if place < 2:
                    with model.no_sync():
                        model(batch[rank::size]).square().mean().backward()
                else:
                    model(batch[rank::size]).square().mean().backward()
                alone(batch).square().mean().backward()
        tt.testing.assert_close(gradients(model), gradients(alone), rtol=1e-5, atol=1e-6)


class Branches(nn.Module):
    """Uses one of two layers, and never a third."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.never = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: tt.Tensor, first: bool) -> tt.Tensor:
        return self.one(x) if first else self.two(x)


@on_ranks(2)
def test_unused_parameters(rank: int, size: int) -> None:
    for as_view in (False, True):
        model = DDP(Branches(), find_unused_parameters=True, gradient_as_bucket_view=as_view)
        module = model.module
        model(tt.ones(1, 3), rank == 0).sum().backward()
        assert module.never.weight.grad is None and module.never.bias.grad is None
        assert module.one.bias.grad.tolist() == module.two.bias.grad.tolist() == [0.5] * 3
        model.zero_grad()
        model(tt.ones(1, 3), True).sum().backward()
        assert module.two.weight.grad is None and module.one.bias.grad.tolist() == [1.0] * 3

    # A result that the loss leaves out counts as unused, too.
    class Two(Branches):
        def forward(self, x: tt.Tensor, first: bool) -> Any:
            return {"one": self.one(x), "two": [self.two(x)]}

    model = DDP(Two(), find_unused_parameters=True)
    for _ in range(2):
        model.zero_grad()
        model(tt.ones(1, 3), True)["one"].sum().backward()
        assert model.module.two.weight.grad is None and model.module.one.bias.grad.tolist() == [1.0] * 3


@on_ranks(2)
def test_unused_parameters_without_the_search_are_an_error(rank: int, size: int) -> None:
    model = DDP(Branches())
    model(tt.ones(1, 3), True).sum().backward()
    with pytest.raises(
        RuntimeError, match="Expected to have finished reduction in the prior iteration"
    ) as error:
        model(tt.ones(1, 3), True)
    assert f"did not receive grad for rank {rank}: 2 3 4 5" in str(error.value)
    with pytest.raises(RuntimeError, match="did not receive grad"):
        model._check_reducer_finalized()
    level = dist.get_debug_level()
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    try:
        with pytest.raises(
            RuntimeError, match=r"for rank \d: two.weight, two.bias, never.weight, never.bias"
        ):
            model(tt.ones(1, 3), True)
    finally:
        dist.set_debug_level(level)


@on_ranks(2)
def test_a_static_graph_learns_what_is_unused_and_used_twice(rank: int, size: int) -> None:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.never = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x: tt.Tensor) -> tt.Tensor:
            x = tt.utils.checkpoint.checkpoint(self.used, x, use_reentrant=True)
            return tt.utils.checkpoint.checkpoint(self.used, x, use_reentrant=True)

    tt.manual_seed(0)
    model = DDP(Shared(), static_graph=True)
    alone = copy.deepcopy(model.module)
    for _ in range(3):
        x = tt.randn(4, 3)
        model.zero_grad()
        alone.zero_grad()
        model(x[rank::size].clone().requires_grad_()).square().mean().backward()
        alone(x.clone().requires_grad_()).square().mean().backward()
        tt.testing.assert_close(model.module.used.weight.grad, alone.used.weight.grad)
        assert model.module.never.weight.grad is None
    other = DDP(Shared())
    with pytest.raises(RuntimeError, match="Expected to mark a variable ready only once"):
        other(tt.ones(2, 3, requires_grad=True)).sum().backward()


@on_ranks(2)
def test_buffers_are_those_of_process_0(rank: int, size: int) -> None:
    norm = nn.BatchNorm1d(2)
    norm.running_mean.fill_(rank + 1.0)
    model = DDP(nn.Sequential(norm, nn.Linear(2, 1)))
    assert norm.running_mean.tolist() == [1.0, 1.0]
    norm.running_mean.fill_(5.0 + rank)
    version = norm.running_var._version
    model.eval()(tt.zeros(1, 2))
    assert norm.running_mean.tolist() == [5.0, 5.0] and norm.running_var._version == version
    kept = nn.BatchNorm1d(2)
    kept.running_mean.fill_(float(rank))
    model = DDP(kept, broadcast_buffers=False)
    model(tt.randn(3, 2))
    assert kept.num_batches_tracked.item() == 1
    mean = kept.running_mean.clone()
    dist.all_reduce(mean)
    assert not tt.equal(mean, size * kept.running_mean)


@on_ranks(2)
def test_other_parameters_in_other_processes_are_an_error(rank: int, size: int) -> None:
    with pytest.raises(
        RuntimeError, match=r"\[1\]: params\[0\] \(layer.weight\) in this process with sizes \[2, 4\]"
    ):
        DDP(nn.Sequential(nn.ModuleDict({"layer": nn.Linear(3 + rank, 2)}))[0])
    with pytest.raises(RuntimeError, match="Rank 0 has 2 params, while rank 1 has inconsistent 1 params"):
        DDP(nn.Linear(2, 2, bias=rank == 0))
    with pytest.raises(RuntimeError, match="not needed when a module doesn't have any parameter"):
        DDP(nn.ReLU())
    with pytest.raises(ValueError, match="device_ids"):
        DDP(nn.Linear(1, 1), device_ids=[0])


@on_ranks(2)
def test_sparse_gradients(rank: int, size: int) -> None:
    tt.manual_seed(0)
    model = DDP(nn.Sequential(nn.Embedding(10, 3, sparse=True), nn.Linear(3, 2)))
    alone = copy.deepcopy(model.module)
    own = [tt.tensor([1, 4, 1]), tt.tensor([4, 7, 9])]
    for _ in range(2):
        model.zero_grad()
        alone.zero_grad()
        model(own[rank]).square().mean().backward()
        alone(tt.cat(own)).square().mean().backward()
        grad = model.module[0].weight.grad
        assert grad.is_sparse
        tt.testing.assert_close(grad.to_dense(), alone[0].weight.grad.to_dense())
        tt.testing.assert_close(model.module[1].weight.grad, alone[1].weight.grad)


@on_ranks(2)
def test_several_dtypes_and_strides(rank: int, size: int) -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wide = nn.Linear(3, 3, dtype=tt.float64)
            self.weight = nn.Parameter(tt.randn(4, 3).t())
            self.frozen = nn.Parameter(tt.randn(2), requires_grad=False)

        def forward(self, x: tt.Tensor) -> tt.Tensor:
            return self.wide(x.double()) @ self.weight.double()

    tt.manual_seed(0)
    model = DDP(Mixed())
    for _ in range(2):
        assert_averages(model, tt.randn(4, 3), rank, size)
    assert model.module.weight.grad.stride() == model.module.weight.stride()
    assert len(model.reducer.buckets) == 2


@on_ranks(2)
def test_ignored_parameters_and_groups(rank: int, size: int) -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    with tt.no_grad():
        module[0].weight.fill_(float(rank))
    DDP._set_params_and_buffers_to_ignore_for_model(module, ["0.weight"])
    model = DDP(module)
    assert module[0].weight[0, 0].item() == rank
    model(tt.ones(1, 2)).sum().backward()
    assert len([*DDP._get_data_parallel_params(module)]) == 3
    alone = dist.new_group([rank], use_local_synchronization=True)
    own = DDP(nn.Linear(1, 1), process_group=alone)
    own(tt.full((1, 1), float(rank))).sum().backward()
    assert own.module.weight.grad.item() == rank
    with pytest.raises(RuntimeError, match="default process group"):
        pickle.dumps(own)


@on_ranks(2)
def test_a_state_dict_has_a_prefix_and_copies_average(rank: int, size: int) -> None:
    tt.manual_seed(0)
    model = DDP(perceptron())
    assert all(name.startswith("module.") for name in model.state_dict())
    assert_averages(model, tt.randn(4, 6), rank, size)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert_averages(other, tt.randn(4, 6), rank, size)


@on_ranks(2)
def test_delayed_parameters(rank: int, size: int) -> None:
    tt.manual_seed(rank)
    module = perceptron()
    delayed = [(name, p) for name, p in module.named_parameters() if name.startswith("4.")]
    model = DDP(module, delay_all_reduce_named_params=delayed, param_to_hook_all_reduce=module[0].weight)
    for _ in range(2):
        assert_averages(model, tt.ones(2, 6) * tt.tensor([[1.0], [2.0]]), rank, size)


@on_ranks(2)
def test_low_precision(rank: int, size: int) -> None:
    from triten.nn.parallel.distributed import _MixedPrecision

    class Seen(nn.Linear):
        def forward(self, x: tt.Tensor) -> tt.Tensor:
            assert x.dtype is self.weight.dtype is tt.float16
            return super().forward(x)

    model = DDP(Seen(4, 2), mixed_precision=_MixedPrecision(tt.float16, tt.float32))
    optimizer = tt.optim.SGD(model.parameters(), lr=0.25)
    for _ in range(2):
        optimizer.zero_grad()
        model(tt.full((1, 4), float(rank))).sum().backward()
        weight = model.module.weight
        assert weight.dtype is weight.grad.dtype is tt.float32 and weight.grad.eq(0.5).all()
        optimizer.step()
    with tt.no_grad():
        assert model(tt.ones(1, 4)).dtype is tt.float16
    assert model.module.weight.dtype is tt.float32


@on_ranks(2)
def test_processes_with_different_numbers_of_batches(rank: int, size: int) -> None:
    for by_all in (True, False):
        tt.manual_seed(rank)
        model = DDP(nn.Sequential(nn.Linear(2, 2, bias=False), nn.BatchNorm1d(2)), static_graph=False)
        with model.join(divide_by_initial_world_size=by_all):
            for _ in range(2 + 2 * rank):
                model.zero_grad()
                model(tt.randn(3, 2)).square().sum().backward()
        weight = model.module[0].weight.detach().clone()
        dist.broadcast(weight, 1)
        assert tt.equal(weight, model.module[0].weight)
    model = DDP(nn.Linear(1, 1, bias=False))
    grads: list[float] = []
    with model.join(divide_by_initial_world_size=False):
        for _ in range(1 + rank):
            model.zero_grad()
            model(tt.ones(1, 1)).sum().backward()
            grads.append(model.module.weight.grad.item())
    assert grads == [1.0] * (1 + rank)
    grads.clear()
    with model.join():
        for _ in range(1 + rank):
            model.zero_grad()
            model(tt.ones(1, 1)).sum().backward()
            grads.append(model.module.weight.grad.item())
    assert grads == [1.0, 0.5][: 1 + rank]
    with (
        pytest.raises(RuntimeError, match="exhausted"),
        model.join(throw_on_early_termination=True),
    ):
        for _ in range(1 + rank):
            model(tt.ones(1, 1)).sum().backward()


@on_ranks(2)
def test_options_change_nothing_for_processes_without_batches(rank: int, size: int) -> None:
    results = []
    for options in (
        {},
        {"find_unused_parameters": True},
        {"static_graph": True},
        {"gradient_as_bucket_view": True, "bucket_cap_mb": 0.00001},
    ):
        tt.manual_seed(0)
        model = DDP(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)), **options)  # type: ignore[arg-type]
        optimizer = tt.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        with model.join():
            for step in range(4 * rank):  # process 0 has none
                optimizer.zero_grad()
                if step % 2:
                    with model.no_sync():
                        model(tt.randn(4, 3)).square().sum().backward()
                model(tt.randn(4, 3)).square().mean().backward()
                optimizer.step()
        results.append([each.detach().clone() for each in [*model.parameters(), *model.buffers()]])
    for other in results[1:]:
        tt.testing.assert_close(other, results[0])


@on_ranks(2)
def test_create_graph_is_warned_of(rank: int, size: int) -> None:
    model = DDP(nn.Linear(1, 1))
    with pytest.warns(UserWarning, match="create_graph=True"):
        model(tt.ones(1, 1)).square().sum().backward(create_graph=True)


@on_ranks(2)
def test_a_compiled_module_averages(rank: int, size: int) -> None:
    tt.manual_seed(0)
    model = DDP(tt.compile(perceptron()))
    for _ in range(2):
        alone = copy.deepcopy(model.module._orig_mod)
        alone.zero_grad()
        model.zero_grad()
        x = tt.randn(4, 6)
        model(x[rank::size]).square().mean().backward()
        alone(x).square().mean().backward()
        tt.testing.assert_close(gradients(model), gradients(alone), rtol=1e-5, atol=1e-6)
