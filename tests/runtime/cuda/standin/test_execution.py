"""Executed operators, compiled for sm_80 and launched through CuPy's driver, agree with the CPU."""

import importlib.util
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import triten as tt
import triten.nn.functional as F
from triten.runtime.cuda.driver import Driver, driver
from triten.tests.shared.operands import SGD
from triten.triton_kernels.tuning.autotune import tune

pytestmark = pytest.mark.standin(execute=1)
EXAMPLE = Path(__file__).resolve().parents[4] / "examples" / "train_digits.py"


def numbers(*sizes, seed=1):
    return tt.from_numpy(np.random.default_rng(seed).standard_normal(sizes).astype(np.float32))


X, Y, INDEX = numbers(37, 45), numbers(45, 20, seed=2), tt.tensor([3, 0, 36, 3])
PROGRAMS = {
    "add": (lambda x, y, i: x + 2 * x, 0),
    "relu": (lambda x, y, i: F.relu(x), 0),
    "sum": (lambda x, y, i: x.sum(1), 1e-6),
    "mm": (lambda x, y, i: x @ y, 1e-5),
    "softmax": (lambda x, y, i: F.softmax(x, 1), 1e-6),
    "sort": (lambda x, y, i: tt.sort(x, 1).values, 0),
    "index": (lambda x, y, i: x[i], 0),
    "index_put": (lambda x, y, i: x.clone().index_put_((i,), x[:4] * 2, accumulate=True), 1e-6),
    "copy": (lambda x, y, i: x.T.contiguous(), 0),
    "where": (lambda x, y, i: tt.where(x > 0, x, -x), 0),
    "layer_norm": (lambda x, y, i: F.layer_norm(x, (45,)), 1e-5),
    "cumsum": (lambda x, y, i: x.cumsum(0), 1e-5),
    "bfloat16": (lambda x, y, i: (x.bfloat16() * 1.5).float(), 0),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_operator_gives_the_values_of_the_cpu(standin, name):
    program, tolerance = PROGRAMS[name]
    got = program(X.cuda(), Y.cuda(), INDEX.cuda()).cpu().numpy()
    expected = program(X, Y, INDEX).numpy()
    assert standin.launches
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


def test_random_numbers_are_those_of_the_cpu(standin):
    drawn = {}
    for device in ("cpu", "cuda"):
        generator = tt.Generator(device).manual_seed(5)
        drawn[device] = tt.rand(1000, device=device, generator=generator).cpu().numpy()
    np.testing.assert_array_equal(drawn["cuda"], drawn["cpu"])


def test_addresses_that_are_no_multiples_of_16_take_another_kernel_and_are_right(standin):
    a, b = numbers(1001), numbers(1000, seed=2)
    there, other = a.cuda(), b.cuda()
    there[:1000] - other
    standin.clear()
    got = there[1:] - other
    assert standin.counts["cuModuleLoadData"] == 1
    np.testing.assert_array_equal(got.cpu().numpy(), a.numpy()[1:] - b.numpy())


def test_more_than_48_kib_of_shared_memory(standin):
    import triton
    import triton.language as tl

    @triton.jit
    def product(a, b, out, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, K: tl.constexpr):
        rows, columns, inner = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
        total = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            left = tl.load(a + rows[:, None] * K + (k + inner)[None, :])
            right = tl.load(b + (k + inner)[:, None] * BN + columns[None, :])
            total = tl.dot(left, right, total)
        tl.store(out + rows[:, None] * BN + columns[None, :], total)

    a = tt.from_numpy(np.arange(128 * 256).reshape(128, 256) % 5 - 2).half()
    b = tt.from_numpy(np.arange(256 * 128).reshape(256, 128) % 7 - 3).half()
    out = tt.empty(128, 128, device="cuda")
    tt.library.use_triton_driver()
    product[(1,)](a.cuda(), b.cuda(), out, 128, 128, 64, 256, num_stages=3, num_warps=8)
    assert standin.launches[-1].integer("shared") > 48 * 1024
    np.testing.assert_array_equal(out.cpu().numpy(), (a.float() @ b.float()).numpy())


def test_memory_that_is_split_and_reused(standin):
    """Create and drop tensors of many sizes; each keeps its values in reused memory."""
    rng = np.random.default_rng(3)
    held = {}
    for step in range(60):
        name = int(rng.integers(8))
        held.pop(name, None)
        size = int(rng.choice([1, 100, 3000, 70_000, 400_000]))
        held[name] = tt.full((size,), float(step), device="cuda"), step
        if step % 10 == 9:
            for tensor, value in held.values():
                ends = tensor[:: max(tensor.numel() - 1, 1)].cpu().numpy()
                assert (ends == value).all()
    held.clear()
    tt.cuda.empty_cache()


def test_a_training_step_is_the_cpus(standin):
    spec = importlib.util.spec_from_file_location("train_digits", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)

    def trained(device):
        tt.backends.cudnn.allow_tf32 = False
        tt.manual_seed(0)
        model = example.ConvNet().to(device)
        images, labels, _, _ = example.load_digits(device)
        optimizer = tt.optim.SGD(model.parameters(), 0.05, 0.9)
        for _ in range(2):
            optimizer.zero_grad()
            F.cross_entropy(model(images[:8]), labels[:8]).backward()
            optimizer.step()
        return [parameter.detach().cpu().numpy() for parameter in model.parameters()]

    for got, expected in zip(trained("cuda"), trained("cpu"), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


FILL = b"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry fill(.param .u64 fill_param_0, .param .f32 fill_param_1)
{
    .reg .b64 %rd<4>; .reg .b32 %r<3>; .reg .f32 %f<2>;
    ld.param.u64 %rd1, [fill_param_0];
    ld.param.f32 %f1, [fill_param_1];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.f32 [%rd3], %f1;
    ret;
}
"""


def test_ptx_is_loaded_as_the_driver_loads_it(standin):
    import cupy

    out = tt.zeros(64, device="cuda")
    module = cupy.cuda.Module()
    module.load(FILL + b"\0")
    fill = module.get_function("fill")
    fill((1,), (64,), (out.data_ptr(), np.float32(2.5)), stream=cupy.cuda.Stream.null)
    np.testing.assert_array_equal(out.cpu().numpy(), np.full(64, 2.5, np.float32))
    with pytest.raises(cupy.cuda.driver.CUDADriverError, match="NOT_FOUND"):
        module.get_function("other")


@pytest.mark.standin(execute=1, blocks=0)
def test_segments_of_which_the_allocator_tells_nothing(standin):
    """Run the allocator's path without notes, as on a GPU."""
    assert type(driver()).note_allocated is Driver.note_allocated
    a = numbers(5000).cuda()
    for _ in range(5):
        a = a * 1.5 + 1
    expected = numbers(5000).numpy()
    for _ in range(5):
        expected = expected * np.float32(1.5) + 1
    np.testing.assert_array_equal(a.cpu().numpy(), expected)


WARM = """
import sys
from triten.tests.runtime.cuda.standin.install import install
install()
import triten as tt
a = tt.arange(300.0).cuda()
print(((a + 1).relu() * a).sum().item(), "triton" in sys.modules)
with tt.library.use_triton_driver():  # Triton may be imported here, for the first time
    print("triton" in sys.modules)
"""


def test_a_second_process_takes_kernels_from_the_store_without_triton(standin):
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"TRITEN_CACHE_DIR": folder}
        command = [sys.executable, "-P", "-c", WARM]
        told = [
            subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            for _ in range(2)
        ]
    assert all(run.returncode == 0 for run in told), [run.stderr for run in told]
    (first, compiled, _), (second, warm, imported) = (run.stdout.split() for run in told)
    assert float(first) == float(second) == (tt.arange(300.0) * tt.arange(1.0, 301.0)).sum().item()
    assert (compiled, warm, imported) == ("True", "False", "True")


def test_autotune_times_what_the_function_launches_and_no_copies_of_its_results(standin):
    arguments = [[tt.full((40,), float(place + 1), device="cuda")] for place in range(3)]
    options = SGD | {"weight_decay": 0.1}
    run = partial(tt._fused_sgd_, *arguments, **options)
    before = os.environ.get("TRITEN_TUNING_STORE")
    os.environ["TRITEN_TUNING_STORE"] = "0"
    try:
        report = tune(run, arguments, lambda device: Timer(), 1, 1)
    finally:
        os.environ.pop("TRITEN_TUNING_STORE")
        if before is not None:
            os.environ["TRITEN_TUNING_STORE"] = before
    assert [finding.question.kernel.rpartition(":")[2] for finding in report.findings] == ["fused_sgd"]
    assert len(report.findings[0].times) > 1
    assert [t[0].cpu().numpy().tolist() for t in arguments] == [[1.0] * 40, [2.0] * 40, [3.0] * 40]


class Timer:
    """Timer that returns the same time for every candidate."""

    def microseconds(self, run):
        run()
        return 1.0
