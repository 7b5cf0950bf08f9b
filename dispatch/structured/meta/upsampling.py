"""Meta functions of interpolation (ATen/native/UpSample.h)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....runtime.tensor_spec import TensorSpec
from ..meta_base import MetaBase
from .line_maps import Kind, LineMap
from .padding import strides_like

KINDS = {
    "upsample_nearest": Kind.NEAREST,
    "_upsample_nearest_exact": Kind.NEAREST_EXACT,
    "upsample_linear": Kind.LINEAR,
    "upsample_bilinear": Kind.LINEAR,
    "upsample_trilinear": Kind.LINEAR,
    "upsample_bicubic": Kind.CUBIC,
    "_upsample_bilinear_aa": Kind.LINEAR_ANTIALIASED,
    "_upsample_bicubic_aa": Kind.CUBIC_ANTIALIASED,
}
SIDES = {1: ("width",), 2: ("height", "width"), 3: ("depth", "height", "width")}


def kind_of(name: str) -> tuple[Kind, int]:
    """Return the resampling mode of an operator, and its number of dimensions."""
    base = name.removesuffix("_backward")
    rank = next(r for r in (1, 2, 3) if f"{r}d" in base)
    return KINDS[base.replace(f"{rank}d", "")], rank


def _maps(
    name: str, input_size: Sequence[int], output_size: Sequence[int], rest: Sequence[Any]
) -> tuple[LineMap, ...]:
    """Return the checked maps of the last dimensions. Raises RuntimeError with PyTorch's messages."""
    kind, rank = kind_of(name)
    if len(output_size) != rank:
        raise RuntimeError(f"It is expected output_size equals to {rank}, but got size {len(output_size)}")
    if len(input_size) != rank + 2:
        raise RuntimeError(f"It is expected input_size equals to {rank + 2}, but got size {len(input_size)}")
    spatial = tuple(input_size[2:])
    if any(n <= 0 for n in (*spatial, *output_size)):
        sides = SIDES[rank]
        letters = {"depth": "D", "height": "H", "width": "W"}
        input_text, output_text = (
            ", ".join(f"{letters[side]}: {n}" for side, n in zip(sides, sizes, strict=True))
            for sizes in (spatial, output_size)
        )
        joined = (
            f"({input_text}) and output ({output_text})"
            if rank == 1
            else f"({input_text}) output ({output_text})"
        )
        raise RuntimeError(f"Input and output sizes should be greater than 0, but got input {joined}")
    align_corners = not kind.moves and bool(rest[0])
    # Scale factors are arguments of the call: kernels take them with `by_factors`. A call without resizing is a copy,
    # as in PyTorch.
    if rank == 2 and tuple(output_size) == spatial and (kind is Kind.NEAREST or kind.is_antialiased):
        kind = Kind.KEEP
    return tuple(
        LineMap(kind, n, out, align_corners=align_corners)
        for n, out in zip(spatial, output_size, strict=True)
    )


def upsample(meta: MetaBase, self: TensorSpec, output_size: Sequence[int], *rest: Any) -> None:
    """Infer the last one to three dimensions of (N, C, ...), resampled."""
    _, rank = kind_of(meta.name)
    maps = _maps(meta.name, self.sizes, output_size, rest)
    if 0 in self.sizes[1:]:
        raise RuntimeError(
            f"Non-empty {rank + 2}D data tensor expected but got a tensor with sizes {list(self.sizes)}"
        )
    sizes = (*self.sizes[:2], *output_size)
    meta.extra["maps"] = maps
    meta.set_output_strided(0, sizes, strides_like(self, sizes), dtype=self.dtype)


def upsample_backward(
    meta: MetaBase,
    grad_output: TensorSpec,
    output_size: Sequence[int],
    input_size: Sequence[int],
    *rest: Any,
) -> None:
    """Infer the gradient of each element: the weighted gradients of the results that have it as a tap."""
    maps = _maps(meta.name, input_size, output_size, rest)
    _, rank = kind_of(meta.name)
    expected = (*input_size[:2], *output_size)
    if grad_output.ndim != rank + 2:
        raise RuntimeError(
            f"Expected grad_output to be a tensor of dimension {rank + 2} but got: dimension {grad_output.ndim}"
        )
    if rank == 1 and grad_output.sizes != expected:
        dim = next(d for d in range(3) if grad_output.sizes[d] != expected[d])
        raise RuntimeError(
            f"Expected a tensor of dimension 3 and tensor.size[{dim}] == {expected[dim]} but got: dimension 3 and "
            f"tensor.size[{dim}] = {grad_output.sizes[dim]}"
        )
    for dim, (expected_size, size) in enumerate(zip(expected, grad_output.sizes, strict=True)):
        if expected_size != size:
            raise RuntimeError(
                f"Expected grad_output to have the same shape as output; output.size({dim}) = {expected_size} but got "
                f"grad_output.size({dim}) = {size}"
            )
    sizes = tuple(input_size)
    meta.extra["maps"] = maps
    strides = () if "bicubic" in meta.name else strides_like(grad_output, sizes)
    meta.set_output_strided(0, sizes, strides, dtype=grad_output.dtype)
