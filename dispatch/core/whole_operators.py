"""Composites of this package that PyTorch implements as operators with kernels of their own.

A `CompositeImplicitAutograd` kernel hides its operator from the Python key: modes and subclasses see its parts. PyTorch
decomposes other operators than this package does. User-written handlers see the operators of this table whole. For the
first line's operators, handlers see the operator that PyTorch's composite calls (`dispatched_overload`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from .foreach_schemas import SCHEMAS as FOREACH

_NAMES: Final = """
chunk diag split.sizes unsafe_chunk
__ilshift__.Scalar __ilshift__.Tensor __irshift__.Scalar __irshift__.Tensor __lshift__.Scalar
__lshift__.Tensor __rshift__.Scalar __rshift__.Tensor _batch_norm_no_update _batch_norm_with_update
_batch_norm_with_update_functional _cdist_backward _cdist_backward.out _chunk_cat _chunk_cat.out
_convolution _embedding_bag_backward _embedding_bag_dense_backward
_embedding_bag_per_sample_weights_backward _fused_sdp_choice _index_put_impl_ _pdist_backward
_pdist_backward.out _pin_memory _scaled_mm_v2 _unsafe_index.Tensor _unsafe_index_put
_unsafe_masked_index _unsafe_masked_index_put_accumulate add.Scalar add_.Scalar addr addr.out addr_
allclose angle angle.out arange arange.out arange.start arange.start_out arange.start_step as_strided
as_strided_ as_strided_copy as_strided_copy.out as_strided_scatter batch_norm_backward
batch_norm_backward_elemt batch_norm_backward_reduce batch_norm_elemt batch_norm_gather_stats
batch_norm_gather_stats_with_counts batch_norm_stats batch_norm_update_stats binary_cross_entropy
binary_cross_entropy_with_logits bincount.out bitwise_and.Scalar bitwise_and.Scalar_Tensor
bitwise_and.Scalar_Tensor_out bitwise_and.Scalar_out bitwise_and_.Scalar
bitwise_left_shift.Scalar_Tensor bitwise_left_shift.Scalar_Tensor_out bitwise_left_shift.Tensor_Scalar
bitwise_left_shift.Tensor_Scalar_out bitwise_left_shift_.Tensor_Scalar bitwise_or.Scalar
bitwise_or.Scalar_Tensor bitwise_or.Scalar_Tensor_out bitwise_or.Scalar_out bitwise_or_.Scalar
bitwise_right_shift.Scalar_Tensor bitwise_right_shift.Scalar_Tensor_out
bitwise_right_shift.Tensor_Scalar bitwise_right_shift.Tensor_Scalar_out
bitwise_right_shift_.Tensor_Scalar bitwise_xor.Scalar bitwise_xor.Scalar_Tensor
bitwise_xor.Scalar_Tensor_out bitwise_xor.Scalar_out bitwise_xor_.Scalar block_diag block_diag.out
bucketize.Scalar bucketize.Scalar_out bucketize.Tensor bucketize.Tensor_out celu celu_ channel_shuffle
cholesky cholesky.out complex complex.out conj_physical.out conj_physical_ conv_tbc convolution_backward
copysign.Scalar copysign_.Scalar count_nonzero count_nonzero.dim_IntList deg2rad deg2rad.out deg2rad_
diag_embed diag_embed.out dist dist.out div.Scalar div.Scalar_mode div_.Scalar elu_backward empty_permuted eq.Scalar
eq.Scalar_out eq_.Scalar equal eye eye.m eye.m_out eye.out fill_.Tensor floor_divide.Scalar fmod.Scalar
fmod.Scalar_out fmod_.Scalar frexp.Tensor frexp.Tensor_out full full.out full_like ge.Scalar
ge.Scalar_out ge_.Scalar glu glu.out glu_backward gt.Scalar gt.Scalar_out gt_.Scalar histc histc.out huber_loss
index_fill.int_Scalar index_fill.int_Tensor index_fill_.int_Scalar index_fill_.int_Tensor
isin.Scalar_Tensor isin.Scalar_Tensor_out isin.Tensor_Scalar isin.Tensor_Scalar_out isin.Tensor_Tensor
isin.Tensor_Tensor_out isinf isnan isneginf isneginf.out isposinf isposinf.out ldexp.Tensor ldexp.out
ldexp_ le.Scalar le.Scalar_out le_.Scalar lift_fresh linalg_cross linalg_cross.out linalg_eigvals.out linalg_lu
linalg_lu.out linspace linspace.Scalar_Tensor linspace.Scalar_Tensor_out linspace.Tensor_Scalar
linspace.Tensor_Scalar_out linspace.Tensor_Tensor linspace.Tensor_Tensor_out linspace.out
log_softmax.int_out logspace logspace.Scalar_Tensor logspace.Scalar_Tensor_out logspace.Tensor_Scalar
logspace.Tensor_Scalar_out logspace.Tensor_Tensor logspace.Tensor_Tensor_out logspace.out lt.Scalar
lt.Scalar_out lt_.Scalar lu_unpack lu_unpack.out masked_scatter masked_scatter_ masked_select
masked_select.out mul.Scalar mul_.Scalar multi_margin_loss multinomial.out mvlgamma mvlgamma.out
mvlgamma_ nansum nansum.out narrow_copy narrow_copy.out ne.Scalar ne.Scalar_out ne_.Scalar new_full
nonzero.out normal.float_float normal.float_float_out ones.out pixel_shuffle pixel_unshuffle polar
polar.out polygamma_ put put_ rad2deg rad2deg.out rad2deg_ rand.out randint randint.generator
randint.generator_out randint.low randint.low_generator randint.low_generator_out randint.low_out
randint.out randint_like randint_like.Tensor randint_like.Tensor_generator randint_like.generator
randint_like.low_dtype randint_like.low_generator_dtype randperm.generator_out randperm.out range
range.out range.out_ range.step remainder.Scalar remainder.Scalar_Tensor remainder.Scalar_Tensor_out
remainder.Scalar_out remainder_.Scalar renorm renorm.out renorm_ repeat repeat_interleave.Tensor
repeat_interleave.Tensor_out roll rot90 rsub.Scalar scalar_tensor searchsorted.Scalar
searchsorted.Scalar_out smooth_l1_loss soft_margin_loss softmax.int_out
sparse_compressed_tensor.comp_plain_value sparse_compressed_tensor.comp_plain_value_size
special_chebyshev_polynomial_t.n_scalar special_chebyshev_polynomial_t.x_scalar
special_chebyshev_polynomial_u.n_scalar special_chebyshev_polynomial_u.x_scalar
special_chebyshev_polynomial_v.n_scalar special_chebyshev_polynomial_v.x_scalar
special_chebyshev_polynomial_w.n_scalar special_chebyshev_polynomial_w.x_scalar
special_hermite_polynomial_h.n_scalar special_hermite_polynomial_h.x_scalar
special_hermite_polynomial_he.n_scalar special_hermite_polynomial_he.x_scalar
special_laguerre_polynomial_l.n_scalar special_laguerre_polynomial_l.x_scalar
special_legendre_polynomial_p.n_scalar special_legendre_polynomial_p.x_scalar
special_shifted_chebyshev_polynomial_t.n_scalar special_shifted_chebyshev_polynomial_t.x_scalar
special_shifted_chebyshev_polynomial_u.n_scalar special_shifted_chebyshev_polynomial_u.x_scalar
special_shifted_chebyshev_polynomial_v.n_scalar special_shifted_chebyshev_polynomial_v.x_scalar
special_shifted_chebyshev_polynomial_w.n_scalar special_shifted_chebyshev_polynomial_w.x_scalar
special_xlog1py.other_scalar special_xlog1py.self_scalar special_zeta.other_scalar
special_zeta.self_scalar split.Tensor split_copy.Tensor split_with_sizes split_with_sizes_copy squeeze_
squeeze_.dim squeeze_.dims stack stack.out sub.Scalar sub_.Scalar t_ trace trace.out transpose_
triangular_solve triangular_solve.X unbind.int unbind_copy.int unsafe_split.Tensor
unsafe_split_with_sizes unsqueeze_ xlogy.Scalar_Other xlogy.Scalar_Self xlogy_.Scalar_Other zeros.out
_trilinear elu_backward.grad_input huber_loss_backward huber_loss_backward.out log_sigmoid_backward
log_sigmoid_backward.grad_input log_sigmoid_forward log_sigmoid_forward.output rrelu_with_noise rrelu_with_noise.out
rrelu_with_noise_ rrelu_with_noise_backward smooth_l1_loss_backward smooth_l1_loss_backward.grad_input tril_indices
tril_indices.out triu_indices triu_indices.out
"""

WHOLE: Final = frozenset(f"aten::{name}" for name in _NAMES.split()) | FOREACH.keys()
"""Operators that a handler sees as a whole, rather than as parts."""

recorders: Final[dict[str, Callable[..., Any]]] = {}
"""Functions that record an operator of this table as one node, for operators without a row of derivatives.

Autograd adds those of several views. A recorder receives the operator, the key set and all arguments.
"""
