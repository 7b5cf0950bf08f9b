"""Checkpoints of several processes: the writers, other placements and world sizes, and failures."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import triten as tt
from triten import distributed as dist
from triten import nn
from triten.distributed import checkpoint as dcp
from triten.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from triten.distributed.checkpoint.state_dict_loader import _load_state_dict_from_keys
from triten.distributed.fsdp import fully_shard
from triten.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from triten.tests.distributed.ranks import on_ranks

WHOLE = tt.arange(35.0).view(5, 7)


@contextmanager
def folder() -> Iterator[str]:
    """Yield a folder that all processes share."""
    names = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(names)
    name = names[0]
    assert name is not None
    yield name
    dist.barrier()
    if dist.get_rank() == 0:
        shutil.rmtree(name)


def files(name: str) -> list[str]:
    return sorted(each.partition("-")[0] for each in os.listdir(name) if each != ".metadata")


@on_ranks(2)
def test_other_placements(rank: int, size: int) -> None:
    mesh = dist.init_device_mesh("cpu", (size,))
    ways: list[Any] = [Shard(0), Shard(1), Replicate()]
    for saved in ways:
        with folder() as name:
            x = distribute_tensor(WHOLE, mesh, [saved])
            dcp.save({"x": x}, checkpoint_id=name)
            assert len(files(name)) == (1 if saved == Replicate() else 2)
            for wanted in ways:
                y = distribute_tensor(tt.zeros(5, 7), mesh, [wanted])
                dcp.load({"x": y}, checkpoint_id=name)
                assert tt.equal(y.full_tensor(), WHOLE), (saved, wanted)
            plain = {"x": tt.zeros(5, 7)}
            dcp.load(plain, checkpoint_id=name)
            assert tt.equal(plain["x"], WHOLE)
            # As one process alone, without the others.
            if rank == 1:
                assert tt.equal(_load_state_dict_from_keys(checkpoint_id=name)["x"], WHOLE)
                dcp.save({"x": WHOLE * 2}, checkpoint_id=name + "/one", no_dist=True)
            dist.barrier()
            y = distribute_tensor(tt.zeros(5, 7), mesh, [Shard(0)])
            dcp.load({"x": y}, checkpoint_id=name + "/one")
            assert tt.equal(y.full_tensor(), WHOLE * 2)


@on_ranks(4)
def test_two_dimensions_of_a_mesh_and_a_smaller_group(rank: int, size: int) -> None:
    mesh = dist.init_device_mesh("cpu", (2, 2))
    with folder() as name:
        state = {
            "both": distribute_tensor(WHOLE, mesh, [Shard(0), Shard(1)]),
            "twice": distribute_tensor(WHOLE, mesh, [Shard(0), Shard(0)]),
            "copied": distribute_tensor(WHOLE, mesh, [Replicate(), Shard(1)]),
            "small": distribute_tensor(tt.arange(3.0), mesh, [Shard(0), Shard(0)]),
            "empty": distribute_tensor(tt.empty(0, 3), mesh, [Shard(0), Shard(1)]),
        }
        metadata = dcp.save(state, checkpoint_id=name)
        chunks = {key: len(value.chunks) for key, value in metadata.state_dict_metadata.items()}  # type: ignore[union-attr]
        assert chunks == {"both": 4, "twice": 4, "copied": 2, "small": 3, "empty": 2}
        group = dist.new_group([1, 3])
        if rank in (1, 3):
            plain = {key: tt.full(tuple(value.shape), -1.0) for key, value in state.items()}
            dcp.load(plain, checkpoint_id=name, process_group=group)
            for key, value in plain.items():
                expected = {"small": tt.arange(3.0), "empty": tt.empty(0, 3)}.get(key, WHOLE)
                assert tt.equal(value, expected), key
        dist.barrier()
        other = {
            key: distribute_tensor(tt.zeros(tuple(value.shape)), mesh, [Shard(value.ndim - 1), Replicate()])
            for key, value in state.items()
        }
        dcp.load(other, checkpoint_id=name)
        assert tt.equal(other["both"].full_tensor(), WHOLE) and tt.equal(other["twice"].full_tensor(), WHOLE)


@on_ranks(2)
def test_what_all_have_is_written_once_and_divided(rank: int, size: int) -> None:
    with folder() as name:
        state: dict[str, Any] = {f"w{number}": tt.full((64,), float(number)) for number in range(6)}
        state |= {"object": [1, 2], f"own{rank}": tt.ones(2) * rank}
        metadata = dcp.save(state, checkpoint_id=name)
        writers: dict[str, list[str]] = {}
        content = json.loads(Path(name, ".metadata").read_text())["content"]
        for key, value in content["tensors"].items():
            writers[key] = [chunk["file"][:3] for chunk in value["chunks"]]
        assert all(len(each) == 1 for each in writers.values())
        assert sorted(writers[f"w{number}"][0] for number in range(6)) == ["__0"] * 3 + ["__1"] * 3
        assert (writers["own0"], writers["own1"]) == (["__0"], ["__1"])
        assert metadata.state_dict_metadata.keys() == {*state, "own0", "own1"}
        state = {"own0": tt.zeros(2), "own1": tt.zeros(2), "object": None}
        dcp.load(state, checkpoint_id=name)
        assert state["own1"].tolist() == [1, 1] and state["object"] == [1, 2]
        dcp.save(
            {"x": tt.ones(3)},
            checkpoint_id=name,
            planner=dcp.DefaultSavePlanner(dedup_save_to_lowest_rank=True),
        )
        assert files(name) == ["__0_0"]


@on_ranks(2)
def test_a_sharded_model_goes_on_where_it_was(rank: int, size: int) -> None:
    def made(seed: int, distributed: bool) -> tuple[Any, Any]:
        tt.manual_seed(seed)
        model = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Linear(5, 2))
        if distributed:
            fully_shard(model, mesh=dist.init_device_mesh("cpu", (size,)))
        return model, tt.optim.AdamW(model.parameters(), lr=0.1)

    def stepped(model: Any, optimizer: Any) -> None:
        model(tt.arange(12.0).view(4, 3)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    with folder() as name:
        model, optimizer = made(0, True)
        stepped(model, optimizer)
        states = get_state_dict(model, optimizer)
        dcp.save({"model": states[0], "optimizer": states[1]}, checkpoint_id=name)
        stepped(model, optimizer)
        expected = {
            key: value.full_tensor() if isinstance(value, DTensor) else value
            for key, value in model.state_dict().items()
        }
        for distributed in (True, False):
            other, other_optimizer = made(1, distributed)
            stepped(other, other_optimizer)
            states = get_state_dict(other, other_optimizer)
            state = {"model": states[0], "optimizer": states[1]}
            dcp.load(state, checkpoint_id=name)
            set_state_dict(
                other, other_optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
            )
            stepped(other, other_optimizer)
            for key, value in other.state_dict().items():
                whole = value.full_tensor() if isinstance(value, DTensor) else value
                assert tt.allclose(whole, expected[key], atol=1e-6), (key, distributed)


@on_ranks(2)
def test_saves_in_a_thread(rank: int, size: int) -> None:
    mesh = dist.init_device_mesh("cpu", (size,))
    with folder() as name:
        x = distribute_tensor(WHOLE, mesh, [Shard(0)])
        several = [dcp.async_save({"x": x * number}, checkpoint_id=f"{name}/{number}") for number in range(3)]
        held = dcp.async_save({"x": x}, checkpoint_id=name + "/held")
        x.to_local().zero_()
        for _ in range(20):
            dist.all_reduce(tt.ones(1))
        for number, saved in enumerate(several):
            saved.result()
            y = distribute_tensor(tt.zeros(5, 7), mesh, [Shard(1)])
            dcp.load({"x": y}, checkpoint_id=f"{name}/{number}")
            assert tt.equal(y.full_tensor(), WHOLE * number)
        held.result()
        dcp.load({"x": x}, checkpoint_id=name + "/held")
        assert tt.equal(x.full_tensor(), WHOLE)


class Unpicklable(RuntimeError):
    def __init__(self, a: int, b: int) -> None:
        super().__init__("of two arguments")


@on_ranks(2)
def test_a_failure_of_one_is_raised_in_all(rank: int, size: int) -> None:
    with folder() as name:
        good = {"x": tt.ones(2) * rank, "own": tt.ones(1)}
        dcp.save(good, checkpoint_id=name)

        class Failing(dcp.DefaultSavePlanner):
            def __init__(self, step: str) -> None:
                super().__init__()
                self.step = step

            def create_local_plan(self) -> dcp.SavePlan:
                if rank == 1 and self.step == "plan":
                    raise KeyError("rank 1 cannot plan")
                return super().create_local_plan()

            def create_global_plan(self, all_plans: Any) -> Any:
                if self.step == "decide":
                    raise ValueError("rank 0 cannot decide")
                return super().create_global_plan(all_plans)

            def finish_plan(self, new_plan: dcp.SavePlan) -> dcp.SavePlan:
                if rank == 1 and self.step == "write":
                    raise Unpicklable(1, 2)
                return super().finish_plan(new_plan)

        for step, failing, words in (
            ("plan", 1, "rank 1 cannot plan"),
            ("decide", 0, "rank 0 cannot decide"),
            ("write", 1, "Unpicklable: of two arguments"),
        ):
            with pytest.raises(dcp.CheckpointException, match=words) as caught:
                dcp.save({"x": tt.zeros(2)}, checkpoint_id=name, planner=Failing(step))
            assert list(caught.value.failures) == [failing] and f"(RANK {failing})" in str(caught.value)
        with pytest.raises(dcp.CheckpointException, match="shape") as caught:
            dcp.save({"x": tt.zeros(2 + rank)}, checkpoint_id=name)
        mesh = dist.init_device_mesh("cpu", (size,))
        with pytest.raises(dcp.CheckpointException, match="redistribute the DTensor first"):
            dcp.save({"x": DTensor.from_local(tt.ones(2), mesh, [Partial()])}, checkpoint_id=name)
        with pytest.raises(dcp.CheckpointException, match=r"Missing key.*: y") as caught:
            dcp.load({"x": tt.zeros(2)} if rank == 0 else {"y": 0}, checkpoint_id=name)
        assert list(caught.value.failures) == [1]
        dist.barrier()
        if rank == 0:
            (path,) = Path(name).glob("__1*")
            spoilt = bytearray(path.read_bytes())
            spoilt[-1] ^= 1
            path.write_bytes(spoilt)
        dist.barrier()
        with pytest.raises(dcp.CheckpointException, match="damaged"):
            dcp.load({key: tt.zeros(value.shape) for key, value in good.items()}, checkpoint_id=name)
        dist.all_reduce(tt.ones(1))
