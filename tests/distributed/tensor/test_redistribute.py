"""Distributed tensors: construction, local parts, redistribution, and gradients."""

from __future__ import annotations

import copy
import io
import pickle
from itertools import product

import pytest

import triten as tt
from triten import distributed as dist
from triten.distributed import DeviceMesh, init_device_mesh
from triten.distributed.tensor import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_module,
    distribute_tensor,
    full,
    ones,
    rand,
    randn,
    zeros,
)
from triten.distributed.tensor.redistribute import plan_of
from triten.tests.distributed.ranks import on_ranks

_meshes: dict[tuple[int, ...], DeviceMesh] = {}


def mesh_of(*shape: int) -> DeviceMesh:
    """Return a mesh of the world, made once."""
    if shape not in _meshes:
        _meshes[shape] = init_device_mesh("cpu", shape, mesh_dim_names=("dp", "tp")[: len(shape)])
    return _meshes[shape]


def whole(*shape: int) -> tt.Tensor:
    return tt.arange(int(tt.tensor(shape).prod()), dtype=tt.float32).view(shape)


@on_ranks(2, 4)
def test_parts_of_a_tensor(rank: int, size: int) -> None:
    mesh = mesh_of(size)
    for shape in ((5, 3), (size * 2, 3), (1, 3), (0, 2)):
        x = whole(*shape)
        for dim in (0, 1, -1):
            made = distribute_tensor(x, mesh, [Shard(dim)])
            assert made.shape == x.shape and made.placements == (Shard(dim % 2),)
            expected = x.narrow(dim, 0, 0)
            chunks = x.chunk(size, dim)
            if rank < len(chunks) and x.shape[dim]:
                expected = chunks[rank]
            assert tt.equal(made.to_local(), expected), (shape, dim, made, expected)
            assert tt.equal(made.full_tensor(), x)
    mine = tt.full((2,), float(rank))
    assert distribute_tensor(mine, mesh, [Replicate()]).to_local().tolist() == [0.0, 0.0]
    assert (
        distribute_tensor(mine, mesh, [Replicate()], src_data_rank=None).to_local().tolist() == mine.tolist()
    )


@on_ranks(2)
def test_every_transition(rank: int, size: int) -> None:
    mesh = mesh_of(size)
    placements = [Shard(0), Shard(1), Replicate()]
    for shape in ((5, 3), (4, 4), (1, 2)):
        x = whole(*shape)
        for before, after in product(placements, placements):
            made = distribute_tensor(x, mesh, [before]).redistribute(placements=[after])
            assert made.placements == (after,) and tt.equal(made.full_tensor(), x), (before, after)
            assert tt.equal(made.to_local(), distribute_tensor(x, mesh, [after]).to_local())
        for name, expected in (("sum", 2 * x + 1), ("avg", x + 0.5), ("max", x + 1), ("min", x)):
            partial = DTensor.from_local(x + rank, mesh, [Partial(name)])
            for after in placements:
                assert tt.equal(partial.redistribute(placements=[after]).full_tensor(), expected)
            assert tt.equal(partial.to_local(), x + rank)
    with pytest.raises(RuntimeError, match="internal use only"):
        made.redistribute(placements=[Partial()])


@on_ranks(4)
def test_meshes_of_two_dimensions(rank: int, size: int) -> None:
    mesh = mesh_of(2, 2)
    places = [Shard(0), Shard(1), Replicate()]
    for shape in ((5, 3), (8, 4)):
        x = whole(*shape)
        for before, after in product(product(places, places), product(places, places)):
            made = distribute_tensor(x, mesh, before)
            assert tt.equal(made.redistribute(placements=after).full_tensor(), x), (before, after)
        for before, after in product(
            [(Partial(), Shard(0)), (Shard(1), Partial()), (Partial(), Partial())], product(places, places)
        ):
            spread = distribute_tensor(
                x, mesh, [Replicate() if each.is_partial() else each for each in before]
            )
            partial = DTensor.from_local(spread.to_local(), mesh, before, shape=x.shape, stride=x.stride())
            count = 2 ** sum(each.is_partial() for each in before)
            assert tt.equal(partial.redistribute(placements=after).full_tensor(), count * x), (before, after)


