"""Numbers that an integral dtype cannot hold, where an operator takes them for its elements."""

import math

import pytest

import triten as tt


def vector(device):
    return tt.ones(2, dtype=tt.int64, device=device)


def matrix(device):
    return tt.ones(2, 2, dtype=tt.int64, device=device)


def places(device):
    return tt.tensor([0], device=device)


CALLS = {
    "add": lambda d, v: vector(d).add(vector(d), alpha=v),
    "addcmul": lambda d, v: tt.addcmul(vector(d), vector(d), vector(d), value=v),
    "addmm": lambda d, v: tt.addmm(matrix(d), matrix(d), matrix(d), alpha=v),
    "addmv": lambda d, v: tt.addmv(vector(d), matrix(d), vector(d), beta=v),
    "addr": lambda d, v: tt.addr(matrix(d), vector(d), vector(d), beta=v),
    "addr of alpha": lambda d, v: tt.addr(matrix(d), vector(d), vector(d), alpha=v),
    "hardtanh": lambda d, v: tt.nn.functional.hardtanh(vector(d), 0, v if v > 0 else math.nan),
    "baddbmm": lambda d, v: tt.baddbmm(matrix(d)[None], matrix(d)[None], matrix(d)[None], alpha=v),
    "fill_": lambda d, v: vector(d).fill_(v),
    "fill_diagonal_": lambda d, v: matrix(d).fill_diagonal_(v),
    "full_like": lambda d, v: tt.full_like(vector(d), v),
    "index_fill": lambda d, v: vector(d).index_fill(0, places(d), v),
    "index_fill_": lambda d, v: vector(d).index_fill_(0, places(d), v),
    "masked_fill": lambda d, v: vector(d).masked_fill(vector(d) > 0, v),
    "pad": lambda d, v: tt.nn.functional.pad(vector(d), (1, 1), value=v),
    "scatter": lambda d, v: vector(d).scatter(0, places(d), v),
    "setitem": lambda d, v: vector(d).__setitem__(0, v),
    "threshold": lambda d, v: tt.nn.functional.threshold(vector(d), v, 0),
}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_no_integer(name: str, value: float, device: str) -> None:
    with pytest.raises(RuntimeError, match=r"without overflow|must not be a floating point number") as raised:
        CALLS[name](device, value)
    assert raised.type is RuntimeError


@pytest.mark.parametrize(("dtype", "value"), [(tt.uint8, 300), (tt.int64, 1e300), (tt.int8, -200)], ids=str)
def test_padding_out_of_range(dtype: tt.dtype, value: float, device: str) -> None:
    x = tt.ones(2, dtype=dtype, device=device)
    with pytest.raises(RuntimeError, match=r"value cannot be converted to type u?int.*_t without overflow"):
        tt.nn.functional.pad(x, (1, 1), value=value)
    assert tt.nn.functional.pad(x, (1, 1), value=7.5).tolist() == [7, 1, 1, 7]
