"""`fully_shard`: training with shards is training with the whole, on the joined batch."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten import distributed as dist
from triten import nn
from triten.distributed.fsdp import (
    CPUOffloadPolicy,
    FSDPModule,
    MixedPrecisionPolicy,
    fully_shard,
    register_fsdp_forward_method,
)
from triten.distributed.fsdp.freed import is_freed
from triten.tests.distributed.ranks import on_ranks


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width + 1)
        self.down = nn.Linear(2 * width + 1, width)

    def forward(self, x: tt.Tensor) -> tt.Tensor:
        return x + self.down(tt.relu(self.up(self.norm(x))))


class Model(nn.Module):
    """Rows of 5 and 11 are not divided evenly; the head has three."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 5)
        self.blocks = nn.ModuleList(Block(5) for _ in range(2))
        self.head = nn.Linear(5, 3)

    def forward(self, x: tt.Tensor) -> tt.Tensor:
        x = self.inner(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)

    def score(self, x: tt.Tensor) -> tt.Tensor:
        return self(x).sum(-1)


def made(kind: Callable[[], nn.Module] = Model, seed: int = 0) -> Any:
    tt.manual_seed(seed)
    return kind()


def mesh_of(size: int, replicas: int = 1) -> Any:
    if replicas == 1:
        return dist.init_device_mesh("cpu", (size,))
    return dist.init_device_mesh("cpu", (replicas, size // replicas), mesh_dim_names=("replicate", "shard"))


def sharded(model: Any, mesh: Any, **kwargs: Any) -> Any:
    for block in model.blocks:
        fully_shard(block, mesh=mesh, **kwargs)
    return fully_shard(model, mesh=mesh, **kwargs)


def batches(count: int, rows: int = 8) -> list[tuple[tt.Tensor, tt.Tensor]]:
    generator = tt.Generator().manual_seed(7)
    return [
        (tt.randn(rows, 6, generator=generator), tt.randn(rows, 3, generator=generator)) for _ in range(count)
    ]


def share(x: tt.Tensor, rank: int, size: int) -> tt.Tensor:
    rows = x.shape[0] // size
    return x[rank * rows : (rank + 1) * rows]


def full(parameter: Any) -> tt.Tensor:
    return parameter.full_tensor().detach() if hasattr(parameter, "full_tensor") else parameter.detach()


def assert_same(model: Any, reference: Any, what: str = "data", tolerance: float = 1e-6) -> None:
    for (name, own), expected in zip(model.named_parameters(), reference.parameters(), strict=True):
        found, wanted = (own, expected) if what == "data" else (own.grad, expected.grad)
        tt.testing.assert_close(
            full(found), full(wanted), atol=tolerance, rtol=1e-5, msg=lambda m, n=name: f"{n}: {m}"
        )


def trained(model: Any, optimizer: Any, data: Any) -> None:
    for x, y in data:
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()


OPTIMIZERS = {
    "SGD": lambda p: tt.optim.SGD(p, lr=0.1, momentum=0.9),
    "AdamW": lambda p: tt.optim.AdamW(p, lr=0.01),
}


@on_ranks(2)
def test_training_is_that_of_one_process(rank: int, size: int) -> None:
    for name, reshards in (("SGD", None), ("AdamW", True), ("AdamW", False)):
        model = sharded(made(), mesh_of(size), reshard_after_forward=reshards)
        reference = made()
        data = batches(5)
        trained(
            model,
            OPTIMIZERS[name](model.parameters()),
            [(share(x, rank, size), share(y, rank, size)) for x, y in data],
        )
        trained(reference, OPTIMIZERS[name](reference.parameters()), data)
        assert_same(model, reference)


@on_ranks(4)
def test_replicas_and_smaller_meshes(rank: int, size: int) -> None:
    data = batches(5)
    own = [(share(x, rank, size), share(y, rank, size)) for x, y in data]
    for replicas, reshards in ((2, None), (1, 2)):
        model = sharded(made(), mesh_of(size, replicas), reshard_after_forward=reshards)
        reference = made()
        trained(model, OPTIMIZERS["AdamW"](model.parameters()), own)
        trained(reference, OPTIMIZERS["AdamW"](reference.parameters()), data)
        assert_same(model, reference)


@on_ranks(2)
def test_what_is_gathered_and_when(rank: int, size: int) -> None:
    model = sharded(made(), mesh_of(size))
    calls: list[str] = []
    names = {
        id(m._get_fsdp_state().group): n or "root"
        for n, m in model.named_modules()
        if isinstance(m, FSDPModule)
    }
    for module in model.modules():
        if isinstance(module, FSDPModule):
            group = module._get_fsdp_state().group
            begin, name = group.unshard, names[id(group)]

            def unshard(
                waits: bool = False, begin: Any = begin, group: Any = group, name: str = name
            ) -> None:
                before = group._gathering
                begin(waits)
                if group._gathering is not before:
                    calls.append(f"gather {name}")

            group.unshard = unshard
    ((x, _),) = batches(1)
    loss = model(share(x, rank, size)).sum()
    assert calls == ["gather root", "gather blocks.0", "gather blocks.1"]
    assert type(model.head.weight) is nn.Parameter  # the root's stay whole
    assert not hasattr(model.head.weight, "placements") and model.blocks[0].up.weight.placements
    calls.clear()
    loss.backward()
    assert calls == ["gather blocks.1", "gather blocks.0"]
    calls.clear()
    model.set_modules_to_forward_prefetch([model.blocks[0], model.blocks[1]])
    model.blocks[1].set_modules_to_backward_prefetch([model.blocks[0]])
    model(share(x, rank, size)).sum().backward()
    assert calls == [
        "gather root",
        "gather blocks.0",
        "gather blocks.1",
        "gather blocks.1",
        "gather blocks.0",
    ]
    with pytest.raises(ValueError, match="Expected FSDPModule but got"):
        model.set_modules_to_forward_prefetch([model.head])


@on_ranks(2)
def test_whole_parameters_are_freed(rank: int, size: int) -> None:
    """Counted in blocks that NumPy has allocated: those of a whole parameter, those of a shard."""
    import gc
    import tracemalloc

    whole, shard = 256 * 256 * 4, 256 * 256 * 4 // size

    def blocks() -> tuple[int, int]:
        sizes = [
            each.size
            for each in tracemalloc.take_snapshot().traces
            if each.domain == np.lib.tracemalloc_domain
        ]
        return sum(each >= whole for each in sizes), sum(shard <= each < whole for each in sizes)

    class Deep(nn.Module):
        """Counts whole parameters at each of its layers, on the way and on the way back."""

        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(256, 256, bias=False) for _ in range(6))
            self.on_the_way: list[int] = []
            self.on_the_way_back: list[int] = []

        def forward(self, x: tt.Tensor) -> tt.Tensor:
            for layer in self.layers:
                x = layer(x)
                self.on_the_way.append(blocks()[0])
                x.register_hook(lambda gradient: self.on_the_way_back.append(blocks()[0]))
            return x

    def trained(reshards: bool) -> tuple[Deep, list[tuple[int, int]]]:
        model = made(Deep)  # before: random numbers keep the memory that they are made in
        gc.collect()
        tracemalloc.start()
        try:
            for layer in model.layers:
                fully_shard(layer, mesh=mesh_of(size), reshard_after_forward=reshards)
            fully_shard(model, mesh=mesh_of(size), reshard_after_forward=reshards)
            found = [blocks()]
            loss = model(tt.ones(1, 256)).sum()
            found.append(blocks())
            loss.backward()
            found.append(blocks())
        finally:
            tracemalloc.stop()
        return model, found

    model, found = trained(True)
    assert found == [(0, 6), (0, 6), (0, 12)]  # in the end the gradients of the shards, too
    assert len(model.on_the_way) == len(model.on_the_way_back) == 6
    # One that is read, one that is gathered ahead, and the line that it is gathered in or its gradient.
    assert max(model.on_the_way) <= 2 and max(model.on_the_way_back) <= 5
    _, found = trained(False)
    assert found == [(0, 6), (6, 6), (0, 12)]


@on_ranks(2)
def test_mixed_precision_casts_as_a_reference(rank: int, size: int) -> None:
    policy = MixedPrecisionPolicy(tt.bfloat16, tt.float32, output_dtype=tt.float32)
    model, reference = made(), made()
    for block in model.blocks:
        fully_shard(block, mesh=mesh_of(size), mp_policy=dataclasses.replace(policy, output_dtype=None))
    fully_shard(model, mesh=mesh_of(size), mp_policy=policy)
    optimizers = [tt.optim.SGD(each.parameters(), lr=0.1) for each in (model, reference)]
    for x, y in batches(3):
        parts: list[tt.Tensor] = []
        for part in range(size):
            low = made()
            low.load_state_dict(reference.state_dict())
            low.bfloat16()
            nn.functional.mse_loss(
                low(share(x, part, size).bfloat16()).float(), share(y, part, size)
            ).backward()
            parts.append([p.grad.float() for p in low.parameters()])
        for parameter, *grads in zip(reference.parameters(), *parts, strict=True):
            parameter.grad = sum(grads) / size
        output = model(share(x, rank, size))
        assert output.dtype == tt.float32
        nn.functional.mse_loss(output, share(y, rank, size)).backward()
        assert_same(model, reference, "grad")
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    assert_same(model, reference)
    assert {p.dtype for p in model.parameters()} == {tt.float32}


@on_ranks(2)
def test_gradients_accumulate_with_and_without_communication(rank: int, size: int) -> None:
    data = batches(3)
    for syncs, reduced in itertools.product((True, False), (None, tt.float64)):
        policy = MixedPrecisionPolicy(reduce_dtype=reduced)
        model, reference = sharded(made(), mesh_of(size), mp_policy=policy), made()
        for place, (x, y) in enumerate(data):
            is_last = place == len(data) - 1
            model.set_requires_gradient_sync(syncs or is_last)
            model.set_is_last_backward(is_last)
            model.set_reshard_after_backward(is_last)
            nn.functional.mse_loss(model(share(x, rank, size)), share(y, rank, size)).backward()
            nn.functional.mse_loss(reference(x), y).backward()
        assert_same(model, reference, "grad")


@on_ranks(4)
def test_replicas_are_reduced_when_asked(rank: int, size: int) -> None:
    data = batches(2)
    model, reference = sharded(made(), mesh_of(size, 2)), made()
    for place, (x, y) in enumerate(data):
        model.set_requires_all_reduce(place == 1)
        nn.functional.mse_loss(model(share(x, rank, size)), share(y, rank, size)).backward()
        nn.functional.mse_loss(reference(x), y).backward()
        if place == 0:
            assert all(p.grad is None for p in model.parameters())
    assert_same(model, reference, "grad")


@on_ranks(2)
def test_division_of_gradients(rank: int, size: int) -> None:
    ((x, y),) = batches(1)
    reference = made()
    nn.functional.mse_loss(reference(x), y).backward()
    for sums in (False, True):
        for factor in (size, 3.0):
            model = sharded(made(), mesh_of(size))
            for module in model.modules():
                if isinstance(module, FSDPModule):
                    module.set_gradient_divide_factor(factor)
                    module.set_force_sum_reduction_for_comms(sums)
            nn.functional.mse_loss(model(share(x, rank, size)), share(y, rank, size)).backward()
            for own, expected in zip(model.parameters(), reference.parameters(), strict=True):
                tt.testing.assert_close(full(own.grad), expected.grad * (size / factor))


@on_ranks(2)
def test_shards_along_other_dimensions(rank: int, size: int) -> None:
    from triten.distributed.tensor import Shard

    model, reference = (
        made(lambda: nn.Sequential(nn.Linear(6, 3), nn.Tanh(), nn.Conv1d(4, 2, 1))) for _ in range(2)
    )
    fully_shard(
        model,
        mesh=mesh_of(size),
        reshard_after_forward=True,
        shard_placement_fn=lambda p: Shard(1) if p.ndim > 1 else None,
    )
    assert model[2].weight.placements == (Shard(1),)
    ((x, _),) = batches(1)
    x = x.view(2, 4, 6)
    (model(x[rank : rank + 1]) ** 2).mean().backward()
    (reference(x) ** 2).mean().backward()
    assert_same(model, reference, "grad")
    assert_same(model, reference)


@on_ranks(2)
def test_initialization_on_the_meta_device(rank: int, size: int) -> None:
    with tt.device("meta"):
        model = Model()
    sharded(model, mesh_of(size))
    assert {p.device.type for p in model.parameters()} == {"meta"}
    ((x, _),) = batches(1)
    with pytest.raises(RuntimeError, match=r"still on meta device: \['inner.weight'"):
        model(x)
    model._get_fsdp_state().abandon()
    model.to_empty(device="cpu")
    for module in model.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    whole = made()
    for own, expected in zip(model.parameters(), whole.parameters(), strict=True):
        with tt.no_grad():
            own.copy_(dist.tensor.distribute_tensor(expected.detach(), own.device_mesh, own.placements))
    assert_same(model, whole)
    tt.testing.assert_close(model(x), whole(x))


@on_ranks(2)
def test_parameters_in_two_places(rank: int, size: int) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)
            self.second.weight = self.first.weight
            self.kept = nn.Parameter(tt.ones(6))

        def forward(self, x: tt.Tensor) -> tt.Tensor:
            return self.second(self.first(x)) * self.kept

    model, reference = made(Tied), made(Tied)
    kept = model.kept
    fully_shard(model, mesh=mesh_of(size), reshard_after_forward=True, ignored_params={kept})
    assert model.kept is kept and model.first.weight is model.second.weight
    ((x, _),) = batches(1)
    (model(share(x, rank, size)) ** 2).mean().backward()
    (reference(x) ** 2).mean().backward()
    assert model.first.weight is model.second.weight
    tt.testing.assert_close(full(model.first.weight.grad), reference.first.weight.grad)
    dist.all_reduce(kept.grad, dist.ReduceOp.AVG)
    tt.testing.assert_close(kept.grad, reference.kept.grad)


