"""Hooks of `DistributedDataParallel`: their inputs, their effect on gradients, and their order."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import triten as tt
from triten import distributed as dist
from triten import nn
from triten.distributed.algorithms.ddp_comm_hooks import (
    DDPCommHookType,
    default_hooks,
    post_localSGD_hook,
    powerSGD_hook,
    register_ddp_comm_hook,
)
from triten.nn.parallel import DistributedDataParallel as DDP
from triten.tests.distributed.ranks import on_ranks
from triten.tests.distributed.test_data_parallel import assert_averages, gradients, perceptron


@on_ranks(2)
def test_averages_by_hooks(rank: int, size: int) -> None:
    for as_view in (False, True):
        for hook, close in (
            (default_hooks.allreduce_hook, 1e-6),
            (default_hooks.fp16_compress_hook, 1e-3),
            (default_hooks.bf16_compress_hook, 1e-2),
            (default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook), 1e-3),
            (default_hooks.bf16_compress_wrapper(default_hooks.allreduce_hook), 1e-2),
        ):
            tt.manual_seed(3)
            model = DDP(perceptron(), gradient_as_bucket_view=as_view, bucket_cap_mb=0.0005)
            model.register_comm_hook(None, hook)
            for _ in range(2):
                alone = copy.deepcopy(model.module)
                x = tt.randn(8, 6)
                model.zero_grad()
                alone.zero_grad()
                model(x[rank::size]).square().mean().backward()
                alone(x).square().mean().backward()
                for own, expected in zip(gradients(model), gradients(alone), strict=True):
                    assert (own - expected).abs().max().item() <= close * expected.abs().max().item()
                    dist.broadcast(expected := own.clone(), 0)
                    assert tt.equal(own, expected)


@on_ranks(2)
def test_what_a_hook_sees(rank: int, size: int) -> None:
    model = DDP(nn.Linear(2, 1))

    def hook(state: list[str], bucket: dist.GradBucket) -> tt.futures.Future[tt.Tensor]:
        state.append("called")
        assert bucket.index() == 0 and bucket.is_last()
        assert bucket.buffer().shape == (3,) and [g.shape for g in bucket.gradients()] == [(1, 2), (1,)]
        assert bucket.parameters()[0] is model.module.weight
        assert bucket.gradients()[1].tolist() == [1.0]  # not divided
        future: tt.futures.Future[tt.Tensor] = tt.futures.Future()
        future.set_result(bucket.buffer() * 10)
        return future

    seen: list[str] = []
    model.register_comm_hook(seen, hook)
    model(tt.ones(1, 2)).backward()
    assert seen == ["called"] and model.module.bias.grad.tolist() == [10.0]
    with pytest.raises(RuntimeError, match="can only be called once"):
        model.register_comm_hook(None, hook)
    with pytest.raises(TypeError, match="must be callable"):
        model.register_comm_hook(None, 3)

    def wrong(state: object, bucket: int) -> Any: ...

    with pytest.raises(ValueError, match=r"bucket annotation should be dist.GradBucket"):
        DDP(nn.Linear(1, 1)).register_comm_hook(None, wrong)


@on_ranks(2)
def test_chained_communications_follow_the_buckets(rank: int, size: int) -> None:
    def twice(state: object, bucket: dist.GradBucket) -> Any:
        def again(done: Any) -> tt.Tensor:
            total = done.value()[0].clone()
            return dist.all_reduce(total, async_op=True).get_future().wait()[0]

        return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(again)

    model = DDP(nn.Sequential(*[nn.Linear(3, 3) for _ in range(6)]), bucket_cap_mb=0.00001)
    model(tt.ones(1, 3)).sum().backward()
    model.register_comm_hook(None, twice)
    for _ in range(20):
        model.zero_grad()
        model(tt.ones(1, 3)).sum().backward()
        assert model.module[5].bias.grad.tolist() == [float(size * size)] * 3


@on_ranks(2)
def test_power_sgd(rank: int, size: int) -> None:
    with pytest.raises(ValueError, match="start_powerSGD_iter"):
        powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=1)
    for hook in (powerSGD_hook.powerSGD_hook, powerSGD_hook.batched_powerSGD_hook):
        for options in (
            {},
            {"matrix_approximation_rank": 3, "batch_tensors_with_same_shape": True},
            {"warm_start": False, "use_error_feedback": False},
        ):
            tt.manual_seed(0)
            model = DDP(perceptron())
            state = powerSGD_hook.PowerSGDState(
                None,
                start_powerSGD_iter=2,
                orthogonalization_epsilon=1e-8,
                **options,  # type: ignore[arg-type]
            )
            model.register_comm_hook(state, hook)
            for _ in range(2):
                assert_averages(model, tt.randn(8, 6), rank, size)
            x = tt.randn(8, 6)
            alone = copy.deepcopy(model.module)
            alone.zero_grad()
            alone(x).square().mean().backward()
            errors = []
            total = [tt.zeros_like(each) for each in gradients(alone)]
            for step in range(30):
                model.zero_grad()
                model(x[rank::size]).square().mean().backward()
                for each, grad in zip(total, gradients(model), strict=True):
                    each.add_(grad)
                errors.append(
                    sum(
                        (each / (step + 1) - exact).norm().item()
                        for each, exact in zip(total, gradients(alone), strict=True)
                    )
                )
            for grad in gradients(model):
                other = grad.clone()
                dist.broadcast(other, 0)
                assert tt.equal(other, grad)
            rate, before, after = state.compression_stats()
            assert before > after and rate == before / after
            if state.use_error_feedback:  # what was not sent comes later: the mean becomes exact
                assert errors[-1] < 0.5 * errors[0], errors
            if not options and hook is powerSGD_hook.powerSGD_hook:
                restored = pickle.loads(pickle.dumps(state))
                assert restored.iter == state.iter == 32 and restored.process_group is dist.group.WORLD
                biases = [g for g in gradients(model) if g.ndim == 1]
                exact = [g for g in gradients(alone) if g.ndim == 1]
                tt.testing.assert_close(biases, exact)


@on_ranks(2)
def test_local_sgd_after_some_steps(rank: int, size: int) -> None:
    own = dist.new_group([rank], use_local_synchronization=True)
    model = DDP(nn.Linear(1, 1))
    state = post_localSGD_hook.PostLocalSGDState(None, own, 1)
    model.register_comm_hook(state, post_localSGD_hook.post_localSGD_hook)
    seen = []
    for _ in range(2):
        model.zero_grad()
        model(tt.full((1, 1), float(rank))).backward()
        seen.append(model.module.weight.grad.item())
    assert seen == [0.5, float(rank)] and state.iter == 1


@on_ranks(2)
def test_hooks_by_name(rank: int, size: int) -> None:
    for each in DDPCommHookType:
        model = DDP(nn.Linear(1, 1))
        register_ddp_comm_hook(each, model)
        model(tt.full((1, 1), float(rank))).backward()
        assert model.module.weight.grad.item() == (rank if each is DDPCommHookType.NOOP else 0.5)
