"""A parameter of which each process keeps a shard."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from math import prod
from typing import TYPE_CHECKING, Any

from ...autograd import no_grad
from ...dispatch.generated import functions as ops
from ...dispatch.tensor import Tensor
from ...nn.modules.parameter import Parameter
from ...runtime.device import device as Device
from ...runtime.layout import strided
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.storage import FOLLOWERS
from ..device_mesh import DeviceMesh
from ..tensor import DTensor, Replicate, Shard
from ..tensor.spec import DTensorSpec, TensorMeta
from .policies import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy
from .sharding_mesh import ShardingMesh

if TYPE_CHECKING:
    from ...nn.modules.module import Module

__all__ = ["ParameterLocation", "ShardedParameter", "ShardedState"]

ShardPlacement = Callable[[Parameter], Any]


class ShardedState(Enum):
    """Which of its forms the module has a parameter in."""

    SHARDED = "sharded"
    SHARDED_POST_FORWARD = "sharded among fewer processes, between forward and backward"
    UNSHARDED = "unsharded"


@dataclass
class ParameterLocation:
    """Location of a parameter: a module's attribute, and others that share it."""

    module: Module
    name: str
    shared: list[tuple[Module, str]] = field(default_factory=list)

    def put(self, parameter: Parameter) -> None:
        """Replace the parameter in all modules that share it."""
        self.module._parameters[self.name] = parameter
        for module, name in self.shared:
            module._parameters[name] = parameter