@on_ranks(2)
def test_clipping_and_state(rank: int, size: int) -> None:
    model, reference = sharded(made(), mesh_of(size)), made()
    ((x, y),) = batches(1)
    nn.functional.mse_loss(model(share(x, rank, size)), share(y, rank, size)).backward()
    nn.functional.mse_loss(reference(x), y).backward()
    norms = [nn.utils.clip_grad_norm_(each.parameters(), 0.01) for each in (model, reference)]
    tt.testing.assert_close(full(norms[0]), norms[1])
    assert_same(model, reference, "grad")
    state = model.state_dict()
    assert all(type(each).__name__ == "DTensor" for each in state.values())
    other = sharded(made(seed=1), mesh_of(size))
    other.load_state_dict(state)
    assert_same(other, reference)
    third = sharded(made(seed=1), mesh_of(size))
    third.load_state_dict({name: each.detach().clone() for name, each in state.items()}, assign=True)
    tt.testing.assert_close(third(x), reference(x))


@on_ranks(2)
def test_other_ways_in_and_out(rank: int, size: int) -> None:
    model, reference = sharded(made(), mesh_of(size)), made()
    register_fsdp_forward_method(model, "score")
    ((x, _),) = batches(1)
    with tt.no_grad():
        tt.testing.assert_close(model(x), reference(x))
    for block in model.blocks:
        assert is_freed(block._get_fsdp_state().group.parameters[0].unsharded)
    own = share(x, rank, size)
    (model.score(own).mean() + model(own).mean()).backward()
    (reference.score(x).mean() + reference(x).mean()).backward()
    assert_same(model, reference, "grad")
    handle = model.blocks[0].unshard(async_op=True)
    handle.wait()
    tt.testing.assert_close(model.blocks[0].up.weight, reference.blocks[0].up.weight)
    model.blocks[0].reshard()
    assert model.blocks[0].up.weight.placements
    model.double()
    reference.double()
    tt.testing.assert_close(model(x.double()), reference(x.double()))


