"""Pipelines in two processes, and in one: losses, results and gradients are those of the whole model."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

import pytest

import triten as tt
from triten import distributed as dist
from triten import nn
from triten.distributed.fsdp import fully_shard
from triten.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    SplitPoint,
    TensorChunkSpec,
    merge_chunks,
    pipe_split,
    pipeline,
    split_args_kwargs_into_chunks,
)
from triten.nn import functional as F
from triten.tests.distributed.ranks import on_ranks

LAYERS = 4


def layers(seed: int = 0) -> list[Any]:
    tt.manual_seed(seed)
    return [nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(LAYERS)]


def reference(microbatches: int, scale: bool = True) -> tuple[list[Any], Any, list[Any]]:
    """Run the whole model in one process, microbatch by microbatch."""
    model = nn.Sequential(*layers())
    x, y = batch()
    losses = []
    for given, target in zip(x.chunk(microbatches), y.chunk(microbatches), strict=True):
        losses.append(F.mse_loss(model(given), target))
        losses[-1].backward()
    for parameter in model.parameters():
        if scale:
            parameter.grad.div_(microbatches)
    return list(model), model(x), losses


def batch() -> tuple[Any, Any]:
    generator = tt.Generator().manual_seed(1)
    return tt.rand(8, 6, generator=generator), tt.rand(8, 6, generator=generator)


def assert_gradients(found: Any, expected: Any) -> None:
    for ours, theirs in zip(found.parameters(), expected.parameters(), strict=True):
        assert tt.equal(ours.grad, theirs.grad)


def assert_like_the_whole(kind: Any, rank: int, size: int, of_each: int, microbatches: int) -> None:
    expected, output, expected_losses = reference(microbatches)
    count = size * of_each
    each = LAYERS // count
    parts = [nn.Sequential(*layers()[number * each : (number + 1) * each]) for number in range(count)]
    stages = [PipelineStage(parts[number], number, count, "cpu") for number in range(rank, count, size)]
    schedule = kind(stages if of_each > 1 else stages[0], microbatches, F.mse_loss)
    x, y = batch()
    losses: list[Any] = []
    for _ in range(2):
        for stage in stages:
            stage.submod.zero_grad()
        given = (x,) if rank == 0 else ()
        named = {"target": y, "losses": losses} if rank == size - 1 else {}
        result = schedule.step(*given, **named)
        for stage in stages:
            begin = stage.stage_index * each
            assert_gradients(stage.submod, nn.Sequential(*expected[begin : begin + each]))
    if rank == size - 1:
        assert [loss.item() for loss in losses] == [loss.item() for loss in expected_losses]
        assert tt.allclose(result, output, atol=1e-6)
    else:
        assert result is None and not losses
    evaluated = schedule.eval(*given)
    assert evaluated is None if rank != size - 1 else tt.allclose(evaluated, output, atol=1e-6)
    with tt.no_grad(), pytest.raises(RuntimeError, match="eval"):
        schedule.step(*given)


@on_ranks(2)
def test_gpipe(rank: int, size: int) -> None:
    assert_like_the_whole(ScheduleGPipe, rank, size, 1, 4)


@on_ranks(2)
def test_1f1b(rank: int, size: int) -> None:
    for microbatches in (1, 2, 4):
        assert_like_the_whole(Schedule1F1B, rank, size, 1, microbatches)


@on_ranks(2)
def test_interleaved(rank: int, size: int) -> None:
    for microbatches in (2, 4):
        assert_like_the_whole(ScheduleInterleaved1F1B, rank, size, 2, microbatches)


class Pair(nn.Module):
    """Two results, one of which needs no gradient, and a keyword argument."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.norm = nn.BatchNorm1d(6)

    def forward(self, x: Any, marks: Any = None, *, scale: Any) -> Any:
        y = F.dropout(self.norm(self.linear(x)), 0.0) * scale
        return (y, (y.detach() > 0).long()) if marks is None else y * marks


