"""What differs from PyTorch's functions beyond values: copies and views, sets of complex numbers, errors."""

import array
import math

import numpy as np
import pytest

import triten as tt
import triten.array_api as xp


def test_asarray_copies_as_it_is_told(device: str) -> None:
    x = xp.asarray([1.0, 2.0], device=device)
    assert xp.asarray(x) is x and xp.asarray(x, copy=False) is x
    assert xp.asarray(x, copy=True).data_ptr() != x.data_ptr()
    for options in ({"dtype": xp.float64}, {"device": "meta"}):
        with pytest.raises(ValueError, match="copy=False forbids"):
            xp.asarray(x, copy=False, **options)
    with pytest.raises(ValueError, match="copy=False forbids"):
        xp.asarray([1], copy=False)


def test_asarray_of_numpys() -> None:
    source = np.arange(4.0)
    shared = xp.asarray(source)
    source[0] = 9
    assert shared.tolist() == [9.0, 1.0, 2.0, 3.0] and shared.dtype is xp.float64
    assert xp.asarray(source[::-1]).tolist() == [3.0, 2.0, 1.0, 9.0]
    with pytest.raises(ValueError, match="negative strides"):
        xp.asarray(source[::-1], copy=False)
    assert xp.asarray(source.astype(">f4")).dtype is xp.float32
    assert xp.asarray(np.float32(1.5)).dtype is xp.float32
    read_only = np.ones(2)
    read_only.flags.writeable = False
    assert xp.asarray(read_only).tolist() == [1.0, 1.0]


def test_asarray_of_others(device: str) -> None:
    assert xp.asarray(array.array("i", [1, 2])).dtype is xp.int32
    assert xp.asarray(range(3), device=device).tolist() == [0, 1, 2]
    nested = xp.asarray(
        [[xp.ones(2, device=device), xp.zeros(2, device=device)]], dtype=xp.int8, device=device
    )
    assert nested.tolist() == [[[1, 1], [0, 0]]] and nested.dtype is xp.int8
    defaults = (True, xp.bool), (1, xp.int64), (1.0, xp.float32), (1j, xp.complex64)
    assert all(xp.asarray(value, device=device).dtype is dtype for value, dtype in defaults)
    assert xp.asarray(2**64 - 1, dtype=xp.uint64, device=device).item() == 2**64 - 1


def test_from_dlpack_shares_memory() -> None:
    x = np.zeros(2)
    xp.from_dlpack(x)[0] = 5
    assert x[0] == 5
    xp.from_dlpack(x, copy=True)[0] = 7
    assert x[0] == 5
    own = xp.ones(2)
    assert xp.from_dlpack(own).data_ptr() == own.data_ptr()


def test_reshape_copies_as_it_is_told(device: str) -> None:
    x = xp.reshape(xp.arange(6, device=device), (2, 3))
    assert xp.reshape(x, (6,), copy=False).data_ptr() == x.data_ptr()
    assert xp.reshape(x, (6,), copy=True).data_ptr() != x.data_ptr()
    with pytest.raises(ValueError, match="copy=False forbids"):
        xp.reshape(xp.matrix_transpose(x), (6,), copy=False)


def test_sets_of_complex_numbers(device: str) -> None:
    x = xp.asarray([[1 + 2j, 1 + 1j], [1 + 2j, 0j]], device=device)
    found = xp.unique_all(x)
    assert found.values.tolist() == xp.unique_values(x).tolist() == [0j, 1 + 1j, 1 + 2j]
    assert found.indices.tolist() == [3, 1, 0] and found.counts.tolist() == [1, 1, 2]
    assert found.inverse_indices.tolist() == [[2, 1], [2, 0]]
    assert xp.isin(x, xp.asarray([1 + 1j], device=device)).tolist() == [[False, True], [False, False]]


