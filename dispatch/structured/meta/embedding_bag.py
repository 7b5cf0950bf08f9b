"""The meta function of `_embedding_bag` (ATen/native/EmbeddingBag.cpp)."""

from __future__ import annotations

from ....runtime.scalar_type import bfloat16, float16, float32, float64, int32, int64
from ....runtime.tensor_spec import TensorSpec
from ...iterator.type_promotion import promote_types
from ..meta_base import MetaBase
from .linalg import check_same_device

SUM, MEAN, MAX = 0, 1, 2
"""The modes, by the number that the operator takes."""

FLOATS = {float16: "Half", bfloat16: "BFloat16", float32: "Float", float64: "Double"}


WRONG_INDEX = "embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be {wrong}"
WRONG_FIRST = (
    "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, "
    "got {wrong}"
)
WRONG_LAST = "offsets[-1] can not be greater than input's length {length} but got offsets[-1] of {wrong}"
WRONG_ORDER = "embedding_bag: expected offsets that do not descend, within [0, {length}], but got {wrong}"
"""Kernel error messages for indices and offsets that are invalid by value."""


def _check_type(position: int, name: str, spec: TensorSpec, allowed: str, fits: bool) -> None:
    if not fits:
        raise RuntimeError(
            f"Expected tensor for argument #{position} '{name}' to have one of the following scalar types: {allowed}; "
            f"but got {spec.dtype.scalar_name} instead (while checking arguments for embedding_bag)"
        )


def _embedding_bag(
    meta: MetaBase,
    weight: TensorSpec,
    indices: TensorSpec,
    offsets: TensorSpec,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: TensorSpec | None,
    include_last_offset: bool,
    padding_idx: int,
) -> None:
    """Infer the rows, the bag of each index, the number of rows of each bag, and with `MAX` the argmax rows.

    Rows at `padding_idx` do not count. A bag ends where the next begins; the last one ends with the indices or at the
    last offset. Later indices are in no bag, and their bag number is the number of bags.
    """
    for name, spec, rank in (("weight", weight, 2), ("input", indices, 1), ("offsets", offsets, 1)):
        if spec.ndim != rank:
            raise RuntimeError(f"{name} has to be a {rank}D Tensor, but got Tensor of dimension {spec.ndim}")
    if not SUM <= mode <= MAX:
        raise RuntimeError(f"embedding_bag: Expected mode to be 0 (sum), 1 (mean) or 2 (max), but got {mode}")
    _check_type(1, "indices", indices, "Long, Int", indices.dtype in (int64, int32))
    _check_type(1, "offsets", offsets, "Long, Int", offsets.dtype in (int64, int32))
    _check_type(1, "weight", weight, "Half, BFloat16, Float, Double", weight.dtype in FLOATS)
    check_same_device("embedding_bag", weight, indices, offsets, per_sample_weights)
    if per_sample_weights is not None:
        if mode != SUM:
            raise RuntimeError("embedding_bag: per_sample_weights only supported with mode='sum'")
        if per_sample_weights.dtype is not weight.dtype:
            raise RuntimeError(
                "Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 "
                f"'per_sample_weights'; but type {weight.dtype.scalar_name} does not equal "
                f"{per_sample_weights.dtype.scalar_name} (while checking arguments for embedding_bag)"
            )
        if per_sample_weights.sizes != indices.sizes:
            raise RuntimeError(
                "embedding_bag: Expected per_sample_weights to be a vector as long as indices, "
                f"{indices.numel}, but got sizes {list(per_sample_weights.sizes)}"
            )
    if include_last_offset and offsets.numel < 1:
        raise RuntimeError("include_last_offset: number of offset should be at least 1")
    bags, width = offsets.numel - include_last_offset, weight.sizes[1]
    dtype = promote_types(indices.dtype, offsets.dtype)
    meta.set_output_contiguous(0, (bags, width), dtype=weight.dtype, device=weight.device)
    meta.set_output_contiguous(1, (indices.numel,), dtype=dtype, device=weight.device)
    meta.set_output_contiguous(2, (bags,), dtype=dtype, device=weight.device)
    attained = (bags, width) if mode == MAX else (bags,)
    meta.set_output_contiguous(3, attained, dtype=dtype, device=weight.device)
