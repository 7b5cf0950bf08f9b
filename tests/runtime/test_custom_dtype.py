"""Scalar types registered at run time: stored and copied, or computed in float32."""

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest

import triten as tt
from triten.runtime import scalar_type as st
from triten.tests.shared.threads import together

E4M3 = tt.library.register_dtype(
    "float8_e4m3",
    ml_dtypes.float8_e4m3,
    scalar_name="Float8_e4m3",
    promotes={tt.float32: tt.float32},
)
INT4 = tt.library.register_dtype(
    "own_int4", ml_dtypes.int4, promotes={tt.int32: tt.int32, tt.float32: tt.float32}
)
UINT4 = tt.library.register_dtype("own_uint4", ml_dtypes.uint4)
B11FNUZ = tt.library.register_dtype(
    "float8_e4m3b11fnuz", ml_dtypes.float8_e4m3b11fnuz, computes_in=tt.float32
)
STORED = {E4M3: [1.0, 2.5, -3.0], INT4: [1, -3, 7], UINT4: [1, 15, 7]}


def made(dtype):
    return tt.tensor(STORED[dtype], dtype=dtype)


def test_what_the_dtype_says_of_itself():
    assert tt.float8_e4m3 is E4M3 and repr(E4M3) == "triten.float8_e4m3" and tt.own_int4 is INT4
    assert (E4M3.itemsize, E4M3.is_floating_point, E4M3.is_complex, E4M3.is_signed) == (1, True, False, True)
    assert (INT4.is_integral, INT4.is_signed, UINT4.is_signed) == (True, True, False)
    assert (E4M3.scalar_name, INT4.scalar_name) == ("Float8_e4m3", "Own_int4")
    assert pickle.loads(pickle.dumps(E4M3)) is E4M3 and copy.deepcopy(E4M3) is E4M3
    assert (tt.finfo(E4M3).max, tt.finfo(E4M3).bits, tt.iinfo(INT4).min, tt.iinfo(UINT4).max) == (
        240,
        8,
        -8,
        15,
    )
    assert len({d.index for d in (*st.ALL, *st.registered)}) == len(st.ALL) + len(st.registered)


@pytest.mark.parametrize("dtype", STORED, ids=str)
def test_tensors_are_made(dtype):
    values = STORED[dtype]
    x = made(dtype)
    assert (
        x.dtype is dtype
        and x.tolist() == values
        and [type(v) for v in x.tolist()] == [type(v) for v in values]
    )
    assert x[1].item() == values[1] and type(x[0].item()) is type(values[0])
    assert tt.zeros(2, dtype=dtype).tolist() == [0, 0] and tt.ones(2, dtype=dtype).tolist() == [1, 1]
    assert tt.full((2,), 3, dtype=dtype).tolist() == [3, 3] and tt.eye(2, dtype=dtype).tolist() == [
        [1, 0],
        [0, 1],
    ]
    assert tt.empty(2, 3, dtype=dtype, device="meta").nbytes == 6
    array = np.array(values).astype(dtype.np)
    shared = tt.from_numpy(array)
    shared.fill_(2)
    assert shared.dtype is dtype and array.astype(np.float32).tolist() == [2, 2, 2]
    assert x.numpy().dtype == dtype.np and tt.as_tensor(x.numpy()).dtype is dtype


def test_printing():
    assert repr(made(E4M3)) == "tensor([ 1.0000,  2.5000, -3.0000], dtype=triten.float8_e4m3)"
    assert repr(made(INT4)) == "tensor([ 1, -3,  7], dtype=triten.own_int4)"


@pytest.mark.parametrize("dtype", STORED, ids=str)
@pytest.mark.parametrize(
    "other",
    [tt.float32, tt.float64, tt.float16, tt.bfloat16, tt.int64, tt.int8, tt.complex64, tt.float8_e5m2],
    ids=str,
)
def test_conversions_both_ways_are_numpys_by_way_of_a_wider_dtype(dtype, other):
    wide = np.float32 if dtype.is_floating_point else np.int64
    expected = tt.from_numpy(made(dtype).numpy().astype(wide)).to(other)
    assert made(dtype).to(other).tolist() == expected.tolist()
    back = tt.tensor([1, 5, 3], dtype=other).to(dtype)
    assert back.dtype is dtype and back.tolist() == [1, 5, 3]
    target = tt.zeros(2, 3, dtype=dtype)
    assert target.copy_(tt.tensor([1, 5, 3], dtype=other)).tolist() == [[1, 5, 3]] * 2


def test_conversions_between_registered_dtypes_and_to_bool():
    assert made(INT4).to(E4M3).tolist() == [1, -3, 7] and made(E4M3).to(INT4).tolist() == [1, 2, -3]
    assert tt.tensor([0, 2, 0], dtype=INT4).bool().tolist() == [False, True, False]
    assert tt.tensor([True, False]).to(E4M3).tolist() == [1, 0]
    assert tt.tensor([1.7, -2.9, 7.2]).to(INT4).tolist() == [1, -2, 7]
    assert tt.tensor([1.03, 300.0]).to(E4M3).tolist()[0] == 1.0


