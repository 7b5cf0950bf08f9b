"""Table of every operator's arguments, and the reasons that excuse operators without a row.

A row names the functional overload. Its in-place and `out=` forms, found through the schemas, run with the
same arguments. Dimensions are letters (`arguments.SMALL`, `arguments.CARD`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from triten.dispatch.core.dispatcher import Dispatcher
from triten.dispatch.generated.registrations.operator_index import OPERATORS

from .arguments import D, I, T, as_scalars, map_leaves

MATH, EXACT, ROUNDED, RANDOM, SHAPE = "math", "exact", "rounded", "random", "shape"


@dataclass(frozen=True)
class Sample:
    """One call of an operator.

    Attributes:
        operator: The overload without its namespace: ``add.Tensor``.
        args, kwargs: Descriptions of the arguments (`arguments.T`, `I`, `B`, `D`) or plain values.
        kind: The comparison of results. ``math``: within the units in the last place that the CUDA Programming
            Guide promises for elementary functions. ``exact``: bitwise identical to the CPU in the same dtype.
            ``rounded``: the exact result rounded once. ``random``: the CPU's bits for the same seed, and ``ulps``
            of tolerance for a logarithm or a root of those bits. ``shape``: the values are undefined.
        terms: The dimensions whose product is the number of terms in an element's sum; "" for one term.
        roundings: The number of intermediate roundings to the dtype (composites round each step).
        dtypes: Letters of `DTYPES`.
        pointwise: If True, sizes do not matter, and the check adds 0-dimensional tensors and special values.
        special: If True, the check adds nan, infinities and negative zeros.
        backward: If True, compare gradients.
        dense: If True, the call itself names the operand's bytes, which must exist.
    """

    operator: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    kind: str = MATH
    terms: str = ""
    roundings: int = 1
    dtypes: str = "fibc"
    pointwise: bool = False
    special: bool = False
    backward: bool = True
    ulps: int = 0
    dense: bool = False

    def without_dimensions(self) -> Sample:
        """Return the same call on 0-dimensional tensors."""
        return Sample(
            self.operator,
            map_leaves(self.args, as_scalars),
            {name: map_leaves(value, as_scalars) for name, value in self.kwargs.items()},
            self.kind,
            dtypes=self.dtypes,
            pointwise=True,
            roundings=self.roundings,
            backward=self.backward,
        )


DTYPES = {
    "f": ("float32", "bfloat16", "float16", "float64"),
    "w": ("float32", "float64"),
    "i": ("int64", "int32", "uint8", "int8", "int16"),
    "b": ("bool",),
    "c": ("complex64", "complex128"),
    "u": ("uint16", "uint32", "uint64"),
    "e": ("float8_e4m3fn", "float8_e5m2"),
}


def rows(
    operators: str, *args: Any, kind: str = MATH, terms: str = "", roundings: int = 1, dtypes: str = "fibc",
    pointwise: bool = False, special: bool = False, backward: bool = True, ulps: int = 0, dense: bool = False,
    **kwargs: Any,
) -> list[Sample]:  # fmt: skip
    """Return a row for each of several operators with the same arguments."""
    return [
        Sample(
            name,
            args,
            kwargs,
            kind,
            terms,
            roundings,
            dtypes,
            pointwise,
            special or pointwise,
            backward,
            ulps,
            dense,
        )
        for name in operators.split()
    ]


WRITING_LISTS = ("_amp_foreach_non_finite_check_and_unscale", "_fused_adam", "_fused_adamw", "_fused_sgd")

FACTORISATIONS = (
    *("_least_squares", "_linalg_det", "_linalg_eigh", "_linalg_eigvals", "_linalg_slogdet"),
    *("_linalg_solve_ex", "_linalg_svd", "_lu_solve", "_lu_with_info", "cholesky", "cholesky_inverse"),
    *("cholesky_solve", "det", "geqrf", "inverse", "linalg_cholesky", "linalg_cholesky_ex", "linalg_cond"),
    *("linalg_det", "linalg_eig", "linalg_eigh", "linalg_eigvals", "linalg_eigvalsh"),
    *("linalg_householder_product", "linalg_inv", "linalg_inv_ex", "linalg_ldl_factor"),
    *("linalg_ldl_factor_ex", "linalg_ldl_solve", "linalg_lstsq", "linalg_lu", "linalg_lu_factor"),
    *("linalg_lu_factor_ex", "linalg_lu_solve", "linalg_matrix_exp", "linalg_matrix_power"),
    *("linalg_matrix_rank", "linalg_pinv", "linalg_qr", "linalg_slogdet", "linalg_solve", "linalg_solve_ex"),
    *("linalg_solve_triangular", "linalg_svd", "linalg_svdvals", "linalg_tensorinv", "linalg_tensorsolve"),
    *("logdet", "lu_solve", "lu_unpack", "matrix_exp", "matrix_power", "orgqr", "ormqr", "pinverse", "qr"),
    *("slogdet", "svd", "triangular_solve"),
)

PARTS = (
    "crow_indices_copy",
    "col_indices_copy",
    "ccol_indices_copy",
    "row_indices_copy",
    "indices_copy",
    "values_copy",
)
SPARSE = [
    *(
        name.removeprefix("aten::")
        for family, names in OPERATORS.items()
        if family.startswith("sparse_")
        for name in names
    ),
    *PARTS,
]
WITHOUT_SAMPLE = {
    **dict.fromkeys(
        FACTORISATIONS,
        "calls a library, or is made of such calls, in single and double precision: the factorisations' checks",
    ),
    **dict.fromkeys(
        ("cdist", "_cdist_forward", "_cdist_backward", "pdist", "_pdist_forward", "_pdist_backward"),
        "is made of differences and norms, which are sampled, in single and double precision",
    ),
    **dict.fromkeys(
        ("bilinear", "_trilinear", "linalg_matmul", "linalg_vander", "vander"),
        "is made of products of matrices and cumulative products alone, which are sampled",
    ),
    **dict.fromkeys(
        ("tril_indices", "triu_indices"),
        "is made of ranges, cumulative sums and repeated elements, which are sampled",
    ),
    "_linalg_check_errors": "raises an error, computes nothing",
    **dict.fromkeys(
        [f"{name}{form}" for name in WRITING_LISTS for form in ("", "_")],
        "writes lists of tensors: the optimizers' checks have it",
    ),
    **dict.fromkeys(
        (
            "_multi_tensor_norm",
            "_multi_tensor_pointwise",
            "_multi_tensor_pointwise_",
            "_multi_tensor_total_norm",
        ),
        "takes lists of tensors: the optimizers' checks have it",
    ),
    "gradient.tensorarray": "takes distances from tensors as the overload with numbers does",
    "gradient.tensorarrayint": "takes distances from tensors as the overload with numbers does",
    "_scaled_mm": "takes 8-bit floats alone, which samples do not draw",
    "_scaled_mm_v2": "calls _scaled_mm",
    "_scaled_grouped_mm": "takes 8-bit floats alone, which samples do not draw",
    "_int_mm": "takes 8-bit integers alone: the checks of products have it",
    "_scaled_int_mm": "is _int_mm with scales: its tests hold it beside the composition",
    "_requantized_int_mm": "is _int_mm with scales: its tests hold it beside the composition",
    "_quantize_rows": "is made for _scaled_int_mm: its tests hold it beside the composition",
    **dict.fromkeys(
        (
            "_fake_quantize_learnable_per_tensor_affine_backward",
            "_fake_quantize_learnable_per_channel_affine_backward",
        ),
        "adds up what pointwise operators make of each element",
    ),
    **dict.fromkeys(
        (
            "fused_moving_avg_obs_fake_quant",
            "_fused_moving_avg_obs_fq_helper",
            "_fused_moving_avg_obs_fq_helper_functional",
        ),
        "writes the range that was seen, which its tests hold beside the CPU",
    ),
    "_weight_int8pack_mm": "has a weight of 8 bits: the checks of products have it",
    "_weight_int4pack_mm": "has a packed weight: the checks of products have it",
    "_convert_weight_to_int4pack": "takes pairs of 4 bits: the checks of products have it",
    "_weight_int4pack_mm_for_cpu": "is the CPU's alone",
    "_convert_weight_to_int4pack_for_cpu": "packs for the CPU alone",
    "_grouped_mm": "has offsets that ascend and lines of whole vectors: the checks of products have it",
    **dict.fromkeys(
        (
            *(
                "_quantize_affine",
                "_dequantize_affine",
                "_requantize",
                "quantize_per_tensor",
                "quantize_per_channel",
            ),
            *("quantize_per_tensor_dynamic", "dequantize", "int_repr", "q_scale", "q_zero_point", "qscheme"),
            *("q_per_channel_scales", "q_per_channel_zero_points", "q_per_channel_axis", "empty_quantized"),
            *("_make_per_tensor_quantized_tensor", "_make_per_channel_quantized_tensor"),
            *("_empty_affine_quantized", "_empty_per_channel_affine_quantized", "quantized_batch_norm"),
            *("quantized_max_pool1d", "quantized_max_pool2d", "quantized_max_pool3d"),
        ),
        "takes or gives quantized tensors, or a quantized dtype: their tests hold it beside the CPU",
    ),
    **dict.fromkeys(
        [name.removeprefix("aten::") for name in OPERATORS["semi_structured"]],
        "has a packed matrix: the checks of products have it",
    ),
    **dict.fromkeys(SPARSE, "takes or gives sparse tensors, or their parts: the checks of sparse tensors"),
    "set_": "exchanges the storage, computes nothing",
    "is_pinned": "asks about host memory, computes nothing",
    "pin_memory": "copies into host memory, which the runtime's checks do",
    "_pin_memory": "copies into host memory, which the runtime's checks do",
    "record_stream": "tells the allocator, computes nothing: the runtime's checks have it",
    "_basic_index": "an encoding of x[...], which select, slice and unsqueeze stand for",
    "_basic_index_backward": "an encoding of the gradient of x[...], which their backward stands for",
    "_embedding_bag": "embedding_bag calls it",
    "_embedding_bag_forward_only": "computes what _embedding_bag does, which embedding_bag calls",
    "_embedding_bag_backward": "calls _embedding_bag_dense_backward",
    "_fused_sdp_choice": "names an operator, computes nothing",
    "_fused_rnn_layer": "is the CPU's alone",
    "_fused_rnn_layer_backward": "is the CPU's alone",
    "_scaled_dot_product_flash_attention_for_cpu": "is the CPU's alone",
    "_scaled_dot_product_flash_attention_for_cpu_backward": "is the CPU's alone",
    "_scaled_dot_product_efficient_attention": "is CUDA's alone: scaled_dot_product_attention calls it",
    "_scaled_dot_product_efficient_attention_backward": "is CUDA's alone: gradients of scaled_dot_product_attention",
    "_varlen_attn": "has bounds that ascend, which samples do not draw: its tests hold it beside the CPU",
    "_varlen_attn_backward": "has bounds that ascend, which samples do not draw: its tests hold it beside the CPU",
    **dict.fromkeys(
        ("_sliding_window_attn", "_sliding_window_attn_backward"),
        "takes 16-bit floats alone: the checks of sizes have it",
    ),
    **dict.fromkeys(
        [f"sym_{what}" for what in ("numel", "size", "storage_offset", "stride")],
        "asks about metadata, computes nothing",
    ),
    "_local_scalar_dense": "gives a number of the host, which item does",
    "item": "gives a number of the host, as the method does",
    "is_nonzero": "asks whether item gives a number other than 0",
    **{
        f"fft_{name}{form}": "is made of _fft_r2c, _fft_c2r and _fft_c2c, which are sampled"
        for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
        for form in ("", "2", "n")
    },
    **dict.fromkeys(("stft", "istft"), "is made of _fft_r2c, _fft_c2r and col2im, which are sampled"),
    **dict.fromkeys(("fft_fftshift", "fft_ifftshift"), "is roll, which is sampled"),
    **dict.fromkeys(
        (
            *("fft_fftfreq", "fft_rfftfreq", "hann_window", "hamming_window", "blackman_window"),
            *("bartlett_window", "kaiser_window"),
        ),
        "is made of arange and pointwise operators, which are sampled",
    ),
    **{
        f"{name}.vec": "works out sizes and calls the overload that takes them, which is sampled"
        for name in (
            *(f"{kind}{r}d" for kind in ("upsample_nearest", "_upsample_nearest_exact") for r in (1, 2, 3)),
            *("upsample_linear1d", "upsample_bilinear2d", "upsample_bicubic2d", "upsample_trilinear3d"),
            *("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"),
        )
    },
    "affine_grid_generator_backward": "is the gradient of affine_grid_generator, a product of matrices",
    **dict.fromkeys(
        ("_ctc_loss.Tensor", "_ctc_loss_backward.Tensor"),
        "reads its lengths on the host: the overload with numbers is sampled",
    ),
    **dict.fromkeys(
        [f"{layer}.data" for layer in ("lstm", "gru", "rnn_tanh", "rnn_relu")]
        + ["_pack_padded_sequence", "_pack_padded_sequence_backward", "_pad_packed_sequence"],
        "reads on the host how many sequences reach each step; the overload of whole sequences is sampled",
    ),
    "_ctc_loss_backward": "is the gradient of `_ctc_loss`, which is sampled",
    **dict.fromkeys(
        ("segment_reduce", "_segment_reduce_backward"),
        "takes lengths that add up to the data's size, which the samples' random numbers do not",
    ),
    "ctc_loss.Tensor": "reads its lengths on the host: the overload with numbers is sampled",
    "empty_permuted": "returns memory that nobody has written",
    **{
        f"{name}dropout_": "writes what the form without an underscore gives"
        for name in ("alpha_", "feature_")
    },
    "feature_alpha_dropout_": "writes what the form without an underscore gives",
    **{
        f"logspace.{form}": "the overload with numbers is sampled"
        for kind in ("Scalar_Tensor", "Tensor_Scalar", "Tensor_Tensor")
        for form in (kind, f"{kind}_out")
    },
    "logspace.out": "the overload with numbers is sampled",
    "unflatten._namedshape": "names of dimensions become numbers before any kernel",
    **dict.fromkeys(
        ("__lshift__", "__rshift__", "__ilshift__", "__irshift__"),
        "is bitwise_left_shift or bitwise_right_shift, which are sampled",
    ),
    **{
        f"bitwise_{name}{form}": "makes its number a tensor and calls the overload of tensors, which is sampled"
        for name in (
            *(f"{op}.Scalar_Tensor" for op in ("and", "or", "xor", "left_shift", "right_shift")),
            *(f"{op}{form}.Tensor_Scalar" for op in ("left_shift", "right_shift") for form in ("", "_")),
        )
        for form in ("", "_out")
    },
    **dict.fromkeys(
        [f"{name}.dtype{form}" for name in ("mm", "bmm", "addmm", "baddbmm") for form in ("", "_out")],
        "takes 16-bit floats on CUDA alone: its tests hold it beside the overload without a dtype",
    ),
    **dict.fromkeys(
        ("elu_backward", "glu_backward", "embedding_backward"),
        "is the gradient of a forward operator, which is sampled",
    ),
    **dict.fromkeys(
        ("_weight_norm", "_weight_norm_interface", "_weight_norm_interface_backward"),
        "is made of norms and pointwise operators, which are sampled",
    ),
    **dict.fromkeys(
        (
            *("dim", "size", "stride", "numel", "storage_offset", "is_contiguous", "sym_is_contiguous"),
            *("is_strides_like_format", "is_non_overlapping_and_dense", "is_same_size", "is_complex"),
            "_shape_as_tensor",
            *(
                "is_floating_point",
                "is_signed",
                "is_inference",
                "is_coalesced",
                "_nnz",
                "sparse_dim",
                "dense_dim",
            ),
        ),
        "asks about metadata, computes nothing",
    ),
    "lift_fresh": "gives a view of the whole tensor",
    "tensor_split.tensor_indices_or_sections": "reads its indices on the host: the overload with numbers is sampled",
}


def reason_without_sample(schema: Any) -> str | None:
    """Return why an overload needs no row of its own; None if it needs one."""
    types = [str(argument.type) for argument in schema.arguments]
    if any("Dimname" in text for text in types):
        return "names of dimensions become numbers before any kernel: the overload with numbers is sampled"
    if "generator" in schema.overload_name:
        return "says which generator to take: the overload that takes the default one is sampled"
    if any(
        argument.name == "to" and "Tensor" in text
        for argument, text in zip(schema.arguments, types, strict=True)
    ):
        return "takes the bound from a tensor"
    overload = f"{schema.operator_name}".removeprefix("aten::")
    if overload.startswith("_foreach_"):
        return "takes lists of tensors: the operator over one tensor is sampled"
    return WITHOUT_SAMPLE.get(overload) or WITHOUT_SAMPLE.get(overload.partition(".")[0])


def all_samples() -> list[Sample]:
    """Return the whole table, most important first; a pointwise operator without a row gets a plain one."""
    from . import (
        samples_arithmetic,
        samples_attention,
        samples_compositions,
        samples_indexing,
        samples_moving,
        samples_normalization,
        samples_numbers,
        samples_products,
        samples_recurrent,
        samples_reductions,
        samples_resampling,
        samples_sorting,
        samples_special,
        samples_windows,
    )

    tables: Iterable[list[Sample]] = (
        samples_arithmetic.SAMPLES,
        samples_reductions.SAMPLES,
        samples_windows.SAMPLES,
        samples_resampling.SAMPLES,
        samples_sorting.SAMPLES,
        samples_normalization.SAMPLES,
        samples_products.SAMPLES,
        samples_recurrent.SAMPLES,
        samples_attention.SAMPLES,
        samples_indexing.SAMPLES,
        samples_moving.SAMPLES,
        samples_numbers.SAMPLES,
        samples_compositions.SAMPLES,
        samples_special.SAMPLES,
    )
    table = [sample for each in tables for sample in each]
    return [*table, *plain_samples({sample.operator.partition(".")[0] for sample in table})]


def plain_samples(sampled: Collection[str]) -> Iterator[Sample]:
    """Yield a row for each pointwise operator that takes only tensors and has no row of its own."""
    dispatcher = Dispatcher.singleton()
    for full in sorted(name for name in dispatcher.get_all_op_names() if name.startswith("aten::")):
        entry = dispatcher.find_schema_or_throw(full)
        schema = entry.schema
        name = full.removeprefix("aten::")
        base = name.partition(".")[0]
        plain = not schema.is_mutable and all(str(a.type) == "Tensor" for a in schema.arguments)
        excused = base in sampled or reason_without_sample(schema) is not None
        if plain and not excused and "pointwise" in entry.tags:
            yield from rows(
                name, *[T() if i == 0 else T("b") for i in range(len(schema.arguments))], pointwise=True
            )


__all__ = [
    "DTYPES",
    "EXACT",
    "MATH",
    "RANDOM",
    "ROUNDED",
    "SHAPE",
    "D",
    "I",
    "Sample",
    "T",
    "all_samples",
    "rows",
]
