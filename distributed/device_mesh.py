"""Device meshes: `init_device_mesh` creates a mesh; `mesh` defines the class
(`torch.distributed.device_mesh`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from .mesh import DeviceMesh, current_mesh
from .mesh_groups import backends_of_dimensions
from .mesh_layout import contiguous

__all__ = ["DeviceMesh", "init_device_mesh"]


def init_device_mesh(
    device_type: str,
    mesh_shape: Sequence[int],
    *,
    mesh_dim_names: Sequence[str] | None = None,
    backend_override: Mapping[int | str, str] | None = None,
) -> DeviceMesh:
    """Make the mesh of the first processes of the world, in order (`torch.distributed.init_device_mesh`).

    Args:
        device_type: the type of device, without a number.
        mesh_shape: the sizes of its dimensions.
        mesh_dim_names: their names.
        backend_override: backends for some of them, by number or name.

    Raises:
        RuntimeError: a name is given twice, there are not as many as sizes, or the device has a number.

    Example:
        >>> from triten import distributed as dist
        >>> from triten.distributed.backends.fake import FakeStore
        >>> dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=8)
        >>> mesh = dist.init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "tp"))
        >>> mesh["dp"].size(), mesh["dp", "tp"]._flatten("all").mesh.tolist()
        (2, [0, 1, 2, 3, 4, 5, 6, 7])
        >>> dist.destroy_process_group()
    """
    if mesh_dim_names is not None:
        if len(set(mesh_dim_names)) != len(mesh_dim_names):
            raise RuntimeError(
                f"Each mesh_dim_name must be unique. Found repeated mesh_dim_name in mesh_dim_names {mesh_dim_names}"
            )
        if len(mesh_shape) != len(mesh_dim_names):
            raise RuntimeError(
                f"mesh_shape and mesh_dim_names should have same length! Found len(mesh_dim_names): "
                f"{len(mesh_dim_names)} and len(mesh_shape):{len(mesh_shape)}."
            )
    if device_type and not device_type.isalpha():
        raise RuntimeError(
            f"Device type with index is not supported but got {device_type}. If you maintained a 'tt.device' object, "
            "it's recommended to pass in 'device.type'."
        )
    shape = tuple(int(size) for size in mesh_shape)
    return DeviceMesh(
        device_type,
        _layout=contiguous(shape),
        _rank_map=tuple(range(prod(shape))),
        mesh_dim_names=mesh_dim_names,
        backend_override=backends_of_dimensions(backend_override, len(shape), mesh_dim_names),
    )


class _Resources:
    """Current mesh, as PyTorch's own programs access it (`torch.distributed.device_mesh._mesh_resources`)."""

    get_current_mesh: Callable[[], DeviceMesh] = staticmethod(current_mesh)

    def get_root_mesh(self, device_mesh: DeviceMesh) -> DeviceMesh:
        return device_mesh._get_root_mesh()


_mesh_resources = _Resources()
