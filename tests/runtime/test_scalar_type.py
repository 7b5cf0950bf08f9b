"""dtypes: properties, conversions, limits, and the default."""

import copy
import pickle
from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest

import triten as tt
from triten.runtime.scalar_type import (
    ALL,
    BY_NAME,
    EXPONENTS,
    PACKED,
    dtype,
    dtype_of_number,
    from_numpy_dtype,
)

# name, item size, floating, complex, signed: PyTorch's answers
PROPERTIES = [
    ("uint8", 1, False, False, False),
    ("int8", 1, False, False, True),
    ("int16", 2, False, False, True),
    ("int32", 4, False, False, True),
    ("int64", 8, False, False, True),
    ("uint16", 2, False, False, False),
    ("uint32", 4, False, False, False),
    ("uint64", 8, False, False, False),
    ("float16", 2, True, False, True),
    ("bfloat16", 2, True, False, True),
    ("float32", 4, True, False, True),
    ("float64", 8, True, False, True),
    ("float8_e5m2", 1, True, False, True),
    ("float8_e4m3fnuz", 1, True, False, True),
    ("float8_e5m2fnuz", 1, True, False, True),
    ("float8_e4m3fn", 1, True, False, True),
    ("float8_e8m0fnu", 1, True, False, False),
    ("float4_e2m1fn_x2", 1, True, False, True),
    ("complex32", 4, False, True, True),
    ("complex64", 8, False, True, True),
    ("complex128", 16, False, True, True),
    ("bool", 1, False, False, False),
]


@pytest.fixture
def restored_default() -> Iterator[None]:
    before = tt.get_default_dtype()
    yield
    tt.set_default_dtype(before)


@pytest.mark.parametrize(("name", "itemsize", "floating", "is_complex", "signed"), PROPERTIES)
def test_properties(name: str, itemsize: int, floating: bool, is_complex: bool, signed: bool) -> None:
    d = getattr(tt, name)
    assert (d.itemsize, d.is_floating_point, d.is_complex, d.is_signed) == (
        itemsize,
        floating,
        is_complex,
        signed,
    )
    assert d.name == name
    assert repr(d) == f"triten.{name}"
    assert d.is_integral == (not floating and not is_complex and name != "bool")


def test_every_dtype_is_listed_once() -> None:
    assert sorted(d.name for d in ALL) == sorted(row[0] for row in PROPERTIES)
    assert len({d.index for d in ALL}) == len(ALL)
    assert len({d.np for d in ALL}) == len(ALL)


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("half", "float16"),
        ("float", "float32"),
        ("double", "float64"),
        ("short", "int16"),
        ("int", "int32"),
        ("long", "int64"),
        ("chalf", "complex32"),
        ("cfloat", "complex64"),
        ("cdouble", "complex128"),
    ],
)
def test_aliases_are_the_same_object(alias: str, name: str) -> None:
    assert getattr(tt, alias) is getattr(tt, name)
    assert BY_NAME[alias] is getattr(tt, name)


@pytest.mark.parametrize("d", ALL, ids=lambda d: d.name)
def test_numpy_and_back(d: dtype) -> None:
    assert from_numpy_dtype(d.np) is d
    if d is not PACKED:
        assert from_numpy_dtype(d.np.type) is d
    assert tt.from_numpy(np.zeros(3, d.np)).dtype is d


@pytest.mark.parametrize("unknown", [np.datetime64, np.object_, np.str_, np.longdouble])
def test_numpy_dtypes_without_counterpart_are_refused(unknown: type) -> None:
    with pytest.raises(TypeError, match=r"can't convert np\.ndarray of type"):
        from_numpy_dtype(np.dtype(unknown))


@pytest.mark.parametrize("d", ALL, ids=lambda d: d.name)
def test_a_dtype_survives_copies_and_pickles_as_itself(d: dtype) -> None:
    assert copy.copy(d) is d
    assert copy.deepcopy([d])[0] is d
    assert pickle.loads(pickle.dumps(d)) is d


