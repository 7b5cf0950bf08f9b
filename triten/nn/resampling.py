"""Padding, interpolation, sampling at places, and windows as columns, as `torch.nn.functional` has them.

`nn.functional` re-exports these. Inputs are (N, C, *spatial).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

from ..dispatch.core.tensor_function import overridable
from ..dispatch.generated import functions as ops
from ..runtime.tensor_impl import TensorImpl
from ..runtime.user_frame import levels_to_user

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor

__all__ = [
    "affine_grid",
    "fold",
    "grid_sample",
    "interpolate",
    "pad",
    "unfold",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]

Size = int | Sequence[int]


@overridable
def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Pad the last dimensions (`torch.nn.functional.pad`).

    Args:
        input: A tensor.
        pad: The padding before and after the last dimension, then the second to last, and so on. Negative padding
            crops.
        mode: "constant", "reflect", "replicate" or "circular". All but "constant" pad the last one to three dimensions
            of (N, C, *spatial) or (C, *spatial).
        value: The value of constant padding. Default: 0.

    Returns:
        A tensor of `input`'s dtype and the padded sizes.

    Raises:
        RuntimeError: The padding is too large for the mode, or a size becomes negative.
        NotImplementedError: The mode is unknown.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.pad(tt.tensor([[1, 2, 3]]), (2, 1), "reflect").tolist()
        [[3, 2, 1, 2, 3, 2]]
    """
    return ops.pad(input, pad, mode, value)


SMOOTH = "linear | bilinear | bicubic | trilinear"
BY_RANK: dict[tuple[str, int], Callable[..., Tensor]] = {
    **{("nearest", r): getattr(ops, f"upsample_nearest{r}d") for r in (1, 2, 3)},
    **{("nearest-exact", r): getattr(ops, f"_upsample_nearest_exact{r}d") for r in (1, 2, 3)},
    ("linear", 1): ops.upsample_linear1d,
    ("bilinear", 2): ops.upsample_bilinear2d,
    ("bicubic", 2): ops.upsample_bicubic2d,
    ("trilinear", 3): ops.upsample_trilinear3d,
}
AVERAGES: dict[int, Callable[..., Tensor]] = {
    1: ops.adaptive_avg_pool1d,
    2: ops.adaptive_avg_pool2d,
    3: ops.adaptive_avg_pool3d,
}
ANTIALIASED: dict[str, Callable[..., Tensor]] = {
    "bilinear": ops._upsample_bilinear2d_aa,
    "bicubic": ops._upsample_bicubic2d_aa,
}


