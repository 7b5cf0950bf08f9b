"""Padding by mode, and circular padding (ATen/native/PadNd.cpp)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ...runtime.local_dispatch_key_set import modes
from ..core.mode_stack import sees_whole
from ..generated import functions as ops

if TYPE_CHECKING:
    from ..tensor import Tensor

MODES = ("reflect", "replicate", "circular", "constant")
"""In the order of ATen's `padding_mode`."""

SUPPORTED = """Supported combinations for non-constant padding:
  - 2D or 3D input: padding size = 2 (pads last dimension)
  - 3D or 4D input: padding size = 4 (pads last 2 dimensions)
  - 4D or 5D input: padding size = 6 (pads last 3 dimensions)"""


def _pad_circular(self: Tensor, pad: Sequence[int]) -> Tensor:
    """Pad each dimension circularly; negative widths crop first. The result is contiguous.

    Raises RuntimeError where none, or more than two dimensions stay as they are, and for a border longer than the
    dimension.
    """
    sizes = self._spec.sizes
    padded = len(pad) // 2
    if len(sizes) - padded not in (1, 2):
        raise RuntimeError(
            f"Invalid padding size, expected 1 or 2 non-padded dimensions, which would be equivalent to padding of "
            f"length {(len(sizes) - 1) * 2} or {(len(sizes) - 2) * 2} respectively but got {len(pad)}"
        )
    borders = [(len(sizes) - 1 - i, pad[2 * i], pad[2 * i + 1]) for i in range(padded)]
    for dim, left, right in borders:
        _check_border(sizes[dim], left, right)
    if modes and sees_whole():
        return _pad_circular_by_copies(self, borders)
    whole = out = self.contiguous()
    for dim, left, right in borders:
        length = sizes[dim] + min(left, 0) + min(right, 0)
        cropped = out.narrow(dim, max(-left, 0), length)
        parts = [cropped]
        if left > 0:
            parts.insert(0, cropped.narrow(dim, length - left, left))
        if right > 0:
            parts.append(cropped.narrow(dim, 0, right))
        out = ops.cat(parts, dim) if len(parts) > 1 else cropped
    return out if out is not whole and not _is_view(pad) else out.clone()


def _check_border(size: int, left: int, right: int) -> None:
    """Raise RuntimeError for a border that a dimension of this size cannot have."""
    if left > size or right > size:
        raise RuntimeError("Padding value causes wrapping around more than once.")
    if size + left + right < 0:
        raise RuntimeError("Negative padding value is resulting in an empty dimension")
    if max(left, right) > size + min(left, 0) + min(right, 0):
        raise RuntimeError("Padding value causes wrapping around more than once.")


def _pad_circular_by_copies(self: Tensor, borders: Sequence[tuple[int, int, int]]) -> Tensor:
    """Write the tensor and its borders into a new one, by PyTorch's operators, for a mode that sees them.

    `borders` has for each padded dimension its number, and the widths in front and behind.
    """
    sizes = list(self._spec.sizes)
    for dim, left, right in borders:
        sizes[dim] += left + right
    out = self.new_empty(sizes)
    inside, cropped = out, self
    for dim, left, right in borders:
        inside = inside.slice(dim, max(left, 0), sizes[dim] - max(right, 0), 1)
        cropped = cropped.slice(dim, max(-left, 0), self._spec.sizes[dim] - max(-right, 0), 1)
    inside.copy_(cropped)
    for dim, left, right in borders:
        size = sizes[dim]
        if left > 0:
            end = size - max(right, 0)
            out.slice(dim, 0, left, 1).copy_(out.slice(dim, end - left, end, 1))
        if right > 0:
            begin = max(left, 0)
            out.slice(dim, size - right, size, 1).copy_(out.slice(dim, begin, begin + right, 1))
    return out


def _is_view(pad: Sequence[int]) -> bool:
    return all(side <= 0 for side in pad)


def _pad_enum(self: Tensor, pad: Sequence[int], mode: int, value: float | None) -> Tensor:
    """Run `pad` with the mode as a number."""
    rank = self._spec.ndim
    if len(pad) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(pad) > rank * 2:
        raise RuntimeError(
            f"Padding length should be less than or equal to two times the input dimension but got padding length "
            f"{len(pad)} and input of dimension {rank}"
        )
    if not 0 <= mode < len(MODES):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    name = MODES[mode]
    if name == "constant":
        return ops.constant_pad_nd(self, pad, 0.0 if value is None else float(value))
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{name}" doesn\'t take in value argument')
    spatial = len(pad) // 2
    if spatial not in (1, 2, 3) or rank not in (spatial + 1, spatial + 2):
        raise NotImplementedError(
            f"Padding size {len(pad)} is not supported for {rank}D input tensor.\n{SUPPORTED}"
        )
    if name == "circular":
        return ops._pad_circular(self, pad)
    prefix = "reflection" if name == "reflect" else "replication"
    pad_function: Callable[[Tensor, Sequence[int]], Tensor] = getattr(ops, f"{prefix}_pad{spatial}d")
    return pad_function(self, pad)


def pad(self: Tensor, pad: Sequence[int], mode: str, value: float | None) -> Tensor:
    """Return `torch.nn.functional.pad`."""
    if mode not in MODES:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    return _pad_enum(self, pad, MODES.index(mode), value)
