"""Batching rule of each operator: by name, by tag, by registration for custom operators, else the loop."""

from __future__ import annotations

from typing import Any

from ...core.operator_entry import OperatorEntry
from . import (
    attention,
    convolution,
    factories,
    factorization,
    functional_forms,
    indexing,
    linalg,
    loss,
    memory,
    normalization,
    pointwise,
    pooling,
    random,
    recurrent,
    reduction,
    resampling,
    searching,
    views,
)
from .layout import Batch, Dims, Rule
from .loop import loop, refuse_alias

_FAMILIES = (
    pointwise,
    reduction,
    views,
    linalg,
    factorization,
    indexing,
    convolution,
    pooling,
    resampling,
    loss,
    normalization,
    recurrent,
    factories,
    random,
    functional_forms,
    memory,
    attention,
    searching,
)

RULES: dict[str, Rule] = {
    f"aten::{name}": rule for family in _FAMILIES for name, rule in family.RULES.items()
}

LOOPED = {
    **dict.fromkeys(
        ("aten::_arange", "aten::_arange_", "aten::_linspace", "aten::_linspace_"),
        "fills what a factory has just made, which is never mapped",
    ),
    **dict.fromkeys(
        ("aten::mm.dtype", "aten::bmm.dtype", "aten::addmm.dtype", "aten::baddbmm.dtype"),
        "is rare: the overload without a dtype has a rule",
    ),
    "aten::_restride": "keeps strides, which belong to one example",
    "aten::nonzero_static": "counts the places of one example",
    "aten::bincount": "has as many bins as the largest number of one example asks for",
    "aten::_embedding_bag": "has bags that begin anew in each example",
    "aten::_embedding_bag_forward_only": "has bags that begin anew in each example",
    **dict.fromkeys(
        (
            "aten::_ctc_loss",
            "aten::_ctc_loss.Tensor",
            "aten::_ctc_loss_backward",
            "aten::_ctc_loss_backward.Tensor",
        ),
        "has sequences whose labels may lie one after another, and lengths of one batch among its arguments",
    ),
    **dict.fromkeys(
        ("aten::segment_reduce", "aten::_segment_reduce_backward"),
        "reduces the last dimension of its lengths, which each example may have of its own",
    ),
    **dict.fromkeys(
        ("aten::_varlen_attn", "aten::_varlen_attn_backward"),
        "has bounds of one batch among its arguments, which each example may have of its own",
    ),
    "aten::_pack_padded_sequence": "has lengths of one batch among its arguments",
    "aten::embedding_renorm": "writes rows that repeat within an example",
    "aten::_copy_from": "is what a backend from outside copies by, below the mapped dimension",
    "aten::embedding_renorm_": "writes rows that repeat within an example",
    "aten::_pdist_forward": "takes one matrix",
    "aten::linalg_lstsq": "tells by the ranks of examples whether the right-hand side is a vector",
    **dict.fromkeys(
        ("aten::_grid_sampler_taps", "aten::_grid_sampler_grid_backward", "aten::affine_grid_generator"),
        "is a part of an operator whose gradients alone need it, and has sizes of one batch among its arguments",
    ),
    **dict.fromkeys(
        ("aten::grid_sampler_2d_backward", "aten::grid_sampler_3d_backward"),
        "adds up by an index of all samples, which would need one more of the examples",
    ),
    **dict.fromkeys(
        ("aten::histogram.bin_ct", "aten::_histogramdd_bin_edges", "aten::_histogramdd_from_bin_cts"),
        "finds the outer edges of each example's bins on the host",
    ),
    **dict.fromkeys(
        ("aten::histogram.bins_tensor", "aten::_histogramdd_from_bin_tensors"),
        "counts into bins that begin anew in each example",
    ),
    **dict.fromkeys(
        ("aten::_cross_entropy_forward", "aten::_cross_entropy_backward"),
        "stands for operators with rules, of which `cross_entropy_loss` is made under a transform",
    ),
    **dict.fromkeys(
        ("aten::_fused_rnn_layer", "aten::_fused_rnn_layer_backward"),
        "stands for steps with rules, of which layers are made under a transform",
    ),
    "aten::_scaled_mm": "has scales for whole matrices and their rows",
    "aten::_int_mm": "takes two matrices, whose products no batched operator has in int32",
    "aten::_scaled_int_mm": "takes two matrices, whose products no batched operator has in int32",
    "aten::_requantized_int_mm": "takes two matrices, whose products no batched operator has in int32",
    "aten::_quantize_rows": "takes a matrix",
    **dict.fromkeys(
        (
            "aten::fake_quantize_per_channel_affine_cachemask",
            "aten::_fake_quantize_learnable_per_tensor_affine",
            "aten::_fake_quantize_learnable_per_tensor_affine_backward",
            "aten::_fake_quantize_learnable_per_channel_affine",
            "aten::_fake_quantize_learnable_per_channel_affine_backward",
            "aten::_fused_moving_avg_obs_fq_helper_functional",
        ),
        "has scales and zero points along one axis, or one of each, that examples may have of their own",
    ),
    **dict.fromkeys(
        (
            "aten::_weight_int8pack_mm",
            "aten::_weight_int4pack_mm",
            "aten::_weight_int4pack_mm_for_cpu",
            "aten::_semi_structured_mm",
            "aten::_to_sparse_semi_structured",
            "aten::_sparse_semi_structured_mm",
            "aten::_sparse_semi_structured_addmm",
            "aten::_sparse_semi_structured_linear",
            "aten::_sparse_semi_structured_tile",
            "aten::_sparse_semi_structured_apply",
            "aten::_sparse_semi_structured_apply_dense",
            "aten::_cslt_compress",
            "aten::_cslt_sparse_mm",
            "aten::_cslt_sparse_mm_search",
            "aten::_convert_weight_to_int4pack",
            "aten::_convert_weight_to_int4pack_for_cpu",
        ),
        "has a packed weight, of which models have one for all examples",
    ),
    **dict.fromkeys(
        ("aten::_grouped_mm", "aten::_scaled_grouped_mm"), "has groups of one batch among its arguments"
    ),
    "aten::_native_batch_norm_legit_functional": "is what functionalization makes of a call with a rule of its own",
}
"""Operators that run example by example, with the reason why they have no rule."""

