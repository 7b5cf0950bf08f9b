"""Attention whose scores a function changes, or masks (`torch.nn.attention.flex_attention`).

Scores are computed for some queries at a time, and only in the blocks that a `BlockMask` does not call empty, so that a
sparse mask saves time and memory. The functions are mapped by `vmap`.

Source: Dong and others, "Flex Attention: A Programming Model for Generating Optimized Attention Kernels", 2024.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, TypedDict, cast, overload

from ...dispatch.generated import functions as _ops
from ...dispatch.iterator.type_promotion import promote_types
from ...dispatch.layers.autocast.mode import autocast
from ...dispatch.layers.autocast.state import get_autocast_dtype, is_autocast_enabled
from ...runtime.grad_mode import is_grad_enabled
from ...runtime.scalar_type import float32, float64
from . import block_masks
from .block_masks import BlockMask, create_block_mask
from .mask_functions import (
    MaskMod,
    ScoreMod,
    and_masks,
    captured_tensors,
    create_mask,
    noop_mask,
    or_masks,
    over_indices,
    sliced_mask,
)

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "FlexKernelOptions",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]

# Names that programs import from here, as private as PyTorch's are.
_DEFAULT_SPARSE_BLOCK_SIZE = block_masks.DEFAULT_BLOCK_SIZE
_mask_mod_signature = MaskMod
_score_mod_signature = ScoreMod

_BACKENDS = ("AUTO", "TRITON", "FLASH", "TRITON_DECODE")
_WHOLE = 1 << 30
"""The block size that stands for a mask of one block, however long the sequences are."""

_warned_of_return_lse = False


class FlexKernelOptions(TypedDict, total=False):
    """Kernel options of `flex_attention` (`torch.nn.attention.flex_attention.FlexKernelOptions`).

    The options are validated as in PyTorch. They tune PyTorch's kernels and have no effect on results here.
    """

    num_warps: int
    num_stages: int
    BLOCK_M: int
    BLOCK_N: int
    BLOCK_M1: int
    BLOCK_N1: int
    BLOCK_M2: int
    BLOCK_N2: int
    PRESCALE_QK: bool
    ROWS_GUARANTEED_SAFE: bool
    BLOCKS_ARE_CONTIGUOUS: bool
    WRITE_DQ: bool
    FORCE_USE_FLEX_ATTENTION: bool
    USE_TMA: bool
    kpack: int
    matrix_instr_nonkdim: int
    waves_per_eu: int
    BACKEND: Literal["AUTO", "TRITON", "FLASH", "TRITON_DECODE"]


class AuxRequest(NamedTuple):
    """Request for extra outputs of `flex_attention` (`torch.nn.attention.flex_attention.AuxRequest`).

    Args:
        lse: If True, return the log-sum-exp of each query's scores.
        max_scores: If True, return each query's maximum score. CUDA only, without a gradient.
    """

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """Extra outputs requested by `AuxRequest`, of shape (B, H, L); None for those not requested.

    See `torch.nn.attention.flex_attention.AuxOutput`.
    """

    lse: Tensor | None = None
    max_scores: Tensor | None = None


@overload
def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: ScoreMod | None = ...,
    block_mask: BlockMask | None = ...,
    scale: float | None = ...,
    enable_gqa: bool = ...,
    return_lse: Literal[False] = ...,
    kernel_options: FlexKernelOptions | None = ...,
    *,
    return_aux: None = ...,
) -> Tensor: ...
@overload
def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: ScoreMod | None = ...,
    block_mask: BlockMask | None = ...,
    scale: float | None = ...,
    enable_gqa: bool = ...,
    *,
    return_lse: Literal[True],
    kernel_options: FlexKernelOptions | None = ...,
    return_aux: None = ...,
) -> tuple[Tensor, Tensor]: ...
@overload
def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: ScoreMod | None = ...,
    block_mask: BlockMask | None = ...,
    scale: float | None = ...,
    enable_gqa: bool = ...,
    return_lse: bool = ...,
    kernel_options: FlexKernelOptions | None = ...,
    *,
    return_aux: AuxRequest,
) -> tuple[Tensor, AuxOutput]: ...
def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: ScoreMod | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: FlexKernelOptions | None = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Tensor | tuple[Tensor, Tensor | None] | tuple[Tensor, AuxOutput]:
    """Compute attention with a score function and a block mask
    (`torch.nn.attention.flex_attention.flex_attention`).

    ``softmax(score_mod(query @ key.T * scale, b, h, q_idx, kv_idx)) @ value`` over the scores that `block_mask` counts;
    a query for which none counts gives zeros. Scores are float32, for float64 operands float64. Under autocast the
    operands are cast and what follows is not. Tensors that `score_mod` uses get their gradients.

    Blocks that `block_mask` does not list are skipped whatever its `mask_mod` says of them, and in those that it lists
    as full `mask_mod` is not asked, as by PyTorch's kernels. More than 2 ** 24 scores are computed for some queries at
    a time.

    Args:
        query: The queries of shape (B, Hq, L, E).
        key: The keys of shape (B, Hkv, S, E); with a `block_mask` B may be 1.
        value: The values of shape (B, Hkv, S, Ev).
        score_mod: takes a score and the indices of batch, head, query and key as tensors without dimensions, and
            returns the score that counts. It is mapped by `vmap`.
        block_mask: made by `create_block_mask` for L queries and S keys.
        scale: if None ``1 / sqrt(E)``.
        enable_gqa: If True, Hq may be a multiple of Hkv, where a head of keys serves several of queries. Default:
            False.
        return_lse: deprecated; `return_aux` asks for the same.
        kernel_options: see `FlexKernelOptions`.
        return_aux: The extra outputs to return. Default: None.

    Returns:
        The output (B, Hq, L, Ev), with the strides' order of `query`; with `return_aux` also an `AuxOutput`, with
        `return_lse` also a tensor (B, Hq, L).

    Raises:
        ValueError: for operands on different devices or on Meta, of shapes that do not belong together, for a mask of
            other lengths, for `return_lse` beside `return_aux`, and for an unknown `BACKEND`.
        NotImplementedError: for operands without four dimensions, and on the CPU for operands that require grad, and
            `max_scores`.
        RuntimeError: for a mask on another device or without `mask_mod`, and one without `q_indices` where operands
            require grad.
        AssertionError: for a mask whose function holds tensors that require grad: a mask has no gradient.
        IndexError: without keys.

    Example:
        >>> import triten as tt
        >>> from triten.nn.attention.flex_attention import flex_attention
        >>> slope = tt.tensor([0.0, 10.0])
        >>> x = tt.arange(3.0).reshape(1, 1, 3, 1).expand(1, 2, 3, 1)
        >>> near = lambda score, b, h, q_idx, kv_idx: score - slope[h] * (q_idx - kv_idx).abs()
        >>> flex_attention(tt.zeros_like(x), x, x, score_mod=near).squeeze(-1).round(decimals=3)
        tensor([[[1., 1., 1.],
                 [0., 1., 2.]]])
    """
    _check_operands(query, key, value, enable_gqa)
    if block_mask is not None:
        _check_mask(query, key, block_mask)
    elif query.size(0) != key.size(0):
        raise ValueError(
            "Expect query and key/value to have the same batch size, or non-none block_mask, but got block_mask=None, "
            f"Bq={query.size(0)}, and Bkv={key.size(0)}."
        )
    if return_lse:
        _warn_of_return_lse(return_aux)
    request = AuxRequest(lse=return_lse) if return_aux is None else return_aux
    _check_options({} if kernel_options is None else kernel_options, request, query.device.type)
    scale = 1.0 / math.sqrt(query.size(-1)) if scale is None else scale
    operands = query, key, value
    device_type = query.device.type
    if is_autocast_enabled(device_type):
        narrow = get_autocast_dtype(device_type)
        query, key, value = (
            each.to(narrow) if each.is_floating_point() and each.dtype is not float64 else each
            for each in operands
        )
        with autocast(device_type, enabled=False):
            output, aux = _attend(query, key, value, score_mod, block_mask, scale, request)
    else:
        output, aux = _attend(query, key, value, score_mod, block_mask, scale, request)
    output = _in_order_of(operands[0], output)
    if return_aux is not None:
        return output, aux
    return (output, aux.lse) if return_lse else output


def _check_operands(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool) -> None:
    """Raise an error for operands that PyTorch's function refuses with any mask."""
    operands = query, key, value
    if any(each.is_nested for each in operands):
        raise NotImplementedError(
            "flex_attention does not support NestedTensor inputs; convert them to dense tensors"
        )
    if not query.device == key.device == value.device:
        raise ValueError(
            "Expected query, key, and value to have the same device type, but got query.device: "
            f"{query.device}, key.device: {key.device}, and value.device: {value.device} instead."
        )
    if any(each.dim() < 2 for each in operands):
        raise ValueError(
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
            f"{query.dim()}, key.dim: {key.dim()} and value.dim: {value.dim()} instead."
        )
    if query.size(-1) != key.size(-1):
        raise ValueError(
            "Expect query and key/value to have the same embedding dimension "
            f"but got E={query.size(-1)} and E={key.size(-1)}."
        )
    if query.device.type == "cpu" and any(each.requires_grad for each in operands):
        raise NotImplementedError(
            "FlexAttention does not support backward on CPU. Please set the input requires_grad to False or use "
            "another device."
        )
    if query.device.type not in ("cpu", "cuda"):
        raise ValueError(
            "FlexAttention is only supported on CUDA, CPU, HPU, or MPS devices. "
            f"Found input tensors on {query.device.type} device."
        )
    if any(each.dim() != 4 for each in operands):
        shapes = ", ".join(str(tuple(each.shape)) for each in operands)
        raise NotImplementedError(f"NYI: query, key, and value must be 4D tensors, got the shapes {shapes}")
    heads, kv_heads = query.size(1), key.size(1)
    if heads != kv_heads and not enable_gqa:
        raise ValueError(
            "Expect query and key/value to have the same number of heads "
            f"but got Hq={heads} and Hkv={kv_heads}. Try setting enable_gqa=True for GQA."
        )
    if heads % kv_heads:
        raise ValueError(
            "Expect number of query heads to be a multiple of kv heads for GQA "
            f"but got Hq={heads} and Hkv={kv_heads}."
        )
    if key.shape[:-1] != value.shape[:-1]:
        raise RuntimeError(
            "flex_attention: expected a value for each key, of the same batches and heads, but got key and value of "
            f"the shapes {tuple(key.shape)} and {tuple(value.shape)}"
        )
    if not key.size(-2):
        raise IndexError(
            f"flex_attention: expected at least one key, but got a key of the shape {tuple(key.shape)}"
        )


