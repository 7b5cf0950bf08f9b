"""`tt.perf.plan`: operators, memory, rooflines of GPUs, and refusals equal counts made by hand."""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
import triten.nn.functional as F
from triten.perf.planning import host_time
from triten.perf.planning.data_sheets import DATA_SHEETS, OF_BANDWIDTH, OF_PEAK

GPUS = tuple(DATA_SHEETS)
THOUSAND = 4000  # bytes of 1000 float32


def meta(*shape: int, dtype: Any = tt.float32, grad: bool = False) -> tt.Tensor:
    return tt.empty(shape, dtype=dtype, device="meta", requires_grad=grad)


def plan_on(device: str, fn: Callable[..., Any], *args: Any) -> tt.perf.Plan:
    return tt.perf.plan(fn, *args, device=device)


def dropped(a: tt.Tensor) -> tt.Tensor:
    b = a + 1.0
    c = b * 2.0
    del b
    return c.exp()  # c and the result: as many as b and c


def kept(a: tt.Tensor) -> list[tt.Tensor]:
    found = [a]
    for _ in range(5):
        found.append(found[-1] + 1.0)
    return found


def replaced(a: tt.Tensor) -> tt.Tensor:
    for _ in range(5):
        a = a + 1.0
    return a


def in_place(a: tt.Tensor) -> tt.Tensor:
    b = a.clone()
    return b.add_(1.0).mul_(2.0).relu_()


def of_views(a: tt.Tensor) -> tt.Tensor:
    b = (a + 1.0).view(10, 100)[3:4]  # a view keeps all of the memory
    return b.clone()


def chain_saved(a: tt.Tensor) -> tt.Tensor:
    # `exp` saves its result; `neg` saves nothing, so that its results die when the next one has the name.
    for _ in range(3):
        a = a.exp().neg()
    return a


def chain_backward(a: tt.Tensor) -> None:
    chain_saved(a).backward(tt.empty_like(a))


# name: (function, operands, bytes given, bytes at the peak)
MEMORY: dict[str, tuple[Callable[..., Any], tuple[Any, ...], int, int]] = {
    "nothing": (lambda: None, (), 0, 0),
    "an argument that nobody reads": (lambda a: None, (meta(1000),), THOUSAND, THOUSAND),
    "one result": (lambda a: a + 1.0, (meta(1000),), THOUSAND, 2 * THOUSAND),
    "a result that is dropped": (dropped, (meta(1000),), THOUSAND, 3 * THOUSAND),
    "results that are kept": (kept, (meta(1000),), THOUSAND, 6 * THOUSAND),
    "results that are replaced; the argument stays": (replaced, (meta(1000),), THOUSAND, 3 * THOUSAND),
    "in place": (in_place, (meta(1000),), THOUSAND, 2 * THOUSAND),
    "views": (lambda a: a.view(10, 100).t()[2:].unsqueeze(0), (meta(1000),), THOUSAND, THOUSAND),
    "a view of a dropped tensor": (of_views, (meta(1000),), THOUSAND, 2 * THOUSAND + 400),
    "an expanded argument": (lambda a: a.sum(), (meta(1).expand(1000),), 4, 8),
    "narrow results": (lambda a: a > 0, (meta(1000),), THOUSAND, THOUSAND + 1000),
    # The argument, and at the last `neg` what `a` is still, its exponential, the result.
    "without gradients nothing is saved": (chain_saved, (meta(1000),), THOUSAND, 4 * THOUSAND),
    "a graph keeps what it saved": (chain_saved, (meta(1000, grad=True),), THOUSAND, 6 * THOUSAND),
    "a backward pass frees it": (
        # Before it: argument, three saved, the last result, the incoming gradient. Then a gradient of `neg` and one of
        # `exp` join, while the first incoming one and the result are still held by the caller.
        chain_backward, (meta(1000, grad=True),), THOUSAND, 8 * THOUSAND,
    ),
    "factories": (lambda: tt.zeros(10) + tt.ones(10), (), 0, 120),
}  # fmt: skip


@pytest.mark.parametrize("name", MEMORY)
def test_the_peak_is_what_is_alive_at_once(name: str) -> None:
    fn, operands, given, peak = MEMORY[name]
    found = plan_on("a100", fn, *operands)
    assert (found.given_bytes, found.peak_bytes) == (given, peak), name


def test_memory_that_arguments_share_counts_once() -> None:
    a = tt.zeros(1000)
    found = plan_on("a100", lambda *given: None, a, a, a[10:20], a.view(10, 100), tt.zeros(5))
    assert found.given_bytes == THOUSAND + 20


