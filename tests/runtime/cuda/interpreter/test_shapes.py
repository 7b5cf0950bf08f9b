"""Block shapes, which values share, follow Triton, errors included."""

import pytest
import triton.language as tl

import triten as tt

tt.empty(1, device="cuda")  # the interpreter is there from the first use of a device on


def value(*sizes):
    return tl.tensor(None, tl.block_type(tl.float32, list(sizes)) if sizes else tl.float32)


def test_values_of_one_shape_share_it():
    a, b = value(4, 8), value(4, 8)
    assert a.shape is b.shape and a.type.shape is b.type.shape
    assert [size.value for size in a.shape] == [4, 8] and (a.numel.value, a.type.numel) == (32, 32)
    assert str(a.type) == a.type.name == "<['4', '8'], fp32>"
    assert a.type == b.type and a.type != value(8, 4).type
    assert a.type.with_element_ty(tl.int8) == tl.block_type(tl.int8, [tl.constexpr(4), 8])
    assert len(value().shape) == 0 and value().numel.value == 1


@pytest.mark.parametrize(
    ("sizes", "error", "message"),
    [([], TypeError, "0d block_type"), ([3], ValueError, "power of 2"), ([2.0], TypeError, "constexpr")],
)
def test_shapes_that_are_none(sizes, error, message):
    for _ in range(2):
        with pytest.raises(error, match=message):
            tl.block_type(tl.float32, sizes)
