"""Operators over the stand-in make the expected driver calls, and no others.

Tests that read the bytes of arguments compile kernels for real. Tests that only count calls use made-up code,
which the stand-in does not run.
"""

import importlib.util
import struct
import threading
from collections import Counter
from pathlib import Path

import pytest

import triten as tt
import triten.nn.functional as F
from triten.runtime.cuda.driver import driver
from triten.tests.runtime.cuda.standin.made_up_kernels import names, settled, without_code

WITHOUT_CODE = pytest.mark.standin(without_code=1)
EXAMPLE = Path(__file__).resolve().parents[4] / "examples" / "train_digits.py"


def test_a_maximum_is_one_launch_with_the_addresses_of_its_tensors(standin):
    # No other test here takes this operator, so that its kernel is not loaded yet.
    a = tt.ones(1000, device="cuda")
    b = tt.ones(1000, device="cuda")
    out = tt.empty(1000, device="cuda")
    tt.fmax(a, b, out=out)
    load, function, *_ = [call for call in standin.calls if "Module" in call.name][-2:]
    assert (load.name, function.name) == ("cuModuleLoadData", "cuModuleGetFunction")
    calls = standin.during(lambda: tt.fmax(a, b, out=out))
    (call,) = calls
    assert (call.name, call["function"]) == ("cuLaunchKernel", function["function"])
    assert call.triple("block") == (128, 1, 1)
    assert call.triple("grid") == (1, 1, 1), "1024 elements are a block of 4 KiB"
    assert (call.integer("shared"), call.integer("stream")) == (0, 0)
    addresses = [struct.pack("Q", tensor.data_ptr()) for tensor in (out, a, b)]
    assert call.values == [*addresses, struct.pack("q", 1000), bytes(8), bytes(8)]


def test_addresses_that_are_no_multiples_of_16_take_another_kernel(standin):
    a, b = tt.ones(1001, device="cuda"), tt.ones(1000, device="cuda")
    a[:1000] + b
    assert names(standin.during(lambda: a[:1000] + b)) == ["cuLaunchKernel"]
    standin.clear()
    a[1:] + b
    assert standin.counts["cuModuleLoadData"] == 1
    (call,) = standin.launches
    assert int.from_bytes(call.values[1], "little") == a.data_ptr() + 4
    assert names(standin.during(lambda: a[1:] + b)) == ["cuLaunchKernel"]


def test_numbers_are_passed_in_the_type_that_is_computed_in(standin):
    half = tt.ones(16, device="cuda", dtype=tt.float16)
    half * 1.5
    (call,) = settled(standin, lambda: half * 1.5)
    assert struct.pack("f", 1.5) in call.values
    double = tt.ones(16, device="cuda", dtype=tt.float64)
    (call,) = settled(standin, lambda: double * 0.1)
    assert struct.pack("d", 0.1) in call.values


def test_a_product_through_tensor_maps_encodes_one_for_each_address_once(standin):
    a, b, other = (tt.ones(512, 512, device="cuda", dtype=tt.bfloat16) for _ in range(3))
    out = tt.empty(512, 512, device="cuda", dtype=tt.bfloat16)
    tt.mm(a, b, out=out)
    assert standin.counts["cuTensorMapEncodeTiled"] == 3
    (call,) = standin.during(lambda: tt.mm(a, b, out=out))
    assert call.name == "cuLaunchKernel"
    described = [value for value in call.values if len(value) == 128]
    assert [int.from_bytes(value[:8], "little") for value in described] == [
        tensor.data_ptr() for tensor in (a, b, out)
    ]
    calls = standin.during(lambda: tt.mm(a, other, out=out))
    assert names(calls) == ["cuTensorMapEncodeTiled", "cuDriverGetVersion", "cuLaunchKernel"]


@WITHOUT_CODE
@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ("add", ["dense"]),
        ("relu", ["dense"]),
        ("sum", ["reduce"]),
        ("mm", ["matmul"]),
        ("copy_", ["dense"]),
        ("conv2d", ["convolve"]),
        ("softmax", ["softmax"]),
        ("strided add", ["rows"]),
        ("view", []),
        ("empty", []),
        ("add of nothing", []),
    ],
)
def test_an_operator_that_has_run_before_only_launches(standin, operator, expected):
    without_code()
    a, b, m = (tt.ones(16, 16, device="cuda") for _ in range(3))
    images, filters = tt.ones(4, 3, 16, 16, device="cuda"), tt.ones(8, 3, 3, 3, device="cuda")
    nothing = tt.ones(0, 16, device="cuda")
    program = {
        "add": lambda: a + b,
        "relu": lambda: F.relu(a),
        "sum": lambda: a.sum(),
        "mm": lambda: a @ m,
        "copy_": lambda: a.copy_(b),
        "conv2d": lambda: F.conv2d(images, filters, padding=1),
        "softmax": lambda: F.softmax(a, dim=1),
        "strided add": lambda: a + b.T,
        "view": lambda: a.view(256),
        "empty": lambda: tt.empty(16, device="cuda"),
        "add of nothing": lambda: nothing + nothing,
    }[operator]
    calls = settled(standin, program)
    assert names(calls) == ["cuLaunchKernel"] * len(expected)
    assert [call["function"] for call in calls] == expected