@on_ranks(2)
def test_several_results_keyword_arguments_and_buffers(rank: int, size: int) -> None:
    tt.manual_seed(3)
    modules = [Pair(), Pair()]
    x, y = batch()
    scale = tt.arange(8.0).view(8, 1)
    expected = [Pair(), Pair()]
    for ours, theirs in zip(modules, expected, strict=True):
        theirs.load_state_dict(ours.state_dict())
    for part in range(2):
        rows = slice(4 * part, 4 * part + 4)
        result = expected[1](*expected[0](x[rows], scale=scale[rows]), scale=scale[rows])
        F.mse_loss(result, y[rows], reduction="sum").backward()
    stage = PipelineStage(modules[rank], rank, 2, "cpu")
    schedule = Schedule1F1B(stage, 2, F.mse_loss, scale_grads=False)
    before = tt.get_rng_state()
    schedule._infer((x[:4],) if rank == 0 else (), {"scale": scale[:4]})
    assert tt.equal(tt.get_rng_state(), before), "shapes are found without drawing random numbers"
    assert modules[rank].norm.num_batches_tracked == 0
    named = {"target": y, "loss_kwargs": {"reduction": "sum"}} if rank == 1 else {}
    schedule.step(*((x,) if rank == 0 else ()), scale=scale, **named)
    assert_gradients(modules[rank], expected[rank])
    assert tt.equal(modules[rank].norm.running_mean, expected[rank].norm.running_mean)


@on_ranks(2)
def test_with_sharded_layers(rank: int, size: int) -> None:
    """Check a pipeline of this process alone whose layers are sharded over both ranks."""
    alone = [dist.new_group([number]) for number in range(size)][rank]
    expected = nn.Sequential(*reference(2)[0])
    model = nn.Sequential(*layers())
    fully_shard(model, mesh=dist.init_device_mesh("cpu", (size,)))
    schedule = ScheduleGPipe(PipelineStage(model, 0, 1, "cpu", group=alone), 2, F.mse_loss)
    x, y = batch()
    schedule.step(x, target=y)
    for ours, theirs in zip(model.parameters(), expected.parameters(), strict=True):
        assert tt.allclose(ours.grad.full_tensor(), theirs.grad, atol=1e-6)


@on_ranks(2)
def test_a_model_that_is_cut_by_its_graph(rank: int, size: int) -> None:
    expected, output, _ = reference(4)
    pipe = pipeline(nn.Sequential(*layers()), (tt.ones(2, 6),), split_spec={"1": SplitPoint.END})
    stage = pipe.build_stage(rank, "cpu")
    schedule = ScheduleGPipe(stage, 4, F.mse_loss)
    x, y = batch()
    result = schedule.step(*((x,) if rank == 0 else ()), **({"target": y} if rank == 1 else {}))
    assert_gradients(stage.submod, nn.Sequential(*expected[2 * rank : 2 * rank + 2]))
    assert rank == 0 or tt.allclose(result, output, atol=1e-6)


