"""Products of 8-bit integers in int32, on every backend, exactly."""

import numpy as np
import pytest

import triten as tt

DEVICES = ["cpu", "cuda"]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)], ids=str)
@pytest.mark.parametrize("size", [(1, 1, 1), (17, 16, 8), (3, 5, 7), (33, 600, 40), (130, 32, 129)], ids=str)
def test_values(rng, device, size, turned):
    m, k, n = size
    x, y = (rng.integers(-128, 128, s).astype(np.int8) for s in ((m, k), (k, n)))
    a, b = (
        tt.from_numpy(np.ascontiguousarray(v.T) if t else v).to(device)
        for v, t in zip((x, y), turned, strict=True)
    )
    got = tt._int_mm(a.t() if turned[0] else a, b.t() if turned[1] else b)
    assert got.dtype is tt.int32 and got.is_contiguous()
    np.testing.assert_array_equal(got.cpu().numpy(), x.astype(np.int64) @ y)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("inner", [500, 512, 513, 2048])
def test_the_largest_sums(device, inner):
    a = tt.full((2, inner), -128, dtype=tt.int8, device=device)
    assert tt._int_mm(a, a.t()).tolist() == [[inner << 14] * 2] * 2
    if device == "cpu":
        full = tt.full((2, inner), 255, dtype=tt.uint8)
        assert tt._int_mm(full, a.t()).tolist() == [[-255 * 128 * inner] * 2] * 2


def test_sums_wrap():
    inner = (1 << 17) + 2
    for device in DEVICES:
        a = tt.full((1, inner), -128, dtype=tt.int8, device=device)
        assert tt._int_mm(a, a.t()).tolist() == [[-(1 << 31) + (1 << 15)]]


@pytest.mark.parametrize("device", DEVICES)
def test_empty_sides(device):
    def empty(*sizes):
        return tt.empty(*sizes, dtype=tt.int8, device=device)

    assert tt._int_mm(empty(0, 4), empty(4, 3)).shape == (0, 3)
    assert tt._int_mm(empty(3, 0), empty(0, 2)).tolist() == [[0, 0]] * 3


@pytest.mark.parametrize("device", DEVICES)
def test_out(device):
    a = tt.full((3, 4), 2, dtype=tt.int8, device=device)
    out = tt.empty(3, 3, dtype=tt.int32, device=device)
    assert tt._int_mm(a, a.t(), out=out) is out and out.tolist() == [[16] * 3] * 3
    with pytest.raises(RuntimeError):
        tt._int_mm(a, a.t(), out=tt.empty(3, 3, device=device))


@pytest.mark.parametrize("device", [*DEVICES, "meta"])
def test_refusals(device):
    a = tt.empty(3, 4, dtype=tt.int8, device=device)
    refused = [
        ((a[0], a.t()), "Expected self to be of dimension 2 but got 1"),
        ((a, a[0]), "Expected mat2 to be of dimension 2 but got 1"),
        ((a, a), r"self.size\(1\) needs to match mat2.size\(0\) but got 4 and 3"),
        ((a.float(), a.t()), "Expected self dtype to be int8 or uint8"),
        ((a, a.t().to(tt.uint8)), "Expected mat2 dtype to be of type int8"),
    ]
    if device == "cuda":
        refused.append(((a.to(tt.uint8), a.t()), "int8 on CUDA"))
    for arguments, message in refused:
        with pytest.raises(RuntimeError, match=message):
            tt._int_mm(*arguments)
