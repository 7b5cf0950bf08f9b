"""Autocast operator lists: a table of names by cast policy, for each device type.

Names are those of the operator registry without ``aten::``, overloads after a dot. Composite operators such as `linear`
and `matmul` are cast as a whole, before autograd records them, so that tensors saved for backward have the 16-bit
dtype. Operators in no list run in the dtype of their arguments, as in-place and ``out=`` forms do. Names that the
library does not define yet take effect when they are defined.

Source: ATen/autocast_mode.h (AT_FORALL_LOWER_PRECISION_FP and similar macros) and autocast_mode.cpp, PyTorch 2.13.
"""

from __future__ import annotations

from collections.abc import Mapping

LOWER_PRECISION_FP = "lower_precision_fp"
"""Floating-point arguments are cast to the thread's autocast dtype of the device type."""
FP32 = "fp32"
"""Floating-point arguments are cast to float32."""
FP32_SET_OPT_DTYPE = "fp32_set_opt_dtype"
"""If no ``dtype`` is given, it becomes float32; the arguments are unchanged."""
FP32_APPEND_DTYPE = "fp32_append_dtype"
"""The call uses an overload with an additional ``dtype`` argument, which is float32."""
PROMOTE = "promote"
"""Floating-point arguments are cast to the widest dtype among them."""
BANNED = "banned"
"""Refused: unsafe to autocast."""

Lists = Mapping[str, tuple[str, ...]]


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_SHARED: Lists = {
    LOWER_PRECISION_FP: _names(
        """
        _convolution.deprecated _convolution conv1d conv2d conv3d conv_tbc
        conv_transpose1d conv_transpose2d.input conv_transpose3d.input convolution
        prelu
        addmm addmv addr matmul einsum mm mv linalg_vecdot linear addbmm baddbmm bmm chain_matmul linalg_multi_dot
        _thnn_fused_lstm_cell _thnn_fused_gru_cell lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell
        _scaled_dot_product_flash_attention scaled_dot_product_attention
        """
    ),
    FP32: _names(
        """
        acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan
        pow.Tensor_Scalar pow.Tensor_Tensor pow.Scalar
        softplus layer_norm native_layer_norm rms_norm group_norm
        frobenius_norm.dim nuclear_norm nuclear_norm.dim
        cosine_similarity poisson_nll_loss cosine_embedding_loss nll_loss nll_loss2d hinge_embedding_loss kl_div
        l1_loss smooth_l1_loss huber_loss mse_loss margin_ranking_loss multilabel_margin_loss soft_margin_loss
        triplet_margin_loss multi_margin_loss binary_cross_entropy_with_logits
        dist pdist cdist renorm logsumexp
        upsample_nearest1d _upsample_nearest_exact1d upsample_nearest2d _upsample_nearest_exact2d
        upsample_nearest3d _upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d _upsample_bilinear2d_aa
        upsample_trilinear3d upsample_bicubic2d _upsample_bicubic2d_aa
        """
    ),
    FP32_SET_OPT_DTYPE: _names(
        """
        prod prod.dim_int softmax.int log_softmax.int cumprod cumsum
        linalg_vector_norm linalg_matrix_norm linalg_matrix_norm.str_ord sum sum.dim_IntList
        """
    ),
    FP32_APPEND_DTYPE: _names("norm.Scalar norm.ScalarOpt_dim"),
    PROMOTE: _names(
        "addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add"
    ),
    BANNED: _names("binary_cross_entropy"),
}

_CUDA: Lists = {
    **_SHARED,
    LOWER_PRECISION_FP: (
        *_SHARED[LOWER_PRECISION_FP],
        *_names("cudnn_convolution cudnn_convolution_transpose"),
    ),
}

