"""`fully_shard`: each process keeps a shard of a module's parameters, and has the whole only where it computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, overload

from ...dispatch.tensor import Tensor
from ...nn.modules.container import ModuleDict, ModuleList
from ...nn.modules.module import Module
from ...nn.modules.parameter import Parameter
from ...runtime.device import device as Device
from .fsdp_module import FSDPModule, become_fsdp_module
from .module_state import ModuleState, state_of
from .parameter_group import ParameterGroup
from .policies import MixedPrecisionPolicy, OffloadPolicy
from .sharding_mesh import ShardingMesh, default_mesh, device_of, mesh_after_forward

if TYPE_CHECKING:
    from ..device_mesh import DeviceMesh

__all__ = ["fully_shard"]

OWN_PRECISION = MixedPrecisionPolicy()
NO_OFFLOAD = OffloadPolicy()


@overload
def fully_shard(
    module: Module,
    *,
    mesh: DeviceMesh | None = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Callable[[Parameter], Any] | None = None,
    mp_policy: MixedPrecisionPolicy = ...,
    offload_policy: OffloadPolicy = ...,
    ignored_params: set[Parameter] | None = None,
) -> FSDPModule: ...
@overload
def fully_shard(
    module: list[Module],
    *,
    mesh: DeviceMesh | None = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Callable[[Parameter], Any] | None = None,
    mp_policy: MixedPrecisionPolicy = ...,
    offload_policy: OffloadPolicy = ...,
    ignored_params: set[Parameter] | None = None,
) -> list[FSDPModule]: ...
def fully_shard(
    module: Any,
    *,
    mesh: DeviceMesh | None = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Callable[[Parameter], Any] | None = None,
    mp_policy: MixedPrecisionPolicy = OWN_PRECISION,
    offload_policy: OffloadPolicy = NO_OFFLOAD,
    ignored_params: set[Parameter] | None = None,
) -> Any:
    """Shard a module's parameters, gradients and optimizer states among processes
    (`torch.distributed.fsdp.fully_shard`).

    The parameters become DTensors of which each process has a shard. Forward gathers the whole ones in one
    communication and frees them after; backward gathers them again, and reduces the gradients to the shards. Those of
    modules below that `fully_shard` was applied to before are left to them: apply it to the layers first, then to the
    whole. The module gets the methods of `FSDPModule`. Make the optimizer after.

    Args:
        module: the module, or several whose parameters are to be one group.
        mesh: the processes: of one dimension, or of two with names, along whose first the shards are repeated; all if
            nothing is said.
        reshard_after_forward: whether the whole parameters are freed after forward; a number shards them among so many
            processes until backward. If nothing is said they are, but not those of the root.
        shard_placement_fn: gives the `Shard` of a parameter; None for that of the first dimension.
        mp_policy: the dtypes of computation and communication.
        offload_policy: where the shards lie.
        ignored_params: parameters that stay as they are, and whose gradients are left to the caller.

    Returns:
        The module, or the modules.

    Raises:
        ValueError: the module is a container without forward, has been sharded already, has parameters without
            dimensions; or the mesh has more than two dimensions.
        NotImplementedError: a parameter is not contiguous, or a dimension but the first cannot be divided evenly.

    Example:
        >>> import triten as tt
        >>> from triten import distributed as dist
        >>> from triten.distributed.fsdp import fully_shard
        >>> dist.init_process_group("mpi", store=dist.HashStore(), rank=0, world_size=1)
        >>> model = tt.nn.Sequential(tt.nn.Linear(4, 8), tt.nn.ReLU(), tt.nn.Linear(8, 2))
        >>> mesh = dist.init_device_mesh("cpu", (1,))
        >>> for layer in (model[0], model[2]):
        ...     _ = fully_shard(layer, mesh=mesh)
        >>> type(fully_shard(model, mesh=mesh)).__name__
        'FSDPSequential'
        >>> optimizer = tt.optim.SGD(model.parameters(), lr=0.1)
        >>> model(tt.ones(3, 4)).sum().backward()
        >>> optimizer.step()
        >>> model[0].weight.placements
        (Shard(dim=0),)
        >>> dist.destroy_process_group()
    """
    modules: list[Module] = list(module) if isinstance(module, (list, tuple)) else [module]
    if not modules:
        raise ValueError("fully_shard: expected at least one module, but got an empty list")
    for each in modules:
        if not isinstance(each, Module):
            raise TypeError(f"fully_shard: expected a Module, but got {type(each).__name__}")
        if isinstance(each, (ModuleList, ModuleDict)):
            raise ValueError(f"fully_shard does not support containers that do not implement forward: {each}")
        if state_of(each) is not None:
            raise ValueError(f"fully_shard has already been applied to {type(each).__name__}")
    mesh = default_mesh() if mesh is None else mesh
    if mesh.ndim == 2 and mesh.mesh_dim_names is None:
        raise ValueError("Please init the 2D mesh for HSDP with mesh_dim_names specified")
    sharding = ShardingMesh(mesh)
    device = device_of(mesh)
    after_forward = mesh_after_forward(
        True if reshard_after_forward is None else reshard_after_forward, sharding
    )
    parameters = _own_parameters(modules, device, ignored_params or set())
    state = ModuleState(modules, device, mp_policy, reshard_after_forward is None)
    if parameters:
        state.group = ParameterGroup(
            parameters,
            modules,
            sharding,
            after_forward,
            device,
            shard_placement_fn,
            mp_policy,
            offload_policy,
        )
    for each in modules:
        become_fsdp_module(each)
    return module


fully_shard.state = state_of  # type: ignore[attr-defined]


def _own_parameters(modules: Sequence[Module], device: Device, ignored: set[Parameter]) -> list[Parameter]:
    """Move the parameters that no submodule has claimed to the device, and return them.

    Raises:
        ValueError: one has no dimensions.
    """
    ignored_ids = {id(each) for each in ignored}
    parameters: dict[int, Parameter] = {}
    for module, prefix in _own_modules(modules):
        for name, parameter in module._parameters.items():
            if parameter is None or id(parameter) in ignored_ids:
                continue
            if parameter.ndim == 0:
                raise ValueError(
                    "fully_shard doesn't support scalar parameters. Change "
                    f"{prefix}{name} to a 1D tensor with numel equal to 1."
                )
            parameters[id(parameter)] = parameter
            _move(parameter, device)
        for buffer in module._buffers.values():
            if buffer is not None:
                _move(buffer, device)
    return [*parameters.values()]


def _own_modules(modules: Sequence[Module]) -> list[tuple[Module, str]]:
    """Return the modules and their submodules that are not yet sharded, with name prefixes."""
    own: dict[int, tuple[Module, str]] = {}
    pending = [(module, "") for module in reversed(modules)]
    while pending:
        module, prefix = pending.pop()
        if id(module) in own:
            continue
        own[id(module)] = module, prefix
        pending += [
            (child, f"{prefix}{name}.")
            for name, child in reversed([*module.named_children()])
            if state_of(child) is None
        ]
    return [*own.values()]


def _move(tensor: Tensor, device: Device) -> None:
    if tensor.device != device and tensor.device.type != "meta":
        tensor.data = tensor.detach().to(device)
