"""Convolutions and their gradients on Triton kernels, against the host in float64.

A reference in float64 is the CPU's, which `tests/ops/test_convolution.py` holds to the definition.
"""

import numpy as np
import pytest

import triten as tt
from triten.dispatch.core.dispatcher import Dispatcher
from triten.triton_kernels import launch
from triten.triton_kernels.convolution import backward_weight, convolution, depthwise, volume
from triten.triton_kernels.convolution.backward_weight import reciprocal
from triten.triton_kernels.convolution.volume import unit_of

functional = tt.nn.functional
TOLERANCE = {tt.float16: 2e-3, tt.bfloat16: 1e-2, tt.float32: 2e-3}

# (spatial rank, transposed, input, weight, window)
CASES = {
    "plain": (2, False, (2, 3, 8, 9), (4, 3, 3, 3), {}),
    "everything": (
        2,
        False,
        (1, 4, 10, 11),
        (6, 2, 3, 2),
        {"stride": (2, 1), "padding": (1, 2), "dilation": (1, 2), "groups": 2},
    ),
    "one tap": (2, False, (2, 20, 5, 5), (18, 20, 1, 1), {}),
    "one tap, strided": (2, False, (2, 20, 5, 5), (18, 20, 1, 1), {"stride": 2}),
    "one image": (2, False, (1, 1, 12, 12), (8, 1, 5, 5), {}),
    "many pixels": (2, False, (2, 2, 40, 40), (3, 2, 3, 3), {"padding": 1}),
    "many channels": (2, False, (1, 48, 6, 5), (33, 48, 3, 3), {"padding": 1}),
    "ragged channels": (2, False, (1, 37, 6, 5), (34, 37, 3, 2), {"padding": 1, "stride": (1, 2)}),
    "groups of many": (2, False, (1, 64, 5, 5), (34, 32, 3, 3), {"padding": 1, "groups": 2, "stride": 2}),
    "stride and dilation": (
        2,
        False,
        (1, 2, 15, 17),
        (3, 2, 3, 4),
        {"stride": (4, 2), "dilation": (2, 3), "padding": 2},
    ),
    "depthwise": (
        2,
        False,
        (2, 4, 7, 7),
        (4, 1, 3, 3),
        {"stride": (2, 3), "padding": (2, 1), "dilation": (2, 1), "groups": 4},
    ),
    "depthwise, multiplied": (2, False, (2, 5, 7, 6), (10, 1, 3, 3), {"padding": 1, "groups": 5}),
    "lines": (1, False, (3, 4, 20), (6, 2, 3), {"stride": 2, "padding": 1, "dilation": 2, "groups": 2}),
    "volumes": (3, False, (2, 3, 4, 5, 6), (4, 3, 2, 3, 3), {"stride": (2, 1, 2), "padding": 1}),
    "no images": (2, False, (0, 3, 8, 9), (4, 3, 3, 3), {}),
    "transposed": (2, True, (2, 5, 4, 5), (5, 3, 3, 2), {"stride": 2, "padding": 1, "output_padding": 1}),
    "transposed, more stride than taps": (
        2,
        True,
        (1, 3, 4, 3),
        (3, 2, 2, 1),
        {"stride": (3, 2), "output_padding": (2, 1)},
    ),
    "transposed in groups": (
        2,
        True,
        (2, 4, 4, 5),
        (4, 3, 3, 2),
        {"stride": 2, "dilation": 3, "output_padding": 2, "groups": 2},
    ),
    "transposed, depthwise": (
        2,
        True,
        (2, 4, 4, 5),
        (4, 2, 3, 3),
        {"stride": 3, "padding": 1, "output_padding": 2, "groups": 4},
    ),
    "transposed lines": (1, True, (1, 33, 9), (33, 34, 4), {"stride": 3, "padding": 1}),
    "transposed volumes": (
        3,
        True,
        (1, 3, 3, 2, 4),
        (3, 2, 3, 2, 3),
        {"stride": (2, 3, 1), "padding": 1, "output_padding": (1, 1, 0)},
    ),
}


@pytest.fixture
def copying(monkeypatch):
    """Return copying(True), which converts operands to channels-last however small the work is."""

    def choose(always):
        if always:
            for module in (convolution, backward_weight, depthwise):
                monkeypatch.setattr(module, "COPY_THRESHOLD", 0)
        Dispatcher.singleton().forget_all()

    yield choose
    monkeypatch.undo()
    Dispatcher.singleton().forget_all()


