"""Distributed tensors on every device, of a world of which one process is there; what is asked of them, and refused."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

import triten as tt
from triten import distributed as dist
from triten import nn
from triten.distributed import DeviceMesh, init_device_mesh
from triten.distributed.backends.fake import FakeStore
from triten.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor, ones, zeros
from triten.distributed.tensor.debug import CommDebugMode, visualize_sharding
from triten.distributed.tensor.experimental import implicit_replication, local_map
from triten.nn import functional as F


@pytest.fixture
def world() -> Iterator[None]:
    dist.init_process_group("fake", store=FakeStore(), rank=1, world_size=4)
    yield
    dist.destroy_process_group()


@pytest.fixture
def alone() -> Iterator[None]:
    dist.init_process_group("cpu:mpi,cuda:fake", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize("kind", ["cpu", "cuda", "meta"])
def test_a_layer_of_columns_and_one_of_rows(world: None, kind: str) -> None:
    mesh = init_device_mesh(kind, (2, 2), mesh_dim_names=("dp", "tp"))
    x = zeros(6, 8, device_mesh=mesh, placements=[Shard(0), Replicate()])
    first = zeros(16, 8, device_mesh=mesh, placements=[Replicate(), Shard(0)], requires_grad=True)
    second = zeros(8, 16, device_mesh=mesh, placements=[Replicate(), Shard(1)], requires_grad=True)
    with CommDebugMode() as mode, warnings.catch_warnings():
        warnings.simplefilter("error")
        hidden = F.gelu(F.linear(x, first))
        out = F.linear(hidden, second)
        assert hidden.placements == (Shard(0), Shard(1)) and out.placements == (Shard(0), Partial())
        assert hidden.to_local().shape == (3, 8) and out.to_local().shape == (6 // 2, 8)
        assert hidden.to_local().device.type == kind and mode.get_total_counts() == 0
        out.redistribute(placements=[Shard(0), Replicate()]).sum().backward()
    assert mode.get_comm_counts() == {"all_reduce": 1}
    for weight, shape in ((first, (8, 8)), (second, (8, 8))):
        assert isinstance(weight.grad, DTensor) and weight.grad.shape == weight.shape
        assert weight.grad.placements[0] == Partial() and weight.grad.placements[1] == weight.placements[1]
        assert weight.grad.to_local().shape == shape and weight.grad.to_local().device.type == kind


@pytest.mark.parametrize("kind", ["cpu", "cuda", "meta"])
def test_heads_of_attention(world: None, kind: str) -> None:
    mesh = init_device_mesh(kind, (2, 2))
    layout = [Shard(0), Shard(1)]
    q, k, v = (zeros(2, 4, 3, 16, device_mesh=mesh, placements=layout, requires_grad=True) for _ in range(3))
    mask = zeros(2, 1, 3, 3, device_mesh=mesh, placements=[Shard(0), Replicate()])
    with CommDebugMode() as mode, warnings.catch_warnings():
        warnings.simplefilter("error")
        for found in (
            F.scaled_dot_product_attention(q, k, v, is_causal=True),
            F.scaled_dot_product_attention(q, k, v, attn_mask=mask),
        ):
            assert found.placements == tuple(layout) and found.to_local().shape == (1, 2, 3, 16)
            found.backward(zeros(2, 4, 3, 16, device_mesh=mesh, placements=layout))
    assert mode.get_total_counts() == 0
    assert isinstance(q.grad, DTensor) and q.grad.placements == tuple(layout)


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_numbers_of_a_mesh_of_one_process(alone: None, kind: str) -> None:
    mesh = init_device_mesh(kind, (1,))
    plain = tt.arange(6.0, device=kind).view(2, 3)
    weight = distribute_tensor(plain, mesh, [Shard(0)]).requires_grad_()
    optimizer = tt.optim.AdamW([nn.Parameter(weight)], lr=0.1)
    loss = F.softmax(weight.t() @ weight, -1).square().sum()
    loss.backward()
    own = plain.clone().requires_grad_()
    expected = F.softmax(own.t() @ own, -1).square().sum()
    expected.backward()
    assert weight.device.type == kind
    assert tt.allclose(loss.full_tensor(), expected) and isinstance(weight.grad, DTensor)
    assert own.grad is not None and tt.allclose(weight.grad.full_tensor(), own.grad, atol=1e-5)
    optimizer.step()
    assert float(loss) == loss.item() == pytest.approx(expected.item())


def test_shapes_are_those_of_the_whole(world: None) -> None:
    mesh = init_device_mesh("cpu", (4,))
    x = zeros(10, 3, device_mesh=mesh, placements=[Shard(0)])
    assert x.shape == (10, 3) and x.stride() == (3, 1) and x.numel() == 30 and x.to_local().shape == (3, 3)
    assert x.device_mesh is mesh and x.is_contiguous() and len(x) == 10
    local = DTensor.from_local(tt.zeros(3, 2, 5).transpose(0, 2), mesh, [Shard(0)])
    assert local.shape == (20, 2, 3) and local.stride() == (1, 20, 40)
    assert x.T.placements == (Shard(1),) and x.T.stride() == (1, 3)
    assert x.to(tt.float64).dtype == tt.float64 and (x > 0).dtype == tt.bool
    view = x[:, 1:]
    assert view.placements == (Shard(0),)
    view.add_(1)
    assert x.to_local().tolist() == [[0.0, 1.0, 1.0]] * 3 and x._version == 1


def test_numpy_and_numbers(alone: None) -> None:
    mesh = init_device_mesh("cpu", (1,))
    x = ones(2, 2, device_mesh=mesh, placements=[Shard(0)])
    assert x.tolist() == [[1.0, 1.0]] * 2 and x.numpy().sum() == 4.0
    assert bool((x == 1).all()) and int(x.sum()) == 4 and x.sum().item() == 4.0


def test_writing_to_what_is_a_sum(world: None) -> None:
    mesh = init_device_mesh("cpu", (4,))
    x = DTensor.from_local(tt.ones(4, 2), mesh, [Partial()])
    x.mul_(2)
    assert x.placements == (Partial(),) and x.to_local().tolist() == [[2.0, 2.0]] * 4
    x.exp_()
    assert x.placements == (Replicate(),)
    y = DTensor.from_local(tt.ones(4, 2), mesh, [Partial()])
    view = y[0]
    with pytest.raises(RuntimeError, match="require placement changes"):
        y.exp_()
    with pytest.raises(RuntimeError, match="require placement changes"):
        view.exp_()


def test_an_operator_without_a_rule_says_so_once(alone: None, world: None = None) -> None:
    mesh = init_device_mesh("cpu", (1,))
    x = ones(4, 4, device_mesh=mesh, placements=[Shard(0)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of one process nothing is sent
        assert tt.linalg.det(x + 1).full_tensor().item() == 0.0


def test_no_rule(world: None) -> None:
    mesh = init_device_mesh("cpu", (4,))
    x = ones(4, 4, device_mesh=mesh, placements=[Shard(0)])
    with pytest.warns(UserWarning, match="aten::diagonal has no rule"):
        found = tt.trace(x)
    assert found.placements == (Replicate(),) and found.shape == ()
    with pytest.warns(UserWarning, match="aten::tril_ has no rule"):
        x.tril_()  # written back to where it was
    assert x.placements == (Shard(0),) and x.to_local().tolist() == [[1.0, 1.0, 0.0, 0.0]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tt.trace(x)


def test_what_is_refused(world: None) -> None:
    mesh = init_device_mesh("cpu", (4,))
    x = ones(4, 4, device_mesh=mesh, placements=[Shard(0)])
    with pytest.raises(RuntimeError, match="got mixed"):
        x + tt.ones(4, 4)
    assert (x + tt.tensor(1.0)).placements == (Shard(0),)
    with implicit_replication():
        assert (x + tt.ones(4, 4)).placements == (Shard(0),)
    with pytest.raises(RuntimeError, match="on one mesh"):
        x + ones(4, 4, device_mesh=init_device_mesh("cpu", (2, 2)))
    with pytest.raises(RuntimeError, match="placements is needed"):
        x.redistribute()
    with pytest.raises(NotImplementedError, match="must be the mesh of the DTensor"):
        x.redistribute(DeviceMesh("cpu", [0, 1]), [Replicate()])
    with pytest.raises(ValueError, match="expected a reduce_op"):
        Partial("median")
    with pytest.raises(RuntimeError, match="unsupported placements"):
        distribute_tensor(tt.ones(4), mesh, [Partial()])
    with pytest.raises(RuntimeError, match="leaf tensors"):
        distribute_tensor(tt.ones(4, requires_grad=True) * 2, mesh, [Shard(0)])
    with pytest.raises(ValueError, match="do you want to call `redistribute`"):
        distribute_tensor(x, mesh, [Replicate()])


def test_a_process_outside_of_the_mesh(world: None) -> None:
    mesh = DeviceMesh("cpu", [0, 2])
    x = distribute_tensor(tt.ones(4, 4), mesh, [Shard(0)])
    assert x.to_local().numel() == 0 and x.shape == (4, 4)
    assert (x @ x).sum().shape == () and (x + 1).to_local().numel() == 0


def test_views(world: None) -> None:
    mesh = init_device_mesh("cpu", (4,))
    x = zeros(8, 4, device_mesh=mesh, placements=[Shard(0)])
    with pytest.raises(RuntimeError, match="had to be redistributed"):
        x[1:3].add_(1)
    leaf = ones(8, 4, device_mesh=mesh, placements=[Shard(0)], requires_grad=True)
    y = leaf * 2
    view = y[:, 1:]
    with pytest.raises(RuntimeError, match="cannot be recorded"):
        view.mul_(3)
    y.mul_(3)
    with pytest.raises(RuntimeError, match="Make it anew"):
        view.sum()
    y[:, 1:].sum().backward()
    assert isinstance(leaf.grad, DTensor) and leaf.grad.full_tensor().tolist() == [[0.0, 6.0, 6.0, 6.0]] * 8
    with tt.no_grad():
        leaf.detach().add_(1)
        leaf[:, 0].zero_()
    assert leaf.to_local().tolist() == [[0.0, 2.0, 2.0, 2.0]] * 2 and leaf._version == 2


def test_functions_of_parts(world: None) -> None:
    mesh = init_device_mesh("cpu", (4,))
    x = ones(8, 4, device_mesh=mesh, placements=[Shard(0)], requires_grad=True)
    product = local_map(
        lambda a, factor: (a * factor, factor), ([Shard(0)], None), in_placements=([Shard(0)], None)
    )
    found, factor = product(x, 3)
    assert factor == 3 and found.placements == (Shard(0),) and found.shape == (8, 4)
    found.sum().backward()
    assert isinstance(x.grad, DTensor) and x.grad.to_local().tolist() == [[3.0] * 4] * 2
    with pytest.raises(ValueError, match="mismatched placements"):
        product(x.redistribute(placements=[Replicate()]), 3)

    @local_map(out_placements=[Shard(1)], in_placements=([Shard(1)],), redistribute_inputs=True)
    def negative(part: Any) -> Any:
        return -part

    assert negative(x).placements == (Shard(1),)
    assert negative(tt.ones(2)).tolist() == [-1.0, -1.0]


def test_pictures(capsys: pytest.CaptureFixture[str]) -> None:
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
    try:
        mesh = init_device_mesh("cpu", (4,))
        visualize_sharding(zeros(5, 2, device_mesh=mesh, placements=[Shard(0)]), header="rows")
        assert capsys.readouterr().out == (
            "rows\n         Col 0-1\nRow 0-1   cpu:0\nRow 2-3   cpu:1\nRow 4-4   cpu:2\n"
        )
        with pytest.raises(RuntimeError, match="1 or 2 dimensions"):
            visualize_sharding(zeros(2, 2, 2, device_mesh=mesh))
    finally:
        dist.destroy_process_group()


def test_a_world_that_comes_after_another() -> None:
    for _ in range(2):
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
        try:
            mesh = init_device_mesh("cpu", (4,))
            x = ones(4, 4, device_mesh=mesh, placements=[Shard(0)])
            found = x.exp() @ x
            assert found.device_mesh.get_group() is mesh.get_group()
            assert found.full_tensor().shape == (4, 4)
        finally:
            dist.destroy_process_group()
