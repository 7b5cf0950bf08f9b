"""`DTensor`: a tensor of which each process has a part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...autograd import Function
from ...dispatch.core.op_overload import OpOverload
from ...dispatch.core.operator_entry import OperatorEntry
from ...dispatch.layers.python_key import bound_handlers
from ...dispatch.layers.tensor_of_parts import TensorOfParts
from ...dispatch.tensor import Tensor
from ...runtime.grad_mode import is_grad_enabled
from ...serialization.user_globals import allow_of_package
from .. import collectives
from ..mesh import DeviceMesh, current_mesh
from .placements import REPLICATE, NormPartial, Partial, Placement, Replicate, Shard
from .redistribute import Redistribute
from .spec import DTensorSpec, TensorMeta, global_shape_and_stride, normalized_placements

__all__ = ["DTensor"]


class Part:
    """Data of a `DTensor` instead of bytes, shared with the tensors that autograd saves of it.

    Args:
        tensor: This rank's part.
        spec: Spec of the whole tensor.

    Attributes:
        base: Tensor that this one is a view of, if any.
        is_copy: True if the view has its own elements, because parts had to be communicated.
        version: Version of the base when the view was made.
    """

    __slots__ = ("base", "is_copy", "spec", "tensor", "version")

    def __init__(self, tensor: Tensor, spec: DTensorSpec) -> None:
        self.tensor = tensor
        self.spec = spec
        self.base: DTensor | None = None
        self.is_copy = False
        self.version = 0


class DTensor(TensorOfParts):
    """A tensor of which each process has a part (`torch.distributed.tensor.DTensor`).

    To a program it is the whole tensor: its shape, results and gradients are. Operators compute on the parts, and
    communicate where they must. `from_local` and `distribute_tensor` make one; all processes of the mesh call what
    they do with it, in the same order.

    Args:
        local_tensor: This rank's part.
        spec: Spec of the whole tensor.
        requires_grad: If True, record gradients. Default: False.

    Example:
        >>> import triten as tt
        >>> from triten import distributed as dist
        >>> from triten.distributed.tensor import DTensor, Replicate, Shard
        >>> dist.init_process_group("mpi", store=dist.HashStore(), rank=0, world_size=1)
        >>> mesh = dist.init_device_mesh("cpu", (1,))
        >>> x = DTensor.from_local(tt.ones(2, 3), mesh, [Shard(0)])
        >>> (x + 1).sum().full_tensor()
        tensor(12.)
        >>> x.redistribute(placements=[Replicate()]).placements
        (Replicate(),)
        >>> dist.destroy_process_group()
    """

    PARTS = ("_local_tensor",)
    SETTINGS = ("_dtensor_spec",)

    @staticmethod
    def __new__(cls, local_tensor: Tensor, spec: DTensorSpec, *, requires_grad: bool = False) -> DTensor:
        made: DTensor = cls.of(local_tensor, spec)
        if requires_grad:
            made._set_requires_grad()
        return made

    @classmethod
    def of(cls, local_tensor: Tensor, spec: DTensorSpec) -> Any:
        """Return a leaf from a local part and a spec."""
        made = cls._blank()
        made._spec = spec._impl or spec.impl(cls)
        made._data = Part(local_tensor, spec)
        made._version_cell = made._autograd = made._view_base = None
        return made

    @property
    def _local_tensor(self) -> Tensor:
        part: Part = self._data
        return part.tensor

    @_local_tensor.setter
    def _local_tensor(self, value: Tensor) -> None:
        self._data = Part(value, self._data.spec)

    @property
    def _dtensor_spec(self) -> DTensorSpec:
        part: Part = self._data
        return part.spec

    @_dtensor_spec.setter
    def _dtensor_spec(self, value: DTensorSpec) -> None:
        self._data = Part(self._data.tensor, value)

    def like(self, parts: Sequence[Any] | None = None) -> DTensor:
        """Return the same DTensor with another local part."""
        (local,) = self.parts if parts is None else parts
        return DTensor(local, self._dtensor_spec, requires_grad=self.requires_grad)

    @property
    def device_mesh(self) -> DeviceMesh:
        """The processes."""
        return self._dtensor_spec.mesh

    @property
    def placements(self) -> tuple[Placement, ...]:
        """Placement along each mesh dimension."""
        return self._dtensor_spec.placements

    @staticmethod
    def from_local(
        local_tensor: Tensor,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        *,
        run_check: bool = False,
        shape: Sequence[int] | None = None,
        stride: Sequence[int] | None = None,
        grad_placements: Sequence[Placement] | None = None,
    ) -> DTensor:
        """Create a DTensor from each rank's local part (`torch.distributed.tensor.DTensor.from_local`).

        The gradient of a part is the part of the gradient. For `Partial` placements it is the whole gradient.

        Args:
            local_tensor: This rank's part, whose memory the DTensor shares.
            device_mesh: The mesh. Default: the current mesh.
            placements: Placement along each mesh dimension. Default: replicated.
            run_check: If True, broadcast replicated parts from the first rank. Default: False.
            shape: Global shape. Required if parts have different sizes.
            stride: Global strides. Required with `shape`.
            grad_placements: Placements of the gradient. Default: `placements`.

        Raises:
            RuntimeError: the part is a `DTensor` itself, or only one of `shape` and `stride` is given.
            ValueError: there are not as many placements as dimensions of the mesh.
        """
        if isinstance(local_tensor, DTensor):
            raise RuntimeError(
                f"the local_tensor argument only accepts tt.Tensor but got {type(local_tensor)} value."
            )
        if (shape is None) != (stride is None):
            raise RuntimeError(
                f"Found shape:{shape}, stride:{stride}. Please pass both shape and stride at the same time."
            )
        mesh = device_mesh or current_mesh()
        if mesh.device_type != local_tensor.device.type and not local_tensor.is_meta:
            local_tensor = local_tensor.to(mesh.device_type)
        chosen = normalized_placements(placements, mesh, local_tensor.ndim, "from_local")
        grad_target = (
            None
            if grad_placements is None
            else normalized_placements(grad_placements, mesh, local_tensor.ndim, "from_local")
        )
        made: DTensor = _FromLocal.apply(local_tensor, mesh, chosen, run_check, shape, stride, grad_target)
        return made

    def to_local(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """Return this process's local tensor (`torch.distributed.tensor.DTensor.to_local`).

        Args:
            grad_placements: Placements of the parts' gradients, if different from the parts'.
        """
        if is_grad_enabled():
            grad_target = None if grad_placements is None else tuple(grad_placements)
            result: Tensor = _ToLocal.apply(self, grad_target)
        else:
            result = self._local_tensor
        if getattr(self, "_is_param", False):
            result = result.view_as(result) if result is self._local_tensor else result
            result._is_param = True  # type: ignore[attr-defined]  # as `Parameter` knows it
        return result

    def redistribute(
        self,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        *,
        async_op: bool = False,
        forward_dtype: Any = None,
        backward_dtype: Any = None,
    ) -> DTensor:
        """Change the placements of the tensor (`torch.distributed.tensor.DTensor.redistribute`).

        The gradient is redistributed back.

        Args:
            device_mesh: The mesh, which must be the tensor's own.
            placements: Placement along each mesh dimension.
            async_op: Ignored; accepted for compatibility with PyTorch. The call ends when the communication
                has.
            forward_dtype: Dtype to which the tensor is converted before. Default: none.
            backward_dtype: Dtype to which the gradient is converted before. Default: none.

        Raises:
            RuntimeError: no placements are given, or a `Partial` one, which this tensor has not.
            NotImplementedError: the mesh is another one.
        """
        if placements is None:
            raise RuntimeError("placements is needed for redistribute!")
        if device_mesh is not None and device_mesh != self.device_mesh:
            raise NotImplementedError(
                "redistribute: device_mesh must be the mesh of the DTensor; another mesh is not supported"
            )
        chosen = normalized_placements(placements, self.device_mesh, self.ndim, "redistribute")
        for now, target in zip(self.placements, chosen, strict=True):
            if isinstance(target, Partial) and now != target:
                raise RuntimeError(
                    f"Can not redistribute from {now} to {target}, redistributing to Partial is for internal use only!"
                )
        result: Any = self if forward_dtype is None else self.to(forward_dtype)
        if chosen != self.placements:
            result = Redistribute.apply(result, chosen)
        return result  # type: ignore[no-any-return]

    def full_tensor(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """Return the whole tensor on each rank (`torch.distributed.tensor.DTensor.full_tensor`).

        Args:
            grad_placements: Placements of the gradient of the result. Default: `Replicate`.
        """
        whole = self.redistribute(placements=[REPLICATE] * self.device_mesh.ndim)
        return whole.to_local(grad_placements=grad_placements)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        where = f"device_mesh={self.device_mesh}, placements={self.placements}"
        return f"DTensor(local_tensor={self._local_tensor}, {where})"

    def __reduce_ex__(self, protocol: Any) -> Any:
        leaf = self._local_tensor
        return _rebuilt, (leaf, self._dtensor_spec, self.requires_grad), vars(self) or None

    def __create_chunk_list__(self) -> list[Any]:
        """Return the chunk of this rank's part, for checkpoints (`checkpoint.shards`)."""
        from ...runtime.size import Size
        from ..checkpoint.metadata import ChunkStorageMetadata
        from .shards import compute_local_shape_and_global_offset

        if any(isinstance(each, Partial) for each in self.placements):
            raise ValueError(
                f"a checkpoint cannot store Partial placements, but got {self.placements}; redistribute the DTensor "
                "first"
            )
        if self.device_mesh.get_coordinate() is None:
            return []
        sizes, offsets = compute_local_shape_and_global_offset(self.shape, self.device_mesh, self.placements)
        if 0 in sizes and 0 not in self.shape:
            return []
        return [ChunkStorageMetadata(Size(offsets), Size(sizes))]

    def __get_tensor_shard__(self, index: Any) -> Tensor:
        """Return the memory of this rank's part."""
        local_offsets = [chunk.offsets for chunk in self.__create_chunk_list__()]
        if index.offset is not None and index.offset not in local_offsets:
            raise ValueError(
                f"'{index.fqn}': no shard of this process begins at {tuple(index.offset)}; its shards "
                f"begin at {local_offsets}"
            )
        return self._local_tensor

    def __tensor_flatten__(self) -> tuple[list[str], Any]:
        return ["_local_tensor"], (self._dtensor_spec, self.requires_grad)

    @staticmethod
    def __tensor_unflatten__(
        inner: dict[str, Tensor], spec: Any, size: Any = None, stride: Any = None
    ) -> DTensor:
        made, requires_grad = spec
        return DTensor(inner["_local_tensor"], made, requires_grad=requires_grad)

    def item(self) -> Any:
        """Return the value of a one-element tensor, on each rank."""
        return self.full_tensor().item()

    def tolist(self) -> Any:
        """Return the whole tensor as nested lists, on each rank."""
        return self.full_tensor().tolist()

    def numpy(self, *, force: bool = False) -> Any:
        """Return the whole tensor as an array, on each rank."""
        return self.full_tensor().numpy(force=force)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return self.full_tensor().__array__(*args, **kwargs)

    def __bool__(self) -> bool:
        return bool(self.full_tensor())

    def __float__(self) -> float:
        return float(self.full_tensor())

    def __int__(self) -> int:
        return int(self.full_tensor())

    def __index__(self) -> int:
        return self.full_tensor().__index__()

    def __complex__(self) -> complex:
        return complex(self.full_tensor())

    def as_strided(self, *args: Any, **kwargs: Any) -> Any:
        """Refused: a distributed tensor has no memory of its own to step over.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            "as_strided: not supported for DTensor; call to_local() or full_tensor() first"
        )

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any:
        raise BufferError("__dlpack__: not supported for DTensor; call to_local() or full_tensor() first")

    def data_ptr(self) -> int:
        """Return the address of this rank's part."""
        return self._local_tensor.data_ptr()

    def untyped_storage(self) -> Any:
        """Return the storage of this rank's part."""
        return self._local_tensor.untyped_storage()

    @classmethod
    def __tensor_dispatch__(cls, func: OpOverload, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        from .dispatch import dispatch

        return dispatch(func, args, kwargs or {})


def _call(op: OperatorEntry, values: list[Any]) -> Any:
    from .dispatch import call

    bound_handlers[DTensor] = call  # from now on
    return call(op, values)


bound_handlers[DTensor] = _call


def _rebuilt(local: Tensor, spec: DTensorSpec, requires_grad: bool) -> DTensor:
    return DTensor(local, spec, requires_grad=requires_grad)


# Classes that `tt.load` accepts by default once this module is imported.
allow_of_package(
    _rebuilt, DTensor, DTensorSpec, TensorMeta, DeviceMesh, Shard, Replicate, Partial, NormPartial
)


def _without_partial(placements: Sequence[Placement]) -> tuple[Placement, ...]:
    return tuple(REPLICATE if isinstance(each, Partial) else each for each in placements)


class _FromLocal(Function):
    """A part becomes a tensor."""

    @staticmethod
    def forward(
        ctx: Any,
        local: Tensor,
        mesh: DeviceMesh,
        placements: tuple[Placement, ...],
        run_check: bool,
        shape: Sequence[int] | None,
        stride: Sequence[int] | None,
        grad_placements: tuple[Placement, ...] | None,
    ) -> Any:
        ctx.set_materialize_grads(False)
        ctx.grad_placements = _without_partial(placements) if grad_placements is None else grad_placements
        if shape is None or stride is None:
            shape, stride = global_shape_and_stride(local.shape, local.stride(), mesh, placements)
        part = local.detach()
        if mesh.get_coordinate() is None:
            part = local.new_empty(0)
        elif run_check:
            for mesh_dim, placement in enumerate(placements):
                if isinstance(placement, Replicate) and mesh.size(mesh_dim) > 1:
                    part = part.contiguous()
                    collectives.broadcast(part, group=mesh.get_group(mesh_dim), group_src=0)
        meta = TensorMeta(tuple(shape), tuple(stride), local.dtype)
        return DTensor.of(part, DTensorSpec(mesh, placements, meta, local.device))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        if grad is None:
            return (None,) * 7
        if grad.placements != ctx.grad_placements:
            grad = Redistribute.apply(grad, ctx.grad_placements)
        return grad.to_local(), None, None, None, None, None, None


class _ToLocal(Function):
    """A tensor becomes this process's part."""

    @staticmethod
    def forward(ctx: Any, input: DTensor, grad_placements: tuple[Placement, ...] | None) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.spec = input._dtensor_spec
        ctx.grad_placements = (
            _without_partial(input.placements) if grad_placements is None else grad_placements
        )
        # Autograd writes what it must know into the result, and not into the part.
        return input._local_tensor.detach()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        if grad is None:
            return None, None
        spec = ctx.spec
        # The gradient's own strides: what is computed on the part may lie otherwise than the tensor.
        _, stride = global_shape_and_stride(grad.shape, grad.stride(), spec.mesh, ctx.grad_placements)
        return DTensor.from_local(grad, spec.mesh, ctx.grad_placements, shape=spec.shape, stride=stride), None