@pytest.fixture
def exact(monkeypatch):
    """Multiply float32 in IEEE 754 precision, in tests where other kernels would round."""
    monkeypatch.setattr(volume, "ROUNDED_INTERPRETED", True)
    tt.backends.cudnn.allow_tf32 = False
    yield
    tt.backends.cudnn.allow_tf32 = True


def last(tensor):
    """Return the tensor in channels-last layout."""
    rank = tensor.ndim - 2
    moved = tensor.permute((0, *range(2, rank + 2), 1)).contiguous()
    return moved.permute((0, rank + 1, *range(1, rank + 1)))


def function_of(rank, transposed):
    return getattr(functional, f"conv_transpose{rank}d" if transposed else f"conv{rank}d")


def result_and_gradients(case, operands, seed):
    """Return the convolution of (input, weight, bias) and their gradients; `seed` makes the result's
    gradient.
    """
    rank, transposed, _, _, window = case
    leaves = [x.detach().requires_grad_() for x in operands]
    result = function_of(rank, transposed)(*leaves, **window)
    result.backward(seed(result))
    return [result.detach(), *[x.grad for x in leaves]]


def operands_of(case, random, dtype=tt.float64):
    _, transposed, sizes, weight, window = case
    bias = weight[1] * window.get("groups", 1) if transposed else weight[0]
    return [random(s, dtype) for s in (sizes, weight, (bias,))]


def compare(case, random, same, layout, tolerance=1e-11):
    host = operands_of(case, random)
    gradient = {}

    def seed(result):
        if "host" not in gradient:
            gradient["host"] = random(tuple(result.shape), tt.float64)
        return layout(gradient["host"].to(result.device))

    expected = result_and_gradients(case, host, seed)
    x, w, b = (t.to("cuda") for t in host)
    got = result_and_gradients(case, [layout(x), layout(w), b], seed)
    for a, e in zip(got, expected, strict=True):
        same(a, e, tolerance)
    return got[0]


