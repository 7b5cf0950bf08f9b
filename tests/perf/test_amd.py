"""Kernels compiled for AMD's targets, and a compiler that ends its process."""

import argparse

import pytest

pytest.importorskip("triton", reason="triton has no wheel for this platform")

from triten.perf import aot
from triten.perf.ahead_of_time import amd
from triten.perf.ahead_of_time.request import Request
from triten.perf.refusal import RefusalError

DENSE = Request(
    kernel="triten.triton_kernels.elementwise.elementwise:dense",
    target=80,
    signature={"out": "*fp32", "a": "*fp32", "b": "*fp32", "n": "i64"},
    constants={
        "FUNCTION": {"function": "triten.triton_kernels.elementwise.pointwise_functions:add"}, "ARITY": 2,
        **{f"KIND_{name}": kind for name, kind in zip("ABCD", (1, 1, 0, 0), strict=True)},
        **{f"TYPE_{name}": {"dtype": "fp32"} for name in "ABCD"}, "c": None, "d": None, "BLOCK": 1024,
    },
    divisible=["a", "b", "out"],
    options={"num_warps": 4, "num_stages": 3, "enable_fp_fusion": False},
    key="",
)  # fmt: skip


def test_a_kernel_compiles_and_a_compiler_that_aborts_costs_its_own_kernel():
    missing = Request("triten.triton_kernels.launch:no_such_kernel", 80, {}, {}, [], {}, "")
    aborting = Request("triten.tests.perf.ends_its_process:kernel", 80, {}, {}, [], {}, "")
    first, second, third = amd.compile_all([missing, aborting, DENSE], "gfx942")
    assert "no_such_kernel" in first.error
    assert "ended the process with status 9" in second.error
    assert third == amd.Compiled(DENSE.kernel, "gfx942")
    text = amd.table([first, second, third])
    assert text.splitlines()[0] == "gfx942: 1 of 3 kernels compile; none has run"
    assert len(text.splitlines()) == 3


def test_the_targets_of_two_vendors_are_two_runs():
    assert (aot.target_of("90"), aot.target_of("gfx1100")) == (90, "gfx1100")
    parser = argparse.ArgumentParser()
    aot.add_arguments(parser)
    with pytest.raises(RefusalError, match="two runs"):
        aot.run(parser.parse_args(["--target", "90", "gfx942"]))