_DYNAMIC = (
    "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over {}. "
    "tt.where and masks keep the shape."
)
_LISTS = "vmap: {} steps lists of tensors in one launch, none of which may be mapped"
_STORAGE = "vmap: {} changes the storage of a tensor, which all examples of a BatchedTensor share"

SPARSE = frozenset(
    {
        *("aten::_bsr_mm", "aten::_coalesce", "aten::_coalesced_"),
        *("aten::_convert_indices_from_coo_to_csr", "aten::_convert_indices_from_csr_to_coo"),
        *("aten::_csr_mm", "aten::_indices", "aten::_sampled_mm", "aten::_sparse_addmm"),
        *("aten::_sparse_broadcast_to", "aten::_sparse_compressed_tensor_unsafe"),
        *("aten::_sparse_coo_tensor_with_dims_and_tensors", "aten::_sparse_csr_prod.dim_dtype"),
        *("aten::_sparse_csr_sum.dim_dtype", "aten::_sparse_log_softmax"),
        *("aten::_sparse_log_softmax_backward_data", "aten::_sparse_mm_reduce_impl"),
        *("aten::_sparse_mm_reduce_impl_backward", "aten::_sparse_softmax"),
        *("aten::_sparse_softmax_backward_data", "aten::_sparse_sparse_matmul", "aten::_sparse_sum.dim"),
        *("aten::_sparse_sum_backward", "aten::_spdiags", "aten::_to_dense", "aten::_to_sparse"),
        *("aten::_to_sparse.sparse_dim", "aten::_to_sparse_bsc", "aten::_to_sparse_bsr"),
        *("aten::_to_sparse_csc", "aten::_to_sparse_csr", "aten::_values", "aten::ccol_indices"),
        *("aten::col_indices", "aten::copy_sparse_to_sparse_", "aten::crow_indices", "aten::hspmm"),
        *("aten::indices", "aten::qscheme", "aten::resize_as_sparse_", "aten::row_indices"),
        *("aten::sparse_mask", "aten::sparse_resize_", "aten::sparse_resize_and_clear_"),
        *("aten::sparse_sampled_addmm", "aten::sspaddmm", "aten::values"),
        *("aten::ccol_indices_copy", "aten::col_indices_copy", "aten::crow_indices_copy"),
        *("aten::indices_copy", "aten::row_indices_copy", "aten::values_copy"),
    }
)
"""Operators of sparse tensors alone."""

