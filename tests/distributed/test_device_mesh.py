"""Device meshes: the processes' coordinates, submeshes, and groups."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

import triten as tt
from triten import distributed as dist
from triten.distributed import DeviceMesh, init_device_mesh, mesh_layout
from triten.distributed.backends.fake import FakeStore
from triten.distributed.device_mesh import _mesh_resources
from triten.tests.distributed.ranks import on_ranks


@contextmanager
def _world(rank: int, size: int) -> Iterator[None]:
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=size)
    try:
        yield
    finally:
        dist.destroy_process_group()


@pytest.fixture
def world() -> Callable[[int, int], AbstractContextManager[None]]:
    return _world


def test_shape_names_and_groups(world) -> None:
    with world(6, 8):
        mesh = init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "tp"))
        assert mesh.shape == (2, 4) and mesh.ndim == 2 and mesh.size() == 8 and mesh.size(1) == 4
        assert mesh.mesh.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]] and mesh.mesh.dtype == tt.int32
        assert mesh.get_coordinate() == (1, 2) and mesh.get_rank() == 6
        assert mesh.get_local_rank("dp") == 1 and mesh.get_local_rank(1) == 2
        assert [dist.get_process_group_ranks(group) for group in mesh.get_all_groups()] == [
            [2, 6],
            [4, 5, 6, 7],
        ]
        assert repr(mesh) == "DeviceMesh((dp=2, tp=4), 'cpu', stride=(4, 1))"
        assert repr(init_device_mesh("cpu", (8,))) == "DeviceMesh((8,), 'cpu', stride=(1,))"
        with pytest.raises(RuntimeError, match="have 2 dimensions"):
            mesh.get_group()
        with pytest.raises(KeyError, match="'pp' does not exist"):
            mesh.get_group("pp")


def test_parts_are_those_of_this_process(world) -> None:
    with world(5, 8):
        mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("pp", "dp", "tp"))
        assert mesh["pp", "dp", "tp"] is mesh
        assert mesh["tp"].mesh.tolist() == [4, 5] and mesh["pp"].mesh.tolist() == [1, 5]
        assert mesh["pp", "tp"].mesh.tolist() == [[0, 1], [4, 5]]
        assert mesh["pp", "tp"]["tp"].get_group() is mesh.get_group("tp")
        assert mesh["pp", "tp"].get_coordinate() == (1, 1)
        assert mesh["dp"] == mesh["dp"] != mesh["tp"] and len({mesh["dp"], mesh["dp"]}) == 1
        with pytest.raises(KeyError, match="ascending order"):
            mesh["tp", "pp"]
        with pytest.raises(KeyError, match="Valid mesh_dim_names are"):
            mesh["cp"]
        with pytest.raises(RuntimeError, match="without mesh_dim_names"):
            init_device_mesh("cpu", (8,))["x"]


def test_dimensions_join_and_divide(world) -> None:
    with world(5, 8):
        mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("pp", "dp", "tp"))
        flat = mesh["pp", "tp"]._flatten()
        assert flat.mesh_dim_names == ("pp_tp",) and flat.mesh.tolist() == [0, 1, 4, 5]
        assert repr(flat) == "DeviceMesh((pp_tp=4), 'cpu', stride=((4, 1),))"
        assert flat.get_local_rank() == 3 and dist.get_process_group_ranks(flat.get_group()) == [0, 1, 4, 5]
        assert mesh.get_group("pp_tp") is flat.get_group() and mesh["pp_tp"] == flat
        assert mesh["pp", "tp"]._flatten("pp_tp") is flat
        with pytest.raises(ValueError, match="has been created before"):
            mesh["dp", "tp"]._flatten("pp_tp")
        with pytest.raises(ValueError, match="already exists"):
            mesh["dp", "tp"]._flatten("tp")
        with pytest.raises(RuntimeError, match="overlapping"):
            mesh["pp_tp", "tp"]
        one = init_device_mesh("cpu", (8,), mesh_dim_names=("world",))
        parts = one._unflatten("world", (2, 4), ("dp", "tp"))
        assert parts.mesh.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
        assert dist.get_process_group_ranks(parts.get_group("dp")) == [1, 5]
        assert flat._unflatten(0, (2, 2), ("a", "b")).mesh.tolist() == [[0, 1], [4, 5]]
        with pytest.raises(ValueError, match="must be equal for unflatten"):
            one._unflatten(0, (3, 4), ("a", "b"))
        assert DeviceMesh._concatenate([mesh["pp"], mesh["tp"]]) == mesh["pp", "tp"]
        assert [each.mesh.tolist() for each in mesh._get_all_submeshes("dp")] == [
            [0, 2],
            [1, 3],
            [4, 6],
            [5, 7],
        ]


def test_meshes_of_groups(world) -> None:
    with world(1, 4):
        group = dist.new_group([1, 3])
        mesh = DeviceMesh.from_group(group, "cpu")
        assert mesh.mesh.tolist() == [1, 3] and mesh.get_group() is group and mesh.get_local_rank() == 0
        other = dist.new_group([0, 1])
        two = DeviceMesh.from_group([group, other], "cpu", [[0, 1], [2, 3]], mesh_dim_names=("a", "b"))
        assert two["a"].get_group() is group and two.get_all_groups() == [group, other]
        with pytest.raises(ValueError, match="Invalid mesh"):
            DeviceMesh.from_group(group, "cpu", [0, 1])
        with pytest.raises(ValueError, match="Must pass mesh"):
            DeviceMesh.from_group([group, other], "cpu")


def test_a_process_outside(world) -> None:
    with world(3, 4):
        mesh = DeviceMesh("cpu", [0, 1])
        assert mesh.get_coordinate() is None and mesh.mesh.tolist() == [0, 1]
        with pytest.raises(RuntimeError, match="rank 3 is not in"):
            mesh.get_group()


def test_what_cannot_be(world) -> None:
    with world(0, 4):
        with pytest.raises(RuntimeError, match="should not be bigger"):
            init_device_mesh("cpu", (8,))
        with pytest.raises(RuntimeError, match="Device type with index"):
            init_device_mesh("cuda:0", (4,))
        with pytest.raises(RuntimeError, match="must be unique"):
            init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "a"))
        with pytest.raises(RuntimeError, match="same length"):
            init_device_mesh("cpu", (2, 2), mesh_dim_names=("a",))
        with pytest.raises(ValueError, match="each rank once"):
            DeviceMesh("cpu", [0, 0])
        with pytest.raises(RuntimeError, match="invalid keys in backend_override"):
            init_device_mesh("cpu", (4,), backend_override={3: "fake"})
        with pytest.raises(TypeError, match="mesh argument is required"):
            DeviceMesh("cpu")


def test_with_pickles_and_copies(world) -> None:
    with world(0, 4):
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"))
        with pytest.raises(RuntimeError, match="No device mesh"):
            _mesh_resources.get_current_mesh()
        with mesh, mesh["b"]:
            assert _mesh_resources.get_current_mesh() == mesh["b"]
        again = pickle.loads(pickle.dumps(mesh["b"]))
        assert again == mesh["b"] and again.get_group() is mesh.get_group("b")
        assert copy.deepcopy(mesh) == mesh
        data = pickle.dumps(mesh)
    with world(0, 1), pytest.warns(UserWarning, match="process groups are not there"):
        assert pickle.loads(data).shape == (2, 2)


def test_thousands_of_processes(world) -> None:
    with world(4095, 4096):
        mesh = init_device_mesh("meta", (64, 64), mesh_dim_names=("dp", "tp"))
        assert mesh.get_coordinate() == (63, 63) and mesh.get_group("dp").size() == 64


def test_the_environment_makes_the_world(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": "0",
        "RANK": "0",
        "WORLD_SIZE": "1",
    }.items():
        monkeypatch.setenv(name, value)
    try:
        assert init_device_mesh("cpu", (1,)).get_group() is dist.group.WORLD
    finally:
        dist.destroy_process_group()


def test_layouts() -> None:
    layout = mesh_layout.contiguous((2, 3, 4))
    assert mesh_layout.flattened(layout) == ((24, 1),)
    assert mesh_layout.flattened((layout[0], layout[2])) == ((2, 12), (4, 1))
    assert mesh_layout.unflattened(((2, 12), (4, 1)), (4, 2)) == (((2, 12), (2, 2)), ((2, 1),))
    with pytest.raises(ValueError, match="cannot be unflattened"):
        mesh_layout.unflattened(((2, 12), (4, 1)), (3, 2))
    assert mesh_layout.overlaps((((4, 1),), ((2, 2),))) and not mesh_layout.overlaps(layout)


@on_ranks(4)
def test_groups_of_a_mesh_communicate(rank: int, size: int) -> None:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    x = tt.full((1,), float(rank))
    dist.all_reduce(x, group=mesh.get_group("dp"))
    assert x.item() == 2.0 * (rank % 2) + 2
    dist.all_reduce(x, group=mesh["dp", "tp"]._flatten().get_group())
    assert x.item() == 12.0
