"""How nested tensors are made: from lists, from packed values, and from dense tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..dispatch.generated import functions as ops
from ..dispatch.tensor import Tensor
from ..dispatch.tensor_data import as_tensor
from ..runtime.device import DeviceLike
from ..runtime.layout import jagged, strided
from ..runtime.layout import layout as Layout
from ..runtime.memory_format import contiguous_format
from ..runtime.scalar_type import dtype as ScalarType
from ..runtime.scalar_type import int64
from .nested_tensor import NestedTensor
from .ragged import Raggedness
from .strided import StridedNestedTensor


def _jagged_from_list(
    tensors: Sequence[Tensor], dtype: ScalarType | None, device: DeviceLike | None
) -> NestedTensor:
    if not tensors:
        raise RuntimeError("Cannot construct a nested tensor from an empty tensor list")
    if len({each.dim() for each in tensors}) > 1:
        raise RuntimeError(
            "When constructing a nested tensor, all tensors in list must have the same dim, got "
            f"{[each.dim() for each in tensors]}"
        )
    if tensors[0].dim() == 0:
        raise RuntimeError("Cannot construct a nested tensor from a list of zero-dim tensors")
    for attribute in ("dtype", "device"):
        if len({getattr(each, attribute) for each in tensors}) > 1:
            raise RuntimeError(
                f"When constructing a nested tensor, all tensors in list must have the same {attribute}"
            )
    ragged = [i for i in range(tensors[0].dim()) if len({int(each.shape[i]) for each in tensors}) > 1]
    if len(ragged) > 1:
        raise RuntimeError(
            "Cannot represent given tensor list as a nested tensor with the jagged layout. Note that the jagged layout "
            "only allows for a single ragged dimension. For example: (B, *, D_0, D_1, ..., D_N), with ragged * dim; "
            f"got shapes {[tuple(each.shape) for each in tensors]}"
        )
    ragged_dim = ragged[0] if ragged else 0
    values = ops.cat(list(tensors), ragged_dim).to(device=device, dtype=dtype)
    lengths = [int(each.shape[ragged_dim]) for each in tensors]
    return NestedTensor(values, Raggedness.of_lengths(lengths, values.device), ragged_dim + 1)


def nested_tensor(
    tensor_list: Sequence[Any],
    *,
    dtype: ScalarType | None = None,
    layout: Layout | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Build a nested leaf tensor from copies of tensors (`torch.nested.nested_tensor`).

    Args:
        tensor_list: tensors of as many dimensions each, or what `tt.tensor` takes.
        dtype: The dtype of the result. Default: the tensors' own.
        layout: ``tt.jagged``, where one dimension has different sizes, or ``tt.strided``, the default, where several
            have.
        device: The device of the result.
        requires_grad: If True, autograd records operations on it. Default: False.
        pin_memory: If True, allocate it in pinned (page-locked) memory. Default: False.

    Raises:
        RuntimeError: the tensors differ in what they have to have in common.

    Example:
        >>> import triten as tt
        >>> x = tt.nested.nested_tensor([tt.arange(2.0), tt.arange(3.0)], layout=tt.jagged)
        >>> x.values(), x.offsets()
        (tensor([0., 1., 0., 1., 2.]), tensor([0, 2, 5]))
        >>> [each.tolist() for each in (x * 10).unbind()]
        [[0.0, 10.0], [0.0, 10.0, 20.0]]
    """
    if not isinstance(tensor_list, list):
        raise TypeError(
            "Only lists (List[Tensor] and List[List...[Scalar]]) are accepted in nested_tensor, got "
            f"{type(tensor_list).__name__}"
        )
    tensors = [(each if isinstance(each, Tensor) else as_tensor(each)).detach() for each in tensor_list]
    made: Any
    if layout is None or layout is strided:
        copies = (each.to(device=device, dtype=dtype) for each in tensors)
        made = StridedNestedTensor([each.clone(memory_format=contiguous_format) for each in copies])
    elif layout is jagged:
        made = _jagged_from_list(tensors, dtype, device)
    else:
        raise RuntimeError(f"Specified layout is unsupported for nested tensors: {layout}")
    made = made.pin_memory() if pin_memory else made
    return made.requires_grad_() if requires_grad else made  # type: ignore[no-any-return]


