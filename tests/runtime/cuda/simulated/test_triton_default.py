"""Triton's default driver on simulated devices, for either order of imports, before any CUDA call."""

import importlib.util
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="triton has no wheel for this platform"
)

TRITEN_FIRST = "import torch\nimport triton\n"
TRITON_FIRST_AND_A_KERNEL = """
import triton
import triton.language as tl
from triton.language.extra.libdevice import rsqrt

@triton.jit
def early(x):
    tl.store(x, rsqrt(tl.load(x)) + tl.sum(tl.arange(0, 4)))

import triten.as_torch
import torch
"""
PROGRAM = """
import triton.language as tl
from triton.language import exp
from triton.language.extra import libdevice
from triton.language.extra.cuda.libdevice import asin
from triton.language.extra.libdevice import rsqrt

active = triton.runtime.driver.active
print(active.get_active_torch_device(), triton.runtime.driver.active is active)
properties = active.utils.get_device_properties(0)
print(sorted(properties), all(value > 0 for value in properties.values()))

@triton.autotune([triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 64})], key=["n"])
@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n, other=1.0)
    value = rsqrt(value) + asin(value) + libdevice.cos(value) + exp(value) + value.sum() * 0
    tl.store(y + i, value, mask=i < n)

x = torch.linspace(0.1, 0.9, 100, device="cuda")
y = torch.empty_like(x)
kernel[lambda meta: (triton.cdiv(100, meta["BLOCK"]),)](x, y, 100)
host = x.cpu()
print(torch.allclose(y.cpu(), host.rsqrt() + host.asin() + host.cos() + host.exp()))
if "early" in globals():
    early[(1,)](x)
    print(torch.allclose(x[:1].cpu(), host[:1].rsqrt() + 6))
"""
PROPERTIES = sorted(
    [
        "max_shared_mem",
        "max_num_regs",
        "multiprocessor_count",
        "warpSize",
        "sm_clock_rate",
        "mem_clock_rate",
        "mem_bus_width",
    ]
)


@pytest.mark.parametrize("mode", ["interpret", "emulate"])
@pytest.mark.parametrize("begin", [TRITEN_FIRST, TRITON_FIRST_AND_A_KERNEL])
def test_programs_ask_triton_for_its_driver_before_they_use_a_device(tmp_path, mode, begin):
    program = tmp_path / "program.py"  # Triton reads a kernel's source from a file
    program.write_text(begin + PROGRAM)
    variables = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-P", *(["-m", "triten.as_torch"] if begin is TRITEN_FIRST else []), program]
    run = subprocess.run(command, env={**variables, "TRITEN_CUDA": mode}, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    first, second, *results = run.stdout.splitlines()
    assert first == "cuda:0 True" and second == f"{PROPERTIES} True"
    assert results == ["True"] * (1 if begin is TRITEN_FIRST else 2)