def _check_mask(query: Tensor, key: Tensor, block_mask: BlockMask) -> None:
    """Raise an error for a mask that does not match the operands."""
    batch, kv_batch, mask_batch = query.size(0), key.size(0), block_mask.kv_num_blocks.size(0)
    if batch != kv_batch and mask_batch != batch:
        raise ValueError(
            "Expect query and key/value to have the same batch size, or block_mask and query to have the same batch "
            f"size, but got Bq={batch}, Bkv={kv_batch}, B_block_mask={mask_batch}."
        )
    if batch != kv_batch and kv_batch != 1:
        raise RuntimeError(f"Bq and Bkv must broadcast. Got Bq={batch} and Bkv={kv_batch}")
    if block_mask.mask_mod is sliced_mask:
        raise RuntimeError(
            "Cannot use mask_mod from a sliced BlockMask: set one that is made of the whole mask's"
        )
    if block_mask.BLOCK_SIZE != (_WHOLE, _WHOLE):
        lengths, expected = (query.size(-2), key.size(-2)), tuple(block_mask.shape[-2:])
        if lengths != expected:
            smaller = any(length > limit for length, limit in zip(lengths, expected, strict=True))
            remedy = (
                "As the block mask was created for a smaller length than you're using it for, you likely need to "
                "create a new block mask."
                if smaller
                else "As the block mask was created for a larger length than you're using it for, you can either "
                "create a new block mask with the correct length, or take its upper left corner by calling "
                "block_mask._adjust(q_len, kv_len), where mask_mod means the same for that."
            )
            raise ValueError(
                f"block_mask was created for block_mask.shape={block_mask.shape} but got q_len={lengths[0]} and "
                f"kv_len={lengths[1]}. {remedy}"
            )
    if any(tensor.requires_grad for tensor in captured_tensors(block_mask.mask_mod)):
        raise AssertionError("Captured buffers from mask mod that require grad are not supported.")
    if query.device != block_mask.kv_num_blocks.device:
        raise RuntimeError(
            "Expect q/k/v and block_mask to be on the same device "
            f"but got {query.device} and {block_mask.kv_num_blocks.device}."
        )
    for mask_size, size, dimension in zip(
        block_mask.kv_num_blocks.shape[:2], query.shape[:2], ("batch", "head"), strict=True
    ):
        if mask_size not in (1, size):
            raise ValueError(
                f"Expect block_mask to have one {dimension} or as many as query, but got "
                f"block_mask.shape={block_mask.shape} and a query of the shape {tuple(query.shape)}"
            )
    # PyTorch's kernels need them. A mask that has none is refused here too, and not only where the program ends up.
    if block_mask.q_indices is None and is_grad_enabled() and (query.requires_grad or key.requires_grad):
        raise RuntimeError(
            "BlockMask q_indices is None. Backward pass requires q_indices to be computed. Please create the BlockMask "
            "with compute_q_blocks=True"
        )


