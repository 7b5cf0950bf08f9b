"""Convolutions by tensor descriptors: the supported calls, and agreement with float64."""

import numpy as np
import pytest

import triten as tt
from triten.triton_kernels.convolution import bulk, convolution, volume
from triten.triton_kernels.convolution.maps import block_of, blocks_over

functional = tt.nn.functional
TOLERANCE = {tt.float16: 4e-3, tt.bfloat16: 3e-2, tt.float32: 4e-3}


@pytest.fixture
def planned(monkeypatch):
    """Record whether each plan uses descriptors, with operands rounded to TF32 as on a GPU."""
    noted = []
    plan = bulk.plan_bulk

    def noting(*asked):
        found = plan(*asked)
        noted.append(found is not None)
        return found

    monkeypatch.setattr(convolution, "plan_bulk", noting)
    monkeypatch.setattr(volume, "ROUNDED_INTERPRETED", True)
    tt.triton_kernels.tuning.choice.make_plans_anew()
    yield noted
    monkeypatch.undo()
    tt.triton_kernels.tuning.choice.make_plans_anew()


def last(array, dtype):
    """Return a channels-last CUDA tensor of the given dtype."""
    moved = tt.from_numpy(np.ascontiguousarray(np.moveaxis(array, 1, -1))).to(dtype).to("cuda")
    return moved.permute(0, -1, *range(1, array.ndim - 1))


def exactly(x):
    """Return the same values on the host in float64."""
    return x.detach().cpu().to(tt.float64)


def hold(ours, exact, dtype):
    scale = np.abs(exact.numpy()).max(initial=1.0)
    np.testing.assert_allclose(
        ours.detach().cpu().to(tt.float64).numpy(), exact.numpy(), rtol=0, atol=TOLERANCE[dtype] * scale
    )