def test_a_module_gives_parameters_and_buffers_and_an_optimizer_its_state() -> None:
    model = tt.nn.Sequential(tt.nn.Linear(10, 20, bias=False), tt.nn.BatchNorm1d(20))
    optimizer = tt.optim.Adam(model.parameters())
    parameters, buffers = 200 + 2 * 20, 2 * 20
    assert plan_on("a100", lambda m: None, model).given_bytes == 4 * (parameters + buffers) + 8

    def step(model: Any, optimizer: Any, x: tt.Tensor) -> None:
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    x = tt.randn(8, 10)
    first = plan_on("a100", step, model, optimizer, x)
    step(model, optimizer, x)
    before = [parameter.tolist() for parameter in model.parameters()]
    later = plan_on("a100", step, model, optimizer, x)
    assert later.given_bytes == first.given_bytes + 2 * 4 * parameters + 3 * 4  # moments, and counts of steps
    assert [parameter.tolist() for parameter in model.parameters()] == before
    assert all(parameter.grad is None for parameter in model.parameters())
    calls = {row.name: row.calls for row in later.operators}
    assert calls["aten::_fused_adam_"] == 1


def test_operators_flops_and_bytes_are_those_of_cost() -> None:
    model = tt.nn.Sequential(tt.nn.Conv2d(3, 4, 3), tt.nn.ReLU(), tt.nn.Flatten(), tt.nn.Linear(144, 10))

    def step(model: Any, x: tt.Tensor, y: tt.Tensor) -> None:
        F.cross_entropy(model(x), y).backward()

    args = (model, tt.randn(2, 3, 8, 8), tt.zeros(2, dtype=tt.int64))
    found, counted = plan_on("h100", step, *args), tt.perf.cost(step, *args)
    rows = [(row.name, row.calls, row.flops, row.bytes) for row in found.operators]
    assert rows == [(row.name, row.calls, row.flops, row.bytes) for row in counted.operators]
    assert (found.flops, found.bytes) == (counted.flops, counted.bytes)


@pytest.mark.parametrize("gpu", GPUS)
def test_a_copy_takes_its_bytes_over_the_bandwidth(gpu: str) -> None:
    once, thrice = (
        plan_on(gpu, lambda a, calls: [a.clone() for _ in range(calls)], meta(1 << 28), calls)
        for calls in (1, 3)
    )
    assert once.work_seconds == pytest.approx((1 << 31) / (OF_BANDWIDTH * DATA_SHEETS[gpu].bytes_per_second))
    assert thrice.work_seconds == pytest.approx(3 * once.work_seconds)
    assert thrice.overhead_seconds == pytest.approx(3 * once.overhead_seconds)


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_a_product_takes_its_operations_over_the_peak_of_its_dtype(gpu: str, dtype: str) -> None:
    a = meta(8192, 8192, dtype=getattr(tt, dtype))
    found = plan_on(gpu, lambda a: a @ a, a)
    assert found.work_seconds == pytest.approx(2 * 8192**3 / (OF_PEAK * DATA_SHEETS[gpu].peaks[dtype]))


def test_tensor_cores_multiply_float32_where_it_is_allowed() -> None:
    a = meta(4096, 4096)
    x, w = meta(64, 64, 56, 56), meta(64, 64, 3, 3)

    def seconds() -> tuple[float, float]:
        return plan_on("h100", lambda a: a @ a, a).work_seconds, plan_on("h100", F.conv2d, x, w).work_seconds

    peaks = DATA_SHEETS["h100"].peaks
    product, convolution = seconds()
    flops = tt.perf.cost(F.conv2d, x, w).flops
    assert convolution == pytest.approx(
        max(flops / (OF_PEAK * peaks["tf32"]), tt.perf.cost(F.conv2d, x, w).bytes / (OF_BANDWIDTH * 3.35e12))
    )
    tt.set_float32_matmul_precision("high")
    try:
        faster, unchanged = seconds()
    finally:
        tt.set_float32_matmul_precision("highest")
    assert product / faster == pytest.approx(peaks["tf32"] / peaks["float32"])
    assert unchanged == convolution
    # Outside of products nothing uses the tensor cores: 16-bit elements are computed in float32.
    assert DATA_SHEETS["h100"].peaks["float32"] < peaks["bfloat16"]


def test_float8_products_are_refused_where_there_are_none() -> None:
    a, b = meta(64, 64, dtype=tt.float8_e4m3fn), meta(64, 64, dtype=tt.float8_e4m3fn).t()
    scale = meta()

    def product(a: tt.Tensor, b: tt.Tensor, scale: tt.Tensor) -> tt.Tensor:
        return tt.ops.aten._scaled_mm.default(a, b, scale, scale, out_dtype=tt.bfloat16)

    assert plan_on("h100", product, a, b, scale).work_seconds > 0
    with pytest.raises(ValueError, match=r"_scaled_mm multiplies float8, which A100 SXM 80 GB cannot"):
        plan_on("a100", product, a, b, scale)