def test_plans_take_shards_apart_from_the_inside() -> None:
    shard, replicate = Shard(0), Replicate()
    assert plan_of((shard, shard), (shard, replicate)) == [(1, shard, replicate)]
    assert plan_of((replicate, shard), (shard, shard)) == [
        (1, shard, replicate),
        (0, replicate, shard),
        (1, replicate, shard),
    ]
    assert plan_of((shard, Shard(1)), (Shard(1), shard)) == [
        (1, Shard(1), replicate),
        (0, shard, Shard(1)),
        (1, replicate, shard),
    ]
    assert plan_of((shard,), (Shard(1),)) == [(0, shard, Shard(1))]
    assert plan_of((Partial(), shard), (shard, shard)) == [
        (1, shard, replicate),
        (0, Partial(), shard),
        (1, replicate, shard),
    ]


@on_ranks(2)
def test_gradients_come_back_as_tensors_lie(rank: int, size: int) -> None:
    mesh = mesh_of(size)
    local = whole(2, 3).requires_grad_()
    made = DTensor.from_local(local, mesh, [Shard(0)])
    assert made.requires_grad and made.shape == (4, 3)
    (made.redistribute(placements=[Replicate()]).to_local() * whole(4, 3)).sum().backward()
    assert local.grad is not None and local.grad.tolist() == (whole(4, 3)[rank * 2 : rank * 2 + 2]).tolist()
    local.grad = None
    (
        DTensor.from_local(local, mesh, [Shard(0)]).full_tensor(grad_placements=[Partial()]) * (rank + 1)
    ).sum().backward()
    assert local.grad.tolist() == [[3.0] * 3] * 2
    part = whole(2, 3).requires_grad_()
    (DTensor.from_local(part, mesh, [Partial()]).full_tensor() * 3).sum().backward()
    assert part.grad is not None and part.grad.tolist() == [[3.0] * 3] * 2
    leaf = distribute_tensor(whole(4, 3), mesh, [Shard(0)]).requires_grad_()
    (leaf.to_local() * (rank + 1)).sum().backward()
    assert isinstance(leaf.grad, DTensor) and leaf.grad.placements == (Shard(0),)
    assert leaf.grad.full_tensor().tolist() == [[1.0] * 3] * 2 + [[2.0] * 3] * 2


@on_ranks(2)
def test_uneven_parts_say_their_shape(rank: int, size: int) -> None:
    mesh = mesh_of(size)
    part = tt.full((3 - rank,), float(rank))
    made = DTensor.from_local(part, mesh, [Shard(0)], shape=(5,), stride=(1,))
    assert made.shape == (5,) and made.full_tensor().tolist() == [0.0, 0.0, 0.0, 1.0, 1.0]
    given = tt.full((2,), float(rank))
    DTensor.from_local(given, mesh, [Replicate()])
    assert DTensor.from_local(given, mesh, [Replicate()], run_check=True).to_local().tolist() == [0.0, 0.0]
    with pytest.raises(RuntimeError, match="both shape and stride"):
        DTensor.from_local(part, mesh, [Shard(0)], shape=(5,))
    with pytest.raises(ValueError, match="same length"):
        DTensor.from_local(part, mesh, [Shard(0), Shard(0)])
    with pytest.raises(IndexError, match="sharded dimension"):
        DTensor.from_local(part, mesh, [Shard(1)])
    with pytest.raises(RuntimeError, match="only accepts"):
        DTensor.from_local(made, mesh, [Shard(0)])


@on_ranks(2)
def test_copies_pickles_and_state(rank: int, size: int) -> None:
    mesh = mesh_of(size)
    made = distribute_tensor(whole(4, 3), mesh, [Shard(0)])
    for again in (copy.deepcopy(made), pickle.loads(pickle.dumps(made)), made.clone(), made.detach()):
        assert type(again) is DTensor and again.placements == made.placements and again.shape == (4, 3)
        assert tt.equal(again.to_local(), made.to_local())
    assert repr(made).startswith("DTensor(local_tensor=tensor(") and "placements=(Shard(dim=0),)" in repr(
        made
    )
    layer = tt.nn.Linear(3, 4)
    distribute_module(
        layer,
        mesh,
        lambda name, each, on: each.register_parameter(
            "weight", tt.nn.Parameter(distribute_tensor(each.weight.detach(), on, [Shard(0)]))
        ),
    )
    assert isinstance(layer.weight, tt.nn.Parameter) and isinstance(layer.weight, DTensor)
    assert layer.weight.placements == (Shard(0),) and layer.bias.placements == (Replicate(),)
    twin = copy.deepcopy(layer)
    state = layer.state_dict()
    assert isinstance(state["weight"], DTensor)
    buffer = io.BytesIO()
    tt.save(state, buffer)
    buffer.seek(0)
    with tt.no_grad():
        twin.weight.zero_()
    twin.load_state_dict(tt.load(buffer))
    assert tt.equal(twin.weight.to_local(), layer.weight.to_local())
    assert isinstance(twin.weight.to_local(), tt.nn.Parameter)