class ShardedParameter:
    """Sharded parameter: its shard as a DTensor, and the whole parameter, allocated on demand.

    Shards along dimension 0 have as many rows as the first shard. The last shards may have fewer rows or
    none. They are padded with zeros in memory, so that they can be gathered without a copy.

    Args:
        parameter: The parameter.
        location: Modules and names under which the parameter is registered.
        sharding: Mesh over which it is sharded.
        device: Device of the computation.
        shard_placement_fn: Function that chooses the sharded dimension.
        offload_policy: Policy that chooses the shard's device.

    Raises:
        NotImplementedError: the parameter is not contiguous, or cannot be sharded so.
        ValueError: `shard_placement_fn` names a dimension that the parameter does not have.
    """

    def __init__(
        self,
        parameter: Parameter,
        location: ParameterLocation,
        sharding: ShardingMesh,
        device: Device,
        shard_placement_fn: ShardPlacement | None,
        offload_policy: OffloadPolicy,
    ) -> None:
        self.location = location
        self.sharding = sharding
        self.device = device
        self.state = ShardedState.SHARDED
        self.offloads = isinstance(offload_policy, CPUOffloadPolicy)
        self.pins = self.offloads and offload_policy.pin_memory and device.type == "cuda"  # type: ignore[attr-defined]
        self.name = location.name
        self.dtype = parameter.dtype
        self.policy = MixedPrecisionPolicy()
        self.param_dtype: ScalarType | None = None
        self.reduce_dtype: ScalarType | None = None
        self.unsharded: Parameter | None = None
        self.line: Tensor | None = None
        self.accumulated_grad: Tensor | None = None
        self.after_forward: Tensor | None = None
        self._seen: Tensor | None = None
        self._gathered: tuple[int, int] | None = None
        self.original_id = id(parameter)
        self._check(parameter)
        self.dim = self._dimension(parameter, shard_placement_fn)
        with no_grad():
            self._shard(parameter)
        self._reset = location.module.register_load_state_dict_post_hook(lambda *_: self.reset())

    def _check(self, parameter: Parameter) -> None:
        local = parameter._local_tensor if isinstance(parameter, DTensor) else parameter
        if parameter.layout is not strided or not local.is_contiguous():
            raise NotImplementedError(
                f"FSDP does not support non-contiguous parameters yet: {self.name} has shape {tuple(parameter.shape)} "
                f"and strides {parameter.stride()}"
            )

    def _dimension(self, parameter: Parameter, shard_placement_fn: ShardPlacement | None) -> int:
        placement = None if shard_placement_fn is None else shard_placement_fn(parameter)
        if placement is None:
            return 0
        if not isinstance(placement, Shard):
            raise ValueError(
                f"shard_placement_fn: expected a Shard or None for {self.name!r}, but got {placement!r}"
            )
        dim: int = placement.dim + parameter.ndim if placement.dim < 0 else placement.dim
        if not 0 <= dim < parameter.ndim:
            raise ValueError(
                f"shard_placement_fn: Shard dim {placement.dim} is invalid for {self.name!r}, which has shape "
                f"{tuple(parameter.shape)}"
            )
        shape = parameter._local_tensor.shape if isinstance(parameter, DTensor) else parameter.shape
        if dim and shape[dim] % self.sharding.shard_size:
            raise NotImplementedError(
                f"FSDP does not support uneven sharding on dim {dim}: {tuple(shape)} of {self.name!r} (world "
                f"size: {self.sharding.shard_size})"
            )
        return dim

    def _shard(self, parameter: Parameter) -> None:
        """Take this process's shard of the whole."""
        shards, rank = self.sharding.shard_size, self.sharding.shard_rank
        whole: Tensor = parameter.detach()
        self._place_in_mesh(parameter)
        if isinstance(whole, DTensor):
            whole = whole._local_tensor
        self.shape, self.strides = tuple(whole.shape), whole.stride()
        rows = self.shape[self.dim]
        width = -(-rows // shards)
        start = min(rank * width, rows)
        own = min(width, rows - start)
        self.padded_shape = _with(self.shape, self.dim, width)
        self.sharded_shape = _with(self.shape, self.dim, own)
        self.padded_numel = prod(self.padded_shape)
        padded = self._padded(whole.narrow(self.dim, start, own))
        self.sharded = Parameter(self.as_dtensor(self._take(padded)), parameter.requires_grad)
        self.location.put(self.sharded)

    def _place_in_mesh(self, parameter: Parameter) -> None:
        """Settle as what the shard is shown: of a tensor, or of this process's part of one."""
        mesh, placements = self.sharding.mesh, self.sharding.placements(Shard(self.dim))
        self.inner = parameter._dtensor_spec if isinstance(parameter, DTensor) else None
        self.shown_shape, self.shown_strides = tuple(parameter.shape), parameter.stride()
        if self.inner is not None:
            # A dimension is divided along the mesh's dimensions in their order: the part was before its shards.
            placements = (*self.inner.placements, *placements)
            mesh = DeviceMesh._concatenate([self.inner.mesh, mesh])
        self.sharding_spec = mesh, placements

    def _padded(self, data: Tensor) -> Tensor:
        """Return a padded copy of a shard, on its storage device."""
        if data.is_meta:
            return ops.empty(self.padded_shape, dtype=data.dtype, device=data.device)
        device = Device("cpu") if self.offloads else data.device
        padded: Tensor = ops.zeros(
            self.padded_shape, dtype=data.dtype, device=device, pin_memory=self.pins or None
        )
        padded.narrow(self.dim, 0, data.shape[self.dim]).copy_(data)
        return padded

    def _take(self, padded: Tensor) -> Tensor:
        """Keep the padded shard as a flat buffer for gathers, and return the shard as a view of it."""
        self.padded = padded.view(-1)
        return padded.narrow(self.dim, 0, self.sharded_shape[self.dim])

    def as_dtensor(self, local: Tensor) -> DTensor:
        """Wrap a shard, or a shard's gradient, as a DTensor."""
        mesh, placements = self.sharding_spec
        meta = TensorMeta(self.shown_shape, self.shown_strides, local.dtype)
        made: DTensor = DTensor(local, DTensorSpec(mesh, placements, meta, local.device))
        return made

    @property
    def local(self) -> Tensor:
        """The shard itself."""
        shard: Tensor = self.sharded._local_tensor  # type: ignore[attr-defined]
        return shard

    def reset(self) -> None:
        """Take what the module has now for the shard: after a move, a conversion, or a state that was assigned.

        Raises:
            TypeError: what the module has is no DTensor.
            ValueError: it is another process's shard, or of another size.
        """
        own: Any = self.location.module._parameters.get(self.location.name)
        if own is None or own is self.unsharded:
            return
        is_distributed: bool = isinstance(own, DTensor)
        if not is_distributed:
            raise TypeError(
                f"fully_shard: expected a DTensor as parameter {self.name!r}, but got {type(own).__name__}"
            )
        if own is not self.sharded:
            self.sharded = own
            self.location.put(self.sharded)
        self.choose_dtypes(self.policy)
        local = self.local
        if tuple(local.shape) != self.sharded_shape:
            raise ValueError(
                f"fully_shard: expected a shard of shape {self.sharded_shape} for parameter {self.name!r}, but got "
                f"{tuple(local.shape)}"
            )
        if local.is_meta:
            return
        padded = self.padded
        if (
            padded.dtype == local.dtype
            and padded.device == local.device
            and (local.numel() == 0 or local.data_ptr() == padded.data_ptr())
        ):
            return
        with no_grad():
            if self.sharded_shape == self.padded_shape and local.is_contiguous():
                self.padded = local.view(-1)
                return
            sharded: Any = self.sharded
            sharded._local_tensor = self._take(self._padded(local.detach()))

    def choose_dtypes(self, policy: MixedPrecisionPolicy) -> None:
        """Settle in which dtypes the parameter is gathered and its gradient reduced; None for what they have anyway."""
        self.policy, self.dtype = policy, self.sharded.dtype
        computed, reduced = policy.param_dtype, policy.reduce_dtype
        self.reduce_dtype = None if reduced == computed else reduced
        self.param_dtype = None if computed == self.dtype or not self.dtype.is_floating_point else computed
        if self.unsharded is not None and self.unsharded.dtype != self.gathered_dtype:
            self.unsharded = None

    @property
    def gathered_dtype(self) -> ScalarType:
        """The dtype of the whole."""
        return self.param_dtype or self.dtype

    def whole_over(self, content: Tensor) -> Parameter:
        """Return the parameter that the module computes with, and set its memory to `content`.

        Args:
            content: All elements of the parameter with the padding of shards, as a 1-D tensor.
        """
        self.line = content
        values = self._values()
        if self.unsharded is not None and self._gathered != values:
            # A graph that was recorded with the values before cannot go on with these.
            for tensor in (self.unsharded, self.bytes):
                if tensor is not None:
                    tensor.bump_version()
        self._gathered = values
        numel = prod(self.shape)
        piece = content.narrow(0, 0, numel).view(self.shape)
        if self.unsharded is None:
            # A tensor of its own, with a version of its own: what is gathered later are the same values.
            whole: Any = Tensor.from_data(piece._data, piece._spec)
            if self.inner is not None:
                meta = TensorMeta(self.shown_shape, self.shown_strides, piece.dtype)
                whole = DTensor(
                    whole, DTensorSpec(self.inner.mesh, self.inner.placements, meta, piece.device)
                )
            self.unsharded = Parameter(whole, self.sharded.requires_grad)
            vars(self.unsharded)[FOLLOWERS] = []
        else:
            own: Any = self.bytes
            own._data = piece._data
        return self.unsharded

    def _values(self) -> tuple[int, int]:
        """Return a key that changes on all ranks when a program writes or replaces the DTensor."""
        return id(self.sharded), self.sharded._version

    @property
    def is_stale(self) -> bool:
        """True if the shard has changed since the whole was gathered."""
        return self._gathered != self._values()

    @property
    def bytes(self) -> Tensor | None:
        """The tensor over the whole's bytes: the whole, or this process's part of it; None before the first."""
        return self.unsharded._local_tensor if isinstance(self.unsharded, DTensor) else self.unsharded

    @property
    def gathered_numel(self) -> int:
        """Number of elements that this rank contributes to a gather."""
        return self.padded_numel if self.after_forward is None else self.after_forward.numel()

    @property
    def given(self) -> Tensor:
        """Elements that this rank contributes to a gather."""
        if self.after_forward is not None:
            return self.after_forward
        # A module below may have been converted, or given another parameter.
        own: Any = self.location.module._parameters.get(self.location.name)
        if own is not self.sharded or self.local is not self._seen:
            self.reset()
            self._seen = self.local
        return self.padded

    # States

    def to_unsharded(self) -> None:
        """Have the module have the whole."""
        whole = self.unsharded
        assert whole is not None
        if whole.requires_grad != self.sharded.requires_grad:
            whole.requires_grad_(self.sharded.requires_grad)
        self.location.put(whole)
        self.after_forward = None
        self.state = ShardedState.UNSHARDED

    def to_sharded(self) -> None:
        """Have the module have the shard."""
        self.location.put(self.sharded)
        self.after_forward = self.line = None
        self.state = ShardedState.SHARDED

    def to_sharded_after_forward(self, sharding: ShardingMesh) -> None:
        """Have the module have a part of the whole, one of as many as a smaller mesh has processes.

        Raises:
            NotImplementedError: the parameter was a `DTensor` before.
        """
        if self.inner is not None:
            raise NotImplementedError(
                "Resharding to smaller mesh is not supported for DTensor parameters yet: "
                f"{self.name!r} has placements {self.inner.placements}"
            )
        whole, self.line = self.line, None
        assert whole is not None
        part = whole.numel() // sharding.shard_size
        begin = part * sharding.shard_rank
        self.after_forward = whole.narrow(0, begin, part).clone()
        rows, row = self.shape[0], prod(self.shape[1:])
        width = -(-rows // sharding.shard_size)
        start = min(width * sharding.shard_rank, rows)
        own = _with(self.shape, 0, min(width, rows - start))
        # The shard for the gather may begin at another offset than the DTensor's shard.
        is_same = start * row == begin and prod(own) <= part
        line = self.after_forward if is_same else whole.narrow(0, start * row, prod(own)).clone()
        local = line.narrow(0, 0, prod(own)).view(own)
        meta = TensorMeta(self.shape, self.strides, local.dtype)
        shown: Any = DTensor(local, DTensorSpec(sharding.mesh, (Replicate(), Shard(0)), meta, local.device))
        self.location.put(Parameter(shown, self.sharded.requires_grad))
        self.state = ShardedState.SHARDED_POST_FORWARD

    # Gradients

    def take_grad(self, zero_where_none: bool = False) -> Tensor | None:
        """Remove and return the gradient of the whole parameter; None if there is none."""
        grad: Any
        grad, self.accumulated_grad = self.accumulated_grad, None
        if grad is None and self.unsharded is not None:
            grad, self.unsharded.grad = self.unsharded.grad, None
            if grad is None and zero_where_none and self.unsharded.requires_grad:
                return ops.zeros(self.shape, dtype=self.gathered_dtype, device=self.device)
        if isinstance(grad, DTensor):
            assert self.inner is not None
            with no_grad():
                grad = grad.redistribute(placements=self.inner.placements)._local_tensor
        return grad  # type: ignore[no-any-return]

    def accumulate_grad(self) -> None:
        """Add the whole gradient to the unreduced gradients of earlier backwards."""
        if self.accumulated_grad is not None and self.unsharded is not None:
            grad, self.unsharded.grad = self.unsharded.grad, None
            if grad is not None:
                self.accumulated_grad += grad

    def keep_grad(self) -> None:
        """Keep the gradient of the whole for a later backward, in the dtype in which it will be reduced."""
        if self.reduce_dtype is None or self.unsharded is None or self.unsharded.grad is None:
            return
        if self.unsharded.grad.dtype != self.reduce_dtype:
            grad, self.unsharded.grad = self.unsharded.grad, None
            self.accumulated_grad = grad.to(self.reduce_dtype)

    def add_grad(self, reduced: Tensor) -> None:
        """Add what this process has of the reduced gradient to that of the shard, and call the hooks that wait for it.

        Args:
            reduced: the elements of the shard with padding, in one line.
        """
        local = reduced.view(self.padded_shape).narrow(self.dim, 0, self.sharded_shape[self.dim])
        if self.offloads and local.device.type != "cpu":
            local = local.cpu()
        present: Any = self.sharded.grad
        if present is None:
            self.sharded.grad = self.as_dtensor(local)
        else:
            present._local_tensor += local
        meta = self.sharded._autograd
        node = None if meta is None or meta.edge is None else meta.edge[0]
        if node is not None and node.hooks is not None:
            for hook in [*node.hooks.accumulated.values()]:
                hook(self.sharded)


def _with(shape: tuple[int, ...], dim: int, size: int) -> tuple[int, ...]:
    return (*shape[:dim], size, *shape[dim + 1 :])
