"""Every listed operator returns the dtype of its policy; the lists are PyTorch's."""

import numpy as np
import pytest

import triten as tt
from triten.dispatch.core.dispatcher import Dispatcher
from triten.dispatch.layers.autocast import lists
from triten.dispatch.layers.autocast.state import DEFAULT_DTYPES

COUNTS = {"cpu": 127, "cuda": 119, "xpu": 117, "mps": 95}


def policy_of(device, name):
    return next(policy for policy, names in lists.LISTS[device].items() if name in names)


def listed(device):
    """Return the listed operators that the library defines."""
    names = [name for names in lists.LISTS[device].values() for name in names]
    return sorted(name for name in names if Dispatcher.singleton().find_schema(f"aten::{name}"))


def randn(make, *sizes):
    return make(np.random.default_rng(sum(sizes)).random(sizes, dtype=np.float32) + 0.25)


MATRICES = {
    "addmm": [(3, 5), (3, 4), (4, 5)],
    "_addmm_activation": [(3, 5), (3, 4), (4, 5)],
    "addbmm": [(3, 5), (2, 3, 4), (2, 4, 5)],
    "baddbmm": [(2, 3, 5), (2, 3, 4), (2, 4, 5)],
    "bmm": [(2, 3, 4), (2, 4, 5)],
    "mm": [(3, 4), (4, 5)],
    "mv": [(3, 4), (4,)],
    "addmv": [(3,), (3, 4), (4,)],
    "addr": [(3, 4), (3,), (4,)],
    "matmul": [(2, 3, 4), (4, 5)],
    "linear": [(3, 4), (5, 4), (5,)],
    "dot": [(4,), (4,)],
    "vdot": [(4,), (4,)],
    "linalg_vecdot": [(4,), (4,)],
    "addcdiv": [(3,), (3,), (3,)],
    "addcmul": [(3,), (3,), (3,)],
    "atan2": [(3,), (3,)],
    "pow.Tensor_Tensor": [(3,), (3,)],
    "prelu": [(3,), (1,)],
    "cross": [(3,), (3,)],
    "dist": [(3,), (3,)],
    "cdist": [(3, 4), (2, 4)],
    "polar": [(3,), (3,)],
    "trace": [(3, 3)],
    "bilinear": [(2, 3), (2, 4), (5, 3, 4), (5,)],
    "pdist": [(3, 4)],
    "linalg_cond": [(3, 3)],
}
ONE_MATRIX = {
    *(
        "_lu_with_info",
        "cholesky",
        "cholesky_inverse",
        "geqrf",
        "inverse",
        "linalg_cholesky",
        "linalg_cholesky_ex",
    ),
    *(
        "linalg_eig",
        "linalg_eigh",
        "linalg_eigvals",
        "linalg_eigvalsh",
        "linalg_inv",
        "linalg_inv_ex",
        "linalg_qr",
    ),
    *("linalg_svd", "linalg_svdvals", "pinverse", "qr", "svd"),
}
TWO_MATRICES = {"cholesky_solve", "linalg_lstsq", "linalg_solve", "triangular_solve"}
LOSSES = (
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "kl_div",
    "soft_margin_loss",
)
CONVOLUTIONS = {"conv1d": 1, "conv2d": 2, "conv3d": 3}


def factorised(name, make, whole):
    """Return arguments of an operator on a positive definite matrix or its factors; None for others."""
    base = name.partition(".")[0]
    matrix = make(np.eye(3, dtype=np.float32) * 3 + 1)
    if base in ONE_MATRIX:
        return [matrix]
    if base in TWO_MATRICES:
        return [matrix, matrix]
    return {
        "linalg_cond.p_str": [matrix, "fro"],
        "linalg_matrix_rank": [matrix, 0.1],
        "linalg_matrix_rank.tol_tensor": [matrix, make(np.full((), 0.1, np.float32))],
        "linalg_matrix_rank.atol_rtol_float": [matrix],
        "linalg_matrix_rank.atol_rtol_tensor": [matrix],
        "lu_solve": [matrix, matrix, whole([1, 2, 3]).int()],
        "ormqr": [matrix, randn(make, 3), matrix],
        "orgqr": [matrix, randn(make, 3)],
        "linalg_householder_product": [matrix, randn(make, 3)],
        "linalg_tensorinv": [matrix, 1],
        "linalg_tensorsolve": [matrix, randn(make, 3)],
    }.get(name)


