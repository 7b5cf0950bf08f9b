"""Cross entropy of logits whose classes are sharded over ranks.

A computation on whole rows would gather all logits. Here the ranks only reduce a maximum, a sum and the
target's logit for each row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ....dispatch.core.op_overload import OpOverload
from ....dispatch.generated import functions as ops
from ....dispatch.layers.python_key import dispatch_rules
from ....dispatch.schema.type_check import default_value
from ....dispatch.tensor import Tensor
from ... import collectives
from ...mesh import DeviceMesh
from ...reduce_op import ReduceOp
from ..dtensor import DTensor
from ..placements import REPLICATE, Partial, Placement, Shard
from ..redistribute import redistribute_local_tensor
from ..shards import compute_local_shape_and_global_offset
from ..spec import DTensorSpec, contiguous_meta

__all__ = ["loss_parallel"]

NONE, MEAN, SUM = 0, 1, 2
"""Values of the argument `reduction`."""

Handler = Callable[..., Any]


class _Active:
    """In how many contexts the process is."""

    depth = 0


@contextmanager
def loss_parallel() -> Iterator[None]:
    """Inside, a cross entropy leaves classes divided (`torch.distributed.tensor.parallel.loss_parallel`).

    It serves `cross_entropy` (and `log_softmax`, `nll_loss`) of a `DTensor` whose dimension of classes is divided along
    one dimension of its mesh; others divide the batch, or nothing. `backward` has to be called inside, too. Targets are
    numbers of classes, plain tensors where the batch is whole, or a `DTensor`. Label smoothing and probabilities are
    computed as outside.

    Example:
        >>> import triten as tt
        >>> from triten import distributed as dist
        >>> from triten.distributed.tensor import Shard, distribute_tensor
        >>> from triten.distributed.tensor.parallel import loss_parallel
        >>> dist.init_process_group("mpi", store=dist.HashStore(), rank=0, world_size=1)
        >>> mesh = dist.init_device_mesh("cpu", (1,))
        >>> logits = distribute_tensor(tt.zeros(2, 4, requires_grad=True), mesh, [Shard(1)])
        >>> with loss_parallel():
        ...     loss = tt.nn.functional.cross_entropy(logits, tt.tensor([1, 3]))
        ...     loss.backward()
        >>> loss.full_tensor().item()  # doctest: +ELLIPSIS
        1.386...
        >>> logits.grad.placements
        (Shard(dim=1),)
        >>> dist.destroy_process_group()
    """
    _Active.depth += 1
    for name, handler in _HANDLERS.items():
        dispatch_rules[name, DTensor] = _for_sharded_classes(handler)
    try:
        yield
    finally:
        _Active.depth -= 1
        if not _Active.depth:
            for name in _HANDLERS:
                dispatch_rules.pop((name, DTensor), None)


def _for_sharded_classes(handler: Handler) -> Handler:
    """Wrap a handler for the dispatcher. If the classes are not sharded, use the DTensor's own dispatch."""

    def handle(cls: type, func: OpOverload, types: Any, args: Sequence[Any], kwargs: Any) -> Any:
        arguments = func._schema.arguments
        bound: dict[str, Any] = {
            each.name: default_value(each) if each.has_default else None for each in arguments
        }
        bound.update(zip([each.name for each in arguments], args, strict=False))
        bound.update(kwargs or {})
        source = bound["output"] if "output" in bound else bound["self"]
        dim = bound.get("dim", 0 if source.ndim == 1 else 1) % max(source.ndim, 1)
        rows = _Rows.of(source, dim) if isinstance(source, DTensor) else None
        if rows is None:
            return DTensor.__tensor_dispatch__(func, types, args, kwargs)
        return handler(rows, bound)

    return handle


