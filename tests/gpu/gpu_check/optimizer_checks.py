"""Steps of optimizers over lists of tensors: the CPU's bits, one launch, in a graph too."""

from __future__ import annotations

from typing import Any

import numpy as np

import triten as tt

from .first_checks import check, is_rehearsal, require, some_of

SIZES = (1, 0, 1000, 4096, 100_003)
DTYPES = ("float32", "bfloat16", "float16", "float64")
SGD = {
    "weight_decay": 0.1,
    "momentum": 0.9,
    "lr": 0.1,
    "dampening": 0.5,
    "nesterov": False,
    "maximize": False,
    "is_first_step": False,
}
ADAM = {
    "lr": 0.1,
    "beta1": 0.9,
    "beta2": 0.99,
    "weight_decay": 0.1,
    "eps": 1e-8,
    "amsgrad": True,
    "maximize": False,
}
ULPS = 4
"""Between Adam on the CPU and on the device: both raise a float64 to a power in their own way, then round it."""


def lists(count: int, dtype: str) -> tuple[list[list[Any]], list[list[Any]]]:
    """So many lists of tensors on the host, and the same on the device; one begins at an odd address."""
    rng = np.random.default_rng(11)
    host: list[list[Any]] = []
    device: list[list[Any]] = []
    for _ in range(count):
        arrays = [np.abs(rng.standard_normal(size)).astype(np.float32) for size in SIZES]
        host.append([tt.from_numpy(a).to(getattr(tt, dtype)) for a in arrays])
        device.append([t.to("cuda") for t in host[-1]])
        odd = tt.zeros(SIZES[-2] + 1, device="cuda", dtype=getattr(tt, dtype))[1:]
        device[-1][-2] = odd.copy_(device[-1][-2])
    return host, device


def compare(host: list[list[Any]], device: list[list[Any]], ulps: int, what: str) -> None:
    """Raise unless all tensors agree, within so many units in the last place of each."""
    for place, (a, b) in enumerate(zip(sum(host, []), sum(device, []), strict=True)):  # noqa: RUF017 - a few lists
        expected, got = (t.cpu().to(tt.float64).numpy() for t in (a, b))
        if ulps == 0:
            wrong = int((~((got == expected) | (np.isnan(got) & np.isnan(expected)))).sum())
            require(wrong == 0, f"{what}, tensor {place}: {wrong} of {got.size} elements differ")
        elif expected.size:
            unit = float(tt.finfo(a.dtype).eps)
            apart = float((np.abs(got - expected) / (np.abs(expected) + np.abs(expected).max())).max())
            require(apart <= ulps * unit, f"{what}, tensor {place}: {apart / unit:.1f} units apart")


@check("optimizers: fused SGD has the CPU's bits")
def fused_sgd() -> str:
    for dtype in some_of(DTYPES):
        host, device = lists(3, dtype)
        for scale in (None, 4.0):
            for tensors, where in ((host, "cpu"), (device, "cuda")):
                scaled = None if scale is None else tt.tensor(scale, device=where)
                tt._fused_sgd_(*tensors, **SGD, grad_scale=scaled)
        compare(host, device, 0, f"_fused_sgd_ in {dtype}")
    return f"{len(SIZES)} tensors in {', '.join(some_of(DTYPES))}"


@check("optimizers: fused Adam and AdamW agree with the CPU")
def fused_adam() -> str:
    for dtype in some_of(DTYPES):
        for name in ("_fused_adam_", "_fused_adamw_"):
            host, device = lists(5, dtype)
            for tensors, where in ((host, "cpu"), (device, "cuda")):
                steps = [tt.tensor(7.0, device=where) for _ in SIZES]
                getattr(tt, name)(*tensors, steps, **ADAM)
            compare(host, device, ULPS, f"{name} in {dtype}")
    return f"{len(SIZES)} tensors in {', '.join(some_of(DTYPES))}"


@check("optimizers: operators over lists have the bits of those over their tensors")
def over_lists() -> str:
    for dtype in some_of(DTYPES):
        host, device = lists(3, dtype)
        for a, b, c in (host, device):
            tt._foreach_mul_(a, 0.75)
            tt._foreach_add_(a, b, alpha=0.3)
            tt._foreach_addcdiv_(a, b, c, value=-0.5)
            tt._foreach_lerp_(a, c, 0.25)
            tt._foreach_mul_(b, tt.tensor(0.3, device=b[0].device))
            tt._foreach_copy_(c, tt._foreach_sqrt(tt._foreach_maximum(c, b)))
        compare(host, device, 0, f"operators over lists in {dtype}")
    return f"{len(SIZES)} tensors in {', '.join(some_of(DTYPES))}"