def as_nested_tensor(
    ts: Tensor | Sequence[Tensor],
    dtype: ScalarType | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
) -> Tensor:
    """Build a nested tensor from tensors, differentiably (`torch.nested.as_nested_tensor`).

    Args:
        ts: tensors, which are copied, or one tensor, whose dimension 0 is the batch; a nested tensor is converted.
        dtype: The dtype of the result.
        device: The device of the result.
        layout: ``tt.strided``, the default, or ``tt.jagged``.

    Raises:
        TypeError: `ts` is neither a tensor nor a list of tensors.
        RuntimeError: it has another layout, or fewer than two dimensions.

    Example:
        >>> import triten as tt
        >>> a = tt.ones(2, requires_grad=True)
        >>> tt.nested.as_nested_tensor([a, tt.ones(3)], layout=tt.jagged).sum().backward()
        >>> a.grad
        tensor([1., 1.])
    """
    if not isinstance(ts, Tensor) and not (
        isinstance(ts, list | tuple) and all(isinstance(each, Tensor) for each in ts)
    ):
        raise TypeError(
            "as_nested_tensor(): Expected first argument to be a tensor or a list / tuple of tensors, got "
            f"{type(ts).__name__}"
        )
    layout = strided if layout is None else layout
    if isinstance(ts, Tensor):
        if ts.is_nested:
            if ts.layout is not layout:
                raise RuntimeError(
                    "as_nested_tensor(): Converting between nested tensor layouts is not supported, got "
                    f"{ts.layout} for {layout}"
                )
            return ts.to(device=device, dtype=dtype)
        if ts.dim() < 2:
            raise RuntimeError(
                f"as_nested_tensor(): Expected tensor argument to have dim() > 1, got {ts.dim()} dimensions"
            )
    if layout is strided:
        return StridedNestedTensor([each.to(device=device, dtype=dtype) for each in ts])
    if layout is not jagged:
        raise RuntimeError(f"Specified layout is unsupported for nested tensors: {layout}")
    if not isinstance(ts, Tensor):
        return _jagged_from_list(ts, dtype, device)
    values = ts.contiguous().flatten(0, 1).to(device=device, dtype=dtype)
    batch, length = int(ts.shape[0]), int(ts.shape[1])
    return NestedTensor(values, Raggedness.of_lengths([length] * batch, values.device))


