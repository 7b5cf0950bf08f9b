"""index_reduce, nonzero_static, repeats, masked indices, chunks, renorm: against NumPy, on the CPU and interpreted."""

import re

import numpy as np
import pytest

import triten as tt

T = tt.tensor
DEVICES = pytest.mark.parametrize("device", ["cpu", "cuda"])
COMBINE = {"prod": np.prod, "mean": np.mean, "amax": np.max, "amin": np.min}


@DEVICES
@pytest.mark.parametrize("includes", [True, False])
@pytest.mark.parametrize("reduce", COMBINE)
@pytest.mark.parametrize(
    "dtype", [tt.float64, tt.float32, tt.bfloat16, tt.int64, tt.int8], ids=lambda d: d.name
)
def test_slices_are_combined(device, reduce, includes, dtype):
    rng = np.random.default_rng(4)
    x, source = rng.integers(-3, 4, (5, 3)), rng.integers(-3, 4, (6, 3))
    where = np.array([3, 0, 3, 3, 1, 0])
    want = x.astype(np.float64)
    for row in set(where.tolist()):
        parts = [*([x[row]] if includes else []), *source[where == row]]
        want[row] = COMBINE[reduce](np.array(parts, np.float64), 0)
    if not dtype.is_floating_point:
        want = np.floor(want)
    given = [tt.from_numpy(a).to(dtype).to(device) for a in (x, source)]
    out = given[0].index_reduce(0, T(where).to(device), given[1], reduce, include_self=includes)
    np.testing.assert_allclose(out.cpu().double().numpy(), want, 1e-2 if dtype is tt.bfloat16 else 1e-6)
    turned = given[0].t().contiguous().t()
    assert turned.index_reduce_(0, T(where).to(device), given[1], reduce, include_self=includes) is turned
    np.testing.assert_array_equal(turned.cpu().double().numpy(), out.cpu().double().numpy())


@DEVICES
def test_so_many_places_as_are_wanted(device):
    x = T([[1.0, 0.0, float("nan")], [0.0, -0.0, 2.0]], device=device)
    assert tt.nonzero_static(x, size=2).tolist() == [[0, 0], [0, 2]]
    assert x.t().nonzero_static(size=4, fill_value=9).tolist() == [[0, 0], [2, 0], [2, 1], [9, 9]]
    assert tt.nonzero_static(x, size=0).shape == (0, 2) and tt.nonzero_static(x[0, 0], size=3).shape == (3, 0)
    out = tt.empty(1, dtype=tt.int64, device=device)
    assert tt.nonzero(x, out=out) is out and out.shape == (3, 2)


@DEVICES
def test_repeats(device):
    x, counts = T([[1, 2], [3, 4]], device=device), T([2, 0], device=device)
    assert tt.repeat_interleave(T([1, 0, 3], device=device)).tolist() == [0, 2, 2, 2]
    assert x.repeat_interleave(counts, 0).tolist() == [[1, 2], [1, 2]]
    assert x.repeat_interleave(2).tolist() == [1, 1, 2, 2, 3, 3, 4, 4]
    assert x.repeat_interleave(2, -1, output_size=4).tolist() == [[1, 1, 2, 2], [3, 3, 4, 4]]
    assert x.repeat_interleave(0, 0).shape == (0, 2)
    assert tt.ones(2, device="meta").repeat_interleave(counts.to("meta"), output_size=7).shape == (7,)


@DEVICES
def test_masks_chunks_and_norms(device):
    x, mask = tt.arange(4.0, device=device), T([True, False], device=device)
    assert tt._unsafe_masked_index(x, mask, [T([1, 99], device=device)], 7).tolist() == [1, 7]
    put = tt._unsafe_masked_index_put_accumulate(x, mask, [T([1, -99], device=device)], x[2:])
    assert put.tolist() == [0, 3, 2, 3]
    chunks = tt._chunk_cat([tt.ones(3, 2, device=device), x.view(2, 2)], 0, 2)
    assert chunks.tolist() == [[1, 1, 1, 1, 0, 1], [1, 1, 0, 0, 2, 3]]
    scaled = tt.renorm(T([[3.0, 4.0], [0.3, 0.4]], device=device), 2, 0, 1.0)
    np.testing.assert_allclose(scaled.cpu().numpy(), [[0.6, 0.8], [0.3, 0.4]], 1e-5)


ONES = tt.ones(3)
ERRORS = [
    (lambda: ONES.index_reduce(0, T([0]), ONES[:1], "sum"), RuntimeError, "amax or amin but got sum"),
    (lambda: ONES.index_reduce(0, T([0]), ONES, "prod"), RuntimeError, "Number of indices (1) should be equal"),
    (lambda: ONES.index_reduce(0, T([5]), ONES[:1], "prod"), IndexError, "out of"),
    (lambda: ONES.cuda().index_reduce(0, T([-1]).cuda(), ONES[:1].cuda(), "prod"), IndexError, "out of"),
    (lambda: ONES.bool().index_reduce(0, T([0]), ONES[:1].bool(), "prod"), NotImplementedError, "'Bool'"),
    (lambda: tt.nonzero_static(ONES, size=-1), RuntimeError, "must be an non-negative integer"),
    (lambda: tt.nonzero(ONES, out=ONES), RuntimeError, "scalar type Long but got scalar typeFloat"),
    (lambda: tt.repeat_interleave(ONES), NotImplementedError, "not implemented for 'Float'"),
    (lambda: tt.repeat_interleave(T([1, -1])), RuntimeError, "repeats can not be negative"),
    (lambda: tt.repeat_interleave(T([1]), output_size=4), RuntimeError, "allocated size does not match"),
    (lambda: ONES.repeat_interleave(T([1, 2])), RuntimeError, "repeats must have the same size as input along dim"),
    (lambda: ONES.repeat_interleave(-1), RuntimeError, "Repeats must be non-negative"),
    (lambda: ONES.renorm(2, 0, 1.0), RuntimeError, "renorm: input needs at least 2 dimensions"),
]  # fmt: skip


@pytest.mark.usefixtures("launch_blocking")
@pytest.mark.parametrize(("call", "kind", "words"), ERRORS, ids=[str(i) for i in range(len(ERRORS))])
def test_refusals(call, kind, words):
    with pytest.raises(kind, match=re.escape(words)):
        call()
    assert ONES.tolist() == [1, 1, 1]


def test_memory_of_another_library_with_gaps_is_viewed():
    whole = memoryview(bytearray(range(20)))
    rows = tt.from_numpy(np.ndarray((2, 3), np.uint8, whole, 1, (10, 2)))
    assert rows.reshape(-1).tolist() == [1, 3, 5, 11, 13, 15] and rows.view(6 // 2 - 1, 3)[1].tolist() == [
        11,
        13,
        15,
    ]
