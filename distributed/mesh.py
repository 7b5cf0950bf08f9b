"""The processes of a program as an array of one dimension or several."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from . import mesh_layout
from .groups import get_process_group_ranks, get_rank, group_by_name
from .mesh_groups import backends_of_dimensions, make_groups, set_up_world
from .mesh_layout import Layout, contiguous, flattened, shape_and_ranks
from .process_group import ProcessGroup

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor

__all__ = ["DeviceMesh", "current_mesh"]

Names = tuple[str, ...]


class _Entered(threading.local):
    """Thread-local stack of meshes entered by `with` statements."""

    def __init__(self) -> None:
        self.stack: list[DeviceMesh] = []


_entered = _Entered()


def current_mesh() -> DeviceMesh:
    """Return the mesh of the innermost `with` statement.

    Raises:
        RuntimeError: there is none.
    """
    if not _entered.stack:
        raise RuntimeError("No device mesh is currently active!")
    return _entered.stack[-1]


class DeviceMesh:
    """Processes in an array (`torch.distributed.device_mesh.DeviceMesh`).

    Along each dimension, the processes that differ in it alone are a group. All processes of the world make the mesh,
    with the same arguments. The world's group is made from the environment if there is none. In a `with` statement it
    is the mesh of functions that are given none.

    Args:
        device_type: the type of device of the tensors, without a number.
        mesh: the numbers in the world of the processes.
        mesh_dim_names: a name for each dimension.
        backend_override: a backend for each dimension; None for the world's.

    Raises:
        RuntimeError: there are more processes in it than in the world.
        ValueError: a process stands in it twice.

    Example:
        >>> import triten as tt
        >>> from triten import distributed as dist
        >>> from triten.distributed.backends.fake import FakeStore
        >>> dist.init_process_group("fake", store=FakeStore(), rank=5, world_size=8)
        >>> mesh = dist.DeviceMesh("cpu", [[0, 1, 2, 3], [4, 5, 6, 7]], mesh_dim_names=("dp", "tp"))
        >>> mesh, mesh["tp"].mesh, mesh.get_coordinate()
        (DeviceMesh((dp=2, tp=4), 'cpu', stride=(4, 1)), tensor([4, 5, 6, 7], dtype=triten.int32), (1, 1))
        >>> dist.get_process_group_ranks(mesh.get_group("dp"))
        [1, 5]
        >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        device_type: str,
        mesh: Any = None,
        *,
        mesh_dim_names: Sequence[str] | None = None,
        backend_override: Sequence[str | None] | None = None,
        _init_backend: bool = True,
        _rank: int | None = None,
        _layout: Layout | None = None,
        _rank_map: tuple[int, ...] | None = None,
        _root_mesh: DeviceMesh | None = None,
    ) -> None:
        if _layout is None or _rank_map is None:
            if mesh is None:
                raise TypeError("DeviceMesh: the mesh argument is required")
            shape, _rank_map = shape_and_ranks(mesh)
            _layout = contiguous(shape)
        if len(set(_rank_map)) != len(_rank_map):
            raise ValueError(f"DeviceMesh: expected each rank once in mesh, but got {list(_rank_map)}")
        self._device_type = device_type
        self._layout = _layout
        self._rank_map = _rank_map
        self._mesh_dim_names = tuple(mesh_dim_names) if mesh_dim_names else None
        self._root_mesh = _root_mesh
        self._flatten_mapping: dict[str, DeviceMesh] = {}
        self._shape = tuple(map(mesh_layout.length, _layout))
        self._groups: list[ProcessGroup] | None = None
        self._key = (_rank_map, _layout, device_type, self._mesh_dim_names)
        self._hash = hash(self._key)
        if _init_backend:
            set_up_world(device_type, self.size())
            backends = (None,) * len(_layout) if backend_override is None else backend_override
            self._groups = make_groups(_layout, _rank_map, self._mesh_dim_names, backends)
        self._rank = get_rank() if _rank is None else _rank
        self._position = _rank_map.index(self._rank) if self._rank in _rank_map else None
        self._coordinate = self._find_coordinate()

    def _find_coordinate(self) -> tuple[int, ...] | None:
        if self._position is None:
            return None
        return tuple(mesh_layout.coordinate(dimension, self._position) for dimension in self._layout)

    @property
    def device_type(self) -> str:
        """The type of device of its tensors."""
        return self._device_type

    @property
    def mesh(self) -> Tensor:
        """The numbers in the world of its processes, of dtype int32.

        Raises:
            RuntimeError: it is a part of a mesh in which this process is not.
        """
        from ..dispatch.tensor_data import tensor
        from ..runtime.device import device
        from ..runtime.scalar_type import int32

        with device("cpu"):
            return tensor(self._ranks(), dtype=int32).view(self._shape)

    def _ranks(self) -> list[int]:
        offsets = mesh_layout.offsets(self._layout)
        base = 0
        if len(offsets) != len(self._rank_map):
            if self._position is None or self._coordinate is None:
                raise RuntimeError(
                    "In order to get the mesh Tensor of a DeviceMesh it needs to either have all its original "
                    "dimensions (e.g., no slicing) or it needs to contain the local rank"
                )
            own = 0
            for coordinate, size in zip(self._coordinate, self._shape, strict=True):
                own = own * size + coordinate
            base = self._position - offsets[own]
        return [self._rank_map[base + offset] for offset in offsets]

    @property
    def mesh_dim_names(self) -> Names | None:
        """The names of its dimensions, if they have any."""
        return self._mesh_dim_names

    @property
    def ndim(self) -> int:
        """The number of its dimensions."""
        return len(self._shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of its dimensions."""
        return self._shape

    def size(self, mesh_dim: int | None = None) -> int:
        """Return the number of ranks of the mesh, or along one dimension."""
        return prod(self._shape) if mesh_dim is None else self._shape[mesh_dim]

    def get_rank(self) -> int:
        """Return this process's rank in the world."""
        return get_rank()

    def get_coordinate(self) -> tuple[int, ...] | None:
        """Return this rank's coordinate in the mesh; None if the rank is not in the mesh."""
        return self._coordinate

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """Return this rank's index along a dimension.

        Args:
            mesh_dim: Index or name of the dimension. Optional if the mesh has only one dimension.

        Raises:
            RuntimeError: nothing is said, and there are several; or this process is not in the mesh.
            KeyError: there is no dimension of the name.
        """
        return self.get_group(self._said(mesh_dim)).rank()

    def _said(self, mesh_dim: int | str | None) -> int | str:
        if mesh_dim is None and self.ndim > 1:
            raise RuntimeError(
                f"Found the DeviceMesh have {self.ndim} dimensions. Optional kwarg `mesh_dim` needs to be specified "
                "when device_mesh.ndim > 1."
            )
        return 0 if mesh_dim is None else mesh_dim

    def get_group(self, mesh_dim: int | str | None = None) -> ProcessGroup:
        """Return this process's group along a dimension.

        Args:
            mesh_dim: Index or name of the dimension. Optional if the mesh has only one dimension.

        Raises:
            RuntimeError: nothing is said, and there are several; or this process is not in the mesh.
            KeyError: there is no dimension of the name.
        """
        chosen = self._said(mesh_dim)
        flat = self._get_root_mesh()._flatten_mapping.get(chosen) if isinstance(chosen, str) else None
        if flat is not None:
            return flat.get_group()
        if isinstance(chosen, str):
            chosen = self._get_mesh_dim_by_name(chosen)
        if self._groups is None:
            raise RuntimeError("DeviceMesh process groups not initialized!")
        if not self._groups:
            raise RuntimeError(f"rank {self._rank} is not in {self!r}, and has no group of it")
        return self._groups[chosen]

    def get_all_groups(self) -> list[ProcessGroup]:
        """Return this process's groups along all dimensions."""
        return [self.get_group(dim) for dim in range(self.ndim)]

    @property
    def _dim_group_names(self) -> list[str]:
        return [group.group_name for group in self._groups or ()]

    def _is_current_rank_part_of_mesh(self) -> bool:
        return self._coordinate is not None

    def _get_root_mesh(self) -> DeviceMesh:
        return self._root_mesh or self

    def _get_mesh_dim_by_name(self, mesh_dim_name: str) -> int:
        if not self._mesh_dim_names:
            raise KeyError("No `mesh_dim_names` found.")
        if mesh_dim_name not in self._mesh_dim_names:
            raise KeyError(
                f"Mesh dimension '{mesh_dim_name}' does not exist. Available mesh dimensions are: "
                f"mesh_dim_names={self._mesh_dim_names}"
            )
        return self._mesh_dim_names.index(mesh_dim_name)

    def _get_root_mesh_dim(self) -> int | None:
        """Return the index of this one-dimensional mesh's dimension in its root mesh."""
        if not self._mesh_dim_names:
            return None
        (name,) = self._mesh_dim_names
        return self._get_root_mesh()._get_mesh_dim_by_name(name)

    def __getitem__(self, mesh_dim_names: str | Names) -> DeviceMesh:
        """Return the submesh of the given dimensions that contains this rank.

        Args:
            mesh_dim_names: Names of dimensions, in the mesh's order. Names of flattened dimensions are
                allowed.

        Raises:
            RuntimeError: the dimensions have no names, or two of them are of the same processes.
            KeyError: there is no dimension of a name, or the order is another.
        """
        if not self._mesh_dim_names:
            raise RuntimeError("Cannot slice a DeviceMesh without mesh_dim_names!")
        names = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        if names == self._mesh_dim_names:
            return self
        flat = self._flatten_mapping if self._root_mesh is None else {}
        valid = [*self._mesh_dim_names, *flat]
        if not set(names) <= set(valid):
            raise KeyError(f"Invalid mesh_dim_names {names} specified. Valid mesh_dim_names are {valid}.")
        dimensions, groups = [], []
        for name in names:
            source = self if name in self._mesh_dim_names else flat[name]
            dim = source._get_mesh_dim_by_name(name)
            dimensions.append(source._layout[dim])
            groups += (source._groups or [])[dim : dim + 1]
        layout = tuple(dimensions)
        if mesh_layout.overlaps(layout):
            raise RuntimeError(f"Slicing overlapping dim_names {names} is not allowed.")
        if not mesh_layout.strides_ascend(layout):
            raise KeyError(
                f"Invalid mesh_dim_names {names} specified. Mesh dim indices should be in ascending order."
            )
        return self._part(layout, names, groups)

    def _part(self, layout: Layout, names: Names, groups: list[ProcessGroup] | None) -> DeviceMesh:
        root = self._get_root_mesh()
        made = DeviceMesh(
            self._device_type,
            _layout=layout,
            _rank_map=root._rank_map,
            mesh_dim_names=names,
            _root_mesh=root,
            _init_backend=False,
            _rank=self._rank,
        )
        made._groups = groups if self._groups is not None else None
        return made

    def _get_all_submeshes(self, mesh_dim_name: str) -> list[DeviceMesh]:
        """Return the meshes of all groups along a dimension."""
        dim = self._get_mesh_dim_by_name(mesh_dim_name)
        made = []
        for line in mesh_layout.lines(self._layout[dim], len(self._rank_map)):
            ranks = [self._rank_map[each] for each in line]
            mesh = DeviceMesh(self._device_type, ranks, mesh_dim_names=(mesh_dim_name,), _init_backend=False)
            mesh._groups = (self._groups or [])[dim : dim + 1] if self._rank in ranks else []
            made.append(mesh)
        return made

    def _flatten(self, mesh_dim_name: str | None = None, backend_override: str | None = None) -> DeviceMesh:
        """Flatten all dimensions to one, and register it in the root mesh under its name.

        Args:
            mesh_dim_name: Name of the flattened dimension. Default: the names of the dimensions, joined with
                ``_``.
            backend_override: Its backend. Default: the backend of the world group.

        Raises:
            RuntimeError: the dimensions have no names.
            ValueError: there is another dimension of the name.
        """
        if not self._mesh_dim_names:
            raise RuntimeError("Cannot flatten a DeviceMesh without mesh_dim_names!")
        name = mesh_dim_name or "_".join(self._mesh_dim_names)
        if self.ndim == 1 and name in self._mesh_dim_names:
            return self
        root = self._get_root_mesh()
        if name in (root._mesh_dim_names or ()):
            raise ValueError(
                f"{name} already exists for submesh of the {root}. The mesh_dim_names of submesh and flattened mesh "
                f"are {root._mesh_dim_names}. Please specify another valid mesh_dim_name."
            )
        layout = (flattened(self._layout),)
        known = root._flatten_mapping.get(name)
        if known is not None and known._layout != layout:
            raise ValueError(
                f"Flatten mesh with mesh_dim_name {name} has been created before, Please specify another valid "
                "mesh_dim_name."
            )
        if known is None:
            known = root._flatten_mapping[name] = DeviceMesh(
                self._device_type,
                _layout=layout,
                _rank_map=root._rank_map,
                mesh_dim_names=(name,),
                _root_mesh=root,
                backend_override=(backend_override,),
            )
        return known

    def _unflatten(
        self,
        dim: int | str,
        mesh_sizes: Sequence[int],
        mesh_dim_names: Sequence[str],
        backend_override: Mapping[int | str, str] | None = None,
    ) -> DeviceMesh:
        """Split one dimension into several.

        Args:
            dim: Index or name of the dimension.
            mesh_sizes: Sizes of the new dimensions.
            mesh_dim_names: Names of the new dimensions.
            backend_override: Backends of some of the new dimensions.

        Raises:
            ValueError: there is no such dimension, or the sizes' product is not its size.
        """
        if isinstance(dim, int) and dim >= self.ndim:
            raise ValueError(f"dim {dim} specified in `_unflatten` is out of range {self.ndim}")
        if isinstance(dim, str) and dim not in (self._mesh_dim_names or ()):
            raise ValueError(f"dim {dim} specified in `_unflatten` is not in {self._mesh_dim_names}")
        if len(mesh_sizes) != len(mesh_dim_names):
            raise RuntimeError("mesh_dim_names must have same length as mesh_sizes in _unflatten!")
        if not self._mesh_dim_names:
            raise RuntimeError("Cannot unflatten a DeviceMesh without mesh_dim_names!")
        dim_index = self._get_mesh_dim_by_name(dim) if isinstance(dim, str) else dim
        if prod(mesh_sizes) != self._shape[dim_index]:
            raise ValueError(
                f"The product of {mesh_sizes=} is {prod(mesh_sizes)}, but the original dimension at "
                f"dim={dim_index} has size {self._shape[dim_index]}. These must be equal for unflatten to work "
                "correctly."
            )
        names = tuple(mesh_dim_names)
        inner = mesh_layout.unflattened(self._layout[dim_index], mesh_sizes)
        groups = self._groups
        if groups is not None:
            backends = backends_of_dimensions(backend_override, len(inner), names)
            made = make_groups(inner, self._rank_map, names, backends)
            groups = [*groups[:dim_index], *made, *groups[dim_index + 1 :]]
        return self._part(
            (*self._layout[:dim_index], *inner, *self._layout[dim_index + 1 :]),
            (*self._mesh_dim_names[:dim_index], *names, *self._mesh_dim_names[dim_index + 1 :]),
            groups,
        )

    @staticmethod
    def _concatenate(device_mesh_list: Sequence[DeviceMesh]) -> DeviceMesh:
        """Concatenate the dimensions of several submeshes of one mesh."""
        first = device_mesh_list[0]
        if any(mesh._rank_map != first._rank_map for mesh in device_mesh_list):
            raise RuntimeError("Cannot concatenate DeviceMeshes derived from different device meshs")
        layout = tuple(dimension for mesh in device_mesh_list for dimension in mesh._layout)
        if mesh_layout.overlaps(layout):
            raise RuntimeError(f"Cannot concatenate overlapping meshes: {list(device_mesh_list)}")
        names = tuple(name for mesh in device_mesh_list for name in mesh._mesh_dim_names or ())
        groups = [group for mesh in device_mesh_list for group in mesh._groups or ()]
        return first._part(layout, names, groups)

    @staticmethod
    def from_group(
        group: ProcessGroup | Sequence[ProcessGroup],
        device_type: str,
        mesh: Any = None,
        *,
        mesh_dim_names: Sequence[str] | None = None,
    ) -> DeviceMesh:
        """Create a mesh from an existing group, or from one group per dimension.

        Args:
            group: The group, or the groups of all dimensions.
            device_type: Device type of the mesh.
            mesh: Global ranks of the mesh. Required for several groups.
            mesh_dim_names: Names of the dimensions. Required for several groups.

        Raises:
            ValueError: `mesh` has not the group's processes, or not as many dimensions as there are groups.
        """
        if isinstance(group, ProcessGroup):
            ranks = get_process_group_ranks(group)
            if mesh is not None and shape_and_ranks(mesh) != ((len(ranks),), tuple(ranks)):
                raise ValueError(f"Invalid mesh {mesh} for ProcessGroup with ranks {ranks}")
            made = DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names, _init_backend=False)
            made._groups = [group]
            return made
        groups = list(group)
        if not groups:
            raise ValueError("Expects at least one ProcessGroup to be passed")
        if mesh is None:
            raise ValueError("Must pass mesh if passing multiple ProcessGroups")
        if mesh_dim_names is None:
            raise ValueError("Must pass mesh_dim_names if passing multiple ProcessGroups")
        shape, _ = shape_and_ranks(mesh)
        if len(shape) != len(groups):
            raise ValueError(
                f"Expects mesh with ndim equal to number of ProcessGroups but got mesh {mesh} and {len(groups)} "
                "ProcessGroups"
            )
        made = DeviceMesh(device_type, mesh, mesh_dim_names=mesh_dim_names, _init_backend=False)
        made._groups = groups
        return made

    def __enter__(self) -> DeviceMesh:
        _entered.stack.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        _entered.stack.pop()

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, DeviceMesh) and self._hash == other._hash and self._key == other._key
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        names = self._mesh_dim_names
        sizes = (
            f"({', '.join(f'{name}={size}' for name, size in zip(names, self._shape, strict=True))})"
            if names
            else str(self._shape)
        )
        strides = tuple(each[0][1] if len(each) == 1 else tuple(s for _, s in each) for each in self._layout)
        detail = ""
        if os.environ.get("TORCH_DISTRIBUTED_DEBUG") == "DETAIL":
            detail = f", Mesh: {self.mesh.tolist()}"
        return f"DeviceMesh({sizes}, '{self._device_type}', stride={strides}{detail})"

    def __deepcopy__(self, memo: dict[int, Any]) -> DeviceMesh:
        return self  # nothing of it changes, and a copy would be of the same groups

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        del state["_hash"]  # of strings: another in each process
        state["_groups"] = None if self._groups is None else self._dim_group_names
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._hash = hash(self._key)
        names: list[Any] | None = state["_groups"]
        try:
            self._groups = None if names is None else [group_by_name(name) for name in names]
        except LookupError:
            warnings.warn(
                "a DeviceMesh was loaded whose process groups are not there: it has none until they are made",
                stacklevel=2,
            )
            self._groups = None