@pytest.fixture
def alone() -> Iterator[None]:
    dist.init_process_group("mpi", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("kind", [ScheduleGPipe, Schedule1F1B, ScheduleInterleaved1F1B])
def test_one_process(kind: Any) -> None:
    of_each = 4 if kind is ScheduleInterleaved1F1B else 1
    assert_like_the_whole(kind, 0, 1, of_each, 2)


@pytest.mark.usefixtures("alone")
def test_on_a_device(device: str) -> None:
    model = nn.Linear(2, 2).to(device)
    other = nn.Linear(2, 2).to(device)
    schedule = ScheduleInterleaved1F1B(
        [PipelineStage(model, 0, 2, device), PipelineStage(other, 1, 2, device)], 2, F.mse_loss
    )
    x = tt.arange(8.0, device=device).view(4, 2)
    losses: list[Any] = []
    found = schedule.step(x, target=x, losses=losses)
    assert found.device.type == device and tt.allclose(found, other(model(x)))
    whole = tt.autograd.grad(F.mse_loss(other(model(x)), x), list(model.parameters()))
    for ours, theirs in zip(model.parameters(), whole, strict=True):
        assert tt.allclose(ours.grad, theirs, rtol=1e-4)


@pytest.mark.usefixtures("alone")
def test_errors() -> None:
    module = nn.Linear(2, 2)
    stage = PipelineStage(module, 0, 1, "cpu")
    with pytest.raises(ValueError, match="out of range"):
        PipelineStage(module, 1, 1, "cpu")
    with pytest.raises(ValueError, match="n_microbatches: expected a positive number, but got 0"):
        ScheduleGPipe(stage, 0)
    with pytest.raises(ValueError, match=r"rank 0 of 1: expected the stages \[0, 1\] of 2"):
        ScheduleGPipe(PipelineStage(module, 0, 2, "cpu"), 1)
    schedule = ScheduleGPipe(stage, 2, F.mse_loss)
    with pytest.raises(ValueError, match="step: `target` is missing"):
        schedule.step(tt.ones(4, 2))
    with pytest.raises(ValueError, match="cannot be split into 2 microbatches"):
        schedule.step(tt.ones(1, 2), target=tt.ones(1, 2))
    with pytest.raises(TypeError, match="losses must be a list"):
        schedule.step(tt.ones(4, 2), target=tt.ones(4, 2), losses=())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"expected results of shapes \[\[2, 2\]\].*, but got \[\[1, 2\]\]"):
        schedule.step(tt.ones(3, 2), target=tt.ones(3, 2))
    chain = [PipelineStage(module, 0, 2, "cpu"), PipelineStage(module, 1, 2, "cpu", input_args=tt.ones(7, 2))]
    with pytest.raises(ValueError, match="stage 1: expected input_args of shapes"):
        ScheduleInterleaved1F1B(chain, 2).step(tt.ones(4, 2))
    chain[0] = PipelineStage(nn.Flatten(), 0, 2, "cpu")
    chain[0].submod.forward = lambda x: (x, 3)  # type: ignore[method-assign]
    with pytest.raises(TypeError, match="stage 0: expected a tensor or a tuple of tensors"):
        ScheduleInterleaved1F1B(chain, 2).step(tt.ones(4, 2))


@pytest.mark.usefixtures("alone")
def test_a_stage_that_does_not_run_on_meta_tensors() -> None:
    class Positive(nn.Module):
        def forward(self, x: Any) -> Any:
            return x * (2.0 if x.sum().item() > 0 else 1.0)

    x = tt.ones(4, 2)
    stages = [
        PipelineStage(Positive(), 0, 2, "cpu", output_args=tt.ones(2, 2)),
        PipelineStage(nn.Linear(2, 2), 1, 2, "cpu"),
    ]
    ScheduleInterleaved1F1B(stages, 2, F.mse_loss).step(x, target=x)
    assert stages[1].submod.weight.grad is not None


