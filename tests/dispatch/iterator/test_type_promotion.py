"""Type promotion follows PyTorch's table of pairs, its categories, and its errors."""

import itertools

import pytest

import triten as tt
from triten.dispatch.iterator.type_promotion import (
    ResultTypeState,
    can_cast,
    category,
    promote_types,
    result_type,
    result_type_of,
)
from triten.runtime import scalar_type as st
from triten.runtime.device import CPU
from triten.runtime.tensor_spec import TensorSpec

DTYPES = {
    "b1": st.bool_,
    "u8": st.uint8,
    "i8": st.int8,
    "i16": st.int16,
    "i32": st.int32,
    "i64": st.int64,
    "u16": st.uint16,
    "u32": st.uint32,
    "u64": st.uint64,
    "f16": st.float16,
    "bf16": st.bfloat16,
    "f32": st.float32,
    "f64": st.float64,
    "c32": st.complex32,
    "c64": st.complex64,
    "c128": st.complex128,
    "e5m2": st.float8_e5m2,
    "e4m3": st.float8_e4m3fn,
    "e8m0": st.float8_e8m0fnu,
    "e2m1": st.float4_e2m1fn_x2,
    "e5mz": st.float8_e5m2fnuz,
    "e4mz": st.float8_e4m3fnuz,
}
NAMES = list(DTYPES)
# torch.promote_types of PyTorch 2.13 over all pairs; -- where it raises. It raises for u16, u32 and u64 beside any
# other integral dtype, too: there the table is that of the Python array API standard.
PROMOTED = """
b1   b1   u8   i8   i16  i32  i64  --   --   --   f16  bf16 f32  f64  c32  c64  c128 --   --   --   --   --   --
u8   u8   u8   i16  i16  i32  i64  u16  u32  u64  f16  bf16 f32  f64  c32  c64  c128 --   --   --   --   --   --
i8   i8   i16  i8   i16  i32  i64  i32  i64  --   f16  bf16 f32  f64  c32  c64  c128 --   --   --   --   --   --
i16  i16  i16  i16  i16  i32  i64  i32  i64  --   f16  bf16 f32  f64  c32  c64  c128 --   --   --   --   --   --
i32  i32  i32  i32  i32  i32  i64  i32  i64  --   f16  bf16 f32  f64  c32  c64  c128 --   --   --   --   --   --
i64  i64  i64  i64  i64  i64  i64  i64  i64  --   f16  bf16 f32  f64  c32  c64  c128 --   --   --   --   --   --
u16  --   u16  i32  i32  i32  i64  u16  u32  u64  f16  bf16 f32  f64  --   --   --   --   --   --   --   --   --
u32  --   u32  i64  i64  i64  i64  u32  u32  u64  f16  bf16 f32  f64  --   --   --   --   --   --   --   --   --
u64  --   u64  --   --   --   --   u64  u64  u64  f16  bf16 f32  f64  --   --   --   --   --   --   --   --   --
f16  f16  f16  f16  f16  f16  f16  f16  f16  f16  f16  f32  f32  f64  c32  c64  c128 --   --   --   --   --   --
bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 f32  bf16 f32  f64  c64  c64  c128 --   --   --   --   --   --
f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f64  c64  c64  c128 --   --   --   --   --   --
f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  c128 c128 c128 --   --   --   --   --   --
c32  c32  c32  c32  c32  c32  c32  --   --   --   c32  c64  c64  c128 c32  c64  c128 --   --   --   --   --   --
c64  c64  c64  c64  c64  c64  c64  --   --   --   c64  c64  c64  c128 c64  c64  c128 --   --   --   --   --   --
c128 c128 c128 c128 c128 c128 c128 --   --   --   c128 c128 c128 c128 c128 c128 c128 --   --   --   --   --   --
e5m2 --   --   --   --   --   --   --   --   --   --   --   --   --   --   --   --   e5m2 --   --   --   --   --
e4m3 --   --   --   --   --   --   --   --   --   --   --   --   --   --   --   --   --   e4m3 --   --   --   --
e8m0 --   --   --   --   --   --   --   --   --   --   --   --   --   --   --   --   --   --   e8m0 --   --   --
e2m1 --   --   --   --   --   --   --   --   --   --   --   --   --   --   --   --   --   --   --   e2m1 --   --
e5mz --   --   --   --   --   --   --   --   --   --   --   --   --   --   --   --   --   --   --   --   e5mz --
e4mz --   --   --   --   --   --   --   --   --   --   --   --   --   --   --   --   --   --   --   --   --   e4mz
"""
TABLE = {
    (row[0], column): expected
    for row in (line.split() for line in PROMOTED.strip().splitlines())
    for column, expected in zip(NAMES, row[1:], strict=True)
}


def test_the_table_covers_every_dtype() -> None:
    assert set(DTYPES.values()) == set(st.ALL)
    assert len(TABLE) == 22 * 22