def test_every_nan_is_its_own(device: str) -> None:
    x = xp.asarray([math.nan, 1.0, math.nan, -0.0, 0.0], device=device)
    found = xp.unique_all(x)
    assert found.values.numel() == 4 and found.counts.tolist() == [2, 1, 1, 1]
    assert sorted(found.indices.tolist()[2:]) == [0, 2]
    assert not xp.isin(x, x).tolist()[0]
    empty = xp.unique_all(xp.empty((0, 2), device=device))
    assert [tuple(part.shape) for part in empty] == [(0,), (0,), (0, 2), (0,)]


def test_isin(device: str) -> None:
    x, others = xp.asarray([1, 2, 3], device=device), xp.asarray([3, 1], dtype=xp.int8, device=device)
    assert xp.isin(x, others).tolist() == [True, False, True]
    assert xp.isin(x, others, invert=True).tolist() == [False, True, False]
    assert xp.isin(x, 2).tolist() == [False, True, False] and xp.isin(3, x).item() is True


def test_expand_dims_of_several(device: str) -> None:
    x = xp.ones((2, 3), device=device)
    assert xp.expand_dims(x, (0, -1)).shape == (1, 2, 3, 1) and xp.expand_dims(x, (2, 0)).shape == (
        1,
        2,
        1,
        3,
    )
    for axis, error in (((0, 0), ValueError), ((0, -4), ValueError), ((0, 4), IndexError), (3, IndexError)):
        with pytest.raises(error):
            xp.expand_dims(x, axis)


def test_views_are_views() -> None:
    x = xp.zeros((2, 1))
    for view in (
        xp.permute_dims(x, (1, 0)),
        xp.squeeze(x, 1),
        xp.broadcast_to(x, (3, 2, 1)),
        xp.unstack(x)[0],
    ):
        assert view.data_ptr() == x.data_ptr()


def test_solve_takes_matrices_where_pytorch_takes_vectors(device: str) -> None:
    x1 = 2 * xp.eye(2, device=device).expand(2, 2, 2)
    x2 = xp.asarray([[1.0, 2.0], [3.0, 4.0]], device=device)
    assert xp.linalg.solve(x1, x2).tolist() == [[[0.5, 1.0], [1.5, 2.0]]] * 2
    assert xp.linalg.solve(x1, x2[0]).tolist() == [[0.5, 1.0]] * 2
    assert xp.linalg.solve(x1[:1], x2[0, :1].expand(2)).shape == (1, 2)


def test_decompositions(device: str) -> None:
    x = xp.asarray([[2.0, 1.0], [1.0, 3.0]], dtype=xp.float64, device=device)
    values, vectors = xp.linalg.eigh(x)
    rebuilt = [
        vectors @ xp.linalg.diagonal(x).diag_embed() @ vectors.mT * 0 + (vectors * values) @ vectors.mT
    ]
    q = xp.linalg.qr(x)
    s = xp.linalg.svd(x)
    e = xp.linalg.eig(x)
    rebuilt += [
        q.Q @ q.R,
        (s.U * s.S) @ s.Vh,
        ((e.eigenvectors * e.eigenvalues) @ xp.linalg.inv(e.eigenvectors)).real,
    ]
    assert all(tt.allclose(each, x) for each in rebuilt)
    sign, log = xp.linalg.slogdet(x)
    assert sign.item() == 1 and math.isclose(log.item(), math.log(5))
    assert sorted(xp.linalg.eigvals(x).real.tolist()) == pytest.approx(values.tolist())


def test_limits_have_dtypes() -> None:
    assert (
        xp.finfo(xp.ones(1, dtype=xp.complex128)).dtype is xp.float64 and xp.iinfo(xp.int8).dtype is xp.int8
    )
    assert xp.finfo(xp.float32).smallest_normal == tt.finfo(tt.float32).smallest_normal
    assert tt.finfo(tt.float32).dtype == "float32"