@WITHOUT_CODE
def test_the_host_waits_only_where_it_reads(standin):
    without_code()
    a = tt.ones(16, device="cuda")
    assert names(settled(standin, a.sum().item)) == ["cuMemcpyDtoHAsync", "cuStreamSynchronize"]
    assert names(settled(standin, a.cpu)) == ["cuMemcpyDtoHAsync", "cuStreamSynchronize"]
    host = tt.ones(16)
    assert names(settled(standin, lambda: host.to("cuda"))) == ["cuMemcpyHtoDAsync", "cuStreamSynchronize"]


def train_digits():
    spec = importlib.util.spec_from_file_location("train_digits", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@WITHOUT_CODE
def test_a_training_step_allocates_nothing_once_it_has_run_and_waits_for_nothing(standin):
    without_code()
    example = train_digits()
    images, labels, _, _ = example.load_digits("cuda")
    model = example.ConvNet().to("cuda")
    optimizer = tt.optim.SGD(model.parameters(), 0.05, 0.9)

    def step():
        optimizer.zero_grad()
        F.cross_entropy(model(images[:32]), labels[:32]).backward()
        optimizer.step()

    calls = settled(standin, step)
    counts = Counter(names(calls))
    print(counts, [c.name for c in calls if c.name != "cuLaunchKernel"])
    # One begins while the one before it still runs.
    assert 20 < counts.pop("cuLaunchKernel") + counts.pop("cuLaunchKernelEx", 0) < 40
    # The optimizer's table of addresses, where gradients lie elsewhere than a step before.
    table = {
        "cuMemcpyHtoDAsync": 1,
        "cuEventQuery": 1,
        "cuEventDestroy": 1,
        "cuEventCreate": 1,
        "cuEventRecord": 1,
    }
    assert counts in ({}, table)
    assert {call.integer("stream") for call in calls if "stream" in call.arguments} == {0}
    again = standin.during(step)
    kernels = [call["function"] for call in calls if "function" in call.arguments]
    assert [call["function"] for call in again if "function" in call.arguments] == kernels


@WITHOUT_CODE
def test_work_goes_to_the_current_stream_of_the_thread(standin):
    without_code()
    a, b = tt.ones(16, device="cuda"), tt.ones(16, device="cuda")
    a + b
    stream = driver().create_stream(0)
    seen = []

    def other_thread():
        standin.during(lambda: tt.add(a, b, out=a))
        seen.extend(call.integer("stream") for call in standin.launches)

    driver().set_stream(0, stream)
    try:
        (call,) = standin.during(lambda: tt.add(a, b, out=a))
        assert call.integer("stream") == stream
        thread = threading.Thread(target=other_thread)
        thread.start()
        thread.join()
    finally:
        driver().set_stream(0, 0)
    assert seen == [0]
    (call,) = standin.during(lambda: tt.add(a, b, out=a))
    assert call.integer("stream") == 0


@WITHOUT_CODE
def test_work_runs_on_the_device_of_its_tensors(standin):
    without_code()
    first = tt.ones(16, device="cuda:0")
    second = tt.ones(16, device="cuda:1")
    assert tt.cuda.current_device() == 0
    standin.clear()
    second + second
    (call,) = standin.launches
    assert call.device == 1
    assert tt.cuda.current_device() == 0
    standin.clear()
    first + first
    assert [call.device for call in standin.launches] == [0]
    with tt.cuda.device(1):
        standin.clear()
        second + second
        first + first
    assert [call.device for call in standin.launches] == [1, 0]
    # Each device has loaded its own: functions of one device do not run on another.
    assert len({call.arguments["stream"] for call in standin.launches}) == 1


@WITHOUT_CODE
def test_a_second_thread_works_on_the_second_device(standin):
    without_code()
    assert tt.cuda.current_device() == 0
    results = []

    def work():
        tt.cuda.set_device(1)
        a = tt.ones(16, device="cuda")
        standin.clear()
        a + a
        results.extend((a.device.index, call.device) for call in standin.launches)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert results == [(1, 1)]
    assert tt.cuda.current_device() == 0


@WITHOUT_CODE
def test_tensors_on_two_devices_are_refused_and_copied_when_asked(standin):
    without_code()
    first, second = tt.ones(16, device="cuda:0"), tt.zeros(16, device="cuda:1")
    with pytest.raises(RuntimeError, match="at least two devices, cuda:0 and cuda:1"):
        first + second
    standin.clear()
    moved = first.to("cuda:1")
    assert moved.device.index == 1
    (copy,) = standin.named("cuMemcpyAsync", "cuMemcpyPeerAsync")
    assert copy.integer("src") == first.data_ptr()
    assert copy.integer("dst") == moved.data_ptr()


@WITHOUT_CODE
def test_memory_comes_in_few_segments(standin):
    without_code()
    tt.cuda.empty_cache()
    standin.clear()
    held = [tt.empty(1000, device="cuda") for _ in range(200)]
    assert standin.counts["cuMemAlloc"] <= 2, "of 2 MiB each"
    del held
    standin.clear()
    held = [tt.empty(1000, device="cuda") for _ in range(200)]
    assert standin.sequence == []
    del held
