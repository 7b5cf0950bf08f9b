"""Special functions, parts of numbers, statistics without NaN, and the losses and dropouts beside them."""

from __future__ import annotations

from .arguments import DEVICE, DTYPE, B, I, T
from .samples import EXACT, ROUNDED, Sample, rows

X, ROW, POSITIVE, INNER = T(), T("b"), T(low=0.1), T(low=-0.9, high=0.9)
SHARE, DEGREE = T(low=0.1, high=0.9), T("b", low=0.0, high=5.0, grad=False)
LARGE = T("b", low=1.5, high=4.0)
POLYNOMIALS = [
    *(f"special_chebyshev_polynomial_{kind}" for kind in "tuvw"),
    *(f"special_shifted_chebyshev_polynomial_{kind}" for kind in "tuvw"),
    *("special_hermite_polynomial_h", "special_hermite_polynomial_he"),
    *("special_laguerre_polynomial_l", "special_legendre_polynomial_p"),
]
BESSEL = (
    "special_bessel_j0 special_bessel_j1 special_modified_bessel_i0 special_modified_bessel_i1 "
    "special_spherical_bessel_j0 special_airy_ai"
)
DECAYING = (
    "special_bessel_y0 special_bessel_y1 special_modified_bessel_k0 special_modified_bessel_k1 "
    "special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1"
)

STEP = T("1", low=0.1, high=0.2, dtype="float32", grad=False)
ZERO_POINT = T("1", low=1.0, high=4.0, dtype="int32", grad=False)
STEPS = T("b", low=0.1, high=0.2, dtype="float32", grad=False)
ZERO_POINTS = T("b", low=1.0, high=4.0, dtype="int32", grad=False)
ENABLED = T("1", low=1.0, high=2.0, dtype="int64", grad=False)

EDGES = T("2", low=-2.0, high=2.0)
"""One bin; where the edges descend it holds nothing."""

