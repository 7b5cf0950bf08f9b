"""Convolutions with strides and in parts along K, by tensor descriptors: kernels, values, determinism."""

import contextlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import triten as tt
from triten.dispatch.structured import choices
from triten.runtime.tensor_spec import TensorSpec
from triten.triton_kernels.budget import Configuration, name_of
from triten.triton_kernels.convolution import bulk_parts
from triten.triton_kernels.convolution.bulk_kernels import convolve_bulk
from triten.triton_kernels.convolution.maps import tiles_over
from triten.triton_kernels.convolution.strided import folded, folded_wholly, subsampled
from triten.triton_kernels.convolution.tile_time import tile_time
from triten.triton_kernels.convolution.volume import Window
from triten.triton_kernels.tuning.choice import make_plans_anew
from triten.triton_kernels.tuning.question import shape_class
from triten.triton_kernels.tuning.table import read_table, table_path

functional = tt.nn.functional
TOLERANCE = {tt.float16: 4e-3, tt.bfloat16: 3e-2}


def last(array, dtype=tt.bfloat16):
    """Return a channels-last CUDA tensor of the given dtype."""
    moved = tt.from_numpy(np.ascontiguousarray(np.moveaxis(array, 1, -1))).to(dtype).to("cuda")
    return moved.permute(0, 3, 1, 2)


def exactly(x):
    return x.detach().cpu().to(tt.float64)


def hold(ours, exact, dtype=tt.bfloat16):
    scale = np.abs(exact.detach().numpy()).max(initial=1.0)
    np.testing.assert_allclose(
        exactly(ours).numpy(), exact.detach().numpy(), rtol=0, atol=TOLERANCE[dtype] * scale
    )


class Kernels(choices.Listener):
    """Listener that notes the kernels of planned launches."""

    def __init__(self):
        self.names = []

    def on_launch_planned(self, kernel, options):
        self.names.append(kernel.__name__)


@contextlib.contextmanager
def planning():
    """Note the kernels of all launches that are planned."""
    make_plans_anew()
    noted = Kernels()
    choices.listeners.append(noted)
    try:
        yield noted.names
    finally:
        choices.listeners.remove(noted)