@pytest.mark.parametrize("always", [False, True], ids=["as it lies", "copied"])
@pytest.mark.parametrize("layout", [lambda t: t, last], ids=["contiguous", "channels last"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_results_and_gradients(random, same, copying, case, layout, always):
    copying(always)
    result = compare(case, random, same, layout)
    if layout is last and result.numel() and case[0] == 2 and case[2][1] > 1:
        assert result.is_contiguous(memory_format=tt.channels_last)


@pytest.mark.parametrize("case", ["many channels", "depthwise", "transposed"])
def test_operands_of_any_strides(random, same, case):
    def stepped(tensor):
        shape = tuple(tensor.shape)
        wide = tt.zeros(
            (shape[0], 2 * shape[1], *shape[2:-1], 3 * shape[-1]), dtype=tensor.dtype, device=tensor.device
        )
        cut = wide[:, 1::2, ..., 1::3]
        cut.copy_(tensor)
        return cut

    compare(CASES[case], random, same, stepped)


def test_an_expanded_input(random, same):
    x, w = random((1, 1, 6, 7), tt.float64), random((3, 4, 3, 3), tt.float64)
    got = functional.conv2d(x.to("cuda").expand(2, 4, 6, 7), w.to("cuda"))
    same(got, functional.conv2d(x.expand(2, 4, 6, 7), w), 1e-12)


@pytest.mark.parametrize("name", ["many channels", "everything", "depthwise", "transposed", "volumes"])
def test_numbers_of_64_bits(random, same, monkeypatch, copying, name):
    monkeypatch.setattr(launch, "INT32_MAX", 10)
    copying(False)
    compare(CASES[name], random, same, last)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=lambda d: d.name)
@pytest.mark.parametrize("name", ["many channels", "plain", "depthwise", "transposed", "one tap"])
def test_narrow_dtypes(random, same, name, dtype):
    case = CASES[name]
    host = operands_of(case, random, dtype)
    wide = [t.to(tt.float64) for t in host]
    seed = {}

    def make(result):
        if "g" not in seed:
            seed["g"] = random(tuple(result.shape), dtype)
        return seed["g"].to(result.dtype).to(result.device)

    got = result_and_gradients(case, [t.to("cuda") for t in host], make)
    for a, e in zip(got, result_and_gradients(case, wide, make), strict=True):
        size = float(abs(e.numpy()).max())
        error = np.abs(a.cpu().to(tt.float64).numpy() - e.numpy()).max()
        assert error <= TOLERANCE[dtype] * size, f"{name} {dtype}: off by {error} of {size}"


@pytest.mark.parametrize("name", ["many channels", "plain", "depthwise", "one tap", "transposed"])
def test_float32_is_exact_where_tf32_is_not_allowed(random, same, exact, name):
    case = CASES[name]
    host = operands_of(case, random, tt.float32)
    want = function_of(*case[:2])(*[t.to(tt.float64) for t in host], **case[4])
    got = function_of(*case[:2])(*[t.to("cuda") for t in host], **case[4])
    same(got, want.to(tt.float32), 2e-5)


def test_the_flag_of_tf32_reaches_what_was_planned_before(random, monkeypatch):
    monkeypatch.setattr(volume, "ROUNDED_INTERPRETED", True)
    x, w = random((1, 40, 6, 6)), random((8, 40, 3, 3))
    want = functional.conv2d(x.to(tt.float64), w.to(tt.float64)).numpy()
    errors = []
    for allowed in (True, False, True):
        tt.backends.cudnn.allow_tf32 = allowed
        errors.append(np.abs(functional.conv2d(x.to("cuda"), w.to("cuda")).cpu().numpy() - want).max())
    assert errors[1] < 1e-4 < errors[0] == errors[2]


@pytest.mark.parametrize("name", ["many channels", "everything", "depthwise"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf], ids=str)
def test_a_special_value_reaches_what_it_meets_and_nothing_else(random, copying, name, value):
    copying(True)
    case = CASES[name]
    x, w, b = operands_of(case, random)
    for place in ((0, 0, 0, 0), (0, -1, 3, 2), (0, 1, -1, -1)):
        spoilt = x.clone()
        spoilt[place] = value
        want = functional.conv2d(spoilt, w, b, **case[4])
        got = functional.conv2d(spoilt.to("cuda"), w.to("cuda"), b.to("cuda"), **case[4])
        np.testing.assert_allclose(got.cpu().numpy(), want.numpy(), rtol=1e-11, atol=1e-11)


def test_parts_of_pixels_are_added_up_in_their_order(random):
    """Add partial sums in a fixed order: every run is bitwise identical."""
    x, g = random((2, 40, 20, 20)).to("cuda"), random((2, 6, 20, 20)).to("cuda")
    backward = tt.ops.aten.convolution_backward_weight
    first = backward(g, x, [6, 40, 3, 3], [1, 1], [1, 1], [1, 1], 1).cpu().numpy()
    again = backward(g, x, [6, 40, 3, 3], [1, 1], [1, 1], [1, 1], 1).cpu().numpy()
    assert (first.view(np.uint32) == again.view(np.uint32)).all()


def test_small_operands_are_read_as_they_lie(random, launches):
    x, w = random((2, 4, 8, 8)).to("cuda"), random((6, 4, 3, 3)).to("cuda")
    before = launches.count
    functional.conv2d(x, w)
    assert launches.count - before == 1
    functional.conv_transpose2d(functional.conv2d(x, w), w, stride=3)
    assert launches.count - before == 3, "phases are one launch"


def test_one_tap_is_a_product_of_matrices(random, launches, monkeypatch):
    from triten.triton_kernels.products import mm

    planned = []
    plan = mm.plan_matmul
    monkeypatch.setattr(mm, "plan_matmul", lambda *args: planned.append(args) or plan(*args))
    x, w, b = random((2, 4, 5, 5), tt.float64).to("cuda"), random((6, 4, 1, 1), tt.float64).to("cuda"), None
    for layout in (lambda t: t, last):
        planned.clear()
        functional.conv2d(layout(x), w, b)
        assert planned


def test_integers_are_refused(random):
    x = random((1, 1, 3, 3), tt.int32).to("cuda")
    with pytest.raises(NotImplementedError, match=r"convolution_cuda.*Int"):
        tt.conv2d(x, x)
    depthwise = random((2, 1, 3, 3), tt.int32).to("cuda")
    with pytest.raises(NotImplementedError, match=r"convolution_cuda.*Int"):
        tt.conv2d(x.expand(1, 2, 3, 3), depthwise, groups=2)


@pytest.mark.parametrize("divisor", [1, 2, 3, 7, 56, 224, 2**16 - 1, 2**16 + 1, 2**30 + 1, 2**31 - 1])
def test_division_by_a_multiplication(divisor):
    magic, shift = reciprocal(divisor)
    largest = 2**31 - 1
    around = [n + i for n in range(0, largest, max(divisor, largest // 64)) for i in (-1, 0, 1)]
    multiples = [k * divisor + i for k in (1, largest // divisor) for i in (-1, 0, 1)]
    for n in (0, 1, largest, *around, *multiples):
        if 0 <= n <= largest:
            assert n * magic < 2**63 and n * magic >> shift == n // divisor, (n, divisor)


def test_units_divide_all_numbers():
    assert [unit_of(64, 24), unit_of(0), unit_of(48, 3), unit_of()] == [8, 16, 1, 16]
