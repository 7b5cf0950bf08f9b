"""Tensors and modules that are there already, distributed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...autograd import no_grad
from ...dispatch.tensor import Tensor
from .. import collectives
from ..mesh import DeviceMesh, current_mesh
from .dtensor import DTensor
from .placements import REPLICATE, Partial, Placement
from .redistribute import redistribute_local_tensor
from .spec import DTensorSpec, contiguous_meta, normalized_placements

if TYPE_CHECKING:
    from ...nn import Module

__all__ = ["distribute_module", "distribute_tensor"]


def distribute_tensor(
    tensor: Tensor,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> DTensor:
    """Distribute a tensor, and return a leaf (`torch.distributed.tensor.distribute_tensor`).

    Args:
        tensor: The whole tensor.
        device_mesh: The mesh. Default: the current mesh.
        placements: Placement along each mesh dimension. Default: replicated.
        src_data_rank: Rank along each mesh dimension whose tensor is distributed. Default: 0. None uses each
            rank's own tensor without communication; the tensors must all be the same.

    Raises:
        RuntimeError: the tensor has a history, or a placement is `Partial`.
        ValueError: it is a `DTensor` that lies otherwise, or there are not as many placements as mesh
            dimensions.

    Example:
        >>> import triten as tt
        >>> from triten import distributed as dist
        >>> from triten.distributed.tensor import Shard, distribute_tensor
        >>> dist.init_process_group("mpi", store=dist.HashStore(), rank=0, world_size=1)
        >>> mesh = dist.init_device_mesh("cpu", (1,))
        >>> distribute_tensor(tt.arange(3), mesh, [Shard(0)])  # doctest: +ELLIPSIS
        DTensor(local_tensor=tensor([0, 1, 2]), device_mesh=DeviceMesh((1,), 'cpu', ...), placements=(Shard(dim=0),))
        >>> dist.destroy_process_group()
    """
    mesh = device_mesh or current_mesh()
    if not tensor.is_leaf:
        raise RuntimeError(
            "`distribute_tensor` should be used to distribute leaf tensors! but found non-leaf tensor!"
        )
    if tensor.device.type != mesh.device_type and not tensor.is_meta:
        tensor = tensor.to(mesh.device_type)
    chosen = normalized_placements(placements, mesh, tensor.ndim, "distribute_tensor")
    if isinstance(tensor, DTensor):
        if tensor.device_mesh != mesh:
            raise ValueError(
                f"Cannot distribute a DTensor with device mesh {tensor.device_mesh} to a different device mesh {mesh}."
            )
        if tensor.placements != chosen:
            raise ValueError(
                f"Cannot distribute a DTensor with placements {tensor.placements} to a different placements {chosen}. "
                "do you want to call `redistribute` instead?"
            )
        return tensor
    for mesh_dim, placement in enumerate(chosen):
        if isinstance(placement, Partial):
            raise RuntimeError(
                f"Trying to distribute tensor with unsupported placements {placement} on device mesh dimension "
                f"{mesh_dim}!"
            )
    requires_grad = tensor.requires_grad
    with no_grad():
        local = tensor.detach()
        if src_data_rank is not None and not local.is_meta and mesh.get_coordinate() is not None:
            local = _sent(local, mesh, src_data_rank)
        meta = contiguous_meta(tuple(tensor.shape), tensor.dtype)
        source = DTensorSpec(mesh, [REPLICATE] * mesh.ndim, meta, local.device)
        spec = source.placed(chosen)
        part = redistribute_local_tensor(local, source, spec)
        if mesh.get_coordinate() is None:
            part = local.new_empty(0)
    return DTensor(part.contiguous(), spec, requires_grad=requires_grad)


def _sent(local: Tensor, mesh: DeviceMesh, source: int) -> Tensor:
    """Broadcast the source rank's tensor along each mesh dimension in turn."""
    if mesh.size() == 1:
        return local
    whole = local.clone().contiguous()
    for mesh_dim in range(mesh.ndim):
        if mesh.size(mesh_dim) > 1:
            collectives.broadcast(whole, group=mesh.get_group(mesh_dim), group_src=source)
    return whole


Partition = Callable[[str, Any, DeviceMesh], None]


def distribute_module(
    module: Module,
    device_mesh: DeviceMesh | None = None,
    partition_fn: Partition | None = None,
    input_fn: Callable[..., Any] | None = None,
    output_fn: Callable[..., Any] | None = None,
) -> Module:
    """Distribute the parameters and buffers of a module (`torch.distributed.tensor.distribute_module`).

    Args:
        module: The module, which is modified.
        device_mesh: The mesh. Default: the current mesh.
        partition_fn: Function of a submodule's name, the submodule and the mesh, which distributes some of
            its parameters. The other parameters are replicated.
        input_fn: Function of the module, its positional arguments and the mesh, which returns new arguments.
        output_fn: Function of the module, its result and the mesh, which returns a new result.

    Raises:
        RuntimeError: the module has been distributed before.
    """
    from ...nn import Parameter

    mesh = device_mesh or current_mesh()
    if getattr(module, "_distribute_module_applied", False):
        raise RuntimeError(
            "distribute_module should only be called once on a module, but it has already been called on this module!"
        )
    for name, each in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, each, mesh)
        for key, parameter in list(each._parameters.items()):
            if parameter is not None and not isinstance(parameter, DTensor):
                made = distribute_tensor(parameter.detach(), mesh)
                each.register_parameter(key, Parameter(made, parameter.requires_grad))
        for key, buffer in list(each._buffers.items()):
            if buffer is not None and not isinstance(buffer, DTensor):
                each._buffers[key] = distribute_tensor(buffer, mesh)
    if input_fn is not None:
        module.register_forward_pre_hook(lambda own, inputs: input_fn(own, inputs, mesh))
    if output_fn is not None:
        module.register_forward_hook(lambda own, inputs, output: output_fn(own, output, mesh))
    module._distribute_module_applied = True
    return module
