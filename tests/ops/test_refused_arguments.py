"""Operators refuse invalid values, dtypes and shapes with PyTorch's exception types, on every backend."""

import math
import warnings

import numpy as np
import pytest

import triten as tt

F = tt.nn.functional
INF, NAN = math.inf, math.nan


REFUSED = [
    (RuntimeError, lambda d: F.huber_loss(d(3), d(3), delta=NAN)),
    (RuntimeError, lambda d: tt.std(d(3), correction=1j)),
    (RuntimeError, lambda d: tt.linspace(INF, 0, 3, dtype=tt.int8, device=d(1).device)),
    (RuntimeError, lambda d: tt.lerp(d(2), d(2), d(2, dtype=tt.int64))),
    (RuntimeError, lambda d: tt.zeros(0, 1 << 62, 4, device=d(1).device)),
    (IndexError, lambda d: tt.quantile(d(), 0.5, dim=2)),
    (IndexError, lambda d: tt.mv(d(), d(0))),
    (RuntimeError, lambda d: tt.trapezoid(d(3, 3), d(0, 3), dim=0)),
    (RuntimeError, lambda d: tt.fft.hfft(d(4), out=d(6, dtype=tt.complex64))),
    (RuntimeError, lambda d: tt.fft.irfft2(d(4, 4), out=d(4, 6, dtype=tt.complex64))),
    (RuntimeError, lambda d: F.huber_loss(d(2, dtype=tt.uint8), d(2))),
    (IndexError, lambda d: tt.baddbmm(d(2), d(5, 5, 5), d(2))),
    (IndexError, lambda d: tt.addbmm(d(2, 2), d(2), d(2, 2, 2))),
    (RuntimeError, lambda d: tt.addbmm(d(2, 2), d(2, 2), d(2, 2, 2))),
    (IndexError, lambda d: tt.rot90(d(2, 3), 1, (1 << 31, -1))),
    (IndexError, lambda d: F.multilabel_soft_margin_loss(d(), d())),
    (RuntimeError, lambda d: tt.norm(d(5, 5), "none", [0, 1])),
    (RuntimeError, lambda d: F.soft_margin_loss(d(2, 3), d(1, 2, 3))),
    (RuntimeError, lambda d: tt.linspace(0, 1e300, 3, device=d(1).device)),
    (RuntimeError, lambda d: tt.logspace(0, 300, 3, dtype=tt.int8, device=d(1).device)),
    (RuntimeError, lambda d: tt.add(d(2), d(2), alpha=1e300)),
    (RuntimeError, lambda d: tt.sub(d(2, dtype=tt.float16), d(2, dtype=tt.float16), alpha=1e10)),
    (RuntimeError, lambda d: tt.addcmul(d(2), d(2), d(2), value=1e300)),
    (RuntimeError, lambda d: tt.addmm(d(2, 2), d(2, 2), d(2, 2), alpha=1e300)),
    (RuntimeError, lambda d: tt.baddbmm(d(1, 2, 2), d(1, 2, 2), d(1, 2, 2), beta=1e300)),
    (ValueError, lambda d: F.nll_loss(d(3), d(3, dtype=tt.int64))),
    (IndexError, lambda d: F.bilinear(d(2, 3), d(2, 3), d(3, 3))),
    (RuntimeError, lambda d: F.interpolate(d(1, 1, 2, 2), scale_factor=INF)),
    (RuntimeError, lambda d: F.interpolate(d(1, 1, 2, 2), scale_factor=(NAN, 1.0))),
    (TypeError, lambda d: F.interpolate(d(1, 1, 2, 2), scale_factor="x")),
    (
        RuntimeError,
        lambda d: tt.index_add(d(3, dtype=tt.uint8), 0, numbers(d), d(2, dtype=tt.uint8), alpha=300),
    ),
    (
        RuntimeError,
        lambda d: tt.index_add(d(3, dtype=tt.int8), 0, numbers(d), d(2, dtype=tt.int8), alpha=-129),
    ),
    (RuntimeError, lambda d: tt.linalg.cross(d(2, 3), d(2, 3, dtype=tt.float64))),
    (RuntimeError, lambda d: tt.linalg.tensorinv(d())),
    (RuntimeError, lambda d: tt.squeeze(d(2, 3), (0, 0))),
    (RuntimeError, lambda d: d(2, 3).squeeze((0, -2))),
    (ValueError, lambda d: F.kl_div(d(2), d(2), reduction=[])),
    (ValueError, lambda d: F.mse_loss(d(2), d(2), reduction=5)),
    (RuntimeError, lambda d: tt.isclose(d(2), d(2), rtol=NAN)),
    (RuntimeError, lambda d: tt.isclose(d(2), d(2), atol=NAN)),
    (RuntimeError, lambda d: tt.allclose(d(2), d(2), rtol=NAN)),
    (RuntimeError, lambda d: tt.fft.fftfreq(3, dtype=tt.int32)),
    (RuntimeError, lambda d: tt.fft.rfftfreq(3, dtype=tt.int64)),
    (RuntimeError, lambda d: tt.index_copy(d(3), 0, numbers(d).int(), d(2))),
    (RuntimeError, lambda d: tt.linalg.vector_norm(d(3, dtype=tt.float64), dtype=tt.float32)),
    (RuntimeError, lambda d: tt.linalg.vector_norm(d(3), dtype=tt.complex64)),
    (RuntimeError, lambda d: tt.linalg.vector_norm(d(3, dtype=tt.complex64), dtype=tt.float32)),
    (RuntimeError, lambda d: tt.linalg.vector_norm(d(3), 1j)),
    (RuntimeError, lambda d: tt.linalg.vecdot(d(3), d(3, dtype=tt.float64))),
    (NotImplementedError, lambda d: tt.trace(d(2, 2, dtype=tt.bool))),
    (RuntimeError, lambda d: tt.addr(d(4, 2, 3), d(2), d(3))),
    (RuntimeError, lambda d: tt.addr(d(2, 3), d(2), d(3), beta=False)),
    (RuntimeError, lambda d: F.binary_cross_entropy(d(2) * 0.5, d(2, dtype=tt.int64))),
    (RuntimeError, lambda d: F.kl_div(d(2, dtype=tt.int64), d(2, dtype=tt.int64))),
    (RuntimeError, lambda d: F.kl_div(d(2), d(2, dtype=tt.int64))),
    (RuntimeError, lambda d: F.multi_margin_loss(d(2, 3), d(2, dtype=tt.int64), weight=d(2))),
    (RuntimeError, lambda d: tt.randint_like(d(2), d(2))),
    (RuntimeError, lambda d: d(2).new_empty_strided((2, 3), (1,))),
    (RuntimeError, lambda d: tt.cosine_similarity(d(2, 3), d(2, 3), eps=-1.0)),
    (RuntimeError, lambda d: F.avg_pool2d(d(1, 1, 4, 4), 2, 1 << 62)),
    (RuntimeError, lambda d: F.max_pool2d(d(1, 1, 4, 4), 2, dilation=1 << 62)),
    (TypeError, lambda d: F.max_unpool2d(d(1, 1, 2, 2), d(1, 1, 2, 2, dtype=tt.int64), "x")),
    (TypeError, lambda d: F.one_hot(numbers(d), "x")),
    (ValueError, lambda d: F.one_hot(numbers(d), 1 << 64)),
    (TypeError, lambda d: tt.unique(d(2), sorted=1.5)),
    (TypeError, lambda d: d(2).unique(return_counts=d(2))),
    (TypeError, lambda d: tt.tril_indices(d(2), 3)),
    (TypeError, lambda d: tt.triu_indices(2, 3, dtype="int64")),
    (IndexError, lambda d: tt.linalg.lu_solve(d(2, 2), d(dtype=tt.int32), d(2, 1))),
    (IndexError, lambda d: tt.linalg.householder_product(d(2, 2), d())),
    (IndexError, lambda d: tt.ormqr(d(2, 2), d(), d(2, 1))),
    (RuntimeError, lambda d: tt.ormqr(d(2, 2), d(1), d(2, 1))),
    (RuntimeError, lambda d: tt.ormqr(d(2, 2), d(1), d(1, 2), left=False)),
    (RuntimeError, lambda d: F.bilinear(d(1, 1), d(1, 1), d(1, 1, 1), d(1, dtype=tt.float64))),
    (RuntimeError, lambda d: F.bilinear(d(2, 1), d(2, 1), d(1, 1, 1, 1))),
    (IndexError, lambda d: F.bilinear(d(), d(), d(1, 1, 1))),
    (RuntimeError, lambda d: F.conv1d(d(1, 1), d(1, 1, 1), padding="same", dilation=())),
    (RuntimeError, lambda d: F.conv2d(d(1, 1, 1), d(1, 1, 1, 1), padding="same", dilation=(1, 1, 1))),
    (RuntimeError, lambda d: tt.lu(d(2, 2), True, d(2))),
    (TypeError, lambda d: tt.norm(d(2, 2), np.array([1.0, 2.0]))),
    (RuntimeError, lambda d: tt.histc(d(2), 3, 1j, 2)),
    (RuntimeError, lambda d: tt.linalg.pinv(d(0, 2), atol=d(dtype=tt.complex64))),
    (RuntimeError, lambda d: tt.linalg.matrix_rank(d(2, 2), atol=d(dtype=tt.complex64))),
    (IndexError, lambda d: tt.istft(d(3, dtype=tt.complex64), 16)),
    (IndexError, lambda d: tt.istft(d(dtype=tt.complex64), 16)),
    (IndexError, lambda d: F.fractional_max_pool2d(d(1, 1, 4, 4), 2, output_ratio=[0.5])),
]
ON_THE_CPU = [
    (RuntimeError, lambda d: F.hardshrink(d(2), 1e300)),
    (RuntimeError, lambda d: F.threshold(d(2, dtype=tt.float16), 0.0, 1e10)),
    (RuntimeError, lambda d: F.leaky_relu(d(2), 1e300)),
    (RuntimeError, lambda d: F.elu(d(2), 1e300)),
    (RuntimeError, lambda d: F.softplus(d(2), 1e300)),
    (RuntimeError, lambda d: tt.lerp(d(2), d(2), 1e300)),
    (RuntimeError, lambda d: F.binary_cross_entropy(d(2) * 0.5, d(2) * 2)),
    (RuntimeError, lambda d: F.binary_cross_entropy(d(2) * 0.5, d(2) * -1)),
    (RuntimeError, lambda d: F.multilabel_margin_loss(d(2, 3), d(2, 3, dtype=tt.int64) * -2)),
    (RuntimeError, lambda d: F.multilabel_margin_loss(d(3), d(3, dtype=tt.int64) * -2)),
    (RuntimeError, lambda d: tt.lu_unpack(d(3, 3), d(3, dtype=tt.int32) * 0)),
    (RuntimeError, lambda d: tt.lu_unpack(d(3, 3), d(3, dtype=tt.int32) * 9)),
    (RuntimeError, lambda d: tt.lu_unpack(d(2, 3, 3), d(2, 3, dtype=tt.int32) * 0)),
]