@pytest.mark.parametrize(
    ("real", "as_complex"),
    [
        ("float16", "complex32"),
        ("bfloat16", "complex64"),
        ("float32", "complex64"),
        ("float64", "complex128"),
        ("complex32", "complex32"),
        ("complex64", "complex64"),
        ("int32", "complex64"),
    ],
)
def test_to_complex(real: str, as_complex: str) -> None:
    assert getattr(tt, real).to_complex() is getattr(tt, as_complex)


@pytest.mark.parametrize(
    ("d", "real"),
    [
        ("complex32", "float16"),
        ("complex64", "float32"),
        ("complex128", "float64"),
        ("float32", "float32"),
        ("bool", "bool"),
    ],
)
def test_to_real(d: str, real: str) -> None:
    assert getattr(tt, d).to_real() is getattr(tt, real)


@pytest.mark.parametrize(
    ("source", "target", "values", "expected"),
    [
        ("float32", "int32", [1.9, -1.9], [1, -1]),
        ("float64", "bool", [0.0, -0.0, 0.5, float("nan")], [False, False, True, True]),
        ("int64", "uint8", [-1, 257], [255, 1]),
        ("int64", "float16", [1, 2049], [1.0, 2048.0]),
        ("bool", "float32", [True, False], [1.0, 0.0]),
        ("float32", "bfloat16", [1.00390625, 3.0], [1.0, 3.0]),
        ("float32", "complex64", [1.5], [1.5 + 0j]),
        ("int8", "float8_e4m3fn", [1, -2, 17], [1.0, -2.0, 16.0]),
        ("float64", "float32", [1e300, -1e300], [float("inf"), float("-inf")]),
    ],
)
def test_conversion_of_values(source: str, target: str, values: list[object], expected: list[object]) -> None:
    out = tt.tensor(values, dtype=getattr(tt, source)).to(getattr(tt, target))
    assert out.dtype is getattr(tt, target)
    assert out.tolist() == expected


WITH_ZERO = [d for d in ALL if d not in (EXPONENTS, PACKED)]


@pytest.mark.parametrize("source", WITH_ZERO, ids=lambda d: d.name)
@pytest.mark.parametrize("target", WITH_ZERO, ids=lambda d: d.name)
def test_one_and_zero_survive_every_conversion(source: dtype, target: dtype) -> None:
    out = tt.tensor([0, 1], dtype=source).to(target)
    assert out.dtype is target
    assert out.to(tt.int64).tolist() == [0, 1]


@pytest.mark.parametrize(
    "name", ["float16", "bfloat16", "float32", "float64", "float8_e5m2", "float8_e4m3fn"]
)
def test_finfo(name: str) -> None:
    d = getattr(tt, name)
    info, limits = tt.finfo(d), ml_dtypes.finfo(d.np)
    assert (info.bits, info.dtype) == (8 * d.itemsize, name)
    assert (info.max, info.min) == (float(limits.max), float(limits.min))
    assert info.min == -info.max
    assert info.eps == float(limits.eps)
    assert info.tiny == info.smallest_normal == float(limits.smallest_normal)


def test_finfo_of_complex_is_that_of_its_real_part() -> None:
    assert tt.finfo(tt.complex64).dtype == "float32"
    assert (tt.finfo(tt.complex32).dtype, tt.finfo(tt.complex32).max) == ("float16", 65504.0)
    assert tt.finfo(tt.complex128).eps == tt.finfo(tt.float64).eps


def test_finfo_without_dtype_is_of_the_default(restored_default: None) -> None:
    assert tt.finfo().dtype == "float32"
    tt.set_default_dtype(tt.float64)
    assert tt.finfo().dtype == "float64"


@pytest.mark.parametrize("name", ["uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"])
def test_iinfo(name: str) -> None:
    d = getattr(tt, name)
    info = tt.iinfo(d)
    bits = 8 * d.itemsize
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if d.is_signed else (0, (1 << bits) - 1)
    assert (info.bits, info.min, info.max, info.dtype) == (bits, low, high, name)


def test_info_of_the_wrong_kind_is_refused() -> None:
    with pytest.raises(TypeError, match="Use iinfo"):
        tt.finfo(tt.int32)
    with pytest.raises(TypeError, match="Use finfo"):
        tt.iinfo(tt.float32)
    with pytest.raises(TypeError):
        tt.iinfo(tt.bool)


