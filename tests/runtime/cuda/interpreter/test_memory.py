"""Errors that the interpreter raises: wrong addresses, stale and uninitialized memory."""

import ml_dtypes
import numpy as np
import pytest
import triton
import triton.language as tl

pytestmark = pytest.mark.interpreter


@triton.jit
def copy_kernel(x, out, n, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    mask = index < n
    tl.store(out + index, tl.load(x + index, mask=mask), mask=mask)


@triton.jit
def unmasked_kernel(x, out, stride, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    tl.store(out + index, tl.load(x + index * stride))


@triton.jit
def masked_load_kernel(x, out, n, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    tl.store(out + index, tl.load(x + index, mask=index < n))


@triton.jit
def masked_other_kernel(x, out, n, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    tl.store(out + index, tl.load(x + index, mask=index < n, other=7))


@triton.jit
def masked_scalar_kernel(out, flag):
    tl.store(out, tl.load(out, mask=flag != 0, other=0.0))


@triton.jit
def atomic_kernel(x, BLOCK: tl.constexpr):
    tl.atomic_add(x + tl.arange(0, BLOCK), 1)


def copier(cuda, kernel=copy_kernel, dtype="i32", block=16):
    third = kernel.arg_names[2]
    return cuda.driver.compile(kernel, {"x": f"*{dtype}", "out": f"*{dtype}", third: "i32"}, {"BLOCK": block})


@pytest.mark.parametrize(
    ("dtype", "name", "poison"),
    [
        (np.float16, "fp16", np.nan),
        (ml_dtypes.bfloat16, "bf16", np.nan),
        (np.float32, "fp32", np.nan),
        (np.float64, "fp64", np.nan),
        (np.int8, "i8", -0x35),
        (np.uint8, "u8", 0xCB),
        (np.int32, "i32", -0x34343435),
        (np.int64, "i64", -0x3434343434343435),
    ],
)
def test_lanes_masked_off_without_other_are_poisoned(cuda, dtype, name, poison):
    x = np.arange(1, 17).astype(dtype)
    out = cuda.empty(x.nbytes)
    copier(cuda, masked_load_kernel, name).launch((1, 1, 1), 0, cuda.put(x), out, 5)
    result = cuda.get(out, 16, dtype).astype(np.float64 if np.isnan(poison) else dtype)
    np.testing.assert_array_equal(result[:5], [1, 2, 3, 4, 5])
    np.testing.assert_array_equal(result[5:], np.full(11, poison))


def test_lanes_masked_off_with_other_hold_it(cuda):
    out = cuda.empty(64)
    copier(cuda, masked_other_kernel).launch((1, 1, 1), 0, cuda.put(np.arange(16, dtype=np.int32)), out, 3)
    assert cuda.get(out, 16, np.int32).tolist() == [0, 1, 2] + [7] * 13


def test_a_masked_off_scalar_holds_other_though_it_is_zero(cuda):
    out = cuda.put(np.ones(1, np.float32))
    kernel = cuda.driver.compile(masked_scalar_kernel, {"out": "*fp32", "flag": "i32"}, {})
    kernel.launch((1, 1, 1), 0, out, 0)
    assert cuda.get(out, 1, np.float32).tolist() == [0.0]


def test_masked_off_lanes_may_point_anywhere(cuda):
    x, out = cuda.put(np.arange(4, dtype=np.int32)), cuda.empty(16)
    copier(cuda, block=1024).launch((1, 1, 1), 0, x, out, 4)
    assert cuda.get(out, 4, np.int32).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("offset", [4, -4, 1 << 20])
def test_a_load_outside_is_refused(cuda, offset):
    x, out = cuda.put(np.zeros(16, np.int32)), cuda.empty(64)
    copier(cuda).launch((1, 1, 1), 0, x + offset, out, 16)
    with pytest.raises(
        RuntimeError, match=r"illegal memory access.*copy_kernel.*\(0, 0, 0\).*load of int32"
    ) as caught:
        cuda.driver.synchronize()
    assert "block at" in str(caught.value)


def test_a_store_outside_is_refused_and_nothing_is_written(cuda):
    x, out = cuda.put(np.zeros(16, np.int32)), cuda.put(np.full(15, 3, np.int32))
    copier(cuda).launch((1, 1, 1), 0, x, out, 16)
    with pytest.raises(RuntimeError, match=r"illegal memory access.*store of int32.*past the end"):
        cuda.driver.synchronize()
    assert cuda.get(out, 15, np.int32).tolist() == [3] * 15


def test_addresses_spread_over_several_blocks_are_checked_one_by_one(cuda):
    first, second = sorted(cuda.put(np.full(16, value, np.int32)) for value in (1, 2))
    out = cuda.empty(8)
    kernel = cuda.driver.compile(unmasked_kernel, {"x": "*i32", "out": "*i32", "stride": "i64"}, {"BLOCK": 2})
    kernel.launch((1, 1, 1), 0, first, out, (second - first) // 4)
    assert sorted(cuda.get(out, 2, np.int32).tolist()) == [1, 2]
    kernel.launch((1, 1, 1), 0, first, out, (second - first) // 4 - 1)
    with pytest.raises(RuntimeError, match="illegal memory access"):
        cuda.driver.synchronize()


def test_an_element_must_be_aligned_to_its_size(cuda):
    x, out = cuda.put(np.zeros(32, np.int32)), cuda.empty(64)
    copier(cuda).launch((1, 1, 1), 0, x + 2, out, 16)
    with pytest.raises(RuntimeError, match=r"misaligned address.*copy_kernel"):
        cuda.driver.synchronize()


def test_an_atomic_outside_is_refused(cuda):
    x = cuda.put(np.zeros(15, np.int32))
    cuda.driver.compile(atomic_kernel, {"x": "*i32"}, {"BLOCK": 16}).launch((1, 1, 1), 0, x)
    with pytest.raises(RuntimeError, match=r"illegal memory access.*atomic"):
        cuda.driver.synchronize()


def test_a_promise_of_divisibility_is_checked(cuda):
    signature = {"x": "*i32", "out": "*i32", "n": "i32"}
    kernel = cuda.driver.compile(copy_kernel, signature, {"BLOCK": 16}, divisible=frozenset({"x", "n"}))
    x = cuda.put(np.zeros(32, np.int32))
    kernel.launch((1, 1, 1), 0, x, x, 16)
    for values in ((x + 4, x, 16), (x, x, 15)):
        with pytest.raises(RuntimeError, match=r"misaligned address.*declared divisible by 16"):
            kernel.launch((1, 1, 1), 0, *values)


def test_memory_of_another_device_is_out_of_reach(cuda):
    here = cuda.empty(64)
    there = cuda.empty(64, device=1)
    cuda.driver.synchronize(1)
    copier(cuda).launch((1, 1, 1), 0, there, here, 16)
    with pytest.raises(RuntimeError, match="illegal memory access"):
        cuda.driver.synchronize()
    cuda.driver.copy_device_to_device(there, cuda.put(np.arange(16, dtype=np.int32)), 64, 0)
    cuda.driver.synchronize()
    cuda.driver.set_device(1)
    assert cuda.get(there, 16, np.int32).tolist() == list(range(16))


def test_new_memory_is_poisoned(cuda):
    address = cuda.put(np.zeros(16, np.uint8))
    cuda.driver.note_freed(address, 0, 0)
    cuda.driver.note_allocated(address, 16, 0, 0)
    assert cuda.get(address, 16, np.uint8).tolist() == [0xCB] * 16


def test_freed_memory_is_invalid_for_later_work_only(cuda):
    x, out = cuda.put(np.ones(16, np.int32)), cuda.empty(64)
    copier(cuda).launch((1, 1, 1), 0, x, out, 16)
    cuda.driver.note_freed(x, 0, 0)
    assert cuda.get(out, 16, np.int32).tolist() == [1] * 16
    copier(cuda).launch((1, 1, 1), 0, x, out, 16)
    with pytest.raises(RuntimeError, match="illegal memory access"):
        cuda.driver.synchronize()
    cuda.driver.note_allocated(x, 64, 0, 0)


@pytest.mark.parametrize("operation", ["from host", "to host", "between", "memset"])
def test_copies_outside_are_refused(cuda, operation):
    address = cuda.put(np.zeros(16, np.uint8))
    with pytest.raises(RuntimeError, match=r"illegal memory access.*17 bytes"):
        if operation == "from host":
            cuda.driver.copy_host_to_device(address, np.zeros(17, np.uint8), 0)
        elif operation == "to host":
            cuda.get(address, 17, np.uint8)
        elif operation == "between":
            cuda.driver.copy_device_to_device(address, address, 17, 0)
        else:
            cuda.driver.memset(address, 0, 17, 0)
        cuda.driver.synchronize()


def test_non_contiguous_host_arrays_are_refused(cuda):
    address = cuda.empty(64)
    with pytest.raises(ValueError, match="contiguous"):
        cuda.driver.copy_host_to_device(address, np.zeros(16, np.int32)[::2], 0)