def of_images(base, make, whole):
    """Return arguments of padding, interpolation, sampling and unpooling; None for other operators."""
    rank = int(base[-2]) if base[-1:] == "d" and base[-2:-1].isdigit() else 2
    image = randn(make, 1, 1, *[3] * rank)
    if "_pad" in base:
        return [image, [1] * 2 * rank]
    if "upsample" in base:
        rank = 2 if base.endswith("_aa") else rank
        align = [] if "nearest" in base else [False]
        return [randn(make, 1, 1, *[3] * rank), [5] * rank, *align]
    if base.startswith("grid_sampler"):
        return [image, randn(make, 1, *[2] * rank, rank), 0, 0, False]
    if base.startswith("fractional_max_pool"):
        return [image, [2] * rank, [1] * rank, randn(make, 1, 1, rank)]
    if base == "max_unpool2d":
        return [randn(make, 1, 2, 2), whole([[[0, 1], [2, 3]]]), [4, 4]]
    if base == "max_unpool3d":
        return [randn(make, 1, 1, 2, 2), whole([[[[0, 1], [2, 3]]]]), [2, 4, 4], [1, 2, 2], [0, 0, 0]]
    return None


def arguments(name, make, whole):
    """Return arguments of a listed operator: `make` converts an array to a tensor, `whole` makes integer
    tensors.
    """
    base, _, overload = name.partition(".")
    if name in MATRICES:
        return [randn(make, *sizes) for sizes in MATRICES[name]]
    found = factorised(name, make, whole) or of_images(base, make, whole)
    if found is not None:
        return found
    if base.startswith("fft_"):
        return [randn(make, 4, 4)]
    if base == "stft":
        centered = [True, "constant"] if overload == "center" else []
        return [randn(make, 16), 4, None, None, None, *centered, False, None, True]
    if base in CONVOLUTIONS or base.startswith("conv_transpose"):
        rank = int(base[-2])
        args = [randn(make, 1, 2, *[4] * rank), randn(make, 2, 2, *[2] * rank), randn(make, 2)]
        return [*args, [1] * rank, "same"] if overload == "padding" else args
    if base == "convolution":
        return [randn(make, 1, 2, 4), randn(make, 2, 2, 2), randn(make, 2), [1], [0], [1], False, [0], 1]
    if base == "_convolution":
        window = [[1], [0], [1], False, [0], 1]
        flags = [False] * (3 if overload == "deprecated" else 4)
        return [randn(make, 1, 2, 4), randn(make, 2, 2, 2), randn(make, 2), *window, *flags]
    if base == "conv_tbc":
        return [randn(make, 4, 1, 2), randn(make, 2, 2, 2), randn(make, 2)]
    if base == "scaled_dot_product_attention":
        return [randn(make, 1, 2, 3, 8) for _ in range(3)]
    if base in LOSSES:
        return [randn(make, 3), randn(make, 3)]
    if base in ("cross_entropy_loss", "nll_loss"):
        return [randn(make, 3, 4), whole([0, 1, 2])]
    if base == "nll_loss2d":
        return [randn(make, 1, 4, 2, 1), whole([[[0], [1]]])]
    if base in ("chain_matmul", "linalg_multi_dot"):
        return [[randn(make, 2, 3), randn(make, 3, 2)]]
    if base == "einsum":
        return ["ij,jk->ik", [randn(make, 2, 3), randn(make, 3, 2)]]
    if base == "tensordot":
        return [randn(make, 2, 3), randn(make, 3, 2), [1], [0]]
    if base in ("frobenius_norm", "nuclear_norm"):
        return [randn(make, 3, 3), *([[0, 1]] if overload else [])]
    if base in ("linalg_vector_norm", "linalg_norm", "linalg_matrix_norm"):
        order = "fro" if overload in ("str_ord", "ord_str") else 1
        return [randn(make, 3, 3), order]
    if base in ("margin_ranking_loss", "triplet_margin_loss"):
        return [randn(make, 3, 4) for _ in range(3)]
    if base == "cosine_embedding_loss":
        return [randn(make, 3, 4), randn(make, 3, 4), whole([1, -1, 1])]
    if base == "poisson_nll_loss":
        return [randn(make, 3), randn(make, 3), True, False, 1e-8, 1]
    if base == "multi_margin_loss":
        return [randn(make, 3, 4), whole([0, 1, 2])]
    if base in (
        "cosine_similarity",
        "pairwise_distance",
        "binary_cross_entropy_with_logits",
        "hinge_embedding_loss",
    ):
        return [randn(make, 3, 4), randn(make, 3, 4)]
    if base == "binary_cross_entropy":
        return [randn(make, 3) - 0.25, randn(make, 3) - 0.25]
    if base in ("cat", "stack"):
        return [[randn(make, 3), randn(make, 3)]]
    if base == "index_copy":
        return [randn(make, 3), 0, whole([0]), randn(make, 1)]
    if base == "index_put":
        return [randn(make, 3), [whole([0])], randn(make, 1)]
    if base == "scatter_add":
        return [randn(make, 3), 0, whole([0]), randn(make, 1)]
    if name == "pow.Tensor_Scalar":
        return [randn(make, 3), 2.0]
    if name == "pow.Scalar":
        return [2.0, randn(make, 3)]
    if base in ("cumsum", "cumprod", "softmax", "log_softmax") or name == "prod.dim_int":
        return [randn(make, 3), 0]
    if base.endswith("_pool3d"):
        return [randn(make, 1, 2, 4, 4, 4), [2, 2, 2]]
    if base in ("layer_norm", "rms_norm"):
        return [randn(make, 2, 3), [3]]
    if base == "native_layer_norm":
        return [randn(make, 2, 3), [3], None, None, 1e-5]
    if base == "group_norm":
        return [randn(make, 2, 4), 2]
    if base in ("_thnn_fused_lstm_cell", "_thnn_fused_gru_cell"):
        width = 8 if "lstm" in base else 6
        return [randn(make, 3, width), randn(make, 3, width), randn(make, 3, 2)]
    if base.endswith("_cell"):
        gates = {"lstm_cell": 4, "gru_cell": 3}.get(base, 1)
        state = randn(make, 3, 2)
        hx = [state, state] if base == "lstm_cell" else state
        return [randn(make, 3, 5), hx, randn(make, 2 * gates, 5), randn(make, 2 * gates, 2)]
    if base == "fake_quantize_per_tensor_affine":
        return [randn(make, 3), 0.1, 0, 0, 255]
    if base == "softplus":
        return [randn(make, 3), 1.0, 20.0]
    if base == "logsumexp" or name == "sum.dim_IntList":
        return [randn(make, 3), [0]]
    if base in ("quantile", "nanquantile"):
        return [randn(make, 3), 0.5 if overload == "scalar" else make(np.full((), 0.5))]
    if base == "ctc_loss":
        lengths = [whole([4]), whole([1])] if overload == "Tensor" else [[4], [1]]
        return [randn(make, 4, 1, 3), whole([[1]]), *lengths]
    if base == "multilabel_margin_loss":
        return [randn(make, 3, 4), whole([[1, 0, -1, 2]] * 3)]
    if base == "multilabel_margin_loss_forward":
        return [randn(make, 3, 4), whole([[1, 0, -1, 2]] * 3), 1]
    if base == "renorm":
        return [randn(make, 3, 3), 2, 0, 1.0]
    if base == "view_as_complex":
        return [randn(make, 3, 2)]
    return [randn(make, 3)]