def test_overhead_is_of_each_call_and_launches_only_where_a_driver_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def chain(a: tt.Tensor) -> tt.Tensor:
        for _ in range(10):
            a = a.t() + 1.0
        return a

    monkeypatch.setattr(host_time, "_measured", {})
    monkeypatch.setattr(host_time, "seconds_of_call", lambda func, arguments: 0.25)
    plain = plan_on("h100", chain, meta(4, 4))
    assert "launches not measured" in str(plain)
    assert plain.overhead_seconds == 20 * 0.25
    monkeypatch.setattr(host_time, "launch_seconds", lambda: 1.0)
    launched = plan_on("h100", chain, meta(4, 4))
    assert launched.overhead_seconds - plain.overhead_seconds == pytest.approx(10.0)  # views launch nothing
    assert "1000000.00 us for a launch" in str(launched)


def test_autograd_is_charged_by_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_time, "node_seconds", lambda device: 0.5)

    def step(a: tt.Tensor) -> None:
        a.exp().neg().sum().backward()

    found = plan_on("h100", step, meta(8, grad=True))
    assert found.backward_nodes == 4  # sum, neg, exp, and the leaf's
    assert found.autograd_seconds == 4 * 0.5
    assert plan_on("h100", lambda a: a.exp().neg().sum(), meta(8, grad=True)).backward_nodes == 0


@pytest.mark.parametrize("device", ["cpu", "h100"])
def test_a_plan_is_the_same_each_time(device: str) -> None:
    def program(a: tt.Tensor) -> tt.Tensor:
        return F.softmax(a @ a.t(), 1).sum()

    first, second = (plan_on(device, program, meta(32, 32)) for _ in range(2))
    assert first == second
    assert str(first) == str(second)


@pytest.mark.parametrize("device", ["cpu", "h100"])
def test_planning_leaves_everything_as_it_was(device: str) -> None:
    outside = tt.zeros(100, 100)

    def program(a: tt.Tensor) -> tt.Tensor:
        tt.manual_seed(7)
        a.add_(1.0)
        return F.dropout(a, 0.5) + tt.rand(100, 100) + outside.mul_(2.0)

    state, a = tt.get_rng_state().tolist(), tt.zeros(100, 100)
    plan_on(device, program, a)
    assert tt.get_rng_state().tolist() == state
    assert float(a.abs().sum()) == float(outside.abs().sum()) == 0.0
    assert tt.is_grad_enabled()
    x = tt.ones(3, requires_grad=True)
    (x * x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0] * 3


def test_a_program_that_fails_is_no_longer_watched() -> None:
    def program(a: tt.Tensor) -> None:
        (a * 2.0).sum().backward()
        raise KeyError("of the program")

    with pytest.raises(KeyError, match="of the program"):
        plan_on("h100", program, tt.ones(3, requires_grad=True))
    assert float(tt.ones(3).sum()) == 3.0


def test_an_unknown_device_is_refused() -> None:
    with pytest.raises(
        ValueError,
        match=r"device must be one of 'cpu', 'a100', 'h100', 'h200', 'b200', 'l40s', 'rtx5090', got 'v100'",
    ):
        plan_on("v100", lambda a: a, meta(3))


@pytest.mark.parametrize("device", ["cpu", "h100"])
def test_what_a_plan_cannot_be_made_of_is_refused(device: str) -> None:
    outside = tt.ones(3, requires_grad=True)
    with pytest.raises(ValueError, match=r"plan\(\): aten::mul.Tensor got a tensor of size \(3,\) on cpu"):
        plan_on(device, lambda a: (a * outside).sum().backward(), tt.ones(3))
    with pytest.raises(RuntimeError):
        plan_on(device, lambda a: a.item(), tt.ones(()))


def test_a_plan_prints() -> None:
    found = plan_on("h200", lambda a: (a + 1.0) @ a, meta(64, 64))
    lines = str(found).splitlines()
    assert lines[0].split() == ["operator", "calls", "flops", "bytes", "us"]
    assert [line.split()[:4] for line in lines[1:4]] == [
        ["aten::add.Tensor", "1", "4,096", "32,768"],
        ["aten::mm", "1", f"{2 * 64**3:,}", "49,152"],
        ["all", "2", f"{2 * 64**3 + 4096:,}", "81,920"],
    ]
    assert lines[4] == "peak memory 49,152 bytes, 16,384 of them given"
    assert lines[5].startswith("predicted time on h200: 0.0")
    assert "data sheet of H200 SXM 141 GB, 4,800 GB/s" in lines[6]
    assert "no GPU was measured" in lines[6]


def test_what_does_not_fit_is_said() -> None:
    large = meta(1 << 34, 2)
    assert "does not fit: H100 SXM5 80 GB has 80,000,000,000 bytes" in str(
        plan_on("h100", lambda a: None, large)
    )
    assert "does not fit" not in str(plan_on("h200", lambda a: None, large))


def test_planning_needs_neither_triton_nor_cupy() -> None:
    program = (
        "import sys, json; sys.modules.update(triton=None, cupy=None); import triten as tt; "
        "step = lambda a: (a @ a).sum().backward(); "
        "a = tt.ones(4, 4, requires_grad=True); "
        "print(json.dumps([tt.perf.plan(step, a, device=d).peak_bytes for d in ('cpu', 'h100')]))"
    )
    run = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    first, second = json.loads(run.stdout)
    assert first == second > 64