class Skipping(nn.Module):
    """Model whose last stage uses the first stage's result and an argument."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: Any, y: Any) -> Any:
        a = self.first(x)
        pipe_split()
        b = tt.relu(self.middle(a))
        pipe_split()
        return self.last(b + a) * y


def test_what_later_stages_need_passes_through() -> None:
    model = Skipping()
    x, y = tt.rand(2, 3), tt.rand(2, 3)
    pipe = pipeline(model, (x, y))
    assert pipe.num_stages == 3 and tt.equal(pipe(x, y), model(x, y))
    assert [name for name, _ in pipe.get_stage_module(2).named_parameters()] == ["last.weight", "last.bias"]
    assert "stage 2" in str(pipe)
    with pytest.raises(ValueError, match="Invalid stage index 3"):
        pipe.get_stage_module(3)


@pytest.mark.parametrize("where", list(SplitPoint))
def test_cuts_inside_of_submodules(where: SplitPoint) -> None:
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
            self.head = nn.Linear(2, 1)

        def forward(self, x: Any) -> Any:
            return self.head(self.body(x))

    model, x = Outer(), tt.rand(3, 2)
    pipe = pipeline(model, (x,), split_spec={"body.1.0": where})
    assert tt.equal(pipe(x), model(x))
    names = [name for name, _ in pipe.get_stage_module(0).named_parameters()]
    assert ("body.1.0.weight" in names) == (where is SplitPoint.END)


def test_models_that_cannot_be_cut() -> None:
    with pytest.raises(ValueError, match="split_spec names 'nothing', which is no submodule"):
        pipeline(nn.Sequential(nn.ReLU()), (tt.ones(1),), split_spec={"nothing": SplitPoint.END})
    shared = nn.Linear(2, 2)
    other = nn.Linear(2, 2)
    other.weight = shared.weight
    with pytest.raises(NotImplementedError, match="share the parameter"):
        pipeline(nn.Sequential(shared, other), (tt.ones(1, 2),), split_spec={"0": SplitPoint.END})
    with pytest.raises(ValueError, match="exactly once"):
        pipeline(nn.Sequential(shared, nn.ReLU(), shared), (tt.ones(1, 2),), split_spec={"0": SplitPoint.END})


def test_microbatches() -> None:
    x = tt.arange(12).view(4, 3)
    args, kwargs = split_args_kwargs_into_chunks(
        (x, 5, [x]),
        {"mask": x, "whole": x},
        2,
        (TensorChunkSpec(0), None, [TensorChunkSpec(1)]),
        {"whole": None, "mask": TensorChunkSpec(0)},
    )
    assert args[1][0].tolist() == [[6, 7, 8], [9, 10, 11]] and args[1][1] == 5
    assert args[0][2][0].shape == (4, 2) and args[1][2][0].shape == (4, 1)
    assert kwargs[0]["mask"].shape == (2, 3) and kwargs[1]["whole"] is x
    assert TensorChunkSpec.from_dict({"a": 1})["a"].split_dim == 1
    merged = merge_chunks([{"y": x, "n": 1}, {"y": x, "n": 1}], {"y": TensorChunkSpec(1), "n": None})
    assert merged["y"].shape == (4, 6) and merged["n"] == 1
    assert merge_chunks([(x,), (x,)], None)[0].shape == (8, 3)
    with pytest.raises(ValueError, match="did not match chunk spec"):
        merge_chunks([(x, x)], (TensorChunkSpec(0),))
    with pytest.raises(ValueError, match="expected equal results of all microbatches"):
        merge_chunks([1, 2], None)
    with pytest.raises(ValueError, match="expected 1 specs"):
        split_args_kwargs_into_chunks((x,), {}, 2, (TensorChunkSpec(0), None))
    with pytest.raises(ValueError, match="expected the keys"):
        split_args_kwargs_into_chunks((x,), {"a": x}, 2, None, {"b": None})


@pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="triton has no wheel for this platform"
)
@on_ranks(2, cuda="interpret")
def test_on_cuda(rank: int, size: int) -> None:
    """Messages in the order of the timetable, which is all that NCCL matches them by."""
    # Each process its device, as other tests of these processes expect.
    tt.cuda.set_device(rank)
    tt.manual_seed(0)
    model = [nn.Linear(2, 2).to("cuda") for _ in range(4)]
    whole = [nn.Linear(2, 2).to("cuda") for _ in range(4)]
    for ours, theirs in zip(model, whole, strict=True):
        theirs.load_state_dict(ours.state_dict())
    x = tt.arange(8.0, device="cuda").view(4, 2) / 8
    for part in range(2):
        F.mse_loss(nn.Sequential(*whole)(x[2 * part :][:2]), x[2 * part :][:2]).backward()
    stages = [PipelineStage(model[number], number, 4, "cuda") for number in (rank, rank + 2)]
    schedule = ScheduleInterleaved1F1B(stages, 2, F.mse_loss, scale_grads=False)
    schedule.step(*((x,) if rank == 0 else ()), **({"target": x} if rank == 1 else {}))
    for stage in stages:
        assert_gradients(stage.submod, whole[stage.stage_index])