def case(device, dtype):
    def make(array):
        return tt.from_numpy(array).to(device).to(dtype)

    return make, lambda values: tt.tensor(values, device=device)


def run(name, args):
    base, _, overload = name.partition(".")
    result = getattr(getattr(tt.ops.aten, base), overload or "default")(*args)
    return result[0] if isinstance(result, tuple) else result


EXPECTED = {
    lists.LOWER_PRECISION_FP: lambda device, given: DEFAULT_DTYPES[device],
    lists.FP32: lambda device, given: tt.float32,
    lists.FP32_SET_OPT_DTYPE: lambda device, given: tt.float32,
    lists.FP32_APPEND_DTYPE: lambda device, given: tt.float32,
    lists.PROMOTE: lambda device, given: given,
}


def first_of(result):
    """Return the values of a result that may have indices too."""
    return result[0] if isinstance(result, tuple) else result


WITHOUT_CUDA_KERNEL = ("conv3d", "conv_transpose3d.input")
CASES = [
    (device, name)
    for device in ("cpu", "cuda")
    for name in listed(device)
    if (device == "cpu" or name not in WITHOUT_CUDA_KERNEL) and policy_of(device, name) != lists.BANNED
]


@pytest.mark.parametrize("width", ["wide", "narrow", "float64"])
@pytest.mark.parametrize(("device", "name"), CASES)
def test_a_listed_operator_gives_the_dtype_of_its_policy(device, name, width):
    given = {"wide": tt.float32, "narrow": DEFAULT_DTYPES[device], "float64": tt.float64}[width]
    policy = policy_of(device, name)
    args = arguments(name, *case(device, given))
    with tt.autocast(device):
        result = first_of(run(name, args))
    expected = given if width == "float64" else EXPECTED[policy](device, given)
    if name.startswith("linalg_matrix_rank"):
        assert result.dtype is tt.int64
    elif result.is_complex():
        assert result.dtype.to_real() is expected
    else:
        assert result.dtype is expected


