"""The groups of a mesh's processes, and the world that they are of."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from . import mesh_layout
from .groups import (
    get_backend,
    get_rank,
    get_world_size,
    group_or_default,
    is_initialized,
)
from .mesh_layout import Layout
from .process_group import ProcessGroup
from .subgroups import new_group
from .world import init_process_group

__all__ = ["backends_of_dimensions", "make_groups", "set_up_world"]


def make_groups(
    layout: Layout, ranks: Sequence[int], names: Sequence[str] | None, backends: Sequence[str | None]
) -> list[ProcessGroup]:
    """Create this rank's groups along some dimensions. A rank outside the mesh gets none.

    Args:
        layout: The dimensions.
        ranks: Global ranks of the mesh.
        names: Names of the dimensions, if any.
        backends: Backend of each dimension. None means the backend of the world group.

    Raises:
        ValueError: there are not as many backends as dimensions.
    """
    if len(backends) != len(layout):
        raise ValueError(
            f"backend_override should have the same length as the number of mesh dimensions, but got {len(backends)} "
            f"and {len(layout)}."
        )
    made = []
    for dim, dimension in enumerate(layout):
        if mesh_layout.length(dimension) == get_world_size() and not backends[dim]:
            made.append(group_or_default())
            continue
        description = f"mesh_{names[dim] if names else f'dim_{dim}'}"
        for line in mesh_layout.lines(dimension, len(ranks)):
            group = new_group(
                [ranks[each] for each in line],
                backend=backends[dim],
                group_desc=description,
                sort_ranks=False,
            )
            if isinstance(group, ProcessGroup):
                made.append(group)
    return made


def set_up_world(device_type: str, size: int) -> None:
    """Make the world's group, and choose this process's device, where the program has not done so."""
    if not is_initialized():
        init_process_group()
    world = get_world_size()
    if size > world:
        raise RuntimeError(
            f"Mesh should not be bigger than default world size {world}, but found {size} ranks!"
        )
    if device_type != "cuda" or get_backend() == "fake":
        return
    from .. import cuda

    if cuda.is_initialized() or not cuda.is_available():
        return
    if "LOCAL_RANK" in os.environ:
        cuda.set_device(int(os.environ["LOCAL_RANK"]) % cuda.device_count())
        return
    count = cuda.device_count()
    if world > count and world % count:
        raise RuntimeError(
            f"DeviceMesh only support homogeneous hardware, but found {world} ranks and {count} {device_type} devices!"
        )
    cuda.set_device(get_rank() % count)


def backends_of_dimensions(
    overrides: Mapping[int | str, str] | None, ndim: int, names: Sequence[str] | None
) -> list[str | None]:
    """Return the backend of each dimension, given overrides by index or name.

    Raises:
        RuntimeError: one is given twice, or for no dimension.
    """
    left = dict(overrides or {})
    made = []
    for dim in range(ndim):
        name = names[dim] if names else None
        if name in left and dim in left:
            raise RuntimeError(f"Found redundant dim index {dim} and name {name} in backend_override")
        made.append(left.pop(dim, None) or (left.pop(name, None) if name else None))
    if left:
        raise RuntimeError(
            f"Found invalid keys in backend_override: got {list(left)}, expected integers in range [0, {ndim}) or one "
            f"of {names}"
        )
    return made