@check("optimizers: norms of lists, and clipping by them, agree with float64")
def norms_of_lists() -> str:
    for dtype in some_of(DTYPES):
        (host,), (device,) = lists(1, dtype)
        host, device = ([t for t in tensors if t.numel()] for tensors in (host, device))
        wide = [t.to(tt.float64).numpy() for t in host]
        # Sums of float64 are in float64, on both sides.
        unit = float(tt.finfo(host[0].dtype).eps) * (100 if dtype == "float64" else 1)
        for order in (1.0, 2.0, float("inf")):
            expected = [float(tt.tensor(np.linalg.norm(t, order)).to(host[0].dtype).item()) for t in wide]
            got = [float(t.item()) for t in tt._foreach_norm(device, order)]
            wrong = [
                i for i, (a, b) in enumerate(zip(got, expected, strict=True)) if abs(a - b) > 2 * unit * b
            ]
            require(
                not wrong, f"norms of order {order} in {dtype}: tensors {wrong}: {got}, expected {expected}"
            )
        parameters = [tt.nn.Parameter(tt.zeros_like(t)) for t in device]
        for parameter, gradient in zip(parameters, device, strict=True):
            parameter.grad = gradient
        total = float(np.sqrt(sum((t**2).sum() for t in wide)))
        found = float(tt.nn.utils.clip_grad_norm_(parameters, 1.5).item())
        require(abs(found - total) <= 2 * unit * total, f"total norm in {dtype}: {found}, expected {total}")
        for place, (t, g) in enumerate(zip(wide, device, strict=True)):
            apart = np.abs(g.cpu().to(tt.float64).numpy() - t * (1.5 / (total + 1e-6)))
            require(
                bool((apart <= 4 * unit * np.abs(t)).all()),
                f"clipped in {dtype}, tensor {place}: {apart.max()}",
            )
    return f"{len(SIZES) - 1} tensors in {', '.join(some_of(DTYPES))}"


@check("optimizers: a graph replays a step at a rate and with findings in memory")
def in_a_graph() -> str:
    host, device = lists(3, "float32")
    rate, found = tt.tensor(0.1, device="cuda"), tt.zeros((), device="cuda")
    options = SGD | {"lr": rate, "found_inf": found}
    tt._fused_sgd_(*device, **options)
    graph = tt.cuda.CUDAGraph()
    with tt.cuda.graph(graph):
        tt._fused_sgd_(*device, **options)
    rate.fill_(0.05)
    graph.replay()
    found.fill_(1.0)
    graph.replay()
    for lr in (float(np.float32(0.1)), float(np.float32(0.05))):
        tt._fused_sgd_(*host, **SGD | {"lr": lr})
    compare(host, device, 0, "replayed steps")
    return "two steps and one that was left out"


@check("optimizers: gradients are unscaled, and infinities found, in one launch")
def unscale() -> str:
    for dtype in some_of(DTYPES):
        for bad in (None, float("inf"), float("nan")):
            host, device = lists(1, dtype)
            if bad is not None:
                for tensors in (host, device):
                    tensors[0][-1][-1] = bad
            found = [tt.zeros((), device=where) for where in ("cpu", "cuda")]
            for tensors, flag in ((host, found[0]), (device, found[1])):
                tt._amp_foreach_non_finite_check_and_unscale_(
                    tensors[0], flag, tt.tensor(0.3, device=flag.device)
                )
            compare(host, device, 0, f"unscaled in {dtype}")
            require(
                found[1].item() == found[0].item() == (bad is not None), f"{dtype}: {bad} was found wrongly"
            )
    return ", ".join(some_of(DTYPES))


@check("tuning: autotune times candidates and leaves arguments as they were", on_a_card=True)
def autotune() -> str:
    size = 40_000 if is_rehearsal() else 4_000_000
    tensors = [[tt.full((size,), float(place + 1), device="cuda")] for place in range(3)]
    report = tt.triton_kernels.autotune(tt._fused_sgd_, *tensors, **SGD)
    (finding,) = report.findings
    require(all(times.median > 0 for times in finding.times.values()), f"times of nothing: {report}")
    values = [float(t[0].amax().item()) for t in tensors] + [float(t[0].amin().item()) for t in tensors]
    require(values == [1.0, 2.0, 3.0] * 2, f"the arguments were left as {values}")
    return str(report)