SAMPLES: list[Sample] = [
    *rows("hash_tensor", X, [1], dtypes="f", kind=EXACT, special=True, backward=False),
    *rows("hash_tensor", X, [], dtypes="fib", kind=EXACT, backward=False),
    *rows("_histogramdd_from_bin_cts _histogramdd_bin_edges histogramdd", T("a 2"), [3, 4],
          range=[-1.0, 1.0, -0.5, 1.5], dtypes="f", kind=EXACT, backward=False),
    *rows("histogramdd.int_bins", T("a 2"), 3, range=[-1.0, 1.0, -0.5, 1.5], dtypes="f", kind=EXACT, backward=False),
    *rows("histogram.bin_ct", X, 7, range=[-1.0, 1.0], dtypes="f", kind=EXACT, backward=False),
    *rows("histogram.bins_tensor", X, EDGES, dtypes="f", kind=EXACT, backward=False),
    *rows("_histogramdd_from_bin_tensors histogramdd.TensorList_bins", T("a 2"), [EDGES, EDGES], dtypes="f",
          kind=EXACT, backward=False),
    *rows("sgn", X, dtypes="fibc", pointwise=True, roundings=2),
    *rows("fake_quantize_per_tensor_affine fake_quantize_per_tensor_affine_cachemask", X, 0.1, 3, -4, 15, dtypes="f",
          kind=EXACT, special=True),
    *rows("fake_quantize_per_tensor_affine.tensor_qparams", X, STEP, ZERO_POINT, -4, 15, dtypes="f", kind=EXACT),
    *rows("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", X, STEP, ZERO_POINT, ENABLED, -4, 15, dtypes="f",
          kind=EXACT),
    *rows("fake_quantize_per_channel_affine fake_quantize_per_channel_affine_cachemask", T("a b"), STEPS, ZERO_POINTS,
          1, -4, 15, dtypes="f", kind=EXACT),
    *rows("_fake_quantize_learnable_per_tensor_affine", X, STEP, ZERO_POINT, -4, 15, dtypes="f", kind=EXACT),
    *rows("_fake_quantize_learnable_per_channel_affine", T("a b"), STEPS, ZERO_POINTS, 1, -4, 15, dtypes="f",
          kind=EXACT),
    *rows("fake_quantize_per_channel_affine_cachemask_backward", X, B(), dtypes="f", kind=ROUNDED),
    *rows("fake_quantize_per_tensor_affine_cachemask_backward", X, B(), dtypes="f", kind=ROUNDED),
    *rows("signbit", X, dtypes="fib", kind=EXACT, pointwise=True),
    *rows("frac _frexp_mantissa", X, dtypes="f", kind=ROUNDED),
    *rows("frexp.Tensor _frexp_exponent", X, dtypes="f", kind=EXACT, backward=False),
    *rows("copysign.Tensor", X, ROW, dtypes="fib", kind=ROUNDED, pointwise=True),
    *rows("copysign.Scalar", X, -1.0, dtypes="f", kind=ROUNDED),
    *rows("heaviside", X, ROW, dtypes="fib", kind=EXACT, backward=False, pointwise=True),
    *rows("hypot", POSITIVE, T("b", low=0.1), dtypes="f", pointwise=True, roundings=2),
    *rows("nextafter", X, ROW, dtypes="f", kind=EXACT),
    *rows("nan_to_num", X, dtypes="fibc", kind=ROUNDED, pointwise=True),
    *rows("ldexp.Tensor", X, T("b", dtype="int32", low=-3.0, high=3.0), dtypes="f", roundings=2),
    *rows("deg2rad rad2deg", X, dtypes="f", roundings=2),
    *rows("logaddexp logaddexp2", X, ROW, dtypes="f", pointwise=True, roundings=2),
    *rows("xlogy.OutTensor special_xlogy", X, T("b", low=0.3), dtypes="f", roundings=2),
    *rows("xlogy.Scalar_Other special_xlogy.other_scalar", X, 2.5, dtypes="f", roundings=2),
    *rows("xlogy.Scalar_Self special_xlogy.self_scalar", 1.5, POSITIVE, dtypes="f", roundings=2),
    *rows("logit special_logit", SHARE, dtypes="f", roundings=3),
    *rows("logit", SHARE, 0.2, dtypes="f", roundings=3),
    *rows("logit_backward", X, SHARE, dtypes="f", roundings=3),
    *rows("sinc special_sinc", T("a b", low=0.3, high=3), dtypes="f", roundings=3),  # its gradient cancels near 0
    *rows("true_divide.Tensor divide.Tensor", X, LARGE, kind=ROUNDED),
    *rows("divide.Tensor_mode", X, LARGE, rounding_mode="floor", kind=EXACT, dtypes="fib"),
    *rows("multiply.Tensor subtract.Tensor", X, LARGE, kind=ROUNDED),
    *rows("true_divide.Scalar", X, 3, kind=ROUNDED),
    *rows("float_power.Tensor_Tensor", POSITIVE, ROW, dtypes="f", roundings=2),
    *rows("float_power.Tensor_Scalar", POSITIVE, 1.5, dtypes="f", roundings=2),
    *rows("float_power.Scalar", 1.5, X, dtypes="f", roundings=2),
    *rows("angle", X, dtypes="f", roundings=2),
    *rows("complex polar", T(dtype="float32"), T(dtype="float32"), dtypes="f", roundings=2),
    *rows("lgamma digamma special_gammaln special_psi special_digamma", LARGE, dtypes="f", roundings=4),
    *rows("polygamma special_polygamma", 1, LARGE, dtypes="f", roundings=8),
    *rows("polygamma_", LARGE, 2, dtypes="f", roundings=8, backward=False),
    *rows("mvlgamma special_multigammaln", LARGE, 2, dtypes="f", roundings=8),
    *rows("igamma igammac special_gammainc special_gammaincc", T(low=0.5, grad=False), T("b", low=0.5), dtypes="f",
          roundings=8, backward=False),
    *rows("special_zeta", T(low=1.5, high=3.0, grad=False), LARGE, dtypes="w", roundings=8, backward=False),
    *rows("special_zeta.other_scalar", T(low=1.5, high=3.0, grad=False), 2.0, dtypes="w", roundings=8, backward=False),
    *rows("special_zeta.self_scalar", 2.5, LARGE, dtypes="w", roundings=8),
    *rows("erfinv special_erfinv", INNER, dtypes="f", roundings=4),
    *rows("special_ndtri", SHARE, dtypes="w", roundings=8),
    *rows("special_erf special_erfc special_ndtr", X, dtypes="f", roundings=8),
    *rows("special_erfcx special_log_ndtr", X, dtypes="w", roundings=8),
    *rows("special_entr", POSITIVE, dtypes="f", roundings=4),
    *rows("special_xlog1py", X, T("b", low=0.0), dtypes="f", roundings=2),
    *rows("special_xlog1py.other_scalar", X, 1.5, dtypes="f", roundings=2),
    *rows("special_xlog1py.self_scalar", 1.5, POSITIVE, dtypes="f", roundings=2),
    *rows("special_exp2 special_expm1 special_expit", X, dtypes="f", roundings=2),
    *rows("special_log1p", POSITIVE, dtypes="f", roundings=2),
    *rows("special_round", X, dtypes="f", kind=EXACT),
    *rows("i0 special_i0 special_i0e special_i1 special_i1e", X, dtypes="f", roundings=16, backward=False),
    *rows(BESSEL, X, dtypes="w", roundings=16, backward=False),
    *rows(DECAYING, T(low=0.5, high=4.0), dtypes="w", roundings=16, backward=False),
    *(row for name in POLYNOMIALS for row in rows(name, T(grad=False), DEGREE, dtypes="w", roundings=64,
                                                  backward=False)),
    *(row for name in POLYNOMIALS for row in rows(f"{name}.n_scalar", T(grad=False), 3, dtypes="w", roundings=64,
                                                  backward=False)),
    *(row for name in POLYNOMIALS for row in rows(f"{name}.x_scalar", 0.3, DEGREE, dtypes="w", roundings=64,
                                                  backward=False)),
    *rows("special_softmax special_log_softmax", X, 1, dtypes="f", terms="b", roundings=2),
    *rows("special_logsumexp", X, [1], dtypes="f", terms="b", roundings=2),
    *rows("nansum", X, 1, dtypes="fi", terms="b"),
    *rows("histc", X, 7, -1.0, 1.0, dtypes="f", kind=EXACT, backward=False),
    *rows("bincount", I("d", "b"), T("b", low=0.0), 9, dtypes="f", kind=EXACT, backward=False),
    *rows("quantile nanquantile", T(dtype="float32"), T("2", dtype="float32", low=0.1, high=0.9, grad=False), 1,
          dtypes="f", roundings=4),
    *rows("quantile.scalar nanquantile.scalar", T(dtype="float32"), 0.3, 1, dtypes="f", roundings=4),
    *rows("renorm", X, 2.0, 0, 1.0, dtypes="f", terms="b", roundings=4),
    *rows("linalg_vander", T("b", dtype="float32"), N=4, dtypes="f", roundings=4),
    *rows("logspace", 0, 2, 7, 10.0, dtype=DTYPE, device=DEVICE, dtypes="f", roundings=4, backward=False),
    *rows("rrelu", X, 0.25, 0.5, False, dtypes="f"),
    *rows("rrelu_with_noise", X, X, 0.25, 0.5, False, dtypes="f"),
    *rows("rrelu_with_noise_backward", X, X, X, 0.25, 0.5, False, False, dtypes="f", backward=False),
    *rows("log_sigmoid_forward", X, dtypes="f", roundings=4),
    *rows("log_sigmoid_backward", X, X, X, dtypes="f", roundings=4, backward=False),
    *rows("alpha_dropout feature_dropout feature_alpha_dropout", X, 0.4, False, dtypes="f", kind=ROUNDED),
    *rows("ctc_loss.IntList", T("6 2 a", dtype="float32", low=-3.0, high=-1.0), I("2 2", "a"), [6, 5], [2, 1],
          dtypes="f", roundings=64),
    *rows("_ctc_loss", T("6 2 a", dtype="float32", low=-3.0, high=-1.0), I("2 2", "a"), [6, 5], [2, 1],
          dtypes="f", roundings=64),
    *rows("multilabel_margin_loss", X, I("a b", "b"), dtypes="f", terms="b", roundings=4),
    *rows("multilabel_margin_loss_forward", X, I("a b", "b"), 1, dtypes="f", terms="b", roundings=4),
    *rows("multilabel_margin_loss_backward", T(""), X, I("a b", "b"), 1, X,
          dtypes="f", terms="b", roundings=4, backward=False),
    *rows("multi_margin_loss_backward", T(""), X, I("a", "b"), 1, 1.0,
          dtypes="f", terms="b", roundings=4, backward=False),
    *rows("nanmean", X, 1, dtypes="f", terms="b", roundings=2),
]  # fmt: skip
