"""Batching rules that users register for their own operators (`tt.library.register_vmap`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ....runtime.tensor_impl import TensorImpl
from ...custom_ops.custom_op import vmap_rules
from .layout import Batch, Dims
from .loop import loop, refuse_alias

if TYPE_CHECKING:
    from ...tensor import Tensor


class VmapInfo(NamedTuple):
    """Description of the vmap for a user's rule (`torch._library.VmapInfo`)."""

    batch_size: int
    randomness: str


def custom_rule(batch: Batch, dims: Dims, *args: Any) -> tuple[Any, Any]:
    """Call the user's rule ``func(info, in_dims, *args, **kwargs) -> (output, out_dims)``, or loop if there is none.

    Raises RuntimeError for a rule that returns something else.
    """
    op = batch.op
    schema = op.schema
    rule = vmap_rules.get(op.name)
    if rule is None:
        if any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns):
            refuse_alias(op.name)
        return loop(batch, dims, *args)
    count = len(schema.positional_arguments)
    named = {a.name: v for a, v in zip(schema.kwarg_only_arguments, args[count:], strict=True)}
    info = VmapInfo(batch.size, batch.level.randomness)
    in_dims = tuple([list(d) if d.__class__ is tuple else d for d in dims[:count]])
    returned = rule(info, in_dims, *args[:count], **named)
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise RuntimeError(
            f"vmap rule of {op.name}: expected (output, out_dims), got {type(returned).__name__}"
        )
    output, out_dims = returned
    returns = len(schema.returns)
    if op.is_mutable or returns == 0:
        return None, None
    if returns == 1:
        check_out_dims(op.name, output, out_dims)
        return output, tuple(out_dims) if isinstance(out_dims, list | tuple) else out_dims
    if isinstance(out_dims, int) or out_dims is None:
        out_dims = (out_dims,) * returns
    if len(output) != returns or len(out_dims) != returns:
        raise RuntimeError(
            f"vmap rule of {op.name}: expected {returns} outputs and out_dims, got {len(output)} and {len(out_dims)}"
        )
    for each, dim in zip(output, out_dims, strict=True):
        check_out_dims(op.name, each, dim)
    return output, out_dims


def check_out_dims(name: str, output: Tensor, dim: Any) -> None:
    """Raise RuntimeError for an output whose mapped dimension does not exist."""
    if dim is None:
        return
    if isinstance(dim, list | tuple):
        is_alike = isinstance(output, list if isinstance(dim, list) else tuple)
        if not is_alike or len(output) != len(dim):
            raise RuntimeError(
                f"vmap rule of {name} returned an incompatible (output, out_dims) tuple. Expected out_dims={dim!r} to "
                "be compatible with the structure of `output`: they are not one for each of the outputs"
            )
        for each, own in zip(output, dim, strict=True):
            check_out_dims(name, each, own)
        return
    if not isinstance(output, TensorImpl) or not isinstance(dim, int) or not 0 <= dim < output._spec.ndim:
        description = (
            f"a tensor of {output._spec.ndim} dimensions" if isinstance(output, TensorImpl) else repr(output)
        )
        raise RuntimeError(f"vmap rule of {name}: out_dims {dim!r} names no dimension of {description}")