def numpy_of(result):
    return np.asarray(result.resolve_conj().numpy() if result.is_complex() else result.double().numpy())


FREE_VECTORS = {"svd", "linalg_svd"}
"""First results whose columns may be any orthonormal ones, where singular values are equal."""
FREE_ORDER = {"linalg_eig", "linalg_eigvals"}
"""First results that come in the order that LAPACK finds them in."""


@pytest.mark.parametrize("width", ["float32", "bfloat16", "float16", "float64"])
@pytest.mark.parametrize("name", listed("cpu"))
def test_on_the_cpu_values_and_dtypes_are_those_of_pytorch(name, width):
    torch = pytest.importorskip("torch")
    base, _, overload = name.partition(".")

    def torch_run(args):
        return getattr(getattr(torch.ops.aten, base), overload or "default")(*args)

    theirs = arguments(name, lambda a: torch.from_numpy(a).to(getattr(torch, width)), torch.tensor)
    ours = arguments(name, *case("cpu", getattr(tt, width)))
    error = None
    with torch.autocast("cpu"):
        try:
            want = torch_run(theirs)
        except RuntimeError as raised:
            error = raised
    with tt.autocast("cpu"):
        if error is not None:
            with pytest.raises(RuntimeError):
                run(name, ours)
            return
        got, want = first_of(run(name, ours)), first_of(want)
    assert got.dtype.name == str(want.dtype).removeprefix("torch.")
    if name in FREE_VECTORS:
        columns = numpy_of(got)
        np.testing.assert_allclose(columns.T @ columns, np.eye(len(columns)), atol=1e-5)
    elif name in FREE_ORDER:
        got, want = (np.sort_complex(x) for x in (numpy_of(got), want.resolve_conj().numpy()))
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    elif want.is_complex():
        np.testing.assert_allclose(numpy_of(got), want.resolve_conj().numpy(), rtol=1e-5, atol=1e-6)
    else:
        tolerance = 2e-2 if want.dtype is torch.bfloat16 else 1e-5
        np.testing.assert_allclose(numpy_of(got), want.double().numpy(), rtol=tolerance, atol=tolerance)


UNLISTED = ("relu", "sigmoid", "tanh", "exp", "sqrt", "add", "mul", "sum", "mean", "softmax")


@pytest.mark.parametrize("name", UNLISTED)
def test_operators_in_no_list_of_the_cpu_keep_their_dtype(name):
    half = tt.ones(3, dtype=tt.float16)
    more = {"add": [half], "mul": [half], "softmax": [0]}.get(name, [])
    with tt.autocast("cpu"):
        assert getattr(tt, name)(half, *more).dtype is tt.float16


@pytest.mark.parametrize("device", sorted(COUNTS))
def test_no_operator_is_listed_twice(device):
    names = [name for names in lists.LISTS[device].values() for name in names]
    assert len(names) == len(set(names)) == COUNTS[device]


@pytest.mark.parametrize("device", sorted(COUNTS))
def test_the_lists_are_pytorchs(device):
    torch = pytest.importorskip("torch", minversion="2.13")
    names = [name for names in lists.LISTS[device].values() for name in names]
    theirs = torch._C._dispatch_get_registrations_for_dispatch_key(f"Autocast{device.upper()}")
    assert sorted(f"aten::{name}" for name in names) == sorted(theirs)


def test_every_device_type_with_autocast_has_lists():
    assert set(lists.LISTS) == set(DEFAULT_DTYPES)
    assert set(lists.REDISPATCHED) == set(lists.LISTS["cuda"][lists.FP32_APPEND_DTYPE])


def test_the_default_dtypes_are_pytorchs():
    torch = pytest.importorskip("torch")
    for device, dtype in DEFAULT_DTYPES.items():
        assert str(torch.get_autocast_dtype(device)).removeprefix("torch.") == dtype.name


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_registered_is_what_is_listed_and_defined(device):
    with tt.autocast(device):
        pass
    key = f"Autocast{device.upper()}"
    registered = Dispatcher.singleton().get_registrations_for_dispatch_key(key)
    assert [name for name in registered if name.startswith("aten::")] == [
        f"aten::{n}" for n in listed(device)
    ]
    assert len(listed("cpu")) >= 29 and len(listed("cuda")) >= 54