@on_ranks(4)
def test_parameters_that_are_parts_already(rank: int, size: int) -> None:
    """Two processes divide each layer, and two pairs the batch."""
    from triten.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))

    class Parallel(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.down = nn.Linear(6, 8), nn.Linear(8, 3, bias=False)

        def forward(self, x: tt.Tensor) -> tt.Tensor:
            if isinstance(self.up.weight, DTensor):
                x = DTensor.from_local(x, mesh["tp"], [Replicate()])
            y = self.down(nn.functional.gelu(self.up(x)))
            return y.full_tensor() if isinstance(y, DTensor) else y

    model, reference = made(Parallel), made(Parallel)
    for module, name, dim in ((model.up, "weight", 0), (model.up, "bias", 0), (model.down, "weight", 1)):
        whole = getattr(module, name).detach()
        setattr(module, name, nn.Parameter(distribute_tensor(whole, mesh["tp"], [Shard(dim)])))
    fully_shard(model, mesh=mesh["dp"], reshard_after_forward=True)
    assert model.up.weight.device_mesh.mesh_dim_names == ("tp", "dp")
    assert model.down.weight.placements == (Shard(1), Shard(0))
    optimizers = [tt.optim.SGD(each.parameters(), lr=0.1) for each in (model, reference)]
    group = mesh.get_local_rank("dp")
    for x, y in batches(2):
        assert_same(model, reference)
        nn.functional.mse_loss(model(share(x, group, 2)), share(y, group, 2)).backward()
        nn.functional.mse_loss(reference(x), y).backward()
        assert_same(model, reference, "grad")
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    assert is_freed(model._get_fsdp_state().group.parameters[0].bytes)


@on_ranks(2, cuda="interpret")
def test_on_gpus(rank: int, size: int) -> None:
    mesh = dist.init_device_mesh("cuda", (size,))
    for policy, device in (
        ({}, f"cuda:{rank}"),
        ({"offload_policy": CPUOffloadPolicy(pin_memory=False)}, "cpu"),
    ):
        model, reference = (made(lambda: nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))) for _ in range(2))
        for layer in model:
            fully_shard(layer, mesh=mesh, **policy)
        fully_shard(model, mesh=mesh, **policy)
        x = tt.arange(16.0).view(4, 4) / 8
        output = model(share(x, rank, size))
        assert output.device == tt.device("cuda", rank)
        assert is_freed(model[0]._get_fsdp_state().group.parameters[0].unsharded)
        output.mean().backward()
        reference(x).mean().backward()
        for own, expected in zip(model.parameters(), reference.parameters(), strict=True):
            assert own.device == own.grad.device == tt.device(device)
            tt.testing.assert_close(full(own.grad).cpu(), expected.grad)