@pytest.mark.parametrize(("a", "b"), list(TABLE), ids="-".join)
def test_promote_types(a: str, b: str) -> None:
    if TABLE[a, b] == "--":
        pair = f"{DTYPES[a].scalar_name} and {DTYPES[b].scalar_name}"
        with pytest.raises(RuntimeError, match=f"is not supported, attempted to promote {pair}"):
            promote_types(DTYPES[a], DTYPES[b])
    else:
        assert promote_types(DTYPES[a], DTYPES[b]) is DTYPES[TABLE[a, b]]


def test_promotion_is_commutative_and_idempotent() -> None:
    for a, b in itertools.product(NAMES, NAMES):
        assert TABLE[a, b] == TABLE[b, a]
    assert all(promote_types(d, d) is d for d in st.ALL)


def test_the_message_names_the_kind_that_does_not_promote() -> None:
    with pytest.raises(RuntimeError, match="Promotion for Float8 Types"):
        promote_types(st.uint16, st.float8_e5m2)
    with pytest.raises(RuntimeError, match="Promotion for uint16, uint32, uint64 types"):
        promote_types(st.uint64, st.int64)


@pytest.mark.parametrize("source", st.ALL, ids=repr)
def test_can_cast_goes_up_the_categories(source: st.dtype) -> None:
    for target in st.ALL:
        assert can_cast(source, target) == (category(source) <= category(target))


def test_category_orders_bool_integral_floating_complex() -> None:
    assert [category(d) for d in (st.bool_, st.uint64, st.float8_e5m2, st.complex64)] == [0, 1, 2, 3]


def spec(dtype: st.dtype, *sizes: int) -> TensorSpec:
    return TensorSpec.contiguous(sizes, dtype, CPU)


@pytest.mark.parametrize(
    ("operands", "expected"),
    [
        ([spec(st.int32, 2), int], st.int32),
        ([spec(st.uint8, 2), spec(st.int64)], st.uint8),
        ([spec(st.uint8), int], st.uint8),
        ([spec(st.int64, 2), float], st.float32),
        ([spec(st.int64, 2), spec(st.float64)], st.float64),
        ([spec(st.float16, 2), spec(st.float64)], st.float16),
        ([spec(st.float16, 2), float, spec(st.float32, 2)], st.float32),
        ([spec(st.bool_, 2), int], st.int64),
        ([spec(st.bool_, 2), bool], st.bool_),
        ([spec(st.bfloat16, 2), complex], st.complex64),
        ([spec(st.float64), complex], st.complex128),
        ([spec(st.float64, 2), spec(st.complex64)], st.complex128),
        ([spec(st.uint16, 2), complex], st.complex64),
        ([spec(st.uint16, 2), float], st.float32),
        ([spec(st.float8_e5m2, 2), spec(st.float64)], st.float8_e5m2),
        ([spec(st.complex64, 2), spec(st.float64)], st.complex64),
        ([spec(st.int32, 2), spec(st.int64), float], st.float32),
        ([bool, int, float], st.float32),
    ],
    ids=str,
)
def test_result_type_by_rank_and_category(operands: list, expected: st.dtype) -> None:
    assert result_type_of(operands) is expected
    assert result_type_of(operands[::-1]) is expected


@pytest.mark.parametrize(
    "operands", [[spec(st.bool_, 2), spec(st.uint16)], [spec(st.int8, 2), spec(st.float8_e5m2)]]
)
def test_a_lower_rank_that_does_not_promote_is_refused(operands: list) -> None:
    with pytest.raises(RuntimeError, match="is not supported, attempted to promote"):
        result_type_of(operands)


def test_float8_has_no_complex_counterpart() -> None:
    with pytest.raises(RuntimeError, match="Unknown Complex ScalarType for Float8_e5m2"):
        result_type_of([spec(st.float8_e5m2, 2), complex])


def test_python_floats_follow_the_default_dtype() -> None:
    st.set_default_dtype(st.float64)
    try:
        assert result_type_of([spec(st.int32, 2), float]) is st.float64
        assert result_type_of([spec(st.float32, 2), complex]) is st.complex64
        assert result_type(1, 1j) is st.complex128
    finally:
        st.set_default_dtype(st.float32)


def test_a_state_without_operands_has_no_result() -> None:
    with pytest.raises(ValueError, match="no operands"):
        ResultTypeState().result_type()


def test_public_functions_take_tensors_and_numbers() -> None:
    assert result_type(tt.ones(2, dtype=tt.int32), 1.0) is tt.float32
    assert result_type(3, tt.ones(2, dtype=tt.uint8)) is tt.uint8
    assert result_type(True, 2) is tt.int64


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: promote_types("float32", st.int8), r"promote_types\(\): argument 'type1' .* not str"),
        (lambda: promote_types(st.int8, float), r"promote_types\(\): argument 'type2' .* not type"),
        (lambda: can_cast(st.int8, 3), r"can_cast\(\): argument 'to' .* not int"),
        (lambda: can_cast([], st.int8), r"can_cast\(\): argument 'from_' .* not list"),
        (lambda: result_type("a", 1), r"result_type\(\): argument 'tensor1' .* not str"),
    ],
)
def test_wrong_arguments_are_type_errors(call, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call()