STRIDED, PHASES, PLAIN, POINTERS = (
    "convolve_bulk_strided",
    "convolve_bulk_phases",
    "convolve_bulk",
    "convolve",
)
# images, channels, filters, (height, width), (kernel height, width), window, kernels of the result and the gradient
CASES = {
    "three taps": (2, 16, 32, (8, 6), (3, 3), {"stride": 2, "padding": 1}, STRIDED, PHASES),
    "one tap": (3, 16, 32, (8, 6), (1, 1), {"stride": 2}, PLAIN, PHASES),
    "one tap of odd sides": (2, 16, 32, (7, 5), (1, 1), {"stride": 2}, PLAIN, POINTERS),
    "a dilation of whole strides": (2, 16, 16, (8, 8), (2, 3), {"stride": 2, "dilation": 2}, PLAIN, PHASES),
    "odd sides, the last line in the first phase": (2, 16, 16, (7, 8), (3, 3), {"stride": 2}, POINTERS, POINTERS),
    "strides of lines": (2, 48, 16, (8, 6), (3, 3), {"stride": (2, 1), "padding": 1}, STRIDED, PHASES),
    "strides of pixels, dilation": (
        2, 16, 32, (8, 6), (3, 3), {"stride": (1, 2), "padding": 1, "dilation": 3}, STRIDED, PHASES,
    ),
    "more stride than taps": (2, 16, 16, (9, 8), (2, 1), {"stride": (3, 4)}, STRIDED, PHASES),
    "more padding than a stride": (1, 32, 16, (4, 6), (5, 7), {"stride": 2, "padding": (2, 6)}, STRIDED, PHASES),
    "channels that are no whole blocks": (2, 24, 40, (8, 6), (3, 3), {"stride": 2, "padding": 1}, POINTERS, POINTERS),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_results_and_gradients(rng, case):
    images, channels, count, sides, taps, window, forward, backward = CASES[case]
    x = last(rng.standard_normal((images, channels, *sides))).requires_grad_()
    w = last(rng.standard_normal((count, channels, *taps))).requires_grad_()
    b = tt.from_numpy(rng.standard_normal(count)).to(tt.bfloat16).to("cuda")
    host, filters = exactly(x).requires_grad_(), exactly(w).requires_grad_()
    with planning() as names:
        ours = functional.conv2d(x, w, b, **window)
        exact = functional.conv2d(host, filters, exactly(b), **window)
        assert names == [forward]
        hold(ours, exact)
        assert ours.stride(1) == 1
        change = last(rng.standard_normal(tuple(ours.shape)))
        ours.backward(change)
        exact.backward(exactly(change))
    assert names[1] == backward
    hold(x.grad, host.grad)
    hold(w.grad, filters.grad)


def test_a_transposed_convolution_with_a_bias(rng):
    x, w = last(rng.standard_normal((2, 24, 4, 5))), last(rng.standard_normal((24, 16, 4, 4)))
    b = tt.from_numpy(rng.standard_normal(16)).to(tt.bfloat16).to("cuda")
    with planning() as names:
        ours = functional.conv_transpose2d(x, w, b, stride=2, padding=1)
    assert names == [PHASES]
    hold(ours, functional.conv_transpose2d(exactly(x), exactly(w), exactly(b), stride=2, padding=1))


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("place", [(0, 3, 2, 4), (0, 0, 7, 5), (1, 15, 0, 0)])
def test_a_special_value_reaches_what_it_meets_and_nothing_else(rng, value, place):
    data, filters = rng.standard_normal((2, 16, 8, 6)), np.abs(rng.standard_normal((16, 16, 3, 3))) + 0.1
    data[place] = value
    x, w = last(data, tt.float16), last(filters, tt.float16)
    found = exactly(functional.conv2d(x, w, stride=2, padding=1)).numpy()
    want = functional.conv2d(exactly(x), exactly(w), stride=2, padding=1).numpy()
    assert np.array_equal(np.isfinite(found), np.isfinite(want))
    change = last(np.abs(rng.standard_normal(found.shape)) + 0.1, tt.float16)
    window = ([2, 2], [1, 1], [1, 1], 1)
    found = exactly(tt.ops.aten.convolution_backward_weight(change, x, (16, 16, 3, 3), *window)).numpy()
    want = tt.ops.aten.convolution_backward_weight(
        exactly(change), exactly(x), (16, 16, 3, 3), *window
    ).numpy()
    assert np.array_equal(np.isfinite(found), np.isfinite(want))


@pytest.mark.parametrize(
    "window", [{"padding": 1}, {"stride": 2, "padding": 1}, {"stride": 2, "dilation": 2}]
)
def test_parts(rng, monkeypatch, window):
    monkeypatch.setattr(bulk_parts, "MIN_INNER", 64)
    x, w = last(rng.standard_normal((3, 32, 8, 6))), last(rng.standard_normal((16, 32, 3, 3)))
    b = tt.from_numpy(rng.standard_normal(16)).to(tt.bfloat16).to("cuda")
    with planning() as names:
        ours = functional.conv2d(x, w, b, **window)
    assert names == ["convolve_bulk_parts", "add_parts"]
    hold(ours, functional.conv2d(exactly(x), exactly(w), exactly(b), **window))
    assert exactly(functional.conv2d(x, w, b, **window)).numpy().tobytes() == exactly(ours).numpy().tobytes()
    make_plans_anew()


def spec(sizes, strides=None):
    _, c, _, h, w = sizes
    made = TensorSpec.contiguous(sizes, tt.bfloat16, tt.device("cpu"))
    return made.replace(sizes=sizes, strides=strides or (c * h * w, 1, 0, c * w, c))


def window(kernel, stride, padding=(0, 0), dilation=(1, 1)):
    return Window((1, *kernel), (1, *stride), (0, *padding), (1, *dilation))


def test_folds_hold_what_taps_read():
    even = spec((2, 16, 1, 8, 6))
    assert folded(even, window((3, 3), (2, 2), (1, 1))) == ((2, 4, 2, 3, 32), (768, 192, 96, 32, 1))
    odd = spec((2, 16, 1, 7, 5))
    assert folded(odd, window((3, 3), (2, 2), (1, 1))) is None, (
        "the second phase of the last line is the next image"
    )
    assert folded(odd, window((2, 2), (2, 2), (0, 0), (2, 2))) == ((2, 4, 1, 3, 16), (560, 160, 96, 32, 1))
    assert folded_wholly(odd, window((1, 1), (2, 2))) is None, "zeros belong to every phase"
    cropped = spec((2, 16, 1, 8, 6), (1536, 1, 0, 192, 32))
    assert folded(cropped, window((3, 3), (2, 2))) == ((2, 4, 2, 3, 48), (1536, 384, 192, 64, 1))


def test_views_have_strides_of_one():
    view, over = subsampled(spec((2, 16, 1, 7, 8)), window((1, 3), (2, 2)))
    assert (view.sizes, view.strides) == ((2, 16, 1, 4, 8), (896, 1, 0, 256, 16))
    assert over == window((1, 3), (1, 2))
    planes = spec((2, 16, 1, 7, 8), (896, 56, 0, 8, 1))
    assert subsampled(planes, window((1, 1), (2, 2)))[0] is planes, (
        "a copy to channels-last reads whole lines"
    )


EMULATED = """
import json, sys
import numpy as np
import triten as tt
from triten.runtime.cuda.driver import driver
from triten.triton_kernels.budget import Configuration, name_of
from triten.triton_kernels.convolution import bulk_parts
from triten.triton_kernels.convolution.bulk_kernels import convolve_bulk
from triten.triton_kernels.convolution.maps import tiles_over

F, names, rng = tt.nn.functional, [], np.random.default_rng(5)
driver().observe_launches(lambda name, grid, stream, launch: (names.append([name, grid[0]]), launch()))

def last(*sizes):
    values = np.ascontiguousarray(np.moveaxis(rng.standard_normal(sizes), 1, -1))
    return tt.from_numpy(values).to(tt.bfloat16).permute(0, 3, 1, 2)

def far(ours, exact):
    exact = exact.detach().numpy()
    return float(np.abs(ours.detach().cpu().double().numpy() - exact).max() / np.abs(exact).max())

for case in json.loads(sys.argv[1]):
    x, w, b = last(*case["x"]), last(*case["w"]), last(1, case["w"][0], 1, 1).reshape(-1)
    near = [each.detach().to("cuda").requires_grad_() for each in (x, w, b)]
    host = [each.detach().double().requires_grad_() for each in (x, w, b)]
    names.clear()
    ours, exact = (F.conv2d(*each, **case["window"]) for each in (near, host))
    errors, again = [far(ours, exact)], F.conv2d(*near, **case["window"])
    assert ours.detach().cpu().float().numpy().tobytes() == again.detach().cpu().float().numpy().tobytes()
    if case["backward"]:
        change = last(*ours.shape)
        ours.backward(change.to("cuda"))
        exact.backward(change.double())
        errors += [far(a.grad, e.grad) for a, e in zip(near, host)]
    print(json.dumps([names, errors]))
"""
EMULATED_CASES = (
    {"x": (8, 64, 8, 8), "w": (64, 64, 2, 3), "window": {"stride": 2, "padding": [0, 1]}, "backward": True},
    {"x": (1, 256, 6, 4), "w": (64, 256, 3, 3), "window": {"stride": 2, "padding": 1}, "backward": False},
)


def run(program, *arguments, **variables):
    """Return the standard output of a program in a process of its own."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TRITEN_CUDA", "TRITON_INTERPRET"))
    }
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        env=environment | {"TRITEN_TUNING_STORE": "0"} | variables,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_compiled_kernels_give_the_values_of_the_cpu():
    lines = run(EMULATED, json.dumps(EMULATED_CASES), TRITEN_CUDA="emulate", TRITEN_EMULATE="90").splitlines()
    (both, errors), (parts, more) = map(json.loads, lines)
    assert max(errors + more) < 1e-2
    names = [name for name, _ in both]
    assert names[0] == names[1] == STRIDED
    assert {PHASES, "convolve_backward_weight_bulk"} <= set(names)
    assert parts[:2] == parts[2:] == [["convolve_bulk_parts", 4], ["add_parts", parts[1][1]]]


PLANNED = """
import json
import triten as tt
from triten.perf.ahead_of_time.recording import RecordingDriver
from triten.perf.gpu.workloads import RESNET50
from triten.runtime.cuda import driver as cuda
from triten.runtime.cuda.occupancy import KNOWN

driver = cuda._driver = RecordingDriver(KNOWN[90])

def last(*sizes):
    return tt.empty(sizes, dtype=tt.bfloat16, device="cuda").contiguous(memory_format=tt.channels_last)

def launched(call):
    driver.launched.clear()
    driver.grids.clear()
    result = call()
    names = [noted["kernel"].__name__ for noted in driver.launched]
    return result, [[name, grid[0] * grid[1] * grid[2]] for name, grid in zip(names, driver.grids)]

layers = [(64, *layer) for layer in RESNET50] + [(8, *layer) for layer in RESNET50 if layer[:3] == (512, 512, 3)]
for batch, channels, filters, size, stride, side in layers:
    x, w, padding = last(batch, channels, side, side), last(filters, channels, size, size), size // 2
    out, forward = launched(lambda: tt.conv2d(x, w, None, stride, padding))
    change, rest = last(*out.shape), ([stride] * 2, [padding] * 2, [1, 1])
    backward = [
        launched(lambda: call(change, other, list(each.shape), *rest, 1))[1]
        for call, other, each in (
            (tt.ops.aten.convolution_backward_input, w, x), (tt.ops.aten.convolution_backward_weight, x, w),
        )
    ]
    print(json.dumps([[batch, channels, filters, size, stride, side], forward, *backward]))
"""


@pytest.fixture(scope="module")
def planned():
    """Return the launches of ResNet-50's convolutions on an H200: forward, gradients of input and weight."""
    lines = map(json.loads, run(PLANNED).splitlines())
    return {tuple(key): launches for key, *launches in lines}


def kernels(launches):
    return [name for name, _ in launches]


def test_strided_layers_of_resnet_use_tensor_maps(planned):
    strided = {key: launches for key, launches in planned.items() if key[4] == 2 and key[1] > 3}
    assert len(strided) == 7
    for (batch, _, _, size, _, _), (forward, to_input, to_weight) in strided.items():
        expected = [STRIDED] if size == 3 else [PLAIN]
        assert kernels(forward) in (expected, ["convolve_bulk_parts", "add_parts"]), (batch, forward)
        assert kernels(to_input) == [PHASES]
        if batch == 64:
            assert kernels(to_weight)[0] == "convolve_backward_weight_bulk"


def test_no_layer_of_resnet_but_the_first_goes_by_pointers(planned):
    for key, launches in planned.items():
        if key[0] == 8:  # the weight's gradient has fewer images than a block there
            continue
        assert key[1] == 3 or not {POINTERS, "convolve_backward_weight", "lay_out"} & {
            name for each in launches for name in kernels(each)
        }, key


def test_few_tiles_are_cut_into_parts_that_fill_the_device(planned):
    for key, (forward, to_input, _) in planned.items():
        for launches in (forward, to_input):
            if "convolve_bulk_parts" in kernels(launches):
                assert kernels(launches) == ["convolve_bulk_parts", "add_parts"]
                assert key[0] == 8 and key[1] * key[3] ** 2 >= 2304
    (forward, *_), (whole, *_) = planned[8, 512, 512, 3, 1, 7], planned[64, 512, 512, 3, 1, 7]
    assert kernels(forward)[0] == "convolve_bulk_parts" and forward[0][1] >= 96
    assert whole == [["convolve_bulk", 112]]


def test_the_model_names_the_tiles_that_were_measured_as_fastest():
    table = read_table(table_path(90))
    kernel = name_of(convolve_bulk)
    measured = {entry.shape: entry for entry in table if entry.kernel == kernel}
    layers = {(56, 64): 9, (28, 128): 18, (14, 256): 36, (7, 512): 72}
    for (side, columns), steps in layers.items():
        positions = (64, side, side)
        entry = measured[shape_class((64 * side * side, columns, 64 * steps))]

        def time(tile, positions=positions, columns=columns, steps=steps):
            candidate = Configuration(tile)
            return tile_time(candidate, tiles_over(positions, columns, candidate), steps, 2, 132)

        tiles = [tuple(map(int, text.split()[0].split("x"))) for text in entry.microseconds]
        fastest = time(min(zip(entry.microseconds.values(), tiles, strict=True))[1])
        assert fastest == min(map(time, tiles)), (side, columns)