# images, channels, filters, (height, width), (kernel height, width), window
CASES = {
    "plain": (2, 8, 16, (9, 7), (3, 3), {"padding": 1}),
    "one pixel": (1, 8, 8, (1, 1), (3, 3), {"padding": 1}),
    "one line": (3, 16, 8, (1, 19), (1, 5), {}),
    "one column": (3, 16, 8, (19, 1), (5, 1), {"padding": (2, 0)}),
    "more padding than picture": (2, 8, 8, (3, 5), (2, 3), {"padding": (4, 6)}),
    "dilation": (1, 24, 40, (11, 13), (3, 2), {"padding": (1, 2), "dilation": (2, 3)}),
    "many small pictures": (37, 8, 8, (3, 2), (3, 3), {"padding": 1}),
    "more channels than a tile": (1, 136, 144, (5, 5), (2, 2), {}),
    "more pixels than a tile": (3, 8, 8, (23, 29), (3, 3), {"padding": 1}),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", [tt.bfloat16, tt.float16, tt.float32])
def test_planes_with_channels_innermost(rng, planned, case, dtype):
    images, channels, count, sides, taps, window = CASES[case]
    x = last(rng.standard_normal((images, channels, *sides)), dtype).requires_grad_()
    w = last(rng.standard_normal((count, channels, *taps)), dtype)
    b = tt.from_numpy(rng.standard_normal(count)).to(dtype).to("cuda")
    host = exactly(x).requires_grad_()
    ours, exact = (
        functional.conv2d(x, w, b, **window),
        functional.conv2d(host, exactly(w), exactly(b), **window),
    )
    assert planned == [True]
    hold(ours, exact.detach(), dtype)
    assert ours.stride(1) == 1 or ours.size(1) == 1
    weights = last(rng.standard_normal(tuple(ours.shape)), dtype)
    ours.backward(weights)
    exact.backward(exactly(weights))
    assert planned == [True, True]
    hold(x.grad, host.grad, dtype)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", [tt.bfloat16, tt.float32])
def test_planes_come_as_planes(rng, planned, monkeypatch, case, dtype):
    """Convert the layout of contiguous (NCHW) operands, and store the result and the gradient contiguously."""
    monkeypatch.setattr(convolution, "COPY_THRESHOLD", 0)
    images, channels, count, sides, taps, window = CASES[case]
    given = [
        rng.standard_normal(each) for each in ((images, channels, *sides), (count, channels, *taps), (count,))
    ]
    x, w, b = (tt.from_numpy(each).to(dtype).to("cuda") for each in given)
    x.requires_grad_()
    host = exactly(x).requires_grad_()
    ours = functional.conv2d(x, w, b, **window)
    exact = functional.conv2d(host, exactly(w), exactly(b), **window)
    assert ours.is_contiguous()
    hold(ours, exact.detach(), dtype)
    weights = tt.from_numpy(rng.standard_normal(tuple(ours.shape))).to(dtype).to("cuda")
    ours.backward(weights)
    exact.backward(exactly(weights))
    assert planned == [True, True]
    assert x.grad.is_contiguous()
    hold(x.grad, host.grad, dtype)


def test_transposed_convolutions_and_no_bias(rng, planned):
    x = last(rng.standard_normal((2, 24, 6, 5)), tt.bfloat16)
    w = last(rng.standard_normal((24, 16, 3, 2)), tt.bfloat16)
    ours = functional.conv_transpose2d(x, w, padding=(1, 0), dilation=(1, 2))
    exact = functional.conv_transpose2d(exactly(x), exactly(w), padding=(1, 0), dilation=(1, 2))
    assert planned == [True]
    hold(ours, exact, tt.bfloat16)


@pytest.mark.parametrize(
    ("sizes", "filters", "window"),
    [
        ((2, 8, 9, 9), (8, 8, 3, 3), {"stride": 2}),
        ((2, 16, 9, 9), (16, 8, 3, 3), {"groups": 2}),
        ((2, 12, 9, 9), (8, 12, 3, 3), {}),
        ((2, 8, 9, 9), (12, 8, 3, 3), {}),
        ((2, 8, 5, 5, 5), (8, 8, 3, 3, 3), {}),
    ],
    ids=[
        "lines of no whole strides",
        "groups",
        "lines of no whole vectors",
        "results of no whole vectors",
        "volumes",
    ],
)
def test_others_go_by_pointers(rng, planned, sizes, filters, window):
    x, w = (last(rng.standard_normal(each), tt.bfloat16) for each in (sizes, filters))
    operator = functional.conv2d if len(sizes) == 4 else functional.conv3d
    ours, exact = operator(x, w, **window), operator(exactly(x), exactly(w), **window)
    assert planned == [False]
    hold(ours, exact, tt.bfloat16)


def test_addresses_that_are_no_multiples_of_16_go_by_pointers(rng, planned, monkeypatch):
    plan, made = convolution.plan_pointers, []
    monkeypatch.setattr(convolution, "plan_pointers", lambda *asked: made.append(asked) or plan(*asked))
    whole = tt.from_numpy(rng.standard_normal((1, 6, 7, 24))).to(tt.bfloat16).to("cuda")
    w = last(rng.standard_normal((8, 16, 3, 3)), tt.bfloat16)
    for start, by_pointers in ((8, 0), (4, 1), (0, 1)):
        x = whole[..., start : start + 16].permute(0, 3, 1, 2)
        ours = functional.conv2d(x, w)
        assert len(made) == by_pointers
        hold(ours, functional.conv2d(exactly(x), exactly(w)), tt.bfloat16)
    assert all(planned)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_special_value_reaches_what_it_meets_and_nothing_else(rng, planned, value):
    data = rng.standard_normal((1, 8, 6, 7))
    data[0, 3, 2, 4] = value
    x, w = last(data, tt.float16), last(np.abs(rng.standard_normal((8, 8, 3, 3))) + 0.1, tt.float16)
    found = functional.conv2d(x, w, padding=1).cpu().to(tt.float64).numpy()
    met = np.zeros((6, 7), bool)
    met[1:4, 3:6] = True
    assert np.array_equal(~np.isfinite(found), np.broadcast_to(met, found.shape))
    assert planned == [True]


def test_positions_are_covered_by_few_blocks():
    assert block_of((32, 56, 56), 128) == (2, 8, 8), "nothing outside"
    assert blocks_over((32, 56, 56), (2, 8, 8)) == 32 * 56 * 56 // 128
    assert block_of((256, 7, 7), 64) == (64, 1, 1), "a pixel of many small pictures: nothing outside either"
    assert block_of((1, 14, 14), 64) == (1, 4, 16), "as few as of any, and the longest lines of those"
    assert block_of((1, 1, 1000), 256) == (1, 1, 256)
    assert block_of((1, 1, 1000), 512) == (1, 2, 256), "no side is longer than a map takes"
    for positions in ((5, 13, 9), (1, 1, 1), (64, 14, 14)):
        images, lines, pixels = block_of(positions, 128)
        assert images * lines * pixels == 128