_CPU: Lists = {
    LOWER_PRECISION_FP: _names(
        """
        conv1d conv1d.padding conv2d conv2d.padding conv3d conv3d.padding _convolution.deprecated conv_tbc
        conv_transpose1d conv_transpose2d.input conv_transpose3d.input
        bmm mm linalg_vecdot baddbmm addmm _addmm_activation addbmm linear matmul
        mkldnn_rnn_layer prelu scaled_dot_product_attention _native_multi_head_attention
        """
    ),
    FP32: _names(
        """
        avg_pool3d max_pool3d adaptive_avg_pool3d adaptive_max_pool3d fractional_max_pool2d fractional_max_pool3d
        max_unpool2d max_unpool3d reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d
        replication_pad3d
        grid_sampler grid_sampler_2d _grid_sampler_2d_cpu_fallback grid_sampler_3d
        polar prod prod.dim_int quantile quantile.scalar nanquantile nanquantile.scalar cdist trace view_as_complex
        binary_cross_entropy binary_cross_entropy_with_logits mse_loss cosine_embedding_loss nll_loss nll_loss2d
        hinge_embedding_loss poisson_nll_loss smooth_l1_loss cross_entropy_loss l1_loss huber_loss
        margin_ranking_loss soft_margin_loss triplet_margin_loss multi_margin_loss ctc_loss.IntList ctc_loss.Tensor
        kl_div multilabel_margin_loss multilabel_margin_loss_forward
        stft stft.center fft_fft fft_ifft fft_fft2 fft_ifft2 fft_fftn fft_ifftn fft_rfft fft_irfft fft_rfft2
        fft_irfft2 fft_rfftn fft_irfftn fft_hfft fft_ihfft
        cholesky cholesky_inverse cholesky_solve inverse lu_solve orgqr ormqr pinverse geqrf _lu_with_info qr svd
        triangular_solve
        linalg_cond linalg_cond.p_str linalg_matrix_rank linalg_matrix_rank.tol_tensor
        linalg_matrix_rank.atol_rtol_tensor linalg_matrix_rank.atol_rtol_float linalg_solve linalg_cholesky
        linalg_svdvals linalg_eigvals linalg_eigvalsh linalg_inv linalg_householder_product linalg_tensorinv
        linalg_tensorsolve linalg_qr linalg_cholesky_ex linalg_svd linalg_eig linalg_eigh linalg_lstsq linalg_inv_ex
        fake_quantize_per_tensor_affine
        """
    ),
    PROMOTE: _names("stack cat index_copy"),
}

_NOT_ON_MPS = frozenset(
    _names(
        """
        _scaled_dot_product_flash_attention _thnn_fused_lstm_cell _thnn_fused_gru_cell gru_cell rnn_tanh_cell
        rnn_relu_cell linalg_vecdot rms_norm vdot
        """
    )
)

_MPS: Lists = {
    LOWER_PRECISION_FP: (
        *(name for name in _SHARED[LOWER_PRECISION_FP] if name not in _NOT_ON_MPS),
        "_mps_convolution",
    ),
    FP32: (
        *(name for name in _SHARED[FP32] if name not in _NOT_ON_MPS and "upsample" not in name),
        "batch_norm",
    ),
    FP32_SET_OPT_DTYPE: _SHARED[FP32_SET_OPT_DTYPE],
    PROMOTE: tuple(name for name in _SHARED[PROMOTE] if name not in _NOT_ON_MPS),
}

LISTS: Mapping[str, Lists] = {
    "cpu": _CPU,
    "cuda": _CUDA,
    "mps": _MPS,
    # In PyTorch, the device types below bring their own kernels, except XPU, which has these lists; here all use them.
    "xpu": _SHARED,
    "hpu": _SHARED,
    "ipu": _SHARED,
    "xla": _SHARED,
    "privateuseone": _SHARED,
}
"""Operators by policy, for every device type that has autocast."""

REDISPATCHED = {"norm.Scalar": "norm.ScalarOpt_dtype", "norm.ScalarOpt_dim": "norm.ScalarOpt_dim_dtype"}
"""The overloads that take the ``dtype`` which `FP32_APPEND_DTYPE` adds."""
