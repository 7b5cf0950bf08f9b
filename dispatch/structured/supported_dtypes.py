"""Supported dtypes of operators, declared once for every device, with the kernel names of PyTorch's CPU errors.

The table holds operators whose dtypes no meta function checks. Kernels behind a stub are checked when a plan is made;
composites call `check_dtype`. The source is PyTorch's operator database for the CPU and CUDA. Every device supports a
dtype that only PyTorch's CPU lacks.
"""

from __future__ import annotations

from ...runtime.device import device as Device
from ...runtime.scalar_type import bool_, float32, float64
from ...runtime.scalar_type import dtype as ScalarType

__all__ = ["CPU_KERNELS", "C_NAMES", "DTYPES", "ROUNDING_NUMBERS", "check_dtype", "kernel_name"]

FLOATING = "nf"
"""Dtype classes, one letter each: ``b`` bool, ``u`` unsigned and ``i`` signed integers, ``n`` floats of 8 and 16 bits,
``f`` float32 and float64, ``c`` complex numbers.
"""

FULL_FLOATS = tuple(
    f"special_{name}"
    for name in (
        *("airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "erfcx", "hermite_polynomial_h"),
        *(
            "chebyshev_polynomial_t",
            "chebyshev_polynomial_u",
            "chebyshev_polynomial_v",
            "chebyshev_polynomial_w",
        ),
        *("hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p", "log_ndtr"),
        *("modified_bessel_i0", "modified_bessel_i1", "modified_bessel_k0", "modified_bessel_k1", "ndtri"),
        *("scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "shifted_chebyshev_polynomial_t"),
        *(
            "shifted_chebyshev_polynomial_u",
            "shifted_chebyshev_polynomial_v",
            "shifted_chebyshev_polynomial_w",
        ),
        *("spherical_bessel_j0", "zeta"),
    )
)
"""Special functions that PyTorch supports only for float32 and float64, on every device."""

DTYPES: dict[str, str] = {
    "bernoulli": "buinf",
    "binary_cross_entropy": FLOATING,
    "glu": FLOATING,
    "huber_loss": FLOATING,
    "max_pool1d": FLOATING,
    "max_unpool2d": FLOATING,
    "max_unpool3d": FLOATING,
    "multi_margin_loss": FLOATING,
    "multilabel_margin_loss": FLOATING,
    "prelu": FLOATING,
    "rrelu": FLOATING,
    "smooth_l1_loss": FLOATING,
    "threshold": "uinf",
} | dict.fromkeys(FULL_FLOATS, "f")
"""Supported dtype classes of an operator, for its operands' common dtype."""

CPU_KERNELS: dict[str, str] = {
    "_adaptive_avg_pool2d": "adaptive_avg_pool2d",
    "_upsample_bicubic2d_aa": "compute_index_ranges_weights",
    "_upsample_bilinear2d_aa": "compute_index_ranges_weights",
    "_upsample_nearest_exact1d": "compute_indices_weights_nearest",
    "_upsample_nearest_exact2d": "compute_indices_weights_nearest",
    "_upsample_nearest_exact3d": "compute_indices_weights_nearest",
    "adaptive_max_pool2d": "adaptive_max_pool2d",
    "addcmul": "addcmul_cpu_out",
    "amax": "max_values_cpu",
    "amin": "min_values_cpu",
    "bernoulli": "bernoulli_scalar_cpu_",
    "binary_cross_entropy": "binary_cross_entropy",
    "digamma": "digamma",
    "erf": "erf_vml_cpu",
    "erfc": "erfc_vml_cpu",
    "floor_divide": "div_floor_cpu",
    "grid_sampler_2d": "grid_sampler_2d_cpu_kernel_impl",
    "grid_sampler_3d": "grid_sampler3d_cpu",
    "huber_loss": "huber_cpu",
    "i0": "i0_vml_cpu",
    "lgamma": "lgamma_vml_cpu",
    "logcumsumexp": "logcumsumexp_out_cpu",
    "max": "max_all",
    "max_pool1d": "max_pool1d_impl",
    "max_unpool2d": "max_unpool2d",
    "max_unpool3d": "max_unpool3d",
    "min": "min_all",
    "multi_margin_loss": "multi_margin_loss_cpu_kernel",
    "multilabel_margin_loss": "multilabel_margin_loss_forward_out_frame",
    "nll_loss_forward": "nll_loss_out_frame",
    "normal": "normal_kernel_cpu",
    "polygamma": "polygamma",
    "randn": "normal_kernel_cpu",
    "round_decimals": "round_cpu",
    "rrelu": "rrelu_with_noise_out_cpu",
    "smooth_l1_loss": "smooth_l1_cpu",
    "softshrink": "softshrink_check",
    "trunc_divide": "div_trunc_cpu",
    "uniform": "check_uniform_bounds",
    "upsample_bicubic2d": "compute_indices_weights_cubic",
    "upsample_bilinear2d": "upsample_bilinear2d_channels_last",
    "upsample_linear1d": "compute_indices_weights_linear",
    "upsample_nearest1d": "compute_indices_weights_nearest",
    "upsample_nearest2d": "compute_indices_weights_nearest",
    "upsample_nearest3d": "compute_indices_weights_nearest",
    "upsample_trilinear3d": "compute_indices_weights_linear",
}
"""Kernel names in PyTorch's CPU errors, if they differ from the operator's name and device."""


ROUNDING_NUMBERS = frozenset({"eq", "fmod", "ge", "gt", "le", "lt", "ne", "remainder"})
"""Operators for which numbers, and 0-d host tensors, are rounded to a 16-bit common dtype.

A float16 that was made from 0.1 therefore equals 0.1. Sums, products and quotients keep a number's precision, as in
PyTorch.
"""


def kernel_name(operator: str, device_type: str) -> str:
    """Return the name in PyTorch's refusals, such as ``sigmoid_cpu``."""
    name = CPU_KERNELS.get(operator) or CPU_KERNELS.get(operator.rstrip("_"))
    if device_type == "cpu" and name is not None:
        return name
    return f"{operator.strip('_').removeprefix('special_')}_{device_type}"


C_NAMES = {
    "BFloat16": "c10::BFloat16",
    "Bool": "bool",
    "Byte": "unsigned char",
    "Char": "signed char",
    "ComplexDouble": "c10::complex<double>",
    "ComplexFloat": "c10::complex<float>",
    "Double": "double",
    "Float": "float",
    "Half": "c10::Half",
    "Int": "int",
    "Long": "long int",
    "Short": "short int",
}
"""What refusals that print C++ types call a dtype."""


def check_dtype(operator: str, dtype: ScalarType, device: Device) -> None:
    """Refuse a dtype that an operator of the table does not support.

    Raises:
        NotImplementedError: in PyTorch's words.
    """
    if _class_of(dtype) not in DTYPES[operator]:
        raise NotImplementedError(
            f"\"{kernel_name(operator, device.type)}\" not implemented for '{dtype.scalar_name}'"
        )


def _class_of(dtype: ScalarType) -> str:
    if dtype.is_floating_point:
        return "f" if dtype is float32 or dtype is float64 else "n"
    if dtype.is_complex:
        return "c"
    if dtype is bool_:
        return "b"
    return "i" if dtype.is_signed else "u"