@overridable
def interpolate(
    input: Tensor,
    size: Size | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Resample the spatial dimensions of (N, C, *spatial) (`torch.nn.functional.interpolate`).

    Args:
        input: A floating tensor of three to five dimensions, for some modes bytes too.
        size: The spatial sizes of the result, a number or one for each dimension.
        scale_factor: Instead of `size`: by how much they grow, a number or one for each dimension.
        mode: "nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear" or "area".
        align_corners: If True, the centers of first and last elements coincide, rather than their outer edges.
        recompute_scale_factor: If True, factors are taken from the sizes, which are whole numbers.
        antialias: If True, all elements under a result are weighed where it has fewer; of "bilinear" and "bicubic".
            Default: False.

    Returns:
        A tensor of shape (N, C, *size) and of `input`'s dtype.

    Raises:
        ValueError: Sizes and options do not go together.
        NotImplementedError: The mode is one of another number of dimensions.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.interpolate(tt.tensor([[[0.0, 2.0]]]), scale_factor=2.0, mode="linear").tolist()
        [[[0.0, 0.5, 1.5, 2.0]]]
    """
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError(f"align_corners option can only be set with the interpolating modes: {SMOOTH}")
    elif align_corners is None:
        align_corners = False
    rank = input.dim() - 2
    sizes, factors = _sizes(input, rank, size, scale_factor)
    if recompute_scale_factor and size is not None:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    if (recompute_scale_factor or mode == "area") and sizes is None:
        sizes = tuple([int(n * f) for n, f in zip(input.shape[2:], factors or (), strict=True)])
        factors = None
    if antialias and not (mode in ("bilinear", "bicubic", "lanczos") and rank == 2):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor as input"
        )
    if factors is not None:
        factors = tuple([_factor(f) for f in factors])
    if mode == "area" and rank in AVERAGES:
        return AVERAGES[rank](input, sizes)
    function = None
    if isinstance(mode, str):
        function = ANTIALIASED.get(mode) if antialias else BY_RANK.get((mode, rank))
    if function is not None:
        if align_corners is None:
            return function(input, sizes, factors)
        return function(input, sizes, align_corners, factors)
    needed = {"linear": 3, "bilinear": 4, "trilinear": 5}
    if rank in (1, 2, 3) and isinstance(mode, str) and mode in needed:
        raise NotImplementedError(f"Got {rank + 2}D input, but {mode} mode needs {needed[mode]}D input")
    raise NotImplementedError(
        f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {rank + 2}D) for the modes: nearest | linear | "
        f"bilinear | bicubic | trilinear | area | nearest-exact (got {mode})"
    )


def _sizes(
    input: Tensor, rank: int, size: int | Sequence[int] | None, scale_factor: float | Sequence[float] | None
) -> tuple[tuple[int, ...] | None, tuple[float, ...] | None]:
    """Return sizes or scale factors, one of the two, for each dimension."""
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    if size is not None:
        if not isinstance(size, list | tuple):
            return (size,) * rank, None  # type: ignore[return-value]  # it is a number
        if len(size) != rank:
            spatial = list(input.shape[2:])
            raise ValueError(
                "Input and output must have the same number of spatial dimensions, but got input with spatial "
                f"dimensions of {spatial} and output size of {size}. Please provide input tensor in (N, C, d1, d2, ...,"
                "dK) format and output size in (o1, o2, ...,oK) format."
            )
        if not all(map(_is_integer, size)):
            raise TypeError(
                "expected size to be one of int or Tuple[int] or Tuple[int, int] or Tuple[int, int, int], but got size "
                f"with types {[type(n) for n in size]}"
            )
        return tuple(size), None
    if not isinstance(scale_factor, list | tuple):
        return None, (scale_factor,) * rank  # type: ignore[return-value]  # it is a number
    if len(scale_factor) != rank:
        spatial = list(input.shape[2:])
        raise ValueError(
            "Input and scale_factor must have the same number of spatial dimensions, but got input with spatial "
            f"dimensions of {spatial} and scale_factor of shape {scale_factor}. Please provide input tensor in (N, C, "
            "d1, d2, ...,dK) format and scale_factor in (s1, s2, ...,sK) format."
        )
    return None, tuple(scale_factor)


def _is_integer(value: Any) -> bool:
    if isinstance(value, TensorImpl):
        return not value.is_floating_point()
    return isinstance(value, Integral)


def _factor(value: Any) -> float:
    """Convert a scale factor to the float that the operator takes.

    Raises:
        TypeError: The value is not a number.
        RuntimeError: The value is not finite.
    """
    if isinstance(value, str | bytes | TensorImpl) or not hasattr(type(value), "__float__"):
        raise TypeError(f"interpolate(): argument 'scale_factor' must be float, not {type(value).__name__}")
    factor = float(value)
    if not math.isfinite(factor):
        raise RuntimeError(f"interpolate(): scale_factor must be finite, got {factor}")
    return factor


@overridable
def upsample(
    input: Tensor,
    size: Size | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """Call `interpolate`, whose old name this is, with a warning (`torch.nn.functional.upsample`).

    Args:
        input: A floating tensor of three to five dimensions.
        size: The spatial sizes of the result, a number or one for each dimension.
        scale_factor: Instead of `size`: by how much they grow, a number or one for each dimension.
        mode: "nearest", "linear", "bilinear", "bicubic" or "trilinear".
        align_corners: If True, the centers of first and last elements coincide, rather than their outer edges.

    Returns:
        A tensor of shape (N, C, *size).

    Example:
        >>> import triten as tt
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     tt.nn.functional.upsample(tt.ones(1, 1, 2), 3).tolist()
        [[[1.0, 1.0, 1.0]]]
    """
    warnings.warn(
        "`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.",
        stacklevel=levels_to_user(),
    )
    return interpolate(input, size, scale_factor, mode, align_corners)


@overridable
def upsample_nearest(
    input: Tensor, size: Size | None = None, scale_factor: float | Sequence[float] | None = None
) -> Tensor:
    """Interpolate by the nearest element, with a warning (`torch.nn.functional.upsample_nearest`).

    Args:
        input: A floating tensor of three to five dimensions.
        size: The spatial sizes of the result, a number or one for each dimension.
        scale_factor: Instead of `size`: by how much they grow, a number or one for each dimension.

    Returns:
        A tensor of shape (N, C, *size).

    Example:
        >>> import triten as tt
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     tt.nn.functional.upsample_nearest(tt.ones(1, 1, 2), 3).tolist()
        [[[1.0, 1.0, 1.0]]]
    """
    warnings.warn(
        "`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.",
        stacklevel=levels_to_user(),
    )
    return interpolate(input, size, scale_factor, mode="nearest")


@overridable
def upsample_bilinear(
    input: Tensor, size: Size | None = None, scale_factor: float | Sequence[float] | None = None
) -> Tensor:
    """Interpolate bilinearly with aligned corners, with a warning (`torch.nn.functional.upsample_bilinear`).

    Args:
        input: A floating tensor of shape (N, C, H, W).
        size: The spatial sizes of the result, a number or one for each dimension.
        scale_factor: Instead of `size`: by how much they grow, a number or one for each dimension.

    Returns:
        A tensor of shape (N, C, *size).

    Example:
        >>> import triten as tt
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     tt.nn.functional.upsample_bilinear(tt.ones(1, 1, 2, 2), 3).sum().item()
        9.0
    """
    warnings.warn(
        "`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.",
        stacklevel=levels_to_user(),
    )
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


INTERPOLATIONS = ("bilinear", "nearest", "bicubic")
BORDERS = ("zeros", "border", "reflection")


@overridable
def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """Sample images at given positions (`torch.nn.functional.grid_sample`).

    Args:
        input: A floating tensor of shape (N, C, H, W) or (N, C, D, H, W).
        grid: The places, of shape (N, *places, 2) or (N, *places, 3): x, y and z in [-1, 1], from one edge to the
            other.
        mode: "bilinear", "nearest" or "bicubic" (of images alone).
        padding_mode: The values outside of the input: "zeros", "border" or "reflection".
        align_corners: If True, -1 and 1 are the centers of the first and the last elements, rather than their edges.

    Returns:
        A tensor of shape (N, C, *places).

    Raises:
        ValueError: A mode is another string.
        RuntimeError: Sizes do not fit.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.grid_sample(tt.tensor([[[[1.0, 3.0]]]]), tt.zeros(1, 1, 1, 2), align_corners=False).item()
        2.0
    """
    if mode not in INTERPOLATIONS:
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'"
        )
    if padding_mode not in BORDERS:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: "
            f"'{padding_mode}'"
        )
    if align_corners is None:
        warnings.warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please "
            "specify align_corners=True if the old behavior is desired. See the documentation of grid_sample for "
            "details.",
            stacklevel=levels_to_user(),
        )
        align_corners = False
    return ops.grid_sampler(
        input, grid, INTERPOLATIONS.index(mode), BORDERS.index(padding_mode), align_corners
    )


@overridable
def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Compute the sampling grid of affine maps for `grid_sample` (`torch.nn.functional.affine_grid`).

    Args:
        theta: Matrices of shape (N, 2, 3) or (N, 3, 4).
        size: The sizes (N, C, H, W) or (N, C, D, H, W) of the result of sampling at those places.
        align_corners: As `grid_sample` has it.

    Returns:
        A tensor of shape (N, H, W, 2) or (N, D, H, W, 3).

    Raises:
        ValueError: The matrices have another shape or are not floating, or a size is not positive.
        NotImplementedError: `size` has another length.

    Example:
        >>> import triten as tt
        >>> theta = tt.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
        >>> tt.nn.functional.affine_grid(theta, (1, 1, 1, 2), align_corners=True).tolist()
        [[[[-1.0, 0.0], [1.0, 0.0]]]]
    """
    if align_corners is None:
        warnings.warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please "
            "specify align_corners=True if the old behavior is desired. See the documentation of grid_sample for "
            "details.",
            stacklevel=levels_to_user(),
        )
        align_corners = False
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    rows = {4: 2, 5: 3}.get(len(size))
    if rows is None:
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got size "
            f"{tuple(size)}."
        )
    if theta.dim() != 3 or tuple(theta.shape[-2:]) != (rows, rows + 1):
        raise ValueError(
            f"Expected a batch of {rows}D affine matrices of shape Nx{rows}x{rows + 1} for size {tuple(size)}. Got "
            f"{tuple(theta.shape)}."
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {tuple(size)}")
    if align_corners and min(size[2:]) == 1:
        warnings.warn(
            "Since version 1.3.0, affine_grid behavior has changed for unit-size grids when align_corners=True. This "
            "is not an intended use case of affine_grid. See the documentation of affine_grid for details.",
            stacklevel=levels_to_user(),
        )
    return ops.affine_grid_generator(theta, size, align_corners)


def _pair(size: Size) -> Any:
    """Return the elements of an iterable as a tuple, or a number twice; the operator rejects other values."""
    if isinstance(size, Iterable):
        return tuple(size)
    return (size, size) if isinstance(size, Integral) else size


@overridable
def unfold(
    input: Tensor, kernel_size: Size, dilation: Size = 1, padding: Size = 0, stride: Size = 1
) -> Tensor:
    """Extract each window of (N, C, H, W) as a column (`torch.nn.functional.unfold`).

    Args:
        input: A tensor of shape (N, C, H, W) or (C, H, W).
        kernel_size: The size of the windows, an int or a tuple of 2.
        dilation: The spacing of a window's elements.
        padding: Zero padding on both sides of each dimension.
        stride: The distance between windows.

    Returns:
        A tensor of shape (N, C * kh * kw, windows), or without N.

    Raises:
        RuntimeError: The input has no room for a window, or sizes do not fit.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.unfold(tt.ones(1, 2, 3, 3), 2).shape
        triten.Size([1, 8, 4])
    """
    return ops.im2col(input, _pair(kernel_size), _pair(dilation), _pair(padding), _pair(stride))


@overridable
def fold(
    input: Tensor,
    output_size: Size,
    kernel_size: Size,
    dilation: Size = 1,
    padding: Size = 0,
    stride: Size = 1,
) -> Tensor:
    """Sum columns into images, at the windows of `unfold` (`torch.nn.functional.fold`).

    Args:
        input: A tensor of shape (N, C * kh * kw, windows), or without N.
        output_size: The height and width of the images.
        kernel_size: The size of the windows, an int or a tuple of 2.
        dilation: The spacing of a window's elements.
        padding: Zero padding on both sides of each dimension.
        stride: The distance between windows.

    Returns:
        A tensor of shape (N, C, *output_size), or without N.

    Raises:
        RuntimeError: The number of windows or the columns' length does not fit.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.fold(tt.ones(1, 4, 4), (3, 3), 2)[0, 0].tolist()
        [[1.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 1.0]]
    """
    return ops.col2im(
        input, _pair(output_size), _pair(kernel_size), _pair(dilation), _pair(padding), _pair(stride)
    )