QUANTIZED = frozenset(
    {
        "aten::_empty_per_channel_affine_quantized",
        "aten::_make_per_channel_quantized_tensor",
        "aten::_make_per_tensor_quantized_tensor",
        "aten::dequantize.self",
        "aten::dequantize.tensors",
        "aten::empty_quantized",
        "aten::int_repr",
        "aten::q_per_channel_axis",
        "aten::q_per_channel_scales",
        "aten::q_per_channel_zero_points",
        "aten::q_scale",
        "aten::q_zero_point",
        "aten::quantize_per_channel",
        "aten::quantize_per_tensor",
        "aten::quantize_per_tensor.tensor_qparams",
        "aten::quantize_per_tensor.tensors",
        "aten::quantize_per_tensor_dynamic",
        "aten::quantized_batch_norm",
        "aten::quantized_max_pool1d",
        "aten::quantized_max_pool2d",
        "aten::quantized_max_pool3d",
    }
)
"""Operators of quantized tensors alone."""

REFUSED = {
    "aten::_fused_moving_avg_obs_fq_helper": "vmap: {} writes the range that was seen, which examples share",
    "aten::_batch_norm_statistics": "vmap: {} writes running statistics, which examples share",
    **dict.fromkeys(QUANTIZED, "vmap: {} takes or gives a quantized tensor, which is not mapped"),
    **dict.fromkeys(
        SPARSE, "vmap: {} takes or gives a sparse tensor, whose parts have other sizes in each example"
    ),
    "aten::_local_scalar_dense": "vmap: {} gives one number of the host, and every example has its own",
    **dict.fromkeys(
        (
            "aten::nonzero",
            "aten::_unique",
            "aten::_unique2",
            "aten::unique_dim",
            "aten::unique_consecutive",
            "aten::unique_dim_consecutive",
        ),
        _DYNAMIC,
    ),
    "aten::is_set_to": "Batching rule not implemented for {}. We could not generate a fallback: it returns a bool.",
    **dict.fromkeys(
        (
            "aten::resize_",
            "aten::resize_as_",
            "aten::set_",
            "aten::set_.source_Storage",
            "aten::set_.source_Storage_storage_offset",
            "aten::set_.source_Tensor",
            "aten::set_.source_Tensor_storage_offset",
        ),
        _STORAGE,
    ),
    **{
        f"aten::{name}{form}": _LISTS
        for name in ("_fused_sgd", "_fused_adam", "_fused_adamw")
        for form in ("", "_", ".tensor_lr", "_.tensor_lr")
    },
    **dict.fromkeys(
        (
            *("aten::_multi_tensor_norm", "aten::_multi_tensor_total_norm"),
            *("aten::_multi_tensor_pointwise", "aten::_multi_tensor_pointwise_"),
        ),
        _LISTS,
    ),
    "aten::_amp_foreach_non_finite_check_and_unscale": _LISTS,
    "aten::_amp_foreach_non_finite_check_and_unscale_": _LISTS,
}
"""Operators that cannot be mapped, with their error messages."""

UNDESCRIBABLE = {f"aten::{name}" for name in (*random.RULES, *functional_forms.DRAWS, *memory.RULES)} | {
    "aten::_ctc_loss.Tensor",
    "aten::_ctc_loss_backward.Tensor",
    "aten::_pack_padded_sequence",
    "aten::bincount",
    "aten::index.Tensor",
    "aten::index_put",
    "aten::index_put_",
}
"""Operators that skip the metadata check: random ops, arguments that are read, and operators on memory itself."""


def rule_for(op: OperatorEntry) -> tuple[Rule, bool]:
    """Return the rule of an operator, and True if its results follow from metadata. Raises RuntimeError if it has none.

    Raises RuntimeError for none.
    """
    name = op.name
    if name in REFUSED:
        raise RuntimeError(REFUSED[name].format(name))
    schema = op.schema
    if schema.out_arguments:
        refuse_alias(name)
    rule = RULES.get(name)
    if rule is not None:
        return rule, name not in UNDESCRIBABLE
    if not name.startswith("aten::"):
        return _custom, False
    if "pointwise" in op.tags:
        return pointwise.pointwise_ if schema.is_mutable else pointwise.pointwise, True
    if any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns):
        refuse_alias(name)
    return loop, name not in UNDESCRIBABLE


def _custom(batch: Batch, dims: Dims, *args: Any) -> tuple[Any, Any]:
    from .custom import custom_rule

    return custom_rule(batch, dims, *args)
