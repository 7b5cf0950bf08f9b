"""Weight gradients by tensor descriptors: the supported calls, and agreement with float64."""

import numpy as np
import pytest

import triten as tt
from triten.triton_kernels.convolution import backward_weight
from triten.triton_kernels.convolution.bulk_weight import whole_block

TOLERANCE = {tt.float16: 4e-3, tt.bfloat16: 3e-2}
backward = tt.ops.aten.convolution_backward_weight


@pytest.fixture
def planned(monkeypatch):
    """Record whether each plan uses descriptors."""
    noted = []
    plan = backward_weight.plan_bulk_parts

    def noting(*asked):
        found = plan(*asked)
        noted.append(found is not None)
        return found

    monkeypatch.setattr(backward_weight, "plan_bulk_parts", noting)
    tt.triton_kernels.tuning.choice.make_plans_anew()
    yield noted
    monkeypatch.undo()
    tt.triton_kernels.tuning.choice.make_plans_anew()


def last(array, dtype):
    """Return a channels-last CUDA tensor of the given dtype."""
    moved = tt.from_numpy(np.ascontiguousarray(np.moveaxis(array, 1, -1))).to(dtype).to("cuda")
    return moved.permute(0, -1, *range(1, array.ndim - 1))


def exactly(x):
    return x.cpu().to(tt.float64)


def hold(ours, exact, dtype):
    want = exact.numpy()
    scale = np.abs(want).max(initial=1.0)
    np.testing.assert_allclose(exactly(ours).numpy(), want, rtol=0, atol=TOLERANCE[dtype] * scale)


