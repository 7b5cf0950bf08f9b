"""Kernel launches of convolutions and their gradients do not grow beyond a table."""

import pytest

import triten as tt
import triten.nn.functional as F
from triten.tests.runtime.cuda.standin.made_up_kernels import settled, without_code

WITHOUT_CODE = pytest.mark.standin(without_code=1)


def kernels(standin, program):
    return [call["function"] for call in settled(standin, program) if call.name == "cuLaunchKernel"]


def launched(standin, dtype, layout, sizes, filters, **window):
    """Return the kernels of a convolution, and those of the gradients of its input and weight."""
    without_code()
    formats = {"planes": tt.contiguous_format, "pixels": tt.channels_last}
    x, w = (
        tt.empty(*each, device="cuda", dtype=getattr(tt, dtype))
        .contiguous(memory_format=formats[layout])
        .requires_grad_()
        for each in (sizes, filters)
    )

    def forward():
        return F.conv2d(x, w, **window)

    result = forward()
    change = tt.empty_like(result)
    backward = lambda: tt.autograd.grad(result, [x, w], change, retain_graph=True)  # noqa: E731
    return kernels(standin, forward), kernels(standin, backward)


@WITHOUT_CODE
@pytest.mark.parametrize(
    ("dtype", "layout", "forward", "backward"),
    [
        ("bfloat16", "pixels", 1, 3),
        ("bfloat16", "planes", 2, 4),
        ("float32", "pixels", 1, 4),
        ("float32", "planes", 2, 4),
        ("float64", "pixels", 1, 3),
        ("float64", "planes", 2, 4),
    ],
)
def test_a_convolution_takes_as_few_launches_as_the_table_says(standin, dtype, layout, forward, backward):
    found = launched(standin, dtype, layout, (64, 128, 56, 56), (128, 128, 3, 3), padding=1)
    assert tuple(map(len, found)) == (forward, backward), found


@WITHOUT_CODE
@pytest.mark.parametrize(
    ("name", "sizes", "filters", "window", "forward", "backward"),
    [
        ("ragged channels", (64, 36, 56, 56), (40, 36, 3, 3), {"padding": 1}, 2, 4),
        ("a stride", (64, 128, 56, 56), (256, 128, 3, 3), {"padding": 1, "stride": 2}, 2, 4),
        ("groups", (64, 128, 56, 56), (128, 32, 3, 3), {"padding": 1, "groups": 4}, 2, 4),
        ("one tap", (64, 128, 56, 56), (256, 128, 1, 1), {}, 1, 3),
        ("one tap of small planes", (64, 128, 7, 7), (256, 128, 1, 1), {}, 2, 5),
        ("depthwise", (64, 128, 56, 56), (128, 1, 3, 3), {"padding": 1, "groups": 128}, 1, 3),
    ],
)
def test_planes_of_bfloat16(standin, name, sizes, filters, window, forward, backward):
    found = launched(standin, "bfloat16", "planes", sizes, filters, **window)
    assert tuple(map(len, found)) == (forward, backward), found


@WITHOUT_CODE
def test_planes_go_by_tensor_descriptors(standin):
    found = launched(standin, "bfloat16", "planes", (64, 128, 56, 56), (128, 128, 3, 3), padding=1)
    forward, backward = found
    assert forward == ["lay_out", "convolve_bulk"]
    assert backward == ["lay_out", "convolve_bulk", "convolve_backward_weight_bulk", "add_parts"]
