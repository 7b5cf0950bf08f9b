"""The gate: what the compiler makes of every skeleton for real targets, without a GPU.

Operators run on a driver that compiles each launch and runs none, in a process without the interpreter.
"""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

if sys.platform != "linux":  # where a wheel exists, a missing Triton is a failure
    pytest.importorskip("triton", reason="triton has no wheel for this platform")

PROGRAM = Path(__file__).with_name("ahead_of_time.py")
CAPABILITIES = (80, 90)
TRIGONOMETRIC = ("normal_", "log_normal_", "cauchy_", "normal")
ARGUMENT_REDUCTION = 48
"""Bytes of the table with which libdevice reduces large float64 arguments, on a path that is never taken."""
TENSOR_CORES = {80: {"mma.sync"}, 90: {"wgmma.mma_async"}}


def compile_all(capability):
    environment = {k: v for k, v in os.environ.items() if k not in ("TRITEN_CUDA", "TRITON_INTERPRET")}
    return subprocess.run(
        [sys.executable, "-P", PROGRAM, str(capability)], env=environment, capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def kernels():
    with ThreadPoolExecutor() as pool:
        done = dict(zip(CAPABILITIES, pool.map(compile_all, CAPABILITIES), strict=True))
    for capability, process in done.items():
        assert process.returncode == 0, f"sm_{capability}: {process.stderr[-3000:]}"
    return {capability: json.loads(process.stdout) for capability, process in done.items()}


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_every_skeleton_was_compiled(kernels, capability):
    assert {found["kernel"] for found in kernels[capability]} == {
        "dense",
        "strided",
        "reduce",
        "reduce_jointly",
        "softmax",
        "softmax_backward",
        "prefix_sums",
        "nll_loss",
        "nll_loss_backward",
        "matmul",
        "matvec",
        "indexed",
        "pick",
        "locate",
        "elect",
        "place",
        "combine_runs",
        "count_digits",
        "move_by_digit",
        "running_total",
        "count_nonzero",
        "write_nonzero",
        "triangle",
        "scale_rows",
        "fill_with_draws",
        "drop",
        "rank_all",
        "count_buckets",
        "add_up_buckets",
        "fill_buckets",
        "rank_buckets",
        "inspect",
        "running_sums",
        "search",
        "rank",
        "max_pool",
        "max_pool_backward",
        "average_pool",
        "average_pool_backward",
        "convolve",
        "convolve_backward_input",
        "convolve_backward_weight",
    }


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_no_kernel_spills_traps_or_wants_more_shared_memory_than_there_is(kernels, capability):
    faults = [
        found
        for found in kernels[capability]
        if found["local"] > (ARGUMENT_REDUCTION if found["label"].startswith(TRIGONOMETRIC) else 0)
        or found["trap"]
        or found["shared_left"] < 0
    ]
    assert faults == []


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_aligned_operands_are_accessed_128_bits_at_a_time(kernels, capability):
    aligned = [found for found in kernels[capability] if found["label"].endswith("aligned, whole")]
    assert len(aligned) >= 10
    assert [found for found in aligned if found["widest"] != 128] == []


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_unaligned_operands_are_not(kernels, capability):
    found = [found for found in kernels[capability] if "unaligned" in found["label"]]
    assert [f["widest"] for f in found] == [32] * len(found) != []


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bit_products_use_tensor_cores(kernels, capability, dtype):
    for operator in ("mm", "conv2d"):
        found = [
            f for f in kernels[capability] if f["label"] == f"{operator} {dtype}" and f["kernel"] != "reduce"
        ]
        assert found
        assert all(set(f["matrix"]) == TENSOR_CORES[capability] for f in found)


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_float32_products_are_exact_to_ieee(kernels, capability):
    found = [f for f in kernels[capability] if f["label"] in ("mm float32", "conv2d float32")]
    assert len(found) >= 4
    assert all(f["matrix"] == [] for f in found), "TF32 would round the inputs"
