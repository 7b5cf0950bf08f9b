"""Local shapes and global offsets of shards, strided ones among them, as PyTorch computes them."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest

from triten import distributed as dist
from triten.distributed import init_device_mesh
from triten.distributed.backends.fake import FakeStore
from triten.distributed.tensor import DTensor, Placement, Replicate, Shard, zeros
from triten.distributed.tensor.placements import StridedShard
from triten.distributed.tensor.shards import compute_local_shape_and_global_offset

BOTH = (StridedShard(0, split_factor=2), Shard(0))


@pytest.fixture
def rank(request: pytest.FixtureRequest) -> Iterator[int]:
    dist.init_process_group("fake", store=FakeStore(), rank=request.param, world_size=4)
    yield request.param
    dist.destroy_process_group()


@pytest.mark.parametrize(
    ("rank", "shape", "mesh", "placements", "expected"),
    [
        (0, (7, 3), (2, 2), BOTH, ((2, 3), (0, 0))),
        (1, (7, 3), (2, 2), BOTH, ((2, 3), (4, 0))),
        (2, (7, 3), (2, 2), BOTH, ((2, 3), (2, 0))),
        (3, (7, 3), (2, 2), BOTH, ((1, 3), (6, 0))),
        (3, (8,), (2, 2), (Shard(0), StridedShard(0, sf=2)), ((2,), (5,))),
        (2, (9,), (4, 1), (StridedShard(0, sf=2), Replicate()), ((2,), (4,))),
        (3, (9,), (4, 1), (StridedShard(0, sf=2), Replicate()), ((1,), (8,))),
        (3, (3, 5), (2, 2), (Shard(0), Shard(1)), ((1, 2), (2, 3))),
        (3, (1, 5), (2, 2), (Shard(0), Shard(0)), ((0, 5), (1, 0))),
    ],
    indirect=["rank"],
)
def test_local_shapes_and_global_offsets(
    rank: int,
    shape: tuple[int, ...],
    mesh: tuple[int, int],
    placements: tuple[Placement, ...],
    expected: tuple[tuple[int, ...], tuple[int, ...]],
) -> None:
    assert compute_local_shape_and_global_offset(shape, init_device_mesh("cpu", mesh), placements) == expected


@pytest.mark.parametrize("rank", [0], indirect=True)
def test_no_tensor_has_a_strided_shard(rank: int) -> None:
    mesh = init_device_mesh("cpu", (4,))
    with pytest.raises(NotImplementedError, match=r"_StridedShard\(dim=0, sf=2\).*expected Shard"):
        DTensor.from_local(zeros(2, device_mesh=mesh).to_local(), mesh, [StridedShard(0, split_factor=2)])


def test_a_strided_shard_is_compared_by_its_groups() -> None:
    shard = StridedShard(1, split_factor=2)
    assert shard == pickle.loads(pickle.dumps(shard)) != StridedShard(1, split_factor=4)
    assert not shard.is_shard() and str(shard) == "_S(1, 2)"
    with pytest.raises(TypeError, match="both split_factor and sf"):
        StridedShard(0, split_factor=2, sf=3)
