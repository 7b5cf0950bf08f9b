"""Copies, conversions, fills and crossings between host and devices."""

import numpy as np
import pytest

import triten as tt

DTYPES = [
    tt.bool,
    tt.uint8,
    tt.int8,
    tt.int16,
    tt.int32,
    tt.int64,
    tt.float16,
    tt.bfloat16,
    tt.float32,
    tt.float64,
]
FLOAT8 = [tt.float8_e5m2, tt.float8_e4m3fn]


def name(dtype):
    return dtype.name


@pytest.mark.parametrize("target", DTYPES, ids=name)
@pytest.mark.parametrize("source", DTYPES, ids=name)
def test_every_conversion(random, same, source, target):
    a = random((37,), source)
    same(a.to("cuda").to(target), a.to(target))


@pytest.mark.parametrize("target", FLOAT8, ids=name)
def test_to_float8_rounds_to_nearest_even_and_overflows(same, target):
    values = [0.0, -0.0, 1.06, 17.0, 19.0, 448.0, 464.0, 465.0, 1e-3, 57344.0, 61439.0, 61440.0, 1e6]
    values += [-v for v in values] + [np.inf, -np.inf, np.nan]
    a = tt.from_numpy(np.array(values, np.float32))
    # Without infinity a format saturates.
    held = a.numpy().clip(-448, 448) if target is tt.float8_e4m3fn else a.numpy()
    same(a.to("cuda").to(target), tt.from_numpy(held.astype(target.np)))


@pytest.mark.parametrize("source", FLOAT8, ids=name)
def test_from_float8(same, source):
    bits = np.arange(256, dtype=np.uint8).view(source.np)
    same(tt.from_numpy(bits).to("cuda").to(tt.float32), tt.from_numpy(bits.astype(np.float32)))


def test_to_bfloat16_rounds_to_nearest_even(same):
    values = np.array(
        [1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, 3.4e38, np.inf, np.nan, 1e-40], np.float32
    )
    a = tt.from_numpy(values)
    same(a.to("cuda").to(tt.bfloat16), a.to(tt.bfloat16))


@pytest.mark.parametrize("dtype", [tt.int8, tt.uint8, tt.int32, tt.int64], ids=name)
def test_floats_truncate(same, dtype):
    a = tt.from_numpy(np.array([1.9, 0.5, 2.5, 100.99], np.float32))
    same(a.to("cuda").to(dtype), a.to(dtype))
    if dtype.is_signed:
        same((a.to("cuda") + -101).to(dtype), (a + -101).to(dtype))


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,), (5, 7), (2, 3, 4, 5)], ids=str)
@pytest.mark.parametrize("dtype", [tt.float32, tt.bool, tt.float8_e5m2, tt.complex64], ids=name)
def test_round_trip_through_the_device(random, shape, dtype):
    a = tt.from_numpy(random(shape).numpy().astype(dtype.np))
    back = a.to("cuda").cpu()
    assert back.dtype is dtype
    assert back.shape == a.shape
    assert back.numpy().tobytes() == a.numpy().tobytes()


def test_strided_tensors_cross(random):
    a = random((4, 6, 5))
    for view in (a.permute((2, 0, 1)), a[:, ::2], a[..., 3], a[:1].expand((4, 6, 5))):
        np.testing.assert_array_equal(view.to("cuda").cpu().numpy(), view.numpy())
    x = a.to("cuda")
    for view, expected in ((x.permute((2, 0, 1)), a.permute((2, 0, 1))), (x[:, 1::2], a[:, 1::2])):
        np.testing.assert_array_equal(view.cpu().numpy(), expected.numpy())


def test_the_source_may_change_after_a_copy_to_the_device():
    array = np.arange(4.0)
    x = tt.from_numpy(array).to("cuda")
    array[:] = -1
    assert x.cpu().tolist() == [0.0, 1.0, 2.0, 3.0]


def test_copy_from_host_converts_and_broadcasts(random, same):
    x = tt.zeros(3, 4, device="cuda")
    a = random((4,), tt.int32)
    x.copy_(a)
    same(x, tt.zeros(3, 4).copy_(a))
    x.t()[1:].copy_(random((3, 3)))


def test_channels_last_is_kept(random):
    a = random((2, 3, 4, 5)).permute((0, 3, 1, 2)).contiguous().permute((0, 2, 3, 1))
    assert a.to("cuda").stride() == a.stride()
    assert a.to("cuda").clone().stride() == a.stride()


@pytest.mark.parametrize(
    "change", [lambda t: t, lambda t: t.t(), lambda t: t[:, ::2]], ids=["as is", "t", "cut"]
)
def test_between_two_devices(random, same, change):
    if tt.cuda.device_count() < 2:
        pytest.skip("one device only")
    a = random((6, 8))
    there = change(a.to("cuda:0")).to("cuda:1")
    assert str(there.device) == "cuda:1"
    same(there, change(a))
    same(there + there, change(a) + change(a))
    half = tt.zeros(there.shape, dtype=tt.float16, device="cuda:0")
    same(half.copy_(there), change(a).to(tt.float16))
    tt.cuda.synchronize(1)


def test_the_current_device_is_meant_by_cuda(random):
    if tt.cuda.device_count() < 2:
        pytest.skip("one device only")
    with tt.cuda.device(1):
        x = tt.ones(3, device="cuda")
        assert x.device.index == 1
        assert (x + x).device.index == 1
        tt.cuda.synchronize()
    assert tt.ones(3, device="cuda").device.index == 0
    assert (x + 1).cpu().tolist() == [2.0] * 3


@pytest.mark.parametrize("dtype", [*DTYPES, *FLOAT8], ids=name)
def test_factories(same, launches, dtype):
    before = launches.count
    same(tt.zeros(3, 5, dtype=dtype, device="cuda"), tt.zeros(3, 5, dtype=dtype))
    same(tt.ones(33, dtype=dtype, device="cuda"), tt.ones(33, dtype=dtype))
    assert launches.count - before == 2
    same(tt.full((2, 2), 3, dtype=dtype, device="cuda"), tt.full((2, 2), 3, dtype=dtype))


def test_fill_writes_through_strides(same):
    x, a = tt.zeros(4, 6, device="cuda"), tt.zeros(4, 6)
    x[1:, ::2].fill_(2.5)
    a[1:, ::2].fill_(2.5)
    same(x, a)
    x.t()[2].zero_()
    a.t()[2].zero_()
    same(x, a)


@pytest.mark.parametrize("source", [tt.complex64, tt.complex128], ids=name)
@pytest.mark.parametrize("target", [tt.complex64, tt.complex128], ids=name)
def test_complex_numbers_are_copied_as_pairs(random, same, source, target):
    a = tt.from_numpy((random((4, 5)).numpy() + 1j * random((4, 5)).numpy()).astype(source.np))
    same(a.to("cuda").t().to(target), a.t().to(target))


def test_an_operator_without_a_kernel_says_so():
    from triten.dispatch.structured.stub import find_kernel

    with pytest.raises(NotImplementedError, match=r"nothing_stub.*no kernel"):
        find_kernel("nothing_stub", "cuda", "nothing")


def test_items_and_text(random):
    a = random((3, 4))
    x = a.to("cuda")
    assert x[1, 2].item() == a[1, 2].item()
    assert x.tolist() == a.tolist()
    assert repr(x) == repr(a)[:-1] + ", device='cuda:0')"