def numbers(d):
    return d(2, dtype=tt.int64)


@pytest.mark.parametrize(("error", "call"), REFUSED)
def test_refused(device, error, call):
    def made(*sizes, dtype=tt.float32):
        return tt.ones(*(sizes or ((),)), dtype=dtype, device=device)

    for _ in range(2):
        with pytest.raises(error):
            call(made)


@pytest.mark.parametrize(("error", "call"), ON_THE_CPU)
def test_values_are_refused_on_the_cpu(error, call):
    for _ in range(2):
        with pytest.raises(error):
            call(lambda *sizes, dtype=tt.float32: tt.ones(*sizes, dtype=dtype))


def test_what_is_at_the_border_is_taken(device):
    def made(*sizes, dtype=tt.float32):
        return tt.ones(*sizes, dtype=dtype, device=device)

    assert tt.squeeze(made(1, 2, 1), (0, -1)).shape == (2,)
    assert tt.add(made(1), made(1), alpha=INF).tolist() == [INF]
    assert F.elu(made(1, dtype=tt.float16), 1e10).tolist() == [1.0]
    assert F.threshold(made(1, dtype=tt.float16), 1e10, 0.0).tolist() == [0.0]
    assert tt.logspace(1 << 62, -3, 1, 5.0, dtype=tt.float16, device=device).tolist() == [INF]
    assert tt.trapezoid(made(2, 3), made(0, 3), dim=0).tolist() == [0.0, 0.0, 0.0]
    assert tt.cumulative_trapezoid(made(0)).shape == (0,)
    assert tt.addcmul(*[made(1, dtype=tt.float16)] * 3, value=1e10).tolist() == [INF]
    assert tt.linspace(-1, 5, 3, dtype=tt.uint8, device=device).tolist() == [255, 130, 5]
    assert tt.linspace(INF, 0, 0, dtype=tt.int8, device=device).shape == (0,)
    assert tt.lerp(made(2), 3 * made(2), tt.tensor(1, device=device)).tolist() == [3.0, 3.0]
    added = tt.index_add(made(2, dtype=tt.uint8), 0, numbers(made)[:1], made(1, dtype=tt.uint8), alpha=-1)
    assert added.tolist() == [1, 0]
    assert tt.linalg.vector_norm(made(4), dtype=tt.float64).item() == 2.0
    assert tt.isclose(made(1), made(1), rtol=0.0).item()
    assert F.binary_cross_entropy(made(2), made(2)).item() == 0.0
    unread = tt.full((1,), 9, dtype=tt.int32, device=device)
    assert tt.linalg.lu_solve(made(1, 1), unread, made(1, 0)).shape == (1, 0)
    assert tt.linalg.lstsq(made(1, 1), made(1, 1), driver="GELS").solution.item() == 1.0
    assert tt.linalg.vecdot(made(2), made(2), dim=5).item() == 2.0
    assert F.rms_norm(made(2) * 1e3, (2,), made(2, dtype=tt.int64) * 2).tolist() == [2.0, 2.0]
    assert F.conv2d(made(1, 2, 2), made(1, 1, 2, 2), padding="same", dilation=(1,)).shape == (1, 2, 2)
    assert tt.histc(made(2), 2, 0j, 2 + 0j).tolist() == [0.0, 2.0]
    assert F.fractional_max_pool2d(made(1, 4, 4), numbers(made)[:1], (2, 2)).shape == (1, 2, 2)
    found = tt.fft.fftfreq(3, d=0, device=device).tolist()
    assert math.isnan(found[0]) and found[1:] == [INF, -INF]


