"""`hash_tensor` against the exclusive or of bits, on both backends."""

import functools
import struct

import numpy as np
import pytest

import triten as tt


def bits_of(value):
    """Return the bits of a Python number's float64 or int64."""
    return struct.unpack("<Q", struct.pack("<d" if isinstance(value, float) else "<q", value))[0]


def hashed(values):
    return functools.reduce(lambda a, b: a ^ b, map(bits_of, values))


@pytest.mark.parametrize(
    "dtype",
    [tt.float16, tt.bfloat16, tt.float32, tt.float64, tt.int8, tt.uint8, tt.int16, tt.int32, tt.int64],
    ids=str,
)
def test_hashes(rng, device, dtype):
    a = rng.normal(0, 50, (3, 67, 5))
    x = tt.from_numpy(np.abs(a) if dtype is tt.uint8 else a).to(dtype).to(device)
    rows = x.cpu().to(tt.float64 if dtype.is_floating_point else tt.int64).numpy()
    for dims in ((1,), (0, 2), (0, 1, 2), (-1,)):
        kept = [d for d in range(3) if d not in [e % 3 for e in dims]]
        lines = np.transpose(rows, (*kept, *[e % 3 for e in dims])).reshape(
            [rows.shape[d] for d in kept] + [-1]
        )
        expected = np.apply_along_axis(lambda line: np.uint64(hashed(line.tolist())), -1, lines)
        got = x.hash_tensor(dims)
        assert got.dtype is tt.uint64
        np.testing.assert_array_equal(got.cpu().numpy(), expected)
        assert x.hash_tensor(dims, keepdim=True).ndim == 3
    assert tt.hash_tensor(x).item() == hashed(rows.reshape(-1).tolist())
    assert tt.equal(tt.hash_tensor(x.transpose(0, 2), 2).cpu(), tt.hash_tensor(x, 0).transpose(0, 1).cpu())


def test_special_values(device):
    words = np.array([0x7FC00001, 0xFF800001, 0x80000000, 0x7F800000, 0x00000001], np.uint32)
    with np.errstate(invalid="ignore"):
        wide = words.view(np.float32).astype(np.float64).view(np.uint64)
    for word, expected in zip(words, wide, strict=True):
        x = tt.from_numpy(np.array([word]).view(np.float32)).to(device)
        assert tt.hash_tensor(x).item() == int(expected), hex(word)
    assert tt.hash_tensor(tt.tensor([True, True, True], device=device)).item() == 1
    assert tt.hash_tensor(tt.tensor([-1], dtype=tt.int8, device=device)).item() == 2**64 - 1
    assert tt.hash_tensor(tt.tensor(3.0, device=device)).item() == bits_of(3.0)
    for dtype, sign, payload in ((tt.float16, 0xFE01, 10), (tt.bfloat16, 0xFFC1, 7)):
        x = tt.tensor([sign - 65536], dtype=tt.int16).view(dtype).to(device)
        assert tt.hash_tensor(x).item() == 0xFFF8000000000000 | 1 << (52 - payload)


def test_refusals(device):
    x = tt.ones(2, 0, device=device)
    with pytest.raises(RuntimeError, match=r"to be specified for input\.numel"):
        tt.hash_tensor(x)
    with pytest.raises(IndexError, match="dim 1 to have non-zero size"):
        tt.hash_tensor(x, 1)
    assert tt.hash_tensor(x, 0).shape == (0,)
    with pytest.raises(RuntimeError, match="Unknown hash_tensor mode: 1"):
        tt.hash_tensor(x, 0, mode=1)
    with pytest.raises(RuntimeError, match="to be of dtype uint64, but got Float"):
        tt.hash_tensor(tt.ones(2, device=device), out=tt.empty(0, device=device))
    for dtype in (tt.complex64, tt.uint16, tt.uint64):
        with pytest.raises(NotImplementedError, match="xor_sum_"):
            tt.hash_tensor(tt.ones(2, dtype=tt.uint8, device=device).to(dtype))