def test_kinds() -> None:
    assert xp.isdtype(xp.float32, ("integral", "real floating")) and not xp.isdtype(xp.bool, "numeric")
    assert xp.isdtype(tt.float16, "real floating") and xp.isdtype(tt.bfloat16, "numeric")
    with pytest.raises(ValueError, match="got 'float'"):
        xp.isdtype(xp.float32, "float")
    with pytest.raises(TypeError, match="got int"):
        xp.isdtype(xp.float32, 1)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: xp.nonzero(xp.asarray(1)), ValueError, "at least one dimension"),
        (lambda x: xp.take(x, xp.asarray([0])), ValueError, "needs an axis"),
        (lambda x: xp.cumulative_sum(x), ValueError, "needs an axis"),
        (lambda x: xp.squeeze(x, 0), ValueError, "axis 0 has size 2, not 1"),
        (lambda x: xp.broadcast_to(x, (1, 3)), ValueError, "has no shape"),
        (lambda x: xp.broadcast_shapes((2,), (3,)), ValueError, "should be broadcastable"),
        (lambda x: xp.concat([x, x[0]]), ValueError, "expected equal shapes"),
        (lambda x: xp.unstack(x, axis=2), IndexError, "axis 2 is out of bounds"),
        (lambda x: xp.matrix_transpose(x[0]), ValueError, "at least 2 dimensions"),
        (lambda x: xp.vecdot(x, xp.ones(2)), ValueError, "equal sizes along axis -1"),
        (lambda x: xp.searchsorted(x[0], x, side="middle"), ValueError, "got 'middle'"),
        (lambda x: xp.meshgrid(x[0], indexing="yx"), ValueError, "got 'yx'"),
        (lambda x: xp.arange(3, step=0), ValueError, "step must not be 0"),
        (lambda x: xp.take(x, xp.asarray([5]), axis=0), IndexError, "out of bounds"),
    ],
    ids=range(14),
)
def test_errors(call, error, message) -> None:
    with pytest.raises(error, match=message):
        call(xp.ones((2, 3)))


def test_gradients_and_compilation() -> None:
    x = xp.asarray([1.0, 2.0])
    x.requires_grad_()
    xp.sum(xp.multiply(x, x)).backward()
    assert x.grad.tolist() == [2.0, 4.0]
    compiled = tt.compile(lambda a, b: xp.add(xp.sqrt(a), b))
    a, b = xp.asarray([4.0, 9.0]), xp.asarray(1.0, dtype=xp.float64)
    assert compiled(a, b).tolist() == [3.0, 4.0] and compiled(a, b).dtype is xp.float64


def test_meta() -> None:
    x = xp.ones((2, 3), device="meta")
    assert xp.add(x, xp.ones((), dtype=xp.float64, device="meta")).dtype is xp.float64
    assert xp.sum(x, axis=0).shape == (3,) and xp.linalg.svd(x).Vh.shape == (3, 3)
    assert xp.fft.rfft(x).shape == (2, 2) and xp.concat([x, x], axis=1).shape == (2, 6)


def test_numbers_beyond_int64(device: str) -> None:
    x = xp.zeros(3, dtype=xp.uint64, device=device)
    x[0] = 2**64 - 1
    x[xp.asarray([False, True, False], device=device)] = 2**63
    x[..., 2] = 2**63 + 1
    assert x.tolist() == [2**64 - 1, 2**63, 2**63 + 1]
    with pytest.raises(ValueError, match="Overflow"):
        x[0] = 2**64
    with pytest.raises(ValueError, match="Overflow"):
        xp.zeros(1, device=device)[0] = 2**63
    for bounds in ((2**63, 2**63 + 5, 2), (2**64 - 1, 2**64 - 6, -2), (2**63 - 2, 2**63 + 4, 1)):
        assert xp.arange(*bounds, dtype=xp.uint64, device=device).tolist() == list(range(*bounds))
    assert xp.max(x).item() == 2**64 - 1 and xp.argmin(x).item() == 1