class _Rows:
    """Rows of a tensor, each divided among processes.

    Attributes:
        spec: the tensor's.
        local: this process's part.
        dim: the dimension along which they are divided.
        mesh_dim: Mesh dimension that shards the classes.
    """

    def __init__(self, tensor: DTensor, dim: int, mesh_dim: int) -> None:
        self.spec, self.local = tensor._dtensor_spec, tensor._local_tensor
        self.dim, self.mesh_dim = dim, mesh_dim

    @staticmethod
    def of(tensor: DTensor, dim: int) -> _Rows | None:
        """None for rows that are whole, divided along several dimensions of the mesh, or sums to come."""
        placements = tensor.placements
        mesh_dims = [mesh_dim for mesh_dim, each in enumerate(placements) if each.is_shard(dim)]
        if len(mesh_dims) != 1 or any(isinstance(each, Partial) for each in placements):
            return None
        return _Rows(tensor, dim, mesh_dims[0])

    @property
    def mesh(self) -> DeviceMesh:
        """The processes."""
        return self.spec.mesh

    def reduced(self, tensor: Tensor, op: ReduceOp = ReduceOp.SUM) -> Tensor:
        """Run an all-reduce of the per-row values of the ranks."""
        whole = tensor.contiguous()
        collectives.all_reduce(whole, op, self.mesh.get_group(self.mesh_dim))
        return whole

    def wrapped(self, local: Tensor, like: DTensorSpec | None = None) -> DTensor:
        """Wrap a local part of a tensor of the same shape."""
        spec = self.spec if like is None else like
        meta = contiguous_meta(spec.shape, local.dtype)
        made: DTensor = DTensor.of(local, DTensorSpec(self.mesh, spec.placements, meta, local.device))
        return made

    def without_classes(self) -> tuple[Placement, ...]:
        """Return the placements of a tensor with one value per row."""
        return tuple(
            REPLICATE
            if mesh_dim == self.mesh_dim
            else Shard(each.dim - 1)
            if isinstance(each, Shard) and each.dim > self.dim
            else each
            for mesh_dim, each in enumerate(self.spec.placements)
        )

    def numbers(self, value: Any, placements: Sequence[Placement], name: str) -> Tensor:
        """Return the elements of this process's part of an argument, redistributed if needed.

        Raises:
            ValueError: it is a plain tensor where parts are needed.
        """
        if isinstance(value, DTensor):
            spec = value._dtensor_spec
            return redistribute_local_tensor(value._local_tensor, spec, spec.placed(placements))
        if value.numel() > 1 and any(isinstance(each, Shard) for each in placements):
            raise ValueError(
                f"loss_parallel: expected a DTensor that lies as {tuple(placements)} for {name}, but got a plain tensor"
            )
        plain: Tensor = value
        return plain

    def whole(self, value: Any, name: str) -> Tensor:
        """Return an argument, replicated on each rank."""
        return self.numbers(value, (REPLICATE,) * self.mesh.ndim, name)


def _log_softmax(rows: _Rows, arguments: dict[str, Any]) -> Any:
    local = rows.local.float() if arguments["half_to_float"] else rows.local
    narrow, dim = local.dtype, rows.dim
    if narrow.itemsize < 4:
        local = local.float()
    if local.shape[dim]:
        highest = local.amax(dim, keepdim=True)
    else:
        highest = ops.full_like(local.sum(dim, keepdim=True), float("-inf"))
    shifted = local - rows.reduced(highest, ReduceOp.MAX)
    total = rows.reduced(shifted.exp().sum(dim, keepdim=True))
    return rows.wrapped((shifted - total.log()).to(narrow))


def _log_softmax_backward(rows: _Rows, arguments: dict[str, Any]) -> Any:
    grad = rows.numbers(arguments["grad_output"], rows.spec.placements, "grad_output")
    total = rows.reduced(grad.sum(rows.dim, keepdim=True))
    return rows.wrapped((grad - rows.local.exp() * total).to(arguments["input_dtype"]))


