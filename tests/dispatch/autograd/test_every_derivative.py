"""Every row of `derivatives.yaml` agrees with finite differences in backward and forward mode."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import triten as tt

ROWS = re.findall(
    r"^- name: ([\w.]+)\(",
    (Path(tt.__file__).parent / "dispatch" / "derivatives.yaml").read_text(),
    re.MULTILINE,
)


class Leaf:
    """Differentiable float64 input, with values evenly spread over a range in a random order."""

    def __init__(self, *shape: int, low: float = -2.0, high: float = 2.0, complex: bool = False) -> None:
        self.shape, self.low, self.high, self.complex = shape, low, high, complex

    def make(self, seed: int, other: int = 0) -> tt.Tensor:
        rng = np.random.default_rng([other, seed] if other else seed)
        count = int(np.prod(self.shape))
        # Far enough from each other, from zero and from whole numbers for differences to be smooth.
        values = self.low + (self.high - self.low) * (rng.permutation(count) + 0.37 + 0.05 * seed) / max(
            count, 1
        )
        return tt.tensor(values.reshape(self.shape), dtype=tt.float64).requires_grad_()


L = Leaf
M = L(3, 4)
POSITIVE = L(3, 4, low=0.1, high=2.0)
INNER = L(3, 4, low=-0.9, high=0.9)
UPSAMPLES: dict[str, tuple[int, tuple[bool, ...]]] = {
    **{f"{kind}{r}d": (r, ()) for kind in ("upsample_nearest", "_upsample_nearest_exact") for r in (1, 2, 3)},
    "upsample_linear1d": (1, (False,)),
    "upsample_bilinear2d": (2, (True,)),
    "upsample_bicubic2d": (2, (False,)),
    "upsample_trilinear3d": (3, (False,)),
    "_upsample_bilinear2d_aa": (2, (False,)),
    "_upsample_bicubic2d_aa": (2, (False,)),
}
STEPS = tt.tensor([0.0, 1.0, 2.0, 3.0], dtype=tt.float64)
VOLUME = tt.arange(32.0, dtype=tt.float64).reshape(1, 1, 2, 4, 4)


def ints(*values: Any) -> tt.Tensor:
    return tt.tensor(values)


def mask() -> tt.Tensor:
    return tt.arange(12).reshape(3, 4) % 3 == 0


CASES: dict[str, list[Any]] = {
    "add.Tensor": [M, L(4), ("alpha", 3)],
    "sum.dim_IntList": [M, [1]],
    "mm": [M, L(4, 2)],
    "mode": [M, 1, True],
    "index_reduce": [M, 0, ints(2, 0, 2), L(3, 4), "prod"],
    "_embedding_bag": [M, ints(0, 2, 2, 1), ints(0, 1), False, 0, False, L(4), False, 1],
    "max_unpool2d": [L(1, 1, 2, 2), tt.tensor([[[[0, 3], [4, 6]]]]), [3, 3]],
    "max_unpool3d": [L(1, 1, 1, 2, 2), tt.tensor([[[[[0, 3], [4, 6]]]]]), [1, 3, 3], [1, 2, 2], [0, 0, 0]],
    "view": [M, [2, 6]],
    "_unsafe_view": [M, [2, 6]],
    "_strided_from": [M, [2, 2], [1, 4], 1],
    "expand": [L(1, 4), [3, 4]],
    "permute": [L(2, 3, 2), [2, 0, 1]],
    "transpose.int": [M, 0, 1],
    "select.int": [M, 1, 2],
    "slice.Tensor": [M, 1, 1, 4, 2],
    "_slice_first": [M, 1, 3, 1],
    "squeeze": [L(1, 3, 1)],
    "squeeze.dim": [L(1, 3, 1), 0],
    "squeeze.dims": [L(1, 3, 1), [0, 2]],
    "unsqueeze": [M, 1],
    "copy_": [M, L(4)],
    "_to_copy": [M, ("dtype", tt.float64)],
    "convolution": [L(2, 4, 5, 4), L(6, 2, 3, 2), L(6), [2, 1], [1, 0], [1, 2], False, [0, 0], 2],
    "native_layer_norm": [L(2, 3, 4), [3, 4], L(3, 4), L(3, 4), 0.3],
    "_fused_rms_norm": [L(2, 3, 4), [3, 4], L(3, 4), 0.3],
    "native_group_norm": [L(2, 4, 3), L(4), L(4), 2, 4, 3, 2, 0.3],
    "_pack_padded_sequence": [L(3, 2, 2), tt.tensor([3, 2]), False],
    "native_batch_norm": [L(3, 2, 2), L(2), L(2), None, None, True, 0.1, 0.3],
    "_native_batch_norm_legit": [
        *(L(3, 2, 2), L(2), L(2), tt.zeros(2, dtype=tt.float64), tt.ones(2, dtype=tt.float64), True, 0.1, 0.3),
    ],
    "_native_batch_norm_legit.no_stats": [L(3, 2, 2), L(2), L(2), True, 0.1, 0.3],
    "_native_batch_norm_legit_no_training": [
        *(L(3, 2, 2), L(2), L(2), tt.zeros(2, dtype=tt.float64), tt.ones(2, dtype=tt.float64), 0.1, 0.3),
    ],
    "convolution_backward_input": [L(1, 3, 3, 3), L(3, 2, 2, 2), [1, 2, 4, 4], [1, 1], [0, 0], [1, 1], 1],
    "convolution_backward_weight": [L(1, 3, 3, 3), L(1, 2, 4, 4), [3, 2, 2, 2], [1, 1], [0, 0], [1, 1], 1],
    "_convolution_backward_both": [
        *(L(1, 3, 3, 3), L(1, 2, 4, 4), L(3, 2, 2, 2), [1, 1], [0, 0], [1, 1], 1),
    ],
    "view_copy": [M, [2, 6]],
    "_strided_copy": [M, [2, 2], [1, 4], 1],
    "expand_copy": [L(1, 4), [3, 4]],
    "permute_copy": [L(2, 3, 2), [2, 0, 1]],
    "transpose_copy.int": [M, 0, 1],
    "select_copy.int": [M, 1, 2],
    "slice_copy.Tensor": [M, 1, 1, 4, 2],
    "squeeze_copy": [L(1, 3, 1)],
    "squeeze_copy.dim": [L(1, 3, 1), 0],
    "squeeze_copy.dims": [L(1, 3, 1), [0, 2]],
    "unsqueeze_copy": [M, 1],
    "diagonal_copy": [M, 1, 0, 1],
    "unfold_copy": [M, 1, 2, 1],
    "select_scatter": [M, L(3), 1, 2],
    "slice_scatter": [M, L(3, 2), 1, 1, 4, 2],
    "diagonal_scatter": [M, L(3), 1, 0, 1],
    "_strided_scatter": [M, L(2, 2), [2, 2], [1, 4], 1],
    "copy": [M, L(4)],
    "_restride": [M, [1, 3]],
    "fill.Scalar": [M, 2.0],
    "fill.Tensor": [M, L()],
    "select_backward": [L(3), [3, 4], 1, 2],
    "slice_backward": [L(3, 2), [3, 4], 1, 1, 4, 2],
    "_as_strided_backward": [L(2, 2), [3, 4], [4, 1], [2, 2], [1, 4], 1],
    "threshold_backward": [M, tt.ones(3, 4, dtype=tt.float64), 0],
    "sub.Tensor": [M, L(4), ("alpha", 3)],
    "rsub.Tensor": [M, L(4), ("alpha", 3)],
    "rsub.Scalar": [M, 2.0, 3],
    "mul.Tensor": [M, L(4)],
    "div.Tensor": [M, POSITIVE],
    "div.Tensor_mode": [M, POSITIVE, ("rounding_mode", None)],
    "remainder.Tensor": [M, L(4, low=0.6, high=0.7)],
    "remainder.Scalar": [L(3, 4, low=0.1, high=0.9), 1.0],
    "remainder.Scalar_Tensor": [1.0, L(4, low=0.6, high=0.7)],
    "fmod.Scalar": [L(3, 4, low=0.1, high=0.9), 1.0],
    "fmod.Tensor": [M, L(4, low=0.6, high=0.7)],
    **{f"{name}_.Tensor": [M, STEPS] for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    "pow.Tensor_Scalar": [M, 3],
    "pow.Tensor_Tensor": [POSITIVE, L(4)],
    "pow.Scalar": [1.5, M],
    "maximum": [M, L(3, 4, low=-1.0, high=1.1)],
    "minimum": [M, L(3, 4, low=-1.0, high=1.1)],
    "fmax": [M, L(3, 4, low=-1.0, high=1.1)],
    "fmin": [M, L(3, 4, low=-1.0, high=1.1)],
    "atan2": [M, POSITIVE],
    "round.decimals": [M, ("decimals", 1)],
    "log": [POSITIVE],
    "log1p": [POSITIVE],
    "log2": [POSITIVE],
    "log10": [POSITIVE],
    "sqrt": [POSITIVE],
    "rsqrt": [POSITIVE],
    "tan": [INNER],
    "asin": [INNER],
    "acos": [INNER],
    "acosh": [L(3, 4, low=1.2, high=3.0)],
    "atanh": [INNER],
    "gelu": [M, ("approximate", "tanh")],
    "softplus": [M, 2, 1.0],
    "leaky_relu": [M, 0.2],
    "threshold": [M, 0.1, 5.0],
    "sigmoid_backward": [M, INNER],
    "tanh_backward": [M, INNER],
    "gelu_backward": [M, L(3, 4), ("approximate", "none")],
    "silu_backward": [M, L(3, 4)],
    "softplus_backward": [M, L(3, 4), 1, 20],
    "leaky_relu_backward": [M, L(3, 4), 0.1, False],
    "clamp": [M, -1.0, 1.0],
    "clamp.Tensor": [M, L(4, low=-1.2, high=-0.4), L(4, low=0.4, high=1.2)],
    "clamp_min": [M, -0.5],
    "clamp_min.Tensor": [M, L(4, low=-1.2, high=-0.4)],
    "clamp_max": [M, 0.5],
    "clamp_max.Tensor": [M, L(4, low=0.4, high=1.2)],
    "where.self": [mask(), M, L(4)],
    "lerp.Scalar": [M, L(3, 4), 0.3],
    "lerp.Tensor": [M, L(3, 4), L(4)],
    "addcmul": [M, L(3, 4), L(4), ("value", 2)],
    "addcdiv": [M, L(3, 4), POSITIVE, ("value", 2)],
    "mean.dim": [M, [0], True],
    "prod": [L(4)],
    "prod.dim_int": [M, 1],
    "amax": [M, [1]],
    "amin": [M, [0], True],
    "aminmax": [M, ("dim", 1)],
    "max.dim": [M, 1],
    "min.dim": [M, 0, True],
    "sort": [M, 0, True],
    "sort.stable": [M, ("stable", True), ("dim", 1)],
    "topk": [M, 2, 1],
    "kthvalue": [M, 2, 1, True],
    "median": [M],
    "median.dim": [M, 1],
    "nanmedian": [M],
    "nanmedian.dim": [M, 0, True],
    "var": [M, True],
    "var.dim": [M, [1], True, True],
    "var.correction": [M, [0], ("correction", 0)],
    "std": [M, True],
    "std.dim": [M, [1], True, True],
    "std.correction": [M, [0], ("correction", 0)],
    "var_mean.correction": [M, [0], ("correction", 0)],
    "std_mean.correction": [M, [0], ("correction", 0)],
    "logsumexp": [M, [1]],
    "cumsum": [M, 1],
    "cumprod": [M, 1],
    "logcumsumexp": [M, 1],
    "cummax": [M, 1],
    "cummin": [M, 0],
    "_softmax": [M, 1, False],
    "_softmax_backward_data": [M, POSITIVE, 1, tt.float64],
    "_log_softmax": [M, 1, False],
    "_log_softmax_backward_data": [M, L(3, 4), 1, tt.float64],
    "nll_loss_forward": [M, ints(1, 0, 3), None, 1, -100],
    "_cross_entropy_forward": [M, ints(1, 0, 3), None, 1, -100, 0.2, False],
    "nll_loss_backward": [L(3), L(3, 4), ints(1, 0, 3), None, 0, -100, tt.tensor(0.0, dtype=tt.float64)],
    "nll_loss2d_forward": [L(2, 3, 2, 2), tt.ones(2, 2, 2, dtype=tt.int64), None, 1, -100],
    "nll_loss2d_backward": [
        L(2, 2, 2), L(2, 3, 2, 2), tt.ones(2, 2, 2, dtype=tt.int64), None, 0, -100, tt.tensor(0.0, dtype=tt.float64)
    ],
    "mse_loss": [M, L(3, 4), 1],
    "_huber_terms": [M, L(3, 4), 0.5],
    "binary_cross_entropy_with_logits": [M, L(3, 4, low=0.1, high=0.9)],
    "_binary_cross_entropy_terms": [L(3, 4, low=0.1, high=0.9), L(3, 4)],
    "_prelu_kernel": [M, L(4)],
    "mse_loss_backward": [M, L(3, 4), INNER, 0],
    "bmm": [L(2, 3, 2), L(2, 2, 3)],
    "mv": [M, L(4)],
    "dot": [L(4), L(4)],
    "vdot": [L(4), L(4)],
    "addmm": [L(2), M, L(4, 2), ("beta", 2), ("alpha", 3)],
    "addmv": [L(3), M, L(4), ("beta", 2), ("alpha", 3)],
    "baddbmm": [L(2, 3, 3), L(2, 3, 2), L(2, 2, 3), ("beta", 2), ("alpha", 3)],
    "addbmm": [L(3, 3), L(2, 3, 2), L(2, 2, 3), ("beta", 2), ("alpha", 3)],
    "max_pool2d_with_indices": [L(2, 1, 4, 5), [2, 2], [1, 2], [1, 0], [1, 1], False],
    "max_pool2d_with_indices_backward": [
        L(1, 1, 2, 2), tt.arange(16.0, dtype=tt.float64).reshape(1, 1, 4, 4), [2, 2], [2, 2], [0, 0], [1, 1], False,
        tt.tensor([[[[5, 7], [13, 15]]]]),
    ],
    "avg_pool2d": [L(2, 1, 4, 5), [2, 2], [1, 2], [1, 0], False, True, None],
    "avg_pool2d_backward": [
        L(1, 1, 2, 2), tt.ones(1, 1, 4, 4, dtype=tt.float64), [2, 2], [2, 2], [0, 0], False, True, None
    ],
    "max_pool3d_with_indices": [L(1, 1, 3, 4, 5), [2, 2, 2], [1, 1, 2], [0, 1, 0], [1, 1, 1], False],
    "max_pool3d_with_indices_backward": [
        L(1, 1, 1, 2, 2), VOLUME, [2, 2, 2], [2, 2, 2], [0, 0, 0], [1, 1, 1], False,
        tt.tensor([[[[[5, 7], [13, 30]]]]]),
    ],
    "avg_pool3d": [L(1, 1, 3, 4, 5), [2, 2, 2], [1, 1, 2], [1, 0, 1], True, False, None],
    "avg_pool3d_backward": [L(1, 1, 1, 2, 2), VOLUME, [2, 2, 2], [2, 2, 2], [0, 0, 0], False, True, None],
    "_adaptive_avg_pool2d": [L(2, 1, 4, 5), [3, 2]],
    "_adaptive_avg_pool2d_backward": [L(1, 1, 3, 5), tt.ones(1, 1, 4, 4, dtype=tt.float64)],
    "_adaptive_avg_pool3d": [L(1, 1, 2, 4, 5), [3, 3, 2]],
    "_adaptive_avg_pool3d_backward": [L(1, 1, 3, 3, 2), VOLUME],
    "adaptive_max_pool2d": [L(2, 1, 4, 5), [3, 2]],
    "adaptive_max_pool2d_backward": [
        L(1, 1, 2, 2), tt.ones(1, 1, 4, 4, dtype=tt.float64), tt.tensor([[[[5, 5], [13, 15]]]]),
    ],
    "adaptive_max_pool3d": [L(1, 1, 2, 4, 5), [1, 3, 2]],
    "adaptive_max_pool3d_backward": [L(1, 1, 1, 2, 2), VOLUME, tt.tensor([[[[[5, 7], [13, 30]]]]])],
    "fractional_max_pool2d": [L(1, 2, 4, 5), [2, 2], [3, 2], tt.full((1, 2, 2), 0.3, dtype=tt.float64)],
    "fractional_max_pool2d_backward": [
        L(1, 1, 2, 2), tt.ones(1, 1, 4, 4, dtype=tt.float64), [2, 2], [2, 2], tt.tensor([[[[5, 5], [13, 15]]]])
    ],
    "fractional_max_pool3d": [
        L(1, 1, 2, 4, 5), [1, 2, 2], [2, 3, 2], tt.full((1, 1, 3), 0.3, dtype=tt.float64)
    ],
    "fractional_max_pool3d_backward": [
        L(1, 1, 1, 2, 2), VOLUME, [2, 2, 2], [1, 2, 2], tt.tensor([[[[[5, 7], [13, 30]]]]])
    ],
    "constant_pad_nd": [M, [1, 2, -1, 1], 2.0],
    **{
        f"{kind}_pad{r}d": [L(*(1, 2, 3, 4, 3)[: r + 2]), [1, 2] * r]
        for kind in ("reflection", "replication")
        for r in (1, 2, 3)
    },
    **{
        f"{kind}_pad{r}d_backward": [
            L(*(1, 2, 6, 7, 6)[: r + 2]), tt.zeros((1, 2, 3, 4, 3)[: r + 2], dtype=tt.float64), [1, 2] * r
        ]
        for kind in ("reflection", "replication")
        for r in (1, 2, 3)
    },
    **{
        name: [L(*(1, 2, 3, 4, 2)[: r + 2]), [5, 3, 3][:r], *corners, *[None] * r]
        for name, (r, corners) in UPSAMPLES.items()
    },
    **{
        f"{name}_backward": [
            L(*(1, 2, 5, 3, 3)[: r + 2]), [5, 3, 3][:r], [1, 2, 3, 4, 2][: r + 2], *corners, *[None] * r
        ]
        for name, (r, corners) in UPSAMPLES.items()
    },
    "im2col": [L(1, 2, 4, 5), [2, 3], [1, 1], [1, 0], [1, 2]],
    "col2im": [L(1, 8, 6), [3, 4], [2, 2], [1, 1], [0, 0], [1, 1]],
    "grid_sampler_2d": [L(1, 2, 3, 4), L(1, 2, 2, 2), 0, 0, False],
    "grid_sampler_3d": [L(1, 2, 2, 3, 4), L(1, 2, 2, 2, 3), 0, 1, True],
    "grid_sampler_2d_backward": [L(1, 2, 2, 2), L(1, 2, 3, 4), L(1, 2, 2, 2), 0, 0, False, [True, True]],
    "grid_sampler_3d_backward": [L(1, 1, 1, 2, 2), L(1, 1, 2, 3, 4), L(1, 1, 2, 2, 3), 0, 2, True, [True, True]],
    "affine_grid_generator": [L(1, 2, 3), [1, 1, 2, 3], False],
    "_fft_r2c": None,
    "_fft_c2r": None,
    "_fft_c2c": None,
    "native_dropout_backward": [M, mask(), 2.0],
    "_select_first": [M, 1],
    "_basic_index": None,
    "_basic_index_backward": None,
    "diagonal": [M, 1, 0, 1],
    "diagonal_backward": [L(3), [3, 4], 1, 0, 1],
    "unfold": [M, 1, 2, 1],
    "cat": [[M, L(2, 4)], 0],
    "stack": [[M, M], 1],
    "roll": [M, [1, -2], [0, 1]],
    "linalg_cross": [M, L(3, 1), ("dim", 0)],
    "repeat": [M, [2, 1, 3]],
    "index.Tensor": [M, [None, ints(3, 0, 0)]],
    "index_put": [M, [ints(0, 2)], L(4)],
    "index_select": [M, 1, ints(3, 0, 0)],
    "index_add": [M, 1, ints(3, 0, 0), L(3, 3), ("alpha", 2)],
    "index_copy": [M, 1, ints(3, 0), L(3, 2)],
    "gather": [M, 1, ints([0, 3], [1, 1], [2, 0])],
    "scatter.src": [M, 1, ints([0, 3], [1, 2], [2, 0]), L(3, 2)],
    "scatter.value": [M, 1, ints([0, 3], [1, 2], [2, 0]), 5.0],
    "scatter_reduce.two": [M, 1, ints([0, 0], [1, 2], [2, 2]), L(3, 2), "mean"],
    "scatter_add": [M, 1, ints([0, 0], [1, 2], [2, 2]), L(3, 2)],
    "masked_fill.Scalar": [M, mask(), 5.0],
    "masked_fill.Tensor": [M, mask(), L()],
    "masked_select": [M, mask()],
    "take": [M, ints(3, 0, 11, 3)],
    "embedding": [L(5, 3), ints(0, 4, 4), 1],
    "embedding_dense_backward": [L(3, 2), ints(0, 4, 4), 5, -1, False],
    "flip": [M, [0, 1]],
    "copysign.Tensor": [M, L(4)],
    "copysign.Scalar": [M, -1.0],
    "hypot": [M, L(4)],
    "logaddexp": [M, L(4)],
    "logaddexp2": [M, L(4)],
    "xlogy.Tensor": [M, L(4, low=0.2)],
    "xlogy.Scalar_Self": [2.0, L(4, low=0.2)],
    "xlogy.Scalar_Other": [M, 2.0],
    "logit": [L(3, 4, low=0.1, high=0.9), 0.05],
    "logit_backward": [M, L(3, 4, low=0.1, high=0.9), None],
    "lgamma": [POSITIVE],
    "digamma": [POSITIVE],
    "polygamma": [1, POSITIVE],
    "igamma": [tt.full((3, 4), 1.5, dtype=tt.float64), L(4, low=0.2)],
    "igammac": [tt.full((3, 4), 1.5, dtype=tt.float64), L(4, low=0.2)],
    "special_zeta": [tt.full((3, 4), 2.5, dtype=tt.float64), L(4, low=0.5, high=3.0)],
    "erfinv": [INNER],
    "special_ndtri": [L(3, 4, low=0.1, high=0.9)],
    "special_entr": [POSITIVE],
    "special_xlog1py": [M, L(4, low=-0.5)],
    "tril": [M, 1],
    "triu": [M, -1],
}  # fmt: skip
"""Arguments by row; rows that are not here take one tensor."""

RANDOM = {
    "uniform_", "normal_", "log_normal_", "cauchy_", "exponential_", "geometric_", "random_.from", "random_.to",
    "random_", "bernoulli_.Tensor", "bernoulli_.float", "bernoulli", "bernoulli.p", "normal.Tensor_float",
    "normal.float_Tensor", "normal.Tensor_Tensor", "native_dropout", "uniform", "normal_functional", "log_normal",
    "cauchy", "exponential", "geometric", "random.from", "random.to", "random", "bernoulli.Tensor",
    "bernoulli.float", "_scaled_dot_product_efficient_attention", "_scaled_dot_product_efficient_attention_backward",
    "_standard_gamma", "_standard_gamma_grad", "_sample_dirichlet", "_dirichlet_grad", "poisson",
}  # fmt: skip


def attention_backward(x: tt.Tensor) -> Any:
    """Return the gradients of attention; the output and the sums belong to its operands."""
    q = x.view(1, 1, 3, 4)
    k, v = q.sin(), q.mul(0.5)
    forward = tt.ops.aten._scaled_dot_product_flash_attention_for_cpu
    backward = tt.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
    return backward(q.cos(), q, k, v, *forward(q, k, v, 0.0, True), 0.0, True)


def window_backward(x: tt.Tensor) -> Any:
    """Return the gradients of sliding-window attention, as `attention_backward` does."""
    q = x.view(1, 1, 3, 4)
    k, v = q.sin(), q.mul(0.5)
    forward, backward = tt.ops.aten._sliding_window_attn, tt.ops.aten._sliding_window_attn_backward
    return backward(q.cos(), q, k, v, *forward(q, k, v, 1, 0), 1, 0)


def gradients_of_rows(x: tt.Tensor) -> Any:
    """Return the gradients of layer norm; all arguments depend on `x` except the statistics.

    The formula itself differentiates through the statistics.
    """
    _, mean, rstd = aten.native_layer_norm.default(x.detach(), [4], None, None, 0.3)
    return aten.native_layer_norm_backward.default(x * x + x, x, [4], mean, rstd, x[0] * 2, x[1], [True] * 3)


def gradients_of_scores(x: tt.Tensor) -> Any:
    """Return the gradients of cross-entropy, as `gradients_of_rows` does."""
    labels, weight = tt.tensor([1, 0, 3]), tt.tensor([0.5, 1.0, 2.0, 0.25], dtype=tt.float64)
    given = (labels, weight)
    _, statistics, total = aten._cross_entropy_forward.default(x.detach(), *given, 1, -100, 0.2, False)
    return aten._cross_entropy_backward.default((x * x).sum(), x, *given, statistics, total, 1, -100, 0.2)


def gradients_of_roots(x: tt.Tensor) -> Any:
    _, rstd = aten._fused_rms_norm.default(x.detach(), [4], None, 0.3)
    return aten._fused_rms_norm_backward.default(x * x + x, x, [4], rstd, x[0] * 2, [True] * 2)


def gradients_of_groups(x: tt.Tensor) -> Any:
    x, sizes = x.view(1, 4, 3), (1, 4, 3, 2)
    _, mean, rstd = aten.native_group_norm.default(x.detach(), None, None, *sizes, 0.3)
    weight = x[0, :, 0] * 2
    return aten.native_group_norm_backward.default(x * x + x, x, mean, rstd, weight, *sizes, [True] * 3)


def gradients_of_channels(x: tt.Tensor) -> Any:
    x = x.view(2, 3, 2)
    _, mean, rstd = aten.native_batch_norm.default(x.detach(), None, None, None, None, True, 0.1, 0.3)
    weight, running = x[0, :, 0] * 2, tt.ones(3, dtype=tt.float64)
    trained = aten.native_batch_norm_backward.default(
        *(x * x + x, x, weight, None, None, mean, rstd, True, 0.3, [True] * 3),
    )
    fixed = aten.native_batch_norm_backward.default(
        *(x * x + x, x, weight, running, running, None, None, False, 0.3, [True] * 3),
    )
    return (*trained, *fixed)


aten = tt.ops.aten


def square(x: tt.Tensor) -> tt.Tensor:
    return x[:, :3] + 3 * tt.eye(3, dtype=tt.float64)


def positive(x: tt.Tensor) -> tt.Tensor:
    return x @ x.mT + tt.eye(3, dtype=tt.float64)


def eigenvalues_and_sizes_of_vectors(x: tt.Tensor) -> tuple[tt.Tensor, ...]:
    """Return the eigenvalues, and the absolute values of the eigenvectors, which are unique up to their
    sign.
    """
    values, vectors = tt.linalg.eigh(positive(x))
    return values, vectors.abs()


def singular_values_and_sizes_of_vectors(x: tt.Tensor) -> tuple[tt.Tensor, ...]:
    U, S, Vh = tt.linalg.svd(x, full_matrices=False)
    return U.abs(), S, Vh.abs()


ELSEWHERE = {
    # A step of one unit in the last place is lost in differences: as far from its operand as doubles go.
    "nextafter": lambda x: tt.nextafter(x, x.detach() + 1),
    "_scaled_dot_product_flash_attention_for_cpu": lambda x: (
        tt.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            x.view(1, 1, 3, 4), x.view(1, 1, 3, 4).sin(), x.view(1, 1, 3, 4), 0.0, True
        )[0]
    ),
    "_scaled_dot_product_flash_attention_for_cpu_backward": attention_backward,
    "_varlen_attn": lambda x: tt.ops.aten._varlen_attn(
        *(x.view(3, 2, 2), x.view(3, 2, 2).sin(), x.view(3, 2, 2)),
        *(tt.tensor([0, 2, 3], dtype=tt.int32), tt.tensor([0, 1, 3], dtype=tt.int32)),
        *(1, 0),
    )[0],
    "_sliding_window_attn": lambda x: tt.ops.aten._sliding_window_attn(
        x.view(1, 1, 3, 4), x.view(1, 1, 3, 4).sin(), x.view(1, 1, 3, 4), 1, 0
    )[0],
    "_sliding_window_attn_backward": window_backward,
    "native_layer_norm_backward": gradients_of_rows,
    "_cross_entropy_backward": gradients_of_scores,
    "_fused_rms_norm_backward": gradients_of_roots,
    "native_group_norm_backward": gradients_of_groups,
    "native_batch_norm_backward": gradients_of_channels,
    "_basic_index": lambda x: x[1, 2:, None],
    "_fft_r2c": lambda x: tt.view_as_real(tt.ops.aten._fft_r2c(x, [0, 1], 1, True)),
    "_fft_c2r": lambda x: tt.ops.aten._fft_c2r(tt.ops.aten._fft_r2c(x, [1], 0, True) * 1.5, [1], 2, 5),
    "_fft_c2c": lambda x: tt.view_as_real(
        tt.ops.aten._fft_c2c(tt.ops.aten._fft_r2c(x, [1], 0, True) * 1.5, [0], 1, False)
    ),
    "_sparse_compressed_tensor_unsafe": lambda x: aten._sparse_compressed_tensor_unsafe(
        ints(0, 2, 4), ints(0, 1, 1, 2), x[0], (2, 3), layout=tt.sparse_csr
    ).to_dense(),
    "_sparse_coo_tensor_with_dims_and_tensors": lambda x: tt.sparse_coo_tensor(
        ints(0, 2, 0, 1)[None], x.T, (3, 3)
    ).to_dense(),
    "values": lambda x: x.to_sparse().values(),
    "values_copy": lambda x: tt.values_copy(x.to_sparse()),
    "_coalesce": lambda x: tt.sparse_coo_tensor(ints(0, 2, 0, 1)[None], x.T, (3, 3)).coalesce().to_dense(),
    "_to_dense": lambda x: x.to_sparse().to_dense(),
    "_to_sparse.sparse_dim": lambda x: x.to_sparse(1).to_dense(),
    "_to_sparse": lambda x: x.to_sparse().to_dense(),
    "sparse_mask": lambda x: x.sparse_mask(x.detach().to_sparse()).to_dense(),
    "_sparse_sum.dim": lambda x: tt.sparse.sum(x.to_sparse(), 0).to_dense(),
    "_sparse_softmax": lambda x: tt.sparse.softmax(x.to_sparse(), 1).to_dense(),
    "_sparse_log_softmax": lambda x: tt.sparse.log_softmax(x.to_sparse(), 0).to_dense(),
    "_to_sparse_csr": lambda x: x.to_sparse_csr().to_dense(),
    "_to_sparse_csc": lambda x: x.to_sparse_csc().to_dense(),
    "_to_sparse_bsr": lambda x: x.to_sparse_bsr((3, 2)).to_dense(),
    "_to_sparse_bsc": lambda x: x.to_sparse_bsc((1, 4)).to_dense(),
    "_sparse_addmm": lambda x: aten._sparse_addmm(x[:, :3], x.to_sparse_csr(), x.mT, beta=2, alpha=3),
    "sparse_sampled_addmm": lambda x: aten.sparse_sampled_addmm(
        x.to_sparse_csr(), x @ x.mT, x, beta=2, alpha=3
    ).to_dense(),
    "_sparse_sparse_matmul": lambda x: aten._sparse_sparse_matmul(x.to_sparse(), x.mT.to_sparse()).to_dense(),
    "_sparse_mm_reduce_impl": lambda x: [
        aten._sparse_mm(x.to_sparse_csr(), x.mT.sin(), reduce) for reduce in ("sum", "mean", "amax", "amin")
    ],
    "view_as_real": lambda x: tt.view_as_real(tt.view_as_complex(x * 1.5)),
    "view_as_complex": lambda x: tt.view_as_real(tt.view_as_complex(x)),
    "view_as_real_copy": lambda x: tt.ops.aten.view_as_real_copy(tt.view_as_complex(x * 1.5)),
    "view_as_complex_copy": lambda x: tt.view_as_real(tt.ops.aten.view_as_complex_copy(x)),
    "linalg_lu_factor_ex": lambda x: tt.ops.aten.linalg_lu_factor_ex(x)[0],
    "linalg_lu_solve": lambda x: tt.linalg.lu_solve(square(x), tt.tensor([2, 3, 3], dtype=tt.int32), x),
    "linalg_cholesky_ex": lambda x: tt.linalg.cholesky(positive(x)),
    "linalg_solve_triangular": lambda x: tt.linalg.solve_triangular(square(x), x, upper=True),
    "linalg_householder_product": lambda x: tt.linalg.householder_product(x.mT, x[:, 0]),
    "ormqr": lambda x: tt.ormqr(x.mT, x[:, 0], x.mT),
    "_linalg_eigh": eigenvalues_and_sizes_of_vectors,
    "linalg_eig": lambda x: (tt.linalg.eig(square(x))[0].abs(), tt.linalg.eig(square(x))[1].abs()),
    "_linalg_svd": singular_values_and_sizes_of_vectors,
    "linalg_inv_ex": lambda x: tt.linalg.inv(square(x)),
    "_linalg_solve_ex": lambda x: tt.linalg.solve(square(x), x),
    "linalg_qr": lambda x: (*tt.linalg.qr(x.mT), *tt.linalg.qr(x)),
    "linalg_lstsq": lambda x: tt.linalg.lstsq(x.mT, x.mT[:, :2] ** 2, driver="gels")[:2],
    "_linalg_det": lambda x: tt.linalg.det(square(x)),
    "_linalg_slogdet": lambda x: tt.linalg.slogdet(square(x))[1],
    "linalg_pinv.atol_rtol_tensor": lambda x: (tt.linalg.pinv(x), tt.linalg.pinv(x.mT)),
    "linalg_matrix_exp": lambda x: tt.linalg.matrix_exp(square(x)),
    "cholesky_solve": lambda x: tt.cholesky_solve(x, tt.linalg.cholesky(positive(x))),
    "cholesky_inverse": lambda x: tt.cholesky_inverse(tt.linalg.cholesky(positive(x))),
    "segment_reduce": lambda x: [
        tt.segment_reduce(x, reduce, lengths=ints(1, 2)) for reduce in ("sum", "mean", "max", "min", "prod")
    ],
    "_ctc_loss": lambda x: tt.ops.aten._ctc_loss(x.log_softmax(1)[:, None], ints(1, 2)[None], [3], [2])[0],
    "_ctc_loss.Tensor": lambda x: tt.ops.aten._ctc_loss.Tensor(
        x.log_softmax(1)[:, None], ints(1, 1), ints(3), ints(2)
    )[0],
    "_thnn_fused_lstm_cell": lambda x: tt.ops.aten._thnn_fused_lstm_cell(x, x.sin(), x[:, 1:2], x[0], x[1])[
        :2
    ],
    "_thnn_fused_gru_cell": lambda x: tt.ops.aten._thnn_fused_gru_cell(
        x[:, :3], x[:, 1:].sin(), x[:, 1:2], x[0, :3], x[1, 1:]
    )[0],
    "_fused_rnn_layer": lambda x: [
        out
        for mode, gates in enumerate((x, x, x.repeat(1, 4), x.repeat(1, 3)))
        for out in tt.ops.aten._fused_rnn_layer(
            *(gates[None], x.sin(), x.cos() if mode == 2 else None),
            *(gates.t()[:, :1] * x[0], gates[0] if mode == 3 else None, mode),
        )[: 3 if mode == 2 else 2]
    ],
    "_cdist_forward": lambda x: (tt.cdist(x, x.flip(1) + 0.3, p=3.0), tt.cdist(x, x.flip(1) + 0.3)),
    "_pdist_forward": lambda x: tt.nn.functional.pdist(x, 3.0),
}
"""Rows that are called through others, here."""

STATISTICS_TOO = {
    *("native_layer_norm", "_fused_rms_norm", "native_group_norm", "native_batch_norm"),
    "_cross_entropy_forward",
    *(
        "_native_batch_norm_legit",
        "_native_batch_norm_legit.no_stats",
        "_native_batch_norm_legit_no_training",
    ),
}
"""Rows whose results after the first, the statistics, carry no gradient."""


def operator(row: str) -> Callable[..., Any]:
    base, _, overload = row.partition(".")
    call = getattr(getattr(tt.ops.aten, base), overload or "default")
    if base.endswith("_") and not base.endswith("__"):
        return lambda first, *rest, **named: call(first.clone(), *rest, **named)
    return call


def prepared(row: str, seed: int = 0) -> tuple[Callable[..., Any], list[Any]]:
    if row in ELSEWHERE:
        leaf = Leaf(3, 2) if "complex" in row or "real" in row else M
        return ELSEWHERE[row], [leaf.make(1, seed)]
    given = CASES.get(row) or [M]
    call = operator(row)
    named = {a[0]: a[1] for a in given if isinstance(a, tuple)}
    args: list[Any] = []
    for position, a in enumerate(given):
        if isinstance(a, Leaf):
            args.append(a.make(position + 1, seed))
        elif isinstance(a, list) and any(isinstance(e, Leaf) for e in a):
            args.append([e.make(position + i + 1, seed) for i, e in enumerate(a)])
        elif not isinstance(a, tuple):
            args.append(a)
    if row in STATISTICS_TOO:
        return (lambda *values: call(*values, **named)[0]), args
    return (lambda *values: call(*values, **named)), args


STRAIGHT_THROUGH = {
    "fake_quantize_per_tensor_affine_cachemask",
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
    "fake_quantize_per_channel_affine_cachemask",
    "_fake_quantize_learnable_per_tensor_affine",
    "_fake_quantize_learnable_per_channel_affine",
    "_fused_moving_avg_obs_fq_helper",
    "_fused_moving_avg_obs_fq_helper_functional",
}
"""Rows whose derivative is by definition not that of the steps which they compute: `tests/ops/` has them."""

UNDERIVABLE = {"mm.dtype", "bmm.dtype", "addmm.dtype", "baddbmm.dtype"} | {
    "geqrf", "embedding_renorm_", "_unique", "_unique2", "unique_dim", "unique_consecutive", "unique_dim_consecutive",
    "_varlen_attn_backward",
}  # fmt: skip
"""Rows that raise in backward."""

NO_FLOAT64 = {"_grouped_mm"}
"""Rows that take float32 at most, in which differences tell little: the tests of their kernels have them."""

REVERSE_ONLY = {"_ctc_loss", "_ctc_loss.Tensor", "segment_reduce", "_varlen_attn"} | {
    *(
        "_sparse_compressed_tensor_unsafe",
        "_to_sparse_csr",
        "_to_sparse_csc",
        "_to_sparse_bsr",
        "_to_sparse_bsc",
    ),
    *(
        "_sparse_coo_tensor_with_dims_and_tensors",
        "values",
        "values_copy",
        "_coalesce",
        "_to_dense",
        "_to_sparse.sparse_dim",
    ),
    *("_to_sparse", "sparse_mask", "_sparse_sum.dim", "_sparse_softmax", "_sparse_log_softmax"),
    *("_sparse_addmm", "sparse_sampled_addmm", "_sparse_sparse_matmul", "_sparse_mm_reduce_impl"),
}
"""Of these, as of PyTorch's, the gradient has no derivative, and there is no formula for tangents."""


@pytest.mark.parametrize(
    "row",
    [
        r
        for r in ROWS
        if r not in RANDOM | STRAIGHT_THROUGH | UNDERIVABLE | NO_FLOAT64 and r != "_basic_index_backward"
    ],
)
def test_forward_and_backward_agree_with_differences(row: str) -> None:
    function, args = prepared(row)
    assert tt.autograd.gradcheck(function, args, check_forward_ad=row not in REVERSE_ONLY)


def test_every_row_is_tried() -> None:
    assert {r for r in CASES if r not in ROWS} == set()