def _warn_of_return_lse(return_aux: AuxRequest | None) -> None:
    global _warned_of_return_lse
    if return_aux is not None:
        raise ValueError(
            "Cannot specify both return_lse and return_aux. return_lse is deprecated, please use "
            "return_aux=AuxRequest(lse=True) instead."
        )
    if not _warned_of_return_lse:
        _warned_of_return_lse = True
        warnings.warn(
            "return_lse is deprecated. Please use return_aux=AuxRequest(lse=True) instead.",
            FutureWarning,
            stacklevel=3,
        )


def _check_options(options: FlexKernelOptions, request: AuxRequest, device_type: str) -> None:
    """Raise an error for options that conflict or are not supported."""
    for name in ("OUTPUT_LOGSUMEXP", "OUTPUT_MAX"):
        if name in options:
            raise AssertionError(f"{name} must not be in kernel_options")
    backend = options.get("BACKEND", "AUTO")
    if "BACKEND" in options and options.get("FORCE_USE_FLEX_ATTENTION", False):
        raise RuntimeError(
            "BACKEND cannot be combined with legacy FORCE_USE_FLEX_ATTENTION. BACKEND supersedes the legacy knob; "
            "please drop FORCE_USE_FLEX_ATTENTION and only specify the desired BACKEND."
        )
    if backend not in _BACKENDS:
        raise ValueError(f"Invalid BACKEND value '{backend}'. Must be one of {_BACKENDS}")
    if backend == "FLASH" and request.max_scores:
        raise NotImplementedError("Returning max scores is not supported with BACKEND='FLASH'.")
    if backend == "FLASH":
        raise RuntimeError(
            "flex_attention: BACKEND='FLASH' asks for kernels that are not part of this package"
        )
    if request.max_scores and device_type == "cpu":
        raise NotImplementedError("Returning max scores is not supported on CPU/MPS.")


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: ScoreMod | None,
    block_mask: BlockMask | None,
    scale: float,
    request: AuxRequest,
) -> tuple[Tensor, AuxOutput]:
    """Compute the output and the requested extras, one tile of queries at a time."""
    precision = float64 if query.dtype is float64 else float32
    key, value = key.to(precision).transpose(-2, -1), value.to(query.dtype)
    length, keys = query.size(-2), key.size(-1)
    parts: list[tuple[Tensor, Tensor | None, Tensor | None]] = []
    for rows, columns in _tiles(query.size(0) * query.size(1), length, keys, block_mask):
        tile = query if len(rows) == length else query[:, :, rows.start : rows.stop]
        if not columns:
            nothing = tile.new_full(tile.shape[:-1], -math.inf, dtype=precision)
            output = tile.new_zeros((*tile.shape[:-1], value.size(-1)))
            parts.append((output, nothing if request.lse else None, nothing if request.max_scores else None))
            continue
        scores = _product(tile.to(precision), _chosen(key, -1, columns)) * scale
        scores = _changed(scores, rows, columns, score_mod, block_mask)
        parts.append(_weighted(scores, _chosen(value, -2, columns), request))
    outputs, *beside = (_joined_rows(several) for several in zip(*parts, strict=True))
    # PyTorch has None for results without elements.
    return cast("Tensor", outputs), AuxOutput(
        *(None if extra is None or not extra.numel() else extra for extra in beside)
    )


