"""Factory functions of distributed tensors (`torch.distributed.tensor.zeros` and similar functions)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...dispatch.generated import functions as ops
from ...dispatch.tensor import Tensor
from ...runtime.device import device as Device
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.scalar_type import get_default_dtype
from ..mesh import DeviceMesh, current_mesh
from .draws import drawn_part
from .dtensor import DTensor
from .placements import Partial, Placement
from .spec import DTensorSpec, contiguous_meta, normalized_placements

__all__ = ["empty", "full", "ones", "rand", "randn", "zeros"]


def _made(
    name: str,
    fill: Callable[[Tensor, DTensorSpec], Tensor],
    size: Sequence[Any],
    dtype: ScalarType | None,
    requires_grad: bool,
    device_mesh: DeviceMesh | None,
    placements: Sequence[Placement] | None,
) -> DTensor:
    shape = tuple(size[0]) if len(size) == 1 and isinstance(size[0], Sequence) else tuple(size)
    mesh = device_mesh or current_mesh()
    chosen = normalized_placements(placements, mesh, len(shape), name)
    if any(isinstance(each, Partial) for each in chosen):
        raise ValueError(f"{name}: expected Shard or Replicate placements, but got {placements}")
    meta = contiguous_meta(shape, dtype or get_default_dtype())
    device = Device(mesh.device_type)
    local = ops.empty(0, dtype=meta.dtype, device=device)
    spec = DTensorSpec(mesh, chosen, meta, local.device)
    part = ops.empty(spec.local_shape, dtype=meta.dtype, device=device)
    return DTensor(fill(part, spec), spec, requires_grad=requires_grad)


def empty(
    *size: Any,
    dtype: ScalarType | None = None,
    layout: Any = None,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """Create an uninitialized distributed tensor (`torch.distributed.tensor.empty`).

    Args:
        size: Global shape, as integers or one sequence.
        dtype: The dtype. Default: the default dtype.
        layout: Ignored; accepted for compatibility with PyTorch.
        requires_grad: If True, record gradients. Default: False.
        device_mesh: The mesh. Default: the current mesh.
        placements: Placement along each mesh dimension. Default: replicated.

    Raises:
        ValueError: there are not as many placements as dimensions of the mesh, or a `Partial` one.
    """
    return _made("empty", lambda part, spec: part, size, dtype, requires_grad, device_mesh, placements)


def full(
    size: Sequence[int],
    fill_value: Any,
    *,
    dtype: ScalarType | None = None,
    layout: Any = None,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """Create a distributed tensor filled with one value (`torch.distributed.tensor.full`).

    Args:
        size: Global shape.
        fill_value: The value.
        dtype, layout, requires_grad, device_mesh, placements: As for `empty`. The default dtype is that of
            the value.
    """
    kind = dtype or ops.full((), fill_value).dtype
    fill = lambda part, spec: part.fill_(fill_value)  # noqa: E731
    return _made("full", fill, (tuple(size),), kind, requires_grad, device_mesh, placements)


def ones(
    *size: Any,
    dtype: ScalarType | None = None,
    layout: Any = None,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """Create a distributed tensor of ones (`torch.distributed.tensor.ones`); arguments as for `empty`."""
    return _made(
        "ones", lambda part, spec: part.fill_(1), size, dtype, requires_grad, device_mesh, placements
    )


def zeros(
    *size: Any,
    dtype: ScalarType | None = None,
    layout: Any = None,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """Create a distributed tensor of zeros (`torch.distributed.tensor.zeros`); arguments as for `empty`.

    Example:
        >>> from triten import distributed as dist
        >>> from triten.distributed.backends.fake import FakeStore
        >>> from triten.distributed.tensor import Shard, zeros
        >>> dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
        >>> x = zeros(10, 3, device_mesh=dist.init_device_mesh("cpu", (4,)), placements=[Shard(0)])
        >>> x.shape, x.to_local().shape
        (triten.Size([10, 3]), triten.Size([3, 3]))
        >>> dist.destroy_process_group()
    """
    return _made(
        "zeros", lambda part, spec: part.zero_(), size, dtype, requires_grad, device_mesh, placements
    )


def rand(
    *size: Any,
    requires_grad: bool = False,
    dtype: ScalarType | None = None,
    layout: Any = None,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """Create a uniformly random distributed tensor (`torch.distributed.tensor.rand`); arguments as for
    `empty`.

    The values equal those of `tt.rand` with the same seed, for any placements. All ranks need the same seed.
    """
    fill = lambda part, spec: drawn_part(ops.rand_like, part, spec)  # noqa: E731
    return _made("rand", fill, size, dtype, requires_grad, device_mesh, placements)


def randn(
    *size: Any,
    requires_grad: bool = False,
    dtype: ScalarType | None = None,
    layout: Any = None,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """Create a normally distributed random tensor (`torch.distributed.tensor.randn`); arguments as for
    `rand`.
    """
    fill = lambda part, spec: drawn_part(ops.randn_like, part, spec)  # noqa: E731
    return _made("randn", fill, size, dtype, requires_grad, device_mesh, placements)
