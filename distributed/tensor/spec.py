"""`DTensorSpec`: all that is known of a distributed tensor without its elements."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

from ...dispatch.layers.python_key import keys_of
from ...runtime.device import device as Device
from ...runtime.memory_format import contiguous_strides
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.tensor_spec import TensorSpec
from ..mesh import DeviceMesh
from .placements import Partial, Placement, Replicate, Shard, StridedShard
from .shards import compute_local_shape

__all__ = ["DTensorSpec", "TensorMeta", "normalized_placements"]


class TensorMeta(NamedTuple):
    """The whole tensor's shape, strides and dtype."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: ScalarType


class DTensorSpec:
    """Metadata of a distributed tensor (`torch.distributed.tensor._dtensor_spec.DTensorSpec`).

    Args:
        mesh: The mesh.
        placements: Placement along each mesh dimension.
        tensor_meta: Global shape, strides and dtype.
        device: Device of this rank's part.
    """

    __slots__ = ("_hash", "_impl", "_key", "device", "local_shape", "mesh", "placements", "tensor_meta")

    def __init__(
        self,
        mesh: DeviceMesh,
        placements: Sequence[Placement],
        tensor_meta: TensorMeta,
        device: Device | None = None,
    ) -> None:
        self.mesh = mesh
        self.placements = tuple(placements)
        self.tensor_meta = TensorMeta(tuple(tensor_meta[0]), tuple(tensor_meta[1]), tensor_meta[2])
        self.device = Device(mesh.device_type) if device is None else device
        self._key = (mesh, self.placements, self.tensor_meta, self.device)
        self._hash = hash(self._key)
        self.local_shape = compute_local_shape(self.tensor_meta.shape, mesh, self.placements)
        self._impl: TensorSpec | None = None

    @property
    def device_mesh(self) -> DeviceMesh:
        """The processes."""
        return self.mesh

    @property
    def shape(self) -> tuple[int, ...]:
        """The whole tensor's."""
        return self.tensor_meta.shape

    @property
    def stride(self) -> tuple[int, ...]:
        """The whole tensor's."""
        return self.tensor_meta.stride

    @property
    def ndim(self) -> int:
        """The tensor's number of dimensions."""
        return len(self.tensor_meta.shape)

    @property
    def num_shards(self) -> int:
        """Number of shards."""
        return prod(
            self.mesh.size(mesh_dim)
            for mesh_dim, each in enumerate(self.placements)
            if isinstance(each, Shard)
        )

    @property
    def nbytes(self) -> int:
        """Bytes of this process's part."""
        return prod(self.local_shape) * self.tensor_meta.dtype.itemsize

    def placed(self, placements: Sequence[Placement]) -> DTensorSpec:
        """Return the same spec with other placements."""
        return DTensorSpec(self.mesh, placements, self.tensor_meta, self.device)

    def is_replicated(self) -> bool:
        """Return True if each rank has the whole tensor."""
        return all(isinstance(each, Replicate) for each in self.placements)

    def impl(self, cls: type) -> TensorSpec:
        """Return the tensor spec for a tensor class."""
        if self._impl is None:
            meta = self.tensor_meta
            self._impl = TensorSpec.of(meta.shape, meta.stride, meta.dtype, self.device, keys=keys_of(cls))
        return self._impl

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, DTensorSpec) and self._hash == other._hash and self._key == other._key
        )

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return DTensorSpec, self._key

    def __repr__(self) -> str:
        return f"DTensorSpec({self} on {self.mesh})"

    def __str__(self) -> str:
        placements = "".join(map(str, self.placements))
        return f"Spec({self.tensor_meta.dtype} {placements}{list(self.shape)})"


def normalized_placements(
    placements: Sequence[Placement] | None, mesh: DeviceMesh, ndim: int, name: str
) -> tuple[Placement, ...]:
    """Return a placement for each mesh dimension, whose tensor dimension is not negative. Default: Replicate.

    Raises:
        ValueError: there are not as many as mesh dimensions, or reductions differ.
        IndexError: the tensor has no such dimension.
        TypeError: something else stands among them.
        NotImplementedError: A placement is a `StridedShard`.
    """
    if placements is None:
        return (Replicate(),) * mesh.ndim
    if len(placements) != mesh.ndim:
        raise ValueError(
            f"{name}: `placements` must have the same length as `device_mesh.ndim`! Found placements length: "
            f"{len(placements)}, and device_mesh.ndim: {mesh.ndim}."
        )
    made: list[Placement] = []
    for each in placements:
        if isinstance(each, Shard):
            if not -ndim <= each.dim < ndim:
                raise IndexError(
                    f"{name}: expected a sharded dimension from {-ndim} to {ndim - 1}, but got {each.dim} of a tensor "
                    f"of {ndim} dimensions"
                )
            made.append(Shard(each.dim % ndim))
        elif isinstance(each, StridedShard):
            raise NotImplementedError(
                f"{name}: a DTensor cannot have the placement {each!r}; expected Shard, Replicate or Partial"
            )
        elif isinstance(each, Placement):
            made.append(each)
        else:
            raise TypeError(f"{name}: expected Placements, but got {type(each).__name__}")
    reductions = {each for each in made if isinstance(each, Partial)}
    if len(reductions) > 1:
        raise ValueError(f"{name}: expected one reduction in all Partial placements, but got {placements}")
    return tuple(made)


def global_shape_and_stride(
    shape: Sequence[int], stride: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Compute the global shape and strides from those of a part, if all parts have the same size."""
    sizes, strides = list(shape), list(stride)
    for mesh_dim, placement in enumerate(placements):
        if isinstance(placement, Shard):
            dim, count = placement.dim, mesh.size(mesh_dim)
            strides = [
                each * count
                if other_dim != dim and each >= strides[dim] and (each, -other_dim) > (strides[dim], -dim)
                else each
                for other_dim, each in enumerate(strides)
            ]
            sizes[dim] *= count
    return tuple(sizes), tuple(strides)


def contiguous_meta(shape: Sequence[int], dtype: ScalarType) -> TensorMeta:
    """Return the metadata of a contiguous tensor."""
    return TensorMeta(tuple(shape), contiguous_strides(tuple(shape)), dtype)
