"""Layout copies of operands: every element in its place and zero padding, for every source layout."""

import numpy as np
import pytest

import triten as tt
from triten.triton_kernels.convolution import layout_copies
from triten.triton_kernels.convolution.layout_copies import (
    laid_out,
    pitch_of_pixels,
    plan_copies,
    transposed,
)
from triten.triton_kernels.convolution.volume import as_volume
from triten.triton_kernels.elementwise.copy import copy_kernel


def read(data, spec):
    """Return on the host the values that a kernel reads through `spec`."""
    found = tt.empty(spec.sizes, dtype=spec.dtype, device="cuda")
    copy_kernel(found._spec, spec)(found._data, data)
    return found.cpu().numpy()


def holds(operands, tensors):
    """Assert that the copies hold the tensors' values, with zeros in the padding."""
    copied = plan_copies(operands)
    assert copied is not None
    for operand, tensor, data in zip(operands, tensors, copied(*(t._data for t in tensors)), strict=True):
        found, want = read(data, operand.laid), tensor.cpu().numpy().reshape(operand.spec.sizes)
        inside = tuple(slice(size) for size in want.shape)
        assert found[inside].tobytes() == np.ascontiguousarray(want).tobytes(), operand
        outside = found.copy()
        outside[inside] = 0
        assert not outside.any(), operand


def volume(tensor):
    return as_volume(tensor._spec)


SIZES = [
    (2, 3, 8, 9),
    (1, 37, 6, 5),
    (3, 70, 1, 1),
    (2, 8, 130),
    (2, 5, 3, 4, 5),
    (5, 64, 3, 3),
    (1, 1, 1, 300),
]


@pytest.mark.parametrize("dtype", [tt.bfloat16, tt.float16, tt.float32, tt.float64], ids=lambda d: d.name)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_planes_become_pixels(random, sizes, dtype):
    x = random(sizes, dtype).to("cuda")
    for dim, more in ((1, 0), (1, 5), (0, 3)):
        operand = laid_out(volume(x), sizes[dim] + more, dim)
        if operand.is_copied:
            assert operand.laid.strides[1] == 1
            holds([operand], [x])


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_operands_share_a_launch_of_three(random, launches, count):
    tensors = [random(sizes).to("cuda") for sizes in SIZES[:2] + SIZES[4:6]][:count]
    operands = [laid_out(volume(x), x.shape[1] + 1) for x in tensors]
    copied = plan_copies(operands)
    before = launches.count
    copied(*(x._data for x in tensors))
    assert launches.count - before == (1 if count < 4 else 2)
    holds(operands, tensors)


def test_what_lies_as_a_kernel_wants_it_is_not_copied(random, launches):
    x, w = random((2, 16, 8, 8)).to("cuda"), random((4, 3, 3, 3)).to("cuda")
    last = x.contiguous(memory_format=tt.channels_last)
    assert plan_copies([laid_out(volume(last))]) is None
    kept, moved = laid_out(volume(last)), laid_out(volume(w), 4)
    before = launches.count
    first, second = plan_copies([kept, moved])(last._data, w._data)
    assert launches.count - before == 1
    assert first is last._data and second is not w._data


def test_channels_that_lie_innermost_are_padded(random):
    x = random((2, 7, 8, 5)).to("cuda").contiguous(memory_format=tt.channels_last)
    holds([laid_out(volume(x), 8)], [x])


def test_filters_with_what_they_sum_innermost(random):
    w = random((20, 6, 3, 3)).to("cuda")
    operand = laid_out(transposed(volume(w)), 24)
    (made,) = plan_copies([operand])(w._data)
    found = read(made, operand.laid)
    assert (found[:, :20, 0] == w.cpu().numpy().swapaxes(0, 1)).all() and not found[:, 20:].any()


@pytest.mark.parametrize(
    ("cut", "evenly"),
    [
        (lambda t: t[:, ::2, :, 1::3], True),
        (lambda t: t[:, 1:, :, ::2], False),
        (lambda t: t[1:, :, ::2], False),
        (lambda t: t.expand(3, 7, 8, 9), True),
        (lambda t: t.transpose(2, 3), False),
        (lambda t: t[..., :1], True),
    ],
    ids=["every third pixel", "every other pixel", "every other line", "expanded", "exchanged", "one column"],
)
def test_other_strides(random, cut, evenly):
    x = cut(random((1 if cut(tt.empty(1, 7, 8, 9)).shape[0] == 3 else 2, 7, 8, 9)).to("cuda"))
    assert (pitch_of_pixels(volume(x)) is not None) == evenly
    holds([laid_out(volume(x), 8)], [x])


def test_offsets_of_64_bits(random, monkeypatch):
    monkeypatch.setattr(layout_copies, "INT32_MAX", 10)
    x = random((2, 5, 6, 7), tt.float64).to("cuda")
    holds([laid_out(volume(x), 6)], [x])