@pytest.mark.parametrize("name", ["size", "stride"])
@pytest.mark.parametrize(("dim", "found"), [(2.5, "float"), ([0], "list"), ("tensor", "Tensor")])
def test_a_dimension_that_is_no_integer(name, dim, found):
    dim = tt.tensor([0, 1]) if found == "Tensor" else dim
    with pytest.raises(
        TypeError, match=rf"^{name}\(\): argument 'dim' \(position 1\) must be int, not {found}"
    ):
        getattr(tt.ones(2, 3), name)(dim)


def test_a_target_without_dimensions_for_a_batch():
    for loss in (tt.nn.functional.nll_loss, tt.nn.functional.cross_entropy):
        with pytest.raises(
            ValueError, match=r"Expected input batch_size \(2\) to match target batch_size \(0\)"
        ):
            loss(tt.ones(2, 3), tt.tensor(1))


@pytest.mark.parametrize("rank", [2, 3])
def test_fractional_pooling_of_no_tensor(rank):
    pool = getattr(tt.nn.functional, f"fractional_max_pool{rank}d")
    with pytest.raises(ValueError, match="requires specifying either an output_size or an output_ratio"):
        pool([1.5], 2)
    with pytest.raises(TypeError, match=r"argument 'input' \(position 1\) must be Tensor, not list"):
        pool([1.5], 2, output_size=1)