def nested_tensor_from_jagged(
    values: Tensor,
    offsets: Tensor | None = None,
    lengths: Tensor | None = None,
    jagged_dim: int | None = None,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> Tensor:
    """Build a jagged tensor as a view of packed values (`torch.nested.nested_tensor_from_jagged`).

    Pointwise operators accept tensors over the same `offsets`.

    Args:
        values: (total, ...): the sequences' elements, packed along dimension `jagged_dim` - 1.
        offsets: (batch + 1): where each sequence begins, and at last where the last one ends.
        lengths: (batch): the sequences' lengths; with `offsets` there may be holes between them.
        jagged_dim: the ragged dimension of the result; 1 by default.
        min_seqlen: the least length, which would be computed from the offsets when it is needed.
        max_seqlen: the greatest length.

    Raises:
        RuntimeError: neither `offsets` nor `lengths` is given.
        ValueError: `jagged_dim` is less than 1.

    Example:
        >>> import triten as tt
        >>> offsets = tt.tensor([0, 2, 3, 6])
        >>> x = tt.nested.nested_tensor_from_jagged(tt.arange(6), offsets, tt.tensor([1, 1, 2]))
        >>> [each.tolist() for each in x.unbind()]
        [[0], [2], [3, 4]]
    """
    if offsets is None:
        if lengths is None:
            raise RuntimeError("nested_tensor_from_jagged(): At least one of offsets or lengths is required.")
        offsets, lengths = ops.constant_pad_nd(lengths.cumsum(0), [1, 0]), None
    ragged_dim = 1 if jagged_dim is None else jagged_dim
    if ragged_dim < 1:
        raise ValueError(f"nested_tensor_from_jagged(): Expected jagged_dim >=1, but got {jagged_dim}.")
    if ragged_dim > values.dim() or offsets.dim() != 1:
        raise RuntimeError(
            f"nested_tensor_from_jagged(): expected jagged_dim <= {values.dim()} and offsets of one dimension, got "
            f"{ragged_dim} and {offsets.dim()} dimensions"
        )
    view = values.view_as(values) if values.requires_grad else values.detach()
    return NestedTensor(view, Raggedness.of(offsets, lengths, min_seqlen, max_seqlen), ragged_dim)


def narrow(tensor: Tensor, dim: int, start: Any, length: Any, layout: Layout = strided) -> Tensor:
    """Return the sequences ``tensor[i, start[i] : start[i] + length[i]]`` (`torch.nested.narrow`).

    With ``layout=tt.jagged`` the result is a view of `tensor`, with holes between sequences.

    Args:
        tensor: a dense tensor.
        dim: the dimension that is narrowed; 1 for the jagged layout.
        start: a number, or for the jagged layout a tensor of one number each.
        length: The lengths of the sequences, in the form of `start`.
        layout: ``tt.strided`` or ``tt.jagged``.

    Raises:
        RuntimeError: the layout does not support `dim`, or numbers for each sequence.

    Example:
        >>> import triten as tt
        >>> x = tt.arange(6.0).view(2, 3)
        >>> y = tt.nested.narrow(x, 1, tt.tensor([0, 1]), tt.tensor([1, 2]), layout=tt.jagged)
        >>> [each.tolist() for each in y.unbind()]
        [[0.0], [4.0, 5.0]]
    """
    for name, each in (("start", start), ("length", length)):
        if not isinstance(each, int | Tensor):
            raise RuntimeError(f"narrow(): {name} must be an integer or a tensor, got {type(each).__name__}")
    if layout is strided:
        if isinstance(start, Tensor) or isinstance(length, Tensor):
            raise RuntimeError("narrow(): start and length must be integers for the strided layout NT impl")
        if dim % tensor.dim() == 0:
            raise RuntimeError(f"narrow(): expected a dimension behind the batch, got dim={dim}")
        return StridedNestedTensor(
            [each.narrow(dim % tensor.dim() - 1, start, length) for each in tensor.unbind()]
        )
    if layout is not jagged:
        raise RuntimeError(f"Specified layout is unsupported for nested narrow: {layout}")
    if dim != 1:
        raise RuntimeError(f"narrow(): jagged layout only supports dim=1, got dim={dim}")
    batch, width = int(tensor.shape[0]), int(tensor.shape[1])
    starts, lengths = (
        (each if isinstance(each, Tensor) else ops.full((1,), each, dtype=int64))
        .to(device=tensor.device, dtype=int64)
        .expand(batch)
        for each in (start, length)
    )
    values = tensor.contiguous().flatten(0, 1)
    offsets = ops.arange(0, batch * width, width, device=tensor.device) + starts
    end = offsets[-1:] + lengths[-1:]
    return NestedTensor(values, Raggedness.of(ops.cat([offsets, end]), lengths.contiguous()))


def masked_select(tensor: Tensor, mask: Tensor) -> Tensor:
    """Select elements by a mask, as a jagged tensor of one sequence for each row (`torch.nested.masked_select`).

    Args:
        tensor: A dense tensor of two dimensions.
        mask: A bool tensor that broadcasts to `tensor`'s shape.

    Raises:
        RuntimeError: A tensor is not strided, or is nested.

    Example:
        >>> import triten as tt
        >>> x = tt.arange(4.0).view(2, 2)
        >>> [each.tolist() for each in tt.nested.masked_select(x, x > 0).unbind()]
        [[1.0], [2.0, 3.0]]
    """
    for name, each in (("tensor", tensor), ("mask", mask)):
        if each.layout is not strided or each.is_nested:
            raise RuntimeError(f"nested.masked_select requires a strided {name}, given {each.layout}")
    chosen = mask.expand(tensor.shape)
    lengths = chosen.sum(dim=-1).view(-1)
    offsets = ops.constant_pad_nd(lengths.cumsum(0), [1, 0])
    return NestedTensor(tensor.masked_select(mask), Raggedness.of(offsets))


__all__ = ["as_nested_tensor", "masked_select", "narrow", "nested_tensor", "nested_tensor_from_jagged"]