def shapes(images, channels, outputs, out, taps, padding=(0, 0), dilation=(1, 1), groups=1):
    """Return the sizes of the gradient, the source and the weight, and the window."""
    sides = [n + d * (t - 1) - 2 * p for n, t, p, d in zip(out, taps, padding, dilation, strict=True)]
    weight = (outputs, channels // groups, *taps)
    return (images, outputs, *out), (images, channels, *sides), weight, ([1, 1], padding, dilation, groups)


CASES = {
    "plain": shapes(2, 8, 16, (8, 8), (3, 3), (1, 1)),
    "one tap": shapes(4, 16, 8, (2, 4), (1, 1)),
    "one line": shapes(3, 16, 8, (1, 16), (1, 5)),
    "one column": shapes(3, 16, 8, (32, 1), (5, 1), (2, 0)),
    "pictures of odd sides": shapes(31, 8, 24, (3, 5), (3, 3), (1, 1)),
    "images that are no multiple of a block's": shapes(7, 8, 8, (4, 2), (2, 2), (1, 1)),
    "dilation": shapes(1, 24, 40, (12, 8), (3, 2), (1, 2), (2, 3)),
    "more than a tile": shapes(1, 136, 520, (4, 4), (2, 2)),
    "groups": shapes(2, 24, 48, (8, 12), (3, 3), (1, 1), groups=3),
    "more padding than picture": shapes(2, 8, 8, (16, 8), (2, 3), (8, 4)),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", TOLERANCE, ids=lambda d: d.name)
def test_sums_over_pixels(rng, planned, case, dtype):
    grad, source, weight, window = CASES[case]
    g, x = last(rng.standard_normal(grad), dtype), last(rng.standard_normal(source), dtype)
    ours = backward(g, x, weight, *window)
    assert planned == [True]
    hold(ours, backward(exactly(g), exactly(x), weight, *window), dtype)


PLANES = {
    "one tap": shapes(3, 24, 40, (28, 28), (1, 1)),
    "one tap, the last piece of a plane is a rest": shapes(2, 16, 8, (4, 18), (1, 1)),
    "one tap, odd channels": shapes(2, 13, 11, (8, 8), (1, 1)),
    "one tap in groups": shapes(2, 24, 48, (8, 8), (1, 1), groups=3),
}


@pytest.mark.parametrize("case", PLANES)
@pytest.mark.parametrize("dtype", TOLERANCE, ids=lambda d: d.name)
def test_planes_are_read_as_they_lie(rng, planned, launches, monkeypatch, case, dtype):
    monkeypatch.setattr(backward_weight, "COPY_THRESHOLD", 0)
    grad, source, weight, window = PLANES[case]
    g, x = (tt.from_numpy(rng.standard_normal(sizes)).to(dtype).to("cuda") for sizes in (grad, source))
    before = launches.count
    ours = backward(g, x, weight, *window)
    assert planned == [True]
    assert launches.count - before == 2, "the sums of parts, and theirs"
    hold(ours, backward(exactly(g), exactly(x), weight, *window), dtype)


@pytest.mark.parametrize(
    "sizes",
    [
        shapes(2, 8, 8, (8, 64), (3, 3), (1, 1)),
        shapes(2, 8, 8, (8, 64), (1, 1), (0, 0), (1, 1)),
        shapes(16, 8, 8, (3, 7), (1, 1)),
        shapes(16, 8, 8, (3, 8), (1, 1)),
    ],
    ids=["several taps", "other lines", "planes of no whole vectors", "short planes"],
)
def test_other_planes_are_laid_out_anew(rng, planned, launches, monkeypatch, sizes):
    monkeypatch.setattr(backward_weight, "COPY_THRESHOLD", 0)
    grad, source, weight, window = sizes
    g, x = (tt.from_numpy(rng.standard_normal(each)).to(tt.bfloat16).to("cuda") for each in (grad, source))
    if sizes[0][3] == 64 and weight[3] == 1:
        g, x = g[..., ::2], x[..., ::2]
    before = launches.count
    ours = backward(g, x, weight, *window)
    assert launches.count - before == 3
    hold(ours, backward(exactly(g), exactly(x), weight, *window), tt.bfloat16)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("case", ["one tap, the last piece of a plane is a rest", "one tap"])
def test_a_special_value_of_a_plane_reaches_the_taps_that_meet_it(rng, planned, monkeypatch, value, case):
    monkeypatch.setattr(backward_weight, "COPY_THRESHOLD", 0)
    grad, source, weight, window = PLANES[case]
    positive = tt.from_numpy(np.abs(rng.standard_normal(grad)) + 0.1).to(tt.float16)
    for place in ((0, 3, 0, 0), (-1, 0, -1, -1), (0, 1, 1, source[3] - 1)):
        data = rng.standard_normal(source)
        data[place] = value
        x = tt.from_numpy(data).to(tt.float16)
        found = exactly(backward(positive.to("cuda"), x.to("cuda"), weight, *window)).numpy()
        want = backward(exactly(positive), exactly(x), weight, *window).numpy()
        assert np.array_equal(np.isfinite(found), np.isfinite(want)), place
    assert planned[0]


@pytest.mark.parametrize(
    ("sizes", "dtype"),
    [
        (shapes(2, 8, 8, (7, 7), (3, 3), (1, 1)), tt.bfloat16),
        (shapes(2, 12, 8, (8, 8), (3, 3), (1, 1)), tt.bfloat16),
        (shapes(2, 8, 12, (8, 8), (3, 3), (1, 1)), tt.bfloat16),
        (shapes(2, 8, 8, (8, 8), (3, 3), (1, 1)), tt.float32),
    ],
    ids=["few odd pictures", "lines of the source", "lines of the gradient", "float32"],
)
def test_others_go_by_pointers(rng, planned, sizes, dtype):
    grad, source, weight, window = sizes
    g, x = last(rng.standard_normal(grad), dtype), last(rng.standard_normal(source), dtype)
    ours = backward(g, x, weight, *window)
    assert planned == [False]
    hold(ours, backward(exactly(g), exactly(x), weight, *window), tt.bfloat16)


@pytest.mark.parametrize(
    ("source", "taps", "stride", "padding", "by_maps"),
    [
        ((8, 8), (3, 3), [2, 2], [1, 1], True),
        ((8, 8), (2, 2), [2, 2], [0, 0], True),
        ((8, 16), (3, 4), [2, 4], [1, 0], True),
        ((7, 8), (1, 1), [2, 2], [0, 0], True),
        ((9, 8), (3, 3), [2, 2], [0, 1], False),
    ],
    ids=["taps of two phases", "whole folds", "two strides", "one tap", "lines that are no whole strides"],
)
def test_strides(rng, planned, source, taps, stride, padding, by_maps):
    g = last(rng.standard_normal((4, 8, 4, 4)), tt.bfloat16)
    x = last(rng.standard_normal((4, 24, *source)), tt.bfloat16)
    rest = ((8, 24, *taps), stride, padding, [1, 1], 1)
    hold(backward(g, x, *rest), backward(exactly(g), exactly(x), *rest), tt.bfloat16)
    assert planned == [by_maps]


def test_addresses_that_are_no_multiples_of_16_go_by_pointers(rng, planned, monkeypatch):
    plan, made = backward_weight.plan_parts, []
    monkeypatch.setattr(backward_weight, "plan_parts", lambda *asked: made.append(asked) or plan(*asked))
    whole = tt.from_numpy(rng.standard_normal((2, 8, 8, 24))).to(tt.bfloat16).to("cuda")
    g = last(rng.standard_normal((2, 8, 8, 8)), tt.bfloat16)
    rest = ((8, 16, 3, 3), [1, 1], [1, 1], [1, 1], 1)
    for start, by_pointers in ((8, 0), (4, 1), (0, 1)):
        x = whole[..., start : start + 16].permute(0, 3, 1, 2)
        ours = backward(g, x, *rest)
        assert len(made) == by_pointers
        hold(ours, backward(exactly(g), exactly(x), *rest), tt.bfloat16)
    assert all(planned)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    "case", ["plain", "images that are no multiple of a block's", "pictures of odd sides"]
)
def test_a_special_value_of_the_source_reaches_the_taps_that_meet_it_and_nothing_else(
    rng, planned, value, case
):
    grad, source, weight, window = CASES[case]
    positive = np.abs(rng.standard_normal(grad)) + 0.1
    for place in ((0, 3, 0, 0), (-1, 0, -1, -1), (0, 1, 1, source[3] - 1)):
        data = rng.standard_normal(source)
        data[place] = value
        g, x = last(positive, tt.float16), last(data, tt.float16)
        found = exactly(backward(g, x, weight, *window)).numpy()
        want = backward(exactly(g), exactly(x), weight, *window).numpy()
        assert np.array_equal(np.isfinite(found), np.isfinite(want)), place
    assert planned[0]


def test_parts_are_added_up_in_their_order(rng, planned):
    grad, source, weight, window = CASES["plain"]
    g, x = last(rng.standard_normal(grad), tt.bfloat16), last(rng.standard_normal(source), tt.bfloat16)
    first, again = (backward(g, x, weight, *window).cpu().float().numpy() for _ in range(2))
    assert first.tobytes() == again.tobytes()


def test_blocks_divide_lines_and_pixels():
    assert whole_block((32, 56, 56), 64) == (1, 8, 8)
    assert whole_block((64, 14, 14), 64) == (16, 2, 2)
    assert whole_block((64, 7, 7), 64) == (64, 1, 1)
    assert whole_block((2, 7, 7), 64) is None, "31 of 32 images would be missing"
    assert whole_block((4, 1, 64), 64) == (1, 1, 64)
    assert whole_block((13, 32, 2), 64) == (1, 32, 2)
    assert whole_block((256, 6, 6), 512) == (128, 2, 2), "no side is longer than a map takes"