@pytest.mark.parametrize("dtype", STORED, ids=str)
def test_views_indexing_and_joining(dtype):
    values = STORED[dtype]
    x = made(dtype)
    assert x[1:].tolist() == values[1:] and x.flip(0).tolist() == values[::-1]
    assert x[tt.tensor([2, 0])].tolist() == [values[2], values[0]]
    assert x[tt.tensor([True, False, True])].tolist() == [values[0], values[2]]
    assert tt.stack([x, x]).t().contiguous().tolist() == [[v, v] for v in values]
    assert tt.cat([x, x]).tolist() == values * 2 and x.index_select(0, tt.tensor([1])).tolist() == values[1:2]
    assert tt.where(tt.tensor([True, False, True]), x, x.flip(0)).tolist() == [
        values[0],
        values[1],
        values[2],
    ]
    assert x.masked_fill(tt.tensor([True, False, False]), 2).tolist() == [2, *values[1:]]
    assert x.view(tt.uint8).view(dtype).tolist() == values and x.nonzero().tolist() == [[0], [1], [2]]
    y = x.clone()
    y[0] = 3
    assert y.tolist() == [3, *values[1:]] and y.current_version() == 1 and x.tolist() == values
    with pytest.raises(NotImplementedError, match=f"not implemented for '{dtype.scalar_name}'"):
        x.index_put((tt.tensor([0]),), x[:1], accumulate=True)


@pytest.mark.parametrize("dtype", STORED, ids=str)
def test_elements_are_told_apart(dtype):
    x = made(dtype)
    assert (x == x.flip(0)).tolist() == [False, True, False] and (x != x.flip(0)).tolist() == [
        True,
        False,
        True,
    ]
    assert (x == STORED[dtype][0]).tolist() == [True, False, False] and (x == x).all().item()
    nan = tt.tensor([float("nan")], dtype=E4M3)
    assert not (nan == nan).item() and (nan != nan).item()


def test_promotion_is_as_registered():
    assert tt.promote_types(INT4, tt.int32) is tt.int32 is tt.promote_types(tt.int32, INT4)
    assert tt.promote_types(E4M3, E4M3) is E4M3 and tt.promote_types(tt.float32, E4M3) is tt.float32
    assert tt.result_type(made(E4M3), 1.0) is E4M3 and tt.result_type(made(INT4), 1) is INT4
    assert (
        tt.result_type(made(INT4), 1.5) is tt.float32 and tt.result_type(made(E4M3), tt.ones(2)) is tt.float32
    )
    assert tt.can_cast(INT4, E4M3) and not tt.can_cast(E4M3, INT4) and tt.can_cast(E4M3, tt.complex64)
    assert (made(INT4) + tt.ones(3, dtype=tt.int32)).tolist() == [2, -2, 8]
    assert (made(INT4) * 0.5).tolist() == [0.5, -1.5, 3.5] and (made(E4M3) + tt.ones(3)).dtype is tt.float32
    for a, b in ((INT4, tt.int8), (tt.int8, INT4), (E4M3, tt.float64), (E4M3, INT4), (UINT4, tt.float32)):
        with pytest.raises(RuntimeError, match=f"attempted to promote {a.scalar_name} and {b.scalar_name}"):
            tt.promote_types(a, b)
    with pytest.raises(RuntimeError, match="Promotion for Float8_e4m3 is not supported"):
        made(E4M3) + 1j
    with pytest.raises(RuntimeError, match="Promotion for Own_int4 is not supported"):
        made(INT4) + made(E4M3)


@pytest.mark.parametrize("dtype", STORED, ids=str)
@pytest.mark.parametrize(
    ("kernel", "call"),
    [
        ("add_stub", lambda x: x + x), ("add_stub", lambda x: x - x), ("mul_cpu", lambda x: x * 2),
        ("sum_cpu", lambda x: x.sum()), ("relu_cpu", lambda x: x.relu()), ("lt_cpu", lambda x: x < x),
        ("mm_cpu", lambda x: x.view(1, 3) @ x.view(3, 1)), ("arange_cpu", lambda x: tt.arange(3, dtype=x.dtype)),
        ("clamp_cpu", lambda x: x.clamp(0, 1)), ("argmax_cpu", lambda x: x.argmax()), ("add_stub", lambda x: x.add_(1)),
        ("cumsum_cpu", lambda x: x.cumsum(0, dtype=x.dtype)), ("neg_cpu", lambda x: -x), ("abs_cpu", lambda x: x.abs()),
    ],
)  # fmt: skip
def test_operators_that_compute_refuse_a_dtype_that_is_only_stored(dtype, kernel, call):
    x = made(dtype)
    with pytest.raises(NotImplementedError) as refusal:
        call(x)
    assert str(refusal.value) == f"\"{kernel}\" not implemented for '{dtype.scalar_name}'"
    assert x.tolist() == STORED[dtype]


