"""Kernels with tensor descriptors: signature, sizes and strides when bound, addresses at the call."""

import struct

import pytest
import triton
import triton.language as tl

import triten as tt
from triten.runtime.cuda.tensor_map import (
    ALIGNMENT,
    KEPT,
    NBYTES,
    DescribedTensor,
    TensorMaps,
    descriptor_type,
)
from triten.runtime.cuda.triton.compile import ParameterLayout


@triton.jit
def copy_block(source, target, out, row, BLOCK: tl.constexpr):
    block = source.load([row, 0])
    target.store([0, 0], block + 1)
    tl.store(out + tl.arange(0, BLOCK), tl.sum(block, 1))


BLOCK = 8
SIGNATURE = {
    "source": f"tensordesc<fp32[{BLOCK}, {BLOCK}]>",
    "target": f"tensordesc<fp32[{BLOCK}, {BLOCK}]>",
    "out": "*fp32",
    "row": "i32",
}


@pytest.fixture
def kernel(cuda):
    if cuda.driver.properties(0).major < 9:
        pytest.skip("a device without tensor maps")
    return cuda.driver.compile(copy_block, SIGNATURE, {"BLOCK": BLOCK})


def test_addresses_are_given_and_what_lies_outside_reads_as_zeros(kernel):
    source = tt.arange(0, 60, dtype=tt.float32, device="cuda").view(5, 12)
    target, out = tt.full((3, 4), -1.0, device="cuda"), tt.empty(BLOCK, device="cuda")
    launch = kernel.bound([DescribedTensor((5, 7), (12, 1)), DescribedTensor((3, 4), (4, 1))])
    launch((1, 1, 1), 0, source.data_ptr(), target.data_ptr(), out.data_ptr(), 2)
    assert tt.equal(target.cpu(), source.cpu()[2:5, :4] + 1)
    assert out.tolist() == [*source.cpu()[2:5, :7].sum(1).tolist(), 0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    "tensor, offset",
    [
        (DescribedTensor((5, 12), (12, 2)), 0),  # the last stride is 1
        (DescribedTensor((5, 12), (11, 1)), 0),  # 44 bytes apart
        (DescribedTensor((5, 12), (12, 1)), 4),  # a misaligned address
        (DescribedTensor((0, 12), (12, 1)), 0),
        (DescribedTensor((1, 5, 12), (12, 12, 1)), 0),  # another rank than the block
    ],
)
def test_what_no_map_describes_is_refused(kernel, tensor, offset):
    x = tt.zeros(5, 16, device="cuda")
    launch = kernel.bound([tensor, DescribedTensor((5, 12), (12, 1))])
    with pytest.raises(RuntimeError, match=r"invalid argument.*copy_block.*'source'"):
        launch((1, 1, 1), 0, x.data_ptr() + offset, x.data_ptr(), x.data_ptr(), 0)


def test_a_descriptor_without_sizes_is_refused(kernel):
    x = tt.zeros(8, 8, device="cuda")
    with pytest.raises(TypeError, match=r"'source'.* was given no sizes and strides"):
        kernel.launch((1, 1, 1), 0, x.data_ptr(), x.data_ptr(), x.data_ptr(), 0)


@pytest.mark.parametrize("text", ["*fp16", "i32", "tensordesc<fp16>", "tensordesc_im2col<fp16[8, 8]>"])
def test_other_types_are_no_descriptors(text):
    assert descriptor_type(text) is None


def test_parameters_lie_where_the_kernel_looks_for_them():
    layout = ParameterLayout(("bf16", "tensordesc<fp16[64, 64]>", "i64", "tensordesc<fp32[1, 8, 8]>"))
    assert layout.maps == (1, 3) and layout.plain == (0, 2) and layout.bfloat16 == (0,)
    maps = [bytes([i]) * size for i, size in ((1, NBYTES + 24), (3, NBYTES + 40))]
    buffer = bytearray(layout.struct.size)
    layout.values.pack_into(buffer, 0, *maps, 0xABCD, 7)
    places = iter(layout.offsets)

    def read(code, count=1):
        return [struct.unpack_from(code, buffer, next(places))[0] for _ in range(count)]

    assert read("H") == [0xABCD]
    for which, rank in ((1, 2), (3, 3)):
        start = next(places)
        assert start % ALIGNMENT == 0 and buffer[start : start + NBYTES] == bytes([which]) * NBYTES
        assert read("B", 2 * rank) == [which] * (2 * rank)
        if which == 1:
            assert read("q") == [7]
    assert len(list(places)) == 2  # the scratch pointers


class Encoder:
    """Fake of the driver's library that fills the map with the address."""

    def __init__(self):
        self.encoded = []

    def library(self):
        return self

    def check(self, status, doing):
        assert status == 0

    def cuTensorMapEncodeTiled(self, target, type_, rank, address, sizes, strides, box, steps, *rest):
        self.encoded.append((address.value, sizes[:rank], strides[: rank - 1], box[:rank]))
        assert target.value % ALIGNMENT == 0
        words = (struct.pack("Q", address.value) * (NBYTES // 8),)
        struct.pack_into(f"{NBYTES}s", (type(steps)._type_ * 32).from_address(target.value), 0, *words)
        return 0

    def cuDriverGetVersion(self, version):
        version._obj.value = 13020
        return 0


META = {
    "block_size": [64, 32],
    "elem_size": 2,
    "elem_type": 10,
    "swizzle": 2,
    "fp4_padded": False,
    "is_im2col": False,
}


def test_a_map_is_encoded_once_for_each_address():
    encoder = Encoder()
    maps = TensorMaps(encoder, DescribedTensor((100, 200), (256, 1)), META)
    for _ in range(3):
        for address in (0x1000, 0x2000):
            expected = struct.pack("Q", address) * 16 + struct.pack("@2i2q", 100, 200, 256, 1)
            assert maps[address] == expected
    assert encoder.encoded == [(0x1000, [200, 100], [512], [32, 64]), (0x2000, [200, 100], [512], [32, 64])]


def test_the_number_of_maps_is_bounded():
    encoder = Encoder()
    maps = TensorMaps(encoder, DescribedTensor((100, 200), (256, 1)), META)
    for i in range(3 * KEPT):
        maps[0x1000 * (i + 1)]
        assert len(maps) <= KEPT
    assert len(encoder.encoded) == 3 * KEPT
