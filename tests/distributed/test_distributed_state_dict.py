"""`checkpoint.state_dict`: states by names that do not depend on how a model is distributed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import triten as tt
from triten import distributed as dist
from triten import nn
from triten.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
    set_state_dict,
)
from triten.distributed.fsdp import fully_shard
from triten.distributed.tensor import DTensor
from triten.tests.distributed.ranks import on_ranks

FULL = StateDictOptions(full_state_dict=True)
FROM_FIRST = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)


def made(seed: int = 0) -> Any:
    tt.manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Linear(5, 2))
    model[2].bias.requires_grad_(False)
    return model


def pair(seed: int, size: int) -> tuple[Any, Any]:
    model = made(seed)
    mesh = dist.init_device_mesh("cpu", (size,))
    fully_shard(model[0], mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model, tt.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=0.1)


def stepped(model: Any, optimizer: Any, steps: int = 2) -> None:
    for _ in range(steps):
        model(tt.arange(12.0).view(4, 3)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def whole(state: Any) -> Any:
    if isinstance(state, dict):
        return {key: whole(each) for key, each in state.items()}
    if isinstance(state, list):
        return [whole(each) for each in state]
    return state.full_tensor() if isinstance(state, DTensor) else state


def assert_same(found: Any, expected: Any) -> None:
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        if isinstance(value, dict):
            assert_same(found[key], value)
        elif isinstance(value, tt.Tensor):
            tt.testing.assert_close(found[key], value)
        else:
            assert found[key] == value


@on_ranks(2)
def test_states_go_from_one_layout_to_another(rank: int, size: int) -> None:
    model, optimizer = pair(0, size)
    plain = made(0)
    plain_optimizer = tt.optim.AdamW((p for p in plain.parameters() if p.requires_grad), lr=0.1)
    for each in ((model, optimizer), (plain, plain_optimizer)):
        stepped(*each)
    weights, steps = get_state_dict(model, optimizer)
    assert isinstance(weights["0.weight"], DTensor) and not isinstance(weights["1.running_mean"], DTensor)
    expected = get_state_dict(plain, plain_optimizer)
    assert_same(whole(weights), expected[0])
    assert_same(whole(steps), expected[1])
    full = get_state_dict(model, optimizer, options=FULL)
    assert_same(full[0], expected[0])
    assert_same(full[1], expected[1])
    # Back into another model with shards, from whole tensors, and from those of the first process.
    for options in (None, FULL, FROM_FIRST):
        other, other_optimizer = pair(1, size)
        given = (weights, steps) if options is None else full
        if options is FROM_FIRST and rank:
            given = {}, {}
        set_state_dict(
            other, other_optimizer, model_state_dict=given[0], optim_state_dict=given[1], options=options
        )
        for each in ((model, optimizer), (other, other_optimizer)):
            stepped(*each, steps=1)
        assert_same(get_model_state_dict(other, options=FULL), get_model_state_dict(model, options=FULL))
        weights, steps = get_state_dict(model, optimizer)
        full = get_state_dict(model, optimizer, options=FULL)
    on_host = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    assert bool(on_host) is (rank == 0)


@on_ranks(2)
def test_a_model_on_the_meta_device_takes_what_is_sent(rank: int, size: int) -> None:
    reference = made()
    with tt.device("meta"):
        model = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Linear(5, 2))
    fully_shard(model, mesh=dist.init_device_mesh("cpu", (size,)))
    state = reference.state_dict() if rank == 0 else {}
    set_model_state_dict(model, state, options=FROM_FIRST)
    assert {p.device.type for p in model.parameters()} == {"cpu"}
    x = tt.arange(12.0).view(4, 3)
    tt.testing.assert_close(model(x), reference(x))
    model(x).sum().backward()
    shards = nn.Linear(3, 5).weight.shape[0]
    assert shards == 5 and model[0].weight.grad.placements == model[0].weight.placements


@on_ranks(2)
def test_what_cannot_be_sent_raises_everywhere(rank: int, size: int) -> None:
    model, _ = pair(0, size)
    with pytest.raises(TypeError, match="expected whole tensors to broadcast, but got a DTensor"):
        set_model_state_dict(model, model.state_dict(), options=FROM_FIRST)


@pytest.fixture
def alone() -> Iterator[None]:
    dist.init_process_group("mpi", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_names_and_options(alone: None) -> None:
    model = tt.compile(made())
    assert list(get_model_state_dict(model))[:2] == ["0.weight", "0.bias"]
    assert set(made().state_dict()) - set(
        get_model_state_dict(model, options=StateDictOptions(ignore_frozen_params=True))
    ) == {"2.bias"}
    set_model_state_dict(model, made(1).state_dict())
    tt.testing.assert_close(model._orig_mod[0].weight, made(1)[0].weight)
    with pytest.raises(ValueError, match="full_state_dict must be True"):
        get_model_state_dict(model, options=StateDictOptions(broadcast_from_rank0=True))
    with pytest.raises(RuntimeError, match="Missing key"):
        set_model_state_dict(model, {"0.weight": tt.ones(5, 3)})
    found = set_model_state_dict(model, {"0.weight": tt.ones(5, 3)}, options=StateDictOptions(strict=False))
    assert "2.bias" in "".join(found.missing_keys)


def test_optimizers_nested_flat_and_several(alone: None) -> None:
    model = made()
    several = [
        tt.optim.Adam(model[0].parameters(), lr=0.1),
        tt.optim.SGD(model[1].parameters(), lr=0.2, momentum=0.9),
    ]
    model(tt.ones(4, 3)).sum().backward()
    for optimizer in several:
        optimizer.step()
    state = get_optimizer_state_dict(model, several)
    assert [group["params"] for group in state["param_groups"]] == [
        ["0.weight", "0.bias"],
        ["1.weight", "1.bias"],
    ]
    flat = get_optimizer_state_dict(
        model, several, options=StateDictOptions(flatten_optimizer_state_dict=True)
    )
    assert flat["param_groups.1.bias.lr"] == 0.2 and "state.0.weight.exp_avg" in flat
    for given in (state, flat):
        others = [tt.optim.Adam(model[0].parameters()), tt.optim.SGD(model[1].parameters(), momentum=0.1)]
        for other in others:
            set_optimizer_state_dict(model, other, given)
        assert others[0].param_groups[0]["lr"] == 0.1 and others[1].param_groups[0]["momentum"] == 0.9
        tt.testing.assert_close(
            others[0].state[model[0].weight]["exp_avg"], several[0].state[model[0].weight]["exp_avg"]
        )
    del state["state"]["0.bias"]
    with pytest.raises(RuntimeError, match=r"Missing optimizer state for parameter '0\.bias'"):
        set_optimizer_state_dict(model, tt.optim.Adam(model[0].parameters()), state)
    foreign = tt.optim.SGD([nn.Parameter(tt.ones(2))], lr=0.1)
    with pytest.raises(RuntimeError, match="that is not in the model"):
        get_optimizer_state_dict(model, foreign)