def test_a_dtype_that_computes_in_float32_is_rounded_to_nearest_even():
    values = np.arange(-3, 3.25, 0.25, np.float32)
    x = tt.from_numpy(values).to(B11FNUZ)

    def rounded(array):
        return array.astype(np.float32).astype(ml_dtypes.float8_e4m3b11fnuz).astype(np.float32).tolist()

    exact = x.to(tt.float32).numpy()
    assert (x + x).tolist() == rounded(exact + exact) and (x * 0.3).tolist() == rounded(
        exact * np.float32(0.3)
    )
    assert x.exp().tolist() == rounded(np.exp(exact)) and x.sum().item() == rounded(exact.sum())
    assert (x < 1).tolist() == (exact < 1).tolist() and x.relu().tolist() == rounded(np.maximum(exact, 0))
    w = x.detach().requires_grad_()
    (w * w).sum().backward()
    assert w.grad.dtype is B11FNUZ and w.grad.tolist() == rounded(exact + exact)


def test_cuda_stores_moves_and_refuses():
    pytest.importorskip("triton")
    x = made(INT4).cuda()
    assert (
        x.is_cuda and x.dtype is INT4 and x.cpu().tolist() == STORED[INT4] and x[1:].cpu().tolist() == [-3, 7]
    )
    for call in (lambda: x + x, lambda: x == x, lambda: x.clone(), lambda: x.sum(), lambda: x.fill_(1)):
        with pytest.raises(NotImplementedError, match="not implemented for 'Own_int4'"):
            call()


def test_values_out_of_range_are_refused():
    for dtype, value in ((INT4, 9), (INT4, -9), (UINT4, 16), (E4M3, 1e9)):
        with pytest.raises(RuntimeError, match=f"to type {dtype.scalar_name} without overflow"):
            tt.zeros(2, dtype=dtype).fill_(value)
    with pytest.raises(RuntimeError, match="to type Own_int4 without overflow"):
        tt.tensor([9], dtype=INT4)


@pytest.mark.parametrize(
    ("name", "numpy_dtype", "options", "error", "match"),
    [
        ("float32", ml_dtypes.int2, {}, RuntimeError, "identifier that is not taken, got 'float32'"),
        ("sum", ml_dtypes.int2, {}, RuntimeError, "identifier that is not taken, got 'sum'"),
        ("int 2", ml_dtypes.int2, {}, RuntimeError, "identifier that is not taken"),
        ("again", ml_dtypes.int4, {}, RuntimeError, "int4 is triten.own_int4 already"),
        ("again", np.float32, {}, RuntimeError, "float32 is triten.float32 already"),
        ("own_int2", ml_dtypes.int2, {"scalar_name": "Half"}, RuntimeError, "a dtype is called Half already"),
        ("own_int2", ml_dtypes.int2, {"scalar_name": "Own_int4"}, RuntimeError, "a dtype is called Own_int4 already"),
        ("own_int2", ml_dtypes.int2, {"computes_in": tt.float32}, RuntimeError, "int2 can compute in triten.float32"),
        ("f", ml_dtypes.float8_e4m3b11fnuz, {"computes_in": tt.float64}, RuntimeError, "not in triten.float64"),
        ("own_int2", ml_dtypes.int2, {"promotes": {tt.int8: int}}, TypeError, "must map dtype to dtype"),
        ("text", "U3", {}, TypeError, "is no floating or integral dtype"),
        ("pair", [("a", "f4")], {}, TypeError, "is no floating or integral dtype"),
        ("swapped", ">f4", {}, TypeError, "is no floating or integral dtype"),
        ("date", "M8[s]", {}, TypeError, "is no floating or integral dtype"),
        ("long", np.longdouble, {}, TypeError, "of at most 64 bits"),
        ("nothing", "nonsense", {}, TypeError, "must be a NumPy dtype, got 'nonsense'"),
    ],
)  # fmt: skip
def test_registrations_that_are_refused_leave_nothing(name, numpy_dtype, options, error, match):
    before = dict(st.registered), dict(st.BY_NAME)
    with pytest.raises(error, match=match):
        tt.library.register_dtype(name, numpy_dtype, **options)
    assert (dict(st.registered), dict(st.BY_NAME)) == before


def test_of_threads_that_register_one_name_one_succeeds():
    def work():
        try:
            return tt.library.register_dtype("float6_e3m2fn", ml_dtypes.float6_e3m2fn)
        except RuntimeError:
            return None

    outcomes = together(*[work] * 4)
    assert sum(outcome is not None for outcome in outcomes) == 1
    assert tt.tensor([1.5], dtype=tt.float6_e3m2fn).item() == 1.5


def test_a_numpy_dtype_that_is_not_registered_names_those_that_are():
    with pytest.raises(TypeError, match="float8_e4m3, own_int4, own_uint4"):
        tt.from_numpy(np.zeros(2, ml_dtypes.float6_e2m3fn))
