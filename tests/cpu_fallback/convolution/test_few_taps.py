"""The weight gradient of few taps, computed by matmuls of images, agrees with the im2col result."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import triten as tt
from triten.cpu_fallback.convolution import few_taps
from triten.dispatch.core.dispatcher import Dispatcher


@pytest.fixture
def fresh_plans() -> Iterator[None]:
    before = tt.get_num_threads()
    Dispatcher.singleton().forget_all()
    yield
    Dispatcher.singleton().forget_all()
    tt.set_num_threads(before)


@pytest.mark.usefixtures("fresh_plans")
@pytest.mark.parametrize(
    ("sizes", "outputs", "kernel", "stride", "padding", "dilation"),
    [
        pytest.param((5, 3, 9, 8), 20, (3, 3), 1, 1, 1, id="more outputs than taps"),
        pytest.param((5, 3, 9, 8), 20, (3, 3), 1, (0, 2), 1, id="two paddings"),
        pytest.param((20, 1, 6, 7), 3, (2, 2), 1, 0, 1, id="more taps than outputs, many images"),
        pytest.param((3, 3, 12, 11), 24, (4, 4), 4, 0, 1, id="patches"),
        pytest.param((2, 2, 13, 9), 12, (3, 3), 2, 2, 2, id="strided and dilated"),
        pytest.param((3, 2, 40), 6, (5,), 1, 2, 1, id="one dimension"),
        pytest.param((2, 2, 5, 6, 4), 16, (2, 3, 2), 1, 1, 1, id="three dimensions"),
    ],
)
@pytest.mark.parametrize("dtype", [tt.float32, tt.float64, tt.bfloat16])
def test_like_columns(
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
    sizes: tuple[int, ...],
    outputs: int,
    kernel: tuple[int, ...],
    stride: int,
    padding: int | tuple[int, ...],
    dilation: int,
    dtype: tt.dtype,
) -> None:
    x = tt.from_numpy(rng.standard_normal(sizes)).to(dtype)
    w = tt.from_numpy(rng.standard_normal((outputs, sizes[1], *kernel))).to(dtype).requires_grad_()
    convolve = (tt.conv1d, tt.conv2d, tt.conv3d)[len(kernel) - 1]

    def gradient() -> tt.Tensor:
        Dispatcher.singleton().forget_all()
        out = convolve(x, w, None, stride, padding, dilation)
        g = tt.from_numpy(np.random.default_rng(1).standard_normal(tuple(out.shape))).to(dtype)
        # A gradient in another layout is converted to the layout of the matmuls.
        g = g.transpose(-1, 1).contiguous().transpose(-1, 1)
        (found,) = tt.autograd.grad(out, w, g)
        return found

    made = []
    for positions, column_bytes in ((1 << 12, 1 << 20), (10, 1)):
        monkeypatch.setattr(few_taps, "MAX_POSITIONS", positions)
        monkeypatch.setattr(few_taps, "COLUMN_BYTES", column_bytes)
        monkeypatch.setattr(few_taps, "MIN_PART", 1)
        for threads in (1, 3):
            tt.set_num_threads(threads)
            made.append(gradient())
    assert tt.equal(made[0], made[1]) and tt.equal(made[2], made[3])
    monkeypatch.setattr(few_taps, "MAX_DEPTH", 0)
    expected = gradient()
    tolerance = {tt.float32: 1e-4, tt.float64: 1e-11, tt.bfloat16: 0.1}[dtype]
    for found in made[::2]:
        tt.testing.assert_close(found, expected, rtol=1e-2 if dtype is tt.bfloat16 else 0, atol=tolerance)