@on_ranks(2, 4)
def test_random_numbers_are_those_of_the_whole(rank: int, size: int) -> None:
    mesh = mesh_of(size)
    layouts = [[Shard(0)], [Shard(1)], [Replicate()]]
    dtypes = (tt.float32, tt.float64, tt.bfloat16, tt.complex64)
    shapes = ((6, 3), (5, 7), (1, 3))
    cases = [("philox", shape, dtype) for shape in shapes for dtype in dtypes]
    for engine, shape, dtype in (*cases, ("mt19937", (5, 7), tt.float32)):
        tt.random.set_cpu_engine(engine)
        for placements in layouts:
            for made, plain in ((rand, tt.rand), (randn, tt.randn)):
                tt.manual_seed(3)
                expected, following = plain(*shape, dtype=dtype), tt.rand(3)
                tt.manual_seed(3)
                found = made(shape, dtype=dtype, device_mesh=mesh, placements=placements)
                assert tt.equal(found.full_tensor(), expected), (engine, shape, dtype, placements)
                assert tt.equal(tt.rand(3), following)
    tt.random.set_cpu_engine("philox")
    for placements in layouts:
        x = distribute_tensor(whole(4, 6), mesh, placements)
        tt.manual_seed(1)
        expected = tt.nn.functional.dropout(whole(4, 6), 0.25)
        tt.manual_seed(1)
        assert tt.equal(tt.nn.functional.dropout(x, 0.25).full_tensor(), expected)
        tt.manual_seed(1)
        expected = tt.nn.init.uniform_(tt.empty(4, 6))
        tt.manual_seed(1)
        assert tt.equal(tt.nn.init.uniform_(x).full_tensor(), expected)


@on_ranks(2)
def test_tensors_of_one_value(rank: int, size: int) -> None:
    mesh = mesh_of(size)
    assert zeros(5, 2, device_mesh=mesh, placements=[Shard(0)]).to_local().shape == (3 - rank, 2)
    assert ones((3, 2), device_mesh=mesh).full_tensor().tolist() == [[1.0, 1.0]] * 3
    made = full((3,), 7, device_mesh=mesh, placements=[Shard(0)], requires_grad=False)
    assert made.dtype == tt.int64 and made.full_tensor().tolist() == [7, 7, 7]
    with mesh:
        assert zeros(2, requires_grad=True).requires_grad
    with pytest.raises(ValueError, match="expected Shard or Replicate"):
        zeros(2, device_mesh=mesh, placements=[Partial()])
    assert dist.is_initialized()


@on_ranks(2, cuda="interpret")
def test_transitions_on_gpus(rank: int, size: int) -> None:
    mesh = init_device_mesh("cuda", (size,))
    x = whole(5, 4).to("cuda")
    placements = [Shard(0), Shard(1), Replicate()]
    for before, after in product(placements, placements):
        made = distribute_tensor(x, mesh, [before]).redistribute(placements=[after])
        assert made.device.type == "cuda" and made.to_local().device.type == "cuda"
        assert tt.equal(made.full_tensor().cpu(), whole(5, 4)), (before, after)
    partial = DTensor.from_local(x, mesh, [Partial()])
    assert tt.equal(partial.redistribute(placements=[Shard(0)]).full_tensor().cpu(), 2 * whole(5, 4))
    w = distribute_tensor(whole(4, 6).to("cuda"), mesh, [Shard(1)]).requires_grad_()
    (distribute_tensor(x, mesh, [Replicate()]) @ w).square().sum().backward()
    plain = whole(4, 6).requires_grad_()
    (whole(5, 4) @ plain).square().sum().backward()
    assert plain.grad is not None and w.grad is not None
    assert tt.allclose(w.grad.full_tensor().cpu(), plain.grad)