class _Targets:
    """Targets of rows: the mask of targets in this rank's part, and their weights."""

    def __init__(self, rows: _Rows, arguments: dict[str, Any]) -> None:
        target = rows.numbers(arguments["target"], rows.without_classes(), "target").unsqueeze(rows.dim)
        _, offsets = compute_local_shape_and_global_offset(rows.spec.shape, rows.mesh, rows.spec.placements)
        begin, count = offsets[rows.dim], rows.local.shape[rows.dim]
        self.counted = target.ne(arguments["ignore_index"])
        classes = rows.spec.shape[rows.dim]
        outside = ((target < 0) | (target >= classes)) & self.counted
        if target.device.type == "cpu" and outside.any().item():  # a GPU is not waited for
            raise IndexError(f"nll_loss: expected targets from 0 to {classes - 1}, or ignore_index")
        safe = target.masked_fill(~self.counted, 0)
        self.is_local = (safe >= begin) & (safe < begin + count) & self.counted
        self.index = (safe - begin).masked_fill(~self.is_local, 0)
        weight = arguments["weight"]
        mask_values = self.counted.to(rows.local.dtype)
        if weight is None:
            self.weights = mask_values
        else:
            self.weights = rows.whole(weight, "weight")[safe] * mask_values

    def picked(self, rows: _Rows) -> Tensor:
        """Return the logits of the target classes; zero if another rank holds them."""
        if not rows.local.shape[rows.dim]:
            return self.weights * 0
        return rows.local.gather(rows.dim, self.index).masked_fill(~self.is_local, 0)


def _nll(rows: _Rows, arguments: dict[str, Any]) -> Any:
    targets = _Targets(rows, arguments)
    losses = rows.reduced(targets.picked(rows)).neg() * targets.weights
    losses = losses.masked_fill(~targets.counted, 0).squeeze(rows.dim)
    of_rows = rows.without_classes()
    whole: list[Placement] = [REPLICATE] * rows.mesh.ndim
    sums = [Partial("sum") if isinstance(each, Shard) else each for each in of_rows]
    if arguments["reduction"] == NONE:
        shape = tuple(size for dim, size in enumerate(rows.spec.shape) if dim != rows.dim)
        return _placed(rows, losses, of_rows, shape), _placed(rows, losses.new_zeros(()), whole, ())
    total, weight = losses.sum(), targets.weights.sum()
    if arguments["reduction"] == SUM:
        return _placed(rows, total, sums, ()), _placed(rows, weight, sums, ())
    # The weight of all rows, of which other dimensions of the mesh may have parts.
    spec = DTensorSpec(rows.mesh, sums, contiguous_meta((), weight.dtype), weight.device)
    weight = redistribute_local_tensor(weight, spec, spec.placed(whole))
    return _placed(rows, total / weight, sums, ()), _placed(rows, weight, whole, ())


def _placed(rows: _Rows, local: Tensor, placements: Sequence[Placement], shape: Sequence[int]) -> DTensor:
    spec = DTensorSpec(rows.mesh, placements, contiguous_meta(tuple(shape), local.dtype), local.device)
    made: DTensor = DTensor.of(local, spec)
    return made


def _nll_backward(rows: _Rows, arguments: dict[str, Any]) -> Any:
    targets = _Targets(rows, arguments)
    if arguments["reduction"] == NONE:
        grad = rows.numbers(arguments["grad_output"], rows.without_classes(), "grad_output").unsqueeze(
            rows.dim
        )
    else:
        grad = rows.whole(arguments["grad_output"], "grad_output")
    scaled = targets.weights.neg() * grad
    if arguments["reduction"] == MEAN:
        scaled = scaled / rows.whole(arguments["total_weight"], "total_weight")
    made = ops.zeros_like(rows.local)
    if made.shape[rows.dim]:
        made.scatter_(rows.dim, targets.index, scaled.masked_fill(~targets.is_local, 0).to(made.dtype))
    return rows.wrapped(made)


_HANDLERS: dict[str, Handler] = {
    "aten::_log_softmax": _log_softmax,
    "aten::_log_softmax_backward_data": _log_softmax_backward,
    "aten::nll_loss_forward": _nll,
    "aten::nll_loss_backward": _nll_backward,
    "aten::nll_loss2d_forward": _nll,
    "aten::nll_loss2d_backward": _nll_backward,
}
