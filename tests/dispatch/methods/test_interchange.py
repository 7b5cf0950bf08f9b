"""Tensors over foreign buffers; and the printing of tensors."""

import array

import numpy as np
import pytest

import triten as tt


def test_buffers():
    buffer = bytearray(b"\x01\x00\x02\x00\x03\x00\x04\x00")
    x = tt.frombuffer(buffer, dtype=tt.int16)
    assert x.tolist() == [1, 2, 3, 4]
    x[0] = 7
    assert buffer[0] == 7
    assert tt.frombuffer(buffer, dtype=tt.int16, count=2, offset=2).tolist() == [2, 3]
    assert tt.frombuffer(array.array("d", [0.5, 1.5]), dtype=tt.float64, requires_grad=True).requires_grad
    assert tt.frombuffer(memoryview(b"\x00\x80\x3f\x00")[:2], dtype=tt.float16).numel() == 1
    with pytest.raises(RuntimeError):
        tt.frombuffer(b"ab", dtype=tt.uint8).add_(1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": tt.int32, "offset": 2}, "must be a multiple of element size"),
        ({"dtype": tt.int16, "count": 5}, r"requested buffer length \(5 \* 2 bytes\)"),
        ({"dtype": tt.int16, "offset": 8}, r"offset \(8 bytes\) must be non-negative"),
        ({"dtype": tt.int16, "offset": -1}, r"offset \(-1 bytes\) must be non-negative"),
        ({"dtype": tt.int16, "count": 0}, "must not be 0"),
    ],
)
def test_buffers_that_do_not_fit(options, message):
    with pytest.raises(ValueError, match=message):
        tt.frombuffer(bytearray(8), **options)
    with pytest.raises(ValueError, match="buffer protocol"):
        tt.frombuffer(5, dtype=tt.int8)
    with pytest.raises(ValueError, match="must not be 0"):
        tt.frombuffer(b"", dtype=tt.int8)


@pytest.fixture
def options():
    yield tt.set_printoptions
    tt.set_printoptions(profile="default")


def test_print_options(options):
    x = tt.arange(20) / 3
    options(precision=2, threshold=3, edgeitems=1)
    assert str(x) == "tensor([0.00,  ..., 6.33])" and str(x[:2]) == "tensor([0.00, 0.33])"
    options(profile="full", linewidth=30)
    assert str(x[:4]) == "tensor([0.0000, 0.3333,\n        0.6667, 1.0000])"
    options(profile="short")
    assert str(x[:3]) == "tensor([0.00, 0.33, 0.67])"
    options(precision=0)
    assert str(x[:5]) == "tensor([0, 0, 1, 1, 1])" and str(tt.ones(2)) == "tensor([1., 1.])"
    options(profile="default", sci_mode=True)
    assert str(tt.zeros(1)) == "tensor([0.])" and str(tt.tensor([np.inf])) == "tensor([inf])"
    assert str(x[:2]) == "tensor([0.0000e+00, 3.3333e-01])"
    assert str(tt.tensor([1.0, 2.0])) == "tensor([1.0000e+00, 2.0000e+00])"
    options(sci_mode=False)
    assert str(tt.tensor([1e-9, 1e9])) == "tensor([         0.0000, 1000000000.0000])"
    options()
    assert str(tt.tensor([1e-9, 1e9])) == "tensor([1.0000e-09, 1.0000e+09])"
    with pytest.raises(ValueError, match="a profile of"):
        options(profile="long")