def _joined_rows(several: tuple[Tensor | None, ...]) -> Tensor | None:
    """Concatenate the tiles of queries; None if the value was not requested."""
    first = several[0]
    return first if first is None or len(several) == 1 else _ops.cat(cast("Sequence[Tensor]", several), 2)


def _tiles(
    batch_and_heads: int, length: int, keys: int, block_mask: BlockMask | None
) -> Iterator[tuple[range, list[range]]]:
    """Yield ranges of queries, each with the ranges of keys that it needs.

    With few scores there is one tile of all queries and keys.
    """
    max_elements = block_masks.TILE_ELEMENTS // max(1, batch_and_heads)
    if length * keys <= max_elements:
        yield range(length), [range(keys)]
    elif block_mask is None or max(block_mask.BLOCK_SIZE) >= _WHOLE:
        step = max(1, max_elements // keys)
        for start in range(0, length, step):
            yield range(start, min(start + step, length)), [range(keys)]
    else:
        yield from _sparse_tiles(max_elements, length, keys, block_mask)


def _sparse_tiles(
    max_elements: int, length: int, keys: int, block_mask: BlockMask
) -> Iterator[tuple[range, list[range]]]:
    """Yield tiles of block rows: merge rows while that adds few scores, and split a row with too many."""
    height, width = block_mask.BLOCK_SIZE
    occupied = block_mask.occupied_columns()
    first = 0
    while first < len(occupied):
        columns, needed, last = set(occupied[first]), len(occupied[first]), first + 1
        while last < len(occupied):
            together = columns | set(occupied[last])
            added = needed + len(occupied[last])
            blocks = (last + 1 - first) * len(together)
            if blocks * height * width > max_elements or blocks > 2 * added:
                break
            columns, needed, last = together, added, last + 1
        ranges = _joined(sorted(columns), width, keys)
        stop = min(last * height, length)
        step = max(1, max_elements // max(1, sum(map(len, ranges))))
        for start in range(first * height, stop, step):
            yield range(start, min(start + step, stop)), ranges
        first = last


def _joined(columns: list[int], width: int, keys: int) -> list[range]:
    """Return the keys of these columns of blocks, with adjacent columns merged into one range."""
    ranges: list[range] = []
    for column in columns:
        start, stop = column * width, min((column + 1) * width, keys)
        if ranges and ranges[-1].stop == start:
            ranges[-1] = range(ranges[-1].start, stop)
        elif start < stop:
            ranges.append(range(start, stop))
    return ranges


def _chosen(tensor: Tensor, dim: int, ranges: list[range]) -> Tensor:
    """Select ranges of a dimension; a single range is a view."""
    several = [tensor.narrow(dim, each.start, len(each)) for each in ranges]
    return several[0] if len(several) == 1 else _ops.cat(several, dim)


def _product(left: Tensor, right: Tensor) -> Tensor:
    """Compute a batched matmul by heads; one head of the right operand may serve several of the left (GQA)."""
    heads, kv_heads = left.size(1), right.size(1)
    if heads == kv_heads:
        return left @ right
    grouped = left.reshape(left.size(0), kv_heads, heads // kv_heads * left.size(2), left.size(3))
    return (grouped @ right).reshape(*left.shape[:3], right.size(-1))


def _changed(
    scores: Tensor,
    rows: range,
    columns: list[range],
    score_mod: ScoreMod | None,
    block_mask: BlockMask | None,
) -> Tensor:
    """Apply `score_mod` to a tile of scores, and set masked scores to -inf."""
    if score_mod is None and block_mask is None:
        return scores
    device = scores.device
    b, h = (_ops.arange(size, device=device) for size in scores.shape[:2])
    q = _ops.arange(rows.start, rows.stop, device=device)
    several = [_ops.arange(each.start, each.stop, device=device) for each in columns]
    kv = several[0] if len(several) == 1 else _ops.cat(several)
    changed = scores
    if score_mod is not None:
        changed = over_indices(score_mod, takes_score=True)(scores, b, h, q, kv)
        changed = changed.to(promote_types(changed.dtype, scores.dtype))
    if block_mask is None:
        return changed
    partial, full = block_mask.grids()
    block_index = (..., (q // block_mask.BLOCK_SIZE[0]).unsqueeze(-1), kv // block_mask.BLOCK_SIZE[1])
    counts = partial[block_index]
    if block_mask.mask_mod is not noop_mask:
        counts = counts & over_indices(block_mask.mask_mod, takes_score=False)(b, h, q, kv)
    if full is not None:
        counts = counts | full[block_index]
    return _ops.where(counts, changed, -math.inf)


def _weighted(
    scores: Tensor, value: Tensor, request: AuxRequest
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Compute softmax(scores) @ value and the requested extras. Fully masked queries give zeros."""
    row_max = scores.detach().amax(-1)
    empty = row_max == -math.inf
    # A row of only -inf has no finite softmax, and its gradient would be NaN.
    scores = scores.masked_fill(empty.unsqueeze(-1), 0.0)
    output = _product(_ops.softmax(scores, -1).to(value.dtype), value).masked_fill(empty.unsqueeze(-1), 0.0)
    sums = _ops.logsumexp(scores, -1).masked_fill(empty, -math.inf) if request.lse else None
    return output, sums, row_max if request.max_scores else None


def _in_order_of(query: Tensor, output: Tensor) -> Tensor:
    """Return the output in the dimension order of `query`'s strides, with the last dimension contiguous."""
    strides = query.stride()
    order = [*sorted(range(3), key=lambda dim: -strides[dim]), 3]
    if order == [0, 1, 2, 3]:
        return output.contiguous()
    back = sorted(range(4), key=order.__getitem__)
    return output.permute(order).contiguous().permute(back)
