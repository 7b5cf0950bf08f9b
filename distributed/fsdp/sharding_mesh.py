"""The groups of processes among which parameters are sharded, and those that repeat the shards."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from ...runtime.device import device as Device
from ...runtime.fork_lock import cached_property
from ..groups import get_world_size, is_initialized
from ..process_group import ProcessGroup
from ..world import init_process_group

if TYPE_CHECKING:
    from ..device_mesh import DeviceMesh

__all__ = ["ShardingMesh", "default_mesh", "device_of", "mesh_after_forward"]


class ShardingMesh:
    """A mesh of one dimension, along which shards lie, or of two, along whose first they are repeated.

    Args:
        mesh: the mesh.

    Raises:
        ValueError: it has more dimensions.
    """

    def __init__(self, mesh: DeviceMesh) -> None:
        if mesh.ndim not in (1, 2):
            raise ValueError(f"fully_shard expects a 1D or 2D DeviceMesh but got {mesh}")
        self.mesh = mesh
        self.replicates = mesh.ndim == 2

    @cached_property
    def shard_group(self) -> ProcessGroup:
        """The processes that have the shards of one whole."""
        return self.mesh.get_group(self.mesh.ndim - 1)

    @cached_property
    def replicate_group(self) -> ProcessGroup | None:
        """The processes that have the same shard; None where no others have it."""
        return self.mesh.get_group(0) if self.replicates else None

    @cached_property
    def shard_size(self) -> int:
        """The number of shards."""
        return self.mesh.size(self.mesh.ndim - 1)

    @cached_property
    def shard_rank(self) -> int:
        """The number of this process's shard."""
        return self.mesh.get_local_rank(self.mesh.ndim - 1)

    def placements(self, shard: Any) -> tuple[Any, ...]:
        """Return the placements of a sharded parameter on the mesh."""
        from ..tensor import Replicate

        return (Replicate(), shard) if self.replicates else (shard,)

    def __repr__(self) -> str:
        return f"ShardingMesh({self.mesh!r})"


def default_mesh() -> DeviceMesh:
    """Create the mesh of all ranks, on GPUs if there are any."""
    from ...accelerator import current_accelerator
    from ..device_mesh import init_device_mesh

    if not is_initialized():
        init_process_group()
    accelerator = current_accelerator()
    return init_device_mesh("cpu" if accelerator is None else accelerator.type, (get_world_size(),))


def device_of(mesh: DeviceMesh) -> Device:
    """Return the device on which this rank computes."""
    if mesh.device_type == "cuda":
        from ...cuda import current_device

        return Device("cuda", current_device())
    return Device(mesh.device_type)


def mesh_after_forward(reshard_after_forward: bool | int, sharded: ShardingMesh) -> ShardingMesh | None:
    """Among whom parameters are sharded between forward and backward; None where they stay whole.

    Raises:
        ValueError: a number of shards that does not divide that of the mesh.
    """
    if isinstance(reshard_after_forward, bool):
        return sharded if reshard_after_forward else None
    size = sharded.shard_size
    if not isinstance(reshard_after_forward, int):
        raise ValueError(
            "reshard_after_forward should be a bool or an int representing the group size to reshard to, not "
            f"{reshard_after_forward}"
        )
    if not 1 <= reshard_after_forward <= size or size % reshard_after_forward:
        raise ValueError(
            "If passing reshard_after_forward as an int, it should be a factor of "
            f"{size}, not {reshard_after_forward}"
        )
    if reshard_after_forward == 1:
        warnings.warn(
            "reshard_after_forward=1 (int) means resharding parameters to world size 1, instead of "
            "reshard_after_forward=True (bool)",
            stacklevel=3,
        )
        return None
    if reshard_after_forward == size:
        return sharded
    from ..device_mesh import DeviceMesh

    ranks = sharded.mesh.mesh.view(-1, reshard_after_forward)
    return ShardingMesh(DeviceMesh(sharded.mesh.device_type, ranks))