_SELF: list[object] = [0]
_SELF.append(_SELF)


def _assign(self, index, value):
    self[index] = value


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: _assign(tt.arange(4), tt.arange(4) > -1, tt.ones(3)),
            RuntimeError,
            "shape mismatch: value tensor",
        ),
        (lambda: tt.arange(4).index_put_((tt.tensor([0, 1]),), tt.ones(3)), RuntimeError, "shape mismatch"),
        (
            lambda: tt.arange(4).index_put_((tt.tensor([0, 1]),), tt.ones(2)),
            RuntimeError,
            "destination dtypes match",
        ),
        (
            lambda: tt.linspace(0, 1j, 5, dtype=tt.float32),
            RuntimeError,
            r"torch.linspace\(\): inferred dtype",
        ),
        (
            lambda: tt.logspace(0, 1j, 5, dtype=tt.float32),
            RuntimeError,
            r"torch.logspace\(\): inferred dtype",
        ),
        (
            lambda: tt.zeros(2, dtype=tt.int64, requires_grad=True),
            RuntimeError,
            "Only Tensors of floating point",
        ),
        (lambda: tt.asarray(np.float64(0.5), copy=False), RuntimeError, "can't alias NumPy scalars"),
        (lambda: tt.asarray([1], copy=False), ValueError, "can't alias arbitrary sequence"),
        (
            lambda: tt.asarray(tt.ones(2), dtype=tt.float64, copy=False),
            ValueError,
            "'Float' into dtype 'Double'",
        ),
        (
            lambda: tt.asarray(np.ones(2), dtype=tt.float32, copy=False),
            ValueError,
            "'Double' into dtype 'Float'",
        ),
        (
            lambda: tt.asarray(tt.ones(2), device="meta", copy=False),
            ValueError,
            "from device 'cpu' to 'meta'",
        ),
        (lambda: tt.tensor(_SELF), TypeError, "self-referential lists are incompatible"),
        (lambda: tt.empty(0, 4, 1 << 61), RuntimeError, "Stride calculation overflowed"),
        (lambda: tt.ones(0, 2).index_select(0, tt.tensor([0])), RuntimeError, "axis dim should be positive"),
        (
            lambda: F.grid_sample(tt.ones(1, 1, 2), tt.ones(1, 1, 1, 2), align_corners=True),
            RuntimeError,
            "expected grid to have size 1 in last dimension",
        ),
        (
            lambda: F.grid_sample(tt.ones(1, 1, 2, 2), tt.ones(1, 1, 2), align_corners=True),
            RuntimeError,
            "input and grid with same number of dimensions",
        ),
        (
            lambda: [x.view(tt.float64) for x in (tt.ones(4, 8), tt.ones(4, 9)[:, 1:])],
            RuntimeError,
            r"self.storage_offset\(\) must be divisible by 2",
        ),
        (lambda: tt.einsum("", []), ValueError, "must specify the equation string and at least one operand"),
        (lambda: delattr(tt.ones(1), "data"), RuntimeError, "Deleting tensor data is not allowed"),
        (lambda: delattr(tt.ones(1), "requires_grad"), RuntimeError, "requires_grad must be a bool"),
    ],
)
def test_messages_name_the_first_fault(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "messages"),
    [
        (
            lambda: tt.empty(3, dtype=tt.float16).random_(2049, 4001),
            ["from is out of bounds", "to - 1 is out"],
        ),
        (lambda: tt.empty(3, dtype=tt.bfloat16).random_(2, 261), [r"to - 1 is out of bounds [-(2^8), 2^8]"]),
        (lambda: tt.empty(3).random_((1 << 24) + 2, 1 << 25), ["from is out of bounds", "to - 1 is out"]),
        (lambda: tt.randint(0, 4001, (3,), dtype=tt.float16), ["to - 1 is out of bounds"]),
        (lambda: tt.empty(3).random_(0, 1 << 24), []),
        (
            lambda: tt.arange(5, out=tt.zeros(4)),
            ["The number of elements in the out tensor of shape [4] is 4"],
        ),
        (lambda: tt.arange(6, out=tt.zeros(2, 3)), []),
        (lambda: tt.arange(6, out=tt.zeros(0)), []),
        (lambda: tt.ones(2, 3, 4).T, ["The use of `x.T` on tensors of dimension other than 2"]),
        (lambda: tt.ones(2).T, ["The use of `x.T`"]),
        (lambda: tt.ones(()).T, ["Tensor.T is deprecated on 0-D"]),
        (lambda: tt.ones(()).H, ["Tensor.H is deprecated on 0-D"]),
        (lambda: tt.ones(()).mT, ["Tensor.mT is deprecated on 0-D"]),
        (lambda: tt.ones(2, 3).T.H.mT, []),
        (lambda: F.affine_grid(tt.ones(1, 2, 3), (1, 2, 1, 2), align_corners=True), ["unit-size grids"]),
        (lambda: F.affine_grid(tt.ones(1, 2, 3), (1, 1, 2, 2), align_corners=True), []),
        (lambda: F.affine_grid(tt.ones(1, 2, 3), (1, 2, 1, 2), align_corners=False), []),
        (lambda: tt.nn.init.kaiming_uniform_(tt.empty(0, 1)), ["zero-element tensors is a no-op"]),
        (lambda: tt.nn.init.kaiming_normal_(tt.empty(0, 1)), ["zero-element tensors is a no-op"]),
        (lambda: tt.utils.data.DataLoader(range(3), num_workers=100_000), ["excessive worker creation"]),
    ],
)
def test_doubtful_calls_warn(call, messages):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        call()  # After a function mode of an earlier test, the first call restores a function's own code.
    for _ in range(2):  # the second call runs a cached plan
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        assert len(caught) == len(messages)
        for warning, message in zip(caught, messages, strict=True):
            assert message in str(warning.message)
            assert warning.filename == __file__
