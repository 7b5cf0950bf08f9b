"""Functions that say which scores of attention count, or change them, and the masks that they make as tensors."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from types import CellType, FunctionType
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from ...accelerator import current_accelerator
from ...dispatch.generated import functions as _ops
from ...dispatch.tensor import Tensor
from ...runtime.scalar_type import bool_

if TYPE_CHECKING:
    from ...runtime.device import DeviceLike

__all__ = ["and_masks", "create_mask", "noop_mask", "or_masks"]

MaskMod: TypeAlias = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
ScoreMod: TypeAlias = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


def over_indices(function: Callable[..., Any], *, takes_score: bool) -> Callable[..., Any]:
    """Vectorize a function of one batch, head, query and key over all four indices with `vmap`.

    With `takes_score` the function's first argument is the score, which has all four dimensions.
    """
    from ...dispatch.layers.vmap import vmap

    score = (0,) if takes_score else ()
    for position in (3, 2, 1, 0):
        indices = tuple(0 if each == position else None for each in range(4))
        function = vmap(function, in_dims=(*score, *indices))
    return function


def takes_score_first(function: Callable[..., Any]) -> bool:
    """Return whether a function is a score_mod (five required arguments) rather than a mask_mod (four).

    Raises:
        AssertionError: The function takes another number of arguments.
    """
    parameters = inspect.signature(function).parameters.values()
    count = sum(parameter.default is parameter.empty and parameter.kind in (0, 1) for parameter in parameters)
    if count not in (4, 5):
        raise AssertionError(f"Expected 4 or 5 positional args, got {count}")
    return count == 5


def captured_tensors(function: object) -> Iterator[Tensor]:
    """Yield the tensors that a function captures in its closure, and in the closures of nested functions."""
    pending, seen = [function], set()
    while pending:
        value = pending.pop()
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            pending += value
        elif isinstance(value, functools.partial):
            pending += [value.func, *value.args, *value.keywords.values()]
        elif isinstance(value, FunctionType) and id(value) not in seen:
            seen.add(id(value))
            # A cell of a name that is assigned later is empty.
            pending += [cell.cell_contents for cell in value.__closure__ or () if cell != CellType()]


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """Mask nothing (`torch.nn.attention.flex_attention.noop_mask`)."""
    return batch.new_ones((), dtype=bool_)


def sliced_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> NoReturn:
    """Raise RuntimeError: the indices of a sliced mask differ from those that `mask_mod` was written for."""
    raise RuntimeError(
        "Cannot use mask_mod from a sliced BlockMask. block_mask[...] has no mask_mod of its own: its first block is "
        "not the whole's first block. Set one that is made of the whole's, such as "
        "part.mask_mod = lambda b, h, q, kv: whole.mask_mod(b, h, q + offset, kv)."
    )


def or_masks(*mask_mods: MaskMod) -> MaskMod:
    """Combine mask functions by OR: a score is kept if any function keeps it.

    See `torch.nn.attention.flex_attention.or_masks`.

    Raises:
        RuntimeError: An argument is not callable.

    Example:
        >>> from triten.nn.attention.flex_attention import create_mask, or_masks
        >>> nearby = or_masks(lambda b, h, q, kv: q == kv, lambda b, h, q, kv: q == kv + 1)
        >>> create_mask(nearby, None, None, 3, 3, device="cpu").int()[0, 0].tolist()
        [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
    """
    if not all(map(callable, mask_mods)):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")

    def or_mask(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        masks = (mask(b, h, q_idx, kv_idx) for mask in mask_mods)
        return functools.reduce(lambda found, mask: found | mask, masks, b.new_zeros((), dtype=bool_))

    return or_mask


def and_masks(*mask_mods: MaskMod) -> MaskMod:
    """Combine mask functions by AND: a score is kept if all functions keep it.

    See `torch.nn.attention.flex_attention.and_masks`.

    Raises:
        RuntimeError: An argument is not callable.

    Example:
        >>> from triten.nn.attention.flex_attention import and_masks, create_mask
        >>> window = and_masks(lambda b, h, q, kv: q >= kv, lambda b, h, q, kv: q - kv < 2)
        >>> create_mask(window, None, None, 3, 3, device="cpu").int()[0, 0].tolist()
        [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
    """
    if not all(map(callable, mask_mods)):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")

    def and_mask(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        masks = (mask(b, h, q_idx, kv_idx) for mask in mask_mods)
        return functools.reduce(lambda found, mask: found & mask, masks, b.new_ones((), dtype=bool_))

    return and_mask


def create_mask(
    mod_fn: MaskMod | ScoreMod,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: DeviceLike | None = None,
) -> Tensor:
    """Evaluate a function as a bool mask (B, H, Q_LEN, KV_LEN) (`torch.nn.attention.flex_attention.create_mask`).

    Args:
        mod_fn: a mask function of batch, head, query and key, or a score function, which takes a score before them:
            what it makes minus infinity is masked.
        B, H: The numbers of batches and heads; None is 1.
        Q_LEN, KV_LEN: The numbers of queries and keys.
        device: if None the accelerator, or the CPU without one.

    Raises AssertionError for a function of other than four or five arguments.

    Example:
        >>> from triten.nn.attention.flex_attention import create_mask
        >>> create_mask(lambda b, h, q, kv: q >= kv, None, None, 2, 3, device="cpu")
        tensor([[[[ True, False, False],
                  [ True,  True, False]]]])
    """
    device = (current_accelerator() or "cpu") if device is None else device
    return mask_of(mod_fn, 1 if B is None else B, 1 if H is None else H, range(Q_LEN), KV_LEN, device)


def mask_of(
    function: MaskMod | ScoreMod, batch: int, heads: int, rows: range, columns: int, device: DeviceLike
) -> Tensor:
    ranges = (range(batch), range(heads), rows, range(columns))
    indices = [_ops.arange(each.start, each.stop, device=device) for each in ranges]
    if not takes_score_first(function):
        mask: Tensor = over_indices(function, takes_score=False)(*indices)
        return mask
    zeros = _ops.zeros(tuple(map(len, ranges)), device=device)
    return _ops.isneginf(over_indices(function, takes_score=True)(zeros, *indices)).logical_not()