def test_default_dtype(restored_default: None) -> None:
    assert tt.get_default_dtype() is tt.float32
    assert (tt.zeros(1).dtype, tt.tensor(1.0).dtype, tt.tensor(1j).dtype) == (
        tt.float32,
        tt.float32,
        tt.complex64,
    )
    tt.set_default_dtype(tt.float64)
    assert (tt.zeros(1).dtype, tt.tensor(1.0).dtype, tt.tensor(1j).dtype) == (
        tt.float64,
        tt.float64,
        tt.complex128,
    )
    tt.set_default_dtype(tt.float16)
    assert tt.tensor(1j).dtype is tt.complex32
    tt.set_default_dtype(tt.float64)
    assert tt.full((1,), 2.0).dtype is tt.float64
    assert tt.tensor(1).dtype is tt.int64
    assert (tt.tensor([1]) + 1.5).dtype is tt.float64


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float64"])
def test_plans_made_before_a_change_of_the_default_are_not_used_after_it(
    name: str, restored_default: None
) -> None:
    ints = tt.tensor([1, 2])
    assert (ints + 0.5).dtype is tt.float32
    assert tt.ones(2).dtype is tt.float32
    tt.set_default_dtype(getattr(tt, name))
    assert (ints + 0.5).dtype is getattr(tt, name)
    assert tt.ones(2).dtype is getattr(tt, name)


def test_a_default_that_cannot_be(restored_default: None) -> None:
    with pytest.raises(TypeError, match="only floating-point types are supported"):
        tt.set_default_dtype(tt.int32)
    with pytest.raises(TypeError, match="must be dtype"):
        tt.set_default_dtype("float32")
    assert tt.get_default_dtype() is tt.float32


@pytest.mark.parametrize(
    ("kind", "name"), [(bool, "bool"), (int, "int64"), (float, "float32"), (complex, "complex64")]
)
def test_dtype_of_a_python_number(kind: type, name: str) -> None:
    assert dtype_of_number(kind) is getattr(tt, name)


@pytest.mark.parametrize("name", [f"{sign}int{bits}" for sign in ("", "u") for bits in range(1, 8)])
def test_integers_of_less_than_a_byte_are_names_for_bytes(name: str) -> None:
    d = getattr(tt, name)
    assert (d.itemsize, d.is_floating_point, d.is_integral, d.is_signed) == (1, False, False, name[0] == "i")
    assert pickle.loads(pickle.dumps(d)) is d and tt.promote_types(d, d) is d
    x = tt.arange(4).to(tt.uint8).view(d)
    assert x[1:].dtype is d and x.view(tt.uint8).tolist() == [0, 1, 2, 3]
    assert tt.zeros(2, dtype=d).view(tt.uint8).tolist() == [0, 0]
    for refused in (
        lambda: x + 1,
        lambda: x.fill_(1),
        lambda: x.clone(),
        lambda: x.float(),
        lambda: tt.ones(2).to(d),
        lambda: tt.ones(2, dtype=d),
        lambda: x == x,
        lambda: x.sum(),
        lambda: x[0].item(),
        lambda: repr(x),
    ):
        with pytest.raises(NotImplementedError, match=f"not implemented for '{d.scalar_name}'"):
            refused()
    with pytest.raises(TypeError, match="iinfo"):
        tt.iinfo(d)
    with pytest.raises(RuntimeError, match="not made of numbers"):
        tt.tensor([1], dtype=d)


def test_limits_of_a_dtype_are_equal() -> None:
    assert tt.finfo(tt.float32) == tt.finfo() == tt.finfo(tt.complex64) and tt.finfo() != tt.finfo(tt.float64)
    assert tt.iinfo(tt.int8) == tt.iinfo(tt.int8) != tt.iinfo(tt.uint8) and tt.finfo() != "float32"
    assert hash(tt.finfo()) == hash(tt.finfo(tt.float32)) and len({tt.iinfo(tt.int8), tt.iinfo(tt.int8)}) == 1
